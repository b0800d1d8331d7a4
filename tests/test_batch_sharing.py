"""Steps that do not depend on the row: run once and shared where they only read, and else they must say how often."""

from __future__ import annotations

from collections import Counter
from typing import Any

import anyio
import pytest
from support.virtual import BACKENDS, now, run_virtual

from foreplan import Batch, Effect, Engine, MemoryJournal, Plan, Policies, StaticPlanner, ToolFailure, tool
from foreplan.executor.events import CallStarted, RowSettled
from foreplan.executor.runtime import Answer
from foreplan.planner.findings import CheckFailed
from foreplan.policies.failures import Happened

RULES = Policies(approve="never")
INPUTS = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
RATE = {"id": "rate", "tool": "read_rate", "args": {"day": "today"}}
DOUBLED = {"id": "doubled", "value": {"$": "rate * 2"}}
PAID = {"id": "paid", "tool": "pay", "args": {"n": {"$": "inputs.n * doubled"}}}
MAIL = {"id": "mail", "tool": "send", "args": {"text": {"$": "str(doubled)"}}}


def plan(*steps: dict[str, Any]) -> Plan:
    return Plan.model_validate({"inputs": INPUTS, "steps": list(steps)})


def rows(count: int) -> list[dict[str, int]]:
    return [{"n": n} for n in range(1, count + 1)]


class World:
    def __init__(self, *, down: bool = False) -> None:
        self.down = down
        self.calls: Counter[str] = Counter()

    def engine(self, journal: Any = None, **options: Any) -> Engine:
        @tool(effect=Effect.READS)
        async def read_rate(day: str) -> int:
            """Read the rate of a day."""
            self.calls["read_rate"] += 1
            await anyio.sleep(1)
            if self.down:
                raise ToolFailure("no rate today", code="no_rate", happened=Happened.NO)
            return 3

        @tool(effect=Effect.WRITES)
        async def pay(n: int) -> int:
            """Pay."""
            self.calls["pay"] += 1
            return n

        @tool(effect=Effect.ACTS)
        async def send(text: str) -> str:
            """Send a mail."""
            self.calls["send"] += 1
            return text

        return Engine(
            [read_rate, pay, send], policies=RULES, journal=journal, clock=now, dice=lambda: 0.5, **options
        )


def run_batch(world: World, of: Plan, *, backend: str = "asyncio", journal: Any = None) -> Batch:
    async def main() -> Batch:
        return await world.engine(journal).run_batch(of, rows(5), batch_id="b")

    return run_virtual(backend, main)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_read_that_is_the_same_for_every_row_is_made_once(backend: str) -> None:
    """Its result, and what is computed of it, is in every row without a call or an event there."""
    world, journal = World(), MemoryJournal()
    batch = run_batch(world, plan(RATE, DOUBLED, PAID), backend=backend, journal=journal)
    assert (batch.status, batch.counts["done"], dict(world.calls)) == ("done", 5, {"read_rate": 1, "pay": 5})
    engine = world.engine(journal)
    assert [engine.show(f"b.{n}")["paid"] for n in range(1, 6)] == [6, 12, 18, 24, 30]
    assert (engine.show("b.3")["rate"], engine.show("b.shared")["rate"]) == (3, 3)
    assert [event.path for event in journal.some("b.3", (CallStarted,))] == [("paid",)]  # type: ignore[union-attr]
    assert sorted(e.ordinal for e in journal.some("b", (RowSettled,))) == [0, 1, 2, 3, 4, 5]  # type: ignore[union-attr]


def test_a_step_says_that_it_runs_for_each_row_all_the_same() -> None:
    """`per: row`; what reads it depends on the row then."""
    world = World()
    assert run_batch(world, plan({**RATE, "per": "row"}, DOUBLED, PAID)).ok
    assert world.calls == {"read_rate": 5, "pay": 5}


@pytest.mark.parametrize(("per", "sent"), [("batch", 1), ("row", 5)])
def test_an_effect_that_is_the_same_for_every_row_says_how_often(per: str, sent: int) -> None:
    """Without a word it is an error of the batch, before anything runs."""
    world = World()
    assert run_batch(world, plan(RATE, DOUBLED, {**MAIL, "per": per}, PAID)).ok
    assert world.calls["send"] == sent
    unsaid = plan(RATE, DOUBLED, MAIL, PAID)
    assert world.engine().check(unsaid).ok
    [finding] = world.engine().check(unsaid, batch=True).errors
    assert (finding.code, finding.pointer) == ("per_unsaid", "/steps/2")
    assert str(finding) == (
        "/steps/2: error: 'mail' is the same for every row and acts: it must say whether it runs once or for each row "
        "(`per: batch` or `per: row`) [per_unsaid]"
    )
    with pytest.raises(CheckFailed):
        run_batch(world, unsaid)


def test_what_depends_on_the_row_cannot_run_once() -> None:
    """Also by way of another step; and what stands in a group goes with the group."""
    group = {"id": "both", "steps": [{**RATE, "per": "row"}]}
    of = plan(
        {**PAID, "per": "batch", "args": {"n": {"$": "inputs.n"}}},
        {**MAIL, "per": "batch", "after": ["paid"]},
        DOUBLED,
        group,
    )
    found = World().engine().check(of, batch=True).errors
    assert [(f.code, f.pointer) for f in found if f.code.startswith("per_")] == [
        ("per_row", "/steps/0/per"),
        ("per_row", "/steps/1/per"),
        ("per_inside", "/steps/3/steps/0/per"),
    ]


def test_a_review_shows_what_all_rows_share() -> None:
    """As data; in the review of a single run nothing is shared."""
    of = plan(RATE, DOUBLED, PAID)
    engine = World().engine()
    assert engine.review(of, batch=True).shared == ("rate", "doubled")
    assert engine.review(of, batch=True).to_json()["shared"] == ["rate", "doubled"]
    assert engine.review(of).shared == ()


def test_no_row_begins_where_the_shared_steps_fail() -> None:
    """The batch stops, and says why."""
    world = World(down=True)
    batch = run_batch(world, plan(RATE, DOUBLED, PAID))
    assert (batch.status, batch.reason, batch.counts["not_begun"]) == ("stopped", "shared", 5)
    assert batch.message == (
        "5 rows: 5 not begun; the steps that all rows share did not succeed, so none began"
    )
    assert world.calls == {"read_rate": 1}


@pytest.mark.parametrize("scope", ["none", "reads"])
def test_no_planner_is_asked_about_the_shared_steps(scope: Any) -> None:
    """Its patches are for rows. The batch stops as it does without one, and a retry tries the shared steps again."""
    world, journal, of = World(down=True), MemoryJournal(), plan(RATE, DOUBLED, PAID)
    patch = {"add": [{**RATE, "id": "other", "replaces": "rate"}]}

    async def main() -> Batch:
        engine = world.engine(journal, planner=StaticPlanner(of, [patch]))
        approval = engine.approve(of, batch=5, by="ada", scope=scope)
        batch = await engine.run_batch(of, rows(5), batch_id="b", approval=approval)
        assert (batch.status, batch.reason, world.calls["read_rate"]) == ("stopped", "shared", 1)
        world.down = False
        return await engine.retry_batch("b")

    assert run_virtual("asyncio", main).counts["done"] == 5
    assert world.calls == {"read_rate": 2, "pay": 5}


def test_shared_results_are_there_when_the_batch_goes_on() -> None:
    """A batch that was interrupted in its rows reads them from its journal."""
    first, second, journal = World(), World(), MemoryJournal()

    async def stopped() -> None:
        with anyio.move_on_after(1.5):
            await first.engine(journal, decide=None).run_batch(
                plan(RATE, DOUBLED, {**RATE, "id": "slow", "per": "row"}, PAID), rows(5), batch_id="b"
            )

    async def again() -> Batch:
        return await second.engine(journal).resume_batch("b")

    run_virtual("asyncio", stopped)
    assert run_virtual("asyncio", again).ok
    assert (first.calls["read_rate"], second.calls["read_rate"]) == (6, 5)


def test_a_batch_whose_shared_run_asks_people_says_so() -> None:
    """Until they have answered; then it goes on when it is resumed."""

    @tool(effect=Effect.ACTS, timeout=1)
    async def book(day: str) -> int:
        """Book; nobody hears how that ends."""
        await anyio.sleep(100)
        return 1

    booked = {"id": "booked", "tool": "book", "per": "batch", "args": {"day": "today"}}
    own = {"id": "own", "value": {"$": "inputs.n + booked"}}

    async def main() -> list[str]:
        engine = Engine([book], policies=RULES, journal=MemoryJournal(), clock=now)
        batch = await engine.run_batch(plan(booked, own), rows(2), batch_id="b")
        [asked] = engine.show("b.shared").waiting
        await engine.decide("b.shared", {asked.id: Answer("accept", "ada", 7)})
        told = [batch.reason, engine.show_batch("b").reason]
        return [*told, (await engine.resume_batch("b")).message]

    assert run_virtual("asyncio", main) == ["people", "interrupted", "2 rows: 2 done"]
