"""Who sees the events of a run while it is under way: the host's `watch`, readers of the event stream, telemetry.

Each sees every event, after it was written and what follows from it was decided, and none can hold up or break a run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from .events import Event
from .state import State

__all__ = ["See", "Watcher"]

See: TypeAlias = Callable[[Event, State], None]
"""Is shown an event, and the state that it led to; must not change it."""


class Watcher(NamedTuple):
    """One who sees, by the name under which a complaint about it goes."""

    name: str
    see: See
