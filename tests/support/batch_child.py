"""A process that drives a batch and dies: `batch_child.py FOLDER ROWS POINT N`, the N-th time that it passes a point.

Points are `before` and `after` (the effect of a payment), and the kinds of events as they are appended. Effects go to a file
of its own, a line each with the idempotency key; the tool finds out from it what became of a payment. What the process
says in the end, if it lives, is how the rows stand.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import anyio

from foreplan import (
    BatchRules,
    Effect,
    Engine,
    Found,
    Plan,
    Policies,
    Retry,
    SqliteJournal,
    ToolContext,
    tool,
)
from foreplan.executor.events import Event
from foreplan.policies.errors import UnknownRun

RULES = Policies(approve="never", retry=Retry(attempts=100))
"""A payment that the same processes interrupt again and again is tried again as often."""
PLAN = Plan.model_validate(
    {
        "inputs": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
        "steps": [
            {"id": "doubled", "tool": "double", "args": {"n": {"$": "inputs.n"}}},
            {"id": "paid", "tool": "pay", "args": {"amount": {"$": "doubled"}}},
            {"id": "noted", "tool": "note", "args": {"receipt": {"$": "paid"}}},
        ],
        "output": {"receipt": {"$": "paid"}},
    }
)


def main(folder: Path, count: int, point: str, n: int) -> dict[str, Any]:
    """Begin the batch, or take it up where it stands."""
    passed = Counter[str]()
    effects = os.open(folder / "effects", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)

    def at(name: str) -> None:
        passed[name] += 1
        if (name, passed[name]) == (point, n):
            os.kill(os.getpid(), signal.SIGKILL)

    def keys() -> list[str]:
        return (folder / "effects").read_text().split()

    @tool(effect=Effect.READS)
    async def double(n: int) -> int:
        """Doubles."""
        return 2 * n

    async def became(amount: int, context: ToolContext) -> Found[str] | bool:
        """Whether it was paid."""
        return Found(f"paid {amount}") if f"{amount}:{context.idempotency_key}" in keys() else False

    @tool(effect=Effect.ACTS, reconcile=became)
    async def pay(amount: int, context: ToolContext) -> str:
        """Pays once."""
        at("before")
        os.write(effects, f"{amount}:{context.idempotency_key}\n".encode())
        at("after")
        return f"paid {amount}"

    @tool(effect=Effect.WRITES)
    async def note(receipt: str) -> None:
        """Notes."""

    def see(event: Event) -> None:
        at(type(event).__name__)

    async def go() -> dict[str, Any]:
        with SqliteJournal(folder / "runs.sqlite3") as journal:
            engine = Engine([double, pay, note], policies=RULES, journal=journal, watch=see)
            rows = ({"n": n} for n in range(1, count + 1))
            try:
                batch = await engine.resume_batch("b", rows=rows)
            except UnknownRun:
                batch = await engine.run_batch(PLAN, rows, batch_id="b", rules=BatchRules(at_once=8))
            return {"status": batch.status, "message": batch.message, "problems": journal.verify().problems}

    return anyio.run(go)


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))))
