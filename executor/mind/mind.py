"""The mind without hands: `advance(state, event) -> commands`. No I/O, no clock, no dice, no await.

     journal --Event--> advance --Command--> hands
        ^                                      |
        +--------------- Event ----------------+

A step is *waiting* until the steps it needs are settled, then it *enters*: it settles at once (a value, a skip, a block)
or becomes a lane of calls. Lanes take turns, so a wide `each` does not starve its neighbours, and at most
`limits.run` calls are live. What the mind decides it asks to have written (`Write`); the event comes back through
`advance` like any other, so replay and life are one path. Every command stands in `state.open` until the event that
answers it: `outstanding` is what a crash lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...planner.models.messages import HumanMessage
from ...policies.collector import all_stays
from ...policies.expressions import EvaluationError
from ...policies.policies import Policies
from ...policies.text import count
from ...registry.values import copy_plain
from .. import events as e
from ..events import Event, Outcome
from .budget import bound_seconds, bound_text, open_account, rebind, used
from .calls import (
    admitted,
    call_consulted,
    call_settled,
    decision_asked,
    decision_made,
    item_without_call,
    make_room,
    started,
    timer_fired,
)
from .program import compile_plan
from .replanning import (
    consider_replan,
    hook_answered,
    model_answered,
    patch_accepted,
    patch_refused,
    planner_asked_again,
    so_far,
)
from .retrying import row_reopened
from .rounds import begin_dialogue, heard, hooked, model_asked_again, next_round
from .rows import paced_tools
from .state import Command, Consult, Dialogue, Frame, Node, StaleState, State, Write
from .steps import begin, enter_ready, give, settle, take_back

__all__ = ["advance", "go_by", "outstanding", "replay"]

_OK, _FAILED, _BLOCKED = Outcome.OK, Outcome.FAILED, Outcome.BLOCKED
_RESUMED = e.RunResumed
_TOLD = 5
"""So many steps that were not finished are named."""


def advance(state: State, event: Event) -> tuple[Command, ...]:
    """Take in what happened and say what is to be done. Raises `StaleState` where the event does not follow."""
    kind, seq, at = type(event), event[0], event[1]
    if seq != state.seq + 1:
        raise StaleState(f"event {seq} does not follow {state.seq}: this state is stale")
    state.seq = seq
    if state.idle or kind is _RESUMED:
        state.away += at - state.at
        state.idle = False
    state.at = at
    given: list[Command] = []
    state.given = given
    _ON[kind](state, event)
    if state.closed is None:
        if state.ready:
            enter_ready(state)
        if state.lanes or state.again:
            make_room(state)
        if len(state.open) == len(state.decisions):  # state.resting, inlined: asked at every event
            _rest(state)
    return tuple(given)


def outstanding(state: State) -> tuple[Command, ...]:
    """Every command not yet answered: after a replay, what is to be done."""
    return tuple(state.open.values()) if state.closed is None else ()


def replay(state: State, events: Iterable[Event]) -> State:
    """Bring a fresh state to where these events lead.

    What they say of a call that was admitted at once is not worked out anew: it would be thrown away for what they say.
    """
    with all_stays():
        recorded = list(events)
        state.recorded = _admitted_at_once(recorded)
        try:
            for event in recorded:
                advance(state, event)
        finally:
            state.recorded = {}
    return state


def _admitted_at_once(events: Iterable[Event]) -> dict[e.Path, e.CallAdmitted]:
    """The calls of which nothing is told before that they were admitted: no question, no hook, no refusal."""
    found: dict[e.Path, e.CallAdmitted] = {}
    before: set[e.Path] = set()
    for event in events:
        if isinstance(event, e.CallAdmitted):
            if event.path not in before:
                found.setdefault(event.path, event)
        elif isinstance(event, _TELL_OF_CALLS):
            before.add(event.path)
    return found


_TELL_OF_CALLS = (e.CallSettled, e.ValueSettled, e.DecisionAsked, e.HookAnswered)


# ---------------------------------------------------------------------------------------------- a run begins


def _opened(state: State, event: e.RunOpened) -> None:
    state.run = event.run
    state.parent = event.parent
    state.inputs = event.inputs
    state.principal = event.principal
    state.policies = event.policies
    _make_queues(state)
    state.contracts = frozenset(event.contracts)
    state.approval = event.approval
    state.planner = event.planner
    state.planner_calls = event.planner_calls
    state.deadline, state.trace = event.deadline, event.trace
    state.hooks = frozenset(event.hooks)
    open_account(state, event.at, event.spent)
    state.fallback = event.fallback
    if event.forked is not None:
        _forked(state, event.forked)
    if event.agent is not None:
        begin_dialogue(state, event.agent)
        return
    state.open["plan"] = Write(e.PlanAccepted, ())  # the engine holds the plan; it writes this itself


def _forked(state: State, fork: dict[str, Any]) -> None:
    """Another run has settled some steps, and made some calls that are not to be made again."""
    state.forked_from = fork["run"]
    state.taken = fork["taken"]
    for act in fork["acted"]:
        state.acted.setdefault((act["tool"], act["digest"]), {})[tuple(act["path"])] = act["args"]


def go_by(state: State, policies: Policies) -> None:
    """Other rules hold from here on; what is used up stays used up."""
    state.policies = policies
    _make_queues(state)
    rebind(state)


def _make_queues(state: State) -> None:
    """What these policies say of calls at once, for it is asked at every call."""
    limits = state.policies.limits
    state.paced = paced_tools(state.tools, state.principal, state.policies)
    state.queued = state.paced.union(limits.tool)
    state.at_once = limits.run


def _accepted(state: State, event: e.PlanAccepted) -> None:
    del state.open["plan"]
    state.approved = event.plan
    program = state.program = compile_plan(event.plan, state.tools)
    state.root = Frame(program, ())
    state.ids = frozenset(step.id for step in event.plan.every_step)
    begin(state, state.root)


def _row_opened(state: State, event: e.RowOpened) -> None:
    """A row of a batch: everything but its inputs is common to all rows, and steps that they share have ended."""
    common = state.common
    assert common is not None
    state.run, state.ordinal = event.run, event.ordinal
    state.inputs = event.inputs
    state.principal, state.policies = common.principal, common.policies
    state.paced, state.queued, state.at_once = common.paced, common.queued, common.policies.limits.run
    state.contracts, state.approval, state.hooks = common.contracts, common.approval, common.hooks
    state.planner, state.planner_calls = common.planner, common.planner_calls
    open_account(state, event.at, None)
    state.idle = True
    program = state.program = common.program
    state.approved = program.plan
    root = state.root = Frame(program, ())
    state.ids = common.ids
    for id_, (outcome, value, failure, reason) in common.shared.items():
        settle(state, root.nodes[id_], outcome, value, failure=failure, reason=reason)
    state.ready.clear()
    state.ready.extend(node for node in root.nodes.values() if not node.waiting and node.outcome is None)


# ---------------------------------------------------------------------------------------------- rest, and the end


def _rest(state: State) -> None:
    """Nothing is under way: re-plan what failed, wait for people, or close."""
    if state.dialogue is None:
        if not state.stopping and consider_replan(state):
            return
    elif not state.stopping and next_round(state) and not state.stopping:
        return
    if state.decisions:
        state.idle = True
        return
    if not state.stopping and _fall_back(state):
        return
    reached = state.dialogue is not None and not state.dialogue.over
    if (
        state.root is not None
        and _troubled(state)
        and not (state.stopping or reached)
        and (state.common is None or state.common.rules.undo)
        and take_back(state, state.root)
    ):
        make_room(state)
        if not state.stopping:
            return
    give(state, "close", Write(e.RunClosed, _closing(state)))


def _fall_back(state: State) -> bool:
    """Let a model go on by itself where the plan does not, if that is allowed."""
    if state.fallback is None or state.dialogue is not None or not _troubled(state):
        return False
    if "on_fallback" in state.hooks and not state.fallback_asked:
        state.fallback_asked = True
        give(state, "hook", Consult("on_fallback"))
        return True
    begin_dialogue(state, state.fallback, HumanMessage(so_far(state)))
    return not state.stopping


def _troubled(state: State) -> list[Node]:
    """Steps that keep the run from being done."""
    return [
        n
        for n in state.nodes.values()
        if n.outcome is not _OK and not n.passes and n.code.id not in state.superseded
    ]


def _closing(state: State) -> tuple[Any, ...]:
    dialogue = state.dialogue
    if dialogue is not None and not state.stopping and (state.root is None or not dialogue.over):
        return _answered(state, dialogue)
    failed = _troubled(state)
    output, problem = _output(state)
    if dialogue is not None and dialogue.value is not None:
        output = dialogue.value
    if state.stopping:
        return ("stopped", state.stopping, output, _stopped_message(state) + _undone(state))
    if state.unplannable:
        return ("stopped", "cannot_plan", output, _stopped_message(state) + _undone(state))
    if failed or problem:
        return ("failed", "", output, _failed_message(state, failed) + _undone(state) if failed else problem)
    return (
        "done",
        "",
        output,
        f"{count(len(state.nodes) - len(state.superseded), 'step is', 'steps are')} settled",
    )


def _answered(state: State, dialogue: Dialogue) -> tuple[Any, ...]:
    """The end of a dialogue that came to one."""
    rounds = count(dialogue.round, "round")
    if dialogue.over:
        return ("failed", "", dialogue.value, f"{dialogue.over} (after {rounds})")
    failed = _troubled(state)
    first = f"{count(len(failed), 'step')} of the plan did not succeed; " if failed else ""
    return ("done", "", dialogue.value, f"{first}answered after {rounds}")


def _output(state: State) -> tuple[Any, str]:
    """The plan's output as far as it resolves, and a sentence where it does not."""
    template = state.program.output if state.program is not None else None
    if template is None:
        return None, ""
    nodes = state.nodes
    scope: dict[str, Any] = {}
    for name in template.names:
        if name in nodes:
            scope[name] = nodes[name].value
        elif name == "inputs":
            scope[name] = state.inputs
        elif name == "run":
            scope[name] = {"id": state.run, "started_at": state.started_at}
    try:
        return copy_plain(template.evaluate(scope)), ""
    except EvaluationError as error:
        return None, f"the output does not resolve: {error}"


def _failed_message(state: State, failed: list[Node]) -> str:
    causes = [n for n in failed if n.outcome is _FAILED]
    most = state.policies.retry.attempts
    named = "; ".join(
        f"{n.code.id!r}{_tried(n, most)}: {n.failure.message if n.failure else n.reason}" for n in causes[:3]
    )
    more = f"; and {len(causes) - 3} more" if len(causes) > 3 else ""
    rest = len(failed) - len(causes)
    blocked = f"; {count(rest, 'step was', 'steps were')} blocked by that" if rest else ""
    hopeless = "; ".join(state.hopeless[n.code.lineage] for n in causes if n.code.lineage in state.hopeless)
    fallback = f"the fallback: {state.dialogue.over}" if state.dialogue is not None else ""
    whys = "; ".join(why for why in (state.gave_up or hopeless, fallback) if why)
    why = f" ({whys})" if whys else ""
    return f"{len(causes)} of {count(len(state.nodes), 'step')} failed: {named}{more}{blocked}{why}"


def _tried(node: Node, most: int) -> str:
    """How often its call was tried, where that was more than once."""
    faults = node.lane.faults.values() if node.lane is not None else ()
    tries = max((fault.attempts for fault in faults), default=0)
    return f" after {tries} of at most {most} attempts" if tries > 1 else ""


def _undone(state: State) -> str:
    """What was taken back, as the end of a sentence."""
    lanes = {id(lane): lane for lane in state.undoing.values()}.values()  # those that a stop cut short
    outcomes = [outcome for lane in lanes for outcome in lane.outcomes]
    undone = state.undone + outcomes.count(Outcome.OK)
    left = state.not_undone + len(outcomes) - outcomes.count(Outcome.OK)
    failed = f", {left} could not be" if left else ""
    return f"; {count(undone, 'effect was', 'effects were')} undone{failed}" if undone or left else ""


def _stopped_message(state: State) -> str:
    nodes = [n for n in state.nodes.values() if n.code.id not in state.superseded]
    left = [n for n in nodes if n.outcome is None or n.outcome is _BLOCKED]
    unfinished = f"{count(len(left), 'step was', 'steps were')} not finished"
    if state.stopping != "budget":
        return f"{state.gave_up or 'the run was stopped'}; {unfinished}"
    missing = ", ".join(_missing(node) for node in left[:_TOLD]) + (", …" if len(left) > _TOLD else "")
    over, bound = _overshot(state), bound_text(state.policies.budget, state.short)
    if not nodes and state.dialogue is not None:
        return f"the budget of {bound} is used up{over} after {count(state.dialogue.round, 'round')}"
    done = f"{len(nodes) - len(left)} of {count(len(nodes), 'step')} settled, {unfinished}"
    return f"the budget of {bound} is used up{over}; {done}{f': {missing}' if missing else ''}"


def _missing(node: Node) -> str:
    """A step that was not finished, with how far it came."""
    lane = node.lane
    if lane is None or not lane.plural:
        return node.code.id
    return f"{node.code.id} ({sum(o is Outcome.OK for o in lane.outcomes)} of {lane.size} done)"


def _overshot(state: State) -> str:
    """By how much calls that were under way went beyond the bound."""
    if state.short not in ("tokens", "cost"):
        return ""
    spent = getattr(used(state), state.short)
    return f" ({spent:,} used)" if spent > getattr(state.policies.budget, state.short) else ""


def _model_answered(state: State, event: e.ModelAnswered) -> None:
    if event.purpose == "react":
        heard(state, event)
    else:
        model_answered(state, event)


def _hook_answered(state: State, event: e.HookAnswered) -> None:
    if event.hook == "on_fallback":
        del state.open["hook"]
        if event.answer == "stop":
            state.fallback = None
            state.gave_up = state.gave_up or event.note or "the on_fallback hook stopped the fallback"
    elif event.hook == "before_call":
        call_consulted(state, event)
    elif event.hook == "after_call":
        del state.open["after", event.path, event.value["attempt"]]
    elif event.hook in ("before_model", "after_model"):
        del state.open["hook"]
        hooked(state, event)
    else:
        hook_answered(state, event)


def _decided(state: State, event: e.DecisionMade) -> None:
    """An answer; one that is given while nobody drives the run is kept for whoever takes it up, and under their permissions."""
    if state.waiting:
        state.answered[event.id] = event
        state.idle = True
    else:
        decision_made(state, event)


def _paused(state: State, event: e.RunPaused) -> None:
    state.waiting = state.idle = True


def _take_accepted(state: State, event: e.RunResumed | e.RowReopened) -> None:
    """Other rules hold from here on, if somebody accepted some."""
    if event.accepted is not None and event.accepted.get("policies") is not None:
        go_by(state, Policies.model_validate(event.accepted["policies"]))


def _row_reopened(state: State, event: e.RowReopened) -> None:
    _take_accepted(state, event)
    row_reopened(state, event)


def _resumed(state: State, event: e.RunResumed) -> None:
    state.waiting = False
    state.principal = event.principal
    state.denied.clear()
    _take_accepted(state, event)
    state.trace = event.trace
    if event.seconds is not None:
        bound_seconds(state, event.seconds)
    planner_asked_again(state)
    model_asked_again(state)
    answered, state.answered = state.answered, {}
    for made in answered.values():
        decision_made(state, made)


def _closed(state: State, event: e.RunClosed) -> None:
    if state.common is not None and event.state == "stopped":
        state.left = dict(state.open)
    state.open.clear()
    state.decisions.clear()
    state.closed = event
    state.idle = True


_ON: dict[type[Event], Callable[[State, Any], None]] = {
    e.RunOpened: _opened,
    e.PlanAccepted: _accepted,
    e.CallAdmitted: admitted,
    e.CallStarted: started,
    e.CallSettled: call_settled,
    e.ValueSettled: item_without_call,
    e.TimerFired: timer_fired,
    e.DecisionAsked: decision_asked,
    e.DecisionMade: _decided,
    e.HookAnswered: _hook_answered,
    e.ModelAnswered: _model_answered,
    e.PatchAccepted: patch_accepted,
    e.PatchRefused: patch_refused,
    e.RunPaused: _paused,
    e.RunResumed: _resumed,
    e.RunClosed: _closed,
    e.RowOpened: _row_opened,
    e.RowReopened: _row_reopened,
}
