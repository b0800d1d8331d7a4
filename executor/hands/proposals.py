"""Asks a planner for a patch: whatever it says or does not say becomes the fields of one `ModelAnswered`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import anyio
import anyio.lowlevel

from ...planner.findings import PlanUnreadable
from ...planner.models.messages import add_usage
from ...planner.plan import Patch
from ...planner.planners import Planner
from ...planner.requests import Proposal, ReplanRequest
from ...policies.effect import Effect
from ...policies.errors import CannotPlan
from ...policies.failures import Failure, Happened, Kind
from ...policies.policies import Policies
from ...policies.retry import wait_before
from ..mind.admission import out_of_time
from ..mind.budget import plain_usage
from .crew import cancelled
from .hands import failure_of
from .turns import Clock, answering

__all__ = ["answer_of_planner", "let_through"]


async def answer_of_planner(
    planner: Planner | None,
    request: ReplanRequest,
    policies: Policies,
    dice: Callable[[], float],
    seconds_left: Callable[[], float | None],
    *,
    asks: int,
    affords: Callable[[Mapping[str, Any]], bool],
) -> dict[str, Any]:
    """What the planner said, as the fields of ModelAnswered; asked again, as `policies.retry` says, where it failed in
    passing. One that took all its time is not: it has had it. Nor is there a wait that would end after the seconds that
    are left.

    Each attempt counts, for `asks` model calls if it does not say otherwise; `affords` says whether there may be another
    after those that have used so much.
    """
    attempt, queued, spent = 1, 0.0, dict[str, Any]()
    while True:
        answer = await _said(planner, request, policies)
        failure = answer.get("failure")
        queued = answer["queued"] = answer.get("queued", 0.0) + queued
        spent = add_usage((spent, {"model_calls": asks, **(answer.get("usage") or {})})) or {}
        if attempt > 1:
            answer["usage"] = spent
        if failure is None or failure.code in _LAST:
            return answer
        wait = wait_before(policies.retry, attempt, failure=failure, effect=Effect.READS, dice=dice())
        if wait is None or not affords(spent):
            return answer
        left = seconds_left()
        if left is not None and wait >= left:
            return {**answer, "failure": out_of_time()}
        attempt += 1
        await anyio.sleep(wait)


_LAST = ("deadline", "out_of_time")
"""What another question would come to as well."""


async def _said(planner: Planner | None, request: ReplanRequest, policies: Policies) -> dict[str, Any]:
    """What the planner said when asked once."""
    seconds = policies.planner_timeout
    if planner is None:
        return {"failure": Failure(Kind.BUSINESS, "no_planner", "this engine has no planner")}
    with answering(seconds) as clock:
        answer = await _answer(planner, request, policies, clock)
    if clock.scope.cancelled_caught:
        message = f"the planner gave no answer within {seconds:g} s"
        answer = {"failure": Failure(Kind.TIMEOUT, "deadline", message, happened=Happened.NO)}
    return {**answer, "queued": clock.queued}


async def _answer(
    planner: Planner, request: ReplanRequest, policies: Policies, clock: Clock
) -> dict[str, Any]:
    try:
        return _patch_fields(await planner.replan(request))
    except CannotPlan as error:
        return {"cannot_plan": error.reason or "no reason was given", **_said_with(error)}
    except PlanUnreadable as error:
        findings = tuple(f.to_json() for f in error.findings)
        return {"findings": findings, **_said_with(error)}
    except BaseException as error:
        await let_through(error)
        usage = plain_usage(getattr(error, "usage", None)) or clock.usage
        return {"failure": failure_of(error, policies), "usage": usage}


async def let_through(error: BaseException) -> None:
    """Raise what must travel: Ctrl-C, and a cancellation from outside, also where a clean-up raised over it."""
    if isinstance(error, KeyboardInterrupt):
        raise error
    if cancelled():
        await anyio.lowlevel.checkpoint()


def _said_with(error: BaseException) -> dict[str, Any]:
    """The text of an answer that is no patch, and what it cost."""
    return {"text": getattr(error, "text", ""), "usage": plain_usage(getattr(error, "usage", None))}


def _patch_fields(said: object) -> dict[str, Any]:
    proposal = said if isinstance(said, Proposal) else Proposal(said)  # type: ignore[arg-type]
    if isinstance(proposal.document, Patch):
        said_so = {"text": proposal.text, "usage": plain_usage(proposal.usage), "notes": proposal.notes}
        return {"patch": proposal.document, **said_so}
    message = f"the planner's `replan` must give a Patch, not {type(said).__name__}"
    return {"failure": Failure(Kind.BUSINESS, "no_patch", message)}
