"""Frozen records of rules: what is wrong with one is said in sentences, with the nearest name where a name is unknown.

    Policies(aprove="always")       BadInput: Policies has no option 'aprove'; did you mean 'approve'?
    Budget(tool_calls=-1)           BadInput: Budget: 'tool_calls' is -1; it must be 0 or more

`troubles` says the same of a document that was read from a file, each with its place, for those who show it there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, RootModel, ValidationError

from .errors import BadInput
from .text import did_you_mean, nearest, shorten

__all__ = ["Frozen", "Trouble", "refusal", "troubles"]

_MOST = 3


class Frozen(BaseModel):
    """A record that cannot change and takes nothing extra; raises `BadInput` with sentences for what it cannot be."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def __init__(self, *unnamed: Any, **said: Any) -> None:
        if unnamed:
            raise _nameless(type(self), unnamed[0])
        try:
            super().__init__(**said)
        except ValidationError as error:
            raise refusal(error, type(self)) from None

    # A constructor of one's own would be called for nested records too, and pydantic would lose their places.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]


class Trouble(NamedTuple):
    """One thing that is wrong with a record: where, what sort of thing, and a phrase that begins with the place."""

    where: tuple[str | int, ...]
    kind: str
    message: str
    suggestion: str = ""


def _nameless(model: type[BaseModel], value: Any) -> BadInput:
    first = next(iter(model.model_fields))
    return BadInput(
        f"{model.__name__} takes its options by name: {model.__name__}({first}=...), not {_shown(value)} alone"
    )


def refusal(error: ValidationError, model: type[BaseModel], what: str = "") -> BadInput:
    """The sentence about everything that is wrong with a record, which is called `what`."""
    found = list(troubles(error, model))
    more = f"; and {len(found) - _MOST} more" if len(found) > _MOST else ""
    said = "; ".join(trouble.message for trouble in found[:_MOST]) + more
    return BadInput(f"{what or model.__name__}: {said}")


def troubles(error: ValidationError, model: type[BaseModel]) -> Iterator[Trouble]:
    """What is wrong, one by one; of the ways to read one value only the first that failed is told."""
    told: set[tuple[str | int, ...]] = set()
    for one in error.errors(include_url=False):
        where = _spot(model, one["loc"])
        if where not in told:
            told.add(where)
            yield _trouble(model, where, dict(one))


def _trouble(model: type[BaseModel], where: tuple[str | int, ...], error: Mapping[str, Any]) -> Trouble:
    spot = shorten(".".join(map(str, where)), 100)
    kind = error["type"]
    if kind == "extra_forbidden":
        known = list(_fields(model, where[:-1]))
        name = str(where[-1])
        guess = did_you_mean(name, known) or f"; there are {', '.join(known)}"
        near = nearest(name, known, most=1)
        message = f"there is no option {spot!r}{guess}"
        return Trouble(where, "unknown", message, f"write {near[0]}" if near else "")
    if kind == "missing":
        return Trouble(where, "missing", f"{spot!r} is missing")
    if kind == "value_error":
        words = error["ctx"]["error"] if "error" in error.get("ctx", {}) else error["msg"]
        return Trouble(where, "wrong", f"{spot!r}: {words}" if spot else str(words))
    is_ = f"{spot!r} is" if spot else "it is"
    return Trouble(where, "wrong", f"{is_} {_shown(error['input'])}; {_wanted(error)}")


def _shown(value: Any) -> str:
    return shorten(repr(value), 60)


def _wanted(error: Mapping[str, Any]) -> str:
    """What should stand there, in words of ours."""
    kind, limits = error["type"], error.get("ctx", {})
    if kind in ("literal_error", "enum"):
        return f"it must be {limits['expected']}"
    for name, words in _BOUNDS.items():
        if name in limits and kind.startswith(("greater", "less")):
            return f"it must be {words.format(limits[name])}"
    for beginning, words in _KINDS.items():
        if kind.startswith(beginning):
            return f"it must be {words}"
    return str(error["msg"][:1].lower() + error["msg"][1:])


_BOUNDS = {"ge": "{:g} or more", "gt": "above {:g}", "le": "at most {:g}", "lt": "below {:g}"}
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "finite_number": "a finite number",
    "bool": "true or false",
    "string": "text",
    "tuple": "a list",
    "list": "a list",
    "dict": "an object, names with values",
    "mapping": "an object, names with values",
    "model": "an object, options with values",
}


def _spot(model: type[BaseModel], loc: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """A place in the document: without the names of the ways in which pydantic tried to read a value."""
    where: list[str | int] = []
    kinds: list[Any] = [model]
    for part in loc:
        kinds = [inner for kind in kinds for inner in _inside(kind, part)]
        if not kinds and where:
            break
        where.append(part)
    return tuple(where)


def _inside(kind: Any, part: str | int) -> Iterator[Any]:
    """The types of what lies under this name or index in a value of this type; the name itself may be unknown."""
    origin = get_origin(kind)
    if origin is Annotated:
        yield from _inside(get_args(kind)[0], part)
    elif origin in (Union, UnionType):
        for one in get_args(kind):
            yield from _inside(one, part) if one is not NoneType else ()
    elif isinstance(kind, type) and issubclass(kind, RootModel):
        yield from _inside(kind.model_fields["root"].annotation, part)
    elif isinstance(kind, type) and issubclass(kind, BaseModel):
        field = kind.model_fields.get(str(part))
        yield field.annotation if field is not None else None
    elif origin in (dict, tuple, list):
        yield get_args(kind)[-1 if origin is dict else 0]


def _fields(model: type[BaseModel], where: tuple[str | int, ...]) -> list[str]:
    """The names of the options of the record that a place lies in."""
    kinds: list[Any] = [model]
    for part in where:
        kinds = [inner for kind in kinds for inner in _inside(kind, part)]
    records = [kind for kind in map(_record, kinds) if kind is not None]
    return [name for record in records for name in record.model_fields]


def _record(kind: Any) -> type[BaseModel] | None:
    for one in (kind, *get_args(kind)):
        if isinstance(one, type) and issubclass(one, BaseModel):
            return one
    return None
