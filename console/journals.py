"""The journal that a word names, and the run in it."""

from __future__ import annotations

from pathlib import Path

from ..executor.children import root_of
from ..executor.journal.sqlite_journal import SqliteJournal
from ..policies.errors import BadInput, JournalError
from ..policies.signing import read_signer
from ..policies.text import did_you_mean

__all__ = ["Opened", "run_in", "stored"]


class Opened:
    """The journal that a word names, closed in the end; None without a word. Raises `BadInput`."""

    def __init__(
        self, path: str | None, *, existing: bool = False, reading: bool = False, key: str | None = None
    ) -> None:
        self._path = path
        self._key = key
        self._existing = existing
        self._reading = reading
        self._journal: SqliteJournal | None = None

    def __enter__(self) -> SqliteJournal | None:
        if self._path is not None:
            key = read_signer(self._key) if self._key is not None else None
            try:
                self._journal = SqliteJournal(
                    self._path, existing=self._existing, reading=self._reading, key=key
                )
            except JournalError as error:
                raise BadInput(f"{error}{self._beside()}") from error
        return self._journal

    def __exit__(self, *_: object) -> None:
        if self._journal is not None:
            self._journal.close()

    def _beside(self) -> str:
        """A file of nearly that name, if there is none of this one."""
        where = Path(self._path or "")
        try:
            return (
                "" if where.exists() else did_you_mean(where.name, [p.name for p in where.parent.iterdir()])
            )
        except OSError:
            return ""


def stored(path: str | None, *, reading: bool = False, key: str | None = None) -> Opened:
    """The journal that must be there, to be opened. Raises `BadInput` where no word names one."""
    if path is None:
        raise BadInput(
            "say which journal holds the runs: --journal FILE, or FOREPLAN_JOURNAL in the environment"
        )
    return Opened(path, existing=True, reading=reading, key=key)


def run_in(journal: SqliteJournal, word: str) -> str:
    """The id of a run: the word itself, or for `last` the newest run that is not part of another; `last.17` is its row."""
    word, dot, row = word.partition(".") if word.startswith("last.") else (word, "", "")
    if word != "last":
        return word
    listed = journal.runs()
    if not listed:
        raise BadInput(f"the journal {journal.path} holds no run yet")
    return root_of(listed[0].run, {line.run for line in listed}) + dot + row
