"""Plans that nobody here wrote: every one is read and accepted, but for those whose own data contradict their schemas."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from support.datasets import (
    Case,
    load_asynchow,
    load_complexfuncbench,
    load_nestful,
    load_nestools,
    registry_of,
    template,
)

from foreplan.planner.checking import check
from foreplan.planner.documents import read_plan, write_yaml
from foreplan.planner.reviewing import review

LOADERS = {
    "asynchow": (load_asynchow, 784),
    "complexfuncbench": (load_complexfuncbench, 493),
    "nestful": (load_nestful, 440),
    "nestools": (load_nestools, 479),
}

CONTRADICTIONS = {
    "asynchow": {},
    "complexfuncbench": {"cfb-0188": ["/steps/4/args/longitude/$", "/steps/4/args/latitude/$"]},
    "nestools": {},
    "nestful": {
        "714678eb": ["/steps/1/args/string/$"],
        "6a8f3121": ["/steps/1/args/numbers/$"],
        "837f59f5": ["/steps/1/args/n/$"],
        "fd974a69": ["/steps/2/args/comment/$"],
        "8ebc079b": ["/steps/2/args/string/$"],
        "9e370e34": ["/steps/1/args/s/$"],
        "5c1b3296": ["/steps/1/args/s/$"],
        "06d6141e": ["/steps/1/args/numbers/$"],
        "5afe9528": ["/steps/1/args/text/$"],
        "b4edb02b": ["/steps/3/args/input_string/$"],
        "e3e68bf5": ["/steps/1/args/input_string/$"],
        "06706b83": ["/steps/1/args/c/$"],
        "0ba7094f": ["/steps/1/args/value/$"],
        "18167c8f": ["/steps/1/args/n/$"],
        "1bfd16bd": ["/steps/1/args/string/$"],
        "2c098c15": ["/steps/1/args/text/$"],
    },
}
"""Record -> where a value can never be of the type its tool declares; the data's own faults, listed in their README."""


@pytest.mark.parametrize("name", LOADERS)
def test_every_public_plan_is_accepted(name: str) -> None:
    """Errors exactly where the data contradict their own schemas, and no other finding but unused results."""
    load, count = LOADERS[name]
    found: dict[str, list[str]] = {}
    others: set[str] = set()
    cases = list(load())
    for case in cases:
        report = check(case.plan, registry_of(case.tools, effect="reads"))
        for finding in report.errors:
            assert finding.code == "wrong_type"
            found.setdefault(_key(name, case), []).append(finding.pointer)
        others |= {f.code for f in report.findings if f.severity != "error"}
    assert len(cases) == count
    assert found == CONTRADICTIONS[name]
    assert others <= {"unused_result"}


@pytest.mark.parametrize("name", LOADERS)
def test_public_plans_survive_being_written(name: str) -> None:
    """Through YAML and back, to the same digest; and each can be reviewed."""
    for case in _some(LOADERS[name][0]):
        assert read_plan(write_yaml(case.plan)).digest == case.plan.digest
        assert len(review(case.plan, registry_of(case.tools)).steps) == len(case.plan.steps)


def test_reference_looking_data_become_literals() -> None:
    """The loader, too, never turns data into expressions."""
    assert template({"x": {"$": "a"}, "y": [{"$ref": "s1", "path": ["k k", 0]}]}) == {
        "x": {"$literal": {"$": "a"}},
        "y": [{"$": 's1["k k"][0]'}],
    }


def _key(name: str, case: Case) -> str:
    id = str(case.item["id"])
    return id[:8] if name == "nestful" else id


def _some(load: Callable[[], Iterator[Case]]) -> list[Case]:
    return list(load())[::10]
