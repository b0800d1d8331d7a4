"""A model whose answers say what they cost, by a table of yours."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from decimal import Decimal
from typing import Any

from ...policies.errors import BadInput
from ...policies.spelling import spelled
from ...policies.text import did_you_mean
from .chat import ChatModel, ask_model, expect_models, is_real, refuse_if_forbidden
from .chunks import AIMessageChunk, stream_of
from .messages import AIMessage, Message

__all__ = ["Priced"]

_COUNTS = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cached": "cached_tokens",
    "cache_written": "cache_written_tokens",
}
"""What a price is for -> where usage counts it. Cached and written tokens are part of the input."""

_MILLION = 1_000_000


@spelled
class Priced:
    """Adds `cost` to the usage: `Priced(model, {"input": 0.25, "output": 2.0, "cached": 0.025})`, each per million tokens.

    `cached` are input tokens that the service had kept, `cache_written` those that it keeps now; without a price of their
    own they cost what input costs. The unit is yours, and that of `Budget(cost=…)`. A cost that the model tells itself
    is replaced.
    """

    asks_others = True

    def __init__(self, model: ChatModel, prices: Mapping[str, float]) -> None:
        for name, price in prices.items():
            if name not in _COUNTS:
                raise BadInput(
                    f"there is no price for {name!r}, only for {', '.join(_COUNTS)}{did_you_mean(name, _COUNTS)}"
                )
            if isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price < float("inf"):
                raise BadInput(
                    f"the price for {name!r} is a number from 0, per million tokens, not {price!r}"
                )
        if not {"input", "output"} <= set(prices):
            raise BadInput("a price table says what `input` and `output` cost, each per million tokens")
        expect_models(model)
        self.model = model
        self.prices = dict(prices)

    @property
    def real(self) -> bool:
        """Whether the model is a real one."""
        return is_real(self.model)

    async def agenerate(self, messages: Sequence[Message], **options: Any) -> AIMessage:
        """The model's answer, with its cost."""
        answer = await ask_model(self.model, messages, **options)
        return replace(answer, usage=self._priced(answer.usage))

    async def astream(
        self, messages: Sequence[Message], **options: Any
    ) -> AsyncGenerator[AIMessageChunk, None]:
        """The model's answer; each count of tokens comes with its cost."""
        refuse_if_forbidden(self.model)
        async with aclosing(stream_of(self.model, messages, **options)) as stream:
            async for chunk in stream:
                yield replace(chunk, usage=self._priced(chunk.usage))

    def _priced(self, usage: Mapping[str, float] | None) -> Mapping[str, float] | None:
        if not usage or not usage.keys() & set(_COUNTS.values()):
            return usage
        counts = {name: Decimal(str(usage.get(key, 0))) for name, key in _COUNTS.items()}
        counts["input"] -= counts["cached"] + counts["cache_written"]
        prices = {name: Decimal(str(self.prices.get(name, self.prices["input"]))) for name in _COUNTS}
        return {**usage, "cost": float(sum(counts[name] * prices[name] for name in _COUNTS) / _MILLION)}

    def __repr__(self) -> str:
        return f"<Priced {self.model!r}>"
