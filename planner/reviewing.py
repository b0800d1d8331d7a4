"""What a plan would do, as data, before it does anything: no tool code runs here.

    review ... waves, every call with its arguments, effects, permissions, approvals, bounds, what cannot be undone first
    diff ..... what another revision keeps, adds, removes and changes, field by field

Counts are bounds: `each` over a list that is known is exact, any other is "n of <expression>". With `inputs`, values
that depend on nothing else are computed, so more counts are known. Seconds are for one attempt of each call.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, TypeAlias

from ..policies.canonical import canonical
from ..policies.effect import Effect
from ..policies.expressions import ExpressionError
from ..policies.permissions import ANYONE, Principal, lacking
from ..policies.policies import Policies
from ..registry.registry import Registry
from ..registry.tools import Tool
from .approvals import asks_at_call, why_needed
from .checking import check_study, unsound
from .counts import Count, Counts, spell
from .findings import CheckFailed, Report
from .folding import Known
from .inputs import settle_inputs
from .plan import Plan, Step
from .study import Study
from .types import describe

__all__ = ["Change", "Count", "Diff", "Planned", "Review", "Seconds", "diff", "review", "spell"]

Json: TypeAlias = Any


class Seconds(NamedTuple):
    """How long the plan takes: by the durations given, and by the timeouts; None where one is not known."""

    typical: float | None
    at_most: float | None


@dataclass(frozen=True, slots=True)
class Planned:
    """One step as it would run. `args`, `value`, `each` and `when` are templates; `resolved` are the arguments where known."""

    id: str
    wave: int
    tool: str | None
    effect: Effect | None
    args: Mapping[str, Json]
    resolved: Mapping[str, Json] | None
    value: Json
    each: Json
    item: str | None
    when: Json
    needs: tuple[str, ...]
    on_failure: str
    replaces: str | None
    permissions: tuple[str, ...]
    lacking: tuple[str, ...]
    asks: bool
    """Whether a person is asked at each call, whatever was approved before."""
    timeout: float | None
    calls: Count
    result: str
    """What is known of the type of the result, in words."""

    def to_json(self) -> dict[str, Any]:
        document = {k: list(v) if type(v) is tuple else v for k, v in asdict(self).items()}
        return {**document, "calls": self.calls._asdict(), "effect": self.effect and self.effect.value}


@dataclass(frozen=True, slots=True)
class Review:
    """Everything a person should see before saying yes. `steps` are in the order of the plan."""

    plan_digest: str
    goal: str
    inputs: Mapping[str, Json] | None
    """The JSON Schema of the inputs."""
    given: Mapping[str, Json] | None
    """The inputs of this run, where they are known."""
    steps: tuple[Planned, ...]
    waves: tuple[tuple[str, ...], ...]
    irreversible: tuple[str, ...]
    calls: Count
    effects: Mapping[str, Count]
    seconds: Seconds
    critical: tuple[str, ...]
    permissions: tuple[str, ...]
    approval: tuple[str, ...]
    """Why an approval is needed, a phrase each; empty where none is."""
    output: Json
    output_type: str
    report: Report

    @property
    def needs_approval(self) -> bool:
        return bool(self.approval)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON: what `foreplan review --json` prints."""
        return {
            "plan_digest": self.plan_digest,
            "goal": self.goal,
            "needs_approval": self.needs_approval,
            "approval": list(self.approval),
            "irreversible": list(self.irreversible),
            "calls": self.calls._asdict(),
            "effects": {name: count._asdict() for name, count in self.effects.items()},
            "seconds": self.seconds._asdict(),
            "critical": list(self.critical),
            "permissions": list(self.permissions),
            "waves": [list(wave) for wave in self.waves],
            "inputs": self.inputs,
            "given": self.given,
            "steps": [step.to_json() for step in self.steps],
            "output": self.output,
            "output_type": self.output_type,
            "report": self.report.to_json(),
        }


class Change(NamedTuple):
    """One field of a step (or of the plan) that differs; `None` stands for "not said"."""

    field: str
    old: Json
    new: Json


@dataclass(frozen=True, slots=True)
class Diff:
    """What one plan has that another has not. `plan` holds changes outside the steps: goal, inputs, output."""

    kept: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: Mapping[str, tuple[Change, ...]]
    plan: tuple[Change, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether the two are the same plan but for the order of steps."""
        return not (self.added or self.removed or self.changed or self.plan)

    def to_json(self) -> dict[str, Any]:
        return {
            "kept": list(self.kept),
            "added": list(self.added),
            "removed": list(self.removed),
            "changed": {id: [c._asdict() for c in changes] for id, changes in self.changed.items()},
            "plan": [c._asdict() for c in self.plan],
        }


def review(
    plan: Plan,
    registry: Registry,
    policies: Policies | None = None,
    *,
    inputs: Mapping[str, Json] | None = None,
    principal: Principal | None = None,
    durations: Mapping[str, float] | None = None,
) -> Review:
    """What the plan would do. A plan with errors is shown as far as it can be read; `report` says what is wrong.

    `durations` are seconds by tool, for the estimate; without them only the timeouts are known. Raises `BadInput` for
    inputs that do not fit the plan, `CheckFailed` for a plan built in Python that is no document at all.
    """
    rules = policies or Policies()
    faults = tuple(unsound(plan))
    if faults:
        raise CheckFailed(Report(faults))
    study = Study(plan, registry, principal)
    report = check_study(study, rules)
    given = settle_inputs(plan, inputs) if inputs is not None and report.ok else inputs
    known = Known(study, given)
    planned = tuple(_Seen(study, rules, principal or ANYONE, known).planned(step) for step in plan.steps)
    tools = {
        step.tool: registry[step.tool]
        for step in plan.steps
        if step.tool is not None and step.tool in registry
    }
    seconds, critical = _time(study, planned, rules, durations)
    return Review(
        plan_digest=report.plan_digest,
        goal=plan.goal,
        inputs=plan.inputs,
        given=given,
        steps=planned,
        waves=study.graph.waves,
        irreversible=tuple(p.id for p in planned if p.effect is Effect.ACTS),
        calls=_total(p.calls for p in planned if p.tool is not None),
        effects=_by_effect(planned),
        seconds=seconds,
        critical=critical,
        permissions=tuple(dict.fromkeys(n for p in planned for n in p.permissions)),
        approval=tuple(why_needed(tools.values(), rules)),
        output=plan.output,
        output_type=describe(study.output_type),
        report=report,
    )


def diff(old: Plan, new: Plan) -> Diff:
    """What `new` keeps, adds, removes and changes of `old`, step by step and field by field."""
    common = [id for id in old.by_id if id in new.by_id]
    changes = {id: _changes(old.by_id[id].to_json(), new.by_id[id].to_json()) for id in common}
    heads = [{k: v for k, v in plan.to_json().items() if k != "steps"} for plan in (old, new)]
    return Diff(
        kept=tuple(id for id in common if not changes[id]),
        added=tuple(id for id in new.by_id if id not in old.by_id),
        removed=tuple(id for id in old.by_id if id not in new.by_id),
        changed={id: found for id, found in changes.items() if found},
        plan=_changes(*heads),
    )


def _changes(old: Mapping[str, Json], new: Mapping[str, Json]) -> tuple[Change, ...]:
    names = {**old, **new}
    return tuple(
        Change(name, old.get(name), new.get(name))
        for name in names
        if (name in old) != (name in new) or canonical(old[name]) != canonical(new[name])
    )


class _Seen:
    """Looks at the steps of one plan."""

    def __init__(self, study: Study, policies: Policies, principal: Principal, known: Known) -> None:
        self.study = study
        self.policies = policies
        self.principal = principal
        self.known = known
        self.waves = {id: i for i, wave in enumerate(study.graph.waves) for id in wave}

    def planned(self, step: Step) -> Planned:
        tool = self.study.tool(step)
        resolved = self.known.value(step, "args") if tool is not None else None
        return Planned(
            id=step.id,
            wave=self.waves.get(step.id, 0),
            tool=step.tool,
            effect=tool.effect if tool else None,
            args=step.args,
            resolved=resolved[0] if resolved else None,
            value=step.value,
            each=step.each,
            item=step.item_name if step.has("each") else None,
            when=step.when,
            needs=self.study.graph.needs.get(step.id, ()),
            on_failure=step.on_failure,
            replaces=step.replaces,
            permissions=tuple(tool.permissions) if tool else (),
            lacking=lacking(self.principal, tool.permissions) if tool else (),
            asks=tool is not None and _asks(step, tool),
            timeout=_timeout(tool, self.policies) if tool else None,
            calls=self.calls(step) if step.tool is not None else Count(0, 0, "0"),
            result=describe(self.study.type_of(step.id)),
        )

    def calls(self, step: Step) -> Count:
        """How often the tool of one step is called, if nothing fails."""
        least, most, text = self._items(step)
        if step.has("when") and step.when is not True:
            return Count(0, most, f"up to {text}" if most is not None else text)
        return Count(least, most, text)

    def _items(self, step: Step) -> Count:
        if not step.has("each"):
            return Count(1, 1, "1")
        found = self.known.value(step, "each")
        if found is not None and isinstance(found[0], list):
            return Count(len(found[0]), len(found[0]), str(len(found[0])))
        return Count(self.study.least_items(step), None, f"n of {spell(step.each)}")


def _asks(step: Step, tool: Tool) -> bool:
    try:
        return asks_at_call(step, tool)
    except ExpressionError:
        return True


def _timeout(tool: Tool, policies: Policies) -> float | None:
    return policies.tool_timeout if tool.timeout_unset else tool.timeout


def _total(counts: Iterable[Count]) -> Count:
    listed = list(counts)
    least = sum(c.least for c in listed)
    known = sum(c.most for c in listed if c.most is not None)
    open_ended = list(dict.fromkeys(c.text for c in listed if c.most is None))
    if open_ended:
        shown = open_ended[:3] + (["…"] if len(open_ended) > 3 else [])
        return Count(least, None, " + ".join([*([str(known)] if known else []), *shown]))
    return Count(least, known, str(known) if least == known else f"{least} to {known}")


def _by_effect(planned: Sequence[Planned]) -> dict[str, Count]:
    calls = {effect: [p.calls for p in planned if p.effect is effect] for effect in Effect}
    return {effect.value: _total(counts) for effect, counts in calls.items() if counts}


def _time(
    study: Study, planned: Iterable[Planned], policies: Policies, durations: Mapping[str, float] | None
) -> tuple[Seconds, tuple[str, ...]]:
    calls = [p for p in planned if p.tool is not None]
    typical = {p.id: _seconds(p, policies, (durations or {}).get(p.tool or "")) for p in calls}
    longest = {p.id: _seconds(p, policies, p.timeout) for p in calls}
    weights = longest if durations is None else typical
    unknown = any(w is None for w in weights.values())
    critical = study.graph.critical({id: 1.0 if unknown or w is None else w for id, w in weights.items()})
    sums = [_sum(study, part) for part in (typical, longest)]
    return Seconds(*sums), critical.path


def _sum(study: Study, weights: Mapping[str, float | None]) -> float | None:
    if study.graph.cycles or any(w is None for w in weights.values()):
        return None
    return study.graph.critical({id: w for id, w in weights.items() if w is not None}).length


def _seconds(planned: Planned, policies: Policies, one: float | None) -> float | None:
    """Seconds for all calls of a step, as many at once as the limits let."""
    if one is None or planned.calls.most is None:
        return None
    width = min(policies.limits.run, policies.limits.tool.get(planned.tool or "", policies.limits.run))
    return one * math.ceil(planned.calls.most / width)
