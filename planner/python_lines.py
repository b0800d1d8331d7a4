"""What a check says of a plan, in terms of the program that the plan was read from: the line, and the line as it should be.

    /steps/1/args/to/$   'people' gives a list; its items have 'mail', ...  (people[0].mail)
    line 3               send(to=people.mail, text='Hello')  ->  send(to=people[0].mail, text='Hello')

Whoever wrote three lines of Python has never seen the steps that they became, and cannot mend what is said about those.
A small model that sees its program again writes it again, whatever is said of it; so it is asked anew, with notes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ..policies.expressions import FOREIGN_CALLS
from ..registry.registry import Registry
from .findings import Finding, split_pointer
from .python_form import from_python, lines_of

__all__ = ["in_lines", "notes_on"]

Json = Any

_NOTES = 6
_NAME = re.compile(r"[A-Za-z_]\w*")


def in_lines(
    findings: Iterable[Finding], program: str, registry: Registry, **known: Any
) -> tuple[Finding, ...]:
    """The findings with their `line`, the text of it as `excerpt`, and `corrected`: that line with the suggestion in it.

    `known` is what `from_python` was told besides the tools. What is nowhere in the program stays as it is.
    """
    lines = program.splitlines()
    places = lines_of(program, registry, **known)
    document = from_python(program, registry, **known) if places else {}
    return tuple(_placed(finding, lines, places, document, known.get("inputs", ())) for finding in findings)


def notes_on(findings: Iterable[Finding], program: str, registry: Registry, **known: Any) -> tuple[str, ...]:
    """What to heed when the program is written anew, each once: `not LINE: what is wrong in it; write LINE`."""
    grave = [finding for finding in findings if finding.severity == "error"]
    placed = in_lines(grave or findings, program, registry, **known)
    return tuple(dict.fromkeys(map(_note, placed)))[:_NOTES]


def _note(finding: Finding) -> str:
    line = f"not `{finding.excerpt}`: " if finding.excerpt else ""
    if finding.corrected:
        return f"{line}{finding.message}; write `{finding.corrected}`"
    return f"{line}{finding.message}{f' ({finding.suggestion})' if finding.suggestion else ''}"


def _placed(
    finding: Finding, lines: list[str], places: dict[str, int], document: Json, inputs: Iterable[str]
) -> Finding:
    line = finding.line or _nearest(finding.pointer, places)
    if line is None or not 0 < line <= len(lines):
        return finding
    text, written = lines[line - 1].strip(), _at(document, finding.pointer)
    expression = written if isinstance(written, str) else ""
    message = finding.message.removeprefix(f"line {line}: ")
    if finding.code == "unknown_step":
        message = _unknown(message, expression[finding.offset or 0 :], lines)
    elif finding.code == "unknown_input" and not finding.suggestion:
        has = f"inputs has only {', '.join(inputs)}" if tuple(inputs) else "this request has no inputs"
        message += f"; {has}, and what the request says is written as it is"
    elif finding.code == "wrong_type" and message.endswith("it is no number"):
        message += "; number(x) reads one out of a text, between(start, end) counts days between dates"
    corrected = _corrected(text, expression, finding.suggestion)
    return finding._replace(message=message, line=line, excerpt=text, corrected=corrected)


def _unknown(message: str, at: str, lines: list[str]) -> str:
    """Of a name that is no step: what stands for it here, or where it does stand for something."""
    name = _NAME.match(at)
    said = message.replace("no step is called", "nothing is called", 1)
    if name is None:
        return said
    if name[0] in FOREIGN_CALLS:
        return f"there is no {name[0]} here; use {FOREIGN_CALLS[name[0]]}"
    if any(re.search(rf"\bfor\b[^:]*\b{name[0]}\b[^:]*\bin\b", line) for line in lines):
        said += f"; {name[0]} is known only inside its own for"
    return said


def _nearest(pointer: str, places: dict[str, int]) -> int | None:
    """The line of this part of the document, or of the smallest one around it that has one."""
    while pointer:
        if pointer in places:
            return places[pointer]
        pointer = pointer.rpartition("/")[0]
    return None


def _at(document: Json, pointer: str) -> Json:
    for key in split_pointer(pointer):
        try:
            document = document[int(key)] if isinstance(document, list) else document[key]
        except (KeyError, IndexError, TypeError, ValueError):
            return None
    return document


def _corrected(line: str, expression: str, suggestion: str) -> str:
    """The line with the suggestion in place of what the plan has there; "" where that does not stand in it just so."""
    if not suggestion or not expression or line.count(expression) != 1:
        return ""
    return line.replace(expression, suggestion)
