"""Typing errors planted into the jobs' expressions: the check finds them before anything runs, or the run goes red.

A field that is misspelt and silently null is the worst that a plan can do: a lunch is not booked, and all is green.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from jobs.cases import CASES
from jobs.job import Case, every_plan, plan_of, run
from support.typos import Typo, typos

from foreplan import Registry, check


def test_the_check_finds_the_typing_errors_and_none_is_silent() -> None:
    """One error in each field and method: at most 2 % are only met when the plan runs, and most come back mended."""
    found = Counter(planted(each=1))
    assert found.total() >= 350
    assert found["silent"] == 0
    assert found["run"] <= 0.02 * found.total()
    assert found["mended"] >= 0.7 * found.total()


@pytest.mark.proof
def test_no_kind_of_typing_error_is_silent_anywhere() -> None:
    """Every kind in every field and method, several thousand."""
    found = Counter(planted(each=None))
    assert found["silent"] == 0
    assert found["run"] <= 0.02 * found.total()


def planted(*, each: int | None) -> Iterator[str]:
    """How each typing error was found: by the `check` (`mended` by its suggestion), in a `run`, or not: `silent`."""
    for job in every_plan():
        cases = [case for case in CASES if case.job == job]
        tools = Registry(*cases[0].world().tools)
        for typo in typos(plan_of(job), each=each):
            report = check(typo.plan, tools)
            if report.errors:
                there = [error for error in report.errors if error.pointer == typo.pointer]
                assert there, (typo, str(report))
                yield "mended" if any(typo.before in error.suggestion for error in there) else "check"
            else:
                yield "run" if any(goes_red(case, typo) for case in cases) else "silent"


def goes_red(case: Case, typo: Typo) -> bool:
    """Whether a run fails because of the error: where it is done without it, or at a step where it is not."""
    sound, _ = run(case, plan_of(case.job), case.world())
    end, _ = run(case, typo.plan, case.world())
    return end.state != sound.state or bool({w for w, _ in end.failures} - {w for w, _ in sound.failures})
