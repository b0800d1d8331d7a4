"""Whether a wide step starves its neighbours: a chain, and sync tools, beside an `each` that leaves the loop no moment.

A chain of 100 steps beside an `each` of 10,000, 64 calls at once. `items_before` is how many of the 10,000 had begun
when the chain ended: fair turns give about 64 of them for each step of the chain (6,400), first come first served all
of them. `steps_meanwhile` is how far the chain had come when the last of the 10,000 began; `share` is when the chain
ended, as a part of the whole. Bare schedulers with the same window stand beside it. In the timed rows each step of the
chain sleeps 5 ms, so that it takes at least 0.5 s.

`out` and `back` are what a sync tool waits beside 20,000 calls that keep the loop busy: from the start of its attempt
to its first line in the thread, and from its last line until its result is settled; `anyio.to_thread` in a bare loop
as busy stands beside it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import anyio
from anyio.lowlevel import checkpoint
from floor import Edges, windowed
from results import Figures, Found, Options, Target, median

from foreplan import Effect, Engine, Limits, Plan, Policies, tool
from foreplan.executor.events import CallSettled, CallStarted, Event

CHAIN = 100
ITEMS = 10_000
WINDOW = 64
NAP = 0.005
HOPS = 200
BUSY = 20_000


class Track:
    """How far the chain was when the last item began, and the items when the chain ended."""

    def __init__(self, nap: float) -> None:
        self.nap = nap
        self.items = self.steps = 0
        self.items_before = self.steps_meanwhile = 0
        self.began = self.chain_ended = time.perf_counter()

    async def item(self) -> None:
        self.items += 1
        if self.items == ITEMS:
            self.steps_meanwhile = self.steps
        await checkpoint()

    async def link(self) -> None:
        await (anyio.sleep(self.nap) if self.nap else checkpoint())
        self.steps += 1
        if self.steps == CHAIN:
            self.items_before = self.items
            self.chain_ended = time.perf_counter()

    def figures(self) -> dict[str, float]:
        whole = time.perf_counter() - self.began
        return {
            "items_before": self.items_before,
            "steps_meanwhile": self.steps_meanwhile,
            "share": (self.chain_ended - self.began) / whole,
            "whole_s": whole,
        }


async def ours(nap: float) -> dict[str, float]:
    track = Track(nap)

    @tool(effect=Effect.READS)
    async def item(number: int) -> int:
        """One of many."""
        await track.item()
        return number

    @tool(effect=Effect.READS)
    async def link(number: int) -> int:
        """One after the other."""
        await track.link()
        return number

    steps: list[dict[str, Any]] = [
        {"id": "wide", "each": {"$": f"range({ITEMS})"}, "tool": "item", "args": {"number": {"$": "item"}}},
        {"id": "c0", "tool": "link", "args": {"number": 0}},
    ]
    steps += [
        {"id": f"c{n}", "tool": "link", "args": {"number": {"$": f"c{n - 1}"}}} for n in range(1, CHAIN)
    ]
    engine = Engine([item, link], policies=Policies(limits=Limits(run=WINDOW)))
    plan = Plan.model_validate({"steps": steps})
    assert engine.check(plan).ok
    track.began = time.perf_counter()
    run = await engine.run(plan)
    assert run.ok, run.message
    return track.figures()


async def bare(nap: float, *, fair: bool) -> dict[str, float]:
    track = Track(nap)
    edges: Edges = [[] for _ in range(ITEMS + 1)] + [[ITEMS + n] for n in range(CHAIN - 1)]

    async def step(i: int) -> None:
        await (track.item() if i < ITEMS else track.link())

    await windowed(edges, step, WINDOW, group=(lambda i: i < ITEMS) if fair else lambda i: None)
    return track.figures()


async def beside_each(repeats: int, nap: float) -> dict[str, Figures]:
    ways: dict[str, Callable[[], Awaitable[dict[str, float]]]] = {
        "first come first served, bare": partial(bare, nap, fair=False),
        "fair, bare": partial(bare, nap, fair=True),
        "foreplan": partial(ours, nap),
    }
    found: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            found[name].append(await way())
    return {name: medians(several) for name, several in found.items()}


def medians(several: Sequence[dict[str, float]]) -> Figures:
    return {key: median((one[key] for one in several), digits=3) for key in several[0]}


class Hops:
    """Waits of sync calls, in seconds."""

    def __init__(self) -> None:
        self.out: list[float] = []
        self.back: list[float] = []

    def figures(self) -> Figures:
        figures: Figures = {}
        for name, waits in (("out", self.out), ("back", self.back)):
            cuts = statistics.quantiles(waits, n=100)
            figures |= {
                f"{name}_p50_ms": round(cuts[49] * 1e3, 2),
                f"{name}_p99_ms": round(cuts[98] * 1e3, 2),
            }
        return figures


async def our_hops(hops: Hops) -> None:
    started: dict[Any, float] = {}
    ended: dict[Any, float] = {}

    @tool(effect=Effect.READS)
    def hop(number: int) -> int:
        """In a thread."""
        hops.out.append(time.perf_counter() - started["hop", number])
        ended["hop", number] = time.perf_counter()
        return number

    @tool(effect=Effect.READS)
    async def busy(number: int) -> int:
        """Leaves the loop no moment."""
        await checkpoint()
        return number

    def watch(event: Event) -> None:
        if isinstance(event, CallStarted):
            started[event.path] = time.perf_counter()
        elif isinstance(event, CallSettled) and event.path in ended:
            hops.back.append(time.perf_counter() - ended[event.path])

    steps = [
        {"id": name, "each": {"$": f"range({n})"}, "tool": name, "args": {"number": {"$": "item"}}}
        for name, n in (("busy", BUSY), ("hop", HOPS))
    ]
    engine = Engine([busy, hop], policies=Policies(limits=Limits(run=WINDOW, tool={"hop": 4})), watch=watch)
    run = await engine.run(Plan.model_validate({"steps": steps}))
    assert run.ok, run.message


async def bare_hops(hops: Hops) -> None:
    """Four at a time by `anyio.to_thread`, beside a bare window of tasks that work as long as our busy calls do."""
    over = False

    async def busy() -> None:
        while not over:
            until = time.perf_counter() + 0.00007
            while time.perf_counter() < until:
                pass
            await checkpoint()

    def in_thread(begun: float) -> float:
        hops.out.append(time.perf_counter() - begun)
        return time.perf_counter()

    async def hop() -> None:
        for _ in range(HOPS // 4):
            ended = await anyio.to_thread.run_sync(in_thread, time.perf_counter())
            hops.back.append(time.perf_counter() - ended)

    async with anyio.create_task_group() as tasks:
        for _ in range(WINDOW - 4):
            tasks.start_soon(busy)
        async with anyio.create_task_group() as hopping:
            for _ in range(4):
                hopping.start_soon(hop)
        over = True


async def hop_figures(repeats: int) -> dict[str, Figures]:
    mine, theirs = Hops(), Hops()
    for _ in range(repeats):
        await our_hops(mine)
        with anyio.move_on_after(20):
            await bare_hops(theirs)
    return {"hop, bare": theirs.figures(), "hop, foreplan": mine.figures()}


async def main(options: Options) -> Found:
    chain = await beside_each(options.repeats, 0.0)
    timed = await beside_each(options.repeats, NAP)
    hops = await hop_figures(min(options.repeats, 3))
    figures = {f"chain, {name}": row for name, row in chain.items()}
    figures |= {f"chain of 5 ms, {name}": row for name, row in timed.items()}
    return Found(figures | hops, targets(chain, hops))


def targets(chain: dict[str, Figures], hops: dict[str, Figures]) -> list[Target]:
    items = round(chain["foreplan"]["items_before"] / chain["fair, bare"]["items_before"], 2)
    slowest = max(hops["hop, foreplan"]["out_p99_ms"], hops["hop, foreplan"]["back_p99_ms"])
    return [
        Target("chain beside `each`: items begun before it ends", 1.1, items, "x a fair bare window"),
        Target("sync tool beside a busy loop: p99 of its waits", 50, slowest, "ms"),
    ]


def measure(options: Options) -> Found:
    return anyio.run(main, options, backend=options.backend)
