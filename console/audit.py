"""What each command does that looks after the record itself: prove it, carry it elsewhere, let go of it."""

from __future__ import annotations

from rich.text import Text

from ..executor.verifying import Verified
from ..policies.signing import read_verifier
from .commands import run_in, stored
from .lines import line
from .screen import Code, Screen

__all__ = ["verify"]


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
