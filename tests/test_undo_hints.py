"""The undo that a tool names, and what a call costs: what planners, the check and the review make of it."""

from __future__ import annotations

from typing import Any

import pytest

from foreplan import Engine, Plan, Registry, check, review, tool
from foreplan.planner.findings import Finding
from foreplan.planner.prompt import plan_messages
from foreplan.planner.requests import PlanRequest
from foreplan.policies.errors import BadInput


@tool(undo="cancel_booking", cost=0.5)
def book(room: str) -> dict[str, str]:
    """Book a room."""
    return {"id": room}


@tool(effect="writes")
def cancel_booking(room: str) -> None:
    """Take a booking back."""


@tool(effect="reads")
def look(room: str) -> bool:
    """Look at it."""
    return True


TOOLS = Registry(book, cancel_booking, look)
BOOK: dict[str, Any] = {"id": "b", "tool": "book", "args": {"room": "blue"}}
LOOK: dict[str, Any] = {"id": "l", "tool": "look", "args": {"room": "blue"}, "after": ["b"]}


def hints(*steps: dict[str, Any]) -> list[Finding]:
    """What the check says of a missing undo."""
    plan = Plan.model_validate({"steps": list(steps)})
    return [found for found in check(plan, TOOLS).findings if found.code == "without_undo"]


def test_an_undo_that_nobody_has_is_refused_when_the_engine_is_made() -> None:
    """The nearest name is said."""

    @tool(undo="cancel_boking")
    def stay(room: str) -> str:
        """Stay."""
        return room

    with pytest.raises(BadInput, match=r"'stay' is undone by 'cancel_boking'.*did you mean 'cancel_booking'"):
        Engine([stay, cancel_booking])


def test_an_act_that_could_be_taken_back_is_noted_where_something_may_fail_after_it() -> None:
    """Only an info, at the step, with the fragment to put there."""
    [found] = hints(BOOK, LOOK)
    assert (found.severity, found.pointer) == ("info", "/steps/0")
    assert found.suggestion == 'undo: {"tool": "cancel_booking", "args": {"room": "blue"}}'
    assert hints(BOOK) == []
    assert hints({"id": "l", "tool": "look", "args": {"room": "blue"}}, BOOK) == []
    assert hints({**BOOK, "undo": {"tool": "cancel_booking", "args": {"room": "blue"}}}, LOOK) == []
    assert len(hints({**BOOK, "each": {"$": "range(3)"}})) == 1


def test_the_fragment_makes_the_plan_whole() -> None:
    """Put where it is said, it passes the check and nothing is noted any more."""
    import yaml

    [found] = hints(BOOK, LOOK)
    assert hints({**BOOK, **yaml.safe_load(found.suggestion)}, LOOK) == []


def test_planners_are_told_of_undo_and_cost() -> None:
    """The catalogue says both where a tool does, and no undo that the planner may not call."""
    whole = repr(plan_messages(PlanRequest(goal="x", tools=TOOLS)))
    assert '"undo":"cancel_booking"' in whole
    assert '"cost":0.5' in whole
    assert '"undo":"cancel_booking"' not in repr(
        plan_messages(PlanRequest(goal="x", tools=TOOLS.only(names=["book"])))
    )


def test_the_review_adds_up_what_calls_cost() -> None:
    """By what tools state: each step and the sum."""
    plan = Plan.model_validate({"steps": [{**BOOK, "each": {"$": "range(4)"}, "args": {"room": "x"}}]})
    [step] = review(plan, TOOLS).every_step
    assert (step.cost, step.to_json()["cost"], step.calls.most) == (0.5, 0.5, 4)


def test_the_sum_of_costs_is_shown() -> None:
    """Exact where the number of calls is known, a bound where it is, and said where it is not."""
    import io

    from rich.console import Console

    from foreplan.console import render

    def page(each: Any) -> str:
        plan = Plan.model_validate(
            {
                "inputs": {
                    "type": "object",
                    "properties": {"rooms": {"type": "array"}},
                    "required": ["rooms"],
                },
                "steps": [{**BOOK, "each": each, "args": {"room": "x"}}],
            }
        )
        console = Console(width=120, file=io.StringIO())
        console.print(render.contents(review(plan, TOOLS)))
        return " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]

    assert "cost 2 " in page({"$": "range(4)"})
    assert "cost at least 0, and for calls whose number is not known: b 0.5 a call" in page(
        {"$": "inputs.rooms"}
    )
