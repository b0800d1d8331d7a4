"""Build the wheel of this checkout from its tracked files alone, so that nothing left over slips in."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

__all__ = ["build_wheel", "tracked"]


def tracked(root: Path) -> list[str]:
    """Paths of the files that git tracks and that are there, relative to the root; [] where it is no checkout."""
    if not (root / ".git").exists():
        return []
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split("\0") if name and (root / name).is_file()]


def build_wheel(root: Path, folder: Path) -> Path:
    """The wheel, built in `folder` with the installed setuptools: no download, no leftover of an earlier build."""
    source = folder / "foreplan-main"
    for name in tracked(root):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, source / name)
    command = [
        sys.executable,
        "-P",
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(folder),
        str(source),
    ]
    subprocess.run(command, check=True, capture_output=True)
    return next(folder.glob("*.whl"))
