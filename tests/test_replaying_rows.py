"""A row of a batch is run again on its record: the decisions are those of then, or it is said which are not."""

from __future__ import annotations

from typing import Any

import pytest
from support.virtual import BACKENDS, now, run_virtual

from foreplan import BatchRules, Budget, Engine, MemoryJournal, Plan, Policies, Retry, Tool, ToolFailure, tool
from foreplan.policies.errors import BadInput

RULES = Policies(approve="never", retry=Retry(attempts=2))
INPUTS = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
PLAN = Plan.model_validate(
    {
        "inputs": INPUTS,
        "steps": [
            {"id": "rate", "tool": "look", "args": {"n": 7}},
            {"id": "found", "tool": "look", "args": {"n": {"$": "inputs.n"}}},
            {"id": "paid", "tool": "pay", "args": {"n": {"$": "found + rate"}}},
        ],
        "output": {"$": "paid"},
    }
)
CALLS: list[int] = []


@tool(effect="reads")
async def look(n: int) -> int:
    """Look a number up; the second fails once in passing."""
    CALLS.append(n)
    if n == 2 and CALLS.count(2) == 1:
        raise ToolFailure("not now", kind="network", happened="no")
    return n


def payer(**options: Any) -> Tool:
    @tool(effect="acts", **options)
    async def pay(n: int) -> str:
        """Pay; not ten."""
        CALLS.append(n)
        if n == 10:
            raise ToolFailure("no", code="poor", happened="no")
        return f"paid {n}"

    return pay


def ran(backend: str = "asyncio", **rules: Any) -> tuple[Engine, MemoryJournal]:
    """An engine in whose journal a batch of four rows has run."""
    CALLS.clear()
    journal = MemoryJournal()
    engine = Engine([look, payer()], policies=RULES, journal=journal, clock=now, dice=lambda: 0.5)
    rows = [{"n": n} for n in range(1, 5)]
    run_virtual(backend, lambda: engine.run_batch(PLAN, rows, batch_id="b", rules=BatchRules(**rules)))
    return engine, journal


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("row", ["b.1", "b.2", "b.3", "b.shared"])
def test_a_row_decides_as_it_did(backend: str, row: str) -> None:
    """One that is done, one that was tried twice, one that failed, and what all share: to the last event, and nothing is called."""
    engine, _ = ran(backend)
    calls = len(CALLS)
    found = engine.replay(row)
    assert (found.differences, found.not_recorded, found.identical) == ((), (), True)
    assert found.now is not None
    assert found.now.output == engine.show(row).output
    assert len(CALLS) == calls


def test_a_row_that_was_taken_up_decides_as_it_did() -> None:
    """After the canary, by whoever went on; under the rules that were accepted then."""
    engine, journal = ran(canary=2)
    other = Engine(
        [look, payer()],
        policies=RULES.model_copy(update={"retry": Retry(attempts=5)}),
        journal=journal,
        clock=now,
        dice=lambda: 0.5,
    )
    run_virtual(
        "asyncio",
        lambda: other.resume_batch("b", decisions={"canary": "approve"}, accept_changes="bob"),
    )
    for row in ("b.1", "b.3", "b.4"):
        assert engine.replay(row).identical, row


def test_rules_are_held_against_those_that_a_row_went_by() -> None:
    """One that ended before somebody accepted others, against the first; one that began later, against those: rules and tools."""
    engine, journal = ran(canary=2)
    patient = RULES.model_copy(update={"retry": Retry(attempts=5)})
    later = payer(version="2")
    other = Engine([look, later], policies=patient, journal=journal, clock=now, dice=lambda: 0.5)
    run_virtual(
        "asyncio",
        lambda: other.resume_batch("b", decisions={"canary": "approve"}, accept_changes="bob"),
    )
    then, since = engine.replay("b.1", policies=RULES), other.replay("b.4", policies=patient)
    assert (then.changed, then.identical, since.changed, since.identical) == ((), True, (), True)
    assert engine.replay("b.1", policies=patient).changed == ("policies: retry",)
    assert engine.replay("b.4", policies=RULES, tools=other.registry).changed == ("policies: retry",)
    assert engine.replay("b.1").changed == other.replay("b.4").changed == ()


def test_other_tools_and_rules_say_what_would_be_otherwise() -> None:
    """A bound that the row would not keep to, and a result that would not be one."""
    engine, _ = ran()
    bounded = engine.replay("b.1", policies=RULES.model_copy(update={"budget": Budget(tool_calls=1)}))
    assert bounded.same is False
    assert any("budget" in said for said in bounded.changed)

    @tool(effect="reads")
    async def look(n: int) -> str:
        """Look a number up, as a text."""
        return str(n)

    assert engine.replay("b.1", tools=[look, payer()]).same is False


def test_what_a_batch_did_with_a_row_is_no_part_of_its_own_record() -> None:
    """A row that was tried again, another plan, the batch itself: one sentence each."""
    engine, _ = ran()
    run_virtual("asyncio", lambda: engine.retry_batch("b"))
    for wrong, told in (("b.3", "was tried again"), ("b", "is a batch")):
        with pytest.raises(BadInput, match=told):
            engine.replay(wrong)
    with pytest.raises(BadInput, match="runs the plan of its batch"):
        engine.replay("b.1", plan=PLAN)
