"""The example with the ledger, killed as the kernel kills: `payments_until.py N ARGUMENTS…`, at its N-th look into the ledger.

A look is a statement of a tool: a payment that is read, a refund that is written; the kill comes before it takes place.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import sqlite3
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "payments"


def main(deadly: int, arguments: list[str]) -> int:
    """Run the example; 0 never kills."""
    sys.path.insert(0, str(EXAMPLE))
    import refunds

    looks = 0

    def look(statement: str) -> None:
        nonlocal looks
        looks += not statement.startswith("pragma")
        if 0 < deadly == looks:
            os.kill(os.getpid(), signal.SIGKILL)

    def connect(*given: Any, **options: Any) -> sqlite3.Connection:
        opened: sqlite3.Connection = sqlite3.connect(*given, **options)
        opened.set_trace_callback(look)
        return opened

    refunds.sqlite3 = SimpleNamespace(Connection=sqlite3.Connection, connect=connect)  # type: ignore[assignment, attr-defined]
    spec = importlib.util.spec_from_file_location("payments_example", EXAMPLE / "__main__.py")
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    status: int = example.main(arguments)
    return status


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
