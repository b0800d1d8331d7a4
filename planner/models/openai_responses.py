"""The form of the Responses API: the request is a list of items, and so is the answer.

https://platform.openai.com/docs/api-reference/responses
Text is heard as it arrives, a call when it is complete. Nothing is kept by the service (`store: false`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...policies.text import with_article
from .chunks import AIMessageChunk
from .messages import AIMessage, Message, ToolMessage
from .telling import Names, Telling, broken, calls_in, counts, said_error

__all__ = ["hear_response", "read_response", "responses_body"]

Json = Any


def responses_body(
    messages: Sequence[Message],
    names: Names,
    *,
    tools: Sequence[Mapping[str, Any]] | None,
    response_format: Mapping[str, Any] | None,
    strict: bool,
) -> dict[str, Json]:
    """The request, without the name of the model."""
    items = [item for message in messages for item in _items(message, names)]
    body: dict[str, Json] = {"input": items, "store": False}
    if tools:
        body["tools"] = [
            {"type": "function", **tool, "name": names.out(tool["name"]), "strict": False} for tool in tools
        ]
    if response_format is not None:
        form = {"type": "json_schema", "name": "answer", "schema": dict(response_format), "strict": strict}
        body["text"] = {"format": form}
    return body


def _items(message: Message, names: Names) -> Iterator[dict[str, Json]]:
    if isinstance(message, ToolMessage):
        yield {"type": "function_call_output", "call_id": message.tool_call_id, "output": message.content}
        return
    if message.content or not isinstance(message, AIMessage):
        yield {"role": message.role, "content": message.content}
    for id_, name, args in calls_in(message) if isinstance(message, AIMessage) else ():
        arguments = json.dumps(args, ensure_ascii=False)
        yield {"type": "function_call", "call_id": id_, "name": names.out(name), "arguments": arguments}


def read_response(telling: Telling, document: Mapping[str, Json]) -> AIMessageChunk:
    """A whole answer."""
    if document.get("error"):
        raise said_error(document["error"])
    output = document.get("output")
    if not isinstance(output, list):
        raise broken(f"its output is {with_article(type(output).__name__)}")
    heard = AIMessageChunk()
    for place, item in enumerate(output):
        heard = heard + _item(telling, place, item)
    _closed(telling, document)
    return heard


def _item(telling: Telling, place: object, item: object, *, text: bool = True) -> AIMessageChunk:
    """One item of the output; `text` is False where its words were heard before."""
    if not isinstance(item, Mapping):
        raise broken(f"item {place} of its output is {'null' if item is None else type(item).__name__}")
    telling.begin()
    if item.get("type") == "function_call":
        call = telling.call(place, item.get("call_id"), item.get("name"), item.get("arguments"))
        return AIMessageChunk(calls=(call,))
    if item.get("type") == "message" and text:
        return AIMessageChunk(telling.text(item.get("content")))
    return AIMessageChunk()


def hear_response(telling: Telling, event: Mapping[str, Json]) -> AIMessageChunk:
    """A part of an answer."""
    match event.get("type"):
        case "error":
            raise said_error(event.get("error") or {**event, "type": None})
        case "response.output_text.delta":
            telling.begin()
            return AIMessageChunk(telling.text(event.get("delta")))
        case "response.refusal.delta":
            telling.refuse(event.get("delta"))
        case "response.output_item.done":
            return _item(telling, event.get("output_index"), event.get("item"), text=False)
        case "response.completed" | "response.incomplete" | "response.failed":
            _closed(telling, event.get("response") or {})
    return AIMessageChunk()


def _closed(telling: Telling, response: Mapping[str, Json]) -> None:
    """How it ended, and what it cost."""
    if response.get("error"):
        raise said_error(response["error"])
    telling.usage = _usage(response.get("usage"))
    if response.get("output"):
        telling.begin()
    why = (response.get("incomplete_details") or {}).get("reason")
    match response.get("status"):
        case "completed":
            telling.finish = "stop"
        case "incomplete" if why == "content_filter":
            telling.finish = "refused"
        case "incomplete" if why in (None, "max_output_tokens"):
            telling.begin()
            telling.finish = "length"
        case status:
            raise broken(f"it ended as {status!r}{f' ({why})' if why else ''}")


def _usage(usage: object) -> dict[str, float] | None:
    found = counts(usage, {"input_tokens": "input_tokens", "output_tokens": "output_tokens"})
    if found is None or not isinstance(usage, Mapping):
        return None
    return found | (counts(usage.get("input_tokens_details"), {"cached_tokens": "cached_tokens"}) or {})
