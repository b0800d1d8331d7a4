"""Ten thousand payments, some made twice: the ledger, the journal and the truth agree, however often the process was killed."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rooms import ROOT

SCRIPT = Path(__file__).parent / "support" / "payments_until.py"


def example(*arguments: object, deadly: int = 0) -> tuple[int, dict[str, Any]]:
    """Run the example; its exit code, and what it says as JSON."""
    command = [sys.executable, "-P", str(SCRIPT), str(deadly), *map(str, arguments), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=900)
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout) if done.stdout.strip() else {}


def killed_and_resumed(out: Path, payments: int, kills: list[int]) -> dict[str, Any]:
    """What is said in the end of a batch whose processes are killed after so many looks into the ledger."""
    arguments: list[object] = ["--out", out, "--payments", payments, "--yes"]
    for deadly in kills:
        assert example(*arguments, deadly=deadly)[0] == -signal.SIGKILL
        arguments = ["--out", out, "--resume"]
    status, said = example(*arguments)
    assert status == 0, said
    return said


def expect_agreement(said: dict[str, Any], payments: int) -> None:
    """Every row has one end, and each refund that was due was made once."""
    assert said["disagreements"] == []
    assert said["rows"] == payments
    assert sum(said["counts"].values()) == payments
    assert said["counts"].get("done", 0) + said["counts"].get("failed", 0) == payments
    assert {(f["kind"], f["code"]) for f in said["failures"]} <= {("business", "account_closed")}


def test_a_ledger_is_right_although_the_process_was_killed_three_times(tmp_path: Path) -> None:
    """400 rows; each kill comes somewhere in the middle of calls, the last one among the last rows."""
    said = killed_and_resumed(tmp_path / "out", 400, [97, 251, 180])
    expect_agreement(said, 400)
    assert said["refunds"] > 5


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(3))
def test_ten_thousand_payments_are_right_although_the_process_was_killed_three_times(
    tmp_path: Path, seed: int
) -> None:
    """10,000 rows, killed at three random looks into the ledger: no refund twice, none missing."""
    dice = random.Random(seed)
    said = killed_and_resumed(tmp_path / "out", 10_000, [dice.randrange(1, 6_000) for _ in range(3)])
    expect_agreement(said, 10_000)
    assert said["refunds"] == 250


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--resume"], 2, "to go on with"),
        (["--payments", "0", "--yes"], 2, "at least one payment"),
        (["--payments", "20"], 3, "no terminal"),
    ],
)
def test_what_cannot_be_is_said(tmp_path: Path, arguments: list[str], status: int, said: str) -> None:
    """Nothing to go on with, no payment, nobody to say yes."""
    command = [sys.executable, "-P", str(ROOT / "examples" / "payments"), "--out", str(tmp_path / "out")]
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300
    )
    assert done.returncode == status
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
