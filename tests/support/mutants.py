"""Plans with one fault each, planted into sound ones: what a check must say about them, and where.

    for mutant in mutants(case):
        mutant.kind       what was planted, one of KINDS
        mutant.plan       the plan with the fault
        mutant.expected   {(code, pointer), …}: every error a check finds, and no other

The same record gives the same mutants everywhere. Where a plan has nothing to spoil (no reference, say), something is
planted into its last step, on which nothing depends.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

from jsonschema import Draft202012Validator

from foreplan.planner.plan import Plan

from .datasets import Case

__all__ = ["KINDS", "SPELLINGS", "Mutant", "mutants"]

SPELLINGS = (
    "{{{{{}}}}}",
    "${{{}}}",
    "${}",
    "steps.{}",
    "{} && true",
    "{} || null",
    "!{}",
    "{} === 1",
    "{} ? 1 : 2",
    "{} | length",
    "{}.map(x => x)",
    "({}",
    "{}.__class__",
)
"""How an expression is spelled in other languages, or not at all."""

_WRONG: tuple[Any, ...] = ("text", 7, 2.5, True, ["x"], {"x": 1}, None)
_APART = {
    "string": {"integer", "number", "boolean", "array", "object"},
    "integer": {"string", "boolean", "array", "object"},
    "number": {"string", "boolean", "array", "object"},
    "boolean": {"string", "integer", "number", "array", "object"},
    "array": {"string", "integer", "number", "boolean", "object"},
    "object": {"string", "integer", "number", "boolean", "array"},
}
"""Types of JSON Schema that share no value."""

Errors = set[tuple[str, str]]


class Mutant(NamedTuple):
    """A plan with one fault."""

    kind: str
    plan: Plan
    expected: Errors


class _Spoiler:
    """One plan about to be spoiled: its document, a copy, and the dice of this record and kind."""

    def __init__(self, case: Case, kind: str) -> None:
        self.case = case
        self.dice = Random(f"{case.item['id']} {kind}")
        self.document = copy.deepcopy(case.plan.to_json())
        self.steps: list[dict[str, Any]] = self.document["steps"]
        self.last = len(self.steps) - 1

    @property
    def end(self) -> dict[str, Any]:
        return self.steps[self.last]

    def declared(self, index: int, side: str = "input_schema") -> dict[str, Any]:
        """The properties of the tool of a step."""
        found: dict[str, Any] = getattr(self.case.tools[self.steps[index]["tool"]], side)["properties"]
        return found

    def required(self, index: int) -> list[str]:
        found: list[str] = self.case.tools[self.steps[index]["tool"]].input_schema.get("required", [])
        return found

    def reference(self) -> str:
        """Some field of some earlier step than the last."""
        earlier = [i for i in range(self.last) if self.declared(i, "output_schema")]
        if not earlier:
            return self.steps[0]["id"]  # type: ignore[no-any-return]
        index = self.dice.choice(earlier)
        return f"{self.steps[index]['id']}[{self.dice.choice([*self.declared(index, 'output_schema')])!r}]"

    def place(self) -> str | None:
        """An argument of the last step into which something can be planted."""
        names = [*self.declared(self.last)]
        return self.dice.choice(names) if names else None

    def plant(self, text: str, name: str | None = None) -> str | None:
        """Put an expression into the last step; the pointer to it."""
        name = name or self.place()
        if name is None:
            return None
        self.end.setdefault("args", {})[name] = {"$": text}
        return f"/steps/{self.last}/args/{name}/$"

    def spots(self) -> list[tuple[int, str, dict[str, str]]]:
        """The arguments that are references: step, name, holder."""
        return [
            (i, name, value)
            for i, step in enumerate(self.steps)
            for name, value in step.get("args", {}).items()
            if isinstance(value, dict) and "$" in value
        ]


def mutants(case: Case) -> Iterator[Mutant]:
    """Every kind of fault that can be planted into this plan, once each; a bad expression in every spelling."""
    for kind, spoil in KINDS.items():
        spoiler = _Spoiler(case, kind)
        expected = spoil(spoiler)
        if expected:
            yield Mutant(kind, Plan.model_validate(spoiler.document), expected)


# ---- one function for each kind: it spoils the document, and says what a check must find ----------------------------


def _rename_tool(plan: _Spoiler) -> Errors:
    index = plan.dice.randrange(len(plan.steps))
    plan.steps[index]["tool"] += "_v2"
    return {("unknown_tool", f"/steps/{index}/tool")}


def _drop_required(plan: _Spoiler) -> Errors:
    given = [(i, n) for i, s in enumerate(plan.steps) for n in plan.required(i) if n in s.get("args", {})]
    if not given:
        return set()
    index, name = plan.dice.choice(given)
    del plan.steps[index]["args"][name]
    return {("missing_argument", f"/steps/{index}/args")}


def _unknown_argument(plan: _Spoiler) -> Errors:
    index = plan.dice.randrange(len(plan.steps))
    names = [*plan.declared(index), "verbose"]
    name = plan.dice.choice(names) + "_"
    plan.steps[index].setdefault("args", {})[name] = 1
    return {("unknown_argument", f"/steps/{index}/args/{name}")}


def _wrong_literal(plan: _Spoiler) -> Errors:
    """A value that a validator holds for invalid in this place."""
    places = [
        (i, name, wrong)
        for i, step in enumerate(plan.steps)
        for name, value in step.get("args", {}).items()
        if not (isinstance(value, dict) and "$" in value)
        for wrong in _WRONG
        if name in plan.declared(i) and not Draft202012Validator(plan.declared(i)[name]).is_valid(wrong)
    ]
    if not places:
        return set()
    index, name, wrong = plan.dice.choice(places)
    plan.steps[index]["args"][name] = wrong
    return {("wrong_argument", f"/steps/{index}/args/{name}")}


def _missing_step(plan: _Spoiler) -> Errors:
    """The step that a reference reads is taken away; where there is none, one to a step that never was."""
    spots = plan.spots()
    if not spots:
        pointer = plan.plant("s99.result")
        return {("unknown_step", pointer)} if pointer else set()
    gone = _root(plan.dice.choice(spots)[2]["$"])
    at = next(i for i, step in enumerate(plan.steps) if step["id"] == gone)
    del plan.steps[at]
    broken = {f"/steps/{i}/args/{n}/$" for i, n, holder in plan.spots() if _root(holder["$"]) == gone}
    broken |= {
        f"/steps/{i}/after/{n}"
        for i, step in enumerate(plan.steps)
        for n, id in enumerate(step.get("after", ()))
        if id == gone
    }
    return {("unknown_step", pointer) for pointer in broken}


def _root(text: str) -> str:
    return text.split(".")[0].split("[")[0]


def _missing_field(plan: _Spoiler) -> Errors:
    """The field that a reference reads gets another name; where there is no reference, one is planted."""
    spots = plan.spots()
    if not spots:
        index = plan.dice.randrange(plan.last)
        pointer = plan.plant(f"{plan.steps[index]['id']}.no_such_field")
        return {("unknown_field", pointer)} if pointer else set()
    index, name, holder = plan.dice.choice(spots)
    field = holder["$"].split(".")[1].split("[")[0]
    holder["$"] = holder["$"].replace(f".{field}", f".{field}_", 1)
    return {("unknown_field", f"/steps/{index}/args/{name}/$")}


def _cycle(plan: _Spoiler) -> Errors:
    """Two steps wait for each other, whatever else they wait for."""
    first = plan.dice.randrange(plan.last)
    plan.steps[first].setdefault("after", []).append(plan.end["id"])
    plan.end.setdefault("after", []).append(plan.steps[first]["id"])
    return {("cycle", f"/steps/{first}")}


def _duplicate_id(plan: _Spoiler) -> Errors:
    """One more step, under the name of another."""
    plan.steps.append({"id": plan.dice.choice(plan.steps)["id"], "value": 1})
    return {("duplicate_id", f"/steps/{plan.last + 1}/id")}


def _bad_expression(spelling: str) -> Callable[[_Spoiler], Errors]:
    def spoil(plan: _Spoiler) -> Errors:
        pointer = plan.plant(spelling.format(plan.reference()))
        return {("bad_expression", pointer)} if pointer else set()

    return spoil


def _wrong_element(plan: _Spoiler) -> Errors:
    """`each` over a list whose elements are of another type than the argument they are given to."""
    name = plan.place()
    if name is None:
        return set()
    wrong = [v for v in _WRONG if not Draft202012Validator(plan.declared(plan.last)[name]).is_valid(v)]
    if not wrong:
        return set()
    value = plan.dice.choice(wrong)
    plan.end["each"] = plan.dice.choice([[value, value], {"$": f"[{value!r}] + [{value!r}]"}])
    return {("wrong_type", str(plan.plant("item", name)))}


def _unknown_input(plan: _Spoiler) -> Errors:
    pointer = plan.plant("inputs.nothing_of_the_kind")
    return {("unknown_input", pointer)} if pointer else set()


def _reserved_id(plan: _Spoiler) -> Errors:
    plan.end["id"] = plan.dice.choice(["inputs", "run", "item", "index", "result", "len", "sorted", "null"])
    return {("reserved_id", f"/steps/{plan.last}/id")}


def _self_reference(plan: _Spoiler) -> Errors:
    pointer = plan.plant(plan.end["id"] + plan.dice.choice(["", ".field", "[0]"]))
    return {("self_reference", pointer)} if pointer else set()


def _field_of_another_type(plan: _Spoiler) -> Errors:
    places = [
        (name, f"{step['id']}[{field!r}]")
        for name, wanted in plan.declared(plan.last).items()
        for i, step in enumerate(plan.steps[:-1])
        for field, held in plan.declared(i, "output_schema").items()
        if held.get("type") in _APART.get(wanted.get("type"), ())
    ]
    if not places:
        return set()
    name, text = plan.dice.choice(places)
    return {("wrong_type", str(plan.plant(text, name)))}


def _whole_result(plan: _Spoiler) -> Errors:
    names = [n for n, wanted in plan.declared(plan.last).items() if wanted.get("type") != "object"]
    if not names:
        return set()
    text = plan.dice.choice(plan.steps[:-1])["id"]
    return {("wrong_type", str(plan.plant(text, plan.dice.choice(names))))}


def _each_over_no_list(plan: _Spoiler) -> Errors:
    whole = plan.dice.choice(plan.steps[:-1])["id"]
    plan.end["each"] = plan.dice.choice(
        [{"$": whole}, {"$": "7"}, "a text", {"x": 1}, {"$": f"len({whole})"}]
    )
    return {("not_a_list", f"/steps/{plan.last}/each")}


KINDS: dict[str, Callable[[_Spoiler], Errors]] = {
    "rename tool": _rename_tool,
    "drop required": _drop_required,
    "unknown argument": _unknown_argument,
    "wrong literal": _wrong_literal,
    "missing step": _missing_step,
    "missing field": _missing_field,
    "cycle": _cycle,
    "duplicate id": _duplicate_id,
    **{f"bad expression {spelling.format('x')}": _bad_expression(spelling) for spelling in SPELLINGS},
    "wrong element": _wrong_element,
    "unknown input": _unknown_input,
    "reserved id": _reserved_id,
    "self reference": _self_reference,
    "field of another type": _field_of_another_type,
    "whole result": _whole_result,
    "each over no list": _each_over_no_list,
}
"""What can be planted, by its name."""
