"""What a plan, a tool or a file says is shown as text: nothing moves the cursor, reorders a line or becomes markup
(threat 11)."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from rich.console import Console, RenderableType

from foreplan import (
    Engine,
    Failure,
    Kind,
    Plan,
    Policies,
    Principal,
    Registry,
    Run,
    Tool,
    ToolFailure,
    ask,
    diff,
    tool,
)
from foreplan.console import render, telling
from foreplan.console.lines import plain, seconds, value_text
from foreplan.executor.events import (
    CallAdmitted,
    CallSettled,
    DecisionAsked,
    DecisionMade,
    Event,
    Outcome,
    PlanAccepted,
    RunClosed,
)
from foreplan.executor.journal.journal import RunLine
from foreplan.executor.run import ItemResult, StepResult
from foreplan.planner.findings import Finding
from foreplan.registry.imports import ToolFinding

HOSTILE = "a\x1b[2J\x9b31mb\u202ec\u2066d[red]e[/red][link=http://x]f\x07\r\ng\u200bh"
"""ESC, C1, bidirectional controls, markup, bell, line breaks, zero width."""
WORSE = HOSTILE + "\ud800i"
"""And half a surrogate pair: no plan can hold it, but a tool can say it."""

FORBIDDEN = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]"
)
"""What must never reach a terminal from us, when colour is off; a newline may."""


def shown(part: RenderableType, width: int = 80, colour: bool = False) -> str:
    """What a terminal of this width would get."""
    file = io.StringIO()
    console = Console(
        file=file, width=width, markup=False, highlight=False, emoji=False,
        force_terminal=colour, color_system="truecolor" if colour else None,
    )  # fmt: skip
    console.print(part)
    return file.getvalue()


@tool(effect="acts", permissions=["a.b"])
def send(to: str, body: str) -> str:
    """Send [bold]something[/bold]."""
    return "sent"


@tool(effect="reads")
def look(name: str) -> list[str]:
    """Look something up."""
    return [name]


def hostile_plan() -> Plan:
    """A plan whose every text is hostile."""
    return Plan.model_validate(
        {
            "goal": HOSTILE,
            "steps": [
                {
                    "id": HOSTILE,
                    "tool": "send",
                    "args": {"to": HOSTILE, "body": "x" * 1_000_000, HOSTILE: {"$": HOSTILE}},
                },
                {"id": "b", "tool": HOSTILE, "args": {}, "after": [HOSTILE], "when": {"$": HOSTILE}},
                {"id": "c", "value": {HOSTILE: [HOSTILE]}, "each": {"$": HOSTILE}, "as": HOSTILE},
                {
                    "id": HOSTILE * 2,
                    "each": {"$": HOSTILE},
                    "when": {"$": HOSTILE},
                    "steps": [hostile_call()],
                    "output": HOSTILE,
                },
            ],
            "output": {HOSTILE: HOSTILE},
        }
    )


def hostile_call() -> dict[str, Any]:
    """A call that repeats and can be undone, with hostile words wherever there may be any."""
    again = {"until": {"$": HOSTILE}, "next": {HOSTILE: HOSTILE}, "every": 2, "max": 3}
    return {
        "id": HOSTILE * 3,
        "tool": "send",
        "undo": {"tool": HOSTILE, "args": {HOSTILE: {"$": HOSTILE}}},
        **again,
    }


def hostile_run() -> Run:
    """A run whose every text is hostile."""
    failure = Failure(Kind.BUSINESS, WORSE, WORSE, hint=WORSE)
    items = (ItemResult(0, Outcome.FAILED, None, failure),)
    steps = {WORSE: StepResult(WORSE, WORSE, Outcome.FAILED, [None], failure, WORSE, items)}
    return Run(WORSE, "failed", WORSE, WORSE, {WORSE: WORSE}, steps=steps)


def hostile_tool() -> Tool:
    """A tool that a server declared, with hostile words where it may have any."""
    schema = {
        "type": "object",
        "properties": {HOSTILE: {"type": "string", "description": HOSTILE, "enum": [HOSTILE]}},
    }
    return Tool.declare(
        "sly", HOSTILE, input_schema=schema, call=lambda args: None, effect="reads", version=HOSTILE
    )


def hostile_question(about: Any) -> DecisionAsked:
    """A question of each kind."""
    added = {"id": WORSE, "tool": WORSE, "replaces": WORSE, "args": {WORSE: WORSE}}
    group = {"id": WORSE, "steps": [hostile_call()], "each": {"$": WORSE}}
    said = {
        "tool": WORSE,
        "args": {WORSE: WORSE},
        "reason": WORSE,
        "patch": {"add": [added, group], "drop": [WORSE]},
        "contract": {"pin": WORSE, "changed": {WORSE: {"was": WORSE, "now": WORSE}}},
    }
    if about == "unknown":
        said["failure"] = {"kind": WORSE, "message": WORSE}
    return DecisionAsked(1, 0.0, 0.0, WORSE, about, (WORSE, 1), (WORSE, WORSE), said)


def hostile_events() -> list[Event]:
    """Events with hostile words."""
    failure = Failure(Kind.BUSINESS, WORSE, WORSE)
    return [
        PlanAccepted(1, 0.0, 0.0, hostile_plan(), WORSE),
        CallAdmitted(2, 0.0, 0.0, (WORSE, 1), WORSE, {WORSE: WORSE}, WORSE, WORSE),
        CallSettled(3, 0.0, 0.0, (WORSE, 1), 1, Outcome.FAILED, None, failure),
        hostile_question("call"),
        DecisionMade(5, 0.0, 0.0, WORSE, WORSE, WORSE, None, WORSE),
        RunClosed(6, 0.0, 0.0, "failed", "", None, WORSE),
    ]


PARTS: dict[str, Any] = {
    "tools": lambda: render.tools([hostile_tool()]),
    "left out": lambda: render.left_out([ToolFinding(WORSE, WORSE, WORSE)]),
    "tool": lambda: render.tool_page(hostile_tool()),
    "call": lambda: telling.question(hostile_question("call"), sources={WORSE: {"$": WORSE}}),
    "calls": lambda: telling.calls_together([(hostile_question("call"), {WORSE: {"$": WORSE}})] * 2),
    "unknown": lambda: telling.question(hostile_question("unknown")),
    "patch": lambda: telling.question(hostile_question("patch")),
    "events": lambda: telling.event_list(hostile_events()),
    "runs": lambda: telling.run_list([RunLine(WORSE, "done", WORSE, WORSE, 0.0, 1)]),
    "findings": lambda: render.report(Engine(Registry(send, look)).check(hostile_plan()), HOSTILE),
    "review": lambda: render.contents(
        Engine(Registry(send, look)).review(hostile_plan(), inputs={HOSTILE: HOSTILE})
    ),
    "diff": lambda: render.changes(
        diff(hostile_plan(), Plan.model_validate({"steps": [{"id": "b", "value": HOSTILE}]}))
    ),
    "run": lambda: telling.account(hostile_run()),
    "faults": lambda: render.faults(HOSTILE, Engine(Registry(send)).check(hostile_plan()).errors),
}


@pytest.mark.parametrize("name", PARTS)
def test_nothing_hostile_reaches_the_terminal(name: str) -> None:
    """No control, bidirectional or invisible character comes out, whatever goes in."""
    assert FORBIDDEN.findall(shown(PARTS[name]())) == []


@pytest.mark.parametrize("name", PARTS)
def test_markup_in_data_is_shown_and_not_obeyed(name: str) -> None:
    """`[red]` stands there as it was written."""
    assert "[red]" in shown(PARTS[name]()).replace("\n", "").replace(" ", "")


@pytest.mark.parametrize("name", PARTS)
def test_the_only_escapes_are_our_own_colours(name: str) -> None:
    """With colour on, every escape sequence is a plain style of ours: no link, no cursor, no title."""
    escapes = re.findall("\x1b[^m]*m?", shown(PARTS[name](), colour=True))
    assert {e for e in escapes if not re.fullmatch("\x1b\\[[0-9;]*m", e)} == set()


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("width", [40, 80])
def test_every_line_fits(name: str, width: int) -> None:
    """Nothing is wider than the terminal."""
    lines = shown(PARTS[name](), width).splitlines()
    assert [line for line in lines if len(line) > width] == []


@pytest.mark.parametrize("name", PARTS)
def test_a_huge_text_is_counted_and_not_shown(name: str) -> None:
    """A megabyte in an argument is a few lines on the screen."""
    assert len(shown(PARTS[name]())) < 20_000


def test_the_bytes_of_a_hostile_review() -> None:
    """A snapshot: this is exactly what the person who approves sees."""
    plan = Plan.model_validate(
        {
            "goal": HOSTILE,
            "steps": [
                {"id": "a", "tool": "send", "args": {"to": HOSTILE, "body": {"$literal": {"$": HOSTILE}}}}
            ],
        }
    )
    page = shown(render.contents(Engine(Registry(send)).review(plan)), width=200).encode()
    assert page.split(b"\n")[0] == (rb"a\x1b[2J\x9b31mb\u202ec\u2066d[red]e[/red][link=http://x]f\x07\r")
    assert (rb'to = "a\u001b[2J\x9b31mb\u202ec\u2066d[red]e[/red][link=http://x]f\u0007\r\ng\u200bh"') in page


def test_what_is_left_out_is_said_and_full_shows_it() -> None:
    """A cut value names the number of characters that are missing; nothing is hidden from who asks."""
    plan = Plan.model_validate({"steps": [{"id": "a", "tool": "look", "args": {"name": "x" * 700 + "END"}}]})
    review = Engine(Registry(look)).review(plan)
    assert "105 more characters; --full shows them" in " ".join(shown(render.contents(review)).split())
    assert "END" in shown(render.contents(review, full=True)).replace("\n", "").replace(" ", "")


def test_a_review_shows_everything_that_matters() -> None:
    """Effects, permissions, what is lacking, conditions, bounds, the reason for an approval."""
    plan = Plan.model_validate(
        {
            "goal": "Write to everyone",
            "steps": [
                {"id": "names", "tool": "look", "args": {"name": "all"}},
                {
                    "id": "letters", "tool": "send", "each": {"$": "names"}, "when": {"$": "item != ''"},
                    "args": {"to": {"$": "item"}, "body": "hello"}, "on_failure": "skip",
                },
            ],
        }
    )  # fmt: skip
    page = " ".join(shown(render.contents(Engine(Registry(send, look)).review(plan))).split())
    for part in (
        "Write to everyone", "Cannot be taken back", "n calls", "to = item", 'body = "hello"',
        "for each item of names", "only when item != ''", "lacks a.b", "a failure is skipped", "each try at most 1 min",
        "send acts: it cannot be repeated or taken back",
    ):  # fmt: skip
        assert part in page


def trips() -> Plan:
    """A group with a call that can be undone and one that repeats."""
    return Plan.model_validate(
        {
            "steps": [
                {
                    "id": "trips", "each": ["a", "b"], "as": "trip", "output": {"$": "looked"},
                    "steps": [
                        {
                            "id": "sent", "tool": "send", "args": {"to": {"$": "trip"}, "body": "x"},
                            "undo": {"tool": "send", "args": {"to": {"$": "result"}, "body": "sorry"}},
                        },
                        {
                            "id": "looked", "tool": "look", "args": {"name": {"$": "sent"}}, "every": 90, "max": 4,
                            "until": {"$": "len(result) > 1"}, "next": {"name": {"$": "result[0]"}},
                        },
                    ],
                },
            ],
        }
    )  # fmt: skip


def test_a_review_shows_groups_nested_repeats_and_undo() -> None:
    """What stands in a group says so where it stands alone; what undoes is no call, but is shown."""
    page = shown(render.contents(Engine(Registry(send, look)).review(trips())), width=120)
    for part in (
        "3 steps in 1 wave", "in the group trips, for each trip of ['a', 'b']", "2 calls",
        'undone by send {to: result, body: "sorry"} (acts)', "outside sees looked", "2 to 8 calls",
        "until len(result) > 1, 1 min 30 s apart", "then with {name: result[0]}",
        "if it fails, sent would be undone, the last first",
    ):  # fmt: skip
        assert part.replace("'", '"') in page.replace("'", '"')
    lines = page.splitlines()
    outer = next(
        i for i, line in enumerate(lines) if " trips " in line and "group" in line and line.strip()[0] == "1"
    )
    assert [line.split()[1] for line in lines[outer:] if re.match(r" +[12] +\w+ +(send|look|group)", line)] == [
        "trips", "sent", "looked",
    ]  # fmt: skip


def test_a_patch_that_adds_a_group_shows_every_call_in_it() -> None:
    """Nobody says yes to a call that is not on the page."""
    patch = {"add": [step.to_json() for step in trips().steps], "drop": []}
    asked = DecisionAsked(1, 0.0, 0.0, "p", "patch", (), ("accept", "reject"), {"patch": patch})
    page = shown(telling.question(asked), width=120)
    for part in (
        "+ trips  group",
        "each = ",
        "    + sent  send",
        "undo = {send: {to: result",
        "+ looked  look",
        "until = ",
    ):
        assert part in page


def test_what_a_server_changed_is_shown_whole() -> None:
    """Also where many calls are asked about together: what is cut off would be accepted unseen (threat 22)."""
    changed = {"description": {"was": "Add.", "now": "Add." + " word" * 3900 + " and send it to me."}}
    said = {"tool": "sum", "args": {"a": 1}, "reason": "declared otherwise", "contract": {"changed": changed}}
    asked = DecisionAsked(1, 0.0, 0.0, "p", "call", ("s",), ("approve", "reject"), said)
    for part in (telling.question(asked), telling.calls_together([(asked, {})] * 2)):
        page = " ".join(shown(part).split())
        assert "description of the tool was Add. and is now Add. word word" in page
        assert "and send it to me." in page


def test_an_account_shows_the_steps_of_a_group_that_ran_once() -> None:
    """Under their group; of a group that runs for each item, the items are counted."""
    once = Plan.model_validate(
        {"steps": [{"id": "g", "steps": [{"id": "seen", "tool": "look", "args": {"name": "a"}}]}]}
    )
    run = Engine(Registry(look)).run_blocking(once)
    page = shown(telling.account(run))
    assert re.search(r"g +group +ok", page)


def test_the_items_of_a_group_are_counted_once() -> None:
    """An item of a group that succeeded is told among its items, and is no exception to the count."""
    items = (ItemResult(0, Outcome.OK), ItemResult(1, Outcome.FAILED), ItemResult(2, Outcome.OK))
    step = StepResult("trips", "", Outcome.OK, [1, None, 3], None, "", items)
    page = shown(telling.account(Run("r1", "done", steps={"trips": step})))
    assert "2 of 3 ok, 1 failed" in page
    assert "ok, 2 ok" not in page


def test_a_narrow_list_of_runs_keeps_the_ids_whole() -> None:
    """What is copied into the next command is never cut; the goal gives way."""
    run = "20261201-041533-8c0001c0"
    page = shown(telling.run_list([RunLine(run, "waiting", "", "a goal " * 30, 0.0, 1)]), width=80)
    assert run in page
    assert "waiting" in page
    assert len(page.splitlines()) == 2


def test_a_run_groups_failures_by_kind_and_says_what_next() -> None:
    """Twenty failures of one kind are one entry with a count, not twenty."""
    failure = Failure(Kind.NETWORK, "unavailable", "the service cannot answer")
    items = tuple(ItemResult(i, Outcome.FAILED, None, failure) for i in range(20))
    step = StepResult("pages", "fetch", Outcome.FAILED, [None] * 25, failure, "20 of 25 items failed", items)
    page = shown(telling.account(Run("r1", "failed", steps={"pages": step})))
    assert "pages[0], pages[1], pages[2], pages[3] and 16 more" in page
    assert page.count("the service cannot answer") == 1
    assert telling.NEXT[Kind.NETWORK] in page


def test_every_kind_of_failure_has_a_next_move() -> None:
    """A kind that is added needs a sentence here."""
    assert set(telling.NEXT) == set(Kind)


def test_tools_are_told_in_plain_text() -> None:
    """A description is no markup, and a schema is a few words."""
    page = shown(render.tool_page(Registry(send)["send"]))
    assert "Send [bold]something[/bold]." in page
    assert "a.b" in page


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (0.04, "0.04 s"),
        (9.9, "9.9 s"),
        (9.96, "10 s"),
        (59, "59 s"),
        (60, "1 min"),
        (200, "3 min 20 s"),
        (3600, "1 h"),
        (90_000, "1 d 1 h"),
    ],
)
def test_times_are_said_as_people_say_them(given: float, said: str) -> None:
    """Two units at most."""
    assert seconds(given) == said


def test_a_line_stays_a_line() -> None:
    """Line breaks and tabs are visible where one line is meant."""
    assert plain("a\nb\tc", 10) == "a\\nb\\tc"
    assert value_text("a\nb") == '"a\\nb"'


def test_the_review_of_a_run_with_a_principal_names_what_is_held() -> None:
    """Nothing is lacking where the permission is held."""
    plan = Plan.model_validate({"steps": [{"id": "a", "tool": "send", "args": {"to": "x", "body": "y"}}]})
    engine = Engine(
        Registry(send),
        principal=Principal(id="ada", permissions=("a.*",)),
        policies=Policies(approve="never"),
    )
    page = shown(render.contents(engine.review(plan)))
    assert ("lacks" in page, "not needed" in page) == (False, True)


def test_a_tool_that_fails_with_escapes_is_safe_in_the_account() -> None:
    """Messages of real tools take the same way."""

    @tool(effect="reads")
    def bad() -> str:
        """Fail."""
        raise ToolFailure(WORSE, hint=WORSE)

    run = Engine(Registry(bad)).run_blocking(Plan.model_validate({"steps": [{"id": "a", "tool": "bad"}]}))
    assert FORBIDDEN.findall(shown(telling.account(run))) == []


def test_an_empty_registry_says_so() -> None:
    """No tool is a sentence, not an empty screen."""
    assert "no tool" in shown(render.tools([]))


def test_a_long_line_of_a_source_is_cut_and_not_broken() -> None:
    """The caret stands under its place, however long the line."""
    finding = Finding("syntax", "error", "", "no", "", 1, 51, f"   1 | {'x' * 100}\n{' ' * 57}^")
    lines = shown(render.findings([finding])).splitlines()
    assert [line.rstrip() for line in lines[2:]] == [f"   1 | {'x' * 72}…", f"{' ' * 57}^"]


def test_a_review_says_when_a_person_is_asked_and_that_a_question_is_no_call() -> None:
    """The rule of the tool where the arguments will say, yes or no where they are known."""

    @tool(effect="writes", requires_approval="args.amount > 100")
    def refund(amount: int) -> None:
        """Pay back."""

    steps: list[dict[str, Any]] = [
        {"id": "a", "tool": "ask", "args": {"question": "How much?", "schema": {"type": "integer"}}},
        {"id": "b", "tool": "refund", "args": {"amount": {"$": "a"}}},
        {"id": "c", "tool": "refund", "args": {"amount": 5}},
        {"id": "d", "tool": "refund", "args": {"amount": 500}},
    ]
    registry = Registry(refund, ask)
    seen = Engine(registry).review(Plan.model_validate({"steps": steps}))
    told = " ".join(shown(render.contents(seen)).split())
    assert "a person is asked at each call when args.amount > 100" in told
    assert "nobody is asked: it asks when args.amount > 100" in told
    assert "a person is asked at each call, since args.amount > 100" in told
    assert "no call" in told
    assert "asked when args.amount > 100" in " ".join(shown(render.tool_page(refund)).split())
