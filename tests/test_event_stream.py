"""Events of runs reach whoever reads them: in order, without a gap, resumable by number, and at no cost to the run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from support.virtual import now, run_virtual

from foreplan import Engine, MemoryJournal, Plan, SqliteJournal, as_tool, tool
from foreplan.executor.stream import Seen
from foreplan.policies.errors import BadInput, UnknownRun

pytestmark = pytest.mark.anyio


@tool(effect="reads")
async def double(n: int) -> int:
    """Twice as much."""
    await anyio.lowlevel.checkpoint()
    return 2 * n


def plan(n: int = 3) -> Plan:
    return Plan.model_validate(
        {
            "goal": "double them",
            "steps": [
                {
                    "id": "doubled",
                    "each": list(range(n)),
                    "as": "n",
                    "tool": "double",
                    "args": {"n": {"$": "n"}},
                }
            ],
        }
    )


async def read(engine: Engine, *args: Any, **options: Any) -> list[Seen]:
    with anyio.fail_after(30):
        return [seen async for seen in engine.events(*args, **options)]


def numbers(seen: list[Seen]) -> list[int]:
    return [event.seq for _, event in seen]


async def test_what_a_journal_holds_is_given_in_order() -> None:
    """Without `follow` it ends where the journal ends; `after` begins behind the last one you have."""
    engine = Engine([double])
    run = await engine.run(plan())
    events = list(engine.journal.events(run.id))
    assert await read(engine, run.id) == [Seen(run.id, event) for event in events]
    assert numbers(await read(engine, run.id, after=4)) == list(range(5, len(events) + 1))
    assert await read(engine, run.id, after=len(events), follow=True) == []


async def test_kinds_are_chosen_by_name_or_class() -> None:
    """Others are left out; a kind that there is not is refused with the nearest one."""
    engine = Engine([double])
    run = await engine.run(plan())
    found = await read(engine, run.id, kinds=("CallSettled", type(list(engine.journal.events(run.id))[-1])))
    assert [type(event).__name__ for _, event in found] == ["CallSettled"] * 3 + ["RunClosed"]
    with pytest.raises(BadInput, match="did you mean 'CallSettled'"):
        engine.events(run.id, kinds=("CallSetled",))
    with pytest.raises(BadInput, match="different runs"):
        engine.events(after=3)
    with pytest.raises(UnknownRun):
        await read(engine, "nobody", follow=True)


async def test_several_readers_follow_a_run_to_its_end() -> None:
    """Each gets everything that happens, the events of sub-plans under their own run."""
    inner = as_tool(plan(2), "twice", [double])
    engine = Engine([inner])
    outer = Plan.model_validate({"goal": "both", "steps": [{"id": "a", "tool": "twice", "args": {}}]})
    heard: list[list[Seen]] = [[], []]

    async def follow(into: list[Seen]) -> None:
        async for seen in stream():
            into.append(seen)
            if seen.run == "outer" and type(seen.event).__name__ == "RunClosed":
                return

    def stream() -> Any:
        return engine.events(after=None, follow=True)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            for into in heard:
                tasks.start_soon(follow, into)
            await anyio.wait_all_tasks_blocked()
            await engine.run(outer, run_id="outer")
    assert heard[0] == heard[1]
    runs = [line.run for line in engine.runs()]
    assert len(runs) == 2
    for run in runs:
        assert [e for r, e in heard[0] if r == run] == list(engine.journal.events(run))
    assert engine._host.readers == []


async def test_a_slow_reader_misses_nothing_and_the_run_does_not_wait_for_it() -> None:
    """Far more events than a mailbox holds happen before it reads on; what fell out is read from the journal."""
    engine = Engine([double])
    stream = engine.events(after=None, follow=True)
    run = await engine.run(plan(600))
    assert run.ok
    events = list(engine.journal.events(run.id))
    assert len(events) > 1500
    with anyio.fail_after(30):
        assert [(await anext(stream)).event for _ in events] == events
    stream.close()
    assert engine._host.readers == []


async def test_a_reader_that_is_dropped_is_forgotten() -> None:
    """Nobody has to close one."""
    engine = Engine([double])
    stream = engine.events(follow=True)
    assert len(engine._host.readers) == 1
    del stream
    assert engine._host.readers == []


def test_events_of_another_process_are_found_within_the_interval(anyio_backend: str, tmp_path: Path) -> None:
    """The journal is asked every so often; nothing else connects the two engines."""
    path = tmp_path / "runs.db"
    found: list[Seen] = []

    async def main() -> None:
        with SqliteJournal(path) as ours, SqliteJournal(path) as theirs:
            here, there = (
                Engine([double], journal=ours, clock=now),
                Engine([double], journal=theirs, clock=now),
            )
            await there.run(plan(1), run_id="first")

            async def follow() -> None:
                async for seen in here.events(after={"first": 3}, follow=True, every=5):
                    found.append(seen)
                    if seen.run == "second" and type(seen.event).__name__ == "RunClosed":
                        return

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(follow)
                await anyio.sleep(1)
                await there.run(plan(70), run_id="second")
            assert [s.event for s in found if s.run == "first"] == list(ours.events("first", after=3))
            assert [s.event for s in found if s.run == "second"] == list(ours.events("second"))
            assert now() <= 6

    run_virtual(anyio_backend, main)


@pytest.mark.parametrize("make", [MemoryJournal, None])
async def test_every_journal_gives_what_comes_after_a_number(
    make: Callable[[], MemoryJournal] | None, tmp_path: Path
) -> None:
    """Also from the end, and beyond it."""
    journal = make() if make is not None else SqliteJournal(tmp_path / "runs.db")
    run = await Engine([double], journal=journal).run(plan())
    events = list(journal.events(run.id))
    for after in (0, 1, len(events) - 1, len(events), len(events) + 5):
        assert list(journal.events(run.id, after=after)) == events[after:]
