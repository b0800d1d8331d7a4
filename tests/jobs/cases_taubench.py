"""Jobs of tau-bench, in small shops and airlines."""

from __future__ import annotations

from typing import Any

from jobs.job import Case
from jobs.tools_airline import Airline, Flight, Leg, Seats, leg, reservation
from jobs.tools_retail import Method, Shop, customer, variant
from jobs.world import Call, call

__all__ = ["CASES"]

CARD, PAYPAL = Method("credit_card", "card_1"), Method("paypal", "paypal_1")
ANN: dict[str, Any] = {"first_name": "Ann", "last_name": "Lee", "zip": "80280"}


def gift(balance: float) -> Method:
    return Method("gift_card", "gift_1", balance)


# ---------------------------------------------------------------------------------------------- retail


def keyboards(*, rgb: bool, clicky: bool = True, status: str = "delivered", user: str = "ann") -> Shop:
    keys: dict[str, Any] = {"size": "full", "backlight": "RGB"}
    shop = Shop(customer("#1", methods=[CARD])).stock(
        "Mechanical Keyboard",
        variant("k_old", 100.0, switch_type="linear", **keys),
        variant("k_dark", 120.25, clicky, switch_type="clicky", size="full", backlight="none"),
        variant("k_small", 90.0, switch_type="clicky", size="80%", backlight="RGB"),
        variant("k_rgb", 130.0, rgb, switch_type="clicky", **keys),
    )
    shop.stock(
        "Smart Thermostat",
        variant("t_old", 200.0, compatibility="Apple HomeKit", color="black"),
        variant("t_white", 180.0, compatibility="Google Assistant", color="white"),
        variant("t_black", 190.5, compatibility="Google Assistant", color="black"),
    )
    return shop.sell("#1", status, "k_old", "t_old", paid_with="card_1", user=user)


def exchange(*new: str) -> list[Call]:
    fields = {"item_ids": ["k_old", "t_old"], "new_item_ids": list(new), "payment_method_id": "card_1"}
    return [call("exchange_delivered_order_items", order_id="#1", **fields)]


def shirts(*, polyester: bool = True) -> Shop:
    small: dict[str, Any] = {"size": "S", "style": "v-neck"}
    shop = Shop(customer("#1", "#2", "#3", methods=[CARD])).stock(
        "T-Shirt",
        variant("blue_s", 10.0, color="blue", material="cotton", **small),
        variant("red_s", 10.0, color="red", material="cotton", **small),
        variant("cotton", 11.0, color="purple", material="cotton", **small),
        variant("poly", 12.0, polyester, color="purple", material="polyester", **small),
        variant("poly_l", 12.0, color="purple", material="polyester", size="L", style="v-neck"),
        variant("blue_l", 10.0, color="blue", material="cotton", size="L", style="v-neck"),
    )
    shop.sell("#1", "pending", "blue_s", "blue_l", "red_s", paid_with="card_1")
    shop.sell("#2", "delivered", "blue_s", paid_with="card_1")
    return shop.sell("#3", "pending", "blue_l", paid_with="card_1")


def purple(new: str) -> list[Call]:
    fields = {"item_ids": ["blue_s", "red_s"], "new_item_ids": [new, new], "payment_method_id": "card_1"}
    return [call("modify_pending_order_items", order_id="#1", **fields)]


def lamps(**in_stock: bool) -> Shop:
    def lamp(item: str, brightness: str, source: str, color: str = "white") -> Any:
        options: dict[str, Any] = {"brightness": brightness, "power_source": source, "color": color}
        return variant(item, 160.0 if item == "usb" else 150.0, in_stock.get(item, True), **options)

    shop = Shop(customer("#1", methods=[PAYPAL])).stock(
        "Desk Lamp",
        lamp("ac", "high", "AC adapter"),
        lamp("usb", "high", "USB"),
        lamp("black", "high", "battery", "black"),
        lamp("dim", "low", "battery"),
        lamp("battery", "high", "battery"),
        lamp("old", "medium", "USB"),
    )
    return shop.sell("#1", "delivered", "old", paid_with="paypal_1")


def better(item: str) -> list[Call]:
    fields = {"item_ids": ["old"], "new_item_ids": [item], "payment_method_id": "paypal_1"}
    return [call("exchange_delivered_order_items", order_id="#1", **fields)]


def gaming(paid_with: str, *methods: Method) -> Shop:
    shop = Shop(customer("#1", "#2", "#3", methods=list(methods)))
    for name in ("Bottle", "Mechanical Keyboard", "Backpack", "Gaming Mouse", "Kettle"):
        shop.stock(name, variant(name, 10.0))
    shop.sell("#1", "delivered", "Bottle", "Mechanical Keyboard", "Backpack", paid_with=paid_with)
    shop.sell("#2", "pending", "Kettle", paid_with=paid_with)
    return shop.sell("#3", "pending", "Kettle", "Gaming Mouse", paid_with=paid_with)


def back(method: str) -> Call:
    fields = {"item_ids": ["Bottle", "Backpack"], "payment_method_id": method}
    return call("return_delivered_order_items", order_id="#1", **fields)


def cancel(order: str, reason: str = "no longer needed") -> Call:
    return call("cancel_pending_order", order_id=order, reason=reason)


def watches(*orders: str) -> Shop:
    shop = Shop(customer(*orders, methods=[PAYPAL])).stock("Boots", variant("boots", 0.1))
    shop.stock("Smart Watch", variant("watch", 367.38)).stock("Camera", variant("camera", 0.2))
    shop.sell("#1", "pending", "boots", "camera", paid_with="paypal_1")
    shop.sell("#2", "pending", "watch", paid_with="paypal_1")
    return shop.sell("#3", "delivered", "boots", "watch", paid_with="paypal_1")


def shoes(balance: float | None) -> Shop:
    methods = [PAYPAL] if balance is None else [PAYPAL, gift(balance)]
    shop = Shop(customer("#1", "#2", "#3", methods=methods)).stock(
        "Running Shoes",
        variant("nine", 140.0, size="9"),
        variant("ten", 200.0, size="10"),
        variant("nine_gone", 180.0, False, size="9"),
        variant("nine_red", 155.35, size="9"),
    )
    shop.stock("Bottle", variant("plain", 54.0), variant("glass", 54.85))
    shop.sell("#1", "pending", "plain", "nine", paid_with="paypal_1")
    shop.sell("#2", "processed", "plain", paid_with="paypal_1")
    return shop.sell("#3", "pending", "glass", paid_with="paypal_1")


def upgrade(method: str) -> list[Call]:
    fields = {
        "item_ids": ["plain", "nine"],
        "new_item_ids": ["glass", "nine_red"],
        "payment_method_id": method,
    }
    return [call("modify_pending_order_items", order_id="#1", **fields)]


UPGRADED = [{"order": "#1", "difference": 16.2}, {"order": "#3", "difference": 0}]

HIGHWAY = {
    "address1": "101 Highway",
    "address2": "",
    "city": "New York",
    "state": "NY",
    "country": "USA",
    "zip": "10001",
}
ELM = {
    "address1": "Elm Street 1",
    "address2": "",
    "city": "Denver",
    "state": "CO",
    "country": "USA",
    "zip": "80280",
}


def movers(*statuses: str) -> Shop:
    shop = Shop(customer(*[f"#{n}" for n in range(len(statuses))], methods=[CARD])).stock(
        "Kettle", variant("kettle", 1.0)
    )
    for n, status in enumerate(statuses):
        shop.sell(f"#{n}", status, "kettle", paid_with="card_1")
    return shop


def basket(email: str = "ann@x.org") -> Shop:
    shop = Shop(customer("#1", methods=[CARD], email=email))
    shop.stock(
        "Camera", variant("camera", 481.5), variant("camera_2", 466.75), variant("camera_3", 1.0, False)
    )
    shop.stock("Umbrella", variant("umbrella", 288.82, False), variant("umbrella_2", 302.63))
    shop.stock("Rug", variant("rug", 396.66), variant("rug_2", 394.43))
    return shop.sell("#1", "pending", "camera", "umbrella", "rug", paid_with="card_1")


WHO = {**ANN, "email": "ann@x.org"}
CHEAPEST = [
    call(
        "modify_pending_order_items",
        order_id="#1",
        item_ids=["camera", "rug"],
        new_item_ids=["camera_2", "rug_2"],
        payment_method_id="card_1",
    )
]

RETAIL = [
    Case(
        "tau1-retail-test-0",
        "the RGB one is out of stock: without backlight; the thermostat keeps its colour",
        lambda: keyboards(rgb=False),
        {**ANN, "order": "#1"},
        did=exchange("k_dark", "t_black"),
        output={"costs": 10.75},
    ),
    Case(
        "tau1-retail-test-0",
        "the RGB one is there",
        lambda: keyboards(rgb=True),
        {**ANN, "order": "#1"},
        did=exchange("k_rgb", "t_black"),
        output={"costs": 20.5},
    ),
    Case(
        "tau1-retail-test-0",
        "neither is there: nothing is exchanged, the thermostat neither",
        lambda: keyboards(rgb=False, clicky=False),
        {**ANN, "order": "#1"},
        failures=["clicky"],
        state="failed",
    ),
    Case(
        "tau1-retail-test-0",
        "somebody else's order",
        lambda: keyboards(rgb=True, user="bob"),
        {**ANN, "order": "#1"},
    ),
    Case(
        "tau1-retail-test-3",
        "both small shirts of the one pending order, in one change",
        shirts,
        ANN,
        did=purple("poly"),
        output={"kinds_in_stock": 6, "changed": 2},
    ),
    Case(
        "tau1-retail-test-3",
        "no polyester: cotton",
        lambda: shirts(polyester=False),
        ANN,
        did=purple("cotton"),
    ),
    Case(
        "tau1-retail-test-3",
        "nothing ordered",
        lambda: Shop(customer(methods=[CARD]), products=shirts().products),
        ANN,
        output={"kinds_in_stock": 6, "changed": 0},
    ),
    Case(
        "tau1-retail-test-8",
        "one with battery",
        lamps,
        ANN,
        did=better("battery"),
        output={"difference": 0.0},
    ),
    Case(
        "tau1-retail-test-8",
        "no battery: USB",
        lambda: lamps(battery=False),
        ANN,
        did=better("usb"),
        output={"difference": 10.0},
    ),
    Case("tau1-retail-test-8", "neither: AC", lambda: lamps(battery=False, usb=False), ANN, did=better("ac")),
    Case(
        "tau1-retail-test-8",
        "no brighter one of this colour: nothing is exchanged",
        lambda: lamps(battery=False, usb=False, ac=False),
        ANN,
        failures=["better"],
        state="failed",
    ),
    Case(
        "tau1-retail-test-13",
        "the desk refuses PayPal and takes the card; an order with a mouse stays",
        lambda: gaming("card_1", CARD, PAYPAL),
        {"email": "ann@x.org"},
        did=[cancel("#2"), back("card_1")],
        in_any_order=True,
        refused=[back("paypal_1")],
        failures=["returned[0].attempts[0]"],
        output={"cancelled": ["#2"], "returned": [{"order": "#1", "refunded_to": "card_1"}]},
    ),
    Case(
        "tau1-retail-test-13",
        "PayPal is taken: the card is not tried",
        lambda: gaming("paypal_1", CARD, PAYPAL),
        {"email": "ann@x.org"},
        did=[cancel("#2"), back("paypal_1")],
        in_any_order=True,
    ),
    Case(
        "tau1-retail-test-13",
        "the order was paid otherwise: no way to refund is taken, and the run is red",
        lambda: gaming("gift_1", CARD, PAYPAL),
        {"email": "ann@x.org"},
        did=[cancel("#2")],
        refused=[back("paypal_1"), back("card_1")],
        failures=["returned[0].attempts[0]", "returned[0].attempts[1]"],
        state="failed",
    ),
    Case(
        "tau1-retail-test-16",
        "two pending, one watch: 0.1 + 0.2 + 367.38 + 367.38",
        lambda: watches("#1", "#2", "#3"),
        ANN,
        did=[
            cancel("#1"),
            cancel("#2"),
            call(
                "return_delivered_order_items",
                order_id="#3",
                item_ids=["watch"],
                payment_method_id="paypal_1",
            ),
        ],
        in_any_order=True,
        output={"comes_back": 735.06, "cancelled": ["#1", "#2"], "returned": ["#3"]},
    ),
    Case(
        "tau1-retail-test-16",
        "no orders",
        lambda: watches(),
        ANN,
        output={"comes_back": 0, "cancelled": [], "returned": []},
    ),
    Case(
        "tau1-retail-test-20",
        "the gift card holds exactly what it costs; shoes keep their size; what cannot be better stays",
        lambda: shoes(16.2),
        ANN,
        did=upgrade("gift_1"),
        output={"upgraded": UPGRADED},
    ),
    Case(
        "tau1-retail-test-20",
        "a cent too little on the gift card",
        lambda: shoes(16.19),
        ANN,
        did=upgrade("paypal_1"),
    ),
    Case("tau1-retail-test-20", "no gift card", lambda: shoes(None), ANN, did=upgrade("paypal_1")),
    Case(
        "tau1-retail-test-22",
        "one of three orders is pending; the customer's own address comes back last",
        lambda: movers("delivered", "pending", "cancelled"),
        ANN,
        did=[
            call("modify_user_address", user_id="ann", **HIGHWAY),
            call("modify_pending_order_address", order_id="#1", **HIGHWAY),
            call("modify_user_address", user_id="ann", **ELM),
        ],
        output={"orders": ["#1"], "lives": "Denver"},
    ),
    Case(
        "tau1-retail-test-22",
        "no orders at all",
        lambda: movers(),
        ANN,
        did=[
            call("modify_user_address", user_id="ann", **HIGHWAY),
            call("modify_user_address", user_id="ann", **ELM),
        ],
    ),
    Case(
        "tau1-retail-test-37",
        "the mail address is known; exactly 1,150.00 is enough",
        basket,
        WHO,
        did=CHEAPEST,
        output={"dearest": {"name": "Camera", "price": 481.5}, "total": 1150.0, "cancelled": False},
    ),
    Case(
        "tau1-retail-test-37",
        "found by name; two dollars",
        lambda: basket("other@x.org"),
        WHO,
        did=CHEAPEST,
        failures=["by_mail"],
    ),
    Case(
        "tau1-retail-test-37",
        "a cent too much: cancelled",
        basket,
        {**WHO, "most": 1149.99},
        did=[cancel("#1", "ordered by mistake")],
        output={"dearest": {"name": "Camera", "price": 481.5}, "total": 1150.0, "cancelled": True},
    ),
    Case(
        "tau1-retail-test-37",
        "nobody of this mail or name",
        lambda: basket("other@x.org"),
        {**WHO, "zip": "1"},
        failures=["by_mail", "by_name"],
        state="failed",
    ),
]

# ---------------------------------------------------------------------------------------------- airline


def airline(*reservations: Any, schedule: dict[str, list[Flight]] | None = None) -> Airline:
    return Airline({r.reservation_id: r for r in reservations}, schedule or {})


def cancelled(id: str) -> Call:
    return call("cancel_reservation", reservation_id=id)


def flight(number: str, departs: str, arrives: str, business: int = 9) -> Flight:
    return Flight(number, "A", "B", departs, arrives, Seats(9, 9, business), Seats(50, 100, 300))


def changed_to(cabin: str, id: str, *legs: Leg) -> Call:
    flights = [{"flight_number": f.flight_number, "date": f.date} for f in legs]
    return call(
        "update_reservation_flights", reservation_id=id, cabin=cabin, flights=flights, payment_id="card_1"
    )


SHORT, LONG, NIGHT, NIGHT_4 = (
    leg("A", "B", "SHORT", "2030-05-25"),
    leg("A", "B", "LONG", "2030-05-25"),
    leg("A", "B", "NIGHT", "2030-05-25"),
    leg("A", "B", "NIGHT4", "2030-05-25"),
)
SCHEDULE = {
    "2030-05-25": [
        flight("SHORT", "06:00:00", "09:00:00", business=2),
        flight("LONG", "06:00:00", "09:01:00"),
        flight("NIGHT", "23:30:00", "02:30:00+1"),
        flight("NIGHT4", "20:00:00", "00:00:00+1"),
    ]
}
TODAY = {"user": "ann", "today": "2030-05-15"}

AIRLINE = [
    Case(
        "tau1-airline-test-28",
        "business, insured, neither, and one that has flown",
        lambda: airline(
            reservation("BUS", leg("A", "B", "1", "2030-05-24"), cabin="business"),
            reservation("INS", leg("A", "B", "2", "2030-05-22"), insurance="yes"),
            reservation("LOW", leg("A", "B", "3", "2030-05-28"), cabin="basic_economy"),
            reservation(
                "OLD", leg("A", "B", "4", "2030-05-09"), leg("B", "A", "5", "2030-05-19"), cabin="business"
            ),
        ),
        TODAY,
        did=[cancelled("BUS"), cancelled("INS")],
        in_any_order=True,
        output={"cancelled": ["BUS", "INS"], "left": ["LOW"]},
    ),
    Case(
        "tau1-airline-test-28",
        "a flight of today is no upcoming one",
        lambda: airline(reservation("NOW", leg("A", "B", "1", "2030-05-15"), cabin="business")),
        TODAY,
        output={"cancelled": [], "left": []},
    ),
    Case(
        "tau1-airline-test-30",
        "three on one day: the one from where she is stays",
        lambda: airline(
            reservation("X1", leg("JFK", "PHL", "1", "2030-05-17")),
            reservation("X2", leg("ORD", "SFO", "2", "2030-05-22")),
            reservation("X3", leg("LAX", "BOS", "3", "2030-05-17"), leg("BOS", "LAX", "4", "2030-05-22")),
            reservation("X4", leg("MCO", "LGA", "5", "2030-05-17")),
        ),
        {"user": "ann", "places": {"2030-05-17": "LAX", "2030-05-22": "BOS"}},
        did=[cancelled("X1"), cancelled("X4")],
        in_any_order=True,
        output={"cancelled": ["X1", "X4"]},
    ),
    Case(
        "tau1-airline-test-30",
        "nothing is known of where she is: the first stays",
        lambda: airline(
            reservation("X1", leg("JFK", "PHL", "1", "2030-05-17")),
            reservation("X2", leg("LAX", "BOS", "3", "2030-05-17")),
        ),
        {"user": "ann"},
        did=[cancelled("X2")],
    ),
    Case(
        "tau1-airline-test-30",
        "no reservations",
        lambda: airline(),
        {"user": "ann"},
        output={"cancelled": []},
    ),
    Case(
        "tau1-airline-test-33",
        "three hours are not more than three, also across midnight; two seats are not enough for three",
        lambda: airline(
            reservation("R1", SHORT, people=2),
            reservation("R2", SHORT, people=3),
            reservation("R3", SHORT, LONG),
            reservation("R4", NIGHT),
            reservation("R5", NIGHT_4),
            reservation("R6", leg("A", "B", "GONE", "2030-05-10")),
            reservation("R7", NIGHT, cabin="business"),
            schedule=SCHEDULE,
        ),
        TODAY,
        did=[
            changed_to("business", "R1", SHORT),
            cancelled("R3"),
            changed_to("business", "R4", NIGHT),
            cancelled("R5"),
        ],
        in_any_order=True,
        output={
            "changed": [
                {"reservation": id, "became": became}
                for id, became in [
                    ("R1", "business"),
                    ("R2", "as it was"),
                    ("R3", "cancelled"),
                    ("R4", "business"),
                    ("R5", "cancelled"),
                    ("R7", "as it was"),
                ]
            ]
        },
    ),
    Case(
        "tau1-airline-test-33",
        "a flight that is in no schedule keeps its reservation as it is, and the run is red",
        lambda: airline(
            reservation("R1", leg("A", "B", "LOST", "2030-05-25")),
            reservation("R2", SHORT),
            schedule=SCHEDULE,
        ),
        TODAY,
        did=[changed_to("business", "R2", SHORT)],
        failures=["changed[0].flights"],
        state="failed",
    ),
    Case(
        "tau1-airline-test-34",
        "basic economy is upgraded first; the others cost per passenger",
        lambda: airline(
            reservation("LOW", SHORT, cabin="basic_economy"),
            reservation("ECO", LONG),
            reservation("OLD", leg("A", "B", "1", "2030-05-01")),
            reservation(
                "NEXT",
                leg("A", "B", "1", "2030-06-01", 65.5),
                leg("B", "A", "2", "2030-06-09", 83.25),
                people=3,
            ),
        ),
        {**TODAY, "cancel": ["LOW", "ECO"]},
        did=[changed_to("economy", "LOW", SHORT), cancelled("LOW"), cancelled("ECO")],
        in_any_order=True,
        output={"cancelled": ["LOW", "ECO"], "others": [{"id": "NEXT", "cost": 446.25}], "total": 446.25},
    ),
    Case(
        "tau1-airline-test-34",
        "the upgrade comes before the cancellation",
        lambda: airline(reservation("LOW", SHORT, cabin="basic_economy")),
        {**TODAY, "cancel": ["LOW"]},
        did=[changed_to("economy", "LOW", SHORT), cancelled("LOW")],
        output={"cancelled": ["LOW"], "others": [], "total": 0},
    ),
    Case(
        "tau1-airline-test-34",
        "one that is not hers is not touched",
        lambda: airline(reservation("ECO", LONG)),
        {**TODAY, "cancel": ["ALIEN"]},
        output={"cancelled": [], "others": [{"id": "ECO", "cost": 100.0}], "total": 100.0},
    ),
]

CASES = [*RETAIL, *AIRLINE]
