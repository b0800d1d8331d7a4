"""What a tool knows of its call, and what it says while it works: heard now, from any thread, and never in the journal."""

from __future__ import annotations

import threading
import time
from typing import Any

import anyio
import anyio.to_thread
import pytest

from foreplan import (
    Effect,
    Engine,
    MemoryJournal,
    Plan,
    Policies,
    Retry,
    ToolContext,
    ToolFailure,
    as_tool,
    tool,
)
from foreplan.executor.hands.telling import Said, Teller
from foreplan.registry.vaults import MappingSecrets

pytestmark = pytest.mark.anyio
READS = Effect.READS


def plan_of(*names: str) -> Plan:
    return Plan.model_validate({"steps": [{"id": name, "tool": name} for name in names]})


async def taken_in() -> None:
    """Give the loop the turns it needs to hear what was said."""
    for _ in range(10):
        await anyio.lowlevel.checkpoint()


async def test_a_tool_knows_its_attempt_and_how_many_are_left() -> None:
    """The key stays, the attempt counts up, what is left counts down, and the deadline is ahead."""
    seen: list[ToolContext] = []

    @tool(effect=READS, timeout=5)
    async def flaky(context: ToolContext) -> int:
        """Fail twice."""
        seen.append(context)
        if context.attempts_left:
            raise ToolFailure("later", kind="network")
        return 1

    before = time.time()
    policies = Policies(retry=Retry(attempts=3, base=0))
    run = await Engine([flaky], policies=policies).run(plan_of("flaky"))
    assert run.ok
    assert [(c.attempt, c.attempts_left, c.tool, c.step, c.run_id) for c in seen] == [
        (n, 3 - n, "flaky", "flaky", run.id) for n in (1, 2, 3)
    ]
    assert len({c.idempotency_key for c in seen}) == 1
    assert all(c.deadline is not None and before + 5 <= c.deadline <= time.time() + 5 for c in seen)


async def test_what_tools_say_is_heard_in_order_from_loop_and_thread() -> None:
    """Async tools, sync tools and threads of a tool's own: the last report of each arrives before its end."""
    heard: list[Any] = []
    journal = MemoryJournal()

    @tool(effect=READS)
    async def in_loop(context: ToolContext) -> int:
        """Say something in the loop."""
        context.note("begun")
        context.progress(0.5)
        await taken_in()
        await anyio.to_thread.run_sync(lambda: context.progress(3, 4, "pages"))
        return 1

    @tool(effect=READS)
    def in_thread(context: ToolContext) -> int:
        """Say something in a thread."""
        for n in range(10_000):
            context.progress(n + 1, 10_000)
        context.note("through")
        return 1

    def watch(event: Any) -> None:
        if type(event).__name__ == "CallSettled":
            heard.append(event.path)

    engine = Engine([in_loop, in_thread], journal=journal, listen=heard.append, watch=watch)
    run = await engine.run(plan_of("in_loop", "in_thread"))
    loop = [s for s in heard if isinstance(s, Said) and s.tool == "in_loop"]
    assert [(s.fraction, s.text) for s in loop] == [(None, "begun"), (0.5, ""), (0.75, "pages")]
    thread = [s for s in heard if isinstance(s, Said) and s.tool == "in_thread"]
    assert {s.text for s in thread} == {"", "through"}
    assert max(s.fraction or 0 for s in thread) == 1.0
    assert len(thread) < 10_000  # what nobody could take in was left out
    assert heard.index(("in_thread",)) > heard.index(thread[-1])
    assert {type(e).__name__ for e in journal.events(run.id)} >= {"CallSettled"}
    assert "pages" not in repr(list(journal.events(run.id)))


async def test_tools_inside_a_sub_plan_are_heard_too() -> None:
    """With the run and place of theirs."""
    heard: list[Said] = []

    @tool(effect=READS)
    async def inner(context: ToolContext) -> int:
        """Say something."""
        context.note("deep")
        await taken_in()
        return 1

    engine = Engine([as_tool(plan_of("inner"), "outer", [inner])], listen=heard.append)
    run = await engine.run(plan_of("outer"))
    ((said),) = heard
    assert (said.text, said.run.startswith(f"{run.id}."), said.path) == ("deep", True, ("inner",))


async def test_nonsense_and_a_listener_that_raises_harm_no_tool() -> None:
    """A report that is none is left out; who raises is not told another."""
    heard: list[Said] = []

    @tool(effect=READS)
    async def odd(context: ToolContext) -> int:
        """Say nonsense."""
        for done, total in ((float("nan"), 1), (1, 0), ("x", 1), (10**400, 1), (3, 2)):
            context.progress(done, total)  # type: ignore[arg-type]
            await taken_in()
        context.note("\x1b[2Jred")
        return 1

    def hear(said: Said) -> None:
        heard.append(said)
        if said.fraction is None:
            raise RuntimeError("no more")

    assert (await Engine([odd], listen=hear).run(plan_of("odd"))).ok
    assert [s.fraction for s in heard] == [1.0, None]
    assert "\x1b" not in heard[1].text


async def test_a_note_too_many_is_dropped() -> None:
    """Notes that are not taken in do not pile up: the newest stay."""
    heard: list[Said] = []
    teller = Teller(heard.append, ("r", ("a",), "t", 1))
    for n in range(1000):
        teller.tell(None, 1.0, str(n))
    teller.over()
    teller.tell(None, 1.0, "late")
    await anyio.lowlevel.checkpoint()
    assert [s.text for s in heard] == [str(n) for n in range(936, 1000)]


async def test_a_sync_tool_sees_that_it_was_given_up_and_ends() -> None:
    """After the deadline, and when the run is cancelled: nothing interrupts the thread, so it looks."""
    ended, begun = threading.Event(), threading.Event()

    @tool(effect=READS, timeout=0.01)
    def endless(context: ToolContext) -> int:
        """Work until nobody waits."""
        while not context.cancelled:
            time.sleep(0)  # only gives way
        ended.set()
        return 1

    @tool(effect=READS, timeout=None)
    def unbounded(context: ToolContext) -> int:
        """The same without a deadline."""
        assert context.deadline is None
        begun.set()
        while not context.cancelled:
            time.sleep(0)  # only gives way
        ended.set()
        return 1

    engine = Engine([endless, unbounded], policies=Policies(retry=Retry(attempts=1)))
    run = await engine.run(plan_of("endless"))
    assert run.steps["endless"].failure is not None
    assert run.steps["endless"].failure.code == "deadline"
    assert ended.wait(30)
    ended.clear()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(engine.run, plan_of("unbounded"))
        await anyio.to_thread.run_sync(begun.wait, 30)
        tasks.cancel_scope.cancel()
    assert ended.wait(30)


async def test_no_secret_is_in_what_tools_say_or_log(caplog: pytest.LogCaptureFixture) -> None:
    """Notes, reports and records of the tool's logger are scrubbed as all else is."""
    heard: list[Said] = []

    @tool(effect=READS, secret_refs={"token": "CRM_TOKEN"})
    async def careless(token: str, context: ToolContext) -> int:
        """Tell the secret."""
        context.note(f"with {token}")
        context.progress(0.5, 1, token)
        context.logger.warning("with %s", token)
        return 1

    vault = MappingSecrets({"CRM_TOKEN": "hunter2-hunter2"})
    assert (await Engine([careless], listen=heard.append, secrets=vault).run(plan_of("careless"))).ok
    assert len(heard) == 2
    assert "hunter2" not in repr(heard) + caplog.text


async def test_a_tool_logs_under_its_name_with_its_place(caplog: pytest.LogCaptureFixture) -> None:
    """Records of `foreplan.tool.NAME` carry run, step and attempt."""

    @tool(effect=READS)
    async def busy(context: ToolContext) -> int:
        """Log a line."""
        context.logger.warning("page %d", 3)
        return 1

    run = await Engine([busy]).run(plan_of("busy"))
    [record] = [r for r in caplog.records if r.name == "foreplan.tool.busy"]
    assert (record.getMessage(), record.run, record.step, record.attempt) == ("page 3", run.id, "busy", 1)  # type: ignore[attr-defined]
