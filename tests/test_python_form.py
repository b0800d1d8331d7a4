"""The Python form of a plan: each value is one Python expression, as text, and a small model's slips do no harm."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from jsonschema import Draft202012Validator

from foreplan import ModelPlanner, Registry, ScriptedModel, Tool, check, tool
from foreplan.planner.plan import Plan
from foreplan.planner.plan_schema import from_python, plan_schema, response_schema, to_python
from foreplan.planner.prompt import plan_messages
from foreplan.planner.requests import PlanRequest
from foreplan.planner.short_prompt import _EXAMPLES, short_tools


@tool
def find(name: str, limit: int = 10) -> list[dict[str, str]]:
    """Find people."""
    return []


@tool
def send(
    to: str, text: str, tags: list[str] | None = None, how: Literal["mail", "post"] = "mail"
) -> dict[str, str]:
    """Send a letter."""
    return {}


TOOLS = Registry(find, send)
DOCUMENT: dict[str, Any] = {
    "steps": [
        {"id": "people", "tool": "find", "args": {"name": {"$": "inputs.name"}, "limit": 3}},
        {"id": "chosen", "value": {"of": [{"$": "people[0]"}, None, 1.5, True], "$literal_": "it's"}},
        {
            "id": "sent",
            "each": {"$": "people"},
            "as": "one",
            "when": {"$": "one.ok == 'yes'"},
            "tool": "send",
            "args": {"to": {"$": "one.mail"}, "text": 'say "hi"\n', "tags": ["a", {"$": "one.tag"}]},
            "after": ["chosen"],
            "on_failure": "skip",
        },
    ],
    "output": {"n": {"$": "len(sent)"}, "why": "done"},
}


CALL = {"id": "a", "each": "", "when": ""}


def read(value: Any, argument: str = "text") -> Any:
    """What a value of an argument of `send` is taken for, inside an `each`."""
    step = {"id": "sent", "each": "people", "as": "one", "tool": "send", "args": {argument: value}}
    return from_python({"steps": [{"id": "people", "value": "[]"}, step]}, TOOLS)["steps"][1]["args"][
        argument
    ]


def test_a_plan_goes_there_and_back() -> None:
    """Literals stay literals, expressions expressions; the schema takes the form."""
    written = to_python(DOCUMENT)
    assert written["steps"][2]["args"]["text"] == "'say \"hi\"\\n'"
    assert Draft202012Validator(plan_schema(TOOLS, form="python")).is_valid(written)
    again = from_python(written, TOOLS)
    assert again["steps"][0] == DOCUMENT["steps"][0]
    assert again["output"] == {"$": "{'n': len(sent), 'why': 'done'}"}
    assert again["steps"][2]["args"] == {
        "to": {"$": "one.mail"},
        "text": 'say "hi"\n',
        "tags": {"$": "['a', one.tag]"},
    }
    assert to_python(again) == written


def test_a_literal_value_is_kept_a_literal() -> None:
    """Who approves a plan sees the value, not how it is computed."""
    assert read("['a', 'b']", "tags") == ["a", "b"]
    assert read("{'a': -1.5, 'b': [None, True]}", "tags") == {"a": -1.5, "b": [None, True]}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("'hello'", "hello"),
        ("Hello and goodbye", "Hello and goodbye"),
        ("hello", "hello"),
        ("report.csv", "report.csv"),
        ("one.mail", {"$": "one.mail"}),
        ("Dear {one.name}!", {"$": "f'Dear {one.name}!'"}),
        ("Dear {customer}!", "Dear {customer}!"),
        ("f'Dear {one.name}!'", {"$": "f'Dear {one.name}!'"}),
        ("peopl[0].mail", {"$": "peopl[0].mail"}),
        (7, 7),
    ],
)
def test_a_text_whose_quotes_are_missing_is_a_text(written: Any, meant: Any) -> None:
    """Where the tool takes text and no name in it is known or looks like one that is."""
    assert read(written) == meant


@pytest.mark.parametrize("written", ["hello", "Hello and goodbye", "report.csv"])
def test_where_no_text_fits_it_stays_an_expression(written: str) -> None:
    """So that the check says what is wrong with it."""
    assert read(written, "tags") == {"$": written}
    plan = plan_from_steps({"id": "a", "tool": "send", "args": {"to": "'x'", "text": "'y'", "tags": written}})
    assert not check(plan, TOOLS).ok


def plan_from_steps(*steps: dict[str, Any]) -> Plan:
    return Plan.model_validate(from_python({"steps": list(steps)}, TOOLS))


def test_an_item_that_is_called_like_its_step_is_told_apart() -> None:
    """No step speaks of itself, so what is meant is the item."""
    step = {
        "id": "sent",
        "tool": "send",
        "each": "people",
        "as": "sent",
        "when": "sent.ok",
        "args": {"to": "sent.mail"},
    }
    read = from_python({"steps": [{"id": "people", "value": "[]"}, step]}, TOOLS)["steps"][1]
    assert read["as"] == "sent_item"
    assert (read["when"], read["args"]) == ({"$": "sent_item.ok"}, {"to": {"$": "sent_item.mail"}})


def test_the_schema_names_tools_and_arguments_and_nothing_else() -> None:
    """An argument that no tool has, a value that is no text and a tool that there is not do not fit."""
    schema = Draft202012Validator(plan_schema(TOOLS, form="python"))
    for args in ({"name": "'a'"}, {"name": "'a'", "limit": "3"}):
        assert schema.is_valid({"steps": [{**CALL, "tool": "find", "args": args}]})
    for tool_name, wrong in (
        ("find", {}),
        ("find", {"name": 3}),
        ("find", {"nam": "x"}),
        ("fin", {"name": "x"}),
    ):
        assert not schema.is_valid({"steps": [{**CALL, "tool": tool_name, "args": wrong}]})
    assert not schema.is_valid({"steps": [{"id": "a", "tool": "find", "args": {"name": "x"}}]})
    assert schema.is_valid({"cannot_plan": "no"})
    assert response_schema(TOOLS, form="python", patch=True)["anyOf"][0]["required"] == ["add"]


def test_an_answer_in_the_usual_form_is_read_as_it_is() -> None:
    """A model that was not held to the form may know better."""
    usual = {"steps": [DOCUMENT["steps"][0]]}
    assert from_python(usual, TOOLS)["steps"] == usual["steps"]
    assert from_python("no", TOOLS) == "no"
    odd = {"steps": [3, {"tool": ["x"], "args": 4, "when": None}], "output": None}
    assert from_python(odd, TOOLS) == odd


@pytest.mark.anyio
async def test_a_planner_asks_and_reads_in_this_form() -> None:
    """The examples of the prompt are written in it; a patch knows the steps that there are."""
    model = ScriptedModel(
        [{"steps": [{"id": "a", "tool": "find", "args": {"name": "inputs.name"}}], "output": "a"}]
    )
    request = PlanRequest("find somebody", TOOLS, inputs={"type": "object", "properties": {"name": {}}})
    made = await ModelPlanner(model, form="python").plan(request)
    assert made.document.to_json()["steps"][0]["args"] == {"name": {"$": "inputs.name"}}
    assert model.requests[0].options["response_format"] == plan_schema(TOOLS, form="python")
    told = model.requests[0].messages[0].content
    assert "find(name: text, limit?: integer) -> [{any name: text}]: Find people. Acts." in told
    assert '"note": "\'large\'"' in told


def test_the_short_prompt_is_short() -> None:
    """By half: a machine without a GPU reads fifty tokens a second."""

    def size(short: bool) -> int:
        return len(plan_messages(PlanRequest("g", TOOLS), short=short)[0].content)

    assert 10 * size(True) < 6 * size(False)


def test_the_examples_mean_what_they_show() -> None:
    """Each is read back as the plan that it was written from."""
    for _, _, answer in _EXAMPLES:
        assert from_python(to_python(answer), Registry()) == answer


def test_types_are_told_by_name_once() -> None:
    """A type that several tools share, and one that holds itself."""
    registry = Registry(declared("read", PERSON, TREE), declared("keep", PERSON, None))
    told = short_tools(registry)
    assert told.splitlines() == [
        "# Tools",
        "keep(who: Person): Does keep. Acts.",
        "  who: the one",
        "read(who: Person) -> Tree: Does read. Acts.",
        "  who: the one",
        "# Types",
        'Person = {name: text, age?: integer or null, kind: "a" or "b"}',
        "Tree = {leaf: any, below: [Tree]}",
    ]


PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "kind": {"enum": ["a", "b"]},
    },
    "required": ["name", "kind"],
}
TREE = {
    "$ref": "#/$defs/Tree",
    "$defs": {
        "Tree": {
            "type": "object",
            "properties": {"leaf": {}, "below": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
            "required": ["leaf", "below"],
        }
    },
}


def declared(name: str, person: dict[str, Any], result: dict[str, Any] | None) -> Tool:
    """A tool that takes a person."""
    schema = {
        "type": "object",
        "properties": {"who": {"$ref": "#/$defs/Person", "description": "the one"}},
        "required": ["who"],
        "$defs": {"Person": person},
    }
    return Tool.declare(name, description=f"Does {name}.", input_schema=schema, output_schema=result)
