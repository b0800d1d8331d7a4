"""What a replay did otherwise than the run did: two journals of one run, held against each other decision by decision.

kind        then and now
check       the plan does not check any more
approval    the plan needs an approval now, and was run without one
call        a call is made now and was not then, or the other way round; of a step that has another name
args        the same call with other arguments, or of another tool
attempts    tried more or less often
result      the recorded result is none by the contract that the tool has now
outcome     a step or item ends otherwise
value       it ends so with another value
question    a person is asked something else
patch       the re-plan goes another way
end         the run ends otherwise
output      it gives something else
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal, NamedTuple, TypeAlias

from ...planner.approvals import approval_needed, tools_of
from ...planner.findings import CheckFailed
from ...planner.inputs import settle_inputs
from ...planner.plan import Plan
from ...planner.reviewing import diff
from ...policies.batches import row_policies
from ...policies.errors import BadInput
from ...policies.permissions import Principal
from ...policies.policies import Policies
from ...policies.text import count, shorten
from ...registry.registry import Registry
from .. import events as e
from ..changes import contracts_of
from ..events import Event, Outcome, Path, encode, path_text
from ..journal.records import to_text
from ..mind.rows import Common, with_tools
from ..mind.state import State
from ..run import Run, run_of
from .recording import Recording, decided
from .replaying import NOT_RECORDED, Replay

__all__ = ["Comparison", "Difference", "compare", "compared", "compared_row"]

Kind: TypeAlias = Literal[
    "check",
    "approval",
    "call",
    "args",
    "attempts",
    "result",
    "outcome",
    "value",
    "question",
    "patch",
    "end",
    "output",
]


class Difference(NamedTuple):
    """One decision that is another now: where, in a sentence, and what it was then and is now."""

    kind: Kind
    where: str
    message: str
    then: Any = None
    now: Any = None

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return self._asdict()


@dataclass(frozen=True, slots=True)
class Comparison:
    """What became of a run when it was run again on its record.

    `changed` says what was given otherwise than then: plan, policies, contracts. `identical`: event for event, with the
    same times. `not_recorded` are the places where the record had no answer, so what follows from them is unknown.
    """

    run: str
    changed: tuple[str, ...]
    differences: tuple[Difference, ...]
    not_recorded: tuple[str, ...]
    identical: bool
    decisions: int
    """So many decisions of the record were compared."""
    now: Run | None
    """The run as it would be now; None where it would not be begun."""

    @property
    def same(self) -> bool:
        """Whether every decision is the one of then."""
        return not self.differences

    def __str__(self) -> str:
        if self.same:
            return f"run {self.run}: {count(self.decisions, 'decision')} compared, all the same"
        return f"run {self.run}: {count(len(self.differences), 'difference')}; {self.differences[0]}"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "run": self.run,
            "same": self.same,
            "identical": self.identical,
            "changed": list(self.changed),
            "decisions": self.decisions,
            "differences": [difference.to_json() for difference in self.differences],
            "not_recorded": list(self.not_recorded),
            "now": self.now.to_json() if self.now is not None else None,
        }


def compare(then: Sequence[Event], now: Sequence[Event], replay: Replay) -> Iterator[Difference]:
    """Every decision that is another now."""
    old, new = _Story(then, replay.moved), _Story(now)
    for path, _, failure in replay.misfits:
        yield Difference("result", path_text(path), failure.message, "ok", failure.code)
    yield from _calls(old, new, replay)
    yield from _ends(old, new)
    yield from _questions(old, new)
    yield from _patches(old, new)
    yield from _closings(old, new, replay)


class _End(NamedTuple):
    """How a step, an item or a call ended."""

    outcome: Outcome
    value: Any
    code: str
    message: str


class _Story:
    """The decisions of a run by what they are about. `moved` gives the paths of the other run for those of this one."""

    def __init__(self, events: Sequence[Event], moved: Mapping[Path, Path] | None = None) -> None:
        self.calls: defaultdict[Path, list[e.CallAdmitted]] = defaultdict(list)
        self.attempts: Counter[Path] = Counter()
        self.ends: dict[Path, _End] = {}
        self.questions: dict[str, e.DecisionAsked] = {}
        self.patches: list[e.PatchAccepted | e.PatchRefused] = []
        self.closed: e.RunClosed | None = None
        self.unknown: set[Path] = set()
        """Paths of calls whose result nobody knows, because it is not recorded."""
        self._names = {there: here for here, there in (moved or {}).items()}
        for event in events:
            self._take(event)

    def _take(self, event: Event) -> None:
        path = self._names.get(getattr(event, "path", ()), getattr(event, "path", ()))
        match event:
            case e.CallAdmitted():
                self.calls[path].append(event)
            case e.CallStarted():
                self.attempts[path] += 1
            case e.CallSettled() | e.ValueSettled():
                self._ended(path, event)
            case e.DecisionAsked():
                if path not in self.unknown or event.about != "unknown":
                    self.questions[event.id] = event
            case e.PatchAccepted() | e.PatchRefused():
                self.patches.append(event)
            case e.RunClosed():
                self.closed = event
            case _:
                pass

    def _ended(self, path: Path, event: e.CallSettled | e.ValueSettled) -> None:
        failure = event.failure
        if failure is not None and failure.code == NOT_RECORDED:
            self.unknown.add(path)
            self.ends.pop(path, None)
            return
        code, message = (failure.code, failure.message) if failure is not None else ("", "")
        said = message or (event.reason if isinstance(event, e.ValueSettled) else "")
        self.ends[path] = _End(event.outcome, event.value, code, said)


def _calls(old: _Story, new: _Story, replay: Replay) -> Iterator[Difference]:
    for here, there in replay.moved.items():
        message = f"was called as {path_text(there)} then; the same call as another step"
        yield Difference("call", path_text(here), message, path_text(there), path_text(here))
    for path in dict.fromkeys([*old.calls, *new.calls]):
        for was, is_ in zip_longest(old.calls[path], new.calls[path]):
            yield from _call(path, was, is_, known=path not in new.unknown)
        before, after = old.attempts[path], new.attempts[path]
        if before != after and old.calls[path] and new.calls[path] and path not in new.unknown:
            message = f"{count(after, 'attempt')} now, {before} then"
            yield Difference("attempts", path_text(path), message, before, after)


def _call(
    path: Path, was: e.CallAdmitted | None, is_: e.CallAdmitted | None, *, known: bool
) -> Iterator[Difference]:
    where, unsure = path_text(path), "" if known else ", and its result is not recorded"
    if was is None:
        assert is_ is not None
        message = f"{is_.tool!r} is called now, and was not then{unsure}"
        yield Difference("call", where, message, None, {"tool": is_.tool, "args": is_.args})
    elif is_ is None:
        message = f"{was.tool!r} was called then, and is not now"
        yield Difference("call", where, message, {"tool": was.tool, "args": was.args}, None)
    elif was.tool != is_.tool:
        message = f"{is_.tool!r} is called now, {was.tool!r} then{unsure}"
        yield Difference("args", where, message, was.tool, is_.tool)
    elif was.args_digest != is_.args_digest:
        names = [n for n in dict.fromkeys([*was.args, *is_.args]) if was.args.get(n) != is_.args.get(n)]
        message = f"{was.tool!r} is called with another {', '.join(map(repr, names))}{unsure}"
        yield Difference("args", where, message, was.args, is_.args)
    elif not known:
        yield Difference("attempts", where, f"{is_.tool!r} is tried once more now{unsure}")


def _ends(old: _Story, new: _Story) -> Iterator[Difference]:
    for path in dict.fromkeys([*old.ends, *new.ends]):
        was, is_ = old.ends.get(path), new.ends.get(path)
        if path in new.unknown or was == is_:
            continue
        where = path_text(path)
        if was is None or is_ is None:
            called = new.calls[path] if was is None else old.calls[path]
            if not called:  # a call that was or is not made is told of
                yield Difference("outcome", where, *_told(was, is_))
        elif was[0] is not is_[0] or was[2:] != is_[2:]:
            yield Difference("outcome", where, *_told(was, is_))
        else:
            message = f"gives {shorten(repr(is_.value), 60)} now, {shorten(repr(was.value), 60)} then"
            yield Difference("value", where, message, was.value, is_.value)


def _told(was: _End | None, is_: _End | None) -> tuple[str, Any, Any]:
    words = [_words(end) for end in (was, is_)]
    sentence = f"{words[1] or 'does not come to its end'} now, {words[0] or 'did not come to its end'} then"
    return sentence, words[0] or None, words[1] or None


def _words(end: _End | None) -> str:
    if end is None:
        return ""
    said = end.code or end.message
    return f"{end.outcome.value} ({said})" if said else end.outcome.value


def _questions(old: _Story, new: _Story) -> Iterator[Difference]:
    for id_ in dict.fromkeys([*old.questions, *new.questions]):
        was, is_ = old.questions.get(id_), new.questions.get(id_)
        if was is None:
            assert is_ is not None
            yield Difference("question", id_, "a person is asked now, and was not then", None, is_.question)
        elif is_ is None:
            yield Difference("question", id_, "a person was asked then, and is not now", was.question, None)
        elif (was.about, was.options, was.question) != (is_.about, is_.options, is_.question):
            yield Difference("question", id_, "a person is asked something else", was.question, is_.question)


def _patches(old: _Story, new: _Story) -> Iterator[Difference]:
    for number, (was, is_) in enumerate(zip_longest(old.patches, new.patches), 1):
        then, now = _patch(was), _patch(is_)
        if then != now:
            message = f"{_kind(is_)} now, {_kind(was)} then"
            yield Difference("patch", f"patch {number}", message, then, now)


def _patch(event: e.PatchAccepted | e.PatchRefused | None) -> dict[str, Any] | None:
    if event is None:
        return None
    document = encode(event)
    return {name: value for name, value in document.items() if name not in ("seq", "at", "dice", "digest")}


def _kind(event: e.PatchAccepted | e.PatchRefused | None) -> str:
    if event is None:
        return "none"
    return "accepted" if isinstance(event, e.PatchAccepted) else "refused"


def _closings(old: _Story, new: _Story, replay: Replay) -> Iterator[Difference]:
    was, is_ = old.closed, new.closed
    then, now = _closing(was), _closing(is_)
    if then != now and not (was is None and is_ is None):
        yield Difference("end", "", f"the run is {_state(is_)} now, it was {_state(was)} then", then, now)
    if was is not None and is_ is not None and was.output != is_.output:
        yield Difference("output", "", "the run gives another output", was.output, is_.output)


def _closing(event: e.RunClosed | None) -> tuple[str, str, str] | None:
    return None if event is None else (event.state, event.reason, event.message)


def _state(event: e.RunClosed | None) -> str:
    if event is None:
        return "not at its end"
    reason = f" ({event.reason})" if event.reason else ""
    return f"{event.state}{reason}"


def not_recorded(replay: Replay) -> Iterable[str]:
    """Where the record had no answer, a phrase each."""
    for what, path, name in replay.unanswered:
        match what:
            case "call":
                yield f"{path_text(path)}: what {name!r} gives"
            case "hook":
                yield (
                    f"{path_text(path)}: what the hook {name} says" if path else f"what the hook {name} says"
                )
            case _:
                yield f"what the {what} answers"


# ---------------------------------------------------------------------------------------------- a whole run


def compared(
    events: Sequence[Event],
    registry: Registry,
    *,
    plan: Plan | None,
    policies: Policies | None,
    check: Callable[[Plan, Registry, Policies, Principal], None],
) -> Comparison:
    """Run a recorded run again with these tools, this plan and these rules, and hold it against the record.

    `check` raises `CheckFailed` for a plan that would not be run. Raises `BadInput` for a record that begins no run.
    """
    opened, accepted = _beginning(events)
    if plan is not None and accepted is None:
        raise BadInput(f"run {opened.run!r} is a dialogue: there is no plan that another could stand for")
    now_plan = plan if plan is not None else accepted.plan if accepted is not None else None
    rules = opened.policies if policies is None else policies
    used = tools_of(now_plan) if now_plan is not None else []
    known = registry.only(names=[n for n in dict.fromkeys([*opened.contracts, *used]) if n in registry])
    contracts, before = {tool.name: tool.contract() for tool in known}, contracts_of(list(events))
    other = [name for name in before if contracts.get(name) != before[name]]
    changed = (
        *_plan_changes(accepted, now_plan),
        *_rule_changes(events, opened.policies, policies),
        *(change for name in other for change in _contract_changes(name, before, contracts)),
    )
    decisions = sum(map(decided, events))
    if now_plan is not None:
        try:
            check(now_plan, registry, rules, opened.principal)
        except CheckFailed as error:
            found = tuple(
                Difference("check", f.pointer, f.message, None, f.code) for f in error.report.errors
            )
            return Comparison(opened.run, changed, found, (), False, decisions, None)
    inputs = opened.inputs if plan is None else settle_inputs(plan, opened.inputs)
    begin = opened._replace(
        policies=rules,
        contracts=contracts if other or contracts.keys() != before.keys() else opened.contracts,
        inputs=inputs,
        agent=_offered(opened.agent, known),
    )
    begin = begin._replace(fallback=_offered(opened.fallback, known))
    first: list[Event] = [begin]
    if accepted is not None and now_plan is not None:
        first.append(accepted._replace(plan=now_plan, digest=now_plan.digest))
    replay = Replay(
        State(known),
        Recording(record := _under(events, policies)),
        changed=other,
        ids=now_plan.by_id if now_plan is not None else (),
    )
    replay.state.policies = rules
    now = replay.run(first)
    differences = (
        *_approval(opened, used, known, rules),
        *compare(events, now, replay),
    )
    return Comparison(
        run=opened.run,
        changed=changed,
        differences=differences,
        not_recorded=tuple(not_recorded(replay)),
        identical=len(now) == len(record) and all(map(_equal, record, now)),
        decisions=decisions,
        now=run_of(replay.state),
    )


def compared_row(
    events: Sequence[Event],
    registry: Registry,
    common: Common,
    *,
    policies: Policies | None,
    check: Callable[[Plan, Registry, Policies, Principal], None],
) -> Comparison:
    """The same of a row of a batch, for which all but its inputs stands in `common`, as it was recorded.

    Raises `BadInput` for a row with which its batch did more than begin and go on: the record of the row alone says nothing of that.
    """
    opened = events[0]
    assert isinstance(opened, e.RowOpened)
    if any(isinstance(event, e.RowReopened) for event in events):
        raise BadInput(f"row {opened.run!r} was tried again, {_NOT_ITS_OWN}{_shown(opened.run)}")
    if any(isinstance(event, e.RunPaused) and event.reason == e.PARKED for event in events):
        raise BadInput(
            f"row {opened.run!r} waited for a patch with others, {_NOT_ITS_OWN}{_shown(opened.run)}"
        )
    plan = common.program.plan
    rules = common.policies if policies is None else row_policies(policies, common.rules)
    known = registry.only(names=[tool.name for tool in common.registry if tool.name in registry])
    contracts = {tool.name: tool.contract() for tool in known}
    before = {tool.name: tool.contract() for tool in common.registry}
    other = [name for name in before if contracts.get(name) != before[name]]
    changed = (
        *_rule_changes(events, common.policies, None if policies is None else rules),
        *(change for name in other for change in _contract_changes(name, before, contracts)),
    )
    decisions = sum(map(decided, events))
    try:
        check(plan, registry, rules, common.principal)
    except CheckFailed as error:
        found = tuple(Difference("check", f.pointer, f.message, None, f.code) for f in error.report.errors)
        return Comparison(opened.run, changed, found, (), False, decisions, None)
    replay = Replay(
        State(known, with_tools(common, known, rules)),
        Recording(record := _under(events, policies)),
        changed=other,
        ids=plan.by_id,
    )
    now = replay.run([opened])
    return Comparison(
        run=opened.run,
        changed=changed,
        differences=tuple(compare(events, now, replay)),
        not_recorded=tuple(not_recorded(replay)),
        identical=len(now) == len(record) and all(map(_equal, record, now)),
        decisions=decisions,
        now=run_of(replay.state),
    )


_NOT_ITS_OWN = "which its batch decided, and is not run again on its own record; "


def _shown(run: str) -> str:
    return f"`foreplan show {run} --at SEQ` tells how it stood after any of its events"


def _beginning(events: Sequence[Event]) -> tuple[e.RunOpened, e.PlanAccepted | None]:
    opened = events[0] if events else None
    if isinstance(opened, e.BatchOpened):
        row = f"say one of its rows, as {opened.run + '.1'!r}"
        raise BadInput(
            f"{opened.run!r} is a batch, and each of its rows is run again by itself: {row}; {_shown(opened.run)}"
        )
    if not isinstance(opened, e.RunOpened):
        raise BadInput("a record that does not begin with the opening of its run cannot be run again")
    accepted = events[1] if len(events) > 1 else None
    if opened.agent is None and not isinstance(accepted, e.PlanAccepted):
        raise BadInput(
            f"run {opened.run!r} was interrupted before it had a plan, so there is nothing to run again"
        )
    return opened, accepted if isinstance(accepted, e.PlanAccepted) else None


def _under(events: Sequence[Event], policies: Policies | None) -> Sequence[Event]:
    """The record; with other rules, none of those that were accepted on the way."""
    if policies is None:
        return events
    return [
        event._replace(accepted={**event.accepted, "policies": None})
        if isinstance(event, e.RunResumed) and event.accepted is not None
        else event
        for event in events
    ]


def _rule_changes(events: Sequence[Event], first: Policies, given: Policies | None) -> Iterator[str]:
    """How the rules that are given differ from those that the run went by, which somebody may have changed on the way."""
    went = _rules_of(events, first) if given is not None else []
    for (since, rules), until in zip_longest(went, [start for start, _ in went[1:]]):
        assert given is not None
        what = f"policies {_between(since, until)}" if len(went) > 1 else "policies"
        yield from _changes(what, rules.model_dump(mode="json"), given.model_dump(mode="json"))


def _rules_of(events: Sequence[Event], first: Policies) -> list[tuple[int, Policies]]:
    """The rules that a run went by, each with the first of its events; not those by which nothing was decided."""
    went, decides = [(1, first)], False
    for event in events:
        accepted = event.accepted if isinstance(event, e.RunResumed | e.RowReopened) else None
        if accepted is not None and accepted.get("policies") is not None:
            went = [
                *(went if decides else went[:-1]),
                (event.seq, Policies.model_validate(accepted["policies"])),
            ]
            decides = False
        decides = decides or decided(event)
    return went


def _between(since: int, until: int | None) -> str:
    return f"from event {since} on" if until is None else f"of events {since} to {until - 1}"


def _offered(spec: dict[str, Any] | None, known: Registry) -> dict[str, Any] | None:
    """A dialogue with the tools that there are now."""
    if spec is None or all(name in known for name in spec["tools"]):
        return spec
    return {**spec, "tools": [name for name in spec["tools"] if name in known]}


def _approval(
    opened: e.RunOpened, used: Iterable[str], known: Registry, rules: Policies
) -> Iterator[Difference]:
    if opened.approval is None and not opened.parent and approval_needed([known[n] for n in used], rules):
        yield Difference(
            "approval", "", "the plan needs an approval now, and was run without one", False, True
        )


def _plan_changes(accepted: e.PlanAccepted | None, plan: Plan | None) -> Iterator[str]:
    if accepted is not None and plan is not None and plan.digest != accepted.digest:
        found = diff(accepted.plan, plan)
        parts = {"added": found.added, "removed": found.removed, "changed": tuple(found.changed)}
        said = [f"{word} {', '.join(steps)}" for word, steps in parts.items() if steps]
        yield f"plan: {'; '.join(said)}" if said else "plan"


def _contract_changes(name: str, then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    if name not in now:
        yield f"tool {name!r}: there is none any more"
    else:
        yield from _changes(f"tool {name!r}", then[name], now[name])


def _changes(what: str, then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    parts = sorted(part for part in then.keys() | now.keys() if then.get(part) != now.get(part))
    if parts:
        yield f"{what}: {', '.join(parts)}"


def _equal(one: Event, other: Event) -> bool:
    return one == other or to_text(one) == to_text(other)
