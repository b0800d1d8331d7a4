"""The tasks of one run: they end before it does, however it ends.

On trio they are a task group of anyio. On asyncio they are tasks with one cancel scope of anyio each, in which a call also has its
timeout: a task group gives each task a scope, an event and a handle of its own, of which a run needs none, and they cost more than all
that is checked at a call (`benchmarks/overhead.py`). What a task may rely on is the same: once cancelled, each of its awaits is, but for
what it shields; one that fails, or that somebody else cancels, takes the others with it.
"""

from __future__ import annotations

import asyncio
import logging
import math
from abc import abstractmethod
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from functools import cache
from types import TracebackType
from typing import Any

import anyio
from anyio.abc import TaskGroup

__all__ = ["Crew", "Member", "TimeLimit", "absorb_cancel", "cancelled", "crew_here"]

_LOG = logging.getLogger("foreplan")


class Member:
    """One task. `begun`: the attempt that it makes is written down as begun; `cut`: the whole run is over."""

    __slots__ = ("begun", "crew", "cut", "due", "entered", "scope", "task")

    def __init__(self) -> None:
        self.begun = False
        self.cut = False
        self.scope: anyio.CancelScope | None = None
        """What cancels it, where it has one of its own."""
        self.crew: _Tasks | None = None
        """Who cancels it when its time is up."""
        self.due = math.inf
        self.entered = False
        """Whether it has had its first turn."""
        self.task: asyncio.Task[None] | None = None


class TimeLimit:
    """So many seconds for what is done inside (None: no bound), in the scope of the task if it has one and does nothing else."""

    __slots__ = ("_scope", "_seconds", "_task")

    def __init__(self, seconds: float | None, member: Member | None = None) -> None:
        self._task = member if member is not None and member.scope is not None else None
        self._seconds = seconds
        self._scope = anyio.move_on_after(seconds) if self._task is None else self._task.scope

    @property
    def cut(self) -> bool:
        """Whether the task is being cancelled, and not because its time is up."""
        return cancelled() if self._task is None else self._task.cut

    @property
    def reached(self) -> bool:
        """Whether the time was up, whatever came of it. A task whose own scope it is then waits for nothing any more."""
        assert self._scope is not None
        return self._scope.cancel_called

    @property
    def disturbed(self) -> bool:
        """Whether somebody may have cancelled the task as asyncio does it."""
        task = self._task.task if self._task is not None else None
        return task is None or task.cancelling() > 0

    def passed(self, error: BaseException | None) -> bool:
        """Whether the time was up before it ended, with this error if any."""
        assert self._scope is not None
        return self._scope.cancel_called and (self._scope.cancelled_caught or error is not None)

    def __enter__(self) -> None:
        assert self._scope is not None
        if self._task is None:
            self._scope.__enter__()
        elif self._seconds is not None and self._task.crew is not None:
            self._task.crew.bound(self._task, self._seconds)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> bool:
        assert self._scope is not None
        if self._task is None:
            return bool(self._scope.__exit__(kind, error, at))
        self._task.due = math.inf
        return False


class Crew:
    """The tasks that are under way; an async context manager, at whose end there are none: those that are left are cancelled.

    Each begins in the context of whoever made the crew: what one sets, another does not see. `lost` is told when a task
    has failed, which is raised at the end.
    """

    def __init__(self, lost: Callable[[], None]) -> None:
        self._base = copy_context()
        self._lost = lost

    @abstractmethod
    def start(self, member: Member, function: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """Begin a task, which gets its turn after this one."""

    @abstractmethod
    async def __aenter__(self) -> None: ...

    @abstractmethod
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> bool | None: ...


def crew_here(lost: Callable[[], None]) -> Crew:
    """For the event loop that is running. A loop in which somebody makes tasks in another way has them from anyio."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    loop = task.get_loop() if task is not None else None  # none, where trio is the guest of one
    return _Group(lost) if loop is None or loop.get_task_factory() is not None else _Tasks(lost, loop)


@cache
def _scope_here() -> type[anyio.CancelScope]:
    """What a scope is on asyncio: to have anyio ask each time which library is running costs as much again as the scope."""
    return type(anyio.CancelScope())


class _Group(Crew):
    """A task group of anyio."""

    _tasks: TaskGroup

    def __init__(self, lost: Callable[[], None]) -> None:
        super().__init__(lost)
        self._under_way = 0

    def start(self, member: Member, function: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        self._under_way += 1
        begin: Callable[..., object] = self._tasks.start_soon
        self._base.run(begin, self._work, function, *args)

    async def _work(self, function: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        try:
            await function(*args)
        finally:
            self._under_way -= 1

    async def __aenter__(self) -> None:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> bool | None:
        if self._under_way:
            self._tasks.cancel_scope.cancel()
        return await self._tasks.__aexit__(kind, error, at)


class _Task(asyncio.Task[None]):
    """A task that is missed where somebody cancels it before its first turn, for then it never has one."""

    member: Member | None = None

    def cancel(self, msg: Any | None = None) -> bool:
        member, cancelled = self.member, super().cancel(msg)
        if member is not None and not member.entered and member.crew is not None:
            member.crew.lose(member, None)
        return cancelled


class _Tasks(Crew):
    """Tasks of asyncio. For all their time limits there is one timer: hardly one of them is ever reached."""

    def __init__(self, lost: Callable[[], None], loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(lost)
        self._loop = loop
        self._scope = _scope_here()
        self._under_way: set[Member] = set()
        self._cut = False
        self._errors: list[Exception] = []
        self._none_left: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._next_due = math.inf

    def start(self, member: Member, function: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        member.scope, member.crew = self._scope(), self
        work = self._work(member, function, *args)
        task: _Task = self._base.run(_Task, work, loop=self._loop)
        task.member, member.task = member, task
        self._under_way.add(member)
        if self._cut:
            self._cancel(member)

    async def _work(
        self, member: Member, function: Callable[..., Coroutine[Any, Any, None]], *args: Any
    ) -> None:
        member.entered = True
        done = False
        assert member.scope is not None
        try:
            with member.scope:
                await function(*args)
                done = True
        except Exception as error:
            if not done:
                self.lose(member, error)
            else:  # all is settled: a tool has left a scope of anyio open, which goes with its task
                _LOG.warning("a tool left a cancel scope open, which ends with its task: %s", error)
                self._gone(member)
        except BaseException as error:
            if not isinstance(error, asyncio.CancelledError) and member.task is not None:
                member.task.add_done_callback(_Task.exception)  # it leaves the loop by itself: Ctrl-C
            self.lose(member, None)
            raise
        else:
            self._gone(member)  # at once: whoever is woken by what it did is not to find it here

    def _gone(self, member: Member) -> None:
        self._under_way.discard(member)
        member.task = None
        if self._none_left is not None and not self._under_way and not self._none_left.done():
            self._none_left.set_result(None)

    def lose(self, member: Member, error: Exception | None) -> None:
        """It has failed with this error, or is no more (Ctrl-C, or somebody else has cancelled it): the others are cancelled."""
        if error is not None:
            self._errors.append(error)
        self._gone(member)
        self._cancel_all()
        self._lost()

    def bound(self, member: Member, seconds: float) -> None:
        """Cancel the task in so many seconds, unless it says before that it is done."""
        member.due = self._loop.time() + seconds
        if member.due < self._next_due:
            self._wake_at(member.due)

    def _wake_at(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._next_due, self._timer = due, None
        if due < math.inf:
            self._timer = self._loop.call_at(due, self._look)

    def _look(self) -> None:
        """Cancel those whose time is up, and see when the next one's is."""
        now = self._loop.time()
        for member in self._under_way:
            if member.due <= now:
                assert member.scope is not None
                member.due = math.inf
                member.scope.cancel()
        self._wake_at(min((member.due for member in self._under_way), default=math.inf))

    def _cancel_all(self) -> None:
        self._cut = True
        for member in list(self._under_way):
            self._cancel(member)

    def _cancel(self, member: Member) -> None:
        assert member.scope is not None
        member.cut = True
        member.scope.cancel()

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        again = None
        if self._under_way:
            self._cancel_all()
            again = await self._wait()
        self._wake_at(math.inf)
        if self._errors:
            raise self._errors[0]
        if again is not None and error is None:
            raise again

    async def _wait(self) -> asyncio.CancelledError | None:
        """Until no task is left. Who drives may be cancelled meanwhile, even again and again: that must wait, and is given."""
        again = None
        with anyio.CancelScope(shield=True):
            while self._under_way:
                self._none_left = self._loop.create_future()
                try:
                    await self._none_left
                except asyncio.CancelledError as error:
                    again = error
        return again


def cancelled() -> bool:
    """Whether this task is really being cancelled from outside, not by what a tool raised."""
    return anyio.current_effective_deadline() == -math.inf


async def absorb_cancel() -> None:
    """Take back what a tool did to its own asyncio task with `cancel()`: the task is ours."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return  # trio
    if task is None or not task.cancelling() or cancelled():
        return
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        pass
    while task.cancelling():
        task.uncancel()
