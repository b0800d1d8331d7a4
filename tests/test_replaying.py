"""Any moment of a run can be looked at, a run can be run again on its record, and forked from a step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from support.chaos import Dreamer, FaultyJournal, Unchecked, World, plans, sound_plans, worlds
from support.shell import Shell, write_case
from support.virtual import BACKENDS, now
from test_executor_properties import driven, policies

from foreplan import Budget, Engine, MemoryJournal, Plan, Policies, Retry, tool
from foreplan.executor.events import RunResumed
from foreplan.executor.replays.comparing import Comparison
from foreplan.executor.replays.replaying import as_kept
from foreplan.policies.errors import BadInput, NotApproved

MANY = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


def again(engine: Unchecked, world: World) -> Comparison:
    """The run, run again with everything as it was; no tool is called."""
    made = len(world.made)
    found = engine.replay("r")
    assert len(world.made) == made
    return found


@MANY
@given(
    plans() | sound_plans(),
    worlds(),
    policies,
    st.sampled_from(BACKENDS),
    st.integers(0, 5),
    st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.5, 4.0, 7.0]), max_size=8),
    st.sampled_from([0, 0, 5, 11, 17, 23]),
)
def test_the_same_code_decides_the_same_whatever_happened(
    plan: Plan, world: World, rules: Policies, backend: str, choice: int, cuts: list[float], fails_at: int
) -> None:
    """Any plan in any world, cut, cancelled, out of disk, mended: replayed on its record, event for event the same."""
    journal = FaultyJournal()
    journal.fails_at = fails_at
    engine = Unchecked(world.registry, Dreamer(choice), policies=rules, journal=journal, clock=now)
    driven(backend, engine, plan, choice, cuts)
    found = again(engine, world)
    assert found.identical, found
    assert found.same
    event(f"cuts {bool(cuts)}")


# ---------------------------------------------------------------------------------------------- what differs


SENT: list[str] = []


@tool(effect="reads")
def rate(country: str) -> int:
    """The rate of a country."""
    return 20 if country == "de" else 10


@tool(effect="acts")
def send(to: str, text: str) -> str:
    """Send a text."""
    SENT.append(to)
    return f"sent to {to}"


FREE = Policies(approve="never")
PLAN = Plan.model_validate(
    {
        "goal": "Tell the rate",
        "steps": [
            {"id": "found", "tool": "rate", "args": {"country": "de"}},
            {"id": "double", "value": {"$": "found * 2"}},
            {"id": "told", "tool": "send", "args": {"to": "ada", "text": {"$": "str(double)"}}},
        ],
        "output": {"$": "told"},
    }
)


def with_step(plan: Plan, id: str, **parts: Any) -> Plan:
    """The plan with another step of this id, or with one more."""
    document = plan.to_json()
    step = next((s for s in document["steps"] if s["id"] == id), None)
    if step is None:
        document["steps"].append({"id": id, **parts})
    else:
        step.update(parts)
    return Plan.model_validate(document)


def ran(*tools: Any, **options: Any) -> Engine:
    """An engine whose journal holds the run `r`, done."""
    engine = Engine(tools or (rate, send), policies=FREE, **options)
    assert engine.run_blocking(PLAN, run_id="r").ok
    SENT.clear()
    return engine


def kinds(found: Comparison) -> list[tuple[str, str]]:
    return [(difference.kind, difference.where) for difference in found.differences]


def test_a_state_can_be_looked_at_after_any_event() -> None:
    """After the first the run has no step; after the last it is what `show` says without a number."""
    engine = ran()
    last = len(list(engine.journal.events("r")))
    assert engine.show("r", at=1).steps == {}
    assert [engine.show("r", at=n).tool_calls for n in (3, last)] == [1, 2]
    assert engine.show("r", at=last) == engine.show("r")
    with pytest.raises(BadInput, match=f"events 1 to {last}, and none {last + 1}"):
        engine.show("r", at=last + 1)


def test_a_run_replayed_with_everything_as_it_was_is_the_same() -> None:
    """No tool is called, and every event is the recorded one."""
    found = ran().replay("r")
    assert (found.same, found.identical, found.changed, found.not_recorded) == (True, True, (), ())
    assert SENT == []


def test_other_arguments_are_a_difference_and_what_follows_is_unknown() -> None:
    """The recorded result is for other arguments, so it is not served; the branch ends there, clearly marked."""
    found = ran().replay("r", plan=with_step(PLAN, "double", value={"$": "found * 3"}))
    assert ("args", "told") in kinds(found)
    assert ("value", "double") in kinds(found)
    assert found.not_recorded == ("told: what 'send' gives",)
    assert found.now is not None
    assert found.now.state != "done"
    assert "changed double" in found.changed[0]
    assert SENT == []


def test_a_call_that_would_be_made_now_and_one_that_would_not() -> None:
    """Both are told, with tool and arguments."""
    other = with_step(PLAN, "told", args={"to": "bob", "text": "x"})
    more = with_step(other, "again", tool="rate", args={"country": "fr"})
    found = ran().replay("r", plan=more)
    assert ("call", "again") in kinds(found)
    less = Plan.model_validate({**PLAN.to_json(), "steps": PLAN.to_json()["steps"][:2], "output": None})
    assert ("call", "told") in kinds(ran().replay("r", plan=less))


def test_a_step_with_another_name_is_served_from_the_record() -> None:
    """The same call under another id has its result, and the new name is told."""
    text = json.dumps(PLAN.to_json()).replace("found", "rated")
    found = ran().replay("r", plan=Plan.model_validate(json.loads(text)))
    assert ("call", "rated") in kinds(found)
    assert found.now is not None
    assert found.now.ok
    assert found.not_recorded == ()


def test_a_recorded_result_that_the_tool_of_today_would_not_give_is_a_difference() -> None:
    """The contract changed: the result is held against it."""

    @tool(name="rate", effect="reads")
    def rate_now(country: str) -> str:
        """The rate of a country."""
        return "20"

    journal = MemoryJournal()
    ran(journal=journal)
    plan = with_step(PLAN, "double", value={"$": "found + found"})
    Engine([rate, send], policies=FREE, journal=journal).run_blocking(plan, run_id="s")
    found = Engine([rate_now, send], policies=FREE, journal=journal).replay("s")
    assert ("result", "found") in kinds(found)
    assert any("'rate'" in said for said in found.changed)


def test_other_rules_say_what_they_would_have_stopped() -> None:
    """One attempt only ends the run; a budget is too small for the plan; a rule that asks for approval is told."""
    tries: list[str] = []

    @tool(name="rate", effect="reads")
    def closed_once(country: str) -> int:
        """The rate of a country."""
        tries.append(country)
        if len(tries) == 1:
            raise ConnectionRefusedError("closed")
        return 20

    journal = MemoryJournal()
    eager = FREE.model_copy(update={"retry": Retry(base=0.0)})
    engine = Engine([closed_once, send], policies=eager, journal=journal)
    assert engine.run_blocking(PLAN, run_id="r").ok
    found = engine.replay("r", policies=FREE.model_copy(update={"retry": Retry(attempts=1)}))
    assert {("attempts", "found"), ("outcome", "found"), ("call", "told"), ("end", "")} <= set(kinds(found))
    assert (len(tries), found.not_recorded) == (2, ())
    assert kinds(engine.replay("r", policies=FREE.model_copy(update={"budget": Budget(tool_calls=1)}))) == [
        ("check", "")
    ]
    assert ("approval", "") in kinds(ran().replay("r", policies=Policies()))


def test_rules_are_held_against_those_that_held_then() -> None:
    """Somebody accepted others on the way: what was decided by the first differs from them, what came later does not."""

    @tool(name="rate", effect="reads", requires_approval="each")
    def asked(country: str) -> int:
        """The rate of a country."""
        return 20

    journal, patient = MemoryJournal(), FREE.model_copy(update={"retry": Retry(attempts=9)})
    first, later = (Engine([asked, send], policies=rules, journal=journal) for rules in (FREE, patient))
    waits = first.run_blocking(PLAN, run_id="r")
    decisions = {waits.waiting[0].id: "approve"}
    assert later.resume_blocking("r", decisions=decisions, accept_changes="bob").ok
    [resumed] = [event.seq for event in journal.events("r") if isinstance(event, RunResumed)]
    assert later.replay("r", policies=patient).changed == (f"policies of events 1 to {resumed - 1}: retry",)
    assert later.replay("r", policies=FREE).changed == (f"policies from event {resumed} on: retry",)
    assert (later.replay("r").changed, later.replay("r").identical) == ((), True)


def test_a_plan_that_does_not_check_any_more_would_not_be_run() -> None:
    """The tool is gone: findings, and no run."""
    found = ran().replay("r", tools=[rate])
    assert {kind for kind, _ in kinds(found)} == {"check"}
    assert found.now is None


def test_a_person_who_would_be_asked_now_is_a_difference() -> None:
    """The tool asks before each call today; the recorded run did not."""

    @tool(name="send", effect="acts", requires_approval="each")
    def send_now(to: str, text: str) -> str:
        """Send a text."""
        return "no"

    found = ran().replay("r", tools=[rate, send_now])
    assert ("question", "told:call:0") in kinds(found)


# ---------------------------------------------------------------------------------------------- forks


def test_a_fork_takes_over_what_was_settled_before_the_step() -> None:
    """Only the named step and what depends on it runs; the origin is named, and the new journal needs it no more."""
    calls: list[str] = []

    @tool(name="rate", effect="reads")
    def counted(country: str) -> int:
        """The rate of a country."""
        calls.append(country)
        return 20

    engine = ran(counted, send)
    run = engine.fork_blocking(
        "r", from_step="double", plan=with_step(PLAN, "double", value={"$": "found * 3"})
    )
    assert (run.ok, run["double"], calls, SENT) == (True, 60, ["de"], ["ada"])
    assert (run.forked_from, run.id.startswith("r~")) == ("r", True)
    assert run.steps["found"].reason == "taken over from run r"
    assert engine.show(run.id) == run
    assert engine.replay(run.id).identical


def test_what_acted_in_the_origin_goes_to_a_person() -> None:
    """The very same call is not made once more unless somebody says so."""
    engine = ran()
    run = engine.fork_blocking("r", from_step="told")
    assert (run.state, SENT) == ("waiting", [])
    (asked,) = run.waiting
    assert "in run r, from which this one was forked" in asked.question["reason"]
    ended = engine.resume_blocking(run.id, decisions={asked.id: "approve"})
    assert (ended.ok, SENT) == (True, ["ada"])


def test_a_fork_needs_an_approval_as_any_run_does() -> None:
    """Without one it is refused, and nothing is written."""
    journal = MemoryJournal()
    ran(journal=journal)
    engine = Engine([rate, send], journal=journal)
    with pytest.raises(NotApproved):
        engine.fork_blocking("r", from_step="double")
    assert len(journal.runs()) == 1
    plan = with_step(PLAN, "told", args={"to": "bob", "text": {"$": "str(double)"}})
    approval = engine.approve(plan, by="ada")
    assert engine.fork_blocking("r", from_step="told", plan=plan, approval=approval).ok


def test_a_fork_from_a_step_that_is_not_there_is_refused_with_the_nearest() -> None:
    """A misspelt step forks nothing."""
    with pytest.raises(BadInput, match="did you mean 'double'"):
        ran().fork_blocking("r", from_step="duoble")


def test_a_result_that_does_not_fit_the_tool_of_today_is_not_taken_over() -> None:
    """The steps after it were checked against what the tool declares now."""

    @tool(name="rate", effect="reads")
    def rate_now(country: str) -> str:
        """The rate of a country."""
        return "20"

    journal = MemoryJournal()
    plan = with_step(PLAN, "double", value={"$": "found + found"})
    Engine([rate, send], policies=FREE, journal=journal).run_blocking(plan, run_id="r")
    with pytest.raises(BadInput, match="fork from 'found'"):
        Engine([rate_now, send], policies=FREE, journal=journal).fork_blocking("r", from_step="told")


def test_secrets_that_were_taken_out_stay_out() -> None:
    """Where the record holds a stand-in, a replay that would make the secret anew shows the stand-in."""
    then = {"a": ["x [secret KEY] y", "plain"], "n": 1}
    assert as_kept(then, {"a": ["x sk-12345678 y", "plain"], "n": 1}) == then
    assert as_kept("x [secret KEY]", "y sk-12345678") == "y sk-12345678"


# ---------------------------------------------------------------------------------------------- on the command line


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """A folder with a plan and its run `last` in `runs.db`."""
    write_case(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name in ("FOREPLAN_TOOLS", "FOREPLAN_JOURNAL", "COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    steps = [
        {"id": "rows", "tool": "read_ledger", "args": {"path": "x"}},
        {"id": "n", "value": {"$": "len(rows)"}},
    ]
    Path("read.json").write_text(json.dumps({"steps": steps, "output": {"$": "n"}}))
    steps[1] = {"id": "n", "value": {"$": "len(rows) + 1"}}
    Path("other.json").write_text(json.dumps({"steps": steps, "output": {"$": "n"}}))
    shell = Shell(tmp_path, capsys)
    assert shell.here("run", "read.json", "--tools", "shop.py", "--journal", "runs.db").code == 0
    return shell


def test_replay_on_the_command_line_says_whether_anything_differs(shell: Shell) -> None:
    """Exit code 0 where all is the same, also without the tools; 1 with what differs."""
    assert shell.here("replay", "last", "--journal", "runs.db").code == 0
    said = shell.here("replay", "last", "--tools", "shop.py", "--journal", "runs.db", "--compare")
    assert (said.code, "all the same" in said.out) == (0, True)
    words = ("replay", "last", "--journal", "runs.db", "--plan", "other.json", "--compare")
    said = shell.here(*words)
    assert (said.code, "gives 4 now, 3 then" in said.out) == (1, True)
    assert shell.here(*words, "--json").document["same"] is False


def test_a_fork_and_a_moment_on_the_command_line(shell: Shell) -> None:
    """The fork says where it comes from, in `show` and in `runs`."""
    said = shell.here("show", "last", "--journal", "runs.db", "--at", "2", "--json")
    assert (said.code, said.document["state"]) == (0, "running")
    words = ("--tools", "shop.py", "--journal", "runs.db", "--plan", "other.json", "--json")
    forked = shell.here("fork", "last", "--from", "n", *words).document
    assert (forked["output"], forked["tool_calls"]) == (4, 0)
    origin = forked["forked_from"]
    told = " ".join(shell.here("show", forked["run"], "--journal", "runs.db").out.split())
    assert f"forked from run {origin}" in told
    listed = shell.here("runs", "--journal", "runs.db", "--json").document["runs"]
    assert [run.get("forked_from") for run in listed] == [origin, None]
