"""What an exception or an HTTP status means: one of five kinds, a code, and whether the effect may stand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .failures import Failure, Happened, Kind, ToolFailure

__all__ = ["Rule", "classify", "failure_from_status", "name_of"]


class _Rule(NamedTuple):
    kind: Kind
    code: str
    happened: Happened
    retryable: bool


class Rule(_Rule):
    """What one type of exception means. Kind and happened may be given as text; an unknown word is a `ValueError`."""

    __slots__ = ()

    def __new__(
        cls, kind: Kind | str, code: str, happened: Happened | str = Happened.NO, retryable: bool = True
    ) -> Rule:
        return super().__new__(cls, Kind(kind), code, Happened(happened), retryable)


def name_of(cls: type) -> str:
    """`module.Qualname` of a class: how rules are keyed."""
    return f"{cls.__module__}.{cls.__qualname__}"


def classify(exc: BaseException, *, rules: Mapping[str, Rule] = {}, now: float | None = None) -> Failure:  # noqa: B006
    """The failure that this exception is."""
    name = type(exc).__name__
    message = str(exc) or name
    if isinstance(exc, ToolFailure):
        return Failure(
            exc.kind, exc.code, message, exc.happened, exc.hint, name, None, exc.retry_after, "", exc.details
        )
    for cls in type(exc).__mro__:
        if rule := rules.get(name_of(cls)):
            return Failure(
                rule.kind,
                rule.code,
                message,
                rule.happened,
                exception=name,
                retryable=rule.retryable,
                untrusted=True,
            )
    return Failure(Kind.BUSINESS, "tool_error", message, Happened.MAYBE, exception=name, untrusted=True)


def failure_from_status(
    status: int, *, headers: Mapping[str, str] | None = None, message: str = ""
) -> Failure:
    """The failure that an HTTP status is."""
    return Failure(Kind.NETWORK, "server_error", message or f"HTTP {status}", Happened.MAYBE, status=status)
