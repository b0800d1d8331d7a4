"""llama.cpp as a process of ours: started when it is needed, shared by all who want the same, gone when we are.

    Settings --shared()--> LlamaServer --address()--> http://127.0.0.1:PORT, behind a key that nobody else has

A process of its own, because llama.cpp ends the process it runs in where an assertion fails, takes its signals, and
keeps Python waiting while it loads (docs/decisions/0022). It ends when our end of its standard input closes, so also
when we are killed.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import IO, NamedTuple

from ...policies.errors import BadInput
from ...policies.text import shorten
from .telling import needs

__all__ = ["LlamaServer", "Settings", "packages", "shared"]

_CHILD = Path(__file__).with_name("llama_child.py")
_REMEMBERED = 512
"""MiB of other prompts' states that the server keeps in memory, so that two planners do not drive each other out."""
_PATIENCE = 5.0
"""Seconds a process that was told to end may take."""
_DYING = 1.0
"""Seconds from a broken connection to the end of the process that had it."""
_WAITING = {"OMP_WAIT_POLICY": "passive", "GGML_NO_BACKTRACE": "1"}
"""Threads that wait do not spin, which costs others a core each; a failed assertion starts no debugger."""


class Settings(NamedTuple):
    """What two models must have in common to share a process. `kept` is a folder for states, or empty."""

    model: str
    context: int
    threads: int
    kept: str


class LlamaServer:
    """One process with one model; every method may be called from any thread."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.key = secrets.token_urlsafe(32)
        self.ready: set[str] = set()
        """Beginnings of prompts that this process has read already."""
        self.guided = False
        """Whether it takes grammars of llguidance."""
        self.users = 0
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] | None = None
        self._address = ""

    def address(self) -> str:
        """Where it listens; it is started if it is not running. Raises `BadInput` where the model does not load."""
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._end()
                self._start()
            return self._address

    def ended(self) -> str:
        """Why its process ended, if it did so by itself; else empty. A connection breaks before the end is known."""
        with self._lock:
            try:
                code = None if self._process is None else self._process.wait(_DYING)
            except subprocess.TimeoutExpired:
                code = None
            if code is None:
                return ""
            how = f"signal {-code}" if code < 0 else f"status {code}"
            return f"the process of the model ended with {how}{self._reason()}"

    def close(self) -> None:
        """End the process, whatever it is doing."""
        with self._lock:
            self._end()

    def _start(self) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (closed in _end)
        self._process = process = subprocess.Popen(
            [_python(), "-I", str(_CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env={**_WAITING, **os.environ},
            start_new_session=True,  # Ctrl-C in a terminal is for us
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(self._told())
            process.stdin.flush()
        except BrokenPipeError:
            pass  # it ended at once; what it said is told below
        line = process.stdout.readline()
        if not line:
            process.wait(_PATIENCE)
            reason = self._reason()
            self._end()
            raise BadInput(f"llama.cpp cannot load {self.settings.model}{reason or ', and says no reason'}")
        told = json.loads(line)
        self._address, self.guided = told["address"], told["guided"]

    def _told(self) -> bytes:
        more = {"key": self.key, "packages": packages(), "remembered": _REMEMBERED}
        return json.dumps({**self.settings._asdict(), **more}).encode() + b"\n"

    def _reason(self) -> str:
        if self._said is None:
            return ""
        self._said.seek(0)
        lines = self._said.read(200_000).decode("utf-8", "replace").splitlines()
        told = [found[1] for text in lines if (found := _COMPLAINT.search(text))]
        return f": {shorten(told[0], 300)}" if told else ""

    def _end(self) -> None:
        process, self._process, self._address = self._process, None, ""
        self.ready.clear()
        if process is not None:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdout.close()
            try:
                process.stdin.close()
                process.wait(_PATIENCE)
            except (subprocess.TimeoutExpired, BrokenPipeError):
                process.kill()
                process.wait()
        if self._said is not None:
            self._said.close()
            self._said = None


_COMPLAINT = re.compile(r"(?:\bE \S+: |(?=GGML_ASSERT|\w*Error: ))(.+)")

_SERVERS: dict[tuple[int, Settings], LlamaServer] = {}
_LOCK = Lock()


def shared(settings: Settings, user: object) -> tuple[LlamaServer, Callable[[], None]]:
    """The server with these settings, and how `user` lets go of it; the last one ends it, at the latest at exit."""
    key = (os.getpid(), settings)
    with _LOCK:
        server = _SERVERS.setdefault(key, LlamaServer(settings))
        server.users += 1
    return server, weakref.finalize(user, _let_go, key, server)


def _let_go(key: tuple[int, Settings], server: LlamaServer) -> None:
    if key[0] != os.getpid():
        return  # a forked process: the server is its parent's
    with _LOCK:
        server.users -= 1
        if server.users:
            return
        _SERVERS.pop(key, None)
    server.close()


def packages() -> str:
    """The folder in which `xllamacpp` is installed. Raises `BadInput` where it is not."""
    found = find_spec("xllamacpp")
    if found is None or found.origin is None:
        raise needs("xllamacpp", "local")
    return str(Path(found.origin).parents[1])


def _python() -> str:
    if not sys.executable:
        raise BadInput(
            "a local model runs in a Python of its own, and this program does not say where Python is"
        )
    return sys.executable
