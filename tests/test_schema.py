"""Schemas guard tools: what they accept, what they say, and what hostile ones cannot do."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from referencing import Registry
from support.datasets import records

from foreplan.policies.errors import SchemaRefused
from foreplan.registry.patterns import read_pattern
from foreplan.registry.schema import Problem, compile_schema

NAN = float("nan")


def said(schema: Any, value: Any, *, closed: bool = False) -> list[str]:
    """The problems as `pointer: message`."""
    return [f"{p.pointer}: {p.message}" for p in compile_schema(schema, closed=closed).problems(value)]


# ---- threats 4 and 5: what must not get in ---------------------------------------------------------------------------

REFUND = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "pattern": "^[a-z]+$"},
        "amount": {"type": "number", "minimum": 0, "maximum": 100},
        "count": {"type": "integer"},
        "sure": {"type": "boolean"},
        "day": {"type": "string", "format": "date"},
        "note": {"type": ["string", "null"], "maxLength": 5},
        "to": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
        "any": {},
    },
    "required": ["id"],
}

SMUGGLED: dict[str, tuple[dict[str, Any], str]] = {
    "an extra argument": ({"id": "a", "sudo": True}, "/sudo"),
    "an extra property inside": ({"id": "a", "to": {"name": "x", "admin": 1}}, "/to/admin"),
    "a newline at the end": ({"id": "abc\n"}, "/id"),
    "text for true": ({"id": "a", "sure": "true"}, "/sure"),
    "one for true": ({"id": "a", "sure": 1}, "/sure"),
    "text for a number": ({"id": "a", "amount": "3"}, "/amount"),
    "true for a number": ({"id": "a", "amount": True}, "/amount"),
    "true for an integer": ({"id": "a", "count": True}, "/count"),
    "a fraction for an integer": ({"id": "a", "count": 1.5}, "/count"),
    "a number for text": ({"id": 7}, "/id"),
    "null for a number": ({"id": "a", "amount": None}, "/amount"),
    "NaN under bounds": ({"id": "a", "amount": NAN}, "/amount"),
    "infinity under bounds": ({"id": "a", "amount": float("-inf")}, "/amount"),
    "NaN where anything goes": ({"id": "a", "any": {"deep": [NAN]}}, "/any/deep/0"),
    "a list around the value": ({"id": ["a"]}, "/id"),
    "JSON as text": ({"id": "a", "to": '{"name": "x"}'}, "/to"),
    "a date with a time": ({"id": "a", "day": "2024-01-01T00:00:00Z"}, "/day"),
    "no such day": ({"id": "a", "day": "2023-02-29"}, "/day"),
    "digits of another script": ({"id": "a", "day": "２０２３-01-01"}, "/day"),
    "too long": ({"id": "a", "note": "123456"}, "/note"),
    "a tuple": ({"id": "a", "any": (1, 2)}, "/any"),
    "bytes": ({"id": "a", "any": b"x"}, "/any"),
    "a key that is no text": ({"id": "a", "any": {1: 2}}, "/any"),
    "nothing at all": ({}, ""),
}


@pytest.mark.parametrize("case", SMUGGLED)
def test_what_does_not_belong_is_refused_where_it_is(case: str) -> None:
    """Threats 4 and 5: nothing is coerced, dropped or overlooked; the pointer leads to the value."""
    args, place = SMUGGLED[case]
    schema = compile_schema(REFUND, closed=True)
    assert not schema.accepts(args)
    assert [p.pointer for p in schema.problems(args)] == [place]


def test_what_belongs_is_accepted() -> None:
    """A whole number may be written 1.0, null where null is a type, and a bound may be met."""
    schema = compile_schema(REFUND, closed=True)
    args = {"id": "abc", "amount": 100, "count": 1.0, "sure": True, "day": "2024-02-29", "note": None}
    assert schema.problems({**args, "to": {"name": "x"}, "any": [{"a": [1, 2.5, None]}]}) == []


# ---- the quick check says yes only where jsonschema does ---------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c", "d/e"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.0, 1.0, 1.5, -2.5, 2**60, 1e300, "", "a", "ab", "abc", "2024-01-01", "é"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
KINDS = ["string", "integer", "number", "boolean", "null", "array", "object"]
SMALL = st.integers(0, 3)


def _partly(**parts: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=parts)


LEAVES = st.one_of(
    st.just({}),
    st.booleans(),
    _partly(
        type=st.sampled_from(KINDS) | st.lists(st.sampled_from(KINDS), min_size=1, max_size=3, unique=True),
        minLength=SMALL,
        maxLength=SMALL,
        minimum=SMALL,
        maximum=SMALL,
        exclusiveMinimum=st.sampled_from([-1, 0.5]),
        exclusiveMaximum=SMALL,
        multipleOf=st.sampled_from([1, 2, 0.5]),
        pattern=st.sampled_from(["^a", "b", "^[a-c]+$"]),
        format=st.sampled_from(["date", "ipv4", "unknown"]),
        enum=st.lists(SCALARS, min_size=1, max_size=3),
        const=SCALARS,
        title=st.just("t"),
        default=SCALARS,
    ),
)


def _composed(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        _partly(
            type=st.sampled_from(["object", "array"]),
            properties=st.dictionaries(NAMES, inner, max_size=3),
            required=st.lists(NAMES, max_size=2, unique=True),
            additionalProperties=inner,
            items=inner,
            minItems=SMALL,
            maxItems=SMALL,
            uniqueItems=st.booleans(),
            patternProperties=st.dictionaries(st.sampled_from(["^a", "c$"]), inner, max_size=2),
            minProperties=SMALL,
            prefixItems=several,
            contains=inner,
            propertyNames=inner,
            dependentRequired=st.dictionaries(NAMES, st.lists(NAMES, max_size=2, unique=True), max_size=1),
        ),
        _partly(anyOf=several, allOf=several, oneOf=several, **{"not": inner, "if": inner, "then": inner, "else": inner}),
        _partly(anyOf=several),
        st.just({"$ref": "#/$defs/x"}),
    )  # fmt: skip


SCHEMAS = st.recursive(LEAVES, _composed, max_leaves=8)


def _reference(document: Any) -> Any:
    """jsonschema itself, with its own `date` and our reading of `multipleOf` where floats are exact anyway."""
    formats = jsonschema.FormatChecker(["date", "ipv4"])
    return jsonschema.Draft202012Validator(document, registry=Registry(), format_checker=formats)


def _agrees(schema: Any, shared: Any, values: list[Any]) -> None:
    document = {"allOf": [schema], "$defs": {"x": shared}} if "$ref" in json.dumps(schema) else schema
    reference, ours = _reference(document), compile_schema(document)
    for value in values:
        valid = reference.is_valid(value)
        assert ours.accepts(value) is valid
        assert (ours.problems(value) == []) is valid
        assert valid or ours.quick is None or not ours.quick(value)


@settings(max_examples=300, deadline=None)
@given(SCHEMAS, LEAVES, st.lists(VALUES, min_size=1, max_size=5))
def test_a_schema_accepts_what_jsonschema_accepts(schema: Any, shared: Any, values: list[Any]) -> None:
    """Random schemas and values: the same answer, and where the quick check says yes, jsonschema does."""
    _agrees(schema, shared, values)


@pytest.mark.proof
@settings(max_examples=30_000, deadline=None)
@given(SCHEMAS, LEAVES, st.lists(VALUES, min_size=1, max_size=5))
def test_many_schemas_accept_what_jsonschema_accepts(schema: Any, shared: Any, values: list[Any]) -> None:
    """The same, thirty thousand times."""
    _agrees(schema, shared, values)


FLAT = st.fixed_dictionaries(
    {
        "type": st.just("object"),
        "properties": st.dictionaries(NAMES, LEAVES, max_size=4),
        "required": st.lists(NAMES, max_size=2, unique=True),
    },
    optional={"additionalProperties": st.booleans()},
)


@settings(max_examples=300, deadline=None)
@given(FLAT, st.lists(st.dictionaries(NAMES, SCALARS, max_size=4), min_size=1, max_size=5))
def test_flat_objects_are_checked_quickly_and_alike(schema: Any, values: list[Any]) -> None:
    """The schemas that most tools have are covered by the quick check, closed reading included."""
    ours = compile_schema(schema, closed=True)
    reference = _reference({"additionalProperties": False, **schema})
    assert ours.quick is not None
    for value in values:
        assert ours.accepts(value) is reference.is_valid(value)


@settings(max_examples=300, deadline=None)
@given(SCHEMAS)
def test_what_is_read_is_a_valid_schema(schema: Any) -> None:
    """Whoever is not asked, the metaschema would agree."""
    if isinstance(compile_schema(schema if "$ref" not in json.dumps(schema) else {}).document, dict):
        jsonschema.Draft202012Validator.check_schema(schema)


# ---- invalid and hostile documents ---------------------------------------------------------------------------------------

DAG = {f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(40)}
CHAIN = {f"a{i}": {"$ref": f"#/$defs/a{i + 1}"} for i in range(3000)}


def _deep(levels: int) -> Any:
    schema: Any = {}
    for _ in range(levels):
        schema = {"items": schema}
    return schema


HOSTILE: dict[str, tuple[Any, str | None, str]] = {
    "remote": ({"properties": {"a": {"$ref": "https://evil.example/x.json"}}}, "/properties/a/$ref", "fetched"),
    "a file": ({"$ref": "file:///etc/passwd"}, "/$ref", "fetched"),
    "relative": ({"$ref": "other.json#/a"}, "/$ref", "fetched"),
    "the metaschema": ({"$ref": "https://json-schema.org/draft/2020-12/schema"}, "/$ref", "fetched"),
    "relative to a remote id": ({"$id": "https://evil.example/a", "$ref": "b"}, "/$ref", "fetched"),
    "to itself": ({"$ref": "#"}, "", "without end"),
    "to itself through allOf": ({"allOf": [{"$ref": "#"}]}, "", "without end"),
    "to itself through not": ({"not": {"$ref": "#"}}, "", "without end"),
    "to itself through if": ({"if": {"anyOf": [{"$ref": "#"}]}}, "", "without end"),
    "to itself through dependentSchemas": ({"dependentSchemas": {"a": {"$ref": "#"}}}, "", "without end"),
    "in a circle": ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, "/$defs/a", "without end"),
    "in a circle nobody uses": ({"$defs": {"a": {"$ref": "#/$defs/a"}}}, "/$defs/a", "without end"),
    "in a circle below": ({"properties": {"x": {"$ref": "#/properties/x"}}}, "/properties/x", "without end"),
    "nowhere": ({"$ref": "#/$defs/nmae", "$defs": {"name": {}}}, "/$ref", "did you mean 'name'"),
    "no such anchor": ({"$ref": "#nmae", "$defs": {"a": {"$anchor": "name"}}}, "/$ref", "did you mean 'name'"),
    "past a list": ({"$ref": "#/anyOf/7", "anyOf": [{}]}, "/$ref", "names nothing"),
    "to what is no schema": ({"$ref": "#/required", "required": ["a"]}, "/required", "a schema is an object"),
    "dynamic": ({"$dynamicRef": "#x"}, "/$dynamicRef", "use $ref"),
    "recursive": ({"$schema": "https://json-schema.org/draft/2019-09/schema", "$recursiveRef": "#"}, "/$recursiveRef", "use $ref"),
    "exponential": ({"$defs": {**DAG, "a40": {}}, "$ref": "#/$defs/a0"}, "", "2,000 parts"),
    "a long chain": ({"$defs": {**CHAIN, "a3000": {}}, "$ref": "#/$defs/a0"}, "", "on and on"),
    "deep": (_deep(70), "/items" * 64, "deeper than 64"),
    "very deep": (_deep(50_000), "/items" * 100, "deeper"),
    "large": ({"description": "x" * 2_000_000}, "", "larger than"),
    "many involved patterns": ({"anyOf": [{"pattern": rf"^([a-z0-9]([a-z0-9-]{{0,61}}[a-z0-9])?\.)+{n}$"} for n in range(200)]}, None, "involved together"),
    "a large one of an old draft": ({"$schema": "http://json-schema.org/draft-07/schema#", "description": "x" * 200_000}, "", "larger than"),
    "a bomb in Python": ({"enum": [[[1] * 1000] * 1000] * 1000}, "/enum/1", "explode"),
    "an evil pattern": ({"properties": {"a": {"pattern": "(a+)+$"}}}, "/properties/a/pattern", "exponential"),
    "an evil pattern for keys": ({"patternProperties": {"(x|xx)+$": {}}}, "/patternProperties", "exponential"),
    "an evil pattern nobody uses": ({"$defs": {"a": {"pattern": "(a|a?)*b"}}}, "/$defs/a/pattern", "exponential"),
    "an unreadable pattern": ({"pattern": "["}, "/pattern", "cannot be read"),
    "an unknown type": ({"type": "strin"}, "/type", "did you mean 'string'"),
    "a type that is a number": ({"type": 3}, "/type", "there are array"),
    "no type": ({"type": []}, "/type", "list of different names"),
    "text for a number": ({"minimum": "3"}, "/minimum", "must be a number"),
    "a negative length": ({"maxLength": -1}, "/maxLength", "from 0 on"),
    "a step of nothing": ({"multipleOf": 0}, "/multipleOf", "above 0"),
    "required twice": ({"required": ["a", "a"]}, "/required", "different names"),
    "required as true": ({"properties": {"a": {"required": True}}}, "/properties/a/required", "different names"),
    "text for a schema": ({"properties": {"a": "string"}}, "/properties/a", "a schema is an object"),
    "a list of schemas": ({"items": [{}]}, "/items", "write prefixItems"),
    "no alternatives": ({"anyOf": []}, "/anyOf", "at least one"),
    "alternatives by name": ({"anyOf": {"a": {}}}, "/anyOf", "at least one"),
    "properties as a list": ({"properties": ["a"]}, "/properties", "object of schemas"),
    "draft 4 bounds": ({"exclusiveMinimum": True}, "/exclusiveMinimum", "say $schema"),
    "an unknown draft": ({"$schema": "https://example.com/mine"}, "/$schema", "known are"),
    "two drafts": ({"items": {"$schema": "http://json-schema.org/draft-07/schema#"}}, "/items/$schema", "another draft"),
    "an identifier that is none": ({"$id": 3}, "/$id", "invalid"),
    "NaN": ({"maximum": NAN}, "/maximum", "nan"),
    "no schema": (7, "", "a schema is an object"),
    "text": ("string", "", "a schema is an object"),
    "not JSON": ({"default": object()}, "/default", "no JSON form"),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_a_bad_schema_is_refused_with_its_place(case: str) -> None:
    """Whatever it tries, the answer is `SchemaRefused`, a pointer and a sentence, and it comes at once."""
    document, place, words = HOSTILE[case]
    for closed in (False, True):
        with pytest.raises(SchemaRefused) as caught:
            compile_schema(document, closed=closed)
        assert place is None or caught.value.pointer == place
        assert words in str(caught.value)
        assert len(str(caught.value)) < 700


def test_alternatives_that_multiply_with_depth_end() -> None:
    """Each level doubles the work; the check gives up with a problem, it does not hang."""
    again = {"properties": {"c": {"$ref": "#/$defs/s"}}}
    schema = {
        "$defs": {"s": {"anyOf": [{**again, "required": ["y"]}, {**again, "required": ["z"]}]}},
        "$ref": "#/$defs/s",
    }
    value: Any = {}
    for _ in range(60):
        value = {"c": value}
    assert [p.rule for p in compile_schema(schema).problems(value)] == ["effort"]


def test_deep_values_are_no_crash() -> None:
    """A recursive schema reads what a tool may give; deeper values are a problem."""
    schema = compile_schema({"properties": {"child": {"$ref": "#"}, "n": {"type": "integer"}}}, closed=True)
    for levels, valid in ((90, True), (99, True), (5000, False)):
        value: Any = {"n": 1}
        for _ in range(levels):
            value = {"child": value}
        assert schema.accepts(value) is valid


def test_long_lists_of_objects_are_compared_quickly() -> None:
    """`uniqueItems` on 20,000 objects is linear, and 1, 1.0 and true are told apart as JSON Schema does."""
    schema = compile_schema({"uniqueItems": True})
    assert schema.accepts([{"n": n} for n in range(20_000)])
    different: list[Any] = [[1, True], [[], {}], ["1", 1], [{"a": 1}, {"a": 2}]]
    alike: list[Any] = [[1, 1.0], [{"a": [1]}, {"a": [1.0]}], [None, None]]
    assert [schema.accepts(value) for value in (*different, *alike)] == [True] * 4 + [False] * 3


def test_a_pattern_is_not_run_on_endless_text() -> None:
    """A text too long for its pattern is refused with the reason."""
    limit = read_pattern("a+b").limit
    assert said({"pattern": "a+b"}, "a" * 20_000) == [
        f": is longer than the {limit:,} characters its pattern can be checked on"
    ]
    assert [
        p.rule for p in compile_schema({"patternProperties": {"a+b": {}}}).problems({"a" * 20_000: 1})
    ] == ["key"]


def test_amounts_are_decimal() -> None:
    """19.99 is a multiple of 0.01; 19.999 is not."""
    schema = compile_schema({"multipleOf": 0.01})
    assert [schema.accepts(v) for v in (19.99, 0.07, 1.1, 10**400, 19.999, 1e-300)] == [True] * 4 + [
        False
    ] * 2


# ---- the closed reading ----------------------------------------------------------------------------------------------------

OBJECT: dict[str, Any] = {"properties": {"a": {}}}
OTHER: dict[str, Any] = {"properties": {"b": {}}}
CLOSED: list[tuple[Any, Any, bool]] = [
    (OBJECT, {"a": 1}, True),
    (OBJECT, {"a": 1, "x": 1}, False),
    ({"type": "object"}, {"x": 1}, True),
    ({"properties": {}}, {"x": 1}, False),
    ({**OBJECT, "additionalProperties": True}, {"x": 1}, True),
    ({**OBJECT, "additionalProperties": {"type": "integer"}}, {"x": 1}, True),
    ({**OBJECT, "patternProperties": {"^x": {}}}, {"a": 1, "x1": 1}, True),
    ({**OBJECT, "patternProperties": {"^x": {}}}, {"y": 1}, False),
    ({"properties": {"o": OBJECT}}, {"o": {"x": 1}}, False),
    ({"items": OBJECT}, [{"a": 1}, {"x": 1}], False),
    ({"additionalProperties": OBJECT}, {"k": {"x": 1}}, False),
    ({"$ref": "#/$defs/o", "$defs": {"o": OBJECT}}, {"x": 1}, False),
    ({"properties": {"o": {"$ref": "#/$defs/o"}}, "$defs": {"o": OBJECT}}, {"o": {"x": 1}}, False),
    ({"properties": {"child": {"$ref": "#"}}}, {"child": {"child": {"x": 1}}}, False),
    ({"anyOf": [OBJECT, {"type": "null"}]}, {"x": 1}, False),
    ({"anyOf": [OBJECT, OTHER]}, {"a": 1, "b": 1}, False),
    ({"oneOf": [OBJECT, OTHER]}, {"b": 1}, True),
    ({"allOf": [OBJECT, OTHER]}, {"a": 1, "b": 1}, True),
    ({"allOf": [OBJECT, OTHER]}, {"a": 1, "x": 1}, False),
    ({"allOf": [OBJECT]}, {"x": 1}, False),
    ({"allOf": [OBJECT, {"required": ["a"]}]}, {"a": 1, "x": 1}, False),
    ({**OBJECT, "allOf": [OTHER]}, {"a": 1, "b": 1}, True),
    ({**OBJECT, "allOf": [OTHER]}, {"a": 1, "b": 1, "x": 1}, False),
    ({**OBJECT, "allOf": [{**OTHER, "additionalProperties": True}]}, {"x": 1}, True),
    ({**OBJECT, "additionalProperties": True, "allOf": [OTHER]}, {"x": 1}, True),
    ({**OBJECT, "unevaluatedProperties": True}, {"x": 1}, True),
    ({**OBJECT, "$ref": "#/$defs/o", "$defs": {"o": OTHER}}, {"a": 1, "b": 1}, True),
    ({**OBJECT, "$ref": "#/$defs/o", "$defs": {"o": OTHER}}, {"x": 1}, False),
    ({"allOf": [{"$ref": "#/$defs/o"}, OBJECT], "$defs": {"o": {"properties": {"b": OBJECT}}}}, {"a": 1, "b": {"a": 1}}, True),
    ({"allOf": [{"$ref": "#/$defs/o"}, OBJECT], "$defs": {"o": {"properties": {"b": OBJECT}}}}, {"b": {"x": 1}}, False),
    ({"properties": {"o": {"$ref": "#/$defs/o"}, "p": {"allOf": [{"$ref": "#/$defs/o"}, OTHER]}}, "$defs": {"o": OBJECT}}, {"o": {"a": 1}, "p": {"a": 1, "b": 1}}, True),
    ({"properties": {"o": {"$ref": "#/$defs/o"}, "p": {"allOf": [{"$ref": "#/$defs/o"}, OTHER]}}, "$defs": {"o": OBJECT}}, {"o": {"b": 1}}, False),
    ({**OBJECT, "if": {"properties": {"a": {"const": 1}}}, "then": {"required": ["a"]}}, {"a": 1}, True),
    ({**OBJECT, "if": {"properties": {"a": {"const": 1}}}, "then": OTHER}, {"a": 1, "b": 1}, True),
    ({**OBJECT, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"a": 1, "x": 1}, False),
    ({**OBJECT, "not": {"properties": {"a": {"const": 2}}, "required": ["a"]}}, {"a": 1}, True),
    ({**OBJECT, "dependentSchemas": {"a": OTHER}}, {"a": 1, "b": 1}, True),
    ({"$schema": "http://json-schema.org/draft-07/schema#", "allOf": [OBJECT, OTHER]}, {"a": 1, "b": 1}, True),
    ({"$schema": "http://json-schema.org/draft-07/schema#", "allOf": [OBJECT, OTHER]}, {"x": 1}, False),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "value", "valid"), CLOSED, ids=range(len(CLOSED)))
def test_the_closed_reading(schema: Any, value: Any, valid: bool) -> None:
    """`properties` without a word about others means that there are none, at every depth, parts of `allOf` together."""
    assert compile_schema(schema, closed=True).accepts(value) is valid
    assert "oneOf" in schema or compile_schema(schema).accepts(value)


# ---- drafts --------------------------------------------------------------------------------------------------------------

D4, D6, D7 = (f"http://json-schema.org/draft-0{n}/schema#" for n in (4, 6, 7))
D19 = "https://json-schema.org/draft/2019-09/schema"
DRAFTS: list[tuple[str, Any]] = [
    (D4, {"minimum": 3, "exclusiveMinimum": True}),
    (D4, {"maximum": 3, "exclusiveMaximum": False}),
    (D4, {"const": 3}),
    (D4, {"id": "http://x/y", "definitions": {"a": {"id": "#a", "type": "string"}}, "items": {"$ref": "#a"}}),
    (D6, {"if": {"type": "integer"}, "then": {"minimum": 5}}),
    (D6, {"const": 3}),
    (D7, {"items": [{"type": "integer"}, {"type": "string"}], "additionalItems": False}),
    (D7, {"items": {"type": "integer"}, "additionalItems": False}),
    (D7, {"dependencies": {"a": ["b"], "b": {"required": ["c"]}}}),
    (D7, {"definitions": {"s": {"type": "string"}}, "items": {"$ref": "#/definitions/s", "minLength": 9}}),
    (D7, {"if": {"type": "integer"}, "then": {"minimum": 5}, "else": {"type": "string"}}),
    (D7, {"prefixItems": [{"type": "string"}], "dependentRequired": {"a": ["b"]}, "unevaluatedProperties": False}),
    (D7, {"$id": "http://x/root.json", "definitions": {"a": {"$id": "a.json", "type": "string"}}, "items": {"$ref": "a.json"}}),
    (D7, {"definitions": {"a": {"$id": "#a", "type": "string"}}, "items": {"$ref": "#a"}}),
    (D19, {"items": [{"type": "integer"}], "additionalItems": {"type": "string"}}),
    (D19, {"$defs": {"s": {"$anchor": "s", "type": "string"}}, "items": {"$ref": "#s", "minLength": 2}}),
    (D19, {"properties": {"a": {}}, "unevaluatedProperties": False}),
]  # fmt: skip
SAMPLES = [
    3,
    2,
    3.5,
    7,
    "a",
    "ab",
    [1],
    [1, "a"],
    [1, 2],
    ["a"],
    ["ab", "b"],
    {"a": 1},
    {"a": 1, "b": 1},
    {"b": 1, "c": 2},
]


@pytest.mark.parametrize(("draft", "schema"), DRAFTS, ids=range(len(DRAFTS)))
def test_older_drafts_mean_what_they_meant(draft: str, schema: Any) -> None:
    """The draft that `$schema` says is honoured: the same answers as jsonschema's validator of that draft."""
    document = {"$schema": draft, **schema}
    reference = jsonschema.validators.validator_for(document)(document, registry=Registry())
    for spelling in (draft, draft.replace("http:", "https:"), draft.rstrip("#")):
        ours = compile_schema({**document, "$schema": spelling})
        assert [ours.accepts(v) for v in SAMPLES] == [reference.is_valid(v) for v in SAMPLES]


REFERENCES: list[Any] = [
    {"$defs": {"a/b": {"type": "string"}, "c~d": {"type": "integer"}}, "anyOf": [{"$ref": "#/$defs/a~1b"}, {"$ref": "#/$defs/c~0d"}]},
    {"$defs": {"ä": {"type": "string"}}, "$ref": "#/$defs/%C3%A4"},
    {"components": {"schemas": {"X": {"type": "string"}}}, "items": {"$ref": "#/components/schemas/X"}},
    {"$id": "https://x/root", "$defs": {"a": {"$id": "sub/a", "$defs": {"b": {"type": "string"}}, "items": {"$ref": "#/$defs/b"}}}, "$ref": "sub/a"},
    {"$id": "https://x/root", "$defs": {"a": {"$id": "other", "$anchor": "z", "type": "string"}}, "$ref": "other#z"},
    {"properties": {"a": {"type": "integer"}, "b": {"$ref": "#/properties/a"}}},
    {"prefixItems": [{"type": "integer"}, {"$ref": "#/prefixItems/0"}]},
    {"$defs": {"tree": {"type": ["object", "integer"], "additionalProperties": {"$ref": "#/$defs/tree"}}}, "$ref": "#/$defs/tree"},
    {"properties": {"$id": {"type": "string"}, "$ref": {"type": "string"}}},
]  # fmt: skip


@pytest.mark.parametrize("schema", REFERENCES, ids=range(len(REFERENCES)))
def test_references_within_the_document_lead_where_they_should(schema: Any) -> None:
    """Pointers with escapes, anchors, embedded identifiers, unusual places: as jsonschema resolves them."""
    reference = jsonschema.Draft202012Validator(schema, registry=Registry())
    samples = [
        *SAMPLES,
        {"a": "x"},
        {"b": "x"},
        {"a": {"b": {}}},
        {"a": {"b": "x"}},
        {"$id": 1},
        {"$ref": "a"},
    ]
    assert [compile_schema(schema).accepts(v) for v in samples] == [reference.is_valid(v) for v in samples]


# ---- what is said ----------------------------------------------------------------------------------------------------------

PET = {
    "type": "object",
    "properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}},
    "required": ["kind", "lives"],
}
DOG = {
    "type": "object",
    "properties": {"kind": {"const": "dog"}, "tricks": {"type": "array"}},
    "required": ["kind", "tricks"],
}
LEDGER = {
    "type": "object",
    "properties": {"ledger": {}, "owner": {}, "limit": {}},
    "required": ["ledger", "owner"],
}
SENTENCES: list[tuple[Any, Any, list[str]]] = [
    ({"type": "integer"}, "abc", [": must be a whole number, not the text 'abc'"]),
    ({"type": ["number", "null"]}, [1], [": must be a number or null, not a list of 1"]),
    ({"type": "string"}, True, [": must be text, not true"]),
    (LEDGER, {"limit": 1}, [": lacks 'ledger' and 'owner'"]),
    (LEDGER, {"ledger": 1, "onwer": 1}, [": lacks 'owner'", "/onwer: is not known here; did you mean 'owner'?"]),
    (LEDGER, {"ledger": 1, "owner": 1, "x": 1}, ["/x: is not known here; known are 'ledger', 'owner' and 'limit'"]),
    ({"enum": ["red", "blue"]}, "bleu", [": must be 'red' or 'blue', not the text 'bleu'; did you mean 'blue'?"]),
    ({"const": 7}, 8, [": must be 7, not 8"]),
    ({"minimum": 3}, 2, [": must be at least 3, not 2"]),
    ({"exclusiveMaximum": 3}, 3, [": must be less than 3, not 3"]),
    ({"multipleOf": 0.01}, 0.001, [": must be a multiple of 0.01, not 0.001"]),
    ({"minLength": 1}, "", [": must have some text"]),
    ({"maxItems": 1}, [1, 2], [": must have at most 1 items, not 2"]),
    ({"pattern": "^[a-z]+$"}, "A", [": must match the pattern '^[a-z]+$', not the text 'A'"]),
    ({"format": "date"}, "today", [": must be a date, like 2024-02-29, not the text 'today'"]),
    ({"format": "email"}, "x", [": must be an email, like ada@example.com, not the text 'x'"]),
    ({"properties": {"a": False}}, {"a": 1}, ["/a: is not allowed here"]),
    ({"propertyNames": {"maxLength": 2}}, {"abc": 1}, [": has the key the text 'abc', which must have at most 2 characters, not 3"]),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 3, [": must be text or null, not 3"]),
    ({"anyOf": [PET, {"type": "null"}]}, {"kind": "cat"}, [": lacks 'lives'"]),
    ({"oneOf": [PET, DOG]}, {"kind": "dog", "tricks": 3}, ["/tricks: must be a list, not 3"]),
    ({"oneOf": [{"minimum": 1}, {"minimum": 2}]}, 3, [": fits more than one of the shapes of which it must fit exactly one"]),
    ({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, {}, [": fits none of the 2 shapes allowed here"]),
    ({"uniqueItems": True}, [1, 1], [": has the same item twice"]),
    ({"items": {"properties": {"a": {"type": "null"}}}}, [{}, {"a": 1}], ["/1/a: must be null, not 1"]),
    ({"prefixItems": [{}], "items": False}, [1, 2], [": has more items than are allowed"]),
    ({"allOf": [OBJECT, {"properties": {"count": {}}}]}, {"cuont": 1}, ["/cuont: is not known here; did you mean 'count'?"]),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "value", "expected"), SENTENCES, ids=range(len(SENTENCES)))
def test_problems_are_sentences(schema: Any, value: Any, expected: list[str]) -> None:
    """Each names the place, what was wanted and what came, and the nearest name where one is near."""
    assert said(schema, value, closed=True) == expected


def test_problems_never_dump_the_value() -> None:
    """A megabyte of text and a thousand errors make at most twenty short problems."""
    schema = {"properties": {"a": {"enum": ["x" * 500] * 30}}, "additionalProperties": {"type": "null"}}
    value = {"a": "y" * 1_000_000, **{f"k{n}" * 50: "z" * 10_000 for n in range(1000)}}
    problems = compile_schema(schema).problems(value)
    assert len(problems) == 20
    assert all(len(p.message) <= 300 for p in problems)


def test_problems_tell_unknown_keys_by_one_rule() -> None:
    """Whether parts or a whole were closed, the rule of a key too many is `additionalProperties`."""
    for schema in (OBJECT, {"allOf": [OBJECT, OTHER]}):
        problems = compile_schema(schema, closed=True).problems({"x": 1})
        assert [(p.pointer, p.rule) for p in problems] == [("/x", "additionalProperties")]


# ---- the rest ---------------------------------------------------------------------------------------------------------------


def test_the_same_document_is_compiled_once() -> None:
    """Equal documents give one schema, whose document is a copy; closed and open are two."""
    document = {"type": "object", "properties": {"a": {"enum": [1]}}}
    schema = compile_schema(document)
    document["properties"]["a"]["enum"].append(2)  # type: ignore[index]
    again = compile_schema({"type": "object", "properties": {"a": {"enum": [1]}}})
    assert again is schema
    assert again is not compile_schema(again.document, closed=True)
    assert schema.document["properties"]["a"]["enum"] == [1]
    assert compile_schema({"const": 1}) is not compile_schema({"const": 1.0})
    assert schema.digest.startswith("sha256:")


def test_jsonschema_is_not_imported_for_plain_schemas() -> None:
    """A program whose tools are flat and whose calls are valid never pays for it."""
    code = (
        "import sys\n"
        "from foreplan.registry.schema import compile_schema\n"
        "s = compile_schema({'type': 'object', 'properties': {'a': {'type': 'string', 'title': 'A'}}}, closed=True)\n"
        "assert s.accepts({'a': 'x'})\n"
        "print([m for m in ('jsonschema', 'referencing', 'networkx', 'anyio') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_schemas_of_true_and_false() -> None:
    """true accepts what is finite, false nothing."""
    assert [compile_schema(True).accepts(v) for v in (1, None, [NAN])] == [True, True, False]
    assert compile_schema(False, closed=True).problems(1) == [Problem("", "false", "is not allowed here")]


@pytest.mark.parametrize(
    ("folder", "unreadable"),
    [
        ("complexfuncbench", set()),
        ("nestful", set()),
        ("sealtools_retrieval", set()),
        ("livemcpbench_retrieval", {"read_pdf"}),
    ],
)
def test_public_tool_schemas_are_read(folder: str, unreadable: set[str]) -> None:
    """Schemas that people publish are not refused for being odd; those that are invalid are named here."""
    refused = set()
    for tool in records(folder, "tools.json"):
        try:
            compile_schema(tool["input_schema"], closed=True)
            compile_schema(tool.get("output_schema") or {})
        except SchemaRefused:
            refused.add(tool["name"])
    assert refused == unreadable
