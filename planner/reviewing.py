"""What a plan would do, as data, before it does anything: no tool code runs here.

    review ... waves, every call with its arguments, effects, permissions, approvals, bounds, what cannot be undone first
    diff ..... what another revision keeps, adds, removes and changes, field by field

Groups are nested: a step inside one is called that often for each of its items, and belongs to a wave of its group.
Counts are bounds: `each` over a list that is known is exact, any other is "n of <expression>", `until` goes up to `max`.
With `inputs`, values that depend on nothing else are computed, so more counts are known. Seconds are for one attempt of
each call; what would be undone if the plan failed is not in the counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, TypeAlias

from ..policies.canonical import canonical
from ..policies.effect import Effect
from ..policies.errors import expect
from ..policies.expressions import Expression, ExpressionError
from ..policies.permissions import ANYONE, Principal, lacking
from ..policies.policies import Policies
from ..policies.spelling import spelled
from ..registry.registry import Registry
from ..registry.tools import Tool
from .approvals import asks_at_call, asks_at_undo, asks_for, tools_of, why_needed
from .bounds import limits_of
from .checking import check_study, unsound
from .counts import ONCE, Count, Counts, spell
from .findings import CheckFailed, Report
from .folding import Known
from .inputs import settle_inputs
from .plan import Plan, Step, expect_plan
from .sharing import shared_by_rows
from .study import Block, Site, Study
from .types import describe

__all__ = ["Change", "Count", "Diff", "Planned", "Review", "Seconds", "TakenBack", "diff", "review", "spell"]

Json: TypeAlias = Any


class Seconds(NamedTuple):
    """How long the plan takes: by the durations given, and by the timeouts; None where one is not known."""

    typical: float | None
    at_most: float | None


@dataclass(frozen=True, slots=True)
class TakenBack:
    """The call that would take a step's effect back, if the group or the plan around it failed."""

    tool: str
    effect: Effect | None
    args: Mapping[str, Json]
    permissions: tuple[str, ...]
    lacking: tuple[str, ...]
    asks: bool | None
    asks_when: str | None = None
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Planned:
    """One step as it would run. `args`, `value`, `each` and so on are templates; `resolved` are the arguments where known."""

    id: str
    wave: int
    """Its wave in the plan, or in its group."""
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
    asks: bool | None
    """Whether a person is asked at each call, whatever was approved before; None where the arguments will say."""
    timeout: float | None
    calls: Count
    """How often its tool is called in the whole run; of a group, all calls inside. A question to a person is no call."""
    result: str
    """What is known of the type of the result, in words."""
    until: Json = None
    next: Mapping[str, Json] | None = None
    every: float | None = None
    undo: TakenBack | None = None
    steps: tuple[Planned, ...] | None = None
    """Of a group: the steps inside, in the order of the plan."""
    times: Count = ONCE
    """Of a group: how often it is gone through in the whole run."""
    output: Json = None
    asks_when: str | None = None
    """The tool's rule over `args` that says when a person is asked, where it has one."""
    secrets: tuple[str, ...] = ()
    """The names of the secrets that the engine gives to its tool."""
    limits: Mapping[str, Json] | None = None
    """Which limits hold for calls of its tool beside those of the run (`limits_of`), where some do."""
    cost: float = 0.0
    """What one call costs, as its tool states."""

    @property
    def every_step(self) -> Iterator[Planned]:
        """The step itself and all inside it."""
        yield self
        for step in self.steps or ():
            yield from step.every_step

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; what only groups, repeats and undo have is there where they are."""
        document = {f.name: _plain(getattr(self, f.name)) for f in fields(self)}
        if self.steps is None:
            document = {k: v for k, v in document.items() if k not in ("steps", "times", "output")}
        usual = ("until", "next", "every", "undo", "asks_when", "secrets", "limits", "cost")
        rare = {k for k in usual if document[k] in (None, [], 0.0)}
        return {k: v for k, v in document.items() if k not in rare}


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
    """Those inside groups stand in the `steps` of the group; `every_step` has all."""
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
    batch: bool = False
    """Whether it is of a batch: `calls` and `seconds` are those of one row."""
    shared: tuple[str, ...] = ()
    """In a batch: the steps that run once, and whose results all rows share."""

    @property
    def needs_approval(self) -> bool:
        return bool(self.approval)

    @property
    def every_step(self) -> tuple[Planned, ...]:
        """All steps, a group before its own."""
        return tuple(inside for step in self.steps for inside in step.every_step)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON: what `foreplan review --json` prints."""
        return {
            "plan_digest": self.plan_digest,
            "goal": self.goal,
            "needs_approval": self.needs_approval,
            "approval": list(self.approval),
            "irreversible": list(self.irreversible),
            **({"batch": True, "shared": list(self.shared)} if self.batch else {}),
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


@spelled
def review(
    plan: Plan,
    registry: Registry,
    policies: Policies | None = None,
    *,
    inputs: Mapping[str, Json] | None = None,
    principal: Principal | None = None,
    durations: Mapping[str, float] | None = None,
    batch: bool = False,
) -> Review:
    """What the plan would do. A plan with errors is shown as far as it can be read; `report` says what is wrong.

    `batch`: as the plan of a batch, of which one row is shown, and what all rows share. `durations` are seconds by tool, for the estimate; without them only the timeouts are known. Raises `BadInput` for
    inputs that do not fit the plan, `CheckFailed` for a plan built in Python that is no document at all.
    """
    expect_plan(plan)
    expect(Registry, registry, "the tools")
    rules = policies or Policies()
    faults = tuple(unsound(plan))
    if faults:
        raise CheckFailed(Report(faults))
    study = Study(plan, registry, principal, rules)
    report = check_study(study, batch=batch)
    given = settle_inputs(plan, inputs) if inputs is not None and report.ok else inputs
    seen = _Seen(study, rules, principal or ANYONE, Known(study, given))
    planned = seen.block(study.root)
    every = [inside for step in planned for inside in step.every_step]
    tools = [registry[name] for name in tools_of(plan) if name in registry]
    seconds, critical = _time(study, seen.counts, rules, durations)
    return Review(
        plan_digest=report.plan_digest,
        goal=plan.goal,
        inputs=plan.inputs,
        given=given,
        steps=planned,
        waves=study.graph.waves,
        irreversible=tuple(p.id for p in every if p.effect is Effect.ACTS),
        calls=_total(p.calls for p in every if p.tool is not None),
        effects=_by_effect(every),
        seconds=seconds,
        critical=critical,
        permissions=tuple(dict.fromkeys(n for p in every for n in _permissions(p))),
        approval=tuple(why_needed(tools, rules)),
        output=plan.output,
        output_type=describe(study.output_type),
        report=report,
        batch=batch,
        shared=shared_by_rows(study)[0] if batch else (),
    )


@spelled
def diff(old: Plan, new: Plan) -> Diff:
    """What `new` keeps, adds, removes and changes of `old`, step by step and field by field."""
    expect_plan(old)
    expect_plan(new)
    before, after = _flat(old), _flat(new)
    common = [id for id in before if id in after]
    changes = {id: _changes(before[id], after[id]) for id in common}
    heads = [{k: v for k, v in plan.to_json().items() if k != "steps"} for plan in (old, new)]
    return Diff(
        kept=tuple(id for id in common if not changes[id]),
        added=tuple(id for id in after if id not in before),
        removed=tuple(id for id in before if id not in after),
        changed={id: found for id, found in changes.items() if found},
        plan=_changes(*heads),
    )


def _flat(plan: Plan) -> dict[str, dict[str, Json]]:
    """The documents of all steps by id (the first, where an id stands twice), each with the `group` it stands in."""
    found: dict[str, dict[str, Json]] = {}
    waiting: list[tuple[Step, str]] = [(step, "") for step in reversed(plan.steps)]
    while waiting:
        step, group = waiting.pop()
        said = {k: v for k, v in step.to_json().items() if k != "steps"}
        found.setdefault(step.id, {**said, **({"group": group} if group else {})})
        waiting += [(inside, step.id) for inside in reversed(step.steps or ())]
    return found


def _changes(old: Mapping[str, Json], new: Mapping[str, Json]) -> tuple[Change, ...]:
    names = {**old, **new}
    return tuple(
        Change(name, old.get(name), new.get(name))
        for name in names
        if (name in old) != (name in new) or canonical(old[name]) != canonical(new[name])
    )


def _plain(value: Any) -> Json:
    """A field of a `Planned` as plain JSON."""
    match value:
        case Effect():
            return value.value
        case Count():
            return value._asdict()
        case Planned():
            return value.to_json()
        case TakenBack():
            document = {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
            return {k: v for k, v in document.items() if k != "asks_when" or v is not None}
        case tuple():
            return [_plain(part) for part in value]
        case _:
            return value


class _Seen:
    """Looks at the steps of one plan."""

    def __init__(self, study: Study, policies: Policies, principal: Principal, known: Known) -> None:
        self.study = study
        self.policies = policies
        self.principal = principal
        self.known = known
        self.counts = Counts(study, known)

    def block(self, block: Block) -> tuple[Planned, ...]:
        """The steps of a block, those inside groups with them."""
        waves = {id: i for i, wave in enumerate(block.graph.waves) for id in wave}
        return tuple(self.planned(site, waves.get(site.id, 0)) for site in block.sites)

    def planned(self, site: Site, wave: int) -> Planned:
        step, tool = site.step, self.study.tool(site.step)
        resolved = self.known.value(step, "args") if tool is not None else None
        inside = self.block(site.inner) if site.inner is not None else None
        return Planned(
            id=step.id,
            wave=wave,
            tool=step.tool,
            effect=tool.effect if tool else None,
            args=step.args,
            resolved=resolved[0] if resolved else None,
            value=step.value,
            each=step.each,
            item=step.item_name if step.has("each") else None,
            when=step.when,
            needs=site.block.graph.needs.get(step.id, ()),
            on_failure=step.on_failure,
            replaces=step.replaces,
            permissions=tuple(tool.permissions) if tool else (),
            lacking=lacking(self.principal, tool.permissions) if tool else (),
            asks=_asks(site, tool, resolved) if tool is not None else False,
            timeout=_timeout(tool, self.policies) if tool else None,
            calls=self._calls(site, inside),
            result=describe(self.study.type_of(step.id)),
            until=step.until,
            next=step.next,
            every=step.every,
            undo=self._undo(site),
            secrets=_secrets(tool),
            cost=tool.cost if tool is not None else 0.0,
            limits=(limits_of(tool, self.policies) or None) if tool is not None else None,
            steps=inside,
            times=self.counts.of(site) if inside is not None else ONCE,
            output=step.output,
            asks_when=_rule(tool) if tool is not None else None,
        )

    def _calls(self, site: Site, inside: tuple[Planned, ...] | None) -> Count:
        if inside is not None:
            return _total(p.calls for step in inside for p in step.every_step if p.tool is not None)
        tool = self.study.tool(site.step)
        asks = tool is not None and tool.answered_by == "person"  # a question is no call of the budget
        return _NONE if site.step.tool is None or asks else self.counts.of(site)

    def _undo(self, site: Site) -> TakenBack | None:
        step = site.step
        if step.undo is None:
            return None
        tool = self.study.registry.get(step.undo.tool)
        needed = tuple(tool.permissions) if tool is not None else ()
        return TakenBack(
            tool=step.undo.tool,
            effect=tool.effect if tool is not None else None,
            args=step.undo.args,
            permissions=needed,
            lacking=lacking(self.principal, needed),
            asks=tool is not None and _asks_at_undo(site, tool),
            asks_when=_rule(tool) if tool is not None else None,
            secrets=_secrets(tool),
        )


_NONE = Count(0, 0, "0")


def _permissions(step: Planned) -> tuple[str, ...]:
    return step.permissions + (step.undo.permissions if step.undo is not None else ())


def _secrets(tool: Tool | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(tool.secret_refs.values())) if tool is not None else ()


def _asks(site: Site, tool: Tool, known: tuple[Json] | None) -> bool | None:
    """Whether a person is asked at the call; None where it depends on arguments that are not known yet."""
    if isinstance(tool.requires_approval, Expression):
        settled = known is not None and site.step.next is None
        return bool(asks_for(tool, known[0])) if settled and known is not None else None
    try:
        return asks_at_call(site.step, tool, many=_many(site))
    except ExpressionError:
        return True


def _asks_at_undo(site: Site, tool: Tool) -> bool | None:
    if isinstance(tool.requires_approval, Expression):
        return None
    try:
        return asks_at_undo(site.step, tool, many=_many(site))
    except ExpressionError:
        return True


def _many(site: Site) -> bool:
    """Whether a group around the step runs for each of a list."""
    return any(group.step.has("each") for group in site.groups)


def _rule(tool: Tool) -> str | None:
    need = tool.requires_approval
    return need.text if isinstance(need, Expression) else None


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
    study: Study, counts: Counts, policies: Policies, durations: Mapping[str, float] | None
) -> tuple[Seconds, tuple[str, ...]]:
    usual = durations or {}
    typical = _Clock(study, counts, policies, lambda tool: usual.get(tool.name))
    longest = _Clock(study, counts, policies, lambda tool: _timeout(tool, policies))
    chosen = longest if durations is None else typical
    whole = chosen.length(study.root)
    path = tuple((_Steps() if whole is None else chosen).path(study.root))
    return Seconds(typical.length(study.root), longest.length(study.root)), path


class _Steps:
    """Measures chains of waiting in calls that wait for each other: what there is where no times are known."""

    def __init__(self) -> None:
        self._lengths: dict[Block, float | None] = {}

    def length(self, block: Block) -> float | None:
        """The longest chain of a block; None where it is not known."""
        if block not in self._lengths:
            weights = {id: self.weight(site) for id, site in block.by_id.items()}
            known = {id: w for id, w in weights.items() if w is not None}
            sound = len(known) == len(weights) and not block.graph.cycles
            self._lengths[block] = block.graph.critical(known).length if sound else None
        return self._lengths[block]

    def weight(self, site: Site) -> float | None:
        """What a step adds to a chain."""
        return (
            1.0 if site.step.tool is not None else self.length(site.inner) if site.inner is not None else 0.0
        )

    def path(self, block: Block) -> Iterator[str]:
        """The steps of the longest chain, those inside a group after the group."""
        weights = {id: self.weight(site) or 0.0 for id, site in block.by_id.items()}
        for id in block.graph.critical(weights).path:
            yield id
            inner = block.by_id[id].inner
            if inner is not None:
                yield from self.path(inner)


class _Clock(_Steps):
    """The same in seconds: as many calls at once as the limits let, repeats one after the other."""

    def __init__(
        self, study: Study, counts: Counts, policies: Policies, one: Callable[[Tool], float | None]
    ) -> None:
        super().__init__()
        self.study = study
        self.counts = counts
        self.policies = policies
        self.one = one

    def weight(self, site: Site) -> float | None:
        step, count = site.step, self.counts.once(site)
        if step.tool is None and site.inner is None:
            return 0.0
        one = self._once(site)
        if one is None or count.most is None:
            return None
        if step.repeats:
            return one * count.most + (step.every or 0) * max(count.most - 1, 0)
        limits = self.policies.limits
        width = min(limits.run, limits.tool.get(step.tool or "", limits.run))
        return one * math.ceil(count.most / width)

    def _once(self, site: Site) -> float | None:
        if site.inner is not None:
            return self.length(site.inner)
        tool = self.study.tool(site.step)
        return self.one(tool) if tool is not None else None
