"""A thread wakes an event loop, and does no harm when the loop has gone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import anyio
import pytest

from foreplan.executor.wake import Bell, Portal, bell_here


@pytest.mark.anyio
async def test_a_thread_wakes_whoever_waits() -> None:
    """The call is made in the loop, on the thread that runs it."""
    portal, woken, where = Portal.current(), anyio.Event(), []

    def wake(name: str) -> None:
        where.append((name, threading.get_ident()))
        woken.set()

    threading.Thread(target=portal.call_soon, args=(wake, "x"), daemon=True).start()
    with anyio.fail_after(10):
        await woken.wait()
    assert where == [("x", threading.get_ident())]


@pytest.mark.anyio
async def test_the_loop_itself_may_call_too() -> None:
    """No thread of its own is needed; the call comes later, never at once."""
    woken = anyio.Event()
    Portal.current().call_soon(woken.set)
    assert not woken.is_set()
    with anyio.fail_after(10):
        await woken.wait()


def test_a_loop_that_has_gone_is_left_alone(anyio_backend: str) -> None:
    """A late thread finds the loop closed; nothing is raised and nothing is called."""
    kept: list[Portal] = []

    async def main() -> None:
        kept.append(Portal.current())

    anyio.run(main, backend=anyio_backend)
    called: list[int] = []
    kept[0].call_soon(called.append, 1)
    assert called == []


def test_portals_into_one_loop_are_equal(anyio_backend: str) -> None:
    """So that what waits in one loop can be woken together."""

    async def two() -> tuple[Portal, Portal]:
        return Portal.current(), Portal.current()

    first, second = anyio.run(two, backend=anyio_backend)
    other, _ = anyio.run(two, backend=anyio_backend)
    assert first == second
    assert {first, second} == {first}
    assert other != first


def test_outside_of_a_loop_there_is_no_way_in() -> None:
    """Asking without a running loop is the caller's mistake."""
    with pytest.raises(RuntimeError):
        Portal.current()


def test_asyncio_without_anyio_is_served_as_well() -> None:
    """A program that uses asyncio directly, with trio merely imported, gets asyncio's loop."""

    async def main(make: Callable[[], Portal]) -> bool:
        woken = asyncio.Event()
        make().call_soon(woken.set)
        return await asyncio.wait_for(woken.wait(), 10)

    assert asyncio.run(main(Portal.current))


@pytest.mark.anyio
async def test_a_bell_wakes_all_who_wait_from_any_thread() -> None:
    """One that gave up harms nobody, and who comes later does not wait."""
    bell, woken = bell_here(), []

    async def wait(who: int) -> None:
        await bell.wait()
        woken.append(who)

    async with anyio.create_task_group() as tasks:
        for who in range(3):
            tasks.start_soon(wait, who)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await bell.wait()
        await anyio.wait_all_tasks_blocked()
        await anyio.to_thread.run_sync(bell.ring)
    assert sorted(woken) == [0, 1, 2]
    with anyio.fail_after(30):
        await bell.wait()


@pytest.mark.anyio
async def test_a_bell_knows_its_loop() -> None:
    """It is here in its own loop, and in no thread beside it."""
    bell = bell_here()
    assert bell.is_here
    assert not await anyio.to_thread.run_sync(lambda: bell.is_here)


def test_a_bell_is_of_one_of_two_loops_in_a_thread() -> None:
    """Loops that take turns in one thread do not wait for each other's bells."""
    one, other = asyncio.new_event_loop(), asyncio.new_event_loop()

    async def made() -> Bell:
        return bell_here()

    async def here(bell: Bell) -> bool:
        return bell.is_here

    try:
        bell = one.run_until_complete(made())
        assert (one.run_until_complete(here(bell)), other.run_until_complete(here(bell))) == (True, False)
    finally:
        one.close()
        other.close()
