"""Plan documents: what is read, what is refused, and what the refusal says."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foreplan.planner.documents import (
    MAX_STEPS,
    Caps,
    load_plan,
    plan_from,
    read_document,
    read_json,
    read_patch,
    read_plan,
    read_source,
    write_yaml,
)
from foreplan.planner.findings import Finding, PlanUnreadable
from foreplan.planner.plan import Patch, Plan, Step, Undo
from foreplan.policies.errors import BadInput


def refusal(text: str | bytes, **options: object) -> Finding:
    with pytest.raises(PlanUnreadable) as caught:
        read_plan(text, **options)  # type: ignore[arg-type]
    return caught.value.findings[0]


def place(finding: Finding) -> tuple[str, int | None, int | None]:
    return finding.code, finding.line, finding.column


def test_yaml_and_json_read_to_the_same_plan() -> None:
    """A plan is one thing in two notations."""
    document = {
        "foreplan": 1,
        "goal": "g",
        "steps": [{"id": "a", "tool": "t", "args": {"x": {"$": "inputs.y"}}}],
    }
    text = "foreplan: 1\ngoal: g\nsteps:\n  - id: a\n    tool: t\n    args: {x: {$: inputs.y}}\n"
    assert read_plan(text) == read_plan(json.dumps(document)) == Plan.model_validate(document)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("no", "no"),
        ("on", "on"),
        ("yes", "yes"),
        ("10:00", "10:00"),
        ("2024-01-01", "2024-01-01"),
        ("~", "~"),
        ("Null", "Null"),
        ("True", "True"),
        ("0x1F", "0x1F"),
        ("0o7", "0o7"),
        ("007", "007"),
        ("1_000", "1_000"),
        ("+1", "+1"),
        (".5", ".5"),
        (".inf", ".inf"),
        ("=", "="),
        ("null", None),
        ("", None),
        ("true", True),
        ("false", False),
        ("-0", 0),
        ("12", 12),
        ("9007199254740993", 9007199254740993),
        ("1.0", 1.0),
        ("1e3", 1000.0),
        ("1E-2", 0.01),
        ("'1'", "1"),
        ('"null"', "null"),
    ],
)
def test_plain_yaml_scalars_follow_the_rules_of_json(written: str, meant: object) -> None:
    """Only `null`, `true`, `false`, numbers of JSON and nothing at all are more than text."""
    read = read_document(f"key: {written}\n")["key"]
    assert (read, type(read)) == (meant, type(meant))


def test_keys_are_always_text() -> None:
    """`no: 1` and `1: x` have the keys 'no' and '1'."""
    assert read_document("no: 1\n1: x\nnull: y\n") == {"no": 1, "1": "x", "null": "y"}


def test_block_texts_and_a_byte_order_mark_are_read() -> None:
    """What editors and people write is understood."""
    assert read_document(b"\xef\xbb\xbfbody: |\n  one\n  two\n") == {"body": "one\ntwo\n"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("steps:\n  - id: a\n    id: b\n", ("duplicate_key", 3, 5)),
        ('{"steps": [],\n "to": 1, "to": 2}', ("duplicate_key", 2, 11)),
        ("a: &x 1\n", ("yaml_feature", 1, 4)),
        ("a: *x\n", ("yaml_feature", 1, 4)),
        ("a: !!int '3'\n", ("yaml_feature", 1, 4)),
        ("a:\n  <<: {b: 1}\n", ("yaml_feature", 2, 3)),
        ("a: 1\n---\nb: 1\n", ("yaml_feature", 2, 1)),
        ("a: 1e999\n", ("bad_number", 1, 4)),
        ('{"a": NaN}', ("bad_number", 1, 7)),
        ('{"a": [1, -Infinity]}', ("bad_number", 1, 11)),
        ('{"a": 1e999}', ("bad_number", 1, 7)),
        ("a: " + "1" * 5000, ("bad_number", 1, 4)),
        ('{"a": ' + "1" * 5000 + "}", ("bad_number", 1, 7)),
        ('{"a": "\\ud800"}', ("bad_text", 1, 7)),
        ('a: "\x1b[31m"', ("bad_text", 1, 5)),
        ("a: \ud800", ("bad_text", 1, 4)),
        ("? [a]\n: 1\n", ("syntax", 1, 3)),
        ("a: b: c\n", ("syntax", 1, 5)),
        ("steps:\n\t- id: a\n", ("syntax", 2, 1)),
        ("steps: [\n", ("syntax", 2, 1)),
        ('{"a": [1, }', ("syntax", 1, 11)),
        ("", ("syntax", None, None)),
        (b"\xff\xfe", ("bad_text", None, None)),
    ],
)
def test_what_cannot_be_read_is_refused_at_its_place(
    text: str | bytes, expected: tuple[str, int, int]
) -> None:
    """Each refusal has a code, a line and a column."""
    assert place(refusal(text)) == expected


def test_a_refusal_shows_the_line_with_a_caret() -> None:
    """The excerpt points at the place, safely."""
    finding = refusal("steps:\n  - id: a\n    agrs: {x: 1}\n    tool: t\n")
    assert finding.excerpt == "   3 |     agrs: {x: 1}\n           ^"
    assert "did you mean 'args'?" in finding.message


@pytest.mark.parametrize(
    ("document", "code", "pointer", "says"),
    [
        ([], "wrong_property", "", "a plan must be an object, not a list"),
        ({}, "missing_property", "", "a plan needs 'steps'"),
        ({"steps": {}}, "wrong_property", "/steps", "'steps' must be a list, not an object"),
        ({"steps": [3]}, "wrong_property", "/steps/0", "'steps/0' must be an object, not a number"),
        ({"steps": [{"tool": "t"}]}, "missing_property", "/steps/0", "'steps/0' needs 'id'"),
        ({"steps": [{"id": None}]}, "wrong_property", "/steps/0/id", "'steps/0/id' must be text, not null"),
        ({"steps": [], "foreplan": 2}, "wrong_property", "/foreplan", "'foreplan' must be 1, not '2'"),
        ({"steps": [], "gaol": ""}, "unknown_property", "/gaol", "did you mean 'goal'?"),
        (
            {"steps": [{"id": "a", "depends_on": []}]},
            "unknown_property",
            "/steps/0/depends_on",
            "mean 'after'?",
        ),
        ({"steps": [{"id": "a", "for_each": 1}]}, "unknown_property", "/steps/0/for_each", "mean 'each'?"),
        ({"steps": [{"id": "a", "as_": "x"}]}, "unknown_property", "/steps/0/as_", "mean 'as'?"),
        ({"steps": [{"id": "a", "qqq": 1}]}, "unknown_property", "/steps/0/qqq", "it knows id, tool"),
        (
            {"steps": [{"id": "a", "on_failure": "go"}]},
            "wrong_property",
            "/steps/0/on_failure",
            "must be 'stop' or 'skip', not 'go'",
        ),
    ],
)
def test_a_document_that_is_no_plan_is_told_in_our_words(
    document: object, code: str, pointer: str, says: str
) -> None:
    """pydantic's errors become findings: code, pointer, a sentence with the nearest name."""
    finding = refusal(json.dumps(document))
    assert (finding.code, finding.pointer) == (code, pointer)
    assert says in finding.message


def test_all_faults_of_a_document_are_found_at_once() -> None:
    """One pass names them all, in the order of the text."""
    with pytest.raises(PlanUnreadable) as caught:
        read_plan("steps:\n  - tol: x\n    after: y\n  - id: b\n    args: 1\n")
    assert [f.line for f in caught.value.findings] == [2, 2, 3, 5]


def test_a_step_too_many_is_refused() -> None:
    """The cap on steps is told before anything is made of them."""
    with pytest.raises(PlanUnreadable, match="at most 10,000"):
        plan_from({"steps": [{"id": "a"}] * (MAX_STEPS + 1)})


def test_a_patch_is_read_like_a_plan() -> None:
    """Patches have the same notation and the same refusals."""
    assert read_patch("drop: [a]\nadd:\n  - {id: b, tool: t, replaces: a}\n").add[0].replaces == "a"
    with pytest.raises(PlanUnreadable, match="a patch has no property 'remove'"):
        read_patch("remove: [a]\n")


def test_a_missing_file_and_a_folder_are_told_in_a_sentence(tmp_path: Path) -> None:
    """A caller's slip is `BadInput`, never an OSError."""
    (tmp_path / "plan.yaml").write_text("steps: []")
    for name in ("plan.yml", "paln.yaml"):
        with pytest.raises(BadInput, match=r"there is no file .*; did you mean 'plan.yaml'"):
            load_plan(tmp_path / name)
    with pytest.raises(BadInput, match=r"there is no file .*: the directory is not there either"):
        load_plan(tmp_path / "nowhere" / "plan.yaml")
    with pytest.raises(BadInput, match="there is no file"):
        load_plan(tmp_path / "none.yaml")
    with pytest.raises(BadInput, match="cannot be read"):
        load_plan(tmp_path)


def test_a_file_without_end_is_refused() -> None:
    """Reading stops at the cap."""
    if not Path("/dev/zero").exists():
        pytest.skip("no /dev/zero on this system")
    with pytest.raises(BadInput, match="is larger than"):
        load_plan("/dev/zero")


def test_findings_of_a_check_are_located_in_the_source() -> None:
    """Pointers lead back to lines and columns, in YAML and in JSON."""
    yaml = read_source("steps:\n  - id: a\n    args:\n      x: [1, {y: 2}]\n")
    data = read_source('{"steps": [{"id": "a",\n "args": {"x": [1, {"y": 2}]}}]}')
    findings = [
        Finding("wrong_argument", "error", "/steps/0/args/x/1/y", ""),
        Finding("unknown_argument", "error", "/steps/0/args/x", ""),
        Finding("missing_argument", "error", "/nowhere", ""),
    ]
    assert [(f.line, f.column) for f in yaml.located(findings)] == [(4, 18), (4, 7), (None, None)]
    assert [(f.line, f.column) for f in data.located(findings)] == [(2, 26), (2, 11), (None, None)]


BOMBS = {
    "nested brackets": "[" * 10_000 + "]" * 10_000,
    "nested objects": '{"a":' * 10_000,
    "nested yaml brackets": "a: " + "[" * 10_000,
    "nested yaml blocks": "- " * 10_000 + "x",
    "nested question marks": "? " * 10_000,
    "a text of 1 MB": 'goal: "' + "x" * 1_000_000 + '"\nsteps: 3',
    "a key of 1 MB": '{"' + "x" * 1_000_000 + '": 1}',
    "a megabyte of quotes": '{"a": "' + '\\"' * 500_000,
    "single quotes": "a: '" + "''" * 500_000,
    "colons": "a: " + ":" * 1_000_000,
    "comments": "#\n" * 1_000_000 + "a: b",
    "commas": "[" + "1," * 2_000_000,
    "many values": "steps: [" + "a," * 900_000 + "b]",
    "many keys": "\n".join(f"k{i}: 1" for i in range(50_000)),
    "billion laughs": "a: &a [x,x,x,x]\nb: &b [*a,*a,*a,*a]\nc: [*b,*b,*b,*b]\n",
    "escape sequences": 'goal: "\x1b]0;owned\x07"\nsteps: []',
    "an unknown property in escapes": '{"\\u001b[2J\\u202e": 1}',
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_hostile_document_costs_what_its_text_costs(name: str) -> None:
    """Findings within a second and 200 MB, and nothing in them that moves a cursor."""
    tracemalloc.start()
    start = time.process_time()
    try:
        with pytest.raises(PlanUnreadable) as caught:
            read_plan(BOMBS[name])
        spent = time.process_time() - start
        assert tracemalloc.get_traced_memory()[1] < 200e6
    finally:
        tracemalloc.stop()
    assert spent < 10  # a second without tracemalloc; the bound catches what is quadratic
    assert str(caught.value).isprintable() or "\x1b" not in str(caught.value)


def test_caps_are_told_apart() -> None:
    """Bytes, depth and nodes each have their code."""
    for text, caps, code in (
        ("[[[]]]", Caps(depth=2), "too_deep"),
        ("[1,2,3]", Caps(nodes=2), "too_large"),
        ("[1,2,3]", Caps(bytes=3), "too_large"),
    ):
        with pytest.raises(PlanUnreadable) as caught:
            read_json(text, caps=caps)
        assert caught.value.findings[0].code == code


plain_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
awkward = st.sampled_from(
    [
        "no",
        "1e3",
        "1.0",
        "-1",
        "null",
        "true",
        "",
        " ",
        "~",
        "<<",
        "=",
        "a: b",
        "- a",
        "#",
        "$",
        "|\n",
        "x\ny\n",
        "\x85",
        "{a}",
        "2024-01-01",
        "0x1",
        "&a",
        "*a",
        "!x",
        "%",
        "@",
        "`",
    ]
)
texts = plain_text | awkward
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


@given(values)
@settings(max_examples=300, deadline=None)
def test_any_json_survives_yaml(value: object) -> None:
    """What is written as YAML is read back equal, types and all."""
    plan = Plan(goal="g", steps=[Step(id="a", value={"$literal": value})])
    assert json.dumps(read_plan(write_yaml(plan)).to_json()) == json.dumps(plan.to_json())


@given(values)
@settings(max_examples=200, deadline=None)
def test_json_is_read_as_the_standard_library_reads_it(value: object) -> None:
    """Strictness refuses; it never changes a value."""
    assert read_json(json.dumps(value)) == value
    assert read_json(json.dumps(value, ensure_ascii=False)) == value


@pytest.mark.parametrize(
    ("make", "pointer", "said"),
    [
        (lambda: Plan.model_validate({"steps": [{"id": "a", "tol": "x"}]}), "/steps/0/tol", "mean 'tool'?"),
        (lambda: Plan.model_validate_json('{"goal": 3, "steps": []}'), "/goal", "must be text, not a number"),
        (
            lambda: Plan(step=[]),  # type: ignore[call-arg]
            "/step",
            "a plan has no property 'step'; did you mean 'steps'?",
        ),
        (
            lambda: Step(id="a", untill=1),  # type: ignore[call-arg]
            "/untill",
            "a step has no property 'untill'; did you mean 'until'?",
        ),
        (lambda: Undo.model_validate({"tool": "x", "arg": {}}), "/arg", "an undo has no property 'arg'"),
        (lambda: Patch.model_validate({"add": [{"id": 1}]}), "/add/0/id", "must be text, not a number"),
        (lambda: Plan.model_validate_json("{"), "", "a plan is no JSON"),
    ],
)
def test_a_record_made_in_code_is_refused_as_a_file_is(
    make: Callable[[], object], pointer: str, said: str
) -> None:
    """`Plan.model_validate`, `Step(...)`: our sentence with a pointer, and a `ValueError` as pydantic's error is."""
    with pytest.raises(ValueError, match="cannot be read: ") as caught:
        make()
    assert isinstance(caught.value, PlanUnreadable)
    assert (caught.value.findings[0].pointer, said in caught.value.findings[0].message) == (pointer, True)


def test_where_aliases_are_allowed_each_counts_with_all_that_is_in_it() -> None:
    """For OpenAPI documents; a bomb is refused by what it would be, and so is what holds itself."""
    caps = Caps(nodes=1000, depth=8, aliases=True)
    assert read_source("a: &x {b: [1, 2]}\nc: [*x, *x]\nd: &s hi\ne: *s", caps=caps).document == {
        "a": {"b": [1, 2]},
        "c": [{"b": [1, 2]}, {"b": [1, 2]}],
        "d": "hi",
        "e": "hi",
    }
    bomb = "\n".join(
        ["b0: &b0 [1, 1]", *(f"b{n}: &b{n} [*b{n - 1}, *b{n - 1}, *b{n - 1}]" for n in range(1, 7))]
    )
    deep = "\n".join(["b0: &b0 [1]", *(f"b{n}: &b{n} [*b{n - 1}]" for n in range(1, 9))])
    for text, said in [
        (bomb, "more than 1,000"),
        (deep, "deeper than 8"),
        ("a: &x [*x]", "alias"),
        ("a: *y", "alias"),
    ]:
        with pytest.raises(PlanUnreadable, match=said):
            read_source(text, caps=caps)
