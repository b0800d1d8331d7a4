"""Tools whose result has the type that an argument says."""

from __future__ import annotations

from typing import Any

import pytest

from foreplan import Engine, MemoryJournal, Plan, Registry, Tool, ToolContext, tool
from foreplan.executor.events import CallSettled
from foreplan.policies.errors import SchemaRefused, ToolRefused
from foreplan.policies.failures import Happened, Kind
from foreplan.registry.tools import result_schema

FORM = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@tool(effect="reads", result_from="form")
def fill(form: dict[str, Any], value: Any = None) -> Any:
    """Give the value back."""
    return value


@tool(effect="reads", result_from=["options", "form"])
def pick(options: list[Any] | None = None, form: dict[str, Any] | None = None) -> Any:
    """Pick one."""
    return None


def test_the_schema_of_the_result_is_that_of_the_argument() -> None:
    """A schema as it is, a list as a choice, nothing where neither is given."""
    assert result_schema(fill, {"form": FORM}) == FORM
    assert result_schema(pick, {"options": ["a", {"id": 3, "label": "c"}]}) == {"enum": ["a", 3]}
    assert result_schema(pick, {"form": FORM, "options": None}) == FORM
    assert result_schema(pick, {}) is None


@pytest.mark.parametrize(
    "args",
    [
        {"form": {"type": "nothing"}},
        {"form": {"$ref": "https://example.com/x"}},
        {"form": "text"},
        {"options": []},
        {"options": [None]},
        {"options": [True]},
        {"options": [{"label": "a"}]},
        {"options": ["a", {"id": "a"}]},
        {"options": ["a"], "form": FORM},
    ],
)
def test_what_is_no_schema_and_no_choice_is_refused(args: dict[str, Any]) -> None:
    """Hostile schemas too: they come from a plan, or from data."""
    with pytest.raises(SchemaRefused):
        result_schema(pick, args)


@pytest.mark.parametrize("name", ["from", 3, ("form", "forms")])
def test_the_argument_must_be_one_of_the_tool(name: Any) -> None:
    """Asked when the tool is registered."""
    with pytest.raises(ToolRefused, match="result"):
        tool(result_from=name)(lambda_free)


def lambda_free(form: dict[str, Any]) -> Any:
    """A function with one argument."""


def test_it_is_part_of_the_contract_and_comes_back_from_it() -> None:
    """A tool that says nothing of the kind keeps the contract it had."""
    assert pick.contract()["result_from"] == ["options", "form"]
    assert "result_from" not in tool(lambda_free).contract()
    assert Tool.from_contract(pick.contract()).result_from == ("options", "form")


async def outcome(form: Any, value: Any) -> Any:
    """How one call of `fill` ends, as a run: with a form that no check could see."""
    inputs = {"type": "object", "properties": {"form": {"type": "object"}}, "required": ["form"]}
    step = {"id": "a", "tool": "fill", "args": {"form": {"$": "inputs.form"}, "value": value}}
    plan = Plan.model_validate({"steps": [step], "inputs": inputs})
    return await Engine(Registry(fill)).run(plan, inputs={"form": form})


@pytest.mark.anyio
async def test_a_result_is_held_against_the_schema_in_the_arguments() -> None:
    """Read closed; what does not fit is the tool's failure, after the call."""
    assert (await outcome(form=FORM, value={"n": 1}))["a"] == {"n": 1}
    for value in ({"n": "1"}, {"n": 1, "more": 2}, None):
        [(_, failure)] = (await outcome(form=FORM, value=value)).failures
        assert (failure.kind, failure.code, failure.happened) == (
            Kind.BUSINESS,
            "invalid_result",
            Happened.YES,
        )


@pytest.mark.anyio
async def test_a_hostile_schema_is_refused_before_the_call() -> None:
    """The arguments are wrong, and nothing has happened."""
    [(_, failure)] = (await outcome(form={"$ref": "#"}, value=1)).failures
    assert (failure.kind, failure.code, failure.happened) == (Kind.BAD_ARGS, "schema_refused", Happened.NO)


@pytest.mark.anyio
async def test_a_tool_counts_what_it_used_and_the_journal_has_it() -> None:
    """Model calls and tokens, by their names."""

    @tool(effect="reads")
    def spend(context: ToolContext) -> int:
        """Use something up."""
        context.count({"model_calls": 1, "input_tokens": 10})
        context.count({"input_tokens": 5})
        return 1

    journal = MemoryJournal()
    run = await Engine(Registry(spend), journal=journal).run(
        Plan.model_validate({"steps": [{"id": "a", "tool": "spend"}]})
    )
    [usage] = [event.usage for event in journal.events(run.id) if isinstance(event, CallSettled)]
    assert usage == {"model_calls": 1, "input_tokens": 15}
