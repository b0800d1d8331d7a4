"""`batch` and `retry`, and how `resume` goes on with a batch.

rows are looked at, all of them -> the review of the plan beside them -> a yes -> they run, and how that comes along is shown
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rich.text import Text

from ...executor.batches.batch import Batch
from ...executor.batches.examining import Examined
from ...executor.batches.outputs import refuse_foreign
from ...executor.batches.reopening import SourceAgain
from ...executor.batches.sources import FileRows, Rows
from ...executor.batches.sqlite_rows import SqliteRows
from ...executor.engine import Engine
from ...executor.journal.journal import Journal, MemoryJournal
from ...executor.recorded import batch_opened
from ...executor.runtime import Answer
from ...planner.approvals import Approval, RowLimit
from ...planner.plan import Plan
from ...policies.batches import BatchRules
from ...policies.errors import BadInput, NotApproved
from ...policies.policies import Budget
from ...policies.text import count, did_you_mean
from .. import options as o
from ..asking import login_name
from ..driving import desk
from ..files import STDIN, refuse_absent
from ..given import read_answers, read_budget, read_columns, read_constants, read_given_plan
from ..journals import Opened, run_in, stored
from ..lines import plain
from ..planning import agree, checked
from ..render import contents
from ..screen import Code, Interrupted, Screen
from ..setting import Approving, Around, Consent, Kept, Setting
from ..waiting import wait_for
from . import telling
from .earlier import cautions
from .ends import batch_code, batch_fate
from .progress import BatchView

__all__ = ["Bounds", "Files", "Reading", "batch", "go_on", "retry"]

_FORMATS = ("csv", "tsv", "jsonl", "json")


@dataclass(frozen=True)
class Reading:
    """How rows are read, and become inputs."""

    columns: o.Columns = field(default_factory=list)
    constants: o.Constants = field(default_factory=list)
    query: o.SqlQuery = None
    format: o.Format = None
    encoding: o.Encoding = None
    delimiter: o.Delimiter = None

    def source(self, path: str) -> Rows:
        """The rows that a path names. Raises `BadInput`."""
        if self.query is not None:
            refuse_absent(path)
            return SqliteRows(path, self.query)
        if path == STDIN and self.format is None:
            raise BadInput("say what comes on standard input: --format csv, tsv, jsonl or json")
        if self.format is not None and self.format not in _FORMATS:
            guess = did_you_mean(self.format, _FORMATS) or f"; there are {', '.join(_FORMATS)}"
            raise BadInput(f"rows have no format '{plain(self.format, 60)}'{guess}")
        if path != STDIN:
            refuse_absent(path)
        form: Any = self.format
        where = "/dev/stdin" if path == STDIN else path
        delimiter = "\t" if self.delimiter == "\\t" else self.delimiter
        return FileRows(where, format=form, encoding=self.encoding, delimiter=delimiter)

    async def examined(self, engine: Engine, plan: Plan, path: str) -> Examined:
        """All rows, looked at. Raises `BadInput`."""
        constants = read_constants(plan, self.constants)
        columns = read_columns(self.columns)
        return await engine.examine(plan, self.source(path), columns=columns, constants=constants)


@dataclass(frozen=True)
class Bounds:
    """How many rows go on at a time, and when the batch stops or asks."""

    at_once: o.AtOnce = 64
    stop_after: o.StopAfter = None
    stop_rate: o.StopRate = None
    canary: o.Canary = 0
    groups: o.Groups = 20
    budget: o.BatchBudget = field(default_factory=list)
    undo: o.Undo = False

    def rules(self) -> BatchRules:
        """The rules of the batch."""
        return BatchRules(
            at_once=self.at_once,
            stop_after=self.stop_after,
            stop_rate=self.stop_rate,
            canary=self.canary,
            groups=self.groups,
            budget=read_budget(self.budget),
            undo=self.undo,
        )


@dataclass(frozen=True)
class Files:
    """Which files are written beside the journal."""

    results: o.Results = None
    failures: o.Failures = None
    overwrite: o.Overwrite = False

    def refuse_taken(self) -> None:
        """Before anybody is asked: a new batch wrote none of the files that are there. Raises `BadInput`."""
        for path in (self.results, self.failures):
            if path is not None and not self.overwrite:
                refuse_foreign(Path(path), path.lower().endswith(".csv"))


def batch(
    screen: Screen,
    path: o.PlanFile,
    rows: o.RowsFile,
    *,
    tools: o.Tools,
    reading: Reading,
    strict: o.Strict = False,
    sample: o.Sample = None,
    reads: o.Reads = False,
    bounds: Bounds,
    files: Files,
    approving: Approving,
    around: Around,
    full: o.Full = False,
) -> Code:
    """Run a plan once for each row of a file.

    A row gives the plan its inputs. All rows are looked at before one runs; a row that fails leaves the others alone. Ctrl-C
    pauses the batch; with a journal it can be resumed, and rows that failed can be tried again.
    """
    if path == rows == STDIN:
        raise BadInput(
            "the plan and the rows cannot both come from standard input; name a file for one of them"
        )
    setting = around.with_tools(tools, approving.approver_keys)
    consent, kept = approving.consent(ask=approving.yes), around.kept
    approval, terms = consent.given(kept.journal), bounds.rules()
    plan, source = read_given_plan(path)
    loaded = setting.loaded()
    engine = Engine(**loaded)
    checked(engine, plan, source, batch=True)
    engine.reserve(plan, terms)
    found = _looked_at(screen, engine, plan, rows, reading)
    if strict:
        found.refuse_set_aside()
    if sample is not None:
        return _rehearse(screen, engine, plan, found, sample, reads=reads)
    if approval is None:
        files.refuse_taken()
        approval = _approval_here(
            screen, engine, plan, found, terms, consent, kept, mends=loaded["planner"] is not None, full=full
        )
    with Opened(kept.journal, key=kept.journal_key) as journal, BatchView(screen) as view:
        memory = journal if journal is not None else MemoryJournal()
        engine = _engine(screen, setting, loaded, memory, view, consent.by)
        begin = partial(
            engine.run_batch,
            plan,
            found,
            approval=approval,
            rules=terms,
            results=files.results,
            failures=files.failures,
            overwrite=files.overwrite,
        )
        return _driven(screen, setting, view, begin, files.failures)


def _engine(
    screen: Screen,
    setting: Setting,
    loaded: dict[str, Any],
    journal: Journal,
    view: BatchView,
    by: str | None,
) -> Engine:
    """An engine whose batch is shown, and whose questions are asked here."""
    asks = desk(screen, view, by, loaded["registry"])
    engine = Engine(**loaded, journal=journal, watch=view.watch, decide=asks)
    view.rows.under_way = lambda: engine.rows_under_way(view.rows.batch)
    view.rows.broken = engine.broken_tools
    if setting.kept.journal is not None:
        view.rows.how_to_go_on = partial(setting.command, "resume")
    return engine


def _looked_at(screen: Screen, engine: Engine, plan: Plan, path: str, reading: Reading) -> Examined:
    """All rows, before one of them runs; what is wrong with some is said."""
    try:
        found = wait_for(lambda: reading.examined(engine, plan, path))
    except KeyboardInterrupt:
        raise Interrupted("interrupted before the batch began; nothing was done") from None
    if not found.total:
        screen.say(str(found.findings[0]), important=True)
    return found


def _rehearse(
    screen: Screen, engine: Engine, plan: Plan, found: Examined, sample: int, *, reads: bool
) -> Code:
    """Show what some rows would do; nothing is kept."""
    try:
        results = wait_for(lambda: engine.rehearse_batch(plan, found, sample=sample, reads=reads))
    except KeyboardInterrupt:
        raise Interrupted("interrupted: a rehearsal is not kept; begin it again") from None
    document = {**_of_rows(found), "rehearsed": [row._asdict() for row in results]}
    screen.document(document)
    screen.show(telling.rehearsed(found, results), important=True)
    return Code.DONE if all(row.status == "done" for row in results) and not found.set_aside else Code.FAILED


def _of_rows(found: Examined) -> dict[str, Any]:
    """What the first look found, for programs."""
    return {
        "source": found.source.name,
        "digest": found.digest,
        "rows": found.total,
        "runnable": found.runnable,
        "set_aside": found.set_aside,
        "findings": [finding._asdict() for finding in found.findings],
        "notes": list(found.notes),
    }


def _approval_here(
    screen: Screen,
    engine: Engine,
    plan: Plan,
    found: Examined,
    rules: BatchRules,
    consent: Consent,
    kept: Kept,
    *,
    mends: bool,
    full: bool,
) -> Approval | None:
    """The yes of whoever sits here, where the plan needs one; what would run is shown before."""
    review = engine.review(plan, batch=True)
    if not (review.needs_approval or consent.yes):
        for finding in found.findings[:5] if found.set_aside else ():
            screen.say(f"set aside: {finding}")
        return None
    if not (consent.yes or screen.interactive):
        reasons = "; ".join(review.approval[:3])
        raise NotApproved(
            f"this plan needs an approval ({reasons}): add --yes once you have seen what it does "
            "(foreplan review, and --sample 20 here), or give --approval FILE, "
            "which `foreplan approve --rows N` writes, with --journal FILE"
        )
    screen.note(contents(review, full=full), telling.what_to_run(found, rules, review, mends=mends))
    for caution in cautions(kept, plan, found):
        screen.say(caution, important=True)
    agree(screen, review, yes=consent.yes, what=f"for {count(found.runnable, 'row')}")
    return consent.approved(engine, plan, batch=RowLimit(rows=max(1, found.runnable), source=found.digest))


# ---------------------------------------------------------------------------------------------- going on


@dataclass(frozen=True)
class Onward:
    """The words with which a run or a batch goes on."""

    moved: o.MovedRows = None
    decide: o.Decide = field(default_factory=list)
    by: o.By = None
    reason: o.Reason = ""
    accept_changes: o.Accept = False

    def going(self, *, again: bool = False, budget: Budget | None = None) -> Going:
        """What they mean. Raises `BadInput`."""
        answers = read_answers(self.decide, self.by or login_name(), self.reason) if self.decide else {}
        return Going(answers, self.by, self.accept_changes, again, self.moved, budget)


def retry(
    screen: Screen,
    batch_id: o.BatchId,
    *,
    tools: o.Tools,
    budget: o.LargerBudget = o.MANY,
    onward: Onward,
    around: Around,
) -> Code:
    """Try the rows of a batch again that failed.

    They are the same runs: what they had done stays done, and is not done twice. Rows that never had their turn begin.
    """
    setting, kept = around.with_tools(tools), around.kept
    going = onward.going(again=True, budget=read_budget(budget) if budget else None)
    with stored(kept.journal, key=kept.journal_key) as journal:
        assert journal is not None
        batch_id = run_in(journal, batch_id)
        batch_opened(journal, batch_id)
        return go_on(screen, setting, journal, batch_id, going)


@dataclass(frozen=True)
class Going:
    """How a run or a batch goes on: with which answers, and who gives others at a terminal, or accepts what changed.

    Of a batch: `again` tries what failed, with a larger `budget`; `moved` is where its rows are now.
    """

    answers: Mapping[str, Answer] = field(default_factory=dict)
    by: str | None = None
    accepts: bool = False
    again: bool = False
    moved: str | None = None
    budget: Budget | None = None

    @property
    def accepted_by(self) -> str:
        """Who accepts what changed since; "" for nobody."""
        return (self.by or login_name()) if self.accepts else ""


def go_on(screen: Screen, setting: Setting, journal: Journal, batch_id: str, going: Going) -> Code:
    """Take up a batch: one that was interrupted or waits, or one that is closed, for its failed rows."""
    with BatchView(screen) as view:
        events = list(journal.events(batch_id))
        for event in events:
            view.rows.take(event)
            view.progress.take(event)
        loaded = setting.loaded()
        engine = _engine(screen, setting, loaded, journal, view, going.by)
        opened = events[0]
        if setting.minds.planner is not None and not getattr(opened, "planner", True):
            screen.say(
                "the batch was begun without a planner, so none is asked: rows that fail alike fail; "
                "to have them mended, run what is left as a batch with --planner"
            )
        outputs = getattr(opened, "outputs", None) or {}
        again = _rows_again(screen, engine, batch_id, going.moved, outputs.get("failures"))
        options: dict[str, Any] = again._asdict() if again is not None else {}
        if going.budget is not None:
            options |= {"budget": going.budget, "by": going.by or login_name()}
        take_up = engine.retry_batch if going.again else engine.resume_batch
        accepts = going.accepted_by
        begin = partial(take_up, batch_id, decisions=going.answers, accept_changes=accepts, **options)
        return _driven(screen, setting, view, begin, outputs.get("failures"))


def _rows_again(
    screen: Screen, engine: Engine, batch_id: str, moved: str | None, failures: str | None
) -> SourceAgain | None:
    """The rows that the batch was opened with, to be held against it; those in the journal do without."""
    if moved is not None:
        refuse_absent(moved)
    again = engine.source_of(batch_id, at=moved)
    if moved is not None and again is None:
        raise BadInput(f"batch {batch_id!r} was not opened with the rows of a file; leave --rows out")
    if again is None and failures is not None:
        screen.say(
            f"the rows are not where they were, so {plain(failures, 200)} is not written; --rows FILE says where they are"
        )
    return again


# ---------------------------------------------------------------------------------------------- driving


def _driven(
    screen: Screen,
    setting: Setting,
    view: BatchView,
    drive: Callable[[], Coroutine[Any, Any, Batch]],
    failures: str | None,
) -> Code:
    """Let a batch go on and tell how it ended; on Ctrl-C it has paused, and how to resume it is said."""
    try:
        ended = wait_for(drive)
    except KeyboardInterrupt:
        raise _interrupted(setting, view) from None
    view.__exit__()
    screen.document(telling.document(ended))
    if screen.quiet:
        screen.say(f"foreplan: {batch_fate(ended)}: {ended.message}", important=not ended.ok)
    else:
        screen.show(telling.account(ended, took=view.took))
    advise(screen, setting, ended, failures)
    return batch_code(ended)


def _interrupted(setting: Setting, view: BatchView) -> Interrupted:
    rows = view.rows
    if not rows.batch:
        return Interrupted("interrupted before the batch began; nothing was done")
    stands = (
        f"{rows.settled:,} of {count(rows.rows or 0, 'row')} {'has' if rows.settled == 1 else 'have'} ended"
    )
    if setting.kept.journal is None:
        return Interrupted(
            f"interrupted: {stands}, and batch {rows.batch} was kept in memory only, so it cannot be resumed; "
            "--journal FILE keeps batches",
            run=rows.batch,
        )
    command = setting.command("resume", rows.batch)
    return Interrupted(
        f"interrupted: batch {rows.batch} has paused ({stands}); go on with: {command}", run=rows.batch
    )


def advise(screen: Screen, setting: Setting, ended: Batch, failures: str | None = None) -> None:
    """What to type next, on lines that can be copied."""
    advice = list(_advice(setting, ended, failures))
    if advice:
        screen.note(Text())
    for sentence in advice:
        screen.say(sentence)


def _advice(setting: Setting, ended: Batch, failures: str | None) -> Iterator[str]:
    journal = setting.kept.journal
    if ended.status == "done":
        return
    if journal is None:
        yield "The batch was kept in memory only, so it ends here; with --journal FILE it can go on, and be tried again."
        return
    if ended.status in ("waiting", "running"):
        yield from _waits(setting, ended)
        return
    spent = ended.reason == "budget"
    again = ended.counts["failed"] or ended.counts["stopped"] or ended.counts["not_begun"]
    if spent:
        yield "What it may use is used up; the rows that are left go on with a larger budget, what was used included:"
        yield f"  {setting.command('retry', ended.id)} --budget NAME=MOST"
    elif again:
        yield "Try those that are not done again, once what failed is mended:"
        yield f"  {setting.command('retry', ended.id)}"
    if failures is not None and (ended.counts["refused"] or again):
        or_ = "Or mend" if again else "Mend"
        yield f"{or_} the rows in {plain(failures, 200)}, and give that file to a batch of its own."


def _waits(setting: Setting, ended: Batch) -> Iterator[str]:
    answers = [f"--decide {plain(asked.id)}=CHOICE" for asked in ended.waiting_for]
    if ended.counts["waiting"]:
        listed = shlex.join(["foreplan", "approvals", "--journal", plain(setting.kept.journal or "")])
        yield f"Rows wait for people; what they ask: {listed}"
    yield "Answer, and go on:" if answers else "Go on:"
    yield "  " + " ".join([setting.command("resume", ended.id), *answers])
