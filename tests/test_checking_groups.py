"""The static check of groups, repeats and undo: scopes within scopes, each fault with its code at its place."""

from __future__ import annotations

import time
from typing import Any

import pytest
from support.shop import CLERK, shop

from foreplan.planner.checking import check
from foreplan.planner.documents import MAX_STEPS, read_plan
from foreplan.planner.findings import Report
from foreplan.planner.plan import Plan, Step
from foreplan.planner.study import Study
from foreplan.planner.types import describe
from foreplan.policies.effect import Effect
from foreplan.policies.permissions import Principal
from foreplan.policies.policies import Budget, Policies
from foreplan.registry.registry import Registry
from foreplan.registry.tools import Tool


async def _never(args: dict[str, Any]) -> Any:
    raise AssertionError("nothing here is called")


def _object(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


TEXT, WHOLE = {"type": "string"}, {"type": "integer"}
PAGE = _object(
    "rows",
    rows={"type": "array", "items": WHOLE},
    next={"type": ["integer", "null"]},
    done={"type": "boolean"},
)


def tools() -> Registry:
    """The shop, a list in pages, bookings that can be taken back, and a question whose answer an argument describes."""
    return shop() | Registry(
        Tool.declare(
            "page", input_schema=_object(cursor=WHOLE), output_schema=PAGE, effect=Effect.READS, call=_never
        ),
        Tool.declare(
            "book", input_schema=_object("what", what=TEXT), output_schema=_object("id", id=TEXT), call=_never
        ),
        Tool.declare(
            "cancel",
            input_schema=_object("id", id=TEXT),
            call=_never,
            permissions=("cancel",),
            requires_approval=True,
        ),
        Tool.declare(
            "guess",
            input_schema=_object("schema", schema={}),
            effect=Effect.READS,
            call=_never,
            result_from=("schema",),
        ),
    )


BOSS = CLERK.model_copy(update={"permissions": ("pay:refund", "cancel")})


def report(steps: str, **options: Any) -> Report:
    """The report on a plan with these steps (YAML), run by someone who may do everything."""
    return check(read_plan(f"foreplan: 1\n{steps}\n"), tools(), **{"principal": BOSS, **options})


def codes(found: Report) -> list[tuple[str, str]]:
    return [(f.code, f.pointer) for f in found.findings if f.code != "approval_needed"]


def group(*steps: str, id: str = "g", **more: str) -> str:
    """A group in YAML."""
    said = "".join(f", {name.rstrip('_')}: {value}" for name, value in more.items())
    return f"{{id: {id}, steps: [{', '.join(steps)}]{said}}}"


N = "{id: n, value: 1}"
READ = "{id: got, tool: read_ledger, args: {path: {$: item}}}"
CHAIN = group(READ, "{id: size, value: {$: len(got.rows)}}", each="[a, b]", output="{n: {$: size}}")
CAR = "id: car, tool: book, args: {what: car}"

SOUND = {
    "a chain per item": f"steps: [{CHAIN}, {{id: t, value: {{$: 'sum([r.n for r in g])'}}}}]",
    "inside sees outside": f"steps: [{N}, {group('{id: a, value: {$: n + inputs.x}}')}]\ninputs: {{type: object, properties: {{x: {{type: integer}}}}, required: [x]}}",
    "items of all groups around": f"steps: [{group(group('{id: a, each: [1], as: z, value: {$: x + y + z + index}}', id='h', each='[1]', as_='y'), each='[1]', as_='x')}]",
    "the nearest item wins": f"steps: [{group(group('{id: a, value: {$: item + 1}}', id='h', each='{$: item.more}'), each='[{more: [1]}]')}]",
    "a group that is empty of calls": f"steps: [{group(N, output='{$: n}')}]",
    "an order inside": f"steps: [{group('{id: a, tool: book, args: {what: x}}', '{id: b, after: [a], tool: book, args: {what: y}}')}]",
    "a group that waits": f"steps: [{{{CAR}}}, {group('{id: b, tool: book, args: {what: y}}', after='[car]')}]",
    "the output of a group sees its item": f"steps: [{group(N, each='[1]', output='{$: n + item + index}')}]",
    "paging": "steps: [{id: p, tool: page, until: {$: result.next is None}, next: {cursor: {$: result.next}}, max: 9}, {id: q, value: {$: 'flat([r.rows for r in p])'}}]",
    "polling": "steps: [{id: p, tool: page, until: {$: result.done}, every: 0.5, max: 9}, {id: q, value: {$: 'p[0].rows'}}]",
    "fail-over": "steps: [{id: p, each: [1, 2], tool: book, args: {what: {$: str(item)}}, until: {$: result.id != ''}}]",
    "fail-over of a chain": f"steps: [{group(READ, each='[a, b]', output='{$: got.rows}', until='{$: len(result) > 0}')}]",
    "an effect with other arguments": "steps: [{id: p, tool: book, args: {what: x}, until: {$: result.id == 'b'}, next: {what: {$: result.id}}, max: 2}]",
    "undo": f"steps: [{{{CAR}, undo: {{tool: cancel, args: {{id: {{$: result.id}}}}}}}}]",
    "undo of each page": "steps: [{id: p, each: [a], tool: book, args: {what: {$: item}}, undo: {tool: cancel, args: {id: {$: 'result.id + item'}}}}]",
    "a result that an argument describes": "steps: [{id: a, tool: guess, args: {schema: {type: object, properties: {n: {type: integer}}}}}, {id: b, value: {$: a.n + 1}}]",
    "a result that a computed argument describes": f"steps: [{N}, {{id: a, tool: guess, args: {{schema: {{$: '[str(n)]'}}}}}}, {{id: b, value: {{$: a.lower()}}}}]",
}  # fmt: skip

FAULTS: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "a step inside, from outside": (
        f"steps: [{CHAIN}, {{id: t, value: {{$: got.rows}}}}]",
        [("inside_group", "/steps/1/value/$")],
    ),
    "a step inside, from the output": (f"steps: [{CHAIN}]\noutput: {{$: got}}", [("inside_group", "/output/$")]),
    "a step of another group": (
        f"steps: [{CHAIN}, {group('{id: b, value: {$: size}}', id='h')}]",
        [("inside_group", "/steps/1/steps/0/value/$")],
    ),
    "a field the output does not have": (
        f"steps: [{CHAIN}, {{id: t, value: {{$: 'g[0].m'}}}}]",
        [("unknown_field", "/steps/1/value/$")],
    ),
    "a whole group for an item": (
        f"steps: [{CHAIN}, {{id: t, value: {{$: g.n}}}}]",
        [("wrong_type", "/steps/1/value/$")],
    ),
    "an item outside": (f"steps: [{CHAIN}, {{id: t, value: {{$: item}}}}]", [("item_outside_each", "/steps/1/value/$")]),
    "an item in its own list": (
        f"steps: [{group(N, each='{$: x}', as_='x')}]",
        [("item_outside_each", "/steps/0/each/$")],
    ),
    "the same id inside": (f"steps: [{N}, {group(N)}]", [("duplicate_id", "/steps/1/steps/0/id")]),
    "an item called like a step inside": (
        f"steps: [{group(N, '{id: b, each: [1], as: n, value: 2}')}]",
        [("as_shadows", "/steps/0/steps/1/as")],
    ),
    "a bad id inside": (f"steps: [{group('{id: A, value: 1}')}]", [("bad_id", "/steps/0/steps/0/id")]),
    "a ring through a group": (
        f"steps: [{group('{id: a, value: {$: b}}', output='{$: a}')}, {{id: b, value: {{$: g}}}}]",
        [("cycle", "/steps/0")],
    ),
    "a ring inside": (
        f"steps: [{group('{id: a, value: {$: b}}', '{id: b, value: {$: a}}')}]",
        [("cycle", "/steps/0/steps/0")],
    ),
    "a group in itself": (
        f"steps: [{group('{id: a, value: {$: g}}', output='1')}]",
        [("self_reference", "/steps/0/steps/0/value/$")],
    ),
    "after of what is around": (
        f"steps: [{N}, {group('{id: a, after: [n], value: 1}')}]",
        [("after_elsewhere", "/steps/1/steps/0/after/0")],
    ),
    "after of what is inside": (
        f"steps: [{CHAIN}, {{id: b, after: [got], value: 1}}]",
        [("after_elsewhere", "/steps/1/after/0")],
    ),
    "after of nothing, inside": (
        f"steps: [{group('{id: a, value: 1}', '{id: b, after: [aa], value: 1}')}]",
        [("unknown_step", "/steps/0/steps/1/after/0")],
    ),
    "a group without output that is used": (
        f"steps: [{group(N)}, {{id: b, value: {{$: g}}}}]",
        [("group_without_output", "/steps/1/value/$")],
    ),
    "an empty group": ("steps: [{id: g, steps: []}]", [("empty_group", "/steps/0/steps")]),
    "tool and steps": (
        f"steps: [{{id: g, tool: page, steps: [{N}]}}]",
        [("tool_or_value", "/steps/0")],
    ),
    "value and steps": (f"steps: [{group(N, value='1')}]", [("tool_or_value", "/steps/0")]),
    "arguments of a group": (f"steps: [{group(N, args='{x: 1}')}]", [("args_without_tool", "/steps/0/args")]),
    "output of a step": ("steps: [{id: a, value: 1, output: 2}]", [("output_without_steps", "/steps/0/output")]),
    "four groups deep": (
        f"steps: [{group(group(group(group(N, id='k'), id='j'), id='h'))}]",
        [("groups_too_deep", "/steps/0/steps/0/steps/0/steps/0/steps")],
    ),
    "a wrong argument inside": (
        f"steps: [{group('{id: a, tool: read_ledger, args: {path: 1, pat: x}}')}]",
        [("unknown_argument", "/steps/0/steps/0/args/pat"), ("wrong_argument", "/steps/0/steps/0/args/path")],
    ),
    "an unknown tool inside": (f"steps: [{group('{id: a, tool: pages}')}]", [("unknown_tool", "/steps/0/steps/0/tool")]),
    "the type of an item inside": (
        f"steps: [{group('{id: a, tool: read_ledger, args: {path: {$: item}}}', each='[1, 2]')}]",
        [("wrong_type", "/steps/0/steps/0/args/path/$")],
    ),
    "each of a group over no list": (f"steps: [{N}, {group('{id: a, value: 1}', each='{$: n}')}]", [("not_a_list", "/steps/1/each")]),
    "effects in no order inside": (
        f"steps: [{group('{id: a, tool: book, args: {what: x}}', '{id: b, tool: book, args: {what: y}}')}]",
        [("unordered_effects", "/steps/0/steps/1")],
    ),
    "effects of a group and beside it": (
        f"steps: [{{{CAR}}}, {group('{id: b, tool: book, args: {what: y}}')}]",
        [("unordered_effects", "/steps/1")],
    ),
    "a result that nobody uses inside": (
        f"steps: [{group(READ, '{id: b, value: 1}', each='[a]', output='{$: got}')}]\noutput: {{$: g}}",
        [("unused_result", "/steps/0/steps/1")],
    ),
    "a producer inside that may be skipped": (
        f"steps: [{group('{id: a, when: {$: item > 1}, tool: page}', '{id: b, value: {$: a.rows}}', each='[1]')}]",
        [("may_be_skipped", "/steps/0/steps/1/value/$")],
    ),
    "a constant that always fails inside": (
        f"steps: [{group('{id: a, value: {$: 1 / 0}}')}]",
        [("always_fails", "/steps/0/steps/0/value")],
    ),
    # repeats
    "no bound": ("steps: [{id: p, tool: page, until: {$: result.done}}]", [("bad_max", "/steps/0")]),
    "a bound of nothing": ("steps: [{id: p, tool: page, until: {$: result.done}, max: 0}]", [("bad_max", "/steps/0/max")]),
    "a bound beside each": (
        "steps: [{id: p, each: [1], tool: page, args: {cursor: {$: item}}, until: {$: result.done}, max: 3}]",
        [("bad_max", "/steps/0/max")],
    ),
    "a pause before now": (
        "steps: [{id: p, tool: page, until: {$: result.done}, max: 3, every: -1}]",
        [("bad_every", "/steps/0/every")],
    ),
    "what is repeated without until": (
        "steps: [{id: p, tool: page, next: {cursor: 1}, every: 1, max: 3}]",
        [("without_until", f"/steps/0/{f}") for f in ("next", "every", "max")],
    ),
    "until that is no condition": (
        "steps: [{id: p, tool: page, until: {$: result.rows}, max: 3}]",
        [("not_boolean", "/steps/0/until")],
    ),
    "until that sees nothing": (
        f"steps: [{N}, {{id: p, tool: page, until: {{$: n > 1}}, max: 3}}]",
        [("until_never_changes", "/steps/1/until")],
    ),
    "until of a value": ("steps: [{id: p, value: 1, until: {$: result > 1}, max: 3}]", [("no_call", "/steps/0/until")]),
    "until of a group": (
        f"steps: [{group(N, output='{$: n}', until='{$: result > 1}', max='3')}]",
        [("no_call", "/steps/0/until")],
    ),
    "a field of the result that is not there": (
        "steps: [{id: p, tool: page, until: {$: result.dun}, max: 3}]",
        [("unknown_field", "/steps/0/until/$")],
    ),
    "next of an argument that is not there": (
        "steps: [{id: p, tool: page, until: {$: result.done}, next: {curser: {$: result.next}}, max: 3}]",
        [("unknown_argument", "/steps/0/next/curser")],
    ),
    "next of another type": (
        "steps: [{id: p, tool: page, until: {$: result.done}, next: {cursor: {$: result.rows}}, max: 3}]",
        [("wrong_type", "/steps/0/next/cursor/$")],
    ),
    "a literal of another type in next": (
        "steps: [{id: p, tool: page, until: {$: result.done}, next: {cursor: x}, max: 3}]",
        [("wrong_argument", "/steps/0/next/cursor")],
    ),
    "an effect again and again": (
        "steps: [{id: p, tool: book, args: {what: x}, until: {$: result.id == 'b'}, max: 3}]",
        [("repeats_effect", "/steps/0/until")],
    ),
    "an effect with the same next each time": (
        "steps: [{id: p, tool: book, args: {what: x}, until: {$: result.id == 'b'}, next: {what: y}, max: 3}]",
        [("repeats_effect", "/steps/0/until")],
    ),
    "an effect for each without the item": (
        "steps: [{id: p, each: [1, 2], tool: book, args: {what: x}, until: {$: result.id == 'b'}}]",
        [("repeats_effect", "/steps/0/until")],
    ),
    "one result for the list of them": (
        "steps: [{id: p, tool: page, until: {$: result.done}, max: 3}, {id: q, value: {$: p.rows}}]",
        [("wrong_type", "/steps/1/value/$")],
    ),
    "the result of a step without until": (
        "steps: [{id: p, tool: page, args: {cursor: {$: result.next}}}]",
        [("result_elsewhere", "/steps/0/args/cursor/$")],
    ),
    # undo
    "undo by an unknown tool": (
        f"steps: [{{{CAR}, undo: {{tool: cancle, args: {{}}}}}}]",
        [("unknown_tool", "/steps/0/undo/tool")],
    ),
    "undo without an argument": (f"steps: [{{{CAR}, undo: {{tool: cancel}}}}]", [("missing_argument", "/steps/0/undo")]),
    "undo with a wrong type": (
        f"steps: [{{{CAR}, undo: {{tool: cancel, args: {{id: {{$: result}}}}}}}}]",
        [("wrong_type", "/steps/0/undo/args/id/$")],
    ),
    "undo with a field that is not there": (
        f"steps: [{{{CAR}, undo: {{tool: cancel, args: {{id: {{$: result.di}}}}}}}}]",
        [("unknown_field", "/steps/0/undo/args/id/$")],
    ),
    "undo with a literal of another type": (
        f"steps: [{{{CAR}, undo: {{tool: cancel, args: {{id: 3}}}}}}]",
        [("wrong_argument", "/steps/0/undo/args/id")],
    ),
    "undo of a step that reads": (
        "steps: [{id: p, tool: page, undo: {tool: cancel, args: {id: x}}}]",
        [("undo_of_read", "/steps/0/undo")],
    ),
    "undo of a group": (
        f"steps: [{group(N, undo='{tool: cancel, args: {id: x}}')}]",
        [("no_call", "/steps/0/undo")],
    ),
    "undo that reads a later step": (
        f"steps: [{{{CAR}, undo: {{tool: cancel, args: {{id: {{$: late}}}}}}}}, {{id: late, value: {{$: car.id}}}}]",
        [("cycle", "/steps/0")],
    ),
    # results that arguments describe
    "no schema": (
        "steps: [{id: a, tool: guess, args: {schema: {type: nonsense}}}]",
        [("bad_result_schema", "/steps/0/args/schema/type")],
    ),
    "a field that the described result does not have": (
        "steps: [{id: a, tool: guess, args: {schema: {type: object, properties: {n: {type: integer}}}}}, {id: b, value: {$: a.m}}]",
        [("unknown_field", "/steps/1/value/$")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_plan_of_groups_gives_no_finding(name: str) -> None:
    """Nothing certain is wrong, nothing is doubtful."""
    assert codes(report(SOUND[name])) == []


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_has_its_code_at_its_place(name: str) -> None:
    """Exactly these findings, nothing else."""
    steps, expected = FAULTS[name]
    assert codes(report(steps)) == expected


def test_a_name_from_inside_is_told_with_the_way_out() -> None:
    """Where the output holds it, the whole corrected expression; else what to add."""
    named = group(N, output="{count: {$: n}}")
    [found] = report(f"steps: [{named}, {{id: b, value: {{$: n + 1}}}}]").errors
    assert found.suggestion == "g.count + 1"
    [found] = report(f"steps: [{group(N, output='1')}, {{id: b, value: {{$: n + 1}}}}]").errors
    assert "`output: {n: {$: n}}`" in found.message
    assert "write g.n" in found.message


def test_a_ring_through_a_group_shows_the_step_inside_that_waits() -> None:
    """So that the reader need not look for it."""
    steps = f"steps: [{group('{id: a, value: {$: b}}', output='{$: a}')}, {{id: b, value: {{$: g}}}}]"
    [found] = report(steps).errors
    assert found.message == "steps wait for each other: g.a -> b -> g"


TYPES = {
    "a group": (group(N, output="{$: n}"), "1"),
    "a group over a list": (group(N, each="[1]", output="{$: n}"), "a list of whole numbers"),
    "a group that may be skipped": (group(N, when="{$: 1 > 2}", output="{$: n}"), "null or a whole number"),
    "a repeated call": ("{id: g, tool: page, until: {$: result.done}, max: 3}", "a list of objects"),
    "calls in order": (
        "{id: g, each: [1], tool: page, args: {cursor: {$: item}}, until: {$: result.done}}",
        "a list",
    ),
    "a choice": ("{id: g, tool: guess, args: {schema: [a, b]}}", '"a" or "b"'),
}


@pytest.mark.parametrize("name", TYPES)
def test_the_type_of_a_result(name: str) -> None:
    """As outside sees it: the output, a list of it, or null where it may be skipped."""
    step, expected = TYPES[name]
    assert describe(Study(read_plan(f"steps: [{step}]"), tools()).type_of("g")) == expected


def test_who_may_not_undo_is_told_before_the_plan_runs() -> None:
    """The permissions of an undo are asked like those of any call, and so is its approval."""
    plan = f"steps: [{{{CAR}, undo: {{tool: cancel, args: {{id: {{$: result.id}}}}}}}}]"
    assert codes(report(plan, principal=Principal(id="bob"))) == [("permission", "/steps/0/undo/tool")]
    [told] = report(plan, policies=Policies(approve="never")).findings
    assert "cancel asks for approval" in told.message


def test_calls_are_counted_through_groups_against_the_budget() -> None:
    """Lists that are known multiply; `until` counts up to its bound; a list that is not known has none."""
    inner = group("{id: a, tool: page}", "{id: b, tool: page}", id="h", each="[1, 2, 3]")
    chain = f"steps: [{group(inner, each='[1, 2]')}]"
    assert codes(report(chain, policies=Policies(budget=Budget(tool_calls=12)))) == []
    assert codes(report(chain, policies=Policies(budget=Budget(tool_calls=11)))) == [("over_budget", "")]
    polling = "steps: [{id: p, tool: page, until: {$: result.done}, max: 5}]"
    assert codes(report(polling, policies=Policies(budget=Budget(tool_calls=5)))) == []
    assert codes(report(polling, policies=Policies(budget=Budget(tool_calls=4)))) == [
        ("may_exceed_budget", "")
    ]
    open_ended = f"steps: [{{id: p, tool: page}}, {group('{id: a, tool: page}', each='{$: p.rows}')}]"
    assert codes(report(open_ended, policies=Policies(budget=Budget(tool_calls=99)))) == [
        ("may_exceed_budget", "")
    ]


def test_calls_that_undo_may_exceed_the_budget_too() -> None:
    """They are calls like any other, if it comes to that."""
    plan = f"steps: [{{{CAR}, undo: {{tool: cancel, args: {{id: {{$: result.id}}}}}}}}]"
    assert codes(report(plan, policies=Policies(budget=Budget(tool_calls=2)))) == []
    assert codes(report(plan, policies=Policies(budget=Budget(tool_calls=1)))) == [("may_exceed_budget", "")]


def test_what_reads_a_step_that_may_be_skipped_is_not_certain_to_run() -> None:
    """So its calls are no reason to refuse a plan, and its result may be null; unless it asks first."""
    reading = f"{N}, {{id: a, when: {{$: n > 1}}, tool: page}}, {{id: b, each: [1, 2], tool: page, args: {{cursor: {{$: 'a.rows[0]'}}}}}}"
    policies = Policies(budget=Budget(tool_calls=1))
    assert ("may_exceed_budget", "") in codes(report(f"steps: [{reading}]", policies=policies))
    study = Study(read_plan(f"steps: [{reading}]"), tools())
    assert study.type_of("b").item.has("null")
    asking = reading.replace("a.rows[0]", "a.rows[0] if a is not None else 0")
    assert codes(report(f"steps: [{asking}]", policies=policies)) == [("over_budget", "")]
    same = reading.replace("each: [1, 2]", "when: {$: n > 1}")
    assert "may_be_skipped" not in dict(codes(report(f"steps: [{same}]")))


def test_findings_come_in_the_order_of_the_document() -> None:
    """What is wrong with a group before what is wrong inside it, the tenth step after the second."""
    steps = ", ".join(f"{{id: s{i}, value: {{$: x{i}}}}}" for i in range(11))
    found = report(f"steps: [{{id: g, steps: [{steps}], args: {{x: 1}}}}, {{id: t, value: {{$: x}}}}]")
    assert [f.pointer for f in found.findings] == [
        "/steps/0/args",
        *(f"/steps/0/steps/{i}/value/$" for i in range(11)),
        "/steps/1/value/$",
    ]


def test_an_unknown_property_inside_a_group_is_told_as_one_of_a_step() -> None:
    """Also in an undo."""
    from foreplan.planner.findings import PlanUnreadable

    with pytest.raises(PlanUnreadable, match="a step has no property 'arguments'; did you mean 'args'"):
        read_plan("steps: [{id: g, steps: [{id: a, tool: page, arguments: {}}]}]")
    with pytest.raises(PlanUnreadable, match="an undo has no property 'arg'; did you mean 'args'"):
        read_plan("steps: [{id: a, tool: page, undo: {tool: x, arg: {}}}]")


def nested(number: int, depth: int) -> Step:
    """A group of so many steps, inside groups."""
    if depth:
        return Step(id=f"g{depth}", steps=[nested(number, depth - 1)])
    return Step(id="g", steps=[Step(id=f"s{i}", value=i) for i in range(number)])


def test_steps_inside_groups_count_towards_the_cap() -> None:
    """A plan that hides its steps is no smaller."""
    assert codes(check(Plan(steps=[nested(MAX_STEPS, 0)]), tools())) == [("too_large", "/steps")]


def test_groups_without_end_are_refused_before_they_are_read() -> None:
    """No recursion error, whatever was built in Python."""
    assert codes(check(Plan(steps=[nested(1, 200)]), tools())) == [("too_deep", "/steps")]


@pytest.mark.parametrize("field", ["output", "until", "next", "undo", "every"])
def test_values_that_are_no_json_are_refused_in_every_template(field: str) -> None:
    """With their place, inside groups too."""
    bad: Any = float("nan")
    said = {"next": {"x": bad}, "undo": {"tool": "cancel", "args": {"x": bad}}}.get(field, bad)
    step = Step.model_validate({"id": "a", "tool": "page", field: said})
    [found] = check(Plan(steps=[Step(id="g", steps=[step])]), tools()).findings
    assert found.code == "not_json"
    assert found.pointer.startswith(f"/steps/0/steps/0/{field}")


def many(shape: str) -> Plan:
    """Ten thousand steps in groups of one shape."""
    match shape:
        case "groups of ten":
            steps = [_chain(f"g{g}", 10, each=True) for g in range(900)]
        case "one group":
            steps = [_chain("g", 9_990)]
        case "a group that needs thousands":
            sources = [Step(id=f"v{i}", value=i) for i in range(4_000)]
            inside = [Step(id=f"s{i}", value={"$": f"v{i % 4_000} + 1"}) for i in range(5_000)]
            steps = [*sources, Step(id="g", steps=inside)]
        case _:
            wrong = [Step(id=f"s{i}", value={"$": f"hidden{i} + x"}) for i in range(4_900)]
            hidden = [Step(id=f"hidden{i}", value=i) for i in range(4_900)]
            steps = [Step(id="g", steps=hidden), *wrong]
    return Plan(steps=steps)


def _chain(id: str, length: int, *, each: bool = False) -> Step:
    inside = [Step(id=f"{id}_0", tool="page", args={"cursor": {"$": "item"} if each else 1})]
    inside += [Step(id=f"{id}_{i}", value={"$": f"{id}_{i - 1}"}) for i in range(1, length)]
    said: dict[str, Any] = {"each": [1, 2]} if each else {}
    return Step.model_validate(
        {"id": id, "steps": [s.to_json() for s in inside], "output": {"$": f"{id}_{length - 1}"}, **said}
    )


@pytest.mark.parametrize(
    "shape", ["groups of ten", "one group", "a group that needs thousands", "named from outside"]
)
def test_a_plan_of_ten_thousand_steps_in_groups_is_checked_in_linear_time(shape: str) -> None:
    """Seconds, not minutes: 2 s is the promise for a sound plan on a quiet machine, three times that holds here."""
    plan = many(shape)
    began = time.process_time()
    check(plan, tools())
    assert time.process_time() - began < 6
