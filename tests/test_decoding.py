"""JSON that arrives as text is read once where the schema wants the thing itself, and it is told (P9)."""

from __future__ import annotations

import json
import time
from io import StringIO
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from support.virtual import BACKENDS, now, run_virtual

from foreplan import Engine, MemoryJournal, Plan, Policies, Run, Tool, check
from foreplan.console.telling import event_list
from foreplan.executor.events import CallAdmitted, CallSettled, Event, decode, encode
from foreplan.executor.mind.mind import replay
from foreplan.executor.mind.state import State
from foreplan.policies.canonical import canonical
from foreplan.registry import decoding
from foreplan.registry.registry import Registry
from foreplan.registry.schema import compile_schema

ORDER = {
    "type": "object",
    "properties": {
        "ids": {"type": "array", "items": {"type": "integer"}},
        "to": {"type": "object", "properties": {"name": {"type": "string"}, "tags": {"type": "array"}}},
        "rows": {"type": "array", "items": {"$ref": "#/$defs/row"}},
        "note": {"type": "string"},
        "free": {},
        "either": {"anyOf": [{"type": "array"}, {"type": "string"}]},
        "maybe": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
        "count": {"type": "integer"},
        "sure": {"type": "boolean"},
        "pair": {"type": "array", "prefixItems": [{"type": "object"}, {"type": "string"}], "items": {"type": "array"}},
        "both": {"allOf": [{"$ref": "#/$defs/row"}, {"required": ["n"]}]},
        "chosen": {"enum": [["a"], ["b"]]},
    },
    "patternProperties": {"^x-": {"type": "object"}},
    "additionalProperties": False,
    "$defs": {
        "row": {
            "type": "object",
            "properties": {"n": {"type": "integer"}, "under": {"type": "array", "items": {"$ref": "#/$defs/row"}}},
        }
    },
}  # fmt: skip

READ: dict[str, tuple[Any, Any, list[str]]] = {
    "a list": ({"ids": "[1, 2]"}, {"ids": [1, 2]}, ["/ids"]),
    "an object": ({"to": '{"name": "x"}'}, {"to": {"name": "x"}}, ["/to"]),
    "white space around it": ({"ids": " \n[1]\t"}, {"ids": [1]}, ["/ids"]),
    "nested": ({"to": {"tags": "[1]"}}, {"to": {"tags": [1]}}, ["/to/tags"]),
    "a list of such texts": ({"rows": ['{"n": 1}', {"n": 2}, '{"n": 3}']}, {"rows": [{"n": 1}, {"n": 2}, {"n": 3}]}, ["/rows/0", "/rows/2"]),
    "through a recursive reference": ({"rows": [{"under": [{"under": "[]"}]}]}, {"rows": [{"under": [{"under": []}]}]}, ["/rows/0/under/0/under"]),
    "null or a list": ({"maybe": '["a"]'}, {"maybe": ["a"]}, ["/maybe"]),
    "allOf": ({"both": '{"n": 1}'}, {"both": {"n": 1}}, ["/both"]),
    "by place": ({"pair": ["{}", "{}", "[]"]}, {"pair": [{}, "{}", []]}, ["/pair/0", "/pair/2"]),
    "by pattern": ({"x-a/b": "{}"}, {"x-a/b": {}}, ["/x-a~1b"]),
    "by its choices": ({"chosen": '["a"]'}, {"chosen": ["a"]}, ["/chosen"]),
    "non-ASCII": ({"to": '{"name": "日本 \\u00e9"}'}, {"to": {"name": "日本 é"}}, ["/to"]),
    "two at once": ({"ids": "[1]", "to": "{}", "note": "[1]"}, {"ids": [1], "to": {}, "note": "[1]"}, ["/ids", "/to"]),
}  # fmt: skip

LEFT: dict[str, Any] = {
    "where text is wanted": {"note": "[1, 2]"},
    "where anything goes": {"free": '{"a": 1}'},
    "where text may stand as well": {"either": "[1]"},
    "the other kind": {"ids": '{"a": 1}'},
    "no JSON": {"ids": "[1, 2"},
    "Python": {"to": "{'name': 'x'}"},
    "a trailing comma": {"ids": "[1,]"},
    "more behind it": {"ids": "[1] [2]"},
    "a key that stands twice": {"to": '{"name": "a", "name": "b"}'},
    "NaN": {"ids": "[NaN]"},
    "infinity in digits": {"ids": "[1e999]"},
    "an integer without end": {"ids": f"[{'9' * 5000}]"},
    "half a character": {"to": '{"name": "\\ud800"}'},
    "half a character as a key": {"to": '{"\\ud800": 1}'},
    "too deep": {"ids": "[" * 200 + "]" * 200},
    "much too deep": {"ids": "[" * 100_000},
    "text in text": {"ids": json.dumps(json.dumps([1]))},
    "a number": {"count": "3"},
    "true": {"sure": "true"},
    "a text": {"note": '"a"'},
    "an unknown argument": {"sudo": "[1]"},
}


@pytest.mark.parametrize("case", READ)
def test_json_as_text_is_read_where_the_schema_wants_it(case: str) -> None:
    """The value, and the pointers to where it was; what was given stays as it was."""
    value, expected, places = READ[case]
    before = canonical(value)
    found = decoding.decode(compile_schema(ORDER, closed=True), value)
    assert (found.value, list(found.places)) == (expected, places)
    assert compile_schema(ORDER, closed=True).accepts(found.value)
    assert canonical(value) == before


@pytest.mark.parametrize("case", LEFT)
def test_everything_else_is_left_alone(case: str) -> None:
    """Where a text may stand, and whatever is not strict JSON of the kind that is wanted; scalars never (threat 4)."""
    found = decoding.decode(compile_schema(ORDER, closed=True), LEFT[case])
    assert found == (LEFT[case], ())


def test_what_comes_out_is_not_looked_into_again() -> None:
    """Once: JSON as text inside JSON as text stays text, and the schema refuses it."""
    found = decoding.decode(compile_schema(ORDER), {"to": json.dumps({"tags": "[1]"})})
    assert found == ({"to": {"tags": "[1]"}}, ("/to",))


SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES.filter(lambda value: isinstance(value, dict | list)))
def test_what_is_read_is_what_was_written(value: Any) -> None:
    """Any object or list comes back as it is."""
    kind = "object" if isinstance(value, dict) else "array"
    schema = compile_schema({"properties": {"x": {"type": kind}}})
    found = decoding.decode(schema, {"x": json.dumps(value)})
    assert found == ({"x": value}, ("/x",))


NAMES = ["ids", "to", "rows", "note", "free", "either", "maybe", "count", "sure", "pair", "both", "chosen"]


@given(st.dictionaries(st.sampled_from(NAMES), VALUES))
def test_valid_values_are_never_changed(value: dict[str, Any]) -> None:
    """Decoding is for what does not fit; and it never raises."""
    schema = compile_schema(ORDER, closed=True)
    if schema.accepts(value):
        assert decoding.decode(schema, value) == (value, ())
    else:
        decoding.decode(schema, value)


def test_a_hostile_schema_or_value_costs_little() -> None:
    """Options that multiply and half a million texts: under a second, whatever comes out."""
    twice: dict[str, Any] = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(8)}
    options = {"properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": twice | {"d8": {"type": "array"}}}
    many = {"properties": {"x": {"type": "array", "items": {"type": "array"}}}}
    begun = time.process_time()
    decoding.decode(compile_schema(options), {"x": "[1]"})
    decoding.decode(compile_schema(many), {"x": ["[]"] * 500_000})
    assert time.process_time() - begun < 2


# ---- in a run ------------------------------------------------------------------------------------------------------


def store(*, effect: str = "reads") -> tuple[Tool, list[Any]]:
    seen: list[Any] = []

    async def call(args: dict[str, Any]) -> Any:
        await anyio.lowlevel.checkpoint()
        seen.append(args)
        return len(seen)

    made = Tool.declare("store", "Stores.", input_schema=ORDER, call=call, effect=effect)
    return made, seen


def ran(backend: str, made: Tool, *steps: dict[str, Any]) -> tuple[Run, list[Event]]:
    journal = MemoryJournal()

    async def main() -> Run:
        engine = Engine([made], policies=Policies(approve="never"), journal=journal, clock=now)
        return await engine.run(Plan.model_validate({"steps": list(steps)}))

    run = run_virtual(backend, main)
    return run, list(journal.events(run.id))


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_value_validated_is_the_value_sent(backend: str) -> None:
    """Tool, record, digest and key are those of the decoded arguments; CallAdmitted tells where they were text."""
    made, seen = store()
    run, events = ran(
        backend,
        made,
        {"id": "as_text", "tool": "store", "args": {"ids": "[1, 2]"}},
        {"id": "as_json", "tool": "store", "args": {"ids": [1, 2]}},
    )
    assert run.ok
    assert seen == [{"ids": [1, 2]}] * 2
    text, plain = [e for e in events if isinstance(e, CallAdmitted)]
    assert (text.args, text.args_digest) == (plain.args, plain.args_digest)
    assert (text.decoded, plain.decoded) == (("/ids",), ())
    assert decode(json.loads(json.dumps(encode(text)))) == text
    assert "decoded" not in encode(plain)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_text_from_a_result_is_read_too(backend: str) -> None:
    """Guided by the schema alone, wherever the text comes from; equal items count as equal."""
    made, seen = store()
    run, events = ran(
        backend,
        made,
        {
            "id": "a",
            "each": ["[1]", [1]],
            "as": "what",
            "tool": "store",
            "args": {"ids": {"$": "what"}},
        },
    )
    assert run.ok
    assert seen == [{"ids": [1]}] * 2
    admitted = [e for e in events if isinstance(e, CallAdmitted)]
    assert len({e.args_digest for e in admitted}) == 1
    assert len({e.key for e in admitted}) == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_still_wrong_is_refused_as_it_was_read(backend: str) -> None:
    """`bad_args`, with the pointer into the decoded value, and nothing is called."""
    made, seen = store()
    step = {"id": "a", "each": ['["x"]', [1]], "tool": "store", "args": {"ids": {"$": "item"}}}
    run, events = ran(backend, made, step)
    failure = run.failures[0][1]
    assert (failure.kind, failure.code, failure.happened) == ("bad_args", "invalid_arguments", "no")
    assert "/ids/0" in failure.message
    assert {"ids": ["x"]} not in seen
    settled = [e for e in events if isinstance(e, CallSettled) and e.failure is not None]
    assert [(e.args, e.attempt) for e in settled] == [({"ids": ["x"]}, 0)]


def test_the_journal_replays_to_the_same_state() -> None:
    """Decoding is part of the mind: the same events, the same end."""
    made, _ = store()
    _, events = ran("asyncio", made, {"id": "a", "tool": "store", "args": {"to": '{"name": "é"}'}})
    assert replay(State(Registry(made)), events).nodes["a"].value == 1


def test_the_list_of_events_tells_what_was_read() -> None:
    """`show --events` names the places; non-ASCII text stays as it is (D4)."""
    made, _ = store()
    _, events = ran("asyncio", made, {"id": "a", "tool": "store", "args": {"to": '{"name": "é"}'}})
    shown = StringIO()
    Console(width=200, file=shown).print(event_list(events))
    [told] = [line for line in shown.getvalue().splitlines() if "CallAdmitted" in line]
    assert told.rstrip().endswith('a  (JSON as text, read: /to)  store(to={"name": "é"})')


def test_a_plan_with_json_as_text_checks_with_a_warning() -> None:
    """And nothing else: it runs."""
    made, _ = store()
    plan = Plan.model_validate(
        {"steps": [{"id": "a", "tool": "store", "args": {"ids": "[1]", "note": "[1]"}}]}
    )
    assert [(f.code, f.severity, f.pointer) for f in check(plan, Registry(made)).findings] == [
        ("json_as_text", "warning", "/steps/0/args/ids")
    ]
