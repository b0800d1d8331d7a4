"""A service on loopback that gives scripted answers over HTTP, streamed or whole, and keeps what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["Answer", "Service", "service", "stream"]


@dataclass
class Answer:
    """One answer; `promised` bytes more than are sent mean a connection that is broken off."""

    body: bytes
    status: int = 200
    kind: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    promised: int = 0


def stream(*parts: Mapping[str, Any] | str, named: bool = False, promised: int = 0) -> Answer:
    """An answer as server-sent events; a text stands as it is. `named` writes the type of each as its event."""
    lines = [
        (f"event: {part['type']}\n" if named and not isinstance(part, str) else "")
        + f"data: {part if isinstance(part, str) else json.dumps(part)}\n\n"
        for part in parts
    ]
    return Answer("".join(lines).encode(), kind="text/event-stream", promised=promised)


@dataclass
class Service:
    """Where it listens, and what it was asked: path, headers in lower case, and the document."""

    url: str
    asked: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)

    @property
    def body(self) -> Any:
        """The last document that was sent to it."""
        return self.asked[-1][2]


@contextmanager
def service(*answers: Answer | Mapping[str, Any] | list[Any]) -> Iterator[Service]:
    """A service with these answers, in turn; an object is sent as JSON."""
    script = iter([a if isinstance(a, Answer) else Answer(json.dumps(a).encode()) for a in answers])
    known = Service("")

    class Speaker(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            known.asked.append((self.path, headers, json.loads(sent)))
            self._say(next(script))

        def _say(self, answer: Answer) -> None:
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.kind)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if answer.promised or answer.kind == "application/json":
                self.send_header("Content-Length", str(len(answer.body) + answer.promised))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Speaker)
    known.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield known
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def only(items: Iterable[Any]) -> Any:
    """The one item there is."""
    (item,) = items
    return item
