"""Memory and replay: what a process comes to that runs 10,000 steps, and how long it takes to read such a run back.

Each case has a process of its own, which makes, checks, compiles and runs its plan; `peak_mib` is the most that was
resident at any time, `imported_mib` what the imports alone came to. The bare floor holds the same 10,000 results.

Replay, in CPU seconds: `advance` over all events of a DAG of 10,000 steps, whose plan is compiled already; `restore`
is what a resume does, from the SQLite file to the state of the run: every event read and its hash checked, the plan
read and compiled; `show` makes the whole `Run` of it.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
from floor import dag, unbounded
from overhead import bare, each_plan, make_engine, plan_of, run_whole, work
from results import Figures, Found, Options, Target, median

from foreplan import Engine, SqliteJournal
from foreplan.executor.mind.mind import replay
from foreplan.executor.mind.state import State

STEPS = 10_000
DURABLE_ITEMS = 50_000


def peak() -> float:
    """The most this process ever held, in MiB (where Linux tells it; `ru_maxrss` may count the parent's too)."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        scale = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale / 2**20
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


async def floor_dag(folder: Path) -> None:
    await unbounded(dag(STEPS), bare)


async def run_dag(folder: Path) -> None:
    await run_whole(make_engine(), plan_of(dag(STEPS)))


async def run_each(folder: Path) -> None:
    await run_whole(make_engine(), each_plan(STEPS))


async def run_durable_each(folder: Path) -> None:
    with SqliteJournal(folder / "each.db") as journal:
        await run_whole(Engine([work], journal=journal), each_plan(DURABLE_ITEMS))


async def record(folder: Path) -> None:
    """The run that the next case reads back."""
    with SqliteJournal(folder / "dag.db") as journal:
        await run_whole(Engine([work], journal=journal), plan_of(dag(STEPS)))


async def read_back(folder: Path) -> Figures:
    with SqliteJournal(folder / "dag.db") as journal:
        engine = Engine([work], journal=journal)
        [line] = journal.runs()
        restore = seconds(lambda: replay(State(engine.registry), journal.events(line.run)))
        events = list(journal.events(line.run))
        replay(State(engine.registry), events)
        advance = seconds(lambda: replay(State(engine.registry), events))
        show = seconds(lambda: engine.show(line.run))
    return {"events": len(events), "advance_s": advance, "restore_s": restore, "show_s": show}


def seconds(function: Callable[[], Any]) -> float:
    begun = time.process_time()
    function()
    return time.process_time() - begun


CASES: dict[str, tuple[str, Callable[[Path], Awaitable[Any]]]] = {
    "floor": (f"DAG of {STEPS:,}, bare floor", floor_dag),
    "dag": (f"DAG of {STEPS:,}", run_dag),
    "each": (f"each of {STEPS:,}", run_each),
    "durable": (f"each of {DURABLE_ITEMS:,}, SQLite", run_durable_each),
    "record": (f"DAG of {STEPS:,}, SQLite", record),
    "read": (f"replay of {STEPS:,} steps", read_back),
}


def in_this_process(name: str, backend: str, folder: Path) -> Figures:
    make_engine()  # every module that is used is loaded before the first figure
    imported = peak()
    found = anyio.run(CASES[name][1], folder, backend=backend)
    return found or {"imported_mib": imported, "peak_mib": peak()}


def in_a_process(name: str, backend: str, folder: Path) -> Figures:
    command = [sys.executable, str(Path(__file__).resolve()), name, backend, str(folder)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    figures: Figures = json.loads(done.stdout)
    return figures


def measure(options: Options) -> Found:
    found: dict[str, list[Figures]] = {name: [] for name in CASES}
    for _ in range(min(options.repeats, 3)):  # memory hardly differs between two of them
        with tempfile.TemporaryDirectory() as folder:
            for name, several in found.items():
                several.append(in_a_process(name, options.backend, Path(folder)))
    figures = {
        CASES[name][0]: {key: median((one[key] for one in several), digits=3) for key in several[0]}
        for name, several in found.items()
    }
    return Found(figures, targets(figures))


def targets(figures: dict[str, Figures]) -> list[Target]:
    memory = {CASES["dag"][0]: 150, CASES["durable"][0]: 120}
    times = figures[CASES["read"][0]]
    return [
        *(
            Target(f"memory, {name}", 200, figures[name]["peak_mib"], "MiB", expected=e)
            for name, e in memory.items()
        ),
        Target(f"replay of {STEPS:,} steps, in memory", 0.5, times["advance_s"], "s of CPU", expected=0.25),
        Target(f"replay of {STEPS:,} steps, from SQLite", 0.5, times["restore_s"], "s of CPU"),
    ]


if __name__ == "__main__":
    print(json.dumps(in_this_process(sys.argv[1], sys.argv[2], Path(sys.argv[3]))))
