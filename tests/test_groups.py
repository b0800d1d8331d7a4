"""Groups, repeats and undo: chains per item, polling and paging, fail-over, and taking back what was done."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import anyio
import pytest
from support.virtual import BACKENDS, now, run_virtual

from foreplan import Budget, Effect, Engine, Limits, MemoryJournal, Plan, Policies, Run, ToolFailure, tool
from foreplan.executor.events import CallStarted, Outcome

READS = Effect.READS
done: list[str] = []


@tool(effect=READS)
async def load(name: str) -> dict[str, Any]:
    """Loads a file; `bad` is not there."""
    if name == "bad":
        raise ToolFailure("no such file", code="missing")
    return {"rows": len(name), "name": name}


@tool(effect=READS)
async def grow(rows: int) -> int:
    """One more."""
    return rows + 1


@tool
async def book(what: str) -> str:
    """Books; `flight` is sold out."""
    if what == "flight":
        raise ToolFailure("sold out", code="sold_out")
    done.append(f"book {what}")
    return f"id of {what}"


@tool
async def cancel(booking: str) -> None:
    """Cancels a booking."""
    done.append(f"cancel {booking}")


@tool(effect=READS)
async def page(cursor: int = 0) -> dict[str, Any]:
    """Pages of a list of three."""
    return {"rows": [cursor], "next": cursor + 1 if cursor < 2 else None}


@tool(effect=READS)
async def wait_for(name: str) -> str:
    """Ends at once."""
    return name


TOOLS = [load, grow, book, cancel, page, wait_for]
FREE = Policies(approve="never")


def plan_of(*steps: dict[str, Any], **rest: Any) -> Plan:
    return Plan.model_validate({"steps": list(steps), **rest})


async def run(plan: Plan, policies: Policies = FREE) -> Run:
    done.clear()
    return await Engine(TOOLS, policies=policies).run(plan)


def chain(*names: str, **more: Any) -> dict[str, Any]:
    """A group per file: load, grow, and the grown count as output."""
    return {
        "id": "files",
        "each": {"$": str(list(names))},
        "as": "file",
        "steps": [
            {"id": "got", "tool": "load", "args": {"name": {"$": "file"}}},
            {"id": "more", "tool": "grow", "args": {"rows": {"$": "got.rows + index"}}},
        ],
        "output": {"name": {"$": "got.name"}, "rows": {"$": "more"}},
        **more,
    }


@pytest.mark.anyio
async def test_a_group_is_a_chain_per_item_and_outside_sees_its_output() -> None:
    """Inside sees outside and the item; the result is a list of outputs in the order of the items."""
    end = await run(
        plan_of(chain("a", "bcd"), {"id": "total", "value": {"$": "sum([f.rows for f in files])"}})
    )
    assert end["files"] == [{"name": "a", "rows": 2}, {"name": "bcd", "rows": 5}]
    assert (end.state, end["total"]) == ("done", 7)


@pytest.mark.anyio
async def test_an_item_of_a_group_fails_as_one_and_the_failure_says_where() -> None:
    """Skip: null for the item, the others are there; the path leads to the step inside."""
    end = await run(plan_of(chain("a", "bad", on_failure="skip")))
    assert (end.state, end["files"]) == ("done", [{"name": "a", "rows": 2}, None])
    assert [where for where, _ in end.failures] == ["files[1].got"]
    [item] = end.steps["files"].items
    assert item.steps["more"].outcome is Outcome.BLOCKED


@pytest.mark.anyio
async def test_a_group_without_each_gives_its_output() -> None:
    """One scope, one result; nested groups see all that is around them."""
    inner = {
        "id": "inner",
        "each": {"$": "[1, 2]"},
        "steps": [{"id": "leaf", "tool": "grow", "args": {"rows": {"$": "item + base + inputs.n"}}}],
        "output": {"$": "leaf"},
    }
    outer = {"id": "outer", "steps": [{"id": "base", "value": 10}, inner], "output": {"all": {"$": "inner"}}}
    plan = plan_of(outer, inputs={"type": "object", "properties": {"n": {"type": "integer", "default": 100}}})
    assert (await run(plan))["outer"] == {"all": [112, 113]}


@pytest.mark.anyio
async def test_the_list_of_an_inner_group_is_taken_from_the_item_around_it() -> None:
    """Both items have the same name: in `each` it is still the outer one, inside the nearest."""
    leaf = {"id": "leaf", "tool": "grow", "args": {"rows": {"$": "item + index"}}}
    inner = {
        "id": "inner",
        "each": {"$": "[item, item * 10, index]"},
        "steps": [leaf],
        "output": {"$": "leaf"},
    }
    end = await run(
        plan_of({"id": "outer", "each": {"$": "[1, 2]"}, "steps": [inner], "output": {"$": "inner"}})
    )
    assert end["outer"] == [[2, 12, 3], [3, 22, 4]]


@pytest.mark.anyio
async def test_a_group_may_be_tried_item_by_item_until_one_is_enough() -> None:
    """Fail-over of a whole chain: a failed one goes on to the next, what follows the first good one is not tried."""
    end = await run(plan_of(chain("bad", "a", "bcd", "e", until={"$": "result.rows > 3"}, on_failure="skip")))
    assert end["files"] == [None, {"name": "a", "rows": 3}, {"name": "bcd", "rows": 6}, None]
    assert (end.state, end.tool_calls) == ("done", 5)


@pytest.mark.anyio
async def test_a_literal_call_that_needs_approval_asks_for_each_item_of_its_group() -> None:
    """The approval of the plan does not say how often it is made."""

    @tool(requires_approval=True)
    async def stamp(what: str) -> str:
        """Stamps."""
        return what

    plan = plan_of(
        {"id": "g", "each": {"$": "[1, 2]"}, "steps": [{"id": "s", "tool": "stamp", "args": {"what": "x"}}]}
    )
    engine = Engine([stamp])
    end = await engine.run(plan, approval=engine.approve(plan, by="ann"))
    assert end.state == "waiting"
    assert [d.path for d in end.waiting] == [("g", 0, "s"), ("g", 1, "s")]


@pytest.mark.parametrize("backend", BACKENDS)
def test_chains_have_no_barrier_between_items(backend: str) -> None:
    """A quick item is through while a slow one still loads."""
    ended: list[str] = []

    @tool(effect=READS)
    async def first(seconds: float) -> float:
        """Slow or quick."""
        await anyio.sleep(seconds)
        return seconds

    @tool(effect=READS)
    async def second(seconds: float) -> float:
        """After the first."""
        ended.append(f"{seconds:g} at {anyio.current_time() - began[0]:g}")
        return seconds

    began: list[float] = []
    steps = [
        {"id": "a", "tool": "first", "args": {"seconds": {"$": "item"}}},
        {"id": "b", "tool": "second", "args": {"seconds": {"$": "a"}}},
    ]
    plan = plan_of({"id": "g", "each": {"$": "[9.0, 1.0]"}, "steps": steps, "output": {"$": "b"}})

    async def main() -> Run:
        began.append(anyio.current_time())
        return await Engine([first, second], clock=now).run(plan)

    assert run_virtual(backend, main)["g"] == [9.0, 1.0]
    assert ended == ["1 at 1", "9 at 9"]


@pytest.mark.anyio
async def test_until_repeats_a_call_with_next_arguments() -> None:
    """Paging: the list of results, as many as it took."""
    step = {
        "id": "pages",
        "tool": "page",
        "args": {"cursor": 0},
        "until": {"$": "result.next is None"},
        "next": {"cursor": {"$": "result.next"}},
        "max": 10,
    }
    end = await run(plan_of(step, {"id": "rows", "value": {"$": "flat([p.rows for p in pages])"}}))
    assert (end["rows"], end.tool_calls) == ([0, 1, 2], 3)


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_is_the_pause_between_two_calls_and_max_is_a_time_out(backend: str) -> None:
    """Polling that never holds ends as `exhausted`, after `max` calls."""
    times: list[float] = []

    @tool(effect=READS)
    async def status() -> str:
        """Never ready."""
        times.append(anyio.current_time())
        return "busy"

    plan = plan_of(
        {"id": "poll", "tool": "status", "until": {"$": "result == 'ready'"}, "every": 5, "max": 3}
    )

    async def main() -> Run:
        return await Engine([status], clock=now).run(plan)

    end = run_virtual(backend, main)
    [(where, failure)] = end.failures
    assert (end.state, where, failure.code) == ("failed", "poll", "exhausted")
    assert [b - a for a, b in pairwise(times)] == pytest.approx([5, 5])


@pytest.mark.anyio
async def test_until_with_each_stops_after_the_first_that_satisfies_it() -> None:
    """Fail-over: in order, a failed one goes on to the next, the rest is not tried."""
    step = {
        "id": "found",
        "each": {"$": "['bad', 'ok', 'other']"},
        "tool": "load",
        "args": {"name": {"$": "item"}},
        "until": {"$": "result.rows > 0"},
        "on_failure": "skip",
    }
    end = await run(
        plan_of(step, {"id": "name", "value": {"$": "[f.name for f in found if f is not None][0]"}})
    )
    assert (end["name"], end.tool_calls) == ("ok", 2)
    assert end["found"] == [None, {"rows": 2, "name": "ok"}, None]


@pytest.mark.anyio
async def test_a_group_with_until_does_one_item_after_the_other_and_stops_where_it_holds() -> None:
    """The result that `until` asks is the group's output; what comes after is not begun."""
    more = {"until": {"$": "result.rows > 3"}, "on_failure": "skip"}
    end = await run(plan_of(chain("a", "bad", "bcd", "other", **more)))
    assert end["files"] == [{"name": "a", "rows": 2}, None, {"name": "bcd", "rows": 6}, None]
    assert end.tool_calls == 5


TRIP = [
    {
        "id": "car",
        "tool": "book",
        "args": {"what": "car"},
        "undo": {"tool": "cancel", "args": {"booking": {"$": "result"}}},
    },
    {
        "id": "hotel",
        "after": ["car"],
        "tool": "book",
        "args": {"what": "hotel"},
        "undo": {"tool": "cancel", "args": {"booking": {"$": "result"}}},
    },
    {"id": "flight", "after": ["hotel"], "tool": "book", "args": {"what": "flight"}},
]


@pytest.mark.anyio
async def test_a_plan_that_fails_takes_back_what_it_did_last_first() -> None:
    """The saga: car, hotel, flight; the flight fails."""
    end = await run(plan_of(*TRIP))
    assert done == ["book car", "book hotel", "cancel id of hotel", "cancel id of car"]
    assert end.state == "failed"
    assert "2 effects were undone" in end.message


@pytest.mark.anyio
@pytest.mark.parametrize("inside", [False, True])
async def test_an_effect_whose_undo_cannot_be_worked_out_is_in_the_closing_sentence(inside: bool) -> None:
    """It is noted on its step, and counted where the run says what was taken back: also out of a group that succeeded."""
    lost = {**TRIP[0], "undo": {"tool": "cancel", "args": {"booking": {"$": "result.split()[7]"}}}}
    first = (
        {"id": "car_too", "steps": [lost], "output": {"$": "car"}} if inside else {**lost, "id": "car_too"}
    )
    hotel = {**TRIP[1], "after": ["car_too"]}
    end = await run(plan_of(first, hotel, TRIP[2]))
    assert done == ["book car", "book hotel", "cancel id of hotel"]
    assert end.message.endswith("; 1 effect was undone, 1 could not be")


@pytest.mark.anyio
async def test_nothing_is_taken_back_if_policy_says_no_or_the_plan_succeeds() -> None:
    """`undo: false` in the policies; and a plan without failure."""
    await run(plan_of(*TRIP), FREE.model_copy(update={"undo": False}))
    assert done == ["book car", "book hotel"]
    await run(plan_of(*TRIP[:2]))
    assert done == ["book car", "book hotel"]


@pytest.mark.anyio
async def test_a_failed_item_of_a_group_takes_back_its_own_and_leaves_the_others() -> None:
    """The unit of undo is the item."""
    steps = [
        {
            "id": "begun",
            "tool": "book",
            "args": {"what": {"$": "item + ' hotel'"}},
            "undo": {"tool": "cancel", "args": {"booking": {"$": "result"}}},
        },
        {"id": "then", "after": ["begun"], "tool": "book", "args": {"what": {"$": "item"}}},
    ]
    end = await run(
        plan_of({"id": "trips", "each": {"$": "['rail', 'flight']"}, "steps": steps, "on_failure": "skip"})
    )
    assert end.state == "done"
    assert sorted(done) == ["book flight hotel", "book rail", "book rail hotel", "cancel id of flight hotel"]


@pytest.mark.anyio
async def test_groups_of_many_items_run_within_the_caps_and_keep_little() -> None:
    """A thousand chains through four slots."""
    steps = [
        {"id": "a", "tool": "grow", "args": {"rows": {"$": "item"}}},
        {"id": "b", "tool": "grow", "args": {"rows": {"$": "a"}}},
    ]
    plan = plan_of({"id": "g", "each": {"$": "range(1000)"}, "steps": steps, "output": {"$": "b"}})
    policies = Policies(limits=Limits(run=4))
    journal = MemoryJournal()
    end = await Engine(TOOLS, policies=policies, journal=journal).run(plan)
    assert end["g"] == [i + 2 for i in range(1000)]
    assert sum(isinstance(x, CallStarted) for x in journal.events(end.id)) == 2000


def everything() -> Plan:
    return plan_of(
        chain("a", "bcd", "bad", on_failure="skip"),
        {
            "id": "pages",
            "tool": "page",
            "until": {"$": "result.next is None"},
            "next": {"cursor": {"$": "result.next"}},
            "max": 5,
            "every": 2,
        },
        *TRIP,
    )


def test_a_cut_at_any_event_of_groups_repeats_and_undo_leads_to_the_same_end() -> None:
    """Replaying any prefix and performing what is outstanding ends in the same state; no settled call is made again."""
    journal = MemoryJournal()

    async def whole() -> Run:
        return await Engine(TOOLS, policies=FREE, journal=journal, clock=now).run(everything(), run_id="r")

    expected = run_virtual("asyncio", whole)
    events = list(journal.events("r"))
    for cut in range(2, len(events)):
        again = MemoryJournal()
        log = again.create("r")
        for event in events[:cut]:
            log.append(event)
        log.close()
        engine = Engine(TOOLS, policies=FREE, journal=again, clock=now)

        async def main(engine: Engine = engine) -> Run:
            end = await engine.resume("r")
            while end.state == "waiting":
                end = await engine.resume("r", decisions={d.id: "retry" for d in end.waiting})
            return end

        end = run_virtual("asyncio", main)
        said = re.sub(r" after \d+ of at most \d+ attempts", "", end.message)  # a lost attempt is one, too
        assert (end.state, said) == (expected.state, expected.message), cut
        assert {id: s.value for id, s in end.steps.items()} == {
            id: s.value for id, s in expected.steps.items()
        }, cut


@tool(effect=READS)
async def slow(n: int) -> int:
    """Takes a second."""
    await anyio.sleep(1)
    return n


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_step_that_a_stop_cut_short_is_cancelled_and_one_not_begun_is_open(backend: str) -> None:
    """With `each` or as a group: what it came to is there, and its outcome tells it from what was not begun."""
    group = [
        {"id": "p", "tool": "slow", "args": {"n": 1}},
        {"id": "q", "after": ["p"], "tool": "slow", "args": {"n": 2}},
    ]
    plan = plan_of(
        {"id": "many", "each": [1, 2, 3], "tool": "slow", "args": {"n": {"$": "item"}}},
        {"id": "both", "steps": group, "output": {"$": "q"}},
        {"id": "last", "after": ["many"], "tool": "slow", "args": {"n": 9}},
    )
    rules = Policies(budget=Budget(seconds=2.5), limits=Limits(run=1))
    end = run_virtual(backend, lambda: Engine([slow], policies=rules, clock=now).run(plan))
    assert (end.state, end.reason) == ("stopped", "budget")
    outcomes = [end.steps[id].outcome for id in ("many", "both", "last")]
    assert outcomes == [Outcome.CANCELLED, Outcome.CANCELLED, None]
    assert [step.outcome for step in end.steps["both"].steps.values()] == [Outcome.OK, None]
    assert end.steps["many"].value == [1, 2, None]
    assert end.unfinished == ("many[2]", "both.q", "last")
