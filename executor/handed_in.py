"""What a host hands in is checked at once: a mistake must show here, not when a run first needs it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ..planner.model_planner import ModelPlanner
from ..planner.models.chat import ChatModel, models_in, name_of
from ..planner.planners import StaticPlanner
from ..policies.errors import BadInput
from ..policies.policies import Policies
from ..policies.signing import Verifier
from ..policies.text import did_you_mean, shorten
from ..registry.registry import Registry
from .children import hosts_of
from .journal.journal import Journal, MemoryJournal
from .mind.budget import reach

__all__ = [
    "check_deadline",
    "check_host",
    "check_models",
    "check_names",
    "check_run_id",
    "journal_of",
    "verifiers_of",
]


def check_host(planner: object, hands: object, telemetry: object, **functions: object) -> None:
    """Raises `BadInput` for what the host cannot mean: it must show here, not when a run first needs it."""
    parts = (
        ("planner", planner, ("plan", "replan")),
        ("hands", hands, ("perform",)),
        ("telemetry", telemetry, ("see", "knows")),
    )
    for what, value, methods in parts:
        missing = [name for name in methods if value is not None and not callable(getattr(value, name, None))]
        if missing:
            said = f"{what}={shorten(repr(value), 60)} is no {what}: it has no method `{missing[0]}`"
            raise BadInput(said + "; FunctionPlanner makes one of two functions" * (what == "planner"))
    for name, function in functions.items():
        if function is not None and not callable(function):
            raise BadInput(f"{name} must be a function, not {shorten(repr(function), 60)}")


def check_run_id(run_id: object) -> None:
    """Raises `BadInput` for an id that people could not read or type, or that is none; None: one is made."""
    if run_id is not None and not (isinstance(run_id, str) and run_id.strip() and run_id.isprintable()):
        raise BadInput(f"the id of a run is a line of text, not {shorten(repr(run_id), 60)}")


def check_deadline(seconds: object) -> None:
    """Raises `BadInput` for a deadline that is none."""
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool) and math.isfinite(seconds)
    if seconds is not None and not (number and seconds > 0):  # type: ignore[operator]
        raise BadInput(f"the deadline is a number of seconds from now on, not {shorten(repr(seconds), 60)}")


def check_names(policies: Policies, registry: Registry) -> None:
    """Raises `BadInput` for a tool or host that a rule names and nobody has: a misspelt name never means "no rule"."""
    limits = policies.limits
    inside = {name for tool in registry for name in reach(tool)}
    named: dict[str, Mapping[str, object]] = {
        "limits": limits.tool,
        "rates": limits.rates.tool,
        "the budget": policies.budget.tools,
        "personal fields": {name: () for name in policies.personal if name != "inputs"},
    }
    for where, names in named.items():
        for name in names:
            if name not in registry and not (where == "the budget" and name in inside):
                guess = did_you_mean(name, registry.names)
                verb = "names" if where == "the budget" else "name"
                raise BadInput(f"{where} {verb} a tool {name!r} that is not registered{guess}")
    for tool in registry:
        if tool.undo and tool.undo not in registry:
            guess = did_you_mean(tool.undo, registry.names)
            raise BadInput(f"{tool.name!r} is undone by {tool.undo!r}, which is not registered{guess}")
    hosts = hosts_of(registry)
    for name in [*limits.host, *limits.rates.host]:
        if name.lower() not in hosts:
            guess = did_you_mean(name, sorted(hosts)) or "; a tool states its own: @tool(host=...)"
            raise BadInput(f"limits name a host {name!r} that no tool states{guess}")


def check_models(
    policies: Policies, registry: Registry, planner: object, react: ChatModel | None, hooks: Iterable[object]
) -> None:
    """Raises `BadInput` for a model that a limit names and others are asked; a tool, a hook, a planner of one's own may ask
    any, and so may a model that does not show whom it asks."""
    named = [*policies.limits.model, *policies.limits.rates.model]
    own = planner is not None and not isinstance(planner, ModelPlanner | StaticPlanner)
    if (
        not named
        or own
        or any(tool.model_calls for tool in registry)
        or any(hook is not None for hook in hooks)
    ):
        return
    asked = [model for model in (getattr(planner, "model", None), react) if model is not None]
    names = sorted({name for model in asked for name in _names_of(model)})
    for name in named if names and "" not in names else ():
        if name not in names:
            guess = did_you_mean(name, names) or f"; asked here: {', '.join(names)}"
            raise BadInput(f"limits name a model {name!r} that is not asked here{guess}")


def _names_of(model: object) -> Iterator[str]:
    """What it is called, and those that it asks; "" for one that nobody knows."""
    inside = list(models_in(model))
    if not inside:
        yield "" if getattr(model, "asks_others", False) else name_of(model)
    for other in inside:
        yield from _names_of(other)


def journal_of(journal: Journal | str | Path | None) -> Journal:
    if journal is None:
        return MemoryJournal()
    if isinstance(journal, str | Path):
        from .journal.sqlite_journal import SqliteJournal

        return SqliteJournal(journal)
    if not callable(getattr(journal, "reopen", None)):
        raise BadInput(f"the journal must be a Journal or the path of a file, not {type(journal).__name__}")
    return journal


def verifiers_of(approvers: Iterable[Verifier]) -> tuple[Verifier, ...]:
    """Those whose signatures count. Raises `BadInput` for what can verify nothing."""
    known = tuple(approvers)
    for one in known:
        if not callable(getattr(one, "verify", None)):
            raise BadInput(f"an approver is a Verifier, such as HmacSigner(key), not {type(one).__name__}")
    return known
