"""The reference of commands, printed from the command line itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from foreplan.console.app import app

__all__ = ["commands", "reference"]

EVERYWHERE = ("--json", "--quiet", "--traceback", "--help")
"""Options that every command has: told once."""


def commands() -> dict[str, Any]:
    """The commands by name, in the order of their help."""
    return dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


def reference() -> str:
    """A section for each command: what it does, how it is called, its arguments and options."""
    shared = [_row(p) for p in next(iter(commands().values())).params if _names(p)[0] in EVERYWHERE]
    parts = ["Every command takes these, too:", "", *_table(shared)]
    for name, command in commands().items():
        parts += [
            "",
            f"### foreplan {name}",
            "",
            command.help,
            "",
            "```text",
            _usage(name, command),
            "```",
            "",
        ]
        parts += _table([_row(p) for p in command.params if _names(p)[0] not in EVERYWHERE])
    return "\n".join(parts)


def _usage(name: str, command: Any) -> str:
    words = [p.metavar for p in command.params if p.param_type_name == "argument"]
    needed = [
        f"{_names(p)[0]} {p.metavar}" for p in command.params if p.param_type_name == "option" and p.required
    ]
    return " ".join(["foreplan", name, *words, *needed, "[OPTIONS]"])


def _names(parameter: Any) -> list[str]:
    return sorted(parameter.opts, key=lambda name: not name.startswith("--"))


def _table(rows: list[tuple[str, str]]) -> Iterator[str]:
    yield from ("| | |", "| --- | --- |")
    yield from (f"| {name} | {said} |" for name, said in rows)


def _row(parameter: Any) -> tuple[str, str]:
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar.strip('[]')}`", parameter.help
    value = f" {parameter.metavar}" if parameter.metavar and not parameter.is_flag else ""
    names = ", ".join(f"`{name}{value if name.startswith('--') else ''}`" for name in _names(parameter))
    variable = f" Also `{parameter.envvar}` in the environment." if parameter.envvar else ""
    return names.replace("|", "\\|"), parameter.help.replace("|", "\\|") + variable
