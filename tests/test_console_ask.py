"""Questions of a plan at the command line: what is typed, and what may be typed later."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from support.shell import Shell

from foreplan.console.asking import read_reply
from foreplan.console.telling import question
from foreplan.executor.events import DecisionAsked
from foreplan.policies.errors import BadInput
from foreplan.registry.people import ask
from foreplan.registry.tools import result_schema

PLAN = """\
steps:
  - {id: colour, tool: ask, args: {question: Which colour?, options: [red, blue]}}
output: {$: colour}
"""
TOOLS = "from foreplan import Registry, ask\nregistry = Registry(ask)\n"


def asked(**args: Any) -> DecisionAsked:
    """The question of a step `q`."""
    args = {"question": "Which?", **args}
    said = {"tool": "ask", "args": args, "key": "k", "schema": result_schema(ask, args)}
    return DecisionAsked(1, 0.0, 0.5, "q:ask:0", "ask", ("q",), ("answer", "refuse"), said)


def shown(decision: DecisionAsked) -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(question(decision))
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize(
    ("said", "options", "expected"),
    [
        ("2", ["red", "blue"], "blue"),
        ("blue", ["red", "blue"], "blue"),
        ('"blue"', ["red", "blue"], "blue"),
        ("#1", ["red", "blue"], "red"),
        ("17", [{"id": 17, "label": "x"}, {"id": 18}], 17),
        ("#2", [2, 1], 1),
        ("3", ["1", "2", "3"], "3"),
    ],
)
def test_an_option_is_named_by_its_number_or_as_it_is_written(
    said: str, options: list[Any], expected: Any
) -> None:
    """The answer is the text or the id."""
    assert read_reply(said, asked(options=options)) == expected


@pytest.mark.parametrize(
    ("said", "options"), [("0", ["a"]), ("2", ["a"]), ("b", ["a"]), ("1", [2, 1]), ("#0", ["a"])]
)
def test_what_names_no_option_or_two_is_asked_again(said: str, options: list[Any]) -> None:
    """Nothing is guessed."""
    with pytest.raises(BadInput, match=r"type|write"):
        read_reply(said, asked(options=options))


def test_text_needs_no_quotes_where_text_is_wanted() -> None:
    """Where the schema says string, the line is the text; else it is JSON."""
    assert read_reply("yes: no", asked(schema={"type": "string"})) == "yes: no"
    assert read_reply('"a"', asked(schema={"type": "string"})) == "a"
    assert read_reply('{"a": 1}', asked(schema={"type": "object"})) == {"a": 1}
    with pytest.raises(BadInput, match="must"):
        read_reply("1", asked(schema={"type": "object"}))


def test_what_is_shown_is_data_and_harmless() -> None:
    """Markup and control characters of options, labels and data are shown as what they are."""
    text = shown(asked(options=[{"id": "[red]x", "label": "\x1b[2J", "more": "\u202eabc"}], data="[bold]d"))
    assert "[red]x" in text
    assert "[bold]d" in text
    assert not {"\x1b", "\u202e"} & set(text)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """A folder with a plan that asks."""
    (tmp_path / "asks.py").write_text(TOOLS)
    (tmp_path / "asks.yaml").write_text(PLAN)
    monkeypatch.chdir(tmp_path)
    return Shell(tmp_path, capsys)


def test_an_answer_can_be_given_later(shell: Shell) -> None:
    """The command says how; `--decide ID=answer:JSON` goes on, and what does not fit is refused."""
    there = ("--tools", "asks.py", "--journal", "runs.db")
    said = shell.here("run", "asks.yaml", *there)
    assert (said.code, "--decide colour:ask:0=answer:JSON" in said.err) == (3, True)
    wrong = shell.here("resume", "last", *there, "--by", "ada", "--decide", 'colour:ask:0=answer:"green"')
    assert (wrong.code, "colour:ask:0" in wrong.err) == (2, True)
    right = shell.here(
        "resume", "last", *there, "--by", "ada", "--json", "--decide", 'colour:ask:0=answer:"red"'
    )
    assert (right.code, right.document["output"]) == (0, "red")
