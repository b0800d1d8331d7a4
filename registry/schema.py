"""JSON Schemas that guard what goes into tools and what comes out.

    document --plain, small--> normal form --closed?--> closures that say yes
                (normal.py)                (normal.py)  jsonschema, which says what is wrong

A schema may come from a stranger: it is read by `normal.py`, which refuses what is hostile, and jsonschema is given an
empty registry, so that nothing is fetched. Beyond the specification: numbers that are not finite are never valid,
known formats are really checked, `multipleOf` is decimal (19.99 is a multiple of 0.01), and a check that would take
too long ends with a problem instead of an answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import islice
from math import isfinite
from typing import Any

from ..policies.canonical import digest
from ..policies.errors import SchemaRefused
from ..policies.text import shorten
from .formats import FORMATS
from .normal import Normal, close, inner, normalise, plain_document
from .patterns import Pattern, read_pattern
from .quick import Check, quick_check
from .sentences import Problem, sentences
from .values import DEEPEST, Json, pointer

__all__ = ["Problem", "Schema", "compile_schema"]

_MOST_PROBLEMS = 20
_MOST_ERRORS = 100
_FUEL = 30_000
"""Applications of a subschema in one check, besides those that the size of the value explains."""
_MOST_ASKED = 131_072
"""Bytes of a document that its metaschema is asked about, at 10 to 20 µs a byte; others are judged without it."""
_KEPT_BELOW = 65_536
"""Characters of a document that is kept, compiled, for the next time."""


def compile_schema(document: object, *, closed: bool = False) -> Schema:
    """A schema ready to check values; the same document twice gives the same one. Raises `SchemaRefused`.

    With `closed`, an object whose schema declares `properties` and says nothing of others has no others, at any depth.
    """
    text = json.dumps(plain_document(document))
    return (_compiled if len(text) < _KEPT_BELOW else _compiled.__wrapped__)(text, closed)


@lru_cache(maxsize=2048)
def _compiled(text: str, closed: bool) -> Schema:
    document = json.loads(text)
    normal = normalise(document)
    if not normal.certain:
        if len(text) > _MOST_ASKED:
            raise SchemaRefused(
                f"the schema is larger than {_MOST_ASKED:,} bytes; write it in draft 2020-12, without $id"
            )
        _ask_metaschema(document, normal.draft)
    return Schema(document, normal._replace(document=close(normal.document)) if closed else normal)


class Schema:
    """A compiled JSON Schema, made by `compile_schema`. Its documents are read only."""

    def __init__(self, document: Json, normal: Normal) -> None:
        self.document = document
        self.normal = normal
        self.quick: Check | None = quick_check(normal.document, self.pattern)

    def __repr__(self) -> str:
        return f"<Schema {self.digest[:15]}>"

    @cached_property
    def digest(self) -> str:
        """`sha256:…` of the document as it was given."""
        return digest(self.document)

    def accepts(self, value: Json) -> bool:
        """Whether a plain JSON value is valid; 1 to 3 µs for flat objects."""
        return (self.quick is not None and self.quick(value)) or not self._found(value, most=1)

    def problems(self, value: Json) -> list[Problem]:
        """What is wrong with a plain JSON value, at most 20 problems; none if it is valid."""
        if self.quick is not None and self.quick(value):
            return []
        return self._found(value, most=_MOST_PROBLEMS)

    def pattern(self, text: str) -> Pattern:
        """A pattern of the normal form, ready to run."""
        return read_pattern(self.normal.patterns[text])

    def _found(self, value: Json, *, most: int) -> list[Problem]:
        unfit: list[Problem] = []
        size = _survey(value, self._longest_key, unfit)
        if unfit:
            return unfit[:most]
        running = _RUNNING.set(_Running(_FUEL + 4 * size * self.normal.parts, self.pattern))
        try:
            errors = islice(self._validator.iter_errors(value), 1 if most == 1 else _MOST_ERRORS)
            return list(islice(sentences(errors, self.normal), most))
        except (_OutOfFuel, RecursionError):
            return [Problem("", "effort", "takes too long to check against this schema")]
        finally:
            _RUNNING.reset(running)

    @cached_property
    def _validator(self) -> Any:
        from referencing import Registry

        make, formats = _jsonschema()
        return make(self.normal.document, registry=Registry(), format_checker=formats)

    @cached_property
    def _longest_key(self) -> float:
        """Longer keys could not be matched against `patternProperties`."""
        documents = [self.normal.document]
        limit = float("inf")
        while documents:
            schema = documents.pop()
            if isinstance(schema, dict):
                documents += [part for _, part in inner(schema)]
                documents += schema.get("$defs", {}).values()
                limits = (self.pattern(text).limit for text in schema.get("patternProperties", ()))
                limit = min(limit, *limits, float("inf"))
        return limit


def _survey(value: Json, longest: float, unfit: list[Problem], path: tuple[str | int, ...] = ()) -> int:
    """Counts the values in a value, and notes those no schema can make valid."""
    kind = type(value)
    if kind is dict or kind is list:
        if len(path) >= DEEPEST:
            unfit.append(Problem(pointer(*path), "depth", f"is nested deeper than {DEEPEST} levels"))
            return 1
        size = 1
        for key, item in value.items() if kind is dict else enumerate(value):
            if kind is dict and (type(key) is not str or len(key) > longest):
                unfit.append(Problem(pointer(*path), "key", "has a key that is no text or is too long"))
            size += _survey(item, longest, unfit, (*path, key))
        return size
    if kind is float and not isfinite(value):
        unfit.append(Problem(pointer(*path), "finite", f"must be a finite number, not {value}"))
    elif kind not in _PLAIN:
        unfit.append(Problem(pointer(*path), "json", f"is no plain JSON: {shorten(kind.__name__, 40)}"))
    return 1


_PLAIN = frozenset({str, int, float, bool, type(None)})


# jsonschema is imported when something must be asked of it; many programs never do.


class _OutOfFuel(Exception):
    """A check took more steps than a value of this size explains."""


class _Running:
    """One check under way: what it may still do, and how it reads patterns."""

    __slots__ = ("fuel", "pattern")

    def __init__(self, fuel: int, pattern: Callable[[str], Pattern]) -> None:
        self.fuel = fuel
        self.pattern = pattern


_RUNNING: ContextVar[_Running] = ContextVar("foreplan_schema_check")

_DRAFTS = {4: "Draft4", 6: "Draft6", 7: "Draft7", 2019: "Draft201909", 2020: "Draft202012"}
_APPLYING = (
    "$ref additionalProperties allOf anyOf contains dependentSchemas if items not oneOf patternProperties prefixItems "
    "properties propertyNames unevaluatedItems unevaluatedProperties"
)

_Keyword = Callable[[Any, Any, Any, Any], Any]


@lru_cache(maxsize=1)
def _jsonschema() -> tuple[Any, Any]:
    """The validator class and format checker: draft 2020-12 with our own patterns, formats, fuel."""
    from jsonschema import Draft202012Validator, FormatChecker, ValidationError
    from jsonschema.validators import extend

    def failing(holds: Callable[[Any, Any], bool]) -> _Keyword:
        def keyword(validator: Any, said: Any, value: Any, schema: Any) -> Iterator[Any]:
            if not holds(said, value):
                yield ValidationError("")

        return keyword

    known = Draft202012Validator.VALIDATORS
    keywords = {name: _counted(known[name]) for name in _APPLYING.split()}
    own: dict[str, Callable[[Any, Any], bool]]
    own = {"pattern": _matches, "multipleOf": _is_multiple, "uniqueItems": _is_unique, "required": _has}
    keywords |= {name: failing(holds) for name, holds in own.items()}
    formats = FormatChecker(formats=())
    formats.checkers = {name: (_on_text(fits), ()) for name, fits in FORMATS.items()}
    return extend(Draft202012Validator, keywords), formats


def _counted(keyword: _Keyword) -> _Keyword:
    def counted(validator: Any, said: Any, value: Any, schema: Any) -> Any:
        running = _RUNNING.get()
        running.fuel -= 1
        if running.fuel < 0:
            raise _OutOfFuel
        return keyword(validator, said, value, schema)

    return counted


def _on_text(fits: Callable[[str], bool]) -> Callable[[object], bool]:
    return lambda value: not isinstance(value, str) or fits(value)


def _matches(text: str, value: Json) -> bool:
    return not isinstance(value, str) or _RUNNING.get().pattern(text).found_in(value)


def _is_multiple(step: Json, value: Json) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return True
    return _exact(value) % _exact(step) == 0


def _exact(number: float) -> Fraction:
    """The number as it is written: 0.1 is a tenth."""
    return Fraction(number) if isinstance(number, int) else Fraction(repr(number))


def _is_unique(said: bool, value: Json) -> bool:
    return not said or not isinstance(value, list) or len(set(map(_frozen, value))) == len(value)


def _has(names: list[str], value: Json) -> bool:
    return not isinstance(value, dict) or all(name in value for name in names)


def _frozen(value: Json) -> object:
    """A key that two values share exactly if JSON Schema holds them equal: 1 and 1.0, but not 1 and true."""
    if isinstance(value, dict):
        return dict, frozenset((k, _frozen(v)) for k, v in value.items())
    if isinstance(value, list):
        return list, tuple(map(_frozen, value))
    return (bool, value) if isinstance(value, bool) else value


def _ask_metaschema(document: Json, draft: int) -> None:
    import jsonschema

    make = getattr(jsonschema, _DRAFTS[draft] + "Validator")
    try:
        make.check_schema(document, format_checker=jsonschema.FormatChecker(formats=()))
    except jsonschema.SchemaError as error:
        place = pointer(*error.absolute_path)
        message = f"the schema is invalid at {place or 'its root'}: {shorten(error.message, 160)}"
        raise SchemaRefused(message, pointer=place) from error
