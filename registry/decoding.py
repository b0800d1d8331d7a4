"""JSON that arrives as text: an object or a list inside a string, where the schema wants the thing itself.

    {"ids": "[1, 2]"}   ids is an array      ->  {"ids": [1, 2]}, and `/ids` is told
    {"note": "[1, 2]"}  note may be text     ->  as it is

Models write arguments that way again and again. The schema decides: a text is read only where no text may stand, once
(what comes out of it is not looked into again), as strict JSON, and only if it is the kind that is wanted. Numbers, true
and false are never made of text: `"true"` is no `true`. Whether the result is valid is for the schema to say afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from itertools import product
from math import isfinite
from typing import Any, NamedTuple, NoReturn

from .normal import target_of
from .schema import Schema
from .values import DEEPEST, Json, pointer

__all__ = ["Decoded", "Members", "decode", "decode_text", "members_of"]

_LONGEST = 1024 * 1024
"""Characters of a text that is read."""
_MOST_VALUES = 100_000
"""Values that are looked at, each with its options; the text in those beyond stays text."""
_MOST_OPTIONS = 64
"""Ways a schema lets a value be; where there are more, a text is left alone."""

_OPENS = {"{": "object", "[": "array"}
_KINDS = frozenset({"string", "number", "boolean", "null", "array", "object"})
_KIND = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"} | {
    list: "array",
    dict: "object",
}

Option = tuple[dict[str, Json], ...]
"""Schemas that hold together: one of the ways a value may be."""


class Decoded(NamedTuple):
    """A value without JSON in texts, and the JSON Pointers to where it was; nothing is shared that was changed."""

    value: dict[str, Json]
    places: tuple[str, ...]


def decode(schema: Schema, value: dict[str, Json]) -> Decoded:
    """The object with texts decoded where this schema wants an object or a list and would take no text."""
    if not _may_hold_json(value):
        return Decoded(value, ())
    walk = _Walk(schema)
    decoded = walk.value(value, walk.options(schema.normal.document), ())
    return Decoded(decoded, tuple(walk.places))


def decode_text(text: str, kinds: Collection[str]) -> dict[str, Json] | list[Json] | None:
    """The object or list that a text is as strict JSON, where these kinds of values are wanted; None where it is none."""
    if "string" in kinds or _OPENS.get(text.lstrip()[:1]) not in kinds:
        return None
    try:
        value: dict[str, Json] | list[Json] = _read(text)
    except (ValueError, RecursionError):
        return None
    return value


class Members(NamedTuple):
    """What an object of a schema may hold: by name the kinds of values, those that must be there, others at all."""

    kinds: dict[str, frozenset[str]]
    required: frozenset[str]
    others: bool


def members_of(schema: Schema) -> Members:
    """The members of the objects that this schema is of, as far as it says; integers are numbers here."""
    walk = _Walk(schema)
    options = walk.options(schema.normal.document)
    names = {name: None for option in options for part in option for name in part.get("properties", ())}
    kinds = {name: frozenset[str]().union(*map(_kinds, walk.under(options, name))) for name in names}
    required = [{name for part in option for name in part.get("required", ())} for option in options]
    others = any(
        all(part.get("additionalProperties", True) is not False for part in option) for option in options
    )
    return Members(kinds, frozenset(set.intersection(*required) if required else ()), others)


def _may_hold_json(value: Json) -> bool:
    """Whether a text in it begins as an object or a list does."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if type(part) is str:
            if part.lstrip()[:1] in _OPENS:
                return True
        elif type(part) is dict or type(part) is list:
            waiting += part.values() if type(part) is dict else part
    return False


class _Walk:
    """One walk through a value and the schema beside it."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.places: list[str] = []
        self.left = _MOST_VALUES
        self.known: dict[int, list[Option]] = {}

    def value(self, value: Json, options: list[Option], path: tuple[str | int, ...]) -> Json:
        self.left -= len(options)
        if self.left < 0 or not options or len(path) >= DEEPEST:
            return value
        kind = _KIND.get(type(value), "")
        if kind == "string":
            return self.text(value, options, path)
        fitting = [option for option in options if kind in _kinds(option)]
        if kind == "object":
            return self.members(value, value.items(), lambda key: self.under(fitting, key), path)
        if kind == "array":
            return self.members(value, enumerate(value), self.places_of(fitting), path)
        return value

    def members(
        self,
        value: Any,
        items: Iterable[tuple[Any, Json]],
        options: Callable[[Any], list[Option]],
        path: tuple[str | int, ...],
    ) -> Json:
        """The value with its parts decoded; a copy where one was."""
        changed = value
        for key, part in items:
            new = self.value(part, options(key), (*path, key))
            if new is not part:
                changed = changed if changed is not value else value.copy()
                changed[key] = new
        return changed

    def text(self, text: str, options: list[Option], path: tuple[str | int, ...]) -> Json:
        value = decode_text(text, frozenset[str]().union(*map(_kinds, options)))
        if value is None:
            return text
        self.places.append(pointer(*path))
        return value

    def options(self, schema: Json) -> list[Option]:
        """The ways a value of this schema may be; one that asks for nothing where there are too many."""
        if id(schema) not in self.known:
            self.known[id(schema)] = self.fresh_options(schema)
        return self.known[id(schema)]

    def fresh_options(self, schema: Json) -> list[Option]:
        if schema is True:
            return [()]
        if schema is False or schema == {"not": {}}:
            return []
        found: list[list[Option]] = [[(schema,)]]
        if "$ref" in schema:
            found.append(self.options(target_of(self.schema.normal.document, schema["$ref"])))
        found += [self.options(part) for part in schema.get("allOf", ())]
        for keyword in schema.keys() & {"anyOf", "oneOf"}:
            found.append(_either(map(self.options, schema[keyword])))
        return _together(found)

    def under(self, options: list[Option], key: str) -> list[Option]:
        """The ways the value of this key may be."""
        return _either(
            _together([self.options(part) for schema in option for part in self.of_key(schema, key)])
            for option in options
        )

    def of_key(self, schema: dict[str, Json], key: str) -> list[Json]:
        patterns = schema.get("patternProperties", {})
        found = [part for text, part in patterns.items() if self.schema.pattern(text).found_in(key)]
        if key in schema.get("properties", {}):
            found.append(schema["properties"][key])
        return found or [schema.get("additionalProperties", True)]

    def places_of(self, options: list[Option]) -> Callable[[int], list[Option]]:
        """The ways the item at a place may be; asked once for all places beyond `prefixItems`."""
        longest = max(
            (len(schema.get("prefixItems", ())) for option in options for schema in option), default=0
        )
        known: dict[int, list[Option]] = {}

        def at(place: int) -> list[Option]:
            place = min(place, longest)
            if place not in known:
                known[place] = _either(
                    _together([self.options(_of_place(schema, place)) for schema in option])
                    for option in options
                )
            return known[place]

        return at


def _of_place(schema: dict[str, Json], place: int) -> Json:
    first = schema.get("prefixItems", ())
    return first[place] if place < len(first) else schema.get("items", True)


def _together(found: list[list[Option]]) -> list[Option]:
    """Every way in which all of them hold."""
    count = 1
    for options in found:
        count *= len(options)
    if count > _MOST_OPTIONS:
        return [()]
    return [sum(ways, ()) for ways in product(*found)]


def _either(found: Iterable[list[Option]]) -> list[Option]:
    options = [option for ways in found for option in ways]
    return options if len(options) <= _MOST_OPTIONS else [()]


def _kinds(option: Option) -> frozenset[str]:
    """The kinds of values that these schemas allow together, by what they say of kinds."""
    kinds = _KINDS
    for schema in option:
        said = schema.get("type", _KINDS)
        kinds &= {"number" if kind == "integer" else kind for kind in ([said] if type(said) is str else said)}
        listed = schema.get("enum", [schema["const"]] if "const" in schema else None)
        if listed is not None:
            kinds &= {_KIND[type(value)] for value in listed}
    return kinds


# Strict JSON.


def _read(text: str) -> Json:
    """The value of a JSON text. Raises `ValueError` or `RecursionError` for what a plan could not hold either."""
    if len(text) > _LONGEST:
        raise ValueError
    value = json.loads(
        text, object_pairs_hook=_object, parse_float=_finite, parse_int=_whole, parse_constant=_no
    )
    _check(value, 1)
    return value


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError("not finite")
    return number


def _whole(text: str) -> int:
    if len(text) > 400:
        raise ValueError("too long")
    return int(text)


def _no(text: str) -> NoReturn:
    raise ValueError(text)


def _check(value: Json, depth: int) -> None:
    """Bounded in depth, and all of it text that has UTF-8."""
    if depth > DEEPEST:
        raise ValueError("too deep")
    if type(value) is str:
        value.encode()
    elif type(value) is dict:
        for key, part in value.items():
            key.encode()
            _check(part, depth + 1)
    elif type(value) is list:
        for part in value:
            _check(part, depth + 1)
