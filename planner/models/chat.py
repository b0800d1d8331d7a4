"""The one method a model has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from .messages import AIMessage, Message

__all__ = ["ChatModel"]


class ChatModel(Protocol):
    """Messages in, one message out.

    `response_format` is a JSON Schema that the answer should fit; a model that cannot be held to one may ignore it.
    An option is passed only when it is set. What a model raises reaches the caller as it is.
    """

    async def agenerate(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        response_format: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> AIMessage: ...
