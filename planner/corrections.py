"""The line of a source as it should be: a suggestion put into the very text that a person or a model wrote.

    args: {path: {$: "pay.rows[0].amuont"}}      ->      args: {path: {$: "pay.rows[0].amount"}}

Only where the text stands on one line, as a scalar of its own that says just what the document says there.
"""

from __future__ import annotations

import json
import re

__all__ = ["corrected_line"]

_DOUBLE = re.compile(r'"(?:[^"\\]|\\.)*"')
_SINGLE = re.compile(r"'(?:[^']|'')*'")
_AFTER = re.compile(r"\s*(?:$|[,}\]]|:(?:\s|$)|\s#)")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


def corrected_line(line: str, column: int, old: str, new: str, *, is_json: bool, raw: bool = False) -> str:
    """The line with `new` in the place of the scalar `old` that starts in this column; empty where it is not there.

    With `raw`, `new` is written as it is: it is no text but a value.
    """
    start = column - 1
    end = _end(line, start, old)
    if end <= start or "\n" in new:
        return ""
    quoted = line[start : start + 1] in ("'", '"')
    scalar = new if raw else _scalar(new, is_json=is_json, quoted=quoted)
    return line[:start] + scalar + line[end:].removesuffix("\r")


def _end(line: str, start: int, old: str) -> int:
    """Where the scalar that starts here ends; -1 where this one does not, or does not end on this line."""
    sign = line[start : start + 1]
    if sign == '"':
        match = _DOUBLE.match(line, start)
        return match.end() if match and _decoded(match[0]) == old else -1
    if sign == "'":
        match = _SINGLE.match(line, start)
        return match.end() if match and match[0][1:-1].replace("''", "'") == old else -1
    end = start + len(old)
    return end if old and line.startswith(old, start) and _AFTER.match(line, end) else -1


def _decoded(text: str) -> str | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, str) else None


def _scalar(text: str, *, is_json: bool, quoted: bool) -> str:
    if is_json:
        return json.dumps(text, ensure_ascii=False)
    if not quoted and _PLAIN.fullmatch(text):
        return text
    if '"' not in text and "\\" not in text:
        return f'"{text}"'
    doubled = text.replace("'", "''")
    return f"'{doubled}'"
