"""A plan of five steps over many rows, durable, on tools that do nothing: what foreplan itself costs a step.

CPU is that of the whole process (getrusage), everything included: reading the rows, the check, the journal with FULL, the end of
each row. `a loop by hand` is a loop written by hand that runs as many calls with as many rows at a time and logs each to SQLite, one
commit for as many as wait; `sqlite3 alone` writes as many events of as many bytes in as many commits. Of each there is CPU and wall time
a step; `wall_x` is our wall time as a multiple of theirs.
`rss_mib` is what the process holds at the end, `peak` included what was freed. Each size has a process of its own.
"""

from __future__ import annotations

import json
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import anyio
from journal import bare, in_batches
from results import Figures, Found, Options, Target, median

from foreplan import Effect, Engine, Plan, Policies, SqliteJournal, tool

SIZES = (1_000, 10_000)
STEPS = 5
WINDOW = 64


@tool(effect=Effect.WRITES)
async def work(a: int, label: str) -> dict[str, int]:
    """Does nothing."""
    return {"total": a + 1}


def plan() -> Plan:
    """A chain, of which each step takes what the one before gave."""
    steps: list[dict[str, Any]] = []
    for i in range(STEPS):
        a = {"$": f"s{i - 1}.total" if i else "inputs.n"}
        steps.append({"id": f"s{i}", "tool": "work", "args": {"a": a, "label": "x"}})
    inputs = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    return Plan.model_validate({"inputs": inputs, "steps": steps, "output": {"$": f"s{STEPS - 1}.total"}})


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _rss() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def measured(rows: int) -> Figures:
    """One batch in this process."""

    async def main(folder: str) -> tuple[float, float, int]:
        with SqliteJournal(Path(folder) / "runs.db") as journal:
            engine = Engine([work], policies=Policies(approve="never"), journal=journal)
            cpu, start = _cpu(), time.perf_counter()
            batch = await engine.run_batch(plan(), ({"n": n} for n in range(rows)))
            assert batch.counts["done"] == rows, batch.message
            return _cpu() - cpu, time.perf_counter() - start, journal.commits

    with tempfile.TemporaryDirectory() as folder:
        cpu, wall, commits = anyio.run(main, folder)
        with sqlite3.connect(Path(folder) / "runs.db") as connection:
            both = "(SELECT body FROM events UNION ALL SELECT body FROM row_events)"
            [(events, size)] = connection.execute(
                f"SELECT count(*), sum(length(body)) FROM {both}"
            ).fetchall()
    steps = rows * STEPS
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "cpu_us": round(cpu / steps * 1e6, 1),
        "wall_us": round(wall / steps * 1e6, 1),
        "rss_mib": round(_rss(), 1),
        "peak_mib": round(peak, 1),
        "commits": commits,
        "events": events,
        "bytes": size,
    }


async def by_hand(rows: int, path: Path) -> None:
    """The same work without foreplan: calls in a window, each logged when it begins and ends, durable before it begins."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE log (row INTEGER, step INTEGER, what TEXT)")
    waiting: list[tuple[int, int, str]] = []
    written = anyio.Event()
    todo = iter(range(rows))
    left = [WINDOW]

    async def worker() -> None:
        for row in todo:
            value = row
            for step in range(STEPS):
                waiting.append((row, step, json.dumps({"a": value})))
                await written.wait()
                value = (await work.function(value, "x"))["total"]
                waiting.append((row, step, json.dumps({"total": value})))
        left[0] -= 1

    async def writer() -> None:
        nonlocal written
        while left[0]:
            await anyio.lowlevel.checkpoint()
            if waiting:
                connection.execute("BEGIN")
                connection.executemany("INSERT INTO log VALUES (?, ?, ?)", waiting)
                connection.execute("COMMIT")
                waiting.clear()
                done, written = written, anyio.Event()
                done.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(writer)
        for _ in range(WINDOW):
            tasks.start_soon(worker)
    connection.close()


def _hand(rows: int) -> Figures:
    with tempfile.TemporaryDirectory() as folder:
        cpu, start = _cpu(), time.perf_counter()
        anyio.run(by_hand, rows, Path(folder) / "log.db")
        cpu, wall = _cpu() - cpu, time.perf_counter() - start
    return {"cpu_us": round(cpu / rows / STEPS * 1e6, 1), "wall_us": round(wall / rows / STEPS * 1e6, 1)}


def _raw(events: int, size: int, commits: int) -> Figures:
    text = "x" * (size // events)
    written = [("run", seq, text, b"0" * 32) for seq in range(1, events + 1)]
    with tempfile.TemporaryDirectory() as folder:
        return bare(Path(folder) / "bare.db", in_batches(written, max(1, events // commits)))


def _apart(*arguments: str) -> Figures:
    """One measurement in a process of its own."""
    command = [sys.executable, __file__, *arguments]  # this folder is on the path: `journal` is its neighbour
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    found: Figures = json.loads(ended.stdout)
    return found


def measure(options: Options) -> Found:
    """Every size, the median of the repeats."""
    figures: dict[str, Figures] = {}
    for rows in SIZES:
        found = [_apart("ours", str(rows)) for _ in range(max(1, options.repeats // 2))]
        figures[f"{rows:,} rows"] = {key: median(one[key] for one in found) for key in found[0]}
    large = figures[f"{SIZES[-1]:,} rows"]
    hand = _apart("hand", str(SIZES[-1]))
    raw = _raw(int(large["events"]), int(large["bytes"]), int(large["commits"]))
    a_step = large["events"] / SIZES[-1] / STEPS
    alone = {name: round(raw[name] * a_step, 1) for name in ("cpu_us", "wall_us")}
    for name, beside in (("a loop by hand", hand), ("sqlite3 alone", alone)):
        figures[name] = {**beside, "wall_x": round(large["wall_us"] / beside["wall_us"], 1)}
    small = figures[f"{SIZES[0]:,} rows"]
    return Found(
        figures,
        [
            Target("CPU of a step, 10,000 rows, durable", 200, large["cpu_us"], "µs"),
            Target("memory at 10,000 rows", 200, large["peak_mib"], "MiB"),
            Target(
                "memory at 10,000 rows beside that at 1,000", 1.25, large["peak_mib"] / small["peak_mib"], "x"
            ),
        ],
    )


if __name__ == "__main__":
    print(json.dumps(measured(int(sys.argv[2])) if sys.argv[1] == "ours" else _hand(int(sys.argv[2]))))
