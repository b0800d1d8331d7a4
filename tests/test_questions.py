"""Questions to people while a run is live: what is left open neither holds the run up nor ends it early."""

from __future__ import annotations

import anyio
import pytest

from foreplan import Engine, Plan, Registry, tool
from foreplan.executor.events import DecisionAsked
from foreplan.executor.runtime import Answer, Decide

pytestmark = pytest.mark.anyio


@tool(effect="acts", requires_approval="each")
async def pay(to: str) -> str:
    """Pay someone."""
    return f"paid {to}"


def engine(decide: Decide, *tools: object) -> Engine:
    """An engine that asks `decide`."""
    return Engine(Registry(pay, *tools), decide=decide)  # type: ignore[arg-type]


async def test_a_question_left_open_does_not_hold_the_run_up() -> None:
    """Nobody answers while another call is under way: when that ends, the run waits and the engine returns."""
    left = anyio.Event()

    @tool(effect="reads")
    async def look() -> int:
        """Take longer than the person does."""
        await left.wait()
        return 1

    async def leave(asked: DecisionAsked) -> None:
        left.set()

    plan = Plan.model_validate(
        {"steps": [{"id": "a", "tool": "pay", "args": {"to": "ada"}}, {"id": "b", "tool": "look"}]}
    )
    asks = engine(leave, look)
    with anyio.fail_after(10):
        run = await asks.run(plan, approval=asks.approve(plan, by="ada"))
    assert (run.state, run.steps["b"].value, len(run.waiting)) == ("waiting", 1, 1)


async def test_a_question_left_open_does_not_end_another() -> None:
    """One question is left open while the next is still before someone: that answer counts."""
    left = anyio.Event()

    async def answer(asked: DecisionAsked) -> Answer | None:
        if asked.path == ("payments", 0):
            left.set()
            return None
        await left.wait()
        await anyio.lowlevel.checkpoint()
        return Answer("approve", "ada")

    step = {"id": "payments", "each": ["ada", "bob"], "tool": "pay", "args": {"to": {"$": "item"}}}
    plan = Plan.model_validate({"steps": [step]})
    asks = engine(answer)
    with anyio.fail_after(10):
        run = await asks.run(plan, approval=asks.approve(plan, by="ada"))
    assert [asked.path for asked in run.waiting] == [("payments", 0)]
    assert asks.show(run.id).tool_calls == 1
