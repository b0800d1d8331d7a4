"""One fault planted into a plan that nobody here wrote: the check says what it is and where, and nothing else."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest
from support.datasets import load_nestools, registry_of
from support.mutants import KINDS, SPELLINGS, mutants

from foreplan.planner.checking import check


@pytest.mark.parametrize("quarter", range(4))
def test_every_planted_fault_is_found_with_its_code_at_its_place(quarter: int) -> None:
    """All of them, exactly: no fault is missed, and none is told twice or elsewhere; 13,000, and 400 of each kind."""
    planted: Counter[str] = Counter()
    wrong: list[tuple[str, str, object]] = []
    for case in islice(load_nestools(), quarter, None, 4):
        registry = registry_of(case.tools, effect="reads")
        for mutant in mutants(case):
            planted[mutant.kind] += 1
            found = [(f.code, f.pointer) for f in check(mutant.plan, registry).errors]
            if set(found) != mutant.expected or len(found) != len(mutant.expected):
                wrong.append((case.item["id"], mutant.kind, found))
    assert not wrong
    assert planted.keys() == KINDS.keys()
    assert min(planted.values()) >= 100
    assert sum(planted.values()) > 3_250


def test_mutants_are_the_same_everywhere() -> None:
    """They depend on the record alone."""
    case = next(load_nestools())
    once, again = ([(m.kind, m.plan.digest) for m in mutants(case)] for _ in range(2))
    assert once == again


def test_there_are_sixteen_kinds_of_faults() -> None:
    """One of them, the bad expression, in thirteen spellings."""
    assert len(set(SPELLINGS)) == 13
    assert len({"bad expression" if "bad expression" in kind else kind for kind in KINDS}) == 16
