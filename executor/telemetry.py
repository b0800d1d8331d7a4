"""OpenTelemetry: spans and metrics of runs, made of the events that the journal gets. Needs `foreplan[otel]`.

    invoke_workflow                     a run (of a plan; `invoke_agent`: a dialogue); linked to the part before a resume
      execute_tool refund               an attempt of a call; current in the tool, so that its own spans are below
        invoke_workflow                 a call of a sub-plan is a run
        chat small-model                a question to a model, wherever one is asked
    foreplan.plan                       the making of a plan
    foreplan.batch                      a batch, with what it asks the planner; each row is a run in a trace of its own, linked to it

Names follow the GenAI semantic conventions where there are some (`gen_ai.*`, still in development there); the others begin
with `foreplan.`. Arguments, results, prompts, messages are told with `content=True` only, and never a secret. Metrics have no
attribute whose values grow with the runs: no run, no step, no code that a tool made up.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from ..planner.models.chat import asked_under, name_of
from ..planner.models.messages import AIMessage, Message
from ..policies.errors import BadInput, JournalError
from ..policies.failures import Failure
from ..policies.policies import Budget
from ..policies.secrets import Scrubber
from ..policies.spelling import spelled
from . import events as e
from .events import Event, Outcome, Path, path_text
from .hands.limits import Limiter
from .journal.journal import Journal, Log
from .mind.batch import BatchState, summary
from .mind.budget import Used, left, used
from .mind.state import State

with suppress(ImportError):  # an extra: `Telemetry` says so
    from opentelemetry import context, metrics, trace

__all__ = ["Telemetry"]

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0)
_TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
"""As the conventions advise for `gen_ai.client.token.usage`."""
_MOST = 16_384
"""Characters of one attribute that holds content."""
_CODE = re.compile(r"[a-z][a-z0-9_.]{0,63}", re.ASCII)
_Attributes = dict[str, Any]


class _Told:
    """What is told of a run under way."""

    __slots__ = ("asked", "calls", "ended", "ready", "scrub", "span")

    def __init__(self, span: trace.Span, scrub: Callable[[Any], Any]) -> None:
        self.span = span
        self.scrub = scrub
        self.ready: dict[Path, float] = {}
        """Since when a call could begin."""
        self.calls: dict[Path, tuple[trace.Span, float, str, str]] = {}
        """Attempts under way: the span, when it began, the tool, who answers it."""
        self.asked: dict[str, e.DecisionAsked] = {}
        self.ended = False


class _ToldOfBatch:
    """What is told of a batch under way."""

    __slots__ = ("asked", "raised", "scrub", "span")

    def __init__(self, span: trace.Span, scrub: Callable[[Any], Any]) -> None:
        self.span = span
        self.scrub = scrub
        self.raised = ""
        self.asked: dict[str, e.DecisionAsked] = {}


class Telemetry:
    """Spans and metrics of an engine's runs: `Engine(..., telemetry=Telemetry())`. Several engines may share one.

    Without providers those that the process has set are used. `content`: also tell arguments, results and messages.
    """

    @spelled
    def __init__(
        self,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
        *,
        content: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if "trace" not in globals():
            raise BadInput("telemetry needs OpenTelemetry: pip install 'foreplan[otel]'")
        self.content = content
        self._clock = clock
        self._tracer = trace.get_tracer("foreplan", tracer_provider=tracer_provider)
        self._runs: WeakKeyDictionary[State, _Told] = WeakKeyDictionary()
        self._batches: WeakKeyDictionary[BatchState, _ToldOfBatch] = WeakKeyDictionary()
        self._limiters: WeakSet[Limiter] = WeakSet()
        self._journals: WeakSet[Journal] = WeakSet()
        self._make_instruments(metrics.get_meter("foreplan", meter_provider=meter_provider))
        self._on: dict[type, Callable[[Any, State, _Told | None], None]] = {
            e.RunOpened: self._opened,
            e.RunResumed: self._resumed,
            e.RowReopened: self._resumed,
            e.PlanAccepted: self._accepted,
            e.CallAdmitted: self._admitted,
            e.CallStarted: self._started,
            e.CallSettled: self._settled,
            e.TimerFired: self._admitted,
            e.DecisionAsked: self._asked,
            e.DecisionMade: self._answered,
            e.ModelAnswered: self._model_answered,
            e.PatchAccepted: self._patched,
            e.PatchRefused: self._patched,
            e.RunPaused: self._paused,
            e.RunClosed: self._closed,
        }
        self._on_batch: dict[type, Callable[[Any, BatchState, _ToldOfBatch | None], None]] = {
            e.BatchOpened: self._batch_opened,
            e.RunResumed: self._batch_resumed,
            e.RowsReopened: self._batch_resumed,
            e.RowSettled: self._row_settled,
            e.ToolHeld: self._held,
            e.ToolFreed: self._held,
            e.GroupFormed: self._group_formed,
            e.GroupSettled: self._group_settled,
            e.PatchRefused: self._group_patch_refused,
            e.ModelAnswered: self._batch_answered,
            e.DecisionAsked: self._batch_asked,
            e.DecisionMade: self._batch_decided,
        }

    def _make_instruments(self, meter: metrics.Meter) -> None:
        def seconds(name: str, description: str) -> metrics.Histogram:
            return meter.create_histogram(
                name, unit="s", description=description, explicit_bucket_boundaries_advisory=_SECONDS
            )

        counter, up_down = meter.create_counter, meter.create_up_down_counter
        self._calls = counter("foreplan.calls", "{call}", "Attempts of calls, by how they ended")
        self._call_seconds = seconds("foreplan.call.duration", "From the start of an attempt to its end")
        self._queue_seconds = seconds("foreplan.call.queue", "From the admission of an attempt to its start")
        self._model_queue = seconds("foreplan.model.queue", "How long a question waited for its turn")
        self._ended_runs = counter("foreplan.runs", "{run}", "Runs that ended or were put aside, by state")
        self._rows = counter("foreplan.rows", "{row}", "Rows of batches that ended, by how and why")
        self._active_runs = up_down("foreplan.runs.active", "{run}", "Runs under way")
        self._run_seconds = seconds("foreplan.run.duration", "From the opening of a run to its end")
        self._missed = counter(
            "foreplan.run.deadline.missed", "{run}", "Runs that ended later than they were wanted to"
        )
        self._replans = counter("foreplan.replans", "{patch}", "Patches of plans, taken or refused")
        self._waiting = up_down(
            "foreplan.decisions.waiting", "{decision}", "Questions to people in runs under way"
        )
        self._model_calls = counter("foreplan.model.calls", "{call}", "Questions to models, by purpose")
        self._tokens = counter("foreplan.tokens", "{token}", "Tokens that models read and wrote, by purpose")
        self._cost = counter("foreplan.cost", "{cost}", "What tools and models cost, in their own unit")
        self._commits = seconds("foreplan.journal.wait", "How long a call waited until its start was durable")
        self._chat_seconds = seconds("gen_ai.client.operation.duration", "GenAI operation duration")
        self._chat_tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Number of input and output tokens used",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )
        gauge = meter.create_observable_gauge
        gauge("foreplan.runs.late", [self._late], "{run}", "Runs under way that are past their deadline")
        gauge("foreplan.runs.waiting", [self._resting], "{run}", "Runs in the journal that wait for people")
        gauge("foreplan.budget.used", [self._used], "1", "The most that a run under way has used of a bound")
        gauge(
            "foreplan.breaker.open",
            [self._broken],
            "{breaker}",
            "Whether a breaker keeps calls of a tool back",
        )

    # ------------------------------------------------------------------------------------------ for the engine

    def begin(
        self,
        state: State,
        run: str,
        scrubber: Scrubber,
        *,
        dialogue: bool = False,
        batch: BatchState | None = None,
    ) -> str:
        """The span of a run that is about to be opened, or resumed; gives its `traceparent`, "" if nobody records it.

        That of a row begins a trace, so that ten thousand rows are not one; it is linked to the span of its `batch`.
        """
        told = self._runs.get(state)
        if told is None:
            told = self._runs[state] = self._begun(state, run, scrubber, dialogue, batch)
        return _traceparent(told.span.get_span_context())

    def _begun(
        self, state: State, run: str, scrubber: Scrubber, dialogue: bool, batch: BatchState | None
    ) -> _Told:
        name = "invoke_agent" if dialogue else "invoke_workflow"
        attributes: _Attributes = {"gen_ai.operation.name": name, "foreplan.run.id": run}
        links, above = [_link(state.trace)], None
        whole = self._batches.get(batch) if batch is not None else None
        if whole is not None and batch is not None:
            links.append(trace.Link(whole.span.get_span_context()))
            above = trace.set_span_in_context(trace.INVALID_SPAN)
            attributes |= {"foreplan.batch.id": batch.run, "foreplan.row.ordinal": state.ordinal}
        span = self._tracer.start_span(name, above, attributes=attributes, links=[*filter(None, links)])
        told = _Told(span, scrubber.scrub)
        if whole is not None:
            span.set_attributes(self._content(told, "foreplan.run.inputs", state.inputs))
        return told

    @contextmanager
    def driving(self, state: State) -> Iterator[None]:
        """While a run is driven: what happens is below its span."""
        told = self._runs.get(state)
        if told is None:
            yield
            return
        self._active_runs.add(1)
        token = context.attach(trace.set_span_in_context(told.span))
        try:
            with asked_under(partial(self._chat, told.scrub)):
                yield
        finally:
            context.detach(token)
            self._active_runs.add(-1)
            self._over(state, told)

    @contextmanager
    def batch(self, state: BatchState, run: str, scrubber: Scrubber) -> Iterator[str]:
        """While a batch is driven, from before its first event here; gives the `traceparent` of its span."""
        before = _link(state.trace)
        attributes = {"foreplan.batch.id": run}
        span = self._tracer.start_span(
            "foreplan.batch", attributes=attributes, links=[before] if before else None
        )
        told = self._batches[state] = _ToldOfBatch(span, scrubber.scrub)
        try:
            with (
                trace.use_span(span, record_exception=False, set_status_on_exception=False),
                asked_under(partial(self._chat, told.scrub)),
            ):
                yield _traceparent(span.get_span_context())
        except Exception as error:
            told.raised = type(error).__name__
            self._raised(span, error, told.scrub)
            raise
        finally:
            del self._batches[state]
            self._batch_over(state, told)

    @contextmanager
    def planning(self, scrubber: Scrubber) -> Iterator[None]:
        """While a plan is made."""
        with (
            self._tracer.start_as_current_span(
                "foreplan.plan", record_exception=False, set_status_on_exception=False
            ) as span,
            asked_under(partial(self._chat, scrubber.scrub)),
        ):
            try:
                yield
            except Exception as error:
                self._raised(span, error, scrubber.scrub)
                raise

    def timed(self, log: Log) -> Log:
        """This log, with the time measured that is waited for it."""
        return _Timed(log, self._commits.record)

    def knows(self, limiter: Limiter | None, journal: Journal) -> None:
        """Tell of the breakers of an engine, and of the runs in its journal that wait for people."""
        if limiter is not None:
            self._limiters.add(limiter)
        self._journals.add(journal)

    def see(self, event: Event, state: State) -> None:
        """Tell of an event."""
        on = self._on.get(type(event))
        if on is not None:
            on(event, state, self._runs.get(state))

    def see_batch(self, event: Event, state: BatchState) -> None:
        """Tell of an event of a batch."""
        on = self._on_batch.get(type(event))
        if on is not None:
            on(event, state, self._batches.get(state))

    # ------------------------------------------------------------------------------------------ runs

    def _opened(self, event: e.RunOpened, state: State, told: _Told | None) -> None:
        self._count_usage("plan", event.spent)
        if told is not None:
            said: _Attributes = {}
            if event.parent:
                said["foreplan.run.parent"] = event.parent
            if event.deadline is not None:
                said["foreplan.run.deadline"] = float(event.deadline)
            told.span.set_attributes(said | self._content(told, "foreplan.run.inputs", event.inputs))

    def _resumed(self, event: e.RunResumed | e.RowReopened, state: State, told: _Told | None) -> None:
        if told is None:
            return
        told.span.set_attribute("foreplan.run.resumed", True)
        told.ready = dict.fromkeys(state.calls, event.at)
        for asked in state.decisions.values():
            told.asked[asked.id] = asked
            self._waiting.add(1, {"about": asked.about})

    def _accepted(self, event: e.PlanAccepted, state: State, told: _Told | None) -> None:
        if told is not None:
            told.span.set_attribute("foreplan.plan.digest", event.digest)
            told.span.set_attributes(self._content(told, "foreplan.goal", event.plan.goal))

    def _paused(self, event: e.RunPaused, state: State, told: _Told | None) -> None:
        alone = "interrupted" if state.group is None else "patch"
        reason = "people" if state.resting and state.decisions else alone
        self._end("waiting", reason, state, told)

    def _closed(self, event: e.RunClosed, state: State, told: _Told | None) -> None:
        away = state.away if state.common is not None else 0.0  # a row is opened long before it begins
        took = max(0.0, event.at - state.opened_at - away)
        self._run_seconds.record(took, {"state": event.state})
        late = state.deadline is not None and took > state.deadline
        if late:
            self._missed.add(1)
        if told is not None:
            if state.deadline is not None:
                told.span.set_attribute("foreplan.run.late", late)
            told.span.set_attributes(self._content(told, "foreplan.run.output", event.output))
        self._end(event.state, event.reason, state, told)

    def _end(self, stands: str, reason: str, state: State, told: _Told | None) -> None:
        self._ended_runs.add(1, {"state": stands, "reason": reason})
        if told is None:
            return
        told.ended = True
        if told.span.is_recording():
            said: _Attributes = {
                "foreplan.run.state": stands,
                "foreplan.run.tool_calls": state.tool_calls,
                "foreplan.run.model_calls": state.model_calls,
                "foreplan.run.tokens": state.tokens,
                "foreplan.run.replans": state.replans,
            }
            told.span.set_attributes(said | ({"foreplan.run.reason": reason} if reason else {}))
            if stands in ("failed", "stopped"):
                _fail(told.span, reason or stands)

    def _over(self, state: State, told: _Told) -> None:
        """A run is not driven any more; where no event says so, its journal failed."""
        self._runs.pop(state, None)
        for span, *_ in told.calls.values():
            _fail(span, "journal")
            span.end()
        if not told.ended:
            self._end("stopped", "journal", state, told)
        for asked in told.asked.values():
            self._waiting.add(-1, {"about": asked.about})
        told.span.end()

    # ------------------------------------------------------------------------------------------ batches

    def _batch_opened(self, event: e.BatchOpened, state: BatchState, told: _ToldOfBatch | None) -> None:
        self._count_usage("plan", event.spent)
        if told is not None:
            told.span.set_attribute("foreplan.plan.digest", event.digest)
            told.span.set_attributes(self._content(told, "foreplan.goal", event.plan.goal))

    def _batch_resumed(
        self, event: e.RunResumed | e.RowsReopened, state: BatchState, told: _ToldOfBatch | None
    ) -> None:
        if told is None:
            return
        told.span.set_attribute("foreplan.batch.resumed", True)
        for asked in state.decisions.values():
            self._batch_asked(asked, state, told)

    def _row_settled(self, event: e.RowSettled, state: BatchState, told: _ToldOfBatch | None) -> None:
        if event.ordinal:
            self._rows.add(1, {"status": event.status, "kind": event.kind})

    def _held(self, event: e.ToolHeld | e.ToolFreed, state: BatchState, told: _ToldOfBatch | None) -> None:
        if told is not None:
            name = "foreplan.tool.held" if isinstance(event, e.ToolHeld) else "foreplan.tool.freed"
            told.span.add_event(name, {"gen_ai.tool.name": event.tool})

    def _group_formed(self, event: e.GroupFormed, state: BatchState, told: _ToldOfBatch | None) -> None:
        if told is not None:
            told.span.add_event("foreplan.group.formed", {"foreplan.group.rows": event.rows})

    def _group_settled(self, event: e.GroupSettled, state: BatchState, told: _ToldOfBatch | None) -> None:
        if event.patch is None:
            return
        self._replans.add(1, {"result": "accepted"})
        if told is not None:
            told.span.add_event("foreplan.plan.patched")

    def _group_patch_refused(
        self, event: e.PatchRefused, state: BatchState, told: _ToldOfBatch | None
    ) -> None:
        self._replans.add(1, {"result": "refused"})
        if told is not None:
            told.span.add_event("foreplan.patch.refused")

    def _batch_answered(self, event: e.ModelAnswered, state: BatchState, told: _ToldOfBatch | None) -> None:
        asks = state.opened.planner_calls if state.opened is not None else 1
        self._count_usage(event.purpose, {"model_calls": asks, **(event.usage or {})})

    def _batch_asked(self, event: e.DecisionAsked, state: BatchState, told: _ToldOfBatch | None) -> None:
        if told is not None:
            told.asked[event.id] = event
            self._waiting.add(1, {"about": event.about})

    def _batch_decided(self, event: e.DecisionMade, state: BatchState, told: _ToldOfBatch | None) -> None:
        asked = told.asked.pop(event.id, None) if told is not None else None
        if asked is not None:
            self._waiting.add(-1, {"about": asked.about})

    def _batch_over(self, state: BatchState, told: _ToldOfBatch) -> None:
        """A batch is not driven any more; where it neither closed nor paused, something raised, or its journal failed."""
        closed = state.closed
        stands = closed.state if closed is not None else "waiting" if state.waiting else "stopped"
        said = {name: n for name, n in summary(state).items() if isinstance(n, int)}
        told.span.set_attributes({f"foreplan.batch.{name}": n for name, n in said.items()})
        told.span.set_attribute("foreplan.batch.state", stands)
        if closed is not None and closed.reason:
            told.span.set_attribute("foreplan.batch.reason", closed.reason)
        if stands in ("failed", "stopped"):
            _fail(told.span, (closed.reason if closed is not None else told.raised or "journal") or stands)
        for asked in told.asked.values():
            self._waiting.add(-1, {"about": asked.about})
        told.span.end()

    def _raised(self, span: trace.Span, error: Exception, scrub: Callable[[Any], Any]) -> None:
        """What came out of it. What that says is content, which the status of a span would tell in any case."""
        kind = type(error).__name__
        _fail(span, kind)
        if self.content and span.is_recording():
            said = _json("exception.message", scrub(str(error)))
            span.add_event("exception", {"exception.type": kind, **said})

    # ------------------------------------------------------------------------------------------ calls

    def _admitted(self, event: e.CallAdmitted | e.TimerFired, state: State, told: _Told | None) -> None:
        if told is not None:
            told.ready[event.path] = event.at

    def _started(self, event: e.CallStarted, state: State, told: _Told | None) -> None:
        """Begin the span of an attempt, in the task that makes it: so it is the current one in the tool, and nowhere else."""
        active = state.calls.get(event.path)
        if active is None or told is None:
            return
        tool, queued = active.tool, max(0.0, event.at - told.ready.pop(event.path, event.at))
        self._queue_seconds.record(queued, {"tool": tool.name})
        parent = trace.set_span_in_context(told.span)
        span = self._tracer.start_span(f"execute_tool {tool.name}", parent)
        told.calls[event.path] = span, event.at, tool.name, tool.answered_by
        if span.is_recording():
            said: _Attributes = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": tool.name,
                "gen_ai.tool.type": "function",
                "gen_ai.tool.call.id": active.key,
                "foreplan.run.id": state.run,
                "foreplan.step": path_text(event.path),
                "foreplan.call.attempt": event.attempt,
                "foreplan.call.effect": tool.effect.value,
                "foreplan.call.queue_time": queued,
            } | self._content(told, "gen_ai.tool.call.arguments", active.args)
            span.set_attributes(said)
        context.attach(trace.set_span_in_context(span, context.get_current()))

    def _settled(self, event: e.CallSettled, state: State, told: _Told | None) -> None:
        begun = told.calls.pop(event.path, None) if told is not None else None
        name = begun[2] if begun is not None else _tool_at(state, event.path)
        said = {"tool": name, "outcome": event.outcome.value}
        kind = event.failure.kind.value if event.failure is not None else ""
        self._calls.add(1, said | {"kind": kind})
        if begun is None or begun[3] != "plan":  # what a sub-plan used, its own run tells
            self._count_usage("call", event.usage)
        if told is None:
            return
        if begun is None:
            told.span.add_event(
                "foreplan.call.refused",
                said | {"foreplan.step": path_text(event.path), **_why(event.failure)},
            )
            return
        span, at, *_ = begun
        self._call_seconds.record(max(0.0, event.at - at), said)
        if span.is_recording():
            span.set_attribute("foreplan.call.outcome", event.outcome.value)
            span.set_attributes(_why(event.failure))
            if event.outcome is Outcome.OK:
                span.set_attributes(self._content(told, "gen_ai.tool.call.result", event.value))
            elif event.outcome is not Outcome.CANCELLED:
                _fail(span, kind or event.outcome.value)
            if event.failure is not None:
                span.set_attributes(self._content(told, "foreplan.failure.message", event.failure.message))
        span.end()

    # ------------------------------------------------------------------------------------------ people, models, plans

    def _asked(self, event: e.DecisionAsked, state: State, told: _Told | None) -> None:
        if told is not None:
            told.asked[event.id] = event
            self._waiting.add(1, {"about": event.about})

    def _answered(self, event: e.DecisionMade, state: State, told: _Told | None) -> None:
        asked = told.asked.pop(event.id, None) if told is not None else None
        if asked is not None and told is not None:
            self._waiting.add(-1, {"about": asked.about})
            told.ready[asked.path] = event.at

    def _model_answered(self, event: e.ModelAnswered, state: State, told: _Told | None) -> None:
        asks = state.planner_calls if event.purpose == "replan" else 1
        self._count_usage(event.purpose, {"model_calls": asks, **(event.usage or {})})

    def _patched(self, event: e.PatchAccepted | e.PatchRefused, state: State, told: _Told | None) -> None:
        taken = isinstance(event, e.PatchAccepted)
        if not _is_of_group(event):  # its batch counts it, once for all rows
            self._replans.add(1, {"result": "accepted" if taken else "refused"})
        if told is not None:
            told.span.add_event("foreplan.plan.patched" if taken else "foreplan.patch.refused")

    def _count_usage(self, purpose: str, usage: Mapping[str, Any] | None) -> None:
        if not usage:
            return
        for name, direction in (("input_tokens", "input"), ("output_tokens", "output"), ("tokens", "both")):
            if usage.get(name):
                self._tokens.add(usage[name], {"purpose": purpose, "direction": direction})
        if usage.get("model_calls"):
            self._model_calls.add(usage["model_calls"], {"purpose": purpose})
        if usage.get("cost"):
            self._cost.add(float(usage["cost"]), {"purpose": purpose})

    @contextmanager
    def _chat(
        self,
        scrub: Callable[[Any], Any],
        model: object,
        messages: Sequence[Message],
        waited: float | None,
    ) -> Iterator[Callable[[AIMessage], None]]:
        """Around a question to a model; is given the answer."""
        name = _text_of(model, "model") or _text_of(model, "name")
        said = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": _text_of(model, "provider") or "_OTHER",
        }
        said |= {"gen_ai.request.model": name} if name else {}
        queued: _Attributes = {}
        if waited is not None:
            queued = {"foreplan.model.queue_time": waited}
            self._model_queue.record(waited, {"model": name_of(model)})
        began = time.perf_counter()
        failed: _Attributes = {}
        with self._tracer.start_as_current_span(
            f"chat {name}".strip(),
            kind=trace.SpanKind.CLIENT,
            attributes=said | queued,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            if self.content:
                span.set_attributes(_json("gen_ai.input.messages", scrub([_message(m) for m in messages])))

            def heard(answer: AIMessage) -> None:
                self._heard(span, said, answer, scrub)

            try:
                yield heard
            except BaseException as error:
                failed = {"error.type": type(error).__name__}
                _fail(span, type(error).__name__)
                raise
            finally:
                self._chat_seconds.record(time.perf_counter() - began, said | failed)

    def _heard(
        self, span: trace.Span, said: _Attributes, answer: AIMessage, scrub: Callable[[Any], Any]
    ) -> None:
        usage = answer.usage or {}
        for name in ("input_tokens", "output_tokens"):
            if name in usage:
                kind = {"gen_ai.token.type": name.removesuffix("_tokens")}
                self._chat_tokens.record(usage[name], said | kind)
                span.set_attribute(f"gen_ai.usage.{name}", usage[name])
        if answer.finish_reason:
            span.set_attribute("gen_ai.response.finish_reasons", [answer.finish_reason])
        if answer.id:
            span.set_attribute("gen_ai.response.id", answer.id)
        if self.content:
            span.set_attributes(_json("gen_ai.output.messages", scrub([_message(answer)])))

    def _content(self, told: _Told | _ToldOfBatch, name: str, value: Any) -> _Attributes:
        """A value as an attribute, where content is told: without secrets, and cut."""
        if not self.content or value is None or not told.span.is_recording():
            return {}
        return _json(name, told.scrub(value))

    # ------------------------------------------------------------------------------------------ gauges

    def _late(self, options: metrics.CallbackOptions) -> Iterable[metrics.Observation]:
        now = self._clock()
        late = [s for s in list(self._runs) if s.deadline is not None and now - s.opened_at > s.deadline]
        yield metrics.Observation(len(late))

    def _resting(self, options: metrics.CallbackOptions) -> Iterable[metrics.Observation]:
        """From the journals, so that runs count that no process drives."""
        waiting = 0
        for journal in list(self._journals):
            try:
                waiting += sum(line.state == "waiting" and "people" in line.reason for line in journal.runs())
            except JournalError:  # it was closed meanwhile
                continue
        yield metrics.Observation(waiting)

    def _used(self, options: metrics.CallbackOptions) -> Iterable[metrics.Observation]:
        most: dict[str, float] = {}
        bounded: list[tuple[Budget, Callable[[], Used]]] = [
            (state.policies.budget, partial(used, state)) for state in list(self._runs)
        ]
        bounded += [(state.rules.budget, state.used) for state in list(self._batches)]
        for budget, spent in bounded:
            for bound, share in _shares(budget, spent):
                most[bound] = max(share, most.get(bound, 0.0))
        return [metrics.Observation(share, {"bound": bound}) for bound, share in most.items()]

    def _broken(self, options: metrics.CallbackOptions) -> Iterable[metrics.Observation]:
        found: dict[tuple[str, str], int] = {}
        for limiter in list(self._limiters):
            for tool, kind, open_ in limiter.breakers():
                found[tool, kind] = max(found.get((tool, kind), 0), int(open_))
        return [metrics.Observation(n, {"tool": tool, "kind": kind}) for (tool, kind), n in found.items()]


class _Timed:
    """A log of which it is measured how long it is waited for."""

    def __init__(self, log: Log, record: Callable[[float], None]) -> None:
        self.run = log.run
        self.append = log.append
        self.close = log.close
        self._log = log
        self._record = record

    async def durable(self) -> None:
        """Wait as the log does."""
        began = time.perf_counter()
        await self._log.durable()
        self._record(time.perf_counter() - began)


def _shares(budget: Budget, spent: Callable[[], Used]) -> Iterator[tuple[str, float]]:
    """How much of each bound of a run, or of a batch, is used, from 0 to 1."""
    try:
        rest = left(budget, spent())
    except RuntimeError:  # the loop of the run changed it meanwhile
        return
    for bound in ("tool_calls", "model_calls", "tokens", "cost", "seconds"):
        most, is_left = getattr(budget, bound), getattr(rest, bound)
        if most:
            yield bound, float((most - is_left) / most)


def _is_of_group(event: e.PatchAccepted | e.PatchRefused) -> bool:
    """Whether a row only takes what was decided for all that failed alike."""
    if isinstance(event, e.PatchAccepted):
        return bool(event.group)
    return event.by == "hook" and any(said.get("code") == "no_patch" for said in event.findings)


def _tool_at(state: State, path: Path) -> str:
    """The tool of a call that never began."""
    active = state.calls.get(path)
    if active is not None:
        return active.tool.name
    ids = [part for part in path if isinstance(part, str)]
    steps = state.program.plan.every_step if state.program is not None and ids else ()
    return next((step.tool for step in steps if step.id == ids[-1] and step.tool), "")


def _why(failure: Failure | None) -> _Attributes:
    """The kind of a failure, and its code where that is a word."""
    if failure is None:
        return {}
    code = failure.code if _CODE.fullmatch(failure.code) else "other"
    said = {"foreplan.failure.kind": failure.kind.value, "foreplan.failure.code": code}
    return said | {"foreplan.failure.happened": failure.happened.value}


def _fail(span: trace.Span, kind: str) -> None:
    span.set_attribute("error.type", kind)
    span.set_status(trace.StatusCode.ERROR)


def _json(name: str, value: Any) -> _Attributes:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return {name: text if len(text) <= _MOST else text[: _MOST - 1] + "…"}


def _message(message: Message) -> dict[str, Any]:
    """A message as the conventions write it."""
    said = message.to_json()
    role = str(said.get("role", ""))
    if role == "tool":
        part = {"type": "tool_call_response", "id": said.get("tool_call_id"), "response": said.get("content")}
        return {"role": role, "parts": [part]}
    parts: list[dict[str, Any]] = (
        [{"type": "text", "content": said["content"]}] if said.get("content") else []
    )
    for call in said.get("tool_calls") or ():
        parts.append(
            {
                "type": "tool_call",
                "id": call.get("id"),
                "name": call.get("name"),
                "arguments": call.get("args"),
            }
        )
    return {"role": role, "parts": parts}


def _text_of(model: object, name: str) -> str:
    said = getattr(model, name, "")
    return said if isinstance(said, str) else ""


def _traceparent(span: trace.SpanContext) -> str:
    """As W3C Trace Context writes it."""
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}" if span.is_valid else ""


def _link(traceparent: str) -> trace.Link | None:
    """The inverse; None where there is no span before."""
    parts = traceparent.split("-")
    if len(parts) != 4:
        return None
    try:
        flags = trace.TraceFlags(int(parts[3], 16))
        return trace.Link(trace.SpanContext(int(parts[1], 16), int(parts[2], 16), True, flags))
    except ValueError:
        return None
