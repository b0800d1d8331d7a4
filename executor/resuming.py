"""Takes up the runs of a journal that can go on, as soon as they can: answered ones, and those whose process was killed.

    look (every so often) -> unfinished runs -> has it changed since the last look? -> how does it stand? -> resume
                                                                                       (`questions.pause_of`)

A run has one driver, who holds its lock; so several of these, here or in other processes, can look at one journal: whoever
takes the lock first drives, and the others find nothing to do. A look costs one query, and one more for each run of which
something was written since.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Literal, NamedTuple, TypeAlias

import anyio
from anyio.abc import TaskGroup

from ..policies.errors import ForeplanError, JournalError
from .batches.batch import Batch
from .events import INTERRUPTED, PEOPLE, Event, RunResumed, ToolFreed, ToolHeld
from .journal.journal import Journal
from .questions import Pause, pause_of
from .run import Run

__all__ = ["Pick", "Progress", "Resuming", "Tell"]

_LATER = 30.0
"""Seconds until a run is tried again whose events could not be written."""
_LOG = logging.getLogger("foreplan")


class Progress(NamedTuple):
    """What became of one run, or batch. `ended` comes with it, closed or waiting once more; `refused` with a sentence.

    `holding`: rows of a batch wait, because a tool is broken, as the `tool` event says; `freed`: it is back.
    """

    what: Literal["taken_up", "holding", "freed", "ended", "refused"]
    run: str
    ended: Run | Batch | None = None
    why: str = ""
    tool: ToolHeld | ToolFreed | None = None


class Pick(NamedTuple):
    """Which waiting runs are taken up. `partly`: those with a question still open, too, as soon as one is answered.
    `paused`: those that somebody has interrupted, too."""

    partly: bool = False
    paused: bool = False

    def ready(self, pause: Pause) -> bool:
        """Whether a run that stands like this can go on by itself."""
        if pause.parent:
            return False  # the run that calls it takes it up
        if pause.reason not in (PEOPLE, INTERRUPTED):
            return True
        if pause.answered and (self.partly or not pause.open):
            return True
        return self.paused and pause.reason == INTERRUPTED


Tell: TypeAlias = Callable[[Progress], None]
Drive: TypeAlias = Callable[[str, Callable[[Event], None]], Awaitable[Run | Batch]]
"""Resumes a run, and shows its events meanwhile."""


class Resuming:
    """One who looks after a journal. `every`: seconds between two looks; `at_once`: how many runs go on at a time."""

    def __init__(
        self, journal: Journal, drive: Drive, *, pick: Pick, every: float, at_once: int, tell: Tell
    ) -> None:
        self._journal = journal
        self._drive = drive
        self._pick = pick
        self._every = every
        self._at_once = at_once
        self._tell = tell
        self._under_way: set[str] = set()
        self._seen: dict[str, int] = {}
        """Runs with which nothing is to be done until something is written: how many events they had."""
        self._later: dict[str, float] = {}
        self._ended = anyio.Event()

    async def go(self, *, once: bool) -> None:
        """Look and take up, for ever; with `once`, until nothing more can go on."""
        async with anyio.create_task_group() as tasks:
            while self._look(tasks) or self._under_way or not once:
                self._ended = anyio.Event()
                with anyio.move_on_after(self._every):
                    await self._ended.wait()

    def _look(self, tasks: TaskGroup) -> bool:
        """Take up what can go on; whether there was any."""
        found = False
        for run, events in self._ready():
            if len(self._under_way) >= self._at_once:
                return True
            found = True
            self._under_way.add(run)
            tasks.start_soon(self._take_up, run, events)
        return found

    def _ready(self) -> Iterator[tuple[str, int]]:
        """The runs that can go on, the oldest first."""
        lines = {line.run: line for line in reversed(self._journal.runs(unfinished=True))}
        self._seen = {run: events for run, events in self._seen.items() if run in lines}
        for run, line in lines.items():
            idle = line.state == "waiting" and run not in self._under_way
            if (
                not idle
                or self._seen.get(run) == line.events
                or self._later.get(run, 0) > anyio.current_time()
            ):
                continue
            try:
                pause = pause_of(self._journal, run)
            except JournalError as error:
                self._refuse(run, line.events, error)
                continue
            if pause is not None and self._pick.ready(pause):
                yield run, line.events
            else:
                self._seen[run] = line.events

    async def _take_up(self, run: str, events: int) -> None:
        try:
            ended = await self._drive(run, lambda event: self._saw(run, event))
            if ended.reason == "journal":
                self._later[run] = anyio.current_time() + _LATER
            self._tell(Progress("ended", run, ended))
        except ForeplanError as error:
            if not self._is_elsewhere(run, events):
                self._refuse(run, events, error)
        except Exception as error:  # the trouble of one run must not be that of the others
            _LOG.exception("run %r cannot be taken up", run)
            self._refuse(run, events, error)
        finally:
            self._under_way.discard(run)
            self._ended.set()

    def _saw(self, run: str, event: Event) -> None:
        match event:
            case RunResumed():
                self._tell(Progress("taken_up", run))
            case ToolHeld():
                self._tell(Progress("holding", run, tool=event))
            case ToolFreed():
                self._tell(Progress("freed", run, tool=event))

    def _refuse(self, run: str, events: int, error: Exception) -> None:
        """It cannot go on here; it is tried again when something is written to it."""
        self._seen[run] = events
        self._tell(Progress("refused", run, why=str(error) or type(error).__name__))

    def _is_elsewhere(self, run: str, events: int) -> bool:
        """Whether somebody else was quicker: drives it, has closed it, or has gone on with it meanwhile."""
        found = [line.events for line in self._journal.runs(unfinished=True) if line.run == run]
        return found != [events] or self._journal.driven(run)
