"""A row that ended is tried again: what succeeded stays, what failed or was blocked waits anew, under the same keys.

A row that was stopped had not come to its end: what was to be done then is to be done now. What a failed row has taken back
is done again as if for the first time, under keys of its own: a service may know the old ones as done.
"""

from __future__ import annotations

from ...policies.effect import Effect
from ...policies.failures import Happened
from .. import events as e
from ..events import Outcome
from .program import Block
from .replanning import wait_anew
from .state import Ask, Node, State

__all__ = ["row_reopened"]


def row_reopened(state: State, event: e.RowReopened) -> None:
    """As if it had not ended: bounds on re-plans and failures begin anew, what was used of the budget stays used."""
    closed, state.closed = state.closed, None
    state.waiting = False
    state.principal = event.principal
    state.round += 1
    _forget_failures(state)
    root = state.root
    assert root is not None
    assert closed is not None
    if closed.state == "stopped":
        _go_on(state)
    _renew(state)
    for node in root.nodes.values():
        if _may_go_on(state, node):
            _keep_items(node)
            node.clear()
    root.left = sum(node.outcome is None for node in root.nodes.values())
    for node in root.nodes.values():
        wait_anew(state, node)


def _forget_failures(state: State) -> None:
    state.denied.clear()
    state.stopping = state.short = state.gave_up = ""
    state.unplannable = False
    state.replans = state.repairs = 0
    state.hopeless.clear()
    state.failed_before.clear()
    state.patches.clear()
    state.patch = None


def _go_on(state: State) -> None:
    """What a stop left open is open again."""
    left, state.left = state.left, {}
    left.pop("close", None)
    for tag, command in left.items():
        state.open[tag] = command
        state.given.append(command)
    state.decisions = {c.decision.id: c.decision for c in left.values() if isinstance(c, Ask)}
    queued: list[object] = [*state.again, *state.hungry]
    queued += [who for queue in state.parked.values() for who in queue]
    waiting = set(map(id, queued))
    about = {asked.path for asked in state.decisions.values()}
    for path, active in state.calls.items():
        if path not in state.open and path not in about and id(active) not in waiting:
            state.again.append(active)


def _renew(state: State) -> None:
    """What was taken back, and what came after it, is done again."""
    lost, state.taken_back = state.taken_back, set()
    state.renewed |= lost
    before = 0
    while before != len(lost):
        before = len(lost)
        lost |= {node.code.id for node in state.nodes.values() if not lost.isdisjoint(node.code.needs)}
    for id_ in lost:
        state.nodes[id_].kept = {}
        state.nodes[id_].clear()


def _keep_items(node: Node) -> None:
    """The items of an `each` that had succeeded are not called again."""
    lane = node.lane
    if lane is not None and lane.items is not None and not lane.serial:
        done = (i for i, outcome in enumerate(lane.outcomes) if outcome is Outcome.OK)
        node.kept |= {index: lane.values[index] for index in done}


def _may_go_on(state: State, node: Node) -> bool:
    """Whether a step that did not succeed is to be tried again; an act that has happened never is."""
    if node.outcome is None or node.passes or node.code.id in state.superseded:
        return False
    if node.outcome is Outcome.BLOCKED or node.failure is None:
        return True
    if node.code.block is not None:  # inside an item that failed others may have succeeded
        return not _acts(node.code.block)
    if node.code.tool is None:
        return True
    if node.lane is not None and node.code.tool.effect is Effect.ACTS:
        return all(fault.failure.happened is Happened.NO for fault in node.lane.faults.values())
    return node.code.tool.effect is not Effect.ACTS or node.failure.happened is Happened.NO


def _acts(block: Block) -> bool:
    """Whether any call in a group cannot be repeated."""
    for code in block.codes.values():
        if code.tool is not None and code.tool.effect is Effect.ACTS:
            return True
        if code.block is not None and _acts(code.block):
            return True
    return False
