"""Rows of a batch: whatever a file, a query or an iterator gives ends as a row or as a finding with its line."""

from __future__ import annotations

import csv
import io
import json
import os
import sqlite3
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foreplan.executor.batches.csv_rows import records
from foreplan.executor.batches.examining import Examined, changed, examine
from foreplan.executor.batches.lines import lines
from foreplan.executor.batches.reopening import describe, source_again
from foreplan.executor.batches.rows import CODES, RowFinding, RowsRefused, SourceRow
from foreplan.executor.batches.sources import FileRows, GivenRows, OneShotRows, open_source
from foreplan.executor.batches.sqlite_rows import SqliteRows
from foreplan.policies.errors import BadInput

TEXT = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["a"]}
FREE: dict[str, Any] = {"type": "object"}


def look(rows: Any, schema: dict[str, Any] = TEXT, **options: Any) -> Examined:
    """The first reading."""

    async def main() -> Examined:
        return await examine(schema, rows, **options)

    return anyio.run(main)


def written(folder: Path, data: bytes | str, name: str = "rows.csv") -> Path:
    """A file that holds this."""
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def told(examined: Examined) -> list[tuple[int | None, str]]:
    """Line and code of each finding."""
    return [(finding.line, finding.code) for finding in examined.findings]


# ---------------------------------------------------------------------------------------------------------------- CSV


def test_a_row_has_its_ordinal_its_line_and_its_cells(tmp_path: Path) -> None:
    """Ordinals count rows, lines count lines: blank ones and those inside quotes too."""
    path = written(tmp_path, 'a,b\n1,x\n\n2,"y\nz"\n3,w\n')
    assert list(FileRows(path).rows()) == [
        SourceRow(1, 2, {"a": "1", "b": "x"}),
        SourceRow(2, 4, {"a": "2", "b": "y\nz"}),
        SourceRow(3, 6, {"a": "3", "b": "w"}),
    ]


BAD = {
    "too few cells": ("1\n2,x\n", [(2, "too_few_cells")]),
    "too many cells": ("1,x\n2,x,y\n", [(3, "too_many_cells")]),
    "cells that are empty and too many": ("1,x,,\n", [(2, "too_many_cells")]),
    "a quote that is never closed": ('1,x\n2,"y\n3,z\n', [(3, "bad_quotes")]),
    "text after a closing quote": ('1,"x"y\n2,x\n', [(2, "bad_quotes")]),
    "a quote closed in another row": ('1,"x\n2,y"z\n3,w\n', [(2, "bad_quotes")]),
    "NUL": ("1,x\0\n2,x\n", [(2, "nul")]),
    "a required cell that is empty": (",x\n2,x\n", [(2, "missing")]),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_line_is_one_finding_and_its_neighbours_are_rows(case: str, tmp_path: Path) -> None:
    """What is wrong with one line costs that line alone."""
    text, findings = BAD[case]
    examined = look(written(tmp_path, "a,b\n" + text))
    assert (told(examined), examined.total) == (findings, text.count("\n"))


def test_bytes_that_are_no_text_are_found_by_line_and_byte(tmp_path: Path) -> None:
    """A file of another encoding is a finding a line, that says the byte and the way out; and it is read when told."""
    path = written(tmp_path, b"a,b\nx,1\ncaf\xe9,2\n")
    found = look(path)
    assert told(found) == [(3, "bad_encoding")]
    assert str(found.findings[0]) == (
        "line 3: the row is not UTF-8: byte 0xE9 (byte 4 of the line, after 'caf'); "
        "save the file as UTF-8, or say its encoding (encoding='cp1252', --encoding cp1252)"
    )
    assert [row.inputs["a"] for row in look(FileRows(path, encoding="latin-1")).rows()] == ["x", "café"]


def test_a_file_that_says_its_encoding_is_read_by_it(tmp_path: Path) -> None:
    """A byte order mark decides, and a note says so where it is not UTF-8."""
    for encoding in ("utf-8-sig", "utf-16", "utf-32"):
        examined = look(written(tmp_path, "a,b\nä,ö\n".encode(encoding)))
        assert [row.inputs for row in examined.rows()] == [{"a": "ä", "b": "ö"}]
    assert "UTF-32" in examined.notes[0]


def test_utf_16_without_a_mark_is_named(tmp_path: Path) -> None:
    """What is full of NUL is UTF-16, and the sentence says how to read it."""
    path = written(tmp_path, "a,b\nx,y\n".encode("utf-16-le"))
    with pytest.raises(
        BadInput, match=r"header of the file .* holds a NUL character .* encoding='utf-16-le'"
    ):
        look(path)
    assert look(FileRows(path, encoding="utf-16-le")).runnable == 1


def test_a_header_in_another_encoding_is_refused_with_a_sentence(tmp_path: Path) -> None:
    """UTF-16 read as what it is not, and bytes that UTF-16 has not."""
    with pytest.raises(BadInput, match=r"the header .* is not UTF-8: byte 0xFF"):
        look(FileRows(written(tmp_path, "a\nx\n".encode("utf-16")), encoding="utf-8"))
    path = written(
        tmp_path, b"\xff\xfe" + "a\n".encode("utf-16-le") + b"\x41\xd8" + "x\ny\n".encode("utf-16-le")
    )
    assert (told(look(path)), look(path).runnable) == ([(2, "bad_encoding")], 1)


def test_line_ends_may_be_mixed(tmp_path: Path) -> None:
    """LF, CRLF and CR end a line, and inside quotes they stay what they are."""
    examined = look(written(tmp_path, 'a,b\r\n1,x\r2,"y\r\nz"\n3,w'))
    assert [(row.line, row.inputs["b"]) for row in examined.rows()] == [(2, "x"), (3, "y\r\nz"), (5, "w")]


def test_a_cell_of_a_million_characters_is_a_cell(tmp_path: Path) -> None:
    """Bare and in quotes, whatever limit the csv module has in this process."""
    assert csv.field_size_limit() == 131_072
    long = "x" * 1_000_000
    examined = look(written(tmp_path, f'a,b\n{long},1\n"{long}""",2\n'))
    assert [len(row.inputs["a"]) for row in examined.rows()] == [1_000_000, 1_000_001]


def test_a_line_without_an_end_is_cut_off_and_told(tmp_path: Path) -> None:
    """What is longer than is read is one finding, and the next line is a row."""
    path = written(tmp_path, "a,b\n" + "x" * 17_000_000 + "\n1,2\n")
    examined = look(path)
    assert (told(examined), examined.runnable) == ([(2, "too_long")], 1)


def test_an_empty_file_needs_a_header_and_a_header_needs_no_rows(tmp_path: Path) -> None:
    """Nothing at all is refused; no rows are no rows."""
    for empty in ("", "\n\n", "\ufeff"):
        with pytest.raises(BadInput, match="is empty; its first line must name the columns"):
            look(written(tmp_path, empty))
    assert look(written(tmp_path, "a,b\n")).total == 0


def test_columns_without_a_name_and_names_twice_are_told_apart(tmp_path: Path) -> None:
    """A second `a` is `a#2`, and a third column without a name is `#3`; both are no input, and it is said."""
    examined = look(written(tmp_path, "a,a,\n1,2,3\n"))
    assert examined.columns == ("a", "a#2", "#3")
    assert examined.notes == ("the columns 'a#2', '#3' are no input of the plan",)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("beginning", ["", "\ufeff"])
def test_the_first_line_of_excel_says_the_delimiter(tmp_path: Path, beginning: str, end: str) -> None:
    """It is no header and no row; lines keep their numbers, and whoever reads the rows again reads the same."""
    text = beginning + end.join(["SEP=;", "a;b", "1,5;x", "2", ""])
    examined = look(written(tmp_path, text))
    assert [(row.line, row.inputs) for row in examined.rows()] == [(3, {"a": "1,5", "b": "x"})]
    assert told(examined) == [(4, "too_few_cells")]
    assert "was read with the delimiter ';', as its first line says" in " ".join(examined.notes)
    again = source_again(describe(examined))
    assert again is not None
    assert look(again.rows).digest == examined.digest


def test_a_delimiter_that_is_said_stands_above_that_of_the_first_line(tmp_path: Path) -> None:
    """A column of that name is one where something stands beside it."""
    path = written(tmp_path, "sep=;\na|b\n1|x\n")
    assert [row.inputs for row in look(FileRows(path, delimiter="|")).rows()] == [{"a": "1", "b": "x"}]
    path = written(tmp_path, "sep=;,a\n1,x\n")
    assert FileRows(path).columns == ("sep=;", "a")


@pytest.mark.parametrize(("name", "data"), [("r.csv", "a,b\n"), ("r.json", "[]"), ("r.jsonl", "\n")])
def test_a_source_without_a_row_says_so(tmp_path: Path, name: str, data: str) -> None:
    """A finding of its own; with `strict` it is refused, for something went wrong where rows were expected."""
    path = written(tmp_path, data, name)
    examined = look(path)
    assert (examined.total, examined.set_aside, told(examined)) == (0, 0, [(None, "no_rows")])
    assert str(examined.findings[0]) == f"there are no rows: the file '{path}' has none"
    with pytest.raises(RowsRefused, match="nothing ran: there are no rows"):
        look(path, strict=True)


def test_other_delimiters_are_said_or_suggested(tmp_path: Path) -> None:
    """A file with semicolons is not guessed at: the sentence says how to say so."""
    path = written(tmp_path, "a;b\n1;x\n")
    with pytest.raises(BadInput, match="is it written with delimiter=';'"):
        look(path)
    assert [row.inputs for row in look(FileRows(path, delimiter=";")).rows()] == [{"a": "1", "b": "x"}]
    assert look(written(tmp_path, "a\tb\n1\tx\n", "rows.tsv")).runnable == 1


CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufeff"), max_size=12)
TABLES = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.lists(CELLS, min_size=width, max_size=width), min_size=1, max_size=6)
)
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32", "gb18030")


@given(
    TABLES,
    st.sampled_from(",;\t|"),
    st.sampled_from(ENCODINGS),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.booleans(),
)
def test_any_table_comes_back_from_csv(
    table: list[list[str]], delimiter: str, encoding: str, end: str, quoted: bool
) -> None:
    """What the csv module writes, with any delimiter and in any encoding, is read as it was."""
    quoting: Any = csv.QUOTE_ALL if quoted or end != "\r\n" else csv.QUOTE_MINIMAL
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=delimiter, lineterminator=end, quoting=quoting).writerows(table)
    data = out.getvalue().encode(encoding)
    decoder = "utf-8-sig" if encoding.startswith("utf-8") else encoding
    assert [r.cells for r in records(lines(io.BytesIO(data), decoder), delimiter, decoder)] == table


@given(st.lists(st.sampled_from(["a", ",", '"', '""', "\n", "\r\n", "\r", " "]), max_size=25).map("".join))
def test_no_line_is_lost_whatever_the_quotes(text: str) -> None:
    """Each record begins where the one before ended; and what the csv module takes whole is read as it reads it."""
    found = list(records(lines(io.BytesIO(text.encode()), "utf-8"), ",", "utf-8"))
    breaks = [
        sum(len(cell.splitlines()) - 1 + cell.endswith(("\n", "\r")) for cell in r.cells if cell)
        for r in found
    ]
    ends = [record.line + more + 1 for record, more in zip(found, breaks, strict=True)]
    assert [record.line for record in found] + [len(io.StringIO(text, newline="").readlines()) + 1] == [
        1,
        *ends,
    ]
    try:
        whole = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error:
        assert any(record.code == "bad_quotes" for record in found)
    else:
        assert [record.cells for record in found] == whole


PIECES = [
    b"a",
    b",",
    b'"',
    b"\n",
    b"\r",
    b"\0",
    b"\xe9",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"{",
    b"}",
    b"[",
    b"]",
    b"1e9",
    b'"a":',
    b"\\",
    b" ",
]


@given(
    st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join) | st.binary(max_size=60),
    st.sampled_from(["csv", "tsv", "jsonl", "json"]),
    st.sampled_from([None, "utf-16", "utf-32", "shift-jis", "utf-7"]),
)
def test_any_bytes_are_rows_or_findings_or_a_sentence(
    tmp_path_factory: Any, data: bytes, format: Any, encoding: str | None
) -> None:
    """Nothing else comes out of a file, whatever is in it and whatever it is said to be."""
    path = written(tmp_path_factory.getbasetemp(), data, "any")
    try:
        rows = list(FileRows(path, format=format, encoding=encoding).rows())
    except BadInput:
        return
    assert [row.ordinal for row in rows] == list(range(1, len(rows) + 1))
    assert all((row.given is None) == bool(row.faults) for row in rows)
    json.dumps([row[:4] for row in rows]).encode()


# --------------------------------------------------------------------------------------------------------------- JSON

JSON_LINES = {
    "no JSON": ('{"a": "x"', "bad_json"),
    "a key twice": ('{"a": "x", "a": "y"}', "duplicate_key"),
    "a key twice, deep": ('{"a": "x", "b": {"c": 1, "c": 2}}', "duplicate_key"),
    "NaN": ('{"a": NaN}', "bad_number"),
    "infinity": ('{"a": 1e999}', "bad_number"),
    "more digits than a float has": ('{"a": 1.00000000000000000001}', "bad_number"),
    "a list": ('["x"]', "not_object"),
    "null": ("null", "not_object"),
    "too deep": ('{"a": ' + "[" * 200 + "]" * 200 + "}", "too_deep"),
    "far too deep": ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", "too_deep"),
    "half of a surrogate pair": ('{"a": "\\ud800"}', "bad_text"),
    "a NUL that is no escape": ('{"a": "\0"}', "nul"),
}


@pytest.mark.parametrize("case", JSON_LINES)
def test_a_line_that_is_no_row_is_one_finding(case: str, tmp_path: Path) -> None:
    """In JSON Lines and as an element of a list; those beside it are rows."""
    text, code = JSON_LINES[case]
    examined = look(written(tmp_path, f'{{"a": "1"}}\n{text}\n\n{{"a": "3"}}\n', "rows.jsonl"))
    assert (told(examined), examined.runnable) == ([(2, code)], 2)
    if case != "no JSON":
        examined = look(written(tmp_path, f'[{{"a": "1"}},\n{text},\n{{"a": "3"}}]', "rows.json"))
        assert (told(examined), examined.runnable) == ([(2, code)], 2)


NO_LISTS = {
    "an object": ('{"a": 1}', "holds an object; give a list of objects"),
    "a text": ('"x"', "holds no list"),
    "nothing": ("", "holds no list"),
    "a list that is not closed": ('[{"a": "1"},\n{"a"', "the list is not closed after line 2"),
    "a comma too many": ('[{"a": "1"},]', "line 1 lacks a value"),
    "a bracket too many": ('[{"a": "1"}}', "line 1 lacks a value"),
    "two lists": ("[]\n[]", r"more than one list \(line 2\)"),
}


@pytest.mark.parametrize("case", NO_LISTS)
def test_a_document_that_is_no_list_gives_no_rows(case: str, tmp_path: Path) -> None:
    """Nothing of it runs, and a sentence says why."""
    text, words = NO_LISTS[case]
    with pytest.raises(BadInput, match=words):
        look(written(tmp_path, text, "rows.json"))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | CELLS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(CELLS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.lists(st.dictionaries(CELLS, VALUES, max_size=4), max_size=5)


@settings(max_examples=50)
@given(OBJECTS, st.sampled_from([None, 1]), st.booleans())
def test_json_comes_back_as_it_is(
    tmp_path_factory: Any, rows: list[Any], indent: int | None, escaped: bool
) -> None:
    """A list, however it is laid out, and lines: nothing that JSON says is changed."""
    folder = tmp_path_factory.getbasetemp()
    path = written(folder, json.dumps(rows, indent=indent, ensure_ascii=escaped), "any.json")
    assert [row.given for row in FileRows(path).rows()] == rows
    assert [row.inputs for row in look(path, FREE).rows()] == rows
    text = "".join(json.dumps(row, ensure_ascii=escaped) + "\n" for row in rows)
    assert [row.given for row in FileRows(written(folder, text, "any.jsonl")).rows()] == rows


def test_an_element_may_be_larger_than_what_is_read_at_once(tmp_path: Path) -> None:
    """Elements are put together over the ends of chunks."""
    rows = [{"a": "x" * size, "b": '",\\["' * size} for size in (1, 70_000, 3, 200_000)]
    path = written(tmp_path, json.dumps(rows), "rows.json")
    assert [row.given for row in FileRows(path).rows()] == rows


# -------------------------------------------------------------------------------------------------------------- SQLite


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """A database with three payments."""
    path = tmp_path / "ledger.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE payments (id TEXT, amount REAL, paid INTEGER, note, file BLOB)")
        values = [("01", 1.5, 1, None, b"\0"), ("02", 2, 0, "", b""), ("03", 10**15, 1, "12", None)]
        connection.executemany("INSERT INTO payments VALUES (?, ?, ?, ?, ?)", values)
    connection.close()
    return path


LEDGER = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "amount": {"type": "number"},
        "paid": {"type": "boolean"},
        "note": {"type": "string", "default": "none"},
        "count": {"type": "integer"},
        "file": {"type": "string"},
    },
    "required": ["id", "paid"],
}


def test_a_query_gives_rows(ledger: Path) -> None:
    """NULL says nothing, an empty text is a text, 0 and 1 are false and true where those are wanted."""
    rows = look(SqliteRows(ledger, "SELECT id, amount, paid, note FROM payments ORDER BY id"), LEDGER).rows()
    assert [row.inputs for row in rows] == [
        {"id": "01", "amount": 1.5, "paid": True, "note": "none"},
        {"id": "02", "amount": 2.0, "paid": False, "note": ""},
        {"id": "03", "amount": 1e15, "paid": True, "note": "12"},
    ]


def test_text_and_bytes_of_a_query_are_what_the_plan_wants_or_findings(ledger: Path) -> None:
    """Text is read as a cell is; bytes have no JSON form."""
    counts = look(SqliteRows(ledger, "SELECT id, paid, nullif(note, '') AS count FROM payments"), LEDGER)
    assert [row.inputs.get("count") for row in counts.rows()] == [None, None, 12]
    found = look(SqliteRows(ledger, "SELECT id, paid, file FROM payments"), LEDGER)
    assert [(f.ordinal, f.line, f.column, f.code) for f in found.findings] == [
        (1, None, "file", "no_json"),
        (2, None, "file", "no_json"),
    ]


QUERIES = {
    "an unknown table": ("SELECT * FROM payment", "no such table: payment; did you mean 'payments'"),
    "an unknown column": ("SELECT amont FROM payments", "no such column: amont; did you mean 'amount'"),
    "no SQL": ("SELEC 1", "cannot be asked: near"),
    "a write": ("DELETE FROM payments", "does more than read"),
    "a write that gives rows": ("DELETE FROM payments RETURNING id", "does more than read"),
    "another file": ("ATTACH 'other.db' AS other", "does more than read"),
    "two statements": ("SELECT 1; SELECT 2", "more than one statement"),
    "nothing": ("", "gives no rows"),
}


@pytest.mark.parametrize("case", QUERIES)
def test_a_query_that_cannot_be_asked_is_a_sentence(case: str, ledger: Path) -> None:
    """And the database is what it was."""
    query, words = QUERIES[case]
    before = ledger.read_bytes()
    with pytest.raises(BadInput, match=words):
        look(SqliteRows(ledger, query), LEDGER)
    assert (ledger.read_bytes(), os.listdir(ledger.parent)) == (before, ["ledger.db"])


def test_a_database_that_is_none_is_a_sentence(tmp_path: Path) -> None:
    """Missing, or something else."""
    with pytest.raises(BadInput, match="there is no file"):
        look(SqliteRows(tmp_path / "none.db", "SELECT 1"))
    with pytest.raises(BadInput, match="file is not a database"):
        look(SqliteRows(written(tmp_path, "a,b\n" * 300), "SELECT * FROM x"))


# ------------------------------------------------------------------------------------------------------------ programs


def test_an_iterator_is_read_twice_although_it_gives_its_rows_once() -> None:
    """The first reading keeps them, in a file without a name; those that are no rows are findings."""
    rows: list[Any] = [{"a": "x"}, 5, {"a": object()}, {"a": "y", "b": "z"}]
    examined = look(iter(rows))
    assert [f.code for f in examined.findings] == ["not_object", "no_json"]
    assert [(row.ordinal, row.inputs) for row in examined.rows()] == [
        (1, {"a": "x"}),
        (4, {"a": "y", "b": "z"}),
    ]
    assert [row.ordinal for row in examined.rows()] == [1, 4]


def test_an_async_iterator_is_read_twice_too() -> None:
    """The same rows, the same digest."""

    async def rows() -> AsyncIterator[dict[str, str]]:
        for word in ("x", "y"):
            await anyio.lowlevel.checkpoint()
            yield {"a": word}

    examined = look(rows())
    assert [row.inputs for row in examined.rows()] == [{"a": "x"}, {"a": "y"}]
    assert examined.digest == look([{"a": "x"}, {"a": "y"}]).digest


def test_an_iterator_that_was_begun_is_not_begun_again() -> None:
    """Half of the rows would be taken for all."""
    source = OneShotRows(iter([{"a": "x"}, {"a": "y"}]))
    next(source.rows())
    with pytest.raises(BadInput, match="gives them once"):
        list(source.rows())


def test_what_is_kept_of_an_iterator_is_for_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The temporary file has no name, so nothing is left where the process ends."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    examined = look({"a": str(n)} for n in range(1000))
    assert (os.listdir(tmp_path), examined.runnable) == ([], 1000)


def test_a_pipe_is_read_twice(tmp_path: Path) -> None:
    """What gives its bytes once is copied."""
    path = tmp_path / "rows.csv"
    os.mkfifo(path)
    child = os.fork()
    if not child:
        path.write_text("a,b\n1,x\n2,y\n")
        os._exit(0)
    examined = look(path)
    os.waitpid(child, 0)
    assert [row.inputs["a"] for row in examined.rows()] == ["1", "2"]


WRONG: dict[str, tuple[Any, str]] = {
    "an object": ({"a": 1}, "the rows are an object; give a list"),
    "bytes": (b"a,b", "the rows are bytes"),
    "a number": (5, "the rows are a int"),
    "a file that is not there": ("nowhere.csv", "is not there"),
    "a database": ("x.sqlite", "give SqliteRows"),
    "a spreadsheet": ("x.xlsx", "save it as CSV"),
    "no suffix": ("rows", "has no suffix that says what it is"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_gives_no_rows_is_refused_with_the_next_move(case: str) -> None:
    """What it is, and what to give."""
    rows, words = WRONG[case]
    with pytest.raises(BadInput, match=words):
        look(rows)


def test_options_of_a_file_that_are_none_are_refused(tmp_path: Path) -> None:
    """With the nearest name."""
    path = written(tmp_path, "a\n1\n")
    for options, words in [
        ({"encoding": "uft-8"}, "no encoding 'uft-8'; did you mean 'utf-8'"),
        ({"encoding": "rot13"}, "no encoding 'rot13'"),
        ({"format": "cvs"}, "no format 'cvs'; did you mean 'csv'"),
        ({"delimiter": ", "}, "a delimiter is one character"),
        ({"format": "json", "delimiter": ";"}, "has no delimiter"),
    ]:
        with pytest.raises(BadInput, match=words):
            look(FileRows(path, **options))  # type: ignore[arg-type]


def test_a_missing_file_is_named_with_the_nearest(tmp_path: Path) -> None:
    """Beside what stands there."""
    written(tmp_path, "a\n", "payments.csv")
    with pytest.raises(BadInput, match=r"is not there; did you mean 'payments\.csv'"):
        look(tmp_path / "payment.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(BadInput, match="is a directory"):
        look(tmp_path / "folder.csv")


# -------------------------------------------------------------------------------------------------- digests and changes


def test_a_changed_source_is_told_by_its_rows() -> None:
    """Which differ, which were added, which are gone; the digest says whether anything does."""
    rows = [{"a": str(n)} for n in range(10)]
    before = look(rows)
    assert (before.digest, changed(before.marks, look(rows).marks)) == (look(rows).digest, "")
    other = [{"a": "x"}, *rows[1:6], {"a": "y"}]
    after = look(other)
    assert after.digest != before.digest
    assert changed(before.marks, after.marks) == "rows 1, 7 differ, and 3 rows after row 7 are gone"
    assert changed(before.marks, look([*rows, {"a": "z"}]).marks) == "1 row was added after row 10"
    assert changed(before.marks, look([{"a": "x"}] * 10).marks) == "rows 1, 2, 3, 4, 5 and 5 more differ"


def test_a_row_that_could_not_run_is_part_of_the_digest() -> None:
    """Who mends it has changed the source."""
    before, after = look([{"a": "x"}, {"b": "y"}]), look([{"a": "x"}, {"a": "y"}])
    assert changed(before.marks, after.marks) == "row 2 differs"


def test_the_digest_is_of_the_inputs_and_not_of_how_they_are_written(tmp_path: Path) -> None:
    """The same rows as CSV and as JSON are the same rows; a row has the digest of its inputs."""
    from foreplan.policies.canonical import digest

    text, data = look(written(tmp_path, "b,a\nx,1\n")), look([{"a": "1", "b": "x"}])
    assert text.digest == data.digest
    assert [row.digest for row in text.rows()] == [digest({"a": "1", "b": "x"})]


def test_a_source_that_changes_between_its_readings_is_refused(tmp_path: Path) -> None:
    """What was checked is what runs."""
    path = written(tmp_path, "a\n1\n2\n")
    examined = look(path)
    written(tmp_path, "a\n1\n3\n")
    with pytest.raises(BadInput, match="changed while it was read: row 2 is not what was checked"):
        list(examined.rows())
    written(tmp_path, "a\n1\n")
    with pytest.raises(BadInput, match="it has 1 row, and 2 were checked"):
        list(examined.rows())


def test_strict_refuses_all_rows_for_one(tmp_path: Path) -> None:
    """With the first findings in the sentence, and all of them counted."""
    path = written(tmp_path, "a,b\n" + "x\n" * 200 + "1,2\n")
    with pytest.raises(
        RowsRefused, match=r"200 rows of the file .* cannot run, and nothing ran: line 2: .* and 197 more"
    ) as caught:
        look(path, strict=True)
    assert (len(caught.value.findings), caught.value.found) == (100, 200)
    assert look(path).found == {"too_few_cells": 200}


@pytest.mark.parametrize("form", ["csv", "jsonl", "json", "iterator", "query"])
def test_memory_does_not_grow_with_the_rows(form: str, tmp_path: Path) -> None:
    """2,000 rows of 100 bytes are read twice in a fraction of the memory they would take."""
    examined_of = {"iterator": lambda: look(many()), "query": lambda: look(query(tmp_path))}
    path = tmp_path / f"rows.{form}"
    if form == "csv":
        path.write_text("a,b\n" + "".join(f"{row['a']},{row['b']}\n" for row in many()))
    elif form == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in many()))
    elif form == "json":
        path.write_text(json.dumps(list(many())))
    look([{"a": "x"}])
    tracemalloc.start()
    examined = examined_of.get(form, lambda: look(path))()
    count = sum(1 for _ in examined.rows())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 2_000
    assert peak < 600_000  # kept as dicts they are 1 MB


def many() -> Iterator[dict[str, str]]:
    """Rows of 100 bytes."""
    return ({"a": str(n), "b": "x" * 90} for n in range(2_000))


def query(folder: Path) -> SqliteRows:
    """The same from a database."""
    with sqlite3.connect(folder / "many.db") as connection:
        connection.execute("CREATE TABLE many (a TEXT, b TEXT)")
        connection.executemany("INSERT INTO many VALUES (:a, :b)", many())
    connection.close()
    return SqliteRows(folder / "many.db", "SELECT a, b FROM many ORDER BY rowid")


def test_every_code_of_a_finding_is_explained() -> None:
    """The table of codes names what the sources say, and no other."""
    import re

    from foreplan.executor import batches

    folder = Path(next(iter(batches.__path__)))
    texts = "".join((folder / f"{name}.py").read_text() for name in (
        "lines", "csv_rows", "json_rows", "strict_json", "sources", "cells", "fitting",
    ))  # fmt: skip
    assert {code for code in CODES if re.search(f'"{code}"', texts)} == set(CODES)


def test_a_finding_is_a_sentence_with_its_place() -> None:
    """Line where there is one, else the ordinal."""
    assert str(RowFinding(3, 1204, "a", "/a", "x", "is wrong")) == "line 1,204: is wrong"
    assert str(RowFinding(3, None, "", "", "x", "is\x1b wrong")) == "row 3: is\\x1b wrong"


def test_a_source_of_ones_own_is_a_source() -> None:
    """Whatever has `rows` is asked for them."""
    source = GivenRows([{"a": "x"}])
    assert open_source(source) is source
