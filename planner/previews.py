"""Large values as a model is shown them: what they begin with, how much there is, and how to get at the rest.

    preview([{"id": 1, …}, …] of 3 MB, 2000, whole="rows")
    -> {"begins": [{"id": 1, …}, {"id": 2, …}, "… 41,995 more items"], "bytes": 3145728, "items": 41997,
        "more": "this is only the beginning; the whole is `rows` in an expression, e.g. rows[2:12]"}

No preview is larger than asked for, however large the value; only its size is measured whole.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, TypeAlias

from ..registry.values import size_of

__all__ = ["preview"]

Json: TypeAlias = Any

_CUTS = (
    (40, 1000, 8),
    (20, 400, 6),
    (10, 200, 5),
    (5, 100, 4),
    (3, 60, 3),
    (2, 40, 2),
    (1, 20, 1),
    (0, 20, 0),
)
"""Items, characters of a text and levels that are shown, from much to little."""


def preview(value: Json, most: int, *, whole: str = "") -> Json:
    """The value itself where it has at most `most` bytes of JSON; else an object that says what it begins with.

    `whole` is the expression that names it in a plan, if one does.
    """
    size = size_of(value)
    if size <= most:
        return value
    told = _told(value, size, whole)
    for items, characters, levels in _CUTS:
        shown = {"begins": _cut(value, items, characters, levels), **told}
        if size_of(shown) <= most:
            return shown
    return told if size_of(told) <= most else {"bytes": size}


def _told(value: Json, size: int, whole: str) -> dict[str, Json]:
    """How large it is, and the next move."""
    told: dict[str, Json] = {"bytes": size}
    match value:
        case list():
            told["items"] = len(value)
        case dict():
            told["keys"] = len(value)
        case str():
            told["characters"] = len(value)
    if not whole:
        return told
    part = (
        f"{whole}[10:20]"
        if isinstance(value, list)
        else f"{whole}[1000:2000]"
        if isinstance(value, str)
        else ""
    )
    example = f", a part of it {part}" if part else f"; its keys are {whole}.keys()"
    return told | {"more": f"only the beginning is shown; the whole is {whole} in an expression{example}"}


def _cut(value: Json, items: int, characters: int, levels: int) -> Json:
    if isinstance(value, str):
        left = len(value) - characters
        return value if left <= 0 else f"{value[:characters]}… {left:,} more characters"
    if not isinstance(value, dict | list) or not value:
        return value
    if levels <= 0:
        return "…"
    left = len(value) - items
    if isinstance(value, list):
        shown = [_cut(item, items, characters, levels - 1) for item in value[:items]]
        return [*shown, f"… {left:,} more items"] if left > 0 else shown
    first = islice(value.items(), items)
    some = {_cut(key, 1, characters, 1): _cut(item, items, characters, levels - 1) for key, item in first}
    return some | {"…": f"{left:,} more keys"} if left > 0 else some
