"""Models without a form for calls write them as blocks; what they write is read the same, however it arrives."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreplan import AIMessage, HumanMessage, SystemMessage, ToolCall, ToolMessage
from foreplan.planner.models.call_blocks import Blocks, offered
from foreplan.planner.models.chunks import AIMessageChunk
from foreplan.planner.models.messages import InvalidToolCall
from foreplan.policies.errors import BadInput

ADD = {"name": "math.add", "description": "Add.", "parameters": {"type": "object", "properties": {}}}
SAY = {"name": "say", "description": "Say.", "parameters": {"type": "object", "properties": {}}}
TOOLS = [ADD, SAY]


def block(name: str, args: Any) -> str:
    """A call as a model writes it."""
    return f'```json\n{{"name": {json.dumps(name)}, "arguments": {json.dumps(args)}}}\n```'


def heard(parts: Iterable[str], reason: str = "stop") -> AIMessage:
    """The message that comes of an answer in these parts."""
    blocks, whole = Blocks(), AIMessageChunk()
    for part in parts:
        whole = whole + blocks.heard(AIMessageChunk(part))
    return (whole + blocks.heard(AIMessageChunk(finish_reason=reason))).message()


def test_words_and_calls_are_told_apart() -> None:
    """The words before the blocks are content; the calls come in order, whatever they hold."""
    text = f"I look.\n\n{block('say', {'text': 'a ``` b } c'})}\n\n{block('math.add', {})}"
    said = heard([text])
    assert (said.content, said.finish_reason) == ("I look.", "tool_calls")
    assert [(call.name, call.args) for call in said.tool_calls] == [
        ("say", {"text": "a ``` b } c"}),
        ("math.add", {}),
    ]


@given(st.text("a`{\n ", max_size=12), st.lists(st.text('a`}\n"', max_size=6), max_size=2), st.data())
def test_it_does_not_matter_how_an_answer_arrives(words: str, texts: list[str], data: st.DataObject) -> None:
    """Cut anywhere into parts, it is the message that it is at once."""
    text = words + "\n\n".join(block("say", {"text": text}) for text in texts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert heard(parts) == heard([text]) == Blocks().whole(AIMessage(text))


@pytest.mark.parametrize(
    "text",
    ["Use `x`.", "```python\nprint(1)\n```", "```json\n[1, 2]\n```", f"{block('say', {})}\n\nDone."],
)
def test_what_is_no_call_stays_words(text: str) -> None:
    """Also of a model that no grammar holds."""
    assert heard([text]).content == text
    assert heard([text]).tool_calls == ()


def test_a_call_that_was_cut_off_is_none_that_could_be_made() -> None:
    """What there is of it is kept, with what is wrong."""
    said = heard(['```json\n{"name": "say", "arguments": {"text": "a'], "length")
    assert said.finish_reason == "length"
    assert [(type(call), call.name) for call in said.invalid_calls] == [(InvalidToolCall, "say")]


def test_tools_calls_and_results_are_told_in_words() -> None:
    """Tools in the system message, calls as the model writes them, the results of a round as one turn."""
    offer = offered(TOOLS, {})
    assert offer is not None
    calls = (ToolCall("c1", "say", {"text": "é"}), ToolCall("c2", "math.add", {}))
    told = offer.told(
        [
            SystemMessage("Be brief."),
            HumanMessage("Well?"),
            AIMessage("I look.", tool_calls=calls),
            ToolMessage("1", "c1", name="say"),
            ToolMessage("2", "c2", name="math.add"),
        ]
    )
    assert [message.role for message in told] == ["system", "user", "assistant", "user"]
    assert told[0].content.startswith("Be brief.\n\n")
    assert all(json.dumps(tool) in told[0].content for tool in TOOLS)
    assert heard([told[2].content]).tool_calls == tuple(ToolCall("", c.name, c.args) for c in calls)
    assert told[3].content == "say gave:\n1\n\nmath.add gave:\n2"
    assert [message.role for message in offer.told([HumanMessage("Well?")])] == ["system", "user"]


def test_which_calls_are_wanted_is_said_as_to_services() -> None:
    """`tool_choice` and `parallel_tool_calls`; a tool that is not offered is refused."""
    assert offered(None, {}) is None
    assert offered(TOOLS, {"tool_choice": "none"}) is None
    must = offered(TOOLS, {"tool_choice": "required", "parallel_tool_calls": False})
    assert must is not None
    assert (must.must, must.several, must.tools) == (True, False, tuple(TOOLS))
    named = offered(TOOLS, {"tool_choice": {"type": "function", "function": {"name": "say"}}})
    assert named is not None
    assert (named.must, named.tools) == (True, (SAY,))
    with pytest.raises(BadInput, match=r"the function of a tool \(math.add, say\)"):
        offered(TOOLS, {"tool_choice": {"function": {"name": "sya"}}})
