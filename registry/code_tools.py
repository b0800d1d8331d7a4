"""Code as an argument: a tool that runs Python or shell where it can do no harm, or does not exist.

    run_python = code_tool("run_python", timeout=5)

    - id: counted
      tool: run_python
      args: {code: "import sys; print(len(sys.stdin.read().split()))", stdin: {$: letter.body}}

Each call is a sandbox of its own (see `sandbox.py`). What code does in it is gone when it ends: nothing but what it wrote
comes out, so the tool reads. That it failed is data, too: `exit_code`, and the traceback in `stderr`.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from ..policies.effect import Effect
from ..policies.errors import ToolRefused
from ..policies.failures import Kind, ToolFailure
from ..policies.permissions import Level
from ..policies.spelling import spelled
from ..policies.text import did_you_mean, shorten
from .options import check_options
from .sandbox import KIB, MIB, Caps, Program, Sandbox, probe, tried, verdict
from .tools import Tool

__all__ = ["code_tool"]

_LONGEST = 100_000
_FILE = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$"
_NEVER = ("/", "/proc", "/sys", "/dev", "/run", "/var/run")
"""What is never shown to code, nor is anything in it; of the root, only the whole."""

_GIVES: dict[str, Any] = {
    "type": "object",
    "properties": {
        "stdout": {"type": "string"},
        "stderr": {"type": "string"},
        "exit_code": {"type": "integer", "description": "0 if all went well; 128 + n if signal n ended it."},
        "truncated": {
            "type": "boolean",
            "description": "It wrote more than it may, and was ended for it; what it wrote is cut.",
        },
    },
    "required": ["stdout", "stderr", "exit_code", "truncated"],
    "additionalProperties": False,
}


@dataclasses.dataclass(frozen=True, slots=True)
class _Language:
    title: str
    file: str

    def command(self, sandbox: Sandbox) -> tuple[str, ...]:
        """How the file is run."""
        if self.file == "main.sh":
            return ("/bin/sh", self.file)
        return (sandbox.python, "-B", self.file)


_LANGUAGES = {"python": _Language("Python", "main.py"), "shell": _Language("POSIX shell", "main.sh")}


@spelled
def code_tool(
    name: str,
    language: Literal["python", "shell"] = "python",
    *,
    timeout: float = 10.0,
    memory: int = 256 * MIB,
    processes: int = 16,
    output: int = 64 * KIB,
    folder: int = 64 * MIB,
    read_only: Iterable[str | os.PathLike[str]] = (),
    **options: Any,
) -> Tool:
    """A tool that runs the code it is given, in a sandbox; raises `ToolRefused` where that is not to be had.

    timeout    seconds for one call, by the clock
    memory     bytes for each process
    processes  how many there may be at once, threads included
    output     bytes of stdout, and of stderr; more ends the call, with `truncated`
    folder     bytes in the folder in which it works, which is in memory and gone afterwards
    read_only  files and folders of this machine that it may read, where they are

    Other options are those of `@tool`, where they make sense. The level is "high" unless said otherwise. Language, Python version, caps
    and paths are part of the contract that an approval binds.
    """
    caps = Caps(timeout=timeout, memory=memory, processes=processes, output=output, folder=folder)
    _check_options(options, name)
    spoken = _language(language, name)
    _check_caps(caps, name)
    paths = _paths(read_only, name)
    sandbox = _found(name, paths)

    async def run_code(args: dict[str, Any]) -> dict[str, Any]:
        program = Program(spoken.command(sandbox), _files(args, spoken, caps), _stdin(args), paths)
        return await _outcome(sandbox, program, caps)

    options = {
        "description": _words(spoken, sandbox, caps, paths),
        "level": Level.HIGH,
        "tags": ("code",),
        **options,
    }
    made = Tool.declare(
        name,
        input_schema=_takes(spoken),
        output_schema=_GIVES,
        call=run_code,
        effect=Effect.READS,
        timeout=timeout + 10,  # it ends by itself, and then says what it wrote
        origin=f"code_tool({language})",
        **options,
    )
    said = {"language": language, "python": sandbox.python_version, **dataclasses.asdict(caps)}
    return dataclasses.replace(made, binds={"sandbox": {**said, "read_only": list(paths)}})


async def _outcome(sandbox: Sandbox, program: Program, caps: Caps) -> dict[str, Any]:
    from .processes import to_the_end

    try:
        started = sandbox.start(program, caps)
    except OSError as error:
        raise _no_sandbox(f"{sandbox.bwrap} cannot be started: {error.strerror}") from None
    try:
        ended = await to_the_end(started, caps)
    finally:
        started.close()
    said = {"stdout": _text(ended.out), "stderr": _text(ended.err)}
    if ended.late:
        message = f"the code did not end within {caps.timeout:g} s, and was ended"
        raise ToolFailure(message, kind=Kind.TIMEOUT, code="deadline", details=said)
    if reason := verdict(ended.report, ended.err, sandbox.bwrap):
        raise _no_sandbox(reason)
    return {**said, "exit_code": ended.status, "truncated": ended.truncated}


def _no_sandbox(reason: str) -> ToolFailure:
    hint = "code is run in a sandbox or not at all; whoever runs this machine must mend it"
    return ToolFailure(f"the code was not run: {reason}", kind=Kind.PERMISSION, code="no_sandbox", hint=hint)


def _text(written: bytes) -> str:
    return written.decode("utf-8", "replace")


# What is handed in.


def _files(args: Mapping[str, Any], spoken: _Language, caps: Caps) -> dict[str, bytes]:
    """The folder as the code finds it. Raises `ToolFailure` for what cannot be in it."""
    files = {spoken.file: _bytes("code", args["code"])}
    if b"\0" in files[spoken.file]:
        raise _bad("code", "holds a NUL, which no program does")
    for name, text in args.get("files", {}).items():
        if name in files:
            raise _bad(f"files/{name}", "is what the code itself is called; choose another name")
        files[name] = _bytes(f"files/{name}", text)
    if sum(map(len, files.values())) > caps.folder // 2:
        raise _bad("files", f"fill more than half of the folder, which has {caps.folder} bytes")
    return files


def _stdin(args: Mapping[str, Any]) -> bytes:
    return _bytes("stdin", args.get("stdin", ""))


def _bytes(what: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise _bad(what, "holds half a character") from None


def _bad(what: str, problem: str) -> ToolFailure:
    return ToolFailure(f"{what}: {problem}", kind=Kind.BAD_ARGS, code="bad_code")


def _takes(spoken: _Language) -> dict[str, Any]:
    text = {"type": "string", "maxLength": 10 * _LONGEST}
    code = {"type": "string", "minLength": 1, "maxLength": _LONGEST, "description": f"{spoken.title} to run."}
    files = {
        "type": "object",
        "description": "Text files to put into its folder, by name.",
        "propertyNames": {"pattern": _FILE},
        "additionalProperties": text,
        "maxProperties": 32,
    }
    stdin = {**text, "description": "What it reads from standard input."}
    return {
        "type": "object",
        "properties": {"code": code, "stdin": stdin, "files": files},
        "required": ["code"],
    }


def _words(spoken: _Language, sandbox: Sandbox, caps: Caps, paths: tuple[str, ...]) -> str:
    what = (
        f"Python {sandbox.python_version} with its standard library"
        if spoken.title == "Python"
        else spoken.title
    )
    seen = f" It can read {', '.join(paths)}." if paths else ""
    return (
        f"Run code ({what}) in a sandbox: no network, no files but those in `files`, nothing is kept.{seen} It has "
        f"{caps.timeout:g} s. Have it print its result: what it writes comes back as `stdout` and `stderr`, with `exit_code`."
    )


# What is checked when the tool is made.

_NOT_TO_CHOOSE = {
    "effect": "nothing that code does in a sandbox outlives it, so the tool reads",
    "host": "code in a sandbox has no network",
    "model_calls": "code in a sandbox can ask no model",
    "result_from": "what code writes is text",
    "secret_refs": "code in a sandbox is given no secrets",
}


def _check_options(options: Iterable[str], name: str) -> None:
    """Raises `ToolRefused` for what is no option, and for those of other tools that make no sense here."""
    check_options(options)
    for option in options:
        if option in _NOT_TO_CHOOSE:
            raise ToolRefused(f"code tool {name!r} takes no {option}: {_NOT_TO_CHOOSE[option]}")


def _language(language: object, name: str) -> _Language:
    spoken = _LANGUAGES.get(language) if isinstance(language, str) else None
    if spoken is None:
        known = sorted(_LANGUAGES)
        guess = did_you_mean(str(language), known) or f"; there are {' and '.join(known)}"
        raise ToolRefused(f"code tool {name!r} cannot run {shorten(repr(language), 40)}{guess}")
    return spoken


_LEAST = {"memory": 32 * MIB, "processes": 1, "output": 1, "folder": 64 * KIB}
_MOST = {"timeout": 3600, "memory": 2**40, "processes": 4096, "output": 64 * MIB, "folder": 2**36}


def _check_caps(caps: Caps, name: str) -> None:
    for cap, most in _MOST.items():
        value = getattr(caps, cap)
        kinds = (int, float) if cap == "timeout" else (int,)
        if (
            not isinstance(value, kinds)
            or isinstance(value, bool)
            or not _LEAST.get(cap, 1e-3) <= value <= most
        ):
            raise ToolRefused(
                f"{cap} of code tool {name!r} is {shorten(repr(value), 40)}; "
                f"it is a number from {_LEAST.get(cap, 0.001)} to {most}"
            )


def _paths(read_only: object, name: str) -> tuple[str, ...]:
    """The paths that code may read, each as it really is, so that no link leads elsewhere later."""
    if isinstance(read_only, str | bytes) or not isinstance(read_only, Iterable):
        raise ToolRefused(f"read_only of code tool {name!r} must be a list of paths")
    try:
        return tuple(_path(path, name) for path in read_only)
    except (TypeError, ValueError):
        raise ToolRefused(f"read_only of code tool {name!r} holds what is no path") from None


def _path(path: Any, name: str) -> str:
    given: str = os.fsdecode(path)
    real = os.path.realpath(given)
    if not os.path.isabs(given) or not os.path.exists(real):
        raise ToolRefused(
            f"{given!r}, which code tool {name!r} is to read, is no absolute path to something there"
        )
    if real == "/tmp" or any(real == hidden or real.startswith(hidden + "/") for hidden in _NEVER):
        raise ToolRefused(
            f"code tool {name!r} cannot be shown {given!r}; name the folder or file that it needs"
        )
    return real


def _found(name: str, paths: tuple[str, ...]) -> Sandbox:
    """The sandbox, if it works here, also with these paths in it."""
    sandbox = probe()
    if isinstance(sandbox, Sandbox) and paths:
        program = Program((sandbox.python, "-I", "-c", ""), {}, read_only=paths)
        sandbox = said if isinstance(said := tried(sandbox, program), str) else sandbox
    if isinstance(sandbox, str):
        raise ToolRefused(
            f"code tool {name!r} is refused, for code is run in a sandbox or not at all: {sandbox}"
        )
    return sandbox
