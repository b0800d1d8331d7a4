"""Whether a patch for many rows holds a value of one of them: what one row says must not end up in the calls of all.

    literal     a text or number in what a patch adds, also inside its expressions
    known       it stands in the plan, in what the tools say of themselves, or is a number up to ten: anybody may write it
    taken       it is not known, and stands in the data of a row

A text is taken if it is a value of the row, holds one, or stands in one, and so is one that has a word in common with it. Of
texts of five words or more, which are prose, only words count that look like names (an address, an id, an amount), and the
other text as a whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

from ..policies.expressions import ExpressionError, compile_template, constants
from ..policies.expressions.templates import EXPRESSION, LITERAL
from ..registry.tools import Tool
from .findings import Finding, pointer_to, quoted
from .plan import Patch, Plan, Step

__all__ = ["Literals"]

Json: TypeAlias = Any

_TOKEN = re.compile(r"[^\s,;()\[\]{}<>\"'“”`=|]+")
_DIGITS = re.compile(r"\d+")
_PROSE = 5
"""Words from which on a text is prose."""
_SMALL = 10
"""Numbers up to this count things, and stand everywhere."""
_SHORT = 3
"""Characters; a value that is shorter stands in many a text by chance."""
_FIELDS = ("args", "value", "output", "each", "when", "until", "next")


class _Literal(NamedTuple):
    pointer: str
    whole: str
    parts: frozenset[str]


class Literals:
    """The literals of a patch that are not known: `taken_from` says which of them stand in some data."""

    def __init__(self, patch: Patch, plan: Plan, tools: Iterable[Tool]) -> None:
        told = [tool.contract() for tool in tools]
        text = json.dumps([plan.to_json(), told], ensure_ascii=False, default=str)
        self._known = _plain(text)
        self._left = [found for found in map(self._unknown, _literals(patch)) if found is not None]

    def __bool__(self) -> bool:
        """Whether there is anything to look for."""
        return bool(self._left)

    def taken_from(self, data: Json) -> tuple[Finding, ...]:
        """A finding for each literal that stands in these data, which are plain JSON."""
        found: dict[_Literal, None] = {}
        for value in _values(data):
            plain = _plain(value)
            parts = _parts_of(plain)
            found |= dict.fromkeys(literal for literal in self._left if self._is_in(literal, plain, parts))
        return tuple(_finding(literal) for literal in found)

    def _unknown(self, given: tuple[str, str]) -> _Literal | None:
        pointer, text = given
        plain = _plain(text)
        if not plain or self._knows(plain):
            return None
        return _Literal(pointer, plain, frozenset(p for p in _parts_of(plain) if not self._knows(p)))

    def _knows(self, plain: str) -> bool:
        if plain.isdecimal() and len(plain) <= 2 and int(plain) <= _SMALL:
            return True
        return not re.search(r"\w", plain) or _stands_in(plain, self._known)

    def _is_in(self, literal: _Literal, plain: str, parts: frozenset[str]) -> bool:
        """Whether a literal stands in a value."""
        if plain == literal.whole or not literal.parts.isdisjoint(parts):
            return True
        whole = literal.whole
        telling = " " in whole or _is_name(whole) or not _is_prose(plain)
        if telling and len(whole) >= _SHORT and _stands_in(whole, plain):
            return True
        return len(plain) >= _SHORT and _stands_in(plain, literal.whole) and not self._knows(plain)


def _finding(literal: _Literal) -> Finding:
    message = f"{quoted(literal.whole)} is, or holds, a value of one row, and the patch is for many"
    return Finding(
        "row_literal",
        "error",
        literal.pointer,
        message,
        "take it from `inputs` or a result, by an expression",
    )


def _literals(patch: Patch) -> Iterator[tuple[str, str]]:
    """The texts and numbers in what a patch adds, each with where it stands."""
    for i, step in enumerate(patch.add):
        yield from _of_step(step, pointer_to("add", i))
    yield from _of_template(patch.output, "/output")


def _of_step(step: Step, pointer: str) -> Iterator[tuple[str, str]]:
    for field in _FIELDS:
        if step.has(field):
            yield from _of_template(getattr(step, field), f"{pointer}/{field}")
    if step.undo is not None:
        yield from _of_template(step.undo.args, f"{pointer}/undo/args")
    for i, inner in enumerate(step.steps or ()):
        yield from _of_step(inner, f"{pointer}/steps/{i}")


def _of_template(template: Json, pointer: str) -> Iterator[tuple[str, str]]:
    """Texts and numbers of a template; of its expressions those that they hold."""
    match template:
        case {"$": str()} if len(template) == 1:
            try:
                found = compile_template(template).expressions
            except ExpressionError:
                return  # the check says what is wrong with it
            for _, expression in found:
                yield from ((f"{pointer}/{EXPRESSION}", _text(value)) for value in constants(expression))
        case dict() if LITERAL in template:
            yield from ((pointer, text) for text in _texts(template[LITERAL]))
        case dict():
            for key, value in template.items():
                yield pointer_to(key, within=pointer), key
                yield from _of_template(value, pointer_to(key, within=pointer))
        case list():
            for i, value in enumerate(template):
                yield from _of_template(value, f"{pointer}/{i}")
        case bool() | None:
            pass
        case str() | int() | float():
            yield pointer, _text(template)


def _texts(data: Json) -> Iterator[str]:
    """Every key, text and number of data."""
    waiting = [data]
    while waiting:
        match waiting.pop():
            case dict() as value:
                waiting += [*value, *value.values()]
            case list() as value:
                waiting += value
            case bool() | None:
                pass
            case str() | int() | float() as value:
                yield _text(value)


def _text(value: str | int | float) -> str:
    return value if isinstance(value, str) else str(abs(value)).removesuffix(".0")


def _values(data: Json) -> Iterator[str]:
    """The texts and numbers of data, and keys that look like names."""
    waiting = [data]
    while waiting:
        match waiting.pop():
            case dict() as value:
                waiting += value.values()
                yield from filter(_is_name, value)
            case list() as value:
                waiting += value
            case bool() | None:
                pass
            case str() | int() | float() as value:
                yield _text(value)


def _plain(text: str) -> str:
    return text.strip().strip(".:!?").casefold()


def _is_prose(plain: str) -> bool:
    return len(plain.split(None, _PROSE)) >= _PROSE


def _parts_of(plain: str) -> frozenset[str]:
    """The words of a text, and the numbers in it; of prose only those that look like names."""
    parts = _parts(plain)
    return frozenset(filter(_is_name, parts) if _is_prose(plain) else parts)


def _parts(plain: str) -> Iterator[str]:
    for token in _TOKEN.findall(plain):
        yield token.strip(".:!?")
    yield from (digits for digits in _DIGITS.findall(plain) if len(digits) >= _SHORT)


def _is_name(part: str) -> bool:
    """Whether a word is one that nobody can know who was not told: an address, an id, an amount."""
    return "@" in part or "://" in part or any(char.isdigit() for char in part)


def _stands_in(part: str, text: str) -> bool:
    """Whether a text stands in another as words of its own."""
    at = text.find(part)
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(part) : at + len(part) + 1]
        if not (before.isalnum() and part[0].isalnum()) and not (after.isalnum() and part[-1].isalnum()):
            return True
        at = text.find(part, at + 1)
    return False
