"""A durable run beside those of LangGraph and DBOS on SQLite: a DAG of 500 steps that do nothing, ten beside each other.

Every step of ours acts: it is on the disk that it begins before it does. LangGraph has its SQLite saver as it comes (what
is written may be behind), and with `synchronous=FULL` and each round on the disk before the next; DBOS records each step
on SQLite once it is done. CPU (all threads) and wall time in microseconds a step, median of the repeats, all in one run;
`fdatasync_us` is what the disk took meanwhile. The promise: what the same run takes in memory, and
(1.2 fdatasync + 500 µs) / 10 + 20 µs more.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from durable import act, whole
from floor import Edges, dag
from journal import fdatasync
from peers import dbos, langgraph_on_sqlite, missing
from results import Figures, Found, Options, Target, cpu_and_wall, median, ratio

from foreplan import Engine, Limits, MemoryJournal, Plan, Policies, SqliteJournal
from foreplan.executor.journal.journal import Journal

STEPS, WIDTH = 500, 10

Way = Callable[[], Awaitable[Any]]
Entrant = Callable[[Path], AbstractAsyncContextManager[Way]]


async def bare(a: int, b: int, label: str) -> dict[str, int]:
    return {"total": a + b}


def plan_of(edges: Edges) -> Plan:
    steps: list[dict[str, Any]] = []
    for i, needs in enumerate(edges):
        a: Any = {"$": f"s{needs[0]}.total"} if needs else 1
        after = [f"s{need}" for need in needs[1:]]
        steps.append({"id": f"s{i}", "tool": "act", "args": {"a": a, "b": 1, "label": "x"}, "after": after})
    return Plan.model_validate({"steps": steps})


@asynccontextmanager
async def ours(folder: Path, *, engine: Engine, plan: Plan, durable: bool) -> AsyncIterator[Way]:
    if not durable:
        yield partial(in_memory, engine, plan)
        return
    with SqliteJournal(folder / "runs.db") as journal:
        yield partial(whole, engine, plan, journal)


async def in_memory(engine: Engine, plan: Plan) -> None:
    journal: Journal = MemoryJournal()
    await whole(engine, plan, journal)


def entrants(options: Options) -> tuple[dict[str, Entrant], dict[str, str]]:
    """Who takes part, and why others do not."""
    plan, edges = plan_of(dag(STEPS)), dag(STEPS)
    engine = Engine([act], policies=Policies(approve="never", limits=Limits(run=WIDTH)))
    found: dict[str, Entrant] = {
        "foreplan, in memory": partial(ours, engine=engine, plan=plan, durable=False),
        "foreplan, SQLite, FULL": partial(ours, engine=engine, plan=plan, durable=True),
    }
    absent = missing("langgraph", "aiosqlite") if options.backend == "asyncio" else "runs on asyncio only"
    no_dbos = missing("dbos") if options.backend == "asyncio" else "runs on asyncio only"
    reasons = {} if options.peer else {"peers": "left out by --no-peer"}
    if options.peer and not absent:
        found["LangGraph, SQLite, as it comes"] = partial(named, langgraph_on_sqlite, edges, full=False)
        found["LangGraph, SQLite, FULL"] = partial(named, langgraph_on_sqlite, edges, full=True)
    elif options.peer:
        reasons["LangGraph"] = absent
    if options.peer and not no_dbos:
        layers = [edges[start : start + WIDTH] for start in range(0, STEPS, WIDTH)]
        found["DBOS, SQLite"] = partial(named, dbos, layers)
    elif options.peer:
        reasons["DBOS"] = no_dbos
    return found, reasons


def named(
    peer: Callable[..., AbstractAsyncContextManager[Way]], edges: Any, folder: Path, **options: Any
) -> AbstractAsyncContextManager[Way]:
    return peer(edges, bare, folder / "peer.db", **options)


async def once(entrant: Entrant) -> Figures:
    """One run in a folder of its own, after one that warms; microseconds a step."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with entrant(folder) as run:
            await run()
            before = fdatasync(folder / "page")["wall_us"]
            cpu, wall = await cpu_and_wall(run)
            disk = (before + fdatasync(folder / "page")["wall_us"]) / 2
    return {"cpu_us": cpu / STEPS * 1e6, "wall_us": wall / STEPS * 1e6, "fdatasync_us": disk}


async def main(options: Options) -> Found:
    found, reasons = entrants(options)
    measured: dict[str, list[Figures]] = {name: [] for name in found}
    for _ in range(options.repeats):
        for name, entrant in found.items():
            measured[name].append(await once(entrant))
    figures: dict[str, Figures] = {
        name: {key: median(one[key] for one in several) for key in several[0]}
        for name, several in measured.items()
    }
    figures |= {name: {"left_out": why} for name, why in reasons.items()}
    return Found(figures, targets(measured))


def targets(measured: dict[str, list[Figures]]) -> list[Target]:
    memory, durable = measured["foreplan, in memory"], measured["foreplan, SQLite, FULL"]
    promised = [
        m["wall_us"] + (1.2 * d["fdatasync_us"] + 500) / WIDTH + 20
        for m, d in zip(memory, durable, strict=True)
    ]
    x_promise = ratio((one["wall_us"] for one in durable), promised)
    held = [Target(f"durable DAG of {STEPS}: time a step", 1, x_promise, "x the promise")]
    for name, least in (("LangGraph, SQLite, FULL", 3), ("DBOS, SQLite", 1)):
        if name in measured:
            x = ratio((one["cpu_us"] for one in measured[name]), (one["cpu_us"] for one in durable))
            held.append(Target(f"durable DAG of {STEPS}: CPU of {name}", least, x, "x ours", at_least=True))
    return held


def measure(options: Options) -> Found:
    return anyio.run(main, options, backend=options.backend)
