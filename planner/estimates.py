"""Whether a plan keeps to a budget, as far as that can be said before anything runs.

    calls, calls of one tool    error where even the fewest are too many, else a warning where the most are
    cost                        a warning: by what the tools state, and a call may count less than that

Calls inside of sub-plans and those that take effects back are in the most, not in the fewest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import NamedTuple, TypeAlias

from ..policies.policies import Budget
from ..registry.tools import Tool
from .counts import Count, Counts
from .findings import Finding
from .folding import Known
from .study import Study, finding

__all__ = ["over_budget"]

Findings: TypeAlias = Iterator[Finding]


def _asks_a_person(tool: Tool | None) -> bool:
    """Whether a call of it is a question, which counts as no call."""
    return tool is not None and tool.answered_by == "person"


class _Called(NamedTuple):
    """A step that calls a tool: the tool (None if there is no such one), how often, and what would take a call back."""

    tool: Tool | None
    calls: Count
    back: Tool | None
    undoes: bool


def _called(study: Study, known: Known) -> Iterator[_Called]:
    """The steps whose calls count: those that no other replaces, and that no person answers."""
    counts = Counts(study, known)
    replaced = {site.step.replaces for site in study.sites}
    for site in study.sites:
        tool = study.tool(site.step)
        if site.step.tool is not None and site.id not in replaced and not _asks_a_person(tool):
            undo = site.step.undo
            back = study.registry.get(undo.tool) if undo is not None else None
            yield _Called(tool, counts.of(site), back, undo is not None)


def over_budget(study: Study, budget: Budget, known: Known) -> Findings:
    """What of the budget the plan needs more of than there is, or may need."""
    if budget.tool_calls is None and budget.cost is None and not budget.tools:
        return
    called = list(_called(study, known))
    if budget.tool_calls is not None:
        least = sum(one.calls.least for one in called)
        yield from _over(least, _sum(map(_all_calls, called)), budget.tool_calls, "calls")
    for name, most in budget.tools.items():
        least = sum(one.calls.least for one in called if one.tool is not None and one.tool.name == name)
        bound = _sum(_calls_of(one, name) for one in called)
        yield from _over(least, bound, most, f"calls of {name!r}")
    if budget.cost is not None:
        yield from _over_cost(called, budget.cost)


def _over(least: int, bound: int | None, most: int, what: str) -> Findings:
    if least > most:
        yield finding("over_budget", "", f"the plan makes at least {least:,} {what}, the budget is {most:,}")
    elif bound is None or bound > most:
        said = f"a number of {what} that is not known" if bound is None else f"up to {bound:,} {what}"
        yield finding("may_exceed_budget", "", f"the plan may make {said}, the budget is {most:,}")


def _sum(bounds: Iterable[int | None]) -> int | None:
    total = 0
    for bound in bounds:
        if bound is None:
            return None
        total += bound
    return total


def _times(calls: Count, each: int | None) -> int | None:
    """So many for each of these calls, at most; None where that is not known."""
    return 0 if each == 0 else None if each is None or calls.most is None else calls.most * each


def _all_calls(one: _Called) -> int | None:
    """All calls that a step makes at most: with those inside a plan, and those that take them back."""
    inside = [_calls_inside(one.tool), *([_calls_inside(one.back)] if one.undoes else [])]
    return _times(one.calls, _sum(None if n is None else 1 + n for n in inside))


def _calls_inside(tool: Tool | None) -> int | None:
    """How many calls a call of it makes at most besides itself; None where it is a plan without a bound."""
    return tool.tool_calls if tool is not None else 0


def _calls_of(one: _Called, name: str) -> int | None:
    """How often a step calls one tool at most, inside plans and to take something back too."""
    return _times(one.calls, _sum(_calls_in(tool, name) for tool in (one.tool, one.back)))


def _calls_in(tool: Tool | None, name: str) -> int | None:
    if tool is None or tool.name == name:
        return int(tool is not None)
    binds = tool.binds or {}
    return tool.tool_calls if name in (binds.get("within") or binds.get("tools") or ()) else 0


def _over_cost(called: list[_Called], most: float) -> Findings:
    """By what the tools state; what a call counts itself may be less."""
    least = sum((one.calls.least * _cost(one.tool) for one in called), Decimal(0))
    dear = [one for one in called if _cost(one.tool) + _cost(one.back)]
    unknown = next((one for one in dear if one.calls.most is None), None)
    limit = Decimal(repr(most))
    if least > limit:
        message = f"the plan costs at least {float(least):g} by what its tools state, the budget is {most:g}"
        yield finding("may_exceed_budget", "", message)
    elif unknown is not None:
        tool = unknown.tool if _cost(unknown.tool) or unknown.back is None else unknown.back
        each = (
            f"each call of {tool.name!r} costs {tool.cost:g}" if tool is not None else "calls cost something"
        )
        message = f"{each}, how many there will be is not known, and the budget is {most:g} in cost"
        yield finding("may_exceed_budget", "", message)
    else:
        bound = sum(((one.calls.most or 0) * (_cost(one.tool) + _cost(one.back)) for one in dear), Decimal(0))
        if bound > limit:
            message = (
                f"the plan may cost up to {float(bound):g} by what its tools state, the budget is {most:g}"
            )
            yield finding("may_exceed_budget", "", message)


def _cost(tool: Tool | None) -> Decimal:
    return Decimal(repr(tool.cost)) if tool is not None else Decimal(0)
