"""A person at the terminal: one question at a time, values as they are, and no answer means no.

    yes_or_no     before a run: shall this plan run?
    Desk.decide   during a run: calls that ask, outcomes nobody knows, patches beyond the approval, steps that ask

Questions of a run may come many at once; those about the same tool are shown together and answered together or one by
one. The terminal is read by the event loop itself, so that Ctrl-C and the end of a run find no thread stuck in it.
"""

from __future__ import annotations

import asyncio
import getpass
import json
import os
import sys
from typing import NamedTuple

from rich.console import RenderableType
from rich.text import Text

from ..executor.events import DecisionAsked
from ..executor.runtime import Answer
from ..planner.documents import read_document
from ..planner.findings import PlanUnreadable
from ..policies.errors import BadInput
from ..registry.registry import Registry
from ..registry.schema import compile_schema
from .lines import plain
from .live import View
from .screen import Screen
from .telling import calls_together, question

__all__ = ["Desk", "login_name", "read_changes", "read_reply", "yes_or_no"]


def yes_or_no(screen: Screen, asked: str) -> bool:
    """Ask on the terminal; anything but yes is no."""
    screen.err.print(Text(f"{asked} [y/N] ", "bold"), end="")
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        screen.err.print()
    return _is_yes(answer)


def _is_yes(answer: str) -> bool:
    return answer.strip().casefold() in ("y", "yes")


def login_name() -> str:
    """Who sits here, as the system knows them. Raises `BadInput` where it does not."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        raise BadInput("the system does not say who you are; say who approves: --by NAME") from None


class _Open(NamedTuple):
    asked: DecisionAsked
    answer: asyncio.Future[Answer | None]


class Desk:
    """Answers the questions of one live run. `decide` is for the engine; None leaves a question open."""

    def __init__(self, screen: Screen, view: View, by: str, tools: Registry | None = None) -> None:
        self._screen = screen
        self._view = view
        self._by = by
        self._tools = tools
        self._open: list[_Open] = []
        self._busy = False
        self._gone = False

    async def decide(self, asked: DecisionAsked) -> Answer | None:
        """The person's answer; None once they left."""
        mine = _Open(asked, asyncio.get_running_loop().create_future())
        self._open.append(mine)
        if not self._busy:
            self._busy = True
            try:
                await self._work()
            finally:
                self._busy = False
        return await mine.answer

    async def _work(self) -> None:
        """Ask until nothing is left to ask; questions that come meanwhile join."""
        await asyncio.sleep(0)  # questions of the same moment are asked together
        while self._open:
            first = self._open[0].asked
            alike = [open_ for open_ in self._open if _kind(open_.asked) == _kind(first)]
            self._open = [open_ for open_ in self._open if open_ not in alike]
            with self._view.aside():
                await self._ask(alike)

    async def _ask(self, alike: list[_Open]) -> None:
        together = "n"
        if len(alike) > 1 and alike[0].asked.about == "call":
            together = await self._together(alike)
        for open_ in alike:
            if together != "n" or self._gone:
                answer = None if self._gone else Answer("approve" if together == "y" else "reject", self._by)
            else:
                answer = await self._alone(open_.asked)
            if not open_.answer.done():
                open_.answer.set_result(answer)

    async def _together(self, alike: list[_Open]) -> str:
        """`y` for all, `r` for none, `n` for one by one."""
        progress = self._view.progress
        self._show(calls_together((open_.asked, progress.sources(open_.asked)) for open_ in alike))
        said = await self._line(f"Approve all {len(alike)}? [y/N, e to go one by one] ")
        return "n" if said.casefold() in ("e", "each") else "y" if _is_yes(said) else "r"

    async def _alone(self, asked: DecisionAsked) -> Answer | None:
        self._show(question(asked, sources=self._view.progress.sources(asked)))
        if asked.about == "ask":
            return await self._reply(asked)
        if "approve" not in asked.options:
            return await self._choice(asked)
        return await self._yes_no_or_edit(asked)

    async def _yes_no_or_edit(self, asked: DecisionAsked) -> Answer | None:
        """A yes, a no, or other arguments; an edit that is given up leads back to the question."""
        editable = "edit" in asked.options
        while True:
            said = await self._line("Approve? [y/N, e to edit] " if editable else "Approve? [y/N] ")
            if self._gone:
                return None
            if not editable or said.casefold() not in ("e", "edit"):
                return Answer("approve" if _is_yes(said) else "reject", self._by)
            args = await self._arguments(asked)
            if args is not None:
                return Answer("edit", self._by, {"args": args})

    async def _arguments(self, asked: DecisionAsked) -> dict[str, object] | None:
        """What a person changes of the arguments; the others stay as they are."""
        while True:
            said = await self._line('What changes, as JSON like {"name": value}? [Enter to go back] ')
            if not said:
                return None
            try:
                return read_changes(said, asked, self._tools)
            except BadInput as error:
                self._show(Text(plain(error), "red"))

    async def _choice(self, asked: DecisionAsked) -> Answer | None:
        """One of several words, by its beginning; an empty line leaves the question open."""
        words = ", ".join(plain(option) for option in asked.options)
        said = await self._line(f"{words}? [Enter to decide later] ")
        chosen = [option for option in asked.options if said and option.startswith(said.casefold())]
        if len(chosen) != 1:
            return None
        value = await self._value() if chosen[0] == "accept" else None
        return None if self._gone else Answer(chosen[0], self._by, value)

    async def _reply(self, asked: DecisionAsked) -> Answer | None:
        """The answer to a question of the plan: an option by its number or name, or a value as JSON."""
        options = asked.question["args"].get("options")
        what = "Your answer as JSON" if options is None else f"Which, 1 to {len(options)}"
        while True:
            said = await self._line(f"{what}? [`refuse`, or Enter to decide later] ")
            if not said:
                return None
            if said == "refuse":
                return Answer("refuse", self._by)
            try:
                value = read_reply(said, asked)
            except BadInput as error:
                self._show(Text(plain(error), "red"))
            else:
                return Answer("answer", self._by, value)

    async def _value(self) -> object:
        """What the call gave, as the person knows it."""
        while True:
            said = await self._line("Its result as JSON [null] ")
            try:
                return read_document(said, format="json") if said else None
            except PlanUnreadable as error:
                self._show(Text(plain(error.findings[0].message), "red"))

    def _show(self, part: RenderableType) -> None:
        self._screen.note(Text(), part, important=True)

    async def _line(self, prompt: str) -> str:
        """One line of the terminal, without holding the event loop up; the end of input means that nobody is there."""
        if self._gone:
            return ""
        self._screen.err.print(Text(prompt, "bold"), end="")
        said = await _read_line(sys.stdin.fileno())
        if said is None:
            self._gone = True
            self._screen.err.print()
        return (said or "").strip()


def read_reply(said: str, asked: DecisionAsked) -> object:
    """What a typed line says in answer to a question of the plan. Raises `BadInput` with what to type instead."""
    schema = asked.question["schema"]
    options = asked.question["args"].get("options")
    if options is not None:
        return schema["enum"][_place(said, schema["enum"])]
    value: object = said
    if schema.get("type") != "string" or said.startswith('"'):
        try:
            value = read_document(said, format="json")
        except PlanUnreadable as error:
            raise BadInput(f"{error.findings[0].message}; text stands in double quotes") from None
    problems = compile_schema(schema, closed=True).problems(value)
    if problems:
        raise BadInput("; ".join(f"{p.pointer or 'it'} {p.message}" for p in problems[:3]))
    return value


def read_changes(said: str, asked: DecisionAsked, tools: Registry | None) -> dict[str, object]:
    """All arguments of a call with what a typed line changes. Raises `BadInput` with what to type instead."""
    try:
        changes = read_document(said, format="json")
    except PlanUnreadable as error:
        raise BadInput(f"{error.findings[0].message}; names and texts stand in double quotes") from None
    if not isinstance(changes, dict):
        raise BadInput('write an object of what changes, like {"amount": 50}')
    args = {**asked.question["args"], **changes}
    tool = tools.get(asked.question["tool"]) if tools is not None and "of" not in asked.question else None
    problems = tool.input.problems(args) if tool is not None else []
    if problems:
        raise BadInput("; ".join(f"{p.pointer or 'it'} {p.message}" for p in problems[:3]))
    return args


def _place(said: str, choices: list[object]) -> int:
    """Which option is meant, from 0: by its number, or as it is written."""
    spelt = [{str(n), f"#{n}", str(choice), json.dumps(choice)} for n, choice in enumerate(choices, 1)]
    meant = [place for place, spellings in enumerate(spelt) if said in spellings]
    if len(meant) == 1:
        return meant[0]
    if meant:
        raise BadInput(f"{said!r} may mean two of them: write #{meant[0] + 1} or #{meant[1] + 1}")
    raise BadInput(f"{said!r} is no option: type its number, 1 to {len(choices)}")


def _kind(asked: DecisionAsked) -> tuple[str, object]:
    return asked.about, asked.question.get("tool")


async def _read_line(descriptor: int) -> str | None:
    """A line that the terminal has ready; None at the end of input."""
    loop = asyncio.get_running_loop()
    got = b""
    while not got.endswith(b"\n"):
        ready = asyncio.Event()
        loop.add_reader(descriptor, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(descriptor)
        try:
            piece = os.read(descriptor, 4096)
        except OSError:
            piece = b""
        if not piece:
            return got.decode(errors="replace") if got else None
        got += piece
    return got.decode(errors="replace")
