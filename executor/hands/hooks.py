"""What hooks are asked and what their answers mean: the hands' side of `Consult`.

    hook          is asked with                gives
    on_failure    the ReplanRequest            False: no re-plan; a text: a note to the planner
    on_replan     the request, the patch       False or a text: the patch is refused
    on_fallback   the ReplanRequest            False: no model takes over
    before_call   the Attempt (attempt 0)      False or a text: the call is refused; a dict: other arguments
    after_call    the Attempt, a Settled       nothing: it observes
    before_model  the history                  False: the end; messages: heard this once; Keep(messages): kept
    after_model   the AIMessage                False: the end; an AIMessage: in its place

A hook is asked once; its answer is an event and is never asked for again when the run is replayed. One that raises is
recorded and ignored, except `before_call`: a call whose hook raises or gives no answer in time is denied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...planner.models.history import Messages, spoken
from ...planner.models.messages import AIMessage, Message
from ...policies.errors import BadInput
from ...policies.failures import Failure
from ...registry.values import copy_plain, to_plain
from ..events import Outcome
from ..mind.replanning import replan_request
from ..mind.state import Consult, State
from .authorize import attempt_of

__all__ = ["HOOKS", "Keep", "Settled", "Verdict", "said_by", "subject_of"]

HOOKS = (
    "on_failure",
    "on_replan",
    "on_fallback",
    "before_call",
    "after_call",
    "before_model",
    "after_model",
)
_A_TEXT_STOPS = frozenset({"on_replan", "before_call"})


class Keep(NamedTuple):
    """What a `before_model` hook gives whose messages are to stay in the history; else they are for this call only."""

    messages: Messages


class Settled(NamedTuple):
    """How an attempt ended, as `after_call` sees it. `value` is a copy."""

    outcome: Outcome
    value: Any
    failure: Failure | None


class Verdict(NamedTuple):
    """What a hook wants, as the fields of HookAnswered."""

    answer: str = "go"
    note: str = ""
    value: dict[str, Any] | None = None


def subject_of(state: State, command: Consult) -> tuple[Any, ...]:
    """What the hook is asked with; nothing in it is shared with the run."""
    dialogue = state.dialogue
    if command.hook == "before_model" and dialogue is not None:
        return (list(dialogue.history),)
    if command.hook == "after_model" and dialogue is not None:
        return (dialogue.history[-1],)
    if command.tool is not None:
        return _call(state, command)
    request = replan_request(state)
    return (request,) if command.patch is None else (request, command.patch)


def _call(state: State, command: Consult) -> tuple[Any, ...]:
    tool, settled = command.tool, command.settled
    assert tool is not None
    number = settled.attempt if settled is not None else 0
    attempt = attempt_of(tool, command.args, state.principal, state.run, command.path, number)
    if settled is None:
        return (attempt,)
    return attempt, Settled(settled.outcome, copy_plain(settled.value), settled.failure)


def said_by(command: Consult, said: Any, history: Sequence[Message] = ()) -> Verdict:
    """What the hook's answer means, where `history` is that of the dialogue. Raises `BadInput` for what it cannot mean."""
    hook = command.hook
    if hook == "after_call":
        return _seen(command)
    if said is None or said is True:
        return Verdict()
    if said is False:
        return Verdict("stop")
    if isinstance(said, str) and hook not in ("before_model", "after_model"):
        return Verdict("stop" if hook in _A_TEXT_STOPS else "go", said)
    return Verdict(value=_instead(hook, said, history))


def _seen(command: Consult) -> Verdict:
    assert command.settled is not None
    return Verdict(value={"attempt": command.settled.attempt})


def _instead(hook: str, said: Any, history: Sequence[Message]) -> dict[str, Any] | None:
    """Other arguments, messages, or another message, as plain JSON."""
    if hook == "before_call":
        if not isinstance(said, Mapping):
            raise BadInput(
                f"before_call gives None, False, a reason or other arguments, not {type(said).__name__}"
            )
        return {"args": to_plain(dict(said))}
    if hook == "before_model":
        return _other_messages(said, history)
    if hook == "after_model":
        if not isinstance(said, AIMessage):
            raise BadInput(f"after_model gives an AIMessage or None, not {type(said).__name__}")
        return {"message": to_plain(said.to_json())}
    return None


def _other_messages(said: Any, history: Sequence[Message]) -> dict[str, Any]:
    """What is to be heard: as many messages of the history as it begins with, and what follows.

    Most hooks add to the history, and what they add is little: so a round costs the same however long the talk is.
    """
    keep = isinstance(said, Keep)
    messages: Any = said.messages if isinstance(said, Keep) else said
    begins = _alike(messages, history) if isinstance(messages, list) else 0
    added = spoken(messages[begins:] if begins else messages)
    return {"begins": begins, "messages": to_plain([m.to_json() for m in added]), "keep": keep}


def _alike(messages: list[Any], history: Sequence[Message]) -> int:
    """How many messages a list has in common with the beginning of the history."""
    if messages[: len(history)] == history:
        return len(history)
    pairs = enumerate(zip(messages, history, strict=False))
    return next(
        (place for place, (one, other) in pairs if one is not other), min(len(messages), len(history))
    )
