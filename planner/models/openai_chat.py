"""The form of Chat Completions: what most services and local servers speak.

https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ...policies.text import with_article
from .chunks import AIMessageChunk
from .messages import AIMessage, Message, ToolMessage
from .telling import Names, Telling, broken, calls_in, counts, said_error

__all__ = ["chat_body", "hear_chat"]

Json = Any

_FINISHES = {"function_call": "tool_calls", "content_filter": "refused"}


def chat_body(
    messages: Sequence[Message],
    names: Names,
    *,
    tools: Sequence[Mapping[str, Any]] | None,
    response_format: Mapping[str, Any] | None,
    strict: bool,
) -> dict[str, Json]:
    """The request, without the name of the model."""
    body: dict[str, Json] = {"messages": [_message(message, names) for message in messages]}
    if tools:
        body["tools"] = [
            {"type": "function", "function": {**tool, "name": names.out(tool["name"])}} for tool in tools
        ]
    if response_format is not None:
        form = {"name": "answer", "schema": dict(response_format), "strict": strict}
        body["response_format"] = {"type": "json_schema", "json_schema": form}
    return body


def _message(message: Message, names: Names) -> dict[str, Json]:
    said: dict[str, Json] = {"role": message.role, "content": message.content}
    if isinstance(message, ToolMessage):
        said["tool_call_id"] = message.tool_call_id
    if isinstance(message, AIMessage) and (calls := calls_in(message)):
        said["content"] = message.content or None
        said["tool_calls"] = [
            {
                "id": id_,
                "type": "function",
                "function": {"name": names.out(name), "arguments": json.dumps(args, ensure_ascii=False)},
            }
            for id_, name, args in calls
        ]
    return said


def hear_chat(telling: Telling, document: Mapping[str, Json]) -> AIMessageChunk:
    """A part of an answer, or all of it: a `message` is read like one long `delta`."""
    if document.get("error"):
        raise said_error(document["error"])
    telling.usage = _usage(document.get("usage")) or telling.usage
    choices = document.get("choices") or ()
    if not isinstance(choices, list | tuple):
        raise broken(f"its choices are {with_article(type(choices).__name__)}")
    if not choices:
        return AIMessageChunk()
    choice = choices[0]
    delta = (choice.get("delta") or choice.get("message")) if isinstance(choice, Mapping) else None
    if not isinstance(choice, Mapping) or not isinstance(delta or {}, Mapping):
        raise broken("its first choice is no message")
    return _delta(telling, choice, delta or {})


def _delta(telling: Telling, choice: Mapping[str, Json], delta: Mapping[str, Json]) -> AIMessageChunk:
    telling.begin()
    finish = choice.get("finish_reason")
    if isinstance(finish, str) and finish:
        telling.finish = _FINISHES.get(finish, finish)
    telling.refuse(delta.get("refusal"))
    text = telling.text(delta.get("content"))
    calls = delta.get("tool_calls") or ()
    if not isinstance(calls, list | tuple):
        raise broken(f"its calls are {with_article(type(calls).__name__)}")
    parts = [_call(telling, place, call) for place, call in enumerate(calls)]
    return sum((AIMessageChunk(calls=(part,)) for part in parts), AIMessageChunk(text))


def _call(telling: Telling, place: int, call: object) -> Any:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(function, Mapping):
        raise broken(f"its call {place} is {'null' if call is None else 'no call of a function'}")
    index = call.get("index")
    key = index if isinstance(index, int) else place
    return telling.call(key, call.get("id"), function.get("name"), function.get("arguments"))


def _usage(usage: object) -> dict[str, float] | None:
    found = counts(usage, {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"})
    if found is None or not isinstance(usage, Mapping):
        return None
    return found | (counts(usage.get("prompt_tokens_details"), {"cached_tokens": "cached_tokens"}) or {})
