"""What runs ask people, listed and answered without running anything: `approvals`, `decide`, `reject`, `edit`.

An answer is held against what the journal recorded, so it needs none of the run's tools. It stays with the run until somebody
resumes it: `decide --resume` here, or `resume --watch` elsewhere.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from rich.console import RenderableType
from rich.text import Text

from ..executor import events as e
from ..executor.batches.batch import Batch, batch_of_row, is_batch
from ..executor.engine import Engine
from ..executor.journal.journal import Journal
from ..executor.questions import Question, pause_of, questions_in
from ..executor.run import Run
from ..executor.runtime import Answer
from ..planner.documents import read_document
from ..planner.findings import PlanUnreadable
from ..policies.errors import BadInput
from ..policies.text import count
from . import options as o
from .asking import login_name, read_changes
from .batches.command import Going
from .journals import run_in, stored
from .lines import NAME, VALUE, heading, indented, joined, line, plain, seconds, stacked
from .live import Progress
from .running import go_on
from .screen import Code, Screen
from .setting import Kept, Minds, Rules, Setting
from .telling import question
from .waiting import wait_for

__all__ = ["approvals", "decide", "edit", "reject"]

_PATIENCE = 5.0
"""Seconds that an answer waits for whoever drives the run to let go of it."""

_Sources = Mapping[str, Any]


# ---------------------------------------------------------------------------------------------- the list


def approvals(screen: Screen, *, journal: o.Journal = None, full: o.Full = False) -> Code:
    """List what runs ask people.

    All open questions of all runs of a journal: calls that need a yes, outcomes nobody knows, new plans, questions of plans.
    """
    with stored(journal, reading=True) as kept:
        assert kept is not None
        listed = list(questions_in(kept))
        sources = list(_sources(kept, listed))
    screen.document({"questions": [asked.to_json() for asked in listed]})
    if not listed:
        screen.show(Text("no run waits for a person"), important=True)
        return Code.DONE
    for part in _groups(listed, sources, None if full else VALUE):
        screen.show(part, important=True)
    if screen.json:
        return Code.DONE
    screen.note(Text())
    screen.say(f"Answer: foreplan decide RUN ID CHOICE --journal {shlex.quote(plain(journal))}")
    return Code.DONE


def _sources(journal: Journal, listed: Iterable[Question]) -> Iterator[_Sources]:
    """Where the values of each question come from, as the plan of its run says."""
    progress = Progress()
    for asked in listed:
        if asked.run != progress.run:
            progress = Progress()
            for run in dict.fromkeys((batch_of_row(journal, asked.run), asked.run)):
                for event in journal.some(run, (e.RunOpened, e.BatchOpened, e.PlanAccepted, e.PatchAccepted)):
                    progress.take(event)
            progress.run = asked.run
        yield progress.sources(asked.asked)


def _groups(listed: list[Question], sources: list[_Sources], limit: int | None) -> Iterator[RenderableType]:
    """Questions of one kind together, those of one run under it; what has waited longest stands first."""
    kinds: dict[tuple[str, str], dict[str, list[tuple[Question, _Sources]]]] = {}
    for asked, source in sorted(zip(listed, sources, strict=True), key=lambda pair: pair[0].since):
        kinds.setdefault((asked.asked.about, asked.tool), {}).setdefault(asked.run, []).append(
            (asked, source)
        )
    now = time.time()
    for number, ((about, tool), runs) in enumerate(kinds.items()):
        if number:
            yield Text()
        yield _title(about, tool, sum(map(len, runs.values())))
        for those in runs.values():
            yield indented(_run_line(those[0][0], now))
            for asked, source in those:
                yield indented(question(asked.asked, limit, source), 4)


def _title(about: str, tool: str, number: int) -> Text:
    name = plain(tool, NAME)
    match about:
        case "call":
            return heading(f"{count(number, 'call')} of {name} may be made only if a person says so")
        case "unknown":
            return heading(f"{count(number, 'call')} of {name} may have happened, and nobody knows")
        case "patch":
            return heading(f"{count(number, 'plan')} would change beyond what was approved")
        case "canary":
            return heading(f"{count(number, 'batch asks', 'batches ask')} whether the other rows may follow")
        case _:
            return heading(f"{count(number, 'question')} of plans")


def _run_line(asked: Question, now: float) -> RenderableType:
    """Of which run, for how long, and how long a yes is possible."""
    facts = [line(asked.run), line(asked.goal or "(no goal)", "dim", 80)]
    facts.append(Text(f"waits {seconds(max(0.0, now - asked.since))}", "dim"))
    if asked.expires_at is not None:
        left = asked.expires_at - now
        ends = (
            (f"the approval ends in {seconds(left)}", "") if left > 0 else ("the approval has expired", "red")
        )
        facts.append(Text(*ends))
    return joined(facts)


# ---------------------------------------------------------------------------------------------- an answer


class _Said(NamedTuple):
    """An answer as it was typed: to which question, what, with which value. `changes`: only what differs of a call."""

    id: str
    choice: str
    value: str | None = None
    changes: str | None = None
    reason: str = ""

    def read(self, journal: Journal, run: str, by: str) -> Answer:
        """The answer, its value read. Raises `BadInput`."""
        value = _json(self.value) if self.value is not None else None
        if self.changes is not None:
            pause = pause_of(journal, run)
            open_ = pause.open if pause is not None else ()
            found = [asked for asked in open_ if asked.id == self.id and "edit" in asked.options]
            value = {"args": read_changes(self.changes, found[0], None)} if found else None
        return Answer(self.choice, by, value, self.reason)


@dataclass(frozen=True)
class GoingOn:
    """Whether the run goes on here once it is answered, and with what."""

    here: o.GoingOn = False
    tools: o.ToolsToGoOn = ""
    minds: Minds = field(default_factory=Minds)
    full: o.Full = False
    rules: Rules = field(default_factory=Rules)
    authorize: o.AuthorizeWord = None

    def setting(self, kept: Kept) -> Setting:
        """What the run goes on with. Raises `BadInput` where it shall go on here, without tools."""
        if self.here and not self.tools:
            raise BadInput("--resume goes on with the run here: say with which tools, --tools MODULE:NAME")
        return Setting(self.tools, self.rules, self.minds, kept, self.authorize)


def decide(
    screen: Screen,
    run_id: o.RunId,
    question_id: o.QuestionId,
    choice: o.Choice,
    *,
    value: o.Value = None,
    reason: o.Reason = "",
    by: o.By = None,
    kept: Kept,
    going_on: GoingOn,
) -> Code:
    """Answer a question of a run that waits.

    The answer is written down, and taken in when the run is resumed; here with --resume. It needs no tools.
    """
    said = _Said(question_id, choice, value, reason=reason)
    return _answer(screen, run_id, said, by, kept, going_on)


def reject(
    screen: Screen,
    run_id: o.RunId,
    question_id: o.QuestionId,
    *,
    reason: o.Reason = "",
    by: o.By = None,
    kept: Kept,
    going_on: GoingOn,
) -> Code:
    """Say no to a call or a new plan.

    Short for `decide RUN ID reject`; what was rejected is made by no other way.
    """
    return _answer(screen, run_id, _Said(question_id, "reject", reason=reason), by, kept, going_on)


def edit(
    screen: Screen,
    run_id: o.RunId,
    question_id: o.QuestionId,
    changes: o.Changes,
    *,
    reason: o.Reason = "",
    by: o.By = None,
    kept: Kept,
    going_on: GoingOn,
) -> Code:
    """Say yes to a call with other arguments.

    What is not named stays as it was asked. Short for `decide RUN ID edit --value '{"args": ...}'`, which names all.
    """
    said = _Said(question_id, "edit", changes=changes, reason=reason)
    return _answer(screen, run_id, said, by, kept, going_on)


def _answer(screen: Screen, run_id: str, said: _Said, by: str | None, kept: Kept, going_on: GoingOn) -> Code:
    """Take an answer, and leave the run waiting; or go on with it here."""
    setting, who = going_on.setting(kept), by or login_name()
    with stored(kept.journal, key=kept.journal_key) as journal:
        assert journal is not None
        run_id = run_in(journal, run_id)
        answers = {said.id: said.read(journal, run_id, who)}
        engine = Engine([], journal=journal, **_principal(journal, run_id))
        whole = batch_of_row(journal, run_id)
        told: Run | Batch
        if is_batch(journal, run_id):
            told = wait_for(lambda: engine.decide_batch(run_id, answers, patience=_PATIENCE))
        else:
            told = wait_for(lambda: engine.decide(run_id, answers, patience=_PATIENCE))
    if going_on.here:
        return go_on(screen, setting, whole, Going(by=by), full=going_on.full)
    screen.document({**told.to_json(), "answered": said.id})
    screen.show(_taken(said, who, told))
    screen.say(f"Go on:  {replace(setting, tools=setting.tools or 'MODULE:NAME').command('resume', whole)}")
    return Code.DONE


def _principal(journal: Journal, run: str) -> dict[str, Any]:
    """For whom the run goes on, as it says itself: an edit must be within what they may do."""
    opened = next(iter(journal.some(batch_of_row(journal, run), (e.RunOpened, e.BatchOpened))), None)
    return {"principal": opened.principal} if isinstance(opened, e.RunOpened | e.BatchOpened) else {}


def _taken(said: _Said, by: str, told: Run | Batch) -> RenderableType:
    head = Text.assemble(
        line(said.choice, "bold"), " by ", line(by, limit=NAME), " for ", line(said.id, limit=NAME)
    )
    head.append(" is written down")
    what, asked = ("batch", told.waiting_for) if isinstance(told, Batch) else ("run", told.waiting)
    left = [line(f"  {open_.id}") for open_ in asked[:20]]
    return stacked(head, line(f"{what} {told.id}: {told.message}"), *left)


def _json(text: str) -> Any:
    try:
        return read_document(text, format="json")
    except PlanUnreadable as error:
        said = error.findings[0].message
        raise BadInput(
            f"--value '{plain(text, 100)}' is no JSON: {said}; text stands in double quotes"
        ) from None
