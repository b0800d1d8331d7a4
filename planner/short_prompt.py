"""The same as `prompt.py` in half the words, for models that are small or read slowly.

What the Python form has no place for (groups, repeats, undo) is not told either. Tools are told as signatures:

    find(name: text, limit?: integer) -> [Person]: Find people. Reads.
      name: the family name
    # Types
    Person = {id: text, mail?: text or null}
"""

from __future__ import annotations

import builtins
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from ..policies.expressions import FUNCTIONS, METHODS
from ..registry.registry import Registry
from ..registry.tools import Tool
from .python_form import to_python

__all__ = ["SHORT_REMINDER", "SHORT_RULES", "short_examples", "short_functions", "short_tools"]

Json: TypeAlias = Any

SHORT_RULES = """\
You write plans: steps that call tools. A plan is checked first and run later, without you. Answer with one JSON \
object and nothing else:
{"steps": [...]}  a plan; with "output" where the goal asks for something to be told
{"cannot_plan": "why"}  if the listed tools cannot reach the goal

# A step
"id"  unique: small letters, digits, _
"tool"  one of the tools; "args"  what it is called with
"each"  where the tool takes one thing and there are several: their list. The step runs once per item, and its result \
is the list of results. "as" names the item. "" for one call
"when"  a condition: where it is false the step is skipped and its result is None. "" for always
"value"  in place of a call: something computed without a tool
"after"  ids of steps to wait for although no result of theirs is used
"on_failure": "skip"  if the step fails, go on with None

# Values
Every value (in "args", "each", "when", "value", "output") is one Python expression over inputs.NAME, the ids of \
steps, which stand for their results, and, inside "each", the item. Text has quotes of its own: "'text'". Text with \
values in it: "f'Dear {user.name}'". Lists: "[r.id for r in rows if r.open]". A step waits for the steps it names."""

SHORT_REMINDER = """\
Go through the goal part by part: each thing that it asks for is a step of its own, up to the last one. Then stop."""
"""Stands behind the goal: a small model is done too soon, and what it read last it heeds most."""

_EXAMPLES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    (
        "TOOL_A(key: text) -> {size: number}; TOOL_B(first: number, second: number) -> {sum: number}",
        "Get x and y and add them",
        {
            "steps": [
                {"id": "left", "tool": "TOOL_A", "args": {"key": "x"}},
                {"id": "right", "tool": "TOOL_A", "args": {"key": "y"}},
                {
                    "id": "both",
                    "tool": "TOOL_B",
                    "args": {"first": {"$": "left.size"}, "second": {"$": "right.size"}},
                },
            ],
            "output": {"$": "both.sum"},
        },
    ),
    (
        "TOOL_C(name: text) -> {rows: [{code: text, open: boolean, size: number}]}; TOOL_D(code: text, note: text) -> "
        "{ok: boolean}; TOOL_E(list: [any], file: text) -> {file: text}; TOOL_F(code: text) -> {name: text, mail: text}; "
        "TOOL_G(to: text, text: text) -> {id: text}",
        "Take table t. Pass every open row above inputs.limit on as large, find the owner of each, and greet every owner. "
        "Put what was passed on into done.txt and the owners into owners.txt in inputs.place. Say to inputs.chief how "
        "many were passed on if they are more than 10",
        {
            "steps": [
                {"id": "table", "tool": "TOOL_C", "args": {"name": "t"}},
                {
                    "id": "large",
                    "value": {"$": "[r for r in table.rows if r.open and r.size > inputs.limit]"},
                },
                {
                    "id": "passed",
                    "tool": "TOOL_D",
                    "each": {"$": "large"},
                    "as": "row",
                    "args": {"code": {"$": "row.code"}, "note": "large"},
                },
                {
                    "id": "owners",
                    "tool": "TOOL_F",
                    "each": {"$": "large"},
                    "as": "row",
                    "args": {"code": {"$": "row.code"}},
                },
                {
                    "id": "greeted",
                    "tool": "TOOL_G",
                    "each": {"$": "owners"},
                    "as": "owner",
                    "args": {"to": {"$": "owner.mail"}, "text": {"$": "f'Dear {owner.name}'"}},
                },
                {
                    "id": "done",
                    "tool": "TOOL_E",
                    "args": {"list": {"$": "passed"}, "file": {"$": "f'{inputs.place}/done.txt'"}},
                },
                {
                    "id": "listed",
                    "tool": "TOOL_E",
                    "args": {"list": {"$": "owners"}, "file": {"$": "f'{inputs.place}/owners.txt'"}},
                },
                {
                    "id": "told",
                    "tool": "TOOL_G",
                    "when": {"$": "len(passed) > 10"},
                    "args": {"to": {"$": "inputs.chief"}, "text": {"$": "f'{len(passed)} were passed on'"}},
                },
            ],
        },
    ),
    (
        "TOOL_A(key: text) -> {size: number}",
        "Send a letter",
        {"cannot_plan": "no tool listed sends letters"},
    ),
)
"""Tools, a goal, the right answer."""

_DEEPEST = 4
_WORDS = {"string": "text", "object": "object", "array": "list"}


def short_examples() -> str:
    """How steps are put together, with tools that do not exist."""
    told = [
        f"Tools: {tools}\nGoal: {goal}\n{json.dumps(to_python(answer), ensure_ascii=False)}"
        for tools, goal, answer in _EXAMPLES
    ]
    return "\n".join(["# Examples (their tools are made up; never use them)", *told])


def short_functions() -> str:
    """The functions of the language: those of Python by name, the others as they are called."""
    known = ", ".join(name for name in FUNCTIONS if hasattr(builtins, name))
    others = ", ".join(f.signature for f in FUNCTIONS.values() if not hasattr(builtins, f.name))
    methods = ", ".join(f".{name}()" for name in METHODS)
    group = FUNCTIONS["group"]
    return f"Functions (no others exist): {known}; {methods}; {others}. {group.example} == {group.result}"


def short_tools(tools: Registry) -> str:
    """The catalogue, by name, and the types that its tools share."""
    words = _Words()
    for _ in range(2):  # the second time all names are known
        told = [
            line for tool in sorted(tools, key=lambda tool: tool.name) for line in _signature(tool, words)
        ]
    shared = [f"{name} = {written}" for name, written in words.named.items()]
    return "\n".join(["# Tools", *told, *(["# Types", *shared] if shared else [])])


def _signature(tool: Tool, words: _Words) -> Iterator[str]:
    fields, about = words.read(tool.input.document).fields(tool.input.document)
    gives = (
        "" if tool.output is None else f" -> {words.read(tool.output.document).word(tool.output.document)}"
    )
    effect = str(tool.effect).capitalize()
    yield f"{tool.name}({', '.join(fields)}){gives}: {' '.join(tool.description.split())} {effect}."
    yield from (f"  {name}: {text}" for name, text in about)


class _Words:
    """Types in words. One that has a name is written out once, unless another of that name is different."""

    def __init__(self) -> None:
        self.named: dict[str, str] = {}

    def read(self, document: Json) -> _Document:
        return _Document(self, document if isinstance(document, dict) else {})

    def name(self, name: str, written: str) -> str:
        """The name of a type, if it stands for this one; else the type written out."""
        if not written.startswith("{"):
            return written
        return name if self.named.setdefault(name, written) == written else written

    def known(self, written: str) -> str:
        """The name of a type that is written like this, if one has a name."""
        return next((name for name, other in self.named.items() if other == written), written)


class _Document:
    """One JSON Schema, with the definitions that it refers to."""

    def __init__(self, words: _Words, root: Mapping[str, Json]) -> None:
        self.words = words
        self.open: set[str] = set()
        self.defs = {
            f"#/{place}/{name}": (name, part)
            for place in ("$defs", "definitions")
            if isinstance(root.get(place), dict)
            for name, part in root[place].items()
        }

    def fields(self, schema: Json) -> tuple[list[str], list[tuple[str, str]]]:
        """Each argument as `name: type`, and what is said of it."""
        properties = schema.get("properties", {}) if isinstance(schema, dict) else {}
        required = schema.get("required", ()) if isinstance(schema, dict) else ()
        fields = [f"{name}{_mark(name, required)}: {self.word(part)}" for name, part in properties.items()]
        return fields, [(name, text) for name, part in properties.items() if (text := _about(part))]

    def word(self, schema: Json, depth: int = 0) -> str:
        """What a value of this schema is."""
        if not isinstance(schema, dict) or depth > _DEEPEST:
            return "any"
        if isinstance(reference := schema.get("$ref"), str):
            return self._named(*self.defs.get(reference, ("", None)))
        if isinstance(listed := schema.get("enum"), list):
            return " or ".join(json.dumps(value, ensure_ascii=False) for value in listed)
        if "const" in schema:
            return json.dumps(schema["const"], ensure_ascii=False)
        several = schema.get("anyOf") or schema.get("oneOf")
        if isinstance(several, list):
            return " or ".join(dict.fromkeys(self.word(part, depth) for part in several))
        kinds = schema.get("type")
        kinds = kinds if isinstance(kinds, list) else [kinds] if kinds else self._implied(schema)
        return " or ".join(self._kind(kind, schema, depth) for kind in kinds) or "any"

    def _named(self, name: str, part: Json) -> str:
        if part is None or name in self.open:
            return name or "any"
        self.open.add(name)
        written = self.word(part)
        self.open.discard(name)
        return self.words.name(name, written)

    def _implied(self, schema: Mapping[str, Json]) -> list[str]:
        return ["object"] if "properties" in schema else ["array"] if "items" in schema else []

    def _kind(self, kind: str, schema: Mapping[str, Json], depth: int) -> str:
        if kind == "array" and isinstance(schema.get("items"), dict):
            return f"[{self.word(schema['items'], depth + 1)}]"
        if kind == "object" and isinstance(schema.get("properties"), dict):
            required = schema.get("required", ())
            inside = (
                f"{name}{_mark(name, required)}: {self.word(part, depth + 1)}"
                for name, part in schema["properties"].items()
            )
            written = f"{{{', '.join(inside)}}}"
            return written if self.open else self.words.known(written)
        if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
            return f"{{any name: {self.word(schema['additionalProperties'], depth + 1)}}}"
        return _WORDS.get(kind, str(kind))


def _mark(name: str, required: Iterable[str]) -> str:
    return "" if name in required else "?"


def _about(part: Json) -> str:
    said = part.get("description") if isinstance(part, dict) else None
    return " ".join(said.split()) if isinstance(said, str) else ""
