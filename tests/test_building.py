"""The Python builder: a plan equal to the one written by hand, and slips that say what can be written instead."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest
from typing_extensions import TypedDict

from foreplan import Engine, Plan, PlanBuilder, Policies, Registry, Tool, ToolContext, check, tool
from foreplan.planner.references import (
    Ref,
    both,
    call,
    collect,
    contains,
    either,
    expression,
    is_none,
    keep,
    length,
    no,
    template,
    text,
)
from foreplan.policies.errors import BadInput

NOBODY = ToolContext()


@dataclass
class Payment:
    id: str
    payer: str
    amount: float


@dataclass
class Ledger:
    rows: list[Payment]


class Page(TypedDict):
    rows: list[int]
    next: int | None


class Job(TypedDict):
    ledger: str
    limit: float


@tool(effect="reads")
def read_ledger(path: str, day: date | None = None) -> Ledger:
    """Read a ledger."""
    return Ledger([Payment("p1", "ada", 10.0), Payment("p2", "bob", 99.0)])


@tool
async def refund(payment: str, reason: str, context: ToolContext = NOBODY) -> str:
    """Give money back."""
    return f"{payment} back"


@tool
def take_again(refunded: str) -> None:
    """Take a refund back."""


@tool(effect="reads")
async def page(cursor: int = 0) -> Page:
    """One page."""
    return {"rows": [cursor], "next": None if cursor else 1}


@tool
def send(body: str) -> None:
    """Send a mail."""


TOOLS = Registry(read_ledger, refund, take_again, page, send)


def steps(plan: PlanBuilder[Any]) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = plan.build().to_json()["steps"]
    return steps


def test_a_built_plan_is_the_plan_written_by_hand() -> None:
    """Equal in every field and in its digest."""
    plan = PlanBuilder("Refund large payments", inputs=Job)
    payments = plan.having(id="payments").step(read_ledger, path=plan.inputs["ledger"])
    large = plan.having(id="large").value(keep(payments.rows, lambda p: p.amount > plan.inputs["limit"]))
    each = plan.having(id="refunds", on_failure="skip").each(large, as_="payment")
    refunds = each.step(refund, payment=each.item.id, reason="too large")
    plan.having(id="told", when=length(large) > 0).step(
        send, body=text("{n} of {all}", n=length(refunds), all=length(payments.rows))
    )
    built = plan.build(output={"refunds": refunds})

    by_hand = Plan.model_validate(
        {
            "goal": "Refund large payments",
            "inputs": {
                "type": "object",
                "properties": {"ledger": {"type": "string"}, "limit": {"type": "number"}},
                "required": ["ledger", "limit"],
            },
            "steps": [
                {"id": "payments", "tool": "read_ledger", "args": {"path": {"$": "inputs.ledger"}}},
                {"id": "large", "value": {"$": "[p for p in payments.rows if (p.amount > inputs.limit)]"}},
                {
                    "id": "refunds",
                    "on_failure": "skip",
                    "each": {"$": "large"},
                    "as": "payment",
                    "tool": "refund",
                    "args": {"payment": {"$": "payment.id"}, "reason": "too large"},
                },
                {
                    "id": "told",
                    "when": {"$": "len(large) > 0"},
                    "tool": "send",
                    "args": {"body": {"$": "f'{len(refunds)} of {len(payments.rows)}'"}},
                },
            ],
            "output": {"refunds": {"$": "refunds"}},
        }
    )
    assert (built, built.digest) == (by_hand, by_hand.digest)
    assert check(built, TOOLS).errors == ()
    run = Engine(TOOLS, policies=Policies(approve="never")).run_blocking(
        built, inputs={"ledger": "x", "limit": 50}
    )
    assert run.output == {"refunds": ["p2 back"]}


def test_ids_come_from_the_tools() -> None:
    """The last part of the name, numbered where it stands already, and never a word of the language."""
    plan = PlanBuilder()
    for name in ("crm.find", "crm.find", "first", "Send-Mail"):
        plan.step(name, key=1)
    plan.value(1)
    assert [step["id"] for step in steps(plan)] == ["find", "find_2", "first_step", "send_mail", "value"]


def test_positions_become_names_and_the_context_stays_out() -> None:
    """As the function is called; what the engine gives is not in the plan. Typed arguments become JSON."""
    plan: PlanBuilder[Any] = PlanBuilder()
    plan.step(read_ledger, "a.csv", date(2024, 5, 1))
    plan.step(refund, "p1", "late", ToolContext())
    first, second = steps(plan)
    assert first["args"] == {"path": "a.csv", "day": "2024-05-01"}
    assert second["args"] == {"payment": "p1", "reason": "late"}


def test_after_takes_results_groups_and_ids() -> None:
    """Order without data."""
    plan: PlanBuilder[Any] = PlanBuilder()
    sent = plan.step(send, body="a")
    with plan.having(id="both").group() as group:
        plan.step(send, body="b")
    plan.having(after=[sent, group, "send_2"]).step(send, body="c")
    assert steps(plan)[-1]["after"] == ["send", "both", "send_2"]


def test_a_group_holds_the_steps_written_in_it() -> None:
    """With `each` a chain per item; what it gives is its output."""
    plan: PlanBuilder[Any] = PlanBuilder()
    with plan.having(id="files").each(["a", "b"], as_="file") as files:
        got = plan.step(read_ledger, path=files.item)
        rows = files.gives({"n": files.index, "rows": got.rows})
    plan.having(id="all").value(rows[0]["rows"])
    group, last = steps(plan)
    inner = {"id": "read_ledger", "tool": "read_ledger", "args": {"path": {"$": "file"}}}
    output = {"n": {"$": "index"}, "rows": {"$": "read_ledger.rows"}}
    assert group == {"id": "files", "each": ["a", "b"], "as": "file", "steps": [inner], "output": output}
    assert last == {"id": "all", "value": {"$": "files[0].rows"}}


def test_a_repeat_says_until_when() -> None:
    """Paging and fail-over."""
    plan: PlanBuilder[Any] = PlanBuilder()
    pages = (
        plan.having(id="pages")
        .repeat(page, cursor=0)
        .until(
            lambda result: is_none(result["next"]),
            next=lambda result: {"cursor": result["next"]},
            max=9,
            every=2,
        )
    )
    each = plan.having(id="found").each(["a", "b"])
    each.repeat(read_ledger, path=each.item).until(lambda ledger: length(ledger.rows) > 0)
    plan.value(pages[-1]["rows"])
    first, second, third = steps(plan)
    assert first["until"] == {"$": "result.next is None"}
    assert (first["next"], first["max"], first["every"]) == ({"cursor": {"$": "result.next"}}, 9, 2)
    assert (second["each"], second["until"]) == (["a", "b"], {"$": "len(result.rows) > 0"})
    assert third["value"] == {"$": "pages[-1].rows"}


def test_undo_names_the_result_of_its_step() -> None:
    """In the undo of a step, the step is called `result`."""
    plan: PlanBuilder[Any] = PlanBuilder()
    back = plan.step(refund, payment="p1", reason="late")
    plan.undo(back, take_again, refunded=back)
    assert steps(plan)[0]["undo"] == {"tool": "take_again", "args": {"refunded": {"$": "result"}}}


def test_having_of_an_each_is_asked_per_item() -> None:
    """A `when` that names the item."""
    plan: PlanBuilder[Any] = PlanBuilder()
    each = plan.each([1, 2, 3])
    each.having(when=each.item > 1).value(each.item * 2)
    assert steps(plan)[0]["when"] == {"$": "item > 1"}


A: Any = Ref("a", frozenset({"a"}), tight=True)
P: Any = Ref("p", frozenset({"p"}), tight=True)
SAID: list[tuple[Any, str]] = [
    (A.rows[0].id, "a.rows[0].id"),
    (A["not a name"]["class"], "a['not a name'].class"),
    (A[A.place], "a[a.place]"),
    (A.rows[1:], "a.rows[1:]"),
    (A.rows[:-1], "a.rows[:-1]"),
    ((A.x + 1) * 2, "(a.x + 1) * 2"),
    (1 - A.x / 2, "1 - (a.x / 2)"),
    (-(A.x % 3), "-(a.x % 3)"),
    (A.name.upper().split(","), "a.name.upper().split(',')"),
    (both(A.x >= 1, A.y != "b"), "(a.x >= 1) and (a.y != 'b')"),
    (either(no(A.x == 1), contains(A.rows, "x")), "(not (a.x == 1)) or ('x' in a.rows)"),
    (length(keep(A.rows, lambda r: is_none(r.id))), "len([r for r in a.rows if (r.id is None)])"),
    (
        collect(A.rows, lambda r: {"id": r.id, "n": [r.n, None]}),
        "[{'id': r.id, 'n': [r.n, None]} for r in a.rows]",
    ),
    (collect(A.rows, lambda p: p.x + P.y), "[(p_2.x + p.y) for p_2 in a.rows]"),
    (call("sorted", A.rows, key=lambda r: r.day), "sorted(a.rows, key=lambda r: r.day)"),
    (call("sum", collect(A.rows, lambda r: r.n)), "sum([r.n for r in a.rows])"),
    (text("{n:,.2f} of {all}", n=A.x, all=A.y + 1), "f'{a.x:,.2f} of {(a.y + 1)}'"),
    (text("it's {x}\n{{}}", x=A.x), 'f"it\'s {a.x}\\n{{}}"'),
    (text("{x}", x={"k": A.x}), "f\"{({'k': a.x})}\""),
    (expression("len(a) + 1", int), "len(a) + 1"),
    (collect([1, 2], lambda n: n + A.x), "[(n + a.x) for n in [1, 2]]"),
]


@pytest.mark.parametrize(("made", "said"), SAID, ids=[said for _, said in SAID])
def test_what_is_done_to_a_reference_becomes_its_expression(made: Any, said: str) -> None:
    """Python's syntax in, the same syntax out; and the language reads it."""
    assert template(made) == {"$": said}


def test_text_means_what_it_says() -> None:
    """Braces, quotes, backslashes and new lines of the text come out as they went in."""
    plan: PlanBuilder[Any] = PlanBuilder()
    odd = "a\\b {{x}} 'q' \"d\"\n{n}"
    plan.value(text(odd, n=plan.value(1)))
    [_, step] = Engine(Registry()).run_blocking(plan.build()).steps.values()
    assert step.value == "a\\b {x} 'q' \"d\"\n1"


def test_literals_stay_literal() -> None:
    """Text is never an expression, and an object with `$` is written so that it stays one."""
    assert template({"a": "x.y", "b": [1, None]}) == {"a": "x.y", "b": [1, None]}
    assert template({"$": "x"}) == {"$literal": {"$": "x"}}
    assert template(Payment("p", A.x, 2)) == {"id": "p", "payer": {"$": "a.x"}, "amount": 2}


@pytest.mark.parametrize(
    ("slip", "hint"),
    [
        (lambda: bool(A.x), "when="),
        (lambda: len(A.x), "length()"),
        (lambda: list(A.x), "each()"),
        (lambda: 1 in A.x, "contains()"),
        (lambda: f"{A.x}", "text()"),
        (lambda: str(A.x), "text()"),
        (lambda: A.x.fetch(), "no method"),
        (lambda: call("open", "x"), "no function 'open'"),
        (lambda: text("{n}"), "not given"),
    ],
)
def test_what_cannot_be_an_expression_says_what_can(slip: Any, hint: str) -> None:
    """Python would have to decide now what is known only in the run."""
    with pytest.raises(BadInput) as caught:
        slip()
    assert hint in str(caught.value)


def test_slips_of_the_builder_are_told() -> None:
    """Two steps of one id, a repeat without end, the undo of nothing, an open group, positions without names."""
    plan: PlanBuilder[Any] = PlanBuilder()
    named = plan.having(id="a")
    a = named.step(send, body="x")
    with pytest.raises(BadInput, match="two steps are called 'a'"):
        named.step(send, body="y")
    with pytest.raises(BadInput, match="not the result of a step"):
        plan.undo(a + 1, send, body="no")  # type: ignore[operator]
    with pytest.raises(BadInput, match="did you mean 'a'"):
        plan.undo("aa", send, body="no")
    with plan.group(), pytest.raises(BadInput, match="still open"):
        plan.build()
    plan.repeat(page)
    with pytest.raises(BadInput, match="repeat of 'page' has no end"):
        plan.build()
    with pytest.raises(BadInput, match="name the arguments"):
        plan.step("send", "x")  # type: ignore[call-overload]


def test_a_built_plan_does_not_change_when_more_is_written() -> None:
    """`build` gives a copy."""
    plan: PlanBuilder[Any] = PlanBuilder()
    with plan.having(id="g").group():
        plan.step(send, body="a")
    before = plan.build()
    plan.step(send, body="b")
    assert [step.id for step in before.every_step] == ["g", "send"]


def test_tools_known_by_schema_only_are_named_or_given() -> None:
    """An untyped tool takes any argument by name."""
    found = Tool.declare("crm.find", input_schema={"type": "object", "properties": {"id": {}}})
    plan: PlanBuilder[Any] = PlanBuilder(inputs={"type": "object", "properties": {"id": {"type": "string"}}})
    plan.step(found, id=plan.inputs.id)
    plan.step("crm.find", id="x")
    assert [step["args"] for step in steps(plan)] == [{"id": {"$": "inputs.id"}}, {"id": "x"}]
