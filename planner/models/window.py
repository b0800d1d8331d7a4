"""What of a long history a model hears, within a bound: the policy is stated, nothing is cut in silence.

    1  the system messages it begins with, and messages that are pinned, always, a call always with its answers
    2  the newest messages, whole
    3  older ones with results cut to a preview that says how to get the rest
    4  what does not fit any more: one message that says how much is left out, or a summary of it

What is left out grows by `recent` messages at a time, so that for some rounds the same is heard (which a service may
keep) and the same summary serves.

Tokens are counted by `count`; without one, as characters / 4, which is near the truth for English and short for others.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...policies.errors import BadInput
from ...policies.spelling import spelled
from ...policies.text import count
from .messages import AIMessage, HumanMessage, Message, SystemMessage, ToolMessage

__all__ = ["Window"]

_KEPT = 64
"""So many summaries are kept."""


def _characters(text: str) -> int:
    return len(text) // 4 + 1


@spelled
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
    _made: dict[tuple[str, ...], str] = field(default_factory=dict, init=False, repr=False, compare=False)
    """The last summaries, by what was said in what they stand for."""

    def __post_init__(self) -> None:
        for name in ("tokens", "recent", "preview"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise BadInput(f"{name} of a Window is a number from 1, not {value!r}")

    async def fit(self, history: Sequence[Message]) -> Sequence[Message]:
        """The history as the model is to hear it; the very same where all of it fits.

        It is read from its end and no further than the bound, so a round costs the same however long the talk is,
        unless messages are pinned or a summary is wanted.
        """
        begins = _beginning(history)
        pinned = self._pinned(history, begins)
        kept, first = self._newest(history, begins, pinned)
        if first == begins and all(map(_same, kept, history[begins:])):
            return history
        before = [message for start, exchange in pinned if start < first for message in exchange]
        if len(before) == first - begins:
            return [*history[:begins], *before, *kept]
        instead = HumanMessage(await self._instead(history, begins, first, before))
        return [*history[:begins], *before, instead, *kept]

    def _pinned(self, history: Sequence[Message], begins: int) -> list[tuple[int, list[Message]]]:
        """What is pinned, a call with its answers, each with its place."""
        if not self.pinned:
            return []
        found = [
            (start, exchange)
            for start, exchange in _exchanges(history, begins)
            if any(message.id in self.pinned for message in exchange)
        ]
        return found[::-1]

    def _newest(
        self, history: Sequence[Message], begins: int, pinned: list[tuple[int, list[Message]]]
    ) -> tuple[list[Message], int]:
        """The newest messages that fit beside what always stays, and where they begin in the history."""
        always = dict(pinned)
        room = self.tokens - sum(map(self.size, history[:begins]))
        room -= sum(self.size(message) for exchange in always.values() for message in exchange)
        kept: list[tuple[int, list[Message]]] = []
        for start, exchange in _exchanges(history, begins):
            old = len(history) - start > self.recent and start not in always
            shown = [self._cut(message) for message in exchange] if old else exchange
            cost = 0 if start in always else sum(map(self.size, shown))
            if cost > room and kept:
                break
            room -= cost
            kept.append((start, shown))
        first = kept[-1][0] if kept else begins
        whole_blocks = begins + -(-(first - begins) // self.recent) * self.recent
        while len(kept) > 1 and kept[-1][0] < whole_blocks:
            kept.pop()
        return [message for _, shown in reversed(kept) for message in shown], kept[-1][0] if kept else begins

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

    async def _instead(
        self, history: Sequence[Message], begins: int, first: int, pinned: list[Message]
    ) -> str:
        if self.summarise is None:
            return f"({count(first - begins - len(pinned), 'earlier message is', 'earlier messages are')} left out here)"
        stays = set(map(id, pinned))
        left = [message for message in history[begins:first] if id(message) not in stays]
        key = tuple(message.content for message in left)
        if key not in self._made:
            said: Any = self.summarise(left)
            text = await said if inspect.isawaitable(said) else said
            if not isinstance(text, str):
                raise BadInput(f"`summarise` gives text, not {type(text).__name__}")
            self._made[key] = text
            if len(self._made) > _KEPT:
                del self._made[next(iter(self._made))]
        text = self._made[key]
        return f"Summary of {count(len(left), 'earlier message')}: {text}"


def _beginning(history: Sequence[Message]) -> int:
    """How many system messages a history begins with."""
    begins = 0
    while begins < len(history) and isinstance(history[begins], SystemMessage):
        begins += 1
    return begins


def _exchanges(history: Sequence[Message], begins: int) -> Iterable[tuple[int, list[Message]]]:
    """Messages that belong together (a call with its answers), from the end, each with its place."""
    end = len(history)
    while end > begins:
        start = end - 1
        while start > begins and isinstance(history[start], ToolMessage):
            start -= 1
        yield start, list(history[start:end])
        end = start


def _same(kept: Message, old: Message) -> bool:
    return kept is old
