"""A guess whether a "successful" answer says that something went wrong. Heuristic: opt in tool by tool, never the default.

    find = recognise_failures(find)        its answers are read; what looks like an error becomes a failure

Where a service says in a field of its own that a call failed, a declared `soft_failure` is right and this is not. What is
looked at: fields that services put errors into, states that are no success, statuses of HTTP, and, for the kind, words
that stand in very many messages. An empty result is no failure.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ..policies.failures import Failure, Happened, Kind, ToolFailure
from .tools import Tool
from .values import Unserialisable, to_plain

__all__ = ["HEURISTIC", "guess_failure", "recognise_failures"]

HEURISTIC = "heuristic-failures"
"""The tag of a tool whose failures are guessed: part of its contract, so an approval binds it."""

_ERRORS = frozenset({"error", "errors", "err", "exception", "fault", "errormessage", "errormsg"})
_STATES = frozenset(
    {"status", "success", "ok", "state", "result", "errorid", "code", "statuscode", "httpcode"}
)
_WORDS = frozenset(
    {"message", "msg", "reason", "detail", "details", "description", "title", "info", "notice"}
)
_FINE = frozenset(
    {"ok", "success", "successful", "succeeded", "true", "done", "complete", "completed", "200"}
)
_EMPTY = re.compile(r"(zero|no|empty)[ _-]?(result|record|match|data|item)s?", re.I)
_FAILED = re.compile(r"error|fail|invalid|denied|refused|rejected|not[ _-]?found|exception|unavailable", re.I)
_BEGINS = re.compile(r"\s*(?:\w+ ?)?(?:error|exception|failed|failure|traceback)\b", re.I)


class _Sign(NamedTuple):
    words: re.Pattern[str]
    kind: Kind
    code: str
    happened: Happened


def _sign(words: str, kind: Kind, code: str, happened: Happened = Happened.NO) -> _Sign:
    return _Sign(re.compile(words, re.I), kind, code, happened)


_SIGNS = (
    _sign(r"time[ds]?[ -]?out|deadline exceeded|\b(408|504)\b", Kind.TIMEOUT, "timeout", Happened.MAYBE),
    _sign(r"too many requests|rate.?limit|throttl|quota|\b429\b", Kind.NETWORK, "rate_limited"),
    _sign(
        r"subscri|premium|upgrade|paid plan|unauthori[sz]ed|forbidden|permission|not allowed|access denied"
        r"|api.?key|credential|not authori[sz]ed|log ?in|\b(401|403)\b",
        Kind.PERMISSION,
        "not_permitted",
    ),
    _sign(
        r"internal server|server error|bad gateway|unavailable|redirect|connection|upstream|try again"
        r"|provider|has no attribute|\b(read|write|fetch|parse) error|\b50[0-35-9]\b",
        Kind.NETWORK,
        "server_error",
        Happened.MAYBE,
    ),
    _sign(
        r"not found|(does|do|did)(n.?t| not) exists?|no such|no (\w+ )?(match|\w+ found)|unknown (id|user|item)|\b404\b",
        Kind.BUSINESS,
        "not_found",
    ),
    _sign(
        r"invalid|required|missing|must |should (be|have|match)|not (a )?valid|malformed|parameter|argument|validati"
        r"|bad request|does not match|provide|expected|enter an?\b|type_error|value_error|\b4(00|22)\b",
        Kind.BAD_ARGS,
        "invalid_value",
    ),
)


def recognise_failures(tool: Tool) -> Tool:
    """The tool with its answers read for signs of failure; it carries the tag `heuristic-failures`."""
    function = tool.function

    @functools.wraps(function)
    async def read_async(*args: Any, **kwargs: Any) -> Any:
        return _checked(await function(*args, **kwargs))

    @functools.wraps(function)
    def read(*args: Any, **kwargs: Any) -> Any:
        return _checked(function(*args, **kwargs))

    wrapped = read_async if tool.is_async else read
    return replace(tool, function=wrapped, tags=tuple(dict.fromkeys((*tool.tags, HEURISTIC))))


def _checked(result: Any) -> Any:
    failure = guess_failure(result)
    if failure is not None:
        details = {"heuristic": True, "result": to_plain(result)}
        raise ToolFailure(
            failure.message, kind=failure.kind, code=failure.code, happened=failure.happened, details=details
        )
    return result


def guess_failure(result: Any) -> Failure | None:
    """What failure an answer seems to tell of; None where it looks like a success, also like an empty one."""
    try:
        plain = to_plain(result)
    except Unserialisable:
        return None
    said = _said(plain)
    if said is None:
        return None
    text = said.strip() or "the answer says that it failed"
    for sign in _SIGNS:
        if sign.words.search(text):
            return Failure(sign.kind, sign.code, text[:500], happened=sign.happened, untrusted=True)
    return Failure(Kind.BUSINESS, "seems_failed", text[:500], happened=Happened.MAYBE, untrusted=True)


def _said(value: Any) -> str | None:
    """The words in which an answer tells of a failure; None where it does not."""
    if isinstance(value, str):
        return value if _BEGINS.match(value) else None
    if not isinstance(value, Mapping) or not value:
        return None
    fields = {_bare(key): part for key, part in value.items()}
    error = next((part for name, part in fields.items() if name in _ERRORS and _tells(part)), None)
    if error is not None:
        return " ".join(_texts([error, *(fields[name] for name in fields.keys() & _WORDS)]))
    states = [part for name, part in fields.items() if name in _STATES]
    if any(map(_bad, states)):
        return " ".join(_texts(value))
    if any(map(_fine, states)):
        return None
    return _only_words(fields)


def _only_words(fields: Mapping[str, Any]) -> str | None:
    """An answer of nothing but a message, whose words say that it failed."""
    if not fields.keys() <= _WORDS:
        return None
    text = " ".join(_texts(list(fields.values())))
    failed = _FAILED.search(text) or any(sign.words.search(text) for sign in _SIGNS)
    return text if failed else None


def _bare(key: str) -> str:
    return re.sub(r"[^a-z]", "", key.lower())


def _tells(part: Any) -> bool:
    """Whether a field for errors holds one."""
    if isinstance(part, str):
        return bool(part) and part.lower() not in _FINE | {"none", "null", "false", "no"}
    return bool(part)


def _bad(state: Any) -> bool:
    if state is False:
        return True
    if isinstance(state, int | float) and not isinstance(state, bool):
        return 400 <= state < 600
    return isinstance(state, str) and not _EMPTY.search(state) and bool(_FAILED.search(state))


def _fine(state: Any) -> bool:
    return (
        state is True
        or (isinstance(state, str | int) and str(state).lower() in _FINE)
        or (isinstance(state, str) and bool(_EMPTY.search(state)))
    )


def _texts(value: Any) -> Iterator[str]:
    """Every text and number in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, bool) or value is None:
        return
    elif isinstance(value, int | float):
        yield str(value)
    else:
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(part)
