"""Values of a run as Python objects while a plan is written: what is done to them becomes an expression.

    payments.rows[0].amount > inputs.limit        Ref("payments.rows[0].amount > inputs.limit")
    keep(payments.rows, lambda p: p.amount > 50)  Ref("[p for p in payments.rows if p.amount > 50]")

A reference is *typed* as the value that it will have: where a tool returns a `Ledger`, a type checker takes its result
for a `Ledger`, and sees a misspelt field or an argument of the wrong type. What Python would have to decide now (`if`,
`len`, a loop, `and`, `not`, `is`, an f-string) cannot be an expression; it raises, and names what can.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import string
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from typing import Any, Generic, NamedTuple, NoReturn, TypeAlias, TypeVar, cast, overload

from ..policies.errors import BadInput
from ..policies.expressions import FUNCTIONS, METHODS, parse, valid_id
from ..registry.values import to_plain

__all__ = [
    "Ref",
    "both",
    "call",
    "collect",
    "contains",
    "either",
    "expression",
    "is_none",
    "keep",
    "length",
    "no",
    "template",
    "text",
]

Json: TypeAlias = Any
T = TypeVar("T")
V = TypeVar("V")

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Said(NamedTuple):
    """A text, the steps and inputs it reads, and whether it can stand in a larger one without parentheses."""

    text: str
    roots: frozenset[str]
    tight: bool


class Ref(Generic[T]):
    """A value of the run, by the text of its expression. It has no names of its own: all are those of the value."""

    __slots__ = ("_said",)

    def __init__(self, expression: str, roots: frozenset[str] = frozenset(), *, tight: bool = False) -> None:
        self._said = Said(expression, roots, tight)

    def __repr__(self) -> str:
        return f"<Ref {self._said.text}>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Ref(f"{_operand(self)[0]}.{name}", self._said.roots, tight=True)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str) and _NAME.fullmatch(key) and not key.startswith("__"):
            return Ref(f"{_operand(self)[0]}.{key}", self._said.roots, tight=True)
        if isinstance(key, slice):
            ends = [end for end in (key.start, key.stop) if end is not None]
            form = ":".join("" if end is None else "{}" for end in (key.start, key.stop))
            return _made(f"{{}}[{form}]", self, *ends)
        return _made("{}[{}]", self, key)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """A method of the expression language."""
        said, roots, _ = self._said
        if said.rpartition(".")[2] not in METHODS:
            raise BadInput(f"{said!r} is no method of expressions; they have {', '.join(METHODS)}")
        return _applied(said, roots, args, named)

    def __add__(self, other: Any) -> Any:
        return _made("{} + {}", self, other)

    def __radd__(self, other: Any) -> Any:
        return _made("{} + {}", other, self)

    def __sub__(self, other: Any) -> Any:
        return _made("{} - {}", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _made("{} - {}", other, self)

    def __mul__(self, other: Any) -> Any:
        return _made("{} * {}", self, other)

    def __rmul__(self, other: Any) -> Any:
        return _made("{} * {}", other, self)

    def __truediv__(self, other: Any) -> Any:
        return _made("{} / {}", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _made("{} / {}", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return _made("{} // {}", self, other)

    def __mod__(self, other: Any) -> Any:
        return _made("{} % {}", self, other)

    def __neg__(self) -> Any:
        return _made("-{}", self)

    def __lt__(self, other: Any) -> Any:
        return _made("{} < {}", self, other)

    def __le__(self, other: Any) -> Any:
        return _made("{} <= {}", self, other)

    def __gt__(self, other: Any) -> Any:
        return _made("{} > {}", self, other)

    def __ge__(self, other: Any) -> Any:
        return _made("{} >= {}", self, other)

    def __eq__(self, other: object) -> Any:
        return _made("{} == {}", self, other)

    def __ne__(self, other: object) -> Any:
        return _made("{} != {}", self, other)

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> NoReturn:
        _refuse(self, "is true or false only in the run; use when=, both(), either(), no() or is_none()")

    def __len__(self) -> NoReturn:
        _refuse(self, "has a length only in the run; use length()")

    def __iter__(self) -> NoReturn:
        _refuse(self, "has items only in the run; use each(), collect() or keep()")

    def __contains__(self, item: object) -> NoReturn:
        _refuse(self, "has items only in the run; use contains()")

    def __str__(self) -> NoReturn:
        _refuse(self, "has a text only in the run; use text()")

    def __format__(self, spec: str) -> NoReturn:
        _refuse(self, "has a text only in the run; use text()")


def _refuse(ref: Ref[Any], why: str) -> NoReturn:
    raise BadInput(f"{ref._said.text!r} {why}")


# ---- functions -----------------------------------------------------------------------------------------------------


@overload
def expression(source: str) -> Any: ...


@overload
def expression(source: str, kind: type[T]) -> T: ...


def expression(source: str, kind: Any = None) -> Any:
    """Any expression, as text that names steps by their ids; `kind` is what a type checker is to take it for."""
    return Ref(source, parse(source).names)


def length(items: Sized) -> int:
    """How many."""
    return cast(int, call("len", items))


def is_none(value: object) -> bool:
    """Whether it is null."""
    return cast(bool, _made("{} is None", value))


def no(condition: object) -> bool:
    """Not."""
    return cast(bool, _made("not {}", condition))


def both(*conditions: object) -> bool:
    """And."""
    return cast(bool, _made(" and ".join(["{}"] * len(conditions)), *conditions))


def either(*conditions: object) -> bool:
    """Or."""
    return cast(bool, _made(" or ".join(["{}"] * len(conditions)), *conditions))


def contains(items: object, item: object) -> bool:
    """Whether an item is in a list, a key in an object, a text in a text."""
    return cast(bool, _made("{} in {}", item, items))


def keep(items: Iterable[T], condition: Callable[[T], object]) -> list[T]:
    """The items for which the condition holds."""
    name, body, roots = _body(condition)
    source = _operand(items)
    return cast(
        "list[T]", Ref(f"[{name} for {name} in {source[0]} if {body}]", roots | source[1], tight=True)
    )


def collect(items: Iterable[T], make: Callable[[T], V]) -> list[V]:
    """What is made of each item."""
    name, body, roots = _body(make)
    source = _operand(items)
    return cast("list[V]", Ref(f"[{body} for {name} in {source[0]}]", roots | source[1], tight=True))


def text(form: str, **values: object) -> str:
    """A text with values in it: `text("{n} of {all}", n=length(done), all=length(rows))`; each may have a format."""
    roots: frozenset[str] = frozenset()
    out = ""
    for literal, name, spec in _pieces(form):
        out += literal.translate(_ESCAPES)
        if name is not None:
            if name not in values:
                raise BadInput(f"the text names {name!r}, which it is not given")
            value, more = _operand(values[name])
            roots |= more
            out += (
                "{" + (f"({value})" if value.startswith("{") else value) + (f":{spec}" if spec else "") + "}"
            )
    return cast(str, _checked(Ref(f"f{_quoted(out)}", roots, tight=True)))


_ESCAPES = str.maketrans({"{": "{{", "}": "}}", "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"})


def call(function: str, *args: object, **named: object) -> Any:
    """A function of the expression language: `call("sorted", rows, key=lambda r: r.day)`."""
    if function not in FUNCTIONS:
        raise BadInput(f"expressions have no function {function!r}; there are {', '.join(FUNCTIONS)}")
    return _applied(function, frozenset(), args, named)


def template(value: object) -> Json:
    """A value with references in it as a template of the plan document. Raises `BadInput` for what JSON cannot say."""
    if isinstance(value, Ref):
        return {"$": _checked(value)._said.text}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: template(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        plain = {str(key): template(part) for key, part in value.items()}
        return {"$literal": to_plain(value)} if plain.keys() & {"$", "$literal"} else plain
    if isinstance(value, (list, tuple)):
        return [template(part) for part in value]
    return to_plain(value)


# ---- text ----------------------------------------------------------------------------------------------------------


def _checked(ref: Ref[Any]) -> Ref[Any]:
    """The reference, if it is an expression: what Python allows and the language does not shows where it is written."""
    parse(ref._said.text)
    return ref


def _part(value: object) -> Said:
    """The text of a value inside an expression, what it reads, and whether it is tight."""
    if isinstance(value, Ref):
        return value._said
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _part({f.name: getattr(value, f.name) for f in dataclasses.fields(value)})
    if isinstance(value, Mapping):
        pairs = [(repr(str(key)), _part(part)) for key, part in value.items()]
        inside = ", ".join(f"{key}: {part.text}" for key, part in pairs)
        return Said(f"{{{inside}}}", frozenset().union(*(part.roots for _, part in pairs)), True)
    if isinstance(value, (list, tuple)):
        parts = [_part(item) for item in value]
        inside = ", ".join(part.text for part in parts)
        return Said(f"[{inside}]", frozenset().union(*(part.roots for part in parts)), True)
    plain = to_plain(value)
    return _part(plain) if isinstance(plain, (dict, list)) else Said(repr(plain), frozenset(), True)


def _operand(value: object) -> tuple[str, frozenset[str]]:
    said, roots, tight = _part(value)
    return (said if tight else f"({said})"), roots


def _made(form: str, *operands: object) -> Any:
    parts = [_operand(value) for value in operands]
    roots: frozenset[str] = frozenset().union(*(p[1] for p in parts))
    return Ref(form.format(*(p[0] for p in parts)), roots, tight=form.startswith("{}["))


def _applied(
    function: str, roots: frozenset[str], args: Sequence[object], named: Mapping[str, object]
) -> Any:
    said: list[str] = []
    for name, value in [*(("", a) for a in args), *named.items()]:
        if callable(value) and not isinstance(value, Ref):
            parameter, body, more = _body(value)
            inside = f"lambda {parameter}: {body}"
        else:
            inside, more, _ = _part(value)
        roots |= more
        said.append(f"{name}={inside}" if name else inside)
    return Ref(f"{function}({', '.join(said)})", roots, tight=True)


def _body(function: Callable[[Any], object]) -> tuple[str, str, frozenset[str]]:
    """The parameter of a Python function, and what it makes of it, as text.

    The parameter keeps its name, unless something outside that the function reads is called so too.
    """
    first = next(iter(inspect.signature(function).parameters), "x")
    name = base = first if valid_id(first) else f"{first.strip('_').lower()}_x".lstrip("_")
    n = 2
    while True:
        body, roots = _operand(function(Ref(name, tight=True)))
        if name not in roots:
            return name, body, roots
        name, n = f"{base}_{n}", n + 1


def _pieces(form: str) -> list[tuple[str, str | None, str]]:
    try:
        return [(literal, name, spec or "") for literal, name, spec, _ in string.Formatter().parse(form)]
    except ValueError as error:
        raise BadInput(f"the text {form!r} cannot be read: {error}") from error


def _quoted(inside: str) -> str:
    """Quotes around the inside of an f-string that are not in it."""
    for quote in ("'", '"', "'''", '"""'):
        if quote not in inside and not inside.endswith(quote[0]):
            return f"{quote}{inside}{quote}"
    raise BadInput("the text holds every kind of quote; join it with + and call('str', …)")
