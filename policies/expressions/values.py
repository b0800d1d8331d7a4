"""What JSON values are to the language: their kinds, when two are the same, which comes first, how large they are.

Python says `True == 1`; here a boolean is no number. Equality between unlike kinds is false, order between them is an
error. `1` and `1.0` are the same number. Integers and floats compare by value; a float from 2^53 on stands for the
decimal that its shortest form shows, as in arithmetic.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from decimal import Decimal
from functools import cmp_to_key
from itertools import chain
from typing import Any, TypeAlias

from ..text import did_you_mean, shorten, with_article
from .errors import EvaluationError
from .fuel import Fuel

__all__ = [
    "Json",
    "as_list",
    "before",
    "compare",
    "is_number",
    "key_of",
    "kind",
    "missing",
    "order",
    "same",
    "text_of",
    "weigh",
    "wrong",
]

Json: TypeAlias = Any

LARGEST = 1_000_000
"""Elements, keys and values in one result, written out."""
LONGEST = 16_000_000
"""Characters in one result, written out."""

_WHOLE = 2.0**53
_KINDS = {
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


def kind(value: Json) -> str:
    """What a value is, in a word for people: `text`, `a number`, `null`."""
    return _KINDS.get(type(value)) or f"{with_article(type(value).__name__)}, which is no JSON"


def wrong(what: str, wanted: str, value: Json, hint: str = "") -> EvaluationError:
    """The error for a value of the wrong kind; its code is `null` where the value is null."""
    code = "null" if value is None else "wrong_type"
    move = f"; {hint}" if hint and value is not None else ""
    return EvaluationError(code, f"{what} needs {wanted}, not {kind(value)}{move}")


def missing(where: str, key: str, keys: Iterable[str], *, written: bool) -> EvaluationError:
    """The error for a key that an object does not have, with the nearest of its keys.

    `written` says that the key stands in the expression; else it is data and goes to the detail.
    """
    nearest = did_you_mean(key, keys)
    if written:
        return EvaluationError("missing_key", f"{where} has no key {key!r}", nearest)
    return EvaluationError("missing_key", f"{where} has no such key", f": {shorten(key, 60)!r}{nearest}")


def is_number(value: Json) -> bool:
    """Whether a value is a number; a boolean is not."""
    return type(value) is int or type(value) is float


def as_list(what: str, value: Json) -> list[Json]:
    """The elements to go through: of a list, or the keys of an object."""
    if type(value) is list:
        return value
    if type(value) is dict:
        return list(value)
    raise wrong(what, "a list", value, "split it first, or put it in [ ]" if type(value) is str else "")


def _plain_number(value: int | float) -> int | float:
    if type(value) is float and not -_WHOLE < value < _WHOLE:
        return int(Decimal(repr(value))) if abs(value) != float("inf") else value
    return value


def same(left: Json, right: Json, fuel: Fuel) -> bool:
    """Whether two values are equal, at any depth."""
    one, other = type(left), type(right)
    if one is not other:
        both = (one is int and other is float) or (one is float and other is int)
        return both and _plain_number(left) == _plain_number(right)
    if one is list:
        return len(left) == len(right) and _same_parts(left, right, fuel)
    if one is dict:
        return left.keys() == right.keys() and _same_parts(left.values(), [right[k] for k in left], fuel)
    return bool(left == right)


def _same_parts(left: Collection[Json], right: Collection[Json], fuel: Fuel) -> bool:
    fuel.take(2 * len(left) + 2)
    for one, other in zip(left, right, strict=True):  # noqa: SIM110 - `all` would cost twice the stack and the time
        if not same(one, other, fuel):
            return False
    return True


def before(left: Json, right: Json, fuel: Fuel) -> bool:
    """Whether `left < right`; raises where the two have no order."""
    return compare(left, right, fuel) < 0


def compare(left: Json, right: Json, fuel: Fuel) -> int:
    """Negative, zero or positive as left comes before, with or after right. Numbers, texts, booleans, lists of such."""
    one, other = type(left), type(right)
    if one is not other and is_number(left) and is_number(right):
        left, right = _plain_number(left), _plain_number(right)
    elif one is list and other is list:
        return _compare_lists(left, right, fuel)
    elif one is not other or one not in (int, float, str, bool):
        code = "null" if left is None or right is None else "wrong_type"
        raise EvaluationError(code, f"{kind(left)} and {kind(right)} have no order")
    return int(left > right) - int(left < right)


def _compare_lists(left: list[Json], right: list[Json], fuel: Fuel) -> int:
    fuel.take(min(len(left), len(right)) + 1)
    for a, b in zip(left, right, strict=False):
        if not same(a, b, fuel):
            return compare(a, b, fuel)
    return len(left) - len(right)


def order(keys: Sequence[Json], fuel: Fuel, *, reverse: bool = False) -> list[int]:
    """The positions of the keys in ascending order; equal ones keep their order, in reverse too."""
    count = len(keys)
    letters = sum(len(k) for k in keys if type(k) is str)
    fuel.take((count + (letters >> 6)) * max(count.bit_length(), 1))
    return sorted(range(count), key=_sort_key(keys, fuel), reverse=reverse)


def _sort_key(keys: Sequence[Json], fuel: Fuel) -> Callable[[int], Any]:
    kinds = set(map(type, keys))
    if kinds in ({str}, {bool}, {int}, {float}):
        return keys.__getitem__
    if kinds <= {int, float}:
        return [_plain_number(k) for k in keys].__getitem__
    if kinds == {list} and _columns_sortable(keys):
        return keys.__getitem__

    def ask(left: int, right: int) -> int:
        return compare(keys[left], keys[right], fuel)

    return cmp_to_key(ask)


def _columns_sortable(keys: Sequence[list[Json]]) -> bool:
    # Python's own order of lists is ours when they are equally long and each column is of one kind.
    if len(set(map(len, keys))) != 1:
        return False
    columns = (set(map(type, column)) for column in zip(*keys, strict=True))
    return all(c in ({str}, {bool}, {int}, {float}) for c in columns)


def key_of(value: Json, fuel: Fuel) -> Any:
    """Something hashable that is equal for the same values and unequal for others."""
    one = type(value)
    if one is str or one is int or value is None:
        return value
    if one is float:
        return _plain_number(value)
    if one is bool:
        return (bool, value)
    fuel.take(4 * len(value) + 4)
    if one is list:
        return (list, *(key_of(v, fuel) for v in value))
    return (dict, frozenset((k, key_of(v, fuel)) for k, v in value.items()))


def text_of(value: Json, fuel: Fuel) -> str:
    """A value as text: numbers in their shortest form, `True`, `None`; lists and objects as JSON."""
    if type(value) is str:
        return value
    if type(value) is list or type(value) is dict:
        weigh(value, fuel)
        return _json(value)
    text = repr(value)
    fuel.take_text(len(text))
    return text


def _json(value: Json) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise EvaluationError("bad_value", "this value cannot be written as JSON") from error


def weigh(value: Json, fuel: Fuel | None = None) -> None:
    """Raise where a value, written out, is too large: shared parts count as often as they stand there.

    With `fuel`, what was counted is charged.
    """
    elements = characters = 0
    stack = [value]
    while stack:
        part = stack.pop()
        elements += len(part)
        for item in chain(part, part.values()) if type(part) is dict else part:
            one = type(item)
            if one is str:
                characters += len(item)
            elif one is list or one is dict:
                stack.append(item)
            elif one is float and item - item != 0:
                raise EvaluationError("overflow", "a result holds a number that is not finite")
        if elements > LARGEST or characters > LONGEST:
            raise EvaluationError(
                "too_large", f"the result is too large: over {LARGEST:,} elements or {LONGEST:,} characters"
            )
    if fuel is not None:
        fuel.take(elements)
        fuel.take_text(characters)
