"""The one door: plan, check, review, approve, run, resume. A dry run is the stage at which you stop.

    engine = Engine(registry, planner=..., policies=..., journal=...)
    plan = await engine.plan("refund every duplicate")      a model or rules write it; it is checked
    review = engine.review(plan, inputs=...)                runs no tool code
    approval = engine.approve(plan, inputs=..., by="ada")   binds exactly what was shown
    run = await engine.run(plan, inputs=..., approval=approval)

Every async method has a blocking twin for programs without an event loop.
"""

from __future__ import annotations

import copy
import random
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from ..planner.approvals import (
    Approval,
    RowLimit,
    Scope,
    bind,
    sign,
    tools_of,
)
from ..planner.inputs import settle_inputs
from ..planner.models.chunks import AIMessageChunk
from ..planner.models.history import Messages, spoken
from ..planner.models.messages import AIMessage, HumanMessage, Message
from ..planner.plan import Plan
from ..planner.planners import Planner
from ..planner.react import React
from ..planner.subplans import Subplan
from ..policies.collector import all_stays
from ..policies.errors import (
    BadInput,
    NotApproved,
    expect,
)
from ..policies.permissions import ANYONE, Principal
from ..policies.policies import Policies
from ..policies.signing import Signer, Verifier
from ..policies.spelling import spelled_where
from ..registry.registry import Registry
from ..registry.search import Search
from ..registry.tools import Tool
from ..registry.values import to_plain
from ..registry.vaults import EnvironmentSecrets, Vault
from . import events as e
from .batches.batch import Batch, is_batch
from .batches.running import BatchRuntime
from .batching import Batching
from .blocking import block, first_error
from .children import answers_for, child_id, child_policies, end_of_child, is_child
from .driving import answers_in, expect_inside, held
from .early import Early
from .events import ASIDE, Event, RowOpened
from .handed_in import (
    check_deadline,
    check_host,
    check_models,
    check_names,
    check_run_id,
    journal_of,
    verifiers_of,
)
from .hands.authorize import Authorize
from .hands.hands import Hands, Result
from .hands.limits import Limiter
from .hands.safe import Safe
from .hands.telling import Listen
from .journal.journal import Journal, RunLine
from .mind.budget import Used, seconds_left
from .mind.mind import replay
from .mind.state import Call, State
from .planning import asks_models
from .questions import Question, questions_in
from .recorded import common_of_row, events_so_far, is_closed, read_run, recorded
from .rehearsal import as_rehearsed, rehearsal_policies, rehearsed
from .replays.comparing import Comparison, compared, compared_row
from .replays.forking import fork_id, forked, plan_of
from .resuming import Pick, Resuming, Tell
from .run import Run, run_of
from .runtime import Answer, Decide, Hook, Host, Runtime, decision_made
from .shelf import Shelf
from .stream import EventStream
from .watching import Observer, Watcher

__all__ = ["ELSEWHERE", "Engine"]


ELSEWHERE = {
    **{name: f"policies=Policies({name}=...)" for name in Policies.model_fields},
    "model": "react=React(model), or planner=ModelPlanner(model)",
    "roles": "policies=Policies(roles=...), or principal=Principal(id=..., roles=...)",
    "permissions": "principal=Principal(id=..., permissions=...)",
    "tools": "registry=...",
    "db": "journal=...",
}
"""Options that are looked for here and stand elsewhere, or have another name."""


@spelled_where(ELSEWHERE)
class Engine(Batching):
    """Tools, a planner, rules and a journal, put together.

    `journal` is a `Journal` or the path of an SQLite file; without one, runs live in memory. `principal` is on whose
    behalf the runs act. `on_failure(request)` may give False (no re-plan) or a note to the planner;
    `on_replan(request, patch)` may give False or a reason to refuse the patch. `react` is a model in a loop with the
    tools: `answer` asks it, and where `policies.fallback` says so it takes over from a plan that does not get on, unless
    `on_fallback(request)` gives False. `before_model(messages)` and `after_model(message)` stand around every question to
    it: other messages (for this call only, or `Keep(...)`), another answer, False to stop. `decide(question)` answers questions to
    people while a run is live; without it the run waits, and `resume` takes the answers. `authorize(attempt)` must give
    True before each attempt of a call begins. `secrets` gives tools the secrets that they name (default: environment
    variables). `watch` sees every event; `listen(said)` hears what tools say while they work (`ToolContext.progress` and
    `.note`). `telemetry` is a `Telemetry` that tells OpenTelemetry of runs. `approvers`: whose signatures make an approval one; without any, an approval needs no signature.
    `approver_differs`: who approves must not be who the run acts for.
    """

    def __init__(
        self,
        registry: Registry | Iterable[Tool],
        planner: Planner | None = None,
        *,
        policies: Policies | None = None,
        journal: Journal | str | Path | None = None,
        principal: Principal = ANYONE,
        on_failure: Hook | None = None,
        on_replan: Hook | None = None,
        on_fallback: Hook | None = None,
        before_call: Hook | None = None,
        after_call: Hook | None = None,
        before_model: Hook | None = None,
        after_model: Hook | None = None,
        react: React | None = None,
        decide: Decide | None = None,
        watch: Callable[[Event], None] | None = None,
        listen: Listen | None = None,
        secrets: Vault | None = None,
        search: Search | None = None,
        clock: Callable[[], float] = time.time,
        dice: Callable[[], float] = random.random,
        hands: Hands | None = None,
        authorize: Authorize | None = None,
        telemetry: Observer | None = None,
        approvers: Iterable[Verifier] = (),
        approver_differs: bool = False,
    ) -> None:
        self.registry = Registry.of(registry)
        self.policies = Policies() if policies is None else policies
        self._ruled = policies is not None
        expect(Policies, self.policies, "the policies")
        expect(Principal, principal, "the principal", "Principal(id=...) makes one")
        self.principal = self.policies.roles.grant(principal)
        self.journal = journal_of(journal)
        self._kept = journal is not None
        self._given: set[str] = set()
        """The ids of the approvals that were given here."""
        self._approvers = verifiers_of(approvers)
        expect(bool, approver_differs, "approver_differs")
        self._approver_differs = approver_differs
        if react is not None:
            expect(React, react, "react", "React(model) makes one")
        self._react = react
        self._safe = Safe(EnvironmentSecrets() if secrets is None else secrets, self.policies.hook_timeout)
        hooks = {
            "on_failure": on_failure,
            "on_replan": on_replan,
            "on_fallback": on_fallback,
            "before_call": before_call,
            "after_call": after_call,
            "before_model": before_model,
            "after_model": after_model,
        }
        self._readers: list[Watcher] = []
        functions = {"decide": decide, "watch": watch, "listen": listen, "authorize": authorize, **hooks}
        check_host(planner, hands, telemetry, clock=clock, dice=dice, **functions)
        self._host = Host(
            planner=planner,
            hooks={name: hook for name, hook in hooks.items() if hook is not None},
            decide=decide,
            watch=watch,
            listen=listen,
            clock=clock,
            dice=dice,
            hands=hands,
            authorize=authorize,
            model=react.model if react is not None else None,
            window=react.window if react is not None else None,
            limiter=Limiter(clock, dice),
            safe=self._safe,
            readers=self._readers,
            telemetry=telemetry,
        )
        if telemetry is not None:
            telemetry.knows(self._host.limiter, self.journal)
        self._live: dict[str, Runtime] = {}
        self._batches: dict[str, BatchRuntime] = {}
        self._spent: dict[str, Used] = {}
        """What making a plan has used, by its digest, until a run is charged with it."""
        self._shelf = Shelf(search)
        self._passed: tuple[Plan, tuple[Tool, ...]] | None = None
        check_names(self.policies, self.registry)
        may_ask = (authorize, *self._host.hooks.values())
        check_models(self.policies, self.registry, planner, self._host.model, may_ask)

    def __repr__(self) -> str:
        return f"<Engine of {len(self.registry)} tools>"

    @property
    def planner(self) -> Planner | None:
        """Who writes and mends plans here."""
        return self._host.planner

    @property
    def approvers(self) -> tuple[Verifier, ...]:
        """Whose signatures make an approval one; without any, an approval needs none."""
        return self._approvers

    # ------------------------------------------------------------------------------------------ before a run

    async def plan_and_run(
        self,
        goal: str,
        *,
        schema: Mapping[str, Any] | None = None,
        inputs: Mapping[str, Any] | None = None,
        run_id: str | None = None,
        deadline: float | None = None,
    ) -> Run:
        """Plan and run in one go, for plans that need no approval. `schema` is that of the `inputs`.

        With `policies.start_early`, calls that only read begin while the plan still arrives. Raises what `plan` and
        `run` raise; `NotApproved` with the `plan` where it needs an approval.
        """
        check_run_id(run_id)
        run_id = run_id or self._fresh_id()
        # a hook may give a call other arguments: then the early call would be another, made and charged beside it
        if not self.policies.start_early or "before_call" in self._host.hooks:
            plan = await self._plan(goal, schema)
            with _hands_over(plan):
                return await self.run(plan, inputs=inputs, run_id=run_id, deadline=deadline)
        with first_error():
            async with anyio.create_task_group() as tasks:
                early = Early(self._alone(), run_id, inputs, tasks)
                plan = await self._plan(goal, schema, early.begin)
                run = await self._run_after(early, plan, inputs, run_id, deadline)
                tasks.cancel_scope.cancel()
        return run

    async def _run_after(
        self, early: Early, plan: Plan, inputs: Mapping[str, Any] | None, run_id: str, deadline: float | None
    ) -> Run:
        """Run a plan of which some calls have begun; those that it does not hold are charged to it all the same."""
        spent = self._spent.get(plan.digest, Used())
        self._spent[plan.digest] = spent._replace(tool_calls=spent.tool_calls + early.discarded_by(plan))
        other = copy.copy(self)
        other._host = self._host._replace(early=early)
        with _hands_over(plan):
            return await other.run(plan, inputs=inputs, run_id=run_id, deadline=deadline)

    def approve(
        self,
        plan: Plan,
        *,
        inputs: Mapping[str, Any] | None = None,
        batch: RowLimit | int | None = None,
        by: str,
        scope: Scope = "none",
        fallback: bool = False,
        expires_in: float | None = None,
        signer: Signer | None = None,
    ) -> Approval:
        """Say yes to exactly this plan, these inputs, tools, policies and principal; for one run.

        `batch`: for one batch of at most so many rows, in place of the inputs; `RowLimit(rows=..., source=...)` also names
        the digest of the source.
        `scope` says which re-plans it covers, `fallback` whether a model may go on by itself where the plan does not;
        `expires_in` is in seconds. With a `signer` the approval is signed. Raises `CheckFailed`.
        """
        self._checked(plan)
        if expires_in is not None and not (isinstance(expires_in, int | float) and expires_in > 0):
            raise BadInput(f"expires_in is a number of seconds from now on, not {expires_in!r}")
        limit = _row_limit(batch, inputs)
        now = self._host.clock()
        approval = bind(
            plan,
            self.registry,
            self.policies,
            inputs=None if limit is not None else settle_inputs(plan, inputs),
            batch=limit,
            principal=self.principal,
            by=by,
            scope=scope,
            fallback=fallback,
            expires_at=None if expires_in is None else now + expires_in,
            now=now,
        )
        self._given.add(approval.id)
        return approval if signer is None else sign(approval, signer)

    # ------------------------------------------------------------------------------------------ running

    async def run(
        self,
        plan: Plan,
        *,
        inputs: Mapping[str, Any] | None = None,
        approval: Approval | None = None,
        run_id: str | None = None,
        deadline: float | None = None,
    ) -> Run:
        """Run a plan to its end, or to where only people can go on.

        An `approval` is used up in the engine's journal. An engine without one takes only approvals that it gave itself: any
        other could be used again by the next engine.

        `deadline` is in how many seconds it is wanted to end, waits for people included: an objective, which is measured
        and told and stops nothing (`Policies(budget=Budget(seconds=...))` does).

        A step's failure is in the `Run`; raised is what keeps it from starting: `CheckFailed`, `BadInput` (inputs),
        `NotApproved`, `JournalError`. Cancelled from outside, the run pauses and can be resumed.
        """
        return await self._run(plan, inputs, approval, run_id, deadline)

    async def _run(
        self,
        plan: Plan,
        inputs: Mapping[str, Any] | None,
        approval: Approval | None,
        run_id: str | None,
        deadline: float | None = None,
        forked: dict[str, Any] | None = None,
    ) -> Run:
        self._checked(plan)
        check_deadline(deadline)
        check_run_id(run_id)
        settled = settle_inputs(plan, inputs)
        self._approved(plan, settled, approval)
        if self.policies.fallback and self._react is None:
            raise BadInput(
                "the policies let a model go on where the plan does not (`fallback`), and there is none: "
                "give one, Engine(..., react=React(model)), or at the command line --model"
            )
        await self._learn()
        self._expect_no_secret(plan, settled)
        shown = await self._shown_for(plan)
        self._expect_own_id(run_id)
        log = self.journal.create(run_id or self._fresh_id(), approval=approval.id if approval else "")
        with held(log):
            known = self._known(shown, tools_of(plan)) if asks_models(self._host.planner) else self.registry
            state = State(known)
            state.policies = self.policies
            runtime = self._runtime(state, log)
            opening = self._opening(runtime, plan, settled, approval, log.run, shown)
            runtime.write(opening._replace(deadline=deadline, forked=forked))
            commands = runtime.write(e.PlanAccepted(*runtime.stamp(), plan, plan.digest))
            return await self._drive(runtime, commands)

    async def rehearse(
        self, plan: Plan, *, inputs: Mapping[str, Any] | None = None, reads: bool = False
    ) -> Run:
        """Run a plan for show: `simulate` of each tool is called in the place of the tool, and nothing is changed.

        With `reads`, tools that only read and have no `simulate` are really called. A tool with neither fails as
        `not_simulated`. The run is in no journal; no approval is needed, and there is no re-plan.
        """
        self._checked(plan)
        events: list[Event] = []
        watch = self._host.watch

        def both(event: Event) -> None:
            events.append(event)
            if watch is not None:
                watch(event)

        inner = Engine(rehearsed(self.registry, reads=reads), policies=rehearsal_policies(self.policies))
        inner.principal, inner._safe = self.principal, self._safe
        inner._host = self._host._replace(
            planner=None,
            hooks={},
            hands=None,
            model=None,
            early=None,
            limiter=inner._host.limiter,
            readers=(),
            telemetry=None,
            watch=both,
        )
        run_id = f"rehearsal-{_new_id(self._host.clock())}"
        return as_rehearsed(await inner.run(plan, inputs=inputs, run_id=run_id), events, self.registry)

    async def answer(self, messages: Messages, *, run_id: str | None = None, earlier: int = 0) -> Run:
        """What the model of `react` answers, calling tools on the way: text, or data where a form was asked for.

        The answer is the run's `output`, what was said its `messages`, of which the first `earlier` were said before
        this run. Raises `BadInput` where there is no model.
        """
        if self._react is None:
            raise BadInput(
                "this engine has no model that answers; give one: Engine(tools, react=React(model))"
            )
        check_run_id(run_id)
        self._expect_own_id(run_id)
        await self._learn()
        said = spoken(messages)
        if not any(message.content.strip() for message in said if isinstance(message, HumanMessage)):
            raise BadInput("there is nothing to answer: no message of a person says anything")
        shown = await self._shown(None, _asked(said), always=_called(said))
        spec = self._react.spec(shown.names, said)
        self._safe.expect_none("the question", spec)
        log = self.journal.create(run_id or self._fresh_id())
        with held(log):
            state = State(self._known(shown, ()))
            state.policies = self.policies
            runtime = self._runtime(state, log)
            opening = self._opening(runtime, None, {}, None, log.run, shown)
            opening = opening._replace(agent={**spec, "earlier": earlier})
            return await self._drive(runtime, runtime.write(opening))

    async def resume(
        self,
        run_id: str,
        *,
        decisions: Mapping[str, Answer | str] | None = None,
        accept_changes: str = "",
    ) -> Run:
        """Take up a run that was interrupted or waits. `decisions` answers its questions by id.

        What is settled is never done again; an attempt that was cut short follows its tool's effect. Other tools, rules
        or principal than it was opened with are refused, unless somebody accepts the changes by name, which is recorded;
        without `policies` the engine goes by those of the run. Raises `UnknownRun`, `BadInput` (a run that is closed, an
        answer that is no option), `NotApproved` (what changed), `JournalError` (another process drives it).
        """
        expect(str, run_id, "the id of a run")
        expect(str, accept_changes, "who accepts the changes")
        await self._learn()
        log = self.journal.reopen(run_id)
        with held(log):
            with all_stays():
                events = list(self.journal.events(run_id))
                state, accepted = self._restore(run_id, events, accept_changes)
            self._recall(state, events)
            runtime = self._runtime(state, log)
            answers = answers_in(state, decisions or {}, self.principal)
            self._expect_in_time(state, answers)
            return await self._drive(runtime, self._taken_up(runtime, answers, accepted=accepted))

    async def decide(
        self, run_id: str, decisions: Mapping[str, Answer | str], *, patience: float = 0.0
    ) -> Run:
        """Answer questions of a run that nobody drives, and leave it waiting: it goes on when it is resumed.

        Needs none of its tools: answers are held against the recorded contracts, all of them before one is taken, and are
        durable when this returns. `patience`: seconds to wait while somebody drives the run. Raises `UnknownRun`, `BadInput`
        (an id that is not open, an answer that is no option), `NotApproved` (a yes after the run's approval expired),
        `JournalError`.
        """
        expect(str, run_id, "the id of a run")
        await self._learn()
        opening = self.journal.opening(run_id)
        if opening is not None:
            return await self._decide_row(opening, decisions, patience)
        if isinstance(next(iter(self.journal.events(run_id)), None), e.BatchOpened):
            raise BadInput(f"{run_id!r} is a batch: answer its questions with decide_batch({run_id!r}, ...)")
        log = await self._reopened(run_id, patience)
        with held(log):
            state = recorded(self.journal, run_id)
            if state.closed is not None:
                raise is_closed(run_id, state.closed)
            if state.parent:
                raise BadInput(
                    f"run {run_id!r} is part of run {state.parent!r}, which asks for it: answer there"
                )
            who = self.principal if self.principal.id == state.principal.id else state.principal
            answers = answers_in(state, decisions, who)
            self._expect_in_time(state, answers)
            for id_, answer in answers.items():
                expect_inside(self.journal, state.decisions[id_], answer, who)
            runtime = self._runtime(state, log)
            if not state.waiting:  # its process was killed: it has waited since its last event
                seq, _, dice = runtime.stamp()
                runtime.write(e.RunPaused(seq, state.at, dice, ASIDE, tuple(state.decisions)))
            for id_, answer in answers.items():
                runtime.write(decision_made(id_, answer, runtime.stamp()))
        return run_of(state)

    async def resume_all(
        self,
        *,
        once: bool = False,
        partly: bool = False,
        paused: bool = False,
        every: float = 0.25,
        at_once: int = 16,
        tell: Tell = lambda progress: None,
    ) -> None:
        """Take up every run, and batch, of the journal that can go on, as soon as it can, until this is cancelled: then all pause.

        Those are runs whose questions are all answered (`partly`: or some), and those whose process was killed; with
        `paused` also those that somebody interrupted. `once`: return when nothing more can go on. The journal is looked at
        each `every` seconds, and `at_once` runs go on at a time; several engines, in several processes, can do this on one
        journal. `tell` hears what becomes of each run. A run that cannot go on here (`NotApproved`) is told and left alone.
        """
        numbers = isinstance(every, int | float) and isinstance(at_once, int)
        if not (numbers and every > 0 and at_once >= 1):
            raise BadInput(
                f"`every` is a number of seconds and `at_once` a number of runs, not {every!r} and {at_once!r}"
            )

        def drive(run_id: str, see: Callable[[Event], None]) -> Awaitable[Run | Batch]:
            other = self.told(watch=see)
            other._host = other._host._replace(leaving=ASIDE)
            if not is_batch(self.journal, run_id):
                return other.resume(run_id)
            again = other.source_of(run_id)
            return other.resume_batch(run_id, **(again._asdict() if again is not None else {}))

        pick = Pick(partly, paused)
        with first_error():
            found = Resuming(self.journal, drive, pick=pick, every=every, at_once=at_once, tell=tell)
            await found.go(once=once)

    def waiting(self) -> list[Question]:
        """What the runs of the journal wait for people to say, the oldest run first; replays none of them."""
        return list(questions_in(self.journal))

    def replay(
        self,
        run_id: str,
        *,
        plan: Plan | None = None,
        tools: Registry | Iterable[Tool] | None = None,
        policies: Policies | None = None,
    ) -> Comparison:
        """Run a recorded run again on its record: no tool, model, person or hook is asked, every decision is compared.

        `plan`, `tools` (default: those of this engine; their contracts count, their code is not called) and `policies`
        may differ from those of the run: where somebody accepted others on the way, from those that held then. A row of a batch
        keeps the plan of its batch. Raises `UnknownRun`, and `BadInput` where there is nothing to run again.
        """
        expect(str, run_id, "the id of a run")
        if plan is not None:
            expect(Plan, plan, "the plan")
        if policies is not None:
            expect(Policies, policies, "the policies")
        registry = self.registry if tools is None else Registry.of(tools)
        events = list(self.journal.events(run_id))
        if events and isinstance(events[0], RowOpened):
            if plan is not None:
                raise BadInput(f"{run_id!r} is a row, and runs the plan of its batch; leave the plan out")
            common = common_of_row(self.journal, events[0])
            return compared_row(events, registry, common, policies=policies, check=self._would_check)
        return compared(events, registry, plan=plan, policies=policies, check=self._would_check)

    def _would_check(self, plan: Plan, registry: Registry, policies: Policies, principal: Principal) -> None:
        """Raises `CheckFailed` where an engine with these tools and rules would not run the plan."""
        other = copy.copy(self)
        other.registry, other.policies, other.principal, other._passed = registry, policies, principal, None
        other._checked(plan)

    async def fork(
        self,
        run_id: str,
        *,
        from_step: str,
        plan: Plan | None = None,
        approval: Approval | None = None,
    ) -> Run:
        """A new run that takes over what the run had settled before `from_step`, and goes on from there.

        With the plan as it stood, or another: a step that is the same in both, settled, and does not depend on
        `from_step` or on a changed step is not run again. A call that acted in the run is asked about before it is made
        again. Raises what `run` raises, `UnknownRun`, and `BadInput` where there is no such step.
        """
        expect(str, run_id, "the id of a run")
        origin = recorded(self.journal, run_id)
        if origin.program is None or origin.root is None:
            raise BadInput(f"run {run_id!r} has no plan, so there is no step to fork from")
        if origin.principal.id != self.principal.id:
            acts_for = f"it acts for {origin.principal.id!r}, not for {self.principal.id!r}"
            raise NotApproved(f"run {run_id!r} cannot be forked here: {acts_for}", differences=[acts_for])
        going_on = plan_of(origin.plan, origin.superseded) if plan is None else plan
        self._checked(going_on)
        taken = forked(origin, going_on, from_step, self.registry)
        return await self._run(
            going_on, origin.inputs, approval, fork_id(run_id, secrets.token_hex(4)), forked=taken
        )

    def cancel(self, run_id: str) -> None:
        """End a run for good: a live one's calls are cancelled; one that waits is closed. Raises `UnknownRun`."""
        expect(str, run_id, "the id of a run")
        waiting = [
            line.run for line in self.journal.runs() if is_child(line.run, run_id) and line.state == "waiting"
        ]
        for child in [id_ for id_ in self._live if is_child(id_, run_id)]:
            self._live[child].cancel()
        if run_id in self._batches:
            self._batches[run_id].cancel()
        elif run_id in self._live:
            self._live[run_id].cancel()
        else:
            self._close(run_id)
        for child in waiting:
            self._close(child)

    def _close(self, run_id: str) -> None:
        """Close a run that nobody drives."""
        log = self.journal.reopen(run_id)
        with held(log):
            if isinstance(next(iter(self.journal.events(run_id)), None), e.BatchOpened):
                self._close_batch(run_id, log)
                return
            state = recorded(self.journal, run_id)
            if state.closed is not None:
                raise is_closed(run_id, state.closed)
            runtime = self._runtime(state, log)
            runtime.write(
                e.RunClosed(*runtime.stamp(), "stopped", "cancelled", None, "the run was cancelled")
            )

    def with_tools(self, *tools: Tool) -> Engine:
        """This engine with more tools. Raises `ToolRefused` where a name is taken."""
        other = copy.copy(self)
        other.registry = Registry(*self.registry, *tools)
        other._passed = None
        return other

    def _alone(self) -> Engine:
        """This engine for a call by itself: if that fails, it is the plan it is made for that may be mended."""
        other = copy.copy(self)
        other._react = None
        other._host = self._host._replace(planner=None, model=None)
        return other

    def told(
        self, *, watch: Callable[[Event], None], chunk: Callable[[AIMessageChunk], None] | None = None
    ) -> Engine:
        """This engine with another listener beside its own: `watch` hears events, `chunk` parts of a model's answers."""
        first = self._host.watch

        def both(event: Event) -> None:
            if first is not None:
                first(event)
            watch(event)

        other = copy.copy(self)
        other._host = self._host._replace(watch=both, chunk=chunk)
        return other

    def show(self, run_id: str, *, at: int | None = None) -> Run:
        """A run as its journal tells it, or as it stood after event `at`; needs none of its tools. Raises `UnknownRun`."""
        expect(str, run_id, "the id of a run")
        return read_run(self.journal, run_id, at=at)

    def events(
        self,
        run_id: str | None = None,
        *,
        after: int | Mapping[str, int] | None = 0,
        kinds: Iterable[str | type[Event]] = (),
        follow: bool = False,
        every: float = 0.5,
    ) -> EventStream:
        """The events of a run, or of all runs of the journal: `async for run, event in engine.events(...)`.

        `after` is the number (`event.seq`) of the last one you have, of several runs a number for each; None: what
        happens from now on. `kinds` are the kinds of events you want. `follow` goes on with what happens next, until the
        run is closed; the journal is asked for what other processes do each `every` seconds. Call it where an event loop
        runs. A slow reader does not slow a run. Raises `BadInput`, and while it is read `UnknownRun`, `JournalError`.
        """
        if run_id is not None:
            expect(str, run_id, "the id of a run")
        return EventStream(
            self.journal,
            self._readers,
            self._live,
            run_id,
            after=after,
            kinds=kinds,
            follow=follow,
            every=every,
        )

    def runs(self) -> list[RunLine]:
        """All runs of the journal, the newest first."""
        return self.journal.runs()

    def scrub(self, value: Any) -> Any:
        """A text, or a value as plain JSON, without the secrets that runs of this engine have used: for your own logs."""
        scrubber = self._safe.scrubber
        return scrubber.scrub_text(value) if isinstance(value, str) else scrubber.scrub(to_plain(value))

    # ------------------------------------------------------------------------------------------ blocking twins

    def plan_blocking(self, goal: str, *, inputs: Mapping[str, Any] | None = None) -> Plan:
        """`plan` for programs without an event loop."""
        return block(partial(self.plan, goal, inputs=inputs), "plan")

    def run_blocking(
        self,
        plan: Plan,
        *,
        inputs: Mapping[str, Any] | None = None,
        approval: Approval | None = None,
        run_id: str | None = None,
        deadline: float | None = None,
    ) -> Run:
        """`run` for programs without an event loop."""
        options: dict[str, Any] = {"inputs": inputs, "approval": approval, "run_id": run_id}
        return block(partial(self.run, plan, deadline=deadline, **options), "run")

    def rehearse_blocking(
        self, plan: Plan, *, inputs: Mapping[str, Any] | None = None, reads: bool = False
    ) -> Run:
        """`rehearse` for programs without an event loop."""
        return block(partial(self.rehearse, plan, inputs=inputs, reads=reads), "rehearse")

    def answer_blocking(self, messages: Messages, *, run_id: str | None = None) -> Run:
        """`answer` for programs without an event loop."""
        return block(partial(self.answer, messages, run_id=run_id), "answer")

    def resume_blocking(
        self,
        run_id: str,
        *,
        decisions: Mapping[str, Answer | str] | None = None,
        accept_changes: str = "",
    ) -> Run:
        """`resume` for programs without an event loop."""
        resume = partial(self.resume, run_id, decisions=decisions, accept_changes=accept_changes)
        return block(resume, "resume")

    def fork_blocking(
        self, run_id: str, *, from_step: str, plan: Plan | None = None, approval: Approval | None = None
    ) -> Run:
        """`fork` for programs without an event loop."""
        return block(partial(self.fork, run_id, from_step=from_step, plan=plan, approval=approval), "fork")

    def decide_blocking(
        self, run_id: str, decisions: Mapping[str, Answer | str], *, patience: float = 0.0
    ) -> Run:
        """`decide` for programs without an event loop."""
        return block(partial(self.decide, run_id, decisions, patience=patience), "decide")

    # ------------------------------------------------------------------------------------------ inside

    def _fresh_id(self) -> str:
        return _new_id(self._host.clock())

    async def _perform_child(self, call: Call, state: State) -> Result:
        """One attempt of a sub-plan for a run in this state: the call's own run is begun, or taken up where it stands."""
        subplan = call.tool.function
        if not isinstance(subplan, Subplan):
            raise BadInput(f"{call.tool.name!r} is a sub-plan without its plan; make it with as_tool(...)")
        child = self._inside(subplan, call, state)
        now = max(self._host.clock(), state.at)
        return await child._as_child(subplan.plan, call, state.approval, seconds_left(state, now))

    def _inside(self, subplan: Subplan, call: Call, state: State) -> Engine:
        """This engine for the run that a call of a sub-plan is: with its tools, its bounds, and on whose behalf the call is."""
        other = copy.copy(self)
        other.registry = subplan.tools
        other.policies = child_policies(state.policies, call, subplan.tools)
        other.principal = (
            call.principal
        )  # granted already, by the roles of today and not those that were recorded
        other._react, other._passed, other._spent = None, None, {}
        other._host = self._host.inside()
        check_names(other.policies, other.registry)
        return other

    async def _as_child(
        self, plan: Plan, call: Call, approval: dict[str, Any] | None, seconds: float | None
    ) -> Result:
        run_id = child_id(call)
        events = events_so_far(self.journal, run_id)
        state = replay(State(self.registry), events)
        if state.closed is not None:
            return end_of_child(state, run_of(state))
        log = self.journal.reopen(run_id) if events else self.journal.create(run_id)
        with held(log):
            if not events:
                state.policies = self.policies
            self._recall(state, events)
            runtime = self._runtime(state, log)
            if len(events) >= 2:
                answers = answers_in(state, answers_for(state, call), self.principal)
                commands = self._taken_up(runtime, answers, seconds)
            else:
                if not events:
                    inputs = settle_inputs(plan, call.args)
                    opening = self._opening(runtime, plan, inputs, None, run_id, self.registry)
                    runtime.write(opening._replace(parent=call.run, approval=approval))
                commands = runtime.write(e.PlanAccepted(*runtime.stamp(), plan, plan.digest))
            return end_of_child(state, await self._drive(runtime, commands))


@contextmanager
def _hands_over(plan: Plan) -> Iterator[None]:
    """Whoever is told that a plan needs an approval gets the plan, which nobody else holds."""
    try:
        yield
    except NotApproved as error:
        error.plan = plan
        raise


def _new_id(now: float) -> str:
    """Sorts by time, cannot be guessed."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now))}-{secrets.token_hex(4)}"


def _row_limit(batch: RowLimit | int | None, inputs: Mapping[str, Any] | None) -> RowLimit | None:
    """How many rows are approved. Raises `BadInput`."""
    if batch is None or isinstance(batch, RowLimit):
        limit = batch
    elif isinstance(batch, int) and not isinstance(batch, bool) and batch >= 1:
        limit = RowLimit(rows=batch)
    else:
        raise BadInput(f"batch is the most rows that are approved, or a RowLimit, not {batch!r}")
    if limit is not None and inputs:
        raise BadInput("the inputs of a batch are its rows; approve inputs for one run, or a batch")
    return limit


def _asked(messages: Iterable[Message]) -> str:
    """What is asked in a dialogue: the last that a person said."""
    said = [message.content for message in messages if isinstance(message, HumanMessage)]
    return said[-1] if said else ""


def _called(messages: Iterable[Message]) -> set[str]:
    """The tools that were called in a dialogue so far."""
    return {
        call.name for message in messages if isinstance(message, AIMessage) for call in message.tool_calls
    }
