"""Four requests at once to a server that misbehaves: `python examples/parallel_http.py`.

The server is started here, on the loopback address. Each of its pages fails in its own way the first time and answers
the second time; what failed is classified, waited for as its kind demands, and asked again.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

from typing_extensions import TypedDict

from foreplan import Effect, Engine, MemoryJournal, Plan, Policies, Registry, Retry, tool
from foreplan.console import telling
from foreplan.console.screen import Screen


class Page(TypedDict):
    """What a page of the server says."""

    page: str
    tries: int


@tool(effect=Effect.READS)
def fetch(url: str) -> Page:
    """Fetch a page.

    Args:
        url: Its address.
    """
    try:
        with urllib.request.urlopen(url, timeout=1) as answer:
            page: Page = json.load(answer)
            return page
    except urllib.error.HTTPError as refusal:
        refusal.close()  # it holds the connection
        raise


PLAN = Plan.model_validate(
    {
        "goal": "Fetch every page",
        "inputs": {
            "type": "object",
            "properties": {
                "server": {"type": "string"},
                "pages": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["server", "pages"],
        },
        "steps": [
            {
                "id": "pages",
                "each": {"$": "inputs.pages"},
                "as": "page",
                "tool": "fetch",
                "args": {"url": {"$": "f'{inputs.server}/{page}'"}},
            }
        ],
        "output": {"$": "{p.page: p.tries for p in pages}"},
    }
)


class Moody(BaseHTTPRequestHandler):
    """Answers `/fine` at once, and the other pages only the second time they are asked for."""

    asked: ClassVar[Counter[str]] = Counter()
    done: ClassVar[threading.Event] = threading.Event()

    def do_GET(self) -> None:
        page = self.path.strip("/")
        self.asked[page] += 1
        if self.asked[page] > 1 or page == "fine":
            self.answer(200, json.dumps({"page": page, "tries": self.asked[page]}))
        elif page == "slow":
            self.done.wait(30)
        elif page == "busy":
            self.answer(429, "", {"Retry-After": "1"})
        else:
            self.answer(500, "")

    def answer(self, status: int, body: str, headers: dict[str, str] | None = None) -> None:
        """Send a whole answer."""
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: what happened is shown from the journal."""


def main() -> int:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Moody)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    journal = MemoryJournal()
    engine = Engine(Registry(fetch), policies=Policies(retry=Retry(attempts=3)), journal=journal)
    inputs = {"server": f"http://127.0.0.1:{server.server_port}", "pages": ["fine", "slow", "busy", "broken"]}

    began = time.monotonic()
    run = engine.run_blocking(PLAN, inputs=inputs)
    took = time.monotonic() - began
    Moody.done.set()
    server.shutdown()
    server.server_close()
    Screen().show(telling.event_list(journal.events(run.id)), telling.account(run, took=took))
    return 0 if run.state == "done" else 1


if __name__ == "__main__":
    raise SystemExit(main())
