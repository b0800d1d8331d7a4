"""Answers of a service as plain JSON, or as one of the five kinds of failure.

2xx   JSON read, text as text, bytes as {"mime", "bytes", "data"}, nothing as null
else  a failure by its status, with Retry-After, and with what problem+json or another JSON says as details
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from ...policies.causes import by_status
from ...policies.evidence import retry_after
from ...policies.failures import Happened, ToolFailure
from ...policies.text import safe_text, shorten
from ..values import Json, size_of
from .media import is_json, is_text

__all__ = ["MOST_DATA", "read_answer"]

_LONGEST_MESSAGE = 500
_MOST_DETAILS = 16_384
"""Bytes of an error's JSON that are kept; larger ones are told by their message alone."""
MOST_DATA = 65_536
"""Bytes that stand in a result as base64; of more only kind and size do."""
_ENCODINGS = (
    "utf-8",
    "utf-16",
    "us-ascii",
    "iso-8859-",
    "windows-125",
    "shift_jis",
    "euc-",
    "gb",
    "big5",
    "koi8-",
)
_WORDS = ("title", "message", "error_description", "error", "detail", "errorMessage", "reason")
"""Where services say in JSON what is wrong; `title` and `detail` are RFC 9457's."""


def read_answer(status: int, headers: Mapping[str, str], body: bytes, *, of: str) -> Json:
    """The result of a call. Raises `ToolFailure` for an answer that is none, or none that can be read."""
    media = headers.get("content-type", "")
    if not 200 <= status < 300:
        raise _failure(status, headers, media, body, of)
    if not body:
        return None
    if is_json(media):
        return _json(body, of)
    if is_text(media):
        return _decoded(body, media)
    shown = {"data": base64.b64encode(body).decode()} if len(body) <= MOST_DATA else {}
    return {"mime": safe_text(media.partition(";")[0].strip(), 100), "bytes": len(body), **shown}


def _decoded(body: bytes, media: str) -> str:
    """A text, by the encoding that it says it has where that is one in use."""
    said = media.lower().partition("charset=")[2].partition(";")[0].strip(" \"'")
    try:
        return body.decode(said if said.startswith(_ENCODINGS) else "utf-8", "replace")
    except (LookupError, ValueError):
        return body.decode("utf-8", "replace")


def _json(body: bytes, of: str) -> Json:
    try:
        return json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        said = shorten(safe_text(str(error), 200), 120) or type(error).__name__
        raise ToolFailure(
            f"{of} answered with what is no JSON: {said}", code="bad_response", happened=Happened.YES
        ) from None


def _no_constant(name: str) -> Json:
    raise ValueError(f"{name} is no JSON")


def _failure(status: int, headers: Mapping[str, str], media: str, body: bytes, of: str) -> ToolFailure:
    rule = by_status(status)
    answer = _error(media, body)
    words = _words(answer) if isinstance(answer, Mapping) else answer if isinstance(answer, str) else ""
    details: dict[str, Any] = {"status": status}
    if isinstance(answer, Mapping | list) and size_of(answer) <= _MOST_DETAILS:
        details["problem" if "problem+json" in media.lower() else "answer"] = answer
    if status < 400 and (place := headers.get("location")):
        details["location"] = shorten(safe_text(place, 500), 500)
    return ToolFailure(
        f"{of} answered {status}" + (f": {words}" if words else ""),
        kind=rule.kind,
        code=rule.code,
        happened=rule.happened,
        retry_after=retry_after(headers),
        details=details,
    )


def _error(media: str, body: bytes) -> Json:
    if is_json(media):
        try:
            return json.loads(body, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            return ""
    if not is_text(media) or "html" in media:
        return ""
    return safe_text(_decoded(body[:_LONGEST_MESSAGE], media), _LONGEST_MESSAGE)


def _words(answer: Mapping[str, Any]) -> str:
    """What an error says of itself, as far as it says it in one of the usual places."""
    inner = answer.get("error")
    places = [answer, inner] if isinstance(inner, Mapping) else [answer]
    found = (place.get(name) for name in _WORDS for place in places)
    texts = dict.fromkeys(each.strip() for each in found if isinstance(each, str) and each.strip())
    return safe_text(": ".join(list(texts)[:2]), _LONGEST_MESSAGE)
