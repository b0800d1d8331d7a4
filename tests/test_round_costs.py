"""What a round of a dialogue costs on our side does not grow with what was said before: counted in function calls."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from foreplan import AIMessage, HumanMessage, ToolCall, Window, create_agent, tool
from foreplan.planner.models.messages import Message


@tool(effect="reads")
async def look(place: int) -> str:
    """Look somewhere."""
    return "nothing there"


class Looking:
    """A model that looks in every round but the last, and notes at each question how many functions were called."""

    real = False

    def __init__(self, rounds: int, width: int = 1) -> None:
        self.rounds = rounds
        self.width = width
        self.called = 0
        self.turns: list[int] = []

    def count(self, frame: object, event: str, argument: object) -> None:
        """For `sys.setprofile`."""
        self.called += event in ("call", "c_call")

    async def agenerate(
        self, messages: Sequence[Message], *, tools: Sequence[Mapping[str, Any]] | None = None, **_: Any
    ) -> AIMessage:
        self.turns.append(self.called)
        if len(self.turns) == self.rounds:
            return AIMessage("done")
        calls = (ToolCall(f"t{len(self.turns)}n{n}", "look", {"place": n}) for n in range(self.width))
        return AIMessage("", tool_calls=tuple(calls))


WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "a hook": {"before_model": lambda messages: [*messages, HumanMessage("go on")]},
    "a window": {"window": Window(tokens=100, recent=2)},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("width", [1, 4])
def test_a_late_round_makes_no_more_calls_than_an_early_one(way: str, width: int) -> None:
    """Of 200 rounds the last fifty cost what the second fifty did."""
    model = Looking(200, width)
    agent = create_agent(model, [look], max_rounds=200, **WAYS[way])
    before = sys.getprofile()
    sys.setprofile(model.count)
    try:
        run = agent.invoke("look")
    finally:
        sys.setprofile(before)
    assert run.ok
    early, late = (model.turns[b] - model.turns[a] for a, b in ((50, 100), (149, 199)))
    assert late < early * 1.1, (early, late)


@pytest.mark.proof
def test_a_thousand_rounds_take_two_seconds_of_cpu() -> None:
    """The script and the tool included; the quickest of three, for others may be busy here."""

    def took() -> float:
        begun = time.process_time()
        assert create_agent(Looking(1000), [look], max_rounds=1000).invoke("look").ok
        return time.process_time() - begun

    assert min(took() for _ in range(3)) <= 2.0
