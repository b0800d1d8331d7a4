"""Where the rows of a batch came from, as its opening remembers it, so that a resume finds them again.

What a program handed over (a list, an iterator) cannot be found again; nor can a pipe, or a query with parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from ...registry.values import Json
from .examining import Examined
from .sources import FileRows, Source

__all__ = ["SourceAgain", "describe", "source_again"]


class SourceAgain(NamedTuple):
    """Rows as a batch was opened with them: the source, which column an input is, and what all rows share."""

    rows: Source
    columns: dict[str, str]
    constants: dict[str, Json]


def describe(examined: Examined, *, personal: bool = False) -> dict[str, Any]:
    """The source of a batch for its opening. `personal`: inputs are not to be told, so the constants are left out."""
    source, fitting = examined.source, examined.fitting
    said: dict[str, Any] = {"name": source.name, "files": [str(path) for path in source.files]}
    said |= {"digest": examined.digest, "rows": examined.total}
    if isinstance(source, FileRows) and source.path.is_file() and not _is_pipe(source.path):
        said["read_as"] = {
            "format": source.format,
            "encoding": source.encoding,
            "delimiter": source.delimiter if source.reads == "text" else None,
        }
    query = getattr(source, "query", None)  # of `SqliteRows`, which loads SQLite
    if query is not None and not getattr(source, "parameters", None):
        said["query"] = query
    if fitting.said:
        said["columns"] = fitting.said
    if fitting.constants:
        said |= {"constants_untold": True} if personal else {"constants": fitting.constants}
    return said


def source_again(
    said: Mapping[str, Any] | None, path: str | PathLike[str] | None = None
) -> SourceAgain | None:
    """The source that an opening names, or the same at another `path`; None where it cannot be found again."""
    if said is None or said.get("constants_untold"):
        return None
    files = said["files"]
    at = Path(path) if path is not None else Path(files[0]) if files else None
    if at is None or (path is None and not at.is_file()):
        return None
    if "query" in said:
        # here, for it loads SQLite, which an engine without a journal in a file does not need
        from .sqlite_rows import SqliteRows

        rows: Source = SqliteRows(at, said["query"])
    elif "read_as" in said:
        rows = FileRows(at, **said["read_as"])
    else:
        return None
    return SourceAgain(rows, dict(said.get("columns", {})), dict(said.get("constants", {})))


def _is_pipe(path: Path) -> bool:
    """Whether a path names what a process was given, and means something else in the next."""
    return path.parts[1:2] in (("dev",), ("proc",))
