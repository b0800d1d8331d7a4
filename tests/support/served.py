"""foreplan as an MCP server in tests: a client of the official SDK, and what it is told.

async with served(engine, folder) as client: ...     in this process, at once
told = await asked(client, "check", plan=PLAN)        .failed .text .document
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import anyio
from mcp import Client

from foreplan import Engine, mcp_server

__all__ = ["Progress", "Told", "asked", "over", "served"]


class Progress:
    """Keeps what a client is told while it waits; `rang` once something was."""

    def __init__(self) -> None:
        self.heard: list[tuple[float, str]] = []
        self.rang = anyio.Event()

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """A notification came."""
        self.heard.append((progress, message or ""))
        self.rang.set()


class Told(NamedTuple):
    """An answer of the server."""

    failed: bool
    text: str
    document: Any


@asynccontextmanager
async def served(engine: Engine, folder: Path | None = None) -> AsyncIterator[Client]:
    """A client of a server over this engine."""
    with anyio.fail_after(60):
        async with Client(mcp_server(engine, approvals=folder)) as client:
            yield client


async def asked(client: Client, name: str, **args: Any) -> Told:
    """What a tool answers; the SDK's client holds it against the schema that was promised."""
    answer = await client.call_tool(name, args)
    text = "\n".join(part.text for part in answer.content if part.type == "text")
    return Told(answer.is_error, text, answer.structured_content)


async def over(client: Client, run: str) -> Told:
    """How a run stands that is no longer under way."""
    while True:
        told = await asked(client, "status", run=run)
        if told.failed or told.document["state"] != "running":
            return told
        await anyio.lowlevel.checkpoint()
