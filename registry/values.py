"""Plain JSON from what tools return: a stated rule for each type, or a refusal that says where.

    None, bool, int, float, str     themselves; a subclass loses its class; integers are exact
    NaN, infinities                 refused, or null where the tool says so
    list, tuple, namedtuple, deque  list
    set, frozenset                  list, sorted (numbers and text by value, anything else by its JSON text)
    dict and other mappings         object; a key that is text, Enum, date, time, UUID, path or Decimal becomes that
                                    text, an integer its digits; two keys that become the same text are refused
    Enum                            its value
    datetime, date, time            ISO 8601 text, UTC written as Z; without a zone where it has none
    timedelta                       ISO 8601 duration: P1DT2H3.5S
    Decimal                         text, all digits: "12.30"
    bytes, bytearray, memoryview    base64 text (RFC 4648, section 4)
    UUID, path, IP address          text
    dataclass                       object of its fields
    pydantic model or dataclass     what it dumps as JSON, by alias (a NaN in a field of type Any is null to pydantic)

The result is fresh: nothing in it is shared with the value. Refused besides: text with a lone surrogate (it has no
UTF-8), integers too long to be written, values deeper than 100 levels, values that contain themselves, values that
repeat a part so often that writing them out would explode.
"""

from __future__ import annotations

import base64
import dataclasses
import inspect
import json
import math
from collections import deque
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address, IPv6Address
from pathlib import PurePath
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from ..policies.secrets import Secret
from ..policies.text import shorten

__all__ = ["DEEPEST", "Json", "Unserialisable", "copy_plain", "pointer", "size_of", "to_plain"]

Json = Any
"""None, bool, int, float, str, list or dict with str keys, all the way down."""

DEEPEST = 100
"""Levels of nesting; JSON readers in use refuse more at 100 to 1,000 levels."""
_LONGEST_INTEGER = 13_000
"""Bits; CPython refuses to write an integer of more than 4,300 digits (14,283 bits) as text."""
_MOST_REPEATS = 1_000_000
"""Members visited through a list or object that was visited before: `x = [x, x]` sixty times is 2^60 of them."""
_TEXTS = (UUID, PurePath, IPv4Address, IPv6Address)
_KEYS = (str, Enum, date, time, Decimal, *_TEXTS)


class Unserialisable(ValueError):
    """A value that has no plain JSON form; `path` is a JSON Pointer to the part of it that has none."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path or 'the value'} {message}")
        self.path = path
        self.message = message


def to_plain(value: object, *, nan_is_null: bool = False) -> Json:
    """A fresh plain JSON copy by the rules above. Raises `Unserialisable`, whatever the value does."""
    if type(value) is dict:
        copied = value.copy()  # first: another thread may change what is looked at
        if _is_flat(copied):
            return copied
    try:
        return _Walk(nan_is_null).plain(value, 0)
    except _Stuck as stuck:
        raise Unserialisable(pointer(*reversed(stuck.keys)), stuck.message) from stuck.__cause__
    except Exception as error:  # another thread changed it while it was read
        raise Unserialisable("", _raised(value, error)) from error


def _is_flat(value: dict[Any, Any]) -> bool:
    """Whether an object is plain JSON with nothing inside, by far what most tools return; its copy is all it needs then."""
    for key, item in value.items():
        if type(key) is not str or not key.isascii():
            return False
        kind = type(item)
        if kind is str:
            if not item.isascii():
                return False
        elif kind is int:
            if item.bit_length() >= _LONGEST_INTEGER:
                return False
        elif kind is not bool and item is not None:
            return False
    return True


def copy_plain(value: Json) -> Json:
    """A deep copy of plain JSON, which is not checked."""
    kind = type(value)
    if kind is dict:
        if _CONTAINERS.isdisjoint(map(type, value.values())):
            return value.copy()
        return {k: copy_plain(v) if type(v) in _CONTAINERS else v for k, v in value.items()}
    if kind is list:
        return [copy_plain(v) if type(v) in _CONTAINERS else v for v in value]
    return value


def size_of(value: Json) -> int:
    """Bytes of the compact UTF-8 JSON of a plain value, without ever holding all of them."""
    kind = type(value)
    if kind is dict and value and not _CONTAINERS.isdisjoint(map(type, value.values())):
        return 1 + sum(_width(k) + 2 + size_of(v) for k, v in value.items())
    if kind is list and value and (len(value) > 1000 or not _CONTAINERS.isdisjoint(map(type, value))):
        return 1 + len(value) + sum(map(size_of, value))
    return _width(value)


def pointer(*keys: str | int) -> str:
    """The JSON Pointer (RFC 6901) of a place, from its keys and indices: `pointer("a/b", 0)` is `/a~1b/0`."""
    return "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in keys)


_ATOMS = frozenset({str, bool})
_CONTAINERS = frozenset({dict, list})
_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def _width(value: Json) -> int:
    text = _encode(value)
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


class _Stuck(Exception):
    """A part that has no plain form; the keys to it are gathered on the way out, innermost first."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
        self.keys: list[str | int] = []


class _Walk:
    """One conversion: which containers are open (a cycle), which were seen (a repetition)."""

    __slots__ = ("nan_is_null", "open", "repeats", "seen")

    def __init__(self, nan_is_null: bool) -> None:
        self.nan_is_null = nan_is_null
        self.open: set[int] = set()
        self.seen: set[int] = set()
        self.repeats = 0

    def plain(self, value: Any, depth: int) -> Json:
        kind = type(value)
        if kind is str:
            return value if value.isascii() else _text(value)
        if kind is int:
            return value if value.bit_length() < _LONGEST_INTEGER else _too_long()
        if value is None or kind is bool:
            return value
        if kind is float:
            return value if math.isfinite(value) else self.unbounded(value)
        if kind is dict:
            return self.members(value, depth)
        if kind is list or kind is tuple:
            return self.items(value, depth)
        return self.other(value, depth)

    def members(self, value: Mapping[Any, Any], depth: int) -> dict[str, Json]:
        self.enter(id(value), len(value), depth)
        out: dict[str, Json] = {}
        read = 0
        for key, item in value.items():
            name = key if type(key) is str and key.isascii() else self.key(key)
            read += 1
            if item is None or (type(item) in _ATOMS and (type(item) is bool or item.isascii())):
                out[name] = item
                continue
            try:
                out[name] = self.plain(item, depth + 1)
            except _Stuck as stuck:
                stuck.keys.append(name)
                raise
        if len(out) != read:
            raise _Stuck("has two keys that are the same text in JSON")
        self.open.discard(id(value))
        return out

    def items(self, value: Any, depth: int) -> list[Json]:
        self.enter(id(value), len(value), depth)
        out: list[Json] = []
        try:
            for item in value:
                out.append(self.plain(item, depth + 1))
        except _Stuck as stuck:
            stuck.keys.append(len(out))
            raise
        self.open.discard(id(value))
        return out

    def enter(self, place: int, size: int, depth: int) -> None:
        if place in self.open:
            raise _Stuck("contains itself")
        if depth >= DEEPEST:
            raise _Stuck(f"is nested deeper than {DEEPEST} levels")
        if place in self.seen:
            self.repeats += size + 1
            if self.repeats > _MOST_REPEATS:
                raise _Stuck("repeats the same parts so often that it would explode when written out")
        self.open.add(place)
        self.seen.add(place)

    def key(self, key: Any) -> str:
        kind = type(key)
        if kind is int or (isinstance(key, int) and not isinstance(key, (bool, Enum))):
            return str(self.plain(key, 0))
        name = self.plain(key, 0) if isinstance(key, _KEYS) else None
        if type(name) is int:
            return str(name)
        if type(name) is not str:
            raise _Stuck(f"has a key of type {_named(key)}; keys must be text")
        return name

    def other(self, value: Any, depth: int) -> Json:
        try:
            return self.convert(value, depth)
        except _Stuck:
            raise
        except Exception as error:
            raise _Stuck(_raised(value, error)) from error

    def convert(self, value: Any, depth: int) -> Json:
        if isinstance(value, Enum):
            return self.plain(value.value, depth)
        if isinstance(value, str):
            return _text(str.__str__(value))
        if isinstance(value, int):
            return self.plain(int.__int__(value), depth)
        if isinstance(value, float):
            return self.plain(float.__float__(value), depth)
        if isinstance(value, (datetime, time)):
            return _in_utc(value.isoformat())
        if isinstance(value, date):
            return value.isoformat()
        if isinstance(value, timedelta):
            return _duration(value)
        if isinstance(value, Decimal):
            return self.decimal(value)
        if isinstance(value, _TEXTS):
            return _text(str(value))
        if isinstance(value, (bytes, bytearray, memoryview)):
            return base64.b64encode(value).decode()
        return self.compound(value, depth)

    def compound(self, value: Any, depth: int) -> Json:
        if isinstance(value, (set, frozenset)):
            return _in_order(self.items(value, depth))
        if isinstance(value, (list, tuple, deque)):
            return self.items(value, depth)
        if isinstance(value, Mapping):
            return self.members(value, depth)
        if isinstance(value, BaseModel):
            dumped = value.model_dump(mode="json", by_alias=True, warnings=False)
            return _Walk(self.nan_is_null).plain(dumped, depth)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self.record(value, depth)
        raise _Stuck(_foreign(value))

    def record(self, value: Any, depth: int) -> Json:
        serializer = getattr(type(value), "__pydantic_serializer__", None)
        if serializer is not None:
            dumped = serializer.to_python(value, mode="json", by_alias=True, warnings=False)
            return _Walk(self.nan_is_null).plain(dumped, depth)
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        self.enter(id(value), 4 * len(fields), depth)  # takes about four times as long as a dict
        plain = self.members(fields, depth)
        self.seen.discard(id(fields))  # new each time: its place in memory says nothing
        self.open.discard(id(value))
        return plain

    def decimal(self, value: Decimal) -> Json:
        if not value.is_finite():
            return self.unbounded(value)
        return format(value, "f") if abs(value.adjusted()) <= 1000 else str(value)

    def unbounded(self, value: object) -> None:
        if not self.nan_is_null:
            raise _Stuck(f"is {value}, which JSON cannot say; return None for a missing number")


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise _Stuck("is text with a lone surrogate, which has no UTF-8") from error
    return value


def _too_long() -> int:
    raise _Stuck("is an integer of more than 3,900 digits")


def _in_utc(text: str) -> str:
    return text[:-6] + "Z" if text.endswith("+00:00") else text


def _duration(value: timedelta) -> str:
    sign, value = ("-", -value) if value < timedelta(0) else ("", value)
    minutes, seconds = divmod(value.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{value.microseconds:06d}".rstrip("0") if value.microseconds else ""
    clock = (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "")
    clock += f"{seconds}{fraction}S" if seconds or fraction else ""
    days = f"{value.days}D" if value.days or not clock else ""
    return f"{sign}P{days}" + (f"T{clock}" if clock else "")


def _in_order(items: list[Json]) -> list[Json]:
    kinds = set(map(type, items))
    if kinds <= {str} or kinds <= {int, float}:
        return sorted(items)
    return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))


def _foreign(value: Any) -> str:
    if inspect.iscoroutine(value):
        value.close()  # it will never be awaited, and Python would complain about that later and elsewhere
        return "is a coroutine nobody awaited; make the tool async or await it"
    if inspect.isgenerator(value) or inspect.isasyncgen(value):
        return "is a generator; return a list"
    if isinstance(value, Secret):
        return "is a Secret, which is never written down; return what it was used for"
    hint = "; return its .tolist()" if hasattr(type(value), "tolist") else ""
    return f"is {_one(value)}, which has no JSON form{hint}"


def _raised(value: object, error: Exception) -> str:
    return f"is {_one(value)} whose reading raised {type(error).__name__}"


def _one(value: object) -> str:
    named = _named(value)
    return f"{'an' if named[:1].lower() in 'aeiou' else 'a'} {named}"


def _named(value: object) -> str:
    kind = type(value)
    home = "" if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}."
    return shorten(home + kind.__qualname__, 80)
