"""Processes that drive runs and are killed: `killing_child.py` forks one for each line of JSON on standard input.

What has been imported is shared, so that a process costs a few milliseconds. A request names a folder, a case of
`killing_cases.py` and when to die: `["started", 3]` is the third time that the process passes that point, `["after", s]`
some seconds after it began. The points are reached in wrappers around the journal and inside the tools; the library
knows nothing of them. The answer says by which signal the process ended, and what it reports if by none.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.killing_cases import CASES, RUN, Case, answers, lines_of, world

from foreplan import Engine, Run, SqliteJournal
from foreplan.executor.children import parent_of
from foreplan.executor.events import CallSettled, CallStarted, Event
from foreplan.executor.journal.journal import Log, RunLine
from foreplan.policies.errors import ForeplanError

ROUNDS = 30
"""So often a process takes up a run that waits, before something is wrong."""


class Fate:
    """When the process dies, and how often it has passed each point."""

    def __init__(self, point: str = "", n: float = 0, *, stop: bool = False) -> None:
        self.passed: Counter[str] = Counter()
        self._point, self._n, self._stop = point, n, stop
        self.settle: Callable[[], object] = list
        """Has everything written that was appended: who is stopped must not hold the file."""

    def at(self, point: str) -> None:
        """The process passes a point, unless it dies there."""
        self.passed[point] += 1
        if (point, self.passed[point]) == (self._point, self._n):
            if self._stop:
                self.settle()
            os.kill(os.getpid(), signal.SIGSTOP if self._stop else signal.SIGKILL)


class FatefulLog:
    """A log around which a process may die."""

    def __init__(self, log: Log, journal: SqliteJournal, fate: Fate) -> None:
        self.run = log.run
        self._log, self._journal, self._fate = log, journal, fate
        self._started = False

    def append(self, event: Event, /) -> None:
        """Before and after the append; after the end of a call is on the disk."""
        self._fate.at("before append")
        self._log.append(event)
        self._fate.at("after append")
        self._started = type(event) is CallStarted
        if type(event) is CallSettled:
            self._journal.run_of_approval("")  # whatever is asked, what was appended is written first
            self._fate.at("settled")

    async def durable(self) -> None:
        """After the beginning of a call is on the disk, and before its effect."""
        started, self._started = self._started, False
        await self._log.durable()
        if started:
            self._fate.at("started")

    def close(self) -> None:
        self._log.close()


class FatefulJournal:
    """A journal around which a process may die."""

    def __init__(self, journal: SqliteJournal, fate: Fate) -> None:
        self._journal, self._fate = journal, fate
        fate.settle = journal.runs

    def create(self, run: str, *, approval: str = "") -> FatefulLog:
        return FatefulLog(self._journal.create(run, approval=approval), self._journal, self._fate)

    def reopen(self, run: str) -> FatefulLog:
        return FatefulLog(self._journal.reopen(run), self._journal, self._fate)

    def events(self, run: str) -> Iterator[Event]:
        return self._journal.events(run)

    def runs(self) -> list[RunLine]:
        return self._journal.runs()

    def driven(self, run: str) -> bool:
        return self._journal.driven(run)

    def run_of_approval(self, approval: str) -> str | None:
        return self._journal.run_of_approval(approval)


def drive(folder: Path, case: Case, fate: Fate, *, stubborn: bool, backend: str) -> dict[str, Any]:
    """Run the case, or take its run up, and answer its questions until it is closed or something is wrong."""
    effects = folder / "effects.jsonl"
    with SqliteJournal(folder / "runs.sqlite3") as journal:
        tools = world(effects, fate.at)
        engine = case.engine(tools, FatefulJournal(journal, fate))
        known = {line.run: line for line in journal.runs()}
        begun = [run for run, line in known.items() if line.events > 1 and not parent_of(run, known)]
        if begun:
            ended = engine.show(begun[0])
        else:  # killed before it had a plan, it is begun anew
            ended = anyio.run(case.begin, engine, f"{RUN}{len(known)}", backend=backend)
        for _ in range(ROUNDS):
            if ended.state not in ("waiting", "running"):
                break
            said = answers(ended, lines_of(effects), stubborn=stubborn)
            ended = anyio.run(resume, engine, ended.id, said, backend=backend)
    return {"run": ended.id, "state": ended.state, "reason": ended.reason, "message": ended.message} | {
        "output": ended.output,
        "tool_calls": ended.used.tool_calls,
        "passed": fate.passed,
        "steps": {id_: step.outcome for id_, step in ended.steps.items()},
    }


async def resume(engine: Engine, run: str, said: dict[str, Any]) -> Run:
    return await engine.resume(run, decisions=said)


def child(request: dict[str, Any]) -> None:
    """The process itself. Never returns."""
    folder, said = Path(request["folder"]), {}
    kill = request.get("kill") or ["", 0]
    if request.get("fsize"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["fsize"], request["fsize"]))
    try:
        fate = Fate(*kill, stop=bool(request.get("stop")))
        case = CASES[request["case"]]
        backend = request.get("backend", "asyncio")
        said = drive(folder, case, fate, stubborn=bool(request.get("stubborn")), backend=backend)
    except ForeplanError as error:
        said = {"state": type(error).__name__, "message": str(error)}
    except BaseException as error:
        said = {"state": "raised", "message": f"{type(error).__name__}: {error}"}
    os.write(request["to"], json.dumps(said).encode())
    os._exit(0)


def begin(request: dict[str, Any]) -> tuple[int, int]:
    """Fork a process for this request: its id, and where it reports."""
    report, to = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(report)
        child({**request, "to": to})
    os.close(to)
    kill = request.get("kill") or ["", 0]
    if kill[0] == "after":
        time.sleep(kill[1])
        os.kill(pid, signal.SIGKILL)  # not reaped yet, so this is the same process, or what is left of it
    return pid, report


def end(pid: int, report: int) -> dict[str, Any]:
    """How the process ended, or that it stands still."""
    _, status = os.waitpid(pid, os.WUNTRACED)
    if os.WIFSTOPPED(status):
        return {"stopped": pid}
    with os.fdopen(report) as said:
        text = said.read()
    return {"signal": os.WTERMSIG(status), **(json.loads(text) if text else {})}


def main() -> None:
    standing: dict[int, int] = {}
    for line in sys.stdin:
        request = json.loads(line)
        if "wake" in request:
            pid = request["wake"]
            report = standing[pid]
            os.kill(pid, signal.SIGCONT)
        else:
            pid, report = begin(request)
        standing[pid] = report
        print(json.dumps(end(pid, report)), flush=True)


if __name__ == "__main__":
    for case in CASES.values():
        case.warm()
    main()
