"""A plan made ready to run: templates compiled, tools resolved, edges counted once per revision of the plan."""

from __future__ import annotations

from collections.abc import Mapping

from ..planner.approvals import asks_at_call
from ..planner.patches import lineage
from ..planner.plan import OnFailure, Plan, Step
from ..policies.expressions import Template, compile_template
from ..registry.tools import Tool

__all__ = ["Code", "Program", "compile_plan"]

LOCAL = frozenset({"index", "inputs", "run"})


class Code:
    """One step, compiled. `needs` are the steps it waits for; `reads` those among them whose results it names."""

    __slots__ = (
        "args",
        "asks",
        "each",
        "id",
        "item",
        "lineage",
        "needs",
        "on_failure",
        "per_item",
        "reads",
        "step",
        "tool",
        "value",
        "when",
    )

    def __init__(self, step: Step, tools: Mapping[str, Tool], first: str, known: frozenset[str]) -> None:
        self.step = step
        self.id = step.id
        self.tool: Tool | None = tools[step.tool] if step.tool is not None else None
        self.asks = self.tool is not None and asks_at_call(step, self.tool)
        self.item = step.item_name
        self.on_failure: OnFailure = step.on_failure
        self.lineage = first
        self.args = compile_template(step.args)
        self.value = _template(step, "value")
        self.each = _template(step, "each")
        self.when = _template(step, "when")
        self.per_item = (
            self.each is not None and self.when is not None and bool(self.when.names & {self.item, "index"})
        )
        names: set[str] = set()
        for template in (self.args, self.value, self.each, self.when):
            if template is not None:
                names |= template.names
        local = LOCAL | {self.item} if self.each is not None else LOCAL
        self.reads = tuple(sorted((names & known) - local))
        self.needs = tuple(dict.fromkeys((*self.reads, *step.after)))


class Program:
    """All steps of one revision, by id, with who waits for whom."""

    __slots__ = ("codes", "dependants", "output", "plan", "tools")

    def __init__(self, plan: Plan, tools: Mapping[str, Tool]) -> None:
        first = lineage(plan)
        known = frozenset(step.id for step in plan.steps)
        self.plan = plan
        self.codes = {step.id: Code(step, tools, first[step.id], known) for step in plan.steps}
        self.dependants: dict[str, list[str]] = {step.id: [] for step in plan.steps}
        for code in self.codes.values():
            for need in code.needs:
                self.dependants[need].append(code.id)
        self.tools = tuple({code.tool.name: code.tool for code in self.codes.values() if code.tool}.values())
        self.output = compile_template(plan.output) if "output" in plan.model_fields_set else None


def compile_plan(plan: Plan, tools: Mapping[str, Tool]) -> Program:
    """Compile a plan that has passed the check; one that has not raises `KeyError` or `ExpressionError`.

    The last few are kept, so that a plan run over many rows is compiled once. A program is never changed.
    """
    held = _HELD.get(id(plan))
    if held is not None and held.plan is plan and all(tools.get(t.name) is t for t in held.tools):
        return held
    program = Program(plan, tools)
    _HELD[id(plan)] = program
    while len(_HELD) > _MOST_HELD:
        _HELD.pop(next(iter(_HELD)), None)
    return program


_HELD: dict[int, Program] = {}
"""Programs by the identity of their plan, which they keep alive."""
_MOST_HELD = 8


def _template(step: Step, field: str) -> Template | None:
    return compile_template(getattr(step, field)) if step.has(field) else None
