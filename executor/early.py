"""Reads that begin while the plan still arrives, where the policy allows it.

    answer arrives -> a step is whole -> only reads, arguments literal or from the inputs, passes the check alone,
                                         no approval due, nothing sent out -> a run of its own
    the plan is checked, and runs -> the same call (tool, arguments) is answered by what that run gave
                                  -> what the plan does not hold is discarded; its run stays in the journal

Each early call is a run of one step with the id of the run it is for, `RUN-early-1`: through the guarded call like any
other, journaled, counted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

import anyio
from anyio.abc import TaskGroup

from ..planner.findings import Report
from ..planner.plan import Plan, Step
from ..policies.canonical import digest
from ..policies.effect import Effect
from ..policies.errors import ForeplanError
from ..policies.expressions import EvaluationError, ExpressionError, compile_template
from ..policies.policies import Policies
from ..registry.registry import Registry
from ..registry.tools import Tool
from .events import Outcome
from .hands.hands import Result
from .mind.state import Call
from .run import Run

__all__ = ["EARLY", "EGRESS", "Early"]

EARLY = "-early-"
"""What stands between the id of a run and the number of a call of it that began early, in that one's own id."""

EGRESS = "egress"
"""The tag of a tool that sends its arguments out to where somebody may read them: never called early."""
_ONLY = frozenset({"id", "tool", "args", "on_failure"})
_INPUTS = frozenset({"inputs"})


class Runs(Protocol):
    """What early calls are made with: an engine."""

    registry: Registry
    policies: Policies

    def check(self, plan: Plan, /) -> Report: ...

    async def run(self, plan: Plan, /, *, run_id: str | None = None) -> Run: ...

    def cancel(self, run_id: str, /) -> None: ...


class _Ahead:
    """One early call: its run once it is at its end."""

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.run: Run | None = None
        self.taken = False


class Early:
    """The early calls of one run."""

    def __init__(self, engine: Runs, run_id: str, inputs: Mapping[str, Any] | None, tasks: TaskGroup) -> None:
        self._engine = engine
        self._run = run_id
        self._inputs = dict(inputs or {})
        self._tasks = tasks
        self._calls: dict[tuple[str, str], _Ahead] = {}
        most = engine.policies.budget.tool_calls
        self._most = engine.policies.limits.run if most is None else min(most, engine.policies.limits.run)

    def begin(self, document: dict[str, Any]) -> None:
        """A step has arrived: begin its call if it may."""
        found = _call_of(document, self._inputs)
        if found is None or len(self._calls) >= self._most:
            return
        name, args = found
        tool = self._engine.registry.get(name)
        key = (name, digest(args))
        if tool is None or key in self._calls or not may_begin(tool, self._engine.policies):
            return
        step = {
            "id": document["id"],
            "tool": name,
            "args": {key: {"$literal": value} for key, value in args.items()},
        }
        plan = Plan.model_validate({"foreplan": 1, "steps": [step]})
        if not self._engine.check(plan).ok:
            return
        ahead = self._calls[key] = _Ahead()
        self._tasks.start_soon(self._perform, plan, len(self._calls), ahead)

    async def _perform(self, plan: Plan, number: int, ahead: _Ahead) -> None:
        run_id = f"{self._run}{EARLY}{number}"
        try:
            ahead.run = await self._engine.run(plan, run_id=run_id)
        except anyio.get_cancelled_exc_class():
            with suppress(ForeplanError):
                self._engine.cancel(run_id)  # nobody asks for it any more, so it does not wait to be resumed
            raise
        finally:
            ahead.done.set()

    def answer_to(self, call: Call) -> Callable[[], Awaitable[Result]] | None:
        """How a call of the plan is answered that has begun already; None where it has not, or was taken."""
        ahead = self._calls.get((call.tool.name, digest(call.args))) if call.attempt == 1 else None
        if ahead is None or ahead.taken:
            return None
        ahead.taken = True

        async def wait() -> Result:
            await ahead.done.wait()
            return _result(ahead.run)

        return wait

    def discarded_by(self, plan: Plan) -> int:
        """How many early calls this plan does not hold: nothing will ask for what they gave."""
        found = (_call_of(step.to_json(), self._inputs) for step in plan.steps)
        held = {(name, digest(args)) for name, args in filter(None, found)}
        return len(self._calls.keys() - held)


def may_begin(tool: Tool, policies: Policies) -> bool:
    """Whether a call of this tool may begin before the plan is whole: it reads, and nobody is to be asked."""
    asked = tool.requires_approval is not False or policies.approve == "always"
    grave = policies.approve_from is not None and not policies.approve_from.above(tool.level)
    return (
        tool.effect is Effect.READS
        and not asked
        and not grave
        and EGRESS not in tool.tags
        and tool.answered_by == "code"
    )


def _call_of(document: dict[str, Any], inputs: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Tool and arguments of a step that waits for nothing; None for any other."""
    id_, name, args = document.get("id"), document.get("tool"), document.get("args", {})
    if not (isinstance(id_, str) and isinstance(name, str) and isinstance(args, dict)):
        return None
    if not document.keys() <= _ONLY:
        return None
    try:
        template = compile_template(args)
        if not template.names <= _INPUTS:
            return None
        Step.model_validate(document)
        return name, template.evaluate({"inputs": inputs})
    except (ExpressionError, EvaluationError, ValueError):
        return None


def _result(run: Run | None) -> Result:
    """The end of an early call as that of the call itself; one that has none is made again."""
    step = next(iter(run.steps.values()), None) if run is not None else None
    if step is None or step.outcome is None:
        return Result(Outcome.CANCELLED)
    return Result(step.outcome, step.value, step.failure)
