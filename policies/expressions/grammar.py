"""Tokens to a tree of Python's own `ast` nodes: only what is written here can ever be in a tree.

    expression  either ["if" either "else" expression]
    either      unary {operator unary}            or < and < not < comparison < + - < * / // % < sign < **
    primary     atom {"." key | "[" index "]" | "(" arguments ")"}
    atom        name | number | text | f-text | None True False | ( … ) | [ … ] | { … }

A tree holds the nodes of `NODES` and no others; `col_offset` and `end_col_offset` are set and count *characters* of the
text (there is one line). Tuples are lists for us, a generator is allowed as the only argument of a call. Recursive
descent with precedence climbing; depth is counted, so that no text can exhaust the stack. Where both accept a text,
the tree is the one that `ast.parse` gives (a test compares them).
"""

from __future__ import annotations

import ast
import re
from typing import NoReturn, TypeVar

from ..text import did_you_mean, nearest
from .errors import ExpressionError
from .formats import read_format
from .functions import FUNCTIONS, METHODS, Function
from .slips import ELSEWHERE, FOREIGN_CALLS, FOREIGN_NAMES, FOREIGN_SIGNS
from .tokens import Field, Token, tokens

__all__ = ["DEPTH", "KEYWORDS", "NODES", "build", "simple_path"]

NODES = (
    ast.Constant, ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.List, ast.Tuple, ast.Dict, ast.UnaryOp,
    ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.comprehension,
    ast.Call, ast.keyword, ast.Lambda, ast.arguments, ast.arg, ast.JoinedStr, ast.FormattedValue,
)  # fmt: skip
"""Every node a tree can hold, beside operators and contexts."""

KEYWORDS = frozenset(
    [
        "False",
        "None",
        "True",
        "and",
        "as",
        "assert",
        "async",
        "await",
        "break",
        "class",
        "continue",
        "def",
        "del",
        "elif",
        "else",
        "except",
        "finally",
        "for",
        "from",
        "global",
        "if",
        "import",
        "in",
        "is",
        "lambda",
        "nonlocal",
        "not",
        "or",
        "pass",
        "raise",
        "return",
        "try",
        "while",
        "with",
        "yield",
    ]
)

DEPTH = 100
"""Levels of a tree: whoever walks it by recursion is safe."""
_RECURSION = 60

_OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _SIGN, _POWER = range(1, 9)
_BINARY: dict[str, tuple[int, type[ast.operator]]] = {
    "+": (_SUM, ast.Add),
    "-": (_SUM, ast.Sub),
    "*": (_PRODUCT, ast.Mult),
    "/": (_PRODUCT, ast.Div),
    "//": (_PRODUCT, ast.FloorDiv),
    "%": (_PRODUCT, ast.Mod),
    "**": (_POWER, ast.Pow),
}
_COMPARISONS: dict[str, type[ast.cmpop]] = {
    "==": ast.Eq,
    "!=": ast.NotEq,
    "<": ast.Lt,
    "<=": ast.LtE,
    ">": ast.Gt,
    ">=": ast.GtE,
    "in": ast.In,
    "is": ast.Is,
    "not": ast.NotIn,
}
_PRECEDENCE = {
    "or": _OR,
    "and": _AND,
    **dict.fromkeys(_COMPARISONS, _COMPARE),
    **{s: p for s, (p, _) in _BINARY.items()},
}
_CONSTANTS = {"True": True, "False": False, "None": None}
_LOAD, _STORE = ast.Load(), ast.Store()

N = TypeVar("N", bound=ast.AST)


_PATH = re.compile(r"([a-z][A-Za-z0-9_]*)((?:\.[A-Za-z][A-Za-z0-9_]*|\[(?:0|[1-9][0-9]{0,8})\]){0,40})")
_DOTTED = re.compile(r"[a-z][A-Za-z0-9_]*(?:\.[A-Za-z][A-Za-z0-9_]*){0,40}")
_PATH_STEP = re.compile(r"\.([A-Za-z0-9_]+)|\[([0-9]+)\]")


def written_path(text: str) -> tuple[str, ...] | None:
    """Name and keys of a text like `a.b.c`; None for any other."""
    if _DOTTED.fullmatch(text) is None:
        return None
    path = tuple(text.split("."))
    return None if path[0] in KEYWORDS or path[0] in FOREIGN_NAMES else path


def simple_path(text: str) -> ast.expr | None:
    """The tree of a text like `a.b[0].c`, as `build` gives it but three times as fast; None for any other text."""
    match = _PATH.fullmatch(text)
    if match is None or match[1] in KEYWORDS or match[1] in FOREIGN_NAMES:
        return None
    end = match.end(1)
    tree: ast.expr = _at(ast.Name(id=match[1], ctx=_LOAD), 0, end)
    for step in _PATH_STEP.finditer(text, end):
        end = step.end()
        if step[1]:
            tree = ast.Attribute(value=tree, attr=step[1], ctx=_LOAD)
        else:
            index = _at(ast.Constant(value=int(step[2])), step.start(2), step.end(2))
            tree = ast.Subscript(value=tree, slice=index, ctx=_LOAD)
        _at(tree, 0, end)
    return tree


def build(text: str) -> ast.expr:
    """The tree of an expression. Raises `ExpressionError`."""
    found = tokens(text)
    if len(found) == 1:
        raise ExpressionError("empty", "an expression cannot be empty")
    tree = _Parser(found).whole("the expression")
    if len(found) > DEPTH:
        _refuse_depth(tree)
    return tree


def _refuse_depth(tree: ast.AST) -> None:
    level, depth = [tree], 0
    while level:
        depth += 1
        if depth > DEPTH:
            raise _too_deep(getattr(level[0], "col_offset", 0))
        level = [child for node in level for child in ast.iter_child_nodes(node)]


def _too_deep(offset: int) -> ExpressionError:
    return ExpressionError(
        "too_deep", "this expression is too deep; put parts of it into value steps", offset
    )


def _at(node: N, start: int, end: int) -> N:
    node.col_offset = start  # type: ignore[attr-defined]
    node.end_col_offset = end  # type: ignore[attr-defined]
    return node


def _end(node: ast.expr) -> int:
    assert node.end_col_offset is not None
    return node.end_col_offset


class _Parser:
    """Reads tokens from left to right."""

    def __init__(self, found: list[Token], depth: int = 0) -> None:
        self.tokens = found
        self.place = 0
        self.token = found[0]
        self.depth = depth
        self.before = 0
        """Where the last token that was read ended."""

    # -- reading tokens

    def next(self) -> Token:
        token = self.token
        if token.kind != "end":
            self.place += 1
            self.token = self.tokens[self.place]
        self.before = token.end
        return token

    def sees(self, sign: str) -> bool:
        """Whether this sign or keyword stands here."""
        return self.token.text == sign and self.token.kind in ("op", "name")

    def takes(self, sign: str) -> bool:
        if self.sees(sign):
            self.next()
            return True
        return False

    def need(self, sign: str, why: str) -> Token:
        if not self.sees(sign):
            self.unexpected(f"{sign!r} is missing {why}")
        return self.next()

    def fail(self, code: str, message: str, token: Token, suggestion: str = "") -> NoReturn:
        raise ExpressionError(code, message, token.start, suggestion)

    def unexpected(self, message: str = "") -> NoReturn:
        """Say what is wrong with the token that stands here."""
        token = self.token
        if token.kind == "slip":
            why, move = FOREIGN_SIGNS[token.text]
            self.fail("not_in_language", why, token, move)
        if token.kind == "name" and token.text in ELSEWHERE:
            why, move = ELSEWHERE[token.text]
            self.fail("not_in_language", why, token, move)
        if token.kind == "op" and token.text == "=":
            self.fail("not_in_language", "an expression assigns nothing", token, "== to compare")
        if token.kind == "number" and token.text.startswith("."):
            self.fail(
                "syntax", "after a dot stands a key", token, f"[{token.text[1:]}] for an element of a list"
            )
        if token.text == "for" and token.kind == "name":
            self.fail("syntax", "a comprehension starts with what it collects", token, "[… for … in …]")
        if message:
            self.fail("syntax", message, token)
        if token.kind == "end":
            self.fail("syntax", "the expression ends too early", token)
        self.fail("syntax", f"{token.text[:40]!r} does not belong here", token)

    def enter(self) -> None:
        self.depth += 1
        if self.depth > _RECURSION:
            raise _too_deep(self.token.start)

    # -- expressions

    def whole(self, what: str) -> ast.expr:
        tree = self.expression()
        if self.token.kind == "end":
            return tree
        if self.sees(","):
            self.fail("syntax", f"{what} is one value", self.token, "put several values into [ ]")
        if self.sees("for"):
            self.fail("syntax", "a comprehension stands in brackets", self.token, "[… for … in …]")
        self.unexpected()

    def expression(self) -> ast.expr:
        self.enter()
        start = self.token.start
        tree = self.either(_OR)
        if self.takes("if"):
            test = self.either(_OR)
            self.need("else", "after `x if condition`")
            orelse = self.expression()
            tree = _at(ast.IfExp(test=test, body=tree, orelse=orelse), start, _end(orelse))
        self.depth -= 1
        return tree

    def either(self, least: int) -> ast.expr:
        """Operators that bind at least so tightly."""
        start = self.token.start
        left = self.unary(least)
        while True:
            sign = self.operator()
            precedence = _PRECEDENCE.get(sign, 0)
            if precedence < least or not precedence:
                return left
            if precedence in (_OR, _AND):
                left = self.logic(left, sign, precedence, start)
            elif precedence == _COMPARE:
                left = self.comparison(left, start)
            else:
                self.next()
                right = self.power() if precedence == _POWER else self.either(precedence + 1)
                left = _at(ast.BinOp(left=left, op=_BINARY[sign][1](), right=right), start, _end(right))

    def operator(self) -> str:
        """The operator that stands here, or nothing."""
        if self.token.kind == "op":
            return self.token.text
        if self.token.kind == "name":
            if self.token.text == "not" and self.tokens[self.place + 1].text != "in":
                return ""
            return self.token.text
        return ""

    def power(self) -> ast.expr:
        self.enter()
        tree = self.either(_SIGN)
        self.depth -= 1
        return tree

    def logic(self, left: ast.expr, sign: str, precedence: int, start: int) -> ast.expr:
        values = [left]
        while self.takes(sign):
            values.append(self.either(precedence + 1))
        return _at(
            ast.BoolOp(op=ast.Or() if sign == "or" else ast.And(), values=values), start, _end(values[-1])
        )

    def comparison(self, left: ast.expr, start: int) -> ast.expr:
        signs: list[ast.cmpop] = []
        others: list[ast.expr] = []
        while self.operator() in _COMPARISONS:
            token = self.next()
            sign = _COMPARISONS[token.text]
            if token.text == "not":
                self.next()
            elif token.text == "is":
                sign = ast.IsNot if self.takes("not") else ast.Is
            others.append(self.either(_COMPARE + 1))
            if token.text == "is" and not any(
                map(_is_constant, (others[-1], others[-2] if others[1:] else left))
            ):
                self.fail(
                    "not_in_language", "`is` asks for None, True or False", token, "== for other values"
                )
            signs.append(sign())
        return _at(ast.Compare(left=left, ops=signs, comparators=others), start, _end(others[-1]))

    def unary(self, least: int) -> ast.expr:
        token = self.token
        if self.sees("not"):
            if least > _NOT:
                self.fail("syntax", "`not` does not belong here", token, "put brackets around it: (not x)")
            return self.prefix(token, ast.Not(), _NOT)
        if token.kind == "op" and token.text in ("-", "+"):
            return self.prefix(token, ast.USub() if token.text == "-" else ast.UAdd(), _SIGN)
        return self.primary()

    def prefix(self, token: Token, sign: ast.unaryop, precedence: int) -> ast.expr:
        self.enter()
        self.next()
        operand = self.either(precedence)
        self.depth -= 1
        return _at(ast.UnaryOp(op=sign, operand=operand), token.start, _end(operand))

    # -- primaries

    def primary(self) -> ast.expr:
        start = self.token.start
        tree = self.atom()
        while self.token.kind == "op":
            sign = self.token.text
            if sign == ".":
                tree = self.attribute(tree, start)
            elif sign == "[":
                tree = self.subscript(tree, start)
            elif sign == "(":
                tree = self.call(tree, start)
            else:
                break
        return tree

    def attribute(self, value: ast.expr, start: int) -> ast.expr:
        self.next()
        token = self.token
        if token.kind != "name":
            hint = f"[{token.text}] for an element of a list" if token.kind == "number" else ""
            self.fail("syntax", "after a dot stands a key", token, hint or '["…"] for a key that is no word')
        self.next()
        if token.text.startswith("__") and token.text.endswith("__"):
            self.fail(
                "forbidden_name",
                f"{token.text!r} is not part of the language: a dot reads a key of an object",
                token,
            )
        return _at(ast.Attribute(value=value, attr=token.text, ctx=_LOAD), start, token.end)

    def subscript(self, value: ast.expr, start: int) -> ast.expr:
        opened = self.next()
        index = self.index(opened)
        if self.sees(","):
            self.fail(
                "syntax", "there is one index in [ ]", self.token, "a[1][2] for an element of an element"
            )
        end = self.need("]", "after an index").end
        return _at(ast.Subscript(value=value, slice=index, ctx=_LOAD), start, end)

    def index(self, opened: Token) -> ast.expr:
        if self.sees("]"):
            self.fail("syntax", "there is nothing between [ and ]", opened)
        start = self.token.start
        parts: list[ast.expr | None] = [None if self.sees(":") else self.expression()]
        while self.sees(":") and len(parts) < 3:
            self.next()
            parts.append(None if self.sees(":") or self.sees("]") else self.expression())
        if len(parts) == 1:
            assert parts[0] is not None
            return parts[0]
        lower, upper, step = [*parts, None][:3]
        return _at(ast.Slice(lower=lower, upper=upper, step=step), start, self.before)

    def atom(self) -> ast.expr:
        token = self.token
        match token.kind:
            case "name":
                return self.name()
            case "number":
                self.next()
                return _at(ast.Constant(value=token.value), token.start, token.end)
            case "text" | "ftext":
                return self.text()
        if token.text == "(" and token.kind == "op":
            return self.round_brackets()
        if token.text == "[" and token.kind == "op":
            return self.square_brackets()
        if token.text == "{" and token.kind == "op":
            return self.curly_brackets()
        if self.sees("*") or self.sees("**"):
            self.fail(
                "not_in_language",
                "a list is not unpacked here",
                token,
                "a + b joins two lists; {**a, **b} two objects",
            )
        self.unexpected()

    def name(self) -> ast.expr:
        token = self.token
        if token.text in _CONSTANTS:
            self.next()
            return _at(ast.Constant(value=_CONSTANTS[token.text]), token.start, token.end)
        if token.text in KEYWORDS:
            self.unexpected()
        self.next()
        self.refuse_name(token)
        return _at(ast.Name(id=token.text, ctx=_LOAD), token.start, token.end)

    def refuse_name(self, token: Token) -> None:
        if token.text.startswith("__"):
            self.fail("forbidden_name", f"{token.text!r} is not a name of the language", token)
        if token.text in FOREIGN_NAMES:
            move = FOREIGN_NAMES[token.text]
            self.fail("not_in_language", f"{token.text!r} is not a name of the language", token, move)

    def text(self) -> ast.expr:
        """Texts side by side are one text."""
        start, parts = self.token.start, list[ast.expr]()
        plain = True
        while self.token.kind in ("text", "ftext"):
            token = self.next()
            plain = plain and token.kind == "text"
            for part in token.value if token.kind == "ftext" else [token.value]:
                self.add_part(parts, part, token)
        if plain:
            values = [part.value for part in parts if isinstance(part, ast.Constant)]
            return _at(ast.Constant(value="".join(map(str, values))), start, self.before)
        return _at(ast.JoinedStr(values=parts), start, self.before)

    def add_part(self, parts: list[ast.expr], part: str | Field, token: Token) -> None:
        if isinstance(part, Field):
            parts.append(self.field(part))
        elif part and parts and isinstance(parts[-1], ast.Constant):
            parts[-1] = _at(ast.Constant(value=str(parts[-1].value) + part), parts[-1].col_offset, token.end)
        elif part:
            parts.append(_at(ast.Constant(value=part), token.start, token.end))

    def field(self, field: Field) -> ast.expr:
        self.enter()
        tree = _Parser(field.tokens, self.depth).whole("what stands in { }")
        self.depth -= 1
        form: ast.JoinedStr | None = None
        if read_format(field.format, field.start):
            spec = _at(ast.Constant(value=field.format), field.start, field.end)
            form = _at(ast.JoinedStr(values=[spec]), field.start, field.end)
        return _at(ast.FormattedValue(value=tree, conversion=-1, format_spec=form), field.start, field.end)

    # -- brackets

    def round_brackets(self) -> ast.expr:
        opened = self.next()
        items, comma = self.sequence(")")
        if self.sees("for") and len(items) == 1 and not comma:
            self.fail(
                "not_in_language",
                "a comprehension stands in [ ] or alone in a call",
                self.token,
                "[… for … in …]",
            )
        end = self.need(")", "at the end of ( …").end
        if len(items) == 1 and not comma:
            return items[0]
        return _at(ast.Tuple(elts=items, ctx=_LOAD), opened.start, end)

    def square_brackets(self) -> ast.expr:
        opened = self.next()
        items, comma = self.sequence("]")
        if self.sees("for") and len(items) == 1 and not comma:
            generators = self.generators()
            end = self.need("]", "at the end of [ …").end
            return _at(ast.ListComp(elt=items[0], generators=generators), opened.start, end)
        end = self.need("]", "at the end of [ …").end
        return _at(ast.List(elts=items, ctx=_LOAD), opened.start, end)

    def sequence(self, close: str) -> tuple[list[ast.expr], bool]:
        """Values up to a closing bracket, and whether a comma stood there."""
        items: list[ast.expr] = []
        comma = False
        while not self.sees(close):
            items.append(self.expression())
            if not self.takes(","):
                break
            comma = True
        return items, comma

    def curly_brackets(self) -> ast.expr:
        opened = self.next()
        if self.sees("{"):
            self.fail("not_in_language", "an expression stands without {{ }} around it", opened)
        keys: list[ast.expr | None] = []
        values: list[ast.expr] = []
        while not self.sees("}"):
            self.entry(keys, values)
            if self.sees("for") and len(keys) == 1 and keys[0] is not None:
                generators = self.generators()
                end = self.need("}", "at the end of { …").end
                return _at(
                    ast.DictComp(key=keys[0], value=values[0], generators=generators), opened.start, end
                )
            if not self.takes(","):
                break
        end = self.need("}", "at the end of { …").end
        return _at(ast.Dict(keys=keys, values=values), opened.start, end)

    def entry(self, keys: list[ast.expr | None], values: list[ast.expr]) -> None:
        if self.takes("**"):
            keys.append(None)
            values.append(self.either(_COMPARE + 1))
            return
        token = self.token
        key = self.expression()
        if self.sees(",") or self.sees("}") or self.sees("for"):
            self.fail(
                "not_in_language",
                "there are no sets",
                token,
                "[ ] for a list, unique([…]) for each value once",
            )
        if isinstance(key, ast.Constant) and type(key.value) is not str:
            self.fail("syntax", "the keys of an object are text", token, f"'{token.text}'")
        self.need(":", "after a key of an object")
        keys.append(key)
        values.append(self.expression())

    # -- comprehensions

    def generators(self) -> list[ast.comprehension]:
        found: list[ast.comprehension] = []
        while self.takes("for"):
            target = self.targets("in")
            self.need("in", "after `for` and a name")
            iterable = self.either(_OR)
            tests: list[ast.expr] = []
            while self.takes("if"):
                tests.append(self.either(_OR))
            found.append(ast.comprehension(target=target, iter=iterable, ifs=tests, is_async=0))
        return found

    def targets(self, close: str) -> ast.expr:
        start = self.token.start
        items = [self.target()]
        comma = False
        while self.takes(","):
            comma = True
            if self.sees(close):
                break
            items.append(self.target())
        if not comma:
            return items[0]
        return _at(ast.Tuple(elts=items, ctx=_STORE), start, self.before)

    def target(self) -> ast.expr:
        token = self.token
        if self.takes("("):
            self.enter()
            inner = self.targets(")")
            self.depth -= 1
            self.need(")", "after the names")
            return inner
        if self.sees("["):
            self.fail("not_in_language", "the names of a `for` stand in ( )", token, "for (a, b) in …")
        if token.kind != "name" or token.text in KEYWORDS:
            self.unexpected("after `for` stands a name")
        self.next()
        self.refuse_name(token)
        return _at(ast.Name(id=token.text, ctx=_STORE), token.start, token.end)

    # -- calls

    def call(self, callee: ast.expr, start: int) -> ast.expr:
        opened = self.token
        spec = self.callee(callee, opened)
        self.next()
        positional: list[ast.expr] = []
        named: list[ast.keyword] = []
        while not self.sees(")"):
            self.argument(spec, positional, named)
            if not self.takes(","):
                break
        end = self.need(")", f"at the end of {spec.name}(…").end
        self.refuse_count(spec, positional, named, opened)
        return _at(ast.Call(func=callee, args=positional, keywords=named), start, end)

    def callee(self, callee: ast.expr, opened: Token) -> Function:
        if isinstance(callee, ast.Name):
            return self.look_up(callee.id, FUNCTIONS, "function", callee.col_offset)
        if isinstance(callee, ast.Attribute):
            return self.look_up(callee.attr, METHODS, "method", _end(callee) - len(callee.attr))
        self.fail("syntax", "only functions and methods are called", opened)

    def look_up(self, name: str, table: dict[str, Function], what: str, offset: int) -> Function:
        spec = table.get(name)
        if spec is not None:
            return spec
        move = FOREIGN_CALLS.get(name, "")
        if not move and what == "method" and name in FUNCTIONS:
            move = f"{FUNCTIONS[name].signature}: it is a function"
        elif not move and what == "function" and name in METHODS:
            move = f"{METHODS[name].signature}: it is a method"
        guess = "" if move else did_you_mean(name, table)
        if not move and not guess:
            move = "".join(FOREIGN_CALLS[near] for near in nearest(name, FOREIGN_CALLS, 1))
        raise ExpressionError(f"unknown_{what}", f"there is no {what} {name!r}{guess}", offset, move)

    def argument(self, spec: Function, positional: list[ast.expr], named: list[ast.keyword]) -> None:
        token, following = self.token, self.tokens[min(self.place + 1, len(self.tokens) - 1)]
        if token.text in ("*", "**") and token.kind == "op":
            self.fail("not_in_language", "arguments are not unpacked", token, "write each argument out")
        if token.kind == "name" and following.text == "=" and following.kind == "op":
            named.append(self.option(spec, named))
            return
        if named:
            self.fail("syntax", "an argument without a name follows one with a name", token)
        if self.sees("lambda"):
            move = f"{spec.name}(…, key=lambda x: …)" if "key" in spec.options else ELSEWHERE["lambda"][1]
            self.fail("not_in_language", "a lambda stands only after key=", token, move)
        value = self.expression()
        if self.sees("for"):
            value = self.generator(value, token, alone=not positional)
        positional.append(value)

    def generator(self, value: ast.expr, token: Token, *, alone: bool) -> ast.expr:
        generators = self.generators()
        tree = _at(ast.GeneratorExp(elt=value, generators=generators), token.start, self.before)
        if not alone or self.sees(","):
            self.fail(
                "syntax", "a comprehension beside other arguments stands in [ ]", token, "[… for … in …]"
            )
        return tree

    def option(self, spec: Function, named: list[ast.keyword]) -> ast.keyword:
        token = self.next()
        self.next()
        name = token.text
        if name not in spec.options:
            allowed = f"; it has {', '.join(sorted(spec.options))}" if spec.options else ""
            guess = did_you_mean(name, spec.options) or allowed
            self.fail("bad_call", f"{spec.name}() has no argument {name!r}{guess}", token, spec.signature)
        if any(other.arg == name for other in named):
            self.fail("bad_call", f"{spec.name}() gets {name}= twice", token)
        value = self.key_function() if name == "key" else self.expression()
        return _at(ast.keyword(arg=name, value=value), token.start, self.before)

    def key_function(self) -> ast.expr:
        token = self.token
        if not self.takes("lambda"):
            move = "key=lambda x: x.name"
            if token.kind == "text" and token.value.isidentifier():
                move = f"key=lambda x: x.{token.value}"
            elif token.kind == "name" and token.text in FUNCTIONS:
                move = f"key=lambda x: {token.text}(x)"
            self.fail("bad_call", "key= takes a lambda", token, move)
        name = self.token
        if name.kind != "name" or name.text in KEYWORDS:
            self.unexpected("after `lambda` stands a name")
        self.next()
        self.refuse_name(name)
        if self.sees(","):
            self.fail("not_in_language", "this lambda has one parameter", self.token, "lambda x: x[0]")
        self.need(":", "after the parameter of a lambda")
        body = self.expression()
        parameter = _at(ast.arg(arg=name.text), name.start, name.end)
        return _at(ast.Lambda(args=_parameters(parameter), body=body), token.start, _end(body))

    def refuse_count(
        self, spec: Function, positional: list[ast.expr], named: list[ast.keyword], opened: Token
    ) -> None:
        count, given = len(positional), {k.arg for k in named}
        if not spec.least <= count <= spec.most:
            self.fail(
                "bad_call", f"{spec.name}() takes {_counted(spec)}, not {count}", opened, spec.signature
            )
        for name in sorted(spec.needs - given):
            self.fail("bad_call", f"{spec.name}() needs {name}=", opened, spec.signature)
        for name, place in _PLACES.get(spec.name, {}).items():
            if name in given and count > place:
                self.fail("bad_call", f"{spec.name}() gets {name}= twice", opened, spec.signature)


_PLACES: dict[str, dict[str, int]] = {
    "sum": {"start": 1},
    "round": {"ndigits": 1},
    "number": {"default": 1},
    "enumerate": {"start": 1},
    "first": {"default": 1},
    "between": {"unit": 2},
    "get": {"default": 1},
    "split": {"sep": 0, "maxsplit": 1},
    "replace": {"count": 2},
}
"""Arguments that can be given by place and by name, and their place."""


def _parameters(parameter: ast.arg) -> ast.arguments:
    return ast.arguments(
        posonlyargs=[], args=[parameter], vararg=None, kwonlyargs=[], kw_defaults=[], kwarg=None, defaults=[]
    )


def _is_constant(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and (node.value is None or type(node.value) is bool)


def _counted(spec: Function) -> str:
    if spec.most == 0:
        return "no argument"
    if spec.least == spec.most:
        return "one argument" if spec.most == 1 else f"{spec.most} arguments"
    if spec.most >= 50:
        return f"at least {spec.least} arguments" if spec.least > 1 else "at least one argument"
    return f"{spec.least} to {spec.most} arguments"
