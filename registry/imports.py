"""What tools from elsewhere have in common, whether a server declares them or a document: findings, options, pins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .options import OPTIONS
from .schema import compile_schema

__all__ = ["ToolFinding", "checked_options", "unpinned"]


class ToolFinding(NamedTuple):
    """What was noticed about a declared tool. `loaded` says whether it can be called all the same."""

    tool: str
    """As the server or the document calls it."""
    code: str
    """Which they are, the page about the source tells: `docs/mcp.md`, `docs/openapi.md`."""
    message: str
    loaded: bool = False


def checked_options(options: dict[str, Any], name: str) -> dict[str, Any]:
    """The options as a tool keeps them. Raises `ToolRefused`: a slip of the operator's is no finding about the source."""
    anything = compile_schema({"type": "object"})
    judged = ("examples", "requires_approval", "result_from")  # by the schema of the tool, so with it
    return {
        key: said if key in judged else OPTIONS[key](said, name, anything) for key, said in options.items()
    }


def unpinned(name: str, pinned: Mapping[str, str]) -> ToolFinding:
    """Why a tool that is not as it was pinned is not loaded."""
    if name in pinned:
        message = "its declaration is not the one that was pinned; look at it, and pin it anew"
        return ToolFinding(name, "contract_changed", message)
    return ToolFinding(name, "not_pinned", "nobody has pinned this tool; look at it, and pin it")
