"""A server on loopback that misbehaves on demand: by path over HTTP, by script for line protocols.

Nothing here waits for a clock: where a client is to run out of time, the server waits until that client hangs up.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from email.utils import formatdate

__all__ = ["DATE", "Server", "closed_port", "crowded_port"]

DATE = 1_800_000_000
"""What the server's `Date` header says, in epoch seconds; Retry-After dates are seven seconds later."""


class Server:
    """Answers each connection in a thread of its own. `script` is a greeting and one answer per line received."""

    def __init__(self, *, script: tuple[bytes, ...] = (), tls: ssl.SSLContext | None = None) -> None:
        self._script = script
        self._tls = tls
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self.port: int = self._socket.getsockname()[1]

    def __enter__(self) -> Server:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        for connection in (self._socket, *self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        for thread in self._threads:
            thread.join(5)

    def url(self, path: str = "") -> str:
        """The address of a path."""
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://127.0.0.1:{self.port}/{path}"

    def _start(self, work: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=work, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        self._open.add(connection)
        with contextlib.suppress(OSError, ValueError):  # the client hung up, or never spoke TLS
            if self._tls is not None:
                self._open.discard(connection)
                connection = self._tls.wrap_socket(connection, server_side=True)
                self._open.add(connection)
            self._converse(connection) if self._script else self._answer(connection)
        self._open.discard(connection)
        connection.close()

    def _converse(self, connection: socket.socket) -> None:
        with connection.makefile("rb") as lines:
            connection.sendall(self._script[0])
            for answer in self._script[1:]:
                lines.readline()
                connection.sendall(answer)

    def _answer(self, connection: socket.socket) -> None:
        if connection.recv(1, socket.MSG_PEEK) == b"\x16":  # TLS, where none is spoken
            connection.recv(65536)
            _status(connection, "400")
            return _await_hang_up(connection)
        with connection.makefile("rb") as lines:
            words = lines.readline().split()
            while lines.readline().strip():
                pass
            if words[:1] == [b"CONNECT"]:
                _status(connection, "403")
            elif words:
                name, _, argument = words[1].decode().split("?")[0].strip("/").partition("/")
                _ANSWERS[name](connection, argument)


def _send(connection: socket.socket, status: str, *headers: str, body: bytes = b"") -> None:
    head = (
        f"HTTP/1.1 {status}",
        *headers,
        f"Date: {formatdate(DATE, usegmt=True)}",
        "Connection: close",
        "",
        "",
    )
    connection.sendall("\r\n".join(head).encode() + body)


def _await_hang_up(connection: socket.socket) -> None:
    while connection.recv(4096):
        pass


def _status(connection: socket.socket, argument: str) -> None:
    _send(connection, f"{argument} Said So", "Content-Length: 9", body=b"very well")


def _later(connection: socket.socket, argument: str) -> None:
    status, form = argument.split("/")
    wait = "7" if form == "seconds" else formatdate(DATE + 7, usegmt=True)
    _send(connection, f"{status} Later", f"Retry-After: {wait}", "Content-Length: 0")


def _reset(connection: socket.socket, _: str = "") -> None:
    """No lingering: what closes the connection, in a moment, sends a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _reset_in_body(connection: socket.socket, _: str) -> None:
    _send(connection, "200 OK", "Content-Length: 100000", body=b"half an")
    _reset(connection)


def _silent(connection: socket.socket, _: str) -> None:
    _await_hang_up(connection)


def _slow_body(connection: socket.socket, _: str) -> None:
    _send(connection, "200 OK", "Content-Length: 100", body=b"half an")
    _await_hang_up(connection)


def _cut(connection: socket.socket, _: str) -> None:
    _send(connection, "200 OK", "Content-Length: 100", body=b"half an")


def _cut_chunk(connection: socket.socket, _: str) -> None:
    _send(connection, "200 OK", "Transfer-Encoding: chunked", body=b"64\r\nhalf a chunk")


def _bad_chunk(connection: socket.socket, _: str) -> None:
    _send(connection, "200 OK", "Transfer-Encoding: chunked", body=b"zzz\r\nwhat\r\n")


def _garbage(connection: socket.socket, _: str) -> None:
    connection.sendall(b"\x16\x03 this is no HTTP at all\r\n\r\n")


def _bad_gzip(connection: socket.socket, _: str) -> None:
    _send(connection, "200 OK", "Content-Encoding: gzip", "Content-Length: 9", body=b"very well")


def _html(connection: socket.socket, _: str) -> None:
    _send(connection, "200 OK", "Content-Type: text/html", "Content-Length: 6", body=b"<html>")


def _around(connection: socket.socket, _: str) -> None:
    _send(connection, "302 Found", "Location: /around", "Content-Length: 0")


_ANSWERS: dict[str, Callable[[socket.socket, str], None]] = {
    "status": _status,
    "later": _later,
    "reset": _reset,
    "reset-in-body": _reset_in_body,
    "silent": _silent,
    "slow-body": _slow_body,
    "hang-up": lambda connection, _: None,
    "cut": _cut,
    "cut-chunk": _cut_chunk,
    "bad-chunk": _bad_chunk,
    "garbage": _garbage,
    "bad-gzip": _bad_gzip,
    "html": _html,
    "around": _around,
}


def closed_port() -> int:
    """A port on loopback where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextlib.contextmanager
def crowded_port() -> Iterator[int | None]:
    """A port whose queue is full, so that connecting waits; None on systems that do not let callers wait."""
    if sys.platform != "linux":
        yield None
        return
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=1))
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                waiting.connect(listener.getsockname())
        yield int(listener.getsockname()[1])
