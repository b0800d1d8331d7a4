"""What a batch writes: a results file, and a failures file that can be a source again.

    write   ──> results.jsonl.part   a line for each row as it settles, to be watched
    finish  ──> results.jsonl        the same lines in the order of the source, one for each row, put in place at once

The journal is what counts: a `.part` that a crash left is written anew from it. A row that is written twice (it was retried)
has the line that came last. A file that stands in the way is replaced only if the same batch wrote it, or if that was asked for.
"""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from ...policies.errors import BadInput
from ...policies.text import shorten
from ...registry.values import Json, to_plain
from .csv_rows import records
from .examining import Examined
from .formulas import harmless, original
from .headers import OWN
from .lines import lines
from .rows import AsideRow, Row, RowResult, row_id

__all__ = ["FailuresFile", "ResultsFile", "csv_line", "refuse_foreign", "write_failures"]

_FORMATS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv"}
_RESULT = ("row", "ordinal", "line", "status", "kind", "code", "sentence")
_BUFFER = 1024 * 1024
_QUOTED = frozenset(',;|\t"\r\n')
_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


class _OutputFile:
    """Lines of rows that come in any order and more than once, and are in order in the end, each once.

    In memory: 16 bytes a row. `keep`: files that are never overwritten, the source and other outputs.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        batch: str,
        header: Sequence[str],
        *,
        overwrite: bool = False,
        keep: Iterable[Path] = (),
    ) -> None:
        self.path = Path(os.path.realpath(os.fspath(path)))
        self.name = f"the file {shorten(repr(os.fspath(path)), 200)}"
        self.batch = batch
        self.part = self.path.with_name(self.path.name + ".part")
        self.is_csv = _format_of(self.path, self.name) == "csv"
        self._starts = array("q")
        self._sizes = array("q")
        self._refuse_taken(overwrite, keep)
        self._head = csv_line(header).encode() + b"\n" if self.is_csv else b""
        self._end = len(self._head)
        with self._told():
            self._file: BinaryIO = open(self.part, "w+b")  # noqa: SIM115 - `finish` and `close` close it
            self._file.write(self._head)

    def _refuse_taken(self, overwrite: bool, keep: Iterable[Path]) -> None:
        for other in keep:
            if _same(other, self.path) or _same(other, self.part):
                raise BadInput(f"{self.name} is read or written by this batch already; name another file")
        for path in (self.path, self.part):
            if path.is_dir() or (path.exists() and not path.is_file()):
                raise BadInput(f"{self.name} cannot be written: there is something else of that name")
            if not overwrite:
                refuse_foreign(path, self.is_csv, self.batch)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            raise BadInput(f"{self.name} cannot be written: {shorten(reason, 100)}") from None

    def put(self, ordinal: int, line: str) -> None:
        """The line of a row, in place of one that it has already."""
        data = line.encode() + b"\n"
        missing = ordinal - len(self._starts)
        if missing > 0:
            self._starts.extend([-1] * missing)
            self._sizes.extend([0] * missing)
        with self._told():
            self._file.write(data)
        self._starts[ordinal - 1] = self._end
        self._sizes[ordinal - 1] = len(data)
        self._end += len(data)

    def flush(self) -> None:
        """Let whoever watches the `.part` see all lines that were written."""
        with self._told():
            self._file.flush()

    def close(self) -> None:
        """Leave the `.part` as it is: the batch goes on later."""
        self.flush()
        self._file.close()

    def discard(self) -> None:
        """Take the `.part` away."""
        self._file.close()
        self.part.unlink(missing_ok=True)

    def finish(self) -> None:
        """Put the file in its place, whole and in the order of the source, and take the `.part` away."""
        fresh = self.part.with_name(self.part.name + ".new")
        with self._told():
            try:
                with open(fresh, "wb", buffering=_BUFFER) as file:
                    file.write(self._head)
                    for start, size in zip(self._starts, self._sizes, strict=True):
                        if start >= 0:
                            self._file.seek(start)
                            file.write(self._file.read(size))
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(fresh, self.path)
            except BaseException:
                fresh.unlink(missing_ok=True)
                raise
            self.discard()


class ResultsFile(_OutputFile):
    """How each row ended: JSON Lines (exact) or CSV, by the suffix. `fields`: keys of an output that have columns in CSV.

    In CSV, null is an empty cell, lists and objects are JSON, and a text that a spreadsheet would run begins with `'`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        batch: str,
        *,
        fields: Sequence[str] = (),
        overwrite: bool = False,
        keep: Iterable[Path] = (),
    ) -> None:
        self.fields = tuple(fields)
        outputs = [f"output.{name}" for name in self.fields] or ["output"]
        super().__init__(path, batch, [*_RESULT, *outputs], overwrite=overwrite, keep=keep)

    def write(self, result: RowResult) -> None:
        """The line of a row, when it is settled."""
        self.put(result.ordinal, self._csv(result) if self.is_csv else _json(result))

    def _csv(self, result: RowResult) -> str:
        known = _told_of(result)
        if not self.fields:
            return csv_line([*known, result.output])
        output = result.output if isinstance(result.output, dict) else {}
        return csv_line([*known, *map(output.get, self.fields)])


def _json(result: RowResult) -> str:
    said = {
        name: value for name, value in zip(_RESULT, _told_of(result), strict=True) if value not in (None, "")
    }
    return _encode({**said, "output": result.output})


def _told_of(result: RowResult) -> tuple[Any, ...]:
    return (result.row, result.ordinal, result.line, result.status, result.kind, result.code, result.sentence)


class FailuresFile(_OutputFile):
    """The rows that failed, were set aside or never began, as the source has them, behind columns that say why.

    It is a source itself: those columns are passed over then. CSV keeps what cells can say; JSON Lines keeps every value of a
    source that is JSON, and is refused for others, whose cells have no types.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        batch: str,
        examined: Examined,
        *,
        overwrite: bool = False,
        keep: Iterable[Path] = (),
    ) -> None:
        source = examined.source
        self.columns = examined.columns
        header = [*OWN, *self.columns]
        super().__init__(path, batch, header, overwrite=overwrite, keep=[*source.files, *keep])
        if not self.is_csv and source.reads != "json":
            self.discard()
            raise BadInput(
                f"{self.name} must be CSV (.csv): the rows did not come as JSON, and their values have no types"
            )

    def write(self, result: RowResult, given: Mapping[str, Any] | None, raw: str = "") -> None:
        """A row that failed; `raw` is its text where it could not be read."""
        own = (result.row, result.ordinal, result.line, result.kind, result.code, result.sentence, raw)
        values = {} if given is None else given
        if self.is_csv:
            self.put(result.ordinal, csv_line([*own, *map(values.get, self.columns)]))
        else:
            self.put(result.ordinal, _encode({**dict(zip(OWN, own, strict=True)), **to_plain(values)}))

    def set_aside(self, aside: AsideRow) -> None:
        """A row that could not run."""
        row, faults = aside
        said = "; ".join(fault.sentence for fault in faults)
        result = RowResult(
            row_id(self.batch, row.ordinal),
            row.ordinal,
            row.line,
            "set_aside",
            None,
            "bad_args",
            faults[0].code,
            said,
        )
        if any(fault.code == "no_json" for fault in faults) and row.given is not None:
            self.write(
                result, None, repr(dict(row.given))
            )  # as a text, bytes would be taken for what they are not
        else:
            self.write(result, row.given, row.raw)


def write_failures(
    file: FailuresFile,
    rows: Iterable[Row | AsideRow],
    results: Iterable[RowResult],
    *,
    statuses: Iterable[str] = ("failed",),
) -> None:
    """Fill and finish a failures file from all rows of the source and the results of the batch, both in order."""
    wanted = frozenset(statuses)
    waiting = (result for result in results if result.status in wanted)
    next_ = next(waiting, None)
    for row in rows:
        if isinstance(row, AsideRow):
            file.set_aside(row)
        elif next_ is not None and next_.ordinal == row.ordinal:
            file.write(next_, row.given)
            next_ = next(waiting, None)
    file.finish()


# --------------------------------------------------------------------------------------------------------------- text


def csv_line(values: Iterable[Json]) -> str:
    """One line of CSV, without its end."""
    return ",".join(map(_cell, values))


def _cell(value: Json) -> str:
    if value is None:
        return ""
    if type(value) is not str:
        text = value.hex() if isinstance(value, bytes) else _encode(value)
    else:
        text = harmless(value)
    if not _QUOTED.isdisjoint(text) or text[:1].isspace() or text[-1:].isspace():
        return '"' + text.replace('"', '""') + '"'
    return text


def refuse_foreign(path: Path, is_csv: bool, batch: str | None = None) -> None:
    """Raises `BadInput` for a file with rows that are not those of this batch; of None, for one with any."""
    if path.exists() and not _belongs(path, batch, is_csv):
        said = f"the file {shorten(repr(str(path)), 200)} is there already, and this batch did not write it"
        raise BadInput(
            f"{said}; name another file, or say that it may be overwritten (overwrite=True, --overwrite)"
        )


def _format_of(path: Path, name: str) -> str:
    found = _FORMATS.get(path.suffix.lower())
    if found is None:
        raise BadInput(f"{name} has no suffix that says what to write; name it .jsonl or .csv")
    return found


def _same(one: Path, other: Path) -> bool:
    try:
        return os.path.realpath(one) == str(other) or os.path.samefile(one, other)
    except OSError:
        return False


def _belongs(path: Path, batch: str | None, is_csv: bool) -> bool:
    """Whether a file holds nothing, or its first row is one of this batch."""
    try:
        with open(path, "rb") as file:
            first = _first_row(file, is_csv)
    except OSError:
        return False
    return first is None or first.rpartition(".")[0] == batch


def _first_row(file: BinaryIO, is_csv: bool) -> str | None:
    """The id in the first row; empty where it has none, None where there is no row that is whole."""
    if not file.read(1):
        return None
    file.seek(0)
    if is_csv:
        return _first_of_csv(file)
    text = next(lines(file, "utf-8"))
    try:
        row = json.loads(text)
    except ValueError:
        return "" if text.endswith("\n") else None
    return str(row.get("row", row.get(OWN[0], ""))) if isinstance(row, dict) else ""


def _first_of_csv(file: BinaryIO) -> str | None:
    found = records(lines(file, "utf-8"), ",", "utf-8")
    header = next(found, None)
    if header is None or header.cells[:1] not in ([_RESULT[0]], [OWN[0]]):
        return ""
    row = next(found, None)
    return None if row is None else original(row.cells[0]) if row.cells else ""
