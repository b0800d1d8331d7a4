"""A ledger of payments in SQLite, made from a seed: some were paid twice, and a few only look like it.

payments   id, payer, cents, day       in the order in which they came in
payers     id, closed                  nothing can be refunded to a closed account
refunds    number, key, payment, cents what was given back; nothing in the table keeps anybody from refunding twice
"""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path
from typing import NamedTuple

__all__ = ["Disagreement", "disagreements", "due", "make", "payments", "refunded"]

_TABLES = """
create table payers (id text primary key, closed integer not null);
create table payments (id text primary key, payer text not null, cents integer not null, day text not null);
create index twins on payments (payer, cents, day);
create table refunds (number integer primary key, key text not null, payment text not null, cents integer not null);
create index keys on refunds (key);
"""
_DUE = """
select p.id from payments p join payers on payers.id = p.payer
where p.cents > ? and not payers.closed and exists (
    select 1 from payments q where q.payer = p.payer and q.cents = p.cents and q.day = p.day and q.id < p.id)
"""


class Disagreement(NamedTuple):
    """A payment about which the ledger, the truth and what somebody reports do not agree."""

    payment: str
    due: int
    in_ledger: int
    reported: int


def make(path: Path, *, payments: int = 10_000, seed: int = 20_311) -> None:
    """A new ledger with so many payments; the same seed makes the same ledger."""
    dice = random.Random(seed)
    payers = [f"payer-{n:03}" for n in range(400)]
    days = [f"2031-{month:02}-{day:02}" for month in range(1, 7) for day in range(1, 29)]
    rows: list[tuple[str, int, str]] = []
    while len(rows) < payments:
        kind = dice.random()
        if rows and kind < 0.03:
            rows.append(dice.choice(rows[-50:]))
        elif rows and kind < 0.05:
            payer, cents, day = dice.choice(rows[-50:])
            rows.append(dice.choice([(dice.choice(payers), cents, day), (payer, cents, dice.choice(days))]))
        else:
            rows.append((dice.choice(payers), dice.randrange(500, 90_000), dice.choice(days)))
    with sqlite3.connect(path) as ledger:
        ledger.executescript(_TABLES)
        ledger.executemany("insert into payers values (?, ?)", [(p, dice.random() < 0.05) for p in payers])
        numbered = [(f"P{n:05}", *row) for n, row in enumerate(rows, 1)]
        ledger.executemany("insert into payments values (?, ?, ?, ?)", numbered)
    ledger.close()


def payments(path: Path) -> list[str]:
    """The ids of all payments, in order."""
    return _column(path, "select id from payments order by id")


def due(path: Path, *, limit: int) -> set[str]:
    """What has to be refunded, as the database itself works it out: later twins above the limit, of open accounts."""
    return set(_column(path, _DUE, limit))


def refunded(path: Path) -> list[str]:
    """The payments that were refunded, one entry for each refund."""
    return _column(path, "select payment from refunds order by number")


def disagreements(path: Path, reported: list[str], *, limit: int) -> list[Disagreement]:
    """Where what is due, what the ledger holds and what was reported are not the same, each exactly once."""
    wanted, held = due(path, limit=limit), refunded(path)
    there: dict[str, list[int]] = {}
    for place, several in enumerate((wanted, held, reported)):
        for payment in several:
            there.setdefault(payment, [0, 0, 0])[place] += 1
    return [Disagreement(payment, *found) for payment, found in sorted(there.items()) if found != [1, 1, 1]]


def _column(path: Path, query: str, *values: object) -> list[str]:
    with sqlite3.connect(path) as ledger:
        found = [row[0] for row in ledger.execute(query, values)]
    ledger.close()
    return found
