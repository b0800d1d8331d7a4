"""What the command line says, as the engine wants it: plans, inputs, policies, principal, approval, answers, durations.

Each function takes words and gives a value, or raises `BadInput` with a sentence that names the word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ..executor.runtime import Answer
from ..planner.approvals import Approval, read_approval
from ..planner.documents import Source, plan_from, read_document
from ..planner.findings import Finding, PlanUnreadable, pointer_to
from ..planner.inputs import settle_inputs
from ..planner.plan import Plan
from ..policies.errors import BadInput
from ..policies.frozen import Trouble, troubles
from ..policies.permissions import ANYONE, Principal
from ..policies.policies import Budget, Policies
from ..policies.signing import Verifier, read_verifier
from ..policies.text import did_you_mean
from .files import read_file, read_text
from .lines import plain
from .screen import Faulty

__all__ = [
    "read_answers",
    "read_approvers",
    "read_columns",
    "read_constants",
    "read_duration",
    "read_given_approval",
    "read_given_plan",
    "read_inputs",
    "read_policies",
    "read_principal",
    "read_record",
    "read_schema",
]

_Record = TypeVar("_Record", bound=BaseModel)

_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}


def read_given_plan(path: str) -> tuple[Plan, Source]:
    """The plan in a file, and the source, so that findings can be shown at their place."""
    source = read_text(path, "the plan")
    try:
        return plan_from(source), source
    except PlanUnreadable as error:
        raise Faulty(f"the plan in {plain(source.name, 200)} cannot be read", error.findings) from None


def read_inputs(plan: Plan, path: str | None, sets: Iterable[str]) -> dict[str, Any] | None:
    """The inputs of a run: a file, then each `key=value` over it, checked. None where nothing is said."""
    given: dict[str, Any] = {}
    if path is not None:
        given.update(_object(read_text(path, "the inputs").document, "the inputs", path))
    for word in sets:
        key, value = _pair(word, "--set", "key=value")
        given[key] = _value(plan, key, value)
    if path is None and not given:
        return None
    return settle_inputs(plan, given)


def read_columns(words: Iterable[str]) -> dict[str, str] | None:
    """Which column an input is, from `input=column`. None where nothing is said."""
    return dict(_pair(word, "--map", "input=column") for word in words) or None


def read_constants(plan: Plan, words: Iterable[str]) -> dict[str, Any] | None:
    """Inputs that are the same for every row, from `input=value`. None where nothing is said."""
    pairs = [_pair(word, "--set", "input=value") for word in words]
    return {key: _value(plan, key, value) for key, value in pairs} or None


def _value(plan: Plan, key: str, text: str) -> Any:
    """A value as the plan's schema wants it: text where it says text, else JSON if it reads as JSON."""
    properties = (plan.inputs or {}).get("properties", {})
    schema = properties.get(key) if isinstance(properties, Mapping) else None
    if isinstance(schema, Mapping) and schema.get("type") == "string":
        return text
    try:
        return read_document(text, format="json")
    except PlanUnreadable:
        return text


def _pair(word: str, option: str, form: str) -> tuple[str, str]:
    key, sign, value = word.partition("=")
    if not sign or not key:
        raise BadInput(f"{option} takes {form}, not '{plain(word, 100)}'")
    return key, value


def _object(document: Any, what: str, path: str) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise BadInput(
            f"{what} in {plain(path, 200)} must be an object (`key: value`), not {_kind(document)}"
        )
    return document


def _kind(value: Any) -> str:
    return {list: "a list", str: "text", bool: "true or false", type(None): "null"}.get(
        type(value), "a number"
    )


def read_schema(path: str | None) -> dict[str, Any] | None:
    """The JSON Schema of a plan's inputs."""
    return None if path is None else _object(read_text(path, "the schema").document, "the schema", path)


def read_policies(path: str | None) -> Policies:
    """The rules in a file; an option that does not exist is named with the nearest one that does."""
    return Policies() if path is None else read_record(Policies, path, "the policies")


def read_principal(word: str | None, permissions: Iterable[str]) -> Principal:
    """On whose behalf: the id itself, or a file (`.yaml`, `.json`) with id, roles, permissions, attributes."""
    if word is None:
        who = ANYONE
    elif word.endswith((".yaml", ".yml", ".json")):
        who = read_record(Principal, word, "the principal")
    else:
        who = Principal(id=word)
    more = tuple(p for p in permissions if p not in who.permissions)
    return Principal(**{**dict(who), "permissions": (*who.permissions, *more)}) if more else who


def read_given_approval(path: str | None) -> Approval | None:
    """The approval in a file."""
    return None if path is None else read_approval(read_file(path))


def read_approvers(words: Iterable[str]) -> list[Verifier]:
    """Whose signatures count, from `FILE` or `NAME=FILE`: a key with a name signs in that name only."""
    pairs = [(name, path) if sign else ("", name) for name, sign, path in (w.partition("=") for w in words)]
    return [read_verifier(path, name) for name, path in pairs]


def read_duration(word: str | None) -> float | None:
    """Seconds from `90s`, `30m`, `24h`, `7d`."""
    if word is None:
        return None
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", word, re.ASCII)
    if match is None or match[2] not in _UNITS or not float(match[1]):
        raise BadInput(f"'{plain(word, 60)}' is no duration; write 90s, 30m, 24h or 7d")
    return float(match[1]) * _UNITS[match[2]]


def read_budget(words: Iterable[str]) -> Budget:
    """What all rows of a batch together may use, from `name=most`."""
    names = [name for name in Budget.model_fields if name != "tools"]
    found: dict[str, Any] = {}
    for name, said in (_pair(word, "--budget", "name=most") for word in words):
        if name not in names:
            guess = did_you_mean(name, names) or f"; there are {', '.join(names)}"
            raise BadInput(f"a batch has no budget of '{plain(name, 60)}'{guess}")
        is_time = name == "seconds" and said[-1:].isalpha()
        found[name] = read_duration(said) if is_time else said
    try:
        return Budget.model_validate_strings({name: str(most) for name, most in found.items()})
    except ValidationError as error:
        name = str(error.errors()[0]["loc"][0])
        raise BadInput(
            f"the budget of {name} is a number, not '{plain(str(found[name]), 60)}': --budget {name}=100"
        ) from None


def read_answers(words: Iterable[str], by: str, reason: str) -> dict[str, Answer]:
    """Answers by the id of the question, from `ID=choice`, `ID=accept:JSON`, `ID=answer:JSON` and `ID=edit:JSON`."""
    answers = {}
    for word in words:
        id_, said = _pair(word, "--decide", "ID=choice")
        choice, _, value = said.partition(":")
        if value and choice not in ("accept", "answer", "edit"):
            said_so = f"not {plain(choice, 40)!r} in '{plain(word, 100)}'"
            raise BadInput(f"only `accept`, `answer` and `edit` take a value, {said_so}")
        answers[id_] = Answer(choice, by, _accepted(value) if value else None, reason)
    return answers


def _accepted(text: str) -> Any:
    try:
        return read_document(text, format="json")
    except PlanUnreadable as error:
        raise BadInput(f"'{plain(text, 100)}' is no JSON: {error.findings[0].message}") from None


# ---------------------------------------------------------------------------------------------- records from files


def read_record(model: type[_Record], path: str, what: str) -> _Record:
    """A frozen record from a file; each thing that is wrong with it is a finding at its place."""
    source = read_text(path, what)
    _object(source.document, what, path)
    try:
        return model.model_validate(source.document)
    except ValidationError as error:
        findings = [_finding(trouble) for trouble in troubles(error, model)]
    raise Faulty(f"{what} in {plain(path, 200)} cannot be used", source.located(findings))


def _finding(trouble: Trouble) -> Finding:
    where = trouble.where[:-1] if trouble.kind == "missing" else trouble.where
    code = f"{trouble.kind}_property"
    return Finding(code, "error", pointer_to(*where), plain(trouble.message), trouble.suggestion)
