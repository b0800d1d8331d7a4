"""Threats 4 to 8 of the list of threats, at every door: what is smuggled into arguments, into documents, into schemas."""

import math
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import BaseModel, ConfigDict
from support.evil import EVIL
from support.virtual import BACKENDS, now, run_virtual

from foreplan import (
    Engine,
    Limits,
    MemoryJournal,
    Plan,
    Policies,
    Retry,
    Tool,
    ask,
    tool,
)
from foreplan.console.given import (
    read_answers,
    read_given_approval,
    read_given_plan,
    read_inputs,
    read_policies,
    read_principal,
    read_schema,
)
from foreplan.executor.events import CallAdmitted, CallStarted
from foreplan.executor.runtime import Answer
from foreplan.planner.answers import AnswerUnreadable, read_patch_answer, read_plan_answer
from foreplan.planner.findings import CheckFailed
from foreplan.planner.models.messages import AIMessage
from foreplan.planner.requests import PlanRequest, ReplanRequest
from foreplan.policies.errors import BadInput, ForeplanError, SchemaRefused, ToolRefused
from foreplan.registry.registry import Registry

ONCE = Policies(approve="never", retry=Retry(attempts=1))
NAN, INFINITY = math.nan, math.inf

# ---- threat 4: argument smuggling --------------------------------------------------------------------------------


class Person(BaseModel):
    name: str
    tags: dict[str, int] = {}


def refunds() -> tuple[Tool, list[dict[str, Any]]]:
    """A tool with types of every sort, and what it was called with."""
    seen: list[dict[str, Any]] = []

    @tool(name="refund")
    async def refund(
        id: str,
        amount: float = 1.0,
        count: int = 1,
        sure: bool = False,
        to: Person | None = None,
        née: str = "",
    ) -> None:
        """Refunds."""
        await anyio.lowlevel.checkpoint()
        seen.append({"id": id, "amount": amount, "count": count, "sure": sure, "to": to, "née": née})

    return refund, seen


def declared() -> tuple[Tool, list[dict[str, Any]]]:
    """The same by its schema, as a stranger's server says it."""
    seen: list[dict[str, Any]] = []

    async def call(args: dict[str, Any]) -> None:
        await anyio.lowlevel.checkpoint()
        seen.append(args)

    person = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "tags": {"type": "object"}},
        "required": ["name"],
    }
    schema = {
        "type": "object",
        "properties": {
            "id": {"type": "string", "pattern": "^[a-z]+$"},
            "amount": {"type": "number", "minimum": 0, "maximum": 100},
            "count": {"type": "integer"},
            "sure": {"type": "boolean"},
            "to": {"anyOf": [person, {"type": "null"}]},
            "née": {"type": "string"},
        },
        "required": ["id"],
    }
    return Tool.declare("refund", "Refunds.", input_schema=schema, call=call), seen


SMUGGLED: dict[str, dict[str, Any]] = {
    "an extra argument": {"id": "a", "sudo": True},
    "an extra property inside": {"id": "a", "to": {"name": "x", "admin": 1}},
    "text for true": {"id": "a", "sure": "true"},
    "one for true": {"id": "a", "sure": 1},
    "1.0 for true": {"id": "a", "sure": 1.0},
    "null for true": {"id": "a", "sure": None},
    "text for a number": {"id": "a", "amount": "3"},
    "true for a number": {"id": "a", "amount": True},
    "text for an integer": {"id": "a", "count": "1"},
    "true for an integer": {"id": "a", "count": True},
    "a fraction for an integer": {"id": "a", "count": 1.5},
    "a number for text": {"id": 7},
    "a list for text": {"id": ["a"]},
    "true for text": {"id": True},
    "text for an object": {"id": "a", "to": "x"},
    "a list for an object": {"id": "a", "to": [["name", "x"]]},
    "a prototype key": {"id": "a", "__proto__": {"admin": True}},
    "a class key": {"id": "a", "to": {"name": "x", "__class__": "Admin"}},
    "a dictionary key": {"id": "a", "to": {"name": "x", "__dict__": {}}},
    "a constructor key": {"id": "a", "constructor": {"prototype": {}}},
    "self": {"id": "a", "self": 1},
    "the name of a field of ours": {"id": "a", "arg_1": 5},
    "a name in other accents": {"id": "a", "ne\u0301e": "x"},
    "a name with nothing in it": {"id": "a", "cou\u200bnt": 2},
    "a name in other case": {"ID": "b", "id": "a"},
    "a name with a space": {"id": "a", "id ": "b"},
    "an empty name": {"id": "a", "": "b"},
    "a name of another script": {"іd": "b", "id": "a"},
}  # fmt: skip

ONLY_DECLARED: dict[str, dict[str, Any]] = {
    "a newline at the end": {"id": "abc\n"},
    "above the maximum": {"id": "a", "amount": 100.5},
}


def given_as(args: dict[str, Any]) -> list[Plan]:
    """The arguments written in a plan, and as data that a plan passes on."""
    literal = {name: {"$literal": value} for name, value in args.items()}
    passed = {name: {"$": f"given.d[{name!r}]"} for name in args}
    read = {"id": "given", "tool": "read", "args": {}}
    return [
        Plan.model_validate({"steps": [{"id": "a", "tool": "refund", "args": literal}]}),
        Plan.model_validate({"steps": [read, {"id": "a", "tool": "refund", "args": passed}]}),
    ]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("make", [refunds, declared])
def test_smuggled_arguments_reach_no_tool(backend: str, make: Callable[[], tuple[Tool, list[Any]]]) -> None:
    """Threat 4: refused before the run or as `bad_args`, whether the plan says them or passes them on; never begun."""
    cases = SMUGGLED | (ONLY_DECLARED if make is declared else {})
    for case, args in cases.items():
        for plan in given_as(args):
            refund, seen = make()

            @tool(effect="reads", name="read")
            async def read() -> Any:
                await anyio.lowlevel.checkpoint()
                return {"d": args}  # noqa: B023 - called before the next turn

            journal = MemoryJournal()

            async def main() -> Any:
                engine = Engine([refund, read], policies=ONCE, journal=journal, clock=now)  # noqa: B023
                return await engine.run(plan)  # noqa: B023

            try:
                run = run_virtual(backend, main)
            except CheckFailed:
                continue
            finally:
                assert seen == [], case
            [(_, failure)] = run.failures
            assert (failure.kind, failure.happened) == ("bad_args", "no"), case
            events = list(journal.events(run.id))
            assert not [e for e in events if isinstance(e, CallStarted) and e.path == ("a",)], case


@pytest.mark.parametrize("make", [refunds, declared])
def test_the_value_validated_is_the_value_sent(make: Callable[[], tuple[Tool, list[Any]]]) -> None:
    """Threat 4: what is recorded as admitted is what the tool gets, 1.0 as the integer it is to JSON Schema."""
    refund, seen = make()
    args = {"id": "a", "amount": 3, "count": 1.0, "sure": True, "to": {"name": "é", "tags": {"__class__": 1}}}
    plan = Plan.model_validate({"steps": [{"id": "a", "tool": "refund", "args": args}]})
    journal = MemoryJournal()
    run = Engine([refund], policies=ONCE, journal=journal).run_blocking(plan)
    assert run.ok
    assert [e.args for e in journal.events(run.id) if isinstance(e, CallAdmitted)] == [args]
    [got] = seen
    to = got["to"] if isinstance(got["to"], dict) else got["to"].model_dump()
    assert (got["count"], to) == (1, args["to"])
    if make is refunds:
        assert (type(got["count"]), type(got["to"])) == (int, Person)


def test_keys_of_python_are_keys_and_nothing_else() -> None:
    """Threat 4: in an open object `__class__` is data, in a model too; and no expression reaches behind it."""
    seen: list[Any] = []

    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")
        name: str = ""

    @tool(effect="reads")
    async def keep(free: dict[str, Any], model: Open) -> None:
        """Keeps."""
        await anyio.lowlevel.checkpoint()
        seen.append((free, model))

    keys = {"__class__": "Admin", "__dict__": {"a": 1}, "__init__": 2, "model_config": {}}
    steps = [
        {"id": "a", "tool": "keep", "args": {"free": keys, "model": keys}},
        {"id": "b", "value": {"$": "inputs.d.get('__class__')"}},
    ]
    plan = Plan.model_validate(
        {"inputs": {"type": "object", "properties": {"d": {"type": "object"}}}, "steps": steps}
    )
    run = Engine([keep]).run_blocking(plan, inputs={"d": {"x": 1}})
    [(free, model)] = seen
    assert (free, type(free), type(model), model.name) == (keys, dict, Open, "")
    assert run["b"] is None


# ---- threat 5: numbers that are none -----------------------------------------------------------------------------

AMOUNT = {"type": "number", "minimum": 0, "maximum": 100}
ANYTHING: dict[str, Any] = {}


def with_inputs(schema: Any) -> Plan:
    return Plan.model_validate(
        {
            "inputs": {"type": "object", "properties": {"x": schema}},
            "steps": [{"id": "a", "value": {"$": "inputs.x"}}],
        }
    )


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_numbers_that_are_none_are_in_no_document(number: str, tmp_path: Path) -> None:
    """Threat 5: plan, inputs, `--set`, answers, a model's plan and patch: refused, or text that is no number."""
    named = tmp_path / "given.json"
    named.write_text(f'{{"steps": [{{"id": "a", "value": {number}}}]}}')
    with pytest.raises(ForeplanError):
        read_given_plan(str(named))
    named.write_text(f'{{"x": {number}}}')
    for schema in (AMOUNT, ANYTHING):
        with pytest.raises(ForeplanError):
            read_inputs(with_inputs(schema), str(named), ())
    with pytest.raises(BadInput):
        read_inputs(with_inputs(AMOUNT), None, [f"x={number}"])
    assert read_inputs(with_inputs(ANYTHING), None, [f"x={number}"]) == {"x": number}
    with pytest.raises(BadInput):
        read_answers([f"q=answer:{number}"], "ada", "")
    answer = AIMessage(f'{{"steps": [{{"id": "a", "value": {number}}}]}}')
    with pytest.raises(AnswerUnreadable):
        read_plan_answer(answer, PlanRequest("x", Registry()))
    patch = AIMessage(f'{{"add": [{{"id": "b", "value": {number}}}]}}')
    with pytest.raises(AnswerUnreadable):
        read_patch_answer(patch, ReplanRequest("x", with_inputs({}), Registry(), ()))


@pytest.mark.parametrize("word", [".nan", ".inf", "-.inf", ".NaN", "nan", "inf"])
def test_yaml_has_no_numbers_that_are_none(word: str, tmp_path: Path) -> None:
    """Threat 5: its words for them are text, which no bound of a policy takes for a number."""
    named = tmp_path / "given.yaml"
    named.write_text(f"x: {word}\n")
    assert read_inputs(with_inputs(ANYTHING), str(named), ()) == {"x": word}
    for rule in ("tool_timeout", "hook_timeout", "planner_timeout"):
        named.write_text(f"{rule}: {word}\n")
        with pytest.raises(ForeplanError):
            read_policies(str(named))
    for rule in ("cost", "seconds"):
        named.write_text(f"budget: {{{rule}: {word}}}\n")
        with pytest.raises(ForeplanError):
            read_policies(str(named))
    named.write_text(f"retry: {{base: {word}}}\n")
    with pytest.raises(ForeplanError):
        read_policies(str(named))


@pytest.mark.parametrize("number", [NAN, INFINITY, -INFINITY])
@pytest.mark.parametrize("schema", [AMOUNT, ANYTHING])
def test_numbers_that_are_none_do_not_come_from_python(number: float, schema: Any) -> None:
    """Threat 5: inputs, a built plan, a result and a person's answer are refused, whatever bounds there are or are not."""
    with pytest.raises(BadInput):
        Engine([]).run_blocking(with_inputs(schema), inputs={"x": number})
    plan = Plan.model_validate({"steps": [{"id": "a", "value": 1}]})
    with pytest.raises(CheckFailed):
        Engine([]).run_blocking(
            plan.model_copy(update={"steps": [plan.steps[0].model_copy(update={"value": number})]})
        )
    gives = Tool.declare(
        "give", input_schema={}, output_schema=schema, call=lambda args: number, effect="reads"
    )
    run = Engine([gives], policies=ONCE).run_blocking(
        Plan.model_validate({"steps": [{"id": "a", "tool": "give"}]})
    )
    assert [failure.code for _, failure in run.failures] == ["unserialisable_result"]
    asks = Engine([ask])
    question = {
        "id": "q",
        "tool": "ask",
        "args": {"question": "how much?", "schema": {"type": "object", "properties": {"x": schema}}},
    }
    waits = asks.run_blocking(Plan.model_validate({"steps": [question]}))
    [asked] = waits.waiting
    with pytest.raises(BadInput):
        asks.resume_blocking(waits.id, decisions={asked.id: Answer("answer", "ada", {"x": number})})


# ---- threat 6: keys that stand twice -----------------------------------------------------------------------------

READERS: dict[str, tuple[str, Callable[[str], object]]] = {
    "a plan": ('{"goal": "a", "goal": "b", "steps": []}', read_given_plan),
    "a call in a plan": (
        '{"steps": [{"id": "a", "tool": "t", "args": {"to": 1, "to": 2}}]}',
        read_given_plan,
    ),
    "inputs": ('{"x": 1, "x": 2}', lambda path: read_inputs(with_inputs({}), path, ())),
    "inputs, deep": ('{"x": {"to": 1, "to": 2}}', lambda path: read_inputs(with_inputs({}), path, ())),
    "policies": ('{"approve": "always", "approve": "never"}', read_policies),
    "a principal": (
        '{"id": "a", "permissions": [], "permissions": ["*"]}',
        lambda path: read_principal(path, ()),
    ),
    "an approval": ('{"by": "a", "by": "b"}', read_given_approval),
    "a schema of inputs": ('{"type": "object", "type": "array"}', read_schema),
}


@pytest.mark.parametrize("case", READERS)
@pytest.mark.parametrize("notation", ["json", "yaml"])
def test_a_key_that_stands_twice_is_refused_by_every_reader(case: str, notation: str, tmp_path: Path) -> None:
    """Threat 6: whichever of the two was meant, and in either notation."""
    text, read = READERS[case]
    path = tmp_path / f"given.{notation}"
    path.write_text(text)
    with pytest.raises(ForeplanError) as refused:
        read(str(path))
    told = [f.code for f in getattr(refused.value, "findings", ())]
    assert "duplicate_key" in told or "twice" in str(refused.value), (told, str(refused.value))


def test_a_key_that_stands_twice_is_refused_in_words_and_answers() -> None:
    """Threat 6: `--set`, `--decide`, a model's plan and patch, also where the key is written with an escape."""
    twice = '{"to": 1, "t\\u006f": 2}'
    with pytest.raises(BadInput):
        read_answers([f"q=answer:{twice}"], "ada", "")
    with pytest.raises(BadInput):
        read_inputs(with_inputs({"type": "object"}), None, [f"x={twice}"])
    step = f'{{"id": "a", "tool": "t", "args": {twice}}}'
    with pytest.raises(AnswerUnreadable, match="twice"):
        read_plan_answer(AIMessage(f'{{"steps": [{step}]}}'), PlanRequest("x", Registry()))
    with pytest.raises(AnswerUnreadable, match="twice"):
        read_patch_answer(
            AIMessage(f'{{"add": [{step}]}}'), ReplanRequest("x", with_inputs({}), Registry(), ())
        )


# ---- threat 7: bombs ---------------------------------------------------------------------------------------------

LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{b}: &{b} [*{a},*{a},*{a},*{a},*{a},*{a},*{a},*{a},*{a}]\n"
    for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)
BOMBS = {
    "aliases": LAUGHS,
    "merge keys": "a: &a {x: 1}\nb: {<<: *a}\n",
    "depth": '{"x": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "open depth": '{"x": ' * 100_000,
    "bytes": '{"x": "' + "x" * (9 << 20) + '"}',
    "nodes": '{"x": [' + "1," * 510_000 + "1]}",
    "digits": '{"x": ' + "9" * 100_000 + "}",
    "an exponent": '{"x": 1e999999999}',
}
DOORS: dict[str, Callable[[str], object]] = {
    "a plan": read_given_plan,
    "inputs": lambda path: read_inputs(with_inputs({}), path, ()),
    "policies": read_policies,
    "a principal": lambda path: read_principal(path, ()),
    "an approval": read_given_approval,
    "a schema": read_schema,
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_bombs_are_refused_at_every_door(bomb: str, tmp_path: Path) -> None:
    """Threat 7: a sentence, within two seconds and 200 MB, from every reader of documents."""
    path = tmp_path / ("given.json" if BOMBS[bomb].startswith("{") else "given.yaml")
    path.write_text(BOMBS[bomb])
    begun = time.process_time()
    for read in DOORS.values():
        with pytest.raises(ForeplanError):
            read(str(path))
    assert time.process_time() - begun < 2 * len(DOORS)
    tracemalloc.start()
    try:
        with pytest.raises(ForeplanError):
            read_given_plan(str(path))
        assert tracemalloc.get_traced_memory()[1] < 200e6
    finally:
        tracemalloc.stop()


def test_bombs_in_answers_of_people_are_refused() -> None:
    """Threat 7: on the command line by the text, in Python by depth, repetition and size."""
    for bomb in ("[" * 100_000, "[" * 5000 + "]" * 5000, "9" * 5000):
        with pytest.raises(BadInput):
            read_answers([f"q=answer:{bomb}"], "ada", "")
    deep: Any = []
    for _ in range(200):
        deep = [deep]
    doubled: Any = ["x"]
    for _ in range(60):
        doubled = [doubled, doubled]
    asks = Engine([ask], policies=Policies(limits=Limits(result_bytes=10_000)))
    question = {"question": "what?", "schema": {"type": "object", "properties": {"x": {}}}}
    waits = asks.run_blocking(Plan.model_validate({"steps": [{"id": "q", "tool": "ask", "args": question}]}))
    [asked] = waits.waiting
    for value in (deep, doubled, "x" * 20_000):
        with pytest.raises(BadInput):
            asks.resume_blocking(waits.id, decisions={asked.id: Answer("answer", "ada", {"x": value})})
    assert asks.resume_blocking(waits.id, decisions={asked.id: Answer("answer", "ada", {"x": 1})}).ok


def test_bombs_in_results_fail_their_call_alone() -> None:
    """Threat 7: depth, cycles, repetition and size; in a model's text no bomb is a plan."""
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    around: list[Any] = []
    around.append(around)
    doubled: Any = ["x"]
    for _ in range(60):
        doubled = [doubled, doubled]
    results = {"deep": deep, "around": around, "doubled": doubled, "large": "x" * (17 << 20)}
    tools = [
        Tool.declare(name, input_schema={}, call=lambda args, value=value: value, effect="reads")
        for name, value in results.items()
    ]
    plan = Plan.model_validate({"steps": [{"id": name, "tool": name} for name in results]})
    run = Engine(tools, policies=ONCE).run_blocking(plan)
    assert {failure.code for _, failure in run.failures} == {"unserialisable_result", "result_too_large"}
    assert len(run.failures) == 4
    for bomb in ('{"steps": ' + "[" * 100_000, '{"steps": [' + '{"id":"a"},' * 300_000 + "]}"):
        with pytest.raises(AnswerUnreadable):
            read_plan_answer(AIMessage(bomb), PlanRequest("x", Registry()))


# ---- threat 8: evil patterns -------------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", EVIL, ids=lambda p: p[:30])
def test_evil_patterns_are_refused_wherever_a_schema_comes_in(pattern: str) -> None:
    """Threat 8: input and output of a tool, keys, a plan's inputs, the schema of an answer: at once, never at the call."""
    begun = time.process_time()
    schemas: list[dict[str, Any]] = [
        {"pattern": pattern},
        {"patternProperties": {pattern: {}}},
        {"items": {"pattern": pattern}},
    ]
    for schema in schemas:
        inside = {"type": "object", "properties": {"x": schema}}
        with pytest.raises((SchemaRefused, ToolRefused)):
            Tool.declare("t", input_schema=inside)
        with pytest.raises((SchemaRefused, ToolRefused)):
            Tool.declare("t", input_schema={}, output_schema=inside)
        with pytest.raises(CheckFailed):
            Engine([]).run_blocking(
                Plan.model_validate({"inputs": inside, "steps": [{"id": "a", "value": 1}]})
            )
        question = {"id": "q", "tool": "ask", "args": {"question": "?", "schema": {"$literal": inside}}}
        with pytest.raises(CheckFailed):
            Engine([ask]).run_blocking(Plan.model_validate({"steps": [question]}))
    assert time.process_time() - begun < 5


@pytest.mark.parametrize("pattern", EVIL[:3])
def test_an_evil_pattern_that_comes_from_data_is_refused_at_admission(pattern: str) -> None:
    """Threat 8: a result that says what the next result is to be cannot bring one in."""
    gives = Tool.declare(
        "give", input_schema={}, call=lambda args: {"properties": {"x": {"pattern": pattern}}}, effect="reads"
    )
    called: list[Any] = []

    def extract(args: dict[str, Any]) -> None:
        called.append(args)

    takes = Tool.declare(
        "extract",
        input_schema={"type": "object", "properties": {"schema": {"type": "object"}}},
        call=extract,
        effect="reads",
        result_from="schema",
    )
    steps = [{"id": "a", "tool": "give"}, {"id": "b", "tool": "extract", "args": {"schema": {"$": "a"}}}]
    run = Engine([gives, takes], policies=ONCE).run_blocking(Plan.model_validate({"steps": steps}))
    assert [failure.code for _, failure in run.failures] == ["schema_refused"]
    assert called == []
