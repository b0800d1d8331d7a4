"""What happened, as records: the only input of `advance`, the only content of a journal.

Every event begins with its place in the run (`seq`, from 1), the time the runtime stamped on it (`at`, epoch seconds,
never decreasing) and one die (`dice`, an even draw from [0, 1)), so that nothing below needs a clock or chance.

    RunOpened PlanAccepted                                     the run, its inputs and bounds, the plan
    CallAdmitted CallStarted CallSettled                       a tool call: decided, begun (each attempt), ended
    ValueSettled                                               a step or item that settles without a call
    TimerFired                                                 a wait is over
    DecisionAsked DecisionMade                                 a person is asked, and answers
    HookAnswered ModelAnswered PatchAccepted PatchRefused      the re-plan
    RunPaused RunResumed RunClosed                             a process lets go, takes up again, the end

A batch has a record of its own beside those of its rows, which are runs. It pauses, asks, is resumed and closes by the same
events; its own are

    BatchOpened RowsTaken                                      the plan and rules of all rows; all of them are there
    RowSettled RowParked RowsReopened                          a row ended, waits, is to be tried again
    GroupFormed GroupSettled                                   rows that failed alike: a patch is asked for, what comes of it
    ToolHeld ToolFreed                                         a broken tool holds rows back, and is back

and those of a row that no other run has: RowOpened, in the place of RunOpened and PlanAccepted, and RowReopened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Literal, NamedTuple, TypeAlias

from ..planner.plan import Patch, Plan
from ..policies.failures import Failure
from ..policies.permissions import Principal
from ..policies.policies import Policies

__all__ = [
    "ASIDE",
    "EVENTS",
    "INTERRUPTED",
    "PARKED",
    "PEOPLE",
    "BatchOpened",
    "CallAdmitted",
    "CallSettled",
    "CallStarted",
    "DecisionAsked",
    "DecisionMade",
    "Event",
    "GroupFormed",
    "GroupSettled",
    "HookAnswered",
    "ModelAnswered",
    "Outcome",
    "PatchAccepted",
    "PatchRefused",
    "Path",
    "PlanAccepted",
    "RowOpened",
    "RowParked",
    "RowReopened",
    "RowSettled",
    "RowStatus",
    "RowsReopened",
    "RowsTaken",
    "RunClosed",
    "RunOpened",
    "RunPaused",
    "RunResumed",
    "RunState",
    "TimerFired",
    "ToolFreed",
    "ToolHeld",
    "ValueSettled",
    "decode",
    "encode",
    "path_text",
]

PEOPLE = "waiting for people"
INTERRUPTED = "interrupted"
ASIDE = "put aside"
PARKED = "parked"
"""Why a run has paused (`RunPaused.reason`): only people can go on; somebody stopped it; whoever comes next may go on; a
row waits for what its batch makes of it."""

Path: TypeAlias = "tuple[str | int, ...]"
"""Identity of a call inside its run: ids and indices from the outside in, such as `("refund", 3)`."""

RunState: TypeAlias = Literal["running", "waiting", "done", "failed", "stopped"]

RowStatus: TypeAlias = Literal["done", "failed", "stopped", "refused"]
"""How a row ended: as its run did; or `refused`: it could not run."""


class Outcome(StrEnum):
    """How a step, an item or an attempt ended."""

    OK = "ok"
    FAILED = "failed"
    SKIPPED = "skipped"
    BLOCKED = "blocked"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


class RunOpened(NamedTuple):
    """A run exists. `contracts` holds what each tool promised, by name; `approval` is the approval's document.

    `parent` is the run in which this one is a call of a sub-plan. `agent` describes the dialogue that the run is,
    `fallback` the one that may take over from its plan: messages, tools, bounds. `spent` is what making the plan has
    used of the budget: `model_calls`, `tokens`, `cost`. `planner_calls` is how many model calls one question to the
    planner is. `deadline` is in how many seconds the run is wanted to end; it stops nothing. `trace` names the span in
    which this part of the run is told, as W3C `traceparent`. `forked`: the `run` and `step` from which this one was
    forked, the results of its steps that are `taken` over, and the calls that `acted` there.
    """

    seq: int
    at: float
    dice: float
    run: str
    inputs: dict[str, Any]
    principal: Principal
    policies: Policies
    contracts: dict[str, dict[str, Any]]
    approval: dict[str, Any] | None = None
    planner: bool = False
    hooks: tuple[str, ...] = ()
    parent: str = ""
    agent: dict[str, Any] | None = None
    fallback: dict[str, Any] | None = None
    spent: dict[str, Any] | None = None
    planner_calls: int = 1
    deadline: float | None = None
    trace: str = ""
    forked: dict[str, Any] | None = None


class PlanAccepted(NamedTuple):
    """The plan that is to run, checked and (where needed) approved."""

    seq: int
    at: float
    dice: float
    plan: Plan
    digest: str


class CallAdmitted(NamedTuple):
    """A call may be made: arguments resolved and valid, permitted, within budget (what it needs is reserved).

    `decoded`: JSON Pointers to arguments that were JSON as text and are in `args` what the text said.
    """

    seq: int
    at: float
    dice: float
    path: Path
    tool: str
    args: dict[str, Any]
    args_digest: str
    key: str
    decoded: tuple[str, ...] = ()


class CallStarted(NamedTuple):
    """One attempt begins (from 1); durable before any effect."""

    seq: int
    at: float
    dice: float
    path: Path
    attempt: int


class CallSettled(NamedTuple):
    """One attempt ended; `attempt` 0 is a call that was refused before it could begin. `usage` is what it counted:
    `model_calls`, `input_tokens`, `output_tokens`, `cost`; of a sub-plan, what its run used.

    `questions`: a sub-plan was put aside (`cancelled`) until people have answered what it asks.
    """

    seq: int
    at: float
    dice: float
    path: Path
    attempt: int
    outcome: Outcome
    value: Any = None
    failure: Failure | None = None
    args: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None
    questions: tuple[dict[str, Any], ...] = ()


class ValueSettled(NamedTuple):
    """A step or item settled without a call: a value, or a skip or failure with its reason."""

    seq: int
    at: float
    dice: float
    path: Path
    outcome: Outcome
    value: Any = None
    failure: Failure | None = None
    reason: str = ""


class TimerFired(NamedTuple):
    """The wait before the next attempt at `path` is over."""

    seq: int
    at: float
    dice: float
    path: Path


class DecisionAsked(NamedTuple):
    """A person is asked. `about`: an `unknown` outcome, a `call` that needs approval, a `patch` beyond the scope, or
    what a step of the plan wants to know (`ask`; `question` holds its arguments and the `schema` of the answer). Of a
    batch: whether it goes on after its first rows (`canary`), and whether rows that failed alike go on with a `patch`."""

    seq: int
    at: float
    dice: float
    id: str
    about: Literal["unknown", "call", "patch", "ask", "canary"]
    path: Path
    options: tuple[str, ...]
    question: dict[str, Any]


class DecisionMade(NamedTuple):
    """A person (or a late result of the tool itself) answered; `value` comes with `accept` and `answer`."""

    seq: int
    at: float
    dice: float
    id: str
    choice: str
    by: str
    value: Any = None
    reason: str = ""


class HookAnswered(NamedTuple):
    """A hook was asked and answered (`go`, `stop`), once; what it raised is recorded in `failure`."""

    seq: int
    at: float
    dice: float
    hook: str
    answer: str
    note: str = ""
    failure: Failure | None = None
    value: Any = None
    """What the hook wants instead: messages, a message, arguments."""
    path: Path = ()
    """The call that the hook was asked about."""


class ModelAnswered(NamedTuple):
    """A model or planner answered: exactly one of `patch`, `cannot_plan`, `findings` (unreadable), `said` (in a
    dialogue) or `failure` is set. `notes` say what was put right in reading the answer, `queued` how many seconds its
    questions waited for limits, and for rests that a service had asked for."""

    seq: int
    at: float
    dice: float
    purpose: Literal["replan", "react"]
    patch: Patch | None = None
    cannot_plan: str = ""
    findings: tuple[dict[str, Any], ...] = ()
    failure: Failure | None = None
    text: str = ""
    usage: dict[str, Any] | None = None
    said: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()
    queued: float = 0.0


class PatchAccepted(NamedTuple):
    """The plan goes on with this patch; `digest` is the patched plan's. A row that waited with others names its `group`
    in place of the patch: its batch holds it once for all of them."""

    seq: int
    at: float
    dice: float
    patch: Patch | None
    digest: str
    group: str = ""


class PatchRefused(NamedTuple):
    """A patch does not hold: findings of the check, a hook, or a person's no."""

    seq: int
    at: float
    dice: float
    findings: tuple[dict[str, Any], ...]
    by: Literal["check", "hook", "person"] = "check"


class RunPaused(NamedTuple):
    """The process lets go of the run; it waits (for people, or to be taken up again)."""

    seq: int
    at: float
    dice: float
    reason: str
    waiting: tuple[str, ...] = ()


class RunResumed(NamedTuple):
    """A process takes the run up again. `seconds`: of a sub-plan, what its caller has left of its time; `trace` as in
    `RunOpened`. `accepted`: the `changes` to what it was opened with that somebody (`by`) accepts, with the `contracts`
    and `policies` that hold from here on; of a batch with what it keeps for each row now (`reserve`)."""

    seq: int
    at: float
    dice: float
    principal: Principal
    seconds: float | None = None
    trace: str = ""
    accepted: dict[str, Any] | None = None


class RunClosed(NamedTuple):
    """The end. `reason` refines `stopped`; `message` is a sentence; nothing follows."""

    seq: int
    at: float
    dice: float
    state: RunState
    reason: Literal["", "budget", "cannot_plan", "cancelled", "journal", "failures", "canary", "shared"] = ""
    output: Any = None
    message: str = ""


class BatchOpened(NamedTuple):
    """A batch exists: `plan` is to be run for each row, by what stands here. `rules` are its own (`BatchRules`).

    `source` says where the rows come from, `outputs` which files are written beside the journal; `shared` are the steps that
    run once, in a run of their own; `reserve` is what is kept of the budget of the batch for each row under way; the other
    fields mean what they do in `RunOpened`.
    """

    seq: int
    at: float
    dice: float
    run: str
    plan: Plan
    digest: str
    principal: Principal
    policies: Policies
    contracts: dict[str, dict[str, Any]]
    rules: dict[str, Any]
    approval: dict[str, Any] | None = None
    source: dict[str, Any] | None = None
    shared: tuple[str, ...] = ()
    reserve: dict[str, float] | None = None
    planner: bool = False
    hooks: tuple[str, ...] = ()
    spent: dict[str, Any] | None = None
    planner_calls: int = 1
    deadline: float | None = None
    trace: str = ""
    outputs: dict[str, Any] | None = None


class RowOpened(NamedTuple):
    """A row of a batch exists: a run of which everything but the inputs is said by its batch. Ordinals count from 1.

    `digest` is that of the inputs, `line` where the row stands in its file. Time runs for it from its next event on.
    Ordinal 0 is the run of the steps that all rows share.
    """

    seq: int
    at: float
    dice: float
    run: str
    batch: str
    ordinal: int
    inputs: dict[str, Any]
    digest: str = ""
    line: int | None = None


class RowReopened(NamedTuple):
    """A row that ended is to be tried again, from what failed in it. `accepted` as in `RunResumed`, without contracts."""

    seq: int
    at: float
    dice: float
    principal: Principal
    accepted: dict[str, Any] | None = None


class RowsTaken(NamedTuple):
    """All rows are in the journal, so many of them, those that were set aside included. `digest` is that of the source.

    `openings` is over the openings of all rows in their order; the journal adds it, where it keeps chains.
    """

    seq: int
    at: float
    dice: float
    rows: int
    digest: str
    openings: str = ""


class RowSettled(NamedTuple):
    """A row came to its end: the one record that says how. A row that was set aside before has no `run`.

    `used` is what it has used of the budget. The journal adds at which event of the row that was, and the hash of it.
    """

    seq: int
    at: float
    dice: float
    ordinal: int
    run: str
    status: RowStatus
    reason: str = ""
    kind: str = ""
    code: str = ""
    message: str = ""
    line: int | None = None
    used: dict[str, Any] | None = None
    events: int = 0
    closing: str = ""


class RowParked(NamedTuple):
    """A row cannot go on by itself: people are asked (`questions`), or it waits with others that failed `alike` for a patch."""

    seq: int
    at: float
    dice: float
    ordinal: int
    run: str
    questions: tuple[str, ...] = ()
    alike: dict[str, Any] | None = None


class GroupFormed(NamedTuple):
    """Nothing else can go on, so the planner is asked about the rows that failed alike, so many of them so far.

    What follows about a patch (answers of planner, hooks and check) is about this group, until the next one is formed.
    """

    seq: int
    at: float
    dice: float
    group: str
    rows: int


class GroupSettled(NamedTuple):
    """What becomes of the rows that wait with this group: they go on with a patch, or fail for want of one (`message`)."""

    seq: int
    at: float
    dice: float
    group: str
    patch: Patch | None = None
    digest: str = ""
    message: str = ""


class RowsReopened(NamedTuple):
    """The batch goes on after its end: rows that are not done are to be tried again, and the others to begin.

    `trace` and `accepted` as in `RunResumed`. `raised`: the `budget` of the batch from here on, what it `was`, and who (`by`)
    raised it.
    """

    seq: int
    at: float
    dice: float
    by: str
    trace: str = ""
    accepted: dict[str, Any] | None = None
    raised: dict[str, Any] | None = None


class ToolHeld(NamedTuple):
    """A tool failed again and again: no row begins until it is back, and those that need it wait.

    So many `failures` in a row, the last of this `kind`; every so many `seconds` one call tries whether it is back.
    """

    seq: int
    at: float
    dice: float
    tool: str
    kind: str = ""
    failures: int = 0
    seconds: float = 0.0


class ToolFreed(NamedTuple):
    """A call of a tool that was held found it back."""

    seq: int
    at: float
    dice: float
    tool: str


Event: TypeAlias = (
    RunOpened
    | PlanAccepted
    | CallAdmitted
    | CallStarted
    | CallSettled
    | ValueSettled
    | TimerFired
    | DecisionAsked
    | DecisionMade
    | HookAnswered
    | ModelAnswered
    | PatchAccepted
    | PatchRefused
    | RunPaused
    | RunResumed
    | RunClosed
    | BatchOpened
    | RowOpened
    | RowReopened
    | RowsTaken
    | RowSettled
    | RowParked
    | GroupFormed
    | GroupSettled
    | RowsReopened
    | ToolHeld
    | ToolFreed
)

EVENTS: dict[str, type[Event]] = {
    kind.__name__: kind
    for kind in (
        RunOpened,
        PlanAccepted,
        CallAdmitted,
        CallStarted,
        CallSettled,
        ValueSettled,
        TimerFired,
        DecisionAsked,
        DecisionMade,
        HookAnswered,
        ModelAnswered,
        PatchAccepted,
        PatchRefused,
        RunPaused,
        RunResumed,
        RunClosed,
        BatchOpened,
        RowOpened,
        RowReopened,
        RowsTaken,
        RowSettled,
        RowParked,
        GroupFormed,
        GroupSettled,
        RowsReopened,
        ToolHeld,
        ToolFreed,
    )
}


def path_text(path: Path) -> str:
    """A path as people read it: `refund[3]`."""
    return "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in path).lstrip(".")


# How the fields that are no plain JSON are written and read, by field name: one word means one thing in every event.
_WRITE: dict[str, Callable[[Any], Any]] = {
    "plan": Plan.to_json,
    "patch": Patch.to_json,
    "failure": Failure.to_json,
    "principal": lambda p: p.model_dump(mode="json"),
    "policies": lambda p: p.model_dump(mode="json"),
    "outcome": lambda o: o.value,
}
_READ: dict[str, Callable[[Any], Any]] = {
    "plan": Plan.model_validate,
    "patch": Patch.model_validate,
    "failure": Failure.from_json,
    "principal": Principal.model_validate,
    "policies": Policies.model_validate,
    "outcome": Outcome,
    "path": tuple,
    "decoded": tuple,
    "notes": tuple,
    "options": tuple,
    "hooks": tuple,
    "waiting": tuple,
    "findings": tuple,
    "questions": tuple,
    "shared": tuple,
}


class _Fields(NamedTuple):
    """The fields of one kind of event: those that are always written, those that may stand at their default, how to read."""

    always: tuple[tuple[str, Callable[[Any], Any] | None], ...]
    seldom: tuple[tuple[str, Any, Callable[[Any], Any] | None], ...]
    read: tuple[tuple[str, Callable[[Any], Any]], ...]

    @classmethod
    def of(cls, kind: type[Event]) -> _Fields:
        names, defaults = kind._fields, kind._field_defaults
        return cls(
            tuple((name, _WRITE.get(name)) for name in names if name not in defaults),
            tuple((name, defaults[name], _WRITE.get(name)) for name in names if name in defaults),
            tuple((name, _READ[name]) for name in names if name in _READ),
        )


_FIELDS = {name: _Fields.of(kind) for name, kind in EVENTS.items()}
"""Looked up once for each kind, not for each event: a journal writes and reads a lot of them."""


def encode(event: Event) -> dict[str, Any]:
    """The event as plain JSON with its `type` first, without the fields that stand at their default."""
    name_of_kind = type(event).__name__
    document: dict[str, Any] = {"type": name_of_kind}
    always, seldom, _ = _FIELDS[name_of_kind]
    for (name, write), value in zip(always, event, strict=False):  # those with a default come after them
        document[name] = value if write is None or value is None else write(value)
    for name, default, write in seldom:
        value = getattr(event, name)
        if value is not default and not (value == default and type(value) is type(default)):
            document[name] = value if write is None or value is None else write(value)
    return document


def decode(document: Mapping[str, Any]) -> Event:
    """The inverse of `encode`."""
    fields = dict(document)
    name_of_kind = fields.pop("type")
    for name, read in _FIELDS[name_of_kind].read:
        value = fields.get(name)
        if value is not None:
            fields[name] = read(value)
    return EVENTS[name_of_kind](**fields)
