"""Which tools a model is shown, and which way a goal goes: by size and by rules, the same in every run and every resume."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from foreplan import (
    CannotPlan,
    EmbeddingSearch,
    Engine,
    FunctionPlanner,
    MemoryJournal,
    ModelPlanner,
    Patch,
    Plan,
    Policies,
    Principal,
    Registry,
    Tool,
    ToolFailure,
    ask,
    tool,
)
from foreplan.executor.events import RunOpened
from foreplan.executor.runtime import Answer
from foreplan.planner.models.messages import AIMessage
from foreplan.planner.models.scripted import ScriptedModel
from foreplan.planner.react import React
from foreplan.planner.requests import PlanRequest, ReplanRequest
from foreplan.planner.route import choose_tools, route
from foreplan.policies.errors import BadInput
from foreplan.registry.search import Hit, Ranking

EMPTY: dict[str, Any] = {"type": "object", "properties": {}}


def declared(name: str, description: str = "", **options: Any) -> Tool:
    return Tool.declare(
        name, description, input_schema=EMPTY, call=lambda args: 1, **{"effect": "reads", **options}
    )


def family(name: str, count: int, about: str) -> list[Tool]:
    return [declared(f"{name}.t{n:03}", f"Number {n} of {about}.") for n in range(count)]


def names(tools: Registry) -> list[str]:
    return list(tools.names)


# ------------------------------------------------------------------------------------------------------ which tools


def test_fewer_than_twenty_tools_are_all_shown() -> None:
    """Whatever the goal says; in the order of names, whatever the order of adding."""
    tools = Registry(*reversed(family("a", 19, "sheep")))
    assert names(choose_tools("quarks", tools)) == sorted(tools.names)


def test_of_twenty_to_a_hundred_whole_families_are_shown() -> None:
    """Those with a tool that fits, with all their tools; those without any are left out; what has no family stays."""
    crm, git = family("crm", 12, "customers"), family("git", 12, "commits")
    one = declared("crm.merge", "Put two entries together.")
    alone = [declared(f"alone{n}", "Something.") for n in range(5)]
    shown = choose_tools("find our customers", Registry(*crm, one, *git, *alone))
    assert names(shown) == sorted([*(t.name for t in (*crm, one)), *(t.name for t in alone)])


def test_a_family_may_be_a_tag() -> None:
    """Where names have no prefix."""
    tagged = [declared(f"t{n}", f"Do {n}.", tags=["crm" if n % 2 else "git"]) for n in range(24)]
    assert {t.tags for t in choose_tools("something for git", Registry(*tagged))} == {("git",)}


def test_of_more_the_best_are_shown_up_to_the_number() -> None:
    """And no more than that, from any registry; where few fit, others of their families."""
    many = Registry(*family("crm", 200, "customers"), *family("git", 200, "commits"))
    shown = choose_tools("commits", many, most=30)
    assert len(shown) == 30
    assert all(name.startswith("git.") for name in names(shown))
    few = Registry(
        *family("crm", 200, "customers"), declared("git.log", "The commits."), *family("git", 5, "branches")
    )
    assert names(choose_tools("commits", few)) == ["git.log", *(f"git.t{n:03}" for n in range(5))]
    assert len(choose_tools("quarks", many, most=30)) == 30
    assert len(choose_tools("quarks", many, most=None)) == 400


def test_some_tools_are_shown_in_any_case() -> None:
    """Named in the goal, used already, people, and whatever undoes a chosen tool; but never what one may not call."""
    others = [
        declared("ops.restart", "Begin anew."),
        declared("ops.stop", "End.", permissions=["ops:stop"]),
        declared("pay.out", "Transfer.", undo="pay.back"),
        declared("pay.back", "Reverse."),
        ask,
    ]
    many = Registry(*family("crm", 200, "customers"), *others)
    shown = choose_tools(
        "customers; then ops.restart and ops.stop",
        many,
        Principal(id="ada"),
        most=10,
        always=["pay.out", "gone"],
    )
    assert {"ops.restart", "pay.out", "pay.back", "ask"} < set(shown.names)
    assert "ops.stop" not in shown
    assert len(shown) == 11  # ten, and what undoes one of them


def test_what_is_shown_is_in_the_order_of_names() -> None:
    """Equal for goals that choose the same, so that a provider can keep the prompt."""
    tools = [*family("crm", 60, "customers"), *family("git", 60, "commits")]
    first, second = Registry(*tools), Registry(*reversed(tools))
    assert names(choose_tools("customers", first)) == names(choose_tools("a customer", second))


# -------------------------------------------------------------------------------------------------------- which way


@tool(effect="reads")
def weather(city: str) -> str:
    """The weather forecast for a city."""
    return "sun"


@tool(effect="reads")
def list_invoices(customer: str) -> list[str]:
    """All invoices of a customer."""
    return []


@tool(effect="acts", permissions=["mail:send"])
def send_mail(to: str, text: str) -> bool:
    """Send an e-mail message."""
    return True


TOOLS = Registry(weather, list_invoices, send_mail)
ADA = Principal(id="ada", permissions=("mail:send",))

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("goal", "kind", "why"),
    [
        ("Hello!", "answer", "nothing is asked for"),
        ("thank you", "answer", "nothing is asked for"),
        ("What is the capital of Peru?", "answer", "no tool has to do"),
        ("weather forecast for Lima", "react", "'weather' reads what is asked for"),
        ("call list_invoices for ACME", "react", "'list_invoices' reads"),
        ("If it rains in Lima, tell me", "plan", "a condition"),
        ("the weather for each city of Peru", "plan", "each of several"),
        ("get the weather, then write it down", "plan", "several steps"),
        ("invoices of more than 500 EUR", "plan", "an amount"),
        ("send a message to Bob", "plan", "'send_mail' changes something"),
        ("prepare the meeting", "plan", "the rules are unsure"),
    ],
)
async def test_rules_decide_first(goal: str, kind: str, why: str) -> None:
    """A model that would be asked is not there; the reason is a sentence."""
    found = await route(goal, TOOLS, principal=ADA)
    assert (found.kind, why in found.why) == (kind, True), found
    assert names(found.tools) == ([] if kind == "answer" else sorted(TOOLS.names))


async def test_without_a_tool_there_is_only_an_answer() -> None:
    """Of those that one may call."""
    found = await route("send a message to Bob", Registry(send_mail), principal=Principal(id="bob"))
    assert (found.kind, found.why) == ("answer", "there is no tool that may be called")


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ({"kind": "react", "why": "one look"}, "react"),
        ('Sure!\n```json\n{"kind": "answer"}\n```', "answer"),
        ("I would go for REACT here.", "react"),
        ("either react or plan", "plan"),
        ("no idea", "plan"),
        ({"kind": "reactor"}, "plan"),
        ({"kind": 7}, "plan"),
        ("[1, 2]", "plan"),
        ("", "plan"),
        (RuntimeError("down"), "plan"),
    ],
)
async def test_a_model_decides_where_rules_are_unsure(said: Any, kind: str) -> None:
    """It is asked once; its answer may be wrapped in anything; what cannot be read is a plan."""
    model = ScriptedModel([said])
    found = await route("prepare the meeting", TOOLS, principal=ADA, model=model)
    assert found.kind == kind
    assert len(model.requests) == 1
    assert "send_mail (acts): Send an e-mail message." in model.requests[0].text


async def test_a_model_is_not_asked_where_rules_are_sure() -> None:
    """Nor shown tools that one may not call."""
    model = ScriptedModel(['{"kind": "react"}'])
    assert (await route("Hello", TOOLS, model=model)).kind == "answer"
    assert model.requests == []
    await route("prepare the meeting", TOOLS, principal=Principal(id="bob"), model=model)
    assert "send_mail" not in model.requests[0].text


async def test_an_engine_routes_for_its_principal() -> None:
    """By its own tools and rules."""
    engine = Engine(TOOLS, principal=ADA)
    assert (await engine.route("weather forecast for Lima")).kind == "react"
    assert "send_mail" not in (await Engine(TOOLS).route("prepare it")).tools
    with pytest.raises(BadInput, match="the goal must be a str"):
        await engine.route(None)  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------- what a run goes on with


class Seeing:
    """A planner that asks a model, as it were: keeps which tools it was shown, and answers by a script."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.shown: list[tuple[str, ...]] = []

    async def plan(self, request: PlanRequest) -> Any:
        return self.say(request)

    async def replan(self, request: ReplanRequest) -> Any:
        return self.say(request)

    def say(self, request: PlanRequest | ReplanRequest) -> Any:
        self.shown.append(request.tools.names)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def fails(args: dict[str, Any]) -> Any:
    raise ToolFailure("no", code="refused")


def shop(count: int = 150) -> Registry:
    broken = Tool.declare("shop.fail", "Look for customers.", input_schema=EMPTY, call=fails, effect="reads")
    mend = declared("shop.mend", "Look for customers, too.")
    return Registry(*family("zoo", count, "animals"), broken, mend)


def plan_of(*tools: str, goal: str = "look for customers") -> Plan:
    steps = [{"id": f"s{n}", "tool": name} for n, name in enumerate(tools)]
    return Plan.model_validate({"goal": goal, "steps": steps})


def patch_of(tool_name: str) -> Patch:
    return Patch.model_validate({"add": [{"id": "again", "tool": tool_name, "replaces": "s0"}]})


async def test_a_planner_sees_what_fits_and_its_re_plan_the_same() -> None:
    """Not all 152; with the tools that the plan uses. What was shown is in the journal."""
    planner = Seeing(plan_of("shop.fail", "zoo.t007"), patch_of("shop.mend"))
    journal = MemoryJournal()
    engine = Engine(shop(), planner, journal=journal)
    plan = await engine.plan("look for customers")
    run = await engine.run(plan)
    assert run.ok
    assert planner.shown[0] == ("shop.fail", "shop.mend")
    assert sorted(planner.shown[1]) == ["shop.fail", "shop.mend", "zoo.t007"]
    opened = next(iter(journal.events(run.id)))
    assert isinstance(opened, RunOpened)
    assert sorted(opened.contracts) == ["shop.fail", "shop.mend", "zoo.t007"]


async def test_what_was_not_shown_is_not_there_for_a_re_plan() -> None:
    """A patch with it is refused as one with an unknown tool, now and after a resume."""
    planner = Seeing(plan_of("shop.fail"), patch_of("zoo.t003"), patch_of("shop.mend"))
    engine = Engine(shop(), planner)
    run = await engine.run(await engine.plan("look for customers"))
    assert run.ok
    assert len(planner.shown) == 3
    assert run.plan is not None
    assert [step.tool for step in run.plan.steps][-1] == "shop.mend"


async def test_after_a_resume_the_planner_sees_the_same() -> None:
    """In another engine, with a registry that has grown and would be chosen from otherwise."""
    document = {
        "goal": "look for customers",
        "steps": [
            {"id": "asked", "tool": "ask", "args": {"question": "go on?", "options": ["yes"]}},
            {"id": "s0", "tool": "shop.fail", "after": ["asked"]},
        ],
    }
    journal = MemoryJournal()
    tools = shop() | Registry(ask)
    first = Engine(tools, Seeing(Plan.model_validate(document)), journal=journal)
    run = await first.run(await first.plan("look for customers"))
    assert run.state == "waiting"
    planner = Seeing(patch_of("shop.mend"))
    grown = tools | Registry(*family("shop", 30, "ways to look for customers"))
    second = Engine(grown, planner, journal=journal)
    (question,) = run.waiting
    run = await second.resume(run.id, decisions={question.id: Answer("answer", "ada", "yes")})
    assert run.ok
    assert [sorted(shown) for shown in planner.shown] == [["ask", "shop.fail", "shop.mend"]]


async def test_a_plan_from_elsewhere_is_re_planned_with_what_fits_its_goal() -> None:
    """As if the engine had made it; without a goal, with what fits its tools."""
    for goal, fits in (("look for customers", "shop.mend"), ("", "shop.mend")):
        planner = Seeing(patch_of(fits))
        assert (await Engine(shop(), planner).run(plan_of("shop.fail", goal=goal))).ok
        assert {"shop.fail", fits} <= set(planner.shown[0])
        assert len(planner.shown[0]) <= 40


async def test_a_planner_that_cannot_is_asked_once_more_with_more_tools() -> None:
    """All of a hundred, else more than twice as many; then its word counts, and no third question is asked."""
    planner = Seeing(CannotPlan("no tool feeds"), plan_of("zoo.t001"))
    plan = await Engine(shop(), planner).plan("look for customers")
    assert plan.steps[0].tool == "zoo.t001"
    assert [len(shown) for shown in planner.shown] == [2, 100]
    assert set(planner.shown[0]) < set(planner.shown[1])
    never = Seeing(CannotPlan("first"), CannotPlan("second"))
    with pytest.raises(CannotPlan, match="second"):
        await Engine(shop(60), never).plan("look for customers")
    assert [len(shown) for shown in never.shown] == [2, 62]


async def test_a_planner_that_saw_all_is_not_asked_again() -> None:
    """There is nothing more to show."""
    planner = Seeing(CannotPlan("no"))
    with pytest.raises(CannotPlan, match="no"):
        await Engine(TOOLS, planner).plan("paint the fence")
    assert len(planner.shown) == 1


async def test_what_a_refusal_cost_is_charged() -> None:
    """Two questions were asked, though one plan came of it."""
    many = Registry(*family("zoo", 60, "animals"), *family("shop", 20, "customers"))
    model = ScriptedModel(
        ['{"cannot_plan": "no tool"}', json.dumps({"steps": [{"id": "a", "tool": "zoo.t001"}]})]
    )
    engine = Engine(many, ModelPlanner(model))
    run = await engine.run(await engine.plan("look for customers"))
    assert (run.ok, run.model_calls) == (True, 2)


async def test_rules_see_all_tools() -> None:
    """They know theirs by name; nothing is chosen for them, in plans and re-plans."""
    seen: list[int] = []

    def plan(request: PlanRequest) -> Plan:
        seen.append(len(request.tools))
        return plan_of("shop.fail")

    def replan(request: ReplanRequest) -> Patch:
        seen.append(len(request.tools))
        return patch_of("zoo.t003")

    engine = Engine(shop(), FunctionPlanner(plan, replan))
    assert (await engine.run(await engine.plan("look for customers"))).ok
    assert seen == [152, 152]


async def test_how_many_are_shown_is_a_policy() -> None:
    """Any number; None shows all."""
    for shown, seen in ((5, 5), (None, 152)):
        planner = Seeing(plan_of("zoo.t001"))
        await Engine(shop(), planner, policies=Policies(tools_shown=shown)).plan("animals")
        assert len(planner.shown[0]) == seen


async def test_a_loop_with_a_model_is_offered_what_fits() -> None:
    """By what was asked last; tools that were called before stay."""
    model = ScriptedModel([AIMessage("done")])
    engine = Engine(shop(), react=React(model))
    await engine.answer("look for customers")
    assert [spec["name"] for spec in model.requests[0].options["tools"]] == [
        "shop.fail",
        "shop.mend",
    ]


class Broken:
    """A search whose service is down."""

    def over(self, tools: Sequence[Tool]) -> Ranking:
        raise ConnectionError("down")


class Last:
    """Finds the last tool by name."""

    def over(self, tools: Sequence[Tool]) -> Last:
        self.tool = max(tools, key=lambda each: each.name)
        return self

    def rank(self, query: str, k: int) -> list[Hit]:
        return [Hit(self.tool, 1.0)]


async def test_an_engine_chooses_by_a_search_of_yours() -> None:
    """It runs in a thread; where it is down, words do."""
    found, words = Seeing(plan_of("zoo.t001")), Seeing(plan_of("zoo.t001"))
    await Engine(shop(), found, search=Last()).plan("look for customers")
    assert "zoo.t149" in found.shown[0]
    await Engine(shop(), words, search=Broken()).plan("look for customers")
    assert words.shown[0] == ("shop.fail", "shop.mend")
    nonsense = EmbeddingSearch(lambda texts: [])
    with pytest.raises(BadInput, match="gave 0 vectors"):
        await Engine(shop(), Seeing(), search=nonsense).plan("look for customers")
    with pytest.raises(BadInput, match="search has a method `over`"):
        Engine(shop(), search="words")  # type: ignore[arg-type]
