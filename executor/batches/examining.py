"""The first reading of the rows of a batch: all of them are looked at before one runs, and what they are is pinned by a digest.

    first reading    each row: fitted to the plan, or set aside with findings; its mark (8 bytes) is kept
    second reading   the rows that can run, one by one; each must have the mark that it had
    a resume         reads for the first time again; other marks than the batch was opened with are refused (`changed`)

The digest of a source is sha256 over the digests of its rows in order; that of a row is sha256 over its canonical inputs,
or over its text where it cannot run. A million rows are 8 MB of marks.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import anyio.lowlevel

from ...policies.canonical import canonical
from ...policies.errors import BadInput
from ...policies.text import count
from ...registry.values import Json
from .fitting import Fitting
from .rows import AsideRow, Row, RowFinding, RowsRefused, SourceRow, refused
from .sources import AsyncRows, Rows, no_rows, open_source

__all__ = ["MARK", "Examined", "changed", "examine"]

MARK = 8
"""Bytes of the digest of a row that are kept in memory and in the journal."""
SHOWN = 100
"""Findings that are kept with their sentences; all are counted."""
_AT_ONCE = 100
"""Rows between two moments at which other tasks may run: about 2 ms."""


class Examined:
    """What the first reading found: `rows()` gives those that can run."""

    def __init__(self, fitting: Fitting) -> None:
        self.fitting = fitting
        self.source = fitting.source
        self.total = 0
        """Rows of the source, those that were set aside too; the ordinal of the last one."""
        self.set_aside = 0
        """Rows that cannot run."""
        self.findings: list[RowFinding] = []
        """The first of them; `found` counts all, by code."""
        self.found: Counter[str] = Counter()
        self.notes: tuple[str, ...] = ()
        self.marks = bytearray()
        """By ordinal, the first 8 bytes of the digest of each row."""
        self._sum = hashlib.sha256()

    def __repr__(self) -> str:
        return f"<Examined {self.source.name}: {count(self.total, 'row')}, {self.set_aside:,} set aside>"

    @property
    def digest(self) -> str:
        """`sha256:…` over all rows."""
        return "sha256:" + self._sum.hexdigest()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the source, in order; at most a thousand where rows bring their own."""
        return tuple(self.fitting.seen)

    @property
    def runnable(self) -> int:
        """Rows that can run."""
        return self.total - self.set_aside

    def add(self, row: SourceRow) -> None:
        """Look at the next row."""
        inputs, faults = self.fitting.fit(row)
        self.total += 1
        digest = _digest(row, inputs, faults)
        self.marks += digest[:MARK]
        self._sum.update(digest)
        if faults:
            self.set_aside += 1
            self.found.update(fault.code for fault in faults)
            self.findings += faults[: SHOWN - len(self.findings)]

    def refuse_set_aside(self) -> None:
        """Raises `RowsRefused` where a row cannot run, or there is none."""
        if not self.total:
            raise RowsRefused(f"nothing ran: {self.findings[0]}", findings=self.findings, found=1)
        if self.set_aside:
            raise refused(self.source.name, self.set_aside, self.findings, self.found.total())

    def rows(self) -> Iterator[Row]:
        """The second reading: the rows that can run, in order. Raises `BadInput` where a row is not what it was."""
        return (row for row in self.again() if type(row) is Row)

    def again(self) -> Iterator[Row | AsideRow]:
        """All rows once more, in order, also those that were set aside. Raises `BadInput` as `rows` does."""
        marks, ordinal = self.marks, 0
        for row in self.source.rows():
            ordinal = row.ordinal
            inputs, faults = self.fitting.fit(row)
            digest = _digest(row, inputs, faults)
            if digest[:MARK] != marks[(ordinal - 1) * MARK : ordinal * MARK]:
                said = f"row {ordinal:,} is not what was checked"
                raise BadInput(f"{self.source.name} changed while it was read: {said}")
            if faults:
                yield AsideRow(row, faults)
            else:
                yield Row(ordinal, row.line, inputs, "sha256:" + digest.hex(), row.given or {})
        if ordinal != self.total:
            said = f"it has {count(ordinal, 'row')}, and {self.total:,} were checked"
            raise BadInput(f"{self.source.name} changed while it was read: {said}")


def _digest(row: SourceRow, inputs: dict[str, Json], faults: tuple[RowFinding, ...]) -> bytes:
    """Of the inputs of a row, or of what it has where it cannot run."""
    return _digest_aside(row) if faults else hashlib.sha256(canonical(inputs)).digest()


def _digest_aside(row: SourceRow) -> bytes:
    """The digest of a row that cannot run: of what it has."""
    given = row.given if row.given is not None else row.raw
    text = json.dumps(["set aside", given], sort_keys=True, default=repr)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


async def examine(
    inputs: Mapping[str, Any] | None,
    rows: Rows,
    *,
    columns: Mapping[str, str] | None = None,
    constants: Mapping[str, Any] | None = None,
    strict: bool = False,
) -> Examined:
    """Read all rows for the first time, against the JSON Schema of a plan's inputs. `constants`: the same for every row.

    With `strict`, one row that cannot run is enough for `RowsRefused`, after all were looked at. Raises `BadInput` for a source that cannot be read as a whole, or whose columns are not the plan's.
    """
    source = open_source(rows)
    examined = Examined(Fitting(inputs, source, columns, constants))
    if isinstance(source, AsyncRows):
        await source.arrive(examined.add)
    else:
        for row in source.rows():
            examined.add(row)
            if row.ordinal % _AT_ONCE == 0:
                await anyio.lowlevel.checkpoint()
    if not examined.total:
        examined.findings.append(no_rows(source.name))
    examined.notes = (*source.notes, *examined.fitting.finish())
    if strict:
        examined.refuse_set_aside()
    return examined


def changed(before: bytes | bytearray, after: bytes | bytearray, *, first: int = 5) -> str:
    """How the rows with these marks differ from those with those, as the end of a sentence; nothing where they do not."""
    old, new = len(before) // MARK, len(after) // MARK
    both = min(old, new)
    if before[: both * MARK] == after[: both * MARK]:
        differ = []
    else:
        places = range(0, both * MARK, MARK)
        differ = [at // MARK + 1 for at in places if before[at : at + MARK] != after[at : at + MARK]]
    said = [_differing(differ, first)] if differ else []
    if new > old:
        said.append(
            f"{count(new - old, 'row')} {'was' if new - old == 1 else 'were'} added after row {old:,}"
        )
    if new < old:
        said.append(f"{count(old - new, 'row')} after row {new:,} {'is' if old - new == 1 else 'are'} gone")
    return ", and ".join(said)


def _differing(ordinals: list[int], first: int) -> str:
    shown = ", ".join(f"{ordinal:,}" for ordinal in ordinals[:first])
    more = f" and {len(ordinals) - first:,} more" if len(ordinals) > first else ""
    return f"row {shown} differs" if len(ordinals) == 1 else f"rows {shown}{more} differ"
