"""Review and diff: everything a plan would do, as data, before it does anything."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.shop import CLERK, refund, refunds, shop

from foreplan.planner.documents import read_plan
from foreplan.planner.findings import CheckFailed
from foreplan.planner.plan import Plan, Step
from foreplan.planner.reviewing import Count, Review, diff, review, spell
from foreplan.policies.errors import BadInput
from foreplan.policies.policies import Budget, Limits, Policies


def reviewed(steps: str, **options: Any) -> Review:
    return review(read_plan(f"foreplan: 1\n{steps}\n"), shop(), **{"principal": CLERK, **options})


def test_the_plan_of_the_design_is_shown_whole() -> None:
    """Waves, effects, what cannot be undone, bounds, permissions, approval."""
    found = review(refunds(), shop(), principal=CLERK)
    assert found.waves == (("payments",), ("pairs",), ("refund",), ("notify",))
    assert found.irreversible == ("refund", "notify")
    assert found.calls == Count(1, None, "2 + n of pairs")
    assert found.effects == {"reads": Count(1, 1, "1"), "acts": Count(0, None, "1 + n of pairs")}
    assert found.permissions == ("pay:refund",)
    assert found.critical == ("payments", "pairs", "refund", "notify")
    assert found.needs_approval
    assert found.report.ok
    assert [step.result for step in found.steps] == ["an object", "a list of objects", "a list", "anything"]


def test_a_review_is_plain_json() -> None:
    """What `--json` prints can be read back."""
    document = review(refunds(), shop(), principal=CLERK).to_json()
    assert json.loads(json.dumps(document)) == document
    assert document["steps"][2]["effect"] == "acts"
    assert document["steps"][2]["calls"]["text"] == "n of pairs"


def test_each_over_a_known_list_is_counted() -> None:
    """Literals, inputs of this run, and values that depend on nothing else."""
    each = "{{id: a, each: {}, tool: store_value, args: {{key: {{$: str(item)}}, value: 1}}}}"
    assert reviewed(f"steps: [{each.format('[1, 2, 3]')}]").calls == Count(3, 3, "3")
    schema = "inputs: {type: object, properties: {keys: {type: array, items: {type: string}}}}"
    known = f"{schema}\nsteps: [{{id: v, value: {{$: inputs.keys}}}}, {each.format('{$: v}')}]"
    assert reviewed(known).calls == Count(0, None, "n of v")
    assert reviewed(known, inputs={"keys": ["x", "y"]}).calls == Count(2, 2, "2")


def test_inputs_get_their_defaults_before_anything_is_counted() -> None:
    """As the engine gives them."""
    schema = "inputs: {type: object, properties: {n: {type: integer, default: 4}}}"
    step = "{id: a, each: {$: range(inputs.n)}, tool: store_value, args: {key: k, value: {$: item}}}"
    found = reviewed(f"{schema}\nsteps: [{step}]", inputs={})
    assert found.calls.most == 4
    assert found.given == {"n": 4}
    with pytest.raises(BadInput):
        reviewed(f"{schema}\nsteps: [{step}]", inputs={"n": "four"})


def test_arguments_that_are_known_are_resolved() -> None:
    """The others stay symbolic, as the plan writes them."""
    schema = "inputs: {type: object, properties: {path: {type: string}}}"
    steps = "[{id: a, tool: read_ledger, args: {path: {$: inputs.path}}}, {id: b, tool: store_value, args: {key: k, value: {$: a.rows}}}]"
    first, second = reviewed(f"{schema}\nsteps: {steps}", inputs={"path": "may.csv"}).steps
    assert first.resolved == {"path": "may.csv"}
    assert second.resolved is None
    assert spell(second.args) == '{key: "k", value: a.rows}'


def test_a_condition_makes_a_call_possible_only() -> None:
    """Zero at least, one at most."""
    step = "{id: a, when: {$: n > 1}, tool: read_ledger, args: {path: x}}"
    assert reviewed(f"steps: [{{id: n, value: 1}}, {step}]").calls == Count(0, 1, "0 to 1")


def test_time_is_estimated_from_durations_and_bounded_by_timeouts() -> None:
    """Along the critical path; items share the width of the limits."""
    steps = "steps: [{id: a, tool: read_ledger, args: {path: x}}, {id: b, each: [1, 2, 3, 4, 5], after: [a], tool: store_value, args: {key: k, value: 1}}]"
    policies = Policies(tool_timeout=10, limits=Limits(run=2))
    found = reviewed(steps, policies=policies, durations={"read_ledger": 1.5, "store_value": 2.0})
    assert found.seconds == (1.5 + 3 * 2.0, 10 + 3 * 10)
    assert found.critical == ("a", "b")
    assert reviewed(steps, policies=Policies(tool_timeout=None)).seconds == (None, None)


def test_who_is_asked_and_what_is_lacking_is_said() -> None:
    """Per step: permissions, those the principal lacks, whether each call asks."""
    plan = read_plan("steps: [{id: a, tool: refund_payment, args: {payment_id: x, reason: fraud}}]")
    (step,) = review(plan, shop(refund=refund(requires_approval="each"))).steps
    assert (step.permissions, step.lacking, step.asks) == (("pay:refund",), ("pay:refund",), True)


def test_a_plan_with_errors_is_shown_as_far_as_it_goes() -> None:
    """Unknown tools, rings, bad expressions: nothing raises, the report says what is wrong."""
    found = reviewed(
        "steps: [{id: a, tool: nope, args: {x: {$: '1 +'}}}, {id: b, value: {$: c}}, {id: c, value: {$: b}}, {id: a}]",
        policies=Policies(budget=Budget(tool_calls=0)),
    )
    assert not found.report.ok
    assert found.steps[0].effect is None
    assert json.dumps(found.to_json())
    with pytest.raises(CheckFailed):
        review(Plan(steps=[Step(id="a", value={1, 2})]), shop())


def test_a_value_that_works_for_ever_does_not_stop_the_review() -> None:
    """One tank of fuel for all values of a review."""
    heavy = "{id: v%d, value: {$: '[x * y for x in range(2000) for y in range(2000)]'}}"
    found = reviewed(f"steps: [{', '.join(heavy % i for i in range(20))}]")
    assert found.report.ok


def test_a_diff_names_what_is_kept_added_removed_and_changed() -> None:
    """Field by field, in the plan and in its steps."""
    old = read_plan(
        "goal: a\nsteps: [{id: a, value: 1}, {id: b, value: 1, when: true}, {id: c, value: 1}]\noutput: 1"
    )
    new = read_plan("goal: b\nsteps: [{id: a, value: 1}, {id: b, value: true}, {id: d, value: 1}]\noutput: 1")
    found = diff(old, new)
    assert (found.kept, found.added, found.removed) == (("a",), ("d",), ("c",))
    assert found.changed == {"b": (("value", 1, True), ("when", True, None))}
    assert found.plan == (("goal", "a", "b"),)
    assert json.loads(json.dumps(found.to_json()))["changed"]["b"][0] == {
        "field": "value",
        "old": 1,
        "new": True,
    }
    assert diff(old, old).empty
    assert not found.empty


@pytest.mark.parametrize(
    ("template", "spelled"),
    [
        ({"$": "a.b"}, "a.b"),
        ({"x": [{"$": "a"}, 1, "t"]}, '{x: [a, 1, "t"]}'),
        ({"$literal": {"$": "a"}}, '{"$": "a"}'),
        ("é", '"é"'),
        (None, "null"),
    ],
)
def test_a_template_is_spelled_for_people(template: Any, spelled: str) -> None:
    """Expressions bare, literals as JSON."""
    assert spell(template) == spelled


TRIPS = """
steps:
  - id: pages
    tool: read_ledger
    args: {path: p}
    until: {$: "len(result.rows) == 0"}
    next: {path: {$: "result.rows[0].id"}}
    every: 2
    max: 5
  - id: trips
    each: [a, b, c]
    as: trip
    steps:
      - id: booked
        tool: send_email
        args: {to: {$: trip}, body: x}
        undo: {tool: refund_payment, args: {payment_id: {$: trip}, reason: fraud}}
      - id: legs
        each: {$: "pages[0].rows"}
        steps:
          - {id: leg, tool: store_value, args: {key: {$: item.id}, value: {$: booked}}}
      - {id: said, when: {$: "trip != 'a'"}, tool: store_value, after: [legs], args: {key: said, value: 1}}
    output: {$: booked}
output: {$: trips}
"""


def test_groups_are_shown_nested_with_their_own_waves() -> None:
    """A step inside stands in the group, and waits for its neighbours there."""
    found = reviewed(TRIPS)
    assert found.waves == (("pages",), ("trips",))
    assert [step.id for step in found.every_step] == ["pages", "trips", "booked", "legs", "leg", "said"]
    inside = found.steps[1].steps or ()
    assert [(step.id, step.wave, step.needs) for step in inside] == [
        ("booked", 0, ()),
        ("legs", 1, ("booked",)),
        ("said", 2, ("legs",)),
    ]
    assert found.critical == ("pages", "trips", "booked", "legs", "leg", "said")


def test_calls_are_counted_through_groups_and_repeats() -> None:
    """Known lists multiply, an unknown one stays a name, `until` has its bound."""
    found = {step.id: step.calls for step in reviewed(TRIPS).every_step}
    assert found["pages"] == Count(1, 5, "1 to 5")
    assert found["booked"] == Count(3, 3, "3")
    assert found["leg"] == Count(0, None, "3 × n of pages[0].rows")
    assert found["said"] == Count(0, 3, "up to 3")
    assert found["trips"] == Count(3, None, "6 + 3 × n of pages[0].rows")


def test_what_would_be_undone_is_shown_and_not_counted() -> None:
    """With the effect of the call that undoes, who lacks what for it, and its place in the approval."""
    found = reviewed(TRIPS, principal=CLERK.model_copy(update={"permissions": ()}))
    undo = next(step.undo for step in found.every_step if step.id == "booked")
    assert undo is not None
    assert (undo.tool, undo.effect, undo.lacking) == ("refund_payment", "acts", ("pay:refund",))
    assert found.irreversible == ("booked",)
    assert found.effects["acts"] == Count(3, 3, "3")
    assert "pay:refund" in found.permissions
    assert any(reason.startswith("refund_payment acts") for reason in found.approval)


def test_repeats_take_one_call_after_the_other_and_groups_as_long_as_their_steps() -> None:
    """Pauses between calls count; chains side by side do not."""
    chain = "{id: a, tool: read_ledger, args: {path: x}}, {id: b, tool: store_value, args: {key: k, value: {$: a}}}"
    group = f"{{id: g, each: [1, 2, 3], steps: [{chain}]}}"
    poll = "{id: p, after: [g], tool: read_ledger, args: {path: x}, until: {$: 'result.rows == []'}, every: 10, max: 3}"
    found = reviewed(f"steps: [{group}, {poll}]", durations={"read_ledger": 2, "store_value": 1})
    assert found.seconds.typical == 3 + 3 * 2 + 2 * 10
    narrow = reviewed(
        f"steps: [{group}]",
        durations={"read_ledger": 2, "store_value": 1},
        policies=Policies(limits=Limits(run=1)),
    )
    assert narrow.seconds.typical == 9


def test_a_review_of_groups_is_plain_json() -> None:
    """Steps inside steps, and only what a step says."""
    document = reviewed(TRIPS).to_json()
    assert json.loads(json.dumps(document)) == document
    pages, trips = document["steps"]
    assert "steps" not in pages
    assert (pages["every"], trips["times"]["text"]) == (2, "3")
    assert trips["steps"][0]["undo"]["effect"] == "acts"


def test_a_diff_looks_into_groups() -> None:
    """A step inside that changes is one change, and so is one that moves in or out."""
    old = read_plan(TRIPS)
    inner = TRIPS.replace("{key: said, value: 1}", "{key: said, value: 2}")
    found = diff(old, read_plan(inner))
    assert [*found.changed] == ["said"]
    assert found.kept == ("pages", "trips", "booked", "legs", "leg")
    flat = old.model_copy(update={"steps": [old.steps[0], *(old.steps[1].steps or ())[:1]]})
    moved = diff(old, flat)
    assert [change.field for change in moved.changed["booked"]] == ["group"]
    assert moved.removed == ("trips", "legs", "leg", "said")
