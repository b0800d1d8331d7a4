"""What can happen to a call and how a step can end: read from the journals of a few small runs, not from memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

from foreplan import Budget, Engine, MemoryJournal, Plan, Policies, Registry, Retry, ToolFailure, tool
from foreplan.executor.events import CallSettled, DecisionAsked, Event, ValueSettled

__all__ = ["diagram", "outcomes"]


class Case(NamedTuple):
    """A small run: what makes it special, and the step `it` that shows it."""

    because: str
    it: Mapping[str, Any]
    policies: Mapping[str, Any] = {}
    before: Mapping[str, Any] | None = None


CASES = [
    Case("the tool answers", {"tool": "answers"}),
    Case("the value is computed", {"value": 1}),
    Case("the tool fails once, and may be tried again", {"tool": "stumbles"}),
    Case("the tool says no", {"tool": "refuses"}),
    Case("the same with `on_failure: skip`", {"tool": "refuses", "on_failure": "skip"}),
    Case("its `when` is false", {"tool": "answers", "when": False}),
    Case(
        "a step that it waits for failed",
        {"tool": "answers", "after": ["before"]},
        before={"tool": "refuses"},
    ),
    Case("nobody knows whether it acted", {"tool": "vanishes"}),
    Case("the budget is used up", {"tool": "answers"}, {"budget": Budget(tool_calls=0)}),
]


def _registry() -> Registry:
    """Tools that behave as their names say; made anew for each run, since one of them remembers."""
    tries: list[None] = []

    @tool(effect="reads")
    def answers() -> int:
        """Answer."""
        return 1

    @tool(effect="reads")
    def stumbles() -> int:
        """Fail the first time."""
        tries.append(None)
        if len(tries) == 1:
            raise ToolFailure("come again", kind="network", code="stumbled")
        return 1

    @tool(effect="reads")
    def refuses() -> int:
        """Say no."""
        raise ToolFailure("no")

    @tool(effect="acts")
    def vanishes() -> int:
        """Act, perhaps."""
        raise ToolFailure("the line is dead", kind="network", code="lost", happened="maybe")

    return Registry(answers, stumbles, refuses, vanishes)


@cache
def _events(place: int) -> list[Event]:
    """The journal of one case."""
    case = CASES[place]
    steps = [{"id": "it", **case.it}, {"id": "then", "value": 1, "after": ["it"]}]
    if case.before is not None:
        steps.insert(0, {"id": "before", **case.before})
    policies = Policies(approve="never", retry=Retry(base=0), **case.policies)
    journal = MemoryJournal()
    engine = Engine(_registry(), policies=policies, journal=journal)
    run = engine.run_blocking(Plan.model_validate({"steps": steps}))
    return list(journal.events(run.id))


def _lives(step: str) -> Iterator[list[Event]]:
    """The events of one step, case by case."""
    for place in range(len(CASES)):
        yield [event for event in _events(place) if getattr(event, "path", ())[:1] == (step,)]


def _label(event: Event) -> str:
    match event:
        case CallSettled() | ValueSettled():
            return f"{type(event).__name__} {event.outcome}"
        case DecisionAsked():
            return f"DecisionAsked {event.about}"
        case _:
            return type(event).__name__


def diagram() -> str:
    """What follows what in the life of a step."""
    follows: dict[str, dict[str, None]] = {}
    for life in _lives("it"):
        for before, after in pairwise(["(ready)", *map(_label, life), "(end)"]):
            follows.setdefault(before, {})[after] = None
    width = max(map(len, follows))
    lines = [f"{before:<{width}}  ->  {'  |  '.join(after)}" for before, after in follows.items()]
    return "\n".join(["```text", *lines, "```"])


def outcomes() -> str:
    """How each case ends, and what that means for a step that waits for it."""
    rows = ["| outcome | because | a step that waits for it |", "| --- | --- | --- |"]
    for case, life, after in zip(CASES, _lives("it"), _lives("then"), strict=True):
        rows.append(f"| {_end(life)} | {case.because} | {_end(after)} |")
    return "\n".join(rows)


def _end(life: list[Event]) -> str:
    settled = [event for event in life if isinstance(event, CallSettled | ValueSettled)]
    return f"`{settled[-1].outcome}`" if settled else "waits"
