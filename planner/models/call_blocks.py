"""Calls of tools by models that have no form of their own for them: as blocks at the end of an answer, held to a grammar.

    The weather there is known to a tool.            words, as they come

    ```json                                          one block for each call, and nothing after them
    {"name": "weather", "arguments": {"city": "Rome"}}
    ```

Whatever template a model file brings, this is what the model is told and what its calls and their results look like in the
history. The template of the recommended model asks for `<tool_call>` tags, and the model writes fenced JSON all the same, which
llama.cpp takes for an answer in words; told to call something, its own grammar holds it to nothing (docs/decisions/0030).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ...policies.errors import BadInput
from ...policies.text import shorten
from .chunks import AIMessageChunk, ToolCallChunk
from .messages import AIMessage, HumanMessage, Message, SystemMessage, ToolMessage

__all__ = ["CHOICES", "Blocks", "Offer", "json_rule", "offered"]

Json = Any

CHOICES = ("tool_choice", "parallel_tool_calls")
"""Options of a question that say which calls are wanted, as services know them."""

_FENCE = "```"
_BLOCK = re.compile(r"```json\n(.*?)(?:\n```|\Z)", re.DOTALL)
_NAME = re.compile(r'\s*\{\s*"name"\s*:\s*"([^"\\]*)"(?:\s*,\s*"arguments"\s*:\s*(.*))?', re.DOTALL)
_RULES = """\
# Tools

You may call the functions that are listed here to find out or do what is asked, one or several of them:
<tools>
{listed}
</tools>

For each call write a JSON object with the name of the function and its arguments in a block of its own:
```json
{{"name": <function-name>, "arguments": <args-json-object>}}
```"""
"""Measured with the recommended model: told more (when to answer in words), it says that it would call instead of calling."""
_GUIDANCE = {
    "x-guidance": {
        "whitespace_flexible": False,
        "item_separator": ", ",
        "key_separator": ": ",
        "lenient": True,
    }
}
"""JSON on one line: indentation is a third of what a model writes. Keywords that are not known are left to the check.

https://github.com/guidance-ai/llguidance/blob/main/docs/json_schema.md
"""


class Offer(NamedTuple):
    """The tools that may be called in an answer: `must` if one has to be, `several` if more than one may be."""

    tools: tuple[Mapping[str, Json], ...]
    must: bool = False
    several: bool = True

    def told(self, messages: Sequence[Message]) -> list[Message]:
        """The messages with the tools in the first of them, and with calls and results as blocks."""
        listed = "\n".join(json.dumps(dict(tool), ensure_ascii=False) for tool in self.tools)
        rules = SystemMessage(_RULES.format(listed=listed))
        first = messages[0] if messages else None
        if isinstance(first, SystemMessage):
            rules, messages = SystemMessage(f"{first.content}\n\n{rules.content}"), messages[1:]
        return [rules, *_told(messages)]

    def grammar(self, answer: Mapping[str, Json] | None = None) -> str:
        """What the answer is held to, for llguidance; one without a call to the schema `answer`, if there is one."""
        names = [
            json.dumps(f'{{"name": {json.dumps(tool["name"])}, "arguments": ') + f' args{place} "}}"'
            for place, tool in enumerate(self.tools)
        ]
        words = "" if answer is not None else "words "
        wanted = [f"{words}calls"] if not self.must else ["calls"]
        if not self.must:
            wanted.append("answer" if answer is not None else "words")
        lines = [
            "%llguidance {}",
            f"start: {' | '.join(wanted)}",
            'calls: call ("\\n\\n" call)*' if self.several else "calls: call",
            f'call: "```json\\n" ( {" | ".join(names)} ) "\\n```"',
            "words: /([^`]|`[^`]|``[^`])*`{0,2}/",
            *(f"args{place}: {json_rule(tool['parameters'])}" for place, tool in enumerate(self.tools)),
        ]
        return "\n".join([*lines, f"answer: {json_rule(answer)}"] if answer is not None else lines)


def offered(tools: Sequence[Mapping[str, Json]] | None, options: Mapping[str, Json]) -> Offer | None:
    """What may be called by `tool_choice` and `parallel_tool_calls`; None where nothing may. Raises `BadInput`."""
    choice = options.get("tool_choice") or "auto"
    if not tools or choice == "none":
        return None
    several = options.get("parallel_tool_calls") is not False
    if choice in ("auto", "required"):
        return Offer(tuple(tools), choice == "required", several)
    function = choice.get("function") if isinstance(choice, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    named = tuple(tool for tool in tools if tool["name"] == name)
    if not named:
        known = ", ".join(str(tool["name"]) for tool in tools)
        raise BadInput(
            f"tool_choice is auto, required, none, or the function of a tool ({known}), not {shorten(repr(choice), 80)}"
        )
    return Offer(named, True, several)


def json_rule(schema: Mapping[str, Json]) -> str:
    """JSON of this schema on one line, as part of a grammar for llguidance."""
    return f"%json {json.dumps({**schema, **_GUIDANCE})}"


def _told(messages: Iterable[Message]) -> list[Message]:
    """Calls and results in words; results that follow each other are one message, for templates want turns."""
    told: list[Message] = []
    gave = False
    for message in messages:
        if isinstance(message, ToolMessage):
            said = f"{message.name or 'The tool'} gave:\n{message.content}"
            told[-1:] = (
                [HumanMessage(f"{told[-1].content}\n\n{said}")] if gave else [*told[-1:], HumanMessage(said)]
            )
        else:
            told.append(_in_blocks(message) if isinstance(message, AIMessage) else message)
        gave = isinstance(message, ToolMessage)
    return told


def _in_blocks(message: AIMessage) -> AIMessage:
    calls = [(call.name, json.dumps(dict(call.args), ensure_ascii=False)) for call in message.tool_calls]
    calls += [(call.name, call.text) for call in message.invalid_calls]
    blocks = [f'```json\n{{"name": {json.dumps(name)}, "arguments": {args}}}\n```' for name, args in calls]
    content = "\n\n".join([message.content.strip(), *blocks] if message.content.strip() else blocks)
    return replace(message, content=content, tool_calls=(), invalid_calls=())


class Blocks:
    """Reads an answer as it arrives: its words at once, its calls at the end."""

    def __init__(self) -> None:
        self._held = ""
        """What is not told yet: white space and backticks with which blocks may begin, or the blocks."""

    def heard(self, chunk: AIMessageChunk) -> AIMessageChunk:
        """What of the next part is words; an answer has ended where it has a reason to."""
        text = self._held + chunk.content
        at = text.find(_FENCE)
        begins = len(text.rstrip("`").rstrip()) if at < 0 else len(text[:at].rstrip())
        words, self._held = text[:begins], text[begins:]
        if not chunk.finish_reason:
            return replace(chunk, content=words)
        rest, calls = _read(self._held)
        self._held = ""
        cut = chunk.finish_reason == "length"
        reason = "tool_calls" if calls and not cut else chunk.finish_reason
        return replace(chunk, content=words + rest, calls=calls, finish_reason=reason)

    def whole(self, message: AIMessage) -> AIMessage:
        """An answer that came at once."""
        heard = self.heard(
            AIMessageChunk(message.content, (), message.usage, message.finish_reason or "stop")
        )
        return replace(heard.message(), id=message.id)


def _read(text: str) -> tuple[str, tuple[ToolCallChunk, ...]]:
    """The calls in a text that begins with a fence; all of it as words where one of its blocks is no call."""
    found = [_NAME.match(block) for block in _BLOCK.findall(text)]
    if not found or not all(found) or _BLOCK.sub("", text).strip():
        return text.rstrip(), ()
    calls = []
    for index, match in enumerate(found):
        assert match is not None
        args = (match[2] or "").rstrip()
        calls.append(ToolCallChunk(index, "", match[1], args[:-1] if args.endswith("}") else args))
    return "", tuple(calls)
