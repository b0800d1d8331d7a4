"""Secrets that do not show themselves, and the scrubber that finds those that a tool let out.

A tool may put what it was given anywhere: into its result, into the text of an exception, encoded by the library that
it uses. A text is searched as it is and in its other readings (unfolded, percent-decoded, unescaped, one of them after
another), each for these traces of every secret:

    the secret itself      in small letters too (names of hosts), and each long line of one of several lines (a key in PEM)
    base64                 standard and URL-safe, at each of the three places it can have inside longer encoded data
    hex                    in small and in capital letters

What is found is replaced by `[secret NAME]`. Where it stands in an encoding that cannot be cut out, the whole text is.
A text that was cut off ("…") within a secret is seen too.
"""

from __future__ import annotations

import hmac
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple, NoReturn, final
from urllib.parse import unquote

from .errors import SecretRefused
from .spelling import spelled
from .text import with_article

__all__ = ["SHORTEST", "Scrubber", "Secret"]

SHORTEST = 8
"""Characters: shorter ones would be found in texts where they do not stand for the secret."""

_SHOWN = "Secret('***')"


@final
class Secret:
    """A text that shows itself only when asked with `reveal()`: not by repr, str, format, JSON, pickle or pydantic.

    Two are equal where their texts are; it takes as long to find out whatever they are. Raises `SecretRefused` for less
    than 8 characters.
    """

    __slots__ = ("__text", "name")

    name: str
    __text: str

    @spelled
    def __init__(self, value: str, name: str = "") -> None:
        if not isinstance(value, str):
            raise SecretRefused(
                f"a secret is a text, not {with_article(type(value).__name__)}; decode it first"
            )
        if len(value.strip()) < SHORTEST:
            raise SecretRefused(
                f"a secret must have at least {SHORTEST} characters: a shorter one would be found in texts where it "
                "does not stand for the secret"
            )
        try:
            value.encode()
        except UnicodeEncodeError:
            raise SecretRefused("a secret must be text that has a UTF-8 form") from None
        object.__setattr__(self, "_Secret__text", value)
        object.__setattr__(self, "name", name)

    def reveal(self) -> str:
        """The text."""
        return self.__text

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a Secret does not change")

    def __repr__(self) -> str:
        return _SHOWN

    def __format__(self, spec: str) -> str:
        return format(_SHOWN, spec)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self.__text.encode(), other.__text.encode())

    def __hash__(self) -> int:
        return hash((Secret, self.__text))

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a Secret cannot be pickled; hand on its name, and resolve it where it is used")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            lambda value: value if isinstance(value, Secret) else Secret(value),
            serialization=core_schema.plain_serializer_function_ser_schema(repr, when_used="json"),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> NoReturn:
        from pydantic.errors import PydanticInvalidForJsonSchema

        raise PydanticInvalidForJsonSchema("a Secret has no JSON form")


_LEAST_CUT = 4
"""So much of a secret before the "…" of a text that was cut is taken for its beginning."""
_LONG_LINE = 16
_CUTS = 10_000
"""So many ellipses of a text are looked at: what foreplan itself cuts off is short."""
_TURNS = 3
"""Traces as they are, escaped ones, and once more what a replacement makes with what stands beside it."""
_KEPT = 256
"""Values kept of one secret, the newest: of one that changes at each call those of the calls under way are among them."""


class Scrubber:
    """Replaces secrets in texts and JSON. False while it knows none; what holds none comes back as the same object."""

    def __init__(self) -> None:
        self._known: dict[str, dict[Secret, _Traces]] = {}
        self._all: tuple[_Traces, ...] = ()
        self._needles: tuple[str, ...] = ()
        self._numeric = self._spaced = False

    def __bool__(self) -> bool:
        return bool(self._all)

    def __repr__(self) -> str:
        return f"<Scrubber of {len(self._known)} secret{'' if len(self._known) == 1 else 's'}>"

    def add(self, secret: Secret) -> bool:
        """Know this one from now on; values it had before stay known. Whether it is new."""
        values = self._known.setdefault(secret.name, {})
        if secret in values:
            return False
        values[secret] = _Traces(secret)
        while len(values) > _KEPT:
            del values[next(iter(values))]
        every = [traces for values in self._known.values() for traces in values.values()]
        self._all = tuple(sorted(every, key=lambda traces: -len(traces.text)))
        self._needles = tuple(trace.text for traces in self._all for trace in traces.all)
        self._numeric = any(map(str.isdecimal, self._needles))
        self._spaced = any(" " in traces.text for traces in self._all)
        return True

    def names_in(self, value: Any) -> list[str]:
        """The names of the secrets that a text or JSON value holds."""
        texts: list[str] = []
        _collect(value, texts, self._numeric)
        return list(dict.fromkeys(traces.name for traces in self._present("\0".join(texts))))

    def scrub_text(self, text: str) -> str:
        """The text without secrets."""
        if not self._all:
            return text
        present = self._present(text)
        for turn in range(_TURNS):
            for traces in present:
                text = traces.unescaped(self._readings(text)) if turn == 1 else traces.replaced(text)
            present = self._present(text) if present else present
        if not present:
            return text
        return "***" if self._present(present[0].stand_in) else present[0].stand_in

    def scrub(self, value: Any) -> Any:
        """A plain JSON value without secrets, keys included; numbers made of the digits of one become text."""
        if not self._all:
            return value
        texts: list[str] = []
        _collect(value, texts, self._numeric)
        return self._rewritten(value) if texts and self._present("\0".join(texts)) else value

    def _present(self, text: str) -> list[_Traces]:
        """The secrets that are in the text, the longest first."""
        if _MARKS.search(text) is None:  # most texts are short and have one reading
            for needle in self._needles:
                if needle in text:
                    break
            else:
                return []
        readings = self._readings(text)
        return [traces for traces in self._all if traces.within(readings)]

    def _readings(self, text: str) -> tuple[str, ...]:
        return tuple(_readings(text, self._spaced))

    def _rewritten(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.scrub_text(value)
        if isinstance(value, dict):
            out: dict[str, Any] = {}
            for key, item in value.items():
                out[_free(self.scrub_text(key), out)] = self._rewritten(item)
            return out
        if isinstance(value, list | tuple):
            return [self._rewritten(item) for item in value]
        if self._numeric and _is_number(value):
            text = repr(value)
            clean = self.scrub_text(text)
            return value if clean == text else clean
        return value


class _Trace(NamedTuple):
    """One text by which a secret is recognised, and what is to be taken out together with it."""

    text: str
    around: tuple[str, str] = ("", "")
    """Patterns of what stands before and after it and holds a few bits of the secret."""

    @property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(self.around[0] + re.escape(self.text) + self.around[1])

    @property
    def escaped(self) -> re.Pattern[str]:
        """With any of its characters percent-encoded or escaped."""
        return re.compile("".join(map(_any_way, self.text)))


class _Traces:
    """All by which one secret is recognised."""

    def __init__(self, secret: Secret) -> None:
        self.name = secret.name
        self.text = secret.reveal()
        self.stand_in = f"[secret {secret.name}]" if secret.name else "[secret]"
        found = [trace for part in _parts(self.text) for trace in _encodings(part)]
        self.all = tuple({trace.text: trace for trace in found}.values())

    def within(self, readings: tuple[str, ...]) -> bool:
        """Whether it is in one of these readings of a text, or the text was cut off within it."""
        for trace in self.all:
            for reading in readings:
                if trace.text in reading:
                    return True
        return "…" in readings[0] and bool(self._cut_off(readings[0]))

    def replaced(self, text: str) -> str:
        """The text without its traces as they are, and without its beginnings where the text was cut off."""
        for trace in self.all:
            if trace.text in text:
                text = trace.pattern.sub(self._stands_in, text)
        return self._whole(text) if "…" in text else text

    def _whole(self, text: str) -> str:
        """The text without the beginnings of traces."""
        pieces, last = [], 0
        for start, end in self._cut_off(text):
            pieces += [text[last:start], self.stand_in]
            last = end
        return "".join([*pieces, text[last:]])

    def unescaped(self, readings: tuple[str, ...]) -> str:
        """The first reading without the traces that the others have."""
        text = readings[0]
        for trace in self.all:
            if any(trace.text in reading for reading in readings[1:]):
                text = trace.escaped.sub(self._stands_in, text)
        return text

    def _stands_in(self, match: re.Match[str]) -> str:
        return self.stand_in

    def _cut_off(self, text: str) -> list[tuple[int, int]]:
        """Where the text was cut off within a trace: a beginning of it stands before an ellipsis."""
        likely = [trace.text for trace in self.all if trace.text[:_LEAST_CUT] in text]
        ends = [found.start() for found in islice(re.finditer("…", text), _CUTS if likely else 0)]
        starts = [(min(_beginnings(text, end, likely), default=end), end) for end in ends]
        return [(start, end) for start, end in starts if start < end]


def _parts(text: str) -> Iterator[str]:
    """The text, and its long lines where it has several."""
    yield text.strip()
    lines = text.split("\n")
    for line in (each.strip() for each in lines if len(lines) > 1):
        if len(line) >= _LONG_LINE and not line.startswith("-----"):
            yield line


_SIGN = "[A-Za-z0-9+/_-]?"


def _encodings(text: str) -> Iterator[_Trace]:
    data = text.encode()
    yield from (_Trace(text), _Trace(text.lower()))
    yield from (_Trace(data.hex()), _Trace(data.hex().upper()))
    for before in range(3):
        code = b64encode(b"\0" * before + data + b"\0\0\0").decode()
        inside = code[-(-8 * before // 6) : 8 * (before + len(data)) // 6]
        around = _SIGN if before else "", (_SIGN if (before + len(data)) % 3 else "") + "={0,2}"
        yield _Trace(inside, around)
        yield _Trace(inside.replace("+", "-").replace("/", "_"), around)


def _beginnings(text: str, end: int, traces: Iterable[str]) -> Iterator[int]:
    """Where a beginning of one of the traces starts that ends at this place."""
    for trace in traces:
        start = text.find(trace[:_LEAST_CUT], max(0, end - len(trace)), end)
        while start >= 0 and not trace.startswith(text[start:end]):
            start = text.find(trace[:_LEAST_CUT], start + 1, end)
        if start >= 0:
            yield start


# --- Readings of a text: what it says once an encoding is undone.

_MARKS = re.compile(r"[\r\n%\\+…]")
"""Where none of these stands, a text has one reading only and was not cut off."""
_FOLD = re.compile(r"[\r\n]\s*")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|U(0[0-9a-fA-F]{7}))")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_SHORT = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", '"': '"', "'": "'", "/": "/"}
_HELD = "\uf8ff"
"""Stands for a backslash that was escaped, while others are undone."""


def _unfolded(text: str) -> str:
    return _FOLD.sub("", text) if "\n" in text or "\r" in text else text


def _unquoted(text: str) -> str:
    return unquote(text) if "%" in text else text


def _unplussed(text: str) -> str:
    return unquote(text.replace("+", " ")) if "+" in text else text


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    text = text.replace("\\\\", _HELD)
    for short, meant in _SHORT.items():
        text = text.replace(f"\\{short}", meant)
    text = _PAIR.sub(_joined, _ESCAPE.sub(_meant, text))
    return text.replace(_HELD, "\\")


def _meant(match: re.Match[str]) -> str:
    code = int(match[1] or match[2] or match[3], 16)
    return chr(code) if code < 0x110000 else match[0]


def _joined(pair: re.Match[str]) -> str:
    return pair[0].encode("utf-16", "surrogatepass").decode("utf-16")


_UNDO: tuple[Callable[[str], str], ...] = (_unfolded, _unquoted, _unescaped)


def _readings(text: str, spaced: bool) -> Iterator[str]:
    """The text as it is and with up to three encodings undone: JSON in JSON in JSON."""
    seen = {text: None}
    undo = (*_UNDO, _unplussed) if spaced else _UNDO
    latest = [text]
    for _ in range(3):
        latest = [found for each in latest for step in undo if (found := step(each)) is not each]
        latest = [found for found in dict.fromkeys(latest) if found not in seen]
        seen |= dict.fromkeys(latest)
    return iter(seen)


_SLASHES = r"\\{1,8}"
"""A backslash, in JSON in JSON in JSON too."""


def _any_way(sign: str) -> str:
    """A pattern for one character as it is, percent-encoded, or escaped as JSON and Python do it."""
    code = ord(sign)
    ways = ["".join(f"%(?i:{byte:02x})" for byte in sign.encode())]
    ways += ["".join(f"{_SLASHES}u(?i:{unit:04x})" for unit in _units(code))]
    ways += [f"{_SLASHES}x(?i:{code:02x})"] if code < 256 else []
    ways += [f"{_SLASHES}U(?i:{code:08x})"] if code > 0xFFFF else []
    ways += [f"{_SLASHES}{short}" for short, meant in _SHORT.items() if meant == sign]
    ways += [_SLASHES] if sign == "\\" else []
    ways += [r"\+"] if sign == " " else []
    return f"(?:{'|'.join([*ways, re.escape(sign)])})"


def _units(code: int) -> tuple[int, ...]:
    """The UTF-16 code units of a character."""
    if code < 0x10000:
        return (code,)
    return 0xD800 + (code - 0x10000 >> 10), 0xDC00 + (code - 0x10000 & 0x3FF)


# --- JSON


def _collect(value: Any, texts: list[str], numbers: bool) -> None:
    """All texts in a value, keys among them; the digits of numbers too, where they matter."""
    if isinstance(value, str):
        texts.append(value)
    elif isinstance(value, dict):
        texts += value
        for item in value.values():
            _collect(item, texts, numbers)
    elif isinstance(value, list | tuple):
        for item in value:
            _collect(item, texts, numbers)
    elif numbers and _is_number(value):
        texts.append(repr(value))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _free(key: str, taken: dict[str, Any]) -> str:
    """The key, with a number where two have become the same."""
    free, n = key, 2
    while free in taken:
        free, n = f"{key} {n}", n + 1
    return free
