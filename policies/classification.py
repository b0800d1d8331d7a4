"""What an exception or an HTTP status means: one of five kinds, a code, and whether the effect may stand.

    exception ──> the user's rules ──> HTTP status ──> attribute (errno, SQLite code) ──> type
                                                                                           │ a carrier: ask the cause
                                                                                           └──> and so on, at most 64 in all

By type and number, never by the text of a message; the tables are in `causes.py`, the reading of foreign exceptions in
`evidence.py`. `httpx.ConnectError` around a failed certificate is `tls_certificate`; around nothing it is
`connect_failed`.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from types import MappingProxyType
from typing import Any

from .causes import CARRIERS, CODES, OPEN, TYPES, VAGUE, Rule, by_status
from .evidence import (
    READERS,
    bases_of,
    beneath,
    class_name,
    clean,
    details_of,
    headers_of,
    host_of,
    name_of,
    place_of,
    plain,
    retry_after,
    status_of,
    text_of,
)
from .failures import Failure, Happened, Kind, ToolFailure

__all__ = ["CODES", "Rule", "classify", "failure_from_status", "name_of"]

_NONE: Mapping[str, Rule] = MappingProxyType({})
_FOLLOWED = 64
"""Exceptions looked at for one failure; httpx over anyio over happy eyeballs has seven. Bounds circles and depth."""
_MOST = 100
"""Members of an exception group that are looked at."""


def classify(exc: BaseException, *, rules: Mapping[str, Rule] = _NONE, now: float | None = None) -> Failure:
    """The failure that this exception is.

    `rules` come before every table, keyed by `name_of(type)`; a rule for a base class holds for what derives from it.
    `now` (epoch seconds) is for a Retry-After date in a response without `Date`. Never raises, imports no library.
    """
    return _classify(exc, rules, now, set())


def failure_from_status(
    status: int,
    *,
    headers: Any = None,
    message: str = "",
    host: str = "",
    exception: str = "",
    details: Mapping[str, Any] | None = None,
    untrusted: bool = False,
    now: float | None = None,
) -> Failure:
    """The failure that an HTTP response with this status is; `headers` is anything with `get`."""
    rule = by_status(status)
    return Failure(
        rule.kind,
        rule.code,
        clean(message) or _phrase(status),
        rule.happened,
        exception=exception,
        status=status,
        retry_after=retry_after(headers, now=now),
        host=host,
        details=details,
        untrusted=untrusted,
        retryable=rule.retryable,
    )


def _phrase(status: int) -> str:
    from http import HTTPStatus

    try:
        return f"HTTP {status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"HTTP {status}"


def _classify(exc: BaseException, rules: Mapping[str, Rule], now: float | None, seen: set[int]) -> Failure:
    seen.add(id(exc))
    if isinstance(exc, ToolFailure):
        return _as_said(exc)
    if isinstance(exc, BaseExceptionGroup):
        return _worst([_classify(leaf, rules, now, seen) for leaf in _leaves(exc)])
    if rule := next((rules[name] for name in bases_of(exc) if name in rules), None):
        return _told(exc, rule, status_of(exc), now)
    if (status := status_of(exc)) is not None:
        return _told(exc, by_status(status), status, now)
    name, rule = _find(exc)
    failure = _told(exc, rule, None, now)
    if name in CARRIERS:
        for cause in beneath(exc):
            if id(cause) not in seen and len(seen) < _FOLLOWED:
                found = _classify(cause, rules, now, seen)
                if found.code not in VAGUE:
                    return _carried(failure, found, found.happened if name in OPEN else rule.happened)
    return failure


def _as_said(exc: ToolFailure) -> Failure:
    wait = exc.retry_after
    return Failure(
        exc.kind,
        exc.code,
        text_of(exc, plain),
        exc.happened,
        hint=plain(exc.hint),
        exception=class_name(exc),
        retry_after=wait if wait is not None and 0 <= wait < inf else None,
        details=exc.details,
        untrusted=True,
    )


def _find(exc: BaseException) -> tuple[str, Rule]:
    """The name of the class that decides, and its rule; `builtins.BaseException` always has one."""
    for name in bases_of(exc):
        rule = _read(name, exc) or TYPES.get(name)
        if rule is not None:
            return "", rule
        if name in CARRIERS:
            return name, CARRIERS[name]
    raise AssertionError("every exception derives from BaseException")


def _read(name: str, exc: BaseException) -> Rule | None:
    reader = READERS.get(name)
    try:
        return reader(exc) if reader else None
    except Exception:  # a foreign object that lacks the attribute its type promises
        return None


def _told(exc: BaseException, rule: Rule, status: int | None, now: float | None) -> Failure:
    """The failure by this rule, with what the exception itself has to say."""
    details = details_of(exc) or (place_of(exc) if rule.code == "tool_error" else None)
    return Failure(
        rule.kind,
        rule.code,
        text_of(exc),
        rule.happened,
        exception=class_name(exc),
        status=status,
        retry_after=retry_after(headers_of(exc), now=now) if status is not None else None,
        host=host_of(exc),
        details=details,
        untrusted=True,
        retryable=rule.retryable,
    )


def _carried(carrier: Failure, cause: Failure, happened: Happened) -> Failure:
    """Kind and code of the cause, in the words of the carrier; who knows the moment says whether it happened."""
    return cause._replace(
        message=carrier.message,
        exception=carrier.exception,
        happened=happened,
        host=carrier.host or cause.host,
        untrusted=True,
    )


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    """The members at every depth, without those that were only cancelled because another failed."""
    found: list[BaseException] = []
    left: list[BaseException] = [group]
    while left and len(found) < _MOST:
        member = left.pop()
        if isinstance(member, BaseExceptionGroup):
            left.extend(reversed(member.exceptions))
        else:
            found.append(member)
    return [leaf for leaf in found if _find(leaf)[1].code != "tool_cancelled"] or found


_SEVERITY = (Kind.PERMISSION, Kind.BAD_ARGS, Kind.BUSINESS, Kind.TIMEOUT, Kind.NETWORK)
"""Gravest first: what is never retried comes before what is."""
_LIKELIHOOD = (Happened.NO, Happened.MAYBE, Happened.YES)


def _worst(failures: list[Failure]) -> Failure:
    """The gravest of several, first come first; what any of them may have done may have happened."""
    worst = min(failures, key=lambda failure: (_SEVERITY.index(failure.kind), failure.retryable))
    if len(failures) == 1:
        return worst
    others = ", ".join(dict.fromkeys(failure.exception for failure in failures if failure is not worst))
    waits = [failure.retry_after for failure in failures if failure.retry_after is not None]
    return worst._replace(
        message=clean(f"{worst.message} (with {len(failures) - 1} more: {others})"),
        happened=max((failure.happened for failure in failures), key=_LIKELIHOOD.index),
        retry_after=max(waits, default=None),
        untrusted=True,
    )
