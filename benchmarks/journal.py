"""What durability costs: appending, waiting, lanes that share commits, a busy loop, replay, a long list of runs.

Beside each way of writing stands a bare `sqlite3` loop that writes the same rows with the same settings. CPU time of
this process (all threads) and wall time, median of the repeats, all in one run; `fdatasync` is what the disk itself
takes for one page, measured in the same folder. TMPDIR says which disk that is.
"""

from __future__ import annotations

import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import chain, count
from pathlib import Path

import anyio
from results import Figures, Found, Options, median

from foreplan.executor.events import CallSettled, Event, Outcome
from foreplan.executor.journal.records import first_tip, next_tip, to_text
from foreplan.executor.journal.sqlite_journal import SqliteJournal, SqliteLog

EVENTS = 10_000
WAITS = 1_000
LANES = 10
RUNS = 10_000
BATCH = 256

Row = tuple[str, int, str, bytes]


def event(seq: int) -> Event:
    value = {"total": seq, "label": "some text here", "parts": [1, 2, 3]}
    return CallSettled(seq, 1_700_000_000.5 + seq, 0.123456789, ("refund", seq), 1, Outcome.OK, value)


def rows(number: int) -> Iterator[Row]:
    """What the journal writes for so many events."""
    tip = first_tip("run")
    for seq in range(1, number + 1):
        text, data = to_text(event(seq))
        tip = next_tip(tip, data)
        yield "run", seq, text, tip


class Clock:
    """CPU and wall time of a block, in microseconds for each of `number` things."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.figures: Figures = {}

    def __enter__(self) -> Clock:
        self.cpu, self.wall = time.process_time(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        scale = 1e6 / self.number
        self.figures["cpu_us"] = (time.process_time() - self.cpu) * scale
        self.figures["wall_us"] = (time.perf_counter() - self.wall) * scale


def bare(path: Path, batches: Sequence[Sequence[Row]]) -> Figures:
    """The same rows in as many transactions as there are batches, by `sqlite3` alone."""
    SqliteJournal(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = FULL")
        columns = "run, opened_at, epoch, state, reason, goal, events, tip"
        connection.execute(f"INSERT INTO runs ({columns}) VALUES ('run', 0, 1, 'running', '', '', 0, x'')")
        with Clock(sum(map(len, batches))) as clock:
            for batch in batches:
                values = ",".join(["(?,?,?,?)"] * len(batch))
                connection.execute("BEGIN IMMEDIATE")
                connection.execute(f"INSERT INTO events VALUES {values}", list(chain.from_iterable(batch)))
                connection.execute(
                    "UPDATE runs SET events = ?, tip = ? WHERE run = ? AND epoch = 1",
                    (batch[-1][1], batch[-1][3], "run"),
                )
                connection.execute("COMMIT")
    return clock.figures


def in_batches(all_rows: Iterable[Row], size: int) -> list[list[Row]]:
    held = list(all_rows)
    return [held[start : start + size] for start in range(0, len(held), size)]


async def append_many(journal: SqliteJournal) -> Figures:
    """10,000 events, then one wait."""
    log, events = journal.create("run"), [event(seq) for seq in range(1, EVENTS + 1)]
    with Clock(EVENTS) as clock:
        for one in events:
            log.append(one)
        await log.durable()
    return clock.figures | {"commits": journal.commits}


async def wait_each(journal: SqliteJournal) -> Figures:
    """1,000 times: one event, one wait."""
    log = journal.create("run")
    with Clock(WAITS) as clock:
        for seq in range(1, WAITS + 1):
            log.append(event(seq))
            await log.durable()
    return clock.figures | {"commits": journal.commits}


async def lanes(journal: SqliteJournal) -> Figures:
    """The same 1,000 by ten tasks of one run."""
    log, numbers = journal.create("run"), count(1)

    async def lane() -> None:
        for _ in range(WAITS // LANES):
            log.append(event(next(numbers)))
            await log.durable()

    with Clock(WAITS) as clock:
        async with anyio.create_task_group() as tasks:
            for _ in range(LANES):
                tasks.start_soon(lane)
    return clock.figures | {"commits": journal.commits}


async def busy(journal: SqliteJournal) -> Figures:
    """How long an effect waits for its commit beside a fan-out of reads that leaves the loop no moment."""
    effects, reads = journal.create("effects"), journal.create("reads")
    waits: list[float] = []
    over = anyio.Event()

    async def fan_out(log: SqliteLog) -> None:
        for seq in count(1):
            log.append(event(seq))
            until = time.perf_counter() + 0.00005  # the rest of the step
            while time.perf_counter() < until:
                pass
            await anyio.lowlevel.checkpoint()
            if over.is_set():
                return

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(fan_out, reads)
        for seq in range(1, 31):
            effects.append(event(seq))
            begun = time.perf_counter()
            await effects.durable()
            waits.append((time.perf_counter() - begun) * 1e6)
        over.set()
    return {"wait_us": statistics.median(waits), "longest_wait_us": max(waits)}


async def replay(journal: SqliteJournal) -> Figures:
    """Reading 10,000 events of one run, the chain checked."""
    log = journal.create("run")
    for seq in range(1, EVENTS + 1):
        log.append(event(seq))
    log.close()
    with Clock(EVENTS) as clock:
        for _ in journal.events("run"):
            pass
    return clock.figures


async def many_runs(journal: SqliteJournal) -> Figures:
    """Beginning 10,000 runs of one event each, 64 at a time, and listing them (microseconds for the whole list)."""
    with Clock(RUNS) as clock:
        for start in range(0, RUNS, 64):
            logs = [journal.create(f"run-{number:06}") for number in range(start, min(start + 64, RUNS))]
            for log in logs:
                log.append(event(1))
            await logs[-1].durable()
            for log in logs:
                log.close()
    with Clock(1) as listing:
        journal.runs()
    return clock.figures | {"list_cpu_us": listing.figures["cpu_us"], "commits": journal.commits}


def fdatasync(path: Path) -> Figures:
    """What the disk takes to make one page durable."""
    waits = []
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        for _ in range(200):
            begun = time.perf_counter()
            os.write(fd, b"x" * 4096)
            os.fdatasync(fd)
            waits.append((time.perf_counter() - begun) * 1e6)
    finally:
        os.close(fd)
    return {"wall_us": statistics.median(waits)}


def opened(measure: Callable[[SqliteJournal], Awaitable[Figures]], backend: str) -> Callable[[Path], Figures]:
    """The measurement in a journal of its own."""

    def run(path: Path) -> Figures:
        with SqliteJournal(path) as journal:
            return anyio.run(measure, journal, backend=backend)

    return run


def measurements(backend: str) -> dict[str, Callable[[Path], Figures]]:
    many, single = in_batches(rows(EVENTS), BATCH), in_batches(rows(WAITS), 1)
    return {
        "fdatasync": fdatasync,
        "append 10,000": opened(append_many, backend),
        "append 10,000, bare": lambda path: bare(path, many),
        "append and wait": opened(wait_each, backend),
        "append and wait, bare": lambda path: bare(path, single),
        "append and wait, ten lanes": opened(lanes, backend),
        "beside a busy loop": opened(busy, backend),
        "replay 10,000": opened(replay, backend),
        "10,000 runs": opened(many_runs, backend),
    }


def measure(options: Options) -> Found:
    found: dict[str, list[Figures]] = {}
    for _ in range(options.repeats):
        for name, one in measurements(options.backend).items():
            with tempfile.TemporaryDirectory() as folder:
                found.setdefault(name, []).append(one(Path(folder) / "runs.sqlite3"))
    return Found({name: medians(several) for name, several in found.items()})


def medians(several: list[Figures]) -> Figures:
    return {key: median(one[key] for one in several) for key in several[0]}
