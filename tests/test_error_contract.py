"""What a model is told of a failure, and what the engine and the loops do about each kind of it (design: failures)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.virtual import BACKENDS, now, run_virtual

from foreplan import (
    Budget,
    Engine,
    FunctionPlanner,
    Kind,
    ModelPlanner,
    Patch,
    Plan,
    Policies,
    Run,
    ToolFailure,
    tool,
)
from foreplan.executor.agent import create_agent
from foreplan.planner.models.messages import AIMessage, ToolCall, ToolMessage
from foreplan.planner.models.scripted import ScriptedModel
from foreplan.policies.retry import Retry

MADE: list[tuple[str, Any]] = []


class Status(Exception):
    """What an HTTP library raises."""

    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP {status}")
        self.status_code = status


FAULTS: dict[str, BaseException] = {
    "bad_args": Status(422),
    "permission": Status(403),
    "permission_wait": ToolFailure("no", kind="permission", code="denied", retry_after=0),
    "timeout": TimeoutError("late"),
    "network": ConnectionRefusedError("nobody there"),
    "rate": Status(429),
    "business": ToolFailure("closed", code="closed"),
    "bug": ZeroDivisionError(),
}


@tool(effect="reads")
async def call(how: str, n: int = 0) -> str:
    """Fail in the way that is asked for."""
    MADE.append((how, n))
    if how in FAULTS:
        raise FAULTS[how]
    return how


# kind, retryable, calls in all
CONTRACT: dict[str, tuple[str, bool, int]] = {
    "bad_args": ("bad_args", True, 1),
    "permission": ("permission", False, 1),
    "permission_wait": ("permission", False, 1),
    "timeout": ("timeout", True, 3),
    "network": ("network", True, 3),
    "rate": ("network", True, 3),
    "business": ("business", False, 1),
    "bug": ("business", False, 1),
}
ALWAYS = ["ok", "error_type", "code", "retryable", "message", "hint"]
MORE = {"happened", "status", "tool_says"}
RETRY = Policies(retry=Retry(attempts=3))


def wants(**args: Any) -> AIMessage:
    return AIMessage("", tool_calls=(ToolCall("c", "call", args),))


def test_every_kind_is_in_the_table() -> None:
    """A new kind of failure needs its row."""
    assert {kind for kind, _, _ in CONTRACT.values()} == {str(kind) for kind in Kind}


def in_virtual_time(backend: str, main: Any) -> Any:
    MADE.clear()
    return run_virtual(backend, main)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("how", CONTRACT)
def test_a_model_in_a_loop_is_told_by_the_contract(backend: str, how: str) -> None:
    """Exactly these fields, in this order; and only what passes is tried again, `permission` never."""
    kind, retryable, calls = CONTRACT[how]
    model = ScriptedModel([wants(how=how), "so"])
    agent = create_agent(model, [call], policies=RETRY, clock=now)
    run = in_virtual_time(backend, lambda: agent.ainvoke("go"))
    (told,) = [json.loads(m.content) for m in run.messages if isinstance(m, ToolMessage)]
    assert list(told)[:6] == ALWAYS
    assert set(told) - set(ALWAYS) <= MORE
    assert (told["ok"], told["error_type"], told["retryable"]) == (False, kind, retryable)
    assert told["message"]
    assert told["hint"]
    assert (run.state, len(MADE)) == ("done", calls)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("how", CONTRACT)
def test_a_planner_is_told_by_the_contract(backend: str, how: str) -> None:
    """The same fields beside those that say which step it was; what a stranger's tool wrote is not among them."""
    kind, retryable, calls = CONTRACT[how]
    model = ScriptedModel([{"cannot_plan": "no"}])
    plan = Plan.model_validate({"goal": "go", "steps": [{"id": "s", "tool": "call", "args": {"how": how}}]})
    engine = Engine([call], ModelPlanner(model), policies=RETRY, clock=now)
    run = in_virtual_time(backend, lambda: engine.run(plan))
    state = next(line for line in model.requests[0].text.splitlines() if line.startswith('{"plan"'))
    (told,) = json.loads(state)["failures"]
    where = ["step", "tool", "args", "attempts"]
    assert list(told)[: len(where) + 6] == [*where, *ALWAYS]
    assert set(told) - {*where, *ALWAYS} <= MORE - {"tool_says"}
    assert (told["ok"], told["error_type"], told["retryable"]) == (False, kind, retryable)
    assert (told["attempts"], len(MADE), run.tool_calls) == (calls, calls, calls)


def correcting(*args: dict[str, Any]) -> FunctionPlanner:
    """A planner that puts other arguments in the place of what failed, again and again."""
    left = list(enumerate(args, 2))

    def replan(request: Any) -> Patch:
        n, given = left.pop(0)
        step = {"id": f"s{n}", "replaces": request.failed[0], "tool": "call", "args": given}
        return Patch.model_validate({"add": [step]})

    return FunctionPlanner(replan=replan)


def one(**args: Any) -> Plan:
    return Plan.model_validate({"goal": "go", "steps": [{"id": "s1", "tool": "call", "args": args}]})


MANY = Policies(max_replans=9)


@pytest.mark.anyio
async def test_bad_arguments_are_corrected_by_a_re_plan_at_most_once() -> None:
    """A second guess that is as bad ends it, with other arguments too; a right one goes on."""
    MADE.clear()
    planner = correcting(*({"how": "bad_args", "n": n} for n in range(1, 9)))
    run = await Engine([call], planner, policies=MANY).run(one(how="bad_args"))
    assert (run.state, run.replans, MADE) == ("failed", 1, [("bad_args", 0), ("bad_args", 1)])
    assert "corrected only once" in run.message
    right = await Engine([call], correcting({"how": "well"}), policies=MANY).run(one(how="bad_args"))
    assert (right.state, right.replans) == ("done", 1)


@pytest.mark.anyio
async def test_the_correction_is_of_the_call_and_of_nothing_else() -> None:
    """Another failure in between, another tool, or two calls that are wrong at once do not use it up."""

    @tool(effect="reads")
    async def other(n: int) -> int:
        """Say no to everything."""
        raise Status(422)

    def replan(request: Any) -> Patch:
        steps = {"s1": ("s2", "other", {"n": 1}), "s2": ("s3", "call", {"how": "well"})}
        id_, name, args = steps[request.failed[0]]
        return Patch.model_validate(
            {"add": [{"id": id_, "replaces": request.failed[0], "tool": name, "args": args}]}
        )

    run = await Engine([call, other], FunctionPlanner(replan=replan), policies=MANY).run(one(how="bad_args"))
    assert (run.state, run.replans) == ("done", 2)
    both = {"each": [1, 2], "id": "s1", "tool": "call", "args": {"how": "bad_args", "n": {"$": "item"}}}
    plan = Plan.model_validate({"goal": "go", "steps": [both]})
    run = await Engine([call], correcting({"how": "well"}), policies=MANY).run(plan)
    assert (run.state, run.replans) == ("done", 1)


@pytest.mark.anyio
async def test_arguments_that_do_not_resolve_again_are_not_guessed_at_any_more() -> None:
    """An expression that fails before the call is a bad argument like any other."""
    bad = [{"how": {"$": f"inputs.x.{key}"}} for key in "bcdef"]
    schema = {"type": "object", "properties": {"x": {"type": "object"}}}
    plan = Plan.model_validate(one(how={"$": "inputs.x.a"}).to_json() | {"inputs": schema})
    run = await Engine([call], correcting(*bad), policies=MANY).run(plan, inputs={"x": {}})
    assert (run.state, run.replans) == ("failed", 1)
    assert "corrected only once" in run.message


@pytest.mark.anyio
@pytest.mark.parametrize("how", ["bad_args", "permission", "business", "bug"])
async def test_two_in_a_row_on_the_same_thing_stop_a_loop_with_what_is_known(how: str) -> None:
    """The model gets one round more to answer, and that answer is kept (R4, R5)."""
    MADE.clear()
    model = ScriptedModel([wants(how="well"), wants(how=how), wants(how=how), "well, but not all", "never"])
    run = await create_agent(model, [call]).ainvoke("go")
    assert (run.state, run.output, len(model.requests)) == ("failed", "well, but not all", 4)
    assert "failed twice in a row" in run.message
    assert [made for made, _ in MADE] == ["well", how, how]
    assert "tools" not in model.requests[-1].options
    assert next(m.content for m in run.messages if isinstance(m, ToolMessage)) == "well"


@pytest.mark.anyio
@pytest.mark.parametrize(("how", "stops"), [("bad_args", True), ("permission", True), ("business", False)])
async def test_other_arguments_are_another_thing_only_where_they_may_help(how: str, stops: bool) -> None:
    """Bad arguments are corrected once and a refusal is one of the tool; of a no, the very same call counts."""
    MADE.clear()
    model = ScriptedModel([wants(how=how, n=1), wants(how=how, n=2), "an answer"])
    run = await create_agent(model, [call]).ainvoke("go")
    assert (run.state, run.output) == ("failed" if stops else "done", "an answer")
    assert len(MADE) == 2


@pytest.mark.anyio
async def test_at_its_end_a_run_keeps_what_is_known() -> None:
    """Budget, rounds, re-plans: whatever ends it, results and failures so far are in the run (R5)."""
    steps = [
        {"id": "a", "tool": "call", "args": {"how": "well"}},
        {"id": "b", "after": ["a"], "tool": "call", "args": {"how": "business"}},
        {"id": "c", "after": ["b"], "value": 1},
        {
            "id": "d",
            "after": ["a"],
            "each": {"$": "inputs.ways or []"},
            "tool": "call",
            "args": {"how": {"$": "item"}},
        },
    ]
    schema = {"type": "object", "properties": {"ways": {"type": "array", "default": []}}}
    plan = Plan.model_validate({"goal": "go", "steps": steps, "inputs": schema})
    runs: list[Run] = [
        await Engine([call]).run(plan),
        await Engine([call], policies=Policies(budget=Budget(tool_calls=3))).run(
            plan, inputs={"ways": ["x"] * 9}
        ),
        await Engine([call], correcting({"how": "business"}), policies=Policies(max_replans=1)).run(plan),
    ]
    for run in runs:
        assert run.state in ("failed", "stopped")
        assert (run["a"], run.failures[0][1].code) == ("well", "closed")
        assert run.message
    bounds = Policies(budget=Budget(tool_calls=1))
    loop = await create_agent(
        ScriptedModel([wants(how="well"), wants(how="more"), "x"]), [call], policies=bounds
    ).ainvoke("go")
    assert (loop.state, loop.reason) == ("stopped", "budget")
    assert "well" in [m.content for m in loop.messages]
