"""The reader's side of the journal's file: the texts of a run, each held against the chain, in pieces.

Between two pieces no statement is open, so that writers can tidy up; whoever needs all of them to be of one moment begins a
transaction on the connection before.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from itertools import chain
from typing import Any

from ...policies.errors import JournalError
from ..events import Event
from .journal import RunLine
from .ledger import LINE, plain
from .personal import FORGOTTEN, commitment_of
from .records import first_tip, from_text, hash_of, next_tip
from .sqlite_file import EVENTS, ROW_EVENTS, SqliteFile

__all__ = ["Broken", "Reader"]

_CHUNK = 512
"""Events that are read at a time."""
_CHUNK_BYTES = 1 << 20
"""Bytes of text that are read at a time, about: large results are not held all at once."""


class Broken(JournalError):
    """The chain of a run does not hold."""


def _broken(run: str, seq: int, found: int) -> Broken:
    if found != seq:
        return Broken(f"event {seq} of run {run!r} is missing: {found} follows {seq - 1}")
    return Broken(f"event {seq} of run {run!r} is not what was written: its hash does not follow")


class Reader:
    """A connection that several threads may ask. `open_still` raises `JournalError` where it may not be used any more."""

    def __init__(
        self, file: SqliteFile, connection: sqlite3.Connection, open_still: Callable[[], None] = lambda: None
    ) -> None:
        self._file = file
        self._connection = connection
        self._using = threading.RLock()
        self._open_still = open_still
        self.deleted = 0
        """Personal values that were asked for and have been deleted."""

    def ask(self, sql: str, *values: Any) -> list[Any]:
        """All rows of one statement."""
        self._open_still()
        with self._using, self._file.explained():
            return self._connection.execute(sql, [plain(v) for v in values]).fetchall()

    def rows(self, sql: str, *values: Any) -> Iterator[Any]:
        """The rows of one statement, as they are asked for, within a transaction of this thread alone."""
        self._open_still()
        with self._file.explained(), closing(self._connection.cursor()) as cursor:
            yield from cursor.execute(sql, [plain(v) for v in values])

    def close(self) -> None:
        """Let go of the connection."""
        with self._using:
            self._connection.close()

    @property
    def knows_rows(self) -> bool:
        """Whether the list of runs says which of them are rows of a batch."""
        return self._file.version > 3

    @property
    def of_events(self) -> tuple[str, ...]:
        """The tables of events."""
        return self._file.of_events

    def table(self, run: str) -> str:
        """The table of the events of this run."""
        if self._file.version < 5:
            return EVENTS
        return ROW_EVENTS if self.ask("SELECT 1 FROM runs WHERE run = ? AND batch <> ''", run) else EVENTS

    def line(self, run: str) -> RunLine | None:
        """What the list of runs says of this one."""
        rows = self.ask(f"SELECT {LINE} FROM runs WHERE run = ?", run)
        return RunLine(*rows[0]) if rows else None

    def events(self, run: str, last: int, after: int = 0) -> Iterator[Event]:
        """The events after `after` up to `last`. Raises `Broken` where the chain does not hold: what comes after is not given."""
        return self._read(run, self.texts(run, last, after))

    def texts(self, run: str, last: int, after: int = 0) -> Iterator[tuple[int, bytes, bytes]]:
        """Number, text and hash of each event after `after` up to `last`, checked against the chain from there on."""
        return chain.from_iterable(self._pieces(run, last, after))

    def _pieces(self, run: str, last: int, seq: int) -> Iterator[list[tuple[int, bytes, bytes]]]:
        """The same some at a time; of a piece in which the chain breaks, what comes before, and then `Broken`."""
        table = self.table(run)
        tip = self._tip(table, run, seq) if 0 < seq < last else first_tip(run)
        while seq < last:
            rows = self._chunk(table, run, seq, last)
            if not rows:
                raise Broken(f"event {seq + 1} of run {run!r} is missing: {last} were written")
            first = seq + 1
            for found, data, hash_ in rows:
                seq += 1
                tip = next_tip(tip, data)
                if tip != hash_ or found != seq:
                    yield rows[: seq - first]
                    raise _broken(run, seq, found)
            yield rows

    def _tip(self, table: str, run: str, seq: int) -> bytes:
        """Where the chain stands after this event."""
        rows = self.ask(f"SELECT hash FROM {table} WHERE run = ? AND seq = ?", run, seq)
        if not rows:
            raise Broken(f"event {seq} of run {run!r} is missing")
        return bytes(rows[0][0])

    def event(self, run: str, seq: int, data: bytes) -> Event:
        """The event that a text holds."""
        return next(self._read(run, [(seq, data, b"")]))

    def _read(self, run: str, texts: Iterable[tuple[int, bytes, bytes]]) -> Iterator[Event]:
        """The events that these texts hold."""
        whole, personal = self._whole, partial(self._personal, run)
        for seq, data, _ in texts:
            try:
                event = from_text(data, whole, personal)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                said = f"{type(error).__name__}: {error}"
                raise Broken(f"event {seq} of run {run!r} cannot be read: {said}") from error
            if event.seq != seq:
                raise Broken(f"event {seq} of run {run!r} calls itself event {event.seq}")
            yield event

    def _chunk(self, table: str, run: str, seq: int, last: int) -> list[tuple[int, bytes, bytes]]:
        where = "run = ? AND seq > ? AND seq <= ? ORDER BY seq"
        sql = f"SELECT seq, CAST(body AS BLOB), hash FROM {table} WHERE {where}"
        rows: list[tuple[int, bytes, bytes]] = []
        size = 0
        self._open_still()
        with self._using, self._file.explained(run), closing(self._connection.cursor()) as cursor:
            for row in cursor.execute(sql, (plain(run), seq, last)):
                rows.append(row)
                size += len(row[1])
                if len(rows) == _CHUNK or size > _CHUNK_BYTES:
                    break
        return rows

    def _personal(self, run: str, commitment: bytes) -> Any:
        """A personal value. Raises `ValueError` where it is missing and was not deleted by `forget`, or is another."""
        sql = "SELECT salt, value FROM personal WHERE run = ? AND commitment = ?"
        rows = self.ask(sql, run, commitment)
        if not rows:
            sql = "SELECT 1 FROM chain WHERE kind = 'forgotten' AND run IN (?, (SELECT batch FROM runs WHERE run = ?))"
            if not self.ask(sql, run, run):
                raise ValueError("a personal value that it refers to is missing")
            self.deleted += 1
            return FORGOTTEN
        [(salt, text)] = rows
        if commitment_of(bytes(salt), text) != commitment:
            raise ValueError(
                "a personal value that it refers to is not what was written: its commitment differs"
            )
        return json.loads(text)

    def _whole(self, key: bytes) -> bytes:
        """A large result by its hash. Raises `ValueError` where it is not there or not what was written."""
        rows = self.ask("SELECT body FROM blobs WHERE hash = ?", key)
        if not rows:
            raise ValueError("a large result that it refers to is missing")
        data = bytes(rows[0][0])
        if hash_of(data) != key:
            raise ValueError("a large result that it refers to is not what was written: its hash differs")
        return data
