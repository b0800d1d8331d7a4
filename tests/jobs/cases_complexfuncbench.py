"""Jobs of ComplexFuncBench: no effects, so what was asked of the service is what counts."""

from __future__ import annotations

from jobs.job import Case
from jobs.tools_booking import (
    Booking,
    DayPrice,
    Filter,
    HotelFound,
    Money,
    Offer,
    Option,
    Property,
    offer,
    segment,
)

__all__ = ["CASES"]

CARS = {"place": "LAX", "today": "2030-12-30"}
BOTH_DAYS = ["cars 2030-12-31T08:00 2031-01-01T08:00", "cars 2031-01-01T08:00 2031-01-02T08:00"]


def lands(
    at: str, token: str = "t", *, leaves: str = "2030-11-20T07:00:00", units: int = 100, nanos: int = 0
) -> Offer:
    return offer(token, units, segment("A", "B", leaves, at), nanos=nanos)


TOUR = {"from": "Rome", "to": "Vienna", "museum": "Sisi", "day": "2030-11-20"}
TAXI = {"from": "Sydney", "to": "Melbourne", "start": "Inn", "end": "Palace", "day": "2030-12-10"}
NIGHT = {"from": "Denver", "to": "Philadelphia", "sight": "Hall", "day": "2030-11-15"}
HALL = [HotelFound(55, Property("Park Hotel"))]
GYM = {"sight": "Bridge", "arrive": "2030-11-20", "leave": "2030-11-30"}
FILTERS = [
    Filter("Stars"),
    Filter("Facilities", [Option("Parking", "facility::2"), Option("Fitness center", "facility::11")]),
]
GUESSES = {
    "guesses": [
        {"who": "he", "town": "New York", "sight": "Times Square"},
        {"who": "I", "town": "Vancouver", "sight": "Stanley Park"},
        {"who": "he", "town": "Rome", "sight": "Trevi"},
    ]
}
BOSTON = {"from": "Nanjing", "to": "Seattle", "by": "Boston", "day": "2030-12-15"}
DOHA = {"from": "Houston", "by": "Doha", "to": "Seoul", "day": "2030-11-30"}


def costs(units: int, nanos: int = 0, day: str = "2030-12-15") -> DayPrice:
    return DayPrice(day, Money(units, nanos))


def looked_up(*towns: str) -> list[str]:
    return [line for town in towns for line in (f"place {town}", f"attractions {town} attr_book_score")]


def by_doha(leaves: str) -> Booking:
    first = segment("Houston", "Doha", "2030-11-30T10:00:00", "2030-12-01T08:00:00")
    journey = offer("first", 9000, first, segment("Doha", "Seoul", leaves, "2030-12-02T10:00:00"))
    return Booking(
        stops=[journey], flights=[lands("2030-12-01T10:00:00", "direct", units=1500, nanos=500_000_000)]
    )


DIRECT = [
    "flights Houston.AIRPORT Seoul.AIRPORT 2030-11-30 FASTEST PREMIUM_ECONOMY",
    "details direct",
    "seats direct",
]
STOPS = "stops Houston.AIRPORT-Doha.AIRPORT Doha.AIRPORT-Seoul.AIRPORT FASTEST FIRST"

CASES = [
    Case(
        "cfb-0001",
        "across the new year",
        lambda: Booking(cars={"2030-12-31": [40.1, 39.9], "2031-01-01": [40.2]}),
        CARS,
        asked=BOTH_DAYS,
        in_any_order=True,
        output={"tomorrow": 39.9, "day_after": 40.2, "difference": 0.3},
    ),
    Case(
        "cfb-0001",
        "no car on the second day",
        lambda: Booking(cars={"2030-12-31": [40.0]}),
        CARS,
        failures=["cheapest"],
        state="failed",
    ),
    Case(
        "cfb-0218",
        "there an hour after landing, when the second tour starts",
        lambda: Booking(
            flights=[lands("2030-11-20T09:55:00")], tours={"2030-11-20": ["09:00:00", "10:55:00"]}
        ),
        TOUR,
        asked=[
            "flights Rome.AIRPORT Vienna.AIRPORT 2030-11-20 FASTEST ECONOMY",
            "place Sisi",
            "tours sisi 2030-11-20",
        ],
        in_any_order=True,
        output={"lands": "2030-11-20T09:55:00", "tour": "2030-11-20T10:55:00+01:00"},
    ),
    Case(
        "cfb-0218",
        "a minute late for the last tour: the next day",
        lambda: Booking(
            flights=[lands("2030-11-20T09:56:00")],
            tours={"2030-11-20": ["09:00:00", "10:55:00"], "2030-11-21": ["14:55:00"]},
        ),
        TOUR,
        output={"lands": "2030-11-20T09:56:00", "tour": "2030-11-21T14:55:00+01:00"},
    ),
    Case(
        "cfb-0218",
        "it lands before midnight and is there after it; no tour on the next day either",
        lambda: Booking(flights=[lands("2030-11-20T23:30:00")], tours={"2030-11-20": ["23:59:00"]}),
        TOUR,
        state="failed",
    ),
    Case(
        "cfb-0242",
        "it lands on the day it leaves",
        lambda: Booking(flights=[lands("2030-12-10T22:25:00")], taxis={"11:00": ["25.50"], "22:25": ["60"]}),
        TAXI,
        asked=[
            "flights Sydney.AIRPORT Melbourne.AIRPORT 2030-12-10 BEST ECONOMY",
            "taxi place Inn to place Sydney Airport 2030-12-10T11:00",
            "taxi place Melbourne Airport to place Palace 2030-12-10T22:25",
        ],
        in_any_order=True,
        output={"flight": "t", "taxis": ["25.50", "60"]},
    ),
    Case(
        "cfb-0242",
        "it lands after midnight; no taxi is free then",
        lambda: Booking(flights=[lands("2030-12-11T00:10:00")], taxis={"11:00": ["25.50"]}),
        TAXI,
        asked=[
            "flights Sydney.AIRPORT Melbourne.AIRPORT 2030-12-10 BEST ECONOMY",
            "taxi place Inn to place Sydney Airport 2030-12-10T11:00",
            "taxi place Melbourne Airport to place Palace 2030-12-11T00:10",
        ],
        in_any_order=True,
        output={"flight": "t", "taxis": ["25.50", None]},
    ),
    Case(
        "cfb-0242", "no flight: no taxi from the airport", Booking, TAXI, failures=["flight"], state="failed"
    ),
    Case(
        "cfb-0386",
        "the cheapest is a night on the way: the next; a cent decides; the taxi comes after midnight",
        lambda: Booking(
            flights=[
                lands("2030-11-16T08:00:00", "night", leaves="2030-11-15T21:00:00", units=50),
                lands(
                    "2030-11-15T20:00:00", "dear", units=99, nanos=10_000_000, leaves="2030-11-15T12:00:00"
                ),
                lands("2030-11-15T23:15:00", "day", units=99, nanos=0, leaves="2030-11-15T18:00:00"),
            ],
            hotels=HALL,
            taxis={"00:15": ["33.00"]},
        ),
        NIGHT,
        asked=[
            "flights Denver.AIRPORT Philadelphia.AIRPORT 2030-11-15 FASTEST ECONOMY",
            "hotels 4711 2030-11-15 2030-11-18 ",
            "taxi place B to place Park Hotel 2030-11-16T00:15",
        ],
        in_any_order=True,
        output={"flight": "day", "hotel": "Park Hotel", "pick_up": "2030-11-16T00:15:00", "taxi": "33.00"},
    ),
    Case(
        "cfb-0386",
        "every flight is a night on the way",
        lambda: Booking(flights=[lands("2030-11-16T08:00:00")], hotels=HALL),
        NIGHT,
        failures=["flight"],
        state="failed",
    ),
    Case(
        "cfb-0633",
        "the filter's id is looked up; three hotels have a gym",
        lambda: Booking(filters=FILTERS, hotels=[HotelFound(n, Property(str(n))) for n in (17, 28, 39)]),
        GYM,
        asked=["hotels 4711 2030-11-20 2030-11-30 facility::11"],
        output={"hotels": [{"name": "hotel 17", "cards": [7]}, {"name": "hotel 28", "cards": [8]}]},
    ),
    Case(
        "cfb-0633",
        "only one hotel",
        lambda: Booking(filters=FILTERS, hotels=HALL),
        GYM,
        output={"hotels": [{"name": "hotel 55", "cards": [5]}]},
    ),
    Case(
        "cfb-0633",
        "no such filter: hotels without a gym are not taken for ones with",
        lambda: Booking(filters=FILTERS[:1], hotels=HALL),
        GYM,
        failures=["gym"],
        state="failed",
    ),
    Case(
        "cfb-0794",
        "four sights, of which three are asked for; one has no slot",
        lambda: Booking(attractions={"Prague": ["A", "B", "C", "D"]}, tours={"2030-11-28": ["09:00:00"]}),
        {"town": "Prague", "day": "2030-11-28"},
        asked=["place Prague", "attractions Prague lowest_price", *[f"tours {x} 2030-11-28" for x in "abc"]],
        in_any_order=True,
        output={"sights": [{"name": x, "starts": ["2030-11-28T09:00:00+01:00"]} for x in "ABC"]},
    ),
    Case(
        "cfb-0794",
        "a town without sights",
        Booking,
        {"town": "Nowhere", "day": "2030-11-28"},
        output={"sights": []},
    ),
    Case(
        "cfb-0823",
        "the second is right: the third is not looked at",
        lambda: Booking(attractions={"New York": ["MoMA"], "Vancouver": ["Stanley Park"], "Rome": ["Trevi"]}),
        GUESSES,
        asked=looked_up("New York", "Vancouver"),
        output={"winner": "I"},
    ),
    Case(
        "cfb-0823",
        "all are wrong",
        lambda: Booking(attractions={"New York": ["MoMA"], "Vancouver": ["Bridge"], "Rome": ["Forum"]}),
        GUESSES,
        asked=looked_up("New York", "Vancouver", "Rome"),
        failures=["checked"],
        output={"winner": None},
    ),
    Case(
        "cfb-0823",
        "a town without sights is a guess that failed: the next is checked",
        lambda: Booking(attractions={"Vancouver": ["Bridge"], "Rome": ["Trevi"]}),
        GUESSES,
        asked=looked_up("New York", "Vancouver", "Rome"),
        failures=["checked[0]"],
        output={"winner": "he"},
    ),
    Case("cfb-0823", "nobody guessed", Booking, {"guesses": []}, asked=[], output={"winner": None}),
    Case(
        "cfb-0936",
        "exactly 400: nothing is compared",
        lambda: Booking(prices=[costs(410), costs(400)]),
        BOSTON,
        asked=[],
        output={"price": 400, "price_by_stop": None},
    ),
    Case(
        "cfb-0936",
        "a cent above 400",
        lambda: Booking(prices=[costs(400, 10_000_000)], stop_prices=[costs(399, 990_000_000), costs(500)]),
        BOSTON,
        asked=["stop prices Nanjing.AIRPORT-Boston.AIRPORT Boston.AIRPORT-Seattle.AIRPORT"],
        output={"price": 400.01, "price_by_stop": 399.99},
    ),
    Case("cfb-0936", "no flight", Booking, BOSTON, failures=["price"], state="failed"),
    Case(
        "cfb-0946",
        "the second flight leaves a minute before 20:00: direct",
        lambda: by_doha("2030-12-01T19:59:00"),
        DOHA,
        asked=[STOPS, *DIRECT],
        output={"price": 1500.5, "direct": True, "seats": ["1A"]},
    ),
    Case(
        "cfb-0946",
        "at 20:00 sharp: by Doha",
        lambda: by_doha("2030-12-01T20:00:00"),
        DOHA,
        asked=[STOPS, "details first", "seats first"],
        output={"price": 9000, "direct": False, "seats": ["1A"]},
    ),
    Case(
        "cfb-0946", "no journey by Doha", Booking, DOHA, asked=[STOPS], failures=["too_early"], state="failed"
    ),
]
