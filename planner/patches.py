"""A patch makes the next revision of a plan: what is settled stays, what is dropped goes, what is new joins at the end.

    before   fetch (ok)   parse (failed)   save: parse.rows (blocked)      patch  add parse2, replaces: parse
    after    fetch        parse            save: parse2.rows               parse2

A step that is replaced gives its name's meaning away: expressions and `after` of unsettled steps, of added ones and of
the output that name it are rewritten to the new id. Its own text, if it is settled, stays as it ran.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from ..policies.errors import BadInput
from ..policies.expressions import ExpressionError, rename_in
from ..policies.text import did_you_mean
from .findings import Finding, pointer_to, quoted
from .plan import Patch, Plan, Step

__all__ = ["PatchDoesNotFit", "apply_patch", "lineage"]

Json: TypeAlias = Any


class PatchDoesNotFit(BadInput):
    """A patch that does not fit the plan it is for: `findings` say all of why, with pointers into the patch."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("the patch does not fit: " + "; ".join(f.message for f in self.findings[:3]))


def apply_patch(
    plan: Plan,
    patch: Patch,
    *,
    settled: Collection[str],
    used: Collection[str] = (),
    failed: Collection[str] | None = None,
) -> Plan:
    """The next revision. `settled` steps (failed ones too) may not be dropped, `used` ids not be given again.

    A step that is not settled and is replaced is dropped. With `failed`, a settled step that is not in it cannot be
    replaced. Raises `PatchDoesNotFit`; that the result is a sound plan is for `check` to say.
    """
    findings = [*_drops(plan, patch, settled), *_additions(plan, patch, settled, used, failed)]
    if findings:
        raise PatchDoesNotFit(findings)
    replaced = {step.replaces: step.id for step in patch.add if step.replaces is not None}
    gone = {*patch.drop, *(id for id in replaced if id not in settled)}
    kept = [_renamed(s, replaced) if s.id not in settled else s for s in plan.steps if s.id not in gone]
    added = [_in_line(plan, _renamed(step, replaced), gone) for step in patch.add]
    revision: dict[str, Any] = {"steps": [*kept, *added]}
    output = _output(plan, patch)
    if output:
        revision["output"] = _template(output[0], replaced)
    return plan.model_copy(update=revision)


def lineage(plan: Plan) -> dict[str, str]:
    """For each step, the first id of its chain of `replaces`: what it is called in idempotency keys."""
    if all(step.replaces is None for step in plan.steps):
        return {step.id: step.id for step in plan.steps}
    first: dict[str, str] = {}
    for step in plan.steps:
        trail, id = [], step.id
        while id not in first and id not in trail:
            trail.append(id)
            before = plan.by_id[id].replaces if id in plan.by_id else None
            id = before if before is not None else id
        first.update(dict.fromkeys(trail, first.get(id, id)))
    return {step.id: first[step.id] for step in plan.steps}


def _drops(plan: Plan, patch: Patch, settled: Collection[str]) -> Iterator[Finding]:
    for i, id in enumerate(patch.drop):
        if id not in plan.by_id:
            yield _not_there(plan, id, "dropped", "drop", i)
        elif id in settled:
            yield _bad(f"the step {quoted(id)} has run or is under way, so it cannot be dropped", "drop", i)


def _additions(
    plan: Plan, patch: Patch, settled: Collection[str], used: Collection[str], failed: Collection[str] | None
) -> Iterator[Finding]:
    taken = {*(step.id for step in plan.every_step), *used}
    given: dict[str, int] = {}
    for i, step in enumerate(patch.add):
        if step.id in taken:
            yield _bad(
                f"the id {quoted(step.id)} was used before; give the new step a fresh one", "add", i, "id"
            )
        taken.add(step.id)
        for inner, where in _inside(step, ("add", i)):
            if inner.id in taken:
                message = f"the id {quoted(inner.id)} was used before; give the step inside a fresh one"
                yield _bad(message, *where, "id")
            taken.add(inner.id)
            if inner.replaces is not None:
                message = f"{quoted(inner.id)} is inside the group {quoted(step.id)}; only the group replaces a step"
                yield _bad(message, *where, "replaces")
        old = step.replaces
        if old is None:
            continue
        if old not in plan.by_id:
            yield _not_there(plan, old, "replaced", "add", i, "replaces")
        elif failed is not None and old in settled and old not in failed:
            yield _bad(f"the step {quoted(old)} did not fail, so it cannot be replaced", "add", i, "replaces")
        elif old in given:
            message = f"{quoted(old)} is replaced twice: by {quoted(patch.add[given[old]].id)} and {quoted(step.id)}"
            yield _bad(message, "add", i, "replaces")
        given.setdefault(old, i)


def _inside(step: Step, where: tuple[str | int, ...]) -> Iterator[tuple[Step, tuple[str | int, ...]]]:
    """The steps of a group, at every depth, each with the way to it."""
    for i, inner in enumerate(step.steps or ()):
        way = (*where, "steps", i)
        yield inner, way
        yield from _inside(inner, way)


def _not_there(plan: Plan, id: str, done: str, *where: str | int) -> Finding:
    """No such step in the plan; one inside a group can only go with its group."""
    group = next((step for step in plan.steps if any(inner.id == id for inner, _ in _inside(step, ()))), None)
    if group is None:
        return _bad(
            f"no step is called {quoted(id)}, so it cannot be {done}{did_you_mean(id, plan.by_id)}", *where
        )
    message = (
        f"{quoted(id)} is a step inside the group {quoted(group.id)}; only the group as a whole can be {done}"
    )
    return _bad(message, *where)


def _bad(message: str, *where: str | int) -> Finding:
    return Finding("bad_patch", "error", pointer_to(*where), message)


def _in_line(plan: Plan, step: Step, gone: Collection[str]) -> Step:
    """A step that replaces one which is gone stands in the place of what that one replaced."""
    old = plan.by_id.get(step.replaces or "")
    if old is None or old.id not in gone or old.replaces is None:
        return step
    return step.model_copy(update={"replaces": old.replaces})


def _output(plan: Plan, patch: Patch) -> tuple[Json] | None:
    if "output" in patch.model_fields_set:
        return (patch.output,)
    return (plan.output,) if "output" in plan.model_fields_set else None


def _renamed(step: Step, replaced: Mapping[str, str]) -> Step:
    """The step with replaced ids renamed wherever it names one, but for its own."""
    mapping = {old: new for old, new in replaced.items() if new != step.id}
    if not mapping:
        return step
    update: dict[str, Any] = {
        field: _template(getattr(step, field), mapping)
        for field in ("args", "value", "output", "each", "when", "until", "next")
        if step.has(field)
    }
    if step.undo is not None:
        update["undo"] = step.undo.model_copy(update={"args": _template(step.undo.args, mapping)})
    if step.steps is not None:
        update["steps"] = [_renamed(inner, mapping) for inner in step.steps]
    if step.has("after"):
        update["after"] = list(dict.fromkeys(mapping.get(id, id) for id in step.after))
    return step.model_copy(update=update)


def _template(template: Json, mapping: Mapping[str, str]) -> Json:
    try:
        return rename_in(template, mapping) if mapping else template
    except ExpressionError:
        return template  # the check says what is wrong with it
