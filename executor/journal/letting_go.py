"""What is taken out of a journal on purpose: it is gone from the file, and the chain over runs says that it was there.

Deleted content is overwritten with zeros (`secure_delete`), and the log beside the file is emptied. Copies that were made
before, and what a disk keeps by itself, are out of reach.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from ...policies.signing import Signer
from .archive import referred
from .ledger import CLOSED, plain
from .seals import Entry, enter
from .sqlite_file import EVENTS, ROW_EVENTS

__all__ = ["forget", "prune"]


def forget(connection: sqlite3.Connection, run: str, key: Signer | None) -> int:
    """Delete the personal values of a run, or of a batch and its rows; how many there were."""
    name = plain(run)
    with _thoroughly(connection):
        count = connection.execute(f"DELETE FROM personal WHERE {_OF}", (name, name)).rowcount
        if count:
            [(events, tip)] = connection.execute(
                "SELECT events, tip FROM runs WHERE run = ?", (name,)
            ).fetchall()
            enter(connection, [Entry("forgotten", name, events, tip, f"{count} values")], key)
    return count


def prune(connection: sqlite3.Connection, before: float, keep_failed: bool, key: Signer | None) -> list[str]:
    """Delete the records of runs that were closed before then; which. Sub-plans stay as long as their caller is not closed.

    Rows go with their batch.
    """
    states = ("done",) if keep_failed else tuple(sorted(CLOSED))
    with _thoroughly(connection):
        marks = ",".join("?" * len(states))
        sql = (
            "SELECT r.run, r.events, r.tip, r.approval, e.body FROM runs r JOIN events e ON e.run = r.run AND e.seq = r.events "
            f"WHERE r.state IN ({marks}) AND r.batch = '' ORDER BY r.rowid"
        )
        open_ = connection.execute(
            "SELECT run FROM runs WHERE state IN ('running', 'waiting') AND batch = ''"
        ).fetchall()
        entries = [
            (Entry("pruned", run, events, tip, json.dumps(approval) if approval else ""), approval)
            for run, events, tip, approval, body in connection.execute(sql, states).fetchall()
            if json.loads(body)["at"] < before
            and not any(run.startswith(f"{caller}.") for (caller,) in open_)
        ]
        for entry, approval in entries:
            for table in (EVENTS, ROW_EVENTS, "personal", "runs"):
                connection.execute(f"DELETE FROM {table} WHERE {_OF}", (entry.run, entry.run))
            if approval:
                connection.execute("INSERT INTO spent VALUES (?, ?)", (approval, entry.run))
        if entries:
            _drop_results(connection)
            enter(connection, [entry for entry, _ in entries], key)
    return [entry.run for entry, _ in entries]


_OF = "(run = ? OR run IN (SELECT run FROM runs WHERE batch = ?))"


def _drop_results(connection: sqlite3.Connection) -> None:
    """Delete the large results that no event refers to any more."""
    kept: set[bytes] = set()
    for table in (EVENTS, ROW_EVENTS):
        texts = connection.execute(f"SELECT body FROM {table} WHERE instr(body, '\"apart\":')")
        kept.update(referred(text for (text,) in texts))
    gone = [
        (key,) for (key,) in connection.execute("SELECT hash FROM blobs").fetchall() if bytes(key) not in kept
    ]
    connection.executemany("DELETE FROM blobs WHERE hash = ?", gone)


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
