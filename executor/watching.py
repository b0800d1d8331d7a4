"""Who sees the events of a run while it is under way: the host's `watch`, readers of the event stream, telemetry.

Each sees every event, after it was written and what follows from it was decided, and none can hold up or break a run.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol, TypeAlias

from ..policies.secrets import Scrubber
from .events import Event
from .hands.limits import Limiter
from .journal.journal import Journal, Log
from .mind.batch import BatchState
from .mind.state import State

__all__ = ["Observer", "See", "Watcher"]

See: TypeAlias = Callable[[Event, State], None]
"""Is shown an event, and the state that it led to; must not change it."""


class Watcher(NamedTuple):
    """One who sees, by the name under which a complaint about it goes."""

    name: str
    see: See


class Observer(Protocol):
    """What an engine tells telemetry, besides the events; `telemetry.py` needs a library that this does not."""

    def see(self, event: Event, state: State) -> None:
        """An event; of an attempt that begins, in the task that makes it."""

    def begin(
        self,
        state: State,
        run: str,
        scrubber: Scrubber,
        *,
        dialogue: bool = False,
        batch: BatchState | None = None,
    ) -> str:
        """A run, or a row of a batch, is about to be opened or resumed; gives what its journal holds as `trace`."""

    def driving(self, state: State) -> AbstractContextManager[None]:
        """While a run is driven."""

    def see_batch(self, event: Event, state: BatchState) -> None:
        """An event of a batch."""

    def batch(self, state: BatchState, run: str, scrubber: Scrubber) -> AbstractContextManager[str]:
        """While a batch is driven, from before its first event here; gives what its journal holds as `trace`."""

    def planning(self, scrubber: Scrubber) -> AbstractContextManager[None]:
        """While a plan is made."""

    def timed(self, log: Log) -> Log:
        """The log of a run, to be used in its place."""

    def knows(self, limiter: Limiter | None, journal: Journal) -> None:
        """What all runs of an engine share, to be asked when somebody measures."""
