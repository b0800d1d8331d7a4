"""Runs that wait cost nothing but their place in the file: no process, and hardly memory where they are listed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from foreplan import Engine, Plan, Policies, SqliteJournal, tool

RUNS = 500
PLAN = Plan.model_validate(
    {
        "goal": "Refund the first payment of a day",
        "inputs": {"type": "object", "properties": {"day": {"type": "string"}}, "required": ["day"]},
        "steps": [
            {"id": "seen", "tool": "payments", "args": {"day": {"$": "inputs.day"}}},
            {"id": "pay", "tool": "refund", "args": {"payment": {"$": "seen[0].id"}}},
        ],
    }
)
LISTED = """
import sys
from pathlib import Path
from foreplan import SqliteJournal
from foreplan.executor.questions import questions_in

def most():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))

journal = SqliteJournal(sys.argv[1], reading=True)
journal.driven("x")
base = most()
listed, asked = len(journal.runs()), sum(1 for _ in questions_in(journal))
print(listed, asked, most() - base)
"""


@tool(effect="reads")
async def payments(day: str) -> list[dict[str, str]]:
    """Twenty payments."""
    return [{"id": f"{day}-{n}", "payer": f"payer {n}"} for n in range(20)]


@tool(requires_approval="each")
async def refund(payment: str) -> str:
    """Refund."""
    return payment


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell the memory held")
def test_listing_500_waiting_runs_needs_little_memory(tmp_path: Path) -> None:
    """All that 500 runs ask is listed with under 20 MiB more than nothing; each takes 12 KiB of the file, about."""
    path = tmp_path / "runs.sqlite3"

    async def wait() -> None:
        with SqliteJournal(path) as journal:
            engine = Engine([payments, refund], policies=Policies(approve="never"), journal=journal)
            for day in range(RUNS):
                assert (await engine.run(PLAN, inputs={"day": str(day)})).state == "waiting"

    anyio.run(wait)
    assert path.stat().st_size / RUNS < 16 * 1024
    command = [sys.executable, "-c", LISTED, str(path)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert said[:2] == [str(RUNS)] * 2
    assert float(said[2]) < 20
