"""What a check adds that is no fault: texts that look like references, tools that do not say what they give, corrected lines."""

from __future__ import annotations

import pytest
from support.shop import CLERK, ledger, shop

from foreplan.planner.checking import check
from foreplan.planner.documents import plan_from, read_plan, read_source
from foreplan.planner.findings import Finding, Report
from foreplan.policies.expressions import parse
from foreplan.registry.registry import Registry

ROWS = "{id: pay, tool: read_ledger, args: {path: x}}"


def findings(text: str, registry: Registry | None = None) -> tuple[Finding, ...]:
    """The findings on these steps, located in their text."""
    source = read_source(f"foreplan: 1\n{text}\n")
    report: Report = check(plan_from(source), registry or shop(), principal=CLERK)
    return source.located(report.findings)


def of_code(found: tuple[Finding, ...], code: str) -> list[Finding]:
    return [f for f in found if f.code == code]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("{{pay.rows[0].id}}", "pay.rows[0].id"),
        ("{{ pay.rows | length }}", "len(pay.rows)"),
        ("${pay.rows[0].id}", "pay.rows[0].id"),
        ("$pay.rows[0].id", "pay.rows[0].id"),
        ("$.pay.rows[0].id", "pay.rows[0].id"),
        ("steps.pay.output.rows", "pay.rows"),
        ("pay.rows[0].id", "pay.rows[0].id"),
        ("inputs.path", "inputs.path"),
        ("Dear {{pay.rows[0].payer}}, hello", "f'Dear {pay.rows[0].payer}, hello'"),
        ('{"$": "pay.rows[0].id"}', "pay.rows[0].id"),
    ],
)
def test_a_text_that_looks_like_a_reference_is_told(text: str, meant: str) -> None:
    """As a warning, with the structural form; and the plan still checks."""
    quoted = "'" + text.replace("'", "''") + "'"
    steps = f"inputs: {{properties: {{path: {{type: string}}}}}}\nsteps: [{ROWS}, {{id: a, tool: read_ledger, args: {{path: {quoted}}}}}]"
    (found,) = of_code(findings(steps), "looks_like_reference")
    assert (found.severity, found.pointer) == ("warning", "/steps/1/args/path")
    assert read_plan(f"steps: [{{id: a, value: {found.suggestion}}}]").steps[0].value == {"$": meant}
    assert found.suggestion in found.corrected


@pytest.mark.parametrize(
    "text",
    ["{{name}}", "${HOME}/x", "$5.00", "payment.csv", "see https://x.example/{{id}}", "b.a", "pay.csv", "pay", "pay the rows. Now", "e.g. pay"],
)  # fmt: skip
def test_a_text_of_its_own_is_left_alone(text: str) -> None:
    """Templates of letters, prices, file names: nothing in them is a name of the plan's."""
    steps = f"steps: [{ROWS}, {{id: a, tool: read_ledger, args: {{path: '{text}'}}}}]"
    assert of_code(findings(steps), "looks_like_reference") == []


def test_a_file_called_like_its_step_is_a_file() -> None:
    """No step waits for itself, so a path through its own id is not what was meant."""
    steps = "steps: [{id: pay, tool: read_ledger, args: {path: pay.csv}}]"
    assert of_code(findings(steps), "looks_like_reference") == []


def test_a_hole_in_a_text_of_an_expression_is_told() -> None:
    """The whole expression with an f-string is suggested."""
    (found,) = of_code(
        findings(f"steps: [{ROWS}, {{id: a, value: {{$: '\"paid: {{{{pay.rows[0].id}}}}\".upper()'}}}}]"),
        "looks_like_reference",
    )
    assert found.suggestion == "f'paid: {pay.rows[0].id}'.upper()"
    assert parse(found.suggestion)


def test_what_is_quoted_on_purpose_is_left_alone() -> None:
    """`$literal` says that it is meant."""
    assert not of_code(
        findings(f"steps: [{ROWS}, {{id: a, value: {{$literal: '{{{{pay.rows}}}}'}}}}]"),
        "looks_like_reference",
    )


def test_tools_that_do_not_say_what_they_give_are_told_once_each() -> None:
    """As information at the first call, with the number of expressions; nothing where it is not read."""
    silent = Registry(ledger(output_schema=None))
    steps = f"steps: [{ROWS}, {{id: b, tool: read_ledger, args: {{path: {{$: pay.x}}}}}}, {{id: c, value: {{$: b.x}}}}, {{id: d, value: {{$: 'len(b.y)'}}}}]"
    (found,) = of_code(findings(steps, silent), "unknown_type")
    assert (found.severity, found.pointer) == ("info", "/steps/0/tool")
    assert "2 expressions that read it are not checked, the first at /steps/1/args/path/$" in found.message
    assert not of_code(findings(f"steps: [{ROWS}]", silent), "unknown_type")
    assert not of_code(findings(f"steps: [{ROWS}, {{id: c, value: {{$: pay.rows}}}}]"), "unknown_type")


@pytest.mark.parametrize(
    ("line", "corrected"),
    [
        ('    value: {$: "[r.amont for r in pay.rows]"}', '    value: {$: "[r.amount for r in pay.rows]"}'),
        (
            "    value: {$: '[r.amont for r in pay.rows]'}  # all",
            '    value: {$: "[r.amount for r in pay.rows]"}  # all',
        ),
        ("    value: {$: pay.rowz}", "    value: {$: pay.rows}"),
        ("    value: {$: steps.pay.output.rows}", "    value: {$: pay.rows}"),
        ("    value: [1, {$: pay.rows.length}]", '    value: [1, {$: "len(pay.rows)"}]'),
        ("    tool: read_ledgr", "    tool: read_ledger"),
        ("    after: [pya]\n    value: 1", "    after: [pay]"),
        ("    tool: read_ledger\n    args: {path: x, pathh: y}", ""),
        ("    value: {$: \"pay['rowz']\"}", ""),
        ("    value:\n      $: |\n        pay.rowz", ""),
    ],
)
def test_a_correction_is_a_whole_line_of_the_source(line: str, corrected: str) -> None:
    """Where the suggestion fits into it; quotes and comments stay sound."""
    found = findings(f"steps:\n  - {ROWS}\n  - id: a\n{line}")
    fixed = [f for f in found if f.severity == "error" or f.code == "unknown_argument"]
    assert fixed[0].corrected == corrected
    if corrected:
        again = findings(
            f"steps:\n  - {ROWS}\n  - id: a\n" + "\n".join([corrected, *line.split(chr(10))[1:]])
        )
        assert {f.code for f in again if f.severity == "error"} <= {"missing_argument"}


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n", "\x85", "\u2028"])
def test_lines_end_as_yaml_says(end: str) -> None:
    """A place is on the line that YAML counts, whatever ends it; found by the fuzzer."""
    source = read_source(
        f"steps:{end}- {{id: a, value: {{$: inputz}}}}{end}- {{id: b, tool: read_ledgr}}{end}"
    )
    found = source.located(check(plan_from(source), shop(), principal=CLERK).findings)
    assert [(f.line, f.corrected) for f in found] == [
        (2, "- {id: a, value: {$: inputs}}"),
        (3, "- {id: b, tool: read_ledger}"),
    ]


def test_a_correction_of_json_is_json() -> None:
    """The same for plans in JSON, with an object for a reference."""
    text = '{"steps": [\n{"id": "pay", "tool": "read_ledger", "args": {"path": "x"}},\n{"id": "a", "value": {"$": "pay.rowz"}},\n{"id": "b", "value": "{{pay.rows}}"}\n]}'
    source = read_source(text)
    found = source.located(check(plan_from(source), shop(), principal=CLERK).findings)
    assert [f.corrected for f in found if f.corrected] == [
        '{"id": "a", "value": {"$": "pay.rows"}},',
        '{"id": "b", "value": {"$": "pay.rows"}}',
    ]
