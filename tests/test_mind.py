"""The mind alone: pure, replayable at every event, and nothing in it needs hands."""

from __future__ import annotations

from typing import Any

import pytest
from support.virtual import now, run_virtual

from foreplan import (
    Effect,
    Engine,
    FunctionPlanner,
    MemoryJournal,
    Patch,
    Plan,
    Policies,
    Retry,
    Run,
    ToolFailure,
    tool,
)
from foreplan.executor import events as e
from foreplan.executor.events import EVENTS, CallStarted, Event, Outcome, decode, encode
from foreplan.executor.mind.batch import ON as BATCH_ON
from foreplan.executor.mind.mind import _ON, advance, outstanding, replay
from foreplan.executor.mind.state import Perform, Sleep, StaleState, State, Write
from foreplan.executor.run import run_of
from foreplan.registry.registry import Registry

READS = Effect.READS
calls: list[tuple[str, Any]] = []


@tool(effect=READS)
async def read(x: int) -> dict[str, int]:
    """Reads; the first attempt at 3 fails for a moment, 5 is refused."""
    calls.append(("read", x))
    if x == 3 and calls.count(("read", 3)) == 1:
        raise ConnectionRefusedError("a moment")
    if x == 5:
        raise ToolFailure("not five", code="five")
    return {"x": x}


@tool(effect=Effect.WRITES, timeout=None)  # a thread takes real time, which virtual time would jump over
def write(x: int) -> int:
    """Writes, in a thread."""
    calls.append(("write", x))
    return x


@tool
async def act(x: int) -> str:
    """Acts."""
    calls.append(("act", x))
    return f"acted {x}"


REGISTRY = Registry(read, write, act)
PLAN = Plan.model_validate(
    {
        "goal": "a bit of everything",
        "steps": [
            {"id": "xs", "value": {"$": "[1, 2, 3, 4]"}},
            {"id": "reads", "each": {"$": "xs"}, "tool": "read", "args": {"x": {"$": "item"}}},
            {
                "id": "odd",
                "each": {"$": "xs"},
                "when": {"$": "item % 2 == 1"},
                "tool": "write",
                "args": {"x": {"$": "item"}},
            },
            {"id": "five", "tool": "read", "args": {"x": 5}},
            {"id": "after_five", "tool": "act", "args": {"x": {"$": "five.x"}}},
            {"id": "never", "when": {"$": "len(reads) > 9"}, "tool": "act", "args": {"x": 1}},
            {"id": "maybe", "tool": "read", "args": {"x": {"$": "len(never)"}}},
        ],
        "output": {"last": {"$": "after_five"}},
    }
)
POLICIES = Policies(approve="never", retry=Retry(base=1.0))


def replan(request: Any) -> Patch:
    return Patch.model_validate(
        {"add": [{"id": "six", "replaces": "five", "tool": "read", "args": {"x": 6}}]}
    )


def recorded() -> tuple[list[Event], Run]:
    """One whole run in virtual time, as its events."""
    calls.clear()
    journal = MemoryJournal()
    engine = Engine(REGISTRY, FunctionPlanner(replan=replan), policies=POLICIES, journal=journal, clock=now)

    async def main() -> Run:
        return await engine.run(PLAN, run_id="r")

    run = run_virtual("asyncio", main)
    return list(journal.events("r")), run


def test_every_event_has_its_function() -> None:
    """The completeness of `advance`, and of the journal's words."""
    assert set(_ON) | set(BATCH_ON) == set(EVENTS.values())


def test_replay_of_the_journal_is_the_state_the_run_ended_in() -> None:
    """Also through the encoded form."""
    events, run = recorded()
    assert run.output == {"last": "acted 6"}
    assert run_of(replay(State(REGISTRY), events)) == run
    again = [decode(encode(event)) for event in events]
    assert again == events


def test_an_event_that_does_not_follow_is_refused() -> None:
    """A stale state raises instead of going wrong silently."""
    events, _ = recorded()
    state = replay(State(REGISTRY), events[:4])
    with pytest.raises(StaleState):
        advance(state, events[2])


def test_after_any_prefix_what_is_outstanding_leads_to_the_same_end() -> None:
    """Cut the journal after each event, resume, and the end is the same; nothing that settled is called again."""
    events, run = recorded()
    for cut in range(2, len(events)):
        calls.clear()
        journal = MemoryJournal()
        log = journal.create("r")
        for event in events[:cut]:
            log.append(event)
        log.close()
        engine = Engine(
            REGISTRY, FunctionPlanner(replan=replan), policies=POLICIES, journal=journal, clock=now
        )
        settled = [x.path for x in events[:cut] if isinstance(x, e.CallSettled) and x.outcome is Outcome.OK]

        async def main(engine: Engine = engine) -> Run:
            end = await engine.resume("r")
            while end.state == "waiting":
                end = await engine.resume("r", decisions={d.id: "retry" for d in end.waiting})
            return end

        end = run_virtual("asyncio", main)
        assert (end.state, end.output) == ("done", run.output), cut
        assert {k: v.value for k, v in end.steps.items()} == {k: v.value for k, v in run.steps.items()}, cut
        begun = [x.path for x in list(journal.events("r"))[cut:] if isinstance(x, CallStarted)]
        assert not set(begun) & set(settled), cut


def test_a_call_that_was_admitted_and_has_not_ended_is_outstanding() -> None:
    """After each event: every admitted path is performing, sleeping, or being asked about, until it settles."""
    events, _ = recorded()
    state = State(REGISTRY)
    open_paths: set[e.Path] = set()
    for event in events:
        advance(state, event)
        if isinstance(event, e.CallAdmitted):
            open_paths.add(event.path)
        if isinstance(event, e.CallSettled) and event.outcome is not Outcome.FAILED:
            open_paths.discard(event.path)
        commands = outstanding(state)
        waiting = {c.call.path for c in commands if isinstance(c, Perform)} | {
            c.path for c in commands if isinstance(c, Sleep)
        }
        assert waiting <= open_paths
        assert open_paths - waiting <= {path for path in open_paths if path[0] == "five"}
    assert outstanding(state) == ()


def test_what_is_called_is_what_the_record_says() -> None:
    """Whoever writes an admission may take a secret out of it: the call is made with what was written, and no more."""
    events, _ = recorded()
    state = State(REGISTRY)
    at = next(n for n, event in enumerate(events) if isinstance(event, e.CallAdmitted))
    for event in events[:at]:
        advance(state, event)
    admitted = events[at]
    assert isinstance(admitted, e.CallAdmitted)
    [wanted] = [c for c in outstanding(state) if isinstance(c, Write) and c.fields[0] == admitted.path]
    written = e.CallAdmitted(*admitted[:3], *wanted.fields)
    commands = advance(state, written._replace(args={"x": 7}))
    assert [(c.call.path, c.call.args) for c in commands if isinstance(c, Perform)] == [
        (admitted.path, {"x": 7})
    ]
