"""`foreplan resume --watch`: one who looks after a journal and takes up what can go on, a line for each thing that happens.

Ctrl-C and SIGTERM end it alike: what runs is paused, and left to the next who looks.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from ..executor.batches.batch import Batch
from ..executor.engine import Engine
from ..executor.events import ToolFreed, ToolHeld
from ..executor.hands.limits import Broken
from ..executor.resuming import Progress
from ..executor.run import Run
from ..policies.errors import BadInput
from ..policies.text import count
from .batches.ends import batch_code, batch_fate
from .batches.progress import holding, still_holding
from .driving import code_of
from .journals import stored
from .lines import plain
from .screen import Code, Screen
from .setting import Setting
from .telling import fate
from .waiting import ended_by_sigterm, wait_for

__all__ = ["Teller", "watch"]

_SOON, _SELDOM = 2.0, 60.0
"""Seconds to the first line about rows that are held still, and at most between two."""


def watch(
    screen: Screen, setting: Setting, *, one: bool, once: bool, partly: bool, paused: bool, every: float
) -> Code:
    """Take up what can go on, for ever; with `once`, until nothing more can. With --json, one document a line."""
    if one:
        raise BadInput(
            "--watch takes up every run that can go on: leave out the run, and answer with `foreplan decide`"
        )
    with stored(setting.kept.journal, key=setting.kept.journal_key) as journal:
        assert journal is not None
        engine = Engine(**setting.loaded(), journal=journal)
        teller = Teller(screen, engine.broken_tools)
        options: dict[str, Any] = {"once": once, "partly": partly, "paused": paused, "every": every}

        async def look() -> None:
            with ended_by_sigterm():
                if not once:
                    teller.begun(str(journal.path))
                await engine.resume_all(**options, tell=teller.tell)

        try:
            with teller.beating():
                wait_for(look)
        except (KeyboardInterrupt, asyncio.CancelledError):
            teller.stopped()
            return Code.INTERRUPTED
        return teller.code


class Teller:
    """Says what becomes of each run, and keeps the worst of it for the exit code."""

    def __init__(
        self,
        screen: Screen,
        broken: Callable[[], Sequence[Broken]] = list,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.code = Code.DONE
        self._screen = screen
        self._broken = broken
        self._clock = clock
        self._under_way: set[str] = set()
        self._held: dict[str, dict[str, ToolHeld]] = {}
        """Of each batch that holds rows the tools for which they wait."""
        self._next = self._wait = 0.0

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
        if said.tool is not None:
            self._tool(said.run, said.tool)
            return
        self._under_way.discard(said.run)
        self._held.pop(said.run, None)
        if said.ended is not None:
            self._ended(said.ended)
        else:
            self._worse(Code.NOT_APPROVED)
            document = {"what": "refused", "message": said.why}
            self._line(said.run, f"cannot go on here: {said.why}", document, important=True)

    def _tool(self, run: str, event: ToolHeld | ToolFreed) -> None:
        """A tool is broken, or back. It is said with --quiet too: who sees nothing happen takes it for a hang."""
        if isinstance(event, ToolHeld):
            if not self._held:
                self._wait, self._next = _SOON, self._clock() + _SOON
            self._held = {**self._held, run: {**self._held.get(run, {}), event.tool: event}}
            how = {"kind": event.kind, "failures": event.failures, "seconds": event.seconds}
            document = {"what": "holding", "tool": event.tool, **how}
            self._line(run, holding(event), document, important=True)
            return
        rest = {tool: held for tool, held in self._held.get(run, {}).items() if tool != event.tool}
        others = {other: held for other, held in self._held.items() if other != run}
        self._held = {**others, run: rest} if rest else others
        self._line(run, f"{event.tool} is back", {"what": "freed", "tool": event.tool}, important=True)

    def beat(self) -> None:
        """Of rows that are held, how it stands, ever more seldom."""
        if not self._held or self._clock() < self._next:
            return
        self._wait = min(self._wait * 1.5, _SELDOM)
        self._next = self._clock() + self._wait
        for run, held in self._held.items():
            for told in still_holding(held, self._broken()):
                self._line(run, told, {})

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Meanwhile somebody who reads lines hears of rows that are held also while nothing happens."""
        left = threading.Event()

        def go() -> None:
            while not left.wait(1.0):
                with suppress(OSError, ValueError):
                    self.beat()

        if not (self._screen.json or self._screen.quiet):
            threading.Thread(target=go, daemon=True).start()
        try:
            yield
        finally:
            left.set()

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
