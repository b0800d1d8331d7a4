"""A journal as JSON Lines and back, and what a rule deletes: nothing is lost unseen."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.events import opening, settled, short_run
from support.journals import write
from support.tampering import at

from foreplan import HmacSigner, SqliteJournal
from foreplan.executor.events import RunOpened
from foreplan.policies.errors import BadInput, JournalError, UnknownRun
from foreplan.policies.signing import Signer

KEY = HmacSigner(b"k" * 32)


def filled(path: Path, key: Signer | None = None) -> SqliteJournal:
    """Runs: "a" is done and spent an approval, "b" failed, "c" waits, with a large result and a personal value."""
    journal = SqliteJournal(path, key=key)
    for run, state in (("a", "done"), ("b", "failed")):
        log = journal.create(run, approval=f"yes-{run}")
        first, *rest = short_run(run, state=state)  # type: ignore[arg-type]
        assert isinstance(first, RunOpened)
        write(log, [first._replace(approval={"id": f"yes-{run}"}), *rest])
        log.close()
    log = journal.create("c")
    first, accepted = opening("c")
    assert isinstance(first, RunOpened)
    rules = first.policies.model_copy(update={"personal": {"inputs": ("/who",)}})
    write(log, [first._replace(policies=rules, inputs={"who": "Zoë"}), accepted, settled(3, "é" * 100_000)])
    log.close()
    return journal


@pytest.mark.parametrize("key", [None, KEY])
def test_a_journal_comes_back_as_it_was(key: Signer | None, tmp_path: Path) -> None:
    """All runs and events, chain, seals and positions: the second export is the first, and proves the same."""
    with filled(tmp_path / "one.db", key) as one, SqliteJournal(tmp_path / "two.db") as two:
        lines = list(one.exported())
        assert two.take_in(lines) == ["a", "b", "c"]
        assert list(two.exported()) == lines
        assert all(list(two.events(run)) == list(one.events(run)) for run in "abc")
        assert two.verify(key=key, last=one.verify().position).ok
        assert two.run_of_approval("yes-a") == "a"


def test_one_run_joins_another_journal(tmp_path: Path) -> None:
    """It enters the chain that is there and gets its seal; the position that was kept of it still holds."""
    with filled(tmp_path / "one.db") as one, SqliteJournal(tmp_path / "two.db", key=KEY) as two:
        assert two.take_in(list(one.exported("c"))) == ["c"]
        assert two.take_in(list(one.exported("a"))) == ["a"]
        assert two.verify(key=KEY).ok
        assert two.verify("c", last=one.position("c")).ok
        assert list(two.events("c")) == list(one.events("c"))
        log = two.reopen("c")
        write(log, [settled(4, 1)])
        log.close()
        assert two.verify(key=KEY).ok
        with pytest.raises(JournalError, match="in the journal already"):
            two.take_in(list(one.exported("a")))
        with pytest.raises(UnknownRun):
            list(one.exported("z"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: [*lines[:4], lines[4][:-9], *lines[5:]], "line 5 of the export cannot be read"),
        (lambda lines: lines[:-1], "the export is cut"),
        (lambda lines: lines[:-3], "the export is cut"),
        (lambda lines: [*lines[:6], *lines[7:]], "the export is cut"),
        (lambda lines: lines[1:], "cannot be read"),
        (lambda lines: [], "the export is cut|no export"),
        (lambda lines: [line.replace("Say hello", "Say no") for line in lines], "nothing was imported"),
        (lambda lines: ["{}", *lines[1:]], "cannot be read"),
    ],
)
def test_an_export_that_was_changed_or_torn_is_not_taken_in(
    change: object, said: str, tmp_path: Path
) -> None:
    """Not a line of it: the journal is what it was."""
    with filled(tmp_path / "one.db") as one, SqliteJournal(tmp_path / "two.db") as two:
        lines = change(list(one.exported()))  # type: ignore[operator]
        with pytest.raises((BadInput, JournalError), match=said):
            two.take_in(lines)
        assert two.runs() == []
        assert two.verify().ok


def test_a_sealed_export_is_not_sealed_anew_by_import(tmp_path: Path) -> None:
    """Whoever has the key does not lend it to what was changed without it."""
    with filled(tmp_path / "one.db", KEY) as one:
        text = "\n".join(one.exported("a"))
    with at(tmp_path / "one.db") as connection:
        [(seal,)] = connection.execute("SELECT hex(seal) FROM runs WHERE run = 'a'")
    lines = text.replace(seal.lower(), "00" * 32).split("\n")
    with (
        SqliteJournal(tmp_path / "two.db", key=KEY) as two,
        pytest.raises(JournalError, match="the seal of run 'a'"),
    ):
        two.take_in(lines)


def test_what_a_rule_deletes_is_told_from_what_somebody_deleted(tmp_path: Path) -> None:
    """Closed runs of long ago go, failed ones if they may; their approvals stay spent and their ids taken."""
    later = 1_700_000_005.0 + 90 * 86_400 + 1
    with filled(tmp_path / "one.db", KEY) as journal:
        position = journal.position("a")
        assert journal.prune(older_than=90 * 86_400, now=later - 2) == []
        assert journal.prune(older_than=90 * 86_400, keep_failed=True, now=later) == ["a"]
        found = journal.verify(key=KEY)
        assert (found.ok, found.pruned, found.runs) == (True, 1, 2)
        assert journal.verify("a", key=KEY, last=position).ok
        assert journal.run_of_approval("yes-a") == "a"
        with pytest.raises(JournalError, match="exists already"):
            journal.create("a")
        assert journal.prune(older_than=90 * 86_400, now=later) == ["b"]
        assert [line.run for line in journal.runs()] == ["c"]
        assert journal.verify("c").ok
        with at(tmp_path / "one.db") as connection:
            connection.execute("DELETE FROM spent WHERE run = 'b'")
        assert "used an approval" in journal.verify().problems[0]


def test_large_results_go_with_the_last_run_that_holds_them(tmp_path: Path) -> None:
    """And stay as long as another one does."""
    with SqliteJournal(tmp_path / "one.db") as journal:
        for run in "ab":
            log = journal.create(run)
            *events, end = short_run(run)
            write(log, [*events, settled(5, "x" * 100_000), end._replace(seq=6, at=end.at + (run == "b"))])
            log.close()
        count = "SELECT count(*) FROM blobs"
        for at_, expected in ((1_700_000_005.5, 1), (1_700_000_006.5, 0)):
            assert len(journal.prune(older_than=0, now=at_)) == 1
            with at(tmp_path / "one.db") as connection:
                assert connection.execute(count).fetchone() == (expected,)
            assert journal.verify().ok
