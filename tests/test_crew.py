"""The tasks of a run: each is cancelled and timed on its own, none is lost, and at the end of the run there are none."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import anyio
import pytest
from support.virtual import BACKENDS, now, run_virtual

from foreplan import Effect, Engine, MemoryJournal, Plan, Policies, Retry, tool
from foreplan.executor.blocking import first_error
from foreplan.executor.events import CallSettled, CallStarted, RunPaused
from foreplan.executor.hands import threads
from foreplan.executor.hands.crew import Member, crew_here

READS = Effect.READS
ONCE = Policies(approve="never", retry=Retry(attempts=1))
SEEN: list[str] = []
SET: ContextVar[str] = ContextVar("set", default="")


@pytest.fixture(autouse=True)
def fresh() -> None:
    """What tools tell of themselves."""
    SEEN.clear()


def plan(*names: str) -> Plan:
    """A step for each tool, beside each other."""
    return Plan.model_validate({"steps": [{"id": f"s{i}", "tool": name} for i, name in enumerate(names)]})


@tool(effect=READS, timeout=None)
async def shields() -> str:
    """Puts something in order that must not be interrupted."""
    with anyio.CancelScope(shield=True):
        await anyio.sleep(50)
        SEEN.append("in order")
    await anyio.sleep(50)
    SEEN.append("never said")
    return "done"


@tool(effect=READS, timeout=None)
async def stubborn() -> str:
    """Does not want to end."""
    for _ in range(3):
        try:
            await anyio.sleep(1000)
        except BaseException:
            SEEN.append("again")
    return "late"


@tool(effect=READS, timeout=2.0)
async def two() -> None:
    """Takes longer than the two seconds it has."""
    await anyio.sleep(100)


@tool(effect=READS, timeout=5.0)
async def five() -> None:
    """Takes longer than the five seconds it has."""
    await anyio.sleep(100)


@tool(effect=READS, timeout=5.0)
async def four_of_five() -> str:
    """Is done a second before its time is up, and takes it as it is afterwards."""
    await anyio.sleep(4)
    return "in time"


@tool(effect=READS, timeout=1.0)
async def shields_longer() -> str:
    """Its time is up while it must not be interrupted."""
    with anyio.CancelScope(shield=True):
        await anyio.sleep(3)
    return "in order"


@tool(effect=READS)
async def sets() -> str:
    """Leaves something in its context, and says what it found there."""
    found = SET.get()
    SET.set("by another step")
    return found


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_a_tool_shields_is_not_interrupted_by_the_end_of_the_run(backend: str) -> None:
    """Its next wait is."""

    async def main() -> float:
        with anyio.move_on_after(10):
            await Engine([shields], policies=ONCE, clock=now).run(plan("shields"))
        return now()

    assert run_virtual(backend, main) == pytest.approx(50)
    assert SEEN == ["in order"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_tool_that_does_not_listen_is_cancelled_at_each_of_its_waits(backend: str) -> None:
    """So the run ends at once."""

    async def main() -> float:
        with anyio.move_on_after(10):
            await Engine([stubborn], policies=ONCE, clock=now).run(plan("stubborn"))
        return now()

    assert run_virtual(backend, main) == pytest.approx(10)
    assert SEEN == ["again"] * 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_call_has_its_own_time(backend: str) -> None:
    """Whatever the others have, and whoever began first; a time that was kept is over with its call."""
    journal = MemoryJournal()
    tools = [two, five, four_of_five]
    policies = ONCE.model_copy(update={"limits": ONCE.limits.model_copy(update={"run": 2})})

    async def main() -> Any:
        return await Engine(tools, policies=policies, journal=journal, clock=now).run(
            plan("five", "four_of_five", "two")
        )

    run = run_virtual(backend, main)
    begun = {e.path: e.at for e in journal.events(run.id) if isinstance(e, CallStarted)}
    ended = [
        (str(e.path[0]), round(e.at - begun[e.path], 3), e.failure.kind.value if e.failure else "")
        for e in journal.events(run.id)
        if isinstance(e, CallSettled)
    ]
    assert sorted(ended) == [("s0", 5.0, "timeout"), ("s1", 4.0, ""), ("s2", 2.0, "timeout")]


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_a_tool_shields_may_outlast_its_time(backend: str) -> None:
    """It is told afterwards; what it gives by then counts, for the call took place."""

    async def main() -> Any:
        return await Engine([shields_longer], policies=ONCE, clock=now).run(plan("shields_longer"))

    assert run_virtual(backend, main)["s0"] == "in order"


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_step_finds_what_another_left_in_its_context(backend: str) -> None:
    """Whether it begins beside or after it."""
    chain = [{"id": f"s{i}", "tool": "sets", "after": [f"s{i - 1}"] if i % 3 else []} for i in range(9)]

    async def main() -> Any:
        SET.set("by the caller")
        return await Engine([sets], policies=ONCE, clock=now).run(Plan.model_validate({"steps": chain}))

    run = run_virtual(backend, main)
    assert {run[f"s{i}"] for i in range(9)} == {"by the caller"}


def cancelled_from_elsewhere(engine: Engine, waits: int) -> None:
    """Run two steps side by side, and cancel their tasks, not who drives, some rounds of the loop after these were made."""

    async def main() -> None:
        driving = asyncio.ensure_future(engine.run(plan("two", "two")))
        me = asyncio.current_task()
        for _ in range(100):
            attempts = asyncio.all_tasks() - {driving, me}
            if attempts:
                break
            await asyncio.sleep(0)
        for _ in range(waits):
            await asyncio.sleep(0)
        for task in attempts:
            task.cancel()
        await driving

    run_virtual("asyncio", main)


@pytest.mark.parametrize(("waits", "begun"), [(0, 0), (1, 2), (5, 2)])
def test_a_task_that_somebody_else_cancels_takes_the_run_with_it(waits: int, begun: int) -> None:
    """Before it began or while it works: there is an end for each attempt, and nobody waits for what will not come."""
    journal = MemoryJournal()
    cancelled_from_elsewhere(Engine([two], policies=ONCE, journal=journal, clock=now), waits)
    [line] = journal.runs()
    events = list(journal.events(line.run))
    assert sum(isinstance(e, CallStarted) for e in events) == begun
    assert sum(isinstance(e, CallSettled) and e.attempt > 0 for e in events) == begun
    assert events[-1].at < 3


def test_who_drives_may_be_cancelled_again_and_again() -> None:
    """It waits for its tasks all the same, and then ends as cancelled."""
    journal = MemoryJournal()

    async def main() -> tuple[bool, float]:
        engine = Engine([shields], policies=ONCE, journal=journal, clock=now)
        driving = asyncio.ensure_future(engine.run(plan("shields")))
        for _ in range(5):
            await anyio.sleep(5)
            driving.cancel()
        await asyncio.wait([driving])
        return driving.cancelled(), round(now(), 3)

    assert run_virtual("asyncio", main) == (True, 50.0)
    [line] = journal.runs()
    assert isinstance(list(journal.events(line.run))[-1], RunPaused)


def _eager() -> Callable[..., Any]:
    if sys.version_info >= (3, 12):
        return asyncio.eager_task_factory

    def factory(loop: asyncio.AbstractEventLoop, coro: Any) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=loop)

    return factory


def test_a_loop_that_makes_tasks_in_its_own_way_is_let_do_so() -> None:
    """Also one that begins them at once."""

    async def main() -> Any:
        asyncio.get_running_loop().set_task_factory(_eager())
        engine = Engine([sets, two, four_of_five], policies=ONCE, clock=now)
        return await engine.run(plan("sets", "two", "four_of_five"))

    run = run_virtual("asyncio", main)
    assert (run["s0"], run["s2"], now_of(run)) == ("", "in time", "timeout")


def now_of(run: Any) -> str:
    """The kind of the first failure."""
    return str(run.failures[0][1].kind.value)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_error_of_one_task_ends_the_others_and_is_raised(backend: str) -> None:
    """It is not lost, and comes alone."""

    async def waits(member: Member) -> None:
        try:
            await anyio.sleep(100)
        finally:
            SEEN.append("ended")

    async def fails() -> None:
        await anyio.sleep(1)
        raise ZeroDivisionError("a fault of ours")

    async def whole() -> None:
        over = anyio.Event()
        crew = crew_here(over.set)
        async with crew:
            for _ in range(3):
                member = Member()
                crew.start(member, waits, member)
            crew.start(Member(), fails)
            await over.wait()

    async def main() -> float:
        with pytest.raises(ZeroDivisionError), first_error():
            await whole()
        return now()

    assert run_virtual(backend, main) == pytest.approx(1)
    assert SEEN == ["ended"] * 3


class Pulse:
    """A clock that is set, and tells when somebody rests."""

    def __init__(self) -> None:
        self.now, self.rests = 100.0, 0

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.rests += 1
        self.now += seconds


def test_a_busy_loop_rests_now_and_then_for_its_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """For real, so that they get the interpreter; once in five milliseconds, however many runs there are."""
    pulse = Pulse()
    monkeypatch.setattr(threads, "time", pulse)
    monkeypatch.setattr(threads, "_last", threading.local())
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    for _ in range(100):
        threads.breathe()
        pulse.now += 0.001
    assert 16 <= pulse.rests <= 20


@pytest.mark.anyio
@pytest.mark.parametrize("others", [0, 1])
async def test_a_loop_rests_only_where_there_are_other_threads(
    monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    """Those of tools, of a journal or of the host."""
    pulse = Pulse()
    monkeypatch.setattr(threads, "time", pulse)
    monkeypatch.setattr(threads, "_last", threading.local())
    monkeypatch.setattr(threading, "active_count", lambda: 1 + others)
    run = await Engine([sets], policies=ONCE).run(plan("sets", "sets"))
    assert run.ok
    assert bool(pulse.rests) is bool(others)


PRESSED = """
import anyio, gc
from foreplan import Engine, Plan, Policies, tool

@tool(effect="reads")
async def press() -> int:
    "Somebody presses Ctrl-C."
    raise KeyboardInterrupt

@tool(effect="reads")
async def other() -> int:
    "Works beside it."
    try:
        await anyio.sleep(1000)
    finally:
        print("ended")

try:
    steps = [{"id": name, "tool": name} for name in ("other", "press")]
    Engine([press, other], policies=Policies(approve="never")).run_blocking(Plan.model_validate({"steps": steps}))
except KeyboardInterrupt:
    gc.collect()
    print("stopped")
"""


def test_ctrl_c_in_a_task_ends_the_program_and_says_nothing_more() -> None:
    """It goes straight to whoever runs the loop; the others end, and no task is left that nobody asked how it ended."""
    ended = subprocess.run([sys.executable, "-P", "-c", PRESSED], capture_output=True, text=True, check=False)
    assert (ended.stdout.split(), ended.stderr) == (["ended", "stopped"], "")


@tool(effect=READS)
async def leaves_open() -> str:
    """Enters a scope and does not leave it."""
    anyio.CancelScope().__enter__()
    return "done"


def test_a_scope_that_a_tool_leaves_open_is_no_matter_of_the_run() -> None:
    """Its call is done, and so are those beside and after it."""
    steps: list[dict[str, Any]] = [{"id": "a", "tool": "leaves_open"}, {"id": "b", "tool": "four_of_five"}]
    steps += [{"id": "c", "tool": "sets", "after": ["a"]}]

    async def main() -> Any:
        engine = Engine([leaves_open, four_of_five, sets], policies=ONCE, clock=now)
        return await engine.run(Plan.model_validate({"steps": steps}))

    run = run_virtual("asyncio", main)
    assert (run.state, run["a"], run["b"]) == ("done", "done", "in time")
