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
    "List the packages in inputs.folders, read the metadata of each package, and normalise the licence of each. Judge the "
    "list of metadata and the list of licences by inputs.policy. Write the verdicts to licences.csv and to licences.md in "
    "the folder inputs.out."
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
    """Plans of a small model, mended by the rules, which also see to it that a package without a licence stops nothing."""
    return FunctionPlanner(ModelPlanner(model, form="python").plan, _replan_of_model)


def _replan_of_model(request: ReplanRequest) -> Patch:
    silent = sorted({f.step for f in request.failures if f.failure.code == "no_licence_data"})
    if not silent:
        return replan(request)
    return Patch(add=[_going_on(request.plan.by_id[id]) for id in silent])


def _going_on(step: Step) -> Step:
    changes = {"id": f"{step.id}_again", "replaces": step.id, "on_failure": "skip"}
    return Step.model_validate({**step.to_json(), **changes})
