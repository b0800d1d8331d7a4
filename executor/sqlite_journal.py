"""The journal that survives: many runs, and many processes, on one SQLite file.

    Log.append ──> Writer (one thread) ──> Ledger: BEGIN, events, runs where the epoch still holds, COMMIT

Who drives a run holds its file lock, which the kernel frees when the process ends. Whoever takes a run up again raises
its epoch; each append is made only where the epoch is still the owner's, so an owner that was thought dead and wakes
cannot write. A run's first row, with the approval that it consumes, goes with its first events.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
import weakref
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, closing
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

from ..policies.errors import JournalError, UnknownRun
from .events import Event
from .journal import UNFINISHED, RunLine, at_rest, spent, unknown
from .ledger import INLINE_BYTES, LINE, Entry, Ledger, Tail, plain
from .locks import Locks
from .records import first_tip, from_text, hash_of, next_tip
from .sqlite_file import SqliteFile
from .writer import Batch, Writer

__all__ = ["SqliteJournal", "SqliteLog"]

_CHUNK = 512
"""Events that are read at a time."""
_CHUNK_BYTES = 1 << 20
"""Bytes of text that are read at a time, about: large results are not held all at once."""
_FORKED = "this journal was opened before the process forked; open it again in the child"


class SqliteJournal:
    """Runs in one SQLite file, made with mode 0600 where there is none. A context manager.

    `existing`: refuse to make a file. `reading`: change nothing, which also opens what cannot be written to.
    `network`: open it on a network file system all the same, whose locks you have tried. `patience`: seconds to wait
    while another program writes to it. `inline_bytes`: larger results are kept once, by their hash, however many events
    hold them. Raises `JournalError`, also for links, network file systems and files of something else. A fork needs its own.
    """

    _closed = True  # until it is open

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        existing: bool = False,
        reading: bool = False,
        network: bool = False,
        patience: float = 10.0,
        inline_bytes: int = INLINE_BYTES,
    ) -> None:
        self._file = SqliteFile(path, existing=existing, reading=reading, network=network, patience=patience)
        self._locks = Locks(self.path.with_name(self.path.name + "-locks"))
        self._ledger = Ledger(self._file, inline_bytes)
        self._writer: Writer[Entry] = Writer(self._ledger)
        with self._file.explained():
            self._connection = self._file.connect(check_same_thread=False)
        self._using = threading.RLock()
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
            if self._line(run) is not None:
                raise JournalError(f"a run {run!r} exists already; give the new run another id")
            if approval:
                self._spend(approval, held)
            line = RunLine(run, "running", "", "", 0.0, 0)
            tail = Tail(line, first_tip(run), epoch=1, approval=approval or None)
            return SqliteLog(self, tail, held.pop_all())

    def reopen(self, run: str) -> SqliteLog:
        """Take a run up again. Raises `UnknownRun`, and `JournalError` while somebody drives it."""
        with ExitStack() as held:
            self._hold(run, held)
            if self._line(run) is None:
                raise self._unknown(run)
            self._ask("UPDATE runs SET epoch = epoch + 1 WHERE run = ?", run)
            [row] = self._ask(f"SELECT epoch, tip, approval, {LINE} FROM runs WHERE run = ?", run)
            tail = Tail(RunLine(*row[3:]), row[1], epoch=row[0], approval=row[2])
            return SqliteLog(self, tail, held.pop_all())

    def events(self, run: str, *, after: int = 0) -> Iterator[Event]:
        """The events of a run that come after this number, in order, read as they are asked for.

        Raises `UnknownRun`, and `JournalError` where the chain is broken: what comes after is not given.
        """
        self._settle()
        line = self._line(run)
        if line is None:
            raise self._unknown(run)
        return (_read(run, seq, data, self._whole) for seq, data, _ in self._texts(run, line.events, after))

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
        found = self._ask(
            f"SELECT seq FROM events WHERE run = ? AND seq <= ? AND ({alike}) ORDER BY seq",
            run,
            line.events,
            *begins,
        )
        return (self._one(run, seq) for (seq,) in found)

    def _one(self, run: str, seq: int) -> Event:
        rows = self._ask("SELECT CAST(body AS BLOB) FROM events WHERE run = ? AND seq = ?", run, seq)
        if not rows:
            raise JournalError(f"event {seq} of run {run!r} is missing")
        return _read(run, seq, rows[0][0], self._whole)

    def runs(self, *, unfinished: bool = False) -> list[RunLine]:
        """All runs (or those that are not closed), the newest first."""
        self._settle()
        only = "WHERE state IN (?, ?) " if unfinished else ""
        sql = f"SELECT {LINE} FROM runs {only}ORDER BY rowid DESC"
        rows = self._ask(sql, *(UNFINISHED if unfinished else ()))
        lines = [RunLine(*row) for row in rows]
        return [self._as_it_stands(line) if line.state == "running" else line for line in lines]

    def driven(self, run: str) -> bool:
        """Whether somebody, here or in another process, drives this run now."""
        return self._locks.held(f"run {run}")

    def _as_it_stands(self, line: RunLine) -> RunLine:
        """A run whose last event leaves it running: one that nobody drives was interrupted, if it has not ended just now."""
        if self.driven(line.run):
            return line
        return at_rest(self._line(line.run) or line)

    def run_of_approval(self, approval: str) -> str | None:
        """The run that consumed this approval, if any."""
        self._settle()
        return self._run_of(approval)

    def verify(self, run: str) -> str | None:
        """Where the chain of a run breaks, as a sentence, or None where it holds. Raises `UnknownRun`.

        Without a key this shows accidents, not somebody who recomputes the chain.
        """
        self._settle()
        if self._line(run) is None:
            raise self._unknown(run)
        count = "SELECT count(*) FROM events WHERE run = r.run"
        [(said, tip, there)] = self._ask(f"SELECT events, tip, ({count}) FROM runs r WHERE run = ?", run)
        end = first_tip(run)
        try:
            for seq, data, hash_ in self._texts(run, said):
                _read(run, seq, data, self._whole)
                end = hash_
        except _Broken as broken:
            return str(broken)
        if there != said:
            return f"run {run!r} has {there} events and should have {said}"
        return None if end == tip else f"the last event of run {run!r} is not the one that was written"

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
        with self._using:
            self._connection.close()
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
        if not sys.is_finalizing():  # then the writer's thread stands still, and may hold its lock
            self._writer.stop()
        self._connection.close()

    def __repr__(self) -> str:
        return f"<SqliteJournal {self.path}>"

    def _hold(self, run: str, held: ExitStack) -> None:
        """Take the run's lock, as long as its log is open; who has it knows that nothing of the run is on its way."""
        self._check_open()
        if self._file.reading:
            raise JournalError(
                f"the journal {self.path} was opened for reading; open it without reading=True"
            )
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
        rows = self._ask("SELECT run FROM runs WHERE approval = ?", approval)
        return str(rows[0][0]) if rows else None

    def _line(self, run: str) -> RunLine | None:
        rows = self._ask(f"SELECT {LINE} FROM runs WHERE run = ?", run)
        return RunLine(*rows[0]) if rows else None

    def _texts(self, run: str, last: int, seq: int = 0) -> Iterator[tuple[int, bytes, bytes]]:
        """Number, text and hash of each event after `seq` up to `last`, checked against the chain from there on."""
        tip = self._tip(run, seq) if 0 < seq < last else first_tip(run)
        while seq < last:
            rows = self._chunk(run, seq, last)
            if not rows:
                raise _Broken(f"event {seq + 1} of run {run!r} is missing: {last} were written")
            for found, data, hash_ in rows:
                seq += 1
                if found != seq:
                    raise _Broken(f"event {seq} of run {run!r} is missing: {found} follows {seq - 1}")
                tip = next_tip(tip, data)
                if tip != hash_:
                    raise _Broken(
                        f"event {seq} of run {run!r} is not what was written: its hash does not follow"
                    )
                yield seq, data, hash_

    def _tip(self, run: str, seq: int) -> bytes:
        """Where the chain stands after this event."""
        rows = self._ask("SELECT hash FROM events WHERE run = ? AND seq = ?", run, seq)
        if not rows:
            raise _Broken(f"event {seq} of run {run!r} is missing")
        return bytes(rows[0][0])

    def _chunk(self, run: str, seq: int, last: int) -> list[tuple[int, bytes, bytes]]:
        """Some rows after `seq`; between two chunks no transaction is open, so that writers can tidy up."""
        sql = "SELECT seq, CAST(body AS BLOB), hash FROM events WHERE run = ? AND seq > ? AND seq <= ? ORDER BY seq"
        rows: list[tuple[int, bytes, bytes]] = []
        size = 0
        self._check_open()
        with self._using, self._file.explained(run), closing(self._connection.cursor()) as cursor:
            for row in cursor.execute(sql, (plain(run), seq, last)):
                rows.append(row)
                size += len(row[1])
                if len(rows) == _CHUNK or size > _CHUNK_BYTES:
                    break
        return rows

    def _whole(self, key: bytes) -> bytes:
        """A large result by its hash. Raises `ValueError` where it is not there or not what was written."""
        rows = self._ask("SELECT body FROM blobs WHERE hash = ?", key)
        if not rows:
            raise ValueError("a large result that it refers to is missing")
        data = bytes(rows[0][0])
        if hash_of(data) != key:
            raise ValueError("a large result that it refers to is not what was written: its hash differs")
        return data

    def _unknown(self, run: str) -> UnknownRun:
        names = [name for (name,) in self._ask("SELECT run FROM runs ORDER BY rowid DESC LIMIT 2000")]
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
        """All rows of one statement, by this thread."""
        self._check_open()
        with self._using, self._file.explained():
            return self._connection.execute(sql, [plain(v) for v in values]).fetchall()


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

    def disown(self) -> None:
        """In a forked child: there is no writer's thread, and the parent's lock must not outlive the parent."""
        self._tail.fail(_FORKED)
        self._held.close()

    def __repr__(self) -> str:
        return f"<SqliteLog of run {self.run!r}>"


class _Broken(JournalError):
    """The chain of a run does not hold."""


def _read(run: str, seq: int, data: bytes, whole: Callable[[bytes], bytes]) -> Event:
    try:
        event = from_text(data, whole)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _Broken(
            f"event {seq} of run {run!r} cannot be read: {type(error).__name__}: {error}"
        ) from error
    if event.seq != seq:
        raise _Broken(f"event {seq} of run {run!r} calls itself event {event.seq}")
    return event


_ORPHANS: list[sqlite3.Connection] = []
_LIVE: weakref.WeakSet[SqliteLog] = weakref.WeakSet()


@cache
def _watch_forks() -> None:
    os.register_at_fork(after_in_child=_forked)


def _forked() -> None:
    """In the child there is no writer's thread, and the parent's locks must not outlive the parent."""
    for log in list(_LIVE):
        log.disown()
