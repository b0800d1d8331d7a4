"""Runs that wait cost nothing: what they wait for is listed, answered and taken up by whoever comes next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.virtual import BACKENDS, now, run_virtual

from foreplan import (
    Budget,
    Engine,
    MemoryJournal,
    Plan,
    Policies,
    Principal,
    Registry,
    Run,
    as_tool,
    ask,
    tool,
)
from foreplan.executor.events import DecisionAsked, DecisionMade, Event, RunOpened, RunPaused, RunResumed
from foreplan.executor.journal.journal import Journal
from foreplan.executor.journal.sqlite_journal import SqliteJournal
from foreplan.executor.questions import questions_in
from foreplan.executor.resuming import Progress
from foreplan.executor.run import run_of
from foreplan.executor.runtime import Answer
from foreplan.policies.errors import BadInput, JournalError, NotApproved
from foreplan.policies.signing import HmacSigner

pytestmark = pytest.mark.anyio

FREE = Policies(approve="never")
paid: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_was_paid() -> None:
    paid.clear()


@tool(effect="acts", requires_approval="each")
async def pay(to: str, amount: int = 1) -> str:
    """Pay someone."""
    paid.append(to)
    return f"paid {to}"


@tool(effect="acts", requires_approval="each", permissions="books:write")
async def book(to: str) -> str:
    """Write it down."""
    paid.append(f"book {to}")
    return f"booked {to}"


@tool(effect="acts")
async def charge(card: str) -> str:
    """Break half-way."""
    raise RuntimeError("the line went dead")


TOOLS = Registry(pay, book, charge, ask)
NONE = Registry()


def plan(*steps: dict[str, Any], **more: Any) -> Plan:
    """A plan of these steps."""
    return Plan.model_validate({"steps": list(steps), **more})


def each(*people: str) -> Plan:
    """A plan that pays each of them."""
    return plan(
        {
            "id": "pays",
            "each": list(people),
            "tool": "pay",
            "args": {"to": {"$": "item"}},
            "on_failure": "skip",
        },
        goal="Pay them",
        output={"$": "pays"},
    )


def engine(journal: Journal, tools: Registry = TOOLS, **options: Any) -> Engine:
    """An engine on this journal, as another process would make one."""
    return Engine(tools, journal=journal, **{"policies": FREE, **options})


def kinds(journal: Journal, run: str, kind: type[Event]) -> list[Any]:
    """The events of a run, of one kind."""
    return [event for event in journal.events(run) if isinstance(event, kind)]


# ---- answers without a driver


async def test_an_answer_is_kept_until_the_run_is_taken_up(tmp_path: Path) -> None:
    """One process asks, one without any tools takes the answer, one goes on: nothing is made before that."""
    with SqliteJournal(tmp_path / "runs.db") as journal:
        run = await engine(journal).run(each("ada"))
    with SqliteJournal(tmp_path / "runs.db") as journal:
        told = await engine(journal, NONE).decide(run.id, {"pays[0]:call:0": Answer("approve", "eve")})
        assert (told.state, told.reason, told.waiting, paid) == ("waiting", "answered", (), [])
    with SqliteJournal(tmp_path / "runs.db") as journal:
        assert engine(journal, NONE).show(run.id).reason == "answered"
        done = await engine(journal).resume(run.id)
        assert (done.state, done.output, paid) == ("done", ["paid ada"], ["ada"])


async def test_answers_may_come_one_after_the_other() -> None:
    """Two of three are answered: the run goes on with these, and waits for the third."""
    journal = MemoryJournal()
    run = await engine(journal).run(each("ada", "bob", "cy"))
    await engine(journal, NONE).decide(run.id, {"pays[0]:call:0": "approve"})
    left = await engine(journal, NONE).decide(
        run.id, {"pays[2]:call:0": Answer("reject", "eve", reason="no")}
    )
    assert [asked.id for asked in left.waiting] == ["pays[1]:call:0"]
    again = await engine(journal).resume(run.id)
    assert (again.state, paid, [asked.id for asked in again.waiting]) == (
        "waiting",
        ["ada"],
        ["pays[1]:call:0"],
    )
    done = await engine(journal).resume(run.id, decisions={"pays[1]:call:0": "approve"})
    assert done.output == ["paid ada", "paid bob", None]
    assert [(code.code, code.message[-2:]) for _, code in done.failures] == [("rejected", "no")]


@pytest.mark.parametrize(
    ("id_", "said", "says"),
    [
        ("pays[0]:cal:0", "approve", "did you mean 'pays[0]:call:0'"),
        ("pays[0]:call:0", "yes", "approve, reject, edit"),
        ("pays[0]:call:0", Answer("edit", value={"args": {"to": 5}}), "the edit of"),
        ("pays[0]:call:0", Answer("edit", value={"args": {"to": "x"}, "tool": "book"}), "book"),
        ("pays[0]:call:0", Answer("edit", value={"to": "x"}), "an edit is written"),
    ],
)
async def test_an_answer_that_does_not_do_is_refused_and_leaves_no_trace(
    id_: str, said: Any, says: str
) -> None:
    """Unknown id, option, value, or an edit that would not be admitted: none of the answers is taken."""
    journal = MemoryJournal()
    run = await engine(journal).run(each("ada", "bob"))
    before = len(list(journal.events(run.id)))
    with pytest.raises(BadInput, match=says.replace("[", r"\[")):
        await engine(journal, NONE).decide(run.id, {"pays[1]:call:0": "approve", id_: said})
    assert len(list(journal.events(run.id))) == before


async def test_a_question_is_answered_once() -> None:
    """A second answer is refused, whether it comes by itself or with the resume."""
    journal = MemoryJournal()
    run = await engine(journal).run(each("ada"))
    await engine(journal).decide(run.id, {"pays[0]:call:0": Answer("reject", "eve")})
    for again in (engine(journal).decide, engine(journal).resume):
        with pytest.raises(BadInput, match="answered already: 'reject' by eve"):
            await again(run.id, decisions={"pays[0]:call:0": "approve"})
    assert (await engine(journal).resume(run.id)).output == [None]
    assert not paid


async def test_an_answer_holds_for_whoever_takes_the_run_up() -> None:
    """A yes is no permission: who has lost it by the time the run goes on does not make the call."""
    journal = MemoryJournal()
    may = Principal(id="ann", permissions=("books:write",))
    asks = plan({"id": "b", "tool": "book", "args": {"to": "ada"}})
    run = await engine(journal, principal=may).run(asks)
    await engine(journal, NONE).decide(run.id, {"b:call:0": "approve"})
    ended = await engine(journal, principal=Principal(id="ann")).resume(run.id)
    assert (ended.state, paid, ended.failures[0][1].code) == ("failed", [], "not_permitted")


async def test_other_questions_are_answered_the_same_way() -> None:
    """What a step asks, and what became of a call that nobody knows."""
    journal = MemoryJournal()
    which = {"id": "which", "tool": "ask", "args": {"question": "Which?", "options": ["a", "b"]}}
    run = await engine(journal).run(
        plan(which, {"id": "c", "tool": "charge", "args": {"card": "4111"}}, output={"$": "[which, c]"})
    )
    here = engine(journal, NONE)
    with pytest.raises(BadInput, match="not what is wanted"):
        await here.decide(run.id, {"which:ask:0": Answer("answer", value="c")})
    answers = {"which:ask:0": Answer("answer", value="b"), "c:unknown:1": Answer("accept", value="r7")}
    await here.decide(run.id, answers)
    assert (await engine(journal).resume(run.id)).output == ["b", "r7"]


async def test_what_a_sub_plan_asks_is_answered_where_it_is_listed() -> None:
    """The question stands under the run that calls; the run inside is not listed, and takes no answer itself."""
    journal = MemoryJournal()
    inner = plan({"id": "p", "tool": "pay", "args": {"to": "ada"}}, output={"$": "p"})
    tools = Registry(as_tool(inner, "sub", TOOLS))
    run = await engine(journal, tools).run(plan({"id": "s", "tool": "sub", "args": {}}, output={"$": "s"}))
    [question] = engine(journal, NONE).waiting()
    assert (question.run, question.id, question.tool) == (run.id, "s/p:call:0", "pay")
    child = question.asked.question["run"]
    with pytest.raises(BadInput, match=f"part of run '{run.id}'"):
        await engine(journal, NONE).decide(child, {"p:call:0": "approve"})
    with pytest.raises(BadInput, match="the edit of"):
        await engine(journal, NONE).decide(run.id, {question.id: Answer("edit", value={"args": {"t": 1}})})
    await engine(journal, NONE).decide(run.id, {question.id: "approve"})
    assert engine(journal, NONE).waiting() == []
    assert (await engine(journal, tools).resume(run.id)).output == "paid ada"


async def test_a_run_that_is_driven_takes_no_answer() -> None:
    """Nobody writes to a run that another drives: the answer is refused, or waits until it is let go of."""
    journal = MemoryJournal()
    run = await engine(journal).run(each("ada"))
    log = journal.reopen(run.id)
    for patience in (0.0, 0.01):
        with pytest.raises(JournalError, match="being driven"):
            await engine(journal).decide(run.id, {"pays[0]:call:0": "approve"}, patience=patience)
    log.close()
    assert (
        await engine(journal).decide(run.id, {"pays[0]:call:0": "approve"}, patience=5)
    ).reason == "answered"


async def test_a_closed_run_takes_no_answer() -> None:
    """The sentence says how it ended."""
    journal = MemoryJournal()
    run = await engine(journal).run(each("ada"))
    engine(journal).cancel(run.id)
    with pytest.raises(BadInput, match=r"is closed \(stopped\)"):
        await engine(journal).decide(run.id, {"pays[0]:call:0": "approve"})


async def test_every_prefix_of_an_answered_run_leads_to_the_same() -> None:
    """What is kept between an answer and the resume is in the events alone."""
    from foreplan.executor.mind.mind import replay
    from foreplan.executor.mind.state import State

    journal = MemoryJournal()
    run = await engine(journal).run(each("ada", "bob"))
    await engine(journal).decide(run.id, {"pays[0]:call:0": "approve", "pays[1]:call:0": "reject"})
    end = await engine(journal).resume(run.id)
    events = list(journal.events(run.id))
    made = [event.seq for event in events if isinstance(event, DecisionMade)]
    [resumed] = [event.seq for event in events if isinstance(event, RunResumed)]
    assert max(made) < resumed
    assert run_of(replay(State(TOOLS), events)) == end


async def test_a_call_nobody_knows_of_is_made_again_once_somebody_says_so() -> None:
    """A `retry` that was kept is no attempt that was lost with a process: it is not asked about again."""
    journal, lines = MemoryJournal(), ["dead", "live"]

    @tool(effect="acts")
    async def dial(to: str) -> str:
        """Break the first time."""
        if lines.pop(0) == "dead":
            raise RuntimeError("the line went dead")
        return f"reached {to}"

    tools = Registry(dial)
    run = await engine(journal, tools).run(
        plan({"id": "d", "tool": "dial", "args": {"to": "ada"}}, output={"$": "d"})
    )
    await engine(journal, NONE).decide(run.id, {"d:unknown:1": "retry"})
    assert (await engine(journal, tools).resume(run.id)).output == "reached ada"


async def test_wherever_a_process_dies_the_answers_that_were_taken_hold() -> None:
    """An answered run is cut at every event: what is still asked is answered, and the run ends the same."""
    journal = MemoryJournal()
    run = await engine(journal).run(each("ada", "bob"))
    for to, word in (("ada", "approve"), ("bob", "reject")):
        await engine(journal).decide(
            run.id, {f"pays[{int(to == 'bob')}]:call:0": Answer(word, "eve", reason="r")}
        )
    end = await engine(journal).resume(run.id)
    events = list(journal.events(run.id))
    first = next(event.seq for event in events if isinstance(event, DecisionAsked))
    for cut in range(first + 1, len(events)):
        left = killed(journal, run.id, cut)
        said = {
            q.id: Answer("accept", value="paid ada") if q.asked.about == "unknown" else _word(q.id)
            for q in engine(left, NONE).waiting()
        }
        if said:
            await engine(left, NONE).decide(run.id, said)
        again = await engine(left).resume(run.id)
        if again.waiting:  # it died while it paid
            again = await engine(left).resume(
                run.id, decisions={again.waiting[0].id: Answer("accept", value="paid ada")}
            )
        assert (again.state, again.output, again.failures) == (end.state, end.output, end.failures), cut


def _word(id_: str) -> Answer:
    return Answer("approve" if "[0]" in id_ else "reject", "eve", reason="r")


async def test_an_answer_is_sealed_as_all_else_is(tmp_path: Path) -> None:
    """In a journal with a key an answer needs the key, and the record holds with it."""
    key = HmacSigner(b"k" * 32)
    with SqliteJournal(tmp_path / "runs.db", key=key) as journal:
        run = await engine(journal).run(each("ada"))
        await engine(journal, NONE).decide(run.id, {"pays[0]:call:0": "approve"})
        assert journal.verify(run.id).ok
    with SqliteJournal(tmp_path / "runs.db") as journal, pytest.raises(JournalError, match="key"):
        await engine(journal, NONE).decide(run.id, {"pays[0]:call:0": "approve"})


# ---- the time a run waits


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_time_of_waiting_is_not_the_run_s(backend: str) -> None:
    """Days between the question, the answer and the resume use no seconds of the budget."""
    import anyio

    async def main() -> Run:
        journal = MemoryJournal()
        rules: dict[str, Any] = {
            "policies": Policies(approve="never", budget=Budget(seconds=60)),
            "clock": now,
        }
        run = await engine(journal, **rules).run(each("ada"))
        await anyio.sleep(86_400)
        await engine(journal, **rules).decide(run.id, {"pays[0]:call:0": "approve"})
        await anyio.sleep(86_400)
        return await engine(journal, **rules).resume(run.id)

    ended = run_virtual(backend, main)
    assert (ended.state, ended.used.seconds) == ("done", 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_approval_that_expired_allows_no_call(backend: str) -> None:
    """A yes is refused with the next move and the question stays open; a no is taken; a yes in time does not outlive it."""
    import anyio

    journal = MemoryJournal()

    async def main() -> tuple[Run, Run]:
        here = engine(journal, clock=now)
        people = each("ada", "bob", "cy")
        run = await here.run(people, approval=here.approve(people, by="eve", expires_in=60))
        await here.decide(run.id, {"pays[2]:call:0": "approve"})
        assert [q.expires_at for q in here.waiting()] == [pytest.approx(now() + 60, abs=1)] * 2
        await anyio.sleep(61)
        for say in (here.decide, here.resume):
            with pytest.raises(NotApproved, match=r"has expired.*approve the plan again and run it anew"):
                await say(run.id, decisions={"pays[0]:call:0": "approve"})
        told = await here.decide(run.id, {"pays[0]:call:0": "reject", "pays[1]:call:0": "reject"})
        return told, await here.resume(run.id)

    told, ended = run_virtual(backend, main)
    assert (told.reason, paid) == ("answered", [])
    assert [failure.code for _, failure in ended.failures] == ["rejected", "rejected", "approval_expired"]


# ---- the list


async def test_the_list_holds_every_question_and_nothing_else(tmp_path: Path) -> None:
    """Oldest run first, with tool, reason, options, since when; what is answered, driven or closed is not there."""
    with SqliteJournal(tmp_path / "runs.db") as journal:
        here = engine(journal)
        first = await here.run(each("ada", "bob"))
        second = await here.run(plan({"id": "c", "tool": "charge", "args": {"card": "4111"}}, goal="Charge"))
        gone = await here.run(each("cy"))
        here.cancel(gone.id)
        await here.decide(first.id, {"pays[1]:call:0": "reject"})
        listed = engine(journal, NONE).waiting()
        assert [(q.run, q.id, q.asked.about) for q in listed] == [
            (first.id, "pays[0]:call:0", "call"),
            (second.id, "c:unknown:1", "unknown"),
        ]
        said = listed[0].to_json()
        assert (said["goal"], said["step"], said["tool"]) == ("Pay them", "pays[0]", "pay")
        assert said["question"]["args"] == {"to": "ada"}
        assert (said["reason"], said["options"]) == (
            "'pay' asks before each call",
            ["approve", "reject", "edit"],
        )
        assert listed[1].reason.endswith("the line went dead")


async def test_the_list_is_the_same_as_replaying_every_run() -> None:
    """The quick look never differs from what the runs themselves say."""
    journal = MemoryJournal()
    here = engine(journal)
    for n in range(4):
        run = await here.run(each(*"abcd"[: n + 1]))
        if n % 2:
            await here.decide(run.id, {"pays[0]:call:0": "approve"})
        if n == 3:
            await here.resume(run.id)
    slow = [(run.run, asked.id) for run in reversed(here.runs()) for asked in here.show(run.run).waiting]
    assert [(q.run, q.id) for q in questions_in(journal)] == slow
    assert len(slow) == 1 + 1 + 3 + 3


def test_five_hundred_waiting_runs_are_listed_at_no_cost(tmp_path: Path) -> None:
    """One run is held at a time: far below 20 MiB above what an open journal takes."""
    import tracemalloc

    made = MemoryJournal()
    run = engine(made).run_blocking(each("ada", "bob"))
    opened, *rest = made.events(run.id)
    assert isinstance(opened, RunOpened)
    with SqliteJournal(tmp_path / "runs.db") as journal:
        for n in range(500):
            log = journal.create(f"run-{n}")
            for event in (opened._replace(run=log.run), *rest):
                log.append(event)
            log.close()
        tracemalloc.start()
        listed = sum(1 for _ in questions_in(journal))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert (listed, peak < 4 << 20) == (1000, True), peak


async def test_a_killed_run_can_be_answered_too() -> None:
    """What it asked before its process died is listed, and the answer is taken in when it is resumed."""
    journal = MemoryJournal()
    run = await engine(journal).run(each("ada"))
    events = list(journal.events(run.id))
    assert isinstance(events[-1], RunPaused)
    killed = MemoryJournal()
    log = killed.create(run.id)
    for event in events[:-1]:
        log.append(event)
    log.close()
    assert [q.id for q in engine(killed, NONE).waiting()] == ["pays[0]:call:0"]
    told = await engine(killed, NONE).decide(run.id, {"pays[0]:call:0": "approve"})
    assert (told.reason, kinds(killed, run.id, RunPaused)[0].at) == ("answered", events[-2].at)
    assert (await engine(killed).resume(run.id)).output == ["paid ada"]


# ---- taken up by whoever looks after the journal


class Heard(list[tuple[str, str]]):
    """What is told of runs: what, and how it ended or why not."""

    def __call__(self, said: Progress) -> None:
        """Note it."""
        self.append((said.what, said.ended.state if isinstance(said.ended, Run) else said.why))


async def test_runs_that_are_answered_are_taken_up() -> None:
    """Only those of which every question is answered; one that waits on is left alone."""
    journal = MemoryJournal()
    one, two = [await engine(journal).run(each("ada", "bob")) for _ in range(2)]
    await engine(journal).decide(one.id, {"pays[0]:call:0": "approve", "pays[1]:call:0": "reject"})
    await engine(journal).decide(two.id, {"pays[0]:call:0": "approve"})
    heard = Heard()
    await engine(journal).resume_all(once=True, tell=heard)
    assert (paid, heard) == (["ada"], [("taken_up", ""), ("ended", "done")])
    await engine(journal).resume_all(once=True, tell=heard, partly=True)
    assert (paid, heard[2:]) == (["ada", "ada"], [("taken_up", ""), ("ended", "waiting")])
    assert [asked.id for asked in engine(journal).show(two.id).waiting] == ["pays[1]:call:0"]


def killed(journal: MemoryJournal, run: str, last: int) -> MemoryJournal:
    """The journal of a run whose process was killed after so many events."""
    left = MemoryJournal()
    log = left.create(run)
    for event in list(journal.events(run))[:last]:
        log.append(event)
    log.close()
    return left


async def test_runs_whose_process_was_killed_are_taken_up() -> None:
    """Wherever the process died; a run that waits for a person without an answer is not."""
    journal = MemoryJournal()
    run = await engine(journal).run(
        plan({"id": "a", "value": 1}, {"id": "c", "tool": "charge", "args": {"card": "1"}})
    )
    last = len(list(journal.events(run.id)))
    for cut in range(2, last + 1):
        left, heard = killed(journal, run.id, cut), Heard()
        await engine(left).resume_all(once=True, tell=heard)
        assert heard == ([] if cut == last else [("taken_up", ""), ("ended", "waiting")])
        assert engine(left).show(run.id).waiting[0].id == "c:unknown:1"


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_run_goes_on_within_a_second_of_its_answer(backend: str) -> None:
    """Two look after one journal: each run is driven once, and what is asked anew waits for its own answer."""
    import anyio

    heard = Heard()

    async def main() -> list[int]:
        journal = MemoryJournal()
        runs = [await engine(journal).run(each("ada")) for _ in range(5)]
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(lambda: engine(journal).resume_all(tell=heard, every=0.5))
            await anyio.sleep(3600)
            for run in runs:
                await engine(journal).decide(run.id, {"pays[0]:call:0": "approve"})
                await anyio.sleep(1)
                assert engine(journal).show(run.id).state == "done"
            tasks.cancel_scope.cancel()
        return [len(kinds(journal, run.id, RunResumed)) for run in runs]

    assert run_virtual(backend, main) == [1] * 5
    assert (paid, len(heard)) == (["ada"] * 5, 10)


@pytest.mark.parametrize("backend", BACKENDS)
def test_whoever_stops_looking_leaves_its_runs_to_the_next(backend: str) -> None:
    """Cancelled, it pauses what runs; the next goes on with that, but not with what a person interrupted."""
    import anyio

    @tool(effect="reads")
    async def slow() -> str:
        """Takes a while."""
        await anyio.sleep(20)
        return "slept"

    tools = Registry(slow)

    async def main() -> tuple[Heard, Heard, Heard]:
        journal, heard = MemoryJournal(), (Heard(), Heard(), Heard())
        with anyio.move_on_after(1):
            await engine(journal, tools).run(plan({"id": "s", "tool": "slow", "args": {}}))
        await engine(journal, tools).resume_all(once=True, tell=heard[0])
        with anyio.move_on_after(1):
            await engine(journal, tools).resume_all(paused=True, tell=heard[1])
        await engine(journal, tools).resume_all(once=True, tell=heard[2])
        return heard

    untouched, stopped, ended = run_virtual(backend, main)
    assert (untouched, stopped, ended) == ([], [("taken_up", "")], [("taken_up", ""), ("ended", "done")])


async def test_a_run_that_cannot_go_on_here_is_told_once() -> None:
    """Other tools, another principal: said with what differs; the next run is taken up all the same."""
    journal = MemoryJournal()
    here = engine(journal)
    runs = [
        await here.run(each("ada")),
        await engine(journal, principal=Principal(id="ann")).run(each("bob")),
    ]
    for run in runs:
        await here.decide(run.id, {"pays[0]:call:0": "approve"})
    heard = Heard()
    await here.resume_all(once=True, tell=heard)
    assert (paid, "for 'ann'" in dict(heard)["refused"]) == (["ada"], True)
    assert sorted(what for what, _ in heard) == ["ended", "refused", "taken_up"]
