"""The two ways to a server: standard input and output, and streamable HTTP.

Over stdio the output is the protocol's alone: what tools and their children print goes to stderr, and what they read of the
input is empty. Input is read in a thread of ours, so that an end (Ctrl-C, SIGTERM) does not wait for the next line.

Over HTTP a request must name the server by one of its names (Host), come from no other web page (Origin: both against DNS
rebinding), and bring the token where there is one. What listens beyond this machine has one.
"""

from __future__ import annotations

import hmac
import os
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import IO, Any

from ...executor.hands.threads import Job, Threads
from ...policies.errors import BadInput
from ...policies.text import shorten

__all__ = ["LOOPBACK", "guarded", "over_http", "over_stdio", "read_address"]

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_PORT = 8765
_GRACE = 1
"""Seconds that requests under way have to end when the server does; they are cancelled then, and their runs pause."""


async def over_stdio(server: Any, output: IO[str]) -> None:
    """Serve the one client on standard input and `output`, until it hangs up."""
    from mcp.server.stdio import stdio_server

    with _own_input() as lines, redirect_stdout(output):
        async with stdio_server(stdin=lines) as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())


class _Lines:
    """The lines of a file, each read in a thread that nobody need wait for."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._threads = Threads()

    async def __aiter__(self) -> AsyncIterator[str]:
        while line := await self._threads.wait(Job(self._file.readline, lambda job: None)):
            yield line


@contextmanager
def _own_input() -> Iterator[Any]:
    """Standard input for us alone; whoever else reads it finds it empty."""
    if sys.stdin is None:
        raise BadInput("standard input is closed; an MCP client starts this server, or use --http")
    kept = os.dup(sys.stdin.fileno())
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())
    os.close(nothing)
    # Not closed: at the end a thread may still read from it.
    yield _Lines(open(kept, encoding="utf-8", errors="replace", closefd=False))  # noqa: SIM115


def read_address(word: str) -> tuple[str, int]:
    """Host and port from `HOST:PORT`, `:PORT`, `PORT` or `HOST`; on this machine alone where no host is said."""
    host, colon, port = word.rpartition(":") if ":" in word and not word.endswith("]") else ("", "", word)
    if not colon and not port.isdecimal():
        host, port = port, str(_PORT)
    if not (port.isdecimal() and int(port) < 65536):
        raise BadInput(f"'{shorten(word, 60)}' is no address; write HOST:PORT, such as 127.0.0.1:{_PORT}")
    return host.strip("[]") or LOOPBACK[0], int(port)


async def over_http(
    server: Any,
    address: tuple[str, int],
    *,
    token: str = "",
    names: Iterable[str] = (),
    tell: Callable[[str], None],
) -> None:
    """Serve clients over streamable HTTP until this is cancelled; `tell` hears the URL. Raises `BadInput`.

    `names` are hosts as which the server is asked for beside its own address; `token` is what each request must bring.
    """
    import uvicorn

    host, _ = address
    if host not in LOOPBACK and not token:
        raise BadInput(f"{host} is reached from other machines, so a token is needed: --token FILE")
    hosts = [*({host, *names} - {"0.0.0.0", "::"}), *LOOPBACK]
    app = guarded(server.streamable_http_app(transport_security=_security(hosts)), token)
    listening = _listening(address)
    # Port 0 is any that is free.
    tell(f"http://{_bracketed(host)}:{listening.getsockname()[1]}/mcp")
    config = uvicorn.Config(
        app, log_config=None, access_log=False, lifespan="on", timeout_graceful_shutdown=_GRACE
    )
    with listening:
        await uvicorn.Server(config).serve(sockets=[listening])


def _listening(address: tuple[str, int]) -> socket.socket:
    host, port = address
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server(address, family=family)
    except OSError as error:
        reason = error.strerror or str(error)
        raise BadInput(
            f"{host}:{port} cannot be listened on: {reason}; name another port, or 0 for a free one"
        ) from None


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _security(hosts: Iterable[str]) -> Any:
    from mcp.server.transport_security import TransportSecuritySettings

    named = [_bracketed(host) for host in hosts]
    ports = [*named, *(f"{name}:*" for name in named)]
    origins = [f"{scheme}://{name}" for scheme in ("http", "https") for name in ports]
    return TransportSecuritySettings(allowed_hosts=ports, allowed_origins=origins)


def guarded(app: Any, token: str) -> Callable[[Any, Any, Any], Awaitable[None]]:
    """The application behind a bearer token; without one, as it is."""
    wanted = f"Bearer {token}".encode()

    async def behind(scope: Any, receive: Any, send: Any) -> None:
        said = dict(scope.get("headers", ())).get(b"authorization", b"")
        if scope["type"] == "http" and not hmac.compare_digest(said, wanted):
            headers = [(b"www-authenticate", b"Bearer"), (b"content-type", b"text/plain")]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send({"type": "http.response.body", "body": b"a bearer token is needed\n"})
            return
        await app(scope, receive, send)

    return behind if token else app
