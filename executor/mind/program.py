"""A plan made ready to run: templates compiled, tools resolved, edges counted once per revision of the plan.

A plan and each group in it is a `Block` of steps. A step inside sees outside, so a group waits for what its steps name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ...planner.approvals import asks_at_call, asks_at_undo
from ...planner.patches import lineage
from ...planner.plan import OnFailure, Plan, Step
from ...policies.expressions import compile_template
from ...registry.tools import Tool

__all__ = ["Block", "Code", "Program", "compile_plan"]

_OWN = frozenset({"index", "inputs", "run", "result"})
_CALL = frozenset({"id", "tool", "args", "after", "on_failure"})
"""What most steps say: the names that such a step leaves free are those of its arguments."""
_NONE: frozenset[str] = frozenset()


class Block:
    """Steps that see each other, by id, with who waits for whom."""

    __slots__ = ("codes", "dependants")

    def __init__(
        self, steps: Iterable[Step], tools: Mapping[str, Tool], first: Mapping[str, str], many: bool = False
    ) -> None:
        found = list(steps)
        known = frozenset(step.id for step in found)
        self.codes = {step.id: Code(step, tools, first, known, many) for step in found}
        self.dependants: dict[str, list[str]] = {id_: [] for id_ in self.codes}
        for code in self.codes.values():
            for need in code.needs:
                self.dependants[need].append(code.id)


class Code:
    """One step, compiled.

    `many`: it stands in a group that runs for each of a list. `needs` are the steps of its block it waits for; `names` is every free name in it, steps inside a group included.
    """

    __slots__ = (
        "args",
        "asks",
        "block",
        "each",
        "id",
        "item",
        "lineage",
        "names",
        "needs",
        "next",
        "on_failure",
        "output",
        "per_item",
        "serial",
        "step",
        "tool",
        "undo",
        "undo_asks",
        "undo_tool",
        "until",
        "value",
        "when",
    )

    def __init__(
        self,
        step: Step,
        tools: Mapping[str, Tool],
        first: Mapping[str, str],
        known: frozenset[str],
        many: bool = False,
    ) -> None:
        said = step.model_fields_set
        self.step = step
        self.id = step.id
        self.lineage = first.get(step.id, step.id)
        self.tool: Tool | None = tools[step.tool] if step.tool is not None else None
        self.block = Block(step.steps, tools, {}, many or "each" in said) if step.steps is not None else None
        self.asks = self.tool is not None and asks_at_call(step, self.tool, many=many)
        self.item = step.item_name
        self.on_failure: OnFailure = step.on_failure
        self.serial = "until" in said
        self.args = compile_template(step.args)
        self.value = compile_template(step.value) if "value" in said else None
        self.output = compile_template(step.output) if "output" in said else None
        self.each = compile_template(step.each) if "each" in said else None
        self.when = compile_template(step.when) if "when" in said else None
        self.until = compile_template(step.until) if "until" in said else None
        self.next = compile_template(step.next) if step.next is not None else None
        self.undo = compile_template(step.undo.args) if step.undo is not None else None
        self.undo_tool = tools[step.undo.tool] if step.undo is not None else None
        self.undo_asks = self.undo_tool is not None and asks_at_undo(step, self.undo_tool, many=many)
        local = frozenset((self.item, "index")) if self.each is not None else _NONE
        self.per_item = self.when is not None and bool(self.when.names & local)
        self.names = self.args.names if said <= _CALL else _NONE.union(*self._free()) - local
        self.needs = tuple(dict.fromkeys((*sorted((self.names & known) - _OWN), *step.after)))

    def _free(self) -> Iterator[frozenset[str]]:
        """The names that its own templates, and the steps inside it, leave free."""
        inside = self.block.codes.keys() if self.block is not None else _NONE
        if self.block is not None:
            yield from (code.names - inside for code in self.block.codes.values())
        for template in (self.args, self.value, self.each, self.when, self.until, self.next, self.undo):
            if template is not None:
                yield template.names
        if self.output is not None:
            yield self.output.names - inside


class Program(Block):
    """One revision of a plan, ready to run. Never changed once it is made."""

    __slots__ = ("output", "plan", "tools")

    def __init__(self, plan: Plan, tools: Mapping[str, Tool]) -> None:
        super().__init__(plan.steps, tools, lineage(plan))
        self.plan = plan
        self.tools = tuple({tool.name: tool for tool in _tools_of(self)}.values())
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


def _tools_of(block: Block) -> Iterator[Tool]:
    for code in block.codes.values():
        yield from (tool for tool in (code.tool, code.undo_tool) if tool is not None)
        if code.block is not None:
            yield from _tools_of(code.block)
