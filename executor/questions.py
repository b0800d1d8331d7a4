"""What all runs of a journal wait for, without replaying any: a pause says which questions are open.

    RunOpened ... DecisionAsked ... RunPaused(waiting=ids)   DecisionMade ...   RunResumed
                        what              which                 answered          all of it is taken in

An answer that is given between a pause and a resume is kept with the run; whoever takes the run up, takes it in.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from .events import (
    BatchOpened,
    DecisionAsked,
    DecisionMade,
    Event,
    RowParked,
    RowsReopened,
    RunClosed,
    RunOpened,
    RunPaused,
    RunResumed,
    path_text,
)
from .journal.journal import Journal

__all__ = ["KINDS", "Pause", "Question", "pause_of", "questions_in"]

KINDS: tuple[type[Event], ...] = (
    *(RunOpened, BatchOpened, DecisionAsked, DecisionMade, RowParked, RunPaused, RunResumed, RunClosed),
    RowsReopened,
)
"""The kinds of events that say what a run waits for."""


class Question(NamedTuple):
    """A question that a run waits for: `asked` as the journal holds it, and of which run it is.

    `expires_at` is when the run's approval ends (epoch seconds), if it does: then no call can be allowed any more.
    """

    run: str
    goal: str
    asked: DecisionAsked
    expires_at: float | None = None

    @property
    def id(self) -> str:
        """What the answer must name."""
        return self.asked.id

    @property
    def since(self) -> float:
        """When it was asked, in epoch seconds."""
        return self.asked.at

    @property
    def tool(self) -> str:
        """The tool that is asked about, or asks; "" for a change of the plan."""
        return str(self.asked.question.get("tool", ""))

    @property
    def reason(self) -> str:
        """Why a person is asked: a sentence of the engine's, or how the call ended."""
        failure = self.asked.question.get("failure") or {}
        return str(self.asked.question.get("reason") or failure.get("message") or "")

    def to_json(self) -> dict[str, Any]:
        """The question as plain JSON, its values whole."""
        return {
            "run": self.run,
            "goal": self.goal,
            "id": self.id,
            "about": self.asked.about,
            "step": path_text(self.asked.path),
            "tool": self.tool,
            "reason": self.reason,
            "options": list(self.asked.options),
            "since": self.since,
            "expires_at": self.expires_at,
            "question": self.asked.question,
        }


class Pause(NamedTuple):
    """How a run stands that nobody drives: why it paused ("" if its process was killed), what is asked and answered."""

    reason: str
    open: tuple[DecisionAsked, ...]
    answered: int
    expires_at: float | None = None
    parent: str = ""
    rows: tuple[str, ...] = ()
    """Of a batch: the rows that waited for people, some of which may have gone on."""


def pause_of(journal: Journal, run: str) -> Pause | None:
    """How a run stands; None for one that is closed. Raises `UnknownRun`, `JournalError`."""
    asked: dict[str, DecisionAsked] = {}
    reason, waiting, answered, expires_at, parent, closed = "", None, 0, None, "", False
    rows: dict[str, None] = {}
    for event in journal.some(run, KINDS):
        match event:
            case RunOpened() | BatchOpened():
                expires_at = (event.approval or {}).get("expires_at")
                parent = event.parent if isinstance(event, RunOpened) else ""
            case DecisionAsked():
                asked[event.id] = event
            case DecisionMade():
                asked.pop(event.id, None)
                answered += 1
            case RunPaused():
                reason, waiting, answered = event.reason, event.waiting, 0
            case RowParked():
                answered += reason != ""  # the answer to a row
                rows |= {event.run: None} if event.questions else {}
            case RunResumed() | RowsReopened():
                reason, waiting, answered, closed = "", None, 0, False
            case RunClosed():
                closed = True
            case _:
                pass
    if closed:
        return None
    open_ = asked if waiting is None else [id_ for id_ in waiting if id_ in asked]
    questions = tuple(asked[id_] for id_ in open_)
    return Pause(reason, questions, answered if reason else 0, expires_at, parent, tuple(rows))


def questions_in(journal: Journal) -> Iterator[Question]:
    """What the runs of a journal wait for, the oldest run first; one run is held at a time.

    What a sub-plan asks is a question of the run that calls it; what a row of a batch asks, one of the row. The list does not follow the chain of each run; an answer
    does. Raises `JournalError`.
    """
    for line in reversed(journal.runs(unfinished=True)):
        pause = pause_of(journal, line.run) if line.state == "waiting" else None
        if pause is not None and not pause.parent:
            for asked in pause.open:
                yield Question(line.run, line.goal, asked, pause.expires_at)
            for row in pause.rows:
                waits = pause_of(journal, row)
                for asked in waits.open if waits is not None else ():
                    yield Question(row, line.goal, asked, pause.expires_at)
