"""Spans and metrics of runs, as the in-memory exporters of OpenTelemetry's SDK got them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from opentelemetry import trace
from support.chaos import FaultyJournal
from support.telemetry import Told
from support.virtual import now, run_virtual

from foreplan import (
    AIMessage,
    Breaker,
    Budget,
    Engine,
    FunctionPlanner,
    Limits,
    MappingSecrets,
    ModelPlanner,
    Plan,
    Policies,
    React,
    Retry,
    ScriptedModel,
    SqliteJournal,
    Telemetry,
    ToolCall,
    ToolFailure,
    as_tool,
    tool,
)
from foreplan.executor.runtime import Answer

pytestmark = pytest.mark.anyio


@tool(effect="reads")
async def look(word: str) -> str:
    """Look a word up."""
    with trace.get_tracer("mine", tracer_provider=_TOLD[-1].tracers).start_as_current_span("inside look"):
        return f"{word} was found"


@tool(effect="reads", timeout=None)
def look_slowly(word: str) -> str:
    """The same, in a thread."""
    with trace.get_tracer("mine", tracer_provider=_TOLD[-1].tracers).start_as_current_span("inside thread"):
        return f"{word} was found"


@tool(effect="acts")
async def pay(to: str) -> str:
    """Pay."""
    raise ToolFailure("the account of mr. secretive is closed", code="account_closed")


_TOLD: list[Told] = []


def told(**options: Any) -> Told:
    _TOLD.append(Told(**options))
    return _TOLD[-1]


def plan(*steps: dict[str, Any]) -> Plan:
    return Plan.model_validate({"goal": "a goal of mr. secretive", "steps": [*steps]})


def step(id: str, tool: str, **args: Any) -> dict[str, Any]:
    return {"id": id, "tool": tool, "args": args}


FREE = Policies(approve="never")


async def test_a_run_is_a_span_and_each_attempt_one_below_it() -> None:
    """Names and attributes are those of the GenAI conventions; what failed says so by kind and code."""
    out = told()
    engine = Engine([look, pay], policies=FREE, telemetry=out.telemetry)
    run = await engine.run(plan(step("a", "look", word="x"), step("b", "pay", to="ada")))
    [root] = out.named("invoke_workflow")
    assert sorted(out.below(root)) == ["execute_tool look", "execute_tool pay"]
    assert root.attributes is not None
    assert {k: root.attributes[k] for k in ("foreplan.run.id", "foreplan.run.state", "error.type")} == {
        "foreplan.run.id": run.id,
        "foreplan.run.state": "failed",
        "error.type": "failed",
    }
    [looked], [paid] = out.named("execute_tool look"), out.named("execute_tool pay")
    said: dict[str, Any] = dict(looked.attributes or {})
    assert said.pop("gen_ai.tool.call.id")
    assert said.pop("foreplan.call.queue_time") >= 0
    assert said == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look",
        "gen_ai.tool.type": "function",
        "foreplan.run.id": run.id,
        "foreplan.step": "a",
        "foreplan.call.attempt": 1,
        "foreplan.call.effect": "reads",
        "foreplan.call.outcome": "ok",
    }
    failure = {k: v for k, v in (paid.attributes or {}).items() if "failure" in k or k == "error.type"}
    assert failure == {
        "error.type": "business",
        "foreplan.failure.kind": "business",
        "foreplan.failure.code": "account_closed",
        "foreplan.failure.happened": "no",
    }
    assert (looked.status.is_ok, paid.status.is_ok) == (True, False)


async def test_spans_of_a_tool_are_below_its_call_also_in_a_thread() -> None:
    """The context goes along, into tasks and threads, and into no other call (T2); outside nothing is left of it."""
    out = told()
    engine = Engine([look, look_slowly], telemetry=out.telemetry)
    with trace.get_tracer("mine", tracer_provider=out.tracers).start_as_current_span("request") as request:
        many = {"each": ["x", "y", "z"], "as": "w", "args": {"word": {"$": "w"}}}
        await engine.run(
            plan({"id": "a", "tool": "look", **many}, {"id": "b", "tool": "look_slowly", **many})
        )
        assert trace.get_current_span() is request
    for inner, outer in (("inside look", "execute_tool look"), ("inside thread", "execute_tool look_slowly")):
        parents = {span.parent.span_id for span in out.named(inner) if span.parent}
        assert parents == {span.context.span_id for span in out.named(outer)}
        assert len(parents) == 3
    [root] = out.named("invoke_workflow")
    assert out.below(out.named("request")[0]) == ["invoke_workflow"]
    assert len({span.context.trace_id for span in out.spans}) == 1
    assert root.attributes is not None
    assert root.attributes["foreplan.run.tool_calls"] == 6


async def test_a_sub_plan_is_a_run_below_its_call() -> None:
    """It is found in the same trace."""
    out = told()
    inner = as_tool(plan(step("a", "look", word="x")), "inner", [look])
    await Engine([inner], telemetry=out.telemetry).run(plan(step("outer", "inner")))
    [call] = out.named("execute_tool inner")
    assert out.below(call) == ["invoke_workflow"]
    child = next(
        s for s in out.named("invoke_workflow") if s.parent and s.parent.span_id == call.context.span_id
    )
    assert out.below(child) == ["execute_tool look"]
    assert (child.attributes or {})["foreplan.run.parent"] == (call.attributes or {})["foreplan.run.id"]


async def test_a_resumed_run_is_linked_to_the_part_before(tmp_path: Path) -> None:
    """By the span that its journal holds: another process and another exporter know nothing of the first."""
    asks = tool(effect="acts", requires_approval="each", name="pay")(pay.function)
    first, second = told(), Told()
    path = tmp_path / "runs.db"
    with SqliteJournal(path) as journal:
        engine = Engine([asks], policies=FREE, journal=journal, telemetry=first.telemetry)
        waiting = await engine.run(plan(step("a", "pay", to="ada")), run_id="r")
        assert waiting.state == "waiting"
        assert first.metric("foreplan.runs.waiting") == {(): 1}
        assert first.metric("foreplan.runs") == {("people", "waiting"): 1}
    with SqliteJournal(path) as journal:
        engine = Engine([asks], policies=FREE, journal=journal, telemetry=second.telemetry)
        await engine.resume("r", decisions={waiting.waiting[0].id: Answer("approve", "bob")})
        assert second.metric("foreplan.runs.waiting") == {(): 0}
    [before], [after] = first.named("invoke_workflow"), second.named("invoke_workflow")
    assert [link.context.span_id for link in after.links] == [before.context.span_id]
    assert (after.attributes or {})["foreplan.run.resumed"] is True
    for out in (first, second):
        assert set(out.metric("foreplan.decisions.waiting").values()) <= {0}


async def test_questions_to_models_are_spans_with_their_tokens() -> None:
    """Of the planner and of a dialogue alike, because models are asked in one place."""
    out = told()
    text = '{"foreplan": 1, "goal": "g", "steps": [{"id": "a", "tool": "look", "args": {"word": "x"}}]}'
    model = ScriptedModel([AIMessage(text, usage={"input_tokens": 120, "output_tokens": 30})])
    talk = ScriptedModel(
        [
            AIMessage("", tool_calls=(ToolCall("c1", "look", {"word": "x"}),), finish_reason="tool_calls"),
            AIMessage("found", usage={"input_tokens": 7, "output_tokens": 1}),
        ]
    )
    engine = Engine([look], ModelPlanner(model), react=React(talk), telemetry=out.telemetry)
    await engine.plan("look x up")
    await engine.answer("look x up")
    [planned] = out.named("foreplan.plan")
    [asked, *_] = [s for s in out.spans if s.parent and s.parent.span_id == planned.context.span_id]
    assert asked.name.startswith("chat")
    assert asked.kind is trace.SpanKind.CLIENT
    assert {
        k: (asked.attributes or {})[k] for k in ("gen_ai.operation.name", "gen_ai.usage.input_tokens")
    } == {
        "gen_ai.operation.name": "chat",
        "gen_ai.usage.input_tokens": 120,
    }
    [dialogue] = out.named("invoke_agent")
    assert sorted(name.split()[0] for name in out.below(dialogue)) == ["chat", "chat", "execute_tool"]
    assert sum(out.metric("gen_ai.client.token.usage").values()) == 4
    assert out.metric("foreplan.model.queue") == {("ScriptedModel",): 3}
    assert out.metric("foreplan.model.calls")[("react",)] == 2
    assert out.metric("foreplan.tokens")[("input", "react")] == 7


@pytest.mark.parametrize("content", [False, True])
async def test_content_leaves_only_where_it_is_asked_for_and_secrets_never(content: bool) -> None:
    """Arguments, results, goals, messages of failures and of models."""
    out = told(content=content)

    @tool(effect="reads", secret_refs={"key": "KEY"})
    async def ask_service(word: str, key: Any) -> str:
        """Ask."""
        return f"answer of mr. secretive to {word}, with {key.reveal()}"

    talk = ScriptedModel([AIMessage("mr. secretive is fine, sesame-4711")])
    vault = MappingSecrets({"KEY": "sesame-4711"})
    engine = Engine(
        [ask_service, pay], policies=FREE, secrets=vault, react=React(talk), telemetry=out.telemetry
    )
    steps = [step("a", "ask_service", word="mr. secretive"), step("b", "pay", to="mr. secretive")]
    await engine.run(plan(*steps))
    await engine.answer("how is mr. secretive?")
    assert ("secretive" in out.everything) is content
    assert "sesame" not in out.everything
    if content:
        [asked] = out.named("execute_tool ask_service")
        assert (asked.attributes or {})["gen_ai.tool.call.arguments"] == '{"word": "mr. secretive"}'
        [chat] = [s for s in out.spans if s.name.startswith("chat")]
        assert '"parts": [{"type": "text", "content": "how is mr. secretive?"}]' in str(
            (chat.attributes or {})["gen_ai.input.messages"]
        )


def test_calls_are_counted_and_timed(anyio_backend: str) -> None:
    """By tool, outcome and kind; how long they waited for their turn; attempts, not only calls."""
    out = told(clock=now)
    tries: list[float] = []

    @tool(effect="reads", timeout=None)
    async def slow(n: int) -> int:
        """Slow."""
        tries.append(now())
        await anyio.sleep(10)
        if len(tries) == 1:
            raise ConnectionResetError
        return n

    async def main() -> Any:
        policies = Policies(limits=Limits(tool={"slow": 1}), budget=Budget(tool_calls=8))
        engine = Engine([slow], policies=policies, telemetry=out.telemetry, clock=now, dice=lambda: 0.0)
        many = {"id": "a", "each": [1, 2], "as": "n", "tool": "slow", "args": {"n": {"$": "n"}}}
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: engine.run(plan(many), deadline=25))
            await anyio.sleep(15)
            assert out.metric("foreplan.budget.used") == {("tool_calls",): pytest.approx(3 / 8, abs=1 / 8)}
            assert out.metric("foreplan.runs.active") == {(): 1}
            assert out.metric("foreplan.runs.late") == {(): 0}
            await anyio.sleep(12)
            assert out.metric("foreplan.runs.late") == {(): 1}

    run_virtual(anyio_backend, main)
    assert out.metric("foreplan.calls") == {("network", "failed", "slow"): 1, ("", "ok", "slow"): 2}
    assert out.metric("foreplan.call.duration") == {("failed", "slow"): 1, ("ok", "slow"): 2}
    assert out.metric("foreplan.call.queue") == {("slow",): 3}
    assert out.metric("foreplan.runs") == {("", "done"): 1}
    assert out.metric("foreplan.run.deadline.missed") == {(): 1}
    assert out.metric("foreplan.runs.active") == {(): 0}


async def test_a_breaker_that_is_open_shows() -> None:
    """By tool and kind."""
    out = told()

    @tool(effect="reads")
    async def down() -> str:
        """Down."""
        raise ConnectionRefusedError

    policies = Policies(limits=Limits(breaker=Breaker(failures=1)), retry={"attempts": 1})  # type: ignore[arg-type]
    engine = Engine([down], policies=policies, telemetry=out.telemetry)
    await engine.run(plan(step("a", "down")))
    assert out.metric("foreplan.breaker.open") == {("network", "down"): 1}


async def test_a_run_whose_journal_fails_ends_its_spans() -> None:
    """No event says that it ended; telemetry does."""
    out = told()
    journal = FaultyJournal()
    journal.fails_at = 5
    await Engine([look], journal=journal, telemetry=out.telemetry).run(plan(step("a", "look", word="x")))
    [root] = out.named("invoke_workflow")
    assert (root.attributes or {})["foreplan.run.reason"] == "journal"
    assert out.metric("foreplan.runs") == {("journal", "stopped"): 1}
    assert out.metric("foreplan.runs.active") == {(): 0}


async def test_telemetry_that_breaks_breaks_no_run() -> None:
    """It is told no more of that run, and the log says so."""
    out = told()

    class Broken(Telemetry):
        def see(self, event: Any, state: Any) -> None:
            raise RuntimeError("exporter")

    run = await Engine([look], telemetry=Broken(out.tracers, out.meters)).run(
        plan(step("a", "look", word="x"))
    )
    assert run.ok


def test_without_providers_nothing_is_recorded_and_all_works() -> None:
    """The API alone, without an SDK: spans that nobody records."""
    _TOLD.append(Told())
    run = Engine([look], telemetry=Telemetry()).run_blocking(plan(step("a", "look", word="x")))
    assert run.ok


@pytest.mark.parametrize("content", [False, True])
async def test_what_a_planner_raises_is_content_too_and_tells_no_secret(content: bool) -> None:
    """The kind of what came out of the making of a plan is told, and what it says only where that is asked for."""
    out = told(content=content)

    @tool(effect="reads", secret_refs={"key": "KEY"})
    async def ask_service(key: Any) -> None:
        """Ask."""

    def refuse(request: Any) -> Any:
        raise RuntimeError("mr. secretive is not known to sesame-4711")

    engine = Engine(
        [ask_service],
        FunctionPlanner(refuse),
        secrets=MappingSecrets({"KEY": "sesame-4711"}),
        telemetry=out.telemetry,
        policies=Policies(retry=Retry(attempts=1)),
    )
    with pytest.raises(RuntimeError, match="is not known"):
        await engine.plan("find them")
    [span] = out.named("foreplan.plan")
    assert ((span.attributes or {})["error.type"], span.status.is_ok) == ("RuntimeError", False)
    assert ("secretive" in out.everything) is content
    assert "sesame" not in out.everything
