"""The abstract interpreter: an expression run over types instead of values, so that what can never work is seen early.

    scope {payments: type of the tool's output, inputs: type of the schema}
        "payments.rows[0].amount"  ->  a number        "payments.rowz"  ->  problem: no field 'rowz'

A problem is only what goes wrong for *every* value of the types; everything doubtful passes and is met again at run
time. One method per kind of node; the nodes are those of `policies/expressions/grammar.py`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Mapping, Sized
from functools import reduce
from typing import Any, NamedTuple

from ..policies.text import nearest
from .findings import quoted
from .narrowing import Facts, Path, facts_of, falsy, path_of, stepped, truthy
from .types import (
    ANY,
    BOOLEAN,
    INTEGER,
    NEVER,
    NULL,
    NUMBER,
    STRING,
    Type,
    array_of,
    describe,
    disjoint,
    join,
    list_of,
    object_of,
    type_of_value,
)

__all__ = ["Effort", "Problem", "infer"]


class Problem(NamedTuple):
    """What certainly goes wrong. `offset` counts characters; `suggestion` is a whole corrected expression, or empty."""

    code: str
    message: str
    offset: int
    suggestion: str = ""


_PAIRS = 500_000
"""So many pairs of types are compared in one check."""


class Effort:
    """What one check may spend: so many comparisons of names, so many fields of objects made up on the way.

    Beyond the first, names go without suggestion; beyond the second, values are of any type. Types are compared once.
    """

    def __init__(self, guesses: int = 60_000, fields: int = 300_000) -> None:
        self.guesses = guesses
        self.fields = fields
        self.apart: dict[tuple[Type, Type], bool] = {}

    def nearest(self, name: str, names: Collection[str]) -> str:
        """The nearest name, or nothing."""
        return next(iter(nearest(name, names, most=1)), "") if self.may_guess(names) else ""

    def may_guess(self, names: Sized) -> bool:
        """Whether another search among these names can be afforded."""
        self.guesses -= min(len(names), 5_000) + 100
        return self.guesses > 0

    def affords(self, *types: Type) -> bool:
        """Whether something may be made of these objects."""
        self.fields -= sum(len(t.fields) + t.height for t in types)
        return self.fields > 0

    def disjoint(self, a: Type, b: Type) -> bool:
        """Whether certainly no value is in both; False where that was asked too often to find out."""
        if (a, b) not in self.apart and len(self.apart) > _PAIRS:
            return False
        return disjoint(a, b, self.apart)

    def any_of(self, types: Iterable[Type]) -> Type:
        """What holds the values of all these."""
        found = NEVER
        for type in types:
            if found.height and type.height and found is not type and not self.affords(found, type):
                return ANY
            found = join(found, type)
        return found


def infer(
    tree: ast.expr, text: str, scope: Mapping[str, Type], effort: Effort | None = None
) -> tuple[Type, list[Problem]]:
    """The type of an expression and what certainly goes wrong in it. Names that are not in `scope` are of any type."""
    interpreter = _Interpreter(text, scope, effort or Effort())
    found = interpreter.of(tree)
    return found, interpreter.problems


_LISTS = ("array", "object")
"""What can be gone through: a list, or the keys of an object."""


class _Interpreter:
    """One run over one expression. `local` holds the names of comprehensions and lambdas, `facts` what conditions say."""

    def __init__(self, text: str, scope: Mapping[str, Type], effort: Effort) -> None:
        self.text = text
        self.scope = scope
        self.effort = effort
        self.local: dict[str, Type] = {}
        self.facts: Facts = {}
        self.problems: list[Problem] = []

    def of(self, node: ast.AST) -> Type:
        """The type of a node; its problems are noted."""
        found = _METHOD_FOR[type(node)](self, node)
        if self.facts and isinstance(node, _PATHS):
            path = path_of(node)
            return found if path is None else self.facts.get(path, found)
        return found

    def look(self, path: Path) -> Type:
        """The type of what a path reads, as far as it is known; nothing is noted."""
        known = next((n for n in range(len(path), 0, -1) if path[:n] in self.facts), 0)
        name = str(path[0])
        found = self.facts[path[:known]] if known else self.local.get(name) or self.scope.get(name, ANY)
        return reduce(stepped, path[max(known, 1) :], found)

    def where(self, test: ast.expr, *, holds: bool) -> Facts:
        """What is known in the place that is reached where this condition holds, or does not."""
        return {**self.facts, **facts_of(test, self.look, holds=holds)}

    # -- leaves

    def _Constant(self, node: ast.Constant) -> Type:
        return type_of_value(node.value)

    def _Name(self, node: ast.Name) -> Type:
        return self.local.get(node.id) or self.scope.get(node.id, ANY)

    # -- paths

    def _Attribute(self, node: ast.Attribute) -> Type:
        return self._field(node, node.value, node.attr, len(node.attr))

    def _Subscript(self, node: ast.Subscript) -> Type:
        match node.slice:
            case ast.Slice():
                return self._slice(node, node.slice)
            case ast.Constant(value=str(name)):
                return self._field(node, node.value, name, 0)
        key, found = self.of(node.slice), self.of(node.value)
        if found.kinds and not found.has("array", "object", "string"):
            return self._wrong(node.value, found, "has no elements")
        if key.kinds == STRING.kinds:
            return (
                self.effort.any_of([*found.fields.values(), found.rest or NEVER])
                if found.has("object")
                else ANY
            )
        if not key.has("string") and found.kinds and not found.has("array", "string"):
            name = next(iter(found.fields), "key")
            return self._wrong(node.value, found, f"has keys, not numbers; write .{name}")
        return self._element(found, node.slice) if not key.has("string") else ANY

    def _element(self, found: Type, key: ast.expr) -> Type:
        parts = [found.item] if found.has("array") else []
        if parts and isinstance(key, ast.Constant) and isinstance(key.value, int):
            parts = [found.at(key.value)]
        return self.effort.any_of([*parts, STRING] if found.has("string") else parts)

    def _slice(self, node: ast.Subscript, bounds: ast.Slice) -> Type:
        for bound in (bounds.lower, bounds.upper, bounds.step):
            if bound is not None:
                self.of(bound)
        found = self.of(node.value)
        if found.kinds and not found.has("array", "string"):
            return self._wrong(node.value, found, "cannot be sliced")
        parts = [array_of(found.item)] if found.has("array") else []
        return self.effort.any_of([*parts, STRING] if found.has("string") else parts)

    def _field(self, node: ast.expr, value: ast.expr, name: str, length: int) -> Type:
        found = self.of(value)
        if not found.kinds:
            return NEVER
        if not found.has("object"):
            return self._no_object(node, value, found, name)
        held = found.field(name)
        if held is None:
            self._unknown_field(node, value, found, name, length)
            return ANY
        self._perhaps_null(value, found)
        return held

    def _perhaps_null(self, value: ast.expr, found: Type) -> None:
        """A value that may be null is used as if it were not. A step's whole result is not meant: it skips its readers."""
        if not found.has("null") or found.has("boolean") or self._is_step(value):
            return
        what = quoted(self._source(value))[1:-1]
        self._note("may_be_null", f"{what} may be null; ask `{what} is not None` first", value.col_offset)

    def _is_step(self, value: ast.expr) -> bool:
        return isinstance(value, ast.Name) and value.id not in self.local

    def _no_object(self, node: ast.expr, value: ast.expr, found: Type, name: str) -> Type:
        inner = self._source(value)
        if name in _PROPERTIES and found.kinds <= {"array", "string", "null"}:
            new = _PROPERTIES[name].format(inner)
            fixed = self._instead(node, new)
            return self._wrong(value, found, f"has no field {quoted(name)}; write {new}", fixed)
        if found.kinds <= {"array", "null"} and (
            not found.item.has("object") or found.item.field(name) is None
        ):
            return self._wrong(value, found, f"has no field {quoted(name)}")
        if found.kinds <= {"array", "null"}:
            every = f"[x.{name} for x in {inner}]"
            return self._wrong(
                value, found, f"has no field {quoted(name)}; write {inner}[0].{name} or {every}"
            )
        return self._wrong(value, found, f"has no field {quoted(name)}")

    def _unknown_field(self, node: ast.expr, value: ast.expr, found: Type, name: str, length: int) -> None:
        near = self.effort.nearest(name, found.fields)
        guess = f"; did you mean {quoted(near)}?" if near else _listed(found.fields)
        end = node.end_col_offset or 0
        fixed = ""
        if near and length and near.isidentifier():
            fixed = self.text[: end - length] + near + self.text[end:]
        elif name in _RESULTS and self._is_step(value):
            guess, fixed = (
                "; what a step gives is read by its id alone",
                self._instead(node, self._source(value)),
            )
        if isinstance(value, ast.Name) and value.id == "inputs" and "inputs" not in self.local:
            self._note(
                "unknown_input", f"the plan declares no input {quoted(name)}{guess}", end - length, fixed
            )
        else:
            what = quoted(self._source(value))[1:-1]
            self._note("unknown_field", f"{what} has no field {quoted(name)}{guess}", end - length, fixed)

    # -- operators

    def _BoolOp(self, node: ast.BoolOp) -> Type:
        """Each part is met only where the ones before it hold (`and`) or do not (`or`)."""
        goes_on, before = isinstance(node.op, ast.And), self.facts
        *firsts, last = node.values
        types = []
        for value in firsts:
            found = self.of(value)
            types.append(falsy(found) if goes_on else truthy(found))
            self.facts = self.where(value, holds=goes_on)
        types.append(self.of(last))
        self.facts = before
        return self.effort.any_of(types)

    def _UnaryOp(self, node: ast.UnaryOp) -> Type:
        found = self.of(node.operand)
        if isinstance(node.op, ast.Not):
            return BOOLEAN
        if isinstance(node.operand, ast.Constant) and isinstance(node.operand.value, int | float):
            return type_of_value(-node.operand.value if isinstance(node.op, ast.USub) else node.operand.value)
        if found.kinds and not found.has("integer", "fraction"):
            return self._wrong(node.operand, found, "is no number")
        return NUMBER if found.has("fraction") else INTEGER

    def _BinOp(self, node: ast.BinOp) -> Type:
        left, right = self.of(node.left), self.of(node.right)
        if isinstance(node.op, ast.Add):
            return self._added(node, left, right)
        if isinstance(node.op, ast.Mult | ast.Mod):
            numbers = not (left.has("string", "array") or right.has("string", "array"))
            return self._number(node, left, right) if numbers else ANY
        for side, found in ((node.left, left), (node.right, right)):
            if found.kinds and not found.has("integer", "fraction"):
                return self._wrong(side, found, "is no number")
        return self._number(node, left, right)

    def _number(self, node: ast.BinOp, left: Type, right: Type) -> Type:
        whole = left.has("fraction") or right.has("fraction") or isinstance(node.op, ast.Div | ast.Pow)
        return NUMBER if whole else INTEGER

    def _added(self, node: ast.BinOp, left: Type, right: Type) -> Type:
        parts: list[Type] = []
        if left.has("integer", "fraction") and right.has("integer", "fraction"):
            parts.append(self._number(node, left, right))
        if left.has("string") and right.has("string"):
            parts.append(STRING)
        if left.has("array") and right.has("array"):
            parts.append(array_of(self.effort.any_of([left.item, right.item])))
        if not parts and left.kinds and right.kinds:
            pair = f"{describe(left)} and {describe(right)} cannot be added"
            hint = "; str(x) makes text of a number" if left.has("string") or right.has("string") else ""
            self._note("wrong_type", pair + hint, node.col_offset)
            return ANY
        return self.effort.any_of(parts)

    def _Compare(self, node: ast.Compare) -> Type:
        parts = [node.left, *node.comparators]
        types = [self.of(part) for part in parts]
        for op, (i, right) in zip(node.ops, enumerate(parts[1:]), strict=True):
            self._matched(op, parts[i], types[i], right, types[i + 1])
        return BOOLEAN

    def _matched(self, op: ast.cmpop, left: ast.expr, one: Type, right: ast.expr, other: Type) -> None:
        """A comparison that always comes out the same is a slip: a number with text, a word that is not in the enum."""
        if isinstance(op, ast.In | ast.NotIn):
            if isinstance(left, ast.Constant) and isinstance(left.value, str) and other.kinds == {"object"}:
                self._keyed(left, right, other, left.value)
                return
            other = other.item if other.kinds == {"array"} else ANY
        elif not isinstance(op, ast.Eq | ast.NotEq):
            return
        asks_null = any(isinstance(part, ast.Constant) and part.value is None for part in (left, right))
        if one.kinds and other.kinds and not asks_null and self.effort.disjoint(one, other):
            said = f"{describe(one)} is never {describe(other)}"
            what = quoted(self.text[left.col_offset : right.end_col_offset])[1:-1]
            self._note("never_equal", f"{what} always comes out the same: {said}", left.col_offset)

    def _keyed(self, key: ast.expr, value: ast.expr, found: Type, name: str) -> None:
        if found.field(name) is None:
            self._absent(key, value, found, name, "so it is never in it")

    def _IfExp(self, node: ast.IfExp) -> Type:
        self.of(node.test)
        before = self.facts
        self.facts = self.where(node.test, holds=True)
        body = self.of(node.body)
        self.facts = before
        self.facts = self.where(node.test, holds=False)
        orelse = self.of(node.orelse)
        self.facts = before
        return self.effort.any_of([body, orelse])

    # -- containers

    def _List(self, node: ast.List | ast.Tuple) -> Type:
        places = [self.of(item) for item in node.elts]
        return list_of(places, self.effort.any_of(places))

    _Tuple = _List

    def _Dict(self, node: ast.Dict) -> Type:
        fields: dict[str, Type] = {}
        required: set[str] = set()
        rest: Type | None = None
        for key, value in zip(node.keys, node.values, strict=True):
            found = self.of(value)
            if key is None and not self.effort.affords(found, found):
                return object_of({}, rest=ANY)
            if key is None:
                rest = _spread(fields, required, rest, found)
            elif isinstance(key, ast.Constant):
                fields[str(key.value)] = found
                required.add(str(key.value))
            else:
                self.of(key)
                rest = ANY
        return object_of(fields, required=required, rest=rest)

    def _JoinedStr(self, node: ast.JoinedStr) -> Type:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.of(part.value)
        return STRING

    # -- comprehensions and lambdas

    def _ListComp(self, node: ast.ListComp | ast.GeneratorExp) -> Type:
        before = dict(self.local), self.facts
        self._bind_all(node.generators)
        found = array_of(self.of(node.elt))
        self.local, self.facts = before
        return found

    _GeneratorExp = _ListComp

    def _DictComp(self, node: ast.DictComp) -> Type:
        before = dict(self.local), self.facts
        self._bind_all(node.generators)
        self.of(node.key)
        found = object_of({}, rest=self.of(node.value))
        self.local, self.facts = before
        return found

    def _bind_all(self, generators: Iterable[ast.comprehension]) -> None:
        for generator in generators:
            self._bind(generator.target, self._items(generator.iter))
            for test in generator.ifs:
                self.of(test)
                self.facts = self.where(test, holds=True)

    def _items(self, node: ast.expr) -> Type:
        """What one gets by going through a value."""
        found = self.of(node)
        if found.kinds and not found.has(*_LISTS):
            return self._wrong(node, found, "is no list")
        return _items_of(found)

    def _bind(self, target: ast.expr, found: Type) -> None:
        match target:
            case ast.Name(id=name):
                self._name(name, found)
            case ast.Tuple(elts=parts):
                if found.kinds and not found.has("array"):
                    self._wrong(target, found, "cannot be taken apart")
                for place, part in enumerate(parts):
                    self._bind(part, found.at(place) if found.has("array") else ANY)

    def _name(self, name: str, found: Type) -> None:
        """From here on the name is this value; what was known of another one is not known of it."""
        self.local[name] = found
        if self.facts:
            self.facts = {path: fact for path, fact in self.facts.items() if path[0] != name}

    # -- calls

    def _Call(self, node: ast.Call) -> Type:
        if isinstance(node.func, ast.Attribute):
            return self._method(node, node.func)
        assert isinstance(node.func, ast.Name)
        name = node.func.id
        positional = list(node.args)
        first = self._first(name, positional)
        others = [self.of(arg) for arg in positional[1:]]
        options = self._options(node.keywords, _items_of(first))
        return _result(name, first, others, options)

    def _first(self, name: str, positional: list[ast.expr]) -> Type:
        if not positional:
            return NEVER
        found = self.of(positional[0])
        wanted = () if name in ("min", "max") and len(positional) > 1 else _WANTED.get(name, ())
        if wanted and found.kinds and not found.has(*wanted):
            return self._wrong(positional[0], found, f"is not what {name}() takes")
        return found

    def _options(self, keywords: Iterable[ast.keyword], item: Type) -> dict[str, Type]:
        found = {}
        for keyword in keywords:
            if isinstance(keyword.value, ast.Lambda):
                found[str(keyword.arg)] = self._lambda(keyword.value, item)
            else:
                found[str(keyword.arg)] = self.of(keyword.value)
        return found

    def _lambda(self, node: ast.Lambda, item: Type) -> Type:
        before = dict(self.local), self.facts
        self._name(node.args.args[0].arg, item)
        found = self.of(node.body)
        self.local, self.facts = before
        return found

    def _method(self, node: ast.Call, callee: ast.Attribute) -> Type:
        found, name = self.of(callee.value), callee.attr
        args = [self.of(arg) for arg in node.args]
        options = self._options(node.keywords, ANY)
        wanted = "object" if name in ("get", "keys", "values", "items") else "string"
        if found.kinds and not found.has(wanted):
            turned = name == "join" and len(node.args) == 1 and found.kinds <= {"array", "null"}
            new = f"{self._source(node.args[0])}.join({self._source(callee.value)})" if turned else ""
            why = f"has no .{name}()" + (f"; write {new}" if new else "")
            return self._wrong(callee.value, found, why, self._instead(node, new) if new else "")
        self._perhaps_null(callee.value, found)
        if name == "get":
            return self._get(node, callee.value, found, [*args[1:], *options.values()])
        return _METHODS[name](found)

    def _get(self, node: ast.Call, value: ast.expr, found: Type, default: list[Type]) -> Type:
        otherwise = default[0] if default else NULL
        key = node.args[0]
        if not isinstance(key, ast.Constant) or not isinstance(key.value, str) or not found.kinds:
            return ANY
        held = found.field(key.value)
        if held is None:
            self._absent(key, value, found, key.value, "so .get() gives what it gives without one")
        return self.effort.any_of([held or NEVER, otherwise])

    def _absent(self, key: ast.expr, value: ast.expr, found: Type, name: str, so: str) -> None:
        """A key is asked for that is not declared: a slip where a declared one is near, else perhaps on purpose."""
        near = self.effort.nearest(name, found.fields)
        what = quoted(self._source(value))[1:-1]
        if near:
            message = f"{what} has no field {quoted(name)}; did you mean {quoted(near)}?"
            start, end = key.col_offset, key.end_col_offset
            self._note("unknown_field", message, start, self.text[:start] + repr(near) + self.text[end:])
        else:
            message = f"{what} is not known to have a field {quoted(name)}, {so}"
            self._note("always_default", message, key.col_offset)

    # -- notes

    def _wrong(self, node: ast.expr, found: Type, why: str, suggestion: str = "") -> Type:
        what = quoted(self._source(node))[1:-1]
        self._note("wrong_type", f"{what} is {describe(found)}: it {why}", node.col_offset, suggestion)
        return ANY

    def _instead(self, node: ast.expr, new: str) -> str:
        """The whole expression with another text in the place of a node."""
        return self.text[: node.col_offset] + new + self.text[node.end_col_offset :]

    def _note(self, code: str, message: str, offset: int, suggestion: str = "") -> None:
        self.problems.append(Problem(code, message, offset, suggestion))

    def _source(self, node: ast.expr) -> str:
        return self.text[node.col_offset : node.end_col_offset]


_METHOD_FOR: dict[type[ast.AST], Callable[[_Interpreter, Any], Type]] = {
    node: getattr(_Interpreter, f"_{node.__name__}")
    for node in vars(ast).values()
    if isinstance(node, type) and issubclass(node, ast.AST) and hasattr(_Interpreter, f"_{node.__name__}")
}
_PATHS = (ast.Name, ast.Attribute, ast.Subscript)
_PROPERTIES = {
    "length": "len({})",
    "size": "len({})",
    "count": "len({})",
    "first": "{}[0]",
    "last": "{}[-1]",
}
"""What other languages give lists and texts as fields, and what to write here."""
_RESULTS = frozenset({"output", "outputs", "result", "results", "response", "return_value"})
"""What other engines put between a step and the fields of its result."""


def _listed(fields: Iterable[str]) -> str:
    names = list(fields)
    if not names or len(names) > 12:
        return ""
    return f"; it has {', '.join(map(quoted, names))}"


def _spread(fields: dict[str, Type], required: set[str], rest: Type | None, found: Type) -> Type | None:
    """Merge `**found` into an object under construction; gives the type of its other keys."""
    for name, held in found.fields.items():
        fields[name] = held if name in found.required or name not in fields else join(held, fields[name])
    required |= found.required
    if found.rest is None:
        return rest
    for name in fields.keys() - found.fields.keys():
        fields[name] = join(fields[name], found.rest)
    return found.rest if rest is None else join(rest, found.rest)


def _items_of(found: Type) -> Type:
    """What one gets by going through a value: elements of a list, keys of an object."""
    if found.has("array"):
        return join(found.item, STRING) if found.has("object") else found.item
    return STRING if found.has("object") else NEVER


_ANY_LIST = dict.fromkeys(
    [
        "all",
        "any",
        "enumerate",
        "first",
        "flat",
        "group",
        "index",
        "join",
        "max",
        "min",
        "reversed",
        "running",
        "sorted",
        "sum",
        "unique",
        "zip",
    ],
    _LISTS,
)
_WANTED: dict[str, tuple[str, ...]] = {
    **_ANY_LIST,
    "len": ("array", "object", "string"),
    "abs": ("integer", "fraction"),
    "round": ("integer", "fraction"),
    "range": ("integer",),
    "number": ("integer", "fraction", "string"),
    "shift": ("string",),
    "between": ("string",),
    "format_time": ("string",),
}
"""The kinds of which the first argument of a function must be one."""


def _result(name: str, first: Type, others: list[Type], options: Mapping[str, Type]) -> Type:
    """The type of what a function gives."""
    item = _items_of(first)
    match name:
        case "len":
            return INTEGER
        case "any" | "all":
            return BOOLEAN
        case "str" | "shift" | "format_time":
            return STRING
        case "sum" | "abs" | "round" | "between":
            return NUMBER
        case "number":
            return reduce(join, [*others, *options.values()], NUMBER)
        case "min" | "max" if others:
            return reduce(join, others, first)
        case "min" | "max" | "first":
            return reduce(join, [*others, *(t for n, t in options.items() if n == "default")], item)
        case "sorted" | "reversed" | "unique":
            return array_of(item)
        case "group":
            return array_of(object_of({"key": options.get("key", ANY), "items": array_of(item, least=1)}))
        case "index":
            return object_of({}, rest=item)
        case "enumerate":
            return array_of(list_of([INTEGER, item]))
        case "range":
            return array_of(INTEGER)
        case "running":
            return array_of(NUMBER)
        case "flat":
            return array_of(item.item if item.has("array") else ANY)
        case "zip":
            return array_of(list_of([item, *map(_items_of, others)]))
        case "join":
            right = _items_of(others[0]) if others else ANY
            inner = "how" not in options or options["how"].values == frozenset({b'"inner"'})
            absent = NEVER if inner else NULL
            return array_of(object_of({"left": join(item, absent), "right": join(right, absent)}))
        case _:
            return ANY


def _values(found: Type) -> Type:
    return reduce(join, found.fields.values(), found.rest or NEVER)


_METHODS: dict[str, Callable[[Type], Type]] = {
    "keys": lambda found: array_of(STRING),
    "values": lambda found: array_of(_values(found)),
    "items": lambda found: array_of(list_of([STRING, _values(found)])),
    "lower": lambda found: STRING,
    "upper": lambda found: STRING,
    "strip": lambda found: STRING,
    "split": lambda found: array_of(STRING),
    "startswith": lambda found: BOOLEAN,
    "endswith": lambda found: BOOLEAN,
    "replace": lambda found: STRING,
    "join": lambda found: STRING,
}
