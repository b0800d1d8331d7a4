"""Which limits hold for the calls of one tool, as data: what `foreplan tools` and the review show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..policies.pace import Rules, rules_for
from ..policies.permissions import ANYONE, Principal
from ..policies.policies import Policies
from ..registry.tools import Tool

__all__ = ["limits_of", "limits_text", "rules_of"]


def rules_of(tool: Tool, principal: Principal, policies: Policies) -> Rules:
    """What bounds the calls of a tool. The call of a plan takes no place of a host: the calls inside it do."""
    direct = tool.answered_by == "code"
    return rules_for(tool.name, tool.host, principal.id, policies, direct=direct)


def limits_of(tool: Tool, policies: Policies) -> dict[str, Any]:
    """The limits that hold for this tool beside those of the whole run, as plain JSON; empty where there are none.

    `at_once` by run (the calls of this tool in one run) and by host; `rates` by tool, host and principal; `breaker`.
    """
    rules = rules_of(tool, ANYONE, policies)
    most = policies.limits.tool.get(tool.name)
    at_once = {"run": most, "host": rules.cap or None}
    breaker = rules.breaker.model_dump(mode="json") if rules.breaker is not None else None
    said = {
        "host": tool.host,
        "at_once": {name: n for name, n in at_once.items() if n is not None},
        "rates": {key.what: rate.text for key, rate in rules.windows},
        "breaker": breaker,
    }
    return {name: value for name, value in said.items() if value}


def limits_text(limits: Mapping[str, Any]) -> list[str]:
    """The same in words, a phrase each: `at most 8 at once on api.example`, `at most 10/s on api.example`."""
    host = limits.get("host", "")
    where = {
        "run": "in this run",
        "host": f"on {host}",
        "tool": "of this tool",
        "principal": "of this principal",
    }
    said = [f"at most {n} at once {where[what]}" for what, n in limits.get("at_once", {}).items()]
    said += [f"at most {rate} {where[what]}" for what, rate in limits.get("rates", {}).items()]
    if breaker := limits.get("breaker"):
        kinds = " or ".join(breaker["kinds"])
        said.append(
            f"left alone for {breaker['seconds']:g} s after {breaker['failures']} {kinds} failures in a row"
        )
    return said
