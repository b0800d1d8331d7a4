"""Rows of CSV text (RFC 4180, any delimiter): each line ends in a row of cells or in a fault, none is lost.

Quotes work as in the `csv` module in its strict mode, but what goes wrong stays small: where a quote is not closed, or
something stands after it, the row is the line where it begins, and reading goes on with the next line. Only a row that
holds a quote is looked at character by character. There is no limit that other code in the process could set.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from .lines import LONGEST, Cut, is_spoilt, spoilt

__all__ = ["Record", "records"]


class Record(NamedTuple):
    """One row of cells, or what is wrong (`code`, `sentence`) with the text in `raw`. No cells: the line is blank."""

    line: int
    cells: list[str]
    raw: str = ""
    code: str = ""
    sentence: str = ""


class _Broken(Exception):
    """What is wrong with the quotes of a row."""


def records(texts: Iterator[str], delimiter: str, encoding: str) -> Iterator[Record]:
    """The records of these lines."""
    ahead: deque[str] = deque()  # lines that were looked at for a quote and belong to later rows
    number = 0
    while (text := ahead.popleft() if ahead else next(texts, "")) != "":
        number += 1
        if type(text) is Cut:
            yield Record(number, [], text[:1000], "too_long", f"is longer than {LONGEST:,} characters")
        elif is_spoilt(text):
            yield Record(number, [], text, *spoilt(text, encoding))
        elif '"' not in text:
            bare = text.rstrip("\r\n")
            yield Record(number, bare.split(delimiter) if bare else [])
        else:
            taken = _Taken(text, texts, ahead)
            record = _quoted(number, taken, delimiter, encoding)
            if record.code:
                taken.give_back()
            yield record
            number += 0 if record.code else len(taken.more)


class _Taken:
    """The lines of one row: the first, and those that a quote goes on in."""

    def __init__(self, first: str, texts: Iterator[str], ahead: deque[str]) -> None:
        self.first = first
        self.texts = texts
        self.ahead = ahead
        self.more: list[str] = []
        self.size = len(first)

    def next(self) -> str:
        """The next line; raises `_Broken` where there is none, or none that is read."""
        if self.size > LONGEST:
            raise _Broken(f"opens a quote that is not closed within {LONGEST:,} characters")
        text = self.ahead.popleft() if self.ahead else next(self.texts, "")
        if not text:
            raise _Broken("opens a quote that is never closed")
        self.more.append(text)
        self.size += len(text)
        return text

    def give_back(self) -> None:
        self.ahead.extendleft(reversed(self.more))


def _quoted(number: int, taken: _Taken, delimiter: str, encoding: str) -> Record:
    try:
        cells = _cells(taken, delimiter)
    except _Broken as broken:
        return Record(number, [], taken.first, "bad_quotes", str(broken))
    for text in taken.more:
        if type(text) is Cut or is_spoilt(text):
            return Record(
                number, [], taken.first, "bad_quotes", "opens a quote over a line that cannot be read"
            )
    return Record(number, cells)


def _cells(taken: _Taken, delimiter: str) -> list[str]:
    """The cells of a row in which there are quotes."""
    text, at = taken.first, 0
    cells: list[str] = []
    while True:
        if text.startswith('"', at):
            cell, text, at = _quoted_cell(text, at + 1, taken)
            if text.startswith(delimiter, at):
                cells.append(cell)
                at += len(delimiter)
                continue
            if text[at:].rstrip("\r\n"):
                column = len(cells) + 1
                raise _Broken(
                    f"has text after the closing quote of cell {column}; a quote inside is written twice"
                )
            return [*cells, cell]
        end = text.find(delimiter, at)
        if end < 0:
            return [*cells, text[at:].rstrip("\r\n")]
        cells.append(text[at:end])
        at = end + len(delimiter)


def _quoted_cell(text: str, at: int, taken: _Taken) -> tuple[str, str, int]:
    """What stands up to the closing quote, the line that is in, and the place after it."""
    parts: list[str] = []
    while True:
        end = text.find('"', at)
        if end < 0:
            parts.append(text[at:])
            text, at = taken.next(), 0
        elif text.startswith('"', end + 1):
            parts.append(text[at : end + 1])
            at = end + 2
        else:
            parts.append(text[at:end])
            return "".join(parts), text, end + 1
