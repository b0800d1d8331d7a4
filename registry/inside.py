"""The first program in the sandbox: it looks whether it is really confined, binds itself, runs the code.

It is process 1, and bound as the code is: code can write into its memory (/proc/1/mem), and wins nothing by that.

Its text is handed to the interpreter in the sandbox, at every call; nothing imports it to run it. What it finds broken it
reports through a pipe and ends; the code is not begun. So a `bwrap` that does not do what it is asked to do (an old one,
a wrapper, another program of that name) is noticed before it matters. It runs on any Python from 3.8 on.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys

TYPE_CHECKING = False  # `typing` would cost more time than all of this
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_CAPABILITIES = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")


def broken(asked: dict[str, Any]) -> Iterator[str]:
    """What was promised of this place and does not hold."""
    for name, outside in asked["outside"].items():
        if os.readlink("/proc/self/ns/" + name) == outside:
            yield "the " + name + " namespace is that of the host"
    status = _status()
    held = [name for name in _CAPABILITIES if int(status.get(name, "1"), 16)]
    if held:
        yield "capabilities are held: " + ", ".join(held)
    if status.get("NoNewPrivs") != "1" or status.get("Seccomp") != "2":
        yield "system calls are not filtered"
    if {os.getuid(), os.geteuid(), os.getgid(), os.getegid()} != {asked["nobody"]}:
        yield "the code would run as a user of the host"
    more = set(os.environ) - {"PATH", "HOME", "LANG", "PWD"}
    if more:
        yield "the environment holds " + ", ".join(sorted(more))
    if [name for name in os.listdir("/proc") if name.isdigit()] != ["1"] or os.getpid() != 1:
        yield "other processes can be seen"
    if _interfaces() != {"lo"}:
        yield "there are network interfaces"
    yield from _folders(asked)


def _status() -> dict[str, str]:
    with open("/proc/self/status") as lines:
        return {name: rest.strip() for name, _, rest in (line.partition(":") for line in lines)}


def _interfaces() -> set[str]:
    with open("/proc/self/net/dev") as lines:
        return {line.partition(":")[0].strip() for line in lines if ":" in line}


def _folders(asked: dict[str, Any]) -> Iterator[str]:
    for path in ("/", *asked["read_only"]):
        if not os.statvfs(path).f_flag & os.ST_RDONLY:
            yield path + " can be written"
    folder = os.statvfs(asked["folder"])
    if folder.f_blocks * folder.f_frsize > asked["folder_bytes"] + folder.f_frsize:
        yield "the folder has no bound"


def limit(limits: dict[str, int]) -> None:
    """Bind this process and all that come from it; without capabilities nothing can be loosened again."""
    for name, most in limits.items():
        resource.setrlimit(getattr(resource, "RLIMIT_" + name), (most, most))


def run(command: list[str]) -> int:
    """Run the code beside this process, which takes care of orphans; 128 and the signal where a signal ended it."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):  # as a shell would leave them, not Python
        signal.signal(number, signal.SIG_DFL)
    code = os.fork()
    if code == 0:
        os.execv(command[0], command)
    while True:
        ended, status = os.wait()
        if ended == code:
            return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def main() -> None:
    """Report; where all is as promised, run what was asked for."""
    asked = json.loads(sys.argv[1])
    try:
        found = list(broken(asked))
        if not found:
            limit(asked["limits"])
    except (OSError, ValueError) as error:
        found = ["it cannot be looked at: " + str(error)]
    os.write(asked["report"], json.dumps(found).encode())
    os.close(asked["report"])
    os._exit(1 if found else run(asked["run"]))


if __name__ == "__main__":
    main()
