"""Every command and every option says what it is for, and the help fits a terminal."""

from __future__ import annotations

from pathlib import Path

import commands as docs
import pytest
from support.shell import Shell, write_case

COMMANDS = docs.commands()
PARAMETERS = [(name, p) for name, command in COMMANDS.items() for p in command.params]


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """A folder in which commands are typed."""
    write_case(tmp_path)
    monkeypatch.chdir(tmp_path)
    return Shell(tmp_path, capsys)


def test_the_commands_are_the_ones_that_are_promised() -> None:
    """One word each, in the order in which they are used."""
    assert list(COMMANDS) == [
        "plan", "check", "review",
    "rehearse", "approve", "run", "batch", "resume", "retry", "approvals", "decide", "reject", "edit",
    "show", "replay", "fork", "runs", "cancel", "verify", "export", "import", "prune", "forget", "tools", "mcp", "diff",
    "models",
    ]  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    """Its first sentence is short enough for the list of commands."""
    first = COMMANDS[name].help.split("\n")[0]
    assert first.endswith(".")
    assert len(first) <= 60


def test_every_option_and_argument_has_help() -> None:
    """A sentence, ending as one."""
    assert [(name, p.name) for name, p in PARAMETERS if not str(p.help or "").endswith((".", "exit."))] == []


def test_every_command_has_the_options_for_programs() -> None:
    """`--json`, `--quiet` and `--traceback` are everywhere."""
    for name, command in COMMANDS.items():
        options = {option for p in command.params for option in p.opts}
        assert {"--json", "--quiet", "--traceback"} <= options, name


@pytest.mark.parametrize(
    "words", [[], *([name] for name in COMMANDS)], ids=lambda words: " ".join(words) or "foreplan"
)
def test_help_fits_eighty_columns(words: list[str], shell: Shell) -> None:
    """No line of any help is wider, and asking for it is no mistake."""
    said = shell.here(*words, "--help")
    assert (said.code, [line for line in said.out.splitlines() if len(line) > 80]) == (0, [])


def test_no_words_show_the_help(shell: Shell) -> None:
    """`foreplan` alone is a question, not an error."""
    said = shell.here()
    assert (said.code, "Commands:" in said.out) == (0, True)


def test_the_reference_names_every_option() -> None:
    """The page is printed from the commands themselves."""
    page = docs.reference()
    assert [o for _, p in PARAMETERS for o in p.opts if o.startswith("--") and f"`{o}" not in page] == []
