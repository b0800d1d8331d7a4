"""What the guarded call costs: chain, fan-out and DAG of 1,000 steps, `each` of 10,000, against the bare floor.

Each step has three typed arguments, one of them a reference, and gives an object; both sides are validated, the
journal is in memory. The floor is a warm scheduler of thirty lines on anyio that keeps the same order and does nothing
else; LangGraph runs the same steps and validates nothing. Plans and graphs are compiled beforehand, but for the rows
that say so. CPU time of this process (all threads), median of the repeats, all in one run; the ratio is what counts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
from floor import Edges, chain, dag, fan, unbounded, windowed
from peers import installed, langgraph
from results import Figures, Found, Options, Target, cpu, median, ratio
from typing_extensions import TypedDict

from foreplan import Effect, Engine, Plan, tool

N = 1_000
ITEMS = 10_000
THREADED = 2_000
SHAPES: dict[str, Callable[[int], Edges]] = {"chain": chain, "fan-out": fan, "DAG": dag}


class Point(TypedDict):
    total: int
    label: str


async def bare(a: int, b: int, label: str) -> Point:
    return {"total": a + b, "label": label}


@tool(effect=Effect.READS)
async def work(a: int, b: int, label: str) -> Point:
    """Adds two numbers under a label."""
    return {"total": a + b, "label": label}


@tool(effect=Effect.READS)
def work_in_thread(a: int, b: int, label: str) -> Point:
    """The same, without async."""
    return {"total": a + b, "label": label}


def plan_of(edges: Edges) -> Plan:
    steps = []
    for i, needs in enumerate(edges):
        a: Any = {"$": f"s{needs[0]}.total"} if needs else 1
        step: dict[str, Any] = {"id": f"s{i}", "tool": "work", "args": {"a": a, "b": 1, "label": "x"}}
        if len(needs) > 1:
            step["after"] = [f"s{n}" for n in needs[1:]]
        steps.append(step)
    return Plan.model_validate({"steps": steps})


def each_plan(n: int, name: str = "work") -> Plan:
    args = {"a": {"$": "item"}, "b": 1, "label": "x"}
    return Plan.model_validate(
        {"steps": [{"id": "every", "each": {"$": f"range({n})"}, "tool": name, "args": args}]}
    )


def make_engine() -> Engine:
    return Engine([work, work_in_thread])


async def run_whole(engine: Engine, plan: Plan) -> None:
    run = await engine.run(plan)
    assert run.ok, run.message


async def from_the_document(edges: Edges) -> None:
    """Read, checked, compiled and run as if it had never been seen."""
    await run_whole(make_engine(), plan_of(edges))


async def built_and_run(edges: Edges) -> None:
    await langgraph(edges, bare)()


Cases = dict[str, Callable[[], Awaitable[Any]]]


async def in_turns(cases: Cases, repeats: int) -> dict[str, list[float]]:
    """CPU seconds of each case, one after the other, again and again; the first round warms and does not count."""
    found: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(repeats + 1):
        for name, main in cases.items():
            found[name].append(await cpu(main))
    return {name: times[1:] for name, times in found.items()}


async def compared(cases: Cases, repeats: int, n: int) -> Figures:
    """Microseconds a step, and what that is in terms of the floor and of the peer."""
    times = await in_turns(cases, repeats)
    row: Figures = {f"{name}_us": median(seconds, 1e6 / n) for name, seconds in times.items()}
    row["x_floor"] = ratio(times["foreplan"], times["floor"])
    if "langgraph" in times:
        row["langgraph_x_ours"] = ratio(times["langgraph"], times["foreplan"])
    return row


def beforehand(edges: Edges, peer: bool) -> Cases:
    """Everything compiled; only running is measured."""
    cases: Cases = {
        "floor": partial(unbounded, edges, bare),
        "foreplan": partial(run_whole, make_engine(), plan_of(edges)),
    }
    return cases | ({"langgraph": langgraph(edges, bare)} if peer else {})


def every_time(edges: Edges, peer: bool) -> Cases:
    """From the document to the end, each time anew."""
    cases: Cases = {"floor": partial(unbounded, edges, bare), "foreplan": partial(from_the_document, edges)}
    return cases | ({"langgraph": partial(built_and_run, edges)} if peer else {})


def each(n: int) -> Cases:
    """The floor keeps to the same window: ten thousand tasks at once would cost it thrice as much."""

    async def step(i: int) -> None:
        results[i] = await bare(i, 1, "x")

    results: list[Any] = [None] * n
    return {
        "floor": partial(windowed, [[] for _ in range(n)], step, 64),
        "foreplan": partial(run_whole, make_engine(), each_plan(n)),
    }


def each_in_threads(n: int) -> Cases:
    """Tools without async; the floor is `anyio.to_thread` in the same window."""

    async def step(i: int) -> None:
        await anyio.to_thread.run_sync(work_in_thread.function, i, 1, "x")

    return {
        "floor": partial(windowed, [[] for _ in range(n)], step, 64),
        "foreplan": partial(run_whole, make_engine(), each_plan(n, "work_in_thread")),
    }


async def main(options: Options) -> Found:
    peer = options.peer and installed() and options.backend == "asyncio"
    figures: dict[str, Figures] = {}
    for name, edges in ((name, make(N)) for name, make in SHAPES.items()):
        figures[f"{name} of {N:,}"] = await compared(beforehand(edges, peer), options.repeats, N)
    figures[f"DAG of {N:,}, read, checked, compiled"] = await compared(
        every_time(dag(N), peer), options.repeats, N
    )
    figures[f"each of {ITEMS:,}"] = await compared(each(ITEMS), options.repeats, ITEMS)
    figures[f"each of {THREADED:,}, in threads"] = await compared(
        each_in_threads(THREADED), options.repeats, THREADED
    )
    return Found(figures, targets(figures))


def targets(figures: dict[str, Figures]) -> list[Target]:
    shapes = [f"{name} of {N:,}" for name in SHAPES]
    found = [Target(name, 8, figures[name]["x_floor"], "x the bare floor", expected=6) for name in shapes]
    of_each = figures[f"each of {ITEMS:,}"]["foreplan_us"]
    found.append(Target(f"each of {ITEMS:,}", 150, of_each, "µs an item", expected=75))
    against = figures[f"DAG of {N:,}"].get("langgraph_x_ours")
    if against is not None:
        found.append(Target(f"DAG of {N:,}: LangGraph", 2, against, "x our time", at_least=True))
    return found


def measure(options: Options) -> Found:
    anyio.run(anyio.sleep, 0, backend=options.backend)  # the first run of a loop imports it
    return anyio.run(main, options, backend=options.backend)
