"""A model in a loop with tools, as the mind sees it: rounds of calls until it answers. Pure, like the rest of the mind.

    think -> before_model -> the model -> after_model -> calls ------------> each through the guarded call
      ^                                     |                                  |
      |                                     +- an answer -> read -> the end    |
      +---- what they gave, as ToolMessages, once all of a round have ended <--+

A round's calls are steps with literal arguments, in a frame of their own, so that admission, approval, budget, retries
and unknown outcomes are those of a plan. The loop ends: after `max_rounds` (the last one is told so and makes no calls),
and one round after two failures in a row on the same thing.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from ...planner.models.messages import (
    AIMessage,
    HumanMessage,
    InvalidToolCall,
    Message,
    ToolCall,
    ToolMessage,
    message_from_json,
)
from ...planner.plan import Step
from ...planner.react import READ_RESULT, failure_text, read_final, read_part, repair_text, result_text
from ...policies.canonical import digest
from ...policies.effect import Effect
from ...policies.expressions import EvaluationError, ExpressionError
from ...policies.failures import Failure, Kind
from ...policies.retry import wait_before
from ...policies.text import count, nearest, shorten
from .. import events as e
from ..events import Outcome
from .budget import answered, charge_question, in_time, question_short_of, run_out
from .program import Block
from .state import REACT, Consult, Dialogue, Frame, Node, Part, Sleep, State, Think
from .steps import begin, give

__all__ = [
    "MODEL",
    "begin_dialogue",
    "heard",
    "hooked",
    "model_asked_again",
    "model_timer",
    "next_round",
    "unanswered",
]

MODEL = ("@model",)
_ANY_TOOL_FAILS_ALIKE = frozenset({Kind.BAD_ARGS, Kind.PERMISSION})
_CUT_OFF = "it was cut off before its end; answer again, shorter"


def begin_dialogue(state: State, spec: dict[str, Any], *more: Message) -> None:
    """Begin the loop that `spec` describes, with more to say after its own messages."""
    dialogue = state.dialogue = Dialogue(spec)
    messages = [*map(message_from_json, spec["messages"]), *more]
    dialogue.ids.update(message.id for message in messages if message.id is not None)
    for message in messages:
        _say(dialogue, message)
    _think(state, dialogue)


def next_round(state: State) -> bool:
    """At rest: once all calls of a round have ended, tell the model. False where there is nothing to tell."""
    dialogue = state.dialogue
    if dialogue is None or dialogue.frame is None or dialogue.frame.left:
        return False
    _told(dialogue)
    _think(state, dialogue)
    return True


def _think(state: State, dialogue: Dialogue) -> None:
    """Ask the model, within the budget; the hook before it comes first."""
    short = question_short_of(state, 1)
    if short:
        run_out(state, short)
        return
    dialogue.round += 1
    charge_question(state, 1)
    dialogue.heard_instead = None
    if "before_model" in state.hooks:
        give(state, "hook", Consult("before_model"))
    else:
        give(state, "model", Think(dialogue.round))


def hooked(state: State, event: e.HookAnswered) -> None:
    """What a hook around the model answered: other messages for this once, or another answer."""
    dialogue = state.dialogue
    assert dialogue is not None
    if event.answer == "stop":
        _give_up(dialogue, event.note or f"the {event.hook} hook stopped it")
        dialogue.done = True
    elif event.hook == "before_model":
        _take_messages(dialogue, event.value)
        give(state, "model", Think(dialogue.round))
    else:
        message = dialogue.history[-1]
        if event.value is not None:
            message = _instead(dialogue, event.value["message"])
        _act(state, dialogue, message)


def _instead(dialogue: Dialogue, document: dict[str, Any]) -> Message:
    """The answer that a hook puts in the place of the model's, under the same id."""
    old, answer = dialogue.history.pop(), message_from_json(document)
    assert isinstance(old, AIMessage)
    assert isinstance(answer, AIMessage)
    dialogue.called.difference_update(_ids(old))
    _say(dialogue, replace(_with_ids(dialogue, answer), id=old.id))
    return dialogue.history[-1]


def _take_messages(dialogue: Dialogue, said: dict[str, Any] | None) -> None:
    """What a hook wants heard: the history's beginning, and messages of its own after it."""
    if said is None:
        return
    added = [message_from_json(document) for document in said["messages"]]
    if said["keep"]:
        del dialogue.history[said["begins"] :]
        for message in added:
            _say(dialogue, message)
    else:
        dialogue.heard_instead = [*dialogue.history[: said["begins"]], *added]


def heard(state: State, event: e.ModelAnswered) -> None:
    """The model answered, or failed: then it is asked again as the policy for retries says."""
    dialogue = state.dialogue
    assert dialogue is not None
    del state.open["model"]
    answered(state, event.usage, 1)
    if event.failure is not None:
        _model_failed(state, dialogue, event, event.failure)
        return
    dialogue.attempts = 0
    assert event.said is not None
    message = message_from_json(event.said)
    assert isinstance(message, AIMessage)
    _say(dialogue, _with_ids(dialogue, message))
    if "after_model" in state.hooks:
        give(state, "hook", Consult("after_model"))
    else:
        _act(state, dialogue, dialogue.history[-1])


def _with_ids(dialogue: Dialogue, message: AIMessage) -> AIMessage:
    """The message with an id of its own for each call: services leave them out, and give one twice."""
    ids = _ids(message)
    if all(ids) and len(set(ids)) == len(ids) and dialogue.called.isdisjoint(ids):
        return message
    fresh = (f"r{dialogue.round}c{n}" for n in itertools.count())
    unused = (id for id in fresh if id not in dialogue.called)
    calls = tuple(replace(call, id=next(unused)) for call in message.tool_calls)
    invalid = tuple(replace(call, id=next(unused)) for call in message.invalid_calls)
    return replace(message, tool_calls=calls, invalid_calls=invalid)


def _ids(message: AIMessage) -> list[str]:
    return [*(call.id for call in message.tool_calls), *(call.id for call in message.invalid_calls)]


def _model_failed(state: State, dialogue: Dialogue, event: e.ModelAnswered, failure: Failure) -> None:
    dialogue.attempts += 1
    wait = wait_before(
        state.policies.retry, dialogue.attempts, failure=failure, effect=Effect.READS, dice=event.dice
    )
    if wait is None or state.stopping or not in_time(state, event.at + wait):
        tries = f" ({count(dialogue.attempts, 'attempt')})" if dialogue.attempts > 1 else ""
        _give_up(dialogue, f"the model failed{tries}: {failure.message}")
        dialogue.done = True
    else:
        dialogue.round -= 1
        give(state, MODEL, Sleep(MODEL, event.at + wait))


def model_asked_again(state: State) -> None:
    """A process takes the run up: a question to the model that was lost is asked once more, and charged once more."""
    if "model" in state.open:
        short = question_short_of(state, 1)
        if short:
            del state.open["model"]
            run_out(state, short)
        else:
            charge_question(state, 1)


def model_timer(state: State) -> None:
    """The wait before the model is asked again is over."""
    assert state.dialogue is not None
    _think(state, state.dialogue)


# ---------------------------------------------------------------------------------------------- what the model wants


def _act(state: State, dialogue: Dialogue, message: Message) -> None:
    """Make its calls, or take its answer."""
    assert isinstance(message, AIMessage)
    calls: tuple[ToolCall | InvalidToolCall, ...] = (*message.tool_calls, *message.invalid_calls)
    if calls and not dialogue.last:
        _open_round(state, dialogue, calls)
    elif calls:
        dialogue.asked = [(call, None, _too_late()) for call in calls]
        _told(dialogue)
        _give_up(dialogue, f"it still made calls in the last of {count(dialogue.round, 'round')}")
        dialogue.value, dialogue.done = message.content or None, True
    elif message.finish_reason == "length":
        _once_more(state, dialogue, _CUT_OFF, None)
    elif dialogue.must_call and dialogue.round == 1:
        _once_more(state, dialogue, "a tool must be called first", None)
    else:
        value, problem = read_final(message, dialogue.response_format)
        if problem:
            _once_more(state, dialogue, problem, message.content)
        else:
            dialogue.value, dialogue.done = value, True


def _once_more(state: State, dialogue: Dialogue, problem: str, so_far: Any) -> None:
    """An answer that does not do goes back with what is wrong, within bounds."""
    if dialogue.repairs >= state.policies.max_repairs or dialogue.last:
        _give_up(dialogue, f"no usable answer after {count(dialogue.round, 'round')}: {problem}")
        dialogue.value, dialogue.done = so_far, True
        return
    dialogue.repairs += 1
    _say(dialogue, HumanMessage(repair_text(problem)))
    _think(state, dialogue)


def _open_round(state: State, dialogue: Dialogue, calls: tuple[ToolCall | InvalidToolCall, ...]) -> None:
    """The calls of one answer become steps of a frame; one that names no tool is answered without."""
    steps: list[Step] = []
    dialogue.asked = []
    for place, call in enumerate(calls):
        part = _part(dialogue, call)
        failure = _unmakable(state, dialogue, call) if part is None else None
        if part is not None:
            dialogue.asked.append((call, None, part))
        elif failure is None and isinstance(call, ToolCall):
            id_ = f"c{place}"
            name = dialogue.name_of(call.name)
            steps.append(Step(id=id_, tool=name, args={"$literal": dict(call.args)}, on_failure="skip"))
            dialogue.asked.append((call, id_, None))
        else:
            dialogue.asked.append((call, None, failure))
    dialogue.frame = Frame(Block(steps, state.tools, {}), (REACT, dialogue.round))
    begin(state, dialogue.frame)


def _part(dialogue: Dialogue, call: ToolCall | InvalidToolCall) -> Part | Failure | None:
    """What a model reads of a result that was cut; None where it wants something else."""
    if not isinstance(call, ToolCall) or call.name != READ_RESULT or not dialogue.large:
        return None
    of, path = call.args.get("of"), call.args.get("path", "result")
    if not isinstance(of, str) or of not in dialogue.large or not isinstance(path, str):
        known = ", ".join(dialogue.large)
        return Failure(
            Kind.BAD_ARGS, "unknown_result", f"`of` is the id of a call whose result was cut: {known}"
        )
    try:
        return Part(read_part(dialogue.large[of], path))
    except ExpressionError as error:
        return Failure(Kind.BAD_ARGS, "bad_path", str(error))
    except EvaluationError as error:
        return Failure(Kind.BAD_ARGS, "bad_path", str(error), details={"plain": error.message})


_NO_SUCH_TOOL = "call one of the tools that are offered, by its exact name"


def _unmakable(state: State, dialogue: Dialogue, call: ToolCall | InvalidToolCall) -> Failure | None:
    if isinstance(call, InvalidToolCall):
        return Failure(Kind.BAD_ARGS, "invalid_call", call.error)
    if dialogue.name_of(call.name) in dialogue.tools:
        return None
    near = nearest(call.name, dialogue.tools)
    guess = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    message = f"no tool is called {shorten(repr(call.name), 80)}{guess}"
    return Failure(Kind.BAD_ARGS, "unknown_tool", message, hint=_NO_SUCH_TOOL, retryable=False)


def _too_late() -> Failure:
    message = "no calls can be made in the last round"
    return Failure(
        Kind.PERMISSION, "last_round", message, hint="answer with what is known, and say what is missing"
    )


# ---------------------------------------------------------------------------------------------- what the calls gave


def _told(dialogue: Dialogue) -> None:
    """Answer every call of the round, in the model's order, and notice what fails again and again."""
    failing: dict[str, tuple[str, str]] = {}
    for call, id_, known in dialogue.asked:
        node = dialogue.frame.nodes[id_] if id_ is not None and dialogue.frame is not None else None
        text, failed, cut = _gave(call, node, known)
        if cut and node is not None:
            dialogue.large[call.id] = node.value
        _say(dialogue, ToolMessage(text, call.id, name=call.name, failed=failed is not None))
        if failed is not None:
            failing[_thing(call, failed)] = (f"{call.name!r} failed twice in a row", failed.message)
    repeated = [said for thing, said in failing.items() if thing in dialogue.failing]
    dialogue.failing = frozenset(failing)
    dialogue.asked, dialogue.frame = [], None
    if repeated:
        dialogue.notice, message = repeated[0]
        _give_up(dialogue, f"{dialogue.notice}: {message}")


def _gave(
    call: ToolCall | InvalidToolCall,
    node: Node | None,
    known: Failure | Part | None,
    *,
    ended: bool = True,
) -> tuple[str, Failure | None, bool]:
    """What the model hears of a call, the failure if it is one, and whether it is only the beginning."""
    if isinstance(known, Part):
        return result_text(known.value)[0], None, False
    if node is None or node.outcome is not Outcome.OK:
        said = known or (node.failure if node is not None else None) or _cut_short(ended)
        return failure_text(said), said, False
    text, cut = result_text(node.value, call.id)
    return text, None, cut


def _cut_short(ended: bool) -> Failure:
    said = "the run ended before this call was answered" if ended else "this call is not answered yet"
    return Failure(Kind.TIMEOUT, "not_made", said)


def _thing(call: ToolCall | InvalidToolCall, failure: Failure) -> str:
    """What fails again: a tool for what no other argument mends, else the very same call."""
    if failure.kind in _ANY_TOOL_FAILS_ALIKE or isinstance(call, InvalidToolCall):
        return f"{call.name} {failure.kind}"
    return f"{call.name} {digest(dict(call.args))}"


def unanswered(dialogue: Dialogue, *, ended: bool) -> list[ToolMessage]:
    """Answers to the calls under way, for a history that ends here: what is known of each so far."""
    messages = []
    for call, id_, known in dialogue.asked:
        node = dialogue.frame.nodes[id_] if id_ is not None and dialogue.frame is not None else None
        text, failed, _ = _gave(call, node, known, ended=ended)
        messages.append(ToolMessage(text, call.id, name=call.name, failed=failed is not None))
    return messages


def _say(dialogue: Dialogue, message: Message) -> None:
    dialogue.add(message)


def _give_up(dialogue: Dialogue, why: str) -> None:
    dialogue.over = dialogue.over or why
