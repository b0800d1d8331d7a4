"""Names of tools and arguments as they can stand in a program."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from ..registry.registry import Registry
from ..registry.tools import Tool

__all__ = ["arguments_of", "names_of"]

Json: TypeAlias = Any


def names_of(registry: Registry) -> dict[str, str]:
    """Tool -> its name in a program; no two are alike."""
    names: dict[str, str] = {}
    for tool in sorted(registry, key=lambda tool: tool.name):
        names[tool.name] = _unlike(_identifier(tool.name), names.values())
    return names


def arguments_of(tool: Tool) -> Iterator[tuple[str, str, Json]]:
    """The name of each argument in a program, its name, and its schema; what is required comes first."""
    document = tool.input.document if isinstance(tool.input.document, Mapping) else {}
    properties = document.get("properties")
    if not isinstance(properties, Mapping):
        return
    required = document.get("required", ())
    taken: list[str] = []
    for name in sorted(properties, key=lambda name: name not in required):
        taken.append(_unlike(_identifier(name), taken))
        yield taken[-1], name, properties[name]


def _identifier(name: str) -> str:
    made = re.sub(r"\W", "_", name, flags=re.ASCII)
    made = f"_{made}" if made[:1].isdigit() else made
    return f"{made}_" if keyword.iskeyword(made) or not made else made


def _unlike(name: str, taken: Any) -> str:
    while name in taken:
        name += "_"
    return name
