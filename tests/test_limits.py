"""The arithmetic of limits: windows, rests, circuits, and which rules bound a tool."""

from __future__ import annotations

import random

import pytest

from foreplan import Breaker, Limits, Plan, Policies, Rate, Rates, Registry, review, tool
from foreplan.planner.bounds import limits_of, limits_text
from foreplan.policies.failures import Failure, Kind
from foreplan.policies.pace import Circuit, Key, Rest, Window, places_of, rest_of, rules_for

TWICE = Rate(calls=2, seconds=10)


@pytest.mark.parametrize(
    ("starts", "pending", "now", "expected"),
    [
        ([], 0, 5.0, 5.0),
        ([1.0], 0, 5.0, 5.0),
        ([1.0, 4.0], 0, 5.0, 11.0),
        ([1.0, 4.0], 0, 11.0, 11.0),
        ([1.0, 4.0, 11.0], 0, 12.0, 14.0),
        ([1.0], 1, 5.0, 11.0),
        ([], 1, 5.0, 5.0),
        ([], 2, 5.0, None),
        ([1.0], 2, 50.0, None),
    ],
)
def test_one_more_may_begin_when_fewer_than_the_rate_lie_in_the_window(
    starts: list[float], pending: int, now: float, expected: float | None
) -> None:
    """What is granted and has not begun counts as if it began now."""
    window = Window()
    window.longest = TWICE.seconds
    for at in starts:
        window.began(at)
    window.pending = pending
    assert window.next(TWICE, now) == expected


@pytest.mark.parametrize("seed", range(20))
def test_no_window_ever_holds_more_than_the_rate_however_late_grants_begin(seed: int) -> None:
    """Random grants, each begun a random time later: exact for every window, and for the times of the grants too."""
    draw = random.Random(seed)
    window, now = Window(), 0.0
    begun: list[float] = []
    granted: list[float] = []
    late: list[float] = []
    for _ in range(400):
        now += draw.choice([0.0, 0.1, 1.0, 3.0])
        while late and draw.random() < 0.5:
            late.pop()
            window.pending -= 1
            window.began(now)
            begun.append(now)
        if window.next(TWICE, now) == now:
            window.pending += 1
            granted.append(now)
            late.append(now)
    assert len(begun) > 20
    for times in (begun, granted):
        assert all(later - earlier > 10 - 1e-9 for earlier, later in zip(times, times[2:], strict=False))
    assert len(window.starts) <= 3, "what no window reaches is forgotten"


def test_a_rest_holds_until_it_is_over_then_lets_those_who_waited_begin_one_by_one() -> None:
    """The gap is for those who came before its end; later ones are not slowed down."""
    rest = Rest(100.0)
    rest.asked(100.0, 130.0, 0.25)
    assert (rest.until, rest.next, rest.since) == (130.0, 130.25, 100.0)
    rest.passed(arrived=105.0, now=130.25, gap=0.4)
    assert rest.next == 130.65
    rest.passed(arrived=130.5, now=130.65, gap=0.4)
    assert rest.next == 130.65


def test_a_rest_that_is_asked_for_again_began_with_the_first_unless_there_was_an_answer() -> None:
    """So that patience is for the whole of it; a shorter one does not cut a longer short."""
    rest = Rest(0.0)
    rest.asked(0.0, 30.0, 0.0)
    rest.asked(1.0, 20.0, 0.0)
    assert rest.until == 30.0
    rest.answered(10.0)
    rest.asked(31.0, 61.0, 0.0)
    assert rest.since == 0.0, "the answer of a call that was under way says nothing"
    rest.answered(62.0)
    rest.asked(70.0, 100.0, 0.0)
    assert rest.since == 70.0


def test_a_circuit_opens_after_failures_in_a_row_and_at_once_when_the_call_that_tries_fails() -> None:
    """An answer in between begins the count anew."""
    breaker, circuit = Breaker(failures=3, seconds=30), Circuit()
    for at in (1.0, 2.0):
        circuit.failed(at, breaker)
    circuit.answered()
    for at in (3.0, 4.0):
        circuit.failed(at, breaker)
    assert not circuit.open
    circuit.failed(5.0, breaker)
    assert (circuit.open, circuit.until) == (True, 35.0)
    circuit.failed(36.0, breaker)
    assert (circuit.open, circuit.until) == (True, 66.0)
    circuit.answered()
    assert (circuit.open, circuit.failures) == (False, 0)


def test_the_rules_of_a_tool_are_those_of_its_name_its_host_and_the_principal() -> None:
    """Hosts are alike in upper and lower case; a plan as a tool is bounded by its name alone."""
    second = Rate(calls=1, seconds=1)
    rates = Rates(tool={"pay": second}, host={"Bank.example": TWICE}, principal=TWICE)
    policies = Policies(limits=Limits(host={"bank.EXAMPLE": 3}, rates=rates, breaker=Breaker()))
    rules = rules_for("pay", "BANK.example", "ada", policies)
    assert rules.windows == (
        (Key("tool", "pay"), second),
        (Key("host", "bank.example"), TWICE),
        (Key("principal", "ada"), TWICE),
    )
    assert (rules.pool, rules.cap, rules.empty) == (Key("host", "bank.example"), 3, False)
    plan = rules_for("pay", "BANK.example", "ada", policies, direct=False)
    assert (plan.windows, plan.cap, plan.breaker) == (((Key("tool", "pay"), second),), 0, None)
    assert rules_for("look", "elsewhere", "ada", Policies()).empty


@pytest.mark.parametrize(
    ("host", "args", "named", "expected"),
    [
        ("", {}, "", {Key("tool", "get")}),
        ("api", {}, "", {Key("host", "api")}),
        ("api", {}, "api.example", {Key("host", "api"), Key("host", "api.example")}),
        ("", {}, "api.example", {Key("tool", "get"), Key("host", "api.example")}),
        ("", {"url": "https://API.example:8443/x"}, "api.example", {Key("host", "api.example")}),
        ("", {"url": "https://[half"}, "api.example", {Key("tool", "get"), Key("host", "api.example")}),
    ],
)
def test_who_asked_for_rest_is_the_host_and_whoever_cannot_be_told_from_it(
    host: str, args: dict[str, str], named: str, expected: set[Key]
) -> None:
    """A tool without a host that is given URLs is held for the host that asked, not for all."""
    rules = rules_for("get", host, "ada", Policies())
    failure = Failure(Kind.NETWORK, "rate_limited", "later", retry_after=30, host=named)
    assert rest_of(rules, args, failure) == expected
    assert places_of(rules, args) & expected, "the call that failed is held itself"


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        ("10/s", "10/s"),
        ("5/10s", "5/10s"),
        ("60/60s", "60/min"),
        ("1000/day", "1000/day"),
        ("7/90s", "7/90s"),
    ],
)
def test_a_rate_is_shown_as_it_is_written(rate: str, text: str) -> None:
    """And what is shown can be written again."""
    assert Rate.model_validate(rate).text == text
    assert Rate.model_validate(text) == Rate.model_validate(rate)
    assert Rate(calls=3, seconds=0.5).text == "3 in 0.5 s"


@tool(effect="reads", host="api.example")
def look(x: int) -> int:
    """Look."""
    return x


def test_the_limits_of_a_tool_can_be_shown() -> None:
    """As data and in words; nothing where nothing holds; a review has them for each call."""
    rates = Rates(tool={"look": Rate(calls=10, seconds=1)}, principal=Rate(calls=100, seconds=60))
    limits = Limits(
        tool={"look": 4}, host={"api.example": 8}, rates=rates, breaker=Breaker(failures=3, seconds=30)
    )
    said = limits_of(look, Policies(limits=limits))
    assert said == {
        "host": "api.example",
        "at_once": {"run": 4, "host": 8},
        "rates": {"tool": "10/s", "principal": "100/min"},
        "breaker": {"failures": 3, "seconds": 30.0, "kinds": ["network", "timeout"], "hold": False},
    }
    assert limits_text(said) == [
        "at most 4 at once in this run",
        "at most 8 at once on api.example",
        "at most 10/s of this tool",
        "at most 100/min of this principal",
        "left alone for 30 s after 3 network or timeout failures in a row",
    ]
    assert (limits_of(look, Policies()), limits_text({})) == ({"host": "api.example"}, [])
    plan = Plan.model_validate({"steps": [{"id": "l", "tool": "look", "args": {"x": 1}}]})
    shown = review(plan, Registry(look), Policies(limits=limits))
    assert shown.steps[0].limits == shown.to_json()["steps"][0]["limits"] == said
