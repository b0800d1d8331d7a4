"""MCP servers that nobody here wrote: how to start them, installed once, or a skip that says why not."""

from __future__ import annotations

import fcntl
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

__all__ = ["children", "node_server", "python_server"]

VERSION = "2026.8.31"
NODE = ("server-everything", "server-filesystem")
FOLDER = Path(sys.prefix) / "mcp-servers"
"""Beside the packages of the environment, so that it is made once and goes with it."""


def python_server(module: str, package: str, *words: str) -> list[str]:
    """How to start a server of Python's that is in this environment."""
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{package} is not installed: make proof")
    return [sys.executable, "-m", module, *words]


def node_server(name: str, *words: str) -> list[str]:
    """How to start a server of Node's, which is installed now if nobody has."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not there")
    start = FOLDER / "node_modules" / "@modelcontextprotocol" / name / "dist" / "index.js"
    if not start.exists():
        _install()
    return ["node", str(start), *words]


def _install() -> None:
    """With npm, by one process at a time; no script of a package runs."""
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = [f"@modelcontextprotocol/{name}@{VERSION}" for name in NODE]
        command = ["npm", "install", "--prefix", str(FOLDER), "--ignore-scripts", "--no-audit", "--no-fund"]
        try:
            ran = subprocess.run([*command, *wanted], capture_output=True, text=True, timeout=300)
        except subprocess.TimeoutExpired:
            pytest.skip("npm did not install the servers within 300 s")
    if ran.returncode:
        pytest.skip(f"npm cannot install the servers: {ran.stderr.strip()[:200]}")


def children(of: int) -> list[int]:
    """The processes that this one has begun (Linux)."""
    listed = (path.read_text() for path in Path(f"/proc/{of}/task").glob("*/children"))
    return [int(word) for line in listed for word in line.split()]
