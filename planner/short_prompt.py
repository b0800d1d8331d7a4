"""What a small model is told that answers with a program (`python_form.py`): little, and what it knows already.

find(name: str, limit: int = ...) -> list[Person]  # Find people
"""

from __future__ import annotations

import builtins
import json
from collections.abc import Iterable, Iterator, Mapping
from textwrap import indent
from typing import Any, TypeAlias

from ..policies.expressions import FUNCTIONS, METHODS
from ..registry.registry import Registry
from ..registry.tools import Tool
from .python_form import HEADER
from .python_names import arguments_of, names_of

__all__ = ["SHORT_EXAMPLES", "SHORT_PATCH", "SHORT_RULES", "short_system", "short_tools"]

Json: TypeAlias = Any

_TOLD = frozenset({"unique", "group", "flat"})

SHORT_RULES = """\
You turn a request into a short Python function main(inputs). It calls the listed tools, imports nothing, and answers \
the request; write the function only.
- Call tools with keyword arguments. Results have fields: user.mail, users[0].name.
- Known values are in inputs: inputs.NAME. Use them, the results, and what the request says; invent nothing.
- For each of several things: sent = [send(to=u.mail) for u in users if u.active], or a for loop.
- What the request wants only under a condition stands in an if.
- Without a tool: {functions}, comprehensions, f-strings.
- on_failure='skip' in a call: if it fails, go on with None.
- Leave optional arguments (= ...) out, unless the request says what they are.
- Do every part of the request, in its order, and nothing more. Only if it asks for a value, the last line is: return VALUE
- If no listed tool can do it, it is only: raise CannotPlan('why')"""

SHORT_PATCH = """\
The plan below was made for this goal and run until nothing more could start. Write a program that mends it: only the \
calls that are new. Results of steps that have run are known by their ids. Assign to the id of a failed step to stand in \
for it. What is listed in "not_again" must not be called again."""

SHORT_EXAMPLES = (
    (
        "get_page(url: str) -> Page; count_words(text: str) -> {words: int}; Page = {title: str, text: str}",
        "How many words have inputs.first and inputs.second together?",
        "first = get_page(url=inputs.first)\nsecond = get_page(url=inputs.second)\na = count_words(text=first.text)\n"
        "b = count_words(text=second.text)\nreturn a.words + b.words",
    ),
    (
        "list_orders(shop: str) -> {orders: list[Order]}; get_customer(id: str) -> {name: str, phone: str}; "
        "call(phone: str, text: str) -> {ok: bool}; save(rows: list, file: str) -> {file: str}; "
        "Order = {id: str, customer: str, late: bool, price: float}",
        "Call the customers of all late orders over 50 of the shop inputs.shop, tell them their order is late, and save "
        "these orders to late.csv in inputs.folder. If there are more than 3, call inputs.chief, too. Tell how many there are.",
        "listed = list_orders(shop=inputs.shop)\nlate = [o for o in listed.orders if o.late and o.price > 50]\n"
        "for order in late:\n    customer = get_customer(id=order.customer)\n"
        "    call(phone=customer.phone, text=f'Dear {customer.name}, order {order.id} is late')\n"
        "save(rows=late, file=f'{inputs.folder}/late.csv')\n"
        "if len(late) > 3:\n    call(phone=inputs.chief, text=f'{len(late)} orders are late')\nreturn len(late)",
    ),
    (
        "find_photos(album: str, limit: int = ...) -> list[Photo]; resize(file: str, size: int = ...) -> Photo; check(photos: list[Photo]) -> "
        "{problems: list[str]}; delete(file: str) -> {ok: bool}; Photo = {file: str, size: int}",
        "Resize each photo of the album Rome to 800, skipping those that fail. Check the resized photos together. If there "
        "is no problem, delete the original photos.",
        "photos = find_photos(album='Rome')\nresized = [resize(file=p.file, size=800, on_failure='skip') for p in photos]\n"
        "checked = check(photos=resized)\nif len(checked.problems) == 0:\n    deleted = [delete(file=p.file) for p in photos]",
    ),
    (
        "find_photos(album: str) -> list[Photo]",
        "Print the photos of Rome",
        "raise CannotPlan('no tool prints photos')",
    ),
)
"""Tools, a request, the right answer."""

_DEEPEST = 4
_WORDS = {
    "string": "str", "integer": "int", "number": "float", "boolean": "bool", "array": "list", "object": "dict", "null": "None",
}  # fmt: skip


def short_system(tools: Registry, instructions: str = "") -> str:
    """All that is the same for each request with these tools."""
    functions = ", ".join(name for name in FUNCTIONS if hasattr(builtins, name))
    others = ", ".join(f.signature for f in FUNCTIONS.values() if f.name in _TOLD)
    methods = ", ".join(f".{name}()" for name in METHODS)
    rules = SHORT_RULES.format(functions=f"{functions}, {methods}, {others}")
    examples = (
        f"Tools: {known}\nRequest: {asked}\n{HEADER}\n{indent(program, '    ')}"
        for known, asked, program in SHORT_EXAMPLES
    )
    parts = [rules, "# Examples, with other tools", *examples, short_tools(tools)]
    return "\n\n".join([*parts, *([instructions.strip()] if instructions else [])])


def short_tools(tools: Registry) -> str:
    """The catalogue, by name, and the types that its tools share."""
    words = _Words()
    names = names_of(tools)
    for _ in range(2):  # the second time all names are known
        told = [
            line
            for tool in sorted(tools, key=lambda tool: tool.name)
            for line in _signature(names[tool.name], tool, words)
        ]
    shared = [f"{name} = {written}" for name, written in words.named.items()]
    return "\n".join(["# Tools: use only these", *told, *(["# Types", *shared] if shared else [])])


def _signature(written: str, tool: Tool, words: _Words) -> Iterator[str]:
    document = words.read(tool.input.document)
    required = tool.input.document.get("required", ())
    about = []
    fields = []
    for name, real, schema in arguments_of(tool):
        fields.append(f"{name}: {document.word(schema)}{'' if real in required else ' = ...'}")
        about += [f"    {name}: {text}"] if (text := _about(schema)) else []
    gives = "None" if tool.output is None else words.read(tool.output.document).word(tool.output.document)
    yield f"{written}({', '.join(fields)}) -> {gives}  # {' '.join(tool.description.split())}"
    yield from about


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

    def word(self, schema: Json, depth: int = 0) -> str:
        """What a value of this schema is."""
        if not isinstance(schema, dict) or depth > _DEEPEST:
            return "any"
        if isinstance(reference := schema.get("$ref"), str):
            return self._named(*self.defs.get(reference, ("", None)))
        if isinstance(listed := schema.get("enum"), list):
            return " | ".join(json.dumps(value, ensure_ascii=False) for value in listed)
        if "const" in schema:
            return json.dumps(schema["const"], ensure_ascii=False)
        several = schema.get("anyOf") or schema.get("oneOf")
        if isinstance(several, list):
            return " | ".join(dict.fromkeys(self.word(part, depth) for part in several))
        kinds = schema.get("type")
        kinds = kinds if isinstance(kinds, list) else [kinds] if kinds else self._implied(schema)
        return " | ".join(self._kind(kind, schema, depth) for kind in kinds) or "any"

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
            return f"list[{self.word(schema['items'], depth + 1)}]"
        if kind == "object" and isinstance(schema.get("properties"), dict):
            required = schema.get("required", ())
            inside = (
                f"{name}{_mark(name, required)}: {self.word(part, depth + 1)}"
                for name, part in schema["properties"].items()
            )
            written = f"{{{', '.join(inside)}}}"
            return written if self.open else self.words.known(written)
        if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
            return f"dict[str, {self.word(schema['additionalProperties'], depth + 1)}]"
        return _WORDS.get(kind, str(kind))


def _mark(name: str, required: Iterable[str]) -> str:
    return "" if name in required else "?"


def _about(part: Json) -> str:
    said = part.get("description") if isinstance(part, dict) else None
    return " ".join(said.split()) if isinstance(said, str) else ""
