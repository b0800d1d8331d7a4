"""Questions to models pass the limits of tools: a rest that a service asks for holds all runs, a bound holds over runs."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.services import Answer, Service, service
from support.virtual import BACKENDS, now, run_virtual

from foreplan import (
    AIMessage,
    Batch,
    BatchRules,
    Budget,
    Engine,
    Fallback,
    FunctionPlanner,
    Limits,
    MemoryJournal,
    ModelPlanner,
    Plan,
    Policies,
    Rate,
    Rates,
    React,
    RecordedModel,
    Registry,
    Retry,
    Retrying,
    Run,
    ToolCall,
    ToolFailure,
    extract_with,
    tool,
)
from foreplan.executor.events import ModelAnswered
from foreplan.planner.models.chat import ask_model
from foreplan.planner.models.chunks import AIMessageChunk, stream_of
from foreplan.policies.errors import BadInput

pytestmark = pytest.mark.parametrize("backend", BACKENDS)

PLAN = '{"foreplan": 1, "goal": "g", "steps": [{"id": "one", "value": 1}]}'


class Served:
    """A model behind a service that takes its time, and that says `Retry-After` to the questions of these numbers."""

    real = False

    def __init__(
        self, *later: int, name: str = "m", says: str = "4", takes: float = 0.1, rest: float = 30
    ) -> None:
        self.name, self.says, self.takes, self.rest = name, says, takes, rest
        self.later = later
        self.asked: list[float] = []
        self.refused: list[float] = []
        self.at_once = self.most = 0

    async def agenerate(self, messages: Sequence[Any], **options: Any) -> AIMessage:
        self.asked.append(now())
        number = len(self.asked)
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            await anyio.sleep(self.takes)
        finally:
            self.at_once -= 1
        if number in self.later:
            self.refused.append(now())
            raise ToolFailure("too many requests", kind="network", code="rate_limited", retry_after=self.rest)
        return AIMessage(self.says)


class Streamed(Served):
    """The same, part by part."""

    async def astream(self, messages: Sequence[Any], **options: Any) -> AsyncIterator[AIMessageChunk]:
        answer = await self.agenerate(messages, **options)
        yield AIMessageChunk(answer.content[:1])
        yield AIMessageChunk(answer.content[1:], finish_reason="stop")


def engine_of(model: Any, *, limits: Limits | None = None, **more: Any) -> Engine:
    """An engine with this model in its loop, which waits as long as it takes; one that can is heard part by part."""
    options: dict[str, Any] = {"retry": Retry(patience=1e6), **more}
    policies = Policies(limits=limits or Limits(), **options)
    engine = Engine([], react=React(model), policies=policies, clock=now)
    if not hasattr(model, "astream"):
        return engine
    return engine.told(watch=lambda event: None, chunk=lambda chunk: None)


async def answers(engine: Engine, count: int, apart: float = 0.0) -> list[Run]:
    """So many questions to the loop, one begun after another."""
    runs: list[Run] = []

    async def one(number: int) -> None:
        await anyio.sleep(number * apart)
        runs.append(await engine.answer("2 + 2?"))

    async with anyio.create_task_group() as tasks:
        for number in range(count):
            tasks.start_soon(one, number)
    return runs


def within(times: Sequence[float], begin: float, seconds: float) -> int:
    return sum(begin < at < begin + seconds - 1e-6 for at in times)


# ---------------------------------------------------------------------------------------------- rests


@pytest.mark.parametrize("kind", [Served, Streamed])
def test_when_a_model_says_when_to_come_back_no_run_asks_before(backend: str, kind: type[Served]) -> None:
    """Twenty runs come one after another; the third is told to wait for 30 s, and all are answered in the end."""
    model = kind(3)

    async def main() -> list[Run]:
        return await answers(engine_of(model), 20, apart=0.15)

    runs = run_virtual(backend, main)
    assert [run.state for run in runs] == ["done"] * 20
    (refused,) = model.refused
    assert within(model.asked, refused, 30) == 0
    assert len(model.asked) == 21
    waited = sorted(at for at in model.asked if at > refused)
    assert waited[-1] > waited[0]
    assert all(after - before <= 0.5 + 1e-6 for before, after in pairwise(waited))


def test_who_makes_plans_and_who_mends_them_wait_for_the_same_rest(backend: str) -> None:
    """A planner, a loop and a tool that reads texts ask one model; what one of them is told holds the others."""
    model = Served(1, says=PLAN)

    @tool(effect="reads")
    async def broken() -> int:
        """Fail."""
        raise ToolFailure("no")

    engine = Engine(
        Registry(broken, extract_with(model)),
        ModelPlanner(model),
        react=React(model),
        policies=Policies(retry=Retry(patience=1e6), max_repairs=0),
        clock=now,
    )
    failing = Plan.model_validate({"goal": "g", "steps": [{"id": "a", "tool": "broken"}]})
    reading = {"id": "a", "tool": "extract", "args": {"text": "t", "schema": {}}}

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(engine.plan, "g")
            await anyio.sleep(1)
            tasks.start_soon(engine.run, failing)
            tasks.start_soon(engine.answer, "?")
            tasks.start_soon(engine.run, Plan.model_validate({"steps": [reading]}))
            tasks.start_soon(engine.route, "write to them, and then count")

    run_virtual(backend, main)
    (refused,) = model.refused
    assert within(model.asked, refused, 30) == 0
    assert len(model.asked) >= 5


def test_a_rest_is_that_of_one_model_of_one_account(backend: str) -> None:
    """Another model, and the same one behind another key, are asked meanwhile."""
    first, other, same = Served(1), Served(name="other"), Served()
    first.account, same.account = "a", "b"  # type: ignore[attr-defined]

    class Each:
        def __init__(self) -> None:
            self.count = 0

        async def agenerate(self, messages: Any, **options: Any) -> AIMessage:
            self.count += 1
            return await ask_model((first, other, same)[self.count - 1], messages)

    async def main() -> None:
        await answers(engine_of(Each(), retry=Retry(attempts=1)), 3, apart=1)

    run_virtual(backend, main)
    assert [len(model.asked) for model in (first, other, same)] == [1, 1, 1]
    assert same.asked == pytest.approx([2.0])


def test_a_rest_longer_than_patience_is_not_waited_for(backend: str) -> None:
    """Nothing goes out, the sentence says which model and how long, and no model call is charged."""
    model = Served(1, rest=3600)

    async def main() -> tuple[Run, Run]:
        engine = engine_of(model, retry=Retry(attempts=2))
        return await engine.answer("?"), await engine.answer("?")

    _, second = run_virtual(backend, main)
    assert len(model.asked) == 1
    assert second.state == "failed"
    assert "the service of 'm' asked for rest for another 3.6e+03 s" in second.message
    assert second.used.model_calls == 0


def test_where_there_is_another_model_a_rest_is_not_waited_for(backend: str) -> None:
    """Whole: a fallback goes on to the next one at once; only the last one is waited for."""
    first, second = Served(1, name="large"), Served(2, name="small")

    async def main() -> list[Run]:
        return await answers(engine_of(Fallback(first, second)), 4, apart=1)

    assert [run.state for run in run_virtual(backend, main)] == ["done"] * 4
    assert len(first.asked) == 2
    assert len(second.asked) == 4
    assert within(second.asked, second.refused[0], 30) == 0


def test_a_model_that_is_asked_again_is_passed_over_too_where_there_is_another(backend: str) -> None:
    """`Retrying` inside `Fallback` does not sleep until the rate of its model, or the rest of its service, is over."""
    limits = Limits(rates=Rates(model={"large": Rate(calls=2, seconds=60)}))
    large, small = Served(2, name="large"), Served(name="small")
    engine = engine_of(Fallback(Retrying(large), small), limits=limits)
    assert [run.state for run in run_virtual(backend, lambda: answers(engine, 4, apart=1))] == ["done"] * 4
    assert large.asked == pytest.approx([0, 1])
    assert small.asked == pytest.approx([1.1, 2, 3])


def test_an_early_read_waits_for_its_turn_whatever_the_planner_falls_back_on(backend: str) -> None:
    """That there is another planner is no reason to refuse the question of a tool that begins while the plan arrives."""
    step = '{"id": "one", "tool": "read", "args": {}}'
    reader = Served(name="reader")

    class Slow(Served):
        async def astream(self, messages: Sequence[Any], **options: Any) -> AsyncIterator[AIMessageChunk]:
            yield AIMessageChunk(f'{{"foreplan": 1, "goal": "g", "steps": [{step}, ')
            await anyio.sleep(5)
            yield AIMessageChunk('{"id": "two", "value": 1}]}', finish_reason="stop")

    @tool(effect="reads", model_calls=1)
    async def read() -> str:
        """Ask a model."""
        return (await ask_model(reader, ())).content

    policies = Policies(
        start_early=True,
        limits=Limits(rates=Rates(model={"reader": Rate(calls=1, seconds=20)})),
        retry=Retry(attempts=1),
    )
    planner = ModelPlanner(Fallback(Slow(name="a"), Slow(name="b")))
    engine = Engine([read], planner, policies=policies, clock=now)

    async def main() -> Run:
        await engine.run(Plan.model_validate({"goal": "g", "steps": [{"id": "one", "tool": "read"}]}))
        return await engine.plan_and_run("g")

    assert run_virtual(backend, main).state == "done"
    assert reader.asked == pytest.approx([0, 20])


# ---------------------------------------------------------------------------------------------- bounds of the user's


def test_so_many_questions_at_once_hold_over_all_runs(backend: str) -> None:
    """And the answer that comes in parts keeps its place to its end."""
    for model in (Served(takes=1), Streamed(takes=1)):
        engine = engine_of(model, limits=Limits(model={"m": 3}))
        runs = run_virtual(backend, partial(answers, engine, 20))
        assert [run.state for run in runs] == ["done"] * 20
        assert model.most == 3


def test_a_rate_of_a_model_holds_over_all_runs(backend: str) -> None:
    """Five in any ten seconds, and who waits is not late: `planner_timeout` counts the answer alone."""
    model = Served()
    limits = Limits(rates=Rates(model={"m": Rate(calls=5, seconds=10)}))
    runs = run_virtual(backend, lambda: answers(engine_of(model, limits=limits, planner_timeout=2), 20))
    assert [run.state for run in runs] == ["done"] * 20
    assert max(sum(at <= t < at + 10 - 1e-6 for t in model.asked) for at in model.asked) == 5
    assert max(model.asked) == pytest.approx(30, abs=0.1)


def test_an_answer_that_takes_too_long_is_late_however_long_it_waited(backend: str) -> None:
    """The clock of an answer goes on after the wait."""
    model = Served(takes=3)
    limits = Limits(model={"m": 1})
    policies = {"planner_timeout": 2, "retry": Retry(attempts=1)}
    runs = run_virtual(backend, lambda: answers(engine_of(model, limits=limits, **policies), 3))
    assert ["no answer within 2 s" in run.message for run in runs] == [True] * 3
    assert model.asked == pytest.approx([0, 2, 4])


def test_the_journal_says_how_long_a_question_waited(backend: str) -> None:
    """So it can be told from a model that is slow."""
    journal = MemoryJournal()
    model = Served(takes=5)
    engine = Engine(
        [], react=React(model), policies=Policies(limits=Limits(model={"m": 1})), clock=now, journal=journal
    )
    runs = run_virtual(backend, lambda: answers(engine, 3))
    heard = [e for run in runs for e in journal.events(run.id) if isinstance(e, ModelAnswered)]
    assert sorted(event.queued for event in heard) == pytest.approx([0, 5, 10])


def test_a_wrapper_of_ones_own_has_one_turn_with_what_it_wraps(backend: str) -> None:
    """Asked through `ask_model` or directly, the model inside is bounded, and nobody waits for himself."""

    class Logged:
        def __init__(self, model: Any, *, through: bool) -> None:
            self.model, self.through = model, through

        async def agenerate(self, messages: Sequence[Any], **options: Any) -> AIMessage:
            if self.through:
                return await ask_model(self.model, messages, **options)
            return await self.model.agenerate(messages, **options)  # type: ignore[no-any-return]

    async def main() -> list[Run]:
        with anyio.fail_after(60):
            return await answers(engine, 3)

    for through, account in product((True, False), ("", "one")):
        model = Served(takes=1)
        model.account = account  # type: ignore[attr-defined]
        engine = engine_of(Logged(model, through=through), limits=Limits(model={"m": 1}))
        runs = run_virtual(backend, main)
        assert [run.state for run in runs] == ["done"] * 3
        assert model.most == 1


def test_a_limit_on_a_model_that_is_not_asked_is_refused(backend: str) -> None:
    """With the nearest name; a misspelt one never means that there is no limit."""
    with pytest.raises(BadInput, match="name a model 'gtp-5' that is not asked here; did you mean 'gpt-5'"):
        engine_of(Fallback(Served(name="gpt-5"), Served(name="b")), limits=Limits(model={"gtp-5": 1}))
    engine_of(Fallback(Served(name="gpt-5"), Served(name="b")), limits=Limits(model={"gpt-5": 1}))


def test_a_limit_on_a_model_that_nobody_can_know_of_is_taken(backend: str, tmp_path: Path) -> None:
    """A rule, a hook, a model that records another may ask it: what cannot be seen is no mistake."""
    shown, hidden = Served(name="shown"), Served(name="hidden", takes=5)
    policies = Policies(limits=Limits(model={"hidden": 1}))

    async def judged(*about: Any) -> None:
        await ask_model(hidden, ())

    recording = RecordedModel(tmp_path / "answers.jsonl", hidden)
    Engine([], FunctionPlanner(judged), react=React(shown), policies=policies)
    Engine([], react=React(recording), policies=policies)
    engine = Engine([], react=React(shown), before_model=judged, policies=policies, clock=now)
    assert [run.state for run in run_virtual(backend, lambda: answers(engine, 2))] == ["done"] * 2
    assert hidden.asked == pytest.approx([0, 5])


# ---------------------------------------------------------------------------------------------- what ends a wait


def test_the_seconds_of_a_budget_end_a_wait(backend: str) -> None:
    """Of the loop and of a re-plan: the run stops when they are over, not when the rest is."""
    model = Served(1)
    ended: list[tuple[str, str, float]] = []

    @tool(effect="reads")
    async def broken() -> int:
        """Fail."""
        raise ToolFailure("no")

    failing = Plan.model_validate({"goal": "g", "steps": [{"id": "a", "tool": "broken"}]})
    policies = Policies(retry=Retry(patience=1e6), budget=Budget(seconds=10))
    engine = Engine([broken], ModelPlanner(model), react=React(model), policies=policies, clock=now)

    async def note(ask: Any, *given: Any) -> None:
        run = await ask(*given)
        ended.append((run.state, run.reason, now()))

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(note, engine.answer, "?")
            await anyio.sleep(1)
            tasks.start_soon(note, engine.answer, "?")
            tasks.start_soon(note, engine.run, failing)

    run_virtual(backend, main)
    assert [(state, reason) for state, reason, _ in ended] == [("stopped", "budget")] * 3
    assert max(at for *_, at in ended) < 12
    assert len(model.asked) == 1


@pytest.mark.parametrize(("calls", "asked"), [(1, 1), (2, 2), (9, 3)])
def test_each_attempt_at_a_planner_counts_for_the_budget(backend: str, calls: int, asked: int) -> None:
    """Of a run that is planned anew, and of a batch: a question that failed in passing was one, and asked again is one more."""

    @tool(effect="reads")
    async def broken(n: int) -> int:
        """Fail."""
        raise ToolFailure("no")

    steps = [{"id": "a", "tool": "broken", "args": {"n": {"$": "inputs.n"}}}]
    inputs = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    failing = Plan.model_validate({"goal": "g", "inputs": inputs, "steps": steps})
    alone, together = (Served(1, 2, rest=0.1, says="no patch") for _ in range(2))
    budget = Budget(model_calls=calls)

    async def main() -> tuple[Run, Batch]:
        options: dict[str, Any] = {"approve": "never", "max_repairs": 0}
        bounded = Policies(budget=budget, **options)
        run = await Engine([broken], ModelPlanner(alone), policies=bounded, clock=now).run(
            failing, inputs={"n": 1}
        )
        engine = Engine([broken], ModelPlanner(together), policies=Policies(**options), clock=now)
        rules = BatchRules(budget=budget)
        return run, await engine.run_batch(failing, [{"n": 1}, {"n": 2}], rules=rules)

    run, batch = run_virtual(backend, main)
    assert (len(alone.asked), run.used.model_calls) == (asked, asked)
    assert (len(together.asked), batch.used.model_calls) == (asked, asked)


def test_no_planner_is_asked_again_after_the_seconds_of_a_budget(backend: str) -> None:
    """A rest that a service asks for and that would end later is not slept through: the run stops, or the rows fail, at once."""

    @tool(effect="reads")
    async def broken(n: int) -> int:
        """Fail."""
        raise ToolFailure("no")

    steps = [{"id": "a", "tool": "broken", "args": {"n": {"$": "inputs.n"}}}]
    inputs = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    failing = Plan.model_validate({"goal": "g", "inputs": inputs, "steps": steps})
    alone, together = Served(1), Served(1)

    async def main() -> tuple[Run, float, Batch, float]:
        bounded = Policies(retry=Retry(patience=1e6), budget=Budget(seconds=10))
        run = await Engine([broken], ModelPlanner(alone), policies=bounded, clock=now).run(
            failing, inputs={"n": 1}
        )
        ended = now()
        engine = Engine([broken], ModelPlanner(together), policies=Policies(approve="never"), clock=now)
        batch = await engine.run_batch(
            failing, [{"n": 1}, {"n": 2}], rules=BatchRules(budget=Budget(seconds=10))
        )
        return run, ended, batch, now() - ended

    run, ended, batch, took = run_virtual(backend, main)
    assert (run.reason, batch.counts["failed"]) == ("budget", 2)
    assert (len(alone.asked), len(together.asked)) == (1, 1)
    assert max(ended, took) < 1


def test_a_run_that_is_cancelled_while_its_question_waits_leaves_nothing_behind(backend: str) -> None:
    """Its place is another's; it can be resumed."""
    model = Served(takes=5)
    engine = engine_of(model, limits=Limits(model={"m": 1}))

    async def main() -> tuple[Run, Mapping[Any, Any]]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(engine.answer, "first")
            await anyio.sleep(1)
            with anyio.move_on_after(1):
                await engine.answer("second")
            third = await engine.answer("third")
        return third, engine._host.limiter._queues  # type: ignore[union-attr]

    third, queues = run_virtual(backend, main)
    assert (third.state, len(queues)) == ("done", 0)
    assert model.asked == pytest.approx([0, 5])


def test_the_limits_of_tools_hold_in_a_loop_too(backend: str) -> None:
    """Calls that a model makes are calls: as many at once as the policies say."""
    busy, most = [], []

    @tool(effect="reads")
    async def look(x: int) -> int:
        """Look."""
        busy.append(x)
        most.append(len(busy))
        await anyio.sleep(1)
        busy.remove(x)
        return x

    class Calling(Served):
        async def agenerate(self, messages: Sequence[Any], **options: Any) -> AIMessage:
            if len(messages) > 2:
                return AIMessage("done")
            return AIMessage("", tool_calls=tuple(ToolCall(f"c{x}", "look", {"x": x}) for x in range(6)))

    policies = Policies(limits=Limits(tool={"look": 2}))
    engine = Engine([look], react=React(Calling()), policies=policies, clock=now)
    run = run_virtual(backend, lambda: engine.answer("?"))
    assert (run.state, len(most), max(most)) == ("done", 6, 2)


# ---------------------------------------------------------------------------------------------- real adapters


def _openai(there: Service, key: str) -> Any:
    from foreplan.planner.models.openai_model import OpenAIModel

    return OpenAIModel("m", base_url=f"{there.url}/v1", api_key=key)


def _responses(there: Service, key: str) -> Any:
    from foreplan.planner.models.openai_model import OpenAIModel

    return OpenAIModel("m", base_url=f"{there.url}/v1", api_key=key, api="responses")


def _anthropic(there: Service, key: str) -> Any:
    from foreplan.planner.models.anthropic_model import AnthropicModel

    return AnthropicModel("m", base_url=there.url, api_key=key)


ADAPTERS = {
    "chat": ("openai", _openai),
    "responses": ("openai", _responses),
    "messages": ("anthropic", _anthropic),
}


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("form", ADAPTERS)
def test_what_a_real_service_says_holds_the_next_run(backend: str, form: str, streams: bool) -> None:
    """Its Retry-After reaches the limits through the SDK: the next run asks nothing, one with another key does."""
    package, make = ADAPTERS[form]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"the package {package} is not installed")
    later = Answer(
        b'{"type": "error", "error": {"type": "x", "message": "no"}}', 429, headers={"Retry-After": "7"}
    )
    said: list[str] = []

    async def main() -> None:
        first, same, other = (make(there, key) for key in ("one", "one", "two"))
        model = (Turning if streams else Whole)(first, same, other)
        engine = engine_of(model, retry=Retry(attempts=1, patience=5))
        said.extend([(await engine.answer("?")).message for _ in range(3)])

    with service(later, later) as there:
        anyio.run(main, backend=backend)
        assert len(there.asked) == 2
    assert ["asked for rest for another" in message for message in said] == [False, True, False]


class Whole:
    """Asks its models one after another."""

    asks_others = True

    def __init__(self, *models: Any) -> None:
        self.left = list(models)

    async def agenerate(self, messages: Sequence[Any], **options: Any) -> AIMessage:
        return await ask_model(self.left.pop(0), messages, **options)


class Turning(Whole):
    """The same, part by part."""

    async def astream(self, messages: Sequence[Any], **options: Any) -> AsyncIterator[AIMessageChunk]:
        async for part in stream_of(self.left.pop(0), messages, **options):
            yield part
