"""Rows of JSON: a line each (JSON Lines), or the elements of one list that is never in memory as a whole.

An element of a list ends where its brackets do, so that one that is no good is one row that is no good. A list that is not closed is no
list: nothing of it is a row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ...policies.errors import BadInput
from ...registry.values import Json
from .lines import LONGEST, Cut, is_spoilt, spoilt
from .strict_json import Unfit, read_json_text

__all__ = ["JsonRecord", "elements", "json_lines"]

_CHUNK = 65_536
_SPACE = " \t\n\r"
_TOKEN = re.compile(r'[{}\[\],]|"[^"\\]*(?:\\.[^"\\]*)*("|\\?\Z)', re.DOTALL)


class JsonRecord(NamedTuple):
    """One value, or what is wrong with the text in `raw`; a blank line has neither."""

    line: int
    value: Json
    raw: str = ""
    code: str = ""
    sentence: str = ""


def json_lines(texts: Iterator[str], encoding: str) -> Iterator[JsonRecord]:
    """A record for each line."""
    for number, text in enumerate(texts, 1):
        if type(text) is Cut:
            yield JsonRecord(number, None, text[:1000], "too_long", f"is longer than {LONGEST:,} characters")
        elif is_spoilt(text):
            yield JsonRecord(number, None, text, *spoilt(text, encoding))
        elif text.isspace():
            yield JsonRecord(number, None)
        else:
            yield _record(number, text)


def _record(line: int, text: str) -> JsonRecord:
    try:
        value = read_json_text(text)
    except Unfit as unfit:
        return JsonRecord(line, None, text, unfit.code, str(unfit))
    if type(value) is not dict:
        return JsonRecord(line, None, text, "not_object", "is no object of columns and values")
    return JsonRecord(line, value, text)


def elements(read: Callable[[int], str], name: str, encoding: str) -> Iterator[JsonRecord]:
    """A record for each element of the one list in a text. Raises `BadInput` where it is none, or is not whole."""
    window = _Window(read, name, encoding)
    if window.peek() != "[":
        what = "an object" if window.peek() == "{" else "no list"
        raise BadInput(
            f"{name} holds {what}; give a list of objects, or an object a line as JSON Lines (.jsonl)"
        )
    window.at += 1
    if window.peek() == "]":
        window.at += 1
    else:
        yield from _listed(window)
    if window.peek():
        raise BadInput(
            f"{name} holds more than one list (line {window.line:,}); an object a line is JSON Lines"
        )


def _listed(window: _Window) -> Iterator[JsonRecord]:
    """The elements up to the end of the list."""
    while True:
        window.peek()
        line, end = window.line, window.end()
        text, mark = window.text[window.at : end], window.text[end]
        if not text.strip(_SPACE) or mark == "}":
            raise BadInput(f"{window.name} is no JSON: line {window.line:,} lacks a value")
        window.at = end + 1
        window.count(text)
        if is_spoilt(text):
            yield JsonRecord(line, None, text, *spoilt(text, window.encoding))
        else:
            yield _record(line, text)
        if mark == "]":
            return


class _Window:
    """The part of a text that is looked at: it begins at `at`, which stands in line `line`."""

    def __init__(self, read: Callable[[int], str], name: str, encoding: str) -> None:
        self.read = read
        self.name = name
        self.encoding = encoding
        self.text = ""
        self.at = 0
        self.line = 1

    def more(self, size: int = _CHUNK) -> bool:
        fresh = self.read(size)
        self.text = self.text[self.at :] + fresh
        self.at = 0
        return bool(fresh)

    def peek(self) -> str:
        """The next character that is no white space; none at the end."""
        while True:
            for at in range(self.at, len(self.text)):
                if self.text[at] not in _SPACE:
                    self.count(self.text[self.at : at])
                    self.at = at
                    return self.text[at]
            self.count(self.text[self.at :])
            self.at = len(self.text)
            if not self.more():
                return ""

    def count(self, passed: str) -> None:
        self.line += passed.count("\n")

    def end(self) -> int:
        """Where the comma or the bracket after this element stands."""
        while (end := _end(self.text, self.at)) is None:
            if len(self.text) - self.at > LONGEST:
                raise BadInput(
                    f"{self.name} has an element of more than {LONGEST:,} characters in line {self.line:,}"
                )
            if not self.more(max(_CHUNK, len(self.text) - self.at)):
                raise BadInput(f"{self.name} is no JSON: the list is not closed after line {self.line:,}")
        return end


def _end(text: str, at: int) -> int | None:
    """Where an element of a list ends, or None where its end is not in the text."""
    depth = 0
    for match in _TOKEN.finditer(text, at):
        mark = text[match.start()]
        if mark == '"':
            if match[1] != '"':
                return None
        elif mark in "{[":
            depth += 1
        elif depth == 0:
            return match.start()
        elif mark != ",":
            depth -= 1
    return None
