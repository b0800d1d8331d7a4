"""Tools that misbehave: the run ends, siblings keep their results, and each started attempt has one end."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections import Counter
from contextvars import ContextVar
from typing import Any

import anyio
import pytest
from support.virtual import BACKENDS, now, run_virtual

from foreplan import Effect, Engine, Limits, MemoryJournal, Plan, Policies, Retry, Run, Tool, tool
from foreplan.executor.events import CallSettled, CallStarted, Outcome
from foreplan.policies.failures import Happened, Kind

READS = Effect.READS
ONCE = Policies(approve="never", retry=Retry(attempts=1))


@tool(effect=READS)
async def good(x: int) -> int:
    """A sibling that does its work."""
    await anyio.lowlevel.checkpoint()
    return x


def beside(bad: Tool) -> Plan:
    """The misbehaving call between ten good siblings, and one step that needs them all."""
    return Plan.model_validate(
        {
            "steps": [
                {"id": "before", "each": {"$": "range(5)"}, "tool": "good", "args": {"x": {"$": "item"}}},
                {"id": "bad", "tool": bad.name},
                {"id": "beside", "each": {"$": "range(5)"}, "tool": "good", "args": {"x": {"$": "item"}}},
                {"id": "added", "value": {"$": "sum(before) + sum(beside)"}},
            ]
        }
    )


def observe(backend: str, bad: Tool, policies: Policies = ONCE) -> Run:
    """Run it, and hold the journal against the promise of one end per attempt."""
    journal = MemoryJournal()

    async def main() -> Run:
        return await Engine([good, bad], policies=policies, journal=journal, clock=now).run(beside(bad))

    run = run_virtual(backend, main)
    events = list(journal.events(run.id))
    started = Counter((e.path, e.attempt) for e in events if isinstance(e, CallStarted))
    settled = Counter((e.path, e.attempt) for e in events if isinstance(e, CallSettled) and e.attempt)
    assert started == settled
    assert run["before"] == run["beside"] == [0, 1, 2, 3, 4]
    assert run["added"] == 20
    return run


@tool(effect=READS)
async def raises() -> int:
    """Raises."""
    raise ZeroDivisionError("oops")


@tool(effect=READS, timeout=None)  # a thread takes real time, which virtual time would jump over
def raises_in_thread() -> int:
    """Raises in a thread."""
    raise ZeroDivisionError("oops")


@tool(effect=READS)
async def raises_nothing_said() -> int:
    """An exception without a text."""
    raise RuntimeError


@tool(effect=READS)
async def cancels_itself() -> int:
    """Raises what only a loop should raise."""
    raise asyncio.CancelledError


@tool(effect=READS)
async def leaves() -> int:
    """Calls sys.exit."""
    sys.exit(7)


@tool(effect=READS, timeout=None)  # a thread takes real time, which virtual time would jump over
def leaves_in_thread() -> int:
    """Calls sys.exit in a thread."""
    sys.exit(7)


@tool(effect=READS)
async def generator_exit() -> int:
    """Raises GeneratorExit."""
    raise GeneratorExit


@tool(effect=READS)
async def group() -> int:
    """Raises a group."""
    raise ExceptionGroup("several", [ValueError("one"), ValueError("two")])


@tool(effect=READS)
async def unserialisable() -> Any:
    """Gives an object that is no JSON."""
    return {"deep": [object()]}


@tool(effect=READS)
async def not_a_number() -> Any:
    """Gives NaN."""
    return {"x": float("nan")}


@tool(effect=READS)
async def wrong_type() -> int:
    """Promises a number."""
    return "text"  # type: ignore[return-value]


@tool(effect=READS)
async def huge() -> str:
    """Gives 50 MB."""
    return "x" * 50_000_000


FAILING = {
    raises: (Kind.BUSINESS, "ZeroDivisionError"),
    raises_in_thread: (Kind.BUSINESS, "ZeroDivisionError"),
    raises_nothing_said: (Kind.BUSINESS, "RuntimeError"),
    cancels_itself: (None, "CancelledError"),
    leaves: (None, "SystemExit"),
    leaves_in_thread: (None, "SystemExit"),
    generator_exit: (None, "GeneratorExit"),
    group: (Kind.BUSINESS, ""),
    unserialisable: (Kind.BUSINESS, ""),
    not_a_number: (Kind.BUSINESS, ""),
    wrong_type: (Kind.BUSINESS, ""),
    huge: (Kind.BUSINESS, ""),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("bad", FAILING, ids=lambda bad: bad.name)
def test_a_misbehaving_tool_fails_alone(backend: str, bad: Tool) -> None:
    """The failure has a kind, a code, a message and the exception's class; siblings are untouched."""
    run = observe(backend, bad)
    kind, exception = FAILING[bad]
    [(where, failure)] = run.failures
    assert where == "bad"
    assert run.state == "failed"
    assert failure.message
    assert failure.code
    assert kind is None or failure.kind is kind
    assert failure.exception == exception or not exception


def test_a_result_that_is_no_json_says_where_when_the_step_settles() -> None:
    """Not later, when it is stored: the path is in the message (D1)."""
    [(_, failure)] = observe("asyncio", unserialisable).failures
    assert (failure.code, failure.happened) == ("unserialisable_result", Happened.YES)
    assert "deep" in failure.message


def test_none_is_a_result() -> None:
    """A tool that gives None succeeded."""

    @tool(effect=READS)
    async def nothing() -> None:
        """Gives nothing."""

    run = observe("asyncio", nothing)
    assert (run.state, run.steps["bad"].outcome, run["bad"]) == ("done", Outcome.OK, None)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_exception_without_a_text_still_says_what_and_where(backend: str) -> None:
    """C3 of the field: kind, code, class, step and tool stand in the record although `str(exc)` is empty."""
    run = observe(backend, raises_nothing_said)
    [(where, failure)] = run.failures
    assert (where, run.steps[where].tool) == ("bad", "raises_nothing_said")
    assert (failure.kind, failure.code, failure.exception) == (Kind.BUSINESS, "tool_error", "RuntimeError")
    assert "RuntimeError" in failure.message
    assert "'bad'" in run.message


@pytest.mark.parametrize("backend", BACKENDS)
def test_attempts_that_are_used_up_are_named_with_step_and_last_error(backend: str) -> None:
    """R3 of the field: which step, how many attempts of how many, and what came of the last."""
    tries: list[int] = []

    @tool(effect=READS)
    async def down() -> int:
        """Refuses, each time in other words."""
        tries.append(1)
        raise ConnectionRefusedError(f"refused {len(tries)}")

    run = observe(backend, down, Policies(retry=Retry(attempts=3, base=0)))
    assert "'bad' after 3 of at most 3 attempts: " in run.message
    assert "refused 3" in run.message


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_async_tool_that_hangs_is_cut_at_its_deadline(backend: str) -> None:
    """The failure says deadline; nothing waits longer."""

    @tool(effect=READS, timeout=5)
    async def hangs() -> int:
        """Never ends."""
        await anyio.sleep_forever()
        return 0

    [(_, failure)] = observe(backend, hangs).failures
    assert (failure.kind, failure.code, failure.happened) == (Kind.TIMEOUT, "deadline", Happened.MAYBE)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_sync_tool_that_hangs_is_left_behind_at_its_deadline(backend: str) -> None:
    """T1 of the field: the result is there at the deadline, and says that the thread may still be running."""
    release = threading.Event()

    @tool(effect=READS, timeout=5)
    def hangs() -> int:
        """Never ends by itself."""
        release.wait()
        return 0

    [(_, failure)] = observe(backend, hangs).failures
    assert (failure.kind, failure.code) == (Kind.TIMEOUT, "deadline")
    assert "still be running" in failure.message
    release.set()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_clean_up_error_after_the_deadline_does_not_hide_the_deadline(backend: str) -> None:
    """C4 of the field."""

    @tool(effect=READS, timeout=5)
    async def untidy() -> int:
        """Raises while it is being cancelled."""
        try:
            await anyio.sleep_forever()
        finally:
            raise ValueError("while cleaning up")

    [(_, failure)] = observe(backend, untidy).failures
    assert failure.code == "deadline"


def test_a_tool_that_cancels_its_own_task_harms_nobody() -> None:
    """`asyncio.current_task().cancel()` stays inside the call, whether it awaits afterwards or not."""

    @tool(effect=READS)
    async def self_cancel_quietly() -> int:
        """Asks for its own cancellation and returns."""
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return 1

    @tool(effect=READS)
    async def self_cancel() -> int:
        """Asks for its own cancellation and awaits."""
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        return 1

    assert observe("asyncio", self_cancel_quietly)["bad"] == 1
    [(_, failure)] = observe("asyncio", self_cancel).failures
    assert failure.exception == "CancelledError"


@pytest.mark.parametrize("backend", BACKENDS)
def test_slots_of_threads_that_hang_are_not_given_away(backend: str) -> None:
    """With one slot and a thread that keeps it, the next call waits its time-out and fails as `no_slot`."""
    release = threading.Event()

    @tool(effect=READS, timeout=5)
    def hangs(x: int) -> int:
        """The first call never ends."""
        release.wait()
        return x

    plan = Plan.model_validate(
        {
            "steps": [
                {
                    "id": "h",
                    "each": {"$": "[1, 2]"},
                    "tool": "hangs",
                    "args": {"x": {"$": "item"}},
                    "on_failure": "skip",
                }
            ]
        }
    )
    policies = ONCE.model_copy(update={"limits": Limits(tool={"hangs": 1})})

    async def main() -> Run:
        return await Engine([hangs], policies=policies, clock=now).run(plan)

    run = run_virtual(backend, main)
    release.set()
    assert [failure.code for _, failure in run.failures] == ["deadline", "no_slot"]


@pytest.mark.anyio
async def test_context_variables_do_not_leak_between_steps_and_reach_threads() -> None:
    """T2 of the field, and the leak of a finishing task that spawns the next."""
    place: ContextVar[str] = ContextVar("place", default="nowhere")

    @tool(effect=READS)
    async def enter(x: int) -> str:
        """Sets the variable; gives what was there."""
        was = place.get()
        place.set(f"step {x}")
        return was

    @tool(effect=READS)
    def look(x: int) -> str:
        """Gives the variable, in a thread; sets it too."""
        was = place.get()
        place.set("thread")
        return was

    steps: list[dict[str, Any]] = []
    for i in range(20):
        name = "enter" if i % 2 else "look"
        step: dict[str, Any] = {"id": f"s{i}", "tool": name, "args": {"x": i}}
        if i:
            step["after"] = [f"s{i - 1}"]
        steps.append(step)
    place.set("the caller's")
    run = await Engine([enter, look]).run(Plan.model_validate({"steps": steps}))
    assert {step.value for step in run.steps.values()} == {"the caller's"}
    assert place.get() == "the caller's"


@pytest.mark.anyio
async def test_arguments_are_copies() -> None:
    """A tool that changes what it was given changes nothing for others."""

    @tool(effect=READS)
    async def spoil(rows: list[int]) -> int:
        """Empties its argument."""
        taken = len(rows)
        rows.clear()
        return taken

    plan = Plan.model_validate(
        {
            "steps": [
                {"id": "rows", "value": [1, 2, 3]},
                {"id": "a", "tool": "spoil", "args": {"rows": {"$": "rows"}}},
                {"id": "b", "after": ["a"], "tool": "spoil", "args": {"rows": {"$": "rows"}}},
            ]
        }
    )
    run = await Engine([spoil]).run(plan)
    assert (run["a"], run["b"], run["rows"]) == (3, 3, [1, 2, 3])


@pytest.mark.anyio
async def test_cancelled_from_outside_a_run_settles_what_is_under_way_and_can_be_resumed() -> None:
    """Cancellation travels on; each attempt has its end; resumed, the run goes on without repeating what settled."""
    calls: list[int] = []
    hold = anyio.Event()

    @tool(effect=READS)
    async def step(x: int) -> int:
        """The second call waits."""
        calls.append(x)
        if x == 1 and not hold.is_set():
            reached.set()
            await hold.wait()
        return x

    reached = anyio.Event()
    journal = MemoryJournal()
    engine = Engine([step], journal=journal)
    plan = Plan.model_validate(
        {"steps": [{"id": "s", "each": {"$": "[0, 1]"}, "tool": "step", "args": {"x": {"$": "item"}}}]}
    )

    async def drive() -> None:
        await engine.run(plan, run_id="r")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(drive)
        await reached.wait()
        tasks.cancel_scope.cancel()
    assert [e.outcome for e in journal.events("r") if isinstance(e, CallSettled)] == [
        Outcome.OK,
        Outcome.CANCELLED,
    ]
    assert engine.show("r").state == "waiting"
    hold.set()
    run = await engine.resume("r")
    assert (run.state, run["s"], sorted(calls)) == ("done", [0, 1], [0, 1, 1])


@pytest.mark.anyio
async def test_a_live_run_can_be_cancelled_for_good() -> None:
    """`engine.cancel`: it closes as stopped(cancelled); nothing goes on."""
    reached = anyio.Event()

    @tool(effect=READS)
    async def hangs() -> int:
        """Waits."""
        reached.set()
        await anyio.sleep_forever()
        return 0

    engine = Engine([hangs])
    found: list[Run] = []

    async def drive() -> None:
        found.append(
            await engine.run(Plan.model_validate({"steps": [{"id": "h", "tool": "hangs"}]}), run_id="r")
        )

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(drive)
        await reached.wait()
        engine.cancel("r")
    assert [(run.state, run.reason) for run in found] == [("stopped", "cancelled")]


PROCESS = """
import threading
from foreplan import Effect, Engine, Plan, Policies, Retry, tool

@tool(effect=Effect.READS, timeout=0.2)
def hangs() -> int:
    "Never ends."
    threading.Event().wait()
    return 0

engine = Engine([hangs], policies=Policies(retry=Retry(attempts=1)))
run = engine.run_blocking(Plan.model_validate({"steps": [{"id": "h", "tool": "hangs"}]}))
print(run.state, [failure.code for _, failure in run.failures])
"""


def test_a_thread_that_hangs_does_not_keep_the_process_alive() -> None:
    """T1 of the field: the process ends at once when the program does."""
    ended = subprocess.run(
        [sys.executable, "-c", PROCESS], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.stdout.strip(), ended.returncode) == ("failed ['deadline']", 0), ended.stderr
