"""What follows when rows fail: they are tried again under the same keys, taken back by rule, and the batch has a budget."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.virtual import BACKENDS, now, run_virtual

from foreplan import (
    Batch,
    BatchRules,
    Budget,
    Effect,
    Engine,
    MemoryJournal,
    Plan,
    Policies,
    Retry,
    RowLimit,
    SqliteJournal,
    ToolContext,
    ToolFailure,
    tool,
)
from foreplan.executor.events import RowsReopened
from foreplan.executor.mind.batch import replay_batch
from foreplan.policies.errors import BadInput, NotApproved
from foreplan.policies.failures import Happened

INPUTS = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
RULES = Policies(approve="never", retry=Retry(attempts=1))
PLAN = Plan.model_validate(
    {
        "inputs": INPUTS,
        "steps": [
            {
                "id": "booked",
                "tool": "book",
                "args": {"n": {"$": "inputs.n"}},
                "undo": {"tool": "unbook", "args": {"n": {"$": "inputs.n"}}},
            },
            {"id": "paid", "tool": "pay", "args": {"n": {"$": "booked"}}},
            {
                "id": "told",
                "each": [1, 2, 3],
                "tool": "tell",
                "args": {"n": {"$": "paid"}, "who": {"$": "item"}},
            },
        ],
        "output": {"$": "paid"},
    }
)


class World:
    """Bookings and payments, of which those in `bad` fail; calls with their keys."""

    def __init__(self, *bad: int, mute: int = 0) -> None:
        self.bad = set(bad)
        self.mute = mute
        self.calls: list[tuple[str, int, str]] = []

    def engine(self, journal: Any = None, **options: Any) -> Engine:
        def made(what: str, n: int, context: ToolContext) -> None:
            self.calls.append((what, n, context.idempotency_key))

        @tool(effect=Effect.ACTS)
        async def book(n: int, context: ToolContext) -> int:
            """Book."""
            made("book", n, context)
            return n

        @tool(effect=Effect.ACTS)
        async def unbook(n: int, context: ToolContext) -> None:
            """Take a booking back."""
            made("unbook", n, context)

        @tool(effect=Effect.ACTS, cost=2.0)
        async def pay(n: int, context: ToolContext) -> int:
            """Pay."""
            made("pay", n, context)
            if n in self.bad:
                raise ToolFailure("no money", code="no_money", happened=Happened.NO)
            return n

        @tool(effect=Effect.WRITES)
        async def tell(n: int, who: int, context: ToolContext) -> int:
            """Tell."""
            made("tell", 10 * n + who, context)
            if who == self.mute:
                raise ToolFailure("nobody there", code="mute")
            return who

        options = {"policies": RULES, "clock": now, "dice": lambda: 0.5, **options}
        return Engine([book, unbook, pay, tell], journal=journal, **options)

    def counts(self, what: str) -> Counter[int]:
        return Counter(n for name, n, _ in self.calls if name == what)

    def keys(self, what: str, n: int) -> list[str]:
        return [key for name, number, key in self.calls if (name, number) == (what, n)]


def rows(count: int) -> list[dict[str, int]]:
    return [{"n": n} for n in range(1, count + 1)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_that_failed_are_tried_again_from_what_failed(backend: str) -> None:
    """The same runs and keys; what had succeeded is not called again, nor is a row that is done."""
    world, journal = World(2, 4), MemoryJournal()

    async def main() -> Batch:
        engine = world.engine(journal)
        batch = await engine.run_batch(PLAN, rows(5), batch_id="b")
        assert batch.message == "5 rows: 3 done, 2 failed"
        world.bad = {4}
        batch = await engine.retry_batch("b")
        assert batch.message == "5 rows: 4 done, 1 failed"
        world.bad = set()
        return await engine.retry_batch("b")

    batch = run_virtual(backend, main)
    assert (batch.status, [r.output for r in batch.rows()]) == ("done", [1, 2, 3, 4, 5])
    assert world.counts("book") == dict.fromkeys(range(1, 6), 1)
    assert world.counts("pay") == {1: 1, 2: 2, 3: 1, 4: 3, 5: 1}
    assert len(set(world.keys("pay", 4))) == 1
    assert len({key for _, _, key in world.calls}) == 5 * 5
    assert batch.used.tool_calls == len(world.calls)
    assert batch.used.cost == 2.0 * world.counts("pay").total()


def test_items_that_had_succeeded_stay_when_their_step_is_tried_again() -> None:
    """Of an `each`, those that failed or never began are called, under the keys that they had."""
    world, journal = World(mute=2), MemoryJournal()

    async def main() -> Batch:
        engine = world.engine(journal)
        assert not (await engine.run_batch(PLAN, rows(1), batch_id="b")).ok
        before = Counter(world.counts("tell"))
        assert before[12] == 1
        world.mute = 0
        batch = await engine.retry_batch("b")
        assert world.counts("tell") == {11: 1, 12: 2, 13: 1}
        return batch

    assert run_virtual("asyncio", main).ok
    assert len(set(world.keys("tell", 12))) == 1


def test_what_cannot_be_tried_again_is_said() -> None:
    """A batch that is done, or not closed."""

    async def main() -> None:
        engine = World().engine()
        await engine.run_batch(PLAN, rows(2), batch_id="b")
        with pytest.raises(BadInput, match="batch 'b' has no row that could be tried again: 2 rows: 2 done"):
            await engine.retry_batch("b")
        await engine.run_batch(PLAN, rows(2), batch_id="c", rules=BatchRules(canary=1))
        with pytest.raises(BadInput, match="batch 'c' is not closed: take it up with resume_batch"):
            await engine.retry_batch("c")

    run_virtual("asyncio", main)


def test_an_act_that_has_happened_is_never_tried_again() -> None:
    """Its failure stands, whatever is retried."""
    calls: list[int] = []

    @tool(effect=Effect.ACTS)
    async def send(n: int) -> int:
        """Send."""
        calls.append(n)
        raise ToolFailure("sent, and the answer was bad", code="bad_answer", happened=Happened.YES)

    plan = Plan.model_validate(
        {"inputs": INPUTS, "steps": [{"id": "sent", "tool": "send", "args": {"n": {"$": "inputs.n"}}}]}
    )

    async def main() -> Batch:
        engine = Engine([send], policies=RULES, clock=now, dice=lambda: 0.5)
        await engine.run_batch(plan, rows(2), batch_id="b")
        return await engine.retry_batch("b")

    batch = run_virtual("asyncio", main)
    assert (batch.counts["failed"], sorted(calls)) == (2, [1, 2])


def test_an_approval_covers_the_batch_with_its_retries() -> None:
    """It is used up by the batch, and by nothing else."""
    world = World(1)

    async def main() -> None:
        engine = world.engine(policies=Policies(retry=Retry(attempts=1)))
        approval = engine.approve(PLAN, batch=RowLimit(rows=2), by="ada")
        await engine.run_batch(PLAN, rows(2), approval=approval, batch_id="b")
        world.bad = set()
        assert (await engine.retry_batch("b")).ok
        with pytest.raises(NotApproved, match="this approval was used by run 'b'"):
            await engine.run_batch(PLAN, rows(2), approval=approval)

    run_virtual("asyncio", main)


@pytest.mark.parametrize("undo", [False, True])
def test_a_row_that_fails_takes_back_what_it_did_if_the_rules_say_so(undo: bool) -> None:
    """Journaled in the row; done again by a retry, under a key that the service does not know as done."""
    world, journal = World(2), MemoryJournal()

    async def main() -> Batch:
        engine = world.engine(journal)
        await engine.run_batch(PLAN, rows(3), batch_id="b", rules=BatchRules(undo=undo))
        assert world.counts("unbook") == ({2: 1} if undo else {})
        assert ("1 effect was undone" in engine.show("b.2").message) == undo
        world.bad = set()
        return await engine.retry_batch("b")

    assert run_virtual("asyncio", main).ok
    assert len(world.keys("book", 2)) == len(set(world.keys("book", 2))) == (2 if undo else 1)
    assert len(world.keys("pay", 2)) == 2


def test_rows_that_were_cancelled_go_on_in_a_retry() -> None:
    """And those that never began begin; nothing is done twice."""
    world = World()

    @tool(effect=Effect.WRITES)
    async def slow(n: int) -> int:
        """Slow."""
        await anyio.sleep(10)
        return n

    steps = [
        {"id": "booked", "tool": "book", "args": {"n": {"$": "inputs.n"}}},
        {"id": "waited", "tool": "slow", "args": {"n": {"$": "booked"}}},
    ]
    plan = Plan.model_validate({"inputs": INPUTS, "steps": steps})
    engine = world.engine().with_tools(slow)

    async def main() -> Batch:
        async with anyio.create_task_group() as tasks:

            async def cancel() -> None:
                await anyio.sleep(5)
                engine.cancel("b")

            tasks.start_soon(cancel)
            batch = await engine.run_batch(plan, rows(4), batch_id="b", rules=BatchRules(at_once=2))
        assert (batch.reason, batch.counts["stopped"], batch.counts["not_begun"]) == ("cancelled", 2, 2)
        return await engine.retry_batch("b")

    assert run_virtual("asyncio", main).message == "4 rows: 4 done"
    assert world.counts("book") == {1: 1, 2: 1, 3: 1, 4: 1}


@pytest.mark.parametrize(
    ("budget", "done"),
    [
        (Budget(tool_calls=17), 3),
        (Budget(cost=8), 4),
        (Budget(tool_calls=500), 6),
        (Budget(model_calls=0), 6),
    ],
)
def test_a_batch_has_a_budget_of_which_a_row_is_given_before_it_begins(budget: Budget, done: int) -> None:
    """What a row may use at most is kept for each that is under way, so the bound is never passed."""
    world = World()

    async def main() -> Batch:
        return await world.engine().run_batch(PLAN, rows(6), rules=BatchRules(budget=budget, at_once=4))

    batch = run_virtual("asyncio", main)
    assert batch.counts["done"] == done
    assert (batch.status, batch.reason) == (("done", "") if done == 6 else ("stopped", "budget"))
    assert batch.used.tool_calls == len(world.calls) == 5 * done


def test_a_budget_of_which_not_even_one_row_could_be_given_is_refused() -> None:
    """Before anything is written: the batch would end before its first row, whatever is left of its budget."""
    journal = MemoryJournal()
    rules = BatchRules(budget=Budget(tool_calls=4))

    async def main() -> Batch:
        return await World().engine(journal).run_batch(PLAN, rows(6), rules=rules)

    with pytest.raises(BadInput, match="budget of 4 tool_calls, and one row may use 5, retries included"):
        run_virtual("asyncio", main)
    assert journal.runs() == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_batch_that_its_budget_ended_goes_on_with_a_larger_one(backend: str) -> None:
    """The rows that never began run, within the new bound; the journal has who raised it to what, and replays to the same."""
    world, journal = World(), MemoryJournal()

    async def main() -> Batch:
        engine = world.engine(journal)
        rules = BatchRules(budget=Budget(tool_calls=12, cost=100), at_once=4)
        batch = await engine.run_batch(PLAN, rows(6), rules=rules, batch_id="b")
        assert (batch.counts["done"], batch.reason) == (2, "budget")
        batch = await engine.retry_batch("b", budget=Budget(tool_calls=21), by="ada")
        assert (batch.counts["done"], batch.reason) == (4, "budget")
        return await engine.retry_batch("b", budget=Budget(tool_calls=500))

    batch = run_virtual(backend, main)
    assert (batch.ok, batch.used.tool_calls, world.counts("pay")) == (True, 30, dict.fromkeys(range(1, 7), 1))
    raised = [event.raised for event in journal.events("b") if isinstance(event, RowsReopened)]
    assert raised == [
        {"by": "ada", "was": {"tool_calls": 12}, "budget": {"tool_calls": 21, "cost": 100.0}},
        {"by": "anyone", "was": {"tool_calls": 21}, "budget": {"tool_calls": 500, "cost": 100.0}},
    ]
    assert replay_batch(journal.events("b")).rules.budget == Budget(tool_calls=500, cost=100)
    assert world.engine(journal).show_batch("b") == batch


@pytest.mark.parametrize(
    ("budget", "why"),
    [
        (None, "none of its rows could begin; give it a larger budget"),
        (
            Budget(tool_calls=12),
            "a budget of 12 tool_calls, and 12 is not larger: .* with the 10 that they have used",
        ),
        (Budget(tool_calls=15, cost=50), "100 cost, and 50 is not larger"),
        (Budget(tool_calls=14), "could begin: 10 are used, and one row may use 5"),
        (Budget(tokens=14), "no bound on tokens that could be raised; it has tool_calls=12, cost=100"),
        (Budget(tools={"pay": 3}), "bounded for each row"),
        (Budget(), "says of what"),
    ],
)
def test_a_budget_that_is_not_larger_is_refused(budget: Budget | None, why: str) -> None:
    """In a sentence with what is used; nothing is written."""
    world, journal = World(), MemoryJournal()

    async def main() -> None:
        engine = world.engine(journal)
        rules = BatchRules(budget=Budget(tool_calls=12, cost=100))
        await engine.run_batch(PLAN, rows(6), rules=rules, batch_id="b")
        before = len(list(journal.events("b")))
        with pytest.raises(BadInput, match=why):
            await engine.retry_batch("b", budget=budget)
        assert len(list(journal.events("b"))) == before

    run_virtual("asyncio", main)


def test_a_batch_stops_when_its_time_is_over() -> None:
    """Rows under way end; no further one begins."""

    @tool(effect=Effect.WRITES)
    async def slow(n: int) -> int:
        """Slow."""
        await anyio.sleep(10)
        return n

    step = {"id": "waited", "tool": "slow", "args": {"n": {"$": "inputs.n"}}}
    plan = Plan.model_validate({"inputs": INPUTS, "steps": [step]})

    async def main() -> Batch:
        engine = Engine([slow], policies=RULES, clock=now, dice=lambda: 0.5)
        return await engine.run_batch(plan, rows(9), rules=BatchRules(budget=Budget(seconds=15), at_once=2))

    batch = run_virtual("asyncio", main)
    assert (batch.reason, batch.counts["done"], batch.counts["not_begun"]) == ("budget", 4, 5)


def test_a_batch_that_was_tried_again_verifies(tmp_path: Path) -> None:
    """Each end of a row is in the chain of the batch, and nothing follows one but that it was reopened."""
    world = World(1, 3)

    async def main() -> None:
        with SqliteJournal(tmp_path / "runs.sqlite3") as journal:
            engine = world.engine(journal)
            await engine.run_batch(PLAN, rows(4), batch_id="b")
            world.bad = {3}
            await engine.retry_batch("b")
            assert journal.verify().problems == ()
            world.bad = set()
            assert (await engine.retry_batch("b")).ok
            assert journal.verify().problems == ()
            assert journal.verify("b.3").problems == ()

    anyio.run(main)
