"""Plain JSON from Python values: a stated rule for each type, and a refusal that says where."""

from __future__ import annotations

import json
from collections import Counter, OrderedDict, deque, namedtuple
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from ipaddress import IPv4Address
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter

from foreplan.registry.values import Unserialisable, copy_plain, pointer, size_of, to_plain

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


class Word(StrEnum):
    YES = "yes"


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


class Whole(int):
    pass


class Real(float):
    pass


Point = namedtuple("Point", "x y")


@dataclass
class Line:
    start: tuple[int, int]
    when: date
    children: list[Any] = field(default_factory=list)


class Model(BaseModel):
    camel: int = Field(alias="camelCase")
    when: datetime


class Items(Mapping[str, int]):
    def __getitem__(self, key: str) -> int:
        return {"a": 1}[key]

    def __iter__(self) -> Iterator[str]:
        return iter(["a"])

    def __len__(self) -> int:
        return 1


CET = timezone(timedelta(hours=1))
MOMENT = datetime(2024, 2, 29, 8, 30, tzinfo=UTC)
ID = "123e4567-e89b-12d3-a456-426614174000"

RULES: list[tuple[Any, Any]] = [
    (10**50, 10**50),
    (2**53 + 1, 2**53 + 1),
    (-0.0, -0.0),
    (1.0, 1.0),
    (Text("own"), "own"),
    (Whole(7), 7),
    (Real(1.5), 1.5),
    (Colour.RED, "red"),
    (Level.LOW, 1),
    (Word.YES, "yes"),
    ((1, (2, 3)), [1, [2, 3]]),
    (Point(1, 2), [1, 2]),
    (deque([1, 2]), [1, 2]),
    ({10, 9}, [9, 10]),
    (frozenset({"b", "a"}), ["a", "b"]),
    ({1, "a", (2,)}, ["a", 1, [2]]),
    (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
    (Counter("aab"), {"a": 2, "b": 1}),
    (Items(), {"a": 1}),
    ({1: "a", Colour.RED: "b", date(2024, 1, 1): "c"}, {"1": "a", "red": "b", "2024-01-01": "c"}),
    ({Level.LOW: "a", UUID(ID): "b"}, {"1": "a", ID: "b"}),
    (MOMENT, "2024-02-29T08:30:00Z"),
    (MOMENT.astimezone(CET), "2024-02-29T09:30:00+01:00"),
    (datetime(2024, 2, 29, 8, 30, 1, 500), "2024-02-29T08:30:01.000500"),
    (date(2024, 2, 29), "2024-02-29"),
    (time(8, 30), "08:30:00"),
    (timedelta(days=1, hours=2, seconds=3.5), "P1DT2H3.5S"),
    (timedelta(0), "P0D"),
    (-timedelta(minutes=90), "-PT1H30M"),
    (Decimal("12.30"), "12.30"),
    (Decimal("1E+3"), "1000"),
    (Decimal("1E+100000"), "1E+100000"),
    (b"\xff\x00", "/wA="),
    (bytearray(b"a"), "YQ=="),
    (memoryview(b"a"), "YQ=="),
    (UUID(ID), ID),
    (PurePosixPath("a/b"), "a/b"),
    (IPv4Address("192.0.2.1"), "192.0.2.1"),
    (Line((1, 2), date(2024, 1, 1)), {"start": [1, 2], "when": "2024-01-01", "children": []}),
    (Model(camelCase=1, when=MOMENT), {"camelCase": 1, "when": "2024-02-29T08:30:00Z"}),
    (
        {"rows": [Model(camelCase=1, when=MOMENT)]},
        {"rows": [{"camelCase": 1, "when": "2024-02-29T08:30:00Z"}]},
    ),
]


@pytest.mark.parametrize(("value", "expected"), RULES, ids=range(len(RULES)))
def test_each_type_has_a_rule(value: Any, expected: Any) -> None:
    """The result is the expected JSON, with exact types, and survives being written and read (D2)."""
    plain = to_plain(value)
    assert plain == expected
    assert repr(plain) == repr(expected)
    assert json.loads(json.dumps(plain)) == expected


@pytest.mark.parametrize(
    "value",
    [
        MOMENT,
        date(2024, 1, 1),
        time(8, 30, tzinfo=UTC),
        timedelta(days=-3, seconds=7, microseconds=20),
        Decimal("0.10"),
        UUID(ID),
        Colour.RED,
        {1, 2},
        Point(1, 2),
        Line((1, 2), date(2024, 1, 1)),
    ],
    ids=repr,
)
def test_a_value_comes_back_through_its_type(value: Any) -> None:
    """What was written is read back as the same value by pydantic."""
    text = json.dumps(to_plain(value))
    assert TypeAdapter(type(value)).validate_json(text) == value


def test_bytes_are_read_back_by_a_tool_that_takes_bytes() -> None:
    """Base64 goes out of one tool and into the next."""
    from foreplan import ToolContext, tool

    @tool
    def length(data: bytes) -> int:
        return len(data)

    assert length.invoke({"data": to_plain(b"\xff\xfe\x00")}, ToolContext()) == 3


class Raises:
    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError("no")

    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


class BadDict(dict[str, int]):
    def items(self) -> Any:
        raise RuntimeError("no")


class BadList(list[int]):
    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError("no")


class Liar:
    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise RuntimeError("no")


class Open(BaseModel, arbitrary_types_allowed=True):
    thing: Any = None
    real: float = 0


def numbers() -> Iterator[int]:
    yield 1


async def later() -> int:
    return 1


REFUSED: list[tuple[Any, str, str]] = [
    (float("nan"), "", "nan"),
    ({"a": [1, float("-inf")]}, "/a/1", "-inf"),
    (Decimal("NaN"), "", "NaN"),
    (object(), "", "object"),
    ({"a": {"b": 1j}}, "/a/b", "complex"),
    ({None: 1}, "", "NoneType"),
    ({True: 1}, "", "bool"),
    ({1.5: 1}, "", "float"),
    ({("a",): 1}, "", "tuple"),
    ({"rows": [{1: "a", "1": "b"}]}, "/rows/0", "two keys"),
    ("\ud800", "", "surrogate"),
    ({"\ud800": 1}, "", "surrogate"),
    (["a", Text("\udfff")], "/1", "surrogate"),
    ({"a/b": ["x~y", {"c~d": object()}]}, "/a~1b/1/c~0d", "object"),
    (10**5000, "", "digits"),
    (numbers(), "", "generator"),
    ([later()], "/0", "coroutine"),
    (int, "", "type"),
    ({"f": print}, "/f", "builtin"),
    ({"a": Raises()}, "/a", "Raises"),
    ({"a": BadDict()}, "/a", "RuntimeError"),
    ([BadList()], "/0", "RuntimeError"),
    ([Liar()], "/0", "RuntimeError"),
    ([Open(thing=object())], "/0", "PydanticSerializationError"),
    ([Open(real=float("nan"))], "/0/real", "nan"),
    (Line((1, 2), date(2024, 1, 1), [1j]), "/children/0", "complex"),
    (ValueError("x"), "", "ValueError"),
]


@pytest.mark.parametrize(("value", "path", "said"), REFUSED, ids=[str(n) for n in range(len(REFUSED))])
def test_what_has_no_json_is_refused_with_its_place(value: Any, path: str, said: str) -> None:
    """Whatever the value does, the answer is `Unserialisable` with a JSON Pointer."""
    with pytest.raises(Unserialisable) as caught:
        to_plain(value)
    assert (caught.value.path, said in str(caught.value)) == (path, True)


def test_nan_is_null_where_the_tool_says_so() -> None:
    """NaN and infinities become null everywhere, and nothing else changes."""
    assert to_plain([float("nan"), {"a": float("inf")}, Decimal("NaN"), 1.0], nan_is_null=True) == [
        None,
        {"a": None},
        None,
        1.0,
    ]


def _nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_depth_is_capped() -> None:
    """A hundred levels are fine, more are refused, a hundred thousand are no crash."""
    assert to_plain(_nested(100)) == _nested(100)
    for levels in (101, 100_000):
        with pytest.raises(Unserialisable, match="deeper than 100"):
            to_plain(_nested(levels))


def test_what_contains_itself_is_refused() -> None:
    """Through lists, dicts, and dataclasses."""
    ring: list[Any] = [1]
    ring.append({"again": ring})
    line = Line((1, 2), date(2024, 1, 1))
    line.children.append(line)
    for value, path in ((ring, "/1/again"), (line, "/children/0")):
        with pytest.raises(Unserialisable, match="contains itself") as caught:
            to_plain(value)
        assert caught.value.path == path


def test_a_repeated_part_may_be_shared_but_not_explode() -> None:
    """The same row twice is two rows; forty doublings are a bomb."""
    row = {"a": 1}
    assert to_plain([row, row]) == [{"a": 1}, {"a": 1}]
    bomb: Any = []
    line: Any = Line((1, 2), date(2024, 1, 1))
    for _ in range(40):
        bomb, line = [bomb, bomb], Line((1, 2), date(2024, 1, 1), [line, line])
    for value in (bomb, line):
        with pytest.raises(Unserialisable, match="explode"):
            to_plain(value)


def test_many_models_are_no_repetition() -> None:
    """Each model dumps to a new dict; that memory is used again must not look like sharing."""
    model = TypeAdapter(list[Model]).validate_python([{"camelCase": n, "when": MOMENT} for n in range(3000)])
    assert len(to_plain(model)) == 3000


def test_a_large_value_is_no_problem() -> None:
    """Fifty megabytes of text and half a million rows."""
    value = {"text": "x" * 50_000_000, "rows": [{"n": n} for n in range(100_000)]}
    plain = to_plain(value)
    assert plain == value
    assert size_of(plain) > 50_000_000


@given(JSON)
def test_plain_values_pass_unchanged(value: Any) -> None:
    """Plain JSON is what it was, type by type."""
    assert repr(to_plain(value)) == repr(value)
    assert repr(copy_plain(value)) == repr(value)


def _containers(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        yield value
        for part in value.values() if isinstance(value, dict) else value:
            yield from _containers(part)


@given(JSON)
def test_nothing_is_shared_with_the_original(value: Any) -> None:
    """No list or dict of the copy is one of the original."""
    ours = {id(part) for part in _containers(value)}
    for copied in (to_plain(value), copy_plain(value)):
        assert not any(id(part) in ours for part in _containers(copied))


@given(JSON)
def test_the_size_is_that_of_compact_json(value: Any) -> None:
    """Bytes, not characters, without ever writing the whole."""
    assert size_of(value) == len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())


def test_the_size_of_a_long_list() -> None:
    """Long lists are measured item by item."""
    value = {"rows": [{"n": n, "ü": "é"} for n in range(2500)], "flat": list(range(2500))}
    assert size_of(value) == len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())


def test_pointers_escape_what_they_must() -> None:
    """RFC 6901: `~` and `/` in keys."""
    assert pointer("a/b", 0, "c~d", "") == "/a~1b/0/c~0d/"


def test_what_has_no_json_form_is_called_by_its_name() -> None:
    """In English: an object, a type."""
    for value, said in ((object(), "is an object, which"), (range, "is a type, which")):
        with pytest.raises(Unserialisable, match=said):
            to_plain([value])
