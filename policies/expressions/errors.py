"""What is wrong with an expression, and what went wrong when it was evaluated.

    ExpressionError     the text is no expression: found before anything runs (a caller's mistake)
    EvaluationError     the text is fine, these data are not: becomes the failure of a step

Whoever shows an error to a planner should know who wrote its words: `message` is made of the expression's own text and
of ours; `detail` may hold keys and values that came from data.
"""

from __future__ import annotations

from typing import ClassVar

from ..errors import BadInput, ForeplanError
from ..text import shorten

__all__ = ["EvaluationError", "ExpressionError"]


class ExpressionError(BadInput):
    """A text is no expression of the language, or a template is malformed.

    `offset` counts characters from 0 in `text`. `correction` is a whole corrected expression where one compiles, else
    empty; `suggestion` is that, or a hint, or empty. `pointer` is the JSON Pointer inside the template, where there is one.
    """

    CODES: ClassVar[dict[str, str]] = {
        "empty": "there is no expression",
        "not_text": "what stands after `$` is not text",
        "too_long": "more characters than an expression may have",
        "too_deep": "brackets, or operators in a row, are nested too deep",
        "bad_text": "the text holds a null character or half a surrogate pair",
        "bad_number": "something starts like a number and is none of the language",
        "bad_string": "a text in quotes is not closed, or holds an escape the language does not have",
        "bad_format": "the format in an f-string is not one of the language",
        "syntax": "the words are known, their order is not",
        "not_in_language": "Python or another language has this, the expressions of a plan do not",
        "forbidden_name": "a name with two underscores, as in `__class__`",
        "unknown_function": "no function has this name; the nearest ones, or what does its work, are named",
        "unknown_method": "no method has this name; the nearest ones, or what does its work, are named",
        "bad_call": "too few or too many arguments, or one of another name",
        "bad_template": "`$` or `$literal` stands beside other keys, or a key is not text",
    }

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

    CODES: ClassVar[dict[str, str]] = {
        "unknown_name": "a name has no value here",
        "missing_key": "an object does not have this key; the nearest ones are named",
        "out_of_range": "a list or text has no element at this index",
        "null": "something is null and was used as if it were not, for instance the result of a skipped step",
        "wrong_type": "an operator, a function or a path met a value of another kind",
        "bad_value": "the kind is right, the value is not: text that is no number or no time, a step of 0",
        "empty": "the first, smallest or largest of an empty list, without a default",
        "duplicate_key": "`index` found two elements with one key",
        "division_by_zero": "a number is divided by zero",
        "overflow": "a number becomes too large: beyond a float, or an integer of about 3,900 digits",
        "too_much_work": "the fuel of one evaluation is used up",
        "too_large": "the result, written out, is too large",
        "too_deep": "the data are nested too deep",
    }

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
