"""Let a run go on, tell how it ended, and say what to type next."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from rich.text import Text

from ..executor.events import DecisionAsked
from ..executor.run import Run
from ..executor.runtime import Decide
from ..registry.registry import Registry
from . import telling
from .asking import Desk, login_name
from .lines import plain
from .live import View
from .screen import Code, Interrupted, Screen
from .setting import Setting
from .waiting import wait_for

__all__ = ["advise", "code_of", "desk", "driven"]

_ANSWERS = 3
"""So many answers are spelled out in the command that is shown."""


def desk(screen: Screen, view: View, by: str | None, tools: Registry | None = None) -> Decide | None:
    """Who answers while the run is live: whoever sits at the terminal, if there is one."""
    return Desk(screen, view, by or login_name(), tools).decide if screen.interactive else None


def driven(
    screen: Screen, setting: Setting, view: View, drive: Callable[[], Coroutine[Any, Any, Run]], *, full: bool
) -> Code:
    """Let a run go on and tell how it ended; on Ctrl-C it has paused, and how to resume it is said."""
    try:
        ended = wait_for(drive)
    except KeyboardInterrupt:
        raise _interrupted(setting, view.progress.run) from None
    view.__exit__()
    screen.document(ended.to_json())
    if screen.quiet and ended.ok:
        screen.show(*telling.output_only(ended), important=True)
    elif screen.quiet:
        screen.say(f"foreplan: {telling.fate(ended)}: {ended.message}", important=True)
    else:
        screen.show(telling.account(ended, took=view.progress.took, full=full))
    advise(screen, setting, ended)
    return code_of(ended)


def _interrupted(setting: Setting, run: str) -> Interrupted:
    if not run:
        return Interrupted("interrupted before the run began; nothing was done")
    if setting.kept.journal is None:
        return Interrupted(
            f"interrupted: run {run} was kept in memory only and cannot be resumed; --journal FILE keeps runs",
            run=run,
        )
    return Interrupted(
        f"interrupted: run {run} has paused; go on with: {setting.command('resume', run)}", run=run
    )


def advise(screen: Screen, setting: Setting, ended: Run) -> None:
    """What to type next, on lines that can be copied."""
    advice = list(_advice(setting, ended))
    if advice:
        screen.note(Text())
    for sentence in advice:
        screen.say(sentence)


def _advice(setting: Setting, ended: Run) -> Iterator[str]:
    if ended.state != "waiting":
        return
    if setting.kept.journal is None:
        yield "The run was kept in memory only, so it ends here; with --journal FILE it can be resumed."
        return
    yield "Answer, and go on:" if ended.waiting else "Go on:"
    shown = ended.waiting[:_ANSWERS]
    answers = [f"--decide {shlex.quote(f'{plain(asked.id)}={_said(asked)}')}" for asked in shown]
    yield "  " + " ".join([setting.command("resume", ended.id), *answers])
    if len(ended.waiting) > _ANSWERS:
        more = len(ended.waiting) - _ANSWERS
        yield (
            "  and one --decide for the other question" * (more == 1)
            or f"  and one --decide for each of the other {more} questions"
        )


def _said(asked: DecisionAsked) -> str:
    """What stands for the answer to a question."""
    return "answer:JSON" if asked.about == "ask" else "CHOICE"


def code_of(ended: Run) -> Code:
    """The exit code of a run that ended, or waits."""
    match ended.state:
        case "done":
            return Code.DONE
        case "waiting" | "running":
            return Code.NOT_APPROVED
        case _:
            return Code.FAILED
