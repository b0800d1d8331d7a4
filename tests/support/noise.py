"""Plans, schemas and expressions made of noise that is nearly right, and what must hold of whatever is made of them.

Shared by the properties (`test_fuzz.py`) and the fuzzer (`fuzz/language.py`): each promise is a function that raises
`AssertionError` where it is broken.
"""

from __future__ import annotations

import json
from typing import Any

from support.shop import CLERK, shop

from foreplan.planner.checking import check
from foreplan.planner.documents import plan_from, read_plan, read_source, write_yaml
from foreplan.planner.findings import CODES, Finding, PlanUnreadable
from foreplan.planner.inference import infer
from foreplan.planner.plan import Plan
from foreplan.planner.reviewing import review
from foreplan.planner.sarif import report_to_sarif
from foreplan.planner.types import describe, disjoint, join, meet, type_of_schema, type_of_value
from foreplan.policies.errors import SchemaRefused
from foreplan.policies.expressions import EvaluationError, ExpressionError, Fuel, parse
from foreplan.registry.schema import compile_schema

__all__ = ["SCOPE", "document_holds", "expression_holds", "plan_holds", "schema_holds"]

SCOPE: dict[str, Any] = {
    "inputs": {"limit": 3, "name": "ana"},
    "pay": {"rows": [{"id": "a", "amount": 1.5, "memo": None}, {"id": "b", "amount": 2, "memo": "m"}]},
    "x": [1, "a", None, [2, {"k": True}]],
}


def expression_holds(text: str) -> None:
    """A text is refused, or it has a value or an error, and the type of the value holds it."""
    try:
        expression = parse(text)
    except ExpressionError as error:
        _refusal_holds(error, text)
        return
    found, problems = infer(expression.tree, text, {n: type_of_value(v) for n, v in SCOPE.items()})
    assert all(p.code in CODES and 0 <= p.offset <= len(text) for p in problems)
    try:
        value = expression.evaluate(SCOPE, Fuel(50_000))
    except EvaluationError as error:
        code = error.code
    else:
        json.dumps(value, allow_nan=False)
        assert not disjoint(type_of_value(value), found)
        return
    assert code in EvaluationError.CODES


def _refusal_holds(error: ExpressionError, text: str) -> None:
    assert error.code in ExpressionError.CODES
    assert 0 <= error.offset <= len(text)
    if error.correction:
        parse(error.correction)


def schema_holds(schema: Any, value: Any) -> None:
    """A schema is refused, or its type holds every value it accepts, and combines with others."""
    try:
        compiled = compile_schema(schema, closed=True)
    except SchemaRefused:
        return
    found, exact = type_of_schema(compiled.normal.document), type_of_value(value)
    assert describe(join(found, exact))
    assert not disjoint(exact, join(found, exact))
    if compiled.accepts(value):
        assert not disjoint(exact, found)
        assert not disjoint(exact, meet(found, exact))


def document_holds(text: str | bytes) -> None:
    """A text is no plan, with places, or a plan that can be checked, reviewed, written and read."""
    try:
        source = read_source(text)
        plan = plan_from(source)
    except PlanUnreadable as error:
        said = [str(error), *map(str, error.findings)]
    else:
        source.located(plan_holds(plan))
        return
    assert len(said) > 1


def plan_holds(plan: Plan) -> tuple[Finding, ...]:
    """A check of any plan ends in a report: known codes, pointers that lead into the plan, the same one every time."""
    report = check(plan, shop(), principal=CLERK)
    assert report == check(plan, shop(), principal=CLERK)
    document = plan.to_json()
    for finding in report.findings:
        assert finding.severity == CODES[finding.code].severity
        assert str(finding)
        if finding.code not in ("not_json", "too_deep", "too_large"):
            _follow(document, finding.pointer)
    json.dumps([report.to_json(), report_to_sarif(report, "plan.yaml")])
    if not any(f.code in ("not_json", "too_deep", "too_large") for f in report.findings):
        review(plan, shop(), principal=CLERK).to_json()
        assert read_plan(write_yaml(plan)).digest == plan.digest
    return report.findings


def _follow(document: Any, pointer: str) -> None:
    """Raises where a pointer leads nowhere; the last key may be one that is missing, or `inputs` by default."""
    for key in pointer.split("/")[1:]:
        key = key.replace("~1", "/").replace("~0", "~")
        document = document[int(key)] if isinstance(document, list) else document[key]
