"""The collector of cycles: it rests while much is made that stays, and finds what is let go afterwards."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from foreplan.policies.collector import all_stays


class Ring:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Nothing young is there at the start, and the collector works again at the end."""
    gc.collect()
    yield
    gc.enable()


def is_old(thing: object) -> bool:
    return any(one is thing for one in gc.get_objects(generation=2))


def made(count: int) -> list[Ring]:
    with all_stays():
        return [Ring() for _ in range(count)]


def test_it_rests_and_works_again() -> None:
    """It rests inside, also after what lay inside of that, and works again where it worked before."""
    with all_stays():
        with all_stays():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def fail() -> None:
    with all_stays():
        raise KeyError


def test_it_works_again_after_an_error() -> None:
    """However it ends, the collector works again."""
    with pytest.raises(KeyError):
        fail()
    assert gc.isenabled()


def test_who_has_turned_it_off_keeps_it_off() -> None:
    """What the host has switched off stays off."""
    gc.disable()
    with all_stays():
        pass
    assert not gc.isenabled()


def test_a_lot_is_old_at_once() -> None:
    """A lot that was made need not be looked through when the collector works again; a little is young as always."""
    lot, little = made(60_000), made(100)
    assert is_old(lot[0])
    assert not is_old(little[0])


def test_what_is_let_go_is_found() -> None:
    """What was made old and then let go is garbage like any other."""
    lot = made(60_000)
    last = weakref.ref(lot[-1])
    lot.clear()
    gc.collect()
    assert last() is None


def test_a_second_lot_is_looked_through() -> None:
    """Between two rounds over all that is old only one lot is made so: whoever makes one after the other gets no heap of garbage."""
    made(60_000)
    assert not is_old(made(60_000)[0])
    gc.collect()
    assert is_old(made(60_000)[0])
