"""Tools of a small shop, known by schema only: for checks, reviews and approvals, which call none of them."""

from __future__ import annotations

from typing import Any

from foreplan.planner.documents import read_plan
from foreplan.planner.plan import Plan
from foreplan.policies.effect import Effect
from foreplan.policies.permissions import Principal
from foreplan.registry.registry import Registry
from foreplan.registry.tools import Tool

PAYMENT = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "payer": {"type": "string"},
        "amount": {"type": "number"},
        "day": {"type": "string"},
        "memo": {"type": ["string", "null"]},
    },
    "required": ["id", "payer", "amount", "day"],
}

CLERK = Principal(id="ana", permissions=("pay:refund",))
"""May call every tool of the shop."""

REFUNDS = """
foreplan: 1
goal: Refund every duplicate payment above the limit
inputs:
  type: object
  properties: {ledger: {type: string}, limit: {type: number, default: 50}, owner: {type: string}}
  required: [ledger, owner]
steps:
  - id: payments
    tool: read_ledger
    args: {path: {$: "inputs.ledger"}}
  - id: pairs
    value: {$: "[g.items[1] for g in group(payments.rows, key=lambda p: [p.payer, p.amount, p.day]) if len(g.items) > 1 and g.items[1].amount > inputs.limit]"}
  - id: refund
    each: {$: "pairs"}
    as: payment
    tool: refund_payment
    args: {payment_id: {$: "payment.id"}, reason: duplicate}
    on_failure: skip
  - id: notify
    when: {$: "len(pairs) > 0"}
    tool: send_email
    args: {to: {$: "inputs.owner"}, body: {$: "f'{len([r for r in refund if r is not None])} refunded'"}}
output: {refunded: {$: "[r.payment_id for r in refund if r is not None]"}}
"""
"""The plan that the design shows."""


def refunds() -> Plan:
    """The plan that the design shows, read."""
    return read_plan(REFUNDS)


async def _never(args: dict[str, Any]) -> Any:
    raise AssertionError("nothing here is called")


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


def ledger(**options: Any) -> Tool:
    """Reads rows of payments."""
    declared: dict[str, Any] = {
        "input_schema": _object(["path"], path={"type": "string"}),
        "output_schema": _object(["rows"], rows={"type": "array", "items": PAYMENT}),
        "effect": Effect.READS,
    }
    return Tool.declare("read_ledger", "Read a ledger.", call=_never, **{**declared, **options})


def refund(**options: Any) -> Tool:
    """Acts, and needs a permission."""
    declared: dict[str, Any] = {
        "input_schema": _object(
            ["payment_id", "reason"], payment_id={"type": "string"}, reason={"enum": ["duplicate", "fraud"]}
        ),
        "output_schema": _object(["payment_id"], payment_id={"type": "string"}),
        "effect": Effect.ACTS,
        "permissions": ("pay:refund",),
        "version": "1",
    }
    return Tool.declare("refund_payment", "Give the money back.", call=_never, **{**declared, **options})


def email(**options: Any) -> Tool:
    """Acts; its result is not described."""
    declared: dict[str, Any] = {
        "input_schema": _object(
            ["to", "body"],
            to={"type": "string", "pattern": "^[^@]+@[^@]+$"},
            body={"type": "string"},
            cc={"type": "array", "items": {"type": "string"}},
            options=_object(["tag"], urgent={"type": "boolean"}, tag={"type": "string"}),
        ),
        "effect": Effect.ACTS,
    }
    return Tool.declare("send_email", "Send an e-mail.", call=_never, **{**declared, **options})


def store(**options: Any) -> Tool:
    """Writes: may be repeated."""
    declared: dict[str, Any] = {
        "input_schema": _object(["key", "value"], key={"type": "string"}, value={}),
        "output_schema": {"type": "null"},
        "effect": Effect.WRITES,
    }
    return Tool.declare("store_value", "Keep a value under a key.", call=_never, **{**declared, **options})


def shop(**changed: Tool) -> Registry:
    """The registry; `refund=…` puts another tool in the place of one."""
    return Registry(
        *({"ledger": ledger(), "refund": refund(), "email": email(), "store": store()} | changed).values()
    )
