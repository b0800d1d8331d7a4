"""The cap on the size of a result: whatever has more bytes as JSON is refused, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from foreplan import Effect, Engine, Limits, Plan, Policies, Retry, tool
from foreplan.registry.values import size_of

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)


def settles(value: Any, most: int) -> bool:
    """Whether a step whose tool gives this value settles well under this cap."""

    @tool(effect=Effect.READS)
    async def give() -> Any:
        """Gives the value."""
        return value

    policies = Policies(limits=Limits(result_bytes=most), retry=Retry(attempts=1))
    run = Engine([give], policies=policies).run_blocking(
        Plan.model_validate({"steps": [{"id": "a", "tool": "give"}]})
    )
    assert run.ok or run.failures[0][1].code == "result_too_large"
    return run.ok


@given(VALUES, st.integers(-2, 2))
@example({"k" * 9000: 1}, -1)
@example({"a": {"b": 10**3000}}, -1)
@example({"é" * 4000: "é" * 4000}, -1)
@example({str(n): 1.0000000000000002 for n in range(64)}, -1)
def test_the_cap_holds_to_the_byte(value: Any, more: int) -> None:
    """Keys, numbers and nesting count as much as text does."""
    size = size_of(value)
    if size + more > 0:
        assert settles(value, size + more) == (more >= 0)


@pytest.mark.parametrize("value", [{"k" * 20_000_000: 1}, {"a": "x" * 20_000_000}, ["x" * 20_000_000]])
def test_twenty_megabytes_are_over_the_default(value: Any) -> None:
    """Wherever they are."""
    assert not settles(value, Limits().result_bytes)
