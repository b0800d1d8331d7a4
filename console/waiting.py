"""Run one coroutine to its end so that Ctrl-C is seen at once, also while nothing else happens.

asyncio turns SIGINT into a cancellation of the main task, but a signal that comes just as the loop goes to sleep is seen
only when something else wakes it (a tool that hangs never does). A wake-up descriptor that the loop listens to mends
that: Python writes a byte to it for each signal.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

__all__ = ["ended_by_sigterm", "wait_for"]

_T = TypeVar("_T")


def wait_for(function: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    """What the coroutine gives. Ctrl-C cancels it and comes out as `KeyboardInterrupt`."""

    async def awake() -> _T:
        with _woken_by_signals():
            return await function()

    return asyncio.run(awake())


@contextmanager
def _woken_by_signals() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        loop.add_reader(ours, ours.recv, 4096)
        before = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            loop.remove_reader(ours)


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """SIGTERM, by which services are ended, cancels the task as Ctrl-C does; also where a shell has Ctrl-C ignored."""
    task = asyncio.current_task()
    if threading.current_thread() is not threading.main_thread() or task is None:
        yield
        return
    loop = asyncio.get_running_loop()
    before = signal.signal(signal.SIGTERM, lambda *_: loop.call_soon_threadsafe(task.cancel))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
