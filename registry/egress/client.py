"""The guarded client: an HTTP client for tools, which the rules hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...policies.errors import BadInput
from .rules import Egress, Resolve

if TYPE_CHECKING:
    import ssl

    import httpx2

    from .transport import GuardedTransport

__all__ = ["guarded_client", "guarded_transport"]

_GOES_AROUND = (
    "transport",
    "mounts",
    "proxy",
    "uds",
    "app",
    "trust_env",
    "follow_redirects",
    "cert",
    "http2",
)


def guarded_client(
    egress: Egress | None = None,
    *,
    resolve: Resolve | None = None,
    verify: ssl.SSLContext | None = None,
    **options: Any,
) -> httpx2.AsyncClient:
    """An `httpx2.AsyncClient` for tools of your own, which goes nowhere that `egress` forbids; asyncio and trio.

    Without rules, to public addresses only. `options` are those of the client (`base_url`, `headers`, …). What is
    refused is a `ToolFailure`, and nothing was sent. Proxies and the environment are left aside: a proxy looks names
    up by itself. `resolve` looks a name up in another way, `verify` is for a certificate authority of your own.

    `pip install 'foreplan[openapi]'`.
    """
    for option in _GOES_AROUND:
        if option in options:
            raise BadInput(f"a guarded client takes no {option}: that could lead around the guard")
    rules = egress or Egress()
    options.setdefault("timeout", rules.timeout)
    guard = guarded_transport(rules, resolve=resolve, verify=verify)
    import httpx2

    return httpx2.AsyncClient(transport=guard, trust_env=False, follow_redirects=False, **options)


def guarded_transport(
    egress: Egress, *, resolve: Resolve | None = None, verify: ssl.SSLContext | None = None
) -> GuardedTransport:
    """The transport of a guarded client. Raises `BadInput` where the library for it is missing."""
    try:
        from .transport import GuardedTransport
    except ModuleNotFoundError as error:
        if error.name not in ("httpx2", "httpcore2"):
            raise
        raise BadInput("calls over HTTP need the package 'httpx2': pip install 'foreplan[openapi]'") from None
    return GuardedTransport(egress, resolve=resolve, verify=verify)
