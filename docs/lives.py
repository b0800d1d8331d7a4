"""What can happen to a call and how a step can end: read from the journals of a few small runs, not from memory."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

from anyio import sleep_forever

from foreplan import Engine, Plan, Policies, Registry, Retry, Run, ToolContext, ToolFailure, tool
from foreplan.executor.events import CallSettled, DecisionAsked, DecisionMade, Event, ValueSettled
from foreplan.executor.runtime import Answer

__all__ = ["diagram", "outcomes"]


class Case(NamedTuple):
    """A small run: what makes it special, and the step `it` that shows it."""

    because: str
    it: Mapping[str, Any]
    before: Mapping[str, Any] | None = None
    answer: Answer | None = None


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
    Case("a person knows that it did", {"tool": "vanishes"}, answer=Answer("accept", value=1)),
    Case("a person knows that it did not", {"tool": "vanishes"}, answer=Answer("fail")),
    Case("a person says: once more", {"tool": "vanishes"}, answer=Answer("retry")),
    Case("the run is cancelled meanwhile", {"tool": "cancels"}),
]


def _engine() -> Engine:
    """An engine of tools that behave as their names say; made anew for each run, since one of them remembers."""
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

    @tool(effect="reads")
    async def cancels(context: ToolContext) -> int:
        """Cancel the run that calls this."""
        engine.cancel(context.run_id)
        await sleep_forever()
        return 1

    policies = Policies(approve="never", retry=Retry(base=0))
    engine = Engine(Registry(answers, stumbles, refuses, vanishes, cancels), policies=policies)
    return engine


@cache
def _run(place: int) -> tuple[Run, list[Event]]:
    """One case, run to where nobody needs to be asked, and its journal."""
    case = CASES[place]
    steps = [{"id": "it", **case.it}, {"id": "then", "value": 1, "after": ["it"]}]
    if case.before is not None:
        steps.insert(0, {"id": "before", **case.before})
    engine = _engine()
    run = engine.run_blocking(Plan.model_validate({"steps": steps}))
    if case.answer:
        run = engine.resume_blocking(run.id, decisions={run.waiting[0].id: case.answer})
    return run, list(engine.journal.events(run.id))


def _label(event: Event) -> str:
    match event:
        case CallSettled() | ValueSettled():
            return f"{type(event).__name__} {event.outcome}"
        case DecisionAsked():
            return f"DecisionAsked {event.about}"
        case _:
            return type(event).__name__ if hasattr(event, "path") or isinstance(event, DecisionMade) else ""


def diagram() -> str:
    """What follows what in the life of a step."""
    follows: dict[str, dict[str, None]] = {}
    for place in range(len(CASES)):
        life = [event for event in _run(place)[1] if getattr(event, "path", ("it",)) == ("it",)]
        for before, after in pairwise(["(ready)", *filter(None, map(_label, life)), "(end)"]):
            follows.setdefault(before, {})[after] = None
    width = max(map(len, follows))
    lines = [f"{before:<{width}}  ->  {'  |  '.join(after)}" for before, after in follows.items()]
    return "\n".join(["```text", *lines, "```"])


def outcomes() -> str:
    """How each case ends, and what that means for a step that waits for it."""
    rows = [
        "| a step ends | because | a step that waits for it ends | the run is |",
        "| --- | --- | --- | --- |",
    ]
    for place, case in enumerate(CASES):
        run, events = _run(place)
        attempts = [event.outcome for event in events if isinstance(event, CallSettled)]
        ends = [run.steps["it"].outcome or attempts[-1], run.steps["then"].outcome or "not begun"]
        rows.append(f"| {ends[0]} | {case.because} | {ends[1]} | {run.state} |")
    return "\n".join(rows)
