"""Has patches made for rows of a batch that failed alike: the planner is asked once for each group, a person once.

What comes next of a group its `Mending` says, by events alone; here is what that takes of the world: hooks, the planner, and
the rows' own records, against which the literals of a patch are held.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from anyio.lowlevel import checkpoint

from ...planner.findings import Finding
from ...planner.literals import Literals
from ...planner.plan import Patch
from ...planner.requests import ReplanRequest
from ...planner.reviewing import diff
from ...policies.effect import Effect
from ...policies.failures import Failure
from ...policies.text import count
from .. import events as e
from ..events import Event
from ..hands.hands import failure_of
from ..hands.hooks import Verdict, said_by
from ..hands.limits import Limiter
from ..hands.proposals import answer_of_planner, let_through
from ..hands.turns import Turns, in_turn
from ..mind.batch import unsettled_groups
from ..mind.budget import add_usage, bound_text, planner_short_of, question_short_of
from ..mind.groups import Mending, told_failed
from ..mind.replanning import group_request, needs_a_person, patch_problems, patched
from ..mind.state import Consult, State
from ..runtime import Host
from .running import BatchRuntime

__all__ = ["mend_groups"]

_LOG = logging.getLogger("foreplan")
_LOOKED_AT = 20
"""So many rows of a group are looked at for what the planner is told: shapes of results differ a little."""
_AT_ONCE = 20
"""Rows whose records are read between two moments at which other tasks may run."""
_DATA = ("inputs", "args", "value", "failure")
"""Where the events of a row hold what it says."""


async def mend_groups(batch: BatchRuntime, host: Host) -> None:
    """Bring each group of rows that wait for a patch to its end, or to where a person is asked."""
    for group, ordinals in unsettled_groups(batch.state).items():
        mending = batch.state.mendings.get(group)
        if mending is None:
            if len(batch.state.mendings) >= batch.state.rules.groups:
                batch.settle_group(group, None, message=_too_many(batch.state.rules.groups))
                continue
            batch.write(e.GroupFormed(*batch.stamp(), group, len(ordinals)))
            mending = batch.state.mendings[group]
        states = [batch.row_state(ordinal) for ordinal in ordinals[:_LOOKED_AT]]
        await _Mender(batch, host, group, ordinals, states, mending).mend()


def _too_many(most: int) -> str:
    if not most:
        return "by the rules of the batch the planner is asked about no rows that fail alike"
    return f"rows failed in more ways than the planner is asked about ({count(most, 'group')})"


class _Mender:
    """Of one group. `states` are some of its rows."""

    def __init__(
        self,
        batch: BatchRuntime,
        host: Host,
        group: str,
        ordinals: Sequence[int],
        states: Sequence[State],
        mending: Mending,
    ) -> None:
        self._batch = batch
        self._host = host
        self._group = group
        self._ordinals = ordinals
        self._states = states
        self._first = states[0]
        self._mending = mending

    async def mend(self) -> None:
        """Step by step, until all is known or a person has to say."""
        limiter = self._host.limiter or Limiter(self._host.clock, self._host.dice)
        with in_turn(Turns(self._first.policies, limiter, self._batch.seconds_left)):
            await self._mend()

    async def _mend(self) -> None:
        while self._group not in self._batch.state.groups:
            match self._mending.phase:
                case "consult":
                    await self._consult(Consult("on_failure"))
                case "ask":
                    await self._ask()
                case "judge":
                    await self._judge()
                case "pass":
                    self._to_approval()
                case "settle":
                    self._batch.settle_mended()
                case "wait":
                    return

    def _request(self) -> ReplanRequest:
        mending = self._mending
        return group_request(
            self._states,
            mending.rows,
            text=mending.answer if mending.findings else "",
            findings=mending.findings,
            notes=mending.notes,
        )

    # ------------------------------------------------------------------------------------------ planner and hooks

    async def _ask(self) -> None:
        short = self._short_of()
        if short:
            self._lose(f"the budget of {short} is used up")
            return
        first, host = self._first, self._host
        answer = await answer_of_planner(
            host.planner,
            self._request(),
            first.policies,
            host.dice,
            self._batch.seconds_left,
            asks=first.planner_calls,
            affords=lambda usage: not self._short_of(usage),
        )
        self._batch.write(e.ModelAnswered(*self._batch.stamp(), "replan", **answer))

    def _short_of(self, usage: Mapping[str, Any] | None = None) -> str:
        """The bound that keeps the planner from being asked: of the batch, or of what each row may use. `usage`: of attempts
        that are not in the journal yet."""
        state, asks = self._batch.state, self._first.planner_calls
        budget, spent = state.rules.budget, state.used()
        spent = spent if usage is None else add_usage(spent, usage, asks=asks)
        short = planner_short_of(budget, spent, asks=asks, costs=spent.cost > 0)
        if short:
            return f"{bound_text(budget, short)} of the batch"
        short = question_short_of(self._first, asks)
        return bound_text(self._first.policies.budget, short) if short else ""

    async def _consult(self, command: Consult) -> None:
        """Ask a hook, once for all rows; one that raises is recorded and passed over."""
        said, failure = Verdict(), None
        try:
            said = await self._hook(command)
        except BaseException as error:
            await let_through(error)
            failure = failure_of(error, self._first.policies)
        self._batch.write(e.HookAnswered(*self._batch.stamp(), command.hook, said.answer, said.note, failure))

    async def _hook(self, command: Consult) -> Verdict:
        hook = self._host.hooks.get(command.hook)
        if hook is None:
            note = f"the batch was opened with a hook {command.hook!r}, which this engine does not have"
            return Verdict("stop", note)
        said = hook(self._request(), *([command.patch] if command.patch is not None else []))
        return said_by(command, await said if inspect.isawaitable(said) else said)

    # ------------------------------------------------------------------------------------------ check and approval

    async def _judge(self) -> None:
        patch = self._mending.patch
        assert patch is not None
        findings = await self._findings(patch)
        if findings:
            told = tuple(f.to_json() for f in findings)
            self._batch.write(e.PatchRefused(*self._batch.stamp(), told))
        elif "on_replan" in self._first.hooks:
            await self._consult(Consult("on_replan", patch))
        else:
            self._to_approval()

    async def _findings(self, patch: Patch) -> tuple[Finding, ...]:
        if self._mending.repeats:
            return (
                Finding("same_patch", "error", "", "this patch was proposed before; propose another way"),
            )
        problems = patch_problems(self._first, patch, batch=True) or tuple(_for_all(patch))
        return (*await self._taken(patch), *problems)

    async def _taken(self, patch: Patch) -> tuple[Finding, ...]:
        """The literals of a patch that are values of a row."""
        first = self._first
        literals = Literals(patch, first.plan, first.registry)
        for number, ordinal in enumerate((0, *self._ordinals) if literals else ()):  # 0: what all rows share
            found = literals.taken_from([_data_of(event) for event in self._batch.events_of(ordinal)])
            if found:
                return found
            if number % _AT_ONCE == 0:
                await checkpoint()
        return ()

    def _to_approval(self) -> None:
        """Ask a person, unless what was approved covers the patch."""
        batch, mending, patch = self._batch, self._mending, self._mending.patch
        assert patch is not None
        plan = patched(self._first, patch)
        if not needs_a_person(self._first, patch):
            batch.settle_group(self._group, patch, plan.digest)
            return
        question = {
            "group": self._group,
            "patch": patch.to_json(),
            "diff": diff(self._first.plan, plan).to_json(),
            "digest": plan.digest,
            **self._told(patch),
        }
        options = ("approve", "reject")
        batch.ask(e.DecisionAsked(*batch.stamp(), mending.id, "patch", (), options, question))

    def _told(self, patch: Patch) -> dict[str, Any]:
        """How many rows it is about, and what each of them would do besides."""
        rows, to_come = len(self._ordinals), self._batch.state.left
        calls = [
            (step, self._first.registry[step.tool]) for step in patch.every_step if step.tool is not None
        ]
        effects = [
            {"step": step.id, "tool": tool.name, "effect": tool.effect.value, "undo": step.undo is not None}
            for step, tool in calls
            if tool.effect is not Effect.READS
        ]
        final = dict.fromkeys(
            tool.name for step, tool in calls if tool.effect is Effect.ACTS and step.undo is None
        )
        assert self._first.group is not None
        reason = f"{count(rows, 'row')} failed alike ({told_failed(self._first.group)})"
        if to_come:
            reason += f", and of {count(to_come, 'row')} to come those that do so too go on with this patch"
        if final:
            reason += f"; each would call {' and '.join(final)}, which cannot be taken back"
        return {
            "reason": reason,
            "rows": rows,
            "to_come": to_come,
            "failed": self._first.group["failed"],
            "effects": effects,
            "irreversible": list(final),
        }

    def _lose(self, why: str) -> None:
        self._batch.settle_group(self._group, None, message=why)


def _for_all(patch: Patch) -> list[Finding]:
    """What all rows share has run: a step of a patch runs in each row."""
    return [
        Finding(
            "bad_patch",
            "error",
            f"/add/{i}/per",
            f"{step.id!r} is added to each row, so it cannot run once for all",
        )
        for i, step in enumerate(patch.add)
        if step.per == "batch"
    ]


def _data_of(event: Event) -> list[Any]:
    """What an event holds that the row, or a tool, said."""
    given = (getattr(event, name, None) for name in _DATA)
    return [[f.message, f.hint, f.details] if isinstance(f, Failure) else f for f in given]
