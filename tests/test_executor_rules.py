"""Single rules of the mind that random plans rarely meet: who gets a slot, what counts as the same call, what a stop is."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from support.chaos import Unchecked
from support.virtual import BACKENDS, now, run_virtual

from foreplan import (
    Budget,
    Effect,
    Engine,
    FunctionPlanner,
    Limits,
    MemoryJournal,
    Patch,
    Plan,
    Policies,
    Retry,
    Run,
    ToolFailure,
    tool,
)
from foreplan.executor.events import CallStarted, DecisionAsked, Outcome
from foreplan.executor.runtime import Answer

READS = Effect.READS
FREE = Policies(approve="never", retry=Retry(attempts=3, base=0.0))
done: list[str] = []


@tool(effect=READS)
async def read(x: int) -> int:
    """Reads; 13 is not there."""
    if x == 13:
        raise ToolFailure("no thirteen", code="missing")
    return x


@tool
async def pay(amount: int) -> int:
    """Pays; the second payment of 5 is refused."""
    done.append(f"pay {amount}")
    if amount == 5 and done.count("pay 5") == 2:
        raise ToolFailure("not twice", code="limit")
    return amount


@tool
async def pay_back(amount: int) -> None:
    """Pays back."""
    done.append(f"pay back {amount}")


TOOLS = [read, pay, pay_back]


def plan_of(*steps: dict[str, Any], **rest: Any) -> Plan:
    return Plan.model_validate({"steps": list(steps), **rest})


async def run(plan: Plan, policies: Policies = FREE, **more: Any) -> Run:
    done.clear()
    return await Unchecked(TOOLS, policies=policies, **more).run(plan)


def reading(id: str, x: Any, **more: Any) -> dict[str, Any]:
    return {"id": id, "tool": "read", "args": {"x": x}, **more}


BACK = {"tool": "pay_back", "args": {"amount": {"$": "result"}}}


@pytest.mark.anyio
async def test_a_lane_that_was_closed_while_it_waited_passes_its_slot_on() -> None:
    """One slot; a list stops at its first item; the step behind it in the queue still runs."""
    plan = plan_of(
        {"id": "many", "each": [13, 1, 2], "tool": "read", "args": {"x": {"$": "item"}}},
        {"id": "one", "value": 1},
        reading("next", {"$": "one"}),
        {"id": "more", "each": [3, 4], "tool": "read", "args": {"x": {"$": "item"}}},
    )
    end = await run(plan, FREE.model_copy(update={"limits": Limits(tool={"read": 1})}))
    assert {id: step.outcome for id, step in end.steps.items()} == {
        "many": Outcome.FAILED,
        "one": Outcome.OK,
        "next": Outcome.OK,
        "more": Outcome.OK,
    }


@pytest.mark.anyio
async def test_a_budget_that_is_just_enough_is_enough() -> None:
    """Steps that make no call need none of it: groups of values, items that `when` turns down, empty lists."""
    plan = plan_of(
        {"id": "two", "each": [1, 2], "tool": "read", "args": {"x": {"$": "item"}}},
        {
            "id": "g",
            "each": {"$": "two"},
            "steps": [{"id": "v", "value": {"$": "item"}}],
            "output": {"$": "v"},
        },
        reading("none", {"$": "item"}, each={"$": "g"}, when={"$": "item > 9"}),
    )
    end = await run(plan, FREE.model_copy(update={"budget": Budget(tool_calls=2)}))
    assert (end.state, end["g"], end["none"], end.tool_calls) == ("done", [1, 2], [None, None], 2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_run_that_is_out_of_budget_does_not_sit_out_a_pause(backend: str) -> None:
    """A poll every hour with two calls left ends at once when they are used up."""
    poll = {"id": "poll", "tool": "wait", "args": {"x": 1}}
    plan = plan_of(
        {**poll, "until": {"$": "result == 2"}, "every": 3600, "max": 9},
        {"id": "late", "each": {"$": "[1, 2, 3]"}, "tool": "wait", "args": {"x": {"$": "item"}}},
    )

    @tool(effect=READS)
    async def wait(x: int) -> int:
        """Takes a second."""
        await anyio.sleep(1)
        return x

    async def main() -> tuple[Run, float]:
        began = anyio.current_time()
        policies = FREE.model_copy(update={"budget": Budget(tool_calls=2), "limits": Limits(run=3)})
        end = await Unchecked([*TOOLS, wait], policies=policies, clock=now).run(plan)
        return end, anyio.current_time() - began

    end, seconds = run_virtual(backend, main)
    assert (end.state, end.reason, seconds < 2) == ("stopped", "budget", True)


@pytest.mark.anyio
async def test_an_undo_that_the_budget_cuts_short_is_told_of() -> None:
    """Two were done, one is undone, the other could not be: the message says so."""
    steps = [{"id": f"p{n}", "tool": "pay", "args": {"amount": n}, "undo": BACK} for n in (1, 2)]
    steps[1]["after"] = ["p1"]
    end = await run(
        plan_of(*steps, reading("bad", 13, after=["p2"])),
        FREE.model_copy(update={"budget": Budget(tool_calls=4)}),
    )
    assert (end.state, end.reason, done) == ("stopped", "budget", ["pay 1", "pay 2", "pay back 2"])
    assert "1 effect was undone, 1 could not be" in end.message


@pytest.mark.anyio
async def test_a_group_whose_output_does_not_resolve_takes_back_what_it_did() -> None:
    """It failed like any other unit, with the reason of its output; after a skip the plan keeps it in mind."""
    inner = [{"id": "p", "tool": "pay", "args": {"amount": 1}, "undo": BACK}]
    group = {"id": "g", "steps": inner, "output": {"$": "p.nothing"}}
    end = await run(plan_of(group))
    assert (end.state, done) == ("failed", ["pay 1", "pay back 1"])
    assert "`output`" in end.message
    never = {"id": "never", "when": {"$": "1 > 2"}, "value": {"a": 1}}
    empty = {"id": "g", "steps": [*inner, never], "output": {"$": "never.a"}}
    end = await run(plan_of(empty, reading("bad", 13, after=["g"])))
    assert (end.steps["g"].outcome, done) == (Outcome.SKIPPED, ["pay 1", "pay back 1"])


@pytest.mark.anyio
@pytest.mark.parametrize("most", [1, 4])
async def test_a_repeated_call_whose_source_was_skipped_is_skipped(most: int) -> None:
    """Not a list of nulls, and not a time-out."""
    plan = plan_of(
        {"id": "never", "when": {"$": "1 > 2"}, "value": {"a": 1}},
        reading("poll", {"$": "never.a"}, until={"$": "result > 3"}, max=most),
    )
    end = await run(plan)
    assert (end.state, end.steps["poll"].outcome, end["poll"], end.tool_calls) == (
        "done",
        Outcome.SKIPPED,
        None,
        0,
    )


@pytest.mark.anyio
async def test_an_until_that_does_not_resolve_fails_at_the_last_call_as_at_the_first() -> None:
    """Whatever keeps it from resolving."""
    never = {"id": "never", "when": {"$": "1 > 2"}, "value": {"a": 1}}
    for most in (1, 3):
        end = await run(plan_of(never, reading("poll", 1, until={"$": "never.a > result"}, max=most)))
        assert (end.steps["poll"].outcome, end.tool_calls) == (Outcome.FAILED, 1)


@pytest.mark.anyio
async def test_a_tool_cannot_call_its_failure_an_interruption_of_ours() -> None:
    """Attempts and budget count whatever the code of a failure says."""
    seen: list[int] = []

    @tool(effect=READS)
    async def sly() -> int:
        """Never gets anywhere."""
        seen.append(1)
        raise ToolFailure("again", kind="timeout", code="interrupted", happened="maybe")

    with anyio.fail_after(5):
        end = await Engine([sly], policies=FREE).run(plan_of({"id": "s", "tool": "sly"}))
    assert (end.state, len(seen), end.tool_calls) == ("failed", 3, 3)


@pytest.mark.anyio
async def test_a_group_without_steps_settles() -> None:
    """The check refuses one; a run that meets it ends all the same."""
    end = await run(plan_of({"id": "g", "each": [1, 2], "steps": []}, {"id": "h", "steps": [], "output": 3}))
    assert (end.state, end["g"], end["h"]) == ("done", [None, None], 3)


def adding(*steps: dict[str, Any]) -> FunctionPlanner:
    return FunctionPlanner(replan=lambda request: Patch.model_validate({"add": list(steps)}))


async def asked_about(plan: Plan, planner: FunctionPlanner, policies: Policies = FREE) -> list[str]:
    """What a person is asked; with a no, the run ends."""
    journal = MemoryJournal()
    end = await run(plan, policies, planner=planner, journal=journal)
    while end.state == "waiting":
        no = {q.id: Answer("reject", "ada") for q in end.waiting}
        end = await Engine(TOOLS, planner, policies=policies, journal=journal).resume(end.id, decisions=no)
    return [e.question["reason"] for e in journal.events(end.id) if isinstance(e, DecisionAsked)]


BAD = reading("bad", 13)
FIVE = {"tool": "pay", "args": {"amount": 5}}


@pytest.mark.anyio
@pytest.mark.parametrize("more", [{}, {"replaces": "bad"}])
async def test_a_patch_that_makes_a_call_again_goes_to_a_person(more: dict[str, str]) -> None:
    """Whether the new step says that it replaces something or not; the tool is called once."""
    plan = plan_of({"id": "p", **FIVE}, BAD)
    assert await asked_about(plan, adding({"id": "q", **FIVE, **more})) == [
        "the same call was already made as p in this run"
    ]
    assert done == ["pay 5"]


@pytest.mark.anyio
async def test_a_refused_equal_call_does_not_wipe_out_that_the_first_one_was_made() -> None:
    """Two payments of 5: one stands, the other certainly did not happen; a third is asked about."""
    plan = plan_of(
        {"id": "p", "each": [5, 5], "tool": "pay", "args": {"amount": {"$": "item"}}, "on_failure": "skip"},
        BAD,
    )
    in_order = FREE.model_copy(update={"limits": Limits(run=1)})
    asked = await asked_about(plan, adding({"id": "q", **FIVE}), in_order)
    assert asked == ["the same call was already made as p[0] in this run"]
    assert done == ["pay 5", "pay 5"]


@pytest.mark.anyio
async def test_a_call_of_the_plan_that_a_patch_made_first_goes_to_a_person() -> None:
    """The approved plan holds one of the two, not both."""
    plan = plan_of(BAD, {"id": "p", **FIVE, "after": ["bad"]})
    patch = adding({"id": "q", **FIVE}, {"id": "fine", "replaces": "bad", **reading("fine", 1, after=["q"])})
    assert await asked_about(plan, patch) == ["the same call was already made as q in this run"]
    assert done == ["pay 5"]


@pytest.mark.anyio
async def test_what_fails_again_as_before_is_given_up_with_the_reason() -> None:
    """R4 of the field, also where the new step does not say what it replaces, or the items are equal from the start."""
    planner = adding(reading("again", 13, replaces="bad"))
    end = await run(plan_of(BAD), planner=planner)
    assert (end.state, end.replans) == ("failed", 1)
    assert "failed again as before (missing)" in end.message
    twice = plan_of({"id": "bad", "each": [13, 13], "tool": "read", "args": {"x": {"$": "item"}}})
    end = await run(twice, planner=adding(reading("fine", 1, replaces="bad")))
    assert (end.state, end.replans) == ("done", 1)


@pytest.mark.anyio
async def test_the_principal_of_a_resume_must_still_hold_what_the_call_needs() -> None:
    """A call that waited for a person is admitted anew."""
    from foreplan import Principal

    @tool(requires_approval="each", permissions=("pay",))
    async def transfer() -> int:
        """Pays."""
        done.append("transfer")
        return 1

    journal = MemoryJournal()
    done.clear()
    may = Engine(
        [transfer], policies=FREE, journal=journal, principal=Principal(id="ada", permissions=("pay",))
    )
    first = await may.run(plan_of({"id": "t", "tool": "transfer"}))
    [question] = first.waiting
    may_not = Engine([transfer], policies=FREE, journal=journal, principal=Principal(id="ada"))
    end = await may_not.resume(first.id, decisions={question.id: "approve"})
    assert (end.state, done) == ("failed", [])
    assert not [e for e in journal.events(first.id) if isinstance(e, CallStarted)]
