"""Names: which ones an expression reads, along which paths, and how they are replaced."""

from __future__ import annotations

import keyword

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.expressions import SCOPE, expressions

from foreplan.policies.expressions import (
    FUNCTIONS,
    RESERVED,
    EvaluationError,
    ExpressionError,
    Fuel,
    parse,
    references,
    rename,
    rename_in,
    valid_id,
)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a.b[c].d", {"a", "c"}),
        ("[x.y for x in a if x.z > b]", {"a", "b"}),
        ("[x for x in x]", {"x"}),
        ("[y for x in a for y in x.b]", {"a"}),
        ("{k: v for k, v in a.items()}", {"a"}),
        ("sorted(a, key=lambda r: r.x + b)", {"a", "b"}),
        ("sorted(r, key=lambda r: r)", {"r"}),
        ("f'{a.x} {[b for b in c]} b'", {"a", "c"}),
        ("'a' + \"b\"", set()),
        ("a.len + index", {"a", "index"}),
        ("index(a, key=lambda x: x.id)", {"a"}),
        ("[len for len in a]", {"a"}),
        ("{'a': b, **c}", {"b", "c"}),
        ("a[1:b]", {"a", "b"}),
        ("sum(x for x in a) if b else c", {"a", "b", "c"}),
    ],
)
def test_the_free_names_are_those_read_from_outside(text: str, names: set[str]) -> None:
    """Not the names that a comprehension or a lambda binds, nor keys, functions or text."""
    assert parse(text).names == names


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("a", ["a"]),
        ("a.b[0].c", ["a.b.0.c"]),
        ("a['b'][-1]", ["a.b.-1"]),
        ("a[b.c].d", ["a.?.d", "b.c"]),
        ("a.get('k')", ["a.k?"]),
        ("a.b.get('k', c.d)", ["a.b.k?", "c.d"]),
        ("a.get(b)", ["a", "b"]),
        ("a.items()", ["a"]),
        ("a.b[1:]", ["a.b"]),
        ("a.b[1:][0].c", ["a.b"]),
        ("[r.x for r in a.rows]", ["a.rows", "a.rows.?.x"]),
        ("[r.x for r in a.rows[1:] if r.y > b]", ["a.rows", "a.rows.?.y", "b", "a.rows.?.x"]),
        ("[c.d for r in a.rows for c in r.cs]", ["a.rows", "a.rows.?.cs", "a.rows.?.cs.?.d"]),
        ("[r.x for r in sorted(a, key=lambda s: s.y)]", ["a", "a.?.y", "a.?.x"]),
        ("[v.x for k, v in a.items()]", ["a", "a.?.x"]),
        ("[v.x for v in a.values()]", ["a", "a.?.x"]),
        ("[i + r.x for i, r in enumerate(a)]", ["a", "a.?.x"]),
        ("[p.x + q.y for p, q in zip(a, b)]", ["a", "b", "a.?.x", "b.?.y"]),
        ("[x.z for x in [r.y for r in a]]", ["a", "a.?.y", "a.?.y.z"]),
        ("first(a.rows).x", ["a.rows.?.x", "a.rows"]),
        ("max(a, key=lambda r: r.n).x", ["a.?.x", "a", "a.?.n"]),
        ("f'{a.x:>5}'", ["a.x"]),
        ("a.x if b.y else c.z", ["b.y", "a.x", "c.z"]),
        ("{'k': a.x, **b.y}", ["a.x", "b.y"]),
        ("(a or b).x", ["a", "b"]),
        ("[g.items[0].x for g in group(a, key=lambda r: r.k)]", ["a", "a.?.k"]),
        ("[a for a in b]", ["b", "b.?"]),
    ],
)
def test_references_are_the_paths_that_are_read(text: str, paths: list[str]) -> None:
    """Each as far as it goes; `?` is an index known only later, a mark at the end one that may be absent."""
    found = references(parse(text))
    shown = [
        ".".join([r.name, *("?" if s is None else str(s) for s in r.path)]) + "?" * r.optional for r in found
    ]
    assert sorted(shown) == sorted(paths)


@given(expressions())
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_references_name_exactly_the_free_names(text: str) -> None:
    """No free name without a reference, no reference without a free name; each has its place in the text."""
    expression = parse(text)
    found = references(expression)
    assert {r.name for r in found} == expression.names
    for reference in found:
        assert 0 <= reference.offset < reference.end <= len(text)


@pytest.mark.parametrize(
    ("text", "renamed"),
    [
        ("a.a['a'] + a", "b.a['a'] + b"),
        ("'a' + a.x", "'a' + b.x"),
        ("f'a {a.x} {f\"{a}\"}'", "f'a {b.x} {f\"{b}\"}'"),
        ("[a for a in a]", "[a for a in b]"),
        ("[a.x for x in a]", "[b.x for x in b]"),
        ("[a + b for b in c]", "[b + b_2 for b_2 in c]"),
        ("[a + b + b_2 for b in c]", "[b + b_3 + b_2 for b_3 in c]"),
        ("sorted(c, key=lambda b: [a, b])", "sorted(c, key=lambda b_2: [b, b_2])"),
        ("sorted(a, key=lambda a: a)", "sorted(b, key=lambda a: a)"),
        ("{'a': a, **a}", "{'a': b, **b}"),
        ("x.a", "x.a"),
        ("a\n  .x", "b\n  .x"),
        ("é.x + a", "é.x + b"),
        ("a is None or a.get('a')", "b is None or b.get('a')"),
    ],
)
def test_renaming_replaces_what_is_read_and_nothing_else(text: str, renamed: str) -> None:
    """Keys, text and bound names stay; a bound name in the way of the new one steps aside; f-strings are renamed inside."""
    assert rename(text, {"a": "b"}) == renamed


def test_renaming_is_simultaneous() -> None:
    """Two names can be exchanged."""
    assert rename("a.x + b.y", {"a": "b", "b": "a"}) == "b.x + a.y"
    assert rename("a + b", {"a": "longer_name"}) == "longer_name + b"
    with pytest.raises(ExpressionError):
        rename("a +", {"a": "b"})


@given(expressions(), st.permutations(["a", "b", "rows", "n"]))
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
def test_renaming_keeps_the_meaning(text: str, names: list[str]) -> None:
    """With the values under the new names, the renamed expression has the same value or the same error."""
    mapping = dict(zip(["a", "b", "rows", "n"], names, strict=True)) | {"v": "v9"}
    data = {mapping.get(name, name): value for name, value in SCOPE.items()}

    def outcome(expression: str, scope: object) -> object:
        try:
            return parse(expression).evaluate(scope, Fuel(50_000))  # type: ignore[arg-type]
        except EvaluationError as error:
            return error.code

    new = rename(text, mapping)
    assert parse(new).names == {mapping.get(name, name) for name in parse(text).names}
    assert repr(outcome(new, data)) == repr(outcome(text, SCOPE))


def test_a_whole_template_can_be_renamed() -> None:
    """Expressions at any depth; literals and `$literal` stay as they are."""
    template = {"x": {"$": "a.x"}, "y": [{"$": "f'{a}'"}, "a", {"$literal": {"$": "a"}}]}
    assert rename_in(template, {"a": "b"}) == {
        "x": {"$": "b.x"},
        "y": [{"$": "f'{b}'"}, "a", {"$literal": {"$": "a"}}],
    }
    assert template["x"] == {"$": "a.x"}


def test_ids_are_plain_words_that_mean_nothing_else() -> None:
    """Small letters, digits and `_`; no keyword of Python, no function, no reserved name, not too long."""
    for good in ("a", "payments", "step_2", "x9", "get", "items"):
        assert valid_id(good)
    for bad in (
        "",
        "A",
        "1a",
        "_a",
        "a-b",
        "a.b",
        "é",
        "a\n",
        "class",
        "len",
        "index",
        "inputs",
        "run",
        "item",
        "result",
        "null",
        "a" * 65,
    ):
        assert not valid_id(bad)
    assert not any(map(valid_id, [*FUNCTIONS, *RESERVED, *keyword.kwlist]))
