"""Rows that come only once, in a temporary file of the process: JSON Lines, with mode 0600, without a name."""

from __future__ import annotations

import json
import tempfile
import weakref
from collections.abc import Iterator
from typing import BinaryIO, cast

from .rows import RowFinding, SourceRow

__all__ = ["Spool", "temporary_file"]

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def temporary_file(owner: object) -> BinaryIO:
    """A file that nobody else can read, and that is gone when its owner is."""
    file = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115 - closed below
    weakref.finalize(owner, file.close)
    return file


class Spool:
    """Rows of plain JSON, added in order and read from the first on."""

    def __init__(self) -> None:
        self._file = temporary_file(self)

    def add(self, row: SourceRow) -> None:
        self._file.write(_encode([row.line, row.given, row.faults, row.raw]).encode() + b"\n")

    def rows(self) -> Iterator[SourceRow]:
        self._file.seek(0)
        for ordinal, line in enumerate(self._file, 1):
            at, given, faults, raw = json.loads(line)
            yield SourceRow(ordinal, at, given, tuple(RowFinding(*fault) for fault in faults), raw)
