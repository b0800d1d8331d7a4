"""The journal: what happened, written down before anything follows from it.

A `Journal` holds many runs; a `Log` is one run's journal in the hands of the one process that drives it.
`append` fixes the order at once and returns; `durable` waits until all that was appended survives `kill -9`.
After a failed append nothing more can be appended, so nothing new is started.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple, Protocol

from ...policies.errors import JournalError, NotApproved, UnknownRun
from ...policies.text import did_you_mean, shorten
from ..events import (
    BatchOpened,
    Event,
    PlanAccepted,
    RowOpened,
    RowReopened,
    RowsReopened,
    RunClosed,
    RunOpened,
    RunPaused,
    RunResumed,
    RunState,
)

__all__ = [
    "UNFINISHED",
    "BatchLog",
    "Ending",
    "Journal",
    "Log",
    "MemoryJournal",
    "Opening",
    "RunLine",
    "at_rest",
    "run_line",
    "spent",
    "unknown",
]


UNFINISHED = ("running", "waiting")
"""The states of runs that are not closed."""


class RunLine(NamedTuple):
    """One line of the list of runs. Times are epoch seconds."""

    run: str
    state: RunState
    reason: str
    goal: str
    opened_at: float
    events: int


class Opening(NamedTuple):
    """The first event of a row of a batch, and how it stands: its line, and the end of its chain where there is one."""

    opened: RowOpened
    line: RunLine
    tip: bytes = b""


class Ending(NamedTuple):
    """The last event of a row of a batch, and how it stands."""

    ordinal: int
    line: RunLine
    last: Event


class Log(Protocol):
    """One run's journal, owned by this process until `close`."""

    run: str

    def append(self, event: Event, /) -> None:
        """Write an event after all others of this run. Raises `JournalError`; then nothing was acknowledged."""

    async def durable(self) -> None:
        """Wait until everything appended so far is durable. Raises `JournalError`."""

    def close(self) -> None:
        """Let go of the run, after all that was appended is durable. Raises `JournalError`."""


class BatchLog(Log, Protocol):
    """The journal of a batch, which owns its rows too: they need no lock of their own, and stop with it."""

    def row(self, run: str, ordinal: int, opening: Opening | None = None) -> Log:
        """The log of a row that begins (its first event is `RowOpened`), or goes on after what `opening` says of it.

        Closing it waits for nothing: what a row has written is durable when the batch's log is closed.
        """

    def recount(self) -> None:
        """Rows are going to be added to those that were there when the batch was reopened."""


class Journal(Protocol):
    """Many runs, each a sequence of events."""

    def create(self, run: str, *, approval: str = "") -> BatchLog:
        """Begin a run. `approval` is the id of the approval it consumes; a spent one is refused (`NotApproved`)."""

    def reopen(self, run: str) -> BatchLog:
        """Take a run up again. Raises `UnknownRun`, and `JournalError` while another process drives it, or for a row."""

    def openings(self, batch: str, *, after: int = -1) -> Iterator[Opening]:
        """The rows of a batch after this ordinal, in order, as they stood when they were asked for: some at a time."""

    def endings(self, batch: str) -> Iterator[Ending]:
        """The rows of a batch in order, each with its last event."""

    def opening(self, run: str) -> Opening | None:
        """The same of one row; None for a run that is none."""

    def events(self, run: str, *, after: int = 0) -> Iterator[Event]:
        """The events of a run that come after this number, in order. Raises `UnknownRun`."""

    def some(self, run: str, kinds: Collection[type[Event]]) -> Iterator[Event]:
        """The events of these kinds, in order: a quick look, for which the chain is not followed. Raises `UnknownRun`."""

    def runs(self, *, unfinished: bool = False) -> list[RunLine]:
        """All runs (or those that are not closed), the newest first; rows of batches are not among them.

        One whose process was killed says so: it waits, `interrupted`.
        """

    def driven(self, run: str) -> bool:
        """Whether somebody, here or in another process, drives this run now."""

    def run_of_approval(self, approval: str) -> str | None:
        """The run that consumed this approval, if any."""


_TELL = frozenset(
    {
        RunOpened,
        PlanAccepted,
        RunPaused,
        RunResumed,
        RunClosed,
        BatchOpened,
        RowOpened,
        RowReopened,
        RowsReopened,
    }
)
"""The kinds of events that the list of runs tells of."""


def run_line(run: str, events: list[Event], since: RunLine | None = None) -> RunLine:
    """What the list of runs says of a run with these events, or with these after what it said before (`since`)."""
    _, state, reason, goal, opened_at, earlier = since or RunLine(run, "running", "", "", 0.0, 0)
    for event in events:
        if type(event) not in _TELL:
            continue
        match event:
            case RunOpened():
                opened_at = event.at
                goal = _question(event)
            case PlanAccepted():
                goal = event.plan.goal
            case BatchOpened():
                opened_at, goal = event.at, event.plan.goal
            case RowOpened():
                opened_at = event.at
            case RunPaused():
                state, reason = "waiting", event.reason
            case RunResumed() | RowReopened() | RowsReopened():
                state, reason = "running", ""
            case RunClosed():
                state, reason = event.state, event.reason
            case _:
                pass
    return RunLine(run, state, reason, goal, opened_at, earlier + len(events))


def at_rest(line: RunLine) -> RunLine:
    """What the list says of a run that nobody drives: it does not run, whatever its last event was."""
    return line._replace(state="waiting", reason="interrupted") if line.state == "running" else line


def _question(opened: RunOpened) -> str:
    """What is asked in a dialogue: in place of a goal, the last that a person said."""
    messages = opened.agent["messages"] if opened.agent is not None else ()
    said = [message["content"] for message in messages if message["role"] == "user"]
    return shorten(said[-1], 500) if said else ""


def spent(approval: str, by: str) -> NotApproved:
    """An approval is for one run, and `by` (words) has consumed it."""
    return NotApproved(f"approval {approval!r} is spent: it was consumed by {by}; approve the plan again")


def of_batch(run: str, batch: str) -> JournalError:
    """A row cannot be taken up without its batch."""
    return JournalError(f"run {run!r} is a row of batch {batch!r} and goes on with it: resume {batch!r}")


def unknown(run: str, runs: list[str]) -> UnknownRun:
    """No run has this id; `runs` are ids that there are, the newest first."""
    newest = f"; the newest is {runs[0]!r}" if runs else "; it holds none yet"
    return UnknownRun(f"no run {run!r} in this journal{did_you_mean(run, runs) or newest}")


class MemoryLog:
    """A run's journal in a list: durable as long as the process is."""

    def __init__(self, run: str, events: list[Event], journal: MemoryJournal) -> None:
        self.run = run
        self._journal = journal
        self.append: Callable[[Event], None] = events.append  # the list's own method: the fastest there is

    async def durable(self) -> None:
        """Nothing to wait for."""

    def close(self) -> None:
        """Let go of the run."""
        self._journal._driven.discard(self.run)

    def row(self, run: str, ordinal: int, opening: Opening | None = None) -> MemoryLog:
        """The log of a row."""
        return self._journal._row(run, self.run, ordinal)

    def recount(self) -> None:
        """There is no chain."""


class MemoryJournal:
    """Runs in memory: for tests, and for runs nobody needs to prove or resume after the process ends."""

    blocking = False
    """Whether reading may have to wait, so that it is better done in a thread."""

    def __init__(self) -> None:
        self._events: dict[str, list[Event]] = {}
        self._approvals: dict[str, str] = {}
        self._batches: dict[str, str] = {}
        """Of each row its batch."""
        self._rows: dict[str, dict[int, str]] = {}
        self._driven: set[str] = set()

    def create(self, run: str, *, approval: str = "") -> MemoryLog:
        """Begin a run."""
        if run in self._events:
            raise JournalError(f"a run {run!r} exists already")
        if approval in self._approvals:
            raise spent(approval, f"run {self._approvals[approval]!r}")
        if approval:
            self._approvals[approval] = run
        self._events[run] = []
        self._driven.add(run)
        return MemoryLog(run, self._events[run], self)

    def reopen(self, run: str) -> MemoryLog:
        """Take a run up again."""
        events = self._known(run)
        if run in self._batches:
            raise of_batch(run, self._batches[run])
        if run in self._driven:
            raise JournalError(f"run {run!r} is being driven already; wait until it pauses or closes")
        self._driven.add(run)
        return MemoryLog(run, events, self)

    def openings(self, batch: str, *, after: int = -1) -> Iterator[Opening]:
        """The rows of a batch after this ordinal, in order."""
        rows = self._rows.get(batch, {})
        for ordinal in sorted(rows):
            if ordinal > after:
                yield self._opening(rows[ordinal])

    def endings(self, batch: str) -> Iterator[Ending]:
        """The rows of a batch in order, each with its last event."""
        for opening in self.openings(batch):
            yield Ending(opening.opened.ordinal, opening.line, self._events[opening.line.run][-1])

    def opening(self, run: str) -> Opening | None:
        """The same of one row."""
        return self._opening(run) if run in self._batches else None

    def _opening(self, run: str) -> Opening:
        events = self._events[run]
        assert isinstance(events[0], RowOpened)
        return Opening(events[0], run_line(run, events))

    def _row(self, run: str, batch: str, ordinal: int) -> MemoryLog:
        self._batches[run] = batch
        self._rows.setdefault(batch, {})[ordinal] = run
        return MemoryLog(run, self._events.setdefault(run, []), self)

    def events(self, run: str, *, after: int = 0) -> Iterator[Event]:
        """The events of a run that come after this number, in order."""
        return iter(self._known(run)[after:])

    def some(self, run: str, kinds: Collection[type[Event]]) -> Iterator[Event]:
        """The events of these kinds, in order."""
        return (event for event in list(self._known(run)) if type(event) in kinds)

    def runs(self, *, unfinished: bool = False) -> list[RunLine]:
        """All runs (or those that are not closed), the newest first."""
        lines = [
            run_line(run, events)
            for run, events in reversed(self._events.items())
            if run not in self._batches
        ]
        found = [line if self.driven(line.run) else at_rest(line) for line in lines]
        return [line for line in found if line.state in UNFINISHED] if unfinished else found

    def driven(self, run: str) -> bool:
        """Whether somebody drives this run now."""
        return self._batches.get(run, run) in self._driven

    def run_of_approval(self, approval: str) -> str | None:
        """The run that consumed this approval, if any."""
        return self._approvals.get(approval)

    def _known(self, run: str) -> list[Event]:
        if run not in self._events:
            raise unknown(run, list(reversed(self._events)))
        return self._events[run]
