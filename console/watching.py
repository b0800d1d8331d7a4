"""`foreplan resume --watch`: one who looks after a journal and takes up what can go on, a line for each thing that happens.

Ctrl-C and SIGTERM end it alike: what runs is paused, and left to the next who looks.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from ..executor.batches.batch import Batch
from ..executor.engine import Engine
from ..executor.resuming import Progress
from ..executor.run import Run
from ..policies.errors import BadInput
from ..policies.text import count
from .batches.ends import batch_code, batch_fate
from .driving import code_of
from .journals import stored
from .lines import plain
from .screen import Code, Screen
from .setting import Setting
from .telling import fate
from .waiting import ended_by_sigterm, wait_for

__all__ = ["watch"]


def watch(
    screen: Screen, setting: Setting, *, one: bool, once: bool, partly: bool, paused: bool, every: float
) -> Code:
    """Take up what can go on, for ever; with `once`, until nothing more can. With --json, one document a line."""
    if one:
        raise BadInput(
            "--watch takes up every run that can go on: leave out the run, and answer with `foreplan decide`"
        )
    teller = _Teller(screen)
    with stored(setting.kept.journal, key=setting.kept.journal_key) as journal:
        assert journal is not None
        engine = Engine(**setting.loaded(), journal=journal)
        options: dict[str, Any] = {"once": once, "partly": partly, "paused": paused, "every": every}

        async def look() -> None:
            with ended_by_sigterm():
                if not once:
                    teller.begun(str(journal.path))
                await engine.resume_all(**options, tell=teller.tell)

        try:
            wait_for(look)
        except (KeyboardInterrupt, asyncio.CancelledError):
            teller.stopped()
            return Code.INTERRUPTED
    return teller.code


class _Teller:
    """Says what becomes of each run, and keeps the worst of it for the exit code."""

    def __init__(self, screen: Screen) -> None:
        self.code = Code.DONE
        self._screen = screen
        self._under_way: set[str] = set()

    def begun(self, journal: str) -> None:
        """It looks, and can be ended."""
        if self._screen.json:
            self._write({"what": "watching", "journal": journal})
        else:
            self._screen.say(f"watching {journal}; Ctrl-C ends it")

    def tell(self, said: Progress) -> None:
        """One line."""
        if said.what == "taken_up":
            self._under_way.add(said.run)
            self._line(said.run, "taken up", {"what": "taken_up"})
            return
        self._under_way.discard(said.run)
        if said.ended is not None:
            self._ended(said.ended)
        else:
            self._worse(Code.NOT_APPROVED)
            document = {"what": "refused", "message": said.why}
            self._line(said.run, f"cannot go on here: {said.why}", document, important=True)

    def stopped(self) -> None:
        """It was ended from outside."""
        left = sorted(self._under_way)
        if self._screen.json:
            self._write({"what": "stopped", "paused": left})
        else:
            self._screen.say(
                f"stopped; {count(len(left), 'run has', 'runs have')} paused" if left else "stopped"
            )

    def _ended(self, ended: Run | Batch) -> None:
        if isinstance(ended, Batch):
            code, how, waiting = batch_code(ended), batch_fate(ended), ended.waiting_for
            stands = {"state": ended.status, "batch": True, "rows": ended.total, "counts": dict(ended.counts)}
        else:
            code, how, waiting = code_of(ended), fate(ended), ended.waiting
            stands = {"state": ended.state, "output": ended.output}
        self._worse(code)
        document = {
            "what": "ended",
            **stands,
            "reason": ended.reason,
            "message": ended.message,
            "waiting": [asked.id for asked in waiting],
        }
        told = how if ended.ok else f"{how}: {ended.message}"
        self._line(ended.id, told, document, important=not ended.ok)

    def _worse(self, code: Code) -> None:
        """Failed before waiting before done."""
        if self.code != Code.FAILED and code != Code.DONE:
            self.code = code

    def _line(self, run: str, told: str, document: dict[str, Any], *, important: bool = False) -> None:
        """One line as it is, also where it is long: what reads it may be a program."""
        now = time.time()
        if self._screen.json:
            self._write({"run": run, "at": now, **document})
        elif important or not self._screen.quiet:
            at = time.strftime("%H:%M:%S", time.gmtime(now))
            self._screen.write(f"{at}  {plain(run)}  {plain(told, 400)}\n")

    def _write(self, document: dict[str, Any]) -> None:
        self._screen.write(json.dumps(document) + "\n")
