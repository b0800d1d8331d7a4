"""The journal that survives: many runs, and many processes, on one SQLite file.

    Log.append ──> Writer (one thread) ──> Ledger: BEGIN, events, runs where the epoch still holds, COMMIT

Who drives a run holds its file lock, which the kernel frees when the process ends. Whoever takes a run up again raises
its epoch; each append is made only where the epoch is still the owner's, so an owner that was thought dead and wakes
cannot write. A run's first row, with the approval that it consumes, goes with its first events.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import time
import weakref
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, closing
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

from ...policies.errors import JournalError, UnknownRun
from ...policies.signing import Signer, Verifier
from ...policies.spelling import spelled
from ..events import BatchOpened, Event, RowOpened, RunOpened
from .archive import exported, take_in
from .journal import UNFINISHED, Ending, Opening, RunLine, at_rest, of_batch, spent, unknown
from .ledger import CLOSED, INLINE_BYTES, LINE, Entry, Ledger, RowTail, Tail
from .letting_go import forget, prune
from .locks import Locks
from .personal import Disclosure, Personal
from .reader import Reader
from .records import first_tip, next_tip
from .seals import expect_name, keyed, position, seal
from .sqlite_file import ROW_EVENTS, SqliteFile
from .verifying import Verified, in_chain, verified
from .writer import Batch, Writer

__all__ = ["SqliteJournal", "SqliteLog"]

_OPENINGS = 256
"""Rows of a batch that are read at a time."""
_FORKED = "this journal was opened before the process forked; open it again in the child"


class SqliteJournal:
    """Runs in one SQLite file, made with mode 0600 where there is none. A context manager.

    `existing`: refuse to make a file. `reading`: change nothing, which also opens what cannot be written to.
    `network`: open it on a network file system all the same, whose locks you have tried. `patience`: seconds to wait
    while another program writes to it. `inline_bytes`: larger results are kept once, by their hash, however many events
    hold them. `key`: seals what is written, so that nobody without it can change the record unseen; a new file is sealed
    from then on, and needs the key to be written to. Raises `JournalError`, also for links, network file systems and
    files of something else. A fork needs its own.
    """

    _closed = True  # until it is open

    @spelled
    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        existing: bool = False,
        reading: bool = False,
        network: bool = False,
        patience: float = 10.0,
        inline_bytes: int = INLINE_BYTES,
        key: Signer | None = None,
    ) -> None:
        self._file = SqliteFile(path, existing=existing, reading=reading, network=network, patience=patience)
        self._locks = Locks(self.path.with_name(self.path.name + "-locks"))
        self._key = key
        if key is not None and not reading:
            self._take_key(key)
        self._ledger = Ledger(self._file, inline_bytes, key)
        self._writer: Writer[Entry] = Writer(self._ledger)
        with self._file.explained():
            self._connection = self._file.connect(check_same_thread=False)
        self._reader = Reader(self._file, self._connection, self._check_open)
        self._logs: weakref.WeakSet[SqliteLog] = weakref.WeakSet()
        self._pid = os.getpid()
        self._closed = False

    @property
    def path(self) -> Path:
        """The file, as an absolute path."""
        return self._file.path

    @property
    def commits(self) -> int:
        """How often something was made durable since the journal was opened here."""
        return self._ledger.commits

    def create(self, run: str, *, approval: str = "") -> SqliteLog:
        """Begin a run; it exists once its first event is durable. A spent approval is refused (`NotApproved`)."""
        with ExitStack() as held:
            self._hold(run, held)
            known = "EXISTS(SELECT 1 FROM runs WHERE run = ?) OR EXISTS(SELECT 1 FROM chain WHERE run = ?)"
            sql = f"SELECT (SELECT value FROM meta WHERE name = 'key'), {known}"
            [(name, taken)] = self._ask(sql, run, run)
            expect_name(name or "", self._key)
            if taken:
                raise JournalError(f"a run {run!r} exists already; give the new run another id")
            if approval:
                self._spend(approval, held)
            line = RunLine(run, "running", "", "", 0.0, 0)
            tail = Tail(line, first_tip(run), epoch=1, approval=approval or None)
            return SqliteLog(self, tail, held.pop_all())

    def reopen(self, run: str) -> SqliteLog:
        """Take a run up again. Raises `UnknownRun`, and `JournalError` while somebody drives it, or for a row."""
        with ExitStack() as held:
            self._hold(run, held)
            if self._line(run) is None:
                raise self._unknown(run)
            batch = self._batch_of(run)
            if batch:
                raise of_batch(run, batch)
            self._expect_key()
            self._ask("UPDATE runs SET epoch = epoch + 1 WHERE run = ?", run)
            [row] = self._ask(f"SELECT epoch, tip, approval, {LINE} FROM runs WHERE run = ?", run)
            tail = Tail(RunLine(*row[3:]), row[1], epoch=row[0], approval=row[2])
            tail.personal = self._personal(run, tail.line.events)
            return SqliteLog(self, tail, held.pop_all())

    def openings(self, batch: str, *, after: int = -1) -> Iterator[Opening]:
        """The rows of a batch after this ordinal, in order, as they stood when they were asked for: 256 at a time."""
        self._settle()
        where = "r.batch = ? AND r.ordinal > ? ORDER BY r.ordinal LIMIT ?"
        while found := self._openings(where, batch, after, _OPENINGS):
            yield from found
            after = found[-1].opened.ordinal

    def endings(self, batch: str) -> Iterator[Ending]:
        """The rows of a batch in order, each with its last event, as they stood when they were asked for: 256 at a time."""
        self._settle()
        columns = f"r.ordinal, CAST(e.body AS BLOB), {', '.join(f'r.{name}' for name in LINE.split(', '))}"
        sql = (
            f"SELECT {columns} FROM runs r JOIN {self._file.of_rows} e ON e.run = r.run AND e.seq = r.events"
        )
        after = -1
        while found := self._ask(
            f"{sql} WHERE r.batch = ? AND r.ordinal > ? ORDER BY r.ordinal LIMIT ?", batch, after, _OPENINGS
        ):
            for ordinal, data, *line in found:
                end = RunLine(*line)
                yield Ending(ordinal, end, self._reader.event(end.run, end.events, data))
            after = found[-1][0]

    def opening(self, run: str) -> Opening | None:
        """The same of one row; None for a run that is none."""
        self._settle()
        return next(iter(self._openings("r.run = ? AND r.batch <> ''", run)), None)

    def _openings(self, where: str, *values: Any) -> list[Opening]:
        columns = (
            f"CAST(e.body AS BLOB), e.hash, r.tip, {', '.join(f'r.{name}' for name in LINE.split(', '))}"
        )
        joined = f"runs r JOIN {self._file.of_rows} e ON e.run = r.run AND e.seq = 1"
        sql = f"SELECT {columns} FROM {joined} WHERE {where}"
        return [self._opening(*row) for row in self._ask(sql, *values)]

    def _opening(self, data: bytes, hash_: bytes, tip: bytes, *line: Any) -> Opening:
        run: str = line[0]
        opened = self._reader.event(run, 1, data)
        if not isinstance(opened, RowOpened) or next_tip(first_tip(run), data) != hash_:
            raise JournalError(f"event 1 of run {run!r} is not what was written: its hash does not follow")
        return Opening(opened, RunLine(*line), tip)

    def _batch_of(self, run: str) -> str:
        """The batch of which a run is a row; "" for any other run."""
        rows = self._ask("SELECT batch FROM runs WHERE run = ?", run) if self._file.version > 3 else []
        return str(rows[0][0]) if rows else ""

    def forget(self, run: str) -> int:
        """Delete the personal values of a closed run; how many. The record still verifies, and says that they were deleted.

        A sub-plan's run is a run of its own. Raises `UnknownRun`, and `JournalError` for a run that is not closed.
        """
        with ExitStack() as held:
            self._hold(run, held)
            self._expect_key()
            line = self._line(run)
            if line is None:
                raise self._unknown(run)
            if line.state not in CLOSED:
                raise JournalError(
                    f"run {run!r} is not closed; its personal values can be deleted when it is"
                )
            with self._file.explained(), closing(self._file.connect()) as connection:
                return forget(connection, run, self._key)

    def prune(self, *, older_than: float, keep_failed: bool = False, now: float | None = None) -> list[str]:
        """Delete the records of runs that were closed more than so many seconds ago; their ids.

        What the chain over runs says of them stays, so that `verify` tells them from runs that somebody deleted.
        `keep_failed`: only those that are done.
        """
        self._settle()
        self._check_writable()
        self._expect_key()
        before = (time.time() if now is None else now) - older_than
        with self._file.explained(), closing(self._file.connect()) as connection:
            return prune(connection, before, keep_failed, self._key)

    def exported(self, run: str | None = None) -> Iterator[str]:
        """The journal, or one run, as lines of JSON (without line ends). Raises `UnknownRun`."""
        self._settle()
        if run is not None and self._line(run) is None:
            raise self._unknown(run)
        reader = Reader(self._file, self._file.connect())
        try:
            reader.ask("BEGIN")
            yield from exported(reader, run)
        finally:
            reader.close()

    def take_in(self, lines: Iterable[str | bytes]) -> list[str]:
        """Take in what `exported` gave, all of it or nothing; the ids of its runs.

        Raises `BadInput` for lines that are cut or are no export, and `JournalError` for a run that is there already, or that
        does not verify.
        """
        self._settle()
        self._check_writable()
        with self._file.explained(), closing(self._file.connect()) as connection:
            reader = Reader(self._file, connection)
            return take_in(connection, lines, self._key, lambda key: verified(reader, None, key, "").problems)

    def disclose(self, run: str, seq: int) -> list[Disclosure]:
        """The personal values of one event, each with what shows that it is what was written. [] once they are deleted."""
        self._settle()
        text = self._text(run, seq)
        found = []
        for path, commitment in json.loads(text).get("personal", ()) if text is not None else ():
            sql = "SELECT salt, value FROM personal WHERE run = ? AND commitment = ?"
            for salt, text in self._ask(sql, run, bytes.fromhex(commitment)):
                found.append(Disclosure(run, seq, tuple(path), bytes(salt).hex(), json.loads(text)))
        return found

    def text(self, run: str, seq: int) -> str:
        """The text of one event as the chain has it, without personal values. Raises `UnknownRun`."""
        self._settle()
        text = self._text(run, seq)
        if text is None:
            raise self._unknown(run)
        return text

    def _text(self, run: str, seq: int) -> str | None:
        rows = self._ask(f"SELECT body FROM {self._reader.table(run)} WHERE run = ? AND seq = ?", run, seq)
        return str(rows[0][0]) if rows else None

    def _personal(self, run: str, last: int) -> Personal | None:
        """What is known of the personal values of a run that goes on."""
        opened = next(self._reader.events(run, min(last, 1)), None)
        if not isinstance(opened, RunOpened | BatchOpened) or not opened.policies.personal:
            return None
        return self._read_personal(run, last, Personal(opened.policies.personal))

    def _read_personal(self, run: str, last: int, personal: Personal) -> Personal:
        for _, data, _ in self._reader.texts(run, last):
            personal.take(json.loads(data))
        rows = self._ask("SELECT commitment, value FROM personal WHERE run = ?", run)
        personal.know((bytes(commitment).hex(), text) for commitment, text in rows)
        return personal

    def events(self, run: str, *, after: int = 0) -> Iterator[Event]:
        """The events of a run that come after this number, in order, read as they are asked for.

        Raises `UnknownRun`, and `JournalError` where the chain is broken: what comes after is not given.
        """
        self._settle()
        line = self._line(run)
        if line is None:
            raise self._unknown(run)
        return self._reader.events(run, line.events, after)

    def some(self, run: str, kinds: Collection[type[Event]]) -> Iterator[Event]:
        """The events of these kinds, in order, one at a time: a quick look, for which the chain is not followed.

        Raises `UnknownRun`, and `JournalError` for an event that cannot be read.
        """
        self._settle()
        line = self._line(run)
        if line is None:
            raise self._unknown(run)
        begins = [f'{{"type":"{kind.__name__}"*' for kind in kinds]
        alike = " OR ".join(["body GLOB ?"] * len(begins))
        table = self._reader.table(run)
        found = self._ask(
            f"SELECT seq FROM {table} WHERE run = ? AND seq <= ? AND ({alike}) ORDER BY seq",
            run,
            line.events,
            *begins,
        )
        return (self._one(table, run, seq) for (seq,) in found)

    def _one(self, table: str, run: str, seq: int) -> Event:
        rows = self._ask(f"SELECT CAST(body AS BLOB) FROM {table} WHERE run = ? AND seq = ?", run, seq)
        if not rows:
            raise JournalError(f"event {seq} of run {run!r} is missing")
        return self._reader.event(run, seq, rows[0][0])

    def runs(self, *, unfinished: bool = False) -> list[RunLine]:
        """All runs (or those that are not closed), the newest first."""
        self._settle()
        lines = self._lines(unfinished)
        loose = self._locks.free(f"run {line.run}" for line in lines if line.state == "running")
        if not loose:
            return lines
        # Read once more: one of those that nobody drives may have ended just now.
        return [at_rest(line) if f"run {line.run}" in loose else line for line in self._lines(unfinished)]

    def _lines(self, unfinished: bool) -> list[RunLine]:
        """What the file says of the runs, the newest first; who drives them is not asked."""
        only = "AND state IN (?, ?) " if unfinished else ""
        sql = f"SELECT {LINE} FROM runs WHERE {self._file.no_row} {only}ORDER BY rowid DESC"
        return [RunLine(*row) for row in self._ask(sql, *(UNFINISHED if unfinished else ()))]

    def driven(self, run: str) -> bool:
        """Whether somebody, here or in another process, drives this run now."""
        return self._locks.held(f"run {self._batch_of(run) or run}")

    def run_of_approval(self, approval: str) -> str | None:
        """The run that consumed this approval, if any."""
        self._settle()
        return self._run_of(approval)

    def verify(self, run: str | None = None, *, key: Verifier | None = None, last: str = "") -> Verified:
        """Whether the record holds, of one run or of all, and what that proves.

        With a `key` (by default the one that the journal was opened with) no change goes unseen but a return to an earlier
        state; with `last`, the position that was kept elsewhere (`SEQ:HASH`), not that either. Without: accidents only.
        Raises `UnknownRun`, and `BadInput` for what is no position.
        """
        self._settle()
        if self._file.old:
            raise JournalError(
                f"the journal {self.path} is of an earlier version, without a chain over its runs; open it once for writing"
            )
        with self._file.explained():
            reader = Reader(self._file, self._file.connect())
            try:
                reader.ask("BEGIN")  # all of it as it is at one moment
                if run is not None and not last and reader.line(run) is None and not in_chain(reader, run):
                    raise self._unknown(run)
                return verified(reader, run, key or self._key, last)
            finally:
                reader.close()

    def position(self, run: str) -> str:
        """Where a run stands, as `SEQ:HASH`: kept elsewhere, it proves later that nothing up to there was changed."""
        self._settle()
        rows = self._ask("SELECT events, tip FROM runs WHERE run = ?", run)
        if not rows:
            raise self._unknown(run)
        return position(rows[0][0], rows[0][1])

    def close(self) -> None:
        """Close every log, write what is left and let go of the file. Raises `JournalError` for what was lost."""
        if self._closed or os.getpid() != self._pid:
            return
        problems: list[JournalError] = []
        for log in list(self._logs):
            try:
                log.close()
            except JournalError as error:
                problems.append(error)
        self._closed = True
        thread = self._writer.stop()
        if thread is not None:
            thread.join()
        self._reader.close()
        if problems:
            raise problems[0]

    def __enter__(self) -> SqliteJournal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if self._closed:
            return
        if os.getpid() != self._pid:
            _ORPHANS.append(self._connection)  # what the parent opened must not be closed in the child
            return
        self._connection.close()  # before the thread closes its own: of two that close at once neither tidies up
        if not sys.is_finalizing():  # then the writer's thread stands still, and may hold its lock
            self._writer.stop()

    def __repr__(self) -> str:
        return f"<SqliteJournal {self.path}>"

    def _take_key(self, key: Signer) -> None:
        """Seal a new file with the key; one that holds runs must be sealed with it already. Raises `JournalError`."""
        with self._file.explained(), closing(self._file.connect()) as connection:
            if not keyed(connection):
                seal(connection, key)
            expect_name(keyed(connection), key)

    def _check_writable(self) -> None:
        self._check_open()
        if self._file.reading:
            raise JournalError(
                f"the journal {self.path} was opened for reading; open it without reading=True"
            )

    def _hold(self, run: str, held: ExitStack) -> None:
        """Take the run's lock, as long as its log is open; who has it knows that nothing of the run is on its way."""
        self._check_writable()
        lock = self._locks.take(f"run {run}")
        if lock is None:
            raise JournalError(
                f"run {run!r} is being driven already, here or by another process; wait until it lets go"
            )
        held.callback(lock.release)

    def _spend(self, approval: str, held: ExitStack) -> None:
        """Take the approval's lock too: between here and the run's first row nobody else can consume it."""
        lock = self._locks.take(f"approval {approval}")
        if lock is not None:
            held.callback(lock.release)
        else:
            self._settle()
        run = self._run_of(approval)
        if lock is None or run is not None:
            raise spent(approval, f"run {run!r}" if run is not None else "another run, just now")

    def _run_of(self, approval: str) -> str | None:
        sql = "SELECT run FROM runs WHERE approval = ? UNION ALL SELECT run FROM spent WHERE approval = ?"
        if self._file.old:
            sql, given = "SELECT run FROM runs WHERE approval = ?", [approval]
        else:
            given = [approval, approval]
        rows = self._ask(sql, *given)
        return str(rows[0][0]) if rows else None

    def _line(self, run: str) -> RunLine | None:
        return self._reader.line(run)

    def _unknown(self, run: str) -> UnknownRun:
        sql = f"SELECT run FROM runs WHERE {self._file.no_row} ORDER BY rowid DESC LIMIT 2000"
        names = [name for (name,) in self._ask(sql)]
        return unknown(run, names)

    def _settle(self) -> None:
        """What was appended here is in the file before the file is asked."""
        self._check_open()
        self._writer.settle()

    def _check_open(self) -> None:
        if self._closed:
            raise JournalError(f"the journal {self.path} is closed; open it again to go on")
        if os.getpid() != self._pid:
            raise JournalError(_FORKED)

    def _ask(self, sql: str, *values: Any) -> list[Any]:
        return self._reader.ask(sql, *values)

    def _expect_key(self) -> None:
        """Raise `JournalError` where the file is sealed with a key that is not ours."""
        rows = self._ask("SELECT value FROM meta WHERE name = 'key'")
        expect_name(str(rows[0][0]) if rows else "", self._key)


class SqliteLog:
    """One run in the hands of this process. Events are appended by one thread, in order of `seq`."""

    def __init__(self, journal: SqliteJournal, tail: Tail, held: ExitStack) -> None:
        self.run = tail.run
        self._journal = journal
        self._writer = journal._writer
        self._tail = tail
        self._held = held
        self._last = tail.line.events
        self._batch: Batch[Entry] | None = None
        self._closed = False
        journal._logs.add(self)
        _watch_forks()
        _LIVE.add(self)

    def append(self, event: Event, /) -> None:
        """Write an event after all others of this run. Raises `JournalError`; then nothing was acknowledged.

        The event belongs to the journal from here on: it is written a little later, as it is then.
        """
        tail = self._tail
        if tail.failure:
            raise JournalError(tail.failure)
        if event.seq != self._last + 1:
            raise JournalError(
                f"event {event.seq} of run {self.run!r} cannot be written: {self._last + 1} comes next"
            )
        self._batch = self._writer.put((tail, event))
        self._last = event.seq

    async def durable(self) -> None:
        """Wait until everything appended so far is durable. Raises `JournalError`."""
        batch = self._batch
        if batch is not None and not batch.done and not self._tail.failure:
            await self._writer.durable(batch)
        if self._tail.failure:
            raise JournalError(self._tail.failure)

    def close(self) -> None:
        """Let go of the run, after all that was appended is durable. Raises `JournalError`; a second time does nothing."""
        if self._closed:
            return
        self._closed = True
        with self._held:
            if self._batch is not None and not self._tail.failure:
                self._writer.wait(self._batch)
        self._journal._logs.discard(self)
        failure = self._tail.failure
        self._tail.fail(f"the log of run {self.run!r} is closed; reopen the run")
        if failure:
            raise JournalError(failure)

    def row(self, run: str, ordinal: int, opening: Opening | None = None) -> RowLog:
        """The log of a row of this batch: one that begins, or one that goes on after what `opening` says of it."""
        if self._tail.failure:
            raise JournalError(self._tail.failure)
        if opening is None:
            tail = RowTail(self._tail, ordinal, RunLine(run, "running", "", "", 0.0, 0), first_tip(run))
        else:
            tail = RowTail(self._tail, ordinal, opening.line, opening.tip)
            if self._tail.personal is not None:
                personal = Personal(self._tail.personal.rules)
                tail.personal = self._journal._read_personal(run, opening.line.events, personal)
        self._tail.rows[run] = tail
        return RowLog(self._writer, tail)

    def recount(self) -> None:
        """Rows are going to be added to those that were there when the batch was reopened."""
        joined = f"runs r JOIN {ROW_EVENTS} e ON e.run = r.run AND e.seq = 1"
        sql = f"SELECT e.hash FROM {joined} WHERE r.batch = ? AND r.ordinal > 0"
        for (hash_,) in self._journal._ask(f"{sql} ORDER BY r.ordinal", self.run):
            self._tail.openings.update(hash_)

    def disown(self) -> None:
        """In a forked child: there is no writer's thread, and the parent's lock must not outlive the parent."""
        self._tail.fail(_FORKED)
        self._held.close()

    def __repr__(self) -> str:
        return f"<SqliteLog of run {self.run!r}>"


class RowLog:
    """One row of a batch in the hands of this process: under the lock and the epoch of its batch."""

    __slots__ = ("_batch", "_closed", "_last", "_tail", "_unit", "_writer", "run")

    def __init__(self, writer: Writer[Entry], tail: RowTail) -> None:
        self.run = tail.run
        self._writer = writer
        self._tail = tail
        self._unit = tail.unit
        self._last = tail.line.events
        self._batch: Batch[Entry] | None = None
        self._closed = False

    def append(self, event: Event, /) -> None:
        """Write an event after all others of this row. Raises `JournalError`; then the whole batch stops."""
        failure = self._unit.failure
        if failure or self._closed:
            raise JournalError(failure or f"the log of row {self.run!r} is closed")
        if event.seq != self._last + 1:
            raise JournalError(
                f"event {event.seq} of run {self.run!r} cannot be written: {self._last + 1} comes next"
            )
        self._batch = self._writer.put((self._tail, event))
        self._last = event.seq

    async def durable(self) -> None:
        """Wait until everything appended so far is durable. Raises `JournalError`."""
        batch = self._batch
        if batch is not None and not batch.done and not self._unit.failure:
            await self._writer.durable(batch)
        if self._unit.failure:
            raise JournalError(self._unit.failure)

    def close(self) -> None:
        """Nothing more is appended; it waits for nothing."""
        self._closed = True


_ORPHANS: list[sqlite3.Connection] = []
_LIVE: weakref.WeakSet[SqliteLog] = weakref.WeakSet()


@cache
def _watch_forks() -> None:
    os.register_at_fork(after_in_child=_forked)


def _forked() -> None:
    """In the child there is no writer's thread, and the parent's locks must not outlive the parent."""
    for log in list(_LIVE):
        log.disown()
