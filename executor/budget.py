"""What one run may use up, reserved before a call starts and never counted afterwards only.

    a call            one tool call
    + model_calls     the most questions to a model that the tool says one attempt asks
    + tool_calls      the most calls that a sub-plan makes (or all that are left)

What a call holds beyond itself is given back when it ends, less what it really used. Who needs what others hold waits
for them; who needs what is used up stops the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..policies.policies import Budget
from ..registry.tools import Tool
from .events import Path
from .state import Sleep, State

__all__ = ["affordable", "left", "release", "reserve"]


class Left(NamedTuple):
    """What is left of each bound; None: there is no bound."""

    tool_calls: int | None
    model_calls: int | None


def left(state: State) -> Left:
    """What nobody has used or holds."""
    budget = state.policies.budget
    if budget.tool_calls is None and budget.model_calls is None:
        return _UNBOUNDED
    tools = None if budget.tool_calls is None else budget.tool_calls - state.tool_calls
    models = None if budget.model_calls is None else budget.model_calls - state.model_calls
    return Left(tools, models)


def affordable(state: State, tool: Tool, path: Path) -> bool:
    """Whether the next attempt of a call is within budget; if nothing can change that, the run stops."""
    short = "" if path in state.held else _short_of(state, tool)
    if short and not state.held:
        state.stopping, state.short = "budget", short
        for tag in [tag for tag, command in state.open.items() if isinstance(command, Sleep)]:
            del state.open[tag]
    return not short


def _short_of(state: State, tool: Tool) -> str:
    """What is used up that one attempt needs at least: itself, and one of each thing it uses."""
    tools, models = left(state)
    if tools is not None and tools < (1 if tool.tool_calls == 0 else 2):
        return f"{state.policies.budget.tool_calls} tool calls"
    if models is not None and models < 1 and tool.model_calls != 0:
        return f"{state.policies.budget.model_calls} model calls"
    return ""


def reserve(state: State, tool: Tool, path: Path) -> None:
    """Take what one attempt may use, if it does not hold it since before an interruption."""
    if path in state.held:
        return
    state.tool_calls += 1
    if tool.tool_calls == 0 and tool.model_calls == 0:
        return
    tools, models = left(state)
    held = Budget(tool_calls=_share(tool.tool_calls, tools), model_calls=_share(tool.model_calls, models))
    state.held[path] = held
    state.tool_calls += held.tool_calls or 0
    state.model_calls += held.model_calls or 0


def _share(wanted: int | None, remaining: int | None) -> int | None:
    """How much of what is left one attempt gets; None where neither it nor the run has a bound."""
    if wanted is None or remaining is None:
        return remaining if wanted is None else wanted
    return min(wanted, remaining)


def release(state: State, path: Path, usage: Mapping[str, int] | None) -> None:
    """An attempt has ended: what it did not use is free again. What it does not count is taken for used."""
    if usage is None and path not in state.held:
        return
    held = state.held.pop(path, _NOTHING)
    used = usage or {}
    tools, models = held.tool_calls or 0, held.model_calls or 0
    state.tool_calls += used.get("tool_calls", tools) - tools
    state.model_calls += used.get("model_calls", models) - models


_UNBOUNDED = Left(None, None)
_NOTHING = Budget(tool_calls=0, model_calls=0)
