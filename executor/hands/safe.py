"""The secrets of an engine: got for each attempt, given below the recorded arguments, taken out of all that comes back.

before a run      every secret of its tools is asked for, so that the scrubber knows it before any tool can tell it
each attempt      its secrets are asked for anew (they may have changed), after everything that can refuse the call
each event        what tools, hooks, models and people said is scrubbed before it is written
each log record   of the logger "foreplan" and of those of tools too
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterable, Mapping
from typing import Any
from weakref import WeakSet

import anyio

from ...planner.plan import Patch
from ...planner.subplans import Subplan
from ...policies.errors import BadInput, SecretMissing, SecretRefused
from ...policies.failures import Failure, Kind
from ...policies.secrets import Scrubber, Secret
from ...registry.tools import Tool
from ...registry.vaults import Vault
from ..events import EVENTS, Event, ModelAnswered
from .crew import cancelled
from .threads import Job, Threads

__all__ = ["Safe", "holding", "refs_of"]


class _Unavailable(Exception):
    """A secret that cannot be had; says why, and never what a vault said."""


class Safe:
    """The secrets of one engine and of the sub-plans that it runs."""

    def __init__(self, vault: Vault, seconds: float) -> None:
        if not callable(getattr(vault, "resolve", None)):
            said = f"not {type(vault).__name__}; MappingSecrets({{...}}) makes one of a dict"
            raise BadInput(f"secrets come from something with `resolve(ref)`, {said}")
        self.scrubber = Scrubber()
        self._vault = vault
        self._seconds = seconds
        self._threads = Threads()

    async def learn(self, tools: Iterable[Tool]) -> None:
        """Ask for every secret of these tools, so that it is known; one that cannot be had is asked for again at its call."""
        refs = refs_of(tools)
        if not refs:
            return
        _filter_logs_of(tools)
        async with anyio.create_task_group() as tasks:
            for ref in refs:
                tasks.start_soon(self._learn, ref)

    async def _learn(self, ref: str) -> None:
        try:
            await self._secret(ref)
        except _Unavailable:
            pass

    async def secrets_for(self, tool: Tool) -> Mapping[str, Secret] | Failure:
        """What each parameter gets; or the failure of a call that cannot be begun without."""
        found = {}
        for parameter, ref in tool.secret_refs.items():
            try:
                found[parameter] = await self._secret(ref)
            except _Unavailable as error:
                message = f"{tool.name!r} needs the secret {ref!r}: {error}"
                return Failure(Kind.PERMISSION, "secret_unavailable", message)
        return found

    async def _secret(self, ref: str) -> Secret:
        """The secret of this name, which the scrubber knows from now on. Raises `_Unavailable`."""
        try:
            said = await self._said(ref)
            named = isinstance(said, Secret) and said.name == ref
            secret = said if named else Secret(said.reveal() if isinstance(said, Secret) else said, ref)
        except (SecretMissing, SecretRefused) as error:
            raise _Unavailable(str(error)) from None
        except BaseException as error:
            if cancelled() or isinstance(error, KeyboardInterrupt | _Unavailable):
                raise
            raise _Unavailable(f"looking it up raised {type(error).__name__}") from None
        if self.scrubber.add(secret):
            _filter_log(self.scrubber)
        return secret

    async def _said(self, ref: str) -> Any:
        """What the vault gives, in time where it has to be waited for."""
        resolve = self._vault.resolve
        blocking = getattr(self._vault, "blocking", False)
        said = self._threads.wait(Job(lambda: resolve(ref), _lost)) if blocking else resolve(ref)
        if not inspect.isawaitable(said):
            return said
        with anyio.move_on_after(self._seconds):
            said = await said
            return await said if inspect.isawaitable(said) else said
        raise _Unavailable(f"looking it up took more than {self._seconds:g} s")

    def clean(self, event: Event) -> Event:
        """The event without secrets: the same where it holds none."""
        if isinstance(event, ModelAnswered) and event.patch is not None:
            event = self._without_secret(event, event.patch)
        names = _SAID[type(event)]
        if not names:
            return event
        given = [getattr(event, name) for name in names]
        said = [_parts(value) for value in given]
        found = self.scrubber.scrub(said)
        if found is said:
            return event
        made = map(_made, given, found)
        return event._replace(**dict(zip(names, made, strict=True)))

    def _without_secret(self, event: ModelAnswered, patch: Patch) -> ModelAnswered:
        """A patch that holds a secret is no answer, as a plan that does is none."""
        names = self.scrubber.names_in(patch.to_json())
        if not names:
            return event
        return event._replace(
            patch=None, failure=Failure(Kind.BAD_ARGS, "holds_secret", holding("the patch", names))
        )

    def expect_none(self, what: str, value: Any) -> None:
        """Raises `BadInput` where something handed in, called `what`, holds a secret: it would be written down."""
        names = self.scrubber.names_in(value) if self.scrubber else []
        if names:
            raise BadInput(holding(what, names))


def holding(what: str, names: list[str]) -> str:
    """The sentence about something that holds secrets."""
    return f"{what} holds the secret {', '.join(map(repr, names))}; leave it out, tools get it by secret_refs"


def refs_of(tools: Iterable[Tool]) -> list[str]:
    """The names of all secrets of these tools, and of those of sub-plans among them."""
    found: dict[str, None] = {}
    for tool in tools:
        found |= dict.fromkeys(tool.secret_refs.values())
        if isinstance(tool.function, Subplan):
            found |= dict.fromkeys(refs_of(tool.function.tools))
    return list(found)


def _lost(job: Job) -> None:
    """Nobody waits for this answer any more."""


# --- What of an event others than foreplan have said.

_WORDS = frozenset(
    {
        "by",
        "cannot_plan",
        "failure",
        "findings",
        "message",
        "note",
        "output",
        "question",
        "questions",
        "reason",
    }
    | {"text", "usage", "value"}
)
_SAID = {kind: tuple(name for name in kind._fields if name in _WORDS) for kind in EVENTS.values()}
"""Arguments are not among them: they are made of these, and of plans and inputs that hold no secret."""
_TOLD = ("code", "message", "hint", "exception", "host", "details")
"""What of a failure is text of others."""


def _parts(value: Any) -> Any:
    return [getattr(value, name) for name in _TOLD] if isinstance(value, Failure) else value


def _made(given: Any, found: Any) -> Any:
    """What was found in the place of what was given."""
    if isinstance(given, Failure):
        return given._replace(**dict(zip(_TOLD, found, strict=True)))
    return tuple(found) if isinstance(given, tuple) else found


# --- The log. One filter for all engines: it knows the scrubbers of those that are alive.

_LOG = logging.getLogger("foreplan")
_SCRUBBERS: WeakSet[Scrubber] = WeakSet()


class _Clean(logging.Filter):
    """Takes secrets out of a record: its message, what it was given, the text of its exception."""

    def filter(self, record: logging.LogRecord) -> bool:
        said = {name: text for name, text in vars(record).items() if isinstance(text, str)}
        said["msg"] = record.getMessage()
        if record.exc_info and not record.exc_text:
            said["exc_text"] = logging.Formatter().formatException(record.exc_info)
        found = said
        for scrubber in list(_SCRUBBERS):
            found = scrubber.scrub(found)
        if found is not said:
            vars(record).update(found, args=(), exc_info=None)
        return True


_CLEAN = _Clean()


def _filter_logs_of(tools: Iterable[Tool]) -> None:
    """What tools log by their `ToolContext` is scrubbed too; a filter holds for its own logger alone."""
    for tool in tools:
        logging.getLogger(f"foreplan.tool.{tool.name}").addFilter(_CLEAN)
        if isinstance(tool.function, Subplan):
            _filter_logs_of(tool.function.tools)


def _filter_log(scrubber: Scrubber) -> None:
    _SCRUBBERS.add(scrubber)
    if _CLEAN not in _LOG.filters:
        _LOG.addFilter(_CLEAN)
