"""An airline's desk for reservations, in the shape of tau-bench's airline domain."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from jobs.world import Refused, World, acts, reads

Cabin = Literal["basic_economy", "economy", "business"]


@dataclass(frozen=True)
class Seats:
    """A number for each cabin: of seats, or dollars."""

    basic_economy: int
    economy: int
    business: int


@dataclass(frozen=True)
class Flight:
    """A flight of a schedule. Times are local to the east coast; a `+1` behind one is the next day."""

    flight_number: str
    origin: str
    destination: str
    scheduled_departure_time_est: str
    scheduled_arrival_time_est: str
    available_seats: Seats
    prices: Seats


@dataclass(frozen=True)
class Leg:
    """A flight of a reservation. `price` is for one passenger."""

    origin: str
    destination: str
    flight_number: str
    date: str
    price: float


@dataclass(frozen=True)
class LegWanted:
    """A flight by number and day."""

    flight_number: str
    date: str


@dataclass(frozen=True)
class Passenger:
    """Someone who flies."""

    first_name: str
    last_name: str


@dataclass(frozen=True)
class Paid:
    """What was paid, and with what."""

    payment_id: str
    amount: float


@dataclass(frozen=True)
class Reservation:
    """A reservation."""

    reservation_id: str
    user_id: str
    origin: str
    destination: str
    cabin: Cabin
    flights: list[Leg]
    passengers: list[Passenger]
    payment_history: list[Paid]
    insurance: Literal["yes", "no"]
    status: str | None = None


@dataclass(frozen=True)
class Card:
    """A way to pay."""

    source: Literal["credit_card", "gift_card", "certificate"]
    id: str


@dataclass(frozen=True)
class Traveller:
    """A customer of the airline."""

    email: str
    payment_methods: dict[str, Card]
    reservations: list[str]


def leg(origin: str, destination: str, number: str, date: str, price: float = 100) -> Leg:
    """A flight of a reservation."""
    return Leg(origin, destination, number, date, price)


def reservation(
    id: str, *flights: Leg, cabin: Cabin = "economy", people: int = 1, insurance: Literal["yes", "no"] = "no"
) -> Reservation:
    """A reservation of Ann's, paid with her card."""
    passengers = [Passenger(f"P{n}", "Lee") for n in range(people)]
    paid = Paid("card_1", sum(f.price for f in flights) * people)
    return Reservation(
        id,
        "ann",
        flights[0].origin,
        flights[-1].destination,
        cabin,
        list(flights),
        passengers,
        [paid],
        insurance,
    )


@dataclass
class Airline(World):
    """Reservations of one traveller, and a schedule by day."""

    reservations: dict[str, Reservation] = field(default_factory=dict)
    schedule: dict[str, list[Flight]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()

    @reads
    async def get_user_details(self, user_id: str) -> Traveller:
        """A customer."""
        cards = [Card("certificate", "paper_1"), Card("credit_card", "card_1")]
        return Traveller("ann@x.org", {c.id: c for c in cards}, list(self.reservations))

    @reads
    async def get_reservation_details(self, reservation_id: str) -> Reservation:
        """A reservation."""
        if reservation_id not in self.reservations:
            raise Refused("reservation not found", code="not_found")
        return self.reservations[reservation_id]

    @reads
    async def search_direct_flight(self, origin: str, destination: str, date: str) -> list[Flight]:
        """Flights without a stop on one day."""
        flights = self.schedule.get(date, [])
        return [f for f in flights if (f.origin, f.destination) == (origin, destination)]

    @acts
    async def cancel_reservation(self, reservation_id: str) -> Reservation:
        """Cancel a whole reservation."""
        found = self.reservations[reservation_id]
        if found.status == "cancelled":
            raise Refused("it is cancelled already", code="already_cancelled")
        self.reservations[reservation_id] = replace(found, status="cancelled")
        return self.reservations[reservation_id]

    @acts
    async def update_reservation_flights(
        self, reservation_id: str, cabin: Cabin, flights: list[LegWanted], payment_id: str
    ) -> Reservation:
        """Change flights or cabin of a whole reservation; every flight is named, also those that stay."""
        found = self.reservations[reservation_id]
        if [f.flight_number for f in flights] != [f.flight_number for f in found.flights]:
            raise Refused("these are other flights", code="wrong_flights")
        self.reservations[reservation_id] = replace(found, cabin=cabin)
        return self.reservations[reservation_id]
