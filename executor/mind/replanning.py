"""The bounded re-plan, as the mind sees it: when to ask, what to do with the answer. Pure, like the rest of the mind.

at rest with failures -> on_failure -> planner -> patch -> check -> on_replan -> approval -> the plan goes on
                             |           |         ^                  |            |
                             +- stop     +-cannot  +--- findings -----+- refuse    +- reject
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ...planner.approvals import covers, patch_needs_approval
from ...planner.checking import check
from ...planner.findings import Finding
from ...planner.patches import PatchDoesNotFit, apply_patch
from ...planner.plan import Patch, Plan
from ...planner.react import compact, shown, told_failure
from ...planner.requests import ReplanRequest, StepFailure, StepOutcome, for_model, places_in, reading
from ...planner.reviewing import diff
from ...planner.shapes import common_shape, shape_of, words_of
from ...policies.canonical import digest
from ...policies.failures import Failure, Kind
from .. import events as e
from ..events import Outcome
from .budget import answered, bound_text, charge_question, left, question_short_of, run_out, used
from .program import Program, compile_plan
from .state import Consult, Lane, Node, Replan, State, Write

__all__ = [
    "consider_replan",
    "group_request",
    "hook_answered",
    "model_answered",
    "needs_a_person",
    "patch_accepted",
    "patch_decided",
    "patch_problems",
    "patch_refused",
    "patched",
    "planner_asked_again",
    "replan_request",
    "signature",
    "so_far",
    "wait_anew",
]

_ITEMS = 50
"""So many failed items of one `each` are told to the planner one by one."""


def consider_replan(state: State) -> bool:
    """At rest: ask for a patch if something failed that one could mend. True where something was asked."""
    if not state.planner or state.gave_up or state.patch is not None or not _troubled(state):
        return False  # a patch may wait for a person
    if state.group is not None:
        return True
    if state.replans >= state.policies.max_replans:
        state.gave_up = f"all {state.replans} re-plans are used up" if state.replans else ""
        return False
    if state.common is not None and state.common.grouped:
        state.group = signature(state)
        state.idle = True
        return True
    if not _within_budget(state):
        return False
    if "on_failure" in state.hooks:
        _give(state, "hook", Consult("on_failure"))
    else:
        _begin(state)
    return True


def signature(state: State) -> dict[str, Any]:
    """How a run failed, as far as it matters for a patch: what failed and how, and what has ended otherwise.

    Runs of one plan with equal signatures can be mended by one patch.
    """
    failed = sorted(
        (node.code.lineage, failure.failure.kind.value, failure.failure.code)
        for node in _troubled(state)
        for failure in _failures(node)
    )
    settled = sorted((id_, str(state.nodes[id_].outcome)) for id_ in _settled_ids(state))
    said: dict[str, Any] = {
        "failed": [list(f) for f in dict.fromkeys(failed)],
        "settled": [list(s) for s in settled],
    }
    if state.common is not None and state.plan is not state.common.program.plan:
        said["plan"] = state.plan.digest  # patched before: its steps may mean something else
    return said


def replan_request(state: State, command: Replan | None = None) -> ReplanRequest:
    """What the planner is asked: goal, plan, failures, outcomes, what may not be repeated, what is left."""
    failures = tuple(f for node in _troubled(state) for f in _failures(node))
    known = words_of(state.plan)
    return ReplanRequest(
        goal=state.plan.goal,
        plan=state.plan,
        tools=state.registry.only(permitted=state.principal, max_level=state.policies.max_level),
        failures=failures,
        outcomes=tuple(_outcome(state, node, known) for node in state.nodes.values()),
        not_again=tuple(_not_again(state)),
        remaining={
            "replans": state.policies.max_replans - state.replans,
            "tool_calls": None,
            "model_calls": None,
            **left(state.policies.budget, used(state)).to_json(),
        },
        previous=command.text if command else "",
        findings=tuple(Finding(**f) for f in command.findings) if command else (),
        notes=tuple(state.notes),
        show_tool_text=state.policies.show_tool_text,
        preview_bytes=state.policies.limits.preview_bytes,
    )


def group_request(
    states: Sequence[State],
    rows: int,
    *,
    text: str = "",
    findings: tuple[dict[str, Any], ...] = (),
    notes: Sequence[str] = (),
) -> ReplanRequest:
    """What the planner is asked about rows that failed alike: what they have in common, and no value of any of them.

    `states` are some of the rows. Rules in Python see no more of them than a model does.
    """
    first = states[0]
    known = words_of(first.plan)
    failures = (f for state in states for node in _troubled(state) for f in _failures(node))
    once = {(f.step, f.failure.kind, f.failure.code): f for f in failures}
    said = [call for state in states for call in _not_again(state)]
    return ReplanRequest(
        goal=first.plan.goal,
        plan=first.plan,
        tools=first.registry.only(permitted=first.principal, max_level=first.policies.max_level),
        failures=tuple(_without_data(first, failed) for failed in once.values()),
        outcomes=tuple(_common_outcome(states, id_, known) for id_ in first.nodes),
        not_again=tuple({"tool": tool} for tool in dict.fromkeys(call["tool"] for call in said)),
        remaining={
            "replans": first.policies.max_replans - first.replans,
            "tool_calls": None,
            "model_calls": None,
            **left(first.policies.budget, used(first)).to_json(),
        },
        previous=text,
        findings=tuple(Finding(**f) for f in findings),
        notes=(_OF_ROWS, *notes),
        rows=rows,
    )


_OF_ROWS = (
    "The plan runs once for each row of a batch. So many of its rows (`rows`) failed alike, and the patch is for all of them: "
    "take what differs from row to row from `inputs` and results, by expressions; write none of it down."
)


def _without_data(state: State, failed: StepFailure) -> StepFailure:
    """A failure without its arguments and without what a tool or a value says in it."""
    told = for_model(failed.failure, joined=True)
    places = places_in(failed, state.plan, state.registry)
    failure = failed.failure._replace(
        code=told["code"],
        message=told["message"],
        hint=told["hint"],
        exception="",
        host="",
        details={"problems": [dict(place) for place in places]} if places else None,
        untrusted=False,
    )
    path = tuple(part for part in failed.path if isinstance(part, str))
    return replace(failed, path=path, args=None, failure=failure)


def _common_outcome(states: Sequence[State], id_: str, known: frozenset[str]) -> StepOutcome:
    """How a step ended in all of these rows, and one shape for its results."""
    node = states[0].nodes[id_]
    outcome = node.outcome.value if node.outcome is not None else "waiting"
    values = [state.nodes[id_].value for state in states]
    return StepOutcome(id_, outcome, common_shape(values, _schema_of(node), known=known))


def so_far(state: State) -> str:
    """What a model is told that takes over from a plan: the goal, the results so far, what failed."""
    results = {id_: shown(node.value) for id_, node in state.nodes.items() if node.outcome is Outcome.OK}
    quoting = reading(state.plan)
    failures = [
        _told_whole(failure, failure.step in quoting)
        for node in _troubled(state)
        for failure in _failures(node)
    ]
    unsettled = [id_ for id_, node in state.nodes.items() if node.outcome is Outcome.BLOCKED]
    told = {"results": results, "failures": failures[:_ITEMS], "not_done": unsettled}
    return f"Goal: {state.plan.goal}\nA plan for it ran as far as it could. Results, failures and what was not done:\n{compact(told)}"


def _told_whole(failed: StepFailure, joined: bool) -> dict[str, Any]:
    """A failure with the arguments as they were; what may quote results stands apart from our words."""
    told = told_failure(failed.failure, joined=joined)
    return {"step": failed.step, "tool": failed.tool, "args": failed.args, **told}


def _not_again(state: State) -> Iterator[dict[str, Any]]:
    """The calls that may not be made any more: they had an effect, or a person refused them."""
    for (tool, _), made in state.acted.items():
        yield {"tool": tool, "args": next(iter(made.values()))}
    for (tool, _), rejection in state.rejected.items():
        yield {"tool": tool, "args": rejection.args}


def hook_answered(state: State, event: e.HookAnswered) -> None:
    """`on_failure` lets the planner be asked; `on_replan` lets its patch through."""
    del state.open["hook"]
    if event.hook == "on_failure":
        if event.answer == "stop":
            state.gave_up = event.note or "the on_failure hook stopped the re-plan"
            return
        if event.note:
            state.notes.append(event.note)
        _begin(state)
    elif event.answer == "stop":
        message = event.note or "the on_replan hook refused the patch"
        _refuse(state, (Finding("refused", "error", "", message),), by="hook")
    else:
        _to_approval(state)


def model_answered(state: State, event: e.ModelAnswered) -> None:
    """The planner's answer: a patch to check, a "cannot", text that is no patch, or no answer at all."""
    del state.open["replan"]
    state.answer = event.text
    answered(state, event.usage, state.planner_calls)
    if event.failure is not None:
        state.gave_up = f"the planner failed: {event.failure.message}"
        if event.failure.code == "out_of_time" and state.policies.budget.seconds is not None:
            run_out(state, "seconds")
    elif event.patch is not None:
        _judge(state, event.patch)
    elif event.findings:
        _give(state, "patch", Write(e.PatchRefused, (event.findings, "check")))
    else:
        state.unplannable = True
        state.gave_up = f"the planner cannot mend this: {event.cannot_plan}"


def patch_refused(state: State, event: e.PatchRefused) -> None:
    """Findings go back to the planner, within bounds; a hook's or a person's no is final."""
    state.open.pop("patch", None)  # of a row that waited with others it was not open
    state.patch = state.group = None
    first = event.findings[0]["message"] if event.findings else "no reason was given"
    if event.by != "check":
        state.gave_up = first
    elif state.repairs >= state.policies.max_repairs:
        state.gave_up = f"no valid patch after {state.repairs + 1} answers: {first}"
    elif _within_budget(state):
        state.repairs += 1
        _ask_planner(state, Replan(state.answer, event.findings))


def patch_decided(state: State, event: e.DecisionMade) -> None:
    """A person's answer about a patch beyond the scope of the approval."""
    if event.choice == "approve":
        _accept(state)
    else:
        why = f": {event.reason}" if event.reason else ""
        _refuse(state, (Finding("rejected", "error", "", f"{event.by} refused the patch{why}"),), by="person")


def patch_accepted(state: State, event: e.PatchAccepted) -> None:
    """The plan goes on: settled steps stay, blocked ones wait anew, new ones join."""
    state.open.pop("patch", None)
    if state.group is not None:
        state.replans += 1
    state.patch = state.group = None
    program = state.program = _program_of(state, event)
    plan = program.plan
    root = state.root
    assert root is not None
    old = root.nodes
    root.block = program
    root.nodes = {code.id: old.get(code.id) or Node(code, root) for code in program.codes.values()}
    state.ids |= {step.id for step in plan.every_step}
    state.superseded = {step.replaces for step in plan.steps if step.replaces is not None}
    for id_, node in root.nodes.items():
        node.code = program.codes[id_]
        node.dependants = [root.nodes[d] for d in program.dependants[id_]]
        if node.outcome is Outcome.BLOCKED:
            node.clear()
    root.left = sum(node.outcome is None for node in root.nodes.values())
    for node in root.nodes.values():
        wait_anew(state, node)


def _program_of(state: State, event: e.PatchAccepted) -> Program:
    """What the patch makes of the plan; rows that failed alike share it."""
    if event.patch is not None:
        return compile_plan(patched(state, event.patch), state.tools)
    assert state.common is not None
    mended = state.common.patches[event.group]
    if mended.program is None:
        mended.program = compile_plan(patched(state, mended.patch), state.tools)
    return mended.program


def wait_anew(state: State, node: Node) -> None:
    """A step that has not ended waits for what has not ended of what it needs."""
    if node.outcome is not None or node.lane is not None:
        return
    needs = [state.nodes[need] for need in node.code.needs]
    node.waiting = sum(1 for need in needs if need.outcome is None)
    node.blocker = next((n.code.id for n in needs if n.outcome is not None and not n.passes), "")
    if not node.waiting:
        state.ready.append(node)


# ---------------------------------------------------------------------------------------------- the way of a patch


def _begin(state: State) -> None:
    state.replans += 1
    state.repairs = 0
    _ask_planner(state, Replan())


def _ask_planner(state: State, command: Replan) -> None:
    charge_question(state, state.planner_calls)
    _give(state, "replan", command)


def planner_asked_again(state: State) -> None:
    """A process takes the run up: a question to the planner that was lost is asked once more, and charged once more."""
    if "replan" in state.open:
        if _within_budget(state):
            charge_question(state, state.planner_calls)
        else:
            del state.open["replan"]


def _judge(state: State, patch: Patch) -> None:
    """Check a patch; a valid one goes to the hook, then to approval."""
    findings = _findings(state, patch)
    if findings:
        _refuse(state, findings)
        return
    state.patch = patch
    if "on_replan" in state.hooks:
        _give(state, "hook", Consult("on_replan", patch))
    else:
        _to_approval(state)


def _findings(state: State, patch: Patch) -> tuple[Finding, ...]:
    name = digest(patch.to_json())
    if name in state.patches:
        return (Finding("same_patch", "error", "", "this patch was proposed before; propose another way"),)
    state.patches.add(name)
    return patch_problems(state, patch)


def patch_problems(state: State, patch: Patch, *, batch: bool = False) -> tuple[Finding, ...]:
    """What keeps a patch from being one of this run's plan. `batch`: it is for many rows, so effects say `per`."""
    try:
        plan = patched(state, patch)
    except PatchDoesNotFit as error:
        return error.findings
    return check(plan, state.registry, state.policies, principal=state.principal, batch=batch).errors


def needs_a_person(state: State, patch: Patch) -> bool:
    """Whether a patch needs an approval that the one of the plan does not cover."""
    assert state.approved is not None
    scope = (state.approval or {}).get("scope", "none")
    needed = patch_needs_approval(patch, state.registry, state.policies)
    return needed and not covers(scope, patch, state.registry, state.approved)


def _to_approval(state: State) -> None:
    patch = state.patch
    assert patch is not None
    if not needs_a_person(state, patch):
        _accept(state)
        return
    if state.common is not None:  # other rows would ask the same: one question for all of them
        state.patch = None
        state.replans -= 1
        state.group = signature(state)
        state.idle = True
        return
    plan = patched(state, patch)
    question = {"patch": patch.to_json(), "diff": diff(state.plan, plan).to_json(), "digest": plan.digest}
    _give(
        state,
        "patch",
        Write(e.DecisionAsked, (f"patch:{state.replans}", "patch", (), ("approve", "reject"), question)),
    )


def _accept(state: State) -> None:
    assert state.patch is not None
    _give(state, "patch", Write(e.PatchAccepted, (state.patch, patched(state, state.patch).digest)))


def _refuse(state: State, findings: tuple[Finding, ...], *, by: str = "check") -> None:
    _give(state, "patch", Write(e.PatchRefused, (tuple(f.to_json() for f in findings), by)))


def patched(state: State, patch: Patch) -> Plan:
    """The plan of a run with this patch. Raises `PatchDoesNotFit`."""
    settled = _settled_ids(state)
    failed = {id_ for id_ in settled if state.nodes[id_].outcome is Outcome.FAILED}
    return apply_patch(state.plan, patch, settled=settled, used=state.ids, failed=failed)


def _give(state: State, tag: str, command: Any) -> None:
    state.open[tag] = command
    state.given.append(command)


# ---------------------------------------------------------------------------------------------- what the planner sees


def _troubled(state: State) -> list[Node]:
    """Steps that failed, stop their dependants, and are not beyond hope."""
    return [
        node
        for node in state.nodes.values()
        if node.outcome is Outcome.FAILED
        and not node.passes
        and node.code.id not in state.superseded
        and node.code.lineage not in state.hopeless
    ]


def _settled_ids(state: State) -> set[str]:
    """Steps a patch may not touch: settled, or with calls under way (a person may be asked about one)."""
    return {
        id_
        for id_, node in state.nodes.items()
        if node.outcome not in (None, Outcome.BLOCKED) or (node.outcome is None and node.lane is not None)
    }


def _within_budget(state: State) -> bool:
    """Whether the planner may be asked (once more)."""
    short = question_short_of(state, state.planner_calls)
    if short:
        state.gave_up = f"the budget of {bound_text(state.policies.budget, short)} is used up"
    return not short


def _failures(node: Node) -> list[StepFailure]:
    """What failed in a step: items one by one, and inside a group the steps of its items."""
    inner = _failures_inside(node)
    if inner:
        return inner[:_ITEMS]
    id_, tool = node.code.id, node.code.step.tool or ""
    if node.lane is None or not node.lane.faults:
        failure = node.failure or Failure(Kind.BUSINESS, "failed", node.reason or "the step failed")
        return [StepFailure(id_, node.path, tool, None, failure, 0)]
    return [_fault(node.lane, index) for index in sorted(node.lane.faults)[:_ITEMS]]


def _failures_inside(node: Node) -> list[StepFailure]:
    frames = node.lane.frames.values() if node.lane is not None else ()
    inner = (n for frame in frames for n in frame.nodes.values() if n.outcome is Outcome.FAILED)
    return [failure for failed in inner for failure in _failures(failed)]


def _fault(lane: Lane, index: int) -> StepFailure:
    fault = lane.faults[index]
    code = lane.node.code
    return StepFailure(
        code.id, lane.path(index), code.step.tool or "", fault.args, fault.failure, fault.attempts
    )


def _outcome(state: State, node: Node, known: frozenset[str]) -> StepOutcome:
    preview = node.value if state.policies.show_tool_text else None
    outcome = node.outcome.value if node.outcome is not None else "waiting"
    return StepOutcome(node.code.id, outcome, shape_of(node.value, _schema_of(node), known=known), preview)


def _schema_of(node: Node) -> dict[str, Any] | None:
    """The schema of the result of a step, as its tool declares it."""
    tool = node.code.tool
    schema = tool.output.document if tool is not None and tool.output is not None else None
    if node.code.each is not None and schema is not None:
        return {"type": "array", "items": schema}
    return schema
