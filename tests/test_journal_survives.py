"""What was acknowledged stays: after a kill, on a full disk, in a damaged file; and nobody gets what was not written."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path

import pytest
from support.events import calls, opening, settled
from support.journals import CHILD, change, child, record

from foreplan import Engine, Plan
from foreplan.executor.journal.records import first_tip, next_tip
from foreplan.executor.journal.sqlite_journal import SqliteJournal
from foreplan.policies.errors import JournalError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the journal is."""
    return tmp_path / "runs.sqlite3"


@pytest.mark.parametrize("acknowledged", [1, 3, 100])
def test_what_was_acknowledged_survives_a_kill(path: Path, acknowledged: int) -> None:
    """After SIGKILL every event that was called durable is there, the chain holds, and the run is taken up again."""
    with child("append", path, "a") as (process, _, out):
        assert out.readline() == "ready\n"
        said = [out.readline() for _ in range(acknowledged)]
        process.kill()
        said += out.readlines()
    last = max(int(line) for line in said if line.endswith("\n"))
    with SqliteJournal(path, existing=True) as journal:
        assert journal.verify("a").ok
        there = len(list(journal.events("a")))
        assert there >= last >= acknowledged
        log = journal.reopen("a")
        log.append(settled(there + 1))
        log.close()
        assert journal.verify("a").ok
        assert journal.runs()[0].events == there + 1


def test_one_run_is_driven_by_one_process(path: Path) -> None:
    """Another process is refused while the owner lives, and only as long."""
    with child("line", path, "a") as (process, to, out):
        assert out.readline() == "ready\n"
        to.write("\n")
        to.flush()
        assert out.readline() == "1\n"
        with SqliteJournal(path) as journal:
            with pytest.raises(
                JournalError, match="run 'a' is being driven already, here or by another process"
            ):
                journal.reopen("a")
            assert len(list(journal.events("a"))) == 1
            assert (journal.driven("a"), journal.runs()[0].state) == (True, "running")
            process.kill()
            process.wait()
            assert (journal.driven("a"), journal.runs()[0].reason) == (False, "interrupted")
            journal.reopen("a").close()


def test_an_owner_that_was_stopped_and_wakes_cannot_write(path: Path) -> None:
    """Stopped with SIGSTOP, its lock removed by somebody in a hurry: once another took over, the owner is told."""
    with child("line", path, "a") as (process, to, out):
        assert out.readline() == "ready\n"
        to.write("\n")
        to.flush()
        assert out.readline() == "1\n"
        process.send_signal(signal.SIGSTOP)
        with SqliteJournal(path) as journal:
            with pytest.raises(JournalError, match="is being driven already"):
                journal.reopen("a")
            for lock in (path.parent / "runs.sqlite3-locks").iterdir():
                lock.unlink()
            log = journal.reopen("a")
            log.append(settled(2, "mine"))
            log.close()
            to.write("\n")
            to.flush()
            process.send_signal(signal.SIGCONT)
            assert out.readline().startswith("JournalError: run 'a' was taken over by another process")
            assert [event.value for event in journal.events("a")][1] == "mine"  # type: ignore[union-attr]
            assert journal.verify("a").ok


def test_processes_write_different_runs_to_one_file(path: Path) -> None:
    """They are started together on a file that does not exist yet, and each finds all that it wrote."""
    with (
        child("count", path, "a", 40) as (_, _, first),
        child("count", path, "b", 40) as (_, _, second),
        child("count", path, "c", 40) as (_, _, third),
    ):
        for out in (first, second, third):
            assert out.read().split() == ["ready", *map(str, range(1, 41))]
    with SqliteJournal(path, existing=True) as journal:
        assert {line.run: line.events for line in journal.runs()} == {"a": 40, "b": 40, "c": 40}
        assert [journal.verify(run).ok for run in "abc"] == [True] * 3


def test_a_full_disk_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """On a file system of half a megabyte: the run is told, and what it was told before is there."""
    code = f"""
        import sys, anyio
        sys.path.insert(0, {str(CHILD.parents[1])!r})
        from support.events import settled
        from foreplan import SqliteJournal
        from foreplan.policies.errors import JournalError
        async def fill():
            journal = SqliteJournal("small/runs.sqlite3")
            log = journal.create("a")
            seq = 0
            try:
                while True:
                    log.append(settled(seq + 1, "x" * 3000))
                    await log.durable()
                    seq += 1
            except JournalError as error:
                print(error)
            for use in (lambda: log.append(settled(seq + 2)), log.close, journal.close):
                try:
                    use()
                    print("no error")
                except JournalError as error:
                    pass
            again = SqliteJournal("small/runs.sqlite3")
            print(seq, len(list(again.events("a"))), again.verify("a").ok)
        anyio.run(fill)
    """
    said = in_small_world(code, tmp_path, "mount -t tmpfs -o size=512k,mode=700 none small")
    assert said[0].endswith("the disk is full; make room, then resume the run (SQLITE_FULL)")
    assert said[1] == "no error"  # the log was closed already: the journal has nothing left to tell
    seq, there, holds = said[2].split()
    assert int(seq) > 5
    assert int(seq) == int(there)
    assert holds == "True"


def test_a_read_only_file_system_is_named(tmp_path: Path) -> None:
    """Opening a journal on it says why that is impossible."""
    with SqliteJournal(tmp_path / "runs.sqlite3") as journal:
        record(journal, "a")
    code = """
        from foreplan import SqliteJournal
        from foreplan.policies.errors import JournalError
        for name in ("runs", "other"):
            try:
                journal = SqliteJournal(f"small/{name}.sqlite3")
                journal.create("b")
            except JournalError as error:
                print(error)
    """
    said = in_small_world(code, tmp_path, "mount --bind . small && mount -o remount,bind,ro small")
    assert len(said) == 2
    assert all("small" in line for line in said)
    assert all("permissions" in line or "Read-only file system" in line for line in said)


def test_a_journal_on_a_read_only_file_system_is_read(tmp_path: Path) -> None:
    """The list of runs, a run and its proof need nothing to be written; events that the log file holds are not passed over."""
    with SqliteJournal(tmp_path / "runs.sqlite3") as journal:
        plan = Plan.model_validate({"steps": [{"id": "one", "value": 1}]})
        Engine([], journal=journal).run_blocking(plan, run_id="a")
    with SqliteJournal(tmp_path / "torn.sqlite3") as journal:
        record(journal, "a")
        for end in ("", "-wal"):
            (tmp_path / f"left.sqlite3{end}").write_bytes((tmp_path / f"torn.sqlite3{end}").read_bytes())
    code = """
        from foreplan import SqliteJournal
        from foreplan.executor.recorded import read_run
        from foreplan.policies.errors import JournalError
        with SqliteJournal("small/runs.sqlite3", reading=True) as journal:
            print(journal.runs()[0].run, journal.verify("a").ok, read_run(journal, "a").state)
        try:
            SqliteJournal("small/left.sqlite3", reading=True)
        except JournalError as error:
            print(error)
        from foreplan.console.app import main
        print(*(main([*words, "--quiet", "--journal", "small/runs.sqlite3"]) for words in (["runs"], ["show", "a"])))
    """
    said = in_small_world(code, tmp_path, "mount --bind . small && mount -o remount,bind,ro small")
    assert said[0] == "a True done"
    assert said[1].endswith("copy the files to a folder that can be, and read them there")
    assert said[-1] == "0 0"


def in_small_world(code: str, folder: Path, mount: str) -> list[str]:
    """What Python says in a folder where `small` is a mount of its own; skips where that is not allowed."""
    (folder / "small").mkdir()
    (folder / "script.py").write_text(textwrap.dedent(code))
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    try:
        allowed = subprocess.run([*command, mount], cwd=folder, capture_output=True).returncode == 0
    except FileNotFoundError:
        allowed = False
    if not allowed:
        pytest.skip("this system does not let us mount file systems of our own")
    ran = subprocess.run(
        [*command, f"{mount} && cd . && {sys.executable} -W error script.py"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def test_a_write_that_fails_midway_is_undone(path: Path) -> None:
    """The system refuses to let the file grow: the commit fails as a whole, and the run is told."""
    code = f"""
        import resource, sys, anyio
        sys.path.insert(0, {str(CHILD.parents[1])!r})
        from support.events import settled
        from foreplan import SqliteJournal
        from foreplan.policies.errors import JournalError
        log = SqliteJournal(sys.argv[1]).create("a")
        log.append(settled(1))
        anyio.run(log.durable)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        for seq in range(2, 100):
            log.append(settled(seq, "x" * 5000))
        try:
            anyio.run(log.durable)
        except JournalError as error:
            print(error)
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(path)], capture_output=True, text=True, check=True
    )
    assert "the disk could not be read or written; check it and its free space (SQLITE_IOERR" in ran.stdout
    with SqliteJournal(path, existing=True) as journal:
        assert journal.verify("a").ok
        assert 1 <= len(list(journal.events("a"))) < 30


TAMPERED = {
    "a changed byte": (
        "UPDATE events SET body = replace(body, 'hello', 'HELLO') WHERE seq = 4",
        "event 4 of run 'a' is",
    ),
    "a changed hash": (
        "UPDATE events SET hash = x'00' WHERE seq = 4",
        "event 4 of run 'a' is not what was written",
    ),
    "a removed event": ("DELETE FROM events WHERE seq = 4", "event 4 of run 'a' is missing: 5 follows 3"),
    "a removed first event": (
        "DELETE FROM events WHERE seq = 1",
        "event 1 of run 'a' is missing: 2 follows 0",
    ),
    "a cut tail": ("DELETE FROM events WHERE seq >= 5", "event 5 of run 'a' is missing: 6 were written"),
    "an added event": (
        "INSERT INTO events SELECT run, 7, body, hash FROM events WHERE seq = 6",
        "7 events and should",
    ),
    "two in another order": (
        "UPDATE events SET seq = CASE seq WHEN 3 THEN -5 ELSE 3 END WHERE seq IN (3, 5);"
        "UPDATE events SET seq = 5 WHERE seq = -5",
        "event 3 of run 'a' is not what was written",
    ),
    "another run's event": (
        "UPDATE events SET (body, hash) = (SELECT body, hash FROM events WHERE run = 'b' AND seq = 2)"
        " WHERE run = 'a' AND seq = 2",
        "event 2 of run 'a' is not",
    ),
    "a line that says less": (
        "UPDATE runs SET events = 4 WHERE run = 'a'",
        "run 'a' has 6 events and should have 4",
    ),
    "a line with another end": (
        "UPDATE runs SET tip = x'00' WHERE run = 'a'",
        "the last event of run 'a' is not",
    ),
    "a body that is no text": ("UPDATE events SET body = x'ff00' WHERE seq = 4", "event 4 of run 'a' is not"),
}


@pytest.mark.parametrize("case", TAMPERED)
def test_a_record_that_was_changed_is_noticed(case: str, path: Path) -> None:
    """The chain of hashes says where it does not hold any more; other runs are not suspected."""
    statements, said = TAMPERED[case]
    with SqliteJournal(path) as journal:
        record(journal, "a", 6)
        record(journal, "b", 2)
        assert journal.verify("a").ok
    change(path, *statements.replace("WHERE seq", "WHERE run = 'a' AND seq").split(";"))
    with SqliteJournal(path) as journal:
        found = journal.verify("a")
        assert not found.ok
        assert said in found.problems[0]
        assert journal.verify("b").ok


def test_reading_stops_where_the_chain_breaks(path: Path) -> None:
    """A run is never resumed from a record that is not what was written: what comes before is given, then an error."""
    with SqliteJournal(path) as journal:
        record(journal, "a", 6)
    change(path, "UPDATE events SET body = '{}' WHERE seq = 4")
    with SqliteJournal(path) as journal:
        reader = journal.events("a")
        assert [next(reader).seq for _ in range(3)] == [1, 2, 3]
        with pytest.raises(
            JournalError, match="event 4 of run 'a' is not what was written: its hash does not follow"
        ):
            next(reader)


@pytest.mark.parametrize(
    "body", ["{}", "[]", '{"type":"Nothing"}', '{"type":"CallStarted"}', "not json", '"x"']
)
def test_a_text_that_is_no_event_is_named(path: Path, body: str) -> None:
    """Also when the chain was computed anew over it: a sentence, not an exception of the reader."""
    with SqliteJournal(path) as journal:
        record(journal, "a", 2)
    tip = next_tip(first_tip("a"), body.encode())
    change(path, "DELETE FROM events WHERE seq = 2")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE events SET body = ?, hash = ? WHERE seq = 1", (body, tip))
        connection.execute("UPDATE runs SET events = 1, tip = ?", (tip,))
    with SqliteJournal(path) as journal:
        with pytest.raises(JournalError, match="event 1 of run 'a' cannot be read"):
            list(journal.events("a"))
        assert "event 1 of run 'a' cannot be read" in str(journal.verify("a").problems)


def test_damage_names_the_run_that_it_touches(path: Path) -> None:
    """A page in the middle of one run's events is lost: its sentence names it, and the other runs are read."""
    with SqliteJournal(path) as journal:
        for run in ("a", "b", "c"):
            record(journal, run, 200)
    data = bytearray(path.read_bytes())
    at = data.rindex(b'"seq":150,') // 4096 * 4096  # of one of them
    data[at : at + 4096] = bytes(4096)
    path.write_bytes(data)
    with SqliteJournal(path, reading=True) as journal:
        said: dict[str, str] = {}
        for run in ("a", "b", "c"):
            try:
                list(journal.events(run))
            except JournalError as error:
                said[run] = str(error)
        assert len(said) == 1
        [(run, sentence)] = said.items()
        assert f"run {run!r}" in sentence
        assert "damaged; keep a copy" in sentence


def test_a_torn_log_file_loses_only_what_was_not_acknowledged(path: Path, tmp_path: Path) -> None:
    """Whatever the length to which a crash of the machine cuts the last commit, the journal opens and holds a prefix."""
    copy = tmp_path / "copy"
    copy.mkdir()
    with SqliteJournal(path) as journal:
        log = journal.create("a")
        for seq in range(1, 8):
            log.append(settled(seq, "x" * 1500))
            journal.runs()  # a commit each
        for file in path.parent.glob("runs.sqlite3*"):
            if file.is_file():
                (copy / file.name).write_bytes(file.read_bytes())
    whole = (copy / "runs.sqlite3-wal").read_bytes()
    (copy / "runs.sqlite3-shm").unlink()
    main = (copy / "runs.sqlite3").read_bytes()
    lengths = []
    for cut in range(0, len(whole), 2777):
        for name, data in (("runs.sqlite3", main), ("runs.sqlite3-wal", whole[: len(whole) - cut])):
            (copy / name).write_bytes(data)
        with SqliteJournal(copy / "runs.sqlite3") as journal:
            runs = journal.runs()
            assert all(journal.verify(line.run).ok for line in runs)
            lengths.append(len(list(journal.events("a"))) if runs else 0)
    assert lengths[0] == 7
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[-1] < 3


@pytest.mark.parametrize("page", range(1, 8))
def test_a_damaged_page_is_an_error_and_never_other_data(path: Path, page: int) -> None:
    """Overwritten anywhere, the journal says so where it is read: nobody gets an event that was not written."""
    with SqliteJournal(path) as journal:
        record(journal, "a", 60)
    data = bytearray(path.read_bytes())
    start = page * 4096
    assert start < len(data)
    data[start : start + 4096] = bytes(reversed(data[start : start + 4096]))
    path.write_bytes(data)
    try:
        with SqliteJournal(path) as journal:
            written = list(journal.events("a"))
    except JournalError:
        return
    assert written == [*opening("a"), *calls(3, 58)]
