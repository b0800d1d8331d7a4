"""The chain over all runs of a journal, and what a key seals.

    run        event 1 ── event 2 ── … ── event n           a chain of its own (`records.py`)
                  │                          │
    journal    opened ─────────────────── closed ── …       one entry each, chained in the order in which they came
                                                     └── head: how many entries, the last link, and its seal

An opened run whose record is gone was deleted; one whose record ends elsewhere than its `closed` entry was changed. The
head is sealed with each entry, and a run with each append, so that without the key no chain can be computed anew. Seals of
the past are not kept: what was true earlier cannot be put back by somebody who has only this file.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Iterable, Mapping
from hashlib import sha256
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeAlias

from ...policies.canonical import canonical
from ...policies.errors import JournalError
from ...policies.signing import Signer, Verifier

__all__ = [
    "Entry",
    "Head",
    "Kind",
    "begin",
    "enter",
    "expect_name",
    "first_link",
    "key_name",
    "keyed",
    "link_after",
    "position",
    "read_head",
    "seal",
    "seal_of_head",
    "seal_of_run",
    "to_seal_head",
    "to_seal_run",
]

Kind: TypeAlias = Literal["opened", "closed", "reopened", "forgotten", "pruned"]
"""What an entry says of a run: it began; it ended here; it goes on after that (a batch of which rows are tried again); its
personal values were deleted; its record was deleted by rule."""


_ROWS = 128
"""Entries that one statement writes; SQLite takes 999 values from of old."""


class Entry(NamedTuple):
    """One entry: a run, the event up to which it stood then, the tip of its chain, and what else there is to say."""

    kind: str
    run: str
    seq: int
    tip: bytes
    detail: str = ""


class Head(NamedTuple):
    """The end of the chain over runs."""

    entries: int
    link: bytes
    seal: bytes

    @classmethod
    def from_text(cls, text: str) -> Head:
        """The inverse of `to_text`. Raises `ValueError`, `KeyError` or `TypeError`."""
        said: Mapping[str, Any] = json.loads(text)
        return cls(int(said["entries"]), bytes.fromhex(said["link"]), bytes.fromhex(said["seal"]))

    def to_text(self) -> str:
        """As `meta` holds it."""
        return json.dumps({"entries": self.entries, "link": self.link.hex(), "seal": self.seal.hex()})


def key_name(key: Verifier) -> str:
    """How the file names the key that seals it."""
    return f"{key.algorithm} {key.fingerprint}"


def first_link(journal: str) -> bytes:
    """Where the chain over runs begins; each file has another id."""
    return sha256(b"foreplan journal\n" + journal.encode()).digest()


def link_after(link: bytes, entry: Entry) -> bytes:
    """Where it goes on after one more entry."""
    said = [entry.kind, entry.run, entry.seq, entry.tip.hex(), entry.detail]
    return sha256(link + canonical(said)).digest()


def position(number: int, tip: bytes) -> str:
    """The place to keep elsewhere: `SEQ:HASH`, half of the hash."""
    return f"{number}:{tip.hex()[:32]}"


def to_seal_head(entries: int, link: bytes) -> bytes:
    """What is signed of the chain over runs."""
    return b"foreplan head\n" + canonical([entries, link.hex()])


def to_seal_run(run: str, events: int, tip: bytes) -> bytes:
    """What is signed of one run."""
    return b"foreplan run\n" + canonical([run, events, tip.hex()])


def seal_of_head(key: Signer | None, entries: int, link: bytes) -> bytes:
    """The seal, or nothing without a key."""
    return b"" if key is None else key.sign(to_seal_head(entries, link))


def seal_of_run(key: Signer | None, run: str, events: int, tip: bytes) -> bytes | None:
    """The seal of a run as it stands; None without a key."""
    return None if key is None else key.sign(to_seal_run(run, events, tip))


def begin(connection: sqlite3.Connection) -> None:
    """Give a journal its id and the head of an empty chain."""
    journal = secrets.token_hex(16)
    head = Head(0, first_link(journal), b"")
    connection.execute("INSERT INTO meta VALUES ('id', ?), ('head', ?)", (journal, head.to_text()))


def read_head(connection: sqlite3.Connection) -> Head:
    """The head as the file has it. Raises `ValueError` or `KeyError` where that is nothing we wrote."""
    rows = connection.execute("SELECT value FROM meta WHERE name = 'head'").fetchall()
    if not rows:
        raise ValueError("there is none")
    return Head.from_text(rows[0][0])


def keyed(connection: sqlite3.Connection) -> str:
    """The name of the key that seals this file; "" where none does."""
    rows = connection.execute("SELECT value FROM meta WHERE name = 'key'").fetchall()
    return str(rows[0][0]) if rows else ""


def enter(connection: sqlite3.Connection, entries: Iterable[Entry], key: Signer | None) -> None:
    """Write entries at the end of the chain, and seal its head, within a transaction that locks the file.

    Raises `JournalError` where the file is sealed with a key that is not this one.
    """
    expect_name(keyed(connection), key)
    try:
        number, link, _ = read_head(connection)
    except (ValueError, KeyError, TypeError) as error:
        raise JournalError(
            f"the journal's chain over runs cannot be read ({error}); `foreplan verify` says what else is wrong"
        ) from error
    rows: list[tuple[Any, ...]] = []
    for entry in entries:
        number, link = number + 1, link_after(link, entry)
        rows.append((number, *entry, link))
    for start in range(0, len(rows), _ROWS):
        some = rows[start : start + _ROWS]
        values = ",".join(["(?,?,?,?,?,?,?)"] * len(some))
        sql = f"INSERT INTO chain (n, kind, run, seq, tip, detail, link) VALUES {values}"
        connection.execute(sql, list(chain.from_iterable(some)))
    head = Head(number, link, seal_of_head(key, number, link))
    connection.execute("UPDATE meta SET value = ? WHERE name = 'head'", (head.to_text(),))


def seal(connection: sqlite3.Connection, key: Signer) -> None:
    """Seal an empty journal. Raises `JournalError` for one that holds runs: nobody knows what was done to them."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not keyed(connection):
            head = read_head(connection)
            if head.entries or connection.execute("SELECT 1 FROM runs LIMIT 1").fetchall():
                raise JournalError(
                    "the journal holds runs that no key has sealed; `foreplan export` it, and `foreplan import` it into a "
                    "new file with the key"
                )
            connection.execute("INSERT INTO meta VALUES ('key', ?)", (key_name(key),))
            sealed = head._replace(seal=seal_of_head(key, head.entries, head.link))
            connection.execute("UPDATE meta SET value = ? WHERE name = 'head'", (sealed.to_text(),))
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise


def expect_name(name: str, key: Signer | None) -> None:
    """Raise `JournalError` where the file is sealed with a key of this name and this is not it."""
    if key is None and name:
        raise JournalError(f"the journal is sealed with a key ({name}); open it with that key to write to it")
    if key is not None and name != key_name(key):
        said = f"another key ({name})" if name else "no key"
        raise JournalError(f"the journal is sealed with {said}; this one is {key_name(key)}")
