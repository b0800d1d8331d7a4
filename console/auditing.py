"""What each command does that looks after the record itself: prove it, carry it elsewhere, let go of it."""

from __future__ import annotations

from rich.text import Text

from ..executor.journal.sqlite_journal import SqliteJournal
from ..executor.journal.verifying import Verified
from ..policies.signing import read_signer, read_verifier
from . import options as o
from .files import open_file
from .given import read_duration
from .journals import run_in, stored
from .lines import line
from .screen import Code, Screen

__all__ = ["export", "forget", "import_", "prune", "verify"]


def verify(
    screen: Screen,
    journal: o.JournalFile,
    run_id: o.OneRun = None,
    *,
    key: o.VerifyKey = None,
    last: o.Last = "",
) -> Code:
    """Prove a journal.

    It says what it could prove and what not. What does not hold is exit code 1.
    """
    verifier = read_verifier(key) if key is not None else None
    with stored(journal, reading=True) as found:
        assert found is not None
        run = run_in(found, run_id) if run_id is not None else None
        said = found.verify(run, key=verifier, last=last)
    screen.document({"ok": said.ok, **said._asdict()})
    screen.show(_account(said, journal, run), important=True)
    return Code.DONE if said.ok else Code.FAILED


def export(screen: Screen, journal: o.JournalFile, run_id: o.OneRun = None) -> Code:
    """Write a journal, or a run of it, as JSON Lines.

    Nothing is lost: `foreplan import` makes of it what it was. With --json the lines are a list in one document.
    """
    with stored(journal, reading=True) as found:
        assert found is not None
        run = run_in(found, run_id) if run_id is not None else None
        if screen.json:
            screen.document({"lines": list(found.exported(run))})
        else:
            for text in found.exported(run):
                screen.write(text + "\n")
    return Code.DONE


def import_(screen: Screen, journal: o.JournalFile, path: o.ExportFile, *, key: o.JournalKey = None) -> Code:
    """Take runs into a journal that were exported.

    All of them or none; what does not verify is not taken in.
    """
    signer = read_signer(key) if key is not None else None
    with open_file(path) as lines, SqliteJournal(journal, key=signer) as found:
        runs = found.take_in(lines)
    screen.document({"runs": runs})
    screen.say(f"imported {_count(len(runs), 'run')} into {journal}", important=True)
    return Code.DONE


def prune(
    screen: Screen,
    journal: o.JournalFile,
    *,
    older_than: o.OlderThan,
    keep_failed: o.KeepFailed = False,
    key: o.JournalKey = None,
) -> Code:
    """Delete the records of runs that closed long ago.

    That they were there stays provable.
    """
    seconds = read_duration(older_than)
    assert seconds is not None
    with stored(journal, key=key) as found:
        assert found is not None
        runs = found.prune(older_than=seconds, keep_failed=keep_failed)
    screen.document({"pruned": runs})
    screen.say(f"pruned {_count(len(runs), 'run')}", important=True)
    return Code.DONE


def forget(screen: Screen, journal: o.JournalFile, run_id: o.RunId, *, key: o.JournalKey = None) -> Code:
    """Delete the personal values of a closed run.

    The record still verifies.
    """
    with stored(journal, key=key) as found:
        assert found is not None
        run = run_in(found, run_id)
        count = found.forget(run)
    screen.document({"run": run, "deleted": count})
    screen.say(f"deleted {_count(count, 'personal value')} of run {run}", important=True)
    return Code.DONE


def _account(said: Verified, journal: str, run: str | None) -> Text:
    what = f"run {run}" if run is not None else journal
    text = Text()
    text.append("verified" if said.ok else "NOT verified", "bold green" if said.ok else "bold red")
    text.append_text(line(f": {what}, {_count(said.events, 'event')} in {_count(said.runs, 'run')}"))
    text.append(f"; {_count(said.pruned, 'record')} pruned" if said.pruned else "")
    text.append(f"; {_count(said.deleted, 'personal value')} deleted" if said.deleted else "").append("\n")
    for title, sentences in (
        ("wrong", said.problems),
        ("proved", said.proved),
        ("not proved", said.unproved),
    ):
        for sentence in sentences:
            text.append(f"  {title:<11}")
            text.append_text(line(sentence)).append("\n")
    return text.append_text(line(f"  position   {said.position}"))


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
