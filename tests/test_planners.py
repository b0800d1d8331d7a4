"""A fixed plan and rules in Python are planners like any other."""

from __future__ import annotations

from typing import Any

import pytest

from foreplan import CannotPlan, FunctionPlanner, Kind, Patch, Plan, Registry, StaticPlanner
from foreplan.planner.findings import PlanUnreadable
from foreplan.planner.planners import Planner
from foreplan.planner.requests import PlanRequest, Proposal, ReplanRequest, StepFailure, StepOutcome
from foreplan.policies.errors import BadInput
from foreplan.policies.failures import Failure

pytestmark = pytest.mark.anyio

DOCUMENT: dict[str, Any] = {"steps": [{"id": "a", "tool": "get"}, {"id": "b", "value": {"$": "a"}}]}
PLAN = Plan.model_validate(DOCUMENT)
MEND: dict[str, Any] = {"add": [{"id": "a2", "replaces": "a", "tool": "get_again"}]}
ASKED = PlanRequest("get it", Registry())


def failed(step: str, plan: Plan = PLAN) -> ReplanRequest:
    failure = StepFailure(step, (step,), "get", {}, Failure(Kind.BUSINESS, "gone", "it is gone"), 1)
    return ReplanRequest("get it", plan, Registry(), (failure,))


async def test_a_static_planner_gives_its_plan_whatever_the_goal() -> None:
    """Given as a plan or as a document, it is the same plan."""
    planners: list[Planner] = [StaticPlanner(PLAN), StaticPlanner(DOCUMENT)]
    assert [await planner.plan(ASKED) for planner in planners] == [PLAN, PLAN]


async def test_a_static_planner_gives_the_first_patch_that_fits() -> None:
    """Which patch it is follows from the failures, so the planner need not remember what it gave."""
    planner = StaticPlanner(PLAN, [{"add": [{"id": "b2", "replaces": "b", "value": 1}], "drop": ["a"]}, MEND])
    assert await planner.replan(failed("a")) == Patch.model_validate(MEND)
    assert await planner.replan(failed("a")) == Patch.model_validate(MEND)
    assert (await planner.replan(failed("b"))).drop == ["a"]


async def test_a_static_planner_does_not_repeat_a_patch_that_is_in_the_plan() -> None:
    """Once its steps are there, a patch fits no more; with no other, the planner cannot."""
    plan = Plan.model_validate({"steps": [*DOCUMENT["steps"], MEND["add"][0]]})
    with pytest.raises(CannotPlan, match=r"no patch is laid ready for what failed \(a2\)"):
        await StaticPlanner(PLAN, [MEND]).replan(failed("a2", plan))


async def test_a_patch_does_not_fit_if_it_replaces_a_step_that_is_well() -> None:
    """Only failed steps, and those that never ran, may be replaced."""
    request = ReplanRequest("get it", PLAN, Registry(), failed("b").failures, (StepOutcome("a", "ok"),))
    with pytest.raises(CannotPlan):
        await StaticPlanner(PLAN, [MEND]).replan(request)


async def test_a_static_plan_that_is_no_plan_is_refused_when_it_is_given() -> None:
    """A typo in a laid-down plan is found at once, not at the first failure."""
    with pytest.raises(PlanUnreadable, match="did you mean 'tool'"):
        StaticPlanner({"steps": [{"id": "a", "toool": "get"}]})
    with pytest.raises(PlanUnreadable):
        StaticPlanner(PLAN, [{"added": []}])


async def _later(request: PlanRequest) -> dict[str, Any]:
    return DOCUMENT


@pytest.mark.parametrize("rule", [lambda request: PLAN, lambda request: DOCUMENT, _later])
async def test_a_rule_may_give_a_plan_or_its_document_now_or_later(rule: Any) -> None:
    """Sync and async rules alike."""
    assert await FunctionPlanner(plan=rule).plan(ASKED) == PLAN


async def test_a_rule_sees_the_request() -> None:
    """The goal and the failures arrive as they are."""
    planner = FunctionPlanner(
        plan=lambda request: {"steps": [{"id": "a", "value": request.goal}]},
        replan=lambda request: MEND if request.failures[0].failure.code == "gone" else None,
    )
    assert (await planner.plan(ASKED)).steps[0].value == "get it"  # type: ignore[union-attr]
    assert await planner.replan(failed("a")) == Patch.model_validate(MEND)


async def test_a_rule_may_give_a_proposal() -> None:
    """With the text and cost of whatever stands behind the rule."""
    planner = FunctionPlanner(plan=lambda request: Proposal(DOCUMENT, "said", {"input_tokens": 3}))  # type: ignore[arg-type]
    assert await planner.plan(ASKED) == Proposal(PLAN, "said", {"input_tokens": 3})


def _refuse(request: ReplanRequest) -> None:
    raise CannotPlan("by exception")


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        (lambda request: "by text", "by text"),
        (_refuse, "by exception"),
        (lambda request: None, "no rule applies"),
    ],
)
async def test_a_rule_may_say_that_it_cannot(rule: Any, reason: str) -> None:
    """As a text, as the exception, or by giving nothing."""
    with pytest.raises(CannotPlan) as declined:
        await FunctionPlanner(replan=rule).replan(failed("a"))
    assert declined.value.reason == reason


async def test_a_rule_that_gives_no_plan_is_told_so() -> None:
    """A broken document has findings; another type is a sentence."""
    with pytest.raises(PlanUnreadable):
        await FunctionPlanner(plan=lambda request: {"stepps": []}).plan(ASKED)
    with pytest.raises(BadInput, match="not with list"):
        await FunctionPlanner(plan=lambda request: []).plan(ASKED)
    with pytest.raises(BadInput, match="not with Plan"):
        await FunctionPlanner(replan=lambda request: PLAN).replan(failed("a"))


async def test_a_missing_half_says_what_to_give() -> None:
    """A planner with one rule cannot do the other's work, and says how it could."""
    with pytest.raises(CannotPlan, match="give it a rule `plan`"):
        await FunctionPlanner(replan=lambda request: MEND).plan(ASKED)
    with pytest.raises(CannotPlan, match="give it a rule `replan`"):
        await FunctionPlanner(plan=lambda request: PLAN).replan(failed("a"))


def test_planners_say_what_they_are() -> None:
    """Containers with manners."""
    assert repr(StaticPlanner(PLAN, [MEND])) == "<StaticPlanner of 2 steps and 1 patches>"
    assert repr(FunctionPlanner(plan=lambda request: PLAN)) == "<FunctionPlanner of plan>"
