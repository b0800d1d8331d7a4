"""What the stages of the guarded call cost: `each` of 5,000 with all of them on, beside schema and journal alone.

Both sides write the same SQLite journal, validate arguments and results, and check, compile and review nothing twice. `all`
has on top: permissions by role, a level, an `authorize` hook that is asked at each call, a secret resolved and injected at
each call and looked for in each result, rates for tool, host and principal, caps for tool and host, a breaker, and a
budget for everything. The other rows switch on one of these each. CPU time of this process (all threads), median of the
repeats, taken in turn within one run.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import anyio
from overhead import Point, each_plan, run_whole
from results import Figures, Found, Options, Target, cpu, median

from foreplan import Effect, Engine, MappingSecrets, Plan, Policies, Principal, Secret, SqliteJournal, tool

N = 5_000
MOST = 10**9


@tool(effect=Effect.READS)
async def work(a: int, b: int, label: str) -> Point:
    """Adds two numbers under a label."""
    return {"total": a + b, "label": label}


@tool(effect=Effect.READS, name="permitted", permissions=["math:add"], level="medium")
async def permitted(a: int, b: int, label: str) -> Point:
    """Adds two numbers under a label."""
    return {"total": a + b, "label": label}


@tool(effect=Effect.READS, name="secretive", secret_refs={"token": "TOKEN"})
async def secretive(a: int, b: int, label: str, token: Secret) -> Point:
    """Adds two numbers under a label."""
    return {"total": a + b, "label": label}


@tool(effect=Effect.READS, name="hosted", host="api.example.com")
async def hosted(a: int, b: int, label: str) -> Point:
    """Adds two numbers under a label."""
    return {"total": a + b, "label": label}


@tool(
    effect=Effect.READS,
    name="guarded",
    permissions=["math:add"],
    level="medium",
    host="api.example.com",
    cost=0.001,
    secret_refs={"token": "TOKEN"},
)
async def guarded(a: int, b: int, label: str, token: Secret) -> Point:
    """Adds two numbers under a label."""
    return {"total": a + b, "label": label}


TOOLS = [work, permitted, secretive, hosted, guarded]
SECRETS = MappingSecrets({"TOKEN": "correct-horse-battery"})
ADDER = Principal(id="ada", roles=("adder",))
ROLES: dict[str, Any] = {"roles": {"adder": ["math:*"]}, "max_level": "high"}


def budget(name: str) -> dict[str, Any]:
    bounds = {"tool_calls": MOST, "model_calls": MOST, "tokens": MOST, "cost": MOST, "seconds": MOST}
    return {"budget": {**bounds, "tools": {name: MOST}}}


def limits(name: str) -> dict[str, Any]:
    rate = {"calls": MOST, "seconds": 1.0}
    rates = {"tool": {name: rate}, "host": {"api.example.com": rate}, "principal": rate}
    caps = {"tool": {name: 64}, "host": {"api.example.com": 64}}
    return {"limits": {**caps, "rates": rates, "breaker": {"failures": 5}}}


def allow(attempt: Any) -> bool:
    return True


async def allow_async(attempt: Any) -> bool:
    return True


CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "schema and journal": ("work", {}, {}),
    "permissions, level": ("permitted", ROLES, {"principal": ADDER}),
    "authorize": ("work", {}, {"authorize": allow_async}),
    "secret": ("secretive", {}, {"secrets": SECRETS}),
    "limits": ("hosted", limits("hosted"), {}),
    "budget": ("work", budget("work"), {}),
    "all": (
        "guarded",
        {**ROLES, **limits("guarded"), **budget("guarded")},
        {"principal": ADDER, "authorize": allow_async, "secrets": SECRETS},
    ),
    "all, authorize in a thread": (
        "guarded",
        {**ROLES, **limits("guarded"), **budget("guarded")},
        {"principal": ADDER, "authorize": allow, "secrets": SECRETS},
    ),
}
"""By name: the tool, the policies, the options of the engine."""


async def once(name: str, plans: dict[str, Plan], folder: Path) -> float:
    tool_name, rules, options = CASES[name]
    with SqliteJournal(folder / f"{abs(hash(name))}.db") as journal:
        engine = Engine(TOOLS, policies=Policies(**rules), journal=journal, **options)
        engine.check(plans[tool_name])
        return await cpu(lambda: run_whole(engine, plans[tool_name])) / N * 1e6


async def _measured(options: Options) -> Figures:
    plans = {each.name: each_plan(N, each.name) for each in TOOLS}
    taken: dict[str, list[float]] = {name: [] for name in CASES}
    for turn in range(options.repeats + 1):
        for name in CASES:
            with tempfile.TemporaryDirectory() as folder:
                spent = await once(name, plans, Path(folder))
            if turn:
                taken[name].append(spent)
    return {name: median(found) for name, found in taken.items()}


def measure(options: Options) -> Found:
    found = anyio.run(_measured, options, backend=options.backend)
    plain = found["schema and journal"]
    figures = {name: {"cpu_us": round(us, 1), "x_plain": round(us / plain, 2)} for name, us in found.items()}
    whole = found["all"] / plain
    return Found(figures, [Target("all stages beside schema and journal", 2.0, round(whole, 2), "x")])
