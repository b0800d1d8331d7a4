"""From any thread into an event loop: how a thread of ours says that something is ready."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import anyio

__all__ = ["Bell", "Portal", "bell_here", "loop_here"]


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


class Bell:
    """What many tasks of one loop wait for, and any thread may ring: once, for all of them."""

    __slots__ = ("_portal", "_rung", "_waiting")

    def __init__(self) -> None:
        self._portal = Portal.current()
        self._rung = False
        self._waiting: list[asyncio.Future[None]] = []

    async def wait(self) -> None:
        """Until it is rung."""
        if not self._rung:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)  # for an event of anyio each task would pay four times as much
            await future

    def ring(self) -> None:
        """Wake all who wait; from any thread."""
        self._portal.call_soon(self._ring)

    def _ring(self) -> None:
        self._rung = True
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
        self._waiting.clear()


class _TrioBell(Bell):
    __slots__ = ("_event",)

    def __init__(self) -> None:
        super().__init__()
        self._event = anyio.Event()

    async def wait(self) -> None:
        await self._event.wait()

    def _ring(self) -> None:
        self._event.set()


def loop_here() -> object:
    """What stands for the event loop that is running here; equal for one loop. Raises `RuntimeError` where none is."""
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_task():
        return trio.lowlevel.current_trio_token()
    return asyncio.get_running_loop()


def bell_here() -> Bell:
    """A bell for tasks of the loop that is running here."""
    return Bell() if isinstance(loop_here(), asyncio.AbstractEventLoop) else _TrioBell()
