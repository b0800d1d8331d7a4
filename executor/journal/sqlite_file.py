"""The journal's SQLite file: made safely, opened with the settings that durability needs, and its errors in explained.

    meta      name, value                          the version of this schema, the id of the file, the head of its chain
    runs      run, opened_at, approval, epoch,     one line per run, kept up in the transaction that adds its events
              state, reason, goal, events, tip,
              seal, batch, ordinal             of a row of a batch, which is a run too: of which, and which row
    events    run, seq, body, hash                 one chain per run (see `records.py`)
    row_events                                     the same of rows of batches, in the order in which they were written
    blobs     hash, body                           large results, once for all events and runs that refer to them
    chain     n, kind, run, seq, tip, detail,      one chain over all runs (see `seals.py`)
              link
    personal  run, commitment, salt, value         what can be deleted while the record stays (see `personal.py`)
    spent     approval, run                        approvals that runs consumed whose record was deleted by rule

WAL with synchronous=FULL: a commit returns when its bytes are on the disk. WAL needs shared memory between processes,
so a network file system is refused. Source: https://www.sqlite.org/wal.html, https://www.sqlite.org/howtocorrupt.html
"""

from __future__ import annotations

import errno
import os
import secrets
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from ...policies.errors import JournalError
from .seals import Entry, begin, enter

__all__ = ["EVENTS", "ROW_EVENTS", "SqliteFile", "network_mount"]

VERSION = 5
_EARLIER = ("1", "2", "3", "4")

EVENTS = "events"
"""The table of the events of runs, and of what a batch says itself."""
ROW_EVENTS = "row_events"
"""That of the events of rows."""

_SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE runs (
    run TEXT PRIMARY KEY, opened_at REAL NOT NULL, approval TEXT UNIQUE, epoch INTEGER NOT NULL, state TEXT NOT NULL,
    reason TEXT NOT NULL, goal TEXT NOT NULL, events INTEGER NOT NULL, tip BLOB NOT NULL);
CREATE TABLE events (
    run TEXT NOT NULL, seq INTEGER NOT NULL, body TEXT NOT NULL, hash BLOB NOT NULL, PRIMARY KEY (run, seq)
) WITHOUT ROWID;
"""

_BLOBS = "CREATE TABLE blobs (hash BLOB PRIMARY KEY, body BLOB NOT NULL)"
"""New with version 2; a file of version 1 gets it when it is opened."""

_AUDIT = """
CREATE TABLE chain (
    n INTEGER PRIMARY KEY, kind TEXT NOT NULL, run TEXT NOT NULL, seq INTEGER NOT NULL, tip BLOB NOT NULL,
    detail TEXT NOT NULL, link BLOB NOT NULL);
CREATE INDEX chain_of_run ON chain (run);
CREATE TABLE personal (
    run TEXT NOT NULL, commitment BLOB NOT NULL, salt BLOB NOT NULL, value TEXT NOT NULL, PRIMARY KEY (run, commitment)
) WITHOUT ROWID;
CREATE TABLE spent (approval TEXT PRIMARY KEY, run TEXT NOT NULL) WITHOUT ROWID;
ALTER TABLE runs ADD COLUMN seal BLOB
"""
"""New with version 3."""

_ROWS = """
ALTER TABLE runs ADD COLUMN batch TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN ordinal INTEGER NOT NULL DEFAULT 0;
CREATE UNIQUE INDEX rows_of_batch ON runs (batch, ordinal) WHERE batch <> ''
"""
"""New with version 4."""

_ROW_EVENTS = """
CREATE TABLE row_events (run TEXT NOT NULL, seq INTEGER NOT NULL, body TEXT NOT NULL, hash BLOB NOT NULL);
CREATE UNIQUE INDEX row_events_in_order ON row_events (run, seq)
"""
"""New with version 5. Hundreds of rows grow at once: where they lie in order of appending, the events of a commit fill few pages, and
clustered by row each row would begin one of its own."""

_GUARD = """
CREATE TRIGGER rows_of_earlier AFTER INSERT ON runs
    WHEN NEW.batch <> '' AND EXISTS (SELECT 1 FROM events WHERE run = NEW.run)
BEGIN
    SELECT RAISE(ABORT, 'an earlier foreplan writes to this journal; end its process');
END
"""
"""Against a process that has had the file open since before it was upgraded, and begins a batch: it would write to `events`."""

_MOVE_ROWS = """
INSERT INTO row_events SELECT e.run, e.seq, e.body, e.hash FROM runs r JOIN events e ON e.run = r.run
    WHERE r.batch <> '' ORDER BY r.batch, r.ordinal, e.seq;
DELETE FROM events WHERE run IN (SELECT run FROM runs WHERE batch <> '');
UPDATE runs SET epoch = epoch + 1 WHERE run IN (SELECT batch FROM runs WHERE batch <> '')
"""
"""What version 4 has of rows. Whoever drives such a batch still has lost it: an earlier foreplan would write to `events`."""

_SETTINGS = (
    "PRAGMA synchronous = FULL",
    "PRAGMA fullfsync = ON",  # macOS: without it the disk's own cache may still be lost
    "PRAGMA trusted_schema = OFF",  # a file that somebody hands over must not run functions of its own
    "PRAGMA cell_size_check = ON",
)

_NETWORK = frozenset(
    (
        *(
            "nfs",
            "nfs4",
            "cifs",
            "smb2",
            "smb3",
            "smbfs",
            "ncpfs",
            "afs",
            "ceph",
            "lustre",
            "gpfs",
            "glusterfs",
        ),
        *("beegfs", "davfs", "fuse.sshfs", "fuse.rclone", "fuse.s3fs", "fuse.glusterfs", "fuse.gcsfuse"),
        *("fuse.davfs", "fuse.davfs2", "fuse.cephfs"),
    )
)

_MEANINGS = {
    sqlite3.SQLITE_FULL: "the disk is full; make room, then resume the run",
    sqlite3.SQLITE_READONLY: "it cannot be written to; check its permissions, its directory's and the mount",
    sqlite3.SQLITE_PERM: "it cannot be written to; check its permissions",
    sqlite3.SQLITE_CORRUPT: "it is damaged; keep a copy and restore it from a backup",
    sqlite3.SQLITE_NOTADB: "it is no SQLite database; name another file",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check its permissions, its directory's and the limit on open files",
    sqlite3.SQLITE_IOERR: "the disk could not be read or written; check it and its free space",
    sqlite3.SQLITE_TOOBIG: "an event is larger than SQLite can hold; keep large results in files",
    sqlite3.SQLITE_ERROR: "it is not the journal it was or its schema is damaged; keep a copy and restore it from a backup",
    sqlite3.SQLITE_PROTOCOL: "its locks do not work here; put it on a local disk",
}
_MAKING = 1.0
"""Seconds after which an empty file is taken for a foreign one, and not for a journal that another process makes."""
_LOCKED = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


class SqliteFile:
    """A path that holds a journal, or will. `patience`: seconds to wait while another program writes.

    `reading`: nothing is written, and what cannot be written to is opened all the same. `network`: its file system may
    be one of another machine.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        existing: bool = False,
        reading: bool = False,
        network: bool = False,
        patience: float = 10.0,
    ) -> None:
        self.path = Path(
            os.path.abspath(os.fspath(path))
        )  # absolute: `chdir` must not change which file it is
        self.patience = patience
        self.reading = reading
        self.version = VERSION
        """Of its schema; an earlier one where it was opened for reading."""
        self._frozen = False
        with self.explained():
            self._refuse_unsafe(network)
            self._there = self._find(existing or reading)
            try:
                self._open()
            except sqlite3.OperationalError:
                self._frozen = reading and self._is_whole()
                if not self._frozen:
                    raise
                self._open()

    @property
    def old(self) -> bool:
        """Whether it has no chain over runs."""
        return self.version < 3

    @property
    def no_row(self) -> str:
        """The condition in SQL that a line of the list of runs is no row of a batch."""
        return "batch = ''" if self.version > 3 else "TRUE"

    @property
    def of_rows(self) -> str:
        """The table of the events of rows."""
        return ROW_EVENTS if self.version > 4 else EVENTS

    @property
    def of_events(self) -> tuple[str, ...]:
        """The tables of events."""
        return (EVENTS, ROW_EVENTS) if self.version > 4 else (EVENTS,)

    def _open(self) -> None:
        connection = self.connect()
        try:
            self._patiently_prepare(connection)
        finally:
            connection.close()

    def _is_whole(self) -> bool:
        """Whether SQLite may read the file alone, where it cannot make the files that it keeps beside it.

        Raises `JournalError` where events are in the log file still, which it cannot read without writing.
        """
        if os.access(self.path.parent, os.W_OK):
            return False
        try:
            left = os.lstat(self.path.with_name(self.path.name + "-wal")).st_size
        except FileNotFoundError:
            left = 0
        if left:
            raise JournalError(
                f"{self.path}-wal holds events of {self.path.name}, and {self.path.parent} cannot be written to; "
                "copy the files to a folder that can be, and read them there"
            )
        return True

    def connect(self, *, check_same_thread: bool = True) -> sqlite3.Connection:
        """A connection in autocommit mode. Raises what SQLite raises (see `explained`)."""
        where = f"{self.path.as_uri()}?immutable=1" if self._frozen else self.path
        connection = sqlite3.connect(
            where,
            timeout=self.patience,
            isolation_level=None,
            check_same_thread=check_same_thread,
            uri=self._frozen,
        )
        try:
            for setting in _SETTINGS:
                connection.execute(setting).close()
            self.still_there()
        except BaseException:
            connection.close()
            raise
        return connection

    def still_there(self) -> None:
        """Raise `JournalError` if the file was taken away or replaced: what is written to it then is lost."""
        try:
            found = os.lstat(self.path)
        except FileNotFoundError:
            found = None
        if found is None or not os.path.samestat(found, self._there):
            raise JournalError(
                f"the journal {self.path} was removed or replaced while it was open; put it back"
            )

    @contextmanager
    def explained(self, run: str = "") -> Iterator[None]:
        """What SQLite and the system raise inside becomes a `JournalError` with the next move, and the run it concerns."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            about = f"run {run!r} cannot be read: " if run else ""
            raise JournalError(about + self.explain(error)) from error

    def explain(self, error: BaseException) -> str:
        """The sentence for an error, by its number and never by its text."""
        if isinstance(error, JournalError):
            return str(error)
        code = getattr(error, "sqlite_errorcode", None)
        if code is None:
            said = error.strerror if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
            return f"the journal {self.path} cannot be used: {said}"
        name = getattr(error, "sqlite_errorname", code)
        return f"the journal {self.path}: {self._meaning(code & 0xFF, error)} ({name})"

    def _meaning(self, code: int, error: BaseException) -> str:
        if code in _LOCKED:
            return f"another program kept it locked for more than {self.patience:g} s; end that program, then resume the run"
        return _MEANINGS.get(code, str(error))

    def _refuse_unsafe(self, network: bool) -> None:
        directory = self.path.parent
        if not self.path.name:
            raise JournalError(f"{self.path} is no regular file; name another one for the journal")
        if not directory.is_dir():
            raise JournalError(
                f"there is no directory {directory} for the journal; make it first, or name another file"
            )
        for path in (
            self.path,
            *(self.path.with_name(self.path.name + end) for end in ("-wal", "-shm", "-journal")),
        ):
            if path.is_symlink():
                raise JournalError(f"{path} is a symbolic link; give the file that it points to")
        kind = None if network else network_mount(os.path.realpath(directory), _mounts())
        if kind is not None:
            raise JournalError(
                f"{directory} is on a network file system ({kind}); put the journal on a local disk "
                "(SqliteJournal(..., network=True) takes its locks on trust)"
            )

    def _find(self, existing: bool) -> os.stat_result:
        """The file as it is there, made with mode 0600 where it is not."""
        made = not (existing or os.path.lexists(self.path)) and self._make()
        found = self._look()
        deadline = time.monotonic() + min(self.patience, _MAKING)
        while not (made or found.st_size):
            if time.monotonic() > deadline:
                raise JournalError(
                    f"{self.path} is an empty file and no journal; remove it, or name another file"
                )
            time.sleep(0.005)
            found = self._look()
        return found

    def _make(self) -> bool:
        """Make the file, whole from the first moment on: whoever is killed here leaves no half of one in its place.

        True where it is empty still: without hard links it cannot be made beside its place.
        """
        new = self.path.with_name(f".foreplan-{secrets.token_hex(8)}")
        _create(new)
        try:
            with closing(sqlite3.connect(new, timeout=self.patience, isolation_level=None)) as connection:
                self._make_tables(connection)
            os.link(new, self.path)
        except FileExistsError:  # another process was faster
            return False
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS):
                raise
            with suppress(FileExistsError):
                _create(self.path)
                return True
        finally:
            for end in ("", "-wal", "-shm"):
                with suppress(FileNotFoundError):
                    os.unlink(f"{new}{end}")
        return False

    def _look(self) -> os.stat_result:
        try:
            found = os.lstat(self.path)
        except FileNotFoundError:
            raise JournalError(f"there is no journal {self.path}; check the path") from None
        if not stat.S_ISREG(found.st_mode):
            raise JournalError(f"{self.path} is no regular file; name another one for the journal")
        return found

    def _patiently_prepare(self, connection: sqlite3.Connection) -> None:
        """SQLite does not wait by itself for the lock that the switch to WAL takes."""
        deadline = time.monotonic() + self.patience
        while True:
            try:
                return self._prepare(connection)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF not in _LOCKED or time.monotonic() > deadline:
                    raise
            time.sleep(0.005)

    def _prepare(self, connection: sqlite3.Connection) -> None:
        if not self._tables(connection):
            if self.reading:
                raise JournalError(f"{self.path} is no journal; name another file")
            self._make_tables(connection)
        version = self._version(connection)
        if version in _EARLIER and self.reading:
            self.version = int(version)
            return  # it lacks tables and columns that nothing in it refers to
        if version in _EARLIER:
            self._upgrade(connection)
            version = self._version(connection)
        if version != str(VERSION):
            raise JournalError(
                f"the journal {self.path} was written by a newer foreplan (schema {version}, this one reads {VERSION}); "
                "upgrade foreplan, or name another file"
            )

    def _version(self, connection: sqlite3.Connection) -> str:
        found = connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()
        return str(found[0]) if found else "unknown"

    def _upgrade(self, connection: sqlite3.Connection) -> None:
        """From an earlier version to this one; an older foreplan does not open the file any more."""
        connection.execute("PRAGMA secure_delete = ON").close()  # what is moved must not stay in free pages
        connection.execute("BEGIN IMMEDIATE")
        try:
            version = self._version(connection)
            if version == "1":
                connection.execute(_BLOBS)
            if version in ("1", "2"):
                _add_audit(connection)
            if version in ("1", "2", "3"):
                _add(connection, _ROWS)
            if version in _EARLIER:
                _add_row_events(connection)
                _add(connection, _MOVE_ROWS)
                connection.execute("UPDATE meta SET value = ? WHERE name = 'schema'", (str(VERSION),))
            connection.execute("COMMIT")
        except BaseException:
            connection.rollback()
            raise

    def _make_tables(self, connection: sqlite3.Connection) -> None:
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise JournalError(
                f"{self.path} is on a file system without shared memory; put it on a local disk"
            )
        connection.execute("BEGIN IMMEDIATE")
        try:
            if not self._tables(connection):
                for statement in [*_SCHEMA.split(";"), _BLOBS]:
                    connection.execute(statement)
                _add_audit(connection)
                _add(connection, _ROWS)
                _add_row_events(connection)
                connection.execute("INSERT INTO meta VALUES ('schema', ?)", (str(VERSION),))
            connection.execute("COMMIT")
        except BaseException:
            connection.rollback()
            raise

    def _tables(self, connection: sqlite3.Connection) -> bool:
        """Whether the tables are there; the file of another program is refused before anything in it is changed."""
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        if names and not names >= {"meta", "runs", "events"}:
            raise JournalError(f"{self.path} is the database of something else; name a file of its own")
        return bool(names)


def _add_audit(connection: sqlite3.Connection) -> None:
    """What is new with version 3; the runs that are there enter the chain as they stand."""
    _add(connection, _AUDIT)
    begin(connection)
    entries: list[Entry] = []
    sql = (
        "SELECT r.run, e.hash, r.state, r.events, r.tip FROM runs r JOIN events e ON e.run = r.run AND e.seq = 1 "
        "ORDER BY r.rowid"
    )
    for run, first, state, events, tip in connection.execute(sql):
        entries.append(Entry("opened", run, 1, first))
        if state in ("done", "failed", "stopped"):
            entries.append(Entry("closed", run, events, tip))
    if entries:
        enter(connection, entries, None)


def _add_row_events(connection: sqlite3.Connection) -> None:
    """What is new with version 5."""
    _add(connection, _ROW_EVENTS)
    connection.execute(_GUARD)


def _add(connection: sqlite3.Connection, statements: str) -> None:
    for statement in statements.split(";"):
        connection.execute(statement)


def _create(path: Path) -> None:
    """An empty file for its owner alone, where there is none. Raises `FileExistsError`."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    os.close(os.open(path, flags, 0o600))


def _mounts() -> str:
    """What the kernel says of mounted file systems; nothing where it does not say."""
    try:
        return Path("/proc/self/mounts").read_text(errors="surrogateescape")
    except OSError:
        return ""


def network_mount(path: str, mounts: str) -> str | None:
    """The kind of network file system that holds an absolute path, by the lines of `/proc/mounts`; None for others."""
    best, kind = "", None
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = (
            fields[1]
            .replace("\\040", " ")
            .replace("\\011", "\t")
            .replace("\\012", "\n")
            .replace("\\134", "\\")
        )
        inside = point == "/" or path == point or path.startswith(point + "/")
        if inside and len(point) >= len(best):  # the later of two mounts on one point hides the earlier
            best, kind = point, fields[2]
    return kind if kind in _NETWORK else None
