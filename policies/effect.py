"""What a tool does to the world, and so whether a call of it may be repeated."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Effect"]


class Effect(StrEnum):
    """The promise a tool makes about repetition.

    `ACTS` is the default because it is the safe one: a call whose outcome is unknown is never issued again
    without a person's decision.
    """

    READS = "reads"
    WRITES = "writes"
    ACTS = "acts"

    @property
    def repeatable(self) -> bool:
        """Whether a second call with the same arguments leaves the world as one call does."""
        return self is not Effect.ACTS
