"""What a journal answers when its run is run again: by call, timer, question, hook and model, in their order.

    CallAdmitted -> Tape      its attempts: CallStarted, CallSettled, CallStarted, CallSettled, ...
    by the key of the call (run, lineage, tool, arguments, n), else by its path and arguments; a tape is for one call

Some events could not be followed by a decision of the mind, because the process was letting go, was killed, or was just
taking the run up again: `quiet` holds their numbers, so that a replay decides when the run decided.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence, Set
from typing import Any, TypeAlias

from .. import events as e
from ..events import Event, Path
from ..mind.asking import digest_of
from ..mind.state import Call

__all__ = ["Recording", "Tape", "decided", "identity"]

Identity: TypeAlias = "tuple[type[Event], Any]"


class Tape:
    """The attempts of one recorded call, and how far they have been played."""

    def __init__(self, admitted: e.CallAdmitted) -> None:
        self.admitted = admitted
        self.left: deque[tuple[e.CallStarted | e.CallSettled, float]] = deque()
        """What happened, each with the time since which the call waited for it."""
        self.taken = False


class Recording:
    """A run's events, and what each of them answered."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = events
        self.tapes: list[Tape] = []
        self.timers: defaultdict[Path, deque[tuple[e.TimerFired, float]]] = defaultdict(deque)
        self.asked: dict[str, e.DecisionAsked] = {}
        self.decisions: defaultdict[str, list[e.DecisionMade]] = defaultdict(list)
        """Answers by question; more than one where the first was taken back before the run went on."""
        self.hooks: defaultdict[tuple[Any, ...], deque[e.HookAnswered]] = defaultdict(deque)
        self.models: defaultdict[str, deque[e.ModelAnswered]] = defaultdict(deque)
        self.around: list[Event] = []
        """What nobody asked for: the run is paused, taken up, cancelled."""
        self.decided: defaultdict[Identity, deque[Event]] = defaultdict(deque)
        self._since: dict[Path, float] = {}
        self._current: dict[Path, Tape] = {}
        for event in events:
            self._take(event)
        self._keyed: defaultdict[str, list[Tape]] = defaultdict(list)
        self._alike: defaultdict[tuple[str, str], list[Tape]] = defaultdict(list)
        for tape in self.tapes:
            self._keyed[tape.admitted.key].append(tape)
            self._alike[tape.admitted.tool, tape.admitted.args_digest].append(tape)
        self.closed = bool(events) and isinstance(events[-1], e.RunClosed)
        last = next((one for one in reversed(events) if not isinstance(one, e.DecisionMade)), None)
        self.rested = self.closed or (isinstance(last, e.RunPaused) and last.reason == e.PEOPLE)
        """Whether nothing was under way at the end."""
        self.quiet = frozenset(_quiet(events, self.rested))

    def _take(self, event: Event) -> None:
        match event:
            case e.CallAdmitted(path=path):
                tape = self._current[path] = Tape(event)
                self.tapes.append(tape)
                self._since[path] = event.at
            case e.CallStarted(path=path) | e.CallSettled(path=path) if event.attempt:
                self._current[path].left.append((event, self._since[path]))
                self._since[path] = event.at
            case e.TimerFired(path=path):
                self.timers[path].append((event, self._since.get(path, event.at)))
                self._since[path] = event.at
            case e.DecisionAsked():
                self.asked[event.id] = event
            case e.DecisionMade():
                self.decisions[event.id].append(event)
                self._since[self.asked[event.id].path] = event.at
            case e.HookAnswered():
                self.hooks[hook_key(event.hook, event.path, event.value)].append(event)
            case e.ModelAnswered():
                self.models[event.purpose].append(event)
            case e.RunPaused() | e.RunResumed():
                self.around.append(event)
            case e.RunClosed() if not decided(event):
                self.around.append(event)
            case _:
                pass
        if decided(event):
            self.decided[identity(event)].append(event)

    def tape_of(self, call: Call, ids: Set[str]) -> Tape | None:
        """The tape of this call that no other call has; of a step that is not in the new plan (`ids`), by its arguments."""
        fits = [t for t in self._alike[call.tool.name, digest_of(call.args)] if not t.taken]
        keyed = [t for t in self._keyed[call.key] if not t.taken]
        same = [t for t in (*keyed, *fits) if t.admitted.path == call.path]
        moved = [t for t in fits if t.admitted.path[0] not in ids]
        found = next(iter([*same, *keyed, *moved]), None)
        if found is not None:
            found.taken = True
        return found

    def was_admitted(self, path: Path, args_digest: str) -> bool:
        """Whether this call was decided on when the record ended."""
        tape = self._current.get(path)
        return tape is not None and tape.admitted.args_digest == args_digest


def hook_key(hook: str, path: Path, value: Any) -> tuple[Any, ...]:
    """What a hook was asked about; the one after a call, about which attempt."""
    return (hook, path, value["attempt"] if hook == "after_call" and value else 0)


def decided(event: Event) -> bool:
    """Whether the mind decided this, rather than the world."""
    match event:
        case e.CallAdmitted() | e.ValueSettled() | e.DecisionAsked() | e.PatchAccepted() | e.PatchRefused():
            return True
        case e.CallSettled(attempt=0):
            return True
        case e.RunClosed(reason=reason):
            return reason != "cancelled"
        case _:
            return False


def identity(event: Event) -> Identity:
    """What an event is about: equal for the same decision in two runs."""
    about = getattr(event, "id", None) or getattr(event, "path", None)
    return type(event), about


def _quiet(events: Sequence[Event], rested: bool) -> Iterator[int]:
    """The numbers of events before which the mind was not let to write."""
    letting_go = not rested
    if letting_go:
        yield len(events) + 1
    for event in reversed(events):
        if isinstance(event, e.RunPaused | e.RunResumed) or (
            isinstance(event, e.RunClosed) and not decided(event)
        ):
            letting_go = True
        elif not isinstance(event, e.CallStarted | e.CallSettled) or decided(event):
            letting_go = False
        if letting_go:
            yield event.seq
    paused = taking_up = False
    for event in events:
        given = taking_up and isinstance(event, e.CallSettled | e.DecisionMade) and not decided(event)
        if paused or given:
            yield event.seq
        paused = isinstance(event, e.RunPaused) or (paused and not isinstance(event, e.RunResumed))
        taking_up = given or isinstance(event, e.RunResumed)
