"""Plans in the form that small models write best, and back: every value is one Python expression, as text.

    a document                                      the same in the Python form
    {"to": {"$": "inputs.to"}, "size": 3}           {"to": "inputs.to", "size": "3"}
    {"text": "done"}                                {"text": "'done'"}
    {"text": {"$": "f'Dear {user.name}'"}}          {"text": "f'Dear {user.name}'"}

A small model forgets the `$` of an expression and the quotes of a text. Here there is no `$` to forget, and the quotes
show by themselves: what is no expression, or speaks of nothing there is, is a text where the tool takes one. A name
that looks like one that there is stays an expression, so that the check finds the typing mistake.

Whether a step runs for each of several, and under which condition, is said of every call, with an empty text for no:
what may be left out is forgotten. Groups, repeats and undo have no place in it.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeAlias

from ..policies.expressions import Expression, ExpressionError, parse, rename
from ..policies.text import nearest
from ..registry.registry import Registry
from ..registry.tools import Tool

__all__ = ["from_python", "python_schema", "to_python"]

Json: TypeAlias = Any

_TEXT = {"type": "string"}
_ALWAYS = frozenset({"inputs", "run", "index"})
_WHETHER: dict[str, Json] = {"each": _TEXT, "as": _TEXT, "when": _TEXT}
_LITERAL = (ast.Constant, ast.List, ast.Dict, ast.UnaryOp, ast.USub, ast.Load)


# ---- the schema ----------------------------------------------------------------------------------------------------


def python_schema(registry: Registry, *, patch: bool = False) -> dict[str, Any]:
    """The JSON Schema of a plan, or of a patch, in this form.

    In the order in which a model has to write it: the tool tells whether it wants one of several, the item of `each` is
    named before it is used.
    """
    before: dict[str, Json] = {"id": {"type": "string", "pattern": "^[a-z][a-z0-9_]{0,63}$"}}
    before |= {"replaces": _TEXT} if patch else {}
    behind: dict[str, Json] = {"after": _list(_TEXT), "on_failure": {"enum": ["stop", "skip"]}}
    calls = [
        _object(
            before | {"tool": {"const": tool.name}} | _WHETHER | {"args": _arguments(tool)} | behind,
            ["id", "tool", "each", "when", "args"],
        )
        for tool in sorted(registry, key=lambda tool: tool.name)
    ]
    steps = _list({"anyOf": [*calls, _object(before | {"value": _TEXT} | behind, ["id", "value"])]})
    answer = {"drop": _list(_TEXT), "add": steps} if patch else {"steps": steps | {"minItems": 1}}
    whole = _object({**answer, "output": _TEXT}, ["add"] if patch else ["steps"])
    return {"anyOf": [whole, _object({"cannot_plan": _TEXT | {"minLength": 1}}, ["cannot_plan"])]}


def _arguments(tool: Tool) -> dict[str, Json]:
    properties = _properties(tool)
    if not properties:
        return {
            "type": "object",
            "additionalProperties": _TEXT if tool.input.document.get("properties") else False,
        }
    return _object(dict.fromkeys(properties, _TEXT), list(tool.input.document.get("required", [])))


def _properties(tool: Tool) -> Mapping[str, Json]:
    found = tool.input.document.get("properties") if isinstance(tool.input.document, dict) else None
    return found if isinstance(found, dict) else {}


def _list(items: Json) -> dict[str, Json]:
    return {"type": "array", "items": items}


def _object(properties: Mapping[str, Json], required: list[str]) -> dict[str, Json]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": required,
        "additionalProperties": False,
    }


# ---- from it -------------------------------------------------------------------------------------------------------


def from_python(document: Json, registry: Registry, *, names: Collection[str] = ()) -> Json:
    """The plan or patch document that an answer in this form is; `names` are steps that there are already.

    A value that is no text stays as it is, so a document in the usual form does, too.
    """
    if not isinstance(document, dict):
        return document
    out = dict(document)
    steps = [step for key in ("steps", "add") for step in _dicts(document.get(key))]
    read = _Read({*names, *_ALWAYS, *(step["id"] for step in steps if isinstance(step.get("id"), str))})
    for key in ("steps", "add"):
        if isinstance(out.get(key), list):
            out[key] = [_step(step, read, registry) if isinstance(step, dict) else step for step in out[key]]
    if "output" in out:
        out["output"] = read.value(out["output"])
    return out


def _dicts(value: Json) -> Iterator[dict[str, Json]]:
    return (item for item in value if isinstance(item, dict)) if isinstance(value, list) else iter(())


def _step(step: dict[str, Json], read: _Read, registry: Registry) -> dict[str, Json]:
    step = {key: part for key, part in step.items() if key not in _WHETHER or part != ""}
    inside = read.also(step.get("as"), "item") if "each" in step else read
    if isinstance(step.get("as"), str) and step["as"] == step.get("id"):
        inside = inside.calling(step["id"], f"{step['id']}_item")
        step = step | {"as": f"{step['id']}_item"}
    out = {key: read.expression(part) if key == "each" else part for key, part in step.items()}
    if "when" in out:
        out["when"] = inside.expression(out["when"])
    if "value" in out:
        out["value"] = inside.value(out["value"])
    if isinstance(args := out.get("args"), dict):
        tool = registry[step["tool"]] if step.get("tool") in registry else None
        known = {} if tool is None else _properties(tool)
        out["args"] = {
            name: inside.text_or(value) if _takes_text(known.get(name)) else inside.value(value)
            for name, value in args.items()
        }
    return out


def _takes_text(schema: Json) -> bool:
    if not isinstance(schema, dict):
        return False
    if isinstance(several := schema.get("anyOf"), list):
        return any(map(_takes_text, several))
    kinds = schema.get("type")
    return "string" in (kinds if isinstance(kinds, list) else [kinds]) or "enum" in schema


class _Read:
    """Reads values where these names can be spoken of, some of them under another name."""

    def __init__(self, names: set[Any], others: Mapping[str, str] | None = None) -> None:
        self.names = names
        self.others = others or {}

    def also(self, *names: Any) -> _Read:
        return _Read({*self.names, *(name for name in names if isinstance(name, str))})

    def calling(self, name: str, other: str) -> _Read:
        """An item that was given the name of its step: no step speaks of itself, so what is meant is clear."""
        return _Read({*self.names, other}, {name: other})

    def expression(self, value: Json) -> Json:
        """Where only an expression makes sense."""
        return (
            {"$": rename(value, self.others) if _parsed(value) else value}
            if isinstance(value, str)
            else value
        )

    def value(self, value: Json) -> Json:
        """Where anything may stand; what is no expression stays one, and the check says what is wrong with it."""
        return self._meant(parsed) if (parsed := _parsed(value)) else self.expression(value)

    def text_or(self, value: Json) -> Json:
        """Where a text may stand, whose quotes may be missing."""
        parsed = _parsed(value)
        if parsed is None:
            return self._braces(value) if isinstance(value, str) else value
        if (
            parsed.names
            and not parsed.names & self.names
            and not any(nearest(n, self.names) for n in parsed.names)
        ):
            return value
        return self._meant(parsed)

    def _braces(self, text: str) -> Json:
        """A text without its quotes, in which names stand in braces as in an f-string."""
        parsed = _parsed(f"f{text!r}")
        return self.expression(parsed.text) if parsed is not None and parsed.names & self.names else text

    def _meant(self, parsed: Expression) -> Json:
        """A literal as itself, so that who approves it sees a value; all else as an expression."""
        literal = all(isinstance(node, _LITERAL) for node in ast.walk(parsed.tree))
        return parsed.evaluate({}) if literal else self.expression(parsed.text)


def _parsed(value: Json) -> Expression | None:
    try:
        return parse(value) if isinstance(value, str) else None
    except ExpressionError:
        return None


# ---- to it ---------------------------------------------------------------------------------------------------------


def to_python(document: Mapping[str, Json]) -> dict[str, Json]:
    """A plan or patch document in this form."""
    out = dict(document)
    for key in ("steps", "add"):
        if isinstance(out.get(key), list):
            out[key] = [_told(step) for step in out[key]]
    if "output" in out:
        out["output"] = _source(out["output"])
    return out


def _told(step: Mapping[str, Json]) -> dict[str, Json]:
    written = {name: _written(name, part) for name, part in step.items()}
    if "tool" not in step:
        return written
    written = {"each": "", "when": "", "args": {}, **written}
    return {name: written[name] for name in _ORDER if name in written}


_ORDER = ("id", "replaces", "tool", "each", "as", "when", "args", "after", "on_failure")


def _written(name: str, part: Json) -> Json:
    if name in ("each", "when", "value"):
        return _source(part)
    return {key: _source(value) for key, value in part.items()} if name == "args" else part


def _source(value: Json) -> str:
    """The Python expression that gives this value."""
    match value:
        case {"$": str() as text} if len(value) == 1:
            return text
        case {"$literal": inner} if len(value) == 1:
            return _plain(inner)
        case dict():
            return _display(value, _source)
        case list():
            return f"[{', '.join(map(_source, value))}]"
        case _:
            return _plain(value)


def _plain(value: Json) -> str:
    match value:
        case dict():
            return _display(value, _plain)
        case list():
            return f"[{', '.join(map(_plain, value))}]"
        case str() | bool() | None:
            return repr(value)
        case _:
            return json.dumps(value)


def _display(value: Mapping[str, Json], inner: Callable[[Json], str]) -> str:
    return f"{{{', '.join(f'{key!r}: {inner(part)}' for key, part in value.items())}}}"
