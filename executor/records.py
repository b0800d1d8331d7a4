"""An event as the text that is kept, and the chain of hashes over the texts of one run.

    tip 0 = sha256(id of the run)        tip n = sha256(tip n-1 + text n as UTF-8)

Whoever changes, swaps, inserts or removes a text in the middle breaks the chain there. A chain can be recomputed by
whoever holds the file: without a key it shows accidents, no more.
"""

from __future__ import annotations

import json
from hashlib import sha256

from .events import Event, decode, encode

__all__ = ["first_tip", "from_text", "next_tip", "to_text"]

_plain = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_ascii = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode


def to_text(event: Event) -> tuple[str, bytes]:
    """The event as JSON text and the same as UTF-8. Raises `TypeError`, `ValueError` or `RecursionError`.

    A lone surrogate (half a character, as in file names that are no text) has no UTF-8: such a text is written in ASCII.
    """
    document = encode(event)
    text = _plain(document)
    try:
        return text, text.encode()
    except UnicodeEncodeError:
        text = _ascii(document)
        return text, text.encode()


def from_text(data: bytes) -> Event:
    """The inverse of `to_text`. Raises `ValueError`, `KeyError` or `TypeError` for what no event is."""
    return decode(json.loads(data))


def first_tip(run: str) -> bytes:
    """Where the chain of a run begins."""
    return sha256(run.encode("utf-8", "replace")).digest()


def next_tip(tip: bytes, data: bytes) -> bytes:
    """Where it goes on after one more text."""
    return sha256(tip + data).digest()
