"""What the operations of an OpenAPI document take, where it goes, and what comes back: records, not yet tools.

path item, operation --references followed, path-level parts joined--> Operation
                           └──> Unimportable: a code and a sentence, for this operation alone
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

from ...policies.errors import BadInput
from ...policies.text import did_you_mean, shorten
from ..values import Json
from .links import Document, Links, Unimportable, said, texts
from .schemas import Schemas

__all__ = ["Body", "Credential", "Named", "Operation", "Parameter", "Reader", "Servers", "named_operations"]

_METHODS = ("get", "head", "put", "post", "patch", "delete", "options", "trace")
_NOT_CALLED = ("options", "trace")
_IGNORED = frozenset({"accept", "content-type", "authorization"})
"""Header parameters that OpenAPI says to ignore: other parts of the operation speak for them."""
_NOT_SENT = frozenset(
    {
        *("connection", "content-length", "cookie", "expect", "host", "keep-alive", "proxy-authorization"),
        *("proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"),
    }
)
"""Headers by which the end of a request, or its receiver, could be told otherwise."""
_PLACES = ("path", "query", "header", "cookie")
_STYLES = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}
"""By place, the usual style first."""
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HELD = re.compile(r"\{([^{}]*)\}")


class Parameter(NamedTuple):
    """One parameter: the name of its argument, where it goes, how it is written there."""

    argument: str
    name: str
    place: str
    style: str
    explode: bool
    reserved: bool
    """Whether reserved characters of URLs go out as they are."""
    json: bool
    """Whether it is sent as one JSON text."""
    required: bool
    schema: Json
    description: str = ""


class Body(NamedTuple):
    """What is sent in the body: of which media type, and how its fields are written where it has fields."""

    argument: str
    media: str
    form: str
    """json, urlencoded, multipart, text or bytes"""
    required: bool
    schema: Json
    encodings: Mapping[str, Mapping[str, Any]] = {}
    binary: tuple[str, ...] = ()
    """Fields that hold bytes: base64 in the argument, as they are on the way."""
    description: str = ""


class Credential(NamedTuple):
    """Where a secret goes: `apiKey` in header, query or cookie under a name; `basic` and `bearer` in Authorization."""

    scheme: str
    kind: str
    place: str = "header"
    name: str = "Authorization"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation, read."""

    key: str
    """Its operationId, or `GET /path` where it has none, or none of its own."""
    method: str
    path: str
    server: str
    parameters: tuple[Parameter, ...] = ()
    body: Body | None = None
    credentials: tuple[Credential, ...] = ()
    accepts: tuple[str, ...] = ()
    definitions: Mapping[str, Json] = dataclasses.field(default_factory=dict)
    result: Json | None = None
    """The schema of what comes back, with its definitions; None where nothing is said, or it cannot be used."""
    description: str = ""
    title: str = ""
    tags: tuple[str, ...] = ()
    deprecated: bool = False
    effect: str = ""
    """What the document says in `x-foreplan-effect`."""
    noticed: tuple[tuple[str, str], ...] = ()
    """Codes and sentences about what was left out."""


class Named(NamedTuple):
    """An operation as the document lists it."""

    key: str
    route: str
    method: str
    path: str
    item: Document
    operation: Document


def named_operations(links: Links) -> tuple[list[Named], list[tuple[str, Unimportable]]]:
    """Every operation with the name it is spoken of by, and what is none."""
    found: list[tuple[str, str, Document, Document]] = []
    wrong: list[tuple[str, Unimportable]] = []
    for path, item, problem in _paths(links):
        if problem is not None:
            wrong.append((path, problem))
            continue
        for method in _METHODS:
            if method not in item:
                continue
            if isinstance(item[method], Mapping):
                found.append((method.upper(), path, item, item[method]))
            else:
                message = "it is no object"
                wrong.append((f"{method.upper()} {path}", Unimportable("invalid_document", message)))
    ids = [said(operation, "operationId") for _, _, _, operation in found]
    counted = Counter(ids)
    named = []
    for (method, path, item, operation), own in zip(found, ids, strict=True):
        route = f"{method} {path}"
        named.append(Named(own if own and counted[own] == 1 else route, route, method, path, item, operation))
    return named, wrong


def _paths(links: Links) -> Iterator[tuple[str, Document, Unimportable | None]]:
    paths = links.root.get("paths", {})
    if not isinstance(paths, Mapping):
        raise BadInput("`paths` of an OpenAPI document is an object")
    for path, item in paths.items():
        if str(path).startswith("x-"):
            continue
        try:
            if not str(path).startswith("/"):
                raise Unimportable("invalid_document", "a path begins with /")
            whole = links.followed(item, "the path")
            beside = {k: v for k, v in item.items() if k != "$ref"}
            yield str(path), {**whole, **beside}, None
        except Unimportable as problem:
            yield str(path), {}, problem


# --- Servers.


class Servers:
    """Where operations are called: what the operator says, else what the document does."""

    def __init__(
        self,
        links: Links,
        base_url: str | None,
        variables: Mapping[str, str],
        others: tuple[str, ...],
        home: str,
    ) -> None:
        self._variables = dict(variables)
        self._used: set[str] = set()
        self._home = home
        self._others = [_checked_url(url, "servers") for url in others]
        self._listed = links.root.get("servers")
        self.base = _checked_url(base_url, "base_url") if base_url is not None else None

    def of(self, item: Document, operation: Document) -> str:
        """The URL before the path of an operation. Raises `Unimportable` for a host nobody has agreed to."""
        own = operation.get("servers") or item.get("servers")
        main = self.base or self._first(self._listed or ([{"url": "/"}] if self._home else []))
        if not own:
            if main is None:
                message = "the document names no server for it; say base_url='https://…'"
                raise Unimportable("no_server", message)
            return main
        url = self._first(own)
        if url is None:
            raise Unimportable(
                "no_server", "its `servers` names none that can be called; say base_url='https://…'"
            )
        agreed = [origin_of(each) for each in (*self._others, *([main] if main else []))]
        if origin_of(url) not in agreed:
            message = f"it is called at {shorten(url, 80)}, which is not the server of the others"
            raise Unimportable(
                "other_server", f"{message}; if that is meant, say servers=[{shorten(url, 80)!r}]"
            )
        return url

    def _first(self, listed: object) -> str | None:
        """The first server of a list that can be called."""
        for each in listed if isinstance(listed, list) else ():
            if isinstance(each, Mapping) and (url := self._filled(each)) is not None:
                return url
        return None

    def _filled(self, server: Document) -> str | None:
        known = server.get("variables")
        variables: Document = known if isinstance(known, Mapping) else {}

        def value(match: re.Match[str]) -> str:
            name = match[1]
            declared = variables.get(name)
            told = declared if isinstance(declared, Mapping) else {}
            self._used.add(name)
            chosen = self._variables.get(name, told.get("default"))
            allowed = texts(told.get("enum"))
            if name in self._variables and allowed and chosen not in allowed:
                near = did_you_mean(str(chosen), allowed) or f"; there are {', '.join(allowed)}"
                raise BadInput(f"the server variable {name!r} cannot be {shorten(repr(chosen), 40)}{near}")
            if not isinstance(chosen, str):
                raise Unimportable(
                    "no_server", f"its server needs the variable {name!r}; say server_variables="
                )
            return chosen

        filled = _HELD.sub(value, said(server, "url"))
        url = urljoin(self._home, filled) if self._home else filled
        return url.rstrip("/") if _is_url(url) else None

    def check(self) -> None:
        """Raises `BadInput` for a variable that no server has."""
        for name in self._variables:
            if name not in self._used:
                raise BadInput(f"no server has the variable {name!r}{did_you_mean(name, self._used)}")


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _checked_url(url: object, what: str) -> str:
    if not isinstance(url, str) or not _is_url(url) or urlsplit(url).query or urlsplit(url).fragment:
        raise BadInput(
            f"{what} must be a URL like 'https://api.example.com/v1', not {shorten(repr(url), 80)}"
        )
    if "@" in urlsplit(url).netloc:
        raise BadInput(f"{what} must hold no user name or password; hand them over by secret_refs")
    return url.rstrip("/")


def origin_of(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port of a URL."""
    parts = urlsplit(url)
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or usual


# --- One operation.


class Reader:
    """Reads the operations of one document."""

    def __init__(self, links: Links, servers: Servers, refs: Mapping[str, str]) -> None:
        self._links = links
        self._servers = servers
        self._refs = refs
        self._sent = Schemas(links, sending=True)
        self._given = Schemas(links, sending=False)
        self.unmet: dict[str, int] = {}
        """Security schemes that nobody gave a secret for, and of how many operations."""

    def read(self, named: Named) -> Operation:
        """The operation. Raises `Unimportable`."""
        if named.method.lower() in _NOT_CALLED:
            raise Unimportable(
                "unsupported_method", f"{named.method} asks about the server; it is not called"
            )
        operation, noticed, definitions = named.operation, list[tuple[str, str]](), dict[str, Json]()
        parameters = self._parameters(named, noticed, definitions)
        taken = {parameter.argument for parameter in parameters}
        body = self._body(operation, taken, definitions, noticed)
        accepts, result = self._result(named, noticed)
        words = [said(operation, "summary"), said(operation, "description")]
        return Operation(
            key=named.key,
            method=named.method,
            path=named.path,
            server=self._servers.of(named.item, operation),
            parameters=tuple(parameters),
            body=body,
            credentials=self._credentials(operation, noticed),
            accepts=accepts,
            definitions=definitions,
            result=result,
            description="\n\n".join(dict.fromkeys(filter(None, words))),
            title=said(operation, "summary"),
            tags=tuple(texts(operation.get("tags"))),
            deprecated=operation.get("deprecated") is True,
            effect=said(operation, "x-foreplan-effect"),
            noticed=tuple(noticed),
        )

    # Parameters.

    def _parameters(
        self, named: Named, noticed: list[tuple[str, str]], definitions: dict[str, Json]
    ) -> list[Parameter]:
        found: dict[tuple[str, str], Document] = {}
        for holder in (named.item, named.operation):
            for part in _listed(holder.get("parameters")):
                parameter = self._links.followed(part, "a parameter")
                found[said(parameter, "in"), said(parameter, "name")] = parameter
        read: list[Parameter] = []
        for (place, name), parameter in found.items():
            if place not in _PLACES or not name:
                message = f"a parameter {shorten(name, 60)!r} in {shorten(place, 20)!r}: there are {', '.join(_PLACES)}"
                raise Unimportable("invalid_document", message)
            if place == "header" and name.lower() in _IGNORED:
                continue
            if place == "header" and (name.lower() in _NOT_SENT or not _TOKEN.fullmatch(name)):
                _leave_out(name, "a header that is not a caller's to set", parameter, noticed)
                continue
            argument = _argument(name, place, {each.argument for each in read})
            read.append(self._parameter(parameter, argument, name, place, definitions))
        self._check_path(named.path, read)
        return read

    def _parameter(
        self, parameter: Document, argument: str, name: str, place: str, definitions: dict[str, Json]
    ) -> Parameter:
        what = f"the parameter {shorten(name, 60)!r}"
        schema, as_json = parameter.get("schema"), False
        if schema is None:
            schema, as_json = self._of_content(parameter, what), True
        style = said(parameter, "style") or _STYLES[place][0]
        if style not in _STYLES[place]:
            known = ", ".join(_STYLES[place])
            raise Unimportable(
                "unsupported_style",
                f"{what} in {place} has the style {shorten(style, 30)!r}; read are {known}",
            )
        explode = parameter.get("explode")
        translated, more = self._sent.alone(schema, what)
        definitions.update(more)
        return Parameter(
            argument,
            name,
            place,
            style,
            explode if isinstance(explode, bool) else style in ("form", "deepObject"),
            parameter.get("allowReserved") is True and place == "query",
            as_json,
            parameter.get("required") is True or place == "path",
            translated,
            said(parameter, "description"),
        )

    def _of_content(self, parameter: Document, what: str) -> object:
        content = parameter.get("content")
        [(media, described)] = (
            content.items() if isinstance(content, Mapping) and len(content) == 1 else [("", {})]
        )
        if not is_json(media):
            raise Unimportable("invalid_document", f"{what} has neither a schema nor content of JSON")
        return described.get("schema", {}) if isinstance(described, Mapping) else {}

    @staticmethod
    def _check_path(path: str, parameters: list[Parameter]) -> None:
        held = _HELD.findall(path)
        described = [each.name for each in parameters if each.place == "path"]
        if len(set(held)) != len(held):
            raise Unimportable("invalid_document", "its path holds the same parameter twice")
        for name in held:
            if name not in described:
                raise Unimportable(
                    "invalid_document",
                    f"its path holds {{{shorten(name, 40)}}}, which no parameter describes",
                )
        for name in described:
            if name not in held:
                raise Unimportable(
                    "invalid_document",
                    f"it has a parameter {shorten(name, 40)!r} for a place that its path lacks",
                )

    # The body.

    def _body(
        self,
        operation: Document,
        taken: set[str],
        definitions: dict[str, Json],
        noticed: list[tuple[str, str]],
    ) -> Body | None:
        if operation.get("requestBody") is None:
            return None
        body = self._links.followed(operation["requestBody"], "the body")
        content = body.get("content")
        contents: Document = content if isinstance(content, Mapping) else {}
        media, form = _sendable(list(map(str, contents)))
        if not form:
            message = f"its body ({_medias(contents)}) is in no form that is sent"
            if body.get("required") is True:
                raise Unimportable("unsupported_body", message)
            noticed.append(("parameter_left_out", message))
            return None
        described = contents[media] if isinstance(contents[media], Mapping) else {}
        translated, more = self._sent.alone(described.get("schema", {}), "the body")
        definitions.update(more)
        translated, binary = _with_bytes(translated, form, definitions)
        return Body(
            _argument("body", "body", taken),
            "application/json" if form == "json" and "*" in media else media,
            form,
            body.get("required") is True,
            translated,
            _mappings(described.get("encoding")),
            binary,
            said(body, "description"),
        )

    # What comes back.

    def _result(self, named: Named, noticed: list[tuple[str, str]]) -> tuple[tuple[str, ...], Json | None]:
        """The media types of good answers, and the schema of what they become."""
        accepts: dict[str, None] = {}
        schemas: list[Json] = []
        definitions: dict[str, Json] = {}
        try:
            for status, answer in self._good(named.operation):
                content = answer.get("content")
                medias = content if isinstance(content, Mapping) else {}
                accepts.update(
                    (media, None) for media in medias if isinstance(media, str) and _TOKEN.match(media)
                )
                empty = named.method == "HEAD" or status in ("204", "205")
                for schema in [{"type": "null"}] if empty else self._results(medias, definitions):
                    if schema not in schemas:
                        schemas.append(schema)
        except Unimportable as problem:
            noticed.append(("no_output_schema", f"what it gives is not described: {problem}"))
            return tuple(accepts), None
        if not schemas or any(schema is True or schema == {} for schema in schemas):
            return tuple(accepts), None
        one = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
        return tuple(accepts), {**one, "$defs": definitions} if definitions else one

    def _good(self, operation: Document) -> list[tuple[str, Document]]:
        answers = operation.get("responses")
        if not isinstance(answers, Mapping):
            return []
        good = [
            each for each in map(str, answers) if each.upper() == "2XX" or re.fullmatch("2[0-9]{2}", each)
        ]
        listed = {str(status): answer for status, answer in answers.items()}
        return [
            (status, self._links.followed(listed[status], f"the answer {status}"))
            for status in good or ["default"]
            if status in listed
        ]

    def _results(self, medias: Document, definitions: dict[str, Json]) -> Iterator[Json]:
        """What answers of these media types become; where none is said, services answer with something all the same."""
        if not medias:
            yield True
        for media, described in medias.items():
            if not is_json(str(media)):
                yield {"type": "string"} if is_text(str(media)) else True
                continue
            schema = described.get("schema") if isinstance(described, Mapping) else None
            if schema is None:
                yield True
                continue
            translated, more = self._given.alone(schema, "the answer")
            definitions.update(more)
            yield translated

    # Credentials.

    def _credentials(self, operation: Document, noticed: list[tuple[str, str]]) -> tuple[Credential, ...]:
        """Of the ways to be let in, the first for which there are secrets for all that it asks for."""
        ways = operation.get("security", self._links.root.get("security"))
        lacking: list[str] = []
        for way in _listed(ways):
            if not isinstance(way, Mapping):
                continue
            missing = [name for name in way if name not in self._refs]
            if way and not missing:
                return tuple(self._credential(name) for name in way)
            lacking += missing
        if lacking and not any(way == {} for way in _listed(ways)):
            for name in dict.fromkeys(lacking):
                self.unmet[name] = self.unmet.get(name, 0) + 1
        return ()

    def _credential(self, name: str) -> Credential:
        schemes = self._links.components("securitySchemes")
        scheme = self._links.followed(schemes.get(name), f"the security scheme {shorten(name, 60)!r}")
        place, header = said(scheme, "in"), said(scheme, "name")
        match said(scheme, "type"), said(scheme, "scheme").lower():
            case "apiKey", _ if place in ("header", "query", "cookie") and header:
                if place == "header" and (
                    header.lower() in _NOT_SENT - {"cookie"} or not _TOKEN.fullmatch(header)
                ):
                    raise Unimportable(
                        "unsupported_security", f"the header {shorten(header, 40)!r} cannot hold a key"
                    )
                return Credential(name, "apiKey", place, header)
            case "http", ("basic" | "bearer") as kind:
                return Credential(name, kind)
            case (("oauth2" | "openIdConnect"), _):
                return Credential(name, "bearer")
        other = f"{said(scheme, 'type')} {said(scheme, 'scheme')}".strip()
        raise Unimportable(
            "unsupported_security",
            f"the security scheme {shorten(name, 60)!r} is of the kind {shorten(other, 40)!r}, which is not spoken here",
        )


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _leave_out(name: str, why: str, parameter: Document, noticed: list[tuple[str, str]]) -> None:
    message = f"the parameter {shorten(name, 60)!r} is {why}"
    if parameter.get("required") is True:
        raise Unimportable("unsupported_parameter", message)
    noticed.append(("parameter_left_out", message))


def _argument(name: str, place: str, taken: set[str]) -> str:
    """The name of an argument: that of the parameter, as far as models can write it, and another one for each."""
    plain = re.sub(r"[^A-Za-z0-9_.-]", "_", name).strip("_")[:64] or place
    if plain not in taken:
        return plain
    endings = (place, *range(2, len(taken) + 3))
    return next(name for ending in endings if (name := f"{plain[:57]}_{ending}") not in taken)


# --- Media types.


_FORMS = ("json", "urlencoded", "multipart", "text", "bytes")


def _bare(media: str) -> str:
    return media.partition(";")[0].strip().lower()


def is_json(media: str) -> bool:
    """Whether a media type is JSON, by itself or by its suffix."""
    bare = _bare(media)
    return bare in ("application/json", "text/json") or bare.endswith("+json")


def is_text(media: str) -> bool:
    """Whether a media type is text to read."""
    bare = _bare(media)
    known = (
        "application/xml",
        "application/x-ndjson",
        "application/jsonl",
        "application/yaml",
        "application/x-yaml",
    )
    return bare.startswith("text/") or bare.endswith(("+xml", "+yaml")) or bare in known


def _rank(media: str) -> int | None:
    """Which form a body of this media type has; None for one that is not sent."""
    bare = _bare(media)
    if is_json(bare) or bare in ("*/*", "application/*"):
        return 0
    if bare == "application/x-www-form-urlencoded":
        return 1
    if bare == "multipart/form-data":
        return 2
    if bare.startswith("text/"):
        return 3 if "*" not in bare else None
    if bare == "application/octet-stream" or bare.partition("/")[0] in ("image", "audio", "video"):
        return 4 if "*" not in bare else None
    return None


def _sendable(medias: list[str]) -> tuple[str, str]:
    """Of several media types the one that is sent, and its form; empty where there is none."""
    ranked = sorted((rank, n) for n, media in enumerate(medias) if (rank := _rank(media)) is not None)
    return (medias[ranked[0][1]], _FORMS[ranked[0][0]]) if ranked else ("", "")


def _medias(medias: Iterable[object]) -> str:
    return shorten(", ".join(map(str, medias)), 80) or "without a media type"


def _mappings(value: object) -> dict[str, Document]:
    named = value if isinstance(value, Mapping) else {}
    return {str(name): part for name, part in named.items() if isinstance(part, Mapping)}


def _with_bytes(schema: Json, form: str, definitions: dict[str, Json]) -> tuple[Json, tuple[str, ...]]:
    """The schema of a body in which bytes are written in base64, and the fields that hold such."""
    if form == "bytes":
        return {"type": "string", "contentEncoding": "base64", "description": "bytes, in base64"}, ()
    if form == "text":
        return {"type": "string"}, ()
    if form != "multipart":
        return schema, ()
    whole = schema
    if isinstance(whole, Mapping) and "$ref" in whole:
        whole = definitions[str(whole["$ref"]).removeprefix("#/$defs/")]
    properties = whole.get("properties") if isinstance(whole, Mapping) else None
    if not isinstance(properties, Mapping):
        return schema, ()
    found = [name for name, part in properties.items() if _is_bytes(part) or _is_bytes(_items(part))]
    if not found:
        return schema, ()
    told = {name: _told(properties[name]) for name in found}
    return {**whole, "properties": {**properties, **told}}, tuple(found)


def _items(part: Json) -> Json:
    return part.get("items") if isinstance(part, Mapping) else None


def _is_bytes(part: Json) -> bool:
    if not isinstance(part, Mapping) or part.get("type") != "string":
        return False
    return part.get("format") == "binary" or ("contentMediaType" in part and "contentEncoding" not in part)


def _told(part: Json) -> Json:
    if isinstance(part.get("items"), Mapping):
        return {**part, "items": _told(part["items"])}
    words = part.get("description", "")
    kept = {k: v for k, v in part.items() if k not in ("format", "contentMediaType")}
    return {**kept, "contentEncoding": "base64", "description": f"{words} (bytes, in base64)".strip()}
