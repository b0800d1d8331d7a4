"""Any moment of a run can be looked at, a run can be run again on its record, and forked from a step."""

from __future__ import annotations

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from support.chaos import Dreamer, FaultyJournal, Unchecked, World, plans, sound_plans, worlds
from support.virtual import BACKENDS, now
from test_executor_properties import driven, policies

from foreplan import Plan, Policies
from foreplan.executor.comparing import Comparison

MANY = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


def again(engine: Unchecked, world: World) -> Comparison:
    """The run, run again with everything as it was; no tool is called."""
    made = len(world.made)
    found = engine.replay("r")
    assert len(world.made) == made
    return found


@MANY
@given(
    plans() | sound_plans(),
    worlds(),
    policies,
    st.sampled_from(BACKENDS),
    st.integers(0, 5),
    st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.5, 4.0, 7.0]), max_size=8),
    st.sampled_from([0, 0, 5, 11, 17, 23]),
)
def test_the_same_code_decides_the_same_whatever_happened(
    plan: Plan, world: World, rules: Policies, backend: str, choice: int, cuts: list[float], fails_at: int
) -> None:
    """Any plan in any world, cut, cancelled, out of disk, mended: replayed on its record, event for event the same."""
    journal = FaultyJournal()
    journal.fails_at = fails_at
    engine = Unchecked(world.registry, Dreamer(choice), policies=rules, journal=journal, clock=now)
    driven(backend, engine, plan, choice, cuts)
    found = again(engine, world)
    assert found.identical, found
    assert found.same
    event(f"cuts {bool(cuts)}")
