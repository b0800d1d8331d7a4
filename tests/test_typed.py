"""Types are API: what a type checker makes of the files in `typed/`, slip by slip."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rooms import ROOT

TYPED = sorted((Path(__file__).parent / "typed").glob("*.py"))
IGNORE = re.compile(r"  # type: ignore\[([a-z, -]+)\]")
ERROR = re.compile(r"^[^:]+:(\d+): error: .*\[([a-z-]+)\]$", re.MULTILINE)


@pytest.mark.parametrize("path", TYPED, ids=lambda path: path.stem)
def test_a_type_checker_sees_every_marked_slip_and_no_other(path: Path, tmp_path: Path) -> None:
    """mypy --strict reports exactly the lines and codes that the file marks, once the marks are taken away."""
    pytest.importorskip("mypy")
    lines = path.read_text("utf-8").splitlines()
    marked = {(n, code) for n, line in enumerate(lines, 1) for code in _codes(line)}
    bare = tmp_path / path.name
    bare.write_text("\n".join(IGNORE.sub("", line) for line in lines) + "\n", "utf-8")
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "foreplan").symlink_to(ROOT)
    assert _errors(bare, tmp_path / "packages") == marked


def _codes(line: str) -> list[str]:
    match = IGNORE.search(line)
    return match[1].split(", ") if match else []


def _errors(path: Path, packages: Path) -> set[tuple[int, str]]:
    """Lines and codes of what is wrong in this file; of the library only what others see of it is read."""
    config, cache = str(ROOT / "pyproject.toml"), str(packages.parent / "cache")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--follow-imports=silent",
        "--config-file",
        config,
        "--cache-dir",
        cache,
        path.name,
    ]
    environment = {**os.environ, "MYPYPATH": str(packages)}
    ran = subprocess.run(command, cwd=path.parent, env=environment, capture_output=True, text=True)
    assert "Traceback" not in ran.stderr, ran.stderr
    own = "\n".join(line for line in ran.stdout.splitlines() if line.startswith(path.name))
    return {(int(line), code) for line, code in ERROR.findall(own)}
