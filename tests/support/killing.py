"""Runs that are killed until they are done, and what must be true of them after each kill and in the end."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.killing_cases import CASES, lines_of

from foreplan import SqliteJournal
from foreplan.executor.events import CallAdmitted, CallSettled, CallStarted, DecisionMade, Event, Outcome

__all__ = ["POINTS", "Processes", "Witness", "kill_until", "processes"]

CHILD = Path(__file__).with_name("killing_child.py")
POINTS = ("before append", "after append", "started", "effect", "settled")
"""Where a process dies by its own hand; `after` is where somebody else kills it, at a random moment."""
WIDE = {"before append": 80, "after append": 80, "started": 14, "effect": 20, "settled": 20}
"""How often a process passes each point at most in the largest case, about."""
ACTS = ("pay", "transfer", "charge", "give_back")
MOST = 200
"""Processes after which a run that is not done has something wrong."""


class Processes:
    """Starts processes that drive runs (see `killing_child.py`); each answer says how one ended."""

    def __init__(self, server: subprocess.Popen[str]) -> None:
        self._server = server

    def ask(self, **request: Any) -> dict[str, Any]:
        """Have a process made, or woken, and wait until it has ended, or stands still."""
        self.begin(**request)
        return self.end()

    def begin(self, **request: Any) -> None:
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps(request, default=str) + "\n")
        self._server.stdin.flush()

    def end(self) -> dict[str, Any]:
        assert self._server.stdout is not None
        said: dict[str, Any] = json.loads(self._server.stdout.readline())
        return said


@contextmanager
def processes() -> Iterator[Processes]:
    """Somebody who starts processes."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, str(CHILD)], stdin=pipe, stdout=pipe, text=True) as server:
        yield Processes(server)


class Witness:
    """Watches one folder from outside: the journal on one side, the effects that tools wrote down on the other."""

    def __init__(self, folder: Path, case: str) -> None:
        self.folder = folder
        self.case = CASES[case]
        self.effects = folder / "effects.jsonl"
        self._settled: dict[str, int] = {}

    def events(self) -> dict[str, list[Event]]:
        """The events of each run, after the journal was verified."""
        if not (self.folder / "runs.sqlite3").exists():
            return {}
        with SqliteJournal(self.folder / "runs.sqlite3") as journal:
            runs = [line.run for line in journal.runs()]
            assert journal.verify().ok
            return {run: list(journal.events(run)) for run in runs}

    def look(self) -> dict[str, list[Event]]:
        """After a process ended: nothing that was settled before it began was done by it."""
        counts = Counter(line["key"] for line in lines_of(self.effects))
        for key, count in self._settled.items():
            assert counts[key] == count, f"a settled call was made again: {key}"
        runs = self.events()
        self._settled = {key: counts[key] for events in runs.values() for key in settled_keys(events)}
        return runs

    def judge(self, said: dict[str, Any], *, strict: bool) -> None:
        """In the end: the run came out as it should, nothing is missing, no effect was had twice but by a decision.

        `strict`: who decided knew what had happened, so that no act was done twice at all.
        """
        runs, lines = self.look(), lines_of(self.effects)
        assert (said["state"], said["output"]) == (self.case.state, self.case.output), said
        done = [(line["tool"], line["args"]) for line in lines]
        assert [call for call in self.case.expected if call not in done] == []
        allowed = retries_of(runs)
        for key, count in Counter(line["key"] for line in lines if line["tool"] in ACTS).items():
            assert count <= 1 + allowed[key], f"done {count} times, {allowed[key]} times again was decided"
            assert count == 1 or not strict
        most = self.case.policies.budget.tool_calls
        assert most is not None
        assert len({line["key"] for line in lines}) <= said["tool_calls"] <= most
        assert sum(tool in ACTS for tool, _ in done) <= most
        back = [args["what"] for tool, args in done if tool == "give_back"]
        assert list(dict.fromkeys(back)) == ["paid two", "paid one"] * bool(back)
        for events in runs.values():
            check_attempts(events)


def keys_of(events: list[Event]) -> dict[Any, str]:
    """The idempotency key of each admitted call."""
    return {event.path: event.key for event in events if isinstance(event, CallAdmitted)}


def settled_keys(events: list[Event]) -> set[str]:
    """Keys of the calls that ended well, or with a failure that nobody tries again, as far as that is written."""
    keys = keys_of(events)
    return {
        keys[e.path] for e in events if isinstance(e, CallSettled) and e.outcome is Outcome.OK and e.attempt
    }


def retries_of(runs: dict[str, list[Event]]) -> Counter[str]:
    """How often somebody decided that a call be made again, by its key: a person, or the tool that was asked."""
    decided: Counter[str] = Counter()
    for events in runs.values():
        keys = keys_of(events)
        asked = {e.id: e.path for e in events if type(e).__name__ == "DecisionAsked"}  # type: ignore[union-attr]
        for event in events:
            if isinstance(event, DecisionMade) and event.choice == "retry":
                decided[keys[asked[event.id]]] += 1
    return decided


def check_attempts(events: list[Event]) -> None:
    """Each attempt that began has one end, and none begins after its call ended well."""
    begun: Counter[Any] = Counter()
    ended: Counter[Any] = Counter()
    well: set[Any] = set()
    for event in events:
        if isinstance(event, CallStarted):
            assert event.path not in well
            begun[event.path, event.attempt] += 1
        elif isinstance(event, CallSettled) and event.attempt:
            ended[event.path, event.attempt] += 1
            if event.outcome is Outcome.OK:
                well.add(event.path)
    assert all(ended[attempt] == count for attempt, count in begun.items())


def kill_until(
    server: Processes,
    folder: Path,
    case: str,
    points: Iterator[str],
    dice: random.Random,
    most: int,
    **more: Any,
) -> Counter[str]:
    """Run a case and kill its processes, `most` times at the points that come, until it is done. The kills by point."""
    witness, kills = Witness(folder, case), Counter[str]()
    passes = WIDE if case == "mixed" else {}
    for _ in range(MOST):
        point, kill = "", None
        if kills.total() < most:
            point = next(points)
            n = dice.uniform(0.0, 0.15) if point == "after" else dice.randint(1, passes.get(point, 5))
            kill = [point, n]
        said = server.ask(folder=folder, case=case, kill=kill, **more)
        if said["signal"] == 0:
            assert "output" in said, said
            witness.judge(said, strict=not more.get("stubborn"))
            return kills
        kills[point] += 1
        witness.look()
    raise AssertionError(f"not done after {MOST} processes")
