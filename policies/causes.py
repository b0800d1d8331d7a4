"""The table of causes: which exception type, errno, HTTP status or SQLite code means what.

Rows are found by qualified name along the method resolution order of an exception, so no library is imported here,
and never by the text of a message. `happened` speaks of the operation that raised:

    no      the other side cannot have seen it (refused, no such host, connect timeout), or said no to it (404, 429)
    maybe   it was under way (reset, read timeout, 500), or something broke that tells nothing about it (a bug)

A carrier is an exception that a library wraps around the real cause. The cause gives kind and code. What the carrier
knows about the moment (connecting, reading) decides `happened`, unless it is one of `OPEN`.
Sources: RFC 9110 section 15; RFC 6585; errno(3); sqlite.org/rescode.html; the libraries' own exception trees.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import NamedTuple

from .failures import Happened, Kind

__all__ = [
    "CARRIERS",
    "CODES",
    "ERRNOS",
    "ERRNO_NAMES",
    "OPEN",
    "REMEDIES",
    "SPECIAL",
    "SQLITE",
    "STATUSES",
    "TYPES",
    "VAGUE",
    "Rule",
    "by_status",
]


class _Rule(NamedTuple):
    kind: Kind
    code: str
    happened: Happened = Happened.NO
    retryable: bool = True


class Rule(_Rule):
    """What one cause means. Kind and happened may be given as text; an unknown word is a `ValueError`.

    `retryable=False` is for causes that repeating cannot mend although their kind is retried.
    """

    __slots__ = ()

    def __new__(
        cls, kind: Kind | str, code: str, happened: Happened | str = Happened.NO, retryable: bool = True
    ) -> Rule:
        return super().__new__(cls, Kind(kind), code, Happened(happened), retryable)


REMEDIES: Mapping[Kind, str] = {
    Kind.BAD_ARGS: "not retried; the planner may correct the arguments once",
    Kind.PERMISSION: "not retried; another way, or a person",
    Kind.TIMEOUT: "retried if the call may be repeated",
    Kind.NETWORK: "retried after a jittered wait, never before Retry-After, if the call may be repeated",
    Kind.BUSINESS: "not retried; the planner gets the facts",
}

CODES: Mapping[str, str] = {
    # bad_args
    "bad_request": "the service does not accept the request as it is",
    "unprocessable": "the service understands the request but not its content",
    "too_large": "the request is larger than the service takes",
    "bad_url": "the address is malformed or of a scheme that is not supported",
    "bad_path": "the file name is too long or malformed",
    # permission
    "unauthenticated": "the service does not know who is asking: credentials are missing or wrong",
    "forbidden": "the service knows who is asking and does not allow it",
    "access_denied": "the operating system does not allow it",
    "read_only": "the file system, database or mailbox can only be read",
    # timeout
    "timed_out": "the time was up; at which moment is not known",
    "connect_timeout": "no connection within the time allowed: nothing was sent",
    "read_timeout": "the request was sent and no answer came in time",
    "write_timeout": "the request could not be sent in time",
    "pool_timeout": "no free connection within the time allowed: nothing was sent",
    "request_timeout": "the service waited too long for the request",
    "gateway_timeout": "a gateway waited too long for the service behind it",
    "database_busy": "another connection holds the database",
    "process_timeout": "the program did not end in time",
    # network
    "connection_refused": "nothing listens at that address",
    "connection_reset": "the other side broke the connection off",
    "connection_closed": "the connection ended before the answer did",
    "connect_failed": "no connection; why is not known",
    "network_error": "the connection failed; why is not known",
    "unknown_host": "no such host name",
    "dns_unavailable": "the name could not be looked up just now",
    "unreachable": "no route to the host",
    "proxy_failed": "the proxy did not give a connection",
    "tls_certificate": "the certificate of the service could not be verified",
    "tls": "no agreement on an encrypted connection",
    "protocol_error": "the answer is not what the protocol says",
    "incomplete_answer": "the answer was cut off",
    "rate_limited": "too many requests; the service says when to come back",
    "server_error": "the service failed",
    "bad_gateway": "a gateway got no valid answer from the service behind it",
    "unavailable": "the service cannot answer just now",
    # business
    "refused": "the tool, or the service behind it, says no",
    "not_found": "there is no such thing",
    "gone": "it existed and does no longer",
    "conflict": "it contradicts the present state",
    "exists": "it exists already",
    "busy": "something else holds it",
    "payment_required": "the service wants to be paid first",
    "not_implemented": "the service or the tool cannot do this",
    "redirected": "the service answers elsewhere and the redirect was not followed",
    "bad_response": "the service answered in a form that the tool cannot read",
    "bad_data": "data is not in the format it should be in",
    "invalid_data": "data does not fit the model or schema that the tool checks it against",
    "constraint": "the database refuses it: unique, not null, foreign key or check",
    "sql_error": "the SQL is wrong or names what does not exist",
    "database_error": "the database failed",
    "process_failed": "the program ended with an error",
    "process_killed": "the program was killed",
    "disk_full": "no space, or no quota, left",
    "io_error": "the device failed",
    "too_many_files": "too many open files",
    "wrong_file_type": "a directory where a file should be, or a file where a directory should be",
    "os_error": "the operating system says no",
    "out_of_memory": "no memory left",
    "missing_module": "a Python module that the tool needs is not installed",
    "tool_cancelled": "the tool cancelled itself",
    "tool_exit": "the tool tried to end the process",
    "tool_error": "the tool has a bug, or raised something that no rule names",
}
"""Code -> what it means, in one line. A tool may use codes of its own."""

UNBEGUN: Mapping[str, tuple[Kind, str]] = {
    "conversion": (Kind.BAD_ARGS, "the arguments fit the schema but make no values of the tool's own types"),
    "denied": (Kind.PERMISSION, "`authorize` said no"),
    "policy_unavailable": (Kind.PERMISSION, "`authorize` raised, or gave no answer in time"),
    "secret_unavailable": (
        Kind.PERMISSION,
        "a secret that the tool needs is missing, or did not come in time",
    ),
    "approval_expired": (Kind.PERMISSION, "the approval of the run has expired"),
    "no_slot": (Kind.TIMEOUT, "earlier calls still run in their threads and keep all places"),
    "host_held": (
        Kind.NETWORK,
        "its host, or the service of a model, asked for rest (Retry-After) for longer than calls wait",
    ),
    "rate_limited": (Kind.NETWORK, "a rate of yours is used up for longer than calls wait"),
    "breaker_open": (Kind.NETWORK, "the tool failed too often in a row and is left alone for a while"),
}
"""Codes of calls that were ended by the engine before they began: kind and reason. Nothing has happened."""

VAGUE = frozenset({"tool_error", "os_error", "network_error", "connect_failed"})
"""Codes that tell less than any carrier: a cause that says only this is not asked."""

_NO, _MAYBE = Happened.NO, Happened.MAYBE


def _bad_args(code: str) -> Rule:
    return Rule(Kind.BAD_ARGS, code, _NO)


def _permission(code: str) -> Rule:
    return Rule(Kind.PERMISSION, code, _NO)


def _timeout(code: str, happened: Happened = _MAYBE) -> Rule:
    return Rule(Kind.TIMEOUT, code, happened)


def _network(code: str, happened: Happened = _MAYBE, *, retryable: bool = True) -> Rule:
    return Rule(Kind.NETWORK, code, happened, retryable)


def _business(code: str, happened: Happened = _NO) -> Rule:
    return Rule(Kind.BUSINESS, code, happened)


_BUG = _business("tool_error", _MAYBE)
_BAD_DATA = _business("bad_data", _MAYBE)
_BAD_RESPONSE = _business("bad_response", _MAYBE)
_NOT_FOUND = _business("not_found")
_ACCESS = _permission("access_denied")
_READ_ONLY = _permission("read_only")
_BUSY = _business("busy")
_WRONG_TYPE = _business("wrong_file_type")
_DISK_FULL = _business("disk_full", _MAYBE)  # part of it may have been written
_TOO_MANY_FILES = _business("too_many_files")
_RESET = _network("connection_reset")
_CLOSED = _network("connection_closed")
_CUT = _network("incomplete_answer")
_PROTOCOL = _network("protocol_error")
_FAILED = _network("network_error")
_CONNECT = _network("connect_failed", _NO)
_REFUSED = _network("connection_refused", _NO)
_UNREACHABLE = _network("unreachable")
_UNKNOWN_HOST = _network("unknown_host", _NO, retryable=False)
_DNS = _network("dns_unavailable", _NO)
_CERTIFICATE = _network("tls_certificate", _NO, retryable=False)
_TLS = _network("tls", _MAYBE, retryable=False)
_PROXY = _network("proxy_failed", _NO)
_READ_TIMEOUT = _timeout("read_timeout")
_CONNECT_TIMEOUT = _timeout("connect_timeout", _NO)
_BAD_URL = _bad_args("bad_url")
_CANCELLED = _business("tool_cancelled", _MAYBE)
_MEMORY = _business("out_of_memory", _MAYBE)
_REDIRECTS = _business("redirected", _MAYBE)
_INVALID = _business("invalid_data", _MAYBE)
_KILLED = _business("process_killed", _MAYBE)

STATUSES: Mapping[int, Rule] = {
    400: _bad_args("bad_request"),
    401: _permission("unauthenticated"),
    402: _business("payment_required"),
    403: _permission("forbidden"),
    404: _NOT_FOUND,
    407: _permission("unauthenticated"),
    408: _timeout("request_timeout"),
    409: _business("conflict"),
    410: _business("gone"),
    412: _business("conflict"),
    413: _bad_args("too_large"),
    414: _bad_args("bad_url"),
    421: _CONNECT,
    422: _bad_args("unprocessable"),
    423: _BUSY,
    424: _business("conflict"),
    425: _network("unavailable", _NO),
    429: _network("rate_limited", _NO),
    451: _permission("forbidden"),
    500: _network("server_error"),
    501: _business("not_implemented"),
    502: _network("bad_gateway"),
    503: _network("unavailable"),
    504: _timeout("gateway_timeout"),
    505: _bad_args("bad_request"),
    507: _DISK_FULL,
    511: _permission("unauthenticated"),
}


def by_status(status: int) -> Rule:
    """The rule for any HTTP status: its own row, else that of its class."""
    if rule := STATUSES.get(status):
        return rule
    if status < 400:
        return _REDIRECTS if status >= 300 else _BAD_RESPONSE
    return STATUSES[400] if status < 500 else STATUSES[500]


ERRNO_NAMES = {
    "EACCES EPERM": _ACCESS,
    "EROFS": _READ_ONLY,
    "ENOENT ESRCH ENXIO ENODEV": _NOT_FOUND,
    "EEXIST": _business("exists"),
    "ENOTEMPTY": _business("conflict"),
    "EADDRINUSE EBUSY ETXTBSY EAGAIN EDEADLK": _BUSY,
    "EISDIR ENOTDIR": _WRONG_TYPE,
    "ENAMETOOLONG ELOOP": _bad_args("bad_path"),
    "ENOSPC EDQUOT EFBIG": _DISK_FULL,
    "EIO": _business("io_error", _MAYBE),
    "EMFILE ENFILE": _TOO_MANY_FILES,
    "ENOMEM": _MEMORY,
    "ENOSYS EOPNOTSUPP": _business("not_implemented"),
    "ECONNREFUSED": _REFUSED,
    "ECONNRESET ECONNABORTED ENETRESET": _RESET,
    "EPIPE ESHUTDOWN ENOTCONN": _CLOSED,
    "ETIMEDOUT": _timeout("timed_out"),
    "EHOSTUNREACH ENETUNREACH ENETDOWN": _UNREACHABLE,
    "EADDRNOTAVAIL": _network("unreachable", _NO),
}

ERRNOS: Mapping[int, Rule] = {
    number: rule
    for names, rule in ERRNO_NAMES.items()
    for name in names.split()
    if (number := getattr(errno, name, None)) is not None  # not every system has every name
}
"""By `OSError.errno`. EHOSTUNREACH may also end a connection in use, hence maybe; a carrier that connects says no."""

SQLITE: Mapping[int, tuple[str, Rule]] = {
    1: ("ERROR", _business("sql_error")),
    3: ("PERM", _ACCESS),
    5: ("BUSY", _timeout("database_busy", _NO)),
    6: ("LOCKED", _timeout("database_busy", _NO)),
    7: ("NOMEM", _MEMORY),
    8: ("READONLY", _READ_ONLY),
    9: ("INTERRUPT", _CANCELLED),
    10: ("IOERR", _business("io_error", _MAYBE)),
    11: ("CORRUPT", _BAD_DATA),
    13: ("FULL", _business("disk_full")),  # the statement is rolled back whole
    14: ("CANTOPEN", _NOT_FOUND),
    18: ("TOOBIG", _bad_args("too_large")),
    19: ("CONSTRAINT", _business("constraint")),
    20: ("MISMATCH", _business("constraint")),
    23: ("AUTH", _ACCESS),
    25: ("RANGE", _business("sql_error")),
    26: ("NOTADB", _BAD_DATA),
}
"""By the low byte of `sqlite3.Error.sqlite_errorcode` (the primary result code)."""

SPECIAL: Mapping[str, Rule] = {
    "unknown host": _UNKNOWN_HOST,
    "DNS down": _DNS,
    "TLS handshake": _network("tls", _NO, retryable=False),
    "TLS": _TLS,
    "killed": _KILLED,
    "mail later": _network("unavailable", _NO),
    "mail refused": _business("refused"),
    "bad URL": _BAD_URL,
}
"""For `READERS` in `evidence.py`: rules that depend on an attribute of the exception."""


def _named(prefix: str, rows: Mapping[str, Rule]) -> dict[str, Rule]:
    return {f"{prefix}.{name}": rule for names, rule in rows.items() for name in names.split()}


_BUILTINS = _named(
    "builtins",
    {
        "TimeoutError": _timeout("timed_out"),
        "ConnectionRefusedError": _REFUSED,
        "ConnectionResetError ConnectionAbortedError": _RESET,
        "BrokenPipeError": _CLOSED,
        "ConnectionError": _FAILED,
        "PermissionError": _ACCESS,
        "FileNotFoundError ProcessLookupError": _NOT_FOUND,
        "FileExistsError": _business("exists"),
        "IsADirectoryError NotADirectoryError": _WRONG_TYPE,
        "BlockingIOError": _BUSY,
        "UnicodeError": _BAD_DATA,
        "MemoryError": _MEMORY,
        "ImportError": _business("missing_module", _MAYBE),
        "NotImplementedError": _business("not_implemented", _MAYBE),
        "LookupError TypeError AttributeError NameError ArithmeticError AssertionError RecursionError": _BUG,
        "SystemExit": _business("tool_exit", _MAYBE),
        "KeyboardInterrupt GeneratorExit": _CANCELLED,
    },
)

_STANDARD = {
    "json.decoder.JSONDecodeError": _BAD_DATA,
    "tomllib.TOMLDecodeError": _BAD_DATA,
    "xml.etree.ElementTree.ParseError": _BAD_DATA,
    "_csv.Error": _BAD_DATA,
    "configparser.Error": _BAD_DATA,
    "binascii.Error": _BAD_DATA,
    "zlib.error": _BAD_DATA,
    "_lzma.LZMAError": _BAD_DATA,
    "gzip.BadGzipFile": _BAD_DATA,
    "zipfile.BadZipFile": _BAD_DATA,
    "tarfile.TarError": _BAD_DATA,
    "shutil.SameFileError": _business("conflict"),
    "socket.herror": _UNKNOWN_HOST,
    "ssl.SSLCertVerificationError": _CERTIFICATE,
    "ssl.SSLEOFError": _CLOSED,
    "ssl.SSLZeroReturnError": _CLOSED,
    "ssl.SSLSyscallError": _RESET,
    "urllib.error.ContentTooShortError": _CUT,
    "http.client.IncompleteRead": _CUT,
    "http.client.RemoteDisconnected": _CLOSED,
    "http.client.ImproperConnectionState": _BUG,
    "http.client.NotConnected": _BUG,
    "http.client.InvalidURL": _BAD_URL,
    "http.client.HTTPException": _PROTOCOL,
    "smtplib.SMTPServerDisconnected": _CLOSED,
    "smtplib.SMTPConnectError": _CONNECT,
    "smtplib.SMTPAuthenticationError": _permission("unauthenticated"),
    "smtplib.SMTPNotSupportedError": _business("not_implemented"),
    "ftplib.error_temp": _network("unavailable"),
    "ftplib.error_perm": _business("refused"),
    "ftplib.Error": _PROTOCOL,
    "imaplib.IMAP4.abort": _CLOSED,
    "imaplib.IMAP4.readonly": _READ_ONLY,
    "imaplib.IMAP4.error": _business("refused", _MAYBE),
    "poplib.error_proto": _business("refused", _MAYBE),
    "subprocess.TimeoutExpired": _timeout("process_timeout"),
    "subprocess.CalledProcessError": _business("process_failed", _MAYBE),
    "sqlite3.ProgrammingError": _BUG,
    "sqlite3.InterfaceError": _BUG,
    "sqlite3.Error": _business("database_error", _MAYBE),
    "asyncio.exceptions.CancelledError": _CANCELLED,
    "asyncio.exceptions.IncompleteReadError": _CUT,
    "concurrent.futures._base.CancelledError": _CANCELLED,
    "concurrent.futures._base.BrokenExecutor": _KILLED,
}

_HTTPX = {
    "ConnectTimeout": _CONNECT_TIMEOUT,
    "PoolTimeout": _timeout("pool_timeout", _NO),
    "ReadTimeout": _READ_TIMEOUT,
    "WriteTimeout": _timeout("write_timeout"),
    "TimeoutException": _timeout("timed_out"),
    "RemoteProtocolError": _PROTOCOL,
    "LocalProtocolError": _bad_args("bad_request"),
    "UnsupportedProtocol": _BAD_URL,
}

_HTTPX_ALONE = {
    "InvalidURL": _BAD_URL,
    "DecodingError": _BAD_RESPONSE,
    "TooManyRedirects": _REDIRECTS,
    "StreamError CookieConflict": _BUG,
}

_LIBRARIES = (
    _named("httpx", _HTTPX | _HTTPX_ALONE)
    | _named("httpcore", _HTTPX)
    | _named("httpx2", _HTTPX | _HTTPX_ALONE)
    | _named("httpcore2", _HTTPX)
    | {"openai.APIError": _PROTOCOL, "anthropic.APIError": _PROTOCOL}
    | _named(
        "pydantic_ai.exceptions",
        {
            "ContentFilterError": _business("refused"),
            "UnexpectedModelBehavior": _PROTOCOL,
            "ModelRetry": _bad_args("bad_request"),  # a tool of an agent that wants other arguments
            "ToolFailed": _business("refused", _MAYBE),
        },
    )
    | _named(
        "requests.exceptions",
        {
            "ConnectTimeout": _CONNECT_TIMEOUT,
            "ReadTimeout": _READ_TIMEOUT,
            "Timeout": _timeout("timed_out"),
            "JSONDecodeError ContentDecodingError": _BAD_RESPONSE,
            "TooManyRedirects": _REDIRECTS,
            "InvalidURL MissingSchema InvalidSchema URLRequired": _BAD_URL,
            "InvalidHeader InvalidJSONError": _bad_args("bad_request"),
            "StreamConsumedError UnrewindableBodyError": _BUG,
        },
    )
    | _named(
        "urllib3.exceptions",
        {
            "ConnectTimeoutError": _CONNECT_TIMEOUT,
            "ReadTimeoutError": _READ_TIMEOUT,
            "EmptyPoolError": _timeout("pool_timeout", _NO),
            "FullPoolError ClosedPoolError TimeoutStateError UnrewindableBodyError": _BUG,
            "DecodeError": _BAD_RESPONSE,
            "IncompleteRead InvalidChunkLength": _CUT,
            "LocationValueError URLSchemeUnknown ProxySchemeUnsupported HostChangedError": _BAD_URL,
            "InvalidHeader": _bad_args("bad_request"),
            "ResponseError": _network("server_error"),
        },
    )
    | _named(
        "aiohttp.client_exceptions",
        {
            "ConnectionTimeoutError": _CONNECT_TIMEOUT,
            "SocketTimeoutError ServerTimeoutError": _READ_TIMEOUT,
            "ServerDisconnectedError": _CLOSED,
            "ServerFingerprintMismatch ClientConnectorCertificateError": _CERTIFICATE,
            "ContentTypeError": _BAD_RESPONSE,
            "TooManyRedirects": _REDIRECTS,
            "InvalidURL NonHttpUrlClientError": _BAD_URL,
            "ClientResponseError": _PROTOCOL,  # with an error status, the status speaks
        },
    )
    | _named("aiohttp.http_exceptions", {"PayloadEncodingError": _CUT, "HttpProcessingError": _PROTOCOL})
    | _named(
        "anyio",
        {
            "EndOfStream": _CLOSED,
            "IncompleteRead": _CUT,
            "DelimiterNotFound": _PROTOCOL,
            "ClosedResourceError": _BUG,
            "WouldBlock BusyResourceError": _BUSY,
            "BrokenWorkerProcess BrokenWorkerInterpreter": _KILLED,
        },
    )
    | _named(
        "trio",
        {
            "TooSlowError": _timeout("timed_out"),
            "EndOfChannel": _CLOSED,
            "ClosedResourceError": _BUG,
            "WouldBlock BusyResourceError": _BUSY,
            "Cancelled": _CANCELLED,
        },
    )
    | {
        "pydantic_core._pydantic_core.ValidationError": _INVALID,
        "pydantic.v1.error_wrappers.ValidationError": _INVALID,
        "jsonschema.exceptions.ValidationError": _INVALID,
        "yaml.error.YAMLError": _BAD_DATA,
    }
)

TYPES: Mapping[str, Rule] = _BUILTINS | _STANDARD | _LIBRARIES
"""By `module.Qualname` of the class."""

_CORE = {"ConnectError": _CONNECT, "ProxyError": _PROXY, "ReadError WriteError NetworkError": _FAILED}
_SDK = {"APITimeoutError": _timeout("timed_out"), "APIConnectionError": _FAILED}

CARRIERS: Mapping[str, Rule] = (
    _named("httpx", _CORE | {"CloseError HTTPError": _FAILED})
    | _named("httpcore", _CORE)
    | _named("httpx2", _CORE | {"CloseError HTTPError": _FAILED})
    | _named("httpcore2", _CORE)
    | _named("openai", _SDK)
    | _named("anthropic", _SDK)
    | _named("pydantic_ai.exceptions", {"ModelTimeoutError": _timeout("timed_out"), "ModelAPIError": _FAILED})
    | _named(
        "requests.exceptions",
        {
            "ProxyError": _PROXY,
            "SSLError": _TLS,
            "ChunkedEncodingError": _CUT,
            "RetryError": _network("server_error"),
            "ConnectionError RequestException": _FAILED,
        },
    )
    | _named(
        "urllib3.exceptions",
        {
            "NewConnectionError": _CONNECT,
            "NameResolutionError": _UNKNOWN_HOST,
            "ProxyError": _PROXY,
            "SSLError": _TLS,
            "ProtocolError": _PROTOCOL,
            "TimeoutError": _timeout("timed_out"),
            "HTTPError": _FAILED,
        },
    )
    | _named(
        "aiohttp.client_exceptions",
        {
            "ClientConnectorError": _CONNECT,
            "ClientConnectorDNSError": _DNS,
            "ClientProxyConnectionError": _PROXY,
            "ClientSSLError": _network("tls", _NO, retryable=False),
            "ClientConnectionResetError": _RESET,
            "ClientPayloadError": _CUT,
            "ClientError": _FAILED,
        },
    )
    | {
        "urllib.error.URLError": _FAILED,
        "anyio.ConnectionFailed": _CONNECT,
        "anyio.BrokenResourceError": _RESET,
        "trio.BrokenResourceError": _RESET,
        "builtins.OSError": _business("os_error", _MAYBE),
        "builtins.BaseException": _BUG,
    }
)
"""Types that are raised around the real cause: what they mean where the cause tells nothing."""

OPEN = frozenset(
    {
        "requests.exceptions.SSLError",
        "requests.exceptions.RetryError",
        "requests.exceptions.ConnectionError",
        "requests.exceptions.RequestException",
        "urllib3.exceptions.SSLError",
        "urllib3.exceptions.TimeoutError",
        "urllib3.exceptions.HTTPError",
        "aiohttp.client_exceptions.ClientError",
        "httpx.HTTPError",
        "httpx2.HTTPError",
        "openai.APIConnectionError",
        "openai.APITimeoutError",
        "anthropic.APIConnectionError",
        "anthropic.APITimeoutError",
        "pydantic_ai.exceptions.ModelAPIError",
        "pydantic_ai.exceptions.ModelTimeoutError",
        "urllib.error.URLError",
        "builtins.OSError",
        "builtins.BaseException",
    }
)
"""Carriers that do not know the moment: there the cause decides whether the effect may stand."""
