"""Schemas as tools in the wild have them: each works all the way, or is refused at registration with a sentence (D3, D4)."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from support.datasets import records

from foreplan import Plan, Registry, Tool, check
from foreplan.planner.plan_schema import plan_schema, to_strict
from foreplan.planner.prompt import plan_messages
from foreplan.planner.requests import PlanRequest
from foreplan.policies.errors import SchemaRefused, ToolRefused

D4, D7 = "http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-07/schema#"
TREE = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "under": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
    "required": ["name"],
}

WILD: dict[str, tuple[dict[str, Any], list[Any], list[Any]]] = {
    "a reference": ({"properties": {"a": {"$ref": "#/$defs/t"}}, "$defs": {"t": {"type": "string"}}}, [{"a": "x"}], [{"a": 1}]),
    "a reference with more beside it": ({"properties": {"a": {"$ref": "#/$defs/t", "minLength": 2}}, "$defs": {"t": {"type": "string"}}}, [{"a": "xy"}], [{"a": "x"}, {"a": 1}]),
    "recursion": ({"properties": {"tree": {"$ref": "#/$defs/node"}}, "$defs": {"node": TREE}}, [{"tree": {"name": "a", "under": [{"name": "b"}]}}], [{"tree": {"name": "a", "under": [{"nmae": "b"}]}}]),
    "the root is a reference": ({"$ref": "#/$defs/r", "$defs": {"r": {"type": "object", "properties": {"a": {"type": "string"}}}}}, [{"a": "x"}], [{"a": 1}, {"b": 1}]),
    "anyOf of types": ({"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}}}, [{"a": "x"}, {"a": ["x"]}], [{"a": 1}, {"a": [1]}]),
    "oneOf of objects": ({"properties": {"a": {"oneOf": [{"type": "object", "properties": {"k": {"const": "x"}, "v": {"type": "string"}}, "required": ["k"]}, {"type": "object", "properties": {"k": {"const": "y"}, "n": {"type": "integer"}}, "required": ["k"]}]}}}, [{"a": {"k": "x", "v": "w"}}, {"a": {"k": "y", "n": 1}}], [{"a": {"k": "z"}}, {"a": {"k": "y", "n": "1"}}]),
    "anyOf at the root": ({"type": "object", "properties": {"id": {"type": "string"}, "name": {"type": "string"}}, "anyOf": [{"required": ["id"]}, {"required": ["name"]}]}, [{"id": "a"}, {"name": "b"}], [{}, {"id": 1}]),
    "allOf at the root": ({"allOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"type": "object", "properties": {"b": {"type": "string"}}}]}, [{"a": "x", "b": "y"}], [{"a": 1}, {"c": "x"}]),
    "if, then, else": ({"properties": {"kind": {"type": "string"}, "n": {"type": "integer"}}, "if": {"properties": {"kind": {"const": "n"}}, "required": ["kind"]}, "then": {"required": ["n"]}, "else": {"properties": {"n": False}}}, [{"kind": "n", "n": 1}, {"kind": "x"}], [{"kind": "n"}, {"kind": "x", "n": 1}]),
    "dependentRequired": ({"properties": {"a": {}, "b": {}}, "dependentRequired": {"a": ["b"]}}, [{"a": 1, "b": 2}, {"b": 1}], [{"a": 1}]),
    "dependentSchemas": ({"properties": {"a": {}, "b": {}}, "dependentSchemas": {"a": {"properties": {"b": {"type": "string"}}, "required": ["b"]}}}, [{"a": 1, "b": "x"}], [{"a": 1, "b": 2}, {"a": 1}]),
    "dependencies, as before 2019": ({"properties": {"a": {}, "b": {}}, "dependencies": {"a": ["b"]}}, [{"a": 1, "b": 2}], [{"a": 1}]),
    "unevaluatedProperties": ({"allOf": [{"properties": {"a": {"type": "string"}}}], "properties": {"b": {}}, "unevaluatedProperties": False}, [{"a": "x", "b": 1}], [{"c": 1}]),
    "prefixItems": ({"properties": {"a": {"type": "array", "prefixItems": [{"type": "number"}, {"type": "string"}], "items": False}}}, [{"a": [1, "x"]}], [{"a": ["x", 1]}, {"a": [1, "x", 2]}]),
    "contains": ({"properties": {"a": {"type": "array", "contains": {"const": 1}, "maxContains": 1}}}, [{"a": [1, 2]}], [{"a": [2]}, {"a": [1, 1]}]),
    "propertyNames": ({"properties": {"a": {"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}}}}, [{"a": {"x": 1}}], [{"a": {"X": 1}}, {"a": {"x\n": 1}}]),
    "patternProperties": ({"patternProperties": {"^x-": {"type": "string"}}, "additionalProperties": False}, [{"x-a": "b"}], [{"x-a": 1}, {"y": "b"}]),
    "an anchor": ({"properties": {"a": {"$ref": "#t"}}, "$defs": {"t": {"$anchor": "t", "type": "string"}}}, [{"a": "x"}], [{"a": 1}]),
    "an identifier": ({"$id": "https://example.com/s", "properties": {"a": {"$ref": "https://example.com/s#/$defs/t"}}, "$defs": {"t": {"type": "string"}}}, [{"a": "x"}], [{"a": 1}]),
    "a list of types": ({"properties": {"a": {"type": ["string", "null"]}}}, [{"a": None}, {"a": "x"}], [{"a": 1}]),
    "nullable, as OpenAPI writes it": ({"properties": {"a": {"type": "string", "nullable": True}, "b": {"type": "string", "nullable": False}}}, [{"a": None, "b": "x"}], [{"b": None}, {"a": 1}]),
    "true and false": ({"properties": {"a": True, "b": False}}, [{"a": [1]}], [{"b": 1}]),
    "a constant": ({"properties": {"a": {"const": {"x": 1}}}}, [{"a": {"x": 1.0}}], [{"a": {"x": 2}}]),
    "choices with null": ({"properties": {"a": {"enum": ["x", None, 1]}}}, [{"a": None}, {"a": 1}], [{"a": "y"}, {"a": True}]),
    "an unknown format": ({"properties": {"a": {"type": "string", "format": "x-shoe-size"}, "n": {"type": "integer", "format": "int64"}}}, [{"a": "any", "n": 1}], [{"a": 1}]),
    "vendor keywords": ({"x-origin": "a", "properties": {"a": {"type": "string", "x-ui": {"$ref": "#/nowhere"}, "example": 3, "discriminator": {"propertyName": "k"}}}}, [{"a": "x"}], [{"a": 1}]),
    "definitions": ({"properties": {"a": {"$ref": "#/definitions/t"}}, "definitions": {"t": {"type": "string"}}}, [{"a": "x"}], [{"a": 1}]),
    "draft 4": ({"$schema": D4, "id": "http://x/y", "properties": {"a": {"type": "number", "minimum": 3, "exclusiveMinimum": True}}}, [{"a": 3.5}], [{"a": 3}]),
    "draft 7": ({"$schema": D7, "properties": {"a": {"items": [{"type": "string"}], "additionalItems": False}}}, [{"a": ["x"]}], [{"a": ["x", 1]}, {"a": [1]}]),
    "no properties at all": ({"type": "object"}, [{}, {"a": 1}], []),
    "closed and empty": ({"type": "object", "properties": {}}, [{}], [{"a": 1}]),
    "open by its own word": ({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": True}, [{"a": "x", "b": 1}], [{"a": 1}]),
    "other values by a schema": ({"type": "object", "additionalProperties": {"type": "integer"}}, [{"a": 1}], [{"a": "x"}]),
    "other letters": ({"properties": {"größe": {"type": "string", "description": "Größe, 尺寸", "enum": ["groß", "小"]}}, "required": ["größe"]}, [{"größe": "小"}], [{"größe": "klein"}, {}]),
}  # fmt: skip

REFUSED: dict[str, tuple[Any, str]] = {
    "$dynamicRef": ({"properties": {"a": {"$dynamicRef": "#n"}}}, "use $ref"),
    "$recursiveRef": ({"$recursiveRef": "#"}, "use $ref"),
    "items as a list, without a draft": ({"properties": {"a": {"items": [{}]}}}, "write prefixItems, or say $schema"),
    "exclusiveMinimum as true, without a draft": ({"properties": {"a": {"minimum": 3, "exclusiveMinimum": True}}}, "beside minimum, so say $schema"),
    "required inside a property": ({"properties": {"a": {"type": "string", "required": True}}}, "required must be"),
    "a type of no draft": ({"properties": {"a": {"type": "any"}}}, "there is no type"),
    "a remote reference": ({"properties": {"a": {"$ref": "https://example.com/a.json"}}}, "nothing is fetched"),
    "a reference to nothing": ({"properties": {"a": {"$ref": "#/definitions/A"}}}, "names nothing"),
    "an unknown dialect": ({"$schema": "https://example.com/mine", "properties": {}}, "not read here"),
    "no object": ({"type": "array"}, "object"),
    "false": (False, "object"),
}  # fmt: skip


def named(schema: Any) -> Tool:
    return Tool.declare("wild", "Is wild.", input_schema=schema, effect="reads")


@pytest.mark.parametrize("case", WILD)
def test_a_schema_in_the_wild_means_what_it_says(case: str) -> None:
    """At admission and in the check: what fits is taken, what does not is refused, whichever keyword says so."""
    schema, good, bad = WILD[case]
    wild = named(schema)
    for args in good:
        assert wild.input.accepts(args), args
        assert check(planned(args), Registry(wild)).ok, args
    for args in bad:
        assert not wild.input.accepts(args), args
        assert not check(planned(args), Registry(wild)).ok or hidden_from_the_check(case, args), args


def planned(args: dict[str, Any]) -> Plan:
    literal = {name: {"$literal": value} for name, value in args.items()}
    return Plan.model_validate({"steps": [{"id": "a", "tool": "wild", "args": literal}]})


def hidden_from_the_check(case: str, args: dict[str, Any]) -> bool:
    """Where what is wrong is that an argument is missing under a condition: the check says what is certain, no more."""
    return case in {"anyOf at the root", "if, then, else", "dependentRequired", "dependentSchemas", "dependencies, as before 2019"}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_read_is_refused_with_a_sentence(case: str) -> None:
    """At registration, for arguments and for results, with the place and the next move."""
    schema, words = REFUSED[case]
    with pytest.raises((ToolRefused, SchemaRefused), match="(?s)" + words.replace("$", r"\$")):
        named(schema)
    if words != "object":
        with pytest.raises((ToolRefused, SchemaRefused)):
            Tool.declare("wild", input_schema={}, output_schema=schema)


# ---- D3, D4: on the way to the model ------------------------------------------------------------------------------


def catalogue(wild: Tool) -> dict[str, Any]:
    """What a model is told of the tool."""
    system = plan_messages(PlanRequest("x", Registry(wild)))[0].content
    [line] = [line for line in system.splitlines() if line.startswith('{"tool":"wild"')]
    told: dict[str, Any] = json.loads(line)
    assert line == json.dumps(told, ensure_ascii=False, separators=(",", ":"))
    return told


@pytest.mark.parametrize("case", WILD)
def test_a_schema_reaches_the_model_whole(case: str) -> None:
    """D3: `$ref`, `$defs`, recursion, `anyOf` and root keywords are in the catalogue as the tool says them; letters too (D4)."""
    schema, _, _ = WILD[case]
    wild = Tool.declare("wild", "Größe — 尺寸", input_schema=schema, output_schema=schema, effect="reads")
    told = catalogue(wild)
    kept = {name: part for name, part in schema.items() if name != "$schema"}
    assert (told["args"], told["result"], told["description"]) == (kept, kept, "Größe — 尺寸")


@pytest.mark.parametrize("case", WILD)
def test_every_form_of_the_plan_schema_holds_what_the_tool_takes(case: str) -> None:
    """D3: full, compact and strict take each valid call; what a form cannot say it leaves open, never closed."""
    schema, good, _ = WILD[case]
    tools = Registry(named(schema))
    for args in good:
        document = {"steps": [{"id": "a", "tool": "wild", "args": args}]}
        for form in ("full", "compact"):
            validator = jsonschema.Draft202012Validator(plan_schema(tools, form=form))
            assert validator.is_valid(document), (form, args)
        strict = jsonschema.Draft202012Validator(plan_schema(tools, form="strict"))
        assert strict.is_valid(to_strict(Plan.model_validate(document), tools)), args


FULL = ("a reference", "recursion", "the root is a reference", "anyOf of types", "allOf at the root", "prefixItems", "a list of types", "other letters")  # fmt: skip


@pytest.mark.parametrize("case", FULL)
def test_the_full_form_refuses_what_the_tool_does(case: str) -> None:
    """D3: references and alternatives still bind in the schema that is sent with a request."""
    schema, _, bad = WILD[case]
    validator = jsonschema.Draft202012Validator(plan_schema(Registry(named(schema))))
    for args in bad:
        assert not validator.is_valid({"steps": [{"id": "a", "tool": "wild", "args": args}]}), args


def test_letters_are_sent_as_they_are() -> None:
    """D4: nowhere on the way to a model is a letter written as `\\uXXXX`."""
    wild = Tool.declare("wild", "Größe — 尺寸", input_schema=WILD["other letters"][0], effect="reads")
    for message in plan_messages(
        PlanRequest("尺寸 für Zoë", Registry(wild), {"type": "object", "title": "é"})
    ):
        assert "\\u" not in message.content
        assert "\u5c3a\u5bf8" in message.content


@pytest.mark.parametrize(("folder", "most"), [("livemcpbench_retrieval", 1), ("sealtools_retrieval", 0)])
def test_published_tools_reach_the_model_whole(folder: str, most: int) -> None:
    """D3, D4: 527 tools of MCP servers and 4,076 of a benchmark are registered, and the catalogue says their schemas."""
    refused, tools = 0, Registry()
    for record in records(folder, "tools.json"):
        try:
            made = Tool.declare("t", record.get("description") or "", input_schema=record["input_schema"])
        except (ToolRefused, SchemaRefused):
            refused += 1
            continue
        if f"t{len(tools)}" not in tools:
            tools.add(made.renamed(f"t{len(tools)}"))
    assert refused <= most
    system = plan_messages(PlanRequest("x", tools))[0].content
    told = [json.loads(line) for line in system.splitlines() if line.startswith('{"tool":"t')]
    assert len(told) == len(tools)
    for line in told:
        document = tools[line["tool"]].input.document
        assert line["args"].keys() == document.keys() - {"$schema", "title"}
        assert words(line["args"]) == words(document)


def words(schema: Any) -> int:
    """How many parts a schema has, but for generated titles and the dialect."""
    if isinstance(schema, list):
        return sum(map(words, schema))
    if not isinstance(schema, dict):
        return 1
    return sum(words(v) for k, v in schema.items() if not (k in ("title", "$schema") and isinstance(v, str)))
