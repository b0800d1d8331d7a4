"""A report as SARIF 2.1.0, the form in which code hosts and editors show what analysers find.

One run with the rules that were broken (from the table of codes) and one result for each finding; where the report was
located in its source, with line, column and the corrected line.
"""

from __future__ import annotations

from importlib import metadata
from typing import Any
from urllib.parse import quote

from .findings import CODES, Finding, Report

__all__ = ["report_to_sarif"]

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {"error": "error", "warning": "warning", "info": "note"}


def report_to_sarif(report: Report, plan_path: str) -> dict[str, Any]:
    """The SARIF log of a report on the plan in this file; the path becomes a relative or `file:` URI.

    `helpUri` of a rule is a URN, for the pages of the codes (`docs/codes.md`) come with the source; `help` says the same.
    """
    codes = list(dict.fromkeys(f.code for f in report.findings))
    driver = {"name": "foreplan", "version": metadata.version("foreplan"), "rules": [_rule(c) for c in codes]}
    uri = _uri(plan_path)
    results = [_result(f, codes.index(f.code), uri) for f in report.findings]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(code: str) -> dict[str, Any]:
    doc = CODES[code]
    return {
        "id": code,
        "shortDescription": {"text": doc.meaning},
        "help": {"text": f"{doc.meaning} {doc.remedy}"},
        "helpUri": f"urn:foreplan:code:{code}",
        "defaultConfiguration": {"level": _LEVELS[doc.severity]},
        "properties": {"page": f"docs/codes.md#{code}"},
    }


def _result(finding: Finding, rule: int, uri: str) -> dict[str, Any]:
    hint = f" (try: {finding.suggestion})" if finding.suggestion else ""
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": _LEVELS[finding.severity],
        "message": {"text": finding.message + hint},
        "locations": [_location(finding, uri)],
    }
    if finding.corrected and finding.line is not None:
        result["fixes"] = [_fix(finding, uri)]
    return result


def _location(finding: Finding, uri: str) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": uri}}
    if finding.line is not None:
        column = {} if finding.column is None else {"startColumn": finding.column}
        physical["region"] = {"startLine": finding.line, **column}
    named = {"fullyQualifiedName": finding.pointer or "/", "kind": "member"}
    return {"physicalLocation": physical, "logicalLocations": [named]}


def _fix(finding: Finding, uri: str) -> dict[str, Any]:
    """The whole line, replaced: a region without columns reaches to the end of its line."""
    change = {
        "deletedRegion": {"startLine": finding.line},
        "insertedContent": {"text": finding.corrected},
    }
    return {
        "description": {"text": f"write {finding.suggestion}"},
        "artifactChanges": [{"artifactLocation": {"uri": uri}, "replacements": [change]}],
    }


def _uri(path: str) -> str:
    plain = path.replace("\\", "/")
    scheme = "file://" if plain.startswith("/") else ""
    return scheme + quote(plain, safe="/~")
