"""The host program misbehaves: its callbacks raise, its hands break, its planner cancels itself. The run stays sound."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from support.virtual import BACKENDS, now, run_virtual

from foreplan import (
    Effect,
    Engine,
    FunctionPlanner,
    MemoryJournal,
    Patch,
    Plan,
    Policies,
    Retry,
    Run,
    Tool,
    ToolFailure,
    tool,
)
from foreplan.executor.events import CallSettled, DecisionAsked, Event, Outcome
from foreplan.executor.hands.hands import Result
from foreplan.executor.mind.state import Call
from foreplan.executor.runtime import Answer
from foreplan.policies.errors import BadInput
from foreplan.policies.failures import Happened, Kind

READS = Effect.READS
FREE = Policies(approve="never", retry=Retry(attempts=1))


@tool(effect=READS)
async def double(x: int) -> int:
    """Twice x."""
    return 2 * x


@tool
async def pay(amount: int) -> int:
    """Pays, and nobody hears of it."""
    raise ConnectionResetError("cut")


@tool(effect=READS)
async def fetch(source: str) -> int:
    """`old` is gone."""
    if source == "old":
        raise ToolFailure("gone")
    return 1


def plan_of(*steps: dict[str, Any], **rest: Any) -> Plan:
    return Plan.model_validate({"steps": list(steps), **rest})


DOUBLE = plan_of({"id": "d", "each": {"$": "[1, 2]"}, "tool": "double", "args": {"x": {"$": "item"}}})
PAY = plan_of({"id": "p", "tool": "pay", "args": {"amount": 1}})
OLD = plan_of({"id": "f", "tool": "fetch", "args": {"source": "old"}})
NEW = Patch.model_validate(
    {"add": [{"id": "g", "replaces": "f", "tool": "fetch", "args": {"source": "new"}}]}
)


@pytest.mark.anyio
async def test_a_watch_that_raises_is_told_of_once_and_the_run_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is not shown another event, and the log says so."""
    seen: list[Event] = []

    def watch(event: Event) -> None:
        seen.append(event)
        if len(seen) == 4:
            raise RuntimeError("bug in the view")

    run = await Engine([double], watch=watch).run(DOUBLE)
    assert (run.state, run["d"], len(seen)) == ("done", [2, 4], 4)
    assert "goes on without it" in caplog.text


@pytest.mark.anyio
async def test_a_clock_that_raises_in_mid_run_stands_still(caplog: pytest.LogCaptureFixture) -> None:
    """Effects that are under way keep their journal."""
    times = [1e9] * 8

    def clock() -> float:
        return times.pop()

    run = await Engine([double], clock=clock).run(DOUBLE)
    assert (run.state, run["d"]) == ("done", [2, 4])
    assert "time stands still" in caplog.text


@pytest.mark.anyio
async def test_a_run_that_is_cancelled_from_within_starts_nothing_more() -> None:
    """By one of its own tools: what is settled stays, the next step does not begin."""
    ended: list[int] = []

    @tool(effect=READS)
    async def stop(x: int) -> int:
        """Ends its own run."""
        ended.append(x)
        engine.cancel("r")
        return x

    engine = Engine([stop])
    one = {"id": "a", "tool": "stop", "args": {"x": 1}}
    run = await engine.run(plan_of(one, {"id": "b", "tool": "stop", "args": {"x": {"$": "a"}}}), run_id="r")
    assert (run.state, run.reason, run["a"], ended) == ("stopped", "cancelled", 1, [1])


async def _raises(question: DecisionAsked) -> Answer:
    raise RuntimeError("nobody is there")


async def _cancels(question: DecisionAsked) -> Answer:
    raise asyncio.CancelledError


async def _mumbles(question: DecisionAsked) -> Answer:
    return Answer("yes")


async def _gives_no_number(question: DecisionAsked) -> Answer:
    return Answer("accept", value="one")


async def _gives_an_object(question: DecisionAsked) -> Answer:
    return Answer("accept", value=object())


@pytest.mark.anyio
@pytest.mark.parametrize("decide", [_raises, _cancels, _mumbles, _gives_no_number, _gives_an_object])
async def test_a_decide_that_gives_no_good_answer_leaves_the_question_open(
    decide: Callable[[DecisionAsked], Awaitable[Answer]],
) -> None:
    """It raises, or names no option, or a value that is no result of the tool: the run waits."""
    with anyio.fail_after(5):
        run = await Engine([pay], policies=FREE, decide=decide).run(PAY)
    assert (run.state, [q.about for q in run.waiting]) == ("waiting", ["unknown"])


@pytest.mark.anyio
async def test_an_answer_may_be_one_word() -> None:
    """As `resume` takes them."""

    async def decide(question: DecisionAsked) -> str:
        return "fail"

    assert (await Engine([pay], policies=FREE, decide=decide).run(PAY)).state == "failed"


@pytest.mark.anyio
async def test_a_question_that_one_person_leaves_open_does_not_cut_another_short() -> None:
    """The run waits until everybody who is being asked has had their say."""

    @tool(requires_approval="each")
    async def act(x: int) -> int:
        """Acts."""
        return x

    async def decide(question: DecisionAsked) -> str | None:
        if question.path[-1] == 0:
            return None
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        return "approve"

    plan = plan_of({"id": "a", "each": {"$": "[0, 1]"}, "tool": "act", "args": {"x": {"$": "item"}}})
    journal = MemoryJournal()
    run = await Engine([act], policies=FREE, decide=decide, journal=journal).run(plan)
    assert [q.path for q in run.waiting] == [("a", 0)]
    assert [e.value for e in journal.events(run.id) if isinstance(e, CallSettled)] == [1]


@pytest.mark.anyio
async def test_the_value_of_an_answer_must_be_a_result_of_the_tool_and_is_copied() -> None:
    """What later steps see of an accepted outcome is as declared."""

    @tool
    async def book(what: str) -> dict[str, int]:
        """Books, and nobody hears of it."""
        raise ConnectionResetError("cut")

    engine = Engine([book], policies=FREE)
    run = await engine.run(plan_of({"id": "b", "tool": "book", "args": {"what": "car"}}))
    [question] = run.waiting
    for value in ("id", {"id": "x"}, object(), {"id": float("nan")}):
        with pytest.raises(BadInput, match="answer to"):
            await engine.resume(run.id, decisions={question.id: Answer("accept", value=value)})
    mine = {"id": 7}
    end = await engine.resume(run.id, decisions={question.id: Answer("accept", value=mine)})
    mine["id"] = 8
    assert (end["b"], engine.show(run.id)["b"]) == ({"id": 7}, {"id": 7})


@pytest.mark.anyio
async def test_a_run_shares_no_value_with_its_journal() -> None:
    """Whoever changes what they were given changes nothing of what the next steps or a replay see."""

    @tool(effect=READS)
    async def rows() -> list[int]:
        """Rows."""
        return [1, 2]

    @tool(requires_approval="each")
    async def send(rows: list[int]) -> int:
        """Sends."""
        return len(rows)

    plan = plan_of(
        {"id": "r", "tool": "rows"},
        {"id": "n", "each": [1], "tool": "rows"},
        {"id": "s", "tool": "send", "args": {"rows": {"$": "r + n[0] + inputs.more"}}},
        inputs={"type": "object", "properties": {"more": {"type": "array"}}},
        output={"$": "r"},
    )
    engine = Engine([rows, send], policies=FREE)
    more = [3]
    run = await engine.run(plan, inputs={"more": more})
    run["r"].clear()
    run["n"][0].clear()
    run.inputs["more"].clear()
    more.clear()
    end = await engine.resume(run.id, decisions={q.id: "approve" for q in run.waiting})
    assert end["s"] == 5
    end.output.clear()
    assert engine.show(run.id).output == [1, 2]


class BrokenHands:
    """Hands that raise, or give what is no result."""

    def __init__(self, raises: BaseException | None = None) -> None:
        self.raises = raises
        self.calls = 0

    async def perform(self, call: Call) -> Result:
        self.calls += 1
        if self.raises is not None:
            raise self.raises
        return Result(Outcome.OK, call.args["x"])


@pytest.mark.anyio
async def test_hands_of_ones_own_give_their_slots_back() -> None:
    """More calls than there are slots."""
    many = plan_of({"id": "d", "each": {"$": "range(200)"}, "tool": "double", "args": {"x": {"$": "item"}}})
    with anyio.fail_after(20):
        run = await Engine([double], hands=BrokenHands()).run(many)
    assert run["d"] == list(range(200))


@pytest.mark.anyio
@pytest.mark.parametrize("error", [ValueError("bug"), asyncio.CancelledError(), SystemExit(3)])
async def test_hands_that_raise_fail_their_call_alone(error: BaseException) -> None:
    """No group of exceptions reaches the caller; what acts is unknown."""
    with anyio.fail_after(5):
        run = await Engine([double, pay], policies=FREE, hands=BrokenHands(error)).run(
            plan_of(*DOUBLE.to_json()["steps"], *PAY.to_json()["steps"])
        )
    assert run.state == "waiting"
    assert [q.path for q in run.waiting] == [("p",)]
    assert {f.happened for _, f in run.failures} == {Happened.MAYBE}


async def _planner_cancels(request: Any) -> Patch:
    raise asyncio.CancelledError


async def _planner_times_out(request: Any) -> Patch:
    raise TimeoutError("the model's own")


@pytest.mark.anyio
@pytest.mark.parametrize("replan", [_planner_cancels, _planner_times_out])
async def test_a_planner_that_raises_what_a_loop_raises_does_not_hang_the_run(replan: Any) -> None:
    """Its own cancellation and time-out are failures of the planner, with or without a bound of ours."""
    with anyio.fail_after(5):
        run = await Engine(
            [fetch], FunctionPlanner(replan=replan), policies=Policies(planner_timeout=None)
        ).run(OLD)
    assert run.state == "failed"
    assert "the planner failed" in run.message


@pytest.mark.anyio
async def test_a_hook_that_raises_what_a_loop_raises_is_recorded_and_ignored() -> None:
    """As any other error of a hook."""

    async def hook(request: Any) -> None:
        raise asyncio.CancelledError

    with anyio.fail_after(5):
        run = await Engine([fetch], FunctionPlanner(replan=lambda request: NEW), on_failure=hook).run(OLD)
    assert run.state == "done"


@pytest.mark.anyio
async def test_a_hook_that_may_refuse_is_not_left_out_by_resuming_elsewhere() -> None:
    """An engine without the `on_replan` that the run was opened with lets no patch through."""
    reached = anyio.Event()

    class Slow:
        async def replan(self, request: Any) -> Patch:
            reached.set()
            await anyio.sleep_forever()
            return NEW

        async def plan(self, request: Any) -> Plan:
            return OLD

    journal = MemoryJournal()
    engine = Engine([fetch], Slow(), journal=journal, on_replan=lambda request, patch: False)

    async def drive() -> None:
        await engine.run(OLD, run_id="r")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(drive)
        await reached.wait()
        tasks.cancel_scope.cancel()
    run = await Engine([fetch], FunctionPlanner(replan=lambda request: NEW), journal=journal).resume("r")
    assert (run.state, "g" in run.steps) == ("failed", False)
    assert "'on_replan', which this engine does not have" in run.message


class Lying(ToolFailure):
    """Forgets to call its parent."""

    def __init__(self) -> None:
        pass


class Hostile(Exception):
    """Raises whatever is asked of it."""

    @property
    def response(self) -> Any:
        raise SystemExit(3)

    def __str__(self) -> str:
        raise ValueError("no text")


ERRORS: list[BaseException] = [
    ToolFailure(
        "half \ud800",
        code="c\ud800",
        hint="\udfff",
        details={"s": {1, 2}, "o": object(), "\ud800": float("nan")},
    ),
    ToolFailure("later", retry_after="5"),  # type: ignore[arg-type]
    ToolFailure("odd", details=[1]),  # type: ignore[arg-type]
    Lying(),
    Hostile(),
]


@pytest.mark.anyio
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_what_an_exception_carries_is_made_plain_when_it_settles(
    error: BaseException, tmp_path: Any
) -> None:
    """Details that are no JSON, halves of characters, attributes that are missing: the call fails, and can be read back."""

    @tool(effect=READS)
    async def bad() -> int:
        """Raises."""
        raise error

    engine = Engine([bad, double], journal=tmp_path / "runs.db", policies=FREE)
    run = await engine.run(plan_of({"id": "b", "tool": "bad"}, *DOUBLE.to_json()["steps"]))
    assert (run.state, run["d"]) == ("failed", [2, 4])
    again = engine.show(run.id)
    assert [(where, f.to_json()) for where, f in again.failures] == [
        (where, f.to_json()) for where, f in run.failures
    ]


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_error_while_being_cancelled_hides_no_cancellation(backend: str) -> None:
    """A tool, a planner, a hook or a person's window that raises in its clean-up: the run is closed, and says so."""

    async def untidy() -> Any:
        try:
            await anyio.sleep_forever()
        finally:
            raise ValueError("while cleaning up")

    @tool(effect=READS, timeout=None)
    async def slow() -> int:
        """Never ends, and is untidy."""
        return int(await untidy())

    async def decide(question: DecisionAsked) -> Answer:
        return await untidy()  # type: ignore[no-any-return]

    async def ends(tools: list[Tool], plan: Plan, **more: Any) -> tuple[str, str]:
        engine = Engine(tools, policies=FREE, clock=now, **more)
        found: list[Run] = []

        async def drive() -> None:
            found.append(await engine.run(plan, run_id="r"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(drive)
            await anyio.sleep(1)
            engine.cancel("r")
        return found[0].state, found[0].reason

    async def main() -> set[tuple[str, str]]:
        planner = FunctionPlanner(replan=lambda request: untidy())
        return {
            await ends([slow], plan_of({"id": "s", "tool": "slow"})),
            await ends([pay], PAY, decide=decide),
            await ends([fetch], OLD, planner=planner),
            await ends([fetch], OLD, planner=planner, on_failure=lambda request: untidy()),
        }

    assert run_virtual(backend, main) == {("stopped", "cancelled")}


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_approval_that_expires_while_the_run_goes_on_begins_no_new_attempt(backend: str) -> None:
    """What has begun may end; the next call is refused as `approval_expired`, also after a resume."""
    times: list[float] = []

    @tool
    async def act(x: int) -> int:
        """Takes four seconds."""
        times.append(x)
        await anyio.sleep(4)
        return x

    plan = plan_of(
        {"id": "a", "tool": "act", "args": {"x": 1}},
        {"id": "b", "tool": "act", "args": {"x": {"$": "a + 1"}}},
        {"id": "c", "tool": "act", "args": {"x": {"$": "b + 1"}}},
    )

    async def main() -> Run:
        engine = Engine([act], clock=now)
        return await engine.run(plan, approval=engine.approve(plan, by="ada", expires_in=6))

    run = run_virtual(backend, main)
    [(where, failure)] = run.failures
    assert (times, run.state, where) == ([1, 2], "failed", "c")
    assert (failure.kind, failure.code, failure.happened) == (
        Kind.PERMISSION,
        "approval_expired",
        Happened.NO,
    )


@pytest.mark.anyio
async def test_a_run_can_be_cancelled_without_its_tools() -> None:
    """Closing needs no tool and no principal: a tool that is gone must not keep a run open for ever."""
    journal = MemoryJournal()
    run = await Engine([pay], policies=FREE, journal=journal).run(PAY)
    assert run.state == "waiting"
    other = Engine([double], journal=journal)
    other.cancel(run.id)
    assert (other.show(run.id).state, other.show(run.id).reason) == ("stopped", "cancelled")
    with pytest.raises(BadInput, match="is closed"):
        other.cancel(run.id)
