"""The names of columns: of a header, of a query, and those that foreplan writes into files of its own.

A failures file begins with columns of ours. They are no data: where such a file is a source, they are passed over, and texts that
were escaped for spreadsheets are what they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = ["OWN", "RAW", "is_own", "unique_names", "without_own"]

OWN = tuple(f"foreplan.{name}" for name in ("row", "ordinal", "line", "kind", "code", "sentence", "raw"))
"""Columns before those of the source, in this order."""
RAW = OWN[-1]
"""Text of a row that could not be read; who mends the row empties it."""


def unique_names(names: Iterable[str]) -> tuple[str, ...]:
    """Names of columns that are all different: a second `x` is `x#2`, the third column is `#3` if it has no name."""
    listed = list(names)
    taken, found = set(listed), list[str]()
    seen: set[str] = set()
    for place, name in enumerate(listed, 1):
        if not name or name in seen:
            number = place if not name else 2
            while f"{name}#{number}" in taken:
                number += 1
            name = f"{name}#{number}"
            taken.add(name)
        seen.add(name)
        found.append(name)
    return tuple(found)


def is_own(names: Sequence[str]) -> bool:
    """Whether these are the columns of a file that foreplan wrote."""
    return tuple(names[: len(OWN)]) == OWN


def without_own(given: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of the source."""
    return {name: value for name, value in given.items() if name not in OWN}
