"""The licence audit is killed in the middle, as the kernel kills, and resumed: nothing settled is done again."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rooms import ROOT

from foreplan import SqliteJournal
from foreplan.executor.events import (
    CallSettled,
    CallStarted,
    Event,
    Outcome,
    PatchAccepted,
    RunClosed,
    RunOpened,
)
from foreplan.executor.events import Path as CallPath

AUDIT = ROOT / "examples" / "licence_audit"
SCRIPT = Path(__file__).parent / "support" / "audit_until.py"
POINTS = 10


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the odd packages of the demonstration and a dozen ordinary ones."""
    folder = tmp_path_factory.mktemp("packages")
    for number in range(12):
        (folder / f"plain{number}-1.0.dist-info").mkdir()
        (folder / f"plain{number}-1.0.dist-info" / "METADATA").write_text(
            f"Name: plain{number}\nLicense: MIT\n"
        )
    code = "import sys, pathlib, oddities; oddities.install(pathlib.Path(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", code, folder], cwd=AUDIT, check=True)
    return folder


@pytest.fixture(scope="module")
def whole(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Event]:
    """The journal of an audit that nobody disturbs."""
    out = tmp_path_factory.mktemp("whole")
    subprocess.run([sys.executable, SCRIPT, "0", packages, out], check=True, stdin=subprocess.DEVNULL)
    return journal(out)


def journal(out: Path) -> list[Event]:
    """All events of the one run in a folder."""
    with SqliteJournal(out / "runs.sqlite3") as runs:
        (line,) = runs.runs()
        return list(runs.events(line.run))


def kill_at(event: int, packages: Path, out: Path) -> None:
    """Start the audit, and kill it with SIGKILL once it has written that many events."""
    out.mkdir()
    command = [sys.executable, str(SCRIPT), str(event), str(packages), str(out)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        process.kill()
        assert process.wait() == -signal.SIGKILL


def begun_after_success(events: list[Event]) -> Iterator[CallPath]:
    """Calls that were begun again although they had settled with success."""
    settled: set[CallPath] = set()
    for event in events:
        if isinstance(event, CallStarted) and event.path in settled:
            yield event.path
        elif isinstance(event, CallSettled) and event.outcome is Outcome.OK:
            settled.add(event.path)


@pytest.mark.parametrize("point", range(1, POINTS + 1))
def test_a_killed_audit_is_resumed_and_repeats_nothing(
    point: int, packages: Path, whole: list[Event], tmp_path: Path
) -> None:
    """Killed at any of ten points, the audit goes on: no settled call is made again, and the report is written once."""
    out = tmp_path / "out"
    kill_at(len(whole) * point // (POINTS + 1), packages, out)
    (opened, *_) = journal(out)
    assert isinstance(opened, RunOpened)
    resumed = [sys.executable, str(AUDIT), "--resume", opened.run, "--out", str(out)]
    ran = subprocess.run(resumed, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    events = journal(out)
    assert list(begun_after_success(events)) == []
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert [e.state for e in events if isinstance(e, RunClosed)] == ["done"]
    assert sum(isinstance(e, PatchAccepted) for e in events) == 1
    assert len((out / "history.csv").read_text().splitlines()) == 2
