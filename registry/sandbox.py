"""A place where code of strangers can run: bubblewrap, asked for everything, and looked at before it is believed.

    foreplan ──> bwrap ──> inside.py: process 1 of the sandbox ──> the code
                   │             └ looks, reports, binds itself; all others end with it
                   └ ends with foreplan

No network, no environment, no file but the interpreter's, a folder in memory that nobody else sees, processes of its own,
a user that is nobody, no capabilities, no further namespaces, few system calls; and caps on time, memory, processes,
files and output. Each is asked of `bwrap`, and `inside.py` looks at each from within, at every call. Nothing here runs
code in any other way: where the sandbox is missing or broken there is a reason, as text, and no result.

Root is the hard case. The user "nobody" of a sandbox that root makes is root all the same where the kernel asks who owns
a file, and `/proc/sys/kernel/core_pattern` is one. So root first becomes nobody, and then makes the sandbox.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import math
import os
import platform
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..policies.text import shorten
from .syscalls import filter_for

__all__ = ["Caps", "Program", "Sandbox", "Started", "probe"]

KIB, MIB = 1024, 1024 * 1024
FOLDER = "/tmp"
_NOBODY = 65534
_OURS = 1
"""The kernel counts process 1 of the sandbox together with those of the code."""
_SYSTEM = ("/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/share/zoneinfo", "/etc/alternatives")
_TOP = ("/bin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache")
_DEVICES = ("null", "zero", "full", "random", "urandom")
_LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
_NAMESPACES = ("user", "pid", "net", "ipc", "mnt", "uts")
_INSIDE = Path(__file__).with_name("inside.py").read_text(encoding="utf-8")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """How much one call may take, in seconds and bytes. `memory` is for each process; `output` for each of two streams."""

    timeout: float = 10.0
    memory: int = 256 * MIB
    processes: int = 16
    output: int = 64 * KIB
    folder: int = 64 * MIB

    def rlimits(self) -> dict[str, int]:
        """What the kernel holds each process to. Descriptors are few, for what they hold is nobody's memory."""
        return {
            "AS": self.memory,
            "CORE": 0,
            "CPU": math.ceil(self.timeout) + 1,
            "FSIZE": self.folder,
            "NOFILE": 128,
            "NPROC": self.processes + _OURS,
        }


class Program(NamedTuple):
    """What is to be run: the command, the files in its folder, and what it reads."""

    run: tuple[str, ...]
    files: Mapping[str, bytes]
    stdin: bytes = b""
    read_only: tuple[str, ...] = ()


class Started:
    """A sandbox that was begun, with our ends of its pipes; the code waits until `release`.

    `info` ends as soon as there is a process 1, `report` when the code begins. Made in the thread that outlives the call,
    for the kernel kills the sandbox when that thread ends.
    """

    def __init__(self, command: Sequence[str], keep: Sequence[int], ours: _Pipes, **options: Any) -> None:
        self.out, self.err, self.report, self.info, self._block = ours
        self.process = subprocess.Popen(command, pass_fds=keep, close_fds=True, env={}, cwd="/", **options)
        self.ended = os.pidfd_open(self.process.pid)
        self.adopted = False
        self._first: int | None = None

    def adopt(self, info: bytes) -> None:
        """Take note of process 1, which cannot end before `release`, so that it is no other of the same number."""
        self.adopted = True
        with contextlib.suppress(ProcessLookupError, ValueError, KeyError):
            self._first = os.pidfd_open(json.loads(info)["child-pid"])

    def release(self) -> None:
        """Let the code begin."""
        if self._block >= 0:
            os.close(self._block)
            self._block = -1

    @property
    def ends(self) -> tuple[int, ...]:
        """What becomes readable when process 1 and all others in the sandbox are gone, and when `bwrap` is."""
        return (self.ended,) if self._first is None else (self._first, self.ended)

    def kill(self) -> None:
        """End everything in it at once. Of process 1 the kernel says that it is gone when all others are."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.ended if self._first is None else self._first, signal.SIGKILL)

    def close(self) -> None:
        """Give everything back; to be called when all has ended."""
        self.release()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for number in (self.out, self.err, self.report, self.info, *self.ends):
            os.close(number)


class _Pipes(NamedTuple):
    out: int
    err: int
    report: int
    info: int
    block: int


@dataclasses.dataclass(frozen=True, slots=True)
class Sandbox:
    """A `bwrap` that was found to do what it promises on this machine, and a Python that runs in it."""

    bwrap: str
    python: str
    python_version: str = ""

    def start(self, program: Program, caps: Caps) -> Started:
        """Begin it, in this thread. Raises `OSError` where there is no `bwrap` any more."""
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as failed:
            ours, given, keep = _pipes(theirs, failed)
            command = [self.bwrap, *_confined(self._read_only(program), caps)]
            for name, content in program.files.items():
                keep.append(_sealed(content, theirs))
                command += ["--perms", "0600", "--file", str(keep[-1]), f"{FOLDER}/{name}"]
            keep.append(_sealed(filter_for(platform.machine()) or b"", theirs))
            command += ["--seccomp", str(keep[-1]), "--remount-ro", "/"]
            command += ["--info-fd", str(given.info), "--block-fd", str(given.block), "--"]
            command += [
                self.python,
                "-I",
                "-S",
                "-B",
                "-c",
                _INSIDE,
                self._asked(program, caps, given.report),
            ]
            options = {"stdin": _sealed(program.stdin, theirs), "stdout": given.out, "stderr": given.err}
            started = Started(command, keep, ours, start_new_session=True, **options, **_as_nobody())
            failed.pop_all()
            return started

    def _read_only(self, program: Program) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*_interpreter(self.python), *program.read_only]))

    def _asked(self, program: Program, caps: Caps, report: int) -> str:
        return json.dumps(
            {
                "outside": {name: os.readlink(f"/proc/self/ns/{name}") for name in _NAMESPACES},
                "nobody": _NOBODY,
                "read_only": self._read_only(program),
                "folder": FOLDER,
                "folder_bytes": caps.folder,
                "limits": caps.rlimits(),
                "report": report,
                "run": program.run,
            }
        )


def _confined(read_only: Sequence[str], caps: Caps) -> Iterator[str]:
    """Everything that is asked of `bwrap` but for the files of one call."""
    yield from ("--unshare-all", "--unshare-user", "--disable-userns", "--uid", str(_NOBODY))
    yield from ("--gid", str(_NOBODY), "--hostname", "sandbox", "--cap-drop", "ALL", "--new-session")
    yield from ("--die-with-parent", "--as-pid-1", "--clearenv", "--setenv", "PATH", "/usr/bin:/bin")
    yield from ("--setenv", "HOME", FOLDER, "--setenv", "LANG", "C.UTF-8")
    for path in (*_SYSTEM, *_TOP):
        if os.path.islink(path):
            yield from ("--symlink", os.readlink(path), path)
        elif os.path.exists(path):
            yield from ("--ro-bind", path, path)
    yield from ("--proc", "/proc")
    for name in _DEVICES:
        yield from ("--dev-bind", f"/dev/{name}", f"/dev/{name}")
    for name, target in _LINKS.items():
        yield from ("--symlink", target, f"/dev/{name}")
    yield from ("--perms", "0700", "--size", str(caps.folder), "--tmpfs", FOLDER, "--chdir", FOLDER)
    for path in read_only:
        yield from ("--ro-bind", path, path)


def _interpreter(python: str) -> Iterator[str]:
    """The folders that this Python needs and that are not there anyhow."""
    prefix = os.path.dirname(os.path.dirname(python))
    for part in () if prefix == "/usr" else ("bin", "lib", "lib64"):
        if os.path.isdir(path := os.path.join(prefix, part)):
            yield path


def _pipes(theirs: contextlib.ExitStack, failed: contextlib.ExitStack) -> tuple[_Pipes, _Pipes, list[int]]:
    """Our ends, the sandbox's ends, and which of these it must be told to keep; `theirs` closes the latter."""
    pairs = [os.pipe() for _ in _Pipes._fields]
    pairs[-1] = pairs[-1][::-1]  # all but the last are read by us
    given = _Pipes(*(there for _, there in pairs))
    for number in given:
        theirs.callback(os.close, number)
    ours = _Pipes(*(here for here, _ in pairs))
    for number in ours:
        failed.callback(os.close, number)
    return ours, given, [given.report, given.info, given.block]


def _sealed(content: bytes, theirs: contextlib.ExitStack) -> int:
    """A file in memory that can be read and not changed."""
    import fcntl

    number = os.memfd_create("sandbox", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    theirs.callback(os.close, number)
    with open(number, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(number, 0, os.SEEK_SET)
    seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK
    fcntl.fcntl(number, fcntl.F_ADD_SEALS, seals)
    return number


def _as_nobody() -> dict[str, Any]:
    return {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


# Whether it is there, and does what it promises.


def probe() -> Sandbox | str:
    """The sandbox of this machine, or why there is none. It is tried once in a process, when first asked for."""
    if sys.platform != "linux":
        return f"bubblewrap confines code on Linux, and this is {sys.platform}"
    found = shutil.which("bwrap")
    if found is None:
        return "there is no bubblewrap here; install it (apt install bubblewrap, dnf install bubblewrap)"
    return _probed(os.path.abspath(found))


@functools.lru_cache
def _probed(bwrap: str) -> Sandbox | str:
    if filter_for(platform.machine()) is None:
        return f"which system calls to refuse is not known for {platform.machine()}"
    reasons: dict[str, str] = {}
    for python in _pythons():
        program = Program((python, "-I", "-B", "probe.py"), {"probe.py": _TRIES.encode()})
        said = tried(Sandbox(bwrap, python), program)
        if isinstance(said, bytes):
            return Sandbox(bwrap, python, said.decode("ascii", "replace").strip())
        reasons.setdefault(said, python)
    if len(reasons) < 2:
        return next(iter(reasons), "there is no Python on a path of its own to run in it")
    return "; ".join(f"with {python}: {reason}" for reason, python in reasons.items())


def _pythons() -> list[str]:
    """This Python, outside its virtual environment; then that of the system, for root's own may be closed to nobody."""
    ours = getattr(sys, "_base_executable", None) or sys.executable
    found = [os.path.realpath(path) for path in (ours, "/usr/bin/python3", "/usr/local/bin/python3") if path]
    return [path for path in dict.fromkeys(found) if os.path.isfile(path)]


def tried(sandbox: Sandbox, program: Program, caps: Caps = Caps(processes=4)) -> bytes | str:
    """Run a small program to its end, waiting for it: what it writes, or what is wrong."""
    try:
        started = sandbox.start(program, caps)
    except OSError as error:
        return f"{sandbox.bwrap} cannot be started: {error.strerror}"
    try:
        started.adopt(_read(started.info))
        started.release()
        if not select.select([started.ended], [], [], caps.timeout)[0]:
            return f"{sandbox.bwrap} does not come to an end"
        status = started.process.wait()
        said = verdict(_read(started.report), _read(started.err), sandbox.bwrap)
        out = _read(started.out)
        return said or (out if status == 0 else f"{sandbox.bwrap} lets code do too much: {_line(out)}")
    finally:
        started.kill()
        started.close()


_CLOSED = " (root runs code as nobody, who must be able to read it)"


def verdict(report: bytes, err: bytes, bwrap: str) -> str:
    """Why the code was not begun, by the report from within or, without one, by what `bwrap` said; "" if it was."""
    try:
        found = json.loads(report)
    except ValueError:
        said = _line(err).removeprefix("bwrap: ")
        closed = _CLOSED if os.geteuid() == 0 and "Can't find source path" in said else ""
        return f"{bwrap} makes no sandbox here: {said or 'it says nothing'}{closed}"
    return f"{bwrap} does not confine: {'; '.join(map(str, found))}" if found else ""


def _line(text: bytes) -> str:
    return shorten(text.decode("utf-8", "replace"), 300)


def _read(number: int, seconds: float = 5.0) -> bytes:
    """What comes through a pipe until it ends, or nothing more comes."""
    found = b""
    while select.select([number], [], [], seconds)[0]:
        chunk = os.read(number, 65536)
        if not chunk:
            break
        found += chunk
    return found


_TRIES = """
import ctypes, os, signal, socket, sys
wrong, children = [], []
if ctypes.CDLL(None).unshare(0x10000000) == 0:
    wrong.append("it can make namespaces")
for family in (socket.AF_UNIX, 40):
    try:
        socket.socket(family)
        wrong.append("it can open sockets that are not confined")
    except OSError:
        pass
for path in ("/x", "/usr/x", "/dev/x", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname"):
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT))
        wrong.append("it can write " + path)
    except OSError:
        pass
try:
    while len(children) < 4:
        children.append(os.fork())
        if not children[-1]:
            signal.pause()
    wrong.append("it can have any number of processes")
except OSError:
    pass
for child in children:
    os.kill(child, signal.SIGKILL)
if not children:
    wrong.append("it can have no second process")
print("; ".join(wrong) or "%d.%d.%d" % sys.version_info[:3])
sys.exit(bool(wrong))
"""
"""What code in the sandbox must not be able to do, done: where `inside.py` looks, this tries."""
