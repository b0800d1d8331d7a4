"""A text of the language, parsed and checked once, evaluated often.

text --tokens--> --grammar--> tree --closures--> value        (parsed texts are kept; equal texts share)
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import lru_cache

from .closures import Frame, Run, compiled
from .errors import EvaluationError, ExpressionError
from .fuel import Fuel
from .functions import FUNCTIONS
from .grammar import build, simple_path, written_path
from .names import Reference, free_names, references_in, renamed
from .slips import repaired
from .values import Json, weigh

__all__ = ["Expression", "constants", "parse", "references", "rename"]


class Expression:
    """One expression of the language.

    `tree` is made of the nodes that `grammar.NODES` lists; offsets in it count characters of `text`. `names` are the
    names it reads from outside.
    """

    __slots__ = ("_bare", "_cost", "_length", "_path", "_run", "_tree", "names", "text")

    def __init__(
        self, text: str, tree: ast.expr | None, names: frozenset[str], path: tuple[str, ...] | None = None
    ) -> None:
        self.text = text
        self.names = names
        self._tree = tree
        self._bare = tree is None or _is_bare(tree)
        self._path = path
        self._run: Run | None = None
        self._cost = self._length = 0

    @property
    def tree(self) -> ast.expr:
        """What the text says, as a tree; that of a path is made when somebody asks for it."""
        if self._tree is None:
            self._tree = simple_path(self.text) or build(self.text)
        return self._tree

    def evaluate(self, scope: Mapping[str, Json], fuel: Fuel | None = None) -> Json:
        """The value for these data. Raises `EvaluationError` and nothing else.

        A result may share parts with the data: copy it before changing it. A bare reference gives the very value, so
        an integral float stays a float and a large integer stays exact.
        """
        if self._path is not None:
            try:
                value = scope
                for step in self._path:
                    value = value[step]
                return value
            except (KeyError, IndexError, TypeError):
                pass  # the closures say what is wrong
        fuel = fuel or Fuel()
        try:
            run = self._run or self._compile()
            frame: Frame = [scope, fuel, *[None] * (self._length - 2)]
            if self._bare:
                return run(frame)
            fuel.take(self._cost)
            value = run(frame)
            if type(value) is list or type(value) is dict:
                weigh(value)
            return value
        except EvaluationError as error:
            error.text = self.text
            raise
        except RecursionError:
            raise EvaluationError("too_deep", "the data are nested too deep for this expression") from None

    def _compile(self) -> Run:
        self._run, self._length, self._cost = compiled(self.tree, self.text)
        return self._run

    def __repr__(self) -> str:
        return f"<Expression {self.text!r}>"


def parse(text: str) -> Expression:
    """The expression that a text is. Raises `ExpressionError` with code, offset and, often, a suggestion."""
    if type(text) is not str:
        raise ExpressionError("not_text", f"an expression is text, not {type(text).__name__}")
    return _kept(text) if len(text) <= _SHORT else _parse(text)


def _parse(text: str) -> Expression:
    path = written_path(text)
    if path is not None and path[0] not in FUNCTIONS and path[0] != "steps":
        return Expression(text, None, frozenset(path[:1]), path)
    try:
        return Expression(text, *_built(text))
    except ExpressionError as error:
        error.text = text
        error.correction = error.correction or _correction(text)
        error.suggestion = error.correction or error.suggestion
        raise
    except RecursionError:
        raise ExpressionError(
            "too_deep", "this expression is too deep for where it is read", text=text
        ) from None


_STEPS = (ast.Attribute, ast.Subscript)
_SHORT = 1_000
"""Characters up to which a parsed text is kept: what is kept stays small, whatever is parsed."""
_kept = lru_cache(maxsize=4096)(_parse)


def _built(text: str) -> tuple[ast.expr, frozenset[str]]:
    tree = simple_path(text) or build(text)
    names = free_names(tree)
    _refuse_steps(text, tree, names)
    return tree, names


def _is_bare(tree: ast.expr) -> bool:
    """Whether a tree only follows keys and indices that are written out."""
    while isinstance(tree, _STEPS):
        if isinstance(tree, ast.Subscript) and not isinstance(tree.slice, ast.Constant):
            return False
        tree = tree.value
    return isinstance(tree, ast.Name)


def _correction(text: str) -> str:
    """A whole expression in the place of a text with slips, where one compiles."""
    for _ in range(2):
        text = repaired(text)
        if not text:
            return ""
        try:
            _built(text)
        except ExpressionError as error:
            if error.correction:
                return error.correction
        except RecursionError:
            return ""
        else:
            return text
    return ""


def _refuse_steps(text: str, tree: ast.expr, names: frozenset[str]) -> None:
    """`steps.a.output.b` is how other engines write `a.b`."""
    if "steps" not in names:
        return
    found = sorted(edit for node in ast.walk(tree) if (edit := _step_path(node)))
    longest = {edit[0]: edit for edit in found}
    new = text
    for start, end, name in reversed(longest.values()):
        new = new[:start] + name + new[end:]
    compiles = bool(found) and _compiles(new)
    place = min(
        node.col_offset for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == "steps"
    )
    raise ExpressionError(
        "not_in_language",
        "a step is read by its id alone",
        place,
        "its id",
        correction=new if compiles else "",
    )


def _compiles(text: str) -> bool:
    try:
        _built(text)
    except (ExpressionError, RecursionError):
        return False
    return True


def _step_path(node: ast.AST) -> tuple[int, int, str] | None:
    """Where `steps.a.output` or `steps.a` starts and ends, and what to write there."""
    match node:
        case ast.Attribute(
            value=ast.Attribute(value=ast.Name(id="steps"), attr=name), attr="output" | "outputs" | "result"
        ):
            return node.col_offset, node.end_col_offset or 0, name
        case ast.Attribute(value=ast.Name(id="steps"), attr=name):
            return node.col_offset, node.end_col_offset or 0, name
    return None


def constants(expression: Expression) -> tuple[str | int | float, ...]:
    """The texts and numbers that stand in it, those in f-strings too; not how values are to be formatted."""
    found, waiting = list[str | int | float](), list[ast.AST]([expression.tree])
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float):
            found += [] if isinstance(node.value, bool) else [node.value]
        elif isinstance(node, ast.FormattedValue):
            waiting.append(node.value)
        else:
            waiting += ast.iter_child_nodes(node)
    return tuple(found)


def references(expression: Expression) -> tuple[Reference, ...]:
    """What the expression reads: names with the paths behind them, also inside comprehensions."""
    return references_in(expression.tree)


def rename(text: str, mapping: Mapping[str, str]) -> str:
    """The text with free names replaced by others: not bound names, keys or text; what stands in f-strings too.

    The result means the same when each new name has the value of the old one.
    """
    expression = parse(text)
    if expression.names.isdisjoint(mapping):
        return text
    return renamed(text, expression.tree, mapping)
