"""The part of an engine before anything runs: which tools are shown, the planner's answers, check and review.

goal -> tools that fit it -> the planner -> a plan that checks
                                 ^  |
                                 |  +-- findings, within bounds and budget
                                 +----- more tools, once, where it cannot with those it saw
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import anyio

from ..planner.approvals import tools_of
from ..planner.checking import check
from ..planner.findings import CheckFailed, Finding, PlanUnreadable, Report
from ..planner.models.chat import ChatModel
from ..planner.plan import Plan
from ..planner.planners import Planner
from ..planner.react import React
from ..planner.requests import PlanRequest, Proposal
from ..planner.reviewing import Review, review
from ..planner.route import MANY, Route, route
from ..policies.effect import Effect
from ..policies.errors import BadInput, CannotPlan, expect
from ..policies.permissions import Principal
from ..policies.policies import Policies
from ..policies.retry import wait_before
from ..registry.registry import Registry
from .blocking import first_error
from .hands.hands import failure_of
from .hands.limits import Limiter
from .hands.safe import Safe
from .hands.turns import Turns, answering, in_turn
from .mind.budget import Used, add, add_usage, bound_text, plain_usage, planner_short_of
from .runtime import Host
from .shelf import Shelf

__all__ = ["Planning", "asks_models", "model_calls_of"]

_MOST_PLANS = 1000
"""So many plans are remembered with their cost until they are run."""
_LOG = logging.getLogger("foreplan")


class Planning:
    """Tools, a planner and rules: what `Engine` does before a run."""

    registry: Registry
    policies: Policies
    principal: Principal
    _host: Host
    _react: React | None
    _safe: Safe
    _shelf: Shelf
    _spent: dict[str, Used]
    """What making a plan has used, by its digest, until a run is charged with it."""

    def check(self, plan: Plan, *, batch: bool = False) -> Report:
        """Everything that is wrong with a plan (or with it as the plan of a batch), in one pass; runs no tool code."""
        return check(plan, self.registry, self.policies, principal=self.principal, batch=batch)

    def review(self, plan: Plan, *, inputs: Mapping[str, Any] | None = None, batch: bool = False) -> Review:
        """Every call, effect, permission, approval and bound of a plan, for people; runs no tool code.

        `batch`: of one row of a batch, with what all rows share.
        """
        return review(
            plan, self.registry, self.policies, inputs=inputs, principal=self.principal, batch=batch
        )

    async def plan(self, goal: str, *, inputs: Mapping[str, Any] | None = None) -> Plan:
        """A checked plan for this goal. `inputs` is the JSON Schema of what the plan is to be run with.

        A failure that may pass (the network, a service that is down) is waited out and asked again, as `policies.retry` says.
        Findings go back to the planner, at most `policies.max_repairs` times and within the budget; what it used is
        charged to the run that runs the plan first. Raises `CannotPlan`, `PlanUnreadable`, `CheckFailed` (the last
        answer's findings), `BadInput` where there is no planner or it gives no answer in time.
        """
        return await self._plan(goal, inputs)

    async def route(self, goal: str, *, model: ChatModel | None = None) -> Route:
        """Whether a goal wants an answer, a loop with a model, or a plan; and the tools for it.

        By rules first; the model is asked once where they are unsure. No answer in time is a plan.
        """
        expect(str, goal, "the goal")
        await self._learn()
        self._safe.expect_none("the goal", goal)
        tools = await self._shown(None, goal)
        with in_turn(self._turns), answering(self.policies.planner_timeout):
            return await route(goal, tools, model=model, most=None)
        return Route("plan", tools, "the model gave no answer in time")

    async def _plan(
        self,
        goal: str,
        inputs: Mapping[str, Any] | None,
        arrived: Callable[[dict[str, Any]], None] | None = None,
    ) -> Plan:
        telemetry = self._host.telemetry
        seen = telemetry.planning(self._safe.scrubber) if telemetry is not None else nullcontext()
        with seen, in_turn(self._turns):
            return await self._made(goal, inputs, arrived)

    async def _made(
        self,
        goal: str,
        inputs: Mapping[str, Any] | None,
        arrived: Callable[[dict[str, Any]], None] | None,
    ) -> Plan:
        planner = self._host.planner
        if planner is None:
            raise BadInput("this engine has no planner; give one: Engine(registry, planner=...)")
        expect(str, goal, "the goal")
        if inputs is not None:
            expect(Mapping, inputs, "the schema of the inputs")
        await self._learn()
        self._safe.expect_none("the goal", [goal, inputs])
        heard: list[bool] = []

        def hear(step: dict[str, Any]) -> None:
            assert arrived is not None
            heard.append(True)
            arrived(step)

        request = PlanRequest(
            goal=goal,
            tools=await self._shown(planner, goal),
            inputs=dict(inputs) if inputs is not None else None,
            arrived=hear if arrived is not None else None,
        )
        spent, problem, answers, failed = Used(), None, 0, 0
        while problem is None or answers <= self.policies.max_repairs:
            self._may_ask(planner, spent, problem)
            try:
                answer, usage = await self._ask(planner, request)
            except CannotPlan as error:
                spent = add_usage(
                    spent, plain_usage(getattr(error, "usage", None)), asks=model_calls_of(planner)
                )
                request = await self._widened(planner, request, error)
                continue
            except Exception as error:
                failed += 1
                await self._rest(failed, error, heard)
                usage = plain_usage(getattr(error, "usage", None))
                spent = add_usage(spent, usage, asks=model_calls_of(planner))
                continue
            answers, failed = answers + 1, 0
            spent = add_usage(spent, usage, asks=model_calls_of(planner))
            if isinstance(answer, Plan):
                self._keep_spent(answer, spent)
                self._shelf.keep(answer, request.tools)
                return answer
            request, problem = answer
        raise problem

    async def _rest(self, failed: int, error: Exception, heard: Collection[bool]) -> None:
        """Wait before the planner is asked once more. Raises what it raised where that would not help, and where a step
        of its answer was acted upon."""
        wait = None
        if not heard and not isinstance(error, BadInput):
            failure, retry = failure_of(error, self.policies), self.policies.retry
            wait = wait_before(retry, failed, failure=failure, effect=Effect.READS, dice=self._host.dice())
        if wait is None:
            raise error
        _LOG.info("the planner failed and is asked again in %g s: %s", wait, error)
        await anyio.sleep(wait)

    async def _widened(self, planner: Planner, request: PlanRequest, said: CannotPlan) -> PlanRequest:
        """The question once more, with more tools. Raises what the planner said where there are no more, or were more already."""
        more = await self._shown(planner, request.goal, wider=True)
        if len(more) <= len(request.tools):
            raise said
        return PlanRequest(request.goal, more, request.inputs)

    async def _ask(
        self, planner: Planner, request: PlanRequest
    ) -> tuple[Plan | tuple[PlanRequest, PlanUnreadable | CheckFailed], Mapping[str, Any] | None]:
        """One answer of the planner: a plan that checks, or the next request with what is wrong; and what it cost."""
        try:
            with answering(self.policies.planner_timeout) as clock:
                said = await planner.plan(request)
        except PlanUnreadable as error:
            mend = _repair(request, getattr(error, "text", ""), error.findings)
            return (mend, error), plain_usage(getattr(error, "usage", None))
        if clock.scope.cancelled_caught:
            raise BadInput(f"the planner gave no answer within {self.policies.planner_timeout:g} s")
        proposal = said if isinstance(said, Proposal) else Proposal(said)
        usage = plain_usage(proposal.usage)
        plan = proposal.document
        for note in proposal.notes:
            _LOG.info("the planner's answer was put right: %s", note)
        if not isinstance(plan, Plan):
            raise BadInput(f"the planner's `plan` must give a Plan, not {type(plan).__name__}")
        report = self.check(plan)
        if report.ok:
            return plan, usage
        text = proposal.text or json.dumps(plan.to_json(), ensure_ascii=False)
        return (_repair(request, text, report.errors), CheckFailed(report)), usage

    def _may_ask(self, planner: Planner, spent: Used, problem: Exception | None) -> None:
        """Raises `CannotPlan` where the budget allows no question (more) to the planner."""
        budget, asks = self.policies.budget, model_calls_of(planner)
        short = planner_short_of(budget, spent, asks=asks, costs=spent.cost > 0)
        if short:
            so_far = f", and no answer was a plan that checks: {problem}" if problem is not None else ""
            raise CannotPlan(f"the budget of {bound_text(budget, short)} is used up{so_far}") from problem

    def _keep_spent(self, plan: Plan, spent: Used) -> None:
        """Keep what a plan has cost, for the run that runs it first."""
        before = self._spent.pop(plan.digest, Used())
        self._spent[plan.digest] = spent._replace(
            model_calls=before.model_calls + spent.model_calls,
            tokens=before.tokens + spent.tokens,
            cost=add(before.cost, spent.cost),
        )
        while len(self._spent) > _MOST_PLANS:
            del self._spent[next(iter(self._spent))]

    async def _shown(
        self, planner: Planner | None, goal: str, *, always: Iterable[str] = (), wider: bool = False
    ) -> Registry:
        """The tools that are shown for a goal; to a planner that asks no model, all that the principal may call."""
        if planner is not None and not asks_models(planner):
            return self._callable()
        most = self.policies.tools_shown
        if wider and most is not None:
            most = max(2 * most, MANY) if len(self._callable()) > MANY else None
        return await self._shelf.choose(
            goal,
            self.registry,
            self.principal,
            most=most,
            always=always,
            filled=wider,
            max_level=self.policies.max_level,
            seconds=self.policies.planner_timeout,
        )

    async def _shown_for(self, plan: Plan) -> Registry:
        """The tools that models are shown in a run of this plan: those it was made of, else those that fit its goal."""
        used = tools_of(plan)
        if not asks_models(self._host.planner) and self._react is None:
            return self.registry
        kept = [name for name in self._shelf.kept(plan) if name in self.registry]
        if kept:
            return self.registry.only(names={*kept, *used})
        return await self._shown(None, plan.goal or " ".join(used), always=used)

    def _known(self, shown: Registry, used: Iterable[str]) -> Registry:
        """The tools that a run knows of: all there are, unless some were left out when they were chosen."""
        if all(tool.name in shown for tool in self._callable()):
            return self.registry
        return self.registry.only(names={*shown.names, *used})

    def _callable(self) -> Registry:
        """The tools that may be called: all that planners, models and searches are shown."""
        return self.registry.only(permitted=self.principal, max_level=self.policies.max_level)

    @property
    def _turns(self) -> Turns:
        """The turns of questions to models before a run begins."""
        limiter = self._host.limiter or Limiter(self._host.clock, self._host.dice)
        return Turns(self.policies, limiter)

    async def _learn(self) -> None:
        """Get to know the secrets of all tools, so that none is written down that another tool tells."""
        with first_error():
            await self._safe.learn(self.registry)


def model_calls_of(planner: Planner | None) -> int:
    """How many model calls one question to this planner is taken for."""
    said = getattr(planner, "model_calls", 1)
    return said if type(said) is int and said >= 0 else 1


def asks_models(planner: Planner | None) -> bool:
    """Whether this planner asks a model, which reads what it is shown; rules know their tools."""
    return planner is not None and model_calls_of(planner) > 0


def _repair(request: PlanRequest, text: str, findings: tuple[Finding, ...]) -> PlanRequest:
    return replace(request, previous=text, findings=findings)
