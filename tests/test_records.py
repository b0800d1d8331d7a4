"""An event is written as text and read back as the same event, whatever data it carries."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rooms import imports_of, modules
from support.events import anything, opening, plain, settled

from foreplan import Plan
from foreplan.executor import events
from foreplan.executor.events import (
    EVENTS,
    CallAdmitted,
    CallSettled,
    CallStarted,
    Event,
    Outcome,
    PlanAccepted,
    RowOpened,
    RowSettled,
    RunClosed,
    ValueSettled,
    decode,
    encode,
)
from foreplan.executor.journal.records import (
    first_tip,
    from_text,
    next_tip,
    quickly,
    slowly,
    to_text,
)


def written_and_read(event: Event) -> Event:
    """The event as it comes back."""
    text, data = to_text(event)
    assert text.encode() == data
    return from_text(data)


@pytest.mark.parametrize("kind", EVENTS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_event_comes_back_as_it_was(kind: str, data: st.DataObject) -> None:
    """Every kind, with data that looks like type tags, huge integers, floats, any text: equal to the last type."""
    event = data.draw(anything(EVENTS[kind]))
    assert repr(written_and_read(event)) == repr(event)
    assert decode(encode(event)) == event


@settings(max_examples=150)
@given(
    value=plain,
    dice=st.floats(0, 1, exclude_max=True),
    line=st.none() | st.integers(1, 9),
    reason=st.sampled_from(["", "budget"]),
)
def test_there_is_one_text_for_an_event(value: Any, dice: float, line: int | None, reason: Any) -> None:
    """Events of which there are many are written by a quicker writer, to the letter as `json` writes them."""
    stamp = (3, 1_700_000_000.25 + dice, dice)
    written: list[Event] = [
        CallAdmitted(*stamp, ("pay", 3), "pay", {"x": value}, "sha256:00", "key"),
        CallStarted(*stamp, ("pay", 3), 1),
        CallSettled(*stamp, ("pay", 3), 1, Outcome.OK, value),
        ValueSettled(*stamp, ("sum",), Outcome.OK, value),
        RowOpened(*stamp, "b.3", "b", 3, {"x": value}, "sha256:00", line),
        RunClosed(*stamp, "done", output=value, message="2 steps are settled"),
        RunClosed(*stamp, "stopped", reason, value, reason),
        RowSettled(*stamp, 3, "b.3", "done", reason, line=line, used={"x": value}, events=9, closing="00"),
        RowSettled(*stamp, 3, "b.3", "failed", message=reason, line=line, events=9, closing="00"),
    ]
    texts = [to_text(event)[0] for event in written]
    assert [json.dumps(encode(e), ensure_ascii=False, separators=(",", ":")) for e in written] == texts
    assert [slowly(event, 2**20).text for event in written] == texts


def test_what_each_row_has_is_written_quickly() -> None:
    """Its beginning, its end and what its batch says of that; with a line where its file has lines."""
    stamp = (3, 1_700_000_000.25, 0.5)
    for line in (None, 7):
        for event in (
            RowOpened(*stamp, "b.3", "b", 3, {"n": 1}, "sha256:00", line),
            RunClosed(*stamp, "done", output={"n": 1}, message="2 steps are settled"),
            RowSettled(*stamp, 3, "b.3", "done", line=line, used={"tool_calls": 2}, events=9, closing="00"),
        ):
            assert slowly(event, 2**20).data == quickly(event, 2**20)


def test_every_event_can_be_written() -> None:
    """The table that reading goes by holds every kind of event there is."""
    assert set(EVENTS.values()) == set(Event.__args__)
    assert set(EVENTS) <= set(events.__all__)


def test_data_that_looks_like_an_event_stays_data() -> None:
    """A result that holds our own type tags is a result, at any depth (D6)."""
    tag = encode(RunClosed(9, 1.0, 0.5, "failed", output={"type": "RunClosed"}))
    event = settled(3, {"type": "CallSettled", "outcome": "ok", "value": [tag, {"type": "nothing we know"}]})
    assert written_and_read(event) == event


@pytest.mark.parametrize(
    "value",
    [
        2**64 + 1,
        -(2**1000),
        10**4000,
        0.1,
        -0.0,
        5e-324,
        1e308,
        True,
        1,
        1.0,
        "\0",
        "\u2028",
        "\U0001f642",
        "\x1b[2J",
    ],
)
def test_numbers_and_text_are_exact(value: Any) -> None:
    """No number is rounded or changes its type, no character is lost."""
    assert repr(written_and_read(settled(3, [value, {"k": value}]))) == repr(
        settled(3, [value, {"k": value}])
    )


def test_half_a_character_is_kept() -> None:
    """A file name that is no text has no UTF-8; the record is then written in ASCII and reads the same."""
    event = settled(3, {"name": "caf\udce9", "other": "é"})
    text, _ = to_text(event)
    assert text.isascii()
    assert written_and_read(event) == event


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, b"x", object(), {(1,): 2}])
def test_what_is_no_json_is_refused(value: Any) -> None:
    """Nothing is written that would not read back as it was."""
    with pytest.raises((TypeError, ValueError)):
        to_text(settled(3, {"x": value}))


def test_text_stays_readable() -> None:
    """One line of JSON with the type first and letters as they are, so that other programs can read it."""
    text, _ = to_text(settled(3, {"name": "Zoë"}))
    assert text.startswith('{"type":"CallSettled","seq":3,')
    assert '"value":{"name":"Zoë"}' in text
    assert json.loads(text)["path"] == ["hello", 3]


def test_a_chain_depends_on_everything_before_it() -> None:
    """Another run, another order or another byte gives another end."""
    texts = [to_text(event)[1] for event in opening("a")]

    def end(run: str, parts: list[bytes]) -> bytes:
        tip = first_tip(run)
        for part in parts:
            tip = next_tip(tip, part)
        return tip

    ends = {
        end("a", texts),
        end("b", texts),
        end("a", texts[::-1]),
        end("a", texts[:1]),
        end("a", [texts[0], b"x"]),
    }
    assert len(ends) == 5
    assert end("a", texts) == end("a", texts)


def test_nothing_that_is_stored_can_run_code() -> None:
    """JSON only: no module of the package imports pickle or its like (threat 15)."""
    banned = {"pickle", "shelve", "marshal", "dill", "jsonpickle", "cloudpickle"}
    targets = {(name, i.target) for name, path in modules().items() for i in imports_of(name, path)}
    assert [found for found in targets if found[1].split(".")[0] in banned] == []


@pytest.mark.parametrize("goal", ["", "plain", "naïve \u2028 goal", "\ud800 half a character"])
def test_a_plan_is_written_once_and_to_the_letter(goal: str) -> None:
    """Its text stands in each event that accepts it; a copy that says something else has another."""
    steps = [
        {"id": f"s{i}", "tool": "t", "args": {"a": {"$": "inputs.x"}, "b": [1.5, None]}} for i in range(3)
    ]
    plan = Plan.model_validate({"goal": goal, "steps": steps, "output": {"$": "s0"}})
    for one in (plan, plan, plan.model_copy(update={"goal": "another"})):
        event = PlanAccepted(2, 1_700_000_000.25, 0.5, one, "sha256:00")
        data = quickly(event, 10)
        if data is not None:  # half a character has no UTF-8
            assert data == slowly(event, 10).data
        assert (data is None) is ("\ud800" in one.goal)
        assert slowly(event, 10).apart == {}
        assert from_text(slowly(event, 10).data) == event
