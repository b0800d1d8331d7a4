"""A run goes on by what it was opened with: what changed is refused and named, or accepted by name and recorded."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from foreplan import Budget, Engine, MemoryJournal, Plan, Policies, Principal, Retry, Run, Tool, tool
from foreplan.executor.events import RunResumed
from foreplan.executor.recorded import read_run
from foreplan.policies.errors import BadInput, NotApproved
from foreplan.policies.permissions import Roles

pytestmark = pytest.mark.anyio

ADA = Principal(id="ada")
RULES = Policies(approve="never", budget=Budget(tool_calls=3))
PLAN = Plan.model_validate(
    {
        "steps": [
            {"id": "one", "tool": "send", "args": {"to": "one"}},
            {"id": "two", "after": ["one"], "tool": "send", "args": {"to": "two"}},
            {"id": "three", "after": ["two"], "tool": "send", "args": {"to": "three"}},
        ]
    }
)
SENT: list[str] = []


def sender(version: str = "1", effect: Any = "acts", *, asks: Any = "each") -> Tool:
    @tool(version=version, effect=effect, requires_approval=asks)
    async def send(to: str) -> str:
        """Send."""
        await anyio.lowlevel.checkpoint()
        SENT.append(to)
        return f"{to} by version {version}"

    return send


async def waiting(journal: MemoryJournal) -> Run:
    """A run that waits before its first call."""
    SENT.clear()
    run = await Engine([sender()], policies=RULES, principal=ADA, journal=journal).run(PLAN, run_id="r")
    assert run.state == "waiting"
    return run


async def go_on(engine: Engine, run: Run, who: str = "") -> Run:
    """Approve whatever is asked until the run ends."""
    while run.state == "waiting":
        said = {asked.id: "approve" for asked in run.waiting}
        run = await engine.resume(run.id, decisions=said, accept_changes=who)
    return run


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "a tool": ({"registry": [sender("2")]}, "tool 'send' changed: source, version"),
    "a rule": (
        {"policies": RULES.model_copy(update={"retry": Retry(attempts=9)})},
        "the policy changed: retry.attempts was 3, is 9",
    ),
    "a bound": (
        {"policies": Policies(approve="never")},
        "the policy changed: budget.tool_calls was 3, is none",
    ),
    "the principal": ({"principal": Principal(id="eve")}, "it acts for 'ada', not for 'eve'"),
}


@pytest.mark.parametrize("case", CHANGES)
async def test_what_changed_is_refused_and_named(case: str) -> None:
    """Another tool, rule or principal: nothing is done and nothing is written until somebody accepts it by name."""
    (options, said), journal = CHANGES[case], MemoryJournal()
    run = await waiting(journal)
    before = list(journal.events("r"))
    given: dict[str, Any] = {"registry": [sender()], "policies": RULES, "principal": ADA} | options
    engine = Engine(**given, journal=journal)
    with pytest.raises(NotApproved, match="accept_changes=") as refused:
        await engine.resume("r", decisions={run.waiting[0].id: "approve"})
    assert any(said.split(":")[0] in difference for difference in refused.value.differences)
    assert (list(journal.events("r")), SENT) == (before, [])
    ended = await go_on(engine, run, "bob")
    assert (ended.state, SENT) == ("done", ["one", "two", "three"])
    first, *later = [event for event in journal.events("r") if isinstance(event, RunResumed)]
    assert first.accepted is not None
    assert first.accepted["by"] == "bob"
    assert [change.split(":")[0] for change in first.accepted["changes"]] == [said.split(":")[0]]
    assert [event.accepted for event in later] == [None] * len(later)  # it holds from there on
    assert read_run(journal, "r").state == "done"


async def test_what_was_accepted_holds_and_what_it_replaced_is_refused() -> None:
    """After a change was accepted, going back to the old tool is a change."""
    journal = MemoryJournal()
    run = await waiting(journal)
    new = Engine([sender("2")], policies=RULES, principal=ADA, journal=journal)
    run = await new.resume("r", decisions={run.waiting[0].id: "approve"}, accept_changes="bob")
    assert run["one"] == "one by version 2"
    old = Engine([sender()], policies=RULES, principal=ADA, journal=journal)
    with pytest.raises(NotApproved, match="tool 'send' changed"):
        await old.resume("r")


async def test_an_accepted_bound_goes_on_from_what_was_used() -> None:
    """Two of three calls are made; with a bound of two in all, the third is not."""
    journal = MemoryJournal()
    run = await waiting(journal)
    engine = Engine([sender()], policies=RULES, principal=ADA, journal=journal)
    for _ in range(2):
        run = await engine.resume("r", decisions={run.waiting[0].id: "approve"})
    short = RULES.model_copy(update={"budget": Budget(tool_calls=2)})
    run = await go_on(Engine([sender()], policies=short, principal=ADA, journal=journal), run, "bob")
    assert (run.state, run.reason, SENT) == ("stopped", "budget", ["one", "two"])
    assert read_run(journal, "r").budget.tool_calls == 2


async def test_what_decided_the_past_cannot_be_accepted() -> None:
    """Another effect, other approvals, a tool that is gone: that is another run."""
    journal = MemoryJournal()
    await waiting(journal)
    for tools, said in (
        ([sender(effect="writes")], "tool 'send' changed: effect"),
        ([sender(asks=False)], "tool 'send' changed: requires_approval"),
        ([], "tool 'send' is not registered"),
    ):
        with pytest.raises(NotApproved, match=said) as refused:
            await Engine(tools, principal=ADA, journal=journal).resume("r", accept_changes="bob")
        assert "accept_changes" not in str(refused.value)


async def test_an_engine_without_rules_goes_by_those_of_the_run() -> None:
    """And so does one whose roles changed: what they permit is asked anew each time."""
    journal = MemoryJournal()
    run = await waiting(journal)
    run = await Engine([sender()], principal=ADA, journal=journal).resume(
        "r", decisions={run.waiting[0].id: "approve"}
    )
    assert run.budget.tool_calls == 3
    roles = RULES.model_copy(update={"roles": Roles({"clerk": ["x"]})})
    ended = await go_on(Engine([sender()], policies=roles, principal=ADA, journal=journal), run)
    assert ended.state == "done"


async def test_who_accepts_is_a_name() -> None:
    """True is none."""
    journal = MemoryJournal()
    await waiting(journal)
    with pytest.raises(BadInput, match="who accepts the changes"):
        await Engine([sender()], principal=ADA, journal=journal).resume("r", accept_changes=True)  # type: ignore[arg-type]
