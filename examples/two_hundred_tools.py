"""A model among two hundred tools: `python examples/two_hundred_tools.py [--model MODULE:NAME] [QUESTION]`.

The tools are made from a table below. Of all of them the model is shown the few that fit the question; it calls some,
one call fails and the failure goes back to it, it finds another way, and answers. Without `--model` a script plays the
model, so that this runs offline; with it, the model that the name stands for is asked: an object with `agenerate`.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from typing import Any

from foreplan import (
    AIMessage,
    Policies,
    Registry,
    ScriptedModel,
    Tool,
    ToolCall,
    ToolFailure,
    ToolMessage,
    create_agent,
)

THINGS = (
    "orders", "returns", "invoices", "customers", "products", "shipments", "warehouses", "suppliers", "coupons", "carts",
    "reviews", "tickets", "employees", "shifts", "contracts", "meetings", "rooms", "vehicles", "campaigns", "surveys",
)  # fmt: skip
DEEDS = {  # what is done: a sentence, arguments, whether it only reads
    "list": ("List the {things} of a customer.", ("customer",), True),
    "get": ("Get one of the {things} by its id, with its state.", ("id",), True),
    "count": ("Count the {things} of a month.", ("month",), True),
    "export": ("Export all {things} as a table.", ("format",), True),
    "history": ("Tell who changed one of the {things}, and when.", ("id",), True),
    "create": ("Create one of the {things} for something else.", ("for_id", "reason"), False),
    "cancel": ("Cancel one of the {things}.", ("id",), False),
    "archive": ("Archive old {things}.", ("before",), False),
    "tag": ("Put a tag on one of the {things}.", ("id", "tag"), False),
    "assign": ("Assign one of the {things} to a person.", ("id", "person"), False),
}
QUESTION = (
    "List the orders of ada and cancel the newest; if that cannot be done, create one of the returns for it"
)

ORDERS = {"A-7": {"customer": "ada", "state": "delivered"}, "A-9": {"customer": "ada", "state": "shipped"}}


def answered(name: str, args: dict[str, Any]) -> Any:
    """What the services say: two of them know something."""
    match name:
        case "orders.list":
            return [{"id": id_, **o} for id_, o in ORDERS.items() if o["customer"] == args["customer"]]
        case "orders.cancel":
            state = ORDERS.get(args["id"], {}).get("state", "unknown")
            raise ToolFailure(
                f"{args['id']} is {state}", code=f"already_{state}", hint="a return may be possible"
            )
        case "returns.create":
            return {"id": "R-1", "for": args["for_id"]}
    return {"note": f"{name} has nothing to say here"}


def made(thing: str, deed: str) -> Tool:
    """One cell of the table as a tool."""
    sentence, names, reads = DEEDS[deed]
    schema = {"type": "object", "properties": {n: {"type": "string"} for n in names}, "required": list(names)}
    name = f"{thing}.{deed}"

    async def call(args: dict[str, Any]) -> Any:
        return answered(name, args)

    effect = "reads" if reads else "writes"
    return Tool.declare(name, sentence.format(things=thing), input_schema=schema, call=call, effect=effect)


def wants(name: str, **args: str) -> AIMessage:
    return AIMessage("", finish_reason="tool_calls", tool_calls=(ToolCall("", name, args),))


SCRIPT: list[Any] = [
    wants("orders.list", customer="ada"),
    wants("orders.cancel", id="A-9"),
    wants("returns.create", for_id="A-9", reason="the customer does not want it"),
    "Order A-9 has been shipped and cannot be cancelled; return R-1 is open for it.",
]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("question", nargs="?", default=QUESTION)
    parser.add_argument("--model", metavar="MODULE:NAME", help="a model of your own in place of the script")
    given = parser.parse_args()
    model: Any = ScriptedModel(SCRIPT)
    if given.model:
        sys.path.insert(0, os.getcwd())
        module, _, name = given.model.partition(":")
        model = getattr(importlib.import_module(module), name or "model")

    registry = Registry(*(made(thing, deed) for thing in THINGS for deed in DEEDS))
    agent = create_agent(model, registry, policies=Policies(tools_shown=12))
    run = agent.invoke(given.question)

    print(f"{len(registry)} tools; {run.model_calls} questions to the model, {run.tool_calls} calls")
    if isinstance(model, ScriptedModel):
        print("shown:", ", ".join(spec["name"] for spec in model.requests[0].options["tools"]))
    for message in run.messages:
        if isinstance(message, AIMessage):
            for call in message.tool_calls:
                print(f"-> {call.name}({', '.join(f'{k}={v!r}' for k, v in call.args.items())})")
        elif isinstance(message, ToolMessage):
            print(f"{'!!' if message.failed else '<-'} {message.content}")
    print(f"{run.state}: {run.output}")
    return 0 if run.ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
