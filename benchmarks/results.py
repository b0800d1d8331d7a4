"""What the benchmarks share: figures by case, targets that hold or do not, clocks and medians."""

from __future__ import annotations

import gc
import os
import platform
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

__all__ = [
    "Figures",
    "Found",
    "Options",
    "Target",
    "cpu",
    "cpu_and_wall",
    "machine",
    "median",
    "ratio",
    "rows",
    "wall",
]

Figures = dict[str, Any]
"""What was measured of one case, by name; the name ends in the unit."""


class Options(NamedTuple):
    """How to measure. `peer`: against LangGraph too, where it is installed."""

    repeats: int = 5
    backend: str = "asyncio"
    peer: bool = True


class Target(NamedTuple):
    """A promise and what became of it. `expected` is what was hoped for beyond the promise."""

    what: str
    target: float
    measured: float
    unit: str = ""
    at_least: bool = False
    expected: float | None = None

    @property
    def holds(self) -> bool:
        return self.measured >= self.target if self.at_least else self.measured <= self.target

    def to_json(self) -> dict[str, Any]:
        return {**self._asdict(), "holds": self.holds}


class Found(NamedTuple):
    """What one benchmark gives: figures by case, and targets."""

    figures: dict[str, Figures]
    targets: Sequence[Target] = ()

    def to_json(self) -> dict[str, Any]:
        return {"figures": self.figures, "targets": [target.to_json() for target in self.targets]}


async def cpu(main: Callable[[], Awaitable[Any]]) -> float:
    """CPU seconds of one call, all threads."""
    with _own_garbage():
        start = time.process_time()
        await main()
        return time.process_time() - start


async def wall(main: Callable[[], Awaitable[Any]]) -> float:
    """Seconds of one call as a clock on the wall shows them."""
    with _own_garbage():
        start = time.perf_counter()
        await main()
        return time.perf_counter() - start


async def cpu_and_wall(main: Callable[[], Awaitable[Any]]) -> tuple[float, float]:
    """Both of one call."""
    with _own_garbage():
        cpu_start, start = time.process_time(), time.perf_counter()
        await main()
        return time.process_time() - cpu_start, time.perf_counter() - start


@contextmanager
def _own_garbage() -> Iterator[None]:
    """The collector works as always, but does not look through what was there before: that may be the peer's."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def median(values: Iterable[float], scale: float = 1.0, digits: int = 1) -> float:
    return round(statistics.median(values) * scale, digits)


def ratio(ours: Iterable[float], theirs: Iterable[float]) -> float:
    """Median of the ratios of neighbours: what slows the machine for a while slows both."""
    return median((a / b for a, b in zip(ours, theirs, strict=True)), digits=2)


def machine() -> Figures:
    """What a reader must know of the machine; no names."""
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1) if sys.platform != "win32" else None,
    }


def rows(table: Sequence[Sequence[object]]) -> str:
    """Columns under each other, the first line being the head."""
    texts = [[_text(cell) for cell in row] for row in table]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in texts
    )


def _text(cell: object) -> str:
    return f"{cell:,g}" if isinstance(cell, float) and abs(cell) >= 100 else str(cell)
