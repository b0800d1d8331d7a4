"""Code tools in tests: whether they work here, `bwrap`s that break a promise, and which processes are left."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from foreplan.registry.sandbox import Sandbox, probe

__all__ = ["CONFINED", "bwrap_that", "open_folder", "still_runs"]

_FOUND = probe()
CONFINED = pytest.mark.skipif(not isinstance(_FOUND, Sandbox), reason=f"no sandbox here: {_FOUND}")
"""For tests that run code. What is refused without a sandbox is tested in any case."""


@contextmanager
def open_folder() -> Iterator[Path]:
    """A new folder that every user of this machine can look into, as pytest's own are not."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def bwrap_that(folder: Path, script: str) -> Path:
    """A program of that name, in Python: `command` is what it is asked to do, `real` the true one."""
    path = folder / "bwrap"
    text = f"import os, sys\ncommand, real = sys.argv[1:], {shutil.which('bwrap')!r}\n{script}\n"
    path.write_text(f"#!/usr/bin/env python3\n{text}")
    path.chmod(0o755)
    return path


def still_runs(mark: str) -> bool:
    """Whether any process of this machine has this among its arguments."""
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in process.read_bytes().split(b"\0"):
                return True
        except OSError:
            continue
    return False
