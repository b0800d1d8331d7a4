"""Approvals: bound to what was shown, refused where anything bound differs, saying what."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.shop import CLERK, REFUNDS, email, ledger, refund, refunds, shop

from foreplan import Engine, MemoryJournal
from foreplan.planner.approvals import (
    Approval,
    RowLimit,
    approval_needed,
    asks_at_call,
    bind,
    covers,
    differences,
    patch_needs_approval,
    read_approval,
)
from foreplan.planner.documents import read_plan
from foreplan.planner.plan import Patch, Plan, Step
from foreplan.policies.errors import BadInput, NotApproved, UnknownTool
from foreplan.policies.permissions import Principal
from foreplan.policies.policies import Budget, Policies
from foreplan.policies.retry import Retry
from foreplan.registry.registry import Registry

NOW = 1_700_000_000.0
INPUTS = {"ledger": "may.csv", "owner": "o@shop", "limit": 50}


def approved(**options: Any) -> Approval:
    given = {
        "inputs": INPUTS,
        "principal": CLERK,
        "by": "bo",
        "now": NOW,
        "expires_at": NOW + 3600,
        **options,
    }
    return bind(refunds(), shop(), Policies(), **given)


def against(approval: Approval, plan: Plan | None = None, **changed: Any) -> list[str]:
    given = {
        "registry": shop(),
        "policies": Policies(),
        "inputs": INPUTS,
        "principal": CLERK,
        "now": NOW + 60,
        **changed,
    }
    return differences(approval, plan or refunds(), given.pop("registry"), given.pop("policies"), **given)


def test_an_approval_covers_the_run_it_was_given_for() -> None:
    """Nothing differs, nothing is said."""
    assert against(approved()) == []


def test_it_survives_being_a_file() -> None:
    """Written, read, the same."""
    approval = approved(scope="reads")
    assert read_approval(approval.to_text()) == approval
    assert read_approval(approval.to_json()) == approval
    assert against(read_approval(approval.to_text())) == []


def test_every_approval_has_its_own_id() -> None:
    """One run uses it up; two approvals of the same plan are two."""
    assert approved().id != approved().id


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "another plan": ({"plan": read_plan(REFUNDS.replace("duplicate}", "fraud}"))}, "the plan differs"),
    "another goal": ({"plan": read_plan(REFUNDS.replace("above", "below"))}, "the plan differs"),
    "another input schema": (
        {"registry": shop(refund=refund(input_schema={"type": "object"}))},
        "the tool 'refund_payment' changed: input schema differs",
    ),
    "another output schema": (
        {"registry": shop(ledger=ledger(output_schema={"type": "object"}))},
        "the tool 'read_ledger' changed: output schema differs",
    ),
    "another effect": (
        {"registry": shop(ledger=ledger(effect="acts"))},
        "the tool 'read_ledger' changed: effect was 'reads', is 'acts'",
    ),
    "another version": (
        {"registry": shop(refund=refund(version="2"))},
        "the tool 'refund_payment' changed: version was '1', is '2'",
    ),
    "other permissions": (
        {"registry": shop(refund=refund(permissions=()))},
        "the tool 'refund_payment' changed: set of permissions differs",
    ),
    "a tool that is gone": (
        {"registry": shop(email=ledger(effect="writes"), ledger=refund(), refund=email())},
        "changed",
    ),
    "another policy": (
        {"policies": Policies(approve="never")},
        "the policy changed: approve was 'acts', is 'never'",
    ),
    "another retry": (
        {"policies": Policies(retry=Retry(attempts=9))},
        "the policy changed: retry.attempts was 3, is 9",
    ),
    "another budget": (
        {"policies": Policies(budget=Budget(tool_calls=500))},
        "the policy changed: budget.tool_calls was none, is 500",
    ),
    "other inputs": (
        {"inputs": {**INPUTS, "owner": "eve@evil"}},
        "the inputs differ from those that were approved",
    ),
    "no inputs": ({"inputs": None}, "the inputs differ"),
    "another principal": (
        {"principal": Principal(id="eve", permissions=CLERK.permissions)},
        "the principal changed: id was 'ana', is 'eve'",
    ),
    "more permissions": (
        {"principal": Principal(id="ana", permissions=("*",))},
        "the principal changed: permissions was",
    ),
    "other attributes": (
        {"principal": CLERK.model_copy(update={"attributes": {"branch": "north"}})},
        "the principal changed: attributes was none, is 'sha256:",
    ),
    "too late": ({"now": NOW + 3600 + 7200}, "the approval expired 2 hours ago"),
    "a batch": ({"rows": 3}, "the approval is for one run, this is a batch"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_whatever_changes_between_approval_and_run_is_named(name: str) -> None:
    """Each bound thing in turn, a batch or an hour too late: refused, saying which (threats 9 and 10)."""
    changed, says = CHANGES[name]
    found = against(approved(), **changed)
    assert len(found) >= 1
    assert any(says in sentence for sentence in found), found


def test_changed_code_is_a_changed_tool() -> None:
    """The source is part of the contract where it can be read."""

    async def other(args: dict[str, Any]) -> Any:
        return {"payment_id": "x"}

    def changed(call: Any) -> Any:
        tool = refund()
        declared = type(tool).declare
        return declared(
            tool.name,
            tool.description,
            input_schema=tool.input.document,
            output_schema=tool.output.document if tool.output else None,
            call=call,
            effect=tool.effect,
            permissions=tool.permissions,
            version=tool.version,
        )

    assert against(approved(), registry=shop(refund=changed(other))) == [
        "the tool 'refund_payment' changed: source code differs"
    ]


def test_everything_that_differs_is_said_at_once() -> None:
    """One sentence each."""
    found = against(approved(), now=NOW + 9999, inputs={}, policies=Policies(approve="always"))
    assert len(found) == 3


def test_a_tool_the_approval_never_saw_is_named() -> None:
    """Another plan cannot smuggle a tool in."""
    plan = read_plan(REFUNDS.replace("tool: send_email", "tool: store_value"))
    assert "the tool 'store_value' was not part of what was approved" in against(approved(), plan)


def test_a_batch_is_bound_by_rows_and_source() -> None:
    """Up to so many rows, from this source."""
    approval = approved(batch=RowLimit(rows=10, source="sha256:aa"))
    assert against(approval, rows=10, source="sha256:aa") == []
    assert against(approval, rows=11, source="sha256:aa") == ["the batch has 11 rows, 10 were approved"]
    assert "the source of the rows differs" in against(approval, rows=1, source="sha256:bb")[0]
    assert "this is one run" in against(approval)[0]


def test_a_plan_with_an_unknown_tool_cannot_be_approved() -> None:
    """There is no contract to bind."""
    with pytest.raises(UnknownTool):
        bind(Plan(steps=[Step(id="a", tool="nope")]), shop(), by="bo", now=NOW)


def _edited(**changes: Any) -> str:
    return json.dumps({**approved().to_json(), **changes})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the document is empty"),
        ("{", "this is not JSON"),
        ("[]", "it is no JSON object"),
        ("{}", "is missing"),
        ('{"id": "a", "id": "b"}', "stands twice"),
        (_edited(by="eve"), "was changed after it was written"),
        (_edited(digest="sha256:00"), "was changed after it was written"),
        (_edited(scop="reads"), "it has an unknown field 'scop'; did you mean 'scope'?"),
        (_edited(scope="everything"), "the field 'scope' is not of the right form"),
        (_edited(expires_at="never"), "the field 'expires_at' is not of the right form"),
        (_edited(foreplan_approval=2), "the field 'foreplan_approval' is not of the right form"),
    ],
)
def test_a_file_that_is_no_approval_is_refused_in_a_sentence(text: str, says: str) -> None:
    """Strict reading: an unknown field could be a misspelt bound."""
    with pytest.raises(BadInput, match="the approval") as caught:
        read_approval(text)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("approve", "tools", "needed"),
    [
        ("never", [refund()], False),
        ("never", [refund(requires_approval=True)], True),
        ("never", [refund(requires_approval="each")], False),
        ("acts", [ledger()], False),
        ("acts", [refund()], True),
        ("always", [ledger()], True),
        ("always", [], True),
    ],
)
def test_policy_and_tools_say_when_an_approval_is_needed(
    approve: Any, tools: list[Any], needed: bool
) -> None:
    """`never`, `acts`, `always`; a tool may ask for one whatever the policy."""
    assert approval_needed(tools, Policies(approve=approve)) is needed


def test_a_tool_may_ask_at_every_call() -> None:
    """`each` always; `True` where an argument is not a literal, so that nobody approved its value."""
    literal = Step(id="a", tool="refund_payment", args={"payment_id": "p1", "reason": "fraud"})
    computed = Step(id="a", tool="refund_payment", args={"payment_id": {"$": "x.id"}, "reason": "fraud"})
    assert not asks_at_call(computed, refund())
    assert asks_at_call(literal, refund(requires_approval="each"))
    assert not asks_at_call(literal, refund(requires_approval=True))
    assert asks_at_call(computed, refund(requires_approval=True))


def _patch(*steps: dict[str, Any]) -> Patch:
    return Patch(add=[Step.model_validate(step) for step in steps])


READ = {"id": "again", "tool": "read_ledger", "args": {"path": "other.csv"}, "replaces": "payments"}
SAME = {
    "id": "refund2",
    "tool": "refund_payment",
    "each": {"$": "pairs"},
    "as": "payment",
    "args": {"payment_id": {"$": "payment.id"}, "reason": "duplicate"},
    "replaces": "refund",
}
FRAUD = {**SAME, "args": {"payment_id": {"$": "payment.id"}, "reason": "fraud"}}
WIDER = {**SAME, "each": {"$": "payments.rows"}}
MORE = {k: v for k, v in SAME.items() if k != "replaces"}
OTHER = {"id": "x", "tool": "store_value", "args": {"key": "k", "value": 1}, "replaces": "refund"}
SHORT = {**SAME, "args": {"payment_id": {"$": "payment.id"}}}
ALWAYS = {**SAME, "when": {"$": "1 > 2"}}
CHANGING = {**SAME, "until": {"$": "True"}, "next": {"payment_id": "another"}}
UNDONE = {**READ, "undo": {"tool": "refund_payment", "args": {"payment_id": "p", "reason": "fraud"}}}
GROUP = {"id": "g", "steps": [{k: v for k, v in SAME.items() if k != "replaces"}]}


@pytest.mark.parametrize(
    ("patch", "none", "reads", "envelope"),
    [
        (_patch(READ), False, True, True),
        (_patch({"id": "v", "value": 1}), False, True, True),
        (_patch(SAME), False, False, True),
        (_patch(READ, {**SAME, "each": {"$": "pairs"}}), False, False, True),
        (_patch(FRAUD), False, False, False),
        (_patch(WIDER), False, False, False),
        (_patch(MORE), False, False, False),
        (_patch(OTHER), False, False, False),
        (_patch(SHORT), False, False, False),
        (_patch(ALWAYS), False, False, False),
        (_patch(CHANGING), False, False, False),
        (_patch(UNDONE), False, False, False),
        (_patch(GROUP), False, False, False),
        (_patch({"id": "g", "steps": [READ]}), False, True, True),
    ],
)
def test_the_scope_says_which_patches_are_covered(
    patch: Patch, none: bool, reads: bool, envelope: bool
) -> None:
    """`reads`: no effect is added; `envelope`: an approved effect in its own place, with approved arguments."""
    found = [covers(scope, patch, shop(), refunds()) for scope in ("none", "reads", "envelope")]
    assert found == [none, reads, envelope]


def test_a_patch_needs_approval_for_what_it_adds() -> None:
    """Reads need none under `acts`; an effect inside a group or in an `undo` counts like any other."""
    assert not patch_needs_approval(_patch(READ), shop(), Policies())
    assert patch_needs_approval(_patch(GROUP), shop(), Policies())
    assert patch_needs_approval(_patch(UNDONE), shop(), Policies())
    assert patch_needs_approval(_patch(SAME), shop(), Policies())
    assert not patch_needs_approval(_patch(SAME), shop(), Policies(approve="never"))


def test_a_step_in_a_group_that_runs_for_each_asks_at_every_call() -> None:
    """However literal its arguments are: how often it is called is not in them; nor what `next` puts there."""
    careful = refund(requires_approval=True)
    step = Step(id="r", tool="refund_payment", args={"payment_id": "P1", "reason": "fraud"})
    assert not asks_at_call(step, careful)
    assert asks_at_call(step, careful, many=True)
    assert asks_at_call(step.model_copy(update={"next": {"payment_id": {"$": "result"}}}), careful)


UNDOING = """
steps:
  - id: g
    each: [a]
    steps:
      - id: said
        tool: send_email
        args: {to: {$: item}, body: x}
        undo: {tool: refund_payment, args: {payment_id: x, reason: fraud}}
"""


def test_an_approval_binds_what_stands_in_groups_and_what_undoes() -> None:
    """Their contracts are in it; a change of one of them is named."""
    plan = read_plan(UNDOING)
    approval = bind(plan, shop(), by="bo", now=NOW)
    assert [*approval.tools] == ["send_email", "refund_payment"]
    changed = shop().only(names=["send_email", "read_ledger", "store_value"]) | Registry(refund(version="2"))
    found = differences(approval, plan, changed, now=NOW)
    assert found == ["the tool 'refund_payment' changed: version was '1', is '2'"]


def test_effects_inside_added_groups_are_covered_by_no_scope() -> None:
    """Reads inside are; so nothing can be smuggled into a group, or into an undo."""
    group = {
        "id": "h",
        "replaces": "g",
        "each": ["a"],
        "steps": [{"id": "s", "tool": "send_email", "args": {"to": "a", "body": "x"}}],
    }
    reading = {"id": "h", "steps": [{"id": "s", "tool": "read_ledger", "args": {"path": "x"}}]}
    sly = {"id": "h", "tool": "read_ledger", "args": {"path": "x"}, "undo": {"tool": "send_email"}}
    plan = read_plan(UNDOING)
    for steps, reads in ((group, False), (reading, True), (sly, False)):
        patch = Patch.model_validate({"add": [steps]})
        assert covers("reads", patch, shop(), plan) is reads
        assert covers("envelope", patch, shop(), plan) is reads
        assert patch_needs_approval(patch, shop(), Policies()) is not reads


def test_an_engine_without_a_journal_takes_only_approvals_that_it_gave() -> None:
    """A file's approval would be as good as new for the next engine; a journal that is handed in is a choice."""
    plan = Plan.model_validate({"steps": [{"id": "gone", "value": 1}]})
    first, second = Engine([]), Engine([])
    approval = first.approve(plan, by="bo")
    with pytest.raises(BadInput, match=r"only a journal remembers that it was used: .*journal='runs\.db'"):
        second.run_blocking(plan, approval=read_approval(approval.to_text()))
    assert first.run_blocking(plan, approval=read_approval(approval.to_text())).ok
    with pytest.raises(NotApproved, match="was used by run"):
        first.run_blocking(plan, approval=approval)
    kept = MemoryJournal()
    assert Engine([], journal=kept).run_blocking(plan, approval=approval).ok
    with pytest.raises(NotApproved, match="was used by run"):
        Engine([], journal=kept).run_blocking(plan, approval=approval)
