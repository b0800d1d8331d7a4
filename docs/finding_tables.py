"""The tables of codes of `checking.md`, `codes.md` and `batches.md`, written from what the code says of them."""

from __future__ import annotations

from foreplan.executor.batches.rows import CODES as ROW_CODES
from foreplan.planner.findings import CODES

__all__ = ["code_sections", "code_table", "row_code_table"]


def code_table() -> str:
    """A row for each code a finding can have."""
    rows = ["| code | severity | what it says | what to do |", "|---|---|---|---|"]
    rows += [
        f"| [`{code}`](codes.md#{code}) | {doc.severity} | {doc.meaning} | {doc.remedy} |"
        for code, doc in CODES.items()
    ]
    return "\n".join(rows)


def code_sections() -> str:
    """A section for each code, by name: its anchor is what a SARIF report names."""
    parts = []
    for code, doc in sorted(CODES.items()):
        parts += [f"## {code}", "", f"*{doc.severity}*: {doc.meaning}", "", doc.remedy, ""]
    return "\n".join(parts)


def row_code_table() -> str:
    """A line for each reason why a row of a batch cannot run."""
    rows = ["| code | what it says |", "|---|---|"]
    return "\n".join([*rows, *(f"| `{code}` | {meaning} |" for code, meaning in ROW_CODES.items())])
