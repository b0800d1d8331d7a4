"""A server written with the SDK's own server API; as a program it speaks over stdio, or over HTTP on loopback (`http`)."""

from __future__ import annotations

import base64
import json
import socket
import sys
from typing import Any

from mcp.server.mcpserver import Context, MCPServer

__all__ = ["PASSWORD", "URL_OF", "command"]

URL_OF = "listening at "
PASSWORD = "tester:the-password-of-tests"
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


WRONG = json.dumps({"error": "invalid_client"}).encode()


def signing_in(path: str, headers: dict[bytes, bytes], base: str) -> tuple[int, bytes] | None:
    """RFC 9728, 8414 and 6749, section 4.4, in small: where to sign in, and a token for whoever knows the password."""
    if path == "/.well-known/oauth-protected-resource/mcp":
        return 200, json.dumps({"resource": f"{base}/mcp", "authorization_servers": [base]}).encode()
    if path == "/.well-known/oauth-authorization-server":
        ends = {"authorization_endpoint": f"{base}/authorize", "token_endpoint": f"{base}/token"}
        return 200, json.dumps({"issuer": base, "response_types_supported": ["code"], **ends}).encode()
    if path == "/token":
        right = headers.get(b"authorization") == b"Basic " + base64.b64encode(PASSWORD.encode())
        token = {"access_token": "the-secret-of-tests", "token_type": "Bearer", "expires_in": 3600}
        return (200, json.dumps(token).encode()) if right else (401, WRONG)
    return None


async def guarded(scope: Any, receive: Any, send: Any, app: Any, base: str) -> None:
    """Without the right header nobody is let in; `put` is asked too often; `/moved` is elsewhere."""
    if scope["type"] != "http":
        await app(scope, receive, send)
        return
    headers = dict(scope["headers"])
    told = [(b"content-type", b"application/json")]
    status, body = signing_in(scope["path"], headers, base) or (0, b"")
    if scope["path"].startswith("/moved/"):
        status, told = 307, [(b"location", scope["path"].removeprefix("/moved/").encode())]
    elif not status and headers.get(b"authorization") != b"Bearer the-secret-of-tests":
        where = f'Bearer resource_metadata="{base}/.well-known/oauth-protected-resource/mcp"'
        status, told = 401, [(b"www-authenticate", where.encode())]
    elif not status and headers.get(b"mcp-name") == b"put":
        status, told = 429, [(b"retry-after", b"7")]
    if not status:
        await app(scope, receive, send)
        return
    await send({"type": "http.response.start", "status": status, "headers": told})
    await send({"type": "http.response.body", "body": body})


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
