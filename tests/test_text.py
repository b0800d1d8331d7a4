"""Text for people: nothing hidden is shown as if it were not there, and suggestions are near."""

from __future__ import annotations

import sys
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreplan.policies.text import did_you_mean, nearest, safe_text, shorten

NASTY = {
    "colour": ("\x1b[31mred", "\\x1b[31mred"),
    "clear screen": ("\x1bc\x1b[2J", "\\x1bc\\x1b[2J"),
    "title": ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
    "C1 control sequence introducer": ("\x9b31m", "\\x9b31m"),
    "carriage return overwrites": ("pay 100\rpay 1", "pay 100\\rpay 1"),
    "backspace": ("100\b\b\b1", "100\\x08\\x08\\x081"),
    "null": ("a\0b", "a\\x00b"),
    "delete": ("a\x7f", "a\\x7f"),
    "next line": ("a\x85b", "a\\x85b"),
    "right-to-left override": ("a\u202egpj.exe", "a\\u202egpj.exe"),
    "isolates": ("\u2066\u2067\u2068\u2069", "\\u2066\\u2067\\u2068\\u2069"),
    "marks": ("\u200e\u200f\u061c", "\\u200e\\u200f\\u061c"),
    "zero width": ("a\u200bb\u200cc\u200dd\ufeff", "a\\u200bb\\u200cc\\u200dd\\ufeff"),
    "soft hyphen": ("pay\xadpal", "pay\\xadpal"),
    "tag characters": ("\U000e0041", "\\U000e0041"),
    "variation selectors": ("a\ufe0f\U000e0100", "a\\ufe0f\\U000e0100"),
    "Hangul filler": ("\u3164\u115f\uffa0", "\\u3164\\u115f\\uffa0"),
    "braille blank": ("\u2800", "\\u2800"),
    "line separators": ("a\u2028b\u2029c", "a\\u2028b\\u2029c"),
    "lone surrogate": ("\ud800x\udfff", "\\ud800x\\udfff"),
    "private use": ("\ue000\U000f0000", "\\ue000\\U000f0000"),
    "noncharacter": ("\ufffe\U0010ffff", "\\ufffe\\U0010ffff"),
    "markup stays text": ("[bold]x[/bold]", "[bold]x[/bold]"),
    "backslash stays": ("C:\\x1b", "C:\\x1b"),
    "newline and tab stay": ("a\n\tb", "a\n\tb"),
    "letters stay": ("Zoë ☃ 日本 🙂 é", "Zoë ☃ 日本 🙂 é"),
}


@pytest.mark.parametrize("case", NASTY)
def test_nasty_text_is_shown_as_it_is(case: str) -> None:
    """Every character that moves, reorders or hides what is shown becomes a visible escape."""
    text, shown = NASTY[case]
    assert safe_text(text) == shown


def test_no_control_format_or_surrogate_character_is_let_through() -> None:
    """Whole Unicode, by category: Cc, Cf, Co, Cs, Zl and Zp never come out."""
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        if unicodedata.category(char) in {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"} and char not in "\n\t":
            assert safe_text(char) != char, hex(code)


@given(st.text(st.characters()), st.integers(0, 30))
def test_safe_text_encodes_and_keeps_to_its_limit(text: str, limit: int) -> None:
    """The result can be written as UTF-8, is itself safe, and is never longer than asked."""
    shown = safe_text(text)
    shown.encode()
    assert safe_text(shown) == shown
    assert len(safe_text(text, limit)) <= limit
    assert len(shorten(text, limit)) <= limit
    assert "\n" not in shorten(text, limit)


def test_a_cut_is_visible() -> None:
    """Text that was cut ends in an ellipsis; text that fits is whole."""
    assert safe_text("abcdef", 4) == "abc…"
    assert safe_text("abcd", 4) == "abcd"
    assert shorten("a\n  b\tc", 5) == "a b c"
    assert shorten("word " * 10_000, 11) == "word word …"


def test_a_megabyte_is_shortened_without_reading_it_all() -> None:
    """The cost of a preview does not grow with the value."""
    text = "\u202e" * 20_000_000
    started = time.process_time()
    for _ in range(100):
        safe_text(text, 80)
        shorten(text, 80)
    assert time.process_time() - started < 1.0


def test_an_object_that_cannot_be_shown_is_named() -> None:
    """Text of any object, also of one whose `str` raises."""

    class Sour:
        def __str__(self) -> str:
            raise RuntimeError("no")

    assert safe_text(Sour()) == "<Sour that cannot be shown>"
    assert safe_text(12) == "12"
    assert safe_text(None) == "None"


@pytest.mark.parametrize(
    ("name", "names", "best"),
    [
        ("weather.tody", ["mail", "weather.yesterday", "weather.today"], "weather.today"),
        ("userId", ["uid", "user_id"], "user_id"),
        ("USER-ID", ["user_id"], "user_id"),
        ("user_id", ["UserID", "other"], "UserID"),
        ("amount_total", ["total_amount", "total"], "total_amount"),
        ("amont", ["account", "amount"], "amount"),
        ("pric", ["period", "price"], "price"),
        ("lenght", ["left", "length"], "length"),
        ("today", ["weather.today", "yesterday"], "weather.today"),
        ("descr", ["description", "name"], "description"),
    ],
)
def test_the_nearest_name_comes_first(name: str, names: list[str], best: str) -> None:
    """Typos, other case and separators, swapped words and prefixes find the name that was meant."""
    assert nearest(name, names)[0] == best


def test_names_that_are_not_near_are_not_suggested() -> None:
    """A wrong suggestion is worse than none."""
    assert nearest("weather", ["mail", "refund", "x"]) == []
    assert nearest("x", ["y", "z"]) == []
    assert nearest("", ["a"]) == []
    assert nearest("filter", ["mail"]) == []


def test_a_sentence_ends_in_the_nearest_names() -> None:
    """The end of a message names at most three."""
    assert did_you_mean("amont", ["amount"]) == "; did you mean 'amount'?"
    assert did_you_mean("amont", ["zebra"]) == ""
    assert did_you_mean("itm", ["item", "items", "it", "time"]).count("'") <= 6


def test_many_and_long_names_are_searched_quickly() -> None:
    """3,000 fields or a name of a megabyte do not hold a message up."""
    fields = [f"some_field_{n}" for n in range(3000)]
    started = time.process_time()
    assert nearest("some_feild_17", fields)[0] == "some_field_17"
    assert nearest("x" * 1_000_000, ["x" * 999_999]) != []
    nearest("completely_other", fields)
    assert time.process_time() - started < 2.0


@given(st.text(), st.lists(st.text()))
def test_nearest_answers_for_any_text(name: str, names: list[str]) -> None:
    """Whatever the names are, the answer is at most three of them."""
    found = nearest(name, names)
    assert len(found) <= 3
    assert set(found) <= set(names)
