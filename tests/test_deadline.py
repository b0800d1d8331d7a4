"""A deadline is an objective of a run: measured and told, it stops nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from support.shell import Shell
from support.virtual import now, run_virtual

from foreplan import Engine, Plan, SqliteJournal, tool
from foreplan.policies.errors import BadInput

PLAN = Plan.model_validate({"goal": "rest", "steps": [{"id": "a", "tool": "rest", "args": {"seconds": 10}}]})


@tool(effect="reads", timeout=None)
async def rest(seconds: float) -> str:
    """Rest."""
    await anyio.sleep(seconds)
    return "rested"


@pytest.mark.parametrize(("deadline", "late"), [(12.0, False), (8, True), (None, False)])
def test_a_run_that_takes_longer_than_wanted_ends_all_the_same(
    anyio_backend: str, deadline: float | None, late: bool
) -> None:
    """It is late, and done."""

    async def main() -> Any:
        return await Engine([rest], clock=now).run(PLAN, deadline=deadline)

    run = run_virtual(anyio_backend, main)
    assert (run.ok, run.took, run.late, run.deadline) == (True, 10.0, late, deadline)
    assert run.to_json().get("late") == (None if deadline is None else late)


def test_show_says_by_how_much_a_run_was_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The journal knows; the tools are not needed."""

    async def main() -> Any:
        with SqliteJournal(tmp_path / "runs.db") as journal:
            return await Engine([rest], journal=journal, clock=now).run(PLAN, run_id="r1", deadline=8)

    run_virtual("asyncio", main)
    monkeypatch.chdir(tmp_path)
    shell = Shell(tmp_path, capsys)
    said = shell.here("show", "r1", "--journal", "runs.db").out
    assert "2.0 s over its deadline of 8.0 s" in " ".join(said.split())
    assert shell.here("show", "r1", "--journal", "runs.db", "--json").document["late"] is True


@pytest.mark.parametrize("deadline", [0, -1, float("nan"), "soon", True])
def test_a_deadline_that_is_none_is_refused(deadline: Any) -> None:
    """Before anything is written."""
    engine = Engine([rest])
    with pytest.raises(BadInput, match="number of seconds"):
        engine.run_blocking(PLAN, deadline=deadline)
    assert engine.runs() == []
