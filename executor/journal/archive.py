"""A journal as JSON Lines, and back: nothing is lost, and what comes back proves itself as it did before.

    {"foreplan_journal": 1, "id": …, "head": …, "key": …, "whole": true}
    {"runs": […]}   {"events": […]}   {"blobs": […]}   {"personal": […]}   {"chain": […]}   {"spent": […]}
    {"end": 1234}

Each line is a row, bytes as hex digits; events of rows of batches stand among the others, wherever the file keeps them; the text of an event is the very text that was chained. A whole journal that comes into
an empty file keeps its chain and its seals; in any other case the runs enter the chain of the journal that takes them in.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ...policies.errors import BadInput, JournalError
from ...policies.signing import Signer, Verifier
from .ledger import plain
from .reader import Reader
from .seals import Entry, enter, expect_name, key_name, keyed, read_head, seal_of_run, to_seal_run
from .sqlite_file import EVENTS, ROW_EVENTS

__all__ = ["exported", "referred", "take_in"]

TABLES = {
    "runs": (
        *("run", "opened_at", "approval", "epoch", "state", "reason", "goal", "events", "tip", "seal"),
        *("batch", "ordinal"),
    ),
    "events": ("run", "seq", "body", "hash"),
    "blobs": ("hash", "body"),
    "personal": ("run", "commitment", "salt", "value"),
    "chain": ("n", "kind", "run", "seq", "tip", "detail", "link"),
    "spent": ("approval", "run"),
}
_NO_ROW = ("", 0)
"""What an export says nothing of that was made before there were batches: a run is no row of one."""
_BYTES = frozenset({"tip", "seal", "hash", "link", "commitment", "salt"})


def exported(reader: Reader, run: str | None) -> Iterator[str]:
    """The lines of a journal, or of one run; the reader has a transaction open, so that they are of one moment."""
    meta = dict(reader.ask("SELECT name, value FROM meta"))
    first = {
        "foreplan_journal": 1,
        "id": meta.get("id"),
        "head": meta.get("head"),
        "key": meta.get("key", ""),
    }
    yield json.dumps({**first, "whole": run is None})
    count = 1
    for table, columns in TABLES.items():
        for row in _rows(reader, table, columns, run):
            yield json.dumps({table: [_out(n, v) for n, v in zip(columns, row, strict=True)]})
            count += 1
    yield json.dumps({"end": count + 1})


def _rows(reader: Reader, table: str, columns: Iterable[str], run: str | None) -> Iterator[Any]:
    names = ", ".join(columns)
    if table == "blobs" and run is not None:
        for key in referred(_texts(reader, run)):
            yield from reader.ask(f"SELECT {names} FROM blobs WHERE hash = ?", key)
    else:
        where, given = ("", []) if run is None else (f"WHERE {_OF}", [run, run])
        for place in reader.of_events if table == EVENTS else (table,):
            yield from reader.rows(f"SELECT {names} FROM {place} {where} ORDER BY 1, 2", *given)


def _texts(reader: Reader, run: str) -> Iterator[str]:
    """Of the events of a run."""
    for table in reader.of_events:
        for (text,) in reader.rows(f"SELECT body FROM {table} WHERE {_OF}", run, run):
            yield text


_OF = "(run = ? OR run IN (SELECT run FROM runs WHERE batch = ?))"
"""What is of a run; of a batch, what is of its rows too."""


def referred(texts: Iterable[str]) -> list[bytes]:
    """The large results that these events refer to, once each."""
    found: dict[bytes, None] = {}
    for text in texts:
        if '"apart":' in text:
            found.update(
                dict.fromkeys(bytes.fromhex(key) for key in json.loads(text).get("apart", {}).values())
            )
    return list(found)


def _out(name: str, value: Any) -> Any:
    if name in _BYTES:
        return None if value is None else bytes(value).hex()
    return value.decode() if isinstance(value, bytes) else value


def _in(table: str, name: str, value: Any) -> Any:
    if name in _BYTES:
        return None if value is None else bytes.fromhex(value)
    return value.encode() if table == "blobs" else value


def take_in(
    connection: sqlite3.Connection,
    lines: Iterable[str | bytes],
    key: Signer | None,
    check: Callable[[Verifier | None], Iterable[str]],
) -> list[str]:
    """Take in what was exported, all of it or nothing; the runs. `check` verifies the journal as it is then.

    Raises `BadInput` for lines that are no export or are cut, and `JournalError` where a run is there already or does not hold.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        head, entries, runs = _insert(connection, _documents(lines))
        there = read_head(connection).entries
        same = key is None or head["key"] == key_name(key)
        if head["whole"] and not there and same and not (key is None and keyed(connection)):
            _keep(connection, head, entries)
        else:
            _join(connection, head, entries, runs, key)
        problems = list(check(key))
        if problems:
            raise JournalError(f"nothing was imported: {problems[0]}")
        connection.execute("COMMIT")
    except sqlite3.IntegrityError as error:
        connection.rollback()
        raise JournalError(
            f"nothing was imported: a run of this export is in the journal already ({error})"
        ) from error
    except BaseException:
        connection.rollback()
        raise
    return runs


def _documents(lines: Iterable[str | bytes]) -> Iterator[dict[str, Any]]:
    number, end = 0, None
    for number, line in enumerate(lines, 1):
        try:
            document = json.loads(line)
            if (
                end is not None
                or not isinstance(document, dict)
                or ("foreplan_journal" in document) != (number == 1)
            ):
                raise ValueError("it does not belong there")
            end = document.get("end")
        except ValueError as error:
            raise BadInput(
                f"line {number} of the export cannot be read, so nothing was imported: {error}"
            ) from None
        if end is None:
            yield document
    if end != number:
        raise BadInput(
            "the export is cut: its last line, which says how many there are, is missing; nothing was imported"
        )


def _insert(
    connection: sqlite3.Connection, documents: Iterator[dict[str, Any]]
) -> tuple[dict[str, Any], list[tuple[Any, ...]], list[str]]:
    head = next(documents, {})
    if head.get("foreplan_journal") != 1:
        raise BadInput("this is no export of a journal that this version reads")
    entries: list[tuple[Any, ...]] = []
    runs: list[str] = []
    rows: set[str] = set()
    for number, document in enumerate(documents, 2):
        try:
            [(table, values)] = document.items()
            columns = TABLES[table]
            if table == "runs" and len(values) == len(columns) - len(_NO_ROW):
                values = [*values, *_NO_ROW]
            row = tuple(_in(table, n, v) for n, v in zip(columns, values, strict=True))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadInput(
                f"line {number} of the export cannot be read, so nothing was imported: {error}"
            ) from None
        if table == "chain":
            entries.append(row)
            continue
        if table == "runs":
            runs.append(row[0])
            if row[-len(_NO_ROW) :] != _NO_ROW:
                rows.add(row[0])
        if table == EVENTS and row[0] in rows:
            table = ROW_EVENTS
        verb = "INSERT OR IGNORE" if table == "blobs" else "INSERT"
        connection.execute(
            f"{verb} INTO {table} ({', '.join(columns)}) VALUES ({','.join('?' * len(columns))})", row
        )
    return head, entries, runs


def _keep(connection: sqlite3.Connection, head: Mapping[str, Any], entries: list[tuple[Any, ...]]) -> None:
    """The chain, its head and its seals are what they were."""
    columns = ", ".join(TABLES["chain"])
    connection.executemany(f"INSERT INTO chain ({columns}) VALUES (?,?,?,?,?,?,?)", entries)
    for name in ("id", "head", "key"):
        if head[name]:
            connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, head[name]))


def _join(
    connection: sqlite3.Connection,
    head: Mapping[str, Any],
    entries: list[tuple[Any, ...]],
    runs: list[str],
    key: Signer | None,
) -> None:
    """The runs enter the chain that is there, and get the seal of its key; those of the same key must hold before."""
    expect_name(keyed(connection), key)
    for run in runs:
        if connection.execute("SELECT 1 FROM chain WHERE run = ?", (plain(run),)).fetchall():
            raise JournalError(f"nothing was imported: the journal knows a run {run!r} already")
        [(events, tip, seal)] = connection.execute(
            "SELECT events, tip, seal FROM runs WHERE run = ?", (run,)
        ).fetchall()
        mine = key is not None and head["key"] == key_name(key)
        if mine and not (seal and key and key.verify(to_seal_run(run, events, tip), seal)):
            raise JournalError(
                f"nothing was imported: the seal of run {run!r} is not one of this key for these events"
            )
        sealed = seal_of_run(key, run, events, tip)
        connection.execute("UPDATE runs SET seal = ? WHERE run = ?", (sealed, run))
    enter(connection, [Entry(*row[1:6]) for row in entries], key)
