"""Anthropic's models, through the official SDK.

AnthropicModel("MODEL")                                                   the key is in ANTHROPIC_API_KEY

Each question has a client of its own, as in `openai_model.py`; the SDK's own retries and time limits are off.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from ...policies.errors import BadInput
from ...policies.secrets import Secret
from ...policies.spelling import spelled
from .anthropic_form import Hearing, answer_tool, messages_body
from .chunks import AIMessageChunk
from .clients import Clients, needed
from .messages import AIMessage, Message
from .sse import heard_parts
from .telling import Names, Telling, allowed, held_to, key_for, trusted, whole_answer

__all__ = ["AnthropicModel"]


@spelled
class AnthropicModel:
    """A model behind Anthropic's Messages API.

    `max_tokens` bounds one answer. `options` go into every request (`thinking={…}`, `extra_body={…}`), `config` of one
    question over them. A schema is asked for with a tool that takes the answer; `strict` uses the service's own output
    format, which wants the strict form (`ModelPlanner(model, form="strict")`). `cache` marks tools and system as a prefix
    to be kept. Raises `BadInput` where the package is missing, and when asked without a key.
    """

    real = True

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | Secret | None = None,
        client: Any = None,
        max_tokens: int = 8192,
        strict: bool = False,
        cache: bool = True,
        **options: Any,
    ) -> None:
        self.model = model
        self.max_tokens = max_tokens
        self.strict = strict
        self.cache = cache
        self.options = options
        self._clients = Clients(client, base_url, api_key, _client, _expect_key)
        _sdk()

    @property
    def account(self) -> str:
        """Which service is asked, and with which key: what one asks for rest is none of another's."""
        return self._clients.account

    async def agenerate(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        response_format: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> AIMessage:
        """The answer. Raises `ToolFailure` for what is none, and what the SDK raises."""
        hearing = self._hearing(tools, response_format)
        body = self._body(hearing.telling.names, messages, tools, response_format, config)
        async with self._clients.open() as client:
            asked = client.messages.with_raw_response.create(**allowed(client.messages.create, body))
            document = whole_answer((await asked).http_response)
        heard = hearing.whole(document)
        return (heard + hearing.telling.end()).message()

    async def astream(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        response_format: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> AsyncGenerator[AIMessageChunk, None]:
        """The answer, part by part; a failure may come after some of them."""
        hearing = self._hearing(tools, response_format)
        body = self._body(hearing.telling.names, messages, tools, response_format, config)
        async with (
            self._clients.open() as client,
            client.messages.with_streaming_response.create(
                **allowed(client.messages.create, body), stream=True
            ) as answer,
            aclosing(heard_parts(answer.http_response.aiter_lines(), hearing.part)) as parts,
        ):
            async for part in parts:
                yield part
        yield hearing.telling.end()

    def _hearing(
        self, tools: Sequence[Mapping[str, Any]] | None, schema: Mapping[str, Any] | None
    ) -> Hearing:
        answer = answer_tool(tools) if schema is not None and not self.strict else ""
        bare = schema is None or schema.get("type") == "object"
        return Hearing(Telling(Names(tools)), answer, bare=bare)

    def _body(
        self,
        names: Names,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] | None,
        response_format: Mapping[str, Any] | None,
        config: Mapping[str, Any] | None,
    ) -> dict[str, Any]:
        body = messages_body(
            messages,
            names,
            tools=tools,
            response_format=held_to(response_format),
            strict=self.strict,
            cache=self.cache,
        )
        set_ = {**self.options, **(config or {})}
        if "thinking" in set_ and body.get("tool_choice", {}).get("type") == "tool":
            body["tool_choice"] = {"type": "auto"}  # a model that thinks cannot be made to call a tool
        return {"model": self.model, "max_tokens": self.max_tokens, **body, **set_}

    def __repr__(self) -> str:
        return f"<AnthropicModel {self.model}>"


def _client(url: str | None, key: str | Secret | None) -> Any:
    anthropic = _sdk()
    web = anthropic.DefaultAsyncHttpxClient(verify=trusted(), timeout=None)
    return anthropic.AsyncAnthropic(
        api_key=key_for(key, url, "anthropic.com"),
        base_url=url,
        max_retries=0,
        timeout=None,
        http_client=web,
    )


def _expect_key(client: Any) -> None:
    if not (client.api_key or client.auth_token or client.credentials):
        raise BadInput("Anthropic cannot be asked without a key: set ANTHROPIC_API_KEY or give api_key")


def _sdk() -> Any:
    with needed("anthropic", "anthropic"):
        import anthropic
    return anthropic
