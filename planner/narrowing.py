"""What a condition says of the values it asks about, where it holds and where it does not.

    x is not None    x != 'a'    x in ['a', 'b']    'key' in x    x    not …    … and …    … or …

    path   ("x", "y", 0) for x.y[0]: the values that are followed
    facts  path -> the type of that value, narrower than without the condition

A fact with an empty type says that this place is never reached.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import reduce
from typing import TypeAlias

from .types import ANY, NEVER, Type, join, meet, type_of_value

__all__ = ["Facts", "Path", "facts_of", "falsy", "path_of", "stepped", "truthy"]

Path: TypeAlias = tuple[str | int, ...]
Facts: TypeAlias = Mapping[Path, Type]
Look: TypeAlias = Callable[[Path], Type]

_MANY = 200
"""Of objects with more fields it is not noted which of them they are known to have."""
_FALSE = frozenset({b"false", b"0", b'""', b"null"})


def path_of(node: ast.expr) -> Path | None:
    """The path that a node reads: a name, and constant keys and indices behind it."""
    match node:
        case ast.Name(id=name):
            return (name,)
        case (
            ast.Attribute(value=value, attr=key)
            | ast.Subscript(value=value, slice=ast.Constant(value=str(key)))
        ):
            before = path_of(value)
            return (*before, key) if before else None
        case ast.Subscript(value=value, slice=ast.Constant(value=int(place))) if place is not True:
            before = path_of(value)
            return (*before, place) if before else None
    return None


def stepped(found: Type, step: str | int) -> Type:
    """What a value holds under a key or in a place; ANY where that is not known."""
    if isinstance(step, str):
        return found.field(step) or ANY if found.has("object") else ANY
    return found.at(step) if found.kinds <= {"array", "null"} else ANY


def truthy(found: Type) -> Type:
    """Those of its values that a condition takes for true."""
    kinds = found.kinds - {"null"}
    if found.values is None:
        return replace(found, kinds=kinds, least=max(found.least, 1))
    values = found.values - _FALSE
    return _with(replace(found, kinds=kinds, least=max(found.least, 1)), values)


def falsy(found: Type) -> Type:
    """Those of its values that a condition takes for false."""
    gone = {"array"} if found.least else set()
    if found.required:
        gone.add("object")
    values = _FALSE if found.values is None else found.values & _FALSE
    return _with(replace(found, kinds=found.kinds - gone - {"fraction"}), values)


def _with(found: Type, values: frozenset[bytes]) -> Type:
    """The type with these scalars only; kinds of which none is left are gone."""
    kinds = {_KIND_BY_SIGN.get(value[:1], "number") for value in values}
    left = {k for k in found.kinds if k in ("array", "object") or k in kinds}
    left |= found.kinds & {"integer", "fraction"} if "number" in kinds else set()
    return replace(found, kinds=frozenset(left), values=values)


_KIND_BY_SIGN = {b'"': "string", b"t": "boolean", b"f": "boolean", b"n": "null"}


def facts_of(test: ast.expr, look: Look, *, holds: bool) -> Facts:
    """What is known where a condition holds, or where it does not. `look` gives the type of a path without it."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return facts_of(operand, look, holds=not holds)
        case ast.BoolOp(op=op, values=values) if isinstance(op, ast.And) is holds:
            return _all(values, look, holds)
        case ast.BoolOp(values=values):
            return _either([facts_of(value, look, holds=holds) for value in values])
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _compared(left, op, right, look, holds)
    path = path_of(test)
    if path is not None:
        return {path: truthy(look(path)) if holds else falsy(look(path))}
    asked = _asked(test)
    return {asked: truthy(look(asked))} if asked is not None and holds else {}


def _all(values: Iterable[ast.expr], look: Look, holds: bool) -> Facts:
    """All of these hold: each is asked with what the ones before it say."""
    known: dict[Path, Type] = {}

    def informed(path: Path) -> Type:
        return known.get(path) or look(path)

    for value in values:
        known.update(facts_of(value, informed, holds=holds))
    return known


def _either(alternatives: list[Facts]) -> Facts:
    """One of these is so: of a path that all of them speak of, what any of them says."""
    first, *others = alternatives
    shared = [path for path in first if all(path in other for other in others)]
    return {path: reduce(join, (facts[path] for facts in alternatives)) for path in shared}


def _compared(left: ast.expr, op: ast.cmpop, right: ast.expr, look: Look, holds: bool) -> Facts:
    if isinstance(op, ast.NotEq | ast.IsNot | ast.NotIn):
        holds = not holds
    if isinstance(op, ast.In | ast.NotIn):
        return _contained(left, right, look, holds)
    if not isinstance(op, ast.Eq | ast.NotEq | ast.Is | ast.IsNot):
        return {}
    if isinstance(left, ast.Constant):
        left, right = right, left
    constants = _constants([right])
    path = path_of(left)
    if path is None and constants == (None,) and not holds:
        path = _asked(left)
    return {} if path is None or constants is None else {path: _among(look(path), constants, holds)}


def _contained(item: ast.expr, container: ast.expr, look: Look, holds: bool) -> Facts:
    path, place = path_of(item), path_of(container)
    if path is not None and isinstance(container, ast.List | ast.Tuple):
        constants = _constants(container.elts)
        return {} if constants is None else {path: _among(look(path), constants, holds)}
    if place is not None and isinstance(item, ast.Constant) and isinstance(item.value, str):
        return {place: _keyed(look(place), item.value, holds)}
    return {}


def _constants(nodes: Iterable[ast.expr]) -> tuple[str | bool | None, ...] | None:
    """The values of nodes that are all texts, booleans or null; numbers are left alone, for 1 is 1.0."""
    found: list[str | bool | None] = []
    for node in nodes:
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str | bool | None):
            return None
        found.append(node.value)
    return tuple(found)


def _among(found: Type, constants: tuple[str | bool | None, ...], holds: bool) -> Type:
    """The values that are, or are not, one of these."""
    these = reduce(join, map(type_of_value, constants), NEVER)
    if holds:
        return meet(found, these)
    if found.values is not None:
        return _with(found, found.values - (these.values or frozenset()))
    return found.without_null() if None in constants else found


def _keyed(found: Type, key: str, holds: bool) -> Type:
    """The values that have, or have not, this key; lists and texts may hold it, too."""
    if not found.has("object") or (key in found.required and holds):
        return found
    held = found.field(key)
    if holds and held is not None:
        if len(found.fields) > _MANY:
            return found
        return replace(found, fields={**found.fields, key: held}, required=found.required | {key})
    if holds or key in found.required:
        return replace(found, kinds=found.kinds - {"object"})
    return found


def _asked(node: ast.expr) -> Path | None:
    """The path of `x.get('key')`, which is null where there is no such key."""
    match node:
        case ast.Call(
            func=ast.Attribute(value=value, attr="get"), args=[ast.Constant(value=str(key))], keywords=[]
        ):
            path = path_of(value)
            return (*path, key) if path else None
    return None
