"""Every function and method of the language, each with what it does and an example: the reference page is this table.

A function gets the fuel first, then its arguments; `key=` arrives as something to call. It returns fresh containers,
takes the cost of what it makes before making it, and raises nothing but `EvaluationError`. There is no clock, no
randomness, no environment and no regular expression among them: equal arguments give equal results.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from ..text import did_you_mean, shorten
from . import arithmetic, times
from .errors import EvaluationError
from .fuel import Fuel
from .values import Json, as_list, compare, is_number, key_of, missing, order, text_of, wrong

__all__ = ["FUNCTIONS", "METHODS", "Function"]

Key = Callable[[Json], Json]


class Function(NamedTuple):
    """One function, or one method (then the value before the dot is the first argument of `call`, not counted)."""

    name: str
    signature: str
    doc: str
    example: str
    result: str
    """What the example gives, as the language writes it."""
    call: Callable[..., Json]
    least: int
    most: int
    options: frozenset[str]
    """Arguments that may be given by name; `key` takes a lambda and nothing else."""
    needs: frozenset[str]
    """Options that must be given."""


class _None:
    """Stands for an option that was not given; null is a value."""


_NONE = _None()


def _itself(value: Json) -> Json:
    return value


def _len(fuel: Fuel, value: Json) -> int:
    if type(value) in (list, dict, str):
        return len(value)
    raise wrong("len()", "a list, an object or text", value)


def _sum(fuel: Fuel, values: Json, start: Json = 0) -> Json:
    items = as_list("sum()", values)
    if not is_number(start):
        raise wrong(
            "start of sum()",
            "a number",
            start,
            "flat() makes one list of several" if type(start) is list else "",
        )
    fuel.take(4 * len(items))
    return arithmetic.plain(arithmetic.total(items, start))


def _extreme(name: str, sign: int) -> Callable[..., Json]:
    def find(fuel: Fuel, *values: Json, key: Key = _itself, default: Json = _NONE) -> Json:
        items = as_list(f"{name}()", values[0]) if len(values) == 1 else list(values)
        fuel.take(4 * len(items))
        if not items:
            if default is _NONE:
                raise EvaluationError("empty", f"{name}() of an empty list; give it default=…")
            return default
        best, measure = items[0], key(items[0])
        for item in items[1:]:
            other = key(item)
            if compare(other, measure, fuel) * sign < 0:
                best, measure = item, other
        return best

    return find


def _sorted(fuel: Fuel, values: Json, *, key: Key = _itself, reverse: Json = False) -> Json:
    items = as_list("sorted()", values)
    fuel.take(len(items))
    return [items[n] for n in order([key(item) for item in items], fuel, reverse=bool(reverse))]


def _any(fuel: Fuel, values: Json) -> bool:
    items = as_list("any()", values)
    fuel.take(len(items))
    return any(items)


def _all(fuel: Fuel, values: Json) -> bool:
    items = as_list("all()", values)
    fuel.take(len(items))
    return all(items)


def _abs(fuel: Fuel, value: Json) -> Json:
    return arithmetic.absolute(value)


def _round(fuel: Fuel, value: Json, ndigits: Json = None) -> Json:
    fuel.take(4)
    return arithmetic.rounded(value, ndigits)


def _str(fuel: Fuel, value: Json = "") -> str:
    return text_of(value, fuel)


_NUMBER = re.compile(r"[-+]?(?:[0-9]+(?P<point>\.[0-9]*)?|\.[0-9]+)(?P<power>[eE][-+]?[0-9]{1,3})?")


def _number(fuel: Fuel, value: Json, default: Json = _NONE) -> Json:
    if is_number(value):
        return value
    if type(value) is str and len(value) < 1000:
        text = value.strip()
        match = _NUMBER.fullmatch(text)
        if match:
            return _read_number(text, whole=not (match["point"] or match["power"] or "." in text))
    if default is not _NONE:
        return default
    if type(value) is not str:
        raise wrong("number()", "a number or text that is one", value)
    hint = (
        " (remove signs with replace(), as in number(x.replace(',', '')))"
        if re.search("[0-9]", value)
        else ""
    )
    raise EvaluationError(
        "bad_value", f"number() reads digits with one decimal point{hint}", f", not {shorten(value, 40)!r}"
    )


def _read_number(text: str, *, whole: bool) -> Json:
    if whole:
        return int(text)
    value = float(text)
    if value - value != 0:
        raise EvaluationError("overflow", "a number becomes too large")
    return value + 0.0


def _zip(fuel: Fuel, *values: Json, strict: Json = False) -> Json:
    lists = [as_list("zip()", value) for value in values]
    lengths = {len(items) for items in lists}
    if strict and len(lengths) > 1:
        raise EvaluationError(
            "bad_value", "zip() got lists of different lengths", f": {', '.join(map(str, sorted(lengths)))}"
        )
    fuel.take(min(lengths, default=0) * (len(lists) + 6))
    return [list(row) for row in zip(*lists, strict=False)]


def _enumerate(fuel: Fuel, values: Json, start: Json = 0) -> Json:
    items = as_list("enumerate()", values)
    first = _whole("start of enumerate()", start)
    fuel.take(8 * len(items))
    return [[n, item] for n, item in enumerate(items, first)]


def _range(fuel: Fuel, *bounds: Json) -> Json:
    whole = [_whole("range()", bound) for bound in bounds]
    if len(whole) == 3 and whole[2] == 0:
        raise EvaluationError("bad_value", "range() cannot step by 0")
    numbers = range(*whole)
    # len() of a range fails beyond the machine's word; this does not.
    step = numbers.step
    fuel.take(3 * max(0, (numbers.stop - numbers.start + step - (1 if step > 0 else -1)) // step))
    return list(numbers)


def _reversed(fuel: Fuel, values: Json) -> Json:
    items = as_list("reversed()", values)
    fuel.take(len(items))
    return items[::-1]


def _unique(fuel: Fuel, values: Json, *, key: Key = _itself) -> Json:
    items = as_list("unique()", values)
    fuel.take(4 * len(items))
    found: dict[object, Json] = {}
    for item in items:
        found.setdefault(key_of(key(item), fuel), item)
    return list(found.values())


def _group(fuel: Fuel, values: Json, *, key: Key) -> Json:
    items = as_list("group()", values)
    fuel.take(12 * len(items))
    found: dict[object, dict[str, Json]] = {}
    for item in items:
        measure = key(item)
        found.setdefault(key_of(measure, fuel), {"key": measure, "items": []})["items"].append(item)
    return list(found.values())


def _index(fuel: Fuel, values: Json, *, key: Key) -> Json:
    items = as_list("index()", values)
    fuel.take(4 * len(items))
    found: dict[str, Json] = {}
    for item in items:
        name = key(item)
        if type(name) is not str:
            raise wrong("index()", "texts as keys", name, "str() makes text of a number")
        if name in found:
            raise EvaluationError(
                "duplicate_key",
                "index() found two items with one key; use group(), or unique() first",
                f": {shorten(name, 40)!r}",
            )
        found[name] = item
    return found


def _flat(fuel: Fuel, values: Json) -> Json:
    lists = as_list("flat()", values)
    for n, items in enumerate(lists):
        if type(items) is not list:
            raise wrong(f"flat(): element {n}", "a list", items)
    fuel.take(len(lists) + sum(map(len, lists)))
    return [item for items in lists for item in items]


def _join(
    fuel: Fuel,
    left: Json,
    right: Json,
    *,
    on: Json = None,
    left_on: Json = None,
    right_on: Json = None,
    how: Json = "inner",
) -> Json:
    one, other = as_list("join()", left), as_list("join()", right)
    if how not in ("inner", "left", "outer") or type(how) is not str:
        raise EvaluationError(
            "bad_value",
            "join() knows how='inner', 'left' and 'outer'",
            did_you_mean(str(how), ("inner", "outer")),
        )
    ours, theirs = _fields(on, left_on), _fields(on, right_on)
    if len(ours) != len(theirs):
        raise EvaluationError("bad_value", "join() needs as many fields in left_on= as in right_on=")
    fuel.take(4 * (len(one) + len(other)))
    return _matched(
        fuel,
        [(_row_key(r, ours, fuel), r) for r in one],
        [(_row_key(r, theirs, fuel), r) for r in other],
        how,
    )


def _fields(on: Json, own: Json) -> list[str]:
    named = own if own is not None else on
    names = [named] if type(named) is str else named
    if type(names) is list and names and all(type(n) is str for n in names):
        return names
    raise EvaluationError("bad_value", "join() needs on='field', or left_on='field' and right_on='field'")


def _row_key(row: Json, fields: list[str], fuel: Fuel) -> object:
    """Something hashable; None where a field is null, which matches nothing."""
    if type(row) is not dict:
        raise wrong("join()", "lists of objects", row)
    for field in fields:
        if field not in row:
            raise missing("a row of join()", field, row, written=False)
    values = [row[field] for field in fields]
    return None if None in values else tuple(key_of(v, fuel) for v in values)


def _matched(fuel: Fuel, left: list[tuple[object, Json]], right: list[tuple[object, Json]], how: str) -> Json:
    by_key: dict[object, list[int]] = {}
    for n, (key, _) in enumerate(right):
        if key is not None:
            by_key.setdefault(key, []).append(n)
    pairs: list[Json] = []
    used: set[int] = set()
    for key, row in left:
        found = by_key.get(key, []) if key is not None else []
        fuel.take(8 * len(found) + 8)
        used.update(found)
        pairs += [{"left": row, "right": right[n][1]} for n in found]
        if not found and how != "inner":
            pairs.append({"left": row, "right": None})
    if how == "outer":
        pairs += [{"left": None, "right": row} for n, (_, row) in enumerate(right) if n not in used]
    return pairs


def _first(fuel: Fuel, values: Json, default: Json = _NONE) -> Json:
    items = as_list("first()", values)
    if items:
        return items[0]
    if default is _NONE:
        raise EvaluationError("empty", "first() of an empty list; give it default=…")
    return default


def _running(fuel: Fuel, values: Json) -> Json:
    items = as_list("running()", values)
    fuel.take(4 * len(items))
    totals: list[Json] = []
    so_far: Json = 0
    for item in items:
        so_far = arithmetic.total([item], so_far, "running()")
        totals.append(arithmetic.plain(so_far))
    return totals


def _shift(fuel: Fuel, what: Json, **amounts: Json) -> Json:
    fuel.take(10)
    return times.shift(what, amounts)


def _between(fuel: Fuel, start: Json, end: Json, unit: Json = "days") -> Json:
    fuel.take(10)
    return times.between(start, end, unit)


def _format_time(fuel: Fuel, what: Json, form: Json) -> str:
    fuel.take(10)
    if type(form) is str:
        fuel.take_text(32 * len(form))
    return times.format_time(what, form)


def _whole(what: str, value: Json) -> int:
    if type(value) is int:
        return value
    raise wrong(what, "whole numbers", value, "round() makes one" if type(value) is float else "")


def _function(
    name: str,
    signature: str,
    doc: str,
    example: str,
    result: str,
    call: Callable[..., Json],
    count: tuple[int, int],
    options: Iterable[str] = (),
    needs: Iterable[str] = (),
) -> Function:
    return Function(name, signature, doc, example, result, call, *count, frozenset(options), frozenset(needs))


_AMOUNTS = ("years", "months", "weeks", "days", "hours", "minutes", "seconds")
_MANY = 50

FUNCTIONS: dict[str, Function] = {
    f.name: f
    for f in (
        _function(
            "len", "len(x)", "How many elements a list, keys an object, or characters a text has.",
            "len([3, 4])", "2", _len, (1, 1),
        ),
        _function(
            "sum", "sum(list, start=0)", "The exact decimal sum of numbers.",
            "sum([0.1, 0.2])", "0.3", _sum, (1, 2), ["start"],
        ),
        _function(
            "min", "min(list, key=lambda x: …, default=…)", "The smallest element, the first of equals; also `min(a, b)`.",
            "min([{'n': 2}, {'n': 1}], key=lambda x: x.n)", "{'n': 1}", _extreme("min", 1), (1, _MANY), ["key", "default"],
        ),
        _function(
            "max", "max(list, key=lambda x: …, default=…)", "The largest element, the first of equals; also `max(a, b)`.",
            "max([], default=0)", "0", _extreme("max", -1), (1, _MANY), ["key", "default"],
        ),
        _function(
            "sorted", "sorted(list, key=lambda x: …, reverse=False)",
            "The list in ascending order, equals in their old order. Several keys: a tuple, `-x` for a falling one.",
            "sorted(['bb', 'a'], key=lambda x: (len(x), x))", "['a', 'bb']", _sorted, (1, 1), ["key", "reverse"],
        ),
        _function(
            "any", "any(list)", "Whether at least one element counts as true.",
            "any(x > 2 for x in [1, 3])", "True", _any, (1, 1),
        ),
        _function(
            "all", "all(list)", "Whether every element counts as true; true for an empty list.",
            "all(x > 2 for x in [1, 3])", "False", _all, (1, 1),
        ),
        _function(
            "abs", "abs(number)", "The distance from zero.",
            "abs(-2.5)", "2.5", _abs, (1, 1),
        ),
        _function(
            "round", "round(number, ndigits=None)",
            "To so many decimal places, halves to the even digit; without `ndigits` to an integer.",
            "round(2.675, 2)", "2.68", _round, (1, 2), ["ndigits"],
        ),
        _function(
            "str", "str(x)", "Any value as text; lists and objects as JSON.",
            "str(2.50)", "'2.5'", _str, (0, 1),
        ),
        _function(
            "number", "number(text, default=…)",
            "The number that a text is: digits, a sign, one decimal point, an exponent, spaces around; nothing else. An "
            "integer where there is neither point nor exponent. `default` stands in where it is none.",
            "[number('12'), number(' 12.50'), number('n/a', 0)]", "[12, 12.5, 0]", _number, (1, 2), ["default"],
        ),
        _function(
            "zip", "zip(a, b, …, strict=False)",
            "Lists of the first elements, of the second ones, and so on; ends with the shortest, unless `strict=True`.",
            "zip([1, 2], ['a', 'b'])", "[[1, 'a'], [2, 'b']]", _zip, (1, _MANY), ["strict"],
        ),
        _function(
            "enumerate", "enumerate(list, start=0)", "Each element with its number.",
            "[f'{n}. {x}' for n, x in enumerate(['a', 'b'], 1)]", "['1. a', '2. b']", _enumerate, (1, 2), ["start"],
        ),
        _function(
            "range", "range(stop) or range(start, stop, step)", "The integers from `start` on, before `stop`.",
            "range(1, 4)", "[1, 2, 3]", _range, (1, 3),
        ),
        _function(
            "reversed", "reversed(list)", "The list from its end.",
            "reversed([1, 2])", "[2, 1]", _reversed, (1, 1),
        ),
        _function(
            "unique", "unique(list, key=lambda x: …)", "Each value (or each key) once, the first of equals, in the order of the list.",
            "unique(['b', 'a', 'b'])", "['b', 'a']", _unique, (1, 1), ["key"],
        ),
        _function(
            "group", "group(list, key=lambda x: …)",
            "Elements with equal keys together, as `{key, items}` in the order in which the keys first appear.",
            "[[g.key, len(g.items)] for g in group(['b', 'a', 'b'], key=lambda x: x)]", "[['b', 2], ['a', 1]]",
            _group, (1, 1), ["key"], ["key"],
        ),
        _function(
            "index", "index(list, key=lambda x: …)",
            "An object with each element under its key, which is text; two elements with one key are an error.",
            "index([{'id': 'a', 'n': 1}], key=lambda x: x.id).a.n", "1", _index, (1, 1), ["key"], ["key"],
        ),
        _function(
            "flat", "flat(lists)", "One list of the elements of several lists; one level.",
            "flat([[1], [], [2, 3]])", "[1, 2, 3]", _flat, (1, 1),
        ),
        _function(
            "join", "join(left, right, on='field', left_on='field', right_on='field', how='inner')",
            "The rows of two lists that agree in a field (or a list of fields), as `{left, right}` in the order of `left`. "
            "`how='left'` keeps rows of `left` without a match, `how='outer'` those of `right` too, with null on the "
            "other side. A null matches nothing.",
            "[[m.left.n, m.right.m] for m in join([{'id': 1, 'n': 'x'}], [{'ref': 1, 'm': 'y'}], left_on='id', right_on='ref')]",
            "[['x', 'y']]", _join, (2, 2), ["on", "left_on", "right_on", "how"],
        ),
        _function(
            "first", "first(list, default=…)", "The first element; `default` where there is none.",
            "first([x for x in [1, 5, 7] if x > 3], None)", "5", _first, (1, 2), ["default"],
        ),
        _function(
            "running", "running(list)", "The totals so far, one for each number.",
            "running([10, 5, 1])", "[10, 15, 16]", _running, (1, 1),
        ),
        _function(
            "shift", "shift(time, years=0, months=0, weeks=0, days=0, hours=0, minutes=0, seconds=0)",
            "A time moved on, in the form it was given. A month later than 31 January is the last of February; a time of "
            "day goes round at midnight.",
            "[shift('2024-01-31', months=1), shift('2024-11-15T23:30', hours=1), shift('23:30', minutes=45)]",
            "['2024-02-29', '2024-11-16T00:30', '00:15']", _shift, (1, 1), _AMOUNTS,
        ),
        _function(
            "between", "between(start, end, unit='days')",
            "How long from `start` to `end`, in `weeks`, `days`, `hours`, `minutes` or `seconds`; negative backwards.",
            "[between('2024-02-28', '2024-03-01'), between('23:30', '01:00', 'hours') % 24]", "[2, 1.5]",
            _between, (2, 3), ["unit"],
        ),
        _function(
            "format_time", "format_time(time, format)",
            "A time as text, in English: `%Y %m %d %H %M %S` and others of strftime; `%-d` without a leading zero.",
            "format_time('2024-03-05T14:07', '%-d %B %Y, %H:%M')", "'5 March 2024, 14:07'", _format_time, (2, 2),
        ),
    )
}  # fmt: skip
"""Every function by name."""


def _object(what: str, value: Json) -> dict[str, Json]:
    if type(value) is dict:
        return value
    raise wrong(f".{what}()", "an object", value)


def _text(what: str, value: Json) -> str:
    if type(value) is str:
        return value
    raise wrong(f".{what}()", "text", value)


def _get(fuel: Fuel, value: Json, key: Json, default: Json = None) -> Json:
    if type(key) is not str:
        raise wrong(".get()", "text as a key", key)
    return _object("get", value).get(key, default)


def _keys(fuel: Fuel, value: Json) -> Json:
    fuel.take(len(_object("keys", value)))
    return list(value)


def _values(fuel: Fuel, value: Json) -> Json:
    fuel.take(len(_object("values", value)))
    return list(value.values())


def _items(fuel: Fuel, value: Json) -> Json:
    fuel.take(8 * len(_object("items", value)))
    return [[k, v] for k, v in value.items()]


def _lower(fuel: Fuel, value: Json) -> str:
    fuel.take_text(3 * len(_text("lower", value)))
    return str(value.lower())


def _upper(fuel: Fuel, value: Json) -> str:
    fuel.take_text(3 * len(_text("upper", value)))
    return str(value.upper())


def _strip(fuel: Fuel, value: Json, characters: Json = None) -> str:
    fuel.take_text(len(_text("strip", value)))
    if characters is not None:
        fuel.take(len(value) * len(_text("strip", characters)) >> 6)
    return str(value.strip(characters))


def _split(fuel: Fuel, value: Json, sep: Json = None, maxsplit: Json = -1) -> Json:
    text = _text("split", value)
    if sep is not None and not _text("split", sep):
        raise EvaluationError("bad_value", ".split() cannot split at an empty text")
    fuel.take_text(2 * len(text))
    pieces = text.split(sep, min(max(_whole("maxsplit of .split()", maxsplit), -1), len(text)))
    fuel.take(4 * len(pieces))
    return pieces


def _startswith(fuel: Fuel, value: Json, start: Json) -> bool:
    return _text("startswith", value).startswith(_texts(fuel, "startswith", start))


def _endswith(fuel: Fuel, value: Json, end: Json) -> bool:
    return _text("endswith", value).endswith(_texts(fuel, "endswith", end))


def _texts(fuel: Fuel, what: str, value: Json) -> str | tuple[str, ...]:
    if type(value) is list:
        fuel.take(len(value))
        return tuple(_text(what, item) for item in value)
    return _text(what, value)


def _replace(fuel: Fuel, value: Json, old: Json, new: Json, count: Json = -1) -> str:
    text, old, new = _text("replace", value), _text("replace", old), _text("replace", new)
    times_at_most = _whole("count of .replace()", count)
    fuel.take_text(len(text))
    places = text.count(old)
    if times_at_most >= 0:
        places = min(places, times_at_most)
    fuel.take_text(len(text) + places * len(new))
    return text.replace(old, new, places)


def _join_texts(fuel: Fuel, value: Json, parts: Json) -> str:
    between = _text("join", value)
    items = as_list(".join()", parts)
    for n, item in enumerate(items):
        if type(item) is not str:
            raise wrong(f".join(): element {n}", "text", item, "str(x) makes text of it")
    fuel.take(len(items))
    fuel.take_text(sum(map(len, items)) + len(between) * len(items))
    return between.join(items)


METHODS: dict[str, Function] = {
    f.name: f
    for f in (
        _function(
            "get", "object.get(key, default=None)", "The value of a key that may be absent; `None` or the default then.",
            "{'a': 1}.get('b', 0)", "0", _get, (1, 2), ["default"],
        ),
        _function("keys", "object.keys()", "The keys, in their order.", "{'a': 1}.keys()", "['a']", _keys, (0, 0)),
        _function("values", "object.values()", "The values, in the order of the keys.", "{'a': 1}.values()", "[1]", _values, (0, 0)),
        _function(
            "items", "object.items()", "Each key with its value, as a list of two.",
            "[f'{k}={v}' for k, v in {'a': 1}.items()]", "['a=1']", _items, (0, 0),
        ),
        _function("lower", "text.lower()", "Small letters.", "'Ab'.lower()", "'ab'", _lower, (0, 0)),
        _function("upper", "text.upper()", "Capital letters.", "'Ab'.upper()", "'AB'", _upper, (0, 0)),
        _function(
            "strip", "text.strip(characters=None)", "Without white space (or the given characters) at both ends.",
            "' a '.strip()", "'a'", _strip, (0, 1),
        ),
        _function(
            "split", "text.split(sep=None, maxsplit=-1)", "The parts between separators; without one, the words.",
            "'a, b'.split(', ')", "['a', 'b']", _split, (0, 2), ["sep", "maxsplit"],
        ),
        _function(
            "startswith", "text.startswith(text)", "Whether it starts so; a list of texts: with any of them.",
            "'abc'.startswith('ab')", "True", _startswith, (1, 1),
        ),
        _function(
            "endswith", "text.endswith(text)", "Whether it ends so; a list of texts: with any of them.",
            "'a.csv'.endswith(('.csv', '.tsv'))", "True", _endswith, (1, 1),
        ),
        _function(
            "replace", "text.replace(old, new, count=-1)", "With every (or the first `count`) `old` replaced.",
            "'1,250'.replace(',', '')", "'1250'", _replace, (2, 3), ["count"],
        ),
        _function(
            "join", "text.join(list)", "The texts of a list with this text between them.",
            "', '.join(['a', 'b'])", "'a, b'", _join_texts, (1, 1),
        ),
    )
}  # fmt: skip
"""Every method by name; they exist as calls only: `a.items` without brackets is the key `items`."""
