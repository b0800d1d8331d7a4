"""A server written with the SDK's own server API; as a program it speaks over stdio, or over HTTP on loopback (`http`)."""

from __future__ import annotations

import socket
import sys
from typing import Any

from mcp.server.mcpserver import Context, MCPServer

__all__ = ["URL_OF", "command"]

URL_OF = "listening at "
CALLED: list[str] = []
SERVER = MCPServer("tests", log_level="ERROR")


def command(*words: str) -> list[str]:
    """How to start it."""
    return [sys.executable, __file__, *words]


@SERVER.tool()
async def total(a: int, b: int, context: Context[Any, Any]) -> dict[str, int]:
    """Add two numbers."""
    CALLED.append("total")
    await context.report_progress(1, 2, "half")
    return {"total": a + b}


@SERVER.tool()
def put() -> str:
    """Asked too often, over HTTP."""
    return "put"


@SERVER.tool()
def called() -> list[str]:
    """What was called so far."""
    return CALLED


@SERVER.tool()
async def change(context: Context[Any, Any]) -> str:
    """Become another, and say so."""
    SERVER.remove_tool("total")
    SERVER.add_tool(called, name="total", description="Add, and keep.")
    await context.notify_tools_changed()
    return "changed"


async def guarded(scope: Any, receive: Any, send: Any, app: Any) -> None:
    """Without the right header nobody is let in; `put` is asked too often."""
    headers = dict(scope.get("headers", ()))
    status = 0
    if scope["type"] == "http":
        right = headers.get(b"authorization") == b"Bearer the-secret-of-tests"
        status = 401 if not right else 429 if headers.get(b"mcp-name") == b"put" else 0
    if not status:
        await app(scope, receive, send)
        return
    told = [(b"retry-after", b"7")] if status == 429 else []
    await send({"type": "http.response.start", "status": status, "headers": told})
    await send({"type": "http.response.body", "body": b""})


def over_http() -> None:
    import uvicorn

    inside = SERVER.streamable_http_app()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await guarded(scope, receive, send, inside)

    listening = socket.create_server(("127.0.0.1", 0))
    print(f"{URL_OF}http://127.0.0.1:{listening.getsockname()[1]}/mcp", flush=True)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on"))
    server.run(sockets=[listening])


if __name__ == "__main__":
    if "http" in sys.argv:
        over_http()
    else:
        SERVER.run()
