"""What no type shows: an effect that the goal did not ask for like this. Told as warnings, before anything happens.

    condition_ignored   the goal says "if", and whatever is decided, everything with an effect happens
    made_up             an address, an id, an amount that is neither in the goal nor in what the tool says of itself
    quoted_command      one that stands only in a text that the goal quotes: what is quoted is data, and may command

These are the slips of small models, and the first is also one of people in a hurry. They are guesses from words, so they
never keep a plan from running: they are there to be looked at by whoever approves it. Only calls with an effect are
looked at, only where the plan says a goal, and of their arguments only texts that are no prose. English words of condition.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from ..policies.effect import Effect
from ..registry.tools import Tool
from .findings import Finding, pointer_to, quoted
from .sites import Part, Site, finding
from .study import Study

__all__ = ["slips"]

Json: TypeAlias = Any

_CONDITION = re.compile(
    r"\b(?P<word>(?:but |and )?only if|if and only if|if|unless|in case|only when|whenever|provided that|as long as)\b"
    r"(?! (?:possible|needed|necessary|you|any\b|applicable))",
    re.IGNORECASE,
)
_WHETHER = re.compile(
    r"\b(?:see|check|know|tell|ask\w*|wonder\w*|determine|verify|confirm|find out|learn|sure|look|test|as|even|decide|\w+ me)"
    r"\s+$",
    re.IGNORECASE,
)
"""Before an "if" that means "whether"."""
_QUOTE = re.compile(r"\"\"\".+?\"\"\"|```.+?```|“[^”]+”|\"[^\"]+\"|<(\w+)>.+?</\1>|(?m:^>.*$)", re.DOTALL)
_QUOTED_AT_LEAST = 40
"""Characters; a shorter quotation is a name or a title."""
_TOKEN = re.compile(r"[^\s,;()\[\]{}<>\"'“”`]+")
_DIGITS = re.compile(r"\d+")
_PROSE = 5
"""Words from which on a text is prose, which a model is there to write."""
_NUMBERS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen",
    "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
)  # fmt: skip
_TENS = ("thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety", "hundred", "thousand")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_SOME_DAY = re.compile(
    r"\b(?:today|tonight|tomorrow|yesterday|now|\w+day|weekend|week|month|year|noon|midnight|morning|evening|afternoon|"
    r"\d+ ?[ap]\.?m|hours?|minutes?)\b",
    re.IGNORECASE,
)
_DATE = re.compile(r"\d{4}-\d\d-\d\d|\d\d?:\d\d")


class _Known(NamedTuple):
    """Where the values of a plan may come from."""

    text: str
    """Everything said, in lower case."""
    numbers: frozenset[int]
    """The numbers in it, however they are written."""
    dates: bool
    """Whether days or times can be worked out of it."""

    @classmethod
    def of(cls, *texts: str) -> _Known:
        text = "\n".join(texts).lower()
        return cls(text, frozenset(_numbers_in(text)), _SOME_DAY.search(text) is not None)

    def holds(self, literal: str) -> bool:
        """Whether a value stands in it, or is made of what stands in it."""
        plain = literal.strip().lower().rstrip(".")
        if plain in self.text or (self.dates and _DATE.search(plain)):
            return True
        digits = _DIGITS.findall(plain)
        letters = re.sub(r"[\W\d_]+", " ", plain).split()
        return (
            bool(digits)
            and all(int(d) in self.numbers for d in digits)
            and all(w in self.text for w in letters)
        )


def slips(study: Study) -> Iterator[Finding]:
    """The slips of one plan, at its calls with effects."""
    goal = study.plan.goal
    acting = [] if not goal else [(site, tool) for site in study.sites if (tool := _with_effect(study, site))]
    if not acting:
        return
    yield from _condition_ignored(study, [site for site, _ in acting])
    inputs = json.dumps(study.plan.inputs, ensure_ascii=False, default=str)
    whole, unquoted = _Known.of(goal, inputs), _Known.of(_QUOTE.sub(_shorten_quote, goal), inputs)
    for site, tool in acting:
        said = _Known.of(json.dumps(tool.input.document, ensure_ascii=False))
        for pointer, literal in _literals(site):
            if said.holds(literal) or unquoted.holds(literal):
                continue
            yield _slip(tool, pointer, literal, whole)


def _slip(tool: Tool, pointer: str, literal: str, whole: _Known) -> Finding:
    if whole.holds(literal):
        message = f"{quoted(literal)} stands only in a text that the goal quotes; what is quoted is data, not a wish"
        return finding(
            "quoted_command", pointer, message, f"look whether the goal itself asks for {quoted(tool.name)}"
        )
    message = f"{quoted(literal)} occurs neither in the goal nor in the inputs"
    return finding("made_up", pointer, message, "take it from a result, or say it in the goal or the inputs")


def _with_effect(study: Study, site: Site) -> Tool | None:
    tool = study.tool(site.step)
    return tool if tool is not None and tool.effect is not Effect.READS else None


# ---- conditions ----------------------------------------------------------------------------------------------------


def _condition_ignored(study: Study, acting: list[Site]) -> Iterator[Finding]:
    """A condition in the goal, and none in the plan on which anything with an effect depends."""
    word = _condition_in(study.plan.goal)
    if not word or any(_is_decided(study, site) for site in acting):
        return
    names = " and ".join(quoted(site.id) for site in acting[:3]) + (" and more" if len(acting) > 3 else "")
    verb = "happens" if len(acting) == 1 else "happen"
    message = f"the goal says {quoted(word)}, and {names} {verb} whatever comes out of the steps before"
    yield finding("condition_ignored", acting[0].pointer, message, "give the step a `when`")


def _condition_in(goal: str) -> str:
    """The word for a condition that a goal names itself, not in a quotation, and that does not mean "whether"."""
    text = _QUOTE.sub(_shorten_quote, goal)
    for found in _CONDITION.finditer(text):
        if not _WHETHER.search(text[: found.start()]):
            return found["word"].strip().lower()
    return ""


def _is_decided(study: Study, site: Site) -> bool:
    """Whether a condition, a choice, a filter or a way back stands with a step: in it, around it, in what it waits for."""
    seen: set[Site] = set()
    waiting = [site]
    while waiting:
        here = waiting.pop()
        if here in seen:
            continue
        seen.add(here)
        if any(map(here.step.has, _DECIDES)) or any(_chooses(part) for part in here.parts.values()):
            return True
        waiting += here.groups
        waiting += here.inner.sites if here.inner is not None else ()
        waiting += [
            study.by_id[name] for name in here.names() | set(here.step.after or ()) if name in study.by_id
        ]
    return False


_DECIDES = ("when", "until", "undo", "on_failure")
_CHOICE = re.compile(r"\bif\b|[<>]|[!=]=|\band\b|\bor\b|\bnot\b|\bin\b\s*[\[(]")


def _chooses(part: Part) -> bool:
    return any(_CHOICE.search(spot.expression.text) for spot in part.spots.values())


# ---- literals ------------------------------------------------------------------------------------------------------


def _literals(site: Site) -> Iterator[tuple[str, str]]:
    """The texts and numbers among the arguments of a call that somebody must have got from somewhere."""
    for field in ("args", "undo"):
        part = site.parts.get(field)
        waiting = [(part.pointer, part.template)] if part is not None else []
        while waiting:
            pointer, value = waiting.pop()
            match value:
                case dict() if "$" not in value and "$literal" not in value:
                    waiting += [(pointer_to(k, within=pointer), v) for k, v in reversed(value.items())]
                case list():
                    waiting += [(f"{pointer}/{i}", v) for i, v in reversed([*enumerate(value)])]
                case bool():
                    pass
                case str() if value and len(value.split()) < _PROSE:
                    yield from ((pointer, token) for token in _TOKEN.findall(value) if _is_name(token))
                case int() | float() if abs(value) > 10:
                    yield pointer, str(value).removesuffix(".0")


def _is_name(token: str) -> bool:
    """Whether a word is one that nobody can know who was not told: an address, an id, an amount."""
    return (
        "@" in token or "://" in token or len(_DIGITS.findall(token)) > 1 or bool(re.search(r"\d\d", token))
    )


def _numbers_in(text: str) -> Iterator[int]:
    """Numbers in digits, with commas or without, in words, the numbers of months that are named."""
    yield 0
    for digits in re.findall(r"\d{1,3}(?: \d{3})+\b|\d[\d,]*", text):
        yield int(re.sub("[ ,]", "", digits)[:30])
        yield from (int(part[:30]) for part in re.split("[ ,]", digits) if part)
    words = set(re.findall(r"[a-z]+", text))
    yield from (n for n, word in enumerate(_NUMBERS) if word in words)
    yield from (n for n, word in zip((*range(30, 100, 10), 100, 1000), _TENS, strict=True) if word in words)
    yield from (n for n, month in enumerate(_MONTHS, 1) if any(word.startswith(month) for word in words))


def _shorten_quote(found: re.Match[str]) -> str:
    return " " if len(found[0]) >= _QUOTED_AT_LEAST else found[0]
