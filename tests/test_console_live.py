"""The live view adds up events, draws seldom, and never gets in the way of the run."""

from __future__ import annotations

import io
from contextlib import redirect_stderr
from typing import Any

import pytest
from rich.console import Console

from foreplan import Engine, MemoryJournal, Plan, Policies, Registry, Retry, ToolFailure, tool
from foreplan.console.live import Progress, View, picture, summary
from foreplan.console.screen import Screen
from foreplan.executor.events import CallSettled, CallStarted, Event, Outcome, RunClosed
from foreplan.executor.hands.telling import Said


@tool(effect="reads")
def numbers(most: int) -> list[int]:
    """Count."""
    return list(range(most))


@tool(effect="reads")
def even(number: int) -> int:
    """Take even numbers only."""
    if number % 2:
        raise ToolFailure("odd", code="odd")
    return number


def stumbling() -> Any:
    """A tool that fails once."""
    tries: list[int] = []

    @tool(effect="reads")
    def stumble() -> int:
        """Fail the first time."""
        tries.append(1)
        if len(tries) == 1:
            raise ToolFailure("later", kind="network", code="busy")
        return 1

    return stumble


STEPS = [
    {"id": "numbers", "tool": "numbers", "args": {"most": 10}},
    {
        "id": "evens",
        "each": {"$": "numbers"},
        "tool": "even",
        "args": {"number": {"$": "item"}},
        "on_failure": "skip",
    },
    {"id": "total", "value": {"$": "len(evens)"}},
]


def events(steps: list[dict[str, Any]], *tools: Any, **policies: Any) -> list[Event]:
    """The events of a run of these steps."""
    journal = MemoryJournal()
    engine = Engine(Registry(*tools), journal=journal, policies=Policies(retry=Retry(base=0), **policies))
    run = engine.run_blocking(Plan.model_validate({"steps": steps}))
    return list(journal.events(run.id))


def after(listed: list[Event]) -> Progress:
    """What these events add up to."""
    progress = Progress()
    for event in listed:
        progress.take(event)
    return progress


def text(part: Any) -> str:
    """What is shown, without colour."""
    file = io.StringIO()
    Console(file=file, width=80, markup=False).print(part)
    return file.getvalue()


def test_it_adds_up_steps_calls_and_failures() -> None:
    """Steps settled, calls made, failures by kind."""
    progress = after(events(STEPS, numbers, even))
    assert (progress.settled, progress.calls, dict(progress.failures)) == (3, 11, {"business": 5})


def test_it_knows_how_many_items_there_are_before_they_end() -> None:
    """The size of a fan-out is known as soon as its first call is admitted."""
    listed = events(STEPS, numbers, even)
    first = next(
        i for i, event in enumerate(listed) if isinstance(event, CallSettled) and len(event.path) == 2
    )
    assert after(listed[:first]).tallies["evens"].total == 10


def test_a_call_that_is_tried_again_is_a_retry_and_no_failure() -> None:
    """The same arithmetic as the executor's tells the two apart."""
    progress = after(events([{"id": "a", "tool": "stumble"}], stumbling()))
    assert (progress.retries, dict(progress.failures), progress.settled) == (1, {}, 1)


def test_a_step_that_stopped_is_settled() -> None:
    """Items that were never begun are not waited for."""
    steps = [
        {"id": "evens", "each": [1, 2, 3, 4, 5, 6, 7, 8], "tool": "even", "args": {"number": {"$": "item"}}}
    ]
    progress = after(events(steps, even, limits={"run": 1}))
    assert (progress.tallies["evens"].settled, progress.under_way) == (True, [])


def test_the_picture_shows_the_fan_out() -> None:
    """A bar, how many of how many, how many failed."""
    listed = events(STEPS, numbers, even)
    settled = [i for i, event in enumerate(listed) if isinstance(event, CallSettled) and len(event.path) == 2]
    page = text(picture(after(listed[: settled[6] + 1]), 3.0))
    assert "evens" in page
    assert "7/10" in page
    assert "failed" in page
    assert "1 of 3 steps" in page


def test_the_picture_is_ascii_where_the_terminal_is() -> None:
    """A terminal without Unicode gets a bar of signs it has."""
    listed = events(STEPS, numbers, even)
    settled = [i for i, event in enumerate(listed) if isinstance(event, CallSettled) and len(event.path) == 2]
    page = text(picture(after(listed[: settled[6] + 1]), 3.0, ascii_only=True))
    assert "####" in page
    assert "━" not in page


def test_the_sum_is_one_line() -> None:
    """Steps, calls, failures, time."""
    line = summary(after(events(STEPS, numbers, even)), 12.0).plain
    assert line == "3 of 3 steps  ·  11 calls  ·  5 failed (business)  ·  12 s"


@pytest.fixture
def clock() -> list[float]:
    """A time that the test moves."""
    return [0.0]


def view(clock: list[float], **options: bool) -> View:
    """A view of a screen that is no terminal."""
    return View(Screen(**options), clock=lambda: clock[0])


def test_without_a_terminal_lines_are_few(capsys: pytest.CaptureFixture[str], clock: list[float]) -> None:
    """A thousand events in ten minutes are a handful of lines, ever further apart."""
    steps = [
        {"id": "evens", "each": list(range(0, 1000, 2)), "tool": "even", "args": {"number": {"$": "item"}}}
    ]
    with view(clock) as seen:
        for event in events(steps, even):
            clock[0] += 0.4
            seen.watch(event)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("run ")
    assert 5 < len(lines) < 25


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str], clock: list[float]) -> None:
    """No line of progress."""
    with view(clock, quiet=True) as seen:
        for event in events(STEPS, numbers, even):
            clock[0] += 100
            seen.watch(event)
    assert capsys.readouterr() == ("", "")


def test_a_stream_that_is_gone_does_not_touch_the_run(clock: list[float]) -> None:
    """Progress that cannot be written is dropped."""

    class Gone(io.StringIO):
        """A stream whose reader went away."""

        def write(self, text: str) -> int:
            raise BrokenPipeError

    with redirect_stderr(Gone()):
        seen = view(clock)
    run = Engine(Registry(numbers, even), watch=seen.watch).run_blocking(
        Plan.model_validate({"steps": STEPS})
    )
    assert run.ok


def test_an_earlier_process_counts(clock: list[float]) -> None:
    """A resumed run begins with what its journal holds."""
    listed = events(STEPS, numbers, even)
    progress = after([event for event in listed if not isinstance(event, RunClosed)])
    assert progress.tallies["evens"].ended[Outcome.OK] == 5


CHAINS = [
    {
        "id": "chains",
        "each": [1, 2, 4],
        "steps": [
            {"id": "listed", "tool": "numbers", "args": {"most": {"$": "item"}}},
            {"id": "taken", "tool": "even", "args": {"number": {"$": "item"}}},
        ],
        "output": {"$": "taken"},
        "on_failure": "skip",
    }
]


def test_a_group_counts_items_and_the_steps_inside() -> None:
    """Three items of which one fails, six steps inside; then it is settled."""
    listed = events(CHAINS, numbers, even)
    progress = after(listed)
    tally = progress.tallies["chains"]
    assert (tally.done, tally.total, tally.inside, tally.settled) == (3, 3, 6, True)
    assert tally.ended == {Outcome.OK: 2, Outcome.FAILED: 1}
    assert not tally.open
    assert progress.calls == 6


def test_a_step_that_repeats_is_settled_once_it_is_enough() -> None:
    """Although no event says so; until then it counts its calls."""
    poll = {
        "id": "poll",
        "tool": "numbers",
        "args": {"most": 0},
        "next": {"most": {"$": "len(result) + 1"}},
        "max": 9,
    }
    listed = events([{**poll, "until": {"$": "len(result) > 2"}}], numbers)
    tally = after(listed).tallies["poll"]
    assert (tally.done, tally.settled) == (4, True)
    ends = [i for i, event in enumerate(listed) if isinstance(event, CallSettled)]
    before = after(listed[: ends[1] + 1])
    assert not before.tallies["poll"].settled
    console = Console(width=80, file=io.StringIO())
    console.print(picture(before, 1.0))
    assert "2 calls of at most 9" in console.file.getvalue()  # type: ignore[attr-defined]


def test_what_is_undone_is_counted_by_itself() -> None:
    """It is a call, and no item of the step that it undoes."""

    @tool
    def book(what: str) -> str:
        """Book."""
        if what == "b":
            raise ToolFailure("sold out", code="sold_out")
        return what

    @tool
    def cancel(what: str) -> None:
        """Cancel."""

    steps = [
        {
            "id": "a",
            "tool": "book",
            "args": {"what": "a"},
            "undo": {"tool": "cancel", "args": {"what": {"$": "result"}}},
        },
        {"id": "b", "tool": "book", "args": {"what": "b"}, "after": ["a"]},
    ]
    progress = after(events(steps, book, cancel, approve="never"))
    assert (progress.calls, progress.undone, progress.tallies["a"].done) == (3, 1, 1)
    assert "1 undone" in summary(progress, 1.0).plain


def test_what_a_tool_says_stands_with_its_step_until_the_call_ends() -> None:
    """How far it is and its words, on the line of the step; of another run or a step that is over nothing is shown."""
    listed = events([{"id": "poll", "tool": "numbers", "args": {"most": 1}}], numbers)
    begun = next(i for i, event in enumerate(listed) if isinstance(event, CallStarted))
    progress = after(listed[: begun + 1])
    said = Said(progress.run, ("poll",), "numbers", 1, 0.4, 4, 10, "pages")
    progress.hear(said._replace(run="another"))
    assert progress.tallies["poll"].said is None
    progress.hear(said)
    console = Console(width=80, file=io.StringIO())
    console.print(picture(progress, 1.0))
    assert "40%  pages" in console.file.getvalue()  # type: ignore[attr-defined]
    for event in listed[begun + 1 :]:
        progress.take(event)
    progress.hear(said)
    assert progress.tallies["poll"].said is None
