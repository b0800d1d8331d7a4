"""The journal in SQLite: who may open, drive and leave it; every refusal says what to do."""

from __future__ import annotations

import gc
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import textwrap
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from support.events import opening, settled, short_run
from support.journals import CHILD, change, record, write

from foreplan import Engine, Plan, ToolFailure, tool
from foreplan.executor.journal import ledger
from foreplan.executor.journal.journal import RunLine
from foreplan.executor.journal.ledger import Ledger, Tail
from foreplan.executor.journal.records import first_tip
from foreplan.executor.journal.sqlite_file import SqliteFile, network_mount
from foreplan.executor.journal.sqlite_journal import SqliteJournal
from foreplan.policies.effect import Effect
from foreplan.policies.errors import JournalError, NotApproved
from foreplan.policies.signing import HmacSigner


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the journal is."""
    return tmp_path / "runs.sqlite3"


@pytest.fixture
def journal(path: Path) -> Iterator[SqliteJournal]:
    """An open journal."""
    with SqliteJournal(path) as journal:
        yield journal


# ---------------------------------------------------------------------------------------------- making and opening


def test_the_files_are_for_their_owner_alone(journal: SqliteJournal, path: Path) -> None:
    """Database, log and shared memory have mode 0600, the directory of locks 0700, and closed runs leave no lock."""
    log = journal.create("a")
    write(log, opening("a"))
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in [*path.parent.iterdir()]}
    assert modes.pop("runs.sqlite3-locks") == 0o700
    assert modes == dict.fromkeys(["runs.sqlite3", "runs.sqlite3-wal", "runs.sqlite3-shm"], 0o600)
    locks = list((path.parent / "runs.sqlite3-locks").iterdir())
    assert [stat.S_IMODE(lock.stat().st_mode) for lock in locks] == [0o600]
    log.close()
    assert list((path.parent / "runs.sqlite3-locks").iterdir()) == []


def test_a_journal_is_opened_again(path: Path) -> None:
    """What one process wrote another reads; a relative path means the same file after `chdir`."""
    with SqliteJournal(path) as journal:
        record(journal, "a")
        assert repr(journal) == f"<SqliteJournal {path}>"
    with SqliteJournal(os.path.relpath(path), existing=True) as journal:
        here = os.getcwd()
        try:
            os.chdir("/")
            assert [line.run for line in journal.runs()] == ["a"]
        finally:
            os.chdir(here)
        assert journal.path == path


def no_directory(path: Path) -> Path:
    return path / "deeper" / "runs.sqlite3"


def a_directory(path: Path) -> Path:
    path.mkdir()
    return path


def a_link(path: Path) -> Path:
    path.with_name("elsewhere").touch()
    path.symlink_to(path.with_name("elsewhere"))
    return path


def a_dangling_link(path: Path) -> Path:
    path.symlink_to(path.with_name("elsewhere"))
    return path


def a_linked_log(path: Path) -> Path:
    path.with_name("runs.sqlite3-wal").symlink_to(path.with_name("elsewhere"))
    return path


def a_pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def an_empty_file(path: Path) -> Path:
    path.touch()
    return path


def a_text(path: Path) -> Path:
    path.write_text("Dear diary, " * 1000)
    return path


def another_database(path: Path) -> Path:
    change(path, "CREATE TABLE books (title TEXT)")
    return path


def a_newer_schema(path: Path) -> Path:
    SqliteJournal(path).close()
    change(path, "UPDATE meta SET value = '6' WHERE name = 'schema'")
    return path


def damaged(path: Path) -> Path:
    with SqliteJournal(path) as journal:
        record(journal, "a")
    data = bytearray(path.read_bytes())
    data[100:4096] = b"\xa5" * (4096 - 100)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (no_directory, "there is no directory .*deeper for the journal; make it first, or name another file"),
        (a_directory, "is no regular file; name another one"),
        (a_link, "is a symbolic link; give the file that it points to"),
        (a_dangling_link, "is a symbolic link"),
        (a_linked_log, "runs.sqlite3-wal is a symbolic link"),
        (a_pipe, "is no regular file"),
        (an_empty_file, "is an empty file and no journal; remove it, or name another file"),
        (a_text, r"is no SQLite database; name another file \(SQLITE_NOTADB\)"),
        (another_database, "is the database of something else; name a file of its own"),
        (a_newer_schema, "written by a newer foreplan .schema 6, this one reads 5.; upgrade foreplan"),
        (damaged, r"is damaged; keep a copy and restore it from a backup \(SQLITE_CORRUPT"),
    ],
)
def test_what_cannot_be_a_journal_is_refused(make: Callable[[Path], Path], said: str, path: Path) -> None:
    """A sentence names the file and the next move; the file is as it was."""
    made = make(path)
    before = made.read_bytes() if made.is_file() else None
    with pytest.raises(JournalError, match=said):
        SqliteJournal(made)
    assert (made.read_bytes() if made.is_file() else None) == before
    assert not path.with_name("elsewhere").exists() or path.with_name("elsewhere").read_bytes() == b""


def test_a_journal_that_must_exist_is_not_made(path: Path) -> None:
    """Whoever only reads gets a sentence instead of an empty file."""
    with pytest.raises(JournalError, match="there is no journal"):
        SqliteJournal(path, existing=True)
    assert not path.exists()


def test_what_is_opened_for_reading_is_not_changed(path: Path) -> None:
    """No file is made, no run is begun, and a database without our tables stays one."""
    with pytest.raises(JournalError, match="there is no journal"):
        SqliteJournal(path, reading=True)
    change(path, "CREATE TABLE books (title TEXT)", "DROP TABLE books")
    with pytest.raises(JournalError, match="is no journal; name another file"):
        SqliteJournal(path, reading=True)
    path.unlink()
    with SqliteJournal(path) as journal:
        record(journal, "a")
    with SqliteJournal(path, reading=True) as journal:
        assert [line.run for line in journal.runs()] == ["a"]
        assert journal.verify("a").ok
        for take in (journal.create, journal.reopen):
            with pytest.raises(JournalError, match="was opened for reading"):
                take("a")


def test_locks_are_not_put_behind_a_link(journal: SqliteJournal, path: Path, tmp_path: Path) -> None:
    """A link in place of the directory of locks is refused."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "runs.sqlite3-locks").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(JournalError, match="-locks must be a directory of its own"):
        journal.create("a")
    assert list((tmp_path / "elsewhere").iterdir()) == []


MOUNTS = """\
/dev/vda / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/vdb /home/local xfs rw 0 0
//box/share /mnt/my\\040share cifs rw 0 0
me@host: /mnt/ssh fuse.sshfs rw 0 0
/dev/vdc /twice ext4 rw 0 0
server:/twice /twice nfs rw 0 0
tmpfs /homes tmpfs rw 0 0
nonsense
"""


@pytest.mark.parametrize(
    ("directory", "kind"),
    [
        ("/", None),
        ("/var/lib", None),
        ("/home", "nfs4"),
        ("/home/ada/runs", "nfs4"),
        ("/homes/ada", None),
        ("/home/local/ada", None),
        ("/mnt/my share", "cifs"),
        ("/mnt/ssh/x", "fuse.sshfs"),
        ("/twice/x", "nfs"),
    ],
)
def test_network_file_systems_are_recognised(directory: str, kind: str | None) -> None:
    """By the nearest mount above the directory, the last one mounted there."""
    assert network_mount(directory, MOUNTS) == kind
    assert network_mount(directory, "") is None


def test_nothing_is_loaded_before_a_journal_is_used() -> None:
    """The contract and the journal in memory do without SQLite."""
    code = "import sys, foreplan.executor.journal.journal, foreplan.executor.events; sys.exit('sqlite3' in sys.modules)"
    assert subprocess.run([sys.executable, "-P", "-c", code]).returncode == 0


# ---------------------------------------------------------------------------------------------- appending


def test_events_follow_one_another(journal: SqliteJournal) -> None:
    """A gap or a repetition is refused, and the run goes on."""
    log = journal.create("a")
    log.append(settled(1))
    for seq in (1, 3):
        with pytest.raises(JournalError, match=f"event {seq} of run 'a' cannot be written: 2 comes next"):
            log.append(settled(seq))
    log.append(settled(2))
    log.close()
    assert journal.verify("a").ok


@pytest.mark.anyio
async def test_an_event_that_is_no_json_stops_its_own_run(journal: SqliteJournal) -> None:
    """What came before it is kept, other runs go on, and the run can be taken up again."""
    good, bad = journal.create("good"), journal.create("bad")
    write(bad, [settled(1), settled(2, {"x": {1, 2}}), settled(3)])
    good.append(settled(1))
    with pytest.raises(
        JournalError, match=r"event 2 \(CallSettled\) of run 'bad' is no plain JSON: TypeError"
    ):
        await bad.durable()
    with pytest.raises(JournalError, match="event 2"):
        bad.append(settled(4))
    await good.durable()
    good.append(settled(2))
    good.close()
    with pytest.raises(JournalError, match="event 2"):
        bad.close()
    assert [event.seq for event in journal.events("bad")] == [1]
    again = journal.reopen("bad")
    again.append(settled(2))
    again.close()
    assert [journal.verify(run).ok for run in ("good", "bad")] == [True, True]


def handed_over() -> None:
    """The disk works from here on; nobody waits for that here."""


def test_what_waits_behind_a_failure_is_not_written(journal: SqliteJournal, path: Path) -> None:
    """Events that were appended before their run was told of the failure would leave a gap."""
    ledger = Ledger(SqliteFile(path, existing=True, patience=1))
    tail = Tail(RunLine("a", "running", "", "", 0.0, 0), first_tip("a"), epoch=1, approval=None)
    ledger.write([(tail, settled(1)), (tail, settled(2, object()))], handed_over)
    assert tail.failure.startswith("event 2 (CallSettled) of run 'a' is no plain JSON")
    ledger.write([(tail, settled(3))], handed_over)
    ledger.close()
    assert [event.seq for event in journal.events("a")] == [1]


def test_a_place_in_a_run_is_written_once(journal: SqliteJournal, path: Path) -> None:
    """Two events of one place in a run cannot both be written, whoever believes to be the owner."""
    record(journal, "a", 3)
    ledger = Ledger(SqliteFile(path, existing=True, patience=1))
    tail = Tail(RunLine("a", "running", "", "", 0.0, 2), first_tip("a"), epoch=1, approval=None)
    other = Tail(RunLine("b", "running", "", "", 0.0, 0), first_tip("b"), epoch=1, approval=None)
    ledger.write([(tail, settled(3)), (other, settled(1))], handed_over)
    ledger.close()
    assert tail.failure.startswith("the events of run 'a' do not follow what the journal holds")
    assert other.failure == ""
    assert [journal.verify(run).ok for run in ("a", "b")] == [True, True]


@pytest.mark.anyio
async def test_large_results_go_in_parts(journal: SqliteJournal) -> None:
    """Results of megabytes, many runs and many events in one commit are written and read back as they were."""
    logs = [journal.create(f"r{n}") for n in range(130)]
    for log in logs[1:]:
        log.append(settled(1))
    for seq in range(1, 6):
        logs[0].append(settled(seq, "ü" * 700_000))
    await logs[0].durable()
    for log in logs:
        log.close()
    assert [len(event.value) for event in journal.events("r0")] == [700_000] * 5  # type: ignore[union-attr]
    assert sorted(line.events for line in journal.runs()) == [1] * 129 + [5]
    assert all(journal.verify(line.run).ok for line in journal.runs())


@pytest.mark.anyio
async def test_a_line_that_was_taken_away_does_not_come_back(journal: SqliteJournal, path: Path) -> None:
    """Whoever goes on with a run whose line somebody deleted is told so, and none of its events is written."""
    log = journal.create("a")
    write(log, opening("a"))
    await log.durable()
    change(path, "DELETE FROM runs WHERE run = 'a'")
    log.append(settled(3))
    with pytest.raises(
        JournalError, match=r"'a' do not follow .*the list of runs has not the line that it had"
    ):
        await log.durable()
    assert journal.runs() == []


@pytest.mark.anyio
@pytest.mark.parametrize("counts_up", [True, False])
async def test_the_lines_of_many_runs_are_kept_up(
    counts_up: bool, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With each commit, sealed, whether or not this SQLite can do that without writing whole lines."""
    monkeypatch.setattr(ledger, "_COUNTS_UP", counts_up)
    with SqliteJournal(path, key=HmacSigner(b"k" * 32)) as journal:
        logs = [journal.create(f"r{n}") for n in range(40)]
        for log in logs:
            write(log, opening(log.run))
        await logs[-1].durable()
        for seq in (3, 4):
            for log in logs:
                log.append(settled(seq))
            await logs[-1].durable()
            assert journal.verify().problems == ()
            assert {(line.state, line.events) for line in journal.runs()} == {("running", seq)}


def test_the_list_of_runs_needs_no_events(journal: SqliteJournal, path: Path) -> None:
    """It is read from one line per run: whatever the events hold, and however many there are."""
    for number in range(20):
        record(journal, f"r{number}", 10)
    change(path, "UPDATE events SET body = 'x'")
    assert [(line.run, line.goal, line.events) for line in journal.runs()] == [
        (f"r{number}", "Say hello", 10) for number in reversed(range(20))
    ]


@pytest.mark.anyio
async def test_another_program_that_holds_the_file_is_named_as_the_reason(path: Path) -> None:
    """After its patience the run is told; what was acknowledged stays, and once the file is free the run goes on."""
    with SqliteJournal(path, patience=0.05) as journal:
        log = journal.create("a")
        log.append(settled(1))
        await log.durable()
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            log.append(settled(2))
            said = r"another program kept it locked for more than 0.05 s; .* resume the run \(SQLITE_BUSY\)"
            with pytest.raises(JournalError, match=said):
                await log.durable()
            other.execute("ROLLBACK")
        with pytest.raises(JournalError, match="SQLITE_BUSY"):
            log.append(settled(3))
        with pytest.raises(JournalError, match="SQLITE_BUSY"):
            log.close()
        assert [event.seq for event in journal.events("a")] == [1]
        again = journal.reopen("a")
        again.append(settled(2))
        await again.durable()
        again.close()
        assert journal.verify("a").ok


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_was_taken_away_acknowledges_nothing(
    journal: SqliteJournal, path: Path, replaced: bool
) -> None:
    """What is written to a file without a name would be lost, so it is not called durable."""
    log = journal.create("a")
    log.append(settled(1))
    journal.runs()
    path.rename(path.with_name("moved"))
    if replaced:
        path.touch()
    log.append(settled(2))
    with pytest.raises(JournalError, match="was removed or replaced while it was open; put it back"):
        log.close()
    path.with_name("moved").rename(path)
    assert [event.seq for event in journal.events("a")] == [1]


# ---------------------------------------------------------------------------------------------- approvals, owners


def test_an_approval_is_consumed_before_its_run_is_durable(journal: SqliteJournal, path: Path) -> None:
    """Between the question and the first commit nobody else can consume it; a run that never began frees it."""
    with SqliteJournal(path) as other:
        log = journal.create("a", approval="yes")
        with pytest.raises(NotApproved, match="'yes' is spent: it was consumed by another run, just now"):
            other.create("b", approval="yes")
        log.close()
        second = other.create("b", approval="yes")
        second.append(settled(1))
        second.close()
        with pytest.raises(NotApproved, match="consumed by run 'b'"):
            journal.create("a", approval="yes")


def test_a_run_has_one_driver_over_all_journals(journal: SqliteJournal, path: Path) -> None:
    """Two journals on one file see each other's drivers."""
    log = journal.create("a")
    log.append(settled(1))
    with SqliteJournal(path) as other:
        for again in (other.create, other.reopen, journal.create, journal.reopen):
            if again == other.reopen:
                assert len(list(journal.events("a"))) == 1  # until then the other cannot know of it
            with pytest.raises(JournalError, match="is being driven already, here or by another process"):
                again("a")
        log.close()
        other.reopen("a").close()


@pytest.mark.anyio
async def test_an_owner_that_was_replaced_cannot_write(journal: SqliteJournal, path: Path) -> None:
    """Whoever removes the lock and takes over raises the epoch; the old owner is told, other runs of its are not."""
    stale, fresh = journal.create("a"), journal.create("b")
    stale.append(settled(1))
    await stale.durable()
    for lock in (path.parent / "runs.sqlite3-locks").iterdir():
        lock.unlink()
    with SqliteJournal(path) as other:
        taken = other.reopen("a")
        stale.append(settled(2, "old"))
        fresh.append(settled(1))
        with pytest.raises(
            JournalError, match="run 'a' was taken over by another process; nothing more is written"
        ):
            await stale.durable()
        await fresh.durable()
        taken.append(settled(2, "new"))
        await taken.durable()
        with pytest.raises(JournalError, match="taken over"):
            stale.close()
        with pytest.raises(JournalError, match="is being driven already"):
            journal.reopen("a")  # the old owner did not take the new one's lock away
        fresh.close()
        taken.close()
    assert [event.value for event in journal.events("a")] == [None, "new"]  # type: ignore[union-attr]
    assert journal.verify("a").ok


# ---------------------------------------------------------------------------------------------- letting go


def test_a_closed_log_takes_nothing(journal: SqliteJournal) -> None:
    """Closing twice is harmless; appending afterwards is a mistake that is named."""
    log = journal.create("a")
    log.append(settled(1))
    log.close()
    log.close()
    with pytest.raises(JournalError, match="the log of run 'a' is closed; reopen the run"):
        log.append(settled(2))
    assert repr(log) == "<SqliteLog of run 'a'>"


def test_closing_the_journal_writes_what_is_left(path: Path) -> None:
    """Its logs are closed with it, its thread ends, and its files are tidied up."""
    before = set(threading.enumerate())
    journal = SqliteJournal(path)
    log = journal.create("a")
    write(log, list(short_run("a")))
    journal.close()
    journal.close()
    new = set(threading.enumerate()) - before
    assert [thread.name for thread in new if thread.name == "foreplan-journal"] == []
    assert [file.name for file in path.parent.iterdir() if file.is_file()] == ["runs.sqlite3"]
    for use in (
        journal.runs,
        lambda: journal.create("b"),
        lambda: journal.events("a"),
        lambda: journal.verify("a"),
    ):
        with pytest.raises(JournalError, match="is closed; open it again"):
            use()
    with pytest.raises(JournalError, match="is closed"):
        log.append(settled(6))
    with SqliteJournal(path, existing=True) as again:
        assert list(again.events("a")) == list(short_run("a"))


def test_a_forgotten_journal_lets_go_by_itself(path: Path) -> None:
    """Nothing refers to it: what was appended is written, its thread ends, its lock is free, and nobody is warned."""
    before = set(threading.enumerate())
    journal = SqliteJournal(path)
    log = journal.create("a")
    write(log, list(short_run("a")))
    threads = [t for t in threading.enumerate() if t.name == "foreplan-journal" and t not in before]
    assert threads
    del journal, log
    gc.collect()
    for thread in threads:
        thread.join()
    with SqliteJournal(path) as again:
        log = again.reopen("a")
        assert len(list(again.events("a"))) == 5
        log.close()


NOT_FOUND = ToolFailure("there is no such thing")


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_an_exception_that_is_kept_keeps_no_journal(path: Path, backend: str) -> None:
    """A tool that raises a constant: with its engine the run, the journal, its thread and its files are gone."""

    @tool(effect=Effect.READS)
    async def find() -> int:
        """Find nothing."""
        raise NOT_FOUND

    @tool(effect=Effect.READS)
    def seek() -> int:
        """Find nothing, in a thread."""
        raise NOT_FOUND

    before = set(threading.enumerate())
    engine = Engine([find, seek], journal=path)
    steps = [{"id": "a", "tool": "find"}, {"id": "b", "tool": "seek"}]
    plan = Plan.model_validate({"foreplan": 1, "goal": "g", "steps": steps})
    assert anyio.run(engine.run, plan, backend=backend).state == "failed"
    threads = [t for t in threading.enumerate() if t.name.startswith("foreplan-") and t not in before]
    journal = weakref.ref(engine.journal)
    del engine
    gc.collect()
    assert journal() is None
    for thread in threads:  # that of the tool, too: it may be the one that let go of the journal last
        thread.join(30)
        assert not thread.is_alive()
    assert [file.name for file in path.parent.iterdir() if file.is_file()] == ["runs.sqlite3"]


def test_a_process_ends_at_once_with_its_journal_open(path: Path) -> None:
    """The journal's thread does not keep the process, and the interpreter has nothing to say about it."""
    code = f"""
        import sys
        sys.path.insert(0, {str(CHILD.parents[1])!r})
        from support.events import short_run
        from foreplan import SqliteJournal
        journal = SqliteJournal(sys.argv[1])
        log = journal.create("a")
        for event in short_run("a"):
            log.append(event)
        list(journal.events("a"))
        reader = journal.events("a")
        next(reader)
    """
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", textwrap.dedent(code), str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    with SqliteJournal(path, existing=True) as journal:
        journal.reopen("a").close()
        assert len(list(journal.events("a"))) == 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_has_no_part_in_the_journal(path: Path) -> None:
    """The child is refused instead of waiting for a thread it has not, and does not keep the parent's lock."""
    code = f"""
        import os, sys, anyio
        sys.path.insert(0, {str(CHILD.parents[1])!r})
        from support.events import settled
        from foreplan import SqliteJournal
        from foreplan.policies.errors import JournalError
        journal = SqliteJournal(sys.argv[1])
        log = journal.create("a")
        log.append(settled(1))
        anyio.run(log.durable)
        ready, go = os.pipe(), os.pipe()
        child = os.fork()
        if child == 0:
            said = []
            for use in (lambda: log.append(settled(2)), lambda: anyio.run(log.durable), journal.runs):
                try:
                    use()
                except JournalError as error:
                    said.append(str(error))
            journal.close()
            del journal
            os.write(ready[1], b"x" if len(said) == 3 and "forked" in said[0] else b"?")
            os.close(go[1])
            os.read(go[0], 1)  # until the parent is no more
            while os.read(0, 1):
                pass  # until the test is over
            os._exit(0)
        print(os.read(ready[0], 1).decode(), flush=True)
        os.read(0, 1)
        os.kill(os.getpid(), 9)
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as parent:
        assert parent.stdin
        assert parent.stdout
        assert parent.stdout.readline() == "x\n"
        with SqliteJournal(path) as journal:
            with pytest.raises(JournalError, match="is being driven already"):
                journal.reopen("a")
            parent.stdin.write("\n")
            parent.stdin.flush()
            assert parent.wait() == -signal.SIGKILL
            journal.reopen("a").close()  # although the child lives on with copies of all that was open
            assert journal.verify("a").ok
