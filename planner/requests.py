"""What a planner is asked, and what it may see of a run.

A plan is made before any tool has run, so nothing a tool says can be in a `PlanRequest`. A `ReplanRequest` is made of a
run, and text that a tool wrote may hold instructions. What `to_json()` gives is what a model may read:

    failure      kind, code, status, step, item, attempts; its text only if we or a trusted tool wrote it
                 and no result of a step went into the call (its text could quote that result); where our text quotes
                 data, `details.plain` is the sentence without them
    arguments    as the plan writes them (`{$: "rows[0].id"}`), not the values they became
    results      shapes (see `shapes.py`)

With `show_tool_text` (a policy) the text, the values and the previews are there as well, each cut to `preview_bytes`
where it is larger (see `previews.py`). Rules in Python get the
request itself and see all of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from ..policies.expressions import ExpressionError, compile_template
from ..policies.failures import Failure, Happened, Kind
from ..registry.registry import Registry
from .findings import Finding, split_pointer
from .plan import Patch, Plan, Step
from .previews import preview
from .shapes import words_in, words_of

__all__ = [
    "EARLIER",
    "PlanRequest",
    "Proposal",
    "ReplanRequest",
    "StepFailure",
    "StepOutcome",
    "for_model",
    "places_in",
    "plain_sentence",
    "reading",
]

Json: TypeAlias = Any

EARLIER = "earlier"
"""The input by which a plan gets the results of earlier turns: what tools gave, unlike other inputs."""

_FAILURES = 40
"""So many different failures are told; ten thousand items that fail alike are one."""
_PATHS = 5
_SETTLED = frozenset({"ok", "failed", "skipped", "cancelled", "unknown"})
_CODE = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+){0,3}")
_CODE_LENGTH = 32

_WITHHELD: dict[Kind, tuple[str, str]] = {
    Kind.BAD_ARGS: (
        "the arguments do not fit",
        "correct the arguments once, or get the value from another step",
    ),
    Kind.PERMISSION: ("the call is not allowed", "do not repeat it; use another tool, or answer cannot_plan"),
    Kind.TIMEOUT: ("no answer came in time", "use another tool, or ask for less at once"),
    Kind.NETWORK: ("the service could not be reached", "use another tool, or the same one later"),
    Kind.BUSINESS: ("the tool says no", "read the code; use another tool or another way to the goal"),
}
"""What stands for a text that a planner may not see: the sentence and the next move, by kind."""


@dataclass(frozen=True)
class PlanRequest:
    """A goal to be planned with these tools, which are the ones the principal may call.

    `arrived(step)` may be told each step, as a dict, while the answer still arrives. `inputs` is the JSON Schema of the plan's inputs. `previous` and `findings` are set when an answer did not check
    and is to be mended; a planner keeps nothing between two requests.
    """

    goal: str
    tools: Registry
    inputs: dict[str, Any] | None = None
    previous: str = ""
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    arrived: Callable[[dict[str, Any]], None] | None = None


@dataclass(frozen=True, repr=False)
class StepFailure:
    """A step, or one item of it (`path`), that failed. `tool` is empty and `args` None for a value step."""

    step: str
    path: tuple[str | int, ...]
    tool: str
    args: dict[str, Any] | None
    failure: Failure
    attempts: int

    def __repr__(self) -> str:
        """Without the failure's text: a repr ends up in prompts and logs."""
        return f"<StepFailure {self.step!r} {self.path!r} {self.failure.kind} {shown_code(self.failure)}>"


@dataclass(frozen=True)
class StepOutcome:
    """How a step ended, the shape of its result, and a preview of it where policy allows one."""

    step: str
    outcome: str
    shape: Json = None
    preview: Json | None = field(default=None, repr=False)


@dataclass(frozen=True)
class ReplanRequest:
    """A run in which nothing more can start, with all its failures: what should be done instead?

    `not_again` lists calls (`{"tool": …, "args": …}`) that must not be issued again, `remaining` what is left of
    the re-plans and of each bound of the budget (None: no bound). `show_tool_text` is the policy of the run.
    """

    goal: str
    plan: Plan
    tools: Registry
    failures: tuple[StepFailure, ...]
    outcomes: tuple[StepOutcome, ...] = ()
    not_again: tuple[dict[str, Any], ...] = field(default=(), repr=False)
    remaining: Mapping[str, Any] = field(default_factory=dict)
    previous: str = ""
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    show_tool_text: bool = False
    preview_bytes: int = 2000
    """Bytes of JSON of one value that a model is shown; of a larger one it sees a preview."""
    rows: int = 0
    """Of a batch: how many rows failed alike. Then nothing in the request is a value of any of them."""

    @property
    def failed(self) -> tuple[str, ...]:
        """The steps that failed, once each, in the order of the failures: these may be replaced.

        Where a step inside a group failed, that is the group.
        """
        return tuple(dict.fromkeys(str(f.path[0]) if f.path else f.step for f in self.failures))

    @property
    def unsettled(self) -> tuple[str, ...]:
        """The steps that have not run, in the order of the plan: these may be dropped."""
        settled = {o.step for o in self.outcomes if o.outcome in _SETTLED} | set(self.failed)
        return tuple(step.id for step in self.plan.steps if step.id not in settled)

    def to_json(self) -> dict[str, Any]:
        """What a planner may see, as plain JSON, bounded however many items failed."""
        quoting = reading(self.plan)
        return {
            "goal": self.goal,
            "plan": self.plan.to_json(),
            "outcomes": {o.step: self._outcome(o) for o in self.outcomes},
            "failures": list(_gathered(self._failure(failure, quoting) for failure in self.failures)),
            "unsettled": list(self.unsettled),
            "not_again": _once(self._call(call) for call in self.not_again),
            "remaining": dict(self.remaining),
            "notes": list(self.notes),
            **({"rows": self.rows} if self.rows else {}),
        }

    def _shown(self, value: Json) -> Json:
        return preview(value, self.preview_bytes)

    def _outcome(self, outcome: StepOutcome) -> dict[str, Any]:
        told = {"outcome": outcome.outcome, "shape": outcome.shape}
        if self.show_tool_text:
            told["preview"] = preview(outcome.preview, self.preview_bytes, whole=outcome.step)
        return {key: value for key, value in told.items() if value is not None}

    def _failure(self, failed: StepFailure, quoting: Collection[str]) -> dict[str, Any]:
        step = next((step for step in self.plan.every_step if step.id == failed.step), None)
        told: dict[str, Any] = {"step": failed.step, "path": list(failed.path)}
        if failed.tool:
            told["tool"] = failed.tool
            written = step.args if step is not None else None
            told["args"] = self._shown(failed.args) if self.show_tool_text else written
        told["attempts"] = failed.attempts
        joined = step is None or step.id in quoting
        told |= for_model(failed.failure, show_tool_text=self.show_tool_text, joined=joined)
        if "details" in told:
            told["details"] = self._shown(told["details"])
        if joined and not (self.show_tool_text or failed.failure.untrusted):
            places = places_in(failed, self.plan, self.tools)
            told |= {"places": places} if places else {}
        return told

    def _call(self, call: Mapping[str, Any]) -> dict[str, Any]:
        """A call not to be repeated: with its arguments where the plan says them, else by the steps that made it."""
        tool, args = call.get("tool"), call.get("args")
        steps = [step for step in self.plan.every_step if step.tool == tool]
        if any(step.args == args for step in steps):
            return {"tool": tool, "args": args}
        if self.show_tool_text:
            return {"tool": tool, "args": self._shown(args)}
        return {"tool": tool, "as_in_step": [step.id for step in steps]}


def places_in(failed: StepFailure, plan: Plan, tools: Registry) -> list[dict[str, str]]:
    """Where arguments break the tool's schema, as far as the pointers are words that the planner knows."""
    problems = (failed.failure.details or {}).get("problems")
    if failed.failure.untrusted or not isinstance(problems, list):
        return []
    tool = tools.get(failed.tool)
    known = words_of(plan) | (words_in(tool.input.document) if tool is not None else frozenset())
    return [
        {"pointer": p["pointer"], "rule": p["rule"]}
        for p in problems[:_PATHS]
        if _is_known(p["pointer"], known)
    ]


class Proposal(NamedTuple):
    """A planner's answer with what is known of its making: the model's text, the tokens it cost.

    `notes` say what was put right in reading it: names of tools with markup around them, arguments written as text.
    """

    document: Plan | Patch
    text: str = ""
    usage: dict[str, float] | None = None
    notes: tuple[str, ...] = ()


def for_model(failure: Failure, *, show_tool_text: bool = False, joined: bool = False) -> dict[str, Any]:
    """A failure as a model is told it: `ok`, `error_type`, `code`, `retryable`, `message`, `hint`.

    `retryable` means that another call of this tool may succeed, corrected or later. Text of an untrusted tool is left
    out without `show_tool_text`, and a sentence of ours by kind stands for it; so is what we wrote ourselves where
    results were `joined` into the call, or where it quotes one. `happened` and `status` are there where they say
    something; the class of the exception never is.
    """
    plain = plain_sentence(failure)
    withheld, hint = _WITHHELD[failure.kind]
    failure = failure._replace(untrusted=failure.untrusted or joined)
    told: dict[str, Any] = {
        "ok": False,
        "error_type": failure.kind.value,
        "code": shown_code(failure, show_tool_text),
    }
    told["retryable"] = _may_succeed(failure)
    shown = show_tool_text or not (failure.untrusted or plain)
    told["message"] = failure.message if shown else plain or withheld
    told["hint"] = failure.hint if shown and failure.hint else hint
    if failure.happened is not Happened.NO:
        told["happened"] = failure.happened.value
    if failure.status is not None:
        told["status"] = failure.status
    if shown and failure.details:
        told["details"] = dict(failure.details)
    return told


def plain_sentence(failure: Failure) -> str:
    """Our own sentence without the data that the message quotes; "" where a tool wrote the failure, or nothing is quoted."""
    plain = None if failure.untrusted else (failure.details or {}).get("plain")
    return plain if isinstance(plain, str) else ""


def shown_code(failure: Failure, show_tool_text: bool = False) -> str:
    """The code of a failure; of an untrusted one only if it is one short machine word, for a sentence could hide in it."""
    code = failure.code
    if show_tool_text or not failure.untrusted or (len(code) <= _CODE_LENGTH and _CODE.fullmatch(code)):
        return code
    return "other"


def _is_known(pointer: str, known: Collection[str]) -> bool:
    return all(part.isdecimal() or part in known for part in split_pointer(pointer))


def reading(plan: Plan) -> frozenset[str]:
    """The steps into which the result of a step goes, so that their failure may quote it.

    A step that repeats with `next` reads its own results. What is inside a group reads what the list of the group does.
    """
    ids = {step.id for step in plan.every_step}
    if EARLIER in (plan.inputs or {}).get("properties", {}):
        ids.add("inputs")
    found: set[str] = set()
    waiting = [(step, False) for step in plan.steps]
    while waiting:
        step, around = waiting.pop()
        reads = around or _reads(step, ids)
        if reads:
            found.add(step.id)
        waiting += [(inner, around or _reads(step, ids, ("each", "when"))) for inner in step.steps or ()]
    return frozenset(found)


_READ = ("args", "value", "output", "each", "when", "until", "next")


def _reads(step: Step, ids: Collection[str], fields: Iterable[str] = _READ) -> bool:
    templates = [getattr(step, field) for field in fields if step.has(field)]
    names = {*ids, "result"}
    try:
        return any(not compile_template(t).names.isdisjoint(names) for t in templates)
    except ExpressionError:
        return True


def _may_succeed(failure: Failure) -> bool:
    match failure.kind:
        case Kind.PERMISSION:
            return False
        case Kind.BUSINESS:
            return failure.retry_after is not None and failure.happened is Happened.NO
        case Kind.BAD_ARGS | Kind.TIMEOUT | Kind.NETWORK:
            return failure.retryable


def _gathered(failures: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Failures that differ only in their item become one with `items` (how many) and a few of the paths."""
    groups: dict[str, dict[str, Any]] = {}
    for told in failures:
        path = told.pop("path")
        group = groups.setdefault(repr(told), told | {"items": 0, "paths": []})
        group["items"] += 1
        if len(group["paths"]) < _PATHS:
            group["paths"].append(path)
    for place, group in enumerate(groups.values()):
        if place == _FAILURES:
            yield {"more": len(groups) - _FAILURES}
            return
        yield _without_items(group)


def _without_items(group: dict[str, Any]) -> dict[str, Any]:
    """A failure of a whole step says nothing of items."""
    if group["items"] == 1 and len(group["paths"][0]) == 1:
        return {key: value for key, value in group.items() if key not in ("items", "paths")}
    return group


def _once(calls: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({repr(call): call for call in calls}.values())[:_FAILURES]
