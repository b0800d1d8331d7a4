"""How fast calls may begin, and when a host or a tool is left alone: arithmetic on times; no clock, no dice, no waiting.

    Window .... at most n starts within any w seconds, exactly: one more may begin at t
                if fewer than n began in (t - w, t]; so a start leaves the window after w, and not before
    Rest ...... a host that asked for rest; then those who waited begin one by one, a random gap apart
    Circuit ... closed -> n failures in a row -> open for a while -> one call tries -> closed, or open again

A start is counted twice: when it is granted (`pending`: nobody else can have it) and when it takes place. What was granted
and has not begun counts as if it began now, so however late it begins, no window holds more than it may.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from .failures import Failure
from .policies import Breaker, Limits, Policies, Rate

__all__ = [
    "Circuit",
    "Key",
    "Rest",
    "Rules",
    "Window",
    "places_of",
    "rest_of",
    "rules_for",
    "rules_for_model",
]


class Key(NamedTuple):
    """What a rate or a rest is about: `("host", "api.bank.example")`."""

    what: str
    name: str


class Window:
    """The starts that count against one rate."""

    __slots__ = ("longest", "pending", "starts")

    def __init__(self) -> None:
        self.starts: list[float] = []
        self.pending = 0
        self.longest = 0.0

    def next(self, rate: Rate, now: float) -> float | None:
        """When one more may begin, now at the earliest; None where that depends on one that has not begun yet."""
        self.longest = max(self.longest, rate.seconds)
        room = rate.calls - self.pending
        if room <= 0:
            return None
        return now if len(self.starts) < room else max(now, self.starts[-room] + rate.seconds)

    def began(self, at: float) -> None:
        """One took place; what no window reaches any more is forgotten."""
        insort(self.starts, at)
        del self.starts[: bisect_right(self.starts, self.starts[-1] - self.longest)]


class Rest:
    """A host, or a tool without one, that said when to come back."""

    __slots__ = ("next", "since", "until")

    def __init__(self, now: float) -> None:
        self.since = now
        """When it first asked without an answer since: nobody waits for it longer than his patience from then on."""
        self.until = now
        self.next = now
        """When the next call may begin."""

    def asked(self, now: float, until: float, gap: float) -> None:
        """It asks for rest until then; the first call comes a little later."""
        if now > self.until + (self.until - self.since):  # that was another time, or it has answered since
            self.since = now
        self.until = max(self.until, until)
        self.next = max(self.next, until + gap)

    def passed(self, arrived: float, now: float, gap: float) -> None:
        """A call begins; those who waited with it come after it, not with it."""
        self.next = now + gap if arrived < self.until else now

    def answered(self, now: float) -> None:
        """It gave an answer that asks for nothing."""
        if now >= self.until:
            self.since = self.until


class Circuit:
    """Failures of one kind in a row of one tool. While it is open only what the call that tries brings is counted."""

    __slots__ = ("failures", "open", "since", "until")

    def __init__(self) -> None:
        self.failures = 0
        self.open = False
        self.since = 0.0
        """When it opened."""
        self.until = 0.0

    def failed(self, now: float, breaker: Breaker) -> None:
        self.failures += 1
        if self.open or self.failures >= breaker.failures:
            if not self.open:
                self.since = now
            self.open = True
            self.until = now + breaker.seconds

    def answered(self) -> None:
        self.failures = 0
        self.open = False


class Rules(NamedTuple):
    """What bounds the calls of one tool, or the questions to one model, in one run."""

    tool: str
    place: Key
    """Who asks for rest: the host; without one, the tool itself; the model."""
    windows: tuple[tuple[Key, Rate], ...]
    pool: Key | None
    """The host, or the model, whose calls at once are capped; None if they are not."""
    cap: int
    breaker: Breaker | None
    patience: float
    gap: float
    """The longest pause between two calls that waited for the same host."""

    @property
    def paced(self) -> bool:
        """Whether calls of other tools may begin while this one waits for its turn."""
        return bool(self.cap) or any(key.what != "principal" for key, _ in self.windows)

    @property
    def empty(self) -> bool:
        """Whether nothing bounds it, as long as its host asks for no rest."""
        return not self.windows and not self.cap and self.breaker is None


def rules_for(tool: str, host: str, principal: str, policies: Policies, *, direct: bool = True) -> Rules:
    """The rules for a tool of this host. One that is a plan is not `direct`: the calls inside it are what is bounded."""
    limits, host = policies.limits, host.lower()
    cap = _by_host(limits.host, host) if direct else None
    return Rules(
        tool=tool,
        place=Key("host", host) if host else Key("tool", tool),
        windows=tuple(_windows(limits, tool, host if direct else "", principal if direct else None)),
        pool=Key("host", host) if cap is not None else None,
        cap=cap or 0,
        breaker=limits.breaker if direct else None,
        patience=policies.retry.patience,
        gap=min(policies.retry.base, policies.retry.cap),
    )


def rules_for_model(name: str, account: str, policies: Policies, *, waits: bool = True) -> Rules:
    """The rules for questions to a model. `account` tells services apart that have a model of the same name: one that asks
    for rest is left alone, and not the others. Without `waits` it is asked at once or refused."""
    limits, key = policies.limits, Key("model", name)
    cap, rate = limits.model.get(name), limits.rates.model.get(name)
    return Rules(
        tool=name,
        place=Key("model", f"{name} {account}"),
        windows=((key, rate),) if rate is not None else (),
        pool=key if cap is not None else None,
        cap=cap or 0,
        breaker=None,
        patience=policies.retry.patience if waits else 0.0,
        gap=min(policies.retry.base, policies.retry.cap),
    )


def _windows(limits: Limits, tool: str, host: str, principal: str | None) -> list[tuple[Key, Rate]]:
    rates = limits.rates
    found = [
        (Key("tool", tool), rates.tool.get(tool)),
        (Key("host", host), _by_host(rates.host, host)),
        (Key("principal", principal or ""), rates.principal if principal is not None else None),
    ]
    return [(key, rate) for key, rate in found if rate is not None]


def _by_host(rules: Mapping[str, Any], host: str) -> Any:
    """The rule for a host; names of hosts are alike in upper and lower case."""
    if not host or not rules:
        return None
    return next((rule for name, rule in rules.items() if name.lower() == host), None)


def places_of(rules: Rules, args: Mapping[str, Any]) -> frozenset[Key]:
    """Whose rest holds a call: its host; of a tool that states none, itself and the hosts of the URLs it is given."""
    if rules.place.what != "tool":
        return frozenset((rules.place,))
    texts = [value for value in args.values() if isinstance(value, str) and "://" in value]
    return frozenset((rules.place, *(Key("host", host) for text in texts if (host := _host(text)))))


def rest_of(rules: Rules, args: Mapping[str, Any], failure: Failure) -> frozenset[Key]:
    """Who asks for rest with this failure: the host that it names, and all calls of the tool that may go there."""
    if not failure.host:
        return frozenset((rules.place,))
    named = Key("host", failure.host.lower())
    told_apart = rules.place.what == "tool" and named in places_of(rules, args)
    return frozenset((named,)) if told_apart else frozenset((named, rules.place))


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
