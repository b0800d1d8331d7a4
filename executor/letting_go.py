"""What is taken out of a journal on purpose: it is gone from the file, and the chain over runs says that it was there.

Deleted content is overwritten with zeros (`secure_delete`), and the log beside the file is emptied. Copies that were made
before, and what a disk keeps by itself, are out of reach.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from ..policies.signing import Signer
from .ledger import plain
from .seals import Entry, enter

__all__ = ["forget"]


def forget(connection: sqlite3.Connection, run: str, key: Signer | None) -> int:
    """Delete the personal values of a run; how many there were."""
    name = plain(run)
    with _thoroughly(connection):
        count = connection.execute("DELETE FROM personal WHERE run = ?", (name,)).rowcount
        if count:
            [(events, tip)] = connection.execute(
                "SELECT events, tip FROM runs WHERE run = ?", (name,)
            ).fetchall()
            enter(connection, [Entry("forgotten", name, events, tip, f"{count} values")], key)
    return count


@contextmanager
def _thoroughly(connection: sqlite3.Connection) -> Iterator[None]:
    """A transaction that leaves nothing behind of what it deletes."""
    connection.execute("PRAGMA secure_delete = ON").close()
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").close()
