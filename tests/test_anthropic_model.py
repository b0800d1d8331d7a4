"""AnthropicModel speaks to a service on loopback in the published form, streamed and not."""

from __future__ import annotations

import importlib.util
import re
from typing import Any

import pytest
from support.services import Answer, Service, service, stream

from foreplan import AIMessage, HumanMessage, SystemMessage, ToolCall, ToolFailure, ToolMessage, create_agent
from foreplan.planner.models.chunks import ask_streaming
from foreplan.planner.models.messages import Message
from foreplan.policies.classification import classify
from foreplan.policies.errors import BadInput

if importlib.util.find_spec("anthropic") is None:
    pytest.skip("the package anthropic is not installed", allow_module_level=True)

from foreplan.planner.models.anthropic_model import AnthropicModel

pytestmark = pytest.mark.anyio

ASK: list[Message] = [SystemMessage("Be brief."), HumanMessage("Two and two?")]
PARAMETERS = {"type": "object", "properties": {"a": {"type": "integer"}}}
TOOLS = [{"name": "math.add", "description": "Add.", "parameters": PARAMETERS}]
COUNTED = {
    "input_tokens": 3,
    "output_tokens": 2,
    "cache_read_input_tokens": 4,
    "cache_creation_input_tokens": 1,
}
USAGE = {"input_tokens": 8, "output_tokens": 2, "cached_tokens": 4, "cache_written_tokens": 1}
KEPT = {"cache_control": {"type": "ephemeral"}}
TEXT = {"type": "text", "text": "Four"}


def used(name: str = "math_add", given: Any = None, id_: str = "t1") -> dict[str, Any]:
    return {"type": "tool_use", "id": id_, "name": name, "input": {"a": 1} if given is None else given}


def message(*content: Any, stop: str | None = "end_turn", **more: Any) -> dict[str, Any]:
    """A whole answer with these parts."""
    head = {"id": "m", "type": "message", "role": "assistant", "model": "tiny"}
    return {**head, "content": list(content), "stop_reason": stop, "usage": COUNTED, **more}


def begun(index: int, block: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, **said: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": said}


def ended(stop: str) -> list[dict[str, Any]]:
    last = {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 2}}
    return [last, {"type": "message_stop"}]


START = {"type": "message_start", "message": message(stop=None, usage={**COUNTED, "output_tokens": 1})}


def events(*parts: dict[str, Any]) -> Answer:
    return stream(START, {"type": "ping"}, *parts, named=True)


def model_at(there: Service, **options: Any) -> AnthropicModel:
    return AnthropicModel("tiny", base_url=there.url, **options)


async def heard(model: Any, **options: Any) -> tuple[AIMessage, list[str]]:
    """The streamed answer, whole and in its parts."""
    parts: list[str] = []
    answer = await ask_streaming(model, ASK, lambda chunk: parts.append(chunk.content), **options)
    return answer, [text for text in parts if text]


async def test_a_message_is_asked_and_heard_in_the_published_form() -> None:
    """Turns alternate, results follow their calls, tools and system are marked as the prefix to keep."""
    past = AIMessage("", tool_calls=(ToolCall("t0", "math.add", {"a": 0}),))
    history = [*ASK, past, ToolMessage("no", "t0", failed=True), HumanMessage("Go on.")]
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    with service(message(thought, TEXT, used(), stop="tool_use")) as there:
        model = model_at(there, api_key="sk-loopback", service_tier="auto")
        answer = await model.agenerate(history, tools=TOOLS)
        path, headers, body = there.asked[0]
    assert answer == AIMessage("Four", USAGE, "tool_calls", (ToolCall("t1", "math.add", {"a": 1}),))
    assert path == "/v1/messages"
    assert "sk-loopback" in (headers.get("x-api-key"), headers.get("authorization", "")[7:])
    result = {"type": "tool_result", "tool_use_id": "t0", "content": "no", "is_error": True}
    assert body == {
        "model": "tiny",
        "max_tokens": 8192,
        "service_tier": "auto",
        "system": [{"type": "text", "text": "Be brief.", **KEPT}],
        "tools": [{"name": "math_add", "description": "Add.", "input_schema": PARAMETERS, **KEPT}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Two and two?"}]},
            {"role": "assistant", "content": [used(given={"a": 0}, id_="t0")]},
            {"role": "user", "content": [result, {"type": "text", "text": "Go on."}]},
        ],
    }


async def test_a_streamed_message_is_the_same_answer() -> None:
    """Text arrives part by part, calls are put together, counts come at both ends."""
    parts = [
        begun(0, {"type": "text", "text": ""}),
        delta(0, type="text_delta", text="Fo"),
        delta(0, type="text_delta", text="ur"),
        begun(1, used(given={})),
        delta(1, type="input_json_delta", partial_json='{"a"'),
        delta(1, type="input_json_delta", partial_json=": 1}"),
        *ended("tool_use"),
    ]
    with service(events(*parts)) as there:
        answer, texts = await heard(model_at(there), tools=TOOLS)
        assert there.body["stream"] is True
    assert texts == ["Fo", "ur"]
    assert answer == AIMessage("Four", USAGE, "tool_calls", (ToolCall("t1", "math.add", {"a": 1}),))


@pytest.mark.parametrize(
    ("schema", "given", "text"),
    [({"type": "object"}, {"n": 4}, '{"n": 4}'), ({"type": "integer"}, {"answer": 4}, "4")],
)
async def test_an_answer_in_a_form_is_what_a_tool_is_called_with(schema: Any, given: Any, text: str) -> None:
    """Any schema does; what is no object stands in one. Streamed, an object is heard as it arrives."""
    written = '{"n": 4}' if "n" in given else '{"answer": 4}'
    parts = [
        begun(0, used("answer", {})),
        delta(0, type="input_json_delta", partial_json=written[:5]),
        delta(0, type="input_json_delta", partial_json=written[5:]),
        *ended("tool_use"),
    ]
    with service(message(used("answer", given), stop="tool_use"), events(*parts)) as there:
        model = model_at(there)
        assert await model.agenerate(ASK, response_format=schema) == AIMessage(text, USAGE)
        assert there.body["tool_choice"] == {"type": "tool", "name": "answer"}
        assert (await heard(model, response_format=schema))[0] == AIMessage(text, USAGE)


async def test_beside_tools_and_thoughts_the_form_is_offered_and_not_forced() -> None:
    """Else the tools could not be called; text in the form does as well."""
    with service(*[message({"type": "text", "text": "{}"})] * 3) as there:
        answer = await model_at(there).agenerate(ASK, tools=TOOLS, response_format={"type": "object"})
        assert answer.content == "{}"
        assert [tool["name"] for tool in there.body["tools"]] == ["math_add", "answer"]
        assert there.body["tool_choice"] == {"type": "auto"}
        thinking = {"type": "enabled", "budget_tokens": 1024}
        await model_at(there, thinking=thinking).agenerate(ASK, response_format={"type": "object"})
        assert there.body["tool_choice"] == {"type": "auto"}
        await model_at(there, strict=True, cache=False).agenerate(ASK, response_format={"type": "object"})
        assert there.body["output_config"] == {
            "format": {"type": "json_schema", "schema": {"type": "object"}}
        }
        assert "cache_control" not in str(there.body)


async def test_an_answer_at_its_length_limit_says_so() -> None:
    """Also where it is the arguments of the answer's tool that are cut."""
    parts = [
        begun(0, used("answer", {})),
        delta(0, type="input_json_delta", partial_json='{"n":'),
        *ended("max_tokens"),
    ]
    with service(message(TEXT, stop="max_tokens"), events(*parts)) as there:
        model = model_at(there)
        answers = [await model.agenerate(ASK), (await heard(model, response_format={"type": "object"}))[0]]
    assert [(a.content, a.finish_reason) for a in answers] == [("Four", "length"), ('{"n":', "length")]


BROKEN: dict[str, tuple[Any, str, str, str]] = {
    "no content": (message() | {"content": None}, "network", "protocol_error", "its content is a NoneType"),
    "nothing said": (message(), "network", "protocol_error", "nothing was said"),
    "a null part": (message(None), "network", "protocol_error", "part 0 of its content is null"),
    "no calls": (message(TEXT, stop="tool_use"), "network", "protocol_error", "names none"),
    "one id twice": (message(used(), used(), stop="tool_use"), "network", "protocol_error", "the id 't1'"),
    "cut calls": (
        message(used(), stop="max_tokens"),
        "business",
        "answer_too_long",
        "in the midst of its calls",
    ),
    "a refusal": (message(stop="refusal"), "business", "refused", "refuses to answer"),
    "no reason": (message(TEXT, stop=None), "network", "incomplete_answer", "cut off"),
    "no JSON": (Answer(b"<html>"), "network", "protocol_error", "no JSON"),
    "cut": (events(begun(0, TEXT)), "network", "incomplete_answer", "the stream ended before"),
    "an error in mid-stream": (
        events(
            begun(0, TEXT), {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
        ),
        "network",
        "unavailable",
        "Overloaded",
    ),
    "a null delta": (events(delta(0) | {"delta": None}), "network", "protocol_error", "a NoneType"),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_what_is_no_answer_is_a_failure_with_a_sentence(name: str) -> None:
    """Never a short answer, never a crash: kind, code, and what is wrong."""
    answer, kind, code, words = BROKEN[name]
    with service(answer) as there:
        model = model_at(there)
        asked = heard(model) if getattr(answer, "kind", "") == "text/event-stream" else model.agenerate(ASK)
        with pytest.raises(ToolFailure, match=re.escape(words)) as caught:
            await asked
    failure = classify(caught.value)
    assert (failure.kind, failure.code) == (kind, code)


async def test_arguments_that_are_no_object_are_a_call_that_says_what_is_wrong() -> None:
    """A list is no crash and no call."""
    with service(message(used(given=[1]), stop="tool_use")) as there:
        answer = await model_at(there).agenerate(ASK, tools=TOOLS)
    assert [c.error for c in answer.invalid_calls] == ["the arguments must be a JSON object, not [1]"]


@pytest.mark.parametrize(
    ("status", "code"), [(400, "bad_request"), (429, "rate_limited"), (529, "server_error")]
)
async def test_an_error_of_the_service_is_of_our_kinds_and_asked_once(status: int, code: str) -> None:
    """The SDK does not repeat; Retry-After and the host are in the failure."""
    said = b'{"type": "error", "error": {"type": "x", "message": "no"}}'
    with service(Answer(said, status, headers={"Retry-After": "7"})) as there:
        with pytest.raises(Exception, match="no") as caught:
            await model_at(there).agenerate(ASK)
        assert len(there.asked) == 1
    failure = classify(caught.value)
    assert (failure.code, failure.retry_after, failure.host) == (code, 7.0, "127.0.0.1")


async def test_the_key_of_anthropic_goes_to_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a base_url of another's, the key in the environment stays here."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-for-anthropic-alone")
    with service(message(TEXT)) as there:
        await model_at(there).agenerate(ASK)
        assert "sk-for-anthropic-alone" not in str(there.asked)


async def test_a_client_of_yours_is_used_and_left_open() -> None:
    """And no settings beside it."""
    import anthropic

    with service(message(TEXT)) as there:
        async with anthropic.AsyncAnthropic(base_url=there.url, api_key="none") as client:
            assert (await AnthropicModel("tiny", client=client).agenerate(ASK)).content == "Four"
            with pytest.raises(BadInput, match="its own base_url"):
                AnthropicModel("tiny", client=client, api_key="none")


def test_an_agent_runs_on_it() -> None:
    """Calls, results and the answer in a form, over the real protocol."""

    def add(a: int) -> int:
        """Add one."""
        return a + 1

    from foreplan import tool

    call, last = used("add", {"a": 3}), used("answer", {"n": 4}, "t2")
    with service(message(call, stop="tool_use"), message(last, stop="tool_use")) as there:
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        agent = create_agent(model_at(there), [tool(effect="reads")(add)], response_format=schema)
        assert agent.invoke("Three and one?").output == {"n": 4}
        assert there.body["messages"][-1]["content"][0]["content"] == "4"
