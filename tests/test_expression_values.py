"""Evaluation: Python's meaning with decimal digits; total, bounded, and polite about data that do not fit."""

from __future__ import annotations

import decimal
import json
import subprocess
import sys
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from support import bombs
from support.expressions import SCOPE, TYPED_SCOPE, expressions, json_values, noise, typed

from foreplan.policies.expressions import EvaluationError, ExpressionError, Fuel, parse

slow = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
money = st.decimals(min_value=-(10**9), max_value=10**9, places=2).map(float)


def value(text: str, /, **names: Any) -> Any:
    return parse(text).evaluate(names)


def failure(text: str, /, **names: Any) -> EvaluationError:
    with pytest.raises(EvaluationError) as caught:
        parse(text).evaluate(names)
    return caught.value


def outcome(text: str, /, **names: Any) -> Any:
    """The value, or the error in its place."""
    try:
        return parse(text).evaluate(names)
    except EvaluationError as error:
        return error


# -- meaning


@given(typed())
@slow
def test_python_is_the_oracle(text: str) -> None:
    """Integers, texts, booleans and lists: the value is Python's, type included, and where Python raises we do too."""
    names: dict[str, Any] = {**TYPED_SCOPE, "list_of": list}
    try:
        expected = eval(text, names)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        failure(text.replace("list_of(", "("), **TYPED_SCOPE)
        return
    seen = outcome(text.replace("list_of(", "("), **TYPED_SCOPE)
    bounded = getattr(seen, "code", "") in ("too_much_work", "overflow", "too_large")
    assert bounded or repr(seen) == repr(expected)


@given(money, money)
def test_sums_and_differences_are_exact_to_the_cent(a: float, b: float) -> None:
    """What a person gets with pencil and paper, for amounts up to a milliard."""
    one, other = Decimal(repr(a)), Decimal(repr(b))
    assert value("a + b", a=a, b=b) == float(one + other)
    assert value("a - b", a=a, b=b) == float(one - other)
    assert value("a * b", a=a, b=b) == float(one * other)
    assert value("sum([a, b, a])", a=a, b=b) == float(one + other + one)
    assert value("a + b - b == a", a=a, b=b)


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
def test_division_and_rest_belong_together(a: float, b: float) -> None:
    """`a // b` is whole and rounded down, `a % b` has the sign of b, for floats of any size."""
    assume(b != 0)
    whole, rest = outcome("a // b", a=a, b=b), outcome("a % b", a=a, b=b)
    assume(not isinstance(whole, EvaluationError))
    assert whole == int(whole)
    assert rest == 0 or (rest > 0) == (b > 0)
    assert abs(rest) <= abs(b)


@given(st.integers(), st.integers())
def test_integers_are_exact_and_stay_integers(a: int, b: int) -> None:
    """Beyond 2^53 too."""
    assert repr(value("a + b", a=a, b=b)) == repr(a + b)
    assert repr(value("a * b - b", a=a, b=b)) == repr(a * b - b)


def test_a_mere_reference_touches_nothing() -> None:
    """An integral float stays a float, a large integer stays exact, also inside of lists and objects."""
    data = {"x": 2.0, "n": 2**53 + 1, "row": {"v": 7.0}, "rows": [{"v": 3.0}]}
    assert json.dumps(value("[x, n, row.v, rows[0]]", **data)) == '[2.0, 9007199254740993, 7.0, {"v": 3.0}]'
    assert json.dumps(value("[r.v for r in rows]", **data)) == "[3.0]"
    assert value("row", **data) is data["row"]


@given(json_values)
def test_any_data_come_through_a_reference_unchanged(data: Any) -> None:
    """Whatever looks like a reference in data is data."""
    before = json.dumps(data)
    assert json.dumps(value("a", a=data)) == before
    assert json.dumps(value("a.b[0]", a={"b": [data]})) == before
    assert json.dumps(value("[x for x in a]", a=[data])) == json.dumps([data])
    assert json.dumps(value("{'k': a}.k", a=data)) == before
    assert json.dumps(data) == before


@given(json_values, json_values)
def test_equality_is_that_of_json(a: Any, b: Any) -> None:
    """A value equals its copy; two are equal exactly when the same is written, 1 and 1.0 aside."""
    assert value("a == b", a=a, b=json.loads(json.dumps(a)))
    assert value("a == b", a=a, b=b) is not value("a != b", a=a, b=b)
    assert value("len(unique([a, b]))", a=a, b=b) == 2 - value("a == b", a=a, b=b)
    assert value("a in [b]", a=a, b=b) is value("a == b", a=a, b=b)


@given(st.lists(st.integers() | st.floats(allow_nan=False, allow_infinity=False)))
def test_sorting_is_an_order(items: list[Any]) -> None:
    """Numbers of both kinds sort by value, in both directions, and equals keep their order."""
    up = value("sorted(xs)", xs=items)
    assert up == sorted(items)
    assert value("sorted(xs, reverse=True)", xs=items) == sorted(items, reverse=True)
    assert value("sorted(xs, key=lambda x: [x, 1])", xs=items) == up
    assert value("all(p <= q for p, q in zip(xs, xs[1:]))", xs=up)


@pytest.mark.parametrize("number", [0.5, 1.5, 2.675, 1e21, -0.001, 123456.789, 5e-324, 0.1, 1 / 3])
@pytest.mark.parametrize("form", [".2f", ",.1f", ".0f", ">12.3f", "+.1%", "08.2f", ",", "", "<9"])
def test_formats_are_those_of_decimals(number: float, form: str) -> None:
    """A float is written as the decimal it shows, halves to the even digit, whatever the thread's own context says."""
    with decimal.localcontext() as context:
        context.prec = 3
        context.rounding = decimal.ROUND_UP
        context.traps[decimal.Inexact] = True
        seen = value(f"f'{{x:{form}}}'", x=number)
        assert value("x + 0.1 - 0.1 == x", x=0.25)
        assert value("round(x, 2)", x=2.675) == 2.68
    exact = Decimal(repr(number)) if form[-1:] in ("f", "%") else number
    expected = format(exact, form)
    if not set(expected) & set("123456789"):
        expected = format(abs(exact), form)  # there is no negative zero
    assert seen == expected


@pytest.mark.parametrize("text", ["a", "1", "'x'"])
def test_results_are_plain_json(text: str) -> None:
    """No Decimal and no tuple leaks out."""
    made = value(f"[({text}, 0.1 + 0.2), sum([0.1]), running([0.1]), {{'k': 1 / 3}}]", a=1.5)
    assert json.loads(json.dumps(made)) == made
    assert "Decimal" not in repr(made)


# -- totality


@given(expressions() | noise, st.integers(0, 5_000))
@slow
def test_evaluation_raises_nothing_but_its_own_error(text: str, units: int) -> None:
    """Random expressions over data that do not fit: a value, or an error with code, sentence and place; within fuel."""
    try:
        expression = parse(text)
    except ExpressionError:
        return
    fuel = Fuel(units)
    error: EvaluationError | None = None
    try:
        expression.evaluate(SCOPE, fuel)
    except EvaluationError as caught:
        error = caught
    assert 0 <= fuel.left <= units
    if error is not None:
        assert error.code in EvaluationError.CODES
        assert error.message
        assert error.text == text
        assert error.offset is None or 0 <= error.offset < len(text)
        assert error.roots <= expression.names


Explosions = tuple[dict[str, tuple[str, float]], int]


@pytest.fixture(scope="module")
def explosions() -> Explosions:
    """Every bomb set off in one process of its own: code and seconds of each, and how many bytes the process grew by."""
    ran = subprocess.run([sys.executable, bombs.__file__], capture_output=True, text=True)
    assert ran.stderr == ""
    seen, grown = json.loads(ran.stdout)
    return seen, grown


@pytest.mark.parametrize("bomb", bombs.BOMBS)
def test_growth_is_charged_before_it_happens(bomb: str, explosions: Explosions) -> None:
    """Every way to grow ends in an error, within seconds."""
    code, seconds = explosions[0][bomb]
    assert code in ("too_much_work", "too_large", "overflow")
    assert seconds < 10


def test_all_ways_to_grow_stay_below_200_megabytes(explosions: Explosions) -> None:
    """One after the other, in one process."""
    assert explosions[1] < 200_000_000


def test_one_fuel_bounds_many_evaluations() -> None:
    """Expressions that share a fuel share the bound."""
    fuel = Fuel(1000)
    parse("[x for x in range(100)]").evaluate({}, fuel)
    left = fuel.left
    assert 0 < left < 1000
    for _ in range(left // (1000 - left)):
        parse("[x for x in range(100)]").evaluate({}, fuel)
    with pytest.raises(EvaluationError, match="too much work"):
        parse("[x for x in range(100)]").evaluate({}, fuel)


def test_a_bare_reference_needs_no_fuel() -> None:
    """Data of any size can be handed on."""
    data = {"a": {"b": list(range(2_000_000))}}
    assert len(parse("a.b").evaluate(data, Fuel(0))) == 2_000_000


def test_deep_data_are_an_error_not_a_crash() -> None:
    """Data nested deeper than the stack: equality, text and keys say so; a reference does not care."""
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    copy: Any = []
    for _ in range(100_000):
        copy = [copy]
    assert parse("a[0]").evaluate({"a": deep}) is deep[0]
    for text in ("a == b", "str(a)", "unique([a])", "[a] < [b]"):
        assert failure(text, a=deep, b=copy).code == "too_deep"


@pytest.mark.parametrize("foreign", [float("nan"), float("inf"), float("-inf")])
def test_no_number_that_is_not_finite_comes_out(foreign: float) -> None:
    """Even when the data break the rule and hold one."""
    for text in (
        "x + 1",
        "x * 0",
        "sum([x])",
        "[x]",
        "round(x)",
        "x ** 2",
        "x % 2",
        "f'{x:.2f}'",
        "{'a': x}",
        "shift(x)",
    ):
        assert failure(text, x=foreign).code in ("overflow", "bad_value")


# -- errors


def test_a_missing_key_names_the_nearest_and_where() -> None:
    """The path up to the object, the key, and the keys that look like it; the latter apart, since they are data."""
    error = failure("payments.rows[0].amout", payments={"rows": [{"amount": 1, "payer": 2}]})
    assert (error.code, str(error)) == (
        "missing_key",
        "payments.rows[0] has no key 'amout'; did you mean 'amount'?",
    )
    assert "amount" not in error.message
    assert (error.offset, error.end) == (0, 22)


def test_data_do_not_get_into_the_message() -> None:
    """Keys and values that come from data stand in `detail` only."""
    data = {"a": {"canary": 1}, "k": "canary", "t": "canary", "rows": [{"id": "canary"}, {"id": "canary"}]}
    for text in (
        "a.canari", "a[k + 'x']", "number(t)", "shift(t, days=1)", "between(t, t)", "between('10:00', '11:00', t)",
        "index(rows, key=lambda r: r.id)", "join(rows, rows, on=t)", "join(rows, rows, on='id', how=t)", "format_time(0, '%' + t)",
        "rows[0][t]", "t + 1", "rows[t]", "t[k]", "t.x",
    ):  # fmt: skip
        error = failure(text, **data)
        assert "canary" not in error.message.replace(text, ""), text


def test_null_has_a_code_of_its_own_and_says_where_it_may_come_from() -> None:
    """A skipped step is null: the executor can tell such an error from a mistake, and which names were involved."""
    names = {"skipped": None, "each": [{"x": 1}, None], "fine": 1}
    for text, roots in {
        "skipped.x": {"skipped"},
        "skipped[0]": {"skipped"},
        "skipped + fine": {"skipped", "fine"},
        "len(skipped)": {"skipped"},
        "[r.x for r in each]": {"each"},
        "[r.x for r in sorted(each, key=lambda e: 1)]": {"each"},
        "sum(r.x for r in each)": {"each"},
        "max(each, key=lambda r: r.x)": {"each"},
        "[x for x in skipped]": {"skipped"},
        "'a' in skipped": {"skipped"},
        "skipped < 1": {"skipped"},
        "{**skipped}": {"skipped"},
        "f'{skipped:.2f}'": {"skipped"},
        "skipped.upper()": {"skipped"},
        "[a.x for a, b in zip(each, each)]": {"each"},
    }.items():
        error = failure(text, **names)
        assert (text, error.code, set(error.roots)) == (text, "null", roots)
    assert value("skipped is None and [r for r in each if r is not None] == [each[0]]", **names)


def test_an_unknown_name_is_an_error_when_it_is_needed() -> None:
    """With the nearest names there are."""
    assert (
        str(failure("paymets.x", payments=1)) == "there is no name 'paymets' here; did you mean 'payments'?"
    )
    assert value("1 if True else absent") == 1


def test_the_same_expression_can_be_evaluated_side_by_side() -> None:
    """An expression holds no state between evaluations, or inside one another."""
    expression = parse("[[x, y] for x in xs for y in xs if x < y]")
    assert expression.evaluate({"xs": [1, 2]}) == [[1, 2]]
    assert expression.evaluate({"xs": [1, 2, 3]}) == [[1, 2], [1, 3], [2, 3]]
    assert parse("[sorted(xs, key=lambda x: -x * k) for k in [1, -1] for xs in [xs]]").evaluate(
        {"xs": [1, 2]}
    ) == [[2, 1], [1, 2]]


def test_a_result_never_lets_an_evaluation_change_data() -> None:
    """Building from data leaves them as they were."""
    data = {"rows": [{"id": "a"}, {"id": "b"}], "o": {"k": 1}}
    before = json.dumps(data)
    for text in (
        "rows + rows",
        "{**o, 'k': 2}",
        "sorted(rows, key=lambda r: r.id)[0]",
        "group(rows, key=lambda r: r.id)",
        "reversed(rows)",
    ):
        value(text, **data)
    assert json.dumps(data) == before
