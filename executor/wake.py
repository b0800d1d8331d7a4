"""From any thread into an event loop: how a thread of ours says that something is ready."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Portal"]


class Portal(NamedTuple):
    """The way into one event loop of asyncio or trio. Two portals into the same loop are equal."""

    schedule: Callable[..., object]

    @classmethod
    def current(cls) -> Portal:
        """The way into the loop that is running here. Raises `RuntimeError` where none is."""
        trio = sys.modules.get("trio")
        if trio is not None and trio.lowlevel.in_trio_task():
            return cls(trio.lowlevel.current_trio_token().run_sync_soon)
        return cls(asyncio.get_running_loop().call_soon_threadsafe)

    def call_soon(self, function: Callable[..., object], *args: Any) -> None:
        """Have the loop call `function(*args)` soon; from any thread, also the loop's own.

        Nothing happens where the loop is closed: then nobody waits any more.
        """
        try:
            self.schedule(function, *args)
        except RuntimeError:  # both libraries say "closed" so, and nothing else
            return
