"""When a failed call is tried again, and after how long: arithmetic, no clock, no dice of its own.

Full jitter: the wait is drawn evenly from 0 to `min(cap, base * 2 ** (attempt - 1))`, and Retry-After is a floor.
Source: M. Brooker, "Exponential Backoff and Jitter", AWS Architecture Blog, 2015; RFC 9110 section 10.2.3.
"""

from __future__ import annotations

from pydantic import Field

from .effect import Effect
from .failures import Failure, Happened, Kind
from .frozen import Frozen

__all__ = ["Retry", "may_repeat", "wait_before"]


class Retry(Frozen):
    """Bounds on repeating one call. `attempts` counts the first one; times are in seconds."""

    attempts: int = Field(default=3, ge=1, le=100)
    base: float = Field(default=0.5, ge=0)
    cap: float = Field(default=30.0, ge=0)
    patience: float = Field(default=120.0, ge=0)
    """A Retry-After longer than this is not waited for: the call fails with what the service said."""


_PASSING = frozenset({Kind.TIMEOUT, Kind.NETWORK})


def may_repeat(failure: Failure, effect: Effect) -> bool:
    """Whether the same call may be made again without asking anyone."""
    if failure.kind not in _PASSING or not failure.retryable:
        return False
    return effect.repeatable or failure.happened is Happened.NO


def wait_before(retry: Retry, attempt: int, *, failure: Failure, effect: Effect, dice: float) -> float | None:
    """Seconds to wait before the attempt after `attempt` (from 1), or None where there is to be none.

    `dice` is an even draw from [0, 1).
    """
    if attempt >= retry.attempts or not may_repeat(failure, effect):
        return None
    floor = failure.retry_after or 0.0
    if floor > retry.patience:
        return None
    return floor + dice * min(retry.cap, retry.base * 2.0 ** (attempt - 1))
