"""Which calls a person must see, what is asked, and what an answer makes of the call. Pure, like the rest of the mind.

call -> asks? -> a question with an id of its own -> approve -> exactly what was shown is admitted and made
                                                  -> reject  -> `permission` failure; the same call is not made again
                                                  -> edit    -> other arguments, admitted from the start; another tool
                                                                that asks too is asked about by an id of its own
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from ...planner.approvals import asks_for, asks_in_dialogue, gated
from ...policies.canonical import canonical
from ...policies.effect import Effect
from ...policies.errors import BadInput
from ...policies.failures import Failure, Happened, Kind
from ...policies.permissions import Principal
from ...policies.policies import Policies
from ...policies.text import did_you_mean, shorten
from ...registry.tools import Tool
from ...registry.values import copy_plain
from .. import events as e
from ..events import Path, path_text
from .admission import Admission, judged, permission
from .state import REACT, Active, State, Write
from .steps import give

__all__ = [
    "CALL",
    "FORK",
    "Edit",
    "asks_again",
    "contract_of",
    "differs",
    "digest_of",
    "must_ask",
    "put_question",
    "read_edit",
    "rejected_before",
    "unused",
]

_ACTS = Effect.ACTS
FORK = "@fork"
"""What the paths of calls begin with that were made in the run from which this one was forked; its id follows."""
CALL = ("approve", "reject", "edit")
"""What can be answered about a call that waits for a person."""


def digest_of(args: Mapping[str, Any] | None) -> str:
    """The digest of the arguments of a call."""
    return sha256(canonical(args)).hexdigest()


# ---------------------------------------------------------------------------------------------- whether to ask


def must_ask(state: State, active: Active) -> str:
    """Why a person must see this very call, if one must."""
    lane, tool, why = active.lane, active.tool, ""
    if active.path[0] == REACT:
        why = asks_in_dialogue(tool, state.policies, active.args)
    elif tool.requires_approval:
        why = asks_for(tool, active.args)
    code = lane.node.code
    if not why and (code.asks if lane.undoes is None else lane.undoes[active.index].asks):
        why = f"{tool.name!r} asks before each call"
    return why or _repeats(state, active)


def asks_again(state: State, active: Active, before: Tool) -> str:
    """Why a person must be asked about an edited call, whose editor has seen it: about another tool, or a repetition."""
    why = gated(active.tool, state.policies, active.args) if active.tool is not before else ""
    return why or _repeats(state, active)


def _repeats(state: State, active: Active) -> str:
    """What makes a call a matter for a person because of what was before it."""
    path, name, data = active.path, active.tool.name, active.args_digest
    made = state.acted.get((name, data)) if active.tool.effect is _ACTS else None
    if made:
        approved = state.approved.by_id if state.approved is not None and in_approved(state, path) else {}
        for before in made:
            if before[0] not in approved:
                return f"the same call was already made as {_place(before)}"
    said = state.rejected.get((name, data)) if state.rejected else None
    if said is not None:
        return f"the same call was refused as {path_text(said.path)} in this run"
    by = state.edited.get(path[:-1]) if active.lane.undoes is not None else None
    return f"{by} changed the call that this takes back" if by is not None else ""


def _place(path: Path) -> str:
    if path[0] == FORK:
        return f"{path_text(path[2:])} in run {path[1]}, from which this one was forked"
    return f"{path_text(path)} in this run"


def in_approved(state: State, path: Path) -> bool:
    """Whether the step that this path leads to stands in the plan as it was first accepted."""
    return state.approved is not None and path[0] in state.approved.by_id


def rejected_before(state: State, active: Active) -> Failure | None:
    """The failure of a call that a person refused before; where the approved plan holds both, people are asked again."""
    said = state.rejected.get((active.tool.name, active.args_digest))
    if said is None or (in_approved(state, said.path) and in_approved(state, active.path)):
        return None
    message = f"the same call was refused before, as {path_text(said.path)}: {said.message}"
    return Failure(Kind.PERMISSION, "rejected", message)


def contract_of(failure: Failure) -> Mapping[str, Any] | None:
    """What differs of a tool that was not called because it changed, and that a person may accept; else None."""
    if failure.code != "contract_changed" or failure.happened is not Happened.NO:
        return None
    said = (failure.details or {}).get("contract")
    return said if isinstance(said, Mapping) and isinstance(said.get("pin"), str) else None


# ---------------------------------------------------------------------------------------------- the question


def put_question(
    state: State, about: str, active: Active, options: tuple[str, ...], more: Mapping[str, Any]
) -> None:
    """Ask about a call, by an id that no question of this run had before; what is shown is a copy."""
    path = active.path
    id_ = unused(state, f"{path_text(path)}:{about}:{active.attempt}")
    shown = {"tool": active.tool.name, "args": copy_plain(active.args), "digest": active.args_digest}
    question = {**shown, "key": active.key, **more}
    give(state, path, Write(e.DecisionAsked, (id_, about, path, options, question)))


def unused(state: State, id_: str) -> str:
    """This id, or one like it where it was used: an answer must never go to another question than it was meant for."""
    fresh, n = id_, 1
    while fresh in state.asked:
        n += 1
        fresh = f"{id_}~{n}"
    state.asked.add(fresh)
    return fresh


def differs(active: Active, question: Mapping[str, Any]) -> str:
    """Why an answer to this question cannot mean this call: what was shown is not what would be made."""
    try:
        same = question["tool"] == active.tool.name and digest_of(question["args"]) == active.args_digest
    except Exception:  # whatever stands there in place of arguments
        same = False
    return "" if same else f"what was shown of {path_text(active.path)} is not the call that would be made"


# ---------------------------------------------------------------------------------------------- the edit


class Edit(NamedTuple):
    """What a person wants called instead."""

    tool: Tool
    admission: Admission


def read_edit(
    value: Any, asked: str, tools: Mapping[str, Tool], principal: Principal, policies: Policies
) -> Edit:
    """The edit of a call of the tool `asked`, as `{"args": {...}}`, with `tool` where it is to be another of these.

    It goes through the stages of admission; whether it is within them stands in the result. Raises `BadInput` where it
    is no edit, or names no tool that may be called.
    """
    if not isinstance(value, Mapping) or not isinstance(value.get("args"), Mapping):
        form = '{"args": {...}}, with all arguments of the call'
        raise BadInput(f"an edit is written {form}, not {shorten(repr(value), 60)}")
    for name in value.keys() - {"args", "tool"}:
        guess = did_you_mean(str(name), ("args", "tool")) or "; there are args and tool"
        raise BadInput(f"an edit has no part {shorten(repr(name), 60)}{guess}")
    name = value.get("tool", asked)
    tool = tools.get(name) if isinstance(name, str) else None
    if tool is None:
        permitted = [n for n, known in tools.items() if permission(principal, policies, known) is None]
        guess = did_you_mean(str(name), permitted)
        raise BadInput(f"no tool of this run is called {shorten(repr(name), 60)}{guess}")
    if tool.answered_by == "person":
        raise BadInput(f"a call cannot become a question: {name!r} is answered by a person")
    args = copy_plain(dict(value["args"]))
    return Edit(tool, judged(permission(principal, policies, tool), tool, args))
