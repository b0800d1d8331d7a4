"""Times as plans meet them: text in ISO 8601 order, or seconds since 1970. Arithmetic on the calendar; no clock, no zone
database, no locale.

    date        2024-11-15
    moment      2024-11-15T18:45, 2024-11-15 18:45:00.5, 2024-11-15T18:45:00Z, 2024-11-15T18:45:00+02:00
    time of day 18:45, 18:45:30, 9:05    goes round at midnight; an hour of one digit is taken, in a moment too
    number      seconds since 1970-01-01T00:00Z

A moment without an offset is read as UTC, a date as its first instant. `shift` answers in the form it was given.
Calendar: the Gregorian one, carried back to year 1 (`datetime.date` of the standard library).
"""

from __future__ import annotations

import re
from datetime import date
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any, NamedTuple

from ..text import did_you_mean, shorten
from .arithmetic import CONTEXT, decimal, plain
from .errors import EvaluationError
from .values import Json, is_number, wrong

__all__ = ["between", "format_time", "shift"]

_NANO = 1_000_000_000
_DAY = 86_400 * _NANO
_EPOCH = date(1970, 1, 1).toordinal()
_LAST = date.max.toordinal()
_FARTHEST = 400_000_000_000
"""Seconds, more than from 1970 to either end of the calendar."""
_UNITS = {
    "weeks": 7 * _DAY,
    "days": _DAY,
    "hours": 3_600 * _NANO,
    "minutes": 60 * _NANO,
    "seconds": _NANO,
}
_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]

_CLOCK = (
    r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]{1,9}))?)?"
)
_DATE = r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
_ZONE = r"(?P<zone>[Zz]|(?P<ahead>[-+])(?P<zone_hour>[0-9]{2}):?(?P<zone_minute>[0-9]{2}))"
_TEXT = re.compile(rf"{_DATE}(?:(?P<separator>[Tt ]){_CLOCK}{_ZONE}?)?")
_OF_DAY = re.compile(_CLOCK)


class Time(NamedTuple):
    """A time taken apart. `day` counts from year 1 (None: a time of day); `nanos` is the time since midnight.

    The last fields keep the form: separator of date and clock (empty: a date), whether seconds were written, how
    many digits of a second, the offset as text, whether it was a number, and whether the hour had one digit (`9:30`).
    """

    day: int | None
    nanos: int
    offset: int = 0
    separator: str = ""
    seconds: bool = False
    digits: int = 0
    zone: str = ""
    number: bool = False
    one_digit: bool = False

    @property
    def instant(self) -> int:
        """Nanoseconds since the first day of the calendar, in UTC."""
        return (self.day or 0) * _DAY + self.nanos - self.offset * _NANO


def shift(what: Json, amounts: dict[str, Json]) -> Json:
    """A time moved by the amounts, in the form it was given; a date stays one where it is moved by whole days."""
    time = _read("shift()", what)
    months = 12 * _whole("years", amounts.get("years", 0)) + _whole("months", amounts.get("months", 0))
    nanos = sum((_nanos(unit, amounts[unit]) for unit in _UNITS if unit in amounts), 0)
    if time.day is None and months:
        raise EvaluationError("bad_value", "a time of day has no months or years to shift")
    moved = _write(_add(_add_months(time, months), nanos))
    return float(moved) if type(what) is float else moved


def between(start: Json, end: Json, unit: Json = "days") -> Json:
    """How long from `start` to `end`, negative where the end comes first."""
    if type(unit) is not str or unit not in _UNITS:
        raise EvaluationError(
            "bad_value",
            f"between() measures in {', '.join(_UNITS)}",
            f", not {shorten(unit)!r}{did_you_mean(str(unit), _UNITS)}",
        )
    one, other = _read("between()", start), _read("between()", end)
    if (one.day is None) != (other.day is None):
        raise EvaluationError(
            "bad_value", "between() needs two times of day, or two dates or moments, not one of each"
        )
    span, size = other.instant - one.instant, _UNITS[unit]
    return plain(CONTEXT.divide(Decimal(span), Decimal(size))) if span % size else span // size


def format_time(what: Json, form: Json) -> str:
    """A time as text; directives are those of strftime, in English and without a locale."""
    time = _read("format_time()", what)
    if type(form) is not str:
        raise wrong("format_time()", "a format like '%d.%m.%Y'", form)
    return _DIRECTIVE.sub(lambda match: _directive(match[0], time), form)


def _read(who: str, value: Json) -> Time:
    if is_number(value):
        return _from_number(value)
    if type(value) is not str:
        raise wrong(who, "a time (text like '2024-11-15T18:45', or seconds since 1970)", value)
    match = _TEXT.fullmatch(value)
    clock = match or _OF_DAY.fullmatch(value)
    if clock is None:
        raise EvaluationError(
            "bad_value",
            f"{who} reads times like '2024-11-15', '2024-11-15T18:45:00Z' or '18:45'",
            f", not {shorten(value, 40)!r}",
        )
    parts = clock.groupdict()
    try:
        return Time(
            _day(parts) if match else None,
            _clock(parts),
            _offset(parts),
            *_form(parts),
            one_digit=_one_digit(parts),
        )
    except ValueError as error:
        raise EvaluationError(
            "bad_value", f"{who} got a time that does not exist", f": {shorten(value, 40)!r}"
        ) from error


def _from_number(value: int | float) -> Time:
    if not -_FARTHEST < value < _FARTHEST:
        raise EvaluationError(
            "bad_value", "a number of seconds since 1970 is outside the years 1 to 9999", "; milliseconds?"
        )
    nanos = _rounded(decimal(value).scaleb(9, CONTEXT))
    day, rest = divmod(nanos, _DAY)
    return _in_calendar(Time(day + _EPOCH, rest, 0, "T", True, 0, "Z", number=True))


def _day(parts: dict[str, Any]) -> int:
    return date(int(parts["year"]), int(parts["month"]), int(parts["day"])).toordinal()


def _clock(parts: dict[str, Any]) -> int:
    hour, minute, second = (int(parts.get(name) or 0) for name in ("hour", "minute", "second"))
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError
    fraction = int((parts.get("fraction") or "0").ljust(9, "0"))
    return ((hour * 60 + minute) * 60 + second) * _NANO + fraction


def _offset(parts: dict[str, Any]) -> int:
    if not parts.get("ahead"):
        return 0
    hours, minutes = int(parts["zone_hour"]), int(parts["zone_minute"])
    if hours > 23 or minutes > 59:
        raise ValueError
    return (hours * 3600 + minutes * 60) * (-1 if parts["ahead"] == "-" else 1)


def _form(parts: dict[str, Any]) -> tuple[str, bool, int, str]:
    digits = len(parts.get("fraction") or "")
    return parts.get("separator") or "", parts.get("second") is not None, digits, parts.get("zone") or ""


def _one_digit(parts: dict[str, Any]) -> bool:
    return len(parts.get("hour") or "") == 1


def _whole(unit: str, value: Json) -> int:
    if type(value) is not int:
        raise wrong(f"{unit} of shift()", "a whole number", value)
    if abs(value) > 120_000:
        raise EvaluationError("bad_value", f"shift() by so many {unit} leaves the calendar")
    return value


def _nanos(unit: str, value: Json) -> int:
    if not is_number(value):
        raise wrong(f"{unit} of shift()", "a number", value)
    if not -_FARTHEST < value < _FARTHEST:
        raise EvaluationError("bad_value", f"shift() by so many {unit} leaves the calendar")
    return _rounded(CONTEXT.multiply(decimal(value), Decimal(_UNITS[unit])))


def _rounded(number: Decimal) -> int:
    return int(number.to_integral_value(ROUND_HALF_EVEN, CONTEXT))


def _add_months(time: Time, months: int) -> Time:
    if not months:
        return time
    day = date.fromordinal(time.day or 1)
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        raise EvaluationError("bad_value", "shift() leaves the years 1 to 9999")
    return time._replace(day=date(year, month + 1, min(day.day, _length(year, month + 1))).toordinal())


def _length(year: int, month: int) -> int:
    return 31 if month == 12 else (date(year, month + 1, 1) - date(year, month, 1)).days


def _add(time: Time, nanos: int) -> Time:
    days, rest = divmod(time.nanos + nanos, _DAY)
    moved = time._replace(nanos=rest)
    if time.day is None:
        return moved  # a time of day goes round
    if rest and not time.separator:
        moved = moved._replace(separator="T", seconds=True)
    return _in_calendar(moved._replace(day=time.day + days))


def _in_calendar(time: Time) -> Time:
    if time.day is None or not 1 <= time.day <= _LAST:
        raise EvaluationError("bad_value", "the time lies outside the years 1 to 9999")
    return time


def _write(time: Time) -> Json:
    if time.number:
        seconds = Decimal(time.instant - _EPOCH * _DAY).scaleb(-9, CONTEXT)
        return int(seconds) if seconds == int(seconds) else plain(seconds)
    if time.day is None:
        return _write_clock(time)
    text = date.fromordinal(time.day).isoformat()
    return f"{text}{time.separator}{_write_clock(time)}{time.zone}" if time.separator else text


def _write_clock(time: Time) -> str:
    minutes, rest = divmod(time.nanos, 60 * _NANO)
    seconds, fraction = divmod(rest, _NANO)
    text = f"{minutes // 60:0{1 if time.one_digit else 2}}:{minutes % 60:02}"
    if not (time.seconds or rest):
        return text
    digits = f"{fraction:09}".rstrip("0").ljust(time.digits, "0")
    return f"{text}:{seconds:02}" + (f".{digits}" if digits else "")


_DIRECTIVE = re.compile(r"%(-?[A-Za-z%]|$|.)", re.DOTALL)


def _directive(text: str, time: Time) -> str:
    if text == "%%":
        return "%"
    write, dated = _WRITERS.get(text.replace("-", ""), (None, False))
    if write is None or ("-" in text and text[2:] not in tuple("dmyjHIMS")):
        raise EvaluationError(
            "bad_value",
            "format_time() does not know this directive; it knows " + " ".join(_WRITERS) + " %%",
            f", not {shorten(text)!r}",
        )
    if dated and time.day is None:
        raise EvaluationError("bad_value", "a time of day has no date to write")
    written = write(time)
    return written.lstrip("0") or "0" if "-" in text else written


def _date(time: Time) -> date:
    return date.fromordinal(time.day or 1)


def _hour(time: Time) -> int:
    return time.nanos // (3_600 * _NANO)


def _signed(time: Time) -> str:
    sign, minutes = "-" if time.offset < 0 else "+", abs(time.offset) // 60
    return f"{sign}{minutes // 60:02}{minutes % 60:02}"


_WRITERS: dict[str, tuple[Any, bool]] = {
    "%Y": (lambda t: f"{_date(t).year:04}", True),
    "%y": (lambda t: f"{_date(t).year % 100:02}", True),
    "%m": (lambda t: f"{_date(t).month:02}", True),
    "%B": (lambda t: _MONTHS[_date(t).month - 1], True),
    "%b": (lambda t: _MONTHS[_date(t).month - 1][:3], True),
    "%d": (lambda t: f"{_date(t).day:02}", True),
    "%j": (lambda t: f"{_day_of_year(t):03}", True),
    "%A": (lambda t: _DAYS[_date(t).weekday()], True),
    "%a": (lambda t: _DAYS[_date(t).weekday()][:3], True),
    "%u": (lambda t: str(_date(t).isoweekday()), True),
    "%G": (lambda t: f"{_date(t).isocalendar().year:04}", True),
    "%V": (lambda t: f"{_date(t).isocalendar().week:02}", True),
    "%F": (lambda t: _date(t).isoformat(), True),
    "%H": (lambda t: f"{_hour(t):02}", False),
    "%I": (lambda t: f"{_hour(t) % 12 or 12:02}", False),
    "%p": (lambda t: "AM" if _hour(t) < 12 else "PM", False),
    "%M": (lambda t: f"{t.nanos // (60 * _NANO) % 60:02}", False),
    "%S": (lambda t: f"{t.nanos // _NANO % 60:02}", False),
    "%f": (lambda t: f"{t.nanos % _NANO // 1000:06}", False),
    "%T": (lambda t: f"{_hour(t):02}:{t.nanos // (60 * _NANO) % 60:02}:{t.nanos // _NANO % 60:02}", False),
    "%z": (_signed, True),
}
"""Each directive, and whether it needs a date."""


def _day_of_year(time: Time) -> int:
    day = _date(time)
    return day.toordinal() - date(day.year, 1, 1).toordinal() + 1
