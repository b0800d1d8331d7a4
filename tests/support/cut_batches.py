"""Batches whose process is killed after any event: a journal that remembers the order, and what it holds up to there."""

from __future__ import annotations

from typing import Any

from foreplan import MemoryJournal
from foreplan.executor.events import Event

__all__ = ["Recorded", "cut"]


class Recorded(MemoryJournal):
    """Remembers in which order events came, over all runs."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[tuple[str, Event]] = []

    def create(self, run: str, *, approval: str = "") -> Any:
        return self._watched(super().create(run, approval=approval))

    def _row(self, run: str, batch: str, ordinal: int) -> Any:
        return self._watched(super()._row(run, batch, ordinal))

    def _watched(self, log: Any) -> Any:
        inner = log.append

        def append(event: Event) -> None:
            inner(event)
            self.order.append((log.run, event))

        log.append = append
        return log


def cut(journal: Recorded, count: int) -> MemoryJournal:
    """What a journal holds whose process was killed after so many events."""
    held = MemoryJournal()
    for run, event in journal.order[:count]:
        if run == "b":
            held._events.setdefault("b", []).append(event)
        else:
            held._row(run, "b", int(run.partition(".")[2])).append(event)
    return held
