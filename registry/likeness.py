"""Whether a function can stand in for another: it takes what that one takes, and needs nothing else."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from typing import Any

from ..policies.errors import ToolRefused
from ..policies.text import did_you_mean
from .attempt import ToolContext
from .signatures import slot_of

__all__ = ["check_declared_stand_in", "check_stand_in"]


def check_stand_in(
    function: Callable[..., Any], what: str, name: str, arguments: Collection[str], secrets: Collection[str]
) -> None:
    """Raises `ToolRefused` where a stand-in does not take the arguments of the function, or needs others."""
    slot = slot_of(function, name, ToolContext)
    try:
        parameters = inspect.signature(function).parameters
    except ValueError as error:
        raise ToolRefused(
            f"{what} of tool {name!r} does not say what it takes; wrap it in a function"
        ) from error
    named = {n for n, p in parameters.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    open_ = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for argument in arguments:
        if argument not in named and not open_:
            said = f"{what} of tool {name!r} must take {argument!r}, as its function does"
            raise ToolRefused(said + did_you_mean(argument, named - {slot or ""}))
    for parameter in parameters.values():
        needed = parameter.default is parameter.empty and parameter.name in named
        if needed and parameter.name not in {*arguments, *secrets, slot}:
            guess = did_you_mean(parameter.name, arguments)
            raise ToolRefused(
                f"{what} of tool {name!r} needs {parameter.name!r}, which the tool does not have{guess}"
            )


def check_declared_stand_in(function: Callable[..., Any], what: str, name: str) -> None:
    """The same for a tool that gets its arguments as one dict: `(args)`, or `(args, context)`."""
    try:
        inspect.signature(function).bind(None)
    except ValueError:
        return  # it does not say what it takes
    except TypeError:
        try:
            inspect.signature(function).bind(None, None)
        except TypeError:
            raise ToolRefused(
                f"{what} of tool {name!r} takes its arguments as one dict, and a ToolContext if it likes"
            ) from None
