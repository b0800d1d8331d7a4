"""Plans that nobody here wrote: every one is read and accepted, but for those whose own data contradict their schemas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from support.datasets import (
    Case,
    expression,
    load_agentdojo,
    load_asynchow,
    load_complexfuncbench,
    load_nestful,
    load_nestools,
    load_taskbench_llm_plans,
    load_taubench,
    registry_of,
    template,
)

from foreplan.planner.checking import check
from foreplan.planner.documents import read_plan, write_yaml
from foreplan.planner.reviewing import review
from foreplan.policies.expressions import EvaluationError, parse
from foreplan.registry.registry import Registry

LOADERS = {
    "agentdojo": (load_agentdojo, 49),
    "asynchow": (load_asynchow, 784),
    "complexfuncbench": (load_complexfuncbench, 493),
    "nestful": (load_nestful, 440),
    "nestools": (load_nestools, 479),
    "taubench": (load_taubench, 82),
}

CONTRADICTIONS = {
    "complexfuncbench": {"cfb-0188": ["/steps/4/args/latitude/$", "/steps/4/args/longitude/$"]},
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
    """Errors exactly where the data contradict their own schemas, and no other finding that could be worth a look.

    For five tasks the right plan is to do nothing.
    """
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
    assert found == CONTRADICTIONS.get(name, {})
    assert others <= {"unused_result", "unknown_type"} | ({"no_steps"} if name == "taubench" else set())


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


KINDS = {
    "unknown_tool": "unknown tool",
    "self_reference": "self reference",
    "unknown_step": "dangling",
    "cycle": "cycle",
    "wrong_type": "type",
}
"""Our codes, and what the readers of the data call them."""


def test_plans_that_models_wrote_are_refused_for_what_is_wrong_with_them() -> None:
    """450 of 996, each kind as often as it is there; 546 are accepted."""
    registries: dict[str, Registry] = {}
    refused = [
        {KINDS[finding.code] for finding in report.errors}
        for case in load_taskbench_llm_plans()
        if not (report := check(case.plan, _registry(case, registries))).ok
    ]
    assert Counter(kind for kinds in refused for kind in kinds) == {
        "unknown tool": 323,
        "self reference": 154,
        "dangling": 29,
        "cycle": 15,
        "type": 93,
    }
    assert (len(refused), sum(1 for _ in load_taskbench_llm_plans())) == (450, 996)


def _registry(case: Case, registries: dict[str, Registry]) -> Registry:
    """The tools of its domain, made once."""
    domain = case.item["domain"]
    if domain not in registries:
        registries[domain] = registry_of(case.tools, effect="reads")
    return registries[domain]


def test_a_key_that_is_read_as_a_value_is_that_key() -> None:
    """As `~key` says it; and it fails where the key is not there."""
    read = parse(expression("s1", ["by id", "~key", "x-1"]))
    assert read.evaluate({"s1": {"by id": {"x-0": 1, "x-1": 2}}}) == "x-1"
    with pytest.raises(EvaluationError):
        read.evaluate({"s1": {"by id": {}}})


def _key(name: str, case: Case) -> str:
    id = str(case.item["id"])
    return id[:8] if name == "nestful" else id


def _some(load: Callable[[], Iterator[Case]]) -> list[Case]:
    return list(load())[::10]
