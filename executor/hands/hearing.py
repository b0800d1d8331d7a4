"""Asking the model of a dialogue, and reading what hooks around it want: the hands' side of `rounds.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...planner.models.chat import ChatModel, ask_model
from ...planner.models.chunks import AIMessageChunk, ask_streaming
from ...planner.models.messages import Message
from ...planner.models.window import Window
from ...planner.react import round_messages, tool_specs
from ...registry.tools import Tool
from ...registry.values import to_plain
from ..mind.budget import plain_usage
from ..mind.state import Dialogue

__all__ = ["hear", "heard_in"]

Listener = Callable[[AIMessageChunk], None]


def heard_in(dialogue: Dialogue) -> Sequence[Message]:
    """What the model hears in this round."""
    said = dialogue.history if dialogue.heard_instead is None else dialogue.heard_instead
    return round_messages(said, last=dialogue.last, why=dialogue.notice)


async def hear(
    model: ChatModel,
    dialogue: Dialogue,
    tools: Mapping[str, Tool],
    *,
    window: Window | None = None,
    listener: Listener | None = None,
) -> dict[str, Any]:
    """The model's answer in this round, as the fields of ModelAnswered. Raises what the model raises."""
    reads = bool(dialogue.large) and not dialogue.last
    offered = tool_specs((tools[name] for name in dialogue.tools), reads=reads)
    options = {"tools": offered or None, "response_format": dialogue.response_format}
    messages = heard_in(dialogue) if window is None else await window.fit(heard_in(dialogue))
    if listener is None:
        answer = await ask_model(model, messages, **options)
    else:
        answer = await ask_streaming(model, messages, listener, **options)
    return {"said": to_plain(answer.to_json()), "usage": plain_usage(answer.usage)}
