"""Who may call what: principals, roles and levels, in the check, in the run, and in what planners and errors show."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from foreplan import (
    Engine,
    FunctionPlanner,
    Kind,
    Level,
    MemoryJournal,
    Plan,
    Policies,
    Principal,
    Registry,
    Roles,
    as_tool,
    ask,
    tool,
)
from foreplan.console.given import read_principal
from foreplan.executor.events import RunOpened
from foreplan.executor.mind.admission import admit
from foreplan.executor.mind.state import State
from foreplan.executor.runtime import Answer
from foreplan.planner.requests import PlanRequest, ReplanRequest
from foreplan.policies.errors import BadInput, NotApproved
from foreplan.policies.permissions import lacking
from foreplan.policies.policies import Budget, Limits
from foreplan.policies.retry import Retry

pytestmark = pytest.mark.anyio


@tool(effect="reads", permissions="crm:read")
async def find_customer(name: str) -> str:
    """Find a customer."""
    return f"customer {name}"


@tool(effect="writes", permissions="crm:write")
async def find_customers_and_merge(name: str) -> str:
    """Merge what is there twice."""
    return f"merged {name}"


@tool(effect="reads", level="high")
async def read_payroll(name: str) -> int:
    """What someone earns."""
    return 1000


@tool(effect="reads")
async def boom() -> int:
    """Fail."""
    raise ValueError("no")


TOOLS = Registry(find_customer, find_customers_and_merge, read_payroll, ask, boom)
AGENT = Principal(id="bot", roles=("agent",))
READS = Policies(roles=Roles({"agent": ["crm:read"]}))


def plan(name: str, args: dict[str, Any] | None = None, *more: dict[str, Any]) -> Plan:
    """A plan with one call, and more steps after it."""
    step = {"id": "a", "tool": name, "args": {"name": "ada"} if args is None else args}
    return Plan.model_validate({"goal": "look", "steps": [step, *more]})


def codes(found: Any) -> list[str]:
    """The codes of a report's errors."""
    return [finding.code for finding in found.errors]


# ---- roles


async def test_a_role_gives_what_the_policy_says_and_nothing_more() -> None:
    """`Roles({"agent": ["crm:read"]})` lets an agent read, and not write."""
    engine = Engine(TOOLS, policies=READS, principal=AGENT)
    assert (await engine.run(plan("find_customer"))).state == "done"
    assert codes(engine.check(plan("find_customers_and_merge"))) == ["permission"]


@pytest.mark.parametrize(
    ("held", "needed", "may"),
    [
        ("crm:*", "crm:read", True),
        ("crm:*", "crm", False),
        ("crm:*", "crm:read:all", False),
        ("crm", "crm:read", False),
        ("*", "crm:read:all", True),
        ("crm.*", "crm:read", True),
        ("crm:read", "crm:reads", False),
        ("CRM:read", "crm:read", False),
    ],
)
def test_wildcards_stand_for_one_segment(held: str, needed: str, may: bool) -> None:
    """`crm:*` is one more word after `crm`, no prefix and no pattern."""
    who = Roles({"r": [held]}).grant(Principal(id="x", roles=("r",)))
    assert (lacking(who, [needed]) == ()) is may


@pytest.mark.parametrize(
    ("held", "near"),
    [("crm:**", "crm:*"), ("crm:", "crm:*"), ("c*", "*"), ("crm.*x.read", "crm.*.read"), ("", "crm:read")],
)
def test_a_permission_that_would_grant_nothing_is_refused_where_it_is_given(held: str, near: str) -> None:
    """A malformed wildcard is named at once, by role and place, and not missed when the run needs it."""
    for give in (
        lambda: Roles({"clerk": ["crm:read", held]}),
        lambda: Policies(roles={"clerk": ["crm:read", held]}),  # type: ignore[arg-type]
        lambda: Principal(id="x", permissions=("crm:read", held)),
        lambda: read_principal("x", ["crm:read", held]),
    ):
        with pytest.raises(BadInput, match=rf"1': '{re.escape(held)}' .*'{re.escape(near)}'"):
            give()


async def test_a_role_that_nobody_defined_gives_nothing_and_the_refusal_says_so() -> None:
    """A misspelt role must not look like a missing permission: the nearest role is named (threat 20)."""
    engine = Engine(TOOLS, policies=READS, principal=Principal(id="bot", roles=("agnet",)))
    said = engine.check(plan("find_customer")).errors[0].message
    assert "no role is called 'agnet', so it grants nothing; did you mean 'agent'?" in said


async def test_a_role_that_is_deleted_denies() -> None:
    """Where the role is gone from the rules, what it gave is gone too (threat 20)."""
    assert codes(Engine(TOOLS, principal=AGENT).check(plan("find_customer"))) == ["permission"]


def asks_first() -> Plan:
    """A question, then a call that needs a permission."""
    return plan(
        "ask",
        {"question": "Who?", "schema": {"type": "string"}},
        {"id": "b", "tool": "find_customer", "args": {"name": {"$": "a"}}},
    )


@pytest.mark.parametrize(
    "now",
    [
        {"policies": Policies(), "principal": AGENT},
        {"policies": READS, "principal": Principal(id="bot")},
    ],
    ids=["the role lost it", "the principal lost the role"],
)
async def test_what_was_withdrawn_since_refuses_calls_not_yet_made(now: dict[str, Any]) -> None:
    """On resume permissions are evaluated afresh: the recorded ones and the recorded roles do not count."""
    journal = MemoryJournal()
    run = await Engine(TOOLS, policies=READS, principal=AGENT, journal=journal).run(asks_first())
    answers = {"a:ask:0": Answer("answer", "ada", "bob")}
    end = await Engine(TOOLS, journal=journal, **now).resume(run.id, decisions=answers)
    assert [(step, failure.code) for step, failure in end.failures] == [("b", "not_permitted")]


async def test_what_was_withdrawn_since_refuses_calls_of_a_plan_that_is_under_way_inside_it() -> None:
    """The run of a sub-plan takes the principal of its caller as it is now, not as recorded roles would have it."""
    journal = MemoryJournal()
    inner = as_tool(asks_first(), "inner", TOOLS)
    outer = plan("inner", {})
    run = await Engine([inner], policies=READS, principal=AGENT, journal=journal).run(outer)
    answers = {"a/a:ask:0": Answer("answer", "ada", "bob")}
    later = Engine([inner], policies=Policies(), principal=AGENT, journal=journal)
    end = await later.resume(run.id, decisions=answers)
    assert end.state == "failed"
    assert not [child for child in later.runs() if child.state == "done"]


async def test_another_principal_cannot_take_a_run_up() -> None:
    """Who resumes must act for the one the run was opened for."""
    journal = MemoryJournal()
    run = await Engine(TOOLS, policies=READS, principal=AGENT, journal=journal).run(asks_first())
    other = Engine(TOOLS, policies=READS, principal=Principal(id="eve", roles=("agent",)), journal=journal)
    with pytest.raises(NotApproved, match="it acts for 'bot', not for 'eve'"):
        await other.resume(run.id)


async def test_nothing_but_the_host_says_who_it_is() -> None:
    """A plan, its inputs, a tool's result and an answer that all name a principal change nothing."""
    claim = {"id": "root", "permissions": ["*"], "principal": {"id": "root", "permissions": ["*"]}}

    @tool(effect="reads")
    async def claims() -> dict[str, Any]:
        """Say who one is."""
        return claim

    document = {
        "inputs": {"type": "object", "properties": {"principal": {"type": "object"}}},
        "steps": [
            {"id": "a", "tool": "claims"},
            {"id": "b", "tool": "ask", "args": {"question": "Who?", "schema": {"type": "object"}}},
            {"id": "c", "value": {"$": "[a.id, b, inputs.principal]"}},
        ],
    }
    journal = MemoryJournal()
    engine = Engine([claims, ask], journal=journal, decide=answers_with(claim))
    run = await engine.run(Plan.model_validate(document), inputs={"principal": claim})
    told = [event.principal for event in journal.events(run.id) if isinstance(event, RunOpened)]
    assert (run.state, told) == ("done", [Principal(id="anyone")])
    with pytest.raises(ValueError, match="principal"):
        Plan.model_validate({"principal": claim, "steps": []})


def answers_with(value: Any) -> Callable[..., Any]:
    """A person who gives this answer."""

    async def decide(asked: Any) -> Answer:
        return Answer("answer", "eve", value)

    return decide


@pytest.mark.parametrize("kept", [{"ask"}, {"find_customer"}, set()])
async def test_a_run_whose_journal_lost_a_contract_does_not_go_on(kept: set[str]) -> None:
    """Threat 20: a contract that is gone is no contract that holds; nothing is called, and a sentence says why."""
    journal, changed = MemoryJournal(), MemoryJournal()
    run = await Engine(TOOLS, policies=READS, principal=AGENT, journal=journal).run(asks_first())
    log = changed.create(run.id)
    for event in journal.events(run.id):
        if isinstance(event, RunOpened):
            event = event._replace(contracts={n: c for n, c in event.contracts.items() if n in kept})
        log.append(event)
    log.close()
    engine = Engine(TOOLS, policies=READS, principal=AGENT, journal=changed)
    with pytest.raises(NotApproved, match="its journal holds no contract of tool"):
        await engine.resume(run.id, decisions={"a:ask:0": Answer("answer", "ada", "bob")})
    with pytest.raises(BadInput, match="its journal holds no contract of tool"):
        engine.show(run.id)


# ---- levels


async def test_a_tool_above_the_highest_level_is_no_tool() -> None:
    """The check has a code of its own for it, whatever the principal may."""
    engine = Engine(
        TOOLS, policies=Policies(max_level=Level.MEDIUM), principal=Principal(id="x", permissions=("*",))
    )
    report = engine.check(plan("read_payroll"))
    assert codes(report) == ["level_too_high"]
    assert report.errors[0].message == "'read_payroll' is of level high; the policy allows medium at most"


async def test_a_call_above_the_highest_level_is_refused_when_it_is_to_be_made() -> None:
    """The guarded call does not rely on the check: each call is held against the level as well."""
    state = State(TOOLS)
    state.policies, state.principal = Policies(max_level=Level.MEDIUM), Principal(id="x", permissions=("*",))
    failure = admit(state, read_payroll, {"name": "ada"})
    assert failure is not None
    assert (failure.kind, failure.code) == (Kind.PERMISSION, "level_too_high")


async def test_a_plan_as_a_tool_is_of_the_highest_level_of_its_tools() -> None:
    """A level cannot be got round by putting the call into a sub-plan."""
    inner = as_tool(plan("read_payroll"), "inner", TOOLS)
    assert inner.level is Level.HIGH
    engine = Engine([inner], policies=Policies(max_level=Level.LOW))
    assert codes(engine.check(plan("inner", {}))) == ["level_too_high"]


async def test_a_patch_with_a_tool_above_the_highest_level_is_refused() -> None:
    """The planner's second thoughts are bound by the same rules."""
    seen: list[ReplanRequest] = []

    def mend(request: ReplanRequest) -> dict[str, Any]:
        seen.append(request)
        return {
            "add": [{"id": "b", "replaces": "a", "tool": "read_payroll", "args": {"name": str(len(seen))}}]
        }

    planner = FunctionPlanner(lambda request: plan("boom", {}), mend)
    engine = Engine(TOOLS, planner, policies=Policies(max_level=Level.LOW, approve="never"))
    end = await engine.run(plan("boom", {}))
    assert [finding.code for finding in seen[-1].findings] == ["level_too_high"]
    assert "read_payroll" not in end.to_json()["steps"]


async def test_from_a_level_on_a_plan_needs_an_approval() -> None:
    """`approve_from` holds whatever `approve` says, and the review shows it."""
    engine = Engine(TOOLS, policies=Policies(approve="never", approve_from=Level.HIGH))
    assert engine.review(plan("read_payroll")).approval == ("read_payroll is of level high",)
    with pytest.raises(NotApproved):
        await engine.run(plan("read_payroll"))
    approval = engine.approve(plan("read_payroll"), by="ada")
    assert (await engine.run(plan("read_payroll"), approval=approval)).state == "done"
    lower = Engine(TOOLS, policies=Policies(approve="never", approve_from=Level.CRITICAL))
    assert not lower.review(plan("read_payroll")).needs_approval


# ---- P5: what is shown


def may_see(*names: str) -> set[str]:
    """The tools without permissions and of a low level, and these."""
    return {"ask", "boom", *names}


async def test_planners_are_shown_only_what_may_be_called() -> None:
    """P5: neither the first request nor a re-plan names a tool beyond the principal or the level."""
    seen: list[set[str]] = []

    def first(request: PlanRequest) -> Plan:
        seen.append(set(request.tools.names))
        return plan("boom", {})

    def mend(request: ReplanRequest) -> dict[str, Any]:
        seen.append(set(request.tools.names))
        return {"add": [{"id": "b", "replaces": "a", "value": 1}]}

    rules = READS.model_copy(update={"max_level": Level.MEDIUM})
    engine = Engine(TOOLS, FunctionPlanner(first, mend), policies=rules, principal=AGENT)
    await engine.run(await engine.plan("look"))
    assert seen == [may_see("find_customer")] * 2


@pytest.mark.parametrize(("wrong", "hidden"), [("find_customers", "merge"), ("read_payrol", "read_payroll")])
async def test_an_unknown_name_is_answered_with_names_that_may_be_called(wrong: str, hidden: str) -> None:
    """P5: the nearest name is looked for among the permitted ones only, and the catalogue is not printed."""
    rules = READS.model_copy(update={"max_level": Level.MEDIUM})
    report = Engine(TOOLS, policies=rules, principal=AGENT).check(plan(wrong))
    assert codes(report) == ["unknown_tool"]
    assert hidden not in report.errors[0].message


async def test_of_a_tool_that_may_not_be_called_nothing_more_is_told() -> None:
    """P5: the names of its arguments are no answer to someone who may not call it."""
    report = Engine(TOOLS, policies=READS, principal=AGENT).check(
        plan("find_customers_and_merge", {"nam": 1})
    )
    assert codes(report) == ["permission"]


# ---- A5: names and options

untyped: Any = SimpleNamespace(
    Policies=Policies,
    Budget=Budget,
    Limits=Limits,
    Retry=Retry,
    Principal=Principal,
    Roles=Roles,
    Engine=Engine,
    tool=tool,
)
"""The same, so that a checker of types does not find first what is to be found here."""


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda: untyped.Policies(aprove="always"), "did you mean 'approve'"),
        (
            lambda: untyped.Policies(approve="allways"),
            "'approve' is 'allways'; it must be 'never', 'acts' or 'always'",
        ),
        (lambda: untyped.Policies(max_level="hgih"), "'max_level' is 'hgih'; it must be 'low', "),
        (lambda: untyped.Policies(tool_timeout=-1), "'tool_timeout' is -1; it must be above 0"),
        (lambda: untyped.Policies(budget={"tols": {}}), "'budget.tols'; did you mean 'tools'?"),
        (lambda: untyped.Policies(roles={"a": "crm:*"}), "'roles.a' is 'crm:*'; it must be a list"),
        (lambda: untyped.Budget(tool_call=3), "did you mean 'tool_calls'"),
        (lambda: untyped.Budget(tokens="many"), "'tokens' is 'many'; it must be a whole number"),
        (
            lambda: untyped.Limits(rates={"tool": {"a": "ten"}}),
            "'rates.tool.a': 'ten' is no rate; write it like '10/s'",
        ),
        (lambda: untyped.Retry(attempts=0), "Retry: 'attempts' is 0; it must be 1 or more"),
        (lambda: untyped.Principal(id="ada", role="x"), "did you mean 'roles'"),
        (lambda: untyped.Principal(), "Principal: 'id' is missing"),
        (
            lambda: untyped.Roles(["crm:*"]),
            "Roles say what each role may do, like Roles({'agent': ['crm:*']})",
        ),
        (lambda: untyped.Engine(TOOLS, principle=AGENT), "no option 'principle'; did you mean 'principal'?"),
        (lambda: untyped.Engine(TOOLS, 5), "planner=5 is no planner: it has no method `plan`"),
        (lambda: untyped.Engine(TOOLS, decide="ada"), "decide must be a function, not 'ada'"),
        (lambda: untyped.Engine(TOOLS, on_failure=True), "on_failure must be a function, not True"),
        (lambda: untyped.Engine(TOOLS, hands=3), "hands=3 is no hands"),
        (lambda: untyped.Engine(TOOLS, policies={}), "the policies must be a Policies, not dict"),
        (lambda: untyped.Engine(TOOLS, principal="ada"), "the principal must be a Principal, not str"),
        (
            lambda: untyped.Engine(
                TOOLS, policies=untyped.Policies(budget=untyped.Budget(tools={"find_custmer": 1}))
            ),
            "did you mean 'find_customer'",
        ),
        (
            lambda: untyped.Engine(
                TOOLS, policies=untyped.Policies(limits=untyped.Limits(tool={"find_custmer": 1}))
            ),
            "did you mean 'find_customer'",
        ),
        (
            lambda: untyped.Engine(
                TOOLS, policies=untyped.Policies(limits={"rates": {"tool": {"find_custmer": "1/s"}}})
            ),
            "did you mean 'find_customer'",
        ),
        (
            lambda: untyped.tool(requires_aproval=True),
            "no option 'requires_aproval'; did you mean 'requires_approval'?",
        ),
    ],
)
def test_what_is_misspelt_is_an_error_and_never_means_no_rule(made: Callable[[], Any], says: str) -> None:
    """A5: an unknown name or option is refused where it is written, in a sentence with the nearest that exists."""
    with pytest.raises(BadInput) as refused:
        made()
    assert says in str(refused.value)
    assert "pydantic" not in str(refused.value)
