"""JSON with expressions in it: the arguments of a step, its `value`, `each`, `when`, the output of a plan.

{"$": "payment.id"}        the value of an expression
{"$literal": x}            x itself, whatever stands in it
{"$": …, "other": …}       an error: nobody can tell what is meant
anything else              itself; a text is never looked into
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .errors import ExpressionError
from .expression import Expression, parse, rename
from .fuel import Fuel
from .values import Json

__all__ = ["Template", "compile_template", "rename_in"]

EXPRESSION = "$"
LITERAL = "$literal"

_DEPTH = 100
_NONE: frozenset[str] = frozenset()
_NESTED = (dict, list)
_Make = Callable[[Mapping[str, Json], "Fuel | None"], Json]


class Template:
    """A compiled template.

    `expressions` pairs the JSON Pointer of each `$` object (in the template) with its expression; `names` are the names
    all of them read; `literal` says that there is none.
    """

    __slots__ = ("_make", "_several", "expressions", "literal", "names")

    def __init__(self, make: _Make, expressions: tuple[tuple[str, Expression], ...]) -> None:
        self._make = make
        self.expressions = expressions
        self.literal = not expressions
        self._several = len(expressions) > 1
        self.names: frozenset[str] = (
            expressions[0][1].names
            if len(expressions) == 1
            else _NONE.union(*(expression.names for _, expression in expressions))
        )

    def evaluate(self, scope: Mapping[str, Json], fuel: Fuel | None = None) -> Json:
        """The JSON for these data: literals are fresh copies, what an expression gives may be shared with the data.

        All expressions draw on one fuel. Raises `EvaluationError`.
        """
        return self._make(scope, fuel or Fuel() if self._several else fuel)

    def __repr__(self) -> str:
        return f"<Template with {len(self.expressions)} expressions>"


def compile_template(document: Json) -> Template:
    """The template that a JSON document is. Raises `ExpressionError` with `pointer` for the first thing wrong."""
    found: list[tuple[str, Expression]] = []
    make = _compile(document, "", found)
    return Template(make or _literal(document), tuple(found))


def rename_in(document: Json, mapping: Mapping[str, str]) -> Json:
    """A copy of a template with free names of its expressions replaced, as `rename` does."""
    match document:
        case {"$": str(text)} if len(document) == 1:
            return {EXPRESSION: rename(text, mapping)}
        case dict() if LITERAL in document:
            return _copied(document)
        case dict():
            return {key: rename_in(value, mapping) for key, value in document.items()}
        case list():
            return [rename_in(value, mapping) for value in document]
    return document


def _compile(
    document: Json, pointer: str, found: list[tuple[str, Expression]], depth: int = 0
) -> _Make | None:
    """What makes the value of a template; None where there is no expression in it and a copy will do."""
    if depth > _DEPTH:
        raise _too_deep(pointer)
    if isinstance(document, dict):
        if EXPRESSION in document or LITERAL in document:
            return _special(document, pointer, found)
        return _object(document, pointer, found, depth + 1)
    if isinstance(document, list):
        parts = [_compile(v, f"{pointer}/{n}", found, depth + 1) for n, v in enumerate(document)]
        return _array(document, parts) if any(parts) else None
    return None


def _special(document: dict[str, Json], pointer: str, found: list[tuple[str, Expression]]) -> _Make | None:
    key = EXPRESSION if EXPRESSION in document else LITERAL
    if len(document) > 1:
        others = ", ".join(repr(k) for k in document if k != key)
        raise ExpressionError(
            "bad_template",
            f"{key!r} stands beside {others}",
            0,
            f"{{{LITERAL!r}: …}} around an object meant as it is",
            pointer=pointer,
        )
    if key == LITERAL:
        return _literal(document[LITERAL], pointer)
    try:
        expression = parse(document[EXPRESSION])
    except ExpressionError as error:
        raise _placed(error, pointer) from None
    found.append((pointer, expression))
    return expression.evaluate


def _placed(error: ExpressionError, pointer: str) -> ExpressionError:
    return ExpressionError(
        error.code,
        error.message,
        error.offset,
        error.suggestion,
        text=error.text,
        pointer=pointer,
        correction=error.correction,
    )


def _token(key: Any, pointer: str) -> str:
    if type(key) is not str:
        raise ExpressionError(
            "bad_template", f"the keys of an object are text, not {type(key).__name__}", pointer=pointer
        )
    return key.replace("~", "~0").replace("/", "~1")


def _literal(document: Json, pointer: str = "") -> _Make:
    kept = _copied(document, pointer, 0)
    if isinstance(kept, _NESTED):
        return lambda scope, fuel: _copied(kept)
    return lambda scope, fuel: kept


def _object(
    document: dict[str, Json], pointer: str, found: list[tuple[str, Expression]], depth: int
) -> _Make | None:
    parts: list[tuple[str, _Make]] = []
    plain: list[str] = []
    for key, value in document.items():
        if isinstance(value, _NESTED) or type(key) is not str:  # most parts are neither
            make = _compile(value, f"{pointer}/{_token(key, pointer)}", found, depth)
            if make is None:
                plain.append(key)
            else:
                parts.append((key, make))
    if not parts:
        return None
    fixed = document.copy()
    parts += [(key, _literal(document[key])) for key in plain]

    def make_object(scope: Mapping[str, Json], fuel: Fuel | None) -> Json:
        value = fixed.copy()
        for key, make in parts:
            value[key] = make(scope, fuel)
        return value

    return make_object


def _array(document: list[Json], makers: list[_Make | None]) -> _Make:
    parts = [make or _literal(value) for make, value in zip(makers, document, strict=True)]
    return lambda scope, fuel: [make(scope, fuel) for make in parts]


def _copied(document: Json, pointer: str = "", depth: int = 0) -> Json:
    if depth > _DEPTH:
        raise _too_deep(pointer)
    if isinstance(document, dict):
        return {key: _copied(value, pointer, depth + 1) for key, value in document.items()}
    if isinstance(document, list):
        return [_copied(value, pointer, depth + 1) for value in document]
    return document


def _too_deep(pointer: str) -> ExpressionError:
    return ExpressionError("too_deep", f"this is nested more than {_DEPTH} deep", pointer=pointer)


def problems(document: Json) -> Iterator[ExpressionError]:
    """Every thing wrong with a template, not only the first."""
    return _problems(document, "", 0)


def _problems(document: Json, pointer: str, depth: int) -> Iterator[ExpressionError]:
    if depth > _DEPTH:
        yield _too_deep(pointer)
    elif isinstance(document, dict) and (EXPRESSION in document or LITERAL in document):
        try:
            _special(document, pointer, [])
        except ExpressionError as error:
            yield error
    elif isinstance(document, dict):
        for key, value in document.items():
            try:
                place = f"{pointer}/{_token(key, pointer)}"
            except ExpressionError as error:
                yield error
            else:
                yield from _problems(value, place, depth + 1)
    elif isinstance(document, list):
        for n, value in enumerate(document):
            yield from _problems(value, f"{pointer}/{n}", depth + 1)
