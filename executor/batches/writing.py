"""What a batch writes beside its journal, as its opening says: results as rows end, failures when all have.

    begun     what stands in the way is refused before anything runs; `.part` files are there
    settled   a line of the results, in the order in which rows end
    ended     the results in the order of the source; failures, and rows that never began, with what their rows said
    left      the `.part` stays, to be watched, until the batch goes on

A batch that goes on has its results written anew from the journal, so a line that a crash lost is there again.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from ...planner.plan import Plan
from ...policies.errors import BadInput
from ..events import RunClosed
from ..journal.journal import Journal
from .batch import NOT_BEGUN, results_of
from .examining import Examined
from .outputs import FailuresFile, ResultsFile, write_failures
from .rows import RowResult

__all__ = ["Outputs", "Written"]

_LOG = logging.getLogger("foreplan")
_LEFT = ("failed", "stopped", NOT_BEGUN)
"""What is in the file of failures, besides rows that were set aside."""
_EVERY = 500
"""Rows between two moments at which whoever watches the `.part` sees the lines."""


class Outputs(NamedTuple):
    """Which files a batch writes; absolute paths, so that a resume elsewhere finds them."""

    results: str | None = None
    failures: str | None = None
    overwrite: bool = False

    @classmethod
    def of(
        cls, results: str | os.PathLike[str] | None, failures: str | os.PathLike[str] | None, overwrite: bool
    ) -> Outputs:
        """The files as they were named. Raises `BadInput` where both are the same."""
        one, other = (None if p is None else os.path.realpath(os.fspath(p)) for p in (results, failures))
        if one is not None and one == other:
            raise BadInput(
                "the results and the failures of a batch are two files; name another for one of them"
            )
        return cls(one, other, overwrite)

    def leave_alone(self, journal: Path | None) -> None:
        """Raises `BadInput` where a file would be written over that of the journal."""
        for file in (self.results, self.failures):
            if file is not None and journal is not None and _any_is(journal, (file, f"{file}.part")):
                raise BadInput(f"the file {file!r} is where the journal is kept; name another file")

    @classmethod
    def read(cls, said: Mapping[str, Any] | None) -> Outputs:
        """The files that an opening names."""
        return cls(**(said or {}))

    def to_json(self) -> dict[str, Any] | None:
        """For the opening; None where there are none."""
        return self._asdict() if self.results is not None or self.failures is not None else None


class Written:
    """The files of one batch while it is driven. Raises `BadInput` for a file that stands in the way.

    Failures are written only where the rows are at hand (`examined`): they are told as the source has them.
    """

    def __init__(self, outputs: Outputs, batch: str, plan: Plan, examined: Examined | None) -> None:
        self._batch = batch
        self._outputs = outputs
        self._fields = _fields(plan)
        self._examined = examined
        self._since = 0
        self._troubled = False
        self._failures: FailuresFile | None = None
        self._results = self._open_results() if outputs.results is not None else None
        try:
            if outputs.failures is not None and examined is not None:
                self._failures = FailuresFile(outputs.failures, batch, examined, overwrite=outputs.overwrite)
        except BaseException:
            self.discard()
            raise

    def _open_results(self) -> ResultsFile:
        assert self._outputs.results is not None
        return ResultsFile(
            self._outputs.results,
            self._batch,
            fields=self._fields,
            overwrite=self._outputs.overwrite,
            keep=self._examined.source.files if self._examined is not None else (),
        )

    def recall(self, journal: Journal) -> None:
        """Write the rows that have ended before."""
        if self._results is not None:
            for result in results_of(journal, self._batch, frozenset()):
                self._results.write(result)

    def settled(self, result: RowResult) -> None:
        """A row has ended. A file that cannot be written at the moment stops none: in the end it is made from the journal."""
        if self._results is None or self._troubled:
            return
        try:
            self._results.write(result)
            self._since += 1
            if self._since >= _EVERY:
                self._since = 0
                self._results.flush()
        except BadInput as error:
            self._troubled = True
            _LOG.warning("batch %r goes on without its file of results: %s", self._batch, error)

    def ended(self, journal: Journal, closed: RunClosed) -> None:
        """The batch is closed: put the files in place. Raises `BadInput` where they cannot be written."""
        if self._troubled and self._results is not None:
            with suppress(BadInput, OSError):
                self._results.discard()
            self._results = self._open_results()
            self.recall(journal)
        if self._results is not None:
            self._results.finish()
        if self._failures is not None:
            assert self._examined is not None
            results = results_of(journal, self._batch, frozenset(), unbegun=_why_none_began(closed))
            write_failures(self._failures, self._examined.again(), results, statuses=_LEFT)

    def left(self) -> None:
        """The batch goes on later. What cannot be written is written when it does."""
        for file in (self._results, self._failures):
            if file is not None:
                with suppress(BadInput, OSError):
                    file.close()

    def discard(self) -> None:
        """Nothing came of the batch."""
        for file in (self._results, self._failures):
            if file is not None:
                file.discard()

    @contextmanager
    def unless_begun(self) -> Iterator[None]:
        """What keeps a batch from beginning leaves no files behind."""
        try:
            yield
        except BaseException:
            with suppress(BadInput, OSError, ValueError):
                self.discard()
            raise


def _why_none_began(closed: RunClosed) -> str:
    """Of rows that had no turn: why, by the end of their batch."""
    return f"it never began: {closed.message.partition('; ')[2] or closed.message}"


def _any_is(one: Path, others: Iterable[str]) -> bool:
    """Whether a file is one of these, by whatever name; those that are not there are none."""
    return any(os.path.exists(other) and os.path.samefile(one, other) for other in others)


def _fields(plan: Plan) -> tuple[str, ...]:
    """The keys of the output that have columns of their own in CSV: those that the plan names."""
    output = plan.output
    if not isinstance(output, dict) or "$" in output or "$literal" in output:
        return ()
    return tuple(output)
