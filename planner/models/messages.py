"""What is said to a model and what it says back, in no vendor's form.

SystemMessage   the rules, the same for a whole run
HumanMessage    what is asked, and what came back
AIMessage       the model's answer, with what it cost and why it ended
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

__all__ = ["AIMessage", "HumanMessage", "Message", "SystemMessage"]


@dataclass(frozen=True)
class SystemMessage:
    """The rules a model answers by."""

    content: str
    role: ClassVar[str] = "system"

    def to_json(self) -> dict[str, Any]:
        """`{"role": …, "content": …}`: the form that most services take."""
        return {"role": self.role, "content": self.content}


@dataclass(frozen=True)
class HumanMessage:
    """What is asked of a model."""

    content: str
    role: ClassVar[str] = "user"

    def to_json(self) -> dict[str, Any]:
        """`{"role": …, "content": …}`."""
        return {"role": self.role, "content": self.content}


@dataclass(frozen=True)
class AIMessage:
    """A model's answer.

    `usage` counts tokens (`input_tokens`, `output_tokens`); None where the model does not say. `finish_reason` is
    `stop` for a complete answer and `length` for one that was cut off; other words are the model's own.
    """

    content: str
    usage: Mapping[str, int] | None = None
    finish_reason: str = "stop"
    role: ClassVar[str] = "assistant"

    def to_json(self) -> dict[str, Any]:
        """`{"role": …, "content": …}`."""
        return {"role": self.role, "content": self.content}


Message: TypeAlias = SystemMessage | HumanMessage | AIMessage
