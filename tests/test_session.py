"""Turns of a conversation are runs in the journal; what a model hears of a long one is bounded by a stated policy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreplan import Engine, FunctionPlanner, Plan, SqliteJournal, tool
from foreplan.executor.session import Session
from foreplan.planner.models.messages import (
    AIMessage,
    HumanMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
)
from foreplan.planner.models.scripted import ScriptedModel
from foreplan.planner.models.window import Window
from foreplan.planner.react import React
from foreplan.policies.errors import BadInput

pytestmark = pytest.mark.anyio


@tool(effect="reads")
async def orders(of: str) -> list[dict[str, Any]]:
    """Orders of a customer."""
    return [{"id": f"{of}-{n}", "total": n} for n in range(3)]


@tool
async def cancel(id: str) -> str:
    """Cancel an order."""
    return f"{id} is cancelled"


def wants(name: str, **args: Any) -> AIMessage:
    return AIMessage("", finish_reason="tool_calls", tool_calls=(ToolCall("c", name, args),))


PLAN = Plan.model_validate(
    {
        "foreplan": 1,
        "goal": "list the orders of ada",
        "steps": [{"id": "open", "tool": "orders", "args": {"of": "ada"}}],
        "output": {"ids": {"$": "[o.id for o in open]"}},
    }
)


async def test_a_later_turn_hears_the_earlier_ones_also_in_another_process(tmp_path: Path) -> None:
    """The journal is all there is: a new session of the same name goes on."""
    path = tmp_path / "talk.db"
    with SqliteJournal(path) as journal:
        model = ScriptedModel([wants("orders", of="ada"), "three orders"])
        run = await Session(Engine([orders], react=React(model), journal=journal), "talk").say("open orders?")
        assert (run.id, run.output) == ("talk-t1", "three orders")
    with SqliteJournal(path) as journal:
        model = ScriptedModel(["the first"])
        session = Session(Engine([orders], react=React(model), journal=journal), "talk")
        run = await session.say("which is the oldest?")
        assert run.id == "talk-t2"
        messages = session.messages
    heard = [message.content for message in model.requests[0].messages[1:]]
    assert heard[0] == "open orders?"
    assert heard[-2:] == ["three orders", "which is the oldest?"]
    assert [message.content for message in messages[-2:]] == ["which is the oldest?", "the first"]
    assert len({message.id for message in messages}) == len(messages) == 6


async def test_a_turn_with_a_plan_is_told_and_its_result_is_recalled_by_its_name() -> None:
    """The model hears how the plan ended, and reads more of the result with `recall`."""
    model = ScriptedModel([wants("recall", turn="t1", path="result.ids[-1]"), "ada-2"])
    session = Session(Engine([orders], react=React(model)), "talk")
    assert (await session.run(PLAN)).ok
    run = await session.say("the last one?")
    assert run.output == "ada-2"
    assert [m.content for m in run.messages if isinstance(m, ToolMessage)] == ["ada-2"]
    heard = model.requests[0].text
    assert "list the orders of ada" in heard
    assert '"turn":"t1","state":"done"' in heard


@pytest.mark.parametrize(
    ("args", "words"),
    [({"turn": "t2"}, "there are t1"), ({"turn": "t1", "path": "result.idz"}, "ids"), ({"turn": "t1", "path": "("}, "bad_path")],
)  # fmt: skip
async def test_what_cannot_be_recalled_is_bad_arguments(args: dict[str, str], words: str) -> None:
    """With the nearest name, for the model to correct once."""
    model = ScriptedModel([wants("recall", **args), "no"])
    session = Session(Engine([orders], react=React(model)), "talk")
    await session.run(PLAN)
    run = await session.say("?")
    told = next(m.content for m in run.messages if isinstance(m, ToolMessage))
    assert words in told
    assert '"error_type":"bad_args"' in told


async def test_a_later_plan_uses_earlier_results_as_inputs() -> None:
    """The planner sees their shapes; the run gets the values."""
    later = {
        "foreplan": 1,
        "goal": "cancel the first",
        "steps": [{"id": "gone", "tool": "cancel", "args": {"id": {"$": "inputs.earlier.t1.ids[0]"}}}],
        "output": {"$": "gone"},
    }

    def planned(request: Any) -> Plan:
        asked.append(request.inputs)
        return Plan.model_validate(later | {"inputs": request.inputs})

    asked: list[Any] = []
    engine = Engine([orders, cancel], FunctionPlanner(planned))
    session = Session(engine, "talk")
    await session.run(PLAN)
    plan = await session.plan("cancel the first")
    approval = engine.approve(plan, inputs=session.inputs_of(plan), by="ada")
    run = await session.run(plan, approval=approval)
    assert (run.id, run.output) == ("talk-t2", "ada-0 is cancelled")
    assert "ids" in asked[0]["properties"]["earlier"]["properties"]["t1"]["properties"]


async def test_a_turn_begins_only_when_the_last_one_has_ended() -> None:
    """With what to do in the sentence."""
    model = ScriptedModel([wants("cancel", id="ada-0"), "done"])
    session = Session(Engine([cancel], react=React(model)), "talk")
    assert (await session.say("cancel it")).state == "waiting"
    with pytest.raises(BadInput, match=r"session\.resume.*engine\.cancel\('talk-t1'\)"):
        await session.say("and?")


async def test_a_turn_that_waits_goes_on_by_the_session(tmp_path: Path) -> None:
    """A turn with a plan as well as one with the model, also from another process."""
    plan = Plan.model_validate(
        {
            "foreplan": 1,
            "goal": "cancel it",
            "steps": [{"id": "c", "tool": "sure", "args": {"id": "ada-1"}}],
            "output": {"$": "c"},
        }
    )

    @tool(requires_approval="each")
    async def sure(id: str) -> str:
        """Cancel an order."""
        return f"{id} is cancelled"

    def session(journal: SqliteJournal, *answers: Any) -> Session:
        return Session(Engine([sure], react=React(ScriptedModel(answers)), journal=journal), "talk")

    with SqliteJournal(tmp_path / "talk.db") as journal:
        one = session(journal)
        with pytest.raises(BadInput, match="no turn"):
            await one.resume()
        engine = Engine([sure], journal=journal)
        assert (await one.run(plan, approval=engine.approve(plan, by="bo"))).state == "waiting"
        assert engine.show("talk-t1").state == "waiting"
    with SqliteJournal(tmp_path / "talk.db") as journal:
        two = session(journal, wants("sure", id="ada-2"), "gone")
        assert (await two.resume(decisions={"c:call:0": "approve"})).output == "ada-1 is cancelled"
        (asked,) = (await two.say("and the other")).waiting
        assert (await two.resume(decisions={asked.id: "approve"})).output == "gone"
        assert two.results == {"t1": "ada-1 is cancelled", "t2": "gone"}


# ---------------------------------------------------------------------------------------------- what is heard


def talk(rounds: int, size: int) -> list[Message]:
    history: list[Message] = [SystemMessage("rules", id="s"), HumanMessage("the question", id="q")]
    for n in range(rounds):
        history.append(AIMessage("", tool_calls=(ToolCall(f"c{n}", "t", {}),), id=f"a{n}"))
        history.append(ToolMessage("x" * size, f"c{n}", id=f"r{n}"))
    return history


def complete(messages: Sequence[Message]) -> bool:
    asked = [call.id for m in messages if isinstance(m, AIMessage) for call in m.tool_calls]
    return asked == [m.tool_call_id for m in messages if isinstance(m, ToolMessage)]


async def test_what_fits_is_heard_as_it_is() -> None:
    """The very same list: nothing is copied or cut."""
    history = talk(3, 100)
    assert await Window(tokens=10_000).fit(history) is history


async def test_what_does_not_fit_is_cut_from_the_old_end_and_said_so() -> None:
    """System message and pinned ones stay, a call stays with its answers, old results become previews."""
    history = talk(30, 1000)
    window = Window(tokens=1200, recent=4, preview=40, pinned={"q"})
    heard = await window.fit(history)
    assert heard[0] == history[0]
    assert heard[1] == history[1]
    assert "earlier messages are left out" in heard[2].content
    assert heard[-4:] == history[-4:]
    assert complete(heard)
    assert "more characters" in heard[4].content
    assert sum(map(window.size, heard)) < 1200 + 100


async def test_a_summary_serves_for_some_rounds() -> None:
    """What is left out grows in blocks, so a model that summarises is not asked in every round."""
    asked: list[int] = []

    def summarise(messages: list[Message]) -> str:
        asked.append(len(messages))
        return "much was said"

    window, history = Window(tokens=300, recent=8, summarise=summarise), talk(60, 100)
    for length in range(2, len(history) + 1, 2):
        heard = await window.fit(history[:length])
        assert heard[-1] is history[length - 1]
        assert sum(map(window.size, heard)) <= 300 + 10
    assert asked == sorted(set(asked))
    assert len(asked) <= 60 * 2 / 8


async def test_what_is_pinned_stays_with_its_call_or_its_answer() -> None:
    """A pinned call without its answer, or the other way round, is no history that a service takes."""
    history = talk(30, 100)
    heard = await Window(tokens=300, recent=2, pinned={"a3", "r7"}).fit(history)
    assert complete(heard)
    assert [m.id for m in heard[1:5]] == ["a3", "r3", "a7", "r7"]
    assert "(" in heard[5].content


async def test_all_system_messages_at_the_beginning_stay() -> None:
    """The rules and whatever the host says after them; they count against the bound."""
    history = [SystemMessage("ours", id="s1"), SystemMessage("y" * 400, id="s2"), *talk(30, 100)[1:]]
    window = Window(tokens=300, recent=2)
    heard = await window.fit(history)
    assert heard[:2] == history[:2]
    assert sum(map(window.size, heard)) <= 300 + 15


async def test_a_summary_may_stand_for_what_is_left_out() -> None:
    """Written by whoever the host says, sync or async."""

    async def summarise(messages: list[Message]) -> str:
        return f"{len(messages)} things happened"

    heard = await Window(tokens=300, summarise=summarise).fit(talk(20, 400))
    assert "things happened" in heard[1].content


@given(st.integers(0, 12), st.integers(0, 600), st.integers(1, 800), st.integers(1, 9))
def test_no_bound_tears_a_call_from_its_answers(rounds: int, size: int, tokens: int, recent: int) -> None:
    """Whatever the bound, the newest exchange is heard and every answer stands after its call."""
    import anyio

    history = talk(rounds, size)
    heard = anyio.run(Window(tokens=tokens, recent=recent).fit, history)
    assert complete(heard)
    assert heard[0] == history[0]
    assert heard[-1].id == history[-1].id


async def test_an_agent_hears_no_more_than_its_window() -> None:
    """The history keeps everything."""
    model = ScriptedModel([wants("orders", of="ada" * 200), wants("orders", of="bob" * 200), "so"])
    engine = Engine([orders], react=React(model, window=Window(tokens=50, recent=1, preview=20)))
    run = await engine.answer("go")
    assert len(model.requests[-1].text) < len("".join(m.content for m in run.messages))
    assert len(run.messages) == 7


@pytest.mark.parametrize("options", [{"tokens": 0}, {"tokens": 10, "recent": 0}, {"tokens": True}])
def test_a_window_without_room_is_refused(options: dict[str, Any]) -> None:
    """With the option in the sentence."""
    with pytest.raises(BadInput, match="is a number from 1"):
        Window(**options)
