"""People and what is known of them: trips, addresses, issues, contacts, hours."""

from __future__ import annotations

from dataclasses import dataclass, field

from jobs.world import Refused, World, acts, reads, writes


@dataclass(frozen=True)
class Booked:
    """A booking; `ref` cancels it."""

    ref: str


@dataclass
class Trips(World):
    """Cars, hotels and flights. What is in `sold_out` cannot be booked, what is in `fixed` not cancelled."""

    sold_out: frozenset[str] = frozenset()
    fixed: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        super().__init__()

    def _book(self, what: str) -> Booked:
        if what in self.sold_out:
            raise Refused(f"no {what} left", code="sold_out")
        return Booked(f"{what}-1")

    def _cancel(self, what: str) -> None:
        if what in self.fixed:
            raise Refused(f"this {what} cannot be cancelled", code="fixed")

    @acts
    async def book_car(self, town: str, day: str, days: int) -> Booked:
        """Rent a car."""
        return self._book("car")

    @acts
    async def cancel_car(self, ref: str) -> None:
        """Give a car back."""
        self._cancel("car")

    @acts
    async def book_hotel(self, town: str, day: str, nights: int) -> Booked:
        """Take a room."""
        return self._book("hotel")

    @acts
    async def cancel_hotel(self, ref: str) -> None:
        """Leave a room to others."""
        self._cancel("hotel")

    @acts
    async def book_flight(self, town: str, day: str) -> Booked:
        """Take a seat."""
        return self._book("flight")


@dataclass(frozen=True)
class Person:
    """Somebody, and where they work."""

    name: str
    company: str


@dataclass(frozen=True)
class Found:
    """What a provider found."""

    address: str | None


@dataclass(frozen=True)
class Verdict:
    """Whether mail reaches an address."""

    deliverable: bool


@dataclass
class Directory(World):
    """Providers that know addresses by name; one that is not there is down. `dead` addresses take no mail."""

    people: list[Person] = field(default_factory=list)
    providers: dict[str, dict[str, str]] = field(default_factory=dict)
    dead: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        super().__init__()

    @reads
    async def list_people(self) -> list[Person]:
        """Everyone without an address."""
        return self.people

    @reads
    async def find_address(self, provider: str, name: str, company: str) -> Found:
        """Ask one provider."""
        self.asked.append(f"{provider}: {name}")
        if provider not in self.providers:
            raise Refused(f"{provider} is down", code="down")
        return Found(self.providers[provider].get(name))

    @reads
    async def verify_address(self, address: str) -> Verdict:
        """Whether mail reaches it."""
        return Verdict(address not in self.dead)

    @writes
    async def save_address(self, name: str, address: str) -> None:
        """Keep an address."""


@dataclass(frozen=True)
class Issue:
    """An issue of a project. `warned_at` is when its author was told that it will be closed."""

    number: int
    author: str
    updated_at: str
    labels: list[str] = field(default_factory=list)
    warned_at: str | None = None


@dataclass
class Tracker(World):
    """Issues of a project."""

    issues: list[Issue] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    @reads
    async def list_issues(self, state: str) -> list[Issue]:
        """The issues that are in this state."""
        return self.issues

    @acts
    async def comment(self, number: int, text: str) -> None:
        """Write below an issue."""

    @writes
    async def add_label(self, number: int, label: str) -> None:
        """Mark an issue."""

    @writes
    async def close_issue(self, number: int) -> None:
        """Close an issue."""


@dataclass(frozen=True)
class Lead:
    """Somebody who asked, as they typed it."""

    email: str
    name: str
    phone: str = ""


@dataclass(frozen=True)
class Contact:
    """Somebody the CRM knows."""

    id: str
    email: str
    name: str
    phone: str


@dataclass
class Crm(World):
    """Leads on one side, contacts on the other."""

    leads: list[Lead] = field(default_factory=list)
    contacts: list[Contact] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    @reads
    async def list_leads(self) -> list[Lead]:
        """What came in."""
        return self.leads

    @reads
    async def find_contact(self, email: str) -> Contact | None:
        """The contact with this address, or nothing."""
        return next((c for c in self.contacts if c.email == email), None)

    @acts
    async def create_contact(self, email: str, name: str, phone: str) -> Contact:
        """Add a contact."""
        made = Contact(f"c{len(self.contacts) + 1}", email, name, phone)
        self.contacts.append(made)
        return made

    @writes
    async def update_contact(self, id: str, name: str, phone: str) -> None:
        """Change a contact."""


@dataclass(frozen=True)
class Hours:
    """Hours that somebody worked on something."""

    person: str
    project: str
    hours: float


@dataclass(frozen=True)
class Capacity:
    """Hours that somebody has in a week."""

    person: str
    hours: float
    lead: str


@dataclass
class Staff(World):
    """Who worked how much, and who could."""

    worked: list[Hours] = field(default_factory=list)
    capacity: list[Capacity] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    @reads
    async def list_hours(self, week: str) -> list[Hours]:
        """The hours of a week."""
        return self.worked

    @reads
    async def list_capacity(self, week: str) -> list[Capacity]:
        """What everyone could work in a week."""
        return self.capacity

    @acts
    async def send_alert(self, to: str, text: str) -> None:
        """Tell someone."""
