"""Who makes plans: a fixed plan, rules in Python, or a model (`model_planner.py`). All answer the same two questions.

    plan(PlanRequest)      -> Plan,  or CannotPlan(reason)
    replan(ReplanRequest)  -> Patch, or CannotPlan(reason)

A planner keeps nothing between two requests. What it answers is checked by whoever asked; an answer that does not
check comes back with `previous` and `findings`, as often as the policy `max_repairs` says.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from ..policies.errors import BadInput, CannotPlan
from ..policies.spelling import spelled
from ..policies.text import shorten
from .documents import patch_from, plan_from
from .plan import Patch, Plan
from .requests import PlanRequest, Proposal, ReplanRequest

__all__ = ["FunctionPlanner", "Planner", "StaticPlanner"]


class Planner(Protocol):
    """Makes plans and mends them. Raises `CannotPlan` where it cannot, `PlanUnreadable` where its answer is no plan.

    One question to it is taken for one model call of the budget, unless an attribute `model_calls` says how many.
    """

    async def plan(self, request: PlanRequest) -> Plan | Proposal: ...

    async def replan(self, request: ReplanRequest) -> Patch | Proposal: ...


@spelled
class StaticPlanner:
    """Always the same plan, and the first of its patches that fits the failures.

    A patch fits if it drops only steps that have not run, replaces only steps that failed, and adds none that is
    there already. Plans and patches may be given as documents.
    """

    model_calls = 0

    def __init__(
        self, plan: Plan | Mapping[str, Any], patches: Iterable[Patch | Mapping[str, Any]] = ()
    ) -> None:
        self._plan = _as_plan(plan)
        self._patches = tuple(_as_patch(patch) for patch in patches)

    async def plan(self, request: PlanRequest) -> Plan:
        """The plan, whatever the goal."""
        return self._plan

    async def replan(self, request: ReplanRequest) -> Patch:
        """The first patch that fits."""
        for patch in self._patches:
            if _fits(patch, request):
                return patch
        failed = ", ".join(request.failed) or "nothing"
        raise CannotPlan(f"the plan is fixed, and no patch is laid ready for what failed ({failed})")

    def __repr__(self) -> str:
        return f"<StaticPlanner of {len(self._plan.steps)} steps and {len(self._patches)} patches>"


@spelled
class FunctionPlanner:
    """Rules in Python: a planner that needs no model.

    `plan` and `replan` are functions, sync or async, of a request. They give a plan or patch, its document as a dict,
    a `Proposal`, or text that says why they cannot (None: no rule applies); they may raise `CannotPlan` themselves.
    Sync rules run in the event loop, so they should be quick. A rule that asks a model says so with a `Proposal`
    whose `usage` holds `model_calls`.
    """

    model_calls = 0

    def __init__(
        self,
        plan: Callable[[PlanRequest], Any] | None = None,
        replan: Callable[[ReplanRequest], Any] | None = None,
    ) -> None:
        for name, rule in (("plan", plan), ("replan", replan)):
            if rule is not None and not callable(rule):
                raise BadInput(
                    f"the rule `{name}` is a function of a request, not {shorten(repr(rule), 60)}; "
                    f"StaticPlanner holds a plan that is always the same"
                )
        self._plan = plan
        self._replan = replan

    async def plan(self, request: PlanRequest) -> Plan | Proposal:
        """What the rule `plan` gives."""
        if self._plan is None:
            raise CannotPlan("this planner only mends plans; give it a rule `plan`, or hand in a plan")
        answer = await _said(self._plan(request))
        if isinstance(answer, Proposal):
            return answer._replace(document=_as_plan(answer.document))
        return _as_plan(answer)

    async def replan(self, request: ReplanRequest) -> Patch | Proposal:
        """What the rule `replan` gives."""
        if self._replan is None:
            raise CannotPlan("this planner only makes plans; give it a rule `replan` to mend one that failed")
        answer = await _said(self._replan(request))
        if isinstance(answer, Proposal):
            return answer._replace(document=_as_patch(answer.document))
        return _as_patch(answer)

    def __repr__(self) -> str:
        rules = [name for name, rule in (("plan", self._plan), ("replan", self._replan)) if rule is not None]
        return f"<FunctionPlanner of {' and '.join(rules) or 'no rule'}>"


async def _said(answer: Any) -> Any:
    if inspect.isawaitable(answer):
        answer = await answer
    if answer is None:
        raise CannotPlan("no rule applies")
    if isinstance(answer, str):
        raise CannotPlan(answer)
    return answer


def _as_plan(answer: Any) -> Plan:
    if isinstance(answer, Plan):
        return answer
    if isinstance(answer, Mapping):
        return plan_from(dict(answer))
    raise BadInput(
        f"a planner answers with a plan, its document or a reason, not with {type(answer).__name__}"
    )


def _as_patch(answer: Any) -> Patch:
    if isinstance(answer, Patch):
        return answer
    if isinstance(answer, Mapping):
        return patch_from(dict(answer))
    raise BadInput(
        f"a planner mends with a patch, its document or a reason, not with {type(answer).__name__}"
    )


def _fits(patch: Patch, request: ReplanRequest) -> bool:
    replaced = {step.replaces for step in patch.add if step.replaces is not None}
    fresh = all(step.id not in request.plan.by_id for step in patch.add)
    mendable = {*request.failed, *request.unsettled}
    return fresh and replaced <= mendable and set(patch.drop) <= set(request.unsettled)
