"""An outcome nobody knows: the tool itself is asked, once and under the guard, before a person is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import date
from typing import Any

import anyio
import pytest
from support.virtual import BACKENDS, now, run_virtual

from foreplan import Engine, Found, MemoryJournal, Plan, Policies, Retry, Run, Tool, ToolContext, tool
from foreplan.executor.events import CallSettled, CallStarted, DecisionMade, Event, Outcome
from foreplan.executor.runtime import Answer
from foreplan.registry.vaults import MappingSecrets

FREE = Policies(approve="never", retry=Retry(attempts=2, base=0))
PLAN = Plan.model_validate(
    {
        "steps": [
            {"id": "pay", "tool": "pay", "args": {"amount": 3}},
            {"id": "told", "value": {"$": "pay.id"}},
        ]
    }
)


class Bank:
    """A service that may take the money and never answer. `says` is what it tells of a call."""

    def __init__(self, says: Callable[[Bank, str], Any]) -> None:
        self.paid: list[str] = []
        self.asked: list[str] = []
        self.hangs = 1
        self.says = says

    def tool(self, **options: Any) -> Tool:
        async def look_up(amount: float, context: ToolContext) -> Any:
            await anyio.lowlevel.checkpoint()
            self.asked.append(context.idempotency_key)
            return self.says(self, context.idempotency_key)

        @tool(timeout=5, reconcile=look_up, **options)
        async def pay(amount: float, context: ToolContext) -> dict[str, str]:
            """Pay."""
            self.paid.append(context.idempotency_key)
            if len(self.paid) <= self.hangs:
                await anyio.sleep_forever()
            return {"id": f"paid-{len(self.paid)}"}

        return pay


def run(backend: str, engine: Engine) -> Run:
    """The run of the plan in virtual time."""

    async def main() -> Run:
        return await engine.run(PLAN)

    return run_virtual(backend, main)


def made(journal: MemoryJournal, run: Run) -> list[tuple[str, str]]:
    """Decisions that the journal holds."""
    return [(d.choice, d.by) for d in journal.events(run.id) if isinstance(d, DecisionMade)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_took_place_is_taken_for_the_result(backend: str) -> None:
    """Found(value): the call is ok, dependants go on, nobody is asked, and the journal says who knew."""
    bank, journal = Bank(lambda bank, key: Found({"id": f"found-{key == bank.paid[0]}"})), MemoryJournal()
    ended = run(backend, Engine([bank.tool()], journal=journal, policies=FREE, clock=now))
    assert (ended.state, ended["told"]) == ("done", "found-True")
    assert made(journal, ended) == [("accept", "reconcile of pay")]
    assert len(bank.paid) == len(bank.asked) == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_did_not_take_place_is_done_again_under_the_same_key(backend: str) -> None:
    """False: the next attempt has the key of the first."""
    bank, journal = Bank(lambda bank, key: False), MemoryJournal()
    ended = run(backend, Engine([bank.tool()], journal=journal, policies=FREE, clock=now))
    assert (ended.state, ended["told"]) == ("done", "paid-2")
    assert made(journal, ended) == [("retry", "reconcile of pay")]
    assert len(set(bank.paid + bank.asked)) == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_attempts_stay_bounded(backend: str) -> None:
    """A call that never answers and never took place is a question for people once its attempts are used up."""
    bank, journal = Bank(lambda bank, key: False), MemoryJournal()
    bank.hangs = 99
    ended = run(backend, Engine([bank.tool()], journal=journal, policies=FREE, clock=now))
    assert (ended.state, len(ended.waiting), len(bank.paid), len(bank.asked)) == ("waiting", 1, 2, 2)


def raises(bank: Bank, key: str) -> Any:
    raise ConnectionError("down too")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "says",
    [lambda *_: None, lambda *_: True, lambda *_: {"id": "x"}, lambda *_: Found(3), raises],
    ids=["none", "true", "bare", "not-as-declared", "raises"],
)
def test_what_it_cannot_say_is_asked_of_people(backend: str, says: Any) -> None:
    """None, a failure, something else, a value that is no result of the tool: the question stays open, asked once."""
    bank, journal = Bank(says), MemoryJournal()
    ended = run(backend, Engine([bank.tool()], journal=journal, policies=FREE, clock=now))
    assert (ended.state, [d.about for d in ended.waiting], len(bank.asked)) == ("waiting", ["unknown"], 1)
    assert made(journal, ended) == []

    async def ada(asked: Any) -> Answer:
        return Answer("accept", "ada", {"id": "by-hand"})

    ended = run(backend, Engine([Bank(says).tool()], policies=FREE, clock=now, decide=ada))
    assert ended["told"] == "by-hand"


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_that_hangs_is_given_up_at_the_timeout_of_the_tool(backend: str) -> None:
    """The question is open five seconds after the call was given up."""

    async def hang(amount: float) -> Any:
        await anyio.sleep_forever()

    @tool(timeout=5, reconcile=hang)
    async def pay(amount: float) -> dict[str, str]:
        """Pay."""
        await anyio.sleep_forever()
        return {}

    async def main() -> tuple[Run, float]:
        start = now()
        return await Engine([pay], policies=FREE, clock=now).run(PLAN), now() - start

    ended, took = run_virtual(backend, main)
    assert (ended.state, took) == ("waiting", 10.0)


def cut(journal: MemoryJournal, run: str) -> MemoryJournal:
    """The journal of a process that was killed after the call had begun: nothing after CallStarted was written."""
    events: list[Event] = list(journal.events(run))
    last = next(i for i, event in enumerate(events) if isinstance(event, CallStarted))
    left = MemoryJournal()
    log = left.create(run)
    for event in events[: last + 1]:
        log.append(event)
    log.close()
    return left


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("took_place", "told", "choice"), [(True, "found", "accept"), (False, "paid-2", "retry")]
)
def test_after_a_kill_the_tool_is_asked_on_resume(
    backend: str, took_place: bool, told: str, choice: str
) -> None:
    """Cut after CallStarted: the resumed run asks with the key of the call that was cut, and goes on by itself."""
    bank = Bank(lambda bank, key: Found({"id": "found"}) if took_place else False)
    bank.hangs = 0
    journal = MemoryJournal()
    engine = Engine([bank.tool()], journal=journal, policies=FREE, clock=now)
    left = cut(journal, run(backend, engine).id)
    [line] = left.runs()

    async def main() -> Run:
        return await Engine([bank.tool()], journal=left, policies=FREE, clock=now).resume(line.run)

    ended = run_virtual(backend, main)
    assert (ended.state, ended["told"], made(left, ended)) == ("done", told, [(choice, "reconcile of pay")])
    assert len(set(bank.paid + bank.asked)) == 1
    settled = [s.outcome for s in left.events(ended.id) if isinstance(s, CallSettled)]
    assert settled[0] is Outcome.UNKNOWN


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_resume_asks_once_and_an_answer_of_a_person_goes_first(backend: str) -> None:
    """The service may know by now; who answers on resume is not asked over."""
    knows: list[Any] = [None, None, Found({"id": "now"})]
    bank = Bank(lambda bank, key: knows.pop(0))
    engine = Engine([bank.tool()], policies=FREE, clock=now)

    async def main() -> list[Run]:
        first = await engine.run(PLAN)
        second = await engine.resume(first.id)
        other = Engine([bank.tool()], journal=engine.journal, policies=FREE, clock=now)
        return [first, second, await other.resume(first.id)]

    runs = run_virtual(backend, main)
    assert [r.state for r in runs] == ["waiting", "waiting", "done"]
    assert (runs[2]["told"], len(bank.asked)) == ("now", 3)

    bank = Bank(lambda bank, key: None)
    engine = Engine([bank.tool()], policies=FREE, clock=now)

    async def answered() -> Run:
        first = await engine.run(PLAN)
        [asked] = first.waiting
        return await engine.resume(first.id, decisions={asked.id: Answer("accept", "ada", {"id": "hers"})})

    assert run_virtual(backend, answered)["told"] == "hers"
    assert len(bank.asked) == 1


@pytest.mark.anyio
async def test_it_runs_in_a_thread_with_its_secrets_and_other_types_than_json() -> None:
    """A sync `reconcile` gets secrets that it names, and the arguments as values of the tool's own types."""
    seen: list[Any] = []

    def look_up(day: date, token: str) -> Any:
        seen.append((type(day).__name__, token, threading.current_thread() is threading.main_thread()))
        return Found(day)

    @tool(reconcile=look_up, secret_refs={"token": "BANK"})
    def pay(day: date, token: str) -> date:
        """Pay."""
        raise ConnectionResetError("cut off")

    plan = Plan.model_validate({"steps": [{"id": "p", "tool": "pay", "args": {"day": "2024-05-01"}}]})
    vault = MappingSecrets({"BANK": "long-enough-secret"})
    ended = await Engine([pay], policies=FREE, secrets=vault).run(plan)
    assert (ended.state, ended["p"]) == ("done", "2024-05-01")
    assert seen == [("date", "long-enough-secret", False)]
