"""Decimal arithmetic on JSON numbers: `0.1 + 0.2 == 0.3`, integers exact, never infinite, never NaN.

    float --shortest form--> Decimal --40 digits, half even--> ... --nearest--> float

A float enters as the decimal that its shortest form shows. One arithmetic expression is computed through to its end in
decimals and rounded to a float once, so that `1 / 3 * 3 == 1`. **The type is Python's, the digits are decimal**: an
integer comes out of `+ - * // % **` of integers (and of a power with an exponent from 0 on), a float out of `/` and of
anything with a float in it; `2.0 * 3` is `6.0`. There is no negative zero.

Source: IEEE 754-2008 decimal arithmetic, as in Python's `decimal`; contexts are our own, never the thread's.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import (
    ROUND_HALF_EVEN,
    Context,
    Decimal,
    DecimalException,
    DivisionByZero,
    InvalidOperation,
    Overflow,
)
from typing import Any, NoReturn

from .errors import EvaluationError
from .fuel import Fuel
from .values import Json, is_number, kind, wrong

__all__ = [
    "CONTEXT",
    "EXACT",
    "OPERATIONS",
    "absolute",
    "decimal",
    "negative",
    "plain",
    "positive",
    "quantized",
    "rounded",
    "total",
]

BITS = 13_000
"""Bits of an integer: Python writes at most 4,300 digits as text (CVE-2020-10735)."""

_TRAPS = [InvalidOperation, DivisionByZero, Overflow]
CONTEXT = Context(prec=40, rounding=ROUND_HALF_EVEN, Emin=-420, Emax=420, traps=_TRAPS)
EXACT = Context(prec=9_000, rounding=ROUND_HALF_EVEN, Emin=-9_999, Emax=9_999, traps=_TRAPS)
_INFINITE = float("inf")

Number = int | float | Decimal


def decimal(value: Number) -> Decimal:
    """A number as the decimal it stands for."""
    if type(value) is float:
        if value - value != 0:
            raise EvaluationError("overflow", "a number is not finite")
        return Decimal(repr(value))
    return Decimal(value)


def plain(value: Any) -> Any:
    """A result as JSON: a decimal becomes the nearest float; anything else stays."""
    if type(value) is not Decimal:
        return value
    number = float(value)
    if number in (_INFINITE, -_INFINITE):
        _overflow()
    return number + 0.0  # no negative zero


def add(left: Any, right: Any, fuel: Fuel) -> Any:
    """`left + right`: two numbers, two texts, or two lists."""
    one, other = type(left), type(right)
    if one is int and other is int:
        return _sized(left + right, fuel)
    if one is other and (one is str or one is list):
        take = fuel.take_text if one is str else fuel.take
        take(len(left) + len(right))
        return left + right
    if _numeric(left) and _numeric(right):
        return _compute(CONTEXT.add, left, right)
    _refuse("+", left, right)


def subtract(left: Any, right: Any, fuel: Fuel) -> Any:
    """`left - right`, of two numbers."""
    if type(left) is int and type(right) is int:
        return _sized(left - right, fuel)
    if _numeric(left) and _numeric(right):
        return _compute(CONTEXT.subtract, left, right)
    _refuse("-", left, right)


def multiply(left: Any, right: Any, fuel: Fuel) -> Any:
    """`left * right`: two numbers, or a text or list repeated."""
    one, other = type(left), type(right)
    if one is int and other is int:
        if left.bit_length() + right.bit_length() > BITS + 1:
            _overflow()
        return _sized(left * right, fuel)
    if _numeric(left) and _numeric(right):
        return _compute(CONTEXT.multiply, left, right)
    if other is int and (one is str or one is list):
        return _repeat(left, right, fuel)
    if one is int and (other is str or other is list):
        return _repeat(right, left, fuel)
    _refuse("*", left, right)


def divide(left: Any, right: Any, fuel: Fuel) -> Any:
    """`left / right`, of two numbers; the result is never an integer."""
    if not (_numeric(left) and _numeric(right)):
        _refuse("/", left, right)
    _nonzero(right)
    return _compute(CONTEXT.divide, left, right)


def floor_divide(left: Any, right: Any, fuel: Fuel) -> Any:
    """`left // right`: the quotient rounded down, as in Python."""
    return _divmod("//", left, right)[0]


def modulo(left: Any, right: Any, fuel: Fuel) -> Any:
    """`left % right`: what is left over, with the sign of `right`, as in Python."""
    return _divmod("%", left, right)[1]


def power(left: Any, right: Any, fuel: Fuel) -> Any:
    """`left ** right`; its size is estimated before it is computed."""
    if not (_numeric(left) and _numeric(right)):
        _refuse("**", left, right)
    if type(left) is int and type(right) is int and right >= 0:
        if abs(left) > 1 and left.bit_length() * right > 2 * BITS:
            _overflow()
        fuel.take(left.bit_length() * right >> 6 if abs(left) > 1 else 1)
        return _sized(left ** (right if abs(left) > 1 else min(right, 2 + right % 2)), fuel)
    if right == 0:
        return Decimal(1)
    if left == 0:
        _nonzero(0 if right < 0 else 1)
        return Decimal(0)
    fuel.take(100)
    if left < 0 and right != int(right):
        raise EvaluationError("bad_value", "a negative number has no power that is not a whole number")
    return _compute(CONTEXT.power, left, right)


def negative(value: Any) -> Any:
    """`-value`, of a number."""
    if type(value) is int:
        return -value
    if not _numeric(value):
        raise wrong("-", "a number", value)
    return CONTEXT.minus(decimal(value))


def positive(value: Any) -> Any:
    """`+value`: the number itself."""
    if not _numeric(value):
        raise wrong("+", "a number", value)
    return value


def absolute(value: Json) -> Json:
    """The distance of a number from 0."""
    if not is_number(value):
        raise wrong("abs()", "a number", value)
    return abs(value)


def total(values: list[Json], start: Json, what: str = "sum()") -> Any:
    """The exact sum of numbers; not yet `plain`."""
    for value in values:
        if not is_number(value):
            raise _not_addable(what, value)
    if float not in set(map(type, values)) and type(start) is int:
        return _sized(sum(values, start))
    result = decimal(start)
    try:
        for value in values:
            result = CONTEXT.add(result, value if type(value) is int else decimal(value))
    except DecimalException:
        _overflow()
    return result


def _not_addable(what: str, value: Json) -> EvaluationError:
    hints: dict[type, str] = {
        list: "flat() makes one list of several",
        str: "number() reads a number in a text, ''.join(…) joins texts",
    }
    return wrong(what, "numbers", value, hints.get(type(value), ""))


def rounded(value: Json, digits: Json) -> Json:
    """A number to so many decimal places, halves to the even digit; an integer where `digits` is None."""
    if not is_number(value):
        raise wrong("round()", "a number", value)
    if digits is not None and type(digits) is not int:
        raise wrong("round()", "a whole number of digits", digits)
    if type(value) is int and (digits is None or digits >= 0):
        return value
    if digits is not None and digits > 400:
        return value
    number = quantized(value, max(digits or 0, -5_000))
    return int(number) if digits is None or type(value) is int else plain(number)


def quantized(value: Number, digits: int) -> Decimal:
    """The decimal of a number with exactly so many places after the point, halves to the even digit."""
    number = decimal(value)
    if digits >= 0:
        return number.quantize(Decimal(1).scaleb(-digits, EXACT), context=EXACT)
    return EXACT.scaleb(number.scaleb(digits, EXACT).quantize(Decimal(1), context=EXACT), -digits)


def _compute(operation: Callable[[Decimal, Decimal], Decimal], left: Number, right: Number) -> Decimal:
    try:
        return operation(decimal(left), decimal(right))
    except DecimalException:
        _overflow()


def _divmod(sign: str, left: Any, right: Any) -> tuple[Any, Any]:
    if not (_numeric(left) and _numeric(right)):
        _refuse(sign, left, right)
    _nonzero(right)
    if type(left) is int and type(right) is int:
        return divmod(left, right)
    one, other = decimal(left), decimal(right)
    # Both as whole multiples of the smaller unit; their quotient and rest are exact.
    unit = min(_exponent(one), _exponent(other))
    quotient, rest = divmod(int(one.scaleb(-unit, EXACT)), int(other.scaleb(-unit, EXACT)))
    return _fit(Decimal(quotient)), _fit(Decimal(rest).scaleb(unit, EXACT))


def _exponent(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    return exponent


def _fit(value: Decimal) -> Decimal:
    try:
        return CONTEXT.plus(value)
    except DecimalException:
        _overflow()


def _repeat(part: Any, times: int, fuel: Fuel) -> Any:
    size = len(part) * max(times, 0)
    if type(part) is str:
        fuel.take_text(size)
    else:
        fuel.take(size)
    return part * times if size else part[:0]


def _numeric(value: Any) -> bool:
    one = type(value)
    return one is int or one is float or one is Decimal


def _sized(value: int, fuel: Fuel | None = None) -> int:
    bits = value.bit_length()
    if bits > 64:
        if bits > BITS:
            _overflow()
        if fuel is not None:
            fuel.take(bits >> 5)
    return value


def _nonzero(value: Any) -> None:
    if value == 0:
        raise EvaluationError(
            "division_by_zero", "a number is divided by zero; ask for zero first, as in x / n if n else 0"
        )


def _overflow() -> NoReturn:
    raise EvaluationError("overflow", "a number becomes too large")


def _refuse(sign: str, left: Any, right: Any) -> NoReturn:
    left, right = plain(left), plain(right)
    wanted = "two numbers, two texts or two lists" if sign == "+" else "two numbers"
    if left is None or right is None:
        raise wrong(sign, wanted, None)
    hint = _hint(sign) if str in (type(left), type(right)) else ""
    raise EvaluationError("wrong_type", f"{sign} needs {wanted}, not {kind(left)} and {kind(right)}{hint}")


def _hint(sign: str) -> str:
    into, out_of = "; f'{…}' puts values into text", "; number() reads a number in a text"
    return into if sign in "+%" else out_of


OPERATIONS: dict[str, Callable[[Any, Any, Fuel], Any]] = {
    "Add": add,
    "Sub": subtract,
    "Mult": multiply,
    "Div": divide,
    "FloorDiv": floor_divide,
    "Mod": modulo,
    "Pow": power,
}
"""By the name of the node of the syntax tree."""
