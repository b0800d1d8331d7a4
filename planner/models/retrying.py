"""A model that is asked again: for what neither a run nor a planner asks."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from ...policies.classification import classify
from ...policies.effect import Effect
from ...policies.errors import BadInput
from ...policies.retry import Retry, wait_before
from ...policies.spelling import spelled
from .chat import ChatModel, ask_model, expect_models, is_real, may_wait, refuse_if_forbidden
from .chunks import AIMessageChunk, stream_of
from .messages import AIMessage, Message

__all__ = ["Retrying"]


@spelled
class Retrying:
    """Asks again where that may help, by kind of failure, with full jitter and never before Retry-After: inside `Fallback`
    the next model is asked instead of waiting for that.

    The rounds of a loop, the first plan and re-plans are repeated by `Policies.retry` already: there the attempts would
    multiply. Once a part of a streamed
    answer was heard, it is not asked again.
    """

    asks_others = True

    def __init__(self, model: ChatModel, retry: Retry | None = None) -> None:
        expect_models(model)
        self.model = model
        self.retry = retry or Retry()

    @property
    def real(self) -> bool:
        """Whether the model is a real one."""
        return is_real(self.model)

    async def agenerate(self, messages: Sequence[Message], **options: Any) -> AIMessage:
        """The answer of the first attempt that gives one; else what the last raises."""
        attempt = 1
        while True:
            try:
                return await ask_model(self.model, messages, **options)
            except Exception as error:
                await self._rest(attempt, error)
            attempt += 1

    async def astream(
        self, messages: Sequence[Message], **options: Any
    ) -> AsyncGenerator[AIMessageChunk, None]:
        """The answer of the first attempt that begins to give one."""
        refuse_if_forbidden(self.model)
        attempt = 1
        while True:
            begun = False
            try:
                async with aclosing(stream_of(self.model, messages, **options)) as stream:
                    async for chunk in stream:
                        begun = begun or chunk.begun
                        yield chunk
                return
            except Exception as error:
                if begun:
                    raise
                await self._rest(attempt, error)
            attempt += 1

    async def _rest(self, attempt: int, error: Exception) -> None:
        """Wait before the next attempt; raises the failure where there is to be none."""
        import anyio

        failure = classify(error)
        dice = random.random()
        wait = wait_before(self.retry, attempt, failure=failure, effect=Effect.READS, dice=dice)
        other = failure.retry_after is not None and not may_wait()
        if wait is None or other or isinstance(error, BadInput):
            raise error
        await anyio.sleep(wait)

    def __repr__(self) -> str:
        return f"<Retrying {self.model!r}>"
