"""An agent: a model in a loop with tools, without a plan. Each call goes through the same guarded call as a plan's.

    agent = create_agent(model, [search, send], system_prompt="...", response_format=Answer)
    run = agent.invoke("What changed since Monday?")        blocking; `await agent.ainvoke(...)` where a loop runs
    run.output, run.messages

A run that waits for a person (a tool that acts, for which nobody has said yes) is taken up again with `resume`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import anyio

from ..planner.models.chat import ChatModel
from ..planner.models.chunks import AIMessageChunk
from ..planner.models.history import Messages
from ..planner.models.window import Window
from ..planner.react import React
from ..policies.spelling import no_option, spelled
from ..registry.registry import Registry
from ..registry.tools import Tool
from .blocking import first_error
from .engine import ELSEWHERE, Engine
from .events import Event
from .run import Run
from .runtime import Answer

__all__ = ["Agent", "Update", "create_agent"]


class Update(NamedTuple):
    """One piece of what a stream tells: a `chunk` of an answer, an `event` of the run, or at the end the `run`."""

    chunk: AIMessageChunk | None = None
    event: Event | None = None
    run: Run | None = None


@spelled
class Agent:
    """A model with tools, ready to be asked. Made by `create_agent`; its `engine` shows, resumes and cancels runs."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    async def ainvoke(self, messages: Messages, *, run_id: str | None = None) -> Run:
        """Ask, and let the model call tools until it answers. `messages`: text, messages, dicts, or a list of them."""
        return await self.engine.answer(messages, run_id=run_id)

    def invoke(self, messages: Messages, *, run_id: str | None = None) -> Run:
        """`ainvoke` for programs without an event loop."""
        return self.engine.answer_blocking(messages, run_id=run_id)

    async def resume(self, run_id: str, *, decisions: Mapping[str, Answer | str] | None = None) -> Run:
        """Go on with a run that was interrupted or waits for people."""
        return await self.engine.resume(run_id, decisions=decisions)

    @asynccontextmanager
    async def stream(
        self, messages: Messages, *, run_id: str | None = None
    ) -> AsyncIterator[AsyncIterator[Update]]:
        """The same, told while it happens: parts of the model's answers, events, and at the end the run.

        `async with agent.stream("...") as updates: async for update in updates: ...`. Whoever leaves the block before
        the end interrupts the run: what is under way is settled, and `resume` goes on with it.
        """
        send, receive = anyio.create_memory_object_stream[Update](math.inf)

        async def ask() -> None:
            with send:
                told = self.engine.told(
                    watch=lambda event: send.send_nowait(Update(event=event)),
                    chunk=lambda chunk: send.send_nowait(Update(chunk=chunk)),
                )
                send.send_nowait(Update(run=await told.answer(messages, run_id=run_id)))

        with receive, first_error():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask)
                yield receive
                tasks.cancel_scope.cancel()

    def __repr__(self) -> str:
        return f"<Agent with {len(self.engine.registry)} tools>"


@spelled
def create_agent(
    model: ChatModel,
    tools: Registry | Iterable[Tool] = (),
    system_prompt: str = "",
    response_format: Any = None,
    *,
    max_rounds: int = 10,
    tool_choice: str = "auto",
    window: Window | None = None,
    **options: Any,
) -> Agent:
    """An agent of this model and these tools. Raises `BadInput`.

    `response_format` is a JSON Schema or a type (a pydantic model, a dataclass) of the answer. `options` are those of
    `Engine`: policies, journal, principal, decide, before_model, after_model, ...
    """
    for word in options.keys() - _OPTIONS:
        raise no_option("create_agent", word, _OPTIONS, ELSEWHERE)
    react = React(model, system_prompt, response_format, max_rounds, tool_choice, window)
    return Agent(Engine(tools, react=react, **options))


_OPTIONS = {
    name
    for function in (create_agent, Engine.__init__)
    for name in inspect.signature(function).parameters
    if name not in ("self", "registry", "planner", "react", "options")
}
