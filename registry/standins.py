"""Functions that stand in for a tool's own: `simulate` in a rehearsal, `reconcile` where nobody knows what became of a call.

    def as_if(room: str) -> Booking: ...                    the same arguments, no effect
    def look_up(room: str, context: ToolContext):           the same arguments, and the key under which it was called
        booking = service.by_key(context.idempotency_key)
        return Found(booking) if booking else False         None: it does not know either

    @tool(simulate=as_if, reconcile=look_up)
    def book(room: str, context: ToolContext) -> Booking: ...

They get what the function would get, converted to the same types; a `ToolContext` and secrets only where they name them.
The names are checked when the tool is made, so that a rehearsal and an unknown outcome bring no surprise.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from ..policies.effect import Effect
from ..policies.failures import Happened, Kind, ToolFailure
from ..policies.text import shorten
from .attempt import ToolContext
from .signatures import slot_of
from .tools import Arguments, Tool
from .values import Json

__all__ = ["Found", "asking", "found_in", "not_simulated", "simulating"]

V = TypeVar("V")


class Found(NamedTuple, Generic[V]):
    """What `reconcile` gives where the call took place: its result, which is read as the tool's own."""

    value: V


def simulating(tool: Tool) -> Tool:
    """The tool with `simulate` in the place of its function: no secrets, and no person is asked before the call."""
    assert tool.simulate is not None
    return _standing_in(tool, tool.simulate, (), requires_approval=False, reconcile=None)


def not_simulated(tool: Tool, *, hint: str = "") -> Tool:
    """The tool as one that fails: in a rehearsal nothing stands in for it, and a result is not made up."""

    def refuse(args: dict[str, Json]) -> Json:
        raise ToolFailure(
            f"nothing stands in for {tool.name!r} in a rehearsal; give it one: @tool(simulate=…)"
            + (hint and f", {hint}"),
            kind=Kind.BUSINESS,
            code="not_simulated",
            happened=Happened.NO,
        )

    return dataclasses.replace(
        tool,
        function=refuse,
        is_async=False,
        binder=lambda args, context: ((args,), {}),
        secret_refs={},
        requires_approval=False,
        reconcile=None,
        recorded_source=None,
    )


def asking(tool: Tool) -> Tool:
    """The tool as the question what became of a call: `reconcile` in the place of its function; it only reads."""
    ask = tool.reconcile
    assert ask is not None

    def answer(*args: Any, **kwargs: Any) -> Any:
        return _verdict(tool.name, ask(*args, **kwargs))

    async def awaited(*args: Any, **kwargs: Any) -> Any:
        return _verdict(tool.name, await ask(*args, **kwargs))

    whole = awaited if _is_async(ask) else answer
    changed = {"output": None, "soft_failure": None, "result_from": (), "effect": Effect.READS}
    made = _standing_in(tool, ask, tool.secret_refs, requires_approval=False, reconcile=None, **changed)
    return dataclasses.replace(made, function=whole)


def found_in(answer: Any) -> Found[Any] | bool | None:
    """What the answer of an `asking` tool, as plain JSON, says."""
    return Found(answer[0]) if isinstance(answer, list) else answer


def _verdict(name: str, said: object) -> Any:
    """The answer as something that becomes plain JSON: `[value]`, False, or None."""
    if isinstance(said, Found):
        return [said.value]
    if said is False or said is None:
        return said
    raise TypeError(
        f"reconcile of {name!r} gave {shorten(repr(said), 60)}; it gives Found(value), False (it did not happen) or None"
    )


def _standing_in(tool: Tool, function: Callable[..., Any], refs: Collection[str], **changes: Any) -> Tool:
    """The tool with another function, which gets the same arguments."""
    bound, slot, two = tool.binder, slot_of(function, tool.name, ToolContext), _takes_two(function)
    wanted = _wanted(function, refs)

    def bind(args: dict[str, Json], context: ToolContext) -> Arguments:
        positional, named = bound(args, context)
        if positional:
            return ((positional[0], context) if two else positional[:1]), {}
        given = {name: value for name, value in named.items() if value is not context}
        if slot is not None:
            given[slot] = context
        return (), given

    return dataclasses.replace(
        tool,
        function=function,
        is_async=_is_async(function),
        contextual=True,
        binder=bind,
        secret_refs={name: tool.secret_refs[name] for name in wanted},
        simulate=None,
        recorded_source=None,
        **changes,
    )


def _wanted(function: Callable[..., Any], refs: Collection[str]) -> list[str]:
    """The parameters with secrets that a stand-in names, or all where it takes one dict of everything."""
    parameters: Mapping[str, inspect.Parameter] = inspect.signature(function).parameters if refs else {}
    return [name for name in refs if name in parameters]


def _is_async(function: Callable[..., Any]) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function if inspect.isroutine(function) else type(function).__call__)


def _takes_two(function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len(positional) > 1 and positional[1].default is inspect.Parameter.empty
