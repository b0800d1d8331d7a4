"""A plan that ran over the same rows before: a new batch does all of it again, which is seldom what was meant."""

from __future__ import annotations

from pathlib import Path

from ...executor.batches.batch import is_batch, read_batch
from ...executor.batches.examining import Examined
from ...executor.events import BatchOpened, RowsTaken
from ...executor.journal.journal import Journal
from ...planner.plan import Plan
from ..journals import stored
from ..setting import Kept

__all__ = ["cautions"]

_LOOKED_AT = 50
"""So many runs of a journal are looked at, the newest first."""


def cautions(kept: Kept, plan: Plan, found: Examined) -> list[str]:
    """What whoever says yes should know of the journal: that there is none, or that it holds this very batch already."""
    if kept.journal is None:
        return ["Without --journal it is kept in memory only: it cannot be resumed, or tried again."]
    if not Path(kept.journal).exists():
        return []
    with stored(kept.journal, reading=True, key=kept.journal_key) as journal:
        assert journal is not None
        before = _same(journal, plan.digest, found.digest)
        if before is None:
            return []
        said = read_batch(journal, before).message or "it has not ended"
    more = f"to go on with that one: foreplan resume, or retry, {before}"
    return [f"Batch {before} ran this plan over these rows ({said}). This one does it all again; {more}"]


def _same(journal: Journal, plan: str, rows: str) -> str | None:
    """The newest batch with this plan and these rows."""
    for line in journal.runs()[:_LOOKED_AT]:
        if not is_batch(journal, line.run):
            continue
        opened, taken = (
            next(iter(journal.some(line.run, (kind,))), None) for kind in (BatchOpened, RowsTaken)
        )
        if getattr(opened, "digest", "") == plan and getattr(taken, "digest", "") == rows:
            return line.run
    return None
