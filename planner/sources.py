"""Text into plain JSON, strictly: YAML with JSON's scalar rules, or JSON; every refusal has a line and a column.

    bytes --decode--> text --+-- { or [ or .json --> C scanner, then our own walk for the place of a fault
                             +-- else ------------> YAML events (libyaml where it is built in), one pass

YAML here is JSON in lighter clothes: plain `null true false` and numbers of JSON's grammar are what they are in JSON,
everything else (`no`, `on`, `10:00`, `2024-01-01`, `0x1F`, `~`) is text; nothing after a colon is null. Anchors,
aliases, tags, merge keys and second documents are refused from the event stream, before anything is built from them, and
so are depth and size beyond the caps: a bomb costs what its text costs.
Source: RFC 8259; YAML 1.2.2 chapter 10.2 (JSON schema).
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeAlias

from ..policies.errors import BadInput
from ..policies.expressions import ExpressionError, parse
from ..policies.text import did_you_mean, safe_text
from .corrections import corrected_line
from .findings import Finding, PlanUnreadable, pointer_to, quoted, split_pointer

__all__ = [
    "CAPS",
    "Caps",
    "Json",
    "Source",
    "excerpt",
    "read_bytes",
    "read_document",
    "read_json",
    "read_source",
    "yaml_text",
]

Json: TypeAlias = Any


class Caps(NamedTuple):
    """How large a document may be. 10,000 steps of ordinary size are 2 MiB, 250,000 nodes and 12 levels."""

    bytes: int = 8 * 1024 * 1024
    depth: int = 64
    nodes: int = 500_000
    aliases: bool = False
    """Whether YAML may repeat a value by `&name` and `*name`; each time it counts with all that is in it."""


CAPS = Caps()

_DIGITS = 400
"""A number longer than this is no number anyone means; Python itself refuses 4,300 digits."""

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?P<float>(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)")
_WORDS: dict[str, bool | None] = {"": None, "null": None, "true": True, "false": False}
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
_BREAKS = re.compile("[\r\x85\u2028\u2029\ufeff]")
"""What YAML may fold or strip where it stands bare; between double quotes it is written as an escape."""
_SURROGATE = re.compile("[\ud800-\udfff]")


class _Refused(Exception):
    """Inside this module: why reading stopped, and where (both from 1; a column of 0 is not known)."""

    def __init__(self, code: str, message: str, line: int = 0, column: int = 0, suggestion: str = "") -> None:
        super().__init__(message)
        self.finding = Finding(code, "error", "", message, suggestion, line or None, column or None)


class _Place(NamedTuple):
    """Where a value stands, and where the key before it does; line and column, both from 1."""

    value: tuple[int, int]
    key: tuple[int, int]


_ABOUT_THE_KEY = frozenset({"unknown_property", "unknown_argument"})
_NAMES = frozenset({"unknown_tool", "unknown_step", "bad_id", "reserved_id", "as_shadows"})
"""What is suggested for these is a name for the very place."""
_LONGEST_LINE = 400
"""Characters of a line that is corrected; longer ones are no help to anybody."""


class Source(NamedTuple):
    """A document that was read, and the text it stands in, so that a finding can be shown at its place."""

    name: str
    text: str
    document: Json
    is_json: bool

    def located(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """The findings with line, column and excerpt, where their pointer leads to a place in the text."""
        listed = tuple(findings)
        places = self._places({f.pointer for f in listed if f.line is None})
        lines = _lines(self.text, is_json=self.is_json) if places else []

        def at(finding: Finding, place: _Place) -> Finding:
            line, column = place.key if finding.code in _ABOUT_THE_KEY else place.value
            if line > len(lines):
                return finding._replace(line=line, column=column)
            finding = finding._replace(corrected=self._corrected(finding, lines[line - 1], column))
            if finding.offset is not None:
                column = self._inside(lines[line - 1], column, finding.pointer, finding.offset)
            return finding._replace(line=line, column=column, excerpt=excerpt(lines, line, column))

        return tuple(at(f, places[f.pointer]) if f.pointer in places else f for f in listed)

    def _corrected(self, finding: Finding, line: str, column: int) -> str:
        """The line with the suggestion in it, where that is a whole one for this place."""
        new, pointer = finding.suggestion, finding.pointer
        if not new or len(line) > _LONGEST_LINE:
            return ""
        if finding.code == "unknown_argument":
            old = split_pointer(pointer)[-1]
        elif finding.code in _NAMES or (pointer.endswith("/$") and _is_expression(new)):
            old = _look_up(self.document, pointer)
        elif finding.code == "json_as_text" and new[:1] in ("{", "["):
            return corrected_line(
                line, column, _look_up(self.document, pointer), new, is_json=self.is_json, raw=True
            )
        elif finding.code == "looks_like_reference" and not pointer.endswith("/$"):
            new = new.replace("{$:", '{"$":', 1) if self.is_json else new
            return corrected_line(
                line, column, _look_up(self.document, pointer), new, is_json=self.is_json, raw=True
            )
        else:
            return ""
        return corrected_line(line, column, old, new, is_json=self.is_json)

    def _inside(self, line: str, column: int, pointer: str, offset: int) -> int:
        """The column of a place inside a text, where the text stands on its line as it is."""
        text = _look_up(self.document, pointer)
        start = column if line[column - 1 : column] in ("'", '"') else column - 1
        return start + offset + 1 if line[start : start + len(text)] == text else column

    def _places(self, wanted: Collection[str]) -> dict[str, _Place]:
        if not wanted:
            return {}
        if not self.is_json:
            return _Builder(CAPS, wanted).read(self.text).places
        found = [(p, key, value) for p, key, value, _ in _walk_json(self.text) if p in wanted]
        values = _line_columns(self.text, (value for _, _, value in found))
        keys = _line_columns(self.text, (key for _, key, _ in found))
        return {p: _Place(v, k) for (p, _, _), v, k in zip(found, values, keys, strict=True)}


def read_bytes(path: str | Path, *, most: int = CAPS.bytes) -> bytes:
    """The content of a file; one that is missing, unreadable or too large is a `BadInput` with a sentence."""
    try:
        with open(path, "rb") as file:
            data = file.read(most + 1)
    except FileNotFoundError:
        raise BadInput(f"there is no file {quoted(path)}{_beside(path)}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadInput(f"the file {quoted(path)} cannot be read: {safe_text(reason)}") from None
    if len(data) > most:
        raise BadInput(f"the file {quoted(path)} is larger than {most:,} bytes")
    return data


def _beside(path: str | Path) -> str:
    """A file of nearly that name, to end the sentence with."""
    where = Path(path)
    try:
        return did_you_mean(where.name, sorted(os.listdir(where.parent)))
    except OSError:
        return ": the directory is not there either"


def read_source(
    text: str | bytes, *, source: str = "plan.yaml", format: str | None = None, caps: Caps = CAPS
) -> Source:
    """Read one document. `format` is "json" or "yaml"; without it the name and the first character decide.

    Raises `PlanUnreadable`.
    """
    plain = ""
    try:
        plain = _decode(text, caps)
        return _read(plain, source, format, caps)
    except _Refused as refusal:
        raise PlanUnreadable([_with_excerpt(refusal.finding, plain)]) from None


def read_document(text: str | bytes, *, source: str = "document", format: str | None = None) -> Json:
    """Plain JSON from YAML or JSON text: inputs, patches, anything. Raises `PlanUnreadable`."""
    return read_source(text, source=source, format=format).document


def read_json(text: str | bytes, *, caps: Caps = CAPS) -> Json:
    """Plain JSON from JSON text: a key that stands twice, NaN and infinities are refused. Raises `PlanUnreadable`."""
    return read_source(text, source="document.json", format="json", caps=caps).document


def excerpt(lines: Sequence[str], line: int, column: int) -> str:
    """The line with a caret under the column, cut to what fits a terminal; `lines` are the text split at newlines."""
    if not 1 <= line <= len(lines):
        return ""
    start = max(0, column - 1 - 50)
    shown = lines[line - 1].removesuffix("\r")
    head = safe_text(shown[start : column - 1]).replace("\t", " ")
    tail = safe_text(shown[column - 1 : column + 50]).replace("\t", " ")
    left = "…" if start else ""
    margin = f"{line:>4} | "
    return f"{margin}{left}{head}{tail}\n{' ' * (len(margin) + len(left) + len(head))}^"


def _lines(text: str, *, is_json: bool) -> list[str]:
    """The lines as they are counted: YAML knows more signs than JSON that end one."""
    return text.split("\n") if is_json else re.split("\r\n|[\r\n\x85\u2028\u2029]", text)


def _is_expression(text: str) -> bool:
    try:
        parse(text)
    except ExpressionError:
        return False
    return True


def _look_up(document: Json, pointer: str) -> str:
    """The text at a pointer that is known to lead to one."""
    for key in split_pointer(pointer):
        document = document[int(key)] if isinstance(document, list) else document[key]
    return str(document)


def _with_excerpt(finding: Finding, text: str) -> Finding:
    if finding.line is None or finding.column is None:
        return finding
    return finding._replace(excerpt=excerpt(text.split("\n"), finding.line, finding.column))


def _decode(text: str | bytes, caps: Caps) -> str:
    if len(text) > caps.bytes:
        raise _Refused("too_large", f"the document is larger than {caps.bytes:,} bytes")
    if isinstance(text, str):
        return text.removeprefix("\ufeff")
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise _Refused("bad_text", f"the document is not UTF-8 (byte {error.start}, line {line})") from None


def _read(text: str, source: str, format: str | None, caps: Caps) -> Source:
    begins = text.lstrip()[:1]
    if not begins:
        raise _Refused("syntax", "the document is empty")
    if format == "json" or (format is None and source.endswith(".json")):
        return Source(source, text, _read_json(text, caps), True)
    if format is None and begins in ("{", "["):
        try:
            return Source(source, text, _read_json(text, caps), True)
        except _Refused as refusal:  # a YAML flow mapping begins like JSON
            if refusal.finding.code != "syntax":
                raise
            return _flow_or(refusal, text, source, caps)
    return Source(source, text, _Builder(caps).read(text).document, False)


def _flow_or(refusal: _Refused, text: str, source: str, caps: Caps) -> Source:
    try:
        return Source(source, text, _Builder(caps).read(text).document, False)
    except _Refused as other:
        meant_json = text.lstrip()[1:].lstrip()[:1] == '"'
        raise (refusal if meant_json and other.finding.code == "syntax" else other) from None


def _number(text: str) -> int | float:
    """A JSON number; raises ValueError where it has no finite value."""
    if len(text) > _DIGITS:
        raise ValueError(f"the number {quoted(text)} is too long")
    if text.lstrip("-").isdigit():
        return int(text)
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {quoted(text)} has no finite value")
    return value


# ---- JSON ----------------------------------------------------------------------------------------------------------

_STRUCTURE = re.compile(r'[{}\[\],]|"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)
_TOKEN = re.compile(r'([{}\[\],:])|("[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z))|([^\s{}\[\],:"]+)', re.DOTALL)


def _read_json(text: str, caps: Caps) -> Json:
    _measure(text, caps)
    try:
        value = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_int=_number,
            parse_float=_number,
        )
    except json.JSONDecodeError as error:
        raise _Refused("syntax", f"this is not JSON: {error.msg}", error.lineno, error.colno) from None
    except ValueError as error:
        raise _fault(text, str(error)) from None
    if "\\u" in text or not text.isascii():
        _refuse_surrogates(text, value)
    return value


def _measure(text: str, caps: Caps) -> None:
    """Depth and nodes, from the brackets and commas outside strings, before anything is built."""
    depth = nodes = 0
    for match in _STRUCTURE.finditer(text):
        match text[match.start()]:
            case '"':
                continue
            case "[" | "{":
                depth += 1
                nodes += 1
            case "]" | "}":
                depth -= 1
            case _:
                nodes += 1
        if depth > caps.depth or nodes > caps.nodes:
            ((line, column),) = _line_columns(text, [match.start()])
            raise _beyond(caps, depth, line, column)


def _beyond(caps: Caps, depth: int, line: int, column: int) -> _Refused:
    if depth > caps.depth:
        return _Refused("too_deep", f"values are nested deeper than {caps.depth} levels", line, column)
    return _Refused("too_large", f"the document holds more than {caps.nodes:,} values", line, column)


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON number")


def _fault(text: str, message: str) -> _Refused:
    """The first place where a well-formed text breaks one of our rules."""
    for _, _, offset, token in _walk_json(text):
        finding = _token_fault(token)
        if finding:
            ((line, column),) = _line_columns(text, [offset])
            return _Refused(*finding, line, column)
    return _Refused("syntax", message)


def _token_fault(token: str) -> tuple[str, str] | None:
    if token.startswith("twice "):
        return "duplicate_key", f"the key {quoted(json.loads(token[6:]))} stands twice in one object"
    if token in ("NaN", "Infinity", "-Infinity"):
        return "bad_number", f"{token} is not a JSON number"
    if token[:1] in "-0123456789" and token[:1]:
        try:
            _number(token)
        except ValueError as error:
            return "bad_number", str(error)
    return None


def _refuse_surrogates(text: str, value: Json) -> None:
    if not _holds_surrogate(value):
        return
    for _, _, offset, token in _walk_json(text):
        if token.startswith('"') and _SURROGATE.search(json.loads(token)):
            ((line, column),) = _line_columns(text, [offset])
            raise _Refused("bad_text", "a text holds half of a surrogate pair", line, column)
    raise _Refused("bad_text", "a key holds half of a surrogate pair")


def _holds_surrogate(value: Json) -> bool:
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str(text):
                if not text.isascii() and _SURROGATE.search(text):
                    return True
            case dict(mapping):
                waiting += [*mapping, *mapping.values()]
            case list(items):
                waiting += items
    return False


class _Frame:
    """An open object or array of `_walk_json`."""

    __slots__ = ("at", "key", "keys", "pointer")

    def __init__(self, pointer: str, is_object: bool) -> None:
        self.pointer = pointer
        self.at: int | None = None
        self.keys: set[str] | None = set() if is_object else None
        self.key: str | int | None = None if is_object else 0

    def child(self) -> str:
        return pointer_to(self.key if self.key is not None else "", within=self.pointer)

    def next(self) -> None:
        self.key = None if self.keys is not None else int(self.key or 0) + 1
        self.at = None


def _walk_json(text: str) -> Iterator[tuple[str, int, int, str]]:
    """Pointer, offset of the key (of the value where there is none), offset and token of each value.

    The text is well-formed. A repeated key comes as the token `twice "key"`.
    """
    stack: list[_Frame] = []
    for match in _TOKEN.finditer(text):
        mark, string, _ = match.groups()
        at, top = match.start(), stack[-1] if stack else None
        if mark in ("}", "]"):
            del stack[-1:]
        elif mark == ",":
            stack[-1].next()
        elif string and top and top.keys is not None and top.key is None:
            top.key, top.at = str(json.loads(string)), at
            if top.key in top.keys:
                yield top.child(), at, at, f"twice {string}"
            top.keys.add(top.key)
        elif mark != ":":
            pointer = top.child() if top else ""
            yield pointer, at if top is None or top.at is None else top.at, at, match[0]
            if mark:
                stack.append(_Frame(pointer, mark == "{"))


def _line_columns(text: str, offsets: Iterable[int]) -> list[tuple[int, int]]:
    """Line and column, both from 1, of each offset; offsets come in ascending order."""
    places, line, start, at = [], 1, 0, 0
    for offset in offsets:
        line += text.count("\n", at, offset)
        found = text.rfind("\n", at, offset)
        start = found + 1 if found >= 0 else start
        places.append((line, offset - start + 1))
        at = offset
    return places


# ---- YAML ----------------------------------------------------------------------------------------------------------

_HINTS = (
    ("mapping values are not allowed", "put text that holds ': ' in quotes"),
    ("cannot start any token", "put the text in quotes, and indent with spaces"),
    ("did not find expected ',' or", "put text that holds any of , [ ] { } in quotes"),
    ("expected ',' or", "put text that holds any of , [ ] { } in quotes"),
    ("did not find expected key", "indent the keys of one object alike"),
    ("expected <block end>", "indent the keys of one object alike"),
    ("unexpected end of stream", "close what is still open"),
)


class _Open:
    """An object or list of the YAML document that has not ended yet."""

    __slots__ = ("anchor", "at", "before", "container", "deepest", "key", "lines", "pointer")

    def __init__(
        self, container: dict[str, Json] | list[Json], pointer: str, anchor: str | None, before: int
    ) -> None:
        self.container = container
        self.pointer = pointer
        self.anchor = anchor
        self.before = before
        self.deepest = 1
        self.key: str | None = None
        self.at: tuple[int, int] | None = None
        self.lines: dict[str, int] = {}


class _Builder:
    """One pass over the events of a YAML text; where `wanted` pointers are given, their places are noted."""

    def __init__(self, caps: Caps, wanted: Collection[str] | None = None) -> None:
        self.caps = caps
        self.wanted = wanted
        self.places: dict[str, _Place] = {}
        self.document: Json = None
        self.stack: list[_Open] = []
        self.nodes = 0
        self.documents = 0
        self.anchored: dict[str, tuple[Json, int, int]] = {}
        """What may be repeated: the value, how many nodes it has and how deep it is."""

    def read(self, text: str) -> _Builder:
        import yaml

        if found := _UNPRINTABLE.search(text):
            ((line, column),) = _line_columns(text, [found.start()])
            raise _Refused("bad_text", f"U+{ord(found[0]):04X} cannot stand in YAML", line, column)
        try:
            for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
                getattr(self, "_" + type(event).__name__, _ignored)(event)
        except yaml.MarkedYAMLError as error:
            raise _yaml_syntax(error) from None
        except yaml.YAMLError as error:
            raise _Refused("syntax", f"this is not YAML: {error}") from None
        return self

    def _DocumentStartEvent(self, event: Any) -> None:
        self.documents += 1
        if self.documents > 1:
            raise _feature(event, "a second document")

    def _AliasEvent(self, event: Any) -> None:
        known = self.anchored.get(event.anchor)
        top = self.stack[-1] if self.stack else None
        if known is None or top is None or (isinstance(top.container, dict) and top.key is None):
            raise _feature(event, f"the alias {quoted('*' + event.anchor)}")
        value, nodes, deep = known
        self.nodes += nodes
        self._deepen(deep)
        if self.nodes > self.caps.nodes or len(self.stack) + deep > self.caps.depth:
            raise _beyond(self.caps, len(self.stack) + deep, *_place(event))
        self._put(event, value)

    def _MappingStartEvent(self, event: Any) -> None:
        self._begin(event, {})

    def _SequenceStartEvent(self, event: Any) -> None:
        self._begin(event, [])

    def _MappingEndEvent(self, event: Any) -> None:
        ended = self.stack.pop()
        self._deepen(ended.deepest)
        if ended.anchor is not None:
            self.anchored[ended.anchor] = ended.container, self.nodes - ended.before, ended.deepest

    _SequenceEndEvent = _MappingEndEvent

    def _ScalarEvent(self, event: Any) -> None:
        self._admit(event)
        top = self.stack[-1] if self.stack else None
        if top and isinstance(top.container, dict) and top.key is None:
            self._name(top, event)
        else:
            value = _scalar(event)
            self._put(event, value)
            if event.anchor is not None:
                self.anchored[event.anchor] = value, 1, 0

    def _deepen(self, levels: int) -> None:
        if self.stack:
            self.stack[-1].deepest = max(self.stack[-1].deepest, levels + 1)

    def _begin(self, event: Any, container: dict[str, Json] | list[Json]) -> None:
        self._admit(event)
        top = self.stack[-1] if self.stack else None
        if top and isinstance(top.container, dict) and top.key is None:
            raise _at(event, "syntax", "a key must be text, not an object or a list")
        if len(self.stack) >= self.caps.depth:
            line, column = _place(event)
            raise _beyond(self.caps, len(self.stack) + 1, line, column)
        pointer = self._pointer()
        self._put(event, container)
        self.stack.append(_Open(container, pointer, event.anchor, self.nodes - 1))

    def _admit(self, event: Any) -> None:
        self.nodes += 1
        if self.nodes > self.caps.nodes:
            raise _beyond(self.caps, 0, *_place(event))
        if event.anchor is not None and not self.caps.aliases:
            raise _feature(event, f"the anchor {quoted('&' + event.anchor)}")
        if event.tag is not None:
            raise _feature(event, f"the tag {quoted(event.tag)}")

    def _name(self, top: _Open, event: Any) -> None:
        _scalar(event)
        key, plain = event.value, not event.style
        if plain and key == "<<":
            raise _feature(event, "the merge key '<<'")
        if key in top.lines:
            first = f"the key {quoted(key)} stands twice in one object; the first is on line {top.lines[key]}"
            raise _at(event, "duplicate_key", first)
        top.lines[key] = event.start_mark.line + 1
        top.key, top.at = key, _place(event)

    def _put(self, event: Any, value: Json) -> None:
        if self.wanted is not None and (pointer := self._pointer()) in self.wanted:
            at = _place(event)
            self.places[pointer] = _Place(at, (self.stack[-1].at if self.stack else None) or at)
        if not self.stack:
            self.document = value
            return
        top = self.stack[-1]
        if isinstance(top.container, list):
            top.container.append(value)
        else:
            top.container[str(top.key)] = value
            top.key = None

    def _pointer(self) -> str:
        if self.wanted is None or not self.stack:
            return ""
        top = self.stack[-1]
        key = len(top.container) if isinstance(top.container, list) else str(top.key)
        return pointer_to(key, within=top.pointer)


def _ignored(event: Any) -> None:
    """Stream and document marks say nothing of interest."""


def _scalar(event: Any) -> Json:
    text = event.value
    if not text.isascii() and _SURROGATE.search(text):
        raise _at(event, "bad_text", "a text holds half of a surrogate pair")
    if event.style:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if not _NUMBER.fullmatch(text):
        return text
    try:
        return _number(text)
    except ValueError as error:
        raise _at(event, "bad_number", str(error)) from None


def _place(event: Any) -> tuple[int, int]:
    return event.start_mark.line + 1, event.start_mark.column + 1


def _at(event: Any, code: str, message: str) -> _Refused:
    return _Refused(code, message, *_place(event))


def _feature(event: Any, what: str) -> _Refused:
    line, column = _place(event)
    return _Refused(
        "yaml_feature", f"{what} is not allowed here", line, column, "write the value out in full"
    )


def _yaml_syntax(error: Any) -> _Refused:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
    problem = error.problem or error.context or "it cannot be read"
    hint = next((advice for sign, advice in _HINTS if sign in problem), "")
    if "nesting depth" in problem:
        return _Refused("too_deep", "values are nested too deep", line, column)
    return _Refused("syntax", f"this is not YAML: {safe_text(problem, 200)}", line, column, hint)


def yaml_text(document: Json) -> str:
    """YAML that `read_document` reads back equal: text that any YAML reader might take for something else is quoted."""
    import yaml

    return str(yaml.dump(document, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=110))


def _dumper() -> Any:
    import yaml

    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
        def ignore_aliases(self, data: Any) -> bool:
            return True

    Dumper.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(f"^(?:{_NUMBER.pattern})$"), [*"-0123456789"]
    )
    Dumper.add_representer(dict, _write_object)
    Dumper.add_representer(str, _write_text)
    return Dumper


def _write_object(dumper: Any, data: dict[str, Json]) -> Any:
    return dumper.represent_mapping("tag:yaml.org,2002:map", data, flow_style=set(data) == {"$"} or None)


def _write_text(dumper: Any, data: str) -> Any:
    style = '"' if _BREAKS.search(data) else "|" if "\n" in data else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", data, style=style)
