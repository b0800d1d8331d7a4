"""Patches: settled steps stay as they ran, references to what is replaced resolve to the new step, ids are never reused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foreplan.planner.patches import PatchDoesNotFit, apply_patch, lineage
from foreplan.planner.plan import Patch, Plan, Step
from foreplan.policies.expressions import compile_template

PLAN = Plan.model_validate(
    {
        "steps": [
            {"id": "fetch", "tool": "read"},
            {"id": "parse", "tool": "parse", "args": {"text": {"$": "fetch.text"}}},
            {
                "id": "save",
                "tool": "save",
                "args": {"rows": {"$": "[parse for parse in parse.rows]"}},
                "after": ["parse"],
            },
            {
                "id": "tell",
                "tool": "mail",
                "args": {"body": {"$": "f'{len(parse.rows)} rows'"}, "note": "parse"},
            },
        ],
        "output": {"rows": {"$": "parse.rows"}, "literal": {"$literal": {"$": "parse"}}},
    }
)


def patched(patch: dict[str, Any], **options: Any) -> Plan:
    given = {"settled": {"fetch", "parse"}, "used": {"fetch", "parse", "save", "tell"}, **options}
    return apply_patch(PLAN, Patch.model_validate(patch), **given)


REPLACE = {
    "add": [
        {"id": "parse2", "tool": "parse_html", "replaces": "parse", "args": {"text": {"$": "fetch.text"}}}
    ]
}


def test_a_replaced_step_stays_and_what_waited_for_it_reads_the_new_one() -> None:
    """Names are renamed in expressions and `after`, not in literals, bound names or what has run."""
    plan = patched(REPLACE)
    assert [step.id for step in plan.steps] == ["fetch", "parse", "save", "tell", "parse2"]
    assert plan.by_id["parse"] == PLAN.by_id["parse"]
    assert plan.by_id["save"].after == ["parse2"]
    assert plan.by_id["save"].args == {"rows": {"$": "[parse for parse in parse2.rows]"}}
    assert plan.by_id["tell"].args == {"body": {"$": "f'{len(parse2.rows)} rows'"}, "note": "parse"}
    assert plan.output == {"rows": {"$": "parse2.rows"}, "literal": {"$literal": {"$": "parse"}}}


def test_the_new_plan_has_a_digest_of_its_own() -> None:
    """What is approved is the document, not the object it was made from."""
    assert PLAN.digest != patched(REPLACE).digest


def test_steps_are_dropped_and_added_and_the_output_is_replaced() -> None:
    """The three things a patch can say."""
    plan = patched({"drop": ["tell"], "add": [{"id": "log", "value": 1}], "output": {"$": "log"}})
    assert [step.id for step in plan.steps] == ["fetch", "parse", "save", "log"]
    assert plan.output == {"$": "log"}


def test_an_unsettled_step_that_is_replaced_is_dropped() -> None:
    """Two steps in one place would both run."""
    plan = patched({"add": [{"id": "save2", "tool": "save", "replaces": "save"}]})
    assert "save" not in plan.by_id
    assert plan.by_id["save2"].replaces == "save"


def test_added_steps_may_name_what_is_replaced() -> None:
    """A planner that writes the old name means the new step; the replacing step itself may still read the old one."""
    plan = patched(
        {
            "add": [
                {"id": "parse2", "value": {"$": "parse"}, "replaces": "parse"},
                {"id": "count", "value": {"$": "len(parse.rows)"}},
            ]
        }
    )
    assert plan.by_id["count"].value == {"$": "len(parse2.rows)"}
    assert plan.by_id["parse2"].value == {"$": "parse"}


@pytest.mark.parametrize(
    ("patch", "pointer", "says"),
    [
        ({"drop": ["parse"]}, "/drop/0", "has run or is under way"),
        (
            {"drop": ["prase"]},
            "/drop/0",
            "no step is called 'prase', so it cannot be dropped; did you mean 'parse'?",
        ),
        ({"add": [{"id": "tell", "value": 1}]}, "/add/0/id", "the id 'tell' was used before"),
        ({"add": [{"id": "old", "value": 1}]}, "/add/0/id", "the id 'old' was used before"),
        ({"add": [{"id": "x", "value": 1}, {"id": "x", "value": 2}]}, "/add/1/id", "was used before"),
        ({"add": [{"id": "x", "value": 1, "replaces": "y"}]}, "/add/0/replaces", "so it cannot be replaced"),
        (
            {
                "add": [
                    {"id": "x", "value": 1, "replaces": "parse"},
                    {"id": "y", "value": 1, "replaces": "parse"},
                ]
            },
            "/add/1/replaces",
            "'parse' is replaced twice: by 'x' and 'y'",
        ),
        ({"add": [{"id": "x", "value": 1, "replaces": "fetch"}]}, "/add/0/replaces", "'fetch' did not fail"),
    ],
)
def test_a_patch_that_does_not_fit_is_refused(patch: dict[str, Any], pointer: str, says: str) -> None:
    """With a finding at the place in the patch."""
    with pytest.raises(PatchDoesNotFit) as caught:
        patched(patch, used={*PLAN.by_id, "old"}, failed={"parse"})
    (finding,) = caught.value.findings
    assert (finding.code, finding.pointer) == ("bad_patch", pointer)
    assert says in finding.message


def test_everything_wrong_with_a_patch_is_said_at_once() -> None:
    """A planner that repairs it should not need three answers."""
    with pytest.raises(PatchDoesNotFit) as caught:
        patched({"drop": ["parse", "x"], "add": [{"id": "tell", "value": 1}]})
    assert len(caught.value.findings) == 3


def test_lineage_is_the_first_name_of_a_chain() -> None:
    """Idempotency keys stay the same over re-plans (E2)."""
    steps = [Step(id="a", value=1), Step(id="b", value=1, replaces="a"), Step(id="c", value=1, replaces="b")]
    assert lineage(Plan(steps=steps)) == {"a": "a", "b": "a", "c": "a"}
    assert lineage(Plan(steps=steps[1:])) == {"b": "a", "c": "a"}
    ring = [Step(id="a", value=1, replaces="b"), Step(id="b", value=1, replaces="a")]
    assert set(lineage(Plan(steps=ring))) == {"a", "b"}


def test_lineage_outlives_a_replaced_step_that_never_ran() -> None:
    """a failed, b in its place was dropped unsettled for c: c still stands in the place of a."""
    plan = Plan(steps=[Step(id="a", value=1), Step(id="b", value=1, replaces="a")])
    patch = Patch(add=[Step(id="c", value=1, replaces="b")])
    revised = apply_patch(plan, patch, settled={"a"}, used={"a", "b"})
    assert lineage(revised) == {"a": "a", "c": "a"}


def test_names_are_renamed_wherever_a_step_may_use_them() -> None:
    """In what repeats, in what takes back, in groups at every depth and their outputs."""
    old = {"$": "a.x"}
    inner = {"id": "i", "tool": "t", "args": {"v": old}}
    plan = Plan.model_validate(
        {
            "steps": [
                {"id": "a", "tool": "t"},
                {"id": "u", "tool": "t", "until": {"$": "result == a.x"}, "next": {"v": old}, "max": 2},
                {"id": "b", "tool": "t", "undo": {"tool": "t", "args": {"v": old}}},
                {
                    "id": "g",
                    "steps": [inner, {"id": "h", "steps": [{"id": "j", "value": old}], "output": old}],
                    "output": old,
                },
            ]
        }
    )
    revised = apply_patch(plan, Patch(add=[Step(id="c", value=1, replaces="a")]), settled={"a"})
    said = str([step.to_json() for step in revised.steps])
    assert (said.count("a.x"), said.count("c.x")) == (0, 7)


def test_an_id_inside_a_group_is_never_reused_either() -> None:
    """Neither by a step inside an added group nor by an added step."""
    group = Plan.model_validate({"steps": [{"id": "g", "steps": [{"id": "i", "value": 1}]}]})
    for add in ({"id": "i", "value": 2}, {"id": "h", "steps": [{"id": "i", "value": 2}]}):
        with pytest.raises(PatchDoesNotFit, match="'i' was used before"):
            apply_patch(group, Patch.model_validate({"add": [add]}), settled={"g"})


ids = st.sampled_from("abcdefgh")


@given(
    st.lists(st.tuples(ids, st.lists(ids, max_size=3)), min_size=1, max_size=6, unique_by=lambda t: t[0]),
    st.data(),
)
@settings(max_examples=200, deadline=None)
def test_after_a_patch_no_unsettled_step_names_what_was_replaced(
    rows: list[tuple[str, list[str]]], data: st.DataObject
) -> None:
    """Whatever the plan, the settled part and the replacement."""
    plan = Plan(
        steps=[Step(id=id, value=[{"$": f"{n} + [{n} for {n} in {n}]"} for n in needs]) for id, needs in rows]
    )
    settled = data.draw(st.sets(st.sampled_from([id for id, _ in rows])))
    old = data.draw(st.sampled_from([id for id, _ in rows]))
    revised = apply_patch(plan, Patch(add=[Step(id="fresh", value=1, replaces=old)]), settled=settled)
    for step in revised.steps:
        if step.id in settled:
            assert step == plan.by_id[step.id]
        elif step.id != "fresh":
            before = compile_template(plan.by_id[step.id].value).names
            assert compile_template(step.value).names == {("fresh" if n == old else n) for n in before}


GROUPED = Plan.model_validate(
    {
        "steps": [
            {"id": "src", "value": 1},
            {
                "id": "g",
                "each": {"$": "[src]"},
                "steps": [
                    {
                        "id": "x",
                        "tool": "t",
                        "args": {"a": {"$": "src + item"}},
                        "undo": {"tool": "u", "args": {"a": {"$": "src"}}},
                    },
                    {
                        "id": "y",
                        "tool": "t",
                        "until": {"$": "result > src"},
                        "next": {"a": {"$": "src"}},
                        "max": 2,
                    },
                ],
                "output": {"$": "x + src"},
            },
            {"id": "end", "value": {"$": "g"}},
        ]
    }
)


def grouped(patch: dict[str, Any]) -> Plan:
    return apply_patch(GROUPED, Patch.model_validate(patch), settled={"src", "g"}, failed={"src", "g"})


def test_names_are_renamed_inside_groups_repeats_and_undo() -> None:
    """Everywhere in a group that has not run."""
    patch = Patch.model_validate({"add": [{"id": "src2", "value": 2, "replaces": "src"}]})
    [_, group, *_] = apply_patch(GROUPED, patch, settled={"src"}).steps
    assert "'src'" not in repr(group.to_json()).replace("src2", "")
    assert group.output == {"$": "x + src2"}
    [x, y] = group.steps or []
    assert x.undo is not None
    assert (x.args, x.undo.args) == ({"a": {"$": "src2 + item"}}, {"a": {"$": "src2"}})
    assert (y.until, y.next) == ({"$": "result > src2"}, {"a": {"$": "src2"}})


def test_a_group_is_replaced_as_a_whole() -> None:
    """Who read it reads the new one."""
    new = {"id": "g2", "replaces": "g", "steps": [{"id": "z", "value": 1}], "output": {"$": "z"}}
    assert grouped({"add": [new]}).by_id["end"].value == {"$": "g2"}


@pytest.mark.parametrize(
    ("patch", "pointer", "says"),
    [
        ({"drop": ["x"]}, "/drop/0", "'x' is a step inside the group 'g'; only the group as a whole can be dropped"),
        ({"add": [{"id": "x2", "value": 1, "replaces": "x"}]}, "/add/0/replaces", "only the group as a whole can be replaced"),
        (
            {"add": [{"id": "h", "steps": [{"id": "i", "steps": [{"id": "x", "value": 1}]}]}]},
            "/add/0/steps/0/steps/0/id",
            "the id 'x' was used before",
        ),
        (
            {"add": [{"id": "h", "steps": [{"id": "z", "value": 1, "replaces": "g"}]}]},
            "/add/0/steps/0/replaces",
            "only the group replaces a step",
        ),
    ],
)  # fmt: skip
def test_patches_reach_into_no_group(patch: dict[str, Any], pointer: str, says: str) -> None:
    """With the place in the patch, and the next move."""
    with pytest.raises(PatchDoesNotFit) as caught:
        grouped(patch)
    [found] = caught.value.findings
    assert found.pointer == pointer
    assert says in found.message
