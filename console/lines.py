"""Pieces of what is shown: every text passes `safe_text` here and becomes a rich `Text`, never markup.

line(x)     one line: white space that breaks lines or moves columns is shown as an escape
block(x)    many lines, as a tool or a file wrote them
columns()   aligned cells without a box
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, TypeAlias

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from ..policies.text import safe_text

__all__ = [
    "NAME",
    "VALUE",
    "Cell",
    "Trimmed",
    "block",
    "clipped",
    "columns",
    "heading",
    "indented",
    "joined",
    "line",
    "padded",
    "plain",
    "seconds",
    "section",
    "short_digest",
    "stacked",
    "value_text",
]

Cell: TypeAlias = "Text | str"

NAME = 40
"""Characters of an id or a tool's name that are shown."""
VALUE = 600
"""Characters of one value that are shown; what is left out is counted."""

_BREAKS = str.maketrans({"\n": "\\n", "\t": "\\t"})


def plain(text: object, limit: int | None = None) -> str:
    """The text on one line, safe; with `limit`, what is left out is an ellipsis."""
    shown = safe_text(text, limit).translate(_BREAKS)
    return shown if limit is None or len(shown) <= limit else shown[: limit - 1] + "…"


def line(text: object, style: str = "", limit: int | None = None) -> Text:
    """One line of text for the screen."""
    return Text(plain(text, limit), style)


def block(text: object, style: str = "", limit: int | None = None) -> Text:
    """Text that may have many lines; tabs become spaces."""
    return Text(safe_text(text, limit).replace("\t", "    "), style)


def joined(parts: Iterable[Cell]) -> Text:
    """Parts of one line with something calm between them; strings must be safe already."""
    shown = Text()
    for number, part in enumerate(parts):
        shown.append("  ·  " if number else "", "dim")
        shown.append_text(part if isinstance(part, Text) else Text(part))
    return shown


def heading(text: str, style: str = "bold") -> Text:
    """The title of a part; one of ours."""
    return Text(text, style)


def section(title: str, part: RenderableType | None, style: str = "bold") -> list[RenderableType]:
    """A part under its heading; nothing where there is none."""
    return [] if part is None else [Text(), heading(title, style), indented(part)]


def stacked(*parts: RenderableType | None) -> Group:
    """One part under the other; None is left out."""
    return Group(*[part for part in parts if part is not None])


def indented(part: RenderableType, by: int = 2) -> Padding:
    """The part, moved to the right."""
    return Padding(part, (0, 0, 0, by), expand=False)


def columns(rows: Iterable[Iterable[RenderableType]], *, gap: int = 2) -> Table:
    """Aligned cells; the last column takes what is left of the width, on more lines."""
    listed = [list(row) for row in rows]
    width = max(map(len, listed), default=0)
    table = Table.grid(padding=(0, gap, 0, 0))
    for index in range(width):
        table.add_column(overflow="fold", no_wrap=index < width - 1)
    for row in listed:
        table.add_row(*row)
    return table


def value_text(value: Any, limit: int | None = VALUE) -> str:
    """A JSON value on one line; how much is left out is said."""
    return clipped(json.dumps(value, ensure_ascii=False), limit)


def clipped(text: str, limit: int | None) -> str:
    """A safe line of at most `limit` characters, and the count of those that are not shown."""
    if limit is None or len(text) <= limit:
        return plain(text)
    return f"{plain(text[:limit])}… ({len(text) - limit:,} more characters; --full shows them)"


def seconds(duration: float) -> str:
    """A time as people say it: `0.04 s`, `1.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`."""
    if duration < 0.995:
        return f"{duration:.2f} s"
    if duration < 9.95:
        return f"{duration:.1f} s"
    whole = round(duration)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return _two(whole, 60, "min", "s")
    if whole < 86_400:
        return _two(whole // 60, 60, "h", "min")
    return _two(whole // 3600, 24, "d", "h")


def _two(whole: int, size: int, large: str, small: str) -> str:
    rest = f" {whole % size} {small}" if whole % size else ""
    return f"{whole // size} {large}{rest}"


def short_digest(digest: str) -> str:
    """The first digits of a digest, enough to compare by eye."""
    return plain(digest.removeprefix("sha256:")[:12])


def padded(rows: Iterable[Iterable[Text]], *, gap: int = 2, most: int = 28) -> list[Text]:
    """Lines whose cells stand under each other, where other lines come between; a cell wider than `most` runs over."""
    listed = [list(row) for row in rows]
    widths = [0] * max(map(len, listed), default=0)
    for row in listed:
        for index, cell in enumerate(row):
            widths[index] = max(widths[index], min(cell.cell_len, most))
    return [_padded(row, widths, gap) for row in listed]


def _padded(row: list[Text], widths: list[int], gap: int) -> Text:
    shown = Text()
    for cell, width in zip(row, widths, strict=False):
        shown.append_text(cell).append(" " * (max(0, width - cell.cell_len) + gap))
    shown.rstrip()
    return shown


class Trimmed:
    """A part without the spaces that aligning leaves at the ends of lines.

    What is not safe yet (a text that was put together without `line` or `block`) becomes so here, at the last door.
    """

    def __init__(self, part: RenderableType) -> None:
        self.part = part

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segments in console.render_lines(self.part, options, pad=False):
            while segments and not segments[-1].text.strip():
                segments.pop()
            if segments:
                last = segments.pop()
                segments.append(Segment(last.text.rstrip(), last.style))
            yield from (Segment(safe_text(text), style) for text, style, _ in segments)
            yield Segment.line()
