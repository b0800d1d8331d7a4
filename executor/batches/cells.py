"""A cell is text; the plan's schema says what it is meant to be.

    the schema wants   the cell                                     becomes
    text               anything, "01234" and " x " too              itself, unchanged
    a number           a number as JSON writes it: 5, -1.50, 2e3    that number, all of its digits or a refusal
    true or false      true false yes no t f y n 1 0, in any case   true, false
    a list, an object  JSON                                         that list, that object
    null (and no text) null                                         null
    several of these   tried as text, number, true or false, JSON   the first that the schema takes

Blanks around a cell count in text alone. Nothing is rounded, guessed or cut: what is none of these is refused with a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from ...policies.text import shorten
from ...registry.values import Json
from .strict_json import Unfit, exact_number, read_json_text

__all__ = ["Convert", "converter"]

Convert = Callable[[str], Json]
"""The value of a cell. Raises `Unfit`, whose message continues the name of the column."""

_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,399})")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_LOOKS_LOCAL = re.compile(r"[-+]?[0-9]{1,3}(?:[.,' \u00a0\u202f][0-9]{3})*(?:[.,][0-9]+)?")
_WORDS = {
    **dict.fromkeys(("true", "yes", "t", "y", "1"), True),
    **dict.fromkeys(("false", "no", "f", "n", "0"), False),
}


def converter(kinds: Collection[str], accepts: Callable[[Json], bool]) -> Convert:
    """What reads the cells of a column that may be of these kinds; `accepts` decides between several."""
    kinds = set(kinds)
    several = [read for kind, read in _READERS if kind & kinds]
    if len(several) == 1:
        only = several[0] if several[0] is not _json else _json_of(kinds)
        return _or_null(only) if "null" in kinds and "string" not in kinds else only
    if not several:
        return _null
    return lambda text: _first(text, several, kinds, accepts)


def _first(
    text: str, several: list[Convert], kinds: Collection[str], accepts: Callable[[Json], bool]
) -> Json:
    """The first reading that the schema takes."""
    for read in [*several, _null] if "null" in kinds else several:
        try:
            value = read(text)
        except Unfit:
            continue
        if accepts(value):
            return value
    if "string" in kinds:
        return text  # the schema says what is wrong with it
    raise Unfit("wrong_cell", f"must be {_wanted(kinds)}, not {_shown(text)}")


def _text(text: str) -> str:
    return text


def _number(text: str) -> int | float:
    if _WHOLE.fullmatch(text):
        return int(text)
    bare = text.strip()
    if _WHOLE.fullmatch(bare):
        return int(bare)
    if not _NUMBER.fullmatch(bare):
        raise Unfit("wrong_cell", f"must be a number, not {_shown(text)}{_why_no_number(bare)}")
    if not bare.lstrip("-").isdigit():
        return exact_number(bare)
    raise Unfit("bad_number", f"holds a number of {len(bare):,} digits")


def _why_no_number(text: str) -> str:
    digits = text.lstrip("+-")
    if digits.isdigit() and digits.isascii():
        return (
            "; write it without a plus sign"
            if text[0] == "+"
            else "; zeros in front are kept only where the plan wants text"
        )
    if _LOOKS_LOCAL.fullmatch(text):
        return "; write a decimal point, and no sign between thousands"
    return ""


def _boolean(text: str) -> bool:
    word = _WORDS.get(text.strip().casefold())
    if word is None:
        raise Unfit("wrong_cell", f"must be true or false (yes, no, 1, 0), not {_shown(text)}")
    return word


def _json(text: str) -> Json:
    try:
        return read_json_text(text)
    except Unfit as unfit:
        if unfit.code != "bad_json":
            raise
        raise Unfit("wrong_cell", f"{unfit}; write the value as JSON") from None


def _json_of(kinds: Collection[str]) -> Convert:
    """JSON that is a list or an object, as is wanted."""

    def read(text: str) -> Json:
        value = _json(text)
        if not isinstance(value, tuple(_CONTAINERS[kind] for kind in _CONTAINERS if kind in kinds)):
            raise Unfit("wrong_cell", f"must be {_wanted(kinds)} as JSON, not {_shown(text)}")
        return value

    return read


def _or_null(read: Convert) -> Convert:
    return lambda text: None if text.strip() == "null" else read(text)


def _null(text: str) -> None:
    if text.strip() != "null":
        raise Unfit("wrong_cell", f"must be empty or null, not {_shown(text)}")


_CONTAINERS = {"array": list, "object": dict}
_READERS: tuple[tuple[set[str], Convert], ...] = (
    ({"string"}, _text),
    ({"number"}, _number),
    ({"boolean"}, _boolean),
    ({"array", "object"}, _json),
)
_NAMES = {
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


def _wanted(kinds: Collection[str]) -> str:
    return " or ".join(name for kind, name in _NAMES.items() if kind in kinds)


def _shown(text: str) -> str:
    return f"the text '{shorten(text, 40)}'"
