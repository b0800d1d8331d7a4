"""A batch as people and programs read it, and its rows one by one as they are asked for."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from ...policies.errors import BadInput, UnknownRun
from ...policies.text import did_you_mean
from ...registry.values import copy_plain
from ..events import BatchOpened, DecisionAsked, RowOpened, RowSettled, RunClosed
from ..journal.journal import Journal
from ..mind.batch import BatchState, replay_batch, standing, summary
from ..mind.budget import Used
from .rows import RowResult

__all__ = ["NOT_BEGUN", "Batch", "batch_of", "batch_of_row", "is_batch", "read_batch", "results_of"]

BatchStatus: TypeAlias = Literal["running", "waiting", "done", "failed", "stopped"]
NOT_BEGUN = "not_begun"
"""Status and code of a row that had no turn before its batch stopped, where it is listed."""
_ENDS = ("done", "failed", "stopped", "refused")


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch, as far as it has come.

    `status` is `done` where every row is, `failed` where every row had its turn and some are not done, `stopped` where not
    every row had (`reason` says why), `waiting` for people, `running`. `counts` has rows by status (`refused`: set aside
    before they ran; `not_begun`); `failures` by status, kind and code. `waiting_for` holds the questions of the batch
    itself; those of its rows stand with the rows.
    """

    id: str
    status: BatchStatus
    reason: str
    message: str
    total: int
    counts: Mapping[str, int]
    failures: tuple[Mapping[str, Any], ...]
    waiting_for: tuple[DecisionAsked, ...]
    used: Used
    journal: Journal = field(repr=False, compare=False)
    at: int | None = None
    """The event after which it stood like this; None: as it stands."""

    @property
    def ok(self) -> bool:
        """Whether every row is done."""
        return self.status == "done"

    def rows(self, *, status: str | Iterable[str] = ()) -> Iterator[RowResult]:
        """Each row that ended, in order, with its output; read from the journal as they are asked for.

        `status` (one, or several) leaves the others out.
        """
        there = f"; say {', '.join(_ENDS)}"
        wanted = {status} if isinstance(status, str) else set(status)
        for unknown in wanted.difference(_ENDS):
            raise BadInput(f"a row ends as no {unknown!r}{did_you_mean(unknown, _ENDS) or there}")
        if self.at is not None:
            return _results_at(self.journal, self.id, frozenset(wanted), self.at)
        return results_of(self.journal, self.id, frozenset(wanted))

    def to_json(self) -> dict[str, Any]:
        """The batch as plain JSON, without its rows."""
        return {
            "batch": self.id,
            "status": self.status,
            "reason": self.reason,
            "message": self.message,
            "rows": self.total,
            "counts": dict(self.counts),
            "failures": [dict(failure) for failure in self.failures],
            "waiting_for": [
                {"id": d.id, "about": d.about, "options": list(d.options), "question": d.question}
                for d in self.waiting_for
            ],
            "used": self.used.to_json(),
        }


def batch_of(state: BatchState, journal: Journal, *, problem: str = "", at: int | None = None) -> Batch:
    """The batch that a state describes."""
    status, reason, message = standing(state)
    if problem:
        status, reason, message = "stopped", "journal", problem
    said = summary(state)
    counts = {name: said[name] for name in ("done", "failed", "stopped", "refused", "waiting", "not_begun")}
    return Batch(
        id=state.run,
        status=status,
        reason=reason,
        message=message,
        total=state.rows or 0,
        counts=counts,
        failures=tuple(said["failures"]),
        waiting_for=tuple(asked for id_, asked in state.decisions.items() if id_ not in state.answered),
        used=state.used(),
        journal=journal,
        at=at,
    )


def is_batch(journal: Journal, run: str) -> bool:
    """Whether the record with this id is that of a batch. Raises `UnknownRun`."""
    return any(True for _ in journal.some(run, (BatchOpened,)))


def batch_of_row(journal: Journal, run: str) -> str:
    """The batch of a row; a run that is none is its own."""
    opening = journal.opening(run)
    return opening.opened.batch if opening is not None else run


def read_batch(journal: Journal, batch: str, *, at: int | None = None) -> Batch:
    """A batch as its journal tells it, or as it stood after its event `at`. Raises `UnknownRun`, `BadInput`."""
    events = list(journal.events(batch))
    if at is not None and not (isinstance(at, int) and 1 <= at <= len(events)):
        raise BadInput(f"batch {batch!r} has the events 1 to {len(events)}, and none {at!r}")
    state = replay_batch(events[:at])
    if state.opened is None:
        raise UnknownRun(f"the journal of batch {batch!r} does not begin with its opening")
    if at is None:  # after a kill the journal does not say that it waits
        state.waiting = state.waiting or not journal.driven(batch)
    return batch_of(state, journal, at=at)


def results_of(
    journal: Journal, batch: str, wanted: frozenset[str], *, unbegun: str = ""
) -> Iterator[RowResult]:
    """The rows that ended, in order; those that never began too, as `not_begun`, where it is said why (`unbegun`)."""
    ends = dict[int, RowSettled]()
    lines = array("q")
    for event in journal.some(batch, (RowSettled,)):
        assert isinstance(event, RowSettled)
        lines.extend([-1] * (event.ordinal + 1 - len(lines)))
        lines[event.ordinal] = -1 if event.line is None else event.line
        if event.status == "done":
            ends.pop(event.ordinal, None)
        else:
            ends[event.ordinal] = event
    aside = [event for _, event in sorted(ends.items()) if not event.run]
    for ordinal, line, last in journal.endings(batch):
        while aside and aside[0].ordinal < ordinal:
            yield from _aside(batch, aside.pop(0), wanted)
        if unbegun and ordinal and isinstance(last, RowOpened):
            yield RowResult(line.run, ordinal, last.line, NOT_BEGUN, None, "", NOT_BEGUN, unbegun)
        if not ordinal or not isinstance(last, RunClosed):
            continue
        end = ends.get(ordinal)
        status = end.status if end is not None else "done"
        if wanted and status not in wanted:
            continue
        said = (end.kind, end.code, last.message) if end is not None else ("", "", "")
        place = lines[ordinal] if ordinal < len(lines) and lines[ordinal] >= 0 else None
        yield RowResult(line.run, ordinal, place, status, copy_plain(last.output), *said)
    for event in aside:
        yield from _aside(batch, event, wanted)


def _results_at(journal: Journal, batch: str, wanted: frozenset[str], at: int) -> Iterator[RowResult]:
    """The rows that had ended after an event of the batch, as they had then; some were tried again since."""
    ends = {
        event.ordinal: event
        for event in journal.some(batch, (RowSettled,))
        if isinstance(event, RowSettled) and event.seq <= at and event.ordinal
    }
    for _, end in sorted(ends.items()):
        if not end.run:
            yield from _aside(batch, end, wanted)
        elif not wanted or end.status in wanted:
            last = next(iter(journal.events(end.run, after=end.events - 1)), None)
            output, message = (last.output, last.message) if isinstance(last, RunClosed) else (None, "")
            said = (end.kind, end.code, "" if end.status == "done" else message)
            yield RowResult(end.run, end.ordinal, end.line, end.status, copy_plain(output), *said)


def _aside(batch: str, event: RowSettled, wanted: frozenset[str]) -> Iterator[RowResult]:
    if not wanted or event.status in wanted:
        yield RowResult(
            f"{batch}.{event.ordinal}",
            event.ordinal,
            event.line,
            event.status,
            None,
            event.kind,
            event.code,
            event.message,
        )
