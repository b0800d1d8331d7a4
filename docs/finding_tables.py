"""The table of codes of `checking.md`, written from `foreplan.planner.findings.CODES`."""

from __future__ import annotations

from foreplan.planner.findings import CODES

__all__ = ["code_table"]


def code_table() -> str:
    """A row for each code a finding can have."""
    rows = ["| code | severity | what it says | what to do |", "|---|---|---|---|"]
    rows += [f"| `{code}` | {doc.severity} | {doc.meaning} | {doc.remedy} |" for code, doc in CODES.items()]
    return "\n".join(rows)
