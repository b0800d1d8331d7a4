"""What is wrong with an expression, and what went wrong when it was evaluated.

    ExpressionError     the text is no expression: found before anything runs (a caller's mistake)
    EvaluationError     the text is fine, these data are not: becomes the failure of a step

Whoever shows an error to a planner should know who wrote its words: `message` is made of the expression's own text and
of ours; `detail` may hold keys and values that came from data.
"""

from __future__ import annotations

from ..errors import BadInput, ForeplanError
from ..text import shorten

__all__ = ["EvaluationError", "ExpressionError"]


class ExpressionError(BadInput):
    """A text is no expression of the language, or a template is malformed.

    `offset` counts characters from 0 in `text`. `correction` is a whole corrected expression where one compiles, else
    empty; `suggestion` is that, or a hint, or empty. `pointer` is the JSON Pointer inside the template, where there is one.
    """

    def __init__(
        self,
        code: str,
        message: str,
        offset: int = 0,
        suggestion: str = "",
        *,
        text: str = "",
        pointer: str = "",
        correction: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.offset = offset
        self.suggestion = correction or suggestion
        self.correction = correction
        self.text = text
        self.pointer = pointer

    def __str__(self) -> str:
        place = f" (at {self.pointer})" if self.pointer else ""
        hint = f"; try: {shorten(self.suggestion, 200)}" if self.suggestion else ""
        return self.message + hint + place


class EvaluationError(ForeplanError):
    """An expression has no value for these data.

    `code` is one of `CODES`; `null` means that something which is null was used as if it were not, and `roots` then holds
    the free names it may have come from. `str()` is `message` followed by `detail`. `offset` and `end` are the place in
    `text`.
    """

    CODES = (
        "unknown_name",
        "missing_key",
        "out_of_range",
        "null",
        "wrong_type",
        "bad_value",
        "empty",
        "duplicate_key",
        "division_by_zero",
        "overflow",
        "too_much_work",
        "too_large",
        "too_deep",
    )

    def __init__(self, code: str, message: str, detail: str = "", *, offset: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.detail = detail
        self.offset = offset
        self.end: int | None = None
        self.roots: frozenset[str] = frozenset()
        self.text = ""

    def __str__(self) -> str:
        return self.message + self.detail
