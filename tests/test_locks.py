"""A lock has one owner, also while owners come and go and take its file away with them."""

from __future__ import annotations

import threading
from hashlib import sha256
from pathlib import Path

import pytest

from foreplan.executor.journal.locks import Locks
from foreplan.policies.errors import JournalError


def test_a_lock_has_one_owner(tmp_path: Path) -> None:
    """It is free again after its release, after nobody refers to it, and other names are not concerned."""
    locks = Locks(tmp_path / "locks")
    lock = locks.take("a")
    assert lock is not None
    assert locks.take("a") is None
    assert locks.take("b") is not None
    lock.release()
    lock.release()
    assert locks.take("a") is not None  # and forgotten at once
    assert locks.take("a") is not None
    assert list((tmp_path / "locks").iterdir()) == []


def test_somebody_may_tidy_up(tmp_path: Path) -> None:
    """An empty directory of locks that was removed is made again."""
    locks = Locks(tmp_path / "locks")
    assert locks.take("a") is not None
    (tmp_path / "locks").rmdir()
    assert locks.take("a") is not None
    with pytest.raises(JournalError, match=r"cannot lock .*: No such file or directory"):
        Locks(tmp_path / "nowhere" / "locks").take("a")


def test_any_text_names_a_lock(tmp_path: Path) -> None:
    """A name is no path: nothing leaves the directory, however the name looks."""
    locks = Locks(tmp_path / "locks")
    names = ["../../x", "/etc/passwd", "", "a\0b", "\udcff", "x" * 10_000, "a", "A"]
    held = [locks.take(name) for name in names]
    assert None not in held
    assert len(list((tmp_path / "locks").iterdir())) == len(names)
    assert [path.name for path in tmp_path.iterdir()] == ["locks"]


def test_there_are_never_two_owners(tmp_path: Path) -> None:
    """Many that take and release the same lock as fast as they can: nobody gets it beside an owner."""
    locks = Locks(tmp_path / "locks")
    others: set[object] = set()

    def rush() -> None:
        for _ in range(300):
            lock = locks.take("a")
            if lock is not None:
                others.add(locks.take("a"))
                lock.release()

    threads = [threading.Thread(target=rush) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert others == {None}


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """The sentence says which file and what to check."""
    (tmp_path / "file").touch()
    with pytest.raises(JournalError, match=r"cannot lock .*: Not a directory; check the permissions"):
        Locks(tmp_path / "file" / "locks").take("a")


def test_many_locks_are_asked_about_together(tmp_path: Path) -> None:
    """Free are those that nobody holds: never taken, given back, or left behind by a process that ended."""
    locks = Locks(tmp_path / "locks")
    assert locks.free(["a", "b"]) == {"a", "b"}
    lock, given_back = locks.take("a"), locks.take("b")
    assert lock is not None
    assert given_back is not None
    given_back.release()
    left_behind = tmp_path / "locks" / f"{sha256(b'c').hexdigest()[:32]}.lock"
    left_behind.touch()
    assert locks.free(["a", "b", "c", "d"]) == {"b", "c", "d"}
