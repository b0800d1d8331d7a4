"""The first program in the sandbox: it looks whether it is really confined, binds itself, and becomes the code.

Its text is handed to the interpreter in the sandbox, at every call; nothing imports it to run it. What it finds broken it
reports through a pipe and ends; the code is not begun. So a `bwrap` that does not do what it is asked to do (an old one,
a wrapper, another program of that name) is noticed before it matters. It runs on any Python from 3.8 on.
"""

from __future__ import annotations

import json
import os
import resource
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
    if {name for name in os.listdir("/proc") if name.isdigit()} - {"1", str(os.getpid())}:
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


def main() -> None:
    """Report, then become what was asked for."""
    asked = json.loads(sys.argv[1])
    try:
        found = list(broken(asked))
        if not found:
            limit(asked["limits"])
    except (OSError, ValueError) as error:
        found = ["it cannot be looked at: " + str(error)]
    os.write(asked["report"], json.dumps(found).encode())
    os.close(asked["report"])
    if found:
        os._exit(1)
    os.execv(asked["run"][0], asked["run"])


if __name__ == "__main__":
    main()
