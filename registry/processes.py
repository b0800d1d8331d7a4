"""Wait for what was begun in the sandbox, on any event loop, and end it whatever comes: nothing outlives the call.

The only module of this room that needs an event loop, so it is imported when a code tool is called.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import anyio

from .sandbox import Caps, Started

__all__ = ["Ended", "to_the_end"]

_PATIENCE = 5.0
"""Seconds that `bwrap` has to say who its process 1 is, and to end when that one has."""
_REPORT = 65536
_KILLED = 128 + 9


class Ended(NamedTuple):
    """What became of it. `status` is 128 and the signal where a signal ended it."""

    status: int
    out: bytes
    err: bytes
    report: bytes
    truncated: bool
    """It wrote more than it may, and was ended for it."""
    late: bool
    """Its time was up."""


class _Stream:
    """What comes through one pipe, up to a bound; it is read on beyond that, so that nobody waits for a reader."""

    def __init__(self, number: int, most: int) -> None:
        os.set_blocking(number, False)
        self.number = number
        self.most = most
        self.content = bytearray()
        self.over = False
        self.ended = False

    async def read(self, started: Started) -> None:
        """Until it ends; more than the bound ends the sandbox."""
        while not self.ended:
            await anyio.wait_readable(self.number)
            self.take()
            if self.over:
                started.kill()

    def take(self) -> bool:
        """Take what is there; whether there may be more at once."""
        try:
            chunk = os.read(self.number, 65536)
        except BlockingIOError:
            return False
        room = self.most - len(self.content)
        self.over = self.over or len(chunk) > room
        self.content += chunk[:room]
        self.ended = not chunk
        return bool(chunk)


async def to_the_end(started: Started, caps: Caps) -> Ended:
    """Let it run until it ends by itself, its time is up, it writes too much, or this task is cancelled.

    When this returns or raises, no process of it is left.
    """
    out, err = _Stream(started.out, caps.output), _Stream(started.err, caps.output)
    report, info = _Stream(started.report, _REPORT), _Stream(started.info, _REPORT)
    try:
        with anyio.move_on_after(caps.timeout) as scope:
            await info.read(started)
            started.adopt(bytes(info.content))
            started.release()
            async with anyio.create_task_group() as group:
                for stream in (out, err, report):
                    group.start_soon(stream.read, started)
    finally:
        with anyio.CancelScope(shield=True):
            await _bury(started, info)
    for stream in (out, err, report):
        while not stream.over and stream.take():
            pass
    truncated = out.over or err.over
    status = _KILLED if truncated else _status(started)
    written, complained, reported = (bytes(stream.content) for stream in (out, err, report))
    return Ended(status, written, complained, reported, truncated, scope.cancelled_caught)


async def _bury(started: Started, info: _Stream) -> None:
    """End what has not ended, and wait until the kernel says that all of it is gone."""
    if not started.adopted:
        with anyio.move_on_after(_PATIENCE):
            await info.read(started)
            started.adopt(bytes(info.content))
    started.kill()
    for number in started.ends:
        with anyio.move_on_after(_PATIENCE):
            await anyio.wait_readable(number)


def _status(started: Started) -> int:
    status = started.process.poll()
    return _KILLED if status is None else status if status >= 0 else 128 - status
