"""The form of Anthropic's Messages API.

Source: the service's own reference of the Messages API, its streaming, prompt caching and structured outputs.
An answer in a form is asked for with a tool: what the model would call it with is the answer. That takes any schema;
the service's own output format (`strict`) takes only those in the strict form. The prefix that stays the same for a whole
run, tools and system, is marked so that the service keeps it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...policies.text import with_article
from .chunks import AIMessageChunk
from .messages import AIMessage, Message, SystemMessage, ToolMessage
from .telling import Names, Telling, broken, calls_in, counts, said_error

__all__ = ["Hearing", "answer_tool", "messages_body"]

Json = Any

_KEPT = {"cache_control": {"type": "ephemeral"}}
_FINISHES = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}
_COUNTS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_input_tokens": "cached_tokens",
    "cache_creation_input_tokens": "cache_written_tokens",
}


def answer_tool(tools: Sequence[Mapping[str, Any]] | None) -> str:
    """A name for the tool that takes the answer, which no other has."""
    name, taken = "answer", {tool["name"] for tool in tools or ()}
    while name in taken:
        name += "_"
    return name


def messages_body(
    messages: Sequence[Message],
    names: Names,
    *,
    tools: Sequence[Mapping[str, Any]] | None,
    response_format: Mapping[str, Any] | None,
    strict: bool,
    cache: bool,
) -> dict[str, Json]:
    """The request, without the name of the model."""
    begins = next((n for n, m in enumerate(messages) if not isinstance(m, SystemMessage)), len(messages))
    body: dict[str, Json] = {"messages": _turns(messages[begins:], names)}
    system = [{"type": "text", "text": m.content} for m in messages[:begins] if m.content]
    offered = [_tool(names.out(t["name"]), t.get("description", ""), t["parameters"]) for t in tools or ()]
    if response_format is not None and strict:
        body["output_config"] = {"format": {"type": "json_schema", "schema": dict(response_format)}}
    elif response_format is not None:
        name = answer_tool(tools)
        offered.append(_tool(name, "Give your final answer with this.", _taking(response_format)))
        body["tool_choice"] = {"type": "auto"} if tools else {"type": "tool", "name": name}
    for name, prefix in (("tools", offered), ("system", system)):
        if prefix:
            body[name] = [*prefix[:-1], {**prefix[-1], **(_KEPT if cache else {})}]
    return body


def _tool(name: str, description: str, parameters: Mapping[str, Json]) -> dict[str, Json]:
    return {"name": name, "description": description, "input_schema": dict(parameters)}


def _taking(schema: Mapping[str, Json]) -> Mapping[str, Json]:
    """The schema of a tool that takes such an answer: one that is no object stands under `answer`."""
    if schema.get("type") == "object":
        return schema
    rest = {name: schema[name] for name in ("$defs", "definitions") if name in schema}
    return {"type": "object", "properties": {"answer": schema}, "required": ["answer"], **rest}


def _turns(messages: Sequence[Message], names: Names) -> list[dict[str, Json]]:
    """Turns of user and assistant in alternation: what one side says in a row is one turn."""
    turns: list[dict[str, Json]] = []
    for message in messages:
        role = "assistant" if isinstance(message, AIMessage) else "user"
        blocks = list(_blocks(message, names))
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": role, "content": blocks})
    return turns


def _blocks(message: Message, names: Names) -> Iterator[dict[str, Json]]:
    if isinstance(message, ToolMessage):
        result = {"type": "tool_result", "tool_use_id": message.tool_call_id, "content": message.content}
        yield result | ({"is_error": True} if message.failed else {})
        return
    if message.content.strip():
        yield {"type": "text", "text": message.content}
    for id_, name, args in calls_in(message) if isinstance(message, AIMessage) else ():
        yield {"type": "tool_use", "id": id_, "name": names.out(name), "input": args}


class Hearing:
    """Reads an answer into its `telling`; `answer` is the tool whose arguments are the answer, if there is one."""

    def __init__(self, telling: Telling, answer: str = "", *, bare: bool = True) -> None:
        self.telling = telling
        self._answer = answer
        self._bare = bare
        """Whether the answer is all that the tool takes, and not one property of it."""
        self._usage: dict[str, Json] = {}
        self._answers: set[object] = set()
        self._held = ""

    def whole(self, document: Mapping[str, Json]) -> AIMessageChunk:
        """A whole answer."""
        if document.get("type") == "error" or document.get("error"):
            raise said_error(document.get("error"))
        content = document.get("content")
        if not isinstance(content, list):
            raise broken(f"its content is {with_article(type(content).__name__)}")
        heard = AIMessageChunk()
        for place, block in enumerate(content):
            heard = heard + self._begun(place, block) + self._input(place, block)
        return heard + self._ended(document)

    def part(self, event: Mapping[str, Json]) -> AIMessageChunk:
        """A part of an answer."""
        match event.get("type"):
            case "error":
                raise said_error(event.get("error"))
            case "message_start":
                self._count(event.get("message"))
            case "content_block_start":
                return self._begun(event.get("index"), event.get("content_block"))
            case "content_block_delta":
                return self._delta(event.get("index"), event.get("delta"))
            case "message_delta":
                delta = event.get("delta")
                return self._ended(
                    {**(delta if isinstance(delta, Mapping) else {}), "usage": event.get("usage")}
                )
        return AIMessageChunk()

    def _begun(self, place: object, block: object) -> AIMessageChunk:
        if not isinstance(block, Mapping):
            raise broken(
                f"part {place} of its content is {'null' if block is None else type(block).__name__}"
            )
        self.telling.begin()
        if block.get("type") == "text":
            return AIMessageChunk(self.telling.text(block.get("text")))
        if block.get("type") != "tool_use":
            return AIMessageChunk()
        if self._answer and block.get("name") == self._answer:
            self._answers.add(place)
            return AIMessageChunk()
        return AIMessageChunk(calls=(self.telling.call(place, block.get("id"), block.get("name")),))

    def _input(self, place: object, block: Mapping[str, Json]) -> AIMessageChunk:
        """What a whole call is made with."""
        if block.get("type") != "tool_use":
            return AIMessageChunk()
        given = block.get("input")
        return self._called(place, given if given is None else json.dumps(given, ensure_ascii=False))

    def _delta(self, place: object, delta: object) -> AIMessageChunk:
        if not isinstance(delta, Mapping):
            raise broken(f"a part of its content is {with_article(type(delta).__name__)}")
        if delta.get("type") == "text_delta":
            return AIMessageChunk(self.telling.text(delta.get("text")))
        if delta.get("type") == "input_json_delta":
            return self._called(place, delta.get("partial_json"))
        return AIMessageChunk()

    def _called(self, place: object, text: object) -> AIMessageChunk:
        if place not in self._answers:
            return AIMessageChunk(calls=(self.telling.call(place, text=text),))
        if self._bare:
            return AIMessageChunk(self.telling.text(text))
        self._held += self.telling.text(text)
        return AIMessageChunk()

    def _ended(self, document: Mapping[str, Json]) -> AIMessageChunk:
        """How it ended, and what it cost."""
        self._count(document)
        reason = document.get("stop_reason")
        if reason == "refusal":
            self.telling.refuse("it does not say why")
        elif isinstance(reason, str):
            finish = _FINISHES.get(reason, reason)
            self.telling.finish = "stop" if finish == "tool_calls" and self._answers else finish
        return AIMessageChunk(self._unwrapped())

    def _unwrapped(self) -> str:
        """The answer that stands under `answer`; what is no such object stays as it was written."""
        held, self._held = self._held, ""
        try:
            return json.dumps(json.loads(held)["answer"], ensure_ascii=False) if held else ""
        except (ValueError, KeyError, TypeError):
            return held

    def _count(self, document: object) -> None:
        usage = document.get("usage") if isinstance(document, Mapping) else None
        if isinstance(usage, Mapping):
            self._usage.update({name: n for name, n in usage.items() if n is not None})
        found = counts(self._usage, _COUNTS)
        if found is not None:
            kept = found.get("cached_tokens", 0) + found.get("cache_written_tokens", 0)
            self.telling.usage = found | {"input_tokens": found.get("input_tokens", 0) + kept}
