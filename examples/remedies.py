"""What becomes of a failure, kind by kind: `python examples/remedies.py`.

bad_args     the model hears what is wrong and corrects the call, once
permission   never tried again: a person is asked before, or another way is planned after
timeout      what may be repeated is tried again
network      tried again after a wait that grows, and never before the service allows it (Retry-After)
business     the tool says no: the planner hears it and changes the rest of the plan

Scripts stand for models, so that this runs offline.
"""

from __future__ import annotations

import time
from typing import Any

import anyio

from foreplan import (
    AIMessage,
    Engine,
    FunctionPlanner,
    Kind,
    MemoryJournal,
    ModelPlanner,
    Plan,
    Policies,
    Retry,
    Run,
    ScriptedModel,
    ToolCall,
    ToolFailure,
    create_agent,
    tool,
)
from foreplan.executor.events import CallAdmitted, CallSettled, DecisionMade, PatchAccepted
from foreplan.executor.runtime import Answer

QUICK = Policies(retry=Retry(attempts=3, base=0.05))


def one(tool: str, **args: Any) -> Plan:
    """A plan of one call."""
    return Plan.model_validate({"steps": [{"id": "it", "tool": tool, "args": args}], "output": {"$": "it"}})


def tell(title: str, run: Run, journal: MemoryJournal) -> None:
    """What happened, from the journal."""
    print(f"\n{title}")
    calls: dict[Any, str] = {}
    for event in journal.events(run.id):
        match event:
            case CallAdmitted():
                calls[event.path] = f"{event.tool}({', '.join(f'{k}={v!r}' for k, v in event.args.items())})"
            case CallSettled(failure=None):
                print(f"  {calls[event.path]}: {event.outcome}")
            case CallSettled(failure=failure) if failure is not None:
                said = calls.get(event.path, f"a call with {event.args}")
                print(f"  {said}: {failure.kind} {failure.code}: {failure.message}")
            case DecisionMade():
                print(f"  {event.by} says: {event.choice}")
            case PatchAccepted() if event.patch is not None:
                print(f"  planned anew: {', '.join(f'{s.tool} for {s.replaces}' for s in event.patch.add)}")
    print(f"  => {run.state}: {run.output}")


# ---------------------------------------------------------------------------------------------- bad_args


@tool(effect="reads")
async def timetable(day: str, hour: int) -> str:
    """Trains that leave on a day (YYYY-MM-DD), in an hour from 0 to 23."""
    return f"10 trains on {day} after {hour}:00"


def bad_args() -> None:
    """The arguments do not fit the tool's schema: nothing is called, the model is told, and asks better."""
    wrong = AIMessage("", tool_calls=(ToolCall("1", "timetable", {"day": "2030-05-01", "hour": "noon"}),))
    right = AIMessage("", tool_calls=(ToolCall("2", "timetable", {"day": "2030-05-01", "hour": 12}),))
    model, journal = ScriptedModel([wrong, right, "There are 10 trains."]), MemoryJournal()
    run = create_agent(model, [timetable], journal=journal).invoke("Which trains leave at noon on May Day?")
    tell("bad_args: corrected once", run, journal)


# ---------------------------------------------------------------------------------------------- permission


@tool(effect="reads")
async def salaries() -> str:
    """What everybody earns, from the personnel files."""
    raise PermissionError("personnel files are closed to you")


@tool(effect="reads")
async def pay_scale() -> str:
    """What each grade earns, as published."""
    return "grades 1 to 9"


@tool
async def announce(text: str) -> str:
    """Write to everybody."""
    return "sent"


def permission() -> None:
    """Not retried. Another way is planned; and what must be asked for is asked for before, not after."""
    step = {"id": "scale", "replaces": "it", "tool": "pay_scale"}
    planner = FunctionPlanner(replan=lambda request: {"add": [step]})
    journal = MemoryJournal()
    run = Engine([salaries, pay_scale], planner, journal=journal).run_blocking(one("salaries"))
    tell("permission: another way", run, journal)

    async def decide(question: Any) -> Answer:
        return Answer("approve", by="ada")  # a person at a terminal, or in a chat

    model = ScriptedModel(
        [AIMessage("", tool_calls=(ToolCall("1", "announce", {"text": "hello"}),)), "Done."]
    )
    journal = MemoryJournal()
    run = create_agent(model, [announce], journal=journal, decide=decide).invoke("Say hello to everybody")
    tell("permission: a person is asked", run, journal)


# ---------------------------------------------------------------------------------------------- timeout, network

TRIES = {"slow": 0, "busy": 0}


@tool(effect="reads", timeout=0.1)
async def slow() -> str:
    """Hangs the first time."""
    TRIES["slow"] += 1
    if TRIES["slow"] == 1:
        await anyio.sleep(60)
    return "here"


def timeout() -> None:
    """It only reads, so it is simply called again."""
    journal = MemoryJournal()
    run = Engine([slow], policies=QUICK, journal=journal).run_blocking(one("slow"))
    tell("timeout: tried again", run, journal)


@tool(effect="reads")
async def busy() -> str:
    """Asks for rest the first time, as HTTP 429 with Retry-After does."""
    TRIES["busy"] += 1
    if TRIES["busy"] == 1:
        raise ToolFailure("too many", kind=Kind.NETWORK, code="rate_limited", happened="no", retry_after=0.3)
    return "here"


def network() -> None:
    """The wait is drawn at random up to a bound that doubles; what the service asks for is its floor."""
    journal, began = MemoryJournal(), time.monotonic()
    run = Engine([busy], policies=QUICK, journal=journal).run_blocking(one("busy"))
    rested = time.monotonic() - began >= 0.3
    tell("network: tried again when the service allows it", run, journal)
    print(f"  it was left alone for 0.3 s: {'yes' if rested else 'no'}")


# ---------------------------------------------------------------------------------------------- business


@tool(effect="reads")
async def seat(train: str) -> str:
    """Find a free seat in a train."""
    if train == "IC 1":
        raise ToolFailure("no seat is left in IC 1", code="sold_out")
    return f"seat 7 in {train}"


def business() -> None:
    """A no is an answer. The planner hears its code, not the words of the tool, and plans the rest anew."""
    patch = {"add": [{"id": "later", "replaces": "it", "tool": "seat", "args": {"train": "IC 3"}}]}
    model, journal = ScriptedModel([patch]), MemoryJournal()
    run = Engine([seat], ModelPlanner(model), journal=journal).run_blocking(one("seat", train="IC 1"))
    tell("business: planned anew", run, journal)
    heard = "sold_out" in model.requests[0].text, "no seat is left" in model.requests[0].text
    print(f"  the planner heard the code: {heard[0]}, the words of the tool: {heard[1]}")


if __name__ == "__main__":
    for remedy in (bad_args, permission, timeout, network, business):
        remedy()
