"""JSON of a row, strictly: a key that stands twice, NaN, a number that would lose digits: each refused with its reason."""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation
from math import isfinite
from typing import NoReturn

from ...policies.text import shorten
from ...registry.values import DEEPEST, Json

__all__ = ["DECODER", "Unfit", "exact_number", "read_json_text", "refuse_unfit"]

_DIGITS = 400
"""A number longer than this is no number anyone means; Python itself refuses 4,300 digits."""
_ALWAYS_EXACT = 15
"""Digits that a float keeps whatever they are."""


class Unfit(ValueError):
    """Text that is no JSON of a row: `code` as in `rows.CODES`, and the end of a sentence about it."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def read_json_text(text: str) -> Json:
    """The value of a JSON text. Raises `Unfit`."""
    try:
        value = DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise Unfit("bad_json", f"is no JSON: {error.msg} (character {error.pos + 1:,})") from None
    except RecursionError:
        raise _too_deep() from None
    refuse_unfit(value, text)
    return value


def refuse_unfit(value: Json, text: str) -> None:
    """Raises `Unfit` for what the decoder lets through: nested too deep, half of a surrogate pair."""
    if text.count("[") + text.count("{") > DEEPEST and _depth(value) > DEEPEST:
        raise _too_deep()
    if "\\u" in text:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise Unfit("bad_text", "holds half of a surrogate pair") from None


def exact_number(text: str) -> float:
    """The float that a number with a fraction or an exponent is. Raises `Unfit` where it would be another number."""
    value = float(text)
    if len(text) <= _ALWAYS_EXACT and "e" not in text and "E" not in text:
        return value
    if not isfinite(value):
        raise Unfit("bad_number", f"holds the number {shorten(text, 40)}, which is too large")
    try:
        same = Decimal(text) == Decimal(repr(value))
    except InvalidOperation:
        same = False
    if not same:
        said = f"holds the number {shorten(text, 40)}, of which {value!r} would be left; write it as text"
        raise Unfit("bad_number", said)
    return value


def _whole(text: str) -> int:
    if len(text) > _DIGITS:
        raise Unfit("bad_number", f"holds a number of {len(text):,} digits")
    return int(text)


def _no_constant(word: str) -> NoReturn:
    raise Unfit("bad_number", f"holds {word}, which is no number of JSON")


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise Unfit("duplicate_key", f"says the key {shorten(repr(twice), 60)} twice in one object")
    return found


DECODER = json.JSONDecoder(
    object_pairs_hook=_unique, parse_float=exact_number, parse_int=_whole, parse_constant=_no_constant
)


def _too_deep() -> Unfit:
    return Unfit("too_deep", f"is nested deeper than {DEEPEST} levels")


def _depth(value: Json) -> int:
    """Levels of lists and objects."""
    level, depth = [value], 0
    while level := [part for part in level if isinstance(part, (dict, list))]:
        depth += 1
        level = [item for part in level for item in (part.values() if isinstance(part, dict) else part)]
    return depth
