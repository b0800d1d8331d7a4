"""Histories: what people and services write as messages is read, and new messages join the old ones by their ids.

"hello"                                              a HumanMessage
{"role": "user", "content": "hello"}                 OpenAI's shape, with `tool_calls` and `function`
{"role": "user", "content": [{"type": "text", …}]}   Anthropic's shape, with `tool_use` and `tool_result`
("system", "be brief")                               role and text
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from ...policies.errors import BadInput
from ...policies.text import shorten, with_article
from ..documents import read_json
from ..findings import PlanUnreadable
from .messages import (
    AIMessage,
    HumanMessage,
    InvalidToolCall,
    Message,
    RemoveMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    message_from_json,
)

__all__ = ["Messages", "add_messages", "messages_of", "read_call", "spoken"]

Json: TypeAlias = Any
Messages: TypeAlias = "str | Message | Mapping[str, Any] | tuple[str, str] | Sequence[Any]"
"""Whatever `messages_of` reads."""

_OURS = (SystemMessage, HumanMessage, AIMessage, ToolMessage, RemoveMessage)
_ROLES = {"human": "user", "ai": "assistant", "developer": "system", "function": "tool", "model": "assistant"}
"""Other services' words for our roles."""


def add_messages(
    old: Messages, new: Messages, *, new_id: Callable[[], str] = lambda: secrets.token_hex(8)
) -> list[Message]:
    """The old history with the new messages: one whose id is there already takes its place, others follow.

    Messages without an id get one. A `RemoveMessage` takes the one with its id out; where there is none, `BadInput`.
    Both may be all that `messages_of` reads; nothing handed in is changed.
    """
    history = {message.id: message for message in map(_named(new_id), spoken(old))}
    for message in messages_of(new):
        if isinstance(message, RemoveMessage):
            if message.id not in history:
                raise BadInput(f"no message {shorten(repr(message.id), 60)} is in this history to be removed")
            del history[message.id]
        else:
            named = _named(new_id)(message)
            history[named.id] = named
    return list(history.values())


def spoken(said: Messages) -> list[Message]:
    """What was said, as messages that a model can hear. Raises `BadInput` for a removal, too: that is none."""
    messages = messages_of(said)
    for message in messages:
        if isinstance(message, RemoveMessage):
            raise BadInput(
                f"the removal of {shorten(repr(message.id), 60)} is nothing that can be said; "
                "add_messages(history, [...]) takes a message out of a history"
            )
    return messages


def _named(new_id: Callable[[], str]) -> Callable[[Message], Message]:
    return lambda message: message if message.id is not None else replace(message, id=new_id())


def messages_of(said: Messages) -> list[Message]:
    """What was said, as messages. Raises `BadInput` for what is none, saying where."""
    if isinstance(said, (str, Mapping, *_OURS)) or _is_pair(said):
        return list(_read(said, "the message"))
    if isinstance(said, Sequence) and not isinstance(said, bytes):
        return [message for place, one in enumerate(said) for message in _read(one, f"message {place}")]
    raise BadInput(
        f"messages are text, a message, a dict with a role, or a list of them, not {shorten(repr(said), 60)}"
    )


def _is_pair(said: object) -> bool:
    return isinstance(said, tuple) and len(said) == 2 and all(isinstance(part, str) for part in said)


def _read(said: Any, where: str) -> Iterator[Message]:
    if isinstance(said, _OURS):
        yield said
    elif isinstance(said, str):
        yield HumanMessage(said)
    elif _is_pair(said):
        yield from _of_document({"role": said[0], "content": said[1]}, where)
    elif isinstance(said, Mapping):
        yield from _of_document(said, where)
    else:
        raise BadInput(
            f"{where} is {with_article(type(said).__name__)}; write text, a message or a dict with a role"
        )


def _of_document(document: Mapping[str, Any], where: str) -> Iterator[Message]:
    role = document.get("role")
    role = _ROLES.get(role, role) if isinstance(role, str) else role
    content = document.get("content")
    if role == "remove":
        yield message_from_json({"role": role, "id": document.get("id")})
    elif isinstance(content, list):
        yield from _of_blocks(role, content, document, where)
    elif content is None or isinstance(content, str):
        yield _of_text(role, content or "", document, where)
    else:
        raise BadInput(
            f"the content of {where} is {with_article(type(content).__name__)}; it is text or a list of parts"
        )


def _of_text(role: Any, content: str, document: Mapping[str, Any], where: str) -> Message:
    id_ = document.get("id")
    match role:
        case "system":
            return SystemMessage(content, id=id_)
        case "user":
            return HumanMessage(content, id=id_)
        case "assistant":
            return _answer(content, document, where)
        case "tool":
            called = document.get("tool_call_id") or document.get("name")
            if not isinstance(called, str):
                raise BadInput(f"{where} answers a call and does not say which: give tool_call_id")
            name, failed = str(document.get("name") or ""), document.get("failed") is True
            return ToolMessage(content, called, name=name, failed=failed, id=id_)
        case _:
            said = shorten(repr(role), 40)
            raise BadInput(f"{where} has the role {said}; there are system, user, assistant and tool")


def _answer(content: str, document: Mapping[str, Any], where: str) -> AIMessage:
    """An assistant's message in our form or in OpenAI's."""
    read: list[ToolCall | InvalidToolCall] = [
        InvalidToolCall(**call) for call in document.get("invalid_calls") or ()
    ]
    for number, call in enumerate(document.get("tool_calls") or ()):
        if not isinstance(call, Mapping):
            raise BadInput(f"call {number} of {where} is {with_article(type(call).__name__)}, not an object")
        function = call.get("function")
        id_ = str(call.get("id") or "")
        if isinstance(function, Mapping):
            read.append(read_call(id_, function.get("name"), function.get("arguments")))
        else:
            read.append(read_call(id_, call.get("name"), call.get("args")))
    finish = document.get("finish_reason") or ("tool_calls" if read else "stop")
    return AIMessage(
        content,
        usage=document.get("usage"),
        finish_reason=finish,
        tool_calls=tuple(call for call in read if isinstance(call, ToolCall)),
        invalid_calls=tuple(call for call in read if isinstance(call, InvalidToolCall)),
        id=document.get("id"),
    )


def _of_blocks(role: Any, blocks: list[Any], document: Mapping[str, Any], where: str) -> Iterator[Message]:
    """Anthropic's parts: text, calls, and results, each of which is a message of its own."""
    texts: list[str] = []
    calls: list[dict[str, Any]] = []
    for number, block in enumerate(blocks):
        kind = block.get("type") if isinstance(block, Mapping) else None
        if isinstance(block, str):
            texts.append(block)
        elif kind in ("text", "input_text", "output_text"):
            texts.append(str(block["text"]))
        elif kind == "tool_use":
            calls.append({"id": block.get("id"), "name": block.get("name"), "args": block.get("input")})
        elif kind == "tool_result":
            yield _result(block, where)
        elif kind not in ("thinking", "redacted_thinking"):
            raise BadInput(
                f"part {number} of {where} is {shorten(repr(kind), 40)}; text, tool_use and tool_result can be read"
            )
    if texts or calls or not blocks:
        rest = {name: value for name, value in document.items() if name != "tool_calls"}
        yield _of_text(role, "".join(texts), {**rest, "tool_calls": calls} if calls else document, where)


def _result(block: Mapping[str, Any], where: str) -> ToolMessage:
    content = block.get("content")
    if isinstance(content, list):
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    id_ = block.get("tool_use_id")
    if not isinstance(id_, str):
        raise BadInput(f"a result in {where} does not say which call it answers: give tool_use_id")
    return ToolMessage("" if content is None else str(content), id_, failed=block.get("is_error") is True)


def read_call(id: str, name: object, arguments: object) -> ToolCall | InvalidToolCall:
    """A call as a service writes it: the arguments as an object, or as the JSON text of one ("" is none)."""
    named = name if isinstance(name, str) else ""
    if arguments is None or arguments == "":
        arguments = {}
    if isinstance(arguments, Mapping):
        problem = "" if named else "the call names no tool"
        return InvalidToolCall(id, named, "", problem) if problem else ToolCall(id, named, dict(arguments))
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    read, problem = _object_in(text)
    if not named:
        problem = "the call names no tool"
    return InvalidToolCall(id, named, text, problem) if problem else ToolCall(id, named, read)


def _object_in(text: str) -> tuple[dict[str, Json], str]:
    """The JSON object in a text, or what keeps it from being one."""
    try:
        value = read_json(text)
    except PlanUnreadable as error:
        return {}, f"the arguments are no JSON: {error.findings[0].message}"
    if not isinstance(value, dict):
        return {}, f"the arguments must be a JSON object, not {shorten(text, 40)}"
    return value, ""
