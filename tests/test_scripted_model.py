"""A scripted model says what its script says, and remembers what it was asked."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from foreplan import ForeplanError
from foreplan.planner.models.chat import ChatModel
from foreplan.planner.models.messages import AIMessage, HumanMessage, Message, SystemMessage
from foreplan.planner.models.scripted import Answer, ScriptedModel, ScriptEnded

pytestmark = pytest.mark.anyio

ASKED: Sequence[Message] = (SystemMessage("be brief"), HumanMessage("why?"))


async def _async_answer(messages: tuple[Message, ...]) -> str:
    return messages[-1].content.upper()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("so", AIMessage("so")),
        (AIMessage("so", {"output_tokens": 1}, "length"), AIMessage("so", {"output_tokens": 1}, "length")),
        ({"cannot_plan": "nö"}, AIMessage('{"cannot_plan": "nö"}')),
        (lambda messages: f"{len(messages)} heard", AIMessage("2 heard")),
        (_async_answer, AIMessage("WHY?")),
    ],
)
async def test_an_answer_may_be_text_a_message_an_object_or_a_function(
    answer: Answer, expected: AIMessage
) -> None:
    """Each form of an answer becomes a message."""
    model: ChatModel = ScriptedModel([answer])
    assert await model.agenerate(ASKED) == expected


async def test_an_exception_in_the_script_is_raised() -> None:
    """A model that fails is scripted by the exception; the answers after it still come."""
    model = ScriptedModel([ConnectionResetError("gone"), "back"])
    with pytest.raises(ConnectionResetError, match="gone"):
        await model.agenerate(ASKED)
    assert (await model.agenerate(ASKED)).content == "back"


async def test_what_was_asked_is_recorded_with_the_options_that_were_set() -> None:
    """A test can look at every prompt."""
    model = ScriptedModel(["a", "b"])
    await model.agenerate(ASKED, response_format={"type": "object"})
    await model.agenerate(ASKED[:1])
    assert [request.options for request in model.requests] == [{"response_format": {"type": "object"}}, {}]
    assert model.requests[0].messages == ASKED
    assert model.requests[0].text == "be brief\nwhy?"


async def test_a_script_that_is_used_up_says_so() -> None:
    """One question too many is an error with the next move, not a hang or an empty answer."""
    model = ScriptedModel(["only"])
    await model.agenerate(ASKED)
    with pytest.raises(ScriptEnded, match="holds 1 answer and was asked once more"):
        await model.agenerate(ASKED)
    assert len(model.requests) == 2


async def test_an_answer_of_another_kind_is_refused() -> None:
    """A number is no answer."""
    with pytest.raises(ForeplanError, match="a scripted answer is text"):
        await ScriptedModel([lambda messages: 7]).agenerate(ASKED)


def test_messages_have_the_form_that_services_take() -> None:
    """Role and content, in the roles' usual names."""
    said = [m.to_json() for m in (*ASKED, AIMessage("because"))]
    assert [(m["role"], m["content"]) for m in said] == [
        ("system", "be brief"),
        ("user", "why?"),
        ("assistant", "because"),
    ]
