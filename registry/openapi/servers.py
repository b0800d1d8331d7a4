"""Where operations are called: what the operator says, else what the document does, and never a host that only it names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from urllib.parse import urljoin, urlsplit

from ...policies.errors import BadInput
from ...policies.text import did_you_mean, shorten
from .links import Document, Links, Unimportable, said, texts

__all__ = ["NoServer", "Servers", "origin_of"]

_HELD = re.compile(r"\{([^{}]*)\}")


class NoServer(BadInput):
    """Raised where a document names no server that can be called, and the operator none either."""


class Servers:
    """Where operations are called: what the operator says, else what the document does."""

    def __init__(
        self,
        links: Links,
        base_url: str | None,
        variables: Mapping[str, str],
        others: tuple[str, ...],
        home: str,
        local: Callable[[str, int], bool],
    ) -> None:
        self._local = local
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

    def keep_secret(self, url: str) -> None:
        """Raises `Unimportable` where a secret would go over the network as everybody on the way can read it."""
        scheme, host, port = origin_of(url)
        if scheme == "http" and not self._local(host, port or 80):
            message = f"it is called at {shorten(url, 80)}, and its secret would go there unencrypted"
            raise Unimportable(
                "insecure_server", f"{message}; use https, or name the host in Egress(allow=…)"
            )

    def check(self) -> None:
        """Raises `BadInput` for a variable that no server has."""
        for name in self._variables:
            if name not in self._used:
                raise BadInput(f"no server has the variable {name!r}{did_you_mean(name, self._used)}")


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        plain = "@" not in parts.netloc and not parts.query and not parts.fragment
        return plain and parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _checked_url(url: object, what: str) -> str:
    if not isinstance(url, str) or not _is_url(url):
        known = "without user name, query and fragment"
        raise BadInput(
            f"{what} must be a URL like 'https://api.example.com/v1', {known}; secrets go into secret_refs"
        )
    return url.rstrip("/")


def origin_of(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port of a URL."""
    parts = urlsplit(url)
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or usual
