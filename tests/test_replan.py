"""The bounded re-plan: failures go to a planner, patches are checked, approved and journaled, and it always ends."""

from __future__ import annotations

from typing import Any

import pytest

from foreplan import (
    CannotPlan,
    Effect,
    Engine,
    FunctionPlanner,
    MemoryJournal,
    Patch,
    Plan,
    Policies,
    ToolFailure,
    tool,
)
from foreplan.executor.events import DecisionAsked, ModelAnswered, Outcome, PatchAccepted, PatchRefused
from foreplan.executor.runtime import Answer

pytestmark = pytest.mark.anyio
READS = Effect.READS


@tool(effect=READS)
async def fetch(source: str) -> list[int]:
    """Reads from a source; `old` is gone."""
    if source == "old":
        raise ToolFailure("gone for good", code="gone")
    return [1, 2, 3]


@tool(effect=READS)
async def total(rows: list[int]) -> int:
    """Adds up."""
    return sum(rows)


@tool
async def pay(amount: int) -> str:
    """Pays."""
    return f"paid {amount}"


TOOLS = [fetch, total, pay]
PLAN = Plan.model_validate(
    {
        "goal": "add up",
        "steps": [
            {"id": "rows", "tool": "fetch", "args": {"source": "old"}},
            {"id": "added", "tool": "total", "args": {"rows": {"$": "rows"}}},
            {"id": "other", "tool": "fetch", "args": {"source": "new"}},
        ],
        "output": {"sum": {"$": "added"}},
    }
)


def replacing(source: str, id: str = "rows2", of: str = "rows") -> Patch:
    step = {"id": id, "replaces": of, "tool": "fetch", "args": {"source": source}}
    return Patch.model_validate({"add": [step]})


async def test_a_patch_replaces_what_failed_and_dependants_go_on() -> None:
    """References to the replaced step resolve to the new one; settled steps are not run again."""
    seen: list[Any] = []

    def replan(request: Any) -> Patch:
        seen.append(request)
        return replacing("new")

    journal = MemoryJournal()
    run = await Engine(TOOLS, FunctionPlanner(replan=replan), journal=journal).run(PLAN)
    assert (run.state, run.output, run.replans) == ("done", {"sum": 6}, 1)
    assert run.steps["rows"].replaced
    assert run.steps["rows"].outcome is Outcome.FAILED
    [request] = seen
    [failure] = request.failures
    assert (failure.step, failure.failure.code, failure.args) == ("rows", "gone", {"source": "old"})
    assert run.tool_calls == 4


async def test_without_a_planner_the_run_fails_with_a_sentence() -> None:
    """No planner, no re-plan: failed, and the message says which step and why."""
    run = await Engine(TOOLS).run(PLAN)
    assert run.state == "failed"
    assert "'rows': gone for good" in run.message


async def test_cannot_plan_stops_the_run_with_its_reason() -> None:
    """A first-class answer."""

    def replan(request: Any) -> Patch:
        raise CannotPlan("no other source")

    run = await Engine(TOOLS, FunctionPlanner(replan=replan)).run(PLAN)
    assert (run.state, run.reason) == ("stopped", "cannot_plan")
    assert "no other source" in run.message


async def test_invalid_patches_go_back_with_findings_within_bounds() -> None:
    """The second answer is right; the first plan stays meanwhile."""
    answers = [
        Patch.model_validate(
            {"add": [{"id": "rows2", "replaces": "rows", "tool": "fetsh", "args": {"source": "new"}}]}
        ),
        replacing("new"),
    ]
    found: list[Any] = []

    def replan(request: Any) -> Patch:
        found.append([finding.code for finding in request.findings])
        return answers.pop(0)

    journal = MemoryJournal()
    run = await Engine(TOOLS, FunctionPlanner(replan=replan), journal=journal).run(PLAN)
    assert (run.state, found) == ("done", [[], ["unknown_tool"]])
    kinds = [type(e) for e in journal.events(run.id)]
    assert kinds.count(PatchRefused) == 1
    assert kinds.count(PatchAccepted) == 1


async def test_a_planner_that_never_gives_a_valid_patch_ends_bounded() -> None:
    """One answer and `max_repairs` more; then the run fails and says so; what was done stays."""
    calls: list[int] = []

    def replan(request: Any) -> Patch:
        calls.append(1)
        return replacing("new", id="other")

    run = await Engine(TOOLS, FunctionPlanner(replan=replan), policies=Policies(max_repairs=2)).run(PLAN)
    assert (run.state, len(calls)) == ("failed", 3)
    assert "no valid patch after 3 answers" in run.message
    assert run["other"] == [1, 2, 3]


async def test_the_same_failure_of_the_same_call_stops_its_lineage() -> None:
    """R4 of the field: a patch that repeats the failing call is recognised, stopped and explained."""
    calls: list[int] = []

    def replan(request: Any) -> Patch:
        calls.append(1)
        return replacing(
            "old", id=f"rows{len(calls) + 1}", of=f"rows{len(calls)}" if len(calls) > 1 else "rows"
        )

    run = await Engine(TOOLS, FunctionPlanner(replan=replan), policies=Policies(max_replans=5)).run(PLAN)
    assert (run.state, len(calls)) == ("failed", 1)


async def test_replans_are_bounded() -> None:
    """`max_replans` of them, then the run fails and says that they are used up."""
    calls: list[int] = []

    @tool(effect=READS)
    async def no(x: int) -> int:
        """Says no, differently each time."""
        raise ToolFailure("no")

    def replan(request: Any) -> Patch:
        calls.append(1)
        n = len(calls)
        step = {"id": f"a{n}", "replaces": f"a{n - 1}" if n > 1 else "a", "tool": "no", "args": {"x": n}}
        return Patch.model_validate({"add": [step]})

    plan = Plan.model_validate({"steps": [{"id": "a", "tool": "no", "args": {"x": 0}}]})
    run = await Engine([no], FunctionPlanner(replan=replan), policies=Policies(max_replans=3)).run(plan)
    assert (run.state, len(calls)) == ("failed", 3)
    assert "all 3 re-plans are used up" in run.message


async def test_a_planner_that_raises_or_gives_no_patch_ends_the_run_with_a_sentence() -> None:
    """Its exception is a value in the journal, never a crash of the run."""

    def replan(request: Any) -> Any:
        raise KeyError("bug in the rules")

    run = await Engine(TOOLS, FunctionPlanner(replan=replan)).run(PLAN)
    assert run.state == "failed"
    assert "the planner failed" in run.message


async def test_a_patch_with_an_effect_beyond_the_scope_asks_a_person() -> None:
    """Scope none: a patch that acts waits for a yes; with a no it never runs."""
    paying = Patch.model_validate(
        {
            "add": [
                {"id": "rows2", "replaces": "rows", "value": [1]},
                {"id": "p", "tool": "pay", "args": {"amount": 5}},
            ]
        }
    )
    journal = MemoryJournal()
    engine = Engine(TOOLS, FunctionPlanner(replan=lambda request: paying), journal=journal)
    run = await engine.run(PLAN)
    assert (run.state, [d.about for d in run.waiting]) == ("waiting", ["patch"])
    question = run.waiting[0]
    assert question.question["patch"]["add"][1]["args"] == {"amount": 5}
    end = await engine.resume(run.id, decisions={question.id: Answer("reject", "ada", reason="too much")})
    assert end.state == "failed"
    assert "ada refused the patch: too much" in end.message
    assert "p" not in end.steps


async def test_a_scope_that_covers_the_patch_lets_it_through() -> None:
    """Reads are covered by scope reads; a patch is never asked about twice."""
    journal = MemoryJournal()
    engine = Engine(
        TOOLS,
        FunctionPlanner(replan=lambda request: replacing("new")),
        policies=Policies(approve="always"),
        journal=journal,
    )
    run = await engine.run(PLAN, approval=engine.approve(PLAN, by="ada", scope="reads"))
    assert run.ok
    assert not [e for e in journal.events(run.id) if isinstance(e, DecisionAsked)]
    second = await engine.run(PLAN, approval=engine.approve(PLAN, by="ada", scope="none"))
    assert (second.state, [d.about for d in second.waiting]) == ("waiting", ["patch"])


async def test_hooks_are_asked_once_and_can_stop_or_note() -> None:
    """`on_failure` may give a note or stop; `on_replan` may refuse; a raising hook is recorded and ignored."""
    notes: list[Any] = []

    def replan(request: Any) -> Patch:
        notes.append(request.notes)
        return replacing("new")

    planner = FunctionPlanner(replan=replan)
    noted = await Engine(TOOLS, planner, on_failure=lambda request: "use the new source").run(PLAN)
    assert (noted.state, notes) == ("done", [("use the new source",)])
    stopped = await Engine(TOOLS, planner, on_failure=lambda request: False).run(PLAN)
    assert (stopped.state, len(notes)) == ("failed", 1)
    refused = await Engine(TOOLS, planner, on_replan=lambda request, patch: "not on a Friday").run(PLAN)
    assert refused.state == "failed"
    assert "not on a Friday" in refused.message

    def broken(request: Any, patch: Patch) -> None:
        raise ValueError("bug in the hook")

    assert (await Engine(TOOLS, planner, on_replan=broken).run(PLAN)).state == "done"


async def test_every_answer_of_the_planner_is_an_event() -> None:
    """So that a replay never asks again."""
    journal = MemoryJournal()
    run = await Engine(TOOLS, FunctionPlanner(replan=lambda request: replacing("new")), journal=journal).run(
        PLAN
    )
    answers = [e for e in journal.events(run.id) if isinstance(e, ModelAnswered)]
    assert [a.patch for a in answers] == [replacing("new")]


async def test_engine_plan_repairs_within_bounds_and_gives_a_checked_plan() -> None:
    """Findings go back; the plan that comes out checks."""
    wrong = {"steps": [{"id": "a", "tool": "fetsh", "args": {"source": "new"}}]}
    right = {"steps": [{"id": "a", "tool": "fetch", "args": {"source": "new"}}]}
    answers = [wrong, right]
    engine = Engine(TOOLS, FunctionPlanner(plan=lambda request: answers.pop(0)))
    assert (await engine.plan("get the rows")).steps[0].tool == "fetch"
