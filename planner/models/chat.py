"""The one method a model has, and the one place from which models are asked.

    class Mine:                                              # a model of your own
        async def agenerate(self, messages, *, tools=None, response_format=None, config=None):
            said = await my_service([m.to_json() for m in messages])
            return AIMessage(said.text, usage={"input_tokens": said.read, "output_tokens": said.written})

`no_real_models()` makes it impossible to ask a real model by accident, in tests above all: only models that say
`real = False` (scripts, recordings) are asked then. The environment variable FOREPLAN_NO_REAL_MODELS=1 does the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, Protocol, TypeAlias

from ...policies.errors import BadInput
from ...policies.text import shorten
from .messages import AIMessage, Message

__all__ = [
    "Around",
    "ChatModel",
    "Turn",
    "account_of",
    "around",
    "ask_model",
    "asked_in_turn",
    "asked_under",
    "expect_models",
    "may_wait",
    "models_in",
    "name_of",
    "no_real_models",
    "passed_over",
    "turn_of",
]

_FORBIDDEN: ContextVar[bool] = ContextVar("foreplan_no_real_models", default=False)
_VARIABLE = "FOREPLAN_NO_REAL_MODELS"


class ChatModel(Protocol):
    """Messages in, one message out.

    `tools` are tools the model may call, each `{"name", "description", "parameters": JSON Schema}`. `response_format`
    is a JSON Schema that the answer should fit; a model that cannot be held to one may ignore it. One of type string that
    has `x-grammar` is for an answer that is no JSON, with its grammar in GBNF for those who take one. An option is passed
    only when it is set. What a model raises reaches the caller as it is. A model may also have `astream` of the same
    arguments, which yields `AIMessageChunk`s.
    """

    async def agenerate(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        response_format: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> AIMessage: ...


@contextmanager
def no_real_models() -> Iterator[None]:
    """While this is open, a real model is not asked: whoever tries gets `BadInput`."""
    token = _FORBIDDEN.set(True)
    try:
        yield
    finally:
        _FORBIDDEN.reset(token)


Around: TypeAlias = Callable[
    [object, Sequence[Message], float | None], AbstractContextManager[Callable[[AIMessage], None]]
]
"""What stands around a question to a model: opened with the model, the messages and how many seconds the question has waited
for its turn (None: it has none, for the model asks others), it is given the answer."""

_AROUND: ContextVar[Around | None] = ContextVar("foreplan_around_models", default=None)


@contextmanager
def asked_under(watching: Around) -> Iterator[None]:
    """While this is open, `watching` stands around each question that is asked in this task and those it starts."""
    token = _AROUND.set(watching)
    try:
        yield
    finally:
        _AROUND.reset(token)


def around(
    model: object, messages: Sequence[Message], waited: float | None
) -> AbstractContextManager[Callable[[AIMessage], None]]:
    """What stands around this question."""
    watching = _AROUND.get()
    return nullcontext(_unheard) if watching is None else watching(model, messages, waited)


def _unheard(answer: AIMessage) -> None:
    """Nobody listens."""


Turn: TypeAlias = Callable[[object], AbstractAsyncContextManager[float]]
"""What a question to this model goes through: opened when it is its turn, with the seconds that it has waited."""

_TURN: ContextVar[Turn | None] = ContextVar("foreplan_turns_of_models", default=None)
_WAITS: ContextVar[bool] = ContextVar("foreplan_waits_for_turns", default=True)


@contextmanager
def asked_in_turn(turn: Turn) -> Iterator[None]:
    """While this is open, each question that is asked in this task and those it starts waits for its turn; also where
    whoever began all this has another model to ask."""
    token, waits = _TURN.set(turn), _WAITS.set(True)
    try:
        yield
    finally:
        _WAITS.reset(waits)
        _TURN.reset(token)


def turn_of(model: object) -> AbstractAsyncContextManager[float | None]:
    """The turn of a question to this model; none where it only asks others, or nobody gives turns."""
    turn = _TURN.get()
    return nullcontext() if turn is None or getattr(model, "asks_others", False) else turn(model)


@contextmanager
def passed_over(*, unless: bool) -> Iterator[None]:
    """While this is open, a model that would have to be waited for raises at once, for there is another; not if `unless`."""
    before = _WAITS.get()
    _WAITS.set(before if unless else False)
    try:
        yield
    finally:
        _WAITS.set(before)  # and no reset: a stream may be closed from elsewhere


def may_wait() -> bool:
    """Whether a question asked here may wait for its turn."""
    return _WAITS.get()


def name_of(model: object) -> str:
    """The name under which limits know a model: its `model` or its `name`, that of the model inside, else its class."""
    for said in (getattr(model, "model", None), getattr(model, "name", None)):
        if isinstance(said, str) and said:
            return said
    inside = next(iter(models_in(model)), None)
    return name_of(inside) if inside is not None else type(model).__name__


def account_of(model: object) -> str:
    """What tells models of one name apart: its `account`, or that of the model inside from which it has its name."""
    said = getattr(model, "account", None)
    if said is not None:
        return str(said)
    inside = next((other for other in models_in(model) if name_of(other) == name_of(model)), None)
    return account_of(inside) if inside is not None else ""


def models_in(model: object) -> Iterator[object]:
    """The models that a model says it asks: one as its `model`, or several as `models`."""
    several = getattr(model, "models", ())
    for inside in (getattr(model, "model", None), *(several if isinstance(several, tuple | list) else ())):
        if not isinstance(inside, type) and callable(getattr(inside, "agenerate", None)):
            yield inside


def expect_models(*models: object) -> None:
    """Raises `BadInput` for what cannot be asked: its name instead of a model, most of all."""
    for model in models:
        if isinstance(model, type) or not callable(getattr(model, "agenerate", None)):
            said = shorten(repr(model), 60)
            raise BadInput(
                f"a model is an object with a method `agenerate`, such as OpenAIModel(...), not {said}"
            )


async def ask_model(model: ChatModel, messages: Sequence[Message], **options: Any) -> AIMessage:
    """The model's answer; options that are None are not passed. Raises `BadInput` where it gives no message."""
    refuse_if_forbidden(model)
    given = {name: value for name, value in options.items() if value is not None}
    async with turn_of(model) as waited:
        with around(model, messages, waited) as heard:
            answer: object = await model.agenerate(messages, **given)
            if not isinstance(answer, AIMessage) or not isinstance(answer.content, str):
                raise BadInput(
                    f"`agenerate` must give an AIMessage with text, not {shorten(repr(answer), 60)}"
                )
            heard(answer)
    return answer


def refuse_if_forbidden(model: object) -> None:
    """Raises `BadInput` where real models are switched off and this one does not say that it is none."""
    forbidden = _FORBIDDEN.get() or os.environ.get(_VARIABLE, "") not in ("", "0")
    if forbidden and is_real(model):
        raise BadInput(
            f"real models are switched off here, and {type(model).__name__} does not say `real = False`; "
            f"use a ScriptedModel or a recording, or unset {_VARIABLE}"
        )


def is_real(model: object) -> bool:
    """Whether a model may cost something: unless it says `real = False`, it may."""
    return bool(getattr(model, "real", True))
