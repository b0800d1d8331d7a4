"""What a round of a dialogue costs on our side: 1,000 rounds with a scripted model, and whether later ones cost more.

Each answer of the model but the last makes calls of a tool that takes no time; CPU seconds of the whole process, the
script and the tool included. `first_ms` and `last_ms` are those of one round among the first and the last hundred: they
differ by what grows with the history. The figures are of the quickest of the repeats, the ratio is its own.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from results import Figures, Found, Options, Target, cpu

from foreplan import (
    AIMessage,
    HumanMessage,
    MemoryJournal,
    Run,
    SqliteJournal,
    ToolCall,
    Window,
    create_agent,
    tool,
)
from foreplan.planner.models.messages import Message

ROUNDS = 1_000


def noted(messages: list[Message]) -> list[Message]:
    """A hook that adds a word to what is heard."""
    return [*messages, HumanMessage("go on")]


CASES: dict[str, tuple[int, bool, dict[str, Any]]] = {
    "in memory": (1, False, {}),
    "in memory, 4 calls a round": (4, False, {}),
    "SQLite": (1, True, {}),
    "SQLite, 4 calls a round": (4, True, {}),
    "SQLite, a hook before the model": (1, True, {"before_model": noted}),
    "in memory, heard through a Window of 500 tokens": (1, False, {"window": Window(tokens=500)}),
}


@tool(effect="reads")
async def look(place: int) -> dict[str, Any]:
    """Takes no time."""
    return {"place": place, "found": "nothing to speak of"}


class Looks:
    """A model that calls `look` in every round but the last; `turns` is the CPU time at which it was asked."""

    real = False

    def __init__(self, rounds: int, width: int) -> None:
        self.rounds = rounds
        self.width = width
        self.turns: list[float] = []

    async def agenerate(
        self, messages: Sequence[Message], *, tools: Sequence[Mapping[str, Any]] | None = None, **_: Any
    ) -> AIMessage:
        self.turns.append(time.process_time())
        turn = len(self.turns)
        if turn == self.rounds:
            return AIMessage("that was all")
        calls = tuple(ToolCall(f"t{turn}c{n}", "look", {"place": n}) for n in range(self.width))
        return AIMessage("", {"input_tokens": 9, "output_tokens": 9}, "tool_calls", calls)


async def talk(rounds: int, width: int, durable: bool, options: dict[str, Any]) -> tuple[float, list[float]]:
    """CPU seconds of one dialogue, and the time at which the model was asked in each round."""
    model = Looks(rounds, width)
    with tempfile.TemporaryDirectory() as folder:
        journal: Any = SqliteJournal(Path(folder) / "talk.db") if durable else MemoryJournal()
        agent = create_agent(model, [look], max_rounds=rounds, journal=journal, **options)
        runs: list[Run] = []

        async def whole() -> None:
            runs.append(await agent.ainvoke("look everywhere"))

        seconds = await cpu(whole)
        if durable:
            journal.close()
    assert runs[0].ok, runs[0].message
    return seconds, model.turns


def figures_of(seconds: float, turns: list[float]) -> Figures:
    """What one dialogue took, whole and by the round."""
    took = [after - before for before, after in itertools.pairwise(turns)]
    first, last = (statistics.fmean(part) * 1e3 for part in (took[:100], took[-100:]))
    return {
        "cpu_s": round(seconds, 3),
        "first_ms": round(first, 3),
        "last_ms": round(last, 3),
        "x_first": round(last / first, 2),
    }


def measure(options: Options) -> Found:
    figures, targets = {}, []
    for case, (width, durable, given) in CASES.items():
        one = partial(talk, width=width, durable=durable, options=given)
        anyio.run(one, 20, backend=options.backend)  # everything is loaded, every cache warm
        found = [figures_of(*anyio.run(one, ROUNDS, backend=options.backend)) for _ in range(options.repeats)]
        figures[case] = best = min(found, key=lambda each: each["cpu_s"])
        if width == 1:
            targets.append(Target(f"{ROUNDS:,} rounds, {case}", 2.0, best["cpu_s"], "s of CPU"))
        targets.append(Target(f"last 100 of them, {case}", 1.5, best["x_first"], "x the first 100"))
    return Found(figures, targets)
