"""Cells and columns of a batch become the inputs that the plan declares, or findings; never something else in silence."""

from __future__ import annotations

import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foreplan.executor.batches.examining import Examined, examine
from foreplan.executor.batches.fitting import Fitting
from foreplan.executor.batches.rows import SourceRow
from foreplan.executor.batches.sources import GivenRows
from foreplan.policies.errors import BadInput


class Cells(GivenRows):
    """Rows whose values are text, as those of CSV are."""

    reads = "text"

    def __init__(self, rows: list[dict[str, str]], columns: tuple[str, ...] | None = None) -> None:
        super().__init__(rows)
        self.columns = columns or tuple(rows[0])  # type: ignore[assignment]


def fit(schema: Any, cell: str, *, required: bool = False) -> Any:
    """What one cell becomes: the inputs, or the code and the sentence of its finding."""
    inputs = {"type": "object", "properties": {"x": schema}, "required": ["x"] if required else []}
    fitted = Fitting(inputs, Cells([{"x": cell}])).fit(SourceRow(1, 2, {"x": cell}))
    return [(f.code, f.sentence) for f in fitted.faults] or fitted.inputs.get("x", "absent")


def look(schema: dict[str, Any], rows: Any, **options: Any) -> Examined:
    """The first reading."""

    async def main() -> Examined:
        return await examine(schema, rows, **options)

    return anyio.run(main)


READ: dict[str, tuple[Any, str, Any]] = {
    "zeros in front of a text": ({"type": "string"}, "01234", "01234"),
    "blanks around a text": ({"type": "string"}, "  x ", "  x "),
    "a text that looks like a list": ({"type": "string"}, "[1]", "[1]"),
    "a date": ({"type": "string", "format": "date"}, "2024-02-29", "2024-02-29"),
    "no type at all": ({}, "12", "12"),
    "a whole number": ({"type": "integer"}, "-12", -12),
    "a whole number with blanks": ({"type": "integer"}, " 12 ", 12),
    "a whole number beyond 64 bits": ({"type": "integer"}, "9" * 40, int("9" * 40)),
    "a whole number as a number": ({"type": "number"}, "12", 12),
    "a decimal": ({"type": "number"}, "12.30", 12.3),
    "a decimal with an exponent": ({"type": "number"}, "1.5E-3", 0.0015),
    "true": ({"type": "boolean"}, "TRUE", True),
    "yes": ({"type": "boolean"}, "yes", True),
    "0": ({"type": "boolean"}, "0", False),
    "a list": ({"type": "array"}, '[1, "x", null]', [1, "x", None]),
    "an object": ({"type": "object"}, '{"a": 1.50}', {"a": 1.5}),
    "one of texts": ({"enum": ["a", "b"]}, "b", "b"),
    "one of numbers": ({"enum": [1, 2]}, "2", 2),
    "one of texts and numbers": ({"enum": ["auto", 2]}, "2", 2),
    "one of texts and numbers, a text": ({"enum": ["auto", 2]}, "auto", "auto"),
    "text or number": ({"type": ["string", "integer"]}, "2", "2"),
    "number or true": ({"type": ["integer", "boolean"]}, "1", 1),
    "number or true, a word": ({"type": ["integer", "boolean"]}, "yes", True),
    "number or list": ({"anyOf": [{"type": "integer"}, {"type": "array"}]}, "[2]", [2]),
    "number or null": ({"type": ["integer", "null"]}, "null", None),
    "text or null": ({"type": ["string", "null"]}, "null", "null"),
    "nothing": ({"type": "integer"}, "", "absent"),
    "nothing, with a default": ({"type": "integer", "default": 7}, "", 7),
    "nothing, where null may be": ({"type": ["integer", "null"]}, "", "absent"),
}


@pytest.mark.parametrize("case", READ)
def test_a_cell_becomes_what_the_plan_wants(case: str) -> None:
    """The table of `cells.py`, row by row; the type is exact."""
    schema, cell, value = READ[case]
    found = fit(schema, cell)
    assert (found, type(found)) == (value, type(value))


REFUSED: dict[str, tuple[Any, str, str, str]] = {
    "zeros in front": ({"type": "integer"}, "007", "wrong_cell", "must be a number, not the text '007'; zeros in front are kept only where the plan wants text"),
    "a plus": ({"type": "integer"}, "+7", "wrong_cell", "must be a number, not the text '+7'; write it without a plus sign"),
    "a fraction": ({"type": "integer"}, "7.5", "wrong_value", "must be a whole number, not 7.5"),
    "a comma": ({"type": "number"}, "12,50", "wrong_cell", "must be a number, not the text '12,50'; write a decimal point, and no sign between thousands"),
    "thousands": ({"type": "number"}, "1,234.50", "wrong_cell", "must be a number, not the text '1,234.50'; write a decimal point, and no sign between thousands"),
    "digits of another script": ({"type": "integer"}, "٣", "wrong_cell", "must be a number, not the text '٣'"),
    "an underscore": ({"type": "integer"}, "1_000", "wrong_cell", "must be a number, not the text '1_000'"),
    "hexadecimal": ({"type": "integer"}, "0x1F", "wrong_cell", "must be a number, not the text '0x1F'"),
    "NaN": ({"type": "number"}, "nan", "wrong_cell", "must be a number, not the text 'nan'"),
    "too large": ({"type": "number"}, "1e999", "bad_number", "holds the number 1e999, which is too large"),
    "too small": ({"type": "number"}, "1e-999", "bad_number", "holds the number 1e-999, of which 0.0 would be left; write it as text"),
    "too exact": ({"type": "number"}, "12345678901234567.89", "bad_number", "holds the number 12345678901234567.89, of which 1.2345678901234568e+16 would be left; write it as text"),
    "too long": ({"type": "integer"}, "9" * 401, "bad_number", "holds a number of 401 digits"),
    "another word": ({"type": "boolean"}, "ja", "wrong_cell", "must be true or false (yes, no, 1, 0), not the text 'ja'"),
    "no JSON": ({"type": "array"}, "1,2", "wrong_cell", "is no JSON: Extra data (character 2); write the value as JSON"),
    "another kind": ({"type": "array"}, '{"a": 1}', "wrong_cell", "must be a list as JSON, not the text '{\"a\": 1}'"),
    "a key twice": ({"type": "object"}, '{"a": 1, "a": 2}', "duplicate_key", "says the key 'a' twice in one object"),
    "NaN inside": ({"type": "array"}, "[NaN]", "bad_number", "holds NaN, which is no number of JSON"),
    "another date": ({"type": "string", "format": "date"}, "29.2.2024", "wrong_value", "must be a date, like 2024-02-29, not the text '29.2.2024'"),
    "none of these": ({"enum": ["red", "blue"]}, "blu", "wrong_value", "must be 'red' or 'blue', not the text 'blu'; did you mean 'blue'?"),
    "too large for the schema": ({"type": "integer", "maximum": 10}, "11", "wrong_value", "must be at most 10, not 11"),
    "neither": ({"type": ["integer", "boolean"]}, "x", "wrong_cell", "must be a number or true or false, not the text 'x'"),
    "inside": ({"type": "object", "properties": {"a": {"type": "integer"}}}, '{"a": "x"}', "wrong_value", "at /a must be a whole number, not the text 'x'"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_cell_that_is_something_else_is_a_finding(case: str) -> None:
    """With the column, what is wanted, what is there, and how to write it."""
    schema, cell, code, sentence = REFUSED[case]
    assert fit(schema, cell) == [(code, f"column 'x' {sentence}")]


def test_an_empty_cell_says_nothing() -> None:
    """Required: a finding, null where that may be, or the default."""
    assert fit({"type": "string"}, "", required=True) == [
        ("missing", "column 'x' is empty, and the plan requires 'x'")
    ]
    assert fit({"type": ["string", "null"]}, "", required=True) is None
    assert fit({"type": "string", "default": "d"}, "", required=True) == "d"


def test_a_finding_has_the_place_in_the_source_and_in_the_inputs() -> None:
    """Line, column, JSON Pointer; the column by its name in the source."""
    schema = {"type": "object", "properties": {"a/b": {"type": "array", "items": {"type": "integer"}}}}
    found = look(schema, Cells([{"Spalte": "[1, null]"}]), columns={"a/b": "Spalte"}).findings[0]
    assert found[:5] == (1, None, "Spalte", "/a~1b/1", "wrong_value")


WHOLE = st.integers(-(10**30), 10**30)
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, places=6)


@given(st.text(max_size=20))
def test_text_stays_what_it_is(cell: str) -> None:
    """Whatever it looks like."""
    assert cell == "" or fit({"type": "string"}, cell) == cell


@given(WHOLE | DECIMALS)
def test_a_number_is_that_number_or_a_finding(number: int | Decimal) -> None:
    """All of its digits, or none."""
    found = fit({"type": "number"}, format(number, "f") if isinstance(number, Decimal) else str(number))
    if isinstance(found, list):
        assert [code for code, _ in found] == ["bad_number"]
        assert Decimal(repr(float(number))) != number
    else:
        assert Decimal(repr(found)) == number


@given(st.text("0123456789+-.,eE_ xnaif", max_size=8))
def test_what_becomes_a_number_is_one_in_json(cell: str) -> None:
    """No other spelling is taken for a number."""
    found = fit({"type": "number"}, cell)
    if isinstance(found, int | float):
        import json

        assert json.loads(cell) == found


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
KINDS = ["string", "integer", "number", "boolean", "null", "array", "object"]


@settings(max_examples=200)
@given(VALUES, st.lists(st.sampled_from(KINDS), min_size=1, max_size=3, unique=True))
def test_what_json_says_is_never_changed(value: Any, kinds: list[str]) -> None:
    """A value of JSON goes in as it is or is a finding: "1" is no 1, 1 is no true, and null is null."""
    schema = {"type": "object", "properties": {"x": {"type": kinds}}}
    inputs, faults = Fitting(schema, GivenRows([])).fit(SourceRow(1, None, {"x": value}))
    assert faults or (inputs == {"x": value} and type(inputs["x"]) is type(value))


# ------------------------------------------------------------------------------------------------------------- columns

ORDER = {
    "type": "object",
    "properties": {
        "customer": {"type": "string"},
        "amount": {"type": "number"},
        "note": {"type": "string"},
    },
    "required": ["customer", "amount"],
}


def test_columns_are_inputs_by_their_name_or_as_they_are_mapped() -> None:
    """Blanks around a name in a header do not count; what is no input is said once."""
    rows = Cells([{"kunde": "ada", " amount ": "5", "x": "1", "y": "2"}])
    examined = look(ORDER, rows, columns={"customer": "kunde"})
    assert [row.inputs for row in examined.rows()] == [{"customer": "ada", "amount": 5}]
    assert examined.notes == ("the columns 'x', 'y' are no input of the plan",)


def test_a_column_that_is_mapped_is_no_other_input() -> None:
    """A column `note` that is the customer is not the note too."""
    examined = look(ORDER, Cells([{"note": "ada", "amount": "5"}]), columns={"customer": "note"})
    assert [row.inputs for row in examined.rows()] == [{"customer": "ada", "amount": 5}]


COLUMNS: dict[str, tuple[Any, Any, str]] = {
    "a required input without a column": (Cells([{"custmer": "a", "amount": "1"}]), None, r"no column for the input 'customer', which the plan requires, in the rows; did you mean 'custmer'\? Say which it is: columns=\{'customer': …\}"),
    "the same in JSON": ([{"custmer": "a", "amount": 1}] * 3, None, r"no column for the input 'customer'"),
    "a column that is not there": (Cells([{"customer": "a", "amount": "1"}]), {"note": "notes"}, "there is no column 'notes' .for the input 'note'. in the rows"),
    "the same in JSON rows": ([{"customer": "a", "amount": 1, "Note": "x"}], {"note": "note2"}, "no column 'note2'.*did you mean 'Note'"),
    "an input that is not there": (Cells([{"customer": "a", "amount": "1"}]), {"amout": "amount"}, "the plan has no input 'amout'; did you mean 'amount'"),
    "columns that are no names": (Cells([{"customer": "a"}]), {"note": 3}, "the columns must be names for names"),
    "columns that are no object": (Cells([{"customer": "a"}]), ["note"], "the columns must be a Mapping, not list"),
}  # fmt: skip


@pytest.mark.parametrize("case", COLUMNS)
def test_what_is_wrong_with_columns_is_said_once_before_any_row(case: str) -> None:
    """Not a finding for each of ten thousand rows."""
    rows, columns, words = COLUMNS[case]
    with pytest.raises(BadInput, match=words):
        look(ORDER, rows, columns=columns)


def test_a_plan_without_inputs_has_no_rows() -> None:
    """Every row would run alike."""
    with pytest.raises(BadInput, match="declares no inputs"):
        anyio.run(examine, None, [{"a": 1}])


def test_a_plan_that_takes_any_input_takes_every_column() -> None:
    """From cells and from JSON."""
    assert [r.inputs for r in look({"type": "object"}, Cells([{"a": "1"}])).rows()] == [{"a": "1"}]
    assert [r.inputs for r in look({"type": "object"}, [{"a": 1}, {"b": 2}]).rows()] == [{"a": 1}, {"b": 2}]


def test_defaults_are_applied_at_every_level() -> None:
    """As for a single run."""
    address = {"type": "object", "properties": {"land": {"type": "string", "default": "DE"}}}
    schema = {"type": "object", "properties": {"to": address, "n": {"type": "integer", "default": 3}}}
    assert [row.inputs for row in look(schema, [{"to": {}}]).rows()] == [{"to": {"land": "DE"}, "n": 3}]


def test_a_row_of_json_that_lacks_an_input_is_a_finding() -> None:
    """Where others have it."""
    examined = look(ORDER, [{"customer": "a", "amount": 1}, {"customer": "b"}])
    assert [(f.ordinal, f.code, f.sentence) for f in examined.findings] == [
        (2, "missing", "column 'amount' is not there, and the plan requires 'amount'")
    ]


@pytest.mark.proof
def test_a_row_of_five_columns_costs_less_than_30_microseconds(tmp_path: Path) -> None:
    """Read, fitted, checked and digested, of processor time; a million rows lose none."""
    kinds = {"id": "string", "amount": "number", "n": "integer", "ok": "boolean", "day": "string"}
    schema = {"type": "object", "properties": {name: {"type": kind} for name, kind in kinds.items()}}
    path = tmp_path / "rows.csv"
    with open(path, "w") as file:
        file.write(",".join(kinds) + "\n")
        file.writelines(f"0{n},{n}.{n % 100:02d},{n},yes,2024-02-29\n" for n in range(1_000_000))
    began = time.process_time()
    examined = look(schema, path)
    each = (time.process_time() - began) / 1_000_000 * 1e6
    assert (examined.runnable, len(examined.marks)) == (1_000_000, 8_000_000)
    assert each < 30
