"""The events of runs, in order and without a gap, for whoever reads them: from the journal, then as they happen.

run here       -> Mailbox (bounded, the oldest fall out) -> EventStream -> reader
journal (file) -> what the mailbox does not hold, from the last number that was given

A reader that is slow costs a run nothing: its mailbox forgets, and what is missing is read from the journal. What another
process appends is found by asking the journal every so often. Live, an event may be seen a moment before it is durable.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import Any, NamedTuple

import anyio

from ..policies.errors import BadInput, UnknownRun, expect
from ..policies.text import did_you_mean
from .events import EVENTS, Event, RunClosed
from .hands.threads import Job, Threads
from .journal.journal import Journal
from .mind.state import State
from .wake import Portal
from .watching import Watcher

__all__ = ["EventStream", "Seen"]

_CHUNK = 64
"""Events that are read from a journal at a time."""
_MOST = 1024
"""Events that a mailbox holds."""


class Seen(NamedTuple):
    """An event, and the run it is of."""

    run: str
    event: Event


class Mailbox:
    """Where a run puts its events for one reader: from any thread, at the cost of an append."""

    def __init__(self, run: str | None) -> None:
        self._run = run
        self._portal = Portal.current()
        self._came = anyio.Event()
        self._events: deque[Seen] = deque(maxlen=_MOST)
        self._rung = False
        self.first: dict[str, int] | None = {}
        """The number of the first event that came of each run, as long as the reader has not begun."""

    def see(self, event: Event, state: State) -> None:
        """Take an event, and ring where nobody has since the last look."""
        if self._run is None or self._run == state.run:
            self._events.append(Seen(state.run, event))
            if self.first is not None:
                self.first.setdefault(state.run, event.seq)
            if not self._rung:
                self._rung = True
                self._portal.call_soon(self._ring)

    def __bool__(self) -> bool:
        """Whether it holds anything."""
        return bool(self._events)

    def take(self) -> list[Seen]:
        """All that it holds; then it is empty."""
        self._rung = False
        taken = []
        while self._events:
            taken.append(self._events.popleft())
        return taken

    async def wait(self, seconds: float) -> None:
        """Until something comes, or so long."""
        if not self._rung:
            with anyio.move_on_after(seconds):
                await self._came.wait()

    def _ring(self) -> None:
        self._came.set()
        self._came = anyio.Event()


class EventStream:
    """The events of one run, or of all, as `async for seen in engine.events(...)` gives them."""

    def __init__(
        self,
        journal: Journal,
        readers: list[Watcher],
        here: Collection[str],
        run: str | None,
        *,
        after: int | Mapping[str, int] | None,
        kinds: Iterable[str | type[Event]],
        follow: bool,
        every: float,
    ) -> None:
        self._journal = journal
        self._here = here
        self._run = run
        self._kinds = _kinds(kinds)
        self._follow = follow
        self._every = every
        self._from_now = after is None
        self._last: dict[str, int] = _places(run, after)
        self._stale: dict[str, None] = {}
        self._ready: deque[Seen] = deque()
        self._begun = self._over = False
        self._threads = Threads()
        self._mailbox = Mailbox(run)
        self._readers = readers
        self._watcher = Watcher("events", self._mailbox.see)
        if follow:
            readers.append(self._watcher)

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> Seen:
        while not self._ready:
            if self._over:
                raise StopAsyncIteration
            await self._more()
        return self._ready.popleft()

    def close(self) -> None:
        """Hear no more of what happens."""
        self._over = True
        if self._watcher in self._readers:
            self._readers.remove(self._watcher)

    def __del__(self) -> None:
        if hasattr(self, "_watcher"):
            self.close()

    # ------------------------------------------------------------------------------------------ inside

    async def _more(self) -> None:
        """Come a step nearer to the next event, or to the end."""
        if not self._begun:
            self._begun = True
            await self._begin()
        elif self._stale:
            await self._read(next(iter(self._stale)))
        elif taken := self._mailbox.take():
            for seen in taken:
                self._hear(seen)
        elif self._follow:
            await self._mailbox.wait(self._every)
            if self._run not in self._here and not self._mailbox:
                await self._look()
        else:
            self.close()

    async def _begin(self) -> None:
        if self._from_now:
            counts = {line.run: line.events for line in await self._asked(self._journal.runs)}
            first = self._mailbox.first or {}
            self._last = {run: min(n, first.get(run, n + 1) - 1) for run, n in counts.items()}
        self._mailbox.first = None
        await self._look()

    async def _look(self) -> None:
        """Which runs have events in the journal that were not given."""
        if self._run is not None:
            self._stale[self._run] = None
            return
        for line in reversed(await self._asked(self._journal.runs)):
            if line.events > self._last.get(line.run, 0):
                self._stale[line.run] = None

    async def _read(self, run: str) -> None:
        """Some events of a run from the journal, in a thread where that may block."""
        last = self._last.get(run, 0)
        after = max(0, last - 1) if run == self._run else last  # whether it was closed already
        try:
            events = await self._asked(lambda: list(islice(self._journal.events(run, after=after), _CHUNK)))
        except UnknownRun:
            if run == self._run and not self._last.get(run):
                raise
            events = []
        if len(events) < _CHUNK:
            del self._stale[run]
        for event in events:
            if event.seq > last:
                self._give(Seen(run, event))
            elif type(event) is RunClosed:
                self.close()

    async def _asked(self, function: Any) -> Any:
        if not getattr(self._journal, "blocking", True):
            return function()
        return await self._threads.wait(Job(function, lambda job: None))

    def _hear(self, seen: Seen) -> None:
        """Take a live event where it is the next one; where others are missing before it, read them."""
        last = self._last.get(seen.run, 0)
        if seen.event.seq == last + 1 and seen.run not in self._stale:
            self._give(seen)
        elif seen.event.seq > last:
            self._stale[seen.run] = None

    def _give(self, seen: Seen) -> None:
        self._last[seen.run] = seen.event.seq
        if not self._kinds or type(seen.event).__name__ in self._kinds:
            self._ready.append(seen)
        if type(seen.event) is RunClosed and self._run is not None:
            self.close()


def _kinds(kinds: Iterable[str | type[Event]]) -> frozenset[str]:
    """The names of these kinds. Raises `BadInput` for what is none."""
    names = [kinds] if isinstance(kinds, str | type) else list(kinds)
    found = frozenset(name if isinstance(name, str) else getattr(name, "__name__", "?") for name in names)
    for name in found - EVENTS.keys():
        raise BadInput(f"there are no events of the kind {name!r}{did_you_mean(name, EVENTS)}")
    return found


def _places(run: str | None, after: int | Mapping[str, int] | None) -> dict[str, int]:
    """The number of the last event of each run that the reader has."""
    if after is None or after == 0:
        return {}
    if isinstance(after, Mapping):
        return dict(after)
    if run is None:
        raise BadInput("events of different runs have the same numbers; say after={run: number, ...}")
    expect(int, after, "`after`", "it is the number of the last event you have")
    return {run: after}
