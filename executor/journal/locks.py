"""One file lock per run, so that one process drives it: the kernel frees the lock however the process ends.

The file is taken away when its lock is given back. Who opened it before and locks it after that holds a file that has
no name any more, and starts again; so there is never more than one owner.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from ...policies.errors import JournalError

__all__ = ["FileLock", "Locks"]

_TRIES = 3
_PAUSE = 0.002
"""Seconds between two tries: who only asks whether a lock is held, holds it for some microseconds (`Locks.held`)."""


class FileLock:
    """A lock that is held until `release`, until nothing refers to it, or until the process ends.

    A forked child has a copy of the descriptor; there `release` lets go of the copy only.
    """

    def __init__(self, fd: int, path: str) -> None:
        self._fd = fd
        self._path = path
        self._pid = os.getpid()

    def release(self) -> None:
        """Give the lock back; a second time does nothing."""
        fd, self._fd = self._fd, -1
        if fd < 0:
            return
        try:
            if os.getpid() == self._pid:
                _unlock(fd, self._path)
        finally:
            os.close(fd)

    def __del__(self) -> None:
        self.release()


class Locks:
    """The directory that holds the lock files, made when the first lock is taken."""

    def __init__(self, directory: Path) -> None:
        self._directory = str(directory)
        self._made = False

    def take(self, name: str) -> FileLock | None:
        """The lock of this name, or None where another owner holds it. Raises `JournalError`."""
        path = self._path(name)
        try:
            for _ in range(_TRIES - 1):
                lock = self._take(path)
                if lock is not None:
                    return lock
                time.sleep(_PAUSE)
            return self._take(path)
        except OSError as error:
            message = f"cannot lock {path}: {error.strerror}; check the permissions and the free space of its directory"
            raise JournalError(message) from error

    def held(self, name: str) -> bool:
        """Whether somebody holds the lock of this name; makes nothing. Where that may not be asked, it is taken for held."""
        try:
            fd = os.open(self._path(name), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(fd)
        return False

    def free(self, names: Iterable[str]) -> set[str]:
        """Those of the names whose locks nobody holds, asked together: where there is no file there is no lock."""
        try:
            there = set(os.listdir(self._directory))
        except (FileNotFoundError, NotADirectoryError):
            there = set()
        except OSError:
            return {name for name in names if not self.held(name)}
        return {name for name in names if _file(name) not in there or not self.held(name)}

    def _path(self, name: str) -> str:
        return f"{self._directory}/{_file(name)}"

    def _take(self, path: str) -> FileLock | None:
        if self._made:
            with suppress(FileNotFoundError):  # somebody tidied up
                return _take(path)
        self._make()
        return _take(path)

    def _make(self) -> None:
        try:
            os.mkdir(self._directory, 0o700)
        except FileExistsError:
            found = os.lstat(self._directory)
            if not stat.S_ISDIR(found.st_mode):
                message = f"{self._directory} must be a directory of its own, for lock files; move it out of the way"
                raise JournalError(message) from None
        self._made = True


def _file(name: str) -> str:
    return f"{sha256(name.encode('utf-8', 'replace')).hexdigest()[:32]}.lock"


def _take(path: str) -> FileLock | None:
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(fd, path):
                return FileLock(fd, path)
        except BlockingIOError:
            os.close(fd)
            return None
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)


def _unlock(fd: int, path: str) -> None:
    if _is_at(fd, path):
        os.unlink(path)
    fcntl.flock(fd, fcntl.LOCK_UN)  # closing is not enough where a forked child has a copy


def _is_at(fd: int, path: str) -> bool:
    """Whether the open file is the one that the path names."""
    try:
        there = os.lstat(path)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(fd), there)
