"""Virtual time on both event loops: a sleep of a day takes no time, and the order is exact.

result = run_virtual("asyncio", main)        # main: an async function without arguments
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio
import trio.testing

__all__ = ["BACKENDS", "now", "run_virtual"]

T = TypeVar("T")
BACKENDS = ("asyncio", "trio")


class Jumping(selectors.DefaultSelector):
    """A selector that does not wait: where nothing is ready it moves the clock to the next timer."""

    now = 0.0
    loop: Any = None

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(None if timeout is None else 0)
        timers = self.loop._scheduled
        if not ready and timeout is not None and timeout > 0 and timers:
            self.now = max(self.now, timers[0].when())  # the loop itself waits a day at most
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An asyncio loop whose time is the selector's."""

    def __init__(self) -> None:
        self._jumping = Jumping()
        self._jumping.loop = self
        super().__init__(self._jumping)
        self._clock_resolution = 1e-6  # a timer is due this much early; a nanosecond is lost beside a year

    def time(self) -> float:
        return self._jumping.now


def run_virtual(backend: str, main: Callable[[], Awaitable[T]]) -> T:
    """Run `main` to its end in virtual time."""
    if backend == "trio":
        options: dict[str, Any] = {"clock": trio.testing.MockClock(autojump_threshold=0)}
    else:
        options = {"loop_factory": VirtualLoop}
    return anyio.run(main, backend=backend, backend_options=options)


def now() -> float:
    """Seconds of virtual time; good as an engine's `clock`."""
    return anyio.current_time()
