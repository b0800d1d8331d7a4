"""Models that speak OpenAI's form, through the official SDK: OpenAI, vLLM, Ollama, llama.cpp, LM Studio.

    OpenAIModel("gpt-5-mini")                                             the key is in OPENAI_API_KEY
    OpenAIModel("qwen2.5-coder:7b", base_url="http://localhost:11434/v1")           Ollama; no key

Each question has a client of its own, closed after it, so that a model may be asked from any event loop and leaves
nothing open; who asks so often that the handshake matters hands in `client=`, and closes it. The SDK's own retries and
time limits are off: those of the run hold, on asyncio and on trio.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Literal, get_args

from ...policies.errors import BadInput
from ...policies.secrets import Secret
from ...policies.spelling import spelled
from .chunks import AIMessageChunk
from .clients import Clients, needed
from .messages import AIMessage, Message
from .openai_chat import chat_body, hear_chat
from .openai_responses import hear_response, read_response, responses_body
from .sse import heard_parts
from .telling import Names, Telling, allowed, held_to, is_here, key_for, trusted, whole_answer

__all__ = ["OpenAIModel"]

Api = Literal["chat", "responses"]


@spelled
class OpenAIModel:
    """A model behind OpenAI's Chat Completions or Responses API, or a server that speaks like it.

    `options` go into every request (`temperature=0`, `max_completion_tokens=…`, `extra_body={…}`), `config` of one
    question over them. `strict` holds the answer to its schema by force, where the schema is in the strict form
    (`ModelPlanner(model, form="strict")`). With a `base_url` of someone else, OPENAI_API_KEY is not sent.
    Raises `BadInput` where the package is missing, and when asked without a key.
    """

    real = True

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | Secret | None = None,
        client: Any = None,
        api: Api = "chat",
        strict: bool = False,
        **options: Any,
    ) -> None:
        if api not in get_args(Api):
            raise BadInput(f"OpenAI has no API {api!r}; there are {', '.join(get_args(Api))}")
        self.model = model
        self.api = api
        self.strict = strict
        self.options = options
        self._clients = Clients(client, base_url, api_key, _client)
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
        telling = Telling(Names(tools), whole=True)
        body = self._body(telling.names, messages, tools, response_format, config)
        async with self._clients.open() as client:
            api = self._api(client)
            asked = await api.with_raw_response.create(**allowed(api.create, body))
            document = whole_answer(asked.http_response)
        read = hear_chat if self.api == "chat" else read_response
        heard = read(telling, document)
        return (heard + telling.end()).message()

    async def astream(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        response_format: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> AsyncGenerator[AIMessageChunk, None]:
        """The answer, part by part; a failure may come after some of them."""
        telling = Telling(Names(tools))
        hear = hear_chat if self.api == "chat" else hear_response
        more = {"stream_options": {"include_usage": True}} if self.api == "chat" else {}
        config = {**more, **self.options, **(config or {}), "stream": True}
        body = self._body(telling.names, messages, tools, response_format, config)
        async with (
            self._clients.open() as client,
            self._api(client).with_streaming_response.create(
                **allowed(self._api(client).create, body)
            ) as answer,
            aclosing(heard_parts(answer.http_response.aiter_lines(), partial(hear, telling))) as parts,
        ):
            async for part in parts:
                yield part
        yield telling.end()

    def _body(
        self,
        names: Names,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] | None,
        response_format: Mapping[str, Any] | None,
        config: Mapping[str, Any] | None,
    ) -> dict[str, Any]:
        make = chat_body if self.api == "chat" else responses_body
        body = make(
            messages, names, tools=tools, response_format=held_to(response_format), strict=self.strict
        )
        return {"model": self.model, **body, **self.options, **(config or {})}

    def _api(self, client: Any) -> Any:
        return client.chat.completions if self.api == "chat" else client.responses

    async def post(self, url: str, body: Mapping[str, Any]) -> bool:
        """Whether the server does what is no question, at an address of its own."""
        async with self._clients.open() as client:
            try:
                await client.post(url, cast_to=object, body=body)
            except _sdk().APIError:
                return False
        return True

    def __repr__(self) -> str:
        return f"<OpenAIModel {self.model}>"


def _client(url: str | None, key: str | Secret | None) -> Any:
    openai = _sdk()
    web = openai.DefaultAsyncHttpxClient(verify=trusted(), timeout=None, trust_env=not is_here(url))
    try:
        return openai.AsyncOpenAI(
            api_key=key_for(key, url, "openai.com"),
            base_url=url,
            max_retries=0,
            timeout=None,
            http_client=web,
        )
    except openai.OpenAIError as error:
        raise BadInput(f"OpenAI cannot be asked: {error}") from None


def _sdk() -> Any:
    with needed("openai", "openai"):
        import openai
    return openai
