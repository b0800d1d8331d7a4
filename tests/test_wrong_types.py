"""A value of the wrong type is refused where it is handed in, in a sentence that says what is wanted there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from foreplan import (
    Budget,
    Budgeted,
    EmbeddingSearch,
    Engine,
    Fallback,
    FunctionPlanner,
    ModelPlanner,
    Plan,
    Principal,
    React,
    Registry,
    Retrying,
    ScriptedModel,
    Session,
    StaticPlanner,
    ToolCall,
    create_agent,
    extract_with,
    tool,
)
from foreplan.policies.errors import BadInput


@tool(effect="reads")
async def look(q: str) -> str:
    """Look."""
    return q


PLAN = Plan.model_validate(
    {"foreplan": 1, "goal": "g", "steps": [{"id": "a", "tool": "look", "args": {"q": "x"}}]}
)
MODEL: Any = ScriptedModel(["x"])
NO: Any = "x"
"""What stands in the place of something else."""


def engine() -> Engine:
    return Engine([look], planner=StaticPlanner(PLAN), react=React(MODEL))


def events_after(after: Any) -> Any:
    async def first() -> None:
        async for _ in engine().events("r", after=after):
            pass

    anyio.run(first)


SLIPS: dict[str, tuple[Callable[[], Any], str]] = {
    "a record without names": (lambda: Budget(5), "Budget(tool_calls=...)"),  # type: ignore[call-arg]
    "a principal without names": (lambda: Principal("ada"), "Principal(id=...)"),  # type: ignore[call-arg]
    "the name of a model, to plan": (lambda: ModelPlanner(NO), "`agenerate`"),
    "the name of a model, to retry": (lambda: Retrying(NO), "`agenerate`"),
    "the name of a model, to bound": (lambda: Budgeted(NO, calls=1), "`agenerate`"),
    "the name of a model, to fall back on": (lambda: Fallback(MODEL, NO), "`agenerate`"),
    "the name of a model, to extract": (lambda: extract_with(NO), "`agenerate`"),
    "the class of a model": (lambda: create_agent(ScriptedModel), "an object"),  # type: ignore[arg-type]
    "a system prompt": (lambda: create_agent(MODEL, [look], 3), "system prompt"),  # type: ignore[arg-type]
    "a response format": (lambda: create_agent(MODEL, response_format=3), "no schema"),
    "a window": (lambda: create_agent(MODEL, window=NO), "Window"),
    "rules for a planner": (lambda: FunctionPlanner(NO), "StaticPlanner"),
    "an embedding": (lambda: EmbeddingSearch(NO), "vector"),
    "an engine of a session": (lambda: Session(NO, "s"), "must be an Engine"),
    "a plan of a session": (lambda: anyio.run(Session(engine(), "s").run, NO), "must be a Plan"),
    "a prefix": (lambda: Registry(look).prefixed(3), "prefix"),  # type: ignore[arg-type]
    "new names": (lambda: Registry(look).renamed(NO), "a dict"),
    "permissions": (lambda: Registry(look).permitted(3), "a list of permissions"),  # type: ignore[arg-type]
    "a goal": (lambda: engine().plan_blocking(3), "the goal"),  # type: ignore[arg-type]
    "a schema of inputs": (lambda: engine().plan_blocking("g", inputs=NO), "schema of the inputs"),
    "a signer": (lambda: engine().approve(PLAN, by="ada", signer=NO), "HmacSigner"),
    "telemetry": (lambda: Engine([look], telemetry=NO), "no telemetry"),
    "approver_differs": (lambda: Engine([look], approver_differs=NO), "must be a bool"),
    "how often to look": (lambda: anyio.run(lambda: engine().resume_all(every=NO)), "seconds"),
    "where events begin": (lambda: events_after(NO), "the number of the last event"),
    "a call without an id": (lambda: ToolCall(None, "look", {}), "the id of a tool call"),  # type: ignore[arg-type]
    "a call with no object": (lambda: ToolCall("c", "look", NO), "InvalidToolCall"),
    "a plan to replay": (lambda: engine().replay("r", plan=NO), "must be a Plan"),
    "policies to replay": (lambda: engine().replay("r", policies=NO), "must be a Policies"),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_said_at_once(slip: str) -> None:
    """Not when a run first needs the thing, and not as an AttributeError from within."""
    make, said = SLIPS[slip]
    with pytest.raises(BadInput) as caught:
        make()
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("decisions", "said"),
    [
        ("approve", "must be a Mapping"),
        ({"a:call:0": True}, "an Answer or a word (approve, reject, edit), not True"),
        ({"a:call:0": {"choice": "approve"}}, "an Answer or a word (approve, reject, edit)"),
        ({3: "approve"}, "no question 3 is open (open: a:call:0)"),
    ],
)
def test_what_is_no_answer_to_a_person_s_question_is_said(decisions: Any, said: str) -> None:
    """By whoever decides, and the question stays open."""

    @tool(requires_approval="each")
    async def pay(q: str) -> str:
        """Pay."""
        return q

    async def decide(question: Any) -> Any:
        return True

    document = {"foreplan": 1, "goal": "g", "steps": [{"id": "a", "tool": "pay", "args": {"q": "x"}}]}
    plan = Plan.model_validate(document)
    one = Engine([pay], decide=decide)
    run = one.run_blocking(plan, approval=one.approve(plan, by="ada"))
    assert run.state == "waiting"
    for answer in (one.resume_blocking, one.decide_blocking):
        with pytest.raises(BadInput) as caught:
            answer(run.id, decisions=decisions)
        assert said in str(caught.value)
    assert [asked.id for asked in one.show(run.id).waiting] == ["a:call:0"]


@pytest.mark.parametrize("id_", [3, "", "  ", "a\0b", "a\nb", "\ud800"])
def test_the_id_of_a_run_is_a_line_of_text(id_: Any) -> None:
    """One that is none would stand in the journal for good, and break what lists the runs."""
    one = engine()
    begins: list[Callable[[], Any]] = [
        lambda: one.run_blocking(PLAN, run_id=id_),
        lambda: one.answer_blocking("hi", run_id=id_),
        lambda: anyio.run(lambda: one.plan_and_run("g", run_id=id_)),
    ]
    for begin in begins:
        with pytest.raises(BadInput, match="the id of a run is a line of text"):
            begin()
    assert one.runs() == []
    assert one.run_blocking(PLAN, run_id="für Ada, 1/2").ok
