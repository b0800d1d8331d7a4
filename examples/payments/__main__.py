"""Refund payments that were made twice, in a ledger of 10,000: one reviewed plan, one row for each payment.

    python examples/payments                makes the ledger, shows the plan, asks, runs it over all rows, checks
    python examples/payments --resume       goes on where a killed one stopped, and checks

Exit codes: 0 every row ended and the ledger, the journal and the truth agree, 1 they do not, 2 something handed in cannot be
used, 3 not approved.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import ledger
from refunds import refund_rules, registry

from foreplan import Batch, Engine, ForeplanError, SqliteJournal
from foreplan.console import render
from foreplan.console.asking import yes_or_no
from foreplan.console.lines import line
from foreplan.console.screen import Screen, complain
from foreplan.planner.documents import load_plan
from foreplan.policies.errors import BadInput, NotApproved

HERE = Path(__file__).parent


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the exit code is returned."""
    options = _options(arguments)
    screen = Screen(json=options.json)
    try:
        return anyio.run(_refund, screen, options)
    except (ForeplanError, KeyboardInterrupt) as problem:
        return complain(screen, problem)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="payments", description="Refund payments that were made twice.")
    add = parser.add_argument
    add("--out", default="payments", metavar="FOLDER", help="for the ledger and the journal")
    add("--payments", type=int, default=10_000, metavar="N", help="how many payments the ledger gets")
    add("--seed", type=int, default=20_311, metavar="N", help="which ledger is made")
    add("--resume", action="store_true", help="go on with the batch of this folder that was interrupted")
    add("--yes", action="store_true", help="approve what the review shows, without asking")
    add("--json", action="store_true", help="print the result as one JSON document")
    return parser.parse_args(arguments)


async def _refund(screen: Screen, options: argparse.Namespace) -> int:
    book = Path(options.out) / "ledger.sqlite3"
    _prepare(book, options)
    with SqliteJournal(book.with_name("runs.sqlite3")) as journal:
        engine = Engine(registry, journal=journal)
        batch = await (
            engine.resume_batch(BATCH) if options.resume else _begin(screen, engine, book, options)
        )
        return _report(screen, batch, book)


BATCH = "refunds"


def _prepare(book: Path, options: argparse.Namespace) -> None:
    """The folder and the ledger in it, made anew unless the batch goes on."""
    if options.resume:
        if not book.is_file():
            raise BadInput(f"there is no {book} to go on with; leave --resume out")
        return
    if options.payments < 1:
        raise BadInput(f"a ledger has at least one payment, not {options.payments}")
    if book.exists():
        raise BadInput(f"{book} is there already; go on with --resume, or name another folder with --out")
    book.parent.mkdir(parents=True, exist_ok=True)
    ledger.make(book, payments=options.payments, seed=options.seed)


async def _begin(screen: Screen, engine: Engine, book: Path, options: argparse.Namespace) -> Batch:
    """Look at all rows, show what the plan would do, ask, and run it."""
    plan = load_plan(HERE / "plan.yaml")
    examined = await engine.examine(plan, _rows(book))
    screen.show(
        render.contents(engine.review(plan)),
        "",
        line(f"This happens for each of {examined.runnable:,} rows."),
        "",
    )
    if options.yes:
        screen.show("Approved by --yes.", "")
    elif not screen.interactive:
        raise NotApproved("not approved: there is no terminal to ask at; say --yes if the review is right")
    elif not yes_or_no(screen, "Run this plan over these rows?"):
        raise NotApproved("not approved")
    approval = engine.approve(plan, batch=examined.runnable, by="--yes" if options.yes else "terminal")
    return await engine.run_batch(plan, _rows(book), approval=approval, batch_id=BATCH)


def _rows(book: Path) -> Iterator[dict[str, str]]:
    """One row for each payment."""
    return ({"ledger": str(book), "payment": payment} for payment in ledger.payments(book))


def _report(screen: Screen, batch: Batch, book: Path) -> int:
    """What the batch did, held against the ledger and against what was due."""
    limit = refund_rules.function()["limit"]
    rows = list(batch.rows())
    reported = [
        row.output["payment"] for row in rows if row.status == "done" and row.output["refund"] is not None
    ]
    wrong = ledger.disagreements(book, reported, limit=limit)
    screen.document(
        {**batch.to_json(), "refunds": len(reported), "disagreements": [each._asdict() for each in wrong]}
    )
    screen.show(
        line(
            f"{batch.total:,} rows: "
            + ", ".join(f"{n:,} {status}" for status, n in batch.counts.items() if n)
        ),
        *(
            line(f"{failure['rows']:,} failed: {failure['kind']} ({failure['code']})")
            for failure in batch.failures
        ),
        line(
            f"{len(reported):,} refunds in the journal, {len(ledger.refunded(book)):,} in the ledger, "
            f"{len(ledger.due(book, limit=limit)):,} due"
        ),
        *(
            line(f"{each.payment}: due {each.due}, in the ledger {each.in_ledger}, reported {each.reported}")
            for each in wrong[:10]
        ),
    )
    return 1 if wrong or len(rows) != batch.total else 0


if __name__ == "__main__":
    sys.exit(main())
