"""Spans and metrics of batches and their rows, as the in-memory exporters of OpenTelemetry's SDK got them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest
from opentelemetry import trace
from support.telemetry import Told
from support.virtual import BACKENDS, now, run_virtual

from foreplan import (
    AIMessage,
    Batch,
    BatchRules,
    Breaker,
    Budget,
    Engine,
    MappingSecrets,
    ModelPlanner,
    Plan,
    Policies,
    Retry,
    RowLimit,
    ScriptedModel,
    SqliteJournal,
    Telemetry,
    ToolFailure,
    tool,
)

INPUTS = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "who": {"type": "string"}},
    "required": ["n", "who"],
}
STEPS: list[dict[str, Any]] = [
    {"id": "rate", "tool": "look", "args": {"n": 0}},
    {"id": "found", "tool": "look", "args": {"n": {"$": "inputs.n"}}},
    {"id": "paid", "tool": "pay", "args": {"n": {"$": "found"}, "who": {"$": "inputs.who"}}},
]
RULES = Policies(approve="never", retry=Retry(attempts=1))
_TOLD: list[Told] = []


def plan(*more: dict[str, Any]) -> Plan:
    steps = [*STEPS, *more]
    document = {"goal": "Pay the secretive", "inputs": INPUTS, "steps": steps, "output": {"$": "paid"}}
    return Plan.model_validate(document)


def told(**options: Any) -> Told:
    _TOLD.append(Told(**options))
    return _TOLD[-1]


@tool(effect="reads")
async def look(n: int) -> int:
    """Look a number up."""
    tracer = trace.get_tracer("mine", tracer_provider=_TOLD[-1].tracers)
    with tracer.start_as_current_span("inside look"):
        await anyio.sleep(1)
    return n


def payer(*bad: int, **options: Any) -> Any:
    @tool(effect="acts", **options)
    async def pay(n: int, who: str) -> str:
        """Pay."""
        if n in bad:
            raise ToolFailure(f"{who} has no account", code="no_account", happened="no")
        return f"paid {who}"

    return pay


def engine(out: Told, *tools: Any, **options: Any) -> Engine:
    options = {"policies": RULES, "clock": now, "dice": lambda: 0.5, **options}
    return Engine([look, *tools], telemetry=out.telemetry, **options)


def rows(count: int) -> list[dict[str, Any]]:
    return [{"n": n, "who": f"secretive {n}"} for n in range(1, count + 1)]


def said(span: Any) -> dict[str, Any]:
    return dict(span.attributes or {})


def runs(out: Told) -> dict[str, Any]:
    """The spans of rows by their ids; no row may have two."""
    found = [(said(span)["foreplan.run.id"], span) for span in out.named("invoke_workflow")]
    assert len(found) == len(dict(found))
    return dict(found)


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_row_is_a_span_in_a_trace_of_its_own_linked_to_its_batch(backend: str) -> None:
    """Ten thousand rows in one trace nobody could look at, or sample."""
    out = told()

    async def main() -> None:
        tracer = trace.get_tracer("mine", tracer_provider=out.tracers)
        with tracer.start_as_current_span("request") as request:
            await engine(out, payer(2)).run_batch(plan(), rows(3), batch_id="b")
            assert trace.get_current_span() is request

    run_virtual(backend, main)
    [batch], [request] = out.named("foreplan.batch"), out.named("request")
    assert (out.below(request), out.below(batch)) == (["foreplan.batch"], [])
    assert {row: said(span)["foreplan.run.state"] for row, span in runs(out).items()} == {
        "b.shared": "done",
        "b.1": "done",
        "b.2": "failed",
        "b.3": "done",
    }
    for span in runs(out).values():
        assert (span.parent, [link.context for link in span.links]) == (None, [batch.context])
        assert said(span)["foreplan.batch.id"] == "b"
    assert out.below(runs(out)["b.2"]) == ["execute_tool look", "execute_tool pay"]
    looks = {span.context.span_id for span in out.named("execute_tool look")}
    assert {span.parent.span_id for span in out.named("inside look") if span.parent} == looks
    wanted = {"state": "failed", "rows": 3, "done": 2, "failed": 1}
    assert {name: said(batch)[f"foreplan.batch.{name}"] for name in wanted} == wanted


def test_metrics_have_as_many_points_for_two_hundred_rows_as_for_three() -> None:
    """No label holds a row, a batch, or what one of them says."""

    def measured(count: int) -> Told:
        out = told()
        run_virtual("asyncio", lambda: engine(out, payer(2)).run_batch(plan(), rows(count)))
        return out

    few, many = measured(3), measured(200)
    assert many.points == few.points
    assert many.metric("foreplan.rows") == {("", "done"): 199, ("business", "failed"): 1}
    assert many.metric("foreplan.runs") == {("", "done"): 200, ("", "failed"): 1}  # the shared step is one
    assert many.metric("foreplan.calls") == {
        ("", "ok", "look"): 201,
        ("", "ok", "pay"): 199,
        ("business", "failed", "pay"): 1,
    }
    assert many.metric("foreplan.runs.active") == {(): 0}
    assert many.metric("foreplan.journal.wait") == {(): 200}


def test_a_row_is_timed_from_when_it_begins() -> None:
    """All are opened before the first begins; the wait for its turn is no time of a row."""
    out = told()
    one_by_one = BatchRules(at_once=1)
    run_virtual("asyncio", lambda: engine(out, payer()).run_batch(plan(), rows(4), rules=one_by_one))
    assert out.total("foreplan.run.duration") == 5.0  # a second each, and one for what they share


@pytest.mark.parametrize("content", [False, True])
def test_content_of_rows_leaves_only_where_it_is_asked_for_and_secrets_never(content: bool) -> None:
    """Inputs, goal, arguments, results, messages of failures."""
    out = told(content=content)

    @tool(effect="reads", secret_refs={"key": "KEY"})
    async def ask(n: int, key: Any) -> str:
        """Ask."""
        return f"with {key.reveal()}"

    asking = plan({"id": "asked", "tool": "ask", "args": {"n": {"$": "inputs.n"}}})
    here = engine(out, payer(2), ask, secrets=MappingSecrets({"KEY": "sesame-4711"}))
    run_virtual("asyncio", lambda: here.run_batch(asking, rows(2), batch_id="b"))
    assert ("secretive" in out.everything) is content
    assert "sesame" not in out.everything
    if content:
        assert said(runs(out)["b.1"])["foreplan.run.inputs"] == '{"n": 1, "who": "secretive 1"}'
        assert said(out.named("foreplan.batch")[0])["foreplan.goal"] == "Pay the secretive"


@pytest.mark.parametrize("content", [False, True])
def test_what_comes_out_of_a_batch_is_content_too_and_tells_no_secret(content: bool) -> None:
    """Rows that cannot be read once more: of which kind that was is told, what it says only where that is asked for."""
    out = told(content=content)

    class Once(list[dict[str, Any]]):
        read = 0

        def __iter__(self) -> Iterator[dict[str, Any]]:
            self.read += 1
            if self.read > 2:  # examined, looked through for secrets, run
                raise OSError("the list of the secretive is locked with sesame-4711")
            return super().__iter__()

    @tool(effect="reads", secret_refs={"key": "KEY"})
    async def ask(n: int, key: Any) -> None:
        """Ask."""

    here = engine(out, payer(), ask, secrets=MappingSecrets({"KEY": "sesame-4711"}))
    asking = Plan.model_validate({"inputs": INPUTS, "steps": [{"id": "a", "tool": "ask", "args": {"n": 1}}]})
    with pytest.raises(OSError, match="is locked"):
        run_virtual("asyncio", lambda: here.run_batch(asking, Once(rows(2)), batch_id="b"))
    [span] = out.named("foreplan.batch")
    assert (said(span)["error.type"], span.status.is_ok) == ("OSError", False)
    assert ("secretive" in out.everything) is content
    assert "sesame" not in out.everything


def test_a_batch_that_goes_on_is_linked_to_the_part_before(tmp_path: Path) -> None:
    """Resumed with answers, then tried again, each by a process that knows nothing of the others but the journal."""
    parts = list[Told]()

    async def process(do: Any, *bad: int) -> Batch:
        parts.append(told())
        with SqliteJournal(tmp_path / "runs.db") as journal:
            done: Batch = await do(engine(parts[-1], payer(*bad, requires_approval="each"), journal=journal))
        assert set(parts[-1].metric("foreplan.decisions.waiting").values()) <= {0}
        return done

    async def begin(here: Engine) -> Batch:
        return await here.run_batch(plan(), rows(2), batch_id="b", rules=BatchRules(canary=1))

    async def answer(here: Engine) -> Batch:
        await here.resume_batch("b", decisions={"canary": "approve"})
        for row in ("b.1", "b.2"):
            await here.decide(row, {asked.id: "approve" for asked in here.show(row).waiting})
        return await here.resume_batch("b")

    run_virtual("asyncio", lambda: process(begin))
    assert [said(span).get("foreplan.run.reason") for span in parts[0].named("invoke_workflow")] == [
        None,
        "people",
    ]
    run_virtual("asyncio", lambda: process(answer, 2))
    run_virtual("asyncio", lambda: process(lambda here: here.retry_batch("b")))
    batches = [span for part in parts for span in part.named("foreplan.batch")]
    for before, after in pairwise(batches):
        assert [link.context.span_id for link in after.links] == [before.context.span_id]
        assert said(after)["foreplan.batch.resumed"] is True
    stood = ["waiting", "waiting", "failed", "waiting"]  # a call that asks each time asks again
    assert [said(span)["foreplan.batch.state"] for span in batches] == stood
    taken_up = [said(span)["foreplan.run.id"] for span in parts[1].named("invoke_workflow")]
    assert sorted(taken_up) == ["b.1", "b.2", "b.2"]  # the second begins, asks, and goes on
    [again] = parts[2].named("invoke_workflow")
    assert said(again)["foreplan.run.resumed"] is True
    assert [link.context.span_id for link in again.links][-1] == batches[-1].context.span_id


def test_what_a_group_of_rows_asks_of_the_planner_is_told_once() -> None:
    """The question is below the batch, and one patch is one patch however many rows go on with it."""
    out = told()

    @tool(effect="writes")
    async def cheque(n: int) -> str:
        """Write a cheque."""
        return f"cheque {n}"

    mended = (
        '{"drop": [], "add": [{"id": "cheque", "replaces": "paid", "tool": "cheque", '
        '"args": {"n": {"$": "found"}}}]}'
    )
    planner = ModelPlanner(ScriptedModel([AIMessage(mended, usage={"input_tokens": 90, "output_tokens": 9})]))
    policies = RULES.model_copy(update={"approve": "acts"})

    async def main() -> Batch:
        here = engine(out, payer(*range(1, 7)), cheque, planner=planner, policies=policies)
        approval = here.approve(plan(), batch=RowLimit(rows=8), by="ada", scope="envelope")
        return await here.run_batch(plan(), rows(8), approval=approval, batch_id="b")

    assert run_virtual("asyncio", main).counts["done"] == 8
    [batch] = out.named("foreplan.batch")
    assert [name.split()[0] for name in out.below(batch)] == ["chat"]
    assert [event.name for event in batch.events] == ["foreplan.group.formed", "foreplan.plan.patched"]
    assert out.metric("foreplan.replans") == {("accepted",): 1}
    assert out.metric("foreplan.model.calls") == {("replan",): 1}
    assert out.metric("foreplan.tokens") == {("input", "replan"): 90, ("output", "replan"): 9}
    assert out.metric("foreplan.runs")[("patch", "waiting")] == 6


def test_a_tool_that_holds_rows_back_shows_in_the_span_of_the_batch() -> None:
    """When it was held, and when it was free again."""
    out = told()

    @tool(effect="reads")
    async def down(n: int) -> int:
        """Down for a minute."""
        if now() < 60:
            raise ConnectionRefusedError
        return n

    after = plan({"id": "after", "tool": "down", "args": {"n": {"$": "inputs.n"}}})
    rules = BatchRules(breaker=Breaker(failures=2, hold=True))
    run_virtual("asyncio", lambda: engine(out, payer(), down).run_batch(after, rows(3), rules=rules))
    [batch] = out.named("foreplan.batch")
    assert [(event.name, dict(event.attributes or {})) for event in batch.events] == [
        ("foreplan.tool.held", {"gen_ai.tool.name": "down"}),
        ("foreplan.tool.freed", {"gen_ai.tool.name": "down"}),
    ]


def test_what_is_used_of_the_budget_of_a_batch_is_measured_while_it_goes_on() -> None:
    """As of a run: the most that is used of any bound."""
    out = told()
    used = list[Any]()

    def watch(event: Any) -> None:
        used.append(out.metric("foreplan.budget.used").get(("tool_calls",)))

    here = engine(out, payer(), watch=watch)
    rules = BatchRules(at_once=1, budget=Budget(tool_calls=20))
    run_virtual("asyncio", lambda: here.run_batch(plan(), rows(2), rules=rules))
    assert [share for share in used if share] == [0.05, 0.15, 0.25, 0.25]  # 1 call they share, 2 of each row


def test_telemetry_that_breaks_breaks_no_batch() -> None:
    """It is told no more, and the log says so."""
    out = told()

    class Broken(Telemetry):
        def see(self, event: Any, state: Any) -> None:
            raise RuntimeError("exporter")

        see_batch = see

    broken = Engine([look, payer()], policies=RULES, clock=now, telemetry=Broken(out.tracers, out.meters))
    assert run_virtual("asyncio", lambda: broken.run_batch(plan(), rows(2))).ok
