"""The small set of formats that f-strings know, as in Python but decimal: `>10`, `05d`, `,`, `,.2f`, `+.1f`, `.1%`.

    [[fill]align][sign][0][width][,|_][.digits][type]      align < > ^   sign + - space   type s d f %

A format is read once, when the expression is parsed; writing a number rounds halves to the even digit.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import NamedTuple

from .arithmetic import EXACT, decimal, quantized
from .errors import EvaluationError, ExpressionError
from .fuel import Fuel
from .values import Json, is_number, kind, text_of

__all__ = ["Format", "formatted", "read_format"]

_WIDEST = 1_000
_DIGITS = 100

_FORMAT = re.compile(
    r"(?:(?P<fill>.)?(?P<align>[<>^]))?(?P<sign>[-+ ])?(?P<zero>0)?(?P<width>[0-9]{1,6})?"
    r"(?P<group>[,_])?(?:\.(?P<digits>[0-9]{1,6}))?(?P<type>[sdf%])?",
    re.DOTALL,
)


class Format(NamedTuple):
    """One format, taken apart. `digits` is None where it does not say."""

    text: str
    fill: str
    align: str
    sign: str
    zero: bool
    width: int
    group: str
    digits: int | None
    type: str


def read_format(text: str, offset: int) -> Format | None:
    """Take a format apart; None for the empty one. Raises `ExpressionError`."""
    if not text:
        return None
    match = _FORMAT.fullmatch(text)
    if match is None:
        raise ExpressionError(
            "bad_format",
            f"{text[:40]!r} is not a format of the language",
            offset,
            "one like >10, 05d, ',' or ,.2f or .1%",
        )
    width, digits = int(match["width"] or 0), match["digits"]
    if width > _WIDEST or int(digits or 0) > _DIGITS:
        raise ExpressionError(
            "bad_format",
            f"the format {text[:40]!r} asks for too much; at most {_WIDEST} wide and {_DIGITS} digits",
            offset,
        )
    if match["zero"] and match["group"]:
        raise ExpressionError(
            "bad_format", f"the format {text[:40]!r} both fills with 0 and groups digits", offset
        )
    return Format(
        text=text,
        fill=match["fill"] or ("0" if match["zero"] else " "),
        align=match["align"] or "",
        sign=match["sign"] or "-",
        zero=bool(match["zero"]),
        width=width,
        group=match["group"] or "",
        digits=None if digits is None else int(digits),
        type=match["type"] or "",
    )


def formatted(value: Json, form: Format | None, fuel: Fuel) -> str:
    """A value as the text that an f-string puts in its place."""
    if form is None:
        return text_of(value, fuel)
    fuel.take(8)
    fuel.take_text(form.width)
    if type(value) is str:
        return _text(value, form, fuel)
    if is_number(value):
        return _padded(*_number(value, form), form)
    code = "null" if value is None else "wrong_type"
    raise EvaluationError(code, f"the format {form.text!r} is for text and numbers, not for {kind(value)}")


def _text(value: str, form: Format, fuel: Fuel) -> str:
    if form.type not in ("", "s") or form.group or form.sign != "-" or form.zero:
        raise EvaluationError(
            "wrong_type", f"the format {form.text!r} is for numbers, not for text; number() reads one"
        )
    fuel.take_text(min(len(value), form.digits or len(value)))
    return _padded("", value if form.digits is None else value[: form.digits], form, align="<")


def _number(value: int | float, form: Format) -> tuple[str, str]:
    """Sign and digits."""
    number = decimal(value)
    if form.type == "s" or (form.type in ("", "d") and form.digits is not None):
        raise EvaluationError(
            "wrong_type", f"the format {form.text!r} is not for numbers; one like .2f or .1% is"
        )
    if form.type in ("f", "%"):
        places = 6 if form.digits is None else form.digits
        number = quantized(number.scaleb(2, EXACT) if form.type == "%" else number, places)
        digits = format(number.copy_abs(), "f")
    elif form.type == "d":
        digits = str(abs(_whole(number, form)))
    else:
        digits = repr(abs(value))
    sign = "-" if number < 0 else form.sign.replace("-", "")
    return sign, _grouped(digits, form.group) + ("%" if form.type == "%" else "")


def _whole(number: Decimal, form: Format) -> int:
    if number != int(number):
        raise EvaluationError(
            "bad_value", f"the format {form.text!r} is for whole numbers; one like .0f rounds"
        )
    return int(number)


def _grouped(digits: str, sign: str) -> str:
    if not sign:
        return digits
    whole = re.match("[0-9]*", digits)
    assert whole is not None
    return f"{int(whole[0]):,}".replace(",", sign) + digits[whole.end() :]


def _padded(sign: str, body: str, form: Format, align: str = ">") -> str:
    if form.zero and not form.align:
        return sign + body.rjust(form.width - len(sign), "0")
    text = sign + body
    room = max(form.width - len(text), 0)
    left = {"<": 0, ">": room, "^": room // 2}[form.align or align]
    return form.fill * left + text + form.fill * (room - left)
