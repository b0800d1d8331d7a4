"""What of a long history a model hears, within a bound: the policy is stated, nothing is cut in silence.

    1  the system message, and messages that are pinned, always
    2  the newest messages, whole, a call always with its answers
    3  older ones with results cut to a preview that says how to get the rest
    4  what does not fit any more: one message that says how much is left out, or a summary of it

Tokens are counted by `count`; without one, as characters / 4, which is near the truth for English and short for others.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...policies.errors import BadInput
from .messages import AIMessage, HumanMessage, Message, SystemMessage, ToolMessage

__all__ = ["Window"]


def _characters(text: str) -> int:
    return len(text) // 4 + 1


@dataclass(frozen=True)
class Window:
    """A bound on what a model hears: `tokens` in all, of which the newest `recent` messages come first and whole.

    `pinned` are ids of messages that always stay. An older result is cut to `preview` characters. `summarise(messages)`
    (sync or async) gives the text that stands for what does not fit; without it a sentence says how much that is. The
    history itself is never changed.
    """

    tokens: int
    recent: int = 8
    preview: int = 400
    pinned: Collection[str] = ()
    count: Callable[[str], int] = _characters
    summarise: Callable[[list[Message]], str | Awaitable[str]] | None = None

    def __post_init__(self) -> None:
        for name in ("tokens", "recent", "preview"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise BadInput(f"{name} of a Window is a number from 1, not {value!r}")

    async def fit(self, history: Sequence[Message]) -> Sequence[Message]:
        """The history as the model is to hear it; the very same where all of it fits.

        It is read from its end and no further than the bound, so a round costs the same however long the talk is.
        """
        kept, first = self._newest(history)
        if first == 0:
            return kept
        always = [m for m in history[:first] if isinstance(m, SystemMessage) or m.id in self.pinned]
        left: list[Message] = [
            m for m in history[:first] if not (isinstance(m, SystemMessage) or m.id in self.pinned)
        ]
        if not left:
            return [*always, *kept]
        return [*always, HumanMessage(await self._instead(left)), *kept]

    def _newest(self, history: Sequence[Message]) -> tuple[Sequence[Message], int]:
        """The newest messages that fit, and where they begin in the history."""
        pinned = [m for m in history if m.id in self.pinned] if self.pinned else []
        room = self.tokens - sum(map(self.size, (*_system(history), *pinned)))
        kept: list[Message] = []
        first = len(history)
        for start, exchange in _exchanges(history):
            old = len(history) - start > self.recent
            shown = [self._cut(message) for message in exchange] if old else exchange
            cost = sum(map(self.size, shown))
            if cost > room and kept:
                break
            room -= cost
            kept[:0] = shown
            first = start
        whole = first == 0 and len(kept) == len(history) and all(map(_same, kept, history))
        return (history, 0) if whole else (kept, first)

    def size(self, message: Message) -> int:
        """Tokens of one message, its calls included."""
        said = message.content
        if isinstance(message, AIMessage):
            said += "".join(f"{call.name}{dict(call.args)}" for call in message.tool_calls)
        return self.count(said)

    def _cut(self, message: Message) -> Message:
        if not isinstance(message, ToolMessage) or len(message.content) <= self.preview:
            return message
        more = len(message.content) - self.preview
        return replace(
            message,
            content=f"{message.content[: self.preview]}… ({more} more characters; call the tool again for them)",
        )

    async def _instead(self, left: list[Message]) -> str:
        if self.summarise is None:
            return f"({len(left)} earlier messages are left out here)"
        said: Any = self.summarise(left)
        text = await said if inspect.isawaitable(said) else said
        if not isinstance(text, str):
            raise BadInput(f"`summarise` gives text, not {type(text).__name__}")
        return f"Summary of {len(left)} earlier messages: {text}"


def _system(history: Sequence[Message]) -> Iterable[Message]:
    return history[:1] if history and isinstance(history[0], SystemMessage) else ()


def _exchanges(history: Sequence[Message]) -> Iterable[tuple[int, list[Message]]]:
    """Messages that belong together (a call with its answers), from the end, each with its place; no system message."""
    end = len(history)
    while end > 0:
        start = end - 1
        while start > 0 and isinstance(history[start], ToolMessage):
            start -= 1
        if isinstance(history[start], SystemMessage) and start == 0:
            yield 0, list(history[0:end])
            return
        yield start, list(history[start:end])
        end = start


def _same(kept: Message, old: Message) -> bool:
    return kept is old
