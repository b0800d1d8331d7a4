"""Canonical JSON: RFC 8785 to the byte, whichever way it is made."""

from __future__ import annotations

from typing import Any

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from foreplan.policies.canonical import canonical, digest

SAFE = 2**53 - 1
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | st.integers(-SAFE, SAFE) | FLOATS | TEXT
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=15)


@given(VALUES)
@example([0.1, 1e-4, 9.9e-5, 123456789.25, 9007199254740992.5, 1e15 + 0.5, 1e16, 1e21, -0.0, 5e-324])
@example({"b": 1, "a": "\x7f\x1f/\\", "c": None, "": -SAFE})
@example({"\uffee": 1, "\U0001f600": 2, "é": 3, "z": 4})
@example('\x00\x1f\x7f\u2028\u2029"\\/\b\f\n\r\t')
def test_it_is_rfc_8785(value: Any) -> None:
    """The quick way and the reference give the same bytes."""
    assert canonical(value) == rfc8785.dumps(value)


@given(FLOATS)
def test_floats_are_written_as_javascript_writes_them(value: float) -> None:
    """Every float, not only those that come up in documents."""
    assert canonical([value]) == rfc8785.dumps([value])


def test_integers_beyond_the_exact_ones_stand_as_text() -> None:
    """RFC 8785 has no form for them; their digits must count all the same."""
    assert canonical({"n": 2**53 - 1}) == b'{"n":9007199254740991}'
    assert canonical({"n": 2**53}) == b'{"n":"9007199254740992"}'
    assert digest([2**60]) != digest([2**60 + 1])


@pytest.mark.parametrize(
    "value", [float("nan"), [float("inf")], "\ud800", {"\ud800": 1}, {"a": {1}}, {1: 2}, b"x"]
)
def test_what_is_no_json_is_a_value_error(value: Any) -> None:
    """Whichever way it would have gone."""
    with pytest.raises(ValueError, match=r"."):
        canonical(value)


def test_a_digest_names_its_algorithm() -> None:
    """So that another one can stand beside it some day."""
    assert digest({}) == "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
