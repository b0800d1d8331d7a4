"""Whatever is done to a journal shows, or the documentation says that it does not (threat 16, S2).

The journal holds a closed run "a", a run "b" that is not closed, and a closed run "c" in which an approval was spent.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from support.events import calls, opening, short_run
from support.journals import BEFORE_CHAINS, change, write
from support.tampering import at, rechain
from tampering import CASES, Shown

from foreplan import HmacSigner, SqliteJournal
from foreplan.executor.events import RunOpened
from foreplan.policies.errors import BadInput, JournalError
from foreplan.policies.signing import Ed25519Signer, Ed25519Verifier, Signer

KEY = HmacSigner(b"k" * 32)


class Scene(NamedTuple):
    """A journal, an older copy of it, one of another journal with the same key, and the positions that were kept."""

    path: Path
    older: Path
    other: Path
    positions: dict[str | None, str]


def copied(path: Path, target: Path) -> Path:
    """What somebody who looks at a file keeps of it."""
    with at(path) as connection, at(target) as copy:
        connection.backup(copy)
    return target


def scene(folder: Path, key: Signer | None) -> Scene:
    """As above; the older copy was made before "b" went on and "c" began, the positions are kept before the last event."""
    path, other = folder / "runs.sqlite3", folder / "other.sqlite3"
    with SqliteJournal(other, key=key) as journal:
        log = journal.create("z")
        write(log, list(short_run("z")))
        log.close()
    with SqliteJournal(path, key=key) as journal:
        log = journal.create("a")
        write(log, list(short_run("a")))
        log.close()
        log = journal.create("b")
        first, accepted = opening("b")
        assert isinstance(first, RunOpened)
        personal = first.policies.model_copy(update={"personal": {"inputs": ("/who",)}})
        write(log, [first._replace(inputs={"who": "ada"}, policies=personal), accepted, *calls(3, 2)])
        log.close()
        older = copied(path, folder / "older.sqlite3")
        log = journal.reopen("b")
        write(log, calls(5, 3))
        log.close()
        log = journal.create("c", approval="yes-1")
        events = list(short_run("c"))
        assert isinstance(events[0], RunOpened)
        write(log, [events[0]._replace(approval={"id": "yes-1"}), *events[1:]])
        log.close()
        positions: dict[str | None, str] = {run: journal.position(run) for run in "abc"}
        positions[None] = journal.verify().position
        log = journal.reopen("b")
        write(log, calls(8, 1))
        log.close()
        assert journal.verify().ok
    return Scene(path, older, other, positions)


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> dict[Signer | None, Scene]:
    """One without a key and one with; they are copied before something is done to them."""
    return {key: scene(tmp_path_factory.mktemp("scene"), key) for key in (None, KEY)}


def copy_of(scene: Scene, folder: Path) -> Scene:
    """A scene of one's own."""
    shutil.copytree(scene.path.parent, folder, dirs_exist_ok=True)
    path, older, other = (folder / path.name for path in scene[:3])
    return Scene(path, older, other, scene.positions)


def said(scene: Scene, *, key: Signer | None, kept: bool) -> list[str]:
    """All problems that verifications find: of the journal, and with positions of the runs they were kept of."""
    try:
        with SqliteJournal(scene.path, existing=True) as journal:
            found = list(journal.verify(key=key, last=scene.positions[None] if kept else "").problems)
            for run in "abc" if kept else "":
                found += journal.verify(run, key=key, last=scene.positions[run]).problems
            return found
    except JournalError as error:
        return [str(error)]


# ---------------------------------------------------------------------------------------------- what is done

Do = Callable[[Scene], None]
DOES: dict[str, Do] = {}


def does(what: str) -> Callable[[Do], Do]:
    def named(function: Do) -> Do:
        DOES[what] = function
        return function

    return named


def sql(what: str, *statements: str) -> None:
    """Statements; where the name says so, every hash is computed anew after them."""

    def function(scene: Scene) -> None:
        with at(scene.path) as connection:
            for statement in statements:
                assert connection.execute(statement).rowcount != 0
            if "computed anew" in what:
                rechain(connection)

    DOES[what] = function


EDIT = "UPDATE events SET body = replace(body, '\"n\":', '\"m\":') WHERE run = 'b' AND seq = 5"
TO_LATER = "UPDATE events SET seq = seq + 100 WHERE run = 'b' AND seq > 4"
sql("an event is edited", EDIT)
sql("an event is edited, and every hash computed anew", EDIT)
sql(
    "an event after the position is edited, and every hash computed anew",
    "UPDATE events SET body = replace(body, '0.5', '0.25') WHERE run = 'b' AND seq = 8",
)
sql(
    "an event is deleted, and every hash computed anew",
    "DELETE FROM events WHERE run = 'b' AND seq = 5",
    *(
        f"UPDATE events SET seq = {n - 1}, body = replace(body, '\"seq\":{n},', '\"seq\":{n - 1},') WHERE run = 'b' AND seq = {n}"
        for n in (6, 7, 8)
    ),
)
sql(
    "an event is inserted, and every hash computed anew",
    *(
        f"UPDATE events SET seq = {n + 1}, body = replace(body, '\"seq\":{n},', '\"seq\":{n + 1},') WHERE run = 'b' AND seq = {n}"
        for n in (8, 7, 6, 5)
    ),
    "INSERT INTO events SELECT run, 5, replace(body, '\"seq\":3,', '\"seq\":5,'), hash FROM events WHERE run = 'b' AND seq = 3",
)
sql(
    "two events change places, and every hash is computed anew",
    "UPDATE events SET seq = -seq WHERE run = 'b' AND seq IN (3, 5)",
    "UPDATE events SET seq = 5, body = replace(body, '\"seq\":3,', '\"seq\":5,') WHERE run = 'b' AND seq = -3",
    "UPDATE events SET seq = 3, body = replace(body, '\"seq\":5,', '\"seq\":3,') WHERE run = 'b' AND seq = -5",
)
sql(
    "the tail of a closed run is cut, and every hash computed anew",
    "DELETE FROM events WHERE run = 'a' AND seq = 5",
    "UPDATE runs SET state = 'running', reason = '' WHERE run = 'a'",
)
sql(
    "the tail of a run that is not closed is cut, and every hash computed anew",
    "DELETE FROM events WHERE run = 'b' AND seq > 6",
)
sql("a run is deleted", "DELETE FROM events WHERE run = 'c'", "DELETE FROM runs WHERE run = 'c'")
sql(
    "a run is deleted, and every hash computed anew",
    "DELETE FROM events WHERE run = 'c'",
    "DELETE FROM runs WHERE run = 'c'",
)
sql(
    "the line of a run in the list of runs is edited",
    "UPDATE runs SET state = 'failed' WHERE run = 'c'",
)
sql(
    "another value is put beside the record for a personal one",
    "UPDATE personal SET value = '\"eve\"' WHERE run = 'b'",
)
sql(
    "a personal value beside the record is deleted, but not by `forget`",
    "DELETE FROM personal WHERE run = 'b'",
)
sql("an approval is made unspent", "UPDATE runs SET approval = NULL WHERE run = 'c'")
sql(
    "a key stands twice in an event, and every hash is computed anew",
    "UPDATE events SET body = replace(body, '\"dice\"', '\"at\":1.0,\"dice\"') WHERE run = 'b' AND seq = 8",
)


@does("the seals are taken away")
def _(scene: Scene) -> None:
    with at(scene.path) as connection:
        connection.execute("DELETE FROM meta WHERE name = 'key'")
        connection.execute("UPDATE runs SET seal = NULL")
        [(text,)] = connection.execute("SELECT json_set(value, '$.seal', '') FROM meta WHERE name = 'head'")
        connection.execute("UPDATE meta SET value = ? WHERE name = 'head'", (text,))


@does("a run that is not closed is put back to what an older copy of it holds")
def _(scene: Scene) -> None:
    with at(scene.path) as connection:
        connection.execute("ATTACH ? AS old", (str(scene.older),))
        for table in ("runs", "events"):
            connection.execute(f"DELETE FROM main.{table} WHERE run = 'b'")
            connection.execute(f"INSERT INTO main.{table} SELECT * FROM old.{table} WHERE run = 'b'")


@does("the whole file is put back to an older copy")
def _(scene: Scene) -> None:
    with at(scene.older) as old, at(scene.path) as connection:
        old.backup(connection)


@does("a run is put in from another journal with the same key, and every hash computed anew")
def _(scene: Scene) -> None:
    with at(scene.path) as connection:
        connection.execute("ATTACH ? AS other", (str(scene.other),))
        for table in ("runs", "events"):
            connection.execute(f"INSERT INTO main.{table} SELECT * FROM other.{table} WHERE run = 'z'")
        rechain(connection)


@does("a symbolic link stands in place of the file")
def _(scene: Scene) -> None:
    moved = scene.path.rename(scene.path.with_name("moved.sqlite3"))
    scene.path.symlink_to(moved)


# ---------------------------------------------------------------------------------------------- what shows


def test_the_table_is_of_all_that_is_done() -> None:
    """No line of the documentation is unproved, and nothing is done that it does not tell."""
    assert set(CASES) == set(DOES)


@pytest.mark.parametrize("what", CASES)
def test_what_is_done_to_a_journal_shows_where_the_table_says_so(
    what: str, scenes: dict[Signer | None, Scene], tmp_path: Path
) -> None:
    """Without anything, with a position, with the key, with both: exactly as documented, on real files."""
    seen = []
    for key in (None, KEY):
        made = copy_of(scenes[key], tmp_path / ("sealed" if key else "plain"))
        assert said(made, key=key, kept=True) == []
        DOES[what](made)
        seen += [bool(said(made, key=key, kept=kept)) for kept in (False, True)]
    assert Shown(*seen) == CASES[what]


def test_verifying_says_what_it_could_not_prove(scenes: dict[Signer | None, Scene], tmp_path: Path) -> None:
    """Without a key accidents only; with one all but an earlier state; with a position that too, up to it."""
    path = copy_of(scenes[KEY], tmp_path).path
    with SqliteJournal(path) as journal:
        plain, keyed = journal.verify(), journal.verify(key=KEY)
        both = journal.verify(key=KEY, last=keyed.position)
        assert (plain.ok, plain.runs, plain.events, plain.position) == (True, 3, 18, keyed.position)
        assert plain.proved == ("no accident changed the record: every hash follows from the one before",)
        assert ["takes a key" in said for said in plain.unproved] == [True, False]
        assert ["earlier state was put back" in said for said in keyed.unproved] == [True]
        assert ["what it is when" in said or "up to position 5" in said for said in both.proved] == [
            False,
            True,
        ]
        assert journal.verify("b").position == journal.position("b")
        with pytest.raises(BadInput, match="'5' is no position; it is SEQ:HASH"):
            journal.verify(last="5")


def test_another_key_is_told_from_a_change(scenes: dict[Signer | None, Scene], tmp_path: Path) -> None:
    """And nobody writes to a sealed journal without its key."""
    path = copy_of(scenes[KEY], tmp_path).path
    other = HmacSigner(b"o" * 32)
    with SqliteJournal(path) as journal:
        assert "is sealed with another key" in journal.verify(key=other).problems[0]
        need = r"is sealed with a key \(.*\); open it with that key to write to it"
        with pytest.raises(JournalError, match=need):
            journal.create("d")
        with pytest.raises(JournalError, match=need):
            journal.reopen("b")
    with pytest.raises(JournalError, match="is sealed with another key"):
        SqliteJournal(path, key=other)
    with SqliteJournal(path, key=KEY) as journal:
        assert journal.verify().ok


def test_a_journal_with_runs_cannot_be_sealed_as_if_it_had_been(
    scenes: dict[Signer | None, Scene], tmp_path: Path
) -> None:
    """Nobody knows what was done to them; a sentence says how to take them over."""
    path = copy_of(scenes[None], tmp_path).path
    with pytest.raises(JournalError, match="holds runs that no key has sealed; `foreplan export` it"):
        SqliteJournal(path, key=KEY)


def test_whoever_verifies_need_not_be_able_to_seal(tmp_path: Path) -> None:
    """With Ed25519 the public key verifies."""
    signer = Ed25519Signer(b"1" * 32)
    path = scene(tmp_path, signer).path
    with SqliteJournal(path) as journal:
        assert journal.verify(key=Ed25519Verifier(signer.public)).ok
    DOES["an event is edited, and every hash computed anew"](scene_at(path))
    with SqliteJournal(path) as journal:
        assert not journal.verify(key=Ed25519Verifier(signer.public)).ok


def scene_at(path: Path) -> Scene:
    """What is needed to do something to this file."""
    return Scene(path, path, path, {})


def test_a_pruned_or_deleted_run_id_is_not_used_again(
    scenes: dict[Signer | None, Scene], tmp_path: Path
) -> None:
    """The chain has heard of it: a new run cannot take the place of a deleted one."""
    made = copy_of(scenes[KEY], tmp_path)
    DOES["a run is deleted"](made)
    with SqliteJournal(made.path, key=KEY) as journal, pytest.raises(JournalError, match="exists already"):
        journal.create("c")


@pytest.mark.parametrize(
    "broken", ["UPDATE meta SET value = 'x' WHERE name = 'head'", "DELETE FROM meta WHERE name = 'head'"]
)
def test_a_journal_without_its_head_is_told_and_not_written_to(
    broken: str, scenes: dict[Signer | None, Scene], tmp_path: Path
) -> None:
    """A sentence, not an exception of the reader."""
    made = copy_of(scenes[None], tmp_path)
    with at(made.path) as connection:
        connection.execute(broken)
    with SqliteJournal(made.path) as journal:
        assert "head of the chain over runs cannot be read" in journal.verify().problems[0]
        log = journal.create("d")
        log.append(opening("d")[0])
        with pytest.raises(JournalError, match="chain over runs cannot be read"):
            log.close()


def test_a_file_of_an_earlier_version_gets_its_chain_when_it_is_opened_to_be_written_to(
    tmp_path: Path,
) -> None:
    """Its runs enter the chain as they stand; opened for reading it stays as it is, and a sentence says what to do."""
    path = tmp_path / "runs.sqlite3"
    with SqliteJournal(path) as journal:
        for run, state in (("a", "done"), ("b", "waiting")):
            log = journal.create(run, approval=f"yes-{run}")
            opened, *more = short_run(run, state=state)  # type: ignore[arg-type]
            write(log, [opened._replace(approval={"id": f"yes-{run}"}), *more])  # type: ignore[call-arg]
            log.close()
    change(path, *BEFORE_CHAINS, "UPDATE meta SET value = '2'")
    with SqliteJournal(path, reading=True) as journal:
        assert journal.run_of_approval("yes-a") == "a"
        with pytest.raises(JournalError, match=r"of an earlier version, .* open it once for writing"):
            journal.verify()
    with SqliteJournal(path) as journal:
        assert journal.verify().ok
    with at(path) as connection:
        assert connection.execute("SELECT kind, run, seq FROM chain ORDER BY n").fetchall() == [
            ("opened", "a", 1),
            ("closed", "a", 5),
            ("opened", "b", 1),
        ]
