"""States of a model after the beginning of a prompt, kept on disk: what took twenty seconds to read is loaded in one.

A state is a file that llama.cpp wrote, under the digest of all it depends on, and beside it the digest of its content:
llama.cpp ends its process over a damaged one. Only beginnings are kept that every request with the same tools shares,
never a goal or an answer.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from .known_models import cache_folder
from .pulling import sha256_of

__all__ = ["Prefix", "prefix_folder"]

LARGEST = 1 << 30
"""Bytes of all states together; the oldest go first."""


def prefix_folder() -> Path:
    """Where states are kept, readable by nobody else; it is made if it is not there."""
    folder = cache_folder() / "prefixes"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


class Prefix:
    """One state on disk: `name` is what llama.cpp is told, within its folder."""

    def __init__(self, folder: Path, *parts: object) -> None:
        self.key = hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:32]
        self.folder = folder
        self.name = f"{self.key}.state"
        self.draft = f"{self.key}.{os.getpid()}.draft"
        self._sum = folder / f"{self.key}.sha256"

    def sound(self) -> bool:
        """Whether it is there, and as it was written; a damaged one is taken away."""
        try:
            said = self._sum.read_text()
            if sha256_of(self.folder / self.name) == said:
                (self.folder / self.name).touch()
                return True
        except OSError:
            return False
        self.forget()
        return False

    def keep(self) -> None:
        """What llama.cpp wrote as `draft` becomes the state. Others make room for it."""
        draft = self.folder / self.draft
        written = self._sum.with_suffix(f".{os.getpid()}.sum")
        written.write_text(sha256_of(draft))
        written.replace(self._sum)
        draft.replace(self.folder / self.name)
        self._make_room()

    def forget(self) -> None:
        """Take it away, and what is left of a draft."""
        for path in (self._sum, self.folder / self.name, self.folder / self.draft):
            with suppress(OSError):
                path.unlink()

    def _make_room(self) -> None:
        states = sorted(self.folder.glob("*.state"), key=lambda path: path.stat().st_mtime, reverse=True)
        total = 0
        for state in states:
            total += state.stat().st_size
            if total > LARGEST and state.name != self.name:
                state.with_suffix(".sha256").unlink(missing_ok=True)
                state.unlink(missing_ok=True)
