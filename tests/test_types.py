"""Types of values: read from schemas, never narrower than the schema, and quick where schemas are hostile."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foreplan.planner.types import (
    ANY,
    BOOLEAN,
    INTEGER,
    NEVER,
    NULL,
    NUMBER,
    STRING,
    Type,
    array_of,
    describe,
    disjoint,
    join,
    meet,
    object_of,
    type_of_schema,
    type_of_value,
)
from foreplan.policies.errors import SchemaRefused
from foreplan.registry.schema import compile_schema

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name"],
}


def test_declared_properties_are_read_closed() -> None:
    """What a schema does not declare is not there, unless it says otherwise."""
    assert type_of_schema(PERSON).field("nam") is None
    assert type_of_schema({**PERSON, "additionalProperties": True}).field("nam") is ANY
    assert type_of_schema({**PERSON, "patternProperties": {"^x": {}}}).field("nam") is ANY
    assert type_of_schema({"type": "object"}).field("nam") is ANY


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        ({"type": "string"}, {"type": "integer"}, True),
        ({"type": "number"}, {"type": "integer"}, False),
        ({"type": ["string", "null"]}, {"type": ["integer", "null"]}, False),
        ({"enum": ["a", "b"]}, {"enum": ["c"]}, True),
        ({"enum": ["a", "b"]}, {"type": "string"}, False),
        ({"const": 1}, {"const": 1.0}, False),
        ({"const": True}, {"const": 1}, True),
        ({"type": "array", "items": {"type": "string"}}, {"type": "array", "items": {"type": "integer"}}, False),
        ({"type": "array", "items": {"type": "string"}, "minItems": 1}, {"type": "array", "items": {"type": "integer"}}, True),
        (PERSON, {"type": "object", "properties": {"name": {"type": "integer"}}}, True),
        (PERSON, {"type": "object", "properties": {"age": {"type": "string"}}}, True),
        (PERSON, {"type": "object", "required": ["email"]}, True),
        (PERSON, {"type": "object"}, False),
        (PERSON, {"anyOf": [{"type": "string"}, PERSON]}, False),
        ({}, {"type": "string"}, False),
        (False, {"type": "string"}, True),
        ({"allOf": [{"type": ["string", "integer"]}, {"type": ["integer", "null"]}]}, {"type": "string"}, True),
        ({"items": {"type": "string"}}, {"type": "string"}, False),
    ],
)  # fmt: skip
def test_only_what_is_certain_is_apart(one: Any, other: Any, apart: bool) -> None:
    """Two types are disjoint exactly where no value can be in both."""
    assert disjoint(type_of_schema(one), type_of_schema(other)) is apart
    assert disjoint(type_of_schema(other), type_of_schema(one)) is apart


def test_references_inside_a_document_are_followed() -> None:
    """Local `$ref`, also to itself: a few turns are known, then it is of any type."""
    node = {"type": "object", "properties": {"value": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}}}
    found = type_of_schema({"$ref": "#/$defs/node", "$defs": {"node": node}})
    assert describe(found.field("value") or ANY) == "a whole number"
    at = found
    for _ in range(3):
        at = at.field("next") or NULL
        assert describe(at.field("value") or ANY) == "a whole number"
        assert at.field("vlaue") is None
    assert describe(at.field("next") or NULL) == "anything"
    assert found.field("prev") is None
    assert describe(type_of_schema({"$ref": "https://example.invalid/x"})) == "anything"


def test_references_in_a_ring_are_unrolled_too() -> None:
    """Through lists, and through each other; what is in no ring costs no turn."""
    defs = {
        "folder": {"properties": {"name": {"$ref": "#/$defs/name"}, "files": {"items": {"$ref": "#/$defs/file"}, "type": "array"}}, "type": "object"},
        "file": {"properties": {"name": {"$ref": "#/$defs/name"}, "within": {"$ref": "#/$defs/folder"}}, "type": "object"},
        "name": {"type": "string"},
    }  # fmt: skip
    found = type_of_schema({"$ref": "#/$defs/folder", "$defs": defs})
    file = (found.field("files") or NULL).item
    again = ((file.field("within") or NULL).field("files") or NULL).item
    assert describe(again.field("name") or ANY) == "text"
    assert again.field("size") is None


def test_a_place_of_a_list_has_its_own_type() -> None:
    """As `prefixItems` says it, and as literals have it."""
    pair = type_of_schema(
        {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "minItems": 2}
    )
    assert [describe(pair.at(i)) for i in (0, 1, 2)] == ["text", "a whole number", "anything"]
    assert disjoint(pair, type_of_value([1, "a"]))
    assert not disjoint(pair, type_of_value(["a", 1]))
    both = join(pair, type_of_value([1, "a"]))
    assert describe(both.at(0)) == "a whole number or text"


def test_types_are_described_in_words() -> None:
    """As they stand in sentences."""
    described = [
        ANY,
        NEVER,
        NULL,
        BOOLEAN,
        INTEGER,
        NUMBER,
        STRING,
        array_of(STRING),
        array_of(ANY),
        object_of({}),
    ]
    assert [describe(t) for t in described] == [
        "anything", "nothing", "null", "true or false", "a whole number", "a number", "text", "a list of texts", "a list",
        "an object",
    ]  # fmt: skip
    assert describe(join(STRING, NULL)) == "null or text"
    assert describe(type_of_schema({"enum": ["a", "b"]})) == '"a" or "b"'


def test_parts_that_are_shared_are_combined_once() -> None:
    """Sixty levels, each naming the next one twice, are sixty steps and not 2^60."""
    parts: dict[str, Any] = {
        f"d{i}": {
            "type": "object",
            "properties": {"a": {"$ref": f"#/$defs/d{i + 1}"}, "b": {"$ref": f"#/$defs/d{i + 1}"}},
        }
        for i in range(60)
    }
    start = time.process_time()
    one = type_of_schema({"$ref": "#/$defs/d0", "$defs": {**parts, "d60": {"type": "string"}}})
    other = type_of_schema({"$ref": "#/$defs/d0", "$defs": {**parts, "d60": {"type": "integer"}}})
    assert not disjoint(one, other)
    assert meet(one, other).has("object")
    assert join(one, other).has("object")
    assert time.process_time() - start < 5


def test_what_is_built_from_values_stays_flat() -> None:
    """A type a thousand levels high would exhaust the stack of whoever compares it."""
    tall = STRING
    for _ in range(1000):
        tall = object_of({"x": array_of(tall)})
    assert tall.height < 20


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.5, 1.0, -2.5])
    | st.sampled_from(["", "a", "b", "x y"])
)
keys = st.sampled_from(["a", "b", "c"])
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)
kinds = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])


def _schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("array"), "items": inner}, optional={"minItems": st.integers(0, 2)}
        ),
        st.fixed_dictionaries(
            {"properties": st.dictionaries(keys, inner, max_size=3)},
            optional={
                "type": st.just("object"),
                "required": st.lists(keys, max_size=2, unique=True),
                "additionalProperties": st.booleans() | inner,
            },
        ),
        st.fixed_dictionaries({"prefixItems": several}, optional={"items": inner}),
        st.fixed_dictionaries({"anyOf": several}),
        st.fixed_dictionaries({"oneOf": several}),
        st.fixed_dictionaries({"allOf": several}),
        st.fixed_dictionaries({"not": inner}, optional={"type": kinds}),
        st.fixed_dictionaries(
            {"if": inner, "then": inner}, optional={"properties": st.dictionaries(keys, inner, max_size=2)}
        ),
    )


schemas = st.recursive(
    st.just({})
    | st.booleans()
    | st.fixed_dictionaries({"type": kinds | st.lists(kinds, min_size=1, max_size=3, unique=True)})
    | st.fixed_dictionaries({"enum": st.lists(values, min_size=1, max_size=3)})
    | st.fixed_dictionaries({"const": values}),
    _schemas,
    max_leaves=6,
)


@given(schemas, values)
@settings(max_examples=1500, deadline=None)
def test_a_type_holds_every_value_its_schema_accepts(schema: Any, value: Any) -> None:
    """Read closed, as the check reads it: what the validator lets through is never called impossible."""
    try:
        compiled = compile_schema(schema, closed=True)
    except SchemaRefused:
        return
    if compiled.accepts(value):
        exact = type_of_value(value)
        for found in (type_of_schema(schema), type_of_schema(compiled.normal.document)):
            assert not disjoint(exact, found)


@given(values, values, values)
@settings(max_examples=500, deadline=None)
def test_join_holds_both_and_meet_holds_what_is_in_both(a: Any, b: Any, c: Any) -> None:
    """The two operations never lose a value."""
    ta, tb, tc = type_of_value(a), type_of_value(b), type_of_value(c)
    either = join(join(ta, tb), tc)
    assert not any(disjoint(t, either) for t in (ta, tb, tc))
    wide: Type = join(tb, tc)
    assert not disjoint(tb, meet(either, wide))
