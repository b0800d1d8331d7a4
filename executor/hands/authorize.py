"""The host's last word before an attempt begins: `Engine(..., authorize=hook)`.

    True                          the attempt begins
    False, a text (the reason)    denied               `permission`, code `denied`
    anything else, an exception,
    no answer in time             denied as well       `permission`, code `policy_unavailable`

It fails closed: nothing but `True` permits. It is asked for each attempt anew and never when a journal is replayed. A sync
hook runs in a thread, so that one that hangs holds nothing up but its own call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from ...policies.effect import Effect
from ...policies.failures import Failure, Kind
from ...policies.permissions import Level, Principal
from ...policies.text import safe_text, shorten
from ...registry.tools import Tool
from ...registry.values import copy_plain
from ..events import Path, path_text
from ..mind.state import Call
from .crew import Member, TimeLimit, absorb_cancel
from .threads import Threads

__all__ = ["Attempt", "Authorize", "attempt_of", "refusal_of"]

_LONGEST_REASON = 1000


class Attempt(NamedTuple):
    """An attempt that is about to begin, for whoever may still refuse it. `args` are a copy; `attempt` counts from 1."""

    principal: Principal
    tool: str
    args: Mapping[str, Any]
    effect: Effect
    level: Level
    tags: tuple[str, ...]
    permissions: tuple[str, ...]
    run: str
    path: Path
    attempt: int

    @property
    def step(self) -> str:
        """The step, with the items it is for: `refund[3]`."""
        return path_text(self.path)


def attempt_of(
    tool: Tool, args: Mapping[str, Any], principal: Principal, run: str, path: Path, attempt: int
) -> Attempt:
    """What a host sees of an attempt: nothing in it is shared with the run."""
    return Attempt(
        principal=principal,
        tool=tool.name,
        args=copy_plain(args),
        effect=tool.effect,
        level=tool.level,
        tags=tool.tags,
        permissions=tool.permissions,
        run=run,
        path=path,
        attempt=attempt,
    )


Authorize: TypeAlias = Callable[[Attempt], bool | str | Awaitable[bool | str]]


async def refusal_of(
    hook: Authorize, call: Call, seconds: float, threads: Threads, member: Member | None = None
) -> Failure | None:
    """Ask the hook; None where it permits. Raises only a cancellation from outside, and Ctrl-C.

    `member`: the task is there for this attempt alone, and waits for nothing more where it is refused. An answer after the time
    is none: what the hook did meanwhile, nobody waited for.
    """
    said: object = None
    limit = TimeLimit(seconds, member)
    try:
        with limit:
            seen = attempt_of(call.tool, call.args, call.principal, call.run, call.path, call.attempt)
            said = await threads.ask(hook, seen)
    except BaseException as error:
        if limit.cut or isinstance(error, KeyboardInterrupt):
            raise
        if not limit.reached:
            await absorb_cancel()
            return _unavailable(call, f"`authorize` raised {type(error).__name__}", error)
    if limit.reached:
        return _unavailable(call, f"`authorize` gave no answer within {seconds:g} s")
    if said is True:
        return None
    if said is False or isinstance(said, str):
        why = f": {safe_text(said, _LONGEST_REASON)}" if said else ""
        return Failure(Kind.PERMISSION, "denied", f"the host denied this call of {call.tool.name!r}{why}")
    told = shorten(type(said).__name__, 60)
    return _unavailable(call, f"`authorize` gave {told} and neither True, False nor a reason")


def _unavailable(call: Call, why: str, error: BaseException | None = None) -> Failure:
    said = type(error).__name__ if error is not None else ""
    message = f"{why}, so this call of {call.tool.name!r} is denied"
    return Failure(Kind.PERMISSION, "policy_unavailable", message, exception=said)
