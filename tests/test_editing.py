"""Changing a plan by hand: what is asked is done, and what else must change is said."""

from __future__ import annotations

from typing import Any

import pytest

from foreplan import Plan, Registry, tool
from foreplan.planner.editing import Edit
from foreplan.policies.errors import BadInput


@tool(effect="reads")
def load(name: str, limit: int = 5) -> dict[str, Any]:
    """Load a file."""
    return {}


@tool
def send(text: str) -> None:
    """Send a text."""


TOOLS = Registry(load, send)
PLAN = Plan.model_validate(
    {
        "steps": [
            {"id": "a", "tool": "load", "args": {"name": "x"}},
            {"id": "b", "value": {"$": "[item for item in a.rows]"}},
            {"id": "c", "tool": "send", "args": {"text": {"$": "str(b)"}}, "after": ["a"]},
            {"id": "d", "tool": "send", "args": {"text": "done"}, "after": ["a", "c"]},
            {"id": "e", "each": [1], "as": "b_item", "value": {"$": "b_item"}},
        ],
        "output": {"$": "b"},
    }
)
GROUPED = Plan.model_validate(
    {
        "steps": [
            {"id": "base", "value": 1},
            {
                "id": "g",
                "steps": [{"id": "x", "value": {"$": "base"}}, {"id": "y", "value": 2, "after": ["x"]}],
                "output": {"$": "x"},
            },
            {"id": "z", "tool": "send", "args": {"text": {"$": "str(g)"}}},
        ]
    }
)


def test_without_says_what_dangles_and_the_report_says_why() -> None:
    """Steps that read what is gone, and those that read them; one that only waits no longer waits."""
    edit = Edit(PLAN, TOOLS).without("a")
    assert edit.dangling == ("b", "c")
    assert [(f.code, f.pointer) for f in edit.report.errors] == [("unknown_step", "/steps/0/value/$")]
    assert edit.plan.by_id["d"].after == ["c"]
    assert PLAN.by_id["d"].after == ["a", "c"]


def test_what_dangles_can_go_too() -> None:
    """The output still names what is gone, and the report says so."""
    edit = Edit(PLAN, TOOLS).without("a").without_dangling()
    assert [step.id for step in edit.plan.steps] == ["d", "e"]
    assert edit.dangling == ()
    assert edit.gone == {"a", "b", "c"}
    assert [f.pointer for f in edit.report.errors] == ["/output/$"]
    assert edit.without_dangling() is edit


def test_a_step_nobody_reads_goes_quietly() -> None:
    """Nothing dangles, and no error is new."""
    edit = Edit(PLAN, TOOLS).without("e")
    assert (edit.dangling, edit.report.errors) == ((), ())


def test_steps_in_groups_are_found() -> None:
    """A group goes with what is in it; if a step inside cannot stay, what reads the group cannot either."""
    edit = Edit(GROUPED, TOOLS)
    assert edit.without("base").dangling == ("g", "x", "z")
    assert edit.without("g").gone == {"g", "x", "y"}
    assert edit.without("g").dangling == ("z",)
    [_, group, _] = edit.without("x").plan.steps
    assert group.steps is not None
    assert [(s.id, s.after) for s in group.steps] == [("y", [])]


def test_other_arguments_are_checked_again() -> None:
    """`...` takes one out; a wrong one is in the report, the rest of the plan is as it was."""
    edit = Edit(PLAN, TOOLS).with_args("a", limit=3)
    assert edit.plan.by_id["a"].args == {"name": "x", "limit": 3}
    assert edit.report.ok
    assert [f.code for f in edit.with_args("a", limit="many").report.errors] == ["wrong_argument"]
    assert [f.code for f in edit.with_args("a", name=...).report.errors] == ["missing_argument"]
    assert edit.with_args("a", limit=...).plan == PLAN
    assert Edit(GROUPED, TOOLS).with_args("z", text="hi").plan.by_id["z"].args == {"text": "hi"}


def test_slips_are_told() -> None:
    """An id that no step has, arguments for a step without a call."""
    with pytest.raises(BadInput, match="no step is called 'aa'; did you mean 'a'"):
        Edit(PLAN, TOOLS).without("aa")
    with pytest.raises(BadInput, match="calls no tool"):
        Edit(PLAN, TOOLS).with_args("b", name="x")
