"""Arguments of a call as an HTTP request, and nothing in an argument can become another part of it.

    path     simple, label, matrix                                      percent-encoded, no step up or down
    query    form, spaceDelimited, pipeDelimited, deepObject, JSON      percent-encoded, delimiters in values too
    header   simple, JSON                                               one line of printable characters
    cookie   form                                                       percent-encoded
    body     JSON, urlencoded, multipart, text, bytes                   the boundary is none that the content holds

Sources: OpenAPI 3.1.1, section 4.8.12 and its appendices; RFC 3986; RFC 6570; RFC 7578 with the escapes of WHATWG's HTML.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from ...policies.failures import Kind, ToolFailure
from ...policies.text import shorten
from ..values import Json
from .media import is_json
from .operations import Body, Credential, Operation, Parameter

__all__ = ["Sent", "request_of"]

_RESERVED = ":/?#[]@!$&'()*+,;="
_UNFIT_FOR_HEADER = re.compile(r"[^\t\x20-\x7e\x80-\xff]")
_DECODED = 3
"""So often a path may be decoded on its way, by proxies and servers: once here, and once more by each that does it again."""
_DELIMITERS = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}


class Sent(NamedTuple):
    """A request, ready to go."""

    method: str
    url: str
    headers: list[tuple[str, str]]
    content: bytes


def request_of(
    operation: Operation, args: Mapping[str, Json], secrets: Mapping[str, str], headers: Mapping[str, str]
) -> Sent:
    """The request of a call; `secrets` by security scheme. Raises `ToolFailure` (`bad_args`) for what cannot be sent."""
    try:
        return _request_of(operation, args, secrets, headers)
    except UnicodeEncodeError:
        raise _bad("an argument holds half a surrogate pair, which cannot be sent as UTF-8") from None


def _request_of(
    operation: Operation, args: Mapping[str, Json], secrets: Mapping[str, str], headers: Mapping[str, str]
) -> Sent:
    given = [(each, args[each.argument]) for each in operation.parameters if each.argument in args]
    path, query = _filled(operation.path, given)
    pairs = [query] if query else []
    lines = dict(headers)
    cookies: list[str] = []
    for parameter, value in given:
        if parameter.place == "query":
            pairs += _query(parameter, value)
        elif parameter.place == "header":
            lines[parameter.name] = _header(parameter, value)
        elif parameter.place == "cookie":
            cookies += _query(parameter, value)
    for credential in operation.credentials:
        _let_in(credential, secrets[credential.scheme], lines, pairs, cookies)
    if cookies:
        lines["Cookie"] = "; ".join(cookies)
    if operation.accepts:
        lines.setdefault("Accept", ", ".join(sorted(operation.accepts, key=lambda media: not is_json(media))))
    content = b""
    if operation.body is not None and operation.body.argument in args:
        media, content = _content(operation.body, args[operation.body.argument])
        lines["Content-Type"] = media
    url = operation.server + path + ("?" + "&".join(pairs) if pairs else "")
    return Sent(operation.method, url, list(lines.items()), content)


def _bad(message: str) -> ToolFailure:
    return ToolFailure(message, kind=Kind.BAD_ARGS, code="bad_request")


# --- Credentials.


def _let_in(
    credential: Credential, secret: str, lines: dict[str, str], pairs: list[str], cookies: list[str]
) -> None:
    match credential.kind, credential.place:
        case "bearer", _:
            lines["Authorization"] = f"Bearer {_line(secret, 'the secret')}"
        case "basic", _:
            lines["Authorization"] = f"Basic {base64.b64encode(secret.encode()).decode()}"
        case _, "query":
            pairs.append(f"{quote(credential.name, safe='')}={quote(secret, safe='')}")
        case _, "cookie":
            cookies.append(f"{quote(credential.name, safe='')}={quote(secret, safe='')}")
        case _:
            lines[credential.name] = _line(secret, "the secret")


# --- Parameters.


def _filled(path: str, given: list[tuple[Parameter, Json]]) -> tuple[str, str]:
    """The path with its parameters in it, and the query that stands in the document's path itself."""
    written, _, query = path.partition("#")[0].partition("?")
    for parameter, value in given:
        if parameter.place == "path":
            written = written.replace(f"{{{parameter.name}}}", _segment(parameter, value))
    return quote(written, safe="/%" + _RESERVED), quote(query, safe="%" + _RESERVED)


def _segment(parameter: Parameter, value: Json) -> str:
    parts = _parts(parameter, value)
    match parameter.style:
        case "label":
            written = "." + (".".join(parts) if parameter.explode else ",".join(parts))
        case "matrix":
            name = quote(parameter.name, safe="")
            if isinstance(value, dict) and parameter.explode:
                written = "".join(f";{part}" for part in parts)
            elif parameter.explode:
                written = "".join(f";{name}={part}" for part in parts)
            else:
                written = f";{name}={','.join(parts)}"
        case _:
            written = ",".join(parts)
    if written.replace(".", "") == "" or _steps_aside(written):
        said = f"the path parameter {parameter.argument!r} is {shorten(repr(value), 40)}"
        raise _bad(f"{said}, which would lead to another path")
    return written


def _steps_aside(written: str) -> bool:
    """Whether there is a step up in it, or none at all, for a server that decodes a path before it looks where it leads."""
    for _ in range(_DECODED):
        written = unquote(written)
    return any(part.partition(";")[0] in (".", "..") for part in re.split(r"[/\\]", written))


def _parts(parameter: Parameter, value: Json) -> list[str]:
    """The texts of a value, each percent-encoded: one of a scalar, those of a list, names and values of an object."""
    if parameter.json:
        return [_quoted(json.dumps(value, ensure_ascii=False), parameter)]
    if isinstance(value, list):
        return [_quoted(_text(item, parameter), parameter) for item in value]
    if isinstance(value, dict):
        named = [(_quoted(k, parameter), _quoted(_text(v, parameter), parameter)) for k, v in value.items()]
        return (
            [f"{k}={v}" for k, v in named] if parameter.explode else [part for pair in named for part in pair]
        )
    return [_quoted(_text(value, parameter), parameter)]


def _quoted(text: str, parameter: Parameter) -> str:
    if parameter.place == "header":
        return text
    return quote(text, safe=_RESERVED if parameter.reserved else "")


def _text(value: Json, parameter: Parameter) -> str:
    if isinstance(value, dict | list):
        raise _bad(f"the parameter {parameter.argument!r} cannot hold a list or an object in another one")
    return scalar(value)


def scalar(value: Json) -> str:
    """A value as text: `true`, `12`, `0.5`; null is an empty one."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value)


def _query(parameter: Parameter, value: Json) -> list[str]:
    """`name=value` pairs."""
    name = quote(parameter.name, safe="")
    if parameter.style == "deepObject" and isinstance(value, dict | list) and not parameter.json:
        return [f"{key}={_quoted(scalar(leaf), parameter)}" for key, leaf in _deep(name, value)]
    parts = _parts(parameter, value)
    if parameter.json or not isinstance(value, dict | list):
        return [f"{name}={parts[0]}"]
    if parameter.explode:
        return parts if isinstance(value, dict) else [f"{name}={part}" for part in parts]
    return [f"{name}={_DELIMITERS.get(parameter.style, ',').join(parts)}"] if parts else []


def _deep(name: str, value: Json) -> Iterator[tuple[str, Json]]:
    """`name[key][0]` and the like, with what stands there."""
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _deep(f"{name}%5B{quote(str(key), safe='')}%5D", part)
    else:
        yield name, value


def _header(parameter: Parameter, value: Json) -> str:
    return _line(",".join(_parts(parameter, value)), f"the header {parameter.name!r}")


def _line(text: str, what: str) -> str:
    if _UNFIT_FOR_HEADER.search(text) or text != text.strip():
        raise _bad(f"{what} holds what no header can: it is one line of printable characters")
    return text


# --- Bodies.


def _content(body: Body, value: Json) -> tuple[str, bytes]:
    """The media type and the bytes of a body."""
    match body.form:
        case "json":
            return body.media, json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        case "text":
            return _with_charset(body.media), str(value).encode()
        case "bytes":
            return body.media, _bytes(value, body.argument)
        case "urlencoded":
            return body.media, "&".join(_fields(body, value)).encode()
    parts = [part for name, each in _object(body, value).items() for part in _pieces(body, name, each)]
    boundary = hashlib.sha256(b"\0".join(parts)).hexdigest()
    lines = b"".join(b"--%s\r\n%s\r\n" % (boundary.encode(), part) for part in parts)
    return f"multipart/form-data; boundary={boundary}", lines + b"--%s--\r\n" % boundary.encode()


def _with_charset(media: str) -> str:
    return media if "charset" in media else f"{media}; charset=utf-8"


def _object(body: Body, value: Json) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise _bad(f"the {body.argument} must be an object: it is sent as a form")
    return value


def _fields(body: Body, value: Json) -> Iterator[str]:
    for name, each in _object(body, value).items():
        encoding = body.encodings.get(name, {})
        style = str(encoding.get("style") or ("" if isinstance(each, dict) else "form"))
        nested = isinstance(each, dict | list) and any(isinstance(v, dict | list) for v in _values(each))
        as_json = (not style) or (nested and style != "deepObject")
        explode = encoding.get("explode", style in ("form", "deepObject"))
        field = Parameter(name, name, "query", style or "form", explode is True, False, as_json, False, True)
        if as_json and isinstance(each, list) and explode is True:
            for item in each:
                yield from _query(field._replace(json=isinstance(item, dict | list)), item)
        else:
            yield from _query(field, each)


def _values(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value


def _pieces(body: Body, name: str, value: Json) -> Iterator[bytes]:
    """The parts of a multipart body for one field: of a list one for each item."""
    binary = name in body.binary
    for item in value if isinstance(value, list) else [value]:
        head = f'Content-Disposition: form-data; name="{_escaped(name)}"'
        if binary:
            media = _line(
                str(body.encodings.get(name, {}).get("contentType") or "application/octet-stream"), name
            )
            head += f'; filename="{_escaped(name)}"\r\nContent-Type: {media.partition(",")[0]}'
            content = _bytes(item, name)
        elif isinstance(item, dict | list):
            head += "\r\nContent-Type: application/json"
            content = json.dumps(item, ensure_ascii=False, allow_nan=False).encode()
        else:
            content = scalar(item).encode()
        yield head.encode() + b"\r\n\r\n" + content


def _escaped(name: str) -> str:
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")


def _bytes(value: Json, name: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise _bad(f"{name!r} must be bytes in base64") from None
