"""The runs that a server has under way, each in a task of its own, which outlives the request that began it.

request run --begin--> Driven (task) --events--> progress notifications, as long as the request waits
     |                    |
     |  cancelled         +--> the journal, which has it from the first event on
     +------------------> paused, as a run of the engine that is cancelled from outside
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
from anyio.abc import TaskGroup

from ...executor.engine import Engine
from ...executor.events import CallSettled, Event, RunOpened, ValueSettled, path_text
from ...planner.approvals import Approval
from ...planner.plan import Plan
from ...policies.errors import BadInput

__all__ = ["Desk", "Driven", "Tell"]

_AT_ONCE = 32
"""So many runs are under way at once."""
_LOG = logging.getLogger("foreplan")

Tell = Callable[[int, str], Awaitable[None]]
"""Hears how many results there are, and of the last one what it is of and how it ended."""


class Driven:
    """One run: `id` once it has begun, `problem` where it was refused before."""

    def __init__(self) -> None:
        self.id = ""
        self.problem: Exception | None = None
        self.settled = 0
        self.last = ""
        self.over = False
        self._scope = anyio.CancelScope()
        self._news = anyio.Event()

    async def drive(self, engine: Engine, plan: Plan, options: Mapping[str, Any]) -> None:
        """Run the plan to its end, or to where only people can go on; nothing that goes wrong leaves this task."""
        try:
            with self._scope:
                await engine.told(watch=self._see).run(plan, **options)
        except Exception as error:
            self.problem = error
            if self.id:
                _LOG.exception("run %s ended in an error", self.id)
        finally:
            self.over = True
            self._ring()

    def pause(self) -> None:
        """Let it pause, as one that is interrupted: it can be resumed from its journal."""
        self._scope.cancel()

    async def begun(self) -> None:
        """Wait until it has begun. Raises what keeps it from that."""
        while not (self.id or self.over):
            await self._news.wait()
        if self.problem is not None and not self.id:
            raise self.problem

    async def wait(self, seconds: float, tell: Tell) -> None:
        """Wait until it is over, at most so long, and tell how far it is; of what happens at once the last is told."""
        with anyio.move_on_after(seconds):
            while not self.over:
                news = self._news
                if self.settled:
                    await tell(self.settled, self.last)
                await news.wait()

    def _see(self, event: Event) -> None:
        match event:
            case RunOpened():
                self.id = self.id or event.run
            case CallSettled() | ValueSettled():
                self.settled += 1
                self.last = f"{path_text(event.path)}: {event.outcome.value}"
            case _:
                return
        self._ring()

    def _ring(self) -> None:
        self._news.set()
        self._news = anyio.Event()


class Desk:
    """All runs of one server."""

    def __init__(self, engine: Engine, tasks: TaskGroup) -> None:
        self._engine = engine
        self._tasks = tasks
        self._live: set[Driven] = set()

    async def run(
        self,
        plan: Plan,
        inputs: Mapping[str, Any] | None,
        approval: Approval | None,
        *,
        seconds: float,
        tell: Tell,
    ) -> str:
        """Begin a run and give its id as soon as it is over, or after so many seconds; cancelled meanwhile, it pauses.

        Raises what keeps it from beginning.
        """
        if len(self._live) >= _AT_ONCE:
            raise BadInput(
                f"{_AT_ONCE} runs are under way here already; wait until one is over, and call run again"
            )
        driven = Driven()
        self._live.add(driven)
        self._tasks.start_soon(self._drive, driven, plan, {"inputs": inputs, "approval": approval})
        try:
            await driven.begun()
            await driven.wait(seconds, tell)
        except anyio.get_cancelled_exc_class():
            driven.pause()
            raise
        return driven.id

    async def _drive(self, driven: Driven, plan: Plan, options: Mapping[str, Any]) -> None:
        try:
            await driven.drive(self._engine, plan, options)
        finally:
            self._live.discard(driven)
