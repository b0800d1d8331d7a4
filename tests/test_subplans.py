"""A plan as a tool of other plans: a run of its own, bound by the same approval, budget, principal and journal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.virtual import BACKENDS, now, run_virtual

from foreplan import (
    Budget,
    Effect,
    Engine,
    MemoryJournal,
    Plan,
    Policies,
    Principal,
    Registry,
    Run,
    SqliteJournal,
    Tool,
    ToolFailure,
    as_tool,
    ask,
    extract_with,
    tool,
)
from foreplan.executor.events import CallSettled, DecisionAsked, Event, Outcome, RunOpened
from foreplan.executor.runtime import Answer
from foreplan.planner.findings import CheckFailed
from foreplan.planner.models.scripted import ScriptedModel
from foreplan.policies.errors import NotApproved, ToolRefused, UnknownRun
from foreplan.policies.failures import Happened, Kind

done: list[str] = []


@tool(effect="reads")
async def size(name: str) -> int:
    """The size of something; `nothing` has none."""
    if name == "nothing":
        raise ToolFailure("there is nothing", code="missing")
    return len(name)


@tool(effect="writes", permissions=["box.write"])
async def label(text: str) -> str:
    """Label the box."""
    done.append(f"label {text}")
    return text


@tool
async def send(to: str) -> str:
    """Send; `nobody` is not known, `someone` gets it and the line breaks."""
    if to == "nobody":
        raise ToolFailure("unknown address", code="unknown")
    done.append(f"send {to}")
    if to == "someone":
        raise RuntimeError("the line broke")
    return f"sent to {to}"


TOOLS = Registry(size, label, send, ask)
FREE = Policies(approve="never")
ADA = Principal(id="ada", permissions=("box.write",))
NAMED = {"type": "object", "properties": {"name": {"type": "string", "default": "box"}}, "required": ["name"]}


def plan_of(*steps: dict[str, Any], **rest: Any) -> Plan:
    return Plan.model_validate({"steps": list(steps), **rest})


MEASURE = plan_of(
    {"id": "a", "tool": "size", "args": {"name": {"$": "inputs.name"}}},
    {"id": "b", "value": {"$": "a + 1"}},
    goal="Measure something",
    inputs=NAMED,
    output={"size": {"$": "b"}},
)
POST = plan_of(
    {"id": "a", "tool": "size", "args": {"name": {"$": "inputs.to"}}},
    {"id": "sent", "after": ["a"], "tool": "send", "args": {"to": {"$": "inputs.to"}}},
    inputs={"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]},
    output={"$": "sent"},
)
QUIZ = plan_of(
    {"id": "one", "tool": "ask", "args": {"question": "One?", "options": ["yes", "no"]}},
    {"id": "two", "tool": "ask", "args": {"question": "Two?", "schema": {"type": "integer"}}},
    {"id": "three", "after": ["one"], "tool": "ask", "args": {"question": "Three?", "options": [1]}},
    output=[{"$": "one"}, {"$": "two"}, {"$": "three"}],
)


def measure(**options: Any) -> Tool:
    return as_tool(MEASURE, "measure", TOOLS, **options)


def post() -> Tool:
    return as_tool(POST, "post", TOOLS)


def quiz() -> Tool:
    return as_tool(QUIZ, "quiz", TOOLS)


def call(name: str, id: str = "x", **step: Any) -> dict[str, Any]:
    return {"id": id, "tool": name, **step}


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    done.clear()


async def run(plan: Plan, *tools: Tool, policies: Policies = FREE, **options: Any) -> Run:
    return await Engine(tools, policies=policies, principal=ADA, **options).run(plan)


# ---------------------------------------------------------------------------------------------- the tool


def test_inputs_and_output_are_the_schemas_of_the_tool() -> None:
    """What has a default need not be given; the type of the output is written as a schema, as far as it is known."""
    made = measure()
    assert made.input.document == {**NAMED, "required": []}
    assert made.output is not None
    assert made.output.document == {
        "type": "object",
        "properties": {"size": {"type": "integer"}},
        "required": ["size"],
        "additionalProperties": False,
    }
    assert made.description == "Measure something"


def test_an_output_of_any_type_is_one_of_any_type() -> None:
    """A plan that gives what a tool without a type gave."""
    untyped = Tool.declare("untyped", input_schema={"type": "object", "properties": {}}, effect="reads")
    plan = Plan.model_validate(
        {"goal": "Hand on", "steps": [{"id": "s", "tool": "untyped"}], "output": {"all": {"$": "s"}}}
    )
    made = as_tool(plan, "hand_on", [untyped])
    assert made.output is not None
    assert made.output.document["properties"] == {"all": {}}


def test_the_effect_is_the_strongest_and_the_permissions_are_all() -> None:
    """So the check, the approval and the registry judge it by what it does."""
    undone = {"id": "u", "tool": "size", "args": {"name": "x"}, "undo": {"tool": "send", "args": {"to": "x"}}}
    both = plan_of(
        {"id": "l", "tool": "label", "args": {"text": "x"}},
        {"id": "s", "tool": "size", "args": {"name": "x"}},
    )
    assert (measure().effect, post().effect) == (Effect.READS, Effect.ACTS)
    assert as_tool(plan_of(undone), "u", TOOLS).effect is Effect.ACTS
    made = as_tool(both, "both", TOOLS)
    assert (made.effect, made.permissions) == (Effect.WRITES, ("box.write",))


def test_a_plan_that_does_not_check_is_no_tool() -> None:
    """Asked here, with these tools, and not in the middle of a run; itself it cannot name."""
    for name in ("nothing", "loop"):
        with pytest.raises(CheckFailed):
            as_tool(plan_of(call(name)), "loop", TOOLS)


def test_plans_in_plans_are_three_deep_at_most() -> None:
    """The fourth is refused when it is made."""
    made = measure()
    for name in ("two", "three"):
        made = as_tool(plan_of(call(made.name)), name, Registry(made))
    with pytest.raises(ToolRefused, match="4 deep"):
        as_tool(plan_of(call("three")), "four", Registry(made))


def test_the_contract_binds_the_plan_and_its_tools() -> None:
    """A change of either is a change of the tool, and a recorded contract is the tool again."""
    other = as_tool(
        MEASURE.model_copy(update={"goal": "Other"}), "measure", TOOLS, description="Measure something"
    )
    mine = tool(name="size", effect="reads")(lambda_size)
    swapped = as_tool(MEASURE, "measure", Registry(mine))
    assert len({measure().fingerprint, other.fingerprint, swapped.fingerprint}) == 3
    assert measure().fingerprint == measure().fingerprint
    assert Tool.from_contract(measure().contract()).contract() == measure().contract()


async def lambda_size(name: str) -> int:
    """The size of something; `nothing` has none."""
    return 0


# ---------------------------------------------------------------------------------------------- a run in a run


@pytest.mark.anyio
async def test_a_call_is_a_run_of_its_own_with_its_output_as_result() -> None:
    """In the same journal, linked to its parent, on behalf of the same principal; what it used counts in the parent."""
    journal = MemoryJournal()
    engine = Engine([measure()], policies=FREE, principal=ADA, journal=journal)
    end = await engine.run(
        plan_of(call("measure", args={"name": "box four"}), call("measure", "y")), run_id="r"
    )
    assert (end["x"], end["y"], end.tool_calls) == ({"size": 9}, {"size": 4}, 4)
    children = [line.run for line in journal.runs() if line.run != "r"]
    assert len(children) == 2
    opened = next(journal.events(children[0]))
    assert isinstance(opened, RunOpened)
    assert (opened.parent, opened.principal, engine.show(children[0]).parent) == ("r", ADA, "r")


@pytest.mark.anyio
async def test_what_fails_inside_is_one_failure_of_the_call() -> None:
    """With the paths inside; the planner may not read it; the effects of the child stand or they do not."""
    plan = plan_of(call("measure", args={"name": "nothing"}), call("post", "y", args={"to": "nobody"}))
    end = await run(plan, measure(), post())
    (_, missing), (_, unknown) = end.failures
    assert (missing.kind, missing.code, missing.untrusted) == (Kind.BUSINESS, "subplan_failed", True)
    assert missing.details is not None
    assert missing.details["failures"] == [{"step": "a", "kind": "business", "code": "missing"}]
    assert (missing.happened, unknown.happened) == (Happened.NO, Happened.NO)


@pytest.mark.anyio
async def test_a_child_that_acted_and_failed_has_happened() -> None:
    """Then nothing may do it again, by retry or by planner."""
    steps = [call("send", "a", args={"to": "ada"}), call("size", "b", args={"name": "nothing"}, after=["a"])]
    end = await run(plan_of(call("both")), as_tool(plan_of(*steps), "both", TOOLS))
    assert [failure.happened for _, failure in end.failures] == [Happened.YES]
    assert done == ["send ada"]


@pytest.mark.anyio
async def test_who_may_not_make_the_calls_inside_may_not_make_the_call() -> None:
    """Nothing of the sub-plan is begun; whoever lost the right while it waited is stopped inside it."""
    steps = [
        call("ask", "q", args={"question": "?", "options": [1]}),
        call("label", "l", args={"text": "x"}, after=["q"]),
    ]
    made = as_tool(plan_of(*steps), "both", TOOLS)
    report = Engine([made]).check(plan_of(call("both")))
    assert [found.code for found in report.errors] == ["permission"]
    engine = Engine([made], policies=FREE, principal=ADA)
    waiting = await engine.run(plan_of(call("both")))
    less = Engine([made], policies=FREE, principal=Principal(id="ada"), journal=engine.journal)
    end = await less.resume(waiting.id, decisions={"x/q:ask:0": Answer("answer", "ada", 1)})
    assert ([failure.code for _, failure in end.failures], done) == (["not_permitted"], [])


@pytest.mark.anyio
async def test_an_approval_binds_the_plan_inside() -> None:
    """It is needed because of what the child does; another plan under the same name is not what was approved."""
    plan = plan_of(call("post", args={"to": "ada"}))
    engine = Engine([post()])
    with pytest.raises(NotApproved):
        await engine.run(plan)
    approval = engine.approve(plan, by="eve")
    changed = as_tool(POST.model_copy(update={"output": 1}), "post", TOOLS)
    with pytest.raises(NotApproved, match="post"):
        await Engine([changed]).run(plan, approval=approval)
    assert (await engine.run(plan, approval=approval))["x"] == "sent to ada"


@pytest.mark.anyio
async def test_each_runs_children_side_by_side_and_equal_items_are_two_runs() -> None:
    """One child per item."""
    journal = MemoryJournal()
    step = call("post", each=["ada", "ada", "bob"], args={"to": {"$": "item"}})
    end = await run(plan_of(step), post(), journal=journal)
    assert end["x"] == ["sent to ada", "sent to ada", "sent to bob"]
    assert len(journal.runs()) == 4


# ---------------------------------------------------------------------------------------------- budget


@pytest.mark.anyio
@pytest.mark.parametrize(("most", "state"), [(6, "done"), (5, "stopped"), (3, "stopped")])
async def test_a_child_has_a_slice_of_the_budget(most: int, state: str) -> None:
    """Three children of one call each, which make one call each: never more than the run may, and no less."""
    step = call("post", each=["a", "b", "c"], args={"to": {"$": "item"}}, on_failure="skip")
    plan = Plan.model_validate({**POST.to_json(), "steps": [POST.to_json()["steps"][1] | {"after": []}]})
    made = as_tool(plan, "post", TOOLS, tool_calls=1)
    end = await run(plan_of(step), made, policies=FREE.model_copy(update={"budget": Budget(tool_calls=most)}))
    assert (end.state, len(done)) == (state, most // 2)
    assert end.tool_calls <= most


@pytest.mark.anyio
async def test_who_needs_what_a_child_only_holds_waits_for_it() -> None:
    """Without a bound of its own, a child holds all that is left, and gives back what it did not use."""
    steps = [
        call("measure", each=[1, 2, 3]),
        call("size", "y", each=["a", "b"], args={"name": {"$": "item"}}),
    ]
    policies = FREE.model_copy(update={"budget": Budget(tool_calls=8)})
    end = await run(plan_of(*steps), measure(), size, policies=policies)
    assert (end.state, end.tool_calls) == ("done", 8)


@pytest.mark.anyio
async def test_a_child_that_uses_up_its_slice_fails_as_a_call() -> None:
    """It says so; the run goes on if the step may fail."""
    plan = plan_of(call("size", "s", each=["a", "b", "c"], args={"name": {"$": "item"}}))
    made = as_tool(plan, "sizes", TOOLS, tool_calls=2)
    end = await run(plan_of(call("sizes", on_failure="skip")), made)
    assert ([f.code for _, f in end.failures], end.state, end.tool_calls) == (["subplan_stopped"], "done", 3)


@pytest.mark.anyio
async def test_model_calls_inside_count_outside() -> None:
    """By way of the child's slice."""
    args = {"text": "7", "schema": {"type": "integer"}}
    inner = plan_of(call("extract", "e", args=args), output={"$": "e"})
    model = ScriptedModel(["7", "7", "7"])
    made = as_tool(inner, "read", Registry(extract_with(model)))
    policies = FREE.model_copy(update={"budget": Budget(model_calls=2)})
    end = await run(plan_of(call("read", each=[1, 2, 3], on_failure="skip")), made, policies=policies)
    assert (end.state, end.model_calls, len(model.requests)) == ("stopped", 2, 2)


# ---------------------------------------------------------------------------------------------- people


@pytest.mark.anyio
async def test_questions_inside_are_asked_of_the_run_outside() -> None:
    """With ids of their own; the answers are handed in, and later questions come up in turn."""
    journal = MemoryJournal()
    engine = Engine([quiz()], journal=journal)
    waiting = await engine.run(plan_of(call("quiz")), run_id="r")
    child = next(line.run for line in journal.runs() if line.run != "r")
    assert [asked.id for asked in waiting.waiting] == ["x/one:ask:0", "x/two:ask:0"]
    assert [asked.question["run"] for asked in waiting.waiting] == [child, child]
    waiting = await engine.resume("r", decisions={"x/one:ask:0": Answer("answer", "ada", "yes")})
    assert [asked.id for asked in waiting.waiting] == ["x/two:ask:0"]
    waiting = await engine.resume("r", decisions={"x/two:ask:0": Answer("answer", "bob", 7)})
    assert [asked.id for asked in waiting.waiting] == ["x/three:ask:0"]
    end = await engine.resume("r", decisions={"x/three:ask:0": Answer("answer", "ada", 1)})
    assert (end["x"], len(journal.runs())) == (["yes", 7, 1], 2)


@pytest.mark.anyio
async def test_someone_who_is_there_answers_for_the_child_too() -> None:
    """`decide` of the engine gets the questions of every depth."""
    asked: list[str] = []

    async def decide(decision: DecisionAsked) -> Answer:
        asked.append(decision.id)
        schema = decision.question["schema"]
        return Answer("answer", "ada", schema["enum"][0] if "enum" in schema else 7)

    outer = as_tool(plan_of(call("quiz", "q"), output={"$": "q"}), "outer", Registry(quiz()))
    end = await Engine([outer], decide=decide).run(plan_of(call("outer")))
    assert end["x"] == ["yes", 7, 1]
    assert sorted(asked) == ["x/q/one:ask:0", "x/q/three:ask:0", "x/q/two:ask:0"]


@pytest.mark.anyio
async def test_an_unknown_outcome_inside_is_decided_outside() -> None:
    """Accepted with a value, the child goes on; nothing is sent twice."""
    engine = Engine([post()], policies=FREE)
    waiting = await engine.run(plan_of(call("post", args={"to": "someone"})))
    [asked] = waiting.waiting
    assert (asked.about, asked.options) == ("unknown", ("retry", "accept", "fail"))
    end = await engine.resume(waiting.id, decisions={asked.id: Answer("accept", "ada", "by hand")})
    assert (end["x"], done) == ("by hand", ["send someone"])


@pytest.mark.anyio
async def test_a_refusal_inside_fails_the_call() -> None:
    """The child fails, and so does the call."""
    engine = Engine([quiz()])
    waiting = await engine.run(plan_of(call("quiz")))
    no: dict[str, Answer | str] = {asked.id: Answer("refuse", "ada") for asked in waiting.waiting}
    end = await engine.resume(waiting.id, decisions=no)
    assert (end.state, [f.code for _, f in end.failures]) == ("failed", ["subplan_failed"])


@pytest.mark.anyio
async def test_a_cancelled_run_closes_its_children() -> None:
    """Also those that wait for people."""
    journal = MemoryJournal()
    engine = Engine([quiz()], journal=journal)
    await engine.run(plan_of(call("quiz")), run_id="r")
    engine.cancel("r")
    assert {(line.state, line.reason) for line in journal.runs()} == {("stopped", "cancelled")}


@pytest.mark.anyio
async def test_a_live_run_that_is_cancelled_closes_its_children() -> None:
    """From outside, while a call inside a child is under way."""
    journal = MemoryJournal()
    begun = anyio.Event()

    @tool(effect="reads")
    async def hang() -> None:
        """Never ends."""
        begun.set()
        await anyio.sleep_forever()

    engine = Engine([as_tool(plan_of(call("hang", "h")), "inner", Registry(hang))], journal=journal)

    async def stop() -> None:
        await begun.wait()
        engine.cancel("r")

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stop)
            end = await engine.run(plan_of(call("inner")), run_id="r")
    assert (end.state, end.reason) == ("stopped", "cancelled")
    assert {(line.state, line.reason) for line in journal.runs()} == {("stopped", "cancelled")}


# ---------------------------------------------------------------------------------------------- kills


class Recorder(MemoryJournal):
    """A journal that also keeps the order of events over all its runs."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[tuple[str, Event]] = []

    def create(self, run: str, *, approval: str = "") -> Any:
        return self._recorded(super().create(run, approval=approval))

    def reopen(self, run: str) -> Any:
        return self._recorded(super().reopen(run))

    def _recorded(self, log: Any) -> Any:
        write = log.append

        def append(event: Event) -> None:
            self.order.append((log.run, event))
            write(event)

        log.append = append
        return log

    def until(self, cut: int) -> MemoryJournal:
        """A journal that ends after so many events."""
        journal = MemoryJournal()
        for run, event in self.order[:cut]:
            try:
                log = journal.reopen(run)
            except UnknownRun:
                log = journal.create(run)
            log.append(event)
            log.close()
        return journal


def everything() -> Plan:
    """Children that succeed, fail, ask, act, and hold a child of their own."""
    return plan_of(
        call("measure", "m", each=["a", "nothing"], args={"name": {"$": "item"}}, on_failure="skip"),
        call("outer", "q"),
        call("post", "p", each=["ada", "ada"], args={"to": {"$": "item"}}, after=["m"]),
        call("size", "s", args={"name": {"$": "p[0]"}}),
    )


def engine_of_all(journal: MemoryJournal, most: int | None) -> Engine:
    outer = as_tool(plan_of(call("quiz", "q"), output={"$": "q"}), "outer", Registry(quiz()))
    policies = FREE.model_copy(update={"budget": Budget(tool_calls=most)})
    return Engine([measure(), outer, post(), size], policies=policies, journal=journal, clock=now)


async def to_the_end(engine: Engine, run: Run) -> Run:
    """Answer whatever is asked."""
    while run.state == "waiting":
        answers: dict[str, Answer | str] = {}
        for asked in run.waiting:
            schema = asked.question.get("schema", {})
            value = schema["enum"][0] if "enum" in schema else 7
            answers[asked.id] = Answer("answer", "ada", value) if asked.about == "ask" else "retry"
        run = await engine.resume("r", decisions=answers)
    return run


@pytest.mark.parametrize("most", [None, 20])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_cut_at_any_event_of_parent_or_child_leads_to_the_same_end(backend: str, most: int | None) -> None:
    """The child is found and goes on where it stood: nothing settled is done again, nobody is asked twice."""
    journal = Recorder()

    async def whole() -> Run:
        engine = engine_of_all(journal, most)
        return await to_the_end(engine, await engine.run(everything(), run_id="r"))

    expected = run_virtual(backend, whole)
    assert (expected.state, expected["q"], expected["m"]) == ("done", ["yes", 7, 1], [{"size": 2}, None])
    runs = sorted(line.run for line in journal.runs())
    for cut in range(2, len(journal.order)):
        again = journal.until(cut)
        settled = [
            event
            for event in _events(again)
            if isinstance(event, CallSettled) and event.outcome is Outcome.OK
        ]
        done.clear()

        async def rest(again: MemoryJournal = again) -> Run:
            engine = engine_of_all(again, most)
            return await to_the_end(engine, await engine.resume("r"))

        end = run_virtual(backend, rest)
        assert (end.state, end.message) == (expected.state, expected.message), cut
        assert {id: s.value for id, s in end.steps.items()} == {
            id: s.value for id, s in expected.steps.items()
        }
        assert len(done) == 2 - sum(event.path == ("sent",) for event in settled), cut
        retried = [
            e
            for e in _events(again)
            if isinstance(e, DecisionAsked) and e.about == "unknown" and e.path == ("sent",)
        ]
        lost = [
            e
            for e in _events(again)
            if isinstance(e, CallSettled) and e.outcome is Outcome.CANCELLED and e.failure is not None
            if e.path[0] in ("a", "s", "sent")  # the others are plans, which go on
        ]
        assert end.tool_calls == expected.tool_calls + len(retried) + len(lost), cut
        assert sorted(line.run for line in again.runs()) == runs, cut
        assert all(line.state in ("done", "failed") for line in again.runs())


def _events(journal: MemoryJournal) -> Iterator[Event]:
    for line in journal.runs():
        yield from journal.events(line.run)


@pytest.mark.anyio
async def test_a_child_lives_in_an_sqlite_journal_too(tmp_path: Path) -> None:
    """Closed and opened again between question and answer, and shown without any tool."""
    with SqliteJournal(tmp_path / "runs.db") as journal:
        waiting = await Engine([quiz()], journal=journal).run(plan_of(call("quiz")), run_id="r")
        said = {"x/one:ask:0": Answer("refuse", "ada"), "x/two:ask:0": Answer("answer", "ada", 7)}
        assert len(waiting.waiting) == 2
    with SqliteJournal(tmp_path / "runs.db") as journal:
        end = await Engine([quiz()], journal=journal).resume("r", decisions=dict(said))
        assert end.state == "failed"
        shown = Engine([], journal=journal).show("r")
        assert (shown.steps["x"].outcome, len(journal.runs())) == (Outcome.FAILED, 2)


@pytest.mark.anyio
async def test_a_sub_plan_goes_by_the_approval_of_its_caller_and_the_record_verifies(tmp_path: Path) -> None:
    """The approval was used up once, by the run that was approved."""
    with SqliteJournal(tmp_path / "runs.db") as journal:
        engine = Engine([post()], journal=journal)
        plan = plan_of(call("post", args={"to": "ada"}))
        approval = engine.approve(plan, by="grace")
        assert (await engine.run(plan, approval=approval)).ok
        said = journal.verify()
    assert (said.ok, said.runs, said.problems) == (True, 2, ())
