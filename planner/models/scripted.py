"""A model that says what its script says: for tests, examples and rehearsals without a real one."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from ...policies.errors import BadInput
from ...policies.spelling import spelled
from .messages import AIMessage, Message

__all__ = ["Answer", "ModelRequest", "ScriptEnded", "ScriptedModel"]

Answer: TypeAlias = (
    "str | AIMessage | Mapping[str, Any] | BaseException | Callable[[tuple[Message, ...]], Any]"
)
"""Text, a message, an object (sent as JSON), an exception to raise, or a function of the messages that gives one."""


class ModelRequest(NamedTuple):
    """What the model was asked: the messages and the options that were set."""

    messages: tuple[Message, ...]
    options: dict[str, Any]

    @property
    def text(self) -> str:
        """All that was said, for a test that searches it."""
        return "\n".join(message.content for message in self.messages)


class ScriptEnded(BadInput):
    """A scripted model was asked more often than its script holds answers."""

    def __init__(self, answers: int) -> None:
        held = "no answer" if answers == 0 else "1 answer" if answers == 1 else f"{answers} answers"
        super().__init__(
            f"the scripted model holds {held} and was asked once more; add an answer, or ask less (see `.requests`)"
        )
        self.answers = answers


@spelled
class ScriptedModel:
    """Gives its answers one after another and records in `requests` what it was asked.

    `ScriptedModel(['{"cannot_plan": "no tool sends e-mail"}'])`. Calls at the same time get different answers, in
    the order of the calls. Asked once more than it has answers, it raises `ScriptEnded`.
    """

    real = False

    def __init__(self, answers: Iterable[Answer] = ()) -> None:
        self.answers: tuple[Answer, ...] = tuple(answers)
        self.requests: list[ModelRequest] = []

    async def agenerate(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        response_format: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> AIMessage:
        """The next answer of the script."""
        options = {"tools": tools, "response_format": response_format, "config": config}
        turn = len(self.requests)
        asked = ModelRequest(tuple(messages), {k: v for k, v in options.items() if v is not None})
        self.requests.append(asked)
        if turn >= len(self.answers):
            raise ScriptEnded(len(self.answers))
        return await _said(self.answers[turn], asked.messages)

    def __repr__(self) -> str:
        return f"<ScriptedModel {len(self.requests)} of {len(self.answers)} answers given>"


async def _said(answer: Any, messages: tuple[Message, ...]) -> AIMessage:
    if isinstance(answer, BaseException):
        raise answer
    if isinstance(answer, AIMessage):
        return answer
    if isinstance(answer, str):
        return AIMessage(answer)
    if isinstance(answer, Mapping):
        return AIMessage(json.dumps(answer, ensure_ascii=False))
    if callable(answer):
        made = answer(messages)
        return await _said(await made if inspect.isawaitable(made) else made, messages)
    raise BadInput(
        f"a scripted answer is text, a message, an object, an exception or a function, not {answer!r}"
    )
