"""Where a command shows things, and how it ends: results on stdout, everything else on stderr, an exit code.

    done 0    failed 1    bad input 2    not approved, or waiting for a person 3    interrupted 130    nobody reads 141

With `--json` stdout holds one JSON document and nothing else, also when the command fails. What tools and modules
print while a command runs goes to stderr. No exception reaches the user as a traceback, unless asked for.
"""

from __future__ import annotations

import codecs
import io
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from enum import IntEnum
from typing import IO, Any, TextIO

from rich.console import Console, RenderableType

from ..executor.batches.rows import RowsRefused
from ..planner.findings import CheckFailed, Finding, PlanUnreadable
from ..policies.errors import BadInput, ForeplanError, NotApproved
from ..policies.text import safe_text
from .lines import Trimmed, block, line

__all__ = ["Code", "Failed", "Faulty", "Interrupted", "Screen", "complain", "perform"]


class Code(IntEnum):
    """What the exit codes mean."""

    DONE = 0
    FAILED = 1
    BAD_INPUT = 2
    NOT_APPROVED = 3
    INTERRUPTED = 130
    NOBODY_READS = 141


class Failed(ForeplanError):
    """The command did what it could, and failed (exit code 1)."""


class Interrupted(ForeplanError):
    """Ctrl-C: `run` is the id of a run that paused; the sentence says how to go on."""

    def __init__(self, message: str, *, run: str = "") -> None:
        super().__init__(message)
        self.run = run


class Faulty(BadInput):
    """A document with findings: `title` names it and what is wrong with it."""

    def __init__(self, title: str, findings: tuple[Finding, ...]) -> None:
        super().__init__(f"{title}: {findings[0].message}" if findings else title)
        self.title = title
        self.findings = findings


class Screen:
    """The two streams of one command, and what the user asked of them."""

    def __init__(self, *, json: bool = False, quiet: bool = False, traceback: bool = False) -> None:
        self.json = json
        self.quiet = quiet
        self.traceback = traceback
        self.out = _Stream(sys.stdout)
        self.err = _Stream(io.StringIO() if sys.stderr is None else sys.stderr)

    @property
    def interactive(self) -> bool:
        """Whether a person can be asked: a terminal to read from, and one to show the question on."""
        return _is_terminal(sys.stdin) and self.err.is_terminal

    def show(self, *parts: RenderableType, important: bool = False) -> None:
        """The result, for people; `important` is shown with `--quiet`, too."""
        if not self.json and (important or not self.quiet):
            with _written(self.out.file):
                for part in parts:
                    self.out.print(Trimmed(part), end="")

    def note(self, *parts: RenderableType, important: bool = False) -> None:
        """What goes beside the result: progress, advice, questions; on stderr."""
        if important or not self.quiet:
            for part in parts:
                self.err.print(Trimmed(part), end="")

    def say(self, sentence: str, *, important: bool = False) -> None:
        """A sentence, or a command to copy, beside the result: the terminal breaks it, not we."""
        if important or not self.quiet:
            self.err.print(line(sentence), soft_wrap=True)

    def document(self, document: Any) -> None:
        """The result as the one JSON document, with `--json`. ASCII, so that it can be shown anywhere."""
        if self.json:
            self.write(json.dumps(document, indent=2).replace("\x7f", "\\u007f") + "\n")

    def write(self, text: str) -> None:
        """Text for stdout as it is; made safe where it is a terminal that reads it."""
        with _written(self.out.file):
            self.out.file.write(safe_text(text) if self.out.is_terminal else text)
            self.out.file.flush()


_NEAREST = "foreplan.nearest"
_LIKE = {"·": "-", "…": "...", "─": "-", "━": "="}
"""Marks of ours, and what stands for them where the terminal does not have them."""


class _Stream(Console):
    """A console that takes nothing for markup, and leaves it to us what happens when nobody reads."""

    def __init__(self, file: TextIO) -> None:
        _never_fail_to_encode(file)
        super().__init__(file=file, markup=False, highlight=False, emoji=False)

    def on_broken_pipe(self) -> None:
        raise  # rich calls this while it handles the BrokenPipeError


def _never_fail_to_encode(file: TextIO) -> None:
    """A character that the terminal's encoding lacks is shown as one like it, or an escape, and is no error."""
    reconfigure = getattr(file, "reconfigure", None)
    if reconfigure is not None:
        with suppress(ValueError, OSError):
            reconfigure(errors=_NEAREST)


def _nearest(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    absent = error.object[error.start : error.end]
    shown = (_LIKE.get(mark) or mark.encode("ascii", "backslashreplace").decode() for mark in absent)
    return "".join(shown), error.end


codecs.register_error(_NEAREST, _nearest)


@contextmanager
def _written(file: IO[str]) -> Iterator[None]:
    """A full disk behind stdout is a sentence; a pipe that nobody reads is not for this place."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        _let_go_of(file)
        raise Failed(f"the result cannot be written: {error.strerror or error}") from None


def _is_terminal(file: Any) -> bool:
    try:
        return bool(file.isatty())
    except (AttributeError, ValueError):
        return False


def perform(screen: Screen, command: Callable[[], Code]) -> Code:
    """Run a command; whatever goes wrong becomes a sentence and an exit code."""
    try:
        with redirect_stdout(sys.stderr):
            return command()
    except BrokenPipeError:
        _let_go_of(sys.stdout)
        return Code.NOBODY_READS
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        with suppress(BrokenPipeError):
            return complain(screen, error)
        return Code.NOBODY_READS


def _let_go_of(file: IO[str]) -> None:
    """Python flushes stdout at its end; that must not complain about the closed pipe or the full disk again."""
    with suppress(OSError, ValueError, AttributeError):
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, file.fileno())
        os.close(devnull)


def complain(screen: Screen, error: BaseException) -> Code:
    """Say what went wrong: a sentence on stderr, with `--json` also a document on stdout."""
    code, kind = _judge(error)
    sentence = _sentence(error)
    findings, title = _findings(error)
    try:
        _tell(screen, error, f"foreplan: {sentence}", findings, title)
    except BrokenPipeError:
        raise
    except OSError:
        pass  # the disk behind stderr is full; the exit code is left
    screen.document({"error": _document(error, kind, sentence, findings), "exit_code": int(code)})
    return code


def _tell(
    screen: Screen, error: BaseException, sentence: str, findings: tuple[Finding, ...], title: str
) -> None:
    from .render import faults

    if screen.traceback:
        screen.err.print(block("".join(traceback.format_exception(error))), soft_wrap=True)
    if findings:
        screen.note(faults(title, findings), important=True)
    else:
        style = "" if _judge(error)[0] == Code.INTERRUPTED else "red"
        screen.err.print(block(sentence, style), soft_wrap=True)


def _judge(error: BaseException) -> tuple[Code, str]:
    match error:
        case KeyboardInterrupt() | Interrupted():
            return Code.INTERRUPTED, "interrupted"
        case NotApproved():
            return Code.NOT_APPROVED, "not_approved"
        case BadInput():
            return Code.BAD_INPUT, "bad_input"
        case ForeplanError():
            return Code.FAILED, "failed"
        case _:
            return Code.FAILED, "unexpected"


def _sentence(error: BaseException) -> str:
    match error:
        case KeyboardInterrupt():
            return "interrupted"
        case ForeplanError():
            return str(error) or type(error).__name__
        case SystemExit():
            return "something tried to end the program; run it again with --traceback to see what"
        case _:
            leaf = _leaf(error)
            said = f"{type(leaf).__name__}: {leaf}" if str(leaf) else type(leaf).__name__
            return f"something unexpected went wrong: {said}; run it again with --traceback to see where"


def _leaf(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _findings(error: BaseException) -> tuple[tuple[Finding, ...], str]:
    match error:
        case Faulty():
            return error.findings, error.title
        case PlanUnreadable():
            return error.findings, "the plan cannot be read"
        case CheckFailed():
            return error.report.findings, "the plan does not check"
        case _:
            return (), ""


def _document(
    error: BaseException, kind: str, sentence: str, findings: tuple[Finding, ...]
) -> dict[str, Any]:
    document: dict[str, Any] = {"kind": kind, "message": sentence}
    if findings:
        document["findings"] = [finding.to_json() for finding in findings]
    if isinstance(error, RowsRefused):
        document["rows"] = [finding._asdict() for finding in error.findings]
    if isinstance(error, NotApproved) and error.differences:
        document["differences"] = list(error.differences)
    if isinstance(error, Interrupted) and error.run:
        document["run"] = error.run
    return document
