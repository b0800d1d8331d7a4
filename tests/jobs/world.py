"""Small worlds for the jobs: tools over data in memory, which remember what was done to them.

    class Bank(World):
        @acts
        async def send_money(self, recipient: str, amount: float) -> Receipt: ...

    bank = Bank()
    Engine(bank.tools) ...
    assert bank.did == [call("send_money", recipient="Ann", amount=4.0)]

A tool here only does what its service would do; whatever a job decides is said in its plan.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from foreplan import Tool, ToolFailure, tool
from foreplan.registry.values import to_plain

__all__ = ["Call", "Refused", "World", "acts", "call", "reads", "writes"]

P = ParamSpec("P")
R = TypeVar("R")
W = TypeVar("W", bound="World")
Method = Callable[Concatenate[W, P], Awaitable[R]]
Refused = ToolFailure


class Call(NamedTuple):
    """What a tool was called with."""

    tool: str
    args: dict[str, Any]


def call(tool: str, /, **args: Any) -> Call:
    """A call, as a test expects it."""
    return Call(tool, args)


class World:
    """Data and tools over them. `did` and `refused` are the calls with effects, in the order in which they ended.

    `asked` are the questions that a world chooses to keep.
    """

    def __init__(self) -> None:
        self.did: list[Call] = []
        self.refused: list[Call] = []
        self.asked: list[str] = []
        self.built_in: list[Tool] = []

    @property
    def tools(self) -> list[Tool]:
        """Its public methods as tools, and those built-in tools that it offers."""
        found = [getattr(self, name) for name in dir(type(self)) if name != "tools"]
        return [*self.built_in, *self._own(found)]

    @staticmethod
    def _own(found: list[Any]) -> list[Tool]:
        return [
            tool(effect=method.effect, **method.options)(method)
            for method in found
            if hasattr(method, "effect")
        ]


def _marked(effect: str, method: Method[W, P, R], options: dict[str, Any]) -> Method[W, P, R]:
    @functools.wraps(method)
    async def recorded(self: W, /, *args: P.args, **given: P.kwargs) -> R:
        made = Call(method.__name__, to_plain(given))
        try:
            result = await method(self, *args, **given)
        except Refused:
            self.refused.append(made)
            raise
        self.did.append(made)
        return result

    marked: Any = method if effect == "reads" else recorded
    assert inspect.iscoroutinefunction(marked)
    marked.effect, marked.options = effect, options
    done: Method[W, P, R] = marked
    return done


def reads(method: Method[W, P, R]) -> Method[W, P, R]:
    """A tool that only looks."""
    return _marked("reads", method, {})


def writes(method: Method[W, P, R]) -> Method[W, P, R]:
    """A tool with an effect that may be repeated."""
    return _marked("writes", method, {})


def acts(method: Method[W, P, R]) -> Method[W, P, R]:
    """A tool with an effect that must not be repeated."""
    return _marked("acts", method, {})
