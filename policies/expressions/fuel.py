"""Fuel: how much work and growth one evaluation may cost. Taken before the work is done, so nothing grows first.

One unit is about one step of the evaluator, one new element of a list or object, or four characters of text.
"""

from __future__ import annotations

from .errors import EvaluationError

__all__ = ["FUEL", "Fuel"]

FUEL = 5_000_000
"""Enough for a filter of fifty parts over 100,000 rows; a second or two at worst."""


class Fuel:
    """A tank that several expressions may share (all of one template do)."""

    __slots__ = ("left",)

    def __init__(self, units: int = FUEL) -> None:
        self.left = units

    def take(self, units: int) -> None:
        """Use up some; raises `EvaluationError` with code `too_much_work` where there is not enough left."""
        if units > self.left:
            raise EvaluationError(
                "too_much_work",
                "this expression does too much work; read fewer rows, or give the work to a tool",
            )
        self.left -= units

    def take_text(self, characters: int) -> None:
        """Use up what a text of so many characters costs."""
        self.take((characters >> 2) + 1)

    def __repr__(self) -> str:
        return f"<Fuel of {self.left}>"
