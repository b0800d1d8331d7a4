"""A rehearsal: the plan runs for show, with stand-ins in the place of tools, on a journal that nobody keeps.

    a tool with `simulate`            its stand-in is called
    a tool that only reads            is called itself, if that was asked for
    a plan as a tool                  is rehearsed too
    a tool that a person answers      asks
    any other                         fails as `not_simulated`: a result is not made up

Everything else is as in a run: types, limits, budget, permissions, retries, what a failure blocks. Secrets, approvals and
the journal are not touched, and there is no re-plan.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable

from ..planner.subplans import Subplan
from ..policies.effect import Effect
from ..policies.policies import Policies
from ..policies.text import count
from ..registry.registry import Registry
from ..registry.standins import not_simulated, simulating
from ..registry.tools import Tool
from .events import CallAdmitted, Event
from .run import Run

__all__ = ["as_rehearsed", "rehearsal_policies", "rehearsed"]


def rehearsed(registry: Registry, *, reads: bool) -> Registry:
    """The same tools, each as a rehearsal calls it."""
    return Registry(*(_rehearsed(tool, reads) for tool in registry))


def _rehearsed(tool: Tool, reads: bool) -> Tool:
    if isinstance(tool.function, Subplan):
        inside = Subplan(tool.function.plan, rehearsed(tool.function.tools, reads=reads))
        return dataclasses.replace(tool, function=inside, requires_approval=False)
    if tool.answered_by == "person":
        return tool
    if tool.simulate is not None:
        return simulating(tool)
    if reads and tool.effect is Effect.READS:
        return dataclasses.replace(tool, requires_approval=False)
    return not_simulated(tool, hint="or rehearse with reads" if tool.effect is Effect.READS else "")


def rehearsal_policies(policies: Policies) -> Policies:
    """The same rules, but that nobody need approve what is not done."""
    return policies.model_copy(update={"approve": "never", "approve_from": None, "fallback": False})


def as_rehearsed(run: Run, events: Iterable[Event], tools: Registry) -> Run:
    """The run, saying clearly what it was."""
    done = Counter(_how(event.tool, tools) for event in events if isinstance(event, CallAdmitted))
    told = [f"{count(done['simulated'], 'call was', 'calls were')} simulated"]
    if done["read"]:
        told.append(f"{count(done['read'], 'call', 'calls')} really read")
    if done["missing"]:
        told.append(f"{count(done['missing'], 'call has', 'calls have')} no stand-in")
    message = f"a rehearsal, in which nothing was changed ({', '.join(told)}): {run.message}"
    return dataclasses.replace(run, rehearsal=True, message=message)


def _how(name: str, tools: Registry) -> str:
    tool = tools.get(name)
    if tool is None or isinstance(tool.function, Subplan):
        return "inside"  # a sub-plan's own tools are told of where it is rehearsed by itself
    if tool.simulate is not None:
        return "simulated"
    return "read" if tool.effect is Effect.READS else "missing"
