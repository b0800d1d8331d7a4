"""The guess whether a "successful" answer tells of a failure: general signs, opt in, labelled."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from support.datasets import records

from foreplan import Engine, Plan, tool
from foreplan.policies.failures import Kind
from foreplan.registry.heuristics import HEURISTIC, guess_failure, recognise_failures

pytestmark = pytest.mark.anyio

SAID: list[tuple[Any, Kind | None]] = [
    ({"error": "the seat map timed out"}, Kind.TIMEOUT),
    ({"success": False, "msg": "rate limit reached, slow down"}, Kind.NETWORK),
    ({"status": "FAILED", "reason": "your API key has no access"}, Kind.PERMISSION),
    ({"status": 503, "body": ""}, Kind.NETWORK),
    ({"statusCode": 404, "message": "page gone"}, Kind.BUSINESS),
    ({"errors": [{"field": "day", "message": "must be a date"}]}, Kind.BAD_ARGS),
    ({"detail": [{"loc": ["query", "n"], "msg": "field required"}]}, Kind.BAD_ARGS),
    ({"message": "Customer does not exist"}, Kind.BUSINESS),
    ({"error": "we are closed"}, Kind.BUSINESS),
    ("Error: bad gateway", Kind.NETWORK),
    # and what is none
    ({"status": "ok", "items": []}, None),
    ({"status": "NO_RESULTS", "results": []}, None),
    ({"error": None, "value": 3}, None),
    ({"errors": [], "data": {"id": 1}}, None),
    ({"success": True, "message": "invalid entries were removed"}, None),
    ({"message": "Your order is on its way"}, None),
    ({"rows": [{"note": "error in invoice 7"}]}, None),
    ("An essay about errors in judgement", None),
    ([], None),
    (None, None),
    (7, None),
]


@pytest.mark.parametrize(("result", "kind"), SAID, ids=range(len(SAID)))
def test_signs_of_failure_are_read_and_an_empty_answer_is_none(result: Any, kind: Kind | None) -> None:
    """Fields for errors, states that are no success, statuses of HTTP; the kind by words."""
    failure = guess_failure(result)
    assert (failure.kind if failure else None) == kind


def test_recorded_failure_texts_are_recognised() -> None:
    """At least 90 % of the clear rows of real answers: whether it is a failure, and of which kind."""
    rows = list(records("tool_failures"))
    labels = {row["id"]: row for row in records("tool_failures", "labels.jsonl")}
    clear = [(row, labels[row["id"]]) for row in rows if labels[row["id"]]["failure"] in (True, False)]
    right = sum(_agrees(row["text"], label) for row, label in clear)
    assert right >= 0.9 * len(clear)
    assert len(clear) > 50


def _agrees(text: str, label: dict[str, Any]) -> bool:
    try:
        result = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        result = text
    failure = guess_failure(result)
    if failure is None or not label["failure"]:
        return (failure is None) != bool(label["failure"])
    return label["kind"] in (None, failure.kind)


@tool(effect="reads")
def look(q: str) -> dict[str, Any]:
    """Look something up."""
    return {"error": "no such thing", "q": q} if q == "x" else {"q": q}


@tool(effect="reads", name="look_later")
async def look_later(q: str) -> dict[str, Any]:
    """Look something up."""
    return look(q)


@pytest.mark.parametrize("each", [look, look_later])
async def test_it_is_opt_in_and_its_failures_are_labelled(each: Any) -> None:
    """Without the wrapper the answer is a result; with it a failure whose details say that it is a guess."""
    plan = Plan.model_validate(
        {"foreplan": 1, "goal": "g", "steps": [{"id": "a", "tool": each.name, "args": {"q": "x"}}]}
    )
    assert (await Engine([each]).run(plan)).ok
    wrapped = recognise_failures(each)
    run = await Engine([wrapped]).run(plan)
    ((_, failure),) = run.failures
    assert (failure.kind, failure.code) == (Kind.BUSINESS, "not_found")
    assert failure.details is not None
    assert failure.details["heuristic"] is True
    assert failure.untrusted
    assert HEURISTIC in wrapped.contract()["tags"]
    assert wrapped.fingerprint != each.fingerprint
