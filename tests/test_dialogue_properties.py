"""Any model with any tools in any world, alone or in place of a plan, cut at any moments: it ends within its bounds."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from support.chaos import Dreamer, Unchecked, World, holds, plans, replayed, worlds
from support.virtual import BACKENDS, now, run_virtual

from foreplan import Budget, MemoryJournal, Plan, Policies, Retry, Run
from foreplan.executor.events import DecisionAsked, ModelAnswered, PlanAccepted, path_text
from foreplan.executor.run import run_of
from foreplan.executor.runtime import Answer
from foreplan.planner.models.messages import (
    AIMessage,
    InvalidToolCall,
    Message,
    ToolCall,
    ToolMessage,
)
from foreplan.planner.react import React

QUICK = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
MOST_RESUMES = 400

bounds = st.builds(
    Budget,
    tool_calls=st.none() | st.integers(0, 12),
    model_calls=st.none() | st.integers(0, 6),
    tokens=st.none() | st.integers(0, 40),
    tools=st.dictionaries(st.sampled_from(["read", "act"]), st.integers(0, 3), max_size=2),
)
policies = st.builds(
    Policies,
    approve=st.sampled_from(["never", "acts"]),
    budget=bounds,
    retry=st.builds(Retry, attempts=st.integers(1, 3), base=st.sampled_from([0.0, 1.0])),
    fallback=st.just(True),
)


class Muser:
    """A model that says anything, the same for the same history: calls that can be made and not, answers, failures."""

    real = False

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.asked = 0

    async def agenerate(self, messages: Sequence[Message], **options: Any) -> AIMessage:
        self.asked += 1
        turn = sum(isinstance(message, AIMessage) for message in messages)
        chance = random.Random(f"{self.seed} {turn}")
        await anyio.sleep(chance.choice([0.0, 0.0, 1.0]))
        kind = chance.choice(["calls"] * 6 + ["answer", "cut", "fails", "breaks"])
        if kind == "fails" and self.asked % 2:
            raise ConnectionResetError("gone")
        if kind == "breaks":
            raise RuntimeError("no weights")
        if kind == "calls":
            return self._calls(chance)
        return AIMessage(
            '{"n": 1}', finish_reason="length" if kind == "cut" else "stop", usage={"output_tokens": 3}
        )

    def _calls(self, chance: random.Random) -> AIMessage:
        names = ["read", "read", "write", "act", "take", "ask", "functions.read", "nothing"]
        calls = tuple(
            ToolCall(
                chance.choice(["", "x", f"c{n}"]),
                chance.choice(names),
                {"k": chance.choice([1, 2, "3", None])},
            )
            for n in range(chance.randint(1, 4))
        )
        invalid = (InvalidToolCall("i", "read", "{", "cut off"),) if chance.random() < 0.2 else ()
        return AIMessage("", tool_calls=calls, invalid_calls=invalid, usage={"input_tokens": 2})


def answer(question: DecisionAsked, choice: int) -> Answer:
    """An answer that depends on the call alone; what was cut short is tried again, and an edit is not made up."""
    failure = question.question.get("failure") or {}
    if failure.get("code") == "interrupted":
        return Answer("retry", "ada")
    options = [option for option in question.options if option != "edit"]
    said = options[(sum(map(ord, path_text(question.path))) + choice) % len(options)]
    again = question.about != "unknown" or int(question.id.rpartition(":")[2]) < 3
    return Answer(said if again or said != "retry" else "fail", "ada", 3)


async def to_the_end(engine: Unchecked, plan: Plan | None, choice: int, cuts: list[float]) -> Run:
    begun = False
    for turn in range(MOST_RESUMES):
        with anyio.move_on_after(cuts[turn] if turn < len(cuts) else 1e6):
            if begun:
                asked = engine.show("r").waiting
                await engine.resume("r", decisions={d.id: answer(d, choice) for d in asked})
            elif plan is None:
                begun = True
                await engine.answer("go", run_id="r")
            else:
                begun = True
                await engine.run(plan, run_id="r")
        end = engine.show("r")
        if end.state not in ("running", "waiting"):
            return end
    raise AssertionError("it did not end")


def driven(backend: str, engine: Unchecked, plan: Plan | None, choice: int, cuts: list[float]) -> Run:
    async def main() -> Run:
        return await to_the_end(engine, plan, choice, cuts)

    return run_virtual(backend, main)


def answered(run: Run) -> None:
    """Every call that a model wanted has exactly one answer, right after the message that wanted it."""
    waiting: list[str] = []
    for message in run.messages:
        if isinstance(message, ToolMessage):
            waiting.remove(message.tool_call_id)
            continue
        assert not waiting
        if isinstance(message, AIMessage):
            waiting = [*(c.id for c in message.tool_calls), *(c.id for c in message.invalid_calls)]
    assert not waiting


def bounded(run: Run, journal: MemoryJournal, rules: Policies, rounds: int) -> None:
    heard = [x for x in journal.events("r") if isinstance(x, ModelAnswered) and x.purpose == "react"]
    assert sum(x.failure is None for x in heard) <= rounds
    if rules.budget.model_calls is not None:
        assert len(heard) <= rules.budget.model_calls
    for name, most in rules.budget.tools.items():
        assert sum(made[0] == name for made in WORLD[0].made) <= most


WORLD: list[World] = []


@QUICK
@given(
    worlds(),
    policies,
    st.sampled_from(BACKENDS),
    st.integers(0, 400),
    st.integers(1, 6),
    st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.5, 7.0]), max_size=5),
)
def test_a_dialogue_ends_within_its_bounds(
    world: World, rules: Policies, backend: str, seed: int, rounds: int, cuts: list[float]
) -> None:
    """Rounds, budgets, approvals, one answer for each call; replay agrees with life."""
    WORLD[:] = [world]
    journal = MemoryJournal()
    react = React(Muser(seed), max_rounds=rounds)
    engine = Unchecked(world.registry, react=react, policies=rules, journal=journal, clock=now)
    end = driven(backend, engine, None, seed, cuts)
    event(end.state + " " + end.reason)
    answered(end)
    bounded(end, journal, rules, rounds)
    events = list(journal.events("r"))
    assert run_of(replayed(world.registry, events)) == end
    if rules.approve == "acts":
        approved = {d.path for d in events if isinstance(d, DecisionAsked) and d.about == "call"}
        acted = {path for name, path, _ in world.made if name in ("act", "take", "ask")}
        assert acted <= approved


@QUICK
@given(
    plans(ask=False),
    worlds(),
    policies,
    st.sampled_from(BACKENDS),
    st.integers(0, 400),
    st.lists(st.sampled_from([0.0, 0.5, 2.5, 7.0]), max_size=5),
)
def test_a_plan_with_re_plans_and_a_fallback_ends_within_its_bounds(
    plan: Plan, world: World, rules: Policies, backend: str, seed: int, cuts: list[float]
) -> None:
    """Whatever planner and model dream up: one ledger, no act twice without a decision, every promise of the journal."""
    WORLD[:] = [world]
    journal = MemoryJournal()
    rules = rules.model_copy(update={"approve": "never"})
    react = React(Muser(seed), max_rounds=3)
    planner = Dreamer(seed) if seed % 3 else None
    engine = Unchecked(world.registry, planner, react=react, policies=rules, journal=journal, clock=now)
    end = driven(backend, engine, plan, seed, cuts)
    event(f"{end.state} after {len(end.messages) > 0}")
    answered(end)
    bounded(end, journal, rules, 3)
    events = list(journal.events("r"))
    assert any(isinstance(x, PlanAccepted) for x in events)
    holds(world, rules, events)


@pytest.mark.proof
@settings(QUICK, max_examples=1500, derandomize=False)
@given(
    st.none() | plans(ask=False),
    worlds(),
    policies,
    st.sampled_from(BACKENDS),
    st.integers(0, 10**6),
    st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.5, 4.0, 7.0]), max_size=8),
)
def test_all_of_it_many_times(
    plan: Plan | None, world: World, rules: Policies, backend: str, seed: int, cuts: list[float]
) -> None:
    """The same, long."""
    WORLD[:] = [world]
    journal = MemoryJournal()
    react = React(Muser(seed), max_rounds=4)
    planner = Dreamer(seed) if seed % 3 else None
    engine = Unchecked(world.registry, planner, react=react, policies=rules, journal=journal, clock=now)
    try:
        end = driven(backend, engine, plan, seed, cuts)
    except Exception as error:
        if plan is not None and "needs an approval" in str(error):
            return
        raise
    answered(end)
    bounded(end, journal, rules, 4)
