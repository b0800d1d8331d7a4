"""A model's answer is read tolerantly where wrapping is concerned, and strictly where it says something."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreplan import CannotPlan, Patch, Plan, Registry, tool
from foreplan.planner.answers import (
    AnswerUnreadable,
    ModelDeclined,
    read_patch_answer,
    read_plan_answer,
)
from foreplan.planner.findings import CODES, PlanUnreadable
from foreplan.planner.models.messages import AIMessage
from foreplan.planner.requests import PlanRequest, Proposal, ReplanRequest


@tool(effect="reads")
def look(key: str) -> str:
    """Look something up."""
    return key


TOOLS = Registry(look)
STEPS = [{"id": "found", "tool": "look", "args": {"key": "{k}"}}]
ANSWER = json.dumps({"steps": STEPS, "output": {"$": "found"}})
PATCH = {"drop": [], "add": [{"id": "again", "replaces": "found", "tool": "look", "args": {"key": "b"}}]}


def planned(text: str, finish: str = "stop", **request: Any) -> Proposal:
    return read_plan_answer(
        AIMessage(text, {"output_tokens": 7}, finish), PlanRequest("find k", TOOLS, **request)
    )


def patched(document: Any) -> Proposal:
    request = ReplanRequest("find k", Plan.model_validate({"steps": STEPS}), TOOLS, ())
    return read_patch_answer(AIMessage(json.dumps(document)), request)


def refusal(text: str, finish: str = "stop") -> AnswerUnreadable:
    with pytest.raises(AnswerUnreadable) as refused:
        planned(text, finish)
    return refused.value


@pytest.mark.parametrize(
    "text",
    [
        ANSWER,
        f"\ufeff  {ANSWER}\n",
        f"```json\n{ANSWER}\n```",
        f"```\n{ANSWER}\n```\nThat should do.",
        f"Sure! I use {{braces}} and {{$: refs}} a lot:\n\n{ANSWER}\n\nAnything else? :-}}",
        f'<think>maybe {{"steps": []}} or not</think>\n{ANSWER}',
        ANSWER.replace("}]", "},]"),
        ANSWER[:-1] + " , }",
        f"{ANSWER}\n{ANSWER}",
        json.dumps({"steps": STEPS, "output": {"$": "found"}, "cannot_plan": None}),
    ],
    ids=[
        "bare",
        "mark",
        "fence",
        "fence_and_prose",
        "prose",
        "thought",
        "comma",
        "last_comma",
        "twice",
        "null_reason",
    ],
)
def test_wrapping_is_tolerated(text: str) -> None:
    """Fences, prose, a byte order mark, thoughts aloud and a trailing comma do not change the plan."""
    expected = {"foreplan": 1, "goal": "find k", "steps": STEPS, "output": {"$": "found"}}
    proposal = planned(text)
    assert proposal.document.to_json() == expected
    assert proposal.text == text
    assert proposal.usage == {"output_tokens": 7}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "bad_answer"),
        ("I would look it up.", "bad_answer"),
        (json.dumps(STEPS), "missing_property"),
        ("{}", "missing_property"),
        (ANSWER.replace('"steps"', '"step"'), "missing_property"),
        (ANSWER.replace("}]", "},,]"), "syntax"),
        (ANSWER.replace('"', "'"), "syntax"),
        (ANSWER.replace('"id": "found"', '"id": "found", "id": "other"'), "duplicate_key"),
        (ANSWER.replace('"{k}"', "NaN"), "bad_number"),
        (ANSWER.replace('"args"', '"arguments"'), "unknown_property"),
        (f"{ANSWER} or {ANSWER.replace('found', 'seen')}", "bad_answer"),
        ('{"cannot_plan": "no", "steps": []}', "bad_answer"),
        ('{"cannot_plan": {"why": "no"}}', "bad_answer"),
        (json.dumps(PATCH), "bad_answer"),
        ('{"steps": []}', "bad_answer"),
    ],
)
def test_what_is_no_plan_is_refused_with_findings(text: str, code: str) -> None:
    """Nothing is guessed: every other answer goes back, with a code of the table and the text that was said."""
    error = refusal(text)
    assert code in {f.code for f in error.findings}
    assert {f.code for f in error.findings} <= set(CODES)
    assert (error.text, error.usage) == (text, {"output_tokens": 7})
    assert isinstance(error, PlanUnreadable)


@pytest.mark.parametrize("length", range(10, len(ANSWER) - 1, 7))
@pytest.mark.parametrize("finish", ["length", "stop"])
def test_a_cut_answer_is_recognised(length: int, finish: str) -> None:
    """Wherever the answer is cut, whether or not the model says so, the finding says that it is cut off (P7)."""
    assert [f.code for f in refusal("Here: " + ANSWER[:length], finish).findings] == ["cut_off"]


def test_an_answer_cut_before_it_began_is_recognised_by_its_finish() -> None:
    """A model that thinks until its limit never begins its answer."""
    assert refusal("Let me think about", "length").findings[0].code == "cut_off"


def test_a_complete_plan_inside_a_cut_one_is_not_taken_for_the_answer() -> None:
    """What stands inside an argument is data, even if the answer around it is cut off."""
    inner = json.dumps({"steps": STEPS})
    text = '{"steps":[{"id":"a","tool":"look","args":{"key":' + inner + "}},"
    assert [f.code for f in refusal(text).findings] == ["cut_off"]


def test_a_plan_inside_a_text_is_text() -> None:
    """A literal that looks like an answer stays a literal."""
    steps = [{"id": "a", "tool": "look", "args": {"key": json.dumps({"cannot_plan": "x", "steps": []})}}]
    assert planned(json.dumps({"steps": steps})).document.to_json()["steps"] == steps


def test_cannot_plan_is_an_answer() -> None:
    """A model that says it cannot, with its reason, is believed (P3)."""
    with pytest.raises(CannotPlan, match="no tool sends e-mail") as declined:
        planned('```json\n{"cannot_plan": "no tool sends e-mail"}\n```')
    assert isinstance(declined.value, ModelDeclined)
    assert declined.value.reason == "no tool sends e-mail"
    assert declined.value.usage == {"output_tokens": 7}


def test_goal_and_inputs_are_those_that_were_asked_for() -> None:
    """A model may not reword the goal that people review, nor change what the plan is to be run with."""
    inputs = {"type": "object", "properties": {"k": {"type": "string"}}}
    text = json.dumps({"foreplan": 1, "goal": "something harmless", "inputs": {}, "steps": STEPS})
    plan = planned(text, inputs=inputs).document
    assert isinstance(plan, Plan)
    assert (plan.goal, plan.inputs) == ("find k", inputs)


def test_names_in_a_plan_and_in_a_patch_are_freed() -> None:
    """The document that goes to the check has the tools' own names."""
    plan = planned(ANSWER.replace('"look"', '"functions.look"')).document
    patch = patched(PATCH | {"add": [PATCH["add"][0] | {"tool": "look<|call|>"}]}).document
    assert plan.steps[0].tool == "look"  # type: ignore[union-attr]
    assert patch.add[0].tool == "look"  # type: ignore[union-attr]


def test_a_patch_is_read() -> None:
    """Drop, add, and output where it is to change."""
    assert patched(PATCH).document == Patch.model_validate(PATCH)
    assert patched({"output": None}).document.to_json() == {"drop": [], "add": [], "output": None}


@pytest.mark.parametrize("document", [{"steps": STEPS}, {"drop": [], "add": []}, {}])
def test_a_plan_or_nothing_is_no_patch(document: dict[str, Any]) -> None:
    """A whole plan in place of a patch, or a patch that changes nothing, goes back with a sentence."""
    with pytest.raises(AnswerUnreadable) as refused:
        patched(document)
    assert refused.value.findings[0].code == "bad_answer"


@pytest.mark.parametrize(
    "text",
    [
        "{" * 1_000_000,
        '{"' * 400_000,
        '{"steps":' + "[" * 500_000,
        '"' * 1_000_000,
        ("{" + " " * 50) * 20_000,
        "<think>" * 100_000,
    ],
    ids=["braces", "quotes", "nested", "text", "spaced", "thoughts"],
)
def test_a_hostile_answer_is_refused_in_time(text: str) -> None:
    """A megabyte of brackets costs no more than reading it."""
    start = time.process_time()
    refusal(text)
    assert time.process_time() - start < 3


@given(st.text(alphabet='{}[]",:\\ \nab$`<>', max_size=60), st.text(alphabet='{}[]",:\\ \nab', max_size=60))
def test_no_answer_raises_anything_else(before: str, after: str) -> None:
    """Whatever stands around a plan, the result is the plan or findings; never another exception."""
    try:
        steps = planned(before + ANSWER + after).document.to_json()["steps"]
    except AnswerUnreadable:
        return
    assert steps == STEPS
