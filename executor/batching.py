"""The part of an engine that runs one plan over many rows.

rows -> examined, all of them -> approved as one batch -> opened in the journal -> run, some at a time -> Batch
a journal -> the batch replayed -> what is left goes on
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from os import PathLike
from typing import Any

from anyio.lowlevel import checkpoint

from ..planner.approvals import Approval, tools_of
from ..planner.plan import Plan
from ..planner.reviewing import Review
from ..planner.sharing import shared_in
from ..policies.batches import BatchRules
from ..policies.collector import little_is_left
from ..policies.errors import BadInput, UnknownRun, expect
from ..policies.policies import Budget
from ..policies.text import did_you_mean
from ..registry.registry import Registry
from . import events as e
from .batches.batch import Batch, batch_of, read_batch
from .batches.examining import MARK, Examined, changed, examine
from .batches.mending import mend_groups
from .batches.raising import expect_of_all, raised
from .batches.reopening import SourceAgain, describe, source_again
from .batches.rows import AsideRow, Row, RowResult
from .batches.running import BatchRuntime, answer_of_batch
from .batches.sources import Rows
from .batches.writing import Outputs, Written
from .blocking import block, first_error
from .changes import accepted_by, terms_of
from .driving import Driving, answers_in, expect_inside, held, spent_json
from .events import ASIDE
from .handed_in import check_deadline, check_run_id
from .hands.limits import Broken
from .journal.journal import BatchLog, Opening
from .mind.batch import BatchState, replay_batch, with_budget
from .mind.budget import Used
from .mind.rows import common_of
from .planning import model_calls_of
from .recorded import batch_opened, is_closed, recorded
from .run import Run, open_questions, run_of
from .runtime import Answer, Runtime, decision_made

__all__ = ["Batching"]

_AT_ONCE = 100
"""Rows that are looked through between two moments at which other tasks may run."""


class Batching(Driving):
    """What `Engine` does with batches."""

    async def run_batch(
        self,
        plan: Plan,
        rows: Rows | Examined,
        *,
        approval: Approval | None = None,
        batch_id: str | None = None,
        columns: Mapping[str, str] | None = None,
        constants: Mapping[str, Any] | None = None,
        strict: bool = False,
        rules: BatchRules | None = None,
        deadline: float | None = None,
        results: str | PathLike[str] | None = None,
        failures: str | PathLike[str] | None = None,
        overwrite: bool = False,
    ) -> Batch:
        """Run a plan once for each row, which gives its `inputs`; no model is asked for a row.

        `rows`: the path of a file (.csv, .tsv, .jsonl, .json), `SqliteRows`, a list or iterator of mappings, or what
        `examine` gave for this plan. `columns` says which column an input is, where the names differ; `constants` are inputs
        that are the same for every row. All rows are looked at before one runs; those that do not fit are set aside, or
        with `strict` refused together. What goes wrong in a row is in its result: `batch.rows()`. `results` and `failures`
        are files (.jsonl, .csv) that are written too; one of another batch is replaced only with `overwrite`.

        Raises what `run` raises, `BadInput` also for rows and for files that stand in the way.
        """
        self._checked(plan, batch=True)
        check_deadline(deadline)
        check_run_id(batch_id)
        rules = BatchRules() if rules is None else rules
        expect(BatchRules, rules, "the rules of the batch", "BatchRules(at_once=...) makes some")
        expect_of_all(rules.budget)
        reserve, outputs = self.reserve(plan, rules), Outputs.of(results, failures, overwrite)
        outputs.leave_alone(getattr(self.journal, "path", None))
        examined = await self._examined(plan, rows, columns, constants)
        if strict:
            examined.refuse_set_aside()
        self._approved(plan, {}, approval, rows=examined.runnable, source=examined.digest)
        await self._learn()
        self._expect_no_secret(plan, dict(constants or {}))
        await self._expect_no_secret_in(examined)
        self._expect_own_id(batch_id, batch=True)
        batch_id = batch_id or self._fresh_id()
        written = Written(outputs, batch_id, plan, examined)
        with written.unless_begun():
            log = self.journal.create(batch_id, approval=approval.id if approval is not None else "")
        batch = self._batch_runtime(BatchState(), log, written)
        with held(log), self._told_of_batch(batch) as trace:
            opening = self._batch_opening(batch, plan, rules, reserve, examined, approval, deadline, outputs)
            batch.write(opening._replace(trace=trace))
            batch.go_by(common_of(_opened(batch.state), self._registry_of(batch.state), self.principal))
            await batch.take(examined)
            return await self._drive_batch(batch)

    async def _examined(
        self,
        plan: Plan,
        rows: Rows | Examined,
        columns: Mapping[str, str] | None,
        constants: Mapping[str, Any] | None,
    ) -> Examined:
        """The first reading of the rows, or the one that was done. Raises `BadInput`."""
        if not isinstance(rows, Examined):
            return await examine(plan.inputs, rows, columns=columns, constants=constants)
        if columns is not None or constants is not None:
            raise BadInput(
                "the rows were examined with their columns and constants; say them there, and not again"
            )
        if rows.fitting.document != plan.inputs:
            raise BadInput("the rows were examined for a plan with other inputs; examine them for this one")
        return rows

    async def _expect_no_secret_in(self, examined: Examined) -> None:
        """Raises `BadInput` where a row holds a secret: it would be written down. Without secrets no row is read for it."""
        if not self._safe.scrubber:
            return
        for number, row in enumerate(examined.again(), 1):
            held = [repr(row.row.given), row.row.raw] if isinstance(row, AsideRow) else row.inputs
            self._safe.expect_none(f"row {number:,} of {examined.source.name}", held)
            if number % _AT_ONCE == 0:
                await checkpoint()

    async def examine(
        self,
        plan: Plan,
        rows: Rows,
        *,
        columns: Mapping[str, str] | None = None,
        constants: Mapping[str, Any] | None = None,
    ) -> Examined:
        """Look at all rows as `run_batch` does before one runs: how many fit, what is wrong with the others, the digest.

        `run_batch` takes what this gives in place of the rows, and does not look at them again.
        """
        return await examine(plan.inputs, rows, columns=columns, constants=constants)

    @abstractmethod
    async def rehearse(
        self, plan: Plan, *, inputs: Mapping[str, Any] | None = None, reads: bool = False
    ) -> Run:
        """Run a plan for show."""

    async def rehearse_batch(
        self,
        plan: Plan,
        rows: Rows | Examined,
        *,
        sample: int = 20,
        columns: Mapping[str, str] | None = None,
        constants: Mapping[str, Any] | None = None,
        reads: bool = False,
    ) -> list[RowResult]:
        """Rehearse the plan (`rehearse`) for some of the rows, evenly spread over all that can run; nothing is kept.

        The result of a row is what it would be. Raises what `rehearse` raises, and `BadInput` for rows.
        """
        if not (isinstance(sample, int) and sample >= 1):
            raise BadInput(f"sample is how many rows are rehearsed, 1 or more, not {sample!r}")
        examined = await self._examined(plan, rows, columns, constants)
        rehearsed = []
        for row in _evenly(examined.rows(), examined.runnable, sample):
            run = await self.rehearse(plan, inputs=row.inputs, reads=reads)
            first = run.failures[0][1] if run.failures else None
            kind, code = (first.kind.value, first.code) if first is not None else ("", run.reason)
            said = (run.state, run.output, kind, code, "" if run.ok else run.message)
            rehearsed.append(RowResult(str(row.ordinal), row.ordinal, row.line, *said))
        return rehearsed

    def source_of(self, batch_id: str, *, at: str | PathLike[str] | None = None) -> SourceAgain | None:
        """Where the rows of a batch came from, for `resume_batch`; None where that cannot be read again.

        `at`: where its file is now, if it has moved.
        """
        return source_again(batch_opened(self.journal, batch_id).source, at)

    def rows_under_way(self, batch_id: str) -> int:
        """How many rows of a batch are under way in this engine at the moment."""
        batch = self._batches.get(batch_id)
        return len(batch.state.live) if batch is not None else 0

    def broken_tools(self) -> list[Broken]:
        """The tools whose calls wait at the moment because they failed again and again, and when one call tries each again."""
        return self._host.limiter.broken() if self._host.limiter is not None else []

    async def resume_batch(
        self,
        batch_id: str,
        *,
        rows: Rows | None = None,
        columns: Mapping[str, str] | None = None,
        constants: Mapping[str, Any] | None = None,
        decisions: Mapping[str, Answer | str] | None = None,
        accept_changes: str = "",
    ) -> Batch:
        """Take up a batch that was interrupted or waits. `decisions` answers its questions by id.

        Its rows are in the journal. `rows` may be given to be held against them: a source that has changed is refused. They are
        needed where the batch was interrupted before all of them were in the journal, and for its file of failures, which has
        rows as the source has them. Other tools, rules or principal than it was opened with are refused, unless somebody accepts
        the changes by name; rows that begin or go on then go by what is new. Raises what `resume` raises.
        """
        given = partial(self._examined_again, rows=rows, columns=columns, constants=constants)
        return await self._go_on(batch_id, given, decisions or {}, accept_changes, again=None)

    async def retry_batch(
        self,
        batch_id: str,
        *,
        rows: Rows | None = None,
        columns: Mapping[str, str] | None = None,
        constants: Mapping[str, Any] | None = None,
        decisions: Mapping[str, Answer | str] | None = None,
        accept_changes: str = "",
        budget: Budget | None = None,
        by: str = "",
    ) -> Batch:
        """Try again the rows of a closed batch that are not done, and begin those that never did.

        They are the same runs: what had succeeded in them stays, calls have the keys that they had, and an act that has
        happened is never made again. Rows that were set aside stay so. The approval of the batch covers it. `rows` are those of
        the batch, and `accept_changes` is who accepts what changed, as in `resume_batch`. Raises what that raises.

        `budget` is what all rows together may use from here on, with what they have used: larger than before, in each bound
        that it names; the others stay. The journal has who raised it, `by` or the principal. It raises none of
        `policies.budget`, which holds for each row.
        """
        given = partial(self._examined_again, rows=rows, columns=columns, constants=constants)
        expect(str, by, "who raises the budget")
        more = partial(raised, budget=budget, by=by or self.principal.id)
        return await self._go_on(batch_id, given, decisions or {}, accept_changes, again=more)

    async def _go_on(
        self,
        batch_id: str,
        examined_again: Callable[[BatchState], Awaitable[Examined | None]],
        decisions: Mapping[str, Answer | str],
        accept_changes: str,
        *,
        again: Callable[[BatchState], dict[str, Any] | None] | None,
    ) -> Batch:
        """Take up a batch that is open, or one that is closed: then `again` says how its budget is raised."""
        expect(str, batch_id, "the id of a batch")
        expect(str, accept_changes, "who accepts the changes")
        await self._learn()
        log = self.journal.reopen(batch_id)
        with held(log):
            state = self._batch_state(batch_id)
            (_expect_open if again is None else _expect_to_retry)(state)
            more = again(state) if again is not None else None
            examined = await examined_again(state)
            if examined is not None and state.rows is None:
                await self._expect_no_secret_in(examined)
            answers = _answers(state, decisions)
            written = self._written_again(state, examined)
            batch, accepted = self._taken_up_batch(state, log, written, accept_changes, more)
            with self._told_of_batch(batch) as trace:
                batch.write(
                    e.RowsReopened(*batch.stamp(), self.principal.id, trace, accepted, more)
                    if again is not None
                    else e.RunResumed(*batch.stamp(), self.principal, trace=trace, accepted=accepted)
                )
                for id_, answer in answers.items():
                    batch.write(decision_made(id_, answer, batch.stamp()))
                if state.rows is None:
                    assert examined is not None
                    log.recount()
                    last = max((o.opened.ordinal for o in self.journal.openings(batch_id)), default=0)
                    await batch.take(examined, after=last)
                return await self._drive_batch(batch)

    async def decide_batch(
        self, batch_id: str, decisions: Mapping[str, Answer | str], *, patience: float = 0.0
    ) -> Batch:
        """Answer questions of a batch that nobody drives, and leave it waiting, as `decide` does for a run.

        Questions of a row are answered there: `decide(row, ...)`.
        """
        expect(str, batch_id, "the id of a batch")
        log = await self._reopened(batch_id, patience)
        with held(log):
            state = self._batch_state(batch_id)
            _expect_open(state)
            answers = _answers(state, decisions)
            batch = self._batch_runtime(state, log)
            batch.put_aside()
            for id_, answer in answers.items():
                batch.write(decision_made(id_, answer, batch.stamp()))
        return batch_of(state, self.journal)

    async def _decide_row(
        self, opening: Opening, decisions: Mapping[str, Answer | str], patience: float
    ) -> Run:
        """Answer questions of a row whose batch nobody drives; with the last answer it is ready to go on."""
        run, batch_id = opening.opened.run, opening.opened.batch
        log = await self._reopened(batch_id, patience)
        with held(log):
            batch = self._batch_runtime(self._batch_state(batch_id), log)
            opening = self.journal.opening(run) or opening
            state = recorded(self.journal, run)
            if state.closed is not None:
                raise is_closed(run, state.closed, what="row")
            who = self.principal if self.principal.id == state.principal.id else state.principal
            answers = answers_in(state, decisions, who)
            self._expect_in_time(state, answers)
            for id_, answer in answers.items():
                expect_inside(self.journal, state.decisions[id_], answer, who)
            runtime = Runtime(state, log.row(run, opening.opened.ordinal, opening), self._host)
            batch.put_aside()
            if not state.waiting:  # its process was killed: it has waited since its last event
                seq, _, dice = runtime.stamp()
                runtime.write(e.RunPaused(seq, state.at, dice, ASIDE, tuple(state.decisions)))
            for id_, answer in answers.items():
                runtime.write(decision_made(id_, answer, runtime.stamp()))
            left = tuple(asked.id for asked in open_questions(state))
            batch.write(e.RowParked(*batch.stamp(), opening.opened.ordinal, run, left))
        return run_of(state)

    def _close_batch(self, batch_id: str, log: BatchLog) -> None:
        """Close a batch that nobody drives."""
        state = self._batch_state(batch_id)
        _expect_open(state)
        self._batch_runtime(state, log).close_cancelled()

    def show_batch(self, batch_id: str, *, at: int | None = None) -> Batch:
        """A batch as its journal tells it, or as it stood after its event `at`; needs none of its tools. Raises `UnknownRun`."""
        expect(str, batch_id, "the id of a batch")
        batch_opened(self.journal, batch_id)
        return read_batch(self.journal, batch_id, at=at)

    def run_batch_blocking(self, plan: Plan, rows: Rows, **options: Any) -> Batch:
        """`run_batch` for programs without an event loop."""
        return block(partial(self.run_batch, plan, rows, **options), "run_batch")

    def resume_batch_blocking(self, batch_id: str, **options: Any) -> Batch:
        """`resume_batch` for programs without an event loop."""
        return block(partial(self.resume_batch, batch_id, **options), "resume_batch")

    def retry_batch_blocking(self, batch_id: str, **options: Any) -> Batch:
        """`retry_batch` for programs without an event loop."""
        return block(partial(self.retry_batch, batch_id, **options), "retry_batch")

    # ------------------------------------------------------------------------------------------ inside

    def reserve(self, plan: Plan, rules: BatchRules) -> dict[str, float] | None:
        """What each row may use at most of what the batch has a bound on, kept for each that is under way.

        Raises `BadInput` where nobody knows, or where not even one row could begin, as `run_batch` does.
        """
        budget, own = rules.budget, self.policies.budget
        if budget == Budget():
            return None
        reserve = dict[str, float]()
        review = self.review(plan)
        for name, most in (
            ("tool_calls", _calls(review)),
            ("cost", _cost(review)),
            ("model_calls", 0),
            ("tokens", 0),
        ):
            total = getattr(budget, name)
            if total is None:
                continue
            bound = getattr(own, name)
            if bound is None and most is None:
                raise BadInput(
                    f"the batch has a budget of {name}, and nobody knows how much of it a row may use: give each row a bound, "
                    f"Policies(budget=Budget({name}=...)), in a file of policies `budget: {{{name}: ...}}`"
                )
            tries = self.policies.retry.attempts
            reserve[name] = bound if bound is not None else (most or 0) * tries
            if reserve[name] > total:
                raise BadInput(
                    f"the batch has a budget of {total:,.15g} {name}, and one row may use {reserve[name]:,.15g}, "
                    f"retries included, so none could begin; raise it, or give each row a lower bound, Policies(budget=Budget({name}=...))"
                )
        return reserve

    def _batch_opening(
        self,
        batch: BatchRuntime,
        plan: Plan,
        rules: BatchRules,
        reserve: dict[str, float] | None,
        examined: Examined,
        approval: Approval | None,
        deadline: float | None,
        outputs: Outputs,
    ) -> e.BatchOpened:
        planner = self._host.planner is not None
        known = self.registry if planner else self.registry.only(names=tools_of(plan))
        return e.BatchOpened(
            *batch.stamp(),
            run=batch.run,
            plan=plan,
            digest=plan.digest,
            principal=self.principal,
            policies=self.policies,
            contracts={tool.name: tool.contract() for tool in known},
            rules=rules.model_dump(mode="json"),
            approval=approval.to_json() if approval is not None else None,
            source=describe(examined, personal="inputs" in self.policies.personal),
            shared=shared_in(plan, self.registry),
            reserve=reserve,
            planner=planner,
            hooks=self._host.asked,
            spent=spent_json(self._spent.pop(plan.digest, Used())),
            planner_calls=model_calls_of(self._host.planner),
            deadline=deadline,
            outputs=outputs.to_json(),
        )

    def _batch_state(self, batch_id: str) -> BatchState:
        """The state of a batch that is in the journal. Raises `UnknownRun`, and `BadInput` for a run that is none."""
        batch_opened(self.journal, batch_id)
        return replay_batch(self.journal.events(batch_id))

    async def _examined_again(
        self,
        state: BatchState,
        rows: Rows | None,
        columns: Mapping[str, str] | None,
        constants: Mapping[str, Any] | None,
    ) -> Examined | None:
        """The rows that are given again. Raises `BadInput` where they differ from those of the batch."""
        opened = _opened(state)
        if rows is None:
            if state.rows is None:
                raise BadInput(
                    f"batch {state.run!r} was interrupted before all of its rows were in the journal; give them again: rows=..."
                )
            return None
        examined = await examine(opened.plan.inputs, rows, columns=columns, constants=constants)
        before = bytearray(examined.marks if state.rows is None else examined.marks[: state.rows * MARK])
        before.extend(bytes(max(0, (state.rows or 0) * MARK - len(before))))
        for opening in self.journal.openings(state.run, after=0):
            at = (opening.opened.ordinal - 1) * MARK
            before[at : at + MARK] = bytes.fromhex(opening.opened.digest.removeprefix("sha256:"))[:MARK]
        said = changed(bytes(before), bytes(examined.marks))
        if not said and state.rows is not None and state.digest != examined.digest:
            said = "rows that were set aside differ"
        if not said and state.rows is None:
            said = _differing(opened.source or {}, examined)
        if said:
            raise BadInput(f"the rows are not those that batch {state.run!r} was opened with: {said}")
        return examined

    def _written_again(self, state: BatchState, examined: Examined | None) -> Written:
        """The files of a batch that goes on, with the rows that have ended."""
        opened = _opened(state)
        written = Written(Outputs.read(opened.outputs), state.run, opened.plan, examined)
        written.recall(self.journal)
        return written

    def _taken_up_batch(
        self,
        state: BatchState,
        log: BatchLog,
        written: Written,
        who: str,
        more: dict[str, Any] | None,
    ) -> tuple[BatchRuntime, dict[str, Any] | None]:
        """A batch that may go on here: by the same tools, rules and principal, or by what somebody accepts in their place, which is
        given too. Raises `NotApproved`."""
        opened = _opened(state)
        terms = terms_of(opened, state.accepted)
        accepted = accepted_by(
            who,
            state.run,
            terms,
            self.registry,
            self.principal,
            self.policies if self._ruled else None,
            authorize=self._host.authorize is not None,
            what="batch",
        )
        rules, changed = terms.policies, any("policies" in (event.accepted or {}) for event in state.accepted)
        if accepted is not None and "policies" in accepted:
            rules, changed = self.policies, True
            accepted["reserve"] = self.reserve(opened.plan, with_budget(state.rules, more))
        batch = self._batch_runtime(state, log, written)
        common = common_of(opened, self._registry_of(state), self.principal)
        by = who or next((event.accepted["by"] for event in state.accepted[-1:] if event.accepted), "")
        batch.go_by(common, rules if changed else None, by)
        return batch, accepted

    def _registry_of(self, state: BatchState) -> Registry:
        return self.registry.only(names=list(_opened(state).contracts))

    def _batch_runtime(
        self, state: BatchState, log: BatchLog, written: Written | None = None
    ) -> BatchRuntime:
        host = self._host._replace(child=self._perform_child, early=None, chunk=None)
        return BatchRuntime(
            state,
            log,
            self.journal,
            host,
            take_up=self._take_up_row,
            mend_groups=partial(mend_groups, host=host),
            live=self._live,
            written=written,
        )

    def _told_of_batch(self, batch: BatchRuntime) -> AbstractContextManager[str]:
        """While a batch is driven telemetry tells of it; gives the span as the journal names it."""
        telemetry = self._host.telemetry
        return (
            nullcontext("")
            if telemetry is None
            else telemetry.batch(batch.state, batch.run, self._safe.scrubber)
        )

    def _take_up_row(self, runtime: Runtime, accepted: dict[str, Any] | None) -> tuple[Any, ...]:
        return self._taken_up(runtime, {}, accepted=accepted)

    async def _drive_batch(self, batch: BatchRuntime) -> Batch:
        self._batches[batch.run] = batch
        try:
            with first_error(), little_is_left():
                await batch.drive()
        finally:
            del self._batches[batch.run]
            batch.release()
            if batch.written is not None:
                if batch.state.closed is not None and batch.problem is None:
                    batch.written.ended(self.journal, batch.state.closed)
                else:
                    batch.written.left()
        return batch_of(batch.state, self.journal, problem=str(batch.problem) if batch.problem else "")


def _evenly(rows: Iterable[Row], total: int, wanted: int) -> Iterator[Row]:
    """As many of the rows as are wanted, spread over all of them, the first among them."""
    places = {index * total // wanted for index in range(wanted)} if wanted < total else range(total)
    return (row for place, row in enumerate(rows) if place in places)


def _calls(review: Review) -> int | None:
    """The most calls of one row; None where no bound is known."""
    return review.calls.most


def _cost(review: Review) -> float | None:
    """What one row costs at most, by what its tools state."""
    found = 0.0
    for step in review.every_step:
        if step.cost and step.calls.most is None:
            return None
        found += step.cost * (step.calls.most or 0)
    return found


def _differing(source: Mapping[str, Any], examined: Examined) -> str:
    """How rows differ from those that a batch was opened with, beyond what its journal holds; "" where they do not."""
    if source.get("digest", examined.digest) == examined.digest:
        return ""
    if source["rows"] != examined.total:
        return f"there were {source['rows']:,}, and there are {examined.total:,}"
    return "rows that are not in the journal yet differ"


def _opened(state: BatchState) -> e.BatchOpened:
    if state.opened is None:
        raise UnknownRun("the journal of this batch does not begin with its opening")
    return state.opened


def _expect_open(state: BatchState) -> None:
    """Raises `BadInput` where the batch is closed."""
    if state.closed is not None:
        raise is_closed(state.run, state.closed, what="batch")


def _expect_to_retry(state: BatchState) -> None:
    """Raises `BadInput` where the batch is not closed, or has nothing that could be tried again."""
    if state.closed is None:
        raise BadInput(
            f"batch {state.run!r} is not closed: take it up with resume_batch, or `foreplan resume`"
        )
    if not (state.failed or state.left or state.parked or state.shared in ("failed", "stopped")):
        raise BadInput(f"batch {state.run!r} has no row that could be tried again: {state.closed.message}")


def _answers(state: BatchState, decisions: Mapping[str, Answer | str]) -> dict[str, Answer]:
    """Answers to open questions of the batch. Raises `BadInput`."""
    expect(Mapping, decisions, "what is decided", 'write {"the id of a question": "approve"}')
    answers = {}
    for id_, said in decisions.items():
        asked = state.decisions.get(id_)
        if asked is None or id_ in state.answered:
            open_ = ", ".join(id_ for id_ in state.decisions if id_ not in state.answered) or "none"
            raise BadInput(
                f"no question {id_!r} is open{did_you_mean(str(id_), state.decisions)} (open: {open_})"
            )
        answers[id_] = answer_of_batch(asked, said)
    return answers
