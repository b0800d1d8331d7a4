"""The command line: which words can follow `foreplan`, in the order of its help.

A command is a function of `planning.py`, `running.py`, `answering.py`, `looking.py`, `auditing.py`, `local_models.py`,
`batches/command.py` or `served/command.py`: its parameters are its words, and its docstring is its help.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from inspect import Parameter, Signature
from typing import Annotated, Any, get_type_hints

import typer

from ..policies.errors import BadInput
from . import answering, auditing, local_models, looking, planning, running
from . import options as o
from .batches import command as batch_commands
from .loading import importable_here
from .screen import Code, Failed, Screen, complain, perform
from .served.command import serve

__all__ = ["app", "main"]

app = typer.Typer(
    name="foreplan",
    help="A model plans first, as data; code checks it, people review it, and only then does it run.",
    epilog="Exit codes: 0 done; 1 failed; 2 bad input; 3 not approved, or waiting for a person; 130 interrupted; "
    "141 nobody reads the output.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

COMMANDS: Mapping[str, Callable[..., Code]] = {
    "plan": planning.plan,
    "check": planning.check,
    "review": planning.review,
    "rehearse": running.rehearse,
    "approve": planning.approve,
    "run": running.run,
    "batch": batch_commands.batch,
    "resume": running.resume,
    "retry": batch_commands.retry,
    "approvals": answering.approvals,
    "decide": answering.decide,
    "reject": answering.reject,
    "edit": answering.edit,
    "show": looking.show,
    "replay": looking.replay,
    "fork": running.fork,
    "runs": looking.runs,
    "cancel": running.cancel,
    "verify": auditing.verify,
    "export": auditing.export,
    "import": auditing.import_,
    "prune": auditing.prune,
    "forget": auditing.forget,
    "tools": looking.tools,
    "mcp": serve,
    "diff": looking.diff,
    "models": local_models.models,
}
"""Each command by its name, in the order of the help."""


@dataclass(frozen=True)
class _Shown:
    """How every command shows what it does."""

    json: o.AsJson = False
    quiet: o.Quiet = False
    traceback: o.Traceback = False


def _as_typer_reads(command: Callable[..., Code]) -> Callable[..., None]:
    """The command with a flat list of options: a record stands for its fields, the screen for what every command takes."""
    hints = get_type_hints(command, include_extras=True)
    del hints["return"], hints["screen"]
    given = inspect.signature(command).parameters
    words = [word for name, hint in hints.items() for word in _words(name, hint, given[name].default)]
    words += _words("screen", _Shown, Parameter.empty)

    def called(**typed: Any) -> None:
        shown = _read("screen", _Shown, typed)
        screen = Screen(json=shown.json, quiet=shown.quiet, traceback=shown.traceback)
        parts = {name: _read(name, hint, typed) for name, hint in hints.items()}
        with importable_here():
            raise typer.Exit(perform(screen, lambda: command(screen, **parts)))

    called.__doc__ = command.__doc__
    called.__signature__ = Signature(words)  # type: ignore[attr-defined]
    called.__annotations__ = {word.name: word.annotation for word in words}
    return called


def _words(name: str, hint: Any, default: Any) -> Iterator[Parameter]:
    """The options that a parameter of a command stands for."""
    if not is_dataclass(hint):
        yield Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hint)
        return
    for field_name, field_hint in _fields(hint):
        yield from _words(field_name, field_hint, _default(hint.__dataclass_fields__[field_name]))


def _read(name: str, hint: Any, typed: Mapping[str, Any]) -> Any:
    """What a command gets for its parameter, from the options as they were typed."""
    if not is_dataclass(hint):
        return typed[name]
    record: Callable[..., Any] = hint  # type: ignore[assignment]
    return record(**{field: _read(field, field_hint, typed) for field, field_hint in _fields(hint)})


def _fields(record: Any) -> Iterator[tuple[str, Any]]:
    hints = get_type_hints(record, include_extras=True)
    yield from ((field.name, hints[field.name]) for field in fields(record))


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


for _name, _command in COMMANDS.items():
    app.command(_name)(_as_typer_reads(_command))


def _version(wanted: bool) -> None:
    if wanted:
        from importlib import metadata

        typer.echo(f"foreplan {metadata.version('foreplan')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> int:
    """The command `foreplan`; gives the exit code and raises nothing."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code: Any = app(words or ["--help"], prog_name="foreplan", standalone_mode=False)
        return int(code or 0)
    except OSError as error:  # the help cannot be written
        return int(_usage(Failed(f"the result cannot be written: {error.strerror or error}"), words))
    except Exception as error:  # what typer says about the words themselves
        return int(_usage(error, words))


def _usage(error: Exception, words: list[str]) -> Code:
    """Say what is wrong with the words of a command line."""
    screen = Screen(json="--json" in words, traceback="--traceback" in words)
    said = getattr(error, "format_message", None)
    if said is None:
        return complain(screen, error)
    sentence = " ".join(str(said()).split()).rstrip(".").replace(". Did you mean", "; did you mean")
    context = getattr(error, "ctx", None)
    advice = f" (see {context.command_path} --help)" if context is not None else ""
    return complain(screen, BadInput(f"{sentence[:1].lower()}{sentence[1:]}{advice}"))
