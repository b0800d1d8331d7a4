"""The jobs of the benchmarks, run on what was really recorded there: the same effects, with the same arguments.

The data lie beside the project; without them these tests are skipped. Inputs come from the records, so that nothing of
them stands here. ComplexFuncBench is pruned (prices and times are gone): there, small data fill the holes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

import pytest
from jobs.job import STARTS, plan_of
from jobs.tools_airline import Airline, leg, reservation
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
from jobs.tools_office import Agency, Bank, Chat
from jobs.tools_retail import Shop
from jobs.world import World
from support.recordings import Recording, Session
from support.virtual import now, run_virtual

from foreplan import Engine, Run

TODAY = "2024-05-15"
"""The day on which tau-bench's airline plays; its policy says so."""


@dataclass(frozen=True)
class Played:
    """One job on its record."""

    job: str
    world: Callable[[Recording], World]
    inputs: Callable[[Recording], Mapping[str, Any]] = lambda recording: {}
    but: Mapping[str, str] = field(default_factory=dict)
    """Arguments that are not compared, by `tool.argument`, and why."""
    fill: frozenset[str] = frozenset()
    """Tools that answer themselves where nothing was recorded."""

    def __str__(self) -> str:
        return self.job


def who(recording: Recording) -> dict[str, Any]:
    return recording.args("find_user_id_by_name_zip")


def traveller(recording: Recording) -> dict[str, Any]:
    return {"user": recording.args("get_user_details")["user_id"], "today": TODAY}


def whereabouts(recording: Recording) -> dict[str, Any]:
    """Where the traveller says that she is, on which day of May."""
    said = re.findall(r"\(([A-Z]{3})\) on May (\d+)", recording.item["query"])
    return {"user": traveller(recording)["user"], "places": {f"2024-05-{day}": place for place, day in said}}


def doomed(recording: Recording) -> dict[str, Any]:
    ids = [c.args["reservation_id"] for c in recording.calls if c.tool == "cancel_reservation"]
    return {"user": recording.calls[0].output["user_id"], "today": TODAY, "cancel": ids}


def trip(recording: Recording) -> dict[str, Any]:
    city = recording.args("get_all_hotels_in_city")["city"]
    return {"city": city, "arrive": "2024-05-10", "leave": "2024-05-13", "below": 210}


def assigned(recording: Recording) -> list[dict[str, str]]:
    """What a model read in the minutes, as the mails that were sent tell it."""
    mails = [call.args for call in recording.calls if call.tool == "send_email"]
    return [{"mail": m["recipients"][0], "task": "", "deadline": m["body"]} for m in mails]


OFFICE = [
    Played(
        "workspace/user_task_21",
        lambda r: Agency(),
        lambda r: {
            "day": r.args("get_day_calendar_events")["day"],
            "met_on": r.args("search_calendar_events")["date"],
        },
    ),
    Played("workspace/user_task_35", lambda r: Agency()),
    Played(
        "workspace/user_task_20",
        lambda r: Agency(),
        lambda r: {
            "day": r.args("get_day_calendar_events")["day"],
            "friend": r.args("search_contacts_by_name")["query"],
        },
    ),
    Played(
        "workspace/user_task_25",
        lambda r: Agency(readings=[assigned(r)]),
        but={"send_email.subject": "a model's words", "send_email.body": "a model's words"},
    ),
    Played(
        "travel/user_task_3",
        lambda r: Agency(),
        lambda r: {**r.args("get_all_hotels_in_city"), "mail": r.args("send_email")["recipients"][0]},
    ),
    Played(
        "travel/user_task_8",
        lambda r: Agency(),
        lambda r: {
            **r.args("get_all_restaurants_in_city"),
            "day": r.args("create_calendar_event")["start_time"][:10],
        },
        but={"create_calendar_event.description": "a model's words"},
    ),
    Played("travel/user_task_11", lambda r: Agency(), trip),
    Played(
        "banking/user_task_3",
        lambda r: Bank(),
        lambda r: {
            "friend": r.args("send_money")["recipient"],
            "dinner": 12.0,
            "today": r.args("send_money")["date"],
        },
    ),
    Played(
        "banking/user_task_11",
        lambda r: Bank(),
        lambda r: {"today": r.args("send_money")["date"]},
        but={"send_money.recipient": "recorded is a name, where the tool wants the IBAN that the list has"},
    ),
    Played("banking/user_task_1", lambda r: Bank(), lambda r: {"month": "2022-03"}),
    Played("slack/user_task_10", lambda r: Chat()),
    Played("slack/user_task_13", lambda r: Chat()),
    Played("slack/user_task_14", lambda r: Chat()),
]

TAU = [
    Played(
        "tau1-retail-test-0",
        lambda r: Shop(),
        lambda r: {**who(r), "order": r.args("get_order_details")["order_id"]},
    ),
    Played("tau1-retail-test-3", lambda r: Shop(), who),
    Played("tau1-retail-test-8", lambda r: Shop(), who),
    Played("tau1-retail-test-13", lambda r: Shop(), lambda r: r.args("find_user_id_by_email")),
    Played("tau1-retail-test-16", lambda r: Shop(), who),
    Played("tau1-retail-test-20", lambda r: Shop(), who),
    Played("tau1-retail-test-22", lambda r: Shop(), who),
    Played("tau1-retail-test-37", lambda r: Shop(), lambda r: {**who(r), **r.args("find_user_id_by_email")}),
    Played("tau1-airline-test-28", lambda r: Airline(), traveller),
    Played("tau1-airline-test-30", lambda r: Airline(), whereabouts),
    Played("tau1-airline-test-33", lambda r: Airline(), traveller),
    Played(
        "tau1-airline-test-34",
        lambda r: Airline(dict.fromkeys(doomed(r)["cancel"], reservation("", leg("", "", "", "")))),
        doomed,
        fill=frozenset({"get_user_details"}),
    ),
]


EVERYTHING = frozenset(tool.name for tool in Booking().tools)


def booked(
    job: str, world: Callable[[Recording], World], inputs: Callable[[Recording], Mapping[str, Any]]
) -> Played:
    return Played(job, world, inputs, fill=EVERYTHING)


def towns(recording: Recording, *names: str) -> dict[str, Any]:
    """What flights were looked for, in the order of the record, and on which day."""
    found = {name: recording.args("Search_Flight_Location", n)["query"] for n, name in enumerate(names)}
    days = [call.args["departDate"] for call in recording.calls if "departDate" in call.args]
    return {**found, "day": days[0]}


def rented(recording: Recording) -> list[str]:
    return [c.args["pick_up_date"] for c in recording.calls if c.tool == "Search_Car_Rentals"]


def one_flight(lands: str, leaves: str = "") -> list[Offer]:
    return [offer("", 100, segment("", "", leaves or lands[:10] + "T00:00", lands))]


def last_taxi(recording: Recording) -> str:
    taxi = recording.args("Search_Taxi", -1)
    return f"{taxi['pick_up_date']}T{taxi['pick_up_time']}"


def taxi_ride(recording: Recording) -> dict[str, Any]:
    places = [c.args["query"] for c in recording.calls if c.tool == "Taxi_Search_Location"]
    return {**towns(recording, "from", "to"), "start": places[0], "end": places[1]}


def stay(recording: Recording) -> dict[str, Any]:
    hotels = recording.args("Search_Hotels")
    sight = recording.args("Search_Hotel_Destination")["query"]
    return {"sight": sight, "arrive": hotels["arrival_date"], "leave": hotels["departure_date"]}


def with_gyms(recording: Recording) -> Booking:
    """Nothing but ids was kept of filters and hotels: the filter that was chosen is the gym."""
    chosen = recording.args("Search_Hotels")["categories_filter"]
    (found,) = [c.output for c in recording.calls if c.tool == "Get_Filter"]
    filters = [
        Filter(
            "",
            [
                Option("Fitness center" if o.get("genericId") == chosen else "", "")
                for o in f.get("options", [])
            ],
        )
        for f in found["filters"]
    ]
    ids = [c.args["hotel_id"] for c in recording.calls if c.tool == "Get_Hotel_Details"]
    return Booking(filters=filters, hotels=[HotelFound(int(id), Property("")) for id in ids])


def guesses(recording: Recording) -> dict[str, Any]:
    asked = [c.args["query"] for c in recording.calls if c.tool == "Search_Attraction_Location"]
    right = [{"who": "", "town": town, "sight": "best" if town == asked[-1] else "other"} for town in asked]
    return {"guesses": [*right, {"who": "", "town": "never looked at", "sight": "best"}]}


def sights(recording: Recording) -> Booking:
    ids = [c.args["id"] for c in recording.calls if c.tool == "Search_Attractions"]
    return Booking(attractions={id: ["best"] for id in ids})


def by_stop(recording: Recording) -> Booking:
    leg = recording.args("Search_Flights_Multi_Stops")["legs"][1]
    early = segment("", "", f"{leg['date']}T19:00", f"{leg['date']}T23:00")
    return Booking(stops=[offer("", 1, early, early)], flights=one_flight(f"{leg['date']}T10:00"))


def journey(recording: Recording) -> dict[str, Any]:
    legs = recording.args("Search_Flights_Multi_Stops")["legs"]
    return {**towns(recording, "from", "by", "to"), "day": legs[0]["date"]}


BOOKING = [
    booked(
        "cfb-0001",
        lambda r: Booking(cars={day: [10.0] for day in rented(r)}),
        lambda r: {
            "place": r.args("Search_Car_Location")["query"],
            "today": str(date.fromisoformat(rented(r)[0]) - timedelta(days=1)),
        },
    ),
    booked(
        "cfb-0218",
        lambda r: Booking(flights=one_flight(f"{r.args('Search_Flights')['departDate']}T10:00")),
        lambda r: {**towns(r, "from", "to"), "museum": r.args("Search_Attraction_Location")["query"]},
    ),
    booked("cfb-0242", lambda r: Booking(flights=one_flight(last_taxi(r))), taxi_ride),
    booked(
        "cfb-0386",
        lambda r: Booking(flights=one_flight(str(datetime.fromisoformat(last_taxi(r)) - timedelta(hours=1)))),
        lambda r: {**towns(r, "from", "to"), "sight": stay(r)["sight"]},
    ),
    booked("cfb-0633", with_gyms, stay),
    booked(
        "cfb-0794",
        lambda r: Booking(),
        lambda r: {
            "town": r.args("Search_Attraction_Location")["query"],
            "day": r.args("Get_Availability")["date"],
        },
    ),
    booked("cfb-0823", sights, guesses),
    booked(
        "cfb-0936",
        lambda r: Booking(prices=[DayPrice("", Money(500))], stop_prices=[DayPrice("", Money(450))]),
        lambda r: towns(r, "from", "to", "by"),
    ),
    booked("cfb-0946", by_stop, journey),
]


def play(played: Played, recording: Recording) -> tuple[Run, Session]:
    session = Session(played.world(recording).tools, recording, fill=played.fill, but=played.but)
    engine = Engine(session.tools, clock=lambda: STARTS + now())
    plan, inputs = plan_of(played.job), played.inputs(recording)

    async def main() -> Run:
        return await engine.run(plan, inputs=inputs, approval=engine.approve(plan, inputs=inputs, by="ada"))

    return run_virtual("asyncio", main), session


def comparable(played: Played, calls: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """Calls as sorted text, without the arguments that somebody worded and without the order inside lists."""
    return sorted(
        str(
            [
                tool,
                *sorted(
                    (name, sorted(map(str, value)) if isinstance(value, list) else value)
                    for name, value in args.items()
                    if f"{tool}.{name}" not in played.but
                ),
            ]
        )
        for tool, args in calls
    )


@pytest.mark.parametrize("played", [*OFFICE, *TAU], ids=str)
def test_a_job_has_the_effects_that_were_recorded(played: Played) -> None:
    """Every effect of the record, and no other; what was refused there is refused here."""
    folder = "taubench" if played.job.startswith("tau1") else "agentdojo"
    recording = Recording.of(folder, played.job)
    end, session = play(played, recording)
    assert end.state == "done", end.message
    effects = {tool.name for tool in session.tools if tool.effect != "reads"}
    recorded = [(c.tool, c.args) for c in recording.calls if c.tool in effects and not c.error]
    assert comparable(played, session.effects) == comparable(played, recorded)
    for part in recording.item.get("expected_outputs") or []:
        assert part.replace(",", "").lower() in str(end.output).replace(",", "").lower()


@pytest.mark.parametrize("played", BOOKING, ids=str)
def test_a_job_asks_what_was_asked_in_its_record(played: Played) -> None:
    """The same calls with the same arguments, no more and no fewer."""
    recording = Recording.of("complexfuncbench", played.job)
    end, session = play(played, recording)
    assert end.state == "done", end.message
    assert comparable(played, session.made) == comparable(played, [(c.tool, c.args) for c in recording.calls])
