"""Whatever Pydantic AI can ask, as a model of ours: `PydanticAIModel("google:gemini-2.5-flash")`.

Its errors are classified by their status or their cause; the repeating that its clients do is off (`max_retries=0`).
Where the library calls a stream complete in which the provider never said so, it is cut off all the same.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ...policies.spelling import spelled
from .chunks import AIMessageChunk, ToolCallChunk
from .clients import needed
from .messages import AIMessage, Message, SystemMessage, ToolMessage
from .telling import Names, Telling, broken, calls_in, cut_off, held_to

__all__ = ["PydanticAIModel"]

_FINISHES = {"tool_call": "tool_calls", "content_filter": "refused"}
_SILENT = {"xai"}
"""Providers whose own word for the end of a stream the library does not keep."""
_UNREAD = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError)
"""What the library raises where an answer is not made as it expects."""
_COUNTS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_tokens": "cached_tokens",
    "cache_write_tokens": "cache_written_tokens",
}


@spelled
class PydanticAIModel:
    """A model of Pydantic AI, by its name (`"provider:model"`) or as an object of its own.

    `settings` are its `ModelSettings`, `config` of one question goes over them. A schema goes along where the provider
    can hold an answer to one, else as instructions. Raises `BadInput` where the package is missing.
    """

    real = True

    def __init__(self, model: Any, **settings: Any) -> None:
        _library()
        self.model = model
        self.name = model if isinstance(model, str) else str(getattr(model, "model_name", ""))
        self.settings = {"max_retries": 0, **settings}

    async def agenerate(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        response_format: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> AIMessage:
        """The answer. Raises `ToolFailure` for what is none, and what Pydantic AI raises."""
        telling = Telling(Names(tools), whole=True)
        ask, asked = self._asked(telling.names, messages, tools, response_format, config)
        with _placed(asked["model"]):
            response = await ask.model_request(**asked)
        heard = AIMessageChunk(_text(telling, response), _calls(telling, response))
        return (heard + telling.end()).message()

    async def astream(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        response_format: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> AsyncGenerator[AIMessageChunk, None]:
        """The answer: text as it arrives, calls at the end."""
        telling = Telling(Names(tools))
        ask, asked = self._asked(telling.names, messages, tools, response_format, config)
        with _placed(asked["model"]):
            async with ask.model_request_stream(**asked) as stream:
                async for event in stream:
                    yield AIMessageChunk(_said(event))
                response = stream.get()
        if not _complete(response):
            raise cut_off()
        telling.finish = "stop"
        _text(telling, response)
        yield AIMessageChunk(calls=_calls(telling, response))
        yield telling.end()

    def _asked(
        self,
        names: Names,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] | None,
        schema: Mapping[str, Any] | None,
        config: Mapping[str, Any] | None,
    ) -> tuple[Any, dict[str, Any]]:
        """The module to ask with, and what it is asked."""
        library = _library()
        model = library.models.infer_model(self.model)
        offered = [
            library.ToolDefinition(
                name=names.out(tool["name"]),
                description=tool.get("description"),
                parameters_json_schema=dict(tool["parameters"]),
            )
            for tool in tools or ()
        ]
        parameters = library.models.ModelRequestParameters(
            function_tools=offered,
            **(_form(library, model, form) if (form := held_to(schema)) is not None else {}),
        )
        return library.direct, {
            "model": model,
            "messages": list(_turns(library.messages, messages, names)),
            "model_settings": {**self.settings, **(config or {})},
            "model_request_parameters": parameters,
        }

    def __repr__(self) -> str:
        return f"<PydanticAIModel {getattr(self.model, 'model_name', self.model)}>"


def _library() -> Any:
    with needed("pydantic_ai", "pydantic-ai"):
        import pydantic_ai.direct
        import pydantic_ai.messages
        import pydantic_ai.models
        import pydantic_ai.output
    return pydantic_ai


def _form(library: Any, model: Any, schema: Mapping[str, Any]) -> dict[str, Any]:
    """How this model is asked for an answer in a form."""
    try:
        profile = model.profile
    except NotImplementedError:  # one that chooses among several
        profile = {}
    if profile.get("supports_json_schema_output"):
        form = library.output.OutputObjectDefinition(json_schema=dict(schema), name="answer")
        return {"output_mode": "native", "output_object": form}
    rule = f"The final answer is JSON that fits this JSON Schema, and nothing else: {json.dumps(schema)}"
    return {"instruction_parts": [library.messages.InstructionPart(content=rule)]}


def _turns(library: Any, messages: Sequence[Message], names: Names) -> Iterator[Any]:
    """Requests and responses in alternation: what is said to the model in a row is one request."""
    called: dict[str, str] = {}
    parts: list[Any] = []
    for message in messages:
        if not isinstance(message, AIMessage):
            parts.append(_part(library, message, called))
            continue
        if parts:
            yield library.ModelRequest(parts=parts)
            parts = []
        said = [library.TextPart(content=message.content)] if message.content else []
        for id_, name, args in calls_in(message):
            called[id_] = names.out(name)
            said.append(library.ToolCallPart(tool_name=names.out(name), args=args, tool_call_id=id_))
        yield library.ModelResponse(parts=said)
    if parts:
        yield library.ModelRequest(parts=parts)


def _part(library: Any, message: Message, called: Mapping[str, str]) -> Any:
    if isinstance(message, ToolMessage):
        id_ = message.tool_call_id
        name = called.get(id_) or message.name or "unnamed"
        return library.ToolReturnPart(tool_name=name, content=message.content, tool_call_id=id_)
    kind = library.SystemPromptPart if isinstance(message, SystemMessage) else library.UserPromptPart
    return kind(content=message.content)


def _said(event: Any) -> str:
    """The words in an event of a stream."""
    if getattr(event, "event_kind", "") == "part_start" and event.part.part_kind == "text":
        return event.part.content or ""
    if getattr(event, "event_kind", "") == "part_delta" and event.delta.part_delta_kind == "text":
        return event.delta.content_delta or ""
    return ""


def _text(telling: Telling, response: Any) -> str:
    """The words of a whole response; how it ended and what it cost is told as well."""
    telling.begin()
    finish = response.finish_reason
    if finish == "error":
        raise broken("the provider ended it with an error")
    if finish is not None:
        telling.finish = _FINISHES.get(finish, finish)
    found = {ours: getattr(response.usage, theirs, 0) for theirs, ours in _COUNTS.items()}
    telling.usage = {name: n for name, n in found.items() if n} or None
    return telling.text([{"text": part.content} for part in response.parts if part.part_kind == "text"])


def _calls(telling: Telling, response: Any) -> tuple[ToolCallChunk, ...]:
    return tuple(
        telling.call(place, part.tool_call_id, part.tool_name, part.args)
        for place, part in enumerate(response.parts)
        if part.part_kind == "tool-call"
    )


def _complete(response: Any) -> bool:
    """Whether the provider itself said that a streamed answer is complete; one without an address need not say it."""
    details = response.provider_details or {}
    return not response.provider_url or response.provider_name in _SILENT or "finish_reason" in details


@contextmanager
def _placed(model: Any) -> Iterator[None]:
    """Say at which address it failed, so that a Retry-After is of a host; what could not be read is no bug of a tool."""
    try:
        yield
    except _UNREAD as error:
        raise broken(f"Pydantic AI could not read it ({type(error).__name__}: {error})") from error
    except Exception as error:
        address = getattr(model, "base_url", None)
        if address and not hasattr(error, "url"):
            error.url = address  # type: ignore[attr-defined]
        raise
