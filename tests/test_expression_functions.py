"""Functions, methods and times: every example of the reference is true, and jobs that people have can be said."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreplan.policies.expressions import (
    FUNCTIONS,
    METHODS,
    EvaluationError,
    ExpressionError,
    Function,
    code_table,
    language_table,
    parse,
)

DESIGNED = [
    "len",
    "sum",
    "min",
    "max",
    "sorted",
    "any",
    "all",
    "abs",
    "round",
    "str",
    "number",
    "zip",
    "enumerate",
    "range",
    "reversed",
    "unique",
    "group",
    "index",
    "flat",
    "join",
    "first",
    "running",
    "shift",
    "between",
    "format_time",
]
METHODS_DESIGNED = [
    "get",
    "keys",
    "values",
    "items",
    "lower",
    "upper",
    "strip",
    "split",
    "startswith",
    "endswith",
    "replace",
    "join",
]


def value(text: str, /, **names: Any) -> Any:
    return parse(text).evaluate(names)


def test_the_functions_are_the_designed_ones() -> None:
    """No more and no fewer."""
    assert list(FUNCTIONS) == DESIGNED
    assert list(METHODS) == METHODS_DESIGNED


@pytest.mark.parametrize(
    "function", [*FUNCTIONS.values(), *METHODS.values()], ids=lambda f: f.signature.split("(")[0]
)
def test_every_example_is_true(function: Function) -> None:
    """The example of each function gives the result beside it, type included."""
    assert repr(value(function.example)) == repr(value(function.result))


@pytest.mark.parametrize(
    "function", [*FUNCTIONS.values(), *METHODS.values()], ids=lambda f: f.signature.split("(")[0]
)
def test_every_function_takes_what_its_table_says(function: Function) -> None:
    """Too few and too many arguments are refused when the text is parsed, and every named argument is accepted."""
    call = f"x.{function.name}" if function.signature.partition("(")[0].count(".") else function.name
    needed = [f"{name}=lambda v: v" for name in sorted(function.needs)]
    for name in sorted(function.options - function.needs):
        given = ["x"] * function.least + needed + [f"{name}=" + ("lambda v: v" if name == "key" else "x")]
        parse(f"{call}({', '.join(given)})")
    for count in {function.least - 1, function.most + 1} - {-1, 51}:
        with pytest.raises(ExpressionError) as caught:
            parse(f"{call}({', '.join(['x'] * count)})")
        assert caught.value.code == "bad_call"


@pytest.mark.parametrize(
    "function", [*FUNCTIONS.values(), *METHODS.values()], ids=lambda f: f.signature.split("(")[0]
)
@pytest.mark.parametrize("wrong", ["n", "b", "t", "o", "f", "xs", "rows"])
def test_every_function_is_polite_about_any_argument(function: Function, wrong: str) -> None:
    """Null, a boolean, text, an object, a float or lists of them: a value or an error, never a crash."""
    data: dict[str, Any] = {
        "n": None,
        "b": True,
        "t": "text",
        "o": {"a": [1]},
        "f": 2.5,
        "xs": [1, None, "x", {}],
        "rows": [{"a": 1}, {}],
    }
    call = f"{wrong}.{function.name}" if function.signature.partition("(")[0].count(".") else function.name
    keys = [f"{name}=lambda v: v" for name in sorted(function.needs)]
    for count in range(function.least, min(function.most, 4) + 1):
        for option in [None, *sorted(function.options - function.needs - {"key"})]:
            given = [wrong] * count + keys + ([f"{option}={wrong}"] if option else [])
            try:
                text = f"{call}({', '.join(given)})"
                parse(text).evaluate(data)
            except (EvaluationError, ExpressionError) as error:
                assert str(error)  # noqa: PT017 - an error is one of the outcomes


def test_the_tables_of_the_reference_name_everything() -> None:
    """Each function, method and code has its row."""
    table, codes = language_table(), code_table()
    for function in (*FUNCTIONS.values(), *METHODS.values()):
        assert f"| `{function.signature}` |" in table
        assert function.doc.endswith(".")
    for code in (*ExpressionError.CODES, *EvaluationError.CODES):
        assert f"| `{code}` |" in codes


# -- times


@given(st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31)), st.integers(-4_000_000, 4_000_000))
def test_days_are_those_of_the_calendar(day: dt.date, days: int) -> None:
    """`shift` and `between` agree with the standard library, and refuse to leave its calendar."""
    text = day.isoformat()
    try:
        moved = (day + dt.timedelta(days=days)).isoformat()
    except OverflowError:
        with pytest.raises(EvaluationError):
            value("shift(d, days=n)", d=text, n=days)
        return
    assert value("shift(d, days=n)", d=text, n=days) == moved
    assert value("between(d, e)", d=text, e=moved) == days


@given(
    st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30)),
    st.integers(-(10**6), 10**6),
    st.integers(-(10**6), 10**6),
)
def test_moments_are_those_of_the_standard_library(moment: dt.datetime, seconds: int, minutes: int) -> None:
    """To the microsecond, in the form they were given."""
    try:
        moved = moment + dt.timedelta(seconds=seconds, minutes=minutes)
    except OverflowError:
        return
    text = moment.isoformat(timespec="microseconds")
    assert value("shift(t, seconds=s, minutes=m)", t=text, s=seconds, m=minutes) == moved.isoformat(
        timespec="microseconds"
    )
    assert value("between(t, u, 'seconds')", t=text, u=moved.isoformat()) == seconds + 60 * minutes
    assert value("format_time(t, '%d %m %H:%M:%S.%f %j %p %I %y %u %G-W%V')", t=text) == moment.strftime(
        "%d %m %H:%M:%S.%f %j %p %I %y %u "
    ) + "{:04}-W{:02}".format(*moment.isocalendar())


@given(st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1)))
def test_numbers_are_seconds_since_1970(moment: dt.datetime) -> None:
    """A number and the text of the same moment are the same time."""
    seconds = (moment.replace(microsecond=0) - dt.datetime(1970, 1, 1)) // dt.timedelta(seconds=1)
    assert (
        value("between(n, t, 'seconds')", n=seconds, t=moment.replace(microsecond=0).isoformat() + "Z") == 0
    )
    assert value("format_time(n, '%F %T')", n=seconds) == moment.strftime("%Y-%m-%d %H:%M:%S")
    assert value("shift(n, hours=1)", n=seconds) == seconds + 3600
    assert value("shift(n, hours=1)", n=float(seconds)) == float(seconds + 3600)


@given(
    st.text(max_size=25)
    | st.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9:.]{0,12}(Z|[+-][0-9:]{4,5})?)?", fullmatch=True)
)
def test_any_text_is_a_time_or_an_error(text: str) -> None:
    """Impossible dates and hours are errors with a sentence."""
    for call in (
        "shift(t, days=1)",
        "shift(t, months=-1, seconds=0.5)",
        "between(t, '2024-01-01')",
        "format_time(t, '%A %d %B %Y')",
    ):
        try:
            parse(call).evaluate({"t": text})
        except EvaluationError as error:
            assert error.code == "bad_value"  # noqa: PT017 - an error is one of the outcomes


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("between('9:30', '17:00', 'minutes')", 450),
        ("between('2024-11-15 9:05', '2024-11-15T10:05:00', 'hours')", 1),
        ("shift('9:30', minutes=45)", "10:15"),
        ("shift('9:30', hours=-1)", "8:30"),
        ("shift('09:30', hours=-1)", "08:30"),
        ("shift('2024-11-15 9:05', days=1)", "2024-11-16 9:05"),
        ("format_time('9:05', '%H:%M')", "09:05"),
    ],
)
def test_an_hour_may_have_one_digit(text: str, result: Any) -> None:
    """As people write it, and as it was given; `format_time` makes it two."""
    assert value(text) == result


def test_months_end_where_they_end() -> None:
    """A day that the month does not have is its last one, and a leap day comes back."""
    assert value("[shift('2023-01-31', months=n) for n in range(1, 5)]") == [
        "2023-02-28",
        "2023-03-31",
        "2023-04-30",
        "2023-05-31",
    ]
    assert value("shift(shift('2024-02-29', years=1), years=3)") == "2028-02-28"
    assert value("shift('2024-01-31T10:00:00+02:00', months=1, days=1)") == "2024-03-01T10:00:00+02:00"


# -- jobs

LAUNCH = {"created": "2024-01-10", "name": "old"}
JOBS: dict[str, tuple[str, dict[str, Any], Any]] = {
    "create the event at 10:00 if free, else at 16:00": (
        "'16:00' if any(e.start <= '2024-05-19T10:00:00' < e.end for e in day) else '10:00'",
        {"day": [{"start": "2024-05-19T10:00:00", "end": "2024-05-19T11:00:00"}]},
        "16:00",
    ),
    "best-rated hotel, ties by price, from texts": (
        "sorted(ratings.keys(), key=lambda h: (-number(ratings[h].split('\\n')[0].replace('Rating: ', '')),"
        " -number(prices[h].split(' - ')[1])))[0]",
        {
            "ratings": {"Le Marais": "Rating: 4.2\nx", "Good Night": "Rating: 5.0\nx", "Luxury": "Rating: 5.0\nx"},
            "prices": {"Le Marais": "Price range: 120.0 - 180.0", "Good Night": "Price range: 240.0 - 400.0", "Luxury": "Price range: 500.0 - 1000.0"},
        },
        "Luxury",
    ),
    "vegan restaurant, best rated, then cheapest": (
        "sorted([n for n, d in diet.items() if 'Vegan' in d], key=lambda n: (-rating[n], price[n]))[0]",
        {"diet": {"A": "Vegan available", "B": "Gluten-free", "C": "Vegan available"}, "rating": {"A": 4.5, "C": 4.5}, "price": {"A": 40.0, "C": 20.0}},
        "C",
    ),
    "hotel, restaurant and total trip cost": ("hotel.price * 3 + meal * 2 * 2 * 3", {"hotel": {"price": 110.0}, "meal": 60.0}, 1050.0),
    "send back the difference": (
        "first([t for t in sent if t.sender == friend]).amount - 12.00",
        {"sent": [{"sender": "me", "amount": 1.0}, {"sender": "GB29", "amount": 16.0}], "friend": "GB29"},
        4.0,
    ),
    "19.5 % of an amount plus a fee, to the cent": ("round(paid * 0.195 + 5.29, 2)", {"paid": 1000.0}, 200.29),
    "spending in March": (
        "sum(t.amount for t in rows if t.sender == 'me' and t.date.startswith('2022-03'))",
        {"rows": [{"sender": "me", "amount": 50.1, "date": "2022-03-01"}, {"sender": "me", "amount": 0.2, "date": "2022-03-04"}, {"sender": "me", "amount": 9, "date": "2022-04-01"}]},
        50.3,
    ),
    "smallest channel": ("min(channels, key=lambda c: len(messages[c]))", {"channels": ["a", "b"], "messages": {"a": [1, 2], "b": [1]}}, "b"),
    "missing users": ("[u for u in users if u not in members]", {"users": ["Ann", "Bob"], "members": ["Bob"]}, ["Ann"]),
    "most active sender": (
        "max(group(flat(channels), key=lambda m: m.sender), key=lambda g: len(g.items)).key",
        {"channels": [[{"sender": "Ann"}, {"sender": "Bob"}], [{"sender": "Bob"}]]},
        "Bob",
    ),
    "rank everyone": (
        "[f'{g.key}: {n}' for n, g in enumerate(sorted(group(flat(channels), key=lambda m: m.sender), key=lambda g: (-len(g.items), g.key)), 1)]",
        {"channels": [[{"sender": "Bob"}, {"sender": "Ann"}], [{"sender": "Bob"}, {"sender": "Cat"}]]},
        ["Bob: 1", "Ann: 2", "Cat: 3"],
    ),
    "exchange with a fallback preference": (
        "first(sorted([v for v in shop.values() if v.available and v.size == 'full'], key=lambda v: v.light != 'RGB')).id",
        {"shop": {"1": {"id": "1", "available": False, "size": "full", "light": "RGB"}, "2": {"id": "2", "available": True, "size": "full", "light": "none"}}},
        "2",
    ),
    "prefer battery over USB over AC": (
        "sorted([v for v in shop.values() if v.available and v.options['power source'] in rank], key=lambda v: rank[v.options['power source']])[0].id",
        {
            "shop": {"1": {"id": "1", "available": True, "options": {"power source": "USB"}}, "2": {"id": "2", "available": True, "options": {"power source": "battery"}}},
            "rank": {"battery": 0, "USB": 1, "AC adapter": 2},
        },
        "2",
    ),
    "cheapest up to a limit, or nothing": (
        "first(sorted([v for v in shop if v.price <= 1150], key=lambda v: v.price), None)",
        {"shop": [{"price": 1200.5}]},
        None,
    ),
    "duplicate reservations per day": (
        "[g.items[1].id for g in group(trips, key=lambda t: t.flights[0].date) if len(g.items) > 1]",
        {"trips": [{"id": "A", "flights": [{"date": "2024-05-17"}]}, {"id": "B", "flights": [{"date": "2024-05-22"}]}, {"id": "C", "flights": [{"date": "2024-05-17"}]}]},
        ["C"],
    ),
    "longer than three hours, across midnight": (
        "[f.id for f in flights if between(f.dep, f.arr, 'hours') % 24 > 3]",
        {"flights": [{"id": "x", "dep": "22:30", "arr": "01:00"}, {"id": "y", "dep": "22:30:00", "arr": "02:00:00"}]},
        ["y"],
    ),
    "price difference": ("abs(tomorrow.price - later.price)", {"tomorrow": {"price": 61.37}, "later": {"price": 59.99}}, 1.38),
    "tour on the next day if the flight is late": (
        "day if arrival < shift(day + 'T' + tour, hours=-2) else shift(day, days=1)",
        {"day": "2024-11-20", "arrival": "2024-11-20T14:30:00", "tour": "15:30"},
        "2024-11-21",
    ),
    "taxi one hour after landing": ("shift(landing, hours=1)[11:16]", {"landing": "2024-11-15T17:45:00"}, "18:45"),
    "three cheapest": ("[p.slug for p in sorted(products, key=lambda p: p.price)[:3]]", {"products": [{"slug": s, "price": p} for s, p in (("a", 9), ("b", 2.5), ("c", 7), ("d", 1))]}, ["d", "b", "c"]),
    "reconcile bank and invoices within three days": (
        "[[m.left.id, m.right.id] for m in join(bank, invoices, on='amount') if abs(between(m.right.due, m.left.date)) <= 3]",
        {
            "bank": [{"id": "b1", "amount": 100.0, "date": "2024-03-04"}, {"id": "b2", "amount": 100.0, "date": "2024-03-20"}],
            "invoices": [{"id": "i1", "amount": 100, "due": "2024-03-01"}, {"id": "i2", "amount": 7, "due": "2024-03-01"}],
        },
        [["b1", "i1"]],
    ),
    "one statement per recipient": (
        "{g.key: f'Total {sum(r.amount for r in g.items):,.2f} EUR' for g in group(rows, key=lambda r: r.mail.lower().strip())}",
        {"rows": [{"mail": "A@x", "amount": 1000.1}, {"mail": "a@x ", "amount": 234.2}, {"mail": "b@x", "amount": 1}]},
        {"a@x": "Total 1,234.30 EUR", "b@x": "Total 1.00 EUR"},
    ),
    "keys older than 90 days": ("[k.name for k in keys if between(k.created, run.started_at) > 90]", {"keys": [LAUNCH, {"created": "2024-05-01T08:00:00Z", "name": "new"}], "run": {"started_at": "2024-06-01T09:30:00Z"}}, ["old"]),
    "issues stale since a cutoff": ("[i.id for i in issues if i.updated < shift(now, days=-30)]", {"issues": [{"id": 1, "updated": "2024-04-01T00:00:00Z"}, {"id": 2, "updated": "2024-05-30T00:00:00Z"}], "now": "2024-06-01T00:00:00Z"}, [1]),
    "normalise, de-duplicate, create or update": (
        "[{**c, 'mail': c.mail.strip().lower(), 'known': c.mail.strip().lower() in index(crm, key=lambda k: k.mail)} for c in unique(new, key=lambda c: c.mail.strip().lower())]",
        {"new": [{"mail": " A@x"}, {"mail": "a@X "}, {"mail": "b@x"}], "crm": [{"mail": "a@x"}]},
        [{"mail": "a@x", "known": True}, {"mail": "b@x", "known": False}],
    ),
    "utilisation per person, those over": (
        "[{'who': p.name, 'share': f'{sum(h.hours for h in hours if h.who == p.name) / p.capacity:.0%}'} for p in people if sum(h.hours for h in hours if h.who == p.name) > 0.9 * p.capacity]",
        {"people": [{"name": "Ann", "capacity": 40}, {"name": "Bob", "capacity": 40}], "hours": [{"who": "Ann", "hours": 22.5}, {"who": "Ann", "hours": 16}, {"who": "Bob", "hours": 8}]},
        [{"who": "Ann", "share": "96%"}],
    ),
    "allocate a payment to the oldest invoices": (
        "[{'id': i.id, 'paid': max(0, min(i.amount, payment - (total - i.amount)))} for i, total in zip(due, running([i.amount for i in due]))]",
        {"due": [{"id": "a", "amount": 40.5}, {"id": "b", "amount": 30}, {"id": "c", "amount": 10}], "payment": 50.0},
        [{"id": "a", "paid": 40.5}, {"id": "b", "paid": 9.5}, {"id": "c", "paid": 0}],
    ),
    "rename files by date, skip clashes": (
        "[{'from': g.items[0], 'to': g.key} for g in group(files, key=lambda f: format_time(f.modified, '%Y-%m-%d') + '.' + f.name.split('.')[-1]) if len(g.items) == 1]",
        {"files": [{"name": "a.txt", "modified": 0}, {"name": "b.txt", "modified": 3600}, {"name": "c.csv", "modified": 86400}]},
        [{"from": {"name": "c.csv", "modified": 86400}, "to": "1970-01-02.csv"}],
    ),
    "what changed since a watermark": (
        "{'rows': [r.id for r in rows if r.at > mark], 'mark': max([r.at for r in rows] + [mark])}",
        {"rows": [{"id": 1, "at": "2024-01-01"}, {"id": 2, "at": "2024-02-01"}], "mark": "2024-01-15"},
        {"rows": [2], "mark": "2024-02-01"},
    ),
    "totals per passenger": ("sum(f.price for f in trip.flights) * len(trip.passengers)", {"trip": {"flights": [{"price": 65}, {"price": 83}], "passengers": [{}, {}]}}, 296),
    "the key itself is the value": ("first([k for k, v in user.payment_methods.items() if v.source == 'paypal'])", {"user": {"payment_methods": {"card_1": {"source": "credit_card"}, "paypal_7": {"source": "paypal"}}}}, "paypal_7"),
}  # fmt: skip


@pytest.mark.parametrize("job", JOBS)
def test_jobs_that_people_have_can_be_said(job: str) -> None:
    """The expressions that the real jobs need, each as one line."""
    text, data, result = JOBS[job]
    assert repr(value(text, **data)) == repr(result)
