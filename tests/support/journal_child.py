"""A process that drives a run: `journal_child.py MODE PATH RUN [COUNT]`. It says on standard output how far it is.

`append` acknowledges events for ever, `line` one for each line on standard input, `count` so many and then ends.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import count as endless
from pathlib import Path

import anyio

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.events import settled

from foreplan.executor.journal.journal import Log
from foreplan.executor.journal.sqlite_journal import SqliteJournal
from foreplan.policies.errors import ForeplanError


def numbers(mode: str, count: int) -> Iterator[int]:
    """The events to append; in the mode `line` each one when it is asked for."""
    if mode == "append":
        yield from endless(1)
    elif mode == "count":
        yield from range(1, count + 1)
    else:
        yield from (seq for seq, _ in enumerate(sys.stdin, 1))


async def drive(log: Log, mode: str, count: int) -> None:
    """Append, wait until it is durable, say so."""
    for seq in numbers(mode, count):
        log.append(settled(seq, {"padding": "x" * (seq % 7 * 100)}))
        await log.durable()
        print(seq, flush=True)


def main(mode: str, path: str, run: str, count: str = "0") -> None:
    journal = SqliteJournal(path)
    try:
        log = journal.create(run)
        print("ready", flush=True)
        anyio.run(drive, log, mode, int(count))
        journal.close()
    except ForeplanError as error:
        print(f"{type(error).__name__}: {error}", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
