"""What every journal promises: order, one driver per run, approvals for one run, a list of runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.events import calls, opening, settled, short_run

from foreplan.executor.events import DecisionAsked, RunResumed, RunState
from foreplan.executor.journal.journal import Journal, MemoryJournal, RunLine, run_line
from foreplan.executor.journal.sqlite_journal import SqliteJournal
from foreplan.policies.errors import JournalError, NotApproved, UnknownRun
from foreplan.policies.permissions import ANYONE


@pytest.fixture(params=["memory", "sqlite"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    """Each promise is kept in memory and in SQLite."""
    if request.param == "memory":
        yield MemoryJournal()
    else:
        with SqliteJournal(tmp_path / "runs.sqlite3") as opened:
            yield opened


def record(journal: Journal, run: str, goal: str = "Say hello", state: RunState = "done") -> None:
    """A whole short run."""
    log = journal.create(run)
    for event in short_run(run, goal, state):
        log.append(event)
    log.close()


def test_events_come_back_in_order(journal: Journal) -> None:
    """What was appended is what is read, while the run goes on and after it."""
    log = journal.create("a")
    events = list(short_run("a"))
    for event in events[:3]:
        log.append(event)
    assert list(journal.events("a")) == events[:3]
    for event in events[3:]:
        log.append(event)
    log.close()
    assert list(journal.events("a")) == events


@pytest.mark.anyio
async def test_durable_returns_on_both_event_loops(journal: Journal) -> None:
    """Waiting works on asyncio and trio, also when there is nothing to wait for."""
    log = journal.create("a")
    await log.durable()
    for event in short_run("a"):
        log.append(event)
        await log.durable()
    await log.durable()
    log.close()
    assert list(journal.events("a")) == list(short_run("a"))


def test_runs_are_kept_apart(journal: Journal) -> None:
    """Two runs that take turns keep their own events."""
    logs = {run: journal.create(run) for run in ("a", "b")}
    for pair in zip(short_run("a", "First"), short_run("b", "Second"), strict=True):
        for log, event in zip(logs.values(), pair, strict=True):
            log.append(event)
    for run, log in logs.items():
        log.close()
        assert list(journal.events(run)) == list(short_run(run, {"a": "First", "b": "Second"}[run]))


def test_runs_are_listed_the_newest_first(journal: Journal) -> None:
    """Each line says how the run stands, what it is for, when it began and how much happened."""
    record(journal, "z", "First", "done")
    record(journal, "a", "Second", "stopped")
    record(journal, "m", "Third", "waiting")
    at = 1_700_000_000.5
    assert journal.runs() == [
        RunLine("m", "waiting", "waiting for people", "Third", at, 5),
        RunLine("a", "stopped", "cancelled", "Second", at, 5),
        RunLine("z", "done", "", "First", at, 5),
    ]


def test_a_run_is_taken_up_again(journal: Journal) -> None:
    """After its driver let go, a run goes on where it stopped, and its line says so."""
    record(journal, "a", state="waiting")
    log = journal.reopen("a")
    log.append(RunResumed(6, 1_700_000_100.0, 0.5, ANYONE))
    assert [type(event).__name__ for event in journal.events("a")][-2:] == ["RunPaused", "RunResumed"]
    assert journal.runs() == [RunLine("a", "running", "", "Say hello", 1_700_000_000.5, 6)]
    log.close()


def test_a_run_that_nobody_drives_does_not_run(journal: Journal) -> None:
    """Its driver ended without a word: the list says that it waits, interrupted; its events are as they were."""
    log = journal.create("a")
    for event in opening("a"):
        log.append(event)
    assert (journal.driven("a"), journal.runs()[0].state) == (True, "running")
    log.close()
    assert (journal.driven("a"), journal.runs()[0][1:3]) == (False, ("waiting", "interrupted"))
    assert len(list(journal.events("a"))) == len(opening("a"))


def test_a_run_has_one_driver(journal: Journal) -> None:
    """A second one is refused with a sentence, until the first lets go."""
    log = journal.create("a")
    for event in short_run("a", state="waiting"):
        log.append(event)
    with pytest.raises(JournalError, match="'a' is being driven already"):
        journal.reopen("a")
    log.close()
    journal.reopen("a").close()
    journal.reopen("a").close()


def test_an_id_is_used_once(journal: Journal) -> None:
    """A second run of the same id is refused, and the first is unharmed."""
    record(journal, "a")
    with pytest.raises(JournalError, match="a run 'a' exists already"):
        journal.create("a")
    assert len(list(journal.events("a"))) == 5


def test_an_unknown_run_is_named_with_its_neighbours(journal: Journal) -> None:
    """Reading or reopening what is not there says what may have been meant."""
    with pytest.raises(UnknownRun, match="no run 'a' in this journal; it holds none yet"):
        journal.events("a")
    record(journal, "refund-2024")
    for ask in (journal.events, journal.reopen):
        with pytest.raises(UnknownRun, match="did you mean 'refund-2024'"):
            ask("refund-2042")
        with pytest.raises(UnknownRun, match="the newest is 'refund-2024'"):
            ask("\udcff")


def test_an_approval_is_consumed_once(journal: Journal) -> None:
    """The run that consumed it is named; other runs, with or without approvals, are not disturbed (threat 10)."""
    log = journal.create("a", approval="yes-1")
    for event in short_run("a"):
        log.append(event)
    assert journal.run_of_approval("yes-1") == "a"
    with pytest.raises(
        NotApproved, match="'yes-1' is spent: it was consumed by run 'a'; approve the plan again"
    ):
        journal.create("b", approval="yes-1")
    log.close()
    with pytest.raises(NotApproved, match="run 'a'"):
        journal.create("b", approval="yes-1")
    record(journal, "b")
    assert journal.run_of_approval("yes-1") == "a"
    assert journal.run_of_approval("yes-2") is None


def test_an_approval_stays_with_its_run_when_that_is_resumed(journal: Journal) -> None:
    """Resuming needs no second approval and frees none."""
    log = journal.create("a", approval="yes-1")
    for event in short_run("a", state="waiting"):
        log.append(event)
    log.close()
    again = journal.reopen("a")
    again.append(RunResumed(6, 1_700_000_100.0, 0.5, ANYONE))
    again.close()
    assert journal.run_of_approval("yes-1") == "a"


def test_a_line_is_the_same_in_one_go_and_in_parts() -> None:
    """The list of runs is kept up event by event: any cut gives what the whole gives."""
    asked = DecisionAsked(6, 1_700_000_006.0, 0.5, "d1", "unknown", ("hello",), ("retry", "fail"), {})
    events = [*short_run("a", state="waiting"), asked, RunResumed(7, 1_700_000_007.0, 0.5, ANYONE)]
    whole = run_line("a", events)
    for cut in range(len(events) + 1):
        assert run_line("a", events[cut:], run_line("a", events[:cut])) == whole
    assert whole == RunLine("a", "running", "", "Say hello", 1_700_000_000.5, 7)


def test_reading_is_a_view_of_its_own(journal: Journal) -> None:
    """Appending while somebody reads does not disturb the reader."""
    log = journal.create("a")
    for event in [*opening("a"), *calls(3, 1500)]:
        log.append(event)
    reader = iter(journal.events("a"))
    assert next(reader).seq == 1
    log.append(settled(1503))
    assert len(list(reader)) == 1501
    log.close()
    assert len(list(journal.events("a"))) == 1503
