"""Typing errors in the fields and methods of a plan's expressions, the same ones everywhere.

    for typo in typos(plan, seed=7):
        typo.kind       one of KINDS
        typo.pointer    where the expression stands
        typo.before     the expression as it was, and as it is `after`
        typo.plan       the plan with the one error

A field is what stands after a dot; a text in brackets is data. No error gives what the same plan says elsewhere: that
would be another program rather than a typing error.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

from foreplan import Plan
from foreplan.planner.documents import plan_from
from foreplan.policies.expressions import METHODS, parse

__all__ = ["KINDS", "Typo", "typos"]


class Typo(NamedTuple):
    """A plan with one typing error."""

    kind: str
    pointer: str
    before: str
    after: str
    plan: Plan


class Site(NamedTuple):
    """A field or method in an expression: from where to where, and the whole `x.name` it ends."""

    start: int
    end: int
    name: str
    method: bool
    whole: int
    """Where the expression begins that the field is taken of."""
    nested: int | None
    """Where the field before it begins, with its dot; None where there is none."""


def _dropped(name: str, dice: Random) -> str:
    at = dice.randrange(len(name))
    return name[:at] + name[at + 1 :]


def _swapped(name: str, dice: Random) -> str:
    at = dice.randrange(max(1, len(name) - 1))
    return name[:at] + name[at : at + 2][::-1] + name[at + 2 :]


def _doubled(name: str, dice: Random) -> str:
    at = dice.randrange(len(name))
    return name[:at] + name[at] + name[at:]


def _neighbour(name: str, dice: Random) -> str:
    at = dice.randrange(len(name))
    return name[:at] + dice.choice("aeinorst") + name[at + 1 :]


def _cased(name: str, dice: Random) -> str:
    return dice.choice([name.capitalize(), name.upper(), name[:1].swapcase() + name[1:]])


def _styled(name: str, dice: Random) -> str:
    """`unit_price` for `unitPrice`, and the other way round."""
    if "_" in name.strip("_"):
        return re.sub(r"_(\w)", lambda m: m[1].upper(), name)
    return re.sub(r"([A-Z])", lambda m: "_" + m[1].lower(), name)


def _counted(name: str, dice: Random) -> str:
    return name.removesuffix("s") if name.endswith("s") else name + "s"


_SPELLINGS: dict[str, Callable[[str, Random], str]] = {
    "letter dropped": _dropped,
    "letters swapped": _swapped,
    "letter doubled": _doubled,
    "another letter": _neighbour,
    "case": _cased,
    "underscore or camel": _styled,
    "singular or plural": _counted,
}
_ALIASES = {
    "lower": "toLowerCase",
    "strip": "trim",
    "split": "explode",
    "replace": "sub",
    "startswith": "startsWith",
    "endswith": "has_suffix",
    "join": "concat",
    "get": "fetch",
    "values": "vals",
    "items": "entries",
    "keys": "key_list",
    "upper": "toUpperCase",
}
KINDS = (*_SPELLINGS, "level too many", "level too few", "unknown method")


def typos(plan: Plan, *, seed: int = 0, each: int | None = None) -> Iterator[Typo]:
    """Errors of each kind that fits, in each field and method of each expression; at most `each` in one place."""
    document = plan.to_json()
    said = [text for _, text in _expressions(document)]
    used = {name for text in said for name in re.findall(r"\w+(?:\.\w+)*", text)}
    used |= {name for path in used for name in path.split(".")}
    for pointer, text in _expressions(document):
        for number, site in enumerate(_sites(text)):
            dice = Random(f"{seed} {pointer} {number}")
            found = list(_errors(text, site, dice, used))
            for kind, after in found if each is None else dice.sample(found, min(each, len(found))):
                yield Typo(kind, pointer, text, after, _with(document, pointer, after))


def _errors(text: str, site: Site, dice: Random, used: set[str]) -> Iterator[tuple[str, str]]:
    def put(name: str) -> str:
        return text[: site.start] + name + text[site.end :]

    for kind, spell in _SPELLINGS.items():
        name = spell(site.name, dice)
        if name not in used and name.isidentifier() and (not site.method or name not in METHODS):
            yield kind, put(name)
    if site.method:
        yield "unknown method", put(_ALIASES[site.name])
    else:
        yield "level too many", put(f"data.{site.name}")
        if site.nested is not None and text[site.whole : site.nested] + "." + site.name not in used:
            yield "level too few", text[: site.nested] + text[site.start - 1 :]


def _sites(text: str) -> list[Site]:
    """Fields and methods, in the order of the text."""
    tree = parse(text).tree
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            end = node.end_col_offset or 0
            start = end - len(node.attr)
            if text[start:end] == node.attr:
                inner = node.value
                nested = (
                    (inner.end_col_offset or 0) - len(inner.attr) - 1
                    if isinstance(inner, ast.Attribute)
                    else None
                )
                found.append(Site(start, end, node.attr, id(node) in called, node.col_offset, nested))
    return sorted(found)


def _expressions(value: Any, pointer: str = "") -> Iterator[tuple[str, str]]:
    """Every expression of a document, with where it stands."""
    if isinstance(value, list):
        for index, each in enumerate(value):
            yield from _expressions(each, f"{pointer}/{index}")
    elif isinstance(value, dict) and value.keys() == {"$"}:
        yield pointer + "/$", value["$"]
    elif isinstance(value, dict) and "$literal" not in value:
        for key, each in value.items():
            yield from _expressions(each, f"{pointer}/{key}")


def _with(document: dict[str, Any], pointer: str, text: str) -> Plan:
    changed = copy.deepcopy(document)
    place: Any = changed
    *parents, last = pointer.split("/")[1:]
    for part in parents:
        place = place[int(part)] if isinstance(place, list) else place[part]
    place[last] = text
    return plan_from(changed)
