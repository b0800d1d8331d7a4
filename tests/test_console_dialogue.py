"""What the command line says of runs in which a model calls tools by itself: rounds, calls, the answer; never a traceback."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from support.shell import Shell

from foreplan import (
    AIMessage,
    Engine,
    HumanMessage,
    MemoryJournal,
    Plan,
    Policies,
    React,
    ScriptedModel,
    ToolCall,
    ToolFailure,
    create_agent,
    tool,
)
from foreplan.console.live import Progress, picture, summary
from foreplan.console.loading import load_registry
from foreplan.executor.children import parent_of
from foreplan.executor.events import DecisionAsked, PlanAccepted

TOOLS = '''
from foreplan import ScriptedModel, ToolFailure, tool

@tool(effect="reads")
def find(q: str) -> dict[str, str]:
    """Find something."""
    if q == "bad":
        raise ToolFailure("nothing \\x1b[31mthere", code="not_found")
    return {"found": q}

@tool
def send(to: str) -> str:
    """Send a letter."""
    return f"sent to {to}"

registry = [find, send]
model = ScriptedModel(["It is sent."])
'''


def call(name: str, **args: str) -> AIMessage:
    return AIMessage("let me see", finish_reason="tool_calls", tool_calls=(ToolCall("x", name, args),))


PATHS: list[tuple[str | int, ...]] = [("c0",), ("@react", 1, "c0")]


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """A folder with a journal in which four dialogues stand: one done, one that waits, one that failed, a fallback."""
    (tmp_path / "letters.py").write_text(TOOLS)
    monkeypatch.chdir(tmp_path)
    for name in ("FOREPLAN_TOOLS", "FOREPLAN_JOURNAL", "COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "140")
    registry = load_registry("letters.py")
    talks: list[tuple[str, str, list[Any]]] = [
        ("done", "What is new?", [call("find", q="a"), "All is well.\nReally."]),
        ("waits", "Write to ada", [call("send", to="ada")]),
        ("fails", "Find bad", [call("find", q="bad"), call("find", q="bad"), "I do not know"]),
    ]
    for run, asked, answers in talks:
        agent = create_agent(ScriptedModel(answers), registry, journal="runs.db")
        agent.invoke(asked, run_id=run)
        agent.engine.journal.close()  # type: ignore[attr-defined]
    step = {"id": "c0", "tool": "find", "args": {"q": "bad"}}
    plan = Plan.model_validate({"goal": "find it", "steps": [step], "output": {"r": {"$": "c0.found"}}})
    model = ScriptedModel([call("find", q="c"), '{"r": "c, it seems"}'])
    engine = Engine(
        registry,
        react=React(model),
        journal="runs.db",
        policies=Policies(fallback=True),
    )
    engine.run_blocking(plan, run_id="falls")
    engine.journal.close()  # type: ignore[attr-defined]
    return Shell(tmp_path, capsys)


def shown(shell: Shell, *words: str) -> str:
    said = shell.here(*words, "--journal", "runs.db")
    assert "Traceback" not in said.err
    return said.out


def test_a_dialogue_is_told_with_its_rounds_its_calls_and_the_answer(shell: Shell) -> None:
    """The question, each call in a line, what it gave, and the answer as the words it is."""
    told = shown(shell, "show", "done")
    assert "2 rounds  ·  1 call" in told
    for line in ('model  find(q="a")', 'find   {"found":"a"}', "asked  What is new?"):
        assert line in told
    assert told.endswith("Output\n  All is well.\n  Really.\n")
    assert "You reach the goal" not in told


def test_with_full_every_message_is_told_whole(shell: Shell) -> None:
    """The rules, too."""
    assert "You reach the goal" in shown(shell, "show", "done", "--full")


def test_a_call_that_failed_is_told_in_a_sentence(shell: Shell) -> None:
    """Kind, code and the tool's words, which cannot move the cursor."""
    told = shown(shell, "show", "fails")
    assert "business not_found: nothing \\x1b[31mthere" in told
    assert "I do not know" in told


def test_a_dialogue_that_waits_says_how_to_go_on_and_goes_on(shell: Shell) -> None:
    """With the model named: without one it is refused, and nothing of the run is lost."""
    told = shell.here("show", "waits", "--journal", "runs.db")
    assert "this call is not answered yet" in told.out
    assert "--model MODULE:NAME" in told.err
    resume = ("resume", "waits", "--journal", "runs.db", "--tools", "letters.py")
    decide = ("--decide", "@react[1].c0:call:0=approve")
    refused = shell.here(*resume, *decide)
    assert (refused.code, "this engine has none" in refused.err) == (2, True)
    gone_on = shell.here(*resume, "--model", "letters.py", *decide)
    assert gone_on.code == 0, gone_on.err
    assert "sent to ada" in gone_on.out
    assert "It is sent." in gone_on.out


@pytest.mark.parametrize(
    ("named", "words"), [("letters.py:registry", "no model"), ("letters.py:mode", "did you mean")]
)
def test_what_is_no_model_is_a_sentence(shell: Shell, named: str, words: str) -> None:
    """With what a model is, or the nearest name."""
    said = shell.here("resume", "waits", "--journal", "runs.db", "--tools", "letters.py", "--model", named)
    assert (said.code, words in said.err, "Traceback" in said.err) == (2, True, False)


def test_a_plan_in_whose_place_a_model_goes_on_tells_both(shell: Shell) -> None:
    """The steps of the plan, then what the model did, and its answer in the form of the plan's output."""
    told = shown(shell, "show", "falls")
    assert "c0  find  failed" in told
    assert 'find(q="c")' in told
    assert '"r": "c, it seems"' in told


def test_a_call_of_a_model_is_not_taken_for_a_step_of_the_same_name() -> None:
    """A question about it does not show where the step's arguments come from."""
    plan = Plan.model_validate({"steps": [{"id": "c0", "tool": "find", "args": {"q": {"$": "inputs.q"}}}]})
    progress = Progress()
    progress.take(PlanAccepted(2, 0.0, 0.5, plan, plan.digest))
    asked = {path: DecisionAsked(3, 0.0, 0.5, "x", "call", path, ("approve",), {}) for path in PATHS}
    assert [bool(progress.sources(question)) for question in asked.values()] == [True, False]


def test_the_list_of_runs_says_what_was_asked(shell: Shell) -> None:
    """In place of a goal."""
    told = shown(shell, "runs")
    assert [line.rsplit("  ", 1)[1] for line in told.splitlines()[1:]] == [
        "find it", "Find bad", "Write to ada", "What is new?",
    ]  # fmt: skip


def test_events_of_a_dialogue_say_what_the_model_said(shell: Shell) -> None:
    """Its words, its calls, and how the dialogue was opened."""
    told = shown(shell, "show", "done", "--events")
    assert "a dialogue with 2 tools, at most 10 rounds" in told
    assert 'the model: let me see; find(q="a")' in told


def test_the_live_view_counts_rounds_and_names_open_calls() -> None:
    """For a dialogue: what the model is at, no steps; every prefix of the events can be drawn."""

    @tool(effect="reads")
    async def find(q: str) -> str:
        """Find something."""
        if q == "bad":
            raise ToolFailure("no", code="not_found")
        return q

    journal = MemoryJournal()
    wanted: list[Any] = [call("find", q="a"), call("find", q="bad"), "done"]
    run = create_agent(ScriptedModel(wanted), [find], journal=journal).invoke([HumanMessage("go")])
    progress, seen = Progress(), []
    for event in journal.events(run.id):
        progress.take(event)
        console = Console(file=io.StringIO(), width=80)
        console.print(picture(progress, 1.0))
        seen.append(console.file.getvalue())  # type: ignore[attr-defined]
    assert any("the model is asked" in text for text in seen)
    assert any("round 1  find" in text for text in seen)
    assert str(summary(progress, 1.0)) == "3 rounds  ·  2 calls  ·  1 failed (business)  ·  1.0 s"


@pytest.mark.parametrize(
    ("run", "parent"),
    [
        ("a-early-1", "a"),
        ("a-early-12", "a"),
        ("a-early-x", ""),
        ("b-early-1", ""),
        ("a.0123456789ab", "a"),
        ("a", ""),
    ],
)
def test_a_call_that_began_early_is_told_as_part_of_its_run(run: str, parent: str) -> None:
    """In the list of runs, where each is a run of its own."""
    assert parent_of(run, {"a"}) == parent
