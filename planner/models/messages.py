"""What is said to a model and what it says back, in no vendor's form.

SystemMessage   the rules, the same for a whole run
HumanMessage    what is asked, and what came back
AIMessage       the model's answer: text, calls of tools, what it cost and why it ended
ToolMessage     what a call gave, answering it by its id
RemoveMessage   takes the message with this id out of a history (`add_messages`); no model sees it

`to_json` and `message_from_json` lose nothing. What a message is stands in its `role`, at one place; the text and the
arguments in it are data and never looked at, so data that looks like a message stays data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from ...policies.errors import BadInput, expect
from ...policies.spelling import spelled
from ...policies.text import did_you_mean, shorten

__all__ = [
    "AIMessage",
    "HumanMessage",
    "InvalidToolCall",
    "Message",
    "RemoveMessage",
    "SystemMessage",
    "ToolCall",
    "ToolMessage",
    "add_usage",
    "message_from_json",
]

Json: TypeAlias = Any
Usage: TypeAlias = "Mapping[str, float]"


@spelled
@dataclass(frozen=True)
class ToolCall:
    """A call that a model wants made: `args` is a JSON object; its answer is the ToolMessage with this `id`."""

    id: str
    name: str
    args: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        expect(str, self.id, "the id of a tool call", 'give "" where there is none')
        expect(str, self.name, "the name in a tool call")
        expect(Mapping, self.args, "what a tool is called with", "InvalidToolCall is for other arguments")

    def to_json(self) -> dict[str, Json]:
        """`{"id": …, "name": …, "args": {…}}`."""
        return {"id": self.id, "name": self.name, "args": dict(self.args)}


@dataclass(frozen=True)
class InvalidToolCall:
    """A call whose arguments are no JSON object: `text` is what the model wrote, `error` what is wrong with it."""

    id: str
    name: str
    text: str
    error: str

    def to_json(self) -> dict[str, Json]:
        """`{"id": …, "name": …, "text": …, "error": …}`."""
        return {"id": self.id, "name": self.name, "text": self.text, "error": self.error}


@spelled
@dataclass(frozen=True)
class SystemMessage:
    """The rules a model answers by."""

    content: str
    id: str | None = None
    role: ClassVar[str] = "system"

    def to_json(self) -> dict[str, Json]:
        """`{"role": …, "content": …}`, and the id if it has one."""
        return _document(self)


@spelled
@dataclass(frozen=True)
class HumanMessage:
    """What is asked of a model."""

    content: str
    id: str | None = None
    role: ClassVar[str] = "user"

    def to_json(self) -> dict[str, Json]:
        """`{"role": …, "content": …}`, and the id if it has one."""
        return _document(self)


@spelled
@dataclass(frozen=True)
class AIMessage:
    """A model's answer.

    `usage` counts tokens (`input_tokens`, `output_tokens`) and may say `cost`; None where the model does not say.
    `finish_reason` is `stop` for a complete answer, `tool_calls` where calls are to be made and `length` for one that
    was cut off; other words are the model's own.
    """

    content: str
    usage: Usage | None = None
    finish_reason: str = "stop"
    tool_calls: tuple[ToolCall, ...] = ()
    invalid_calls: tuple[InvalidToolCall, ...] = ()
    id: str | None = None
    role: ClassVar[str] = "assistant"

    def to_json(self) -> dict[str, Json]:
        """`{"role": …, "content": …}` and what else it says."""
        document = _document(self)
        if self.usage is not None:
            document["usage"] = dict(self.usage)
        if self.finish_reason != "stop":
            document["finish_reason"] = self.finish_reason
        if self.tool_calls:
            document["tool_calls"] = [call.to_json() for call in self.tool_calls]
        if self.invalid_calls:
            document["invalid_calls"] = [call.to_json() for call in self.invalid_calls]
        return document


@spelled
@dataclass(frozen=True)
class ToolMessage:
    """What one call gave: `content` is its result as text, `failed` whether it is a failure."""

    content: str
    tool_call_id: str
    name: str = ""
    failed: bool = False
    id: str | None = None
    role: ClassVar[str] = "tool"

    def to_json(self) -> dict[str, Json]:
        """`{"role": "tool", "content": …, "tool_call_id": …}` and what else it says."""
        document = _document(self) | {"tool_call_id": self.tool_call_id}
        if self.name:
            document["name"] = self.name
        if self.failed:
            document["failed"] = True
        return document


@spelled
@dataclass(frozen=True)
class RemoveMessage:
    """Takes the message with this id out of a history."""

    id: str
    role: ClassVar[str] = "remove"
    content: ClassVar[str] = ""

    def to_json(self) -> dict[str, Json]:
        """`{"role": "remove", "id": …}`."""
        return {"role": self.role, "id": self.id}


Message: TypeAlias = SystemMessage | HumanMessage | AIMessage | ToolMessage | RemoveMessage

_KINDS: dict[str, type[Any]] = {
    kind.role: kind for kind in (SystemMessage, HumanMessage, AIMessage, ToolMessage, RemoveMessage)
}


def message_from_json(document: Mapping[str, Json]) -> Message:
    """The inverse of `to_json`. Raises `BadInput` for what no message gives."""
    role = document.get("role")
    kind = _KINDS.get(role) if isinstance(role, str) else None
    if kind is None:
        known = ", ".join(_KINDS)
        raise BadInput(
            f"a message has a role of {known}, not {shorten(repr(role), 40)}{did_you_mean(str(role), _KINDS)}"
        )
    fields = {name: value for name, value in document.items() if name != "role"}
    for name, made in (("tool_calls", ToolCall), ("invalid_calls", InvalidToolCall)):
        if name in fields:
            fields[name] = tuple(made(**call) for call in fields[name])
    try:
        return kind(**fields)  # type: ignore[no-any-return]
    except TypeError as error:
        raise BadInput(
            f"a message of the role {role!r} is not made of {', '.join(fields)}: {error}"
        ) from None


def add_usage(parts: Iterable[Usage | None]) -> dict[str, float] | None:
    """Usage summed by name; None where no part says anything."""
    total: dict[str, float] | None = None
    for part in parts:
        if part is not None:
            total = total or {}
            for name, count in part.items():
                total[name] = total.get(name, 0) + count
    return total


def _document(message: Any) -> dict[str, Json]:
    document = {"role": message.role, "content": message.content}
    if message.id is not None:
        document["id"] = message.id
    return document
