"""Runs worth killing: plans of every kind of step, over tools that write down each effect where no kill loses it.

    mixed    reads, writes and acts; `each`, a group, `until`, retries, an approval each, a question, a sub-plan, `reconcile`
    undo     two effects that are taken back, last first, because a third step fails
    agent    a model in a loop with the same tools
    budget   more calls than the budget allows

`EXPECTED` is what each must have done in the end, however often it was killed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from foreplan import (
    Budget,
    Engine,
    Found,
    Plan,
    Policies,
    Retry,
    Run,
    Tool,
    ToolContext,
    ToolFailure,
    as_tool,
    ask,
    tool,
)
from foreplan.executor.runtime import Answer
from foreplan.planner.models.messages import AIMessage, Message, ToolCall
from foreplan.planner.models.scripted import ScriptedModel
from foreplan.planner.react import React

__all__ = ["CASES", "RUN", "Case", "answers", "lines_of", "world"]

RUN = "run-"
Line = dict[str, Any]


def lines_of(effects: Path) -> list[Line]:
    """All effects so far, in order."""
    try:
        text = effects.read_text()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text.splitlines()]


def world(effects: Path, at: Callable[[str], None]) -> list[Tool]:
    """The tools. Each writes one line to `effects`, passes the point `effect`, and gives what the line holds."""

    def done(context: ToolContext, args: dict[str, Any], value: Any) -> Any:
        line = {"tool": context.tool, "args": args, "key": context.idempotency_key, "run": context.run_id}
        data = json.dumps({**line, "path": context.path, "value": value}).encode() + b"\n"
        file = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, data)
            os.fsync(file)
        finally:
            os.close(file)
        at("effect")
        return value

    def times(context: ToolContext) -> int:
        return sum(line["key"] == context.idempotency_key for line in lines_of(effects))

    @tool(effect="reads")
    async def look(n: int, context: ToolContext) -> int:
        """Look."""
        return int(done(context, {"n": n}, n * 10))

    @tool(effect="reads")
    async def poll(job: str, context: ToolContext) -> int:
        """How far a job is: a little further each time."""
        so_far = sum(line["args"] == {"job": job} for line in lines_of(effects))
        return int(done(context, {"job": job}, so_far + 1))

    @tool(effect="writes")
    def put(name: str, n: int, context: ToolContext) -> str:
        """Put, in a thread."""
        return str(done(context, {"name": name, "n": n}, f"{name}={n}"))

    @tool(effect="writes")
    async def shaky(n: int, context: ToolContext) -> int:
        """Fails the first time, after it was done."""
        done(context, {"n": n}, n)
        if times(context) == 1:
            raise ConnectionResetError("cut off")
        return n

    @tool
    async def pay(to: str, amount: int, context: ToolContext) -> str:
        """Pay."""
        return str(done(context, {"to": to, "amount": amount}, f"paid {to}"))

    @tool(requires_approval="each")
    async def transfer(to: str, context: ToolContext) -> str:
        """Transfer, where a person says yes."""
        return str(done(context, {"to": to}, f"sent {to}"))

    async def look_up(to: str, context: ToolContext) -> Any:
        """What became of a charge."""
        there = [line["value"] for line in lines_of(effects) if line["key"] == context.idempotency_key]
        return Found(there[0]) if there else False

    @tool(reconcile=look_up)
    async def charge(to: str, context: ToolContext) -> str:
        """Charge; whoever asks by the key hears whether it took place."""
        return str(done(context, {"to": to}, f"charged {to}"))

    @tool
    async def give_back(what: str, context: ToolContext) -> str:
        """Give back what was paid."""
        return str(done(context, {"what": what}, f"back: {what}"))

    @tool(effect="reads")
    async def broken(context: ToolContext) -> str:
        """Says no."""
        done(context, {}, None)
        raise ToolFailure("no", code="no")

    return [look, poll, put, shaky, pay, transfer, charge, give_back, broken]


def answers(run: Run, lines: Iterable[Line], *, stubborn: bool) -> dict[str, Answer]:
    """What a person says who knows the effects: of an unknown outcome, whether it took place. Who is `stubborn` says
    "once more" without looking, as long as that may be said."""
    said = {}
    for asked in run.waiting:
        if asked.about == "call":
            said[asked.id] = Answer("approve", "ada")
        elif asked.about == "ask":
            said[asked.id] = Answer("answer", "ada", "yes")
        else:
            call = (asked.question["tool"], asked.question["args"])
            there = [line["value"] for line in lines if (line["tool"], line["args"]) == call]
            again = "retry" in asked.options and (stubborn or not there)
            said[asked.id] = Answer("retry", "ada") if again else Answer("accept", "ada", there[0])
    return said


def step(
    id: str, tool: str, _after: Iterable[str] = (), _more: dict[str, Any] | None = None, **args: Any
) -> Line:
    after = {"after": list(_after)} if _after else {}
    return {"id": id, "tool": tool, "args": args, **after, **(_more or {})}


def expr(text: str) -> dict[str, str]:
    return {"$": text}


INSIDE = Plan.model_validate(
    {
        "goal": "Look and pay",
        "inputs": {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]},
        "steps": [
            step("seen", "look", n=7),
            step("paid", "pay", to=expr("inputs.to"), amount=expr("seen")),
        ],
        "output": expr("paid"),
    }
)
MIXED = Plan.model_validate(
    {
        "goal": "A bit of everything",
        "steps": [
            step("seen", "look", _more={"each": expr("[1, 2, 3]")}, n=expr("item")),
            step("kept", "put", _more={"each": expr("seen")}, name="kept", n=expr("item")),
            step("paid", "pay", _more={"each": expr("seen")}, to=expr("str(item)"), amount=expr("item")),
            {
                "id": "chains",
                "each": expr("['a', 'b']"),
                "steps": [
                    step("begun", "put", name=expr("item"), n=1),
                    step("then", "charge", to=expr("begun")),
                ],
                "output": expr("then"),
            },
            step("moved", "transfer", ["paid"], to="ada"),
            step("polled", "poll", _more={"until": expr("result >= 3"), "every": 0.01, "max": 9}, job="j"),
            step("tried", "shaky", n=4),
            step("inside", "look_and_pay", to="sub"),
            step("asked", "ask", ["kept"], question="Go on?", options=["yes", "no"]),
            step("last", "pay", ["asked", "inside"], to="last", amount=1),
        ],
        "output": {
            "kept": expr("kept"),
            "paid": expr("paid"),
            "chains": expr("chains"),
            "tail": [expr("moved"), expr("tried"), expr("inside"), expr("asked"), expr("last")],
        },
    }
)
BACK = {"undo": {"tool": "give_back", "args": {"what": expr("result")}}}
UNDO = Plan.model_validate(
    {
        "goal": "Take back what was done",
        "steps": [
            step("one", "pay", _more=BACK, to="one", amount=1),
            step("two", "pay", ["one"], _more=BACK, to="two", amount=2),
            step("no", "broken", ["two"]),
        ],
    }
)
MANY = Plan.model_validate(
    {
        "goal": "More than the budget allows",
        "steps": [
            step("seen", "look", n=1),
            step("paid", "pay", _more={"each": expr("range(seen)")}, to=expr("str(item)"), amount=1),
        ],
    }
)
FREE = Policies(
    approve="never", retry=Retry(attempts=50, base=0.0), budget=Budget(tool_calls=400, model_calls=60)
)
SHORT = FREE.model_copy(update={"budget": Budget(tool_calls=8)})


def _turn(messages: tuple[Message, ...]) -> Any:
    """What the model of the loop says, by how far the dialogue is: it must not depend on the process."""
    calls = [
        [ToolCall("c1", "look", {"n": 1}), ToolCall("c2", "put", {"name": "x", "n": 2})],
        [ToolCall("c3", "pay", {"to": "bob", "amount": 5}), ToolCall("c4", "charge", {"to": "eve"})],
        [ToolCall("c5", "shaky", {"n": 9})],
    ]
    said = sum(isinstance(message, AIMessage) for message in messages)
    return AIMessage("", tool_calls=tuple(calls[said])) if said < len(calls) else AIMessage("all done")


class Case(NamedTuple):
    """One run: its plan (None: the loop), its rules, how it ends, and the calls that must have had their effect."""

    plan: Plan | None
    policies: Policies
    state: str
    output: Any
    expected: list[tuple[str, Any]]

    def engine(self, tools: list[Tool], journal: Any) -> Engine:
        model = ScriptedModel([_turn] * 60) if self.plan is None else None
        known = [*tools, ask, as_tool(INSIDE, "look_and_pay", tools)]
        react = React(model, max_rounds=20) if model is not None else None
        return Engine(known, policies=self.policies, journal=journal, react=react)

    async def begin(self, engine: Engine, run: str) -> Run:
        if self.plan is None:
            return await engine.answer("Do what is to be done", run_id=run)
        return await engine.run(self.plan, run_id=run)

    def warm(self) -> None:
        """Load whatever a run needs, without a thread."""
        engine = self.engine(world(Path(os.devnull), lambda point: None), None)
        if self.plan is not None:
            report = engine.check(self.plan)
            assert report.ok, report


CASES: dict[str, Case] = {
    "mixed": Case(
        MIXED,
        FREE,
        "done",
        {
            "kept": ["kept=10", "kept=20", "kept=30"],
            "paid": ["paid 10", "paid 20", "paid 30"],
            "chains": ["charged a=1", "charged b=1"],
            "tail": ["sent ada", 4, "paid sub", "yes", "paid last"],
        },
        [
            *(("look", {"n": n}) for n in (1, 2, 3, 7)),
            *(("put", {"name": "kept", "n": n}) for n in (10, 20, 30)),
            *(("put", {"name": name, "n": 1}) for name in "ab"),
            *(("pay", {"to": str(n), "amount": n}) for n in (10, 20, 30)),
            *(("charge", {"to": f"{name}=1"}) for name in "ab"),
            ("transfer", {"to": "ada"}),
            ("poll", {"job": "j"}),
            ("shaky", {"n": 4}),
            ("pay", {"to": "sub", "amount": 70}),
            ("pay", {"to": "last", "amount": 1}),
        ],
    ),
    "undo": Case(
        UNDO,
        FREE,
        "failed",
        None,
        [
            ("pay", {"to": "one", "amount": 1}),
            ("pay", {"to": "two", "amount": 2}),
            ("broken", {}),
            ("give_back", {"what": "paid two"}),
            ("give_back", {"what": "paid one"}),
        ],
    ),
    "agent": Case(
        None,
        FREE,
        "done",
        "all done",
        [
            ("look", {"n": 1}),
            ("put", {"name": "x", "n": 2}),
            ("pay", {"to": "bob", "amount": 5}),
            ("charge", {"to": "eve"}),
            ("shaky", {"n": 9}),
        ],
    ),
    "budget": Case(MANY, SHORT, "stopped", None, []),
}
