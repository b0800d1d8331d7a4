"""An event as the text that is kept, and the chain of hashes over the texts of one run.

    tip 0 = sha256(id of the run)        tip n = sha256(tip n-1 + text n as UTF-8)

Whoever changes, swaps, inserts or removes a text in the middle breaks the chain there. A chain can be recomputed by
whoever holds the file: without a key it shows accidents, no more.

A large result stands apart from the text of its event, once for all that are equal; the text holds its hash instead,
under `apart`, so the chain covers it, and what is read by a hash is held against it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from hashlib import sha256
from operator import itemgetter
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

from ..events import (
    CallAdmitted,
    CallSettled,
    CallStarted,
    Event,
    Outcome,
    PlanAccepted,
    RowOpened,
    RowSettled,
    RunClosed,
    ValueSettled,
    decode,
    encode,
)
from .personal import Personal, put_back

__all__ = [
    "Record",
    "as_written",
    "first_tip",
    "from_text",
    "hash_of",
    "next_tip",
    "quickly",
    "slowly",
    "to_text",
]

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
    data = quickly(event, sys.maxsize)
    return _written(encode(event)) if data is None else (data.decode(), data)


def slowly(event: Event, most: int, personal: Personal | None = None) -> Record:
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


def quickly(event: Event, most: int) -> bytes | None:
    """The text of an event as pydantic's writer gives it, where that is the very text of `json`; it takes a third of the time.

    It would write a set, a date or a number in its own way too, so what the host or a tool gave is looked at first. None for
    other kinds, and where more than `most` bytes may have to stand apart.
    """
    document_of = _MANY.get(type(event))
    if document_of is None:
        return _with_plan(event) if type(event) is PlanAccepted else None
    at, dice = event.at, event.dice
    if not (type(at) is type(dice) is float and 1.0 < at < 1e15 and 1e-4 < dice < 1.0):
        return None
    document = document_of(event)
    try:
        data = to_json(document) if document is not None else None
    except ValueError:
        return None
    return data if data is None or len(data) <= most else None


def _with_plan(event: PlanAccepted) -> bytes | None:
    """The text of a plan is made once, however many runs accept it."""
    seq, at, dice, plan, digest = event
    stamp = _plain({"type": "PlanAccepted", "seq": seq, "at": at, "dice": dice})
    try:
        return f'{stamp[:-1]},"plan":{plan.text},"digest":{_plain(digest)}}}'.encode()
    except ValueError:
        return None


def _admitted(event: CallAdmitted) -> dict[str, Any] | None:
    seq, at, dice, path, tool, args, digest, key, decoded = event
    if decoded or not _ordinary(args):
        return None
    return {
        "type": "CallAdmitted",
        "seq": seq,
        "at": at,
        "dice": dice,
        "path": path,
        "tool": tool,
        "args": args,
        "args_digest": digest,
        "key": key,
    }


def _started(event: CallStarted) -> dict[str, Any] | None:
    seq, at, dice, path, attempt = event
    return {"type": "CallStarted", "seq": seq, "at": at, "dice": dice, "path": path, "attempt": attempt}


def _settled(event: CallSettled) -> dict[str, Any] | None:
    seq, at, dice, path, attempt, outcome, value, *rest = event
    if value is None or rest != _NOTHING_ELSE or not _ordinary(value):
        return None
    return {
        "type": "CallSettled",
        "seq": seq,
        "at": at,
        "dice": dice,
        "path": path,
        "attempt": attempt,
        "outcome": str(outcome),
        "value": value,
    }


def _value_settled(event: ValueSettled) -> dict[str, Any] | None:
    seq, at, dice, path, outcome, value, failure, reason = event
    if value is None or failure is not None or reason or not _ordinary(value):
        return None
    return {
        "type": "ValueSettled",
        "seq": seq,
        "at": at,
        "dice": dice,
        "path": path,
        "outcome": str(outcome),
        "value": value,
    }


def _row_opened(event: RowOpened) -> dict[str, Any] | None:
    seq, at, dice, run, batch, ordinal, inputs, digest, line = event
    if not digest or not _ordinary(inputs):
        return None
    document = {
        "type": "RowOpened",
        "seq": seq,
        "at": at,
        "dice": dice,
        "run": run,
        "batch": batch,
        "ordinal": ordinal,
        "inputs": inputs,
        "digest": digest,
    }
    if line is not None:
        document["line"] = line
    return document


def _run_closed(event: RunClosed) -> dict[str, Any] | None:
    seq, at, dice, state, reason, output, message = event
    if reason or output is None or not message or not _ordinary(output):
        return None
    return {
        "type": "RunClosed",
        "seq": seq,
        "at": at,
        "dice": dice,
        "state": state,
        "output": output,
        "message": message,
    }


def _row_settled(event: RowSettled) -> dict[str, Any] | None:
    seq, at, dice, ordinal, run, status, reason, kind, code, message, line, used, events, closing = event
    if reason or kind or code or message or used is None or not (closing and events and _ordinary(used)):
        return None
    document = {
        "type": "RowSettled",
        "seq": seq,
        "at": at,
        "dice": dice,
        "ordinal": ordinal,
        "run": run,
        "status": status,
    }
    if line is not None:
        document["line"] = line
    document["used"] = used
    document["events"] = events
    document["closing"] = closing
    return document


_MANY: dict[type[Event], Callable[[Any], dict[str, Any] | None]] = {
    CallAdmitted: _admitted,
    CallStarted: _started,
    CallSettled: _settled,
    ValueSettled: _value_settled,
    RowOpened: _row_opened,
    RunClosed: _run_closed,
    RowSettled: _row_settled,
}
"""The kinds of which there are many, as documents; None where something stands in them that is seldom there."""
_NOTHING_ELSE = [None, None, None, ()]


def _ordinary(value: Any) -> bool:
    """Whether both writers give the same text for a value, if it is a small one: no exponent, no huge number, no foreign type."""
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return True
    if kind is float:
        return bool(1e-4 <= value < 1e15 or -1e15 < value <= -1e-4)
    if kind is int:
        return bool(-_INT64 < value < _INT64)
    if (kind is not dict and kind is not list) or len(value) > _FEW:
        return False
    if kind is list:
        return all(map(_ordinary, value))
    for key, item in value.items():  # noqa: SIM110 - a generator would double the time
        if not (type(key) is str and (type(item) is str or _ordinary(item))):
            return False
    return True


_INT64 = 2**63
_FEW = 32
"""Larger ones are not looked through: `json` takes no longer."""


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


def from_text(
    data: bytes,
    whole: Callable[[bytes], bytes] | None = None,
    personal: Callable[[bytes], Any] | None = None,
) -> Event:
    """The inverse of `to_text`, `quickly` and `slowly`; `whole` gives what stands apart, `personal` what is kept aside.

    pydantic's reader takes a third of the time, and refuses what is deeper than 200 levels and lone surrogates; then `json`
    says what there is to say. Raises `ValueError`, `KeyError`, `TypeError` or `RecursionError` for what no event is.
    """
    try:
        document = from_json(data)
    except ValueError:
        document = json.loads(data.decode())
    event = _plainly(document)
    if event is not None:
        return event
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


class _Shape(NamedTuple):
    """How the text of a kind of which there are many usually looks: which fields stand in it, and what the others are."""

    kind: type[Event]
    size: int
    values: Callable[[dict[str, Any]], tuple[Any, ...]]
    outcome: int
    rest: tuple[Any, ...]

    @classmethod
    def of(cls, kind: type[Event], last: str) -> _Shape:
        """`last` is the last field that is written."""
        fields = kind._fields
        written = fields.index(last) + 1
        outcome = fields.index("outcome") if "outcome" in fields[:written] else -1
        rest = tuple(kind._field_defaults[name] for name in fields[written:])
        return cls(
            kind, written + 1, itemgetter(*fields[:written]), outcome, rest
        )  # the type stands in it too


_SHAPES = {
    "CallAdmitted": _Shape.of(CallAdmitted, "key"),
    "CallStarted": _Shape.of(CallStarted, "attempt"),
    "CallSettled": _Shape.of(CallSettled, "value"),
    "ValueSettled": _Shape.of(ValueSettled, "value"),
}
_OUTCOMES = {str(outcome): outcome for outcome in Outcome}
_PATH = CallStarted._fields.index("path")
"""The same in all of these."""


def _plainly(document: dict[str, Any]) -> Event | None:
    """What `decode` gives for a document that looks as usual, in a quarter of the time; None for any other."""
    shape = _SHAPES.get(document["type"])
    if shape is None or len(document) != shape.size:
        return None
    kind, _, values_of, outcome, rest = shape
    try:
        values = [*values_of(document), *rest]
    except KeyError:
        return None
    values[_PATH] = tuple(values[_PATH])
    if outcome >= 0:
        values[outcome] = _OUTCOMES[values[outcome]]
    event: Event = tuple.__new__(kind, values)
    return event


def hash_of(data: bytes) -> bytes:
    """What a text that stands apart is called by."""
    return sha256(data).digest()


def first_tip(run: str) -> bytes:
    """Where the chain of a run begins."""
    return sha256(run.encode("utf-8", "replace")).digest()


def next_tip(tip: bytes, data: bytes) -> bytes:
    """Where it goes on after one more text."""
    return sha256(tip + data).digest()
