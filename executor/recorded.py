"""Runs as their journal tells them: the state after all of its events, or after some, without any of the tools."""

from __future__ import annotations

from ..planner.approvals import (
    calls_of,
    tools_of,
)
from ..policies.collector import all_stays
from ..policies.errors import (
    BadInput,
    UnknownRun,
)
from ..registry.registry import Registry
from ..registry.tools import Tool
from . import events as e
from .changes import contracts_of, terms_of
from .events import Event
from .journal.journal import Journal
from .mind.batch import shared_results
from .mind.mind import replay
from .mind.rows import Common, common_of, of_shared, patches_of, shared_id
from .mind.state import State
from .run import Run, run_of

__all__ = [
    "batch_opened",
    "common_of_row",
    "common_recorded",
    "events_so_far",
    "is_closed",
    "read_run",
    "recorded",
    "without_contract",
]


def read_run(journal: Journal, run_id: str, *, at: int | None = None) -> Run:
    """A run as its journal tells it, or as it stood after event `at`, by the contracts that were recorded."""
    with all_stays():
        state = recorded(journal, run_id, at)
        if at is None:  # after a kill the journal does not say that the run waits
            state.waiting = state.waiting or not journal.driven(run_id)
        return run_of(state)


def recorded(journal: Journal, run_id: str, at: int | None = None) -> State:
    events = list(journal.events(run_id))
    if at is not None:
        if not (isinstance(at, int) and 1 <= at <= len(events)):
            raise BadInput(f"run {run_id!r} has the events 1 to {len(events)}, and none {at!r}")
        events = events[:at]
    if events and isinstance(events[0], e.BatchOpened):
        row = f"its rows are runs, as {run_id + '.1'!r}"
        raise BadInput(
            f"{run_id!r} is a batch, and no run: engine.show_batch, or foreplan show, tells of it; {row}"
        )
    if events and isinstance(events[0], e.RowOpened):
        common = common_recorded(journal, events[0].batch, shared=events[0].ordinal == 0)
        return replay(State(common.registry, common), events)
    if not events or not isinstance(events[0], e.RunOpened):
        raise UnknownRun(f"the journal of run {run_id!r} does not begin with its opening")
    missing = without_contract(events)
    if missing:
        raise BadInput(
            f"run {run_id!r} cannot be read: its journal holds no contract of tool {missing[0]!r}, which its plan calls"
        )
    tools = [Tool.from_contract(contract) for contract in contracts_of(events).values()]
    return replay(State(Registry(*tools)), events)


def batch_opened(journal: Journal, batch: str) -> e.BatchOpened:
    """What a batch was opened with. Raises `UnknownRun`, and `BadInput` for a run that is none."""
    first = next(iter(journal.events(batch)), None)
    if not isinstance(first, e.BatchOpened):
        if isinstance(first, e.RowOpened):
            raise BadInput(f"{batch!r} is a row of batch {first.batch!r}, and no batch: say {first.batch!r}")
        raise BadInput(f"{batch!r} is a run, and no batch")
    return first


def common_of_row(journal: Journal, row: e.RowOpened) -> Common:
    """What a row went by, as far as all rows share it: what somebody accepted after it had ended is none of it."""
    ends = (end.seq for end in journal.some(row.batch, (e.RowSettled,)) if _ends(end, row.ordinal))
    return common_recorded(journal, row.batch, shared=row.ordinal == 0, until=max(ends, default=None))


def _ends(event: Event, ordinal: int) -> bool:
    return isinstance(event, e.RowSettled) and event.ordinal == ordinal


def common_recorded(
    journal: Journal, batch: str, *, shared: bool = False, until: int | None = None
) -> Common:
    """What the rows of a batch have in common, by the contracts that were recorded; or (`shared`) the run of what they share.

    `until`: by what had been accepted at this event of the batch.
    """
    opened = batch_opened(journal, batch)
    later = journal.some(batch, (e.RunResumed, e.RowsReopened))
    accepted = (event for event in later if until is None or event.seq < until)
    tools = [Tool.from_contract(contract) for contract in terms_of(opened, accepted).contracts.values()]
    settled = (event for event in journal.some(batch, (e.GroupSettled,)) if isinstance(event, e.GroupSettled))
    common = common_of(opened, Registry(*tools))._replace(patches=patches_of(settled))
    if not opened.shared:
        return common
    own = of_shared(common, opened)
    if shared:
        return own
    ended = replay(State(own.registry, own), events_so_far(journal, shared_id(batch)))
    return common._replace(shared=shared_results(ended) if ended.closed is not None else {})


def without_contract(events: list[Event]) -> list[str]:
    """The tools that a run's plan and patches call, and whose contracts its opening should hold and does not."""
    held = events[0].contracts if isinstance(events[0], e.RunOpened) else {}
    called: list[str] = []
    for event in events:
        if isinstance(event, e.PlanAccepted):
            called += tools_of(event.plan)
        elif isinstance(event, e.PatchAccepted) and event.patch is not None:
            called += calls_of(event.patch.every_step)
    return [name for name in dict.fromkeys(called) if name not in held]


def events_so_far(journal: Journal, run_id: str) -> list[Event]:
    """The events of a run that may not have begun."""
    try:
        return list(journal.events(run_id))
    except UnknownRun:
        return []


def is_closed(run_id: str, closed: e.RunClosed, *, what: str = "run") -> BadInput:
    return BadInput(f"{what} {run_id!r} is closed ({closed.state}): {closed.message}")
