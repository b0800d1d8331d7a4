"""The tool that a model means by a name with something around it.

    functions.look   tools:look   multi_tool_use.look   look<|channel|>commentary   `look`   look().   ->  look

Models are known to write names this way. A name is freed only where exactly one tool is meant; a tool's own name is
never another's, and nothing is guessed: `Look` or `lok` is for the finding with the nearest names.
"""

from __future__ import annotations

import re
from collections.abc import Collection

__all__ = ["resolve_name"]

_LONGEST = 400
_PREFIX = re.compile(
    r"(?:functions?|tools?|default_api|multi_tool_use|assistant|to=)(?:[.:/]|(?<==)|\s+(?=to=))"
)
_SUFFIX = re.compile(r"<[|/\w].*|```.*|\(\s*\)\W*$", re.DOTALL)
_AROUND = " \t\r\n`'\"*.,;:!?()[]{}<>|\u200b\ufeff“”‘’"


def resolve_name(name: str, names: Collection[str]) -> str | None:
    """The one of the names that is meant; None where none is, or more than one."""
    if name in names:
        return name
    if len(name) > _LONGEST:
        return None
    fits = {spelt for spelt in _spellings(name) if spelt in names}
    return fits.pop() if len(fits) == 1 else None


def _spellings(name: str) -> set[str]:
    """The name with what is around it taken away step by step."""
    found = {name.strip(_AROUND), _SUFFIX.sub("", name).strip(_AROUND)}
    for spelt in [*found]:
        while match := _PREFIX.match(spelt):
            spelt = spelt[match.end() :].strip(_AROUND)
            found.add(spelt)
    return found
