"""Files that a command reads and writes: a sentence for whatever is wrong with them, and never half a file."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from ..planner.documents import Source, read_source
from ..planner.findings import PlanUnreadable
from ..planner.sources import CAPS, read_bytes
from ..policies.errors import BadInput
from ..policies.text import did_you_mean
from .lines import plain
from .screen import Faulty

__all__ = ["STDIN", "open_file", "read_file", "read_text", "refuse_absent", "write_file"]

STDIN = "-"


def read_file(path: str) -> bytes:
    """The content of a file, or of standard input for `-`. Raises `BadInput`."""
    if path == STDIN:
        return _read_stdin()
    refuse_absent(path)
    return read_bytes(path)


def _read_stdin() -> bytes:
    stream = getattr(sys.stdin, "buffer", None)  # none where the shell closed it
    if stream is None:
        raise BadInput("standard input is closed; name a file in place of '-'")
    try:
        data: bytes = stream.read(CAPS.bytes + 1)
    except OSError as error:
        raise BadInput(f"standard input cannot be read: {plain(error.strerror or str(error))}") from None
    if len(data) > CAPS.bytes:
        raise BadInput(f"standard input is larger than {CAPS.bytes:,} bytes")
    return data


def refuse_absent(path: str) -> None:
    """Raises `BadInput` for a file that is not there, with what stands beside it, and for a directory in its place."""
    if not path:
        raise BadInput("the name of a file is empty")
    where = Path(path)
    try:
        if where.is_dir():
            raise BadInput(f"'{plain(path, 200)}' is a directory; give a file in it")
        if where.exists():
            return
        folder = where.parent
        if not folder.is_dir():
            raise BadInput(f"there is no file '{plain(path, 200)}': the directory is not there either")
        near = did_you_mean(where.name, sorted(os.listdir(folder)))
    except (OSError, ValueError):
        return  # reading it says what is wrong
    raise BadInput(f"there is no file '{plain(path, 200)}'{near}")


def read_text(path: str, what: str) -> Source:
    """A YAML or JSON document that is `what` (as in "the policies"). Raises `BadInput`, `Faulty`."""
    data = read_file(path)
    try:
        return read_source(data, source=path)
    except PlanUnreadable as error:
        name = "standard input" if path == STDIN else plain(path, 200)
        raise Faulty(f"{what} in {name} cannot be read", error.findings) from None


@contextmanager
def open_file(path: str) -> Iterator[IO[bytes]]:
    """A file that is read line by line, however large, or standard input for `-`. Raises `BadInput`."""
    if path == STDIN:
        yield sys.stdin.buffer
        return
    refuse_absent(path)
    try:
        file = open(path, "rb")  # noqa: SIM115 - only what keeps it from being opened is told here
    except OSError as error:
        reason = error.strerror or str(error)
        raise BadInput(f"the file '{plain(path, 200)}' cannot be read: {plain(reason)}") from None
    with file:
        yield file


def write_file(path: str, text: str) -> None:
    """Write a file whole or not at all: beside it first, then in its place. Raises `BadInput`."""
    target = Path(os.path.realpath(path))
    try:
        if target.is_dir():
            raise BadInput(f"'{plain(path, 200)}' is a directory; name a file in it")
        if target.exists() and not target.is_file():  # a device or a pipe is written to, not replaced
            target.write_text(text, encoding="utf-8")
            return
        _replace(target, text.encode())
    except OSError as error:
        reason = error.strerror or str(error)
        raise BadInput(f"the file '{plain(path, 200)}' cannot be written: {plain(reason)}") from None


def _replace(target: Path, data: bytes) -> None:
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name[:40]}-", dir=target.parent)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, _mode(target))
        os.replace(name, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def _mode(target: Path) -> int:
    """The permissions of the file that is replaced, or what the umask gives a new one."""
    try:
        return target.stat().st_mode & 0o777
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
