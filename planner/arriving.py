"""Steps of a plan while the plan still arrives: each as soon as its object is closed.

The text of an answer is fed in parts. What is given out is only what a step looks like so far: the whole answer is read
and checked anew when it is there, and that alone is the plan.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

__all__ = ["ArrivingSteps"]

_STEPS = re.compile(r'"steps"\s*:\s*\[')
_LONGEST = 4_000_000


class ArrivingSteps:
    """Reads the objects of the first `"steps": [...]` of an answer; each letter is looked at once."""

    def __init__(self) -> None:
        self._text = ""
        self._place = -1
        """Where the next letter to look at stands; before the list has begun, -1."""
        self._start = 0
        self._depth = 0
        self._inside = False
        self._over = False

    def feed(self, part: str) -> Iterator[dict[str, Any]]:
        """The steps that this part completes."""
        if self._over or not part:
            return
        self._text += part
        if self._place < 0:
            found = _STEPS.search(self._text)
            if found is None:
                self._over = len(self._text) > _LONGEST
                return
            self._place = found.end()
        yield from self._objects()

    def _objects(self) -> Iterator[dict[str, Any]]:
        text = self._text
        while self._place < len(text) and not self._over:
            letter = text[self._place]
            if self._inside and letter == "\\":
                if self._place + 1 == len(text):
                    return
                self._place += 1
            elif letter == '"':
                self._inside = not self._inside
            elif not self._inside:
                yield from self._structure(letter)
            self._place += 1

    def _structure(self, letter: str) -> Iterator[dict[str, Any]]:
        if letter in "{[":
            if self._depth == 0:
                self._start = self._place
            self._depth += 1
        elif letter in "}]":
            self._depth -= 1
            if self._depth < 0:
                self._over = True
            elif self._depth == 0:
                yield from _read(self._text[self._start : self._place + 1])


def _read(text: str) -> Iterator[dict[str, Any]]:
    try:
        value = json.loads(text)
    except ValueError:
        return
    if isinstance(value, dict):
        yield value
