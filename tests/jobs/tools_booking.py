"""A travel service with flights, hotels, taxis, cars and attractions, in the shape of ComplexFuncBench's (Booking's)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from jobs.world import World, reads

Cabin = Literal["ECONOMY", "PREMIUM_ECONOMY", "BUSINESS", "FIRST"]
Sort = Literal["BEST", "CHEAPEST", "FASTEST"]


@dataclass(frozen=True)
class Money:
    """Whole units and billionths."""

    units: int
    nanos: int = 0
    currencyCode: str = "USD"


@dataclass(frozen=True)
class Airport:
    """A place to fly from or to."""

    id: str
    name: str


@dataclass(frozen=True)
class Segment:
    """A part of a journey between two stays; times are local, without offset."""

    departureAirport: Airport
    arrivalAirport: Airport
    departureTime: str
    arrivalTime: str


@dataclass(frozen=True)
class PriceBreakdown:
    """What an offer costs."""

    total: Money


@dataclass(frozen=True)
class Offer:
    """A journey that can be booked."""

    token: str
    segments: list[Segment]
    priceBreakdown: PriceBreakdown


@dataclass(frozen=True)
class Offers:
    """What a search for flights gives."""

    flightOffers: list[Offer]


@dataclass(frozen=True)
class FlightDetails:
    """More on one offer."""

    token: str
    tripType: str = "ONEWAY"


@dataclass(frozen=True)
class SeatMap:
    """Which seats there are."""

    seats: list[str]


@dataclass(frozen=True)
class DayPrice:
    """The least a flight costs on one day."""

    departureDate: str
    price: Money


@dataclass(frozen=True)
class Route:
    """One flight of several."""

    fromId: str
    toId: str
    date: str


@dataclass(frozen=True)
class Coordinates:
    """A place on the map."""

    latitude: float
    longitude: float


@dataclass(frozen=True)
class CarPlace:
    """A place to rent a car at."""

    name: str
    coordinates: Coordinates


@dataclass(frozen=True)
class Pricing:
    """What a car costs."""

    price: float
    currency: str = "USD"


@dataclass(frozen=True)
class Car:
    """A car that is offered."""

    vehicle_id: str
    pricing_info: Pricing


@dataclass(frozen=True)
class Cars:
    """What a search for cars gives."""

    search_results: list[Car]


@dataclass(frozen=True)
class TaxiPlace:
    """A place a taxi goes to."""

    name: str
    googlePlaceId: str


@dataclass(frozen=True)
class TaxiPrice:
    """What a taxi costs, as text."""

    amount: str
    currencyCode: str = "USD"


@dataclass(frozen=True)
class Taxi:
    """A taxi that is offered."""

    resultId: str
    price: TaxiPrice


@dataclass(frozen=True)
class Taxis:
    """What a search for taxis gives."""

    results: list[Taxi]


@dataclass(frozen=True)
class HotelPlace:
    """A place with hotels around it."""

    dest_id: str
    search_type: str


@dataclass(frozen=True)
class Option:
    """A box that can be ticked in a filter."""

    title: str
    genericId: str


@dataclass(frozen=True)
class Filter:
    """A filter, with what can be chosen in it."""

    title: str
    options: list[Option] = field(default_factory=list)


@dataclass(frozen=True)
class Filters:
    """All filters of a search."""

    filters: list[Filter]


@dataclass(frozen=True)
class Property:
    """What a hotel is called."""

    name: str


@dataclass(frozen=True)
class HotelFound:
    """A hotel in a list."""

    hotel_id: int
    property: Property


@dataclass(frozen=True)
class Hotels:
    """What a search for hotels gives."""

    hotels: list[HotelFound]


@dataclass(frozen=True)
class HotelDetails:
    """More on one hotel."""

    hotel_id: int
    hotel_name: str


@dataclass(frozen=True)
class CardTaken:
    """A card that a hotel takes."""

    creditcard_id: int


@dataclass(frozen=True)
class Destination:
    """A town with attractions."""

    id: str


@dataclass(frozen=True)
class Suggestion:
    """An attraction by name."""

    title: str
    productSlug: str


@dataclass(frozen=True)
class AttractionPlaces:
    """What a search for a town or attraction by name gives."""

    destinations: list[Destination]
    products: list[Suggestion]


@dataclass(frozen=True)
class Attraction:
    """An attraction."""

    name: str
    slug: str


@dataclass(frozen=True)
class Attractions:
    """Attractions in the order that was asked for."""

    products: list[Attraction]


@dataclass(frozen=True)
class Slot:
    """A time at which a tour starts."""

    start: str


def segment(start: str, end: str, departs: str, arrives: str) -> Segment:
    """A part of a journey between two airports."""
    return Segment(Airport(start, start), Airport(end, end), departs, arrives)


def offer(token: str, units: int, *segments: Segment, nanos: int = 0) -> Offer:
    """A journey and its price."""
    return Offer(token, list(segments), PriceBreakdown(Money(units, nanos)))


@dataclass
class Booking(World):
    """A service that knows every place by its name and gives what it was filled with. `asked` are all questions."""

    flights: list[Offer] = field(default_factory=list)
    stops: list[Offer] = field(default_factory=list)
    prices: list[DayPrice] = field(default_factory=list)
    stop_prices: list[DayPrice] = field(default_factory=list)
    cars: dict[str, list[float]] = field(default_factory=dict)
    taxis: dict[str, list[str]] = field(default_factory=dict)
    filters: list[Filter] = field(default_factory=list)
    hotels: list[HotelFound] = field(default_factory=list)
    attractions: dict[str, list[str]] = field(default_factory=dict)
    tours: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()

    def _heard(self, *question: object) -> None:
        self.asked.append(" ".join(map(str, question)))

    @reads
    async def Search_Flight_Location(self, query: str) -> list[Airport]:
        """Airports by the name of a town."""
        return [Airport(f"{query}.AIRPORT", f"{query} Airport")]

    @reads
    async def Search_Flights(
        self,
        fromId: str,
        toId: str,
        departDate: str,
        sort: Sort = "BEST",
        cabinClass: Cabin = "ECONOMY",
    ) -> Offers:
        """Flights on one day."""
        self._heard("flights", fromId, toId, departDate, sort, cabinClass)
        return Offers(self.flights)

    @reads
    async def Search_Flights_Multi_Stops(
        self,
        legs: list[Route],
        sort: Sort = "BEST",
        cabinClass: Cabin = "ECONOMY",
    ) -> Offers:
        """Journeys of several flights."""
        self._heard("stops", *[f"{r.fromId}-{r.toId}" for r in legs], sort, cabinClass)
        return Offers(self.stops)

    @reads
    async def Get_Flight_Details(self, token: str) -> FlightDetails:
        """More on one offer."""
        self._heard("details", token)
        return FlightDetails(token)

    @reads
    async def Get_Seat_Map(self, offerToken: str) -> SeatMap:
        """The seats of one offer."""
        self._heard("seats", offerToken)
        return SeatMap(["1A"])

    @reads
    async def Get_Min_Price(
        self,
        fromId: str,
        toId: str,
        departDate: str,
        cabinClass: Cabin = "ECONOMY",
    ) -> list[DayPrice]:
        """The least a flight costs around a day."""
        return self.prices

    @reads
    async def Get_Min_Price_Multi_Stops(
        self,
        legs: list[Route],
        cabinClass: Cabin = "ECONOMY",
    ) -> list[DayPrice]:
        """The least a journey of several flights costs around a day."""
        self._heard("stop prices", *[f"{r.fromId}-{r.toId}" for r in legs])
        return self.stop_prices

    @reads
    async def Search_Car_Location(self, query: str) -> list[CarPlace]:
        """Places to rent a car at."""
        return [CarPlace(query, Coordinates(33.9, -118.4))]

    @reads
    async def Search_Car_Rentals(
        self,
        pick_up_latitude: float,
        pick_up_longitude: float,
        drop_off_latitude: float,
        drop_off_longitude: float,
        pick_up_date: str,
        drop_off_date: str,
        pick_up_time: str,
        drop_off_time: str,
    ) -> Cars:
        """Cars for a time."""
        self._heard("cars", f"{pick_up_date}T{pick_up_time}", f"{drop_off_date}T{drop_off_time}")
        prices = self.cars.get(pick_up_date, [])
        return Cars([Car(f"car {n}", Pricing(price)) for n, price in enumerate(prices)])

    @reads
    async def Taxi_Search_Location(self, query: str) -> list[TaxiPlace]:
        """Places a taxi goes to."""
        return [TaxiPlace(query, f"place {query}")]

    @reads
    async def Search_Taxi(
        self, pick_up_place_id: str, drop_off_place_id: str, pick_up_date: str, pick_up_time: str
    ) -> Taxis:
        """Taxis from one place to another."""
        self._heard("taxi", pick_up_place_id, "to", drop_off_place_id, f"{pick_up_date}T{pick_up_time}")
        amounts = self.taxis.get(pick_up_time, [])
        return Taxis([Taxi(f"taxi {n}", TaxiPrice(amount)) for n, amount in enumerate(amounts)])

    @reads
    async def Search_Hotel_Destination(self, query: str) -> list[HotelPlace]:
        """Places with hotels around them."""
        return [HotelPlace("4711", "landmark")]

    @reads
    async def Get_Filter(
        self, dest_id: str, search_type: str, arrival_date: str, departure_date: str
    ) -> Filters:
        """What hotels can be filtered by."""
        return Filters(self.filters)

    @reads
    async def Search_Hotels(
        self,
        dest_id: int,
        search_type: str,
        arrival_date: str,
        departure_date: str,
        categories_filter: str = "",
    ) -> Hotels:
        """Hotels for some nights."""
        self._heard("hotels", dest_id, arrival_date, departure_date, categories_filter)
        return Hotels(self.hotels)

    @reads
    async def Get_Hotel_Details(self, hotel_id: str) -> HotelDetails:
        """More on one hotel."""
        return HotelDetails(int(hotel_id), f"hotel {hotel_id}")

    @reads
    async def Payment_features_of_the_Hotel(self, hotel_id: str) -> list[CardTaken]:
        """The cards one hotel takes."""
        return [CardTaken(int(hotel_id) % 10)]

    @reads
    async def Search_Attraction_Location(self, query: str) -> AttractionPlaces:
        """Towns and attractions by name."""
        self._heard("place", query)
        return AttractionPlaces([Destination(query)], [Suggestion(query, query.lower())])

    @reads
    async def Search_Attractions(
        self,
        id: str,
        sortBy: Literal["trending", "attr_book_score", "lowest_price"] = "trending",
    ) -> Attractions:
        """The attractions of a town, sorted."""
        self._heard("attractions", id, sortBy)
        return Attractions([Attraction(name, name.lower()) for name in self.attractions.get(id, [])])

    @reads
    async def Get_Availability(self, slug: str, date: str) -> list[Slot]:
        """When tours start on one day."""
        self._heard("tours", slug, date)
        return [Slot(f"{date}T{time}+01:00") for time in self.tours.get(date, [])]
