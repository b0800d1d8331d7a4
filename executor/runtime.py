"""The driver: append, advance, obey. It owns the state, the clock and the dice, and knows no rule of its own.

Whoever brings an event (the task of a call that ends, a timer, a planner) writes it and obeys what follows, at once and
without an await in between; so there is one order of events, and no queue in which one could be lost.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import anyio

from ..planner.models.chat import ChatModel
from ..planner.models.chunks import AIMessageChunk
from ..planner.models.window import Window
from ..planner.planners import Planner
from ..planner.subplans import tools_inside
from ..policies.effect import Effect
from ..policies.errors import BadInput, JournalError
from ..policies.failures import Failure, Happened, Kind
from ..policies.pace import Rules
from ..policies.permissions import Principal
from ..policies.secrets import Secret
from ..policies.text import shorten
from ..registry.schema import Schema, compile_schema
from ..registry.standins import Found, asking, found_in
from ..registry.tools import result_schema
from ..registry.values import Unserialisable, size_of, to_plain
from . import events as e
from .early import Early
from .events import INTERRUPTED, PARKED, PEOPLE, Event, Outcome
from .hands.authorize import Authorize, refusal_of
from .hands.crew import Crew, Member, cancelled, crew_here
from .hands.hands import Guard, Hands, Result, ToolHands, failure_of
from .hands.hearing import hear
from .hands.hooks import Verdict, said_by, subject_of
from .hands.limits import Limiter
from .hands.proposals import answer_of_planner, let_through
from .hands.safe import Safe
from .hands.telling import Listen, Said
from .hands.threads import Threads, breathe
from .hands.turns import Turns, answering, in_turn
from .journal.journal import Log
from .mind.admission import admit, interrupted, out_of_time
from .mind.asking import differs, digest_of, read_edit, rejected_before
from .mind.budget import affords_again, seconds_left
from .mind.mind import advance
from .mind.replanning import replan_request
from .mind.state import Ask, Call, Command, Consult, Perform, Replan, Sleep, State, Think, Write
from .watching import Observer, Watcher

__all__ = ["Answer", "Decide", "Hook", "Host", "Runtime", "answer_to", "decision_made"]


class Answer(NamedTuple):
    """A person's answer to a decision: one of its `options`, who says so, a `value` with some, a reason.

    The value of `accept` and `answer` is the result of the call; that of `edit` is `{"args": {...}}`, with all arguments
    of the call, and `tool` where another is to be called.
    """

    choice: str
    by: str = "someone"
    value: Any = None
    reason: str = ""


Decide: TypeAlias = Callable[[e.DecisionAsked], Awaitable[Answer | str | None]]
"""Answers a decision while the run is live; None leaves it waiting, and so does one that raises or gives no option."""

Hook: TypeAlias = Callable[..., Any]


class Host(NamedTuple):
    """What the host program supplies to a run, and supplies again when it is resumed."""

    planner: Planner | None = None
    hooks: Mapping[str, Hook] = {}
    decide: Decide | None = None
    watch: Callable[[Event], None] | None = None
    listen: Listen | None = None
    """Hears what tools say while they work."""
    clock: Callable[[], float] = time.time
    dice: Callable[[], float] = lambda: 0.5
    hands: Hands | None = None
    authorize: Authorize | None = None
    model: ChatModel | None = None
    """Answers in dialogues."""
    early: Early | None = None
    """Calls that have begun before the plan was whole."""
    window: Window | None = None
    """What of a long dialogue its model hears."""
    chunk: Callable[[AIMessageChunk], None] | None = None
    """Hears the model's answers part by part."""
    child: Callable[[Call, State], Awaitable[Result]] | None = None
    """Makes an attempt of a sub-plan for a run in this state: begins the run that the call is, or takes it up."""
    limiter: Limiter | None = None
    """What all runs of an engine share; without it, a run keeps to the limits on its own."""
    leaving: str = INTERRUPTED
    """Why a run pauses that is cancelled from outside (`RunPaused.reason`)."""
    safe: Safe | None = None
    """Where tools get their secrets from, and what takes them out of all that is written."""
    readers: Sequence[Watcher] = ()
    """Who reads the events of all runs of an engine; they come and go."""
    telemetry: Observer | None = None
    threads: Threads | None = None
    """Where sync tools and hooks run, if not in threads of the run's own."""
    rules: dict[str, Rules] | None = None
    """The pace of tools, by name, as runs of one principal under the same policies have worked it out."""

    def inside(self) -> Host:
        """The host of a sub-plan's run: what stands around its calls is the same, but it is planned, watched and answered
        for by the run that it is a part of."""
        around = {name: hook for name, hook in self.hooks.items() if name in ("before_call", "after_call")}
        return self._replace(
            planner=None,
            hooks=around,
            decide=None,
            watch=None,
            model=None,
            early=None,
            window=None,
            chunk=None,
            child=None,
            leaving=INTERRUPTED,
            rules=None,
        )

    @property
    def watchers(self) -> list[Watcher]:
        """Who sees the events of a run, besides the readers."""
        watch, telemetry = self.watch, self.telemetry
        seen_by = [] if watch is None else [Watcher("watch", lambda event, state: watch(event))]
        return seen_by if telemetry is None else [*seen_by, Watcher("telemetry", telemetry.see)]

    @property
    def asked(self) -> tuple[str, ...]:
        """The names of the hooks that there are, for the opening of a run."""
        return (*self.hooks, *(["authorize"] if self.authorize is not None else []))


_LOG = logging.getLogger("foreplan")


class Runtime:
    """One run, driven in this process."""

    def __init__(self, state: State, log: Log, host: Host) -> None:
        self.state = state
        self.problem: JournalError | None = None
        self._log = log
        self._host = host
        self._clock, self._dice = host.clock, host.dice
        self._limiter = host.limiter or Limiter(host.clock, host.dice)
        self._guard = Guard(state.policies, self._limiter, rules=host.rules)
        self._threads = host.threads or Threads()
        self._hands: Hands = host.hands or ToolHands(
            state.policies,
            self._guard,
            self._threads,
            late=self._came_late,
            listen=self._heard if host.listen is not None else None,
        )
        self._tools = self._hands if isinstance(self._hands, ToolHands) else None
        self._crew: Crew | None = None
        self._over = anyio.Event()
        self._letting_go = False
        self._cancelled = False
        self._asking = 0
        self._watchers = host.watchers
        self._readers = host.readers
        self._safe = host.safe

    # ------------------------------------------------------------------------------------------ driving

    def write(self, event: Event) -> tuple[Command, ...]:
        """Append an event without the secrets in it, advance, and give what follows. Raises `JournalError`."""
        if self._safe is not None and self._safe.scrubber:
            event = self._safe.clean(event)
        self._log.append(event)
        commands = advance(self.state, event)
        if self._watchers or self._readers:
            self._show(event)
        return commands

    def stamp(self) -> tuple[int, float, float]:
        """Place, time and die of the next event; time never runs backwards."""
        return self.state.seq + 1, self._now(), self._dice()

    def _now(self) -> float:
        """The time, never before that of the last event; where the host's clock raises, it stands still."""
        try:
            now, at = self._clock(), self.state.at
            return now if now > at else at
        except Exception:
            _LOG.exception("`clock` raised, so time stands still for run %r", self.state.run)
            return self.state.at

    def _expired(self) -> bool:
        """Whether the approval of this run has come to its end."""
        expires_at = self.state.approval.get("expires_at") if self.state.approval is not None else None
        return expires_at is not None and self._now() >= expires_at

    def _out_of_time(self) -> bool:
        """Whether the seconds of the budget are over: they may have passed while an attempt waited to begin."""
        left = self._seconds_left()
        return left is not None and left <= 0

    def _seconds_left(self) -> float | None:
        return seconds_left(self.state, self._now()) if self.state.bounded else None

    def _show(self, event: Event) -> None:
        """Let everybody see an event who watches; one that raises is not shown another of this run."""
        for watcher in (*self._watchers, *self._readers):
            try:
                watcher.see(event, self.state)
            except Exception:
                self._watchers = [other for other in self._watchers if other is not watcher]
                kind, run = type(event).__name__, self.state.run
                _LOG.exception("`%s` raised at %s, so run %r goes on without it", watcher.name, kind, run)

    def _heard(self, said: Said) -> None:
        """Pass on what a tool says, without secrets."""
        assert self._host.listen is not None
        if self._safe is not None and self._safe.scrubber and said.text:
            said = said._replace(text=self._safe.scrubber.scrub_text(said.text))
        self._host.listen(said)

    async def drive(self, commands: tuple[Command, ...]) -> None:
        """Obey these commands and all that follows, until the run closes or only people are waited for.

        Cancelled from outside, it settles what is under way, writes RunPaused, and lets the cancellation go on.
        """
        try:
            with in_turn(Turns(self.state.policies, self._limiter, self._seconds_left)):
                self._crew = crew_here(self._over.set)
                async with self._crew:
                    self._obey(commands)
                    await self._over.wait()
                    self._letting_go = True
        finally:
            self._letting_go = True
            self._let_go()
            self._crew = None
            if self._tools is not None:
                self._tools.over()

    def cancel(self) -> None:
        """Stop the run for good: calls under way are cancelled, then the run closes as stopped(cancelled)."""
        self._cancelled = True
        self._letting_go = True
        self._over.set()

    def release(self) -> None:
        """Let go of the log: the tail is durable, or `problem` says why it is not."""
        try:
            self._log.close()
        except JournalError as error:
            self.problem = self.problem or error

    def _let_go(self) -> None:
        """Nothing is under way any more: close or pause the run in the journal."""
        state = self.state
        if self.problem is not None or state.closed is not None:
            return
        try:
            if self._cancelled:
                self.write(e.RunClosed(*self.stamp(), "stopped", "cancelled", None, "the run was cancelled"))
            else:
                at_rest = PARKED if state.group is not None else PEOPLE
                reason = at_rest if state.resting else self._host.leaving
                self.write(e.RunPaused(*self.stamp(), reason, tuple(state.decisions)))
        except JournalError as error:
            self.problem = error

    def _obey(self, commands: tuple[Command, ...]) -> None:
        """Carry out commands: what is to be written at once, what takes time in tasks of its own."""
        todo = list(commands)
        try:
            for command in todo:  # it grows meanwhile
                if self._letting_go:
                    break
                if type(command) is Write:
                    todo += self.write(command.kind(*self.stamp(), *command.fields))
                elif type(command) is Perform:
                    member = Member()
                    self._begin(member, self._attempt, command.call, member)
                else:
                    self._other(command)
        except JournalError as error:
            self._fail(error)
        self._look_around()

    def _other(self, command: Command) -> None:
        match command:
            case Sleep():
                self._begin(Member(), self._sleep, command)
            case Replan():
                self._begin(Member(), self._replan, command)
            case Think():
                self._begin(Member(), self._think, command)
            case Consult():
                self._begin(Member(), self._consult, command)
            case Ask():
                if self._can_reconcile(command.decision):
                    self._asking += 1
                    self._begin(Member(), self._reconcile, command)
                elif self._host.decide is not None:
                    self._asking += 1
                    self._begin(Member(), self._ask, command)
            case _:
                raise AssertionError(command)

    def _begin(
        self, member: Member, function: Callable[..., Coroutine[Any, Any, None]], *arguments: Any
    ) -> None:
        assert self._crew is not None
        self._crew.start(member, function, *arguments)

    def _look_around(self) -> None:
        """Whether it is over: closed, or nothing left but people, none of whom is being asked here."""
        state = self.state
        if state.closed is not None or (state.resting and not self._asking):
            self._over.set()

    def _fail(self, error: JournalError) -> None:
        """Nothing more can be recorded, so nothing more is started."""
        self.problem = error
        self._letting_go = True
        self._over.set()

    # ------------------------------------------------------------------------------------------ calls

    async def _attempt(self, call: Call, member: Member) -> None:
        """One attempt of a step, with its start written down; one terminal record, also on cancel."""
        refusal = await self._guard.enter(call, self._expired)
        if refusal is not None:
            self._settle(call, _unbegun(refusal))
            return
        try:
            result = await self._entered(call, member)
        except JournalError as error:  # of this run, or of a sub-plan, which has the same
            self._fail(error)
        except BaseException as error:
            if not member.begun or cancelled() or isinstance(error, KeyboardInterrupt):
                self._settle_cancelled(call, begun=member.begun)
            raise
        else:
            self._settle(call, result)

    async def _written_down(self, call: Call) -> None:
        """The attempt begins: durable before it does anything. Raises `JournalError`."""
        commands = self.write(e.CallStarted(*self.stamp(), call.path, call.attempt))
        if commands:
            self._obey(commands)
        if self.problem is not None:
            raise self.problem
        if call.tool.effect is not Effect.READS:
            await self._log.durable()
        breathe()

    async def _entered(self, call: Call, member: Member | None = None) -> Result:
        """What the guard let in: authorize, secrets, bind, started, perform, leave. The one way to a tool.

        `member`: the task is there for this attempt of a step alone, whose start is to be written down.
        """
        result, held = None, False
        try:
            perform = await self._ready(call, member)
            if isinstance(perform, Result):
                return perform
            if member is not None:
                await self._written_down(call)
                member.begun = True
            self._guard.begin(call)
            result = await self._performed(call, perform)
        finally:
            held = self._guard.leave(call, result)
        return result._replace(outcome=Outcome.CANCELLED) if held else result

    async def _performed(self, call: Call, perform: Callable[[], Awaitable[Result]]) -> Result:
        """What the hands give; a cancellation, Ctrl-C and a journal that fails go through."""
        try:
            return await perform()
        except JournalError:
            raise
        except BaseException as error:
            await let_through(error)
            return self._broken(call, error)

    async def _ready(self, call: Call, member: Member | None) -> Callable[[], Awaitable[Result]] | Result:
        """How the attempt is made, let by the host, with its secrets in hand; or how it ends without having begun."""
        if self._host.authorize is not None:
            seconds = self.state.policies.hook_timeout
            refusal = await refusal_of(self._host.authorize, call, seconds, self._threads, member)
            if refusal is not None:
                return _unbegun(refusal)
        if call.tool.secret_refs:
            secrets = await self._secrets(call)
            if isinstance(secrets, Failure):
                return _unbegun(secrets)
            call = call._replace(secrets=secrets)
        begun = self._host.early.answer_to(call) if self._host.early is not None else None
        perform = begun or self._bound(call, member)
        if isinstance(perform, Failure):
            return _unbegun(perform)
        return Result(Outcome.CANCELLED, None, out_of_time()) if self._out_of_time() else perform

    async def _secrets(self, call: Call) -> Mapping[str, Secret] | Failure:
        if self._safe is None:
            return Failure(
                Kind.PERMISSION, "secret_unavailable", "this run has no vault to take secrets from"
            )
        return await self._safe.secrets_for(call.tool)

    def _bound(self, call: Call, member: Member | None) -> Callable[[], Awaitable[Result]] | Failure:
        """How the attempt is made; or why it is not begun: its arguments make no values of the tool's types."""
        if call.tool.answered_by == "plan" and self._host.child is not None:
            return partial(self._host.child, call, self.state)
        if self._tools is None:
            return partial(self._hands.perform, call)
        bound = self._tools.bind(call)
        return bound if isinstance(bound, Failure) else partial(self._tools.make, bound, member)

    def _broken(self, call: Call, error: BaseException) -> Result:
        """Hands that raise did not keep their promise: whether the call took place, nobody knows."""
        failure = failure_of(error, self.state.policies)._replace(happened=Happened.MAYBE)
        return Result(Outcome.FAILED if call.tool.resumable else Outcome.UNKNOWN, None, failure)

    def _settle(self, call: Call, result: Result) -> None:
        if self.problem is not None:
            return
        try:
            outcome, value, failure, usage, questions = result
            settled = e.CallSettled(
                *self.stamp(), call.path, call.attempt, outcome, value, failure, None, usage, questions
            )
            commands = self.write(settled)
        except JournalError as error:
            self._fail(error)
            return
        self._obey(commands)

    def _settle_cancelled(self, call: Call, *, begun: bool) -> None:
        """The attempt was cut short: unknown where the tool acts and had begun, else as if it had not been."""
        self._letting_go = True  # only the end of the whole run cancels an attempt
        usage = self._tools.cut.pop(call.path, None) if self._tools is not None else None
        if begun and not call.tool.resumable:
            self._settle(call, Result(Outcome.UNKNOWN, None, interrupted(), usage))
        else:
            self._settle(call, Result(Outcome.CANCELLED, usage=usage))

    def _came_late(self, call: Call, result: Result) -> None:
        """A thread that outlived its deadline ended: that can settle an outcome that was unknown."""
        active = self.state.calls.get(call.path)
        if active is not None and active.tool is not call.tool:
            return  # it was asked what became of the call, and nobody waits for that any more
        if self._letting_go or self.problem is not None or active is None or active.attempt != call.attempt:
            return
        answer = _late_answer(result)
        for id_, decision in self.state.decisions.items():
            if answer is not None and decision.about == "unknown" and decision.path == call.path:
                self._decided(id_, answer)
                return

    # ------------------------------------------------------------------------------------------ waits and questions

    async def _sleep(self, command: Sleep) -> None:
        await anyio.sleep(max(0.0, command.until - self._now()))
        if self.state.open.get(command.path) is command:
            self._answer(lambda: e.TimerFired(*self.stamp(), command.path))

    async def _ask(self, command: Ask) -> None:
        """Ask a person here; without a good answer the question stays open."""
        answer = None
        try:
            answer = await self._person(command.decision)
        except BaseException as error:
            await let_through(error)
            _LOG.exception("`decide` failed at %r, so the question stays open", command.decision.id)
        finally:
            self._asking -= 1
        if answer is not None and command.decision.id in self.state.decisions:
            self._decided(command.decision.id, answer)
        else:
            self._look_around()

    async def _person(self, decision: e.DecisionAsked) -> Answer | None:
        assert self._host.decide is not None
        said = await self._host.decide(decision)
        open_ = (
            said is not None and decision.id in self.state.decisions
        )  # a late result may have answered meanwhile
        if not open_ or said is None:
            return None
        try:
            return answer_to(self.state, decision, said)
        except BadInput as error:
            _LOG.warning("the question stays open: %s", error)
            return None

    def _can_reconcile(self, decision: e.DecisionAsked) -> bool:
        """Whether the tool can be asked what became of its call, before anybody is; not about a call in a sub-plan."""
        if decision.about != "unknown" or "of" in decision.question:
            return False
        return self.state.calls[decision.path].tool.reconcile is not None

    async def _reconcile(self, command: Ask) -> None:
        """Ask the tool, once; where it does not know, the question is one for people."""
        answer = None
        try:
            answer = await self._reconciled(command.decision)
        except BaseException as error:
            await let_through(error)
            _LOG.exception("`reconcile` failed at %r, so the question stays open", command.decision.id)
        finally:
            self._asking -= 1
        open_ = command.decision.id in self.state.decisions
        if answer is not None and open_:
            self._decided(command.decision.id, answer)
        elif self._host.decide is not None and open_:
            self._asking += 1
            await self._ask(command)
        else:
            self._look_around()

    async def _reconciled(self, decision: e.DecisionAsked) -> Answer | None:
        """What the tool itself says of an unknown outcome; None where it cannot say, or may not be asked."""
        state, active = self.state, self.state.calls[decision.path]
        tool = active.tool
        if admit(state, tool, active.args) is not None:
            return None
        timeout = state.policies.tool_timeout if tool.timeout_unset else tool.timeout
        asked = asking(tool)
        call = Call(
            state.run, active.path, asked, active.args, active.key, active.attempt, timeout, state.principal
        )
        result = await self._guarded(call)
        by = f"reconcile of {tool.name}"
        said = found_in(result.value) if result.outcome is Outcome.OK else None
        if isinstance(said, Found):
            return answer_to(state, decision, Answer("accept", by, said.value))
        if said is False and active.attempt < state.policies.retry.attempts:
            return Answer("retry", by, reason="it did not happen")
        return None

    async def _guarded(self, call: Call) -> Result:
        """A call beside those of the plan, which the journal knows by what is made of it: through the same guard."""
        refusal = await self._guard.enter(call, self._expired)
        return await self._entered(call) if refusal is None else _unbegun(refusal)

    def _decided(self, id_: str, answer: Answer) -> None:
        self._answer(lambda: decision_made(id_, answer, self.stamp()))

    async def _consult(self, command: Consult) -> None:
        said, failure = Verdict(), None
        try:
            with anyio.move_on_after(self._hook_seconds(command)) as scope:
                said = await self._hook(command)
            if scope.cancelled_caught:
                failure = Failure(Kind.TIMEOUT, "deadline", "the hook gave no answer in time")
        except BaseException as error:
            await let_through(error)
            failure = failure_of(error, self.state.policies)
        if command.settled is not None:
            said = said_by(command, None)
        self._answer(
            lambda: e.HookAnswered(
                *self.stamp(), command.hook, said.answer, said.note, failure, said.value, command.path
            )
        )

    def _hook_seconds(self, command: Consult) -> float | None:
        """A hook around a call holds it up, so it has a time limit; the others may wait for people."""
        return self.state.policies.hook_timeout if command.tool is not None else None

    async def _hook(self, command: Consult) -> Verdict:
        hook = self._host.hooks.get(command.hook)
        if hook is None:
            note = f"the run was opened with a hook {command.hook!r}, which this engine does not have"
            return Verdict("stop", note)
        subject = subject_of(self.state, command)
        if command.tool is not None:  # it has a time limit, which only a thread or a coroutine keeps to
            return said_by(command, await self._threads.ask(hook, *subject))
        said = hook(*subject)
        dialogue = self.state.dialogue
        history = dialogue.history if dialogue is not None else ()
        return said_by(command, await said if isinstance(said, Awaitable) else said, history)

    async def _think(self, command: Think) -> None:
        answer = await self._model_answer()
        self._answer(lambda: e.ModelAnswered(*self.stamp(), "react", **answer))

    async def _model_answer(self) -> dict[str, Any]:
        """What the model of the dialogue said, as the fields of ModelAnswered."""
        model, seconds, dialogue = self._host.model, self.state.policies.planner_timeout, self.state.dialogue
        assert dialogue is not None
        if model is None:
            return {"failure": Failure(Kind.BUSINESS, "no_model", "this engine has no model to ask")}
        try:
            with answering(seconds) as clock:
                said = await hear(
                    model, dialogue, self.state.tools, window=self._host.window, listener=self._host.chunk
                )
                return {**said, "queued": clock.queued}
        except BaseException as error:
            await let_through(error)
            if not clock.scope.cancelled_caught:
                failure = failure_of(error, self.state.policies)
                return {"failure": failure, "usage": clock.usage, "queued": clock.queued}
        message = f"the model gave no answer within {seconds:g} s"
        failure = Failure(Kind.TIMEOUT, "deadline", message, happened=Happened.NO)
        return {"failure": failure, "queued": clock.queued}

    async def _replan(self, command: Replan) -> None:
        planner, policies = self._host.planner, self.state.policies
        asks = self.state.planner_calls
        answer = await answer_of_planner(
            planner,
            replan_request(self.state, command),
            policies,
            self._dice,
            self._seconds_left,
            asks=asks,
            affords=lambda usage: affords_again(self.state, usage, asks),
        )
        self._answer(lambda: e.ModelAnswered(*self.stamp(), "replan", **answer))

    def _answer(self, event: Callable[[], Event]) -> None:
        """Write an answer of the world and obey what follows."""
        if self._letting_go or self.problem is not None:
            return
        try:
            commands = self.write(event())
        except JournalError as error:
            self._fail(error)
            return
        self._obey(commands)


def _unbegun(failure: Failure) -> Result:
    """An attempt that was refused before it began."""
    return Result(Outcome.FAILED, None, failure)


def decision_made(id_: str, answer: Answer, stamp: tuple[int, float, float]) -> e.DecisionMade:
    """The event of an answer to an open decision; the engine has checked that the choice is one of its options."""
    return e.DecisionMade(*stamp, id_, answer.choice, answer.by, answer.value, answer.reason)


def answer_to(
    state: State, asked: e.DecisionAsked, said: Answer | str, principal: Principal | None = None
) -> Answer:
    """A person's answer, sound and plain. Raises `BadInput` where it is no option, or what comes with it does not do.

    `principal` is for whom the run is about to go on, if that is not yet in its journal.
    """
    answer = Answer(said) if isinstance(said, str) else said
    if not isinstance(answer, Answer):
        options = ", ".join(asked.options)
        raise BadInput(
            f"an answer to {asked.id!r} is an Answer or a word ({options}), not {shorten(repr(said), 60)}"
        )
    if answer.choice not in asked.options:
        raise BadInput(
            f"{answer.choice!r} is no answer to {asked.id!r}; say one of {', '.join(asked.options)}"
        )
    try:
        plain = answer._replace(
            value=to_plain(answer.value), by=to_plain(str(answer.by)), reason=to_plain(str(answer.reason))
        )
    except Unserialisable as error:
        raise BadInput(f"the answer to {asked.id!r} is no JSON: {error}") from None
    most = state.policies.limits.result_bytes
    if size_of(plain.value) > most:
        raise BadInput(
            f"the value of the answer to {asked.id!r} is over {most:,} bytes; give what is asked for"
        )
    schema = _wanted(state, asked) if answer.choice in ("accept", "answer") else None
    problems = schema.problems(plain.value) if schema is not None else []
    if problems:
        said_so = "; ".join(f"{p.pointer or 'the whole'}: {p.message}" for p in problems[:3])
        raise BadInput(f"the value of the answer to {asked.id!r} is not what is wanted: {said_so}")
    if answer.choice in ("approve", "edit", "retry") and asked.path and "of" not in asked.question:
        difference = differs(state.calls[asked.path], asked.question)
        if difference:
            raise BadInput(f"{difference}; reject it")
    if answer.choice == "edit":
        _check_edit(state, asked, plain.value, principal or state.principal)
    return plain


def _check_edit(state: State, asked: e.DecisionAsked, value: Any, principal: Principal) -> None:
    """Raises `BadInput` for an edit that would not be admitted."""
    active = state.calls[asked.path]
    tools = state.contracted
    if "of" in asked.question:
        inside = tools_inside(active.tool, asked.question["of"])
        if inside is None:
            return  # the run inside judges it
        tools = {tool.name: tool for tool in inside}
    try:
        tool, admission = read_edit(value, asked.question["tool"], tools, principal, state.policies)
    except BadInput as error:
        raise BadInput(f"the edit of {asked.id!r} is refused: {error}") from None
    failure = admission.failure
    if failure is None and "of" not in asked.question:
        failure = rejected_before(state, active.edited(tool, admission.args, digest_of(admission.args)))
    if failure is not None:
        raise BadInput(f"the edit of {asked.id!r} is refused: {failure.message}")


def _wanted(state: State, asked: e.DecisionAsked) -> Schema | None:
    """The schema of the value that comes with an answer: the call's own, or that of every result of the tool."""
    active = state.calls[asked.path]
    of_child = "of" in asked.question  # a question of a sub-plan is about a call that is not known here
    stated = asked.question.get("schema") if of_child else result_schema(active.tool, active.args)
    if stated is not None:
        return compile_schema(stated, closed=True)
    return None if of_child else active.tool.output


def _late_answer(result: Result) -> Answer | None:
    """What a late result says about an unknown outcome: nothing, where it does not know either."""
    if result.outcome is Outcome.OK:
        return Answer("accept", "the tool itself, late", result.value)
    if result.outcome is Outcome.UNKNOWN:
        return None
    return Answer("fail", "the tool itself, late", reason=result.failure.message if result.failure else "")
