"""How a batch comes along, while it does: a fold over its events, and how it is drawn.

3,412 of 10,000 rows  ·  118 rows/s  ·  56 s left  ·  41 failed (40 business, 1 network)  ·  64 under way
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ...executor import events as e
from ...executor.events import Event
from ...executor.hands.limits import Broken
from ...executor.mind.batch import with_budget
from ...policies.batches import BatchRules
from ...policies.text import count
from ..lines import Cell, joined, line, seconds
from ..live import View, bar
from ..telling import failed_in_a_row

__all__ = ["BatchProgress", "BatchView", "batch_picture", "batch_summary", "holding", "still_holding"]

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
        self.held: dict[str, e.ToolHeld] = {}
        """Tools that are broken at the moment."""
        self.asked: dict[str, e.DecisionAsked] = {}
        self.calls = 0
        self.cost = 0.0
        self.rules = BatchRules()
        self.finished = False
        self.under_way: Callable[[], int] = lambda: 0
        """How many rows are under way now; the engine knows."""
        self.broken: Callable[[], Sequence[Broken]] = list
        """When broken tools are tried again; the engine knows."""
        self.how_to_go_on: Callable[[str], str] = lambda batch: ""
        """The command by which a batch of this id goes on after Ctrl-C; "" if it could not."""
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
        self.held[event.tool] = event

    def _freed(self, event: e.ToolFreed) -> None:
        self.held.pop(event.tool, None)

    def _over(self, event: e.RunClosed | e.RunPaused) -> None:
        self.finished = True

    def _resumed(self, event: e.RunResumed) -> None:
        self.finished = False
        self.held.clear()
        self._mark(event.at, anew=True)

    def _reopened(self, event: e.RowsReopened) -> None:
        self.finished = False
        self.failures.clear()
        self.rules = with_budget(self.rules, event.raised)
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
    parts += [line(said, "bold yellow") for said in _holding(progress)]
    if progress.asked:
        parts.append(Text(count(len(progress.asked), "question"), "bold yellow"))
    return parts


def _holding(progress: BatchProgress) -> Iterator[str]:
    """Of each tool that is held, what happened, and when it is tried again."""
    return still_holding(progress.held, progress.broken())


def still_holding(held: Mapping[str, e.ToolHeld], broken_tools: Sequence[Broken]) -> Iterator[str]:
    """The same of these tools, and of what the engine knows of them."""
    due = {broken.tool: broken for broken in broken_tools}
    for tool, event in sorted(held.items()):
        broken = due.get(tool)
        failures = event if broken is None else event._replace(failures=broken.failures, kind=broken.kind)
        again = f"tried again in {seconds(broken.seconds)}" if broken is not None else "rows wait for it"
        yield f"holding: {tool} {failed_in_a_row(failures)}, {again}"


def how_it_stops(progress: BatchProgress) -> str:
    """That a batch which holds is no batch which hangs, and what to do who will not wait."""
    command = progress.how_to_go_on(progress.batch)
    if not command:
        return "Ctrl-C ends it for good, because it is kept in memory only (--journal FILE keeps batches)"
    return f"Ctrl-C stops safely; go on later with: {command}"


def _spent(progress: BatchProgress) -> list[Cell]:
    budget, parts = progress.rules.budget, list[Cell]()
    most = f" of {budget.tool_calls:,}" if budget.tool_calls is not None else ""
    parts.append(f"{progress.calls:,}{most} calls" if most else count(progress.calls, "call"))
    if progress.cost or budget.cost is not None:
        most = f" of {budget.cost:g}" if budget.cost is not None else ""
        parts.append(f"cost {progress.cost:g}{most}")
    return parts


def batch_picture(progress: BatchProgress, elapsed: float, *, ascii_only: bool = False) -> RenderableType:
    """A bar, and the line under it; while rows are held, how to stop."""
    drawn = Text.assemble("  ", bar(progress.settled, progress.rows, ascii_only))
    stops = [line(how_it_stops(progress), "dim")] if progress.held else []
    return Group(drawn, batch_summary(progress, elapsed), *stops)


def holding(event: e.ToolHeld) -> str:
    """That a tool is broken, and what becomes of the rows."""
    every = f"; one call tries it again every {seconds(event.seconds)}" if event.seconds else ""
    return f"holding: {event.tool} {failed_in_a_row(event)}, so rows wait for it instead of failing{every}"


def _held_back(rows: BatchProgress, event: e.ToolHeld) -> str:
    """Plainly, because somebody who sees nothing happen takes it for a hang."""
    left = max(0, (rows.rows or 0) - rows.settled)
    return f"{holding(event)}; {rows.settled:,} of {count(rows.rows or 0, 'row')} have ended, {left:,} left; {how_it_stops(rows)}"


class BatchView(View):
    """Shows the progress of one batch on stderr; `rows` is what it has gathered."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.rows = BatchProgress()

    def watch(self, event: Event) -> None:
        """Take an event of the batch. That rows are held, and are not any more, is said although all else is quiet."""
        self.rows.take(event)
        super().watch(event)
        if self._silent and isinstance(event, e.ToolHeld | e.ToolFreed):
            self._say(line(self.announced(event)))

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
                return _held_back(rows, event)
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
