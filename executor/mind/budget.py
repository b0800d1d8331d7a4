"""What one run may use up, reserved before a call starts and never counted afterwards only.

    every attempt     one tool call, one of its tool, the cost that the tool states
    + model_calls     the most questions to a model that the tool says one attempt asks
    of a sub-plan     a slice of everything: what its tool states, or all that is left

    refused before it began           everything is given back
    ended                             what it held beyond itself, less what it says it used; a cost it counted replaces
                                      the one its tool states
    lost, or nobody knows             stays charged: it may have been used

Tokens cannot be reserved, since nobody knows them before: what asks models begins only while there are some. Who needs
what others hold waits for them; who needs what is used up stops the run. The clock of a run stands still while it only
waits for people, while it is paused and while no process drives it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from decimal import Context, Decimal
from typing import Any, NamedTuple

from ...policies.failures import Failure
from ...policies.policies import Budget
from ...policies.text import count
from ...registry.tools import Tool
from .. import events as e
from ..events import Outcome, Path
from .state import Active, Held, Lane, Sleep, State

__all__ = [
    "Left",
    "Used",
    "add",
    "add_usage",
    "affordable",
    "affords_again",
    "answered",
    "bound_seconds",
    "bound_text",
    "charge_question",
    "in_time",
    "is_amount",
    "left",
    "open_account",
    "out_of_seconds",
    "plain_usage",
    "planner_short_of",
    "question_short_of",
    "reach",
    "reserve",
    "run_out",
    "seconds_left",
    "seconds_used",
    "settle_up",
    "used",
]


_NO_BOUND, _NO_QUESTIONS = Budget(), Budget(model_calls=0)
"""Frozen, and slow to make."""


class Used(NamedTuple):
    """What a run has used up, reservations of calls under way included.

    `tools` counts calls of the tools that the budget names. `seconds` run from the opening, without waits for people.
    """

    tool_calls: int = 0
    tools: Mapping[str, int] = {}
    model_calls: int = 0
    tokens: int = 0
    cost: float = 0
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {**self._asdict(), "tools": dict(self.tools)}


class Left(NamedTuple):
    """What is left of each bound, never below zero; None: there is no bound."""

    tool_calls: int | None = None
    tools: Mapping[str, int] = {}
    model_calls: int | None = None
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, without the bounds that there are not."""
        said = {**self._asdict(), "tools": dict(self.tools) or None}
        return {name: value for name, value in said.items() if value is not None}


# ---------------------------------------------------------------------------------------------- what is used, what is left


def seconds_used(state: State) -> float:
    """Seconds since the run was opened, as of its last event, without those in which it only waited or was paused."""
    return state.at - state.opened_at - state.away


def seconds_left(state: State, now: float) -> float | None:
    """Seconds until nothing more begins, at a moment in which the run is under way; None without a bound."""
    most = state.policies.budget.seconds
    return None if most is None else most - (now - state.opened_at - state.away)


def out_of_seconds(state: State) -> bool:
    """Whether the seconds of the budget are over, so that nothing more begins, whatever it holds."""
    most = state.policies.budget.seconds
    return most is not None and seconds_used(state) >= most


def used(state: State) -> Used:
    """What the run has used up so far."""
    cost, seconds = _number(state.cost), round(seconds_used(state), 6)
    return Used(state.tool_calls, dict(state.called), state.model_calls, state.tokens, cost, seconds)


def left(budget: Budget, used: Used) -> Left:
    """What is left of this budget after this."""
    cost = None if budget.cost is None else _number(_plus(exact(budget.cost), -exact(used.cost)))
    return Left(
        tool_calls=_rest(budget.tool_calls, used.tool_calls),
        tools={name: max(0, most - used.tools.get(name, 0)) for name, most in budget.tools.items()},
        model_calls=_rest(budget.model_calls, used.model_calls),
        tokens=_rest(budget.tokens, used.tokens),
        cost=None if cost is None else max(0, cost),
        seconds=None if budget.seconds is None else max(0.0, budget.seconds - used.seconds),
    )


def _rest(most: int | None, spent: int) -> int | None:
    return None if most is None else max(0, most - spent)


def bound_text(budget: Budget, bound: str) -> str:
    """A bound by its name, as people read it: `4 tool calls`, `3 calls of 'pay'`."""
    if bound.startswith("tools."):
        name = bound.removeprefix("tools.")
        return f"{count(budget.tools.get(name, 0), 'call')} of {name!r}"
    most = getattr(budget, bound)
    if bound == "cost":
        return f"{most:g} in cost"
    if bound == "seconds":
        return f"{most:g} seconds"
    return count(most, bound.replace("_", " ").removesuffix("s"))


# ---------------------------------------------------------------------------------------------- before an attempt


def open_account(state: State, at: float, spent: Mapping[str, Any] | None) -> None:
    """A run begins: what bounds it, and what planning it has used."""
    state.opened_at = at
    rebind(state)
    if not spent:
        return
    state.tool_calls += _whole(spent, "tool_calls") or 0
    state.model_calls += _whole(spent, "model_calls") or 0
    state.tokens += _whole(spent, "tokens") or 0
    state.cost = exact(_number_in(spent, "cost") or 0)


def rebind(state: State) -> None:
    """These bounds hold from here on. What was counted so far counts; a tool that had no bound of its own begins at 0."""
    budget = state.policies.budget
    known = _NO_BOUND if state.common is None else state.common.unbounded
    state.bounded = budget is not known and budget != _NO_BOUND
    state.called = {name: state.called.get(name, 0) for name in budget.tools}
    state.unheld = _NO_BOUND if budget.model_calls is None else _NO_QUESTIONS


def affordable(state: State, tool: Tool, path: Path) -> bool:
    """Whether the next attempt of a call is within budget; if nothing can change that, the run stops."""
    if not state.bounded:
        return True
    short = _short_of(state, tool, path)
    if short and not _is_held(state, short):
        run_out(state, short)
    return not short


def run_out(state: State, bound: str) -> None:
    """Something is used up: nothing more begins, and no wait is sat out."""
    state.stopping, state.short = "budget", bound
    for tag in [tag for tag, command in state.open.items() if isinstance(command, Sleep)]:
        del state.open[tag]


def in_time(state: State, until: float) -> bool:
    """Whether the run's time lasts beyond this moment; if not, the run stops rather than wait for it."""
    most = state.policies.budget.seconds
    if most is None or until - state.opened_at - state.away < most:
        return True
    run_out(state, "seconds")
    return False


def bound_seconds(state: State, seconds: float) -> None:
    """A sub-plan is taken up again: its caller has this much time left by now, which may be less than it had."""
    policies = state.policies
    until = max(seconds_used(state) + seconds, 1e-9)
    budget = policies.budget.model_copy(update={"seconds": until})
    state.policies = policies.model_copy(update={"budget": budget})
    state.bounded = True


def _short_of(state: State, tool: Tool, path: Path) -> str:
    """What is missing that one attempt needs at least: itself, and one of each thing it uses."""
    budget = state.policies.budget
    if out_of_seconds(state):
        return "seconds"
    if path in state.held:
        return ""
    least = 1 if tool.tool_calls == 0 else 2
    if budget.tool_calls is not None and budget.tool_calls - state.tool_calls < least:
        return "tool_calls"
    if tool.name in budget.tools and state.called[tool.name] >= budget.tools[tool.name]:
        return f"tools.{tool.name}"
    if budget.model_calls is not None and tool.model_calls != 0 and state.model_calls >= budget.model_calls:
        return "model_calls"
    if tool.answered_by == "plan":
        return _short_of_plan(state, tool)
    return _short_of_amounts(state, tool)


def _short_of_amounts(state: State, tool: Tool) -> str:
    """Tokens and cost: of those who state it, and of those who were seen to use it."""
    budget = state.policies.budget
    if budget.tokens is not None and state.tokens >= budget.tokens and _asks(state, tool):
        return "tokens"
    if budget.cost is not None:
        remains = _plus(exact(budget.cost), -state.cost)
        if (
            remains < exact(tool.cost)
            if tool.cost
            else remains <= 0 and (tool.name, "cost") in state.seen_using
        ):
            return "cost"
    return ""


def _asks(state: State, tool: Tool) -> bool:
    """Whether a tool needs tokens: it says that it asks models, or it was seen to use some."""
    return tool.model_calls != 0 or (tool.name, "tokens") in state.seen_using


def _short_of_plan(state: State, tool: Tool) -> str:
    """A sub-plan waits for its share of what others hold all of.

    It may begin without what is used up, for it may not need it; unless it was seen to.
    """
    budget = state.policies.budget
    gone = [f"tools.{n}" for n in reach(tool) if state.called.get(n, 0) >= budget.tools.get(n, math.inf)]
    if budget.tokens is not None and state.tokens >= budget.tokens and _asks(state, tool):
        gone.append("tokens")
    if budget.cost is not None and state.cost >= exact(budget.cost):
        gone.append("cost")
    seen = state.seen_using
    return next((bound for bound in gone if _is_held(state, bound) or (tool.name, bound) in seen), "")


def reach(tool: Tool) -> Iterable[str]:
    """The tools that a sub-plan may call, by way of others too."""
    binds = tool.binds or {}
    return binds.get("within") or binds.get("tools") or ()


def _is_held(state: State, bound: str) -> bool:
    """Whether some of this may still be given back: by calls that have not begun, that count their cost, that hold more."""
    if bound == "seconds":
        return False
    if (bound != "tokens" and state.unstarted) or (bound == "cost" and state.costing):
        return True
    return any(_amount(held, bound) for held in state.held.values())


def _amount(held: Held, bound: str) -> Any:
    if bound.startswith("tools."):
        return held.slice.tools.get(bound.removeprefix("tools."))
    return held.tokens if bound == "tokens" else getattr(held.slice, bound)


def reserve(state: State, tool: Tool, path: Path) -> None:
    """Take what one attempt may use, if it does not hold it since before an interruption."""
    if path in state.held:
        return
    state.tool_calls += 1
    if state.bounded:
        _promise(state, tool, path)
    plan = tool.answered_by == "plan"
    if tool.cost and not plan:
        state.cost = _plus(state.cost, exact(tool.cost))
    if plan or tool.model_calls != 0:
        slice_ = _slice(state, tool)
        held = state.held[path] = Held(tool, slice_, (_asks(state, tool) and slice_.tokens) or 0)
        _hold(state, held, 1)


def _promise(state: State, tool: Tool, path: Path) -> None:
    """Keep in mind what may yet be given back, and the calls of tools that the budget names."""
    state.unstarted.add(path)
    if tool.cost:
        state.costing.add(path)
    if tool.name in state.called:
        state.called[tool.name] += 1


def _slice(state: State, tool: Tool) -> Budget:
    """What one attempt may use besides itself."""
    remains = left(state.policies.budget, used(state))
    calls = _share(tool.tool_calls, remains.tool_calls)
    models = _share(tool.model_calls, remains.model_calls)
    if tool.answered_by != "plan":
        return Budget(tool_calls=calls, model_calls=models)
    names = set(reach(tool))
    return Budget(
        tool_calls=calls,
        model_calls=models,
        tools={name: n for name, n in remains.tools.items() if name in names},
        tokens=remains.tokens,
        cost=_share(tool.cost or None, remains.cost),
        seconds=remains.seconds,
    )


def _share(wanted: Any, remaining: Any) -> Any:
    """How much of what is left one attempt gets; None where neither it nor the run has a bound."""
    if wanted is None or remaining is None:
        return remaining if wanted is None else wanted
    return min(wanted, remaining)


def _hold(state: State, held: Held, sign: int) -> None:
    """Count what is held as used, or (-1) no more."""
    slice_ = held.slice
    state.tool_calls += sign * (slice_.tool_calls or 0)
    state.model_calls += sign * (slice_.model_calls or 0)
    state.tokens += sign * held.tokens
    state.cost = _plus(state.cost, sign * exact(slice_.cost or 0))
    for name, n in slice_.tools.items():
        state.called[name] += sign * n


# ---------------------------------------------------------------------------------------------- after it


def settle_up(state: State, active: Active, event: e.CallSettled) -> None:
    """An attempt has ended: what it did not use is free again. What it does not count is taken for used."""
    if state.bounded:
        _settled(state, event.path)
    if active.started and event.usage is None and not (state.held and event.path in state.held):
        return
    plan = active.tool.answered_by == "plan"
    if plan and active.begun and event.outcome is Outcome.CANCELLED:
        return  # the run that it is goes on with its slice
    if active.started or (plan and active.begun):
        _charge(state, active.tool, event)
    elif event.attempt:
        _give_back(state, active.tool, event.path)


def _settled(state: State, path: Path) -> None:
    """Who waits for something tries again, in the same order: something may be free, or nothing more will be."""
    state.unstarted.discard(path)
    state.costing.discard(path)
    while state.hungry:
        who = state.hungry.pop()
        if isinstance(who, Lane):
            state.lanes.appendleft(who)
        else:
            state.again.appendleft(who)


def _give_back(state: State, tool: Tool, path: Path) -> None:
    """It never began."""
    held = state.held.pop(path, None)
    state.tool_calls -= 1
    if tool.name in state.called:
        state.called[tool.name] -= 1
    if tool.cost and tool.answered_by != "plan":
        state.cost = _plus(state.cost, -exact(tool.cost))
    if held is not None:
        _hold(state, held, -1)


def _charge(state: State, tool: Tool, event: e.CallSettled) -> None:
    """It began: what it used is charged in place of what it held."""
    held = state.held.pop(event.path, None)
    counted = event.usage or {}
    if tool.answered_by == "plan":
        if held is not None and event.usage is not None:
            _stop_with_child(state, held, event.failure)
            _hold(state, held, -1)
            _add_child(state, held, counted)
        return
    reserved = (held.slice.model_calls or 0) if held is not None else 0
    asked = _whole(counted, "model_calls")
    lost = _may_go_on(event)
    if asked is not None:
        state.model_calls += max(asked, reserved) - reserved if lost else asked - reserved
    _add_tokens(state, tool.name, counted)
    cost = _number_in(counted, "cost")
    if cost is not None:
        cost = max(cost, tool.cost) if lost else cost
        state.cost = _plus(state.cost, _plus(exact(cost), -exact(tool.cost)))
        if cost > 0:
            state.seen_using.add((tool.name, "cost"))


def _may_go_on(event: e.CallSettled) -> bool:
    """Whether the attempt was cut short, or its thread runs on: then what it has counted is not all it uses."""
    details = event.failure.details if event.failure is not None else None
    return event.outcome is Outcome.CANCELLED or bool(details and details.get("still_running"))


def _add_tokens(state: State, name: str, counted: Mapping[str, Any]) -> None:
    tokens = (_whole(counted, "input_tokens") or 0) + (_whole(counted, "output_tokens") or 0)
    if tokens:
        state.tokens += tokens
        state.seen_using.add((name, "tokens"))


def _add_child(state: State, held: Held, counted: Mapping[str, Any]) -> None:
    """What the run of a sub-plan has used."""
    state.tool_calls += _whole(counted, "tool_calls") or 0
    state.model_calls += _whole(counted, "model_calls") or 0
    tokens, cost = _whole(counted, "tokens") or 0, _number_in(counted, "cost") or 0
    state.tokens += tokens
    state.cost = _plus(state.cost, exact(cost))
    for name in held.slice.tools:
        state.called[name] += _whole(counted.get("tools") or {}, name) or 0
    state.seen_using |= {(held.tool.name, name) for name, n in (("tokens", tokens), ("cost", cost)) if n}


def _stop_with_child(state: State, held: Held, failure: Failure | None) -> None:
    """A sub-plan ran out of what this run has no more of: then this run has run out too, whatever its step says."""
    bound = ((failure.details if failure is not None else None) or {}).get("bound")
    if not bound or (not bound.startswith("tools.") and getattr(state.policies.budget, bound, None) is None):
        return
    own = {
        "tool_calls": held.tool.tool_calls,
        "model_calls": held.tool.model_calls,
        "cost": held.tool.cost or None,
    }
    if own.get(bound) is None or own[bound] != getattr(held.slice, bound):
        run_out(state, bound)


# ---------------------------------------------------------------------------------------------- the planner


def planner_short_of(budget: Budget, used: Used, *, asks: int, costs: bool) -> str:
    """The bound that keeps a planner from being asked; "" if none does. `asks`: model calls for one question."""
    if budget.seconds is not None and used.seconds >= budget.seconds:
        return "seconds"
    if not asks:
        return ""
    if budget.model_calls is not None and used.model_calls + asks > budget.model_calls:
        return "model_calls"
    if budget.tokens is not None and used.tokens >= budget.tokens:
        return "tokens"
    if budget.cost is not None and costs and exact(used.cost) >= exact(budget.cost):
        return "cost"
    return ""


def question_short_of(state: State, asks: int) -> str:
    """The bound that forbids another question to the planner, or to the model of a dialogue; "" if none does."""
    if not state.bounded:
        return ""
    costs = (_ASKED, "cost") in state.seen_using
    return planner_short_of(state.policies.budget, used(state), asks=asks, costs=costs)


def affords_again(state: State, usage: Mapping[str, Any], asks: int) -> bool:
    """Whether the planner may be asked once more, where attempts at the question that was charged have used so much."""
    spent = used(state)
    spent = add_usage(spent._replace(model_calls=spent.model_calls - asks), usage, asks=asks)
    return not (
        state.bounded and planner_short_of(state.policies.budget, spent, asks=asks, costs=spent.cost > 0)
    )


def charge_question(state: State, asks: int) -> None:
    """It is asked, which is so many model calls."""
    state.model_calls += asks


def answered(state: State, usage: Mapping[str, Any] | None, asks: int) -> None:
    """It answered: what it counted is charged."""
    counted = usage or {}
    asked = _whole(counted, "model_calls")
    if asked is not None:
        state.model_calls += asked - asks
    _add_tokens(state, _ASKED, counted)
    cost = _number_in(counted, "cost")
    if cost:
        state.cost = _plus(state.cost, exact(cost))
        state.seen_using.add((_ASKED, "cost"))


_ASKED = ""
"""Stands for the planner and the model of a dialogue among the names of tools."""


def add_usage(so_far: Used, usage: Mapping[str, Any] | None, *, asks: int) -> Used:
    """What planning has used, with one more answer."""
    counted = usage or {}
    asked = _whole(counted, "model_calls")
    tokens = (_whole(counted, "input_tokens") or 0) + (_whole(counted, "output_tokens") or 0)
    return so_far._replace(
        model_calls=so_far.model_calls + (asks if asked is None else asked),
        tokens=so_far.tokens + tokens,
        cost=add(so_far.cost, _number_in(counted, "cost") or 0),
    )


# ---------------------------------------------------------------------------------------------- numbers

_EXACT = Context(prec=60)
"""Our own: a tool may have changed the one of its thread."""


def add(a: float, b: float) -> float:
    """The sum of two costs as people do it: 0.1 + 0.2 is 0.3."""
    return _number(_plus(exact(a), exact(b)))


def exact(number: float) -> Decimal:
    """The number that its text says: 0.1 and not what a float makes of it."""
    return Decimal(repr(number))


def _plus(a: Decimal, b: Decimal) -> Decimal:
    return _EXACT.add(a, b)


def _number(exactly: Decimal) -> float:
    """As people write it: whole where it is."""
    if not exactly:
        return 0
    return int(exactly) if exactly == exactly.to_integral_value() else float(exactly)


def plain_usage(usage: object) -> dict[str, Any] | None:
    """What a planner counted, as far as it is counts: whole numbers, and a finite cost, none below zero."""
    if not isinstance(usage, Mapping):
        return None
    found: dict[str, Any] = {}
    for name, value in usage.items():
        whole = int(value) if isinstance(value, float) and value.is_integer() and name != "cost" else value
        if isinstance(name, str) and is_amount(name, whole):
            found[name] = whole
    return found or None


def is_amount(name: str, value: object) -> bool:
    """Whether this can be counted under this name."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
        return False
    return isinstance(value, int) or (name == "cost" and math.isfinite(value))


def _whole(counted: Mapping[str, Any], name: str) -> int | None:
    value = counted.get(name)
    return value if type(value) is int and value >= 0 else None


def _number_in(counted: Mapping[str, Any], name: str) -> float | None:
    value = counted.get(name)
    return value if is_amount(name, value) else None
