"""Small changes to a plan by a person: take a step out, give a call other arguments; and what else must change.

    edit = Edit(plan, tools).without("parse")
    edit.dangling      ("save", "sent")     steps that read what is gone, and those that read them in turn
    edit.report        the check of the plan as it is now
    edit.plan          the plan as it is now

Nothing is changed beyond what is asked: a step that only waits for one that is gone (`after`) no longer waits; one that
reads it stays, and the report says that it cannot.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

from ..policies.errors import BadInput
from ..policies.expressions import ExpressionError, compile_template
from ..policies.permissions import Principal
from ..policies.policies import Policies
from ..policies.text import did_you_mean
from ..registry.registry import Registry
from .checking import check
from .findings import Report
from .plan import Plan, Step
from .references import template

__all__ = ["Edit"]

Json: TypeAlias = Any

_TEMPLATES = ("args", "value", "each", "when", "until", "next", "output")


@dataclass(frozen=True)
class Edit:
    """A plan with changes. Each change gives a new `Edit`; `gone` are the ids that were taken out."""

    plan: Plan
    registry: Registry
    policies: Policies = field(default_factory=Policies)
    principal: Principal | None = None
    gone: frozenset[str] = frozenset()

    @cached_property
    def report(self) -> Report:
        """The check of the plan as it is now."""
        return check(self.plan, self.registry, self.policies, principal=self.principal)

    @cached_property
    def dangling(self) -> tuple[str, ...]:
        """The steps that cannot stay as they are, in the order of the plan.

        They read a step that is gone, or one that does. The output of the plan is not a step: `report` tells of it.
        """
        lost = set(self.gone)
        while more := {s.id for s in self.plan.every_step if s.id not in lost and _reads(s) & lost}:
            lost |= more
        return tuple(step.id for step in self.plan.every_step if step.id in lost)

    def without(self, *ids: str) -> Edit:
        """Without these steps; a group goes with the steps in it. Raises `BadInput` for an id that no step has."""
        taken = set(ids)
        for id in ids:
            self._step(id)
        gone = {inside.id for id in ids for inside in _with_all_inside(self._step(id))}
        plan = self.plan.model_copy(update={"steps": list(_kept(self.plan.steps, taken, gone))})
        return replace(self, plan=plan, gone=self.gone | gone)

    def without_dangling(self) -> Edit:
        """Without the steps that read what is gone, too."""
        return self.without(*self.dangling) if self.dangling else self

    def with_args(self, id: str, /, **args: object) -> Edit:
        """With other arguments in a call; `...` takes one out. They may hold references, as when a plan is built."""
        step = self._step(id)
        if step.tool is None:
            raise BadInput(f"the step {id!r} calls no tool, so it has no arguments")
        given = {**step.args, **{name: template(v) for name, v in args.items() if v is not ...}}
        kept = {name: v for name, v in given.items() if args.get(name) is not ...}
        changed = step.model_copy(update={"args": kept})
        plan = self.plan.model_copy(update={"steps": [_exchanged(s, id, changed) for s in self.plan.steps]})
        return replace(self, plan=plan)

    def _step(self, id: str) -> Step:
        ids = {step.id: step for step in self.plan.every_step}
        if id not in ids:
            raise BadInput(f"no step is called {id!r}{did_you_mean(id, ids)}")
        return ids[id]


def _with_all_inside(step: Step) -> Iterator[Step]:
    yield step
    for inside in step.steps or ():
        yield from _with_all_inside(inside)


def _kept(steps: list[Step], taken: set[str], gone: set[str]) -> Iterator[Step]:
    for step in steps:
        if step.id in taken:
            continue
        update: dict[str, Any] = {}
        if gone.intersection(step.after):
            update["after"] = [id for id in step.after if id not in gone]
        if step.steps is not None:
            update["steps"] = list(_kept(step.steps, taken, gone))
        yield step.model_copy(update=update) if update else step


def _exchanged(step: Step, id: str, changed: Step) -> Step:
    if step.id == id:
        return changed
    if step.steps is None:
        return step
    return step.model_copy(update={"steps": [_exchanged(inside, id, changed) for inside in step.steps]})


def _reads(step: Step) -> set[str]:
    """The names that a step reads. A group reads what its output does: the steps in it are told for themselves."""
    templates = [getattr(step, name) for name in _TEMPLATES if step.has(name)]
    names = {name for part in templates for name in _names(part)}
    names |= _names(step.undo.args) - {"result"} if step.undo is not None else set()
    return names - ({step.item_name} if step.has("each") else set())


def _names(part: Json) -> set[str]:
    try:
        return set(compile_template(part).names)
    except ExpressionError:
        return set()
