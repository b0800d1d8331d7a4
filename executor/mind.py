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

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from ..policies.canonical import canonical
from ..policies.effect import Effect
from ..policies.expressions import EvaluationError, Template
from ..policies.failures import Failure, Happened, Kind
from ..policies.retry import wait_before
from ..registry.tools import Tool
from ..registry.values import copy_plain
from . import events as e
from .admission import admit, refused
from .events import Event, Outcome, Path, path_text
from .program import Code, compile_plan
from .replanning import (
    consider_replan,
    hook_answered,
    model_answered,
    patch_accepted,
    patch_decided,
    patch_refused,
)
from .state import Active, Ask, Call, Command, Fault, Lane, Node, Perform, Sleep, StaleState, State, Write

__all__ = ["advance", "outstanding", "replay"]

_OK, _FAILED, _SKIPPED, _BLOCKED = Outcome.OK, Outcome.FAILED, Outcome.SKIPPED, Outcome.BLOCKED


def advance(state: State, event: Event) -> tuple[Command, ...]:
    """Take in what happened and say what is to be done. Raises `StaleState` where the event does not follow."""
    if event.seq != state.seq + 1:
        raise StaleState(f"event {event.seq} does not follow {state.seq}: this state is stale")
    state.seq = event.seq
    state.at = event.at
    given: list[Command] = []
    state.given = given
    _ON[type(event)](state, event)
    if state.closed is None:
        _enter_ready(state)
        _make_room(state)
        if len(state.open) == len(state.decisions):  # state.resting, inlined: asked at every event
            _rest(state)
    return tuple(given)


def outstanding(state: State) -> tuple[Command, ...]:
    """Every command not yet answered: after a replay, what is to be done."""
    return tuple(state.open.values()) if state.closed is None else ()


def replay(state: State, events: Iterable[Event]) -> State:
    """Bring a fresh state to where these events lead."""
    for event in events:
        advance(state, event)
    return state


# ---------------------------------------------------------------------------------------------- a run begins


def _opened(state: State, event: e.RunOpened) -> None:
    state.run = event.run
    state.started_at = datetime.fromtimestamp(event.at, UTC).isoformat(timespec="seconds")
    state.inputs = event.inputs
    state.principal = event.principal
    state.policies = event.policies
    state.approval = event.approval
    state.planner = event.planner
    state.hooks = frozenset(event.hooks)
    state.open["plan"] = Write(e.PlanAccepted, ())  # the engine holds the plan; it writes this itself


def _accepted(state: State, event: e.PlanAccepted) -> None:
    del state.open["plan"]
    state.approved = event.plan
    program = state.program = compile_plan(event.plan, state.tools)
    nodes = state.nodes = {code.id: Node(code) for code in program.codes.values()}
    state.ids = set(nodes)
    for id_, node in nodes.items():
        node.dependants = [nodes[d] for d in program.dependants[id_]]
        node.waiting = len(node.code.needs)
    state.ready.extend(node for node in nodes.values() if not node.waiting)


# ---------------------------------------------------------------------------------------------- a step enters


def _enter_ready(state: State) -> None:
    while state.ready:
        _enter(state, state.ready.popleft())


def _enter(state: State, node: Node) -> None:
    """All that this step needs is settled: settle it, or open its lane."""
    if state.stopping:
        return
    if node.blocker:
        _settle(state, node, _BLOCKED, reason=f"{node.blocker!r} did not succeed")
        return
    code = node.code
    try:
        if code.when is not None and not code.per_item and not _asks(state, code, None, 0):
            _write_value(state, (code.id,), _SKIPPED, reason="`when` is false")
            return
        items = _items(state, code)
        if code.tool is None:
            _write_value(state, (code.id,), _OK, _value(state, code, items))
            return
    except _Settled as settled:
        _write_value(state, (code.id,), settled.outcome, failure=settled.failure, reason=settled.reason)
        return
    if items is not None and not items:
        _write_value(state, (code.id,), _OK, [])
        return
    node.lane = Lane(node, items)
    state.lanes.append(node.lane)


class _Settled(Exception):
    """A step or item settles here, without a value: skipped, or failed with bad arguments."""

    def __init__(self, outcome: Outcome, *, failure: Failure | None = None, reason: str = "") -> None:
        self.outcome = outcome
        self.failure = failure
        self.reason = reason


def _unresolved(state: State, code: Code, error: EvaluationError, where: str = "") -> _Settled:
    """An expression did not resolve: skipped if that is because a step it names came out empty, else failed."""
    source = _empty_source(state, code, error.roots) if error.code == "null" else ""
    if source:
        return _Settled(_SKIPPED, reason=f"{_emptiness(state, source)}: {where}{error.message}")
    return _Settled(
        _FAILED, failure=_bad_args(error.code, f"{where}{error}", plain=f"{where}{error.message}")
    )


def _not_a(state: State, code: Code, what: str, value: Any, template: Template, kind: str) -> _Settled:
    """A template gave something of the wrong type; null because of an empty step skips."""
    source = _empty_source(state, code, template.names) if value is None else ""
    if source:
        return _Settled(_SKIPPED, reason=_emptiness(state, source))
    return _Settled(_FAILED, failure=_bad_args(kind, f"{what}, not {type(value).__name__}"))


def _bad_args(kind: str, message: str, *, plain: str = "") -> Failure:
    """`plain` is the sentence without any data in it: what a planner may read."""
    return Failure(Kind.BAD_ARGS, kind, message, details={"plain": plain or message})


def _emptiness(state: State, source: str) -> str:
    was = "was skipped" if state.nodes[source].outcome is _SKIPPED else "failed"
    return f"{source!r} {was}"


def _empty_source(state: State, code: Code, names: Collection[str]) -> str:
    """The first of these steps that has no result because it was skipped or failed."""
    for name in code.reads:
        node = state.nodes[name]
        if name in names and node.value is None and node.outcome is not _OK:
            return name
    return ""


def _scope(state: State, names: frozenset[str], code: Code, item: Any, index: int) -> dict[str, Any]:
    scope: dict[str, Any] = {}
    nodes = state.nodes
    inside = code.each is not None
    for name in names:
        if inside and name == code.item:
            scope[name] = item
        elif name in nodes:
            scope[name] = nodes[name].value
        elif name == "inputs":
            scope[name] = state.inputs
        elif name == "index":
            scope[name] = index
        else:
            scope[name] = {"id": state.run, "started_at": state.started_at}
    return scope


def _asks(state: State, code: Code, item: Any, index: int) -> bool:
    """Whether `when` holds."""
    assert code.when is not None
    try:
        answer = code.when.evaluate(_scope(state, code.when.names, code, item, index))
    except EvaluationError as error:
        raise _unresolved(state, code, error, "`when`: ") from None
    if type(answer) is not bool:
        raise _not_a(state, code, "`when` must be true or false", answer, code.when, "when_not_boolean")
    return answer


def _items(state: State, code: Code) -> list[Any] | None:
    if code.each is None:
        return None
    try:
        items = code.each.evaluate(_scope(state, code.each.names, code, None, 0))
    except EvaluationError as error:
        raise _unresolved(state, code, error, "`each`: ") from None
    if not isinstance(items, list):
        raise _not_a(state, code, "`each` needs a list", items, code.each, "each_not_list")
    return items


def _value(state: State, code: Code, items: list[Any] | None) -> Any:
    """The value of a `value` step; with `each`, a list of one per item."""
    if items is None:
        return _one_value(state, code, None, 0)
    values: list[Any] = []
    for index, item in enumerate(items):
        try:
            keep = not code.per_item or _asks(state, code, item, index)
            values.append(_one_value(state, code, item, index) if keep else None)
        except _Settled as settled:
            if settled.outcome is _FAILED and code.on_failure == "stop":
                raise
            values.append(None)
    return values


def _one_value(state: State, code: Code, item: Any, index: int) -> Any:
    assert code.value is not None
    try:
        return copy_plain(code.value.evaluate(_scope(state, code.value.names, code, item, index)))
    except EvaluationError as error:
        raise _unresolved(state, code, error) from None


def _write_value(
    state: State,
    path: Path,
    outcome: Outcome,
    value: Any = None,
    *,
    failure: Failure | None = None,
    reason: str = "",
) -> None:
    _give(state, path, Write(e.ValueSettled, (path, outcome, value, failure, reason)))


def _index(path: Path) -> int:
    """Which item a path of a step means; 0 without `each`."""
    index = path[1] if len(path) > 1 else 0
    assert isinstance(index, int)
    return index


def _give(state: State, tag: Any, command: Command) -> None:
    state.open[tag] = command
    state.given.append(command)


# ---------------------------------------------------------------------------------------------- a step settles


def _settle(
    state: State,
    node: Node,
    outcome: Outcome,
    value: Any = None,
    *,
    failure: Failure | None = None,
    reason: str = "",
) -> None:
    node.outcome, node.value, node.failure, node.reason = outcome, value, failure, reason
    if node.lane is not None and not node.lane.faults and not node.lane.reasons:
        node.lane = None  # nothing in it that the values do not say
    passes = node.passes
    for dependant in node.dependants:
        dependant.waiting -= 1
        if not passes:
            dependant.blocker = node.code.id
        if not dependant.waiting:
            state.ready.append(dependant)


def _value_settled(state: State, event: e.ValueSettled) -> None:
    del state.open[event.path]
    node = state.nodes[event.path[0]]  # type: ignore[index]
    if node.lane is None:
        _settle(state, node, event.outcome, event.value, failure=event.failure, reason=event.reason)
        return
    assert node.code.tool is not None
    _free(state, node.code.tool.name)
    index = _index(event.path)
    fault = Fault(event.failure) if event.failure is not None else None
    _item_settled(state, node.lane, index, event.outcome, None, fault, event.reason)


def _item_settled(
    state: State,
    lane: Lane,
    index: int,
    outcome: Outcome,
    value: Any = None,
    fault: Fault | None = None,
    reason: str = "",
) -> None:
    """One item of a lane ended; the last one settles the step."""
    lane.outcomes[index] = outcome
    lane.values[index] = value
    lane.left -= 1
    if reason:
        lane.reasons[index] = reason
    if fault is not None:
        lane.faults[index] = fault
        if lane.node.code.on_failure == "stop":
            _close_lane(lane)
    if not lane.left:
        _lane_settled(state, lane)


def _close_lane(lane: Lane) -> None:
    """No new item starts; those that never did are blocked."""
    if lane.closed:
        return
    lane.closed = True
    for index in range(lane.next, lane.size):
        lane.outcomes[index] = _BLOCKED
        lane.left -= 1
    lane.next = lane.size


def _lane_settled(state: State, lane: Lane) -> None:
    node = lane.node
    if lane.items is None:
        outcome = lane.outcomes[0]
        assert outcome is not None
        fault = lane.faults.get(0)
        failure = fault.failure if fault else None
        _settle(state, node, outcome, lane.values[0], failure=failure, reason=lane.reasons.get(0, ""))
        return
    reason = f"{len(lane.faults)} of {lane.size} items failed" if lane.faults else ""
    if lane.faults and node.code.on_failure == "stop":
        first = lane.faults[min(lane.faults)].failure
        _settle(state, node, _FAILED, lane.values, failure=first, reason=reason)
        return
    _settle(state, node, _OK, lane.values, reason=reason)


# ---------------------------------------------------------------------------------------------- calls are admitted


def _make_room(state: State) -> None:
    """Start calls while there is room: those to be tried again first, then the lanes in turn."""
    limit = state.policies.limits.run
    while state.live < limit and (state.again or state.lanes) and not state.stopping:
        if not _within_budget(state):
            return
        if state.again:
            active = state.again.popleft()
            if _take(state, active.tool.name, active):
                _go_on(state, active)
            continue
        lane = state.lanes.popleft()
        if lane.next >= lane.size:
            continue
        tool = lane.node.code.tool
        assert tool is not None
        if not _take(state, tool.name, lane):
            continue
        _start_next(state, lane, tool)
        if lane.next < lane.size:
            state.lanes.append(lane)


def _within_budget(state: State) -> bool:
    most = state.policies.budget.tool_calls
    if most is None or state.tool_calls < most:
        return True
    state.stopping = "budget"
    for tag in [tag for tag, command in state.open.items() if isinstance(command, Sleep)]:
        del state.open[tag]
    return False


def _go_on(state: State, active: Active) -> None:
    """Room for a call that waited: for its next attempt, or for a person's yes."""
    state.tool_calls += 1
    if active.admitted:
        _perform(state, active)
    else:
        fields = (active.path, active.tool.name, active.args, active.args_digest, active.key)
        _give(state, active.path, Write(e.CallAdmitted, fields))


def _take(state: State, name: str, who: Lane | Active) -> bool:
    """Take a slot of the run and of the tool; without one of the tool, who asks is parked until one is free."""
    most = state.policies.limits.tool.get(name)
    if most is not None:
        live = state.live_of.get(name, 0)
        if live >= most:
            state.parked.setdefault(name, deque()).append(who)
            return False
        state.live_of[name] = live + 1
    state.live += 1
    return True


def _free(state: State, name: str) -> None:
    state.live -= 1
    if name in state.live_of:
        state.live_of[name] -= 1
        parked = state.parked.get(name)
        if parked:
            who = parked.popleft()
            if isinstance(who, Lane):
                state.lanes.appendleft(who)
            else:
                state.again.appendleft(who)


def _start_next(state: State, lane: Lane, tool: Tool) -> None:
    """Resolve and admit the lane's next item."""
    index = lane.next
    lane.next += 1
    code = lane.node.code
    item = None if lane.items is None else lane.items[index]
    path = lane.path(index)
    try:
        if code.per_item and not _asks(state, code, item, index):
            _write_value(state, path, _SKIPPED, reason="`when` is false")
            return
        args = _arguments(state, code, item, index)
    except _Settled as settled:
        _write_value(state, path, settled.outcome, failure=settled.failure, reason=settled.reason)
        return
    failure = admit(state, tool, args)
    if failure is not None:
        _refuse(state, code, path, args, failure)
        return
    _approve_or_admit(state, lane, index, tool, args)


def _arguments(state: State, code: Code, item: Any, index: int) -> dict[str, Any]:
    try:
        args: dict[str, Any] = copy_plain(
            code.args.evaluate(_scope(state, code.args.names, code, item, index))
        )
    except EvaluationError as error:
        raise _unresolved(state, code, error) from None
    return args


def _refuse(state: State, code: Code, path: Path, args: dict[str, Any], failure: Failure) -> None:
    """A call that may not be; an argument that is null because its step was skipped skips this one too."""
    if failure.kind is Kind.BAD_ARGS and None in args.values():
        source = _empty_source(state, code, code.args.names)
        if source:
            _write_value(state, path, _SKIPPED, reason=_emptiness(state, source))
            return
    _give(state, path, Write(e.CallSettled, (path, 0, _FAILED, None, failure, args)))


def _approve_or_admit(state: State, lane: Lane, index: int, tool: Tool, args: dict[str, Any]) -> None:
    data = sha256(canonical(args)).hexdigest()
    n = lane.seen.get(data, 0)
    lane.seen[data] = n + 1
    path = lane.path(index)
    text = f"{state.run}\n{lane.node.code.lineage}\n{tool.name}\n{data}\n{n}"
    key = sha256(text.encode()).hexdigest()[:40]
    why = _must_ask(state, lane.node.code, tool, data)
    if why:
        active = Active(lane, index, tool, args, data, key)
        state.calls[path] = active
        _ask(state, "call", active, ("approve", "reject"), {"reason": why})
        return
    state.tool_calls += 1
    _give(state, path, Write(e.CallAdmitted, (path, tool.name, args, data, key)))


def _must_ask(state: State, code: Code, tool: Tool, data: str) -> str:
    """Why a person must see this very call, if one must."""
    if code.asks:
        return f"{tool.name!r} asks before each call"
    if tool.effect is Effect.ACTS and (tool.name, data) in state.acted and code.step.replaces is not None:
        done = path_text(state.acted[tool.name, data][0])
        return f"the same call was already made as {done} in this run"
    return ""


def _ask(state: State, about: str, active: Active, options: tuple[str, ...], more: Mapping[str, Any]) -> None:
    path = active.path
    _free(state, active.tool.name)
    id_ = f"{path_text(path)}:{about}:{active.attempt}"
    question = {"tool": active.tool.name, "args": active.args, "key": active.key, **more}
    _give(state, path, Write(e.DecisionAsked, (id_, about, path, options, question)))


def _admitted(state: State, event: e.CallAdmitted) -> None:
    del state.open[event.path]
    path = event.path
    active = state.calls.get(path)
    if active is None:
        lane = state.nodes[path[0]].lane  # type: ignore[index]
        assert lane is not None
        active = Active(lane, _index(path), state.tools[event.tool], event.args, event.args_digest, event.key)
        state.calls[path] = active
    active.admitted = True
    _perform(state, active)


def _perform(state: State, active: Active) -> None:
    active.attempt += 1
    active.started = False
    tool = active.tool
    timeout = state.policies.tool_timeout if tool.timeout_unset else tool.timeout
    call = Call(
        state.run, active.path, tool, active.args, active.key, active.attempt, timeout, state.principal
    )
    _give(state, active.path, Perform(call))


def _started(state: State, event: e.CallStarted) -> None:
    active = state.calls[event.path]
    active.started = True
    if active.tool.effect is Effect.ACTS:
        state.acted[active.tool.name, active.args_digest] = (active.path, active.args)


# ---------------------------------------------------------------------------------------------- calls settle


def _call_settled(state: State, event: e.CallSettled) -> None:
    del state.open[event.path]
    active = state.calls.pop(event.path, None)
    if active is None:
        node = state.nodes[event.path[0]]  # type: ignore[index]
        assert node.lane is not None
        assert node.code.tool is not None
        _free(state, node.code.tool.name)
        _call_failed(state, node.lane, _index(event.path), node.code.tool, event, event.args)
        return
    if event.outcome is _OK:
        _free(state, active.tool.name)
        _item_settled(state, active.lane, active.index, _OK, event.value)
    elif event.outcome is Outcome.UNKNOWN:
        state.calls[event.path] = active
        failure = event.failure.to_json() if event.failure is not None else None
        _ask(state, "unknown", active, ("retry", "accept", "fail"), {"failure": failure})
    elif event.outcome is Outcome.CANCELLED:
        _free(state, active.tool.name)
        _once_more(state, active)
    else:
        _attempt_failed(state, active, event)


def _once_more(state: State, active: Active) -> None:
    """The process let go of this call, or lost it, and it may be repeated: it does not count as an attempt."""
    state.calls[active.path] = active
    state.tool_calls -= 1
    active.attempt -= 1
    state.again.append(active)


def _attempt_failed(state: State, active: Active, event: e.CallSettled) -> None:
    failure, tool = event.failure, active.tool
    assert failure is not None
    _free(state, tool.name)
    if tool.effect is Effect.ACTS and failure.happened is Happened.NO:
        state.acted.pop((tool.name, active.args_digest), None)
    if failure.code == "interrupted" and tool.effect.repeatable:
        _once_more(state, active)
        return
    wait = wait_before(
        state.policies.retry, event.attempt, failure=failure, effect=tool.effect, dice=event.dice
    )
    if wait is None or state.stopping:
        _call_failed(state, active.lane, active.index, tool, event, active.args)
        return
    state.calls[active.path] = active
    _give(state, active.path, Sleep(active.path, event.at + wait))


def _call_failed(
    state: State, lane: Lane, index: int, tool: Tool, event: e.CallSettled, args: dict[str, Any] | None
) -> None:
    """A call failed for good; the same failure of the same call after a re-plan ends its lineage."""
    failure = event.failure
    assert failure is not None
    seen = (tool.name, sha256(canonical(args)).hexdigest(), failure.code)
    if seen in state.failed_before and lane.node.code.step.replaces is not None:
        state.hopeless[lane.node.code.lineage] = (
            f"{lane.node.code.id!r} failed again as before ({failure.code}) with the same arguments"
        )
    state.failed_before.add(seen)
    _item_settled(state, lane, index, _FAILED, None, Fault(failure, args, event.attempt))


def _timer_fired(state: State, event: e.TimerFired) -> None:
    del state.open[event.path]
    state.again.append(state.calls[event.path])


# ---------------------------------------------------------------------------------------------- people decide


def _asked(state: State, event: e.DecisionAsked) -> None:
    state.open.pop(event.path or "patch", None)
    state.decisions[event.id] = event
    _give(state, ("decision", event.id), Ask(event))


def _made(state: State, event: e.DecisionMade) -> None:
    decision = state.decisions.pop(event.id)
    del state.open["decision", event.id]
    if decision.about == "patch":
        patch_decided(state, event)
        return
    active = state.calls.pop(decision.path)
    if event.choice in ("approve", "retry"):
        state.calls[active.path] = active
        state.again.append(active)
    elif event.choice == "accept":
        _item_settled(state, active.lane, active.index, _OK, event.value)
    else:
        document = decision.question.get("failure") if event.choice == "fail" else None
        failure = Failure.from_json(document) if document else refused(event.id, event.by, event.reason)
        fault = Fault(failure, active.args, active.attempt)
        _item_settled(state, active.lane, active.index, _FAILED, None, fault)


# ---------------------------------------------------------------------------------------------- rest, and the end


def _rest(state: State) -> None:
    """Nothing is under way: re-plan what failed, wait for people, or close."""
    if not state.stopping and consider_replan(state):
        return
    if state.decisions:
        return
    _give(state, "close", Write(e.RunClosed, _closing(state)))


def _closing(state: State) -> tuple[Any, ...]:
    failed = [n for n in state.nodes.values() if not n.passes and n.code.id not in state.superseded]
    output, problem = _output(state)
    if state.stopping:
        return ("stopped", state.stopping, output, _stopped_message(state))
    if failed or problem:
        return ("failed", "", output, _failed_message(state, failed) if failed else problem)
    return ("done", "", output, f"all {len(state.nodes) - len(state.superseded)} steps are settled")


def _output(state: State) -> tuple[Any, str]:
    """The plan's output as far as it resolves, and a sentence where it does not."""
    template = state.program.output if state.program is not None else None
    if template is None:
        return None, ""
    scope: dict[str, Any] = {"inputs": state.inputs, "run": {"id": state.run, "started_at": state.started_at}}
    scope.update((name, state.nodes[name].value) for name in template.names if name in state.nodes)
    try:
        return copy_plain(template.evaluate(scope)), ""
    except EvaluationError as error:
        return None, f"the output does not resolve: {error}"


def _failed_message(state: State, failed: list[Node]) -> str:
    causes = [n for n in failed if n.outcome is _FAILED]
    named = "; ".join(f"{n.code.id!r}: {n.failure.message if n.failure else n.reason}" for n in causes[:3])
    more = f"; and {len(causes) - 3} more" if len(causes) > 3 else ""
    blocked = f"; {len(failed) - len(causes)} steps were blocked by them" if len(failed) > len(causes) else ""
    why = f" ({state.gave_up})" if state.gave_up else ""
    return f"{len(causes)} of {len(state.nodes)} steps failed: {named}{more}{blocked}{why}"


def _stopped_message(state: State) -> str:
    left = sum(1 for n in state.nodes.values() if n.outcome is None or n.outcome is _BLOCKED)
    if state.stopping == "budget":
        return f"the budget of {state.policies.budget.tool_calls} tool calls is used up; {left} steps were not finished"
    return f"{state.gave_up or 'the run was stopped'}; {left} steps were not finished"


def _paused(state: State, event: e.RunPaused) -> None:
    state.waiting = True


def _resumed(state: State, event: e.RunResumed) -> None:
    state.waiting = False
    state.principal = event.principal
    state.denied.clear()


def _closed(state: State, event: e.RunClosed) -> None:
    state.open.clear()
    state.decisions.clear()
    state.closed = event


_ON: dict[type[Event], Callable[[State, Any], None]] = {
    e.RunOpened: _opened,
    e.PlanAccepted: _accepted,
    e.CallAdmitted: _admitted,
    e.CallStarted: _started,
    e.CallSettled: _call_settled,
    e.ValueSettled: _value_settled,
    e.TimerFired: _timer_fired,
    e.DecisionAsked: _asked,
    e.DecisionMade: _made,
    e.HookAnswered: hook_answered,
    e.ModelAnswered: model_answered,
    e.PatchAccepted: patch_accepted,
    e.PatchRefused: patch_refused,
    e.RunPaused: _paused,
    e.RunResumed: _resumed,
    e.RunClosed: _closed,
}
