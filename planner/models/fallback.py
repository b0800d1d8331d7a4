"""A model that asks another where the first gives no answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from ...policies.errors import BadInput
from ...policies.spelling import spelled
from .chat import ChatModel, ask_model, expect_models, is_real, passed_over, refuse_if_forbidden
from .chunks import AIMessageChunk, stream_of
from .messages import AIMessage, Message

__all__ = ["Fallback"]


@spelled
class Fallback:
    """Asks the models in this order until one answers: `Fallback(large, small)`.

    Whatever a model raises leads to the next, except a mistake of the caller's (`BadInput`); so does a rest that its service
    asked for, or a rate of yours that is used up: only the last is waited for. Where all fail, the failure
    of the last is raised, with those before it as notes. Once a part of a streamed answer was heard, there is no other.
    """

    asks_others = True

    def __init__(self, first: ChatModel, *others: ChatModel) -> None:
        expect_models(first, *others)
        self.models = (first, *others)

    @property
    def real(self) -> bool:
        """Whether any of them is a real model."""
        return any(map(is_real, self.models))

    async def agenerate(self, messages: Sequence[Message], **options: Any) -> AIMessage:
        """The answer of the first that gives one."""
        failed: list[Exception] = []
        for model in self.models:
            try:
                with passed_over(unless=model is self.models[-1]):
                    return await ask_model(model, messages, **options)
            except Exception as error:
                self._next(failed, error)
        raise AssertionError("the last failure is raised")

    async def astream(
        self, messages: Sequence[Message], **options: Any
    ) -> AsyncGenerator[AIMessageChunk, None]:
        """The answer of the first that begins to give one."""
        failed: list[Exception] = []
        for model in self.models:
            refuse_if_forbidden(model)
            begun = False
            try:
                with passed_over(unless=model is self.models[-1]):
                    async with aclosing(stream_of(model, messages, **options)) as stream:
                        async for chunk in stream:
                            begun = begun or chunk.begun
                            yield chunk
                return
            except Exception as error:
                if begun:
                    raise
                self._next(failed, error)

    def _next(self, failed: list[Exception], error: Exception) -> None:
        """Keep the failure; raises it where no model is left to be asked."""
        if not isinstance(error, BadInput) and len(failed) + 1 < len(self.models):
            failed.append(error)
            return
        for model, before in zip(self.models, failed, strict=False):
            error.add_note(f"before it, {model!r} failed: {before}")
        raise error

    def __repr__(self) -> str:
        return f"<Fallback {', '.join(map(repr, self.models))}>"
