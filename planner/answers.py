"""Reading a model's answer: tolerant of how it is wrapped, strict about what it says.

    tolerated   a byte order mark, code fences, prose before and after, <think> blocks, trailing commas,
                a tool's name with markup around it (`functions.NAME`, `NAME<|call|>`) where one tool is meant,
                the arguments of a call as JSON inside a text, a wrapper of calls around a single one
    refused     no object, two different ones, one that is cut off, duplicate keys, unknown properties

Nothing is guessed: what is refused goes back to the model as findings.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal, NoReturn, TypeAlias

from ..policies.canonical import canonical
from ..policies.errors import CannotPlan
from ..policies.text import shorten
from ..registry.decoding import decode_text
from ..registry.names import resolve_name
from .documents import Source, patch_from, plan_from, read_source
from .findings import Finding, PlanUnreadable
from .models.messages import AIMessage
from .requests import PlanRequest, Proposal, ReplanRequest

__all__ = [
    "AnswerUnreadable",
    "ModelDeclined",
    "program_in",
    "read_patch_answer",
    "read_plan_answer",
    "read_value",
]

Json: TypeAlias = Any

_LONGEST = 4_000_000
"""Characters of an answer that are looked at; the document's own caps are lower."""
_OBJECTS = 64
_UNENDED = 3
"""So many objects are looked at, and so many braces that are never closed: prose may hold some of its own."""

_THOUGHT = re.compile(r"\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_STRUCTURE = re.compile(r'["{}\[\]]')
_IN_TEXT = re.compile(r'["\\]')
_COMMA = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\Z)|,(?=\s*+[}\]])', re.DOTALL)
_FENCED = re.compile(r"```[\w-]*[ \t]*\n(.*?)```", re.DOTALL)
_OPENING = re.compile(r"[\[{]")
_ANSWER = re.compile(r'"(?:steps|cannot_plan|add|drop)"\s*:')
_BEGUN = re.compile(r'\{\s*"')

_Wanted = Literal["plan", "patch"]


class AnswerUnreadable(PlanUnreadable):
    """A model's answer that is no plan or patch: `findings` say why, `text` is what it said, `usage` what it cost."""

    def __init__(
        self, findings: Collection[Finding], *, text: str = "", usage: Mapping[str, float] | None = None
    ) -> None:
        super().__init__(findings)
        self.text = text
        self.usage = dict(usage) if usage is not None else None


class ModelDeclined(CannotPlan):
    """A model's answer `{"cannot_plan": reason}`, with its text and what it cost."""

    def __init__(self, reason: str, *, text: str = "", usage: Mapping[str, float] | None = None) -> None:
        super().__init__(reason)
        self.text = text
        self.usage = dict(usage) if usage is not None else None


Reading = Callable[[Json], Json]
"""Turns the object that a model wrote into the document it means: `from_strict`, where strict output is asked for."""


def _as_written(document: Json) -> Json:
    return document


def read_plan_answer(
    message: AIMessage,
    request: PlanRequest,
    *,
    reading: Reading = _as_written,
    program: Callable[[str], Json] | None = None,
) -> Proposal:
    """The plan in a model's answer; its goal and inputs are those of the request, whatever the model wrote there.

    Raises `ModelDeclined` where the model says that it cannot, `AnswerUnreadable` where there is no plan.
    """
    given: dict[str, Json] = {"goal": request.goal} if request.goal else {}
    if request.inputs is not None:
        given["inputs"] = request.inputs
    return _read(message, "plan", request.tools.names, given, reading, program)


def read_patch_answer(
    message: AIMessage,
    request: ReplanRequest,
    *,
    reading: Reading = _as_written,
    program: Callable[[str], Json] | None = None,
) -> Proposal:
    """The patch in a model's answer. Raises `ModelDeclined` or `AnswerUnreadable`."""
    return _read(message, "patch", request.tools.names, {}, reading, program)


def read_value(message: AIMessage) -> Json:
    """The one JSON value, of any type, in a model's answer. Raises `AnswerUnreadable`."""
    try:
        return _only_value(message)
    except PlanUnreadable as error:
        raise AnswerUnreadable(error.findings, text=message.content, usage=message.usage) from None


def _usage(message: AIMessage) -> dict[str, float] | None:
    return dict(message.usage) if message.usage is not None else None


def _read(
    message: AIMessage,
    wanted: _Wanted,
    names: Collection[str],
    given: dict[str, Json],
    reading: Reading,
    program: Callable[[str], Json] | None,
) -> Proposal:
    notes: list[str] = []
    try:
        source = _only_object(message) if program is None else _program(message, program)
        document = reading(source.document)
        _refuse_other(document, wanted)
        if isinstance(document.get("cannot_plan"), str):
            raise ModelDeclined(_reason(document), text=message.content, usage=message.usage)
        document = _tidied({k: v for k, v in document.items() if k != "cannot_plan"} | given, names, notes)
        made = (plan_from if wanted == "plan" else patch_from)(source._replace(document=document))
    except PlanUnreadable as error:
        raise AnswerUnreadable(error.findings, text=message.content, usage=message.usage) from None
    return Proposal(made, message.content, _usage(message), tuple(notes))


def _only_object(message: AIMessage) -> Source:
    """The one object in the text that can be an answer, read strictly. Raises `PlanUnreadable`."""
    text = message.content[:_LONGEST].lstrip("\ufeff")
    thought = _THOUGHT.match(text)
    objects, cut = _objects(text, thought.end() if thought else 0)
    answers = list(dict.fromkeys(o for o in objects if _ANSWER.search(o))) or objects[:1]
    if cut or (not answers and message.finish_reason == "length"):
        _refuse("cut_off", "the answer is cut off before its end; answer again, with fewer or shorter steps")
    if not answers:
        begin = f", but begins {shorten(text, 40)!r}" if text.strip() else ", but is empty"
        _refuse("bad_answer", f"the answer must be one JSON object{begin}")
    if len(answers) > 1:
        _refuse(
            "bad_answer", f"the answer holds {len(answers)} different objects; send the one that is meant"
        )
    return _strictly(answers[0])


def _program(message: AIMessage, read: Callable[[str], Json]) -> Source:
    """What the program in the text means."""
    text = program_in(message.content)
    if message.finish_reason == "length":
        said = "the program is cut off before its end; answer again, with fewer or shorter lines"
        _refuse("cut_off", said + _again_and_again(text))
    document = read(text)
    return Source("answer.json", json.dumps(document), document, is_json=True)


def program_in(content: str) -> str:
    """The program in an answer; one that is fenced is taken out of the prose around it."""
    text = content[:_LONGEST].lstrip("\ufeff")
    thought = _THOUGHT.match(text)
    text = text[thought.end() if thought else 0 :]
    fenced = _FENCED.findall(text)
    return fenced[0] if len(fenced) == 1 else text.strip()


def _again_and_again(text: str) -> str:
    """The line that an answer without an end consists of."""
    lines = Counter(line.strip() for line in text.splitlines() if line.strip())
    line, times = lines.most_common(1)[0] if lines else ("", 0)
    return f"; the line {shorten(line, 80)!r} stands there {times} times" if times > 2 else ""


def _only_value(message: AIMessage) -> Json:
    text = message.content[:_LONGEST].lstrip("\ufeff")
    thought = _THOUGHT.match(text)
    text = text[thought.end() if thought else 0 :].strip()
    try:
        return _strictly(text).document
    except PlanUnreadable:
        found = _readable(_FENCED.findall(text)) or _readable(_values(text))
    if message.finish_reason == "length":
        _refuse("cut_off", "the answer is cut off before its end; answer again, with less")
    if len(found) != 1:
        many = f"holds {len(found)} different ones" if found else "holds none"
        _refuse("bad_answer", f"the answer must be one JSON value, but {many}")
    return found[0]


def _readable(texts: Collection[str]) -> list[Json]:
    """The different values among texts, of which some may be no JSON."""
    found: dict[bytes, Json] = {}
    for text in texts:
        try:
            value = _strictly(text.strip()).document
        except PlanUnreadable:
            continue
        found[canonical(value)] = value
    return list(found.values())


def _values(text: str) -> list[str]:
    """Every balanced object or list at the top of the text."""
    found: list[str] = []
    unended = place = 0
    while unended < _UNENDED and len(found) < _OBJECTS and (opening := _OPENING.search(text, place)):
        end = _end(text, opening.start())
        if end is None:
            unended += 1
        else:
            found.append(text[opening.start() : end])
        place = end or opening.end()
    return found


def _strictly(text: str) -> Source:
    try:
        return read_source(text, source="answer.json", format="json")
    except PlanUnreadable as error:
        bare = _COMMA.sub(lambda m: " " if m[0] == "," else m[0], text)
        if bare == text or error.findings[0].code != "syntax":
            raise
        return read_source(bare, source="answer.json", format="json")


def _refuse_other(document: Json, wanted: _Wanted) -> None:
    """An answer to another question: both at once, a plan for a patch, a patch for a plan, a plan or a patch of nothing."""
    plan, patch = "steps" in document, "add" in document or "drop" in document
    declined = document.get("cannot_plan") is not None
    if declined and (plan or patch):
        _refuse(
            "bad_answer",
            'the answer says cannot_plan and gives steps; send {"cannot_plan": reason} or the steps',
        )
    if declined and not isinstance(document["cannot_plan"], str):
        _refuse("bad_answer", "cannot_plan must be a sentence that says why", "/cannot_plan")
    if wanted == "plan" and patch and not plan:
        _refuse("bad_answer", 'a whole plan is asked for, {"steps": [...]}, not a patch')
    if wanted == "patch" and plan:
        _refuse("bad_answer", 'a patch is asked for, {"drop": [...], "add": [...]}, not a whole plan')
    if (
        wanted == "patch"
        and not declined
        and not any(map(document.get, ("add", "drop")))
        and "output" not in document
    ):
        _refuse("bad_answer", "the patch changes nothing; add a step, or answer cannot_plan with the reason")
    if plan and not document["steps"] and document.get("output") is None and not declined:
        _refuse(
            "bad_answer",
            'a plan without steps and output does nothing; give steps, or {"cannot_plan": "why"}',
        )


def _reason(document: Mapping[str, Json]) -> str:
    return str(document["cannot_plan"]).strip() or "it gives no reason"


def _tidied(document: dict[str, Json], names: Collection[str], notes: list[str]) -> dict[str, Json]:
    """The document with tools' names freed of markup, and arguments of a call that are an object freed of quotes."""
    waiting = [step for key in ("steps", "add") for step in _steps(document.get(key))]
    while waiting:
        step = waiting.pop()
        _tidy(step, names, notes)
        waiting += _steps(step.get("steps"))
    return document


def _steps(steps: Json) -> list[dict[str, Json]]:
    return [step for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []


def _tidy(step: dict[str, Json], names: Collection[str], notes: list[str]) -> None:
    """Free a step, and what takes it back. Each change is a note."""
    where = f"step {shorten(repr(step.get('id')), 60)}"
    for call in (step, step.get("undo")):
        if not isinstance(call, dict):
            continue
        _unwrap(call, names, notes, where)
        if isinstance(tool := call.get("tool"), str):
            meant = resolve_name(tool, names)
            if meant is not None and meant != tool:
                notes.append(f"{where} names the tool {shorten(repr(tool), 80)}; {meant!r} is meant")
                call["tool"] = meant
        for key in ("args", "next"):
            if (
                isinstance(text := call.get(key), str)
                and (read := decode_text(text, ("object",))) is not None
            ):
                notes.append(f"{where} has its {key} as JSON inside a text, which was read")
                call[key] = read


def _unwrap(call: dict[str, Json], names: Collection[str], notes: list[str], where: str) -> None:
    """A wrapper around several calls that holds one is that one; with more the check says that it is no tool."""
    tool, args = call.get("tool"), call.get("args")
    uses = args.get("tool_uses") if isinstance(args, dict) and len(args) == 1 else None
    if tool in names or not isinstance(uses, list) or len(uses) != 1 or not isinstance(uses[0], dict):
        return
    use = uses[0]
    if use.keys() <= {"recipient_name", "parameters"} and isinstance(use.get("recipient_name"), str):
        call["tool"], call["args"] = use["recipient_name"], use.get("parameters", {})
        notes.append(f"{where} wraps its one call in {shorten(repr(tool), 80)}, which was taken off")


def _objects(text: str, place: int) -> tuple[list[str], bool]:
    """Every balanced object at the top of the text, and whether an answer begins there that never ends."""
    found: list[str] = []
    unended = 0
    while unended < _UNENDED and len(found) < _OBJECTS and (place := text.find("{", place)) >= 0:
        end = _end(text, place)
        if end is not None:
            found.append(text[place:end])
        elif _BEGUN.match(text, place) and _ANSWER.search(text, place):
            return found, True
        else:
            unended += 1
        place = end or place + 1
    return found, False


def _end(text: str, start: int) -> int | None:
    """Where the object that begins at `start` ends; None if it never does."""
    depth, place, inside = 0, start, False
    while match := (_IN_TEXT if inside else _STRUCTURE).search(text, place):
        sign, place = match[0], match.end()
        if sign == "\\":
            place += 1
        elif sign == '"':
            inside = not inside
        else:
            depth += 1 if sign in "{[" else -1
            if depth == 0:
                return place
    return None


def _refuse(code: str, message: str, pointer: str = "") -> NoReturn:
    raise PlanUnreadable([Finding(code, "error", pointer, message)])
