"""The grammar of a program that calls these tools and no others, for llama.cpp: what a small model cannot write wrong.

    def main(inputs):
        people = find(name=inputs.name)
        letters = [send(to=p.mail, text=f'Dear {p.name}') for p in people if p.open]
        return len(letters)

Held to it are the names of tools, their arguments and order, the functions and methods of the language, and the layout;
names of variables and fields are not, so the check has them to find. In GBNF, which every build of llama.cpp takes:
https://github.com/ggml-org/llama.cpp/blob/master/grammars/README.md
"""

from __future__ import annotations

import json
import keyword
import string
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from ..policies.expressions import FUNCTIONS, METHODS
from ..registry.registry import Registry
from ..registry.tools import Tool
from .python_form import HEADER, ON_FAILURE
from .python_names import arguments_of, names_of

__all__ = ["python_grammar"]

Json: TypeAlias = Any

_DEEPEST = 4
"""Blocks inside each other, with that of the function."""

_LANGUAGE = r"""
field ::= [a-zA-Z_] [a-zA-Z0-9_]{0,60}
expr ::= either (" if " either " else " (expr | "None"))?
either ::= both (" or " both){0,5}
both ::= not (" and " not){0,5}
not ::= "not "? compared
compared ::= sum ((" == " | " != " | " < " | " <= " | " > " | " >= " | " in " | " not in ") sum | (" is " | " is not ") "None")?
sum ::= product ((" + " | " - ") product){0,5}
product ::= unary ((" * " | " / " | " // " | " % ") unary){0,3}
unary ::= "-"? atom trailer{0,8}
trailer ::= "." field | "." method "(" (expr (", " expr)*)? ")" | "[" expr "]" | "[" expr? ":" expr? "]"
atom ::= name | number | text | ftext | "True" | "False" | function | "(" expr ")" | list | dict%CALL%
function ::= fname "(" (expr " for " targets " in " either (" if " either)? | (expr (", " expr)* (", key=lambda " name ": " expr)? (", reverse=True")?)?) ")"
targets ::= name (", " name)?
list ::= "[" (expr (" for " targets " in " either (" if " either)? | (", " expr)*))? "]"
dict ::= "{" (expr ": " expr (" for " targets " in " either (" if " either)? | (", " expr ": " expr)*))? "}"
number ::= [0-9]{1,15} ("." [0-9]{1,9})?
text ::= "'" ([^'\\\n] | "\\" ['\\n])* "'" | "\"" ([^"\\\n] | "\\" ["\\n])* "\""
ftext ::= "f'" (fchar | "\"" | "{" expr fformat? "}")* "'" | "f\"" (fchar | "'" | "{" expr fformat? "}")* "\""
fchar ::= [^'"\\\n{}] | "\\n"
fformat ::= ":" [,.0-9a-z%]{1,6}
"""


def python_grammar(registry: Registry) -> str:
    """The grammar of an answer: a program, or that there can be none."""
    tools = sorted(registry, key=lambda tool: tool.name)
    rules = [*_language(bool(tools)), *_layout(bool(tools))]
    if tools:
        rules.append(f"call ::= {' | '.join(f'tool{place}' for place in range(len(tools)))}")
    names = names_of(registry)
    for place, tool in enumerate(tools):
        rules.append(f"tool{place} ::= {_call(names[tool.name], tool)}")
    return "\n".join(rules) + "\n"


def _language(calls: bool) -> Iterable[str]:
    yield from _LANGUAGE.replace("%CALL%", " | call" if calls else "").strip().splitlines()
    yield "rest ::= [a-zA-Z0-9_]{0,40}"
    yield from _name()
    yield f"fname ::= {_either(FUNCTIONS)}"
    yield f"method ::= {_either(METHODS)}"


_NEVER = ("return", "import", "raise")
"""No name begins like this: whoever writes it means the statement."""


def _name(prefix: str = "") -> Iterable[str]:
    """Rules for a name that is no keyword, letter by letter: small models begin with an import where they can."""
    words = [word for word in keyword.kwlist if word.startswith(prefix) and word.islower()]
    letters = sorted({word[len(prefix)] for word in words if len(word) > len(prefix)})
    first = string.ascii_lowercase + ("" if not prefix else string.ascii_uppercase + string.digits) + "_"
    others = "".join(letter for letter in first if letter not in letters)
    letters = [letter for letter in letters if prefix + letter not in _NEVER]
    ways = [f"[{others}] rest", *(f'"{letter}" name{prefix}{letter}' for letter in letters)]
    ways += [] if prefix in ("", *words) else ['""']
    yield f"name{prefix} ::= {' | '.join(ways)}"
    for letter in letters:
        yield from _name(prefix + letter)


def _either(names: Iterable[str]) -> str:
    return " | ".join(json.dumps(name) for name in names)


def _layout(calls: bool) -> Iterable[str]:
    """Statements by depth: each begins a line, so that the answer may end behind any, and a block is further in.

    Only an `if` that stands in a loop itself may end with `continue`, for that is what can be read.
    """
    yield f'root ::= {json.dumps(HEADER)} (cannot | "\\n    " return | block1+ ("\\n    " return)?)'
    yield 'return ::= "return " (expr | "None")'
    yield 'cannot ::= "\\n    raise CannotPlan(" text ")"'
    yield 'leave ::= return | "raise CannotPlan(" (text | ftext) ")"'
    simple = ['name " = " expr', *(['name " += " expr', 'name ".append(" expr ")"', "call"] if calls else [])]
    for depth in range(1, _DEEPEST + 1):
        pad = json.dumps("\n" + "    " * depth)
        for loop, leave in (("", "leave"), ("in", '(leave | "continue")')):
            deeper = [
                f'"for " targets " in " either ":" inblock{depth + 1}+',
                f'"if " expr ":" {loop}body{depth + 1} ({pad} "else:" {loop}body{depth + 1})?',
            ]
            yield f"{loop}body{depth} ::= {pad} {leave} | block{depth}+ ({pad} {leave})?"
            yield f"{loop}block{depth} ::= {pad} ({' | '.join([*simple, *(deeper if depth < _DEEPEST else [])])})"


def _call(name: str, tool: Tool) -> str:
    needed: list[str] = []
    free: list[str] = []
    required = tool.input.document.get("required", ())
    for written, real, schema in arguments_of(tool):
        (needed if real in required else free).append(f"{json.dumps(f'{written}=')} {_value(schema)}")
    if needed and ON_FAILURE not in tool.input.document["properties"]:
        free.append(f"\"{ON_FAILURE}='skip'\"")
    return f'{json.dumps(f"{name}(")} {_several(needed, free)} ")"'


def _several(needed: list[str], free: list[str]) -> str:
    said = ' ", " '.join(needed)
    if needed:
        return " ".join([said, *(f'(", " {part})?' for part in free)])
    starts = (
        " ".join([part, *(f'(", " {other})?' for other in free[place + 1 :])])
        for place, part in enumerate(free)
    )
    return f"({' | '.join(starts)})?" if free else ""


def _value(schema: Json) -> str:
    """A text is not written where a number is wanted, nor one that is not listed."""
    listed = schema.get("enum") if isinstance(schema, Mapping) else None
    if listed and all(isinstance(value, str) and value.isprintable() for value in listed):
        return f"({' | '.join(json.dumps(repr(value)) for value in listed)} | unary)"
    return '(expr | "None")' if _nullable(schema) else "expr"


def _nullable(schema: Json) -> bool:
    if not isinstance(schema, Mapping):
        return True
    parts = [part for key in ("anyOf", "oneOf") for part in schema.get(key, ())]
    kinds = schema.get("type", () if parts else ("null",))
    return "null" in ([kinds] if isinstance(kinds, str) else kinds) or any(map(_nullable, parts))
