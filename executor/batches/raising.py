"""A larger budget for a batch that is tried again: what may be raised, and what the journal keeps of it."""

from __future__ import annotations

from typing import Any

from ...policies.errors import BadInput, expect
from ...policies.policies import Budget
from ..mind.batch import BatchState, affordable

__all__ = ["expect_of_all", "raised"]

_BOUNDS = [name for name in Budget.model_fields if name != "tools"]


def raised(state: BatchState, budget: Budget | None, by: str) -> dict[str, Any] | None:
    """What `by` raises, for the journal: from what, and the whole budget that holds from here on. None: nothing.

    Raises `BadInput` for what is not larger than before, and for what is too small for one more row.
    """
    if budget is None:
        _expect_some_left(state)
        return None
    expect(Budget, budget, "the budget of the batch", "Budget(tool_calls=...) makes one")
    expect_of_all(budget)
    asked = {name: most for name in _BOUNDS if (most := getattr(budget, name)) is not None}
    if not asked:
        raise BadInput("a larger budget says of what: Budget(tool_calls=...)")
    before = state.rules.budget
    for name, most in asked.items():
        _expect_larger(state, name, getattr(before, name), most)
    was = {name: getattr(before, name) for name in asked}
    return {"by": by, "was": was, "budget": before.model_copy(update=asked).model_dump(exclude_defaults=True)}


def expect_of_all(budget: Budget) -> None:
    """Raises `BadInput` for a bound that does not hold for all rows together."""
    if budget.tools:
        raise BadInput(
            "calls by tool are bounded for each row, and not for a batch: Policies(budget=Budget(tools=...)); "
            "a batch has bounds on tool_calls, model_calls, tokens, cost and seconds"
        )


def _expect_some_left(state: BatchState) -> None:
    """Raises `BadInput` where the batch would end again as it did, before its first row."""
    if state.closed is not None and state.closed.reason == "budget" and not affordable(state):
        raise BadInput(
            f"what batch {state.run!r} may use is used up, so none of its rows could begin; give it a larger budget, with "
            "what they have used: retry_batch(..., budget=Budget(...)), `foreplan retry --budget NAME=MOST`"
        )


def _expect_larger(state: BatchState, name: str, was: float | None, most: float) -> None:
    if was is None:
        held = [
            f"{bound}={_shown(n)}"
            for bound in _BOUNDS
            if (n := getattr(state.rules.budget, bound)) is not None
        ]
        there = f"it has {', '.join(held)}" if held else "it has no budget"
        raise BadInput(f"batch {state.run!r} has no bound on {name} that could be raised; {there}")
    used = getattr(state.used(), name)
    if most <= was:
        raise BadInput(
            f"batch {state.run!r} has a budget of {_shown(was)} {name}, and {_shown(most)} is not larger: "
            f"say what all its rows together may use, with the {_shown(used)} that they have used"
        )
    each = (state.reserve or {}).get(name, 0)
    if used + each > most or (name == "seconds" and used >= most):
        more = f", and one row may use {_shown(each)}" if each else ""
        raise BadInput(
            f"with a budget of {_shown(most)} {name} no further row of batch {state.run!r} could begin: "
            f"{_shown(used)} are used{more}"
        )


def _shown(number: float) -> str:
    return f"{number:,.15g}"
