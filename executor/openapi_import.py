"""Tools of an OpenAPI document, called through the egress guard: `pip install 'foreplan[openapi]'`.

    tools = openapi_tools("petstore.yaml", prefix="pets.", secret_refs={"api_key": "PETSTORE_KEY"})
    engine = Engine(tools, ...)

    file, URL or object --read within caps--> Links --declared_tools--> tools, findings, pins
    call --request_of--> guarded transport --read_answer--> JSON, or a failure

The document is a stranger, and so is the service. Which of them is called where is settled when the document is read;
each call goes only where the rules of the egress guard let it.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import anyio

from ..planner.findings import PlanUnreadable
from ..planner.sources import Caps, read_bytes, read_source
from ..policies.classification import classify
from ..policies.effect import Effect
from ..policies.errors import BadInput
from ..policies.failures import ToolFailure
from ..policies.spelling import spelled
from ..policies.text import safe_text, shorten
from ..registry.egress.client import guarded_transport
from ..registry.egress.rules import Egress, Resolve
from ..registry.imports import ToolFinding
from ..registry.openapi.answers import read_answer
from ..registry.openapi.declared import Call, Called, Wanted, declared_tools
from ..registry.openapi.links import Links
from ..registry.openapi.requests import request_of
from ..registry.openapi.servers import Servers
from ..registry.sources import FoundTools
from ..registry.tools import Tool, ToolContext
from ..registry.values import Json

__all__ = ["ImportedTools", "openapi_tools"]

DOCUMENT = Caps(bytes=32 * 1024 * 1024, depth=64, nodes=3_000_000, aliases=True)
"""GitHub's document, the largest that was found, has 13 MB and 1,000,000 values."""
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class ImportedTools(FoundTools):
    """The tools of one document. Inside `async with` their calls share connections; outside each has one of its own."""

    def __init__(
        self, tools: Sequence[Tool], pins: Mapping[str, str], findings: Sequence[ToolFinding], way: _Way
    ) -> None:
        super().__init__(tools, findings)
        self.pins = dict(pins)
        """What each operation was declared as, by its name in the document, as digests; plain JSON, for `pinned=`."""
        self._way = way

    async def __aenter__(self) -> ImportedTools:
        self._way.shared = self._way.transport()
        return self

    async def __aexit__(self, *raised: object) -> None:
        shared, self._way.shared = self._way.shared, None
        await shared.aclose()


@spelled
def openapi_tools(
    source: Mapping[str, Any] | str | os.PathLike[str] | bytes,
    *,
    prefix: str = "",
    only: Collection[str] | None = None,
    effects: Mapping[str, Effect | str] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    pinned: Mapping[str, str] | None = None,
    base_url: str | None = None,
    servers: Collection[str] = (),
    server_variables: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    secret_refs: Mapping[str, str] | None = None,
    idempotency_header: str = "",
    outputs: bool = True,
    egress: Egress | None = None,
    resolve: Resolve | None = None,
    verify: ssl.SSLContext | None = None,
    **common: Any,
) -> ImportedTools:
    """The operations of an OpenAPI document (3.0, 3.1) as tools: of a file, of a URL, of the text itself as `bytes`, or
    of the document as an object.

    GET and HEAD read, PUT and DELETE write, POST and PATCH act, unless `effects` says otherwise, by operationId or as
    `GET /pets/{id}`. `options` are those of `@tool` by that name, `common` those of all (`permissions=`, `level=`, …).
    `only` are the operations that are wanted, with `*` for anything; `pinned`, the `pins` of an earlier import, leaves
    out what differs.

    They are called at `base_url`, else at the first server of the document, with `server_variables`; at another host only
    if `servers` has it. `secret_refs` says which security scheme gets which secret (of `basic`, as `user:password`);
    `headers` are sent with each call, and `idempotency_header` with the key of the call. With `outputs=False` results are
    not held to the schemas of the document. `egress` says where calls may go (public addresses, by default).

    Raises `BadInput`, and `ToolFailure` where a URL cannot be read. Blocks while it reads.
    """
    rules = egress or Egress()
    way = _Way(rules, resolve, verify, _fixed(headers or {}), _header_name(idempotency_header))
    document, origin, home = _read(source, way)
    links = Links(document)
    found = Servers(links, base_url, server_variables or {}, tuple(servers), home, rules.allows_by_name)
    wanted = Wanted(
        prefix=prefix,
        only=[only] if isinstance(only, str) else only,
        effects=effects or {},
        options=options or {},
        common=common,
        pinned=pinned,
        secret_refs=secret_refs or {},
        outputs=outputs,
        origin=origin,
    )
    return ImportedTools(*declared_tools(links, found, wanted, way.caller), way)


def _fixed(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers that are sent with every call."""
    for name, value in headers.items():
        fits = isinstance(value, str) and value.isprintable() and value.isascii()
        if not _HEADER.fullmatch(_header_name(name)) or not fits:
            raise BadInput(
                f"the header {shorten(repr(name), 60)} cannot be sent as it is; secrets go into secret_refs"
            )
    return {"User-Agent": "foreplan", **headers}


def _header_name(name: str) -> str:
    if name and not (isinstance(name, str) and _HEADER.fullmatch(name)):
        raise BadInput(f"{shorten(repr(name), 60)} is no name of a header")
    return name


# --- Reading the document.


def _read(source: Mapping[str, Any] | str | os.PathLike[str] | bytes, way: _Way) -> tuple[object, str, str]:
    """The document, what it is called in messages, and the URL that it was read from."""
    if isinstance(source, Mapping):
        info = source.get("info")
        title = info.get("title") if isinstance(info, Mapping) else None
        return source, shorten(title, 80) if isinstance(title, str) and title else "an OpenAPI document", ""
    if isinstance(source, bytes):
        return _parsed(source, "an OpenAPI document", "", way), "an OpenAPI document", ""
    place = os.fspath(source)
    if isinstance(place, str) and re.match("https?://", place):
        parts = urlsplit(place)
        origin = shorten(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}", 120)
        return _parsed(way.document(place, origin), origin, parts.path, way), origin, place
    name = Path(place).name
    return _parsed(read_bytes(place, most=DOCUMENT.bytes), name, name, way), shorten(name, 80), ""


def _parsed(text: bytes, origin: str, name: str, way: _Way) -> object:
    format = "json" if name.endswith(".json") else "yaml" if name.endswith((".yaml", ".yml")) else None
    try:
        return read_source(text, source=name or "document", format=format, caps=DOCUMENT).document
    except PlanUnreadable as error:
        [found, *_] = error.findings
        place = f" (line {found.line}, column {found.column})" if found.line else ""
        hint = f"; {found.suggestion}" if found.suggestion else ""
        raise BadInput(f"{origin} cannot be read{place}: {found.message}{hint}") from None


# --- Calls.


class _Way:
    """How calls go out: one guarded transport for all of them inside `async with`, else one for each."""

    def __init__(
        self,
        egress: Egress,
        resolve: Resolve | None,
        verify: ssl.SSLContext | None,
        headers: Mapping[str, str],
        idempotency_header: str,
    ) -> None:
        self._egress, self._resolve, self._verify = egress, resolve, verify
        self._headers, self._idempotency = headers, idempotency_header
        self.shared: Any = None

    def transport(self) -> Any:
        """A way out by the rules."""
        return guarded_transport(self._egress, resolve=self._resolve, verify=self._verify)

    def document(self, url: str, origin: str) -> bytes:
        """The text at a URL. Raises `ToolFailure`."""

        async def fetch() -> bytes:
            accept = (
                "application/vnd.oai.openapi+json, application/json, application/yaml, text/yaml, */*;q=0.1"
            )
            status, headers, body = await self._ask(
                "GET", url, [*self._headers.items(), ("Accept", accept)], b""
            )
            if status != 200:
                read_answer(status if status >= 300 else 502, headers, body, of=origin)
            return body

        with ThreadPoolExecutor(1) as thread:  # there may be an event loop in this one
            try:
                return thread.submit(anyio.run, fetch).result()
            except ToolFailure:
                raise
            except Exception as error:
                failure = classify(error)
                message = f"{origin} cannot be read: {safe_text(failure.message, 300)}"
                raise ToolFailure(message, kind=failure.kind, code=failure.code) from None

    async def _ask(
        self, method: str, url: str, headers: Sequence[tuple[str, str]], content: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        transport = self.shared or self.transport()
        try:
            return cast(
                "tuple[int, dict[str, str], bytes]", await transport.ask(method, url, headers, content)
            )
        finally:
            if transport is not self.shared:
                with anyio.CancelScope(shield=True):
                    await transport.aclose()

    def caller(self, called: Called) -> Call:
        """The function of a tool."""
        operation = called.operation
        host = urlsplit(operation.server).netloc

        async def call(args: dict[str, Json], context: ToolContext) -> Json:
            secrets = {scheme: str(args.pop(argument)) for argument, scheme in called.secrets.items()}
            headers = dict(self._headers)
            if self._idempotency and context.idempotency_key:
                headers[self._idempotency] = context.idempotency_key
            sent = request_of(operation, args, secrets, headers)
            return read_answer(*await self._ask(*sent), of=host)

        return call
