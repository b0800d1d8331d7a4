"""*Perform*: the second half of the guarded call, once per attempt, and the only place where a tool is called.

rate -> concurrency -> contract and expiry re-checked -> authorise hook     `Guard.enter`
  -> started                                                                the runtime writes it
  -> secrets injected -> call under its timeout
  -> output to JSON, validated, size-capped                                 `Hands.perform`
  -> settled                                                                the runtime writes it
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import anyio

from ..policies.classification import classify
from ..policies.effect import Effect
from ..policies.expressions import EvaluationError
from ..policies.failures import Failure, Happened, Kind
from ..policies.policies import Policies
from ..registry.tools import ToolContext
from ..registry.values import Unserialisable, size_of, to_plain
from .events import Outcome
from .state import Call
from .threads import Job, Threads

__all__ = ["Guard", "Hands", "Result", "ToolHands"]


class Result(NamedTuple):
    """How one attempt ended."""

    outcome: Outcome
    value: Any = None
    failure: Failure | None = None


class Hands(Protocol):
    """The seam to the world: one method."""

    async def perform(self, call: Call) -> Result:
        """Make one attempt. What goes wrong is in the result; only cancellation is raised."""


class Guard:
    """The stages between *admitted* and *started*.

    The mind keeps to the caps by its own count; this one also counts threads that outlived their deadline, because
    they still hold what the cap protects.
    """

    def __init__(self, policies: Policies) -> None:
        self._limits = policies.limits
        self._busy = 0
        self._busy_of: dict[str, int] = {}
        self._freed: anyio.Event | None = None
        """Made by who waits: an event for each call that ends would cost more than the counting."""

    async def enter(self, call: Call) -> Failure | None:
        """Take a slot; None means that the attempt may start. Each success needs one `leave`."""
        if self._full(call.tool.name) and not await self._slot(call):
            message = (
                f"no slot for {call.tool.name!r} came free: earlier calls are still running in their threads"
            )
            return Failure(Kind.TIMEOUT, "no_slot", message)
        self._busy += 1
        self._busy_of[call.tool.name] = self._busy_of.get(call.tool.name, 0) + 1
        return None

    def leave(self, name: str) -> None:
        """Give the slot back: the call is over, and so is its thread."""
        self._busy -= 1
        self._busy_of[name] -= 1
        if self._freed is not None:
            self._freed.set()
            self._freed = None

    def _full(self, name: str) -> bool:
        most = self._limits.tool.get(name)
        return self._busy >= self._limits.run or (most is not None and self._busy_of.get(name, 0) >= most)

    async def _slot(self, call: Call) -> bool:
        with anyio.move_on_after(call.timeout):
            while self._full(call.tool.name):
                self._freed = self._freed or anyio.Event()
                await self._freed.wait()
            return True
        return False


class ToolHands:
    """Calls the tool itself: async ones in place, sync ones in a daemon thread."""

    def __init__(
        self,
        policies: Policies,
        guard: Guard,
        *,
        threads: Threads | None = None,
        late: Callable[[Call, Result], None] | None = None,
    ) -> None:
        self._policies = policies
        self._guard = guard
        self._threads = threads or Threads()
        self._late = late
        self.threaded = False
        """Whether a sync tool was called: then the loop owes its threads a breath now and then."""

    async def perform(self, call: Call) -> Result:
        """Make one attempt, under the tool's timeout."""
        job = None if call.tool.is_async else self._job(call)
        scope = anyio.move_on_after(call.timeout)
        value, error = None, None
        try:
            with scope:
                value = await (
                    call.tool.invoke(call.args, _context(call)) if job is None else self._threads.wait(job)
                )
        except BaseException as raised:
            if isinstance(raised, KeyboardInterrupt) or _cancelled():
                raise
            error = raised
        finally:
            if job is None or not job.abandoned:
                self._guard.leave(call.tool.name)
        if scope.cancel_called and (scope.cancelled_caught or error is not None):
            return _ended(call, _timed_out(call, still_running=job is not None))
        await _absorb_cancel()
        return self._raised(call, error) if error is not None else self._returned(call, value)

    def _job(self, call: Call) -> Job:
        self.threaded = True
        return Job(
            lambda: call.tool.invoke(call.args, _context(call)), lambda job: self._came_late(call, job)
        )

    def _came_late(self, call: Call, job: Job) -> None:
        """The thread of an attempt that was given up came to its end after all."""
        self._guard.leave(call.tool.name)
        if self._late is not None:
            ended = self._returned(call, job.value) if job.error is None else self._raised(call, job.error)
            self._late(call, ended)

    def _raised(self, call: Call, error: BaseException) -> Result:
        return _ended(call, classify(error, rules=self._policies.failures))

    def _returned(self, call: Call, value: Any) -> Result:
        """Output to JSON, size-capped, validated, asked for a soft failure."""
        tool = call.tool
        try:
            plain = to_plain(value)
        except Unserialisable as error:
            return _ended(
                call, _bad_result("unserialisable_result", f"the result of {tool.name!r} is no JSON: {error}")
            )
        most = self._policies.limits.result_bytes
        if _may_exceed(plain, most) and size_of(plain) > most:
            return _ended(
                call, _bad_result("result_too_large", f"the result of {tool.name!r} is over {most} bytes")
            )
        if tool.output is not None and not tool.output.accepts(plain):
            problems = tool.output.problems(plain)
            if problems:
                said = "; ".join(f"{p.pointer or 'the whole'}: {p.message}" for p in problems[:3])
                return _ended(
                    call,
                    _bad_result("invalid_result", f"the result of {tool.name!r} is not as declared: {said}"),
                )
        if tool.soft_failure is not None:
            failure = _soft_failure(call, plain)
            if failure is not None:
                return _ended(call, failure)
        return Result(Outcome.OK, plain)


def _context(call: Call) -> ToolContext:
    return ToolContext(
        run_id=call.run,
        path=call.path,
        attempt=call.attempt,
        idempotency_key=call.key,
        principal=call.principal,
        timeout=call.timeout,
    )


def _ended(call: Call, failure: Failure) -> Result:
    """A failed attempt; of a tool that acts and may have acted, the outcome is unknown."""
    unknown = call.tool.effect is Effect.ACTS and failure.happened is Happened.MAYBE
    return Result(Outcome.UNKNOWN if unknown else Outcome.FAILED, None, failure)


def _timed_out(call: Call, *, still_running: bool) -> Failure:
    note = "; its thread may still be running" if still_running else ""
    message = f"{call.tool.name!r} gave no answer within {call.timeout:g} s{note}"
    details = {"still_running": True} if still_running else None
    return Failure(Kind.TIMEOUT, "deadline", message, happened=Happened.MAYBE, details=details)


def _bad_result(code: str, message: str) -> Failure:
    return Failure(Kind.BUSINESS, code, message, happened=Happened.YES)


def _soft_failure(call: Call, result: Any) -> Failure | None:
    """A "successful" answer that carries an error, by the tool's own declared expression."""
    expression = call.tool.soft_failure
    assert expression is not None
    try:
        said = expression.evaluate({"result": result})
    except EvaluationError as error:
        message = f"the soft-failure rule of {call.tool.name!r} does not resolve: {error}"
        return _bad_result("soft_failure_rule", message)
    if said is None or said is False or said == "":
        return None
    message = said if isinstance(said, str) else f"{call.tool.name!r} answered with an error"
    return Failure(Kind.BUSINESS, "soft_failure", message, details={"result": result}, untrusted=True)


def _may_exceed(value: Any, most: int) -> bool:
    """Whether it is worth measuring: a flat record of short texts and keys is not."""
    kind = type(value)
    if kind is str:
        return 6 * len(value) + 2 > most
    if kind is int:
        return bool(value.bit_length() >= most)
    if kind is not dict:
        return most < 32 or (kind is list and bool(value))
    if len(value) > 64 or most < 8192:
        return True
    share = most // (4 * len(value) or 1)
    for key, item in value.items():  # noqa: SIM110 - a generator would double the time
        if 6 * len(key) + 2 > share or _may_exceed(item, share):
            return True
    return False


def _cancelled() -> bool:
    """Whether this task is really being cancelled from outside, not by what a tool raised."""
    return anyio.current_effective_deadline() == -math.inf


async def _absorb_cancel() -> None:
    """Take back what a tool did to its own asyncio task with `cancel()`: the task is ours."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return  # trio
    if task is None or not task.cancelling() or _cancelled():
        return
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        pass
    while task.cancelling():
        task.uncancel()
