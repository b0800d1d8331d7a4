"""Batches: one plan over many rows, each on its own, each ended once, whatever happens to the process."""

from __future__ import annotations

import gc
import json
import random
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cut_batches import Recorded, cut
from support.journals import BEFORE_ROW_EVENTS, change
from support.virtual import BACKENDS, now, run_virtual

from foreplan import (
    Batch,
    BatchRules,
    Breaker,
    Budget,
    Effect,
    Engine,
    Limits,
    MappingSecrets,
    MemoryJournal,
    Plan,
    Policies,
    Rate,
    Rates,
    Retry,
    RowLimit,
    SqliteJournal,
    ToolFailure,
    tool,
)
from foreplan.executor.batches.rows import RowsRefused
from foreplan.executor.events import (
    CallSettled,
    CallStarted,
    Event,
    RowOpened,
    RowSettled,
    ToolFreed,
    ToolHeld,
)
from foreplan.executor.journal.records import first_tip
from foreplan.executor.mind.batch import BatchState, advance_batch, replay_batch
from foreplan.executor.mind.state import Node, State
from foreplan.executor.resuming import Progress
from foreplan.executor.runtime import Runtime
from foreplan.policies.errors import BadInput, JournalError, NotApproved
from foreplan.policies.failures import Happened

RULES = Policies(approve="never", retry=Retry(attempts=1))
INPUTS = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
PLAN = Plan.model_validate(
    {
        "goal": "Pay each",
        "inputs": INPUTS,
        "steps": [
            {"id": "found", "tool": "look", "args": {"n": {"$": "inputs.n"}}},
            {"id": "paid", "tool": "pay", "args": {"n": {"$": "found"}}},
        ],
        "output": {"receipt": {"$": "paid"}},
    }
)


class World:
    """What the tools of a test did: calls by name and number, and how many were under way at once."""

    def __init__(self, *bad: int, seconds: float = 1.0) -> None:
        self.bad = set(bad)
        self.seconds = seconds
        self.calls: Counter[tuple[str, int]] = Counter()
        self.keys: dict[int, set[str]] = {}
        self.now = self.most = 0

    async def _call(self, name: str, n: int) -> None:
        self.calls[name, n] += 1
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await anyio.sleep(self.seconds)
        finally:
            self.now -= 1

    @property
    def tools(self) -> list[Any]:
        @tool(effect=Effect.READS)
        async def look(n: int) -> int:
            """Look a number up."""
            await self._call("look", n)
            return n

        @tool(effect=Effect.ACTS)
        async def pay(n: int) -> str:
            """Pay."""
            await self._call("pay", n)
            if n in self.bad:
                raise ToolFailure(f"no money for {n}", code="no_money", happened=Happened.NO)
            return f"paid {n}"

        return [look, pay]

    def engine(self, journal: Any = None, **options: Any) -> Engine:
        return Engine(self.tools, policies=RULES, journal=journal, clock=now, dice=lambda: 0.5, **options)


def rows(count: int) -> list[dict[str, int]]:
    return [{"n": n} for n in range(1, count + 1)]


def run_batch(
    world: World, count: int, *, backend: str = "asyncio", journal: Any = None, **options: Any
) -> Batch:
    async def main() -> Batch:
        return await world.engine(journal).run_batch(PLAN, rows(count), batch_id="b", **options)

    return run_virtual(backend, main)


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_row_has_a_result_and_a_reason(backend: str) -> None:
    """In the order of the rows; one that fails takes no other with it."""
    batch = run_batch(World(2), 4, backend=backend)
    assert batch.status == "failed"
    assert batch.message == "4 rows: 3 done, 1 failed"
    assert [(r.row, r.status, r.output, r.kind, r.code) for r in batch.rows()] == [
        ("b.1", "done", {"receipt": "paid 1"}, "", ""),
        ("b.2", "failed", {"receipt": None}, "business", "no_money"),
        ("b.3", "done", {"receipt": "paid 3"}, "", ""),
        ("b.4", "done", {"receipt": "paid 4"}, "", ""),
    ]
    assert [r.sentence for r in batch.rows(status="failed")] == [
        "1 of 2 steps failed: 'paid': no money for 2"
    ]
    assert batch.failures == ({"status": "failed", "kind": "business", "code": "no_money", "rows": 1},)
    with pytest.raises(BadInput, match="ends as no 'waiting'; say done, failed, stopped, refused"):
        batch.rows(status="waiting")


@pytest.mark.parametrize("backend", BACKENDS)
def test_so_many_rows_go_on_at_a_time(backend: str) -> None:
    """The window is full as long as there are rows, and never fuller."""
    world = World()
    batch = run_batch(world, 50, backend=backend, rules=BatchRules(at_once=8))
    assert (batch.status, batch.counts["done"]) == ("done", 50)
    assert world.most == 8


def test_rows_that_do_not_fit_are_set_aside_with_a_reason() -> None:
    """They have no run and still their one record; `strict` refuses all of them together, and nothing ran."""
    world, given = World(), [{"n": 1}, {"n": "two"}, {}, {"n": 4}]

    async def main() -> Batch:
        return await world.engine().run_batch(PLAN, given, batch_id="b")

    batch = run_virtual("asyncio", main)
    assert batch.message == "4 rows: 2 done, 2 set aside"
    assert [(r.ordinal, r.status, r.code) for r in batch.rows()] == [
        (1, "done", ""),
        (2, "refused", "wrong_value"),
        (3, "refused", "missing"),
        (4, "done", ""),
    ]

    async def strictly() -> Batch:
        return await World().engine().run_batch(PLAN, given, strict=True)

    with pytest.raises(RowsRefused, match="2 rows of the rows cannot run, and nothing ran"):
        run_virtual("asyncio", strictly)


@pytest.mark.parametrize(
    ("rules", "failed"),
    [
        (BatchRules(at_once=1, stop_after=3), 3),
        (BatchRules(at_once=1, stop_rate=0.5, stop_seen=10), 5),
        (BatchRules(at_once=1), 10),
    ],
)
def test_a_batch_stops_after_so_many_failures_or_goes_on(rules: BatchRules, failed: int) -> None:
    """At a number, or at a rate once enough rows were seen; rows that did not begin are counted."""
    world = World(*range(1, 20, 2))
    batch = run_batch(world, 20, rules=rules)
    assert batch.counts["failed"] == failed
    assert (batch.status, batch.reason) == (("failed", "") if failed == 10 else ("stopped", "failures"))
    assert sum(batch.counts.values()) == 20


def test_a_batch_is_one_line_and_its_rows_are_runs() -> None:
    """The list of runs has one line; each row can be looked at by its id."""
    world = World()
    engine = world.engine()

    async def main() -> Batch:
        return await engine.run_batch(PLAN, rows(3), batch_id="b")

    run_virtual("asyncio", main)
    assert [(line.run, line.state, line.goal) for line in engine.runs()] == [("b", "done", "Pay each")]
    row = engine.show("b.2")
    assert (row.id, row.state, row.inputs, row.output) == ("b.2", "done", {"n": 2}, {"receipt": "paid 2"})
    with pytest.raises(BadInput, match=r"'b' is a batch, and no run: "):
        engine.show("b")
    assert engine.show_batch("b").counts["done"] == 3


def test_a_row_goes_on_with_its_batch_alone() -> None:
    """Nobody takes up a row by itself, or a batch as a run."""
    world = World()
    engine = world.engine()

    async def main() -> None:
        await engine.run_batch(PLAN, rows(2), batch_id="b")
        with pytest.raises(JournalError, match=r"run 'b\.1' is a row of batch 'b' and goes on with it"):
            await engine.resume("b.1")
        with pytest.raises(BadInput, match="'b' is a batch: take it up with resume_batch"):
            await engine.resume("b")
        with pytest.raises(BadInput, match="batch 'b' is closed"):
            await engine.resume_batch("b")

    run_virtual("asyncio", main)


# ---------------------------------------------------------------------------------------------- approvals


def test_an_approval_of_a_batch_covers_so_many_rows_of_this_source() -> None:
    """More rows, another source, or one run: refused, and what differs is named. It is for one batch."""
    world = World()
    engine = Engine(world.tools, clock=now, dice=lambda: 0.5)

    async def main() -> None:
        digest = (await engine.examine(PLAN, rows(3))).digest
        approval = engine.approve(PLAN, batch=RowLimit(rows=3, source=digest), by="ada")
        with pytest.raises(
            NotApproved, match="the batch has 4 rows, 3 were approved; the source of the rows"
        ):
            await engine.run_batch(PLAN, rows(4), approval=approval)
        with pytest.raises(NotApproved, match="the approval is for a batch of up to 3 rows, this is one run"):
            await engine.run(PLAN, inputs={"n": 1}, approval=approval)
        with pytest.raises(NotApproved, match="this plan needs an approval"):
            await engine.run_batch(PLAN, rows(3))
        one = engine.approve(PLAN, inputs={"n": 1}, by="ada")
        with pytest.raises(NotApproved, match="the approval is for one run, this is a batch"):
            await engine.run_batch(PLAN, rows(3), approval=one)
        assert (await engine.run_batch(PLAN, rows(3), approval=approval, batch_id="b")).ok
        with pytest.raises(NotApproved, match="this approval was used by run 'b'"):
            await engine.run_batch(PLAN, rows(3), approval=approval)

    run_virtual("asyncio", main)


@pytest.mark.parametrize("batch", [0, True, "many", 2.5])
def test_what_is_no_number_of_rows_is_no_approval(batch: Any) -> None:
    """A clear sentence."""
    with pytest.raises(BadInput, match="batch is the most rows that are approved"):
        World().engine().approve(PLAN, batch=batch, by="ada")


# ---------------------------------------------------------------------------------------------- people


def test_the_others_wait_for_a_yes_after_the_canary() -> None:
    """So many rows run, then a person is asked; in another process, after the answer, the rest goes on."""
    world, journal = World(), MemoryJournal()
    batch = run_batch(world, 10, journal=journal, rules=BatchRules(canary=3))
    assert (batch.status, batch.reason, batch.counts["done"]) == ("waiting", "people", 3)
    [asked] = batch.waiting_for
    assert (asked.id, asked.about, asked.options) == ("canary", "canary", ("approve", "reject"))
    assert asked.question["reason"] == (
        "the first 3 rows ran (10 rows: 3 done, 7 not begun); 7 more rows would follow"
    )
    other = World()
    assert [q.run for q in other.engine(journal).waiting()] == ["b"]

    async def main() -> Batch:
        engine = other.engine(journal)
        await engine.decide_batch("b", {"canary": "approve"})
        with pytest.raises(BadInput, match="no question 'canary' is open"):
            await engine.decide_batch("b", {"canary": "approve"})
        return await engine.resume_batch("b")

    assert run_virtual("asyncio", main).counts["done"] == 10
    assert (len(world.calls), len(other.calls)) == (6, 14)


@pytest.mark.parametrize("answer", ["reject", "approve"])
def test_a_person_here_answers_after_the_canary(answer: str) -> None:
    """`decide` is asked while the batch is live."""

    async def decide(asked: Any) -> str:
        await anyio.sleep(60)
        return answer

    async def main() -> Batch:
        engine = World().engine(decide=decide)
        return await engine.run_batch(PLAN, rows(5), rules=BatchRules(canary=2))

    batch = run_virtual("asyncio", main)
    expected = {"reject": ("stopped", "canary", 2), "approve": ("done", "", 5)}
    assert (batch.status, batch.reason, batch.counts["done"]) == expected[answer]


def test_a_row_that_asks_waits_and_the_others_go_on() -> None:
    """Its question is answered at the row; the batch goes on with that row alone."""
    said: list[int] = []

    @tool(effect=Effect.ACTS, requires_approval="each")
    async def send(n: int) -> int:
        """Send it."""
        said.append(n)
        return n

    plan = Plan.model_validate(
        {"inputs": INPUTS, "steps": [{"id": "sent", "tool": "send", "args": {"n": {"$": "inputs.n"}}}]}
    )
    journal = MemoryJournal()
    engine = Engine([send], policies=RULES, journal=journal, clock=now, dice=lambda: 0.5)

    async def main() -> Batch:
        batch = await engine.run_batch(plan, rows(3), batch_id="b")
        assert (batch.status, batch.reason, batch.counts["waiting"]) == ("waiting", "people", 3)
        [asked] = engine.show("b.2").waiting
        await engine.decide("b.2", {asked.id: "approve"})
        batch = await engine.resume_batch("b")
        assert (batch.status, said, batch.counts["waiting"]) == ("waiting", [2], 2)
        for ordinal, choice in ((1, "reject"), (3, "approve")):
            [asked] = engine.show(f"b.{ordinal}").waiting
            await engine.decide(f"b.{ordinal}", {asked.id: choice})
        return await engine.resume_batch("b")

    batch = run_virtual("asyncio", main)
    assert (batch.message, said) == ("3 rows: 2 done, 1 failed", [2, 3])


# ---------------------------------------------------------------------------------------------- a service down


def putting(put: Any) -> Plan:
    """A plan of one step, which calls this tool with the number of the row."""
    step = {"id": "put_it", "tool": put.name, "args": {"n": {"$": "inputs.n"}}}
    return Plan.model_validate({"inputs": INPUTS, "steps": [step]})


def test_a_budget_that_nobody_can_keep_uses_up_no_approval() -> None:
    """It is refused before anything is written; the same approval is good for a batch with another."""
    world, journal = World(), MemoryJournal()
    each = {"id": "paid", "each": {"$": "range(inputs.n)"}, "tool": "pay", "args": {"n": {"$": "item"}}}
    plan = Plan.model_validate({"inputs": INPUTS, "steps": [each]})

    async def main() -> Batch:
        engine = Engine(world.tools, journal=journal, clock=now, dice=lambda: 0.5)
        approval = engine.approve(plan, batch=1, by="ada")
        for budget, said in (
            (Budget(tool_calls=10), "nobody knows how much of it a row may use"),
            (Budget(tools={"pay": 1}), "calls by tool are bounded for each row, and not for a batch"),
        ):
            with pytest.raises(BadInput, match=said):
                await engine.run_batch(plan, rows(1), approval=approval, rules=BatchRules(budget=budget))
        assert journal.runs() == []
        return await engine.run_batch(plan, rows(1), approval=approval)

    assert run_virtual("asyncio", main).total == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_service_that_is_down_for_two_minutes_fails_no_row(backend: str) -> None:
    """Its breaker opens, rows wait for it and no further one begins; now and then one call tries whether it is back."""
    tries, held, broken = list[float](), list[Event](), list[Any]()

    @tool(effect=Effect.WRITES)
    async def put(n: int) -> int:
        """Put it there."""
        await anyio.sleep(1)
        if 10 <= now() < 130:
            tries.append(now())
            raise ConnectionRefusedError
        return n

    def watch(event: Event) -> None:
        if isinstance(event, ToolHeld | ToolFreed):
            held.append(event)
            broken.append(engine.broken_tools())

    engine = Engine([put], policies=Policies(approve="never"), clock=now, dice=lambda: 0.5, watch=watch)

    async def main() -> Batch:
        rules = BatchRules(at_once=16, breaker=Breaker(failures=5, seconds=20, hold=True))
        return await engine.run_batch(putting(put), rows(400), rules=rules)

    batch = run_virtual(backend, main)
    assert (batch.status, batch.counts["done"]) == ("done", 400)
    assert len([at for at in tries if at < 12]) == 16
    assert len([at for at in tries if at >= 12]) == 5
    assert [type(event) for event in held] == [ToolHeld, ToolFreed]
    assert [event.at for event in held] == [pytest.approx(10, abs=1.5), pytest.approx(137, abs=2)]
    assert held[0][3:] == ("put", "network", 5, 20)
    assert broken == [[("put", "network", 5, pytest.approx(20))], []]


@pytest.mark.parametrize("backend", BACKENDS)
def test_who_takes_batches_up_hears_that_one_holds(backend: str) -> None:
    """As whoever began it does: which tool is broken, and that it is back."""

    @tool(effect=Effect.WRITES)
    async def put(n: int) -> int:
        """Put it there."""
        await anyio.sleep(1)
        if 10 <= now() < 60:
            raise ConnectionRefusedError
        return n

    heard = list[Progress]()

    async def main() -> None:
        engine = Engine([put], policies=Policies(approve="never"), clock=now, dice=lambda: 0.5)
        rules = BatchRules(at_once=16, canary=1, breaker=Breaker(failures=5, seconds=20, hold=True))
        await engine.run_batch(putting(put), rows(300), rules=rules, batch_id="b")
        await engine.decide_batch("b", {"canary": "approve"})
        await engine.resume_all(once=True, tell=heard.append)

    run_virtual(backend, main)
    assert [said.what for said in heard] == ["taken_up", "holding", "freed", "ended"]
    held = heard[1].tool
    assert isinstance(held, ToolHeld)
    assert (heard[1].run, held[3:]) == ("b", ("put", "network", 5, 20))


def test_rows_that_wait_too_long_for_a_service_fail() -> None:
    """Patience has an end: then calls are refused, and rows fail with the reason."""

    @tool(effect=Effect.WRITES)
    async def put(n: int) -> int:
        """Put it there."""
        raise ConnectionRefusedError

    async def main() -> Batch:
        engine = Engine([put], policies=Policies(approve="never"), clock=now, dice=lambda: 0.5)
        return await engine.run_batch(putting(put), rows(40), rules=BatchRules(at_once=16, patience=600))

    batch = run_virtual("asyncio", main)
    assert (batch.status, batch.counts["failed"]) == ("failed", 40)
    assert {r.code for r in batch.rows()} <= {"breaker_open", "connection_refused"}


def test_rows_wait_for_their_turn_at_a_slow_service_as_long_as_it_takes() -> None:
    """A rate at which a call of a run would lose its patience fails no row."""

    @tool(effect=Effect.WRITES)
    async def put(n: int) -> int:
        """Put it there."""
        return n

    rates = Rates(tool={"put": Rate(calls=10, seconds=60)})
    policies = Policies(approve="never", limits=Limits(rates=rates))

    async def main() -> Batch:
        engine = Engine([put], policies=policies, clock=now, dice=lambda: 0.5)
        return await engine.run_batch(putting(put), rows(100))

    assert run_virtual("asyncio", main).counts["done"] == 100


# ---------------------------------------------------------------------------------------------- ends of the process


WHOLE = Recorded()
run_batch(World(3), 5, journal=WHOLE, rules=BatchRules(at_once=3))


def settled(journal: Any) -> Counter[int]:
    return Counter(event.ordinal for event in journal.some("b", (RowSettled,)))


@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=25, deadline=None)
@given(count=st.integers(1, len(WHOLE.order) - 1))
def test_a_batch_that_was_killed_anywhere_goes_on_where_it_stood(backend: str, count: int) -> None:
    """Each row ends once, nothing that had ended is called again, and what each prefix says agrees."""
    journal, world = cut(WHOLE, count), World(3)
    before = {(run, e.path) for run, e in WHOLE.order[:count] if isinstance(e, CallStarted)}
    ended = {(run, e.path) for run, e in WHOLE.order[:count] if isinstance(e, CallSettled)}
    unsure = {(run, path) for run, path in before - ended if path == ("paid",)}

    async def main() -> Batch:
        return await world.engine(journal).resume_batch("b", rows=rows(5))

    batch = run_virtual(backend, main)
    waiting = {int(run.partition(".")[2]) for run, _ in unsure}
    assert batch.counts["waiting"] == len(waiting)
    assert settled(journal) == Counter(set(range(1, 6)) - waiting)
    for run, path in ended:
        assert not world.calls["look" if path == ("found",) else "pay", int(run.partition(".")[2])]
    assert {r.ordinal: r.status for r in batch.rows()} == {
        n: "failed" if n == 3 else "done" for n in range(1, 6) if n not in waiting
    }


def plain(state: BatchState) -> dict[str, Any]:
    return {name: value for name, value in vars(state).items() if name != "live"}


def test_what_each_prefix_of_a_batch_says_is_what_it_said_then() -> None:
    """The state after each event, live and replayed."""
    events = list(WHOLE.events("b"))
    live = BatchState()
    for count, event in enumerate(events, 1):
        advance_batch(live, event)
        assert plain(replay_batch(events[:count])) == plain(live)


def test_a_changed_source_is_refused_when_a_batch_goes_on() -> None:
    """The rows that differ are named, the first few of them; those that are gone or new are too."""
    journal = MemoryJournal()
    run_batch(World(), 9, journal=journal, rules=BatchRules(canary=2))
    changes: list[tuple[list[dict[str, int]], str]] = [
        ([{"n": n * (2 if n in (3, 7) else 1)} for n in range(1, 10)], "rows 3, 7 differ"),
        (rows(8), "1 row after row 8 is gone"),
        (rows(10), "1 row was added after row 9"),
    ]
    for others, said in changes:

        async def main(others: list[dict[str, int]] = others) -> Batch:
            return await World().engine(journal).resume_batch("b", rows=others)

        with pytest.raises(BadInput, match=f"the rows are not those that batch 'b' was opened with: {said}"):
            run_virtual("asyncio", main)


def test_a_batch_that_is_cancelled_from_outside_pauses_and_goes_on() -> None:
    """Rows under way are put aside, none is lost, and none is done twice."""
    journal, first, second = MemoryJournal(), World(), World()

    async def stopped() -> None:
        with anyio.move_on_after(2.5):
            await first.engine(journal).run_batch(PLAN, rows(20), batch_id="b", rules=BatchRules(at_once=4))

    async def again() -> Batch:
        return await second.engine(journal).resume_batch("b")

    run_virtual("asyncio", stopped)
    batch = run_virtual("asyncio", again)
    assert batch.status == "done"
    assert max((first.calls + second.calls)["pay", n] for n in range(1, 21)) == 1
    assert set(settled(journal).values()) == {1}


def test_a_batch_that_is_cancelled_for_good_is_closed() -> None:
    """Rows under way end as cancelled; the others never begin."""
    world = World()
    engine = world.engine()

    async def main() -> Batch:
        async with anyio.create_task_group() as tasks:

            async def cancel() -> None:
                await anyio.sleep(0.5)
                engine.cancel("b")

            tasks.start_soon(cancel)
            batch = await engine.run_batch(PLAN, rows(9), batch_id="b", rules=BatchRules(at_once=2))
        return batch

    batch = run_virtual("asyncio", main)
    assert (batch.status, batch.reason) == ("stopped", "cancelled")
    assert (batch.counts["stopped"], batch.counts["not_begun"]) == (2, 7)


def test_two_owners_of_one_batch_are_one_too_many(tmp_path: Path) -> None:
    """Whoever comes second is refused, rows and all."""
    path = tmp_path / "runs.sqlite3"

    async def main() -> None:
        with SqliteJournal(path) as journal, SqliteJournal(path) as another:
            batch = (
                await World(seconds=0)
                .engine(journal)
                .run_batch(PLAN, rows(4), batch_id="b", rules=BatchRules(canary=1))
            )
            assert batch.status == "waiting"
            log = journal.reopen("b")
            for going in (
                lambda: World().engine(another).resume_batch("b"),
                lambda: World().engine(another).decide_batch("b", {"canary": "approve"}),
                lambda: World().engine(another).decide("b.1", {"x": "approve"}),
            ):
                with pytest.raises(JournalError, match="is being driven already"):
                    await going()
            log.close()
            done = await World(seconds=0).engine(another).resume_batch("b", decisions={"canary": "approve"})
            assert done.ok

    anyio.run(main)


def test_rows_that_were_approved_are_not_changed_while_they_are_taken_in(tmp_path: Path) -> None:
    """Threat: a source changes before it is in the journal, and a resume would run other rows, or more, under its approval."""
    source = tmp_path / "rows.csv"
    source.write_text("n\n1\n2\n")
    world = World(seconds=0)
    engine = Engine(world.tools, policies=Policies())

    async def main() -> None:
        examined = await engine.examine(PLAN, str(source))
        approval = engine.approve(PLAN, batch=RowLimit(rows=2, source=examined.digest), by="ada")
        for changed in ("n\n7\n8\n", "n\n7\n8\n9\n"):
            source.write_text(changed)
            if changed.count("\n") == 3:
                with pytest.raises(BadInput, match="changed while it was read"):
                    await engine.run_batch(PLAN, examined, approval=approval, batch_id="b")
            with pytest.raises(BadInput, match="not those that batch 'b' was opened with"):
                await engine.resume_batch("b", rows=str(source))
        assert not world.calls
        source.write_text("n\n1\n2\n")
        done = await engine.resume_batch("b", rows=str(source))
        assert (done.status, sorted(n for name, n in world.calls if name == "pay")) == ("done", [1, 2])

    anyio.run(main)


def test_a_row_that_holds_a_secret_is_not_written_down(tmp_path: Path) -> None:
    """As the inputs of a run: refused before anything is, whether the row could run or not."""

    @tool(effect=Effect.ACTS, secret_refs={"key": "bank"})
    async def pay(to: str, key: str = "") -> str:
        """Pay."""
        return "paid"

    plan = Plan.model_validate(
        {
            "inputs": {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]},
            "steps": [{"id": "paid", "tool": "pay", "args": {"to": {"$": "inputs.to"}}}],
        }
    )
    path = tmp_path / "runs.sqlite3"
    with SqliteJournal(path) as journal:
        vault = MappingSecrets({"bank": "correct-horse"})
        engine = Engine([pay], journal=journal, policies=RULES, secrets=vault)
        for bad in ({"to": "my correct-horse"}, {"for": "correct-horse"}):
            with pytest.raises(BadInput, match=r"row 2 of .* holds the secret 'bank'"):
                engine.run_batch_blocking(plan, [{"to": "ada"}, bad])
        assert journal.runs() == []
        assert engine.run_batch_blocking(plan, [{"to": "ada"}]).ok
    assert b"correct-horse" not in path.read_bytes()


@pytest.mark.parametrize("name", ["runs.csv", "runs.csv.part"])
@pytest.mark.parametrize("which", ["results", "failures"])
def test_the_journal_is_no_file_to_write_results_to(tmp_path: Path, name: str, which: str) -> None:
    """Whatever its name; `overwrite` is for results of other batches."""
    with SqliteJournal(tmp_path / name) as journal:
        engine = World(seconds=0).engine(journal)
        with pytest.raises(BadInput, match="is where the journal is kept"):
            engine.run_batch_blocking(
                PLAN, rows(1), **{which: str(tmp_path / "runs.csv")}, overwrite=True, batch_id="b"
            )
        assert journal.runs() == []
        assert engine.run_batch_blocking(PLAN, rows(1), batch_id="b").ok


def test_ids_of_rows_are_for_rows(tmp_path: Path) -> None:
    """No run takes the place of a row that a batch may still take in, and no batch has an id whose rows are runs."""
    with SqliteJournal(tmp_path / "runs.sqlite3") as journal:
        engine = World(seconds=0).engine(journal)
        assert engine.run_batch_blocking(PLAN, rows(2), batch_id="b").ok
        for taken in ("b.7", "b.shared"):
            with pytest.raises(BadInput, match="would be a row of batch 'b'"):
                engine.run_blocking(PLAN, inputs={"n": 1}, run_id=taken)
            with pytest.raises(BadInput, match="would be a row of batch 'b'"):
                engine.run_batch_blocking(PLAN, rows(2), batch_id=taken)
        assert engine.run_blocking(PLAN, inputs={"n": 1}, run_id="c.1").ok
        with pytest.raises(BadInput, match=r"could have no row 'c\.1'"):
            engine.run_batch_blocking(PLAN, rows(2), batch_id="c")
        with pytest.raises(BadInput, match=r"'b\.2' is a row of batch 'b', and no batch"):
            engine.show_batch("b.2")


# ---------------------------------------------------------------------------------------------- the record


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal with a batch of four rows, of which one failed, and a run after it."""
    path = tmp_path / "runs.sqlite3"

    async def main() -> None:
        with SqliteJournal(path) as journal:
            engine = World(2, seconds=0).engine(journal)
            await engine.run_batch(PLAN, rows(4), batch_id="b")
            await engine.run(PLAN, inputs={"n": 9}, run_id="after")

    anyio.run(main)
    return path


def test_a_batch_and_its_rows_verify_together(path: Path) -> None:
    """Of all, of the batch, of one row."""
    with SqliteJournal(path) as journal:
        assert journal.verify().problems == ()
        assert (journal.verify("b").runs, journal.verify("b").problems) == (5, ())
        assert (journal.verify("b.3").runs, journal.verify("b.3").problems) == (1, ())
        assert [line.run for line in journal.runs()] == ["after", "b"]


TAMPERED = {
    "an approval that nobody used": ("UPDATE runs SET approval = 'sha256:0' WHERE run = 'b'",),
    "an event": ("UPDATE row_events SET body = replace(body, 'paid 3', 'paid 8') WHERE run = 'b.3'",),
    "a row": ("DELETE FROM row_events WHERE run = 'b.3'", "DELETE FROM runs WHERE run = 'b.3'"),
    "the end": (
        "DELETE FROM row_events WHERE run = 'b.3' AND seq = (SELECT events FROM runs WHERE run = 'b.3')",
        "UPDATE runs SET events = events - 1, state = 'running', "
        "tip = (SELECT hash FROM row_events e WHERE e.run = 'b.3' ORDER BY seq DESC LIMIT 1) WHERE run = 'b.3'",
    ),
    "what the batch says": (
        "UPDATE events SET body = replace(body, '\"ordinal\":3', '\"ordinal\":4') WHERE run = 'b'",
    ),
    "another row in its place": (
        "DELETE FROM row_events WHERE run = 'b.3'",
        "UPDATE row_events SET run = 'b.3' WHERE run = 'b.4'",
    ),
    "an event in the other table": (
        "INSERT INTO events SELECT run, seq, body, hash FROM row_events WHERE run = 'b.3' AND seq = 1",
    ),
    "events in the other table": (
        "INSERT INTO events SELECT run, seq, body, hash FROM row_events WHERE run = 'b.3'",
        "DELETE FROM row_events WHERE run = 'b.3'",
    ),
    "the batch's in that of rows": (
        "INSERT INTO row_events SELECT run, seq, body, hash FROM events WHERE run = 'b'",
        "DELETE FROM events WHERE run = 'b'",
    ),
    "of which batch": ("UPDATE runs SET batch = '' WHERE run = 'b.3'",),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_what_somebody_did_to_a_row_shows(what: str, path: Path) -> None:
    """Changed, deleted, cut, replaced, taken out of its batch."""
    change(path, *TAMPERED[what])
    with SqliteJournal(path, reading=True) as journal:
        assert journal.verify().problems
        assert journal.verify("b").problems


def test_a_row_that_was_chained_anew_does_not_end_as_its_batch_says(path: Path) -> None:
    """Whoever computes the chain of a row again must change that of the batch too."""
    with SqliteJournal(path) as journal:
        texts = [journal.text("b.3", seq) for seq in range(1, 9)]
    tip = first_tip("b.3")
    for seq, text in enumerate(texts, 1):
        text = text.replace("paid 3", "paid 8")
        tip = sha256(tip + text.encode()).digest()
        change(
            path,
            f"UPDATE row_events SET body = '{text}', hash = x'{tip.hex()}' WHERE run = 'b.3' AND seq = {seq}",
        )
    change(path, f"UPDATE runs SET tip = x'{tip.hex()}' WHERE run = 'b.3'")
    with SqliteJournal(path, reading=True) as journal:
        assert journal.verify().problems == ("row 'b.3' ended with another event 8 than its batch says",)
        assert journal.verify("b.3").problems == journal.verify().problems


def exported_events(journal: SqliteJournal) -> list[str]:
    return sorted(line for line in journal.exported() if line.startswith('{"events"'))


def test_a_batch_of_an_earlier_version_keeps_its_rows(path: Path) -> None:
    """Opened for reading the file stays as it is; opened for writing, the events of rows go where those of new rows are."""
    with SqliteJournal(path) as journal:
        before = [list(journal.events(run)) for run in ("b", "b.1", "b.4", "after")]
        lines, ends = exported_events(journal), list(journal.endings("b"))
    change(path, *BEFORE_ROW_EVENTS)
    for reading in (True, False, True):
        with SqliteJournal(path, reading=reading) as journal:
            assert journal.verify().problems == ()
            assert [list(journal.events(run)) for run in ("b", "b.1", "b.4", "after")] == before
            assert (exported_events(journal), list(journal.endings("b"))) == (lines, ends)
            assert [opening.opened.ordinal for opening in journal.openings("b")] == [1, 2, 3, 4]
            assert journal.opening("b.3") is not None
            assert [event.seq for event in journal.some("b.3", {RowOpened})] == [1]
    with closing(sqlite3.connect(path)) as connection:
        held = [
            [run for (run,) in connection.execute(f"SELECT DISTINCT run FROM {table} ORDER BY run")]
            for table in ("events", "row_events")
        ]
    assert held == [["after", "b"], ["b.1", "b.2", "b.3", "b.4"]]


def test_a_batch_that_an_earlier_version_did_not_end_goes_on(tmp_path: Path) -> None:
    """With the same rows, of which the first two have ended."""
    path, world = tmp_path / "runs.sqlite3", World(seconds=0)
    with SqliteJournal(path) as journal:
        run_batch(world, 4, journal=journal, rules=BatchRules(canary=2))
    change(path, *BEFORE_ROW_EVENTS)
    with SqliteJournal(path) as journal:

        async def main() -> Batch:
            engine = world.engine(journal)
            await engine.decide_batch("b", {"canary": "approve"})
            return await engine.resume_batch("b")

        assert run_virtual("asyncio", main).counts["done"] == 4
        assert journal.verify().problems == ()
    assert set(world.calls.values()) == {1}


def test_an_earlier_version_writes_no_rows_after_the_upgrade(path: Path) -> None:
    """Of a batch that it drives still it is not the owner any more; one that it begins then is refused."""
    change(path, *BEFORE_ROW_EVENTS)
    SqliteJournal(path).close()
    with closing(sqlite3.connect(path)) as connection:
        epochs = connection.execute("SELECT run, epoch FROM runs WHERE batch = '' ORDER BY run").fetchall()
        assert epochs == [("after", 1), ("b", 2)]
        connection.execute("INSERT INTO events VALUES ('b.5', 1, '{}', x'00')")
        with pytest.raises(sqlite3.IntegrityError, match="an earlier foreplan writes to this journal"):
            connection.execute(
                "INSERT INTO runs (run, state, reason, goal, opened_at, events, epoch, tip, batch, ordinal) "
                "VALUES ('b.5', 'running', '', '', 0.0, 1, 1, x'00', 'b', 5)"
            )


def test_a_batch_comes_through_an_export_with_its_rows(path: Path, tmp_path: Path) -> None:
    """Of a whole journal, and of the batch alone."""
    with SqliteJournal(path) as journal:
        whole, alone = list(journal.exported()), list(journal.exported("b"))
    for name, lines in (("whole", whole), ("alone", alone)):
        with SqliteJournal(tmp_path / name) as journal:
            assert "b.3" in journal.take_in(lines)
            assert journal.verify().problems == ()
            assert World().engine(journal).show_batch("b").counts["done"] == 3


def test_a_batch_is_pruned_with_its_rows(path: Path) -> None:
    """They are gone together, and the chain over runs says so."""
    with SqliteJournal(path) as journal:
        assert set(journal.prune(older_than=-10, now=1e12)) == {"b", "after"}
        assert journal.verify().problems == ()
        assert list(journal.openings("b")) == []


def test_personal_values_of_rows_are_forgotten_with_the_batch(tmp_path: Path) -> None:
    """Inputs, and what is made of them; the record verifies before and after."""
    path = tmp_path / "runs.sqlite3"
    plan = Plan.model_validate(
        {
            "inputs": {"type": "object", "properties": {"who": {"type": "string"}}, "required": ["who"]},
            "steps": [{"id": "greeted", "tool": "greet", "args": {"who": {"$": "inputs.who"}}}],
        }
    )

    @tool(effect=Effect.READS)
    async def greet(who: str) -> str:
        """Greet."""
        return f"hello {who}"

    async def main() -> None:
        with SqliteJournal(path) as journal:
            engine = Engine(
                [greet],
                policies=Policies(personal={"inputs": ("/who",)}),
                journal=journal,
            )
            given = [{"who": "grace@example.org"}, {"who": "mary@example.org"}, {"who": 12345678}]
            assert (await engine.run_batch(plan, given, batch_id="b")).counts["done"] == 2
            assert journal.verify().problems == ()
            assert engine.show("b.1").inputs == {"who": "grace@example.org"}
            assert journal.forget("b") > 1
            assert journal.verify().problems == ()

    anyio.run(main)
    held = path.read_bytes()
    assert (b"grace@" in held, b"mary@" in held, b"12345678" in held) == (False, False, False)


# ---------------------------------------------------------------------------------------------- killed for good

CHILD = Path(__file__).parent / "support" / "batch_child.py"


def killed(folder: Path, count: int, *deaths: tuple[str, int]) -> dict[str, Any]:
    """Drive a batch in processes that die, one after the other, and in one that does not; what that says."""
    for point, n in (*deaths, ("never", 0)):
        command = [sys.executable, "-P", str(CHILD), str(folder), str(count), point, str(n)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert ended.returncode == (0 if point == "never" else -9), ended.stderr
    said: dict[str, Any] = json.loads(ended.stdout)
    return said


def expect_each_once(folder: Path, count: int) -> None:
    """Each payment was made once, and each row has one end that the journal holds."""
    paid = Counter(line.split(":")[0] for line in (folder / "effects").read_text().split())
    assert paid == {str(2 * n): 1 for n in range(1, count + 1)}
    with SqliteJournal(folder / "runs.sqlite3") as journal:
        assert settled(journal) == dict.fromkeys(range(1, count + 1), 1)


def test_a_batch_that_is_killed_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    """SIGKILL while rows are taken in, before an effect, after one, and as the batch writes how a row ended."""
    said = killed(tmp_path, 30, ("RowsTaken", 1), ("before", 3), ("after", 4), ("RowSettled", 5))
    assert said == {"status": "done", "message": "30 rows: 30 done", "problems": []}
    expect_each_once(tmp_path, 30)


@pytest.mark.proof
def test_a_batch_that_is_killed_often_loses_nothing(tmp_path: Path) -> None:
    """Sixty times, at points drawn anew each time."""
    draw = random.Random(11)
    points = ("before", "after", "RowSettled")
    deaths = [(draw.choice(points), draw.randint(1, 12)) for _ in range(60)]
    said = killed(tmp_path, 800, *deaths)
    assert (said["status"], said["problems"]) == ("done", [])
    expect_each_once(tmp_path, 800)


def test_a_row_that_has_ended_leaves_nothing_to_the_collector() -> None:
    """What it was made of goes at once: ten thousand rows of cycles would be looked through again and again."""
    world = World()
    run_batch(world, 3)  # what is made once is there
    gc.collect()
    gc.disable()
    try:
        before = _of_rows()
        run_batch(world, 30)
        assert _of_rows() == before
    finally:
        gc.enable()


def _of_rows() -> int:
    return sum(issubclass(type(thing), (State, Node, Runtime)) for thing in gc.get_objects())
