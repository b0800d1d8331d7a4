"""A job is a plan in a file; a case is one world it is run in, with what must have been done there at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from jobs.world import Call, World
from support.virtual import now, run_virtual

from foreplan import Engine, Plan, Run
from foreplan.executor.events import DecisionAsked
from foreplan.executor.runtime import Answer, Decide
from foreplan.planner.documents import load_plan

__all__ = ["ANYTHING", "STARTS", "Case", "every_plan", "plan_of", "run", "said"]

FOLDER = Path(__file__).parent
STARTS = datetime(2030, 6, 1, 9, tzinfo=UTC).timestamp()
"""When every run starts."""
ANYTHING = object()
"""An output that the case says nothing about."""


@dataclass(frozen=True)
class Case:
    """One way a job goes. `did` is what was done, in this order; with `in_any_order`, in whichever."""

    job: str
    when: str
    world: Callable[[], World]
    inputs: Mapping[str, Any] = field(default_factory=dict)
    did: Sequence[Call] = ()
    in_any_order: bool = False
    refused: Sequence[Call] = ()
    asked: Sequence[str] | None = None
    """Questions that matter although they change nothing, in a world that keeps them."""
    output: Any = ANYTHING
    failures: Sequence[str] = ()
    """Where something failed; a run is `done` where nothing that matters did."""
    state: str = "done"
    seconds: float | None = None
    """How long it takes in virtual time."""
    answers: Mapping[str, Any] = field(default_factory=dict)
    """What people say, by step; they refuse to say anything else."""

    def __str__(self) -> str:
        return f"{self.job}: {self.when}"


def every_plan() -> list[str]:
    """The ids of the jobs that are written as plans."""
    return sorted(str(path.relative_to(FOLDER).with_suffix("")) for path in FOLDER.rglob("*.yaml"))


@cache
def plan_of(job: str) -> Plan:
    """The plan of a job, read from its file."""
    return load_plan(FOLDER / f"{job}.yaml")


def said(case: Case) -> Decide:
    """What people say in this case. Asked about a call of which nobody knows the end, they say to try again."""

    async def decide(question: DecisionAsked) -> Answer:
        if question.about == "unknown":
            return Answer("retry", "bob")
        answer = case.answers.get(str(question.path[0]))
        return Answer("refuse", "bob") if answer is None else Answer("answer", "bob", answer)

    return decide


def run(case: Case, plan: Plan, world: World, *, backend: str = "asyncio") -> tuple[Run, float]:
    """Approve and run a plan in this world; how it ended, and how long it took in virtual time."""

    engine = Engine(world.tools, clock=lambda: STARTS + now(), decide=said(case))

    async def main() -> tuple[Run, float]:
        start = now()
        approval = engine.approve(plan, inputs=case.inputs, by="ada")
        end = await engine.run(plan, inputs=case.inputs, approval=approval)
        return end, now() - start

    return run_virtual(backend, main)
