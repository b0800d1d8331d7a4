"""A run is run again on what its journal recorded: the mind decides anew, and the record answers in place of the world.

    command of the mind      answered with
    Write                    itself, as in life, with the time and dice of the same decision in the record
    Perform                  the next attempt on the tape of this call; without one: an unknown outcome, `not_recorded`
    Sleep, Ask, Consult,     what the record holds for this path, question, hook or model; without it: nothing, and
    Replan, Think            what waits for it goes no further

While each event has the same place and says of the same thing what it said in the record, replay and record are in
step, and times are the recorded ones to the digit. From the first event that is not, calls take as long as they took.
"""

from __future__ import annotations

import heapq
import itertools
import math
import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from ...policies.failures import Failure, Happened, Kind
from .. import events as e
from ..events import Event, Outcome, Path
from ..hands.hands import read_result
from ..mind.admission import interrupted
from ..mind.asking import digest_of
from ..mind.mind import advance, outstanding
from ..mind.state import Ask, Call, Command, Consult, Perform, Replan, Sleep, State, Think, Write
from .recording import Recording, Tape, hook_key, identity

__all__ = ["NOT_RECORDED", "Replay", "Unanswered", "as_kept"]

NOT_RECORDED = "not_recorded"
"""The code of a call that the record knows nothing of."""

Make: TypeAlias = "Callable[[tuple[int, float, float]], Event | None]"


class Unanswered(NamedTuple):
    """What would be asked of the world now and has no answer in the record."""

    what: str
    path: Path = ()
    name: str = ""


class Due(NamedTuple):
    """An answer and when it comes; `recorded` is infinite for what is no part of the record."""

    at: float
    recorded: float
    number: int
    make: Make
    source: Event | None = None


class Replay:
    """One replay: `run` gives the events as they would be now. `changed` are the tools with another contract."""

    def __init__(
        self, state: State, recording: Recording, *, changed: Iterable[str] = (), ids: Iterable[str] = ()
    ) -> None:
        self.state = state
        self.recording = recording
        self.events: list[Event] = []
        self.unanswered: list[Unanswered] = []
        self.misfits: list[tuple[Path, str, Failure]] = []
        """Recorded results that the tools as they are now would not give."""
        self.moved: dict[Path, Path] = {}
        """Calls that were answered from the record of another step, by path."""
        self._changed = frozenset(changed)
        self._ids = frozenset(ids)
        self._secrets = any(tool.secret_refs for tool in state.registry)
        """Whether the record may have words in the place of secrets, which pieces of them can make anew."""
        self._in_step = True
        self._behind = False
        """Whether decisions were held back because the process of then could not write them either."""
        self._tapes: dict[tuple[Path, str], Tape] = {}
        self._obeyed: dict[int, Command] = {}
        self._heap: list[Due] = []
        self._own: list[Due] = []
        """What the record does not hold; it comes only once replay and record are out of step."""
        self._numbers = itertools.count()

    def run(self, first: Sequence[Event]) -> list[Event]:
        """Begin with these events (the opening, and the plan), and go on as far as the record leads."""
        for event in self.recording.around:
            self._push(event, event.at, partial(_stamped, event))
        for event in first:
            self._take(event)
        while self.state.closed is None and (self._heap or self._break_step()):
            due = heapq.heappop(self._heap) if self._heap else None
            if due is not None:
                self._deliver(due)
        return self.events

    # ------------------------------------------------------------------------------------------ events

    def _take(self, event: Event) -> None:
        """An event happens; what follows is obeyed, unless the process of then could not.

        A process that takes a run up obeys all that is outstanding, in the order of that.
        """
        commands = self._write(event)
        self._behind = self._behind or isinstance(event, e.RunResumed)
        if self._behind and not self._held:
            self._behind = False
            commands = outstanding(self.state)
        self._obey(commands)

    def _write(self, event: Event) -> tuple[Command, ...]:
        self.events.append(event)
        record = self.recording.events
        if self._in_step and (event.seq > len(record) or identity(record[event.seq - 1]) != identity(event)):
            self._leave_step()
        return advance(self.state, event)

    @property
    def _held(self) -> bool:
        return self._in_step and self.state.seq + 1 in self.recording.quiet

    def _leave_step(self) -> None:
        self._in_step = False
        for due in self._own:
            heapq.heappush(self._heap, due)
        self._own = []

    def _break_step(self) -> bool:
        """Nothing more comes of the record: what is left to be said by the mind alone, unless the record ends here."""
        at_end = self.state.seq >= len(self.recording.events)
        if not self._in_step or (at_end and not (self.recording.rested and self._behind)):
            return False
        self._leave_step()
        if self._behind:
            self._behind = False
            self._obey(outstanding(self.state))
        return True

    def _obey(self, commands: Iterable[Command]) -> None:
        todo = deque(commands)
        while todo:
            command = todo.popleft()
            if type(command) is not Write:
                self._expect(command)
            elif self._held:
                self._behind = True
            else:
                todo.extend(self._write(self._decide(command)))

    def _decide(self, command: Write) -> Event:
        """A decision of the mind, with the stamp of the same decision in the record."""
        seq, state = self.state.seq + 1, self.state
        event = command.kind(seq, state.at, 0.5, *command.fields)
        alike = self.recording.decided[identity(event)]
        then = alike.popleft() if alike else None
        if then is None:
            return event
        if self._secrets:
            names = [name for name in _MAY_HOLD if name in event._fields]
            kept = {name: as_kept(getattr(then, name), getattr(event, name)) for name in names}
            event = event._replace(**kept)
        at = max(then.at, state.at) if self._in_step and then.seq == seq else state.at
        return event._replace(at=at, dice=then.dice)

    def _deliver(self, due: Due) -> None:
        if due.source is None and self._in_step:
            self._own.append(due)
            return
        event = due.make((self.state.seq + 1, max(due.at, self.state.at), 0.5))
        if event is not None:
            self._take(event)

    def _push(self, source: Event | None, at: float, make: Make) -> None:
        recorded = source.seq if source is not None else math.inf
        heapq.heappush(self._heap, Due(at, recorded, next(self._numbers), make, source))

    # ------------------------------------------------------------------------------------------ answers

    def _expect(self, command: Command) -> None:
        """Look up what answers this command; one that was given before is waited for already."""
        if id(command) in self._obeyed:
            return
        self._obeyed[id(command)] = command
        match command:
            case Perform():
                self._perform(command)
            case Sleep():
                self._sleep(command)
            case Ask():
                self._ask(command)
            case Consult():
                value = {"attempt": command.settled.attempt} if command.settled is not None else None
                answers = self.recording.hooks[hook_key(command.hook, command.path, value)]
                self._answer(command, answers, Unanswered("hook", command.path, command.hook))
            case Replan():
                self._answer(command, self.recording.models["replan"], Unanswered("planner"))
            case Think():
                self._answer(command, self.recording.models["react"], Unanswered("model"))
            case _:
                raise AssertionError(command)

    def _answer(self, command: Command, answers: deque[Any], missing: Unanswered) -> None:
        if answers:
            self._play(command, answers.popleft(), 0.0)
        elif self.recording.closed or not self._in_step:
            self._push(None, self.state.at, lambda stamp: self._miss(missing))

    def _miss(self, missing: Unanswered) -> None:
        self.unanswered.append(missing)

    def _play(self, command: Command, event: Any, shift: float) -> None:
        """A recorded event comes, moved in time; unless nobody waits for it any more."""

        def make(stamp: tuple[int, float, float]) -> Event | None:
            waits = any(command is open_ for open_ in self._open(command))
            return event._replace(seq=stamp[0], at=stamp[1]) if waits else None

        self._push(event, event.at + shift, make)

    def _open(self, command: Command) -> Iterable[Command | None]:
        """Where a command stands as long as it is not answered."""
        open_ = self.state.open
        match command:
            case Sleep(path=path):
                return (open_.get(path),)
            case Ask(decision=decision):
                return (open_.get(("decision", decision.id)),)
            case Consult(settled=settled) if settled is not None:
                return (open_.get(("after", settled.path, settled.attempt)),)
            case Consult(tool=tool, path=path) if tool is not None:
                return (open_.get(path),)
            case _:
                return open_.values()

    def _perform(self, command: Perform) -> None:
        call = command.call
        tape = self._tapes.get((call.path, call.key))
        if tape is None:
            tape = self.recording.tape_of(call, self._ids)
            if tape is not None:
                self._tapes[call.path, call.key] = tape
                if tape.admitted.path != call.path:
                    self.moved[call.path] = tape.admitted.path
        if tape is not None and tape.left:
            self._attempt(command, tape, self._shift(tape.left[0][1]))
        elif self._was_under_way(call):
            return
        else:
            self._push(None, self.state.at, lambda stamp: self._unknown(command, stamp))

    def _was_under_way(self, call: Call) -> bool:
        """Whether the record ends while this call was wanted."""
        return not self.recording.closed and self.recording.was_admitted(call.path, digest_of(call.args))

    def _shift(self, since: float) -> float:
        return 0.0 if self._in_step else self.state.at - since

    def _attempt(self, command: Perform, tape: Tape, shift: float) -> None:
        """The next event of an attempt; after its beginning, its end."""
        call, (event, _) = command.call, tape.left.popleft()

        def make(stamp: tuple[int, float, float]) -> Event | None:
            if self.state.open.get(call.path) is not command:
                return None
            if isinstance(event, e.CallStarted):
                if tape.left and isinstance(tape.left[0][0], e.CallSettled):
                    self._attempt(command, tape, shift)
                return event._replace(seq=stamp[0], at=stamp[1], path=call.path, attempt=call.attempt)
            now = event._replace(seq=stamp[0], at=stamp[1], path=call.path, attempt=call.attempt)
            return self._as_now(call, now) if call.tool.name in self._changed else now

        self._push(event, event.at + shift, make)

    def _as_now(self, call: Call, settled: e.CallSettled) -> e.CallSettled:
        """How a recorded attempt ends by the contract that the tool has now."""
        outcome, value, failure = settled.outcome, settled.value, settled.failure
        if outcome is Outcome.OK and call.tool.answered_by != "plan":
            result = read_result(call, value, self.state.policies.limits.result_bytes)
            outcome, value, failure = result.outcome, result.value, result.failure
            if failure is not None:
                self.misfits.append((call.path, call.tool.name, failure))
        elif outcome is Outcome.UNKNOWN and call.tool.resumable:
            outcome = Outcome.CANCELLED if failure == interrupted() else Outcome.FAILED
        elif outcome is Outcome.FAILED and not call.tool.resumable:
            assert failure is not None
            outcome = Outcome.UNKNOWN if failure.happened is Happened.MAYBE else outcome
        return settled._replace(outcome=outcome, value=value, failure=failure)

    def _unknown(self, command: Perform, stamp: tuple[int, float, float]) -> Event | None:
        """A call that was not made then begins, and how it would end nobody knows."""
        call = command.call
        if self.state.open.get(call.path) is not command:
            return None
        self.unanswered.append(Unanswered("call", call.path, call.tool.name))
        message = f"the record holds no result of this call of {call.tool.name!r}"
        failure = Failure(Kind.BUSINESS, NOT_RECORDED, message, Happened.MAYBE)

        def end(stamp: tuple[int, float, float]) -> Event:
            return e.CallSettled(*stamp, call.path, call.attempt, Outcome.UNKNOWN, None, failure)

        self._push(None, stamp[1], end)
        return e.CallStarted(*stamp, call.path, call.attempt)

    def _sleep(self, command: Sleep) -> None:
        timers = self.recording.timers[command.path]
        if timers:
            event, since = timers.popleft()
            shift = max(self._shift(since), command.until - event.at) if not self._in_step else 0.0
            self._play(command, event, shift)
            return

        def make(stamp: tuple[int, float, float]) -> Event | None:
            waits = self.state.open.get(command.path) is command
            return e.TimerFired(*stamp, command.path) if waits else None

        self._push(None, command.until, make)

    def _ask(self, command: Ask) -> None:
        """The recorded answer of a person, where the question is the one that was answered."""
        asked = command.decision
        then = self.recording.asked.get(asked.id)
        if then is None or _question(then) != _question(asked):
            return
        for answer in self.recording.decisions[asked.id]:
            self._play(command, answer, self._shift(then.at))


def _stamped(event: Event, stamp: tuple[int, float, float]) -> Event:
    """A recorded event at its place and time in the replay."""
    return event._replace(seq=stamp[0], at=stamp[1])


def as_kept(then: Any, now: Any) -> Any:
    """What the record says, where it is what is said now but for the secrets that were taken out of it."""
    if isinstance(then, str) and isinstance(now, str):
        parts = _STAND_IN.split(then)
        return then if len(parts) > 1 and re.fullmatch(".+?".join(map(re.escape, parts)), now, re.S) else now
    if isinstance(then, dict) and isinstance(now, dict) and then.keys() == now.keys():
        return {name: as_kept(then[name], value) for name, value in now.items()}
    if isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        return [as_kept(one, other) for one, other in zip(then, now, strict=True)]
    return now


_STAND_IN = re.compile(r"\[secret(?: [^\]]*)?\]")
_MAY_HOLD = ("value", "args", "output")
_ASKED = ("tool", "args", "patch", "of", "schema", "digest", "failure")


def _question(asked: e.DecisionAsked) -> tuple[Any, ...]:
    """What a question is about, whatever words it is put in."""
    return (asked.about, asked.path, *(asked.question.get(name) for name in _ASKED))
