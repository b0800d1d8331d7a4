"""A thread wakes an event loop, and does no harm when the loop has gone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import anyio
import pytest

from foreplan.executor.wake import Portal


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
