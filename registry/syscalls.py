"""The filter of system calls for code in the sandbox, as a program for the kernel (classic BPF; see seccomp(2)).

Namespaces do not hold everything: a virtual machine's socket to its host (AF_VSOCK) belongs to no network namespace,
keys of the kernel's key rings to no user namespace in our sense, a socket in a folder that is only read can be
connected to all the same, and shared memory that nobody has attached counts for no process. What is refused is refused
with an error, as if the kernel did not know it; the rest of the program goes on.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

__all__ = ["filter_for"]


class _Machine(NamedTuple):
    audit: int
    """What the kernel calls it: AUDIT_ARCH_…"""
    socket: int
    clone: int
    prctl: int
    refused: tuple[int, ...]


_EVERYWHERE = (425, 426, 427, 428, 429, 430, 431, 432, 433, 438, 442, 447)
"""io_uring_setup/enter/register, open_tree, move_mount, fsopen, fsconfig, fsmount, fspick, pidfd_getfd, mount_setattr,
memfd_secret: numbers that are the same on all machines."""

_MACHINES = {
    # ptrace process_vm_readv process_vm_writev | mount umount2 pivot_root chroot unshare setns | keyctl add_key
    # request_key | bpf perf_event_open userfaultfd | shmget semget msgget mq_open memfd_create | open_by_handle_at
    "x86_64": _Machine(
        0xC000003E,
        41,
        56,
        157,
        (
            *(101, 310, 311, 165, 166, 155, 161, 272, 308, 250, 248, 249),
            *(321, 298, 323, 29, 64, 68, 240, 319, 304),
        ),
    ),
    "aarch64": _Machine(
        0xC00000B7,
        198,
        220,
        167,
        (
            *(117, 270, 271, 40, 39, 41, 51, 97, 268, 219, 217, 218),
            *(280, 241, 282, 194, 190, 186, 180, 279, 265),
        ),
    ),
}
_CLONE3 = 435
_X32 = 0x40000000
"""Numbers from here on are those of another calling convention on x86-64, which would go around the list."""
_NEW_NAMESPACES = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET."""
_PR_SET_PDEATHSIG = 1
"""Whoever undoes this in process 1 would outlive us."""
_FAMILIES = (2, 10)
"""AF_INET and AF_INET6, which lead nowhere but to the sandbox's own loopback. `socketpair` needs none of this."""

_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
"""Offsets in `struct seccomp_data`; of an argument the low half, on machines that store it first."""


def filter_for(machine: str) -> bytes | None:
    """The program for a machine as `platform.machine()` names it; None where the numbers are not known."""
    known = _MACHINES.get({"amd64": "x86_64", "arm64": "aarch64"}.get(machine.lower(), machine.lower()))
    if known is None:
        return None
    program = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_EQUAL, known.audit, then=1),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER),
        *_answer(_AT_LEAST, _X32, _ERROR | _ENOSYS),
        *_answer(
            _EQUAL, _CLONE3, _ERROR | _ENOSYS
        ),  # its flags are out of sight; libraries fall back to clone
    ]
    for number in (*known.refused, *_EVERYWHERE):
        program += _answer(_EQUAL, number, _ERROR | _EPERM)
    families = [step for family in _FAMILIES for step in _answer(_EQUAL, family, _ALLOW)]
    program += [
        *_by_argument(known.clone, _answer(_ANY_BIT, _NEW_NAMESPACES, _ERROR | _EPERM)),
        *_by_argument(known.prctl, _answer(_EQUAL, _PR_SET_PDEATHSIG, _ERROR | _EPERM)),
        *_by_argument(known.socket, [*families, _step(_RETURN, _ERROR | _EAFNOSUPPORT)]),
        _step(_RETURN, _ALLOW),
    ]
    return b"".join(program)


def _by_argument(number: int, answers: list[bytes]) -> list[bytes]:
    """What to answer to one system call by its first argument; where nothing answers, it is allowed."""
    steps = [_step(_LOAD, _FIRST_ARGUMENT), *answers, _step(_RETURN, _ALLOW)]
    return [_step(_EQUAL, number, otherwise=len(steps)), *steps]


def _step(code: int, value: int, *, then: int = 0, otherwise: int = 0) -> bytes:
    """One instruction (`struct sock_filter`); a jump says how many to leave out."""
    return struct.pack("=HBBI", code, then, otherwise, value)


def _answer(code: int, value: int, verdict: int) -> list[bytes]:
    """Return this where the comparison holds."""
    return [_step(code, value, otherwise=1), _step(_RETURN, verdict)]
