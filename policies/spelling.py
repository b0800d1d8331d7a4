"""Arguments that a function does not take: the sentence names the function, and the argument that was meant.

    engine.run_blocking(plan, input={})     BadInput: run_blocking has no option 'input'; did you mean 'inputs'?
    Engine()                                BadInput: Engine needs 'registry'

Nothing is looked at unless Python itself refuses the call, so a call that is right costs nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import wraps
from typing import Any, TypeVar

from .errors import BadInput
from .text import count, did_you_mean

__all__ = ["no_option", "spelled", "spelled_where"]

_T = TypeVar("_T")


def spelled(target: _T) -> _T:
    """The function, or the class with its constructor and public methods (inherited ones too), that says `BadInput` for what it does not take."""
    return spelled_where({})(target)


def spelled_where(elsewhere: Mapping[str, str]) -> Callable[[_T], _T]:
    """`spelled`, which knows of some options that they stand `elsewhere`, and how they are written there."""

    def decorated(target: _T) -> _T:
        if not isinstance(target, type):
            return _spelled(target, elsewhere)  # type: ignore[arg-type, return-value]
        for name, function in inspect.getmembers(target, inspect.isfunction):
            is_method = inspect.isfunction(inspect.getattr_static(target, name))  # and no staticmethod
            if is_method and (name == "__init__" or not name.startswith("_")):
                setattr(target, name, _spelled(function, elsewhere if name == "__init__" else {}))
        return target

    return decorated


def _spelled(function: Callable[..., Any], elsewhere: Mapping[str, str]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(function):
        return _awaited(function)

    @wraps(function)
    def called(*given: Any, **named: Any) -> Any:
        try:
            return function(*given, **named)
        except TypeError:
            _expect_to_fit(function, given, named, elsewhere)
            raise

    return called


def _awaited(function: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    @wraps(function)
    async def called(*given: Any, **named: Any) -> Any:
        try:
            return await function(*given, **named)
        except TypeError:
            _expect_to_fit(function, given, named, {})
            raise

    return called


def _expect_to_fit(
    function: Callable[..., Any],
    given: tuple[Any, ...],
    named: Mapping[str, Any],
    elsewhere: Mapping[str, str],
) -> None:
    """Raises `BadInput` where these arguments are none of the function's."""
    signature = inspect.signature(function)
    try:
        signature.bind(*given, **named)
    except TypeError:
        raise _refusal(function, signature, given, named, elsewhere) from None


def _refusal(
    function: Callable[..., Any],
    signature: inspect.Signature,
    given: tuple[Any, ...],
    named: Mapping[str, Any],
    elsewhere: Mapping[str, str],
) -> BadInput:
    parameters = {name: p for name, p in signature.parameters.items() if name != "self"}
    *_, owner, name = f".{function.__qualname__}".split(".")
    called = owner if name == "__init__" else name
    for word in named:
        if word not in parameters:
            return no_option(called, word, parameters, elsewhere)
    places = [n for n, p in parameters.items() if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    handed = len(given) - ("self" in signature.parameters)
    if handed > len(places):
        return BadInput(
            f"{called} takes {count(len(places), 'argument')} by place, not {handed}; name the others"
        )
    twice = [n for n in places[:handed] if n in named]
    if twice:
        return BadInput(f"{called} is given {twice[0]!r} twice, by place and by name")
    missing = [n for n, p in parameters.items() if p.default is inspect.Parameter.empty and n not in named]
    return BadInput(f"{called} needs {', '.join(repr(n) for n in missing if n not in places[:handed])}")


def no_option(called: str, word: str, known: Iterable[str], elsewhere: Mapping[str, str]) -> BadInput:
    """What is called has no option of this name: the nearest one, or where it stands `elsewhere`, or all there are."""
    names = list(known)
    guess = f"; write {elsewhere[word]}" if word in elsewhere else did_you_mean(word, names)
    return BadInput(f"{called} has no option {word!r}{guess or '; there are ' + ', '.join(sorted(names))}")
