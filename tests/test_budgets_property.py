"""No interleaving exceeds a budget: random plans of up to fifty calls at once, in virtual time, against what the tools saw.

The tools of this world count what really happens to them. Calls never exceed their bound; tokens and cost exceed theirs by
what was under way at most; nothing begins after the time is over; and what the ledger says is what happened.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import event as seen
from hypothesis import strategies as st
from support.chaos import Dreamer, Unchecked, World
from support.virtual import BACKENDS, now, run_virtual

from foreplan import (
    Budget,
    Effect,
    Limits,
    MemoryJournal,
    Plan,
    Policies,
    Retry,
    Run,
    Tool,
    ToolContext,
    as_tool,
)
from foreplan.executor import events as e
from foreplan.executor.events import DecisionAsked, Event, decode, encode, path_text
from foreplan.executor.journal.journal import MemoryLog
from foreplan.executor.mind.budget import Used, used
from foreplan.executor.mind.mind import advance
from foreplan.executor.mind.state import State
from foreplan.executor.runtime import Answer
from foreplan.planner.requests import Proposal, ReplanRequest
from foreplan.policies.errors import UnknownRun
from foreplan.registry.registry import Registry

NAMES = ("read", "write", "act", "take")
OPEN = NAMES[:3]
"""Those that say what they use; what `take` does inside of sub-plans is only known when these have ended."""
TOKENS = 10
SCHEMA = {"type": "object", "properties": {"k": {"type": "integer"}}, "required": ["k"]}
STATED: dict[str, dict[str, Any]] = {
    "read": {"model_calls": 2},
    "write": {"cost": 0.1},
    "act": {"cost": 0.7},
    "take": {},
    "ask": {},
}
COUNTS: dict[str, tuple[dict[str, float], ...]] = {
    "read": ({"model_calls": 1}, {"input_tokens": 7, "output_tokens": 3}),
    "act": ({"cost": 0.3},),
    "take": ({"input_tokens": TOKENS}, {"cost": 0.2}),
}


class Spender(World):
    """Tools that state a cost, count another, ask models, or say nothing and do so all the same."""

    def __init__(self, script: dict[int, str], seconds: dict[int, float]) -> None:
        self.tokens = self.asked = 0
        self.cost = Decimal(0)
        super().__init__(script, seconds)

    def _tool(self, name: str, effect: Effect, **options: Any) -> Tool:
        async def call(args: dict[str, Any], context: ToolContext) -> Any:
            with self._under_way(name):
                self.made.append((name, context.path, context.attempt))
                self._uses(name, context)
                return await self._end(name, context.path, context.attempt)

        return Tool.declare(
            name, f"Calls {name}.", input_schema=SCHEMA, call=call, effect=effect, timeout=7, output_schema={},
            **options, **STATED[name],
        )  # fmt: skip

    def _uses(self, name: str, context: ToolContext) -> None:
        self.cost += Decimal(repr(STATED[name].get("cost", 0)))
        for usage in COUNTS.get(name, ()):
            context.count(usage)
            self.asked += int(usage.get("model_calls", 0))
            self.tokens += int(usage.get("input_tokens", 0) + usage.get("output_tokens", 0))
            if "cost" in usage:
                self.cost += Decimal(repr(usage["cost"])) - Decimal(repr(STATED[name].get("cost", 0)))


class DearDreamer(Dreamer):
    """A planner that dreams patches up, and counts."""

    def __init__(self, seed: int, world: Spender) -> None:
        super().__init__(seed)
        self.world = world

    async def replan(self, request: ReplanRequest) -> Any:
        self.world.asked += 1
        patch = await super().replan(request)
        self.world.tokens += TOKENS
        self.world.cost += Decimal("0.05")
        return Proposal(patch, "", {"output_tokens": TOKENS, "cost": 0.05})


class Recorder(MemoryJournal):
    """Keeps the order of the events of all runs."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[tuple[str, Event]] = []

    def create(self, run: str, *, approval: str = "") -> MemoryLog:
        return self._heard(super().create(run, approval=approval))

    def reopen(self, run: str) -> MemoryLog:
        return self._heard(super().reopen(run))

    def _heard(self, log: MemoryLog) -> MemoryLog:
        write = log.append

        def append(event: Event) -> None:
            self.order.append((log.run, event))
            write(event)

        log.append = append
        return log

    def until(self, cut: int) -> Recorder:
        """A journal that ends after so many events."""
        journal = Recorder()
        for run, event in self.order[:cut]:
            try:
                log = journal.reopen(run)
            except UnknownRun:
                log = journal.create(run)
            log.append(event)
            log.close()
        return journal


# ---------------------------------------------------------------------------------------------- random runs


def steps_of(
    chance: random.Random, names: tuple[str, ...], prefix: str, most: int
) -> Iterator[dict[str, Any]]:
    """Steps with everything that multiplies calls: wide lists, repeats, groups, undo."""
    ids: list[str] = []
    for n in range(chance.randint(1, 4)):
        id_ = f"{prefix}{n}"
        step: dict[str, Any] = {"id": id_, "tool": chance.choice(names), "args": {"k": chance.randint(0, 2)}}
        kind = chance.random()
        if kind < 0.45:
            step |= {"each": {"$": f"range({chance.randint(1, most)})"}, "args": {"k": {"$": "item"}}}
        elif kind < 0.6:
            step |= {"tool": chance.choice(("read", "write")), "until": {"$": "False"}}
            step |= {"max": chance.randint(1, 5), "every": chance.choice([0.5, 3])}
        if chance.random() < 0.3 and kind >= 0.6:
            step["undo"] = {"tool": chance.choice(names[2:4]), "args": {"k": 1}}
        if chance.random() < 0.4:
            step["on_failure"] = "skip"
        if kind > 0.9:
            inner = {**step, "id": f"{id_}_in"}
            step = {"id": id_, "each": {"$": f"range({chance.randint(1, most // 5 + 1)})"}, "steps": [inner]}
        if ids and chance.random() < 0.4:
            step["after"] = [chance.choice(ids)]
        ids.append(id_)
        yield step


def any_budget(chance: random.Random, tight: int) -> Budget:
    """A few bounds, each of them likely to be met."""

    def may(value: Any) -> Any:
        return value if chance.random() < 0.4 else None

    tools = {
        name: chance.randint(0, tight) for name in ("read", "act", "take", "sub") if chance.random() < 0.2
    }
    return Budget(
        tool_calls=may(chance.randint(0, 2 * tight)),
        tools=tools,
        model_calls=may(chance.randint(0, tight)),
        tokens=may(chance.randint(0, tight * TOKENS)),
        cost=may(chance.randint(0, tight * 4) / 10),
        seconds=may(chance.choice([0.5, 4.0, 9.5, 20.0])),
    )


class Case:
    """One random run: a world, its plan with sub-plans two deep, its rules."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        script = dict(enumerate(chance.choices(ENDS, k=7)))
        seconds = dict(enumerate(chance.choices([0.0, 0.0, 1.0, 2.5, 6.0], k=7)))
        self.world = Spender(script, seconds)
        inputs = {"type": "object", "properties": {"k": {"type": "integer"}}, "required": ["k"]}
        deep = Plan.model_validate({"inputs": inputs, "steps": list(steps_of(chance, OPEN, "d", 4))})
        self.deep = as_tool(deep, "deep", self.world.tools)
        known = [*self.world.tools, self.deep]
        sub = Plan.model_validate(
            {"inputs": inputs, "steps": list(steps_of(chance, (*OPEN, "deep"), "s", 5))}
        )
        bounds: dict[str, Any] = {"tool_calls": chance.randint(1, 9)} if chance.random() < 0.3 else {}
        self.sub = as_tool(sub, "sub", known, **bounds)
        self.tools = [*self.world.tools, self.sub]
        names = (*NAMES, "ask", "sub", "sub")
        self.plan = Plan.model_validate({"steps": list(steps_of(chance, names, "p", 50))})
        self.run_limit = chance.choice([1, 3, 50])
        self.policies = Policies(
            approve="never",
            budget=any_budget(chance, chance.choice([3, 12, 40])),
            limits=Limits(run=self.run_limit),
            retry=Retry(attempts=chance.randint(1, 3), base=chance.choice([0.0, 1.0])),
            max_replans=chance.randint(0, 2),
        )
        self.journal = Recorder()
        self.planner = DearDreamer(seed, self.world)

    def engine(self, **more: Any) -> Unchecked:
        return Unchecked(
            self.tools,
            self.planner,
            policies=self.policies,
            journal=self.journal,
            clock=now,
            decide=decide,
            **more,
        )


ENDS = ("ok", "ok", "ok", "null", "business", "refused", "refused twice", "reset once", "reset", "hangs")


async def decide(question: DecisionAsked) -> Answer:
    """An answer that depends on the question alone; what nobody knows is retried twice at most."""
    place = sum(map(ord, path_text(question.path)))
    options = [option for option in question.options if option != "edit"]
    said = options[place % len(options)]
    if said == "retry" and int(question.id.rpartition(":")[2]) > 2:
        said = "fail"
    return Answer(said, "ada", 3)


# ---------------------------------------------------------------------------------------------- what must hold


def begun(order: list[tuple[str, Event]]) -> Counter[str]:
    """Attempts by tool, in all runs; a sub-plan that is taken up again is still the same call."""
    tools: dict[tuple[str, Any], str] = {}
    attempts: Counter[str] = Counter()
    plans: set[tuple[str, Any]] = set()
    for run, event in order:
        if isinstance(event, e.CallAdmitted):
            tools[run, event.path] = event.tool
        elif isinstance(event, e.CallStarted):
            name = tools[run, event.path]
            if name in ("sub", "deep") and (run, event.path) in plans:
                continue
            plans.add((run, event.path))
            attempts[name] += 1
    return attempts


def never_more_calls(case: Case, order: list[tuple[str, Event]]) -> Counter[str]:
    """Calls, by tool too, and questions to models: within their bounds, whatever happened."""
    budget, attempts = case.policies.budget, begun(order)
    assert budget.tool_calls is None or attempts.total() <= budget.tool_calls
    for name, most in budget.tools.items():
        assert attempts[name] <= most
    assert budget.model_calls is None or case.world.asked <= budget.model_calls
    return attempts


def overshoots_little(case: Case, end: Run) -> None:
    """By what was under way in a run and in a sub-plan of it: each call at most one count."""
    budget, under_way = case.policies.budget, 2 * case.run_limit + 1
    if budget.tokens is not None:
        assert end.used.tokens <= budget.tokens + under_way * TOKENS
    if budget.cost is not None:
        assert end.used.cost <= budget.cost + under_way * 0.2 + 1e-9


def as_charged(case: Case, end: Run, attempts: Counter[str]) -> bool:
    """Calls are charged as often as they began; False where a sub-plan was left open, which has told nothing yet."""
    state = State(Registry.of(case.tools))
    for event in case.journal.events("r"):
        advance(state, decode(encode(event)))
    assert end.used == used(state)
    if any(line.state in ("running", "waiting") for line in case.journal.runs()):
        return False
    if any(active.tool.answered_by == "plan" for active in state.calls.values()):
        return False  # it has ended, but what it used was lost with the process, and nothing more may begin
    assert end.used.tool_calls == attempts.total()
    assert {**end.used.tools} == {name: attempts[name] for name in case.policies.budget.tools}
    return True


def lost_inside(case: Case) -> bool:
    """Whether a kill took what a plan inside a plan had told: its caller, a plan too, found the time over and never asked it
    again. Where it is bounded, what it held stays charged; where it is not, it is missing."""
    last: dict[tuple[str, e.Path], Event] = {}
    for run, event in case.journal.order:
        if run != "r" and isinstance(event, e.CallStarted | e.CallSettled):
            last[run, event.path] = event
    plans = {
        (run, event.path)
        for run, event in case.journal.order
        if isinstance(event, e.CallAdmitted) and event.tool == "deep"
    }
    ends = [last[place] for place in plans if place in last]
    return any(isinstance(end, e.CallSettled) and code_of(end) == "interrupted" for end in ends)


def code_of(event: e.CallSettled) -> str:
    return event.failure.code if event.failure is not None else ""


def in_time(case: Case) -> None:
    """Nothing begins after the time is over."""
    seconds = case.policies.budget.seconds
    opened = case.journal.order[0][1].at
    for _, event in case.journal.order:
        if seconds is not None and isinstance(event, e.CallStarted):
            assert event.at < opened + seconds


def hides_nothing(end: Run) -> None:
    """A run is not done where a sub-plan of it was cut short by what the run has no more of."""
    if end.state == "done":
        for _, failure in end.failures:
            bound = (failure.details or {}).get("bound")
            assert bound in (None, "tool_calls"), failure  # that of the sub-plan itself


def check_one(seed: int, backend: str) -> None:
    """A run to its end, and the ledger after each event: live, and replayed from what the journal reads back."""
    case = Case(seed)
    live: dict[int, Used] = {}
    engine: Unchecked

    def watch(event: Event) -> None:
        runtime = engine._live.get("r")
        if runtime is not None and runtime.state.seq == event.seq:
            live[event.seq] = used(runtime.state)

    engine = case.engine(watch=watch)
    end = run_virtual(backend, lambda: engine.run(case.plan, run_id="r"))
    seen(f"{end.state} {end.reason}")
    attempts = never_more_calls(case, case.journal.order)
    if as_charged(case, end, attempts):
        assert (end.used.model_calls, end.used.tokens) == (case.world.asked, case.world.tokens)
        assert end.used.cost == pytest.approx(float(case.world.cost))
        overshoots_little(case, end)
    in_time(case)
    hides_nothing(end)
    state = State(Registry.of(case.tools))
    for event in case.journal.events("r"):
        advance(state, decode(encode(event)))
        assert live.get(event.seq, used(state)) == used(state), event


def check_cut(seed: int, backend: str) -> None:
    """The same run, cancelled again and again: what was counted stays, what was lost is not given back."""
    case = Case(seed)
    chance = random.Random(seed)

    async def main() -> Run:
        engine = case.engine()
        for turn in range(200):
            with anyio.move_on_after(chance.choice([0.0, 0.5, 1.5, 3.0]) if turn < 6 else 1e6):
                await (engine.resume("r") if turn else engine.run(case.plan, run_id="r"))
            end = engine.show("r")
            if end.state not in ("running", "waiting"):
                return end
        raise AssertionError("the run did not end")

    end = run_virtual(backend, main)
    attempts = never_more_calls(case, case.journal.order)
    if as_charged(case, end, attempts):
        assert end.used.tokens == case.world.tokens
        assert end.used.model_calls >= case.world.asked
        assert end.used.cost >= float(case.world.cost) - 1e-9


def check_killed(seed: int, backend: str) -> None:
    """Killed after any event of any of its runs and taken up: no more calls in all than there may be."""
    case = Case(seed)
    run_virtual(backend, lambda: case.engine().run(case.plan, run_id="r"))
    cut = random.Random(seed).randint(2, len(case.journal.order) - 1)
    case.journal = case.journal.until(cut)
    case.world.asked = 0
    end = run_virtual(backend, lambda: case.engine().resume("r"))
    assert end.state not in ("running", "waiting")
    attempts = never_more_calls(case, case.journal.order)
    if not lost_inside(case):
        as_charged(case, end, attempts)


SEEDS = st.integers(0, 10**9)


def runs(most: int) -> settings:
    return settings(
        max_examples=most,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        derandomize=True,
        database=None,
    )


@runs(40)
@given(SEEDS, st.sampled_from(BACKENDS))
def test_no_run_exceeds_its_budget_and_the_ledger_tells_what_happened(seed: int, backend: str) -> None:
    """Whatever interleaves: retries, failures, repeats, undo, re-plans, plans in plans."""
    check_one(seed, backend)


@runs(20)
@given(SEEDS, st.sampled_from(BACKENDS))
@example(270921, "asyncio")  # a plan put aside holds calls; those of the others run out, then the time
def test_a_run_that_is_cancelled_again_and_again_exceeds_nothing(seed: int, backend: str) -> None:
    """Spend counters do not begin at zero after a pause: case E5."""
    check_cut(seed, backend)


@runs(20)
@given(SEEDS, st.sampled_from(BACKENDS))
@example(8999730, "asyncio")  # a plan in a plan has ended, and the time is over before it is asked
def test_a_run_that_is_killed_at_any_event_exceeds_nothing(seed: int, backend: str) -> None:
    """Attempts lost with their process stay charged."""
    check_killed(seed, backend)


@pytest.mark.proof
@pytest.mark.parametrize("check", [check_one, check_cut, check_killed])
@settings(runs(600), derandomize=False)
@given(seed=SEEDS, backend=st.sampled_from(BACKENDS))
def test_many_hundred_runs_exceed_nothing(check: Any, seed: int, backend: str) -> None:
    """The same three, long."""
    check(seed, backend)
