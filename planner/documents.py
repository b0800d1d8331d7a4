"""Plans in and out of files: `read_plan`, `load_plan`, `write_yaml`; a document that is no plan becomes findings.

text --sources--> plain JSON --pydantic--> Plan
          |                       |
          +------- findings ------+   with pointer, line, column, excerpt and the nearest name
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ..policies.text import nearest
from .findings import Finding, PlanUnreadable, pointer_to, quoted
from .plan import Patch, Plan, Step, Undo
from .sources import CAPS, Caps, Json, Source, read_bytes, read_document, read_json, read_source, yaml_text

__all__ = [
    "CAPS",
    "MAX_STEPS",
    "Caps",
    "Source",
    "load_plan",
    "patch_from",
    "plan_from",
    "read_document",
    "read_json",
    "read_patch",
    "read_plan",
    "read_source",
    "write_yaml",
]

MAX_STEPS = 10_000
"""A plan is read by people and by models; what needs more steps needs `each`."""

_TOLD = 500
"""So many faults of one unreadable document are told one by one."""

_ELSEWHERE = {
    "action": "tool",
    "arguments": "args",
    "condition": "when",
    "depends_on": "after",
    "description": "goal",
    "expression": "value",
    "for_each": "each",
    "foreach": "each",
    "function": "tool",
    "if": "when",
    "input": "args",
    "inputs": "args",
    "item": "as",
    "items": "each",
    "loop": "each",
    "name": "id",
    "needs": "after",
    "on_error": "on_failure",
    "outputs": "output",
    "parameters": "args",
    "params": "args",
    "result": "output",
    "task": "goal",
    "tasks": "steps",
    "version": "foreplan",
    "with": "args",
}
"""What other plan formats call a property, and what it is called here."""

_NEEDED = {
    "string_type": "text",
    "dict_type": "an object",
    "list_type": "a list",
    "model_type": "an object",
    "bool_type": "true or false",
    "int_type": "a whole number",
}

_Document = TypeVar("_Document", bound=BaseModel)


def read_plan(text: str | bytes, *, source: str = "plan.yaml", format: str | None = None) -> Plan:
    """The plan this text holds. Raises `PlanUnreadable`, whose findings have line and column."""
    return plan_from(read_source(text, source=source, format=format))


def load_plan(path: str | Path) -> Plan:
    """The plan in this file. Raises `BadInput` where there is none, `PlanUnreadable` where it is no plan."""
    return read_plan(read_bytes(path), source=str(path))


def read_patch(text: str | bytes, *, source: str = "patch.yaml", format: str | None = None) -> Patch:
    """The patch this text holds. Raises `PlanUnreadable`."""
    return patch_from(read_source(text, source=source, format=format))


def plan_from(document: Json | Source) -> Plan:
    """The plan that a plain JSON document (or a source that was read) is. Raises `PlanUnreadable`."""
    content = document.document if isinstance(document, Source) else document
    steps = content.get("steps") if isinstance(content, dict) else None
    if isinstance(steps, list) and len(steps) > MAX_STEPS:
        many = f"the plan has {len(steps):,} steps; at most {MAX_STEPS:,} are read"
        raise PlanUnreadable([Finding("too_large", "error", "/steps", many)])
    return _model(Plan, document)


def patch_from(document: Json | Source) -> Patch:
    """The patch that a plain JSON document (or a source that was read) is. Raises `PlanUnreadable`."""
    return _model(Patch, document)


def write_yaml(plan: Plan | Patch) -> str:
    """The plan as YAML that `read_plan` reads back to an equal plan."""
    return yaml_text(plan.to_json())


def _model(model: type[_Document], document: Json | Source) -> _Document:
    source = document if isinstance(document, Source) else None
    content = document.document if isinstance(document, Source) else document
    try:
        return model.model_validate(content, by_alias=True, by_name=False)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        findings = [_finding(model, dict(e)) for e in errors[:_TOLD]]
    located = sorted(
        source.located(findings) if source else findings, key=lambda f: (f.line or 0, f.column or 0)
    )
    if len(errors) > _TOLD:
        located.append(Finding("too_large", "error", "", f"there are {len(errors) - _TOLD:,} faults more"))
    raise PlanUnreadable(located)


def _finding(model: type[BaseModel], error: Mapping[str, Any]) -> Finding:
    """One of pydantic's errors as one of ours."""
    where, kind = error["loc"], error["type"]
    pointer = pointer_to(*where)
    if kind == "extra_forbidden":
        return _unknown(_owner(model, where[:-1]), str(where[-1]), pointer)
    if kind == "missing":
        message = f"{_spot(where[:-1], model)} needs {quoted(where[-1])}"
        return Finding("missing_property", "error", pointer_to(*where[:-1]), message)
    message = f"{_spot(where, model)} {_complaint(kind, error)}"
    return Finding("wrong_property", "error", pointer, message)


def _unknown(owner: type[BaseModel], name: str, pointer: str) -> Finding:
    known = [field.alias or name for name, field in owner.model_fields.items()]
    elsewhere = _ELSEWHERE.get(name.lower())
    near = [elsewhere] if elsewhere in known else nearest(name, known, most=1)
    guess = f"; did you mean {near[0]!r}?" if near else f"; it knows {', '.join(known)}"
    kind = {Step: "a step", Undo: "an undo"}.get(owner, f"a {owner.__name__.lower()}")
    message = f"{kind} has no property {quoted(name)}{guess}"
    return Finding("unknown_property", "error", pointer, message, f"write {near[0]}" if near else "")


def _owner(model: type[BaseModel], where: tuple[str | int, ...]) -> type[BaseModel]:
    """What kind of object stands at this place of the document."""
    match where[-2:]:
        case ["steps" | "add", int()]:
            return Step
        case [int(), "undo"]:
            return Undo
        case _:
            return model


def _spot(where: tuple[str | int, ...], model: type[BaseModel]) -> str:
    if not where:
        return f"a {model.__name__.lower()}"
    return quoted(pointer_to(*where)[1:])


def _complaint(kind: str, error: Mapping[str, Any]) -> str:
    found = _kind_of(error.get("input"))
    if kind in _NEEDED:
        return f"must be {_NEEDED[kind]}, not {found}"
    if kind == "literal_error":
        expected = str(error["ctx"]["expected"])
        return f"must be {expected}, not {quoted(error.get('input'))}"
    return f"cannot be {found}"


def _kind_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case dict():
            return "an object"
        case _:
            return f"a Python {type(value).__name__}"
