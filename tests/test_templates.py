"""Templates: references are structural; literals, whatever they look like, are themselves."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.expressions import json_values

from foreplan.policies.expressions import (
    EvaluationError,
    ExpressionError,
    Fuel,
    compile_template,
    problems,
)


def refusal(document: Any) -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        compile_template(document)
    return caught.value


def test_an_object_with_the_only_key_dollar_is_an_expression() -> None:
    """At any depth; everything else is itself."""
    template = compile_template({"a": [{"$": "x.y"}, "x.y", {"b": {"$": "f'{n}'"}}], "c": None})
    assert template.evaluate({"x": {"y": [1]}, "n": 5}) == {"a": [[1], "x.y", {"b": "5"}], "c": None}
    assert template.names == {"x", "n"}
    assert [(pointer, e.text) for pointer, e in template.expressions] == [
        ("/a/0", "x.y"),
        ("/a/2/b", "f'{n}'"),
    ]
    assert not template.literal
    assert compile_template({"$": "x"}).expressions[0][0] == ""


@given(json_values.filter(lambda v: "$" not in json.dumps(v)), json_values)
def test_literals_are_never_looked_into(document: Any, data: Any) -> None:
    """A literal comes out as it went in, whatever the scope holds."""
    template = compile_template(document)
    assert template.literal
    assert json.dumps(template.evaluate({"a": data})) == json.dumps(document)


@given(json_values)
def test_anything_under_literal_is_itself(document: Any) -> None:
    """Expressions too: `$literal` is how to write an object with the key `$`."""
    template = compile_template({"x": {"$literal": document}})
    assert template.literal
    assert json.dumps(template.evaluate({})) == json.dumps({"x": document})


@given(json_values)
def test_data_that_look_like_references_are_never_evaluated(data: Any) -> None:
    """What a tool gave back goes through a template unchanged, `$` and all."""
    template = compile_template({"whole": {"$": "a"}, "part": [{"$": "b.c[0]"}], "text": "{{a}}"})
    made = template.evaluate({"a": data, "b": {"c": [data]}})
    assert json.dumps(made) == json.dumps({"whole": data, "part": [data], "text": "{{a}}"})


@pytest.mark.parametrize(
    "text", ["{{a}}", "${a}", "$a", "$.a", "<a>", "steps.a", "{a}", "f'{a}'", "a.b", "$1", "{% a %}", "%(a)s"]
)
def test_reference_looking_text_is_text(text: str) -> None:
    """No spelling of a reference means anything in a literal."""
    template = compile_template([text, {text: text}])
    assert template.evaluate({"a": 1}) == [text, {text: text}]
    assert template.literal


@pytest.mark.parametrize(
    ("document", "code", "pointer"),
    [
        ({"$": "a", "b": 1}, "bad_template", ""),
        ({"x": [{"$": "a", "$literal": 1}]}, "bad_template", "/x/0"),
        ({"$literal": 1, "b": 1}, "bad_template", ""),
        ({"x": {"$": 5}}, "not_text", "/x"),
        ({"x": {"$": None}}, "not_text", "/x"),
        ({"x": {"$": {"$": "a"}}}, "not_text", "/x"),
        ({"a/b~c": {"$": "a +"}}, "syntax", "/a~1b~0c"),
        ([0, {"x": {"$": "a && b"}}], "not_in_language", "/1/x"),
        ({"x": {1: 2}}, "bad_template", "/x"),
        ({"": {"$": ""}}, "empty", "/"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(document: Any, code: str, pointer: str) -> None:
    """Code, JSON Pointer, and the suggestion of the expression."""
    error = refusal(document)
    assert (error.code, error.pointer) == (code, pointer)
    assert [(e.code, e.pointer) for e in problems(document)] == [(code, pointer)]


def test_all_problems_are_found_in_one_pass() -> None:
    """Not only the first."""
    document = {
        "a": {"$": "x +"},
        "b": [{"$": "y &&"}, {"$": "z"}],
        "c": {"$": "1", "d": 2},
        "e": {"$literal": {"$": "("}},
    }
    assert [e.pointer for e in problems(document)] == ["/a", "/b/0", "/c"]
    assert list(problems({"a": {"$": "x"}})) == []


def test_other_keys_with_a_dollar_are_plain() -> None:
    """JSON Schema's `$ref` and the like are literals."""
    document = {"$ref": "#/a", "$schema": "x", "$$": "a"}
    assert compile_template(document).evaluate({}) == document


def test_every_evaluation_makes_fresh_containers() -> None:
    """Neither the document, nor an earlier result, is shared."""
    document = {"a": [1, {"b": 2}], "c": {"$": "x"}, "d": {"$literal": [3]}}
    template = compile_template(document)
    first, second = template.evaluate({"x": 1}), template.evaluate({"x": 1})
    first["a"][1]["b"] = 9
    first["d"].append(4)
    document["a"].append(5)  # type: ignore[attr-defined]
    assert second == {"a": [1, {"b": 2}], "c": 1, "d": [3]}
    assert template.evaluate({"x": 1}) == second


def test_all_expressions_of_a_template_share_the_fuel() -> None:
    """A hundred expressions are not a hundred allowances."""
    template = compile_template([{"$": "[x for x in range(1000)]"}] * 100)
    with pytest.raises(EvaluationError) as caught:
        template.evaluate({}, Fuel(50_000))
    assert caught.value.code == "too_much_work"


@pytest.mark.parametrize("wrap", [lambda x: [x], lambda x: {"k": x}, lambda x: {"$literal": x}])
def test_a_deep_template_is_refused(wrap: Any) -> None:
    """Without a crash."""
    document: Any = 1
    for _ in range(5_000):
        document = wrap(document)
    assert refusal(document).code == "too_deep"


@given(st.dictionaries(st.text(max_size=3), st.sampled_from([{"$": "a"}, 1, [{"$": "b.c"}]])))
def test_names_are_those_of_all_expressions(document: dict[str, Any]) -> None:
    """The dependencies of a step are the names of its templates."""
    if "$" in document or "$literal" in document:
        return
    template = compile_template(document)
    assert template.names == {e for _, x in template.expressions for e in x.names}
    assert template.literal == (not template.expressions)
