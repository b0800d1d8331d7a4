"""A row that ended is tried again: what succeeded stays, what failed or was blocked waits anew, under the same keys."""

from __future__ import annotations

from ...policies.effect import Effect
from ...policies.failures import Happened
from .. import events as e
from ..events import Outcome
from .replanning import wait_anew
from .state import Node, State

__all__ = ["row_reopened"]


def row_reopened(state: State, event: e.RowReopened) -> None:
    """As if it had not ended: bounds on re-plans and failures begin anew, what was used of the budget stays used."""
    state.closed = None
    state.waiting = False
    state.principal = event.principal
    state.denied.clear()
    state.stopping = state.short = state.gave_up = ""
    state.unplannable = False
    state.replans = state.repairs = 0
    state.hopeless.clear()
    state.failed_before.clear()
    state.patches.clear()
    root = state.root
    assert root is not None
    for node in root.nodes.values():
        if _may_go_on(state, node):
            node.clear()
    root.left = sum(node.outcome is None for node in root.nodes.values())
    for node in root.nodes.values():
        wait_anew(state, node)


def _may_go_on(state: State, node: Node) -> bool:
    """Whether a step that did not succeed is to be tried again; an act that has happened never is."""
    if node.outcome is None or node.passes or node.code.id in state.superseded:
        return False
    if node.outcome is Outcome.BLOCKED or node.failure is None or node.code.tool is None:
        return True
    return node.code.tool.effect is not Effect.ACTS or node.failure.happened is Happened.NO
