"""Limits while runs run, in virtual time on both loops: nothing is exceeded, nobody waits for ever, nothing leaks."""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from collections.abc import Iterable
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
    Rate,
    Rates,
    Retry,
    Run,
    Tool,
    ToolFailure,
    as_tool,
    tool,
)
from foreplan.executor.events import CallStarted
from foreplan.executor.journal.journal import MemoryLog
from foreplan.policies.errors import BadInput
from foreplan.policies.failures import Happened, Kind

pytestmark = pytest.mark.parametrize("backend", BACKENDS)

PATIENT = Retry(attempts=1, patience=1e6)


def each(tool: str, count: int, **more: Any) -> dict[str, Any]:
    """A step that calls a tool so many times."""
    step = {"id": f"{tool}_all", "each": {"$": f"range({count})"}, "tool": tool, "args": {"x": {"$": "item"}}}
    return {**step, "on_failure": "skip", **more}


def planned(*steps: dict[str, Any]) -> Plan:
    return Plan.model_validate({"steps": list(steps)})


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
        @tool(name=name, effect="reads", host=host, timeout=20)
        async def called(x: int) -> int:
            """Takes its time, fails now and then, and sometimes asks for rest."""
            for key in (name, host or "nowhere", "all"):
                self.starts[key].append(now())
                self.under_way[key] += 1
                self.most[key] = max(self.most[key], self.under_way[key])
            try:
                await anyio.sleep(self.draw.choice([0.0, 0.1, 1.0, 3.0, 30.0]))
                if self.draw.random() < 0.2:
                    rest = self.draw.choice([None, None, 0.5, 0.5, 4.0, 4.0, 4.0, 500.0])
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
    assert len(world.starts["all"]) >= 10
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


class SlowLog(MemoryLog):
    """A log that needs a while to be durable, and not always the same."""

    draw = random.Random(7)

    async def durable(self) -> None:
        await anyio.sleep(self.draw.choice([0.0, 0.3, 2.0]))


class SlowJournal(MemoryJournal):
    def create(self, run: str, *, approval: str = "") -> SlowLog:
        super().create(run, approval=approval)
        return SlowLog(run, self._events[run], self)


def test_a_limit_is_reserved_before_anything_is_awaited(backend: str) -> None:
    """Threat 18: fifty calls that come at once find five places, not fifty, however long each then needs to begin."""
    starts: list[float] = []
    under_way, most = [0], [0]

    @tool(effect="writes", host="api.example")
    async def put(x: int) -> int:
        """Writes."""
        starts.append(now())
        under_way[0] += 1
        most[0] = max(most[0], under_way[0])
        await anyio.sleep(20)
        under_way[0] -= 1
        return x

    limits = Limits(rates=Rates(tool={"put": Rate(calls=5, seconds=10)}), host={"api.example": 7})
    journal = SlowJournal()

    async def main() -> None:
        engine = Engine([put], policies=rules(limits), journal=journal, clock=now)
        async with anyio.create_task_group() as tasks:
            for _ in range(50):
                tasks.start_soon(engine.run, planned({"id": "p", "tool": "put", "args": {"x": 1}}))

    run_virtual(backend, main)
    recorded = [
        e.at for line in journal.runs() for e in journal.events(line.run) if isinstance(e, CallStarted)
    ]
    assert len(starts) == len(recorded) == 50
    assert most_within(starts, 10) == 5
    assert most_within(recorded, 10) <= 5
    assert most == [7]


# ---------------------------------------------------------------------------------------------- fairness


def test_a_free_tool_does_not_wait_behind_a_slow_one(backend: str) -> None:
    """Same engine, same principal: while forty calls wait for a slow tool, another tool is called at once."""
    slow: list[float] = []
    free: list[float] = []
    tools = [timed("slow", slow, host="api.example"), timed("free", free, host="api.example")]
    rates = Rates(tool={"slow": Rate(calls=1, seconds=60)}, principal=Rate(calls=3, seconds=1))
    engine = Engine(tools, policies=rules(Limits(host={"api.example": 3}, rates=rates)), clock=now)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(engine.run, planned(each("slow", 40)))
            await anyio.sleep(100)
            tasks.start_soon(engine.run, planned(each("free", 6)))

    run_virtual(backend, main)
    assert [round(at) for at in free] == [100, 100, 100, 101, 101, 101]
    assert slow == [pytest.approx(60 * i, abs=0.01) for i in range(40)]


def test_a_free_step_does_not_wait_until_a_slow_one_of_its_run_is_through(backend: str) -> None:
    """Within one run: the calls that wait for a slow tool do not take all slots of the run."""
    slow: list[float] = []
    free: list[float] = []
    tools = [timed("slow", slow), timed("free", free)]
    limits = Limits(run=16, rates=Rates(tool={"slow": Rate(calls=1, seconds=60)}))
    engine = Engine(tools, policies=rules(limits), clock=now)
    first = {"id": "begin", "tool": "free", "args": {"x": 1}}
    plan = planned(each("slow", 100), first, each("free", 30, after=["begin"]))
    run = run_virtual(backend, lambda: engine.run(plan))
    assert run.state == "done"
    assert max(free) <= 5
    assert slow == [pytest.approx(60 * i, abs=0.01) for i in range(100)]


def test_a_cap_of_a_host_is_used_to_the_full(backend: str) -> None:
    """That only a few calls of a run wait at a time costs nothing: whoever begins lets the next one come."""
    starts: list[float] = []
    engine = Engine(
        [timed("get", starts, host="h")], policies=rules(Limits(run=40, host={"h": 40})), clock=now
    )
    run = run_virtual(backend, lambda: engine.run(planned(each("get", 120))))
    assert (run.state, sorted(starts)) == ("done", [0] * 40 + [1] * 40 + [2] * 40)


def test_calls_begin_in_the_order_in_which_they_came(backend: str) -> None:
    """One queue for all runs of an engine: who came first goes first."""
    order: list[int] = []

    @tool(effect="reads", host="api.example")
    async def get(x: int) -> int:
        """One request."""
        order.append(x)
        await anyio.sleep(1)
        return x

    engine = Engine([get], policies=rules(Limits(host={"api.example": 2})), clock=now)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            for x in range(20):
                tasks.start_soon(engine.run, planned({"id": "g", "tool": "get", "args": {"x": x}}))
                await anyio.sleep(0.01)

    run_virtual(backend, main)
    assert order == list(range(20))


def test_a_call_that_is_cancelled_while_it_waits_gives_its_place_back(backend: str) -> None:
    """Those behind it move up; nothing of it is in the journal, and the run can be resumed."""
    starts: list[float] = []
    get = timed("get", starts, takes=0)
    limits = Limits(rates=Rates(tool={"get": Rate(calls=1, seconds=10)}))
    engine = Engine([get], policies=rules(limits), clock=now)
    step = {"id": "g", "tool": "get", "args": {"x": 1}}

    async def main() -> None:
        await engine.run(planned(step))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cut_short)
            await anyio.sleep(1)
            tasks.start_soon(engine.run, planned(step))

    async def cut_short() -> None:
        with anyio.move_on_after(5):
            await engine.run(planned(step), run_id="cut")

    run_virtual(backend, main)
    assert starts == [0, pytest.approx(10, abs=0.01)]
    assert not any(isinstance(e, CallStarted) for e in engine.journal.events("cut"))
    assert engine.show("cut").state == "waiting"
    assert quick(engine) == ({}, 0, 0, set())


def test_waiting_is_not_charged_to_the_time_of_the_tool(backend: str) -> None:
    """The timeout of a tool begins when the tool does."""
    starts: list[float] = []
    get = timed("get", starts, takes=2, timeout=3)
    limits = Limits(rates=Rates(tool={"get": Rate(calls=1, seconds=50)}))
    engine = Engine([get], policies=rules(limits), clock=now)
    run = run_virtual(backend, lambda: engine.run(planned(each("get", 4))))
    assert (run["get_all"], run.failures) == ([0, 1, 2, 3], ())


def test_a_place_that_a_thread_still_takes_is_not_given_away(backend: str) -> None:
    """A sync tool that outlived its deadline keeps its place of the host until its thread ends, also for other runs."""
    release = threading.Event()
    calls: list[int] = []

    @tool(effect="reads", host="api.example", timeout=5)
    def hangs(x: int) -> int:
        """The first call lasts."""
        calls.append(x)
        if x == 0:
            release.wait()
        return x

    other: list[float] = []
    tools = [hangs, timed("get", other, host="api.example")]
    engine = Engine(tools, policies=rules(Limits(host={"api.example": 1})), clock=now)
    limiter = engine._host.limiter
    assert limiter is not None

    async def first() -> Run:
        return await engine.run(planned({"id": "h", "tool": "hangs", "args": {"x": 0}}))

    async def second() -> None:
        with anyio.move_on_after(100):
            await engine.run(planned({"id": "g", "tool": "get", "args": {"x": 0}}), run_id="second")

    assert codes(run_virtual(backend, first)) == ["deadline"]
    run_virtual(backend, second)
    assert other == [], "the loop that called it is closed, but its thread still runs"
    release.set()
    assert run_virtual(backend, lambda: engine.resume("second")).state == "done"
    assert quick(engine) == ({}, 0, 0, set())


# ---------------------------------------------------------------------------------------------- Retry-After


def test_retry_after_holds_everyone_on_that_host_and_they_do_not_come_back_in_lockstep(backend: str) -> None:
    """R1 of the field: one 429 holds the others, of other runs and tools too, and lets through who calls elsewhere."""
    starts: list[float] = []
    asked: list[float] = []
    away: list[float] = []

    @tool(effect="reads", host="api.example")
    async def limited(x: int) -> int:
        """The first call is told to come back later."""
        asked.append(now())
        await anyio.sleep(1)
        if len(asked) == 1:
            raise ToolFailure("slow down", kind="network", code="rate_limited", retry_after=30)
        return x

    tools = [
        limited,
        timed("same", starts, host="API.example", takes=5),
        timed("other", away, host="elsewhere"),
    ]
    retry = Retry(attempts=3, base=0.5)
    dice = random.Random(3).random
    engine = Engine(tools, policies=rules(Limits(), retry), clock=now, dice=dice)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(engine.run, planned({"id": "l", "tool": "limited", "args": {"x": 0}}))
            await anyio.sleep(2)
            for _ in range(2):
                tasks.start_soon(engine.run, planned(each("same", 10), each("other", 10)))

    run_virtual(backend, main)
    assert asked[0] == 0
    assert asked[1] >= 31
    assert min(starts) >= 31
    assert max(away) < 3
    apart = [later - earlier for earlier, later in pairwise(sorted(starts))]
    assert len(set(starts)) == 20, "no two of those who waited begin at once"
    assert max(apart) <= 0.5
    assert max(starts) < 31 + 20 * 0.5


def test_a_rest_that_is_longer_than_patience_fails_at_once_and_calls_nobody(backend: str) -> None:
    """Kind, code, the rest of the time, and the next move; nothing has happened."""
    starts: list[float] = []

    @tool(effect="acts", host="api.example")
    async def limited(x: int) -> int:
        """Asks for an hour."""
        raise ToolFailure("slow down", kind="network", code="rate_limited", retry_after=3600)

    tools = [limited, timed("same", starts, host="api.example")]
    engine = Engine(tools, policies=rules(Limits(), Retry(patience=60)), clock=now)

    async def main() -> tuple[Run, float]:
        await engine.run(planned({"id": "l", "tool": "limited", "args": {"x": 0}}))
        await anyio.sleep(600)
        run = await engine.run(planned({"id": "s", "tool": "same", "args": {"x": 0}}))
        return run, now()

    run, ended = run_virtual(backend, main)
    [(_, failure)] = run.failures
    assert (failure.kind, failure.code, failure.happened) == (Kind.NETWORK, "host_held", Happened.NO)
    assert failure.retry_after == pytest.approx(3000, abs=1)
    assert "patience" in failure.message
    assert (starts, round(ended)) == ([], 600)


def test_a_host_that_asks_again_and_again_is_not_waited_for_longer_than_patience(backend: str) -> None:
    """Total patience: each rest is short enough, all of them are not."""
    asked: list[float] = []

    @tool(effect="reads", host="api.example")
    async def limited(x: int) -> int:
        """Always wants twenty seconds more."""
        asked.append(now())
        raise ToolFailure("slow down", kind="network", code="rate_limited", retry_after=20)

    limits = Limits(host={"api.example": 1})
    engine = Engine([limited], policies=rules(limits, Retry(attempts=1, base=0, patience=90)), clock=now)
    run = run_virtual(backend, lambda: engine.run(planned(each("limited", 20))))
    assert set(codes(run)) == {"rate_limited", "host_held"}
    assert [round(at) for at in asked] == [0, 20, 40, 60, 80]


def test_a_rate_that_is_used_up_for_longer_than_patience_fails_at_once(backend: str) -> None:
    """Waiting in a queue that moves is no failure; waiting for tomorrow is."""
    starts: list[float] = []
    daily = Limits(rates=Rates(tool={"get": Rate(calls=3, seconds=86400)}))
    engine = Engine([timed("get", starts)], policies=rules(daily, Retry(patience=120)), clock=now)
    run = run_virtual(backend, lambda: engine.run(planned(each("get", 5))))
    assert codes(run) == ["rate_limited", "rate_limited"]
    assert [failure.happened for _, failure in run.failures] == [Happened.NO, Happened.NO]
    assert "'get'" in run.failures[0][1].message
    assert len(starts) == 3
    minute = Limits(rates=Rates(tool={"get": Rate(calls=1, seconds=60)}))
    engine = Engine([timed("get", starts)], policies=rules(minute, Retry(patience=120)), clock=now)
    assert codes(run_virtual(backend, lambda: engine.run(planned(each("get", 9))))) == []


# ---------------------------------------------------------------------------------------------- breaker


def test_a_breaker_opens_holds_tries_once_and_closes(backend: str) -> None:
    """After three failures in a row nobody is called for half a minute; then one call tries, and the others wait for it."""
    starts: list[float] = []
    well = [False]

    @tool(effect="acts")
    async def pay(x: int) -> int:
        """Refuses connections until it is well."""
        starts.append(now())
        await anyio.sleep(2)
        if not well[0]:
            raise ConnectionRefusedError("nobody listens")
        return x

    limits = Limits(breaker=Breaker(failures=3, seconds=30), tool={"pay": 1})
    engine = Engine([pay], policies=rules(limits, Retry(attempts=1)), clock=now)

    async def main() -> list[Run]:
        runs = [await engine.run(planned(each("pay", 5)))]
        await anyio.sleep(30)
        runs.append(await engine.run(planned(each("pay", 2))))
        await anyio.sleep(30)
        well[0] = True
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(kept, runs)
        return runs

    async def kept(runs: list[Run]) -> None:
        runs.append(await engine.run(planned(each("pay", 1))))

    runs = run_virtual(backend, main)
    assert codes(runs[0]) == ["connection_refused"] * 3 + ["breaker_open"] * 2
    assert codes(runs[1]) == ["connection_refused", "breaker_open"], "the call that tries opens it again"
    assert [codes(run) for run in runs[2:]] == [[]] * 5
    refused = runs[0].failures[-1][1]
    assert (refused.kind, refused.happened) == (Kind.NETWORK, Happened.NO)
    assert refused.retry_after == pytest.approx(30, abs=0.1)
    assert starts == [pytest.approx(at, abs=0.01) for at in (0, 2, 4, 36, 68, 70, 70, 70, 70)]


def test_attempts_that_a_breaker_refuses_are_no_calls(backend: str) -> None:
    """They are not in the journal as started; an answer in between begins the count anew."""
    outcomes = iter([False, False, True, False, False, False])

    @tool(effect="reads")
    async def flaky(x: int) -> int:
        """As the list says."""
        if not next(outcomes):
            raise ConnectionResetError("gone")
        return x

    limits = Limits(breaker=Breaker(failures=3, seconds=30), tool={"flaky": 1})
    engine = Engine([flaky], policies=rules(limits, Retry(attempts=1)), clock=now)
    run = run_virtual(backend, lambda: engine.run(planned(each("flaky", 10))))
    assert codes(run).count("breaker_open") == 4
    begun = [event for event in engine.journal.events(run.id) if isinstance(event, CallStarted)]
    assert len(begun) == 6


# ---------------------------------------------------------------------------------------------- one engine, many runs


def test_sub_plans_share_the_limits_and_do_not_wait_for_themselves(backend: str) -> None:
    """The host cap holds for the calls inside; the call of the plan itself takes no place of it."""
    world = World(1)
    get = world.tool("get", "one")
    both = as_tool(planned(each("get", 3)), "both", [get])
    limits = Limits(host={"one": 1}, rates=Rates(tool={"get": Rate(calls=2, seconds=1)}))
    engine = Engine([both, get], policies=rules(limits, Retry(attempts=1, patience=1e6)), clock=now)
    steps = [{"id": f"b{i}", "tool": "both", "on_failure": "skip"} for i in range(4)]
    run = run_virtual(backend, lambda: engine.run(planned(*steps, each("get", 5))))
    assert run.state == "done"
    assert len(world.starts["get"]) >= 10
    assert world.most["one"] == 1
    assert most_within(world.starts["get"], 1) <= 2


@pytest.mark.parametrize("fresh", [True, False], ids=["another engine", "the same engine"])
def test_a_resumed_run_remembers_what_it_used_up(backend: str, fresh: bool) -> None:
    """A rate that was used up before the process ended is used up after it, and counted once where it was seen."""
    starts: list[float] = []
    limits = Limits(rates=Rates(principal=Rate(calls=4, seconds=50)))
    journal = MemoryJournal()

    def engine() -> Engine:
        return Engine([timed("get", starts)], policies=rules(limits), journal=journal, clock=now)

    async def main() -> None:
        first = engine()
        with anyio.move_on_after(10):
            await first.run(planned(each("get", 6)), run_id="r")
        again = engine() if fresh else first
        await again.resume("r")

    run_virtual(backend, main)
    assert [round(at) for at in starts] == [0, 0, 0, 0, 50, 50]


def test_a_resumed_run_remembers_a_host_that_asked_for_rest(backend: str) -> None:
    """Retry-After outlives the process; what is over is not remembered."""
    starts: list[float] = []

    @tool(effect="reads", host="api.example")
    async def limited(x: int) -> int:
        """The first call is told to come back later."""
        starts.append(now())
        if len(starts) == 1:
            raise ToolFailure("slow down", kind="network", code="rate_limited", retry_after=40)
        return x

    journal = MemoryJournal()

    def engine() -> Engine:
        policies = rules(Limits(), Retry(base=0))
        return Engine([limited], policies=policies, journal=journal, clock=now)

    async def main() -> None:
        with anyio.move_on_after(10):
            await engine().run(planned({"id": "l", "tool": "limited", "args": {"x": 0}}), run_id="r")
        again = engine()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(again.resume, "r")
            await anyio.sleep(1)
            tasks.start_soon(again.run, planned({"id": "l", "tool": "limited", "args": {"x": 0}}))

    run_virtual(backend, main)
    assert [round(at) for at in starts] == [0, 40, 40]


def test_a_clock_that_stands_still_holds_nobody_for_ever(backend: str) -> None:
    """What was slept by the loop's own clock counts."""
    starts: list[float] = []
    limits = Limits(rates=Rates(tool={"get": Rate(calls=1, seconds=10)}))
    engine = Engine([timed("get", starts)], policies=rules(limits), clock=lambda: 5.0)
    run_virtual(backend, lambda: engine.run(planned(each("get", 3))))
    assert [round(at) for at in starts] == [0, 10, 20]


def test_several_loops_in_several_threads_share_the_cap(backend: str) -> None:
    """`run_blocking` from threads: each has a loop of its own, the host has one cap, and nobody is forgotten."""
    lock = threading.Lock()
    under_way, most = [0], [0]

    @tool(effect="reads", host="api.example")
    async def get(x: int) -> int:
        """One request, in real time."""
        with lock:
            under_way[0] += 1
            most[0] = max(most[0], under_way[0])
        await anyio.sleep(0.001)
        with lock:
            under_way[0] -= 1
        return x

    engine = Engine([get], policies=rules(Limits(host={"api.example": 2})))
    ended: list[str] = []

    def one() -> None:
        ended.append(anyio.run(engine.run, planned(each("get", 20)), backend=backend).state)

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert ended == ["done"] * 4
    assert most[0] <= 2
    assert quick(engine) == ({}, 0, 0, set())


def test_a_misspelt_host_is_no_rule_but_an_error(backend: str) -> None:
    """Caught when the engine is made, with the nearest name."""
    get = timed("get", [], host="api.example")
    for limits in (
        Limits(host={"api.exmaple": 1}),
        Limits(rates=Rates(host={"api.exmaple": Rate(calls=1, seconds=1)})),
    ):
        with pytest.raises(BadInput, match=r"did you mean 'api\.example'"):
            Engine([get], policies=rules(limits))
