"""How a batch comes along, while it does: a fold over its events, and how it is drawn.

3,412 of 10,000 rows  ·  118 rows/s  ·  56 s left  ·  41 failed (40 business, 1 network)  ·  64 under way
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ...executor import events as e
from ...executor.events import Event
from ...policies.batches import BatchRules
from ...policies.text import count
from ..lines import Cell, joined, line, seconds
from ..live import View, bar

__all__ = ["BatchProgress", "BatchView", "batch_picture", "batch_summary"]

_WINDOW = 20
"""So many seconds, about, the rate looks back."""
_KINDS = 4
"""So many kinds of failures are told."""


class BatchProgress:
    """What the events of one batch add up to. Feed it with `take`, also with those of an earlier process."""

    def __init__(self) -> None:
        self.batch = ""
        self.rows: int | None = None
        """How many there are, once all are in the journal."""
        self.done = 0
        self.aside = 0
        """Rows that were set aside before they ran."""
        self.failures: Counter[str] = Counter()
        self.parked: set[int] = set()
        self.held: set[str] = set()
        """Tools that are broken at the moment."""
        self.asked: dict[str, e.DecisionAsked] = {}
        self.calls = 0
        self.cost = 0.0
        self.rules = BatchRules()
        self.finished = False
        self.under_way: Callable[[], int] = lambda: 0
        """How many rows are under way now; the engine knows."""
        self._marks: deque[tuple[float, int]] = deque(maxlen=_WINDOW + 1)

    @property
    def failed(self) -> int:
        """Rows that ran and are not done."""
        return self.failures.total()

    @property
    def settled(self) -> int:
        """Rows that have ended."""
        return self.done + self.failed + self.aside

    @property
    def rate(self) -> float | None:
        """Rows a second, lately; None where nothing can be said yet."""
        if len(self._marks) < 2:
            return None
        (began, before), (now, after) = self._marks[0], self._marks[-1]
        return (after - before) / (now - began) if now > began and after > before else None

    @property
    def left(self) -> float | None:
        """Seconds to the end at this rate."""
        rate = self.rate
        if rate is None or self.rows is None:
            return None
        return max(0, self.rows - self.settled - len(self.parked)) / rate

    def take(self, event: Event) -> None:
        """Add one event."""
        take = self._TAKE.get(type(event))
        if take is not None:
            take(self, event)

    def _opened(self, event: e.BatchOpened) -> None:
        self.batch, self.rules = event.run, BatchRules.model_validate(event.rules)

    def _taken(self, event: e.RowsTaken) -> None:
        self.rows = event.rows
        self._mark(event.at, anew=True)

    def _settled(self, event: e.RowSettled) -> None:
        if not event.ordinal:
            return  # what all rows share
        self.parked.discard(event.ordinal)
        if event.status == "done":
            self.done += 1
        elif event.status == "refused":
            self.aside += 1
        else:
            self.failures[event.kind or event.reason or "other"] += 1
        used = event.used or {}
        self.calls += used.get("tool_calls", 0)
        self.cost += float(used.get("cost", 0))
        self._mark(event.at)

    def _mark(self, at: float, *, anew: bool = False) -> None:
        if anew:
            self._marks.clear()
        if not self._marks or at >= self._marks[-1][0] + 1:
            self._marks.append((at, self.settled))

    def _parked(self, event: e.RowParked) -> None:
        self.parked.add(event.ordinal)

    def _asked(self, event: e.DecisionAsked) -> None:
        self.asked[event.id] = event

    def _made(self, event: e.DecisionMade) -> None:
        self.asked.pop(event.id, None)

    def _held(self, event: e.ToolHeld) -> None:
        self.held.add(event.tool)

    def _freed(self, event: e.ToolFreed) -> None:
        self.held.discard(event.tool)

    def _over(self, event: e.RunClosed | e.RunPaused) -> None:
        self.finished = True

    def _resumed(self, event: e.RunResumed) -> None:
        self.finished = False
        self.held.clear()
        self._mark(event.at, anew=True)

    def _reopened(self, event: e.RowsReopened) -> None:
        self.finished = False
        self.failures.clear()
        self._mark(event.at, anew=True)

    _TAKE: Mapping[type[Event], Callable[[BatchProgress, Any], None]] = {
        e.BatchOpened: _opened,
        e.RowsTaken: _taken,
        e.RowSettled: _settled,
        e.RowParked: _parked,
        e.RowsReopened: _reopened,
        e.ToolHeld: _held,
        e.ToolFreed: _freed,
        e.DecisionAsked: _asked,
        e.DecisionMade: _made,
        e.RunPaused: _over,
        e.RunClosed: _over,
        e.RunResumed: _resumed,
    }


# ---------------------------------------------------------------------------------------------- pictures


def batch_summary(progress: BatchProgress, elapsed: float) -> Text:
    """Rows, how fast, what failed, what is spent, on one line."""
    return joined([*_rows(progress), *_troubles(progress), *_spent(progress), seconds(elapsed)])


def _rows(progress: BatchProgress) -> list[Cell]:
    if progress.rows is None:
        return ["taking the rows in"]
    parts: list[Cell] = [f"{progress.settled:,} of {count(progress.rows, 'row')}"]
    rate, left = progress.rate, progress.left
    if rate is not None and not progress.finished:
        parts.append(f"{rate:,.0f} rows/s" if rate >= 10 else f"{rate * 60:,.0f} rows/min")
        parts.append(f"{seconds(left or 0)} left")
    under_way = progress.under_way()
    if under_way:
        parts.append(f"{under_way:,} under way")
    return parts


def _troubles(progress: BatchProgress) -> list[Cell]:
    parts: list[Cell] = []
    if progress.failed:
        told = progress.failures.most_common(_KINDS)
        kinds = ", ".join(f"{n:,} {kind}" if len(progress.failures) > 1 else kind for kind, n in told)
        parts.append(line(f"{progress.failed:,} failed ({kinds})", "red"))
    if progress.aside:
        parts.append(Text(f"{progress.aside:,} set aside", "yellow"))
    if progress.parked:
        parts.append(Text(f"{len(progress.parked):,} waiting", "yellow"))
    if progress.held:
        parts.append(line(f"{', '.join(sorted(progress.held))} is down: rows wait for it", "bold yellow"))
    if progress.asked:
        parts.append(Text(count(len(progress.asked), "question"), "bold yellow"))
    return parts


def _spent(progress: BatchProgress) -> list[Cell]:
    budget, parts = progress.rules.budget, list[Cell]()
    most = f" of {budget.tool_calls:,}" if budget.tool_calls is not None else ""
    parts.append(f"{progress.calls:,}{most} calls" if most else count(progress.calls, "call"))
    if progress.cost or budget.cost is not None:
        most = f" of {budget.cost:g}" if budget.cost is not None else ""
        parts.append(f"cost {progress.cost:g}{most}")
    return parts


def batch_picture(progress: BatchProgress, elapsed: float, *, ascii_only: bool = False) -> RenderableType:
    """A bar, and the line under it."""
    drawn = bar(progress.settled, progress.rows, ascii_only)
    return Group(Text.assemble("  ", drawn), batch_summary(progress, elapsed))


class BatchView(View):
    """Shows the progress of one batch on stderr; `rows` is what it has gathered."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.rows = BatchProgress()

    def watch(self, event: Event) -> None:
        """Take an event of the batch."""
        self.rows.take(event)
        super().watch(event)

    def drawn(self, elapsed: float, *, ascii_only: bool) -> RenderableType:
        """What a terminal shows."""
        return batch_picture(self.rows, elapsed, ascii_only=ascii_only)

    def told(self, elapsed: float) -> Text:
        """The line that is said now and then."""
        return batch_summary(self.rows, elapsed)

    def announced(self, event: Event) -> str:
        """What is worth a line of its own."""
        rows = self.rows
        match event:
            case e.RowsTaken():
                aside = f", {rows.aside:,} of them set aside" if rows.aside else ""
                return f"batch {rows.batch}: {count(event.rows, 'row')}{aside}"
            case e.RunResumed() | e.RowsReopened():
                return f"batch {rows.batch} goes on: {rows.settled:,} of {rows.rows or 0:,} rows have ended"
            case e.ToolHeld():
                return f"{event.tool} fails again and again: rows wait until it is back"
            case e.GroupFormed():
                return f"{count(event.rows, 'row')} failed alike: the planner is asked"
            case e.GroupSettled():
                return "they go on with a patch" if event.patch is not None else f"no patch: {event.message}"
            case e.ToolFreed():
                return f"{event.tool} is back"
            case e.DecisionAsked():
                return f"a person is asked: {event.id}"
            case _:
                return ""
