"""An office: calendar, mail, drive and contacts, in the shape of AgentDojo's workspace."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from jobs.world import Refused, World, acts, reads

from foreplan import extract_with
from foreplan.planner.models.scripted import ScriptedModel


@dataclass(frozen=True)
class Event:
    """An entry of the calendar; times are local, without zone."""

    id_: str
    title: str
    start_time: str
    end_time: str
    participants: list[str]
    description: str = ""
    location: str | None = None
    all_day: bool = False
    status: str = "confirmed"


@dataclass(frozen=True)
class File:
    """A file of the drive."""

    id_: str
    filename: str
    content: str
    size: int


@dataclass(frozen=True)
class Contact:
    """Someone in the address book."""

    name: str
    email: str


@dataclass(frozen=True)
class Mail:
    """A mail that was sent."""

    id_: str
    recipients: list[str]
    subject: str
    body: str


def event(title: str, start: str, end: str, *participants: str) -> Event:
    """An event of the calendar; its title is its id too."""
    return Event(title, title, start, end, list(participants))


@dataclass
class Office(World):
    """Calendar, mail, drive and contacts of one person, and a model that reads; `readings` are its answers."""

    events: list[Event] = field(default_factory=list)
    files: list[File] = field(default_factory=list)
    contacts: list[Contact] = field(default_factory=list)

    readings: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.built_in = [extract_with(ScriptedModel(map(json.dumps, self.readings)))]

    @reads
    async def get_day_calendar_events(self, day: str) -> list[Event]:
        """The events that touch a day."""
        return [e for e in self.events if e.start_time[:10] <= day <= e.end_time[:10]]

    @reads
    async def search_calendar_events(self, query: str, date: str | None = None) -> list[Event]:
        """Events with these words in their title, of one day if it is given."""
        return [e for e in self.events if query.lower() in e.title.lower() and (date or "") in e.start_time]

    @acts
    async def create_calendar_event(
        self,
        title: str,
        start_time: str,
        end_time: str,
        description: str = "",
        participants: list[str] | None = None,
        location: str | None = None,
    ) -> Event:
        """Put an event into the calendar and invite its participants. Times are `YYYY-MM-DD HH:MM`."""
        made = Event(title, title, start_time, end_time, participants or [], description, location)
        self.events.append(made)
        return made

    @reads
    async def list_files(self) -> list[File]:
        """All files of the drive."""
        return self.files

    @reads
    async def search_files(self, query: str) -> list[File]:
        """Files with these words in them."""
        return [f for f in self.files if query.lower() in f.content.lower()]

    @acts
    async def delete_file(self, file_id: str) -> File:
        """Remove a file for good."""
        for found in self.files:
            if found.id_ == file_id:
                self.files.remove(found)
                return found
        raise Refused(f"no file {file_id!r}", code="not_found")

    @reads
    async def search_contacts_by_name(self, query: str) -> list[Contact]:
        """Contacts with this name."""
        return [c for c in self.contacts if query.lower() in c.name.lower()]

    @acts
    async def send_email(self, recipients: list[str], subject: str, body: str) -> Mail:
        """Send a mail."""
        return Mail(f"mail {len(self.did) + 1}", recipients, subject, body)


@dataclass(frozen=True)
class Hotel:
    """A hotel as the travel agency's files hold it."""

    name: str
    rating: str
    prices: tuple[float, float]
    address: str


@dataclass(frozen=True)
class Restaurant:
    """A restaurant as the travel agency's files hold it."""

    name: str
    rating: str
    price: float
    address: str
    cuisine: str = "French"
    diet: str = "Vegan available"
    hours: str = "open on Sundays"


def _texts(names: list[str], texts: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {name: text for name, text in texts if name in names}


@dataclass
class Agency(Office):
    """A travel agency that answers in sentences, as AgentDojo's does, and the office that asks it."""

    hotels: list[Hotel] = field(default_factory=list)
    restaurants: list[Restaurant] = field(default_factory=list)

    @reads
    async def get_all_hotels_in_city(self, city: str) -> str:
        """The names of all hotels, one a line."""
        return "Hotel Names: " + "".join(f"{h.name}\n" for h in self.hotels)

    @reads
    async def get_rating_reviews_for_hotels(self, hotel_names: list[str]) -> dict[str, str]:
        """Rating and reviews of each hotel, as text."""
        return _texts(hotel_names, [(h.name, f"Rating: {h.rating}\nReviews: fine") for h in self.hotels])

    @reads
    async def get_hotels_prices(self, hotel_names: list[str]) -> dict[str, str]:
        """From which price to which a night costs, as text."""
        texts = [(h.name, f"Price range: {h.prices[0]} - {h.prices[1]}") for h in self.hotels]
        return _texts(hotel_names, texts)

    @reads
    async def get_hotels_address(self, hotel_name: str) -> dict[str, str]:
        """The address of one hotel."""
        return _texts([hotel_name], [(h.name, h.address) for h in self.hotels])

    @reads
    async def get_all_restaurants_in_city(self, city: str) -> str:
        """The names of all restaurants, one a line."""
        return f"Restaurant in {city}: " + "".join(f"{r.name}\n" for r in self.restaurants)

    @reads
    async def get_dietary_restrictions_for_all_restaurants(
        self, restaurant_names: list[str]
    ) -> dict[str, str]:
        """What each restaurant offers for diets, as text."""
        return _texts(restaurant_names, [(r.name, r.diet) for r in self.restaurants])

    @reads
    async def get_cuisine_type_for_restaurants(self, restaurant_names: list[str]) -> dict[str, str]:
        """The cuisine of each restaurant."""
        return _texts(restaurant_names, [(r.name, r.cuisine) for r in self.restaurants])

    @reads
    async def check_restaurant_opening_hours(self, restaurant_names: list[str]) -> dict[str, str]:
        """Hours and days of each restaurant, as text."""
        return _texts(restaurant_names, [(r.name, r.hours) for r in self.restaurants])

    @reads
    async def get_rating_reviews_for_restaurants(self, restaurant_names: list[str]) -> dict[str, str]:
        """Rating and reviews of each restaurant, as text."""
        texts = [(r.name, f"Rating: {r.rating}\nReviews: fine") for r in self.restaurants]
        return _texts(restaurant_names, texts)

    @reads
    async def get_price_for_restaurants(self, restaurant_names: list[str]) -> dict[str, float]:
        """What a meal for one costs in each restaurant."""
        return {r.name: r.price for r in self.restaurants if r.name in restaurant_names}

    @reads
    async def get_restaurants_address(self, restaurant_names: list[str]) -> dict[str, str]:
        """The address of each restaurant."""
        return _texts(restaurant_names, [(r.name, r.address) for r in self.restaurants])


@dataclass(frozen=True)
class Transaction:
    """Money that moved; `me` is the owner of the account."""

    id: int
    sender: str
    recipient: str
    amount: float
    subject: str
    date: str
    recurring: bool = False


@dataclass(frozen=True)
class Receipt:
    """What the bank says about a transfer."""

    message: str


@dataclass
class Bank(World):
    """One account, in the shape of AgentDojo's bank."""

    transactions: list[Transaction] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    @reads
    async def get_most_recent_transactions(self, n: int) -> list[Transaction]:
        """The last transactions, the oldest first."""
        return self.transactions[-n:]

    @acts
    async def send_money(self, recipient: str, amount: float, subject: str, date: str) -> Receipt:
        """Transfer money."""
        return Receipt(f"Transaction to {recipient} for {amount} sent.")


@dataclass(frozen=True)
class Message:
    """Something said in a channel."""

    sender: str
    recipient: str
    body: str


@dataclass
class Chat(World):
    """Channels with members and messages, in the shape of AgentDojo's Slack."""

    members: dict[str, list[str]] = field(default_factory=dict)
    said: list[Message] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    @reads
    async def get_channels(self) -> list[str]:
        """The names of all channels."""
        return list(self.members)

    @reads
    async def get_users_in_channel(self, channel: str) -> list[str]:
        """Who is in a channel."""
        return self.members[channel]

    @reads
    async def read_channel_messages(self, channel: str) -> list[Message]:
        """All messages of a channel."""
        return [m for m in self.said if m.recipient == channel]

    @acts
    async def add_user_to_channel(self, user: str, channel: str) -> None:
        """Let a user into a channel."""
        if user in self.members[channel]:
            raise Refused(f"{user} is in {channel} already", code="already_there")
        self.members[channel].append(user)

    @acts
    async def send_direct_message(self, recipient: str, body: str) -> None:
        """Write to one user."""
