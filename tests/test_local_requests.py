"""The requests that local models are judged by are judged rightly: what is right passes, what is not does not."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from support.local_requests import ENTRIES, Entry, answers, fits, says
from support.local_worlds import WORLDS

from foreplan import Engine, Plan, Policies, check

POLICIES = Policies(approve="never", max_replans=0)
POSSIBLE = [entry for entry in ENTRIES if entry.gold is not None]
IMPOSSIBLE = [entry for entry in ENTRIES if entry.gold is None]


def right(entry: Entry, document: dict[str, Any]) -> bool:
    """Whether the plan, run in a world of its own, does what was asked."""
    registry, judge = entry.asked.tools()
    run = Engine(registry, policies=POLICIES).run_blocking(
        Plan.model_validate(document), inputs=entry.asked.inputs
    )
    return judge(run)


def gold(entry: Entry) -> dict[str, Any]:
    """The plan by hand; a copy."""
    assert entry.gold is not None
    return deepcopy(entry.gold)


def empty(entry: Entry) -> dict[str, Any]:
    """A plan that does nothing and says nothing."""
    inputs = {"inputs": entry.asked.schema} if entry.asked.schema else {}
    return {**inputs, "steps": [{"id": "nothing", "value": None}]}


def twice(entry: Entry) -> dict[str, Any]:
    """Every step again, and the answer again behind the answer."""
    plan = gold(entry)
    plan["steps"] += [_again(step) for step in plan["steps"]]
    if "output" in plan:
        plan["output"] = [plan["output"]] * 2
    return plan


def _again(step: dict[str, Any]) -> dict[str, Any]:
    said = json.dumps({**step, "id": f"{step['id']}_again"})
    for inner in step.get("steps", ()):
        said = re.sub(rf"\b{inner['id']}\b(?!_)", f"{inner['id']}_again", said)
    again: dict[str, Any] = json.loads(said)
    return again


def without_conditions(entry: Entry) -> dict[str, Any]:
    """The plan with every `when` left out."""
    plan = gold(entry)
    for step in plan["steps"]:
        step.pop("when", None)
    return plan


def cut(entry: Entry) -> dict[str, Any]:
    """The plan in which every `each` is over the first item only."""
    plan = gold(entry)
    for step in plan["steps"]:
        if "each" in step:
            step["each"] = {"$": f"({step['each']['$']})[:1]"}
    return plan


def words(document: Any) -> Iterator[str]:
    """All keys of a plan."""
    for value in document.values() if isinstance(document, dict) else document:
        if isinstance(value, dict | list):
            yield from words(value)
    if isinstance(document, dict):
        yield from document


def test_there_are_twenty_on_each_tool_set_and_a_third_needs_each_or_when() -> None:
    """Sixty different requests, five of which no tools can do."""
    assert Counter(entry.asked.set for entry in ENTRIES) == dict.fromkeys(WORLDS, 20)
    assert len({entry.asked.request for entry in ENTRIES}) == 60
    assert sum(entry.needs != "" for entry in ENTRIES) == 20
    assert [entry.asked.possible for entry in IMPOSSIBLE] == [False] * 5
    assert all(entry.asked.possible for entry in POSSIBLE)


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_each_tool_set_has_tools_that_read_that_write_and_that_act(world: Any) -> None:
    """Ten tools at most, and every tool is told about."""
    registry = world().registry
    assert {tool.effect.value for tool in registry} == {"reads", "writes", "acts"}
    assert 6 <= len(registry) <= 10
    assert all(tool.description for tool in registry)


def test_every_plan_by_hand_checks_and_is_right() -> None:
    """Without an error, in a world of its own, and with `each` or `when` where the request needs it."""
    for entry in POSSIBLE:
        registry, _ = entry.asked.tools()
        report = check(Plan.model_validate(gold(entry)), registry, POLICIES)
        assert report.ok, (entry.asked.request, report.findings)
        assert right(entry, gold(entry)), entry.asked.request
        assert entry.needs in {"", *words(gold(entry))}, entry.asked.request
        assert entry.needs or not {"each", "when"} & {*words(gold(entry))}, entry.asked.request


@pytest.mark.parametrize("wrong", [empty, twice])
def test_doing_nothing_is_wrong_and_so_is_doing_everything_twice(wrong: Any) -> None:
    """For every request that can be done."""
    assert [entry.asked.request for entry in POSSIBLE if right(entry, wrong(entry))] == []


@pytest.mark.parametrize(("needs", "wrong"), [("when", without_conditions), ("each", cut)])
def test_a_request_that_needs_a_condition_or_a_loop_is_not_right_without(needs: str, wrong: Any) -> None:
    """To do what was to be done only sometimes is wrong, and so is to stop after the first item."""
    entries = [entry for entry in POSSIBLE if entry.needs == needs]
    assert len(entries) >= 6
    assert [entry.asked.request for entry in entries if right(entry, wrong(entry))] == []


def test_what_no_tools_can_do_is_right_only_when_nothing_was_done() -> None:
    """What comes nearest is wrong, though it checks and runs."""
    for entry in IMPOSSIBLE:
        assert entry.slip is not None
        assert right(entry, empty(entry)), entry.asked.request
        assert not right(entry, entry.slip), entry.asked.request


def test_a_question_without_its_answer_is_wrong() -> None:
    """Though all else was done."""
    entries = [entry for entry in POSSIBLE if entry.question]
    assert len(entries) >= 15
    for entry in entries:
        assert not right(entry, {**gold(entry), "output": "that is done"}), entry.asked.request


@pytest.mark.parametrize(
    ("output", "wanted", "is_one"),
    [
        (48, 48, True),
        (48.0, 48, True),
        ("48", 48, True),
        ({"grams": 48}, 48, True),
        ({"name": "Bran", "grams": 48}, 48, True),
        ([48], 48, True),
        ("Bran is 48 g under it.", 48, True),
        ("Of 1010 g, 48 are missing.", 48, False),
        ("T-48", 48, False),
        (True, 1, False),
        (None, 48, False),
        ([48, 962], 48, False),
        ({"a": 1, "b": 2, "c": 3, "d": 48}, 48, False),
        ("It is db-1.", "db-1", True),
        ("It is db-11.", "db-1", False),
        ({"names": ["b", "a"]}, ["a", "b"], True),
        (["a", "b", "b"], ["a", "b"], False),
        (["a"], ["a", "b"], False),
        ("a, b", ["a", "b"], False),
    ],
)
def test_an_answer_is_known_by_its_value_and_not_by_its_words(output: Any, wanted: Any, is_one: bool) -> None:
    """It may stand alone, in a small object, or in a sentence."""
    assert is_one is answers(output, wanted)


def test_free_text_is_held_to_what_it_must_tell() -> None:
    """In any words; a text that leaves it out will not do."""
    assert fits(says("db-1", 55), "the disk of db-1 has 55 GB")
    assert not fits(says("db-1", 55), "the disk of db-1 has 550 GB")
    assert not fits(says(55), 55)
