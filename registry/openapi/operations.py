"""What the operations of an OpenAPI document take, where it goes, and what comes back: records, not yet tools.

    path item, operation --references followed, path-level parts joined--> Operation
                               └──> Unimportable: a code and a sentence

One operation that cannot be read takes none of the others with it.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ...policies.errors import BadInput
from ...policies.text import shorten
from ..values import Json
from .links import Document, Links, Unimportable, said, texts
from .media import is_json, is_text, mappings, sendable, told, with_bytes
from .schemas import Schemas
from .servers import Servers

__all__ = ["Body", "Credential", "Named", "Operation", "Parameter", "Reader", "named_operations"]

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
        server, credentials = self._servers.of(named.item, operation), self._credentials(operation)
        if credentials:
            self._servers.keep_secret(server)
        words = [said(operation, "summary"), said(operation, "description")]
        return Operation(
            key=named.key,
            method=named.method,
            path=named.path,
            server=server,
            parameters=tuple(parameters),
            body=body,
            credentials=credentials,
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
        media, form = sendable(list(map(str, contents)))
        if not form:
            message = f"its body ({told(contents)}) is in no form that is sent"
            if body.get("required") is True:
                raise Unimportable("unsupported_body", message)
            noticed.append(("parameter_left_out", message))
            return None
        described = contents[media] if isinstance(contents[media], Mapping) else {}
        translated, more = self._sent.alone(described.get("schema", {}), "the body")
        definitions.update(more)
        translated, binary = with_bytes(translated, form, definitions)
        return Body(
            _argument("body", "body", taken),
            "application/json" if form == "json" and "*" in media else media,
            form,
            body.get("required") is True,
            translated,
            mappings(described.get("encoding")),
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

    def _credentials(self, operation: Document) -> tuple[Credential, ...]:
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
