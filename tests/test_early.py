"""Reads may begin while the plan still arrives; what the plan does not hold is thrown away and stays on record."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.virtual import BACKENDS, now, run_virtual

from foreplan import Budget, Engine, ModelPlanner, Policies, Run, Tool, tool
from foreplan.executor.hands.authorize import Attempt
from foreplan.planner.arriving import ArrivingSteps
from foreplan.planner.findings import CheckFailed
from foreplan.planner.models.chunks import AIMessageChunk
from foreplan.planner.models.messages import AIMessage, Message
from foreplan.policies.errors import NotApproved

CALLED: list[tuple[float, str]] = []


@pytest.fixture(autouse=True)
def _nothing_called() -> None:
    CALLED.clear()


@tool(effect="reads")
async def read(key: str) -> str:
    """Read something, slowly."""
    CALLED.append((now(), key))
    await anyio.sleep(10)
    return f"value of {key}"


@tool(effect="writes")
async def write(text: str) -> str:
    """Write something."""
    CALLED.append((now(), text))
    return text


class Slow:
    """A model that says its answer letter by letter, ten seconds in all."""

    real = False

    def __init__(self, *answers: Any) -> None:
        self.answers = [json.dumps(answer) for answer in answers]

    async def agenerate(self, messages: Sequence[Message], **options: Any) -> AIMessage:
        await anyio.sleep(10)
        return AIMessage(self.answers.pop(0))

    async def astream(self, messages: Sequence[Message], **options: Any) -> AsyncIterator[AIMessageChunk]:
        text = self.answers.pop(0)
        for start in range(0, len(text), 5):
            await anyio.sleep(10 / len(text) * 5)
            yield AIMessageChunk(text[start : start + 5])
        yield AIMessageChunk(finish_reason="stop", usage={"output_tokens": 9})


def step(id: str, name: str = "read", **rest: Any) -> dict[str, Any]:
    return {"id": id, "tool": name, **rest}


STEPS = [
    step("a", args={"key": "a"}),
    step("b", args={"key": {"$": "inputs.key"}}),
    step("c", args={"key": {"$": "a"}}),
    step("d", "write", args={"text": "w"}),
]
SCHEMA = {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}


def engine_of(*answers: Any, tools: Sequence[Tool] = (read, write), **policies: Any) -> Engine:
    planner = ModelPlanner(Slow(*answers))
    return Engine(tools, planner, policies=Policies(**{"start_early": True} | policies), clock=now)


def run_it(engine: Engine, backend: str, **options: Any) -> tuple[Run, float]:
    async def main() -> tuple[Run, float]:
        begun = now()
        run = await engine.plan_and_run("read all", run_id="r", **options)
        return run, now() - begun

    return run_virtual(backend, main)


@pytest.mark.parametrize("backend", BACKENDS)
def test_reads_begin_before_the_plan_is_whole(backend: str) -> None:
    """The same results, sooner; each call is made once, and what waits for another or writes begins later."""
    engine = engine_of({"steps": STEPS})
    run, seconds = run_it(engine, backend, schema=SCHEMA, inputs={"key": "k"})
    assert (run.state, run["a"], run["b"], run["c"]) == (
        "done",
        "value of a",
        "value of k",
        "value of value of a",
    )
    assert sorted(key for _, key in CALLED) == ["a", "k", "value of a", "w"]
    assert seconds < 30
    assert {line.run for line in engine.runs()} == {"r", "r-early-1", "r-early-2"}
    CALLED.clear()
    _, later = run_it(
        engine_of({"steps": STEPS}, start_early=False), backend, schema=SCHEMA, inputs={"key": "k"}
    )
    assert later > seconds


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_the_plan_does_not_hold_is_discarded_and_recorded(backend: str) -> None:
    """A first answer that did not check had a read in it: it was made, charged, and goes nowhere."""
    bad = {"steps": [step("x", args={"key": "gone"}), step("y", "nothing", args={})]}
    engine = engine_of(bad, {"steps": [step("a", args={"key": "a"})]})
    run, _ = run_it(engine, backend)
    assert (run.state, list(run.steps), run.tool_calls) == ("done", ["a"], 2)
    assert engine.show("r-early-1").steps["x"].value == "value of gone"


@pytest.mark.parametrize(
    ("tools", "policies"),
    [
        ([tool(effect="reads", name="read", requires_approval=True)(read.function), write], {}),
        ([tool(effect="reads", name="read", requires_approval="each")(read.function), write], {}),
        ([tool(effect="reads", name="read", tags=["egress"])(read.function), write], {}),
        ([tool(effect="reads", name="read", level="high")(read.function), write], {"approve_from": "medium"}),
        ([read, write], {"approve": "always"}),
    ],
)
def test_nothing_begins_early_where_somebody_is_to_be_asked_or_data_go_out(
    tools: list[Tool], policies: dict[str, Any]
) -> None:
    """Whatever else the policy allows."""
    engine = engine_of({"steps": STEPS[:1]}, tools=tools, **policies)
    try:
        run_it(engine, "asyncio")
    except NotApproved:
        pass
    assert not [line for line in engine.runs() if "early" in line.run]


@pytest.mark.parametrize("early", [False, True])
def test_who_must_approve_first_gets_the_plan(early: bool) -> None:
    """It was paid for, and is what is to be reviewed, approved and run."""
    steps = [step("a", args={"key": "a"}), step("b", "write", args={"text": "b"})]
    model = Slow({"foreplan": 1, "goal": "g", "steps": steps})
    policies = Policies(start_early=early, approve="always")
    engine = Engine([read, write], planner=ModelPlanner(model), policies=policies, clock=now)

    async def main() -> Run:
        with pytest.raises(NotApproved) as caught:
            await engine.plan_and_run("g")
        plan = caught.value.plan
        return await engine.run(plan, approval=engine.approve(plan, by="ada"))

    assert run_virtual("asyncio", main)["b"] == "b"


def test_early_calls_are_within_the_budget() -> None:
    """And those nobody asks for are charged like the rest."""
    steps = [step(f"s{n}", args={"key": str(n)}) for n in range(4)]
    engine = engine_of(*[{"steps": steps}] * 3, budget=Budget(tool_calls=2))
    with pytest.raises(CheckFailed):
        run_it(engine, "asyncio")
    assert len(CALLED) <= 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_early_call_is_left_waiting(backend: str) -> None:
    """One that was cut short is closed: there is nothing left to resume."""
    text = {"foreplan": 1, "steps": [step("a", args={"key": "a"}), step("b", "no_such_tool")]}
    engine = engine_of(*[text] * 3)
    with pytest.raises(CheckFailed):
        run_it(engine, backend)
    lines = {line.run: line.state for line in engine.runs()}
    assert lines
    assert set(lines.values()) <= {"done", "stopped"}

    late = {
        "foreplan": 1,
        "steps": [step("b", "no_such_tool", args={"filling": "x" * 50}), step("a", args={"key": "a"})],
    }
    engine = engine_of(late, max_repairs=0)
    with pytest.raises(CheckFailed):
        run_it(engine, backend)
    assert [line.state for line in engine.runs()] == ["stopped"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_hook_that_may_change_calls_lets_none_begin_early(backend: str) -> None:
    """The early call would be another than the one of the plan, and both would be made."""
    plan = {"foreplan": 1, "steps": [step("a", args={"key": "a"}), step("b", args={"key": "b"})]}

    async def louder(call: Attempt) -> dict[str, str]:
        return {"key": f"{call.args['key']}!"}

    engine = Engine(
        [read],
        planner=ModelPlanner(Slow(plan)),
        policies=Policies(start_early=True, budget=Budget(tool_calls=2)),
        before_call=louder,
        clock=now,
    )
    run, _ = run_it(engine, backend)
    assert sorted(key for _, key in CALLED) == ["a!", "b!"]
    assert run.tool_calls == 2


def test_a_planner_that_fails_ends_what_has_begun() -> None:
    """No call outlives the question."""
    engine = engine_of({"cannot_plan": "no"}, {"steps": STEPS[:1]})
    from foreplan import CannotPlan

    with pytest.raises(CannotPlan, match="no"):
        run_it(engine, "trio")


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('ab"\\{}[]:,'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('s"{}'), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.lists(st.dictionaries(st.text("abc", min_size=1), ANY, max_size=3), max_size=4),
    st.integers(1, 7),
    st.sampled_from([lambda text: text, lambda text: "Here it is:\n```json\n" + text + "\n```"]),
)
def test_steps_are_read_whole_wherever_the_text_is_cut(
    steps: list[dict[str, Any]], size: int, wrapped: Callable[[str], str]
) -> None:
    """Braces in text, escapes, nesting: each object comes out once, in order, when it is closed."""
    text = wrapped(json.dumps({"steps": steps, "output": {"steps": [{"no": 1}]}}))
    reader = ArrivingSteps()
    found = [step for start in range(0, len(text), size) for step in reader.feed(text[start : start + size])]
    assert found == steps
