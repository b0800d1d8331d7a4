"""A conversation over several turns, kept in the journal: what was said, what plans did, what came out.

    session = Session(engine, "support-42")
    await session.say("Which orders of ada are open?")            a turn with the model: run support-42-t1
    plan = await session.plan("Cancel the older one")             may use `inputs.earlier.t1`
    await session.run(plan, approval=...)                         a turn with a plan: run support-42-t2

`Session(engine, "support-42")` in another process goes on where it was. A turn is a run like any other, shown, decided,
cancelled and audited by its id; `session.resume` goes on with one that waits. A later goal refers to earlier results by their turn: a plan as `inputs.earlier.t1`, the model by
the tool `recall`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ..planner.approvals import Approval
from ..planner.models.history import Messages, spoken
from ..planner.models.messages import AIMessage, HumanMessage, Message
from ..planner.plan import Plan
from ..planner.react import compact, shown, told_failure
from ..planner.requests import EARLIER
from ..planner.shapes import shape_of, words_of
from ..policies.errors import BadInput, UnknownRun, expect
from ..policies.expressions import EvaluationError, ExpressionError, parse
from ..policies.failures import Kind, ToolFailure
from ..policies.spelling import spelled
from ..registry.tools import Tool
from .engine import Engine
from .run import Run
from .runtime import Answer

__all__ = ["Session"]

_TAKES = {
    "type": "object",
    "properties": {
        "turn": {"type": "string", "description": "The turn whose result is wanted, like t1."},
        "path": {
            "type": "string",
            "description": "What of it: an expression over `result`, like result.rows[:10] or len(result).",
            "default": "result",
        },
    },
    "required": ["turn"],
}


_FAILURES = 20


class Session:
    """Turns of one conversation. `id` begins the ids of their runs; the engine's journal keeps them."""

    @spelled
    def __init__(self, engine: Engine, id: str) -> None:
        if not isinstance(id, str) or not id:
            raise BadInput(f"a session has a name, not {id!r}")
        expect(Engine, engine, "the engine")
        self.id = id
        self._ended: dict[int, Run] = {}
        self._engine = engine.with_tools(self._recall())

    @property
    def turns(self) -> list[Run]:
        """The turns so far, the oldest first; the last one may be under way or wait."""
        return list(self._turns())

    @property
    def messages(self) -> list[Message]:
        """All that was said, and for each turn with a plan its goal and how it ended."""
        return [message for number, run in enumerate(self._turns(), 1) for message in _said(number, run)]

    @property
    def results(self) -> dict[str, Any]:
        """What came out of each turn, by its name: t1, t2, ..."""
        return {f"t{number}": run.output for number, run in enumerate(self._turns(), 1) if run.ok}

    async def say(self, messages: Messages) -> Run:
        """A turn with the model of the engine, which hears what was said before. Raises `BadInput`."""
        earlier = self.messages
        return await self._engine.answer(
            [*earlier, *spoken(messages)], run_id=self._next(), earlier=len(earlier)
        )

    async def plan(self, goal: str) -> Plan:
        """A checked plan for a goal that may speak of earlier results."""
        inputs = {"type": "object", "properties": {EARLIER: self._shapes()}, "required": [EARLIER]}
        return await self._engine.plan(goal, inputs=inputs if self.results else None)

    async def run(self, plan: Plan, *, approval: Approval | None = None) -> Run:
        """A turn with a plan; a plan with the input `earlier` gets the earlier results."""
        expect(Plan, plan, "the plan")
        return await self._engine.run(
            plan, inputs=self.inputs_of(plan), approval=approval, run_id=self._next()
        )

    async def resume(
        self, *, decisions: Mapping[str, Answer | str] | None = None, accept_changes: str = ""
    ) -> Run:
        """Go on with the last turn, which was interrupted or waits for people. Raises what `Engine.resume` raises."""
        turns = self.turns
        if not turns:
            raise BadInput("this session has no turn to go on with; say something, or run a plan")
        return await self._engine.resume(turns[-1].id, decisions=decisions, accept_changes=accept_changes)

    def inputs_of(self, plan: Plan) -> dict[str, Any]:
        """What a plan of this session is run with, and approved for."""
        wants = plan.inputs is not None and EARLIER in plan.inputs.get("properties", {})
        return {EARLIER: self.results} if wants else {}

    def _next(self) -> str:
        """The id of the next turn. Raises `BadInput` while the last one is not at its end."""
        turns = self.turns
        if turns and turns[-1].state in ("running", "waiting"):
            last = turns[-1]
            raise BadInput(
                f"turn {len(turns)} of this session is not at its end: {last.message}; "
                f"go on with it by session.resume(decisions=...), or end it by engine.cancel({last.id!r})"
            )
        return f"{self.id}-t{len(turns) + 1}"

    def _turns(self) -> Iterator[Run]:
        number = 1
        while True:
            run = self._ended.get(number)
            if run is None:
                try:
                    run = self._engine.show(f"{self.id}-t{number}")
                except UnknownRun:
                    return
                if run.state not in ("running", "waiting"):
                    self._ended[number] = run
            yield run
            number += 1

    def _shapes(self) -> dict[str, Any]:
        """The shapes of earlier results, as a JSON Schema for planners."""
        shapes = {}
        for number, run in enumerate(self._turns(), 1):
            if run.ok:
                known = words_of(run.plan) if run.plan is not None else frozenset()
                shapes[f"t{number}"] = shape_of(run.output, known=known)
        return {"type": "object", "properties": shapes, "required": sorted(shapes)}

    def _recall(self) -> Tool:
        def recall(args: dict[str, Any]) -> Any:
            """Read an earlier result, or a part of it."""
            return _part(self.results, args["turn"], args.get("path", "result"))

        words = "Read the result of an earlier turn of this conversation, whole or in part."
        return Tool.declare("recall", words, input_schema=_TAKES, call=recall, effect="reads")

    def __repr__(self) -> str:
        return f"<Session {self.id!r}>"


def _part(results: Mapping[str, Any], turn: str, path: str) -> Any:
    if turn not in results:
        raise ToolFailure(
            f"no turn {turn!r} has a result; there are {', '.join(results) or 'none'}",
            kind=Kind.BAD_ARGS,
            code="unknown_turn",
        )
    try:
        return parse(path).evaluate({"result": results[turn]})
    except (ExpressionError, EvaluationError) as error:
        raise ToolFailure(str(error), kind=Kind.BAD_ARGS, code="bad_path") from None


def _said(number: int, run: Run) -> Iterator[Message]:
    """What a turn adds to the history: its new messages, or of a plan its goal and its end."""
    if run.messages and run.plan is None:
        for message in run.messages[
            run.earlier + 1 :
        ]:  # without the system message, which each turn has anew
            yield replace(message, id=f"t{number}.{message.id}")
        return
    if run.plan is None:
        return
    yield HumanMessage(run.plan.goal or "(a plan without a goal)", id=f"t{number}.goal")
    yield AIMessage(compact(_end_of(number, run)), id=f"t{number}.end")


def _end_of(number: int, run: Run) -> dict[str, Any]:
    """How a turn with a plan ended. Its message may quote what a tool said, so failures are told one by one instead."""
    told: dict[str, Any] = {"turn": f"t{number}", "state": run.state}
    if run.failures:
        several = run.failures[:_FAILURES]
        told["failures"] = [{"step": step, **told_failure(failure, joined=True)} for step, failure in several]
    else:
        told["message"] = run.message
    return told | {"result": shown(run.output)}
