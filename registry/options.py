"""The options of a tool, each checked when the tool is made: what is wrong is a `ToolRefused` with a sentence.

A check takes the value, the name of the tool (for the sentence) and the schema of what it takes, and gives the value as
the tool keeps it. An option that has no check here is no option.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Literal

from ..policies.effect import Effect
from ..policies.errors import SchemaRefused, ToolRefused
from ..policies.expressions import Expression, ExpressionError, parse, references
from ..policies.permissions import Level
from ..policies.text import did_you_mean, safe_text, shorten
from .schema import Schema, compile_schema
from .values import Json, Unserialisable, to_plain

__all__ = [
    "OPTIONS",
    "UNSET",
    "Unset",
    "check_options",
    "check_takes_object",
    "checked_name",
    "checked_schema",
]
__all__ += ["checked_text", "name_of", "secret_refs"]

LONGEST_DESCRIPTION = 8192
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_PERMISSION = re.compile(r"[A-Za-z0-9_-]+(?:[:.][A-Za-z0-9_-]+)*")
_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?")


class Unset(Enum):
    """Type of `UNSET`."""

    UNSET = "unset"


UNSET = Unset.UNSET
"""The timeout of a tool that states none: the policy's `tool_timeout` holds. None means that there is no bound."""


def name_of(function: Callable[..., Any]) -> str:
    called = function
    while isinstance(called, functools.partial):
        called = called.func
    name = getattr(called, "__name__", type(called).__name__)
    if name == "<lambda>":
        raise ToolRefused("a lambda has no name, no annotations and no docstring; write a function")
    return str(name)


def checked_name(name: object) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ToolRefused(
            f"{shorten(repr(name), 80)} cannot name a tool: letters, digits, '_', '.' and '-', at most 64, "
            "a letter or '_' first"
        )
    return name


def checked_text(text: object, what: str) -> str:
    if not isinstance(text, str):
        raise ToolRefused(f"{what} must be text, not {shorten(repr(text), 40)}")
    return safe_text(text.strip(), LONGEST_DESCRIPTION)


def checked_schema(document: Json, what: str, *, closed: bool = False) -> Schema:
    try:
        return compile_schema(document, closed=closed)
    except SchemaRefused as error:
        raise ToolRefused(f"{what} is refused: {error}") from error


def check_takes_object(schema: Schema, name: str) -> None:
    said = schema.document.get("type", "object") if isinstance(schema.document, dict) else None
    if said != "object":
        raise ToolRefused(f"the input schema of tool {name!r} must be of type object: arguments have names")


def _effect(effect: Any, name: str, takes: Schema) -> Effect:
    try:
        return Effect(effect)
    except ValueError as error:
        guess = did_you_mean(str(effect), [e.value for e in Effect])
        raise ToolRefused(
            f"tool {name!r} has effect {shorten(repr(effect), 40)}; there are reads, writes, acts{guess}"
        ) from error


def _timeout(timeout: object, name: str, takes: Schema) -> float | Unset | None:
    if timeout is None or timeout is UNSET:
        return timeout
    fine = isinstance(timeout, (int, float)) and not isinstance(timeout, bool) and 0 < timeout < math.inf
    if not fine:
        raise ToolRefused(
            f"the timeout of tool {name!r} is {shorten(repr(timeout), 40)}; "
            "it must be seconds above 0, or None for no bound"
        )
    return float(timeout)  # type: ignore[arg-type]


def _permissions(permissions: object, name: str, takes: Schema) -> tuple[str, ...]:
    given = (permissions,) if isinstance(permissions, str) else permissions
    if not isinstance(given, Iterable):
        raise ToolRefused(f"the permissions of tool {name!r} must be texts like 'crm:read'")
    found = tuple(given)
    for permission in found:
        if not isinstance(permission, str) or not _PERMISSION.fullmatch(permission):
            raise ToolRefused(
                f"tool {name!r} cannot need the permission {shorten(repr(permission), 40)}; "
                "name one thing, like 'crm:read', without wildcards"
            )
    return found


def _examples(examples: object, name: str, takes: Schema) -> tuple[dict[str, Json], ...]:
    if isinstance(examples, (str, Mapping)) or not isinstance(examples, Iterable):
        raise ToolRefused(f"the examples of tool {name!r} must be a list of arguments, each a dict")
    return tuple(
        _example(example, takes, f"example {n} of tool {name!r}") for n, example in enumerate(examples, 1)
    )


def _example(example: object, takes: Schema, what: str) -> dict[str, Json]:
    try:
        plain = to_plain(example)
    except Unserialisable as error:
        raise ToolRefused(f"{what} is no JSON: {error}") from error
    problems = takes.problems(plain)
    if problems:
        raise ToolRefused(f"{what} is not valid: {problems[0].pointer or 'it'} {problems[0].message}")
    return dict(plain)


def _soft_failure(text: object, name: str, takes: Schema) -> Expression | None:
    return None if text is None else _rule(text, f"the soft failure of tool {name!r}", "result")


def _rule(text: object, what: str, known: str) -> Expression:
    """An expression over one name."""
    if not isinstance(text, str):
        raise ToolRefused(f"{what} must be an expression as text, not {shorten(repr(text), 40)}")
    try:
        expression = parse(text)
    except ExpressionError as error:
        raise ToolRefused(f"{what} is no expression: {error}") from error
    strange = sorted(expression.names - {known})
    if strange:
        raise ToolRefused(f"{what} knows only {known!r}, not {strange[0]!r}")
    return expression


def _approval_need(need: object, name: str, takes: Schema) -> bool | Literal["each"] | Expression:
    if need is True or need is False:
        return need
    if need == "each":
        return "each"
    what = f"requires_approval of tool {name!r}"
    if not isinstance(need, str):
        said = f"{what} is {shorten(repr(need), 40)}; it is True, False, 'each', or an expression over `args`"
        raise ToolRefused(said)
    try:
        rule = _rule(need, what, "args")
        _check_arguments(rule, what, takes.document)
        return rule
    except ToolRefused as error:
        raise ToolRefused(
            f"{error}; write True, False, 'each', or an expression over `args` like 'args.amount > 100'"
        ) from error


def _check_arguments(rule: Expression, what: str, takes: Any) -> None:
    """Raises `ToolRefused` where a rule speaks of an argument that the tool does not take."""
    found = references(rule)
    if not found:
        raise ToolRefused(f"{what} looks at no argument, so it says the same of every call")
    for reference in found:
        _follow(takes, reference.path, what, "args")


def _follow(schema: Any, path: tuple[str | int | None, ...], what: str, at: str) -> None:
    """Follow a path into a schema, as far as that is a plain list of properties."""
    for key in path:
        known = schema.get("properties") if isinstance(schema, Mapping) else None
        open_ = not isinstance(known, Mapping) or schema.get("additionalProperties", False) is not False
        if not isinstance(key, str) or not isinstance(known, Mapping) or (open_ and key not in known):
            return
        if key not in known:
            guess = did_you_mean(key, known) or f"; there are {', '.join(map(repr, known)) or 'none'}"
            raise ToolRefused(f"{what} speaks of {at}.{shorten(key, 60)}, which is no argument{guess}")
        schema, at = known[key], f"{at}.{key}"


def _result_from(names: object, name: str, takes: Schema) -> tuple[str, ...]:
    given = (names,) if isinstance(names, str) else names
    if not isinstance(given, Iterable):
        raise ToolRefused(
            f"result_from of tool {name!r} must name an argument, not {shorten(repr(names), 40)}"
        )
    known, found = takes.document.get("properties", {}), tuple(given)
    for each in found:
        if each not in known:
            raise ToolRefused(
                f"tool {name!r} has no argument {shorten(repr(each), 40)} to take its result's type from"
                + did_you_mean(str(each), known)
            )
    return found


def _model_calls(most: object, name: str, takes: Schema) -> int | None:
    if most is None:
        return None
    if isinstance(most, bool) or not isinstance(most, int) or most < 0:
        raise ToolRefused(
            f"model_calls of tool {name!r} is {shorten(repr(most), 40)}; it is a number from 0, or None"
        )
    return most


def _words(words: object, name: str, takes: Schema) -> tuple[str, ...]:
    given = (words,) if isinstance(words, str) else words
    found = tuple(given) if isinstance(given, Iterable) else (None,)
    for word in found:
        if not isinstance(word, str) or not word.strip():
            raise ToolRefused(f"the tags of tool {name!r} must be words, not {shorten(repr(word), 40)}")
    return tuple(safe_text(word.strip(), 64) for word in found)


def _level(level: Any, name: str, takes: Schema) -> Level:
    try:
        return Level(level)
    except ValueError as error:
        known = [each.value for each in Level]
        said = f"tool {name!r} has level {shorten(repr(level), 40)}; there are {', '.join(known)}"
        raise ToolRefused(said + did_you_mean(str(level), known)) from error


def _cost(cost: object, name: str, takes: Schema) -> float:
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost < math.inf:
        raise ToolRefused(f"the cost of tool {name!r} is {shorten(repr(cost), 40)}; it is a number from 0")
    return float(cost)


def _host(host: object, name: str, takes: Schema) -> str:
    if host == "":
        return ""
    if not isinstance(host, str) or not _HOST.fullmatch(host.lower()):
        raise ToolRefused(
            f"the host of tool {name!r} is {shorten(repr(host), 60)}; it is a name like 'api.example.com', without scheme or path"
        )
    return host.lower()


def secret_refs(refs: object, name: str, takes: Schema | None = None) -> dict[str, str]:
    if refs is None:
        return {}
    if not isinstance(refs, Mapping):
        raise ToolRefused(
            f"secret_refs of tool {name!r} must say which parameter gets which secret, like {{'token': 'CRM_TOKEN'}}"
        )
    for parameter, ref in refs.items():
        if not isinstance(parameter, str) or not isinstance(ref, str) or not ref:
            raise ToolRefused(f"secret_refs of tool {name!r} must name a secret for {parameter!r} as text")
    return dict(refs)


def _function(what: str) -> Callable[[Any, str, Schema], Any]:
    def check(function: object, name: str, takes: Schema) -> Any:
        if function is not None and not callable(function):
            raise ToolRefused(
                f"{what} of tool {name!r} must be a function, not {shorten(repr(function), 40)}"
            )
        return function

    return check


def _undo(undo: object, name: str, takes: Schema) -> str:
    return "" if undo == "" else checked_name(undo)


def _labelled(what: str) -> Callable[[Any, str, Schema], str]:
    return lambda text, name, takes: checked_text(text, f"the {what} of tool {name!r}")


OPTIONS: dict[str, Callable[[Any, str, Schema], Any]] = {
    "cost": _cost,
    "effect": _effect,
    "examples": _examples,
    "host": _host,
    "level": _level,
    "model_calls": _model_calls,
    "permissions": _permissions,
    "reconcile": _function("reconcile"),
    "requires_approval": _approval_need,
    "result_from": _result_from,
    "secret_refs": secret_refs,
    "simulate": _function("simulate"),
    "soft_failure": _soft_failure,
    "tags": _words,
    "timeout": _timeout,
    "title": _labelled("title"),
    "undo": _undo,
    "version": _labelled("version"),
}
"""What a tool may say besides its name, its description and its schemas, with the check of each."""


def check_options(options: Iterable[str]) -> None:
    """Raises `ToolRefused` for what is no option, with the nearest that is."""
    for option in options:
        if option not in OPTIONS and option != "description":
            known = {*OPTIONS, "description", "name"}
            guess = did_you_mean(option, known) or f"; there are {', '.join(sorted(known))}"
            raise ToolRefused(f"a tool has no option {option!r}{guess}")
