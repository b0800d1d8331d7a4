"""Plans in the form that strict structured output accepts, and back.

A service with strict output wants every object closed and every property required, no free-form object, few keywords,
bounded depth and size. So, in the strict form:

    what is not said             is null: `"when": null`, also an argument that is left out
    null that is meant           {"$": "None"} where the argument may be left out, else null
    until next every max         stand together in "repeat"
    any JSON (value, output, an argument without a closed schema, what is nested too deep, an object of any keys)
                                 text, number, true, false as they are; else {"$json": "JSON text"}, a template
    cannot_plan                  beside "steps", and one of the two is null
    goal, inputs                 are those of the request, and not in it

Bounds of keywords (`minimum`, `pattern`, …) are left to the check. Where the schema with every tool's arguments would
be too large, all arguments are {"$json": …}.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from ..policies.errors import BadInput
from ..registry.normal import target_of
from ..registry.registry import Registry
from ..registry.tools import Tool
from .findings import Finding, PlanUnreadable, pointer_to
from .plan import DEEPEST_GROUP, Patch, Plan, Step
from .sources import read_json

__all__ = ["STRICT_RULES", "from_strict", "strict_schema", "to_strict"]

Json: TypeAlias = Any

STRICT_RULES = """\
# The form of this answer
Every property is there; one that you do not need is null. Null as an argument means that it is left out; for a null \
that is meant write {"$":"None"}. Where no list or object fits, write {"$json":"…"} with the JSON as text; expressions \
may stand in it: {"$json":"{\\"total\\":{\\"$\\":\\"sum(sizes)\\"}}"}. If the goal cannot be reached, "cannot_plan" says \
why and the rest is null."""

_JSON = "$json"
_NULL = {"$": "None"}
_DEEP = 2
"""Objects inside an argument: with groups, a step, its repeat and an expression that makes ten levels, the most allowed."""
_PARTS = 300
"""Parts of one tool's arguments; more become JSON text."""
_CHOICES = 250
_PROPERTIES, _ENUMS, _TEXT = 5_000, 1_000, 100_000
"""Bounds of a whole schema, those of the strictest of the large services (120,000 characters) with some room."""
_SCALARS = ("string", "number", "boolean")


class Scalar(NamedTuple):
    """A value that stands as it is: `schema` is a type, or a list of choices."""

    schema: dict[str, Json]


class Fields(NamedTuple):
    """An object with these keys and no others."""

    fields: dict[str, Shape]
    required: frozenset[str]


class Items(NamedTuple):
    """A list."""

    item: Shape


class Either(NamedTuple):
    """One of these."""

    options: tuple[Shape, ...]


class Free(NamedTuple):
    """Scalars of these types, and anything else as JSON text."""

    types: tuple[str, ...] = ()


Shape: TypeAlias = "Scalar | Fields | Items | Either | Free"
ANYTHING = Free(_SCALARS)


def strict_schema(registry: Registry, *, patch: bool = False) -> dict[str, Any]:
    """The JSON Schema of the strict form of a plan, or of a patch, with these tools."""
    return _schema(_shapes(registry), patch)


def to_strict(plan: Plan | Patch, registry: Registry) -> dict[str, Any]:
    """The strict form of a plan's steps and output, or of a patch. Raises `BadInput` where it has none.

    A plan that passes the check has one, unless it names tools that are not in the registry.
    """
    write = _Write(_shapes(registry), patch=isinstance(plan, Patch))
    output = write.free(plan.output) if "output" in plan.model_fields_set else None
    if isinstance(plan, Patch):
        return {
            "drop": plan.drop,
            "add": [write.step(s) for s in plan.add],
            "output": output,
            "cannot_plan": None,
        }
    return {"steps": [write.step(s) for s in plan.steps], "output": output, "cannot_plan": None}


def from_strict(document: Json, registry: Registry) -> Json:
    """The plan or patch document that an answer in the strict form is.

    A document in the usual form stays what it is, but for null as an argument that may be left out. Raises `PlanUnreadable` where text that should be JSON is none. What else is wrong is left for the reader to find.
    """
    if not isinstance(document, dict):
        return document
    read = _Read(_shapes(registry))
    out = {key: value for key, value in document.items() if value is not None}
    for key in ("steps", "add"):
        if isinstance(out.get(key), list):
            out[key] = [read.step(step, f"/{key}/{i}") for i, step in enumerate(out[key])]
    if "output" in out:
        out["output"] = read.value(out["output"], ANYTHING, "/output")
    return out


# ---- what a tool takes ---------------------------------------------------------------------------------------------


def _shapes(registry: Registry) -> dict[str, Shape]:
    """The shape of each tool's arguments; all of them free where the schema would be larger than allowed."""
    tools = sorted(registry, key=lambda tool: tool.name)
    shapes = {tool.name: _Taken(tool).arguments() for tool in tools}
    free: dict[str, Shape] = {tool.name: Free() for tool in tools}
    return shapes if _fits(_schema(shapes, True)) else free


class _Taken:
    """Reads the shape of a tool's arguments off its schema."""

    def __init__(self, tool: Tool) -> None:
        self.document = tool.input.normal.document
        self.parts = 0

    def arguments(self) -> Shape:
        root = self.document if isinstance(self.document, dict) else {}
        shape = self.shape({"type": "object", **root}, _DEEP + 1)
        return shape if isinstance(shape, Fields) else Free()

    def shape(self, schema: Json, deep: int) -> Shape:
        self.parts += 1
        if not isinstance(schema, dict) or self.parts > _PARTS:
            return ANYTHING if schema is not False else Free()
        if "$ref" in schema and len(schema) == 1:
            return self.shape(target_of(self.document, schema["$ref"]), deep)
        if "const" in schema or "enum" in schema:
            return _choice([schema["const"]] if "const" in schema else schema["enum"])
        several = schema.get("anyOf", schema.get("oneOf"))
        if several is not None and schema.keys() <= {"anyOf", "oneOf", "type"}:
            return _either([self.shape(part, deep) for part in several])
        if schema.keys() & {"$ref", "anyOf", "oneOf", "allOf"}:
            return Free(tuple(t for t in _types(schema) if t in (*_SCALARS, "integer", "null")))
        types = _types(schema)
        return _either([self.typed(schema, type, deep) for type in types]) if "type" in schema else ANYTHING

    def typed(self, schema: dict[str, Json], type: str, deep: int) -> Shape:
        if type == "object":
            return self.fields(schema, deep)
        if type == "array":
            item = schema.get("items", True)
            return Free() if "prefixItems" in schema else Items(self.shape(item, deep))
        return Scalar({"type": type})

    def fields(self, schema: dict[str, Json], deep: int) -> Shape:
        properties = schema.get("properties", {})
        closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
        if not closed or deep == 0 or any(name.startswith("$") for name in properties):
            return Free()
        fields = {name: self.shape(part, deep - 1) for name, part in properties.items()}
        return Fields(fields, frozenset(schema.get("required", ())) & fields.keys())


def _types(schema: dict[str, Json]) -> tuple[str, ...]:
    said = schema.get("type", (*_SCALARS, "null"))
    return (said,) if isinstance(said, str) else tuple(said)


def _either(options: list[Shape]) -> Shape:
    flat: list[Shape] = []
    for option in options:
        flat += [o for o in (option.options if isinstance(option, Either) else (option,)) if o not in flat]
    return flat[0] if len(flat) == 1 else Either(tuple(flat))


def _choice(values: list[Json]) -> Shape:
    """Choices by their type, as strict output wants them; not listed where there are very many."""
    kinds: dict[str, list[Json]] = {}
    for value in values:
        kinds.setdefault(_type_of(value), []).append(value)
    if kinds.keys() & {"object", "array"}:
        return ANYTHING
    return _either(
        [
            Scalar({"type": t} if t == "null" or len(v) > _CHOICES else {"type": t, "enum": v})
            for t, v in kinds.items()
        ]
    )


def _type_of(value: Json) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


# ---- the schema ----------------------------------------------------------------------------------------------------


def _schema(shapes: Mapping[str, Shape], patch: bool) -> dict[str, Any]:
    defs = _language()
    kinds = _kinds(shapes)
    common = _common(patch)
    if kinds:
        undo = [_closed({"tool": _among(names), "args": _arguments(shape)}) for names, shape in kinds]
        defs["undo"] = {"anyOf": undo}
    for n, (names, shape) in enumerate(kinds):
        defs[f"call_{n}"] = _call(names, shape, common)
    defs["value"] = _closed({"id": _STRING, "value": {"anyOf": _options(ANYTHING)}} | common)
    defs["step"] = {"anyOf": [*(_ref(f"call_{n}") for n in range(len(kinds))), _ref("value")]}
    for depth in range(DEEPEST_GROUP, 0, -1):
        inside = [_ref("step")] + ([_ref(f"group_{depth + 1}")] if depth < DEEPEST_GROUP else [])
        group = {"id": _STRING, "steps": _list({"anyOf": inside}), "output": _optional(ANYTHING)}
        defs[f"group_{depth}"] = _closed(group | common)
    steps = _or_null(_list({"anyOf": [_ref("step"), _ref("group_1")]}))
    ends = {"output": _optional(ANYTHING), "cannot_plan": _or_null(_STRING)}
    begin = {"drop": _or_null(_list(_STRING)), "add": steps} if patch else {"steps": steps}
    return {**_closed(begin | ends), "$defs": defs}


_STRING = {"type": "string"}


def _language() -> dict[str, Json]:
    expression = _closed({"$": _STRING}) | {"description": "computed in the run, by a Python expression"}
    text = _closed({_JSON: _STRING}) | {"description": "any JSON, as text"}
    return {"expression": expression, "json": text}


def _kinds(shapes: Mapping[str, Shape]) -> list[tuple[list[str], Shape]]:
    """The branches of calls: one a tool, and one for all whose arguments are free."""
    free = sorted(name for name, shape in shapes.items() if isinstance(shape, Free))
    kinds: list[tuple[list[str], Shape]] = [([n], s) for n, s in shapes.items() if n not in free]
    return [*kinds, (free, Free())] if free else kinds


def _call(names: list[str], shape: Shape, common: dict[str, Json]) -> Json:
    some = shape._replace(required=frozenset()) if isinstance(shape, Fields) else shape
    repeat = {"until": _optional(Scalar({"type": "boolean"})), "next": _or_null(_arguments(some))}
    repeat |= {"every": _or_null({"type": "number"}), "max": _or_null({"type": "integer"})}
    call = {"id": _STRING, "tool": _among(names), "args": _arguments(shape)}
    return _closed(call | common | {"repeat": _or_null(_closed(repeat)), "undo": _or_null(_ref("undo"))})


def _common(patch: bool) -> dict[str, Json]:
    fields = {
        "each": _optional(Free()),
        "as": _or_null(_STRING),
        "when": _optional(Scalar({"type": "boolean"})),
    }
    fields |= {
        "after": _or_null(_list(_STRING)),
        "on_failure": _or_null({"type": "string", "enum": ["stop", "skip"]}),
        "per": _or_null({"type": "string", "enum": ["batch", "row"]}),
    }
    return fields | ({"replaces": _or_null(_STRING)} if patch else {})


def _arguments(shape: Shape) -> Json:
    """All arguments of a call: an object, and never an expression."""
    return _own(shape)[0] if isinstance(shape, Fields) else _or_null(_ref("json"))


def _options(shape: Shape) -> list[Json]:
    """What may stand in a place of this shape."""
    return [*_own(shape), _ref("expression")]


def _own(shape: Shape) -> list[Json]:
    match shape:
        case Scalar(schema):
            return [schema]
        case Fields(fields, required):
            places = {k: {"anyOf": _options(s)} if k in required else _optional(s) for k, s in fields.items()}
            return [_closed(places)]
        case Items(item):
            return [_list({"anyOf": _options(item)})]
        case Either(options):
            return list({json.dumps(o): o for option in options for o in _own(option)}.values())
        case Free(types):
            return [*({"type": type} for type in types), _ref("json")]


def _optional(shape: Shape) -> Json:
    return _or_null({"anyOf": _options(shape)})


def _or_null(schema: Json) -> Json:
    options = schema["anyOf"] if schema.keys() == {"anyOf"} else [schema]
    null = {"type": "null"}
    return {"anyOf": [*options, *([] if null in options else [null])]}


def _closed(properties: dict[str, Json]) -> dict[str, Json]:
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


def _list(items: Json) -> Json:
    return {"type": "array", "items": items}


def _among(names: list[str]) -> Json:
    return {"type": "string", "enum": names}


def _ref(name: str) -> Json:
    return {"$ref": f"#/$defs/{name}"}


def _fits(schema: Json) -> bool:
    parts = list(_objects(schema))
    properties = sum(len(part.get("properties", ())) for part in parts)
    choices = sum(len(part.get("enum", ())) for part in parts)
    return (
        properties <= _PROPERTIES
        and choices <= _ENUMS
        and len(json.dumps(schema, ensure_ascii=False)) <= _TEXT
    )


def _objects(schema: Json) -> Iterator[dict[str, Json]]:
    if isinstance(schema, dict):
        yield schema
        for part in schema.values():
            yield from _objects(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _objects(part)


# ---- there and back ------------------------------------------------------------------------------------------------


class _Write:
    """Writes steps in the strict form."""

    def __init__(self, shapes: Mapping[str, Shape], *, patch: bool) -> None:
        self.shapes = shapes
        self.patch = patch

    def step(self, step: Step) -> dict[str, Json]:
        said: dict[str, Json] = {"id": step.id}
        if step.steps is not None:
            said |= {
                "steps": [self.step(inside) for inside in step.steps],
                "output": self.said(step, "output"),
            }
        elif step.tool is not None:
            said |= {"tool": step.tool, "args": self.arguments(step.tool, step.args)}
        else:
            said["value"] = self.free(step.value) if step.value is not None else {_JSON: "null"}
        said |= {"each": self.said(step, "each", Free()), "as": step.as_, "when": self.said(step, "when")}
        said |= {
            "after": step.after if step.has("after") else None,
            "on_failure": step.on_failure if step.has("on_failure") else None,
            "per": step.per,
        }
        if self.patch:
            said["replaces"] = step.replaces
        return said | (self.more(step) if step.tool is not None else {})

    def more(self, step: Step) -> dict[str, Json]:
        undo = step.undo and {"tool": step.undo.tool, "args": self.arguments(step.undo.tool, step.undo.args)}
        repeat: Json = None
        if any(map(step.has, ("until", "next", "every", "max"))):
            assert step.tool is not None
            following = None if step.next is None else self.arguments(step.tool, step.next, some=True)
            repeat = {
                "until": self.said(step, "until"),
                "next": following,
                "every": step.every,
                "max": step.max,
            }
        return {"repeat": repeat, "undo": undo}

    def said(self, step: Step, field: str, shape: Shape = ANYTHING) -> Json:
        if not step.has(field):
            return None
        value = getattr(step, field)
        return {_JSON: "null"} if value is None else _written(value, shape, field)

    def free(self, value: Json) -> Json:
        return {_JSON: "null"} if value is None else _written(value, ANYTHING, "output")

    def arguments(self, tool: str, args: dict[str, Json], *, some: bool = False) -> Json:
        if tool not in self.shapes:
            raise BadInput(
                f"the strict form knows the tools of its registry only, and {tool!r} is not one of them"
            )
        shape = self.shapes[tool]
        if isinstance(shape, Fields):
            return _written(args, shape._replace(required=frozenset()) if some else shape, tool)
        return {_JSON: _dumped(args)}


def _written(value: Json, shape: Shape, where: str) -> Json:
    if _is_expression(value):
        return value
    match shape:
        case Scalar(schema) if _holds(schema, value):
            return value
        case Free(types):
            return value if any(_holds({"type": t}, value) for t in types) else {_JSON: _dumped(value)}
        case Items(item) if isinstance(value, list):
            return [_written(v, item, f"{where}[{i}]") for i, v in enumerate(value)]
        case Fields(fields, required) if (
            isinstance(value, dict) and required <= value.keys() <= fields.keys()
        ):
            return {k: _field(value, k, s, k in required, f"{where}.{k}") for k, s in fields.items()}
        case Either(options):
            for option in options:
                try:
                    return _written(value, option, where)
                except BadInput:
                    continue
    raise BadInput(f"the strict form cannot say {where}: the value is not of the type that the tool takes")


def _field(value: Mapping[str, Json], key: str, shape: Shape, required: bool, where: str) -> Json:
    if key not in value:
        return None
    if value[key] is None and not required:
        return dict(_NULL)
    return _written(value[key], shape, where)


def _holds(schema: Mapping[str, Json], value: Json) -> bool:
    kind, found = schema["type"], _type_of(value)
    whole = kind == "integer" and found == "number" and float(value).is_integer()
    return (kind == found or whole) and value in schema.get("enum", [value])


def _is_expression(value: Json) -> bool:
    return isinstance(value, dict) and value.keys() == {"$"}


def _dumped(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)


class _Read:
    """Reads steps in the strict form."""

    def __init__(self, shapes: Mapping[str, Shape]) -> None:
        self.shapes = shapes

    def step(self, step: Json, at: str) -> Json:
        if not isinstance(step, dict):
            return step
        kept = {k: v for k, v in step.items() if v is not None or (k == "value" and "tool" not in step)}
        repeat = kept.pop("repeat", None)
        if isinstance(repeat, dict):
            kept |= {k: v for k, v in repeat.items() if v is not None}
        for field in kept.keys() & {"each", "when", "until", "value", "output"}:
            kept[field] = self.value(kept[field], ANYTHING, f"{at}/{field}")
        for field in kept.keys() & {"args", "next"}:
            kept[field] = self.arguments(kept.get("tool"), kept[field], f"{at}/{field}", some=field == "next")
        if isinstance(kept.get("undo"), dict) and "args" in kept["undo"]:
            undo = kept["undo"]
            kept["undo"] = undo | {"args": self.arguments(undo.get("tool"), undo["args"], f"{at}/undo/args")}
        if isinstance(kept.get("steps"), list):
            kept["steps"] = [self.step(inside, f"{at}/steps/{i}") for i, inside in enumerate(kept["steps"])]
        return kept

    def arguments(self, tool: Json, args: Json, at: str, *, some: bool = False) -> Json:
        if args is None:
            return {}
        shape = self.shapes.get(tool) if isinstance(tool, str) else None
        if some and isinstance(shape, Fields):
            shape = shape._replace(required=frozenset())
        return self.value(args, shape or ANYTHING, at)

    def value(self, value: Json, shape: Shape, at: str) -> Json:
        if isinstance(value, dict) and value.keys() == {_JSON} and isinstance(value[_JSON], str):
            return _loaded(value[_JSON], at)
        if _is_expression(value):
            return value
        shape = _meant(value, shape)
        if isinstance(value, list):
            item = shape.item if isinstance(shape, Items) else ANYTHING
            return [self.value(v, item, f"{at}/{i}") for i, v in enumerate(value)]
        if isinstance(value, dict):
            return dict(
                self.fields(value, shape if isinstance(shape, Fields) else Fields({}, frozenset()), at)
            )
        return value

    def fields(self, value: dict[str, Json], shape: Fields, at: str) -> Iterator[tuple[str, Json]]:
        for key, part in value.items():
            may_lack = key in shape.fields and key not in shape.required
            if not may_lack or (part is not None and part != _NULL):
                yield key, self.value(part, shape.fields.get(key, ANYTHING), pointer_to(key, within=at))
            elif part == _NULL:
                yield key, None


def _meant(value: Json, shape: Shape) -> Shape:
    """The one of several shapes that this value has: by its keys, where it is an object."""
    if not isinstance(shape, Either):
        return shape
    if isinstance(value, list):
        return next((o for o in shape.options if isinstance(o, Items)), ANYTHING)
    fields = [o for o in shape.options if isinstance(o, Fields)]
    if isinstance(value, dict) and fields:
        return max(
            fields, key=lambda o: len(o.fields.keys() & value.keys()) - len(o.fields.keys() ^ value.keys())
        )
    return ANYTHING


def _loaded(text: str, at: str) -> Json:
    try:
        return read_json(text)
    except PlanUnreadable as error:
        message = f"the text in {_JSON!r} is no JSON: {error.findings[0].message}"
        raise PlanUnreadable([Finding("bad_answer", "error", at, message)]) from None
