"""The mind of a batch: what its events mean, how many rows may begin, and what comes when none is under way.

    BatchOpened -> RowsTaken -> rows begin (`room`) -> RowSettled, RowParked ... -> nothing under way (`conclusion`)
                                                                                     ask after the canary
                                                                                     wait for people
                                                                                     RunClosed

Rows are runs with minds of their own. A row that ended is a byte here; one that waits is an entry in a table. Which rows are
under way no event says: the driver does, and after a replay there are none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, NamedTuple

from ...policies.batches import BatchRules, too_many_failed
from ...policies.canonical import digest
from ...policies.policies import Budget
from ...policies.text import count
from .. import events as e
from ..events import PEOPLE, Event
from .budget import Used, exact
from .groups import Mending
from .rows import Shared
from .state import StaleState, State, Write

__all__ = [
    "CANARY",
    "BatchState",
    "Ended",
    "advance_batch",
    "affordable",
    "conclusion",
    "group_of",
    "may_go_on",
    "replay_batch",
    "room",
    "shared_results",
    "standing",
    "summary",
    "to_settle",
    "unsettled_groups",
    "with_budget",
]

CANARY = "canary"
"""The id of the question after the first rows."""
_STATUSES = ("", "done", "failed", "stopped", "refused")
"""How a row ended, as a byte: 0 where it has not."""
_CODE = {status: code for code, status in enumerate(_STATUSES)}
_AGAIN = 255
"""Of a row that ended and is to be tried again."""


class Ended(NamedTuple):
    """How rows ended, for counting: by status, and by kind and code of what failed first."""

    status: str
    kind: str = ""
    code: str = ""


class BatchState:
    """Everything that is known of a batch; `advance_batch` alone changes it, but for `live`, which is the driver's."""

    def __init__(self) -> None:
        self.seq = 0
        self.at = 0.0
        self.opened: e.BatchOpened | None = None
        self.rules = BatchRules()
        self.rows: int | None = None
        """How many there are, once all are in the journal."""
        self.digest = ""
        """Of their source."""
        self.ended = bytearray()
        """Of each row by ordinal how it ended (`_STATUSES`)."""
        self.counts: Counter[Ended] = Counter()
        self.began = 0
        """Rows that ended or wait after they had begun."""
        self.parked: dict[int, e.RowParked] = {}
        self.shared = ""
        """How the run of the shared steps ended."""
        self.live: set[int] = set()
        """Rows under way in this process."""
        self.charged: dict[int, dict[str, Any]] = {}
        """What each row was charged with that did not succeed, and may be tried again."""
        self.tool_calls = 0
        self.model_calls = 0
        self.tokens = 0
        self.cost = Decimal(0)
        self.away = 0.0
        self.groups: dict[str, e.GroupSettled] = {}
        """What became of rows that failed alike, by what they failed of (`group_of`)."""
        self.mendings: dict[str, Mending] = {}
        """How far a patch for them has come, since the batch was opened or reopened."""
        self.mending = ""
        """The group that the planner was asked about last."""
        self.formed = 0
        self.held: set[str] = set()
        """Tools that are broken at the moment."""
        self.decisions: dict[str, e.DecisionAsked] = {}
        self.answered: dict[str, e.DecisionMade] = {}
        self.canary_over = False
        self.stopping = ""
        """Why no further row begins: `failures`, `canary`, `budget`, `shared`."""
        self.why = ""
        """The same as the end of a sentence."""
        self.waiting = False
        """Whether nobody drives it."""
        self.closed: e.RunClosed | None = None
        self.reserve: dict[str, float] | None = None
        """What is kept of its budget for each row under way."""
        self.shared_asks = False
        """Whether people are asked by the run of what all rows share."""
        self.accepted: list[e.RunResumed | e.RowsReopened] = []
        """What came with other terms than it was opened with, that somebody accepted."""
        self.trace = ""
        """The span in which the last part of the batch was told, as `traceparent`."""

    @property
    def run(self) -> str:
        """The id of the batch."""
        return self.opened.run if self.opened is not None else ""

    @property
    def settled(self) -> int:
        """How many rows have ended, those that were set aside included."""
        return self.counts.total()

    @property
    def failed(self) -> int:
        """How many of the rows that ran are not done."""
        return sum(n for how, n in self.counts.items() if how.status in ("failed", "stopped"))

    @property
    def left(self) -> int:
        """How many rows have not begun yet."""
        taken_up = sum(ordinal in self.parked for ordinal in self.live) if self.parked else 0
        return (self.rows or 0) - self.settled - len(self.parked) - len(self.live) + taken_up

    def status_of(self, ordinal: int) -> str:
        """How a row ended; "" where it has not."""
        code = self.ended[ordinal] if ordinal < len(self.ended) else 0
        return "" if code == _AGAIN else _STATUSES[code]

    def is_reopened(self, ordinal: int) -> bool:
        """Whether a row that ended before is to be tried again."""
        return ordinal < len(self.ended) and self.ended[ordinal] == _AGAIN

    def used(self) -> Used:
        """What its rows have used up so far, those under way not included."""
        opened = self.opened.at if self.opened is not None else self.at
        seconds = round(max(0.0, self.at - opened - self.away), 6)
        cost = float(self.cost)
        return Used(self.tool_calls, {}, self.model_calls, self.tokens, cost, seconds)


def advance_batch(state: BatchState, event: Event) -> None:
    """Take in what happened. Raises `StaleState` where the event does not follow."""
    if event.seq != state.seq + 1:
        raise StaleState(f"event {event.seq} does not follow {state.seq}: this state is stale")
    if state.waiting:
        state.away += event.at - state.at
    state.seq, state.at = event.seq, event.at
    ON[type(event)](state, event)


def replay_batch(events: Iterable[Event]) -> BatchState:
    """The state to which these events lead."""
    state = BatchState()
    for event in events:
        advance_batch(state, event)
    return state


def group_of(parked: e.RowParked) -> str:
    """What a row that waits has in common with others that failed alike; "" where it waits for people."""
    return "" if parked.alike is None else digest(parked.alike)


def unsettled_groups(state: BatchState) -> dict[str, list[int]]:
    """The rows that wait for a patch, by group, the largest first; not those of which a person is asked or has answered."""
    found: dict[str, list[int]] = {}
    for ordinal, parked in state.parked.items():
        group = group_of(parked)
        if group and group not in state.groups:
            found.setdefault(group, []).append(ordinal)
    asked = {group for group, mending in state.mendings.items() if mending.phase in ("wait", "settle")}
    left = [(group, sorted(ordinals)) for group, ordinals in found.items() if group not in asked]
    return dict(sorted(left, key=lambda pair: (pair[0] not in state.mendings, -len(pair[1]), pair[1])))


def to_settle(state: BatchState) -> list[tuple[str, Mending]]:
    """The groups of which all is known, and that is still to be written."""
    return [
        (group, mending)
        for group, mending in state.mendings.items()
        if mending.phase == "settle" and group not in state.groups
    ]


def may_go_on(state: BatchState, parked: e.RowParked) -> bool:
    """Whether a row that waited has all its answers, or its group has."""
    return not parked.questions and (parked.alike is None or group_of(parked) in state.groups)


def shared_results(state: State) -> dict[str, Shared]:
    """How the shared steps ended, by the state of their run."""
    return {
        id_: Shared(node.outcome, node.value, node.failure, node.reason)
        for id_, node in state.nodes.items()
        if node.outcome is not None
    }


# ---------------------------------------------------------------------------------------------- what may be done


def room(state: BatchState, now: float | None = None) -> int:
    """How many more rows may begin now."""
    if state.rows is None or state.stopping or state.closed is not None or (state.held and state.live):
        return 0
    most = min(state.rules.at_once - len(state.live), state.left)
    if state.rules.canary and not state.canary_over:
        most = min(most, state.rules.canary - state.began - len(state.live))
    return max(min(most, _affordable(state, most, state.at if now is None else now)), 0)


def _affordable(state: BatchState, most: int, now: float) -> int:
    """How many rows the budget of the batch allows, with what each may use at most kept for those under way."""
    budget, opened, reserve = state.rules.budget, state.opened, state.reserve
    if opened is None or reserve is None:
        return most
    if budget.seconds is not None and now - opened.at - state.away >= budget.seconds:
        return 0
    for name, each in reserve.items():
        left = getattr(budget, name) - float(getattr(state, name)) - len(state.live) * each
        most = min(most, int(left // each) if each else most if left >= 0 else 0)
    return most


def affordable(state: BatchState) -> bool:
    """Whether its budget allows one more row, as it stands."""
    return _affordable(state, 1, state.at) > 0


def conclusion(state: BatchState, forthcoming: bool = False, *, now: float | None = None) -> Write | None:
    """What is to be written where no row is under way and none may begin; None: wait for what is asked.

    `forthcoming`: somebody here is being asked.
    """
    if state.closed is not None:
        return None
    if state.stopping or not (state.left or state.parked):
        return Write(e.RunClosed, _closing(state))
    if state.left and not _affordable(state, 1, state.at if now is None else now):
        bad = "the budget of the batch allows no further row"
        return Write(e.RunClosed, ("stopped", "budget", summary(state), f"{_told(state)}; {bad}"))
    if state.left and CANARY not in state.decisions:
        return Write(e.DecisionAsked, (CANARY, "canary", (), ("approve", "reject"), _canary(state)))
    return None if forthcoming else Write(e.RunPaused, (PEOPLE, tuple(state.decisions)))


def _canary(state: BatchState) -> dict[str, Any]:
    """The question after the first rows."""
    ran = "the first row" if state.began == 1 else f"the first {count(state.began, 'row')}"
    reason = f"{ran} ran ({_told(state)}); {count(state.left, 'more row')} would follow"
    return {"reason": reason, "rows": state.rows, **_counted(state)}


def _closing(state: BatchState) -> tuple[Any, ...]:
    """State, reason, output and sentence of the end."""
    bad = state.rows != state.counts[Ended("done")]
    how = "stopped" if state.stopping else "failed" if bad else "done"
    said = f"{_told(state)}; {state.why}" if state.stopping else _told(state)
    return (how, state.stopping, summary(state), said)


def _told(state: BatchState) -> str:
    """How the rows stand, as part of a sentence."""
    if state.rows == 0:
        return "no rows: nothing ran"
    by = Counter[str]()
    for how, n in state.counts.items():
        by[how.status] += n
    parts = [f"{by[status]:,} {_SAID[status]}" for status in _STATUSES[1:] if by[status]]
    if state.parked:
        parts.append(f"{len(state.parked):,} waiting")
    if state.left:
        parts.append(f"{state.left:,} not begun")
    return f"{count(state.rows or 0, 'row')}: {', '.join(parts) or 'none'}"


_SAID = {"done": "done", "failed": "failed", "stopped": "stopped", "refused": "set aside"}


def summary(state: BatchState) -> dict[str, Any]:
    """How the rows stand, in numbers, and what they used."""
    return {
        "rows": state.rows,
        **_counted(state),
        "waiting": len(state.parked),
        "not_begun": state.left,
        "used": state.used().to_json(),
    }


def standing(state: BatchState) -> tuple[e.RunState, str, str]:
    """How the batch stands: state, reason, sentence."""
    closed = state.closed
    if closed is not None:
        return closed.state, closed.reason, closed.message
    if not state.waiting:
        held = f"; rows wait for {' and '.join(sorted(state.held))}, which is down" if state.held else ""
        return "running", "", f"under way; {_told(state)}{held}"
    questions = len(state.decisions) - len(state.answered)
    shared = state.shared_asks and not state.shared
    if questions or shared or any(parked.questions for parked in state.parked.values()):
        return "waiting", "people", f"waiting for people; {_told(state)}"
    return "waiting", "interrupted", f"it goes on when it is resumed; {_told(state)}"


def _counted(state: BatchState) -> dict[str, Any]:
    by, failures = dict.fromkeys(_STATUSES[1:], 0), list[dict[str, Any]]()
    for how, n in state.counts.most_common():
        by[how.status] += n
        if how.kind:
            failures.append({"status": how.status, "kind": how.kind, "code": how.code, "rows": n})
    return {**by, "failures": failures}


# ---------------------------------------------------------------------------------------------- what happened


def _opened(state: BatchState, event: e.BatchOpened) -> None:
    state.opened, state.trace, state.reserve = event, event.trace, event.reserve
    state.rules = BatchRules.model_validate(event.rules)


def _taken(state: BatchState, event: e.RowsTaken) -> None:
    state.rows, state.digest = event.rows, event.digest
    state.ended.extend(bytes(event.rows + 1 - len(state.ended)))


def _row_settled(state: BatchState, event: e.RowSettled) -> None:
    """Each row ends once, until it is reopened."""
    if event.ordinal >= len(state.ended):  # one that was set aside while the others came
        state.ended.extend(bytes(event.ordinal + 1 - len(state.ended)))
    if state.status_of(event.ordinal):
        raise StaleState(f"row {event.ordinal} of batch {state.run!r} has ended before")
    state.ended[event.ordinal] = _CODE[event.status]
    if not event.ordinal:
        _shared_settled(state, event)
        return
    state.counts[Ended(event.status, event.kind, event.code)] += 1
    if not event.run:
        return
    if state.parked.pop(event.ordinal, None) is None:
        state.began += 1
    _charge(state, event.used or {}, state.charged.pop(event.ordinal, {}) if state.charged else None)
    if event.status != "done":
        state.charged[event.ordinal] = event.used or {}
    failed = state.failed
    if failed and not state.stopping and too_many_failed(state.rules, failed, _ran(state)):
        state.stopping = "failures"
        state.why = f"{count(failed, 'row')} failed, so no further one began"


def _shared_settled(state: BatchState, event: e.RowSettled) -> None:
    """The steps that all rows share have ended; where they did not succeed no row can begin."""
    state.shared = event.status
    _charge(state, event.used or {})
    if event.status != "done":
        state.stopping = "shared"
        state.why = "the steps that all rows share did not succeed, so none began"


def _ran(state: BatchState) -> int:
    return sum(n for how, n in state.counts.items() if how.status != "refused")


def _charge(state: BatchState, used: dict[str, Any], before: dict[str, Any] | None = None) -> None:
    """`before` is what the same row was charged with when it ended the last time: its count goes on where it stood."""
    _count(state, used, 1)
    if before:
        _count(state, before, -1)


def _count(state: BatchState, amounts: dict[str, Any], sign: int) -> None:
    state.tool_calls += sign * amounts.get("tool_calls", 0)
    state.model_calls += sign * amounts.get("model_calls", 0)
    state.tokens += sign * amounts.get("tokens", 0)
    cost = amounts.get("cost")
    if cost:
        state.cost += sign * exact(cost)


def _row_parked(state: BatchState, event: e.RowParked) -> None:
    if not event.ordinal:  # no row begins before it has ended
        state.shared_asks = bool(event.questions)
        return
    if event.ordinal not in state.parked:
        state.began += 1
    state.parked[event.ordinal] = event


def _group_formed(state: BatchState, event: e.GroupFormed) -> None:
    state.formed += 1
    hooked = state.opened is not None and "on_failure" in state.opened.hooks
    state.mending = event.group
    id_ = f"patch:{state.formed}"
    state.mendings[event.group] = Mending(id_, event.rows, "consult" if hooked else "ask")


def _group_settled(state: BatchState, event: e.GroupSettled) -> None:
    state.groups[event.group] = event


def _hook_answered(state: BatchState, event: e.HookAnswered) -> None:
    state.mendings[state.mending].hooked(event)


def _patch_refused(state: BatchState, event: e.PatchRefused) -> None:
    state.mendings[state.mending].refused(event.findings, _repairs(state))


def _repairs(state: BatchState) -> int:
    """How often an answer of the planner may be mended."""
    return state.opened.policies.max_repairs if state.opened is not None else 0


def _model_answered(state: BatchState, event: e.ModelAnswered) -> None:
    """A planner was asked for a group of rows."""
    state.mendings[state.mending].answered(event, _repairs(state))
    used = event.usage or {}
    state.model_calls += used.get("model_calls", state.opened.planner_calls if state.opened else 1)
    state.tokens += used.get("input_tokens", 0) + used.get("output_tokens", 0)
    state.cost += exact(used.get("cost", 0))


def _asked(state: BatchState, event: e.DecisionAsked) -> None:
    state.decisions[event.id] = event
    if event.about == "patch":
        state.mendings[event.question["group"]].asked(event)


def _decided(state: BatchState, event: e.DecisionMade) -> None:
    """An answer; one that comes while nobody drives the batch is kept for who takes it up."""
    if state.waiting:
        state.answered[event.id] = event
        return
    asked = state.decisions.pop(event.id)
    if asked.about == "patch":
        state.mendings[asked.question["group"]].decided(event)
    if asked.about == "canary":
        state.canary_over = True
        if event.choice != "approve":
            state.stopping = "canary"
            why = f": {event.reason}" if event.reason else ""
            state.why = f"{event.by} stopped it after the first rows{why}"


def _paused(state: BatchState, event: e.RunPaused) -> None:
    state.waiting = True


def _take_up(state: BatchState, event: e.RunResumed | e.RowsReopened) -> None:
    """Where it is told from here on, and what it goes by."""
    state.trace = event.trace
    if event.accepted is not None:
        state.accepted.append(event)
        state.reserve = event.accepted.get("reserve", state.reserve)


def _resumed(state: BatchState, event: e.RunResumed) -> None:
    state.waiting = False
    _take_up(state, event)
    state.held.clear()
    answered, state.answered = state.answered, {}
    for made in answered.values():
        _decided(state, made)


def _closed(state: BatchState, event: e.RunClosed) -> None:
    state.closed = event
    state.decisions.clear()
    state.waiting = True


def _reopened(state: BatchState, event: e.RowsReopened) -> None:
    """Rows that are not done are as if they had not ended; those that were set aside stay so."""
    state.closed = None
    state.waiting = False
    _take_up(state, event)
    state.rules = with_budget(state.rules, event.raised)
    state.mendings.clear()  # rows that failed for want of a patch may be mended now
    state.groups = {group: said for group, said in state.groups.items() if said.patch is not None}
    state.stopping = state.why = ""
    again = {_CODE["failed"], _CODE["stopped"]}
    if state.shared in ("failed", "stopped"):
        state.shared = ""
        state.ended[0] = _AGAIN
    for ordinal, code in enumerate(state.ended):
        if code in again:
            state.ended[ordinal] = _AGAIN
            state.began -= ordinal > 0
    state.counts = Counter(
        {how: n for how, n in state.counts.items() if how.status not in ("failed", "stopped")}
    )


def with_budget(rules: BatchRules, raised: dict[str, Any] | None) -> BatchRules:
    """The rules with the budget that somebody raised, if anybody did."""
    if raised is None:
        return rules
    return rules.model_copy(update={"budget": Budget.model_validate(raised["budget"])})


def _held(state: BatchState, event: e.ToolHeld) -> None:
    state.held.add(event.tool)


def _freed(state: BatchState, event: e.ToolFreed) -> None:
    state.held.discard(event.tool)


ON: dict[type[Event], Callable[[BatchState, Any], None]] = {
    e.BatchOpened: _opened,
    e.RowsTaken: _taken,
    e.RowSettled: _row_settled,
    e.RowParked: _row_parked,
    e.GroupFormed: _group_formed,
    e.GroupSettled: _group_settled,
    e.HookAnswered: _hook_answered,
    e.PatchRefused: _patch_refused,
    e.ModelAnswered: _model_answered,
    e.RowsReopened: _reopened,
    e.ToolHeld: _held,
    e.ToolFreed: _freed,
    e.DecisionAsked: _asked,
    e.DecisionMade: _decided,
    e.RunPaused: _paused,
    e.RunResumed: _resumed,
    e.RunClosed: _closed,
}
