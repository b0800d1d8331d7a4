"""Arguments become values of the tool's own types before an attempt begins; what refuses them refuses the call."""

from collections.abc import Callable
from datetime import date
from typing import Annotated, Any

import anyio
import pytest
from pydantic import AfterValidator, BaseModel
from support.virtual import BACKENDS, now, run_virtual

from foreplan import Engine, MemoryJournal, Plan, Policies, Retry, Run, Tool, tool
from foreplan.executor.events import CallAdmitted, CallSettled, CallStarted, Event, Outcome
from foreplan.executor.hands.hands import Result
from foreplan.executor.mind.state import Call

FREE = Policies(approve="never", retry=Retry(attempts=3))


def _even(number: int) -> int:
    if number % 2:
        raise ValueError("the number must be even")
    return number


def _raising(error: BaseException) -> Callable[[int], int]:
    def check(number: int) -> int:
        raise error

    return check


def pays(check: Callable[[int], int], *, in_thread: bool = False) -> tuple[Tool, list[Any]]:
    """A tool that acts, whose parameter is checked by this function; and what it was called with."""
    seen: list[Any] = []

    class Amount(BaseModel):
        cents: Annotated[int, AfterValidator(check)]

    if in_thread:

        @tool(name="pay", timeout=None)
        def pay_in_thread(amount: Amount) -> int:
            """Pays."""
            seen.append(amount)
            return amount.cents

        return pay_in_thread, seen

    @tool(name="pay")
    async def pay(amount: Amount) -> int:
        """Pays."""
        seen.append(amount)
        await anyio.lowlevel.checkpoint()
        return amount.cents

    return pay, seen


def ran(backend: str, pay: Tool, cents: int, **options: Any) -> tuple[Run, list[Event]]:
    plan = Plan.model_validate(
        {"steps": [{"id": "paid", "tool": "pay", "args": {"amount": {"cents": cents}}}]}
    )
    journal = MemoryJournal()

    async def main() -> Run:
        return await Engine([pay], policies=FREE, journal=journal, clock=now, **options).run(plan)

    run = run_virtual(backend, main)
    return run, list(journal.events(run.id))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("in_thread", [False, True])
def test_a_refused_conversion_begins_nothing(backend: str, in_thread: bool) -> None:
    """`bad_args`, `conversion`: no CallStarted, the tool is not entered, nothing happened, no second attempt."""
    pay, seen = pays(_even, in_thread=in_thread)
    run, events = ran(backend, pay, 3)
    [(_, failure)] = run.failures
    assert (failure.kind, failure.code, failure.happened) == ("bad_args", "conversion", "no")
    assert "must be even" in failure.message
    assert not [e for e in events if isinstance(e, CallStarted)]
    assert [e.outcome for e in events if isinstance(e, CallSettled)] == [Outcome.FAILED]
    assert seen == []


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("error", [KeyError("secret"), ZeroDivisionError(), SystemExit(3), RecursionError()])
def test_whatever_a_validator_raises_is_a_refusal(backend: str, error: BaseException) -> None:
    """An exception that pydantic does not take for a refusal is one all the same, and its text stays out."""
    pay, seen = pays(_raising(error))
    run, events = ran(backend, pay, 2)
    [(_, failure)] = run.failures
    assert (failure.kind, failure.code, failure.happened) == ("bad_args", "conversion", "no")
    assert type(error).__name__ in failure.message
    assert "secret" not in failure.message
    assert not [e for e in events if isinstance(e, CallStarted)]
    assert seen == []


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("in_thread", [False, True])
def test_what_converts_goes_in_as_the_tools_own_types(backend: str, in_thread: bool) -> None:
    """And the journal holds the plain JSON that was validated."""
    pay, seen = pays(_even, in_thread=in_thread)
    run, events = ran(backend, pay, 4)
    assert run.ok
    assert [type(amount).__name__ for amount in seen] == ["Amount"]
    assert [e.args for e in events if isinstance(e, CallAdmitted)] == [{"amount": {"cents": 4}}]


@pytest.mark.parametrize("backend", BACKENDS)
def test_hands_of_ones_own_get_plain_json(backend: str) -> None:
    """The seam stays one method: such hands are asked for the call, and convert what they like."""
    calls: list[Call] = []

    class Recording:
        async def perform(self, call: Call) -> Result:
            calls.append(call)
            return Result(Outcome.OK, 1)

    pay, seen = pays(_even)
    run, _ = ran(backend, pay, 3, hands=Recording())
    assert run.ok
    assert [call.args for call in calls] == [{"amount": {"cents": 3}}]
    assert seen == []


def test_dates_and_models_are_made_in_strict_mode() -> None:
    """`"true"` makes no bool and `"3"` no int, whatever the schema of a stranger's field says."""

    class Loose(BaseModel):
        day: date
        sure: bool

        @classmethod
        def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> dict[str, Any]:
            return {"type": "object"}

    @tool(effect="reads")
    async def take(it: Loose) -> str:
        """Takes it."""
        await anyio.lowlevel.checkpoint()
        return str(it)

    plan = Plan.model_validate(
        {
            "steps": [
                {
                    "id": "a",
                    "tool": "take",
                    "args": {"it": {"$literal": {"day": "2024-02-29", "sure": "true"}}},
                }
            ]
        }
    )
    [(_, failure)] = Engine([take]).run_blocking(plan).failures
    assert (failure.kind, failure.code) == ("bad_args", "conversion")
