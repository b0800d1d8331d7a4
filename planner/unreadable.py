"""What is wrong with a record of a plan, in sentences of ours: each with its pointer and the nearest name.

pydantic says what it tried; this says what to write.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from ..policies.text import nearest, with_article
from .findings import Finding, pointer_to, quoted

__all__ = ["findings_of"]

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


def findings_of(error: ValidationError, model: type[BaseModel]) -> list[Finding]:
    """What keeps a document from being this record, a finding each."""
    errors = error.errors(include_url=False)
    findings = [_finding(model, dict(one)) for one in errors[:_TOLD]]
    findings.sort(key=lambda finding: finding.code != "unknown_property")  # what is misspelt is missing, too
    if len(errors) > _TOLD:
        findings.append(Finding("too_large", "error", "", f"there are {len(errors) - _TOLD:,} faults more"))
    return findings


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
    message = f"{with_article(owner.__name__.lower())} has no property {quoted(name)}{guess}"
    return Finding("unknown_property", "error", pointer, message, f"write {near[0]}" if near else "")


def _owner(model: type[BaseModel], where: tuple[str | int, ...]) -> type[BaseModel]:
    """What kind of object stands at this place of the document."""
    for part in where:
        field = model.model_fields.get(str(part))
        model = (_record(field.annotation) if field is not None else None) or model
    return model


def _record(kind: Any) -> type[BaseModel] | None:
    """The record that a type is, or holds."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind
    return next((found for part in get_args(kind) if (found := _record(part)) is not None), None)


def _spot(where: tuple[str | int, ...], model: type[BaseModel]) -> str:
    if not where:
        return with_article(model.__name__.lower())
    return quoted(pointer_to(*where)[1:])


def _complaint(kind: str, error: Mapping[str, Any]) -> str:
    found = _kind_of(error.get("input"))
    if kind in _NEEDED:
        return f"must be {_NEEDED[kind]}, not {found}"
    if kind == "literal_error":
        expected = str(error["ctx"]["expected"])
        return f"must be {expected}, not {quoted(error.get('input'))}"
    if kind == "json_invalid":
        return f"is no JSON: {error['ctx']['error']}"
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
