"""A run as people and programs read it: made from a state, live or replayed, and sharing no value with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ..planner.models.messages import Message
from ..planner.plan import Plan
from ..policies.failures import Failure
from ..policies.policies import Budget
from ..policies.text import count
from ..registry.values import copy_plain
from .events import DecisionAsked, Outcome, Path, RunState, path_text
from .mind.budget import Left, Used, left, used
from .mind.rounds import unanswered
from .mind.state import Frame, Lane, Node, State

__all__ = ["ItemResult", "Run", "StepResult", "open_questions", "run_of"]


_ENDED = (Outcome.OK, Outcome.FAILED, Outcome.SKIPPED)


@dataclass(frozen=True, slots=True)
class ItemResult:
    """One item of a step with `each`. `outcome` is None while it is open."""

    index: int
    outcome: Outcome | None
    value: Any = None
    failure: Failure | None = None
    reason: str = ""
    steps: dict[str, StepResult] = field(default_factory=dict)
    """Inside a group: its steps for this item, as far as the group's output does not say it all."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """How one step stands. `value` is plain JSON (of an `each` under way, what there is so far); `items` holds those of `each` that did not simply succeed.

    Of a group, `steps` are the steps inside it (with `each`, they stand with their item).
    """

    id: str
    tool: str | None
    outcome: Outcome | None
    value: Any = None
    failure: Failure | None = None
    reason: str = ""
    items: tuple[ItemResult, ...] = ()
    replaced: bool = False
    steps: dict[str, StepResult] = field(default_factory=dict)

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
        if self.steps:
            document["steps"] = [step.to_json() for step in self.steps.values()]
        return document

    def unfinished(self, within: Path = ()) -> Iterator[str]:
        """Paths in this step that are not done: of the steps inside it, else of its items, else its own."""
        if self.outcome in _ENDED:
            return
        path = (*within, self.id)
        inner = [p for step in self.steps.values() for p in step.unfinished(path)]
        for item in self.items:
            if item.outcome in _ENDED:
                continue
            inside = [p for step in item.steps.values() for p in step.unfinished((*path, item.index))]
            inner += inside or [path_text((*path, item.index))]
        yield from inner or [path_text(path)]

    def failures(self, within: Path = ()) -> Iterator[tuple[str, Failure]]:
        """Failures in this step by path: of the steps inside it, else of its items, else its own."""
        path = (*within, self.id)
        inner = [f for step in self.steps.values() for f in step.failures(path)]
        for item in self.items:
            inside = [f for step in item.steps.values() for f in step.failures((*path, item.index))]
            inner += inside or ([(path_text((*path, item.index)), item.failure)] if item.failure else [])
        if inner:
            yield from inner
        elif self.failure is not None:
            yield path_text(path), self.failure


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
    used: Used = field(default_factory=Used)
    """What it has used up of its budget, making the plan, re-plans and sub-plans included."""
    budget: Budget = field(default_factory=Budget)
    replans: int = 0
    messages: tuple[Message, ...] = ()
    """What was said in a dialogue; every call in it is answered, also where the run was cut short."""
    earlier: int = 0
    """How many of the messages, after the system message, were said before this run."""
    rehearsal: bool = False
    """Whether stand-ins were called in the place of tools: nothing in it happened."""
    parent: str = ""
    """The run in which this one is the call of a sub-plan."""
    forked_from: str = ""
    """The run from which this one has taken over results."""
    deadline: float | None = None
    """In how many seconds from its opening it was wanted to end; that stops nothing (`budget.seconds` does)."""
    took: float = 0.0
    """Seconds from its opening to its end, or to its last event so far; waits for people included."""

    @property
    def late(self) -> bool:
        """Whether it took longer than it was wanted to."""
        return self.deadline is not None and self.took > self.deadline

    @property
    def left(self) -> Left:
        """What is left of each bound of its budget."""
        return left(self.budget, self.used)

    @property
    def unfinished(self) -> tuple[str, ...]:
        """The steps, and of a step with `each` the items, that are not done: open, blocked, cancelled or unknown."""
        standing = (step for step in self.steps.values() if not step.replaced)
        return tuple(path for step in standing for path in step.unfinished())

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
        standing = (step for step in self.steps.values() if not step.replaced)
        return tuple(failure for step in standing for failure in step.failures())

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
            "used": self.used.to_json(),
            "left": self.left.to_json(),
            **({"unfinished": list(self.unfinished)} if self.state == "stopped" else {}),
            "replans": self.replans,
            **({"messages": [m.to_json() for m in self.messages]} if self.messages else {}),
            **({"parent": self.parent} if self.parent else {}),
            **({"forked_from": self.forked_from} if self.forked_from else {}),
            **self._objective(),
            **({"rehearsal": True} if self.rehearsal else {}),
        }

    def _objective(self) -> dict[str, Any]:
        if self.deadline is None:
            return {}
        return {"deadline": self.deadline, "took": self.took, "late": self.late}


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
        output=copy_plain(state.closed.output) if state.closed is not None else None,
        plan=plan,
        inputs=copy_plain(state.inputs),
        steps={id_: _step(state, node) for id_, node in state.nodes.items()},
        waiting=open_questions(state),
        tool_calls=state.tool_calls,
        model_calls=state.model_calls,
        used=used(state),
        budget=state.policies.budget,
        replans=state.replans,
        messages=_messages(state),
        earlier=state.dialogue.earlier if state.dialogue is not None else 0,
        parent=state.parent,
        forked_from=state.forked_from,
        deadline=state.deadline,
        took=round(max(0.0, state.at - state.opened_at), 6),
    )


def open_questions(state: State) -> tuple[DecisionAsked, ...]:
    """What people are asked and nobody has answered."""
    return tuple(asked for id_, asked in state.decisions.items() if id_ not in state.answered)


def _messages(state: State) -> tuple[Message, ...]:
    dialogue = state.dialogue
    return (
        (*dialogue.history, *unanswered(dialogue, ended=state.closed is not None))
        if dialogue is not None
        else ()
    )


def _standing(state: State) -> tuple[RunState, str, str]:
    closed = state.closed
    if closed is not None:
        return closed.state, closed.reason, closed.message
    if not state.waiting:
        return "running", "", "under way; if its process was killed, resume takes it up"
    left = len(open_questions(state))
    if state.resting and left:
        return "waiting", "people", f"waiting for {count(left, 'answer')}"
    if state.answered and not left:
        return "waiting", "answered", "every question is answered; it goes on when it is resumed"
    return "waiting", "interrupted", "interrupted; it goes on when it is resumed"


def _step(state: State, node: Node) -> StepResult:
    id_, lane = node.code.id, node.lane
    plural = lane is not None and lane.plural
    single = lane.frames.get(0) if lane is not None and not plural else None
    so_far = lane.values if lane is not None and plural and node.outcome is None else node.value
    return StepResult(
        id=id_,
        tool=node.code.step.tool,
        outcome=Outcome.CANCELLED if _cut_short(state, node) else node.outcome,
        value=copy_plain(so_far),
        failure=node.failure,
        reason=node.reason,
        items=tuple(_items(state, lane)) if lane is not None and plural else (),
        replaced=id_ in state.superseded and not node.frame.path,
        steps=_inside(state, single),
    )


def _cut_short(state: State, node: Node) -> bool:
    """Whether a step had begun, and a stop of its run kept it from its end."""
    return state.closed is not None and node.outcome is None and _began(node)


def _began(node: Node) -> bool:
    lane = node.lane
    if lane is None:
        return False
    inside = (inner for frame in lane.frames.values() for inner in frame.nodes.values())
    return any(lane.outcomes) or bool(lane.faults) or any(inner.outcome or _began(inner) for inner in inside)


def _inside(state: State, frame: Frame | None) -> dict[str, StepResult]:
    return {id_: _step(state, node) for id_, node in frame.nodes.items()} if frame is not None else {}


def _items(state: State, lane: Lane) -> Iterator[ItemResult]:
    for index, outcome in enumerate(lane.outcomes):
        inside = _inside(state, lane.frames.get(index))
        reason = lane.reasons.get(index, "")
        if outcome is Outcome.OK and not inside and not reason:
            continue
        if lane.items is None and outcome is Outcome.SKIPPED:
            continue  # a call that a repeating step did not need
        fault = lane.faults.get(index)
        yield ItemResult(
            index, outcome, copy_plain(lane.values[index]), fault.failure if fault else None, reason, inside
        )


def _item_json(item: ItemResult) -> dict[str, Any]:
    document: dict[str, Any] = {"index": item.index, "outcome": item.outcome.value if item.outcome else None}
    if item.failure:
        document["failure"] = item.failure.to_json()
    if item.reason:
        document["reason"] = item.reason
    if item.steps:
        document["steps"] = [step.to_json() for step in item.steps.values()]
    return document
