"""A model with a bound of its own, over all runs that share it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from ...policies.errors import BadInput
from ...policies.failures import ToolFailure
from ...policies.spelling import spelled
from .chat import ChatModel, ask_model, expect_models, is_real, refuse_if_forbidden
from .chunks import AIMessageChunk, stream_of
from .messages import AIMessage, Message

__all__ = ["Budgeted"]


@spelled
class Budgeted:
    """Asks no more once so many `calls`, `tokens` or so much `cost` are used: `Budgeted(model, tokens=1_000_000)`.

    The bound of one run is `Budget`; this one lives as long as this object, and `used` says how far it is. Tokens and cost
    are known afterwards only, so they are overshot at most by what was under way. A model that does not tell what a
    bound counts cannot be held to it: `BadInput`.
    """

    asks_others = True

    def __init__(
        self,
        model: ChatModel,
        *,
        calls: int | None = None,
        tokens: int | None = None,
        cost: float | None = None,
    ) -> None:
        bounds = {"calls": calls, "tokens": tokens, "cost": cost}
        self.bounds: dict[str, float] = {name: n for name, n in bounds.items() if n is not None}
        if not self.bounds or any(n < 0 for n in self.bounds.values()):
            raise BadInput("a bound is a number from 0 of calls, tokens or cost; give at least one")
        expect_models(model)
        self.model = model
        self.used: dict[str, float] = {"calls": 0, "tokens": 0, "cost": 0}

    @property
    def real(self) -> bool:
        """Whether the model is a real one."""
        return is_real(self.model)

    async def agenerate(self, messages: Sequence[Message], **options: Any) -> AIMessage:
        """The model's answer. Raises `ToolFailure` (`model_budget`) where a bound is reached."""
        self._begin()
        answer = await ask_model(self.model, messages, **options)
        self._count(answer.usage)
        self._told(answer.usage)
        return answer

    async def astream(
        self, messages: Sequence[Message], **options: Any
    ) -> AsyncGenerator[AIMessageChunk, None]:
        """The model's answer, part by part; what was used counts as soon as it is told."""
        self._begin()
        whole: AIMessageChunk | None = None
        async with aclosing(stream_of(self.model, messages, **options)) as stream:
            async for chunk in stream:
                self._count(chunk.usage)
                whole = AIMessageChunk(usage=chunk.usage) + (whole or AIMessageChunk())
                yield chunk
        self._told(whole.usage if whole is not None else None)

    def _begin(self) -> None:
        refuse_if_forbidden(self.model)
        for name, bound in self.bounds.items():
            if self.used[name] >= bound:
                message = f"the model's own bound of {bound:g} {name} is used up; it is asked no more"
                raise ToolFailure(message, code="model_budget")
        self.used["calls"] += 1

    def _count(self, usage: Mapping[str, float] | None) -> None:
        found = usage or {}
        self.used["tokens"] += found.get("input_tokens", 0) + found.get("output_tokens", 0)
        self.used["cost"] += found.get("cost", 0)

    def _told(self, usage: Mapping[str, float] | None) -> None:
        """Raises `BadInput` where the answer does not tell what a bound counts."""
        found = usage or {}
        if "tokens" in self.bounds and not {"input_tokens", "output_tokens"} & found.keys():
            raise BadInput(
                f"{self.model!r} does not tell its tokens, so no bound on them can hold; bound its calls"
            )
        if "cost" in self.bounds and "cost" not in found:
            raise BadInput(f"{self.model!r} does not tell its cost; give its prices: Priced(model, {{…}})")

    def __repr__(self) -> str:
        return f"<Budgeted {self.model!r}>"
