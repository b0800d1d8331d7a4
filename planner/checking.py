"""A plan compiles before it runs: every fault in one pass, each with a code, a place, a sentence and the next move.

    structure    ids, tool or value or steps, as, after, groups, repeats, rings, unused results, unordered effects
    tools        unknown tools, arguments against the closed schema, permissions, approval, budget
    references   expressions, names, fields, types          (see `study`, which finds them on the way)

An error is only what is certain to go wrong. Linear in the plan: a plan of 10,000 steps takes about a second, and so does
one with 10,000 faults, because only so many unknown names are compared with what there is.
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, takewhile
from typing import Any, TypeAlias

from ..policies.canonical import digest
from ..policies.collector import all_stays
from ..policies.effect import Effect
from ..policies.errors import SchemaRefused, expect
from ..policies.expressions import FUNCTIONS, RESERVED, Expression, valid_id
from ..policies.permissions import Principal, lacking
from ..policies.policies import Policies
from ..policies.spelling import spelled
from ..policies.text import shorten, with_article
from ..registry.decoding import decode, decode_text
from ..registry.registry import Registry
from ..registry.schema import Problem, Schema, compile_schema
from ..registry.tools import Tool
from .approvals import tools_of, why_needed
from .documents import CAPS, MAX_STEPS
from .estimates import over_budget
from .findings import Finding, Report, pointer_to, quoted, split_pointer
from .folding import Known
from .graph import shorten_path
from .hints import lookalikes, undescribed
from .plan import DEEPEST_GROUP, Plan, Step, expect_plan
from .sharing import shared_by_rows
from .slips import slips
from .study import Block, Part, Site, Study, finding, optional
from .types import ANY, Type, describe, disjoint, type_of_value

__all__ = ["check", "check_study", "unsound"]

Json: TypeAlias = Any
Findings: TypeAlias = Iterator[Finding]


@spelled
def check(
    plan: Plan,
    registry: Registry,
    policies: Policies | None = None,
    *,
    principal: Principal | None = None,
    batch: bool = False,
) -> Report:
    """Everything that is wrong or notable about this plan with these tools, in the order of the plan.

    `batch`: as the plan of a batch.
    """
    expect_plan(plan)
    expect(Registry, registry, "the tools")
    with all_stays():
        faults = tuple(unsound(plan))
        if faults:
            return Report(faults)
        return check_study(Study(plan, registry, principal, policies), batch=batch)


def check_study(study: Study, *, batch: bool = False) -> Report:
    """The report on a plan that has been studied already."""
    found, known, policies = [*study.findings], Known(study), study.policies
    for rule in _RULES:
        found += rule(study)
    found += [
        *_constants(study, known),
        *_approval(study, policies),
        *over_budget(study, policies.budget, known),
        *(shared_by_rows(study)[1] if batch else ()),
    ]
    return Report(tuple(sorted(found, key=_place)), digest(study.plan.to_json()))


def unsound(plan: Plan) -> Findings:
    """Why a plan built in Python is no document at all: too many steps, values that are no JSON, nesting without end."""
    parts: list[tuple[str, Json]] = [("/inputs", plan.inputs), ("/output", plan.output)]
    waiting = [(f"/steps/{i}", step, 1) for i, step in enumerate(plan.steps[: MAX_STEPS + 1])]
    number = 0
    while waiting:
        pointer, step, depth = waiting.pop()
        number += 1
        if number > MAX_STEPS or depth > CAPS.depth // 2:
            yield _boundless(number, depth)
            return
        said = step.model_fields_set
        parts += [(f"{pointer}/{f}", getattr(step, f)) for f in _VALUES if f in said]
        if step.undo is not None:
            parts.append((f"{pointer}/undo/args", step.undo.args))
        inner = (step.steps or ())[: MAX_STEPS + 1]
        waiting += [(f"{pointer}/steps/{i}", s, depth + 1) for i, s in enumerate(inner)]
    for pointer, value in parts:
        yield from _foreign(pointer, value)


_VALUES = ("args", "value", "output", "each", "when", "until", "next", "every")


def _boundless(number: int, depth: int) -> Finding:
    if number > MAX_STEPS:
        many = f"the plan has more than {MAX_STEPS:,} steps, which is the most that are checked"
        return finding("too_large", "/steps", many)
    return finding("too_deep", "/steps", f"groups are nested deeper than {CAPS.depth // 2} levels")


def _foreign(pointer: str, value: Json) -> Findings:
    waiting: list[tuple[str, Json, int]] = [(pointer, value, 1)]
    while waiting:
        at, part, depth = waiting.pop()
        if depth > CAPS.depth:
            yield finding("too_deep", pointer, f"values are nested deeper than {CAPS.depth} levels")
            return
        match part:
            case dict():
                if not all(type(key) is str for key in part):
                    yield finding("not_json", at, "the keys of an object must be text")
                    return
                waiting += [
                    (pointer_to(key, within=at), v, depth + 1) for key, v in part.items() if _is_open(v)
                ]
            case list():
                waiting += [(f"{at}/{i}", v, depth + 1) for i, v in enumerate(part) if _is_open(v)]
            case _ if _is_open(part):
                yield finding(
                    "not_json", at, f"{with_article(type(part).__name__)} is not plain JSON: {quoted(part)}"
                )
                return


def _is_open(value: Json) -> bool:
    """Whether a value is not simply a sound scalar."""
    kind = type(value)
    if kind is str:
        return not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value)
    if kind is float:
        return not math.isfinite(value)
    return not (value is None or kind is int or kind is bool)


def _place(found: Finding) -> tuple[int, tuple[int, ...]]:
    """Findings come in the order of the document: inputs, steps by number (a group before its own), output."""
    parts = found.pointer.split("/")[1:]
    match parts[:2]:
        case ["steps", number] if number.isdigit():
            ways = zip(parts[::2], parts[1::2], strict=False)
            return 1, tuple(
                int(n) for _, n in takewhile(lambda way: way[0] == "steps" and way[1].isdigit(), ways)
            )
        case ["output", *_]:
            return 2, ()
        case ["steps"]:
            return 0, (1,)
        case _:
            return 0, ()


# ---- structure -----------------------------------------------------------------------------------------------------


def _ids(study: Study) -> Findings:
    if not study.plan.steps:
        yield finding("no_steps", "/steps", "the plan has no step: it does nothing")
    for site in study.sites:
        yield from _name(site.id, f"{site.pointer}/id")
        first = study.by_id[site.id]
        if first is not site:
            message = f"two steps are called {quoted(site.id)}: the first is {_which(first)}"
            yield finding("duplicate_id", f"{site.pointer}/id", message)


def _which(site: Site) -> str:
    """A step by its number, and its group."""
    number = f"number {int(site.pointer.rpartition('/')[2]) + 1}"
    group = next(site.groups, None)
    return number if group is None else f"{number} of the group {quoted(group.id)}"


def _name(name: str, pointer: str) -> Findings:
    if valid_id(name):
        return
    if name in RESERVED or name in FUNCTIONS:
        what = "a function of the language" if name in FUNCTIONS else "a name the language uses itself"
        yield finding("reserved_id", pointer, f"{quoted(name)} is {what}", f"{name}_step")
        return
    plain = "".join(c if c.isascii() and c.isalnum() else "_" for c in name.lower()).strip("_")[:60]
    better = plain if valid_id(plain) else f"step_{plain}"
    message = f"{quoted(name)} cannot be a name: it needs the form [a-z][a-z0-9_]* and must be no keyword"
    yield finding("bad_id", pointer, message, better if valid_id(better) else "")


def _shapes(study: Study) -> Findings:
    for site in study.sites:
        yield from _shape(site.step, site.pointer)
        yield from _group(site)
        yield from _repeat(site.step, site.pointer)
        if site.step.as_ is not None:
            yield from _item_name(study, site.step, f"{site.pointer}/as")


def _shape(step: Step, pointer: str) -> Findings:
    calls = step.tool is not None
    kinds = {"`tool`": calls, "`value`": step.has("value"), "`steps`": step.steps is not None}
    said = [word for word, there in kinds.items() if there]
    if len(said) != 1:
        what = f"both {' and '.join(said)}" if said else "none of `tool`, `value` and `steps`"
        message = f"the step {quoted(step.id)} has {what}; it needs exactly one"
        yield finding("tool_or_value", pointer, message)
    if not calls and step.args:
        message = f"the step {quoted(step.id)} has arguments but no tool to give them to"
        yield finding("args_without_tool", f"{pointer}/args", message)
    fails_over = step.steps is not None and step.has(
        "each"
    )  # a group may, over its items: the next until one is enough
    for field in () if calls else ("undo", "next") if fails_over else ("undo", "next", "until"):
        if step.has(field):
            message = f"`{field}` belongs to the call of a tool, and {quoted(step.id)} calls none"
            yield finding("no_call", f"{pointer}/{field}", message)


def _group(site: Site) -> Findings:
    step = site.step
    if site.inner is None:
        if step.has("output"):
            message = f"`output` is what outside sees of a group, and {quoted(step.id)} has no `steps`"
            yield finding("output_without_steps", f"{site.pointer}/output", message)
        return
    if not step.steps:
        yield finding(
            "empty_group", f"{site.pointer}/steps", f"the group {quoted(step.id)} has no step inside"
        )
    if sum(1 for _ in site.groups) == DEEPEST_GROUP:
        message = (
            f"groups stand in each other at most {DEEPEST_GROUP} deep, and {quoted(step.id)} is one deeper"
        )
        yield finding("groups_too_deep", f"{site.pointer}/steps", message)


def _repeat(step: Step, pointer: str) -> Findings:
    """`next`, `every` and `max`, and whether they say how often and how quickly."""
    if not step.repeats:
        for field in ("next", "every", "max"):
            if step.has(field) and (field != "next" or step.tool is not None):
                message = f"`{field}` is for a call that is repeated, and {quoted(step.id)} has no `until`"
                yield finding("without_until", f"{pointer}/{field}", message)
        return
    if step.every is not None and not 0 <= step.every <= MAX_WAIT:
        message = f"`every` is the seconds between two calls, from 0 to {MAX_WAIT:,}, not {step.every:g}"
        yield finding("bad_every", f"{pointer}/every", message)
    if step.has("each"):
        if step.max is not None:
            message = f"with `each` the list bounds how often {quoted(step.id)} is tried; leave `max` out"
            yield finding("bad_max", f"{pointer}/max", message)
    elif step.max is None:
        message = f"{quoted(step.id)} repeats its call without a bound: say `max`, the most calls it makes"
        yield finding("bad_max", pointer, message, "max: 10")
    elif not 1 <= step.max <= MAX_REPEATS:
        message = f"`max` is the most calls, from 1 to {MAX_REPEATS:,}, not {step.max:,}"
        yield finding("bad_max", f"{pointer}/max", message)


MAX_REPEATS = 10_000
"""The most calls of one `until`: an hour of polling every third of a second; more pages than anyone reads."""
MAX_WAIT = 31 * 86_400
"""The longest `every`, in seconds: a month."""


def _item_name(study: Study, step: Step, pointer: str) -> Findings:
    name = step.item_name
    if not step.has("each"):
        yield finding(
            "as_without_each", pointer, f"`as` names the item of `each`, and {quoted(step.id)} has no `each`"
        )
    if name in study.steps:
        yield finding(
            "as_shadows",
            pointer,
            f"{quoted(name)} is a step; the item needs a name of its own",
            f"{name}_item",
        )
    elif name != "item":
        yield from _name(name, pointer)


def _rings(study: Study) -> Findings:
    for block in study.blocks:
        for ring in block.graph.cycles:
            path = shorten_path([_by_way_of(study, a, b) for a, b in pairwise([*ring, ring[0], ring[0]])])
            yield finding("cycle", block.by_id[ring[0]].pointer, f"steps wait for each other: {path}")


def _by_way_of(study: Study, id: str, need: str) -> str:
    """A step of a ring; of a group also the step inside that waits."""
    inside = study.through.get((id, need))
    return f"{id}.{inside}" if inside is not None else id


_DANGLING = frozenset({"unknown_step", "bad_expression", "bad_template", "inside_group", "after_elsewhere"})
"""Where one of these stands, a result may only seem to be unused."""


def _unused(study: Study) -> Findings:
    if study.output is None or any(f.code in _DANGLING for f in study.findings):
        return
    used = set().union(study.output.names, *(site.names() for site in study.sites))
    used |= {id for site in study.sites for id in site.step.after}
    busy = _busy(study)
    for site in study.sites:
        if site not in busy and site.id not in used:
            yield finding("unused_result", site.pointer, f"nothing uses the result of {quoted(site.id)}")


def _busy(study: Study) -> set[Site]:
    """Steps that may do something besides giving a result, and the groups around them."""
    found: set[Site] = set()
    for site in study.sites:
        tool = study.tool(site.step)
        if site.step.tool is not None and (tool is None or tool.effect is not Effect.READS):
            found.update((site, *site.groups))
    return found


def _without_output(study: Study) -> Findings:
    """Results of groups that give none, where they are used."""
    silent = {
        s.id for s in study.sites if s.inner is not None and not s.step.has("output")
    } & study.steps.keys()
    if not silent:
        return
    parts = [part for site in study.sites for part in site.parts.values()]
    for part in [*parts, *([study.output] if study.output is not None else [])]:
        for spot in part.spots.values():
            for name in sorted(spot.expression.names & silent):
                message = (
                    f"the group {quoted(name)} has no `output`, so its result is always null; give it one"
                )
                wait = f", or wait for it with `after: [{name}]`" if part.field != "output" else ""
                yield finding("group_without_output", spot.pointer, message + wait)


def _unordered(study: Study) -> Findings:
    for block in study.blocks:
        yield from _unordered_in(study, block)


def _unordered_in(study: Study, block: Block) -> Findings:
    """Steps of one block, groups as a whole, that have effects through the same tool and do not wait for each other."""
    rows: dict[str, dict[str, None]] = {}
    for site in block.sites:
        for name in study.effects_of(site):
            rows.setdefault(name, {})[site.id] = None
    several = {name: [*ids] for name, ids in rows.items() if len(ids) > 1}
    if block.graph.cycles or not several:
        return
    index = {site.id: i for i, site in reversed([*enumerate(block.sites)])}
    for name, pairs in zip(several, block.graph.unordered(several.values()), strict=True):
        loose = [sorted(pair, key=index.__getitem__) for pair in pairs if not _exclusive(study, *pair)]
        if loose:
            (a, b), more = loose[0], f" (and {len(loose) - 1} more pairs)" if len(loose) > 1 else ""
            message = (
                f"{quoted(a)} and {quoted(b)} both call {quoted(name)} and may run in either order{more}"
            )
            yield finding("unordered_effects", block.by_id[b].pointer, message, f"after: [{a}]")


def _exclusive(study: Study, a: str, b: str) -> bool:
    """Whether one `when` is the other with `not` before it."""
    texts = [_condition(study.steps[id].when) for id in (a, b)]
    return any(x and y in (f"not {x}", f"not ({x})") for x, y in (texts, texts[::-1]))


def _condition(when: Json) -> str:
    text = when.get("$") if isinstance(when, dict) else None
    return text.strip() if isinstance(text, str) else ""


# ---- values --------------------------------------------------------------------------------------------------------


_CONDITIONS = (
    ("when", "boolean", "not_boolean", "true or false"),
    ("until", "boolean", "not_boolean", "true or false"),
    ("each", "array", "not_a_list", "a list"),
)


def _conditions(study: Study) -> Findings:
    for site in study.sites:
        for field, kind, code, must in _CONDITIONS:
            part = site.parts.get(field)
            found = _whole_type(study, part)
            if part is not None and found is not None and found.kinds and not found.has(kind):
                yield finding(code, part.pointer, f"`{field}` must be {must}, and this is {describe(found)}")


def _whole_type(study: Study, part: Part | None) -> Type | None:
    """The type of a whole template that is one expression or one literal."""
    if part is None or not part.sound:
        return None
    if () in part.spots:
        return study.spot_types[part.spots[()].pointer]
    return None if part.spots else type_of_value(_literal(part.template))


def _literal(template: Json) -> Json:
    return (
        template["$literal"] if isinstance(template, dict) and template.keys() == {"$literal"} else template
    )


def _skipped(study: Study) -> Findings:
    """Readers of a value that may be null because its step was skipped, and that do not ask."""
    nullable = {id: step for id, step in study.steps.items() if study.may_be_null(step)}
    if not nullable:
        return
    for site in study.sites:
        for part in site.parts.values():
            yield from _reads_skipped(study, part, nullable, site)
    if study.output is not None:
        yield from _reads_skipped(study, study.output, nullable, None)


def _reads_skipped(study: Study, part: Part, nullable: Mapping[str, Step], reader: Site | None) -> Findings:
    for spot in part.spots.values():
        text = spot.expression.text
        for name in sorted(spot.expression.names & nullable.keys()):
            if study.asks(name, text, reader):
                continue
            why = "may be skipped" if nullable[name].has("when") else "may fail and be skipped"
            then = "what reads it is skipped then" if reader is not None else "the output has no value then"
            message = f"the step {quoted(name)} {why}; {then}"
            hint = f"{text} if {name} is not None else None"
            yield finding("may_be_skipped", spot.pointer, message, hint if len(hint) <= 200 else "")


def _constants(study: Study, known: Known) -> Findings:
    """Values that depend on nothing that is not known yet: computed, and told where that certainly fails."""
    for id, error in known.troubles:
        site = study.by_id[id]
        pointer = f"{site.pointer}/{'value' if site.inner is None else 'output'}"
        if error is None:
            message = f"the constant values up to {quoted(id)} are more than a check computes; a run may refuse them"
            yield finding("heavy_value", pointer, message)
        elif site.step.on_failure == "stop" and all(g.step.on_failure == "stop" for g in site.groups):
            yield finding("always_fails", pointer, f"{quoted(id)} always fails: {shorten(error, 300)}")


def _inputs(study: Study) -> Findings:
    schema = study.plan.inputs
    if schema is None:
        return
    try:
        compile_schema(schema, closed=True)
    except SchemaRefused as error:
        yield finding("bad_inputs", f"/inputs{error.pointer}", str(error))
        return
    if not study.inputs_type.has("object"):
        yield finding("bad_inputs", "/inputs", "the inputs of a plan are an object", "type: object")
        return
    for path, default in _defaults(schema, ()):
        yield from _default(optional(schema), path, default)


def _defaults(schema: Mapping[str, Json], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Json]]:
    """The defaults of properties, and of properties inside them, as the engine fills them in."""
    properties = schema.get("properties")
    for name, part in properties.items() if isinstance(properties, Mapping) else ():
        if isinstance(part, Mapping):
            if "default" in part:
                yield (*path, name), part["default"]
            yield from _defaults(part, (*path, name))


def _default(schema: Schema, path: tuple[str, ...], default: Json) -> Findings:
    value, at = default, pointer_to(*path)
    for name in reversed(path):
        value = {name: value}
    for problem in schema.problems(value):
        if problem.pointer == at or problem.pointer.startswith(at + "/"):
            where = "/inputs" + "".join(pointer_to("properties", name) for name in path) + "/default"
            yield finding("bad_default", where, f"the default of {quoted(path[-1])} {problem.message}")


# ---- tools ---------------------------------------------------------------------------------------------------------


def _tools(study: Study) -> Findings:
    denied: dict[str, tuple[str, str]] = {}
    for site in study.sites:
        step, pointer = site.step, site.pointer
        if step.tool is not None:
            tool = yield from _named_tool(study, step.tool, f"{pointer}/tool", denied)
            if tool is not None:
                place = f"{pointer}/args" if step.has("args") else pointer
                yield from _arguments(study, tool, step.args, site.parts.get("args"), place)
                yield from _next(study, site, tool)
        if step.undo is not None:
            taken_back = yield from _named_tool(study, step.undo.tool, f"{pointer}/undo/tool", denied)
            if taken_back is not None:
                place = f"{pointer}/undo/args" if "args" in step.undo.model_fields_set else f"{pointer}/undo"
                yield from _arguments(study, taken_back, step.undo.args, site.parts["undo"], place)
            if (called := study.tool(step)) is not None and called.effect is Effect.READS:
                message = f"{quoted(called.name)} only reads, so there is nothing for `undo` to take back"
                yield finding("undo_of_read", f"{pointer}/undo", message)


def _without_undo(study: Study) -> Findings:
    """Acts that could be taken back where something may fail after them: a later call, or another item."""
    calls = [site for site in study.sites if site.step.tool is not None]
    for site in calls:
        step, tool = site.step, study.tool(site.step)
        alone = site is calls[-1] and not step.has("each")
        if tool is None or not tool.undo or tool.effect is not Effect.ACTS or step.undo is not None or alone:
            continue
        taken_back = study.registry.get(tool.undo)
        if taken_back is None or _why_not(study, taken_back)[0]:
            continue
        message = (
            f"{quoted(site.id)} has no `undo`, though {quoted(tool.undo)} takes back what {quoted(tool.name)} does, "
            "and something may fail after it"
        )
        yield finding("without_undo", site.pointer, message, _undoing(tool, taken_back, step))


def _undoing(tool: Tool, taken_back: Tool, step: Step) -> str:
    """`undo: {…}` to begin with: arguments by name from the result, else as the step gives them."""
    gives = tool.output.document if tool.output is not None else True
    known = gives.get("properties", {}) if isinstance(gives, dict) else {}
    args: dict[str, Json] = {}
    for name in taken_back.input.document.get("required", []):
        if name in known:
            args[name] = {"$": f"result.{name}"}
        else:
            args[name] = step.args.get(name, {"$": "result"})
    return "undo: " + json.dumps({"tool": taken_back.name, "args": args}, ensure_ascii=False)


def _named_tool(
    study: Study, name: str, pointer: str, denied: dict[str, tuple[str, str]]
) -> Generator[Finding, None, Tool | None]:
    """The tool of a call, if it is there and may be called: of one that may not, nothing more is told."""
    tool = study.registry.get(name)
    if tool is None:
        yield _unknown_tool(study, name, pointer)
        return None
    if tool.name not in denied:
        denied[tool.name] = _why_not(study, tool)
    code, message = denied[tool.name]
    if code:
        yield finding(code, pointer, message)
    return None if code else tool


def _why_not(study: Study, tool: Tool) -> tuple[str, str]:
    """The code and the sentence of why nobody, or this principal, may call a tool; two empty texts where it may."""
    most, roles = study.policies.max_level, study.policies.roles
    if most is not None and tool.level.above(most):
        told = f"{quoted(tool.name)} is of level {tool.level.value}; the policy allows {most.value} at most"
        return "level_too_high", told
    missing = lacking(study.principal, tool.permissions)
    if not missing:
        return "", ""
    who, what = quoted(study.principal.id), ", ".join(map(quoted, missing))
    unknown = roles.unknown(study.principal)
    return "permission", f"{who} may not call {quoted(tool.name)}: it needs {what}{unknown}"


def _next(study: Study, site: Site, tool: Tool) -> Findings:
    """A call that is repeated: what `next` changes, and whether it may be repeated at all."""
    step, part = site.step, site.parts.get("next")
    if not step.repeats:
        return
    if part is not None:
        yield from _arguments(study, tool, part.template, part, part.pointer, whole=False)
    fresh = _changing(part, {"result"}) or _changing(site.parts.get("args"), _item_of(step))
    if tool.effect is Effect.ACTS and not fresh:
        move = (
            "name the item in an argument"
            if step.has("each")
            else "let `next` change an argument by `result`"
        )
        message = f"{quoted(tool.name)} acts, so it is not called again with the same arguments; {move}"
        yield finding("repeats_effect", f"{site.pointer}/until", message)


def _until(study: Study) -> Findings:
    """Conditions that no result changes."""
    for site in study.sites:
        part = site.parts.get("until")
        if part is not None and part.sound and part.names.isdisjoint({"result", *_item_of(site.step)}):
            message = "`until` does not look at `result`, so it says the same after every call"
            yield finding("until_never_changes", part.pointer, message)


def _changing(part: Part | None, names: set[str]) -> bool:
    """Whether an expression of the template names one of these, which differ from call to call."""
    return part is not None and not part.names.isdisjoint(names)


def _item_of(step: Step) -> set[str]:
    return {step.item_name, "index"} if step.has("each") else set()


def _unknown_tool(study: Study, name: str, pointer: str) -> Finding:
    near = (
        study.registry.nearest(name, study.principal, max_level=study.policies.max_level)
        if study.effort.may_guess(study.registry)
        else []
    )
    guess = f"; did you mean {' or '.join(map(quoted, near))}?" if near else ""
    return finding(
        "unknown_tool", pointer, f"no tool is called {quoted(name)}{guess}", near[0] if near else ""
    )


def _arguments(
    study: Study, tool: Tool, args: Mapping[str, Json], part: Part | None, pointer: str, *, whole: bool = True
) -> Findings:
    """The arguments of one call against the closed schema of the tool; not `whole`: those of them that change."""
    wanted, _, schema = study.signature(tool)
    if args.keys() & {"$", "$literal"}:
        yield finding(
            "wrong_argument", pointer, "this is an object of arguments; each of them may be an expression"
        )
        return
    if not tool.secret_refs.keys().isdisjoint(args):
        yield from _secret_arguments(tool, args, pointer)
        args = {name: value for name, value in args.items() if name not in tool.secret_refs}
    known = wanted if whole else replace(wanted, required=frozenset())
    yield from _keys(study, args, known, pointer, f"the tool {quoted(tool.name)}")
    mixed = dict.fromkeys(path[0] for path in part.spots) if part is not None else {}
    sound = part is None or part.sound
    literals = {k: _bare(v) for k, v in args.items() if k not in mixed and (sound or not _is_computed(v))}
    for name in mixed:
        held = wanted.field(str(name))
        if held is not None and part is not None:
            yield from _mixed(study, part, args[str(name)], held, (name,))
    if literals and not schema.accepts(literals):
        yield from _misfits(known, schema, literals, pointer)


def _misfits(wanted: Type, schema: Schema, literals: Mapping[str, Json], pointer: str) -> Findings:
    """What is wrong with literal arguments, once JSON that was written as text has been read."""
    decoded = decode(schema, dict(literals))
    paths = [split_pointer(place) for place in decoded.places]
    computed = {path[0] for path in paths if _is_computed(_looked_up(decoded.value, path))}
    taken = decoded.value | {name: literals[name] for name in computed}
    for path in paths:
        if path[0] not in computed:
            where = pointer_to(*path, within=pointer)
            yield _as_text(_called(_numbered(path)), where, _looked_up(taken, path))
    for problem in _problems_of(schema, taken):
        if _is_stray(problem) and wanted.field(split_pointer(problem.pointer)[0]) is None:
            continue  # told by `_keys`, with the nearest name
        yield _misfit(problem, pointer, _as_json(taken, problem.pointer))


def _as_text(name: str, pointer: str, value: Json) -> Finding:
    """An object or a list that was written as text, and is read."""
    kind = "an object" if isinstance(value, dict) else "a list"
    message = f"{name} must be {kind} and is text that holds one; it is read as JSON"
    text = json.dumps(value, ensure_ascii=False)
    return finding(
        "json_as_text", pointer, message, text if len(text) <= 500 else "write it as JSON, not as text"
    )


def _secret_arguments(tool: Tool, args: Mapping[str, Json], pointer: str) -> Findings:
    """Arguments that nobody may give, because the engine fills them with secrets."""
    for name in [each for each in args if each in tool.secret_refs]:
        message = f"the engine fills {quoted(name)} of {quoted(tool.name)} with a secret; leave it out"
        yield finding("secret_argument", pointer_to(name, within=pointer), message)


def _keys(study: Study, given: Mapping[str, Json], wanted: Type, pointer: str, who: str) -> Findings:
    """Keys that are not allowed, and keys that are missing."""
    unknown = [name for name in given if wanted.has("object") and wanted.field(name) is None]
    free = [name for name in wanted.fields if name not in given]
    known = ", ".join(map(quoted, [*wanted.fields][:12])) or "none"
    for name in unknown:
        near = study.effort.nearest(name, free)
        guess = f"; did you mean {quoted(near)}?" if near else f"; it takes {known}"
        message = f"{who} takes no argument {quoted(name)}{guess}"
        yield finding("unknown_argument", pointer_to(name, within=pointer), message, near)
    for name in sorted(wanted.required - given.keys()):
        held = describe(wanted.field(name) or ANY)
        kind = f" ({held})" if held != "anything" else ""
        yield finding("missing_argument", pointer, f"{who} needs the argument {quoted(name)}{kind}")


def _fitting(found: Type, wanted: Type, expression: Expression, argument: str) -> tuple[str, str]:
    """Where a whole object stands for one of its fields: which would fit, in words, and the one that is meant most likely."""
    if found.kinds != {"object"} or wanted.has("object") or not isinstance(expression.tree, _PATHS):
        return "", ""
    fits = [name for name, field in found.fields.items() if field.kinds and field.kinds <= wanted.kinds][:12]
    likely = [name for name in (argument, f"{argument}_id", "id", "name") if name in fits] or fits
    if not fits or not all(map(valid_id, fits)):
        return "", ""
    text = expression.text
    said = f"; {' or '.join(f'{text}.{name}' for name in fits[:4])} would be"
    return said, f"{text}.{likely[0]}" if len(fits) == 1 or likely is not fits else ""


_PATHS = (ast.Name, ast.Attribute, ast.Subscript)


def _mixed(study: Study, part: Part, template: Json, wanted: Type, path: tuple[str | int, ...]) -> Findings:
    """An argument that is an expression, or holds some: each against the type its place wants."""
    pointer = pointer_to(*path, within=part.pointer)
    if path in part.spots:
        spot = part.spots[path]
        found = study.spot_types[spot.pointer]
        if found.kinds and study.effort.disjoint(found, wanted):
            message = f"{quoted(spot.expression.text)} is {describe(found)}, and {_called(path)} must be {describe(wanted)}"
            fields, meant = _fitting(found, wanted, spot.expression, str(path[-1]) if path else "")
            yield finding("wrong_type", spot.pointer, message + _why(found, wanted) + fields, meant)
        return
    inside = any(spot[: len(path)] == path for spot in part.spots)
    if not inside or _is_special(template):
        read = decode_text(template, wanted.kinds) if isinstance(template, str) else None
        if read is not None and not _is_computed(read):
            yield _as_text(_called(path), pointer, read)
        elif not _is_computed(template) and disjoint(type_of_value(_bare(template)), wanted):
            yield finding("wrong_argument", pointer, f"{_called(path)} must be {describe(wanted)}")
        return
    kind = "object" if isinstance(template, dict) else "array"
    if not wanted.has(kind):
        yield finding("wrong_argument", pointer, f"{_called(path)} must be {describe(wanted)}")
    elif isinstance(template, dict):
        yield from _keys(study, template, wanted, pointer, _called(path))
        for key, value in template.items():
            held = wanted.field(key)
            if held is not None:
                yield from _mixed(study, part, value, held, (*path, key))
    else:
        for i, value in enumerate(template):
            yield from _mixed(study, part, value, wanted.item, (*path, i))


def _called(path: tuple[str | int, ...]) -> str:
    """What the place in the arguments is called in a sentence."""
    name = next((part for part in reversed(path) if isinstance(part, str)), path[-1])
    return f"element {path[-1]} of {quoted(name)}" if isinstance(path[-1], int) else quoted(name)


def _why(found: Type, wanted: Type) -> str:
    """What differs, where the words for both types are the same."""
    if not (found.has("object") and wanted.has("object")):
        return ""
    lacking_keys = [n for n in sorted(wanted.required) if found.field(n) is None]
    extra = [n for n in sorted(found.required) if wanted.field(n) is None]
    if lacking_keys:
        return f"; it lacks {quoted(lacking_keys[0])}"
    return f"; it has {quoted(extra[0])}, which is not wanted" if extra else ""


def _is_special(template: Json) -> bool:
    return isinstance(template, dict) and bool(template.keys() & {"$", "$literal"})


def _is_computed(template: Json) -> bool:
    """Whether a template holds an expression, be it one that cannot be read."""
    if isinstance(template, list):
        return any(map(_is_computed, template))
    if not isinstance(template, dict) or "$literal" in template:
        return False
    return "$" in template or any(map(_is_computed, template.values()))


def _bare(template: Json) -> Json:
    """A template without expressions as the value it is."""
    if isinstance(template, list):
        return [_bare(item) for item in template]
    if not isinstance(template, dict):
        return template
    if template.keys() == {"$literal"}:
        return template["$literal"]
    return {key: _bare(value) for key, value in template.items()}


def _problems_of(schema: Schema, values: Mapping[str, Json]) -> list[Problem]:
    """What is wrong with these properties of an object, whatever others it lacks or has."""
    found = schema.problems(dict(values))
    return [p for p in found if p.pointer and split_pointer(p.pointer)[0] in values]


def _is_stray(problem: Problem) -> bool:
    """Whether it is about an argument too many."""
    return problem.rule == "additionalProperties" and problem.pointer.count("/") <= 1


def _as_json(literals: Mapping[str, Json], pointer: str) -> str:
    """The next move where a text that is wrong there holds expressions, which would not be computed; else nothing."""
    text = _looked_up(literals, split_pointer(pointer))
    value = decode_text(text, ("object", "array")) if isinstance(text, str) else None
    return f"write it as JSON, not as text: {shorten(text, 200)}" if _is_computed(value) else ""


def _looked_up(value: Any, path: Sequence[str]) -> Json:
    for step in path:
        value = value[int(step)] if isinstance(value, list) else value[step]
    return value


def _numbered(path: Sequence[str]) -> tuple[str | int, ...]:
    return tuple(int(part) if part.isdigit() else part for part in path)


def _misfit(problem: Problem, pointer: str, suggestion: str) -> Finding:
    name = _called(_numbered(split_pointer(problem.pointer)))
    code = _MISFITS.get(problem.rule, "wrong_argument")
    return finding(code, pointer + problem.pointer, f"{name} {problem.message}", suggestion)


_MISFITS = {"required": "missing_argument", "additionalProperties": "unknown_argument"}


# ---- the whole -----------------------------------------------------------------------------------------------------


def _approval(study: Study, policies: Policies) -> Findings:
    tools = [tool for name in tools_of(study.plan) if (tool := study.registry.get(name)) is not None]
    reasons = why_needed(tools, policies)
    if reasons:
        more = f", and {len(reasons) - 3} more" if len(reasons) > 3 else ""
        yield finding("approval_needed", "", f"this plan needs an approval: {'; '.join(reasons[:3])}{more}")


_RULES: tuple[Callable[[Study], Findings], ...] = (
    _inputs,
    _ids,
    _shapes,
    _rings,
    _tools,
    _conditions,
    _skipped,
    _until,
    _without_output,
    _unused,
    _unordered,
    _without_undo,
    lookalikes,
    undescribed,
    slips,
)
