"""PydanticAIModel asks what Pydantic AI can ask; what is no answer is a failure that says why."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
from support.services import Answer, Service, service, stream

from foreplan import AIMessage, HumanMessage, SystemMessage, ToolCall, ToolMessage, create_agent
from foreplan.planner.models.chunks import ask_streaming
from foreplan.planner.models.messages import Message
from foreplan.policies.classification import classify

if importlib.util.find_spec("pydantic_ai") is None or importlib.util.find_spec("openai") is None:
    pytest.skip("the packages pydantic_ai and openai are not both installed", allow_module_level=True)

from foreplan.planner.models.pydantic_ai_model import PydanticAIModel

pytestmark = pytest.mark.anyio

ASK: list[Message] = [SystemMessage("Be brief."), HumanMessage("Two and two?")]
PARAMETERS = {"type": "object", "properties": {"a": {"type": "integer"}}}
TOOLS = [{"name": "math.add", "description": "Add.", "parameters": PARAMETERS}]
COUNTED = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
HEAD: dict[str, Any] = {"id": "c", "created": 1, "model": "tiny"}
CALL = {"id": "c1", "type": "function", "function": {"name": "math_add", "arguments": '{"a": 1}'}}


def whole(message: Any, finish: str = "stop") -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return {**HEAD, "object": "chat.completion", "choices": [choice], "usage": COUNTED}


def part(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {**HEAD, "object": "chat.completion.chunk", "choices": [choice]}


def model_at(there: Service) -> PydanticAIModel:
    """A model of Pydantic AI at this service."""
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=f"{there.url}/v1", api_key="none")
    return PydanticAIModel(OpenAIChatModel("tiny", provider=provider), temperature=0)


async def heard(model: Any, **options: Any) -> tuple[AIMessage, list[str]]:
    """The streamed answer, whole and in its parts."""
    parts: list[str] = []
    answer = await ask_streaming(model, ASK, lambda chunk: parts.append(chunk.content), **options)
    return answer, [text for text in parts if text]


def test_a_question_goes_out_and_an_answer_comes_back() -> None:
    """Messages, calls with their results, tools, a schema and settings; text, calls and usage."""
    import anyio

    past = AIMessage("", tool_calls=(ToolCall("c0", "math.add", {"a": 0}),))
    history = [*ASK, past, ToolMessage("0", "c0")]

    async def ask(model: PydanticAIModel) -> AIMessage:
        return await model.agenerate(history, tools=TOOLS, response_format=PARAMETERS)

    with service(whole({"content": "Four", "tool_calls": [CALL]}, "tool_calls")) as there:
        answer = anyio.run(ask, model_at(there))
        body = there.body
    usage = {"input_tokens": 7, "output_tokens": 2}
    assert answer == AIMessage("Four", usage, "tool_calls", (ToolCall("c1", "math.add", {"a": 1}),))
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "tool"]
    assert body["messages"][3] == {"role": "tool", "content": "0", "tool_call_id": "c0"}
    assert body["tools"][0]["function"]["name"] == "math_add"
    assert body["response_format"]["json_schema"]["schema"]["properties"] == PARAMETERS["properties"]
    assert body["temperature"] == 0


def test_a_streamed_answer_is_the_same() -> None:
    """Text as it arrives, calls at the end."""
    import anyio

    parts: list[Any] = [
        part(role="assistant", content="Fo"),
        part(content="ur"),
        part(tool_calls=[{"index": 0, **CALL}]),
        part("tool_calls"),
        {**HEAD, "object": "chat.completion.chunk", "choices": [], "usage": COUNTED},
        "[DONE]",
    ]
    with service(stream(*parts)) as there:
        answer, texts = anyio.run(lambda: heard(model_at(there), tools=TOOLS))
    usage = {"input_tokens": 7, "output_tokens": 2}
    assert texts == ["Fo", "ur"]
    assert answer == AIMessage("Four", usage, "tool_calls", (ToolCall("c1", "math.add", {"a": 1}),))


BROKEN: dict[str, tuple[Any, str, str]] = {
    "no choice": (whole({}) | {"choices": []}, "network", "protocol_error"),
    "nothing said": (whole({"content": None}), "network", "protocol_error"),
    "cut": (stream(part(content="Fo")), "network", "incomplete_answer"),
    "an error in mid-stream": (
        stream(
            part(content="Fo"), {"error": {"type": "server_error", "code": "server_error", "message": "gone"}}
        ),
        "network",
        "server_error",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_answer_is_a_failure(name: str) -> None:
    """Also where the library takes it for one, or crashes over it."""
    import anyio

    answer, kind, code = BROKEN[name]
    with service(answer) as there:
        model = model_at(there)
        streamed = isinstance(answer, Answer)
        with pytest.raises(Exception, match=r"usable|cut off|gone") as caught:
            anyio.run(lambda: heard(model) if streamed else model.agenerate(ASK))
    failure = classify(caught.value)
    assert (failure.kind, failure.code) == (kind, code)


def test_an_error_of_the_service_is_of_our_kinds_and_asked_once() -> None:
    """The library does not repeat; Retry-After and the host are in the failure."""
    import anyio

    with service(Answer(b'{"error": {"message": "no"}}', 429, headers={"Retry-After": "7"})) as there:
        with pytest.raises(Exception, match="no") as caught:
            anyio.run(lambda: model_at(there).agenerate(ASK))
        assert len(there.asked) == 1
    failure = classify(caught.value)
    assert (failure.code, failure.retry_after, failure.host) == ("rate_limited", 7.0, "127.0.0.1")


async def test_a_model_that_holds_no_schema_is_told_it() -> None:
    """On both loops, with a model of the library's own that asks nobody."""
    from pydantic_ai.messages import ModelResponse, TextPart
    from pydantic_ai.models.function import FunctionModel

    told: list[str] = []

    def answer(messages: Any, info: Any) -> ModelResponse:
        told.append(str(info.instructions))
        return ModelResponse(parts=[TextPart("{}")])

    model = PydanticAIModel(FunctionModel(answer, profile={"supports_json_schema_output": False}))
    assert (await model.agenerate(ASK, response_format={"title": "Form"})).content == "{}"
    assert told == [
        'The final answer is JSON that fits this JSON Schema, and nothing else: {"title": "Form"}'
    ]


def test_an_agent_runs_on_it() -> None:
    """One question after another, each in a loop of its own."""
    from pydantic_ai.models.test import TestModel

    agent = create_agent(PydanticAIModel(TestModel(custom_output_text="Four.")))
    assert [agent.invoke("Two and two?").output for _ in range(2)] == ["Four.", "Four."]
