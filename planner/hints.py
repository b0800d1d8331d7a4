"""What a check adds that is no fault: texts that look like references, and tools that do not say what they give.

Neither ever keeps a plan from running. A text is only taken for a reference where the names in it are those of steps,
inputs or the run; `{{name}}` in the template of a letter stays what it is.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from ..policies.expressions import Expression, ExpressionError, parse
from .findings import Finding, pointer_to, quoted
from .inference import infer
from .sites import Part, Spot, finding
from .study import Study
from .types import ANY

__all__ = ["lookalikes", "undescribed"]

Json: TypeAlias = Any

_SIGNS = re.compile(r"\{\{|\$\{|<%|\$[.A-Za-z_]|^\s*[\w\[\]'\"]+\.[A-Za-z_\[]|^\s*\{\s*\"\$\"")
"""Where none of these stands, a text does not look like a reference."""
_HOLE = re.compile(r"\{\{.+?\}\}|\$\{[^{}]+\}")
_LONGEST = 2_000


def lookalikes(study: Study) -> Iterator[Finding]:
    """Texts that are references in other languages; here a text is only ever a text."""
    names = {*study.steps, *study.items, "inputs", "run"}
    for own, part in _parts(study):
        for pointer, text in _texts(part):
            found = _meant(study, text, names)
            if found is not None and not (found.text == text and own in found.names):
                message = f"{quoted(text)} is passed on as it stands; a reference is an object with the key $"
                yield finding("looks_like_reference", pointer, message, "{$: " + json.dumps(found.text) + "}")
        for spot in part.spots.values():
            yield from _inside(study, spot, names)


def _parts(study: Study) -> Iterator[tuple[str, Part]]:
    """Each template, after the id of its step: `pay.csv` in the step `pay` is a file, not its own result."""
    for site in study.sites:
        yield from ((site.id, part) for part in site.parts.values())
    if study.output is not None:
        yield "", study.output


def _texts(part: Part) -> Iterator[tuple[str, str]]:
    """The literal texts of a template that might be references, with their pointers."""
    waiting: list[tuple[str, Json]] = [(part.pointer, part.template)]
    while waiting:
        pointer, value = waiting.pop()
        match value:
            case str():
                if len(value) <= _LONGEST and _SIGNS.search(value):
                    yield pointer, value
            case dict() if not value.keys() & {"$", "$literal"}:
                waiting += [(pointer_to(key, within=pointer), value[key]) for key in reversed(value)]
            case list():
                waiting += [(f"{pointer}/{i}", value[i]) for i in range(len(value) - 1, -1, -1)]


def _inside(study: Study, spot: Spot, names: set[str]) -> Iterator[Finding]:
    """A text inside an expression with holes as other languages write them; an f-string fills them."""
    text = spot.expression.text
    if "{{" not in text and "${" not in text:
        return
    for node in ast.walk(spot.expression.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _HOLE.search(node.value):
            found = _meant(study, node.value, names)
            if found is not None:
                new = text[: node.col_offset] + found.text + text[node.end_col_offset :]
                message = (
                    f"{quoted(node.value)} is passed on as it stands; f'…' fills in what stands in {{ }}"
                )
                fixed = new if _parsed(new) is not None else ""
                yield finding("looks_like_reference", spot.pointer, message, fixed, offset=node.col_offset)


def _meant(study: Study, text: str, names: set[str]) -> Expression | None:
    """The expression that a text probably means; None where it speaks of nothing that is known in this plan."""
    words = set(re.findall(r"[A-Za-z_]\w*", text))
    if words.isdisjoint(names) or not study.effort.may_guess(()):
        return None
    found = _parsed(_structural(text)) if "$" in text and text.lstrip()[:1] == "{" else None
    found = found or _parsed(text)
    if found is None or not found.names or not found.names <= names:
        return None
    return found if found.text != text or _leads_somewhere(study, found) else None


def _leads_somewhere(study: Study, found: Expression) -> bool:
    """Whether a text is a path that can be followed: `pay.csv` is a file where the step `pay` gives no `csv`."""
    if not isinstance(found.tree, ast.Attribute | ast.Subscript):
        return False
    scope = {name: study.type_of(name) for name in found.names}
    return not infer(found.tree, found.text, {**scope, "inputs": study.inputs_type}, study.effort)[1]


def _structural(text: str) -> str:
    """The expression in `{"$": "…"}` that was written as text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    inner = value.get("$") if isinstance(value, dict) and len(value) == 1 else None
    return inner if isinstance(inner, str) else text


def _parsed(text: str) -> Expression | None:
    """The expression that a text is, or that its slips stand for."""
    try:
        return parse(text)
    except ExpressionError as error:
        return _parsed(error.correction) if error.correction and error.correction != text else None


def undescribed(study: Study) -> Iterator[Finding]:
    """Tools whose results are read and of any type: what reads them is not checked. One finding for each tool."""
    seen: dict[str, list[str]] = {}
    faulty = {
        found.pointer.removesuffix("/$") for found in study.findings
    }  # of no type because they are wrong
    for _own, part in _parts(study):
        for spot in part.spots.values():
            if study.spot_types.get(spot.pointer) is ANY and spot.pointer.removesuffix("/$") not in faulty:
                for name in _tools_read(study, spot.expression.names):
                    seen.setdefault(name, []).append(spot.pointer)
    for name, pointers in seen.items():
        first = next(site.pointer for site in study.sites if site.step.tool == name)
        count = (
            "one expression that reads it is"
            if len(pointers) == 1
            else f"{len(pointers):,} expressions that read it are"
        )
        message = f"{quoted(name)} does not say all of what it gives; {count} not checked, the first at {pointers[0]}"
        yield finding("unknown_type", f"{first}/tool", message)


def _tools_read(study: Study, names: Iterable[str]) -> Iterator[str]:
    for name in sorted(names):
        step = study.steps.get(name)
        if step is not None and step.tool is not None and study.tool(step) is not None:
            yield step.tool
