"""The rows of a batch: as they come from a source, as they run, as they end, and what is wrong with those that cannot run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...policies.errors import BadInput
from ...policies.text import count, safe_text
from ...registry.values import Json

__all__ = ["CODES", "AsideRow", "Row", "RowFinding", "RowResult", "RowsRefused", "SourceRow", "row_id"]


class RowFinding(NamedTuple):
    """One reason why a row cannot run: where it stands, which column and which place of the inputs, and a sentence.

    `line` is the first line of the row in its file, from 1; None where a source has no lines. `column` is the name in
    the source and `pointer` the JSON Pointer into the inputs, both empty where the row as a whole is meant. That there is
    no row at all is a finding with the ordinal 0.
    """

    ordinal: int
    line: int | None
    column: str
    pointer: str
    code: str
    sentence: str

    def __str__(self) -> str:
        said = safe_text(self.sentence, 400)
        if not self.ordinal:
            return said
        place = f"line {self.line:,}" if self.line is not None else f"row {self.ordinal:,}"
        return f"{place}: {said}"


class SourceRow(NamedTuple):
    """One row as its source has it. `given` has its values by column; None where it cannot be read, as `faults` say.

    Ordinals count from 1, those that cannot be read too. `raw` is the text of a row that cannot be read.
    """

    ordinal: int
    line: int | None
    given: Mapping[str, Any] | None
    faults: tuple[RowFinding, ...] = ()
    raw: str = ""


class Row(NamedTuple):
    """One row that can run: inputs with defaults applied that fit the plan, and their digest (`sha256:…`)."""

    ordinal: int
    line: int | None
    inputs: dict[str, Json]
    digest: str
    given: Mapping[str, Any]


class AsideRow(NamedTuple):
    """One row that cannot run, and why."""

    row: SourceRow
    faults: tuple[RowFinding, ...]


class RowResult(NamedTuple):
    """How a row ended: `status` is that of its run; `kind`, `code` and `sentence` say why it failed."""

    row: str
    ordinal: int
    line: int | None
    status: str
    output: Json = None
    kind: str = ""
    code: str = ""
    sentence: str = ""


def row_id(batch: str, ordinal: int) -> str:
    """The id of a row, and of its run."""
    return f"{batch}.{ordinal}"


class RowsRefused(BadInput):
    """Rows of a source cannot run and the batch is strict: `findings` has the first, `found` how many there are."""

    def __init__(self, message: str, *, findings: Sequence[RowFinding] = (), found: int = 0) -> None:
        super().__init__(message)
        self.findings = tuple(findings)
        self.found = found


def refused(name: str, rows: int, findings: Sequence[RowFinding], found: int) -> RowsRefused:
    """The sentence about rows that cannot run, with the first few findings."""
    said = "; ".join(map(str, findings[:3])) + (f"; and {found - 3:,} more" if found > 3 else "")
    return RowsRefused(
        f"{count(rows, 'row')} of {name} cannot run, and nothing ran: {said}", findings=findings, found=found
    )


CODES = {
    "no_rows": "The source has no row, only a header, or an empty list.",
    "bad_encoding": "Bytes of the line are no text in the encoding of the file.",
    "nul": "The row holds a NUL character.",
    "bad_quotes": "A quote is not closed, or something stands between it and the next delimiter.",
    "too_few_cells": "The row has fewer cells than the header.",
    "too_many_cells": "The row has more cells than the header.",
    "too_long": "The line, or the row, is longer than is read.",
    "bad_json": "The line is no JSON.",
    "duplicate_key": "An object of the row says one key twice.",
    "bad_number": "A number is not finite, or has more digits than can be held exactly.",
    "bad_text": "A text holds half of a surrogate pair.",
    "too_deep": "Values are nested deeper than is read.",
    "not_object": "The row is no object of columns and values.",
    "no_json": "A value has no JSON form: bytes from a query, an object of Python.",
    "missing": "The row says nothing for an input that the plan requires; an empty cell says nothing.",
    "wrong_cell": "The text of the cell is no value of the type that the plan wants.",
    "wrong_value": "The value does not fit the schema of the plan's inputs.",
    "unmended": "The row was set aside because it could not be read, and its text was not mended.",
}
"""What each code of a finding means."""
