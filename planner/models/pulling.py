"""Fetching a model file: part by part, resumed where it was cut, and only kept if it is the file that was meant.

FILE.part  --all bytes there, sha256 right-->  FILE, by one rename
"""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from ...policies.errors import BadInput, ForeplanError
from .known_models import KnownModel

__all__ = ["Told", "pull", "sha256_of"]

_PIECE = 1 << 20
_TIMEOUT = 60.0
"""Seconds without a byte after which a connection counts as broken."""
_AGAIN = 5
"""Times in a row that a connection may break without a byte gained."""

Told = Callable[[int, int], None]
"""Called with the bytes that are there and the bytes of the whole."""


def pull(model: KnownModel, folder: Path, *, told: Told = lambda have, whole: None) -> Path:
    """The file of this model in this folder, fetched if it is not there; `told(bytes there, bytes in all)` as it goes.

    What an earlier try left (`FILE.part`) is gone on with. Raises `BadInput` where the file cannot be kept there, and
    `ForeplanError` where it cannot be fetched or is another file than was meant.
    """
    target = folder / model.file
    if target.exists():
        _expect_same(target, model, target)
        return target
    with _as_sentences(folder, model):
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f"{model.file}.part"
        _expect_space(folder, model, part)
        with part.open("ab") as file:
            _expect_alone(file, part)
            _fetch(model, file, told)
            os.fsync(file.fileno())
        try:
            _expect_same(part, model, target)
        except ForeplanError:
            part.unlink()
            raise
        part.replace(target)
    return target


@contextmanager
def _as_sentences(folder: Path, model: KnownModel) -> Iterator[None]:
    try:
        yield
    except urllib.error.HTTPError as error:
        raise ForeplanError(f"{model.url} answers {error.code} {error.reason}") from None
    except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as error:
        why = getattr(error, "reason", None) or error
        why = getattr(why, "strerror", None) or why
        raise ForeplanError(
            f"{model.url} cannot be fetched: {why}; what has come is kept, so pull it again, or fetch the file "
            f"another way and give its path to LocalModel"
        ) from None
    except OSError as error:
        raise BadInput(f"the model cannot be kept in {folder}: {error.strerror or error}") from None


def _expect_space(folder: Path, model: KnownModel, part: Path) -> None:
    needed = model.bytes - (part.stat().st_size if part.exists() else 0)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise BadInput(f"{folder} has {free:,} bytes free and {model.name} needs {needed:,} more; see --to")


def _expect_alone(file: BinaryIO, part: Path) -> None:
    """Two that write the same part would spoil it. The kernel frees this lock however its holder ends."""
    try:
        import fcntl
    except ImportError:  # Windows, where an open file is not shared for writing anyway
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BadInput(f"somebody else is fetching {part.name} at this moment; wait for it") from None


def _fetch(model: KnownModel, file: BinaryIO, told: Told) -> None:
    """All bytes into the part; a connection that breaks is opened again as long as each brings something."""
    left = _AGAIN
    while (have := file.seek(0, os.SEEK_END)) < model.bytes:
        try:
            _fetch_rest(model, file, have, told)
        except (urllib.error.HTTPError, urllib.error.URLError, http.client.HTTPException, OSError) as error:
            gained = file.seek(0, os.SEEK_END) > have
            left = _AGAIN if gained else left - 1
            if left == 0 or not _worth_trying(error):
                raise
    if have > model.bytes:
        file.truncate(0)
        raise ForeplanError(
            f"{model.url} gives more than the {model.bytes:,} bytes of {model.name}; pull it again"
        )


def _worth_trying(error: Exception) -> bool:
    if isinstance(error, urllib.error.HTTPError):
        return error.code in (408, 429, 500, 502, 503, 504)
    inner = getattr(error, "reason", error)
    return isinstance(inner, http.client.HTTPException | ConnectionError | TimeoutError)


def _fetch_rest(model: KnownModel, file: BinaryIO, have: int, told: Told) -> None:
    request = urllib.request.Request(
        model.url, headers={"User-Agent": "foreplan", "Accept-Encoding": "identity"}
    )
    if have:
        request.add_header("Range", f"bytes={have}-")
    with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:
        if have and not _goes_on(answer, have):
            file.truncate(0)
            have = 0
        told(have, model.bytes)
        while piece := answer.read(_PIECE):
            file.write(piece)
            have += len(piece)
            told(have, model.bytes)
            if have > model.bytes:
                return
        if have < model.bytes:
            raise http.client.IncompleteRead(b"", model.bytes - have)


def _goes_on(answer: Any, have: int) -> bool:
    """Whether a server gives the rest that it was asked for; some give all again."""
    return answer.status == 206 and str(answer.headers.get("Content-Range", "")).startswith(f"bytes {have}-")


def _expect_same(path: Path, model: KnownModel, target: Path) -> None:
    """Raises `ForeplanError` where a file is not the one that was meant."""
    found = sha256_of(path)
    if found != model.sha256:
        advice = f"delete {path} and pull it again" if path == target else "it was deleted; pull it again"
        raise ForeplanError(
            f"{path.name} is not {model.name}: its sha256 is {found}, not {model.sha256}; {advice}"
        )


def sha256_of(path: Path) -> str:
    """The sha256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
