"""The collector of cycles rests while much is made that stays: it would look through all of it again and again.

That took 40 % of the time that it takes to read 10,000 steps back. Once it may work again, its first round would go over
everything that was made meanwhile, which takes another 15 %; where that is a lot, it is put with what is old already.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["all_stays"]

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
