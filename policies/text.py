"""Text for people: nearest names for messages, and `safe_text` for everything that is shown.

What a tool, a plan or a file says may carry bytes that move the cursor, reorder a line or hide words. Nothing is shown
before `safe_text` has turned every such character into a visible escape; the result is plain text (never markup).

    shown as it is      letters, marks, digits, signs, spaces, newline, tab
    shown as an escape  C0 and C1 controls, DEL, ESC, bidirectional controls, zero-width and invisible characters,
                        line and paragraph separators, lone surrogates, private use, noncharacters

Source: Unicode Technical Report 36 and "Trojan Source", Boucher and Anderson, 2021.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher

__all__ = ["count", "did_you_mean", "nearest", "safe_text", "shorten", "with_article"]

_HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but tab and newline, DEL, C1
    "\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164"  # zero width, bidirectional, separators, fillers
    "\ud800-\udfff\ue000-\uf8ff"  # surrogates, private use
    "\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U000110bd\U000110cd\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U0001fffe-\U0001ffff\U0002fffe-\U0002ffff\U0003fffe-\U0003ffff\U0004fffe-\U0004ffff"
    "\U0005fffe-\U0005ffff\U0006fffe-\U0006ffff\U0007fffe-\U0007ffff\U0008fffe-\U0008ffff"
    "\U0009fffe-\U0009ffff\U000afffe-\U000affff\U000bfffe-\U000bffff\U000cfffe-\U000cffff"
    "\U000dfffe-\U000dffff\U000e0000-\U0010ffff"  # tags, variation selectors, private planes
)
_ESCAPED = re.compile(f"[{_HIDDEN}]")
_SEPARATORS = re.compile(r"[\s_.\-:/]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SPACES = re.compile(r"\s+")

_LONGEST = 80
"""Names are compared by their first characters only: a name of 1 MB must not cost a second."""
_MANY = 5000
"""So many names are looked at; a suggestion is a courtesy, not a search engine."""


def safe_text(text: object, limit: int | None = None) -> str:
    """Text that can be shown anywhere: what cannot be seen, or moves what can, becomes a visible escape.

    Newline and tab stay. With `limit`, at most so many characters, the last one then an ellipsis.
    """
    plain = _as_text(text)
    if limit is None:
        return _ESCAPED.sub(_escape, plain)
    return _cut(_ESCAPED.sub(_escape, plain[: limit + 1]), limit)


def shorten(text: object, limit: int = 80) -> str:
    """One safe line of at most `limit` characters: white space becomes single spaces, a cut ends in an ellipsis."""
    plain = _as_text(text)
    line = _SPACES.sub(" ", plain[: 4 * limit + 64]).strip()
    rest = "…" if len(plain) > 4 * limit + 64 else ""
    return _cut(_ESCAPED.sub(_escape, line) + rest, limit)


def nearest(name: str, names: Iterable[str], most: int = 3) -> list[str]:
    """Those of `names` that a writer of `name` most likely meant, the likeliest first; often none.

    Other case and separators (`userId`, `user_id`), other order of words, and prefixes count as near.
    """
    wanted = _Spelling(name)
    ranked: list[tuple[float, int, str]] = []
    for place, candidate in enumerate(names):
        if place >= _MANY:
            break
        score = wanted.likeness(candidate)
        if score > 0 and candidate != name:
            ranked.append((-score, place, candidate))
    return [candidate for _, _, candidate in sorted(ranked)[:most]]


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: `; did you mean 'x' or 'y'?`, or nothing."""
    found = [repr(shorten(n, 60)) for n in nearest(name, names)]
    return f"; did you mean {' or '.join(found)}?" if found else ""


class _Spelling:
    """A name cut up once, to be compared with many."""

    def __init__(self, name: str) -> None:
        self.words = _words(name)
        self.joined = "".join(self.words)
        self.matcher = SequenceMatcher(None, "", self.joined, autojunk=False)

    def likeness(self, other: str) -> float:
        """From 0 (another name) to 1 (the same but for case and separators)."""
        words = _words(other)
        joined = "".join(words)
        if not joined or not self.joined:
            return 0.0
        if joined == self.joined:
            return 1.0
        if sorted(words) == sorted(self.words):
            return 0.95
        return max(self._part(words, joined), self._ratio(joined))

    def _part(self, words: list[str], joined: str) -> float:
        ours, theirs = (self.joined, self.words), (joined, words)
        (short, _), (long, parts) = sorted((ours, theirs), key=lambda pair: len(pair[0]))
        if len(short) >= 3 and long.startswith(short):
            return 0.75 + 0.2 * len(short) / len(long)
        if len(short) >= 3 and parts[-1] == short:
            return 0.7 + 0.2 * len(short) / len(long)
        return 0.0

    def _ratio(self, joined: str) -> float:
        # Cheap upper bounds first: nearly every name is ruled out by its length or its letters.
        shorter, longer = sorted((len(joined), len(self.joined)))
        if 2 * shorter < 0.66 * (shorter + longer):
            return 0.0
        self.matcher.set_seq1(joined)
        if self.matcher.quick_ratio() < 0.66:
            return 0.0
        ratio = self.matcher.ratio()
        return ratio if ratio >= 0.66 else 0.0


def _words(name: str) -> list[str]:
    spaced = _CAMEL.sub("_", name[:_LONGEST])
    return [word.casefold() for word in _SEPARATORS.split(spaced) if word]


def _as_text(text: object) -> str:
    if type(text) is str:
        return text
    try:
        return "".join(str(text))  # joined: a subclass of str would bring methods of its own
    except Exception:
        return f"<{type(text).__name__} that cannot be shown>"


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x100:
        return {9: "\\t", 10: "\\n", 13: "\\r"}.get(code, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: max(limit - 1, 0)] + "…"[:limit]


def with_article(noun: str) -> str:
    """A word with its article, by its first letter: `a step`, `an int`."""
    return f"{'an' if noun[:1] in 'aeiouAEIOU' else 'a'} {noun}"


def count(number: int, one: str, many: str = "") -> str:
    """A number and what it counts: `1 step`, `2 steps`, `1,000 calls`."""
    said = number if type(number) is int and 0 <= number < 1000 else f"{number:,}"
    return f"{said} {one if number == 1 else many or one + 's'}"
