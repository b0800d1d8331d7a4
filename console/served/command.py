"""`foreplan mcp`: a server over these tools, by these rules, for one principal, until the client hangs up or Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import shlex
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ...executor.engine import Engine
from ...policies.errors import BadInput
from .. import options as o
from ..files import read_file
from ..journals import Opened
from ..lines import plain
from ..screen import Code, Interrupted, Screen
from ..setting import Kept, Minds, Rules, Setting
from ..waiting import ended_by_sigterm, wait_for
from .doors import over_http, over_stdio, read_address
from .server import mcp_server, sdk

__all__ = ["Door", "serve"]

_SHORTEST = 16
"""Characters of a token at least."""


@dataclass(frozen=True)
class Door:
    """How clients come in."""

    http: o.Http = None
    token: o.TokenFile = None
    names: o.AllowHost = field(default_factory=list)

    def address(self) -> tuple[str, int] | None:
        """Where it listens; None where the client speaks over stdio. Raises `BadInput`."""
        if self.http is not None:
            return read_address(self.http)
        for word, value in (("--token", self.token), ("--allow-host", self.names)):
            if value:
                raise BadInput(f"{word} is for a server over HTTP; give --http HOST:PORT, too")
        return None

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


def serve(
    screen: Screen,
    *,
    tools: o.Tools,
    minds: Minds,
    kept: Kept,
    approvals: o.ApprovalFolder = None,
    approver_keys: o.ApproverKey = o.MANY,
    door: Door,
    rules: Rules,
    authorize: o.AuthorizeWord = None,
) -> Code:
    """Serve plans to an MCP client.

    It checks, reviews and, with a journal, runs plans; what needs an approval runs only when a person gave one here.
    """
    sdk()
    setting = Setting(tools, rules, minds, kept, authorize, tuple(approver_keys))
    address = door.address()
    token = door.read_token()
    with Opened(kept.journal, key=kept.journal_key) as journal:
        engine = Engine(**setting.loaded(), journal=journal)
        command = partial(_spelled, setting)
        server = mcp_server(engine, approvals=_folder(approvals, kept.journal), command=command)

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


def _folder(said: str | None, journal: str | None) -> Path | None:
    """Where people put approvals: what was said, else beside the journal."""
    beside = f"{journal}-approvals" if journal is not None else None
    folder = said or beside
    return Path(folder).absolute() if folder is not None else None


def _spelled(setting: Setting, name: str, *words: str) -> str:
    """A command for a person who sits elsewhere: files are named as seen from where this server was started."""
    return f"cd {shlex.quote(os.getcwd())} && {setting.command(name, *words)}"
