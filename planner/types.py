"""What values can be: small immutable types made from JSON Schemas, so that a plan can be judged before it runs.

A type says *at most*: every value the schema admits is in it, some more may be. Two types that share no value are
certainly disjoint, and only that is ever an error; what is not known is `ANY` and never blocks.

    Type = a set of kinds, and what is known of each
      null  boolean  integer  fraction  string      `values` where a finite list of them is known
      array                                         `items`, at least `least` of them; `places` where each has its own
      object                                        `fields`, which of them are `required`, `rest` for other keys
                                                    (None: there are no others)

    join a b   values of either        meet a b   at least the values of both        disjoint a b   no value of both

A schema that declares `properties` and does not say `additionalProperties` is read closed. What is recursive is unrolled
a few times and ANY from there on; schemas are read once each, with caps on depth and size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from typing import Any, TypeAlias

from ..policies.canonical import canonical, digest

__all__ = [
    "ANY",
    "BOOLEAN",
    "INTEGER",
    "NEVER",
    "NULL",
    "NUMBER",
    "STRING",
    "Type",
    "array_of",
    "describe",
    "disjoint",
    "join",
    "list_of",
    "meet",
    "object_of",
    "type_of_schema",
    "type_of_value",
]

Json: TypeAlias = Any

_SCALARS = frozenset({"null", "boolean", "integer", "fraction", "string"})
_KINDS = _SCALARS | {"array", "object"}
_NAMES = {"number": frozenset({"integer", "fraction"}), **{k: frozenset({k}) for k in _KINDS - {"fraction"}}}

_DEPTH = 24
_NODES = 50_000
_VALUES = 200
_BRANCHES = 64
_ITEMS = 100
_TALL = 12
_PLACES = 12
_TURNS = 4
_TURNING = 60
"""Beyond these a schema, an expression or a literal is not looked into any further: what lies there is ANY, a long enum its kinds.
A schema in which more than `_TURNING` references are recursive is unrolled once."""


@dataclass(frozen=True, eq=False, slots=True)
class Type:
    """A set of JSON values, described from above. Without kinds it is empty. `None` items are of any type."""

    kinds: frozenset[str] = _KINDS
    values: frozenset[bytes] | None = None
    """Canonical texts of the scalars of this type, where they are all known."""
    items: Type | None = None
    least: int = 0
    places: tuple[Type, ...] = ()
    """What its arrays hold in their first places, if they are so long; `items` holds all of this, too."""
    fields: Mapping[str, Type] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    rest: Type | None = None
    height: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        parts = [
            t.height for t in (self.items, self.rest, *self.places, *self.fields.values()) if t is not None
        ]
        object.__setattr__(self, "height", 1 + max(parts) if parts else 0)

    def __repr__(self) -> str:
        return f"<Type {describe(self)}>"

    def has(self, *kinds: str) -> bool:
        """Whether a value of one of these kinds is possible."""
        return not self.kinds.isdisjoint(kinds)

    def only(self, *kinds: str) -> Type:
        """Those of its values that are of these kinds."""
        return replace(self, kinds=self.kinds.intersection(kinds))

    def without_null(self) -> Type:
        return replace(self, kinds=self.kinds - {"null"}) if "null" in self.kinds else self

    def field(self, name: str) -> Type | None:
        """What its objects hold under this key; None where they certainly do not have it."""
        return self.fields.get(name, self.rest)

    @property
    def item(self) -> Type:
        """What its arrays hold."""
        return ANY if self.items is None else self.items

    def at(self, place: int) -> Type:
        """What its arrays hold in this place, counted from 0, if they are so long."""
        return self.places[place] if place < len(self.places) else self.item


ANY = Type()
object.__setattr__(ANY, "rest", ANY)
NEVER = Type(frozenset())
NULL = Type(frozenset({"null"}), values=frozenset({b"null"}))
BOOLEAN = Type(frozenset({"boolean"}), values=frozenset({b"true", b"false"}))
INTEGER = Type(frozenset({"integer"}))
NUMBER = Type(frozenset({"integer", "fraction"}))
STRING = Type(frozenset({"string"}))


def array_of(items: Type, *, least: int = 0) -> Type:
    """Lists of these."""
    return Type(frozenset({"array"}), items=items if items.height <= _TALL else ANY, least=least)


def list_of(places: Sequence[Type], items: Type | None = None) -> Type:
    """Lists of as many elements, each place with its own type; `items` holds all of them."""
    found = array_of(reduce(join, places, NEVER) if items is None else items, least=len(places))
    if found.items is ANY or len(places) > _PLACES or all(place is found.items for place in places):
        return found
    return replace(found, places=tuple(places))


def object_of(
    fields: Mapping[str, Type], *, required: Iterable[str] | None = None, rest: Type | None = None
) -> Type:
    """Objects with these fields, all required unless said otherwise, and no others unless `rest` says their type."""
    needed = frozenset(fields if required is None else required)
    if any(t.height > _TALL for t in fields.values()):
        fields = {n: t if t.height <= _TALL else ANY for n, t in fields.items()}
    return Type(frozenset({"object"}), fields=fields, required=needed, rest=rest)


def type_of_value(value: Json) -> Type:
    """The type that holds this plain JSON value and as little else as can be said."""
    match value:
        case list():
            if len(value) > _ITEMS:
                return array_of(ANY, least=len(value))
            return list_of([type_of_value(item) for item in value])
        case dict():
            return object_of({k: type_of_value(v) for k, v in value.items()})
        case _:
            return Type(frozenset({_kind(value)}), values=frozenset({canonical(value)}))


def _kind(value: Json) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "fraction"
        case _:
            return "string"


def join(a: Type, b: Type) -> Type:
    """The values of either; what they say of objects and of lists is merged, each kind by itself."""
    return _joined(a, b, {})


def meet(a: Type, b: Type) -> Type:
    """At least the values that both hold. Objects that are closed on one side only may have the fields of both."""
    return _met(a, b, {})


_Memo: TypeAlias = dict[tuple["Type", "Type"], "Type"]
"""Pairs that were combined: parts that are shared are combined once, else a few lines of `$ref` would take for ever."""


def _joined(a: Type, b: Type, memo: _Memo) -> Type:
    if a is b or not b.kinds:
        return a
    if not a.kinds:
        return b
    if a is ANY or b is ANY:
        return ANY
    if (a, b) not in memo:
        memo[a, b] = _join(a, b, memo)
    return memo[a, b]


def _join(a: Type, b: Type, memo: _Memo) -> Type:
    lists = [t for t in (a, b) if "array" in t.kinds]
    objects = [t for t in (a, b) if "object" in t.kinds]
    fields, rest = _joined_fields(objects, memo)
    return Type(
        kinds=a.kinds | b.kinds,
        values=_joined_values(a, b),
        items=None
        if not lists or any(t.items is None for t in lists)
        else _fold([t.item for t in lists], memo),
        least=min((t.least for t in lists), default=0),
        places=_by_place(lists, memo, _joined) if lists else (),
        fields=fields,
        required=objects[0].required & objects[-1].required if objects else frozenset(),
        rest=rest,
    )


def _by_place(
    lists: list[Type], memo: _Memo, combined: Callable[[Type, Type, _Memo], Type]
) -> tuple[Type, ...]:
    """Two lists, place by place; a place that one of them does not tell apart is one of its items."""
    a, b = lists[0], lists[-1]
    if a is b or not (a.places or b.places):
        return a.places
    return tuple(combined(a.at(i), b.at(i), memo) for i in range(max(len(a.places), len(b.places))))


def _fold(parts: list[Type], memo: _Memo) -> Type:
    return reduce(lambda a, b: _joined(a, b, memo), parts)


def _joined_values(a: Type, b: Type) -> frozenset[bytes] | None:
    parts = [t for t in (a, b) if t.has(*_SCALARS)]
    if any(t.values is None for t in parts):
        return None
    values: frozenset[bytes] = frozenset().union(*(t.values or () for t in parts))
    return values if len(values) <= _VALUES else None


def _joined_fields(objects: list[Type], memo: _Memo) -> tuple[Mapping[str, Type], Type | None]:
    if len(objects) < 2:
        return (objects[0].fields, objects[0].rest) if objects else ({}, None)
    a, b = objects
    fields = {
        n: _fold([f for t in objects if (f := t.field(n)) is not None], memo)
        for n in {**a.fields, **b.fields}
    }
    others = [t.rest for t in objects if t.rest is not None]
    return fields, _fold(others, memo) if others else None


def _met(a: Type | None, b: Type | None, memo: _Memo) -> Type:
    if a is None or b is None or a is b or a is ANY or b is ANY:
        return (b if a is None or a is ANY else a) or ANY
    if (a, b) not in memo:
        memo[a, b] = _meet(a, b, memo)
    return memo[a, b]


def _meet(a: Type, b: Type, memo: _Memo) -> Type:
    required = a.required | b.required
    names = {**a.fields, **b.fields, **dict.fromkeys(required)}
    return Type(
        kinds=a.kinds & b.kinds,
        values=a.values & b.values if a.values is not None and b.values is not None else a.values or b.values,
        items=_met(a.items, b.items, memo) if a.items or b.items else None,
        least=max(a.least, b.least),
        places=_by_place([a, b], memo, _met),
        fields={n: _met(a.fields.get(n), b.fields.get(n), memo) for n in names},
        required=required,
        rest=_met(a.rest, b.rest, memo) if a.rest and b.rest else None,
    )


_Seen: TypeAlias = dict[tuple["Type", "Type"], bool]


def disjoint(a: Type, b: Type, seen: _Seen | None = None) -> bool:
    """Whether certainly no value is in both. `seen` keeps what was compared, for the next time."""
    return _apart(a, b, {} if seen is None else seen)


def _apart(a: Type, b: Type, seen: _Seen) -> bool:
    """Each pair is compared once; one that is being compared further out is taken to share something."""
    if a is b:
        return not a.kinds
    pair = (a, b)
    if pair not in seen:
        seen[pair] = False
        seen[pair] = all(_kind_apart(kind, a, b, seen) for kind in a.kinds & b.kinds)
    return seen[pair]


def _kind_apart(kind: str, a: Type, b: Type, seen: _Seen) -> bool:
    if kind == "array":
        certain = min(max(a.least, b.least), max(len(a.places), len(b.places), 1))
        return any(_apart(a.at(i), b.at(i), seen) for i in range(certain))
    if kind == "object":
        return _fields_apart(a.required, a, b, seen) or _fields_apart(b.required - a.required, a, b, seen)
    # one list of scalars serves all scalar kinds: that the lists differ says that every one of them does
    return a.values is not None and b.values is not None and a.values.isdisjoint(b.values)


def _fields_apart(names: Iterable[str], a: Type, b: Type, seen: _Seen) -> bool:
    """Whether one of these fields cannot be in both; objects may have thousands, and most are of the same type."""
    ours, our_rest, theirs, their_rest = a.fields, a.rest, b.fields, b.rest
    for name in names:
        one, other = ours.get(name, our_rest), theirs.get(name, their_rest)
        if one is None or other is None or (not one.kinds if one is other else _apart(one, other, seen)):
            return True
    return False


# ---- from schemas --------------------------------------------------------------------------------------------------


def type_of_schema(document: Json) -> Type:
    """The type of a JSON Schema; the same document is read once. `ANY` where it says nothing that is understood."""
    if document is True or document == {}:
        return ANY
    try:
        return _read_schema(digest(document), _Held(document))
    except (ValueError, RecursionError):
        return ANY


class _Held:
    """A document on its way through a cache whose key is its digest."""

    __slots__ = ("document",)

    def __init__(self, document: Json) -> None:
        self.document = document

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held)

    def __hash__(self) -> int:
        return 0


@lru_cache(maxsize=4096)
def _read_schema(name: str, held: _Held) -> Type:
    return _Reader(held.document).read(held.document, 0)


class _Reader:
    """Reads one schema document. A `$ref` is read once; one that leads back to itself, once for each turn that is left."""

    def __init__(self, root: Json) -> None:
        self.root = root
        self.references: dict[tuple[str, int], tuple[Type, int]] = {}
        self.recursive = _recursive(root)
        self.turns = _TURNS if len(self.recursive) <= _TURNING else 1
        self.nodes = 0
        self.deepest = 0

    def read(self, schema: Json, depth: int) -> Type:
        self.nodes += 1
        self.deepest = max(self.deepest, depth)
        if schema is False:
            return NEVER
        if not isinstance(schema, dict) or not schema or depth > _DEPTH or self.nodes > _NODES:
            return ANY
        found = self._base(schema, depth)
        if "$ref" in schema:
            found = meet(found, self._reference(schema["$ref"], depth))
        for word in ("anyOf", "oneOf"):
            branches = _list(schema.get(word))
            if 0 < len(branches) <= _BRANCHES:
                found = meet(found, reduce(join, (self.read(branch, depth + 1) for branch in branches)))
        for part in _list(schema.get("allOf"))[:_BRANCHES]:
            found = meet(found, self.read(part, depth + 1))
        return _SIMPLE.setdefault(found.kinds, found) if _is_simple(found) else found

    def _base(self, schema: dict[str, Json], depth: int) -> Type:
        found = _enumerated(schema)
        kinds = _kinds(schema.get("type"))
        if kinds is not None:
            found = meet(found, replace(ANY, kinds=kinds))
        if found.has("array"):
            found = self._array(found, schema, depth)
        if found.has("object"):
            found = self._object(found, schema, depth)
        return found

    def _array(self, found: Type, schema: dict[str, Json], depth: int) -> Type:
        parts = _list(schema.get("prefixItems"))
        rest = schema.get("items")
        if isinstance(rest, list):  # older drafts
            parts, rest = rest, schema.get("additionalItems")
        types = [self.read(part, depth + 1) for part in parts[:_BRANCHES]]
        places = tuple(types[:_PLACES])
        if len(parts) > _BRANCHES:
            types.append(ANY)
        if rest is not False or not types:
            types.append(ANY if rest is None else self.read(rest, depth + 1))
        least = schema.get("minItems")
        least = least if isinstance(least, int) else 0
        return meet(found, replace(ANY, items=reduce(join, types), least=least, places=places))

    def _object(self, found: Type, schema: dict[str, Json], depth: int) -> Type:
        declared = schema.get("properties")
        properties = declared if isinstance(declared, dict) else {}
        rest = self._rest(schema, depth) if properties or "additionalProperties" in schema else ANY
        required = frozenset(name for name in _list(schema.get("required")) if isinstance(name, str))
        fields = {name: self.read(part, depth + 1) for name, part in properties.items()}
        if rest is None:
            required = (
                required & fields.keys()
            )  # a schema that requires what it forbids is the registry's to refuse
        if not fields and not required and rest is ANY:
            return found
        return meet(found, replace(ANY, fields=fields, required=required, rest=rest))

    def _rest(self, schema: dict[str, Json], depth: int) -> Type | None:
        """What other keys than the declared ones hold; None where there are none."""
        if schema.get("patternProperties") or not _CONDITIONS.isdisjoint(schema):
            return ANY
        if "additionalProperties" not in schema:
            return None
        rest = self.read(schema["additionalProperties"], depth + 1)
        return rest if rest.kinds else None

    def _reference(self, reference: Json, depth: int) -> Type:
        if not isinstance(reference, str):
            return ANY
        turning = reference in self.recursive
        if turning and not self.turns:
            return ANY
        key = reference, self.turns
        if key not in self.references:
            self.references[key] = ANY, 0
            before, self.deepest = self.deepest, depth
            self.turns -= turning
            found = self.read(_resolve(self.root, reference), depth + 1)
            self.turns += turning
            self.references[key] = found, self.deepest - depth
            self.deepest = max(before, self.deepest)
        found, height = self.references[key]
        self.deepest = max(self.deepest, depth + height)
        return found if depth + height <= 2 * _DEPTH else ANY


_SIMPLE: dict[frozenset[str], Type] = {t.kinds: t for t in (STRING, INTEGER, NUMBER)}
"""One type each for scalars of which no more is known: most fields of objects, and quickly compared."""


def _is_simple(found: Type) -> bool:
    return found.values is None and found.kinds <= _SCALARS


def _recursive(root: Json) -> frozenset[str]:
    """The references from whose targets one comes back to them."""
    leads: dict[str, set[str]] = {}
    waiting = [*_references_in(root)]
    while waiting:
        reference = waiting.pop()
        if reference not in leads:
            leads[reference] = set(_references_in(_resolve(root, reference)))
            waiting += leads[reference]
    # what can never be left out, from the ends of the chains: what stays after that is in or before a ring
    behind: dict[str, list[str]] = {}
    for reference, others in leads.items():
        for other in others:
            behind.setdefault(other, []).append(reference)
    open_ends = {reference: len(others) for reference, others in leads.items()}
    done = [reference for reference, n in open_ends.items() if n == 0]
    for reference in done:
        for before in behind.get(reference, ()):
            open_ends[before] -= 1
            if open_ends[before] == 0:
                done.append(before)
    return frozenset(leads.keys() - set(done))


def _references_in(schema: Json) -> Iterator[str]:
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if isinstance(reference := part.get("$ref"), str):
                yield reference
            waiting += [v for k, v in part.items() if k not in ("$defs", "definitions", "enum", "const")]
        elif isinstance(part, list):
            waiting += part


_CONDITIONS = frozenset({"if", "dependentSchemas", "dependencies", "not"})
"""Words under which more properties may be declared."""


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _kinds(stated: Json) -> frozenset[str] | None:
    names = stated if isinstance(stated, list) else [stated]
    known = [_NAMES[n] for n in names if isinstance(n, str) and n in _NAMES]
    return frozenset().union(*known) if known and len(known) == len(names) else None


def _enumerated(schema: dict[str, Json]) -> Type:
    if "const" in schema:
        return type_of_value(schema["const"])
    values = schema.get("enum")
    if not isinstance(values, list):
        return ANY
    if len(values) <= _VALUES:
        return reduce(join, map(type_of_value, values), NEVER)
    return replace(ANY, kinds=frozenset().union(*(type_of_value(v).kinds for v in values)))


def _resolve(root: Json, reference: str) -> Json:
    """The part of the document a local reference names; True (anything) where it names none."""
    if not reference.startswith("#"):
        return True
    at = root
    for part in reference[1:].split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(at, dict) and key in at:
            at = at[key]
        elif isinstance(at, list) and key.isdigit() and int(key) < len(at):
            at = at[int(key)]
        else:
            return True
    return at


# ---- for people ----------------------------------------------------------------------------------------------------

_WORDS = {
    "null": "null",
    "boolean": "true or false",
    "integer": "a whole number",
    "fraction": "a number",
    "string": "text",
    "array": "a list",
    "object": "an object",
}


def describe(type: Type) -> str:
    """The type in a few words: `a list of objects`, `text or null`, `anything`."""
    if type.kinds == _KINDS:
        return "anything"
    if not type.kinds:
        return "nothing"
    kinds = type.kinds - {"integer"} if "fraction" in type.kinds else type.kinds
    if type.values is not None and len(type.values) <= 4 and kinds <= _SCALARS - {"null", "boolean"}:
        return " or ".join(sorted(v.decode() for v in type.values))
    words = [_list_word(type) if k == "array" else _WORDS[k] for k in _WORDS if k in kinds]
    return " or ".join(words)


def _list_word(type: Type) -> str:
    inner = type.item
    if inner.kinds == _KINDS or len(inner.kinds) != 1:
        return "a list of numbers" if inner.kinds == NUMBER.kinds else "a list"
    plural = {"string": "texts", "object": "objects", "integer": "whole numbers", "array": "lists"}
    (kind,) = inner.kinds
    return f"a list of {plural[kind]}" if kind in plural else "a list"
