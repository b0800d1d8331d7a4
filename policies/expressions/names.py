"""Which names an expression reads from outside, where it reads them, and what else they may be called.

A name is free unless a `for` of a comprehension or the parameter of a `lambda` around it binds it. Each `for` sees what
the ones before it bind; its own list does not see it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from .errors import ExpressionError
from .functions import FUNCTIONS
from .grammar import KEYWORDS
from .slips import FOREIGN_NAMES

__all__ = [
    "RESERVED",
    "Occurrence",
    "Reference",
    "free_names",
    "occurrences",
    "references_in",
    "renamed",
    "valid_id",
]

RESERVED = frozenset({"inputs", "run", "item", "index", "result", "steps", "undefined", *FOREIGN_NAMES})
"""Names that no step may have: they mean something of their own, or mean nothing and are often written by mistake."""

_ID = re.compile(r"[a-z][a-z0-9_]*")


def valid_id(text: str) -> bool:
    """Whether a step may be called so: `[a-z][a-z0-9_]*`, no keyword, function or reserved name."""
    taken = text in KEYWORDS or text in FUNCTIONS or text in RESERVED
    return not taken and len(text) <= 64 and _ID.fullmatch(text) is not None


class Occurrence(NamedTuple):
    """One place where a name is read (`binder` None: from outside) or bound (`node` is its own binder)."""

    name: str
    node: ast.Name | ast.arg
    binder: ast.Name | ast.arg | None


class Reference(NamedTuple):
    """One thing that is read from outside: a name and the steps of the path behind it.

    A step is a key, an index, or None for an index or key that is known only when evaluated. `optional` is true where
    `.get` asks for the last key. `offset` and `end` are the place in the text.
    """

    name: str
    path: tuple[str | int | None, ...]
    offset: int
    end: int
    optional: bool = False


_Scope = Mapping[str, ast.Name | ast.arg]


def occurrences(tree: ast.AST) -> list[Occurrence]:
    """Every name of a tree, read or bound, in no order that matters."""
    found: list[Occurrence] = []
    _collect(tree, {}, found)
    return found


_LOOPS = frozenset({ast.ListComp, ast.GeneratorExp, ast.DictComp})
_NAMELESS = frozenset({ast.Constant, ast.Load})


def _collect(node: Any, scope: _Scope, found: list[Occurrence]) -> None:
    """Add the names of a node; not a generator, for a check of 10,000 expressions asks here 200,000 times."""
    while type(node) is ast.Attribute:
        node = node.value
    kind = type(node)
    if kind is ast.Name:
        found.append(Occurrence(node.id, node, scope.get(node.id)))
    elif kind in _LOOPS:
        _collect_loop(node, scope, found)
    elif kind is ast.Lambda:
        parameter = node.args.args[0]
        found.append(Occurrence(parameter.arg, parameter, parameter))
        _collect(node.body, {**scope, parameter.arg: parameter}, found)
    elif kind not in _NAMELESS:
        called = kind is ast.Call and type(node.func) is ast.Name
        parts = [*node.args, *node.keywords] if called else ast.iter_child_nodes(node)
        for part in parts:
            _collect(part, scope, found)


def _collect_loop(
    node: ast.ListComp | ast.GeneratorExp | ast.DictComp, scope: _Scope, found: list[Occurrence]
) -> None:
    for generator in node.generators:
        _collect(generator.iter, scope, found)
        targets = _targets(generator.target)
        found.extend(Occurrence(target.id, target, target) for target in targets)
        scope = {**scope, **{target.id: target for target in targets}}
        for test in generator.ifs:
            _collect(test, scope, found)
    for part in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
        _collect(part, scope, found)


def _targets(target: ast.expr) -> list[ast.Name]:
    if isinstance(target, ast.Name):
        return [target]
    return [node for node in ast.walk(target) if isinstance(node, ast.Name)]


def free_names(tree: ast.expr) -> frozenset[str]:
    """The names read from outside. Raises `ExpressionError` where a function stands for a value."""
    free = {o.name: o.node for o in occurrences(tree) if o.binder is None}
    for name, node in free.items():
        if name in FUNCTIONS and name != "index":
            raise ExpressionError(
                "syntax",
                f"{name!r} is a function; it is called or not there",
                node.col_offset,
                FUNCTIONS[name].signature,
            )
    return frozenset(free)


# -- renaming


def renamed(text: str, tree: ast.expr, mapping: Mapping[str, str]) -> str:
    """The text with free names replaced. A bound name in the way of a new one steps aside."""
    found = occurrences(tree)
    free = {o.name for o in found if o.binder is None}
    new = {mapping[name] for name in free if name in mapping}
    aside = _aside(
        {o.name for o in found if o.binder is not None} & new, {o.name for o in found} | set(mapping.values())
    )
    edits = [(o.node.col_offset, o.name, (mapping if o.binder is None else aside).get(o.name)) for o in found]
    for offset, old, name in sorted(edits, reverse=True):
        if name is not None:
            text = text[:offset] + name + text[offset + len(old) :]
    return text


def _aside(clashing: set[str], taken: set[str]) -> dict[str, str]:
    chosen: dict[str, str] = {}
    for name in sorted(clashing):
        n = 2
        while f"{name}_{n}" in taken:
            n += 1
        chosen[name] = f"{name}_{n}"
    return chosen


# -- references

_Path = tuple[str, tuple[str | int | None, ...]]
_Known = Mapping[str, _Path | None]
_SAME_ELEMENTS = frozenset({"sorted", "reversed", "unique"})
_ONE_ELEMENT = frozenset({"first", "min", "max"})


def references_in(tree: ast.expr) -> tuple[Reference, ...]:
    """Everything read from outside, each as far as its path goes; names bound to elements of a list are followed.

    `[r.x for r in a.rows]` reads `a.rows` and `a.rows[?].x`.
    """
    return tuple(_references(tree, {}))


def _references(node: ast.AST, known: _Known) -> Iterator[Reference]:
    match node:
        case ast.Name() | ast.Attribute() | ast.Subscript():
            yield from _whole_path(node, known)
        case ast.Call(
            func=ast.Attribute(value=value, attr="get"), args=[ast.Constant(value=str(key)), *rest]
        ):
            yield from _optional(node, value, key, known)
            for part in [*rest, *node.keywords]:
                yield from _references(part, known)
        case ast.Call():
            yield from _call(node, known)
        case ast.ListComp() | ast.GeneratorExp() | ast.DictComp():
            yield from _loops(node, known)
        case _:
            for child in ast.iter_child_nodes(node):
                yield from _references(child, known)


def _whole_path(node: ast.Name | ast.Attribute | ast.Subscript, known: _Known) -> Iterator[Reference]:
    path = _path(node, known)
    if path is not None and node.end_col_offset is not None:
        yield Reference(*path, node.col_offset, node.end_col_offset)
    if isinstance(node, ast.Subscript):
        yield from _references(node.slice, known)
    if not isinstance(node, ast.Name):
        yield from _references(node.value, known) if path is None else _inside(node.value, known)


def _inside(node: ast.expr, known: _Known) -> Iterator[Reference]:
    """References in the indices of a path, and in the call that it starts with, if it does."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Subscript):
            yield from _references(node.slice, known)
        node = node.value
    if not isinstance(node, ast.Name):
        yield from _references(node, known)


def _optional(node: ast.Call, value: ast.expr, key: str, known: _Known) -> Iterator[Reference]:
    path = _path(value, known)
    if path is None or node.end_col_offset is None:
        yield from _references(value, known)
        return
    yield Reference(path[0], (*path[1], key), node.col_offset, node.end_col_offset, optional=True)
    yield from _inside(value, known)


def _call(node: ast.Call, known: _Known) -> Iterator[Reference]:
    if isinstance(node.func, ast.Attribute):
        yield from _references(node.func.value, known)
    for argument in node.args:
        yield from _references(argument, known)
    element = _element(node.args[0], known) if node.args else None
    for option in node.keywords:
        if isinstance(option.value, ast.Lambda):
            yield from _references(option.value.body, {**known, option.value.args.args[0].arg: element})
        else:
            yield from _references(option.value, known)


def _loops(node: ast.ListComp | ast.GeneratorExp | ast.DictComp, known: _Known) -> Iterator[Reference]:
    for generator in node.generators:
        yield from _references(generator.iter, known)
        known = _bound(generator, known)
        for test in generator.ifs:
            yield from _references(test, known)
    parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
    for part in parts:
        yield from _references(part, known)


def _bound(generator: ast.comprehension, known: _Known) -> _Known:
    target, source = generator.target, generator.iter
    new: dict[str, _Path | None] = {**known, **{t.id: None for t in _targets(target)}}
    if isinstance(target, ast.Name):
        new[target.id] = _element(source, known)
    elif isinstance(target, ast.Tuple):
        for part, path in zip(target.elts, _row(source, len(target.elts), known), strict=True):
            if isinstance(part, ast.Name):
                new[part.id] = path
    return new


def _row(source: ast.expr, width: int, known: _Known) -> list[_Path | None]:
    """The paths of the parts of each element, where a comprehension takes it apart."""
    match source:
        case ast.Call(func=ast.Name(id="enumerate"), args=[values, *_]) if width == 2:
            return [None, _element(values, known)]
        case ast.Call(func=ast.Attribute(value=value, attr="items"), args=[]) if width == 2:
            return [None, _deeper(_path(value, known), None)]
        case ast.Call(func=ast.Name(id="zip"), args=values) if len(values) == width:
            return [_element(value, known) for value in values]
    element = _element(source, known)
    return [_deeper(element, n) for n in range(width)]


def _element(node: ast.expr, known: _Known) -> _Path | None:
    """The path of each element of a list."""
    match node:
        case ast.Subscript(value=value, slice=ast.Slice()):
            return _element(value, known)
        case ast.Call(func=ast.Name(id=name), args=[values, *_]) if name in _SAME_ELEMENTS:
            return _element(values, known)
        case ast.Call(func=ast.Attribute(value=value, attr="values"), args=[]):
            return _deeper(_path(value, known), None)
        case (
            ast.ListComp(elt=element, generators=generators)
            | ast.GeneratorExp(elt=element, generators=generators)
        ):
            for generator in generators:
                known = _bound(generator, known)
            return _path(element, known)
    return _deeper(_path(node, known), None)


def _path(node: ast.expr, known: _Known) -> _Path | None:
    match node:
        case ast.Name(id=name):
            return known.get(name, (name, ()))
        case ast.Attribute(value=value, attr=key):
            return _deeper(_path(value, known), key)
        case ast.Subscript(slice=ast.Slice()):
            return None
        case ast.Subscript(value=value, slice=index):
            return _deeper(_path(value, known), _step(index))
        case ast.Call(func=ast.Name(id=name), args=[values, *_]) if (
            name in _ONE_ELEMENT and len(node.args) == 1
        ):
            return _element(values, known)
    return None


def _step(index: ast.expr) -> str | int | None:
    match index:
        case ast.Constant(value=str() | int() as value) if type(value) is not bool:
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as value)) if (
            type(value) is not bool
        ):
            return -value
    return None


def _deeper(path: _Path | None, step: str | int | None) -> _Path | None:
    return None if path is None else (path[0], (*path[1], step))
