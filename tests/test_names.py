"""Names of tools as models write them mean the tool where exactly one is meant (P10)."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreplan import Effect, Engine, ModelPlanner, Plan, Registry, check, tool
from foreplan.planner.answers import AnswerUnreadable, read_patch_answer, read_plan_answer
from foreplan.planner.models.messages import AIMessage
from foreplan.planner.requests import PlanRequest, Proposal, ReplanRequest
from foreplan.policies.errors import UnknownTool
from foreplan.registry.names import resolve_name

NAMES = ["look", "crm.find", "functions.cook", "to_do"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("look", "look"),
        ("functions.look", "look"),
        ("functions:look", "look"),
        ("functions/look", "look"),
        ("tools.crm.find", "crm.find"),
        ("default_api.look", "look"),
        ("multi_tool_use.look", "look"),
        ("functions.functions.look", "look"),
        ("look<|channel|>commentary", "look"),
        ("functions.look<|channel|>json", "look"),
        ("assistant to=functions.look", "look"),
        ("to=look", "look"),
        ("look<|end", "look"),
        ("look</tool_call>", "look"),
        ("`look`", "look"),
        ("“look”", "look"),
        ("look.", "look"),
        ("look,", "look"),
        ("look;\u200b", "look"),
        (" look()\n", "look"),
        ("<look>", "look"),
        ("functions.cook", "functions.cook"),
        ("functions.functions.cook", "functions.cook"),
        ("to_do", "to_do"),
        ("functions.book", None),
        ("multi_tool_use.parallel", None),
        ("LOOK", None),
        ("lok", None),
        ("other.look", None),
        ("look.more", None),
        ("look crm.find", None),
        ("cook", None),
        ("", None),
        ("<|", None),
        ("functions.", None),
        ("look" + "<" * 1000, None),
    ],
)
def test_a_name_is_freed_of_markup_where_one_tool_is_meant(name: str, expected: str | None) -> None:
    """Markup that models are known to add goes; case, slips and other prefixes are not guessed at."""
    assert resolve_name(name, NAMES) == expected


def test_a_name_that_could_mean_two_tools_means_none() -> None:
    """`functions.look` is itself a tool here, and never becomes another."""
    both = ["look", "functions.look"]
    assert resolve_name("functions.look", both) == "functions.look"
    assert resolve_name("functions.look<|x|>", both) is None


@given(st.text(max_size=30))
def test_whatever_the_name_the_answer_is_a_tool_or_none(name: str) -> None:
    """Never an exception, never a name that no tool has."""
    assert resolve_name(name, NAMES) in (None, *NAMES)


@tool(effect=Effect.READS)
async def look(key: str) -> str:
    """Look something up."""
    return key


TOOLS = Registry(look)


def step(tool: str, **more: Any) -> dict[str, Any]:
    return {"id": "a", "tool": tool, "args": {"key": "k"}, **more}


def planned(*steps: dict[str, Any]) -> Proposal:
    return read_plan_answer(AIMessage(json.dumps({"steps": list(steps)})), PlanRequest("find k", TOOLS))


def test_what_was_put_right_is_a_note() -> None:
    """In steps, in groups, in what takes a call back; the plan has the tools' own names."""
    group = {"id": "g", "steps": [step("`look`")]}
    undo = step("look", id="b", undo={"tool": "look.", "args": {"key": "k"}})
    proposal = planned(step("functions.look", id="c"), undo, group)
    assert check(proposal.document, TOOLS).ok  # type: ignore[arg-type]
    assert len(proposal.notes) == 3
    assert "step 'c' names the tool 'functions.look'; 'look' is meant" in proposal.notes
    assert planned(step("look")).notes == ()


def test_a_patch_is_put_right_too() -> None:
    """With the same notes."""
    request = ReplanRequest("find k", Plan.model_validate({"steps": [step("look")]}), TOOLS, ())
    patch = {"add": [step("look<|call|>", id="again", replaces="a")]}
    proposal = read_patch_answer(AIMessage(json.dumps(patch)), request)
    assert [s.tool for s in proposal.document.add] == ["look"]  # type: ignore[union-attr]
    assert len(proposal.notes) == 1


def test_a_wrapper_around_one_call_is_taken_off() -> None:
    """With more than one call in it, it is no tool, and a finding says so."""
    use = {"recipient_name": "functions.look", "parameters": {"key": "k"}}
    one = planned(step("multi_tool_use.parallel", args={"tool_uses": [use]}))
    assert one.document.steps[0].to_json() == {"id": "a", "tool": "look", "args": {"key": "k"}}  # type: ignore[union-attr]
    assert len(one.notes) == 2
    two = planned(step("multi_tool_use.parallel", args={"tool_uses": [use, use]}))
    codes = [f.code for f in check(two.document, TOOLS).errors]  # type: ignore[arg-type]
    assert codes == ["unknown_tool"]


def test_arguments_as_json_in_a_text_are_read() -> None:
    """As some services write them; expressions in them are expressions."""
    first = step("look")
    second = step("look", id="b", args='{"key": {"$": "a"}}')
    proposal = planned(first, second)
    assert proposal.document.steps[1].args == {"key": {"$": "a"}}  # type: ignore[union-attr]
    assert proposal.notes == ("step 'b' has its args as JSON inside a text, which was read",)
    with pytest.raises(AnswerUnreadable) as refused:
        planned(step("look", args='{"key": "a", "key": "b"}'))
    assert [f.code for f in refused.value.findings] == ["wrong_property"]


@pytest.mark.parametrize(("name", "near"), [("functions.look", "look"), ("lok", "look")])
def test_elsewhere_a_name_is_a_finding_with_the_nearest(name: str, near: str) -> None:
    """A plan in a file is nobody's slip of markup: it is refused, and never with a KeyError."""
    [found] = check(Plan.model_validate({"steps": [step(name)]}), TOOLS).errors
    assert (found.code, found.suggestion) == ("unknown_tool", near)
    with pytest.raises(UnknownTool, match=near):
        TOOLS[name]


class Writes:
    """A model that always says this."""

    name = "fixed"

    async def agenerate(self, messages: Any, **options: Any) -> AIMessage:
        return AIMessage(json.dumps({"steps": [step("functions.look<|channel|>commentary")]}))


def test_a_plan_for_a_goal_comes_out_right_and_it_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """No repair is asked for what is not in doubt."""
    import anyio

    with caplog.at_level(logging.INFO, "foreplan"):
        plan = anyio.run(Engine(TOOLS, planner=ModelPlanner(Writes())).plan, "find k")
    assert plan.steps[0].tool == "look"
    assert "'look' is meant" in caplog.text
