"""Bytes of a source into lines of text: every line comes, also one that is no text or is too long, in bounded memory.

A byte that is no text in the encoding becomes one character that no file can hold (a mark, U+DC00 and the byte), so that
the reader knows which line, and where in it. The mark of an encoding at the beginning (BOM) decides where nobody says
which it is. Lines end with CR, LF or both, as they come.
"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from ...policies.errors import BadInput
from ...policies.text import did_you_mean, shorten

__all__ = [
    "LONGEST",
    "Cut",
    "encoding_of",
    "is_spoilt",
    "is_text_codec",
    "lines",
    "readable",
    "spoilt",
    "text_of",
]

LONGEST = 16 * 1024 * 1024
"""Characters of a line, and of a row, that are read."""

_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_KNOWN = (
    "utf-8",
    "utf-16",
    "utf-32",
    "latin-1",
    "cp1252",
    "iso8859-15",
    "mac-roman",
    "cp437",
    "shift-jis",
    "gb18030",
)
_MARK = re.compile("[\udc00-\udcff]")
_SKIPPED = 65_536


class Cut(str):
    """The beginning of a line that is longer than is read; the rest of it was passed over."""


def _marked(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "".join(chr(0xDC00 + byte) for byte in error.object[error.start : error.end]), error.end


codecs.register_error("foreplan.marked", _marked)


def encoding_of(beginning: bytes, said: str | None) -> str:
    """The encoding of a file by what was said, else by its mark, else UTF-8. Raises `BadInput`."""
    if said is None:
        return next((name for mark, name in _BOMS if beginning.startswith(mark)), "utf-8")
    if not is_text_codec(said):
        raise BadInput(f"there is no encoding {shorten(repr(said), 60)}{did_you_mean(said, _KNOWN)}")
    name = codecs.lookup(said).name
    if (
        name in ("utf-16", "utf-32")
        and beginning
        and not any(beginning.startswith(m) for m, n in _BOMS if n == name)
    ):
        raise BadInput(
            f"the file does not begin with the mark of {_shown(name)}; say {name + '-le'!r} or {name + '-be'!r}"
        )
    return "utf-8-sig" if name == "utf-8" else name


def is_text_codec(name: str) -> bool:
    """Whether this names an encoding of text."""
    try:
        io.TextIOWrapper(io.BytesIO(), name)
    except (LookupError, ValueError):
        return False
    return True


@contextmanager
def text_of(file: BinaryIO, encoding: str) -> Iterator[io.TextIOWrapper]:
    """The text of a file, which stays open."""
    text = io.TextIOWrapper(file, encoding, "foreplan.marked", newline="")
    try:
        yield text
    except UnicodeError as error:  # what a codec says without asking how errors are to be taken
        raise BadInput(f"the text cannot be read as {_shown(encoding)}: {shorten(error, 100)}") from None
    finally:
        with suppress(ValueError):  # a reader that was left half-way may be let go of after its file
            text.detach()


def lines(file: BinaryIO, encoding: str) -> Iterator[str]:
    """The lines of a file with their ends, in order."""
    with text_of(file, encoding) as text:
        read = text.readline
        most = LONGEST + 1
        while line := read(most):
            if len(line) == most:
                line = _cut(line, text)
            yield line


def _cut(line: str, text: io.TextIOWrapper) -> str:
    """A line that is too long, read to its end."""
    if line[-1] in "\r\n":
        return Cut(line)
    while (rest := text.readline(_SKIPPED)) and rest[-1] not in "\r\n":
        pass
    return Cut(line)


def is_spoilt(line: str) -> bool:
    """Whether some of a line is no text in its encoding, or is NUL."""
    return "\0" in line or (not line.isascii() and _MARK.search(line) is not None)


def spoilt(line: str, encoding: str) -> tuple[str, str]:
    """The code and the sentence about such a line."""
    match = _MARK.search(line)
    if match is None:
        return (
            "nul",
            f"holds a NUL character (character {line.index(chr(0)) + 1:,}); is this UTF-16? say encoding='utf-16-le'",
        )
    before = line[: match.start()]
    byte = ord(match[0]) - 0xDC00
    place = len(before.encode(encoding.removesuffix("-sig"), "replace")) + 1
    other = "utf-8" if not encoding.startswith("utf-8") else "cp1252"
    return (
        "bad_encoding",
        f"is not {_shown(encoding)}: byte 0x{byte:02X} (byte {place:,} of the line, after {shorten(repr(before[-20:]), 40)}); "
        f"save the file as UTF-8, or say its encoding (encoding={other!r}, --encoding {other})",
    )


def _shown(encoding: str) -> str:
    return encoding.removesuffix("-sig").upper()


def readable(line: str, most: int = LONGEST) -> str:
    """The text of a row that could not be read, with its spoilt bytes as `\\xNN`."""
    said = _MARK.sub(lambda match: f"\\x{ord(match[0]) - 0xDC00:02x}", line[:most]).replace("\0", "\\x00")
    return said.rstrip("\r\n")
