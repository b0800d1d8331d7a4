"""The collector of cycles: it rests while much is made that stays, and finds what is let go afterwards."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from foreplan import Engine, Plan, Policies, tool
from foreplan.policies.collector import all_stays, little_is_left


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


@pytest.fixture
def thresholds() -> Iterator[tuple[int, int, int]]:
    """Those of Python, also afterwards."""
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield (700, 10, 10)
    gc.set_threshold(*before)


def test_it_comes_seldom_until_the_last_run_is_over(thresholds: tuple[int, int, int]) -> None:
    """Runs beside each other count together, in whatever order they end."""
    first, second = little_is_left(), little_is_left()
    with first:
        second.__enter__()
        assert gc.get_threshold()[0] > 700
    assert gc.get_threshold()[0] > 700
    second.__exit__(None, None, None)
    assert gc.get_threshold() == thresholds


@pytest.mark.parametrize("young", [0, 1_000_000])
def test_what_the_host_has_set_is_kept(thresholds: tuple[int, int, int], young: int) -> None:
    """No collector at all, or one that comes more seldom still."""
    gc.set_threshold(young, 5, 5)
    with little_is_left():
        assert gc.get_threshold() == (young, 5, 5)
    assert gc.get_threshold() == (young, 5, 5)


def test_what_the_host_sets_meanwhile_stays(thresholds: tuple[int, int, int]) -> None:
    """It is not taken back at the end."""
    with little_is_left():
        gc.set_threshold(1234, 10, 10)
    assert gc.get_threshold() == (1234, 10, 10)


@pytest.mark.anyio
async def test_after_a_run_it_comes_as_before(thresholds: tuple[int, int, int]) -> None:
    """Also after one that fails."""
    seen = []

    @tool(effect="reads")
    async def look(fail: bool) -> int:
        """Looks how seldom it comes."""
        seen.append(gc.get_threshold()[0])
        return 1 // (not fail)

    for fail in (False, True):
        step = {"id": "s", "tool": "look", "args": {"fail": fail}}
        run = await Engine([look], policies=Policies(approve="never")).run(
            Plan.model_validate({"steps": [step]})
        )
        assert run.ok is not fail
        assert gc.get_threshold() == thresholds
    assert min(seen) > 700
