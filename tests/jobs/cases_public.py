"""Jobs that people describe in public, in small services and books. A run starts on 1 June 2030 at 9:00."""

from __future__ import annotations

from typing import Any

from jobs.job import Case
from jobs.tools_ledgers import BankRow, Customer, InvoiceRow, Ledger, OpenInvoice, Payment
from jobs.tools_operations import (
    Change,
    Exports,
    Folder,
    Key,
    Mirror,
    Pages,
    Photo,
    Pipeline,
    Reading,
    Reports,
    Row,
    Vault,
)
from jobs.tools_people import (
    Capacity,
    Contact,
    Crm,
    Directory,
    Hours,
    Issue,
    Lead,
    Person,
    Staff,
    Tracker,
    Trips,
)
from jobs.world import Call, call

__all__ = ["CASES"]


def saved(*rows: tuple[str, float]) -> list[Call]:
    return [call("save_rows", rows=[{"id": id, "amount": amount} for id, amount in rows])]


PAGING = [
    Case(
        "P01",
        "three pages, the second of them empty",
        lambda: Pages([[Row("a", 0.1), Row("b", 0.2)], [], [Row("c", 0.3)]]),
        asked=["0", "1", "2"],
        did=saved(("a", 0.1), ("b", 0.2), ("c", 0.3)),
        output={"rows": 3, "total": 0.6},
    ),
    Case(
        "P01", "one page with nothing on it", lambda: Pages([[]]), did=saved(), output={"rows": 0, "total": 0}
    ),
    Case(
        "P01",
        "more pages than there may be: nothing is saved as if it were all",
        lambda: Pages([[]] * 51),
        asked=[str(n) for n in range(50)],
        failures=["pages"],
        state="failed",
    ),
]


def started(name: str) -> Call:
    return call("start_export", name=name)


def downloaded(name: str) -> Call:
    return call("download", url=f"https://files/job {name}")


EXPORT = [
    Case(
        "P02",
        "ready at the third look, a minute after the first",
        lambda: Exports({"x": ("done", 3)}),
        {"name": "x"},
        did=[started("x"), downloaded("x")],
        seconds=60,
        output={"bytes": 19, "looks": 3},
    ),
    Case(
        "P02",
        "ready at once",
        lambda: Exports({"x": ("done", 1)}),
        {"name": "x"},
        did=[started("x"), downloaded("x")],
        seconds=0,
    ),
    Case(
        "P02",
        "the export fails: nothing is downloaded",
        lambda: Exports({"x": ("failed", 2)}),
        {"name": "x"},
        did=[started("x")],
        failures=["file"],
        state="failed",
    ),
    Case(
        "P02",
        "never ready: given up after twenty looks",
        lambda: Exports({"x": ("done", 99)}),
        {"name": "x"},
        did=[started("x")],
        seconds=19 * 30,
        failures=["looks"],
        state="failed",
    ),
    Case(
        "P06",
        "three at once: one is quick, one slow, one fails",
        lambda: Exports({"a": ("done", 1), "b": ("done", 4), "c": ("failed", 2)}),
        {"reports": ["a", "b", "c"]},
        did=[started("a"), started("b"), started("c"), downloaded("a"), downloaded("b")],
        in_any_order=True,
        seconds=30,
        failures=["files[2].url"],
        output={"files": [{"report": "a", "bytes": 19}, {"report": "b", "bytes": 19}], "missing": ["c"]},
    ),
    Case(
        "P06",
        "one never comes: the others do not wait for it",
        lambda: Exports({"a": ("done", 1), "b": ("done", 7)}),
        {"reports": ["b", "a"]},
        did=[started("b"), started("a"), downloaded("a")],
        in_any_order=True,
        failures=["files[0].looks"],
        output={"files": [{"report": "a", "bytes": 19}], "missing": ["b"]},
    ),
    Case("P06", "no reports", Exports, {"reports": []}, output={"files": [], "missing": []}),
]

FILES = {"bank": "bank.csv", "invoices": "invoices.csv"}


def marked(invoice: str, payment: str) -> Call:
    return call("mark_paid", invoice=invoice, payment=payment)


RECONCILING = [
    Case(
        "P03",
        "three days are near enough, four are not; thousands have commas; across the end of a leap February",
        lambda: Ledger(
            bank=[
                BankRow("b1", "2028-03-01", "1,250.00"),
                BankRow("b2", "2028-03-05", "80.1"),
                BankRow("b3", "2028-03-05", "5.00"),
            ],
            invoices=[
                InvoiceRow("i1", "2028-02-27", "1250"),
                InvoiceRow("i2", "2028-03-09", "80.10"),
                InvoiceRow("i3", "2028-03-01", "80.10"),
                InvoiceRow("i4", "2028-03-05", "5.01"),
            ],
        ),
        FILES,
        did=[marked("i1", "b1")],
        output={"paid": ["i1"], "ambiguous": [], "unmatched": ["b2", "b3"], "unpaid": ["i2", "i3", "i4"]},
    ),
    Case(
        "P03",
        "two payments for one invoice: for a person to decide; the third is certain",
        lambda: Ledger(
            bank=[
                BankRow("b1", "2030-03-01", "10"),
                BankRow("b2", "2030-03-02", "10.00"),
                BankRow("b3", "2030-03-02", "7"),
            ],
            invoices=[InvoiceRow("i1", "2030-03-01", "10"), InvoiceRow("i2", "2030-03-04", "7.0")],
        ),
        FILES,
        did=[marked("i2", "b3")],
        output={"paid": ["i2"], "ambiguous": ["b1", "b2"], "unmatched": [], "unpaid": []},
    ),
    Case(
        "P03",
        "two empty files",
        Ledger,
        FILES,
        output={"paid": [], "ambiguous": [], "unmatched": [], "unpaid": []},
    ),
]

TRIP = {"town": "Oslo", "day": "2030-07-01", "nights": 3}
CAR = call("book_car", town="Oslo", day="2030-07-01", days=4)
HOTEL = call("book_hotel", town="Oslo", day="2030-07-01", nights=3)
FLIGHT = call("book_flight", town="Oslo", day="2030-07-01")
NO_CAR, NO_HOTEL = call("cancel_car", ref="car-1"), call("cancel_hotel", ref="hotel-1")

SAGA = [
    Case(
        "P04",
        "all three are to be had",
        Trips,
        TRIP,
        did=[CAR, HOTEL, FLIGHT],
        output={"booked": ["car-1", "hotel-1", "flight-1"]},
    ),
    Case(
        "P04",
        "no flight: hotel and car are given back, in this order",
        lambda: Trips(sold_out=frozenset({"flight"})),
        TRIP,
        did=[CAR, HOTEL, NO_HOTEL, NO_CAR],
        refused=[FLIGHT],
        failures=["flight"],
        state="failed",
    ),
    Case(
        "P04",
        "no hotel: only the car is given back",
        lambda: Trips(sold_out=frozenset({"hotel"})),
        TRIP,
        did=[CAR, NO_CAR],
        refused=[HOTEL],
        failures=["hotel"],
        state="failed",
    ),
    Case(
        "P04",
        "the hotel cannot be cancelled: the car still is",
        lambda: Trips(sold_out=frozenset({"flight"}), fixed=frozenset({"hotel"})),
        TRIP,
        did=[CAR, HOTEL, NO_CAR],
        refused=[FLIGHT, NO_HOTEL],
        failures=["flight"],
        state="failed",
    ),
]


def loaded(path: str, *rows: tuple[str, float]) -> Call:
    return call("load_rows", source=path, rows=[{"sensor": s, "value": v} for s, v in rows])


LOADING = [
    Case(
        "P05",
        "one file is read slowly and loaded quickly, one the other way round: no barrier between them",
        lambda: Pipeline(
            {"a": [Reading(" t1", "21,5"), Reading("t2", "-")], "b": [Reading("t3", "7")]}, {"a": 9, "b": 1}
        ),
        {"paths": ["a", "b"]},
        did=[loaded("a", ("T1", 21.5)), loaded("b", ("T3", 7))],
        in_any_order=True,
        seconds=10,
        output={"loaded": 2, "failed": []},
    ),
    Case(
        "P05",
        "one file is not there, one holds no number, one is empty: the others are loaded",
        lambda: Pipeline({"a": [Reading("t", "warm")], "b": [Reading("t", "7")], "c": []}),
        {"paths": ["x", "a", "b", "c"]},
        did=[loaded("b", ("T", 7))],
        failures=["loaded[0].readings", "loaded[1].rows"],
        output={"loaded": 1, "failed": ["x", "a"]},
    ),
    Case("P05", "no files", Pipeline, {"paths": []}, output={"loaded": 0, "failed": []}),
]

STATEMENTS = [
    Case(
        "P07",
        "totals to the cent, payments by day, thousands with commas; one customer has no address",
        lambda: Ledger(
            payments=[
                Payment("Ann", 1250.5, "2030-03-20"),
                Payment("Bob", 7.0, "2030-03-02"),
                Payment("Ann", 0.1, "2030-03-05"),
                Payment("Ann", 9.0, "2030-04-01"),
            ],
            customers=[Customer("Ann", "ann@x.org"), Customer("Bob", None), Customer("Cid", "cid@x.org")],
        ),
        {"month": "2030-03"},
        did=[
            call(
                "send_email",
                to="ann@x.org",
                subject="Your payments in March 2030",
                body="5 March: 0.10\n20 March: 1,250.50\nTotal: 1,250.60",
            )
        ],
        output={"sent": 1, "without_address": ["Bob"]},
    ),
    Case("P07", "nobody paid", Ledger, {"month": "2030-03"}, output={"sent": 0, "without_address": []}),
]


def rotation(service: str, old: str) -> list[Call]:
    return [
        call("create_key", service=service),
        call("use_key", service=service, key=f"{service}-new"),
        call("revoke_key", key=old),
    ]


KEYS = [
    Case(
        "P08",
        "91 days are too old, 90 are not",
        lambda: Vault([Key("k1", "web", "2030-03-02"), Key("k2", "db", "2030-03-03T09:00:00Z")]),
        did=rotation("web", "k1"),
        output={"rotated": ["web-new"]},
    ),
    Case(
        "P08",
        "the new key does not work: it is deleted, the old one stays; the other service is not held up",
        lambda: Vault(
            [Key("k1", "web", "2030-01-01"), Key("k2", "db", "2030-01-01")], bad=frozenset({"web"})
        ),
        did=[call("create_key", service="web"), call("delete_key", key="web-new"), *rotation("db", "k2")],
        in_any_order=True,
        failures=["rotated[0].tried"],
        output={"rotated": ["db-new"]},
    ),
    Case(
        "P08",
        "the old key cannot be revoked: the service goes back to it, then the new one is deleted",
        lambda: Vault([Key("k1", "web", "2030-01-01")], held=frozenset({"k1"})),
        did=[
            *rotation("web", "k1")[:2],
            call("use_key", service="web", key="k1"),
            call("delete_key", key="web-new"),
        ],
        refused=[call("revoke_key", key="k1")],
        failures=["rotated[0].revoked"],
        output={"rotated": []},
    ),
    Case("P08", "no keys", Vault, output={"rotated": []}),
]

PROVIDERS = {"providers": ["one", "two", "three"]}
SEARCH = [
    Case(
        "P09",
        "the first gives a dead address, the second knows nothing, the third is right; another is found at once",
        lambda: Directory(
            [Person("Ann", "X"), Person("Bob", "Y")],
            {"one": {"Ann": "ann@dead", "Bob": "bob@y"}, "two": {"Bob": "b@y"}, "three": {"Ann": "ann@x"}},
            frozenset({"ann@dead"}),
        ),
        PROVIDERS,
        asked=["one: Ann", "two: Ann", "three: Ann", "one: Bob"],
        did=[
            call("save_address", name="Ann", address="ann@x"),
            call("save_address", name="Bob", address="bob@y"),
        ],
        in_any_order=True,
        output={"missing": []},
    ),
    Case(
        "P09",
        "the first provider is down",
        lambda: Directory([Person("Ann", "X")], {"two": {"Ann": "ann@x"}, "three": {}}),
        PROVIDERS,
        asked=["one: Ann", "two: Ann"],
        did=[call("save_address", name="Ann", address="ann@x")],
        failures=["found[0].attempts[0].answer"],
        output={"missing": []},
    ),
    Case(
        "P09",
        "nobody knows her",
        lambda: Directory([Person("Ann", "X")], {"one": {}, "two": {}, "three": {}}),
        PROVIDERS,
        asked=["one: Ann", "two: Ann", "three: Ann"],
        failures=["found[0].attempts"],
        output={"missing": ["Ann"]},
    ),
    Case("P09", "no people", Directory, PROVIDERS, output={"missing": []}),
]

ISSUES = [
    Case(
        "P10",
        "sixty days without activity are warned, a day less is not; fourteen days after the warning it is closed",
        lambda: Tracker(
            [
                Issue(1, "ann", "2030-04-02T09:00:00Z"),
                Issue(2, "bob", "2030-04-02T09:00:01Z"),
                Issue(3, "cid", "2030-01-01T00:00:00Z", ["pinned"]),
                Issue(4, "dan", "2030-03-01T00:00:00Z", ["stale"], "2030-05-18T09:00:00Z"),
                Issue(5, "eve", "2030-05-20T00:00:00Z", ["stale"], "2030-05-01T00:00:00Z"),
                Issue(6, "fay", "2030-03-01T00:00:00Z", ["stale"], "2030-05-18T10:00:00Z"),
            ]
        ),
        did=[
            call("comment", number=1, text="@ann: no activity for 60 days; this will be closed in 14 days."),
            call("add_label", number=1, label="stale"),
            call("close_issue", number=4),
        ],
        in_any_order=True,
        output={"warned": [1], "closed": [4]},
    ),
    Case(
        "P10",
        "the comment comes before the label",
        lambda: Tracker([Issue(1, "ann", "2029-01-01T00:00:00Z")]),
        {"silent": 365, "grace": 1},
        did=[
            call("comment", number=1, text="@ann: no activity for 365 days; this will be closed in 1 days."),
            call("add_label", number=1, label="stale"),
        ],
    ),
    Case("P10", "no issues", Tracker, output={"warned": [], "closed": []}),
]

CONTACTS = [
    Case(
        "P11",
        "one address twice, once in capitals: the later entry counts; one known and changed, one as it was, one nonsense",
        lambda: Crm(
            [
                Lead("Ann@X.org ", "Ann"),
                Lead("bob@x.org", "Bob  Roe", "1 2"),
                Lead("ann@x.org", " Ann   Lee", "33 44"),
                Lead("none", "Nobody"),
                Lead("cid@x.org", "Cid", "5"),
            ],
            [Contact("c1", "bob@x.org", "Bob Roe", "0"), Contact("c2", "cid@x.org", "Cid", "5")],
        ),
        did=[
            call("create_contact", email="ann@x.org", name="Ann Lee", phone="3344"),
            call("update_contact", id="c1", name="Bob Roe", phone="12"),
        ],
        in_any_order=True,
        output={"as it was": 1, "created": 1, "updated": 1},
    ),
    Case("P11", "no leads", Crm, output={}),
]

SHELF: dict[str, Any] = {"thing": "a shelf", "suppliers": ["A", "B", "C"]}


def offers(**prices: float) -> Ledger:
    return Ledger(quotes={supplier: (price, 5) for supplier, price in prices.items()})


def ordered(supplier: str, price: float) -> list[Call]:
    return [call("place_order", supplier=supplier, thing="a shelf", price=price)]


BUYING = [
    Case(
        "P12",
        "one supplier makes no offer; the buyer takes the dearer one, for exactly 1,000: nobody else is asked",
        lambda: offers(A=1000.0, B=900.0),
        SHELF,
        answers={"pick": "A"},
        did=ordered("A", 1000.0),
        failures=["offers[2]"],
        output={"ordered": True},
    ),
    Case(
        "P12",
        "a cent above 1,000, and approved",
        lambda: offers(A=1000.01, B=900.0, C=2000.0),
        SHELF,
        answers={"pick": "A", "approved": "yes"},
        did=ordered("A", 1000.01),
        output={"ordered": True},
    ),
    Case(
        "P12",
        "not approved: nothing is ordered, and that is no failure",
        lambda: offers(A=1000.01, B=900.0, C=2000.0),
        SHELF,
        answers={"pick": "C", "approved": "no"},
        output={"ordered": False},
    ),
    Case(
        "P12",
        "the buyer picks none",
        lambda: offers(A=1.0, B=2.0, C=3.0),
        SHELF,
        failures=["pick"],
        state="failed",
    ),
    Case(
        "P12",
        "no offers: nobody is asked",
        Ledger,
        SHELF,
        failures=["offers[0]", "offers[1]", "offers[2]", "pick"],
        state="failed",
    ),
]

WEEK = {"week": "2030-W22"}
UTILISATION = [
    Case(
        "P13",
        "exactly full is not over; no capacity is; who is in no list of capacities is left out",
        lambda: Staff(
            [
                Hours("Ann", "a", 30.1),
                Hours("Ann", "b", 10.2),
                Hours("Bob", "a", 20),
                Hours("Cid", "a", 1),
                Hours("Dan", "a", 9),
            ],
            [
                Capacity("Ann", 40.3, "lea"),
                Capacity("Bob", 16, "lea"),
                Capacity("Cid", 0, "max"),
                Capacity("Eve", 40, "max"),
            ],
        ),
        WEEK,
        did=[
            call("send_alert", to="lea", text="Bob: 20 h, 125.0%"),
            call("send_alert", to="max", text="Cid: 1 h, no capacity"),
        ],
        in_any_order=True,
        output={"shares": {"Ann": 1.0, "Bob": 1.25, "Cid": None}, "over": ["Bob", "Cid"]},
    ),
    Case("P13", "nobody worked", Staff, WEEK, output={"shares": {}, "over": []}),
]


def owes() -> Ledger:
    return Ledger(
        unpaid=[
            OpenInvoice("i2", "2030-02-01", 0.2),
            OpenInvoice("i3", "2030-03-01", 50.0),
            OpenInvoice("i1", "2030-01-01", 0.1),
        ]
    )


def applied(invoice: str, amount: float) -> Call:
    return call("apply_payment", invoice=invoice, amount=amount)


def kept(amount: float) -> Call:
    return call("book_credit", customer="Ann", amount=amount)


def pays(amount: float) -> dict[str, Any]:
    return {"customer": "Ann", "amount": amount}


ALLOCATION = [
    Case(
        "P14",
        "two invoices in full, the third in part",
        owes,
        pays(10.3),
        did=[applied("i1", 0.1), applied("i2", 0.2), applied("i3", 10.0)],
        in_any_order=True,
        output={
            "parts": [
                {"number": "i1", "amount": 0.1},
                {"number": "i2", "amount": 0.2},
                {"number": "i3", "amount": 10.0},
            ],
            "credit": 0.0,
        },
    ),
    Case(
        "P14",
        "exactly the first two: the third gets nothing, not zero",
        owes,
        pays(0.3),
        did=[applied("i1", 0.1), applied("i2", 0.2)],
        in_any_order=True,
    ),
    Case(
        "P14",
        "more than is owed: the rest is kept",
        owes,
        pays(60),
        did=[applied("i1", 0.1), applied("i2", 0.2), applied("i3", 50.0), kept(9.7)],
        in_any_order=True,
    ),
    Case("P14", "nothing is owed", Ledger, pays(5), did=[kept(5)], output={"parts": [], "credit": 5}),
    Case(
        "P14",
        "an invoice is locked: no credit is booked before that is clear",
        lambda: Ledger(unpaid=[OpenInvoice("i1", "2030-01-01", 1.0)], locked="i1"),
        pays(5),
        refused=[applied("i1", 1.0)],
        failures=["applied[0]"],
        state="failed",
    ),
]


def renamed(old: str, new: str) -> Call:
    return call("rename_file", folder="p", old=old, new=new)


RENAMING = [
    Case(
        "P15",
        "one is clear, one name is taken, two want the same but for capitals, one has its date",
        lambda: Folder(
            [
                Photo("a.jpg", "2030-05-01T23:59:00"),
                Photo("b.jpg", "2030-05-02T00:00:00"),
                Photo("2030-05-02 b.jpg", "2030-05-02T00:00:00"),
                Photo("c.jpg", "2030-05-03T12:00:00"),
                Photo("C.jpg", "2030-05-03T12:00:01"),
            ]
        ),
        {"folder": "p"},
        did=[renamed("a.jpg", "2030-05-01 a.jpg")],
        output={"renamed": 1, "skipped": ["b.jpg", "c.jpg", "C.jpg"]},
    ),
    Case("P15", "an empty folder", Folder, {"folder": "p"}, output={"renamed": 0, "skipped": []}),
]

CREDENTIALS = {"credentials": ["old", "spare", "last"], "month": "2030-05"}
FAILING_OVER = [
    Case(
        "P16",
        "the first may not, the second may: the third is not tried",
        lambda: Reports(frozenset({"spare", "last"})),
        CREDENTIALS,
        asked=["old", "spare"],
        did=[call("publish_report", month="2030-05", total=12.5)],
        failures=["attempts[0]"],
    ),
    Case(
        "P16",
        "the first may",
        lambda: Reports(frozenset({"old"})),
        CREDENTIALS,
        asked=["old"],
        did=[call("publish_report", month="2030-05", total=12.5)],
    ),
    Case(
        "P16",
        "none may: nothing is published",
        Reports,
        CREDENTIALS,
        asked=["old", "spare", "last"],
        failures=["attempts[0]", "attempts[1]", "attempts[2]", "report"],
        state="failed",
    ),
]


def change(id: str, day: int, data: str | None = "new") -> Change:
    return Change(id, f"2030-02-{day:02}T00:00:00Z", data)


FOLLOWING = [
    Case(
        "P17",
        "two records, one changed twice, one deleted; the watermark comes last",
        lambda: Mirror([change("a", 1, "old"), change("b", 2, None), change("a", 3)]),
        did=[
            call("put_record", id="a", data="new"),
            call("drop_record", id="b"),
            call("set_watermark", at="2030-02-03T00:00:00Z"),
        ],
        in_any_order=True,
        output={"written": 1, "dropped": 1},
    ),
    Case("P17", "nothing changed: the watermark stays", Mirror, output={"written": 0, "dropped": 0}),
    Case(
        "P17",
        "one record cannot be written: the watermark stays, so that it comes again",
        lambda: Mirror([change("a", 1), change("b", 2, None)], stuck="a"),
        did=[call("drop_record", id="b")],
        refused=[call("put_record", id="a", data="new")],
        failures=["written[0]"],
        state="failed",
    ),
    Case(
        "P17",
        "the watermark is set after the record",
        lambda: Mirror([change("a", 1)]),
        did=[call("put_record", id="a", data="new"), call("set_watermark", at="2030-02-01T00:00:00Z")],
    ),
]

CASES = [
    *PAGING,
    *EXPORT,
    *RECONCILING,
    *SAGA,
    *LOADING,
    *STATEMENTS,
    *KEYS,
    *SEARCH,
    *ISSUES,
    *CONTACTS,
    *BUYING,
    *UTILISATION,
    *ALLOCATION,
    *RENAMING,
    *FAILING_OVER,
    *FOLLOWING,
]
