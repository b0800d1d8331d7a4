"""Questions to models pass the limiter that calls of tools pass: their rates, how many at once, rests that services ask for.

    ask_model, stream_of -> Turns -> Limiter.enter ..... waits .... -> the question -> settled, leave
                                                 \\-> refused

Wherever code asks a model in a run or for a plan, the planner, the loop and a tool alike, its question has a turn. One model
around another (`Fallback`) has none of its own: the model inside is what is asked.

While a question waits for its turn the time stands still that its answer may take (`answering`): a model is not late
because others are before it. What ends the wait is patience, the seconds of the budget, and whoever cancels the run.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar

import anyio

from ...planner.models.chat import account_of, asked_in_turn, may_wait, name_of
from ...policies.failures import Failure, Happened, ToolFailure
from ...policies.pace import Rules, rules_for_model
from ...policies.policies import Policies
from ..events import Outcome
from ..mind.admission import out_of_time
from .hands import failure_of
from .limits import Grant, Limiter

__all__ = ["Clock", "Turns", "answering", "in_turn"]


class Clock:
    """The time that an answer may take, without that in which a question waits for its turn."""

    def __init__(self, seconds: float | None) -> None:
        self.scope = anyio.move_on_after(seconds)
        self.waited = 0.0
        self.asked = self.refused = 0
        """How many questions went out, and how many were refused before."""
        self._waiting = 0
        self._left = math.inf

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """It stands still meanwhile; several questions may wait at once."""
        began = anyio.current_time()
        if not self._waiting:
            self._left, self.scope.deadline = self.scope.deadline - began, math.inf
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1
            now = anyio.current_time()
            self.waited += now - began
            if not self._waiting:
                self.scope.deadline = now + self._left

    @property
    def queued(self) -> float:
        """Seconds in which questions waited, as an event tells it."""
        return round(self.waited, 6)

    @property
    def usage(self) -> dict[str, float] | None:
        """What a question has used that failed: nothing, where it was refused before it went out."""
        return {"model_calls": 0} if self.refused and not self.asked else None


_CLOCK: ContextVar[Clock | None] = ContextVar("foreplan_answering", default=None)
_AROUND: ContextVar[tuple[_Around, ...]] = ContextVar("foreplan_asked_around", default=())
"""The questions around this one: what a model asks in its own turn under the same name is no other question."""


class _Around:
    """A question under way to the model of this name. `passed`: it asks others in turn, so what fails is theirs."""

    __slots__ = ("name", "passed")

    def __init__(self, name: str) -> None:
        self.name = name
        self.passed = False


@contextmanager
def answering(seconds: float | None) -> Iterator[Clock]:
    """So long an answer may take; what lasts longer is cancelled, which `scope.cancelled_caught` tells afterwards."""
    clock = Clock(seconds)
    before = _CLOCK.set(clock)
    try:
        with clock.scope:
            yield clock
    finally:
        _CLOCK.reset(before)


@contextmanager
def in_turn(turns: Turns) -> Iterator[None]:
    """While this is open, questions to models in this task, and in those it starts, have their turns here."""
    around, clock = _AROUND.set(()), _CLOCK.set(None)  # a run that begins inside an answer is none of it
    try:
        with asked_in_turn(turns.turn):
            yield
    finally:
        _CLOCK.reset(clock)
        _AROUND.reset(around)


class Turns:
    """The turns of one run, or of the making of one plan. `seconds_left`: until nothing more begins; None without a bound."""

    def __init__(
        self, policies: Policies, limiter: Limiter, seconds_left: Callable[[], float | None] = lambda: None
    ) -> None:
        self._policies = policies
        self._limiter = limiter
        self._seconds_left = seconds_left

    @asynccontextmanager
    async def turn(self, model: object) -> AsyncIterator[float]:
        """Around one question: begins when it is its turn, with how long it waited. Raises `ToolFailure` where that would
        be longer than its patience, or than the run has time."""
        name = name_of(model)
        rules = rules_for_model(name, account_of(model), self._policies, waits=may_wait())
        around = _AROUND.get()
        if any(
            question.name == name for question in around
        ):  # by name, as bounds go: it would wait for itself
            yield 0.0
            return
        for question in around:
            question.passed = True
        clock = _CLOCK.get() or Clock(None)
        waited = clock.waited
        grant = await self._entered(rules, clock)
        own = _Around(name)
        _AROUND.set((*around, own))
        outcome, failure = Outcome.CANCELLED, None
        try:
            yield clock.waited - waited
            outcome = Outcome.OK
        except Exception as error:
            outcome, failure = Outcome.FAILED, failure_of(error, self._policies)._replace(host="")
            raise
        finally:
            _AROUND.set(around)  # and no reset: a stream may be closed from elsewhere
            self._left(rules, outcome, None if own.passed else failure, grant)

    async def _entered(self, rules: Rules, clock: Clock) -> Grant | None:
        """What it holds of the limits; None where nothing bounds it now."""
        if (rules.empty and not self._limiter.rests) or self._limiter.lets_pass(rules):
            clock.asked += 1
            return None
        said: Grant | Failure = out_of_time()
        with clock.stopped(), anyio.move_on_after(self._seconds_left()):
            said = await self._limiter.enter(rules, {})
        if isinstance(said, Failure):
            clock.refused += 1
            raise _raised(said)
        clock.asked += 1
        self._limiter.begin(said)
        return said

    def _left(self, rules: Rules, outcome: Outcome, failure: Failure | None, grant: Grant | None) -> None:
        if (
            grant is not None
            or self._limiter.rests
            or (failure is not None and failure.retry_after is not None)
        ):
            self._limiter.settled(rules, {}, outcome, failure, grant)
        if grant is not None:
            self._limiter.leave(grant)


def _raised(failure: Failure) -> ToolFailure:
    """Why a question was not asked, as whoever asks hears it."""
    return ToolFailure(
        failure.message,
        kind=failure.kind,
        code=failure.code,
        happened=Happened.NO,
        retry_after=failure.retry_after,
        hint="ask less at once, raise the limit of this model in the policies, or give another to fall back on",
    )
