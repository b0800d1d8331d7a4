"""The shape of a value: its types and the keys that we know already, never what it holds.

A planner is shown shapes of results, because a result may carry instructions for it. A key can carry them as well, so
a key is shown only if the tool's output schema declares it or the plan's own text already says it.

    {"rows": [{"name": "Ann", "x-do-this": 1}]}   with a schema that declares rows and name
    -> {"type": "object", "properties": {"rows": {"type": "array", "items":
           {"type": "object", "properties": {"name": {"type": "string"}}, "additionalProperties": true}}}}
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeAlias

from .plan import Plan

__all__ = ["common_shape", "shape_of", "words_in", "words_of"]

Json: TypeAlias = Any

_ITEMS = 20
"""So many items of a list are looked at."""
_KEYS = 40
"""So many keys of an object are shown."""
_SCHEMAS = 64
"""So many branches of a schema are followed for one value; a schema may be hostile."""
_SCALARS = {type(None): "null", bool: "boolean", int: "integer", float: "number", str: "string"}
_WORD = re.compile(r"[^\W\d]\w*")


def shape_of(
    value: Json,
    schema: Mapping[str, Any] | None = None,
    *,
    known: Collection[str] = frozenset(),
    depth: int = 4,
) -> dict[str, Any]:
    """The shape of a plain JSON value, as a small JSON Schema.

    Keys occur in it only if `schema` (the output schema of the tool that made the value) declares them or they are
    in `known` (see `words_of`); where others are left out it says `additionalProperties: true`. An empty list says
    `maxItems: 0`. Deeper than `depth`, and past forty keys, nothing more is told.
    """
    root = schema or {}
    return _Shapes(root, frozenset(known)).of(value, [root], depth)


def common_shape(
    values: Iterable[Json],
    schema: Mapping[str, Any] | None = None,
    *,
    known: Collection[str] = frozenset(),
    depth: int = 4,
) -> dict[str, Any]:
    """One shape for several values, as `shape_of` gives it for one."""
    root = schema or {}
    look = _Shapes(root, frozenset(known))
    return _joined(look.of(value, [root], depth) for value in values)


def words_of(plan: Plan) -> frozenset[str]:
    """Every word in the text of the plan: who wrote the plan may see these as keys, because the words are theirs."""
    return words_in(plan.to_json())


def words_in(document: Json) -> frozenset[str]:
    """Every key, every text and every word of a text in a document."""
    return frozenset(word for text in _texts(document) for word in (text, *_WORD.findall(text)))


def _texts(document: Json) -> Iterator[str]:
    if isinstance(document, str):
        yield document
    elif isinstance(document, dict):
        yield from document
        for value in document.values():
            yield from _texts(value)
    elif isinstance(document, list):
        for value in document:
            yield from _texts(value)


class _Shapes:
    """One look at one value: the schema its references point into, and the words that may be shown."""

    def __init__(self, root: Mapping[str, Any], known: frozenset[str]) -> None:
        self.root = root
        self.known = known

    def of(self, value: Json, schemas: list[Json], depth: int) -> dict[str, Any]:
        if isinstance(value, dict):
            return self._object(value, self._branches(schemas), depth)
        if isinstance(value, list):
            return self._array(value, self._branches(schemas), depth)
        return {"type": _SCALARS.get(type(value), "string")}

    def _object(self, value: dict[str, Json], schemas: list[Mapping[str, Any]], depth: int) -> dict[str, Any]:
        shape: dict[str, Any] = {"type": "object"}
        if depth <= 0:
            return shape
        declared = _declared(schemas)
        shown = list(islice((k for k in value if k in declared or k in self.known), _KEYS))
        if shown:
            shape["properties"] = {k: self.of(value[k], declared.get(k, []), depth - 1) for k in shown}
        if len(shown) < len(value):
            shape["additionalProperties"] = True
        return shape

    def _array(self, value: list[Json], schemas: list[Mapping[str, Any]], depth: int) -> dict[str, Any]:
        if not value:
            return {"type": "array", "maxItems": 0}
        if depth <= 0:
            return {"type": "array"}
        inner = [s["items"] for s in schemas if "items" in s]
        return {"type": "array", "items": _joined(self.of(item, inner, depth - 1) for item in value[:_ITEMS])}

    def _branches(self, schemas: list[Json]) -> list[Mapping[str, Any]]:
        """The schemas and all they refer to or combine, each once."""
        waiting, seen, found = list(schemas), set[int](), list[Mapping[str, Any]]()
        while waiting and len(found) < _SCHEMAS:
            schema = waiting.pop(0)
            if not isinstance(schema, Mapping) or id(schema) in seen:
                continue
            seen.add(id(schema))
            found.append(schema)
            for word in ("anyOf", "oneOf", "allOf"):
                branches = schema.get(word)
                waiting.extend(branches[:_SCHEMAS] if isinstance(branches, list) else ())
            waiting.append(self._target(schema.get("$ref")))
        return found

    def _target(self, reference: Json) -> Json:
        """What a reference inside the document points to; None for any other."""
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return self.root if reference == "#" else None
        found: Json = self.root
        for part in reference[2:].split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            found = found.get(key) if isinstance(found, Mapping) else None
        return found


def _declared(schemas: list[Mapping[str, Any]]) -> dict[str, list[Json]]:
    """Each declared property with every schema that speaks of it."""
    found: dict[str, list[Json]] = {}
    for schema in schemas:
        properties = schema.get("properties")
        for key, inner in properties.items() if isinstance(properties, Mapping) else ():
            found.setdefault(key, []).append(inner)
    return found


def _joined(shapes: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """One shape for several: scalars by their types, objects by the union of their keys, lists by their items."""
    by_type: dict[str, list[dict[str, Any]]] = {}
    for shape in shapes:
        for one in shape.get("anyOf", [shape]):
            for kind in [one["type"]] if isinstance(one["type"], str) else one["type"]:
                by_type.setdefault(kind, []).append(one)
    merged = [_merged(kind, of_kind) for kind, of_kind in by_type.items()]
    if len(merged) == 1:
        return merged[0]
    if all(len(shape) == 1 for shape in merged):
        return {"type": [shape["type"] for shape in merged]}
    return {"anyOf": merged}


def _merged(kind: str, shapes: list[dict[str, Any]]) -> dict[str, Any]:
    shape: dict[str, Any] = {"type": kind}
    if kind == "array":
        if inner := [s["items"] for s in shapes if "items" in s]:
            shape["items"] = _joined(inner)
        elif all("maxItems" in s for s in shapes):
            shape["maxItems"] = 0
    if kind == "object":
        keys = dict.fromkeys(k for s in shapes for k in s.get("properties", ()))
        if keys:
            shape["properties"] = {
                k: _joined(s["properties"][k] for s in shapes if k in s.get("properties", ()))
                for k in islice(keys, _KEYS)
            }
        if any("additionalProperties" in s for s in shapes):
            shape["additionalProperties"] = True
    return shape
