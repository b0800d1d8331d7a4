"""`foreplan mcp`: a server over these tools, by these rules, for one principal, until the client hangs up or Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import shlex
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ...executor.engine import Engine
from ...policies.errors import BadInput
from ..commands import Setting, opened
from ..files import read_file
from ..lines import plain
from ..screen import Code, Interrupted, Screen
from ..waiting import ended_by_sigterm, wait_for
from .doors import over_http, over_stdio, read_address
from .server import mcp_server, sdk

__all__ = ["Door", "serve"]

_SHORTEST = 16


@dataclass(frozen=True)
class Door:
    """The words that say how clients come in: `http` an address, or "" for stdio."""

    http: str | None = None
    token: str | None = None
    names: tuple[str, ...] = ()
    approvals: str | None = None

    def read_token(self) -> str:
        """The token in the file. Raises `BadInput` where it is none that could be kept secret."""
        if self.token is None:
            return ""
        said = read_file(self.token).decode("ascii", "replace").strip()
        if len(said) < _SHORTEST or not said.isascii() or len(said.split()) != 1:
            raise BadInput(
                f"the token in {plain(self.token, 200)} must be one word of {_SHORTEST} ASCII characters and more"
            )
        return said

    def folder(self, setting: Setting) -> Path | None:
        """Where people put approvals: what was said, else beside the journal."""
        beside = f"{setting.journal}-approvals" if setting.journal is not None else None
        said = self.approvals or beside
        return Path(said).absolute() if said is not None else None


def serve(screen: Screen, setting: Setting, door: Door) -> Code:
    """Serve until the client hangs up, or whoever started it ends it; what runs then is paused."""
    sdk()
    for word, value in (("--token", door.token), ("--allow-host", door.names)):
        if value and door.http is None:
            raise BadInput(f"{word} is for a server over HTTP; give --http HOST:PORT, too")
    address = read_address(door.http) if door.http is not None else None
    token = door.read_token()
    with opened(setting.journal, key=setting.journal_key) as journal:
        engine = Engine(**setting.loaded(), journal=journal)
        server = mcp_server(engine, approvals=door.folder(setting), command=partial(_spelled, setting))

        def tell(url: str) -> None:
            screen.document({"url": url})
            screen.say(f"serving at {url}")

        async def go() -> None:
            with ended_by_sigterm():
                if address is None:
                    await over_stdio(server, screen.out.file)
                else:
                    await over_http(server, address, token=token, names=door.names, tell=tell)

        try:
            wait_for(go)
        except (KeyboardInterrupt, asyncio.CancelledError):
            raise Interrupted("the server has ended; what ran has paused") from None
    return Code.DONE


def _spelled(setting: Setting, name: str, *words: str) -> str:
    """A command for a person who sits elsewhere: files are named as seen from where this server was started."""
    return f"cd {shlex.quote(os.getcwd())} && {setting.command(name, *words)}"
