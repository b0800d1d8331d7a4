"""*Admit*: the first half of the guarded call, decided by the mind before anything is begun.

    look up -> level, static permission -> decode and schema -> schema of the result -> flow -> approval -> budget reserved

Each stage takes the state, the tool and the arguments and gives a `Failure` where the call must not be; the order is
fixed, and every call of every path goes through it. The budget is reserved by the mind when it makes room for a call.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ...policies.errors import SchemaRefused
from ...policies.failures import Failure, Happened, Kind
from ...policies.permissions import Principal, may_not
from ...policies.policies import Policies
from ...registry.decoding import decode
from ...registry.schema import Problem
from ...registry.tools import Tool, result_schema
from ..events import HookAnswered
from .state import State

__all__ = [
    "Admission",
    "admit",
    "admit_decoded",
    "interrupted",
    "judged",
    "out_of_time",
    "permission",
    "refused",
]

_new = tuple.__new__
"""Makes a named tuple in a third of the time; all its fields have to be given."""
_MISFIT = "invalid_arguments"


def permission(principal: Principal, policies: Policies, tool: Tool) -> Failure | None:
    """Whether the policy lets anyone call the tool, and the principal holds what it needs."""
    most = policies.max_level
    if most is not None and tool.level.above(most):
        message = f"{tool.name!r} is of level {tool.level.value}, and the policy allows {most.value} at most"
        return Failure(Kind.PERMISSION, "level_too_high", message)
    why = may_not(principal, tool.permissions, policies.roles) if tool.permissions else ""
    if not why:
        return None
    return Failure(Kind.PERMISSION, "not_permitted", f"{principal.id!r} may not call {tool.name!r}: {why}")


def schema(tool: Tool, args: dict[str, Any]) -> Failure | None:
    """Whether the arguments are what the tool declares."""
    if tool.input.accepts(args):
        return None
    problems = tool.input.problems(args)
    if not problems:
        return None
    return Failure(
        Kind.BAD_ARGS,
        _MISFIT,
        f"{tool.name!r} does not take these arguments: {_sentence(problems)}",
        details={"problems": [{"pointer": p.pointer, "rule": p.rule} for p in problems]},
    )


def secret(tool: Tool, args: dict[str, Any]) -> Failure | None:
    """Whether someone gives an argument that only the engine fills."""
    if not tool.secret_refs or tool.secret_refs.keys().isdisjoint(args):
        return None
    names = ", ".join(repr(name) for name in tool.secret_refs if name in args)
    message = f"the engine fills {names} of {tool.name!r} with a secret; leave it out"
    return Failure(Kind.BAD_ARGS, "secret_argument", message)


def promised(tool: Tool, args: dict[str, Any]) -> Failure | None:
    """Whether what the arguments say of the result is a schema, and no hostile one."""
    if not tool.result_from:
        return None
    try:
        result_schema(tool, args)
    except SchemaRefused as error:
        message = f"{tool.name!r} cannot give such a result: {error}"
        return Failure(Kind.BAD_ARGS, "schema_refused", message)
    return None


def flow(tool: Tool, args: dict[str, Any]) -> Failure | None:
    """Which values may reach which arguments: no rule is built yet, so none denies."""
    return None


def admit(state: State, tool: Tool, args: dict[str, Any]) -> Failure | None:
    """The stages before approval, in their order; None means that the call may be."""
    return _denied(state, tool) or fitting(tool, args)


def _denied(state: State, tool: Tool) -> Failure | None:
    """The first stage: asked once per tool, and anew when the run is resumed."""
    try:
        return state.denied[tool.name]
    except KeyError:
        denied = state.denied[tool.name] = permission(state.principal, state.policies, tool)
        return denied


def fitting(tool: Tool, args: dict[str, Any]) -> Failure | None:
    """Whether the tool takes these arguments, whoever calls it."""
    if not tool.secret_refs and not tool.result_from:  # most tools have neither
        return schema(tool, args) or flow(tool, args)
    return secret(tool, args) or schema(tool, args) or promised(tool, args) or flow(tool, args)


class Admission(NamedTuple):
    """Arguments as they are judged and sent, where JSON was read out of a text of theirs, and why they must not be."""

    args: dict[str, Any]
    decoded: tuple[str, ...] = ()
    failure: Failure | None = None


def admit_decoded(state: State, tool: Tool, args: dict[str, Any]) -> Admission:
    """The same stages; arguments that do not fit are decoded once, where they hold JSON as text, and judged again."""
    return judged(_denied(state, tool), tool, args)


def judged(denied: Failure | None, tool: Tool, args: dict[str, Any]) -> Admission:
    """The stages after the first, which gave `denied`."""
    failure = denied or fitting(tool, args)
    if failure is None or failure.code != _MISFIT:
        return _new(Admission, (args, (), failure))
    decoded = decode(tool.input, args)
    if not decoded.places:
        return Admission(args, (), failure)
    return Admission(decoded.value, decoded.places, fitting(tool, decoded.value))


def refused(decision: str, by: str, reason: str, *, what: str = "this call") -> Failure:
    """The failure of a call that a person refused."""
    why = f": {reason}" if reason else ""
    return Failure(Kind.PERMISSION, "rejected", f"{by} refused {what}{why}", details={"decision": decision})


def hook_refused(event: HookAnswered) -> Failure:
    """The failure of a call that the hook before it stopped, or at which that hook raised: it fails closed."""
    if event.failure is None:
        message = event.note or "the before_call hook refused this call"
        return Failure(Kind.PERMISSION, "refused_by_hook", message)
    said = f"the before_call hook raised {event.failure.exception or 'an exception'}, so the call is denied"
    return Failure(Kind.PERMISSION, "policy_unavailable", said)


def interrupted() -> Failure:
    """The failure of an attempt whose process ended under it."""
    return Failure(
        Kind.TIMEOUT,
        "interrupted",
        "the process ended while this call was under way",
        happened=Happened.MAYBE,
    )


def out_of_time() -> Failure:
    """Why an attempt was not begun that waited until the run's time was over; the run stops."""
    message = "the seconds of the budget are over, so nothing more is begun"
    return Failure(Kind.TIMEOUT, "out_of_time", message)


def _sentence(problems: list[Problem]) -> str:
    first = "; ".join(f"{p.pointer or 'the whole'}: {p.message}" for p in problems[:3])
    return first if len(problems) <= 3 else f"{first}; and {len(problems) - 3} more"
