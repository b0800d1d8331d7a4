"""The abstract interpreter: the type of an expression holds every value it can have, and only certain faults are named."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foreplan.planner.inference import Problem, infer
from foreplan.planner.types import (
    NEVER,
    STRING,
    Type,
    array_of,
    describe,
    disjoint,
    type_of_schema,
    type_of_value,
)
from foreplan.policies.expressions import EvaluationError, ExpressionError, Fuel, parse

ROW = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "amount": {"type": "number"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["id", "amount"],
}
SCOPE = {
    "rows": type_of_schema({"type": "array", "items": ROW}),
    "row": type_of_schema(ROW),
    "text": STRING,
    "n": type_of_schema({"type": "integer"}),
    "by_id": type_of_schema({"type": "object", "additionalProperties": ROW}),
    "maybe": type_of_schema({"anyOf": [ROW, {"type": "null"}]}),
    "maybes": type_of_schema({"type": "array", "items": {"anyOf": [ROW, {"type": "null"}]}}),
    "memos": type_of_schema(
        {"type": "array", "items": {"type": "object", "properties": {"memo": {"type": ["string", "null"]}}}}
    ),
    "state": type_of_schema({"enum": ["open", "ajar", "shut"]}),
    "inputs": type_of_schema({"type": "object", "properties": {"limit": {"type": "number"}}}),
}


def typed(text: str) -> tuple[Type, list[Problem]]:
    return infer(parse(text).tree, text, SCOPE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("row.amount", "a number"),
        ("row['id']", "text"),
        ("rows[0].tags[0]", "text"),
        ("rows[1:]", "a list of objects"),
        ("by_id.x.id", "text"),
        ("by_id[text].amount", "a number"),
        ("row.get('tags', [])", "a list of texts"),
        ("row.get('tags')", "null or a list of texts"),
        ("maybe.id", "text"),
        ("len(rows)", "a whole number"),
        ("n + 1", "a whole number"),
        ("n / 2", "a number"),
        ("-n", "a whole number"),
        ("text + 'x'", "text"),
        ("rows + rows", "a list of objects"),
        ("n > 1", "true or false"),
        ("not n", "true or false"),
        ("n > 1 and text", "true or false or text"),
        ("row.id if n else None", "null or text"),
        ("[r.amount for r in rows if r.amount > 1]", "a list of numbers"),
        ("{r.id: r.amount for r in rows}.x", "a number"),
        ("f'{n} rows'", "text"),
        ("{**row, 'extra': n}.extra", "a whole number"),
        ("sum(r.amount for r in rows)", "a number"),
        ("max(rows, key=lambda r: r.amount).id", "text"),
        ("max([], default=n)", "a whole number"),
        ("sorted(rows, key=lambda r: r.id)[0].id", "text"),
        ("group(rows, key=lambda r: r.id)[0].items[0].amount", "a number"),
        ("group(rows, key=lambda r: r.id)[0].key", "text"),
        ("index(rows, key=lambda r: r.id).x.amount", "a number"),
        ("first(rows, None)", "null or an object"),
        ("join(rows, rows, on='id')[0].left.id", "text"),
        ("flat([r.tags for r in rows])", "a list of texts"),
        ("[k for k in row]", "a list of texts"),
        ("', '.join(row.tags)", "text"),
        ("text.split(',')[0].upper()", "text"),
        ("number(text, n)", "a number"),
        ("range(n)", "a list of whole numbers"),
        ("[x for x in []]", "a list"),
        ("[[k, v] for k, v in row.items()][0][0]", "text"),
        ("[r.amount + i for i, r in enumerate(rows)]", "a list of numbers"),
        ("[a.id + b for a, b in zip(rows, row.tags)]", "a list of texts"),
        ("[c.id + str(i + n) for i, (c, n) in enumerate(zip(rows, range(3)))]", "a list of texts"),
        ("[text, n, row][2].id", "text"),
        ("[text, n, row][-1]", "a whole number or text or an object"),
        ("group(rows, key=lambda r: [r.id, r.amount])[0].key[1]", "a number"),
        ("sorted(row.items(), key=lambda p: p[0])[0][0].upper()", "text"),
    ],
)
def test_an_expression_has_the_type_of_its_values(text: str, expected: str) -> None:
    """Nothing is wrong with these, and what is known of their values is said."""
    found, problems = typed(text)
    assert (describe(found), problems) == (expected, [])


@pytest.mark.parametrize(
    ("text", "code", "says", "suggestion"),
    [
        ("row.amuont", "unknown_field", "row has no field 'amuont'; did you mean 'amount'?", "row.amount"),
        ("[r.ids for r in rows]", "unknown_field", "r has no field 'ids'", "[r.id for r in rows]"),
        (
            "max(rows, key=lambda r: r.amout)",
            "unknown_field",
            "did you mean 'amount'?",
            "max(rows, key=lambda r: r.amount)",
        ),
        ("row['idd']", "unknown_field", "row has no field 'idd'", ""),
        (
            "row.get('tag')",
            "unknown_field",
            "row has no field 'tag'; did you mean 'tags'?",
            "row.get('tags')",
        ),
        ("row.get('zip')", "always_default", "row is not known to have a field 'zip'", ""),
        (
            "inputs.limt",
            "unknown_input",
            "the plan declares no input 'limt'; did you mean 'limit'?",
            "inputs.limit",
        ),
        ("rows.amount", "wrong_type", "write rows[0].amount or [x.amount for x in rows]", ""),
        ("text.id", "wrong_type", "text is text: it has no field 'id'", ""),
        ("row[0]", "wrong_type", "has keys, not numbers; write .id", ""),
        ("n[0]", "wrong_type", "n is a whole number: it has no elements", ""),
        ("n[1:]", "wrong_type", "it cannot be sliced", ""),
        ("[x for x in n]", "wrong_type", "n is a whole number: it is no list", ""),
        ("[x for x in text]", "wrong_type", "text is text: it is no list", ""),
        ("text - 1", "wrong_type", "text is text: it is no number", ""),
        (
            "text + n",
            "wrong_type",
            "text and a whole number cannot be added; str(x) makes text of a number",
            "",
        ),
        ("-text", "wrong_type", "it is no number", ""),
        ("sum(text)", "wrong_type", "it is not what sum() takes", ""),
        ("len(n)", "wrong_type", "it is not what len() takes", ""),
        ("rows.keys()", "wrong_type", "rows is a list of objects: it has no .keys()", ""),
        ("n.lower()", "wrong_type", "it has no .lower()", ""),
        ("f'{row.nme}'", "unknown_field", "row has no field 'nme'", ""),
        ("{**row}.x", "unknown_field", "has no field 'x'", ""),
    ],
)
def test_what_certainly_goes_wrong_is_named(text: str, code: str, says: str, suggestion: str) -> None:
    """One problem, with its place; a whole corrected expression where there is a nearest name."""
    _, (problem, *others) = typed(text)
    assert not others
    assert problem.code == code
    assert says in problem.message
    assert problem.suggestion == suggestion or not suggestion


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("maybe if maybe is not None else row", "an object"),
        ("row if maybe is None else maybe", "an object"),
        ("maybe if maybe else 0", "a whole number or an object"),
        ("maybe or row", "an object"),
        ("maybe and maybe.id", "null or text"),
        ("maybe is not None and maybe.amount > 1", "true or false"),
        ("[r for r in maybes if r is not None]", "a list of objects"),
        ("[r.id for r in maybes if r]", "a list of texts"),
        ("[r.id for r in maybes if r != None and len(r.id) > 1]", "a list of texts"),
        ("[r.id for r in maybes if not (r is None or r.amount < 1)]", "a list of texts"),
        ("{r.id: r for r in maybes if r is not None}.x", "an object"),
        ("[r.memo.upper() for r in memos if r.memo is not None]", "a list of texts"),
        ("[r.memo.upper() for r in memos if r.get('memo')]", "a list of texts"),
        ("[r.memo.upper() if r.memo else '' for r in memos]", "a list of texts"),
        ("max([r for r in maybes if r is not None], key=lambda r: r.amount).id", "text"),
        ("state if state != 'open' else 'shut'", '"ajar" or "shut"'),
        ("state if state in ['open', 'ajar'] else 'open'", '"ajar" or "open"'),
        ("'x' if state == 'open' else state", '"ajar" or "shut" or "x"'),
        ("row.tags if 'tags' in row else []", "a list of texts"),
        ("maybe['id'] if maybe is not None and 'id' in maybe else ''", "text"),
    ],
)
def test_a_condition_narrows_what_it_asks_about(text: str, expected: str) -> None:
    """In `and`, `or`, `if` and the filters of comprehensions, and nothing is said about what was asked."""
    found, problems = typed(text)
    assert (describe(found), problems) == (expected, [])


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("[r.id for r in maybes]", "may_be_null", "r may be null; ask `r is not None` first"),
        ("[r.memo.upper() for r in memos]", "may_be_null", "r.memo may be null"),
        ("[r.id for r in maybes if r is None or r.amount > 1]", "may_be_null", "r may be null"),
        ("[[r.id for r in maybes] for r in rows if r is not None]", "may_be_null", "r may be null"),
        ("n == 'x'", "never_equal", 'a whole number is never "x"'),
        ("state == 'opne'", "never_equal", "always comes out the same"),
        ("state in ['opne', 'shutt']", "never_equal", "always comes out the same"),
        ("text in rows", "never_equal", "text is never an object"),
        ("row.tags if 'tag' in row else []", "unknown_field", "did you mean 'tags'?"),
        ("'zip' in row", "always_default", "so it is never in it"),
    ],
)
def test_what_is_doubtful_is_named(text: str, code: str, says: str) -> None:
    """Once."""
    _, (problem, *others) = typed(text)
    assert not others
    assert problem.code == code
    assert says in problem.message


def test_an_offset_points_at_the_unknown_name() -> None:
    """So that a caret can stand under it."""
    text = "[r.amount for r in rows if r.amuont > 1]"
    _, (problem,) = typed(text)
    assert text[problem.offset :].startswith("amuont")


def test_an_empty_list_has_no_wrong_elements() -> None:
    """Nothing is certain about what is not there."""
    found, problems = infer(parse("[x.y.z for x in xs]").tree, "[x.y.z for x in xs]", {"xs": array_of(NEVER)})
    assert problems == []
    assert found.has("array")


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.5, -2.0])
    | st.sampled_from(["", "a", "1", "b c"])
)
keys = st.sampled_from(["a", "b", "key"])
data = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(["p", "q", "r"])


conditions = st.recursive(
    st.builds(
        "{}{} {}".format,
        names,
        st.sampled_from(["", ".a", "['b']", "[0]"]),
        st.sampled_from(
            [
                "is None",
                "is not None",
                "== 'a'",
                "!= 'a'",
                "in ['a', None]",
                "not in ['a', True]",
                "",
                "== None",
            ]
        ),
    )
    | st.builds("'{}' {} {}".format, keys, st.sampled_from(["in", "not in"]), names)
    | st.builds("{}.get('a')".format, names),
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from(["and", "or"]), inner)
        | st.builds("(not {})".format, inner)
    ),
    max_leaves=4,
)


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def made(form: str, *parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.tuples(*parts).map(lambda found: form.format(*found))

    key = keys | names
    return st.one_of(
        made("({}).{}", inner, key),
        made("({})['{}']", inner, keys),
        made("({})[{}]", inner, st.sampled_from(["0", "-1", "1:", ":1", "p"])),
        made(
            "({}) {} ({})",
            inner,
            st.sampled_from(["+", "-", "*", "/", "//", "%", "==", "<", "in", "and", "or"]),
            inner,
        ),
        made("({} if {} else {})", inner, inner, inner),
        made("[{}, {}]", inner, inner),
        made("{{'a': {}, 'b': {}}}", inner, inner),
        made("{{**({}), 'a': {}}}", inner, inner),
        made("[{} for x in {}]", inner.map(lambda t: t.replace("p", "x")), inner),
        made("[x for x in {} if {}]", inner, inner.map(lambda t: t.replace("q", "x"))),
        made("{{'k': x for x in {}}}", inner),
        made("[a for a, b in {}]", inner),
        made("[[b, a] for a, b in {}]", inner),
        made("[[i, b] for i, (a, b) in enumerate(zip({}, {}))]", inner, inner),
        made("[x for x in {} if {}]", inner, conditions.map(lambda t: t.replace("q", "x"))),
        made("({} if {} else {})", inner, conditions, inner),
        made("({}) {} ({})", conditions, st.sampled_from(["and", "or"]), inner),
        made(
            "{}({})",
            st.sampled_from(
                [
                    "len",
                    "sum",
                    "min",
                    "max",
                    "sorted",
                    "any",
                    "all",
                    "abs",
                    "round",
                    "str",
                    "number",
                    "enumerate",
                    "reversed",
                    "unique",
                    "flat",
                    "first",
                    "running",
                    "range",
                ]
            ),
            inner,
        ),
        made("group({}, key=lambda x: {})", inner, inner.map(lambda t: t.replace("p", "x"))),
        made("index({}, key=lambda x: x)", inner),
        made("max({}, key=lambda x: x, default={})", inner, inner),
        made("zip({}, {})", inner, inner),
        made("join({}, {}, on='a', how='outer')", inner, inner),
        made(
            "({}).{}",
            inner,
            st.sampled_from(
                ["keys()", "values()", "items()", "lower()", "strip()", "split()", "get('a')", "get('b', 1)"]
            ),
        ),
        made("f'{{{}}}'", names),
        made("-({})", inner),
        made("not ({})", inner),
    )


texts = st.recursive(
    names | st.sampled_from(["1", "2.5", "'a'", "None", "True", "[]"]), _larger, max_leaves=6
)


@given(texts, st.fixed_dictionaries({"p": data, "q": data, "r": data}))
@settings(max_examples=3000, deadline=None)
def test_a_value_is_always_of_the_type_that_was_inferred(text: str, scope: dict[str, Any]) -> None:
    """Soundness, on the evaluator itself: nothing that works is called wrong."""
    try:
        expression = parse(text)
        value = expression.evaluate(scope, Fuel(20_000))
    except (ExpressionError, EvaluationError):
        return
    found, problems = infer(expression.tree, text, {name: type_of_value(v) for name, v in scope.items()})
    assert not disjoint(type_of_value(value), found)
    if isinstance(expression.tree, ast.Compare) and any(p.code == "never_equal" for p in problems):
        assert value is isinstance(expression.tree.ops[0], ast.NotEq | ast.NotIn)
    unsure = (ast.IfExp, ast.BoolOp, ast.comprehension, ast.Lambda)
    if ".get(" not in text and not any(isinstance(node, unsure) for node in ast.walk(expression.tree)):
        assert {p.code for p in problems} <= {"may_be_null", "never_equal", "always_default"}
