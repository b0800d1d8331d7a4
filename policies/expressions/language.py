"""The generated parts of the language reference (`docs/language.md`), straight from the tables of the code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .errors import EvaluationError, ExpressionError
from .functions import FUNCTIONS, METHODS, Function

__all__ = ["code_table", "language_table"]


def language_table() -> str:
    """Markdown: every function and method with its signature, what it does, and an example with its result."""
    parts = ["### Functions", "", *_table(FUNCTIONS.values()), "", "### Methods", ""]
    parts += ["A method is always a call: `order.items` without brackets is the key `items`.", ""]
    return "\n".join([*parts, *_table(METHODS.values()), ""])


def code_table() -> str:
    """Markdown: every code of an error, and what it means."""
    parts = ["### Refused before anything runs (`ExpressionError`)", "", *_codes(ExpressionError.CODES), ""]
    parts += ["### No value for these data (`EvaluationError`)", "", *_codes(EvaluationError.CODES), ""]
    return "\n".join(parts)


def _table(functions: Iterable[Function]) -> list[str]:
    rows = ["| call | what it gives | example | result |", "|---|---|---|---|"]
    rows += [
        f"| {_code(f.signature)} | {f.doc} | {_code(f.example)} | {_code(f.result)} |" for f in functions
    ]
    return rows


def _codes(codes: Mapping[str, str]) -> list[str]:
    return [
        "| code | what is wrong |",
        "|---|---|",
        *(f"| `{code}` | {why} |" for code, why in codes.items()),
    ]


def _code(text: str) -> str:
    return "`" + text.replace("|", "\\|") + "`"
