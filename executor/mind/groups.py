"""How a patch for rows that failed alike comes about, as the mind of a batch sees it. Pure, like the rest of the mind.

    GroupFormed -> on_failure -> planner -> check -> on_replan -> approval -> GroupSettled: they go on with it
                       |          |   ^       |          |            |
                       +- stop    |   +-------+          +- stop      +- reject
                                  +- cannot                              GroupSettled: they fail, and why

A person's answer may come days later and in another process; meanwhile the next group may be formed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from ...planner.plan import Patch
from ...policies.canonical import digest
from .. import events as e

__all__ = ["Mending", "Phase", "told_failed"]

Phase: TypeAlias = Literal["consult", "ask", "judge", "pass", "wait", "settle"]
"""What comes next: the on_failure hook, the planner, the check (and the on_replan hook), the approval, a person's answer,
GroupSettled."""


@dataclass(slots=True)
class Mending:
    """One group, from the moment at which the planner is asked about it."""

    id: str
    """That of the question about its patch, if there comes one."""
    rows: int
    phase: Phase
    notes: list[str] = field(default_factory=list)
    answer: str = ""
    """The last text of the planner; `findings` say what was wrong with it."""
    findings: tuple[dict[str, Any], ...] = ()
    repairs: int = 0
    proposed: list[str] = field(default_factory=list)
    """The digests of all patches so far."""
    patch: Patch | None = None
    digest: str = ""
    """Of the plan with the patch, once a person was asked."""
    why: str = ""
    """Why there is no patch."""

    @property
    def repeats(self) -> bool:
        """Whether the last patch was proposed before."""
        return self.proposed[-1] in self.proposed[:-1]

    def lose(self, why: str) -> None:
        """There will be no patch."""
        self.patch = None
        self.why, self.phase = why, "settle"

    def hooked(self, event: e.HookAnswered) -> None:
        """`on_failure` lets the planner be asked; `on_replan` lets its patch through."""
        if event.hook == "on_failure":
            self.phase = "ask"
            if event.answer == "stop":
                self.lose(event.note or "the on_failure hook stopped the re-plan")
            elif event.note:
                self.notes.append(event.note)
        elif event.answer == "stop":
            self.lose(event.note or "the on_replan hook refused the patch")
        else:
            self.phase = "pass"

    def answered(self, event: e.ModelAnswered, repairs: int) -> None:
        """The planner's answer; `repairs`: so often may one be mended."""
        self.answer, self.patch = event.text, event.patch
        if event.failure is not None:
            self.lose(f"the planner failed: {event.failure.message}")
        elif event.patch is not None:
            self.proposed.append(digest(event.patch.to_json()))
            self.phase = "judge"
        elif event.findings:
            self.refused(event.findings, repairs)
        else:
            self.lose(f"the planner cannot mend this: {event.cannot_plan}")

    def refused(self, findings: tuple[dict[str, Any], ...], repairs: int) -> None:
        """The check says no: findings go back to the planner, within bounds."""
        self.findings, self.phase = findings, "ask"
        if self.repairs >= repairs:
            first = findings[0]["message"] if findings else "no reason was given"
            self.lose(f"no valid patch after {self.repairs + 1} answers: {first}")
        self.repairs += 1

    def asked(self, event: e.DecisionAsked) -> None:
        """A person is asked."""
        self.phase, self.digest = "wait", event.question["digest"]

    def decided(self, event: e.DecisionMade) -> None:
        """A person's answer."""
        self.phase = "settle"
        if event.choice != "approve":
            self.lose(f"{event.by} refused the patch{f': {event.reason}' if event.reason else ''}")


def told_failed(group: dict[str, Any]) -> str:
    """How the rows of a group failed, as part of a sentence."""
    return ", ".join(f"{lineage!r}: {kind} {code}" for lineage, kind, code in group["failed"])
