"""A server written with the SDK's own server API; as a program it speaks over stdio, or over HTTP on loopback (`http`)."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import Context, MCPServer

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from support.signing_in import TOKEN, Said, signing_in

__all__ = ["URL_OF", "command"]

URL_OF = "listening at "
CALLED: list[str] = []
CHANGES: list[str] = []
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
def heard(context: Context[Any, Any]) -> str:
    """By which header the caller was let in."""
    return f"let in by {(context.headers or {}).get('authorization')}"


@SERVER.tool()
async def change(context: Context[Any, Any]) -> str:
    """Become another, each time, and say so."""
    CHANGES.append("change")
    SERVER.remove_tool("total")
    SERVER.add_tool(total, description=f"Add, and keep {len(CHANGES)} of them.")
    await context.notify_tools_changed()
    return "changed"


async def guarded(scope: Any, receive: Any, send: Any, app: Any, base: str) -> None:
    """Without the right header nobody is let in; `put` is asked too often; `/moved` is elsewhere."""
    if scope["type"] != "http":
        await app(scope, receive, send)
        return
    headers = {name.decode(): value.decode() for name, value in scope["headers"]}
    said = await refusal(scope, headers, receive, base)
    if said is None:
        await app(scope, receive, send)
        return
    told = [(name.encode(), value.encode()) for name, value in said[1].items()]
    await send({"type": "http.response.start", "status": said[0], "headers": told})
    await send({"type": "http.response.body", "body": said[2]})


async def refusal(
    scope: Any, headers: dict[str, str], receive: Any, base: str
) -> tuple[int, dict[str, str], bytes] | None:
    """What is answered before the server itself is asked, if anything is."""
    path, who = scope["path"], headers.get("authorization", "")
    if path.startswith("/moved/"):
        return 307, {"location": path.removeprefix("/moved/")}, b""
    if path != "/mcp":
        body = (await receive())["body"].decode()
        said = signing_in(base, path, scope["query_string"].decode(), who, body) or Said(404)
        told = {"location": said.location} if said.location else {"content-type": "application/json"}
        return said.status, told, json.dumps(said.document).encode()
    if who != f"Bearer {TOKEN}":
        where = f"{base}/.well-known/oauth-protected-resource/mcp"
        return 401, {"www-authenticate": f'Bearer resource_metadata="{where}"'}, b""
    return (429, {"retry-after": "7"}, b"") if headers.get("mcp-name") == "put" else None


def over_http() -> None:
    import uvicorn

    inside = SERVER.streamable_http_app()
    listening = socket.create_server(("127.0.0.1", 0))
    base = f"http://127.0.0.1:{listening.getsockname()[1]}"

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await guarded(scope, receive, send, inside, base)

    print(f"{URL_OF}{base}/mcp", flush=True)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on"))
    server.run(sockets=[listening])


if __name__ == "__main__":
    if "http" in sys.argv:
        over_http()
    else:
        SERVER.run()
