"""What the chain of a batch says of its rows, and whether they are as it says.

RowsTaken    how many rows there are, and one hash over how each of them begins
RowSettled   at which event a row ended, and the hash of that; nothing follows but that it was reopened
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha256

from ..events import Event, RowReopened, RowSettled, RowsTaken, RunClosed
from .journal import RunLine

__all__ = ["RowEnds"]


class RowEnds:
    """Of one batch. `say` is told what does not hold."""

    def __init__(self, batch: str, say: Callable[[str], None]) -> None:
        self.batch = batch
        self._say = say
        self._ends: dict[str, dict[int, str]] = {}
        self._aside = 0
        self._taken: RowsTaken | None = None
        self._closed = False
        self._openings = sha256()
        self._seen = 0

    def tell(self, events: Iterable[Event]) -> None:
        """What its events say."""
        for event in events:
            self._closed = isinstance(event, RunClosed)
            if isinstance(event, RowsTaken):
                self._taken = event
            elif isinstance(event, RowSettled) and event.run:
                self._ends.setdefault(event.run, {})[event.events] = event.closing
            elif isinstance(event, RowSettled):
                self._aside += 1

    def hold(self, run: str, event: Event, hash_: bytes) -> None:
        """Hold one event of a row, and its hash, against it."""
        ends = self._ends.get(run, {})
        if event.seq in ends and hash_.hex() != ends[event.seq]:
            self._say(f"row {run!r} ended with another event {event.seq} than its batch says")
        if event.seq - 1 in ends and not isinstance(event, RowReopened):
            self._say(f"row {run!r} goes on after event {event.seq - 1}, with which its batch says it ended")

    def end(self, line: RunLine, ordinal: int, first: bytes) -> None:
        """All events of a row were held against it: how it begins, and that it ended where it is closed."""
        ends = self._ends.pop(line.run, {})
        if ordinal:
            self._openings.update(first)
            self._seen += 1
        if any(number > line.events for number in ends):
            self._say(f"row {line.run!r} ended with event {max(ends)}, and has {line.events} now")
        if self._closed and line.state in ("done", "failed", "stopped") and line.events not in ends:
            self._say(f"row {line.run!r} is closed, and its batch does not know how")

    def complete(self) -> None:
        """All rows were there."""
        for run in self._ends:
            self._say(f"row {run!r} was deleted: its batch says how it ended, and there is no record of it")
        taken = self._taken
        if taken is not None and not self._ends and self._seen != taken.rows - self._aside:
            self._say(
                f"batch {self.batch!r} has {self._seen} rows, and should have {taken.rows - self._aside}"
            )
        elif taken is not None and self._openings.hexdigest() != taken.openings:
            self._say(f"the rows of batch {self.batch!r} do not begin as its chain says")
