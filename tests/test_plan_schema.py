"""The JSON Schemas of plans: what the check accepts fits, wrong names do not, and the strict form reads back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from support.datasets import (
    Case,
    load_asynchow,
    load_complexfuncbench,
    load_nestful,
    load_nestools,
    registry_of,
)

from foreplan import CannotPlan, ModelPlanner, Patch, Plan, Registry, Tool, check
from foreplan.planner.findings import PlanUnreadable
from foreplan.planner.models.scripted import ScriptedModel
from foreplan.planner.plan_schema import (
    LARGEST,
    Form,
    from_strict,
    plan_schema,
    response_schema,
    to_strict,
)
from foreplan.planner.prompt import answer_schema
from foreplan.planner.requests import PlanRequest
from foreplan.policies.errors import BadInput

FORMS: tuple[Form, ...] = ("full", "strict", "compact")


def declared(name: str, properties: dict[str, Any], *required: str, **more: Any) -> Tool:
    schema = {"type": "object", "properties": properties, "required": list(required), **more}
    return Tool.declare(name, input_schema=schema, effect="reads")


NODE = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "below": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
    "required": ["name"],
}
PERSON = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": ["integer", "null"]}}}
TOOLS = Registry(
    declared("list_files", {"folder": {"type": "string"}, "deep": {"type": "boolean"}}, "folder"),
    declared(
        "send.mail", {"to": {"type": "array", "items": {"type": "string"}}, "body": {"type": "string"}}, "to"
    ),
    declared("add_person", {"person": PERSON, "role": {"enum": ["guest", "owner"]}}, "person"),
    declared(
        "store", {"data": {"type": "object"}, "any": {}, "limit": {"type": ["integer", "null"]}}, "data"
    ),
    declared("plant", {"tree": {"$ref": "#/$defs/node"}}, "tree", **{"$defs": {"node": NODE}}),
    declared("nothing", {}),
)
SCHEMAS = {form: Draft202012Validator(plan_schema(TOOLS, form=form)) for form in FORMS}
FITS = SCHEMAS["full"].is_valid

CALL = {"id": "a", "tool": "list_files", "args": {"folder": "/"}}
RIGHT: dict[str, list[dict[str, Any]]] = {
    "literal": [CALL],
    "expression": [CALL, {"id": "b", "tool": "send.mail", "args": {"to": {"$": "a.names"}}, "after": ["a"]}],
    "expression inside": [{"id": "a", "tool": "send.mail", "args": {"to": ["x", {"$": "inputs.y"}]}}],
    "deep expression": [
        {"id": "a", "tool": "add_person", "args": {"person": {"name": {"$": "inputs.n"}, "age": None}}}
    ],
    "choice": [{"id": "a", "tool": "add_person", "args": {"person": {}, "role": "guest"}}],
    "free object": [{"id": "a", "tool": "store", "args": {"data": {"x": [{"$": "inputs.y"}], "z": None}}}],
    "literal object": [{"id": "a", "tool": "store", "args": {"data": {"$literal": {"$": "5"}}, "any": None}}],
    "null meant": [{"id": "a", "tool": "store", "args": {"data": {}, "limit": None, "any": {"a": 1}}}],
    "recursive": [
        {"id": "a", "tool": "plant", "args": {"tree": {"name": "r", "below": [{"name": {"$": "'x'"}}]}}}
    ],
    "no arguments": [{"id": "a", "tool": "nothing"}, {"id": "b", "tool": "nothing", "args": {}}],
    "each": [CALL | {"each": [1, 2], "as": "n", "when": {"$": "n > 1"}, "on_failure": "skip"}],
    "value": [{"id": "a", "value": {"x": {"$": "1"}, "y": [None, "t", 2.5]}}, {"id": "b", "value": None}],
    "until": [CALL | {"until": {"$": "result.done"}, "next": {"deep": True}, "every": 2, "max": 3}],
    "undo": [CALL | {"undo": {"tool": "send.mail", "args": {"to": {"$": "result.owners"}}}}],
    "groups": [
        {
            "id": "g",
            "each": {"$": "[1]"},
            "output": {"n": {"$": "h"}},
            "steps": [{"id": "h", "steps": [CALL]}],
        }
    ],
}
WRONG: dict[str, dict[str, Any]] = {
    "tool": {"id": "a", "tool": "list_file", "args": {"folder": "/"}},
    "argument": {"id": "a", "tool": "list_files", "args": {"folder": "/", "depth": 1}},
    "inner argument": {"id": "a", "tool": "add_person", "args": {"person": {"nam": "x"}}},
    "recursive argument": {
        "id": "a",
        "tool": "plant",
        "args": {"tree": {"name": "r", "below": [{"nam": "x"}]}},
    },
    "missing": {"id": "a", "tool": "list_files", "args": {}},
    "missing all": {"id": "a", "tool": "list_files"},
    "type": {"id": "a", "tool": "list_files", "args": {"folder": 5}},
    "choice": {"id": "a", "tool": "add_person", "args": {"person": {}, "role": "king"}},
    "beside": {"id": "a", "tool": "store", "args": {"data": {"$": "x", "y": 1}}},
    "property": CALL | {"wen": True},
    "both": CALL | {"value": 1},
    "id": CALL | {"id": "A b"},
    "undo": CALL | {"undo": {"tool": "unsend"}},
    "next": CALL | {"until": True, "next": {"depth": 1}},
    "replaces": CALL | {"replaces": "b"},
}


def plan_of(steps: list[dict[str, Any]], **rest: Any) -> Plan:
    return Plan.model_validate({"steps": steps, **rest})


def core(plan: Plan | Patch) -> dict[str, Any]:
    """What an answer says: steps and output; no arguments and none said are the same."""
    document = plan.to_json()
    kept = {k: v for k, v in document.items() if k in ("steps", "output", "add", "drop")}
    return {k: [_plain(s) for s in v] if k in ("steps", "add") else v for k, v in kept.items()}


def _plain(step: dict[str, Any]) -> dict[str, Any]:
    inside = {"steps": [_plain(s) for s in step["steps"]]} if "steps" in step else {}
    return {k: v for k, v in (step | inside).items() if (k, v) != ("args", {})}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("patch", [False, True])
def test_a_schema_is_a_schema(form: Form, patch: bool) -> None:
    """Every form is valid draft 2020-12, also without any tool."""
    for registry in (TOOLS, Registry()):
        Draft202012Validator.check_schema(plan_schema(registry, form=form, patch=patch))


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_plan_fits(name: str) -> None:
    """Each way to write a step, with literals and with expressions."""
    assert list(SCHEMAS["full"].iter_errors(plan_of(RIGHT[name], goal="g", output=1).to_json())) == []


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_step_does_not_fit(name: str) -> None:
    """Names of tools, arguments and properties; literals of another type."""
    assert not FITS({"steps": [WRONG[name]]})


def test_groups_fit_to_depth_three() -> None:
    """As deep as the language allows, and no deeper."""

    def nested(depth: int) -> dict[str, Any]:
        return {"id": f"g{depth}", "steps": [nested(depth - 1)]} if depth else CALL

    assert FITS({"steps": [nested(3)]})
    assert not FITS({"steps": [nested(4)]})


@pytest.mark.parametrize("form", ["full", "compact"])
def test_a_patch_and_a_declined_answer_fit(form: Form) -> None:
    """`replaces` is known in patches; `cannot_plan` is an answer to both questions."""
    fits = Draft202012Validator(plan_schema(TOOLS, form=form, patch=True)).is_valid
    assert fits({"drop": ["b"], "add": [CALL | {"replaces": "x"}], "output": {"$": "a"}})
    assert fits({"cannot_plan": "no tool does it"})
    assert SCHEMAS[form].is_valid({"cannot_plan": "no tool does it"})
    assert not fits({})
    assert not SCHEMAS[form].is_valid({"cannot_plan": "no", "steps": [CALL]})


LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-9, 9), st.text(max_size=3), st.just({"$": "inputs.x"})
)
VALUES = st.recursive(
    LEAVES,
    lambda v: st.lists(v, max_size=2) | st.dictionaries(st.sampled_from("abn$"), v, max_size=2),
    max_leaves=4,
)
ARGUMENTS = st.dictionaries(
    st.sampled_from(["folder", "deep", "to", "person", "role", "data", "any", "limit", "tree"]),
    VALUES,
    max_size=2,
)


@settings(deadline=None)
@given(
    st.sampled_from(TOOLS.names),
    ARGUMENTS | st.builds(lambda v, n: {n: v}, VALUES, st.sampled_from(["data", "any"])),
)
def test_what_the_check_accepts_fits(name: str, args: dict[str, Any]) -> None:
    """Any arguments: where the check finds no error, they fit the schema, and the strict form reads back."""
    plan = plan_of([{"id": "a", "tool": name, "args": args}], inputs={})
    if check(plan, TOOLS).ok:
        assert FITS(plan.to_json())
        strict = to_strict(plan, TOOLS)
        assert list(SCHEMAS["strict"].iter_errors(strict)) == []
        assert core(Plan.model_validate(from_strict(strict, TOOLS))) == core(plan)


# ---- public plans


@pytest.mark.parametrize("load", [load_nestools, load_complexfuncbench, load_nestful, load_asynchow])
def test_public_plans_fit_every_form_and_read_back(load: Callable[[], Iterator[Case]]) -> None:
    """Every seventh public plan that the check accepts; the tool's name with a letter more does not fit."""
    for case in list(load())[::7]:
        registry = registry_of(case.tools)
        if not check(case.plan, registry).ok:
            continue
        full, strict, compact = (Draft202012Validator(plan_schema(registry, form=form)) for form in FORMS)
        written = to_strict(case.plan, registry)
        assert full.is_valid(case.plan.to_json())
        assert compact.is_valid(core(case.plan))
        assert strict.is_valid(written)
        assert core(Plan.model_validate(from_strict(written, registry))) == core(case.plan)
        misspelt = json.loads(json.dumps(case.plan.to_json()))
        misspelt["steps"][0]["tool"] += "x"
        assert not full.is_valid(misspelt)


# ---- the strict form


@pytest.mark.parametrize("name", RIGHT)
def test_the_strict_form_of_a_plan_fits_and_reads_back(name: str) -> None:
    """There and back is the same plan."""
    plan = plan_of(RIGHT[name], output={"x": [{"$": "a"}]})
    strict = to_strict(plan, TOOLS)
    assert list(SCHEMAS["strict"].iter_errors(strict)) == []
    assert core(Plan.model_validate(from_strict(strict, TOOLS))) == core(plan)


def test_the_strict_form_of_a_patch_reads_back() -> None:
    """`replaces`, `drop` and an output."""
    patch = Patch.model_validate({"drop": ["z"], "add": [CALL | {"replaces": "x"}], "output": None})
    strict = to_strict(patch, TOOLS)
    assert Draft202012Validator(plan_schema(TOOLS, form="strict", patch=True)).is_valid(strict)
    assert core(Patch.model_validate(from_strict(strict, TOOLS))) == core(patch)


KNOWN = {
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "anyOf",
    "$ref",
    "$defs",
    "description",
}


@pytest.mark.parametrize("patch", [False, True])
def test_a_strict_schema_keeps_to_what_services_accept(patch: bool) -> None:
    """The root an object; every object closed, all of it required; few keywords; ten levels of objects at most (P8)."""
    schema = plan_schema(TOOLS, form="strict", patch=patch)
    assert schema["type"] == "object"
    for part in _schemas(schema):
        assert part.keys() <= KNOWN
        if part.get("type") == "object":
            assert part["additionalProperties"] is False
            assert part["required"] == list(part["properties"])
    assert _depth(schema, schema) <= 10


def _schemas(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    for name in ("properties", "$defs"):
        for part in schema.get(name, {}).values():
            yield from _schemas(part)
    for part in [*schema.get("anyOf", []), *([schema["items"]] if "items" in schema else [])]:
        yield from _schemas(part)


def _depth(schema: dict[str, Any], root: dict[str, Any]) -> int:
    """Levels of objects; a recursion would never end."""
    if "$ref" in schema:
        return _depth(root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root)
    inside = [*schema.get("properties", {}).values(), *schema.get("anyOf", [])]
    inside += [schema["items"]] if "items" in schema else []
    return (schema.get("type") == "object") + max((_depth(part, root) for part in inside), default=0)


def test_json_text_that_is_none_is_a_finding() -> None:
    """It goes back to the model with its place."""
    step = {"id": "a", "tool": "store", "args": {"data": {"$json": "{x"}}}
    with pytest.raises(PlanUnreadable) as caught:
        from_strict({"steps": [step]}, TOOLS)
    assert [(f.code, f.pointer) for f in caught.value.findings] == [("bad_answer", "/steps/0/args/data")]


def test_an_answer_in_the_usual_form_is_read_as_it_is() -> None:
    """A model that was not held to the schema, and wrote a plan all the same; and one that wrote nonsense."""
    for name in RIGHT.keys() - {"null meant", "deep expression", "literal object"}:
        assert from_strict({"steps": RIGHT[name]}, TOOLS) == {"steps": RIGHT[name]}
    assert from_strict({"steps": 5, "add": [3, {"tool": 7, "args": []}]}, TOOLS) == {
        "steps": 5,
        "add": [3, {"tool": 7, "args": []}],
    }


def test_a_plan_that_the_strict_form_cannot_say_is_refused() -> None:
    """A tool nobody knows, a literal that its tool does not take."""
    with pytest.raises(BadInput, match="'other' is not one of them"):
        to_strict(plan_of([{"id": "a", "tool": "other"}]), TOOLS)
    with pytest.raises(BadInput, match=r"list_files\.folder"):
        to_strict(plan_of([{"id": "a", "tool": "list_files", "args": {"folder": 5}}]), TOOLS)


# ---- as sent to a model


MANY = Registry(
    *(declared(f"tool_{n}", {f"field_{m}": {"type": "string"} for m in range(12)}) for n in range(300))
)


def test_a_schema_that_is_too_large_gives_way_to_a_smaller_one() -> None:
    """full, then compact, then names only; the strict one takes arguments as JSON text."""
    few = Registry(*list(MANY)[:80])
    sizes = [len(json.dumps(response_schema(registry))) for registry in (TOOLS, few, MANY)]
    assert max(sizes) <= LARGEST
    assert response_schema(TOOLS) == plan_schema(TOOLS)
    assert response_schema(few) == plan_schema(few, form="compact")
    assert response_schema(MANY) == answer_schema(MANY.names)
    plan = plan_of([{"id": "a", "tool": "tool_7", "args": {"field_3": {"$": "inputs.x"}}}])
    strict = to_strict(plan, MANY)
    assert strict["steps"][0]["args"] == {"$json": '{"field_3": {"$": "inputs.x"}}'}
    assert Draft202012Validator(response_schema(MANY, form="strict")).is_valid(strict)
    assert core(Plan.model_validate(from_strict(strict, MANY))) == core(plan)


def test_the_compact_form_is_small() -> None:
    """A third of the full one, and it still knows the names."""
    assert 3 * len(json.dumps(plan_schema(TOOLS, form="compact"))) < len(json.dumps(plan_schema(TOOLS)))
    assert not SCHEMAS["compact"].is_valid({"steps": [WRONG["argument"]]})
    assert not SCHEMAS["compact"].is_valid({"steps": [WRONG["tool"]]})


@pytest.mark.anyio
async def test_a_model_planner_reads_the_form_it_asked_for() -> None:
    """The schema goes with the request, the rule of the form into the prompt, and the answer comes back as a plan."""
    plan = plan_of(
        [{"id": "a", "tool": "store", "args": {"data": {"x": 1}}}], goal="store x", output={"$": "a"}
    )
    model = ScriptedModel([to_strict(plan, TOOLS)])
    proposal = await ModelPlanner(model, form="strict").plan(PlanRequest("store x", TOOLS))
    assert proposal.document == plan
    assert model.requests[0].options["response_format"] == plan_schema(TOOLS, form="strict")
    assert '"$json"' in model.requests[0].messages[0].content


@pytest.mark.anyio
async def test_a_strict_answer_can_decline() -> None:
    """`cannot_plan` beside steps that are null."""
    answer = {"steps": None, "output": None, "cannot_plan": "nothing sends letters"}
    assert SCHEMAS["strict"].is_valid(answer)
    with pytest.raises(CannotPlan, match="sends letters"):
        await ModelPlanner(ScriptedModel([answer]), form="strict").plan(PlanRequest("write", TOOLS))


def test_a_form_that_does_not_exist_is_refused() -> None:
    """With the ones that do."""
    with pytest.raises(BadInput, match="full, strict, compact"):
        ModelPlanner(ScriptedModel([]), form="small")  # type: ignore[arg-type]
