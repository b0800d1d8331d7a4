"""OpenAIModel speaks to a service on loopback in the published form, and what is no answer is a failure that says why."""

from __future__ import annotations

import importlib.util
import re
from typing import Any

import anyio
import pytest
from support.services import Answer, Service, service, stream

from foreplan.planner.models.messages import (
    AIMessage,
    HumanMessage,
    InvalidToolCall,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
)
from foreplan.policies.classification import classify
from foreplan.policies.failures import ToolFailure

if importlib.util.find_spec("openai") is None:
    pytest.skip("the package openai is not installed", allow_module_level=True)

from foreplan import Engine, ModelPlanner, Policies, Registry, Retry, Retrying, create_agent, tool
from foreplan.planner.models.chunks import ask_streaming
from foreplan.planner.models.openai_model import OpenAIModel
from foreplan.policies.errors import BadInput
from foreplan.policies.secrets import Secret

pytestmark = pytest.mark.anyio

ASK: list[Message] = [SystemMessage("Be brief."), HumanMessage("Two and two?")]
TOOLS = [{"name": "math.add", "description": "Add.", "parameters": {"type": "object", "properties": {}}}]
COUNTED = {"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}
USAGE = {"input_tokens": 7, "output_tokens": 2, "cached_tokens": 4}


def whole(message: Any, finish: str | None = "stop", **more: Any) -> dict[str, Any]:
    """A chat completion with this message."""
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion", "choices": [choice], "usage": COUNTED, **more}


def said(text: str) -> dict[str, Any]:
    return whole({"role": "assistant", "content": text})


def part(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    """One part of a streamed chat completion."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "choices": [choice]}


def call(id_: str | None = "c1", arguments: Any = '{"a": 1}', **more: Any) -> dict[str, Any]:
    """A call as the service writes it."""
    return {"id": id_, "type": "function", "function": {"name": "math_add", "arguments": arguments}, **more}


def model_at(there: Service, **options: Any) -> OpenAIModel:
    return OpenAIModel("tiny", base_url=f"{there.url}/v1", **options)


async def heard(model: Any, **options: Any) -> tuple[AIMessage, list[str]]:
    """The streamed answer, whole and in its parts."""
    parts: list[str] = []
    answer = await ask_streaming(model, ASK, lambda chunk: parts.append(chunk.content), **options)
    return answer, [text for text in parts if text]


async def test_a_chat_is_asked_and_heard_in_the_published_form() -> None:
    """Messages, a schema and options go out; text, usage and the reason come back."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    with service(said('{"n": 4}')) as there:
        model = model_at(there, api_key=Secret("sk-loopback-key"), temperature=0)
        answer = await model.agenerate(ASK, response_format=schema, config={"seed": 3})
        path, headers, body = there.asked[0]
    assert answer == AIMessage('{"n": 4}', usage=USAGE)
    assert (path, headers["authorization"]) == ("/v1/chat/completions", "Bearer sk-loopback-key")
    assert body == {
        "model": "tiny",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Two and two?"},
        ],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": schema, "strict": False},
        },
        "temperature": 0,
        "seed": 3,
    }
    assert "sk-loopback" not in repr(model)


async def test_calls_go_both_ways_under_names_that_the_service_accepts() -> None:
    """`math.add` is `math_add` over there; a call with its answer is told again, an unreadable one as text."""
    past = AIMessage(
        "",
        tool_calls=(ToolCall("c1", "math.add", {"a": 1}),),
        invalid_calls=(InvalidToolCall("c2", "x", "{", "no"),),
    )
    history = [*ASK, past, ToolMessage("2", "c1"), ToolMessage("no", "c2", failed=True)]
    with service(whole({"content": None, "tool_calls": [call()]}, "tool_calls")) as there:
        answer = await model_at(there).agenerate(history, tools=TOOLS)
        body = there.body
    assert answer.tool_calls == (ToolCall("c1", "math.add", {"a": 1}),)
    assert answer.finish_reason == "tool_calls"
    assert body["tools"][0]["function"]["name"] == "math_add"
    assert body["messages"][2]["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "math_add", "arguments": '{"a": 1}'}},
        {"id": "c2", "type": "function", "function": {"name": "x", "arguments": '{"unreadable": "{"}'}},
    ]
    assert body["messages"][3] == {"role": "tool", "content": "2", "tool_call_id": "c1"}


async def test_a_streamed_chat_is_the_same_answer() -> None:
    """Text arrives part by part, calls are put together, usage comes last."""
    first = {"index": 0, **call(arguments='{"a"')}
    second = {"index": 0, "function": {"arguments": ": 1}"}}
    other = {"index": 0, **call("c2", "{}")}  # some servers give each call the same index
    parts: list[Any] = [
        part(role="assistant", content="Fo"),
        part(content="ur"),
        part(tool_calls=[first]),
        part(tool_calls=[second]),
        part(tool_calls=[other]),
        part("tool_calls"),
        {"id": "c", "choices": [], "usage": COUNTED},
        "[DONE]",
    ]
    with service(stream(*parts)) as there:
        answer, texts = await heard(model_at(there), tools=TOOLS)
        body = there.body
    calls = (ToolCall("c1", "math.add", {"a": 1}), ToolCall("c2", "math.add", {}))
    assert texts == ["Fo", "ur"]
    assert answer == AIMessage("Four", USAGE, "tool_calls", calls)
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_answer_at_its_length_limit_says_so(streamed: bool) -> None:
    """`length` reaches whoever asked, who knows then that the text is not all of it."""
    answers = (
        stream(part(content="Fo"), part("length"), "[DONE]")
        if streamed
        else whole({"content": "Fo"}, "length")
    )
    with service(answers) as there:
        model = model_at(there)
        answer = (await heard(model))[0] if streamed else await model.agenerate(ASK)
    assert (answer.content, answer.finish_reason) == ("Fo", "length")


async def test_arguments_that_are_no_object_are_a_call_that_says_what_is_wrong() -> None:
    """A list, as text or as it is, is no crash and no call."""
    calls = [call("c1", "[1]"), call("c2", [1]), call("c3", None)]
    with service(whole({"content": None, "tool_calls": calls}, "tool_calls")) as there:
        answer = await model_at(there).agenerate(ASK, tools=TOOLS)
    assert [c.id for c in answer.tool_calls] == ["c3"]
    assert [c.error for c in answer.invalid_calls] == ["the arguments must be a JSON object, not [1]"] * 2


BROKEN: dict[str, tuple[Any, str, str, str]] = {
    "no choice": (whole({}) | {"choices": []}, "network", "protocol_error", "no choice"),
    "null choices": (whole({}) | {"choices": None}, "network", "protocol_error", "no choice"),
    "a null choice": (whole({}) | {"choices": [None]}, "network", "protocol_error", "no message"),
    "a list": ([1], "network", "protocol_error", "a list, not an object"),
    "no JSON": (Answer(b"{"), "network", "protocol_error", "no JSON"),
    "nothing said": (whole({"content": None}), "network", "protocol_error", "neither text nor a call"),
    "no calls": (whole({"content": "x", "tool_calls": None}, "tool_calls"), "network", "protocol_error", "names none"),
    "a null call": (whole({"tool_calls": [None]}), "network", "protocol_error", "call 0 is null"),
    "one id twice": (whole({"tool_calls": [call(), call()]}), "network", "protocol_error", "two calls have the id 'c1'"),
    "cut calls": (whole({"tool_calls": [call()]}, "length"), "business", "answer_too_long", "in the midst of its calls"),
    "a refusal": (whole({"content": None, "refusal": "I will not."}), "business", "refused", "refuses to answer: I will not."),
    "a filter": (whole({"content": "x"}, "content_filter"), "business", "refused", "its filter stopped the answer"),
    "an error": ({"error": {"code": 429, "message": "slow down"}}, "network", "rate_limited", "slow down"),
    "cut": (stream(part(content="Fo")), "network", "incomplete_answer", "the stream ended before"),
    "broken off": (stream(part(content="Fo"), promised=9), "network", "protocol_error", "peer closed connection"),
    "an error in mid-stream": (
        stream(part(content="Fo"), {"error": {"type": "server_error", "message": "out of memory"}}),
        "network",
        "server_error",
        "out of memory",
    ),
    "a part that is no JSON": (stream(part(content="Fo"), "{"), "network", "protocol_error", "no JSON"),
    "no parts": (stream("[DONE]"), "network", "protocol_error", "no choice"),
    "a cut call": (
        stream(part(tool_calls=[{"index": 0, **call(arguments="")}]), part("length")),
        "business",
        "answer_too_long",
        "in the midst of its calls",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
async def test_what_is_no_answer_is_a_failure_with_a_sentence(name: str) -> None:
    """Never a short answer, never a crash: kind, code, and what is wrong."""
    answer, kind, code, words = BROKEN[name]
    with service(answer) as there:
        model = model_at(there)
        asked = heard(model) if getattr(answer, "kind", "") == "text/event-stream" else model.agenerate(ASK)
        with pytest.raises(Exception, match=re.escape(words)) as caught:
            await asked
    failure = classify(caught.value)
    assert (failure.kind, failure.code) == (kind, code)
    assert words in failure.message


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (400, "bad_args", "bad_request"),
        (401, "permission", "unauthenticated"),
        (404, "business", "not_found"),
        (429, "network", "rate_limited"),
        (503, "network", "unavailable"),
    ],
)
async def test_an_error_of_the_service_is_of_our_kinds_and_asked_once(
    status: int, kind: str, code: str
) -> None:
    """The SDK does not repeat; Retry-After and the host are in the failure, where the limits look for them."""
    refused = Answer(b'{"error": {"message": "no"}}', status, headers={"Retry-After": "7"})
    with service(refused) as there:
        with pytest.raises(Exception, match="no") as caught:
            await model_at(there).agenerate(ASK)
        assert len(there.asked) == 1
    failure = classify(caught.value)
    assert (failure.kind, failure.code, failure.status) == (kind, code, status)
    assert (failure.retry_after, failure.host) == (7.0, "127.0.0.1")


async def test_a_service_that_is_not_there_is_a_refused_connection() -> None:
    """The cause beneath the SDK's exception decides."""
    with service() as there:
        pass
    with pytest.raises(Exception, match="Connection error") as caught:
        await model_at(there).agenerate(ASK)
    failure = classify(caught.value)
    assert (failure.kind, failure.code, failure.happened) == ("network", "connection_refused", "no")


async def test_the_key_of_openai_goes_to_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a base_url of another's, OPENAI_API_KEY stays here."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-for-openai-alone")
    with service(said("4")) as there:
        await model_at(there).agenerate(ASK)
        assert there.asked[0][1]["authorization"] == "Bearer none"


async def test_without_a_key_the_sentence_says_where_it_is_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """OpenAI itself is not asked without one."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(BadInput, match="OPENAI_API_KEY"):
        await OpenAIModel("tiny").agenerate(ASK)


async def test_a_client_of_yours_is_used_and_left_open() -> None:
    """Its connections are kept; its retries are off for our questions."""
    import openai

    with service(said("4"), Answer(b"{}", 500)) as there:
        async with openai.AsyncOpenAI(base_url=there.url, api_key="none") as client:
            model = OpenAIModel("tiny", client=client)
            assert (await model.agenerate(ASK)).content == "4"
            with pytest.raises(openai.InternalServerError):
                await model.agenerate(ASK)
            assert len(there.asked) == 2
            assert client.max_retries == 2


async def test_an_option_that_the_package_does_not_know_is_refused() -> None:
    """With the nearest that it knows, before anything is sent."""
    with service() as there, pytest.raises(BadInput, match="did you mean 'temperature'"):
        await model_at(there, temprature=0).agenerate(ASK)


# --- the Responses API


def response(*output: Any, status: str = "completed", **more: Any) -> dict[str, Any]:
    """A response with these items."""
    usage = {"input_tokens": 7, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 4}}
    return {"id": "r", "object": "response", "status": status, "output": list(output), "usage": usage, **more}


def spoken(*content: Any) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": list(content)}


TEXT = {"type": "output_text", "text": "Four"}
CALL = {"type": "function_call", "call_id": "c1", "name": "math_add", "arguments": '{"a": 1}'}
CUT: dict[str, Any] = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}


async def test_responses_are_asked_and_heard_in_the_published_form() -> None:
    """Items go out and come back; nothing is kept over there."""
    past = AIMessage("", tool_calls=(ToolCall("c0", "math.add", {}),))
    with service(response({"type": "reasoning"}, spoken(TEXT), CALL)) as there:
        model = model_at(there, api="responses", strict=True)
        history = [*ASK, past, ToolMessage("0", "c0")]
        answer = await model.agenerate(history, tools=TOOLS, response_format={"type": "object"})
        path, _, body = there.asked[0]
    assert answer == AIMessage("Four", USAGE, "tool_calls", (ToolCall("c1", "math.add", {"a": 1}),))
    assert (path, body["store"]) == ("/v1/responses", False)
    assert body["input"][2:] == [
        {"type": "function_call", "call_id": "c0", "name": "math_add", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c0", "output": "0"},
    ]
    assert body["tools"] == [{"type": "function", **TOOLS[0], "name": "math_add", "strict": False}]
    assert body["text"]["format"]["strict"] is True


async def test_a_streamed_response_is_the_same_answer() -> None:
    """Text as it arrives, a call when it is complete."""
    events: list[Any] = [
        {"type": "response.created", "response": response(status="in_progress")},
        {"type": "response.output_text.delta", "delta": "Fo"},
        {"type": "response.output_text.delta", "delta": "ur"},
        {"type": "response.output_item.done", "output_index": 0, "item": spoken(TEXT)},
        {"type": "response.output_item.done", "output_index": 1, "item": CALL},
        {"type": "response.completed", "response": response(spoken(TEXT), CALL)},
    ]
    with service(stream(*events, named=True)) as there:
        answer, texts = await heard(model_at(there, api="responses"), tools=TOOLS)
    assert texts == ["Fo", "ur"]
    assert answer == AIMessage("Four", USAGE, "tool_calls", (ToolCall("c1", "math.add", {"a": 1}),))


async def test_a_response_at_its_length_limit_says_so() -> None:
    """`incomplete` is `length` in our words."""
    with service(response(spoken(TEXT), **CUT)) as there:
        answer = await model_at(there, api="responses").agenerate(ASK)
    assert (answer.content, answer.finish_reason) == ("Four", "length")


SHORT: dict[str, tuple[Any, str, str, str]] = {
    "no output": (response() | {"output": None}, "network", "protocol_error", "its output is a NoneType"),
    "nothing": (response(), "network", "protocol_error", "nothing was said"),
    "a null item": (response(None), "network", "protocol_error", "item 0 of its output is null"),
    "failed": (
        response(error={"code": "rate_limit_exceeded", "message": "slow"}),
        "network",
        "rate_limited",
        "slow",
    ),
    "still going": (
        response(spoken(TEXT), status="queued"),
        "network",
        "protocol_error",
        "it ended as 'queued'",
    ),
    "a refusal": (response(spoken({"type": "refusal", "refusal": "No."})), "business", "refused", "No."),
    "one id twice": (response(CALL, CALL), "network", "protocol_error", "two calls have the id"),
    "cut": (
        stream({"type": "response.output_text.delta", "delta": "Fo"}, named=True),
        "network",
        "incomplete_answer",
        "the stream ended before",
    ),
    "an error in mid-stream": (
        stream({"type": "error", "code": "server_error", "message": "gone", "param": None}, named=True),
        "network",
        "server_error",
        "gone",
    ),
    "failed in mid-stream": (
        stream(
            {
                "type": "response.failed",
                "response": response(status="failed", error={"code": "x", "message": "gone"}),
            },
            named=True,
        ),
        "network",
        "server_error",
        "gone",
    ),
}


@pytest.mark.parametrize("name", SHORT)
async def test_what_is_no_response_is_a_failure_with_a_sentence(name: str) -> None:
    """The same table for the other API."""
    answer, kind, code, words = SHORT[name]
    with service(answer) as there:
        model = model_at(there, api="responses")
        asked = heard(model) if isinstance(answer, Answer) else model.agenerate(ASK)
        with pytest.raises(ToolFailure) as caught:
            await asked
    failure = classify(caught.value)
    assert (failure.kind, failure.code) == (kind, code)
    assert words in failure.message


def test_an_agent_asks_again_after_a_broken_answer() -> None:
    """An answer without a choice is told as a failure of the network kind, and the run goes on."""
    with service({"choices": []}, said("four")) as there:
        run = create_agent(model_at(there)).invoke("Two and two?")
        assert (run.output, len(there.asked)) == ("four", 2)


PLAN = """{"foreplan": 1, "goal": "g", "output": {"$": "s"},
"steps": [{"id": "s", "tool": "add", "args": {"a": 1, "b": 2}}]}"""


def test_a_plan_streamed_by_a_service_is_asked_for_again_and_runs() -> None:
    """The first plan is asked for outside a run: `Retrying` waits as long as the service wants, and no step is lost."""

    @tool(effect="reads")
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    parts = [part(content=PLAN[at : at + 9]) for at in range(0, len(PLAN), 9)]
    later = Answer(b"{}", 429, headers={"Retry-After": "0"})
    with service(later, stream(*parts, part("stop"), "[DONE]")) as there:
        planner = ModelPlanner(Retrying(model_at(there), Retry(base=0)))
        engine = Engine(Registry(add), planner=planner, policies=Policies(start_early=True))
        run = anyio.run(engine.plan_and_run, "g")
        assert (run.output, len(there.asked), there.body["stream"]) == (3, 2, True)
