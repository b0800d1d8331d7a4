"""From any thread into an event loop: how a thread of ours says that something is ready."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from threading import get_ident
from typing import Any, NamedTuple

import anyio

__all__ = ["Bell", "Portal", "bell_here"]


class Portal(NamedTuple):
    """The way into one event loop of asyncio or trio. Two portals into the same loop are equal."""

    schedule: Callable[..., object]

    @classmethod
    def current(cls) -> Portal:
        """The way into the loop that is running here. Raises `RuntimeError` where none is."""
        if _in_trio():
            return cls(sys.modules["trio"].lowlevel.current_trio_token().run_sync_soon)
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
    """What many tasks of one loop wait for, and any thread may ring: once, for all of them. Made in that loop."""

    __slots__ = ("_loop", "_rung", "_thread", "_waiting")

    def __init__(self) -> None:
        self._thread = get_ident()
        self._loop = asyncio.get_running_loop()
        self._rung = False
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def is_here(self) -> bool:
        """Whether its loop is the one that is running here. To ask asyncio for that costs a call of the system."""
        return self._thread == get_ident() and self._loop.is_running() and not _in_trio()

    async def wait(self) -> None:
        """Until it is rung."""
        if not self._rung:
            future: asyncio.Future[None] = self._loop.create_future()
            self._waiting.append(future)  # for an event of anyio each task would pay four times as much
            await future

    def ring(self) -> None:
        """Wake all who wait; from any thread."""
        Portal(self._loop.call_soon_threadsafe).call_soon(self._ring)

    def _ring(self) -> None:
        self._rung = True
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
        self._waiting.clear()


class _TrioBell(Bell):
    """The same in a loop of trio."""

    __slots__ = ("_event", "_portal")

    def __init__(self) -> None:
        self._portal = Portal.current()
        self._event = anyio.Event()

    @property
    def is_here(self) -> bool:
        return _in_trio() and Portal.current() == self._portal

    async def wait(self) -> None:
        await self._event.wait()

    def ring(self) -> None:
        self._portal.call_soon(self._event.set)


def bell_here() -> Bell:
    """A bell for tasks of the loop that is running here. Raises `RuntimeError` where none is."""
    return _TrioBell() if _in_trio() else Bell()


def _in_trio() -> bool:
    """Whether trio runs this task, which it may do inside a loop of asyncio."""
    trio = sys.modules.get("trio")
    return trio is not None and bool(trio.lowlevel.in_trio_task())
