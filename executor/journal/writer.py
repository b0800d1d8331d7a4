"""Group commit: one daemon thread writes what many append, as few times as it can.

    append ──> the batch that is filling ──> the writer takes it whole ──> one commit ──> whoever waits is woken

A batch goes at once when somebody waits for it or when it is full; otherwise a moment later, so that what nobody waits
for rides along with what somebody does. Everything appended while a commit is under way goes with the next one. The
batch that fills and the one under way are all the backlog there is: who appends beyond that is held until there is room.

A thread without work ends after a while and the next entry begins another, so that a journal that nobody closes, or
that something still refers to (the traceback of a kept exception is enough), costs no thread and no open file.

The writer competes with the event loop for the interpreter, and on a busy loop each time it lets go costs it a switch
interval (5 ms). So a store should write a batch with few statements, and who appends while somebody waits for the disk
makes way for a moment, again and again. Source: the measurements in `benchmarks/journal.py` and `durable.py`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import anyio

from ...policies.errors import JournalError
from ..wake import Portal

__all__ = ["Batch", "Store", "Writer"]

MOST = 256
"""Entries that fill a batch. Larger ones cost less each, but keep whoever waits for them longer."""
RIDE = 0.002
"""Seconds that entries wait for somebody who is in a hurry."""
LONG = 0.003
"""Seconds that somebody waits for the disk before others make way: a quick commit needs none of it."""
TURN = 0.0002
"""Seconds after which whoever appends makes way again."""
PAUSE = 0.00002
"""Seconds for which it does: until the writer has the interpreter."""
IDLE = 2.0
"""Seconds without an entry after which the thread ends, as those of tools do (`threads.py`)."""

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class Store(Protocol[T_contra]):
    """What the writer's thread does with a batch; only that thread calls it."""

    def write(self, entries: Sequence[T_contra]) -> None:
        """Make the entries durable. Never raises: whoever owns an entry is told of a failure before this returns."""

    def close(self) -> None:
        """The thread ends; another may begin, and write again."""


class Batch(Generic[T]):
    """What is committed together; `done` once it is durable, or has failed."""

    __slots__ = ("done", "entries", "ripe", "waiting")

    def __init__(self) -> None:
        self.entries: list[T] = []
        self.waiting: dict[Portal, anyio.Event] = {}
        self.ripe = False
        self.done = False


class Writer(Generic[T]):
    """The thread and the two batches. It begins with an entry and ends with `stop`, or `idle` seconds after the last."""

    def __init__(self, store: Store[T], *, idle: float = IDLE) -> None:
        self._store = store
        self._idle = idle
        self._lock = threading.RLock()  # reentrant: the collector may call `stop` from within
        self._changed = threading.Condition(self._lock)
        self._done = threading.Condition(self._lock)
        self._filling: Batch[T] = Batch()
        self._flying: Batch[T] | None = None
        self._thread: threading.Thread | None = None
        self._asleep = False
        self._stopping = False
        self._since = 0.0  # when the first of those who wait began to; 0 where nobody waits
        self._made_way = 0.0

    def put(self, entry: T) -> Batch[T]:
        """Add an entry after all others, and give the batch it is in. Blocks while the backlog is full."""
        if self._since:
            self._make_way()
        with self._lock:
            if self._stopping:
                raise JournalError("the journal is closed; open it again to go on")
            while len(self._filling.entries) >= MOST:
                self._done.wait()
            batch = self._filling
            batch.entries.append(entry)
            if len(batch.entries) == 1:
                self._begin()
            elif len(batch.entries) == MOST:
                self._hurry(batch)
            return batch

    def _make_way(self) -> None:
        """Let the writer have the interpreter: a loop that is busy with other steps would keep it from what is waited for."""
        now = time.perf_counter()
        if now - self._since > LONG and now - self._made_way > TURN:
            time.sleep(PAUSE)
            self._made_way = time.perf_counter()

    async def durable(self, batch: Batch[T]) -> None:
        """Wait in an event loop until the batch is done; it goes at once."""
        with self._lock:
            if batch.done:
                return
            portal = Portal.current()
            ready = batch.waiting.get(portal)
            if ready is None:
                ready = batch.waiting[portal] = anyio.Event()
                self._since = self._since or time.perf_counter()
            self._hurry(batch)
        await ready.wait()

    def wait(self, batch: Batch[T]) -> None:
        """The same, blocking the thread."""
        with self._lock:
            self._hurry(batch)
            while not batch.done:
                self._done.wait()

    def settle(self) -> None:
        """Block until everything appended so far is done."""
        with self._lock:
            last = self._filling if self._filling.entries else self._flying
            if last is not None:
                self.wait(last)

    def stop(self) -> threading.Thread | None:
        """Have the thread end when everything is written; it is given back to be joined."""
        with self._lock:
            self._stopping = True
            self._changed.notify()
            return self._thread

    def _hurry(self, batch: Batch[T]) -> None:
        if not batch.ripe:
            batch.ripe = True
            self._changed.notify()

    def _begin(self) -> None:
        """There is a first entry: see to it that the writer will look at it."""
        if self._asleep:
            self._changed.notify()
        elif self._thread is None:
            thread = threading.Thread(target=self._work, daemon=True, name="foreplan-journal")
            try:
                thread.start()
            except RuntimeError as error:  # no more threads, or the interpreter is on its way out
                self._filling.entries.clear()
                raise JournalError(f"the journal's thread cannot be started: {error}") from error
            self._thread = thread

    def _work(self) -> None:
        while self._write_one():
            pass

    def _write_one(self) -> bool:
        """One batch, or False when there is to be none any more. Keeps nothing alive once it returns."""
        batch = self._next()
        if batch is None:
            return False
        self._store.write(batch.entries)
        with self._lock:
            batch.done = True
            batch.entries = []
            self._flying = None
            self._since = time.perf_counter() if self._filling.waiting else 0.0
            self._done.notify_all()
        for portal, ready in batch.waiting.items():
            portal.call_soon(ready.set)
        return True

    def _next(self) -> Batch[T] | None:
        with self._lock:
            self._gather()
            while not self._filling.entries:
                if self._stopping or self._nothing_came():
                    self._thread = None
                    self._store.close()  # still locked: a thread that follows this one finds the store closed
                    return None
                self._gather()
            batch = self._flying = self._filling
            batch.ripe = True
            self._filling = Batch()
            self._done.notify_all()  # there is room again
            return batch

    def _nothing_came(self) -> bool:
        """Sleep until something changes; True where nothing did for as long as a thread may be idle."""
        self._asleep = True
        came = self._changed.wait(self._idle)
        self._asleep = False
        return not (came or self._filling.entries or self._stopping)

    def _gather(self) -> None:
        """Give entries a moment, unless somebody is in a hurry."""
        if not (self._filling.ripe or self._stopping):
            self._changed.wait(RIDE)
