"""A run as people and programs read it: made from a state, live or replayed, and changed by nobody."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ..planner.plan import Plan
from ..policies.failures import Failure
from .events import DecisionAsked, Outcome, RunState, path_text
from .state import Lane, Node, State

__all__ = ["ItemResult", "Run", "StepResult", "run_of"]


@dataclass(frozen=True, slots=True)
class ItemResult:
    """One item of a step with `each`. `outcome` is None while it is open."""

    index: int
    outcome: Outcome | None
    value: Any = None
    failure: Failure | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class StepResult:
    """How one step stands. `value` is plain JSON; with `each`, `items` holds those that did not simply succeed."""

    id: str
    tool: str | None
    outcome: Outcome | None
    value: Any = None
    failure: Failure | None = None
    reason: str = ""
    items: tuple[ItemResult, ...] = ()
    replaced: bool = False

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, without the fields that say nothing."""
        document: dict[str, Any] = {"id": self.id, "outcome": self.outcome.value if self.outcome else None}
        if self.tool:
            document["tool"] = self.tool
        document["value"] = self.value
        if self.failure:
            document["failure"] = self.failure.to_json()
        if self.reason:
            document["reason"] = self.reason
        if self.items:
            document["items"] = [_item_json(item) for item in self.items]
        if self.replaced:
            document["replaced"] = True
        return document


@dataclass(frozen=True, slots=True)
class Run:
    """A run, as far as it has come.

    `state` is one of `running waiting done failed stopped`; `reason` refines `stopped` (and says why one waits);
    `message` is a sentence. `waiting` holds the open questions to people. `failures` are those that stand: of steps
    that no re-plan has replaced, and of items.
    """

    id: str
    state: RunState
    reason: str = ""
    message: str = ""
    output: Any = None
    plan: Plan | None = None
    inputs: dict[str, Any] = field(default_factory=dict)
    steps: dict[str, StepResult] = field(default_factory=dict)
    waiting: tuple[DecisionAsked, ...] = ()
    tool_calls: int = 0
    model_calls: int = 0
    replans: int = 0

    @property
    def ok(self) -> bool:
        """Whether the run is done."""
        return self.state == "done"

    def __getitem__(self, id: str) -> Any:
        """The value of a step."""
        return self.steps[id].value

    @property
    def failures(self) -> tuple[tuple[str, Failure], ...]:
        """Failures that stand, by the path of the step or item: `("refund[3]", Failure(…))`."""
        return tuple(self._failures())

    def _failures(self) -> Iterator[tuple[str, Failure]]:
        for step in self.steps.values():
            if step.replaced:
                continue
            failed = [item for item in step.items if item.failure is not None]
            for item in failed:
                assert item.failure is not None
                yield path_text((step.id, item.index)), item.failure
            if not failed and step.failure is not None:
                yield step.id, step.failure

    def to_json(self) -> dict[str, Any]:
        """The whole run as plain JSON."""
        return {
            "run": self.id,
            "state": self.state,
            "reason": self.reason,
            "message": self.message,
            "output": self.output,
            "steps": [step.to_json() for step in self.steps.values()],
            "failures": [{"step": step, **failure.to_json()} for step, failure in self.failures],
            "waiting": [
                {"id": d.id, "about": d.about, "options": list(d.options), "question": d.question}
                for d in self.waiting
            ],
            "tool_calls": self.tool_calls,
            "model_calls": self.model_calls,
            "replans": self.replans,
        }


def run_of(state: State, *, journal_failed: str = "") -> Run:
    """The run that a state describes."""
    plan = state.program.plan if state.program is not None else None
    stands, reason, message = _standing(state)
    if journal_failed:
        stands, reason, message = "stopped", "journal", journal_failed
    return Run(
        id=state.run,
        state=stands,
        reason=reason,
        message=message,
        output=state.closed.output if state.closed is not None else None,
        plan=plan,
        inputs=state.inputs,
        steps={id_: _step(state, node) for id_, node in state.nodes.items()},
        waiting=tuple(state.decisions.values()),
        tool_calls=state.tool_calls,
        model_calls=state.model_calls,
        replans=state.replans,
    )


def _standing(state: State) -> tuple[RunState, str, str]:
    closed = state.closed
    if closed is not None:
        return closed.state, closed.reason, closed.message
    if not state.waiting:
        return "running", "", "the run is under way"
    if state.resting and state.decisions:
        return "waiting", "people", f"waiting for {len(state.decisions)} answers"
    return "waiting", "interrupted", "interrupted; it goes on when it is resumed"


def _step(state: State, node: Node) -> StepResult:
    id_ = node.code.id
    return StepResult(
        id=id_,
        tool=node.code.step.tool,
        outcome=node.outcome,
        value=node.value,
        failure=node.failure,
        reason=node.reason,
        items=tuple(_items(node.lane)) if node.lane is not None and node.lane.items is not None else (),
        replaced=id_ in state.superseded,
    )


def _items(lane: Lane) -> Iterator[ItemResult]:
    for index, outcome in enumerate(lane.outcomes):
        if outcome is not Outcome.OK:
            fault = lane.faults.get(index)
            reason = lane.reasons.get(index, "")
            yield ItemResult(index, outcome, lane.values[index], fault.failure if fault else None, reason)


def _item_json(item: ItemResult) -> dict[str, Any]:
    document: dict[str, Any] = {"index": item.index, "outcome": item.outcome.value if item.outcome else None}
    if item.failure:
        document["failure"] = item.failure.to_json()
    if item.reason:
        document["reason"] = item.reason
    return document
