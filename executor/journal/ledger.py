"""The writer's side of the journal's file: a batch of events of many runs becomes one transaction.

An append is made only where the run still has the epoch of its owner. A fault of one run (another owner, an event that
is no plain JSON) stops that run alone; a fault of the file stops every run that had something in the batch.

The rows of a batch (of `run_batch`) are runs under the epoch of it: they are written together with its line, and stop with it.
What the batch's own events say of the ends of chains is filled in here, where the chains are made.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from itertools import chain
from typing import Any, TypeAlias

from ...policies.errors import JournalError
from ...policies.signing import Signer
from ..events import BatchOpened, Event, RowSettled, RowsTaken, RunOpened
from .journal import RunLine, run_line
from .personal import Personal
from .records import next_tip, quickly, slowly
from .seals import Entry as ChainEntry
from .seals import enter, seal_of_run
from .sqlite_file import EVENTS, ROW_EVENTS, SqliteFile

__all__ = ["CLOSED", "INLINE_BYTES", "LINE", "Entry", "Ledger", "RowTail", "Tail", "plain"]

LINE = "run, state, reason, goal, opened_at, events"
"""The columns of `RunLine`, in its order."""
_COLUMNS = 12
"""Of a row of `runs`: those, and approval, epoch, tip, seal, batch and ordinal."""
_COUNTED = 5
"""Of those, what changes where a run only has more events: events, tip and seal, by run and epoch."""
_COUNTS_UP = sqlite3.sqlite_version_info >= (3, 33)
"""Whether SQLite can bring many rows up to date in one statement without their other columns (`UPDATE … FROM`)."""
_WIDTH = 4
"""Columns of `events`, and of `row_events`."""
_ROUND = 32
"""Statements for more rows than this are made for a multiple of it."""
_FEW_LINES = 16
"""The same for lines of the list of runs."""
_CHUNK_BYTES = 1 << 20
"""Bytes of text that one statement carries, about: large results are not held all at once."""


INLINE_BYTES = 64 * 1024
"""A result of more bytes stands apart; a page of the file is 4 KiB, and a row of many pages is slow to pass over."""


class Tail:
    """How a run stands in the file: its line in the list, the end of its chain, and under which epoch that is so.

    The ledger keeps it up. `failure` is a sentence once something of the run could not be written: nothing follows.
    """

    __slots__ = ("approval", "epoch", "failure", "line", "openings", "personal", "rows", "run", "tip")

    def __init__(self, line: RunLine, tip: bytes, *, epoch: int, approval: str | None) -> None:
        self.run = line.run
        self.line = line
        self.tip = tip
        self.epoch = epoch
        self.approval = approval
        self.failure = ""
        self.personal: Personal | None = None
        self.rows: dict[str, RowTail] = {}
        """Of a batch: its rows that are under way, or have ended and it has not said so yet."""
        self.openings = sha256()
        """Of a batch: over the openings of its rows, until it says that all are there."""

    @property
    def unit(self) -> Tail:
        """Whose epoch holds for it, and with whom it stops."""
        return self

    @property
    def place(self) -> tuple[str, int]:
        """Of which batch it is a row, and which; none."""
        return ("", 0)

    def fail(self, sentence: str) -> None:
        """Nothing more can be appended; the first reason stays."""
        self.failure = self.failure or sentence


class RowTail(Tail):
    """The same of a row of a batch. Its epoch says nothing: the batch's holds."""

    __slots__ = ("_of", "end", "ordinal")

    def __init__(self, of: Tail, ordinal: int, line: RunLine, tip: bytes) -> None:
        self._of = of
        self.ordinal = ordinal
        self.end = (line.events, tip)
        """How many events it has and the end of its chain, those that are being written included."""
        super().__init__(line, tip, epoch=1, approval=None)

    @property
    def unit(self) -> Tail:
        """The batch."""
        return self._of

    @property
    def place(self) -> tuple[str, int]:
        """Of which batch it is a row, and which."""
        return (self._of.run, self.ordinal)


CLOSED = frozenset({"done", "failed", "stopped"})
_OF_ROWS = frozenset({RowsTaken, RowSettled})
"""What a batch says of its rows."""

Entry: TypeAlias = tuple[Tail, Event]


class _Stale(Exception):
    """A run has another owner by now."""


class Apart:
    """Large texts that events of the batch refer to, and that are not written yet: each once, by its hash."""

    def __init__(self) -> None:
        self.texts: dict[bytes, bytes] = {}
        self.size = 0

    def add(self, texts: dict[bytes, bytes]) -> None:
        """Keep them until they are put; the events that refer to them come after."""
        self.texts |= texts
        self.size += sum(map(len, texts.values()))

    def put(self, connection: sqlite3.Connection) -> None:
        """Write what the file does not hold yet."""
        for row in self.texts.items():
            connection.execute("INSERT OR IGNORE INTO blobs (hash, body) VALUES (?, ?)", row)
        self.texts, self.size = {}, 0


class Chunk:
    """Rows of a table of events for one statement: their values, one after the other."""

    def __init__(self, table: str, most: int) -> None:
        self.table = table
        self.most = most * _WIDTH
        self.values: list[Any] = []
        self.size = 0

    def take(self) -> list[Any]:
        """The values so far; what comes next goes into another statement."""
        values, self.values, self.size = self.values, [], 0
        return values


class Portion:
    """What one run has in a batch: its rows, and how the run stands once they are written."""

    __slots__ = ("events", "first", "line", "openings", "over", "problem", "tail", "tip")

    def __init__(self, tail: Tail, events: list[Event]) -> None:
        self.tail = tail
        self.events = events
        self.line = tail.line
        self.tip = tail.tip
        self.first = b""
        self.problem = ""
        self.openings = tail.openings
        self.over: list[str] = []
        """Rows that it says have ended."""

    def fill(self, chunk: Chunk, most: int, apart: Apart) -> Iterator[Chunk]:
        """Put its events into `chunk`, results of more than `most` bytes apart; gives it where there is enough in it.

        What cannot be written ends them, and is told when the rest is durable.
        """
        tail, events = self.tail, self.events
        run, tip, count = plain(tail.run), tail.tip, 0
        for event in events:
            seq = event.seq
            if seq == 1:
                self.begin(event)
            try:
                if type(event) in _OF_ROWS:
                    event = self._sealing(event)
                data = quickly(event, most) if tail.personal is None else None
                if data is not None:
                    text = data.decode()
                else:
                    text, data, texts = slowly(event, most, tail.personal)
                    if texts:
                        apart.add(texts)
            except Exception as error:
                self.problem = _no_json(run, event, error)
                break
            tip = next_tip(tip, data)
            if seq == 1:
                self.first = tip
            count += 1
            chunk.values += (run, seq, text, tip)
            chunk.size += len(text)
            if chunk.size + apart.size > _CHUNK_BYTES or len(chunk.values) >= chunk.most:
                yield chunk
        self.tip = tip
        self.line = run_line(tail.run, events if count == len(events) else events[:count], tail.line)

    def begin(self, event: Event) -> None:
        """What is personal in it, its first event says, or that of its batch."""
        if isinstance(event, RunOpened | BatchOpened):
            rules = event.policies.personal
            self.tail.personal = self.tail.personal or (Personal(rules) if rules else None)
        elif self.tail.unit is not self.tail and self.tail.unit.personal is not None:
            self.tail.personal = Personal(self.tail.unit.personal.rules)

    def _sealing(self, event: Event) -> Event:
        """The event, with what it says of the chains of rows."""
        if type(event) is RowsTaken:
            return event._replace(openings=self.openings.hexdigest())
        if type(event) is not RowSettled or not event.run:
            return event
        self.over.append(event.run)
        events, tip = self.tail.rows[event.run].end
        return RowSettled(*event[:-2], events, tip.hex())

    def row(self, key: Signer | None) -> tuple[Any, ...]:
        """The row in the list of runs, once `fill` is through."""
        tail, (run, state, reason, goal, opened_at, events) = self.tail, self.line
        run, (batch, ordinal) = plain(run), tail.place
        seal = seal_of_run(key, run, events, self.tip)
        line = (run, state, plain(reason), plain(goal), opened_at, events)
        return (*line, plain(tail.approval), tail.epoch, self.tip, seal, plain(batch), ordinal)

    @property
    def counts_up(self) -> bool:
        """Whether its line is there and only says of more events."""
        return _COUNTS_UP and self.tail.line.events > 0 and self.line[1:5] == self.tail.line[1:5]

    def count(self, key: Signer | None) -> tuple[Any, ...]:
        """What is new in the row then: its run, events, tip and seal, and under which epoch it is so."""
        tail, events = self.tail, self.line.events
        run = plain(tail.run)
        return (run, events, self.tip, seal_of_run(key, run, events, self.tip), tail.epoch)

    def entries(self) -> Iterator[ChainEntry]:
        """What the chain over runs is told: that the run began, that it ended, that it goes on after all.

        Rows are no concern of it: their batch says how they ended, in its own chain.
        """
        run = plain(self.tail.run)
        if self.first:
            yield ChainEntry("opened", run, 1, self.first)
        if self.line.state in CLOSED and self.tail.line.state not in CLOSED:
            yield ChainEntry("closed", run, self.line.events, self.tip)
        elif self.tail.line.state in CLOSED and self.line.events > self.tail.line.events:
            yield ChainEntry("reopened", run, self.tail.line.events, self.tail.tip)

    def written(self) -> None:
        """It is durable."""
        self.tail.line, self.tail.tip = self.line, self.tip
        self.tail.openings = self.openings
        for row in self.over:
            self.tail.rows.pop(row, None)
        if self.tail.personal is not None:
            self.tail.personal.fresh.clear()
        if self.problem:
            self.tail.unit.fail(self.problem)


class Unit:
    """What is written together or not at all: a run, or a batch with what its rows have in this commit."""

    def __init__(self, tail: Tail, events: list[Event]) -> None:
        self.tail = tail
        self.own = Portion(tail, events)
        self._rows: list[Portion] = []
        if events and events[0].seq == 1:  # before anything of its rows is written
            self.own.begin(events[0])

    def add(self, row: Tail, events: list[Event]) -> None:
        """What one of its rows has."""
        self._rows.append(Portion(row, events))

    @property
    def portions(self) -> list[Portion]:
        """Those of the rows, then its own, which may speak of the ends of them."""
        return [*self._rows, self.own]

    def fill(self, own: Chunk, rows: Chunk, most: int, apart: Apart) -> Iterator[Chunk]:
        """Put all events into these, its own and those of its rows, as `Portion.fill` does for one run."""
        openings = self.tail.openings.copy() if self._rows else self.tail.openings
        for portion in self._rows:
            yield from portion.fill(rows, most, apart)
            tail = portion.tail
            assert type(tail) is RowTail
            tail.end = (portion.line.events, portion.tip)
            if portion.first and tail.ordinal:
                openings.update(portion.first)
            self.own.problem = self.own.problem or portion.problem
        self.own.openings = openings
        if not self.own.problem:
            yield from self.own.fill(own, most, apart)


class Ledger:
    """The writer's side of the file; only the writer's thread calls it."""

    def __init__(self, file: SqliteFile, inline_bytes: int = INLINE_BYTES, key: Signer | None = None) -> None:
        self._file = file
        self._key = key
        self._inline_bytes = inline_bytes
        self._connection: sqlite3.Connection | None = None
        self.commits = 0

    def write(self, entries: Sequence[Entry], handed_over: Callable[[], None]) -> None:
        """Commit the entries; whatever goes wrong is told to the logs that it concerns."""
        events_of: defaultdict[Tail, list[Event]] = defaultdict(list)
        for tail, event in entries:
            events_of[tail].append(event)
        units: dict[Tail, Unit] = {}
        for tail, events in events_of.items():
            whole = tail.unit
            if whole.failure:
                continue
            if whole not in units:
                units[whole] = Unit(whole, events_of.get(whole, []))
            if tail is not whole:
                units[whole].add(tail, events)
        if units:
            self._write(list(units.values()), handed_over)

    def close(self) -> None:
        """Let go of the file."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _write(self, units: list[Unit], handed_over: Callable[[], None]) -> None:
        try:
            self._commit(units, handed_over)
        except (sqlite3.IntegrityError, sqlite3.DataError, _Stale) as error:
            if len(units) > 1:  # the fault of one run must not be another's
                for unit in units:
                    self._write([unit], handed_over)
            else:
                units[0].tail.fail(self._blame(units[0].tail, error))
        except BaseException as error:
            sentence = self._file.explain(error)
            for unit in units:
                unit.tail.fail(sentence)
            with suppress(sqlite3.Error):
                self.close()  # the next batch begins with a fresh connection
        else:
            for unit in units:
                for portion in unit.portions:
                    portion.written()

    def _commit(self, units: list[Unit], handed_over: Callable[[], None]) -> None:
        """One transaction. Few statements: each of them lets the event loop's thread in (see `writer.py`)."""
        connection = self._connection = self._connection or self._file.connect()
        most: int = connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER)
        apart = Apart()
        portions = [portion for unit in units for portion in unit.portions]
        chunks = _chunks(units, most // _WIDTH - _ROUND, self._inline_bytes, apart)
        first = next(chunks, None)  # encoded before the file is locked
        connection.execute("BEGIN IMMEDIATE")
        try:
            for table, values in chain([first] if first else [], chunks):
                apart.put(connection)
                _put_events(connection, table, values)
            self._put_lines(connection, portions, most)
            _put_personal(connection, portions)
            entries = [entry for unit in units for entry in unit.own.entries()]
            if entries:
                enter(connection, entries, self._key)
            self._file.still_there()
            handed_over()
            connection.execute("COMMIT")
            self.commits += 1
        except BaseException:
            with suppress(sqlite3.Error):
                connection.rollback()
            raise

    def _put_lines(self, connection: sqlite3.Connection, portions: list[Portion], most: int) -> None:
        """Keep the list of runs up. Raises `_Stale`."""
        whole, counted = [], []
        for portion in portions:
            if portion.counts_up:
                counted.append(portion.count(self._key))
            elif portion.line.events:
                whole.append(portion.row(self._key))
        _put_lines(connection, whole, most // _COLUMNS, _upsert)
        _put_lines(connection, counted, most // _COUNTED, _count_up)

    def _blame(self, tail: Tail, error: Exception) -> str:
        """Why one run's events cannot be written."""
        run, epoch = tail.run, tail.epoch
        try:
            connection = self._connection = self._connection or self._file.connect()
            rows = connection.execute("SELECT epoch FROM runs WHERE run = ?", (plain(run),)).fetchall()
        except (sqlite3.Error, JournalError) as another:
            return self._file.explain(another)
        if rows and rows[0][0] != epoch:
            return f"run {run!r} was taken over by another process; nothing more is written or started here"
        return f"the events of run {run!r} do not follow what the journal holds ({error}); none of them was written"


def _put_events(connection: sqlite3.Connection, table: str, values: list[Any]) -> None:
    rows = len(values) // _WIDTH
    if rows > _ROUND:
        left = -rows % _ROUND
        values = values + [None] * (left * _WIDTH)
        rows += left
    connection.execute(_insert(table, rows), values)


@cache
def _insert(table: str, rows: int) -> str:
    """The statement that adds so many rows. Of larger numbers there are few, and rows without a run are passed over:
    to read a statement anew takes SQLite as long as to carry it out."""
    sql = f"VALUES {','.join(['(?,?,?,?)'] * rows)}"
    if rows > _ROUND:
        sql = f"SELECT * FROM ({sql}) WHERE column1 IS NOT NULL"
    return f"INSERT INTO {table} (run, seq, body, hash) {sql}"


def _put_personal(connection: sqlite3.Connection, portions: Iterable[Portion]) -> None:
    """Write beside the record what the events of these runs refer to."""
    for portion in portions:
        if portion.tail.personal is not None:
            run = plain(portion.tail.run)
            rows = [(run, *aside) for aside in portion.tail.personal.fresh.values()]
            sql = "INSERT INTO personal (run, commitment, salt, value) VALUES (?,?,?,?)"
            connection.executemany(sql, rows)


def _put_lines(
    connection: sqlite3.Connection, lines: list[tuple[Any, ...]], most: int, statement: Callable[[int], str]
) -> None:
    """Write lines, `most` at a time, where each run still has the epoch of its owner. Raises `_Stale`."""
    at_once = most - _FEW_LINES
    for start in range(0, len(lines), at_once):
        some = lines[start : start + at_once]
        rows, values = len(some), list(chain.from_iterable(some))
        if rows > _FEW_LINES:
            left = -rows % _FEW_LINES
            values += [None] * (left * len(some[0]))
            rows += left
        if connection.execute(statement(rows), values).rowcount != len(some):
            raise _Stale("the list of runs has not the line that it had")


@cache
def _upsert(rows: int) -> str:
    """The statement that adds so many lines, or brings them up to date; of larger numbers there are few (see `_insert`)."""
    one = f"({','.join('?' * _COLUMNS)})"
    sql = f"VALUES {','.join([one] * rows)}"
    if rows > _FEW_LINES:
        sql = f"SELECT * FROM ({sql}) WHERE column1 IS NOT NULL"
    return (
        f"INSERT INTO runs ({LINE}, approval, epoch, tip, seal, batch, ordinal) {sql} "
        "ON CONFLICT (run) DO UPDATE SET state = excluded.state, reason = excluded.reason, goal = excluded.goal, "
        "opened_at = excluded.opened_at, events = excluded.events, tip = excluded.tip, seal = excluded.seal "
        "WHERE epoch = excluded.epoch"
    )


@cache
def _count_up(rows: int) -> str:
    """The statement that brings so many lines up to date that are there, and of which nothing else changed."""
    given = ",".join([f"({','.join('?' * _COUNTED)})"] * rows)
    return (
        f"UPDATE runs SET events = new.column2, tip = new.column3, seal = new.column4 FROM (VALUES {given}) AS new "
        "WHERE runs.run = new.column1 AND runs.epoch = new.column5"
    )


def _chunks(
    units: Iterable[Unit], most: int, inline_bytes: int, apart: Apart
) -> Iterator[tuple[str, list[Any]]]:
    """Table and values of all events, of at most `most` at a time, or about a megabyte with what stands apart."""
    own, rows = Chunk(EVENTS, most), Chunk(ROW_EVENTS, most)
    for unit in units:
        for full in unit.fill(own, rows, inline_bytes, apart):
            yield full.table, full.take()
    for left in (rows, own):
        if left.values:
            yield left.table, left.take()


def _no_json(run: str, event: Event, error: Exception) -> str:
    kind, seq = type(event).__name__, event.seq
    return f"event {seq} ({kind}) of run {run!r} is no plain JSON: {type(error).__name__}: {error}"


def plain(value: Any) -> Any:
    """Text that SQLite can hold: a lone surrogate becomes a question mark."""
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "replace").decode()
    return value
