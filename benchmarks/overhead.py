"""What the guarded call costs: chain, fan-out and DAG of 1,000 steps, `each` of 10,000, against the bare floor.

    python benchmarks/overhead.py [--json] [--repeats 5] [--peer langgraph]

Each step has three typed arguments, one of them a reference, and gives an object; both sides are validated, the journal
is in memory. The floor is a warm scheduler of thirty lines on anyio that keeps the same order and does nothing else.
CPU time of this process (all threads), median of the repeats, all in one run; the ratio is what counts.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
from typing_extensions import TypedDict

from foreplan import Effect, Engine, Limits, Plan, Policies, tool

N = 1_000


class Point(TypedDict):
    total: int
    label: str


@tool(effect=Effect.READS)
async def work(a: int, b: int, label: str) -> Point:
    """Adds two numbers under a label."""
    return {"total": a + b, "label": label}


async def bare(a: int, b: int, label: str) -> Point:
    return {"total": a + b, "label": label}


Edges = list[list[int]]


def chain(n: int) -> Edges:
    return [[i - 1] if i else [] for i in range(n)]


def fan(n: int) -> Edges:
    return [[0] if i else [] for i in range(n)]


def dag(n: int) -> Edges:
    """Layers of ten; each step needs three of the layer before."""
    return [[(i // 10 - 1) * 10 + (i + d) % 10 for d in range(3)] if i >= 10 else [] for i in range(n)]


SHAPES: dict[str, Callable[[int], Edges]] = {"chain": chain, "fan-out": fan, "dag": dag}


def plan_of(edges: Edges) -> Plan:
    steps = []
    for i, needs in enumerate(edges):
        a: Any = {"$": f"s{needs[0]}.total"} if needs else 1
        step: dict[str, Any] = {"id": f"s{i}", "tool": "work", "args": {"a": a, "b": 1, "label": "x"}}
        if len(needs) > 1:
            step["after"] = [f"s{n}" for n in needs[1:]]
        steps.append(step)
    return Plan.model_validate({"steps": steps})


async def floor(edges: Edges) -> list[Any]:
    """The bare scheduler: counts down, starts what is ready, keeps results."""
    results: list[Any] = [None] * len(edges)
    waiting = [len(needs) for needs in edges]
    dependants: Edges = [[] for _ in edges]
    for i, needs in enumerate(edges):
        for need in needs:
            dependants[need].append(i)

    async def run(i: int) -> None:
        needs = edges[i]
        results[i] = await bare(results[needs[0]]["total"] if needs else 1, 1, "x")
        for d in dependants[i]:
            waiting[d] -= 1
            if not waiting[d]:
                tasks.start_soon(run, d)

    async with anyio.create_task_group() as tasks:
        for i, count in enumerate(list(waiting)):
            if not count:
                tasks.start_soon(run, i)
    return results


async def timed(main: Callable[[], Awaitable[Any]]) -> float:
    """CPU seconds of one call, collected before, not during."""
    gc.collect()
    gc.disable()
    try:
        start = time.process_time()
        await main()
        return time.process_time() - start
    finally:
        gc.enable()


def make_engine() -> Engine:
    return Engine([work], policies=Policies(limits=Limits(run=64)))


async def shape_rows(
    repeats: int, peer: Callable[[Edges], Callable[[], Awaitable[Any]]] | None
) -> list[dict[str, Any]]:
    rows = []
    for name, edges in ((name, make(N)) for name, make in SHAPES.items()):
        plan = plan_of(edges)
        ours, bares, peers = [], [], []
        graph = peer(edges) if peer is not None else None
        engine = make_engine()
        for _ in range(repeats + 1):
            bares.append(await timed(partial(floor, edges)))
            ours.append(await timed(partial(run_whole, engine, plan)))
            if graph is not None:
                peers.append(await timed(graph))
        row = {"case": f"{name} of {N}", "floor_us": micro(bares, N), "foreplan_us": micro(ours, N)}
        row["ratio"] = round(row["foreplan_us"] / row["floor_us"], 2)
        if peers:
            row["peer_us"] = micro(peers, N)
            row["peer_ratio"] = round(row["peer_us"] / row["foreplan_us"], 2)
        rows.append(row)
    return rows


async def run_whole(engine: Engine, plan: Plan) -> None:
    run = await engine.run(plan)
    assert run.ok, run.message


async def each_row(repeats: int, n: int = 10_000) -> dict[str, Any]:
    args = {"a": {"$": "item"}, "b": 1, "label": "x"}
    steps = [{"id": "every", "each": {"$": f"range({n})"}, "tool": "work", "args": args}]
    plan = Plan.model_validate({"steps": steps})
    engine = make_engine()
    times = [await timed(partial(run_whole, engine, plan)) for _ in range(repeats + 1)]
    return {"case": f"each of {n}", "foreplan_us": micro(times, n)}


def micro(times: list[float], n: int) -> float:
    """Median microseconds per step; the first run warms and does not count."""
    return round(statistics.median(times[1:]) / n * 1e6, 1)


def langgraph_peer(edges: Edges) -> Callable[[], Awaitable[Any]]:
    """The same graph as LangGraph nodes on one state of merged results, compiled beforehand, no saver."""
    from operator import or_
    from typing import Annotated

    from langgraph.graph import END, START, StateGraph

    class State(TypedDict):
        results: Annotated[dict[str, Any], or_]

    def node(i: int, needs: list[int]) -> Callable[[State], Awaitable[dict[str, Any]]]:
        async def run(state: State) -> dict[str, Any]:
            a = state["results"][f"s{needs[0]}"]["total"] if needs else 1
            return {"results": {f"s{i}": await bare(a, 1, "x")}}

        return run

    graph = StateGraph(State)
    last = {need for needs in edges for need in needs}
    for i, needs in enumerate(edges):
        graph.add_node(f"s{i}", node(i, needs))  # type: ignore[call-overload]
        if needs:
            graph.add_edge([f"s{n}" for n in needs] if len(needs) > 1 else f"s{needs[0]}", f"s{i}")
        else:
            graph.add_edge(START, f"s{i}")
        if i not in last:
            graph.add_edge(f"s{i}", END)
    compiled = graph.compile()

    async def run() -> None:
        await compiled.ainvoke({"results": {}}, {"recursion_limit": len(edges) + 10})

    return run


async def main(repeats: int, peer: str) -> list[dict[str, Any]]:
    rows = await shape_rows(repeats, langgraph_peer if peer == "langgraph" else None)
    return [*rows, await each_row(repeats)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--peer", default="", choices=["", "langgraph"])
    options = parser.parse_args()
    anyio.run(anyio.sleep, 0)
    found = anyio.run(main, options.repeats, options.peer)
    if options.json:
        print(json.dumps(found))
    else:
        for row in found:
            print("  ".join(f"{key} {value}" for key, value in row.items()))
