"""A message that arrives in parts: `chunk + chunk` until it is whole, then `.message()`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from .chat import ChatModel, around, refuse_if_forbidden, turn_of
from .history import read_call
from .messages import AIMessage, InvalidToolCall, Message, ToolCall, add_usage

__all__ = ["AIMessageChunk", "ToolCallChunk", "ask_streaming", "stream_of"]


@dataclass(frozen=True)
class ToolCallChunk:
    """A part of a call; parts with the same `index` belong together, their `text` is JSON in the end."""

    index: int
    id: str = ""
    name: str = ""
    text: str = ""

    def __add__(self, other: ToolCallChunk) -> ToolCallChunk:
        return ToolCallChunk(self.index, self.id or other.id, self.name + other.name, self.text + other.text)


@dataclass(frozen=True)
class AIMessageChunk:
    """A part of an answer. Usage is summed over the parts; the last `finish_reason` that is set holds."""

    content: str = ""
    calls: tuple[ToolCallChunk, ...] = ()
    usage: Mapping[str, float] | None = None
    finish_reason: str = ""
    id: str | None = None

    def __add__(self, other: AIMessageChunk) -> AIMessageChunk:
        calls = {call.index: call for call in self.calls}
        for call in other.calls:
            calls[call.index] = calls[call.index] + call if call.index in calls else call
        return AIMessageChunk(
            self.content + other.content,
            tuple(calls[index] for index in sorted(calls)),
            add_usage((self.usage, other.usage)),
            other.finish_reason or self.finish_reason,
            self.id or other.id,
        )

    @property
    def begun(self) -> bool:
        """Whether there is something in it that can be heard."""
        return bool(self.content or self.calls)

    def message(self) -> AIMessage:
        """The whole message; a stream that ended without a reason was cut off (`length`)."""
        read = [read_call(call.id, call.name, call.text) for call in self.calls]
        return AIMessage(
            self.content,
            usage=self.usage,
            finish_reason=self.finish_reason or "length",
            tool_calls=tuple(call for call in read if isinstance(call, ToolCall)),
            invalid_calls=tuple(call for call in read if isinstance(call, InvalidToolCall)),
            id=self.id,
        )


async def stream_of(
    model: ChatModel, messages: Sequence[Message], **options: Any
) -> AsyncGenerator[AIMessageChunk, None]:
    """What the model says, part by part, once it is its turn; of a model without `astream`, one part with all of it."""
    async with turn_of(model), aclosing(_parts_of(model, messages, options)) as parts:
        async for part in parts:
            yield part


async def _parts_of(
    model: ChatModel, messages: Sequence[Message], options: Mapping[str, Any]
) -> AsyncGenerator[AIMessageChunk, None]:
    astream = getattr(model, "astream", None)
    if astream is None:
        yield _whole(await model.agenerate(messages, **options))
        return
    stream = astream(messages, **options)
    try:
        async for chunk in stream:
            yield chunk
    finally:
        if hasattr(stream, "aclose"):
            await stream.aclose()


async def ask_streaming(
    model: ChatModel, messages: Sequence[Message], heard: Callable[[AIMessageChunk], None], **options: Any
) -> AIMessage:
    """The model's answer, of which `heard` is told each part; options that are None are not passed."""
    refuse_if_forbidden(model)
    whole = AIMessageChunk()
    given = {name: value for name, value in options.items() if value is not None}
    async with turn_of(model) as waited:
        with around(model, messages, waited) as answered:
            async with aclosing(_parts_of(model, messages, given)) as stream:
                async for chunk in stream:
                    heard(chunk)
                    whole = whole + chunk
            answer = whole.message()
            answered(answer)
    return answer


def _whole(message: AIMessage) -> AIMessageChunk:
    import json

    given = [(call.id, call.name, json.dumps(dict(call.args))) for call in message.tool_calls]
    given += [(call.id, call.name, call.text) for call in message.invalid_calls]
    calls = tuple(ToolCallChunk(index, *call) for index, call in enumerate(given))
    return AIMessageChunk(message.content, calls, message.usage, message.finish_reason, message.id)
