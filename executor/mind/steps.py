"""Steps enter and settle: values at once, tools and groups as lanes, groups as frames of their own.

    waiting -> enters -> value, skip, block                          settled
                      -> lane of calls -> each item settles       -> settled
                      -> lane of frames -> each frame's steps settle, its output is taken -> item settles -> settled

A unit (the plan, or an item of a group) that fails takes back what was done in it, if policy says so, last first.
"""

from __future__ import annotations

from typing import Any

from ...policies.failures import Failure, Kind
from ...registry.values import copy_plain
from .. import events as e
from ..events import Outcome, Path
from .budget import in_time
from .scopes import Settled, asks, evaluated, is_enough, items_of, output_of, value_of
from .state import REACT, Command, Fault, Frame, Lane, Node, Sleep, State, Undone, Write

__all__ = [
    "begin",
    "enter_ready",
    "find",
    "give",
    "item_settled",
    "lane_item",
    "open_frame",
    "settle",
    "take_back",
    "timer_of_lane",
    "value_settled",
    "write_value",
]

_OK, _FAILED, _SKIPPED, _BLOCKED = Outcome.OK, Outcome.FAILED, Outcome.SKIPPED, Outcome.BLOCKED


def give(state: State, tag: Any, command: Command) -> None:
    """Give a command; it stands open under its tag until the event that answers it."""
    state.open[tag] = command
    state.given.append(command)


def begin(state: State, frame: Frame) -> None:
    """The steps of a frame that wait for nothing are ready."""
    state.ready.extend(node for node in frame.nodes.values() if not node.waiting)


def enter_ready(state: State) -> None:
    """Let every step enter whose needs are settled."""
    while state.ready:
        _enter(state, state.ready.popleft())


def _enter(state: State, node: Node) -> None:
    """All that this step needs is settled: settle it, or open its lane."""
    if state.stopping:
        return
    if state.taken and node.frame is state.root and node.code.id in state.taken:
        _take_over(state, node)
        return
    if node.blocker:
        settle(state, node, _BLOCKED, reason=f"{node.blocker!r} did not succeed")
        return
    code = node.code
    try:
        if code.when is not None and not code.per_item and not asks(state, node, None, 0):
            write_value(state, node.path, _SKIPPED, reason="`when` is false")
            return
        items = items_of(state, node) if code.each is not None else None
        if code.tool is None and code.block is None:
            write_value(state, node.path, _OK, value_of(state, node, items))
            return
    except Settled as settled:
        write_value(state, node.path, settled.outcome, failure=settled.failure, reason=settled.reason)
        return
    if items is not None and not items:
        write_value(state, node.path, _OK, [])
        return
    node.lane = Lane(node, items)
    state.lanes.append(node.lane)


def _take_over(state: State, node: Node) -> None:
    """The run from which this one was forked has settled this step."""
    taken = state.taken[node.code.id]
    failure = Failure.from_json(taken["failure"]) if "failure" in taken else None
    reason = f"taken over from run {state.forked_from}"
    write_value(state, node.path, Outcome(taken["outcome"]), taken["value"], failure=failure, reason=reason)


def write_value(
    state: State,
    path: Path,
    outcome: Outcome,
    value: Any = None,
    *,
    failure: Failure | None = None,
    reason: str = "",
) -> None:
    """Have it written that a step or item settles without a call."""
    give(state, path, Write(e.ValueSettled, (path, outcome, value, failure, reason)))


def find(state: State, path: Path) -> tuple[Node, int]:
    """The step a path leads to, and which item of it (0 where the path names none)."""
    dialogue = state.dialogue
    inside = dialogue is not None and path[0] == REACT
    frame = dialogue.frame if dialogue is not None and inside else state.root
    node, index = None, 0
    for part in path[2:] if inside else path:
        if isinstance(part, int):
            index = part
            continue
        if node is not None:
            assert node.lane is not None
            frame = node.lane.frames[index]
        assert frame is not None
        node, index = frame.nodes[part], 0
    assert node is not None
    return node, index


def lane_item(state: State, path: Path) -> tuple[Lane, int]:
    """The lane a call belongs to, and which item of it."""
    undoing = state.undoing.get(path)
    if undoing is not None:
        assert undoing.undoes is not None
        return undoing, next(i for i, undone in enumerate(undoing.undoes) if undone.path == path)
    node, index = find(state, path)
    assert node.lane is not None
    return node.lane, index


# ---------------------------------------------------------------------------------------------- a step settles


def settle(
    state: State,
    node: Node,
    outcome: Outcome,
    value: Any = None,
    *,
    failure: Failure | None = None,
    reason: str = "",
) -> None:
    """A step has ended; dependants count down, and the last one of a group's item ends the item."""
    node.outcome, node.value, node.failure, node.reason = outcome, value, failure, reason
    lane = node.lane
    if lane is not None and not lane.faults and not lane.reasons and not lane.frames:
        node.lane = None  # nothing in it that the values do not say
    passes = outcome is _OK or node.passes
    for dependant in node.dependants:
        dependant.waiting -= 1
        if not passes:
            dependant.blocker = node.code.id
        if not dependant.waiting:
            state.ready.append(dependant)
    frame = node.frame
    frame.left -= 1
    if not frame.left and frame.lane is not None:
        _frame_settled(state, frame)


def value_settled(state: State, event: e.ValueSettled) -> Lane | None:
    """Take in what settled without a call; gives the lane where it was an item that held a slot."""
    del state.open[event.path]
    node, index = find(state, event.path)
    lane = node.lane
    if lane is None:
        settle(state, node, event.outcome, event.value, failure=event.failure, reason=event.reason)
        return None
    fault = Fault(event.failure) if event.failure is not None else None
    item_settled(state, lane, index, event.outcome, event.value, fault, event.reason)
    return lane if node.code.block is None else None


def item_settled(
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
    if lane.undoes is None:
        if outcome is _OK and lane.node.code.undo is not None:
            _remember(state, lane, index, value)
        if fault is not None and lane.node.code.on_failure == "stop":
            close_lane(lane, _BLOCKED)
    if fault is not None:
        lane.faults[index] = fault
    if lane.parked:
        lane.parked = False
        state.lanes.append(lane)
    if lane.serial and lane.left:
        _go_on(state, lane, index)
    if not lane.left:
        _lane_settled(state, lane)


def close_lane(lane: Lane, outcome: Outcome) -> None:
    """No new item starts; those that never did end so."""
    if lane.closed:
        return
    lane.closed = True
    for index in range(lane.next, lane.size):
        lane.outcomes[index] = outcome
        lane.left -= 1
    lane.next = lane.size


def _go_on(state: State, lane: Lane, index: int) -> None:
    """A lane that makes its calls in order: stop where `until` holds, else the next, after `every`."""
    if lane.outcomes[index] is not _OK and lane.undoes is None and lane.items is None:
        close_lane(lane, _BLOCKED)
        return
    if lane.undoes is not None or lane.outcomes[index] is not _OK:
        state.lanes.append(lane)
        return
    node, result = lane.node, lane.values[index]
    item = None if lane.items is None else lane.items[index]
    try:
        if is_enough(state, node, item, index, result):
            close_lane(lane, _SKIPPED)
            return
        if node.code.next is not None:
            lane.changes = {
                **lane.changes,
                **evaluated(state, node, node.code.next, item, index, result, "`next`: "),
            }
    except Settled as settled:
        _unresolved_item(lane, index, settled)
        return
    every = node.code.step.every
    if every and not state.stopping and in_time(state, state.at + every):
        path = lane.path(lane.next)
        give(state, path, Sleep(path, state.at + every))
    else:
        state.lanes.append(lane)


def _unresolved_item(lane: Lane, index: int, settled: Settled) -> None:
    """`until` or `next` does not resolve for a result: the call was made, the step goes no further."""
    lane.outcomes[index] = _FAILED
    lane.faults[index] = Fault(_why(settled))
    close_lane(lane, _BLOCKED)


def _why(settled: Settled) -> Failure:
    return settled.failure or Failure(Kind.BAD_ARGS, "null", settled.reason)


def timer_of_lane(state: State, path: Path) -> None:
    """The pause between two calls of a lane is over."""
    state.lanes.append(find(state, path)[0].lane)  # type: ignore[arg-type]


def _lane_settled(state: State, lane: Lane) -> None:
    node = lane.node
    if lane.undoes is not None:
        _taken_back(state, lane)
        return
    if not lane.plural:
        outcome = lane.outcomes[0]
        assert outcome is not None
        fault = lane.faults.get(0)
        failure = fault.failure if fault else None
        settle(state, node, outcome, lane.values[0], failure=failure, reason=lane.reasons.get(0, ""))
        return
    reason = f"{len(lane.faults)} of {lane.size} items failed" if lane.faults else ""
    skipped = lane.items is None and _was_skipped(lane)
    exhausted = _exhausted(state, lane) if lane.serial and not skipped else None
    stop = node.code.on_failure == "stop"
    if lane.faults and (stop or lane.items is None):
        first = lane.faults[min(lane.faults)].failure
        settle(state, node, _FAILED, lane.values if stop else None, failure=first, reason=reason)
    elif exhausted is not None:
        settle(state, node, _FAILED, lane.values if stop else None, failure=exhausted, reason=reason)
    elif skipped:
        settle(state, node, _SKIPPED, reason=next(iter(lane.reasons.values()), ""))
    elif lane.items is None:
        made = [i for i, outcome in enumerate(lane.outcomes) if outcome is not _SKIPPED]
        settle(state, node, _OK, lane.values[: len(made)], reason=reason)
    else:
        settle(state, node, _OK, lane.values, reason=reason)


def _was_skipped(lane: Lane) -> bool:
    """Whether a step that repeats came to a call whose arguments came out empty."""
    return _BLOCKED in lane.outcomes or (not lane.closed and lane.outcomes[-1] is _SKIPPED)


def _exhausted(state: State, lane: Lane) -> Failure | None:
    """The time-out of an `until` that never held; the last result was asked already unless it ended the lane."""
    if lane.closed:
        return None
    last = lane.size - 1
    item = None if lane.items is None else lane.items[last]
    if lane.outcomes[last] is _OK:
        try:
            if is_enough(state, lane.node, item, last, lane.values[last]):
                return None
        except Settled as settled:
            return _why(settled)
    return Failure(
        Kind.TIMEOUT, "exhausted", f"`until` did not hold after {lane.size} calls", retryable=False
    )


# ---------------------------------------------------------------------------------------------- groups


def open_frame(state: State, lane: Lane) -> None:
    """Start the next item of a group: a frame of its own."""
    index = lane.next
    lane.next += 1
    node = lane.node
    if index in node.kept:
        item_settled(state, lane, index, _OK, node.kept[index])
        return
    item = None if lane.items is None else lane.items[index]
    try:
        if node.code.per_item and not asks(state, node, item, index):
            write_value(state, lane.path(index), _SKIPPED, reason="`when` is false")
            return
    except Settled as settled:
        write_value(state, lane.path(index), settled.outcome, failure=settled.failure, reason=settled.reason)
        return
    assert node.code.block is not None
    frame = lane.frames[index] = Frame(node.code.block, lane.path(index), lane, index, item)
    begin(state, frame)
    if not frame.nodes:
        _frame_settled(state, frame)


def _frame_settled(state: State, frame: Frame) -> None:
    """Every step of a group's item is settled: it gives its output, or takes back what it did and fails."""
    if all(node.passes for node in frame.nodes.values()):
        _frame_passed(state, frame)
    elif not take_back(state, frame):
        _frame_failed(state, frame)


def _frame_passed(state: State, frame: Frame) -> None:
    lane = frame.lane
    assert lane is not None
    path = lane.path(frame.index)
    try:
        value = output_of(state, frame)
    except Settled as settled:
        frame.why = settled.failure
        if settled.outcome is _FAILED and take_back(state, frame):
            return
        _hand_over(frame, lane.node.frame)
        write_value(state, path, settled.outcome, failure=settled.failure, reason=settled.reason)
        return
    _hand_over(frame, lane.node.frame)
    if not any(_tells(node) for node in frame.nodes.values()):
        frame.nodes = {}  # its output says all that anyone will ask
    write_value(state, path, _OK, value)


def _tells(node: Node) -> bool:
    """Whether a settled step holds something that people want to see although its group succeeded."""
    return node.outcome is not _OK or node.lane is not None


def _frame_failed(state: State, frame: Frame) -> None:
    lane = frame.lane
    assert lane is not None
    path = lane.path(frame.index)
    if frame.why is not None:
        write_value(state, path, _FAILED, failure=frame.why)
        return
    first = next(n for n in frame.nodes.values() if not n.passes and n.failure is not None)
    write_value(state, path, _FAILED, failure=first.failure, reason=f"{first.code.id!r} failed")


# ---------------------------------------------------------------------------------------------- undo


def _remember(state: State, lane: Lane, index: int, value: Any) -> None:
    """A call with an `undo` succeeded: work out the call that takes it back, while its data are at hand."""
    node = lane.node
    code = node.code
    assert code.undo is not None
    assert code.undo_tool is not None
    item = None if lane.items is None else lane.items[index]
    try:
        args = evaluated(state, node, code.undo, item, index, value, "`undo`: ")
    except Settled as settled:
        lane.reasons[index] = (
            f"cannot be undone: {settled.failure.message if settled.failure else settled.reason}"
        )
        node.frame.lost += 1
        return
    path = (*lane.path(index), "undo")
    lineage = f"{lane.lineage}[{index}].undo"
    node.frame.undo.append(Undone(path, code.undo_tool, copy_plain(args), lineage, code.undo_asks))


def _hand_over(inner: Frame, outer: Frame) -> None:
    """A unit succeeded: what it did is taken back if the one around it fails."""
    outer.undo.extend(inner.undo)
    outer.lost += inner.lost


def take_back(state: State, frame: Frame) -> bool:
    """Undo what was done in a unit that failed, last first, one after the other; False where there is nothing to."""
    if not state.policies.undo:
        return False
    state.not_undone += frame.lost
    frame.lost = 0
    if not frame.undo:
        return False
    undoes, frame.undo = frame.undo[::-1], []
    node = frame.lane.node if frame.lane is not None else next(iter(frame.nodes.values()))
    lane = Lane(node, None, undoes=undoes)
    lane.frames[0] = frame
    state.undoing.update((undone.path, lane) for undone in undoes)
    state.lanes.append(lane)
    return True


def _taken_back(state: State, lane: Lane) -> None:
    assert lane.undoes is not None
    for undone in lane.undoes:
        del state.undoing[undone.path]
    state.undone += sum(outcome is _OK for outcome in lane.outcomes)
    state.not_undone += sum(outcome is not _OK for outcome in lane.outcomes)
    frame = lane.frames[0]
    if frame.lane is not None:
        _frame_failed(state, frame)
    else:
        done = zip(lane.undoes, lane.outcomes, strict=True)
        state.taken_back.update(str(undone.path[0]) for undone, outcome in done if outcome is _OK)
