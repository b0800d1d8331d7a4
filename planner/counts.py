"""How often each tool would be called: bounds through conditions, lists, repeats and the groups around.

    each over a list that is known    exactly n          each over any other       n of <expression>
    when                              0 or that          until                     from 1 to `max`

A step inside groups is called that often for each of their items.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple, TypeAlias

from .folding import Known
from .plan import Step
from .study import Site, Study

__all__ = ["ONCE", "Count", "Counts", "count_of", "spell"]

Json: TypeAlias = Any


class Count(NamedTuple):
    """How many calls: at least, at most (None: no bound is known), and the same in words."""

    least: int
    most: int | None
    text: str


ONCE = Count(1, 1, "1")
_NEVER = Count(0, 0, "0")


class Counts:
    """Counts for the steps of one plan, with what is known of its values."""

    def __init__(self, study: Study, known: Known) -> None:
        self.study = study
        self.known = known
        self._around: dict[Site, Count] = {}

    def of(self, site: Site) -> Count:
        """How often a step calls its tool (a group: is gone through) in the whole run, if nothing fails."""
        return _times(self._outside(site), self.once(site))

    def once(self, site: Site) -> Count:
        """The same, each time its block is gone through."""
        step = site.step
        count = _repeated(step, self.items(site))
        return _perhaps(count) if step.id in self.study.fewer else count

    def items(self, site: Site) -> Count:
        """How many items `each` has; one without it."""
        step = site.step
        if not step.has("each"):
            return ONCE
        found = self.known.value(step, "each")
        if found is not None and isinstance(found[0], list):
            return count_of(len(found[0]), len(found[0]))
        return Count(self.study.least_items(step), None, f"n of {spell(step.each)}")

    def _outside(self, site: Site) -> Count:
        group = site.block.site
        if group is None:
            return ONCE
        if group not in self._around:
            self._around[group] = self.of(group)
        return self._around[group]


def count_of(least: int, most: int) -> Count:
    """A count whose bounds are known: `3`, `up to 3`, `1 to 3`."""
    if least == most:
        return Count(least, most, str(least))
    return Count(least, most, f"{least} to {most}" if least else f"up to {most}")


def spell(template: Json) -> str:
    """A template as a person reads it: expressions bare, literals as JSON; `{path: inputs.ledger, limit: 5}`."""
    match template:
        case {"$": str(text), **rest} if not rest:
            return text
        case {"$literal": literal, **rest} if not rest:
            return json.dumps(literal, ensure_ascii=False)
        case dict():
            return "{" + ", ".join(f"{key}: {spell(value)}" for key, value in template.items()) + "}"
        case list():
            return "[" + ", ".join(map(spell, template)) + "]"
        case _:
            return json.dumps(template, ensure_ascii=False)


def _repeated(step: Step, items: Count) -> Count:
    """`until`: the items one after the other until one is enough, or the call up to `max` times."""
    if not step.repeats:
        return items
    if not step.has("each"):
        return count_of(1, max(step.max, 1)) if step.max is not None else Count(1, None, "1 or more")
    least = min(items.least, 1)
    return Count(least, None, items.text) if items.most is None else count_of(least, items.most)


def _perhaps(count: Count) -> Count:
    return Count(0, None, count.text) if count.most is None else count_of(0, count.most)


def _times(a: Count, b: Count) -> Count:
    if a == ONCE or b == ONCE:
        return b if a == ONCE else a
    if a.most == 0 or b.most == 0:
        return _NEVER
    least = a.least * b.least
    if a.most is not None and b.most is not None:
        return count_of(least, a.most * b.most)
    return Count(least, None, f"{a.text} × {b.text}")
