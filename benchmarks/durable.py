"""What a run costs with the SQLite journal, and how often it commits: tools that act, at width 1, 10 and 100.

Every call is durable before it is begun. A lane is an unbroken chain; width is how many lanes there are, and all of
them may be under way at once. `fdatasync_us` is what the disk takes for one page, measured around each run in the same
folder. The promise for a step is (1.2 fdatasync + 500 µs) / width + 20 µs more than the same run costs in memory just
before; `x_promise` is the median of what it came to, each time. `bare_sqlite_us` is what `sqlite3` alone takes to write
as many rows in as many commits. Wall time, median of the repeats.

A chain of 100 acts beside an `each` of 20,000 reads that leave the loop no moment, 64 calls at once: `wait` is what an
act waits from its `CallStarted` until it is begun, because that must be durable first; alone, and beside the reads.
`reads_before` is how many of them had begun when the last act ended.
"""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from anyio.lowlevel import checkpoint
from journal import bare, fdatasync, in_batches, rows
from results import Figures, Found, Options, Target, median, ratio, wall

from foreplan import Effect, Engine, Limits, MemoryJournal, Plan, Policies, SqliteJournal, tool
from foreplan.executor.events import CallStarted, Event
from foreplan.executor.journal.journal import Journal

STEPS = {1: 200, 10: 500, 100: 2_000}
ACTS, READS, WINDOW = 100, 20_000, 64


@tool(effect=Effect.ACTS)
async def act(a: int, b: int, label: str) -> dict[str, int]:
    """Does something once."""
    return {"total": a + b}


def lanes(width: int, steps: int) -> Plan:
    """So many chains beside each other, all together of so many steps."""
    documents: list[dict[str, Any]] = []
    for i in range(steps):
        a: Any = {"$": f"s{i - width}.total"} if i >= width else i
        documents.append({"id": f"s{i}", "tool": "act", "args": {"a": a, "b": 1, "label": "x"}})
    return Plan.model_validate({"steps": documents})


async def whole(engine: Engine, plan: Plan, journal: Journal) -> None:
    engine.journal = journal  # the same engine, so that the plan is checked and compiled once
    run = await engine.run(plan)
    assert run.ok, run.message


async def once(engine: Engine, plan: Plan, width: int, folder: Path) -> Figures:
    """One run in memory and one on disk, with what the disk took before and after; microseconds a step."""
    steps = len(plan.steps)
    before = fdatasync(folder / "page")["wall_us"]
    memory = await wall(partial(whole, engine, plan, MemoryJournal())) / steps * 1e6
    with SqliteJournal(folder / "runs.db") as journal:
        durable = await wall(partial(whole, engine, plan, journal)) / steps * 1e6
        commits = journal.commits
    disk = (before + fdatasync(folder / "page")["wall_us"]) / 2
    batches = in_batches(rows(3 * steps), math.ceil(3 * steps / commits))
    return {
        "fdatasync_us": disk,
        "memory_us": memory,
        "bare_sqlite_us": bare(folder / "bare.db", batches)["wall_us"] * 3,
        "durable_us": durable,
        "promised_us": memory + (1.2 * disk + 500) / width + 20,
        "commits": commits,
    }


async def at_width(width: int, repeats: int) -> Figures:
    plan = lanes(width, STEPS[width])
    engine = Engine([act], policies=Policies(approve="never", limits=Limits(run=width)))
    found: list[Figures] = []
    for _ in range(repeats + 1):
        with tempfile.TemporaryDirectory() as folder:
            found.append(await once(engine, plan, width, Path(folder)))
    del found[0]  # it warms
    figures = {key: median(one[key] for one in found) for key in found[0]}
    return {
        "steps": STEPS[width],
        **figures,
        "x_promise": ratio((one["durable_us"] for one in found), (one["promised_us"] for one in found)),
    }


async def acts_beside(reads: int, folder: Path) -> Figures:
    """A chain of acts beside so many reads."""
    started: dict[Any, float] = {}
    waits: list[float] = []
    begun = before = 0

    @tool(effect=Effect.READS)
    async def look(number: int) -> int:
        """Leaves the loop no moment."""
        nonlocal begun
        begun += 1
        await checkpoint()
        return number

    @tool(effect=Effect.ACTS)
    async def link(number: int) -> int:
        """One after the other."""
        nonlocal before
        waits.append(time.perf_counter() - started[f"c{number}"])
        before = begun
        return number + 1

    def watch(event: Event) -> None:
        if isinstance(event, CallStarted) and len(event.path) == 1:
            started[event.path[0]] = time.perf_counter()

    steps: list[dict[str, Any]] = [{"id": "c0", "tool": "link", "args": {"number": 0}}]
    steps += [{"id": f"c{n}", "tool": "link", "args": {"number": {"$": f"c{n - 1}"}}} for n in range(1, ACTS)]
    each = {"id": "wide", "each": {"$": f"range({reads})"}, "tool": "look", "args": {"number": {"$": "item"}}}
    disk = fdatasync(folder / "page")["wall_us"]
    policies = Policies(approve="never", limits=Limits(run=WINDOW))
    with SqliteJournal(folder / "runs.db") as journal:
        engine = Engine([look, link], journal=journal, policies=policies, watch=watch)
        run = await engine.run(Plan.model_validate({"steps": [each, *steps]}))
        assert run.ok, run.message
    cuts = statistics.quantiles(waits, n=100)
    figures = {"wait_p50_ms": cuts[49] * 1e3, "wait_p99_ms": cuts[98] * 1e3, "reads_before": before}
    return {"fdatasync_ms": (disk + fdatasync(folder / "page")["wall_us"]) / 2e3, **figures}


async def beside_reads(repeats: int) -> dict[str, Figures]:
    found: dict[str, list[Figures]] = {"acts alone": [], "acts beside reads": []}
    for _ in range(repeats):
        for name, reads in zip(found, (0, READS), strict=True):
            with tempfile.TemporaryDirectory() as folder:
                found[name].append(await acts_beside(reads, Path(folder)))
    return {
        name: {key: median((one[key] for one in several), digits=2) for key in several[0]}
        for name, several in found.items()
    }


async def main(options: Options) -> Found:
    figures = {f"width {width}": await at_width(width, options.repeats) for width in STEPS}
    acts_waits = await beside_reads(min(options.repeats, 3))
    targets = [
        Target(f"durable, {name}: time a step", 1, row["x_promise"], "x the promise")
        for name, row in figures.items()
    ]
    acts, commits = STEPS[1], figures["width 1"]["commits"]
    targets.append(Target(f"commits of a chain of {acts} acts", 1.1 * acts, commits, expected=acts + 5))
    return Found(figures | acts_waits, [*targets, *starved(acts_waits)])


def starved(waits: dict[str, Figures]) -> list[Target]:
    """Acts must not wait until the reads are through, and not much longer for the disk than without them."""
    beside = waits["acts beside reads"]
    return [
        Target("acts beside busy reads: reads begun before they end", READS / 2, beside["reads_before"]),
        Target("acts beside busy reads: p99 of the wait for the disk", 50, beside["wait_p99_ms"], "ms"),
    ]


def measure(options: Options) -> Found:
    return anyio.run(main, options, backend=options.backend)
