"""Whatever is written, what reads it ends in a value, a report or a refusal: on noise that is nearly right, and fuzzed."""

from __future__ import annotations

import importlib.util
import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.noise import document_holds, expression_holds, plan_holds, schema_holds

from foreplan.planner.plan import Plan

FUZZER = Path(__file__).parent / "fuzz" / "language.py"

words = st.sampled_from(
    ["pay", "x", "inputs", "run", "item", "index", "result", "nope", "rows", "id", "amount", "memo", "limit", "steps", "len", "sum"]
)  # fmt: skip
pieces = st.sampled_from(
    [".", "[0]", "[", "]", "(", ")", "{", "}", ", ", ": ", " + ", " == ", " is not None", " and ", " or ", " if ", " else ", " for r in ",
     "r", "r.id", "lambda r: ", "key=", "'a'", '"', "1", "2.5", "f'{", "}'", "not ", " in ", "**", "*", "/", "%", ".get('id')", ".items()",
     "None", "True", "sorted", "group", "{{", "}}", "$", "&&", "?", "|", "=>", "\\", "\n", "é", "\u202e"]
)  # fmt: skip
texts = st.lists(words | pieces, max_size=12).map("".join)
paths = st.sampled_from(
    [
        "pay.rows",
        "pay.rows[0].id",
        "x",
        "[r.id for r in pay.rows]",
        "len(pay.rows) > 1",
        "item",
        "inputs.limit",
    ]
)
expressions = st.builds(lambda text: {"$": text}, texts | paths)

scalars = (
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False) | texts
)
values = st.recursive(
    scalars | expressions | st.builds(lambda v: {"$literal": v}, scalars),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
ids = st.sampled_from(["a", "b", "c", "pay", "x", "Bad", "len", "inputs", "a" * 70, "", "é"])
tools = st.sampled_from(["read_ledger", "refund_payment", "send_email", "store_value", "read_ledgr", ""])
arguments = st.dictionaries(
    st.sampled_from(["path", "payment_id", "reason", "to", "body", "cc", "options", "key", "value", "nope"]), values, max_size=4
)  # fmt: skip


def _steps(inner: st.SearchStrategy[list[Any]]) -> st.SearchStrategy[list[Any]]:
    step = st.fixed_dictionaries(
        {"id": ids},
        optional={
            "tool": tools,
            "args": arguments,
            "value": values,
            "steps": inner,
            "output": values,
            "each": values,
            "as": ids,
            "when": values,
            "after": st.lists(ids, max_size=2),
            "on_failure": st.sampled_from(["stop", "skip"]),
            "until": expressions,
            "next": arguments,
            "every": st.integers(-1, 9),
            "max": st.integers(-1, 9),
            "undo": st.fixed_dictionaries({"tool": tools}, optional={"args": arguments}),
        },
    )
    return st.lists(step, max_size=4)


nothing: st.SearchStrategy[list[Any]] = st.just([])
steps = st.recursive(nothing, _steps, max_leaves=4)
kinds = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object", "objekt"])
references = st.sampled_from(["#", "#/$defs/a", "#/$defs/b", "#/$defs/none", "https://example.invalid/x"])
schemas = st.recursive(
    st.booleans() | st.fixed_dictionaries({}, optional={"type": kinds, "$ref": references, "enum": st.lists(scalars, max_size=3)}),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": kinds,
            "properties": st.dictionaries(words, inner, max_size=3),
            "required": st.lists(words, max_size=2),
            "additionalProperties": inner,
            "items": inner,
            "prefixItems": st.lists(inner, max_size=2),
            "anyOf": st.lists(inner, max_size=3),
            "oneOf": st.lists(inner, max_size=3),
            "allOf": st.lists(inner, max_size=3),
            "not": inner,
            "if": inner,
            "then": inner,
            "minItems": st.integers(-1, 3),
            "pattern": texts,
            "format": st.sampled_from(["date", "email", "uuid", "nope"]),
            "default": scalars,
            "$defs": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            "$ref": references,
        },
    ),
    max_leaves=8,
)  # fmt: skip
documents = st.fixed_dictionaries(
    {"steps": steps}, optional={"goal": texts, "inputs": schemas, "output": values, "foreplan": st.just(1)}
)
plain = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)


def plan_check(document: dict[str, Any]) -> None:
    """As a plan built in Python where it is one, and as a text in any case."""
    if isinstance(document.get("inputs", {}), dict):
        plan_holds(Plan.model_validate(document))
    document_holds(json.dumps(document))


@given(documents)
@settings(max_examples=150, deadline=None)
def test_a_plan_of_noise_is_judged(document: dict[str, Any]) -> None:
    """Known codes, pointers that lead somewhere, the same report twice; and it survives being written."""
    plan_check(document)


@given(schemas, plain)
@settings(max_examples=300, deadline=None)
def test_a_schema_of_noise_is_refused_or_holds_what_it_accepts(schema: Any, value: Any) -> None:
    """Whatever words it has, and wherever its references lead."""
    schema_holds(schema, value)


@given(texts)
@settings(max_examples=600, deadline=None)
def test_an_expression_of_noise_is_refused_or_of_its_type(text: str) -> None:
    """With a known code and a place inside the text."""
    expression_holds(text)


@pytest.mark.proof
@given(documents)
@settings(max_examples=5_000, deadline=None)
def test_very_many_plans_of_noise_are_judged(document: dict[str, Any]) -> None:
    """The same, for minutes."""
    plan_check(document)


@pytest.mark.proof
@given(schemas, plain)
@settings(max_examples=20_000, deadline=None)
def test_very_many_schemas_of_noise_hold_what_they_accept(schema: Any, value: Any) -> None:
    """The same, for minutes."""
    schema_holds(schema, value)


@pytest.mark.proof
@given(texts | st.text(max_size=40))
@settings(max_examples=30_000, deadline=None)
def test_very_many_expressions_of_noise_are_of_their_type(text: str) -> None:
    """The same, for minutes."""
    expression_holds(text)


@pytest.mark.proof
@pytest.mark.parametrize("what", ["expression", "schema", "plan"])
def test_a_fuzzer_that_sees_the_branches_finds_nothing(what: str, tmp_path: Path) -> None:
    """A minute each, from nothing."""
    if importlib.util.find_spec("atheris") is None:
        pytest.skip("atheris is not installed here (pip install --group proof)")
    peak = (
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    )  # a process that is begun here counts from there on
    command = [
        sys.executable,
        str(FUZZER),
        what,
        "-max_total_time=60",
        f"-rss_limit_mb={peak + 2000}",
        "-timeout=20",
        f"-artifact_prefix={tmp_path}/",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
