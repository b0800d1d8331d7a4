"""Fifty-two jobs that people and benchmarks really ask for, each written as a plan: read, checked, reviewed, run.

The plans stand in `tests/jobs/`, as people would write them; `docs/jobs.md` says how well each can be said.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import pytest
from jobs.cases import CASES
from jobs.job import ANYTHING, Case, every_plan, plan_of, run
from support.virtual import BACKENDS

from foreplan import Registry, check, review
from foreplan.planner.documents import plan_from
from foreplan.planner.findings import PlanUnreadable

WARNED = {
    "tau1-retail-test-37": {
        "may_be_skipped"
    },  # `by_name if by_mail is None else by_mail`: one of them is there
    "tau1-retail-test-22": {
        "made_up"
    },  # the new address stands in the plan alone, and its goal speaks only of one
}
"""What the check may warn of, by job, and why there is nothing in it."""


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_job_is_done_with_the_right_effects(case: Case, backend: str) -> None:
    """What was booked, paid, sent or removed is what the case says, and nothing else."""
    world = case.world()
    end, seconds = run(case, plan_of(case.job), world, backend=backend)
    order: Callable[[Iterable[object]], list[object]] = (
        partial(sorted, key=str) if case.in_any_order else list
    )
    assert order(world.did) == order(case.did)
    if case.asked is not None:
        assert order(world.asked) == order(case.asked)
    assert [where for where, _ in end.failures] == list(case.failures)
    assert end.state == case.state, end.message
    assert world.refused == list(case.refused)
    if case.output is not ANYTHING:
        assert end.output == case.output
    if case.seconds is not None:
        assert seconds == pytest.approx(case.seconds, abs=1)


@pytest.mark.parametrize("job", every_plan())
def test_the_plan_of_the_job_checks_and_can_be_reviewed(job: str) -> None:
    """No error, and no warning but those listed; the review shows every step, and runs none."""
    case = next(case for case in CASES if case.job == job)
    world = case.world()
    registry = Registry(*world.tools)
    report = check(plan_of(job), registry)
    assert report.ok, str(report)
    assert {f.code for f in report.warnings} <= WARNED.get(job, set())
    shown = review(plan_of(job), registry, inputs=case.inputs)
    assert {step.id for step in shown.steps} >= {step.id for step in plan_of(job).steps}
    assert world.did == []


def test_the_page_of_jobs_lists_all_and_counts_them_right() -> None:
    """Fifty-two, of which every one that is not out is a plan with a case where something goes otherwise."""
    page = (Path(__file__).parents[1] / "docs" / "jobs.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| ([\w/-]+) \| [^|]+ \| \**(clean|awkward|out)\** \|", page, re.MULTILINE))
    said = Counter(rows.values())
    assert len(rows) == 52
    assert f"{said['clean']} are clean, {said['awkward']} are awkward, {said['out']} is out" in page
    assert sorted(job for job, how in rows.items() if how != "out") == every_plan()
    assert min(Counter(case.job for case in CASES).values()) >= 2


def test_data_do_not_choose_the_tools() -> None:
    """The job that is out: a plan whose tool is an expression is no plan."""
    step = {"id": "done", "each": {"$": "todos"}, "tool": {"$": "item.tool"}, "args": {"$": "item.args"}}
    with pytest.raises(PlanUnreadable) as refused:
        plan_from({"steps": [{"id": "todos", "value": []}, step]})
    assert {f.pointer for f in refused.value.findings} >= {"/steps/1/tool"}
