"""What was done to a journal, and who sees it: the table on the page about audits. `tests/test_tampering.py` does all of it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["CASES", "Shown", "table"]


class Shown(NamedTuple):
    """Whether a change shows: without anything, with a position kept elsewhere, with the key, with both."""

    plain: bool
    position: bool
    key: bool
    both: bool


ALWAYS = Shown(True, True, True, True)
KEY_OR_POSITION = Shown(False, True, True, True)
KEY = Shown(False, False, True, True)
POSITION = Shown(False, True, False, True)

CASES: dict[str, Shown] = {
    "an event is edited": ALWAYS,
    "an event is edited, and every hash computed anew": KEY_OR_POSITION,
    "an event is deleted, and every hash computed anew": KEY_OR_POSITION,
    "an event is inserted, and every hash computed anew": KEY_OR_POSITION,
    "two events change places, and every hash is computed anew": KEY_OR_POSITION,
    "the tail of a closed run is cut, and every hash computed anew": KEY_OR_POSITION,
    "the tail of a run that is not closed is cut, and every hash computed anew": KEY_OR_POSITION,
    "a run that is not closed is put back to what an older copy of it holds": POSITION,
    "the whole file is put back to an older copy": POSITION,
    "a run is deleted": ALWAYS,
    "a run is deleted, and every hash computed anew": KEY_OR_POSITION,
    "a run is put in from another journal with the same key, and every hash computed anew": KEY,
    "an event after the position is edited, and every hash computed anew": KEY,
    "the line of a run in the list of runs is edited": ALWAYS,
    "an approval is made unspent": ALWAYS,
    "a key stands twice in an event, and every hash is computed anew": ALWAYS,
    "the seals are taken away": Shown(False, False, True, True),
    "another value is put beside the record for a personal one": ALWAYS,
    "a personal value beside the record is deleted, but not by `forget`": ALWAYS,
    "a symbolic link stands in place of the file": ALWAYS,
}
"""What is done -> in which of the four ways it shows."""


def table() -> str:
    """The table as Markdown."""
    rows = [
        f"| {what} | {' | '.join('shows' if yes else 'does not' for yes in shown)} |"
        for what, shown in CASES.items()
    ]
    heads = ("What is done to the file", "no key", "a position, no key", "the key", "the key and a position")
    return "\n".join([f"| {' | '.join(heads)} |", "|---|---|---|---|---|", *rows])
