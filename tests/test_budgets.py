"""What one run may use up: calls, calls of one tool, model calls, tokens, cost, seconds; one ledger, kept by events."""

from __future__ import annotations

from typing import Annotated, Any

import anyio
import pytest
from pydantic import AfterValidator
from support.chaos import Unchecked
from support.virtual import BACKENDS, now, run_virtual

from foreplan import (
    Budget,
    Engine,
    FunctionPlanner,
    Limits,
    MemoryJournal,
    ModelPlanner,
    Plan,
    Policies,
    Registry,
    Run,
    StaticPlanner,
    Tool,
    ToolContext,
    ToolFailure,
    as_tool,
    ask,
    tool,
)
from foreplan.executor.events import CallSettled, CallStarted, Event, ModelAnswered, RunOpened
from foreplan.executor.runtime import Answer
from foreplan.planner.models.messages import AIMessage, ToolCall
from foreplan.planner.models.scripted import ScriptedModel
from foreplan.planner.planners import Planner
from foreplan.planner.react import React
from foreplan.planner.requests import Proposal, ReplanRequest
from foreplan.policies.errors import BadInput, CannotPlan

RETRIES = {"attempts": 3, "base": 10.0}
made: list[str] = []


@tool(effect="reads")
async def look(n: int = 0) -> int:
    """Look at something, which takes a second."""
    made.append("look")
    await anyio.sleep(1)
    return n


@tool(effect="writes", cost=0.1)
async def pay(n: int = 0) -> int:
    """Cost a tenth; 13 fails."""
    made.append("pay")
    await anyio.sleep(1)
    if n == 13:
        raise ToolFailure("no luck", code="unlucky")
    return n


@tool(effect="reads", cost=5)
async def haggle(context: ToolContext, n: int = 0) -> int:
    """State a cost of five, and count one."""
    context.count({"cost": 1})
    return n


@tool(effect="reads", model_calls=1)
async def think(context: ToolContext, n: int = 0) -> int:
    """Ask a model: a hundred tokens, a hundredth of cost."""
    made.append("think")
    context.count({"model_calls": 1})
    await anyio.sleep(1)
    context.count({"input_tokens": 60, "output_tokens": 40, "cost": 0.01})
    return n


@tool(effect="reads")
async def chatter(context: ToolContext, n: int = 0) -> int:
    """Ask a model without having said so."""
    made.append("chatter")
    context.count({"input_tokens": 100, "cost": 2})
    await anyio.sleep(1)
    return n


@tool(effect="reads")
async def flaky(n: int = 0) -> int:
    """Never there."""
    made.append("flaky")
    raise ConnectionRefusedError("closed")


def refuse(number: int) -> int:
    raise ValueError("it is even")


OddNumber = Annotated[int, AfterValidator(refuse)]

TOOLS: tuple[Tool, ...] = (look, pay, haggle, think, chatter, flaky, ask)


def plan_of(*steps: dict[str, Any], **rest: Any) -> Plan:
    return Plan.model_validate({"steps": list(steps), **rest})


def many(name: str, count: int = 9, id: str = "x", **step: Any) -> dict[str, Any]:
    return {"id": id, "each": {"$": f"range({count})"}, "tool": name, "args": {"n": {"$": "item"}}, **step}


def one(name: str, id: str = "x", **step: Any) -> dict[str, Any]:
    return {"id": id, "tool": name, **step}


def rules(budget: Budget, run: int = 64, **more: Any) -> Policies:
    return Policies(approve="never", budget=budget, limits=Limits(run=run), **more)


def engine(budget: Budget, *tools: Tool, run: int = 64, **options: Any) -> Engine:
    more = {name: options.pop(name) for name in ("retry", "max_repairs") if name in options}
    return Unchecked([*TOOLS, *tools], policies=rules(budget, run, **more), clock=now, **options)


def ended(backend: str, plan: Plan, budget: Budget, *tools: Tool, **options: Any) -> Run:
    made.clear()
    return run_virtual(backend, lambda: engine(budget, *tools, **options).run(plan))


def out_of_budget(run: Run) -> bool:
    return (run.state, run.reason) == ("stopped", "budget")


both = pytest.mark.parametrize("backend", BACKENDS)


# ---------------------------------------------------------------------------------------------- each bound


@both
def test_a_limit_of_six_stops_eight_parallel_calls(backend: str) -> None:
    """Reserved before they begin, not counted after: case C6."""
    run = ended(backend, plan_of(many("look", 8)), Budget(tool_calls=6))
    assert (out_of_budget(run), len(made), run.used.tool_calls) == (True, 6, 6)


@both
def test_the_calls_of_one_tool_are_bounded_by_its_name(backend: str) -> None:
    """Others are not, and the message says which bound it was, what was done and what is missing."""
    plan = plan_of(
        one("look", "first"), many("pay", 9, "paid", after=["first"]), one("look", "last", after=["paid"])
    )
    run = ended(backend, plan, Budget(tools={"pay": 3}))
    assert (out_of_budget(run), made.count("pay"), run.used.tools) == (True, 3, {"pay": 3})
    assert run.left.tools == {"pay": 0}
    said = "the budget of 3 calls of 'pay' is used up; 1 of 3 steps settled, 2 steps were not finished: "
    assert run.message == said + "paid (3 of 9 done), last"
    assert run.unfinished == (*(f"paid[{n}]" for n in range(3, 9)), "last")


@both
def test_tokens_overshoot_by_no_more_than_what_was_under_way(backend: str) -> None:
    """Nobody knows before how many it will be; once they are used up nothing that asks a model begins."""
    run = ended(backend, plan_of(many("think")), Budget(tokens=250), run=2)
    assert (out_of_budget(run), made.count("think"), run.used.tokens) == (True, 4, 400)
    assert "the budget of 250 tokens is used up (400 used)" in run.message
    assert run.left.tokens == 0


@both
def test_what_needs_no_tokens_goes_on_without_them(backend: str) -> None:
    """The last answer was dear, but writing it down costs no tokens."""
    plan = plan_of(one("think"), one("look", "y", after=["x"]))
    run = ended(backend, plan, Budget(tokens=50))
    assert (run.state, run.used.tokens, run.left.tokens) == ("done", 100, 0)


@both
def test_a_tool_that_was_seen_asking_a_model_needs_tokens_whatever_it_says(backend: str) -> None:
    """It did not state any model calls: what was under way may overshoot, then it is known."""
    run = ended(backend, plan_of(many("chatter")), Budget(tokens=250), run=2)
    assert (out_of_budget(run), made.count("chatter"), run.used.tokens) == (True, 4, 400)
    run = ended(backend, plan_of(many("chatter")), Budget(cost=3), run=2)
    assert (out_of_budget(run), made.count("chatter"), run.used.cost) == (True, 3, 6)


@both
def test_cost_is_reserved_as_stated_and_summed_as_people_do(backend: str) -> None:
    """Three times a tenth are three tenths: in floats they would be more, and the third call not allowed."""
    run = ended(backend, plan_of(many("pay")), Budget(cost=0.3))
    assert (out_of_budget(run), made.count("pay"), run.used.cost, run.left.cost) == (True, 3, 0.3, 0)
    assert "the budget of 0.3 in cost is used up;" in run.message


@both
def test_a_cost_that_was_counted_replaces_the_one_that_was_stated(backend: str) -> None:
    """Five are reserved for each; one is used. So ten allow two at once, and six in a row."""
    run = ended(backend, plan_of(many("haggle", 20)), Budget(cost=10))
    assert (out_of_budget(run), run.used.cost) == (True, 6)
    assert run.steps["x"].items[0].index == 6


@both
def test_nothing_begins_once_the_time_is_over(backend: str) -> None:
    """One second each, one at a time: what began in time ends."""
    run = ended(backend, plan_of(many("look")), Budget(seconds=3.5), run=1)
    assert (out_of_budget(run), len(made), run.used.seconds, run.left.seconds) == (True, 4, 4.0, 0.0)
    assert "the budget of 3.5 seconds is used up; 0 of 1 step settled" in run.message


@both
def test_a_wait_that_would_end_after_the_time_is_not_begun(backend: str) -> None:
    """Neither before a retry nor before the next call of a poll: the run stops at once."""
    plan = plan_of(one("flaky", on_failure="skip"))

    async def main() -> tuple[Run, Run, float]:
        made.clear()
        first = await engine(Budget(seconds=0.5), retry=RETRIES, dice=lambda: 0.9).run(plan)
        poll = plan_of(one("look", until={"$": "result == 5"}, every=3600, max=9))
        second = await engine(Budget(seconds=60)).run(poll)
        return first, second, now()

    retried, polled, took = run_virtual(backend, main)
    assert (out_of_budget(retried), made.count("flaky")) == (True, 1)
    assert (out_of_budget(polled), polled.used.tool_calls, took < 3) == (True, 1, True)


@both
def test_time_in_which_only_people_are_waited_for_does_not_count(backend: str) -> None:
    """Nor does that in which nothing drives the run."""
    plan = plan_of(
        one("ask", "q", args={"question": "Go on?", "options": ["yes"]}), many("look", 2, after=["q"])
    )

    async def main() -> Run:
        made.clear()
        asks = engine(Budget(seconds=5))
        run = await asks.run(plan)
        assert run.state == "waiting"
        await anyio.sleep(1000)
        return await asks.resume(run.id, decisions={run.waiting[0].id: Answer("answer", "ada", "yes")})

    run = run_virtual(backend, main)
    assert (run.state, run.used.seconds) == ("done", 1.0)


@both
def test_a_person_who_is_asked_while_the_run_is_live_takes_no_time_of_it(backend: str) -> None:
    """Unless something else is under way meanwhile."""
    question = one("ask", "q", args={"question": "Go on?", "options": ["yes"]})

    async def slowly(_: object) -> Answer:
        await anyio.sleep(100)
        return Answer("answer", "ada", "yes")

    async def main(*more: dict[str, Any]) -> Run:
        return await engine(Budget(seconds=50), decide=slowly).run(
            plan_of(question, *more, one("look", after=["q"]))
        )

    alone = run_virtual(backend, main)
    assert (alone.state, alone.used.seconds) == ("done", 1.0)
    polls = one("look", "p", until={"$": "False"}, every=9, max=4, on_failure="skip")
    beside = run_virtual(backend, lambda: main(polls))
    assert (beside.state, beside.used.seconds) == ("done", 32.0)


def test_an_attempt_that_waited_until_the_time_was_over_is_not_begun() -> None:
    """It is given back, and the run stops: here the clock moves on between admission and beginning."""
    ticks = iter(range(1000))
    run = Engine(TOOLS, policies=rules(Budget(seconds=2.5)), clock=lambda: float(next(ticks))).run_blocking(
        plan_of(one("look"))
    )
    assert (out_of_budget(run), run.used.tool_calls) == (True, 0)


# ---------------------------------------------------------------------------------------------- what is charged


@both
def test_each_attempt_counts(backend: str) -> None:
    """Threat 17: a retry is a call."""
    run = ended(backend, plan_of(one("flaky")), Budget(tool_calls=2), retry=RETRIES)
    assert (out_of_budget(run), len(made)) == (True, 2)
    run = ended(backend, plan_of(one("flaky")), Budget(tools={"flaky": 2}), retry=RETRIES)
    assert (out_of_budget(run), len(made)) == (True, 2)


@both
def test_repeats_and_undo_count(backend: str) -> None:
    """Threat 17: `until`, and calls that take back."""
    poll = one("look", until={"$": "False"}, max=9)
    assert (out_of_budget(ended(backend, plan_of(poll), Budget(tools={"look": 4}))), len(made)) == (True, 4)
    undone = one("pay", undo={"tool": "pay", "args": {}})
    plan = plan_of(undone, one("pay", "bad", args={"n": 13}, after=["x"]))
    run = ended(backend, plan, Budget(tools={"pay": 2}))
    assert (out_of_budget(run), made.count("pay")) == (True, 2)
    assert "1 could not be" in run.message
    run = ended(backend, plan, Budget(cost=0.3))
    assert (run.state, made.count("pay"), run.used.cost) == ("failed", 3, 0.3)


@both
def test_what_is_refused_before_it_begins_is_given_back(backend: str) -> None:
    """Arguments that make no value of the tool's types: no call, no cost, no model call."""

    @tool(effect="reads", cost=1, model_calls=2)
    async def picky(n: OddNumber) -> int:
        """Never called."""
        raise AssertionError

    run = ended(
        backend, plan_of(one("picky", args={"n": 2})), Budget(tool_calls=1, cost=1, tools={"picky": 1}), picky
    )
    assert run.state == "failed"
    assert run.used._replace(seconds=0) == (0, {"picky": 0}, 0, 0, 0, 0)


def cut_after(journal: MemoryJournal, kind: type[Event], run: str = "r") -> MemoryJournal:
    """The journal as it was when a process was killed right after the first such event."""
    again = MemoryJournal()
    log = again.create(run)
    for event in journal.events(run):
        log.append(event)
        if isinstance(event, kind):
            break
    log.close()
    return again


@both
@pytest.mark.parametrize("name", ["look", "think", "pay"])
def test_an_attempt_that_was_lost_with_its_process_stays_charged(backend: str, name: str) -> None:
    """Nobody knows what it did: the next attempt is one more, also after a resume (E5)."""

    async def main(budget: Budget) -> Run:
        journal = MemoryJournal()
        await engine(budget, journal=journal).run(plan_of(one(name)), run_id="r")
        return await engine(budget, journal=cut_after(journal, CallStarted)).resume("r")

    run = run_virtual(backend, lambda: main(Budget()))
    assert (run.state, run.used.tool_calls) == ("done", 2)
    assert run.used.model_calls == (2 if name == "think" else 0)
    assert run.used.cost == (0.2 if name == "pay" else 0.01 if name == "think" else 0)
    assert out_of_budget(run_virtual(backend, lambda: main(Budget(tool_calls=1))))
    assert out_of_budget(run_virtual(backend, lambda: main(Budget(tools={name: 1}))))


@both
def test_what_an_attempt_counted_before_it_was_cancelled_stays_charged(backend: str) -> None:
    """A pause does not bring the counters back to zero: case E5."""

    async def main() -> Run:
        made.clear()
        journal = MemoryJournal()
        asks = engine(Budget(tokens=150), journal=journal)
        for turn in range(9):
            with anyio.move_on_after(0.5):
                await (asks.resume("r") if turn else asks.run(plan_of(one("chatter")), run_id="r"))
            if asks.show("r").state == "stopped":
                break
        return asks.show("r")

    run = run_virtual(backend, main)
    assert (out_of_budget(run), made.count("chatter"), run.used.tokens) == (True, 2, 200)


@both
def test_an_outcome_that_nobody_knows_stays_charged(backend: str) -> None:
    """And its retry is one more call."""

    @tool(cost=1, timeout=5)
    async def hang(n: int = 0) -> int:
        """Never answer."""
        await anyio.sleep_forever()
        return n

    async def main() -> Run:
        asks = engine(Budget(tool_calls=2, cost=2), hang)
        run = await asks.run(plan_of(one("hang")))
        assert (run.state, run.used.tool_calls, run.used.cost) == ("waiting", 1, 1)
        run = await asks.resume(run.id, decisions={run.waiting[0].id: "retry"})
        assert (run.state, run.used.tool_calls, run.used.cost) == ("waiting", 2, 2)
        return await asks.resume(run.id, decisions={run.waiting[0].id: "retry"})

    assert out_of_budget(run_virtual(backend, main))


@both
def test_more_questions_than_an_attempt_may_ask_are_refused(backend: str) -> None:
    """A tool that counts before it asks cannot ask more than it stated, nor more than is left."""

    @tool(effect="reads", model_calls=2)
    async def eager(context: ToolContext, n: int = 0) -> int:
        """Ask three times."""
        for _ in range(3):
            context.count({"model_calls": 1})
            made.append("asked")
        return n

    run = ended(backend, plan_of(one("eager")), Budget(model_calls=9), eager)
    assert (run.failures[0][1].code, made, run.used.model_calls) == ("model_calls", ["asked"] * 2, 2)

    @tool(effect="reads")
    async def sly(context: ToolContext, n: int = 0) -> int:
        """State no question, and ask one."""
        context.count({"model_calls": 1})
        return n

    run = ended(backend, plan_of(one("sly")), Budget(model_calls=9), sly)
    assert (run.failures[0][1].code, run.used.model_calls) == ("model_calls", 0)


@both
@pytest.mark.parametrize(
    "nonsense",
    [{"cost": -1}, {"cost": float("nan")}, {"model_calls": -3}, {"input_tokens": 1.5}, {"tokens": True}],
)
def test_nobody_counts_backwards(backend: str, nonsense: dict[str, Any]) -> None:
    """What is no amount is a bug in the tool, and changes nothing."""

    async def main() -> None:

        @tool(effect="reads")
        async def odd(context: ToolContext, n: int = 0) -> int:
            """Count nonsense."""
            context.count(nonsense)
            return n

        run = await Engine([odd], policies=rules(Budget())).run(plan_of(one("odd")))
        assert (run.state, run.used.cost, run.used.model_calls, run.used.tokens) == ("failed", 0, 0, 0)
        assert "count takes whole numbers" in run.failures[0][1].message

    run_virtual(backend, main)


# ---------------------------------------------------------------------------------------------- sub-plans


def sub(name: str, *steps: dict[str, Any], tools: tuple[Tool, ...] = TOOLS, **options: Any) -> Tool:
    inputs = {"type": "object", "properties": {"n": {"type": "integer", "default": 0}}}
    return as_tool(plan_of(*steps, inputs=inputs), name, Registry(*tools), **options)


@both
@pytest.mark.parametrize(
    ("budget", "inner", "calls"),
    [
        (Budget(tools={"pay": 5}), many("pay", 3), 5),
        (Budget(cost=0.5), many("pay", 3), 5),
        (Budget(tool_calls=7), many("pay", 3), 5),
        (Budget(model_calls=5), many("think", 3), 5),
        (Budget(tokens=350), {**many("think", 3), "until": {"$": "False"}}, 4),
        (Budget(seconds=4.5), {**many("look", 3), "until": {"$": "False"}}, 5),
    ],
)
@pytest.mark.parametrize("deep", [False, True])
def test_a_sub_plan_cannot_by_pass_a_bound(
    backend: str, budget: Budget, inner: dict[str, Any], calls: int, deep: bool
) -> None:
    """Threat 17: one ledger, through plans in plans, which stops the run and not only a step; skip hides nothing."""
    each = {**inner, "on_failure": "skip"}
    child = sub("child", each)
    if deep:
        child = sub("outer", one("child", "c"), tools=(child,))
        calls -= 2 if budget.tool_calls else 0  # calls of plans are calls
    run = ended(
        backend,
        plan_of(many(child.name, 9, on_failure="skip")),
        budget,
        child,
        run=1 if budget.seconds else 64,
    )
    assert (out_of_budget(run), len(made)) == (True, calls), run.message


@both
def test_what_a_sub_plan_has_used_is_told_to_its_caller(backend: str) -> None:
    """Calls, calls by name, questions, tokens, cost."""
    child = sub("child", many("think", 3), one("pay", "p"))
    run = ended(backend, plan_of(many("child", 2)), Budget(tools={"pay": 9, "child": 9}, cost=9), child)
    assert run.state == "done"
    assert run.used._replace(seconds=0) == (10, {"pay": 2, "child": 2}, 6, 600, 0.26, 0)


@both
def test_a_sub_plan_that_is_out_of_its_own_bound_is_a_failure_of_its_step(backend: str) -> None:
    """The run has more, and goes on."""
    child = sub("child", many("pay", 9), tool_calls=3)
    run = ended(
        backend,
        plan_of(one("child", on_failure="skip"), one("look", "y", after=["x"])),
        Budget(tool_calls=20),
        child,
    )
    assert (run.state, run.used.tool_calls) == ("done", 5)
    dear = sub("dear", many("pay", 9), cost=0.2)
    run = ended(
        backend, plan_of(one("dear", on_failure="skip"), one("pay", "y", after=["x"])), Budget(cost=1), dear
    )
    assert (run.state, run.used.cost) == ("done", 0.3)


@both
def test_who_needs_what_a_sub_plan_holds_waits_and_others_do_not(backend: str) -> None:
    """`pay` waits for its slice of the cost; `look` needs none, and stands behind it in the plan."""
    child = sub("child", {**many("look", 5), "until": {"$": "False"}, "on_failure": "skip"})
    plan = plan_of(one("child"), one("pay", "y"), one("look", "z"))
    order: list[tuple[str, float]] = []

    def watch(event: Event) -> None:
        if isinstance(event, CallSettled):
            order.append((str(event.path[0]), event.at))

    run = ended(backend, plan, Budget(cost=1), child, watch=watch)
    assert (run.state, [name for name, _ in order if name != "x" or _ == 5.0]) == ("done", ["z", "x", "y"])


@both
def test_a_sub_plan_that_was_paid_for_is_finished_although_nothing_more_begins(backend: str) -> None:
    """It waits for a person when the run is out of calls: with the answer it goes on, as if it were under way."""
    child = sub(
        "child",
        one("ask", "q", args={"question": "Go on?", "options": ["yes"]}),
        one("look", "l", after=["q"]),
    )

    async def main() -> Run:
        asks = engine(Budget(tools={"pay": 1}), child)
        run = await asks.run(plan_of(one("child"), many("pay", 2, "p")))
        assert run.state == "waiting"
        return await asks.resume(run.id, decisions={run.waiting[0].id: Answer("answer", "ada", "yes")})

    run = run_virtual(backend, main)
    assert (out_of_budget(run), run.steps["x"].outcome) == (True, "ok")
    assert run.message.endswith("1 of 2 steps settled, 1 step was not finished: p (1 of 2 done)")


@both
def test_time_of_a_sub_plan_is_that_of_its_caller(backend: str) -> None:
    """While the sub-plan waits for a person the caller works, and then little is left for both."""
    child = sub(
        "child",
        one("ask", "q", args={"question": "Go on?", "options": ["yes"]}),
        {**many("look", 9, after=["q"]), "until": {"$": "False"}},
    )
    busy = {**many("look", 6, "busy"), "until": {"$": "False"}, "on_failure": "skip"}

    async def main() -> Run:
        made.clear()
        asks = engine(Budget(seconds=8.5), child)
        run = await asks.run(plan_of(one("child"), busy))
        assert (run.state, run.used.seconds) == ("waiting", 6.0)
        return await asks.resume(run.id, decisions={run.waiting[0].id: Answer("answer", "ada", "yes")})

    run = run_virtual(backend, main)
    assert (out_of_budget(run), len(made), run.used.seconds) == (True, 9, 9.0)


def test_a_bound_may_name_a_tool_that_only_sub_plans_call() -> None:
    """A name that nothing reaches is misspelt."""
    child = sub("child", one("pay", "p"))
    outer = sub("outer", one("child", "c"), tools=(child,))
    Engine([outer], policies=rules(Budget(tools={"pay": 1})))
    with pytest.raises(BadInput, match="did you mean"):
        Engine([*TOOLS], policies=rules(Budget(tools={"pya": 1})))


# ---------------------------------------------------------------------------------------------- planners and models

GOOD = '{"steps": [{"id": "x", "tool": "look", "args": {}}]}'
BAD = '{"steps": [{"id": "x", "tool": "lok", "args": {}}]}'
USAGE = {"input_tokens": 100, "output_tokens": 20, "cost": 0.5}


@both
def test_making_the_plan_is_charged_to_the_run_that_runs_it_first(backend: str) -> None:
    """One ledger: repairs included, and not twice."""

    async def main() -> None:
        asks = engine(
            Budget(tokens=500),
            planner=ModelPlanner(ScriptedModel([AIMessage(BAD, USAGE), AIMessage(GOOD, USAGE)])),
        )
        plan = await asks.plan("Look")
        first, second = await asks.run(plan), await asks.run(plan)
        assert (first.used.model_calls, first.used.tokens, first.used.cost) == (2, 240, 1)
        assert (second.used.model_calls, second.used.tokens, second.used.cost) == (0, 0, 0)
        assert (first.left.tokens, asks.show(first.id).used) == (260, first.used)

    run_virtual(backend, main)


@both
@pytest.mark.parametrize("budget", [Budget(model_calls=1), Budget(tokens=120), Budget(cost=0.5)])
def test_repairs_of_a_plan_are_within_the_budget(backend: str, budget: Budget) -> None:
    """After the first answer nothing is left: the findings are told, the model is not asked again."""

    async def main() -> None:
        model = ScriptedModel([AIMessage(BAD, USAGE), AIMessage(GOOD, USAGE)])
        with pytest.raises(CannotPlan, match=r"is used up, and no answer was a plan that checks: .*lok"):
            await engine(budget, planner=ModelPlanner(model)).plan("Look")
        assert len(model.requests) == 1

    run_virtual(backend, main)


@both
def test_rules_in_python_are_no_model_calls(backend: str) -> None:
    """A fixed plan and a rule may be asked where no model may."""

    async def main() -> None:
        rule = FunctionPlanner(replan=lambda request: {"add": [{"id": "z", "tool": "look", "replaces": "x"}]})
        plan = await engine(Budget(model_calls=0), planner=StaticPlanner(plan_of(one("look")))).plan("Look")
        assert (await engine(Budget(model_calls=0)).run(plan)).used.model_calls == 0
        run = await engine(Budget(model_calls=0), planner=rule).run(plan_of(one("pay", args={"n": 13})))
        assert (run.state, run.used.model_calls) == ("done", 0)

    run_virtual(backend, main)


class Mender:
    """A planner that replaces what failed, and counts."""

    def __init__(self) -> None:
        self.requests: list[ReplanRequest] = []

    async def plan(self, request: object) -> Plan:
        raise CannotPlan("it only mends")

    async def replan(self, request: ReplanRequest) -> Proposal:
        self.requests.append(request)
        name = request.failed[0]
        step = one("pay", f"{name}x", args={"n": 13}, replaces=name, on_failure="stop")
        from foreplan.planner.plan import Patch

        return Proposal(Patch.model_validate({"add": [step]}), "", USAGE)


@both
def test_a_re_plan_is_charged_and_told_what_is_left(backend: str) -> None:
    """Every bound that there is; the patch that would fail again ends it within bounds."""

    async def main() -> None:
        mender: Planner = Mender()
        budget = Budget(tool_calls=9, tools={"pay": 5}, model_calls=3, tokens=1000, cost=2, seconds=60)
        run = await engine(budget, planner=mender).run(plan_of(one("pay", args={"n": 13})))
        told = mender.requests[0].remaining  # type: ignore[attr-defined]
        assert {**told, "seconds": 0} == {
            "replans": 1,
            "tool_calls": 8,
            "tools": {"pay": 4},
            "model_calls": 2,
            "tokens": 1000,
            "cost": 1.9,
            "seconds": 0,
        }
        assert (run.used.model_calls, run.used.tokens, run.used.cost) == (1, 120, 0.7)
        assert run.state == "failed"

    run_virtual(backend, main)


@both
def test_a_question_to_the_planner_that_was_lost_is_charged_once_more(backend: str) -> None:
    """The model was asked, whatever became of the answer."""

    class Slow(Mender):
        async def replan(self, request: ReplanRequest) -> Proposal:
            await anyio.sleep(5)
            return await super().replan(request)

    async def main(budget: Budget) -> Run:
        made.clear()
        asks = engine(budget, planner=Slow(), journal=MemoryJournal())
        with anyio.move_on_after(3):
            await asks.run(plan_of(one("pay", args={"n": 13})), run_id="r")
        return await asks.resume("r")

    assert run_virtual(backend, lambda: main(Budget())).used.model_calls == 2
    short = run_virtual(backend, lambda: main(Budget(model_calls=1)))
    assert (short.state, short.used.model_calls, made) == ("failed", 1, ["pay"])
    assert "the budget of 1 model call is used up" in short.message


@both
@pytest.mark.parametrize("budget", [Budget(tokens=130), Budget(model_calls=2), Budget(cost=0.9)])
def test_a_model_that_calls_tools_is_bounded_alike(backend: str, budget: Budget) -> None:
    """Each round is a model call and counts its tokens and its cost."""

    async def main() -> None:
        call = AIMessage("", USAGE, tool_calls=(ToolCall("c", "look", {}),))
        model = ScriptedModel([call] * 9)
        run = await engine(budget, react=React(model)).answer("Look around")
        assert (out_of_budget(run), len(model.requests), run.used.tokens, run.used.cost) == (True, 2, 240, 1)

    run_virtual(backend, main)


# ---------------------------------------------------------------------------------------------- what people see


@both
def test_a_run_tells_what_it_used_and_what_is_left(backend: str) -> None:
    """In Python and as JSON; bounds that are not there are not told."""
    run = ended(
        backend, plan_of(many("think", 2), one("pay", "p")), Budget(tool_calls=9, cost=1, tools={"pay": 4})
    )
    document = run.to_json()
    assert document["used"] == {
        "tool_calls": 3,
        "tools": {"pay": 1},
        "model_calls": 2,
        "tokens": 200,
        "cost": 0.12,
        "seconds": 1.0,
    }
    assert document["left"] == {"tool_calls": 6, "tools": {"pay": 3}, "cost": 0.88}
    assert run.left.model_calls is None
    assert run.unfinished == ()


def warnings(plan: Plan, budget: Budget, *tools: Tool) -> list[tuple[str, str]]:
    report = engine(budget, *tools).check(plan)
    return [(f.code, f.message) for f in report.findings if "budget" in f.code]


def test_the_check_says_what_a_plan_may_exceed() -> None:
    """By tool an error if even the fewest calls are too many; by cost a warning, for a call may cost less than stated."""
    nine = plan_of(many("pay", 9))
    assert warnings(nine, Budget(tools={"pay": 9}, cost=0.9)) == []
    assert warnings(nine, Budget(tools={"pay": 8})) == [
        ("over_budget", "the plan makes at least 9 calls of 'pay', the budget is 8")
    ]
    assert warnings(nine, Budget(cost=0.8)) == [
        ("may_exceed_budget", "the plan costs at least 0.9 by what its tools state, the budget is 0.8")
    ]
    back = plan_of(many("look", 2, undo={"tool": "pay", "args": {}}))
    assert [code for code, _ in warnings(back, Budget(tools={"pay": 1}, cost=0.1))] == [
        "may_exceed_budget"
    ] * 2
    listed = plan_of(
        {**many("pay"), "each": {"$": "inputs.all"}},
        inputs={
            "type": "object",
            "properties": {"all": {"type": "array", "items": {"type": "integer"}}},
            "required": ["all"],
        },
    )
    assert [message for _, message in warnings(listed, Budget(tools={"pay": 9}, cost=9))] == [
        "the plan may make a number of calls of 'pay' that is not known, the budget is 9",
        "each call of 'pay' costs 0.1, how many there will be is not known, and the budget is 9 in cost",
    ]


def test_the_check_counts_calls_inside_of_sub_plans() -> None:
    """At most what the sub-plan states, else a number that is not known."""
    child = sub("child", one("pay", "p"))
    bound = sub("child", one("pay", "p"), tool_calls=2)
    plan = plan_of(many("child", 3))
    assert "not known" in warnings(plan, Budget(tools={"pay": 9}), child)[0][1]
    assert warnings(plan, Budget(tools={"pay": 6}), bound) == []
    assert "up to 6 calls of 'pay'" in warnings(plan, Budget(tools={"pay": 5}), bound)[0][1]


def test_an_event_without_planning_says_nothing_of_it() -> None:
    """Journals of runs without a planner do not grow."""
    journal = MemoryJournal()
    engine(Budget(), journal=journal).run_blocking(plan_of(one("haggle")), run_id="r")
    opened = next(iter(journal.events("r")))
    assert isinstance(opened, RunOpened)
    assert (opened.spent, [e for e in journal.events("r") if isinstance(e, ModelAnswered)]) == (None, [])
