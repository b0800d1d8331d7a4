"""Where a run stands: plain records that `advance` alone changes, and the commands it gives.

The one driver owns a `State`. It is changed in place (copying a state of 10,000 steps at each event would cost more than
the run), and an event that does not follow the last one by number raises `StaleState`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

from ...planner.models.messages import AIMessage, InvalidToolCall, Message, ToolCall
from ...planner.plan import Patch, Plan
from ...policies.errors import ForeplanError
from ...policies.failures import Failure
from ...policies.permissions import ANYONE, Principal
from ...policies.policies import Budget, Policies
from ...policies.secrets import Secret
from ...registry.names import resolve_name
from ...registry.registry import Registry
from ...registry.tools import Tool
from ..events import (
    CallAdmitted,
    CallSettled,
    DecisionAsked,
    DecisionMade,
    Event,
    Outcome,
    Path,
    RunClosed,
    path_text,
)
from .program import Block, Code, Program
from .rows import Common

__all__ = [
    "REACT",
    "Active",
    "Ask",
    "Call",
    "Command",
    "Consult",
    "Dialogue",
    "Fault",
    "Frame",
    "Held",
    "Lane",
    "Node",
    "Part",
    "Perform",
    "Rejection",
    "Replan",
    "Sleep",
    "StaleState",
    "State",
    "Think",
    "Undone",
    "Write",
]


_OK, _FAILED, _SKIPPED = Outcome.OK, Outcome.FAILED, Outcome.SKIPPED
REACT = "@react"
"""What the paths of a dialogue's calls begin with; no step can be called so."""


class StaleState(ForeplanError):
    """An event was given to a state that it does not follow."""


class Call(NamedTuple):
    """One attempt of one tool call, as the hands get it. `args` are plain JSON that nobody else may change."""

    run: str
    path: Path
    tool: Tool
    args: dict[str, Any]
    key: str
    attempt: int
    timeout: float | None
    principal: Principal
    budget: Budget = Budget()
    """What it may use besides itself: questions to a model; of a sub-plan, its slice of everything."""
    answers: Mapping[str, dict[str, Any]] = {}
    """What people answered to the questions of a sub-plan, by the ids it gave them."""
    secrets: Mapping[str, Secret] = {}
    """What the runtime gives besides, by parameter: no event holds it."""
    accepted: str = ""
    """The contract of the tool that a person has accepted in this run, where it changed."""


class Write(NamedTuple):
    """Append this event (`fields` after the stamps), then give it to `advance`."""

    kind: type[Event]
    fields: tuple[Any, ...]


class Perform(NamedTuple):
    """Make this call: CallStarted, the tool, CallSettled."""

    call: Call


class Sleep(NamedTuple):
    """Answer with TimerFired once it is `until` (epoch seconds)."""

    path: Path
    until: float


class Ask(NamedTuple):
    """Get a person's answer to this decision: DecisionMade."""

    decision: DecisionAsked


class Consult(NamedTuple):
    """Ask a hook, once: HookAnswered. About a patch, or about a call (and, after it, about its end)."""

    hook: str
    patch: Patch | None = None
    path: Path = ()
    tool: Tool | None = None
    args: Mapping[str, Any] = {}
    settled: CallSettled | None = None


class Replan(NamedTuple):
    """Ask the planner for a patch: ModelAnswered. `findings` and `text` come with a repair."""

    text: str = ""
    findings: tuple[dict[str, Any], ...] = ()


class Think(NamedTuple):
    """Ask the model of the dialogue what next: ModelAnswered."""

    round: int


Command: TypeAlias = Write | Perform | Sleep | Ask | Consult | Replan | Think


class Frame:
    """Steps of one block under way: the plan, or one item of a group. `path` is what the paths of its steps begin with."""

    __slots__ = ("block", "index", "item", "lane", "left", "lineage", "lost", "nodes", "path", "undo", "why")

    def __init__(
        self, block: Block, path: Path, lane: Lane | None = None, index: int = 0, item: Any = None
    ) -> None:
        self.block = block
        self.path = path
        self.lane = lane
        self.index = index
        self.item = item
        self.lineage: str = (
            f"{lane.lineage}[{index}]." if lane is not None else f"{path_text(path)}." if path else ""
        )
        """Names of the groups around, as they were first called, with the indices of their items."""
        nodes = self.nodes = {id_: Node(code, self) for id_, code in block.codes.items()}
        self.left = len(nodes)
        self.undo: list[Undone] = []
        """What is to be taken back if this unit fails, in the order in which it was done."""
        self.lost = 0
        """How many of its effects cannot be taken back, because the call that would do it cannot be worked out."""
        self.why: Failure | None = None
        """Why the unit failed although its steps did not: its output does not resolve."""
        for id_, names in block.dependants.items():
            for name in names:
                nodes[id_].dependants.append(nodes[name])

    def dissolve(self) -> None:
        """Nobody looks at it any more. Nodes know their frame: so they go at once, and not when the collector comes."""
        self.nodes.clear()

    @property
    def outer(self) -> Frame | None:
        """The frame around this one."""
        return self.lane.node.frame if self.lane is not None else None


class Node:
    """One step of a frame: what it waits for, and how it ended."""

    __slots__ = (
        "blocker",
        "code",
        "dependants",
        "failure",
        "frame",
        "kept",
        "lane",
        "outcome",
        "path",
        "reason",
        "value",
        "waiting",
    )

    def __init__(self, code: Code, frame: Frame) -> None:
        self.code = code
        self.frame = frame
        self.path: Path = (*frame.path, code.id)
        """Identity of the step inside its run."""
        self.dependants: list[Node] = []
        self.waiting = len(code.needs)
        self.kept: dict[int, Any] = {}
        """Of a step with `each` that is tried again: the results of the items that had succeeded."""
        self.clear()

    def clear(self) -> None:
        """Unsettled, as at the start."""
        self.blocker = ""
        self.outcome: Outcome | None = None
        self.value: Any = None
        self.failure: Failure | None = None
        self.reason = ""
        self.lane: Lane | None = None

    @property
    def passes(self) -> bool:
        """Whether dependants of this settled step may run."""
        outcome = self.outcome
        if outcome is _FAILED:
            return self.code.on_failure == "skip"
        return outcome is _OK or outcome is _SKIPPED


class Fault(NamedTuple):
    """Why an item failed, with what it was called and how often."""

    failure: Failure
    args: dict[str, Any] | None = None
    attempts: int = 0


class Undone(NamedTuple):
    """A call that takes something back: `path` is that of what it takes back, and `undo`."""

    path: Path
    tool: Tool
    args: dict[str, Any]
    lineage: str
    asks: bool = False
    """Whether a person is asked before, whatever was approved."""


class Rejection(NamedTuple):
    """A call that a person refused: at which path, and in which words."""

    path: Path
    args: dict[str, Any]
    message: str


class Lane:
    """A step under way: its items in order, of which a few are live at a time.

    An item is a call, or a frame where the step is a group. A step without `each` is a lane of one item with `items`
    None, or of `max` items, one after the other, where it repeats. Undoing is a lane too: `node` None, one call each.
    """

    __slots__ = (
        "changes",
        "closed",
        "faults",
        "frames",
        "items",
        "left",
        "lineage",
        "next",
        "node",
        "outcomes",
        "parked",
        "plural",
        "reasons",
        "seen",
        "serial",
        "size",
        "undoes",
        "values",
    )

    def __init__(self, node: Node, items: list[Any] | None, *, undoes: list[Undone] | None = None) -> None:
        code = node.code
        self.node = node
        self.items = items
        self.undoes = undoes
        self.serial = undoes is not None or code.serial
        """Whether an item starts only when the one before has ended."""
        self.plural = items is not None or code.serial
        """Whether items have indices: the result is a list."""
        self.lineage = node.frame.lineage + code.lineage
        if undoes is not None:
            self.size = len(undoes)
        elif items is not None:
            self.size = len(items)
        else:
            self.size = (code.step.max or 1) if code.serial else 1
        self.left = self.size
        self.next = 0
        self.closed = False
        self.parked = False
        self.outcomes: list[Outcome | None] = [None] * self.size
        self.values: list[Any] = [None] * self.size
        self.faults: dict[int, Fault] = {}
        self.reasons: dict[int, str] = {}
        self.seen: dict[str, int] = {}
        self.frames: dict[int, Frame] = {}
        self.changes: dict[str, Any] = {}
        """Arguments that `next` has changed so far."""

    def tool(self, index: int) -> Tool:
        """The tool of one call."""
        tool = self.undoes[index].tool if self.undoes is not None else self.node.code.tool
        assert tool is not None
        return tool

    def path(self, index: int) -> Path:
        """Identity of one item."""
        if self.undoes is not None:
            return self.undoes[index].path
        path = self.node.path
        return (*path, index) if self.plural else path


class Active:
    """A call between its admission and its end."""

    __slots__ = (
        "admitted",
        "answers",
        "args",
        "args_digest",
        "attempt",
        "begun",
        "decoded",
        "index",
        "key",
        "lane",
        "path",
        "started",
        "tool",
        "unheard",
        "unsure",
    )

    def __init__(
        self,
        lane: Lane,
        index: int,
        path: Path,
        tool: Tool,
        args: dict[str, Any],
        args_digest: str,
        key: str,
        decoded: tuple[str, ...] = (),
    ) -> None:
        self.lane = lane
        self.index = index
        self.path = path
        self.tool = tool
        self.args = args
        self.args_digest = args_digest
        self.key = key
        self.decoded = decoded
        """Where JSON was read out of a text of the arguments."""
        self.attempt = 0
        self.started = False
        self.begun = False
        """Whether any attempt of it has begun."""
        self.admitted = False
        self.answers: dict[str, dict[str, Any]] = {}
        self.unheard = False
        """Whether a person wrote this call, and the hook before calls has not heard of it."""
        self.unsure = False
        """Whether an attempt ended so that nobody knows whether it had an effect."""

    def edited(
        self, tool: Tool, args: dict[str, Any], digest: str, key: str = "", decoded: tuple[str, ...] = ()
    ) -> Active:
        """This item with another call, which nobody has admitted yet."""
        return Active(self.lane, self.index, self.path, tool, args, digest, key, decoded)


class Part(NamedTuple):
    """What a model reads of an earlier result: it is at hand, so no call is made for it."""

    value: Any


class Dialogue:
    """A model in a loop with tools: what was said, the round under way, and why it must end."""

    __slots__ = (
        "asked",
        "attempts",
        "called",
        "done",
        "earlier",
        "failing",
        "first",
        "frame",
        "heard_instead",
        "history",
        "ids",
        "large",
        "max_rounds",
        "must_call",
        "notice",
        "offered",
        "over",
        "repairs",
        "response_format",
        "round",
        "said",
        "value",
    )

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.history: list[Message] = []
        self.ids: set[str] = set()
        """The ids of all messages so far."""
        self.called: set[str] = set()
        """The ids of all calls so far: services begin anew in each answer, and each must be known by its own."""
        self.heard_instead: list[Message] | None = None
        """What the model hears in this round in place of the history, by the wish of a hook."""
        self.offered: tuple[str, ...] = tuple(spec["tools"])
        self.response_format: dict[str, Any] | None = spec.get("response_format")
        self.max_rounds: int = spec["max_rounds"]
        self.must_call: bool = spec.get("must_call", False)
        self.first: str = spec.get("first", "")
        """The tool that is to be called first; in the first round no other is offered."""
        self.earlier: int = spec.get("earlier", 0)
        self.round = 0
        self.said = 0
        self.attempts = 0
        """How often the model failed in this round."""
        self.repairs = 0
        self.frame: Frame | None = None
        self.asked: list[tuple[ToolCall | InvalidToolCall, str | None, Failure | Part | None]] = []
        """The calls of the round: each with its step, or with why there is none."""
        self.large: dict[str, Any] = {}
        """Results of which the model has seen only the beginning, by the id of the call."""
        self.failing: frozenset[str] = frozenset()
        self.over = ""
        """Why it ends without the answer that was wanted."""
        self.notice = ""
        """The same as the model may hear it: without a word of a tool."""
        self.done = False
        self.value: Any = None

    @property
    def last(self) -> bool:
        """Whether this round is the last."""
        return bool(self.over) or self.round >= self.max_rounds

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that are offered in this round."""
        return () if self.last else (self.first,) if self.first and self.round == 1 else self.offered

    def name_of(self, said: str) -> str:
        """The offered tool that the model means."""
        return resolve_name(said, self.offered) or said

    def add(self, message: Message) -> None:
        """The history goes on with this message, under an id of its own."""
        if message.id is None:
            while f"m{self.said}" in self.ids:
                self.said += 1
            message = replace(message, id=f"m{self.said}")
        self.said += 1
        self.ids.add(str(message.id))
        if isinstance(message, AIMessage):
            self.called.update(call.id for call in message.tool_calls)
            self.called.update(call.id for call in message.invalid_calls)
        self.history.append(message)


class Held(NamedTuple):
    """What a call under way holds of the budget besides itself, and may use."""

    tool: Tool
    slice: Budget
    tokens: int = 0
    """So many of the tokens of its slice nobody else may use: none of them, if it is not known to ask models."""


_POLICIES, _NO_BOUND = Policies(), Budget()
"""Until an event says otherwise; frozen, and slow to make."""


class State:
    """Everything `advance` knows. Made with what the host supplies; the rest comes from events."""

    __slots__ = (
        "__weakref__",
        "_started_at",
        "accepted",
        "acted",
        "admitting",
        "again",
        "answer",
        "answered",
        "approval",
        "approved",
        "asked",
        "at",
        "at_once",
        "away",
        "begun_of",
        "bounded",
        "called",
        "calls",
        "closed",
        "common",
        "contracts",
        "cost",
        "costing",
        "deadline",
        "decisions",
        "denied",
        "dialogue",
        "edited",
        "failed_before",
        "fallback",
        "fallback_asked",
        "forked_from",
        "gave_up",
        "given",
        "group",
        "held",
        "hooks",
        "hopeless",
        "hungry",
        "idle",
        "ids",
        "inputs",
        "lanes",
        "left",
        "live",
        "live_of",
        "model_calls",
        "not_undone",
        "notes",
        "open",
        "opened_at",
        "ordinal",
        "paced",
        "parent",
        "parked",
        "patch",
        "patches",
        "planner",
        "planner_calls",
        "policies",
        "principal",
        "program",
        "proposed",
        "queued",
        "ready",
        "recorded",
        "registry",
        "rejected",
        "renewed",
        "repairs",
        "replans",
        "root",
        "round",
        "run",
        "seen_using",
        "seq",
        "short",
        "stopping",
        "superseded",
        "taken",
        "taken_back",
        "tokens",
        "tool_calls",
        "tools",
        "trace",
        "undoing",
        "undone",
        "unheld",
        "unplannable",
        "unstarted",
        "waiting",
    )

    def __init__(self, registry: Registry, common: Common | None = None) -> None:
        self.registry = registry
        self.tools: Mapping[str, Tool] = (
            {tool.name: tool for tool in registry} if common is None else common.tools
        )
        self.common = common
        """Of a row of a batch: what it has in common with the others."""
        self.ordinal = 0
        self.group: dict[str, Any] | None = None
        """Of a row that waits with others that failed alike: how it failed."""
        self.round = 0
        """How often it was reopened after its end."""
        self.left: dict[Hashable, Command] = {}
        """What was open when it was stopped."""
        self.taken_back: set[str] = set()
        """Steps whose effects were undone."""
        self.renewed: set[str] = set()
        """Of them those that are done again, under other keys."""
        self.seq = 0
        self.at = 0.0
        # what the run was opened with
        self.run = ""
        self.parent = ""
        self.forked_from = ""
        self.taken: Mapping[str, dict[str, Any]] = {}
        """Results of steps that are taken over from the run that this one was forked from."""
        self.inputs: dict[str, Any] = {}
        self.principal: Principal = ANYONE
        self.policies = _POLICIES
        self.contracts: frozenset[str] = frozenset()
        """The tools whose contracts the run holds: no other can be called in it."""
        self.approval: dict[str, Any] | None = None
        self.planner = False
        self.planner_calls = 1
        """Model calls that one question to the planner is."""
        self.hooks: frozenset[str] = frozenset()
        # the steps
        self.program: Program | None = None
        self.approved: Plan | None = None
        self.root: Frame | None = None
        self.undoing: dict[Path, Lane] = {}
        """Lanes that take things back, by the path of each of their calls."""
        self.dialogue: Dialogue | None = None
        self.fallback: dict[str, Any] | None = None
        """The loop that may take over where the plan does not get on."""
        self.fallback_asked = False
        self.undone = 0
        self.not_undone = 0
        self.superseded: set[str] = set()
        self.ids: frozenset[str] = frozenset()
        self.ready: deque[Node] = deque()
        # the calls
        self.lanes: deque[Lane] = deque()
        self.parked: dict[str, deque[Lane | Active]] = {}
        self.again: deque[Active] = deque()
        self.calls: dict[Path, Active] = {}
        self.admitting: dict[Path, Active] = {}
        """Calls that were decided on, until that is written."""
        self.proposed: dict[Path, tuple[Lane, int, dict[str, Any]]] = {}
        """Calls that the hook before them is asked about, with their arguments."""
        self.live = 0
        self.live_of: dict[str, int] = {}
        self.paced: frozenset[str] = frozenset()
        """Tools whose calls may have to wait for their turn although the run has room."""
        self.queued: frozenset[str] = frozenset()
        """Those, and tools of which only so many calls may be live."""
        self.at_once = _POLICIES.limits.run
        """How many calls may be live."""
        self.begun_of: dict[str, int] = {}
        """How many of the live calls of these have begun."""
        self.denied: dict[str, Failure | None] = {}
        self.acted: dict[tuple[str, str], dict[Path, dict[str, Any]]] = {}
        """Calls of tools that act, by tool and digest of the arguments: which paths made it, and may have had effect."""
        # the budget (see `budget.py`)
        self.bounded = False
        """Whether there is any bound at all."""
        self.tool_calls = 0
        self.called: dict[str, int] = {}
        """Calls of the tools that the budget names."""
        self.model_calls = 0
        self.tokens = 0
        self.cost = Decimal(0)
        self.held: dict[Path, Held] = {}
        """What calls under way hold besides themselves; it is in the counts above."""
        self.unheld = _NO_BOUND
        """What a call may use that holds nothing."""
        self.unstarted: set[Path] = set()
        """Attempts that have reserved and not begun: what is refused until then gives all back."""
        self.costing: set[Path] = set()
        """Attempts under way of tools that state a cost: they may count less."""
        self.hungry: deque[Lane | Active] = deque()
        """Who waits for what others hold."""
        self.seen_using: set[tuple[str, str]] = set()
        """Which tools have counted `tokens` or a `cost`, whatever they state."""
        self.opened_at = 0.0
        self._started_at = ""
        self.deadline: float | None = None
        """In how many seconds from its opening the run is wanted to end; it stops nothing."""
        self.trace = ""
        """The span in which the last part of the run was told, as `traceparent`."""
        self.away = 0.0
        """Seconds in which the run only waited for people, was paused, or had no process."""
        self.idle = False
        """Whether the time until the next event is of that sort."""
        self.short = ""
        """The bound that the run is short of, once that stops it: `tokens`, `tools.pay`."""
        # what is asked of the world and not yet answered
        self.open: dict[Hashable, Command] = {}
        self.given: list[Command] = []
        self.recorded: dict[Path, CallAdmitted] = {}
        """During a replay: calls of which the record goes on to tell that they were admitted at once."""
        self.decisions: dict[str, DecisionAsked] = {}
        self.answered: dict[str, DecisionMade] = {}
        self.accepted: dict[str, str] = {}
        """Contracts of tools that changed under the run and that a person has accepted, by the names of the tools."""
        """Answers that were given while the run waits; it takes them in when it is resumed."""
        self.asked: set[str] = set()
        """The ids of all questions so far."""
        self.rejected: dict[tuple[str, str], Rejection] = {}
        """Calls that a person refused, by tool and digest of the arguments."""
        self.edited: dict[Path, str] = {}
        """Calls that a person changed, and who."""
        # the re-plan
        self.replans = 0
        self.repairs = 0
        self.notes: list[str] = []
        self.patches: set[str] = set()
        self.patch: Patch | None = None
        self.answer = ""
        self.hopeless: dict[str, str] = {}
        self.failed_before: dict[tuple[str, ...], int] = {}
        """Tool, digest of the arguments and code of each failure, with the number of re-plans before it came first.

        Of bad arguments also the lineage of the step, and the tool.
        """
        self.gave_up = ""
        self.unplannable = False
        # the end
        self.waiting = False
        self.stopping = ""
        self.closed: RunClosed | None = None

    @property
    def started_at(self) -> str:
        """When the run was opened, as ISO 8601 in UTC: what `run.started_at` says."""
        if not self._started_at:  # few plans ask
            opened = datetime.fromtimestamp(self.opened_at, UTC)
            self._started_at = opened.isoformat(timespec="seconds")
        return self._started_at

    @property
    def contracted(self) -> dict[str, Tool]:
        """The tools that can be called in this run, also where it goes on with another engine."""
        return {name: tool for name, tool in self.tools.items() if name in self.contracts}

    @property
    def nodes(self) -> dict[str, Node]:
        """The steps of the plan itself, by id."""
        return self.root.nodes if self.root is not None else {}

    @property
    def plan(self) -> Plan:
        """The plan as it stands, patches included."""
        assert self.program is not None
        return self.program.plan

    @property
    def resting(self) -> bool:
        """Whether nothing is under way but questions to people."""
        return len(self.open) == len(self.decisions)
