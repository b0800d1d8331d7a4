"""Group commit: one daemon thread writes what many append, as few times as it can.

    append ──> the batch that is filling ──> the writer takes it whole ──> one commit ──> whoever waits is woken

A batch goes at once when somebody waits for it or when it is full; otherwise a moment later, so that what nobody waits
for rides along with what somebody does. Everything appended while a commit is under way goes with the next one. The
batch that fills and the one under way are all the backlog there is: who appends beyond that is held until there is room.

A thread without work ends after a while and the next entry begins another, so that a journal that nobody closes, or
that something still refers to (the traceback of a kept exception is enough), costs no thread and no open file.

Who waits lets all that is ready in its loop run first: a hundred calls that begin together share a commit.

The writer competes with the event loop for the interpreter, and on a busy loop each time it lets go costs it a switch
interval (5 ms). So a store should write a batch with few statements, and who appends while somebody waits makes way: at
once until the batch is handed to the disk, and from then on for a moment, again and again, if the disk takes long.
Source: the measurements in `benchmarks/journal.py` and `durable.py`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

import anyio

from ...policies.errors import JournalError
from ..wake import Bell, bell_here

__all__ = ["Batch", "Store", "Writer"]

MOST = 512
"""Entries that fill a batch. Larger ones cost less each, but keep whoever waits for them longer."""
RIDE = 0.005
"""Seconds that entries wait for somebody who is in a hurry, and again where others have come meanwhile."""
RIDES = 4
"""How often they do at most."""
SOON = 0.0005
"""Seconds that somebody waits before whoever appends lets the writer prepare the batch."""
STAND = 0.002
"""Seconds for which it does at most, once for each batch."""
LONG = 0.003
"""Seconds that somebody waits for the disk before others make way again: a quick commit needs none of it."""
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

    def write(self, entries: Sequence[T_contra], handed_over: Callable[[], None]) -> None:
        """Make the entries durable. Never raises: whoever owns an entry is told of a failure before this returns.

        `handed_over()` says that from here on only the disk works.
        """

    def close(self) -> None:
        """The thread ends; another may begin, and write again."""


class Batch(Generic[T]):
    """What is committed together; `done` once it is durable, or has failed."""

    __slots__ = ("company", "done", "entries", "ripe", "since", "waiting")

    def __init__(self) -> None:
        self.entries: list[T] = []
        self.waiting: list[Bell] = []  # one for each event loop
        self.company = 0  # how many tasks wait
        self.since = 0.0  # when the first of them began to
        self.ripe = False
        self.done = False


class Writer(Generic[T]):
    """The thread and the two batches. It begins with an entry and ends with `stop`, or `idle` seconds after the last."""

    def __init__(
        self,
        store: Store[T],
        *,
        idle: float = IDLE,
        stand: float = STAND,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._store = store
        self._idle, self._stand = idle, stand
        self._clock, self._sleep = clock, sleep
        self._lock = threading.RLock()  # reentrant: the collector may call `stop` from within
        self._changed = threading.Condition(self._lock)
        self._done = threading.Condition(self._lock)
        self._filling: Batch[T] = Batch()
        self._flying: Batch[T] | None = None
        self._thread: threading.Thread | None = None
        self._asleep = False
        self._stopping = False
        self._since = 0.0  # when the first of those who wait began to; 0 where nobody waits
        self._at_disk = False  # whether only the disk works on what is under way
        self._stood = False  # whether somebody has stood aside for those who wait
        self._made_way = 0.0
        self._alone = False  # whether who waited last did so alone

    def put(self, entry: T) -> Batch[T]:
        """Add an entry after all others, and give the batch it is in. Blocks while the backlog is full."""
        if self._since:
            self._make_way()
        with self._lock:
            if self._stopping:
                raise JournalError("the journal is closed; open it again to go on")
            batch = self._filling
            while len(batch.entries) >= MOST:
                self._done.wait()
                batch = self._filling
            batch.entries.append(entry)
            count = len(batch.entries)
            if count == 1:
                self._begin()
            elif count == MOST:
                self._hurry(batch)
            return batch

    def _make_way(self) -> None:
        """Let the writer have the interpreter: a loop that is busy with other steps would keep it from what is waited for."""
        now = self._clock()
        waited = now - self._since
        if not (self._at_disk or self._stood) and waited > SOON:
            self._stood = True
            with self._lock:
                self._done.wait_for(lambda: self._at_disk or not self._since, self._stand)
        elif waited > LONG and now - self._made_way > TURN:
            self._sleep(PAUSE)
            self._made_way = self._clock()

    async def durable(self, batch: Batch[T]) -> None:
        """Wait in an event loop until the batch is done; it goes as soon as all that is ready now has run.

        It goes at once where the last one was waited for by one task alone: in a busy loop the others' turn takes long.
        """
        if batch.done:
            return
        batch.company += 1
        for ready in batch.waiting:
            if ready.is_here:
                break
        else:
            with self._lock:
                if batch.done:
                    return
                ready = bell_here()
                batch.waiting.append(ready)
                batch.since = batch.since or self._clock()
            try:
                if not self._alone:
                    await anyio.lowlevel.cancel_shielded_checkpoint()
            finally:
                with self._lock:
                    self._press(batch)
        await ready.wait()

    def _press(self, batch: Batch[T]) -> None:
        """Somebody waits for the batch from now on."""
        if not batch.done:
            if not self._since:
                self._since, self._stood = self._clock(), False
            self._hurry(batch)

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
        self._store.write(batch.entries, self._hand_over)
        with self._lock:
            batch.done = True
            batch.entries = []
            self._flying = None
            self._at_disk = self._stood = False
            if batch.company:
                self._alone = batch.company == 1
            self._since = self._clock() if self._filling.waiting else 0.0
            self._done.notify_all()
        for ready in batch.waiting:
            ready.ring()
        return True

    def _hand_over(self) -> None:
        with self._lock:
            self._at_disk = True
            self._done.notify_all()

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
            if batch.waiting and not self._since:  # nobody has pressed yet: the loop is still at others
                self._since, self._stood = batch.since, False
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
        """Give entries a moment, unless somebody is in a hurry.

        While the loop is at work it brings who waits: a commit before that would take half of what they wait for.
        """
        for _ in range(RIDES):
            if self._filling.ripe or self._stopping:
                return
            before = len(self._filling.entries)
            self._changed.wait(RIDE)
            if len(self._filling.entries) == before:
                return
