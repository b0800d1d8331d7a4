"""Schemas of an OpenAPI document as JSON Schemas that stand by themselves.

    schema object --only the keywords that decide--> JSON Schema 2020-12, with what it refers to under $defs

OpenAPI 3.0 writes JSON Schema its own way (`nullable`, `exclusiveMinimum: true`, nothing beside a `$ref` counts); 3.1 is
JSON Schema. What is `readOnly` is not sent, what is `writeOnly` need not come back. A `discriminator` says which of
several holds, so not exactly one need hold. Each schema of the document is translated once, whoever refers to it; what
comes out is still a stranger's, and `compile_schema` judges it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ...policies.text import shorten
from ..values import Json
from .links import Document, Links, Unimportable

__all__ = ["Schemas"]

_DEEPEST = 40
_MOST_PARTS = 20_000
"""Schema objects in one schema with all that it refers to."""

_PLAIN: tuple[str, ...] = (
    *("type", "enum", "const", "format", "pattern", "required", "uniqueItems", "multipleOf", "default"),
    *(
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
    ),
)
_PLAIN_31: tuple[str, ...] = (
    *("exclusiveMinimum", "exclusiveMaximum", "dependentRequired", "minContains", "maxContains"),
    *("contentEncoding", "contentMediaType"),
)
_ONE = ("items", "additionalProperties", "not")
_ONE_31 = ("contains", "propertyNames", "if", "then", "else", "unevaluatedItems", "unevaluatedProperties")
_LIST, _LIST_31 = ("allOf", "anyOf", "oneOf"), ("prefixItems",)
_MAP, _MAP_31 = ("properties",), ("patternProperties", "dependentSchemas")


class Schemas:
    """The schemas of a document, for what is sent (`sending`) or for what comes back."""

    def __init__(self, links: Links, *, sending: bool) -> None:
        self._links = links
        self._sending = sending
        self._new = links.version >= (3, 1)
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()
        self._known: dict[str, tuple[Json, list[str], int]] = {}
        """By place: the translated schema, the places that it refers to, and of how many parts it is."""
        self._places: list[str] = []
        self._parts = 0

    def alone(self, schema: object, where: str) -> tuple[Json, dict[str, Json]]:
        """A schema, and the definitions that it and they refer to. Raises `Unimportable`."""
        translated, waiting, parts = self._translated(schema, where)
        found: dict[str, Json] = {}
        while waiting:
            place = waiting.pop()
            if self._names[place] in found:
                continue
            if place not in self._known:
                self._known[place] = self._translated(self._links.at(f"#{place}", where), where)
            definition, further, more = self._known[place]
            parts += more
            if parts > _MOST_PARTS:
                raise Unimportable("too_large", f"{where} has more than {_MOST_PARTS:,} parts")
            found[self._names[place]] = definition
            waiting = [*waiting, *further]
        return translated, found

    def _translated(self, schema: object, where: str) -> tuple[Json, list[str], int]:
        before = self._places, self._parts
        self._places, self._parts = [], 0
        try:
            return self._schema(schema, where, 0), self._places, self._parts
        finally:
            self._places, self._parts = before

    def _schema(self, schema: object, where: str, depth: int) -> Json:
        self._parts += 1
        if depth > _DEEPEST or self._parts > _MOST_PARTS:
            raise Unimportable("too_large", f"{where} is nested deeper than {_DEEPEST} levels, or too large")
        if isinstance(schema, bool) and self._new:
            return schema
        if not isinstance(schema, Mapping):
            raise Unimportable(
                "invalid_schema", f"{where} holds {shorten(repr(schema), 40)} in the place of a schema"
            )
        out: dict[str, Json] = {}
        if "$ref" in schema:
            out["$ref"] = self._reference(schema["$ref"], where)
            if not self._new:
                return out
        self._keywords(schema, out, where, depth)
        if isinstance(schema.get("discriminator"), Mapping):
            self._discriminated(schema, out)
        return _nullable(out) if schema.get("nullable") is True else out

    def _reference(self, reference: object, where: str) -> str:
        place = self._links.place(reference, where)
        if not place:
            raise Unimportable(
                "invalid_ref", f"$ref of {where} leads to the whole document, which is no schema"
            )
        if place not in self._names:
            name = re.sub(r"[^A-Za-z0-9_.-]", "_", place.rpartition("/")[2]) or "root"
            self._names[place] = name if name not in self._taken else f"{name}.{len(self._names)}"
            self._taken.add(self._names[place])
        self._places.append(place)
        return f"#/$defs/{self._names[place]}"

    def _keywords(self, schema: Document, out: dict[str, Json], where: str, depth: int) -> None:
        new, deeper = self._new, depth + 1
        for keyword, value in schema.items():
            if keyword in _PLAIN or (new and keyword in _PLAIN_31):
                out[keyword] = value
            elif keyword in _ONE or (new and keyword in _ONE_31):
                plain = isinstance(value, bool) and keyword == "additionalProperties"
                out[keyword] = value if plain else self._schema(value, where, deeper)
            elif keyword in _LIST or (new and keyword in _LIST_31):
                out[keyword] = [self._schema(part, where, deeper) for part in _several(value, where)]
            elif keyword in _MAP or (new and keyword in _MAP_31):
                parts = _named(value, where).items()
                out[keyword] = {name: self._schema(part, where, deeper) for name, part in parts}
            elif keyword in ("title", "description") and self._sending and isinstance(value, str):
                out[keyword] = value
        _mended(schema, out)
        self._leave_out(schema, out, where)

    def _leave_out(self, schema: Document, out: dict[str, Json], where: str) -> None:
        """What the other side sets is not sent; what it keeps to itself need not come back."""
        properties = schema.get("properties")
        marked = "readOnly" if self._sending else "writeOnly"
        for name, part in properties.items() if isinstance(properties, Mapping) else ():
            if isinstance(part, Mapping) and self._is(marked, part, where):
                if isinstance(out.get("required"), list):
                    out["required"] = [each for each in out["required"] if each != name]
                if self._sending:
                    del out["properties"][name]

    def _is(self, mark: str, part: Document, where: str) -> bool:
        if part.get(mark) is True:
            return True
        return "$ref" in part and self._links.followed(part, where).get(mark) is True

    def _discriminated(self, schema: Document, out: dict[str, Json]) -> None:
        """Of alternatives with a discriminator the one that it names holds, whatever else may fit."""
        alternatives = out.pop("oneOf", None)
        if alternatives is not None:
            out["anyOf" if "anyOf" not in out else "allOf"] = (
                alternatives if "anyOf" not in out else [*out.get("allOf", []), {"anyOf": alternatives}]
            )
        elif "anyOf" not in out and "properties" in out:
            out.setdefault("additionalProperties", True)  # the kinds of it have properties of their own


def _several(value: object, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise Unimportable(
            "invalid_schema", f"{where} has {shorten(repr(value), 40)} where a list of schemas belongs"
        )
    return value


def _named(value: object, where: str) -> Document:
    if not isinstance(value, Mapping):
        raise Unimportable(
            "invalid_schema", f"{where} has {shorten(repr(value), 40)} where named schemas belong"
        )
    return value


def _mended(schema: Document, out: dict[str, Json]) -> None:
    """In 3.0 a flag beside the bound says that the bound itself is out, and documents of 3.1 still write it so.

    Neither this nor a name that stands twice in `required` can be meant in more than one way.
    """
    for flag, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(schema.get(flag), bool):
            out.pop(flag, None)
            if schema[flag] and bound in out:
                out[flag] = out.pop(bound)
    required = out.get("required")
    if isinstance(required, list) and all(isinstance(name, str) for name in required):
        out["required"] = list(dict.fromkeys(required))


def _nullable(out: dict[str, Json]) -> dict[str, Json]:
    """What may be null besides; also without a type of its own, beside `allOf`, as it is usually written."""
    if isinstance(out.get("enum"), list) and None not in out["enum"]:
        out["enum"] = [*out["enum"], None]
    if isinstance(out.get("type"), str):
        out["type"] = [out["type"], "null"] if out["type"] != "null" else "null"
        return out
    words: dict[str, Json] = {
        name: out.pop(name) for name in ("title", "description", "default") if name in out
    }
    return {"anyOf": [out, {"type": "null"}], **words} if out and "type" not in out else {**out, **words}
