"""Run a page of the documentation from top to bottom, in the current folder: `python pages.py PAGE`.

Every ```python block runs, in one namespace for the page. What a reader would save or type is marked by a comment
on the line before the block:

    <!-- file: plan.yaml -->     the block, in any language, is written to that file
    <!-- run -->                 the commands of a ```console or ```sh block are run; each must exit with 0,
    <!-- run: exit 3 -->         or with 3

In a ```console block a command stands after `$ `; the other lines are what it shows, and each of them must be
found in what it really shows, in that order (spaces at the ends aside). A line `...` stands for anything.
"""

from __future__ import annotations

import linecache
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["Block", "blocks", "run_page"]

FENCE = re.compile(
    r"^(?:<!-- (?P<mark>(?:file|run)\b[^\n]*?) -->\n)?```(?P<language>\w*)[^\n]*\n(?P<body>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


class Block(NamedTuple):
    """A fenced block: its language, its text, the first line of it (from 1), and what the comment before it says."""

    language: str
    body: str
    line: int
    mark: str = ""


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start("body")) + 1
        yield Block(match["language"], match["body"], line, match["mark"] or "")


def run_page(path: Path) -> None:
    """Run everything on the page that can run; raises at the first block that does not do what the page says."""
    module = types.ModuleType("page")
    sys.modules["page"] = module
    sys.path.insert(0, ".")
    for block in blocks(path.read_text(encoding="utf-8")):
        if block.mark.startswith("file:"):
            Path(block.mark.removeprefix("file:").strip()).write_text(block.body, encoding="utf-8")
        elif block.language == "python":
            _execute(block, path, module)
        elif block.mark:
            _type_in(block, path)


def _execute(block: Block, path: Path, module: types.ModuleType) -> None:
    """Run a block so that a traceback, and `inspect`, point into the page."""
    source = "\n" * (block.line - 1) + block.body
    name = f"{path}:{block.line}"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    exec(compile(source, name, "exec"), module.__dict__)


def _type_in(block: Block, path: Path) -> None:
    """Run the commands of a block and hold what they show against what the page shows."""
    expected = int(block.mark.partition("exit")[2] or 0)
    for command, shown in _commands(block):
        ran = subprocess.run(command, shell=True, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        said = ran.stdout + ran.stderr
        if ran.returncode != expected:
            raise AssertionError(f"{path}:{block.line}: {command!r} exited with {ran.returncode}:\n{said}")
        if missing := _missing(shown, said):
            raise AssertionError(f"{path}:{block.line}: {command!r} does not show {missing!r}, but:\n{said}")


def _commands(block: Block) -> Iterator[tuple[str, list[str]]]:
    """Each command with the lines that the page shows below it."""
    if block.language != "console":
        yield block.body, []
        return
    for part in re.split(r"^\$ ", block.body, flags=re.MULTILINE)[1:]:
        command, *shown = part.splitlines()
        yield command, [line for line in shown if line.strip()]


def _missing(shown: list[str], said: str) -> str | None:
    """The first line of the page that the command did not show, in its turn."""
    lines = iter(line.strip() for line in said.splitlines())
    return next((line for line in shown if line.strip() != "..." and line.strip() not in lines), None)


if __name__ == "__main__":
    run_page(Path(sys.argv[1]))
