"""What writers of other languages write: each slip is refused, and the expression that is suggested for it checks."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foreplan.planner.checking import check
from foreplan.planner.findings import Finding
from foreplan.planner.plan import Plan, Step
from foreplan.policies.expressions import ExpressionError, parse
from foreplan.policies.expressions.dialects import rewritten
from foreplan.registry.registry import Registry
from foreplan.registry.tools import Tool

ROW = {"id": {"type": "string"}, "n": {"type": "number"}, "ok": {"type": "boolean"}, "tags": {"type": "array", "items": {"type": "string"}}}  # fmt: skip
GIVES = {
    "type": "object",
    "properties": {
        "x": {"type": "string"},
        "y": {"type": ["string", "null"]},
        "n": {"type": "number"},
        "ok": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "rows": {"type": "array", "items": {"type": "object", "properties": ROW, "required": [*ROW]}},
        "o": {"type": "object", "properties": {"x": {"type": "string"}}},
    },
    "required": ["x", "n", "ok", "tags", "rows", "o"],
}

SLIPS = {
    # templates of other engines
    "{{a.x}}": "a.x",
    "{{ a.x }}": "a.x",
    "{{{a.x}}}": "a.x",
    "${a.x}": "a.x",
    "$a.x": "a.x",
    "<%= a.x %>": "a.x",
    "=a.x": "a.x",
    "#a.x": "a.x",
    "@a.x": "a.x",
    "@{a.x}": "a.x",
    "{a.x}": "a.x",
    "`hello ${a.x}`": "f'hello {a.x}'",
    "Hello {{a.x}}!": "f'Hello {a.x}!'",
    "Dear ${a.x}, it's 3": 'f"Dear {a.x}, it\'s 3"',
    "{{a.x}}-{{a.n}}": "f'{a.x}-{a.n}'",
    "{{a.n}} > 1": "a.n > 1",
    "{{a.ok}} and {{a.n}} > 1": "a.ok and a.n > 1",
    # paths of other engines
    "steps.a.output.x": "a.x",
    "steps.a.outputs.x": "a.x",
    "steps.a.result.x": "a.x",
    "steps.a.x": "a.x",
    "steps.a": "a",
    'steps["a"].output.x': "a.x",
    "steps['a']['output']['x']": "a['x']",
    "{{ steps.a.output.x }}": "a.x",
    "${steps.a.output.x}": "a.x",
    "$.steps.a.output.x": "a.x",
    "a.output.x": "a.x",
    "a.output": "a",
    "a.result.rows[0].id": "a.rows[0].id",
    "$.a.x": "a.x",
    "$.a.rows[*].id": "[x.id for x in a.rows]",
    "a.rows[*].id": "[x.id for x in a.rows]",
    "a->x": "a.x",
    # jq
    ".a.x": "a.x",
    ".a.rows[].id": "[x.id for x in a.rows]",
    "[.a.rows[] | .id]": "[x.id for x in a.rows]",
    ".a.rows | length": "len(a.rows)",
    ".a.rows | map(.id)": "[x.id for x in a.rows]",
    ".a.rows | map(select(.n > 1))": "[x for x in a.rows if x.n > 1]",
    ".a.rows[] | select(.n > 1)": "[x for x in a.rows if x.n > 1]",
    # JavaScript
    "a.ok && a.n > 1": "a.ok and a.n > 1",
    'a.y || ""': 'a.y or ""',
    "!a.ok": "not a.ok",
    "a.n === 1": "a.n == 1",
    "a.n !== 1": "a.n != 1",
    "a.n <> 1": "a.n != 1",
    "a.n = 1": "a.n == 1",
    'a.ok ? "y" : "n"': '"y" if a.ok else "n"',
    "a.ok ? a.x : null": "a.x if a.ok else None",
    "a.y == null": "a.y is None",
    "a.ok == true": "a.ok == True",
    "false": "False",
    "a.ok AND a.n > 1": "a.ok and a.n > 1",
    "a?.x": "a.get('x')",
    'a.y ?? "none"': 'a.y if a.y is not None else "none"',
    'a.rows[0]?.id ?? ""': "a.rows[0].get('id', \"\")",
    "a.rows?.[0]": "a.rows[0]",
    "a.rows.length": "len(a.rows)",
    "a.x.length": "len(a.x)",
    "a.rows.length()": "len(a.rows)",
    "a.rows.first": "a.rows[0]",
    "a.rows.last": "a.rows[-1]",
    "a.rows.map(r => r.id)": "[r.id for r in a.rows]",
    "a.rows.map((r, i) => r.n * i)": "[r.n * i for i, r in enumerate(a.rows)]",
    "a.rows.filter(r => r.n > 1)": "[r for r in a.rows if r.n > 1]",
    "a.rows.filter(r => r.n > 1).map(r => r.id)": "[r.id for r in a.rows if r.n > 1]",
    "a.rows.filter(r => r.n > 1 && r.ok === true).length": "len([r for r in a.rows if r.n > 1 and r.ok == True])",
    "a.rows.find(r => r.n > 1)": "first([r for r in a.rows if r.n > 1], None)",
    "a.rows.some(r => r.n > 1)": "any(r.n > 1 for r in a.rows)",
    "a.rows.every(r => r.n > 1)": "all(r.n > 1 for r in a.rows)",
    "a.rows.reduce((s, r) => s + r.n, 0)": "sum(r.n for r in a.rows)",
    "a.rows.flatMap(r => r.tags)": "flat([r.tags for r in a.rows])",
    'a.tags.includes("x")': '"x" in a.tags',
    'a.tags.join(", ")': '", ".join(a.tags)',
    "a.rows.slice(0, 2)": "a.rows[0:2]",
    "a.rows.at(-1)": "a.rows[-1]",
    "a.x.toUpperCase()": "a.x.upper()",
    "a.x.trim()": "a.x.strip()",
    "a.n.toString()": "str(a.n)",
    "a.n.toFixed(2)": "f'{a.n:.2f}'",
    "a.tags.push('x')": "a.tags + ['x']",
    "[...a.tags, 'x']": "a.tags + ['x']",
    "{...a, z: 1}": "{**a, 'z': 1}",
    "Math.max(a.n, 2)": "max(a.n, 2)",
    "Object.keys(a)": "a.keys()",
    "Number(a.x)": "number(a.x)",
    "String(a.n)": "str(a.n)",
    "return a.x;": "a.x",
    # Python that is not in the language
    "list(a.rows)": "a.rows",
    "list(map(lambda r: r.id, a.rows))": "[r.id for r in a.rows]",
    "list(filter(lambda r: r.n > 1, a.rows))": "[r for r in a.rows if r.n > 1]",
    "set(a.tags)": "unique(a.tags)",
    "float(a.x)": "number(a.x)",
    "a.rows.sort()": "sorted(a.rows)",
    # Jinja
    "a.rows|length": "len(a.rows)",
    "a.rows | length > 0": "len(a.rows) > 0",
    "a.x | upper": "a.x.upper()",
    "{{ a.tags | join(', ') }}": "', '.join(a.tags)",
    'a.rows | map(attribute="id") | list': '[x["id"] for x in a.rows]',
    'a.rows | selectattr("ok") | list': '[x for x in a.rows if x["ok"]]',
    'a.rows | sum(attribute="n")': 'sum(x["n"] for x in a.rows)',
    'a.rows | sort(attribute="n")': 'sorted(a.rows, key=lambda x: x["n"])',
    "a.y | default('none')": "a.get('y', 'none')",
    "a.rows | first": "a.rows[0]",
    "a.y is none": "a.y is None",
    "a.y is defined": "a.y is not None",
    "a.y not null": "a.y is not None",
    "a.tags is empty": "a.tags == []",
}
"""A slip, and what is suggested in its place."""


def report(text: str) -> tuple[Finding, ...]:
    async def never(args: dict[str, Any]) -> Any:
        raise AssertionError("a check calls no tool")

    tool = Tool.declare(
        "make", "Make.", input_schema={"type": "object"}, output_schema=GIVES, call=never, effect="reads"
    )
    plan = Plan(steps=[Step(id="a", tool="make"), Step(id="b", value={"$": text})])
    return check(plan, Registry(tool)).errors


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_refused_and_its_suggestion_checks(slip: str) -> None:
    """One finding; the whole expression that is suggested can be pasted in its place."""
    (found,) = report(slip)
    assert found.code in ("bad_expression", "wrong_type", "unknown_field")
    assert found.pointer == "/steps/1/value/$"
    assert found.suggestion == SLIPS[slip]
    assert report(found.suggestion) == ()


@pytest.mark.parametrize("text", ["steps.steps", "steps.class.x", "steps"])
def test_nothing_is_suggested_that_is_no_expression(text: str) -> None:
    """A hint, but no correction."""
    with pytest.raises(ExpressionError) as refused:
        parse(text)
    assert refused.value.correction == ""


def test_what_is_right_is_not_rewritten() -> None:
    """The suggestions themselves hold nothing of other languages."""
    assert [text for text in SLIPS.values() if rewritten(text) != text] == []


parts = st.sampled_from(
    ["a", ".x", ".map(", "r => ", "(", ")", "[", "]", "{{", "}}", "${", "}", " | ", "length", "'", '"', "`", "...", "?.", "??", " = ", ".filter(", "select(", "[]", "[*]", ".", ",", " ", "lambda r: ", "steps['a']", "is empty", "\\", "q__0__", "\n", "$", "?", ":"]
)  # fmt: skip


@given(st.lists(parts, max_size=25).map("".join) | st.text(max_size=30))
@settings(max_examples=1500, deadline=None)
def test_noise_is_no_more_than_refused(text: str) -> None:
    """Rewriting never fails; what it suggests is an expression."""
    rewritten(text)
    try:
        parse(text)
    except ExpressionError as error:
        if error.correction:
            parse(error.correction)


@pytest.mark.parametrize(
    "piece", ["(", "a.map(x => ", "a | length", "{{", "[...", ".x?.y", "a ?? ", "'", "q__0__", "${a}", "a[]"]
)
def test_long_noise_takes_no_time(piece: str) -> None:
    """Milliseconds, for texts of any length and nesting."""
    start = time.process_time()
    for length in (100, 2_000 // len(piece), 20_000):
        with pytest.raises(ExpressionError):
            parse(piece * length + " ;;")
    assert time.process_time() - start < 2
