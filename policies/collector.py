"""The collector of cycles rests while much is made that stays: it would look through all of it again and again.

That took 40 % of the time that it takes to read 10,000 steps back. Once it may work again, its first round would go over
everything that was made meanwhile, which takes another 15 %; where that is a lot, it is put with what is old already.

While runs are driven it comes seldom: what is under way goes by itself when it is done, and a round for each 700 objects,
as Python has it, took a tenth of the time of a batch.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["all_stays", "little_is_left"]

_MANY = 50_000
"""Objects from which on it is worth while: a round over so many takes about 10 ms."""
_HARDLY_ANY = 1_000
"""An interpreter may have frozen some hundred objects of its own when it starts."""


@contextmanager
def all_stays() -> Iterator[None]:
    """What is made here stays, so the collector rests; afterwards it works as it did before."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            _grow_old()
            gc.enable()


_SELDOM = 10_000
"""Objects more than went from one round over the young to the next; cycles of so many come to a few megabytes."""


class _Runs:
    """How many are driven in this process now, and what was set before the first of them."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0
        self.before: tuple[int, int, int] | None = None


_runs = _Runs()


@contextmanager
def little_is_left() -> Iterator[None]:
    """What is made here goes by itself, but for a little, so the collector comes seldom; also in other threads.

    Where the host has it come more seldom still, or not at all, that stays, and so does what the host sets meanwhile.
    """
    with _runs.lock:
        _runs.count += 1
        young, *older = gc.get_threshold()
        if _runs.count == 1 and 0 < young < _SELDOM:
            _runs.before = gc.get_threshold()
            gc.set_threshold(_SELDOM, *older)
    try:
        yield
    finally:
        with _runs.lock:
            _runs.count -= 1
            if _runs.count == 0 and _runs.before is not None:
                before, _runs.before = _runs.before, None
                if gc.get_threshold() == (_SELDOM, *before[1:]):
                    gc.set_threshold(*before)


_rounds = -1


def _grow_old() -> None:
    """Put what is young with the old, where that is a lot: once between two rounds over the old, so that garbage is found.

    Freezing moves everything aside without a look at it, and thawing puts it back with the old. What a host has frozen,
    before it forks, stays frozen.
    """
    global _rounds
    if gc.get_count()[0] < _MANY or gc.get_freeze_count() > _HARDLY_ANY:
        return
    rounds = gc.get_stats()[2]["collections"]
    if rounds != _rounds:
        _rounds = rounds
        gc.freeze()
        gc.unfreeze()
