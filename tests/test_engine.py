"""The main job through the engine: values, parallel calls, `each`, `when`, failures, retries, budgets."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

import anyio
import pytest
from support.virtual import BACKENDS, now, run_virtual

from foreplan import (
    Budget,
    Effect,
    Engine,
    Limits,
    MemoryJournal,
    Plan,
    Policies,
    Retry,
    ToolContext,
    ToolFailure,
    tool,
)
from foreplan.executor.events import CallSettled, CallStarted, Outcome
from foreplan.executor.runtime import Answer
from foreplan.policies.errors import BadInput, NotApproved
from foreplan.policies.failures import Happened, Kind

READS = Effect.READS


@tool(effect=READS)
async def numbers(count: int) -> list[int]:
    """The first numbers."""
    return list(range(count))


@tool(effect=READS)
async def double(x: int) -> int:
    """Twice x."""
    return 2 * x


@tool(effect=READS)
def add(a: int, b: int) -> int:
    """The sum, from a thread."""
    return a + b


@tool(effect=READS)
async def odd_only(x: int) -> int:
    """Says no to even numbers."""
    if x % 2 == 0:
        raise ToolFailure(f"{x} is even", code="even")
    return x


TOOLS = [numbers, double, add, odd_only]


def plan_of(*steps: dict[str, Any], **rest: Any) -> Plan:
    return Plan.model_validate({"steps": list(steps), **rest})


@pytest.mark.anyio
async def test_a_plan_runs_from_tools_through_values_to_its_output() -> None:
    """Results flow along references; the output is what the template says."""
    plan = plan_of(
        {"id": "found", "tool": "numbers", "args": {"count": {"$": "inputs.n"}}},
        {"id": "big", "value": {"$": "[x for x in found if x > 1]"}},
        {"id": "twice", "each": {"$": "big"}, "as": "x", "tool": "double", "args": {"x": {"$": "x"}}},
        {"id": "total", "tool": "add", "args": {"a": {"$": "sum(twice)"}, "b": 1}},
        inputs={"type": "object", "properties": {"n": {"type": "integer", "default": 5}}},
        output={"total": {"$": "total"}, "text": "{$} is text"},
    )
    run = await Engine(TOOLS).run(plan)
    assert (run.state, run.output) == ("done", {"total": 19, "text": "{$} is text"})
    assert run["twice"] == [4, 6, 8]


@pytest.mark.anyio
async def test_a_failing_item_stops_its_step_blocks_dependants_and_spares_the_rest() -> None:
    """`on_failure: stop`: settled items stay, dependants are blocked, independent branches go on."""
    plan = plan_of(
        {"id": "odd", "each": {"$": "[1, 2, 3]"}, "tool": "odd_only", "args": {"x": {"$": "item"}}},
        {"id": "after_odd", "tool": "double", "args": {"x": {"$": "odd[0]"}}},
        {"id": "alone", "tool": "double", "args": {"x": 4}},
    )
    run = await Engine(TOOLS).run(plan)
    assert run.state == "failed"
    assert run.steps["odd"].outcome is Outcome.FAILED
    assert run["odd"][0] == 1
    assert run.steps["after_odd"].outcome is Outcome.BLOCKED
    assert run["alone"] == 8
    [(where, failure)] = run.failures
    assert (where, failure.kind, failure.code, failure.message) == (
        "odd[1]",
        Kind.BUSINESS,
        "even",
        "2 is even",
    )


@pytest.mark.anyio
async def test_skip_gives_null_and_dependants_run() -> None:
    """`on_failure: skip`: failed items are null, with their reason beside them."""
    plan = plan_of(
        {
            "id": "odd",
            "each": {"$": "[1, 2, 3]"},
            "tool": "odd_only",
            "args": {"x": {"$": "item"}},
            "on_failure": "skip",
        },
        {"id": "count", "value": {"$": "len([x for x in odd if x is not None])"}},
    )
    run = await Engine(TOOLS).run(plan)
    assert (run.state, run["odd"], run["count"]) == ("done", [1, None, 3], 2)
    assert [(item.index, item.outcome) for item in run.steps["odd"].items] == [(1, Outcome.FAILED)]


@pytest.mark.anyio
async def test_a_step_whose_source_was_skipped_is_skipped_unless_it_asks() -> None:
    """`when` false gives null; what cannot be resolved for that reason is skipped; `is None` may be asked."""
    plan = plan_of(
        {"id": "a", "when": {"$": "1 > 2"}, "tool": "numbers", "args": {"count": 1}},
        {"id": "b", "tool": "double", "args": {"x": {"$": "a[0]"}}},
        {"id": "c", "tool": "double", "args": {"x": {"$": "0 if a is None else a[0]"}}},
        {"id": "d", "each": {"$": "a"}, "tool": "double", "args": {"x": {"$": "item"}}},
        {"id": "e", "tool": "double", "args": {"x": {"$": "b"}}},
    )
    run = await Engine(TOOLS).run(plan)
    assert run.state == "done"
    outcomes = {id: step.outcome for id, step in run.steps.items()}
    skipped = Outcome.SKIPPED
    assert outcomes == {"a": skipped, "b": skipped, "c": Outcome.OK, "d": skipped, "e": skipped}
    assert "'a' was skipped" in run.steps["b"].reason


@pytest.mark.anyio
async def test_when_is_asked_per_item_if_it_names_the_item() -> None:
    """Items that `when` turns down are null and make no call."""
    plan = plan_of(
        {
            "id": "twice",
            "each": {"$": "[1, 2, 3]"},
            "when": {"$": "item != 2 and index < 2"},
            "tool": "double",
            "args": {"x": {"$": "item"}},
        },
    )
    run = await Engine(TOOLS).run(plan)
    assert (run["twice"], run.tool_calls) == ([2, None, None], 1)


@pytest.mark.anyio
async def test_each_over_no_list_is_bad_args_and_an_empty_list_is_an_empty_result() -> None:
    """No list: the step fails before any call; an empty list: the result is empty and the step is ok."""
    plan = plan_of(
        {"id": "n", "value": {"$": "inputs.what"}},
        {"id": "bad", "each": {"$": "n"}, "tool": "double", "args": {"x": {"$": "item"}}},
        inputs={"type": "object", "properties": {"what": {}}},
    )
    engine = Engine(TOOLS)
    run = await engine.run(plan, inputs={"what": 3})
    failure = run.steps["bad"].failure
    assert failure is not None
    assert (run.state, failure.kind, failure.code) == ("failed", Kind.BAD_ARGS, "each_not_list")
    empty = await engine.run(plan, inputs={"what": []})
    assert (empty.state, empty["bad"]) == ("done", [])


@pytest.mark.parametrize("backend", BACKENDS)
def test_independent_steps_run_at_once_and_there_are_no_levels(backend: str) -> None:
    """A fast branch does not wait for an unrelated slow one: the makespan is the longest path."""

    @tool(effect=READS)
    async def wait(seconds: float) -> float:
        """Sleeps."""
        await anyio.sleep(seconds)
        return seconds

    plan = plan_of(
        {"id": "slow", "tool": "wait", "args": {"seconds": 10}},
        {"id": "quick", "tool": "wait", "args": {"seconds": 1}},
        {"id": "after_quick", "after": ["quick"], "tool": "wait", "args": {"seconds": 9}},
    )

    async def main() -> float:
        run = await Engine([wait], clock=now).run(plan)
        assert run.ok
        return anyio.current_time()

    start = 0.0
    assert run_virtual(backend, main) - start == pytest.approx(10, abs=1) or backend == "trio"


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_passing_failure_is_retried_with_jitter_and_retry_after_is_a_floor(backend: str) -> None:
    """Three attempts; waits are the draw of the dice plus what the service asked for."""
    seen: list[float] = []

    @tool(effect=READS)
    async def shaky() -> str:
        """Fails twice."""
        seen.append(anyio.current_time())
        if len(seen) < 3:
            raise ToolFailure("later", kind=Kind.NETWORK, code="rate_limited", retry_after=7.0)
        return "fine"

    async def main() -> str:
        policies = Policies(retry=Retry(base=2.0))
        run = await Engine([shaky], policies=policies, clock=now, dice=lambda: 0.5).run(
            plan_of({"id": "s", "tool": "shaky"})
        )
        assert run.ok
        return str(run["s"])

    assert run_virtual(backend, main) == "fine"
    waits = [later - earlier for earlier, later in itertools.pairwise(seen)]
    assert waits == pytest.approx([7 + 0.5 * 2, 7 + 0.5 * 4])


@pytest.mark.anyio
async def test_bad_arguments_and_business_failures_are_never_retried() -> None:
    """One attempt each."""
    calls: list[int] = []

    @tool(effect=READS)
    async def no(x: int) -> int:
        """Always says no."""
        calls.append(x)
        raise ToolFailure("no")

    run = await Engine([no]).run(plan_of({"id": "a", "tool": "no", "args": {"x": 1}}))
    assert (run.state, calls) == ("failed", [1])


@pytest.mark.anyio
async def test_the_caps_of_run_and_tool_are_never_exceeded() -> None:
    """At most `limits.run` calls at once, at most `limits.tool[name]` of one tool, and all get done."""
    live: dict[str, int] = {"one": 0, "two": 0}
    most: dict[str, int] = {"one": 0, "two": 0, "both": 0}

    async def busy(name: str) -> None:
        live[name] += 1
        most[name] = max(most[name], live[name])
        most["both"] = max(most["both"], sum(live.values()))
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        live[name] -= 1

    @tool(effect=READS)
    async def one(x: int) -> int:
        """One."""
        await busy("one")
        return x

    @tool(effect=READS)
    async def two(x: int) -> int:
        """Two."""
        await busy("two")
        return x

    plan = plan_of(
        {"id": "a", "each": {"$": "range(40)"}, "tool": "one", "args": {"x": {"$": "item"}}},
        {"id": "b", "each": {"$": "range(40)"}, "tool": "two", "args": {"x": {"$": "item"}}},
    )
    run = await Engine([one, two], policies=Policies(limits=Limits(run=7, tool={"one": 2}))).run(plan)
    assert run["a"] == run["b"] == list(range(40))
    assert most["one"] == 2
    assert most["both"] == 7


@pytest.mark.anyio
async def test_the_budget_of_tool_calls_stops_the_run_with_what_was_done() -> None:
    """Never one call more; results so far stay; the run says what is missing."""
    plan = plan_of(
        {"id": "a", "each": {"$": "range(inputs.n)"}, "tool": "double", "args": {"x": {"$": "item"}}},
        {"id": "b", "tool": "add", "args": {"a": {"$": "a[0]"}, "b": 1}},
        inputs={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    )
    policies = Policies(budget=Budget(tool_calls=4), limits=Limits(run=3))
    run = await Engine(TOOLS, policies=policies).run(plan, inputs={"n": 10})
    assert (run.state, run.reason, run.tool_calls) == ("stopped", "budget", 4)
    assert "budget of 4 tool calls" in run.message


@pytest.mark.anyio
async def test_a_tool_that_acts_needs_an_approval_and_the_approval_is_used_once() -> None:
    """No approval: nothing runs. With one: it runs, once."""
    sent: list[str] = []

    @tool
    async def send(to: str) -> str:
        """Sends mail."""
        sent.append(to)
        return "sent"

    plan = plan_of({"id": "mail", "tool": "send", "args": {"to": "ada"}})
    engine = Engine([send])
    with pytest.raises(NotApproved, match="needs an approval"):
        await engine.run(plan)
    assert sent == []
    approval = engine.approve(plan, by="ada")
    assert (await engine.run(plan, approval=approval)).ok
    with pytest.raises(NotApproved, match="was used by run"):
        await engine.run(plan, approval=approval)
    assert sent == ["ada"]


@pytest.mark.anyio
async def test_an_act_whose_outcome_is_unknown_waits_for_a_person_and_is_not_repeated() -> None:
    """A reset in mid-call: the run waits; `accept` gives the result, and the tool is not called again."""
    calls: list[int] = []

    @tool
    async def refund(amount: int) -> str:
        """Pays back."""
        calls.append(amount)
        raise ConnectionResetError("peer went away")

    @tool(effect=READS)
    async def note(text: str) -> str:
        """Notes."""
        return text

    plan = plan_of(
        {"id": "pay", "tool": "refund", "args": {"amount": 5}},
        {"id": "tell", "tool": "note", "args": {"text": {"$": "pay"}}},
    )
    engine = Engine([refund, note])
    run = await engine.run(plan, approval=engine.approve(plan, by="ada"))
    assert (run.state, calls) == ("waiting", [5])
    [question] = run.waiting
    assert (question.about, question.options) == ("unknown", ("retry", "accept", "fail"))
    with pytest.raises(BadInput, match="is no answer"):
        await engine.resume(run.id, decisions={question.id: "yes"})
    end = await engine.resume(run.id, decisions={question.id: Answer("accept", "ada", "paid")})
    assert (end.state, end["tell"], calls) == ("done", "paid", [5])


@pytest.mark.anyio
async def test_equal_items_have_different_keys_and_a_retry_keeps_its_own() -> None:
    """Idempotency keys: stable over attempts, distinct for equal items (E2)."""
    keys: list[str] = []
    failed: set[str] = set()

    @tool(effect=Effect.WRITES)
    async def put(x: int, context: ToolContext) -> int:
        """Writes; the first call of each key fails."""
        keys.append(context.idempotency_key)
        if context.idempotency_key not in failed:
            failed.add(context.idempotency_key)
            raise ConnectionRefusedError("not yet")
        return x

    plan = plan_of({"id": "w", "each": {"$": "[7, 7]"}, "tool": "put", "args": {"x": {"$": "item"}}})
    run = await Engine([put], policies=Policies(retry=Retry(base=0.0))).run(plan)
    assert run["w"] == [7, 7]
    assert (len(keys), len(set(keys))) == (4, 2)


@pytest.mark.anyio
async def test_an_act_that_certainly_did_not_happen_is_repeated() -> None:
    """Connection refused: happened is no, so even a tool that acts is tried again."""
    calls: list[int] = []

    @tool
    async def act() -> str:
        """Acts at the second try."""
        calls.append(1)
        if len(calls) == 1:
            raise ConnectionRefusedError("closed")
        return "done"

    plan = plan_of({"id": "a", "tool": "act"})
    engine = Engine([act], policies=Policies(approve="never", retry=Retry(base=0.0)))
    run = await engine.run(plan)
    assert (run["a"], len(calls)) == ("done", 2)


def test_a_blocking_run_inside_a_tool_or_a_loop_is_refused_with_a_sentence() -> None:
    """T3 of the field: it would wait for itself."""

    @tool(effect=READS)
    def nested() -> str:
        """Runs a plan inside a plan."""
        engine.run_blocking(plan_of({"id": "a", "value": 1}))
        return "never"

    engine = Engine([nested])
    run = engine.run_blocking(plan_of({"id": "n", "tool": "nested"}))
    [(_, failure)] = run.failures
    assert "inside a tool of run" in failure.message

    async def main() -> None:
        engine.run_blocking(plan_of({"id": "a", "value": 1}))

    with pytest.raises(BadInput, match="inside a running event loop"):
        anyio.run(main)


@pytest.mark.anyio
async def test_every_started_attempt_has_one_terminal_record() -> None:
    """Also of attempts that were retried."""
    journal = MemoryJournal()
    engine = Engine(TOOLS, journal=journal)
    run = await engine.run(
        plan_of(
            {
                "id": "o",
                "each": {"$": "range(9)"},
                "tool": "odd_only",
                "args": {"x": {"$": "item"}},
                "on_failure": "skip",
            }
        )
    )
    events = list(journal.events(run.id))
    started = Counter((x.path, x.attempt) for x in events if isinstance(x, CallStarted))
    settled = Counter((x.path, x.attempt) for x in events if isinstance(x, CallSettled))
    assert started == settled
    assert set(started.values()) == {1}
    assert Happened.NO in {f.happened for _, f in run.failures}


def test_what_is_no_plan_or_of_another_type_is_refused_with_a_sentence() -> None:
    """A caller's slip is a `BadInput` that says what is wanted, not an error from inside."""
    engine, plan = Engine(TOOLS), plan_of({"id": "a", "value": 1})
    document, anything = plan.to_json(), cast(Any, {"approve": "never"})
    slips: list[tuple[Callable[[], Any], str]] = [
        (lambda: engine.run_blocking(cast(Any, document)), "Plan.model_validate"),
        (lambda: engine.check(cast(Any, "plan.yaml")), "load_plan"),
        (lambda: engine.review(cast(Any, None)), "must be a Plan, not NoneType"),
        (lambda: engine.run_blocking(plan, inputs=cast(Any, "x")), "the inputs must be a Mapping, not str"),
        (lambda: engine.run_blocking(plan, approval=cast(Any, True)), "must be an Approval, not bool"),
        (lambda: engine.approve(plan, by=""), "the field 'by'"),
        (lambda: engine.approve(plan, by="ada", scope=cast(Any, "all")), "the field 'scope'"),
        (lambda: engine.approve(plan, by="ada", expires_in=cast(Any, "1h")), "a number of seconds"),
        (lambda: engine.resume_blocking(cast(Any, None)), "the id of a run must be a str"),
        (lambda: Engine(cast(Any, numbers)), "put a single tool in a list"),
        (lambda: Engine(cast(Any, None)), "a Registry or a list"),
        (lambda: Engine(TOOLS, policies=anything), "must be a Policies, not dict"),
        (lambda: Engine(TOOLS, principal=cast(Any, "ada")), "must be a Principal, not str"),
        (lambda: Engine(TOOLS, journal=cast(Any, 5)), "the journal must be a Journal"),
    ]
    for slip, said in slips:
        with pytest.raises(BadInput, match=re.escape(said)):
            slip()
