"""What a run goes by, against what an engine brings to go on with it; and a person's word that it may go on all the same.

A run keeps the contracts, rules and principal that it was opened with. What differs is refused and named. Somebody may
accept it: then the journal says who and what, and the run goes by what is new from there on. Some things nobody can
accept, because what has happened so far was decided by them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ..planner.approvals import changed_rules
from ..policies.errors import NotApproved
from ..policies.permissions import Principal
from ..policies.policies import Policies
from ..registry.registry import Registry
from .events import BatchOpened, Event, RowsReopened, RunOpened, RunResumed

__all__ = ["Terms", "accepted_by", "contracts_of", "terms_of"]

_FIXED = frozenset({"effect", "answered_by", "binds", "requires_approval"})
"""Parts of a contract that decided what was repeated, asked and undone so far: another tool needs another run."""
_ASKED_ANEW = "roles"
"""What roles permit is asked of the engine that drives, so that a permission can be taken away."""


class Terms(NamedTuple):
    """What a run goes by."""

    principal: str
    policies: Policies
    contracts: dict[str, dict[str, Any]]
    authorize: bool


def terms_of(opened: RunOpened | BatchOpened, events: Iterable[Event] = ()) -> Terms:
    """What a run, or batch, was opened with, or what somebody accepted in its place since."""
    terms = Terms(opened.principal.id, opened.policies, dict(opened.contracts), "authorize" in opened.hooks)
    for event in events:
        if isinstance(event, RunResumed | RowsReopened) and event.accepted is not None:
            rules, contracts = event.accepted.get("policies"), event.accepted.get("contracts", {})
            terms = Terms(
                event.by if isinstance(event, RowsReopened) else event.principal.id,
                terms.policies if rules is None else Policies.model_validate(rules),
                terms.contracts | contracts,
                terms.authorize,
            )
    return terms


def contracts_of(events: list[Event]) -> dict[str, dict[str, Any]]:
    """The contracts that a run, or batch, goes by; {} where its journal does not begin with its opening."""
    opened = events[0] if events else None
    return terms_of(opened, events).contracts if isinstance(opened, RunOpened | BatchOpened) else {}


def accepted_by(
    who: str,
    run: str,
    terms: Terms,
    registry: Registry,
    principal: Principal,
    policies: Policies | None,
    *,
    authorize: bool,
    what: str = "run",
) -> dict[str, Any] | None:
    """What `who` accepts by going on, as the journal keeps it; None where nothing differs.

    `policies` is None where the engine was given none. Raises `NotApproved` with all that differs, where nobody accepts
    it ("") or nobody can.
    """
    fixed, changed, contracts = _tools(terms.contracts, registry)
    if terms.authorize and not authorize:
        fixed.append("it was opened with `authorize`, which this engine does not have")
    if principal.id != terms.principal:
        changed.append(f"it acts for {terms.principal!r}, not for {principal.id!r}")
    rules = list(_rules(terms.policies, policies))
    changed += rules
    if fixed or (changed and not who):
        raise NotApproved(
            f"{what} {run!r} cannot go on here: {'; '.join([*fixed, *changed])}{'' if fixed else _HOW}",
            differences=[*fixed, *changed],
        )
    if not changed:
        return None
    said = {"policies": policies.model_dump(mode="json")} if policies is not None and rules else {}
    return {"by": who, "changes": changed, "contracts": contracts, **said}


_HOW = "; go on with what it was opened with, or accept the change by name: accept_changes=... (--accept-changes)"


def _tools(
    contracts: Mapping[str, dict[str, Any]], registry: Registry
) -> tuple[list[str], list[str], dict[str, dict[str, Any]]]:
    """What nobody can accept, what somebody can, and the contracts that would hold then."""
    fixed, changed, others = list[str](), list[str](), dict[str, dict[str, Any]]()
    for name, contract in contracts.items():
        if name not in registry:
            fixed.append(f"tool {name!r} is not registered")
            continue
        now = registry[name].contract()
        parts = {part for part in contract.keys() | now.keys() if contract.get(part) != now.get(part)}
        if parts:
            (fixed if parts & _FIXED else changed).append(
                f"tool {name!r} changed: {', '.join(sorted(parts))}"
            )
            others[name] = now
    return fixed, changed, others


def _rules(before: Policies, now: Policies | None) -> Iterator[str]:
    if now is not None:
        yield from changed_rules(before, now.model_copy(update={_ASKED_ANEW: before.roles}))
