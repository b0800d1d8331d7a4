"""The parser: Python's own tree for what is in the language, a clear refusal for what is not, at once for any text."""

from __future__ import annotations

import ast
import inspect
import sys
import time
import warnings

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.expressions import expressions, noise

from foreplan.policies.expressions import NODES, ExpressionError, parse
from foreplan.policies.expressions.grammar import build, simple_path


def refused(text: str) -> ExpressionError | None:
    try:
        parse(text)
    except ExpressionError as error:
        return error
    return None


def refusal(text: str) -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    return caught.value


@given(expressions())
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_tree_is_the_one_that_python_has(text: str) -> None:
    """Where both accept a text, our tree equals that of `ast.parse`."""
    with warnings.catch_warnings(action="ignore"):
        theirs = ast.parse(text, mode="eval").body
    assert ast.dump(build(text)) == ast.dump(theirs)


@given(expressions())
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
def test_only_listed_nodes_are_in_a_tree_and_each_knows_its_place(text: str) -> None:
    """Whoever walks a tree meets the nodes of `NODES`, operators and contexts, with offsets into the text."""
    for node in ast.walk(build(text)):
        assert isinstance(node, (*NODES, ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context))
        if isinstance(node, ast.Name):
            assert text[node.col_offset : node.end_col_offset] == node.id
        if isinstance(node, ast.expr):
            assert node.end_col_offset is not None
            assert 0 <= node.col_offset < node.end_col_offset <= len(text)


@pytest.mark.parametrize("text", ["a", "a.b", "a.b[0].c", "rows[12].x_1", "a.class.from", "index.x"])
def test_the_quick_way_for_paths_gives_the_same_tree(text: str) -> None:
    """A plain path is built without tokens; nobody can tell."""
    quick = simple_path(text)
    assert quick is not None
    assert ast.dump(quick, include_attributes=True) == ast.dump(build(text), include_attributes=True)


@given(st.from_regex(r"[a-z_]{1,3}(\.[a-z_]{1,9}|\[[0-9]{1,2}\]){0,4}", fullmatch=True))
def test_the_quick_way_never_accepts_more(text: str) -> None:
    """What the quick way takes, the whole grammar takes too, and alike."""
    quick = simple_path(text)
    if quick is not None:
        assert ast.dump(quick) == ast.dump(build(text))


@given(noise | st.text(max_size=40))
@settings(max_examples=300, deadline=None)
def test_no_text_raises_anything_but_a_refusal(text: str) -> None:
    """A refusal has a code, a sentence and an offset inside the text; its correction, if any, is an expression."""
    error = refused(text)
    if error is not None:
        assert error.code in ExpressionError.CODES
        assert error.message
        assert 0 <= error.offset <= len(text)
        assert not error.correction or refused(error.correction) is None


HOSTILE = {
    "round brackets": "(" * 10_000,
    "closed brackets": "(" * 10_000 + "1" + ")" * 10_000,
    "lists": "[" * 9_000 + "]" * 9_000,
    "objects": "{'a':" * 4_000,
    "signs": "-" * 19_000 + "1",
    "negations": "not " * 4_500 + "a",
    "conditions": "a if b else " * 1_600 + "c",
    "powers": "2**" * 6_000 + "2",
    "calls": "len(" * 4_900,
    "indices": "a[" * 9_000,
    "comprehensions": "[x for x in " * 1_600,
    "f-strings in f-strings": "f'{" * 6_000,
    "f-strings with two quotes": "f'{f\"{" * 3_000,
    "a long path": "a." * 9_000 + "a",
    "a long sum": "+".join("1" * 9_000),
    "a long list": "[" + "1," * 9_000 + "]",
    "a long number": "9" * 20_000,
    "a megabyte": "a" * 1_000_000,
    "unclosed text": "'" + "\\\\" * 9_000,
    "lambdas": "lambda x: " * 1_900,
    "dollars": "$" * 20_000,
    "braces": "{{" * 9_000 + "}}" * 900,
    "questions": "a ? b : " * 2_000,
    "nulls": "\0" * 20_000,
    "line feeds": "a" + "\n" * 19_000 + "b",
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_text_is_answered_at_once(case: str) -> None:
    """Ten thousand brackets, a megabyte, endless chains: a refusal (or a tree) within a moment, no warning."""
    started = time.process_time()
    with warnings.catch_warnings(action="error"):
        error = refused(HOSTILE[case])
    assert len(str(error)) < 1000
    assert time.process_time() - started < 1.0


def test_a_deep_stack_is_no_crash() -> None:
    """Read from deep inside another program, a deep text is refused, not a RecursionError."""

    def dig(depth: int, text: str) -> str:
        if depth:
            return dig(depth - 1, text)
        try:
            return parse(text).text
        except ExpressionError as error:
            return error.code

    text = "(" * 49 + "a" + ")" * 49
    room = sys.getrecursionlimit() - len(inspect.stack(0))
    assert dig(room - 600, text) == text
    assert dig(room - 100, text + " ") == "too_deep"


def test_trees_are_shallow_enough_to_walk() -> None:
    """No tree is deeper than its stated limit, so that a recursive walk is safe."""
    assert refusal("+".join("a" * 150)).code == "too_deep"
    assert parse("+".join("a" * 90)).names == {"a"}


def test_keys_that_are_keywords_are_keys() -> None:
    """Behind a dot every word is a key; in a text nothing is."""
    data = {"a": {"class": {"from": {"import": 1}}, "None": 2, "lambda": 3}}
    assert parse("a.class.from.import").evaluate(data) == 1
    assert parse("a.None + a.lambda").evaluate(data) == 5
    assert parse("f'{a.class.from.import} .class'").evaluate(data) == "1 .class"
    assert parse("'a.class'").evaluate(data) == "a.class"


def test_a_method_without_brackets_is_a_key() -> None:
    """`g.items[1]` reads the key `items`; `g.items()` calls the method."""
    data = {"g": {"items": ["x", "y"], "get": 7}}
    assert parse("g.items[1]").evaluate(data) == "y"
    assert parse("g.items()").evaluate(data) == [["items", ["x", "y"]], ["get", 7]]
    assert parse("g.get").evaluate(data) == 7


@pytest.mark.parametrize(
    ("slip", "repair"),
    [
        ("a && b", "a and b"),
        ("a||!b", "a or not b"),
        ("a === 1", "a == 1"),
        ("a !== null", "a is not None"),
        ("a == true", "a == True"),
        ("a.x ? 'y' : 'n'", "'y' if a.x else 'n'"),
        ("{{ a.x }}", "a.x"),
        ("${a.x}", "a.x"),
        ("$a.x", "a.x"),
        ("= a.x", "a.x"),
        ("steps.a.output.x", "a.x"),
        ("steps.a.x[0]", "a.x[0]"),
        ("{{ steps.a.output.x }}", "a.x"),
        ("${steps.a.output.x && !b}", "a.x and not b"),
        ("a?.x", "a.get('x')"),
        ("NOT a AND b", "not a and b"),
        ("'&& null' == null", "'&& null' is None"),
    ],
)
def test_slips_from_other_languages_are_repaired(slip: str, repair: str) -> None:
    """The suggestion is the whole expression as it is written here; text in quotes is left alone."""
    assert refusal(slip).correction == repair
    parse(repair)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lenght(a)", "did you mean 'len'"),
        ("a.uper()", "did you mean 'upper'"),
        ("sorted(a, revers=True)", "did you mean 'reverse'"),
        ("map(a, b)", "for x in list"),
        ("a.toLowerCase()", "a.lower()"),
        ("upper(a)", "it is a method"),
        ("a.len()", "len(a)"),
        ("sorted(a, key='price')", "key=lambda x: x.price"),
        ("a.1", "[1] for an element of a list"),
        ("a | b", "{**a, **b}"),
        ("{1, 2}", "unique"),
        ("[*a]", "a + b joins"),
        ("len", "len(x)"),
    ],
)
def test_a_refusal_names_the_next_move(text: str, words: str) -> None:
    """The sentence of a refusal says what to write instead."""
    assert words in str(refusal(text))


def test_an_expression_is_text() -> None:
    """A number or null where the text should be is refused, not converted."""
    for value in (None, 5, ["a"]):
        with pytest.raises(ExpressionError, match="an expression is text"):
            parse(value)  # type: ignore[arg-type]
