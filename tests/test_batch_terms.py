"""A batch goes on by what it was opened with: what changed is refused and named, or accepted by name, recorded, and holds for its rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.virtual import BACKENDS, now, run_virtual

from foreplan import (
    Batch,
    BatchRules,
    Budget,
    Engine,
    MemoryJournal,
    Plan,
    Policies,
    Principal,
    Retry,
    SqliteJournal,
    Tool,
    ToolFailure,
    tool,
)
from foreplan.executor.events import RowOpened, RowReopened, RowsReopened, RunResumed
from foreplan.policies.errors import NotApproved

RULES = Policies(approve="never", retry=Retry(attempts=1))
PATIENT = Policies(approve="never", retry=Retry(attempts=3), budget=Budget(tool_calls=4))
INPUTS = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
PLAN = Plan.model_validate(
    {
        "inputs": INPUTS,
        "steps": [
            {"id": "one", "tool": "put", "args": {"n": {"$": "inputs.n"}}},
            {"id": "two", "after": ["one"], "tool": "put", "args": {"n": {"$": "inputs.n + 100"}}},
        ],
        "output": {"$": "two"},
    }
)


class Puts:
    """A tool that fails for some numbers, so many times."""

    def __init__(self, **fails: int) -> None:
        self.fails = {int(name.removeprefix("n")): times for name, times in fails.items()}
        self.calls: list[int] = []

    def tool(self, version: str = "1", effect: Any = "writes") -> Tool:
        @tool(version=version, effect=effect)
        async def put(n: int) -> str:
            """Put it there."""
            self.calls.append(n)
            if self.fails.get(n, 0) > 0:
                self.fails[n] -= 1
                raise ToolFailure("not now", kind="network", code="busy", happened="no")
            return f"{n} by version {version}"

        return put


def engine(puts: Puts, journal: Any, *, version: str = "1", **options: Any) -> Engine:
    options = {"policies": RULES, "principal": Principal(id="ada"), **options}
    return Engine([puts.tool(version)], journal=journal, clock=now, dice=lambda: 0.5, **options)


async def begun(puts: Puts, journal: Any) -> Batch:
    """A batch of four rows of which one ran."""
    rules = BatchRules(canary=1, breaker=None)
    rows = [{"n": n} for n in range(1, 5)]
    return await engine(puts, journal).run_batch(PLAN, rows, batch_id="b", rules=rules)


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "a tool": ({"version": "2"}, "tool 'put' changed: version"),
    "a rule": ({"policies": PATIENT}, "retry.attempts was 1, is 3"),
    "the principal": ({"principal": Principal(id="eve")}, "it acts for 'ada', not for 'eve'"),
}


@pytest.mark.parametrize("case", CHANGES)
def test_what_changed_is_refused_until_somebody_accepts_it(case: str) -> None:
    """Nothing is written; with a name it goes on, and the journal says who accepted what. It then holds for whoever comes next."""
    (options, told), puts, journal = CHANGES[case], Puts(), MemoryJournal()

    async def main() -> Batch:
        await begun(puts, journal)
        before = len(list(journal.events("b")))
        new = engine(puts, journal, **options)
        with pytest.raises(NotApproved, match="batch 'b' cannot go on here") as refused:
            await new.resume_batch("b", decisions={"canary": "approve"})
        assert told in str(refused.value)
        assert "accept_changes=" in str(refused.value)
        assert len(list(journal.events("b"))) == before
        return await new.resume_batch("b", decisions={"canary": "approve"}, accept_changes="bob")

    assert run_virtual("asyncio", main).ok
    [resumed] = [event for event in journal.events("b") if isinstance(event, RunResumed)]
    assert resumed.accepted is not None
    assert (resumed.accepted["by"], told in " ".join(resumed.accepted["changes"])) == ("bob", True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_that_go_on_or_begin_keep_to_the_rules_that_were_accepted(backend: str, tmp_path: Path) -> None:
    """And say so in their own records, so that they read the same ever after; rows that had ended are as they were."""
    puts = Puts(n2=2, n103=2)

    async def main() -> None:
        with SqliteJournal(tmp_path / "runs.db") as journal:
            await begun(puts, journal)
            new = engine(puts, journal, policies=PATIENT)
            batch = await new.resume_batch("b", decisions={"canary": "approve"}, accept_changes="bob")
            assert batch.counts["done"] == 4
            assert puts.calls.count(2) == puts.calls.count(103) == 3  # by the rules of before: once
            kinds = [type(event) for event in journal.events("b.2")][:2]
            assert kinds == [RowOpened, RunResumed]
            assert [type(event) for event in journal.events("b.1")][1] is not RunResumed
            assert new.show("b.2").budget == Budget(tool_calls=4)
            assert new.show("b.1").budget == Budget()
            assert [row.output for row in new.show_batch("b").rows()][1] == "102 by version 1"
            assert journal.verify().ok

    run_virtual(backend, main)


def test_a_retry_keeps_to_what_is_accepted_too() -> None:
    """In the rows that are tried again; what they had done stays done."""
    puts, journal = Puts(n103=2), MemoryJournal()

    async def main() -> Batch:
        await begun(puts, journal)
        batch = await engine(puts, journal).resume_batch("b", decisions={"canary": "approve"})
        assert (batch.counts["done"], batch.counts["failed"]) == (3, 1)
        new = engine(puts, journal, version="2", policies=PATIENT)
        with pytest.raises(NotApproved, match="tool 'put' changed"):
            await new.retry_batch("b")
        assert (await new.retry_batch("b", accept_changes="bob")).ok
        return new.show_batch("b")

    assert [row.output for row in run_virtual("asyncio", main).rows()][2] == "103 by version 2"
    assert (puts.calls.count(3), puts.calls.count(103)) == (1, 3)
    [again] = [event for event in journal.events("b") if isinstance(event, RowsReopened)]
    [row] = [event for event in journal.events("b.3") if isinstance(event, RowReopened)]
    assert again.accepted is not None
    assert row.accepted is not None
    assert (again.accepted["by"], row.accepted["by"]) == ("bob", "bob")


def test_what_was_accepted_holds_for_the_next_who_goes_on() -> None:
    """With what is new nobody is asked again, and what was before is what differs now."""
    puts, journal = Puts(), MemoryJournal()

    async def main() -> Batch:
        await begun(puts, journal)
        new = engine(puts, journal, version="2", policies=PATIENT)
        await new.resume_batch("b", accept_changes="bob")
        with pytest.raises(NotApproved, match=r"retry\.attempts was 3, is 1"):
            await engine(puts, journal).resume_batch("b")
        return await new.resume_batch("b", decisions={"canary": "approve"})

    assert run_virtual("asyncio", main).ok
    [accepted] = [event for event in journal.events("b.3") if isinstance(event, RunResumed)]
    assert (accepted.accepted or {})["by"] == "bob"


def test_a_row_goes_back_to_the_first_rules_where_those_are_accepted_again() -> None:
    """It began under others, and what it was opened with is a change to it like any other."""
    puts, journal = Puts(n103=99), MemoryJournal()

    async def main() -> None:
        await begun(puts, journal)
        patient = engine(puts, journal, policies=PATIENT)
        batch = await patient.resume_batch("b", decisions={"canary": "approve"}, accept_changes="bob")
        assert (batch.counts["failed"], puts.calls.count(103)) == (1, 3)
        first = engine(puts, journal)
        await first.retry_batch("b", accept_changes="bob")
        assert puts.calls.count(103) == 4
        assert first.show("b.3").budget == Budget()

    run_virtual("asyncio", main)


def test_an_effect_that_changed_nobody_can_accept() -> None:
    """What was repeated so far was decided by it."""
    puts, journal = Puts(), MemoryJournal()

    async def main() -> None:
        await begun(puts, journal)
        other = Engine(
            [puts.tool(effect="acts")], policies=RULES, principal=Principal(id="ada"), journal=journal
        )
        with pytest.raises(NotApproved, match="effect") as refused:
            await other.resume_batch("b", accept_changes="bob")
        assert "accept_changes" not in str(refused.value)

    run_virtual("asyncio", main)
