"""The part of an engine in which runs are opened, restored, taken up and driven.

a plan that checks, approved -> RunOpened -> PlanAccepted -> driven to its end, or to where only people can go on
a journal -> replayed, what a crash lost settled, answers taken in -> driven on
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import anyio

from ..planner.approvals import (
    Approval,
    approval_needed,
    differences,
    tools_of,
    unproven,
)
from ..planner.bounds import rules_of
from ..planner.findings import CheckFailed
from ..planner.plan import Plan
from ..policies.collector import little_is_left
from ..policies.errors import (
    BadInput,
    ForeplanError,
    JournalError,
    NotApproved,
    UnknownRun,
    expect,
)
from ..policies.permissions import Principal
from ..policies.signing import Verifier
from ..policies.text import did_you_mean
from ..registry.registry import Registry
from ..registry.tools import Tool
from . import events as e
from .batches.running import BatchRuntime
from .blocking import DRIVING, first_error
from .changes import accepted_by, terms_of
from .events import Event, Outcome
from .hands.hands import Result
from .journal.journal import BatchLog, Journal, Log
from .mind.admission import interrupted
from .mind.budget import Used
from .mind.mind import go_by, outstanding, replay
from .mind.rows import SHARED
from .mind.state import Call, Perform, State
from .planning import Planning, model_calls_of
from .recorded import is_closed, recorded, without_contract
from .run import Run, run_of
from .runtime import Answer, Runtime, answer_to, decision_made

_LOOK = 0.05
"""Seconds between two looks whether a run is let go of."""

__all__ = ["Driving", "answers_in", "expect_inside", "held", "spent_json"]


class Driving(Planning):
    """What `Engine` does with a run between its opening and its end."""

    journal: Journal
    _approvers: tuple[Verifier, ...]
    _approver_differs: bool
    _live: dict[str, Runtime]
    _batches: dict[str, BatchRuntime]
    _passed: tuple[Plan, tuple[Tool, ...]] | None
    _ruled: bool
    _kept: bool
    _given: set[str]

    @abstractmethod
    def _fresh_id(self) -> str:
        """The id of a run or batch that is given none."""

    @abstractmethod
    async def _perform_child(self, call: Call, state: State) -> Result:
        """One attempt of a sub-plan for a run in this state."""

    def _checked(self, plan: Plan, *, batch: bool = False) -> None:
        """Raises `CheckFailed`. The last plan that passed with these very tools is not checked again."""
        tools = tuple(self.registry)
        if self._passed is not None and self._passed[0] is plan and self._passed[1] == tools and not batch:
            return
        report = self.check(plan, batch=batch)
        if not report.ok:
            raise CheckFailed(report)
        self._passed = (plan, tools)

    def _expect_no_secret(self, plan: Plan, inputs: dict[str, Any]) -> None:
        """Raises `BadInput` where what is about to be written down holds a secret."""
        if self._safe.scrubber:
            self._safe.expect_none("the plan", plan.to_json())
            self._safe.expect_none("the inputs", inputs)
            self._safe.expect_none("the principal", self.principal.model_dump(mode="json"))

    def _expect_own_id(self, run_id: str | None, *, batch: bool = False) -> None:
        """Raises `BadInput` for an id of the kind that a batch gives its rows; or where a batch could give its rows none."""
        if run_id is None:
            return
        whole, _, part = run_id.rpartition(".")
        if whole and (part.isdecimal() or part == SHARED) and self._is_batch(whole):
            raise BadInput(f"{run_id!r} would be a row of batch {whole!r}; give the new run another id")
        taken = (line.run for line in self.journal.runs() if batch and line.run.startswith(f"{run_id}."))
        if (other := next(taken, "")) != "":
            raise BadInput(
                f"a batch {run_id!r} could have no row {other!r}, since a run is called so; give the batch another id"
            )

    def _is_batch(self, run: str) -> bool:
        try:
            return any(True for _ in self.journal.some(run, (e.BatchOpened,)))
        except UnknownRun:
            return False

    def _approved(
        self,
        plan: Plan,
        inputs: dict[str, Any],
        approval: Approval | None,
        *,
        rows: int | None = None,
        source: str | None = None,
    ) -> None:
        """Raises `NotApproved` where an approval is needed and missing, spent, or for something else.

        `rows` and `source` are those of a batch.
        """
        if approval is None:
            if approval_needed([self.registry[name] for name in tools_of(plan)], self.policies):
                yes = "engine.approve(...)" if rows is None else f"engine.approve(plan, batch={rows}, by=...)"
                raise NotApproved(f"this plan needs an approval: review it, then run it with approval={yes}")
            return
        expect(
            Approval, approval, "the approval", "engine.approve(...) gives one, read_approval(...) reads one"
        )
        spent = self.journal.run_of_approval(approval.id)
        if spent is not None:
            raise NotApproved(f"this approval was used by run {spent!r}; approve again")
        not_by = self.principal.id if self._approver_differs else None
        found = unproven(approval, self._approvers, not_by=not_by)
        found += differences(
            approval,
            plan,
            self.registry,
            self.policies,
            inputs=inputs,
            rows=rows,
            source=source,
            principal=self.principal,
            now=self._host.clock(),
        )
        if found:
            what = "run" if rows is None else "batch"
            raise NotApproved(
                f"the approval does not cover this {what}: " + "; ".join(found), differences=found
            )
        if not self._kept and approval.id not in self._given:
            raise BadInput(
                "an approval is for one run, and only a journal remembers that it was used: "
                "this engine did not give it, so it needs Engine(..., journal='runs.db')"
            )

    def _opening(
        self,
        runtime: Runtime,
        plan: Plan | None,
        inputs: dict[str, Any],
        approval: Approval | None,
        run: str,
        shown: Registry,
    ) -> e.RunOpened:
        known = runtime.state.registry
        used = set(tools_of(plan)) if plan is not None else set(known.names)
        planner = self._host.planner is not None and plan is not None
        fallback = self._fallback(plan, used, approval, shown) if plan is not None else None
        if fallback is not None:
            used |= set(fallback["tools"])
        return e.RunOpened(
            *runtime.stamp(),
            run=run,
            inputs=inputs,
            principal=self.principal,
            policies=self.policies,
            contracts={tool.name: tool.contract() for tool in known if planner or tool.name in used},
            approval=approval.to_json() if approval is not None else None,
            planner=planner,
            hooks=self._host.asked,
            spent=spent_json(self._spent.pop(plan.digest, Used())) if plan is not None else None,
            planner_calls=model_calls_of(self._host.planner),
            fallback=fallback,
            trace=self._traced(runtime.state, run, dialogue=plan is None),
        )

    def _fallback(
        self, plan: Plan, used: set[str], approval: Approval | None, shown: Registry
    ) -> dict[str, Any] | None:
        """The loop that may take over from this plan: with its tools, and with those that only read."""
        allowed = self.policies.fallback and (approval is None or approval.fallback)
        if self._react is None or not allowed:
            return None
        permitted = self._callable()
        reads = shown.only(effect="reads").names if self.policies.approve != "always" else ()
        tools = {name for name in {*used, *reads} if name in permitted}
        return self._react.spec(tools, (), answer=_form_of(plan))

    def _restore(
        self, run_id: str, events: list[Event], accept_changes: str = ""
    ) -> tuple[State, dict[str, Any] | None]:
        """The state of a run that may go on here: not closed, and by the same tools, rules and principal, or by what
        somebody accepts in their place, which is given too."""
        if events and isinstance(events[0], e.BatchOpened):
            raise BadInput(f"{run_id!r} is a batch: take it up with resume_batch({run_id!r})")
        begun = bool(events) and isinstance(events[0], e.RunOpened) and (events[0].agent or len(events) > 1)
        if not begun or not isinstance(events[0], e.RunOpened):
            raise BadInput(f"run {run_id!r} was interrupted before it had a plan; start it anew")
        opened = events[0]
        missing = [f"its journal holds no contract of tool {name!r}" for name in without_contract(events)]
        if missing:
            raise NotApproved(f"run {run_id!r} cannot go on here: " + "; ".join(missing), differences=missing)
        accepted = accepted_by(
            accept_changes,
            run_id,
            terms_of(opened, events),
            self.registry,
            self.principal,
            self.policies if self._ruled else None,
            authorize=self._host.authorize is not None,
        )
        known = self.registry.only(
            names=list(opened.contracts)
        )  # what has come since has no contract in this run
        state = replay(State(known), events)
        if state.closed is not None:
            raise is_closed(run_id, state.closed)
        if state.dialogue is not None and self._react is None:
            raise BadInput(
                f"run {run_id!r} goes on with a model, and this engine has none; "
                "give one: Engine(tools, react=React(model))"
            )
        if accepted is not None and "policies" in accepted:
            go_by(state, self.policies)  # before hands are made that keep to them
        return state, accepted

    def _recall(self, state: State, events: Iterable[Event]) -> None:
        """What the limits must know of a run that was under way elsewhere, or before this engine was made."""
        limiter = self._host.limiter
        if limiter is not None:
            rules = {
                name: rules_of(tool, state.principal, state.policies) for name, tool in state.tools.items()
            }
            limiter.recall(state.run, events, rules)

    def _taken_up(
        self,
        runtime: Runtime,
        answers: Mapping[str, Answer],
        seconds: float | None = None,
        *,
        accepted: dict[str, Any] | None = None,
    ) -> tuple[Any, ...]:
        """A run goes on: what was lost is settled, answers are taken in, and this is what is to be done."""
        trace = self._traced(runtime.state, runtime.state.run)
        runtime.write(e.RunResumed(*runtime.stamp(), self.principal, seconds, trace, accepted))
        _settle_lost(runtime)
        for id_, answer in answers.items():
            runtime.write(decision_made(id_, answer, runtime.stamp()))
        return outstanding(runtime.state)

    async def _reopened(self, run_id: str, patience: float) -> BatchLog:
        """The log of a run, as soon as whoever drives it lets go of it."""
        until = anyio.current_time() + patience
        while anyio.current_time() < until:
            with suppress(JournalError):
                return self.journal.reopen(run_id)
            await anyio.sleep(_LOOK)
        return self.journal.reopen(run_id)

    def _expect_in_time(self, state: State, answers: Mapping[str, Answer]) -> None:
        """Raises `NotApproved` for a yes to a call whose run may begin none any more."""
        expires_at = state.approval.get("expires_at") if state.approval is not None else None
        begin = [id_ for id_, answer in answers.items() if answer.choice in ("approve", "edit", "retry")]
        if begin and expires_at is not None and self._host.clock() >= expires_at:
            raise NotApproved(
                f"{begin[0]!r} cannot be allowed: the approval of run {state.run!r} has expired, so no call can begin any "
                f"more; reject it, or cancel the run, approve the plan again and run it anew"
            )

    def _runtime(self, state: State, log: Log) -> Runtime:
        """A run in the hands of this engine; nothing of an engine that is at rest refers back to it."""
        if self._host.telemetry is not None:
            log = self._host.telemetry.timed(log)
        return Runtime(state, log, self._host._replace(child=self._perform_child))

    def _traced(self, state: State, run: str, *, dialogue: bool = False) -> str:
        """What the journal holds as the span of a run that begins or goes on."""
        telemetry = self._host.telemetry
        return (
            "" if telemetry is None else telemetry.begin(state, run, self._safe.scrubber, dialogue=dialogue)
        )

    async def _drive(self, runtime: Runtime, commands: tuple[Any, ...]) -> Run:
        run = runtime.state.run
        self._live[run] = runtime
        token = DRIVING.set(run)
        telemetry = self._host.telemetry
        try:
            seen = telemetry.driving(runtime.state) if telemetry is not None else nullcontext()
            with first_error(), seen, little_is_left():
                await runtime.drive(commands)
        finally:
            DRIVING.reset(token)
            del self._live[run]
            if self._host.limiter is not None:
                self._host.limiter.seen(run, runtime.state.seq)
        runtime.release()
        return run_of(runtime.state, journal_failed=str(runtime.problem) if runtime.problem else "")


def _form_of(plan: Plan) -> dict[str, Any] | None:
    """The form of an answer in place of the plan's output: an object of the same keys, where it is one."""
    output = plan.output
    if not isinstance(output, dict) or not output or any(key.startswith("$") for key in output):
        return None
    return {"type": "object", "properties": {key: {} for key in output}, "required": sorted(output)}


def spent_json(spent: Used) -> dict[str, Any] | None:
    """What making a plan has used, as the opening of a run says it."""
    said = {
        "tool_calls": spent.tool_calls,
        "model_calls": spent.model_calls,
        "tokens": spent.tokens,
        "cost": spent.cost,
    }
    return said if any(said.values()) else None


def _settle_lost(runtime: Runtime) -> None:
    """Write an end to each attempt that had begun when the last process ended."""
    state = runtime.state
    for call in [command.call for command in outstanding(state) if isinstance(command, Perform)]:
        if state.calls[call.path].started:
            outcome = Outcome.CANCELLED if call.tool.resumable else Outcome.UNKNOWN
            stamp = runtime.stamp()
            runtime.write(e.CallSettled(*stamp, call.path, call.attempt, outcome, None, interrupted()))


def answers_in(
    state: State, decisions: Mapping[str, Answer | str], principal: Principal
) -> dict[str, Answer]:
    expect(Mapping, decisions, "what is decided", 'write {"the id of a question": "approve"}')
    answers = {}
    for id_, said in decisions.items():
        asked = state.decisions.get(id_)
        if asked is None:
            open_ = ", ".join(state.decisions) or "none"
            raise BadInput(
                f"no question {id_!r} is open{did_you_mean(str(id_), state.decisions)} (open: {open_})"
            )
        before = state.answered.get(id_)
        if before is not None:
            raise BadInput(
                f"{id_!r} is answered already: {before.choice!r} by {before.by}; resume the run, or cancel it"
            )
        answers[id_] = answer_to(state, asked, said, principal)
    return answers


def expect_inside(journal: Journal, asked: e.DecisionAsked, answer: Answer, principal: Principal) -> None:
    """Raises `BadInput` for an answer that the run of a sub-plan, whose question it is, would not take."""
    while "of" in asked.question:
        try:
            child = recorded(journal, asked.question["run"])
        except UnknownRun:
            return
        inner = child.decisions.get(asked.question["of"])
        if inner is None:
            return
        answer_to(child, inner, answer, principal)
        asked = inner


@contextmanager
def held(log: Log) -> Iterator[None]:
    """Let go of the log in the end; a problem while letting go does not hide what is being raised."""
    try:
        yield
    except BaseException:
        with suppress(ForeplanError):
            log.close()
        raise
    log.close()
