"""Asking the model of a dialogue, and reading what hooks around it want: the hands' side of `rounds.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ..planner.models.chat import ChatModel, ask_model
from ..planner.models.chunks import AIMessageChunk, ask_streaming
from ..planner.models.history import Messages, spoken
from ..planner.models.messages import AIMessage, Message
from ..planner.models.window import Window
from ..planner.react import round_messages, tool_specs
from ..policies.errors import BadInput
from ..registry.tools import Tool
from ..registry.values import to_plain
from .budget import plain_usage
from .state import Dialogue

__all__ = ["Keep", "hear", "heard_in", "hook_value"]

Listener = Callable[[AIMessageChunk], None]


class Keep(NamedTuple):
    """What a `before_model` hook gives whose messages are to stay in the history; else they are for this call only."""

    messages: Messages


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
    offered = [] if dialogue.last else tool_specs(tools[name] for name in dialogue.offered)
    options = {"tools": offered or None, "response_format": dialogue.response_format}
    messages = heard_in(dialogue) if window is None else await window.fit(heard_in(dialogue))
    if listener is None:
        answer = await ask_model(model, messages, **options)
    else:
        answer = await ask_streaming(model, messages, listener, **options)
    return {"message": to_plain(answer.to_json()), "usage": plain_usage(answer.usage)}


def hook_value(hook: str, said: Any, history: list[Message]) -> dict[str, Any] | None:
    """What a hook around the model wants instead, as plain JSON. Raises `BadInput` for what is neither.

    Messages that the history begins with are said by their number: most hooks add to it, and what they add is little.
    """
    if said is None or isinstance(said, bool | str):
        return None
    if hook == "before_model":
        keep, messages = isinstance(said, Keep), said.messages if isinstance(said, Keep) else said
        begins = _alike(messages, history)
        added = spoken(messages[begins:] if begins else messages)
        return {"begins": begins, "messages": to_plain([m.to_json() for m in added]), "keep": keep}
    if hook == "after_model":
        if not isinstance(said, AIMessage):
            raise BadInput(f"after_model gives an AIMessage or None, not {type(said).__name__}")
        return {"message": to_plain(said.to_json())}
    return None


def _alike(messages: Any, history: list[Message]) -> int:
    """How many messages a list has in common with the beginning of the history."""
    if not isinstance(messages, list):
        return 0
    if messages[: len(history)] == history:
        return len(history)
    pairs = enumerate(zip(messages, history, strict=False))
    return next(
        (place for place, (one, other) in pairs if one is not other), min(len(messages), len(history))
    )
