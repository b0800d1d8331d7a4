"""Any plan in any world, cut, cancelled and taken up at any moment: what the executor promises, held by random runs."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from support.chaos import (
    Dreamer,
    FaultyJournal,
    Unchecked,
    World,
    holds,
    plans,
    replayed,
    sound_plans,
    worlds,
)
from support.virtual import BACKENDS, now, run_virtual

from foreplan import Budget, Limits, MemoryJournal, Plan, Policies, Rate, Rates, Retry, Run
from foreplan.executor.events import (
    DecisionAsked,
    ModelAnswered,
    PatchAccepted,
    PatchRefused,
    RunPaused,
    path_text,
)
from foreplan.executor.run import run_of
from foreplan.executor.runtime import Answer

QUICK = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
MOST_RESUMES = 400

_RATES = [Rate(calls=1, seconds=1), Rate(calls=2, seconds=0.5), Rate(calls=3, seconds=20)]

limits = st.builds(
    Limits,
    run=st.integers(1, 5) | st.integers(16, 30),
    rates=st.just(Rates())
    | st.builds(
        Rates,
        tool=st.dictionaries(st.sampled_from(["read", "act"]), st.sampled_from(_RATES), min_size=1),
    ),
    tool=st.dictionaries(
        st.sampled_from(["read", "write", "act", "take", "ask"]), st.integers(1, 2), max_size=3
    ),
)
policies = st.builds(
    Policies,
    approve=st.just("never"),
    limits=limits,
    budget=st.builds(Budget, tool_calls=st.none() | st.integers(0, 12)),
    retry=st.builds(Retry, attempts=st.integers(1, 4), base=st.sampled_from([0.0, 1.0])),
    undo=st.booleans(),
)
free = st.builds(Policies, approve=st.just("never"), limits=limits)


def answer(question: DecisionAsked, choice: int) -> Answer:
    """An answer that depends on the call alone, within bounds; what was cut short is always tried again."""
    failure = question.question.get("failure") or {}
    if failure.get("code") == "interrupted":
        return Answer("retry", "ada")
    place = sum(map(ord, path_text(question.path))) + choice
    said = question.options[place % len(question.options)]
    again = question.about != "unknown" or int(question.id.rpartition(":")[2]) < 3
    if said == "edit":  # to what nobody has refused
        return Answer(said, "ada", {"args": {"k": question.question["args"]["k"] + 100}})
    return Answer(said if again or said != "retry" else "fail", "ada", 3)


async def to_the_end(
    engine: Unchecked, plan: Plan, choice: int, cuts: list[float], *, begun: bool = False
) -> Run:
    """Run, cut short after each of these times, answer all questions, until the run is closed."""
    for turn in range(MOST_RESUMES):
        with anyio.move_on_after(cuts[turn] if turn < len(cuts) else 1e6):
            if not begun:
                begun = True
                await engine.run(plan, run_id="r")
            else:
                asked = engine.show("r").waiting
                await engine.resume("r", decisions={d.id: answer(d, choice) for d in asked})
        end = engine.show("r")  # also where the cancellation came when all was done
        if end.state not in ("running", "waiting"):
            return end
        if isinstance(engine.journal, FaultyJournal):
            engine.journal.fails_at = 0
    raise AssertionError("the run did not end")


def driven(backend: str, engine: Unchecked, plan: Plan, choice: int, cuts: list[float], **more: Any) -> Run:
    async def main() -> Run:
        return await to_the_end(engine, plan, choice, cuts, **more)

    return run_virtual(backend, main)


@QUICK
@given(plans(), worlds(), policies, st.sampled_from(BACKENDS), st.integers(0, 5))
def test_every_run_ends_within_its_bounds(
    plan: Plan, world: World, rules: Policies, backend: str, choice: int
) -> None:
    """Any plan, any failures, any answers: it ends, one end per attempt, no act twice, caps and budget kept."""
    journal = MemoryJournal()
    engine = Unchecked(world.registry, policies=rules, journal=journal, clock=now)
    end = driven(backend, engine, plan, choice, [])
    event(end.state)
    events = list(journal.events("r"))
    holds(world, rules, events)
    assert run_of(replayed(world.registry, events)) == end


@QUICK
@given(
    plans(),
    worlds(),
    policies,
    st.sampled_from(BACKENDS),
    st.integers(0, 5),
    st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.5, 4.0, 7.0]), max_size=8),
)
def test_a_run_that_is_cancelled_at_any_moments_and_resumed_keeps_all_promises(
    plan: Plan, world: World, rules: Policies, backend: str, choice: int, cuts: list[float]
) -> None:
    """Cancelled from outside again and again."""
    journal = MemoryJournal()
    engine = Unchecked(world.registry, policies=rules, journal=journal, clock=now)
    driven(backend, engine, plan, choice, cuts)
    events = list(journal.events("r"))
    event(f"paused {sum(isinstance(x, RunPaused) for x in events) > 0}")
    holds(world, rules, events)


@QUICK
@given(plans(), worlds(), policies, st.sampled_from(BACKENDS), st.integers(0, 5), st.integers(3, 40))
def test_a_journal_that_fails_at_any_append_stops_the_run_and_loses_nothing(
    plan: Plan, world: World, rules: Policies, backend: str, choice: int, fails_at: int
) -> None:
    """The disk is full at some moment; later the run is taken up."""
    journal = FaultyJournal()
    journal.fails_at = fails_at
    engine = Unchecked(world.registry, policies=rules, journal=journal, clock=now)
    driven(backend, engine, plan, choice, [])
    holds(world, rules, list(journal.events("r")))


@QUICK
@given(plans(ask=False), worlds(without="reset once"), free, st.data())
def test_any_prefix_of_a_journal_leads_to_the_same_end(
    plan: Plan, world: World, rules: Policies, data: st.DataObject
) -> None:
    """Killed after any event: replay it, perform what is outstanding, and the steps end as they would have."""
    journal = MemoryJournal()
    whole = driven(
        "asyncio", Unchecked(world.registry, policies=rules, journal=journal, clock=now), plan, 0, []
    )
    events = list(journal.events("r"))
    cut = data.draw(st.integers(2, len(events) - 1))
    again = MemoryJournal()
    log = again.create("r")
    for one in events[:cut]:
        log.append(one)
    log.close()
    engine = Unchecked(world.registry, policies=rules, journal=again, clock=now)
    end = driven("asyncio", engine, plan, 0, [], begun=True)
    holds(world, rules, list(again.events("r")))
    assert end.state == whole.state
    assert {k: s.outcome for k, s in end.steps.items()} == {k: s.outcome for k, s in whole.steps.items()}


@QUICK
@given(
    plans() | sound_plans() | sound_plans(),
    worlds(),
    policies,
    st.sampled_from(BACKENDS),
    st.integers(0, 5),
    st.lists(st.sampled_from([0.0, 0.5, 2.5, 7.0]), max_size=4),
)
def test_patches_of_any_form_keep_all_promises(
    plan: Plan, world: World, rules: Policies, backend: str, choice: int, cuts: list[float]
) -> None:
    """A planner that dreams: what it adds is bounded, an act that was made goes to a person before it is made again."""
    journal = MemoryJournal()
    engine = Unchecked(world.registry, Dreamer(choice), policies=rules, journal=journal, clock=now)
    driven(backend, engine, plan, choice, cuts)
    events = list(journal.events("r"))
    for kind in (PatchAccepted, PatchRefused, ModelAnswered):
        event(f"{kind.__name__} {any(isinstance(x, kind) for x in events)}")
    holds(world, rules, events)
    assert sum(isinstance(x, PatchAccepted) for x in events) <= rules.max_replans


@QUICK
@given(plans(), worlds(), policies, st.sampled_from(BACKENDS), st.sampled_from([0.0, 0.5, 2.5, 6.5]))
def test_a_live_run_can_be_closed_at_any_moment(
    plan: Plan, world: World, rules: Policies, backend: str, after: float
) -> None:
    """`engine.cancel`, live or waiting: closed as cancelled unless it ended before."""
    journal = MemoryJournal()
    engine = Unchecked(world.registry, policies=rules, journal=journal, clock=now)
    ends: list[Run] = []

    async def drive() -> None:
        ends.append(await engine.run(plan, run_id="r"))

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(drive)
            await anyio.sleep(after)
            if engine.runs() and engine.show("r").state in ("running", "waiting"):
                engine.cancel("r")

    run_virtual(backend, main)
    end = engine.show("r")
    if end.state == "waiting":
        engine.cancel("r")
        end = engine.show("r")
    event(end.state)
    assert end.state in ("done", "failed", "stopped")
    holds(world, rules, list(journal.events("r")))


@pytest.mark.proof
@settings(QUICK, max_examples=4000, derandomize=False)
@given(
    plans() | sound_plans(),
    worlds(),
    policies,
    st.sampled_from(BACKENDS),
    st.integers(0, 5),
    st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.5, 4.0, 7.0]), max_size=8),
    st.integers(0, 60),
)
def test_all_of_it_at_once_many_times(
    plan: Plan, world: World, rules: Policies, backend: str, choice: int, cuts: list[float], fails_at: int
) -> None:
    """Cancellations and a failing journal together."""
    journal = FaultyJournal()
    journal.fails_at = fails_at if fails_at > 2 else 0
    planner = Dreamer(choice) if fails_at % 2 else None
    engine = Unchecked(world.registry, planner, policies=rules, journal=journal, clock=now)
    driven(backend, engine, plan, choice, cuts)
    holds(world, rules, list(journal.events("r")))
