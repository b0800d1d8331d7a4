"""`ask`: a person answers in place of a tool; the run waits at no cost, and takes no answer that does not fit."""

from __future__ import annotations

from typing import Any

import pytest
from support.virtual import now, run_virtual

from foreplan import Budget, Engine, MemoryJournal, Plan, Policies, Run, ask, tool
from foreplan.executor.events import DecisionAsked, Outcome
from foreplan.executor.runtime import Answer
from foreplan.policies.errors import BadInput
from foreplan.policies.failures import Kind

pytestmark = pytest.mark.anyio

WORDS = {"question": "Which colour?", "options": ["red", {"id": "blue", "label": "Blue, as the sky"}]}
FORM = {
    "type": "object",
    "properties": {"days": {"type": "integer", "minimum": 1}, "note": {"type": "string"}},
    "required": ["days"],
}


@tool(effect="reads")
async def paint(colour: str) -> str:
    """Paint."""
    return f"painted {colour}"


def plan_of(*steps: dict[str, Any], **rest: Any) -> Plan:
    return Plan.model_validate({"steps": list(steps), **rest})


def step(id: str = "which", args: dict[str, Any] = WORDS, **rest: Any) -> dict[str, Any]:
    return {"id": id, "tool": "ask", "args": args, **rest}


def engine(**options: Any) -> Engine:
    return Engine([ask, paint], **options)


async def test_a_run_waits_for_an_answer_and_goes_on_with_it() -> None:
    """The question is the plan's own, the answer the result of the step; no tool call is made or counted."""
    asks = engine()
    then = {"id": "then", "tool": "paint", "args": {"colour": {"$": "which"}}}
    run = await asks.run(plan_of(step(), then))
    [asked] = run.waiting
    assert (run.state, asked.id, asked.about, asked.options) == (
        "waiting",
        "which:ask:0",
        "ask",
        ("answer", "refuse"),
    )
    assert asked.question["args"] == WORDS
    assert asked.question["schema"] == {"enum": ["red", "blue"]}
    end = await asks.resume(run.id, decisions={asked.id: Answer("answer", "ada", "blue")})
    assert (end.state, end["then"], end.tool_calls) == ("done", "painted blue", 1)


@pytest.mark.parametrize("value", ["green", None, {"id": "blue"}, 1])
async def test_an_answer_that_is_no_option_is_refused_and_the_question_stays(value: Any) -> None:
    """The caller gets a sentence; the run can still be answered."""
    asks = engine()
    run = await asks.run(plan_of(step()))
    with pytest.raises(BadInput, match="which:ask:0"):
        await asks.resume(run.id, decisions={"which:ask:0": Answer("answer", "ada", value)})
    assert asks.show(run.id).waiting == run.waiting
    end = await asks.resume(run.id, decisions={"which:ask:0": Answer("answer", "ada", "red")})
    assert end["which"] == "red"


@pytest.mark.parametrize("value", [{}, {"days": 0}, {"days": "3"}, {"days": 3, "more": 1}, [3], float("nan")])
async def test_a_form_is_filled_in_as_its_schema_says(value: Any) -> None:
    """The schema of the argument is the type of the result, read closed; NaN is no JSON."""
    asks = engine()
    run = await asks.run(
        plan_of(step("terms", {"question": "What was agreed?", "schema": FORM, "data": {"order": 7}}))
    )
    with pytest.raises(BadInput):
        await asks.resume(run.id, decisions={"terms:ask:0": Answer("answer", "ada", value)})
    end = await asks.resume(run.id, decisions={"terms:ask:0": Answer("answer", "ada", {"days": 30})})
    assert end["terms"] == {"days": 30}


async def test_a_refusal_is_a_failure_of_permission() -> None:
    """`refuse` fails the step with who said so and why; what depends on it is blocked or skips it."""
    asks = engine()
    run = await asks.run(plan_of(step()))
    end = await asks.resume(run.id, decisions={"which:ask:0": Answer("refuse", "ada", reason="not my taste")})
    [(where, failure)] = end.failures
    assert (end.state, where, failure.kind, failure.code) == ("failed", "which", Kind.PERMISSION, "rejected")
    assert failure.message == "ada refused to answer: not my taste"


async def test_each_item_has_a_question_of_its_own() -> None:
    """Also inside a group; answers go where they belong, in any order, and equal questions stay apart."""
    group = {
        "id": "walls",
        "each": ["north", "south", "south"],
        "as": "wall",
        "steps": [step(args={"question": {"$": "f'The {wall} wall?'"}, "options": ["red", "blue"]})],
        "output": {"$": "which"},
    }
    asks = engine()
    run = await asks.run(plan_of(step("plain", each=[1, 2]), group))
    ids = [asked.id for asked in run.waiting]
    assert ids == ["plain[0]:ask:0", "plain[1]:ask:0", *(f"walls[{n}].which:ask:0" for n in range(3))]
    first = await asks.resume(run.id, decisions={ids[4]: Answer("answer", "ada", "blue")})
    assert [asked.id for asked in first.waiting] == ids[:4]
    end = await asks.resume(run.id, decisions={id: Answer("answer", "ada", "red") for id in ids[:4]})
    assert (end["plain"], end["walls"]) == (["red", "red"], ["red", "red", "blue"])


async def test_someone_who_is_there_answers_while_the_run_is_live() -> None:
    """`decide` gets the question; an answer that does not fit leaves it open."""
    said = [Answer("answer", "ada", "green"), Answer("answer", "ada", "red")]

    async def decide(asked: DecisionAsked) -> Answer:
        return said.pop(0)

    asks = engine(decide=decide)
    run = await asks.run(plan_of(step()))
    assert run.state == "waiting"
    assert (await asks.resume(run.id))["which"] == "red"


async def test_what_cannot_be_asked_fails_before_anyone_is_asked() -> None:
    """No options and no schema, both, options without an id or twice the same, a schema that is none or hostile."""
    report = engine().check(plan_of(step(args={"question": "?"})))
    assert [found.code for found in report.errors] == ["bad_result_schema"]
    wrong: list[dict[str, Any]] = [
        {"options": ["a"], "schema": {}},
        {"options": ["a", "a"]},
        {"options": [{"label": "a"}]},
        {"schema": {"type": "nothing"}},
        {"schema": {"$ref": "https://example.com/schema.json"}},
        {"schema": {"type": "string", "pattern": "(a+)+$"}},
    ]
    shown = [
        step(f"q{n}", {"question": "?", **{name: {"$": f"inputs.wrong[{n}].{name}"} for name in args}})
        for n, args in enumerate(wrong)
    ]
    inputs = {"type": "object", "properties": {"wrong": {"type": "array"}}, "required": ["wrong"]}
    run = await engine().run(plan_of(*shown, inputs=inputs), inputs={"wrong": wrong})
    assert (run.state, run.waiting) == ("failed", ())
    assert {failure.kind for _, failure in run.failures} == {Kind.BAD_ARGS}
    assert len(run.failures) == len(wrong)


async def test_a_question_costs_no_tool_call_and_has_no_time_limit() -> None:
    """With a budget of no calls at all, and a tool timeout long past, the answer still counts."""
    asks = engine(policies=Policies(budget=Budget(tool_calls=0), tool_timeout=0.001))
    run = await asks.run(plan_of(step()))
    end = await asks.resume(run.id, decisions={"which:ask:0": Answer("answer", "ada", "red")})
    assert (end.state, end.tool_calls) == ("done", 0)


async def test_a_run_with_questions_can_be_shown_without_its_tools() -> None:
    """The recorded contract says that a person answers, so replay needs no tool."""
    journal = MemoryJournal()
    run = await engine(journal=journal).run(plan_of(step(), step("other")))
    await engine(journal=journal).resume(run.id, decisions={"which:ask:0": Answer("answer", "ada", "red")})
    shown = Engine([], journal=journal).show(run.id)
    assert (shown.steps["which"].value, [asked.id for asked in shown.waiting]) == ("red", ["other:ask:0"])


def test_a_cut_at_any_event_leads_to_the_same_end() -> None:
    """Replaying any prefix, answering what is open, and going on ends in the same values; nobody is asked twice."""
    group = {
        "id": "walls",
        "each": [1, 2],
        "steps": [step(), step("back", WORDS, after=["which"])],
        "output": {"$": "back"},
    }
    plan = plan_of(group, {"id": "then", "tool": "paint", "args": {"colour": {"$": "walls[0]"}}})
    journal = MemoryJournal()

    async def to_the_end(asks: Engine, run: Run) -> Run:
        while run.state == "waiting":
            answers: dict[str, Answer | str] = {a.id: Answer("answer", "ada", "blue") for a in run.waiting}
            run = await asks.resume(run.id, decisions=answers)
        return run

    async def whole() -> Run:
        asks = engine(journal=journal, clock=now)
        return await to_the_end(asks, await asks.run(plan, run_id="r"))

    expected = run_virtual("asyncio", whole)
    events = list(journal.events("r"))
    assert expected.state == "done"
    for cut in range(2, len(events)):
        again = MemoryJournal()
        log = again.create("r")
        for event in events[:cut]:
            log.append(event)
        log.close()

        async def rest(again: MemoryJournal = again) -> Run:
            asks = engine(journal=again, clock=now)
            return await to_the_end(asks, await asks.resume("r"))

        end = run_virtual("trio", rest)
        assert (end.state, end["walls"], end["then"]) == ("done", ["blue", "blue"], "painted blue"), cut
        assert sum(isinstance(event, DecisionAsked) for event in again.events("r")) == 4
        assert end.steps["then"].outcome is Outcome.OK
