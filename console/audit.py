"""What each command does that looks after the record itself: prove it, carry it elsewhere, let go of it."""

from __future__ import annotations

from rich.text import Text

from ..executor.journal.sqlite_journal import SqliteJournal
from ..executor.journal.verifying import Verified
from ..policies.signing import read_signer, read_verifier
from .commands import run_in, stored
from .files import open_file
from .given import read_duration
from .lines import line
from .screen import Code, Screen

__all__ = ["export", "forget", "import_", "prune", "verify"]


def verify(screen: Screen, journal: str, run_id: str | None, key: str | None, last: str) -> Code:
    """Say whether the record holds, and what that proves."""
    verifier = read_verifier(key) if key is not None else None
    with stored(journal, reading=True) as found:
        assert found is not None
        run = run_in(found, run_id) if run_id is not None else None
        said = found.verify(run, key=verifier, last=last)
    screen.document({"ok": said.ok, **said._asdict()})
    screen.show(_account(said, journal, run), important=True)
    return Code.DONE if said.ok else Code.FAILED


def export(screen: Screen, journal: str, run_id: str | None) -> Code:
    """Write a journal, or a run of it, as JSON Lines."""
    with stored(journal, reading=True) as found:
        assert found is not None
        run = run_in(found, run_id) if run_id is not None else None
        if screen.json:
            screen.document({"lines": list(found.exported(run))})
        else:
            for text in found.exported(run):
                screen.write(text + "\n")
    return Code.DONE


def import_(screen: Screen, journal: str, path: str, key: str | None) -> Code:
    """Take in what was exported; the file is made where there is none."""
    signer = read_signer(key) if key is not None else None
    with open_file(path) as lines, SqliteJournal(journal, key=signer) as found:
        runs = found.take_in(lines)
    screen.document({"runs": runs})
    screen.say(f"imported {_count(len(runs), 'run')} into {journal}", important=True)
    return Code.DONE


def prune(screen: Screen, journal: str, older_than: str, keep_failed: bool, key: str | None) -> Code:
    """Delete the records of runs that were closed long ago."""
    seconds = read_duration(older_than)
    assert seconds is not None
    with stored(journal, key=key) as found:
        assert found is not None
        runs = found.prune(older_than=seconds, keep_failed=keep_failed)
    screen.document({"pruned": runs})
    screen.say(f"pruned {_count(len(runs), 'run')}", important=True)
    return Code.DONE


def forget(screen: Screen, journal: str, run_id: str, key: str | None) -> Code:
    """Delete the personal values of a closed run."""
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
