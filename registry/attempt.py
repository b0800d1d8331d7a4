"""What a tool knows of the attempt it makes, and what it can say while it makes it.

    @tool(effect="reads")
    def pages(url: str, context: ToolContext) -> list[str]:
        '''Read all pages.'''
        for n in range(1, 400):
            if context.cancelled:
                return []                       # nobody waits any more: the loop ends, and with it the thread
            context.progress(n, 400, "pages")

What is said goes to whoever listens to the run, now, from any thread; it is not in the journal. Where nobody listens it
costs a call and no more.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from typing import Any

from ..policies.permissions import ANYONE, Principal

__all__ = ["Line", "ToolContext"]

Tell = Callable[[float | None, float, str], None]
"""Takes what was done, of how much, and a text; a note has None done."""


class Line:
    """What ties a tool to the engine while its attempt is under way; the engine changes it, the tool looks."""

    __slots__ = ("accepted", "cut", "deadline", "tell")

    def __init__(self, tell: Tell | None = None) -> None:
        self.tell = tell
        self.cut = False
        self.deadline: float | None = None
        self.accepted = ""
        """The contract of the tool that a person has accepted in this run, where it is another than that it began with."""


def _uncounted(used: Mapping[str, float]) -> None:
    """Where nobody counts, nothing is."""


@dataclasses.dataclass(frozen=True, slots=True)
class ToolContext:
    """What the engine tells a tool about the call; a tool gets it by annotating a parameter with this type.

    `idempotency_key` is the same for every attempt of one call, also after a resume: hand it to services that can
    de-duplicate. `attempt` counts from 1, and at most `attempts_left` follow it. `timeout` is what this attempt has, in
    seconds. `model_calls` is how many questions to a model it may ask (None: no bound); `count` adds to what it used, as
    `{"model_calls": 1}` before a question and `{"input_tokens": 812, "output_tokens": 40, "cost": 0.003}` after it; a
    `cost` replaces the one that the tool states.
    """

    run_id: str = ""
    path: tuple[str | int, ...] = ()
    attempt: int = 1
    idempotency_key: str = ""
    principal: Principal = ANYONE
    timeout: float | None = None
    model_calls: int | None = None
    count: Callable[[Mapping[str, float]], None] = _uncounted
    tool: str = ""
    attempts_left: int = 0
    line: Line = dataclasses.field(default_factory=Line, repr=False, compare=False)

    @property
    def step(self) -> str:
        """The step, with the items it runs for: `refund[3]`."""
        return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path)[1:]

    @property
    def deadline(self) -> float | None:
        """When the attempt is given up, in epoch seconds, to compare with `time.time()`; None: never."""
        return self.line.deadline

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the answer any more: the deadline has passed, or the run was cancelled.

        For sync tools, which nothing interrupts: a long loop looks at it and ends. Async tools are cancelled.
        """
        return self.line.cut

    def progress(self, done: float, total: float = 1.0, text: str = "") -> None:
        """Say how far the work is: `progress(0.4)` or `progress(12, 300, "pages")`. From any thread; never raises."""
        tell = self.line.tell
        if tell is not None:
            tell(done, total, text)

    def note(self, text: str) -> None:
        """Say something to whoever listens to the run; it is not in the journal. From any thread; never raises."""
        tell = self.line.tell
        if tell is not None:
            tell(None, 1.0, text)

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """The logger `foreplan.tool.NAME`; its records carry `run`, `step`, `attempt`."""
        said: dict[str, Any] = {"run": self.run_id, "step": self.step, "attempt": self.attempt}
        return logging.LoggerAdapter(logging.getLogger(f"foreplan.tool.{self.tool}"), said)
