"""The command line as a user has it: a folder with tools and plans, and what a command says there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from foreplan.console.app import main

__all__ = ["PLAN", "TOOLS", "Said", "Shell", "child_environment", "write_case"]

TOOLS = '''
"""Tools for the tests of the command line."""

import os
from dataclasses import dataclass
from pathlib import Path

from foreplan import FunctionPlanner, Registry, ToolFailure, tool


@dataclass
class Payment:
    """One line of the ledger."""

    id: str
    amount: float


@tool(effect="reads")
def read_ledger(path: str) -> list[Payment]:
    """Read the payments of a ledger.

    Args:
        path: The ledger.
    """
    print("a tool that prints")
    return [Payment(f"p{n}", 10.0 * n) for n in range(1, 4)]


@tool(effect="acts", permissions=["payments.refund"])
def refund(payment: str) -> str:
    """Refund a payment.

    Args:
        payment: Its id.
    """
    if Path("closed").exists():
        raise ToolFailure("the account is closed", code="account_closed", hint="ask the bank")
    return f"refunded {payment}"


@tool(effect="acts", requires_approval="each")
def pay(to: str) -> str:
    """Pay someone.

    Args:
        to: The payee.
    """
    with open("paid.txt", "a") as file:
        file.write(f"{to}\\n")
    return f"paid {to}"


@tool(effect="acts")
def charge(card: str) -> dict[str, str]:
    """Charge a card, and break: nobody knows whether it was charged.

    Args:
        card: Its number.
    """
    raise RuntimeError("the line went dead")


@tool(effect="reads")
def stop_here() -> int:
    """Interrupt the command, as Ctrl-C does; the second time, go on."""
    if Path("stopped").exists():
        return 2
    Path("stopped").touch()
    import signal
    import time

    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)
    return 1


registry = Registry(read_ledger, refund, pay, charge, stop_here)


def mend(request):
    return "this cannot be mended"


planner = FunctionPlanner(
    lambda request: {"goal": request.goal, "steps": [{"id": "payments", "tool": "read_ledger", "args": {"path": "x"}}]},
    mend,
)
'''

PLAN = """\
goal: Refund every payment above the limit
inputs:
  type: object
  properties:
    ledger: {type: string}
    limit: {type: number, default: 15}
  required: [ledger]
steps:
  - id: payments
    tool: read_ledger
    args: {path: {$: inputs.ledger}}
  - id: large
    value: {$: "[p.id for p in payments if p.amount > inputs.limit]"}
  - id: refunds
    each: {$: large}
    as: payment
    tool: refund
    args: {payment: {$: payment}}
output: {refunded: {$: refunds}}
"""

READS = """\
goal: Read the ledger
steps:
  - id: payments
    tool: read_ledger
    args: {path: ledger.csv}
output: {$: len(payments)}
"""

PAYS = """\
goal: Pay two people
steps:
  - id: payments
    each: [ada, bob]
    tool: pay
    args: {to: {$: item}}
output: {$: payments}
"""

CHARGES = """\
goal: Charge a card
steps:
  - id: receipt
    tool: charge
    args: {card: "4111"}
output: {$: receipt.id}
"""

STOPS = """\
goal: Be interrupted
steps:
  - id: before
    tool: read_ledger
    args: {path: ledger.csv}
  - id: stop
    tool: stop_here
    after: [before]
output: {$: stop}
"""

_FILES = {
    "shop.py": TOOLS,
    "plan.yaml": PLAN,
    "reads.yaml": READS,
    "pays.yaml": PAYS,
    "charges.yaml": CHARGES,
    "stops.yaml": STOPS,
}
_OPTIONS = {"FOREPLAN_TOOLS", "FOREPLAN_JOURNAL", "FORCE_COLOR", "COLUMNS"}


class Said(NamedTuple):
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The JSON document on stdout."""
        return json.loads(self.out)


def write_case(folder: Path) -> None:
    """Tools and plans into a folder."""
    for name, text in _FILES.items():
        (folder / name).write_text(text)


def child_environment() -> dict[str, str]:
    """An environment in which nothing of the developer's own settings shows."""
    kept = {name: value for name, value in os.environ.items() if name not in _OPTIONS}
    return {**kept, "NO_COLOR": "1"}


class Shell:
    """Types commands in a folder. `here` runs in this process (quick), `typed` in one of its own (real)."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys

    def here(self, *words: str) -> Said:
        """Run a command in this process."""
        self._capsys.readouterr()
        code = main(words)
        out, err = self._capsys.readouterr()
        return Said(code, out, err)

    def typed(self, *words: str, stdin: str = "", **environment: str) -> Said:
        """Run `python -m foreplan` with these words."""
        ran = subprocess.run(
            [sys.executable, "-P", "-m", "foreplan", *words],
            cwd=self.folder,
            env={**child_environment(), **environment},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return Said(ran.returncode, ran.stdout, ran.stderr)
