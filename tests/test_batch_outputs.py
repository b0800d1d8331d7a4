"""What a batch writes: results in the order of the source, failures that are a source again, and nothing a spreadsheet runs."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foreplan.executor.batches.examining import Examined, examine
from foreplan.executor.batches.formulas import harmless, original
from foreplan.executor.batches.headers import OWN
from foreplan.executor.batches.outputs import FailuresFile, ResultsFile, csv_line, write_failures
from foreplan.executor.batches.rows import Row, RowResult
from foreplan.executor.batches.sources import FileRows
from foreplan.executor.batches.sqlite_rows import SqliteRows
from foreplan.policies.errors import BadInput

ORDER = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "n": {"type": "integer"}},
    "required": ["id"],
}


def look(rows: Any, schema: dict[str, Any] = ORDER) -> Examined:
    """The first reading."""
    return anyio.run(examine, schema, rows)


def settled(ordinal: int, output: Any = None, batch: str = "b1", **said: Any) -> RowResult:
    """A row that is done, or what is said."""
    return RowResult(f"{batch}.{ordinal}", ordinal, ordinal + 1, said.pop("status", "done"), output, **said)


def failed(ordinal: int, batch: str = "b1") -> RowResult:
    """A row whose tool could not be reached."""
    said = {"kind": "network", "code": "503", "sentence": "the service is down"}
    return settled(ordinal, status="failed", batch=batch, **said)


# -------------------------------------------------------------------------------------------------------------- results


def test_results_are_in_the_order_of_the_source_and_each_row_is_there_once(tmp_path: Path) -> None:
    """However they came; a row that was written again has what came last."""
    file = ResultsFile(tmp_path / "r.jsonl", "b1")
    for result in (settled(3, {"x": 1}), failed(1), settled(2), settled(1, {"x": "ä"})):
        file.write(result)
    file.finish()
    assert [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()] == [
        {"row": "b1.1", "ordinal": 1, "line": 2, "status": "done", "output": {"x": "ä"}},
        {"row": "b1.2", "ordinal": 2, "line": 3, "status": "done", "output": None},
        {"row": "b1.3", "ordinal": 3, "line": 4, "status": "done", "output": {"x": 1}},
    ]
    assert os.listdir(tmp_path) == ["r.jsonl"]


def test_results_can_be_watched_and_the_file_is_put_in_place_at_once(tmp_path: Path) -> None:
    """Lines stand in the `.part` as they come; what was there before stays until the end."""
    (tmp_path / "r.csv").write_text("row\nb1.1\n")
    file = ResultsFile(tmp_path / "r.csv", "b1")
    file.write(failed(2))
    file.close()
    assert (tmp_path / "r.csv").read_text() == "row\nb1.1\n"
    assert (tmp_path / "r.csv.part").read_text().splitlines() == [
        "row,ordinal,line,status,kind,code,sentence,output",
        "b1.2,2,3,failed,network,503,the service is down,",
    ]
    again = ResultsFile(tmp_path / "r.csv", "b1")
    again.write(failed(2))
    again.finish()
    assert "b1.2,2,3" in (tmp_path / "r.csv").read_text()


def test_keys_of_an_output_have_columns(tmp_path: Path) -> None:
    """Null is an empty cell, what is nested is JSON, numbers are numbers, formulas are text."""
    file = ResultsFile(tmp_path / "r.csv", "b1", fields=("a", "b", "c", "d"))
    file.write(settled(1, {"a": -1.5, "b": "=1+1", "c": [1, {"k": "v"}], "d": None}))
    file.finish()
    assert (tmp_path / "r.csv").read_text().splitlines() == [
        "row,ordinal,line,status,kind,code,sentence,output.a,output.b,output.c,output.d",
        """b1.1,1,2,done,,,,-1.5,'=1+1,"[1,{""k"":""v""}]",""",
    ]


def test_a_file_of_somebody_else_is_not_overwritten(tmp_path: Path) -> None:
    """Another batch's, any text, a directory; unless it was asked for. This batch's own is."""
    for name, text in [
        ("r.jsonl", '{"row":"b2.1"}\n'),
        ("r.jsonl", '{"row":"b1.1.1"}\n'),
        ("r.jsonl", "text\n"),
        ("r.jsonl", "[1]\n"),
        ("r.csv", "row,x\nb2.1,1\n"),
        ("r.csv", "name,x\nb1.1,1\n"),
    ]:
        path = tmp_path / name
        path.write_text(text)
        with pytest.raises(BadInput, match="is there already, and this batch did not write it"):
            ResultsFile(path, "b1")
        assert (path.read_text(), sorted(os.listdir(tmp_path))) == (text, sorted({"r.jsonl", name}))
        ResultsFile(path, "b1", overwrite=True).close()
        (tmp_path / f"{name}.part").unlink()
    for name, text in [
        ("r.jsonl", '{"row":"b1.7"}\n'),
        ("r.jsonl", ""),
        ("r.csv", "row,x\nb1.1,1\n"),
        ("r.csv", "row,x\n"),
    ]:
        (tmp_path / name).write_text(text)
        ResultsFile(tmp_path / name, "b1").finish()
    (tmp_path / "d.csv").mkdir()
    with pytest.raises(BadInput, match="there is something else of that name"):
        ResultsFile(tmp_path / "d.csv", "b1", overwrite=True)


def test_the_source_is_never_overwritten(tmp_path: Path) -> None:
    """By its name, another path to it, a link; neither is one output by the other."""
    source = tmp_path / "rows.csv"
    source.write_text("id,n\nx,1\n")
    (tmp_path / "link.csv").symlink_to(source)
    os.link(source, tmp_path / "hard.csv")
    for path in (source, tmp_path / "." / "rows.csv", tmp_path / "link.csv", tmp_path / "hard.csv"):
        with pytest.raises(BadInput, match="is read or written by this batch already"):
            ResultsFile(path, "b1", overwrite=True, keep=FileRows(source).files)
        with pytest.raises(BadInput, match="is read or written by this batch already"):
            FailuresFile(path, "b1", look(source), overwrite=True)
    assert source.read_text() == "id,n\nx,1\n"
    assert SqliteRows(source, "SELECT 1").files == FileRows(source).files


def test_where_nothing_can_be_written_a_sentence_says_so(tmp_path: Path) -> None:
    """Before anything runs."""
    with pytest.raises(BadInput, match="has no suffix that says what to write"):
        ResultsFile(tmp_path / "r.txt", "b1")
    with pytest.raises(BadInput, match="cannot be written: No such file or directory"):
        ResultsFile(tmp_path / "none" / "r.csv", "b1")


OUTPUTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip


@given(st.lists(OUTPUTS, min_size=1, max_size=6))
def test_a_line_of_csv_says_what_it_was_made_of(values: list[Any]) -> None:
    """The csv module reads it back: texts as they were, everything else as JSON."""
    assert list(csv.reader(io.StringIO(csv_line(["", *values]) + "\n", newline=""), strict=True)) == [
        ["", *("" if v is None else harmless(v) if isinstance(v, str) else json.dumps(v, separators=(",", ":"), ensure_ascii=False) for v in values)]
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------------------------- formulas

RISKY = [
    "=1",
    "+1",
    "@x",
    "-x",
    "-1+2",
    "\tx",
    "\rx",
    "\nx",
    " =1",
    '"=1',
    "＝1",
    "＋1",
    "－1",
    "＠1",
    "'x",
    "'",
    "''",
    "-",
]


@pytest.mark.parametrize("text", RISKY)
def test_what_a_spreadsheet_would_run_begins_with_a_quote(text: str) -> None:
    """And comes back as it was."""
    assert harmless(text) == "'" + text
    assert original(harmless(text)) == text


@pytest.mark.parametrize("text", ["", "x", "1", "-1", "-1.50", "-2e-3", "a=b", "2-1", "x@y"])
def test_other_texts_stay_as_they_are(text: str) -> None:
    """Numbers are numbers."""
    assert harmless(text) == text == original(text)


@given(st.text(st.sampled_from("'=+-@ \t\n\"1.eE＝x‘’"), max_size=6) | st.text())
def test_every_text_comes_back(text: str) -> None:
    """No two texts become the same cell, and none begins as a formula does."""
    cell = harmless(text)
    assert original(cell) == text
    assert cell[:1] not in ("=", "+", "@", "\t", "\r")
    assert cell[:1] != "-" or float(cell) <= 0


# ------------------------------------------------------------------------------------------------------------- failures


def failures(path: Path, examined: Examined, results: list[RowResult]) -> Path:
    """A failures file of this batch."""
    write_failures(FailuresFile(path, "b1", examined, overwrite=True), examined.again(), results)
    return path


def test_a_failures_file_holds_the_rows_and_why_they_failed(tmp_path: Path) -> None:
    """Rows that failed and rows that could not run, in the order of the source; done ones are not there."""
    source = tmp_path / "rows.csv"
    source.write_text('id,n,more\na,1,=x\nb,1,\nc,x,"1\n2"\nd,1\n')
    path = failures(tmp_path / "f.csv", look(source), [failed(1), settled(2)])
    assert list(csv.reader(io.StringIO(path.read_text(), newline=""))) == [
        [*OWN, "id", "n", "more"],
        ["b1.1", "1", "2", "network", "503", "the service is down", "", "a", "1", "'=x"],
        ["b1.3", "3", "4", "bad_args", "wrong_cell", "column 'n' must be a number, not the text 'x'", "", "c", "x", "1\n2"],
        ["b1.4", "4", "6", "bad_args", "too_few_cells", "the row has 2 cells, and the header names 3 columns", "d,1", "", "", ""],
    ]  # fmt: skip


def test_a_failures_file_is_a_source(tmp_path: Path) -> None:
    """Its own columns are passed over; a row that could not be read waits until it is mended."""
    source = tmp_path / "rows.csv"
    source.write_text("id,n\na,1\nb\nc,3\n")
    path = failures(tmp_path / "f.csv", look(source), [failed(1), failed(3)])
    again = look(path)
    assert [(row.ordinal, row.inputs) for row in again.rows()] == [
        (1, {"id": "a", "n": 1}),
        (3, {"id": "c", "n": 3}),
    ]
    assert [str(f) for f in again.findings] == [
        "line 3: the row could not be read, and 'foreplan.raw' still holds its text"
    ]
    assert "its own columns" in again.notes[0]
    path.write_text(path.read_text().replace(",b,,\n", ",,b,2\n"))
    assert [row.inputs for row in look(path).rows()][1] == {"id": "b", "n": 2}


def test_bytes_that_were_no_text_do_not_come_back_as_text(tmp_path: Path) -> None:
    """The line is shown with its bytes, and is refused again."""
    source = tmp_path / "rows.csv"
    source.write_bytes(b"id,n\ncaf\xe9,1\n")
    path = failures(tmp_path / "f.csv", look(source), [])
    assert "caf\\xe9,1" in path.read_text()
    assert look(path).runnable == 0


def test_failures_of_rows_that_are_not_json_are_csv(tmp_path: Path) -> None:
    """In JSON Lines a cell would be a text, which it is not."""
    source = tmp_path / "rows.csv"
    source.write_text("id,n\na,1\n")
    with pytest.raises(BadInput, match=r"must be CSV \(\.csv\)"):
        FailuresFile(tmp_path / "f.jsonl", "b1", look(source))
    assert os.listdir(tmp_path) == ["rows.csv"]


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufeff"), max_size=8)
TABLES = st.lists(st.tuples(TEXTS, TEXTS, st.booleans()), max_size=6)


@settings(max_examples=60)
@given(st.lists(TEXTS.filter(bool), min_size=2, max_size=2, unique_by=str.strip), TABLES)
def test_rows_that_failed_come_back_cell_by_cell(
    tmp_path_factory: Any, header: list[str], table: list[Any]
) -> None:
    """From CSV through a failures file, and through a second one."""
    folder: Path = tmp_path_factory.getbasetemp()
    out = io.StringIO(newline="")
    csv.writer(out, quoting=csv.QUOTE_ALL).writerows([header, *([a, b] for a, b, _ in table)])
    (folder / "any.csv").write_bytes(out.getvalue().encode())
    path = folder / "any.csv"
    for name in ("one.csv", "two.csv"):
        examined = look(path, {"type": "object"})
        bad = (
            [n for n, row in enumerate(table, 1) if row[2]]
            if name == "one.csv"
            else range(1, examined.total + 1)
        )
        path = failures(folder / name, examined, [failed(n) for n in bad])
    cells = [dict(zip(header, (a, b), strict=True)) for a, b, wrong in table if wrong]
    assert [row.given for row in FileRows(path).rows()] == cells


@settings(max_examples=60)
@given(st.lists(st.dictionaries(TEXTS, OUTPUTS, max_size=3), max_size=5))
def test_rows_of_json_come_back_as_they_are(tmp_path_factory: Any, rows: list[dict[str, Any]]) -> None:
    """From JSON Lines through a failures file of JSON Lines."""
    folder: Path = tmp_path_factory.getbasetemp()
    (folder / "any.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    examined = look(folder / "any.jsonl", {"type": "object"})
    path = failures(folder / "f.jsonl", examined, [failed(n + 1) for n in range(len(rows))])
    assert [row.given for row in FileRows(path).rows()] == rows
    again = look(path, {"type": "object"})
    assert again.digest == examined.digest
    assert [row.inputs for row in again.again() if isinstance(row, Row)] == rows
