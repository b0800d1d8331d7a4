"""Random plans over tools that follow a script, and what must hold of any journal whatever happened.

A script says, for each place in a plan, how its calls end; it depends on nothing but the place and the attempt, so that
a run that is cut and taken up again meets the same world.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import anyio
from hypothesis import strategies as st

from foreplan import Effect, Engine, Plan, Policies, Tool, ToolContext, ToolFailure
from foreplan.executor import events as e
from foreplan.executor.events import Event, Outcome, Path, decode, encode, path_text
from foreplan.executor.journal.journal import MemoryJournal, MemoryLog
from foreplan.executor.mind.mind import advance, outstanding
from foreplan.executor.mind.state import Perform, Sleep, State
from foreplan.executor.run import run_of
from foreplan.planner.plan import Patch
from foreplan.planner.requests import PlanRequest, ReplanRequest
from foreplan.policies.errors import CannotPlan, JournalError
from foreplan.policies.failures import Happened
from foreplan.registry.registry import Registry

__all__ = [
    "Dreamer",
    "FaultyJournal",
    "Unchecked",
    "World",
    "holds",
    "plans",
    "replayed",
    "sound_plans",
    "worlds",
]

ENDS = (
    "ok",
    "ok",
    "ok",
    "null",
    "list",
    "business",
    "refused",
    "refused twice",
    "reset once",
    "reset",
    "hangs",
    "wrong",
)
"""How the calls at one place end: `refused` never had an effect, after a `reset` nobody knows."""


class Unchecked(Engine):
    """An engine that runs what no check has seen."""

    def _checked(self, plan: Plan, *, batch: bool = False) -> None:
        return


class World:
    """Tools that follow a script, and what they saw: calls under way, and the most at once."""

    def __init__(self, script: dict[int, str], seconds: dict[int, float]) -> None:
        self.script = script
        self.seconds = seconds
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.made: list[tuple[str, Path, int]] = []
        effects = {"read": Effect.READS, "write": Effect.WRITES, "act": Effect.ACTS, "take": Effect.ACTS}
        self.tools = [self._tool(name, effect) for name, effect in effects.items()]
        self.tools.append(self._tool("ask", Effect.ACTS, requires_approval="each"))
        self.registry = Registry(*self.tools)

    def _tool(self, name: str, effect: Effect, **options: Any) -> Tool:
        async def call(args: dict[str, Any], context: ToolContext) -> Any:
            with self._under_way(name):
                self.made.append((name, context.path, context.attempt))
                return await self._end(name, context.path, context.attempt)

        schema = {"type": "object", "properties": {"k": {"type": "integer"}}, "required": ["k"]}
        return Tool.declare(
            name,
            f"Calls {name}.",
            input_schema=schema,
            call=call,
            effect=effect,
            timeout=7,
            output_schema={},
            **options,
        )

    def _under_way(self, name: str) -> Any:
        world = self

        class UnderWay:
            def __enter__(self) -> None:
                for counted in (name, "all"):
                    world.now[counted] += 1
                    world.most[counted] = max(world.most[counted], world.now[counted])

            def __exit__(self, *_: object) -> None:
                world.now.subtract((name, "all"))

        return UnderWay()

    def place(self, name: str, path: Path) -> int:
        """The place in the script of a call: equal for all attempts of one call."""
        return sum(map(ord, name + path_text(path))) % max(len(self.script), 1)

    async def _end(self, name: str, path: Path, attempt: int) -> Any:
        place = self.place(name, path)
        await anyio.sleep(self.seconds.get(place, 0.0))
        match self.script.get(place, "ok"):
            case "business":
                raise ToolFailure("no")
            case "refused":
                raise ConnectionRefusedError("closed")
            case "refused twice" if attempt < 3:
                raise ConnectionRefusedError("closed for a while")
            case "reset once" if attempt < 2:
                raise ConnectionResetError("cut")
            case "reset":
                raise ConnectionResetError("cut")
            case "hangs":
                await anyio.sleep_forever()
            case "wrong":
                return object()
            case "null":
                return None
            case "list":
                return [1, 2, 3]
        return place


class Shape(NamedTuple):
    """Where in a plan a step is to stand: the steps it may name, and the item around it."""

    visible: tuple[str, ...]
    item: str
    depth: int


_NAMES = st.sampled_from(["read", "read", "write", "act", "take", "ask"])


@st.composite
def plans(draw: st.DrawFn, *, ask: bool = True) -> Plan:
    """A plan with everything the language has; it need not make sense, and much of it fails."""
    count = iter(range(1000))
    steps = draw(_steps(Shape((), "", 0), count, most=5))
    output = draw(st.sampled_from([None, {"$": f"{steps[-1]['id']}"}, {"$": f"{steps[0]['id']}.x"}]))
    document = {"steps": steps} if output is None else {"steps": steps, "output": output}
    text = repr(document)
    return Plan.model_validate(eval(text.replace("'ask'", "'take'")) if not ask else document)


@st.composite
def _steps(draw: st.DrawFn, shape: Shape, count: Iterator[int], most: int) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = []
    own: list[str] = []
    for _ in range(draw(st.integers(1, most))):
        inner = shape._replace(visible=(*shape.visible, *own))
        step = draw(_step(inner, count))
        if own and draw(st.integers(0, 3)) == 0:
            step["after"] = [draw(st.sampled_from(own))]
        own.append(step["id"])
        steps.append(step)
    return steps


@st.composite
def _step(draw: st.DrawFn, shape: Shape, count: Iterator[int]) -> dict[str, Any]:
    step: dict[str, Any] = {"id": f"s{next(count)}"}
    kind = draw(
        st.sampled_from(["tool"] * 6 + ["value", "until"] + ["group"] * (2 if shape.depth < 3 else 0))
    )
    item = shape.item
    if draw(st.integers(0, 2)) == 0:
        step["each"] = draw(_list(shape))
        item = "item"
    if draw(st.integers(0, 4)) == 0:
        step["when"] = draw(_boolean(shape, item))
    if draw(st.integers(0, 2)) == 0:
        step["on_failure"] = "skip"
    if kind == "value":
        step["value"] = draw(_number(shape, item))
    elif kind == "group":
        if item != shape.item and draw(st.integers(0, 3)) == 0:
            step["until"] = draw(
                st.sampled_from([{"$": "result is None"}, {"$": "result == 3"}, {"$": "result.x"}])
            )
        step["steps"] = draw(_steps(Shape(shape.visible, item, shape.depth + 1), count, most=3))
        if draw(st.integers(0, 3)):
            last = step["steps"][-1]["id"]
            step["output"] = draw(st.sampled_from([{"$": last}, {"$": f"[{last}]"}, {"$": f"{last}.x"}]))
    else:
        step["tool"] = draw(_NAMES)
        step["args"] = {"k": draw(_number(shape, item))}
        if draw(st.integers(0, 2)) == 0:
            k = draw(
                st.sampled_from([1, {"$": "1 if result is None else 2"}, {"$": "result.x"}, {"$": "result"}])
            )
            step["undo"] = {"tool": draw(_NAMES), "args": {"k": k}}
        if kind == "until":
            step.update(draw(_until(step["args"])))
    return step


@st.composite
def _until(draw: st.DrawFn, args: dict[str, Any]) -> dict[str, Any]:
    until: dict[str, Any] = {
        "until": {"$": draw(st.sampled_from(["result is None", "result == 3", "result.x", "True"]))}
    }
    until["max"] = draw(st.integers(1, 4))
    if draw(st.booleans()):
        until["every"] = draw(st.sampled_from([1, 3.5]))
    if draw(st.booleans()):
        until["next"] = {"k": {"$": draw(st.sampled_from(["result", "7", "result.x"]))}}
    return until


def _number(shape: Shape, item: str) -> st.SearchStrategy[Any]:
    found = [st.integers(0, 3), st.just({"$": "len([1, 2])"})]
    if item:
        found.append(st.sampled_from([{"$": item}, {"$": "index"}, {"$": f"{item}.x"}]))
    if shape.visible:
        names = st.sampled_from(shape.visible)
        found += [names.map(lambda n: {"$": f"1 if {n} is None else 2"}), names.map(lambda n: {"$": n})]
    return st.one_of(found)


def _list(shape: Shape) -> st.SearchStrategy[Any]:
    found = [st.integers(0, 4).map(lambda n: {"$": f"range({n})"}), st.just([1, 1, 2])]
    if shape.visible:
        found.append(st.sampled_from(shape.visible).map(lambda n: {"$": n}))
    return st.one_of(found)


def _boolean(shape: Shape, item: str) -> st.SearchStrategy[Any]:
    found = [st.sampled_from([{"$": "1 > 2"}, {"$": "2 > 1"}, {"$": "3"}])]
    if item:
        found.append(st.sampled_from([{"$": f"{item} == 1"}, {"$": "index > 0"}]))
    if shape.visible:
        found.append(st.sampled_from(shape.visible).map(lambda n: {"$": f"{n} is None"}))
    return st.one_of(found)


@st.composite
def worlds(draw: st.DrawFn, without: str = "") -> World:
    """A script of up to seven places."""
    ends = draw(st.lists(st.sampled_from([end for end in ENDS if end != without]), min_size=1, max_size=7))
    seconds = draw(st.lists(st.sampled_from([0.0, 0.0, 1.0, 2.5, 6.0]), min_size=1, max_size=7))
    return World(dict(enumerate(ends)), dict(enumerate(seconds)))


class Dreamer:
    """A planner whose patches are dreamt up, the same for the same request: many do not fit, some do."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.asked = 0

    async def plan(self, request: PlanRequest) -> Plan:
        raise CannotPlan("it only mends")

    async def replan(self, request: ReplanRequest) -> Patch:
        self.asked += 1
        chance = random.Random(
            f"{self.seed} {request.remaining} {len(request.findings)} {len(request.plan.steps)}"
        )
        if chance.random() < 0.05:
            raise CannotPlan("it sees no way")
        ids = [step.id for step in request.plan.steps]
        failed = [failure.step for failure in request.failures if failure.step in ids]
        unsettled = [o.step for o in request.outcomes if o.outcome in ("blocked", "waiting")]
        add: list[dict[str, Any]] = []
        for n in range(chance.randint(0, 2) + bool(failed)):
            step = dreamt(chance, f"p{self.asked}_{n}", [*ids, *(s["id"] for s in add)])
            if n < len(failed) and chance.random() < 0.8:
                step["replaces"] = failed[n]
            elif chance.random() < 0.1:
                step["replaces"] = chance.choice(ids)
            add.append(step)
        drop = [id for id in unsettled if chance.random() < 0.2]
        return Patch.model_validate(
            {"add": add, "drop": drop, **({"output": 1} if chance.random() < 0.2 else {})}
        )


def dreamt(chance: random.Random, id: str, ids: list[str]) -> dict[str, Any]:
    """A step that checks, over these steps."""
    named = [{"$": f"1 if {chance.choice(ids)} is None else 2"}] if ids else []
    k = chance.choice([0, 1, 2, 3, *named])
    step: dict[str, Any] = {
        "id": id,
        "tool": chance.choice(["read", "write", "act", "take", "ask"]),
        "args": {"k": k},
    }
    if chance.random() < 0.3:
        step["each"] = {"$": "range(3)"}
    if chance.random() < 0.3:
        step["undo"] = {"tool": "act", "args": {"k": 1}}
    if chance.random() < 0.3:
        step["on_failure"] = "skip"
    if ids and chance.random() < 0.3:
        step["after"] = [chance.choice(ids)]
    if chance.random() < 0.2:
        inner = {**step, "id": f"{id}_in", "after": []}
        step = {"id": id, "steps": [inner], "output": {"$": f"{id}_in"}}
    return step


@st.composite
def sound_plans(draw: st.DrawFn) -> Plan:
    """A plan that checks, so that a patch of it may."""
    chance = random.Random(draw(st.integers(0, 10**6)))
    steps: list[dict[str, Any]] = []
    for n in range(draw(st.integers(1, 6))):
        steps.append(dreamt(chance, f"s{n}", [step["id"] for step in steps]))
    return Plan.model_validate({"steps": steps})


class FaultyJournal(MemoryJournal):
    """Its `fails_at`-th append and all after it fail, until the run is taken up again."""

    fails_at = 0

    def create(self, run: str, *, approval: str = "") -> MemoryLog:
        return self._faulty(super().create(run, approval=approval))

    def reopen(self, run: str) -> MemoryLog:
        return self._faulty(super().reopen(run))

    def _faulty(self, log: MemoryLog) -> MemoryLog:
        append, at, made = log.append, self.fails_at, 0

        def faulty(event: Event) -> None:
            nonlocal made
            made += 1
            if at and made >= at:
                raise JournalError("the disk is full")
            append(event)

        log.append = faulty
        return log


# ---------------------------------------------------------------------------------------------- what must hold


def replayed(registry: Registry, events: list[Event]) -> State:
    """The state these events lead to; after each of them, what is outstanding can be said."""
    state = State(registry)
    for event in events:
        advance(state, event)
        for command in outstanding(state):
            if isinstance(command, Perform):
                assert state.calls[command.call.path].attempt == command.call.attempt
            if isinstance(command, Sleep):
                assert not state.stopping
    return state


def holds(world: World, policies: Policies, events: list[Event]) -> None:
    """What is true of every journal of a run that ended, whatever happened on the way."""
    _in_order(events)
    _attempts(world.registry, events)
    _bounds(world, policies, events)
    _not_again(world.registry, events)
    state = replayed(world.registry, events)
    again = replayed(world.registry, [decode(encode(event)) for event in events])
    assert run_of(again) == run_of(state)
    assert state.closed is not None
    if state.closed.reason != "cancelled":
        assert state.live == 0
        assert not any(state.live_of.values())
        assert not any(state.begun_of.values())
        if not state.stopping:
            assert not state.calls
            assert all(node.outcome is not None for node in state.nodes.values())


def _in_order(events: list[Event]) -> None:
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert all(a.at <= b.at for a, b in itertools.pairwise(events))
    assert [i for i, event in enumerate(events) if isinstance(event, e.RunClosed)] == [len(events) - 1]


def _attempts(registry: Registry, events: list[Event]) -> None:
    """One end for each beginning; nothing that settled begins again; an act only where it had no effect, or by decision."""
    tools: dict[Path, str] = {}
    begun: dict[Path, int] = {}
    ended: dict[Path, e.CallSettled] = {}
    allowed: set[Path] = set()
    refused: set[Path] = set()
    asked: dict[str, e.DecisionAsked] = {}
    for event in events:
        match event:
            case e.CallAdmitted():
                assert event.path not in tools or event.path in allowed, event
                tools[event.path] = event.tool
            case e.CallStarted(path=path):
                assert path not in begun, event
                assert path not in refused, event
                last = ended.get(path)
                acts = registry[tools[path]].effect is Effect.ACTS
                assert last is None or path in allowed or _repeatable(last, acts), (last, event)
                allowed.discard(path)
                begun[path] = event.attempt
            case e.CallSettled(path=path):
                if path in begun:
                    assert begun.pop(path) == event.attempt
                else:
                    assert event.attempt == 0 or event.failure is not None, event
                    assert event.failure is None or event.failure.code in _NOT_BEGUN or not event.attempt, (
                        event
                    )
                ended[path] = event
            case e.DecisionAsked():
                asked[event.id] = event
            case e.DecisionMade(choice="retry" | "approve" | "edit"):
                allowed.add(asked[event.id].path)
            case e.DecisionMade(choice="reject") if asked[event.id].about == "call":
                refused.add(asked[event.id].path)
            case _:
                pass
    assert not begun


def _not_again(registry: Registry, events: list[Event]) -> None:
    """A call that acts, and that may have had its effect, is not made again elsewhere unless the plan or a person says so."""
    plan = next(event.plan for event in events if isinstance(event, e.PlanAccepted))
    calls: dict[Path, tuple[str, str]] = {}
    made: dict[tuple[str, str], set[Path]] = {}
    approved: set[Path] = set()
    asked: dict[str, e.DecisionAsked] = {}
    for event in events:
        match event:
            case e.CallAdmitted(path=path):
                calls[path] = (event.tool, event.args_digest)
                before = made.get(calls[path], set()) - {path}
                planned = all(p[0] in plan.by_id for p in (*before, path))
                assert planned or path in approved or not before, (before, event)
            case e.CallStarted(path=path) if registry[calls[path][0]].effect is Effect.ACTS:
                made.setdefault(calls[path], set()).add(path)
            case e.CallSettled(path=path) if path in calls:
                if event.outcome is Outcome.CANCELLED or (
                    event.failure and event.failure.happened is Happened.NO
                ):
                    made.get(calls[path], set()).discard(path)
            case e.DecisionAsked():
                asked[event.id] = event
            case e.DecisionMade(choice="approve" | "edit"):  # who writes a call says that it is to be made
                approved.add(asked[event.id].path)
            case _:
                pass


_NOT_BEGUN = ("no_slot", "approval_expired", "out_of_time")


def _repeatable(last: e.CallSettled, acts: bool) -> bool:
    if last.outcome is Outcome.CANCELLED:
        return True
    if last.outcome is not Outcome.FAILED:
        return False
    assert last.failure is not None
    return not acts or last.failure.happened is Happened.NO


def _bounds(world: World, policies: Policies, events: list[Event]) -> None:
    assert world.most["all"] <= policies.limits.run
    for name, most in policies.limits.tool.items():
        assert world.most[name] <= most
    if policies.budget.tool_calls is not None:
        started = sum(isinstance(x, e.CallStarted) for x in events)
        assert started <= policies.budget.tool_calls
    assert world.now["all"] == 0
