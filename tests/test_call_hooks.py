"""Hooks around calls: asked once, recorded, fail closed before a call, only look after it; on every path."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import pytest
from support.virtual import BACKENDS, now, run_virtual

from foreplan import Budget, Engine, MemoryJournal, Plan, Policies, Retry, Run, as_tool, tool
from foreplan.executor.agent import create_agent
from foreplan.executor.events import HookAnswered
from foreplan.executor.hands.authorize import Attempt
from foreplan.executor.hands.hooks import Settled
from foreplan.planner.models.messages import AIMessage, ToolCall
from foreplan.planner.models.scripted import ScriptedModel

pytestmark = pytest.mark.anyio

MADE: list[tuple[str, Any]] = []


@pytest.fixture(autouse=True)
def _nothing_made() -> None:
    MADE.clear()


@tool(effect="writes")
async def note(text: str, size: int = 1) -> str:
    """Write a note."""
    MADE.append(("note", text))
    return text


@tool(effect="writes")
async def flaky(text: str) -> str:
    """Fail once."""
    MADE.append(("flaky", text))
    if len(MADE) == 1:
        raise ConnectionResetError("gone")
    return text


def plan_of(*steps: dict[str, Any], **rest: Any) -> Plan:
    return Plan.model_validate({"foreplan": 1, "goal": "g", "steps": list(steps), **rest})


def step(id: str, name: str = "note", text: Any = "x", **rest: Any) -> dict[str, Any]:
    return {"id": id, "tool": name, "args": {"text": text}, **rest}


async def test_a_hook_before_a_call_lets_it_pass_amends_it_or_refuses_it() -> None:
    """None and True pass, a dict is the new arguments, False and a text refuse with a reason; siblings go on."""

    def before(call: Attempt) -> Any:
        return {"a": None, "b": True, "c": {"text": "amended"}, "d": False, "e": "not today"}[
            call.args["text"]
        ]

    run = await Engine([note], before_call=before).run(plan_of(*(step(id_, text=id_) for id_ in "abcde")))
    assert {made for _, made in MADE} == {"a", "b", "amended"}
    assert run["c"] == "amended"
    assert {where: (f.kind, f.code) for where, f in run.failures} == {
        "d": ("permission", "refused_by_hook"),
        "e": ("permission", "refused_by_hook"),
    }
    assert dict(run.failures)["e"].message == "not today"
    assert run.tool_calls == 3


async def test_amended_arguments_are_admitted_like_any_others() -> None:
    """They must fit the schema, and they are what is recorded."""
    journal = MemoryJournal()
    engine = Engine([note], before_call=lambda call: {"text": 7}, journal=journal)
    run = await engine.run(plan_of(step("a")), run_id="r")
    ((_, failure),) = run.failures
    assert (failure.kind, MADE) == ("bad_args", [])


async def test_a_hook_before_a_call_that_raises_or_means_nothing_denies() -> None:
    """It fails closed, with the kind of policies that cannot be asked."""

    def broken(call: Attempt) -> None:
        raise KeyError("x")

    for hook in (broken, lambda call: 3):
        run = await Engine([note], before_call=hook).run(plan_of(step("a")))
        ((_, failure),) = run.failures
        assert (failure.kind, failure.code, MADE) == ("permission", "policy_unavailable", [])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_hook_that_hangs_holds_up_no_run(backend: str) -> None:
    """No answer within `hook_timeout` denies before a call, and is only recorded after one."""

    async def hang(*about: Any) -> None:
        await anyio.sleep_forever()

    async def main() -> tuple[Run, Run]:
        before = await Engine([note], before_call=hang, clock=now).run(plan_of(step("a")))
        after = await Engine([note], after_call=hang, clock=now).run(plan_of(step("a")))
        return before, after

    before, after = run_virtual(backend, main)
    assert [f.code for _, f in before.failures] == ["policy_unavailable"]
    assert after.state == "done"


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("hook", ["before_call", "after_call"])
def test_a_sync_hook_that_hangs_holds_up_nothing_but_its_call(backend: str, hook: str) -> None:
    """It runs in a thread, as `authorize` does: it is cut off in time, siblings end, and its late word is none."""
    release = threading.Event()

    def hang(call: Attempt, *about: Any) -> Any:
        if call.step == "a":
            release.wait()
        return "too late"

    async def main() -> Run:
        hooks: dict[str, Any] = {hook: hang}
        return await Engine([note], clock=now, **hooks).run(plan_of(step("a"), {"id": "b", "value": 1}))

    run = run_virtual(backend, main)
    release.set()
    codes = [failure.code for _, failure in run.failures]
    assert (codes, run["b"]) == (["policy_unavailable"] if hook == "before_call" else [], 1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_hook_after_a_call_sees_every_attempt_and_changes_nothing(backend: str) -> None:
    """Its answer is ignored and it cannot touch the value; a raising one is recorded."""
    seen: list[tuple[int, str, Any]] = []

    async def after(call: Attempt, settled: Settled) -> Any:
        seen.append((call.attempt, settled.outcome.value, settled.value))
        call.args["text"] = "changed"  # type: ignore[index]
        raise KeyError("x")

    journal = MemoryJournal()

    async def main() -> Run:
        engine = Engine(
            [flaky], after_call=after, journal=journal, clock=now, policies=Policies(retry=Retry(base=1))
        )
        return await engine.run(plan_of(step("a", "flaky")), run_id="r")

    run = run_virtual(backend, main)
    assert seen == [(1, "failed", None), (2, "ok", "x")]
    assert (run.state, run["a"]) == ("done", "x")
    answers = [event for event in journal.events("r") if isinstance(event, HookAnswered)]
    assert [event.failure is not None for event in answers] == [True, True]


async def test_a_hook_is_asked_once_for_a_call_whatever_it_waits_for() -> None:
    """Not again for a retry, a budget that others hold, or a replay."""
    asked: list[str] = []

    def before(call: Attempt) -> None:
        asked.append(call.step)

    inner = as_tool(plan_of(step("n", text={"$": "inputs.text"}), inputs={
        "type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}, output={"$": "n"},
    ), "sub", [note])  # fmt: skip
    policies = Policies(budget=Budget(tool_calls=9), retry=Retry(base=0, cap=0))
    engine = Engine([flaky, note, inner], before_call=before, policies=policies)
    run = await engine.run(
        plan_of(
            step("a", "flaky"), *({"id": f"s{n}", "tool": "sub", "args": {"text": str(n)}} for n in range(3))
        )
    )
    assert run.state == "done", run.message
    assert sorted(asked) == ["a", "n", "n", "n", "s0", "s1", "s2"]


async def test_every_path_passes_the_hook() -> None:
    """Items, groups, undo, dialogues, sub-plans: nothing reaches a tool beside it."""
    seen: list[tuple[str, str]] = []

    def before(call: Attempt) -> None:
        seen.append((call.tool, call.step))

    @tool(effect="reads")
    async def fail() -> None:
        """Fail."""
        raise ValueError("no")

    plan = plan_of(
        step("each", each=[1, 2]),
        {"id": "walls", "each": [1], "steps": [step("inside")], "output": {"$": "inside"}},
        step("undone", undo={"tool": "note", "args": {"text": "back"}}),
        {"id": "bad", "tool": "fail", "after": ["undone", "each", "walls"]},
    )
    await Engine([note, fail], before_call=before).run(plan)
    model = ScriptedModel([AIMessage("", tool_calls=(ToolCall("c", "note", {"text": "t"}),)), "so"])
    await create_agent(model, [note], before_call=before).ainvoke("go")
    assert sorted(where for _, where in seen) == sorted(
        ["each[0]", "each[1]", "walls[0].inside", "undone", "bad", "undone.undo", "@react[1].c0"]
    )
    assert len(MADE) == len(seen) - 1


async def test_a_cut_at_any_event_asks_no_hook_twice() -> None:
    """What a hook has said is an event; it is asked again only where the answer was lost."""
    asked: list[str] = []

    def before(call: Attempt) -> Any:
        asked.append(call.step)
        return {"text": f"{call.args['text']}!"}

    plan = plan_of(step("a"), step("b", text={"$": "a"}))
    journal = MemoryJournal()
    hooks: dict[str, Any] = {"before_call": before, "after_call": lambda call, settled: None}
    whole = await Engine([note], journal=journal, **hooks).run(plan, run_id="r")
    assert whole["b"] == "x!!"
    events = list(journal.events("r"))
    for cut in range(2, len(events)):
        again = MemoryJournal()
        log = again.create("r")
        for event in events[:cut]:
            log.append(event)
        log.close()
        answered = [e.path for e in events[:cut] if isinstance(e, HookAnswered) and e.hook == "before_call"]
        asked.clear()
        run = await Engine([note], journal=again, **hooks).resume("r")
        assert (run.state, run["b"], len(asked)) == ("done", "x!!", 2 - len(answered)), cut


async def test_a_run_opened_with_a_hook_does_not_go_on_without_it() -> None:
    """An engine that lacks it denies the calls."""
    journal = MemoryJournal()
    await Engine([note], journal=journal, before_call=lambda call: None).run(plan_of(step("a")), run_id="r")
    again = MemoryJournal()
    log = again.create("r")
    for event in list(journal.events("r"))[:2]:
        log.append(event)
    log.close()
    MADE.clear()
    run = await Engine([note], journal=again).resume("r")
    assert (run.state, MADE) == ("failed", [])
    assert "does not have" in run.failures[0][1].message
