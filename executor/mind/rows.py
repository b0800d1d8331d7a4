"""A row of a batch is a run of which all but the inputs is common to all rows: plan, rules, principal, shared results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ...planner.bounds import rules_of
from ...planner.plan import Plan
from ...policies.batches import BatchRules, row_policies
from ...policies.failures import Failure
from ...policies.permissions import Principal
from ...policies.policies import Policies
from ...registry.registry import Registry
from ...registry.tools import Tool
from ..events import BatchOpened, Outcome
from .program import Program, compile_plan

__all__ = ["Common", "Shared", "common_of", "of_shared", "paced_tools", "shared_id"]


class Shared(NamedTuple):
    """How a step ended that all rows share."""

    outcome: Outcome
    value: Any = None
    failure: Failure | None = None
    reason: str = ""


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
    shared: Mapping[str, Shared] = {}

    @property
    def program_tools(self) -> frozenset[str]:
        """The names of the tools that the plan calls."""
        return frozenset(tool.name for tool in self.program.tools)


def common_of(opened: BatchOpened, registry: Registry, principal: Principal | None = None) -> Common:
    """What the rows of this batch have in common, with these tools; `principal` as who resumes it grants."""
    tools = {tool.name: tool for tool in registry}
    rules = BatchRules.model_validate(opened.rules)
    principal = principal or opened.principal
    policies = row_policies(opened.policies, rules)
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
        paced=paced_tools(tools, principal, policies),
    )


def shared_id(batch: str) -> str:
    """The run of the steps that all rows share."""
    return f"{batch}.shared"


def of_shared(common: Common, opened: BatchOpened) -> Common:
    """What the run of the shared steps goes by: a plan of those steps alone."""
    steps = [step for step in opened.plan.steps if step.id in opened.shared]
    plan = Plan(goal=opened.plan.goal, steps=steps)
    return common._replace(program=compile_plan(plan, common.tools), shared={})


def paced_tools(tools: Mapping[str, Tool], principal: Principal, policies: Policies) -> frozenset[str]:
    """The tools whose calls may have to wait for their turn although the run has room."""
    limits = policies.limits
    if not (limits.host or limits.rates.host or limits.rates.tool):
        return frozenset()
    return frozenset(name for name, tool in tools.items() if rules_of(tool, principal, policies).paced)
