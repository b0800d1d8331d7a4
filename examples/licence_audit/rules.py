"""A planner without a model: the plan is a file, and what to do about a failure is a rule.

Or a model writes the plan from a sentence, and the rules mend it.
"""

from __future__ import annotations

from pathlib import Path

from foreplan import CannotPlan, FunctionPlanner, ModelPlanner, Patch, Plan, Step
from foreplan.planner.documents import load_plan
from foreplan.planner.models.chat import ChatModel
from foreplan.planner.requests import PlanRequest, ReplanRequest

__all__ = ["INPUTS", "SENTENCE", "planned_by", "planner"]

SENTENCE = (
    "List the packages in inputs.folders, as packages. For each of packages read its metadata, as metadata. For each of "
    "metadata normalise the licence, as licences, and skip what fails. Judge metadata and licences by inputs.policy, as "
    "verdicts. Write verdicts and inputs.folders to licences.md in the folder inputs.out, and verdicts to licences.csv there."
)
"""What a model is asked, in place of the plan."""
INPUTS = load_plan(Path(__file__).with_name("plan.yaml")).inputs
OTHER_READER = {"read_metadata": "read_metadata_carefully"}
"""Tool -> the tool to use where it fails with `needs_other_reader`."""


def plan(request: PlanRequest) -> Plan:
    """The plan that stands beside this file, whatever the goal."""
    return load_plan(Path(__file__).with_name("plan.yaml"))


def replan(request: ReplanRequest) -> Patch:
    """The same steps again with the other reader, if that is what they failed for."""
    needing = {f.step for f in request.failures if f.failure.code == "needs_other_reader"}
    steps = [request.plan.by_id[id] for id in sorted(needing) if request.plan.by_id[id].tool in OTHER_READER]
    if not steps:
        raise CannotPlan("; ".join(f.failure.message for f in request.failures))
    return Patch(add=[_with_other_reader(step) for step in steps])


def _with_other_reader(step: Step) -> Step:
    changes = {"id": f"{step.id}_again", "tool": OTHER_READER[step.tool or ""], "replaces": step.id}
    return Step.model_validate({**step.to_json(), **changes})


planner = FunctionPlanner(plan, replan)


def planned_by(model: ChatModel) -> FunctionPlanner:
    """Plans of a small model, mended by the rules."""
    return FunctionPlanner(ModelPlanner(model, form="python").plan, replan)
