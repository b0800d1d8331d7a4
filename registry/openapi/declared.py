"""Operations of an OpenAPI document as tools with contracts of ours, as the operator says.

    operation --clean--> Tool          GET and HEAD read, PUT and DELETE write, POST and PATCH act, unless told otherwise
        └──> ToolFinding               the others load all the same

The document may make a tool stricter than the operator says (`x-foreplan-effect`), never laxer. No HTTP is needed here.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, cast

from ...policies.canonical import digest
from ...policies.effect import Effect
from ...policies.errors import BadInput, ToolRefused
from ...policies.text import did_you_mean, safe_text, shorten
from ..imports import ToolFinding, checked_options, unpinned
from ..options import check_options, checked_name
from ..tools import Tool, ToolContext
from ..values import Json
from .links import Links, Unimportable
from .operations import Body, Named, Operation, Parameter, Reader, named_operations
from .servers import NoServer, Servers, origin_of

__all__ = ["Called", "Wanted", "declared_tools"]

_BY_METHOD = {"GET": Effect.READS, "HEAD": Effect.READS, "PUT": Effect.WRITES, "DELETE": Effect.WRITES}
"""RFC 9110, section 9.2: safe, idempotent, neither."""
_STRICTER = (Effect.READS, Effect.WRITES, Effect.ACTS)
_LONGEST_NAME = 64
_LONGEST_DESCRIPTION = 4000
_UNFIT = re.compile(r"[^A-Za-z0-9_.-]+")

Call = Callable[[dict[str, Json], ToolContext], Awaitable[Json]]


@dataclasses.dataclass(frozen=True)
class Called:
    """An operation and what a call of it needs besides its arguments: which of these are secrets, for which scheme."""

    operation: Operation
    secrets: Mapping[str, str]
    """Argument -> security scheme."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Wanted:
    """What the operator says of the tools of one document; operations by operationId, or as `GET /pets/{id}`."""

    prefix: str = ""
    only: Collection[str] | None = None
    """Names, with `*` for anything."""
    effects: Mapping[str, Effect | str] = dataclasses.field(default_factory=dict)
    options: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    common: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    pinned: Mapping[str, str] | None = None
    secret_refs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    outputs: bool = True
    origin: str = "an OpenAPI document"

    def check(self, operations: list[Named], schemes: Iterable[str]) -> None:
        """Raises `BadInput` for a name that the document does not have: what is misspelt must not be lost."""
        checked_name(f"{self.prefix}x")
        check_options({name for each in (self.common, *self.options.values()) for name in each})
        known = [name for each in operations for name in (each.key, each.route)]
        for name in [*self.effects, *self.options]:
            if name not in known:
                raise BadInput(
                    f"{self.origin} has no operation {shorten(repr(name), 80)}{_nearest(name, known)}"
                )
        for pattern in self.only or ():
            if not any(fnmatchcase(name, pattern) for name in known):
                raise BadInput(
                    f"no operation of {self.origin} fits {shorten(repr(pattern), 80)}{_nearest(pattern, known)}"
                )
        for scheme in self.secret_refs:
            if scheme not in (there := list(schemes)):
                raise BadInput(
                    f"{self.origin} has no security scheme {shorten(repr(scheme), 60)}{_nearest(scheme, there)}"
                )

    def wants(self, named: Named) -> bool:
        """Whether this operation is among those that are wanted."""
        return self.only is None or any(
            fnmatchcase(name, pattern) for pattern in self.only for name in (named.key, named.route)
        )

    def options_of(self, named: Named) -> dict[str, Any]:
        """The options of this tool, before the document is heard."""
        own = {**self.options.get(named.route, {}), **self.options.get(named.key, {})}
        effect = self.effects.get(named.key, self.effects.get(named.route))
        usual = _BY_METHOD.get(named.method, Effect.ACTS)
        return {"effect": usual, **self.common, **({"effect": effect} if effect is not None else {}), **own}


def _nearest(name: str, known: list[str]) -> str:
    return did_you_mean(name, known) or f"; it has {shorten(', '.join(known), 200) or 'none'}"


def declared_tools(
    links: Links, servers: Servers, wanted: Wanted, call: Callable[[Called], Call]
) -> tuple[list[Tool], dict[str, str], list[ToolFinding]]:
    """The tools, the pin of each by the name of its operation, and what was noticed. Raises `BadInput`."""
    operations, wrong = named_operations(links)
    wanted.check(operations, links.components("securitySchemes"))
    findings = [ToolFinding(shorten(where, 120), problem.code, str(problem)) for where, problem in wrong]
    reader = Reader(links, servers, wanted.secret_refs)
    tools: dict[str, Tool] = {}
    pins: dict[str, str] = {}
    for named in operations:
        if not wanted.wants(named):
            continue
        options = checked_options(wanted.options_of(named), named.key)
        try:
            operation = reader.read(named)
            made, noticed = _tool(operation, options, wanted, call, set(tools))
        except Unimportable as problem:
            findings.append(ToolFinding(shorten(named.key, 120), problem.code, str(problem)))
            continue
        pin = cast(str, made.recorded_source)
        if wanted.pinned is not None and wanted.pinned.get(named.key) != pin:
            findings.append(unpinned(named.key, wanted.pinned))
            continue
        tools[made.name], pins[named.key] = made, pin
        findings += noticed
    if not tools and findings and all(finding.code == "no_server" for finding in findings):
        raise NoServer(f"{wanted.origin} names no server that can be called; say base_url='https://…'")
    servers.check()
    findings += _without_secret(reader.unmet)
    return list(tools.values()), pins, findings


def _without_secret(unmet: Mapping[str, int]) -> list[ToolFinding]:
    return [
        ToolFinding(
            "",
            "no_secret",
            f"{count} operation{'' if count == 1 else 's'} may be asked for {shorten(scheme, 60)!r} and have no secret for "
            f"it, so they are called without; say secret_refs={{{shorten(scheme, 60)!r}: 'NAME'}}",
            loaded=True,
        )
        for scheme, count in unmet.items()
    ]


def _tool(
    operation: Operation,
    options: dict[str, Any],
    wanted: Wanted,
    call: Callable[[Called], Call],
    taken: set[str],
) -> tuple[Tool, list[ToolFinding]]:
    findings = [ToolFinding(operation.key, code, text, loaded=True) for code, text in operation.noticed]
    name = _name(operation, wanted.prefix, taken)
    if name != wanted.prefix + operation.key:
        findings.append(ToolFinding(operation.key, "renamed", f"it is called {name!r} here", loaded=True))
    findings += _tightened(operation, options)
    description = operation.description
    if operation.deprecated:
        description = f"Deprecated. {description}".strip()
        findings.append(
            ToolFinding(operation.key, "deprecated", "the document calls it deprecated", loaded=True)
        )
    takes, secrets = _takes(operation)
    refs = {argument: wanted.secret_refs[scheme] for argument, scheme in secrets.items()}
    said = _options(operation, options, refs)

    def declare(output: Json | None) -> Tool:
        return Tool.declare(
            name,
            safe_text(description, _LONGEST_DESCRIPTION),
            input_schema=takes,
            output_schema=output,
            call=call(Called(operation, secrets)),
            origin=f"{wanted.origin}: {operation.method} {shorten(operation.path, 100)}",
            **said,
        )

    made, problem = _declared(declare, operation.result if wanted.outputs else None)
    if problem:
        message = f"what it gives is not described: {problem}"
        findings.append(ToolFinding(operation.key, "no_output_schema", message, loaded=True))
    return dataclasses.replace(made, recorded_source=_pin(operation)), findings


def _options(operation: Operation, options: dict[str, Any], refs: dict[str, str]) -> dict[str, Any]:
    """What the operator says of a tool, over what the document does."""
    said = {
        "title": safe_text(operation.title, 200),
        "tags": [*operation.tags, *(["deprecated"] if operation.deprecated else [])],
        "host": _host(operation.server),
        **options,
    }
    return {**said, "secret_refs": {**refs, **said.get("secret_refs", {})}} if refs else said


def _declared(declare: Callable[[Json | None], Tool], output: Json | None) -> tuple[Tool, str]:
    """The tool; where the schema of its result is refused, the tool without it, and why."""
    try:
        try:
            return declare(output), ""
        except (ToolRefused, ValueError) as error:
            if output is None:
                raise
            return declare(None), shorten(str(error), 300)
    except (ToolRefused, ValueError) as error:
        raise Unimportable("invalid_schema", shorten(str(error), 300)) from None


def _name(operation: Operation, prefix: str, taken: set[str]) -> str:
    """A name that a tool may have: what no name may hold is replaced, one that is too long or taken gets a digest."""
    plain = _UNFIT.sub("_", operation.key).strip("_.-")
    if not prefix and not re.match("[A-Za-z_]", plain):
        plain = f"_{plain}"
    name = prefix + plain
    if len(name) <= _LONGEST_NAME and name not in taken and plain.strip("_"):
        return name
    mark = hashlib.sha256(f"{operation.method} {operation.path}".encode()).hexdigest()[:8]
    return f"{name[: _LONGEST_NAME - 9]}_{mark}"


def _tightened(operation: Operation, options: dict[str, Any]) -> list[ToolFinding]:
    """Make the effect in `options` as strict as the document says, and say so."""
    said, before = operation.effect, options["effect"]
    if said not in [each.value for each in _STRICTER] or _STRICTER.index(Effect(said)) <= _STRICTER.index(
        before
    ):
        return []
    options["effect"] = Effect(said)
    message = f"the document says that it {said}, so it does not count as {before.value}"
    return [ToolFinding(operation.key, "tightened", message, loaded=True)]


def _takes(operation: Operation) -> tuple[dict[str, Json], dict[str, str]]:
    """The schema of the arguments, and which of them are secrets."""
    properties: dict[str, Json] = {}
    required: list[str] = []
    given: list[Parameter | Body] = [*operation.parameters, *([operation.body] if operation.body else [])]
    for each in given:
        properties[each.argument] = _described(each.schema, each.description)
        if each.required:
            required.append(each.argument)
    secrets: dict[str, str] = {}
    for credential in operation.credentials:
        argument = _UNFIT.sub("_", credential.scheme)
        while argument in properties:
            argument += "_"
        properties[argument] = {"type": "string"}
        secrets[argument] = credential.scheme
    schema: dict[str, Json] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = required
    if operation.definitions:
        schema["$defs"] = dict(operation.definitions)
    return schema, secrets


def _described(schema: Json, description: str) -> Json:
    if not description or not isinstance(schema, dict) or schema.get("description"):
        return schema
    return {**schema, "description": safe_text(description, 1000)}


def _host(server: str) -> str:
    """The host for limits; "" for one that no limit can name."""
    _, host, port = origin_of(server)
    usual = port in (80, 443)
    fits = re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", host)
    return (host if usual else f"{host}:{port}") if fits else ""


def _pin(operation: Operation) -> str:
    """`sha256:…` of what a call was planned, reviewed and approved by."""
    said = {
        field.name: getattr(operation, field.name)
        for field in dataclasses.fields(operation)
        if field.name not in ("key", "noticed")
    }
    return digest(_plain(said))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, tuple | list) else value
