"""Patterns of strangers: read as JSON Schema means them, and never catastrophic."""

from __future__ import annotations

import pytest
from support.evil import EVIL

from foreplan.registry.patterns import PatternRefused, read_pattern, translate


@pytest.mark.parametrize("pattern", EVIL, ids=lambda p: p[:30])
def test_an_evil_pattern_is_refused(pattern: str) -> None:
    """A pattern that could run for years, or cannot be read, is never run."""
    with pytest.raises(PatternRefused):
        read_pattern(pattern)


HARMLESS = {
    r"^[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\.[a-zA-Z]{2,}$": ("ada@example.com", "ada@example"),
    r"^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
    r"(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?$": (
        "1.0.0-rc.1+build.5",
        "1.0",
    ),
    r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$": ("123e4567-e89b-12d3-a456-426614174000", "123e4567"),
    r"^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}$": ("a.example.com", "-a.example.com"),
    r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$": ("YWJjZA==", "YWJjZA="),
    r"^(?=.*[A-Z])(?=.*[a-z])(?=.*\d).{8,}$": ("Abcdefg1", "abcdefg1"),
    r"^https?://[^\s/$.?#].[^\s]*$": ("https://example.com", "example.com"),
    r"^\+?[1-9]\d{1,14}$": ("+4930123456", "0"),
    r"^((25[0-5]|(2[0-4]|1\d|[1-9]|)\d)\.?\b){4}$": ("192.0.2.1", "192.0.2.256"),
    r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$": ("-12.50", "-"),
    r"^([A-Za-z0-9_-]+\.)*[A-Za-z0-9_-]+$": ("a.b.c", "a..b"),
    r"^\w+( \w+)*$": ("two words", "two  words"),
    r"^(\d+(\.\d+)?)?$": ("1.5", "1."),
    r"^/(?:[^/]+/)*[^/]+$": ("/a/b", "/a//b"),
    r"^\d{1,3}(,\d{3})*(\.\d{2})?$": ("1,234.50", "1,23"),
    r"^(Mon|Tue)(,(Mon|Tue))*$": ("Mon,Tue", "Mon,"),
    r"^P(?!$)(\d+Y)?(\d+M)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+S)?)?$": ("P1DT2H", "P"),
    r"(?i)^(yes|no)$": ("YES", "maybe"),
    r"^(?<year>\d{4})-(?<month>\d\d)$": ("2024-02", "2024-2"),
    r"^.*foo.*$": ("a foo b", "a fo b"),
    r"\S+": ("a", " "),
    r"^[[&~|]+$": ("[&~|", "a"),
}


@pytest.mark.parametrize("pattern", HARMLESS, ids=lambda p: p[:30])
def test_patterns_in_wide_use_are_read(pattern: str) -> None:
    """Nested repetition alone is no reason to refuse: what separates the repetitions counts."""
    yes, no = HARMLESS[pattern]
    read = read_pattern(pattern)
    assert (read.found_in(yes), read.found_in(no), read.limit >= 200) == (True, False, True)


ECMA = [
    ("^[a-z]+$", "abc", True),
    ("^[a-z]+$", "abc\n", False),
    ("^a$|^b$", "b\n", False),
    (r"^\d+$", "12", True),
    (r"^\d+$", "١٢", False),
    (r"^\w+$", "é", False),
    ("^.$", "\r", False),
    ("^.$", "\u2028", False),
    ("(?s)^.$", "\n", True),
    (r"^[$.]+$", "$.", True),
    (r"^\$$", "$", True),
    (r"^\.$", "x", False),
    ("^[^]$", "\n", True),
    ("[]", "", False),
    (r"^[\]$]$", "$", True),
    (r"^[\]$]$", "]", True),
]


@pytest.mark.parametrize(("pattern", "text", "matches"), ECMA)
def test_patterns_mean_what_ecma_262_says(pattern: str, text: str, matches: bool) -> None:
    """`$` is the very end, `\\d` and `\\w` are ASCII, `.` is no line break, classes are ECMA's."""
    assert read_pattern(pattern).found_in(text) is matches


def test_a_slow_pattern_is_run_on_short_texts_only() -> None:
    """A quadratic pattern bounds the text, a linear one hardly does, and beyond the bound nothing matches."""
    quadratic, linear = read_pattern("a+b"), read_pattern("^a+$")
    assert 1000 < quadratic.limit < 20_000
    assert linear.limit >= 1_000_000
    assert not quadratic.found_in("ab" * quadratic.limit)
    assert not read_pattern(r"^\s*(.*)\s*x$").found_in(" " * 100_000)


def test_patterns_can_be_joined() -> None:
    """A translated pattern is one group: jsonschema joins those of `patternProperties` with `|`."""
    assert translate("(?i)a|b") == "(?ai:a|b)"
