"""What the expressions of a step see, and what it means when one does not resolve."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ...policies.expressions import EvaluationError, Template
from ...policies.failures import Failure, Kind
from ...registry.values import copy_plain
from ..events import Outcome
from .state import Frame, Node, State

__all__ = [
    "Settled",
    "arguments_of",
    "asks",
    "emptiness",
    "empty_source",
    "evaluated",
    "is_enough",
    "items_of",
    "output_of",
    "value_of",
]

_NOTHING = object()


class Settled(Exception):
    """A step or item settles here, without a value: skipped, or failed with bad arguments."""

    def __init__(self, outcome: Outcome, *, failure: Failure | None = None, reason: str = "") -> None:
        self.outcome = outcome
        self.failure = failure
        self.reason = reason


def asks(state: State, node: Node, item: Any, index: int) -> bool:
    """Whether `when` holds. Raises `Settled`."""
    assert node.code.when is not None
    return _boolean(state, node, node.code.when, "when", item, index)


def is_enough(state: State, node: Node, item: Any, index: int, result: Any) -> bool:
    """Whether `until` holds for this result. Raises `Settled`."""
    assert node.code.until is not None
    return _boolean(state, node, node.code.until, "until", item, index, result)


def items_of(state: State, node: Node) -> list[Any]:
    """The list that `each` gives. Raises `Settled`."""
    each = node.code.each
    assert each is not None
    items = evaluated(state, node, each, _NOTHING, where="`each`: ")  # `item` is still that of a group around
    if not isinstance(items, list):
        raise _not_a(node, "`each` needs a list", items, each, "each_not_list")
    return items


def value_of(state: State, node: Node, items: list[Any] | None) -> Any:
    """The value of a `value` step; with `each`, a list of one per item. Raises `Settled`."""
    if items is None:
        return _one_value(state, node, None, 0)
    values: list[Any] = []
    for index, item in enumerate(items):
        try:
            keep = not node.code.per_item or asks(state, node, item, index)
            values.append(_one_value(state, node, item, index) if keep else None)
        except Settled as settled:
            if settled.outcome is Outcome.FAILED and node.code.on_failure == "stop":
                raise
            values.append(None)
    return values


def arguments_of(state: State, node: Node, item: Any, index: int) -> dict[str, Any]:
    """The arguments of one call, fresh. Raises `Settled`."""
    args: dict[str, Any] = copy_plain(evaluated(state, node, node.code.args, item, index))
    return args


def output_of(state: State, frame: Frame) -> Any:
    """What outside sees of a group that has settled. Raises `Settled`."""
    assert frame.lane is not None
    node = frame.lane.node
    output = node.code.output
    if output is None:
        return None
    scope = _scope(state, output.names, frame, _NOTHING, 0, None)
    try:
        return copy_plain(output.evaluate(scope))
    except EvaluationError as error:
        source = _empty_in(frame, error.roots) if error.code == "null" else ""
        if source:
            raise Settled(
                Outcome.SKIPPED, reason=f"{emptiness(frame, source)}: `output`: {error.message}"
            ) from None
        raise Settled(
            Outcome.FAILED, failure=_bad_args(error.code, f"`output`: {error}", f"`output`: {error.message}")
        ) from None


def evaluated(
    state: State,
    node: Node,
    template: Template,
    item: Any = None,
    index: int = 0,
    result: Any = None,
    where: str = "",
) -> Any:
    """What a template of this step gives for one item. Raises `Settled`: skipped where a step it names came out empty."""
    own = item if node.code.each is not None else _NOTHING
    try:
        return template.evaluate(
            _scope(state, template.names, node.frame, own, index, result, node.code.item)
        )
    except EvaluationError as error:
        source = empty_source(node, error.roots) if error.code == "null" else ""
        if source:
            reason = f"{emptiness(node.frame, source)}: {where}{error.message}"
            raise Settled(Outcome.SKIPPED, reason=reason) from None
        failure = _bad_args(error.code, f"{where}{error}", f"{where}{error.message}")
        raise Settled(Outcome.FAILED, failure=failure) from None


def empty_source(node: Node, names: Collection[str]) -> str:
    """The first of these steps that has no result because it was skipped or failed."""
    return _empty_in(node.frame, names & node.code.names if isinstance(names, frozenset) else names)


def emptiness(frame: Frame, source: str) -> str:
    """Why a step has no result, in two words after its name."""
    found = _seen(frame, source)
    was = "was skipped" if found is not None and found.outcome is Outcome.SKIPPED else "failed"
    return f"{source!r} {was}"


def _empty_in(frame: Frame, names: Collection[str]) -> str:
    for name in sorted(names):
        found = _seen(frame, name)
        if found is not None and found.value is None and found.outcome is not Outcome.OK:
            return name
    return ""


def _seen(frame: Frame | None, name: str) -> Node | None:
    """The step of this name, in the frame or around it."""
    while frame is not None:
        node = frame.nodes.get(name)
        if node is not None:
            return node
        frame = frame.outer
    return None


def _scope(
    state: State, names: frozenset[str], frame: Frame, item: Any, index: int, result: Any, item_name: str = ""
) -> dict[str, Any]:
    scope: dict[str, Any] = {}
    for name in names:
        if name == item_name and item is not _NOTHING:
            scope[name] = item
        elif name in frame.nodes:
            scope[name] = frame.nodes[name].value
        elif name == "inputs":
            scope[name] = state.inputs
        elif name == "result":
            scope[name] = result
        elif name == "run":
            scope[name] = {"id": state.run, "started_at": state.started_at}
        elif name == "index" and item is not _NOTHING:
            scope[name] = index
        else:
            scope[name] = _around(frame, name)
    return scope


def _around(frame: Frame | None, name: str) -> Any:
    """A name of the frames around: the item of a group, its index, or a step outside."""
    while frame is not None and frame.lane is not None:
        code = frame.lane.node.code
        if code.each is not None:
            if name == code.item:
                return frame.item
            if name == "index":
                return frame.index
        frame = frame.outer
        if frame is not None and name in frame.nodes:
            return frame.nodes[name].value
    return None


def _boolean(
    state: State, node: Node, template: Template, field: str, item: Any, index: int, result: Any = None
) -> bool:
    answer = evaluated(state, node, template, item, index, result, where=f"`{field}`: ")
    if type(answer) is not bool:
        raise _not_a(node, f"`{field}` must be true or false", answer, template, f"{field}_not_boolean")
    return answer


def _one_value(state: State, node: Node, item: Any, index: int) -> Any:
    assert node.code.value is not None
    return copy_plain(evaluated(state, node, node.code.value, item, index))


def _not_a(node: Node, what: str, value: Any, template: Template, kind: str) -> Settled:
    """A template gave something of the wrong type; null because of an empty step skips."""
    source = empty_source(node, template.names) if value is None else ""
    if source:
        return Settled(Outcome.SKIPPED, reason=emptiness(node.frame, source))
    message = f"{what}, not {type(value).__name__}"
    return Settled(Outcome.FAILED, failure=_bad_args(kind, message, message))


def _bad_args(kind: str, message: str, plain: str) -> Failure:
    """`plain` is the sentence without any data in it: what a planner may read."""
    return Failure(Kind.BAD_ARGS, kind, message, details={"plain": plain})
