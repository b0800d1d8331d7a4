"""Where rows come from: files, queries, lists, iterators; each gives its rows in order, twice, in bounded memory.

    what is given                          read again by
    path to .csv .tsv .jsonl .ndjson .json  opening it again (what is no file, a pipe, is copied to a temporary file first)
    SqliteRows(path, query)                asking again
    list, or another iterable              iterating again
    iterator, async iterable               a temporary file that the first reading writes (JSON Lines, nobody else's, gone
                                           with the process)

Whether both readings gave the same is for who reads to hold (`examining.py`).
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol, TypeAlias, cast

from ...policies.errors import BadInput
from ...policies.spelling import spelled
from ...policies.text import count, did_you_mean, shorten
from ...registry.values import Json, Unserialisable, to_plain
from .csv_rows import Record, records
from .formulas import original
from .headers import OWN, RAW, is_own, unique_names, without_own
from .json_rows import JsonRecord, elements, json_lines
from .lines import encoding_of, lines, readable, text_of
from .rows import RowFinding, SourceRow
from .spool import Spool, temporary_file

__all__ = ["AsyncRows", "FileRows", "GivenRows", "OneShotRows", "Rows", "Source", "no_rows", "open_source"]

Format: TypeAlias = Literal["csv", "tsv", "jsonl", "json"]
Reads: TypeAlias = Literal["text", "query", "json"]
Rows: TypeAlias = "str | os.PathLike[str] | Source | Iterable[Any] | AsyncIterable[Any]"

_SUFFIXES: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
}
_SEP = re.compile(r"sep=([^\"\r\n\0])(\r\n|\r|\n)?", re.IGNORECASE)
"""The line by which Excel tells, and is told, the delimiter of the lines below."""
_DATABASES = (".db", ".sqlite", ".sqlite3", ".db3")
_SHEETS = (".xlsx", ".xls", ".ods", ".numbers")


class Source(Protocol):
    """Rows that can be read more than once."""

    name: str
    """For sentences: the file '…', the query to '…', the rows."""

    @property
    def reads(self) -> Reads:
        """How values are meant: text without types, what a query gives, or JSON that is what it says."""

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns, where they are known before a row is read."""

    @property
    def files(self) -> tuple[Path, ...]:
        """Files that are read, and that no output may overwrite."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What else there is to say about it, once it was read."""

    def rows(self) -> Iterator[SourceRow]:
        """Every row, in order. Raises `BadInput` where it cannot be read as a whole."""


def open_source(rows: Rows) -> Source:
    """The source that is given. Raises `BadInput`."""
    if isinstance(rows, (str, os.PathLike)):
        return FileRows(rows)
    if isinstance(rows, (bytes, bytearray, Mapping)):
        what = "an object" if isinstance(rows, Mapping) else "bytes"
        raise BadInput(f"the rows are {what}; give a list of objects, an iterator, or the path of a file")
    if callable(getattr(rows, "rows", None)):
        return cast(Source, rows)
    if isinstance(rows, AsyncIterable):
        return AsyncRows(rows)
    if isinstance(rows, Iterator):
        return OneShotRows(rows)
    if isinstance(rows, Iterable):
        return GivenRows(rows)
    raise BadInput(
        f"the rows are a {type(rows).__name__}; give a list of objects, an iterator, or the path of a file"
    )


@spelled
class FileRows:
    """The rows of a file: CSV, TSV, JSON Lines, or one JSON list; by its suffix, or as `format` says.

    `encoding` and `delimiter` are what they are in the file: UTF-8 unless it begins with a mark (BOM) that says otherwise,
    and a comma (a tab in TSV) unless the first line is `sep=;`, as Excel has it. The first line of CSV names the columns.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        format: Format | None = None,
        encoding: str | None = None,
        delimiter: str | None = None,
    ) -> None:
        self.path = Path(os.path.abspath(os.fspath(path)))
        self.name = f"the file {shorten(repr(os.fspath(path)), 200)}"
        self.format = format or self._by_suffix()
        self.encoding = encoding
        self.delimiter = self._delimiter(delimiter)
        """The one that is said, or what the first line says of it once that is read."""
        self._given = delimiter is not None
        self._told = False
        self._copy: BinaryIO | None = None
        self._blank = 0
        self._own = False
        _expect_format(self.format)

    @property
    def reads(self) -> Reads:
        return "text" if self.format in ("csv", "tsv") else "json"

    @property
    def files(self) -> tuple[Path, ...]:
        return (self.path,)

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(self._notes())

    def _notes(self) -> Iterator[str]:
        with self._open() as file:
            encoding = encoding_of(_beginning(file), self.encoding)
        if self.encoding is None and encoding in ("utf-16", "utf-32"):
            yield f"{self.name} was read as {encoding.upper()}, as the mark at its beginning says"
        if self._told:
            yield f"{self.name} was read with the delimiter {self.delimiter!r}, as its first line says"
        if self._blank:
            yield f"{count(self._blank, 'blank line')} passed over in {self.name}"
        if self._own:
            yield f"{self.name} was written by foreplan; its own columns ({OWN[0]}, …) were passed over"

    @cached_property
    def columns(self) -> tuple[str, ...] | None:
        if self.reads == "json":
            return None
        with self._open() as file:
            encoding = encoding_of(_beginning(file), self.encoding)
            header = self._header(self._records(file, encoding))
        return header[len(OWN) :] if is_own(header) else header

    def rows(self) -> Iterator[SourceRow]:
        with self._open() as file:
            encoding = encoding_of(_beginning(file), self.encoding)
            if self.reads == "text":
                yield from self._csv(self._records(file, encoding))
            elif self.format == "jsonl":
                yield from self._objects(json_lines(lines(file, encoding), encoding))
            else:
                with text_of(file, encoding) as text:
                    yield from self._objects(elements(text.read, self.name, encoding))

    # ------------------------------------------------------------------------------------------------------------ CSV

    def _records(self, file: BinaryIO, encoding: str) -> Iterator[Record]:
        """The records of the file; a line that only says the delimiter counts as a blank one."""
        texts = lines(file, encoding)
        first = next(texts, "")
        said = _SEP.fullmatch(first)
        if said is not None:
            first = said[2] or ""
            if not self._given:
                self.delimiter, self._told = said[1], True
        return records(chain([first], texts) if first else texts, self.delimiter, encoding)

    def _header(self, found: Iterator[Record]) -> tuple[str, ...]:
        record = next((r for r in found if r.cells or r.code), None)
        if record is None:
            raise BadInput(f"{self.name} is empty; its first line must name the columns")
        if record.code:
            raise BadInput(f"the header of {self.name} (line {record.line:,}) {record.sentence}")
        cells = record.cells
        return unique_names(map(original, cells) if is_own(cells) else cells)

    def _csv(self, found: Iterator[Record]) -> Iterator[SourceRow]:
        header = self._header(found)
        self._own = own = is_own(header)
        width, ordinal, blank = len(header), 0, 0
        for line, cells, raw, code, sentence in found:
            if not cells and not code:
                blank += 1
                continue
            ordinal += 1
            if code:
                yield _unreadable(ordinal, line, raw, code, sentence)
            elif len(cells) != width:
                yield self._ragged(ordinal, line, cells, header)
            elif own:
                yield _from_own(ordinal, line, dict(zip(header, map(original, cells), strict=True)))
            else:
                yield SourceRow(ordinal, line, dict(zip(header, cells, strict=True)))
        self._blank = blank

    def _ragged(self, ordinal: int, line: int, cells: list[str], header: tuple[str, ...]) -> SourceRow:
        few = len(cells) < len(header)
        sentence = f"has {count(len(cells), 'cell')}, and the header names {count(len(header), 'column')}"
        if len(cells) == 1 and (other := _other_delimiter(cells[0], self.delimiter)):
            sentence += f"; is it written with delimiter={other!r}?"
        elif not few:
            sentence += f"; a cell that holds {self.delimiter!r} stands in quotes"
        raw = self.delimiter.join(cells)
        return _unreadable(ordinal, line, raw, "too_few_cells" if few else "too_many_cells", sentence)

    def _delimiter(self, said: str | None) -> str:
        if said is None:
            return "\t" if self.format == "tsv" else ","
        if self.reads == "json":
            raise BadInput(f"{self.name} is JSON, which has no delimiter")
        if len(said) != 1 or said in '"\r\n\0':
            raise BadInput(f"a delimiter is one character, not {shorten(repr(said), 40)}")
        return said

    # ----------------------------------------------------------------------------------------------------------- JSON

    def _objects(self, found: Iterator[JsonRecord]) -> Iterator[SourceRow]:
        ordinal = blank = 0
        for line, value, raw, code, sentence in found:
            if code:
                ordinal += 1
                yield _unreadable(ordinal, line, raw, code, sentence)
            elif value is None:
                blank += 1
            else:
                ordinal += 1
                if OWN[0] in value:
                    self._own = True
                    yield _from_own(ordinal, line, value)
                else:
                    yield SourceRow(ordinal, line, value)
        self._blank = blank

    # ---------------------------------------------------------------------------------------------------------- files

    def _by_suffix(self) -> Format:
        suffix = self.path.suffix.lower()
        if suffix in _SUFFIXES:
            return _SUFFIXES[suffix]
        if suffix in _DATABASES:
            raise BadInput(
                f"{self.name} is a database; give SqliteRows(path, query), or at the command line --query"
            )
        if suffix in _SHEETS:
            raise BadInput(f"{self.name} is a spreadsheet; save it as CSV (UTF-8)")
        raise BadInput(
            f"{self.name} has no suffix that says what it is; name it {', '.join(_SUFFIXES)}, or say its format (format=…, --format)"
        )

    @contextmanager
    def _open(self) -> Iterator[BinaryIO]:
        """The file from its beginning; a copy where it is a pipe, which gives its bytes once."""
        if self._copy is not None:
            self._copy.seek(0)
            yield self._copy
            return
        with _opened(self.path, self.name) as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                yield file
                return
            self._copy = temporary_file(self)
            shutil.copyfileobj(file, self._copy)
        self._copy.seek(0)
        yield self._copy


def no_rows(name: str) -> RowFinding:
    """What there is to say of a source without a row."""
    return RowFinding(0, None, "", "", "no_rows", f"there are no rows: {name} has none")


def _expect_format(format: str) -> None:
    known = sorted(set(_SUFFIXES.values()))
    if format not in known:
        guess = did_you_mean(format, known) if isinstance(format, str) else ""
        raise BadInput(
            f"there is no format {shorten(repr(format), 40)}{guess or '; there are ' + ', '.join(known)}"
        )


def _opened(path: Path, name: str) -> BinaryIO:
    try:
        if path.is_dir():
            raise BadInput(f"{name} is a directory; give a file in it")
        return open(path, "rb")
    except FileNotFoundError:
        near = did_you_mean(path.name, os.listdir(path.parent)) if path.parent.is_dir() else ""
        raise BadInput(f"{name} is not there{near}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadInput(f"{name} cannot be read: {shorten(reason, 100)}") from None


def _beginning(file: BinaryIO) -> bytes:
    data = file.read(4)
    file.seek(0)
    return data


def _other_delimiter(cell: str, delimiter: str) -> str:
    return next((mark for mark in (";", "\t", "|", ",") if mark != delimiter and mark in cell), "")


def _unreadable(ordinal: int, line: int, raw: str, code: str, sentence: str) -> SourceRow:
    finding = RowFinding(ordinal, line, "", "", code, f"the row {sentence}")
    return SourceRow(ordinal, line, None, (finding,), readable(raw))


def _from_own(ordinal: int, line: int, given: Mapping[str, Any]) -> SourceRow:
    """A row of a file that foreplan wrote about rows that failed or were set aside."""
    raw = given.get(RAW)
    if raw:
        return _unreadable(
            ordinal, line, str(raw), "unmended", f"could not be read, and {RAW!r} still holds its text"
        )
    return SourceRow(ordinal, line, without_own(given))


# ------------------------------------------------------------------------------------------------------- from programs


class GivenRows:
    """Rows that a program has: a list, or anything that can be iterated again."""

    reads: Reads = "json"
    columns = None
    files: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()
    name = "the rows"

    def __init__(self, rows: Iterable[Any]) -> None:
        self._rows = rows

    def rows(self) -> Iterator[SourceRow]:
        for ordinal, row in enumerate(self._rows, 1):
            yield plain_row(ordinal, row)


class OneShotRows(GivenRows):
    """Rows of an iterator, which gives each once: they are kept in a temporary file while they are read first."""

    def __init__(self, rows: Iterator[Any]) -> None:
        super().__init__(rows)
        self._spool: Spool | None = None
        self._begun = False

    def rows(self) -> Iterator[SourceRow]:
        if self._spool is not None:
            yield from self._spool.rows()
            return
        if self._begun:
            raise BadInput(
                "the rows come from an iterator, which gives them once, and it was read before; give a list"
            )
        self._begun = True
        spool = Spool()
        for row in super().rows():
            spool.add(row)
            yield row
        self._spool = spool


class AsyncRows:
    """Rows that come asynchronously: `arrive` keeps each, `rows` gives them again."""

    reads: Reads = "json"
    columns = None
    files: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()
    name = "the rows"

    def __init__(self, rows: AsyncIterable[Any]) -> None:
        self._rows = rows
        self._spool = Spool()

    async def arrive(self, look: Callable[[SourceRow], None]) -> None:
        """Keep each row as it comes, and let it be looked at; once."""
        ordinal = 0
        async for given in self._rows:
            ordinal += 1
            row = plain_row(ordinal, given)
            self._spool.add(row)
            look(row)

    def rows(self) -> Iterator[SourceRow]:
        return self._spool.rows()


def plain_row(ordinal: int, given: Any) -> SourceRow:
    """A row of a program as plain JSON, or what keeps it from being that."""
    try:
        plain: Json = to_plain(given)
    except Unserialisable as error:
        sentence = f"the row has no JSON form: {error}"
        finding = RowFinding(ordinal, None, error.path[1:], error.path, "no_json", sentence)
        return SourceRow(ordinal, None, None, (finding,), shorten(given, 400))
    if not isinstance(plain, dict):
        sentence = f"the row is a {type(given).__name__}; give an object of columns and values"
        finding = RowFinding(ordinal, None, "", "", "not_object", sentence)
        return SourceRow(ordinal, None, None, (finding,), shorten(given, 400))
    return _from_own_given(ordinal, plain) if OWN[0] in plain else SourceRow(ordinal, None, plain)


def _from_own_given(ordinal: int, given: dict[str, Any]) -> SourceRow:
    return SourceRow(ordinal, None, without_own(given))
