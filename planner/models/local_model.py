"""A model on this machine, without a key or a service: llama.cpp in a process that foreplan starts and ends.

    model = LocalModel()                     the recommended one, after `foreplan models pull`
    model = LocalModel("mine.gguf")          any instruct model in the GGUF format
    ModelPlanner(model, form="python")       small models plan best like this

The beginning of a prompt, which is the same for all requests with the same tools, is read once and kept on disk
(`prefixes.py`): without a GPU a small machine reads fifty tokens a second.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from importlib import metadata
from pathlib import Path
from typing import Any

import anyio.to_thread

from ...policies.classification import classify
from ...policies.errors import BadInput
from ...policies.failures import Happened, Kind, ToolFailure
from .call_blocks import CHOICES, Blocks, Offer, json_rule, offered
from .chunks import AIMessageChunk
from .gguf import Gguf, read_gguf
from .known_models import RECOMMENDED, find_model
from .llama_server import LlamaServer, Settings, packages, shared
from .messages import AIMessage, Message, SystemMessage
from .openai_chat import chat_body
from .openai_model import OpenAIModel
from .prefixes import Prefix, prefix_folder
from .telling import GRAMMAR, Names

__all__ = ["LocalModel"]

_DEFAULTS: dict[str, Any] = {"temperature": 0, "max_completion_tokens": 2048}
_WORTH_KEEPING = 1000
"""Characters of a system message from which on its state is kept."""


class LocalModel:
    """An instruct model in a GGUF file, given by its path or by the name of one that was pulled.

    Its process starts with the first question, is shared by all `LocalModel`s of the same file, and ends with
    `close()`, at the end of a `with` block or of the program. Questions are answered one at a time. `options` go into
    every request over temperature 0 and at most 2048 tokens of answer. `context` is how many tokens a question and its
    answer may have; `keep_prefix=False` writes nothing to disk. Raises `BadInput` where the file is no instruct model,
    where it needs more memory than there is, and where the package is missing.
    """

    real = True

    def __init__(
        self,
        model: str | os.PathLike[str] = RECOMMENDED,
        *,
        context: int = 8192,
        threads: int | None = None,
        keep_prefix: bool = True,
        **options: Any,
    ) -> None:
        packages()
        self.path = find_model(model).resolve()
        self.name = self.path.stem
        head = read_gguf(self.path)
        _expect_instruct(head)
        _expect_room(head, _counted("context", context))
        self.options = _sampling(options)
        kept = str(prefix_folder()) if keep_prefix else ""
        threads = _counted("threads", threads) if threads is not None else _cores()
        self._settings = Settings(str(self.path), context, threads, kept and kept + os.sep)
        self._held: LlamaServer | None = None
        self._let_go: Callable[[], None] = lambda: None

    async def agenerate(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        response_format: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> AIMessage:
        """The answer. Raises `ToolFailure` for what is none, and what the package `openai` raises."""
        offer = offered(tools, {**self.options, **(config or {})})
        messages = offer.told(messages) if offer is not None else messages
        server, asked = await self._begin(messages)
        try:
            answer = await asked.agenerate(messages, **self._options(server, offer, response_format, config))
            return Blocks().whole(answer) if offer is not None else answer
        except Exception as error:
            await _expect_running(server, error)
            raise

    async def astream(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        response_format: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> AsyncGenerator[AIMessageChunk, None]:
        """The answer, part by part; a failure may come after some of them."""
        offer = offered(tools, {**self.options, **(config or {})})
        messages = offer.told(messages) if offer is not None else messages
        server, asked = await self._begin(messages)
        blocks = Blocks()
        try:
            options = self._options(server, offer, response_format, config)
            async with aclosing(asked.astream(messages, **options)) as parts:
                async for part in parts:
                    yield blocks.heard(part) if offer is not None else part
        except Exception as error:
            await _expect_running(server, error)
            raise

    def close(self) -> None:
        """Let go of the process; it ends if nobody else uses it. A later question starts it again."""
        self._held = None
        self._let_go()

    def __enter__(self) -> LocalModel:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<LocalModel {self.path.name}>"

    def _options(
        self,
        server: LlamaServer,
        offer: Offer | None,
        schema: Mapping[str, Any] | None,
        config: Mapping[str, Any] | None,
    ) -> dict[str, Any]:
        """What the answer may be goes along as a grammar where that is possible."""
        options = _sent({**self.options, **(config or {})})
        if offer is not None:
            return {"config": _with_grammar(offer.grammar(schema), options) if server.guided else options}
        if schema is None or not (server.guided or GRAMMAR in schema):
            return {"response_format": schema, "config": options}
        return {"config": _held_to(schema, options)}

    async def _begin(self, messages: Sequence[Message]) -> tuple[LlamaServer, OpenAIModel]:
        """The server, running, with the beginning of this prompt in it, and how to ask it."""
        if self._held is None:
            self._held, self._let_go = shared(self._settings, self)
        server = self._held
        address = await anyio.to_thread.run_sync(server.address)
        asked = OpenAIModel(self.name, base_url=f"{address}/v1", api_key=server.key, **_sent(self.options))
        first = messages[0] if messages else None
        if isinstance(first, SystemMessage) and len(first.content) >= _WORTH_KEEPING:
            await _Beginning(server, asked, address, first).make_ready()
        return server, asked


class _Beginning:
    """The system message of a prompt, with its tools: read by the model once, then loaded from disk."""

    def __init__(self, server: LlamaServer, asked: OpenAIModel, address: str, first: SystemMessage) -> None:
        self.server, self.asked, self.address = server, asked, address
        body = chat_body([first], Names(None), tools=None, response_format=None, strict=False)
        self.body = {**body, "max_tokens": 1}
        settings = server.settings
        self.prefix = Prefix(
            Path(settings.kept),
            json.dumps(body, sort_keys=True),
            settings.context,
            _identity(settings.model),
            metadata.version("xllamacpp"),
        )

    async def make_ready(self) -> None:
        """Load the state or, the first time, let the model read the beginning and keep its state."""
        ready = self.server.ready
        if self.prefix.key in ready or not self.server.settings.kept:
            return
        ready.add(self.prefix.key)
        try:
            if not await anyio.to_thread.run_sync(self.prefix.sound):
                await self._read()
            elif not await self._slot("restore", self.prefix.name):
                self.prefix.forget()
        except BaseException:  # cancelled: the next question begins anew
            ready.discard(self.prefix.key)
            raise

    async def _read(self) -> None:
        if await self.asked.post(f"{self.address}/v1/chat/completions", self.body) and (
            await self._slot("save", self.prefix.draft)
        ):
            try:
                await anyio.to_thread.run_sync(self.prefix.keep)
            except OSError:  # a full disk, say: the state is a saving, not a need
                self.prefix.forget()

    async def _slot(self, action: str, name: str) -> bool:
        """What a slot is told: https://github.com/ggml-org/llama.cpp/tree/master/tools/server#post-slotsid_slotactionsave"""
        return await self.asked.post(f"{self.address}/slots/0?action={action}", {"filename": name})


def _sent(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that the server is told; what may be called stands in the grammar."""
    return {name: value for name, value in options.items() if name not in CHOICES}


def _held_to(schema: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a question whose answer fits this schema, as a grammar."""
    return _with_grammar(schema.get(GRAMMAR) or f"%llguidance {{}}\nstart: {json_rule(schema)}", options)


def _with_grammar(grammar: str, options: Mapping[str, Any]) -> dict[str, Any]:
    return {**options, "extra_body": {**options.get("extra_body", {}), "grammar": grammar}}


async def _expect_running(server: LlamaServer, error: Exception) -> None:
    """Raises what the end of the server tells, where a connection broke because it has ended."""
    broken = classify(error).kind is Kind.NETWORK
    if broken and (ended := await anyio.to_thread.run_sync(server.ended)):
        raise ToolFailure(ended, kind=Kind.NETWORK, code="model_ended", happened=Happened.MAYBE) from error


def _expect_instruct(head: Gguf) -> None:
    if not head.instruct:
        raise BadInput(
            f"{head.path} holds no template for conversations, so it is no instruct model; take its instruct version"
        )


def _expect_room(head: Gguf, context: int) -> None:
    if 0 < head.longest < context:
        raise BadInput(
            f"{head.path.name} was made for {head.longest} tokens of context at most, not {context}"
        )
    free, needed = _free_memory(), head.bytes_for(context)
    if free is not None and free < needed:
        raise BadInput(
            f"{head.path.name} with a context of {context} tokens needs about {needed / 2**30:.1f} GiB of memory, and "
            f"{free / 2**30:.1f} GiB are free; take a smaller model or context"
        )


def _sampling(options: Mapping[str, Any]) -> dict[str, Any]:
    for name in _NOT_HERE.keys() & options:
        raise BadInput(f"a local model has no option {name!r}; {_NOT_HERE[name]}")
    OpenAIModel("local", base_url="http://127.0.0.1")  # says now if its package is missing
    return {**_DEFAULTS, **options}


_NOT_HERE = dict.fromkeys(("base_url", "api_key", "client"), "it has a server of its own") | dict.fromkeys(
    ("api", "strict"), "every answer is held to its schema"
)


def _counted(name: str, value: object) -> int:
    if type(value) is not int or value < 1:
        raise BadInput(f"{name} is a whole number from 1, not {value!r}")
    return value


def _free_memory() -> int | None:
    """Bytes of memory that can be used without swapping, where the system says so (Linux)."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError, IndexError):
        return None


def _cores() -> int:
    """The cores this process may use; beyond eight, memory is what a model waits for."""
    affinity = getattr(os, "sched_getaffinity", None)
    return min(len(affinity(0)) if affinity else os.cpu_count() or 1, 8)


def _identity(path: str) -> tuple[str, int, int]:
    status = os.stat(path)
    return path, status.st_size, status.st_mtime_ns
