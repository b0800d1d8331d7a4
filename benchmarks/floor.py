"""The bare floor: schedulers of a few lines on anyio that keep the order and do nothing else.

`unbounded` starts whatever is ready; `windowed` keeps at most so many tasks live, and what is ready waits first come
first served, or (fair) by turns of its group.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Any

import anyio

__all__ = ["Edges", "chain", "dag", "fan", "unbounded", "windowed"]

Edges = list[list[int]]
"""For each step the steps it needs, by number; they come before it."""


def chain(n: int) -> Edges:
    return [[i - 1] if i else [] for i in range(n)]


def fan(n: int) -> Edges:
    return [[0] if i else [] for i in range(n)]


def dag(n: int) -> Edges:
    """Layers of ten; each step needs three of the layer before."""
    return [[(i // 10 - 1) * 10 + (i + d) % 10 for d in range(3)] if i >= 10 else [] for i in range(n)]


async def unbounded(edges: Edges, tool: Callable[[int, int, str], Awaitable[Any]]) -> list[Any]:
    """Counts down, starts what is ready, keeps results; the first need of each step is its first argument."""
    results: list[Any] = [None] * len(edges)
    waiting, dependants = _counted(edges)

    async def run(i: int) -> None:
        needs = edges[i]
        results[i] = await tool(results[needs[0]]["total"] if needs else 1, 1, "x")
        for d in dependants[i]:
            waiting[d] -= 1
            if not waiting[d]:
                tasks.start_soon(run, d)

    async with anyio.create_task_group() as tasks:
        for i, needs in enumerate(edges):
            if not needs:
                tasks.start_soon(run, i)
    return results


async def windowed(
    edges: Edges,
    step: Callable[[int], Awaitable[Any]],
    window: int,
    *,
    group: Callable[[int], Hashable] = lambda i: None,
) -> None:
    """The same with at most `window` tasks live; groups take turns, within one it is first come first served."""
    waiting, dependants = _counted(edges)
    queues: dict[Hashable, deque[int]] = {}
    turns: deque[Hashable] = deque()
    live = 0

    def ready(i: int) -> None:
        queue = queues.setdefault(group(i), deque())
        if not queue:
            turns.append(group(i))
        queue.append(i)

    def fill() -> None:
        nonlocal live
        while live < window and turns:
            name = turns.popleft()
            queue = queues[name]
            live += 1
            tasks.start_soon(run, queue.popleft())
            if queue:
                turns.append(name)

    async def run(i: int) -> None:
        nonlocal live
        await step(i)
        live -= 1
        for d in dependants[i]:
            waiting[d] -= 1
            if not waiting[d]:
                ready(d)
        fill()

    async with anyio.create_task_group() as tasks:
        for i, needs in enumerate(edges):
            if not needs:
                ready(i)
        fill()


def _counted(edges: Edges) -> tuple[list[int], Edges]:
    """How many steps each one waits for, and who waits for it."""
    dependants: Edges = [[] for _ in edges]
    for i, needs in enumerate(edges):
        for need in needs:
            dependants[need].append(i)
    return [len(needs) for needs in edges], dependants
