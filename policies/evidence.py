"""What an exception carries beside its type: the causes beneath it, a status, headers, a host, words, details.

Exceptions are foreign: a property may raise, warn or lie about its type, `str()` may fail, causes may go in a circle.
Every attribute is read through `_get`, which answers None where there is nothing to be had.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath
from typing import Any

from .causes import ERRNOS, SPECIAL, SQLITE, Rule

__all__ = [
    "READERS",
    "bases_of",
    "beneath",
    "class_name",
    "clean",
    "details_of",
    "headers_of",
    "host_of",
    "name_of",
    "place_of",
    "plain",
    "retry_after",
    "status_of",
    "text_of",
]

LONGEST = 2000
"""Characters of a message that are kept: a screenful; whoever needs more has the tool's own log."""

_PROBLEMS = 20
_STDERR = 1000


def name_of(cls: type) -> str:
    """`module.Qualname` of a class: how rules are keyed."""
    return f"{cls.__module__}.{cls.__qualname__}"


def bases_of(exc: BaseException) -> Iterator[str]:
    """The qualified names of its class and of every base, most derived first."""
    return map(name_of, type(exc).__mro__)


def _get(owner: Any, *names: str) -> Any:
    """The first of these attributes that is there and not None. `bool` is not asked: an error response is falsy."""
    for name in names:
        try:
            value = getattr(owner, name, None)
        except Exception:
            continue
        if value is not None:
            return value
    return None


def beneath(exc: BaseException) -> Iterator[BaseException]:
    """The exceptions that this one was raised around, most explicit first. Never the mere context."""
    for found in (_get(exc, "reason"), _get(exc, "os_error"), *exc.args[:4], exc.__cause__):
        if isinstance(found, BaseException):
            yield found


# --- HTTP


_UNREADABLE = "aiohttp.http_exceptions.HttpProcessingError"
_OF_HTTP = ("headers", "response", "request", "request_info", "url")


def status_of(exc: BaseException) -> int | None:
    """The HTTP status of at least 300 that this exception reports, or None.

    `status_code` is taken as it is; `status` and `code` only beside something that an HTTP client's exception has.
    An answer that could not be parsed has no status, whatever number the library puts there (aiohttp says 400).
    """
    if any(_UNREADABLE in bases_of(found) for found in (exc, *beneath(exc))):
        return None
    response = _get(exc, "response", "resp")
    found = [
        _get(exc, "status_code"),
        _get(response, "status_code", "status"),
        _metadata(response).get("HTTPStatusCode"),
    ]
    if any(name in vars(exc) or hasattr(type(exc), name) for name in _OF_HTTP):
        found.append(_get(exc, "status", "code"))  # aiohttp warns when `code` is read
    return next((int(n) for n in found if isinstance(n, int) and 300 <= n <= 599), None)


def headers_of(exc: BaseException) -> Any:
    """The response headers this exception carries: anything with `get`, or None."""
    response = _get(exc, "response", "resp")
    found = (_get(exc, "headers"), _get(response, "headers"), _metadata(response).get("HTTPHeaders"))
    return next((headers for headers in found if headers is not None), None)


def _metadata(response: Any) -> Mapping[str, Any]:
    """botocore's `response` is a dict with this inside."""
    inner = response.get("ResponseMetadata") if isinstance(response, dict) else None
    return inner if isinstance(inner, dict) else {}


def retry_after(headers: Any, *, now: float | None = None) -> float | None:
    """Seconds that a `Retry-After` header asks for: a number, or a date less the response's own `Date`.

    Without a `Date`, `now` (epoch seconds) stands in for it; without either a date says nothing. RFC 9110, 10.2.3.
    """
    text = _header(headers, "retry-after")
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        then, said = _epoch(text), _epoch(_header(headers, "date"))
        start = said if said is not None else now
        return None if then is None or start is None else max(0.0, then - start)
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _header(headers: Any, name: str) -> str | None:
    value = _look_up(headers, name) or _look_up(headers, name.title())
    if value is None and isinstance(headers, Mapping):
        value = next((v for k, v in headers.items() if isinstance(k, str) and k.lower() == name), None)
    return (
        str(value).strip()
        if isinstance(value, str | float) or (type(value) is int and value < 10**9)
        else None
    )


def _look_up(headers: Any, name: str) -> Any:
    try:
        return headers.get(name)
    except Exception:
        return None


def _epoch(text: str | None) -> float | None:
    if not text:
        return None
    from email.utils import mktime_tz, parsedate_tz

    try:
        parts = parsedate_tz(text)
        return float(mktime_tz(parts)) if parts else None
    except (ValueError, OverflowError, TypeError, IndexError):
        return None


def host_of(exc: BaseException) -> str:
    """The host that was called, in lower case and without port, or an empty string."""
    places = (
        _get(_get(exc, "request"), "url"),
        _get(_get(exc, "request_info"), "real_url"),
        _get(_get(exc, "response"), "url"),
        _get(exc, "url"),
        exc,
        _get(exc, "conn"),
        None if _get(exc, "conn") is not None else _get(exc, "pool"),
    )
    return next((host for place in places if (host := _host(place))), "")


def _host(place: Any) -> str:
    if isinstance(place, str):
        from urllib.parse import urlsplit

        try:
            found: Any = urlsplit(place).hostname
        except ValueError:
            return ""
    else:
        found = _get(place, "host")
    return found[:255].lower() if isinstance(found, str) else ""


# --- words

_CREDENTIALS = re.compile(r"(?<=://)[^\s/@'\"<>]{1,400}@")
_QUERY = re.compile(r"(?<=[\w/.~%-])\?[^\s'\"<>()?=]*=[^\s'\"<>()]*")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def clean(text: str) -> str:
    """A plain text, without what may be a secret in a URL and without memory addresses."""
    text = text[: 4 * LONGEST]
    return plain(_ADDRESS.sub("", _QUERY.sub("?…", _CREDENTIALS.sub("", text))))


def plain(text: str) -> str:
    """A bounded text that any codec takes."""
    text = text[: 4 * LONGEST].strip().encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def text_of(exc: BaseException, tidy: Callable[[str], str] = clean) -> str:
    """What the exception says, tidied; where it has no words, or fails to find them, the name of its class."""
    writer = _first(_WRITERS, exc) or str
    try:
        said = tidy(writer(exc))
    except Exception:
        said = ""
    return said or class_name(exc)


def class_name(exc: BaseException) -> str:
    """The name of its class."""
    return clean(type(exc).__name__)[:200] or "Exception"


def _first(table: Mapping[str, Callable[[Any], Any]], exc: BaseException) -> Callable[[Any], Any] | None:
    return next((table[name] for name in bases_of(exc) if name in table), None)


def _program(exc: Any) -> str:
    command = exc.cmd if isinstance(exc.cmd, list | tuple) else str(exc.cmd).split()[:1]
    return PurePath(str(command[0])).name if command else "the program"


def _write_exit(exc: Any) -> str:
    end = (
        f"was killed by signal {-exc.returncode}"
        if exc.returncode < 0
        else f"ended with exit status {exc.returncode}"
    )
    return f"{_program(exc)} {end}"


def _write_problems(exc: Any) -> str:
    problems = _model_problems(exc)["problems"]
    return "; ".join(f"{p['at'] or 'the value'}: {p['message']}" for p in problems)


_WRITERS: Mapping[str, Callable[[Any], str]] = {
    # a command line, or the value that does not fit, may hold a secret
    "subprocess.CalledProcessError": _write_exit,
    "subprocess.TimeoutExpired": lambda exc: f"{_program(exc)} did not end within {exc.timeout:g} seconds",
    "pydantic_core._pydantic_core.ValidationError": _write_problems,
    "jsonschema.exceptions.ValidationError": lambda exc: (
        f"{exc.json_path}: does not fit {exc.validator!r}: {exc.validator_value!r}"
    ),
    "builtins.KeyError": lambda exc: f"KeyError: {exc}",
    "builtins.SystemExit": lambda exc: f"SystemExit: {exc}",
}


# --- details


def details_of(exc: BaseException) -> dict[str, Any] | None:
    """Facts that a person or a planner can use, as plain JSON, or None."""
    reader = _first(_DETAILS, exc)
    try:
        return reader(exc) if reader else None
    except Exception:
        return None


def _model_problems(exc: Any) -> dict[str, Any]:
    found = exc.errors(include_input=False, include_url=False, include_context=False)[:_PROBLEMS]
    rows = [
        {"at": ".".join(map(str, e["loc"])), "rule": e["type"], "message": clean(e["msg"])} for e in found
    ]
    return {"problems": rows}


def _exit(exc: Any) -> dict[str, Any]:
    said = exc.stderr.decode(errors="backslashreplace") if isinstance(exc.stderr, bytes) else exc.stderr
    found = {"exit_status": int(exc.returncode)}
    return found | {"stderr": clean(said[-_STDERR:])} if isinstance(said, str) and said else found


def place_of(exc: BaseException) -> dict[str, Any] | None:
    """Where it was raised: file, line and function; for bugs."""
    last = exc.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None:
        return None
    code = last.tb_frame.f_code
    return {"at": clean(f"{PurePath(code.co_filename).name}:{last.tb_lineno} in {code.co_name}")}


_DETAILS: Mapping[str, Callable[[Any], dict[str, Any] | None]] = {
    "pydantic_core._pydantic_core.ValidationError": _model_problems,
    "jsonschema.exceptions.ValidationError": lambda exc: {
        "problems": [{"at": exc.json_path, "rule": str(exc.validator)}]
    },
    "subprocess.CalledProcessError": _exit,
}


# --- rules that depend on an attribute


_HANDSHAKE_REASONS = frozenset(
    {
        "CERTIFICATE_VERIFY_FAILED",
        "HTTP_REQUEST",
        "NO_PROTOCOLS_AVAILABLE",
        "NO_SHARED_CIPHER",
        "PACKET_LENGTH_TOO_LONG",
        "SSLV3_ALERT_CERTIFICATE_EXPIRED",
        "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
        "SSLV3_ALERT_HANDSHAKE_FAILURE",
        "TLSV13_ALERT_CERTIFICATE_REQUIRED",
        "TLSV1_ALERT_PROTOCOL_VERSION",
        "TLSV1_ALERT_UNKNOWN_CA",
        "TLSV1_UNRECOGNIZED_NAME",
        "UNSUPPORTED_PROTOCOL",
        "WRONG_VERSION_NUMBER",
    }
)
"""OpenSSL's names for failures before any data of ours could be read by the other side."""


def _by_errno(exc: Any) -> Rule | None:
    return ERRNOS.get(exc.errno)


def _by_lookup(exc: Any) -> Rule | None:
    import socket  # loaded already: it defines the exception

    absent = {getattr(socket, name, None) for name in ("EAI_NONAME", "EAI_NODATA", "EAI_ADDRFAMILY")}
    return SPECIAL["unknown host"] if exc.errno in absent - {None} else SPECIAL["DNS down"]


def _by_reason(exc: Any) -> Rule | None:
    return SPECIAL["TLS handshake"] if exc.reason in _HANDSHAKE_REASONS else SPECIAL["TLS"]


def _by_result(exc: Any) -> Rule | None:
    code = _get(exc, "sqlite_errorcode")
    return SQLITE[code & 0xFF][1] if isinstance(code, int) and code & 0xFF in SQLITE else None


def _by_exit(exc: Any) -> Rule | None:
    return SPECIAL["killed"] if exc.returncode < 0 else None


def _by_reply(exc: Any) -> Rule | None:
    return SPECIAL["mail later"] if 400 <= exc.smtp_code < 500 else SPECIAL["mail refused"]


def _by_replies(exc: Any) -> Rule | None:
    return (
        SPECIAL["mail later"]
        if all(400 <= reply[0] < 500 for reply in exc.recipients.values())
        else SPECIAL["mail refused"]
    )


def _by_url(exc: Any) -> Rule | None:
    return SPECIAL["bad URL"] if isinstance(exc.reason, str) else None


READERS: Mapping[str, Callable[[Any], Rule | None]] = {
    "builtins.OSError": _by_errno,
    "aiohttp.client_exceptions.ClientOSError": _by_errno,
    "socket.gaierror": _by_lookup,
    "ssl.SSLError": _by_reason,
    "sqlite3.Error": _by_result,
    "subprocess.CalledProcessError": _by_exit,
    "smtplib.SMTPResponseException": _by_reply,
    "smtplib.SMTPRecipientsRefused": _by_replies,
    "urllib.error.URLError": _by_url,
}
"""By type, where an attribute tells more; None leaves it to the tables."""
