"""Public plans in which calls fail on purpose: recorded answers are replayed, failures are values, nothing is done twice.

The ten tasks of taubench whose gold plan has a step with an `error`. A tool says it in one of two ways: it raises, or it
answers with the text of the error, which a declared `soft_failure` recognises.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import pytest
from support.datasets import DATA, Case, load_taubench, registry_of

from foreplan import (
    CannotPlan,
    Effect,
    Engine,
    FunctionPlanner,
    Kind,
    Patch,
    Plan,
    Policies,
    Run,
    ToolFailure,
)
from foreplan.executor.agent import create_agent
from foreplan.executor.events import Outcome
from foreplan.planner.models.messages import AIMessage, ToolCall, ToolMessage
from foreplan.planner.models.scripted import ScriptedModel
from foreplan.planner.plan import Step
from foreplan.planner.requests import ReplanRequest
from foreplan.registry.registry import Registry

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not (DATA / "taubench").exists(), reason="the public data are not beside the project"),
]

FREE = Policies(approve="never", max_replans=9)
SAYS_ERROR = "result if str(result).startswith('Error:') else None"
WAYS = ("raised", "soft")
READING = ("get_", "find_", "list_", "search_", "calculate", "think")
Made = list[tuple[str, str]]


def failing_cases() -> list[Case]:
    if not (DATA / "taubench").exists():
        return []
    return [case for case in load_taubench() if any(map(_error, case.item["plan"]["steps"]))]


def _error(step: dict[str, Any]) -> Any:
    return step["error"]


CASES = failing_cases()
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.item["id"])
every_way = pytest.mark.parametrize("way", WAYS)


class Replay:
    """The tools of a case, answering what was recorded; `made` is every call."""

    def __init__(self, case: Case, way: str) -> None:
        self.made: Made = []
        self.gold = {step["id"]: step for step in case.item["plan"]["steps"]}
        self.answers = {call_of(step): step for step in self.gold.values()}
        self.way = way
        tools = registry_of(case.tools, self._call, soft_failure=SAYS_ERROR if way == "soft" else None)
        self.tools = Registry(*(self._with_effect(tool) for tool in tools))

    def _with_effect(self, tool: Any) -> Any:
        return replace(tool, effect=Effect.READS if tool.name.startswith(READING) else Effect.ACTS)

    def _call(self, name: str) -> Callable[..., Any]:
        async def call(args: dict[str, Any]) -> Any:
            self.made.append((name, exact(args)))
            step = self.answers[name, exact(args)]
            if step["error"] and self.way == "raised":
                raise ToolFailure(step["error"])
            return step["output"]

        return call

    @property
    def failing(self) -> list[str]:
        """The ids of the steps that fail, in the order of the plan."""
        return [id for id, step in self.gold.items() if step["error"]]

    def calls(self, *ids: str) -> Made:
        """The calls of these steps, or of all."""
        return [call_of(self.gold[id]) for id in ids or self.gold]


def exact(args: Any) -> str:
    return json.dumps(args, sort_keys=True)


def call_of(step: dict[str, Any]) -> tuple[str, str]:
    return step["tool"], exact(step["args_literal"])


def as_recorded(run: Run, replay: Replay, failed: list[str]) -> None:
    """What failed failed as recorded; whatever else was run gave what was recorded."""
    code = "refused" if replay.way == "raised" else "soft_failure"
    assert [id for id, step in run.steps.items() if step.outcome is Outcome.FAILED] == failed
    for id in failed:
        failure = run.steps[id].failure
        assert failure is not None
        assert (failure.kind, failure.code, failure.untrusted) == (Kind.BUSINESS, code, True)
        assert failure.message == replay.gold[id]["error"]
    for id, step in run.steps.items():
        assert step.outcome is not Outcome.OK or step.value == replay.gold[id]["output"]


def test_there_are_ten_such_tasks() -> None:
    """So that a change of the loader does not empty these tests."""
    assert len(CASES) == 10


@every_case
@every_way
async def test_what_fails_is_a_value_and_every_other_call_is_made(case: Case, way: str) -> None:
    """Exactly the gold calls, each as often as the plan holds it: no retry, no sibling lost (C1)."""
    replay = Replay(case, way)
    run = await Engine(replay.tools, policies=FREE).run(case.plan)
    assert (run.state, run.tool_calls) == ("failed", len(replay.gold))
    assert Counter(replay.made) == Counter(replay.calls())
    as_recorded(run, replay, replay.failing)
    assert all(step.outcome in (Outcome.OK, Outcome.FAILED) for step in run.steps.values())
    assert replay.gold[replay.failing[0]]["error"] in run.message


def chained(steps: Sequence[Step], **first: Any) -> list[Step]:
    """These steps, each after the one before it; the first with these fields."""
    befores = [[], *([step.id] for step in steps)]
    found = [step.model_copy(update={"after": before}) for step, before in zip(steps, befores, strict=False)]
    return [found[0].model_copy(update=first), *found[1:]] if found else []


def in_order(plan: Plan, *, skip: Collection[str] = ()) -> Plan:
    """The plan one step after the other; those in `skip` may fail."""
    steps = [
        step.model_copy(update={"on_failure": "skip"}) if step.id in skip else step
        for step in chained(plan.steps)
    ]
    return Plan.model_validate(plan.to_json() | {"steps": [step.to_json() for step in steps]})


@every_case
@every_way
async def test_what_waits_for_a_failed_step_is_blocked(case: Case, way: str) -> None:
    """In order, nothing after the first failure is called; blocked is blocked (P12)."""
    replay = Replay(case, way)
    first = replay.failing[0]
    ids = list(replay.gold)
    until = ids[: ids.index(first) + 1]
    run = await Engine(replay.tools, policies=FREE).run(in_order(case.plan))
    assert replay.made == replay.calls(*until)
    as_recorded(run, replay, [first])
    blocked = [id for id, step in run.steps.items() if step.outcome is Outcome.BLOCKED]
    assert (run.state, blocked) == ("failed", ids[len(until) :])


@every_case
@every_way
async def test_what_may_fail_is_null_and_the_plan_goes_on(case: Case, way: str) -> None:
    """With `on_failure: skip` on the steps that fail, the same calls are made, in order, and the run is done."""
    replay = Replay(case, way)
    plan = in_order(case.plan, skip=replay.failing)
    run = await Engine(replay.tools, policies=FREE).run(plan)
    assert (run.state, replay.made) == ("done", replay.calls())
    as_recorded(run, replay, replay.failing)
    assert [run[id] for id in replay.failing] == [None] * len(replay.failing)


class Following:
    """A planner that goes on with the gold plan: after a failure, the steps up to the next one, the first in its place.

    With `careful`, a step whose call failed before, as it was told, is left out: `left_out`.
    """

    def __init__(self, case: Case, *, careful: bool) -> None:
        self.steps = list(case.plan.steps)
        self.gold = {step["id"]: step for step in case.item["plan"]["steps"]}
        self.careful = careful
        self.failed: set[tuple[str, str]] = set()
        self.left_out: list[str] = []
        self.asked = 0

    def first(self) -> Plan:
        return Plan(goal="as recorded", steps=chained(self._next()))

    def replan(self, request: ReplanRequest) -> Patch:
        self.asked += 1
        self.failed |= {(f.tool, exact(f.args)) for f in request.failures}
        (broken,) = request.failed
        assert self.gold[broken]["error"]
        rest = self._next()
        if not rest:
            raise CannotPlan("the recorded plan ends here")
        return Patch(add=chained(rest, replaces=broken))

    def _next(self) -> list[Step]:
        """The following steps up to one that fails."""
        found: list[Step] = []
        while self.steps and not (found and self.gold[found[-1].id]["error"]):
            step = self.steps.pop(0)
            if self.careful and call_of(self.gold[step.id]) in self.failed:
                self.left_out.append(step.id)
            else:
                found.append(step)
        return found


@every_case
@every_way
async def test_a_re_plan_goes_on_after_the_failure_and_repeats_nothing(case: Case, way: str) -> None:
    """The following steps of the gold plan come as patches: every call is made once, in the order of the plan (P12)."""
    replay = Replay(case, way)
    planner = Following(case, careful=True)
    engine = Engine(replay.tools, FunctionPlanner(replan=planner.replan), policies=FREE)
    run = await engine.run(planner.first())
    ids = [id for id in replay.gold if id not in planner.left_out]
    failing = [id for id in replay.failing if id in ids]
    assert replay.made == replay.calls(*ids)
    as_recorded(run, replay, failing)
    ends_failing = replay.gold[ids[-1]]["error"]
    assert run.state == ("stopped" if ends_failing else "done")
    assert (run.replans, planner.asked) == (len(failing), len(failing))
    if not ends_failing:
        assert all(run.steps[id].replaced for id in failing)


async def test_a_patch_with_a_call_that_failed_before_ends_there() -> None:
    """One gold plan holds the same failing call twice: made again by a patch, it stops its lineage, explained (R4)."""
    (case,) = [c for c in CASES if len({call_of(s) for s in c.item["plan"]["steps"] if s["error"]}) == 2]
    replay = Replay(case, "raised")
    planner = Following(case, careful=False)
    engine = Engine(replay.tools, FunctionPlanner(replan=planner.replan), policies=FREE)
    run = await engine.run(planner.first())
    until = list(replay.gold)[: list(replay.gold).index(replay.failing[-1]) + 1]
    assert (run.state, replay.made) == ("failed", replay.calls(*until))
    assert "failed again as before" in run.message
    assert [run[id] for id in until if not replay.gold[id]["error"]] == [
        replay.gold[id]["output"] for id in until if not replay.gold[id]["error"]
    ]


@every_case
@every_way
async def test_a_model_in_a_loop_makes_the_same_calls_and_hears_the_same_failures(
    case: Case, way: str
) -> None:
    """One call a round, literal arguments: each is made once and answered, and what failed is told as that kind."""
    replay = Replay(case, way)
    gold = list(replay.gold.values())
    rounds = [
        AIMessage("", tool_calls=(ToolCall(step["id"], step["tool"], step["args_literal"]),)) for step in gold
    ]
    model = ScriptedModel([*rounds, "all done"])
    run = await create_agent(model, replay.tools, max_rounds=len(gold) + 1, policies=FREE).ainvoke("go")
    assert (run.state, run.output, replay.made) == ("done", "all done", replay.calls())
    told = {m.tool_call_id: m for m in run.messages if isinstance(m, ToolMessage)}
    assert [id for id, message in told.items() if message.failed] == replay.failing
    for id in replay.failing:
        said = json.loads(told[id].content)
        assert (said["ok"], said["error_type"]) == (False, "business")
        assert said["tool_says"] == replay.gold[id]["error"]
