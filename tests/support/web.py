"""A small HTTP server on loopback, written out byte by byte: it answers what a test says, also what no honest server would.

    async with serving(answer) as web:
        web.url                 http://127.0.0.1:PORT
        web.seen                every request, in order

`answer` takes a `Seen` and gives a `bytes` (the whole answer), a body, or an async iterator of pieces.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, NamedTuple

import anyio
from anyio.abc import SocketAttribute
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.tls import TLSListener

__all__ = ["Seen", "Web", "reply", "serving"]


class Seen(NamedTuple):
    """A request that arrived."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]


class Web(NamedTuple):
    """A server that runs: where, and what it was asked."""

    port: int
    seen: list[Seen]
    host: str
    scheme: str

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"


Answer = Callable[[Seen], Any]


def reply(body: Any = b"", status: int = 200, **headers: str) -> bytes:
    """An answer as it goes over the wire; what is neither bytes nor text is sent as JSON."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if not isinstance(body, bytes | str):
        body = json.dumps(body)
        named.setdefault("content-type", "application/json")
    data = body.encode() if isinstance(body, str) else body
    named.setdefault("content-length", str(len(data)))
    lines = [f"HTTP/1.1 {status} So", *(f"{name}: {value}" for name, value in named.items()), "", ""]
    return "\r\n".join(lines).encode() + data


@asynccontextmanager
async def serving(
    answer: Answer, *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Web]:
    """Answer every request, each on a connection of its own, until the block ends."""
    listener: Any = await anyio.create_tcp_listener(local_host=host, local_port=port)
    bound = listener.extra(SocketAttribute.local_port)
    web = Web(bound, [], host, "http" if tls is None else "https")
    served = listener if tls is None else TLSListener(listener, tls, standard_compatible=False)

    async def one(stream: Any) -> None:
        async with stream:
            try:
                await _converse(stream, answer, web.seen)
            except (anyio.BrokenResourceError, anyio.EndOfStream, anyio.IncompleteRead):
                pass  # whoever asked is gone

    async with served, anyio.create_task_group() as group:
        group.start_soon(served.serve, one)
        try:
            yield web
        finally:
            group.cancel_scope.cancel()


async def _converse(stream: Any, answer: Answer, seen: list[Seen]) -> None:
    reading = BufferedByteReceiveStream(stream)
    head = (await reading.receive_until(b"\r\n\r\n", 65_536)).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
    length = int(headers.get("content-length", 0))
    body = await reading.receive_exactly(length) if length else b""
    if headers.get("transfer-encoding") == "chunked":
        body = await _chunks(reading)
    request = Seen(method, target, headers, body)
    seen.append(request)
    said = answer(request)
    if isinstance(said, bytes):
        await stream.send(said)
        return
    async with aclosing(said):
        async for piece in said:
            await stream.send(piece)


async def _chunks(reading: BufferedByteReceiveStream) -> bytes:
    body = b""
    while size := int(await reading.receive_until(b"\r\n", 100), 16):
        body += await reading.receive_exactly(size)
        await reading.receive_exactly(2)
    return body
