"""A misspelt or missing argument is a sentence with the next move, and never Python's bare TypeError."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import foreplan
from foreplan import Engine, MemoryJournal, Plan, Registry, create_agent
from foreplan.policies.errors import BadInput, ForeplanError
from foreplan.policies.spelling import spelled

untyped: Any = foreplan
PLAN = Plan.model_validate({"steps": [{"id": "a", "value": 1}]})
RECORDS = frozenset(
    [
        "Approval",
        "Batch",
        "RowLimit",
        "RowResult",
        "CannotPlan",
        "Effect",
        "Failure",
        "ForeplanError",
        "Found",
        "Keep",
        "Kind",
        "Level",
        "MemoryJournal",
        "Roles",
        "Run",
        "Tool",
        "ToolContext",
        "ToolFailure",
        "ask",
        "guarded_client",
        "mcp_tools",
    ]
)
"""What is made by the library itself, is raised, or takes any option for somebody else."""


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda e: e.run_blocking(PLAN, input={}),
            "run_blocking has no option 'input'; did you mean 'inputs'?",
        ),
        (lambda e: e.approve(PLAN), "approve needs 'by'"),
        (lambda e: e.check(PLAN, policies=1), "check has no option 'policies'"),
        (lambda e: e.run_blocking(), "run_blocking needs 'plan'"),
        (lambda e: untyped.Engine(), "Engine needs 'registry'"),
        (
            lambda e: untyped.Engine([], None, None),
            "Engine takes 2 arguments by place, not 3; name the others",
        ),
        (lambda e: untyped.Engine([], registry=[]), "Engine is given 'registry' twice, by place and by name"),
        (
            lambda e: untyped.Engine([], budget=1),
            "Engine has no option 'budget'; write policies=Policies(budget=...)",
        ),
        (lambda e: untyped.Engine([], model=1), "has no option 'model'; write react=React(model)"),
        (lambda e: untyped.Engine(tools=[]), "Engine has no option 'tools'; write registry=..."),
        (
            lambda e: create_agent(e, sytem_prompt="x"),
            "create_agent has no option 'sytem_prompt'; did you mean 'system_prompt'?",
        ),
        (lambda e: create_agent(e, aproval=1), "create_agent has no option 'aproval'"),
        (lambda e: untyped.Engine("tools.py"), "not as a name ('tools.py'); import them first"),
    ],
)
def test_what_a_function_does_not_take_is_said_with_the_next_move(
    call: Callable[[Any], object], said: str
) -> None:
    """The nearest option, where it stands elsewhere, or what is missing."""
    with pytest.raises(BadInput, match=re.escape(said)):
        call(Engine([]))


async def _refused() -> None:
    engine: Any = Engine([])
    with pytest.raises(BadInput, match="run has no option 'input'; did you mean 'inputs'"):
        await engine.run(PLAN, input={})


@pytest.mark.anyio
async def test_an_async_method_says_it_too() -> None:
    """Where it is awaited."""
    await _refused()


@pytest.mark.parametrize("name", sorted(set(foreplan.__all__) - RECORDS))
def test_everything_public_names_the_option_it_does_not_have(name: str) -> None:
    """Whatever is called with an option that nobody has says so in our words."""
    with pytest.raises(ForeplanError):
        getattr(foreplan, name)(no_such_option=1)


def test_an_error_inside_is_left_alone() -> None:
    """A TypeError of the function itself, whose arguments were right, is its own."""

    @spelled
    def add(one: Any, other: Any) -> Any:
        return one + other

    with pytest.raises(TypeError, match="unsupported operand"):
        add(1, "a")
    with pytest.raises(BadInput, match="add has no option 'ohter'; did you mean 'other'"):
        add(1, ohter=2)  # type: ignore[call-arg]


def test_a_subclass_is_told_in_its_own_name_or_that_of_its_parent() -> None:
    """Whoever extends an engine passes on what it does not know itself."""

    class Mine(Engine):
        def __init__(self, **options: Any) -> None:
            super().__init__(Registry(), **options)

    assert isinstance(Mine(journal=MemoryJournal()), Engine)
    with pytest.raises(BadInput, match="Engine has no option 'jurnal'; did you mean 'journal'"):
        Mine(jurnal=MemoryJournal())
