"""A report for code hosts and editors: the form that SARIF 2.1.0 prescribes, with places and fixes."""

from __future__ import annotations

import json
from typing import Any

from support.shop import CLERK, shop

from foreplan.planner.checking import check
from foreplan.planner.documents import plan_from, read_source
from foreplan.planner.findings import CODES, Finding, Report
from foreplan.planner.sarif import report_to_sarif

PLAN = """
foreplan: 1
steps:
  - id: pay
    tool: read_ledgr
    args: {path: may.csv}
  - id: rows
    tool: read_ledger
    args: {path: may.csv}
  - id: sums
    value: {$: "[r.amont for r in rows.rows]"}
  - id: told
    tool: store_value
    args: {key: "{{rows.rows[0].id}}", value: {$: "sums"}}
"""

RESULT = {
    "type": "object",
    "additionalProperties": False,
    "required": ["ruleId", "ruleIndex", "level", "message", "locations"],
    "properties": {
        "ruleId": {"type": "string"},
        "ruleIndex": {"type": "integer", "minimum": 0},
        "level": {"enum": ["none", "note", "warning", "error"]},
        "message": {"type": "object", "required": ["text"]},
        "locations": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["physicalLocation"],
                "properties": {
                    "physicalLocation": {
                        "type": "object",
                        "required": ["artifactLocation"],
                        "properties": {
                            "region": {"properties": {k: {"type": "integer", "minimum": 1} for k in ("startLine", "startColumn")}}
                        },
                    }
                },
            },
        },
        "fixes": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["artifactChanges"],
                "properties": {
                    "artifactChanges": {
                        "type": "array",
                        "minItems": 1,
                        "items": {"type": "object", "required": ["artifactLocation", "replacements"]},
                    }
                },
            },
        },
    },
}  # fmt: skip
"""The parts of the SARIF 2.1.0 schema that concern a result."""


def located(text: str = PLAN) -> Report:
    source = read_source(text)
    report = check(plan_from(source), shop(), principal=CLERK)
    return report._replace(findings=source.located(report.findings))


def run_of(report: Report, path: str = "plans/may plan.yaml") -> dict[str, Any]:
    log = report_to_sarif(report, path)
    assert json.loads(json.dumps(log)) == log
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    return run  # type: ignore[no-any-return]


def test_each_result_has_the_form_that_the_standard_asks_for() -> None:
    """Structure, and indices that lead to the rule of the same name."""
    from jsonschema import Draft202012Validator

    run = run_of(located())
    rules = run["tool"]["driver"]["rules"]
    for result in run["results"]:
        Draft202012Validator(RESULT).validate(result)
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    assert all(rule["helpUri"] and rule["help"]["text"] for rule in rules)


def test_places_and_levels_are_those_of_the_findings() -> None:
    """Lines and columns from 1; the pointer is the logical place; blanks in a path are escaped."""
    (unknown, typo, *_) = run_of(located())["results"]
    assert (unknown["ruleId"], unknown["level"]) == ("unknown_tool", "error")
    physical = typo["locations"][0]["physicalLocation"]
    assert physical["artifactLocation"]["uri"] == "plans/may%20plan.yaml"
    assert physical["region"] == {"startLine": 11, "startColumn": 20}
    assert typo["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] == "/steps/2/value/$"


def test_a_fix_is_the_whole_line_as_it_should_be() -> None:
    """Put in, each removes its own finding."""
    lines = PLAN.splitlines()
    for result in run_of(located())["results"]:
        for fix in result.get("fixes", ()):
            (change,) = fix["artifactChanges"][0]["replacements"]
            lines[change["deletedRegion"]["startLine"] - 1] = change["insertedContent"]["text"]
    left = {f.code for f in located("\n".join(lines)).findings}
    assert left <= {"approval_needed", "unused_result"}


def test_a_report_without_findings_or_places_is_a_log_too() -> None:
    """Nothing found: no results. Nothing located: only the file and the pointer."""
    assert run_of(Report(()))["results"] == []
    (result,) = run_of(Report((Finding("cycle", "error", "/steps/0", "a ring"),)), "/tmp/x.yaml")["results"]
    assert result["locations"][0]["physicalLocation"] == {"artifactLocation": {"uri": "file:///tmp/x.yaml"}}


def test_every_code_can_be_a_rule() -> None:
    """With a level that SARIF knows."""
    findings = tuple(Finding(code, doc.severity, "", doc.meaning) for code, doc in CODES.items())
    levels = {
        rule["defaultConfiguration"]["level"] for rule in run_of(Report(findings))["tool"]["driver"]["rules"]
    }
    assert levels <= {"error", "warning", "note"}
