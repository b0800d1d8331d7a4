"""A large result is read in a thread, so that the loop and all other calls go on meanwhile (threat 7)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import anyio
import pytest

from foreplan import Engine, Plan, Policies, Retry, Tool

pytestmark = pytest.mark.anyio

PLAN = Plan.model_validate({"steps": [{"id": "gives", "tool": "give"}, {"id": "other", "tool": "free"}]})
ONCE = Policies(retry=Retry(attempts=1))


class Spied(Mapping[str, int]):
    """A mapping that says when it is read."""

    def __init__(self, read: Callable[[], object]) -> None:
        self.read = read

    def __getitem__(self, key: str) -> int:
        return 1

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        self.read()
        return iter(["a"])


def tools(value: Any, free: Callable[[], object], **options: Any) -> list[Tool]:
    async def give(args: dict[str, Any]) -> Any:
        await anyio.lowlevel.checkpoint()
        return value

    async def other(args: dict[str, Any]) -> Any:
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        free()
        return 1

    return [
        Tool.declare("give", input_schema={}, call=give, effect="reads", **options),
        Tool.declare("free", input_schema={}, call=other, effect="reads"),
    ]


async def test_other_calls_go_on_while_a_large_result_is_read() -> None:
    """The reading waits for what another step does in the loop; read in the loop it would wait for ever."""
    done = threading.Event()
    waited: list[bool] = []
    value = [*([0] * 20_000), Spied(lambda: waited.append(done.wait(20)))]
    run = await Engine(tools(value, done.set), policies=ONCE).run(PLAN)
    assert run.ok
    assert waited == [True]
    assert run["gives"][-1] == {"a": 1}


async def test_a_small_result_is_read_where_it_is() -> None:
    """A thread would cost more than the reading."""
    where: list[int] = []
    run = await Engine(tools([Spied(lambda: where.append(threading.get_ident()))], int), policies=ONCE).run(
        PLAN
    )
    assert run.ok
    assert where == [threading.get_ident()]


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ([[0]] * 20_000, "invalid_result"),
        ([float("nan")] * 20_000, "unserialisable_result"),
        (["x" * 1000] * 20_000, "result_too_large"),
        ([1] * 20_000, ""),
    ],
)
async def test_what_is_wrong_with_a_large_result_is_told_as_ever(value: Any, code: str) -> None:
    """The schema, the cap and the rules of JSON hold in a thread too."""
    schema = {"type": "array", "items": {"oneOf": [{"type": "integer"}, {"type": "string"}]}}
    run = await Engine(tools(value, int, output_schema=schema), policies=ONCE).run(PLAN)
    assert [failure.code for _, failure in run.failures] == ([code] if code else [])


async def test_a_run_that_is_cut_short_keeps_what_was_being_read() -> None:
    """The call took place: the result settles before the run lets go."""
    reading, go_on = threading.Event(), threading.Event()

    def read() -> None:
        reading.set()
        go_on.wait(20)

    engine = Engine(tools([*([0] * 20_000), Spied(read)], int), policies=ONCE)
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(engine.run, PLAN)
            while not reading.is_set():
                await anyio.lowlevel.checkpoint()
            scope.cancel()
            go_on.set()
    [line] = engine.journal.runs()
    assert len(engine.show(line.run)["gives"]) == 20_001
