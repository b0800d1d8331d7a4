"""A file of tools: what the command line cannot say of them in one word, and where their secrets are.

    tools:
      - {openapi: shop.yaml, base_url: "https://shop.example.com", secret_refs: {key: SHOP_KEY}}
      - {from: "ledger.py:registry"}
    secrets:
      SHOP_KEY: {file: keys/shop}

It is named like a module: `--tools tools.yaml`. Paths in it begin at its own folder. A secret that it does not place is
an environment variable of that name; none is ever written into the file.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import Field, model_validator

from ..executor.openapi_import import openapi_tools
from ..planner.documents import read_source
from ..planner.findings import PlanUnreadable
from ..planner.sources import read_bytes
from ..policies.errors import BadInput, ForeplanError
from ..policies.failures import ToolFailure
from ..policies.frozen import Frozen
from ..registry.egress.rules import Egress
from ..registry.openapi.servers import NoServer
from ..registry.registry import Registry
from ..registry.sources import FoundTools
from ..registry.vaults import EnvironmentSecrets, FileSecrets, Vault
from .files import refuse_absent
from .given import read_record
from .lines import plain
from .loading import is_document, load_registry

__all__ = ["Loaded", "load_tools"]

_T = TypeVar("_T")

_MOST = 128 * 1024
"""Bytes of a file of tools. What is larger is an OpenAPI document, and is not read twice to find that out."""
_INSTEAD = "; at the command line that stands in a file of tools: `tools: [{openapi: %s, %s}]`"


class Loaded(NamedTuple):
    """The tools that a word names, and where their secrets come from."""

    registry: Registry
    secrets: Vault


def load_tools(spec: str) -> Loaded:
    """What `spec` names: a file of tools, an OpenAPI document, or a module's attribute. Raises `BadInput`, `Faulty`."""
    if _is_file_of_tools(spec):
        return read_record(ToolFile, spec, "the file of tools").loaded(Path(spec).parent)
    if is_document(spec):
        return Loaded(_bare(spec), EnvironmentSecrets())
    return Loaded(load_registry(spec), EnvironmentSecrets())


def _is_file_of_tools(spec: str) -> bool:
    """Whether it is a document with `tools` and without `openapi`."""
    if not is_document(spec) or "://" in spec:
        return False
    refuse_absent(spec)
    try:
        found = read_source(read_bytes(spec), source=spec).document if _is_small(spec) else None
    except PlanUnreadable:
        return False
    return isinstance(found, dict) and "tools" in found and not {"openapi", "swagger"} & found.keys()


def _is_small(path: str) -> bool:
    return os.path.getsize(path) <= _MOST


def _bare(spec: str) -> Registry:
    """The tools of a document of which nothing else is said. What it lacks can be said in a file of tools."""
    name = spec if "://" in spec else os.path.basename(spec)
    try:
        registry = _told(lambda: openapi_tools(spec))
    except NoServer as error:
        raise BadInput(f"{error}{_INSTEAD % (plain(name, 100), 'base_url: …')}") from None
    more = _INSTEAD % (plain(name, 100), "secret_refs: {…}")
    findings = [
        found._replace(message=found.message + more) if found.code == "no_secret" else found
        for found in registry.findings
    ]
    return FoundTools(registry, findings)


def _told(import_: Callable[[], _T]) -> _T:
    try:
        return import_()
    except ToolFailure as failure:
        hint = f"; {failure.hint}" if failure.hint else ""
        raise BadInput(f"{plain(str(failure), 300)}{plain(hint, 200)}") from None


# --- What stands in the file.


class _Egress(Frozen):
    """Where the calls of a document may go."""

    allow: tuple[str, ...] = ()
    hosts: tuple[str, ...] | None = None
    schemes: tuple[str, ...] = ("https", "http")
    timeout: float = 30.0
    connect_timeout: float = 10.0
    most_bytes: int = 10 * 1024 * 1024
    redirects: int = 5


class _Source(Frozen):
    """Where tools come from: a module, or an OpenAPI document and what `openapi_tools` is told of it."""

    from_: str | None = Field(default=None, alias="from")
    openapi: str | None = None
    prefix: str = ""
    only: tuple[str, ...] | None = None
    effects: dict[str, str] = Field(default_factory=dict)
    options: dict[str, dict[str, Any]] = Field(default_factory=dict)
    for_all: dict[str, Any] = Field(default_factory=dict)
    """What holds for all its tools: permissions, level and the like."""
    pinned: dict[str, str] | None = None
    base_url: str | None = None
    servers: tuple[str, ...] = ()
    server_variables: dict[str, str] = Field(default_factory=dict)
    headers: dict[str, str] = Field(default_factory=dict)
    secret_refs: dict[str, str] = Field(default_factory=dict)
    idempotency_header: str = ""
    outputs: bool = True
    egress: _Egress = _Egress()

    @model_validator(mode="after")
    def _one_of_both(self) -> _Source:
        if (self.from_ is None) == (self.openapi is None):
            raise ValueError("tools come either `from` a module or from an `openapi` document")
        beside = sorted(self.model_fields_set - {"from_"})
        if self.from_ is not None and beside:
            raise ValueError(f"{beside[0]!r} is said of an `openapi` document; a module says it itself")
        return self

    def loaded(self, folder: Path) -> Registry:
        """Its tools."""
        if self.openapi is None:
            return load_registry(_within(folder, str(self.from_)))
        said = dict(self)
        said = {name: said[name] for name in self.model_fields_set - {"openapi", "for_all", "egress"}}
        where = self.openapi if "://" in self.openapi else str(folder / self.openapi)
        egress = Egress(**dict(self.egress))
        return _told(lambda: openapi_tools(where, egress=egress, **said, **self.for_all))


def _within(folder: Path, spec: str) -> str:
    """The same module; one in a file begins at the folder."""
    path, colon, name = spec.partition(":")
    return f"{folder / path}{colon}{name}" if path.endswith(".py") else spec


class ToolFile(Frozen):
    """All that stands in a file of tools."""

    tools: tuple[_Source, ...] = Field(min_length=1)
    secrets: dict[str, Any] = Field(default_factory=dict)
    """Where they are: `{file: PATH}` by name."""

    def loaded(self, folder: Path) -> Loaded:
        """All its tools together. Raises `BadInput` for what cannot be loaded, with where it stands."""
        files = {ref: folder / _placed(ref, place) for ref, place in self.secrets.items()}
        found = [self._source(n, folder) for n in range(len(self.tools))]
        tools = [tool for registry in found for tool in registry]
        findings = [f for registry in found if isinstance(registry, FoundTools) for f in registry.findings]
        return Loaded(FoundTools(tools, findings), FileSecrets(files, EnvironmentSecrets()))

    def _source(self, n: int, folder: Path) -> Registry:
        try:
            return self.tools[n].loaded(folder)
        except ForeplanError as error:
            raise BadInput(f"tools[{n}] of the file of tools: {error}") from error


def _placed(ref: str, place: Any) -> str:
    """The file of a secret. What stands in its place may be the secret, and is not repeated, nor is its line shown."""
    match place:
        case {"file": str(path), **others} if path and not others:
            return path
    raise BadInput(
        f"the secret {plain(ref, 60)!r} of the file of tools is not written there, but where it is: {{file: PATH}}, "
        "or nothing for an environment variable of that name"
    )
