"""How a run comes along, while it does: a fold over its events, and two ways to show what it has gathered.

    watch(event) --> Progress.take --> Tally of each step
                                          |
         terminal   View: drawn anew a few times a second by rich's own thread, gone at the end
         otherwise  View: a line on stderr now and then, ever more seldom

Taking an event is a few additions; drawing is never done per event. What cannot be drawn is not drawn: a stream that is
gone, or too narrow, must not touch the run.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from ..executor import events as e
from ..executor.events import Event, Outcome
from ..executor.hands.telling import Said
from ..executor.mind.state import REACT
from ..planner.plan import Patch, Plan, Step
from ..policies.effect import Effect
from ..policies.errors import ForeplanError
from ..policies.expressions import compile_template
from ..policies.policies import Policies
from ..policies.retry import wait_before
from ..policies.text import count, shorten
from .lines import NAME, Cell, joined, line, seconds
from .screen import Screen

__all__ = ["Progress", "Tally", "View", "bar"]

_FRAMES = 8
"""Drawings a second: enough to see that it moves, a few milliseconds each."""
_ROWS = 8
"""Steps that are shown at once; the others are counted."""
_BAR = 24


class Tally:
    """One step: how many of its calls (of a group: its items) there are, are open, have ended, and how."""

    __slots__ = (
        "_stops",
        "_whole",
        "ended",
        "fans_out",
        "inside",
        "open",
        "repeats",
        "retries",
        "said",
        "total",
    )

    def __init__(self, step: Step) -> None:
        self.fans_out = step.has("each") and (step.tool is not None or step.steps is not None)
        self.repeats = step.repeats and not step.has("each")
        self.total: int | None = step.max if self.repeats else None if self.fans_out else 1
        self.open: set[e.Path] = set()
        self.retries = 0
        self.ended: Counter[Outcome] = Counter()
        self.said: Said | None = None
        """The last that a tool said of a call that is open."""
        self.inside = 0
        """Of a group: steps inside it that have ended."""
        self._stops = step.on_failure == "stop"
        self._whole = False

    @property
    def done(self) -> int:
        """Calls or items that have ended."""
        return self.ended.total()

    @property
    def settled(self) -> bool:
        """Whether nothing of it is to come: items that were never begun when one failed are not counted."""
        stopped = self._stops and bool(self.ended[Outcome.FAILED]) and not self.open
        return self._whole or self.done == self.total or stopped

    @property
    def under_way(self) -> bool:
        """Whether something of it is open, or has ended and more is to come."""
        return bool(self.open) or (bool(self.done or self.inside) and not self.settled)

    def end(self, path: e.Path, outcome: Outcome) -> None:
        """One item, the step as a whole, or a step inside it has ended."""
        self.open.discard(path)
        if self.said is not None and self.said.path == path:
            self.said = None
        if len(path) > 2 or (len(path) == 2 and isinstance(path[1], str)):
            self.inside += 1
            return
        self.ended[outcome] += 1
        self._whole = self._whole or len(path) == 1

    def enough(self) -> None:
        """`until` holds: no further call is made."""
        self._whole = True


class Progress:
    """What the events of one run add up to. Feed it with `take`, also with those of an earlier process."""

    def __init__(self) -> None:
        self.run = ""
        self.goal = ""
        self.plan: Plan | None = None
        self.tallies: dict[str, Tally] = {}
        self.failures: Counter[str] = Counter()
        self.dialogue = False
        self.rounds = 0
        """Answers of a model in a dialogue."""
        self.asking: dict[e.Path, str] = {}
        """Calls that are open in a dialogue, each with its tool."""
        self.calls = 0
        self.retries = 0
        self.replans = 0
        self.undone = 0
        self.asked: dict[str, e.DecisionAsked] = {}
        self.opened_at = 0.0
        self.at = 0.0
        self.finished = False
        self._policies = Policies()
        self._effects: dict[str, Effect] = {}
        self._sizes: dict[str, Any] = {}
        self._steps: dict[str, Step] = {}
        self._scope: dict[str, Any] = {}
        self._wanted: frozenset[str] = frozenset()

    def hear(self, said: Said) -> None:
        """What a tool says of a call of this run; of one that has ended, nothing is kept."""
        tally = self.tallies.get(str(said.path[0])) if said.run == self.run and said.path else None
        if tally is not None and tally.under_way:
            tally.said = said

    @property
    def settled(self) -> int:
        """Steps that have ended."""
        return sum(tally.settled for tally in list(self.tallies.values()))

    @property
    def took(self) -> float:
        """Seconds from the first event to the last."""
        return self.at - self.opened_at

    @property
    def under_way(self) -> list[tuple[str, Tally]]:
        """Steps with calls open, or fanned out and not at their end."""
        return [(id, t) for id, t in list(self.tallies.items()) if t.under_way]

    def sources(self, asked: e.DecisionAsked) -> Mapping[str, Any]:
        """The templates of the arguments that a question shows values of."""
        if "of" in asked.question:
            return {}  # it shows values of a call inside a sub-plan
        step, undoes = self._step_at(asked.path)
        if step is None or not undoes:
            return step.args if step is not None else {}
        return step.undo.args if step.undo is not None else {}

    def _step_at(self, path: e.Path) -> tuple[Step | None, bool]:
        """The step that a path leads to, and whether to the call that undoes it."""
        if path and path[0] == REACT:
            return None, False  # a call of a dialogue is no step of the plan, whatever it is called
        ids = [part for part in path if isinstance(part, str)]
        if len(ids) > 1 and ids[-1] == "undo":
            before = self._steps.get(ids[-2])
            if before is not None and before.steps is None:
                return before, True
        return (self._steps.get(ids[-1]) if ids else None), False

    def take(self, event: Event) -> None:
        """Add one event."""
        self.at = event.at
        take = self._TAKE.get(type(event))
        if take is not None:
            take(self, event)

    # ------------------------------------------------------------------------------------------ one event each

    def _opened(self, event: e.RunOpened) -> None:
        self.run, self.opened_at = event.run, event.at
        self._policies = event.policies
        self._effects = {name: Effect(contract["effect"]) for name, contract in event.contracts.items()}
        self._scope = {"inputs": event.inputs, "run": {"id": event.run, "started_at": event.at}}
        self.dialogue = event.agent is not None

    def _batch_opened(self, event: e.BatchOpened) -> None:
        """Of a batch only the plan is known here: where values of a question come from."""
        self.run, self.opened_at = event.run, event.at
        self.plan, self.goal = event.plan, event.plan.goal
        self._add(event.plan.steps)

    def _accepted(self, event: e.PlanAccepted) -> None:
        self.plan, self.goal = event.plan, event.plan.goal
        self._add(event.plan.steps)

    def _patched(self, event: e.PatchAccepted) -> None:
        self.replans += 1
        if event.patch is None:  # of a row; nobody watches those one by one
            return
        for id_ in (*event.patch.drop, *(step.replaces for step in event.patch.add if step.replaces)):
            self.tallies.pop(id_, None)
        self._add(event.patch.add)

    def _add(self, steps: Iterable[Step]) -> None:
        """Steps join; the values that their `each` reads are kept from now on."""
        for step in steps:
            self.tallies[step.id] = Tally(step)
            self._steps.update((inner.id, inner) for inner in _with_all_inside(step))
            if step.has("each"):
                self._sizes[step.id] = _template(step.each)
        names = [t.names for t in self._sizes.values() if t is not None]
        self._wanted = frozenset().union(*names) - {"inputs", "run"}

    def _admitted(self, event: e.CallAdmitted) -> None:
        self.calls += 1
        if event.path[0] == REACT:
            self.asking[event.path] = event.tool
        tally = self.tallies.get(str(event.path[0]))
        if tally is not None:
            tally.open.add(event.path)
            if tally.total is None:
                tally.total = self._size(str(event.path[0]))

    def _size(self, id_: str) -> int | None:
        """How many items an `each` has; None where that cannot be told from here."""
        template = self._sizes.pop(id_, None)
        try:
            items = template.evaluate(self._scope) if template is not None else None
        except ForeplanError:
            return None
        return len(items) if isinstance(items, list) else None

    def _call_settled(self, event: e.CallSettled) -> None:
        if event.path[0] == REACT:
            self._settled_in_dialogue(event)
            return
        tally = self.tallies.get(str(event.path[0]))
        if tally is None:
            return
        step, undoes = self._step_at(event.path)
        if event.outcome is Outcome.CANCELLED or event.outcome is Outcome.UNKNOWN:
            return
        if event.failure is not None and self._goes_on(event, step, undoes):
            tally.retries += 1
            self.retries += 1
            return
        if undoes:
            tally.open.discard(event.path)
            self.undone += event.outcome is Outcome.OK
            return
        self._end(event.path, event.outcome, event.value)
        if event.failure is not None:
            self.failures[event.failure.kind.value] += 1

    def _settled_in_dialogue(self, event: e.CallSettled) -> None:
        tool = self.asking.get(event.path, "")
        if event.outcome is Outcome.CANCELLED or event.outcome is Outcome.UNKNOWN:
            return
        if self._is_repeated(event, tool):
            self.retries += 1
            return
        self.asking.pop(event.path, None)
        if event.failure is not None:
            self.failures[event.failure.kind.value] += 1

    def _goes_on(self, event: e.CallSettled, step: Step | None, undoes: bool) -> bool:
        tool = step.undo.tool if step is not None and undoes and step.undo is not None else step and step.tool
        return self._is_repeated(event, tool or "")

    def _is_repeated(self, event: e.CallSettled, tool: str) -> bool:
        """Whether this attempt is followed by another, by the same arithmetic that decides it."""
        failure = event.failure
        effect = self._effects.get(tool, Effect.ACTS)
        if failure is None or not event.attempt:
            return False
        if failure.code == "interrupted" and effect.repeatable:
            return True
        retry = self._policies.retry
        return wait_before(retry, event.attempt, failure=failure, effect=effect, dice=event.dice) is not None

    def _value_settled(self, event: e.ValueSettled) -> None:
        self._end(event.path, event.outcome, event.value)
        if event.failure is not None:
            self.failures[event.failure.kind.value] += 1

    def _end(self, path: e.Path, outcome: Outcome, value: Any) -> None:
        id_ = str(path[0])
        tally = self.tallies.get(id_)
        if tally is not None:
            tally.end(path, outcome)
        step, _ = self._step_at(path)
        if step is None or step.id != id_:
            return  # inside a group: outside sees only what the group gives
        if tally is not None and step.repeats and outcome is Outcome.OK and self._is_enough(step, value):
            tally.enough()
        if id_ in self._wanted:
            self._keep(id_, path, value)

    def _is_enough(self, step: Step, value: Any) -> bool:
        """Whether `until` holds, as far as that can be told from here."""
        template = _template(step.until)
        try:
            return template is not None and template.evaluate({**self._scope, "result": value}) is True
        except ForeplanError:
            return False

    def _keep(self, id_: str, path: e.Path, value: Any) -> None:
        """Remember a value that the `each` of another step reads."""
        if len(path) == 1:
            self._scope[id_] = value
            return
        kept, index = self._scope.setdefault(id_, []), int(path[1])
        kept.extend([None] * (index + 1 - len(kept)))
        kept[index] = value

    def _answered(self, event: e.ModelAnswered) -> None:
        if event.purpose == "react":
            self.dialogue = True
            self.rounds += event.said is not None

    def _asked(self, event: e.DecisionAsked) -> None:
        self.asked[event.id] = event

    def _made(self, event: e.DecisionMade) -> None:
        asked = self.asked.pop(event.id, None)
        if asked is not None and asked.path and event.choice not in ("approve", "retry"):
            ok = event.choice in ("accept", "answer")
            self.asking.pop(asked.path, None)
            self._end(asked.path, Outcome.OK if ok else Outcome.FAILED, event.value)
            if not ok:
                self.failures["timeout" if event.choice == "fail" else "permission"] += 1

    def _ended(self, event: e.RunClosed | e.RunPaused) -> None:
        self.finished = True

    def _resumed(self, event: e.RunResumed) -> None:
        self.finished = False

    _TAKE: Mapping[type[Event], Callable[..., None]] = {
        e.RunOpened: _opened,
        e.BatchOpened: _batch_opened,
        e.PlanAccepted: _accepted,
        e.PatchAccepted: _patched,
        e.CallAdmitted: _admitted,
        e.CallSettled: _call_settled,
        e.ValueSettled: _value_settled,
        e.ModelAnswered: _answered,
        e.DecisionAsked: _asked,
        e.DecisionMade: _made,
        e.RunPaused: _ended,
        e.RunClosed: _ended,
        e.RunResumed: _resumed,
    }


def _with_all_inside(step: Step) -> Iterator[Step]:
    yield step
    for inner in step.steps or ():
        yield from _with_all_inside(inner)


def _template(value: Any) -> Any:
    try:
        return compile_template(value)
    except ForeplanError:
        return None


# ---------------------------------------------------------------------------------------------- pictures


def summary(progress: Progress, elapsed: float) -> Text:
    """`3 of 8 steps  ·  124 calls  ·  2 failed (business)  ·  1 retry  ·  12 s`."""
    parts: list[Text | str] = []
    if progress.tallies or not progress.dialogue:
        parts.append(f"{progress.settled:,} of {count(len(progress.tallies), 'step')}")
    if progress.dialogue:
        parts.append(count(progress.rounds, "round"))
    parts.append(count(progress.calls, "call"))
    if progress.failures:
        kinds = ", ".join(
            f"{n:,} {kind}" if len(progress.failures) > 1 else kind for kind, n in progress.failures.items()
        )
        parts.append(Text(f"{progress.failures.total():,} failed ({kinds})", "red"))
    if progress.retries:
        parts.append(Text(count(progress.retries, "retry", "retries"), "yellow"))
    if progress.replans:
        parts.append(Text(count(progress.replans, "re-plan"), "yellow"))
    if progress.undone:
        parts.append(Text(f"{progress.undone:,} undone", "yellow"))
    if progress.asked:
        parts.append(Text(count(len(progress.asked), "question"), "bold yellow"))
    parts.append(seconds(elapsed))
    return joined(parts)


def picture(progress: Progress, elapsed: float, *, ascii_only: bool = False) -> RenderableType:
    """The steps under way, each on a line, and the sum."""
    shown = progress.under_way
    width = max((len(id_) for id_, _ in shown[:_ROWS]), default=0)
    rows = [_row(id_, tally, min(width, NAME), ascii_only) for id_, tally in shown[:_ROWS]]
    if len(shown) > _ROWS:
        rows.append(Text(f"  and {count(len(shown) - _ROWS, 'more step')}", "dim"))
    if progress.dialogue and not progress.finished:
        rows.append(_doing(progress))
    return Group(*rows, summary(progress, elapsed))


def _doing(progress: Progress) -> Text:
    """What a dialogue is at: its calls, or the model's next answer."""
    calls = Counter(list(progress.asking.values()))
    told = ", ".join(f"{tool} x{n}" if n > 1 else tool for tool, n in calls.items())
    return line(f"  round {progress.rounds or 1}  {told}" if told else "  the model is asked", limit=200)


def _row(id_: str, tally: Tally, width: int, ascii_only: bool) -> Text:
    name = line(id_, limit=NAME)
    name.pad_right(max(0, width - len(name)))
    parts: list[Cell] = ["  ", name, "  "]
    if tally.fans_out:
        parts += [
            bar(tally.done, tally.total, ascii_only),
            f"  {tally.done:,}" + (f"/{tally.total:,}" if tally.total is not None else ""),
        ]
    elif tally.repeats and tally.done:
        parts += [f"{count(tally.done, 'call')}" + (f" of at most {tally.total:,}" if tally.total else "")]
    if tally.said is not None:
        parts += [Text("  "), Text(_report(tally.said), "dim")]
    if tally.inside:
        parts += [Text(f"  {count(tally.inside, 'step')} inside", "dim")]
    failed = tally.ended[Outcome.FAILED]
    if failed:
        parts += [Text(f"  {failed:,} failed", "red")]
    if tally.retries:
        parts += [Text(f"  {count(tally.retries, 'retry', 'retries')}", "yellow")]
    return Text.assemble(*parts)


def _report(said: Said) -> str:
    """`40%  pages`, with the item where the step has many."""
    share = f"{said.fraction:.0%}" if said.fraction is not None else ""
    item = said.step.partition("[")[1:]
    return "  ".join(shorten(part, 60) for part in ("".join(item), share, said.text) if part)


def bar(done: int, total: int | None, ascii_only: bool) -> Text:
    """How much of a number is done; an empty one where the number is not known."""
    full, rest = ("#", "-") if ascii_only else ("━", "─")
    filled = round(_BAR * done / total) if total else 0
    return Text.assemble((full * filled, "green"), (rest * (_BAR - filled), "bright_black"))


# ---------------------------------------------------------------------------------------------- the view


class View:
    """Shows the progress of one run on stderr, as a context manager; `watch` is for the engine.

    It never raises into the run: where nothing can be shown any more, nothing is.
    """

    def __init__(self, screen: Screen, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.progress = Progress()
        self._screen = screen
        self._console: Console = screen.err
        self._clock = clock
        self._began = clock()
        self._live: Live | None = None
        self._silent = screen.quiet
        self._next = 2.0
        self._wait = 2.0
        self._left = threading.Event()
        self._spoken = False

    def listen(self, said: Said) -> None:
        """Take what a tool says while it works; it is drawn with its step, where steps are drawn."""
        self.progress.hear(said)

    def watch(self, event: Event) -> None:
        """Take an event of the run."""
        self.progress.take(event)
        if self._live is None and not self._silent:
            self._speak(event)

    def __enter__(self) -> Self:
        if not self._silent and self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = Live(
                console=self._console,
                get_renderable=self._picture,
                refresh_per_second=_FRAMES,
                transient=True,
                redirect_stdout=True,
                redirect_stderr=True,
                vertical_overflow="crop",
            )
            self._live.start()
        elif not self._silent:
            self._left.clear()
            threading.Thread(target=self._beat, daemon=True).start()
        return self

    def _beat(self) -> None:
        """A line now and then also while nothing happens: what waits must not look as if it hung."""
        while not self._left.wait(1.0):
            self.beat()

    def beat(self) -> None:
        """Say how it stands, if it is time for that."""
        if self._live is None and self._spoken and not self._silent and not self.progress.asked:
            with suppress(RuntimeError):  # the loop was just changing what is told; there is a next time
                self._sum_up()

    def __exit__(self, *_: object) -> None:
        self._left.set()
        live, self._live = self._live, None
        if live is not None:
            self._quietly(live.stop)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Clear the picture away while a person is asked something, then go on."""
        live, self._live = self._live, None
        if live is None:
            yield
            return
        self._quietly(live.stop)
        try:
            yield
        finally:
            self.__enter__()

    def drawn(self, elapsed: float, *, ascii_only: bool) -> RenderableType:
        """What a terminal shows."""
        return picture(self.progress, elapsed, ascii_only=ascii_only)

    def told(self, elapsed: float) -> Text:
        """The line that is said now and then."""
        return summary(self.progress, elapsed)

    def announced(self, event: Event) -> str:
        """What is worth a line of its own."""
        return _announcement(event, self.progress) if type(event) in _SPOKEN else ""

    @property
    def took(self) -> float:
        """Seconds that have passed for what is shown."""
        return self._elapsed()

    def _picture(self) -> RenderableType:
        return self.drawn(self._elapsed(), ascii_only=not self._console.encoding.startswith("utf"))

    def _elapsed(self) -> float:
        return self._clock() - self._began

    def _speak(self, event: Event) -> None:
        """Plain lines: the start, what a person should know at once, and a sum now and then."""
        self._spoken = True
        told = self.announced(event)
        if told:
            self._say(line(told))
        else:
            self._sum_up()

    def _sum_up(self) -> None:
        """How it stands, ever more seldom."""
        elapsed = self._elapsed()
        if elapsed >= self._next and not self.progress.finished:
            self._wait = min(self._wait * 1.5, 60.0)
            self._next = elapsed + self._wait
            self._say(self.told(elapsed))

    def _say(self, text: Text) -> None:
        self._quietly(lambda: self._console.print(text, soft_wrap=True))

    def _quietly(self, function: Callable[[], None]) -> None:
        try:
            function()
        except (OSError, ValueError):
            self._silent = True


_SPOKEN = frozenset(
    {
        e.RunOpened,
        e.ModelAnswered,
        e.PlanAccepted,
        e.RunResumed,
        e.PatchAccepted,
        e.PatchRefused,
        e.DecisionAsked,
    }
)
"""Events that may be worth a line of their own."""


def _announcement(event: Event, progress: Progress) -> str:
    match event:
        case e.PlanAccepted():
            return f"run {progress.run}: {count(len(event.plan.steps), 'step')}"
        case e.RunOpened() if event.agent is not None:
            return f"run {progress.run}: a dialogue with {count(len(event.agent['tools']), 'tool')}"
        case e.ModelAnswered(purpose="react") if progress.plan is not None and progress.rounds == 1:
            return "the plan does not get on: a model goes on by itself"
        case e.RunResumed():
            return f"run {progress.run} goes on"
        case e.PatchAccepted(patch=Patch() as patch):
            return f"planned anew: {', '.join(_said(step) for step in patch.add) or 'steps dropped'}"
        case e.PatchRefused():
            return f"a patch was refused by {event.by}"
        case e.DecisionAsked() if len(progress.asked) == 1:  # the first of many, once
            return f"a person is asked: {event.id}"
        case _:
            return ""


def _said(step: Step) -> str:
    return f"{step.id} in place of {step.replaces}" if step.replaces else step.id
