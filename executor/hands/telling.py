"""What tools say while they work, on its way to whoever listens to the run: from any thread into the loop, and bounded.

Of an attempt at most one report is on its way: a loop that reports a million times costs the event loop what it can
take in, and the newest report is the one that counts. Notes go in order, and what is too much of them is dropped.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from ...policies.text import safe_text
from ..events import Path, path_text
from ..wake import Portal

__all__ = ["Listen", "Said", "Teller"]

_NOTES = 64
"""Notes of one attempt that may be on their way at once."""
_LONGEST = 500


class Said(NamedTuple):
    """What a tool says of the call it is making: how far it is (None where it only notes something), and a text."""

    run: str
    path: Path
    tool: str
    attempt: int
    fraction: float | None
    """From 0 to 1."""
    done: float | None
    total: float | None
    text: str

    @property
    def step(self) -> str:
        """The step, with the items it runs for: `refund[3]`."""
        return path_text(self.path)


Listen = Callable[[Said], None]
_LOG = logging.getLogger("foreplan")


class Teller:
    """One attempt's way to the listener. `over` ends it: an attempt that was given up is heard no more."""

    __slots__ = ("_about", "_listen", "_notes", "_on_its_way", "_over", "_portal", "_report")

    def __init__(self, listen: Listen, about: tuple[str, Path, str, int]) -> None:
        self._listen = listen
        self._about = about
        self._portal = Portal.current()
        self._report: Said | None = None
        self._notes: deque[Said] = deque(maxlen=_NOTES)
        self._on_its_way = False
        self._over = False

    def tell(self, done: float | None, total: float, text: str) -> None:
        """Take what a tool says, in any thread; nonsense is dropped."""
        said = _said(self._about, done, total, text)
        if said is None or self._over:
            return
        if done is None:
            self._notes.append(said)
        else:
            self._report = said
        if not self._on_its_way:
            self._on_its_way = True
            self._portal.call_soon(self._deliver)

    def over(self) -> None:
        """The attempt has ended: what is on its way still arrives, before anything follows from the end."""
        self._deliver()
        self._over = True

    def _deliver(self) -> None:
        """In the loop."""
        self._on_its_way = False
        report, self._report = self._report, None
        while self._notes and not self._over:
            self._hear(self._notes.popleft())
        if report is not None and not self._over:
            self._hear(report)

    def _hear(self, said: Said) -> None:
        try:
            self._listen(said)
        except Exception:
            self._over = True
            _LOG.exception("`listen` raised, so %s is not heard any more", said.step)


def _said(about: tuple[str, Path, str, int], done: object, total: object, text: object) -> Said | None:
    run, path, tool, attempt = about
    words = safe_text(str(text), _LONGEST) if isinstance(text, str) else ""
    if done is None:
        return Said(run, path, tool, attempt, None, None, None, words)
    if not (isinstance(done, int | float) and isinstance(total, int | float)):
        return None
    try:
        done, total = float(done), float(total)
        if math.isfinite(done) and math.isfinite(total) and total > 0:
            return Said(run, path, tool, attempt, min(1.0, max(0.0, done / total)), done, total, words)
    except (OverflowError, ValueError):
        pass
    return None
