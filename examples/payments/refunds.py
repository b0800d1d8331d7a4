"""What the refund plan may call: it reads the rules and the ledger, and gives money back."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml
from typing_extensions import TypedDict

from foreplan import Found, Registry, ToolContext, ToolFailure, tool

__all__ = ["registry"]

_HERE = Path(__file__).parent
_LOCK = threading.Lock()
_OPEN: dict[str, sqlite3.Connection] = {}


class Payment(TypedDict):
    """A payment as the ledger has it."""

    id: str
    payer: str
    cents: int
    day: str


class Rules(TypedDict):
    """Above which amount, in cents, a payment that was made twice is refunded."""

    limit: int


@contextmanager
def _ledger(path: str) -> Iterator[sqlite3.Connection]:
    """The ledger, one call at a time; a commit is on the disk."""
    with _LOCK:
        if path not in _OPEN:
            if not Path(path).is_file():
                raise ToolFailure(f"there is no ledger {path}", code="no_ledger", happened="no")
            _OPEN[path] = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            _OPEN[path].execute("pragma synchronous = full")
        yield _OPEN[path]


@tool(effect="reads")
def refund_rules() -> Rules:
    """What the company refunds."""
    rules: Rules = yaml.safe_load((_HERE / "rules.yaml").read_text(encoding="utf-8"))
    return rules


@tool(effect="reads")
def read_payment(ledger: str, payment: str) -> Payment:
    """One payment by its id."""
    with _ledger(ledger) as db:
        found = db.execute("select id, payer, cents, day from payments where id = ?", (payment,)).fetchone()
    if found is None:
        raise ToolFailure(f"the ledger has no payment {payment}", code="no_payment")
    return Payment(id=found[0], payer=found[1], cents=found[2], day=found[3])


@tool(effect="reads")
def same_payments(ledger: str, payer: str, cents: int, day: str) -> list[str]:
    """The ids of all payments of one payer with one amount on one day."""
    with _ledger(ledger) as db:
        query = "select id from payments where payer = ? and cents = ? and day = ? order by id"
        return [row[0] for row in db.execute(query, (payer, cents, day))]


def booked(ledger: str, payment: str, context: ToolContext) -> Found[int] | bool:
    """What the ledger has under the key of a call: nobody needs to be asked what became of it."""
    with _ledger(ledger) as db:
        query = "select number from refunds where key = ? and payment = ?"
        found = db.execute(query, (context.idempotency_key, payment)).fetchone()
    return Found(found[0]) if found else False


@tool(effect="acts", reconcile=booked)
def refund(ledger: str, payment: str, context: ToolContext) -> int:
    """Give a payment back; the number of the refund. Books as often as it is called."""
    with _ledger(ledger) as db:
        found = db.execute(
            "select cents, closed from payments join payers on payers.id = payer where payments.id = ?",
            (payment,),
        ).fetchone()
        if found is None or found[1]:
            raise ToolFailure(f"the account behind {payment} is closed", code="account_closed", happened="no")
        row = (context.idempotency_key, payment, found[0])
        number = db.execute("insert into refunds (key, payment, cents) values (?, ?, ?)", row).lastrowid
    assert number is not None
    return number


registry = Registry(refund_rules, read_payment, same_payments, refund)
