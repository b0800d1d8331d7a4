"""What a check says of a plan, in terms of the program that the plan was read from: the line, and the line as it should be.

    /steps/1/args/to/$   'people' gives a list; its items have 'mail', ...  (people[0].mail)
    line 3               send(to=people.mail, text='Hello')  ->  send(to=people[0].mail, text='Hello')

Whoever wrote three lines of Python has never seen the steps that they became, and cannot mend what is said about those.
A small model that sees its program again writes it again, whatever is said of it; so it is asked anew, with notes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from ..policies.expressions import FOREIGN_CALLS
from ..registry.registry import Registry
from .findings import Finding, split_pointer
from .python_form import Traced, traced

__all__ = ["in_lines", "notes_on"]

Json = Any

_NOTES = 6
_ARGUMENT = re.compile(r"/args/(\w+)/\$$")
_NAME = re.compile(r"[A-Za-z_]\w*")


def in_lines(
    findings: Iterable[Finding], program: str, registry: Registry, **known: Any
) -> tuple[Finding, ...]:
    """The findings with their `line`, the text of it as `excerpt`, and `corrected`: that line with the suggestion in it.

    `known` is what `from_python` was told besides the tools. What is nowhere in the program stays as it is.
    """
    read, inputs = traced(program, registry, **known), tuple(known.get("inputs", ()))
    return tuple(_placed(finding, program.splitlines(), read, inputs) for finding in findings)


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


def _placed(finding: Finding, lines: list[str], read: Traced, inputs: tuple[str, ...]) -> Finding:
    line = finding.line or _nearest(finding.pointer, read.lines)
    if line is None or not 0 < line <= len(lines):
        return finding
    text, written = lines[line - 1].strip(), _at(read.document, finding.pointer)
    expression = written if isinstance(written, str) else ""
    message = finding.message.removeprefix(f"line {line}: ")
    if finding.code == "unknown_step":
        message = _unknown(message, expression[finding.offset or 0 :], lines)
    elif finding.code == "unknown_input" and not finding.suggestion:
        has = f"inputs has only {', '.join(inputs)}" if inputs else "this request has no inputs"
        message += f"; {has}, and what the request says is written as it is"
    elif finding.code == "wrong_type" and message.endswith("it is no number"):
        message += "; number(x) reads one out of a text, between(start, end) counts days between dates"
    spelled = partial(_spelled, names=read.names)
    message, expression, suggestion = spelled(message), spelled(expression), spelled(finding.suggestion)
    argument = _ARGUMENT.search(finding.pointer)
    corrected = _corrected(text, expression, suggestion, argument[1] if argument else "")
    return finding._replace(
        message=message, suggestion=suggestion, line=line, excerpt=text, corrected=corrected
    )


def _spelled(text: str, names: Mapping[str, str]) -> str:
    """A text about steps with the names that the program has for them."""
    return _NAME.sub(lambda name: names.get(name[0], name[0]), text)


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


def _corrected(line: str, expression: str, suggestion: str, argument: str) -> str:
    """The line with the suggestion in place of what the plan has there; "" where that does not stand in it just so."""
    for before in (f"{argument}=", "") if argument else ("",):
        if suggestion and expression and line.count(before + expression) == 1:
            return line.replace(before + expression, before + suggestion)
    return ""
