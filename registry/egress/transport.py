"""The way out: a transport for httpx2 that judges, looks up once, connects to what it has judged, and reads within bounds.

    request --Egress.admit--> pool --connect_tcp--> resolve --Egress.check--> connect to an address that was checked
       ^                        |
       └─ a redirect of GET ────┴──> answer: headers, then bytes, unpacked here, counted, under one deadline

The name stays what it is for TLS and for the Host header: only the socket is opened to the address. What the rules refuse
is a `ToolFailure`; what goes wrong on the way is what httpx2 raises for it.
"""

from __future__ import annotations

import ssl
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import anyio
import httpcore2
import httpx2

from ...policies.failures import Happened, ToolFailure
from ...policies.text import shorten
from .addresses import read_address
from .rules import Egress, Resolve, bare

__all__ = ["GuardedTransport"]

_FOLLOWED = frozenset({301, 302, 303, 307, 308})
_SAFE = frozenset(
    {
        *("accept", "accept-encoding", "accept-language", "cache-control", "connection", "content-length"),
        *("content-type", "host", "if-modified-since", "if-none-match", "range", "user-agent"),
    }
)
"""Request headers that are no credentials; any other may be one."""
_PIECE = 65_536


@lru_cache(maxsize=1)
def _trusted() -> ssl.SSLContext:
    """The certificate authorities that the system trusts; reading them takes longer than a short call."""
    return httpx2.create_ssl_context(trust_env=False)


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Takes requests of an `httpx2.AsyncClient` where the rules let them go."""

    def __init__(
        self, egress: Egress, *, resolve: Resolve | None = None, verify: ssl.SSLContext | None = None
    ) -> None:
        self._egress = egress
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=verify or _trusted(),
            max_connections=100,
            max_keepalive_connections=20,
            keepalive_expiry=15.0,
            network_backend=_Backend(egress, resolve or look_up),
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The answer, read as far as its headers. Raises `ToolFailure` where the rules forbid it."""
        deadline = anyio.current_time() + self._egress.timeout
        with _until(deadline, self._egress.timeout):
            for _ in range(int(self._egress.redirects) + 1):
                response = await self._once(request, deadline)
                onward = self._onward(request, response)
                if onward is None:
                    return response
                await response.aclose()
                request = onward
        raise _not_followed(f"more than {self._egress.redirects} redirects, one after the other")

    async def ask(
        self, method: str, url: str, headers: Sequence[tuple[str, str]], content: bytes = b""
    ) -> tuple[int, dict[str, str], bytes]:
        """One exchange, without a client: status, headers by name in lower case, and the whole body.

        A client would keep cookies, and write URLs into its log with all that they hold.
        """
        lines = [(name.encode("ascii"), value.encode("latin-1")) for name, value in headers]
        request = httpx2.Request(method, url, headers=lines, content=content or None)
        response = await self.handle_async_request(request)
        try:
            body = await response.aread()
        finally:
            with anyio.CancelScope(shield=True):
                await response.aclose()
        return response.status_code, dict(response.headers.items()), body

    async def aclose(self) -> None:
        """Close the connections."""
        await self._pool.aclose()

    async def _once(self, request: httpx2.Request, deadline: float) -> httpx2.Response:
        url = request.url
        host = url.raw_host.decode("ascii")
        self._egress.admit(url.scheme, host, url.port, url.userinfo.decode("ascii", "replace"))
        request.headers["Accept-Encoding"] = "gzip, deflate"
        times = {"connect": self._egress.connect_timeout, **request.extensions.get("timeout", {})}
        target = httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        with _told():
            answer = await self._pool.handle_async_request(
                httpcore2.Request(
                    method=request.method,
                    url=target,
                    headers=request.headers.raw,
                    content=request.stream,
                    extensions={"timeout": times},
                )
            )
        return await self._bounded(answer, deadline, host)

    async def _bounded(self, answer: httpcore2.Response, deadline: float, host: str) -> httpx2.Response:
        headers, most = httpx2.Headers(answer.headers), self._egress.most_header_bytes
        try:
            if sum(len(name) + len(value) for name, value in answer.headers) > most:
                raise _unreadable(f"{host} answers with more than {most:,} bytes of headers", answer.status)
            unpack = _unpacking(headers.get("content-encoding", ""), host, answer.status)
        except ToolFailure:
            await answer.aclose()
            raise
        if unpack is not None:
            del headers["content-encoding"]
            headers.pop("content-length", None)
        stream = _Bounded(answer, unpack, self._egress, deadline, host)
        return httpx2.Response(answer.status, headers=headers, stream=stream, extensions=answer.extensions)

    def _onward(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Request | None:
        """The request that a redirect asks for; None where the answer is the answer."""
        place = response.headers.get("location")
        if response.status_code not in _FOLLOWED or place is None or request.method not in ("GET", "HEAD"):
            return None
        try:
            url = request.url.join(place)
        except (httpx2.InvalidURL, ValueError):
            raise _not_followed("a redirect to what is no URL") from None
        if _origin(url) != _origin(request.url):
            self._cross(request, url)
        headers = {name: value for name, value in request.headers.items() if name != "host"}
        return httpx2.Request(request.method, url, headers=headers, extensions=request.extensions)

    @staticmethod
    def _cross(request: httpx2.Request, url: httpx2.URL) -> None:
        """Raises `ToolFailure` where another host would get to know what was meant for this one."""
        where = shorten(f"{url.scheme}://{url.host}", 80)
        if request.url.scheme == "https" and url.scheme != "https":
            raise _not_followed(f"a redirect to {where}, which is not encrypted")
        secret = next((name for name in request.headers if name.lower() not in _SAFE), None)
        if secret is not None:
            raise _not_followed(f"a redirect to {where} of a request with the header {shorten(secret, 40)!r}")


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, bare(url.raw_host.decode("ascii")), url.port


def _not_followed(what: str) -> ToolFailure:
    return ToolFailure(f"not followed: {what}", code="redirected", happened=Happened.MAYBE)


def _unreadable(message: str, status: int) -> ToolFailure:
    happened = Happened.YES if status < 300 else Happened.MAYBE
    return ToolFailure(message, code="bad_response", happened=happened)


async def look_up(host: str, port: int) -> list[str]:
    """All addresses of a name, as the system tells them."""
    import socket

    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class _Backend(httpcore2.AsyncNetworkBackend):
    """Opens connections to addresses that were checked, whatever names the pool asks for."""

    def __init__(self, egress: Egress, resolve: Resolve) -> None:
        self._egress, self._resolve = egress, resolve
        self._sockets = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - as httpcore2 calls it
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        literal = read_address(bare(host))
        addresses = [str(literal)] if literal else await self._resolved(bare(host), port, within=timeout)
        problem: Exception = httpcore2.ConnectError(f"{host} has no address")
        for address in self._egress.check(host, port, addresses):
            try:
                return await self._sockets.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                problem = error
        raise problem

    async def _resolved(self, host: str, port: int, *, within: float | None) -> list[str]:
        try:
            with anyio.fail_after(within):
                return list(await self._resolve(host, port))
        except TimeoutError:
            raise httpcore2.ConnectTimeout(f"{host} could not be looked up in time") from None
        except OSError as error:
            raise httpcore2.ConnectError(str(error)) from error

    async def connect_unix_socket(self, *args: Any, **options: Any) -> httpcore2.AsyncNetworkStream:
        raise httpcore2.UnsupportedProtocol("tools speak over TCP")

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


# --- Reading within bounds.


class _Bounded(httpx2.AsyncByteStream):
    """The bytes of an answer, unpacked, as far as the rules let them come."""

    def __init__(
        self, answer: httpcore2.Response, unpack: Any, egress: Egress, deadline: float, host: str
    ) -> None:
        self._answer, self._unpack, self._egress = answer, unpack, egress
        self._deadline, self._host = deadline, host

    async def __aiter__(self) -> AsyncIterator[bytes]:
        most, seen = self._egress.most_bytes, 0
        parts = aiter(self._answer.stream)  # type: ignore[arg-type]
        while True:
            with _until(self._deadline, self._egress.timeout), _told():
                part = await anext(parts, None)
            if part is None:
                break
            for piece in self._unpacked(part):
                seen += len(piece)
                if seen > most:
                    raise ToolFailure(
                        f"the answer of {self._host} is larger than {most:,} bytes",
                        code="answer_too_large",
                        happened=Happened.YES if self._answer.status < 300 else Happened.MAYBE,
                        hint="ask for less, page by page, or raise Egress(most_bytes=…)",
                    )
                yield piece
        if seen and self._unpack is not None and not self._unpack.eof:
            raise _unreadable(f"the answer of {self._host} was cut off", self._answer.status)

    def _unpacked(self, part: bytes) -> Iterator[bytes]:
        if self._unpack is None:
            yield part
            return
        try:
            while piece := self._unpack.decompress(part, _PIECE):
                yield piece
                part = self._unpack.unconsumed_tail
        except zlib.error as error:
            raise _unreadable(
                f"the answer of {self._host} cannot be unpacked: {error}", self._answer.status
            ) from None

    async def aclose(self) -> None:
        await self._answer.aclose()


def _unpacking(encoding: str, host: str, status: int) -> Any:
    """What unpacks an answer piece by piece; None for one that is not packed. Raises `ToolFailure`."""
    match encoding.strip().lower():
        case "" | "identity":
            return None
        case "gzip" | "x-gzip":
            return zlib.decompressobj(zlib.MAX_WBITS | 16)
        case "deflate":
            return zlib.decompressobj()
    message = f"{host} answers packed as {shorten(encoding, 40)!r}, which nobody asked for"
    raise _unreadable(message, status)


@contextmanager
def _until(deadline: float, seconds: float) -> Iterator[None]:
    try:
        with anyio.fail_after(deadline - anyio.current_time()):
            yield
    except TimeoutError as error:
        raise httpx2.ReadTimeout(f"no whole answer within {seconds:g} s") from error


@contextmanager
def _told() -> Iterator[None]:
    """What httpcore2 raises, as httpx2 names it."""
    try:
        yield
    except Exception as error:
        named = getattr(httpx2, type(error).__name__, None)
        if type(error).__module__.partition(".")[0] != "httpcore2" or named is None:
            raise
        raise named(str(error)) from error
