"""The jobs, killed at any event and taken up again: every effect once, and the same end.

What was done before the cut is done in a fresh world; then the run is resumed there, from the journal up to the cut. A call
that had begun and not ended counts as not made: someone who is asked about one that acts says to try again.
"""

from __future__ import annotations

import pytest
from jobs.cases import CASES
from jobs.job import STARTS, Case, every_plan, plan_of, said
from jobs.world import World
from support.virtual import now, run_virtual

from foreplan import Engine, MemoryJournal, Run, ToolContext, ToolFailure
from foreplan.executor import events as e


def engine_of(case: Case, world: World, journal: MemoryJournal) -> Engine:
    return Engine(world.tools, journal=journal, clock=lambda: STARTS + now(), decide=said(case))


def whole(case: Case, world: World) -> tuple[Run, list[e.Event]]:
    """The run without a cut, and its events."""
    journal = MemoryJournal()
    engine = engine_of(case, world, journal)
    plan = plan_of(case.job)

    async def main() -> Run:
        approval = engine.approve(plan, inputs=case.inputs, by="ada")
        return await engine.run(plan, inputs=case.inputs, approval=approval, run_id="r")

    return run_virtual("asyncio", main), list(journal.events("r"))


def resumed(case: Case, world: World, before: list[e.Event]) -> Run:
    """The run taken up after these events, in a world where they happened."""
    journal = MemoryJournal()
    log = journal.create("r")
    for event in before:
        log.append(event)
    log.close()
    tools = {tool.name: tool for tool in world.tools}

    async def main() -> Run:
        calls: dict[e.Path, e.CallAdmitted] = {}
        for event in before:
            if isinstance(event, e.CallAdmitted):
                calls[event.path] = event
            elif isinstance(event, e.CallSettled) and event.path in calls:
                try:
                    await tools[calls[event.path].tool].invoke(calls[event.path].args, ToolContext())
                except ToolFailure:
                    pass
        return await engine_of(case, world, journal).resume("r")

    return run_virtual("asyncio", main)


def same_end(case: Case, cuts: slice) -> None:
    world = case.world()
    end, events = whole(case, world)
    for cut in range(2, len(events))[cuts]:
        again = case.world()
        later = resumed(case, again, events[:cut])
        assert (later.state, later.output) == (end.state, end.output), (case, cut)
        assert sorted(again.did, key=str) == sorted(world.did, key=str), (case, cut)


@pytest.mark.parametrize("job", every_plan())
def test_a_job_that_was_cut_comes_to_the_same_end(job: str) -> None:
    """A few cuts in the first case of each."""
    same_end(next(case for case in CASES if case.job == job), slice(3, None, 11))


@pytest.mark.proof
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_job_that_was_cut_anywhere_comes_to_the_same_end(case: Case) -> None:
    """Every cut of every case."""
    same_end(case, slice(None))
