"""JSON Schemas of the plan document for the tools of one registry: what a model's answer is held to.

    full      every tool a branch with its own arguments, each of them as the tool says or an expression, at any depth;
              value steps, groups, repeats, undo                          for validators, and services that take schemas
    strict    the same in what strict structured output accepts           see `strict_form`, which also reads it back
    compact   names of tools and arguments, their types left to the check  where full is too large

What the check accepts is valid here. The converse does not hold: types of expressions, rings, unknown names are the
check's. So a tool's schema is widened where an expression may stand inside: `oneOf` becomes `anyOf`, and `not`, `if`
and the like, which would answer differently for an expression, are left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeAlias

from ..registry.normal import inner
from ..registry.registry import Registry
from ..registry.tools import Tool
from .plan import DEEPEST_GROUP
from .prompt import answer_schema
from .strict_form import from_strict, strict_schema, to_strict

__all__ = [
    "LARGEST",
    "Form",
    "from_strict",
    "plan_schema",
    "response_schema",
    "to_strict",
]

Json: TypeAlias = Any
Form = Literal["full", "strict", "compact"]

LARGEST = 100_000
"""Characters of a schema that is sent with a request; large services refuse more than about 120,000."""

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_ID = {"type": "string", "pattern": "^[a-z][a-z0-9_]{0,63}$"}
_TEXT = {"type": "string"}
_IDS = {"type": "array", "items": _TEXT}
_ENDS = {"enum": ["stop", "skip"]}
_SPECIAL = ["$", "$literal"]

_OTHERWISE = frozenset({"not", "if", "then", "else", "dependentSchemas"})
"""Keywords whose answer for an expression says nothing of the value it will have."""
_VALUES = frozenset(
    {"additionalProperties", "items", "contains", "unevaluatedItems", "unevaluatedProperties"}
)


def plan_schema(registry: Registry, *, form: Form = "full", patch: bool = False) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a plan with these tools, or of a patch, or of `cannot_plan`.

    `replaces` is known in patches only; a plan that was patched holds it and does not fit the schema of a plan. A
    strict schema is of the strict form: `from_strict` turns an answer into the document.
    """
    match form:
        case "full":
            return _full(registry, patch)
        case "strict":
            return strict_schema(registry, patch=patch)
        case "compact":
            return _compact(registry, patch)


def response_schema(registry: Registry, *, form: Form = "full", patch: bool = False) -> dict[str, Any]:
    """The schema to send with a request: the form asked for or, where that is larger than `LARGEST`, the next smaller.

    full -> compact -> names of tools only. A strict schema has a smaller form of its own, in which arguments are JSON
    text, and no other stands for it.
    """
    forms: list[Callable[[], dict[str, Any]]] = [lambda: plan_schema(registry, form=form, patch=patch)]
    if form == "strict":
        return forms[0]()
    if form == "full":
        forms.append(lambda: _compact(registry, patch))
    for make in forms:
        schema = make()
        if len(json.dumps(schema, ensure_ascii=False)) <= LARGEST:
            return schema
    return answer_schema(registry.names, patch=patch)


# ---- full ----------------------------------------------------------------------------------------------------------


def _full(registry: Registry, patch: bool) -> dict[str, Any]:
    tools = sorted(registry, key=lambda tool: tool.name)
    defs = _language()
    for tool in tools:
        defs |= _arguments(tool)
    if tools:
        defs["undo"] = {"anyOf": [_object(_call(tool), _needed(tool)) for tool in tools]}
    common = _common(patch)
    for tool in tools:
        defs[f"call:{tool.name}"] = _object(
            {"id": _ID} | _call(tool) | common | _repeats(tool), ["id", *_needed(tool)]
        )
    defs["step"] = {"anyOf": [_ref(f"call:{tool.name}") for tool in tools] + [_ref("value")]}
    defs["value"] = _object({"id": _ID, "value": _ref("template")} | common, ["id", "value"])
    for depth in range(DEEPEST_GROUP, 0, -1):
        inside = [_ref("step")] + ([_ref(f"group:{depth + 1}")] if depth < DEEPEST_GROUP else [])
        fields = {"id": _ID, "steps": _steps(inside), "output": _ref("template")}
        defs[f"group:{depth}"] = _object(fields | common, ["id", "steps"])
    steps = _steps([_ref("step"), _ref("group:1")])
    return {"$schema": _DIALECT, "anyOf": _answers(steps, _ref("template"), patch), "$defs": defs}


def _language() -> dict[str, Json]:
    """What is the same for every registry: expressions, templates, the places where only some may stand."""
    expression = _object({"$": _TEXT}, ["$"]) | {"description": "computed in the run, by a Python expression"}
    literal = _object({"$literal": {}}, ["$literal"]) | {"description": "this value, whatever stands in it"}
    special = _ref("expression")
    plain = {"type": "object", "propertyNames": _PLAIN_NAMES, "additionalProperties": _ref("template")}
    several = {"type": "array", "items": _ref("template")}
    scalar = {"type": ["string", "number", "boolean", "null"]}
    return {
        "expression": {"anyOf": [expression, literal]},
        "template": {"anyOf": [scalar, several, special, plain]},
        "list": {"anyOf": [several, special], "description": "the step runs once per item"},
        "condition": {"anyOf": [{"type": "boolean"}, special]},
    }


_PLAIN_NAMES = {"not": {"enum": _SPECIAL}}


def _common(patch: bool) -> dict[str, Json]:
    fields = {"each": _ref("list"), "as": _ID, "when": _ref("condition"), "after": _IDS, "on_failure": _ENDS}
    fields["per"] = {"enum": ["batch", "row"]}
    return fields | ({"replaces": _TEXT} if patch else {})


def _call(tool: Tool) -> dict[str, Json]:
    return {"tool": {"const": tool.name}, "args": _ref(f"args:{tool.name}")}


def _needed(tool: Tool) -> list[str]:
    document = tool.input.normal.document
    return ["tool", "args"] if isinstance(document, dict) and document.get("required") else ["tool"]


def _repeats(tool: Tool) -> dict[str, Json]:
    return {
        "until": _ref("condition"),
        "next": _ref(f"next:{tool.name}"),
        "every": {"type": "number", "minimum": 0},
        "max": {"type": "integer", "minimum": 1},
        "undo": _ref("undo"),
    }


def _answers(steps: Json, value: Json, patch: bool) -> list[Json]:
    """A plan or a patch, and the answer that there is none."""
    if patch:
        answer = _object({"drop": _IDS, "add": steps, "output": value}, []) | {"minProperties": 1}
    else:
        head = {"foreplan": {"const": 1}, "goal": _TEXT, "inputs": {"type": "object"}}
        answer = _object(head | {"steps": steps | {"minItems": 1}, "output": value}, ["steps"])
    return [answer, _object({"cannot_plan": {"type": "string", "minLength": 1}}, ["cannot_plan"])]


def _steps(kinds: list[Json]) -> dict[str, Json]:
    return {"type": "array", "items": {"anyOf": kinds}}


def _ref(name: str) -> dict[str, Json]:
    return {"$ref": f"#/$defs/{name}"}


def _object(properties: dict[str, Json], required: list[str]) -> dict[str, Json]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _arguments(tool: Tool) -> dict[str, Json]:
    """The definitions of a tool: its arguments, those of the next call of a repeat (any of them), what both refer to."""
    lifted = _Lifted(tool)
    root: dict[str, Json] = {"type": "object"} | lifted.same(lifted.document)
    some = {k: v for k, v in root.items() if k != "required"}
    if root.keys() & {"$ref", "allOf", "anyOf", "oneOf", "unevaluatedProperties"}:
        some = {"type": "object", "propertyNames": _PLAIN_NAMES, "additionalProperties": _ref("template")}
    named = {name: lifted.same(part) for name, part in lifted.parts()}
    return {f"args:{tool.name}": root, f"next:{tool.name}": some, **named}


class _Lifted:
    """Rewrites the closed schema of a tool so that an expression may stand in place of any value."""

    def __init__(self, tool: Tool) -> None:
        normal = tool.input.normal
        self.document: dict[str, Json] = normal.document if isinstance(normal.document, dict) else {}
        self.patterns = normal.patterns
        defs = self.document.get("$defs", {})
        self.names = {f"#/$defs/{_escaped(name)}": f"args:{tool.name}:{i}" for i, name in enumerate(defs)}
        self.names["#"] = f"args:{tool.name}"
        self.exact = not any(_doubtful(part) for part in (self.document, *defs.values()))

    def parts(self) -> Iterator[tuple[str, Json]]:
        for name, part in self.document.get("$defs", {}).items():
            yield self.names[f"#/$defs/{_escaped(name)}"], part

    def place(self, schema: Json) -> Json:
        """Of a place in which a value of this schema, or an expression, stands."""
        if schema is True or schema == {}:
            return _ref("template")
        if schema is False:
            return False
        same = self.same(schema)
        if schema.get("type") == "object" and schema.keys() <= {"type", "minProperties", "maxProperties"}:
            same["additionalProperties"] = _ref("template")
        if schema.get("type") == "array" and not schema.keys() & {"items", "prefixItems", "contains"}:
            same["items"] = _ref("template")
        options = same["anyOf"] if same.keys() == {"anyOf"} else [same]
        return {"anyOf": [*options, _ref("expression")]}

    def same(self, schema: Json) -> Any:
        """Of the value itself: an expression may stand inside it, not in its place."""
        if not isinstance(schema, dict):
            return schema
        out: dict[str, Json] = {}
        for keyword, said in schema.items():
            if keyword not in _OTHERWISE and keyword != "$defs":
                self.keyword(keyword, said, out)
        if "object" in _types(schema) and out.get("additionalProperties") is not False:
            _and(out, "propertyNames", _PLAIN_NAMES)
        return out

    def keyword(self, keyword: str, said: Json, out: dict[str, Json]) -> None:
        match keyword:
            case "$ref":
                out["$ref"] = _ref(self.names[said])["$ref"]
            case "anyOf" | "oneOf":
                _and(out, "anyOf", [self.same(part) for part in said])
            case "allOf":
                out["allOf"] = [*out.get("allOf", []), *map(self.same, said)]
            case "prefixItems":
                out[keyword] = [self.place(part) for part in said]
            case "pattern":
                original: str = self.patterns.get(said) or said
                if _readable(original):
                    out[keyword] = original
            case "multipleOf":
                if isinstance(said, int):
                    out[keyword] = said
            case "unevaluatedProperties" | "unevaluatedItems" if not self.exact:
                pass
            case _ if keyword in _VALUES:
                out[keyword] = self.place(said)
            case "properties":
                out[keyword] = {name: self.place(part) for name, part in said.items()}
            case "patternProperties":
                patterns = {self.patterns.get(text, text): part for text, part in said.items()}
                out[keyword] = {text: self.place(part) for text, part in patterns.items() if _readable(text)}
            case _:
                out[keyword] = said


def _and(schema: dict[str, Json], keyword: str, said: Json) -> None:
    """Say one keyword more, which may be there already."""
    if keyword in schema:
        schema["allOf"] = [*schema.get("allOf", []), {keyword: said}]
    else:
        schema[keyword] = said


def _types(schema: dict[str, Json]) -> list[str]:
    said = schema.get("type", [])
    return [said] if isinstance(said, str) else list(said)


def _doubtful(schema: Json) -> bool:
    """Whether something is left out of this schema, so that what it leaves unevaluated is not known."""
    if not isinstance(schema, dict):
        return False
    return bool(schema.keys() & _OTHERWISE) or any(_doubtful(part) for _, part in inner(schema))


def _readable(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


# ---- compact -------------------------------------------------------------------------------------------------------


def _compact(registry: Registry, patch: bool) -> dict[str, Any]:
    """Names of tools and arguments, choices where a tool lists them; no groups, repeats and undo."""
    more: dict[str, Json] = {"each": {}, "as": _TEXT, "when": {}, "after": _IDS, "on_failure": _ENDS}
    more |= {"replaces": _TEXT} if patch else {}
    kinds = [
        _object(
            {"id": _ID, "tool": {"const": tool.name}, "args": _short(tool)} | more, ["id", *_needed(tool)]
        )
        for tool in sorted(registry, key=lambda tool: tool.name)
    ]
    steps = _steps([*kinds, _object({"id": _ID, "value": {}} | more, ["id", "value"])])
    answers = _answers(steps, {}, patch)
    if not patch:
        answers[0] = _object({"steps": steps | {"minItems": 1}, "output": {}}, ["steps"])
    return {"anyOf": answers, "$defs": {"$": _object({"$": _TEXT}, ["$"])}}


def _short(tool: Tool) -> Json:
    document = tool.input.document
    properties = document.get("properties") if isinstance(document, dict) else None
    if (
        not isinstance(properties, dict)
        or tool.input.normal.document.get("additionalProperties") is not False
    ):
        return {"type": "object"}
    return _object(
        {name: _choices(part) for name, part in properties.items()}, list(document.get("required", []))
    )


def _choices(schema: Json) -> Json:
    listed = schema.get("enum") if isinstance(schema, dict) else None
    plain = isinstance(listed, list) and all(isinstance(value, str) for value in listed)
    return {"anyOf": [{"enum": listed}, _ref("$")]} if plain and listed else {}
