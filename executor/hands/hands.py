"""*Perform*: the second half of the guarded call, once per attempt, and the only place where a tool is called.

rate -> concurrency -> contract and expiry re-checked -> authorise hook     `Guard.enter`
  -> arguments as the tool's own types                                      `ToolHands.bind`
  -> started                                                                the runtime writes it
  -> call under its timeout
  -> output to JSON, validated, size-capped                                 `ToolHands.make`
  -> settled                                                                the runtime writes it
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, Protocol

import anyio

from ...planner.bounds import rules_of
from ...policies.classification import classify
from ...policies.effect import Effect
from ...policies.expressions import EvaluationError
from ...policies.failures import Failure, Happened, Kind, ToolFailure
from ...policies.pace import Rules
from ...policies.policies import Policies, Rates
from ...policies.retry import may_repeat
from ...policies.text import with_article
from ...registry.attempt import Line
from ...registry.schema import Schema, compile_schema
from ...registry.tools import Arguments, ArgumentsRefused, ToolContext, result_schema
from ...registry.values import Unserialisable, size_of, to_plain
from ..events import Outcome, Path
from ..mind.budget import add, is_amount
from ..mind.state import Call
from .crew import Member, TimeLimit, absorb_cancel
from .limits import Grant, Limiter
from .telling import Listen, Teller
from .threads import Job, Threads

__all__ = [
    "Bound",
    "Guard",
    "Hands",
    "Result",
    "ToolHands",
    "failure_of",
    "read_result",
]


_OK = Outcome.OK
_new = tuple.__new__
"""Makes a named tuple in a third of the time; all its fields have to be given."""


class Result(NamedTuple):
    """How one attempt ended."""

    outcome: Outcome
    value: Any = None
    failure: Failure | None = None
    usage: dict[str, Any] | None = None
    """What the attempt counted: `model_calls`, `input_tokens`, `output_tokens`, `cost`."""
    questions: tuple[dict[str, Any], ...] = ()
    """What a sub-plan asks people before it goes on."""


class Tally:
    """What one attempt counts through its `ToolContext`. More questions to a model than it may ask are refused."""

    __slots__ = ("_call", "counted")

    def __init__(self, call: Call) -> None:
        self._call = call
        self.counted: dict[str, float] = {}

    def count(self, used: Mapping[str, float]) -> None:
        """Add to what was counted. Raises `ToolFailure` where a question would be one too many, `ValueError`."""
        for name, n in used.items():
            if not isinstance(name, str) or not is_amount(name, n):
                raise ValueError(
                    f"count takes whole numbers from 0, and a `cost`, by name; {name!r} is {n!r}"
                )
        with _COUNTING:
            most = self._call.budget.model_calls
            asked = self.counted.get("model_calls", 0) + used.get("model_calls", 0)
            if most is not None and asked > most and used.get("model_calls"):
                raise ToolFailure(
                    f"{self._call.tool.name!r} may ask a model {most} times in this attempt, and asks once more",
                    code="model_calls",
                    happened=Happened.MAYBE,
                    hint="state the most that one attempt asks: @tool(model_calls=…), or raise the budget",
                )
            for name, n in used.items():
                self.counted[name] = add(self.counted.get(name, 0), n)


_COUNTING = threading.Lock()


class Bound(NamedTuple):
    """An attempt that is ready to begin: its arguments are Python values; `used` is what the tool will count."""

    call: Call
    arguments: Arguments
    used: Tally
    line: Line


_NO_CONTEXT = ToolContext()
"""For tools that take none."""


class Hands(Protocol):
    """The seam to the world: one method."""

    async def perform(self, call: Call) -> Result:
        """Make one attempt. What goes wrong is in the result; only cancellation is raised."""


class Guard:
    """The stages between *admitted* and *started*, for one run.

    The mind keeps to the caps of a run by its own count; this one also counts threads that outlived their deadline,
    because they still hold what the cap protects. What holds for all runs of an engine is the limiter's.
    """

    def __init__(
        self, policies: Policies, limiter: Limiter, *, rules: dict[str, Rules] | None = None
    ) -> None:
        self._policies = policies
        self._limits = limits = policies.limits
        self._limiter = limiter
        self._ruled = bool(limits.host) or limits.breaker is not None or limits.rates != Rates()
        self._rules = {} if rules is None else rules
        """By tool; runs of one principal under the same policies may share them."""
        self._grants: dict[Path, Grant] = {}
        self._busy = 0
        self._busy_of: dict[str, int] = {}
        self._freed: anyio.Event | None = None
        """Made by who waits: an event for each call that ends would cost more than the counting."""

    async def enter(self, call: Call, expired: Callable[[], bool]) -> Failure | None:
        """Wait for what bounds the call; None means that the attempt may start. Each success needs one `leave`.

        `expired` says, after the wait, whether the approval is over. Cancelled, or refused, it leaves nothing behind.
        """
        if self._full(call.tool.name) and not await self._slot(call):
            message = (
                f"no slot for {call.tool.name!r} came free: earlier calls are still running in their threads"
            )
            return Failure(Kind.TIMEOUT, "no_slot", message)
        self._hold(call.tool.name)
        failure = None
        if self._ruled or self._limiter.rests:
            rules = self._rules_of(call)
            if not ((rules.empty and not self._limiter.rests) or self._limiter.lets_pass(rules)):
                failure = await self._granted(call, rules)
        if failure is None and expired():
            message = "the approval of this run has expired, so no new call is begun; approve the plan again"
            failure = Failure(Kind.PERMISSION, "approval_expired", message)
        if failure is not None:
            self.leave(call)
        return failure

    def begin(self, call: Call) -> None:
        """The attempt takes place now: from this moment on rates count it."""
        if self._grants and (grant := self._grants.get(call.path)) is not None:
            self._limiter.begin(grant)

    def leave(self, call: Call, result: Result | None = None) -> bool:
        """Give back what the attempt held: it has ended, with this result, or was not begun after all.

        True where it is to be made again once its tool is back, and does not count.
        """
        grant = self._grants.pop(call.path, None) if self._grants else None
        held = False
        if result is not None and call.tool.answered_by == "code":
            asks = result.failure is not None and result.failure.retry_after is not None
            if asks or self._ruled or self._limiter.rests:
                rules = self._rules_of(call)
                held = self._limiter.settled(rules, call.args, result.outcome, result.failure, grant)
        if grant is not None:
            self._limiter.leave(grant)
        self._give_back(call.tool.name)
        failed = result is not None and result.outcome is Outcome.FAILED and result.failure is not None
        return held and failed and may_repeat(result.failure, call.tool.effect)  # type: ignore[union-attr, arg-type]

    def keep(self, call: Call) -> None:
        """The thread of an attempt goes on after its end: it keeps a slot until `late`."""
        self._hold(call.tool.name)
        if self._grants and (grant := self._grants.get(call.path)) is not None:
            self._limiter.keep(grant)

    def late(self, call: Call) -> None:
        """A thread that was kept a slot for has ended."""
        self._give_back(call.tool.name)

    def watched(self, call: Call, function: Callable[[], Any]) -> Callable[[], Any]:
        """The function, for a thread: it says itself when it ends where that frees a place of a host."""
        grant = self._grants.get(call.path) if self._grants else None
        if grant is None:
            return function
        return partial(_until_the_end, function, partial(self._limiter.thread_ended, grant))

    def _rules_of(self, call: Call) -> Rules:
        name = call.tool.name
        if name not in self._rules:
            self._rules[name] = rules_of(call.tool, call.principal, self._policies)
        return self._rules[name]

    async def _granted(self, call: Call, rules: Rules) -> Failure | None:
        try:
            said = await self._limiter.enter(rules, call.args)
        except BaseException:
            self.leave(call)
            raise
        if isinstance(said, Failure):
            return said
        self._grants[call.path] = said
        return None

    def _hold(self, name: str) -> None:
        """Take one slot, whether there is room or not."""
        self._busy += 1
        self._busy_of[name] = self._busy_of.get(name, 0) + 1

    def _give_back(self, name: str) -> None:
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


def _until_the_end(function: Callable[[], Any], ended: Callable[[], None]) -> Any:
    try:
        return function()
    finally:
        ended()


class ToolHands:
    """Calls the tool itself: async ones in place, sync ones in a daemon thread."""

    def __init__(
        self,
        policies: Policies,
        guard: Guard,
        threads: Threads,
        *,
        late: Callable[[Call, Result], None] | None = None,
        listen: Listen | None = None,
    ) -> None:
        self._policies = policies
        self._guard = guard
        self._threads = threads
        self._late = late
        self._listen = listen
        self.cut: dict[Path, dict[str, float]] = {}
        """What attempts had counted that were cancelled from outside, until the runtime has told it."""

    def over(self) -> None:
        """The run is not driven any more: what comes late is of no use to it."""
        self._late = None

    async def perform(self, call: Call) -> Result:
        """Make one attempt, from arguments as plain JSON."""
        bound = self.bind(call)
        return Result(Outcome.FAILED, None, bound) if isinstance(bound, Failure) else await self.make(bound)

    def bind(self, call: Call) -> Bound | Failure:
        """The arguments as the tool's own types; where these refuse them, nothing is begun."""
        used, line = Tally(call), Line()
        line.accepted = call.accepted
        try:
            context = self._context(call, used, line) if call.tool.contextual else _NO_CONTEXT
            return Bound(call, call.tool.bind(call.args, context, call.secrets), used, line)
        except ArgumentsRefused as error:
            return failure_of(error, self._policies)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a validator of the tool's own types may raise anything
            return _not_converted(call, error)

    async def make(self, bound: Bound, member: Member | None = None) -> Result:
        """Make the attempt, under the tool's timeout. `member`: the task is there for nothing else."""
        call, used, line = bound.call, bound.used, bound.line
        if call.timeout is not None:
            line.deadline = time.time() + call.timeout
        teller = self._teller(call, line) if self._listen is not None else None
        job = None if call.tool.is_async else self._job(bound)
        limit = TimeLimit(call.timeout, member)
        value, error = None, None
        try:
            with limit:
                value = await (_invoked(bound) if job is None else self._threads.wait(job))
        except BaseException as raised:
            pressed = isinstance(raised, KeyboardInterrupt) and (job is None or raised is not job.error)
            if pressed or limit.cut:
                if used.counted:
                    self.cut[call.path] = used.counted
                raise
            error = raised
        finally:
            if teller is not None:
                teller.over()
            if job is not None and job.abandoned:
                line.cut = True
                self._guard.keep(call)  # until the thread ends; the caller gives back the call's own
        try:
            if limit.passed(error):
                ended = _ended(call, _timed_out(call, still_running=job is not None))
            else:
                if limit.disturbed:
                    await absorb_cancel()
                ended = self._raised(call, error) if error is not None else await self._taken(call, value)
        finally:
            _let_go(error)
            del error, job
        return ended._replace(usage=dict(used.counted)) if used.counted else ended

    def _context(self, call: Call, used: Tally, line: Line) -> ToolContext:
        return ToolContext(
            run_id=call.run,
            path=call.path,
            attempt=call.attempt,
            idempotency_key=call.key,
            principal=call.principal,
            timeout=call.timeout,
            model_calls=call.budget.model_calls,
            count=used.count,
            tool=call.tool.name,
            attempts_left=max(0, self._policies.retry.attempts - call.attempt),
            line=line,
        )

    def _teller(self, call: Call, line: Line) -> Teller:
        assert self._listen is not None
        teller = Teller(self._listen, (call.run, call.path, call.tool.name, call.attempt))
        line.tell = teller.tell
        return teller

    def _job(self, bound: Bound) -> Job:
        function = self._guard.watched(bound.call, partial(_invoked, bound))
        return Job(function, lambda job: self._came_late(bound.call, job))

    def _came_late(self, call: Call, job: Job) -> None:
        """The thread of an attempt that was given up came to its end after all."""
        self._guard.late(call)
        if self._late is not None:
            ended = self._returned(call, job.value) if job.error is None else self._raised(call, job.error)
            self._late(call, ended)

    def _raised(self, call: Call, error: BaseException) -> Result:
        return _ended(call, failure_of(error, self._policies))

    async def _taken(self, call: Call, value: Any) -> Result:
        """What a tool gave. A large result is read in a thread: megabytes take seconds, and others must go on."""
        if not _is_large(value):
            return self._returned(call, value)
        job = Job(partial(self._returned, call, value), lambda job: None)
        with anyio.CancelScope(shield=True):  # the call took place, and what it gave is not lost
            ended: Result = await self._threads.wait(job)
        return ended

    def _returned(self, call: Call, value: Any) -> Result:
        """What a tool gave: whatever goes wrong with reading it is a failure of this call alone."""
        try:
            return read_result(call, value, self._policies.limits.result_bytes)
        except Exception as error:
            said = type(error).__name__
            return _ended(
                call,
                _bad_result("unreadable_result", f"reading the result of {call.tool.name!r} raised {said}"),
            )


def read_result(call: Call, value: Any, most: int) -> Result:
    """Output to JSON of at most `most` bytes, validated, asked for a soft failure."""
    tool = call.tool
    try:
        plain = to_plain(value)
    except Unserialisable as error:
        return _ended(
            call,
            _bad_result("unserialisable_result", f"the result of {tool.name!r} is no JSON", str(error)),
        )
    if _may_exceed(plain, most) and size_of(plain) > most:
        return _ended(
            call, _bad_result("result_too_large", f"the result of {tool.name!r} is over {most} bytes")
        )
    wrong = _not_as_declared(call, plain)
    if wrong:
        return _ended(call, _bad_result("invalid_result", *wrong))
    if tool.soft_failure is not None:
        failure = _soft_failure(call, plain)
        if failure is not None:
            return _ended(call, failure)
    return _new(Result, (_OK, plain, None, None, ()))


def _let_go(error: BaseException | None) -> None:
    """Whoever keeps an exception (`raise NOT_FOUND`, a constant) must not keep the run that it passed through."""
    if error is not None:
        error.__traceback__ = None


def _invoked(bound: Bound) -> Any:
    """What the function of the tool gives; of an async one it is still to be awaited."""
    positional, named = bound.arguments
    return bound.call.tool.function(*positional, **named)


def _not_converted(call: Call, error: BaseException) -> Failure:
    said = type(error).__name__
    message = f"converting the arguments of {call.tool.name!r} to the types of its parameters raised {said}"
    return Failure(Kind.BAD_ARGS, "conversion", message, exception=said)


def failure_of(error: BaseException, policies: Policies) -> Failure:
    """The failure that an exception is, as plain data; an exception that lies about itself is a bug in the tool."""
    try:
        failure = classify(error, rules=policies.failures)
        return failure._replace(code=str(_plain_text(failure.code)), details=_plain_details(failure.details))
    except Exception:
        message = f"it raised {with_article(type(error).__name__)} that cannot be read"
        return Failure(
            Kind.BUSINESS,
            "tool_error",
            message,
            happened=Happened.MAYBE,
            exception=type(error).__name__,
            untrusted=True,
        )


def _plain_text(text: object) -> str:
    """Text without halves of characters, which no journal can hold."""
    return str(text).encode("utf-8", "backslashreplace").decode()


def _plain_details(details: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Details as plain JSON; one that is none is replaced by the reason."""
    if details is None:
        return None
    plain = {}
    for name, value in details.items():
        try:
            plain[_plain_text(name)] = to_plain(value)
        except Unserialisable as error:
            plain[_plain_text(name)] = f"(no JSON: {error})"
    return plain


def _not_as_declared(call: Call, result: Any) -> tuple[str, str] | None:
    """What is wrong with a result by the tool's own schema and by the one in the arguments, and where; None if nothing is."""
    tool = call.tool
    wrong = _misfit(tool.output, result)
    if wrong:
        return f"the result of {tool.name!r} is not as declared", wrong
    wrong = _misfit(_asked_for(call), result) if tool.result_from else ""
    return (f"the result of {tool.name!r} is not as asked for", wrong) if wrong else None


def _misfit(schema: Schema | None, result: Any) -> str:
    """What is wrong with a result by a schema, and where; "" if nothing is."""
    if schema is None or schema.accepts(result):
        return ""
    return "; ".join(f"{p.pointer or 'the whole'}: {p.message}" for p in schema.problems(result)[:3])


def _asked_for(call: Call) -> Schema | None:
    """The schema that the arguments hold; the mind has refused a hostile one at admission."""
    document = result_schema(call.tool, call.args)
    return None if document is None else compile_schema(document, closed=True)


def _ended(call: Call, failure: Failure) -> Result:
    """A failed attempt; of a tool that acts and may have acted, the outcome is unknown."""
    unknown = call.tool.effect is Effect.ACTS and failure.happened is Happened.MAYBE
    return Result(Outcome.UNKNOWN if unknown else Outcome.FAILED, None, failure)


def _timed_out(call: Call, *, still_running: bool) -> Failure:
    note = "; its thread may still be running" if still_running else ""
    message = f"{call.tool.name!r} gave no answer within {call.timeout:g} s{note}"
    details = {"still_running": True} if still_running else None
    return Failure(Kind.TIMEOUT, "deadline", message, happened=Happened.MAYBE, details=details)


def _bad_result(code: str, plain: str, quoting: str = "") -> Failure:
    """A result that cannot be used. What quotes it stands apart from the sentence that a model may be told as ours."""
    message, details = (f"{plain}: {quoting}", {"plain": plain}) if quoting else (plain, None)
    return Failure(Kind.BUSINESS, code, message, happened=Happened.YES, details=details)


def _soft_failure(call: Call, result: Any) -> Failure | None:
    """A "successful" answer that carries an error, by the tool's own declared expression."""
    expression = call.tool.soft_failure
    assert expression is not None
    try:
        said = expression.evaluate({"result": result})
    except EvaluationError as error:
        plain = f"the soft-failure rule of {call.tool.name!r} does not resolve"
        return _bad_result("soft_failure_rule", plain, str(error))
    if said is None or said is False or said == "":
        return None
    message = said if isinstance(said, str) else f"{call.tool.name!r} answered with an error"
    return Failure(Kind.BUSINESS, "soft_failure", message, details={"result": result}, untrusted=True)


def _is_large(value: Any) -> bool:
    """Whether reading it may take longer than a loop should stand still."""
    waiting, left = [value], _LARGE
    while waiting:
        part = waiting.pop()
        kind = type(part)
        if kind is str or kind is bytes:
            left -= len(part) >> 6
        elif kind is dict or kind is list or kind is tuple or kind is set:
            left -= len(part)
            if left >= 0:
                waiting += part.values() if kind is dict else part
        if left < 0:
            return True
    return False


_LARGE = 10_000
"""Values (or 64 characters each) whose reading takes about 0.1 s where the schema is an involved one, 10 µs a value."""


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
    for key, item in value.items():
        if 6 * len(key) + 2 > share:
            return True
        if (type(item) is not int or item.bit_length() >= share) and _may_exceed(item, share):
            return True
    return False
