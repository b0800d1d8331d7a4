"""Faults that people met in other engines, in plans, re-plans, dialogues and where a model takes over from a plan.

The same calls are made in four ways; a row of the field is named in brackets. Where a row is held by a test elsewhere,
that test names it.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import anyio.lowlevel
import pytest
from support.virtual import BACKENDS, now, run_virtual

from foreplan import (
    Effect,
    Engine,
    FunctionPlanner,
    MemoryJournal,
    ModelPlanner,
    Patch,
    Plan,
    Policies,
    Run,
    ToolFailure,
    tool,
)
from foreplan.executor.agent import create_agent
from foreplan.executor.events import CallAdmitted, CallSettled, CallStarted, Event, Outcome
from foreplan.planner.models.messages import AIMessage, ToolCall, ToolMessage
from foreplan.planner.models.scripted import ScriptedModel
from foreplan.planner.react import React
from foreplan.policies.failures import Failure

READS = Effect.READS
CALLED: list[tuple[str, Any]] = []


@pytest.fixture(autouse=True)
def _nothing_called() -> None:
    CALLED.clear()


@tool(effect=READS)
async def work(name: str, seconds: float = 0) -> str:
    """Be busy for a while."""
    CALLED.append((name, now()))
    await anyio.sleep(seconds)
    return name


@tool(effect=READS)
async def says_no() -> str:
    """Say no at once."""
    raise ToolFailure("closed", code="closed")


@tool(effect=READS)
async def says_nothing() -> str:
    """Raise without a text."""
    raise RuntimeError


@tool(effect=READS)
async def cancels() -> str:
    """Raise what only a loop should raise."""
    raise asyncio.CancelledError


@tool(effect=READS)
async def cancels_its_task() -> str:
    """Ask for the end of the task it runs in."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # trio has no such thing
        raise asyncio.CancelledError from None
    assert task is not None
    task.cancel()
    await anyio.lowlevel.checkpoint()
    return "still here"


@tool(effect=READS)
async def several() -> str:
    """Raise a group."""
    raise ExceptionGroup("several", [ValueError("one"), KeyError("two")])


@tool(effect=READS, timeout=5)
async def untidy() -> str:
    """Take too long, and raise while being stopped."""
    try:
        await anyio.sleep_forever()
    finally:
        raise ValueError("while cleaning up")


@tool(effect=READS)
async def echo(x: Any) -> Any:
    """Give what it gets."""
    CALLED.append(("echo", x))
    return x


TOOLS = [work, says_no, says_nothing, cancels, cancels_its_task, several, untidy, echo]
ONCE = Policies.model_validate({"retry": {"attempts": 1}, "max_replans": 1})
Calls = list[tuple[str, dict[str, Any]]]


class Ended(NamedTuple):
    """A run with its events; `settled` is how each call of interest ended, in their order."""

    run: Run
    events: list[Event]
    settled: list[CallSettled]
    told: list[ToolMessage]

    def failure(self, place: int) -> Failure:
        failure = self.settled[place].failure
        assert failure is not None
        return failure

    @property
    def attempts(self) -> Counter[str]:
        return Counter(type(e).__name__ for e in self.events if isinstance(e, CallStarted | CallSettled))


def steps_of(calls: Calls) -> list[dict[str, Any]]:
    return [
        {"id": f"c{n}", "tool": name, "args": {key: {"$literal": value} for key, value in args.items()}}
        for n, (name, args) in enumerate(calls)
    ]


def plan_of(*steps: dict[str, Any], **rest: Any) -> Plan:
    return Plan.model_validate({"goal": "do it", "steps": list(steps), **rest})


def one_round(calls: Calls) -> ScriptedModel:
    """A model that wants all the calls at once, and answers then."""
    made = tuple(ToolCall(f"c{n}", name, args) for n, (name, args) in enumerate(calls))
    return ScriptedModel([AIMessage("", tool_calls=made), "done"])


FAILING = {"id": "failing", "tool": "says_no"}


async def in_plan(calls: Calls, **options: Any) -> Run:
    return await Engine(TOOLS, policies=ONCE, **options).run(plan_of(*steps_of(calls)), run_id="r")


async def in_replan(calls: Calls, **options: Any) -> Run:
    def replan(request: Any) -> Patch:
        first, *others = steps_of(calls)
        return Patch.model_validate({"add": [{**first, "replaces": "failing"}, *others]})

    engine = Engine(TOOLS, FunctionPlanner(replan=replan), policies=ONCE, **options)
    return await engine.run(plan_of(FAILING), run_id="r")


async def in_dialogue(calls: Calls, **options: Any) -> Run:
    return await create_agent(one_round(calls), TOOLS, policies=ONCE, **options).ainvoke("go", run_id="r")


async def in_fallback(calls: Calls, **options: Any) -> Run:
    policies = ONCE.model_copy(update={"fallback": True})
    engine = Engine(TOOLS, react=React(one_round(calls)), policies=policies, **options)
    return await engine.run(plan_of(FAILING), run_id="r")


WAYS = {"plan": in_plan, "re-plan": in_replan, "dialogue": in_dialogue, "fallback": in_fallback}
everywhere = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
every_loop = pytest.mark.parametrize("backend", BACKENDS)


def ended(backend: str, way: Callable[..., Any], calls: Calls) -> Ended:
    """Make these calls at once in one of the ways, in virtual time."""
    journal = MemoryJournal()

    async def main() -> Run:
        run: Run = await way(calls, journal=journal, clock=now)
        return run

    run = run_virtual(backend, main)
    events = list(journal.events("r"))
    mine = [e for e in events if isinstance(e, CallSettled) and str(e.path[-1]).startswith("c")]
    settled = sorted(mine, key=lambda event: str(event.path[-1]))
    return Ended(run, events, settled, [m for m in run.messages if isinstance(m, ToolMessage)])


# ---------------------------------------------------------------------------------------------- parallel calls


@every_loop
@everywhere
def test_one_failing_call_loses_no_sibling_and_leaves_none_behind(backend: str, way: Any) -> None:
    """What ran beside it gives its result; what it took is told, and nothing is left running (C1)."""
    calls: Calls = [("work", {"name": "slow", "seconds": 10}), ("says_no", {}), ("work", {"name": "fast"})]
    end = ended(backend, way, calls)
    assert [e.outcome for e in end.settled] == [Outcome.OK, Outcome.FAILED, Outcome.OK]
    assert [e.value for e in end.settled] == ["slow", None, "fast"]
    assert end.attempts["CallStarted"] == end.attempts["CallSettled"]
    assert end.settled[0].at == 10
    assert [m.content for m in end.told if not m.failed] == (["slow", "fast"] if end.told else [])


@every_loop
@everywhere
@pytest.mark.parametrize("bad", ["cancels", "cancels_its_task", "says_nothing", "several", "untidy"])
def test_a_call_that_misbehaves_has_one_record_and_harms_nobody(backend: str, way: Any, bad: str) -> None:
    """Cancelled by itself, or raising over its deadline: one end each, and the siblings go on (C2)."""
    end = ended(backend, way, [("work", {"name": "slow", "seconds": 10}), (bad, {})])
    started = Counter(e.path for e in end.events if isinstance(e, CallStarted))
    settled = Counter(e.path for e in end.events if isinstance(e, CallSettled))
    assert started == settled
    assert set(started.values()) == {1}
    assert (end.settled[0].outcome, end.settled[0].value) == (Outcome.OK, "slow")
    assert end.run.state in ("failed", "done")


@every_loop
@everywhere
@pytest.mark.parametrize("bad", ["says_nothing", "cancels", "several", "untidy"])
def test_a_failure_always_says_what_and_where(backend: str, way: Any, bad: str) -> None:
    """Kind, code, class, step and tool, also where the exception has no text; no group reaches anyone (C3, C4)."""
    end = ended(backend, way, [(bad, {})])
    failure = end.failure(0)
    assert failure.kind
    assert failure.code
    assert failure.message.strip()
    assert failure.exception or failure.code == "deadline"
    assert "ExceptionGroup" not in failure.message
    tools = {e.path: e.tool for e in end.events if isinstance(e, CallAdmitted)}
    assert tools[end.settled[0].path] == bad
    if end.told:
        (told,) = end.told
        assert (told.name, told.failed) == (bad, True)
        assert json.loads(told.content)["message"]
    else:
        assert "'c0'" in end.run.message


@every_loop
@everywhere
def test_what_failed_is_the_cause_and_not_the_tidying_up(backend: str, way: Any) -> None:
    """The deadline, not the error raised while being stopped (C4)."""
    failure = ended(backend, way, [("untidy", {})]).failure(0)
    assert (failure.kind, failure.code) == ("timeout", "deadline")


def chains(first: str = "") -> list[dict[str, Any]]:
    """A slow chain and a fast one; they have nothing to do with each other."""
    more = {"replaces": first} if first else {}
    slow = {"id": "slow", "tool": "work", "args": {"name": "slow", "seconds": 50}}
    after = {"id": "slow2", "after": ["slow"], "tool": "work", "args": {"name": "slow2"}}
    fast = {"id": "fast", "tool": "work", "args": {"name": "fast", "seconds": 1}}
    last = {"id": "fast2", "tool": "work", "args": {"name": {"$": "fast"}, "seconds": 1}}
    third = {"id": "fast3", "tool": "work", "args": {"name": {"$": "f'{fast2} 3'"}}}
    return [{**slow, **more}, after, fast, last, third]


@every_loop
@pytest.mark.parametrize("replan", [False, True])
def test_a_fast_branch_waits_for_no_slow_one(backend: str, replan: bool) -> None:
    """There are no levels, neither in a plan nor in what a patch adds (C7)."""

    def patch(request: Any) -> Patch:
        return Patch.model_validate({"add": chains("failing")})

    async def main() -> Run:
        engine = Engine(TOOLS, FunctionPlanner(replan=patch), policies=ONCE, clock=now)
        return await engine.run(plan_of(FAILING) if replan else plan_of(*chains()))

    assert run_virtual(backend, main).ok
    assert sorted(CALLED, key=lambda made: (made[1], made[0])) == [
        ("fast", 0), ("slow", 0), ("fast", 1), ("fast 3", 2), ("slow2", 50),
    ]  # fmt: skip


@every_loop
@everywhere
def test_calls_that_need_nothing_of_each_other_begin_at_once(backend: str, way: Any) -> None:
    """A round takes as long as its slowest call, as a plan does (C7)."""
    end = ended(backend, way, [("work", {"name": str(n), "seconds": 10 * n}) for n in range(4)])
    assert sorted(CALLED) == [(str(n), 0) for n in range(4)]
    assert max(e.at for e in end.settled) == 30


# ---------------------------------------------------------------------------------------------- literals and references

LITERALS = [
    "budget is $1",
    "{{c0}}",
    "${c0}",
    "$c0",
    "c0",
    "f'{c0}'",
    '{"$": "c0"}',
    {"$": "c0"},
    {"$": "inputs.secret"},
    {"$literal": {"$": "c0"}},
    {"$": 1, "also": [{"$ref": "#/c0"}]},
]


@every_loop
@everywhere
@pytest.mark.parametrize("literal", LITERALS, ids=str)
def test_a_literal_is_never_taken_for_a_reference(backend: str, way: Any, literal: Any) -> None:
    """Nor is data that came back from a tool: it arrives at the tool as it was written (P11)."""
    end = ended(backend, way, [("echo", {"x": literal})])
    assert [given for _, given in CALLED] == [literal]
    assert end.settled[0].value == literal


@every_loop
@pytest.mark.parametrize("literal", [x for x in LITERALS if isinstance(x, str)])
def test_what_a_tool_gave_is_not_expanded_in_the_next_step(backend: str, literal: str) -> None:
    """By reference, in a text and as an item; a literal text needs no marking (P11)."""
    steps = [
        {"id": "c0", "tool": "echo", "args": {"x": literal}},
        {"id": "c1", "tool": "echo", "args": {"x": {"$": "c0"}}},
        {"id": "c2", "tool": "echo", "args": {"x": {"$": "f'<{c1}>'"}}},
        {"id": "c3", "each": {"$": "[c0, c1]"}, "tool": "echo", "args": {"x": {"deep": {"$": "item"}}}},
    ]

    async def main() -> Run:
        return await Engine(TOOLS).run(plan_of(*steps))

    run = run_virtual(backend, main)
    assert (run["c1"], run["c2"], run["c3"]) == (literal, f"<{literal}>", [{"deep": literal}] * 2)


MIXED: list[Any] = [
    {"$": "f'{good} and {bad.missing}'"},
    [{"$": "good"}, {"$": "bad.missing"}],
    {"a": {"$": "good"}, "b": {"c": [{"$": "bad['missing']"}]}},
    {"$": "[good, bad[7]]"},
]


@every_loop
@pytest.mark.parametrize("mixed", MIXED, ids=str)
@pytest.mark.parametrize(
    "more", [{}, {"each": [1, 2]}, {"replaces": "failing"}], ids=["plan", "each", "patch"]
)
def test_an_argument_of_which_one_part_does_not_resolve_stops_before_the_call(
    backend: str, mixed: Any, more: dict[str, Any]
) -> None:
    """Two references, or one in a text: nothing is called with half of it filled in (P1)."""
    good = [
        {"id": "good", "tool": "work", "args": {"name": "here"}},
        {"id": "bad", "tool": "echo", "args": {"x": {"$": "inputs.x"}}},
    ]
    step = {"id": "mixed", "tool": "echo", "args": {"x": mixed}, **more}
    schema = {"type": "object", "properties": {"x": {}}}

    def replan(request: Any) -> Patch:
        return Patch.model_validate({"add": [step]})

    async def main() -> Run:
        engine = Engine(TOOLS, FunctionPlanner(replan=replan), policies=ONCE, clock=now)
        steps = [*good, FAILING] if "replaces" in more else [*good, step]
        return await engine.run(plan_of(*steps, inputs=schema), inputs={"x": {}})

    run = run_virtual(backend, main)
    failure = run.steps["mixed"].failure
    assert (run.state, failure and failure.kind) == ("failed", "bad_args")
    assert sorted(CALLED) == [("echo", {}), ("here", 0)]


@every_loop
def test_several_references_in_one_argument_are_filled_in(backend: str) -> None:
    """Side by side, in a text, deep inside (P1)."""
    mixed = {"x": [{"$": "good"}, {"$": "f'{good} and {more}'"}, {"deep": {"$": "{'a': more, 'b': [good]}"}}]}
    steps = [
        {"id": "good", "tool": "work", "args": {"name": "here"}},
        {"id": "more", "tool": "work", "args": {"name": "there"}},
        {"id": "mixed", "tool": "echo", "args": mixed},
    ]

    async def main() -> Run:
        return await Engine(TOOLS).run(plan_of(*steps))

    expected = ["here", "here and there", {"deep": {"a": "there", "b": ["here"]}}]
    assert run_virtual(backend, main)["mixed"] == expected


# ---------------------------------------------------------------------------------------------- allowances, names, order


@pytest.mark.anyio
async def test_an_unknown_tool_uses_up_no_allowance_of_its_neighbours() -> None:
    """Answers that do not check, in one re-plan, leave the next its own; a round's good calls are made (P4)."""
    bad = {"add": [{"id": "x", "replaces": "failing", "tool": "wrok", "args": {}}]}
    first = {"id": "again", "replaces": "failing", "tool": "several"}
    second = {"id": "last", "replaces": "again", "tool": "work", "args": {"name": "well"}}
    other = {"add": [{**second, "tool": "wrok"}]}
    model = ScriptedModel([bad, {**bad, "drop": []}, {"add": [first]}, other, {"add": [second]}])
    policies = ONCE.model_copy(update={"max_replans": 2, "max_repairs": 1})
    run = await Engine(TOOLS, ModelPlanner(model), policies=policies).run(plan_of(FAILING))
    assert (run.state, "no valid patch" in run.message) == ("failed", True)
    policies = policies.model_copy(update={"max_repairs": 2})
    model = ScriptedModel(
        [bad, {"add": [{**bad["add"][0], "id": "y"}]}, {"add": [first]}, other, {"add": [second]}]
    )
    run = await Engine(TOOLS, ModelPlanner(model), policies=policies).run(plan_of(FAILING))
    assert (run.state, run["last"], run.replans) == ("done", "well", 2)


@pytest.mark.anyio
async def test_unknown_tools_in_a_dialogue_use_up_no_repair_of_its_answer() -> None:
    """Each is answered with the nearest names, and good calls beside it are made (P2, P4)."""
    rounds = [
        AIMessage("", tool_calls=(ToolCall("a", f"wrok{n}", {}), ToolCall("b", "work", {"name": str(n)})))
        for n in range(4)
    ]
    model = ScriptedModel([*rounds, "no form", '{"n": "x"}', '{"n": 1}'])
    form = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    run = await create_agent(model, TOOLS, response_format=form, policies=Policies(max_repairs=2)).ainvoke(
        "go"
    )
    assert (run.state, run.output, [name for name, _ in CALLED]) == ("done", {"n": 1}, list("0123"))
    told = [m.content for m in run.messages if isinstance(m, ToolMessage) and m.failed]
    assert len(told) == 4
    assert all("did you mean 'work'" in said for said in told)


@pytest.mark.anyio
@pytest.mark.parametrize("call", [ModelPlanner, "agent"])
async def test_a_tool_of_the_examples_is_found_out(call: Any) -> None:
    """A name copied from the prompt is no tool: it goes back with what is wrong, and nothing is called (P2)."""
    step = {"id": "a", "tool": "TOOL_A", "args": {"key": "x"}}
    good = {"steps": [{"id": "a", "tool": "work", "args": {"name": "x"}}]}
    if call == "agent":
        model = ScriptedModel([AIMessage("", tool_calls=(ToolCall("a", "TOOL_A", {}),)), "so"])
        run = await create_agent(model, TOOLS).ainvoke("go")
        assert "no tool is called 'TOOL_A'" in run.messages[3].content
    else:
        model = ScriptedModel([{"steps": [step]}, good])
        plan = await Engine(TOOLS, ModelPlanner(model)).plan("do it")
        assert "no tool is called 'TOOL_A'" in model.requests[1].text
        assert [step.tool for step in plan.steps] == ["work"]
    assert CALLED == []


@pytest.mark.anyio
async def test_the_order_of_an_answer_means_nothing() -> None:
    """Steps are matched by id alone, in a plan and in a patch written backwards (P6)."""
    steps = [
        {"id": "one", "tool": "work", "args": {"name": "1"}},
        {"id": "second", "tool": "work", "args": {"name": {"$": "f'{one}2'"}}},
        {"id": "third", "tool": "work", "args": {"name": {"$": "f'{second}3'"}}},
    ]
    forward = await Engine(TOOLS).run(plan_of(*steps, output={"$": "[one, second, third]"}))
    backward = await Engine(TOOLS).run(plan_of(*reversed(steps), output={"$": "[one, second, third]"}))
    assert forward.output == backward.output == ["1", "12", "123"]
    steps[2]["replaces"] = "failing"
    patch = Patch.model_validate({"add": list(reversed(steps)), "output": {"$": "[one, second, failing]"}})
    engine = Engine(TOOLS, FunctionPlanner(replan=lambda request: patch), policies=ONCE)
    assert (await engine.run(plan_of(FAILING))).output == ["1", "12", "123"]


@every_loop
def test_results_of_a_round_go_to_the_calls_they_are_of(backend: str) -> None:
    """Whichever ends first: by the id of the call, in the model's order (P6)."""
    calls: Calls = [("work", {"name": str(n), "seconds": 10 - n}) for n in range(4)]
    end = ended(backend, in_dialogue, calls)
    assert [(m.tool_call_id, m.content) for m in end.told] == [(f"c{n}", str(n)) for n in range(4)]


@pytest.mark.anyio
async def test_ids_are_never_reused_and_blocked_is_blocked() -> None:
    """A patch with the id of a step that ran, failed, was dropped or stands in a group goes back (P12)."""
    group = {"id": "g", "each": [1], "steps": [{"id": "inner", "value": 1}]}
    waits = {"id": "waits", "after": ["failing"], "tool": "work", "args": {"name": "waits"}}
    plan = plan_of({"id": "ran", "tool": "work", "args": {"name": "ran"}}, group, FAILING, waits)
    for taken in ("ran", "failing", "inner", "waits", "g"):
        findings: list[Any] = []

        def replan(request: Any, taken: str = taken, findings: list[Any] = findings) -> Patch:
            findings.append([f.message for f in request.findings])
            step = {"id": taken, "replaces": "failing", "tool": "work", "args": {"name": "new"}}
            return Patch.model_validate({"drop": ["waits"] if taken == "waits" else [], "add": [step]})

        CALLED.clear()
        run = await Engine(TOOLS, FunctionPlanner(replan=replan), policies=ONCE).run(plan)
        assert (run.state, [name for name, _ in CALLED]) == ("failed", ["ran"])
        assert run.steps["waits"].outcome is Outcome.BLOCKED
        assert taken in findings[1][0]
        assert run.plan == plan


@everywhere
def test_a_call_that_fails_is_not_made_again_in_the_same_place(way: Any) -> None:
    """Nothing repeats what the tool refused: not the engine, nor what comes after (R4)."""
    end = ended("asyncio", way, [("says_no", {}), ("work", {"name": "x"})])
    paths = [e.path for e in end.events if isinstance(e, CallStarted)]
    assert len(paths) == len(set(paths))
    assert all(e.attempt == 1 for e in end.settled)


@every_loop
def test_a_time_out_of_what_acts_is_no_plain_failure(backend: str) -> None:
    """The effect may be there: nobody tries again, and a person is asked; what may be repeated is tried again (E3)."""

    async def hang() -> None:
        """Give no answer."""
        CALLED.append(("hang", now()))
        await anyio.sleep_forever()

    def with_effect(effect: Effect) -> Run:
        CALLED.clear()
        engine = Engine([tool(effect=effect, timeout=5)(hang)], policies=Policies(approve="never"))
        return run_virtual(backend, lambda: engine.run(plan_of({"id": "a", "tool": "hang"})))

    run = with_effect(Effect.ACTS)
    assert (run.state, [asked.about for asked in run.waiting], len(CALLED)) == ("waiting", ["unknown"], 1)
    run = with_effect(Effect.WRITES)
    assert (run.state, run.steps["a"].outcome, len(CALLED)) == ("failed", Outcome.FAILED, 3)


@pytest.mark.anyio
async def test_wherever_a_run_is_taken_up_a_failed_step_has_failed() -> None:
    """Cut at every event: what was settled is not run again, what failed stays failed, what needs it is blocked (E4)."""
    one = {"id": "one", "tool": "work", "args": {"name": "one"}}
    needs = {"id": "needs", "after": ["failing"], "tool": "work", "args": {"name": "needs"}}
    journal = MemoryJournal()
    run = await Engine(TOOLS, policies=ONCE, journal=journal).run(plan_of(one, FAILING, needs), run_id="r")
    whole = list(journal.events("r"))
    for length in range(2, len(whole)):
        cut = MemoryJournal()
        log = cut.create("r")
        for event in whole[:length]:
            log.append(event)
        log.close()
        again = await Engine(TOOLS, policies=ONCE, journal=cut).resume("r")
        assert {id_: step.outcome for id_, step in again.steps.items()} == {
            "one": Outcome.OK,
            "failing": Outcome.FAILED,
            "needs": Outcome.BLOCKED,
        }
        settled = {event.path for event in whole[:length] if isinstance(event, CallSettled)}
        begun = {event.path for event in list(cut.events("r"))[length:] if isinstance(event, CallStarted)}
        assert not settled & begun
    assert run.state == "failed"


def _everywhere_else() -> str:
    return "".join(path.read_text("utf-8") for path in Path(__file__).parent.glob("test_*.py"))


@pytest.mark.parametrize("number", range(1, 23))
def test_every_threat_has_a_test(number: int) -> None:
    """Those of the list of threats, each by its number, where it is held."""
    assert re.search(rf"[Tt]hreats? (\d+ (to|and) |\d+, )?{number}\b", _everywhere_else())


def test_every_row_has_a_test() -> None:
    """The rows this page and its neighbours hold are named where they are held."""
    rows = [
        *(f"E{n}" for n in range(1, 6)),
        *("D1", "D2", "D6", "S2"),
        *(f"P{n}" for n in (1, 2, 3, 4, 6, 7, 8, 11, 12)),
        "R4",
        "R5",
        *(f"C{n}" for n in (1, 2, 3, 4, 7)),
    ]
    tests = _everywhere_else()
    named = {row for row in rows for end in ")," if f"({row}{end}" in tests or f", {row}{end}" in tests}
    assert named == set(rows)
