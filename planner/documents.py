"""Plans in and out of files: `read_plan`, `load_plan`, `write_yaml`; a document that is no plan becomes findings.

text --sources--> plain JSON --pydantic--> Plan
          |                       |
          +------- findings ------+   with pointer, line, column, excerpt and the nearest name
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from .findings import Finding, PlanUnreadable
from .plan import Patch, Plan, Record
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

_Document = TypeVar("_Document", bound=Record)


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
    except PlanUnreadable as error:
        found = source.located(error.findings) if source is not None else error.findings
    raise PlanUnreadable(sorted(found, key=lambda f: (f.line or 0, f.column or 0)))
