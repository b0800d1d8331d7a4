"""Formats are really checked, each in time linear in the text."""

from __future__ import annotations

import pytest

from foreplan.registry.formats import EXAMPLES, FORMATS

GOOD_AND_BAD: dict[str, tuple[list[str], list[str]]] = {
    "date": (["2024-02-29"], ["2023-02-29", "20240229", "2024-W01-1", "2024-2-9", "2024-02-29\n", "２０２４-02-29"]),
    "time": (
        ["08:30:00Z", "08:30:00.123+01:00", "23:59:60Z", "15:59:60-08:00"],
        ["08:30:00", "24:00:00Z", "08:30Z", "22:59:60Z", "08:30:00+24:00"],
    ),
    "date-time": (
        ["2024-02-29T08:30:00Z", "2024-02-29t08:30:00.5-01:00"],
        ["2024-02-29 08:30:00Z", "2024-02-29T08:30:00", "2024-02-30T08:30:00Z", "2024-02-29", "08:30:00Z"],
    ),
    "duration": (["P1D", "PT0.5S", "-P1DT2H", "P4W", "P1Y2M3DT4H5M6S"], ["P", "PT", "1D", "P1H", "P1W2D", "P1DT"]),
    "email": (
        ["ada@example.com", "a.b+c@example.co", '"a b"@example.com', "a@[192.0.2.1]", "a@[IPv6:::1]"],
        ["ada", "@example.com", "a@", "a..b@example.com", ".a@b.c", "a@b c", "a@-b.c", "a@b.c\n", "a@[1.2]"],
    ),
    "idn-email": (["ä@exämple.de"], ["ä ö@x.de", "ä"]),
    "hostname": (["example.com", "a", "xn--bcher-kva.example"], ["", "-a.com", "a-.com", "a..b", "a_b", "a" * 64, "a.", "ü.de"]),
    "idn-hostname": (["bücher.example"], ["a b", "-a", "", "a..b"]),
    "ipv4": (["192.0.2.1", "0.0.0.0"], ["256.0.0.1", "1.2.3", "01.2.3.4", "1.2.3.4.5", "١.2.3.4", "0x7f.1", "1.2.3.4\n"]),
    "ipv6": (["::1", "2001:db8::1", "::ffff:192.0.2.1"], ["::g", "1::2::3", "fe80::1%eth0", "", "12345::"]),
    "uri": (
        ["https://example.com/a?b=c#d", "mailto:a@b.c", "urn:isbn:0", "http://[::1]:80/"],
        ["example.com", "http://a b", "http://a/%zz", "//x/y", "http://[::g]/", "a:\\b", "http://ü.de", "http://x:y"],
    ),
    "uri-reference": (["/a/b", "a?b", "", "//x", "#f"], ["a b", "\\a", "1:b"]),
    "iri": (["http://ü.de/é"], ["ü.de", "http://ü.de/ "]),
    "iri-reference": (["é/b"], ["a b"]),
    "uri-template": (["http://x/{id}{?a,b}", ""], ["http://x/{id", "{}", "a b"]),
    "uuid": (["123e4567-e89b-12d3-a456-426614174000"], ["123e4567e89b12d3a456426614174000", "x"]),
    "json-pointer": (["", "/a/0", "/~0~1"], ["a", "/~", "/~2"]),
    "relative-json-pointer": (["0", "1/a", "0#", "2+1/b"], ["/a", "01", "-1", "0##"]),
    "regex": (["^a+$"], ["[", "(", "a**", "(" * 3000]),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_tells_good_from_bad(name: str) -> None:
    """Every known format has examples of both in this table."""
    good, bad = GOOD_AND_BAD[name]
    assert [text for text in good if not FORMATS[name](text)] == []
    assert [text for text in bad if FORMATS[name](text)] == []


def test_the_examples_in_messages_are_valid() -> None:
    """A message never suggests what would be refused."""
    assert [name for name, text in EXAMPLES.items() if not FORMATS[name](text)] == []


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_is_not_slow_on_long_texts(name: str) -> None:
    """Half a megabyte of the wrong thing; a checker that is not linear would not come back from this."""
    for piece in (
        "a",
        "1",
        "/",
        "%20",
        "a.",
        "{a}",
        "a@",
        ":",
        "~0",
        "-",
        '"\\\\',
        "[::",
        "P1D",
        "１",
        "\ud800",
    ):
        FORMATS[name](piece * (500_000 // len(piece)))
