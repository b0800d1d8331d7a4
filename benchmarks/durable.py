"""What a run costs with the SQLite journal, and how often it commits: tools that act, at width 1, 10 and 100.

Every call is durable before it is begun. A lane is an unbroken chain; width is how many lanes there are, and all of
them may be under way at once. `fdatasync_us` is what the disk takes for one page, measured around each run in the same
folder. The promise for a step is (1.2 fdatasync + 500 µs) / width + 20 µs more than the same run costs in memory just
before; `x_promise` is the median of what it came to, each time. `bare_sqlite_us` is what `sqlite3` alone takes to write
as many rows in as many commits. Wall time, median of the repeats.
"""

from __future__ import annotations

import math
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from journal import bare, fdatasync, in_batches, rows
from results import Figures, Found, Options, Target, median, ratio, wall

from foreplan import Effect, Engine, Limits, MemoryJournal, Plan, Policies, SqliteJournal, tool
from foreplan.executor.journal import Journal

STEPS = {1: 200, 10: 500, 100: 2_000}


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


async def main(options: Options) -> Found:
    figures = {f"width {width}": await at_width(width, options.repeats) for width in STEPS}
    targets = [
        Target(f"durable, {name}: time a step", 1, row["x_promise"], "x the promise")
        for name, row in figures.items()
    ]
    acts, commits = STEPS[1], figures["width 1"]["commits"]
    targets.append(Target(f"commits of a chain of {acts} acts", 1.1 * acts, commits, expected=acts + 5))
    return Found(figures, targets)


def measure(options: Options) -> Found:
    return anyio.run(main, options, backend=options.backend)
