"""Plan first, then execute, against our own ReAct loop: tokens, questions to the model, and time, on recorded tasks.

The tasks are those of ComplexFuncBench (the open half, beside the project): travel questions with real answers of a
booking service, recorded. In place of a model stands an oracle that makes no mistake and knows the recorded calls, so
that both sides make the same calls and get the same results:

    plan            the plan in one answer; its output, all results, is data for a program
    plan, in words  and one more question, with the goal and all results, for an answer in words
    waves           ReAct, where a round makes all calls whose arguments are known
    one by one      ReAct, where a round makes one call, as models often do

Read is everything sent: tools, messages, and the schema of the answer (also apart, as `schema`: some services do not
count it). `anew` leaves out what the question before, of this task or the last, began with: services keep that for a
while. Written is text, and calls as JSON. Tokens are those of o200k_base where `bpe_openai` is installed, else
characters / 4. `price` counts what is read anew as 1, what was kept as 0.1, what is written as 5.

Time is virtual: an answer begins after 0.5 s and 1 s for 5,000 tokens read anew, is written at 20 (or 80) tokens a
second, and a call takes 1 s. `early` is with `start_early`: reads begin while the plan is still being written.
"""

from __future__ import annotations

import functools
import json
import sys
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
from results import Figures, Found, Options

from foreplan import (
    AIMessage,
    Engine,
    HumanMessage,
    ModelPlanner,
    Plan,
    Policies,
    React,
    Registry,
    Run,
    SystemMessage,
    ToolCall,
    ToolMessage,
)
from foreplan.planner.models.chat import ask_model
from foreplan.planner.models.chunks import AIMessageChunk
from foreplan.planner.models.messages import Message

if TYPE_CHECKING:
    from support.datasets import Case
    from support.recordings import Recording

ROOT = Path(__file__).resolve().parents[1]
ODD = {"cfb-0188", "cfb-0399"}
"""A recorded call of each of these contradicts the schema of its tool."""
BEGINS, READS, WRITES, FAST, CALL = 0.5, 5_000, 20, 80, 1.0
"""Seconds until an answer begins, tokens read and written in a second (or by a fast model), seconds of a call."""
WORDS = "Here is what was found, compared as you asked, with the prices and times of each. " * 4
"""The answer in words, the same everywhere."""


@functools.cache
def tokens(text: str) -> int:
    """Tokens of a text, by the rule that `counted_by` names."""
    return len(_encoding().encode_ordinary(text)) if _encoding() is not None else -(-len(text) // 4)


@functools.cache
def _encoding() -> Any:
    try:
        return import_module("bpe_openai").get_encoding("o200k_base")
    except ImportError:
        return None


def counted_by() -> str:
    return "o200k_base" if _encoding() is not None else "characters / 4"


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class Service:
    """What a service keeps of the last few questions: how they began."""

    def __init__(self) -> None:
        self._before: deque[list[str]] = deque([[]], maxlen=3)
        self._schemas: set[str] = {""}

    def anew(self, pieces: list[str], schema: str) -> int:
        """Tokens of a request that are not kept from one of those before."""
        fresh = min((beyond(pieces, before) for before in self._before), key=cost)
        self._before.append(pieces)
        new = schema not in self._schemas
        self._schemas.add(schema)
        return cost(fresh) + tokens(schema) * new


def beyond(pieces: list[str], before: list[str]) -> list[str]:
    """What of a request stands after its common beginning with another."""
    known = alike(pieces, before)
    fresh = pieces[known:]
    if fresh and known < len(before):
        fresh[0] = fresh[0][alike(fresh[0], before[known]) :]
    return fresh


def alike(one: Sequence[Any], other: Sequence[Any]) -> int:
    """How long the common beginning of two texts or lists is."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def cost(pieces: list[str]) -> int:
    return sum(map(tokens, pieces))


class Oracle:
    """Gives these answers, as slowly as a model would, and counts what it reads and writes."""

    real = False

    def __init__(self, answers: Sequence[AIMessage], service: Service) -> None:
        self.answers = list(answers)
        self.service = service
        self.asked = self.read = self.anew = self.schema = self.written = 0

    async def agenerate(self, messages: Sequence[Message], **options: Any) -> AIMessage:
        answer, text = await self._begin(messages, options)
        await anyio.sleep(tokens(text) / WRITES)
        return answer

    async def astream(self, messages: Sequence[Message], **options: Any) -> AsyncIterator[AIMessageChunk]:
        answer, text = await self._begin(messages, options)
        pace = tokens(text) / len(text) / WRITES
        for part in range(0, len(text), 16):
            await anyio.sleep(pace * len(text[part : part + 16]))
            yield AIMessageChunk(text[part : part + 16])
        yield AIMessageChunk(finish_reason=answer.finish_reason)

    async def _begin(self, messages: Sequence[Message], options: Mapping[str, Any]) -> tuple[AIMessage, str]:
        """Read the question, and have the answer ready."""
        wanted = options.get("response_format")
        schema = compact(wanted) if wanted is not None else ""
        pieces = [compact(options["tools"])] if "tools" in options else []
        pieces += [shown for message in messages for shown in texts(message)]
        anew = self.service.anew(pieces, schema)
        answer = self.answers[self.asked]
        text = "".join(texts(answer))
        self.asked += 1
        self.read += cost(pieces) + tokens(schema)
        self.schema += tokens(schema)
        self.anew += anew
        self.written += tokens(text)
        await anyio.sleep(BEGINS + anew / READS)
        return answer, text


def texts(message: Message) -> Iterator[str]:
    """What of a message stands in a request."""
    if message.content:
        yield message.content
    if isinstance(message, AIMessage):
        for call in message.tool_calls:
            yield compact({"name": call.name, "arguments": dict(call.args)})


class Task(NamedTuple):
    """One recorded task: its goal, its plan, its calls with their arguments, and the tools."""

    goal: str
    plan: Plan
    recording: Recording
    waves: list[list[ToolCall]]
    registry: Registry

    def waved(self) -> list[AIMessage]:
        return [*map(wants, self.waves), AIMessage(WORDS)]

    def one_by_one(self) -> list[AIMessage]:
        return [*(wants([call]) for wave in self.waves for call in wave), AIMessage(WORDS)]


def wants(calls: Sequence[ToolCall]) -> AIMessage:
    return AIMessage("", finish_reason="tool_calls", tool_calls=tuple(calls))


class Took(NamedTuple):
    """What one task took."""

    asked: int
    read: int
    anew: int
    schema: int
    written: int
    calls: int
    seconds: float


# ---------------------------------------------------------------------------------------------- both ways


async def planned(task: Task, service: Service, *, words: bool = False, early: bool = False) -> Took:
    """Plan in one answer, run, and have it put into words if that is wanted."""
    plan = task.plan.model_copy(update={"output": {step.id: {"$": step.id} for step in task.plan.steps}})
    document = plan.to_json()
    answer = AIMessage(compact({"steps": document["steps"], "output": document["output"]}))
    oracle = Oracle([answer, AIMessage(WORDS)], service)
    policies = Policies(planner_timeout=None, start_early=early)
    engine = Engine(task.registry, ModelPlanner(oracle), policies=policies)
    began = anyio.current_time()
    run = await engine.plan_and_run(task.goal)
    assert run.ok, run.message
    if words:
        told = HumanMessage(f"{task.goal}\n\n{compact(run.output)}")
        await ask_model(oracle, [SystemMessage("Answer from the results."), told])
    return took(oracle, run, anyio.current_time() - began)


async def reacted(task: Task, service: Service, answers: list[AIMessage]) -> Took:
    """A round for each of these answers."""
    oracle = Oracle(answers, service)
    react = React(oracle, max_rounds=len(answers) + 1)
    engine = Engine(task.registry, react=react, policies=Policies(planner_timeout=None))
    began = anyio.current_time()
    run = await engine.answer(task.goal)
    assert run.output == WORDS, run.message
    assert not any(m.failed for m in run.messages if isinstance(m, ToolMessage)), run.messages
    return took(oracle, run, anyio.current_time() - began)


def took(oracle: Oracle, run: Run, seconds: float) -> Took:
    return Took(
        oracle.asked, oracle.read, oracle.anew, oracle.schema, oracle.written, run.tool_calls, seconds
    )


WAYS: dict[str, Callable[[Task, Service], Awaitable[Took]]] = {
    "plan": planned,
    "plan, in words": functools.partial(planned, words=True),
    "waves": lambda task, service: reacted(task, service, task.waved()),
    "one by one": lambda task, service: reacted(task, service, task.one_by_one()),
}


# ---------------------------------------------------------------------------------------------- the tasks


def cases() -> list[Case] | None:
    """The tasks, where the data are there."""
    sys.path.insert(0, str(ROOT / "tests"))
    from support.datasets import DATA, load_complexfuncbench

    if not (DATA / "complexfuncbench" / "open.jsonl").is_file():
        return None
    return [case for case in load_complexfuncbench() if case.item["id"] not in ODD]


def task_of(case: Case, tools: Mapping[str, Any]) -> Task:
    """A task with these tools, of which those that it needs answer as was recorded."""
    from support.datasets import registry_of
    from support.recordings import Recording

    recording = Recording.alone(case.item)

    def played(name: str) -> Any:
        async def call(args: dict[str, Any]) -> Any:
            await anyio.sleep(CALL)
            found = recording.answer(name, args, reads=True)
            assert found is not None, (name, args)
            return found.output

        return call

    return Task(
        case.item["query"],
        case.plan,
        recording,
        waves_of(case, recording),
        registry_of(tools, played, effect="reads"),
    )


def waves_of(case: Case, recording: Recording) -> list[list[ToolCall]]:
    """The calls, each in the first round in which its arguments are known."""
    depth: dict[str, int] = {}
    waves: defaultdict[int, list[ToolCall]] = defaultdict(list)
    for step, call in zip(case.item["plan"]["steps"], recording.calls, strict=True):
        needs = {*step["depends_on"], *references(step["args"])}
        depth[step["id"]] = 1 + max((depth[need] for need in needs), default=0)
        waves[depth[step["id"]]].append(ToolCall(step["id"], call.tool, call.args))
    return [waves[place] for place in sorted(waves)]


def references(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        if "$ref" in value:
            yield value["$ref"]
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from references(each)


# ---------------------------------------------------------------------------------------------- figures


async def whole(tasks: Sequence[Task]) -> dict[str, Figures]:
    """Means over the tasks, by the way they were done."""
    figures: dict[str, Figures] = {}
    for way, done in WAYS.items():
        service = Service()
        found = [await done(task, service) for task in tasks]
        assert [one.calls for one in found] == [sum(map(len, task.waves)) for task in tasks]
        figures[way] = figures_of(found)
    service = Service()
    early = [(await planned(task, service, early=True)).seconds for task in tasks]
    gained = figures["plan"]["seconds"] - mean(early)
    for way in ("plan", "plan, in words"):
        figures[way]["early"] = round(figures[way]["seconds"] - gained, 2)
    return figures


def figures_of(found: Sequence[Took]) -> Figures:
    """Means of what the tasks took. What is written takes less time with a fast model, and all else the same."""
    means = {name: mean(getattr(one, name) for one in found) for name in Took._fields if name != "calls"}
    saved = means["written"] / WRITES - means["written"] / FAST
    price = means["anew"] + 0.1 * (means["read"] - means["anew"]) + 5 * means["written"]
    return {**means, "fast": round(means["seconds"] - saved, 2), "price": round(price)}


def mean(values: Iterable[float]) -> float:
    several = list(values)
    return round(sum(several) / len(several), 2)


def ratios(figures: dict[str, Figures]) -> dict[str, Figures]:
    """What ReAct takes, as a multiple of planning."""
    named = ("asked", "read", "anew", "written", "seconds", "fast", "price")
    return {
        f"{react} / {plan}": {
            **{name: round(figures[react][name] / figures[plan][name], 2) for name in named},
            "early": round(figures[react]["seconds"] / figures[plan]["early"], 2),
        }
        for react in ("waves", "one by one")
        for plan in ("plan", "plan, in words")
    }


def measure(options: Options) -> Found:
    found = cases()
    if found is None:
        return Found({"complexfuncbench": {"skipped": "the public data are not beside the project"}})
    from support.virtual import run_virtual

    every = {name: tool for case in found for name, tool in case.tools.items()}
    figures: dict[str, Figures] = {}
    for title, tools in (("its own tools", None), (f"all {len(every)} tools", every)):
        tasks = [task_of(case, case.tools if tools is None else tools) for case in found]
        of_these = run_virtual(options.backend, functools.partial(whole, tasks))
        figures |= {f"{title}: {case}": one for case, one in {**of_these, **ratios(of_these)}.items()}
    figures["counted"] = {"tasks": len(found), "tokens_by": counted_by()}
    return Found(figures)
