"""The tables of `plans.md`: each field of a plan document, as the source says it."""

from __future__ import annotations

import ast
import inspect
from typing import Any

from pydantic.fields import FieldInfo

from foreplan.planner.plan import Patch, Plan, Record, Step, Undo

__all__ = ["fields_of", "patch_fields", "plan_fields", "step_fields", "undo_fields"]


def plan_fields() -> str:
    """What stands at the top of a plan."""
    return fields_of(Plan)


def step_fields() -> str:
    """What a step may say."""
    return fields_of(Step)


def undo_fields() -> str:
    """What an undo says."""
    return fields_of(Undo)


def patch_fields() -> str:
    """What a patch says."""
    return fields_of(Patch)


def fields_of(model: type[Record]) -> str:
    """A row for each field: its name in the document, whether it must be there, what it means."""
    said = _docstrings(model)
    rows = ["| field | is | means |", "|---|---|---|"]
    for name, field in model.model_fields.items():
        meaning = " ".join(said[name].split()).replace("|", "\\|")
        rows.append(f"| `{field.alias or name}` | {_kind(field)} | {meaning} |")
    return "\n".join(rows)


def _docstrings(model: type[Record]) -> dict[str, str]:
    """The text under each field in the source."""
    [body] = ast.parse(inspect.getsource(model)).body
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            assert isinstance(field.target, ast.Name)
            found[field.target.id] = str(ast.literal_eval(text.value))
    return found


def _kind(field: FieldInfo) -> str:
    if field.is_required():
        return "needed"
    default: Any = field.get_default(call_default_factory=True)
    return f"`{default}` without it" if default not in (None, "", [], {}) else "may be left out"
