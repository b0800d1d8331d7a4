"""Killed at any point, by whatever kills: a run that is resumed repeats nothing that was settled, and misses nothing."""

from __future__ import annotations

import itertools
import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.killing import POINTS, Processes, Witness, kill_until, processes
from support.killing_cases import CASES, lines_of


@pytest.fixture(scope="module")
def server() -> Iterator[Processes]:
    """Starts processes quickly."""
    with processes() as started:
        yield started


@pytest.fixture(scope="module")
def other() -> Iterator[Processes]:
    """Somebody else who does."""
    with processes() as started:
        yield started


def killed(server: Processes, folder: Path, least: int, each: int, seed: int) -> Counter[str]:
    """Runs of every case, killed at every point in turn, until there were so many kills."""
    dice, kills = random.Random(seed), Counter[str]()
    points = itertools.cycle([*POINTS, "after"])
    for number, case in enumerate(itertools.cycle(CASES)):
        if kills.total() >= least and all(kills[point] >= each for point in POINTS):
            return kills
        (folder / str(number)).mkdir()
        more = {"stubborn": number % 3 == 2, "backend": "trio" if number % 5 == 4 else "asyncio"}
        kills += kill_until(server, folder / str(number), case, points, dice, dice.randint(1, 6), **more)
    raise AssertionError


def test_killed_runs_go_on_and_repeat_nothing(server: Processes, tmp_path: Path) -> None:
    """A hundred kills: before and after an append, after `started`, after the effect, after `settled`, at any moment (E1)."""
    kills = killed(server, tmp_path, least=100, each=8, seed=1)
    assert kills.total() >= 100


def until_done(server: Processes, witness: Witness, case: str) -> None:
    """Let it come to its end undisturbed, and judge it."""
    witness.judge(server.ask(folder=witness.folder, case=case), strict=False)


def test_one_of_two_processes_drives_a_run(server: Processes, other: Processes, tmp_path: Path) -> None:
    """While one drives a run, the other is told so and has no effect; after it is killed, the other goes on."""
    witness = Witness(tmp_path, "mixed")
    stopped = server.ask(folder=tmp_path, case="mixed", kill=["started", 3], stop=True)["stopped"]
    before = lines_of(witness.effects)
    told = other.ask(folder=tmp_path, case="mixed")
    assert (told["state"], "is being driven already" in told["message"]) == ("JournalError", True)
    assert lines_of(witness.effects) == before
    os.kill(stopped, signal.SIGKILL)
    assert server.ask(wake=stopped)["signal"] == signal.SIGKILL
    witness.look()
    until_done(other, witness, "mixed")


def test_two_processes_rush_for_one_run(server: Processes, other: Processes, tmp_path: Path) -> None:
    """Both try to take up a killed run at once, again and again: the effects are those of one."""
    for number in range(4):
        (tmp_path / str(number)).mkdir()
        request = {"folder": tmp_path / str(number), "case": "undo"}
        witness = Witness(tmp_path / str(number), "undo")
        server.ask(**request, kill=["effect", 1 + number % 2])
        for one in (server, other):
            one.begin(**request)
        ends = [one.end() for one in (server, other)]
        assert "failed" in {end["state"] for end in ends}  # how the case is to end
        assert {end["state"] for end in ends} <= {"failed", "JournalError", "BadInput"}
        witness.judge(next(end for end in ends if end["state"] == "failed"), strict=True)


@pytest.mark.parametrize("n", [4, 6, 7, 9, 13])
def test_an_owner_that_wakes_after_another_took_over_does_nothing(
    server: Processes, other: Processes, tmp_path: Path, n: int
) -> None:
    """Stopped before an append, its lock removed by somebody in a hurry: when it wakes, the run is another's.

    It may end a read that it was about to begin: reads do not wait until their beginning is on the disk.
    """
    witness = Witness(tmp_path, "undo")
    stopped = server.ask(folder=tmp_path, case="undo", kill=["before append", n], stop=True)["stopped"]
    witness.look()
    for lock in (tmp_path / "runs.sqlite3-locks").iterdir():
        lock.unlink()
    until_done(other, witness, "undo")
    before = lines_of(witness.effects)
    woken = server.ask(wake=stopped)
    assert (woken["state"], woken["reason"]) == ("stopped", "journal")
    assert "taken over by another process" in woken["message"]
    assert {line["tool"] for line in lines_of(witness.effects)[len(before) :]} <= {"broken"}
    witness.look()


@pytest.mark.parametrize("case", ["mixed", "agent"])
def test_a_disk_that_fills_stops_the_run_and_loses_nothing(
    server: Processes, tmp_path: Path, case: str
) -> None:
    """The file cannot grow: the run stops where it is, and goes on once there is room, as after a kill."""
    witness, stops = Witness(tmp_path, case), 0
    for most in range(45_000, 2_000_000, 4_000 if case == "agent" else 16_000):
        said = server.ask(folder=tmp_path, case=case, fsize=most)
        if said.get("state") == witness.case.state:
            break
        assert said["state"] == "JournalError" or said["reason"] == "journal", said
        assert "make room" in said["message"] or "its free space" in said["message"], said
        stops += 1
        witness.look()
    witness.judge(said, strict=True)
    assert stops >= 3


@pytest.mark.proof
def test_a_thousand_kills(server: Processes, tmp_path: Path) -> None:
    """The same with a thousand kills, at least twenty at each named point."""
    kills = killed(server, tmp_path, least=1000, each=20, seed=2)
    assert min(kills[point] for point in POINTS) >= 20
