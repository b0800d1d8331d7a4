"""A rehearsal: the plan runs for show through the guarded call, nothing happens, and the result says what it was."""

from __future__ import annotations

from typing import Any, cast

import pytest

from foreplan import (
    Effect,
    Engine,
    Plan,
    Policies,
    Principal,
    Registry,
    Tool,
    ToolContext,
    as_tool,
    ask,
    tool,
)
from foreplan.executor.runtime import Answer
from foreplan.planner.findings import CheckFailed
from foreplan.policies.errors import ToolRefused
from foreplan.policies.failures import Kind
from foreplan.policies.secrets import Secret
from foreplan.registry.vaults import MappingSecrets

pytestmark = pytest.mark.anyio
DONE: list[Any] = []


def booked_as_if(room: str, nights: int = 1) -> dict[str, Any]:
    """What a booking looks like."""
    return {"id": f"as-if-{room}", "nights": nights}


@tool(simulate=booked_as_if, requires_approval="each", secret_refs={"token": "HOTEL_TOKEN"})
def book(room: str, token: str, nights: int = 1) -> dict[str, Any]:
    """Book a room."""
    DONE.append(room)
    return {"id": room}


@tool(effect="reads")
def rooms() -> list[str]:
    """Which rooms there are."""
    DONE.append("rooms")
    return ["blue", "red"]


@tool
def pay(amount: float) -> str:
    """Pay."""
    DONE.append(amount)
    return "paid"


PLAN = Plan.model_validate(
    {
        "goal": "book all",
        "steps": [
            {"id": "free", "tool": "rooms"},
            {
                "id": "got",
                "tool": "book",
                "each": {"$": "free"},
                "args": {"room": {"$": "item"}, "nights": 2},
            },
            {"id": "bill", "tool": "pay", "args": {"amount": 3}, "after": ["got"]},
            {"id": "note", "value": {"$": "f'{bill}!'"}},
        ],
    }
)


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    """No effect is left of another test."""
    DONE.clear()


async def test_stand_ins_are_called_and_nothing_happens() -> None:
    """Simulated calls give what the stand-in gives; what has none fails, and what needs it is blocked."""
    engine = Engine([book, rooms, pay])
    run = await engine.rehearse(PLAN, reads=True)
    assert DONE == ["rooms"]
    assert run["got"] == [{"id": "as-if-blue", "nights": 2}, {"id": "as-if-red", "nights": 2}]
    failure = run.steps["bill"].failure
    assert failure is not None
    assert (failure.kind, failure.code) == (Kind.BUSINESS, "not_simulated")
    assert "simulate" in failure.message
    assert run.steps["note"].outcome is not None
    assert run.steps["note"].outcome.value == "blocked"
    assert run.rehearsal
    assert run.to_json()["rehearsal"] is True
    assert "a rehearsal" in run.message
    assert "2 calls were simulated, 1 call really read, 1 call has no stand-in" in run.message
    assert engine.runs() == []


async def test_without_reads_nothing_real_is_called() -> None:
    """A tool that reads and has no stand-in fails too, and the sentence says what would call it."""
    run = await Engine([book, rooms, pay]).rehearse(PLAN)
    assert DONE == []
    assert run.steps["free"].failure is not None
    assert "rehearse with reads" in run.steps["free"].failure.message
    assert "got" not in dict(run.failures)


async def test_secrets_and_approvals_are_left_alone() -> None:
    """No vault is asked, no approval is needed, no question is put before each call."""
    asked: list[str] = []

    class Asked(MappingSecrets):
        def resolve(self, ref: str) -> Secret:
            asked.append(ref)
            return super().resolve(ref)

    engine = Engine(
        [book, rooms, pay], policies=Policies(approve="always"), secrets=Asked({"HOTEL_TOKEN": "long-enough"})
    )
    run = await engine.rehearse(PLAN, reads=True)
    assert asked == []
    assert run.waiting == ()


async def test_what_is_wrong_with_a_plan_stands_in_the_way_of_a_rehearsal_too() -> None:
    """It is checked, permissions hold, and a stand-in's result is read as the tool's own."""
    with pytest.raises(CheckFailed):
        await Engine([rooms]).rehearse(PLAN)

    @tool(effect="reads", simulate=lambda: "no number", permissions="crm:read")
    def total() -> int:
        """Give a number."""
        return 1

    plan = Plan.model_validate({"steps": [{"id": "t", "tool": "total"}]})
    with pytest.raises(CheckFailed):
        await Engine([total]).rehearse(plan)
    run = await Engine([total], principal=Principal(id="ada", permissions=("crm:read",))).rehearse(plan)
    assert run.steps["t"].failure is not None
    assert run.steps["t"].failure.code == "invalid_result"


async def test_questions_are_listed_and_sub_plans_are_rehearsed() -> None:
    """`ask` is a question as in a run; the tools of a plan in a plan have their stand-ins called."""
    inner = Plan.model_validate(
        {
            "goal": "one room",
            "inputs": {"type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]},
            "steps": [{"id": "b", "tool": "book", "args": {"room": {"$": "inputs.room"}}}],
            "output": {"$": "b.id"},
        }
    )
    stay = as_tool(inner, "stay", [book])
    plan = Plan.model_validate(
        {
            "steps": [
                {"id": "a", "tool": "stay", "args": {"room": "blue"}},
                {"id": "q", "tool": "ask", "args": {"question": "Which?", "options": ["x", "y"]}},
            ]
        }
    )
    run = await Engine(Registry(stay, ask)).rehearse(plan)
    assert run["a"] == "as-if-blue"
    assert [asked.about for asked in run.waiting] == ["ask"]
    assert DONE == []

    async def choose(asked: Any) -> Any:
        return Answer("answer", "ada", "x")

    run = await Engine(Registry(stay, ask), decide=choose).rehearse(plan)
    assert (run.state, run["q"]) == ("done", "x")


async def test_a_stand_in_may_be_async_and_take_the_context() -> None:
    """It gets the arguments as the tool's own types, under whatever name it wants the context."""
    seen: list[Any] = []

    async def as_if(where: str, ctx: ToolContext) -> str:
        seen.append((where, ctx.tool, ctx.attempt))
        return where

    @tool(simulate=as_if)
    def go(context: ToolContext, where: str) -> str:
        """Go."""
        return where

    async def declared_as_if(args: dict[str, Any], context: ToolContext) -> int:
        return int(args["x"]) + context.attempt

    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    put = Tool.declare("put", input_schema=schema, simulate=declared_as_if, effect=Effect.ACTS)
    steps = [
        {"id": "a", "tool": "go", "args": {"where": "home"}},
        {"id": "b", "tool": "put", "args": {"x": 1}},
    ]
    run = await Engine([go, put]).rehearse(Plan.model_validate({"steps": steps}))
    assert (run.ok, run["a"], run["b"]) == (True, "home", 2)
    assert seen == [("home", "go", 1)]


def lacks(room: str) -> str:
    """Too few."""
    return room


def misspelt(room: str, nihgts: int = 1) -> str:
    """A typo."""
    return room


def wants_more(room: str, nights: int, guests: int) -> str:
    """Too many."""
    return room


def takes_all(**given: Any) -> str:
    """Whatever comes."""
    return "x"


@pytest.mark.parametrize("option", ["simulate", "reconcile"])
@pytest.mark.parametrize(
    ("stand_in", "words"),
    [
        (lacks, "must take 'nights', as its function does"),
        (misspelt, "did you mean 'nihgts'"),
        (wants_more, "needs 'guests', which the tool does not have"),
        (takes_all, ""),
    ],
)
def test_a_stand_in_takes_what_the_tool_takes(option: str, stand_in: Any, words: str) -> None:
    """Checked when the tool is made, with the nearest name."""

    def stay(room: str, nights: int = 1) -> str:
        """Stay."""
        return room

    with pytest.raises(ToolRefused, match="takes its arguments as one dict"):
        Tool.declare("x", input_schema={"type": "object"}, **{option: cast(Any, wants_more)})
    if not words:
        assert tool(**{option: stand_in})(stay).name == "stay"
        return
    with pytest.raises(ToolRefused, match=words):
        tool(**{option: stand_in})(stay)
