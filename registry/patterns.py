"""Regular expressions of strangers: read as JSON Schema means them, and refused where they could run for years.

Python's `re` backtracks: it tries, one after the other, every way in which a text can be matched, so its time is the
number of ways. The number is bounded here before a pattern is ever run. The pattern becomes an automaton with one
state per character class (Glushkov), and pairs of states that one text can reach together are followed:

    two ways round one loop          (a+)+  (a|ab?)*b   exponential     refused; so is a loop round nothing
    k loops that can share a text    \\d*\\d*x  .*.*=   n^k             text is bounded so that it stays quick
    m choices that meet again        a?a?a?…            2^m             counted in, refused where it is too much

Everything doubtful counts as ambiguous; back-references and patterns too involved to follow are refused.
Sources: Brüggemann-Klein and Wood, "One-Unambiguous Regular Languages", 1998; Weideman and others, "Analyzing Matching
Time Behavior of Backtracking Regular Expression Matchers", 2016; ECMA-262 section 22.2.
"""

from __future__ import annotations

import importlib
import math
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from ..policies.text import shorten

__all__ = ["Pattern", "PatternRefused", "read_pattern", "translate"]

_LONGEST_PATTERN = 2000
_MOST_STATES = 1000
_MOST_EFFORT = 150_000
"""Pairs of transitions looked at, about 0.3 s; every pattern in wide use needs less than a tenth."""
_EXACT = 64
"""States up to which a bounded repetition is written out; beyond, it counts as unbounded."""
_STEPS = 5e7
"""Steps of `re` that one match may take at worst, well under a second."""
_SHORTEST_LIMIT = 200
_LONGEST_LIMIT = 1_000_000


class PatternRefused(ValueError):
    """A pattern that is no regular expression, or that could take exponential time; a sentence says which."""


class Pattern(NamedTuple):
    """A pattern that may be run: `text` is what `re` is given, on texts of at most `limit` characters.

    `effort` is what it took to be sure of that, in steps of about 2 µs.
    """

    text: str
    regex: re.Pattern[str]
    limit: int
    effort: int

    def found_in(self, value: str) -> bool:
        """Whether the pattern matches somewhere in the text; False for a text beyond the limit."""
        return len(value) <= self.limit and self.regex.search(value) is not None


@lru_cache(maxsize=1024)
def read_pattern(pattern: str) -> Pattern:
    """The pattern, ready to run. Raises `PatternRefused`."""
    text = translate(pattern)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            regex = re.compile(text)
            limit, effort = _limit(importlib.import_module("re._parser").parse(text))
    except PatternRefused:
        raise
    except (re.error, OverflowError, RecursionError, ValueError) as error:
        reason = str(error) if isinstance(error, re.error) else "it is nested too deeply or repeats too often"
        raise PatternRefused(
            f"the pattern {shorten(pattern, 80)!r} cannot be read: {shorten(reason)}"
        ) from error
    if limit < _SHORTEST_LIMIT:
        raise _catastrophic()
    return Pattern(text, regex, limit, effort)


# What JSON Schema means: ECMA-262, where `$` is the very end and `\\d` is 0 to 9.

_TOKEN = re.compile(r"\\.|\[\^?(?:\\.|[^\]\\])*\]|\(\?<(?![=!])|.", re.DOTALL)
_FLAGS = re.compile(r"\(\?([a-zA-Z]+)\)")
_SPECIAL = re.compile(r"\\.|[\[&~|]", re.DOTALL)
_INSTEAD = {"$": "\\Z", ".": "[^\\n\\r\\u2028\\u2029]", "(?<": "(?P<", "[]": "(?!)", "[^]": "[\\s\\S]"}


def translate(pattern: str) -> str:
    """The same pattern for Python's `re`: `$` only at the very end, ASCII classes, `.` never a line break."""
    if len(pattern) > _LONGEST_PATTERN:
        raise PatternRefused(f"the pattern is longer than {_LONGEST_PATTERN} characters")
    flags = ""
    if head := _FLAGS.match(pattern):
        flags, pattern = head[1].replace("a", "").replace("u", ""), pattern[head.end() :]
        if not set(flags) <= {"i", "s"}:
            raise PatternRefused(
                f"the pattern sets the flags {shorten(head[1], 20)!r}; only i and s are read"
            )
    instead = {k: v for k, v in _INSTEAD.items() if k != "." or "s" not in flags}
    body = "".join(instead.get(token) or _class(token) for token in _TOKEN.findall(pattern))
    return f"(?a{flags}:{body})"


def _class(token: str) -> str:
    """A character class without what `re` may some day read as set operations; any other token as it is."""
    if len(token) < 2 or token[0] != "[":
        return token
    return "[" + _SPECIAL.sub(lambda m: m[0] if len(m[0]) > 1 else "\\" + m[0], token[1:-1]) + "]"


# The automaton.

Ranges = list[tuple[int, int]]
_LAST = 0x10FFFF


class _Part(NamedTuple):
    """A piece of the automaton: states it can begin and end with, each with the number of ways, and ways to be empty."""

    first: dict[int, int]
    last: dict[int, int]
    empty: int


_NOTHING = _Part({}, {}, 1)


class _Automaton:
    """One state per character class of the pattern; `edges[p][q]` is the number of ways from p to q."""

    def __init__(self) -> None:
        self.sets: list[Ranges] = []
        self.edges: list[dict[int, int]] = []
        self.asserted: list[tuple[Any, int, bool]] = []
        self.checks = False
        self.looping = 0

    def sequence(self, items: Iterable[tuple[Any, Any]], flags: int) -> _Part:
        part = _NOTHING
        for op, value in items:
            part = self.join(part, self.item(str(op), value, flags))
        return part

    def item(self, op: str, value: Any, flags: int) -> _Part:
        match op:
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
                return self.state(_ranges(op, value, flags))
            case "BRANCH":
                return self.either([self.sequence(branch, flags) for branch in value[1]])
            case "SUBPATTERN":
                _, more, fewer, inner = value
                if (more | fewer) & (re.MULTILINE | re.VERBOSE | re.LOCALE):
                    raise PatternRefused("the pattern sets a flag other than i and s")
                return self.sequence(inner, (flags | more) & ~fewer)
            case "ATOMIC_GROUP":
                return self.sequence(value, flags)
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                low, high, body = value
                return self.repeat(low, high, body, flags)
            case "AT":
                self.checks = self.checks or "BEGINNING" not in str(value) or bool(self.sets)
                return _NOTHING
            case "ASSERT" | "ASSERT_NOT":
                self.asserted.append((value[1], flags, self.looping > 0))
                self.checks = True
                return _NOTHING
            case "FAILURE":
                return _Part({}, {}, 0)
            case _:
                raise PatternRefused(
                    "the pattern refers back to what it matched, which can take exponential time"
                )

    def state(self, ranges: Ranges) -> _Part:
        if len(self.sets) >= _MOST_STATES:
            raise PatternRefused("the pattern is too large")
        self.sets.append(ranges)
        self.edges.append({})
        here = len(self.sets) - 1
        return _Part({here: 1}, {here: 1}, 0)

    def join(self, left: _Part, right: _Part) -> _Part:
        self.connect(left.last, right.first)
        first = _sum(left.first, right.first, left.empty)
        last = _sum(right.last, left.last, right.empty)
        return _Part(first, last, min(left.empty * right.empty, 1000))

    def connect(self, sources: dict[int, int], targets: dict[int, int]) -> None:
        for source, out in sources.items():
            self.edges[source] = _sum(self.edges[source], targets, out)

    def either(self, parts: list[_Part]) -> _Part:
        first, last = {}, {}  # type: dict[int, int], dict[int, int]
        for part in parts:
            first, last = _sum(first, part.first, 1), _sum(last, part.last, 1)
        return _Part(first, last, sum(part.empty for part in parts))

    def repeat(self, low: int, high: Any, body: Any, flags: int) -> _Part:
        width, bounded = _width(body), str(high) != "MAXREPEAT"
        high = int(high) if bounded else low
        exact = width * high <= _EXACT
        self.looping += high > 1 or not bounded
        part = _NOTHING
        for _ in range(low - (not bounded) if exact else 0):
            part = self.join(part, self.sequence(body, flags))
        if bounded and exact:
            part = self.join(part, self.up_to(high - low, body, flags))
        else:
            self.checks = self.checks or (
                not exact and low > 1
            )  # it cannot end as early as the automaton can
            part = self.join(part, self.loop(body, flags, optional=low == 0))
        self.looping -= high > 1 or not bounded
        return part

    def up_to(self, times: int, body: Any, flags: int) -> _Part:
        part = _NOTHING
        for _ in range(times):
            part = _optional(self.join(self.sequence(body, flags), part))
        return part

    def loop(self, body: Any, flags: int, *, optional: bool) -> _Part:
        part = self.sequence(body, flags)
        if part.empty:
            raise PatternRefused(
                "the pattern repeats a part that can be empty, which can take exponential time"
            )
        self.connect(part.last, part.first)
        return _optional(part) if optional else part


def _optional(part: _Part) -> _Part:
    return part._replace(empty=part.empty + 1)


def _sum(left: dict[int, int], right: dict[int, int], times: int) -> dict[int, int]:
    total = dict(left)
    for state, ways in right.items() if times else ():
        total[state] = min(total.get(state, 0) + ways * times, 1000)
    return total


def _width(items: Any) -> int:
    """States that a piece needs, at least one."""
    total = 0
    for op, value in items:
        match str(op):
            case "BRANCH":
                total += sum(map(_width, value[1]))
            case "SUBPATTERN":
                total += _width(value[3])
            case "ATOMIC_GROUP":
                total += _width(value)
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                times = int(value[1]) if str(value[1]) != "MAXREPEAT" else max(value[0], 1)
                copies = _width(value[2]) * times
                total += copies if copies <= _EXACT else _width(value[2])
            case _:
                total += 1
    return max(total, 1)


# Character classes.

_CATEGORIES: dict[str, Ranges] = {
    "DIGIT": [(48, 57)],
    "SPACE": [(9, 13), (32, 32)],
    "WORD": [(48, 57), (65, 90), (95, 95), (97, 122)],
}


def _ranges(op: str, value: Any, flags: int) -> Ranges:
    if op == "ANY":
        return [(0, _LAST)]
    items = value if op == "IN" else [(op.removeprefix("NOT_"), value)]
    negate = op == "NOT_LITERAL"
    found: Ranges = []
    for kind, arg in items:
        match str(kind):
            case "NEGATE":
                negate = True
            case "LITERAL":
                found.append((arg, arg))
            case "RANGE":
                found.append(arg)
            case _:
                found += _category(str(arg))
    if flags & re.IGNORECASE:
        found += [other for pair in found for other in _other_case(*pair)]
    return _complement(found) if negate else found


def _category(name: str) -> Ranges:
    known = _CATEGORIES[name.rpartition("_")[2]]
    return _complement(known) if "_NOT_" in name else known


def _other_case(low: int, high: int) -> Ranges:
    if high - low > 1000:
        return [(0, _LAST)]
    return [(ord(c), ord(c)) for code in range(low, high + 1) for c in chr(code).upper() + chr(code).lower()]


def _complement(ranges: Ranges) -> Ranges:
    gaps, start = [], 0
    for low, high in sorted(ranges):
        if low > start:
            gaps.append((start, low - 1))
        start = max(start, high + 1)
    return [*gaps, (start, _LAST)] if start <= _LAST else gaps


def _masks(sets: list[Ranges]) -> list[int]:
    """Each class as bits, one for every stretch of characters that all classes treat alike."""
    cuts = sorted({edge for ranges in sets for low, high in ranges for edge in (low, high + 1)})
    place = {edge: bit for bit, edge in enumerate(cuts)}
    return [_bits(((place[low], place[high + 1]) for low, high in ranges)) for ranges in sets]


def _bits(stretches: Iterable[tuple[int, int]]) -> int:
    mask = 0
    for start, end in stretches:
        mask |= (1 << end) - (1 << start)
    return mask


# How many ways a text can have.


def _limit(pattern: Any) -> tuple[int, int]:
    links, choices, effort = _cost(pattern, 0, anchored=_anchored(pattern))
    steps = _STEPS * math.factorial(min(links, 20) + 1) / math.exp(min(choices, 40))
    limit = steps ** (1 / (1 + links))
    return min(int(limit), _LONGEST_LIMIT), effort


def _cost(items: Any, flags: int, *, anchored: bool) -> tuple[int, float, int]:
    """Loops that can share a text beyond the first, the logarithm of the number of finite choices, and the effort."""
    automaton = _Automaton()
    before = _NOTHING
    if not anchored:  # a search begins anywhere: as if the pattern began with `.*`
        before = automaton.state([(0, _LAST)])
        automaton.connect(before.last, before.first)
        before = _optional(before)
    part = automaton.join(before, automaton.sequence(items, flags))
    if not automaton.checks:  # nothing follows the last state that could fail, so nothing is tried again
        for state in part.last:
            automaton.edges[state] = {}
    ways = _Ways(automaton, part.first)
    links, choices = ways.cost()
    effort = ways.effort
    for inner, its_flags, looping in automaton.asserted:
        more, its_choices, its_effort = _cost(inner, its_flags, anchored=True)
        effort += its_effort
        repeated = looping or not anchored
        links = links + more + 1 if repeated else max(links, more)
        choices = choices + its_choices if repeated else max(choices, its_choices)
    return links, choices, effort


def _anchored(items: Any) -> bool:
    for op, value in items:
        match str(op):
            case "AT":
                return "BEGINNING" in str(value)
            case "SUBPATTERN":
                return _anchored(value[3])
            case "BRANCH":
                return all(map(_anchored, value[1]))
            case "ASSERT" | "ASSERT_NOT":
                continue
            case _:
                return False
    return False


class _Ways:
    """The ways through an automaton that one text can take together."""

    def __init__(self, automaton: _Automaton, first: dict[int, int]) -> None:
        self.edges = [*automaton.edges, first]  # the last state is where matching begins
        self.masks = [*_masks(automaton.sets), 0]
        self.effort = 0
        self.reach = self._reach()
        self.loop_of = [self._loop_of(state) for state in range(len(self.edges))]

    def _reach(self) -> list[int]:
        reach = [_bits((q, q + 1) for q in out) for out in self.edges]
        changed = True
        while changed:
            changed = False
            for state in reversed(range(len(reach))):
                wider = reach[state]
                for follower in self.edges[state]:
                    self.spend()
                    wider |= reach[follower]
                changed, reach[state] = changed or wider != reach[state], wider
        return reach

    def _loop_of(self, state: int) -> int:
        """The lowest state of the loop this state is on, or -1."""
        if not self.reach[state] >> state & 1:
            return -1
        mates = (q for q in range(state + 1) if self.reach[state] >> q & 1 and self.reach[q] >> state & 1)
        return next(mates)

    def spend(self) -> None:
        self.effort += 1
        if self.effort > _MOST_EFFORT:
            raise PatternRefused("the pattern is too involved to tell that it always ends soon")

    def cost(self) -> tuple[int, float]:
        self.refuse_two_ways_round()
        meeting, together = self.pairs(range(len(self.edges)))
        return self.links(meeting), self.choices(meeting) + math.log(_most_mates(together))

    def refuse_two_ways_round(self) -> None:
        loops: dict[int, list[int]] = {}
        for state, loop in enumerate(self.loop_of):
            if loop >= 0:
                loops.setdefault(loop, []).append(state)
        for states in loops.values():
            inside = set(states)
            doubled = any(w > 1 and q in inside for p in states for q, w in self.edges[p].items())
            if doubled or self.pairs(states)[0]:
                raise _catastrophic()

    def pairs(self, states: Iterable[int]) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
        """Pairs that one text can reach together from one state, within `states`: those that meet again, and all."""
        inside = set(states)
        before: dict[tuple[int, int], set[tuple[int, int]]] = {}
        waiting = [(p, p) for p in inside]
        seen = set(waiting)
        while waiting:
            pair = waiting.pop()
            for after in self.after(pair, inside):
                before.setdefault(after, set()).add(pair)
                if after not in seen:
                    seen.add(after)
                    waiting.append(after)
        found: set[tuple[int, int]] = set()
        waiting = [pair for pair in seen if pair[0] == pair[1]]
        while waiting:
            fresh = {pair for pair in before.get(waiting.pop(), ()) if pair[0] != pair[1]} - found
            found |= fresh
            waiting += fresh
        return found, seen

    def after(self, pair: tuple[int, int], inside: set[int]) -> Iterator[tuple[int, int]]:
        masks = self.masks
        for p in self.edges[pair[0]]:
            for q in self.edges[pair[1]]:
                self.spend()
                if masks[p] & masks[q] and p in inside and q in inside:
                    yield (p, q) if p <= q else (q, p)

    def links(self, meeting: set[tuple[int, int]]) -> int:
        """The longest chain of loops, counting the neighbours that one text can divide in many ways."""
        loop_of, reach = self.loop_of, self.reach
        linked = {(loop_of[p], loop_of[q]) for pair in meeting for p, q in (pair, pair[::-1])}
        loops = sorted({loop for loop in loop_of if loop >= 0}, key=lambda s: reach[s].bit_count())
        longest: dict[int, int] = {}
        for loop in loops:  # the last loops first: they reach fewest states
            later = [other for other in longest if reach[loop] >> other & 1]
            longest[loop] = max((longest[other] + ((loop, other) in linked) for other in later), default=0)
        return max(longest.values(), default=0)

    def choices(self, meeting: set[tuple[int, int]]) -> float:
        """The largest sum, along one way, of the logarithms of the choices that meet again."""
        total: dict[int, float] = {}
        alone = [loop < 0 for loop in self.loop_of]
        for state in sorted(range(len(alone)), key=lambda s: (self.reach[s].bit_count(), alone[s])):
            place = state if alone[state] else self.loop_of[state]
            onward = [q for q in self.edges[state] if alone[q] or self.loop_of[q] != place]
            rest = max((total[q if alone[q] else self.loop_of[q]] for q in onward), default=0.0)
            choice = self.choice(state, [q for q in onward if alone[q]], meeting)
            total[place] = max(total.get(place, 0.0), choice + rest)
        # Leaving a loop later can meet leaving it earlier within what is written out beside it.
        late = {p if alone[p] else q for p, q in meeting if alone[p] != alone[q]}
        return max(total.values()) + math.log(1 + len(late))

    def choice(self, state: int, onward: list[int], meeting: set[tuple[int, int]]) -> float:
        ways = self.edges[state]
        most = 1
        for p in onward:
            together = (ways[q] for q in onward if q != p and ((p, q) if p < q else (q, p)) in meeting)
            most = max(most, ways[p] + sum(together))
        return math.log(most)


def _most_mates(pairs: set[tuple[int, int]]) -> int:
    """States that one text can be in at a time."""
    mates = Counter(p for p, q in pairs if p != q) + Counter(q for p, q in pairs if p != q)
    return 1 + max(mates.values(), default=0)


def _catastrophic() -> PatternRefused:
    return PatternRefused(
        "the pattern can take exponential time: let no two repeated parts match the same text"
    )
