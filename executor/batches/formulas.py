"""Text that a spreadsheet would run as a formula, made harmless and back.

    =1+1        '=1+1        begins with = + - @, in ASCII or full width, also behind blanks or quotes
    \\tx         '\\tx         begins with a tab or a line end
    'x          ''x          begins with the sign that makes it harmless, so that nothing is lost on the way back
    -5          -5           a number is a number

Source: OWASP, "CSV Injection".
"""

from __future__ import annotations

import re

__all__ = ["harmless", "original"]

_RISKY = re.compile("[\\s\"`\u2018\u2019\u201c\u201d]*[=+\\-@\uff1d\uff0b\uff0d\uff20\u2212]|[\t\r\n]|'")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


def harmless(text: str) -> str:
    """The text as it may stand in a cell."""
    return "'" + text if _is_risky(text) else text


def original(cell: str) -> str:
    """The text that `harmless` made this cell of."""
    return cell[1:] if cell.startswith("'") and _is_risky(cell[1:]) else cell


def _is_risky(text: str) -> bool:
    return _RISKY.match(text) is not None and _NUMBER.fullmatch(text) is None
