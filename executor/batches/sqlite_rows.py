"""Rows of a query to an SQLite file, which is opened to be read and for nothing else."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from ...policies.errors import BadInput
from ...policies.spelling import spelled
from ...policies.text import did_you_mean, shorten
from .headers import unique_names
from .rows import SourceRow

__all__ = ["SqliteRows"]

_READING = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
_NO_TABLE = re.compile(r"no such table: (.+)")
_NO_COLUMN = re.compile(r"no such column: (.+)")


@spelled
class SqliteRows:
    """The rows that a query gives, streamed. The query must say an order (`ORDER BY`), for it is asked twice.

    NULL says nothing for an input, as an empty cell of CSV does; text is read as a cell is where the plan wants no text, and
    0 and 1 are false and true where it wants those. Nothing is written: neither the query nor a function in it can.
    """

    reads: Literal["query"] = "query"

    def __init__(
        self, path: str | os.PathLike[str], query: str, parameters: Sequence[Any] | Mapping[str, Any] = ()
    ) -> None:
        self.path = Path(os.path.abspath(os.fspath(path)))
        self.query = query
        self.parameters = parameters
        self.name = f"the query to {shorten(repr(str(path)), 100)}"

    @property
    def files(self) -> tuple[Path, ...]:
        return (self.path,)

    @property
    def notes(self) -> tuple[str, ...]:
        return ()

    @cached_property
    def columns(self) -> tuple[str, ...]:
        with closing(self._connect()) as connection, self._explained(connection):
            return self._names(connection.execute(self.query, self.parameters))

    def rows(self) -> Iterator[SourceRow]:
        with closing(self._connect()) as connection, self._explained(connection):
            cursor = connection.execute(self.query, self.parameters)
            names = self._names(cursor)
            for ordinal, values in enumerate(cursor, 1):
                yield SourceRow(ordinal, None, dict(zip(names, values, strict=True)))

    def _names(self, cursor: sqlite3.Cursor) -> tuple[str, ...]:
        if cursor.description is None:
            raise BadInput(f"{self.name} gives no rows; write a SELECT")
        return unique_names([column[0] for column in cursor.description])

    def _connect(self) -> sqlite3.Connection:
        if not self.path.is_file():
            raise BadInput(f"there is no file {shorten(repr(str(self.path)), 200)}")
        try:
            connection = sqlite3.connect(f"{self.path.as_uri()}?mode=ro", uri=True, check_same_thread=False)
        except sqlite3.Error as error:
            raise BadInput(f"{self.name} cannot be asked: {shorten(error, 160)}") from None
        connection.set_authorizer(_only_reads)
        return connection

    @contextmanager
    def _explained(self, connection: sqlite3.Connection) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeError) as error:
            raise BadInput(self._told(connection, error)) from None

    def _told(self, connection: sqlite3.Connection, error: Exception) -> str:
        said = str(error)
        if "prohibited" in said or "not authorized" in said:
            return f"{self.name} does more than read ({shorten(said, 100)}); write one SELECT"
        if "one statement at a time" in said:
            return f"{self.name} is more than one statement; write one SELECT"
        hint = ""
        if match := _NO_TABLE.search(said):
            hint = did_you_mean(match[1], _tables(connection))
        elif match := _NO_COLUMN.search(said):
            hint = did_you_mean(match[1].rpartition(".")[2], _columns(connection))
        return f"{self.name} cannot be asked: {shorten(said, 160)}{hint}"


def _only_reads(action: int, *about: Any) -> int:
    return sqlite3.SQLITE_OK if action in _READING else sqlite3.SQLITE_DENY


def _tables(connection: sqlite3.Connection) -> list[str]:
    asked = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
    try:
        return [name for (name,) in connection.execute(asked)]
    except sqlite3.Error:
        return []


def _columns(connection: sqlite3.Connection) -> list[str]:
    """Names of columns, from the first row of each table."""
    found: list[str] = []
    for table in _tables(connection):
        quoted = table.replace('"', '""')
        try:
            cursor = connection.execute(f'SELECT * FROM "{quoted}" LIMIT 0')
        except sqlite3.Error:
            continue
        found += [column[0] for column in cursor.description]
    return found
