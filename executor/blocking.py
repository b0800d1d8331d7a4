"""Engines without an event loop: a run in a loop of its own, and the first real error of a group of tasks."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import anyio

from ..policies.errors import BadInput

__all__ = ["DRIVING", "block", "first_error"]

_T = TypeVar("_T")
DRIVING: ContextVar[str] = ContextVar("foreplan_run", default="")
"""The run that is driven here; "" outside of any."""


@contextmanager
def first_error() -> Iterator[None]:
    """Raise the first real error of a group of tasks in place of the group; nobody is to see an `ExceptionGroup`."""
    try:
        yield
    except BaseExceptionGroup as group:
        cause = _cause_of(group)
        if cause is None:
            raise
        raise cause from None


def _cause_of(group: BaseExceptionGroup[BaseException]) -> BaseException | None:
    """The first real error in a group; None where it holds only cancellations, which must travel as they are."""
    cancelled = anyio.get_cancelled_exc_class()
    for error in group.exceptions:
        found = _cause_of(error) if isinstance(error, BaseExceptionGroup) else error
        if found is not None and not isinstance(found, cancelled):
            return found
    return None


def block(function: Callable[[], Awaitable[_T]], name: str) -> _T:
    """Run to the end in an event loop of its own. Refused where one is running, or inside a tool."""
    if DRIVING.get():
        raise BadInput(
            f"{name}_blocking was called inside a tool of run {DRIVING.get()!r}: that would wait for itself"
        )
    if not _in_a_loop():
        return anyio.run(function)
    raise BadInput(
        f"{name}_blocking was called inside a running event loop; use `await engine.{name}(...)` there"
    )


def _in_a_loop() -> bool:
    """Whether an event loop runs in this thread: one of asyncio, or of trio where that is loaded."""
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        return True
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
