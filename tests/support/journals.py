"""Journals for tests: what is written to them, what somebody else does to the file, and processes that drive runs."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO

from support.events import calls, opening

from foreplan.executor.events import Event
from foreplan.executor.journal.sqlite_journal import SqliteJournal, SqliteLog

__all__ = ["BEFORE_CHAINS", "BEFORE_ROW_EVENTS", "CHILD", "change", "child", "record", "write"]

BEFORE_ROW_EVENTS = (
    "DROP TRIGGER rows_of_earlier",
    "INSERT INTO events SELECT run, seq, body, hash FROM row_events",
    "DROP TABLE row_events",
    "UPDATE meta SET value = '4' WHERE name = 'schema'",
)
"""What makes the file one of version 4."""
BEFORE_CHAINS = (
    *BEFORE_ROW_EVENTS,
    "DROP TABLE chain",
    "DROP TABLE personal",
    "DROP TABLE spent",
    "DROP INDEX rows_of_batch",
    "ALTER TABLE runs DROP COLUMN batch",
    "ALTER TABLE runs DROP COLUMN ordinal",
    "ALTER TABLE runs DROP COLUMN seal",
    "DELETE FROM meta WHERE name <> 'schema'",
)
"""What makes the file one of version 2."""
CHILD = Path(__file__).with_name("journal_child.py")


def write(log: SqliteLog, events: Sequence[Event]) -> None:
    """Append several events."""
    for event in events:
        log.append(event)


def record(journal: SqliteJournal, run: str, count: int = 3) -> None:
    """A run of so many events whose driver let go."""
    log = journal.create(run)
    write(log, [*opening(run), *calls(3, count - 2)])
    log.close()


def change(path: Path, *statements: str) -> None:
    """What somebody else does to the file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


@contextmanager
def child(*arguments: str | Path | int) -> Iterator[tuple[subprocess.Popen[str], IO[str], IO[str]]]:
    """A process that drives a run (see `support/journal_child.py`); it is killed in the end."""
    command = [sys.executable, str(CHILD), *map(str, arguments)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin
        assert process.stdout
        try:
            yield process, process.stdin, process.stdout
        finally:
            process.kill()
