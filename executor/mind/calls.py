"""Calls: room is made, arguments are resolved and admitted, attempts begin, end, are repeated, and people are asked.

lane -> admitted -> attempt -> ok, failed                        the item settles
                 ^            -> failed, and may be repeated     sleeps, waits for room
                 |            -> unknown                         a person decides: retry, accept, fail
                 +- asked before the call, where a person must
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from ...policies.effect import Effect
from ...policies.errors import BadInput
from ...policies.failures import Failure, Happened, Kind
from ...policies.retry import wait_before
from ...policies.secrets import Secret
from ...registry.tools import Tool, result_schema
from ...registry.values import copy_plain
from .. import events as e
from ..events import Outcome, Path, path_text
from .admission import Admission, admit, admit_decoded, hook_refused, refused
from .asking import (
    CALL,
    asks_again,
    contract_of,
    differs,
    digest_of,
    must_ask,
    put_question,
    read_edit,
    rejected_before,
    unused,
)
from .budget import affordable, in_time, out_of_seconds, reserve, settle_up
from .replanning import patch_decided
from .rounds import MODEL, model_timer
from .scopes import Settled, arguments_of, asks, emptiness, empty_source
from .state import (
    Active,
    Ask,
    Call,
    Command,
    Consult,
    Fault,
    Lane,
    Perform,
    Rejection,
    Sleep,
    State,
    Write,
)
from .steps import (
    enter_ready,
    give,
    item_settled,
    lane_item,
    open_frame,
    timer_of_lane,
    value_settled,
    write_value,
)

__all__ = [
    "admitted",
    "call_consulted",
    "call_settled",
    "decision_asked",
    "decision_made",
    "item_without_call",
    "make_room",
    "started",
    "timer_fired",
]


_OK, _FAILED, _SKIPPED = Outcome.OK, Outcome.FAILED, Outcome.SKIPPED
_CANCELLED, _UNKNOWN, _ACTS = Outcome.CANCELLED, Outcome.UNKNOWN, Effect.ACTS
_NO_SECRETS: Mapping[str, Secret] = {}
_new = tuple.__new__
"""Makes a named tuple in a third of the time, for what is made of every call; all its fields have to be given."""
_QUEUES = 8
"""So many tools that wait for their turn (a rate, a place at their host) together fill the slots of a run."""


# ---------------------------------------------------------------------------------------------- calls are admitted


def make_room(state: State) -> None:
    """Start calls while there is room: those to be tried again first, then the lanes in turn."""
    limit = state.at_once
    if state.stopping and state.held and not (state.short == "seconds" or out_of_seconds(state)):
        _finish_held(state)
    while state.live < limit and (state.again or state.lanes) and not state.stopping:
        if not state.again:
            _advance_lane(state, state.lanes.popleft())
            continue
        active = state.again.popleft()
        if not affordable(state, active.tool, active.path):
            state.hungry.append(active)
        elif _take(state, active.tool.name, active):
            _go_on(state, active)


def _finish_held(state: State) -> None:
    """Out of budget: sub-plans that were put aside go on with what they hold, like all that is under way."""
    for _ in range(len(state.again)):
        active = state.again.popleft()
        if active.path not in state.held or state.live >= state.at_once:
            state.again.append(active)
        elif _take(state, active.tool.name, active):
            _go_on(state, active)


def _advance_lane(state: State, lane: Lane) -> None:
    """Start a lane's next item."""
    before = lane.next
    if before >= lane.size:
        _pass_on(state, lane)
        return
    if lane.undoes is None and lane.node.code.block is not None:
        _open_next(state, lane)
        return
    tool = lane.tool(before)
    if _take(state, tool.name, lane):
        _start_next(state, lane, tool)
        if lane.next == before:
            state.hungry.append(lane)  # it waits for what others hold of the budget
        elif lane.next < lane.size and not lane.serial:
            state.lanes.append(lane)


def _open_next(state: State, lane: Lane) -> None:
    """Start the next item of a group, as long as not too many are open: what is open may need the room."""
    if lane.next - (lane.size - lane.left) >= state.at_once:
        lane.parked = True
        return
    open_frame(state, lane)
    enter_ready(state)
    if lane.next < lane.size and not lane.serial:
        state.lanes.append(lane)


def _go_on(state: State, active: Active) -> None:
    """Room for a call that waited: for its next attempt, or for a person's yes."""
    failure = admit(state, active.tool, active.args)  # on resume, the principal may hold less than before
    if failure is not None:
        give(state, active.path, Write(e.CallSettled, (active.path, 0, _FAILED, None, failure, active.args)))
        return
    if active.unheard and "before_call" in state.hooks:
        give(state, active.path, Consult("before_call", None, active.path, active.tool, active.args))
        return
    reserve(state, active.tool, active.path)
    if active.admitted:
        _perform(state, active)
    else:
        fields = (
            active.path,
            active.tool.name,
            active.args,
            active.args_digest,
            active.key,
            active.decoded,
        )
        give(state, active.path, Write(e.CallAdmitted, fields))


def _take(state: State, name: str, who: Lane | Active) -> bool:
    """Take a slot of the run and of the tool; without one of the tool, who asks is parked until one is free."""
    if name in state.queued:
        if not _has_room(state, name):
            state.parked.setdefault(name, deque()).append(who)
            return False
        state.live_of[name] = state.live_of.get(name, 0) + 1
    state.live += 1
    return True


def _has_room(state: State, name: str) -> bool:
    """Whether one more call of this tool may be live, and wait for its turn if its pace is bounded.

    Only a few may wait at a time: all slots of the run in the queue of a slow tool would keep the others from theirs.
    """
    limits, live = state.policies.limits, state.live_of.get(name, 0)
    if live >= limits.tool.get(name, live + 1):
        return False
    return name not in state.paced or live - state.begun_of.get(name, 0) < max(1, limits.run // _QUEUES)


def _free(state: State, name: str) -> None:
    state.live -= 1
    if name in state.live_of:
        state.live_of[name] -= 1
        _wake(state, name)


def _wake(state: State, name: str) -> None:
    """A slot of this tool is free: whoever waits for it longest tries again."""
    parked = state.parked.get(name)
    if parked:
        who = parked.popleft()
        if isinstance(who, Lane):
            state.lanes.appendleft(who)
        else:
            state.again.appendleft(who)


def _pass_on(state: State, lane: Lane) -> None:
    """A lane that was closed while it waited leaves the slot it was woken for to the next."""
    tool = lane.node.code.tool
    if lane.undoes is None and tool is not None and _has_room(state, tool.name):
        _wake(state, tool.name)


def _start_next(state: State, lane: Lane, tool: Tool) -> None:
    """Resolve and admit the lane's next item."""
    index = lane.next
    lane.next += 1
    path = lane.path(index)
    recorded = state.recorded.pop(path, None) if state.recorded else None
    if recorded is not None and recorded.tool == tool.name:
        _admit_as_recorded(state, lane, index, tool, recorded)
        return
    try:
        args = _resolved(state, lane, index)
    except Settled as settled:
        write_value(state, path, settled.outcome, failure=settled.failure, reason=settled.reason)
        return
    if "before_call" in state.hooks and not _is_kept(lane, index):
        state.proposed[path] = (lane, index, args)
        give(state, path, Consult("before_call", None, path, tool, args))
    else:
        _admit_next(state, lane, index, path, tool, args)


def call_consulted(state: State, event: e.HookAnswered) -> None:
    """What the hook before a call said: the call goes on as it wants it, or is refused."""
    del state.open[event.path]
    if event.path in state.calls:
        _edit_consulted(state, state.calls[event.path], event)
        return
    lane, index, args = state.proposed.pop(event.path)
    tool = lane.tool(index)
    if event.failure is not None or event.answer == "stop":
        failure = hook_refused(event)
        give(state, event.path, Write(e.CallSettled, (event.path, 0, _FAILED, None, failure, args)))
    else:
        wanted = args if event.value is None else event.value["args"]
        _admit_next(state, lane, index, event.path, tool, wanted)


def _edit_consulted(state: State, active: Active, event: e.HookAnswered) -> None:
    """What the hook said of a call that a person wrote: yes or no, but no third call that neither of them wrote."""
    active.unheard = False
    failure = hook_refused(event) if event.failure is not None or event.answer == "stop" else None
    if failure is None and event.value is not None and digest_of(event.value["args"]) != active.args_digest:
        said = "the before_call hook wants other arguments than those that a person has written"
        failure = Failure(Kind.PERMISSION, "refused_by_hook", said)
    if failure is not None:
        give(state, event.path, Write(e.CallSettled, (event.path, 0, _FAILED, None, failure, active.args)))
    else:  # others may have used the budget meanwhile, so it takes its turn once more
        _free(state, active.tool.name)
        state.again.append(active)


def _admit_next(
    state: State, lane: Lane, index: int, path: Path, tool: Tool, proposed: dict[str, Any]
) -> None:
    """Admit the call of an item, with arguments that are final but for JSON that came as text."""
    admission = admit_decoded(state, tool, proposed)
    args, _, failure = admission
    if failure is None:
        if lane.node.kept and _is_kept(lane, index):
            _identity(state, lane, index, tool, args)  # it counts for the keys of those after it
            _free(state, tool.name)
            item_settled(state, lane, index, _OK, lane.node.kept[index])
        elif tool.answered_by == "person":
            _put_question(state, lane, index, path, tool, args)
        elif affordable(state, tool, path):
            _approve_or_admit(state, lane, index, path, tool, admission)
        elif "before_call" in state.hooks:
            _approve_or_admit(state, lane, index, path, tool, admission, later=True)
        else:
            lane.next = index
            _free(state, tool.name)
    elif failure.kind is Kind.BAD_ARGS and _came_out_empty(state, lane, path, args):
        return
    else:
        give(state, path, Write(e.CallSettled, (path, 0, _FAILED, None, failure, args)))


def _is_kept(lane: Lane, index: int) -> bool:
    """Whether an item had succeeded before its step was tried again."""
    return lane.undoes is None and index in lane.node.kept


def _admit_as_recorded(state: State, lane: Lane, index: int, tool: Tool, event: e.CallAdmitted) -> None:
    """The record says that this call was admitted, and with which arguments: only what it takes is to be reckoned."""
    if not affordable(state, tool, event.path):  # it had to wait until it was
        state.recorded[event.path] = event
        lane.next = index
        _free(state, tool.name)
        return
    lane.seen[event.args_digest] = lane.seen.get(event.args_digest, 0) + 1
    reserve(state, tool, event.path)
    give(state, event.path, Write(e.CallAdmitted, event[3:]))


def _resolved(state: State, lane: Lane, index: int) -> dict[str, Any]:
    """The arguments of one item. Raises `Settled`."""
    if lane.undoes is not None:
        return lane.undoes[index].args
    node = lane.node
    item = None if lane.items is None else lane.items[index]
    if node.code.per_item and not asks(state, node, item, index):
        raise Settled(_SKIPPED, reason="`when` is false")
    args = arguments_of(state, node, item, index)
    return {**args, **copy_plain(lane.changes)} if lane.changes else args


def _came_out_empty(state: State, lane: Lane, path: Path, args: dict[str, Any]) -> bool:
    """An argument that is null because its step was skipped skips this one too."""
    node = lane.node
    if lane.undoes is not None or None not in args.values():
        return False
    source = empty_source(node, node.code.args.names)
    if source:
        write_value(state, path, _SKIPPED, reason=emptiness(node.frame, source))
    return bool(source)


def _approve_or_admit(
    state: State,
    lane: Lane,
    index: int,
    path: Path,
    tool: Tool,
    admission: Admission,
    *,
    later: bool = False,
) -> None:
    """Ask a person where one must see the call; else admit it, or `later`, once there is budget for it."""
    args, decoded, _ = admission
    data, key = _identity(state, lane, index, tool, args)
    active = Active(lane, index, path, tool, args, data, key, decoded)
    refusal = rejected_before(state, active) if state.rejected else None
    if refusal is not None:
        give(state, path, Write(e.CallSettled, (path, 0, _FAILED, None, refusal, args)))
        return
    why = must_ask(state, active)
    if why:
        state.calls[path] = active
        _ask(state, "call", active, CALL, {"reason": why})
        return
    if later:
        _free(state, tool.name)
        state.calls[path] = active
        state.again.append(active)
        return
    reserve(state, tool, path)
    state.admitting[path] = active
    give(state, path, _new(Write, (e.CallAdmitted, (path, tool.name, args, data, key, decoded))))


def _identity(state: State, lane: Lane, index: int, tool: Tool, args: dict[str, Any]) -> tuple[str, str]:
    """The digest of the arguments, and the key that is the same for every attempt of this call."""
    data = digest_of(args)
    n = lane.seen.get(data, 0)
    lane.seen[data] = n + 1
    lineage = lane.lineage if lane.undoes is None else lane.undoes[index].lineage
    if state.renewed and str(lane.node.path[0]) in state.renewed:
        lineage = f"{lineage}~{state.round}"
    text = f"{state.run}\n{lineage}\n{tool.name}\n{data}\n{n}"
    return data, sha256(text.encode()).hexdigest()[:40]


def _put_question(state: State, lane: Lane, index: int, path: Path, tool: Tool, args: dict[str, Any]) -> None:
    """A call that a person answers: no attempt, no budget, only a question."""
    active = Active(lane, index, path, tool, args, *_identity(state, lane, index, tool, args))
    state.calls[path] = active
    _ask(state, "ask", active, ("answer", "refuse"), {"schema": result_schema(tool, args)})


def _ask(state: State, about: str, active: Active, options: tuple[str, ...], more: Mapping[str, Any]) -> None:
    """Ask about a call, which gives its slot to others meanwhile."""
    _free(state, active.tool.name)
    put_question(state, about, active, options, more)


def admitted(state: State, event: e.CallAdmitted) -> None:
    """A call may be made: its first attempt is to be performed."""
    path = event.path
    del state.open[path]
    active = state.calls.get(path)
    if active is None:
        active = state.calls[path] = _decided(state, event)
    active.admitted = True
    _perform(state, active)


def _decided(state: State, event: e.CallAdmitted) -> Active:
    """The call as it was worked out when it was decided on; from the event where a replay or the scrubber says it anew."""
    _, _, _, path, tool, args, data, key, decoded = event
    active = state.admitting.pop(path, None)
    if active is not None and active.args is args and active.key is key and active.decoded is decoded:
        return active
    lane, index = lane_item(state, path)
    return Active(lane, index, path, state.tools[tool], args, data, key, decoded)


def _perform(state: State, active: Active) -> None:
    active.attempt += 1
    active.started = False
    tool, path = active.tool, active.path
    held = state.held.get(path) if state.held else None
    call = (
        state.run,
        path,
        tool,
        active.args,
        active.key,
        active.attempt,
        state.policies.tool_timeout if tool.timeout_unset else tool.timeout,
        state.principal,
        state.unheld if held is None else held.slice,
        active.answers,
        _NO_SECRETS,
        state.accepted.get(tool.name, ""),
    )
    give(state, path, _new(Perform, (_new(Call, call),)))


def started(state: State, event: e.CallStarted) -> None:
    """An attempt begins; of a tool that acts, that is remembered."""
    active = state.calls[event.path]
    active.started = active.begun = True
    name = active.tool.name
    if name in state.paced:
        state.begun_of[name] = state.begun_of.get(name, 0) + 1
        _wake(state, name)
    if state.bounded:
        state.unstarted.discard(event.path)
    if active.tool.effect is _ACTS:
        state.acted.setdefault((active.tool.name, active.args_digest), {})[active.path] = active.args


def _did_not_act(state: State, active: Active) -> None:
    """This attempt had no effect, nor had one before it: the same call elsewhere is no repetition of it."""
    if active.unsure:
        return
    made = state.acted.get((active.tool.name, active.args_digest), {})
    made.pop(active.path, None)
    if not made:
        state.acted.pop((active.tool.name, active.args_digest), None)


# ---------------------------------------------------------------------------------------------- calls settle


def call_settled(state: State, event: e.CallSettled) -> None:
    """An attempt ended, or a call was refused before there was one."""
    path, outcome = event.path, event.outcome
    del state.open[path]
    active = state.calls.pop(path, None)
    if active is None:
        lane, index = lane_item(state, path)
        tool = lane.tool(index)
        _free(state, tool.name)
        _call_failed(state, lane, index, tool, event, event.args)
        return
    settle_up(state, active, event)
    if active.tool.name in state.paced and active.started and event.attempt:
        state.begun_of[active.tool.name] -= 1
    if "after_call" in state.hooks and outcome is not _CANCELLED:
        about = Consult("after_call", None, path, active.tool, active.args, event)
        give(state, ("after", path, event.attempt), about)
    if outcome is _OK:
        _free(state, active.tool.name)
        item_settled(state, active.lane, active.index, _OK, event.value)
    elif outcome is _UNKNOWN:
        state.calls[path] = active
        active.unsure = True
        failure = event.failure.to_json() if event.failure is not None else None
        _ask(state, "unknown", active, ("retry", "accept", "fail"), {"failure": failure})
    elif outcome is _CANCELLED:
        _free(state, active.tool.name)
        _put_aside(state, active, event)
    else:
        _attempt_failed(state, active, event)


def _put_aside(state: State, active: Active, event: e.CallSettled) -> None:
    """An attempt ended without an end of the call: a sub-plan waits for people, or the process let go of it."""
    if active.tool.answered_by != "plan":
        _did_not_act(state, active)
    if not event.questions:
        _once_more(state, active)
        return
    state.calls[active.path] = active
    active.attempt -= 1
    for asked in event.questions:
        id_ = unused(state, f"{path_text(active.path)}/{asked['id']}")
        fields = (id_, asked["about"], active.path, tuple(asked["options"]), asked["question"])
        give(state, ("ask", id_), Write(e.DecisionAsked, fields))


def _once_more(state: State, active: Active) -> None:
    """The process let go of this call, or lost it, and it may be repeated: it does not count as an attempt.

    In the budget it does: an attempt that began stays charged.
    """
    state.calls[active.path] = active
    active.attempt -= 1
    state.again.append(active)


def _attempt_failed(state: State, active: Active, event: e.CallSettled) -> None:
    failure, tool = event.failure, active.tool
    assert failure is not None
    _free(state, tool.name)
    if tool.effect is _ACTS and failure.happened is Happened.NO:
        _did_not_act(state, active)
    contract = contract_of(failure)
    if contract is not None and not state.stopping:
        state.calls[active.path] = active
        put_question(state, "call", active, CALL[:2], {"reason": failure.message, "contract": contract})
        return
    wait = wait_before(
        state.policies.retry, event.attempt, failure=failure, effect=tool.effect, dice=event.dice
    )
    if wait is None or state.stopping or not in_time(state, event.at + wait):
        _call_failed(state, active.lane, active.index, tool, event, active.args)
        return
    state.calls[active.path] = active
    give(state, active.path, Sleep(active.path, event.at + wait))


def _call_failed(
    state: State, lane: Lane, index: int, tool: Tool, event: e.CallSettled, args: dict[str, Any] | None
) -> None:
    """A call failed for good; the same failure of the same call after a re-plan ends its lineage."""
    failure = event.failure
    assert failure is not None
    if _again(state, tool.name, digest_of(args), failure.code):
        _give_up(state, lane, f"failed again as before ({failure.code}) with the same arguments")
    _correct_once(state, lane, tool, failure)
    item_settled(state, lane, index, _FAILED, None, Fault(failure, args, event.attempt))


def _correct_once(state: State, lane: Lane, tool: Tool, failure: Failure) -> None:
    """Arguments may be corrected by one re-plan: where they are bad again, another would only be the next guess."""
    if failure.kind is not Kind.BAD_ARGS or lane.node.path[0] not in state.nodes:
        return
    top = state.nodes[str(lane.node.path[0])].code
    if _again(state, top.lineage, tool.name, str(Kind.BAD_ARGS)):
        _give_up(state, lane, f"got bad arguments again ({failure.code}), and they are corrected only once")


def _again(state: State, *what: str) -> bool:
    """Whether this was noted before the last re-plan; it is noted now."""
    return state.failed_before.setdefault(what, state.replans) < state.replans


def _give_up(state: State, lane: Lane, why: str) -> None:
    """No re-plan mends this step, nor what replaces it."""
    if lane.undoes is None and lane.node.path[0] in state.nodes:
        top = state.nodes[str(lane.node.path[0])].code
        state.hopeless.setdefault(top.lineage, f"{top.id!r} {why}")


def timer_fired(state: State, event: e.TimerFired) -> None:
    """A wait is over: before the next attempt of a call, or before the next call of a step that repeats."""
    del state.open[event.path]
    active = state.calls.get(event.path)
    if active is not None:
        state.again.append(active)
    elif event.path == MODEL:
        model_timer(state)
    else:
        timer_of_lane(state, event.path)


def item_without_call(state: State, event: e.ValueSettled) -> None:
    """A step or item settled without a call; an item had a slot for the call it did not make."""
    lane = value_settled(state, event)
    if lane is not None:
        tool = lane.node.code.tool
        assert tool is not None
        _free(state, tool.name)
        if event.failure is not None:
            _correct_once(state, lane, tool, event.failure)


# ---------------------------------------------------------------------------------------------- people decide


def _answered_in_child(state: State, decision: e.DecisionAsked, event: e.DecisionMade) -> None:
    """A question of a sub-plan is answered: with the last answer it goes on."""
    active = state.calls[decision.path]
    said = {"choice": event.choice, "by": event.by, "value": event.value, "reason": event.reason}
    active.answers[decision.question["of"]] = said
    if event.choice == "reject" and decision.about == "call":
        name, args = decision.question["tool"], decision.question["args"]
        state.rejected[name, digest_of(args)] = Rejection(active.path, args, _no(decision, event).message)
    if not any(_asks_about(command, decision.path) for command in state.open.values()):
        state.again.append(active)


def _asks_about(command: Command, path: Path) -> bool:
    """Whether a question about this call is open, or about to be asked."""
    if type(command) is Write:
        return command.kind is e.DecisionAsked and command.fields[2] == path
    return type(command) is Ask and command.decision.path == path


def decision_asked(state: State, event: e.DecisionAsked) -> None:
    """A person is asked; the question stays open until it is answered.

    Where values of the record were deleted, the mind may not know again why it asks: the record says of which call.
    """
    if event.about in ("call", "unknown") and event.path not in state.calls and "of" not in event.question:
        lane, index = lane_item(state, event.path)
        asked, args = event.question, event.question["args"]
        tool = state.tools[asked["tool"]]
        _free(state, tool.name)
        key = asked.get("key", "")
        state.calls[event.path] = Active(lane, index, event.path, tool, args, digest_of(args), key)
    state.open.pop(("ask", event.id) if "of" in event.question else event.path or "patch", None)
    state.decisions[event.id] = event
    give(state, ("decision", event.id), Ask(event))


def decision_made(state: State, event: e.DecisionMade) -> None:
    """A person answered: about a patch, a call, or an outcome nobody knows."""
    decision = state.decisions.pop(event.id)
    del state.open["decision", event.id]
    if decision.about == "patch":
        patch_decided(state, event)
        return
    if "of" in decision.question:
        _answered_in_child(state, decision, event)
        return
    active = state.calls.pop(decision.path)
    difference = differs(active, decision.question) if event.choice in ("approve", "retry", "edit") else ""
    if difference:
        _refuse(state, active, Failure(Kind.PERMISSION, "approval_differs", difference))
    elif event.choice in ("approve", "retry"):
        if "contract" in decision.question:
            state.accepted[active.tool.name] = decision.question["contract"]["pin"]
        state.calls[active.path] = active
        state.again.append(active)
    elif event.choice == "edit":
        _edited(state, active, event)
    elif event.choice in ("accept", "answer"):
        item_settled(state, active.lane, active.index, _OK, event.value)
    else:
        _said_no(state, active, decision, event)


def _said_no(state: State, active: Active, decision: e.DecisionAsked, event: e.DecisionMade) -> None:
    """A person refuses a call or a question, or knows that an outcome nobody knew is a failure."""
    no = _no(decision, event)
    if decision.about == "call":
        rejection = Rejection(active.path, active.args, no.message)
        state.rejected[active.tool.name, active.args_digest] = rejection
    document = decision.question.get("failure") if event.choice == "fail" else None
    _refuse(state, active, Failure.from_json(document) if document else no)


def _no(decision: e.DecisionAsked, event: e.DecisionMade) -> Failure:
    what = "to answer" if decision.about == "ask" else "this call"
    return refused(event.id, event.by, event.reason, what=what)


def _refuse(state: State, active: Active, failure: Failure) -> None:
    """A call ends here without another attempt."""
    fault = Fault(failure, active.args, active.attempt)
    item_settled(state, active.lane, active.index, _FAILED, None, fault)


def _edited(state: State, active: Active, event: e.DecisionMade) -> None:
    """A person wants other arguments, or another tool: the call is admitted from the start."""
    try:
        edit = read_edit(event.value, active.tool.name, state.contracted, state.principal, state.policies)
    except BadInput as error:  # the engine refuses such an edit before it becomes an event
        _refuse(state, active, Failure(Kind.BAD_ARGS, "invalid_edit", str(error)))
        return
    tool, admission = edit
    identity = _identity(state, active.lane, active.index, tool, admission.args)
    fresh = active.edited(tool, admission.args, *identity, admission.decoded)
    failure = admission.failure or rejected_before(state, fresh)
    if failure is not None:
        _refuse(state, fresh, failure)
        return
    fresh.unheard = True
    state.edited[fresh.path] = event.by
    state.calls[fresh.path] = fresh
    why = asks_again(state, fresh, active.tool)
    if why:
        put_question(state, "call", fresh, CALL, {"reason": why})
    else:
        state.again.append(fresh)
