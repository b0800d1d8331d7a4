"""Rows that fail alike wait together: one question to the planner, one to a person, and all of them go on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.cut_batches import Recorded, cut
from support.virtual import BACKENDS, now, run_virtual

from foreplan import (
    Approval,
    Batch,
    BatchRules,
    Budget,
    Effect,
    Engine,
    FunctionPlanner,
    MemoryJournal,
    Plan,
    Policies,
    Retry,
    RowLimit,
    SqliteJournal,
    ToolFailure,
    tool,
)
from foreplan.console.app import main
from foreplan.executor.events import (
    CallStarted,
    DecisionAsked,
    DecisionMade,
    GroupFormed,
    GroupSettled,
    HookAnswered,
    ModelAnswered,
    PatchAccepted,
    PatchRefused,
    RowParked,
    RowSettled,
)
from foreplan.executor.mind.batch import BatchState, advance_batch, replay_batch
from foreplan.executor.runtime import Answer
from foreplan.planner.literals import Literals
from foreplan.planner.plan import Patch
from foreplan.planner.requests import ReplanRequest
from foreplan.policies.failures import Happened

ACTING = Policies(retry=Retry(attempts=1))
FREE = Policies(approve="never", retry=Retry(attempts=1))
INPUTS = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "who": {"type": "string"}},
    "required": ["n"],
}
PLAN = Plan.model_validate(
    {
        "goal": "Pay each",
        "inputs": INPUTS,
        "steps": [
            {"id": "found", "tool": "look", "args": {"n": {"$": "inputs.n"}}},
            {"id": "paid", "tool": "pay", "args": {"account": {"$": "found.account"}}},
        ],
        "output": {"receipt": {"$": "paid"}},
    }
)


def wired(n: int = 2, **more: Any) -> dict[str, Any]:
    """A patch by which the money goes another way."""
    step = {"id": f"paid{n}", "replaces": "paid", "tool": "wire", "args": {"to": {"$": "found.account"}}}
    return {"add": [step | more]}


class World:
    """Tools that count their calls, rules that mend plans, and what these were asked."""

    def __init__(
        self,
        mend: Callable[[ReplanRequest], Any] | None = None,
        *,
        fails: Callable[[int], str] = lambda n: "no_money" if n % 10 < 3 else "",
    ) -> None:
        self.mend = mend or (lambda request: wired())
        self.fails = fails
        self.calls: Counter[tuple[str, int]] = Counter()
        self.no_bank = set[int]()
        self.happened = Happened.NO
        self.asked: list[ReplanRequest] = []
        self.questions: list[DecisionAsked] = []

    def __getitem__(self, tool_: str) -> int:
        return sum(times for (name, _), times in self.calls.items() if name == tool_)

    @property
    def tools(self) -> list[Any]:
        @tool(effect=Effect.READS)
        async def look(n: int) -> dict[str, Any]:
            """Look the account of a customer up."""
            self.calls["look", n] += 1
            return {"account": f"acct-{n}", "n": n}

        @tool(effect=Effect.ACTS)
        async def pay(account: str) -> str:
            """Pay."""
            n = int(account.removeprefix("acct-"))
            self.calls["pay", n] += 1
            code = self.fails(n)
            if code:
                raise ToolFailure(f"nothing left in {account} of row {n}", code=code, happened=self.happened)
            return f"paid {account}"

        @tool(effect=Effect.ACTS)
        async def wire(to: str, note: str = "") -> str:
            """Pay by wire."""
            n = int(to.removeprefix("acct-"))
            self.calls["wire", n] += 1
            if n in self.no_bank:
                raise ToolFailure("no such bank", code="no_bank", happened=Happened.NO)
            return f"wired {to}"

        @tool(effect=Effect.READS)
        async def advise(account: str) -> str:
            """Say what is to be done."""
            self.calls["advise", int(account.removeprefix("acct-"))] += 1
            return "write a letter"

        return [look, pay, wire, advise]

    async def _mend(self, request: ReplanRequest) -> Any:
        self.asked.append(request)
        return self.mend(request)

    def engine(self, journal: Any = None, *, policies: Policies = ACTING, **options: Any) -> Engine:
        planner = FunctionPlanner(replan=self._mend)
        return Engine(
            self.tools,
            planner,
            policies=policies,
            journal=journal,
            clock=now,
            dice=lambda: 0.5,
            **options,
        )

    def decide(self, answer: str) -> Callable[[DecisionAsked], Any]:
        async def decide(asked: DecisionAsked) -> Answer:
            self.questions.append(asked)
            await anyio.sleep(5)
            return Answer(answer, "ada", reason="" if answer == "approve" else "too dear")

        return decide


def rows(count: int) -> list[dict[str, Any]]:
    return [{"n": n, "who": f"Customer {n}"} for n in range(count)]


def run_batch(
    world: World,
    count: int,
    journal: Any = None,
    *,
    backend: str = "asyncio",
    scope: Any = "none",
    rules: BatchRules | None = None,
    policies: Policies = ACTING,
    **options: Any,
) -> Batch:
    async def main() -> Batch:
        engine = world.engine(journal, policies=policies, **options)
        approval: Approval | None = None
        if policies.approve != "never":
            approval = engine.approve(PLAN, batch=RowLimit(rows=count), by="ada", scope=scope)
        return await engine.run_batch(PLAN, rows(count), approval=approval, batch_id="b", rules=rules)

    return run_virtual(backend, main)


def resume(world: World, journal: Any, *, backend: str = "asyncio", **options: Any) -> Batch:
    async def main() -> Batch:
        return await world.engine(journal).resume_batch("b", **options)

    return run_virtual(backend, main)


def events_of(journal: Any, *kinds: Any) -> list[Any]:
    return list(journal.some("b", kinds))


def reasons(batch: Batch) -> set[str]:
    """Why rows failed, as the end of their sentences says."""
    return {row.sentence.partition(" (")[2].removesuffix(")") for row in batch.rows(status="failed")}


@pytest.mark.parametrize("backend", BACKENDS)
def test_of_a_thousand_rows_three_hundred_fail_alike_and_one_patch_mends_them(backend: str) -> None:
    """One question to the planner, one to a person; the other rows are not touched, and nothing is called twice."""
    world, journal = World(), MemoryJournal()
    batch = run_batch(world, 1000, journal, backend=backend, decide=world.decide("approve"))
    assert batch.message == "1,000 rows: 1,000 done"
    assert (len(world.asked), len(world.questions)) == (1, 1)
    assert (world["look"], world["pay"], world["wire"]) == (1000, 1000, 300)
    assert set(world.calls.values()) == {1}
    outputs = Counter(row.output["receipt"].split()[0] for row in batch.rows())
    assert outputs == {"paid": 700, "wired": 300}
    assert len(events_of(journal, ModelAnswered)) == len(events_of(journal, GroupSettled)) == 1


def test_the_planner_is_told_what_rows_have_in_common_and_no_value_of_any() -> None:
    """Goal, plan, failures by kind and code, shapes of results, how many rows; rules in Python see no more than a model."""
    world = World()
    run_batch(world, 50, decide=world.decide("approve"))
    [request] = world.asked
    assert (request.rows, request.goal, request.failed) == (15, "Pay each", ("paid",))
    [failure] = request.failures
    assert (failure.args, failure.failure.code, failure.failure.message) == (
        None,
        "no_money",
        "the tool says no",
    )
    assert {o.step: o.outcome for o in request.outcomes} == {"found": "ok", "paid": "failed"}
    assert request.outcomes[0].shape["properties"]["account"] == {"type": "string"}
    seen = json.dumps(request.to_json()) + repr(request)
    assert "acct" not in seen
    assert "Customer" not in seen


def test_a_person_is_shown_how_many_rows_go_another_way_and_what_cannot_be_taken_back() -> None:
    """The diff, the effects, and whether rows to come would go on with it."""
    world = World()
    run_batch(world, 50, decide=world.decide("approve"))
    [asked] = world.questions
    said = asked.question
    assert (asked.id, asked.about, asked.options) == ("patch:1", "patch", ("approve", "reject"))
    assert (said["rows"], said["to_come"], said["irreversible"]) == (15, 0, ["wire"])
    assert said["effects"] == [{"step": "paid2", "tool": "wire", "effect": "acts", "undo": False}]
    assert said["diff"]["added"] == ["paid2"]
    assert said["reason"] == (
        "15 rows failed alike ('paid': business no_money); each would call wire, which cannot be taken back"
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_two_ways_to_fail_are_two_groups(backend: str) -> None:
    """The larger one comes first; the patch of one is not that of the other."""

    def mend(request: ReplanRequest) -> Any:
        return wired() if request.failures[0].failure.code == "no_money" else "nobody can mend that"

    def fails(n: int) -> str:
        return "no_money" if n % 10 < 3 else "closed" if n % 10 == 9 else ""

    world = World(mend, fails=fails)
    batch = run_batch(world, 40, backend=backend, decide=world.decide("approve"))
    assert [(r.rows, r.failures[0].failure.code) for r in world.asked] == [(12, "no_money"), (4, "closed")]
    assert batch.message == "40 rows: 36 done, 4 failed"
    assert reasons(batch) == {"the planner cannot mend this: nobody can mend that"}


def test_a_patch_that_people_refuse_fails_its_rows_and_says_so() -> None:
    """None of them goes that way."""
    world = World()
    batch = run_batch(world, 20, decide=world.decide("reject"))
    assert (batch.message, world["wire"]) == ("20 rows: 14 done, 6 failed", 0)
    assert reasons(batch) == {"ada refused the patch: too dear"}


@pytest.mark.parametrize(
    "smuggled",
    [
        {"to": "acct-12", "note": "x"},
        {"to": {"$": "'acct-' + '12'"}},
        {"to": {"$": "f'acct-12'"}},
        {"to": {"$": "found.account"}, "note": "for Customer 12"},
        {"to": {"$": "found.account"}, "note": "12"},
        {"to": {"$": "found.account"}, "note": {"$literal": ["acct-12"]}},
        {"to": {"$": "found.account"}, "note": "as the tool says there is nothing left in acct-12"},
    ],
)
def test_a_patch_with_a_value_of_one_row_goes_back_to_the_planner(smuggled: dict[str, Any]) -> None:
    """Its findings name the literal; a patch without it is taken."""

    def mend(request: ReplanRequest) -> Any:
        return wired() if request.findings else wired(args=smuggled)

    world, journal = World(mend), MemoryJournal()
    batch = run_batch(world, 20, journal, decide=world.decide("approve"))
    assert batch.counts["done"] == 20
    [refused] = events_of(journal, PatchRefused)
    assert refused.findings[0]["code"] == "row_literal"
    assert "12" not in json.dumps([m.question["patch"] for m in world.questions])


def test_a_planner_that_insists_on_a_value_of_a_row_is_asked_a_bounded_number_of_times() -> None:
    """Nobody is shown such a patch."""
    numbers = iter(range(2, 99))
    world = World(lambda request: wired(next(numbers), args={"to": "acct-12"}))
    batch = run_batch(world, 20, decide=world.decide("approve"))
    assert (len(world.asked), world.questions, world["wire"]) == (1 + ACTING.max_repairs, [], 0)
    assert batch.counts["failed"] == 6
    assert reasons(batch) == {
        "no valid patch after 3 answers: 'acct-12' is, or holds, a value of one row, and the patch is for many"
    }


@pytest.mark.parametrize(
    ("literal", "data", "taken"),
    [
        ("acct-12", {"a": "acct-12"}, True),
        ("ACCT-12.", ["acct-12"], True),
        ("send it to grace@example.org at once please", "Grace@example.org", True),
        ("12345", 12345, True),
        (12345, "order 12345", True),
        ("Hopper", "Grace Hopper", True),
        ("paid to Grace Hopper by the bank on friday", "Grace Hopper", True),
        ("acct", "acct-12", True),
        ("acct-1", "acct-12", False),
        (7, 7, False),
        ("by wire", "by wire", False),
        ("pay", ["pay"], False),
        ("retry", "you may retry this as often as you like", False),
        ("because the first way is closed for good", "it was closed by the bank last week", False),
        (", ", "a, b", False),
        (True, True, False),
    ],
)
def test_what_counts_as_taken_from_a_row(literal: Any, data: Any, taken: bool) -> None:
    """A value, a part of one that looks like a name; not what the plan or a tool says, nor words of prose by chance."""
    patch = Patch.model_validate(wired(args={"to": literal}))
    assert bool(Literals(patch, PLAN, World().tools).taken_from(data)) is taken


def test_a_planner_that_fails_fails_the_rows_of_the_group() -> None:
    """With what it said; the others are done."""

    def mend(request: ReplanRequest) -> Any:
        raise RuntimeError("out of order")

    batch = run_batch(World(mend), 20)
    assert batch.message == "20 rows: 14 done, 6 failed"
    assert reasons(batch) == {"the planner failed: out of order"}


def test_without_a_planner_rows_fail_by_themselves() -> None:
    """Nothing waits."""

    async def main() -> Batch:
        engine = Engine(World().tools, policies=FREE, clock=now, dice=lambda: 0.5)
        return await engine.run_batch(PLAN, rows(20), batch_id="b")

    assert run_virtual("asyncio", main).message == "20 rows: 14 done, 6 failed"


def test_where_no_approval_is_needed_nobody_is_asked() -> None:
    """The patch goes through as that of a run does."""
    world = World()
    batch = run_batch(world, 20, policies=FREE, decide=world.decide("reject"))
    assert (batch.counts["done"], len(world.asked), world.questions) == (20, 1, [])


def test_an_approval_that_covers_the_patch_asks_nobody() -> None:
    """Scope `envelope`: the same call once more, with the account looked up anew."""
    step = {"id": "paid2", "replaces": "paid", "tool": "pay", "args": {"account": {"$": "found.account"}}}
    tries: Counter[int] = Counter()

    def fails(n: int) -> str:
        tries[n] += 1
        return "busy" if n % 10 < 3 and tries[n] == 1 else ""

    world = World(lambda request: {"add": [step]}, fails=fails)
    batch = run_batch(world, 20, scope="envelope", decide=world.decide("reject"))
    assert (batch.counts["done"], len(world.asked), world.questions) == (20, 1, [])


def test_an_act_that_has_happened_is_not_made_again_by_a_patch() -> None:
    """Each row waits for a person of its own before the same call: the patch for all of them does not decide that."""
    step = {"id": "paid2", "replaces": "paid", "tool": "pay", "args": {"account": {"$": "found.account"}}}
    world = World(lambda request: {"add": [step]})
    world.happened = Happened.YES
    batch = run_batch(world, 20, scope="envelope")
    assert (len(world.asked), world["pay"]) == (1, 20)
    assert (batch.status, batch.counts["done"], batch.counts["waiting"]) == ("waiting", 14, 6)


def advised() -> dict[str, Any]:
    step = {"id": "told", "replaces": "paid", "tool": "advise", "args": {"account": {"$": "found.account"}}}
    return {"add": [step]}


@pytest.mark.parametrize("backend", BACKENDS)
def test_within_scope_reads_each_row_replans_by_itself(backend: str) -> None:
    """Nobody is asked, and no group is formed."""
    world, journal = World(lambda request: advised()), MemoryJournal()
    batch = run_batch(world, 20, journal, backend=backend, scope="reads", decide=world.decide("reject"))
    assert (batch.counts["done"], len(world.asked), world["advise"]) == (20, 6, 6)
    assert (world.questions, events_of(journal, GroupFormed)) == ([], [])


def test_what_reads_do_not_mend_is_asked_once_for_all_rows() -> None:
    """A row whose own patch goes beyond the scope waits with the others, instead of asking for itself."""
    world = World()
    batch = run_batch(world, 20, scope="reads", decide=world.decide("approve"))
    assert (batch.counts["done"], world["wire"], len(world.questions)) == (20, 6, 1)
    assert world.questions[0].question["rows"] == 6


def test_rows_that_fail_again_with_the_patch_are_a_group_of_their_own() -> None:
    """Within the bound on re-plans: then they fail."""
    world = World(fails=lambda n: "no_money" if n in (5, 11) else "")
    world.no_bank.add(11)

    def mend(request: ReplanRequest) -> Any:
        return wired(len(world.asked) + 1, replaces="paid" if len(world.asked) == 1 else "paid2")

    world.mend = mend
    batch = run_batch(world, 20, decide=world.decide("approve"))
    assert [(r.rows, r.plan.steps[-1].id) for r in world.asked] == [(2, "paid"), (1, "paid2")]
    assert batch.message == "20 rows: 19 done, 1 failed"
    assert max(world.calls.values()) <= 2


def test_rows_to_come_that_fail_alike_go_on_with_the_patch() -> None:
    """Five rows run first; the person is told that the patch is for those to come as well, and nobody is asked again."""
    world = World()
    batch = run_batch(world, 100, decide=world.decide("approve"), rules=BatchRules(canary=5))
    assert [q.id for q in world.questions] == ["patch:1", "canary"]
    assert [world.questions[0].question[name] for name in ("rows", "to_come")] == [3, 95]
    assert (batch.counts["done"], len(world.asked), world["wire"]) == (100, 1, 30)


def test_the_planner_is_asked_about_so_many_groups() -> None:
    """A service that fails in a new way for each row costs no question for each."""
    world = World(lambda request: "no", fails=lambda n: f"code_{n}")
    batch = run_batch(world, 30, rules=BatchRules(groups=3))
    assert (len(world.asked), batch.counts["failed"]) == (3, 30)
    assert "rows failed in more ways than the planner is asked about (3 groups)" in reasons(batch)


def test_hooks_are_asked_once_for_a_group() -> None:
    """A note goes to the planner; a no is final, and recorded once."""
    seen = []

    def on_failure(request: ReplanRequest) -> str:
        seen.append(request.rows)
        return "wires are cheap today"

    world, journal = World(), MemoryJournal()
    batch = run_batch(
        world,
        20,
        journal,
        on_failure=on_failure,
        on_replan=lambda request, patch: "not on a friday",
        decide=world.decide("approve"),
    )
    assert (seen, world.questions, world["wire"]) == ([6], [], 0)
    assert world.asked[0].notes[-1] == "wires are cheap today"
    assert [a.hook for a in events_of(journal, HookAnswered)] == ["on_failure", "on_replan"]
    assert (batch.counts["failed"], reasons(batch)) == (6, {"not on a friday"})


def test_the_budget_of_a_batch_bounds_questions_to_the_planner() -> None:
    """Nobody is asked who may not be paid."""

    class Dear(FunctionPlanner):
        model_calls = 2

    world, policies = World(), Policies(approve="never", retry=Retry(attempts=1))

    async def main() -> Batch:
        planner = Dear(replan=world._mend)
        engine = Engine(world.tools, planner, policies=policies, clock=now, dice=lambda: 0.5)
        return await engine.run_batch(
            PLAN, rows(20), batch_id="b", rules=BatchRules(budget=Budget(model_calls=1))
        )

    batch = run_virtual("asyncio", main)
    assert (world.asked, batch.counts["failed"]) == ([], 6)
    assert reasons(batch) == {"the budget of 1 model call of the batch is used up"}


def test_an_effect_that_is_the_same_for_every_row_is_refused_in_a_patch() -> None:
    """It must not happen three hundred times because one step is constant."""
    constant = {"id": "told", "replaces": "paid", "tool": "wire", "args": {"to": "acct"}}
    world = World(lambda request: {"add": [constant]} if not request.findings else "cannot")
    batch = run_batch(world, 20, decide=world.decide("approve"))
    assert (world["wire"], batch.counts["failed"]) == (0, 6)
    assert "per_unsaid" in {finding.code for finding in world.asked[1].findings}


# ---------------------------------------------------------------------------------------------- other processes


@pytest.mark.parametrize("choice", ["approve", "reject"])
def test_another_process_answers_and_goes_on(choice: str) -> None:
    """The batch waits, its question is in the list of all; no planner is asked again."""
    world, journal = World(), MemoryJournal()
    batch = run_batch(world, 30, journal)
    assert (batch.status, batch.reason, batch.counts["waiting"]) == ("waiting", "people", 9)
    other = World()
    engine = other.engine(journal)
    [question] = engine.waiting()
    assert (question.run, question.id, question.asked.question["rows"]) == ("b", "patch:1", 9)

    async def main() -> Batch:
        waiting = await engine.decide_batch("b", {"patch:1": Answer(choice, "grace")})
        assert waiting.counts["waiting"] == 9
        return await engine.resume_batch("b")

    batch = run_virtual("asyncio", main)
    assert (len(world.asked), other.asked) == (1, [])
    assert other["pay"] == other["look"] == 0
    expected = {"approve": ("30 rows: 30 done", 9), "reject": ("30 rows: 21 done, 9 failed", 0)}
    assert (batch.message, other["wire"]) == expected[choice]


def test_rows_of_a_group_are_read_without_its_tools() -> None:
    """A row has its patch by reference; what it says is whole all the same."""
    world, journal = World(), MemoryJournal()
    run_batch(world, 30, journal, decide=world.decide("approve"))
    row = Engine([], journal=journal).show("b.2")
    assert (row.state, row.output) == ("done", {"receipt": "wired acct-1"})
    assert row.plan is not None
    assert [step.id for step in row.plan.steps] == ["found", "paid", "paid2"]
    [accepted] = [event for event in journal.events("b.2") if isinstance(event, PatchAccepted)]
    assert (accepted.patch, accepted.digest) == (None, row.plan.digest)


def test_a_journal_with_groups_verifies_and_comes_through_an_export(tmp_path: Path) -> None:
    """On SQLite, with a question in between; the patch is written once."""
    path, world = tmp_path / "runs.sqlite3", World()

    async def main() -> None:
        with SqliteJournal(path) as journal:
            engine = Engine(
                world.tools, FunctionPlanner(replan=lambda request: wired()), policies=ACTING, journal=journal
            )
            approval = engine.approve(PLAN, batch=20, by="ada")
            await engine.run_batch(PLAN, rows(20), approval=approval, batch_id="b")
            done = await engine.resume_batch("b", decisions={"patch:1": "approve"})
            assert done.counts["done"] == 20
            assert journal.verify().problems == ()
            lines = list(journal.exported("b"))
        with SqliteJournal(tmp_path / "other") as journal:
            journal.take_in(lines)
            assert journal.verify().problems == ()
            assert engine_without_tools(journal).show("b.2").output == {"receipt": "wired acct-1"}

    anyio.run(main)


def test_the_command_line_shows_the_question_and_takes_the_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """How many rows, why, and what could not be taken back; the batch goes on with the answer."""
    path, world = tmp_path / "runs.sqlite3", World()

    async def begin() -> None:
        with SqliteJournal(path) as journal:
            engine = world.engine(journal, policies=ACTING)
            approval = engine.approve(PLAN, batch=20, by="ada")
            await engine.run_batch(PLAN, rows(20), approval=approval, batch_id="b")

    anyio.run(begin)
    assert main(["approvals", "--journal", str(path)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "1 plan would change beyond what was approved" in shown
    assert "6 rows failed alike ('paid': business no_money); each would call wire, which cannot be" in shown
    assert "+ paid2 wire in place of paid" in shown
    assert main(["decide", "b", "patch:1", "approve", "--by", "grace", "--journal", str(path)]) == 0

    async def go_on() -> Batch:
        with SqliteJournal(path) as journal:
            return await world.engine(journal).resume_batch("b")

    assert (anyio.run(go_on).counts["done"], world["wire"]) == (20, 6)


def engine_without_tools(journal: Any) -> Engine:
    return Engine([], journal=journal)


def test_rows_that_failed_for_want_of_a_patch_are_mended_when_they_are_tried_again() -> None:
    """A retry asks anew; what was done stays done."""
    world, journal = World(lambda request: "come back later"), MemoryJournal()
    assert run_batch(world, 20, journal).counts["failed"] == 6
    other = World()

    async def main() -> Batch:
        return await other.engine(journal, decide=other.decide("approve")).retry_batch("b")

    batch = run_virtual("asyncio", main)
    assert (batch.counts["done"], len(other.asked), len(other.questions)) == (20, 1, 1)
    assert (other["look"], other["wire"]) == (0, 6)


# ---------------------------------------------------------------------------------------------- killed anywhere


def two_groups() -> World:
    """Four rows, of which two and one fail alike; the first answer of the planner is not taken."""

    def mend(request: ReplanRequest) -> Any:
        if request.failures[0].failure.code == "closed":
            return "closed is closed"
        return wired() if request.findings else wired(args={"to": "acct-1"})

    return World(mend, fails=lambda n: {0: "no_money", 1: "no_money", 2: "closed"}.get(n, ""))


WHOLE = Recorded()
FIRST = two_groups()
run_batch(FIRST, 4, WHOLE, decide=FIRST.decide("approve"), on_failure=lambda request: None)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_batch_that_is_killed_at_any_event_ends_alike(backend: str) -> None:
    """What the planner, a hook or a person said is not asked again; an act that had begun waits, none is made twice."""
    for count in range(1, len(WHOLE.order)):
        journal, world = cut(WHOLE, count), two_groups()
        before = [event for run, event in WHOLE.order[:count] if run == "b"]
        heard = sum(isinstance(event, ModelAnswered) for event in before)
        hooked = list[ReplanRequest]()

        async def main(
            journal: Any = journal, world: World = world, hooked: list[ReplanRequest] = hooked
        ) -> Batch:
            engine = world.engine(journal, decide=world.decide("approve"), on_failure=hooked.append)
            return await engine.resume_batch("b", rows=rows(4))

        batch = run_virtual(backend, main)
        begun = {(run, event.path) for run, event in WHOLE.order[:count] if isinstance(event, CallStarted)}
        calls = Counter(
            (run, event.path)
            for ordinal in range(1, 5)
            for run in [f"b.{ordinal}"]
            for event in journal.events(run)
            if isinstance(event, CallStarted)
        )
        assert all(calls[key] == 1 for key in begun if key[1] != ("found",))
        waiting = batch.counts["waiting"]
        if not waiting:
            assert (batch.counts["done"], batch.counts["failed"]) == (3, 1), count
            assert len(world.asked) == 3 - heard, count
            assert len(hooked) == 2 - sum(isinstance(event, HookAnswered) for event in before)
            decided = any(isinstance(event, DecisionMade) for event in before)
            assert len(world.questions) == (0 if decided else 1), count
        ends = Counter(event.ordinal for event in events_of(journal, RowSettled))
        assert set(ends.values()) <= {1}


def test_what_each_prefix_of_a_batch_with_groups_says_is_what_it_said_then() -> None:
    """The state after each event, live and replayed; one row of a group is parked once, and goes on once."""
    events = list(WHOLE.events("b"))
    live = BatchState()
    for count, event in enumerate(events, 1):
        advance_batch(live, event)
        replayed = vars(replay_batch(events[:count]))
        assert {k: v for k, v in replayed.items() if k != "live"} == {
            k: v for k, v in vars(live).items() if k != "live"
        }
    assert sum(isinstance(event, RowParked) for event in events) == 3


def test_a_row_that_fails_by_what_a_person_said_is_mended_like_any_other() -> None:
    """It waited for that answer, not for a patch; once it has failed it waits for one."""

    @tool(effect=Effect.ACTS, timeout=1)
    async def pay(account: int) -> int:
        """Pay; of the second account nobody hears."""
        await anyio.sleep(100 if account == 2 else 0)
        return account

    @tool(effect=Effect.READS)
    async def look(n: int) -> int:
        """Look."""
        return n

    paid = {"id": "paid", "tool": "pay", "args": {"account": {"$": "inputs.n"}}}
    plan = Plan.model_validate({"inputs": INPUTS, "steps": [paid]})
    other = {"id": "seen", "replaces": "paid", "tool": "look", "args": {"n": {"$": "inputs.n"}}}
    planner = FunctionPlanner(replan=lambda request: {"add": [other]})

    async def run() -> Batch:
        engine = Engine([pay, look], planner, policies=FREE, journal=MemoryJournal(), clock=now)
        batch = await engine.run_batch(plan, [{"n": n} for n in (1, 2, 3)], batch_id="b")
        assert (batch.status, batch.reason, batch.counts["waiting"]) == ("waiting", "people", 1)
        [asked] = engine.show("b.2").waiting
        await engine.decide("b.2", {asked.id: "fail"})
        return await engine.resume_batch("b")

    assert run_virtual("asyncio", run).message == "3 rows: 3 done"
