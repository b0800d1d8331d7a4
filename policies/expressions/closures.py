"""A tree compiled once into Python closures: evaluation is a few calls, and total.

    tree --compile--> closure(frame) -> value          frame = [scope, fuel, local, local, …]

Every name bound inside has its own place in the frame. Fuel is taken before work: once for the whole expression, then by
each `for` for all of its rounds, and by functions for what they make; so a path costs nothing extra. Nothing can loop but
a `for` over a finished list, and nothing can recurse. Arithmetic stays decimal inside one arithmetic expression and is
rounded to JSON at its edge (`exact` compiles the inside, `value` the edge).
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from ..text import did_you_mean, shorten
from . import arithmetic
from .errors import EvaluationError
from .formats import formatted, read_format
from .fuel import Fuel
from .functions import FUNCTIONS, METHODS
from .names import occurrences
from .values import Json, as_list, compare, kind, missing, same, wrong

__all__ = ["Frame", "Run", "compiled"]

Frame = list[Any]
Run = Callable[[Frame], Json]
_Scope = Mapping[str, tuple[int, frozenset[str]]]
"""Place in the frame, and the free names a bound name has its value from."""

_FIRST = 2
_LIST, _OBJECT = 3, 8
"""Fuel for an empty one: what it takes of memory."""
_NUMBERS = frozenset({int, float})
_NUMBERS_OR_TEXT = frozenset({int, float, str})
_WHOLE = 2**53
"""Below it Python's order of integers and floats is ours."""
_ORDERS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def compiled(tree: ast.expr, text: str) -> tuple[Run, int, int]:
    """The closure of a tree, the length of its frame, and the fuel that one evaluation takes at the start."""
    compiler = _Compiler(text)
    run = compiler.value(tree, {})
    return run, compiler.slots, compiler.cost


class _Compiler:
    def __init__(self, text: str) -> None:
        self.text = text
        self.slots = _FIRST
        self.cost = 0

    def slot(self) -> int:
        self.slots += 1
        return self.slots - 1

    def shown(self, node: ast.AST) -> str:
        """The text of a part, for messages."""
        start, end = getattr(node, "col_offset", 0), getattr(node, "end_col_offset", None)
        return shorten(self.text[start:end], 60)

    def value(self, node: ast.expr, scope: _Scope) -> Run:
        """The closure that gives the value of a node as JSON."""
        self.cost += 1
        match node:
            case ast.Constant(value=constant):
                return lambda frame: constant
            case ast.Name() | ast.Attribute() | ast.Subscript():
                return self.path(node, scope)
            case ast.BinOp() | ast.UnaryOp(op=ast.USub() | ast.UAdd()):
                return _edge(self.exact(node, scope))
            case ast.UnaryOp(operand=operand):
                inner = self.value(operand, scope)
                return lambda frame: not inner(frame)
            case ast.BoolOp(op=op, values=values):
                return _logic([self.value(v, scope) for v in values], stop=isinstance(op, ast.Or))
            case ast.IfExp():
                return self.choice(node, scope)
            case ast.Compare():
                return self.comparison(node, scope)
            case ast.Call():
                return self.call(node, scope)
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                self.cost += _LIST
                return _list([self.value(p, scope) for p in parts])
            case ast.Dict():
                return self.object(node, scope)
            case ast.ListComp() | ast.GeneratorExp() | ast.DictComp():
                return self.comprehension(node, scope)
            case ast.JoinedStr(values=parts):
                return _joined([self.piece(p, scope) for p in parts])
        raise AssertionError(f"{type(node).__name__} is not in the language")

    # -- paths

    def path(self, node: ast.expr, scope: _Scope) -> Run:
        steps: list[str | int] = []
        at = node
        while True:
            if isinstance(at, ast.Attribute):
                steps.append(at.attr)
            elif isinstance(at, ast.Subscript) and _constant_index(at.slice) is not None:
                steps.append(_constant_index(at.slice))  # type: ignore[arg-type]
            else:
                break
            at = at.value
        self.cost += len(steps)
        base = self.base(at, scope)
        return self.walk(base, tuple(reversed(steps)), node, scope) if steps else base

    def base(self, node: ast.expr, scope: _Scope) -> Run:
        if isinstance(node, ast.Name):
            return self.name(node, scope)
        if isinstance(node, ast.Subscript):
            if isinstance(node.slice, ast.Slice):
                return self.slice(node, node.slice, scope)
            return self.index(node, scope)
        return self.value(node, scope)

    def name(self, node: ast.Name, scope: _Scope) -> Run:
        name = node.id
        if name in scope:
            return operator.itemgetter(scope[name][0])
        offset = node.col_offset

        def run(frame: Frame) -> Json:
            try:
                return frame[0][name]
            except KeyError:
                raise EvaluationError(
                    "unknown_name",
                    f"there is no name {name!r} here{did_you_mean(name, frame[0])}",
                    offset=offset,
                ) from None

        return run

    def walk(self, base: Run, steps: tuple[str | int, ...], node: ast.expr, scope: _Scope) -> Run:
        """Follow keys and indices that are written out; when that fails, say where."""
        first = steps[0]

        def one(frame: Frame) -> Json:
            value = base(frame)
            try:
                return value[first]
            except (KeyError, IndexError, TypeError):
                raise self.lost(value, steps, node, scope) from None

        def many(frame: Frame) -> Json:
            value = start = base(frame)
            try:
                for step in steps:
                    value = value[step]
            except (KeyError, IndexError, TypeError):
                raise self.lost(start, steps, node, scope) from None
            return value

        return one if len(steps) == 1 else many

    def lost(self, value: Json, steps: Sequence[str | int], node: ast.expr, scope: _Scope) -> EvaluationError:
        """The error for a path that leads nowhere."""
        nodes = [node]
        while len(nodes) < len(steps):
            nodes.append(nodes[-1].value)  # type: ignore[attr-defined]
        for at, step in zip(reversed(nodes), steps, strict=True):
            where = at.value  # type: ignore[attr-defined]
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                return self.blame(_no_step(self.shown(where), value, step, written=True), at, where, scope)
        raise AssertionError("the path leads somewhere")

    def index(self, node: ast.Subscript, scope: _Scope) -> Run:
        base, index = self.value(node.value, scope), self.value(node.slice, scope)
        where = self.shown(node.value)

        def run(frame: Frame) -> Json:
            value, step = base(frame), index(frame)
            if type(step) in (str, int):
                try:
                    return value[step]
                except (KeyError, IndexError, TypeError):
                    pass
            raise self.blame(_no_step(where, value, step, written=False), node, node, scope)

        return run

    def slice(self, node: ast.Subscript, bounds: ast.Slice, scope: _Scope) -> Run:
        base = self.value(node.value, scope)
        runs = [self.value(b, scope) if b else None for b in (bounds.lower, bounds.upper, bounds.step)]
        where = self.shown(node.value)

        def run(frame: Frame) -> Json:
            value = base(frame)
            try:
                return _sliced(where, value, [r(frame) if r else None for r in runs], frame[1])
            except EvaluationError as error:
                raise self.blame(error, node, node, scope) from None

        return run

    # -- operators

    def exact(self, node: ast.expr, scope: _Scope) -> Run:
        """The closure of a part of an arithmetic expression: its numbers may be decimals."""
        match node:
            case ast.BinOp(left=left, op=op, right=right):
                self.cost += 1
                return self.binary(
                    node, self.exact(left, scope), type(op).__name__, self.exact(right, scope), scope
                )
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
                self.cost += 1
                change = arithmetic.negative if isinstance(sign, ast.USub) else arithmetic.positive
                return self.signed(node, change, self.exact(operand, scope), scope)
        return self.value(node, scope)

    def binary(self, node: ast.expr, left: Run, name: str, right: Run, scope: _Scope) -> Run:
        operation = arithmetic.OPERATIONS[name]

        def run(frame: Frame) -> Any:
            one, other = left(frame), right(frame)
            try:
                return operation(one, other, frame[1])
            except EvaluationError as error:
                raise self.blame(error, node, node, scope) from None

        return run

    def signed(self, node: ast.expr, change: Callable[[Any], Any], operand: Run, scope: _Scope) -> Run:
        def run(frame: Frame) -> Any:
            value = operand(frame)
            try:
                return change(value)
            except EvaluationError as error:
                raise self.blame(error, node, node, scope) from None

        return run

    def choice(self, node: ast.IfExp, scope: _Scope) -> Run:
        test, yes, no = (self.value(part, scope) for part in (node.test, node.body, node.orelse))
        return lambda frame: yes(frame) if test(frame) else no(frame)

    def comparison(self, node: ast.Compare, scope: _Scope) -> Run:
        parts = [self.value(part, scope) for part in (node.left, *node.comparators)]
        tests = [self.test(node, type(op), scope) for op in node.ops]
        if len(tests) == 1:
            (left, right), test = parts, tests[0]
            return lambda frame: test(left(frame), right(frame), frame[1])

        def run(frame: Frame) -> bool:
            value = parts[0](frame)
            for test, part in zip(tests, parts[1:], strict=True):
                other = part(frame)
                if not test(value, other, frame[1]):
                    return False
                value = other
            return True

        return run

    def test(
        self, node: ast.Compare, op: type[ast.cmpop], scope: _Scope
    ) -> Callable[[Json, Json, Fuel], bool]:
        simple = _TESTS.get(op)
        if simple is not None:
            return simple
        ask = _ordered(_ORDERS[op]) if op in _ORDERS else _contained(negate=op is ast.NotIn)

        def test(left: Json, right: Json, fuel: Fuel) -> bool:
            try:
                return ask(left, right, fuel)
            except EvaluationError as error:
                raise self.blame(error, node, node, scope) from None

        return test

    # -- calls

    def call(self, node: ast.Call, scope: _Scope) -> Run:
        parts = list(node.args)
        if isinstance(node.func, ast.Attribute):
            spec = METHODS[node.func.attr]
            parts.insert(0, node.func.value)
        else:
            assert isinstance(node.func, ast.Name)
            spec = FUNCTIONS[node.func.id]
        arguments = [self.value(part, scope) for part in parts]
        source = self.roots(parts[0], scope) if parts and node.keywords else frozenset[str]()
        options = {str(k.arg): self.option(k.value, scope, source) for k in node.keywords}
        return self.guarded(_applied(spec.call, arguments, options), node, scope)

    def guarded(self, run: Run, node: ast.expr, scope: _Scope) -> Run:
        def guarded(frame: Frame) -> Json:
            try:
                return run(frame)
            except EvaluationError as error:
                raise self.blame(error, node, node, scope) from None

        return guarded

    def option(self, node: ast.expr, scope: _Scope, source: frozenset[str]) -> Run:
        if not isinstance(node, ast.Lambda):
            return self.value(node, scope)
        slot, before = self.slot(), self.cost
        body = self.value(node.body, {**scope, node.args.args[0].arg: (slot, source)})
        cost = self.cost - before + 1

        def make(frame: Frame) -> Callable[[Json], Json]:
            take = frame[1].take

            def key(value: Json) -> Json:
                take(cost)
                frame[slot] = value
                return body(frame)

            return key

        return make

    # -- objects and texts

    def object(self, node: ast.Dict, scope: _Scope) -> Run:
        self.cost += _OBJECT
        pairs = [
            (self.value(key, scope) if key else None, self.value(value, scope))
            for key, value in zip(node.keys, node.values, strict=True)
        ]

        def run(frame: Frame) -> Json:
            made: dict[str, Json] = {}
            for key, value in pairs:
                if key is None:
                    _spread(made, value(frame), frame[1])
                else:
                    made[_as_key(key(frame))] = value(frame)
            return made

        return self.guarded(run, node, scope)

    def piece(self, node: ast.expr, scope: _Scope) -> Run:
        """One part of an f-string, as text."""
        if not isinstance(node, ast.FormattedValue):
            return self.value(node, scope)
        value, form = self.value(node.value, scope), None
        if isinstance(node.format_spec, ast.JoinedStr) and isinstance(
            node.format_spec.values[0], ast.Constant
        ):
            form = read_format(str(node.format_spec.values[0].value), 0)
        return self.guarded(lambda frame: formatted(value(frame), form, frame[1]), node, scope)

    # -- comprehensions

    def comprehension(self, node: ast.ListComp | ast.GeneratorExp | ast.DictComp, scope: _Scope) -> Run:
        self.cost += _OBJECT if isinstance(node, ast.DictComp) else _LIST
        starts: list[tuple[ast.comprehension, Run, Any, list[Run], int, _Scope]] = []
        for generator in node.generators:
            source = self.value(generator.iter, scope)
            outer, before = scope, self.cost
            target, scope = self.bind(generator.target, scope, self.roots(generator.iter, scope))
            tests = [self.value(test, scope) for test in generator.ifs]
            starts.append((generator, source, target, tests, before, outer))
        if isinstance(node, ast.DictComp):
            emit = _emit_entry(self.value(node.key, scope), self.value(node.value, scope))
        else:
            emit = _emit_element(self.value(node.elt, scope))
        for generator, source, target, tests, before, outer in reversed(starts):
            rows = self.rows(generator, source, self.cost - before + 2, outer)
            emit = self.loop(generator, rows, target, tests, emit, outer)
        return self.gathered(node, emit, scope)

    def gathered(self, node: ast.expr, emit: Callable[[Frame, Any], None], scope: _Scope) -> Run:
        empty: Callable[[], Any] = dict if isinstance(node, ast.DictComp) else list

        def run(frame: Frame) -> Json:
            made = empty()
            emit(frame, made)
            return made

        return self.guarded(run, node, scope)

    def rows(self, node: ast.comprehension, source: Run, cost: int, scope: _Scope) -> Run:
        """The list to go through, with the fuel for all rounds taken."""

        def run(frame: Frame) -> list[Json]:
            value = source(frame)
            try:
                items = (
                    value if type(value) is list else as_list(f"`for … in {self.shown(node.iter)}`", value)
                )
                frame[1].take(len(items) * cost)
                return items
            except EvaluationError as error:
                raise self.blame(error, node.iter, node.iter, scope) from None

        return run

    def loop(
        self,
        node: ast.comprehension,
        rows: Run,
        target: Any,
        tests: list[Run],
        emit: Callable[[Frame, Any], None],
        scope: _Scope,
    ) -> Callable[[Frame, Any], None]:
        if isinstance(target, int):
            return _loop_one(rows, target, tests, emit)

        def loop(frame: Frame, made: Any) -> None:
            for item in rows(frame):
                try:
                    _unpack(frame, target, item)
                except EvaluationError as error:
                    raise self.blame(error, node.target, node.iter, scope) from None
                if all(test(frame) for test in tests):
                    emit(frame, made)

        return loop

    def bind(self, target: ast.expr, scope: _Scope, source: frozenset[str]) -> tuple[Any, _Scope]:
        """Places for the names of a target (an int, or a list of such), and the scope that knows them."""
        if isinstance(target, ast.Name):
            slot = self.slot()
            return slot, {**scope, target.id: (slot, source)}
        assert isinstance(target, ast.Tuple)
        places: list[Any] = []
        for part in target.elts:
            place, scope = self.bind(part, scope, source)
            places.append(place)
        return places, scope

    # -- errors

    def roots(self, node: ast.AST, scope: _Scope) -> frozenset[str]:
        """The free names that a part has its value from."""
        found: set[str] = set()
        for name in (o.name for o in occurrences(node) if o.binder is None):
            found |= scope[name][1] if name in scope else {name}
        return frozenset(found)

    def blame(self, error: EvaluationError, node: ast.AST, source: ast.AST, scope: _Scope) -> EvaluationError:
        """An error with the place where it arose, unless it knows a closer one."""
        if error.offset is None:
            error.offset = getattr(node, "col_offset", 0)
            error.end = getattr(node, "end_col_offset", None)
            if error.code == "null":
                error.roots = self.roots(source, scope)
        return error


# -- pieces of closures that need no compiler


def _edge(run: Run) -> Run:
    plain = arithmetic.plain

    def edge(frame: Frame) -> Json:
        value = run(frame)
        return plain(value) if type(value) is Decimal else value

    return edge


def _logic(parts: list[Run], *, stop: bool) -> Run:
    def run(frame: Frame) -> Json:
        value: Json = None
        for part in parts:
            value = part(frame)
            if bool(value) is stop:
                return value
        return value

    return run


def _list(parts: list[Run]) -> Run:
    return lambda frame: [part(frame) for part in parts]


def _joined(parts: list[Run]) -> Run:
    def run(frame: Frame) -> str:
        pieces = [part(frame) for part in parts]
        frame[1].take_text(sum(map(len, pieces)))
        return "".join(pieces)

    return run


def _equal(left: Json, right: Json, fuel: Fuel) -> bool:
    if type(left) is str:
        return type(right) is str and left == right
    return same(left, right, fuel)


_TESTS: dict[type[ast.cmpop], Callable[[Json, Json, Fuel], bool]] = {
    ast.Eq: _equal,
    ast.NotEq: lambda left, right, fuel: not same(left, right, fuel),
    ast.Is: lambda left, right, fuel: left is right,
    ast.IsNot: lambda left, right, fuel: left is not right,
}


def _ordered(ask: Callable[[Any, Any], bool]) -> Callable[[Json, Json, Fuel], bool]:
    def test(left: Json, right: Json, fuel: Fuel) -> bool:
        one, other = type(left), type(right)
        if one is other and one in _NUMBERS_OR_TEXT:
            return ask(left, right)
        if one in _NUMBERS and other in _NUMBERS and -_WHOLE < right < _WHOLE:
            return ask(left, right)
        return ask(compare(left, right, fuel), 0)

    return test


def _contained(*, negate: bool) -> Callable[[Json, Json, Fuel], bool]:
    def test(item: Json, container: Json, fuel: Fuel) -> bool:
        return _contains(item, container, fuel) is not negate

    return test


def _contains(item: Json, container: Json, fuel: Fuel) -> bool:
    one = type(container)
    if one is list:
        fuel.take(len(container))
        if type(item) is str or item is None:
            return item in container
        return any(same(other, item, fuel) for other in container)
    if one is dict:
        return type(item) is str and item in container
    if one is str and type(item) is str:
        fuel.take_text(len(container))
        return item in container
    if one is str:
        raise wrong("`in` a text", "a text before it", item, "str(x) makes text of it")
    raise wrong("`in`", "a list, an object or text behind it", container)


def _applied(call: Callable[..., Json], arguments: list[Run], options: dict[str, Run]) -> Run:
    if options:
        named = list(options.items())
        return lambda frame: call(frame[1], *[a(frame) for a in arguments], **{k: o(frame) for k, o in named})
    if len(arguments) == 1:
        only = arguments[0]
        return lambda frame: call(frame[1], only(frame))
    return lambda frame: call(frame[1], *[a(frame) for a in arguments])


def _spread(made: dict[str, Json], value: Json, fuel: Fuel) -> None:
    if type(value) is not dict:
        raise wrong("** in { }", "an object", value)
    fuel.take(len(value))
    made.update(value)


def _as_key(key: Json) -> str:
    if type(key) is not str:
        raise wrong("a key of an object", "text", key, "str(x) makes text of it")
    return key


def _emit_element(element: Run) -> Callable[[Frame, Any], None]:
    def emit(frame: Frame, made: list[Json]) -> None:
        made.append(element(frame))

    return emit


def _emit_entry(key: Run, value: Run) -> Callable[[Frame, Any], None]:
    def emit(frame: Frame, made: dict[str, Json]) -> None:
        made[_as_key(key(frame))] = value(frame)

    return emit


def _loop_one(
    rows: Run, slot: int, tests: list[Run], emit: Callable[[Frame, Any], None]
) -> Callable[[Frame, Any], None]:
    def every(frame: Frame, made: Any) -> None:
        for frame[slot] in rows(frame):  # noqa: B020 - the item goes straight to its place
            emit(frame, made)

    def some(frame: Frame, made: Any) -> None:
        for frame[slot] in rows(frame):  # noqa: B020
            for test in tests:
                if not test(frame):
                    break
            else:
                emit(frame, made)

    return some if tests else every


def _unpack(frame: Frame, places: list[Any], item: Json) -> None:
    if type(item) is not list:
        raise wrong("`for` with several names", "lists to take apart", item)
    if len(item) != len(places):
        raise EvaluationError(
            "wrong_type", f"`for` with {len(places)} names got a list of another length", f": {len(item)}"
        )
    for place, part in zip(places, item, strict=True):
        if isinstance(place, int):
            frame[place] = part
        else:
            _unpack(frame, place, part)


def _constant_index(node: ast.expr) -> str | int | None:
    match node:
        case ast.Constant(value=value) if type(value) in (str, int):
            return value  # type: ignore[return-value]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=value)) if type(value) is int:
            return -value
    return None


def _no_step(where: str, value: Json, step: Json, *, written: bool) -> EvaluationError:
    """Why a value has no such key or index. What does not stand in the expression is data and goes to the detail."""
    one = type(step)
    if value is None:
        what = "elements" if one is not str else f"key {step!r}" if written else "keys"
        return EvaluationError("null", f"{where} is null, so it has no {what}")
    if type(value) is dict and one is str:
        return missing(where, step, value, written=written)
    if type(value) is dict:
        return EvaluationError(
            "wrong_type", f"{where} is an object, its keys are text, not {kind(step)}; str(x) makes text"
        )
    if one is str:
        return _not_an_object(where, value, step if written else "")
    if type(value) not in (list, str):
        return EvaluationError("wrong_type", f"{where} is {kind(value)}, it has no elements")
    if one is int:
        return EvaluationError("out_of_range", f"{where} has no element {step}", f"; it has {len(value)}")
    return wrong(f"an index of {where}", "a whole number", step)


def _not_an_object(where: str, value: Json, key: str) -> EvaluationError:
    move = ""
    if key in ("length", "size", "count"):
        move = f"; len({where}) counts"
    elif key and type(value) is list:
        move = f"; [x.{key} for x in {where}] reads it of each element, {where}[0].{key} of the first"
    what = f"key {key!r}" if key else "keys"
    return EvaluationError("wrong_type", f"{where} is {kind(value)}, it has no {what}{move}")


def _sliced(where: str, value: Json, bounds: list[Json], fuel: Fuel) -> Json:
    if type(value) not in (list, str):
        raise wrong(f"a slice of {where}", "a list or text", value)
    for bound in bounds:
        if bound is not None and type(bound) is not int:
            raise wrong(f"a slice of {where}", "whole numbers", bound)
    if bounds[2] == 0:
        raise EvaluationError("bad_value", "a slice cannot step by 0")
    part = slice(*bounds)
    size = len(range(*part.indices(len(value))))
    if type(value) is str:
        fuel.take_text(size)
    else:
        fuel.take(size)
    return value[part]
