"""LocalModel runs llama.cpp by itself, answers in the form it is held to, and leaves nothing behind.

The model here is too small to make sense, so only the form of its answers is looked at.
"""

from __future__ import annotations

import ast
import json
import os
import re
import select
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from jsonschema import Draft202012Validator
from support.ggufs import INSTRUCT, gguf
from support.local_models import LARGE, SMALL, fetched

try:
    PATH = fetched(SMALL)
except ImportError as error:
    pytest.skip(f"no local model: {error}", allow_module_level=True)

from foreplan import Engine, LocalModel, ModelPlanner, Policies, Registry, tool
from foreplan.planner.findings import CheckFailed, PlanUnreadable
from foreplan.planner.models.chat import ask_model
from foreplan.planner.models.chunks import ask_streaming
from foreplan.planner.models.local_model import _Beginning
from foreplan.planner.models.messages import HumanMessage, Message, SystemMessage
from foreplan.planner.models.openai_model import OpenAIModel
from foreplan.planner.plan_schema import plan_schema
from foreplan.planner.prompt import plan_messages
from foreplan.planner.python_form import HEADER
from foreplan.planner.python_grammar import python_grammar
from foreplan.planner.requests import PlanRequest
from foreplan.policies.classification import classify
from foreplan.policies.errors import BadInput, CannotPlan
from foreplan.policies.expressions import FUNCTIONS
from foreplan.policies.failures import ToolFailure

ASK: list[Message] = [HumanMessage("Say hello.")]
SHORT = {"max_completion_tokens": 8}
ENDLESS = {"max_completion_tokens": 100_000, "extra_body": {"ignore_eos": True}}


@tool
def weather(city: str, days: int = 1) -> dict[str, float]:
    """The weather in a city."""
    return {"degrees": 20.0}


TOOLS = Registry(weather)
SCHEMA = plan_schema(TOOLS, form="compact")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalModel]:
    """One process for all of these tests; what it keeps of prompts is kept for this run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        with LocalModel(PATH, context=4096, threads=2) as model:
            yield model


def process_of(model: LocalModel) -> subprocess.Popen[bytes]:
    """The process that runs it."""
    assert model._held is not None
    assert model._held._process is not None
    return model._held._process


async def started(model: LocalModel) -> int:
    """The id of its process, which runs now."""
    await model.agenerate(ASK, config=SHORT)
    return process_of(model).pid


def gone(pid: int) -> bool:
    """Whether no such process is left; waits for its end, which is on its way."""
    try:
        end = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([end], [], [], 30)[0])
    finally:
        os.close(end)


@pytest.mark.anyio
async def test_a_plan_has_the_form_of_a_plan(model: LocalModel) -> None:
    """Dense JSON that fits the schema, however small the model; what it cost is told."""
    request = PlanRequest("The weather in Rome", TOOLS)
    messages = plan_messages(request, examples=(), short=True)
    answer = await ask_model(model, messages, response_format=SCHEMA, config={"max_completion_tokens": 64})
    assert answer.content.startswith(('{"steps": [{"id": "', '{"cannot_plan": "'))
    if answer.finish_reason == "stop":
        assert Draft202012Validator(SCHEMA).is_valid(json.loads(answer.content))
    assert answer.usage is not None
    assert answer.usage["input_tokens"] > answer.usage["cached_tokens"] > 300
    assert 0 < answer.usage["output_tokens"] <= 64


@pytest.mark.anyio
async def test_a_schema_is_held_to(model: LocalModel) -> None:
    """Also one that leaves the model no choice."""
    schema = {
        "type": "object",
        "properties": {"n": {"const": 7}, "of": {"enum": ["a"]}},
        "required": ["n", "of"],
        "additionalProperties": False,
    }
    answer = await model.agenerate(ASK, response_format=schema)
    assert (answer.content, answer.finish_reason) == ('{"n": 7, "of": "a"}', "stop")


@pytest.mark.anyio
async def test_a_streamed_answer_is_the_same_answer(model: LocalModel) -> None:
    """Part by part, with usage at its end."""
    parts: list[str] = []
    whole = await model.agenerate(ASK, config=SHORT)
    heard = await ask_streaming(model, ASK, lambda chunk: parts.append(chunk.content), config=SHORT)
    assert heard.content == whole.content == "".join(parts)
    assert len([part for part in parts if part]) > 3
    assert heard.usage is not None
    assert heard.usage["output_tokens"] == 8


@pytest.mark.anyio
async def test_who_stops_listening_stops_the_model(model: LocalModel) -> None:
    """An endless answer is given up in the middle, and the next question is answered by the same process."""
    before = await started(model)
    with anyio.CancelScope() as scope:
        async for part in model.astream(ASK, config=ENDLESS):
            if part.content:
                scope.cancel()
    assert scope.cancelled_caught
    assert await started(model) == before


@pytest.mark.anyio
async def test_a_program_is_held_to_the_grammar_of_the_tools(model: LocalModel) -> None:
    """However small the model: it is Python, and calls nothing else."""
    held = {"type": "string", "x-grammar": python_grammar(TOOLS)}
    asked: list[Message] = [HumanMessage("The weather in Rome")]
    answer = await ask_model(model, asked, response_format=held, config={"max_completion_tokens": 64})
    assert answer.content.startswith(HEADER)
    calls = set(re.findall(r"(?<![.\w])([a-z_]+)\(", answer.content)) - {"main"} - FUNCTIONS.keys()
    assert calls <= {"weather", "CannotPlan"}
    if answer.finish_reason == "stop":
        assert ast.parse(answer.content)


def test_a_planner_with_it_ends_in_a_plan_or_in_a_sentence(model: LocalModel) -> None:
    """Whatever it answers, the engine gives a plan that checks or says why there is none."""
    planner = ModelPlanner(model, form="python", examples=(), config={"max_completion_tokens": 50})
    with suppress(CannotPlan, CheckFailed, PlanUnreadable):
        plan = Engine(TOOLS, planner, policies=Policies(max_repairs=0)).plan_blocking("The weather in Rome")
        assert {step.tool for step in plan.steps} <= {"weather", None}


# ---- the process ---------------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_process_is_shared_and_ends_with_its_last_user() -> None:
    """Two models of one file are one process; another context is another."""
    first, second = (LocalModel(PATH, context=256, threads=1, keep_prefix=False) for _ in range(2))
    pid = await started(first)
    assert await started(second) == pid
    first.close()
    assert await started(second) == pid
    second.close()
    assert gone(pid)


@pytest.mark.anyio
async def test_a_process_that_dies_is_told_and_started_anew() -> None:
    """The question under way fails like a broken connection; the next one is answered."""
    with LocalModel(PATH, context=256, threads=1, keep_prefix=False) as model:
        pid = await started(model)
        with pytest.raises(ToolFailure, match="ended with signal 9") as caught:
            await ask_streaming(model, ASK, lambda part: os.kill(pid, signal.SIGKILL), config=ENDLESS)
        assert classify(caught.value).kind == "network"
        assert await started(model) != pid


CHILD = """
import asyncio, os, signal, sys
from foreplan import LocalModel, HumanMessage
model = LocalModel(sys.argv[1], context=256, threads=1, keep_prefix=False)
before = signal.getsignal(signal.SIGINT)
asyncio.run(model.agenerate([HumanMessage("hi")], config={"max_completion_tokens": 1}))
assert signal.getsignal(signal.SIGINT) is before and "xllamacpp" not in sys.modules
print(model._held._process.pid, flush=True)
if sys.argv[2] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("end", ["exits", "killed"])
def test_no_process_outlives_its_owner(end: str) -> None:
    """Whether the program ends without closing anything or is killed; its signals were its own all along."""
    command = [sys.executable, "-W", "error", "-c", CHILD, str(PATH), end]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == (0 if end == "exits" else -signal.SIGKILL), ran.stderr
    assert gone(int(ran.stdout))


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_nobody_else_on_this_machine_may_ask_it(model: LocalModel) -> None:
    """Its address is no secret, its key is; and no proxy of the environment is asked the way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        await started(model)
    assert model._held is not None
    request = urllib.request.Request(f"{model._held.address()}/v1/chat/completions", b"{}")
    with pytest.raises(urllib.error.HTTPError, match="401") as caught:
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request)
    caught.value.close()


# ---- what is kept of prompts ---------------------------------------------------------------------------------------

SYSTEM = SystemMessage("Be brief and friendly. " * 44)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_beginning_of_a_prompt_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second process loads what the first one read; a damaged state is noticed and made anew."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    read: list[str] = []
    original = _Beginning._read

    async def counted(self: _Beginning) -> None:
        read.append(self.prefix.key)
        await original(self)

    monkeypatch.setattr(_Beginning, "_read", counted)
    folder = tmp_path / "foreplan" / "prefixes"
    for damage in (False, False, True):
        if damage:
            state = next(folder.glob("*.state"))
            state.write_bytes(state.read_bytes()[:100_000])
        with LocalModel(PATH, context=1024, threads=2) as model:
            answer = await model.agenerate([SYSTEM, *ASK], config=SHORT)
        assert answer.usage is not None
        assert answer.usage["cached_tokens"] > 200
    assert len(read) == 2
    assert (folder.stat().st_mode & 0o777, len(list(folder.iterdir()))) == (0o700, 2)


# ---- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"context": 0}, "context is a whole number from 1, not 0"),
        ({"context": 10_000}, "made for 8192 tokens of context at most, not 10000"),
        ({"threads": 1.5}, "threads is a whole number from 1, not 1.5"),
        ({"base_url": "http://x"}, "no option 'base_url'; it has a server of its own"),
        ({"strict": True}, "no option 'strict'"),
        ({"model": "qwen2.5-coder"}, "did you mean 'qwen2.5-coder-1.5b-instruct'"),
        ({"model": "nowhere.gguf"}, "there is no file"),
        ({"model": __file__}, "does not begin with GGUF"),
    ],
)
def test_what_cannot_be_meant_is_refused_at_once(options: dict[str, Any], said: str) -> None:
    """In a sentence, before anything starts."""
    with pytest.raises(BadInput, match=said):
        LocalModel(**{"model": PATH, **options})


def test_a_model_that_was_not_pulled_says_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The recommended one is the default."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(BadInput, match="fetch it: foreplan models pull qwen2"):
        LocalModel()


def test_a_base_model_and_one_that_is_too_large_are_refused(tmp_path: Path) -> None:
    """By the head of the file."""
    base, large = tmp_path / "base.gguf", tmp_path / "large.gguf"
    base.write_bytes(gguf({"general.architecture": "llama"}))
    large.write_bytes(gguf({**INSTRUCT, "llama.block_count": 4_000_000_000}))
    with pytest.raises(BadInput, match="no instruct model"):
        LocalModel(base)
    with pytest.raises(BadInput, match=r"needs about [\d.]+ GiB of memory, and [\d.]+ GiB are free"):
        LocalModel(large, context=4096)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_what_llama_cpp_refuses_is_told(tmp_path: Path) -> None:
    """A file whose head is right and whose network nobody knows."""
    path = tmp_path / "odd.gguf"
    path.write_bytes(gguf({**INSTRUCT, "general.architecture": "oddnet"}))
    with pytest.raises(BadInput, match=r"llama.cpp cannot load .*odd.gguf: .*oddnet"):
        await LocalModel(path, context=64, keep_prefix=False).agenerate(ASK)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_an_unknown_option_of_a_question_is_refused(model: LocalModel) -> None:
    """With the nearest one that there is."""
    with pytest.raises(BadInput, match="no option 'temprature'; did you mean 'temperature'"):
        await model.agenerate(ASK, config={"temprature": 1})


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra by name."""
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(BadInput, match=r"pip install 'foreplan\[local\]'"):
        LocalModel(PATH)


# ---- its server, spoken to as one of anybody -----------------------------------------------------------------------

NUMBER = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}


async def spoken_to(model: LocalModel, **options: Any) -> OpenAIModel:
    """The adapter for services, at the address of this server."""
    await started(model)
    assert model._held is not None
    url = f"{model._held.address()}/v1"
    return OpenAIModel("any", base_url=url, api_key=model._held.key, temperature=0, **options)


@pytest.mark.anyio
@pytest.mark.parametrize("strict", [False, True])
async def test_a_real_server_holds_to_a_schema_through_the_adapter(model: LocalModel, strict: bool) -> None:
    """Strict or plain, whole or streamed."""
    service = await spoken_to(model, strict=strict)
    whole = await service.agenerate(ASK, response_format=NUMBER)
    heard = await ask_streaming(service, ASK, lambda chunk: None, response_format=NUMBER)
    assert list(json.loads(whole.content)) == list(json.loads(heard.content)) == ["n"]
    assert whole.usage is not None
    assert heard.usage is not None
    assert whole.usage["output_tokens"] == heard.usage["output_tokens"] > 2


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("form", ["compact", "full"])
async def test_the_schemas_of_plans_are_taken(model: LocalModel, form: Any) -> None:
    """As grammars of llama.cpp's own, by way of the adapter, and as those of llguidance."""
    service = await spoken_to(model)
    schema = plan_schema(TOOLS, form=form)
    for asked in (service, model):
        answer = await ask_model(asked, ASK, response_format=schema, config={"max_completion_tokens": 2})
        assert answer.content.startswith("{")


@pytest.mark.anyio
async def test_a_real_server_speaks_the_responses_api_with_the_adapter(model: LocalModel) -> None:
    """Whole and streamed; its Responses API takes schemas and does not hold to them."""
    service = await spoken_to(model, api="responses", max_output_tokens=8)
    whole = await service.agenerate(ASK)
    heard = await ask_streaming(service, ASK, lambda chunk: None)
    assert whole.content == heard.content != ""
    assert whole.usage is not None
    assert whole.usage["output_tokens"] == 8


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_real_server_that_refuses_is_a_failure_of_its_kind(model: LocalModel) -> None:
    """A question longer than its context is the fault of who asks; a wrong key is no permission."""
    service = await spoken_to(model)
    with pytest.raises(Exception, match="context") as caught:
        await service.agenerate([HumanMessage("word " * 6000)])
    assert classify(caught.value).kind == "bad_args"
    assert model._held is not None
    stranger = OpenAIModel("any", base_url=f"{model._held.address()}/v1", api_key="guessed")
    with pytest.raises(Exception, match="Invalid API Key") as denied:
        await stranger.agenerate(ASK)
    assert classify(denied.value).kind == "permission"


CALL = [{"name": "get.weather", "description": "Weather.", "parameters": TOOLS["weather"].input.document}]


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_who_must_call_a_tool_calls_one_that_there_is(model: LocalModel) -> None:
    """Whole and streamed; arguments fit their schema, though this model does not know what it does."""
    one = {"parallel_tool_calls": False, "max_completion_tokens": 200}
    named = {"type": "function", "function": {"name": "get.weather"}}
    whole = await model.agenerate(ASK, tools=CALL, config={**one, "tool_choice": "required"})
    heard = await ask_streaming(model, ASK, lambda _: None, tools=CALL, config={**one, "tool_choice": named})
    assert (whole.tool_calls, whole.finish_reason) == (heard.tool_calls, heard.finish_reason)
    (call,) = whole.tool_calls
    assert (call.name, whole.finish_reason) == ("get.weather", "tool_calls")
    assert TOOLS["weather"].input.accepts(dict(call.args))
    with pytest.raises(BadInput, match="or the function of a tool"):
        await model.agenerate(ASK, tools=CALL, config={"tool_choice": "weather"})


@pytest.mark.proof
@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_beside_tools_an_answer_fits_its_schema(model: LocalModel) -> None:
    """It is a call, or JSON of that form; nothing else is possible."""
    config = {"max_completion_tokens": 300}
    answer = await model.agenerate(ASK, tools=CALL, response_format=NUMBER, config=config)
    assert answer.tool_calls or list(json.loads(answer.content)) == ["n"]


# ---- the recommended model -----------------------------------------------------------------------------------------


@pytest.mark.proof
@pytest.mark.anyio
async def test_the_recommended_model_calls_tools_whole_and_streamed() -> None:
    """By itself: nothing says that it must."""
    try:
        path = fetched(LARGE)
    except ImportError as error:
        pytest.skip(str(error))
    question = [HumanMessage("What will the weather in Rome be for the next 3 days?")]
    with LocalModel(path, context=2048) as model:
        whole = await model.agenerate(question, tools=CALL)
        heard = await ask_streaming(model, question, lambda chunk: None, tools=CALL)
    for answer in (whole, heard):
        (call,) = answer.tool_calls
        assert (call.name, call.args, answer.finish_reason) == (
            "get.weather",
            {"city": "Rome", "days": 3},
            "tool_calls",
        )
