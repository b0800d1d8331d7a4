"""Reads a JSON Schema of a stranger, of any draft in use, into one harmless normal form.

    what comes in                          what comes out
    drafts 4, 6, 7, 2019-09, 2020-12       2020-12, with only the keywords that decide validity
    $id, $anchor, $ref of every shape      `#` or `#/$defs/NAME`, whose target is there
    patterns as ECMA-262 means them        patterns as `re` means them, none of them catastrophic

`nullable: true` beside a type, as OpenAPI writes it, allows null; keywords that no draft knows mean nothing.

Refused, with a JSON Pointer to the place: what is no schema, references that lead out of the document or nowhere or
back to themselves, `$dynamicRef`, parts that multiply (each `$defs` entry naming the next one twice is 2^n parts),
and documents too deep or too large. Nothing is ever fetched.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin

from ..policies.errors import SchemaRefused
from ..policies.text import did_you_mean, shorten
from .patterns import PatternRefused, read_pattern
from .values import Json, Unserialisable, pointer, size_of, to_plain

__all__ = ["DIALECTS", "Normal", "close", "inner", "normalise", "plain_document", "target_of"]

DIALECTS = {
    "http://json-schema.org/draft-04/schema": 4,
    "http://json-schema.org/draft-06/schema": 6,
    "http://json-schema.org/draft-07/schema": 7,
    "https://json-schema.org/draft/2019-09/schema": 2019,
    "https://json-schema.org/draft/2020-12/schema": 2020,
}
"""Drafts by the URI that `$schema` says (http or https, with or without `#`)."""

_MOST_BYTES = 1024 * 1024
_DEEPEST = 64
"""Levels of JSON in a schema document; the deepest of 4,500 public tool schemas has 19."""
_MOST_IDS = 500
_MOST_EFFORT = 500_000
"""Steps of looking at patterns, of about 2 µs; ten times what the most involved public schema takes."""
_MOST_PARTS = 2000
"""Schemas that may apply to one value at once."""

_ALWAYS = (4, 2020)
_SINCE: dict[str, tuple[int, int]] = {
    **dict.fromkeys(
        ("type", "enum", "pattern", "format", "required", "properties", "patternProperties"), _ALWAYS
    ),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), _ALWAYS),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _ALWAYS
    ),
    **dict.fromkeys(
        ("items", "additionalProperties", "uniqueItems", "allOf", "anyOf", "oneOf", "not"), _ALWAYS
    ),
    **dict.fromkeys(("$ref", "$defs", "definitions", "title", "description", "default"), _ALWAYS),
    **dict.fromkeys(("const", "contains", "propertyNames", "examples"), (6, 2020)),
    **dict.fromkeys(("if", "then", "else", "$comment", "readOnly", "writeOnly"), (7, 2020)),
    **dict.fromkeys(("contentEncoding", "contentMediaType"), (7, 2020)),
    **dict.fromkeys(("dependentRequired", "dependentSchemas", "minContains", "maxContains"), (2019, 2020)),
    **dict.fromkeys(("unevaluatedItems", "unevaluatedProperties", "deprecated"), (2019, 2020)),
    "prefixItems": (2020, 2020),
    "additionalItems": (4, 2019),
    "dependencies": _ALWAYS,  # split in 2019, and written on
}
"""The first and the last draft in which a keyword means something."""

SINGLE = {"additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then"}
SINGLE |= {"unevaluatedItems", "unevaluatedProperties"}
LISTED = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
MAPPED = frozenset({"properties", "patternProperties", "dependentSchemas"})
_SAME_VALUE = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"})
_NO_OTHERS = {"additionalItems", "additionalProperties", "items", "unevaluatedItems", "unevaluatedProperties"}
_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")


class Normal(NamedTuple):
    """A schema in normal form.

    `patterns` gives each pattern as it was written; `parts` is how many schemas apply to one value at most;
    `certain` says that the document is valid beyond doubt, so that nobody need ask its metaschema.
    """

    document: Json
    patterns: dict[str, str]
    parts: int
    draft: int
    certain: bool


def plain_document(document: object) -> Json:
    """A copy of a schema document as plain JSON of bearable size. Raises `SchemaRefused`."""
    try:
        plain = to_plain(document)
    except Unserialisable as error:
        place = error.path or "the schema"
        raise SchemaRefused(
            f"a schema is plain JSON, but {place} {error.message}", pointer=error.path
        ) from error
    if not isinstance(plain, (dict, bool)):
        raise SchemaRefused(f"a schema is an object, or true or false, not {_said(plain)}")
    if size_of(plain) > _MOST_BYTES:
        raise SchemaRefused(f"the schema is larger than {_MOST_BYTES:,} bytes; keep what the tool needs")
    if (deep := _too_deep(plain, _DEEPEST)) is not None:
        raise SchemaRefused(f"the schema is nested deeper than {_DEEPEST} levels; use $defs", pointer=deep)
    return plain


def normalise(document: Json) -> Normal:
    """The normal form of a plain document. Raises `SchemaRefused`."""
    draft = _draft(document)
    reader = _Reader(document, draft)
    normal = reader.read()
    parts = _Weight(normal, {name: place for place, name in reader.names.items()}).most
    return Normal(normal, reader.patterns, parts, draft, reader.certain and draft == 2020)


def _draft(document: Json) -> int:
    if isinstance(document, bool) or "$schema" not in document:
        return 2020
    return _known_draft(document["$schema"], "/$schema")


def _known_draft(said: object, place: str) -> int:
    if not isinstance(said, str):
        raise SchemaRefused(f"$schema must be text, not {_said(said)}", pointer=place)
    bare = said.removesuffix("#").split("://")[-1]
    for uri, draft in DIALECTS.items():
        if uri.split("://")[-1] == bare:
            return draft
    known = ", ".join(uri.split("org/")[-1].removesuffix("/schema") for uri in DIALECTS)
    raise SchemaRefused(f"$schema {shorten(said, 60)!r} is not read here; known are {known}", pointer=place)


class _Reader:
    """One document on its way into normal form; places are JSON Pointers into the original."""

    def __init__(self, document: Json, draft: int) -> None:
        self.document = document
        self.draft = draft
        self.links = _Links(document, draft)
        self.patterns: dict[str, str] = {}
        self.effort = 0
        self.names: dict[str, str] = {"": "#"}
        self.taken: set[str] = set()
        self.entries: dict[str, Json] = {}
        self.waiting: list[str] = []
        self.certain = True

    def read(self) -> Json:
        root = self.schema(self.document, "", "")
        while self.waiting:
            place = self.waiting.pop()
            if place not in self.entries:
                self.entries[place] = self.schema(self.links.at(place), place, self.links.base(place))
        named = {_unescape(name[8:]): self.entries[place] for place, name in self.names.items() if place}
        return {**root, "$defs": named} if named else root

    def schema(self, document: Json, place: str, base: str) -> Json:
        if isinstance(document, bool):
            return (
                document if document or not place else {"not": {}}
            )  # jsonschema loses the place of what `false` refuses
        if not isinstance(document, dict):
            raise SchemaRefused(
                f"a schema is an object, or true or false, not {_said(document)}; at {place}", pointer=place
            )
        base = self.links.ids.get(place, base)
        self.refuse_what_moves(document, place)
        if "$ref" in document and self.draft <= 7:  # there, what stands beside a $ref means nothing
            document = {k: v for k, v in document.items() if k in ("$ref", "$defs", "definitions")}
        out: dict[str, Json] = {}
        for keyword, value in document.items():
            first, last = _SINCE.get(keyword, (9999, 0))
            if first <= self.draft <= last:
                self.keyword(keyword, value, f"{place}{pointer(keyword)}", base, out)
        if self.draft <= 2019:
            _to_2020(out, document, self.draft)
        if (
            document.get("nullable") is True
            and out.get("type", "null") != "null"
            and "null" not in out["type"]
        ):
            out["type"] = [*([out["type"]] if isinstance(out["type"], str) else out["type"]), "null"]
        return out

    def refuse_what_moves(self, document: dict[str, Json], place: str) -> None:
        for keyword in ("$dynamicRef", "$recursiveRef"):
            if keyword in document and self.draft >= 2019:
                raise SchemaRefused(f"{keyword} is not read here; use $ref", pointer=f"{place}/{keyword}")
        if (
            place
            and "$schema" in document
            and _known_draft(document["$schema"], f"{place}/$schema") != self.draft
        ):
            raise SchemaRefused("a part of the schema is of another draft", pointer=f"{place}/$schema")
        self.certain = self.certain and _UNSURE.isdisjoint(document)

    def keyword(self, keyword: str, value: Json, place: str, base: str, out: dict[str, Json]) -> None:
        if keyword == "$ref":
            out["$ref"] = self.reference(value, place, base)
        elif keyword == "items" and isinstance(value, list) and self.draft <= 2019:
            out["prefixItems"] = [self.schema(v, f"{place}/{i}", base) for i, v in enumerate(value)]
        elif keyword in ("$defs", "definitions"):
            self.waiting += [place + pointer(name) for name in _mapping(value, place)]
        elif keyword == "dependencies":
            self.dependencies(_mapping(value, place), place, base, out)
        elif keyword == "items" and isinstance(value, list):
            raise SchemaRefused(
                f"items is a list of schemas, as in draft 7; write prefixItems, or say $schema; at {place}",
                pointer=place,
            )
        elif keyword in SINGLE or keyword == "additionalItems":
            out[keyword] = (
                False if value is False and keyword in _NO_OTHERS else self.schema(value, place, base)
            )
        elif keyword in LISTED:
            out[keyword] = [
                self.schema(v, f"{place}/{i}", base) for i, v in enumerate(_several(value, place))
            ]
        elif keyword == "patternProperties":
            out[keyword] = self.by_pattern(_mapping(value, place), place, base)
        elif keyword in MAPPED:
            parts = _mapping(value, place).items()
            out[keyword] = {k: self.schema(v, place + pointer(k), base) for k, v in parts}
        elif keyword == "pattern":
            out[keyword] = self.pattern(value, place)
        else:
            said = _checked(keyword, value, place, self.draft)
            if keyword not in _ANNOTATIONS:
                out[keyword] = said

    def pattern(self, pattern: Json, place: str) -> str:
        if not isinstance(pattern, str):
            raise SchemaRefused(f"pattern must be text, not {_said(pattern)}", pointer=place)
        try:
            read = read_pattern(pattern)
        except PatternRefused as error:
            raise SchemaRefused(f"{error}; at {place}", pointer=place) from error
        self.effort += read.effort
        if self.effort > _MOST_EFFORT:
            raise SchemaRefused("the patterns of the schema are too involved together", pointer=place)
        self.patterns[read.text] = pattern
        return read.text

    def by_pattern(self, parts: dict[str, Json], place: str, base: str) -> dict[str, Json]:
        out: dict[str, Json] = {}
        for pattern, part in parts.items():
            text, schema = self.pattern(pattern, place), self.schema(part, place + pointer(pattern), base)
            out[text] = {"allOf": [out[text], schema]} if text in out else schema
        return out

    def dependencies(self, parts: dict[str, Json], place: str, base: str, out: dict[str, Json]) -> None:
        for name, part in parts.items():
            where = place + pointer(name)
            if isinstance(part, list):
                out.setdefault("dependentRequired", {})[name] = _checked("required", part, where, self.draft)
            else:
                out.setdefault("dependentSchemas", {})[name] = self.schema(part, where, base)

    def reference(self, reference: Json, place: str, base: str) -> str:
        if not isinstance(reference, str):
            raise SchemaRefused(f"$ref must be text, not {_said(reference)}", pointer=place)
        target = self.links.target(reference, base, place)
        if target not in self.names:
            self.names[target] = "#/$defs" + pointer(self.free_name(target))
            self.waiting.append(target)
        return self.names[target]

    def free_name(self, target: str) -> str:
        name = _unescape(target.rpartition("/")[2])
        if name in self.taken:
            name = f"{name}.{len(self.taken)}"
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name


class _Links:
    """Where references of a document lead: its identifiers and anchors, and nothing outside it."""

    def __init__(self, document: Json, draft: int) -> None:
        self.document = document
        self.keyword = "id" if draft == 4 else "$id"
        self.anchored = draft <= 7
        self.ids: dict[str, str] = {}
        self.resources: dict[str, str] = {"": ""}
        self.anchors: dict[tuple[str, str], str] = {}
        self.index(document, "", "")

    def index(self, document: Json, place: str, base: str) -> None:
        if isinstance(document, dict):
            base = self.identify(document, place, base)
            for key, value in document.items():
                if key not in ("enum", "const", "default", "examples"):
                    self.index(value, place + pointer(key), base)
        elif isinstance(document, list):
            for number, value in enumerate(document):
                self.index(value, f"{place}/{number}", base)

    def identify(self, document: dict[str, Json], place: str, base: str) -> str:
        said = document.get(self.keyword)
        if isinstance(said, str) and self.anchored and said.startswith("#"):
            self.anchors[base, said[1:]] = place
        elif isinstance(said, str):
            base = _join(base, said, place)[0]
            self.ids[place] = base
            self.resources[base] = place
            if len(self.ids) > _MOST_IDS:
                raise SchemaRefused(f"the schema has more than {_MOST_IDS} parts with identifiers")
        for keyword in ("$anchor", "$dynamicAnchor"):
            if not self.anchored and isinstance(document.get(keyword), str):
                self.anchors[base, document[keyword]] = place
        return base

    def base(self, place: str) -> str:
        """The identifier that holds at a place: of the nearest part around it that has one."""
        around = (known for known in self.ids if place == known or place.startswith(known + "/"))
        nearest = max(around, key=len, default=None)
        return "" if nearest is None else self.ids[nearest]

    def target(self, reference: str, base: str, place: str) -> str:
        """The place a reference leads to. Raises `SchemaRefused` where that is outside or nowhere."""
        uri, fragment = _join(base, reference, place)
        fragment = unquote(fragment)
        if uri not in self.resources:
            raise SchemaRefused(
                f"$ref {shorten(reference, 80)!r} leads out of the schema, and nothing is fetched; "
                "put what it names under $defs",
                pointer=place,
            )
        if fragment and not fragment.startswith("/"):
            if (uri, fragment) not in self.anchors:
                raise self.nowhere(reference, place, [name for _, name in self.anchors])
            return self.anchors[uri, fragment]
        target = self.resources[uri] + fragment
        try:
            self.at(target)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            defs = self.document.get("$defs", self.document.get("definitions"))
            raise self.nowhere(reference, place, list(defs) if isinstance(defs, dict) else []) from error
        return target

    def nowhere(self, reference: str, place: str, names: list[str]) -> SchemaRefused:
        guess = did_you_mean(_unescape(reference.rpartition("/")[2].lstrip("#")), names)
        return SchemaRefused(
            f"$ref {shorten(reference, 80)!r} names nothing in this schema{guess}", pointer=place
        )

    def at(self, place: str) -> Json:
        found = self.document
        for step in map(_unescape, place.split("/")[1:]):
            found = found[int(step)] if isinstance(found, list) else found[step]
        return found


def _join(base: str, reference: str, place: str) -> tuple[str, str]:
    try:
        uri, fragment = urldefrag(urljoin(base, reference))
    except ValueError as error:
        raise SchemaRefused(f"{shorten(reference, 80)!r} is no reference", pointer=place) from error
    return uri, fragment


def _unescape(step: str) -> str:
    return step.replace("~1", "/").replace("~0", "~")


def _to_2020(out: dict[str, Json], document: dict[str, Json], draft: int) -> None:
    more = out.pop("additionalItems", None)
    if more is not None and isinstance(document.get("items"), list):
        out["items"] = more
    for bound, strict in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if draft == 4 and out.pop(strict, False) is True and bound in out:
            out[strict] = out.pop(bound)


# What each keyword may say.


def _is_count(value: Json) -> bool:
    return (type(value) is int or (type(value) is float and value.is_integer())) and value >= 0


def _is_number(value: Json) -> bool:
    return type(value) in (int, float)


def _are_names(value: Json) -> bool:
    return isinstance(value, list) and all(type(v) is str for v in value) and len(set(value)) == len(value)


def _is_text(value: Json) -> bool:
    return type(value) is str


def _is_bool(value: Json) -> bool:
    return type(value) is bool


def _is_list(value: Json) -> bool:
    return type(value) is list


_Rule = tuple[Callable[[Json], bool], str]
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_FLAGS = ("deprecated", "readOnly", "writeOnly")
_WORDS = ("title", "description", "$comment", "contentEncoding", "contentMediaType")
_RULES: dict[str, _Rule] = {
    **dict.fromkeys((*_COUNTS, "minContains", "maxContains"), (_is_count, "a whole number from 0 on")),
    **dict.fromkeys(_BOUNDS, (_is_number, "a number")),
    "multipleOf": (lambda v: _is_number(v) and v > 0, "a number above 0"),
    "required": (_are_names, "a list of different names"),
    "dependentRequired": (lambda v: type(v) is dict and all(map(_are_names, v.values())), "lists of names"),
    **dict.fromkeys((*_FLAGS, "uniqueItems"), (_is_bool, "true or false")),
    **dict.fromkeys((*_WORDS, "format"), (_is_text, "text")),
    **dict.fromkeys(("enum", "examples"), (_is_list, "a list")),
}
_ANNOTATIONS = frozenset({*_WORDS, *_FLAGS, "default", "examples"})
_UNSURE = frozenset({"$id", "$anchor", "$dynamicAnchor", "$vocabulary", "$recursiveAnchor", "contentSchema"})
"""Keywords whose own rules only the metaschema knows."""


def _checked(keyword: str, value: Json, place: str, draft: int) -> Json:
    if keyword == "type":
        return _types(value, place)
    fine, what = _RULES.get(keyword, (lambda v: True, ""))
    if draft == 4 and keyword.startswith("exclusive"):
        fine, what = _RULES["uniqueItems"]
    if not fine(value):
        hint = ""
        if keyword.startswith("exclusive") and value is True:
            hint = f"; draft 4 says it beside {keyword[9:].lower()}, so say $schema, or write the number here"
        raise SchemaRefused(f"{keyword} must be {what}, not {_said(value)}{hint}; at {place}", pointer=place)
    return int(value) if fine is _is_count else value


def _types(value: Json, place: str) -> Json:
    names = value if isinstance(value, list) else [value]
    for name in names:
        if not isinstance(name, str) or name not in _TYPES:
            guess = did_you_mean(name, _TYPES) if isinstance(name, str) else ""
            guess = guess or f"; there are {', '.join(_TYPES)}"
            raise SchemaRefused(f"there is no type {_said(name)}{guess}; at {place}", pointer=place)
    if not names or len(set(names)) != len(names):
        raise SchemaRefused(f"type must be a name or a list of different names; at {place}", pointer=place)
    return value


def _mapping(value: Json, place: str) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise SchemaRefused(f"{place} must be an object of schemas, not {_said(value)}", pointer=place)
    return value


def _several(value: Json, place: str) -> list[Json]:
    if not isinstance(value, list) or not value:
        raise SchemaRefused(
            f"{place} must be a list of at least one schema, not {_said(value)}", pointer=place
        )
    return value


def _said(value: Json) -> str:
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    return shorten(json.dumps(value, ensure_ascii=False), 40)


def _too_deep(value: Json, levels: int, place: str = "") -> str | None:
    if not isinstance(value, (dict, list)):
        return None
    if levels == 0:
        return place
    parts: Any = value.items() if isinstance(value, dict) else enumerate(value)
    deep = (_too_deep(v, levels - 1, place + pointer(k)) for k, v in parts if isinstance(v, (dict, list)))
    return next((found for found in deep if found is not None), None)


# Walks over the normal form.


def inner(schema: Json) -> Iterator[tuple[str, Json]]:
    """The schemas directly inside one, each with its keyword, but for `$defs` and the target of a `$ref`."""
    for keyword, value in schema.items() if isinstance(schema, dict) else ():
        if keyword in SINGLE:
            yield keyword, value
        elif keyword in LISTED:
            yield from ((keyword, part) for part in value)
        elif keyword in MAPPED:
            yield from ((keyword, part) for part in value.values())


def target_of(document: Json, reference: str) -> Json:
    """The schema that a `$ref` of a document in normal form names."""
    return document if reference == "#" else document["$defs"][_unescape(reference[8:])]


class _Weight:
    """How many schemas apply to one value at most; refuses references that come back without a step into the value."""

    def __init__(self, document: Json, places: dict[str, str]) -> None:
        self.document = document
        self.places = places
        self.known: dict[str, int] = {}
        self.open: set[str] = set()
        self.later: list[Json] = []
        self.most = 0
        for reference in places:
            self.target(reference, 0)
        while self.later:
            self.schema(self.later.pop(), 0)

    def target(self, reference: str, depth: int) -> int:
        if reference in self.open:
            place = self.places[reference]
            raise SchemaRefused(
                f"the schema at {place or 'its root'} refers to itself without end", pointer=place
            )
        if reference not in self.known:
            self.open.add(reference)
            self.known[reference] = self.schema(target_of(self.document, reference), depth + 1)
            self.open.discard(reference)
        return self.known[reference]

    def schema(self, schema: Json, depth: int) -> int:
        if depth > 2 * _DEEPEST:
            raise SchemaRefused("the references of the schema lead on and on; shorten the chain")
        total = 1
        if isinstance(schema, dict) and "$ref" in schema:
            total += self.target(schema["$ref"], depth)
        for keyword, part in inner(schema):
            if keyword in _SAME_VALUE:
                total += self.schema(part, depth + 1)
            else:
                self.later.append(part)
        if total > _MOST_PARTS:
            raise SchemaRefused(f"the schema applies more than {_MOST_PARTS:,} parts to one value")
        self.most = max(self.most, total)
        return total


# The closed reading.


def close(document: Json) -> Json:
    """The same schema, read closed: where it declares `properties` and is silent about others, there are no others.

    Parts that apply to one object together (`allOf`, a `$ref` with something beside it) are closed together.
    """
    return _Closer(document).close()


class _Closer:
    """Copies a schema in a mode: `closed`; `part` of something closed, itself left open; `raw`, as it is.

    What `not` and `if` hold stays raw: they ask a question, and closing it would change the answer.
    """

    def __init__(self, document: Json) -> None:
        self.document = document
        self.names: dict[tuple[str, str], str] = {("#", "closed"): "#"}
        self.taken: set[str] = set()
        self.waiting: list[tuple[str, str]] = []
        self.declaring: dict[str, bool] = {}

    def close(self) -> Json:
        if isinstance(self.document, bool):
            return self.document
        root = self.schema(self.document, "closed")
        defs: dict[str, Json] = {}
        while self.waiting:
            reference, mode = self.waiting.pop()
            name = _unescape(self.names[reference, mode][8:])
            defs[name] = self.schema(target_of(self.document, reference), mode)
        return {**root, "$defs": defs} if defs else root

    def reference(self, reference: str, mode: str) -> str:
        if (reference, mode) not in self.names:
            name = "root" if reference == "#" else _unescape(reference[8:])
            fresh = "#/$defs" + pointer(name if mode == "closed" else f"{name} ({mode})")
            while fresh in self.taken:
                fresh += "_"
            self.taken.add(fresh)
            self.names[reference, mode] = fresh
            self.waiting.append((reference, mode))
        return self.names[reference, mode]

    def schema(self, schema: Json, mode: str) -> Json:
        if isinstance(schema, bool):
            return schema
        voices = self.voices(schema)
        silent = "additionalProperties" not in schema and "unevaluatedProperties" not in schema
        beside = mode
        if mode == "closed" and (voices > 1 or not silent):
            beside = "part"
        out = {k: self.keyword(k, v, mode, beside) for k, v in schema.items() if k != "$defs"}
        if mode == "closed" and silent and voices > 1:
            out["unevaluatedProperties"] = False
        elif mode == "closed" and silent and "properties" in schema:
            out["additionalProperties"] = False
        return out

    def keyword(self, keyword: str, value: Json, mode: str, beside: str) -> Json:
        if keyword == "$ref":
            return self.reference(value, beside)
        inside = beside if keyword in _SAME_VALUE else ("raw" if mode == "raw" else "closed")
        if keyword in ("not", "if"):
            inside = "raw"
        if keyword in SINGLE:
            return self.schema(value, inside)
        if keyword in LISTED:
            return [self.schema(part, inside) for part in value]
        if keyword in MAPPED:
            return {k: self.schema(part, inside) for k, part in value.items()}
        return value

    def voices(self, schema: dict[str, Json]) -> int:
        """How many parts that apply to one object side by side declare properties."""
        alternatives = [any(map(self.declares, schema.get(k, ()))) for k in ("anyOf", "oneOf")]
        branches = any(self.declares(schema[k]) for k in ("then", "else") if k in schema)
        dependent = any(map(self.declares, schema.get("dependentSchemas", {}).values()))
        together = [*map(self.declares, schema.get("allOf", ())), *alternatives, branches, dependent]
        referred = "$ref" in schema and self.refers(schema["$ref"])
        return sum([*together, "properties" in schema, referred])

    def declares(self, schema: Json) -> bool:
        return isinstance(schema, dict) and self.voices(schema) > 0

    def refers(self, reference: str) -> bool:
        if reference not in self.declaring:
            self.declaring[reference] = self.declares(target_of(self.document, reference))
        return self.declaring[reference]
