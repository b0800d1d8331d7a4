"""What is wrong with a value, as sentences that help the next move, from the errors of jsonschema."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ..policies.text import did_you_mean, shorten
from .formats import EXAMPLES
from .normal import Normal, target_of
from .patterns import read_pattern
from .values import Json, pointer

__all__ = ["Problem", "sentences"]

_LONGEST = 300


class Problem(NamedTuple):
    """One thing wrong with a value: JSON Pointer to it, the keyword it breaks, and the end of a sentence about it.

    A key too many is pointed at itself, with the rule `additionalProperties`; a missing one at the object it lacks
    in. The message continues a name: "must be a number, not the text 'abc'".
    """

    pointer: str
    rule: str
    message: str


def sentences(errors: Iterable[Any], normal: Normal) -> Iterator[Problem]:
    """A problem for each error, each told once."""
    seen: set[Problem] = set()
    for error in errors:
        for problem in _Telling(normal).tell(error, tuple(error.absolute_path)):
            if problem not in seen:
                seen.add(problem)
                yield problem


_KINDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
}
_BOUNDS = {
    "minimum": "must be at least {}, not {}",
    "maximum": "must be at most {}, not {}",
    "exclusiveMinimum": "must be more than {}, not {}",
    "exclusiveMaximum": "must be less than {}, not {}",
    "multipleOf": "must be a multiple of {}, not {}",
}
_SIZES = {
    "minLength": "must have at least {} characters, not {}",
    "maxLength": "must have at most {} characters, not {}",
    "minItems": "must have at least {} items, not {}",
    "maxItems": "must have at most {} items, not {}",
    "minProperties": "must have at least {} properties, not {}",
    "maxProperties": "must have at most {} properties, not {}",
}


class _Telling:
    def __init__(self, normal: Normal) -> None:
        self.normal = normal

    def tell(self, error: Any, path: tuple[str | int, ...]) -> Iterator[Problem]:
        rule = error.validator
        if rule in ("additionalProperties", "unevaluatedProperties"):
            yield from self.extras(error, path)
        elif rule in ("anyOf", "oneOf") and error.context:
            yield from self.alternatives(error, path)
        else:
            message = self.message(error, rule)
            if "propertyNames" in error.relative_schema_path:
                message = f"has the key {_shown(error.instance)}, which {message}"
            nothing = rule is None or (rule == "not" and error.validator_value == {})
            yield Problem(pointer(*path), "false" if nothing else rule, shorten(message, _LONGEST))

    def message(self, error: Any, rule: str | None) -> str:
        said, value = error.validator_value, error.instance
        if rule in _BOUNDS:
            return _BOUNDS[rule].format(said, _shown(value))
        if rule in _SIZES:
            return _SIZES[rule].format(said, len(value)).replace("at least 1 characters, not 0", "some text")
        match rule:
            case "type":
                names = said if isinstance(said, list) else [said]
                return f"must be {_or([_KINDS[name] for name in names])}, not {_shown(value)}"
            case "required":
                return f"lacks {_list([n for n in said if n not in value])}"
            case "enum" | "const":
                return _choice(said if rule == "enum" else [said], value)
            case "pattern":
                return self.unmatched(said, value)
            case "format":
                like = f", like {EXAMPLES[said]}" if said in EXAMPLES else ""
                return f"must be {_a(said)}{like}, not {_shown(value)}"
            case "not" if said == {}:
                return "is not allowed here"
            case "dependentRequired":
                return f"needs more with what it has: {shorten(error.message, 120)}"
            case _:
                return _RULES.get(rule or "", f"breaks the rule {rule!r}")

    def unmatched(self, text: str, value: str) -> str:
        written = self.normal.patterns[text]
        limit = read_pattern(written).limit
        if len(value) > limit:
            return f"is longer than the {limit:,} characters its pattern can be checked on"
        return f"must match the pattern {shorten(written, 100)!r}, not {_shown(value)}"

    def extras(self, error: Any, path: tuple[str | int, ...]) -> Iterator[Problem]:
        schema, alone = error.schema, error.validator == "additionalProperties"
        known = list(dict.fromkeys(schema.get("properties", ()) if alone else self.declared(schema)))
        patterns = schema.get("patternProperties", ())
        extras = [k for k in error.instance if k not in known and not any(re.search(p, k) for p in patterns)]
        free = [name for name in known if name not in error.instance]
        for key in extras:
            guess = did_you_mean(key, free) or (f"; known are {_list(known)}" if known else "")
            message = shorten(f"is not known here{guess}", _LONGEST)
            yield Problem(pointer(*path, key), "additionalProperties", message)
        if not extras:
            message = "has a property that the shape it fits does not know"
            yield Problem(pointer(*path), "additionalProperties", message)

    def declared(self, schema: Json) -> Iterator[str]:
        """The property names that a schema, or one that applies together with it, declares."""
        if not isinstance(schema, dict):
            return
        yield from schema.get("properties", ())
        if "$ref" in schema:
            yield from self.declared(target_of(self.normal.document, schema["$ref"]))
        for keyword in ("allOf", "anyOf", "oneOf"):
            for part in schema.get(keyword, ()):
                yield from self.declared(part)
        for keyword in ("then", "else"):
            yield from self.declared(schema.get(keyword))

    def alternatives(self, error: Any, path: tuple[str | int, ...]) -> Iterator[Problem]:
        """What the alternative that was meant says, if one can be told; else what they all want."""
        branches: dict[Any, list[Any]] = {}
        for inner in error.context:
            branches.setdefault(inner.schema_path[0], []).append(inner)
        near = [errors for errors in branches.values() if not any(map(_is_another_kind, errors))]
        if len(near) > 1:
            near = [errors for errors in near if not any(map(_is_another_name, errors))] or near
        if len(near) == 1:
            for inner in near[0]:
                yield from self.tell(inner, path + tuple(inner.relative_path))
        elif near:
            message = f"fits none of the {len(branches)} shapes allowed here"
            yield Problem(pointer(*path), error.validator, message)
        else:
            yield Problem(pointer(*path), error.validator, _none_of(branches.values(), error.instance))


_RULES = {
    "uniqueItems": "has the same item twice",
    "contains": "has no item of the kind it must contain",
    "minContains": "has too few items of the kind it must contain",
    "maxContains": "has too many items of the kind it may contain",
    "items": "has more items than are allowed",
    "unevaluatedItems": "has more items than are allowed",
    "not": "is what is not allowed here",
    "oneOf": "fits more than one of the shapes of which it must fit exactly one",
    "": "is not allowed here",
}


def _is_another_kind(error: Any) -> bool:
    return not error.relative_path and error.validator in ("type", "const", "enum")


def _is_another_name(error: Any) -> bool:
    """An alternative is told from the others by one property with a fixed value."""
    return len(error.relative_path) == 1 and error.validator in ("const", "enum")


def _none_of(branches: Iterable[list[Any]], value: Json) -> str:
    wanted: list[str] = []
    for errors in branches:
        error = next(filter(_is_another_kind, errors))
        said = error.validator_value
        listed = said if isinstance(said, list) and error.validator != "const" else [said]
        wanted += [_KINDS[name] if error.validator == "type" else _shown(name) for name in listed]
    return f"must be {_or(wanted)}, not {_shown(value)}"


def _choice(allowed: list[Json], value: Json) -> str:
    texts = [v for v in allowed if isinstance(v, str)]
    guess = did_you_mean(value, texts) if isinstance(value, str) else ""
    wanted = [_quoted(v) if isinstance(v, str) else _shown(v) for v in allowed]
    return f"must be {_or(wanted)}, not {_shown(value)}{guess}"


def _shown(value: Json) -> str:
    """A value in a sentence: scalars as JSON with single quotes, containers by kind and size."""
    if isinstance(value, str):
        return f"the text {_quoted(value)}" if value else "an empty text"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, int) and value.bit_length() > 200:
        return "a very long number"
    return "an object" if isinstance(value, dict) else shorten(json.dumps(value), 40)


def _quoted(text: str) -> str:
    return f"'{shorten(text, 40)}'"


def _or(items: list[str], word: str = "or") -> str:
    several = list(dict.fromkeys(items))
    if len(several) > 8:
        several = [*several[:7], f"{len(several) - 7} others"]
    if not several:
        return "one of no values at all"
    head = ", ".join(several[:-1])
    return f"{head} {word} {several[-1]}" if head else several[0]


def _list(names: list[str]) -> str:
    return _or([_quoted(name) for name in names], "and")


def _a(name: str) -> str:
    return f"an {name}" if name[0] in "aeio" else f"a {name}"
