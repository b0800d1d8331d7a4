"""A plan as a tool of other plans: what it takes are its inputs, what it gives is its output, what it does are its calls.

    refund_all = as_tool(plan, "refund_all", registry)          # checked here, with these tools
    Engine(registry | Registry(refund_all))

A call of it is a run of its own in the same journal. The tool's contract holds the digest of the plan and the contracts of
its tools, so that an approval of a plan that calls it binds all of that. Its tools are taken from `registry` as they are
now; since it cannot be among them itself, no plan can call itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from ..policies.effect import Effect
from ..policies.errors import ToolRefused
from ..policies.permissions import Level, Principal
from ..policies.spelling import spelled
from ..registry.registry import Registry
from ..registry.tools import Tool
from .approvals import tools_of
from .checking import check
from .findings import CheckFailed
from .plan import Plan
from .study import Study
from .types import ANY, Type

__all__ = ["DEEPEST", "Subplan", "as_tool", "tools_inside"]

Json: TypeAlias = Any

DEEPEST = 3
"""Plans in plans in plans; a tool that would go deeper is refused."""

_WHOEVER = Principal(id="whoever calls it", permissions=("*",))
_STRENGTH = (Effect.READS, Effect.WRITES, Effect.ACTS)


class Subplan:
    """What stands behind the tool: the plan and its tools. Only an engine can run it."""

    def __init__(self, plan: Plan, tools: Registry) -> None:
        self.plan = plan
        self.tools = tools

    def __call__(self, args: dict[str, Json]) -> Json:
        raise TypeError("a sub-plan is no function: an engine runs it as a run of its own")


@spelled
def as_tool(
    plan: Plan,
    name: str,
    registry: Registry | Iterable[Tool],
    *,
    description: str = "",
    tool_calls: int | None = None,
    model_calls: int | None = None,
    cost: float = 0.0,
    version: str = "",
) -> Tool:
    """A tool that runs this plan with the tools it names in `registry`. Raises `CheckFailed`, `ToolRefused`.

    Its effect is the strongest of theirs, its level the highest, its permissions are all of theirs. `tool_calls`,
    `model_calls` and `cost` bound what one call of it may use up; where the run has a bound and these say nothing, it may
    use what is left of the run's budget, and others that need it wait until it ends.
    """
    known = Registry.of(registry)
    report = check(plan, known, principal=_WHOEVER)
    if not report.ok:
        raise CheckFailed(report)
    used = Registry(*(known[each] for each in tools_of(plan)))
    made = Tool.declare(
        name,
        description or plan.goal,
        input_schema=_takes(plan),
        output_schema=_gives(plan, used),
        call=Subplan(plan, used),
        effect=max((tool.effect for tool in used), key=_STRENGTH.index, default=Effect.READS),
        permissions=list(dict.fromkeys(p for tool in used for p in tool.permissions)),
        requires_approval=any(tool.requires_approval is True for tool in used),
        level=max((tool.level for tool in used), key=[*Level].index, default=Level.LOW),
        timeout=None,
        version=version,
        model_calls=model_calls if any(tool.model_calls != 0 for tool in used) else 0,
        cost=cost,
        origin=f"a plan of {len(plan.steps)} steps",
    )
    return dataclasses.replace(
        made,
        answered_by="plan",
        tool_calls=_bound(tool_calls, name),
        binds=_bound_with(plan, used, name),
        recorded_source=None,
    )


def tools_inside(tool: Tool, question: str) -> Registry | None:
    """The tools of the run inside a sub-plan that asks the question with this id; None where that cannot be said.

    `counts[1]/which:ask:0` is asked by the plan that the step `counts` calls.
    """
    inside: Any = tool.function
    for call in question.split("/")[:-1]:
        name = _called(inside.plan, call) if isinstance(inside, Subplan) else None
        if name is None or name not in inside.tools:
            return None
        inside = inside.tools[name].function
    return inside.tools if isinstance(inside, Subplan) else None


def _called(plan: Plan, path: str) -> str | None:
    """The tool that the call at this path (`g[0].counts[1]`) is one of."""
    steps = {step.id: step for step in plan.every_step}
    *_, last = (part.partition("[")[0] for part in path.split("."))
    if last in steps:
        return steps[last].tool
    undone = steps.get(path.split(".")[-2].partition("[")[0]) if "." in path else None
    return undone.undo.tool if undone is not None and undone.undo is not None else None


def _bound(most: int | None, name: str) -> int | None:
    if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
        raise ToolRefused(
            f"tool_calls of {name!r} is {most!r}; it is a number from 1, or None for what is left"
        )
    return most


def _bound_with(plan: Plan, used: Registry, name: str) -> dict[str, Json]:
    """What an approval of the tool binds besides its own contract."""
    depth = 1 + max(((tool.binds or {}).get("depth", 0) for tool in used), default=0)
    if depth > DEEPEST:
        raise ToolRefused(f"{name!r} would be a plan in a plan {depth} deep; the deepest are {DEEPEST}")
    binds: dict[str, Json] = {"plan": plan.digest, "tools": {tool.name: tool.fingerprint for tool in used}}
    binds["depth"] = depth
    if depth > 1:
        binds["within"] = sorted(set().union(*(_reach(tool) for tool in used)))
    return binds


def _reach(tool: Tool) -> set[str]:
    """A tool and, if it is a plan, the tools that it may call, by way of others too."""
    binds = tool.binds or {}
    return {tool.name, *(binds.get("within") or binds.get("tools") or ())}


def _takes(plan: Plan) -> dict[str, Json]:
    """The schema of the inputs, in which what has a default need not be given."""
    if plan.inputs is None:
        return {"type": "object", "properties": {}}
    properties = plan.inputs.get("properties", {})
    required = [name for name in plan.inputs.get("required", []) if "default" not in properties.get(name, {})]
    return {**plan.inputs, "required": required}


def _gives(plan: Plan, tools: Registry) -> dict[str, Json]:
    """The schema of the output, as far as it is known."""
    if "output" not in plan.model_fields_set:
        return {"type": "null"}
    return _Writer().schema(Study(plan, tools, _WHOEVER).output_type)


class _Writer:
    """Writes types as JSON Schemas; what is large or not known is left open."""

    _MOST = 500

    def __init__(self) -> None:
        self._written = 0

    def schema(self, type: Type) -> dict[str, Json]:
        self._written += 1
        names = {"number" if kind == "fraction" else kind for kind in type.kinds}
        if not names or self._written > self._MOST or type is ANY:
            return {}
        names -= {"integer"} if "number" in names else set()
        document: dict[str, Json] = {"type": sorted(names) if len(names) > 1 else next(iter(names))}
        if type.has("array") and type.items is not None:
            document["items"] = self.schema(type.item)
        if type.has("object"):
            document |= self._object(type)
        return document

    def _object(self, type: Type) -> Mapping[str, Json]:
        said: dict[str, Json] = {
            "properties": {name: self.schema(part) for name, part in type.fields.items()}
        }
        if type.required:
            said["required"] = sorted(type.required)
        said["additionalProperties"] = type.rest is not None
        return said
