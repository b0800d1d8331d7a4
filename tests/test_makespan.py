"""The scheduler against an oracle: public step graphs with durations, run in virtual time on both loops."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.virtual import BACKENDS, now, run_virtual

from foreplan import Effect, Engine, Plan, tool

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "asynchow" / "open.jsonl"


@tool(effect=Effect.READS, timeout=None)
async def work(seconds: float) -> float:
    """Takes so long."""
    await anyio.sleep(seconds)
    return seconds


def graphs() -> list[dict[str, Any]]:
    if not DATA.exists():
        pytest.skip("the public data (asynchow) is not beside the project")
    rows = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
    return [row for row in rows if row["agrees"]]


def plan_of(row: dict[str, Any]) -> Plan:
    steps = [
        {
            "id": f"s{step['id']}",
            "tool": "work",
            "args": {"seconds": step["duration_s"]},
            "after": [f"s{need}" for need in step["depends_on"]],
        }
        for step in row["steps"]
    ]
    return Plan.model_validate({"steps": steps})


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_makespan_is_the_gold_completion_time(backend: str) -> None:
    """For every graph whose gold agrees with its own critical path."""
    wrong = []
    rows = graphs()

    async def main() -> None:
        engine = Engine([work], clock=now)
        for row in rows:
            start = anyio.current_time()
            run = await engine.run(plan_of(row))
            took = anyio.current_time() - start
            if not run.ok or took != pytest.approx(row["gold_makespan_s"], rel=1e-9, abs=1e-6):
                wrong.append((row["id"], took, row["gold_makespan_s"]))

    run_virtual(backend, main)
    assert not wrong
    assert len(rows) >= 700
