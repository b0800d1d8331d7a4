"""Approvals of single calls: when a person is asked, what each answer does, and that nothing goes round a no."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from foreplan import (
    Engine,
    FunctionPlanner,
    Level,
    MemoryJournal,
    Plan,
    Policies,
    Principal,
    Registry,
    Retry,
    Run,
    Tool,
    as_tool,
    review,
    tool,
)
from foreplan.executor.events import CallAdmitted, CallStarted, DecisionAsked, DecisionMade, decode, encode
from foreplan.executor.mind.mind import outstanding, replay
from foreplan.executor.mind.state import Perform, State
from foreplan.executor.run import run_of
from foreplan.executor.runtime import Answer
from foreplan.planner.models.messages import AIMessage, ToolCall
from foreplan.planner.models.scripted import ScriptedModel
from foreplan.planner.react import React
from foreplan.policies.errors import BadInput, ToolRefused

pytestmark = pytest.mark.anyio

FREE = Policies(approve="never", retry=Retry(attempts=3, base=0))
made: list[tuple[str, Any]] = []
"""What was really done, in order."""


@pytest.fixture(autouse=True)
def _nothing_was_done() -> None:
    made.clear()


@tool(effect="acts", requires_approval="each")
async def pay(to: str, amount: int = 1) -> str:
    """Pay someone."""
    made.append(("pay", (to, amount)))
    return f"paid {amount} to {to}"


@tool(effect="acts", requires_approval="args.amount > 100")
async def refund(to: str, amount: int | None) -> str:
    """Pay something back."""
    made.append(("refund", (to, amount)))
    return f"refunded {amount} to {to}"


@tool(effect="acts", requires_approval=True)
async def wire(to: str, amount: int) -> str:
    """Wire an amount."""
    made.append(("wire", (to, amount)))
    return f"wired {amount} to {to}"


@tool(effect="writes")
async def credit(to: str, amount: int) -> str:
    """Note a credit."""
    made.append(("credit", (to, amount)))
    return f"credited {amount} to {to}"


@tool(effect="writes", permissions="books:write")
async def credit_all(to: str, amount: int) -> str:
    """Note a credit for everyone."""
    return "never"


@tool(effect="writes", level="high")
async def close_account(to: str, amount: int) -> str:
    """Close an account."""
    made.append(("close_account", (to, amount)))
    return f"closed {to}"


@tool(effect="reads")
async def boom() -> int:
    """Fail."""
    raise ValueError("no")


TOOLS = Registry(pay, refund, wire, credit, credit_all, close_account, boom)
EVERY_TOOL = FunctionPlanner(lambda request: plan(), lambda request: {"cannot_plan": "no"})
"""With a planner a run holds the contracts of all tools."""


def plan(*steps: dict[str, Any], **more: Any) -> Plan:
    """A plan of these steps."""
    return Plan.model_validate({"steps": list(steps), **more})


def step(name: str, tool_: str = "pay", **args: Any) -> dict[str, Any]:
    """A step that calls a tool with these arguments."""
    return {"id": name, "tool": tool_, "args": args}


def each(tool_: str, items: Any, **args: Any) -> dict[str, Any]:
    """A step that calls a tool for each of these."""
    return {"id": "a", "tool": tool_, "each": items, "args": args}


ONE = plan(step("a", to="ada", amount=5))
"""One payment that asks."""


class Desk:
    """An engine with a journal, whose runs are answered one after the other."""

    def __init__(self, tools: Iterable[Tool] = TOOLS, **options: Any) -> None:
        self.tools = Registry.of(tools)
        self.options = {"policies": FREE, **options}
        self.journal = MemoryJournal()

    @property
    def engine(self) -> Engine:
        """A new engine each time: nothing is kept but the journal."""
        return Engine(self.tools, journal=self.journal, **self.options)

    async def run(self, what: Plan) -> Run:
        """Run, with an approval where one is needed."""
        engine = self.engine
        approval = engine.approve(what, by="ada") if engine.review(what).needs_approval else None
        return await engine.run(what, approval=approval)

    async def answer(self, run: Run, **answers: Any) -> Run:
        """Answer questions by the step that they are about: a word, or an edit."""
        ids = {asked.path[0]: asked.id for asked in run.waiting}
        return await self.engine.resume(run.id, decisions={ids[step]: said for step, said in answers.items()})

    def events(self, run: Run, kind: Any = object) -> list[Any]:
        """The events of a run, of one kind."""
        return [event for event in self.journal.events(run.id) if isinstance(event, kind)]


def edit(tool_: str | None = None, /, **args: Any) -> Answer:
    """Bob's edit of a call."""
    return Answer("edit", "bob", {"args": args, **({"tool": tool_} if tool_ else {})})


def reasons(run: Run) -> list[Any]:
    """Why each open question is asked."""
    return [asked.question["reason"] for asked in run.waiting]


# ---- when a person is asked


async def test_a_rule_asks_for_the_calls_that_it_is_about() -> None:
    """`requires_approval="args.amount > 100"`: the small ones go through, each large one waits."""
    desk = Desk()
    run = await desk.run(plan(each("refund", [5, 500, 100, 101], to="ada", amount={"$": "item"})))
    assert sorted(made) == [("refund", ("ada", 5)), ("refund", ("ada", 100))]
    assert [asked.path for asked in run.waiting] == [("a", 1), ("a", 3)]
    assert reasons(run) == ["'refund' asks when args.amount > 100"] * 2
    assert run.waiting[0].options == ("approve", "reject", "edit")


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("args.amount > 100", "cannot be said"),
        ("args.amount", "asks when args.amount"),
        ("args.to", "asks when args.to"),
        ("args.missing.key", "cannot be said"),
        ("'' if args.amount is None else ''", "asks when"),
        ("0 if args.amount is None else 0", "asks when"),
    ],
)
async def test_a_rule_that_does_not_say_false_asks(rule: str, says: str) -> None:
    """It fails closed: null, a number, a text, an error are no "nobody needs to be asked"."""
    schema = {"type": "object", "additionalProperties": True, "properties": {"to": {}, "amount": {}}}
    unsure = Tool.declare(
        "unsure",
        input_schema=schema,
        call=lambda args: made.append(("x", 1)),
        effect="acts",
        requires_approval=rule,
    )
    run = await Desk([unsure]).run(plan(step("a", "unsure", to="ada", amount=None)))
    assert (made, len(run.waiting)) == ([], 1)
    assert says in reasons(run)[0]


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("args.amuont > 100", "speaks of args.amuont, which is no argument; did you mean 'amount'?"),
        ("args.get('amuont', 0) > 100", "did you mean 'amount'?"),
        ("amount > 100", "knows only 'args', not 'amount'"),
        ("args.amount >", "is no expression"),
        ("True", "looks at no argument"),
        (5, "it is True, False, 'each', or an expression over `args`"),
        ("Each", "knows only 'args', not 'Each'"),
    ],
)
def test_a_rule_is_held_against_the_arguments_when_the_tool_is_made(rule: Any, says: str) -> None:
    """A5: a misspelt argument would mean that nobody is asked, or everybody always."""
    with pytest.raises(ToolRefused) as refused:

        @tool(requires_approval=rule)
        def pays(to: str, amount: int) -> str:
            """Pay."""
            return to

    assert says in str(refused.value)


def test_the_review_says_when_a_person_is_asked() -> None:
    """By the rule where the arguments will say; yes or no where they are known already."""
    steps = [
        step("large", "refund", to="ada", amount=500),
        step("small", "refund", to="ada", amount=5),
        step("open", "refund", to="ada", amount={"$": "inputs.n"}),
        step("always", "pay", to="ada"),
        step("never", "credit", to="ada", amount=1),
    ]
    inputs = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    found = {p.id: (p.asks, p.asks_when) for p in review(plan(*steps, inputs=inputs), TOOLS).steps}
    rule = "args.amount > 100"
    assert found == {
        "large": (True, rule),
        "small": (False, rule),
        "open": (None, rule),
        "always": (True, None),
        "never": (False, None),
    }
    known = review(plan(*steps, inputs=inputs), TOOLS, inputs={"n": 101}).steps[2]
    assert (known.asks, known.to_json()["asks_when"]) == (True, rule)


async def test_what_takes_a_step_back_asks_too() -> None:
    """An `undo` whose tool asks for approval is covered only where its arguments are literals."""
    undone = step("a", "credit", to="ada", amount=7) | {
        "undo": {"tool": "wire", "args": {"to": {"$": "result"}, "amount": 7}}
    }
    desk = Desk()
    what = plan(undone, step("b", "boom") | {"after": ["a"]})
    assert desk.engine.review(what).steps[0].undo.asks  # type: ignore[union-attr]
    run = await desk.run(what)
    assert [asked.path for asked in run.waiting] == [("a", "undo")]
    assert made == [("credit", ("ada", 7))]


# ---- edit


async def test_an_edit_is_what_is_called() -> None:
    """The journal has the call before and after, who changed it, and a key of its own for it."""
    desk = Desk()
    run = await desk.run(ONE)
    end = await desk.answer(run, a=edit(to="ada", amount=4))
    assert (end.state, made, end["a"]) == ("done", [("pay", ("ada", 4))], "paid 4 to ada")
    [asked], [decided], [admitted] = (
        desk.events(end, kind) for kind in (DecisionAsked, DecisionMade, CallAdmitted)
    )
    assert asked.question["args"] == {"to": "ada", "amount": 5}
    assert (decided.choice, decided.by) == ("edit", "bob")
    assert admitted.args == {"to": "ada", "amount": 4}
    assert asked.question["digest"] != admitted.args_digest
    assert asked.question["key"] != admitted.key


async def test_an_edit_without_a_change_is_an_approval() -> None:
    """The same arguments again are made once."""
    desk = Desk()
    end = await desk.answer(await desk.run(ONE), a=edit(to="ada", amount=5))
    assert (end.state, made) == ("done", [("pay", ("ada", 5))])


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, 'an edit is written {"args": {...}}'),
        ({"to": "ada", "amount": 4}, 'an edit is written {"args": {...}}'),
        ({"args": [1]}, 'an edit is written {"args": {...}}'),
        ({"args": {"to": "ada"}, "tol": "pay"}, "an edit has no part 'tol'; did you mean 'tool'?"),
        ({"args": {"to": "ada", "amount": "many"}}, "'pay' does not take these arguments: /amount"),
        ({"args": {"to": "ada", "amuont": 4}}, "'pay' does not take these arguments"),
        ({"args": {"amount": 4}}, "'pay' does not take these arguments"),
        (
            {"args": {"to": "ada", "amount": 1}, "tool": "credti"},
            "is called 'credti'; did you mean 'credit'?",
        ),
        ({"args": {"to": "ada", "amount": 1}, "tool": "credit_all"}, "'anyone' may not call 'credit_all'"),
        ({"args": {"to": "ada", "amount": 1}, "tool": 5}, "no tool of this run is called 5"),
    ],
)
async def test_an_edit_that_would_not_be_admitted_is_refused_to_the_person(value: Any, says: str) -> None:
    """With a sentence; the question stays open, and nothing is called. Names beyond the principal are not told (P5)."""
    desk = Desk(planner=EVERY_TOOL)
    run = await desk.run(ONE)
    with pytest.raises(BadInput) as refused:
        await desk.answer(run, a=Answer("edit", "bob", value))
    assert says in str(refused.value)
    assert "credit_all" not in str(refused.value) or "credit_all" in str(value)
    assert [asked.id for asked in desk.engine.show(run.id).waiting] == ["a:call:0"]
    assert made == []


async def test_an_edit_is_held_against_the_permissions_of_whoever_resumes() -> None:
    """A level, a permission that is gone by now: the person hears it, and not only the journal."""
    holds = Principal(id="x", permissions=("books:write",))
    desk = Desk(planner=EVERY_TOOL, principal=holds)
    run = await desk.run(ONE)
    desk.options["principal"] = Principal(id="x")
    with pytest.raises(BadInput, match="'x' may not call 'credit_all'"):
        await desk.answer(run, a=edit("credit_all", to="ada", amount=1))
    assert len(desk.engine.show(run.id).waiting) == 1


async def test_an_edit_to_a_tool_that_the_run_holds_no_contract_of_is_refused() -> None:
    """What the run was opened with is what it may call: an approval binds the contracts of the tools used."""
    desk = Desk()
    run = await desk.run(ONE)
    with pytest.raises(BadInput, match="no tool of this run is called 'credit'"):
        await desk.answer(run, a=edit("credit", to="ada", amount=1))


async def test_an_edit_to_a_tool_that_asks_nobody_is_made() -> None:
    """A person may choose a milder call."""
    desk = Desk(planner=EVERY_TOOL)
    end = await desk.answer(await desk.run(ONE), a=edit("credit", to="ada", amount=4))
    assert (end.state, made) == ("done", [("credit", ("ada", 4))])


@pytest.mark.parametrize(
    ("other", "amount", "why"),
    [
        ("wire", 4, "'wire' asks for approval"),
        ("refund", 500, "'refund' asks when args.amount > 100"),
        ("close_account", 4, "'close_account' is of level high"),
    ],
)
@pytest.mark.parametrize("choice", ["approve", "reject"])
async def test_an_edit_to_another_tool_that_asks_needs_an_approval_of_its_own(
    other: str, amount: int, why: str, choice: str
) -> None:
    """By an id of its own; the edit itself is no yes to it, and a no to it is a no to the step."""
    desk = Desk(planner=EVERY_TOOL, policies=FREE.model_copy(update={"approve_from": Level.HIGH}))
    first = await desk.run(ONE)
    again = await desk.answer(first, a=edit(other, to="ada", amount=amount))
    assert (again.state, made, reasons(again)) == ("waiting", [], [why])
    assert [asked.id for asked in again.waiting] == ["a:call:0~2"]
    with pytest.raises(BadInput, match="no question 'a:call:0' is open"):
        await desk.engine.resume(again.id, decisions={"a:call:0": "approve"})
    end = await desk.answer(again, a=Answer(choice, "eve"))
    assert made == ([(other, ("ada", amount))] if choice == "approve" else [])
    assert end.state == ("done" if choice == "approve" else "failed")


async def test_what_takes_back_an_edited_call_is_asked_about() -> None:
    """The plan's `undo` was written for what the plan would have done."""
    undone = step("a", to="ada", amount=5) | {"undo": {"tool": "credit", "args": {"to": "ada", "amount": 5}}}
    desk = Desk()
    run = await desk.run(plan(undone, step("b", "boom") | {"after": ["a"]}))
    run = await desk.answer(run, a=edit(to="ada", amount=4))
    assert reasons(run) == ["bob changed the call that this takes back"]
    assert made == [("pay", ("ada", 4))]


async def test_every_prefix_of_a_journal_with_edits_leads_to_the_same() -> None:
    """Replay of any prefix performs nothing that was not approved, and the whole gives the run as it was."""
    desk = Desk(planner=EVERY_TOOL)
    run = await desk.run(plan(each("pay", ["ada", "bob", "eve"], to={"$": "item"}, amount=5)))
    ids = [asked.id for asked in run.waiting]
    edits: dict[str, Answer | str] = {
        ids[0]: edit(to="ada", amount=4),
        ids[1]: edit("wire", to="bob", amount=9),
        ids[2]: "reject",
    }
    run = await desk.engine.resume(run.id, decisions=edits)
    end = await desk.answer(run, a="approve")
    events = desk.events(end)
    for length in range(len(events) + 1):
        state = replay(State(TOOLS), events[:length])
        performed = [command.call for command in outstanding(state) if isinstance(command, Perform)]
        assert all(call.args["amount"] in (4, 9) for call in performed)
    again = run_of(replay(State(TOOLS), map(decode, map(encode, events))))
    assert again.to_json() == end.to_json()
    assert sorted(made) == [("pay", ("ada", 4)), ("wire", ("bob", 9))]


# ---- A1: nothing goes round a no


async def test_a_rejected_call_fails_with_the_reason_and_siblings_go_on() -> None:
    """A1: `permission`, `rejected`; it is not retried, and `accept` is no way to say yes."""
    desk = Desk()
    run = await desk.run(plan(each("pay", ["ada", "bob"], to={"$": "item"}) | {"on_failure": "skip"}))
    no, yes = [asked.id for asked in run.waiting]
    with pytest.raises(
        BadInput, match="'accept' is no answer to 'a\\[0\\]:call:0'; say one of approve, reject, edit"
    ):
        await desk.engine.resume(run.id, decisions={no: Answer("accept", "ada", "paid")})
    end = await desk.engine.resume(
        run.id, decisions={no: Answer("reject", "ada", reason="not him"), yes: "approve"}
    )
    [(where, failure)] = end.failures
    assert (where, failure.kind, failure.code, failure.happened) == ("a[0]", "permission", "rejected", "no")
    assert failure.message == "ada refused this call: not him"
    assert (end.state, made) == ("done", [("pay", ("bob", 1))])
    assert len(desk.events(end, CallStarted)) == 1


def again_with(**args: Any) -> FunctionPlanner:
    """A planner that replaces what failed by the same tool with these arguments."""
    patch = {"add": [{"id": "again", "replaces": "a", "tool": "pay", "args": args}]}
    return FunctionPlanner(lambda request: ONE, lambda request: patch)


async def test_a_re_plan_cannot_make_a_rejected_call() -> None:
    """A1: the same tool with the same arguments is refused with the reason; nobody is asked once more."""
    desk = Desk(planner=again_with(to="ada", amount=5))
    end = await desk.answer(await desk.run(ONE), a=Answer("reject", "ada", reason="not him"))
    assert (end.state, made) == ("failed", [])
    [(step_, failure)] = [found for found in end.failures if found[0] == "again"]
    assert (step_, failure.code) == ("again", "rejected")
    assert failure.message == "the same call was refused before, as a: ada refused this call: not him"


async def test_a_re_plan_is_told_what_was_rejected() -> None:
    """A planner that knows it can look for another way."""
    told: list[Any] = []

    def mend(request: Any) -> dict[str, Any]:
        told.extend(request.not_again)
        return {
            "add": [{"id": "again", "replaces": "a", "tool": "credit", "args": {"to": "ada", "amount": 5}}]
        }

    desk = Desk(planner=FunctionPlanner(lambda request: ONE, mend))
    end = await desk.answer(await desk.run(ONE), a="reject")
    assert told == [{"tool": "pay", "args": {"to": "ada", "amount": 5}}]
    assert (end.state, made) == ("done", [("credit", ("ada", 5))])


async def test_the_same_call_twice_in_the_approved_plan_is_asked_about_twice() -> None:
    """A1: a no to one of two equal calls is no yes to the other, and no no either: a person decides."""
    desk = Desk()
    run = await desk.run(plan(step("a", to="ada"), step("b", to="ada") | {"after": ["a"], "when": True}))
    assert [asked.path for asked in run.waiting] == [("a",)]
    run = await desk.answer(run, a="approve")
    end = await desk.answer(run, b="reject")
    assert made == [("pay", ("ada", 1))]
    both = await desk.run(plan(each("pay", ["ada", "ada"], to={"$": "item"}) | {"on_failure": "skip"}))
    first, second = [asked.id for asked in both.waiting]
    both = await desk.engine.resume(both.id, decisions={second: "reject"})
    assert [asked.id for asked in both.waiting] == [first]
    assert (await desk.engine.resume(both.id, decisions={first: "approve"})).state == "done"
    assert end.state == "failed"


async def test_an_undo_cannot_make_a_rejected_call_unasked() -> None:
    """A1: where taking something back is the very call that was refused, a person is asked."""

    @tool(effect="writes", requires_approval="args.amount > 100")
    async def book(to: str, amount: int) -> str:
        """Book an amount."""
        made.append(("book", (to, amount)))
        return to

    undone = step("a", "credit", to="ada", amount=1) | {
        "undo": {"tool": "wire", "args": {"to": "ada", "amount": 500}}
    }
    refused = step("b", "wire", to={"$": "'ada'"}, amount=500) | {"after": ["a"]}
    desk = Desk([credit, wire, book])
    run = await desk.run(plan(undone, refused))
    assert [asked.path for asked in run.waiting] == [("b",)]
    run = await desk.answer(run, b="reject")
    assert [(asked.path, asked.question["reason"]) for asked in run.waiting] == [
        (("a", "undo"), "the same call was refused as b in this run")
    ]
    assert made == [("credit", ("ada", 1))]


async def test_a_rejected_call_stays_rejected_when_the_run_is_resumed_later() -> None:
    """A1: answers come one by one; what was refused does not come back with the next."""
    desk = Desk()
    run = await desk.run(plan(step("a", to="ada"), step("b", to="bob")))
    run = await desk.answer(run, a="reject")
    with pytest.raises(BadInput, match="no question 'a:call:0' is open"):
        await desk.engine.resume(run.id, decisions={"a:call:0": "approve"})
    await desk.answer(run, b="approve")
    assert made == [("pay", ("bob", 1))]


async def test_a_call_rejected_inside_a_sub_plan_cannot_be_made_beside_it() -> None:
    """A1: nor by a re-plan of the run around it."""
    inner = as_tool(ONE, "inner", TOOLS)
    patch = {"add": [{"id": "again", "replaces": "x", "tool": "pay", "args": {"to": "ada", "amount": 5}}]}
    outer = plan({"id": "x", "tool": "inner"})
    desk = Desk([*TOOLS, inner], planner=FunctionPlanner(lambda request: outer, lambda request: patch))
    end = await desk.answer(await desk.run(outer), x="reject")
    assert (end.state, made) == ("failed", [])
    assert dict(end.failures)["again"].code == "rejected"


async def test_a_model_in_a_loop_cannot_make_a_rejected_call() -> None:
    """A1: asked for it again, it is told that it was refused."""
    calls = [
        AIMessage("", tool_calls=(ToolCall(id, "pay", {"to": "ada", "amount": 5}),)) for id in ("1", "2")
    ]
    model = ScriptedModel([*calls, "I could not."])
    desk = Desk(react=React(model))
    run = await desk.engine.answer("Pay Ada")
    [asked] = run.waiting
    end = await desk.engine.resume(run.id, decisions={asked.id: "reject"})
    assert (made, end.waiting, len(desk.events(end, DecisionAsked))) == ([], (), 1)


# ---- A2: what is made is what was shown


async def test_who_is_asked_cannot_change_what_is_made_but_by_an_edit() -> None:
    """A2: the question holds a copy; one that was changed is no longer a question about this call."""

    async def decide(asked: DecisionAsked) -> Answer:
        asked.question["args"]["amount"] = 500
        return Answer("approve", "eve")

    run = await Desk(decide=decide).run(ONE)
    assert (run.state, made) == ("waiting", [])


@pytest.mark.parametrize("field", ["args", "tool"])
async def test_an_approval_of_something_else_than_what_would_be_made_is_refused(field: str) -> None:
    """A2: a journal in which the question was changed shows one call and would make another: it must be rejected."""
    desk = Desk()
    run = await desk.run(ONE)
    changed = {"args": {"to": "ada", "amount": 1}, "tool": "credit"}[field]
    events = [
        event._replace(question={**event.question, field: changed})
        if isinstance(event, DecisionAsked)
        else event
        for event in desk.journal.events(run.id)
    ]
    desk.journal = MemoryJournal()
    log = desk.journal.create(run.id)
    for event in events:
        log.append(event)
    log.close()
    with pytest.raises(BadInput, match="what was shown of a is not the call that would be made; reject it"):
        await desk.answer(run, a="approve")
    state = replay(State(TOOLS), events)
    last = state.seq + 1
    replay(state, [DecisionMade(last, 0.0, 0.0, "a:call:0", "approve", "eve")])
    assert not [command for command in outstanding(state) if isinstance(command, Perform)]
    end = await desk.answer(run, a="reject")
    assert (end.state, made) == ("failed", [])


async def test_an_approval_is_for_the_arguments_that_were_shown() -> None:
    """A2: the question carries the arguments and their digest, and the call that is admitted has the same."""
    desk = Desk()
    run = await desk.run(ONE)
    [asked] = run.waiting
    end = await desk.answer(run, a="approve")
    [admitted] = desk.events(end, CallAdmitted)
    assert (admitted.args, admitted.args_digest) == (asked.question["args"], asked.question["digest"])


# ---- A3: ids of their own


async def test_parallel_questions_never_share_an_id() -> None:
    """A3: equal calls, items, steps inside groups and plans inside plans: each answer goes to the call it is for."""
    inner = as_tool(plan(step("a", to="ada"), step("b", to="ada")), "inner", TOOLS)
    group = {"id": "g", "each": [1, 2], "steps": [step("c", to="ada"), {"id": "s", "tool": "inner"}]}
    what = plan(
        each("pay", ["ada", "ada"], to={"$": "item"}),
        group,
        step("x", to="ada"),
        {"id": "y", "tool": "inner"},
    )
    desk = Desk([*TOOLS, inner])
    run = await desk.run(what)
    ids = [asked.id for asked in run.waiting]
    assert len(ids) == len(set(ids)) == 2 + 2 + 4 + 1 + 2
    run = await desk.engine.resume(
        run.id,
        decisions={
            "g[1].s/b:call:0": "reject",
            **{id_: "approve" for id_ in ids if id_ != "g[1].s/b:call:0"},
        },
    )
    assert made == [("pay", ("ada", 1))] * 10
    assert [where for where, _ in run.failures] == ["g[1].s"]


async def test_an_answer_to_an_id_that_is_not_open_is_refused() -> None:
    """A3: with the nearest that is."""
    desk = Desk()
    run = await desk.run(ONE)
    with pytest.raises(BadInput, match="no question 'a:call:1' is open; did you mean 'a:call:0'"):
        await desk.engine.resume(run.id, decisions={"a:call:1": "approve"})
    assert made == []


# ---- A4: silence is no yes


async def test_an_unanswered_call_at_the_end_of_the_history_is_not_approved() -> None:
    """A4: resuming without an answer leaves it open, however often."""
    desk = Desk()
    run = await desk.run(plan(step("a", to="ada"), step("b", "credit", to="bob", amount=1)))
    for _ in range(3):
        run = await desk.engine.resume(run.id)
        assert [asked.id for asked in run.waiting] == ["a:call:0"]
    assert made == [("credit", ("bob", 1))]


async def test_a_call_is_refused_where_the_permission_went_before_the_yes() -> None:
    """What a person approves is admitted again: for whom the run goes on must hold what the tool needs."""
    gated = tool(effect="acts", requires_approval="each", permissions="books:write", name="gated")(
        credit.function
    )
    desk = Desk([gated], principal=Principal(id="x", permissions=("books:*",)))
    run = await desk.run(plan(step("a", "gated", to="ada", amount=1)))
    desk.options["principal"] = Principal(id="x")
    end = await desk.answer(run, a="approve")
    assert ([failure.code for _, failure in end.failures], made) == (["not_permitted"], [])


# ---- sub-plans


INNER = {
    "pay": step("a", to={"$": "inputs.to"}, amount=1),
    "refund": step("a", "refund", to={"$": "inputs.to"}, amount=500),
    "wire": step("a", "wire", to={"$": "inputs.to"}, amount=1),
}
INPUTS = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}


@pytest.mark.parametrize("name", INNER)
async def test_a_tool_that_asks_still_asks_inside_a_sub_plan(name: str) -> None:
    """ "each", a rule and True: a plan around the call takes nothing away."""
    inner = as_tool(plan(INNER[name], inputs=INPUTS), "inner", TOOLS)
    desk = Desk([inner])
    run = await desk.run(plan({"id": "x", "tool": "inner", "args": {"to": "ada"}}))
    assert ([asked.id for asked in run.waiting], made) == (["x/a:call:0"], [])
    assert (await desk.answer(run, x="approve")).state == "done"
    assert len(made) == 1


async def test_an_edit_goes_through_to_the_sub_plan() -> None:
    """It is held against the tools of the plan inside, at once; then the run inside makes the call that was meant."""
    inner = as_tool(plan(INNER["pay"], step("b", "credit", to="x", amount=1), inputs=INPUTS), "inner", TOOLS)
    outer = as_tool(plan({"id": "y", "tool": "inner", "args": {"to": "ada"}}), "outer", [inner])
    desk = Desk([outer])
    run = await desk.run(plan({"id": "x", "tool": "outer"}))
    assert [asked.id for asked in run.waiting] == ["x/y/a:call:0"]
    with pytest.raises(BadInput, match="the edit of 'x/y/a:call:0' is refused: 'pay' does not take"):
        await desk.answer(run, x=edit(to=5))
    with pytest.raises(BadInput, match="no tool of this run is called 'refund'"):
        await desk.answer(run, x=edit("refund", to="ada", amount=5))
    end = await desk.answer(run, x=edit(to="ada", amount=3))
    assert (end.state, sorted(made)) == ("done", [("credit", ("x", 1)), ("pay", ("ada", 3))])


@pytest.mark.parametrize(
    ("said", "done", "code"),
    [
        (None, [("pay", ("bob", 4))], ""),
        ("not bob", [], "refused_by_hook"),
        ({"to": "eve", "amount": 4}, [], "refused_by_hook"),
        (5, [], "policy_unavailable"),
    ],
)
async def test_the_hook_before_a_call_hears_of_an_edit_too(said: Any, done: list[Any], code: str) -> None:
    """It may refuse what a person wrote; it may not make a third call of it, which nobody has seen."""
    desk = Desk(before_call=lambda attempt: said if attempt.args["to"] == "bob" else None)
    end = await desk.answer(await desk.run(ONE), a=edit(to="bob", amount=4))
    assert (made, [failure.code for _, failure in end.failures]) == (done, [code] if code else [])
    again = run_of(replay(State(TOOLS), map(decode, map(encode, desk.events(end)))))
    assert again.to_json() == end.to_json()
