"""A row of a batch is a run of which all but the inputs is common to all rows: plan, rules, principal, shared results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ...planner.approvals import calls_of
from ...planner.bounds import rules_of
from ...planner.plan import Patch, Plan
from ...policies.batches import BatchRules, row_policies
from ...policies.failures import Failure
from ...policies.permissions import Principal
from ...policies.policies import Budget, Policies
from ...registry.registry import Registry
from ...registry.tools import Tool
from ..events import BatchOpened, GroupSettled, Outcome
from .program import Program, compile_plan

__all__ = [
    "SHARED",
    "Common",
    "Mended",
    "Shared",
    "common_of",
    "of_shared",
    "paced_tools",
    "patches_of",
    "shared_id",
    "with_tools",
]

SHARED = "shared"
"""What stands in the id of the run of what all rows share, in the place of an ordinal."""


class Shared(NamedTuple):
    """How a step ended that all rows share."""

    outcome: Outcome
    value: Any = None
    failure: Failure | None = None
    reason: str = ""


class Mended:
    """A patch with which all rows of a group go on, and what it makes of the plan: the same in each of them."""

    __slots__ = ("patch", "program")

    def __init__(self, patch: Patch) -> None:
        self.patch = patch
        self.program: Program | None = None
        """Made when the first of them takes it."""


class Common(NamedTuple):
    """What all rows of a batch go by. Made once; no row changes it."""

    batch: str
    registry: Registry
    tools: Mapping[str, Tool]
    program: Program
    ids: frozenset[str]
    principal: Principal
    policies: Policies
    rules: BatchRules
    contracts: frozenset[str]
    approval: dict[str, Any] | None
    planner: bool
    planner_calls: int
    grouped: bool
    """Whether rows that failed alike wait for one patch, instead of asking the planner each."""
    hooks: frozenset[str]
    paced: frozenset[str]
    queued: frozenset[str]
    """The paced ones, and those of which only so many calls may be live."""
    shared: Mapping[str, Shared] = {}
    patches: Mapping[str, Mended] = {}
    """By the group of rows that go on with it."""
    unbounded: Budget | None = None
    """The budget of each row, where there is no bound in it: so no row has to find that out."""

    @property
    def program_tools(self) -> frozenset[str]:
        """The names of the tools that the plan calls, with its patches."""
        patched = [name for mended in self.patches.values() for name in calls_of(mended.patch.every_step)]
        return frozenset([*(tool.name for tool in self.program.tools), *patched])


def common_of(opened: BatchOpened, registry: Registry, principal: Principal | None = None) -> Common:
    """What the rows of this batch have in common, with these tools; `principal` as who resumes it grants."""
    tools = {tool.name: tool for tool in registry}
    rules = BatchRules.model_validate(opened.rules)
    principal = principal or opened.principal
    policies = row_policies(opened.policies, rules)
    paced = paced_tools(tools, principal, policies)
    return Common(
        batch=opened.run,
        registry=registry,
        tools=tools,
        program=compile_plan(opened.plan, tools),
        ids=frozenset(step.id for step in opened.plan.every_step),
        principal=principal,
        policies=policies,
        rules=rules,
        contracts=frozenset(opened.contracts),
        approval=opened.approval,
        planner=opened.planner,
        planner_calls=opened.planner_calls,
        grouped=opened.planner and (opened.approval or {}).get("scope") != "reads",
        hooks=frozenset(opened.hooks),
        paced=paced,
        queued=paced.union(policies.limits.tool),
        unbounded=policies.budget if policies.budget == Budget() else None,
    )


def with_tools(common: Common, registry: Registry, policies: Policies) -> Common:
    """The same with other tools and rules; the plan, and what all rows share, stay."""
    tools = {tool.name: tool for tool in registry}
    paced = paced_tools(tools, common.principal, policies)
    return common._replace(
        registry=registry,
        tools=tools,
        program=compile_plan(common.program.plan, tools),
        policies=policies,
        contracts=frozenset(tools),
        paced=paced,
        queued=paced.union(policies.limits.tool),
    )


def patches_of(settled: Iterable[GroupSettled]) -> dict[str, Mended]:
    """The patches of the groups that go on with one."""
    return {event.group: Mended(event.patch) for event in settled if event.patch is not None}


def shared_id(batch: str) -> str:
    """The run of the steps that all rows share."""
    return f"{batch}.{SHARED}"


def of_shared(common: Common, opened: BatchOpened) -> Common:
    """What the run of the shared steps goes by: a plan of those steps alone, for which no planner is asked: a patch is for rows,
    which know the steps of the plan and no others."""
    steps = [step for step in opened.plan.steps if step.id in opened.shared]
    plan = Plan(goal=opened.plan.goal, steps=steps)
    program = compile_plan(plan, common.tools)
    return common._replace(program=program, shared={}, planner=False, grouped=False)


def paced_tools(tools: Mapping[str, Tool], principal: Principal, policies: Policies) -> frozenset[str]:
    """The tools whose calls may have to wait for their turn although the run has room."""
    limits = policies.limits
    if not (limits.host or limits.rates.host or limits.rates.tool):
        return frozenset()
    return frozenset(name for name, tool in tools.items() if rules_of(tool, principal, policies).paced)
