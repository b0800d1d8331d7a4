"""Plans as people read them: findings, review, diff, tools.

A review tells what cannot be taken back first and whole, then every call in the order of the waves. No text of a plan, a
tool or a file is markup, and none is shown before `safe_text`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ..planner.bounds import limits_of, limits_text
from ..planner.findings import Finding, Report, Severity
from ..planner.reviewing import Change, Diff, Planned, Review, TakenBack, spell
from ..policies.effect import Effect
from ..policies.permissions import Level
from ..policies.policies import Policies
from ..policies.text import count
from ..registry.imports import ToolFinding
from ..registry.tools import Tool
from .lines import (
    NAME,
    VALUE,
    block,
    clipped,
    columns,
    heading,
    indented,
    joined,
    line,
    padded,
    plain,
    seconds,
    short_digest,
    stacked,
    value_text,
)

__all__ = ["changes", "contents", "faults", "findings", "report", "tool_page", "tools"]

_SEVERITIES: Mapping[Severity, str] = {"error": "bold red", "warning": "yellow", "info": "dim"}
_EFFECTS: Mapping[Effect | None, str] = {
    Effect.READS: "green",
    Effect.WRITES: "yellow",
    Effect.ACTS: "bold red",
}

# ---------------------------------------------------------------------------------------------- findings


def report(found: Report, name: str) -> RenderableType:
    """What a check found in the plan called `name`: the findings, then how many of each."""
    if not found.findings:
        return Text.assemble(line(name), " checks: nothing to say")
    return stacked(findings(found.findings, name), Text(), _summary(found, name))


def faults(title: str, found: Iterable[Finding]) -> RenderableType:
    """A document that cannot be used, and why."""
    return stacked(line(f"foreplan: {title}", "red"), Text(), findings(found))


def findings(found: Iterable[Finding], name: str = "") -> RenderableType:
    """Each finding with its place, its excerpt and what to write instead; errors first."""
    order = list(_SEVERITIES)
    ranked = sorted(found, key=lambda f: order.index(f.severity))
    return Group(*[part for finding in ranked for part in (_finding(finding, name), Text())][:-1])


def _finding(finding: Finding, name: str) -> RenderableType:
    head = Text.assemble(
        (finding.severity, _SEVERITIES[finding.severity]),
        "  ",
        (_place(finding, name), ""),
        "  ",
        (plain(finding.code), "dim"),
    )
    source = block(finding.excerpt, "dim")
    source.no_wrap, source.overflow = True, "ellipsis"  # the caret stays under its place
    advice = (
        Text.assemble(("  suggestion: ", "dim"), clipped(finding.suggestion, VALUE))
        if finding.suggestion
        else None
    )
    return stacked(
        head, indented(block(finding.message, limit=2000)), source if finding.excerpt else None, advice
    )


def _place(finding: Finding, name: str) -> str:
    """`plan.yaml:17:11`, which terminals and editors can follow."""
    if finding.line is not None:
        parts = (plain(name, 200), finding.line, finding.column)
        return ":".join(str(part) for part in parts if part)
    return plain(finding.pointer, 60) or plain(name, 200) or "the document"


def _summary(found: Report, name: str) -> Text:
    numbers = {severity: sum(f.severity == severity for f in found.findings) for severity in _SEVERITIES}
    said = [count(n, severity) for severity, n in numbers.items() if n and severity != "info"]
    notes = [count(numbers["info"], "note")] if numbers["info"] else []
    verdict = "checks" if found.ok else "does not check"
    return Text.assemble(line(name), f" {verdict}: ", ", ".join([*said, *notes]))


# ---------------------------------------------------------------------------------------------- review


def contents(review: Review, *, full: bool = False) -> RenderableType:
    """Everything a plan would do, for the person who is to say yes or no."""
    limit = None if full else VALUE
    return stacked(
        _title(review),
        *_errors(review),
        *_section("Cannot be taken back", _irreversible(review, limit), "bold red"),
        *_section("Steps", _steps(review, limit)),
        *_section("In all", [_totals(review, limit)]),
        *_section("Approval", [_approval(review)]),
        *_section("Warnings", [findings(review.report.warnings)] if review.report.warnings else [], "yellow"),
    )


def _title(review: Review) -> RenderableType:
    facts = [
        f"plan {short_digest(review.plan_digest)}",
        f"{count(len(review.every_step), 'step')} in {count(len(review.waves), 'wave')}",
        f"calls: {plain(review.calls.text, 200)}",
    ]
    return stacked(block(review.goal or "(no goal is stated)", "bold", 2000), joined(facts))


def _section(title: str, parts: Iterable[RenderableType], style: str = "bold") -> Iterator[RenderableType]:
    listed = list(parts)
    if listed:
        yield Text()
        yield heading(title, style)
        for part in listed:
            yield indented(part)


def _errors(review: Review) -> Iterator[RenderableType]:
    if not review.report.ok:
        yield from _section(
            "This plan has errors and will not run", [findings(review.report.errors)], "bold red"
        )


def _irreversible(review: Review, limit: int | None) -> Iterator[RenderableType]:
    acting, usual = frozenset(review.irreversible), _usual(review)
    listed = [(step, groups) for step, groups in _nested(review.steps) if step.id in acting]
    heads = padded(
        [[line(s.id, "bold", NAME), line(s.tool or "", limit=NAME), Text(_calls(s))] for s, _ in listed]
    )
    for (step, groups), head in zip(listed, heads, strict=True):
        yield head
        around = [Text(_inside(group), "dim") for group in groups]
        yield indented(stacked(*_arguments(step, limit), *around, *_facts(step, usual)))


def _steps(review: Review, limit: int | None) -> Iterator[RenderableType]:
    """Every step in the order of the waves, under its group; what is told above in full is not told again."""
    acting, usual = frozenset(review.irreversible), _usual(review)
    listed = list(_nested(review.steps))
    heads = padded(_head(step, len(groups)) for step, groups in listed)
    for (step, groups), head in zip(listed, heads, strict=True):
        yield head
        if step.id not in acting:
            told = stacked(*_arguments(step, limit), *_facts(step, usual))
            yield indented(told, 4 + 3 * len(groups))


def _nested(
    steps: Iterable[Planned], groups: tuple[Planned, ...] = ()
) -> Iterator[tuple[Planned, tuple[Planned, ...]]]:
    """Every step in the order of the waves of its block, with the groups around it, the nearest first."""
    for step in sorted(steps, key=lambda step: step.wave):
        yield step, groups
        yield from _nested(step.steps or (), (step, *groups))


def _inside(group: Planned) -> str:
    """What a group says of the steps in it, where they stand alone."""
    name = plain(group.id, NAME)
    each = (
        f", for each {plain(group.item, NAME)} of {clipped(spell(group.each), VALUE)}" if group.item else ""
    )
    when = f", only when {clipped(spell(group.when), VALUE)}" if group.when is not None else ""
    return f"in the group {name}{each}{when}"


def _head(step: Planned, depth: int) -> list[Text]:
    what = "group" if step.steps is not None else "value"
    does = line(step.tool, limit=NAME) if step.tool is not None else Text(what, "dim")
    effect = Text(step.effect.value if step.effect else "", _EFFECTS.get(step.effect, ""))
    told = "  see above" if step.effect is Effect.ACTS else ""
    return [
        Text(f"{'   ' * depth}{step.wave + 1:>2}", "dim"),
        line(step.id, "bold", NAME),
        does,
        effect,
        Text(_calls(step) + told, "dim"),
    ]


def _arguments(step: Planned, limit: int | None) -> Iterator[RenderableType]:
    """One line for each argument or part of a value: what it will be, and where it comes from."""
    if step.steps is not None:
        if step.output is not None:
            yield Text.assemble("outside sees ", clipped(spell(step.output), limit))
        return
    parts = step.args if step.tool is not None else step.value
    if not isinstance(parts, Mapping) or parts.keys() <= {"$", "$literal"}:
        if step.tool is None:
            yield Text(clipped(spell(parts), limit))
        return
    for name, template in parts.items():
        said = clipped(spell(template), limit)
        known = step.resolved is not None and name in step.resolved
        told = value_text(step.resolved[name], limit) if known and step.resolved is not None else said
        source = Text(f"   from {said}", "dim") if told != said else Text()
        yield Text.assemble(line(name, limit=NAME), (" = ", "dim"), Text(told), source)


def _facts(step: Planned, usual: float | None) -> Iterator[Text]:
    facts = [Text(fact, style) for fact, style in _said_of(step, usual)]
    if facts:
        yield joined(facts)


def _said_of(step: Planned, usual: float | None) -> Iterator[tuple[str, str]]:
    if step.item is not None:
        yield f"for each {plain(step.item, NAME)} of {clipped(spell(step.each), VALUE)}", "dim"
    if step.when is not None:
        yield f"only when {clipped(spell(step.when), VALUE)}", "dim"
    yield from _repeats(step)
    yield from _asks(step.asks, step.asks_when, "at each call")
    if step.secrets:
        yield f"uses the secret{_s(step.secrets)} {_names(step.secrets)}", "dim"
    if step.permissions:
        yield f"needs {', '.join(plain(p, NAME) for p in step.permissions)}", "dim"
    if step.lacking:
        yield f"lacks {', '.join(plain(p, NAME) for p in step.lacking)}", "bold red"
    yield from ((plain(said, 2 * NAME), "dim") for said in limits_text(step.limits or {}))
    if step.undo is not None:
        yield from _taken_back(step.undo)
    if step.on_failure == "skip":
        yield "a failure is skipped", "dim"
    if step.replaces:
        yield f"replaces {plain(step.replaces, NAME)}", "dim"
    if step.tool is not None and step.timeout != usual:
        yield f"each try {_bound(step.timeout)}", "dim"


def _asks(asks: bool | None, rule: str | None, when: str) -> Iterator[tuple[str, str]]:
    """Whether a person is asked, and by which rule of the tool."""
    said = plain(rule, VALUE) if rule is not None else ""
    if asks is None:
        yield f"a person is asked {when} when {said}", "yellow"
    elif asks:
        yield f"a person is asked {when}" + (f", since {said}" if said else ""), "yellow"
    elif said:
        yield f"nobody is asked: it asks when {said}", "dim"


def _repeats(step: Planned) -> Iterator[tuple[str, str]]:
    if step.until is None:
        return
    order = "one after the other, " if step.item is not None else ""
    pause = f", {seconds(step.every)} apart" if step.every else ""
    yield f"{order}until {clipped(spell(step.until), VALUE)}{pause}", "dim"
    if step.next:
        yield f"then with {clipped(spell(step.next), VALUE)}", "dim"


def _taken_back(undo: TakenBack) -> Iterator[tuple[str, str]]:
    """The call that takes a step back: no call of the plan, but one that may happen."""
    effect = f" ({undo.effect.value})" if undo.effect is not None else ""
    yield f"undone by {plain(undo.tool, NAME)} {clipped(spell(undo.args), VALUE)}{effect}", "yellow"
    yield from _asks(undo.asks, undo.asks_when, "before it is undone")
    if undo.secrets:
        yield f"undoing uses the secret{_s(undo.secrets)} {_names(undo.secrets)}", "dim"
    if undo.lacking:
        yield f"undoing lacks {', '.join(plain(p, NAME) for p in undo.lacking)}", "bold red"


def _s(several: tuple[str, ...]) -> str:
    return "" if len(several) == 1 else "s"


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(plain(name, NAME) for name in names)


def _usual(review: Review) -> float | None:
    """The time limit of most calls: told once."""
    limits = Counter(step.timeout for step in review.every_step if step.tool is not None)
    return limits.most_common(1)[0][0] if limits else None


def _alike(review: Review) -> bool:
    return len({step.timeout for step in review.every_step if step.tool is not None}) == 1


def _bound(timeout: float | None) -> str:
    return f"at most {seconds(timeout)}" if timeout is not None else "any time"


def _calls(step: Planned) -> str:
    """`1 call`, `up to 3 calls`, `n calls`."""
    _, most, text = step.calls
    if step.tool is None:
        return ""
    if text == "0" and step.tool is not None and step.steps is None:
        return "no call"
    if most is None:
        return "n calls"
    return "1 call" if text == "1" else f"{plain(text, 40)} {'call' if most == 1 else 'calls'}"


def _totals(review: Review, limit: int | None) -> RenderableType:
    return columns([[Text(name, "dim"), Text(said)] for name, said in _sums(review, limit)])


def _sums(review: Review, limit: int | None) -> Iterator[tuple[str, str]]:
    if review.shared:
        yield "once", f"for all rows together: {', '.join(plain(id_, NAME) for id_ in review.shared)}"
    if review.effects:
        yield "calls", "; ".join(f"{name} {plain(n.text, 200)}" for name, n in review.effects.items())
    if review.permissions:
        yield "permissions", ", ".join(plain(p, NAME) for p in review.permissions)
    yield "time", _time(review)
    dear = [step for step in review.every_step if step.cost]
    if dear:
        yield "cost", _cost(dear)
    undone = [step for step in review.every_step if step.undo is not None]
    if undone:
        yield (
            "undo",
            f"if it fails, {', '.join(plain(s.id, NAME) for s in undone)} would be undone, the last first",
        )
    if any(step.tool is not None for step in review.every_step):
        yield "each try", _bound(_usual(review)) + ("" if _alike(review) else ", where nothing else is said")
    yield from _inputs(review, limit)
    if review.output is not None:
        yield "output", clipped(spell(review.output), limit)


def _cost(dear: list[Planned]) -> str:
    """What the calls cost by what their tools state; retries and what is undone come on top."""
    least = sum(step.calls.least * step.cost for step in dear)
    open_ = [step for step in dear if step.calls.most is None]
    if open_:
        named = ", ".join(f"{plain(step.id, NAME)} {step.cost:g} a call" for step in open_[:3])
        return f"at least {least:g}, and for calls whose number is not known: {named}"
    most = sum((step.calls.most or 0) * step.cost for step in dear)
    return f"{least:g}" if least == most else f"{least:g} to {most:g}"


def _time(review: Review) -> str:
    typical, most = review.seconds
    said = [f"about {seconds(typical)}"] if typical else []
    said.append(f"at most {seconds(most)} without retries" if most is not None else "no bound is known")
    if len(review.critical) > 1:
        shown = [plain(id, NAME) for id in review.critical[:6]] + (["…"] if len(review.critical) > 6 else [])
        said.append(f"longest chain {' > '.join(shown)}")
    return "; ".join(said)


def _inputs(review: Review, limit: int | None) -> Iterator[tuple[str, str]]:
    for name, value in (review.given or {}).items():
        yield "input", f"{plain(name, NAME)} = {value_text(value, limit)}"
    if review.given is None and review.inputs:
        names = [plain(name, NAME) for name in review.inputs.get("properties", {})]
        yield "inputs", f"{', '.join(names)} (not given yet)"


def _approval(review: Review) -> RenderableType:
    if not review.needs_approval:
        return Text("not needed")
    return Group(*[line(f"needed: {reason}", limit=200) for reason in review.approval])


# ---------------------------------------------------------------------------------------------- diff


def changes(found: Diff) -> RenderableType:
    """What another revision of a plan keeps, adds, removes and changes."""
    if found.empty:
        return Text("the plans are the same")
    numbers = {"kept": found.kept, "added": found.added, "removed": found.removed, "changed": found.changed}
    summary = ", ".join(f"{len(ids)} {word}" for word, ids in numbers.items() if ids)
    return stacked(
        *[Text.assemble(("+ ", "green"), line(id, limit=NAME)) for id in found.added],
        *[Text.assemble(("- ", "red"), line(id, limit=NAME)) for id in found.removed],
        *[_changed(id, found.changed[id]) for id in found.changed],
        *[_changed("the plan", found.plan)] * bool(found.plan),
        Text(f"steps: {summary}" if summary else "steps: none differs", "dim"),
    )


def _changed(name: str, found: Iterable[Change]) -> RenderableType:
    head = Text.assemble(("~ ", "yellow"), line(name, limit=NAME))
    rows = [[line(c.field, "dim", NAME), Text(_before_and_after(c.old, c.new))] for c in found]
    return stacked(head, indented(columns(rows), 4))


def _before_and_after(old: Any, new: Any) -> str:
    said = [clipped(spell(v), VALUE) if v is not None else "(not said)" for v in (old, new)]
    return f"{said[0]} -> {said[1]}"


# ---------------------------------------------------------------------------------------------- tools


_PLAIN = Policies()


def tools(listed: Iterable[Tool]) -> RenderableType:
    """One line for each tool: what it does to the world, and what for."""
    rows = [
        [
            line(tool.name, "bold", NAME),
            Text(tool.effect.value, _EFFECTS[tool.effect]),
            Text("" if tool.level is Level.LOW else tool.level.value, "yellow"),
            line(", ".join(tool.permissions), "dim", NAME),
            Text("" if tool.requires_approval is False else "asks", "yellow"),
            line(_first_line(tool.description), limit=200),
        ]
        for tool in listed
    ]
    return columns(rows) if rows else Text("there is no tool")


_FEW = 20
"""So many findings are shown one by one; of more, those that did load are only counted."""


def left_out(findings: Sequence[ToolFinding]) -> RenderableType:
    """What could not be made a tool, and why; and what was noticed of the others."""
    shown = [found for found in findings if len(findings) <= _FEW or not found.loaded or not found.tool]
    rows = [[line(found.tool or "all", "bold", NAME), line(found.message, limit=300)] for found in shown]
    counted = Counter(found.code for found in findings if found not in shown)
    more = ", ".join(f"{count:,} {code}" for code, count in counted.items())
    title = "left out" if any(not found.loaded for found in findings) else "noticed"
    return stacked(
        Text(title, "dim") if rows else None,
        columns(rows) if rows else None,
        Text(f"noticed: {more} (--json lists them)", "dim") if more else None,
    )


def tool_page(tool: Tool, policies: Policies = _PLAIN) -> RenderableType:
    """All that is declared of one tool, and what holds for it by these rules."""
    head = columns([[line(tool.name, "bold", NAME), Text(tool.effect.value, _EFFECTS[tool.effect])]])
    return stacked(
        head,
        indented(block(tool.description, limit=4000)),
        *_section("Arguments", _properties(tool.input.document)),
        *_section(
            "Result", [line(_shape(tool.output.document), limit=200)] if tool.output is not None else []
        ),
        *_section("Rules", [columns([[Text(n, "dim"), line(said)] for n, said in _rules(tool, policies)])]),
        *_section(
            "Examples",
            [columns([[clipped(spell(dict(e)), VALUE)] for e in tool.examples])] if tool.examples else [],
        ),
        *_section("Identity", [columns([[Text(n, "dim"), line(said)] for n, said in _identity(tool)])]),
    )


def _properties(schema: Mapping[str, Any]) -> Iterator[RenderableType]:
    needed = schema.get("required", [])
    properties = schema.get("properties", {})
    rows = [
        [
            line(name, limit=NAME),
            line(_shape(part), "dim", 60),
            Text("" if name in needed else "optional", "dim"),
            line(part.get("description", "") if isinstance(part, Mapping) else "", limit=400),
        ]
        for name, part in properties.items()
    ]
    yield columns(rows) if rows else Text("none", "dim")


def _shape(schema: Any) -> str:
    """A JSON Schema in a few words."""
    if not isinstance(schema, Mapping):
        return "anything"
    match schema:
        case {"enum": list(values)}:
            return " | ".join(value_text(v, 40) for v in values[:6])
        case {"type": "array", "items": items}:
            return f"list of {_shape(items)}"
        case {"type": "object", "properties": Mapping() as parts}:
            return "{" + ", ".join(list(parts)[:8]) + "}"
        case {"type": str(kind)}:
            return kind
        case {"type": list(kinds)}:
            return " | ".join(map(str, kinds))
        case {"$ref": str(name)}:
            return name.rpartition("/")[2]
        case {"anyOf": list(kinds)}:
            return " | ".join(map(_shape, kinds[:6]))
        case _:
            return "anything"


def _rules(tool: Tool, policies: Policies) -> Iterator[tuple[str, str]]:
    refused = policies.max_level is not None and tool.level.above(policies.max_level)
    yield "level", tool.level.value + (f", refused: above {policies.max_level}" if refused else "")
    yield "permissions", ", ".join(tool.permissions) or "none"
    yield (
        "approval",
        _need(tool),
    )
    seconds = policies.tool_timeout if tool.timeout_unset else tool.timeout
    said = f"{seconds:g} s" if seconds is not None else "none"
    yield "time limit", said + (" by policy" if tool.timeout_unset else "")
    most = policies.retry.attempts if tool.effect.repeatable else 1
    yield "attempts", f"at most {most}" + ("" if tool.effect.repeatable else ", more where nothing happened")
    if limits := limits_text(limits_of(tool, policies)):
        yield "limits", "; ".join(limits)
    if tool.name in policies.budget.tools:
        yield "budget", f"{count(policies.budget.tools[tool.name], 'call')} in a run"
    if tool.cost:
        yield "cost", f"{tool.cost:g} a call"
    if tool.model_calls != 0:
        yield "model", "no bound" if tool.model_calls is None else count(tool.model_calls, "question")
    if tool.host:
        yield "host", tool.host
    if tool.secret_refs:
        yield "secrets", ", ".join(f"{name} from {ref}" for name, ref in tool.secret_refs.items())
    if tool.soft_failure is not None:
        yield "fails if", tool.soft_failure.text
    if tool.undo:
        yield "undone by", tool.undo
    yield "rehearsal", "simulated" if tool.simulate is not None else "no stand-in"
    if not tool.effect.repeatable:
        yield "if unknown", "the tool is asked" if tool.reconcile is not None else "a person is asked"


def _identity(tool: Tool) -> Iterator[tuple[str, str]]:
    if tool.title:
        yield "title", tool.title
    if tool.tags:
        yield "tags", ", ".join(tool.tags)
    if tool.version:
        yield "version", tool.version
    yield "origin", tool.origin
    yield "fingerprint", tool.fingerprint


def _need(tool: Tool) -> str:
    match tool.requires_approval:
        case True:
            return "needed"
        case False:
            return "as the policy says"
        case "each":
            return "asked at each call"
        case rule:
            return f"asked when {plain(rule.text, VALUE)}"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
