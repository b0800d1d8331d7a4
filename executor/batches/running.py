"""The driver of a batch: takes the rows in, lets as many begin as its mind allows, writes down how each ended.

    take    every row that can run is opened in the journal, before one of them begins
    drive   row by row from the journal, in order, `at_once` at a time; what ended is a byte, what waits is let go

A row that begins and one that was interrupted come the same way: their first event, or all of them, are read from the journal.
Whoever brings an event of the batch (a row that ends, an answer) writes it and looks what may begin now, without an await in
between.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from ...planner.bounds import rules_of
from ...planner.findings import Finding
from ...planner.plan import Patch
from ...policies.batches import row_policies
from ...policies.collector import all_stays
from ...policies.errors import BadInput, JournalError
from ...policies.policies import Policies
from .. import events as e
from ..blocking import DRIVING
from ..events import ASIDE, PEOPLE, Event
from ..hands.threads import Threads
from ..journal.journal import BatchLog, Journal, Log, Opening
from ..mind.batch import (
    BatchState,
    advance_batch,
    conclusion,
    group_of,
    may_go_on,
    room,
    shared_results,
    summary,
    to_settle,
    unsettled_groups,
)
from ..mind.budget import used
from ..mind.mind import advance, go_by, replay
from ..mind.rows import Common, of_shared, patches_of, shared_id
from ..mind.state import State
from ..run import open_questions, run_of
from ..runtime import Answer, Host, Runtime
from ..wake import Portal
from .examining import Examined
from .rows import AsideRow, RowFinding, RowResult, SourceRow, row_id
from .writing import Written

__all__ = ["BatchRuntime", "MendGroups", "TakeUp", "answer_of_batch"]

TakeUp = Callable[[Runtime, dict[str, Any] | None], tuple[Any, ...]]
"""Takes up a row that was interrupted or has been answered, with what somebody accepts in place of what it went by: what is to be
done."""

MendGroups = Callable[["BatchRuntime"], Awaitable[None]]
"""Decides about each of `unsettled_groups(batch.state)` with `settle_group`, or asks people about it (`ask`)."""

_LOG = logging.getLogger("foreplan")
_AT_ONCE = 100
"""Rows that are taken in between two moments at which other tasks may run."""


class BatchRuntime:
    """One batch, driven in this process. `live` is where the engine finds the runs that are under way."""

    def __init__(
        self,
        state: BatchState,
        log: BatchLog,
        journal: Journal,
        host: Host,
        *,
        take_up: TakeUp,
        mend_groups: MendGroups,
        live: dict[str, Runtime],
        written: Written | None = None,
    ) -> None:
        self.state = state
        self.written = written
        self.problem: JournalError | None = None
        self._log = log
        self._journal = journal
        self._host = host
        self._rows_host = host._replace(watch=None, threads=host.threads or Threads(), rules={})
        self._common: Common
        self.policies: Policies
        """By which rows that begin now go."""
        self._accepted: dict[str, Any] | None = None
        self._take_up = take_up
        self._mend_groups = mend_groups
        self._live = live
        self._tasks: TaskGroup | None = None
        self._over = anyio.Event()
        self._cursor: Iterator[Opening] = iter(())
        self._again: deque[int] = deque()
        self._asking: set[str] = set()
        self._cancelled = False
        self._letting_go = False
        self._mending = False

    @property
    def run(self) -> str:
        """The id of the batch."""
        return self._log.run

    def go_by(self, common: Common, rules: Policies | None = None, by: str = "") -> None:
        """This is what its rows have in common; `rules` go in the place of those that it was opened with, because somebody
        (`by`) accepted them: each row that begins or goes on says so itself."""
        self.policies = common.policies if rules is None else row_policies(rules, common.rules)
        self._accepted = (
            None if rules is None else {"by": by, "policies": self.policies.model_dump(mode="json")}
        )
        self._common = common._replace(patches=patches_of(self.state.groups.values()))

    # ------------------------------------------------------------------------------------------ events

    def stamp(self) -> tuple[int, float, float]:
        """Place, time and die of the next event of the batch."""
        return self.state.seq + 1, self._now(), self._host.dice()

    def _now(self) -> float:
        try:
            return max(self._host.clock(), self.state.at)
        except Exception:
            _LOG.exception("`clock` raised, so time stands still for batch %r", self.state.run)
            return self.state.at

    def seconds_left(self) -> float | None:
        """Until no further row begins and nobody is asked for a patch; None without a bound."""
        state, most = self.state, self.state.rules.budget.seconds
        if most is None or state.opened is None:
            return None
        return max(0.0, most - (self._now() - state.opened.at - state.away))

    def write(self, event: Event) -> None:
        """Append an event of the batch without the secrets in it, and take it in. Raises `JournalError`."""
        safe = self._host.safe
        if safe is not None and safe.scrubber:
            event = safe.clean(event)
        self._log.append(event)
        advance_batch(self.state, event)
        if self._host.watch is not None or self._host.telemetry is not None:
            self._show(event)

    def _show(self, event: Event) -> None:
        watch, telemetry = self._host.watch, self._host.telemetry
        try:
            if watch is not None:
                watch(event)
        except Exception:
            self._host = self._host._replace(watch=None)
            _LOG.exception("`watch` raised, so batch %r goes on without it", self.state.run)
        try:
            if telemetry is not None:
                telemetry.see_batch(event, self.state)
        except Exception:
            self._host = self._host._replace(telemetry=None)
            _LOG.exception("`telemetry` raised, so batch %r goes on without it", self.state.run)

    # ------------------------------------------------------------------------------------------ rows are taken in

    async def take(self, examined: Examined, *, after: int = 0) -> None:
        """Open every row that can run, and set the others aside. Raises `BadInput` where the source has changed.

        Rows up to `after` are in the journal already.
        """
        batch = self.state.run
        for number, row in enumerate(examined.again(), 1):
            if isinstance(row, AsideRow):
                self._set_aside(*row)
            elif row.ordinal > after:
                run = row_id(batch, row.ordinal)
                opened = e.RowOpened(
                    1, self._now(), 0.5, run, batch, row.ordinal, row.inputs, row.digest, row.line
                )
                self._log.row(run, row.ordinal).append(opened)
            if number % _AT_ONCE == 0:
                await checkpoint()
        self.write(e.RowsTaken(*self.stamp(), examined.total, examined.digest))
        await self._log.durable()

    def _set_aside(self, row: SourceRow, faults: tuple[RowFinding, ...]) -> None:
        if self.state.status_of(row.ordinal):
            return
        first = faults[0]
        personal = "inputs" in self.policies.personal
        said = f"{first.code} at {first.pointer or first.column}" if personal else first.sentence
        settled = e.RowSettled(
            *self.stamp(), row.ordinal, "", "refused", "", "bad_args", first.code, said, row.line
        )
        self.write(settled)
        self._tell(settled, None, said)

    # ------------------------------------------------------------------------------------------ driving

    async def drive(self) -> None:
        """Run the rows until the batch closes or only people can go on; cancelled from outside, it pauses."""
        self._portal = Portal.current()
        if self._host.limiter is not None:
            self._host.limiter.told.append(self._tool_told)
        self._cursor = self._journal.openings(self.state.run)
        self._take_up_parked()
        try:
            await self._share()
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                self._ask_again()
                self._look_around()
                await self._over.wait()
                self._letting_go = True
                tasks.cancel_scope.cancel()
        finally:
            self._letting_go = True
            if self._host.limiter is not None:
                self._host.limiter.told.remove(self._tool_told)
            self._let_go()

    def _take_up_parked(self) -> None:
        """Rows that waited and have what they waited for."""
        state, known = self.state, set(self._again)
        for ordinal, parked in state.parked.items():
            if ordinal not in known and ordinal not in state.live and may_go_on(state, parked):
                self._again.append(ordinal)

    def settle_group(self, group: str, patch: Patch | None, digest: str = "", message: str = "") -> None:
        """Decide what becomes of the rows of a group: they go on with a patch, or fail, and say why (`message`)."""
        event = e.GroupSettled(*self.stamp(), group, patch, digest, message)
        self.write(event)
        patches = {**self._common.patches, **patches_of([event])}
        self._common = self._common._replace(patches=patches)
        self._take_up_parked()

    def settle_mended(self) -> None:
        """Write what becomes of groups of which all is known, a person's answer too."""
        for group, mending in to_settle(self.state):
            self.settle_group(group, mending.patch, mending.digest, mending.why)

    def ask(self, event: e.DecisionAsked) -> None:
        """A question of the batch to people; it is asked here, too, if there is somebody."""
        self.write(event)
        self._ask_again()

    def events_of(self, ordinal: int) -> Iterator[Event]:
        """What happened in a row so far; of 0, in the run of what all rows share, if there is one."""
        opened = self.state.opened
        assert opened is not None
        if ordinal:
            yield from self._journal.events(row_id(opened.run, ordinal))
        elif opened.shared:
            yield from self._journal.events(shared_id(opened.run))

    def row_state(self, ordinal: int) -> State:
        """The state of a row that waits, from its journal."""
        opening = self._journal.opening(row_id(self.state.run, ordinal))
        assert opening is not None
        return self._restored(opening, self._common)[0]

    def _tool_told(self, tool: str, broken: bool) -> None:
        """The limiter says, in any thread, that a tool is broken, or back."""
        self._portal.call_soon(partial(self._tool, tool, broken))

    def _tool(self, tool: str, broken: bool) -> None:
        """While a tool is broken no row begins; the journal knows when that was. Rows under way wait for it, and those begin
        others when they end."""
        breaker = self.policies.limits.breaker
        if breaker is None or not breaker.hold or tool not in self._common.program_tools:
            return
        if self._letting_go or (tool in self.state.held) == broken:
            return
        try:
            if broken:
                self.write(e.ToolHeld(*self.stamp(), tool, *self._how_broken(tool), breaker.seconds))
            else:
                self.write(e.ToolFreed(*self.stamp(), tool))
        except JournalError as error:
            self._fail(error)

    def _how_broken(self, tool: str) -> tuple[str, int]:
        """Of which kind its failures are, and how many there were in a row."""
        found = self._host.limiter.broken(tool) if self._host.limiter is not None else ()
        return next(((broken.kind, broken.failures) for broken in found), ("", 0))

    def cancel(self) -> None:
        """Stop for good: rows under way are cancelled, then the batch closes as stopped(cancelled)."""
        self._cancelled = True
        for ordinal in list(self.state.live):
            row = self._live.get(row_id(self.state.run, ordinal))
            if row is not None:
                row.cancel()
        if not self.state.live:
            self._over.set()

    def release(self) -> None:
        """Let go of the log: all that was written is durable, or `problem` says why it is not."""
        try:
            self._log.close()
        except JournalError as error:
            self.problem = self.problem or error

    def _let_go(self) -> None:
        """Nothing is under way any more: close or pause the batch in the journal."""
        state = self.state
        if self.problem is not None or state.closed is not None or state.waiting:
            return
        try:
            if self._cancelled:
                self.close_cancelled()
            else:
                self.write(e.RunPaused(*self.stamp(), self._host.leaving, tuple(state.decisions)))
        except JournalError as error:
            self.problem = error

    def put_aside(self) -> None:
        """Somebody is about to write who does not drive it: if its process was killed, it waits since its last event."""
        state = self.state
        if not state.waiting:
            seq, _, dice = self.stamp()
            self.write(e.RunPaused(seq, state.at, dice, ASIDE, tuple(state.decisions)))

    def close_cancelled(self) -> None:
        """The end of a batch that somebody cancelled."""
        said = "the batch was cancelled"
        self.write(e.RunClosed(*self.stamp(), "stopped", "cancelled", summary(self.state), said))

    def _look_around(self) -> None:
        """Begin what may begin; where nothing is under way, ask, wait or close."""
        if self._letting_go:
            return
        try:
            self.settle_mended()
            while not self._cancelled and (opening := self._next()) is not None:
                assert self._tasks is not None
                self._tasks.start_soon(self._work, opening)
            if not self.state.live:
                self._conclude()
        except JournalError as error:
            self._fail(error)

    def _conclude(self) -> None:
        if self._cancelled:
            self._over.set()
            return
        if self._mend():
            return
        command = conclusion(self.state, forthcoming=bool(self._asking), now=self._now())
        if command is None:
            return
        self.write(command.kind(*self.stamp(), *command.fields))
        if command.kind is e.DecisionAsked:
            self._ask_again()
            self._conclude()
        else:
            self._over.set()

    def _mend(self) -> bool:
        """Nothing else can go on: have a patch made for rows that failed alike. True where something comes of it."""
        state = self.state
        if self._mending or state.stopping or not unsettled_groups(state):
            return self._mending
        assert self._tasks is not None
        self._mending = True
        self._tasks.start_soon(self._regroup)
        return True

    async def _regroup(self) -> None:
        try:
            await self._mend_groups(self)
        except JournalError as error:
            self._fail(error)
        finally:
            self._mending = False
        self._look_around()

    def _fail(self, error: JournalError) -> None:
        """Nothing more can be recorded, so nothing more is started."""
        self.problem = self.problem or error
        self._letting_go = True
        self._over.set()

    # ------------------------------------------------------------------------------------------ rows

    def _next(self) -> Opening | None:
        """The next row that may begin or go on; it is under way from here on."""
        if room(self.state, self._now()) <= 0 and not (self._again and not self.state.stopping):
            return None
        opening = self._next_again() or self._next_new()
        if opening is not None:
            self.state.live.add(opening.opened.ordinal)
        return opening

    def _next_again(self) -> Opening | None:
        """A row that waited and can go on."""
        state = self.state
        if not self._again or state.stopping or len(state.live) >= state.rules.at_once:
            return None
        return self._journal.opening(row_id(state.run, self._again.popleft()))

    def _next_new(self) -> Opening | None:
        """The next row that has not ended and does not wait."""
        state = self.state
        if room(state, self._now()) <= 0:
            return None
        for opening in self._cursor:
            ordinal = opening.opened.ordinal
            if ordinal and not state.status_of(ordinal) and ordinal not in state.parked:
                return opening
        return None

    async def _work(self, opening: Opening | None) -> None:
        """One row after the other, as long as there is room for this one."""
        while opening is not None:
            try:
                await self._row(opening)
            finally:
                self.state.live.discard(opening.opened.ordinal)
            opening = None if self._letting_go or self._cancelled else self._next()
        self._look_around()

    async def _share(self) -> None:
        """Run the steps that all rows share, once; every row has their results."""
        opened = self.state.opened
        assert opened is not None
        if not opened.shared or self.state.closed is not None:
            return
        run, own = shared_id(opened.run), of_shared(self._common, opened)
        try:
            if self._journal.opening(run) is None:
                row = e.RowOpened(1, self._now(), self._host.dice(), run, opened.run, 0, {})
                self._log.row(run, 0).append(row)
                await self._log.durable()
            opening = self._journal.opening(run)
            assert opening is not None
            if not self.state.shared:
                await self._row(opening, own)
            if self.state.shared == "done":
                ended = replay(State(own.registry, own), self._journal.events(run))
                self._common = self._common._replace(shared=shared_results(ended))
            elif self.problem is None and not self.state.stopping:  # people are asked
                self.write(e.RunPaused(*self.stamp(), PEOPLE, ()))
                self._letting_go = True
                self._over.set()
        except JournalError as error:
            self._fail(error)

    async def _row(self, opening: Opening, common: Common | None = None) -> None:
        """One row, from where it stands to its end, or to where only people can go on."""
        run, ordinal = opening.opened.run, opening.opened.ordinal
        try:
            log = self._log.row(run, ordinal, opening)
            state, begun = self._restored(opening, common or self._common)
            runtime = Runtime(state, self._timed(log), self._host_of(state))
            reopened = self.state.is_reopened(ordinal)
            with self._told_of(state) if state.closed is None or reopened else nullcontext():
                if state.closed is not None and reopened:
                    reopened_by = (self._common.principal, self._accepted)
                    begun = runtime.write(e.RowReopened(*runtime.stamp(), *reopened_by))
                if state.closed is None:
                    await self._drive(runtime, begun or self._going_on(runtime, ordinal))
            log.close()
            if runtime.problem is not None:
                raise runtime.problem
            self.state.live.discard(ordinal)
            self._ended(opening, state)
            if state.root is not None:
                state.root.dissolve()
        except JournalError as error:
            self._fail(error)

    def _going_on(self, runtime: Runtime, ordinal: int) -> tuple[Any, ...]:
        """A row goes on after an interruption, with its answers, or with what was decided for its group."""
        state, commands = runtime.state, self._take_up(runtime, self._accepted)
        parked = self.state.parked.get(ordinal)
        if state.group is None or parked is None or parked.alike is None:
            return commands  # also a row that waited for people, and failed by what they said
        decided = self.state.groups[group_of(parked)]
        if decided.patch is not None:
            event: Event = e.PatchAccepted(*runtime.stamp(), None, decided.digest, decided.group)
        else:
            said = Finding("no_patch", "error", "", decided.message)
            event = e.PatchRefused(*runtime.stamp(), (said.to_json(),), "hook")
        return (*commands, *runtime.write(event))

    def _restored(self, opening: Opening, common: Common) -> tuple[State, tuple[Any, ...]]:
        """The state of a row; and what is to be done, where it only begins."""
        state = State(common.registry, common)
        if opening.line.events == 1:
            commands = advance(state, opening.opened)
            opened = self.state.opened
            same = opened is None or opened.principal == common.principal
            if self._accepted is None:
                return state, commands if same else ()
            go_by(state, self.policies)  # before hands are made that keep to them
            return state, ()
        with all_stays():
            events = list(self._journal.events(opening.opened.run))
            replay(state, events)
        limiter = self._host.limiter
        if limiter is not None:
            rules = {
                name: rules_of(tool, state.principal, state.policies) for name, tool in state.tools.items()
            }
            limiter.recall(state.run, events, rules)
        if self._accepted is not None:
            go_by(state, self.policies)
        return state, ()

    def _host_of(self, state: State) -> Host:
        """What a row is driven with; one that goes by older policies works out the pace of its tools by itself."""
        alike = state.policies is self.policies
        return self._rows_host if alike else self._rows_host._replace(rules=None)

    def _timed(self, log: Log) -> Log:
        telemetry = self._host.telemetry
        return log if telemetry is None else telemetry.timed(log)

    def _told_of(self, state: State) -> AbstractContextManager[None]:
        """While a row goes on telemetry tells of it."""
        telemetry, safe = self._host.telemetry, self._host.safe
        if telemetry is None or safe is None:
            return nullcontext()
        telemetry.begin(state, state.run, safe.scrubber, batch=self.state)
        return telemetry.driving(state)

    async def _drive(self, runtime: Runtime, commands: tuple[Any, ...]) -> None:
        run = runtime.state.run
        self._live[run] = runtime
        token = DRIVING.set(run)
        try:
            await runtime.drive(commands)
        finally:
            DRIVING.reset(token)
            del self._live[run]

    def _ended(self, opening: Opening, state: State) -> None:
        """Write how a row ended, or what it waits for."""
        run, ordinal = opening.opened.run, opening.opened.ordinal
        closed = state.closed
        if closed is not None:
            kind, code = _why(state)
            settled = e.RowSettled(
                *self.stamp(),
                ordinal,
                run,
                closed.state,  # type: ignore[arg-type]
                closed.reason,
                kind,
                code,
                "",
                opening.opened.line,
                _used(state),
            )
            self.write(settled)
            self._tell(settled, closed.output, "" if closed.state == "done" else closed.message)
        elif state.resting and state.decisions:
            questions = tuple(asked.id for asked in open_questions(state))
            self.write(e.RowParked(*self.stamp(), ordinal, run, questions))
        elif state.resting and state.group is not None:
            parked = e.RowParked(*self.stamp(), ordinal, run, (), state.group)
            self.write(parked)
            if may_go_on(self.state, parked):  # what becomes of such rows is known already
                self._again.append(ordinal)

    def _tell(self, settled: e.RowSettled, output: Any, sentence: str) -> None:
        """Write the line of a row; what the rows share is none."""
        if self.written is None or not settled.ordinal:
            return
        row = row_id(self.state.run, settled.ordinal)
        said = (settled.status, output, settled.kind, settled.code, sentence)
        self.written.settled(RowResult(row, settled.ordinal, settled.line, *said))

    # ------------------------------------------------------------------------------------------ people

    def _ask_again(self) -> None:
        """Ask a person here what the batch wants to know, if there is one."""
        if self._host.decide is None:
            return
        assert self._tasks is not None
        for id_, asked in self.state.decisions.items():
            if id_ not in self._asking:
                self._asking.add(id_)
                self._tasks.start_soon(self._ask, asked)

    async def _ask(self, asked: e.DecisionAsked) -> None:
        """Without a good answer the question stays open, and the batch waits."""
        assert self._host.decide is not None
        answer = None
        try:
            said = await self._host.decide(asked)
            answer = answer_of_batch(asked, said) if said is not None else None
        except Exception:
            _LOG.exception("`decide` failed at %r, so the question stays open", asked.id)
        try:
            if answer is not None and not self._letting_go:
                self.write(
                    e.DecisionMade(*self.stamp(), asked.id, answer.choice, answer.by, None, answer.reason)
                )
                self._asking.discard(asked.id)
            elif not self._letting_go:
                self._asking.discard(asked.id)
        except JournalError as error:
            self._fail(error)
        self._look_around()


def answer_of_batch(asked: e.DecisionAsked, said: Answer | str) -> Answer:
    """An answer to a question of a batch. Raises `BadInput` for what is none."""
    answer = Answer(said) if isinstance(said, str) else said
    if not isinstance(answer, Answer) or answer.choice not in asked.options:
        choice = answer.choice if isinstance(answer, Answer) else answer
        raise BadInput(f"{choice!r} is no answer to {asked.id!r}; say one of {', '.join(asked.options)}")
    return answer


def _why(state: State) -> tuple[str, str]:
    """Kind and code of what failed first in a row that is not done."""
    assert state.closed is not None
    if state.closed.state == "done":
        return "", ""
    failures = run_of(state).failures
    if failures:
        return failures[0][1].kind.value, failures[0][1].code
    return "", state.closed.reason or "output"


def _used(state: State) -> dict[str, Any] | None:
    """What a row has used, without what it has not."""
    said = used(state)
    counts = {
        "tool_calls": said.tool_calls,
        "model_calls": said.model_calls,
        "tokens": said.tokens,
        "cost": said.cost,
    }
    return {name: n for name, n in counts.items() if n} or None
