"""An event as the text that is kept, and the chain of hashes over the texts of one run.

    tip 0 = sha256(id of the run)        tip n = sha256(tip n-1 + text n as UTF-8)

Whoever changes, swaps, inserts or removes a text in the middle breaks the chain there. A chain can be recomputed by
whoever holds the file: without a key it shows accidents, no more.

A large result stands apart from the text of its event, once for all that are equal; the text holds its hash instead,
under `apart`, so the chain covers it, and what is read by a hash is held against it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from typing import Any, NamedTuple

from pydantic_core import from_json

from ..events import Event, decode, encode
from .personal import Personal, put_back

__all__ = ["Record", "as_written", "first_tip", "from_text", "hash_of", "next_tip", "to_record", "to_text"]

_MAY_BE_LARGE = ("value", "output", "args", "forked")
"""Fields that hold what tools gave."""


class Record(NamedTuple):
    """An event as it is kept: its text, the same as UTF-8, and the large texts that stand apart, by hash."""

    text: str
    data: bytes
    apart: dict[bytes, bytes]


_plain = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_ascii = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode


def to_text(event: Event) -> tuple[str, bytes]:
    """The event as JSON text and the same as UTF-8. Raises `TypeError`, `ValueError` or `RecursionError`.

    A lone surrogate (half a character, as in file names that are no text) has no UTF-8: such a text is written in ASCII.
    """
    return _written(encode(event))


def to_record(event: Event, most: int, personal: Personal | None = None) -> Record:
    """The event with results of more than `most` bytes apart, and without personal values. Raises what `to_text` does."""
    document = encode(event) if personal is None else personal.hide(encode(event))
    text, data = _written(document)
    if len(data) <= most:
        return Record(text, data, {})
    apart = dict[bytes, bytes]()
    for name in document.keys() & _MAY_BE_LARGE:
        _, whole = _written(document[name])
        if len(whole) > most:
            key = hash_of(whole)
            apart[key] = whole
            document.setdefault("apart", {})[name] = key.hex()
            del document[name]
    return Record(*_written(document), apart) if apart else Record(text, data, apart)


def _written(document: Any) -> tuple[str, bytes]:
    text = _plain(document)
    try:
        return text, text.encode()
    except UnicodeEncodeError:
        text = _ascii(document)
        return text, text.encode()


def as_written(data: bytes) -> bool:
    """Whether a text is the very one that `to_text` writes for what it says: no key twice, no other spelling."""
    return _written(json.loads(data))[1] == data


def _read(data: bytes) -> Any:
    """What a text says. Raises `ValueError` or `RecursionError`.

    pydantic's reader takes a third of the time, and refuses what is deeper than 200 levels and lone surrogates; then `json`
    says what there is to say.
    """
    try:
        return from_json(data)
    except ValueError:
        return json.loads(data.decode())


def from_text(
    data: bytes,
    whole: Callable[[bytes], bytes] | None = None,
    personal: Callable[[bytes], Any] | None = None,
) -> Event:
    """The inverse of `to_text` and `to_record`; `whole` gives what stands apart, `personal` what is kept aside.

    Raises `ValueError`, `KeyError` or `TypeError` for what no event is.
    """
    document = _read(data)
    apart = document.pop("apart", None) or {}
    for name, key in apart.items():
        if whole is None:
            raise ValueError("a part of it stands apart")
        document[name] = json.loads(whole(bytes.fromhex(key)))
    if "personal" in document:
        if personal is None:
            raise ValueError("a part of it is personal, and kept aside")
        put_back(document, personal)
    return decode(document)


def hash_of(data: bytes) -> bytes:
    """What a text that stands apart is called by."""
    return sha256(data).digest()


def first_tip(run: str) -> bytes:
    """Where the chain of a run begins."""
    return sha256(run.encode("utf-8", "replace")).digest()


def next_tip(tip: bytes, data: bytes) -> bytes:
    """Where it goes on after one more text."""
    return sha256(tip + data).digest()
