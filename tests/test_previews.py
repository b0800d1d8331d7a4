"""What a model is shown of a large value: the beginning, how much there is, and how to get at the rest (D5)."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreplan import Effect, Engine, FunctionPlanner, Limits, Plan, Policies, Retry, tool
from foreplan.planner.previews import preview
from foreplan.planner.prompt import replan_messages
from foreplan.planner.requests import ReplanRequest
from foreplan.registry.values import size_of

ROWS = [{"id": n, "name": f"row {n}", "tags": ["a", "b"]} for n in range(40_000)]


def test_what_is_small_is_shown_whole() -> None:
    """To the byte."""
    value = {"é": [1, None, "x"]}
    assert preview(value, size_of(value)) is value
    assert preview(value, size_of(value) - 1) != value


def test_a_long_list_shows_its_first_items() -> None:
    """With how many there are, how large it is, and the expression for the rest."""
    shown = preview(ROWS, 2000, whole="rows")
    assert shown["begins"][:2] == ROWS[:2]
    assert (shown["items"], shown["bytes"]) == (40_000, size_of(ROWS))
    assert shown["begins"][-1].endswith("more items")
    assert "the whole is rows in an expression, a part of it rows[10:20]" in shown["more"]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("x" * 5_000_000, "t[1000:2000]"),
        ({f"k{n}": n for n in range(10_000)}, "t.keys()"),
        ([[[["x" * 100] * 100] * 100] * 3], "t[10:20]"),
        ({"k" * 100_000: "v" * 100_000}, "t.keys()"),
        ([10**3000] * 100, "t[10:20]"),
    ],
)
def test_whatever_is_large_fits_the_cap(value: Any, said: str) -> None:
    """Texts, keys, nesting, numbers of three thousand digits."""
    shown = preview(value, 2000, whole="t")
    assert size_of(shown) <= 2000
    assert shown["bytes"] == size_of(value)
    assert said in shown["more"]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=200),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=30), inner, max_size=9),
    max_leaves=60,
)


@given(VALUES, st.integers(256, 4000))
def test_no_preview_is_larger_than_asked_for(value: Any, most: int) -> None:
    """Whatever the value, and it is plain JSON."""
    shown = preview(value, most, whole="a_step_with_a_name_of_sixty_four_characters_which_is_the_longest_")
    assert (
        len(json.dumps(shown, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"))
        <= most
    )


@tool(effect=Effect.READS)
async def read() -> list[dict[str, Any]]:
    """Reads forty thousand rows."""
    return ROWS


@tool(effect=Effect.READS)
async def save(rows: list[dict[str, Any]]) -> None:
    """Cannot save."""
    raise ValueError("no room for " + "x" * 100_000)


PLAN = Plan.model_validate(
    {
        "steps": [
            {"id": "rows", "tool": "read"},
            {"id": "saved", "tool": "save", "args": {"rows": {"$": "rows"}}},
        ]
    }
)


def asked(**policies: Any) -> ReplanRequest:
    """The request that a planner gets."""
    seen: list[ReplanRequest] = []

    def replan(request: ReplanRequest) -> str:
        seen.append(request)
        return "no rule applies"

    rules = Policies(retry=Retry(attempts=1), **policies)
    Engine([read, save], policies=rules, planner=FunctionPlanner(replan=replan)).run_blocking(PLAN)
    return seen[0]


def test_a_replan_shows_previews_within_the_cap_of_the_policy() -> None:
    """Results and arguments of megabytes make a request of a few thousand characters; rules in Python see all of it."""
    request = asked(show_tool_text=True)
    assert request.outcomes[0].preview == ROWS
    told = request.to_json()
    assert told["outcomes"]["rows"]["preview"]["items"] == 40_000
    assert "rows[10:20]" in told["outcomes"]["rows"]["preview"]["more"]
    assert told["failures"][0]["args"]["bytes"] > 1_000_000
    _, *rest = replan_messages(request)
    assert sum(len(m.content) for m in rest) < 15_000
    small = asked(show_tool_text=True, limits=Limits(preview_bytes=256)).to_json()
    assert size_of(small["outcomes"]["rows"]["preview"]) <= 256


def test_without_the_policy_there_is_only_the_shape() -> None:
    """As before: a preview is text of a tool."""
    told = asked().to_json()
    assert "preview" not in told["outcomes"]["rows"]


def test_a_preview_of_megabytes_takes_no_time() -> None:
    """Its size is measured, the rest is not looked at."""
    begun = time.process_time()
    preview(ROWS, 2000)
    assert time.process_time() - begun < 1
