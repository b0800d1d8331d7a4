"""The host's last word: nothing but True lets an attempt begin, and a hook that fails denies."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import pytest
from support.virtual import BACKENDS, run_virtual

from foreplan import Engine, Kind, Level, MemoryJournal, Plan, Policies, Principal, Retry, Run, as_tool, tool
from foreplan.executor.events import CallStarted
from foreplan.executor.hands.authorize import Attempt
from foreplan.executor.mind.mind import replay
from foreplan.executor.mind.state import State
from foreplan.policies.errors import NotApproved
from foreplan.registry.registry import Registry

RULES = Policies(approve="never", hook_timeout=10, retry=Retry(attempts=3, base=0))
calls: list[Any] = []


@tool(effect="writes", level="medium", tags=["money"], permissions="pay:out")
async def pay(to: str, more: dict[str, int] | None = None) -> str:
    """Pay someone."""
    calls.append(to)
    return f"paid {to}"


@tool(effect="reads")
async def look() -> int:
    """Look."""
    return 1


WHO = Principal(id="bot", permissions=("pay:out",))
PLAN = Plan.model_validate(
    {
        "steps": [
            {"id": "a", "tool": "pay", "args": {"to": "ada", "more": {"n": 1}}},
            {"id": "b", "tool": "look"},
        ]
    }
)


def engine(hook: Any, **more: Any) -> Engine:
    """An engine that asks this hook."""
    return Engine([pay, look], policies=RULES, principal=WHO, authorize=hook, **more)


def of_pay(answer: Callable[[], Any]) -> Callable[[Attempt], Any]:
    """A hook that lets everything pass but payments, of which it says this."""
    return lambda attempt: answer() if attempt.tool == "pay" else True


def ran(
    backend: str, hook: Any, plan: Plan = PLAN, run_in: Callable[..., Any] | None = None
) -> tuple[Run, list[Any], list[str]]:
    """The run, the payments it made, and the attempts that began; time is virtual where `run_in` says so."""
    calls.clear()
    journal = MemoryJournal()

    async def main() -> Run:
        return await engine(hook, journal=journal).run(plan)

    run = run_in(backend, main) if run_in is not None else anyio.run(main, backend=backend)
    begun = [str(event.path[0]) for event in journal.events(run.id) if isinstance(event, CallStarted)]
    return run, list(calls), begun


def raises(error: BaseException) -> Any:
    """Raise this."""
    raise error


DENIED = [
    (lambda: False, "denied", "the host denied this call of 'pay'"),
    (lambda: "not on Sundays", "denied", "the host denied this call of 'pay': not on Sundays"),
    (lambda: "", "denied", "the host denied this call of 'pay'"),
    (lambda: None, "policy_unavailable", "`authorize` gave NoneType and neither True, False nor a reason"),
    (lambda: 1, "policy_unavailable", "`authorize` gave int"),
    (lambda: ["True"], "policy_unavailable", "`authorize` gave list"),
    (lambda: raises(KeyError("the key is s3cr3t")), "policy_unavailable", "`authorize` raised KeyError"),
    (lambda: raises(SystemExit(0)), "policy_unavailable", "`authorize` raised SystemExit"),
    (lambda: raises(asyncio.CancelledError()), "policy_unavailable", "`authorize` raised CancelledError"),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize(("answer", "code", "says"), DENIED)
def test_anything_but_true_denies(
    backend: str, kind: str, answer: Callable[[], Any], code: str, says: str
) -> None:
    """A no, a reason, nothing, a value that is merely true, an exception: the tool is not called, siblings go on."""
    hook = of_pay(answer)

    async def later(attempt: Attempt) -> Any:
        await anyio.lowlevel.checkpoint()
        return hook(attempt)

    run, paid, begun = ran(backend, later if kind == "async" else hook)
    [(step, failure)] = run.failures
    assert (step, failure.kind, failure.code, paid, begun) == ("a", Kind.PERMISSION, code, [], ["b"])
    assert failure.message.startswith(says)
    assert "s3cr3t" not in str(run.to_json())
    assert run["b"] == 1


class Object:
    """A hook that is an object with state."""

    async def __call__(self, attempt: Attempt) -> bool:
        return True


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "hook",
    [lambda attempt: True, Object(), partial(Object.__call__, Object())],
    ids=["sync", "object", "partial"],
)
def test_true_lets_it_begin(backend: str, hook: Any) -> None:
    """Sync functions, async ones, objects and partials may be hooks."""
    run, paid, begun = ran(backend, hook)
    assert (run.state, paid, sorted(begun)) == ("done", ["ada"], ["a", "b"])


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_answer_in_time_denies(backend: str) -> None:
    """A hook that hangs is given `hook_timeout` seconds, and then it is a no."""

    async def hangs(attempt: Attempt) -> bool:
        if attempt.tool == "pay":
            await anyio.sleep(11)
        return True

    run, paid, _ = ran(backend, hangs, run_in=run_virtual)
    [(_, failure)] = run.failures
    assert (failure.code, paid) == ("policy_unavailable", [])
    assert "gave no answer within 10 s" in failure.message


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_answer_after_the_time_is_none(backend: str) -> None:
    """A hook that does not let itself be cut off, and says yes then, has let nobody wait: the call is denied."""

    async def late(attempt: Attempt) -> bool:
        if attempt.tool == "pay":
            try:
                await anyio.sleep(11)
            except BaseException:
                return True
        return True

    run, paid, _ = ran(backend, late, run_in=run_virtual)
    [(_, failure)] = run.failures
    assert (failure.code, paid) == ("policy_unavailable", [])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_sync_hook_that_hangs_holds_up_nothing_but_its_call(backend: str) -> None:
    """It runs in a thread of its own: the loop goes on, siblings end, and its late yes is no yes."""
    release = threading.Event()

    def hangs(attempt: Attempt) -> bool:
        release.wait()
        return True

    steps = [{"id": "a", "tool": "pay", "args": {"to": "ada"}}, {"id": "b", "value": 1}]
    run, paid, _ = ran(backend, hangs, Plan.model_validate({"steps": steps}), run_virtual)
    release.set()
    assert ([failure.code for _, failure in run.failures], paid, run["b"]) == (["policy_unavailable"], [], 1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_hook_sees_the_attempt_and_cannot_change_it(backend: str) -> None:
    """It gets who, what, where and how dangerous, with a copy of the arguments."""
    seen: list[Attempt] = []

    def hook(attempt: Attempt) -> bool:
        if attempt.tool == "pay":
            seen.append(attempt._replace(args={**attempt.args}))
            attempt.args["more"]["n"] = 9
            attempt.args["to"] = "eve"  # type: ignore[index]
        return True

    run, paid, _ = ran(backend, hook)
    [attempt] = seen
    assert paid == ["ada"]
    assert attempt.principal == WHO
    assert (attempt.tool, attempt.effect, attempt.level) == ("pay", "writes", Level.MEDIUM)
    assert (attempt.tags, attempt.permissions) == (("money",), ("pay:out",))
    assert (attempt.run, attempt.path, attempt.attempt) == (run.id, ("a",), 1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_attempt_is_asked_about_and_replay_asks_nobody(backend: str) -> None:
    """What was true of the first attempt need not be of the second; a journal that is read again calls no hook."""
    asked: list[int] = []
    failing = iter([True, False])

    @tool(effect="reads")
    async def flaky() -> int:
        """Fail once."""
        if next(failing):
            raise ConnectionResetError
        return 1

    def hook(attempt: Attempt) -> bool:
        asked.append(attempt.attempt)
        return True

    journal = MemoryJournal()
    tools = Registry(flaky)

    async def main() -> Run:
        plan = Plan.model_validate({"steps": [{"id": "a", "tool": "flaky"}]})
        return await Engine(tools, policies=RULES, authorize=hook, journal=journal).run(plan)

    run = anyio.run(main, backend=backend)
    assert (run.state, asked) == ("done", [1, 2])
    replay(State(tools), journal.events(run.id))
    assert asked == [1, 2]


@pytest.mark.parametrize("backend", BACKENDS)
def test_calls_inside_a_sub_plan_are_asked_about_too(backend: str) -> None:
    """A call cannot be hidden in a plan that is a tool."""
    calls.clear()
    seen: list[str] = []

    def hook(attempt: Attempt) -> bool:
        seen.append(attempt.tool)
        return attempt.tool != "pay"

    inner = as_tool(PLAN, "inner", Registry(pay, look))
    outer = Plan.model_validate({"steps": [{"id": "x", "tool": "inner"}]})

    async def main() -> Run:
        return await Engine([inner], policies=RULES, principal=WHO, authorize=hook).run(outer)

    run = anyio.run(main, backend=backend)
    assert (run.state, calls, sorted(seen)) == ("failed", [], ["inner", "look", "pay"])


async def interrupted(journal: MemoryJournal) -> Run:
    """A run that was cut short while the hook was asked about its payment."""
    plan = Plan.model_validate({"steps": [{"id": "a", "tool": "pay", "args": {"to": "ada"}}]})
    with anyio.CancelScope() as scope:

        async def stop(attempt: Attempt) -> bool:
            scope.cancel()
            await anyio.sleep_forever()
            return True

        await engine(stop, journal=journal).run(plan, run_id="r")
    return engine(stop, journal=journal).show("r")


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_run_opened_with_the_hook_does_not_go_on_without_it(backend: str) -> None:
    """Threat 20: leaving the hook out on resume must not mean that everything is permitted; with it, the call is made."""
    calls.clear()

    async def main() -> tuple[str, str, list[Any]]:
        journal = MemoryJournal()
        waiting = await interrupted(journal)
        with pytest.raises(
            NotApproved, match="it was opened with `authorize`, which this engine does not have"
        ):
            await Engine([pay, look], policies=RULES, principal=WHO, journal=journal).resume("r")
        before = list(calls)
        end = await engine(lambda attempt: True, journal=journal).resume("r")
        return waiting.state, end.state, before

    assert anyio.run(main, backend=backend) == ("waiting", "done", [])
    assert calls == ["ada"]
