"""A planner or a model that never gets it right: each ends within its bounds, with a sentence, and nothing done is lost."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest
from support.virtual import BACKENDS, now, run_virtual

from foreplan import (
    Budget,
    CannotPlan,
    Effect,
    Engine,
    FunctionPlanner,
    MemoryJournal,
    ModelPlanner,
    Plan,
    Policies,
    Retry,
    Run,
    ToolFailure,
    tool,
)
from foreplan.executor.agent import create_agent
from foreplan.executor.events import PatchAccepted
from foreplan.planner.answers import AnswerUnreadable
from foreplan.planner.findings import CheckFailed
from foreplan.planner.models.messages import AIMessage, InvalidToolCall, ToolCall
from foreplan.planner.models.scripted import ScriptedModel
from foreplan.planner.react import React
from foreplan.policies.errors import BadInput

CALLED: list[str] = []


@tool(effect=Effect.READS)
async def fetch(source: str) -> list[int]:
    """Reads from a source; `old` is gone."""
    CALLED.append(source)
    if source == "old":
        raise ToolFailure("gone for good", code="gone")
    return [1, 2, 3]


PLAN = Plan.model_validate(
    {
        "goal": "add up",
        "steps": [
            {"id": "good", "tool": "fetch", "args": {"source": "new"}},
            {"id": "rows", "tool": "fetch", "args": {"source": "old"}},
            {"id": "added", "value": {"$": "sum(rows)"}},
        ],
        "output": {"sum": {"$": "added"}},
    }
)


def step(name: str = "fetch", **more: Any) -> dict[str, Any]:
    return {"id": "other", "tool": name, "args": {"source": "new"}, **more}


def document(whole: bool, *steps: dict[str, Any]) -> dict[str, Any]:
    """A plan, or the patch that replaces what failed."""
    if whole:
        return {"steps": list(steps)}
    return {"drop": [], "add": [{**s, "replaces": "rows"} for s in steps]}


async def never(messages: Any) -> str:
    await anyio.sleep_forever()
    raise AssertionError


def cut(text: str, finish: str) -> AIMessage:
    return AIMessage(text[: len(text) // 2], finish_reason=finish)


Answers = Callable[[bool], Iterator[Any]]
"""The answers of a planner for ever, to the question for a plan (True) or for a patch."""


def always(answer: Callable[[bool], Any]) -> Answers:
    def answers(whole: bool) -> Iterator[Any]:
        while True:
            yield answer(whole)

    return answers


def others(whole: bool) -> Iterator[Any]:
    """Another tool that does not exist, each time."""
    n = 0
    while True:
        n += 1
        yield document(whole, step(f"fetch_all_{n}"))


def then_silent(whole: bool) -> Iterator[Any]:
    """One bad answer, and no other."""
    yield document(whole, step("fetsh"))
    while True:
        yield never


Row = tuple[Answers, int, type[Exception], str, str]
GIVES_UP = "no valid patch after 3 answers: "
TABLE: dict[str, Row] = {
    # name: its answers, how many are asked for, what `plan` raises and says, what a run says
    "never valid": (others, 3, CheckFailed, "no tool is called 'fetch_all_3'", GIVES_UP),
    "repeats itself": (
        always(lambda whole: document(whole, step("fetsh"))), 3, CheckFailed, "'fetsh'", f"{GIVES_UP}this patch was proposed before",
    ),
    "names another tool": (
        always(lambda whole: document(whole, step("TOOL_A"))), 3, CheckFailed, "no tool is called 'TOOL_A'", GIVES_UP,
    ),
    "waits for itself": (
        always(lambda whole: document(whole, step(after=["other"]))), 3, CheckFailed, "other", GIVES_UP,
    ),
    "is cut off and says so": (
        always(lambda whole: cut(json.dumps(document(whole, step())), "length")), 3, AnswerUnreadable, "cut off", f"{GIVES_UP}the answer is cut off",
    ),
    "is cut off": (
        always(lambda whole: cut(json.dumps(document(whole, step())), "stop")), 3, AnswerUnreadable, "cut off", f"{GIVES_UP}the answer is cut off",
    ),
    "answers with prose": (
        always(lambda whole: "I would fetch it from elsewhere."), 3, AnswerUnreadable, "JSON", GIVES_UP,
    ),
    "says nothing": (always(lambda whole: ""), 3, AnswerUnreadable, "empty", GIVES_UP),
    "answers the other question": (always(lambda whole: document(not whole, step())), 3, AnswerUnreadable, "", GIVES_UP),
    "changes nothing": (always(lambda whole: {"steps": []} if whole else {"drop": [], "add": []}), 3, AnswerUnreadable, "does nothing", GIVES_UP),
    "hangs": (always(lambda whole: never), 1, BadInput, "no answer within 7 s", "no answer within 7 s"),
    "hangs when it should mend": (then_silent, 2, BadInput, "no answer within 7 s", "no answer within 7 s"),
    "raises": (always(lambda whole: RuntimeError("no weights")), 1, RuntimeError, "no weights", "the planner failed: no weights"),
    "cannot": (always(lambda whole: {"cannot_plan": "no other source"}), 1, CannotPlan, "no other source", "no other source"),
}  # fmt: skip
POLICIES = Policies(planner_timeout=7, max_repairs=2)
every_backend = pytest.mark.parametrize("backend", BACKENDS)
every_row = pytest.mark.parametrize("row", TABLE.values(), ids=TABLE)


class Asked(ScriptedModel):
    """A scripted model whose answers never end; more than twenty of them is a loop without an end."""

    def __init__(self, answers: Iterator[Any]) -> None:
        super().__init__(next(answers) for _ in range(20))


def in_time(backend: str, main: Any) -> tuple[Any, float]:
    """What `main` gives, or the exception it raises, and the seconds it took."""
    CALLED.clear()

    async def timed() -> tuple[Any, float]:
        begun = now()
        try:
            return await main(), now() - begun
        except Exception as error:
            return error, now() - begun

    return run_virtual(backend, timed)


@every_backend
@every_row
def test_planning_ends_with_a_sentence(backend: str, row: Row) -> None:
    """Within the bounds for repairs and time; what is wrong with the last answer is said, and nothing was called (P2, P3, P7)."""
    answers, count, kind, words, _ = row
    model = Asked(answers(True))
    engine = Engine([fetch], ModelPlanner(model), policies=POLICIES, clock=now)
    raised, seconds = in_time(backend, lambda: engine.plan("add up"))
    assert isinstance(raised, kind)
    assert words in str(raised)
    assert (len(model.requests), CALLED) == (count, [])
    assert seconds == (7 if "within" in words else 0)


@every_backend
@every_row
def test_a_re_plan_ends_with_a_sentence_and_loses_nothing(backend: str, row: Row) -> None:
    """The plan is the one that was run, its results stay, no call is made again (P2, P3, P7, R5)."""
    answers, count, _, _, words = row
    model = Asked(answers(False))
    engine = Engine([fetch], ModelPlanner(model), policies=POLICIES, clock=now)
    run, seconds = in_time(backend, lambda: engine.run(PLAN))
    assert isinstance(run, Run)
    assert (run.state, run.reason) == (
        ("stopped", "cannot_plan") if "other source" in words else ("failed", "")
    )
    assert words in run.message
    assert run.plan == PLAN
    assert (run["good"], run.steps["rows"].failure and run.steps["rows"].failure.code) == ([1, 2, 3], "gone")
    assert (len(model.requests), sorted(CALLED), run.replans) == (count, ["new", "old"], 1)
    assert seconds == (7 if "within" in words else 0)


@every_backend
@every_row
def test_a_model_takes_over_where_the_planner_fails(backend: str, row: Row) -> None:
    """Where policy lets it, the loop answers from what is known, whatever the planner did (R5)."""
    hand = ScriptedModel([{"sum": 6}])
    engine = Engine(
        [fetch],
        ModelPlanner(Asked(row[0](False))),
        react=React(hand),
        policies=POLICIES.model_copy(update={"fallback": True}),
        clock=now,
    )
    run, _ = in_time(backend, lambda: engine.run(PLAN))
    assert (run.state, run.output, run.plan) == ("done", {"sum": 6}, PLAN)
    assert '"good":[1,2,3]' in hand.requests[0].text


@every_row
def test_the_last_valid_plan_is_kept(row: Row) -> None:
    """A patch that was good stays when the next one never is: its steps ran, and what they gave is there (P7)."""

    @tool(effect=Effect.READS)
    async def read(source: str) -> list[int]:
        """Reads; what is old fails each time in another way."""
        CALLED.append(source)
        if source == "old":
            raise ToolFailure("gone", code=f"gone_{'abcd'[len(CALLED)]}")
        return [1]

    def answers() -> Iterator[Any]:
        yield {"add": [reading("again", "old", replaces="rows"), reading("more", "new")]}
        yield from row[0](False)

    plan = Plan.model_validate({"goal": "read", "steps": [reading("good", "new"), reading("rows", "old")]})
    journal = MemoryJournal()
    engine = Engine([read], ModelPlanner(Asked(answers())), policies=POLICIES, clock=now, journal=journal)
    run, _ = in_time("asyncio", lambda: engine.run(plan, run_id="r"))
    assert [type(event) for event in journal.events("r")].count(PatchAccepted) == 1
    assert run.plan is not None
    assert [s.id for s in run.plan.steps] == ["good", "rows", "again", "more"]
    assert (run["good"], run["more"], run.replans) == ([1], [1], 2)
    assert run.state in ("failed", "stopped")
    assert sorted(CALLED) == ["new", "new", "old", "old"]


def reading(id: str, source: str, **more: Any) -> dict[str, Any]:
    return {"id": id, "tool": "read", "args": {"source": source}, **more}


# ---------------------------------------------------------------------------------------------- models in a loop


def calling(*calls: ToolCall | InvalidToolCall) -> AIMessage:
    made = tuple(call for call in calls if isinstance(call, ToolCall))
    return AIMessage(
        "", tool_calls=made, invalid_calls=tuple(c for c in calls if isinstance(c, InvalidToolCall))
    )


def unknown() -> Iterator[AIMessage]:
    """A tool that does not exist, under another name each time."""
    n = 0
    while True:
        n += 1
        yield calling(ToolCall("a", f"fetch_all_{n}", {}))


def repeated(answer: Any) -> Callable[[], Iterator[Any]]:
    def answers() -> Iterator[Any]:
        while True:
            yield answer

    return answers


LOOPS: dict[str, tuple[Callable[[], Iterator[Any]], int, str]] = {
    # name: its answers, how many are asked for at most, what the run says
    "never answers": (repeated(calling(ToolCall("a", "fetch", {"source": "new"}))), 6, "still made calls"),
    "names another tool": (repeated(calling(ToolCall("a", "fetsh", {}))), 3, "'fetsh' failed twice"),
    "names many other tools": (unknown, 6, "still made calls"),
    "repeats a failing call": (repeated(calling(ToolCall("a", "fetch", {"source": "old"}))), 3, "'fetch' failed twice"),
    "gives no arguments": (repeated(calling(ToolCall("a", "fetch", {}))), 3, "'fetch' failed twice"),
    "gives half of a call": (repeated(calling(InvalidToolCall("a", "fetch", '{"sou', "cut off"))), 3, "'fetch' failed twice"),
    "is cut off": (repeated(AIMessage("half an ans", finish_reason="length")), 3, "no usable answer after 3 rounds"),
    "hangs": (repeated(never), 3, "the model failed (3 attempts): the model gave no answer within 7 s"),
    "raises": (repeated(RuntimeError("no weights")), 1, "the model failed: no weights"),
}  # fmt: skip


@every_backend
@pytest.mark.parametrize("row", LOOPS.values(), ids=LOOPS)
def test_a_model_that_does_not_get_on_ends_with_a_sentence(backend: str, row: Any) -> None:
    """Within its rounds, repairs and retries; no failing call is made a third time, and what was said is kept (R4, R5)."""
    answers, count, words = row
    model = Asked(answers())
    agent = create_agent(model, [fetch], max_rounds=6, policies=POLICIES, clock=now, dice=lambda: 0.0)
    run, seconds = in_time(backend, lambda: agent.ainvoke("go"))
    assert isinstance(run, Run)
    assert run.state == "failed"
    assert words in run.message
    assert (len(model.requests), seconds) == (count, 21 if "within" in words else 0)
    assert CALLED.count("old") <= 2
    assert run.messages[1].content == "go"


def failing(times: int, error: Callable[[], Exception]) -> tuple[FunctionPlanner, list[float]]:
    """A planner whose service fails so many times, and when it was asked."""
    asked: list[float] = []

    def answer(whole: bool) -> dict[str, Any]:
        asked.append(now())
        if len(asked) <= times:
            raise error()
        return document(whole, step())

    return FunctionPlanner(lambda request: answer(True), lambda request: answer(False)), asked


def down() -> Exception:
    return ToolFailure("down", kind="network", code="http_503", retry_after=4)


WAITS = Policies(retry=Retry(attempts=3, base=1, cap=10))


@every_backend
@pytest.mark.parametrize(("times", "ends"), [(2, [0, 5, 11]), (3, [0, 5, 11])])
def test_a_planner_whose_service_is_down_for_a_moment_is_asked_again(
    backend: str, times: int, ends: list[float]
) -> None:
    """`policies.retry` holds for the first plan and for re-plans alike: Retry-After, jitter, and an end."""
    planner, asked = failing(times, down)
    engine = Engine([fetch], planner, policies=WAITS, clock=now, dice=lambda: 0.999999)
    said, _ = in_time(backend, lambda: engine.plan("add up"))
    assert [round(at) for at in asked] == ends
    assert isinstance(said, Plan if times == 2 else ToolFailure)
    planner, asked = failing(times, down)
    engine = Engine([fetch], planner, policies=WAITS, clock=now, dice=lambda: 0.999999)
    run, _ = in_time(backend, lambda: engine.run(PLAN))
    assert [round(at) for at in asked] == ends
    assert (run.state, run.replans) == ("done" if times == 2 else "failed", 1)


@every_backend
@pytest.mark.parametrize("error", [lambda: BadInput("no"), lambda: CannotPlan("no"), lambda: KeyError("x")])
def test_what_would_not_pass_is_not_asked_again(backend: str, error: Callable[[], Exception]) -> None:
    """A caller's mistake, a no and a bug are raised as they are, at once."""
    planner, asked = failing(9, error)
    said, seconds = in_time(
        backend, lambda: Engine([fetch], planner, policies=WAITS, clock=now).plan("add up")
    )
    assert (type(said), len(asked), seconds) == (type(error()), 1, 0)


@every_backend
def test_each_attempt_of_a_planner_that_asks_a_model_is_within_the_budget(backend: str) -> None:
    """Three attempts are three questions to a model: where one is allowed, there is one."""
    model = Asked(always(lambda whole: down())(True))
    rules = Policies(retry=Retry(attempts=3, base=0), budget=Budget(model_calls=1))
    engine = Engine([fetch], ModelPlanner(model), policies=rules, clock=now)
    said, _ = in_time(backend, lambda: engine.plan("add up"))
    assert (type(said), len(model.requests)) == (CannotPlan, 1)
