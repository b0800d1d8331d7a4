"""Events for tests: a short run, and strategies for any event with any data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal

from hypothesis import strategies as st

from foreplan.executor.events import (
    EVENTS,
    CallSettled,
    CallStarted,
    Event,
    Outcome,
    PlanAccepted,
    RunClosed,
    RunOpened,
    RunPaused,
    RunState,
)
from foreplan.planner.plan import Patch, Plan
from foreplan.policies.failures import Failure, Happened, Kind
from foreplan.policies.permissions import ANYONE, Principal
from foreplan.policies.policies import Budget, Limits, Policies
from foreplan.policies.retry import Retry

__all__ = ["anything", "calls", "opening", "plain", "settled", "short_run"]


def opening(run: str, goal: str = "Say hello") -> list[Event]:
    """The first two events of a run."""
    plan = Plan.model_validate({"goal": goal, "steps": [{"id": "hello", "tool": "greet"}]})
    opened = RunOpened(1, 1_700_000_000.5, 0.25, run, {}, ANYONE, Policies(), {"greet": {"name": "greet"}})
    return [opened, PlanAccepted(2, 1_700_000_001.0, 0.5, plan, plan.digest)]


def settled(seq: int, value: Any = None) -> CallSettled:
    """A call that ended well."""
    return CallSettled(seq, 1_700_000_000.0 + seq, 0.5, ("hello", seq), 1, Outcome.OK, value)


def calls(first: int, count: int) -> list[Event]:
    """Attempts that begin and end, from event `first` on."""
    return [
        settled(seq, {"n": seq})
        if seq % 2
        else CallStarted(seq, 1_700_000_000.0 + seq, 0.5, ("hello", seq), 1)
        for seq in range(first, first + count)
    ]


def short_run(run: str, goal: str = "Say hello", state: RunState = "done") -> Iterator[Event]:
    """A whole run of five events: `done`, or any other end, or `waiting`."""
    yield from opening(run, goal)
    yield from calls(3, 2)
    if state == "waiting":
        yield RunPaused(5, 1_700_000_005.0, 0.5, "waiting for people", ("approve hello",))
    else:
        reason: Literal["", "cancelled"] = "cancelled" if state == "stopped" else ""
        yield RunClosed(5, 1_700_000_005.0, 0.5, state, reason, {"said": 1})


TAGS = ["type", "$", "$literal", "kind", "seq", "__class__", "py/object", "failed", "ok", "tuple", *EVENTS]
_text = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(TAGS)
_number = (
    st.integers(-(2**200), 2**200)
    | st.sampled_from([2**53, 2**53 + 1, 2**64, -(2**64) - 1, 10**400])
    | st.floats(allow_nan=False, allow_infinity=False)
)
plain = st.recursive(
    st.none() | st.booleans() | _number | _text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3),
    max_leaves=8,
)
"""Any JSON value."""
_object = st.dictionaries(_text, plain, max_size=3)
_texts = st.lists(_text, max_size=3)
_permission = _text.filter(lambda word: not re.search(r"(^|[:.])\s*($|[:.])|\*", word))
"""A word that grants something: no segment is empty."""
_rows = st.lists(_object, max_size=2).map(tuple)

_step = st.fixed_dictionaries(
    {"id": _text},
    optional={
        "tool": _text,
        "args": _object,
        "value": plain,
        "each": plain,
        "as": _text,
        "when": plain,
        "after": _texts,
        "on_failure": st.sampled_from(["stop", "skip"]),
        "replaces": _text,
    },
)
_plan = st.fixed_dictionaries(
    {"steps": st.lists(_step, max_size=3)}, optional={"goal": _text, "inputs": _object, "output": plain}
).map(Plan.model_validate)
_patch = st.fixed_dictionaries(
    {}, optional={"drop": _texts, "add": st.lists(_step, max_size=2), "output": plain}
).map(Patch.model_validate)
_failure = st.builds(
    Failure,
    st.sampled_from(Kind),
    _text,
    _text,
    st.sampled_from(Happened),
    hint=_text,
    exception=_text,
    status=st.none() | st.integers(100, 599),
    retry_after=st.none() | st.floats(0, 1e6),
    host=_text,
    details=st.none() | _object,
    untrusted=st.booleans(),
    retryable=st.booleans(),
)
_principal = st.builds(
    Principal,
    id=_text,
    roles=_texts.map(tuple),
    permissions=st.lists(_permission, max_size=3).map(tuple),
    attributes=_object,
)
_policies = st.builds(
    Policies,
    approve=st.sampled_from(["never", "acts", "always"]),
    retry=st.builds(Retry, attempts=st.integers(1, 100), base=st.floats(0, 10)),
    tool_timeout=st.none() | st.floats(0.1, 1e6),
    budget=st.builds(Budget, tool_calls=st.none() | st.integers(0, 2**70)),
    limits=st.builds(Limits, tool=st.dictionaries(_text, st.integers(1, 9), max_size=2)),
    failures=st.dictionaries(
        _text, st.just({"kind": "network", "code": "down", "happened": "maybe"}), max_size=2
    ),
)

FIELDS: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(
        ("run", "digest", "tool", "args_digest", "key", "reason", "id", "choice", "by", "hook"), _text
    ),
    **dict.fromkeys(
        ("note", "parent", "trace", "cannot_plan", "text", "message", "about", "answer", "purpose", "state"),
        _text,
    ),
    **dict.fromkeys(("batch", "status", "kind", "code", "closing", "openings", "group"), _text),
    **dict.fromkeys(("ordinal", "rows", "events", "failures"), st.integers(0, 10**9)),
    **dict.fromkeys(("inputs", "question", "contracts", "rules"), _object),
    **dict.fromkeys(("args", "approval", "source", "alike", "outputs"), st.none() | _object),
    **dict.fromkeys(
        ("used", "reserve"), st.none() | st.dictionaries(_text, st.integers(0, 2**70), max_size=2)
    ),
    "line": st.none() | st.integers(1, 10**9),
    **dict.fromkeys(("value", "output"), plain),
    **dict.fromkeys(("decoded", "notes", "hooks", "options", "waiting", "shared"), _texts.map(tuple)),
    "seq": st.integers(1, 2**53),
    "at": st.floats(0, 1e11),
    "dice": st.floats(0, 1, exclude_max=True),
    "path": st.lists(_text | st.integers(0, 10**6), min_size=1, max_size=4).map(tuple),
    "attempt": st.integers(0, 100),
    "outcome": st.sampled_from(Outcome),
    "planner": st.booleans(),
    "usage": st.none() | st.dictionaries(_text, st.integers(0, 2**70) | st.floats(0, 1e9), max_size=2),
    **dict.fromkeys(("agent", "fallback", "said", "forked", "accepted", "raised"), st.none() | _object),
    "spent": st.none() | st.dictionaries(_text, st.integers(0, 2**70) | st.floats(0, 1e9), max_size=2),
    "planner_calls": st.integers(0, 9),
    "queued": st.floats(0, 1e9),
    **dict.fromkeys(("seconds", "deadline"), st.none() | st.floats(0, 1e9)),
    **dict.fromkeys(("findings", "questions"), _rows),
    "plan": _plan,
    "patch": st.none() | _patch,
    "failure": st.none() | _failure,
    "principal": _principal,
    "policies": _policies,
}
"""By name: a field means the same in every event (the words of a Literal are not checked when an event is made)."""


def anything(kind: type[Event]) -> st.SearchStrategy[Any]:
    """Any event of a kind."""
    values: dict[str, st.SearchStrategy[Any]] = {name: FIELDS[name] for name in kind._fields}
    if "patch" in values and "patch" not in kind._field_defaults:
        values["patch"] = _patch
    if kind is CallSettled:
        values["args"] = FIELDS["args"]
    elif "args" in values:
        values["args"] = _object
    return st.builds(kind, **values)
