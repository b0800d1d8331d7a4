"""Models are composed by wrapping: another one, another time, within a bound, at a price."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from support.virtual import now, run_virtual

from foreplan import (
    AIMessage,
    Budgeted,
    Fallback,
    HumanMessage,
    Priced,
    Retry,
    Retrying,
    ScriptedModel,
    ToolFailure,
    create_agent,
)
from foreplan.planner.models.chat import no_real_models
from foreplan.planner.models.chunks import AIMessageChunk, ask_streaming
from foreplan.policies.errors import BadInput

pytestmark = pytest.mark.anyio

ASK = [HumanMessage("Two and two?")]
RESET = ConnectionResetError("gone")
COUNTED = {"input_tokens": 1_000_000, "output_tokens": 500_000, "cached_tokens": 400_000}


class Breaking:
    """Says something and breaks off."""

    real = False

    async def agenerate(self, messages: Any, **options: Any) -> AIMessage:
        raise RESET

    async def astream(self, messages: Any, **options: Any) -> AsyncIterator[AIMessageChunk]:
        yield AIMessageChunk("Fo")
        raise RESET


async def streamed(model: Any) -> tuple[AIMessage, list[str]]:
    parts: list[str] = []
    return await ask_streaming(model, ASK, lambda chunk: parts.append(chunk.content)), parts


async def test_the_next_model_is_asked_where_one_fails() -> None:
    """Whole and streamed; the options go along."""
    second = ScriptedModel(["four", "four"])
    model = Fallback(ScriptedModel([RESET, RESET]), second)
    assert (await model.agenerate(ASK, config={"a": 1})).content == "four"
    assert second.requests[0].options == {"config": {"a": 1}}
    assert (await streamed(model))[0].content == "four"
    assert model.real is False


async def test_where_all_fail_the_last_failure_tells_of_the_others() -> None:
    """Nothing that went wrong is lost."""
    model = Fallback(ScriptedModel([RESET]), ScriptedModel([ToolFailure("no")]))
    with pytest.raises(ToolFailure) as caught:
        await model.agenerate(ASK)
    assert "0x" not in caught.value.__notes__[0]
    assert caught.value.__notes__[0].endswith("failed: gone")


async def test_a_mistake_of_the_callers_leads_to_no_other_model() -> None:
    """An empty script is one."""
    second = ScriptedModel(["four"])
    with pytest.raises(BadInput):
        await Fallback(ScriptedModel([]), second).agenerate(ASK)
    assert second.requests == []


@pytest.mark.parametrize("wrap", [lambda m: Fallback(m, ScriptedModel(["four"])), Retrying])
async def test_a_part_that_was_heard_is_not_said_again(wrap: Any) -> None:
    """Two beginnings are no answer."""
    with pytest.raises(ConnectionResetError):
        await streamed(wrap(Breaking()))


def test_a_model_is_asked_again_where_that_helps(anyio_backend: str) -> None:
    """Retry-After is waited for; a refusal is not asked again."""

    async def main() -> None:
        later = ToolFailure("later", kind="network", code="rate_limited", retry_after=9)
        scripted = ScriptedModel([later, "four", later, "four", ToolFailure("no")])
        model = Retrying(scripted, Retry(base=0))
        assert (await model.agenerate(ASK)).content == "four"
        assert now() == pytest.approx(9)
        assert (await streamed(model))[0].content == "four"
        assert now() == pytest.approx(18)
        with pytest.raises(ToolFailure, match="no"):
            await model.agenerate(ASK)
        assert len(scripted.requests) == 5

    run_virtual(anyio_backend, main)


async def test_a_price_table_gives_the_cost() -> None:
    """Per million tokens; what the service had kept has a price of its own."""
    answers = [AIMessage("four", usage=COUNTED)] * 3 + [AIMessage("four")]
    model = Priced(ScriptedModel(answers), {"input": 2.5, "output": 10, "cached": 0.25})
    assert (await model.agenerate(ASK)).usage == {**COUNTED, "cost": 6.6}
    assert (await streamed(model))[0].usage == {**COUNTED, "cost": 6.6}
    plain = Priced(ScriptedModel(answers), {"input": 2.5, "output": 10})
    assert (await plain.agenerate(ASK)).usage == {**COUNTED, "cost": 7.5}
    await model.agenerate(ASK)
    assert (await model.agenerate(ASK)).usage is None


@pytest.mark.parametrize(
    ("prices", "words"),
    [
        ({"input": 1, "ouput": 1}, "did you mean 'output'"),
        ({"input": 1}, "what `input` and `output` cost"),
        ({"input": 1, "output": -1}, "a number from 0"),
    ],
)
def test_a_price_table_is_checked(prices: dict[str, float], words: str) -> None:
    """A price that is never found would be a run that costs nothing."""
    with pytest.raises(BadInput, match=words):
        Priced(ScriptedModel(), prices)


async def test_a_model_is_asked_no_more_once_its_bound_is_used() -> None:
    """Calls, tokens and cost, over everything that shares the model."""
    for bound in ({"calls": 2}, {"tokens": 2_000_000}, {"cost": 10}):
        priced = Priced(ScriptedModel([AIMessage("four", usage=COUNTED)] * 9), {"input": 2.5, "output": 10})
        model = Budgeted(priced, **bound)
        await model.agenerate(ASK)
        await streamed(model)
        with pytest.raises(ToolFailure, match=f"bound of .* {next(iter(bound))} is used up"):
            await model.agenerate(ASK)
        assert model.used == {"calls": 2, "tokens": 3_000_000, "cost": 15}


@pytest.mark.parametrize(("bound", "words"), [("tokens", "bound its calls"), ("cost", "Priced")])
async def test_a_bound_on_what_is_not_told_is_refused(bound: str, words: str) -> None:
    """It could not hold."""
    with pytest.raises(BadInput, match=words):
        await Budgeted(ScriptedModel(["four"]), **{bound: 1}).agenerate(ASK)
    with pytest.raises(BadInput, match="at least one"):
        Budgeted(ScriptedModel())


@pytest.mark.parametrize(
    "wrap",
    [Fallback, Retrying, partial(Priced, prices={"input": 1, "output": 1}), partial(Budgeted, calls=1)],
)
async def test_a_wrapped_model_is_as_real_as_what_is_in_it(wrap: Any) -> None:
    """So that no wrapper leads to a real model by accident."""

    class Real(Breaking):
        real = True

    assert wrap(ScriptedModel()).real is False
    with no_real_models(), pytest.raises(BadInput, match="switched off"):
        await streamed(wrap(Real()))
    with no_real_models(), pytest.raises(BadInput, match="switched off"):
        await wrap(Real()).agenerate(ASK)


def test_an_agent_runs_on_a_wrapped_model_within_its_budget() -> None:
    """Cost in the usage is the cost of the run."""
    model = Priced(ScriptedModel([AIMessage("four", usage=COUNTED)]), {"input": 2.5, "output": 10})
    run = create_agent(Fallback(Retrying(model))).invoke("Two and two?")
    assert run.output == "four"
    assert run.used.cost == 7.5
