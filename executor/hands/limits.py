"""Rates, calls at once, rests and breakers, for all runs of an engine together: who may begin, and when.

    enter -> queued -> granted -> begin -> leave            one `Grant` for each attempt
                   \\-> refused (nobody waits longer than his patience)

Everything is decided under one lock and without an `await`: a call takes its number, and whoever changes something
(a call comes, begins, ends, gives up; a time is reached) looks through the queues at once, in the order of arrival, and
grants what is free. A grant holds what it is for from that moment on; so two calls can never both have found the last
place free. Calls of the same tool under the same rules stand in one queue, of which only the head is looked at, and only
heads keep a timer: no herd wakes up.

Whose turn it is but cannot begin lets others pass that can: a free tool does not wait for a slow one. That starves nobody,
because what bounds a call is nested: its tool, the host of that, the principal of all. Who waits for the outer and has the
inner is the first to be looked at when the outer is free, and none passes that needs the same.

Several event loops may be in one engine at once (`run_blocking` from threads): waiters are woken through their own loop.
"""

from __future__ import annotations

import heapq
import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto
from typing import Any, NamedTuple, TypeAlias

import anyio

from ...policies.failures import Failure, Happened, Kind
from ...policies.pace import Circuit, Key, Rest, Rules, Window, places_of, rest_of
from ..events import CallAdmitted, CallSettled, CallStarted, Event, Outcome
from ..wake import Portal

__all__ = ["Broken", "Grant", "Limiter"]

_SHORTEST = 0.001
"""Seconds: a timer that fires a little early must not be set again for nothing."""
_MOST_SEEN = 10_000

_Queue: TypeAlias = "tuple[Rules, frozenset[Key]]"


class Broken(NamedTuple):
    """A tool that is left alone: so many failures in a row, of which kind, and in how many seconds a call tries it again."""

    tool: str
    kind: str
    failures: int
    seconds: float


class _Is(Enum):
    WAITING = auto()
    GRANTED = auto()
    BEGUN = auto()
    OVER = auto()


class Grant:
    """One attempt on its way past the limits, and what it holds of them."""

    __slots__ = (
        "arrived",
        "ended",
        "event",
        "failure",
        "kept",
        "number",
        "places",
        "portal",
        "probe",
        "rules",
        "status",
        "thread",
        "until",
    )

    def __init__(self, rules: Rules, places: frozenset[Key], number: int, arrived: float) -> None:
        self.rules = rules
        self.places = places
        self.number = number
        self.arrived = arrived
        self.status = _Is.WAITING
        self.failure: Failure | None = None
        self.probe = False
        """Whether it is the call that tries whether a broken tool is back."""
        self.kept = False
        """Whether its thread still runs although it was given up."""
        self.ended = False
        self.until: float | None = None
        self.event: anyio.Event | None = None
        self.portal: Portal | None = None
        self.thread = 0


class Limiter:
    """What all runs of an engine share of limits. `clock` is the host's; `dice` spreads those who waited."""

    def __init__(self, clock: Callable[[], float], dice: Callable[[], float]) -> None:
        self.rests: dict[Key, Rest] = {}
        """Who asked for rest; while this is empty, a call that no rule bounds need not come here."""
        self.told: list[Callable[[str, bool], None]] = []
        """Who is told that a tool is broken (True), or back; in any thread, and must not ask anything here."""
        self._clock = clock
        self._dice = dice
        self._lock = threading.Lock()
        self._queues: dict[_Queue, deque[Grant]] = {}
        self._windows: dict[Key, Window] = {}
        self._busy: dict[Key, int] = {}
        self._circuits: dict[tuple[str, Kind], Circuit] = {}
        self._trying: set[str] = set()
        """Broken tools that a call is trying."""
        self._count = 0
        self._time = -math.inf
        self._ahead = 0.0
        self._seen: dict[str, int] = {}

    # ------------------------------------------------------------------------------------------ one attempt

    async def enter(self, rules: Rules, args: Mapping[str, Any]) -> Grant | Failure:
        """Wait until an attempt may begin; why it may not, where that would take longer than its patience.

        Each grant needs one `leave`. Cancelled, it leaves nothing behind.
        """
        with self._lock:
            grant = self._queued(rules, args)
        try:
            while grant.status is _Is.WAITING:
                await self._wait(grant)
        except BaseException:
            self.leave(grant)
            raise
        return grant.failure or grant

    def lets_pass(self, rules: Rules) -> bool:
        """Whether nothing holds a call under these rules back now, and nothing of it needs to be counted.

        So it is where a breaker is all that there is, and no call of the tool has failed lately.
        """
        return not (rules.windows or rules.cap or self._queues) and self._calm(rules)

    def _calm(self, rules: Rules) -> bool:
        """Whether nobody asks for rest, and no breaker of the tool has seen a failure since the last answer."""
        if self.rests:
            return False
        if not self._circuits:
            return True
        circuits = list(self._circuits.items())
        return not any(circuit.failures for (tool, _), circuit in circuits if tool == rules.tool)

    def begin(self, grant: Grant) -> None:
        """It takes place now: this is what its rates count."""
        with self._lock:
            grant.status = _Is.BEGUN
            if not grant.rules.windows:
                return
            now = self._now()
            for key, _ in grant.rules.windows:
                window = self._windows[key]
                window.pending -= 1
                window.began(now)
            self._look_around()

    def leave(self, grant: Grant) -> None:
        """It is over, given up or not to be: what it holds is free, but a place that its thread still takes."""
        with self._lock:
            status, grant.status = grant.status, _Is.OVER
            if status is _Is.WAITING:
                self._drop(grant)
            elif status is not _Is.OVER and grant.failure is None:
                if status is _Is.GRANTED:
                    for key, _ in grant.rules.windows:
                        self._windows[key].pending -= 1
                if grant.probe:
                    self._trying.discard(grant.rules.tool)
                if not grant.kept:
                    self._free(grant)
            self._look_around()

    def keep(self, grant: Grant) -> None:
        """Its thread outlives it, and keeps the place until `thread_ended`."""
        with self._lock:
            grant.kept = not grant.ended

    def thread_ended(self, grant: Grant) -> None:
        """Said by the thread itself, for the loop that waited for it may be closed by now."""
        with self._lock:
            grant.ended = True
            if grant.kept:
                grant.kept = False
                if grant.status is _Is.OVER:
                    self._free(grant)
                    self._look_around()

    def settled(
        self,
        rules: Rules,
        args: Mapping[str, Any],
        outcome: Outcome,
        failure: Failure | None,
        grant: Grant | None = None,
    ) -> bool:
        """How an attempt ended: a host may ask for rest, or have answered; a tool may be broken, or back.

        True where it is held: the tool is broken, and the call waits with others instead of having failed.
        """
        if failure is None and not self._queues and self._calm(rules):
            return False  # there is nothing that an answer could change
        with self._lock:
            now = self._now()
            before = bool(self._open(rules))
            self._learn(rules, args, outcome, failure, now, probe=grant is not None and grant.probe)
            self._look_around()
            circuits = self._open(rules)
            if bool(circuits) != before:
                for told in list(self.told):
                    told(rules.tool, not before)
            broken = failure is not None and rules.breaker is not None and failure.kind in rules.breaker.kinds
            return broken and self._holds(rules, circuits, now)

    # ------------------------------------------------------------------------------------------ after a resume

    def broken(self, tool: str | None = None) -> list[Broken]:
        """The tools that are broken now, or this one if it is; may be asked in any thread."""
        with self._lock:
            now = self._now()
        return [
            Broken(name, kind.value, circuit.failures, max(0.0, circuit.until - now))
            for (name, kind), circuit in list(self._circuits.items())
            if circuit.open and tool in (None, name)
        ]

    def breakers(self) -> list[tuple[str, str, bool]]:
        """Tool and kind of each breaker that has seen a failure, and whether it is open; may be asked in any thread."""
        return [(tool, kind.value, circuit.open) for (tool, kind), circuit in list(self._circuits.items())]

    def seen(self, run: str, seq: int) -> None:
        """The events of a run up to this one took place before these eyes."""
        with self._lock:
            self._seen.pop(run, None)
            self._seen[run] = seq
            if len(self._seen) > _MOST_SEEN:
                del self._seen[next(iter(self._seen))]

    def recall(self, run: str, events: Iterable[Event], rules: Mapping[str, Rules]) -> None:
        """Take in what happened elsewhere, or before this engine was made; `rules` are those of each tool."""
        with self._lock:
            calls: dict[Any, tuple[Rules | None, Mapping[str, Any]]] = {}
            now, known = self._now(), self._seen.get(run, 0)
            for event in events:
                if isinstance(event, CallAdmitted):
                    calls[event.path] = rules.get(event.tool), event.args
                elif isinstance(event, CallStarted | CallSettled) and event.seq > known:
                    which, args = calls.get(event.path, (None, {}))
                    if which is not None:
                        self._recall(event, which, args, now)

    def _recall(
        self, event: CallStarted | CallSettled, rules: Rules, args: Mapping[str, Any], now: float
    ) -> None:
        at = min(event.at, now)
        if isinstance(event, CallSettled):
            failure = event.failure
            if failure is not None and failure.retry_after is not None and at + failure.retry_after <= now:
                failure = failure._replace(retry_after=None)  # that rest is over
            lost = failure is not None and failure.code == "interrupted"  # by us, and no fault of the tool
            if event.attempt and not lost:
                self._learn(rules, args, event.outcome, failure, at, probe=True)
            return
        for key, rate in rules.windows:
            if at + rate.seconds > now:
                window = self._window(key)
                window.longest = max(window.longest, rate.seconds)
                window.began(at)

    # ------------------------------------------------------------------------------------------ waiting

    def _queued(self, rules: Rules, args: Mapping[str, Any]) -> Grant:
        self._count += 1
        grant = Grant(rules, places_of(rules, args), self._count, self._now())
        if self._queues or not self._let_go(grant, grant.arrived):
            self._queues.setdefault((rules, grant.places), deque()).append(grant)
            self._look_around()
        if grant.status is _Is.WAITING:
            grant.portal, grant.thread = Portal.current(), threading.get_ident()
        return grant

    async def _wait(self, grant: Grant) -> None:
        """Until it is woken, or its time has come."""
        with self._lock:
            if grant.status is not _Is.WAITING:
                return
            event = grant.event = anyio.Event()
            began = self._now()
            delay = None if grant.until is None else max(grant.until - began, _SHORTEST)
        with anyio.move_on_after(delay) as scope:
            await event.wait()
        if delay is not None and scope.cancelled_caught:
            with self._lock:
                self._slept(began, delay)
                self._look_around()

    def _wake(self, grant: Grant) -> None:
        if grant.event is None or grant.portal is None:
            return
        if grant.thread == threading.get_ident():
            grant.event.set()
        else:
            grant.portal.call_soon(grant.event.set)

    def _drop(self, grant: Grant) -> None:
        queue = self._queues[grant.rules, grant.places]
        queue.remove(grant)
        if not queue:
            del self._queues[grant.rules, grant.places]

    def _look_around(self) -> None:
        """Grant what is free, and refuse what would wait too long, in the order of arrival."""
        if not self._queues:
            return
        now = self._now()
        heads = [(queue[0].number, key) for key, queue in self._queues.items()]
        heapq.heapify(heads)
        while heads:
            _, key = heads[0]
            queue = self._queues[key]
            if not self._let_go(queue[0], now):
                heapq.heappop(heads)
                continue
            self._wake(queue.popleft())
            if queue:
                heapq.heapreplace(heads, (queue[0].number, key))
            else:
                del self._queues[key]
                heapq.heappop(heads)

    def _let_go(self, grant: Grant, now: float) -> bool:
        """Grant or refuse it; False where it must wait, until a time if that is known."""
        said = self._verdict(grant, now)
        if said is _GO:
            self._grant(grant, now)
            return True
        if isinstance(said, Failure):
            grant.failure, grant.status = said, _Is.OVER
            return True
        if said != grant.until:
            grant.until = said
            self._wake(grant)
        return False

    def _grant(self, grant: Grant, now: float) -> None:
        rules = grant.rules
        grant.status = _Is.GRANTED
        for key, _ in rules.windows:
            self._window(key).pending += 1
        if rules.pool is not None:
            self._busy[rules.pool] = self._busy.get(rules.pool, 0) + 1
        if self._open(rules):
            grant.probe = True
            self._trying.add(rules.tool)
        for place in grant.places & self.rests.keys():
            self.rests[place].passed(grant.arrived, now, self._throw() * rules.gap)

    def _free(self, grant: Grant) -> None:
        if grant.rules.pool is not None:
            self._busy[grant.rules.pool] -= 1

    # ------------------------------------------------------------------------------------------ verdicts

    def _verdict(self, grant: Grant, now: float) -> _Verdict:
        """Go, a failure, a time to wait for, or None: wait until something changes."""
        waits: list[float | None] = []
        for stage in (self._broken, self._resting, self._too_fast, self._crowded):
            said = stage(grant, now)
            if isinstance(said, Failure):
                return said
            if said is not _GO:
                waits.append(said)
        if not waits:
            return _GO
        return None if None in waits else max(wait for wait in waits if wait is not None)

    def _broken(self, grant: Grant, now: float) -> _Verdict:
        rules = grant.rules
        if rules.breaker is None:
            return _GO
        circuits = self._open(rules)
        until = max((circuit.until for _, circuit in circuits), default=now)
        held = self._holds(rules, circuits, now)
        if until > now:
            return until if held else _breaker_open(rules, circuits[0][0], until - now)
        if not circuits or rules.tool not in self._trying:
            return _GO
        if held:
            return None
        last = grant.arrived + rules.patience
        return _breaker_open(rules, circuits[0][0], 0.0) if now >= last else last

    def _holds(self, rules: Rules, circuits: list[tuple[Kind, Circuit]], now: float) -> bool:
        """Whether calls wait for a broken tool instead of being refused."""
        holds = rules.breaker is not None and rules.breaker.hold and bool(circuits)
        return holds and all(now - circuit.since <= rules.patience for _, circuit in circuits)

    def _resting(self, grant: Grant, now: float) -> _Verdict:
        if not self.rests:
            return _GO
        until = now
        for place in grant.places & self.rests.keys():
            rest = self.rests[place]
            if rest.until > now and rest.until - rest.since > grant.rules.patience:
                return _host_held(grant.rules, place, rest.until - now)
            until = max(until, rest.next)
        return until if until > now else _GO

    def _too_fast(self, grant: Grant, now: float) -> _Verdict:
        times = []
        for key, rate in grant.rules.windows:
            at = self._window(key).next(rate, now)
            if at is None:
                return None
            if at - now > grant.rules.patience:
                return _rate_limited(grant.rules, key, f"{rate.calls} calls in {rate.seconds:g} s", at - now)
            times.append(at)
        return max(times) if times and max(times) > now else _GO

    def _crowded(self, grant: Grant, now: float) -> _Verdict:
        rules = grant.rules
        return None if rules.pool is not None and self._busy.get(rules.pool, 0) >= rules.cap else _GO

    # ------------------------------------------------------------------------------------------ learning

    def _learn(
        self,
        rules: Rules,
        args: Mapping[str, Any],
        outcome: Outcome,
        failure: Failure | None,
        at: float,
        *,
        probe: bool,
    ) -> None:
        if outcome is Outcome.CANCELLED:
            return
        rest = failure.retry_after if failure is not None else None
        if failure is not None and rest is not None and 0 < rest < math.inf:
            for place in rest_of(rules, args, failure):
                held = self.rests.setdefault(place, Rest(at))
                held.asked(at, at + rest, self._throw() * rules.gap)
        elif self.rests:
            self._answered(rules, args, at)
        if rules.breaker is not None:
            self._count_failure(rules, failure, at, probe=probe)

    def _answered(self, rules: Rules, args: Mapping[str, Any], at: float) -> None:
        """A host gave an answer that asks for nothing; rests that are over, and that nobody waits for, are forgotten."""
        for place in places_of(rules, args) & self.rests.keys():
            self.rests[place].answered(at)
        waited_for = frozenset().union(*(places for _, places in self._queues))
        for place in [p for p, rest in self.rests.items() if at >= rest.next and p not in waited_for]:
            del self.rests[place]

    def _count_failure(self, rules: Rules, failure: Failure | None, at: float, *, probe: bool) -> None:
        assert rules.breaker is not None
        broken = self._open(rules)
        if broken and not probe:
            return
        if failure is not None and failure.kind in rules.breaker.kinds:
            own = self._circuits.setdefault((rules.tool, failure.kind), Circuit())
            for circuit in {own, *(circuit for _, circuit in broken)}:
                circuit.failed(at, rules.breaker)
            return
        for kind in rules.breaker.kinds:
            if (rules.tool, kind) in self._circuits:
                self._circuits[rules.tool, kind].answered()

    def _open(self, rules: Rules) -> list[tuple[Kind, Circuit]]:
        """The broken circuits of a tool."""
        if rules.breaker is None or not self._circuits:
            return []
        found = [(kind, self._circuits.get((rules.tool, kind))) for kind in rules.breaker.kinds]
        return [(kind, circuit) for kind, circuit in found if circuit is not None and circuit.open]

    # ------------------------------------------------------------------------------------------ time and chance

    def _window(self, key: Key) -> Window:
        return self._windows.setdefault(key, Window())

    def _now(self) -> float:
        """The time, which never runs backwards."""
        try:
            self._time = max(self._time, self._clock() + self._ahead)
        except Exception:  # a clock that raises stands still, and `_slept` moves it on
            self._time = max(self._time, 0.0)
        return self._time

    def _slept(self, began: float, delay: float) -> None:
        """So long was slept by the clock of the loop; if the host's clock stood still or was set back, it is moved on."""
        if self._now() <= began:
            try:
                self._ahead = began + delay - self._clock()
            except Exception:
                self._time = began + delay

    def _throw(self) -> float:
        try:
            return min(max(self._dice(), 0.0), 1.0)
        except Exception:
            return 0.5


class _Go(Enum):
    GO = auto()


_GO = _Go.GO
_Verdict: TypeAlias = "_Go | Failure | float | None"


def _refusal(code: str, message: str, rest: float, host: str = "") -> Failure:
    return Failure(
        Kind.NETWORK, code, message, happened=Happened.NO, retry_after=round(max(rest, 0.0), 3), host=host
    )


def _host_held(rules: Rules, place: Key, rest: float) -> Failure:
    who = place.name if place.what == "host" else f"the service of {rules.tool!r}"
    message = (
        f"{who} asked for rest for another {rest:.3g} s, which is {_longer(rules)}, "
        f"so {rules.tool!r} was not {_asked(rules)}"
    )
    return _refusal("host_held", message, rest, place.name if place.what == "host" else "")


def _rate_limited(rules: Rules, key: Key, rate: str, rest: float) -> Failure:
    message = (
        f"the rate of {key.what} {key.name!r} is used up ({rate}), and the next call may begin in {rest:.3g} s: "
        f"{_longer(rules)}, so {rules.tool!r} was not {_asked(rules)}"
    )
    return _refusal("rate_limited", message, rest)


def _longer(rules: Rules) -> str:
    if rules.place.what == "model" and not rules.patience:
        return "longer than is waited where there is another model to ask"
    return f"longer than calls wait (policies.retry.patience is {rules.patience:g} s)"


def _asked(rules: Rules) -> str:
    return "asked" if rules.place.what == "model" else "called"


def _breaker_open(rules: Rules, kind: Kind, rest: float) -> Failure:
    assert rules.breaker is not None
    message = (
        f"{rules.tool!r} failed {rules.breaker.failures} times or more in a row ({kind.value}) and is left alone "
        + (f"for another {rest:.3g} s" if rest > 0 else "while one call tries whether it is back")
    )
    return _refusal("breaker_open", message, rest)
