"""What somebody can do to a journal who holds the file, knows how it is made, and does not have the key."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from foreplan.executor.journal.records import first_tip, next_tip
from foreplan.executor.journal.seals import Entry, Head, first_link, link_after

__all__ = ["at", "rechain"]


@contextmanager
def at(path: Path) -> Iterator[sqlite3.Connection]:
    """The file, in the hands of another program; what it did is written in the end."""
    with closing(sqlite3.connect(path)) as connection:
        yield connection
        connection.commit()


def rechain(connection: sqlite3.Connection) -> None:
    """Compute every hash anew, so that everything follows from everything again; only the seals stay what they were."""
    for (run,) in connection.execute("SELECT run FROM runs").fetchall():
        _rechain_run(connection, run)
    known = {
        run: (events, tip) for run, events, tip in connection.execute("SELECT run, events, tip FROM runs")
    }
    first = dict(connection.execute("SELECT run, hash FROM events WHERE seq = 1").fetchall())
    ended = {
        run for (run,) in connection.execute("SELECT run FROM runs WHERE state NOT IN ('running', 'waiting')")
    }
    told = [row for row in connection.execute("SELECT kind, run FROM chain ORDER BY n") if row[1] in known]
    told = [(kind, run) for kind, run in told if kind == "opened" or run in ended]
    told += [("opened", run) for run in known if ("opened", run) not in told]
    told += [("closed", run) for run in known if run in ended and ("closed", run) not in told]
    [(journal,)] = connection.execute("SELECT value FROM meta WHERE name = 'id'").fetchall()
    link = first_link(journal)
    connection.execute("DELETE FROM chain")
    for number, (kind, run) in enumerate(told, 1):
        entry = Entry(kind, run, 1, first[run]) if kind == "opened" else Entry(kind, run, *known[run])
        link = link_after(link, entry)
        connection.execute(
            "INSERT INTO chain (n, kind, run, seq, tip, detail, link) VALUES (?,?,?,?,?,?,?)",
            (number, *entry, link),
        )
    [(old,)] = connection.execute("SELECT value FROM meta WHERE name = 'head'").fetchall()
    head = Head(len(told), link, Head.from_text(old).seal)
    connection.execute("UPDATE meta SET value = ? WHERE name = 'head'", (head.to_text(),))


def _rechain_run(connection: sqlite3.Connection, run: str) -> None:
    tip, count = first_tip(run), 0
    rows = connection.execute("SELECT seq, body FROM events WHERE run = ? ORDER BY seq", (run,)).fetchall()
    for seq, body in rows:
        tip, count = next_tip(tip, body.encode()), count + 1
        connection.execute("UPDATE events SET hash = ? WHERE run = ? AND seq = ?", (tip, run, seq))
    connection.execute("UPDATE runs SET tip = ?, events = ? WHERE run = ?", (tip, count, run))
