"""From the columns of a source to the inputs of a plan: which column is which input, and each row's values as the plan wants them.

What is wrong with the columns as such is told once, as `BadInput`; what is wrong with a row is a finding of that row. An input
for which a row says nothing (an empty cell, NULL, no such key) has its default; one that is required and may be null is null;
one that is required otherwise is missing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ...planner.inputs import with_defaults
from ...policies.errors import BadInput, expect
from ...policies.text import did_you_mean, shorten
from ...registry.decoding import members_of
from ...registry.schema import compile_schema
from ...registry.sentences import Problem
from ...registry.values import Json, Unserialisable, pointer, to_plain
from .cells import Convert, converter
from .rows import RowFinding, SourceRow
from .sources import Source
from .strict_json import Unfit

__all__ = ["Fitted", "Fitting"]

_MANY = 1_000
"""Names of columns that are remembered where rows bring their own."""


class Fitted(NamedTuple):
    """The inputs that a row gives, or its findings."""

    inputs: dict[str, Json]
    faults: tuple[RowFinding, ...] = ()


class Fitting:
    """How the rows of one source become inputs. `columns` says by input which column it is; others go by their name.

    `constants` are inputs that are the same for every row, whatever its columns say. Raises `BadInput` for columns and inputs
    that are not there, and for a constant that no row could have.
    """

    def __init__(
        self,
        inputs: Mapping[str, Any] | None,
        source: Source,
        columns: Mapping[str, str] | None = None,
        constants: Mapping[str, Any] | None = None,
    ) -> None:
        if inputs is None:
            raise BadInput("the plan declares no inputs, so every row would run alike; say them in `inputs`")
        self.document = inputs
        self.schema = compile_schema(inputs, closed=True)
        self.members = members_of(self.schema)
        self.source = source
        self.said = _checked(columns)
        self.constants = _plain(constants, self.said)
        self.defaults = {**with_defaults(inputs, {}), **self.constants}
        self._has_defaults = '"default"' in json.dumps(inputs)
        self._empty = "" if source.reads == "text" else None
        self._refuse_unknown_inputs()
        self._refuse_unfit_constants()
        known = source.columns
        self.seen = dict.fromkeys(known or ())
        """Columns that came, in order; all of them, where they are known before the rows."""
        self._bound = self._by_header() if known is not None else self._by_key()
        self._unseen = set() if known is not None else {column for column, _ in self._bound.values()}
        if known is not None:
            self._refuse_absent(self._bound)

    # -------------------------------------------------------------------------------------------------------- columns

    def _refuse_unknown_inputs(self) -> None:
        known = self.members.kinds
        for name in (*self.said, *self.constants):
            if name not in known and not self.members.others:
                guess = did_you_mean(name, known) or f"; it has {_listed(known)}"
                raise BadInput(f"the plan has no input {_quoted(name)}{guess}")

    def _refuse_unfit_constants(self) -> None:
        for name, value in self.constants.items():
            for problem in self._problems_of(name, value):
                raise BadInput(f"the constant {_quoted(name)} {problem.message}")

    def _by_key(self) -> dict[str, tuple[str, Convert | None]]:
        """The inputs that rows may have, where each row brings its own columns and its values are what they say."""
        return {name: (self.said.get(name, name), None) for name in self._named()}

    def _by_header(self) -> dict[str, tuple[str, Convert | None]]:
        """The inputs that there are columns for, and what reads their cells."""
        bare = {column.strip(): column for column in reversed(self.seen)}
        wanted = {name: self.said.get(name, name) for name in self._named()}
        if self.members.others:
            taken = {*wanted, *wanted.values(), *self.constants}
            wanted |= {name: name for name in self.seen if name not in taken}
        found = {name: c if c in self.seen else bare.get(c) for name, c in wanted.items()}
        return {name: (c, self._converter(name)) for name, c in found.items() if c is not None}

    def _named(self) -> Iterator[str]:
        """The inputs that columns are looked for: those that were mapped, and others whose name no mapping took."""
        taken = {*self.said.values(), *self.said, *self.constants}
        yield from self.said
        yield from (name for name in self.members.kinds if name not in taken)

    def _refuse_absent(self, came: Iterable[str]) -> None:
        """Raises for columns that were named and did not come, and for inputs that need one and have none."""
        there = set(came)
        for name, column in self.said.items():
            if name not in there:
                guess = (
                    self._other_mark() or did_you_mean(column, self.seen) or f"; it has {_listed(self.seen)}"
                )
                what = f"no column {_quoted(column)} (for the input {_quoted(name)})"
                raise BadInput(f"there is {what} in {self.source.name}{guess}")
        for name in self.members.kinds:
            if name in self.members.required and name not in there and name not in self.defaults:
                raise BadInput(self._no_column(name))

    def _no_column(self, name: str) -> str:
        columns = list(self.seen)
        guess = did_you_mean(name, columns) or f"; it has {_listed(columns)}."
        hint = self._other_mark() or f"{guess} Say which it is: columns={{{name!r}: …}}, or --map {name}=…"
        what = f"no column for the input {_quoted(name)}, which the plan requires,"
        return f"there is {what} in {self.source.name}{hint}"

    def _other_mark(self) -> str:
        """A question, where the one column looks like several with another delimiter between them."""
        columns = list(self.seen)
        marks = [mark for mark in (";", "\t", "|") if len(columns) == 1 and mark in columns[0]]
        return f"; is it written with delimiter={marks[0]!r} (--delimiter)?" if marks else ""

    def finish(self) -> tuple[str, ...]:
        """What there is to say of the columns when all rows came. Raises `BadInput` for some that never did."""
        if self.source.columns is None and self.seen:
            self._refuse_absent(n for n, (column, _) in self._bound.items() if column not in self._unseen)
        unused = self.unused()
        if not unused:
            return ()
        many = len(unused) > 1
        said = f"{'columns' if many else 'column'} {_listed(unused)} {'are' if many else 'is'}"
        return (f"the {said} no input of the plan",)

    def columns_by_input(self) -> dict[str, str]:
        """Which column each input is that has one; where rows bring their own, those that came."""
        known = self.source.columns is not None
        return {name: column for name, (column, _) in self._bound.items() if known or column in self.seen}

    def unused(self) -> list[str]:
        """Columns that are no input."""
        used = {column for column, _ in self._bound.values()}
        open_ = self.members.others and self.source.columns is None
        return [] if open_ else [name for name in self.seen if name not in used]

    # ----------------------------------------------------------------------------------------------------------- rows

    def fit(self, row: SourceRow) -> Fitted:
        """The inputs of a row, checked, or what is wrong with them."""
        given = row.given
        if given is None:
            return Fitted({}, row.faults)
        inputs: dict[str, Json] = {}
        faults: list[RowFinding] = []
        empty = self._empty
        for name, (column, convert) in self._bound.items():
            value = given.get(column, _NOTHING)
            if value is _NOTHING or (convert is not None and value == empty):
                self._say_nothing(row, name, column, inputs, faults)
            elif convert is None:
                inputs[name] = value
            else:
                try:
                    inputs[name] = convert(value)
                except Unfit as unfit:
                    faults.append(_finding(row, column, pointer(name), unfit.code, str(unfit)))
        if self.source.columns is None:
            self._take_note(given, inputs)
        inputs.update(self.constants)
        if self._has_defaults:
            inputs = with_defaults(self.document, inputs)
        if not faults:
            faults = [self._misfit(row, problem) for problem in self.schema.problems(inputs)]
        return Fitted(inputs, tuple(faults))

    def _say_nothing(
        self, row: SourceRow, name: str, column: str, inputs: dict[str, Json], faults: list[RowFinding]
    ) -> None:
        """An input for which the row says nothing."""
        if name not in self.members.required or name in self.defaults:
            return
        if (self._empty == "" and "null" in self.members.kinds[name]) or (
            self.source.columns is not None and "null" in self.members.kinds[name]
        ):
            inputs[name] = None
        else:
            said = f"is {'empty' if column in (row.given or ()) else 'not there'}, and the plan requires {_quoted(name)}"
            faults.append(_finding(row, column, pointer(name), "missing", said))

    def _take_note(self, given: Mapping[str, Any], inputs: dict[str, Json]) -> None:
        """Remember the columns of a row that brings its own; those without a name in the plan, where it takes any."""
        if len(self.seen) < _MANY:
            self.seen.update(dict.fromkeys(given))
        if self._unseen:
            self._unseen.difference_update(given)
        if self.members.others:
            used = {column for column, _ in self._bound.values()}
            inputs.update({k: v for k, v in given.items() if k not in used and k not in inputs})

    def _misfit(self, row: SourceRow, problem: Problem) -> RowFinding:
        name, _, within = problem.pointer[1:].partition("/")
        name = name.replace("~1", "/").replace("~0", "~")
        column = self._bound[name][0] if name in self._bound else name
        code = "missing" if problem.rule == "required" else "wrong_value"
        said = f"at /{within} {problem.message}" if within else problem.message
        return _finding(row, column, problem.pointer, code, said)

    # ---------------------------------------------------------------------------------------------------------- values

    def _converter(self, name: str) -> Convert:
        kinds = self.members.kinds.get(name, _ANY)
        read = converter(kinds, self._taker(name))
        return read if self.source.reads == "text" else _of_query(read, kinds)

    def _taker(self, name: str) -> Callable[[Json], bool]:
        """Whether the schema takes a value for this input, whatever the others are."""
        return lambda value: not self._problems_of(name, value)

    def _problems_of(self, name: str, value: Json) -> list[Problem]:
        """What the schema says against a value of one input, whatever the others are."""
        loose = compile_schema({k: v for k, v in self.document.items() if k != "required"}, closed=True)
        place = pointer(name)
        found = loose.problems({name: value})
        return [p for p in found if p.pointer == place or p.pointer.startswith(place + "/")]


def _of_query(read: Convert, kinds: frozenset[str]) -> Convert:
    """What reads a value of SQLite, which has types of its own, but neither true and false nor lists."""

    def convert(value: Any) -> Json:
        if type(value) is str:
            return value if "string" in kinds else read(value)
        if type(value) is bytes:
            raise Unfit("no_json", "holds bytes (a BLOB); select hex(…) or cast(… as text)")
        if type(value) is int and value in (0, 1) and "number" not in kinds and "boolean" in kinds:
            return bool(value)
        return value

    return convert


def _finding(row: SourceRow, column: str, place: str, code: str, said: str) -> RowFinding:
    subject = f"column {_quoted(column)}" if column else "the row"
    return RowFinding(row.ordinal, row.line, column, place, code, f"{subject} {said}")


def _checked(columns: Mapping[str, str] | None) -> dict[str, str]:
    hint = "give an object: the input, and the column that it is"
    if columns is None:
        return {}
    expect(Mapping, columns, "the columns", hint)
    for name, column in columns.items():
        if not isinstance(name, str) or not isinstance(column, str):
            raise BadInput(f"the columns must be names for names; {hint}")
    return dict(columns)


def _plain(constants: Mapping[str, Any] | None, columns: Mapping[str, str]) -> dict[str, Json]:
    """What is the same for every row, as plain JSON."""
    if constants is None:
        return {}
    expect(Mapping, constants, "the constants", "give an object: the input, and its value")
    for name in constants:
        if name in columns:
            raise BadInput(f"the input {_quoted(name)} is given twice: as a constant and as a column")
    try:
        plain: dict[str, Json] = to_plain(dict(constants))
    except Unserialisable as error:
        raise BadInput(f"a constant has no JSON form: {error}") from None
    return plain


def _quoted(name: str) -> str:
    return f"'{shorten(name, 60)}'"


def _listed(names: Iterable[str]) -> str:
    found = list(names)
    shown = ", ".join(_quoted(name) for name in found[:8])
    return (f"{shown} and {len(found) - 8} more" if len(found) > 8 else shown) or "none"


_ANY = frozenset({"string", "number", "boolean", "null", "array", "object"})


class _Nothing:
    """A column that a row does not have."""


_NOTHING = _Nothing()
