"""Group commit: what many append is written as few times as it can be, and never later than somebody waits for it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence

import anyio
import pytest

from foreplan.executor.journal.writer import LONG, MOST, PAUSE, RIDES, SOON, TURN, Writer
from foreplan.policies.errors import JournalError


class Shelf:
    """A store that keeps each batch. While `gate` is closed a write takes its time; `begun` says that one is under way."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.begun: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.gate = threading.Event()
        self.gate.set()
        self.closed = threading.Event()

    def write(self, entries: Sequence[int], handed_over: Callable[[], None]) -> None:
        handed_over()
        self.begun.put(len(entries))
        assert self.gate.wait(30)
        self.batches.append(list(entries))

    def close(self) -> None:
        self.closed.set()


@pytest.fixture
def shelf() -> Shelf:
    """Where the writer puts things."""
    return Shelf()


@pytest.fixture
def writer(shelf: Shelf) -> Iterator[Writer[int]]:
    """A writer that is stopped in the end."""
    writer: Writer[int] = Writer(shelf)
    yield writer
    shelf.gate.set()
    thread = writer.stop()
    if thread is not None:
        thread.join()


@pytest.mark.anyio
async def test_who_waits_takes_everything_along(writer: Writer[int], shelf: Shelf) -> None:
    """One commit holds the entry that is waited for and all that nobody waited for."""
    for entry in range(20):
        batch = writer.put(entry)
    await writer.durable(batch)
    assert batch.done
    assert shelf.batches == [list(range(20))]


def test_what_nobody_waits_for_is_written_a_moment_later(writer: Writer[int], shelf: Shelf) -> None:
    """No entry needs a push to become durable."""
    writer.put(1)
    assert shelf.begun.get(timeout=30) == 1


class Moments:
    """The moments that the writer gives entries: in each of them the next of `things` happens, and then none."""

    def __init__(self, changed: threading.Condition, things: list[Callable[[], object]]) -> None:
        self._changed = changed
        self._things = iter(things)

    def wait(self, seconds: float) -> bool:
        thing = next(self._things, None)
        if thing is None:
            return self._changed.wait(seconds)
        thing()
        return True

    def notify(self) -> None:
        self._changed.notify()


def test_what_nobody_waits_for_goes_once_no_more_comes(writer: Writer[int], shelf: Shelf) -> None:
    """A loop at work is about to bring somebody who waits: a commit in the middle of its turn would be one more."""
    writer._changed = Moments(writer._changed, [lambda: writer.put(1), lambda: writer.put(2), lambda: None])  # type: ignore[assignment]
    writer.put(0)
    assert shelf.begun.get(timeout=30) == 3


def test_what_nobody_waits_for_does_not_wait_for_ever(writer: Writer[int], shelf: Shelf) -> None:
    """A loop that never rests leaves what it brought some moments, and no more."""
    more: list[Callable[[], object]] = [lambda: writer.put(1)] * RIDES
    writer._changed = Moments(writer._changed, more)  # type: ignore[assignment]
    writer.put(0)
    assert shelf.begun.get(timeout=30) == RIDES + 1


@pytest.mark.anyio
async def test_what_comes_during_a_commit_goes_with_the_next(writer: Writer[int], shelf: Shelf) -> None:
    """Each commit takes all that gathered during the one before, whoever appended it."""
    shelf.gate.clear()
    writer.put(0)
    shelf.begun.get(timeout=30)
    async with anyio.create_task_group() as tasks:
        for entry in range(1, 11):
            tasks.start_soon(writer.durable, writer.put(entry))
        shelf.gate.set()
    assert shelf.batches == [[0], list(range(1, 11))]


@pytest.mark.anyio
async def test_waiting_for_a_commit_under_way_makes_no_other(writer: Writer[int], shelf: Shelf) -> None:
    """Whoever waits for what is being written waits for that alone, and is woken with the others."""
    shelf.gate.clear()
    batch = writer.put(0)
    shelf.begun.get(timeout=30)
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(writer.durable, batch)
        await anyio.lowlevel.checkpoint()
        shelf.gate.set()
    assert len(batch.waiting) == 1
    writer.settle()
    assert shelf.batches == [[0]]


@pytest.mark.anyio
async def test_what_is_done_is_not_waited_for(writer: Writer[int]) -> None:
    """There is no trip through the event loop, not even in a scope that is cancelled."""
    batch = writer.put(0)
    await writer.durable(batch)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await writer.durable(batch)
    assert not scope.cancelled_caught


@pytest.mark.anyio
async def test_a_waiter_that_gives_up_harms_nobody(writer: Writer[int], shelf: Shelf) -> None:
    """The entry is written all the same, and the next one too."""
    shelf.gate.clear()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await writer.durable(writer.put(0))
    shelf.gate.set()
    await writer.durable(writer.put(1))
    assert [entry for batch in shelf.batches for entry in batch] == [0, 1]


def test_the_backlog_is_bounded(writer: Writer[int], shelf: Shelf) -> None:
    """Who appends faster than the disk can write is held; nothing is lost and the order stays."""
    shelf.gate.clear()
    writer.put(-1)
    shelf.begun.get(timeout=30)
    for entry in range(MOST):
        writer.put(entry)
    let_in = threading.Event()

    def go_on() -> None:
        for entry in range(MOST, 3 * MOST):
            writer.put(entry)
            let_in.set()

    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    assert not let_in.is_set()
    shelf.gate.set()
    thread.join()
    writer.settle()
    assert max(map(len, shelf.batches)) <= MOST
    assert [entry for batch in shelf.batches for entry in batch] == list(range(-1, 3 * MOST))


class Time:
    """A clock that stands still until it is set; `asked` says that somebody looked at it, `slept` for how long they slept."""

    def __init__(self) -> None:
        self.now = 100.0
        self.asked = threading.Event()
        self.slept: list[float] = []

    def __call__(self) -> float:
        self.asked.set()
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


class Slow:
    """A store that tells its `steps`: it prepares a batch as soon as `go`, hands it over, and has it when `gate` opens."""

    def __init__(self, go: threading.Event) -> None:
        self.go = go
        self.gate = threading.Event()
        self.begun: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.handed: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.steps: list[str] = []

    def write(self, entries: Sequence[int], handed_over: Callable[[], None]) -> None:
        self.begun.put(len(entries))
        assert self.go.wait(30)
        self.steps.append("prepared")
        handed_over()
        self.handed.put(len(entries))
        assert self.gate.wait(30)

    def close(self) -> None:
        pass


@pytest.mark.anyio
async def test_who_appends_lets_a_batch_be_prepared_that_is_waited_for() -> None:
    """A busy loop stands aside, once somebody has waited for a moment, until the batch is handed to the disk, and no longer."""
    now = Time()
    store = Slow(now.asked)
    writer: Writer[int] = Writer(store, stand=30, clock=now, sleep=now.sleep)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(writer.durable, writer.put(0))
        await anyio.wait_all_tasks_blocked()
        store.begun.get(timeout=30)
        now.asked.clear()
        now.now += SOON * 2
        writer.put(1)  # the store goes on only when this has looked at the clock
        store.steps.append("appended")
        assert store.steps == ["prepared", "appended"]
        writer.put(2)
        assert now.slept == []
        store.gate.set()
    _end(writer)


@pytest.mark.anyio
async def test_who_appends_makes_way_again_and_again_where_the_disk_takes_long() -> None:
    """The writer needs the interpreter once more when the disk is done: each turn leaves it a pause, others none."""
    now = Time()
    store = Slow(now.asked)
    writer: Writer[int] = Writer(store, stand=30, clock=now, sleep=now.sleep)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(writer.durable, writer.put(0))
        await anyio.wait_all_tasks_blocked()
        store.handed.get(timeout=30)
        for passed in (SOON, LONG, TURN / 2, TURN):
            now.now += passed
            writer.put(1)
        assert now.slept == [PAUSE, PAUSE]
        store.gate.set()
    _end(writer)


def test_who_appends_is_not_held_up_where_nobody_waits() -> None:
    """Entries that may take their time cost nobody any."""
    now = Time()
    store = Slow(now.asked)
    writer: Writer[int] = Writer(store, stand=30, clock=now, sleep=now.sleep)
    writer.put(0)
    store.begun.get(timeout=30)
    now.now += LONG * 2
    writer.put(1)
    assert (store.steps, now.slept) == ([], [])
    store.go.set()
    store.gate.set()
    _end(writer)


@pytest.mark.anyio
async def test_what_is_ready_together_shares_a_commit(writer: Writer[int], shelf: Shelf) -> None:
    """The first who waits lets the others of its turn append before the batch goes."""

    async def one(entry: int) -> None:
        await writer.durable(writer.put(entry))

    async with anyio.create_task_group() as tasks:
        for entry in range(100):
            tasks.start_soon(one, entry)
    assert [sorted(batch) for batch in shelf.batches] == [list(range(100))]


def _end(writer: Writer[int]) -> None:
    thread = writer.stop()
    if thread is not None:
        thread.join()


def test_event_loops_and_threads_wait_for_the_same_commit(writer: Writer[int], shelf: Shelf) -> None:
    """One batch wakes a loop of asyncio, a loop of trio and a plain thread."""
    shelf.gate.clear()
    batch = writer.put(0)
    shelf.begun.get(timeout=30)
    woken: queue.SimpleQueue[str] = queue.SimpleQueue()

    def loop(backend: str) -> None:
        anyio.run(writer.durable, batch, backend=backend)
        woken.put(backend)

    def plain() -> None:
        writer.wait(batch)
        woken.put("thread")

    threads = [threading.Thread(target=loop, args=(name,), daemon=True) for name in ("asyncio", "trio")]
    threads.append(threading.Thread(target=plain, daemon=True))
    for thread in threads:
        thread.start()
    shelf.gate.set()
    assert {woken.get(timeout=30) for _ in threads} == {"asyncio", "trio", "thread"}
    for thread in threads:
        thread.join()


def test_stopping_writes_what_is_left(writer: Writer[int], shelf: Shelf) -> None:
    """Nothing that was appended before is dropped, the thread ends, and nothing is taken any more."""
    for entry in range(10):
        writer.put(entry)
    thread = writer.stop()
    assert thread is not None
    thread.join()
    assert [entry for batch in shelf.batches for entry in batch] == list(range(10))
    assert shelf.closed.is_set()
    with pytest.raises(JournalError, match="closed"):
        writer.put(10)


def test_a_writer_that_never_wrote_has_no_thread(writer: Writer[int], shelf: Shelf) -> None:
    """Reading a journal starts nothing."""
    writer.settle()
    assert writer.stop() is None
    assert shelf.batches == []


def test_a_thread_without_work_ends_and_another_goes_on(shelf: Shelf) -> None:
    """Nobody has to stop it: it lets go of the store, and what comes later is written all the same."""
    writer: Writer[int] = Writer(shelf, idle=0.001)
    for entry in range(3):
        shelf.closed.clear()
        writer.wait(writer.put(entry))
        assert shelf.closed.wait(30)
    assert [entry for batch in shelf.batches for entry in batch] == [0, 1, 2]
    assert writer.stop() is None
