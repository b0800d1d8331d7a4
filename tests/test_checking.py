"""The static check: every fault with its code at its place, nothing said about sound plans, and linear time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from support.shop import CLERK, ledger, refunds, shop

from foreplan.planner.checking import check
from foreplan.planner.documents import read_plan, read_source
from foreplan.planner.findings import CODES, CheckFailed, Report
from foreplan.planner.plan import Plan, Step
from foreplan.policies.permissions import Principal
from foreplan.policies.policies import Budget, Policies
from foreplan.registry.registry import Registry
from foreplan.registry.tools import Tool


def report(steps: str, **options: Any) -> Report:
    """The report on a plan with these steps (YAML), run by someone who may do everything."""
    return check(read_plan(f"foreplan: 1\n{steps}\n"), shop(), **{"principal": CLERK, **options})


def codes(found: Report, *, but: str = "approval_needed") -> list[tuple[str, str]]:
    return [(f.code, f.pointer) for f in found.findings if f.code not in (but, "unknown_type")]


def test_the_plan_of_the_design_checks() -> None:
    """It only says that someone must approve it."""
    found = check(refunds(), shop(), principal=CLERK)
    assert found.ok
    assert [f.code for f in found.findings] == ["approval_needed"]
    assert found.plan_digest == refunds().digest


ROWS = "{id: pay, tool: read_ledger, args: {path: x}}"

FAULTS: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "no step": ("steps: []", [("no_steps", "/steps")]),
    "a name with capitals": ("steps: [{id: Pay, value: 1}]", [("bad_id", "/steps/0/id")]),
    "a keyword as a name": ("steps: [{id: import, value: 1}]", [("bad_id", "/steps/0/id")]),
    "a reserved name": ("steps: [{id: inputs, value: 1}]", [("reserved_id", "/steps/0/id")]),
    "a function as a name": ("steps: [{id: len, value: 1}]", [("reserved_id", "/steps/0/id")]),
    "two steps of one name": (
        "steps: [{id: a, value: 1}, {id: a, value: 2}]",
        [("duplicate_id", "/steps/1/id")],
    ),
    "neither tool nor value": ("steps: [{id: a}]", [("tool_or_value", "/steps/0")]),
    "both tool and value": (
        "steps: [{id: a, tool: read_ledger, args: {path: x}, value: 1}]",
        [("tool_or_value", "/steps/0")],
    ),
    "arguments of a value": (
        "steps: [{id: a, value: 1, args: {x: 1}}]",
        [("args_without_tool", "/steps/0/args")],
    ),
    "as without each": ("steps: [{id: a, as: x, value: 1}]", [("as_without_each", "/steps/0/as")]),
    "as that is a step": (
        "steps: [{id: b, value: 1}, {id: a, each: [1], as: b, value: {$: b}}]",
        [("as_shadows", "/steps/1/as")],
    ),
    "as that is a function": (
        "steps: [{id: a, each: [1], as: sum, value: {$: sum}}]",
        [("bad_expression", "/steps/0/value/$"), ("reserved_id", "/steps/0/as")],
    ),
    "after an unknown step": (
        "steps: [{id: a, value: 1, after: [b]}]",
        [("unknown_step", "/steps/0/after/0")],
    ),
    "after itself": ("steps: [{id: a, value: 1, after: [a]}]", [("self_reference", "/steps/0/after/0")]),
    "its own result": ("steps: [{id: a, value: {$: 'a + 1'}}]", [("self_reference", "/steps/0/value/$")]),
    "a ring": (
        "steps: [{id: a, value: {$: b}}, {id: b, value: 1, after: [c]}, {id: c, value: {$: a}}]",
        [("cycle", "/steps/0")],
    ),
    "an unknown name": ("steps: [{id: a, value: {$: 'b.x'}}]", [("unknown_step", "/steps/0/value/$")]),
    "an unknown name in the output": (
        "steps: [{id: a, value: 1}]\noutput: [{$: a}, {$: b}]",
        [("unknown_step", "/output/1/$")],
    ),
    "an unknown input": (
        "inputs: {type: object, properties: {x: {type: string}}}\nsteps: [{id: a, value: {$: inputs.y}}]",
        [("unknown_input", "/steps/0/value/$")],
    ),
    "an input where none is declared": (
        "steps: [{id: a, value: {$: inputs.y}}]",
        [("unknown_input", "/steps/0/value/$")],
    ),
    "an unknown field": (
        f"steps: [{ROWS}, {{id: a, value: {{$: pay.rowz}}}}]",
        [("unknown_field", "/steps/1/value/$")],
    ),
    "an unknown field of an element": (
        f"steps: [{ROWS}, {{id: a, value: {{$: '[r.amont for r in pay.rows]'}}}}]",
        [("unknown_field", "/steps/1/value/$")],
    ),
    "a field of a list": (
        f"steps: [{ROWS}, {{id: a, value: {{$: pay.rows.id}}}}]",
        [("wrong_type", "/steps/1/value/$")],
    ),
    "a field of a text": (
        f"steps: [{ROWS}, {{id: a, value: {{$: 'pay.rows[0].id.x'}}}}]",
        [("wrong_type", "/steps/1/value/$")],
    ),
    "an index of an object": (
        f"steps: [{ROWS}, {{id: a, value: {{$: 'pay[0]'}}}}]",
        [("wrong_type", "/steps/1/value/$")],
    ),
    "a field of the run that is none": (
        "steps: [{id: a, value: {$: run.name}}]",
        [("unknown_field", "/steps/0/value/$")],
    ),
    "the item outside each": (
        "steps: [{id: a, value: {$: item}}]",
        [("item_outside_each", "/steps/0/value/$")],
    ),
    "the item in each itself": (
        "steps: [{id: a, each: {$: 'item.x'}, value: 1}]",
        [("item_outside_each", "/steps/0/each/$")],
    ),
    "the item of another step": (
        "steps: [{id: a, each: [1], as: x, value: {$: x}}, {id: b, value: {$: x}}]",
        [("item_outside_each", "/steps/1/value/$")],
    ),
    "a bad expression": ("steps: [{id: a, value: {$: '1 +'}}]", [("bad_expression", "/steps/0/value/$")]),
    "a bad expression for an argument": (
        "steps: [{id: a, tool: send_email, args: {to: {$: '1 +'}, body: {$literal: 1}, cc: [c, {$: '1 +'}]}}]",
        [
            ("bad_expression", "/steps/0/args/to/$"),
            ("bad_expression", "/steps/0/args/cc/1/$"),
            ("wrong_argument", "/steps/0/args/body"),
        ],
    ),
    "two bad expressions": (
        "steps: [{id: a, value: [{$: '1 +'}, 1, {$: '().__class__'}]}]",
        [("bad_expression", "/steps/0/value/0/$"), ("bad_expression", "/steps/0/value/2/$")],
    ),
    "a dollar beside other keys": (
        "steps: [{id: a, value: {x: {$: b, y: 1}}}]",
        [("bad_template", "/steps/0/value/x")],
    ),
    "an expression that is no text": (
        "steps: [{id: a, value: {$: 3}}]",
        [("bad_template", "/steps/0/value")],
    ),
    "when that is no boolean": (
        f"steps: [{ROWS}, {{id: a, when: {{$: len(pay.rows)}}, value: 1}}]",
        [("not_boolean", "/steps/1/when")],
    ),
    "when that is text": ("steps: [{id: a, when: 'yes', value: 1}]", [("not_boolean", "/steps/0/when")]),
    "each over no list": (
        f"steps: [{ROWS}, {{id: a, each: {{$: pay}}, value: 1}}]",
        [("not_a_list", "/steps/1/each")],
    ),
    "an unknown tool": (
        "steps: [{id: a, tool: read_leger, args: {path: x}}]",
        [("unknown_tool", "/steps/0/tool")],
    ),
    "an unknown argument": (
        "steps: [{id: a, tool: read_ledger, args: {path: x, pth: y}}]",
        [("unknown_argument", "/steps/0/args/pth")],
    ),
    "a missing argument": (
        "steps: [{id: a, tool: read_ledger, args: {}}]",
        [("missing_argument", "/steps/0/args")],
    ),
    "no arguments at all": ("steps: [{id: a, tool: read_ledger}]", [("missing_argument", "/steps/0")]),
    "a literal of the wrong type": (
        "steps: [{id: a, tool: read_ledger, args: {path: 3}}]",
        [("wrong_argument", "/steps/0/args/path")],
    ),
    "a wrong literal beside a reference": (
        f"steps: [{ROWS}, {{id: a, tool: refund_payment, args: {{payment_id: {{$: 'pay.rows[0].id'}}, reason: why}}}}]",
        [("wrong_argument", "/steps/1/args/reason")],
    ),
    "a literal that breaks a pattern": (
        "steps: [{id: a, tool: send_email, args: {to: nobody, body: x}}]",
        [("wrong_argument", "/steps/0/args/to")],
    ),
    "a wrong literal inside": (
        "steps: [{id: a, tool: send_email, args: {to: a@b, body: x, cc: [c, 3]}}]",
        [("wrong_argument", "/steps/0/args/cc/1")],
    ),
    "a wrong literal beside a reference inside": (
        "steps: [{id: t, value: 'x'}, {id: a, tool: send_email, args: {to: a@b, body: x, cc: [{$: t}, 3]}}]",
        [("wrong_argument", "/steps/1/args/cc/1")],
    ),
    "keys of an inner object": (
        "steps: [{id: t, value: 'x'}, {id: a, tool: send_email, args: {to: a@b, body: x, options: {tg: {$: t}}}}]",
        [("unknown_argument", "/steps/1/args/options/tg"), ("missing_argument", "/steps/1/args/options")],
    ),
    "a reference of the wrong type": (
        f"steps: [{ROWS}, {{id: a, tool: read_ledger, args: {{path: {{$: 'pay.rows[0].amount'}}}}}}]",
        [("wrong_type", "/steps/1/args/path/$")],
    ),
    "a whole result for a field": (
        f"steps: [{ROWS}, {{id: a, tool: read_ledger, args: {{path: {{$: pay}}}}}}]",
        [("wrong_type", "/steps/1/args/path/$")],
    ),
    "an item of the wrong type": (
        f"steps: [{ROWS}, {{id: a, each: {{$: pay.rows}}, tool: read_ledger, args: {{path: {{$: item}}}}}}]",
        [("wrong_type", "/steps/1/args/path/$")],
    ),
    "inputs that are no schema": (
        "inputs: {type: objekt}\nsteps: [{id: a, value: 1}]",
        [("bad_inputs", "/inputs/type")],
    ),
    "inputs that are no object": (
        "inputs: {type: array}\nsteps: [{id: a, value: 1}]",
        [("bad_inputs", "/inputs")],
    ),
    "a default that does not fit": (
        "inputs: {type: object, properties: {n: {type: integer, default: x}}}\nsteps: [{id: a, value: {$: inputs.n}}]",
        [("bad_default", "/inputs/properties/n/default")],
    ),
    "a default inside that does not fit": (
        "inputs: {type: object, properties: {o: {type: object, properties: {n: {type: integer, default: x}}}}}\n"
        "steps: [{id: a, value: {$: inputs.o}}]",
        [("bad_default", "/inputs/properties/o/properties/n/default")],
    ),
    "an unused result": (
        "steps: [{id: a, value: 1}, {id: b, value: 2}]\noutput: {$: a}",
        [("unused_result", "/steps/1")],
    ),
    "a producer that may be skipped": (
        "steps: [{id: n, value: 1}, {id: pay, when: {$: n > 1}, tool: read_ledger, args: {path: x}}, {id: a, value: {$: pay.rows}}]",
        [("may_be_skipped", "/steps/2/value/$")],
    ),
    "two effects in no order": (
        "steps: [{id: a, tool: store_value, args: {key: k, value: 1}}, {id: b, tool: store_value, args: {key: k, value: 2}}]",
        [("unordered_effects", "/steps/1")],
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_has_its_code_at_its_place(name: str) -> None:
    """Exactly these findings, nothing else."""
    steps, expected = FAULTS[name]
    assert codes(report(steps)) == expected


SOUND = {
    "a literal that looks like a reference": "steps: [{id: a, tool: read_ledger, args: {path: '{{b.x}} ${c} $d'}}]",
    "a quoted object with a dollar": "steps: [{id: a, tool: store_value, args: {key: k, value: {$literal: {$: 'no such'}}}}]",
    "a guard in the expression": "steps: [{id: n, value: 1}, {id: pay, when: {$: n > 1}, tool: read_ledger, args: {path: x}}, {id: a, value: {$: 'pay.rows if pay is not None else []'}}]",
    "the same when": "steps: [{id: n, value: 1}, {id: pay, when: {$: n > 1}, tool: read_ledger, args: {path: x}}, {id: a, when: {$: n > 1}, value: {$: pay.rows}}]",
    "the item asked in when": f"steps: [{ROWS}, {{id: a, each: {{$: pay.rows}}, when: {{$: item.amount > 3}}, value: {{$: 'item.id + str(index)'}}}}]",
    "a field that the schema does not describe": "steps: [{id: a, tool: send_email, args: {to: a@b, body: x}}, {id: b, value: {$: 'a.anything.at[3].all'}}]",
    "effects in order": "steps: [{id: a, tool: store_value, args: {key: k, value: 1}}, {id: b, after: [a], tool: store_value, args: {key: k, value: 2}}]",
    "effects of which one happens": "steps: [{id: n, value: 1}, {id: a, when: {$: n > 1}, tool: store_value, args: {key: k, value: 1}}, {id: b, when: {$: not (n > 1)}, tool: store_value, args: {key: k, value: 2}}]",
    "a key that is no word": "steps: [{id: a, value: {'x y': 1}}, {id: b, value: {$: 'a[\"x y\"]'}}]",
    "an optional key": f'steps: [{ROWS}, {{id: a, value: {{$: \'[r.get("memo", "") for r in pay.rows]\'}}}}]',
    "names of comprehensions": "steps: [{id: a, value: {$: '[x + y for x in [1] for y in [2]]'}}]",
    "a value that is null": "steps: [{id: a, value: null}]",
    "when that is literally true": "steps: [{id: a, when: true, value: 1}]",
    "a default that fits": "inputs: {type: object, properties: {n: {type: integer, default: 3}, m: {type: string}}, required: [m]}\nsteps: [{id: a, value: {$: 'str(inputs.n) + inputs.m'}}]",
    "inputs that say nothing": "inputs: {type: object}\nsteps: [{id: a, value: {$: inputs.whatever.x}}]",
    "a waiting step that reads nothing": f"steps: [{ROWS}, {{id: b, value: 1, after: [pay]}}]\noutput: {{$: b}}",
}


@pytest.mark.parametrize("name", SOUND)
def test_nothing_is_said_about_what_may_be_right(name: str) -> None:
    """No false alarm: what is not known, or asked for, passes in silence."""
    assert codes(report(SOUND[name])) == []


def test_every_code_stands_in_the_table_with_its_severity() -> None:
    """Findings cannot have a code that the docs do not explain."""
    for steps, _ in FAULTS.values():
        for found in report(steps).findings:
            assert found.severity == CODES[found.code].severity


def test_suggestions_are_whole_corrected_expressions() -> None:
    """What is suggested can be pasted."""
    found = report(
        f"steps: [{ROWS}, {{id: a, value: {{$: '[r.amont for r in pay.rows]'}}}}, {{id: b, value: {{$: 'str(pya)'}}}}]"
    )
    assert [f.suggestion for f in found.errors] == ["[r.amount for r in pay.rows]", "str(pay)"]
    inputs = (
        "inputs: {type: object, properties: {ledger: {type: string}}}\nsteps: [{id: a, value: {$: ledger}}]"
    )
    assert report(inputs).errors[0].suggestion == "inputs.ledger"


def test_json_inside_a_text_is_read_with_a_warning() -> None:
    """Models write lists and objects as text (P9): the run reads them, the suggestion is the value; what is wrong stays wrong."""
    found = report(
        """steps: [{id: a, tool: send_email, args: {to: a@b, body: x, cc: '["c@d"]', options: '{"tag": 3}'}}]"""
    )
    assert [(f.code, f.pointer, f.suggestion) for f in found.warnings] == [
        ("json_as_text", "/steps/0/args/cc", '["c@d"]'),
        ("json_as_text", "/steps/0/args/options", '{"tag": 3}'),
    ]
    assert [f.pointer for f in found.errors] == ["/steps/0/args/options/tag"]


def test_an_expression_in_json_in_a_text_is_an_error() -> None:
    """It would be sent as it is, not computed."""
    found = report(
        """steps: [{id: n, value: c@d}, {id: a, tool: send_email, args: {to: a@b, body: x, cc: '[{"$": "n"}]'}}]"""
    )
    assert [(f.code, f.pointer) for f in found.errors] == [("wrong_argument", "/steps/1/args/cc")]
    assert found.errors[0].suggestion == 'write it as JSON, not as text: [{"$": "n"}]'


def test_json_in_a_text_beside_an_expression_is_read_too() -> None:
    """Part of the argument is computed, part is text: still no error, because the run reads it."""
    found = report(
        """steps:
  - {id: n, value: [c@d]}
  - id: a
    tool: send_email
    args: {to: a@b, body: x, cc: {$: n}, options: '{"tag": "x"}'}
"""
    )
    assert not found.errors
    assert [f.code for f in found.warnings] == ["json_as_text"]


def test_the_corrected_line_holds_the_value_itself() -> None:
    """In YAML and in JSON it can be pasted in place of the line."""
    text = """steps: [{id: a, tool: send_email, args: {to: a@b, body: x, cc: '["c@d"]'}}]"""
    source = read_source(text)
    [found] = [f for f in source.located(check(read_plan(text), shop()).findings) if f.code == "json_as_text"]
    assert found.corrected == """steps: [{id: a, tool: send_email, args: {to: a@b, body: x, cc: ["c@d"]}}]"""
    assert check(read_plan(found.corrected), shop()).ok


def test_all_faults_come_in_one_pass_with_line_and_caret() -> None:
    """Findings come in the order of the document and can be located in its text."""
    source = read_source(
        'foreplan: 1\nsteps:\n  - id: a\n    tool: nope\n  - id: b\n    value: {$: "len(a) + c.x"}\n'
    )
    found = source.located(check(read_plan(source.text), shop()).findings)
    assert [(f.code, f.line, f.column) for f in found] == [("unknown_tool", 4, 11), ("unknown_step", 6, 26)]
    assert found[1].excerpt.splitlines()[1].index("^") == found[1].excerpt.splitlines()[0].index("c.x")


def test_only_permitted_tools_are_suggested() -> None:
    """The nearest name of a tool that the principal may not call is not given away."""
    nobody = report("steps: [{id: a, tool: refund_paymnt}]", principal=Principal(id="eve"))
    assert "refund_payment" not in str(nobody)
    assert "refund_payment" in str(report("steps: [{id: a, tool: refund_paymnt}]"))


def test_a_missing_permission_is_an_error() -> None:
    """Said once per step, with who and what."""
    found = report(
        "steps: [{id: a, tool: refund_payment, args: {payment_id: x, reason: fraud}}]", principal=None
    )
    assert codes(found) == [("permission", "/steps/0/tool")]
    assert "'anyone' may not call 'refund_payment': it needs 'pay:refund'" in found.errors[0].message


@pytest.mark.parametrize(
    ("approve", "tool", "needed"),
    [("acts", "read_ledger", False), ("always", "read_ledger", True), ("acts", "refund_payment", True), ("never", "refund_payment", False)],
)  # fmt: skip
def test_an_approval_is_announced_where_policy_asks_for_one(approve: Any, tool: str, needed: bool) -> None:
    """As information: it keeps nothing from being planned."""
    args = {"read_ledger": "{path: x}", "refund_payment": "{payment_id: x, reason: fraud}"}[tool]
    found = report(f"steps: [{{id: a, tool: {tool}, args: {args}}}]", policies=Policies(approve=approve))
    assert [f.code for f in found.findings] == (["approval_needed"] if needed else [])
    assert found.ok


def test_a_plan_over_budget_is_refused_and_one_that_may_be_is_warned_of() -> None:
    """Certain calls count as errors, possible ones as warnings."""
    policies = Policies(budget=Budget(tool_calls=1))
    two = "{id: a, tool: read_ledger, args: {path: x}}, {id: b, tool: read_ledger, args: {path: y}}"
    assert codes(report(f"steps: [{two}]", policies=policies)) == [("over_budget", "")]
    listed = "{id: a, each: [1, 2], tool: read_ledger, args: {path: x}}"
    assert codes(report(f"steps: [{listed}]", policies=policies)) == [("over_budget", "")]
    unknown = "{id: n, tool: send_email, args: {to: a@b, body: x}}, {id: a, each: {$: n}, tool: read_ledger, args: {path: x}}"
    assert ("may_exceed_budget", "") in codes(
        report(f"steps: [{unknown}]", policies=Policies(budget=Budget(tool_calls=5)))
    )


@pytest.mark.parametrize(
    ("value", "code"),
    [(float("nan"), "not_json"), ({1: 2}, "not_json"), ([b"x"], "not_json"), ((1, 2), "not_json"), ("\ud800", "not_json")],
)  # fmt: skip
def test_a_plan_built_in_python_must_be_plain_json(value: Any, code: str) -> None:
    """What could not be written to a file is refused with its place."""
    found = check(Plan(steps=[Step(id="a", value={"x": [value]})]), shop())
    assert [f.code for f in found.errors] == [code]
    assert found.errors[0].pointer.startswith("/steps/0/value/x/0")


def test_nesting_without_end_is_refused() -> None:
    """A list in a list ten thousand times does not exhaust the stack."""
    deep: Any = []
    for _ in range(10_000):
        deep = [deep]
    found = check(Plan(steps=[Step(id="a", value=deep)]), shop())
    assert [f.code for f in found.errors] == ["too_deep"]


def test_a_failed_check_is_an_exception_with_its_report() -> None:
    """For callers that want one: the first fault and how many more."""
    error = CheckFailed(report("steps: [{id: a}, {id: B, value: 1}]"))
    assert "and 1 more" in str(error)
    assert len(error.report.errors) == 2


def test_a_report_is_plain_json_and_reads_aloud() -> None:
    """`to_json` for machines, `str` for people, errors first."""
    found = report("steps: [{id: a, value: 1}, {id: b, value: 2}, {id: C, value: 3}]\noutput: {$: a}")
    assert found.to_json()["ok"] is False
    assert found.to_json()["findings"][0]["code"] == "unused_result"
    assert str(found).startswith("/steps/2/id: error: 'C' cannot be a name")


def test_a_hostile_plan_shows_nothing_that_moves_a_cursor() -> None:
    """Names and texts of a plan come out escaped."""
    plan = Plan(
        steps=[Step(id="\x1b[2J", tool="\u202e\x9b31m", args={"\x07": {"$": "x\x00"}}, after=["\u200b"])]
    )
    text = str(check(plan, shop()))
    assert not set(text) & set("\x1b\x9b\x07\x00\u202e\u200b")


N = 10_000


def chain(tool_args: str) -> list[Step]:
    first = Step(id="s0", tool="read_ledger", args={"path": "x"})
    rest = [
        Step(id=f"s{i}", tool="store_value", args={"key": f"k{i}", "value": {"$": tool_args.format(i - 1)}})
        for i in range(1, N)
    ]
    return [first, *rest]


def numbered(values: Callable[[int], Any], n: int = N) -> list[Step]:
    return [Step(id=f"s{i}", value=values(i)) for i in range(n)]


def calls(tool: str, args: Callable[[int], Any]) -> list[Step]:
    return [Step(id=f"s{i}", tool=tool, args=args(i)) for i in range(N)]


def before(i: int) -> dict[str, str]:
    return {"$": f"s{i - 1}"}


LARGE: dict[str, Callable[[], list[Step]]] = {
    "a chain": lambda: chain("s{}"),
    "objects that grow": lambda: numbered(lambda i: {"$": f"{{**s{i - 1}, 'k{i}': s{i - 1}}}"} if i else {}),
    "types that deepen": lambda: numbered(lambda i: {"a": before(i), "b": [before(i)]} if i else 1),
    "effects in no order": lambda: calls("store_value", lambda i: {"key": "k", "value": i}),
    "long expressions": lambda: numbered(lambda i: {"$": "[" + ",".join(["1 + 1"] * 2000) + "]"}, 50),
}


@pytest.mark.parametrize("name", LARGE)
def test_a_large_plan_is_checked_in_seconds(name: str) -> None:
    """Linear: the bound is generous for slow machines and catches what is quadratic. More in `test_check_limits`."""
    plan = Plan(steps=LARGE[name]())
    start = time.process_time()
    check(plan, shop(), principal=CLERK)
    assert time.process_time() - start < 15


def test_thousands_of_typos_in_a_wide_object_take_seconds() -> None:
    """Only so many names are compared; the rest go without suggestion."""
    fields = {f"field_{i}": {"type": "string"} for i in range(3000)}
    registry = Registry(ledger(output_schema={"type": "object", "properties": fields}))
    first = Step(id="a", tool="read_ledger", args={"path": "x"})
    typos = numbered(lambda i: {"$": f"a.fild_{i} + a.feild_{i}"}, 2000)
    start = time.process_time()
    found = check(Plan(steps=[first, *typos]), registry)
    assert time.process_time() - start < 15
    assert len(found.errors) == 4000
    assert found.errors[0].suggestion
    assert not found.errors[-1].suggestion


def test_a_tool_schema_that_doubles_does_not_double_the_check() -> None:
    """A DAG of `$ref`, and `allOf` of twelve `anyOf`, are read once each."""
    shared = {
        f"d{i}": {"type": "object", "properties": {k: {"$ref": f"#/$defs/d{i + 1}"} for k in "ab"}}
        for i in range(20)
    }
    dag = {"$ref": "#/$defs/d0", "$defs": {**shared, "d20": {"type": "string"}}}
    crossed = {
        "allOf": [
            {"anyOf": [{"type": "object", "properties": {f"k{i}{j}": {}}} for j in range(12)]}
            for i in range(12)
        ]
    }
    tools: list[Tool] = [ledger(output_schema=dag)]
    plan = Plan(
        steps=[Step(id="a", tool="read_ledger", args={"path": "x"}), Step(id="b", value={"$": "a.a.b.a"})]
    )
    start = time.process_time()
    assert check(plan, Registry(*tools)).ok
    assert check(plan, Registry(ledger(output_schema=crossed))).errors
    assert time.process_time() - start < 5
