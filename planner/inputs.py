"""What a plan is run with: defaults applied, then held against the plan's own schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..policies.errors import BadInput, expect
from ..policies.text import did_you_mean
from ..registry.schema import compile_schema
from ..registry.values import Unserialisable, copy_plain, to_plain
from .plan import Plan

__all__ = ["settle_inputs", "with_defaults"]


def settle_inputs(plan: Plan, inputs: Mapping[str, Any] | None) -> dict[str, Any]:
    """The inputs of one run: plain JSON, defaults of the schema filled in, valid. Raises `BadInput`."""
    if inputs is not None:
        expect(Mapping, inputs, "the inputs", "give an object with the names that the plan declares")
    try:
        given: dict[str, Any] = to_plain(dict(inputs or {}))
    except Unserialisable as error:
        raise BadInput(f"the inputs are no JSON: {error}") from None
    if plan.inputs is None:
        if given:
            raise BadInput(f"the plan declares no inputs, but {', '.join(map(repr, given))} was given")
        return {}
    settled = with_defaults(plan.inputs, given)
    problems = compile_schema(plan.inputs, closed=True).problems(settled)
    if problems:
        raise BadInput(
            "the inputs do not fit the plan: "
            + "; ".join(_said(plan, p.pointer, p.message) for p in problems[:5])
        )
    return settled


def with_defaults(schema: Mapping[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    """Fill in what is not given, on every level that is there."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return value
    filled = dict(value)
    for name, part in properties.items():
        if not isinstance(part, Mapping):
            continue
        if name not in filled and "default" in part:
            filled[name] = copy_plain(part["default"])
        elif isinstance(filled.get(name), dict):
            filled[name] = with_defaults(part, filled[name])
    return filled


def _said(plan: Plan, pointer: str, message: str) -> str:
    place = pointer.lstrip("/").replace("/", ".")
    names = (plan.inputs or {}).get("properties", {})
    unknown = place and place not in names and "did you mean" not in message
    guess = did_you_mean(place, names) if unknown else ""
    return f"{place}: {message}{guess}" if place else message
