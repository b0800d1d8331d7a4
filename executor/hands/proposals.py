"""Asks a planner for a patch: whatever it says or does not say becomes the fields of one `ModelAnswered`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel

from ...planner.findings import PlanUnreadable
from ...planner.plan import Patch
from ...planner.planners import Planner
from ...planner.requests import Proposal, ReplanRequest
from ...policies.effect import Effect
from ...policies.errors import CannotPlan
from ...policies.failures import Failure, Happened, Kind
from ...policies.policies import Policies
from ...policies.retry import wait_before
from ..mind.budget import plain_usage
from .hands import cancelled, failure_of

__all__ = ["answer_of_planner", "let_through"]


async def answer_of_planner(
    planner: Planner | None, request: ReplanRequest, policies: Policies, dice: Callable[[], float]
) -> dict[str, Any]:
    """What the planner said, as the fields of ModelAnswered; asked again, as `policies.retry` says, where it failed in
    passing. One that took all its time is not: it has had it."""
    attempt = 1
    while True:
        answer = await _said(planner, request, policies)
        failure = answer.get("failure")
        if failure is None or failure.code == "deadline":
            return answer
        wait = wait_before(policies.retry, attempt, failure=failure, effect=Effect.READS, dice=dice())
        if wait is None:
            return answer
        attempt += 1
        await anyio.sleep(wait)


async def _said(planner: Planner | None, request: ReplanRequest, policies: Policies) -> dict[str, Any]:
    """What the planner said when asked once."""
    seconds = policies.planner_timeout
    if planner is None:
        return {"failure": Failure(Kind.BUSINESS, "no_planner", "this engine has no planner")}
    said: object = None
    try:
        with anyio.move_on_after(seconds) as scope:
            said = await planner.replan(request)
        if scope.cancelled_caught:
            message = f"the planner gave no answer within {seconds:g} s"
            return {"failure": Failure(Kind.TIMEOUT, "deadline", message, happened=Happened.NO)}
    except CannotPlan as error:
        return {"cannot_plan": error.reason or "no reason was given", **_said_with(error)}
    except PlanUnreadable as error:
        findings = tuple(f.to_json() for f in error.findings)
        return {"findings": findings, **_said_with(error)}
    except BaseException as error:
        await let_through(error)
        usage = plain_usage(getattr(error, "usage", None))
        return {"failure": failure_of(error, policies), "usage": usage}
    return _patch_fields(said)


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
