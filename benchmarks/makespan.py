"""How much longer a timed DAG takes than under a bare scheduler with the same window: real sleeps, both loops.

300 steps of 1 to 40 ms, each needing up to three of the forty before it; 64 may be under way at once, or 6, which is
too few. `critical_ms` is the longest path of sleeps: no scheduler is quicker. Wall time, in turns, median of
the repeats, of which there are nine at least.
"""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import anyio
from floor import Edges, windowed
from results import Figures, Found, Options, Target, median, wall

from foreplan import Effect, Engine, Limits, Plan, Policies, tool

N = 300
WINDOWS = (64, 6)


@tool(effect=Effect.READS)
async def rest(seconds: float) -> float:
    """Takes so long."""
    await anyio.sleep(seconds)
    return seconds


def timed_dag(n: int) -> tuple[Edges, list[float]]:
    """Needs and seconds of each step, the same every time: many short ones, some ten times as long."""
    dice = random.Random(7)
    edges: Edges = []
    for i in range(n):
        before = range(max(0, i - 40), i)
        edges.append(sorted(dice.sample(before, min(len(before), dice.randint(1, 3)))))
    mixed = [(1, 3)] * 6 + [(5, 10)] * 3 + [(20, 40)]
    return edges, [dice.uniform(*dice.choice(mixed)) / 1000 for _ in range(n)]


def plan_of(edges: Edges, seconds: list[float]) -> Plan:
    steps: list[dict[str, Any]] = [
        {"id": f"s{i}", "tool": "rest", "args": {"seconds": seconds[i]}, "after": [f"s{n}" for n in needs]}
        for i, needs in enumerate(edges)
    ]
    return Plan.model_validate({"steps": steps})


def critical(edges: Edges, seconds: list[float]) -> float:
    """The longest path, in seconds."""
    ends: list[float] = []
    for i, needs in enumerate(edges):
        ends.append(seconds[i] + max((ends[need] for need in needs), default=0.0))
    return max(ends)


async def main(window: int, repeats: int) -> Figures:
    edges, seconds = timed_dag(N)
    plan = plan_of(edges, seconds)
    engine = Engine([rest], policies=Policies(limits=Limits(run=window)))

    async def ours() -> None:
        run = await engine.run(plan)
        assert run.ok, run.message

    async def step(i: int) -> None:
        await anyio.sleep(seconds[i])

    floor, mine = [], []
    for _ in range(repeats + 1):
        floor.append(await wall(partial(windowed, edges, step, window)))
        mine.append(await wall(ours))
    return {
        "critical_ms": round(critical(edges, seconds) * 1e3, 1),
        "floor_ms": median(floor[1:], 1e3),
        "foreplan_ms": median(mine[1:], 1e3),
        "x_floor": median((a / b for a, b in zip(mine[1:], floor[1:], strict=True)), digits=3),
    }


def measure(options: Options) -> Found:
    figures, targets = {}, []
    for backend in ("asyncio", "trio"):
        for window in WINDOWS:
            case = f"{N} steps, {window} at once, {backend}"
            figures[case] = anyio.run(main, window, max(options.repeats, 9), backend=backend)
            targets.append(Target(case, 1.05, figures[case]["x_floor"], "x the bare makespan"))
    return Found(figures, targets)
