"""Text of an expression into tokens: the same on every Python, and never slower than the text is long.

Python's own tokenizer is not used. It differs between versions in f-strings, warns about escapes, gives up on deep
brackets and refuses keys that are keywords; see `docs/decisions/0007`. An f-string is cut up here, in place, so that
every token knows its offset in the whole text:

    f'{p.name:>10} owes'    FTEXT with parts  Field(tokens of "p.name", format ">10"), " owes"

Offsets count characters.
"""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple, NoReturn

from .errors import ExpressionError

__all__ = ["LONGEST", "Field", "Token", "tokens"]

Kind = Literal["name", "number", "text", "ftext", "op", "slip", "end"]

LONGEST = 20_000
"""Characters in one expression."""
_NESTED = 50
"""Brackets inside brackets; fields of f-strings count."""
_DIGITS = 1_000
"""Digits of one number."""


class Token(NamedTuple):
    """One word of an expression. `slip` is a sign that other languages have and this one does not."""

    kind: Kind
    text: str
    start: int
    end: int
    value: Any = None


class Field(NamedTuple):
    """One `{…}` of an f-string."""

    tokens: list[Token]
    format: str
    start: int
    end: int


_NEXT = re.compile(
    r"""
    (?P<quote>(?:[rRuUbBfF]{1,2})?(?:\"\"\"|'''|["']))
  | (?: (?P<name>[^\W\d]\w*)
      | (?P<number>(?:[0-9]|\.[0-9])(?:[eE][+-]|[\w.])*)
      | (?P<slip>===|!==|&&|\|\||\?\?|\?\.|=>|->|:=|<<|>>|<>|\.\.\.|!(?!=)|[?$@&|^~;`\\#])
      | (?P<op>\*\*|//|==|!=|<=|>=|[-+*/%()\[\]{},:.<>=])
    ) [ \t\r\n\f]*
  | (?P<space>[ \t\r\n\f]+)
    """,
    re.VERBOSE,
)
"""A token with the space behind it; a text keeps its spaces."""
_FIELD_END = re.compile(r"[}:]|!(?!=)")
_CONVERSION = re.compile(r"!\w*")
_FORMAT = re.compile(r":([^{}\n'\"]*)")
_NUMBER = re.compile(
    r"(?:[0-9](?:_?[0-9])*(?:\.(?:[0-9](?:_?[0-9])*)?)?|\.[0-9](?:_?[0-9])*)(?:[eE][+-]?[0-9](?:_?[0-9])*)?"
)
_WHOLE = re.compile(r"0(?:_?0)*|[1-9](?:_?[0-9])*")
_BAD = re.compile("[\0\ud800-\udfff]")
_SIMPLE = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "b": "\b",
    "f": "\f",
    "v": "\v",
    "a": "\a",
}
_CODED = {"x": 2, "u": 4, "U": 8}
_OPEN = frozenset("([{")
_CLOSE = frozenset(")]}")


def tokens(text: str) -> list[Token]:
    """The tokens of an expression, the last one of kind `end`. Raises `ExpressionError`."""
    if len(text) > LONGEST:
        raise ExpressionError(
            "too_long", f"this expression has {len(text):,} characters; {LONGEST:,} are the most", LONGEST
        )
    bad = _BAD.search(text)
    if bad:
        raise ExpressionError(
            "bad_text", f"this expression holds the character {bad[0]!r}, which is no text", bad.start()
        )
    return _Lexer(text).run(0, inside=False)


class _Lexer:
    """Reads one text from left to right. `depth` is how many brackets and fields are open."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.depth = 0
        self.at = 0

    def run(self, start: int, *, inside: bool) -> list[Token]:
        """Tokens from `start` to the end of the text, or, `inside` a field of an f-string, to the end of the field."""
        self.at = start
        found: list[Token] = []
        outer = self.depth
        while self.at < len(self.text):
            if inside and self.depth == outer and _FIELD_END.match(self.text, self.at):
                break
            match = _NEXT.match(self.text, self.at)
            if match is None:
                self._fail("syntax", f"{self.text[self.at]!r} has no meaning in an expression", self.at)
            if match.lastgroup != "space":
                found.append(self._token(match, match.lastgroup))
            else:
                self.at = match.end()
        found.append(Token("end", "", self.at, self.at))
        return found

    def _token(self, match: re.Match[str], kind: Any) -> Token:
        start, end = match.span(kind)
        text: str = match[kind]
        self.at = match.end()
        if kind == "quote":
            return self._quoted(text, start)
        value = None
        if kind == "number":
            value = self._number(text, start)
        elif kind == "op":
            self._count(text, start)
        return tuple.__new__(Token, (kind, text, start, end, value))  # half the time of its own constructor

    def _count(self, sign: str, start: int) -> None:
        if sign in _OPEN:
            self._deeper(start)
        elif sign in _CLOSE:
            self.depth -= 1

    def _deeper(self, start: int) -> None:
        self.depth += 1
        if self.depth > _NESTED:
            self._fail(
                "too_deep",
                f"brackets are nested more than {_NESTED} deep; put the inner part into a value step",
                start,
            )

    def _number(self, text: str, start: int) -> int | float:
        if len(text) > _DIGITS:
            self._fail(
                "bad_number",
                f"a number of {len(text):,} characters is too long; {_DIGITS:,} are the most",
                start,
            )
        if not _NUMBER.fullmatch(text):
            self._fail("bad_number", f"{text[:40]!r} is not a number", start, _number_hint(text))
        if _WHOLE.fullmatch(text):
            return int(text)
        if text.isdigit():
            self._fail(
                "bad_number", f"{text[:40]!r} is not a number: it starts with 0", start, text.lstrip("0")
            )
        value = float(text)
        if value in (float("inf"), float("-inf")):
            self._fail("bad_number", f"{text[:40]} is too large for a number", start)
        return value

    def _quoted(self, opening: str, start: int) -> Token:
        prefix = opening.rstrip("\"'").lower()
        quote = opening[len(prefix) :]
        if prefix not in ("", "r", "u", "f", "rf", "fr"):
            self._fail(
                "not_in_language", f"{prefix}'…' is not a text of the language", start, "leave the prefix out"
            )
        if "f" in prefix:
            parts = self._fparts(quote, start, raw="r" in prefix)
            return Token("ftext", self.text[start : self.at], start, self.at, parts)
        value, _ = self._literal(quote, start, raw="r" in prefix, fields=False)
        return Token("text", self.text[start : self.at], start, self.at, value)

    def _literal(self, quote: str, start: int, *, raw: bool, fields: bool) -> tuple[str, bool]:
        """Text up to the closing quote, which is consumed, or up to the `{` of a field, which is not; and whether closed."""
        text, out = self.text, []
        stop = _STOPS[quote, fields]
        while True:
            match = stop.search(text, self.at)
            if match is None:
                self._fail("bad_string", "this text is not closed", start, f"a closing {quote}")
            out.append(text[self.at : match.start()])
            self.at = match.end()
            sign = match[0]
            if sign == quote:
                return "".join(out), True
            if sign == "\n":
                self._fail(
                    "bad_string", "this text is not closed on its line; write \\n for a new line", start
                )
            if sign == "\\":
                out.append(self._escape(match.start(), quote, raw=raw))
            elif sign in ("{{", "}}"):
                out.append(sign[0])
            elif sign == "}":
                self._fail(
                    "bad_string", "a single } in an f-string; write }} for the sign itself", match.start()
                )
            else:  # the { of a field
                self.at = match.start()
                return "".join(out), False

    def _escape(self, start: int, quote: str, *, raw: bool) -> str:
        sign = self.text[self.at : self.at + 1]
        if not sign:
            self._fail("bad_string", "this text is not closed", start)
        if raw:
            if sign == "\n" and len(quote) == 1:
                self._fail(
                    "bad_string", "this text is not closed on its line; write \\n for a new line", start
                )
            if sign in "{}":
                return "\\"  # in a raw f-string the field follows the backslash
            self.at += 1
            return "\\" + sign
        self.at += 1
        if sign in _SIMPLE:
            return _SIMPLE[sign]
        if sign in _CODED:
            return self._coded(start, _CODED[sign])
        if sign == "0" and not self.text[self.at : self.at + 1].isdigit():
            return "\0"
        self._fail(
            "bad_string", f"\\{sign} is no escape of the language", start, f"\\\\{sign} for a backslash"
        )

    def _coded(self, start: int, length: int) -> str:
        digits = self.text[self.at : self.at + length]
        if len(digits) < length or not re.fullmatch("[0-9a-fA-F]+", digits):
            self._fail("bad_string", f"this escape needs {length} hexadecimal digits", start)
        code = int(digits, 16)
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            self._fail("bad_string", f"{self.text[start : self.at + length]} is no character", start)
        self.at += length
        return chr(code)

    def _fparts(self, quote: str, start: int, *, raw: bool) -> list[str | Field]:
        parts: list[str | Field] = []
        while True:
            literal, closed = self._literal(quote, start, raw=raw, fields=True)
            parts.append(literal)
            if closed:
                return parts
            parts.append(self._field())

    def _field(self) -> Field:
        start, outer = self.at, self.depth
        self._deeper(start)
        found = self.run(start + 1, inside=True)
        conversion = self._conversion()
        form = self._format() if self.text[self.at : self.at + 1] == ":" else ""
        if self.text[self.at : self.at + 1] != "}":
            self._fail(
                "bad_string",
                "this { of an f-string is not closed",
                start,
                "a closing }, or {{ for the sign itself",
            )
        self.depth = outer
        self.at += 1
        if len(found) == 1:
            self._fail(
                "bad_string", "an f-string with nothing in its { }", start, "{{ }} for the signs themselves"
            )
        if conversion not in ("", "!s"):
            self._fail("not_in_language", f"{conversion} is not part of the language", start, "leave it out")
        return Field(found, form, start, self.at)

    def _conversion(self) -> str:
        match = _CONVERSION.match(self.text, self.at)
        if match is None:
            return ""
        self.at = match.end()
        return match[0]

    def _format(self) -> str:
        match = _FORMAT.match(self.text, self.at)
        assert match is not None
        if self.text[match.end() : match.end() + 1] == "{":
            self._fail(
                "not_in_language",
                "a format cannot be computed",
                match.end(),
                "write the format out, as in {x:.2f}",
            )
        self.at = match.end()
        return match[1]

    def _fail(self, code: str, message: str, offset: int, suggestion: str = "") -> NoReturn:
        raise ExpressionError(code, message, offset, suggestion)


def _stop(quote: str, fields: bool) -> re.Pattern[str]:
    parts = [quote, r"\\"]
    if len(quote) == 1:
        parts.append("\n")
    if fields:
        parts += [r"\{\{", r"\}\}", r"\{", r"\}"]
    return re.compile("|".join(parts))


_STOPS = {(q, f): _stop(q, f) for q in ("'", '"', "'''", '"""') for f in (False, True)}


def _number_hint(text: str) -> str:
    name = re.fullmatch(r"\.([0-9]+)((?:\.\w+)*)", text)
    if name:
        return f"[{name[1]}]{name[2]} for an element of a list"
    if re.fullmatch(r"0[xXoObB]\w+", text):
        try:
            return str(int(text, 0))
        except ValueError:
            return ""
    return ""
