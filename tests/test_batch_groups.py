"""Rows that fail alike wait together, and what is decided for one is decided for all of them."""

from __future__ import annotations

from typing import Any

import pytest
from support.virtual import BACKENDS, now, run_virtual

from foreplan import (
    Batch,
    BatchRules,
    Effect,
    Engine,
    FunctionPlanner,
    MemoryJournal,
    Plan,
    Policies,
    Retry,
    ToolFailure,
    tool,
)
from foreplan.executor.batches.running import BatchRuntime
from foreplan.executor.events import GroupSettled, RowParked
from foreplan.executor.mind.batch import unsettled_groups
from foreplan.planner.plan import Patch

INPUTS = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
PLAN = Plan.model_validate(
    {
        "inputs": INPUTS,
        "steps": [
            {"id": "found", "tool": "look", "args": {"n": {"$": "inputs.n"}}},
            {"id": "sent", "tool": "send", "args": {"n": {"$": "found"}}},
        ],
        "output": {"$": "sent"},
    }
)
INSTEAD = {"id": "posted", "replaces": "sent", "tool": "post", "args": {"n": {"$": "found"}}}


def engine_of(calls: list[tuple[str, int]], journal: Any = None) -> Engine:
    @tool(effect=Effect.READS)
    async def look(n: int) -> int:
        """Look."""
        calls.append(("look", n))
        return n

    @tool(effect=Effect.WRITES)
    async def send(n: int) -> int:
        """Send."""
        calls.append(("send", n))
        if n % 3 == 0:
            raise ToolFailure("no address", code="no_address")
        if n == 10:
            raise ToolFailure("too heavy", code="too_heavy")
        return n

    @tool(effect=Effect.WRITES)
    async def post(n: int) -> int:
        """Post."""
        calls.append(("post", n))
        return -n

    async def never(request: Any) -> Any:
        raise AssertionError("no row asks the planner by itself")

    return Engine(
        [look, send, post],
        FunctionPlanner(never, never),
        policies=Policies(approve="never", retry=Retry(attempts=1)),
        journal=journal,
        clock=now,
        dice=lambda: 0.5,
    )


def rows(count: int) -> list[dict[str, int]]:
    return [{"n": n} for n in range(1, count + 1)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_patch_mends_all_rows_that_failed_alike(backend: str) -> None:
    """They wait, out of memory, until nothing else can go on; each goes on where it stood."""
    calls: list[tuple[str, int]] = []
    journal, asked = MemoryJournal(), list[tuple[str, list[int]]]()

    async def regroup(batch: BatchRuntime) -> None:
        for group, ordinals in unsettled_groups(batch.state).items():
            state = batch.row_state(ordinals[0])
            assert state.group is not None
            [(step, _, code)] = state.group["failed"]
            asked.append((code, ordinals))
            if code == "no_address":
                patch = Patch.model_validate({"add": [INSTEAD]})
                batch.settle_group(group, patch, "sha256:patched")
            else:
                batch.settle_group(group, None, message=f"nothing mends {step}")

    async def main() -> Batch:
        engine = engine_of(calls, journal)
        engine.regroup = regroup
        return await engine.run_batch(PLAN, rows(12), batch_id="b", rules=BatchRules(at_once=5))

    batch = run_virtual(backend, main)
    assert asked == [("no_address", [3, 6, 9, 12]), ("too_heavy", [10])]
    assert batch.message == "12 rows: 11 done, 1 failed"
    assert [r.output for r in batch.rows(status="done")] == [1, 2, -3, 4, 5, -6, 7, 8, -9, 11, -12]
    assert [r.sentence for r in batch.rows(status="failed")] == [
        "1 of 2 steps failed: 'sent': too heavy (nothing mends sent)"
    ]
    assert len([n for what, n in calls if what == "look"]) == 12
    assert len(list(journal.some("b", (RowParked,)))) == 5
    assert len(list(journal.some("b", (GroupSettled,)))) == 2


def test_without_anybody_who_mends_groups_their_rows_fail() -> None:
    """They are not left waiting, and no row asks the planner by itself."""

    async def main() -> Batch:
        return await engine_of([]).run_batch(PLAN, rows(6))

    batch = run_virtual("asyncio", main)
    assert (batch.status, batch.counts["done"], batch.counts["failed"]) == ("failed", 4, 2)
