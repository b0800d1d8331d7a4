"""What type checkers make of plans written in Python. Only checked, never run: see `test_typed.py`.

Each `type: ignore` is a slip that a checker must see, with the code it must see it as.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, assert_type

from foreplan import PlanBuilder, Registry, Tool, tool
from foreplan.planner.references import collect, expression, is_none, keep, length, text


@dataclass
class Payment:
    id: str
    amount: float


@dataclass
class Ledger:
    rows: list[Payment]
    owner: str | None


@dataclass
class Job:
    ledger: str
    limit: float


@tool
def read_ledger(path: str, limit: int = 5) -> Ledger:
    return Ledger([], None)


@tool(effect="writes")
async def refund(payment: str, reason: str = "") -> int:
    return 1


tools = Registry()


@tools.tool
def registered(n: int) -> str:
    return ""


@tools.tool(effect="reads")
def with_options(n: int) -> str:
    return ""


# A tool stays the function that it was.

assert_type(read_ledger("x"), Ledger)
assert_type(refund, Tool[Callable[[str, str], Coroutine[Any, Any, int]]])  # type: ignore[assert-type]
assert_type(registered(1), str)
assert_type(with_options(n=1), str)
read_ledger(5)  # type: ignore[arg-type]
read_ledger("x", depth=1)  # type: ignore[call-arg]
several = [read_ledger, refund, registered]
Registry(*several)
any_tool: Tool = refund

# A step takes what the tool takes, and gives what it gives.

plan = PlanBuilder("refund", inputs=Job)
assert_type(plan.inputs, Job)
payments = plan.step(read_ledger, path=plan.inputs.ledger)
assert_type(payments, Ledger)
assert_type(payments.rows[0].amount, float)
done = plan.having(id="done", after=[payments]).step(refund, payments.rows[0].id, reason="late")
assert_type(done, int)
plan.step(read_ledger, path=plan.inputs.limit)  # type: ignore[call-overload]
plan.step(read_ledger, file="x")  # type: ignore[call-overload]
plan.step(read_ledger)  # type: ignore[call-overload]
plan.step(refund, payments.row)  # type: ignore[attr-defined, call-overload]
plan.step(refund, payment=payments.owner)  # type: ignore[call-overload]
plan.inputs.ledgers  # type: ignore[attr-defined]  # noqa: B018
assert_type(plan.step("named.only", anything=1), Any)

# Conditions, values, items.

plan.having(when=length(payments.rows) > 0).step(read_ledger, path="x")
plan.having(when=payments.rows)  # type: ignore[arg-type]
plan.having(on_failure="retry")  # type: ignore[arg-type]
large = plan.value(keep(payments.rows, lambda p: p.amount > plan.inputs.limit))
assert_type(large, list[Payment])
keep(payments.rows, lambda p: p.amout > 5)  # type: ignore[attr-defined]
assert_type(collect(large, lambda p: p.id), list[str])
assert_type(text("{n}", n=1), str)
assert_type(expression("len(large)", int), int)

each = plan.each(large, as_="payment")
assert_type(each.item, Payment)
assert_type(each.step(refund, payment=each.item.id), list[int])
each.step(refund, payment=each.item.amount)  # type: ignore[call-overload]

with plan.each(large) as group:
    inside = plan.step(refund, payment=group.item.id)
    assert_type(group.gives({"n": inside}), list[dict[str, int]])

# Repeats and undo.

pages = plan.repeat(read_ledger, path="x").until(lambda found: is_none(found.owner), max=5)
assert_type(pages, list[Ledger])
plan.repeat(read_ledger, path="x").until(lambda found: found.rows)  # type: ignore[arg-type, return-value]
plan.undo(done, refund, payment="x")
plan.undo(done, refund, paymnt="x")  # type: ignore[arg-type]
