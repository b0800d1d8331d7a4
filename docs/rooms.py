"""The rooms as the source has them: who imports whom, read with `ast`, for the picture and for the test that holds it.

policies  <-  registry  <-  planner  <-  executor  <-  console
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

__all__ = ["PACKAGE", "ROOMS", "ROOT", "Import", "diagram", "imports_of", "modules", "room_of"]

ROOT = Path(__file__).resolve().parents[1]
"""The repository."""

_spec = importlib.util.find_spec("foreplan")
PACKAGE = Path(_spec.origin).parent if _spec and _spec.origin else ROOT
"""The package as Python finds it: the repository itself, or the installed wheel."""

ROOMS = {
    "policies": "may",
    "registry": "can",
    "planner": "shall",
    "executor": "does",
    "console": "shows",
}
"""From left to right, each with the verb it stands for; a room imports only rooms to its left."""


class Import(NamedTuple):
    """One import statement's target, absolute: `foreplan.policies.effect` or `networkx`."""

    module: str
    target: str
    line: int


def modules() -> dict[str, Path]:
    """Dotted name -> file, for every module of the package."""
    paths = [path for room in ROOMS for path in (PACKAGE / room).rglob("*.py")]
    return {_name(path): path for path in sorted([*paths, PACKAGE / "__init__.py", PACKAGE / "__main__.py"])}


def _name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(["foreplan", *(p for p in parts if p != "__init__")])


def room_of(module: str) -> str | None:
    """The room that a dotted name lies in; None for the package itself and for other libraries."""
    parts = module.split(".")
    return parts[1] if parts[0] == "foreplan" and len(parts) > 1 and parts[1] in ROOMS else None


@cache
def imports_of(module: str, path: Path) -> tuple[Import, ...]:
    """Every import in a module, also those inside functions and under `if TYPE_CHECKING`."""
    return tuple(_imports(module, path))


def _imports(module: str, path: Path) -> Iterator[Import]:
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            yield from (Import(module, alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (Import(module, target, node.lineno) for target in _targets(node, package))


def _targets(node: ast.ImportFrom, package: str) -> list[str]:
    """`from ..policies import retry` names a module where `from ..policies.retry import Retry` does."""
    above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
    base = ".".join([*above, *([node.module] if node.module else [])])
    return [base] if node.module else [f"{base}.{alias.name}" for alias in node.names]


def diagram() -> str:
    """The rooms, what each does, how large it is, and which rooms it really imports."""
    lines = ["```text", "  <-  ".join(ROOMS), "", *(_row(room) for room in ROOMS), "```"]
    return "\n".join(lines)


def _row(room: str) -> str:
    within = {name: path for name, path in modules().items() if room_of(name) == room}
    found = {room_of(i.target) for name, path in within.items() for i in imports_of(name, path)}
    others = [other for other in ROOMS if other in found and other != room]
    return f"{room:<9} {ROOMS[room]:<6} imports {', '.join(others) or 'no other room'}".rstrip()
