"""Three small worlds in memory, each with its tools: a lending library, a few servers, a falconry mews.

A world notes every call that changes it. What a request should do to one is a list of such calls, and how that leaves
the world is found by making them in a fresh one: a tool set is a function that makes a new world each time.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any, Literal, NamedTuple, ParamSpec, TypeVar

from foreplan import Registry, Tool, ToolFailure, tool

__all__ = ["WORLDS", "Call", "World"]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Call(NamedTuple):
    """A call that changes a world."""

    tool: str
    args: Mapping[str, Any]


class World:
    """Records by kind and key, tools over them, and the calls that changed them, in their order."""

    def __init__(self, **state: dict[str, Any]) -> None:
        self.state = state
        self.done: list[Call] = []
        self.changes: dict[str, Callable[..., Any]] = {}
        self._tools: list[tuple[Callable[..., Any], str]] = []
        self._one_at_a_time = threading.Lock()

    @functools.cached_property
    def registry(self) -> Registry:
        """The tools over this world."""
        return Registry(*(_tool(function, effect) for function, effect in self._tools))

    def reads(self, function: Callable[P, R]) -> Callable[P, R]:
        """A tool that changes nothing."""
        self._tools.append((function, "reads"))
        return function

    def writes(self, function: Callable[P, R]) -> Callable[P, R]:
        """A tool that sets something, and may be repeated."""
        return self._noted(function, "writes")

    def acts(self, function: Callable[P, R]) -> Callable[P, R]:
        """A tool whose call cannot be taken back."""
        return self._noted(function, "acts")

    def _noted(self, function: Callable[P, R], effect: str) -> Callable[P, R]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def changing(*args: P.args, **named: P.kwargs) -> R:
            given = signature.bind(*args, **named)
            given.apply_defaults()
            with self._one_at_a_time:
                result = function(*args, **named)
                self.done.append(Call(function.__name__, dict(given.arguments)))
            return result

        self._tools.append((changing, effect))
        self.changes[function.__name__] = changing
        return function


_CONTRACTS: dict[str, Tool] = {}


def _tool(function: Callable[..., Any], effect: str) -> Tool:
    """The tool; reading types and docstring takes long, and they are the same in each world of a kind."""
    name = function.__qualname__
    if name not in _CONTRACTS:
        _CONTRACTS[name] = tool(effect=effect)(function)
    return replace(_CONTRACTS[name], function=function)


def _found(records: Mapping[str, T], key: str, kind: str) -> T:
    if key not in records:
        raise ToolFailure(f"there is no {kind} {key!r}", code="not_found")
    return records[key]


def _keyed(key: str, records: list[T]) -> dict[str, T]:
    return {getattr(record, key): record for record in records}


@dataclass
class Book:
    """A title of the library."""

    id: str
    title: str
    author: str
    year: int
    shelf: str
    copies_free: int


@dataclass
class Member:
    """Somebody who borrows books."""

    id: str
    name: str
    email: str
    fines: float
    """What is owed, in euros."""
    blocked: bool


@dataclass
class Loan:
    """A copy that somebody has at home."""

    id: str
    book_id: str
    title: str
    member_id: str
    due: str
    """YYYY-MM-DD"""
    renewals: int


def library() -> World:
    """A lending library: books, members, loans."""
    books = _keyed(
        "id",
        [
            Book("B01", "Tidewater", "Mira Okafor", 2019, "A3", 2),
            Book("B02", "The Glass Orchard", "Jon Halloran", 2004, "A3", 0),
            Book("B03", "Orchard Keeping for Beginners", "Petra Novak", 2015, "C1", 1),
            Book("B04", "Northern Rails", "Jon Halloran", 1998, "B2", 1),
            Book("B05", "A Year of Rails", "Ines Duarte", 2021, "B2", 0),
            Book("B06", "Saltmarsh", "Mira Okafor", 2011, "D4", 3),
            Book("B07", "The Lamplighters", "Tom Achebe", 1987, "D4", 1),
        ],
    )
    members = _keyed(
        "id",
        [
            Member("M10", "Hanna Weiss", "hanna@example.org", 0.0, False),
            Member("M11", "Bo Lindqvist", "bo@example.org", 3.5, False),
            Member("M12", "Carla Mendes", "carla@example.org", 12.0, True),
            Member("M13", "Dev Patel", "dev@example.org", 0.75, False),
        ],
    )
    loans = _keyed(
        "id",
        [
            Loan("L100", "B02", "The Glass Orchard", "M10", "2031-03-01", 0),
            Loan("L101", "B05", "A Year of Rails", "M11", "2031-03-12", 2),
            Loan("L102", "B02", "The Glass Orchard", "M12", "2031-02-10", 1),
            Loan("L103", "B01", "Tidewater", "M10", "2031-03-20", 0),
            Loan("L104", "B04", "Northern Rails", "M13", "2031-03-05", 0),
            Loan("L105", "B07", "The Lamplighters", "M11", "2031-02-27", 0),
        ],
    )
    world = World(books=books, members=members, loans=loans)

    @world.reads
    def search_books(text: str = "") -> list[Book]:
        """Find books whose title or author contains a text; without one, all books."""
        return [book for book in books.values() if text.lower() in f"{book.title}\n{book.author}".lower()]

    @world.reads
    def find_member(name: str) -> Member:
        """Find a member by the full name."""
        return _found(_keyed("name", list(members.values())), name, "member called")

    @world.reads
    def get_member(member_id: str) -> Member:
        """Get a member by id."""
        return _found(members, member_id, "member")

    @world.reads
    def list_loans(member_id: str | None = None) -> list[Loan]:
        """List what is lent out: to one member, or to everybody."""
        return [loan for loan in loans.values() if member_id in (None, loan.member_id)]

    @world.acts
    def renew_loan(loan_id: str, days: int) -> str:
        """Let a loan run longer by some days; gives the new due date."""
        loan = _found(loans, loan_id, "loan")
        loan.due = str(date.fromisoformat(loan.due) + timedelta(days=days))
        loan.renewals += 1
        return loan.due

    @world.acts
    def reserve_book(book_id: str, member_id: str) -> None:
        """Put a member on the waiting list for a book."""
        _found(books, book_id, "book")
        _found(members, member_id, "member")

    @world.acts
    def charge_fine(member_id: str, amount: float, reason: str) -> float:
        """Add a fine, in euros, to what a member owes; gives what is owed now."""
        member = _found(members, member_id, "member")
        member.fines = round(member.fines + amount, 2)
        return member.fines

    @world.writes
    def move_book(book_id: str, shelf: str) -> None:
        """Give a book its place on a shelf."""
        _found(books, book_id, "book").shelf = shelf

    @world.writes
    def block_member(member_id: str, blocked: bool = True) -> None:
        """Block a member from borrowing, or let them borrow again."""
        _found(members, member_id, "member").blocked = blocked

    @world.acts
    def send_email(to: str, subject: str, body: str) -> None:
        """Send an e-mail to an address."""
        if "@" not in to:
            raise ToolFailure(f"{to!r} is no address", code="bad_address")

    return world


@dataclass
class Host:
    """A machine."""

    name: str
    region: Literal["eu", "us"]
    role: Literal["web", "database", "queue"]
    cpu_percent: int
    disk_free_gb: int
    version: str


@dataclass
class Service:
    """What runs on a machine."""

    host: str
    name: str
    state: Literal["running", "stopped", "failed"]
    restarts_today: int


@dataclass
class Alert:
    """Something that monitoring has seen."""

    id: str
    host: str
    severity: Literal["warning", "critical"]
    rule: str
    minutes_open: int


@dataclass
class Person:
    """Who is on call for a team."""

    name: str
    phone: str


def servers() -> World:
    """Operations: hosts, services, alerts, people on call, tickets."""
    hosts = _keyed(
        "name",
        [
            Host("web-1", "eu", "web", 91, 12, "4.1.9"),
            Host("web-2", "eu", "web", 32, 40, "4.1.9"),
            Host("web-3", "us", "web", 96, 8, "4.2.0"),
            Host("db-1", "eu", "database", 55, 5, "14.3"),
            Host("db-2", "us", "database", 20, 220, "14.3"),
            Host("queue-1", "us", "queue", 71, 64, "3.0"),
        ],
    )
    services = {
        f"{service.host} {service.name}": service
        for service in [
            Service("web-1", "nginx", "running", 0),
            Service("web-1", "worker", "stopped", 0),
            Service("web-2", "nginx", "stopped", 0),
            Service("web-2", "worker", "running", 1),
            Service("web-3", "nginx", "running", 3),
            Service("db-1", "postgres", "running", 0),
            Service("db-1", "backup", "failed", 0),
            Service("db-2", "postgres", "running", 0),
            Service("db-2", "backup", "stopped", 0),
            Service("queue-1", "broker", "failed", 1),
            Service("queue-1", "mirror", "failed", 0),
            Service("queue-1", "metrics", "running", 0),
        ]
    }
    alerts = _keyed(
        "id",
        [
            Alert("A1", "web-1", "critical", "cpu load", 12),
            Alert("A2", "db-1", "critical", "disk space", 95),
            Alert("A3", "web-2", "warning", "certificate", 1440),
            Alert("A4", "queue-1", "critical", "broker down", 4),
            Alert("A5", "db-2", "warning", "backup missing", 300),
            Alert("A6", "web-3", "warning", "cpu load", 33),
        ],
    )
    rota = {
        "web": Person("Lena Fischer", "+49 151 5550101"),
        "database": Person("Raj Iyer", "+44 7700 900102"),
        "network": Person("Sol Vega", "+34 600 555103"),
    }
    numbers = dict(zip(hosts, ("731", "418", "962", "377", "204", "856"), strict=True))
    assignees: dict[str, str] = {}
    silenced: dict[str, int] = {}
    world = World(hosts=hosts, services=services, alerts=alerts, assignees=assignees, silenced=silenced)

    @world.reads
    def list_hosts(region: Literal["eu", "us"] | None = None) -> list[Host]:
        """List the hosts of a region, or all."""
        return [host for host in hosts.values() if region in (None, host.region)]

    @world.reads
    def list_services(host: str) -> list[Service]:
        """List the services on a host and how they are."""
        _found(hosts, host, "host")
        return [service for service in services.values() if service.host == host]

    @world.reads
    def list_alerts(severity: Literal["warning", "critical"] | None = None) -> list[Alert]:
        """List the open alerts, all or of one severity."""
        return [alert for alert in alerts.values() if severity in (None, alert.severity)]

    @world.reads
    def on_call(team: Literal["web", "database", "network"]) -> Person:
        """Who is on call for a team."""
        return rota[team]

    @world.acts
    def restart_service(host: str, service: str) -> None:
        """Restart a service on a host."""
        found = _found(services, f"{host} {service}", "service")
        found.state = "running"
        found.restarts_today += 1

    @world.acts
    def page(phone: str, text: str) -> None:
        """Call somebody out by telephone, and say something."""
        if phone not in [person.phone for person in rota.values()]:
            raise ToolFailure(f"nobody answers at {phone!r}", code="no_answer")

    @world.acts
    def open_ticket(host: str, title: str, priority: Literal["low", "normal", "high"] = "normal") -> str:
        """Open a ticket about a host; gives its number."""
        _found(hosts, host, "host")
        return f"OPS-{numbers[host]}"

    @world.writes
    def assign_ticket(ticket: str, assignee: str) -> None:
        """Give a ticket to somebody, by name."""
        if ticket.removeprefix("OPS-") not in numbers.values():
            raise ToolFailure(f"there is no ticket {ticket!r}", code="not_found")
        assignees[ticket] = assignee

    @world.writes
    def silence_alert(alert_id: str, minutes: int) -> None:
        """Keep an alert quiet for some minutes."""
        _found(alerts, alert_id, "alert")
        silenced[alert_id] = minutes

    @world.acts
    def grow_disk(host: str, gigabytes: int) -> int:
        """Make the disk of a host larger; gives how many GB are free now."""
        found = _found(hosts, host, "host")
        found.disk_free_gb += gigabytes
        return found.disk_free_gb

    return world


@dataclass
class Bird:
    """A hunting bird of the mews."""

    name: str
    species: str
    keeper: str
    perch: str
    flying_weight: int
    """Grams at which it flies best."""


@dataclass
class Food:
    """What lies in the larder."""

    item: str
    pieces: int
    grams_each: int


@dataclass
class Transmitter:
    """What finds a bird again that did not come back."""

    serial: str
    frequency: float
    battery_percent: int
    fitted_to: str | None
    """The bird that carries it; null where none does."""


def mews() -> World:
    """A falconry mews: birds, what they weigh and eat, transmitters, flights, the vet."""
    birds = _keyed(
        "name",
        [
            Bird("Isolde", "peregrine", "Agnes", "P1", 870),
            Bird("Bran", "goshawk", "Tomas", "P2", 1010),
            Bird("Wren", "merlin", "Agnes", "P3", 190),
            Bird("Sable", "Harris's hawk", "Odile", "P4", 690),
            Bird("Castor", "saker", "Tomas", "P5", 980),
        ],
    )
    weights = {"Isolde": 905, "Bran": 962, "Wren": 201, "Sable": 655, "Castor": 980}
    flights = {"Isolde": 12, "Bran": 7, "Wren": 31, "Sable": 22, "Castor": 17}
    bookings = {"Isolde": "V-8831", "Bran": "V-2750", "Wren": "V-6194", "Sable": "V-4027", "Castor": "V-9366"}
    store = _keyed("item", [Food("chick", 14, 35), Food("quail", 5, 160), Food("mouse", 9, 20)])
    transmitters = _keyed(
        "serial",
        [
            Transmitter("T-51", 216.025, 88, None),
            Transmitter("T-52", 216.065, 12, "Isolde"),
            Transmitter("T-53", 216.105, 64, None),
            Transmitter("T-54", 216.145, 9, "Sable"),
            Transmitter("T-55", 216.205, 71, "Castor"),
        ],
    )
    world = World(birds=birds, flights=flights, store=store, transmitters=transmitters)

    @world.reads
    def list_birds() -> list[Bird]:
        """List the birds of the mews."""
        return list(birds.values())

    @world.reads
    def weigh(bird: str) -> int:
        """Put a bird on the scales; gives grams."""
        return _found(weights, bird, "bird")

    @world.reads
    def look_in_larder() -> list[Food]:
        """What food there is."""
        return list(store.values())

    @world.acts
    def feed(bird: str, item: Literal["chick", "quail", "mouse"], pieces: int) -> int:
        """Give a bird so many pieces from the larder; gives how many are left."""
        _found(birds, bird, "bird")
        if store[item].pieces < pieces:
            raise ToolFailure(f"only {store[item].pieces} are left", code="too_few")
        store[item].pieces -= pieces
        return store[item].pieces

    @world.writes
    def move_bird(bird: str, perch: str) -> None:
        """Put a bird on a perch, which must be free."""
        if perch in [other.perch for other in birds.values() if other.name != bird]:
            raise ToolFailure(f"the perch {perch} is taken", code="taken")
        _found(birds, bird, "bird").perch = perch

    @world.reads
    def list_transmitters() -> list[Transmitter]:
        """List the radio transmitters and who carries them."""
        return list(transmitters.values())

    @world.acts
    def fit_transmitter(bird: str, serial: str) -> None:
        """Fit a bird with a transmitter, in the place of the one that it carries."""
        _found(birds, bird, "bird")
        new = _found(transmitters, serial, "transmitter")
        for old in transmitters.values():
            old.fitted_to = None if old.fitted_to == bird else old.fitted_to
        new.fitted_to = bird

    @world.acts
    def log_flight(bird: str, minutes: int, caught: int = 0) -> int:
        """Write a flight into the book; gives how many flights the bird has made this season."""
        flights[bird] = _found(flights, bird, "bird") + 1
        return flights[bird]

    @world.acts
    def book_vet(bird: str, day: str, reason: str) -> str:
        """Book the vet for a bird on a day (YYYY-MM-DD); gives the booking code."""
        return _found(bookings, bird, "bird")

    @world.acts
    def tell_keeper(keeper: str, text: str) -> None:
        """Send a message to a keeper, by name."""
        if keeper not in [bird.keeper for bird in birds.values()]:
            raise ToolFailure(f"there is no keeper {keeper!r}", code="not_found")

    return world


WORLDS: Mapping[str, Callable[[], World]] = {"library": library, "servers": servers, "mews": mews}
"""The tool sets by name."""
