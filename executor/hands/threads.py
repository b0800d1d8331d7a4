"""Sync tools run in daemon threads of ours, so that one that never returns cannot keep the process alive.

anyio's worker threads are joined at the end of the process; these are not. Context variables are copied into the
thread. Whoever waits may give up (a deadline, a cancellation): the thread goes on, and what it brings then is handed
to `late`.
"""

from __future__ import annotations

import inspect
import queue
import threading
import time
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from functools import partial
from typing import Any

import anyio

from ..wake import Portal

__all__ = ["Threads", "breathe"]

_IDLE = 2.0
"""Seconds after which a thread without work ends."""
_BREATH = 0.005
"""Seconds of busy loop after which threads get the interpreter for `_PAUSE`."""
_PAUSE = 0.00005
_last = threading.local()


def breathe() -> None:
    """Let other threads have the interpreter, tools and the host's own, if that was long ago: a busy loop is to call it often.

    The loop lets go of it at each of its turns, and has it back before another thread is awake. A thread asks for it only after
    it has waited 5 ms undisturbed, so with turns that are shorter it would wait until the loop rests (measured: 1 s and more).
    """
    now = time.perf_counter()
    if now - getattr(_last, "at", 0.0) > _BREATH:
        if threading.active_count() > 1:
            time.sleep(_PAUSE)  # for real: where another task is ready, `anyio.sleep` is no rest
        _last.at = time.perf_counter()


class Job:
    """One function on its way through a thread: `value` or `error` once `done`."""

    __slots__ = ("abandoned", "context", "done", "error", "function", "late", "portal", "ready", "value")

    def __init__(self, function: Callable[[], Any], late: Callable[[Job], None]) -> None:
        self.function = function
        self.context: Context = copy_context()
        self.late = late
        self.portal = Portal.current()
        self.ready = anyio.Event()
        self.done = False
        self.abandoned = False
        self.value: Any = None
        self.error: BaseException | None = None

    def work(self) -> None:
        """In the thread: call, keep what comes, wake the loop."""
        try:
            self.value = self.context.run(self.function)
        except BaseException as error:
            self.error = error
        self.portal.call_soon(self.wake)

    def wake(self) -> None:
        """In the loop: whoever waits goes on; if nobody does, the result is late."""
        self.done = True
        self.ready.set()
        if self.abandoned:
            self.late(self)


def _code(function: Any) -> object:
    """What runs: inside partials, and `__call__` of objects."""
    while isinstance(function, partial):
        function = function.func
    return function if inspect.isroutine(function) else type(function).__call__


def _nobody_waits(job: Job) -> None:
    """An answer after the time is no answer."""


class Threads:
    """A pool that grows with need and shrinks with idleness."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0

    async def ask(self, function: Callable[..., Any], *given: Any) -> Any:
        """What a function of the host says: a sync one in a thread, so that it holds up nobody and can be given up."""
        if inspect.iscoroutinefunction(_code(function)):
            said = function(*given)
        else:
            said = await self.wait(Job(lambda: function(*given), _nobody_waits))
        return await said if isinstance(said, Awaitable) else said

    async def wait(self, job: Job) -> Any:
        """Put a job to work and give what it returns or raises.

        When the wait is cancelled before the job is done, the job is abandoned: the thread goes on, and `late` is
        called in the loop once it ends.
        """
        self._submit(job)
        try:
            await job.ready.wait()
        except BaseException:
            if not job.done:
                job.abandoned = True
                raise
        if job.error is not None:
            raise job.error
        return job.value

    def _submit(self, job: Job) -> None:
        with self._lock:
            if self._idle:
                self._idle -= 1
                self._jobs.put(job)
                return
        threading.Thread(target=self._serve, args=([job],), daemon=True, name="foreplan-tool").start()

    def _serve(self, first: list[Job]) -> None:
        job: Job | None = first.pop()  # a thread keeps its arguments until it ends, and must not keep a run
        while job is not None:
            job.work()
            job = None
            with self._lock:
                self._idle += 1
            job = self._next()

    def _next(self) -> Job | None:
        try:
            return self._jobs.get(timeout=_IDLE)
        except queue.Empty:
            with self._lock:
                if self._idle:
                    self._idle -= 1
                    return None
        return self._jobs.get()  # a job was promised to this thread between the time-out and the lock
