"""A sub-plan runs as a run of its own, in the same journal: which run that is, and what its end means for the call.

    call of a sub-plan -> child run, found again by its id -> done      ok, with its output
                                                           -> failed    one failure of the call
                                                           -> waits     its questions are asked as questions of the caller,
                                                                        and the answers handed on to it

An interrupted call is taken up again where the child stands: nothing in it is done twice.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from hashlib import sha256
from typing import Any

from ..planner.subplans import Subplan
from ..policies.errors import BadInput, JournalError
from ..policies.failures import Failure, Happened, Kind
from ..policies.policies import Policies
from ..registry.registry import Registry
from .early import EARLY
from .events import DecisionAsked, Outcome, path_text
from .hands.hands import Result
from .mind.rows import SHARED
from .mind.state import Call, State
from .run import Run
from .runtime import Answer, answer_to

__all__ = [
    "answers_for",
    "child_id",
    "child_policies",
    "end_of_child",
    "hosts_of",
    "is_child",
    "parent_of",
    "root_of",
]

_TOLD = 10
_DIGITS = 12


def child_id(call: Call) -> str:
    """The id of the run that this call is: the same for every attempt, also after a resume."""
    name = sha256(f"{call.key}\n{path_text(call.path)}".encode()).hexdigest()
    return f"{call.run}.{name[:_DIGITS]}"


def parent_of(run: str, known: Collection[str]) -> str:
    """The run, of those that are known, of which this one is a part, or "": a call of a sub-plan, or one that began early;
    a row of a batch, also where only the batch is known."""
    parent, _, name = run.rpartition(".")
    if parent in known and (len(name) == _DIGITS or _is_ordinal(name)):
        return parent
    if len(name) == _DIGITS and _is_ordinal(parent.rpartition(".")[2]) and parent_of(parent, known):
        return parent
    parent, early, number = run.rpartition(EARLY)
    return parent if early and number.isdigit() and parent in known else ""


def _is_ordinal(name: str) -> bool:
    """Whether this stands in the id of a row, behind that of its batch."""
    return name == SHARED or (name.isascii() and name.isdigit())


def root_of(run: str, known: Collection[str]) -> str:
    """The run, or batch, of which this one is a part by way of others; itself where it is none."""
    while parent := parent_of(run, known):
        run = parent
    return run


def is_child(run: str, of: str) -> bool:
    """Whether a run is the call of a sub-plan in another, by way of others too."""
    return run.startswith(f"{of}.") and len(run) > len(of) + _DIGITS


def child_policies(policies: Policies, call: Call, tools: Registry) -> Policies:
    """The rules of the caller, with the call's slice of the budget."""
    limits, hosts = policies.limits, hosts_of(tools)
    rates = limits.rates.model_copy(
        update={
            "tool": {name: rate for name, rate in limits.rates.tool.items() if name in tools},
            "host": {name: rate for name, rate in limits.rates.host.items() if name.lower() in hosts},
        }
    )
    most = {
        "tool": {name: n for name, n in limits.tool.items() if name in tools},
        "host": {name: n for name, n in limits.host.items() if name.lower() in hosts},
        "rates": rates,
    }
    return policies.model_copy(update={"budget": call.budget, "limits": limits.model_copy(update=most)})


def hosts_of(tools: Registry) -> frozenset[str]:
    """The hosts, in lower case, that these tools and those of their sub-plans state."""
    hosts = {tool.host.lower() for tool in tools if tool.host}
    for tool in tools:
        if isinstance(tool.function, Subplan):
            hosts |= hosts_of(tool.function.tools)
    return frozenset(hosts)


def answers_for(state: State, call: Call) -> dict[str, Answer | str]:
    """The answers to questions that the child still asks; an unsound one leaves its question open."""
    answers: dict[str, Answer | str] = {}
    for id_, said in call.answers.items():
        with suppress(BadInput):
            if id_ in state.decisions:
                answers[id_] = answer_to(state, state.decisions[id_], Answer(**said), call.principal)
    return answers


def end_of_child(state: State, run: Run) -> Result:
    """What the end of the child, or its waiting, is for the call. Raises `JournalError`."""
    usage = run.used.to_json()
    del usage["seconds"]  # the caller has a clock of its own
    if run.reason == "journal":
        raise JournalError(run.message)
    if run.state == "done":
        return Result(Outcome.OK, run.output, None, usage)
    if run.state == "waiting" and run.waiting:
        return Result(
            Outcome.CANCELLED, questions=tuple(_asked(run.id, decision) for decision in run.waiting)
        )
    return Result(Outcome.FAILED, None, _failure(state, run), usage)


def _asked(run: str, decision: DecisionAsked) -> dict[str, Any]:
    question = {**decision.question, "run": run, "of": decision.id}
    return {
        "id": decision.id,
        "about": decision.about,
        "options": list(decision.options),
        "question": question,
    }


def _failure(state: State, run: Run) -> Failure:
    """One failure for all that went wrong; what acted in the child has happened."""
    bound = {"bound": state.short} if run.reason == "budget" else {}
    told = [{"step": step, "kind": f.kind.value, "code": f.code} for step, f in run.failures[:_TOLD]]
    return Failure(
        Kind.BUSINESS,
        f"subplan_{run.state}",
        f"the run {run.id} of the sub-plan {run.state}: {run.message}",
        Happened.YES if state.acted else Happened.NO,
        details={"run": run.id, "reason": run.reason, "failures": told} | bound,
        untrusted=True,
        retryable=False,
    )
