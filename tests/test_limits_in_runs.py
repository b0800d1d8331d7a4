"""Limits while runs run, in virtual time on both loops: nothing is exceeded, nobody waits for ever, nothing leaks."""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from itertools import pairwise
from typing import Any

import anyio
import pytest
from support.virtual import BACKENDS, now, run_virtual

from foreplan import (
    Breaker,
    Engine,
    Limits,
    MemoryJournal,
    Plan,
    Policies,
    Principal,
    Rate,
    Rates,
    Retry,
    Run,
    Tool,
    ToolFailure,
    as_tool,
    tool,
)
from foreplan.executor.events import CallSettled, CallStarted
from foreplan.policies.errors import BadInput
from foreplan.policies.failures import Happened, Kind

pytestmark = pytest.mark.parametrize("backend", BACKENDS)

PATIENT = Retry(attempts=1, patience=1e6)


def each(tool: str, count: int, **more: Any) -> dict[str, Any]:
    """A step that calls a tool so many times."""
    step = {"id": f"{tool}_all", "each": {"$": f"range({count})"}, "tool": tool, "args": {"x": {"$": "item"}}}
    return {**step, "on_failure": "skip", **more}


def planned(*steps: dict[str, Any]) -> Plan:
    return Plan.model_validate({"steps": steps})


def rules(limits: Limits, retry: Retry = PATIENT) -> Policies:
    return Policies(approve="never", limits=limits, retry=retry)


def timed(name: str, log: list[float], *, host: str = "", takes: float = 1.0, **options: Any) -> Tool:
    """A tool that notes when it is called, and takes its time."""

    @tool(name=name, effect="reads", host=host, **options)
    async def called(x: int) -> int:
        log.append(now())
        await anyio.sleep(takes)
        return x

    return called


def most_within(starts: Iterable[float], seconds: float) -> int:
    """The most starts in any half-open window of that length."""
    times = sorted(starts)
    return max((sum(at - 1e-9 < t < at + seconds - 1e-9 for t in times) for at in times), default=0)


def codes(run: Run) -> list[str]:
    return [failure.code for _, failure in run.failures]


# ---------------------------------------------------------------------------------------------- any interleaving


class World:
    """Tools of random manners, and what was seen of them."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.starts: dict[str, list[float]] = defaultdict(list)
        self.under_way: dict[str, int] = defaultdict(int)
        self.most: dict[str, int] = defaultdict(int)

    def tool(self, name: str, host: str) -> Tool:
        return tool(self._called(name, host), name=name, effect="reads", host=host, timeout=20)

    def _called(self, name: str, host: str) -> Callable[[int], Awaitable[int]]:
        async def called(x: int) -> int:
            """Takes its time, fails now and then, and sometimes asks for rest."""
            for key in (name, host or "nowhere", "all"):
                self.starts[key].append(now())
                self.under_way[key] += 1
                self.most[key] = max(self.most[key], self.under_way[key])
            try:
                await anyio.sleep(self.draw.choice([0.0, 0.1, 1.0, 3.0, 30.0]))
                if self.draw.random() < 0.2:
                    rest = self.draw.choice([None, 0.5, 4.0, 500.0])
                    raise ToolFailure("later", kind="network", code="later", retry_after=rest)
                return x
            finally:
                for key in (name, host or "nowhere", "all"):
                    self.under_way[key] -= 1

        return called


def quick(engine: Engine) -> tuple[Any, ...]:
    """What a limiter still holds, which is nothing when no run is under way."""
    limiter = engine._host.limiter
    assert limiter is not None
    pending = [window.pending for window in limiter._windows.values()]
    return dict(limiter._queues), sum(pending), sum(limiter._busy.values()), set(limiter._trying)


@pytest.mark.parametrize("seed", range(15))
def test_no_interleaving_of_fifty_calls_exceeds_a_cap(backend: str, seed: int) -> None:
    """Random tools, hosts, runs, durations, failures, rests and cancellations: each cap holds, everything ends."""
    world = World(seed)
    draw = random.Random(1000 + seed)
    tools = [world.tool(f"t{i}", host) for i, host in enumerate(["one", "one", "two", "", "two"])]
    slow, fast = Rate(calls=draw.randint(1, 3), seconds=draw.choice([1.0, 7.0])), Rate(calls=5, seconds=2)
    limits = Limits(
        run=draw.choice([4, 64]),
        tool={"t1": 2},
        host={"one": draw.randint(1, 4), "two": 3},
        rates=Rates(tool={"t0": slow}, host={"two": fast}, principal=Rate(calls=6, seconds=1)),
        breaker=draw.choice([None, Breaker(failures=3, seconds=10)]),
    )
    retry = Retry(attempts=2, base=0.5, patience=draw.choice([60, 1000]))
    engine = Engine(tools, policies=rules(limits, retry), clock=now, dice=world.draw.random)
    ended: list[Run] = []

    async def one(index: int) -> None:
        counts = [draw.randint(1, 4) for _ in tools]
        plan = planned(*(each(t.name, count) for t, count in zip(tools, counts, strict=True)))
        await anyio.sleep(draw.choice([0.0, 0.0, 2.5]))
        with anyio.move_on_after(draw.choice([0.3, 5.0, None, None])) as scope:
            ended.append(await engine.run(plan, run_id=f"r{index}"))
        if scope.cancelled_caught:
            ended.append(await engine.resume(f"r{index}"))

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            for index in range(5):
                tasks.start_soon(one, index)

    run_virtual(backend, main)
    assert [run.state for run in ended] == ["done"] * 5
    assert len(world.starts["all"]) >= 25
    for key, rate in (("t0", slow), ("two", fast), ("all", Rate(calls=6, seconds=1))):
        assert most_within(world.starts[key], rate.seconds) <= rate.calls, key
    for key, most in (("one", limits.host["one"]), ("two", 3), ("t1", 10)):
        assert world.most[key] <= most, key
    assert quick(engine) == ({}, 0, 0, set())


def test_eight_hundred_calls_keep_to_the_cap_of_their_host(backend: str) -> None:
    """C5 of the field: one `each` does not take a service down, in one run or several."""
    under_way, most = [0], [0]

    @tool(effect="reads", host="api.example")
    async def get(x: int) -> int:
        """One request."""
        under_way[0] += 1
        most[0] = max(most[0], under_way[0])
        await anyio.sleep(1)
        under_way[0] -= 1
        return x

    engine = Engine([get], policies=rules(Limits(host={"API.example": 8})), clock=now)

    async def main() -> float:
        async with anyio.create_task_group() as tasks:
            for count in (400, 200, 200):
                tasks.start_soon(engine.run, planned(each("get", count)))
        return now()

    assert run_virtual(backend, main) == pytest.approx(100, abs=1)
    assert most == [8]


def test_a_rate_is_kept_to_the_second_and_no_slower_than_it_must(backend: str) -> None:
    """Ten at 3 in 10 s: three at once, three after ten seconds, and so on."""
    starts: list[float] = []
    get = timed("get", starts, takes=25)
    limits = Limits(rates=Rates(tool={"get": Rate(calls=3, seconds=10)}))
    engine = Engine([get], policies=rules(limits), clock=now)
    run = run_virtual(backend, lambda: engine.run(planned(each("get", 10))))
    assert run.state == "done"
    assert [round(at, 2) for at in starts] == [0, 0, 0, 10, 10, 10, 20, 20, 20, 30]


def test_a_limit_is_reserved_before_anything_is_awaited(backend: str) -> None:
    """Threat 18: fifty calls that come at once, with an await between grant and start, find one place, not fifty."""
    starts: list[float] = []
    get = timed("get", starts, host="api.example", takes=0)
    rate = Rate(calls=5, seconds=60)
    limits = Limits(rates=Rates(tool={"get": rate}), host={"api.example": 50})

    async def main() -> None:
        journal = SlowJournal()
        engine = Engine([get.renamed("get")], policies=rules(limits), journal=journal, clock=now)
        async with anyio.create_task_group() as tasks:
            for _ in range(50):
                tasks.start_soon(engine.run, planned({"id": "g", "tool": "get", "args": {"x": 1}}))

    run_virtual(backend, main)
    assert len(starts) == 50
    assert most_within(starts, 60) == 5
