"""Large results are kept once, by their hash; whoever reads them back finds them as they were (D5)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.events import opening, settled
from support.journals import BEFORE_CHAINS, change

from foreplan import Effect, Engine, Limits, Plan, Policies, Retry, Run, SqliteJournal, ask, tool
from foreplan.executor.events import CallSettled, RunClosed
from foreplan.executor.journal.records import from_text, hash_of, slowly, to_text
from foreplan.executor.runtime import Answer
from foreplan.policies.errors import JournalError

LARGE = 64 * 1024


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the journal is."""
    return tmp_path / "runs.sqlite3"


def held(path: Path, sql: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


@tool(effect=Effect.READS)
async def read(size: int) -> dict[str, Any]:
    """Gives rows of so many bytes, about."""
    return {"rows": [{"n": n, "text": "é" * 95} for n in range(size // 210)]}


PLAN = Plan.model_validate(
    {
        "steps": [
            {"id": "twice", "each": [1, 2], "tool": "read", "args": {"size": 300_000}},
            {"id": "small", "tool": "read", "args": {"size": 300}},
            {"id": "alone", "value": {"$": "twice[0].rows"}},
        ],
        "output": {"rows": {"$": "twice[0]"}, "n": {"$": "len(alone)"}},
    }
)


def ran(path: Path, **options: Any) -> tuple[Run, list[Any]]:
    with SqliteJournal(path, **options) as journal:
        run = Engine([read], journal=journal).run_blocking(PLAN)
        assert journal.verify(run.id).ok
        return run, list(journal.events(run.id))


def test_equal_results_are_kept_once(path: Path) -> None:
    """Two calls, one text; the events hold its hash and stay small; what is read back is what was given."""
    run, events = ran(path)
    assert run.ok
    [value, again] = [e.value for e in events if isinstance(e, CallSettled) and e.path[0] == "twice"]
    assert value == again == run["twice"][0]
    sizes = [size for (size,) in held(path, "SELECT length(CAST(body AS BLOB)) FROM events")]
    assert max(sizes) < LARGE
    kept = held(path, "SELECT hash, body FROM blobs")
    assert len(kept) == 3  # the result of both calls, the rows alone, the output
    assert all(hash_of(body) == key for key, body in kept)
    assert [e.output["n"] for e in events if isinstance(e, RunClosed)] == [run.output["n"]]


def test_small_results_stay_where_they_are(path: Path) -> None:
    """Up to the size that was asked for; nothing is apart then."""
    ran(path, inline_bytes=1 << 20)
    assert held(path, "SELECT count(*) FROM blobs") == [(0,)]


def test_runs_share_what_is_equal(path: Path) -> None:
    """Ten runs of one plan hold its large results once."""
    with SqliteJournal(path) as journal:
        engine = Engine([read], journal=journal)
        for _ in range(3):
            engine.run_blocking(PLAN)
    assert held(path, "SELECT count(*) FROM blobs") == [(3,)]


def test_a_run_is_taken_up_again_from_what_is_apart(path: Path) -> None:
    """A resumed run computes with the whole result."""
    plan = {
        "steps": [
            {"id": "rows", "tool": "read", "args": {"size": 300_000}},
            {"id": "asked", "tool": "ask", "args": {"question": "go on?", "options": ["yes", "no"]}},
            {"id": "n", "value": {"$": "len(rows.rows) if asked == 'yes' else 0"}},
        ],
        "output": {"$": "n"},
    }
    with SqliteJournal(path) as journal:
        engine = Engine([read, ask], journal=journal)
        waits = engine.run_blocking(Plan.model_validate(plan))
        [question] = waits.waiting
    with SqliteJournal(path) as journal:
        engine = Engine([read, ask], journal=journal)
        run = engine.resume_blocking(waits.id, decisions={question.id: Answer("answer", "ada", "yes")})
    assert run.output == 300_000 // 210


TAMPERED = {
    "changed": ("UPDATE blobs SET body = CAST('[]' AS BLOB)", "not what was written"),
    "removed": ("DELETE FROM blobs", "is missing"),
    "swapped": (
        "UPDATE blobs SET body = (SELECT body FROM blobs AS b WHERE b.hash <> blobs.hash LIMIT 1)",
        "not what was written",
    ),
}


@pytest.mark.parametrize("case", TAMPERED)
def test_a_large_result_that_was_changed_is_noticed(case: str, path: Path) -> None:
    """By whoever verifies, and by whoever reads: it is held against the hash that the chain covers."""
    statement, said = TAMPERED[case]
    run, _ = ran(path)
    change(path, statement)
    with SqliteJournal(path) as journal:
        assert said in str(journal.verify(run.id).problems)
        with pytest.raises(JournalError, match=said):
            list(journal.events(run.id))


def test_a_reference_that_was_changed_is_noticed(path: Path) -> None:
    """The hash stands in the text of the event, and the chain is over that text."""
    run, _ = ran(path)
    [(one,), (other,), _] = held(path, "SELECT lower(hex(hash)) FROM blobs")
    change(path, f"UPDATE events SET body = replace(body, '{one}', '{other}')")
    with SqliteJournal(path) as journal:
        assert "its hash does not follow" in str(journal.verify(run.id).problems)


def test_a_file_of_the_first_version_is_read_and_written(path: Path) -> None:
    """It gets what is new when it is opened, and keeps its runs."""
    with SqliteJournal(path) as journal:
        log = journal.create("old")
        for event in opening("old"):
            log.append(event)
        log.close()
    change(path, "DROP TABLE blobs", *BEFORE_CHAINS, "UPDATE meta SET value = '1' WHERE name = 'schema'")
    with SqliteJournal(path) as journal:
        before = list(journal.events("old"))
        log = journal.reopen("old")
        log.append(settled(len(before) + 1, "x" * 100_000))
        log.close()
        assert journal.verify("old").ok
        [*_, last] = journal.events("old")
    assert (len(before), last.value) == (2, "x" * 100_000)  # type: ignore[union-attr]
    assert held(path, "SELECT value FROM meta WHERE name = 'schema'") == [("5",)]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(), max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES, st.integers(0, 60))
def test_any_event_comes_back_whatever_is_apart(value: Any, most: int) -> None:
    """Whatever the size from which on a result is apart, the event is the same; text that is no UTF-8 included."""
    event = settled(3, value)
    record = slowly(event, most)
    assert from_text(record.data, record.apart.__getitem__) == event
    assert all(len(text) > most for text in record.apart.values())
    if not record.apart:
        assert (record.text, record.data) == to_text(event)


def test_many_large_results_in_one_commit(path: Path) -> None:
    """Fifty of two megabytes, half of them equal: each once, in order."""
    texts = [f"{n % 25} " * 400_000 for n in range(50)]
    with SqliteJournal(path) as journal:
        log = journal.create("a")
        for event in opening("a"):
            log.append(event)
        for place, text in enumerate(texts, 3):
            log.append(settled(place, text))
        log.close()
        found = [e.value for e in journal.events("a") if isinstance(e, CallSettled)]
    assert found == texts
    assert held(path, "SELECT count(*) FROM blobs") == [(25,)]


def test_output_over_the_cap_is_still_a_failure(path: Path) -> None:
    """To be kept apart is no way around `result_bytes`."""
    policies = Policies(limits=Limits(result_bytes=100_000), retry=Retry(attempts=1))
    with SqliteJournal(path) as journal:
        run = Engine([read], journal=journal, policies=policies).run_blocking(PLAN)
    assert {failure.code for _, failure in run.failures} >= {"result_too_large"}
