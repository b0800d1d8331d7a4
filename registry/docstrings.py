"""What a docstring says about a function and its parameters, in the three common styles.

Google   Args:                  NumPy   Parameters       Sphinx   :param path: where
             path (str): where           ----------
                                         path : str
                                             where
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator

__all__ = ["read_docstring"]

_GOOGLE = re.compile(r"(?:Args|Arguments|Parameters|Params):")
_GOOGLE_ENTRY = re.compile(r"\*{0,2}(\w+)[ ]?(?:\([^)]*\))?:[ ]?(.*)")
_NUMPY_ENTRY = re.compile(r"((?:\*{0,2}\w+)(?:, *\*{0,2}\w+)*)[ ]*(?::.*)?")
_SPHINX = re.compile(
    r":(?:param|parameter|arg|argument|key|keyword)[ ]+(?:[^:]*[ ])?\*{0,2}(\w+)[ ]*:[ ]?(.*)"
)
_SECTION = re.compile(r"(?:Args|Arguments|Parameters|Params|Returns?|Yields?|Raises|Examples?|Notes?):?")


def read_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """The first paragraph as one line, and what is said about each parameter, by name."""
    lines = inspect.cleandoc(text or "").splitlines()
    said = {**_google(lines), **_numpy(lines), **_sphinx(lines)}
    return _first_paragraph(lines), {name: words for name, words in said.items() if words}


def _first_paragraph(lines: list[str]) -> str:
    found: list[str] = []
    for line in lines:
        if not line.strip() or line.startswith(":") or _SECTION.fullmatch(line.strip()):
            break
        found.append(line.strip())
    return " ".join(found)


def _google(lines: list[str]) -> dict[str, str]:
    start = next((i for i, line in enumerate(lines) if _GOOGLE.fullmatch(line.strip())), None)
    if start is None:
        return {}
    block = list(_indented(lines[start + 1 :], beyond=_indent(lines[start])))
    depth = min((_indent(line) for line in block if line.strip()), default=0)
    return _entries(block, depth, _GOOGLE_ENTRY)


def _numpy(lines: list[str]) -> dict[str, str]:
    heads = (i for i, line in enumerate(lines[:-1]) if line.strip() in ("Parameters", "Other Parameters"))
    start = next((i for i in heads if re.fullmatch(r"-{3,}", lines[i + 1].strip())), None)
    if start is None:
        return {}
    block = []
    for line, following in zip(lines[start + 2 :], [*lines[start + 3 :], ""], strict=False):
        if re.fullmatch(r"-{3,}", following.strip()):
            break
        block.append(line)
    said: dict[str, str] = {}
    for names, words in _entries(block, _indent(lines[start]), _NUMPY_ENTRY).items():
        said.update(dict.fromkeys((name.strip("* ") for name in names.split(",")), words))
    return said


def _sphinx(lines: list[str]) -> dict[str, str]:
    block: list[str] = []
    for line in lines:
        ours = _SPHINX.fullmatch(line.strip()) is not None
        goes_on = (
            bool(block) and line.strip() != "" and not line.strip().startswith(":") and _indent(line) > 0
        )
        if ours or goes_on:
            block.append(line)
        elif line.strip().startswith(":"):
            block.append("")
    return _entries(block, 0, _SPHINX)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _indented(lines: Iterable[str], *, beyond: int) -> Iterator[str]:
    for line in lines:
        if line.strip() and _indent(line) <= beyond:
            return
        yield line


def _entries(lines: list[str], depth: int, head: re.Pattern[str]) -> dict[str, str]:
    """Heads stand at `depth`; what stands deeper belongs to the head above it."""
    said: dict[str, list[str]] = {}
    current: list[str] = []
    for line in lines:
        match = head.fullmatch(line.strip()) if _indent(line) <= depth else None
        if match:
            current = said.setdefault(match[1], [])
            current += [match[2]] if head.groups > 1 else []
        elif line.strip() and _indent(line) > depth:
            current.append(line.strip())
        elif line.strip():
            current = []
    return {name: " ".join(words).strip() for name, words in said.items()}
