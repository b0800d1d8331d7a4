"""Runs as people read them: how one ended, what failed and what to do next, its events, the list of runs."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from ..executor import events as e
from ..executor.children import parent_of
from ..executor.events import DecisionAsked, Event, Outcome, RunState, path_text
from ..executor.journal.journal import RunLine
from ..executor.replays.comparing import Comparison
from ..executor.replays.forking import forked_of
from ..executor.run import Run, StepResult
from ..planner.models.messages import AIMessage, Message, SystemMessage, ToolMessage
from ..planner.plan import Patch, Step
from ..planner.reviewing import spell
from ..policies.failures import Failure, Happened, Kind
from ..policies.policies import Budget
from ..policies.text import count
from .lines import (
    NAME,
    VALUE,
    block,
    clipped,
    columns,
    indented,
    joined,
    line,
    plain,
    seconds,
    section,
    stacked,
    value_text,
)

__all__ = [
    "NEXT",
    "STATES",
    "account",
    "calls_together",
    "dialogue",
    "event_list",
    "fate",
    "output_only",
    "question",
    "questions",
    "run_list",
]

STATES: Mapping[RunState, str] = {
    "done": "bold green",
    "failed": "bold red",
    "stopped": "bold red",
    "waiting": "bold yellow",
    "running": "bold",
}
_OUTCOMES: Mapping[Outcome | None, str] = {
    Outcome.OK: "green",
    Outcome.FAILED: "red",
    Outcome.UNKNOWN: "bold yellow",
    Outcome.SKIPPED: "dim",
    Outcome.BLOCKED: "yellow",
    Outcome.CANCELLED: "yellow",
    None: "dim",
}

NEXT: Mapping[Kind, str] = {
    Kind.BAD_ARGS: "mend the arguments in the plan, or give a planner that can (--planner)",
    Kind.PERMISSION: "run it as someone who may (--principal, --permission), or find another way",
    Kind.TIMEOUT: "run it again later, or give the tool more time",
    Kind.NETWORK: "run it again when the other side answers",
    Kind.BUSINESS: "the tool says no: change the plan or the data",
}
"""What a person can do about failures of each kind, once retries and re-plans are over."""

_REFUSED = "a person said no: change the plan, or ask again in a new run"

_PATHS = 4
_MESSAGES = 3
_LINES = 40
_SAID = 20
"""Messages of a dialogue that are shown: the last ones."""
_SHOWN = 160
"""Characters of each."""

# ---------------------------------------------------------------------------------------------- a run


def account(run: Run, *, took: float | None = None, full: bool = False) -> RenderableType:
    """What happened in a run: its state, each step, failures by kind, the output."""
    limit = None if full else VALUE
    parts: list[RenderableType] = [_verdict(run, took)]
    if run.message and (run.state != "done" or run.rehearsal):
        parts.append(block(run.message, limit=2000))
    parts += section("Steps", columns([_step(*row) for row in _rows(run)]) if run.steps else None)
    parts += section("Failures", stacked(*_failures(run, limit)) if run.failures else None)
    parts += section("Budget", columns([*_bounds(run)]) if run.budget != Budget() else None)
    parts += section("Dialogue", dialogue(run, full=full) if run.messages else None)
    parts += section("Questions", questions(run.waiting, limit) if run.waiting else None)
    parts += section("Output", _output(run, limit) if run.output is not None else None)
    return stacked(*parts)


def output_only(run: Run) -> list[RenderableType]:
    """What a run that is done gave."""
    return [_output(run, None)] if run.output is not None else []


def fate(run: Run) -> str:
    """`done`, or `stopped (budget)`."""
    return f"{run.state} ({run.reason})" if run.reason and run.state == "stopped" else run.state


def _verdict(run: Run, took: float | None) -> Text:
    facts: list[Text | str] = [Text(fate(run), STATES[run.state]), line(run.id)]
    if took is not None:
        facts.append(seconds(took))
    if run.deadline is not None:
        late = (
            f"{seconds(run.took - run.deadline)} over its deadline of"
            if run.late
            else "within its deadline of"
        )
        facts.append(Text(f"{late} {seconds(run.deadline)}", "red" if run.late else ""))
    if rounds := sum(isinstance(message, AIMessage) for message in _new(run)):
        facts.append(count(rounds, "round"))
    facts.append(count(run.tool_calls, "call"))
    if run.used.model_calls:
        facts.append(count(run.used.model_calls, "model call"))
    if run.used.tokens:
        facts.append(count(run.used.tokens, "token"))
    if run.used.cost:
        facts.append(f"cost {run.used.cost:g}")
    if run.replans:
        facts.append(count(run.replans, "re-plan"))
    if run.parent:
        facts.append(line(f"part of run {run.parent}"))
    if run.forked_from:
        facts.append(line(f"forked from run {run.forked_from}"))
    return joined(facts)


def _bounds(run: Run) -> Iterator[list[RenderableType]]:
    """What is used of each bound, and what is left."""
    budget, used, left = run.budget, run.used.to_json(), run.left.to_json()
    for name, most in budget.model_dump(exclude={"tools"}, exclude_none=True).items():
        yield _bound(name.replace("_", " "), used[name], most, left[name])
    for name, most in budget.tools.items():
        yield _bound(f"calls of {name}", used["tools"].get(name, 0), most, left["tools"][name])


def _bound(name: str, used: float, most: float, left: float) -> list[RenderableType]:
    style = "bold yellow" if left <= 0 else "dim"
    return [
        line(name, "dim", NAME),
        line(f"{_round(used)} of {_round(most)}"),
        Text(f"{_round(left)} left", style),
    ]


def _round(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:,.6g}"


def _rows(run: Run) -> Iterator[tuple[StepResult, Step | None, int]]:
    """Every step with what the plan says of it and how deep it stands; of a group with `each`, the group only."""
    planned = {step.id: step for step in run.plan.every_step} if run.plan is not None else {}
    waiting = [(step, 0) for step in reversed([*run.steps.values()])]
    while waiting:
        step, depth = waiting.pop()
        yield step, planned.get(step.id), depth
        waiting += [(inner, depth + 1) for inner in reversed([*step.steps.values()])]


def _step(step: StepResult, planned: Step | None, depth: int) -> list[RenderableType]:
    style = "dim" if step.replaced else ""
    fans_out = planned is not None and (planned.has("each") or planned.repeats)
    what = "group" if planned is not None and planned.steps is not None else "value"
    return [
        line("  " * depth + step.id, style, NAME),
        line(step.tool or what, style if step.tool else "dim", NAME),
        Text(step.outcome.value if step.outcome else "open", _OUTCOMES[step.outcome]),
        line("; ".join(_remarks(step, fans_out)), "dim", 200),
    ]


def _remarks(step: StepResult, fans_out: bool) -> Iterator[str]:
    if step.replaced:
        yield "replaced"
    if step.items or (fans_out and isinstance(step.value, list)):
        size = len(step.value) if isinstance(step.value, list) else len(step.items)
        ended = Counter(item.outcome.value if item.outcome else "open" for item in step.items)
        ended.pop("ok", None)  # of a group, items that succeeded are told too
        succeeded = size - ended.total()
        yield ", ".join([f"{succeeded} of {size} ok", *(f"{n} {name}" for name, n in ended.items())])
    elif step.reason:
        yield step.reason
    elif step.failure is not None:
        yield f"{step.failure.kind.value}: {step.failure.code}"


def _failures(run: Run, limit: int | None) -> Iterator[RenderableType]:
    """Failures of one kind and code are one entry; the next move stands once for each kind."""
    groups: dict[tuple[Kind, str], list[tuple[str, Failure]]] = {}
    for path, failure in run.failures:
        groups.setdefault((failure.kind, failure.code), []).append((path, failure))
    told: set[str] = set()
    for (kind, code), found in groups.items():
        yield joined(
            [Text(kind.value, "red"), line(code, limit=NAME), line(_places([path for path, _ in found]))]
        )
        yield indented(stacked(*_messages([failure for _, failure in found], limit)))
        advice = _REFUSED if code == "rejected" else NEXT[kind]
        if advice not in told:
            yield indented(Text(f"next: {advice}", "dim"))
        told.add(advice)


def _places(paths: list[str]) -> str:
    shown = ", ".join(plain(path, NAME) for path in paths[:_PATHS])
    return shown if len(paths) <= _PATHS else f"{shown} and {len(paths) - _PATHS:,} more"


def _messages(failures: list[Failure], limit: int | None) -> Iterator[Text]:
    said = list(dict.fromkeys(failure.message for failure in failures))
    for message in said[:_MESSAGES]:
        yield Text(clipped(message, limit))
    if len(said) > _MESSAGES:
        yield Text(f"and {len(said) - _MESSAGES:,} other messages", "dim")
    for hint in list(dict.fromkeys(failure.hint for failure in failures if failure.hint))[:_MESSAGES]:
        yield Text.assemble(("hint: ", "dim"), clipped(hint, limit))
    if any(failure.happened is Happened.MAYBE for failure in failures):
        yield Text("it may have happened all the same", "yellow")


def _output(run: Run, limit: int | None) -> Text:
    answered = isinstance(run.output, str) and run.plan is None  # in a dialogue: words for people
    text = run.output if answered else json.dumps(run.output, indent=2, ensure_ascii=False)
    shown = text.split("\n")
    if limit is None or (len(shown) <= _LINES and len(text) <= 8000):
        return block(text)
    cut = "\n".join(part[:200] for part in shown[:_LINES])
    return block(cut).append(f"\n… ({len(text):,} characters in all; --full shows them)", "dim")


# ---------------------------------------------------------------------------------------------- a dialogue


def dialogue(run: Run, *, full: bool = False) -> RenderableType:
    """What was said, with each call in one line; with `full` every message whole, those of earlier turns too."""
    said: Sequence[Message] = run.messages if full else _new(run)[-_SAID:]
    rows = [row for message in said for row in _message(message, None if full else _SHOWN)]
    before = len(run.messages) - 1 - len(said)
    if before > 0:
        left: RenderableType = Text(f"… {count(before, 'message')} before; --full shows all", "dim")
        rows.insert(0, [Text(), left])
    return columns(rows)


def _new(run: Run) -> Sequence[Message]:
    """What was said in this run, without the system message."""
    return run.messages[run.earlier + 1 :]


def _message(message: Message, limit: int | None) -> Iterator[list[RenderableType]]:
    match message:
        case AIMessage():
            if message.content or not message.tool_calls:
                yield [Text("model", "cyan"), _words(message.content, limit)]
            for call in message.tool_calls:
                yield [Text("model", "cyan"), line(_call_text(call.name, call.args), limit=limit)]
            for bad in message.invalid_calls:
                yield [Text("model", "cyan"), line(f"{bad.name}: {bad.error}", "red", limit)]
        case ToolMessage():
            style = "red" if message.failed else "dim"
            text = message.content if limit is None or not message.failed else _failure_told(message.content)
            yield [line(message.name, style, NAME), _words(text, limit, style)]
        case SystemMessage():
            yield [Text("system", "dim"), _words(message.content, limit, "dim")]
        case _:
            yield [Text("asked", "bold"), _words(message.content, limit)]


def _failure_told(content: str) -> str:
    """A failure as people read it, made of what the model was told."""
    try:
        told = json.loads(content)
        return f"{told['error_type']} {told.get('code', '')}: {told.get('tool_says') or told['message']}"
    except (ValueError, TypeError, KeyError):
        return content


def _words(text: str, limit: int | None, style: str = "") -> Text:
    return line(text, style, limit) if limit is not None else block(text, style)


def _call_text(name: str, args: Mapping[str, Any]) -> str:
    return f"{name}({', '.join(f'{k}={json.dumps(v, ensure_ascii=False)}' for k, v in args.items())})"


# ---------------------------------------------------------------------------------------------- questions to people


def questions(asked: Iterable[DecisionAsked], limit: int | None = VALUE) -> RenderableType:
    """Open questions, one under the other."""
    return stacked(*[part for decision in asked for part in (question(decision, limit=limit), Text())][:-1])


def question(
    asked: DecisionAsked, limit: int | None = VALUE, sources: Mapping[str, Any] | None = None
) -> RenderableType:
    """One question: values as they are and where they come from, reasons of ours; no prose of a model."""
    *others, last = asked.options or ("",)
    choices = f"{', '.join(map(plain, others))} or {plain(last)}" if others else plain(last)
    return stacked(
        Text.assemble(line(asked.id, "bold", 80), "   ", (choices, "dim")),
        indented(stacked(*_asked(asked, limit, sources or {}))),
    )


def calls_together(asked: Iterable[tuple[DecisionAsked, Mapping[str, Any]]]) -> RenderableType:
    """Calls of one tool that all ask: why, once, then each with its arguments and where they come from."""
    listed = list(asked)
    reason = line(_reason(listed[0][0].question), limit=VALUE)
    head = Text.assemble((f"{len(listed)} calls ask for a yes: ", "bold"), reason)
    parts: list[RenderableType] = [head]
    for decision, sources in listed:
        parts.append(indented(line(path_text(decision.path), "bold", 80)))
        parts.append(indented(stacked(*_values(decision.question, VALUE, sources)), 4))
        parts += map(indented, _contract(decision.question))
    return stacked(*parts)


def _asked(asked: DecisionAsked, limit: int | None, sources: Mapping[str, Any]) -> Iterator[RenderableType]:
    if asked.about == "patch":
        yield from _patch(asked.question, limit)
        return
    if asked.about == "canary":
        yield Text(clipped(_reason(asked.question), limit))
        return
    if asked.about == "ask":
        yield from _of_the_plan(asked.question, limit, sources)
        return
    tool = line(asked.question.get("tool", ""), "bold", NAME)
    yield Text.assemble(tool, " may have acted, and nobody knows") if asked.about == "unknown" else tool
    yield from map(indented, _values(asked.question, limit, sources))
    yield from map(indented, _contract(asked.question))
    yield Text(clipped(_reason(asked.question), limit), "dim")
    if asked.about == "unknown":
        yield Text(
            "retry: call it again; accept: it happened, and you say what it gave; fail: it has failed", "dim"
        )


def _of_the_plan(
    said: Mapping[str, Any], limit: int | None, sources: Mapping[str, Any]
) -> Iterator[RenderableType]:
    """What a plan asks: its words and data as they are; options are numbered from 1, in the order of the plan."""
    args = said["args"]
    yield block(args["question"], limit=limit).append_text(_source(sources.get("question")))
    if args.get("data") is not None:
        yield indented(
            Text.assemble(("data = ", "dim"), value_text(args["data"], limit), _source(sources.get("data")))
        )
    options = args.get("options")
    if options is None:
        yield Text(f"an answer as JSON that fits {value_text(said['schema'], limit)}", "dim")
        return
    yield columns([[Text(f"{n:>3}", "bold"), *_option(option, limit)] for n, option in enumerate(options, 1)])


def _option(option: Any, limit: int | None) -> list[Text]:
    """An option in two cells: what is chosen, and what is said of it."""
    if not isinstance(option, dict):
        return [line(option, limit=VALUE), Text()]
    rest = {name: value for name, value in option.items() if name not in ("id", "label")}
    told = [
        *([line(option["label"])] if "label" in option else []),
        *([Text(value_text(rest, limit))] if rest else []),
    ]
    return [line(option["id"], limit=NAME), joined(told)]


def _values(
    said: Mapping[str, Any], limit: int | None, sources: Mapping[str, Any]
) -> Iterator[RenderableType]:
    for name, value in (said.get("args") or {}).items():
        yield Text.assemble(
            line(name, limit=NAME), (" = ", "dim"), value_text(value, limit), _source(sources.get(name))
        )


def _contract(said: Mapping[str, Any]) -> Iterator[RenderableType]:
    """What of the tool is declared otherwise than when it was loaded, whole: what is not seen would be accepted too."""
    for part, shown in (said.get("contract") or {}).get("changed", {}).items():
        yield Text.assemble(line(part, "bold", NAME), (" of the tool was", "dim"))
        yield indented(block(shown["was"]))
        yield Text("and is now", "dim")
        yield indented(block(shown["now"]))


def _reason(said: Mapping[str, Any]) -> str:
    """Why a person is asked: a sentence of ours, or how the attempt ended."""
    failure = said.get("failure") or {}
    return str(said.get("reason") or f"{failure.get('kind', '')}: {failure.get('message', '')}")


def _source(template: Any) -> Text:
    """Where a value comes from, if the plan does not say it itself."""
    if isinstance(template, dict) and set(template) == {"$"}:
        return Text(f"   from {plain(template['$'], 120)}", "dim")
    return Text()


def _patch(said: Mapping[str, Any], limit: int | None) -> Iterator[RenderableType]:
    patch = said.get("patch") or {}
    yield Text("the planner wants to change the plan beyond what was approved")
    if said.get("rows"):  # of a batch
        yield Text(clipped(_reason(said), limit), "bold" if said.get("irreversible") else "")
    for step in patch.get("add", []):
        yield from _added(step, limit)
    for id_ in patch.get("drop", []):
        yield Text.assemble(("- ", "red"), line(id_, "bold", NAME))


def _added(step: Mapping[str, Any], limit: int | None, depth: int = 0) -> Iterator[RenderableType]:
    """A step of a patch, with all that says what it does; of a group, the steps inside too."""
    instead = f" in place of {plain(step['replaces'], NAME)}" if step.get("replaces") else ""
    what = "group" if step.get("steps") is not None else "value"
    name = line(step.get("id"), "bold", NAME)
    does = line(step.get("tool") or what, limit=NAME)
    yield indented(Text.assemble(("+ ", "green"), name, "  ", does, instead), 4 * depth)
    said = dict(step.get("args") or {}) | {f: step[f] for f in ("each", "when", "until", "next") if f in step}
    if step.get("undo"):
        said["undo"] = {str(step["undo"].get("tool")): step["undo"].get("args", {})}
    for name_, template in said.items():
        told = clipped(spell(template), limit)
        yield indented(Text.assemble(line(name_, limit=NAME), (" = ", "dim"), told), 4 * depth + 4)
    for inner in step.get("steps") or ():
        yield from _added(inner, limit, depth + 1)


# ---------------------------------------------------------------------------------------------- lists


def run_list(runs: Iterable[RunLine], beside: Mapping[str, str] | None = None) -> RenderableType:
    """Runs of a journal; of batches, how their rows stand, before the goal (`beside`)."""
    listed = list(runs)
    known = {run.run for run in listed}
    rows: list[list[RenderableType]] = [
        [
            line(run.run, limit=NAME),
            Text(run.reason if run.reason == "interrupted" else run.state, STATES[run.state]),
            Text(time.strftime("%Y-%m-%d %H:%M", time.gmtime(run.opened_at)), "dim"),
            _goal_line(run, known, (beside or {}).get(run.run, "")),
        ]
        for run in listed
    ]
    head: list[RenderableType] = [Text(word, "dim") for word in ("run", "state", "opened (UTC)", "goal")]
    return columns([head, *rows])


def _goal_line(run: RunLine, known: set[str], beside: str) -> Text:
    """The goal, on one line and cut where the terminal ends: the id before it is there to be copied."""
    relation = "part of it: " if parent_of(run.run, known) else ""
    said = Text("forked: " if forked_of(run.run, known) else relation, "dim")
    said += line(f"{beside}  ·  " if beside and run.goal else beside)
    said += line(run.goal or ("" if beside else "(no goal)"), limit=200)
    said.no_wrap, said.overflow = True, "ellipsis"
    return said


def comparison(found: Comparison, *, full: bool) -> RenderableType:
    """What a run would do otherwise now, a line for each decision that is another one."""
    limit = None if full else VALUE
    changed = [Text.assemble(("given otherwise  ", "dim"), line(said)) for said in found.changed]
    rows: list[RenderableType] = []
    for difference in found.differences[: None if full else _DIFFERENCES]:
        where = line(f"{difference.where}: " if difference.where else "", "bold")
        rows.append(Text.assemble(line(f"{difference.kind:<9} ", "yellow"), where, line(difference.message)))
        for word, value in (("then", difference.then), ("now", difference.now)):
            rows += (
                [indented(line(f"{word:<5}{value_text(value, limit)}", "dim"))] if value is not None else []
            )
    if len(found.differences) > _DIFFERENCES and not full:
        rows.append(Text(f"and {len(found.differences) - _DIFFERENCES} more; --full shows them", "dim"))
    missing = [Text.assemble(("not recorded  ", "dim"), line(said)) for said in found.not_recorded]
    return stacked(*changed, *rows, *missing, comparison_line(found))


_DIFFERENCES = 40
"""So many differences are shown."""


def comparison_line(found: Comparison) -> Text:
    """Whether the run would be the same."""
    decisions = count(found.decisions, "decision")
    if found.same:
        return Text(f"{decisions} compared: all the same", "green")
    return Text(f"{decisions} compared: {count(len(found.differences), 'difference')}", "yellow")


def event_list(events: Iterable[Event], start: float | None = None) -> RenderableType:
    """Every event with its number, its seconds from the start, and what it says."""
    rows: list[list[RenderableType]] = []
    for event in events:
        start = event.at if start is None else start
        rows.append(
            [
                Text(f"{event.seq:>4}", "dim"),
                Text(f"{event.at - start:>8.3f}", "dim"),
                Text(f"{type(event).__name__:<{_WIDEST}}"),
                line(_told(event), limit=240),
            ]
        )
    return columns(rows)


_WIDEST = max(map(len, e.EVENTS))
"""Events that are shown one by one stand under each other, too."""


def _told(event: Event) -> str:
    match event:
        case e.RunOpened():
            part = f", part of run {event.parent}" if event.parent else ""
            if event.forked is not None:
                part = f", forked from run {event.forked['run']} at {event.forked['step']}"
            return f"run {event.run} for {event.principal.id}{part}{_told_of_agent(event)}"
        case e.PlanAccepted():
            return f"{count(len(event.plan.steps), 'step')}, {event.digest.removeprefix('sha256:')[:12]}"
        case e.CallAdmitted():
            decoded = f"  (JSON as text, read: {', '.join(event.decoded)})" if event.decoded else ""
            return f"{path_text(event.path)}{decoded}  {_call_text(event.tool, event.args)}"
        case e.CallStarted():
            return f"{path_text(event.path)}  attempt {event.attempt}"
        case e.CallSettled() | e.ValueSettled():
            return f"{path_text(event.path)}  {event.outcome.value}{_why(event)}"
        case e.TimerFired():
            return f"{path_text(event.path)}  the wait is over"
        case e.DecisionAsked():
            return f"{event.id}  {' or '.join(event.options)}"
        case e.DecisionMade():
            edit = f" to {json.dumps(event.value)}" if event.choice == "edit" else ""
            why = f": {event.reason}" if event.reason else ""
            return f"{event.id}  {event.choice} by {event.by}{edit}{why}"
        case e.HookAnswered():
            return f"{event.hook}  {event.answer}" + (f": {event.note}" if event.note else "")
        case _:
            return _told_of_plans(event)


def _told_of_agent(event: e.RunOpened) -> str:
    """Of a dialogue, what the model is offered."""
    if event.agent is None:
        return ""
    rounds = count(event.agent["max_rounds"], "round")
    return f", a dialogue with {count(len(event.agent['tools']), 'tool')}, at most {rounds}"


def _told_of_model(event: e.ModelAnswered) -> str:
    """An answer in a dialogue: its words and its calls."""
    if event.said is None:
        return f"the model failed: {event.failure.message if event.failure else 'no answer'}"
    said = [event.said["content"]] if event.said["content"] else []
    said += [_call_text(call["name"], call["args"]) for call in event.said.get("tool_calls", ())]
    said += [f"{call['name']}: {call['error']}" for call in event.said.get("invalid_calls", ())]
    return f"the model: {'; '.join(said)}"


def _told_of_plans(event: Event) -> str:
    match event:
        case e.ModelAnswered(purpose="react"):
            return _told_of_model(event)
        case e.ModelAnswered(patch=patch) if patch is not None:
            notes = f"  ({'; '.join(event.notes)})" if event.notes else ""
            return f"a patch: {len(patch.add)} steps added, {len(patch.drop)} dropped{notes}"
        case e.ModelAnswered():
            return event.cannot_plan or (event.failure.message if event.failure else "no readable patch")
        case e.PatchAccepted(patch=None):
            return f"that of its group  {event.digest.removeprefix('sha256:')[:12]}"
        case e.PatchAccepted(patch=Patch() as patch):
            return f"{', '.join(step.id for step in patch.add)}  {event.digest.removeprefix('sha256:')[:12]}"
        case e.PatchRefused():
            return f"by {event.by}: {event.findings[0].get('message', '') if event.findings else ''}"
        case e.RunPaused():
            return event.reason
        case e.RunResumed():
            return f"for {event.principal.id}{_accepted(event)}"
        case e.RunClosed():
            return f"{event.state}{f' ({event.reason})' if event.reason else ''}: {event.message}"
        case _:
            return _told_of_rows(event)


def _told_of_rows(event: Event) -> str:
    match event:
        case e.BatchOpened():
            name = (event.source or {}).get("name", "")
            return f"batch {event.run} for {event.principal.id}, {name}"
        case e.RowOpened():
            return f"row {event.ordinal} of batch {event.batch}"
        case e.RowsTaken():
            return f"{count(event.rows, 'row')}, {event.digest.removeprefix('sha256:')[:12]}"
        case e.RowSettled():
            why = ": ".join(part for part in (event.kind, event.code) if part)
            return f"row {event.ordinal}  {event.status}{f' ({why})' if why else ''}"
        case e.RowParked():
            return f"row {event.ordinal}  waits" + (
                f" for {', '.join(event.questions)}" if event.questions else ""
            )
        case e.GroupFormed():
            return f"{event.group}: the planner is asked about {count(event.rows, 'row')} that failed alike"
        case e.GroupSettled():
            return f"{event.group}: {'they go on with a patch' if event.patch is not None else event.message}"
        case e.RowsReopened():
            return f"{event.by} tries the rows again that are not done{_accepted(event)}{_raised(event)}"
        case e.ToolHeld():
            return f"{event.tool} {failed_in_a_row(event)}: rows wait for it"
        case e.ToolFreed():
            return f"{event.tool} is back"
        case _:
            return ""


def _accepted(event: e.RunResumed | e.RowsReopened) -> str:
    """What somebody accepted by going on."""
    said = event.accepted
    return f"; {said['by']} accepted: {'; '.join(said['changes'])}" if said and said["by"] else ""


def _raised(event: e.RowsReopened) -> str:
    """The larger budget of a batch."""
    if event.raised is None:
        return ""
    now = event.raised["budget"]
    bounds = [f"{name} from {was:,.15g} to {now[name]:,.15g}" for name, was in event.raised["was"].items()]
    return f"; {event.raised['by']} raised {', '.join(bounds)}"


def failed_in_a_row(event: e.ToolHeld) -> str:
    """How a tool came to be held; earlier versions did not write it down."""
    if not event.failures:
        return "failed again and again"
    kind = f" ({event.kind})" if event.kind else ""
    return f"failed {count(event.failures, 'time')} in a row{kind}"


def _why(event: e.CallSettled | e.ValueSettled) -> str:
    if event.failure is not None:
        return f"  {event.failure.kind.value} {event.failure.code}: {event.failure.message}"
    return f"  {event.reason}" if isinstance(event, e.ValueSettled) and event.reason else ""
