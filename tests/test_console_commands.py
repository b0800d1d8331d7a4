"""Each command does what its help says, shows it to people and to programs, and ends with the code that is promised."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from support.shell import Shell, child_environment, write_case

from foreplan.planner.approvals import read_approval
from foreplan.planner.documents import load_plan

TOOLS = ("--tools", "shop.py")
MAY = ("--permission", "payments.refund")
LEDGER = ("--set", "ledger=ledger.csv")
KEPT = ("--journal", "runs.db")


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """A folder with tools and plans, in which commands are typed."""
    write_case(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name in ("FOREPLAN_TOOLS", "FOREPLAN_JOURNAL", "COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return Shell(tmp_path, capsys)


def run_id(shell: Shell, journal: str = "runs.db") -> str:
    """The newest run of a journal."""
    return str(shell.here("runs", "--journal", journal, "--json").document["runs"][0]["run"])


# ---------------------------------------------------------------------------------------------- before a run


def test_plan_writes_what_the_planner_says(shell: Shell) -> None:
    """The plan in the file is the planner's, checked, and can be read back."""
    said = shell.here("plan", "read it", *TOOLS, "--planner", "shop.py", "-o", "made.yaml")
    assert (said.code, said.out) == (0, "")
    assert load_plan("made.yaml").goal == "read it"


def test_plan_without_a_file_writes_to_standard_output(shell: Shell) -> None:
    """Standard output holds the plan and nothing else, so it can be piped."""
    said = shell.here("plan", "read it", *TOOLS, "--planner", "shop.py")
    Path("piped.yaml").write_text(said.out)
    assert load_plan("piped.yaml").goal == "read it"


def test_a_planner_that_gives_no_good_plan_has_failed(shell: Shell) -> None:
    """What the planner did wrong is no mistake of the caller: exit code 1, and the finding."""
    Path("poor.py").write_text(
        "from foreplan import FunctionPlanner\n"
        "planner = FunctionPlanner(lambda request: {'steps': [{'id': 'a', 'tool': 'read_leger'}]})\n"
    )
    said = shell.here("plan", "x", *TOOLS, "--planner", "poor.py")
    assert (said.code, "read_ledger" in said.err) == (1, True)


def test_a_planner_that_cannot_says_why(shell: Shell) -> None:
    """`cannot plan` is an answer: exit code 1, with the reason."""
    Path("humble.py").write_text(
        "from foreplan import FunctionPlanner\nplanner = FunctionPlanner(lambda request: 'no tool sends letters')\n"
    )
    said = shell.here("plan", "x", *TOOLS, "--planner", "humble.py")
    assert (said.code, "no tool sends letters" in said.err) == (1, True)


def test_a_planner_that_breaks_is_told_with_its_line(shell: Shell) -> None:
    """An exception of the planner is a sentence that names its file and line."""
    Path("broken.py").write_text(
        "from foreplan import FunctionPlanner\n\ndef rule(request):\n    return 1 / 0\n\nplanner = FunctionPlanner(rule)\n"
    )
    said = shell.here("plan", "x", *TOOLS, "--planner", "broken.py")
    assert (said.code, "ZeroDivisionError" in said.err, "broken.py, line 4" in said.err) == (1, True, True)
    assert "Traceback" not in said.err


def test_check_of_a_good_plan_is_done(shell: Shell) -> None:
    """Exit code 0 and a sentence."""
    said = shell.here("check", "plan.yaml", *TOOLS, *MAY)
    assert said.code == 0, said.err
    assert "plan.yaml checks" in said.out


def test_check_names_every_problem_at_its_place(shell: Shell) -> None:
    """Exit code 2, each finding with line, column, the line itself and a suggestion."""
    Path("bad.yaml").write_text(Path("plan.yaml").read_text().replace("tool: refund", "tool: refnd"))
    said = shell.here("check", "bad.yaml", *TOOLS, *MAY)
    assert said.code == 2
    assert "bad.yaml" in said.out
    assert "bad.yaml:17:11" in said.out
    assert "tool: refnd\n" in said.out
    assert "refund" in said.out


def test_check_in_sarif_is_one_log(shell: Shell) -> None:
    """On stdout alone, with places; the same exit code; a plan that cannot be read is a log, too."""
    Path("bad.yaml").write_text(Path("plan.yaml").read_text().replace("tool: refund", "tool: refnd"))
    said = shell.here("check", "bad.yaml", *TOOLS, *MAY, "--sarif")
    (result, *_) = json.loads(said.out)["runs"][0]["results"]
    assert (said.code, result["ruleId"]) == (2, "unknown_tool")
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 17
    Path("worse.yaml").write_text("steps: [")
    said = shell.here("check", "worse.yaml", *TOOLS, *MAY, "--sarif")
    assert (said.code, json.loads(said.out)["runs"][0]["results"][0]["ruleId"]) == (2, "syntax")


def test_check_in_json_has_line_and_column(shell: Shell) -> None:
    """Programs get the same findings as people."""
    Path("bad.yaml").write_text(Path("plan.yaml").read_text().replace("tool: refund", "tool: refnd"))
    [finding] = shell.here("check", "bad.yaml", *TOOLS, *MAY, "--json").document["findings"]
    assert (finding["code"], finding["line"], finding["column"]) == ("unknown_tool", 17, 11)


def test_review_shows_what_cannot_be_taken_back_first(shell: Shell) -> None:
    """The irreversible part stands before the steps, and nothing runs."""
    said = shell.here("review", "plan.yaml", *TOOLS, *MAY, *LEDGER)
    assert said.code == 0, said.err
    assert 0 < said.out.index("Cannot be taken back") < said.out.index("Steps")
    assert "a tool that prints" not in said.out + said.err


def test_review_computes_what_is_known_of_the_inputs(shell: Shell) -> None:
    """With inputs, an argument is shown as it will be, and where it comes from."""
    said = shell.here("review", "plan.yaml", *TOOLS, *MAY, *LEDGER)
    assert 'path = "ledger.csv"   from inputs.ledger' in said.out


def test_approve_writes_a_file_that_binds_the_plan(shell: Shell) -> None:
    """The file holds who, which plan, which scope."""
    words = ("--by", "ada", "--scope", "reads", "--expires-in", "24h", "--yes", "-o", "plan.approval.json")
    said = shell.here("approve", "plan.yaml", *TOOLS, *MAY, *LEDGER, *words)
    approval = read_approval(Path("plan.approval.json").read_text())
    assert (said.code, approval.by, approval.scope) == (0, "ada", "reads")
    assert approval.plan == load_plan("plan.yaml").digest


def test_approve_without_a_terminal_or_a_yes_is_not_approved(shell: Shell) -> None:
    """Exit code 3, the review is shown, no file is written."""
    said = shell.here("approve", "plan.yaml", *TOOLS, *MAY, *LEDGER, "-o", "plan.approval.json")
    assert (said.code, Path("plan.approval.json").exists()) == (3, False)
    assert "Cannot be taken back" in said.out


def test_diff_shows_what_changed(shell: Shell) -> None:
    """Field by field, old and new."""
    Path("new.yaml").write_text(Path("plan.yaml").read_text().replace("> inputs.limit", ">= inputs.limit"))
    said = shell.here("diff", "plan.yaml", "new.yaml")
    assert said.code == 0
    assert "~ large" in said.out
    assert ">= inputs.limit" in said.out.replace("\n", " ")


def test_tools_lists_effects(shell: Shell) -> None:
    """One line for each tool, with what it needs."""
    said = shell.here("tools", *TOOLS)
    lines = [line.split() for line in said.out.splitlines()]
    assert ["refund", "acts", "payments.refund", "Refund", "a", "payment."] in lines


def test_a_document_stands_for_its_tools(shell: Shell) -> None:
    """An OpenAPI document is named like a module; what was left out is told, a bad one is refused in a sentence."""
    path = {
        "get": {"operationId": "find", "responses": {}},
        "trace": {"operationId": "echo", "responses": {}},
    }
    document = {"openapi": "3.1.0", "servers": [{"url": "https://pets.example"}], "paths": {"/pets": path}}
    Path("pets.json").write_text(json.dumps(document))
    said = shell.here("tools", "--tools", "pets.json")
    assert (said.code, "find  reads" in said.out, "it is not called" in said.out) == (0, True, True)
    found = json.loads(shell.here("tools", "--tools", "pets.json", "--json").out)
    assert [finding["code"] for finding in found["findings"]] == ["unsupported_method"]
    for spec, why in [
        ("none.yaml", "there is no file"),
        ("http://127.0.0.1:8000/a.json", "public addresses"),
    ]:
        refused = shell.here("tools", "--tools", spec)
        assert (refused.code, why in refused.err) == (2, True)


def test_one_tool_is_shown_with_its_arguments(shell: Shell) -> None:
    """Name, effect, description of each argument."""
    said = shell.here("tools", "read_ledger", *TOOLS)
    assert (said.code, "The ledger." in said.out) == (0, True)


def test_one_tool_is_shown_whole_with_what_the_rules_make_of_it(shell: Shell) -> None:
    """Level, limits and time under these rules, cost, secrets, stand-ins, examples, fingerprint; JSON holds the same."""
    Path("hotel.py").write_text(
        "from foreplan import tool\n"
        "def as_if(room: str): return room\n"
        "@tool(level='high', cost=0.5, host='api.hotel.example', undo='leave', simulate=as_if, tags=['travel'],\n"
        "      examples=[{'room': 'blue'}], secret_refs={'token': 'HOTEL_TOKEN'}, requires_approval='each')\n"
        "def stay(room: str, token: str) -> str:\n    'Stay.'\n    return room\n"
        "@tool\ndef leave(room: str) -> None:\n    'Leave.'\n"
        "registry = [stay, leave]\n"
    )
    Path("rules.yaml").write_text(
        "tool_timeout: 7\nmax_level: medium\nlimits: {tool: {stay: 2}, rates: {host: {api.hotel.example: 5/s}}}\n"
    )
    page = shell.here("tools", "stay", "--tools", "hotel.py", "--policies", "rules.yaml").out
    for words in (
        "high, refused: above medium",
        "asked at each call",
        "7 s by policy",
        "at most 2 at once",
        "at most 5/s on api.hotel.example",
        "0.5 a call",
        "token from HOTEL_TOKEN",
        "undone by",
        "simulated",
        "a person is asked",
        "travel",
        "hotel.stay",
        "sha256:",
        "blue",
    ):
        assert words in page, words
    [told] = shell.here("tools", "stay", "--tools", "hotel.py", "--json").document["tools"]
    assert (told["simulate"], told["cost"], told["examples"]) == (True, 0.5, [{"room": "blue"}])
    assert told["fingerprint"].startswith("sha256:")


def test_a_rehearsal_says_that_it_was_one(shell: Shell) -> None:
    """Stand-ins are called, nothing is kept; a tool without one fails, which is exit code 1."""
    Path("hotel.py").write_text(
        "from foreplan import tool\n"
        "@tool(simulate=lambda room: 'as if ' + room)\n"
        "def stay(room: str) -> str:\n    'Stay.'\n    raise SystemExit(9)\n"
        "@tool(effect='reads')\ndef rooms() -> list[str]:\n    'Rooms.'\n    return ['blue']\n"
        "registry = [stay, rooms]\n"
    )
    Path("stay.yaml").write_text(
        "foreplan: 1\nsteps:\n  - {id: r, tool: rooms}\n  - {id: s, tool: stay, each: {$: r}, args: {room: {$: item}}}\n"
    )
    said = shell.here("rehearse", "stay.yaml", "--tools", "hotel.py", "--reads")
    assert said.code == 0
    assert "a rehearsal, in which nothing was changed (1 call was simulated, 1 call really read)" in " ".join(
        said.out.split()
    )
    told = shell.here("rehearse", "stay.yaml", "--tools", "hotel.py", "--json")
    assert (told.code, told.document["rehearsal"]) == (1, True)
    assert [failure["code"] for failure in told.document["failures"]] == ["not_simulated"]


def test_tools_are_searched_by_words(shell: Shell) -> None:
    """The best first, at most k; as JSON the contracts; words after anything but `search` are a mistake."""
    said = shell.here("tools", "search", "a refund", "-k", "1", *TOOLS)
    assert [line.split()[0] for line in said.out.splitlines()] == ["refund"]
    found = shell.here("tools", "search", "ledger", "--json", *TOOLS)
    assert json.loads(found.out)["tools"][0]["name"] == "read_ledger"
    nothing = shell.here("tools", "search", "quarks", *TOOLS)
    assert (nothing.code, nothing.out.strip()) == (0, "no tool fits these words")
    wrong = shell.here("tools", "serch", "a refund", *TOOLS)
    assert (wrong.code, "foreplan tools search 'a refund'" in wrong.err) == (2, True)


# ---------------------------------------------------------------------------------------------- running


def test_a_plan_that_acts_does_not_run_without_an_approval(shell: Shell) -> None:
    """Exit code 3, and the sentence says how to approve."""
    said = shell.here("run", "plan.yaml", *TOOLS, *MAY, *LEDGER)
    assert (said.code, "--approve" in said.err, said.out) == (3, True, "")


def test_a_run_that_does_not_begin_leaves_no_journal(shell: Shell) -> None:
    """Neither a bad plan nor a missing yes makes a file."""
    Path("bad.yaml").write_text(Path("plan.yaml").read_text().replace("tool: refund", "tool: refnd"))
    for plan in ("plan.yaml", "bad.yaml"):
        shell.here("run", plan, *TOOLS, *MAY, *LEDGER, "--journal", "runs.db")
    assert not Path("runs.db").exists()


def test_an_approved_plan_runs(shell: Shell) -> None:
    """From approval to output, with the file between."""
    shell.here("approve", "plan.yaml", *TOOLS, *MAY, *LEDGER, "--yes", "-o", "yes.json")
    said = shell.here("run", "plan.yaml", *TOOLS, *MAY, *LEDGER, "--approval", "yes.json", *KEPT, "--json")
    assert said.code == 0, said.err
    assert said.document["output"] == {"refunded": ["refunded p2", "refunded p3"]}


def test_an_approval_file_wants_the_journal_that_remembers_it(shell: Shell) -> None:
    """Without a journal one yes would be many: nothing runs, and the sentence names the option."""
    shell.here("approve", "plan.yaml", *TOOLS, *MAY, *LEDGER, "--yes", "-o", "yes.json")
    words = ("run", "plan.yaml", *TOOLS, *MAY, *LEDGER, "--approval", "yes.json")
    said = [shell.here(*words) for _ in range(2)]
    assert [(one.code, "--journal FILE" in one.err, one.out) for one in said] == [(2, True, "")] * 2


def test_approve_says_what_to_type_next_and_it_works_once(shell: Shell) -> None:
    """The command under the yes names a journal; typed twice it runs once."""
    told = shell.here("approve", "plan.yaml", *TOOLS, *MAY, *LEDGER, "--yes", "-o", "yes.json").err
    [command] = [line for line in told.splitlines() if line.startswith("  foreplan run ")]
    assert [shell.here(*shlex.split(command)[1:]).code for _ in range(2)] == [0, 3]


def test_an_approval_on_stdout_stands_there_alone(shell: Shell) -> None:
    """`-o -` is stdout, which a pipe reads: the review goes beside it."""
    said = shell.here("approve", "plan.yaml", *TOOLS, *MAY, *LEDGER, "--yes", "-o", "-")
    assert json.loads(said.out)["foreplan_approval"] == 1


def test_an_approval_is_used_once(shell: Shell) -> None:
    """The second run with the same approval is refused, by name of the first."""
    shell.here("approve", "plan.yaml", *TOOLS, *MAY, *LEDGER, "--yes", "-o", "yes.json")
    words = ("run", "plan.yaml", *TOOLS, *MAY, *LEDGER, "--approval", "yes.json", *KEPT)
    assert [shell.here(*words).code for _ in range(2)] == [0, 3]


def test_an_approval_must_be_signed_where_approvers_have_keys(shell: Shell) -> None:
    """`--key` signs, `--approver-key` says whose signature counts; without one it is refused, saying so."""
    Path("ada.key").write_text("0f" * 32)
    approve = ("approve", "plan.yaml", *TOOLS, *MAY, *LEDGER, "--yes", "--by", "ada")
    run = (
        "run",
        "plan.yaml",
        *TOOLS,
        *MAY,
        *LEDGER,
        "--approver-key",
        "ada=ada.key",
        "--approval",
        "yes.json",
        *KEPT,
    )
    shell.here(*approve, "-o", "yes.json")
    said = shell.here(*run)
    assert (said.code, "the approval is not signed" in said.err) == (3, True)
    shell.here(*approve, "--key", "ada.key", "-o", "yes.json")
    assert shell.here(*run).code == 0


def test_a_journal_is_sealed_carried_elsewhere_proved_and_pruned(shell: Shell) -> None:
    """From `--journal-key` to `prune`; a change is exit code 1, and the position that `show` prints proves the run."""
    Path("journal.key").write_text("0f" * 32)
    seal = ("--journal-key", "journal.key")
    run = ("run", "plan.yaml", *TOOLS, *MAY, *LEDGER, "--approve", "--yes", "--journal", "runs.db")
    assert shell.here(*run, *seal).code == 0
    assert shell.here(*run).code != 0  # without its key nobody writes to it
    fork = ("fork", "last", "--from", "payments", *TOOLS, *MAY, "--approve", "--yes", "--journal", "runs.db")
    assert "key" in shell.here(*fork, "--json").document["error"]["message"]
    assert shell.here(*fork, *seal, "--json").document["state"] == "waiting"
    run_id = shell.here("runs", "--journal", "runs.db", "--json").document["runs"][-1]["run"]
    position = shell.here("show", run_id, "--journal", "runs.db", "--json").document["position"]
    assert f"position {position}" in shell.here("show", run_id, "--journal", "runs.db").err
    words = ("verify", "runs.db", run_id, "--key", "journal.key", "--last")
    assert shell.here(*words, position).code == 0
    said = shell.here(*words, position[:-1] + ("1" if position[-1] == "0" else "0"), "--json")
    assert (said.code, "is not the one of the position" in said.document["problems"][0]) == (1, True)
    Path("runs.jsonl").write_text(shell.here("export", "runs.db").out)
    assert shell.here("import", "copy.db", "runs.jsonl", *seal).code == 0
    assert shell.here("import", "copy.db", "runs.jsonl", *seal).code != 0
    said = shell.here("verify", "copy.db", "--key", "journal.key", "--json")
    assert (said.document["ok"], said.document["problems"]) == (True, [])
    assert shell.here("prune", "copy.db", "--older-than", "1d", *seal, "--json").document == {"pruned": []}
    said = shell.here("forget", "copy.db", run_id, *seal, "--json")
    assert said.document["deleted"] == 0


def test_an_approval_for_other_inputs_is_refused(shell: Shell) -> None:
    """Exit code 3, and it says that the inputs differ."""
    shell.here("approve", "plan.yaml", *TOOLS, *MAY, *LEDGER, "--yes", "-o", "yes.json")
    said = shell.here(
        "run",
        "plan.yaml",
        *TOOLS,
        *MAY,
        "--set",
        "ledger=other.csv",
        "--approval",
        "yes.json",
        *KEPT,
        "--json",
    )
    assert (said.code, said.document["error"]["differences"]) == (
        3,
        ["the inputs differ from those that were approved"],
    )


def test_run_with_approve_and_yes_goes_in_one_go(shell: Shell) -> None:
    """The review is shown on stderr, the run's account on stdout."""
    said = shell.here("run", "plan.yaml", *TOOLS, *MAY, *LEDGER, "--approve", "--yes")
    assert said.code == 0, said.err
    assert "Cannot be taken back" in said.err
    assert "refunded p3" in said.out


def test_a_failed_run_is_exit_code_1_and_says_what_next(shell: Shell) -> None:
    """Failures are grouped by kind, with message, hint and the next move."""
    Path("closed").touch()
    said = shell.here("run", "plan.yaml", *TOOLS, *MAY, *LEDGER, "--approve", "--yes")
    assert said.code == 1
    for part in ("failed", "business", "account_closed", "the account is closed", "hint: ask the bank"):
        assert part in said.out


def test_a_run_that_waits_for_a_person_is_exit_code_3(shell: Shell) -> None:
    """Nobody can be asked: the run waits, and the command to answer with is shown."""
    said = shell.here("run", "pays.yaml", *TOOLS, "--approve", "--yes", "--journal", "runs.db")
    assert said.code == 3
    assert "Questions" in said.out
    assert "foreplan resume" in said.err
    assert "--decide" in said.err
    assert not Path("paid.txt").exists()


def test_the_command_that_is_shown_for_an_answer_works(shell: Shell) -> None:
    """Answering both questions by id ends the run."""
    shell.here("run", "pays.yaml", *TOOLS, "--approve", "--yes", "--journal", "runs.db")
    waiting = shell.here("show", run_id(shell), "--journal", "runs.db", "--json").document["waiting"]
    answers = [word for asked in waiting for word in ("--decide", f"{asked['id']}=approve")]
    said = shell.here(
        "resume", run_id(shell), *TOOLS, "--journal", "runs.db", *answers, "--by", "ada", "--json"
    )
    assert said.code == 0, said.err
    assert said.document["output"] == ["paid ada", "paid bob"]


def test_a_changed_tool_is_refused_or_accepted_by_name(shell: Shell) -> None:
    """Exit code 3 with what differs; with --accept-changes the run goes on, and its events say who accepted what."""
    shell.here("run", "pays.yaml", *TOOLS, "--approve", "--yes", "--journal", "runs.db")
    waiting = shell.here("show", "last", "--journal", "runs.db", "--json").document["waiting"]
    answers = [word for asked in waiting for word in ("--decide", f"{asked['id']}=approve")]
    source = Path("shop.py").read_text()
    asks = 'requires_approval="each"'
    Path("other.py").write_text(source.replace(asks, f'{asks}, version="2"'))
    words = ("resume", "last", "--tools", "other.py", "--journal", "runs.db", *answers)
    said = shell.here(*words, "--json")
    assert (said.code, "version" in said.document["error"]["differences"][0]) == (3, True)
    assert "--accept-changes" in said.document["error"]["message"]
    assert shell.here(*words, "--accept-changes", "--by", "bob").code == 0
    events = shell.here("show", "last", "--journal", "runs.db", "--events").out
    assert "bob accepted: tool 'pay' changed" in " ".join(events.split())


def test_a_rejected_call_is_never_made(shell: Shell) -> None:
    """One yes, one no: one payment, and a failed run."""
    shell.here("run", "pays.yaml", *TOOLS, "--approve", "--yes", "--journal", "runs.db")
    waiting = shell.here("show", run_id(shell), "--journal", "runs.db", "--json").document["waiting"]
    answers = ["--decide", f"{waiting[0]['id']}=reject", "--decide", f"{waiting[1]['id']}=approve"]
    said = shell.here("resume", run_id(shell), *TOOLS, "--journal", "runs.db", *answers)
    assert (said.code, Path("paid.txt").read_text()) == (1, "bob\n")


def test_an_outcome_that_nobody_knows_waits_for_a_person(shell: Shell) -> None:
    """The tool acted, or not: the run waits, and a person says what the call gave."""
    said = shell.here("run", "charges.yaml", *TOOLS, "--approve", "--yes", "--journal", "runs.db")
    assert (said.code, "charge may have acted, and nobody knows" in said.out) == (3, True)
    assert "accept: it happened, and you say what it gave" in said.out
    [asked] = shell.here("show", "last", "--journal", "runs.db", "--json").document["waiting"]
    answer = f'{asked["id"]}=accept:{{"id": "c=1"}}'
    said = shell.here("resume", "last", *TOOLS, "--journal", "runs.db", "--decide", answer, "--json")
    assert (said.code, said.document["output"]) == (0, "c=1"), said.err


def test_last_is_the_newest_run(shell: Shell) -> None:
    """It stands for an id; in an empty journal it is a sentence."""
    from foreplan import SqliteJournal

    SqliteJournal("empty.db").close()
    shell.here("run", "reads.yaml", *TOOLS, "--journal", "runs.db")
    assert shell.here("show", "last", "--journal", "runs.db", "--json").document["run"] == run_id(shell)
    said = shell.here("show", "last", "--journal", "empty.db")
    assert (said.code, "no run yet" in said.err) == (2, True)


def test_show_needs_no_tools(shell: Shell) -> None:
    """The run is told from the journal alone."""
    shell.here("run", "reads.yaml", *TOOLS, "--journal", "runs.db")
    Path("shop.py").unlink()
    said = shell.here("show", run_id(shell), "--journal", "runs.db")
    assert (said.code, "read_ledger" in said.out) == (0, True)


def test_show_lists_every_event(shell: Shell) -> None:
    """From RunOpened to RunClosed, in order."""
    shell.here("run", "reads.yaml", *TOOLS, "--journal", "runs.db")
    said = shell.here("show", run_id(shell), "--journal", "runs.db", "--events")
    kinds = [line.split()[2] for line in said.out.splitlines()]
    assert kinds == ["RunOpened", "PlanAccepted", "CallAdmitted", "CallStarted", "CallSettled", "RunClosed"]


def test_runs_lists_the_newest_first(shell: Shell) -> None:
    """Each run with its state and goal."""
    shell.here("run", "reads.yaml", *TOOLS, "--journal", "runs.db")
    shell.here("run", "pays.yaml", *TOOLS, "--journal", "runs.db", "--approve", "--yes")
    said = shell.here("runs", "--journal", "runs.db")
    assert [line.split()[1] for line in said.out.splitlines()[1:]] == ["waiting", "done"]


def test_cancel_closes_a_run_that_waits(shell: Shell) -> None:
    """It needs no tools, and the run cannot be resumed afterwards."""
    shell.here("run", "pays.yaml", *TOOLS, "--approve", "--yes", "--journal", "runs.db")
    said = shell.here("cancel", run_id(shell), "--journal", "runs.db", "--json")
    assert (said.code, said.document["state"], said.document["reason"]) == (0, "stopped", "cancelled")
    assert shell.here("resume", run_id(shell), *TOOLS, "--journal", "runs.db").code == 2


def test_tools_and_journal_may_come_from_the_environment(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FOREPLAN_TOOLS and FOREPLAN_JOURNAL stand for the options."""
    monkeypatch.setenv("FOREPLAN_TOOLS", "shop.py")
    monkeypatch.setenv("FOREPLAN_JOURNAL", "runs.db")
    assert shell.here("run", "reads.yaml").code == 0
    assert len(shell.here("runs", "--json").document["runs"]) == 1


def test_inputs_come_from_a_file_and_single_ones_over_it(shell: Shell) -> None:
    """A number is a number, and text stays text where the schema says text."""
    Path("inputs.yaml").write_text("ledger: ledger.csv\nlimit: 1\n")
    words = (
        "review",
        "plan.yaml",
        *TOOLS,
        *MAY,
        "--inputs",
        "inputs.yaml",
        "--set",
        "limit=25",
        "--set",
        "ledger=7",
        "--json",
    )
    assert shell.here(*words).document["given"] == {"ledger": "7", "limit": 25}


def test_policies_come_from_a_file(shell: Shell) -> None:
    """With `approve: always` a plan that only reads needs an approval, too."""
    Path("rules.yaml").write_text("approve: always\n")
    assert shell.here("run", "reads.yaml", *TOOLS, "--policies", "rules.yaml").code == 3


def test_a_principal_comes_from_a_file_or_by_name(shell: Shell) -> None:
    """Without the permission the check fails; with a file that holds it, it passes."""
    Path("ada.yaml").write_text("id: ada\npermissions: ['payments.*']\n")
    assert shell.here("check", "plan.yaml", *TOOLS, "--principal", "ada").code == 2
    assert shell.here("check", "plan.yaml", *TOOLS, "--principal", "ada.yaml").code == 0


# ---------------------------------------------------------------------------------------------- streams and files


@pytest.mark.parametrize(
    "words",
    [
        ("check", "plan.yaml", *TOOLS, *MAY),
        ("review", "plan.yaml", *TOOLS, *MAY),
        ("approve", "plan.yaml", *TOOLS, *MAY, *LEDGER, "--yes"),
        ("plan", "x", *TOOLS, "--planner", "shop.py"),
        ("run", "reads.yaml", *TOOLS),
        ("run", "pays.yaml", *TOOLS),
        ("tools", *TOOLS),
        ("diff", "plan.yaml", "reads.yaml"),
        ("check", "missing.yaml", *TOOLS),
        ("show", "x", "--journal", "missing.db"),
        ("review",),
        ("nonsense",),
    ],
    ids=lambda words: " ".join(words),
)
def test_json_is_one_document_on_standard_output(shell: Shell, words: tuple[str, ...]) -> None:
    """Whatever happens, stdout parses as one JSON document, in ASCII."""
    said = shell.here(*words, "--json")
    assert isinstance(said.document, dict)
    assert said.out.isascii()


def test_what_a_tool_prints_is_not_on_standard_output(shell: Shell) -> None:
    """Prints of tools and of their modules go to stderr."""
    said = shell.here("run", "reads.yaml", *TOOLS, "--json")
    assert ("a tool that prints" in said.out, "a tool that prints" in said.err) == (False, True)


def test_quiet_shows_the_output_alone(shell: Shell) -> None:
    """No progress, no account: the value of the plan."""
    said = shell.here("run", "reads.yaml", *TOOLS, "--quiet")
    assert (said.code, said.out) == (0, "3\n")
    assert said.err == "a tool that prints\n"


def test_a_file_is_replaced_whole_and_keeps_its_mode(shell: Shell) -> None:
    """Nothing is left beside it, and permissions stay."""
    Path("made.yaml").write_text("old")
    os.chmod("made.yaml", 0o640)
    before = set(os.listdir())
    shell.here("plan", "x", *TOOLS, "--planner", "shop.py", "-o", "made.yaml")
    assert (set(os.listdir()) - before - {"__pycache__"}, stat.S_IMODE(os.stat("made.yaml").st_mode)) == (
        set(),
        0o640,
    )


def test_a_device_is_written_to_and_not_replaced(shell: Shell) -> None:
    """`-o /dev/null` leaves the device where it is."""
    said = shell.here("plan", "x", *TOOLS, "--planner", "shop.py", "-o", os.devnull)
    assert (said.code, stat.S_ISCHR(os.stat(os.devnull).st_mode)) == (0, True)


def test_a_plan_may_come_from_standard_input(shell: Shell) -> None:
    """`-` stands for it; so commands can be piped."""
    said = shell.typed("check", "-", *TOOLS, stdin="steps: [{id: a, tool: read_ledger, args: {path: x}}]")
    assert said.code == 0, said.err


def test_python_m_foreplan_is_the_command(shell: Shell) -> None:
    """The module runs as the command does."""
    assert shell.typed("--version").out.startswith("foreplan ")


def test_output_is_plain_without_a_terminal(shell: Shell) -> None:
    """No escape sequence where nobody could see colours."""
    said = shell.typed("review", "plan.yaml", *TOOLS, *MAY, NO_COLOR="")
    assert (said.code, "\x1b" in said.out + said.err) == (0, False)


def test_an_ascii_terminal_is_no_error(shell: Shell) -> None:
    """A character that the encoding lacks becomes an escape."""
    Path("reads.yaml").write_text(
        Path("reads.yaml").read_text().replace("Read the", "Lies das Kontobuch für"), "utf-8"
    )
    said = shell.typed("review", "reads.yaml", *TOOLS, PYTHONIOENCODING="ascii")
    assert (said.code, "f\\xfcr" in said.out) == (0, True)


def test_nobody_reading_is_a_quiet_end(shell: Shell) -> None:
    """A closed pipe ends the command without a word."""
    import subprocess
    import sys

    from support.shell import child_environment

    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-P", "-m", "foreplan", "review", "plan.yaml", *TOOLS, *MAY]
    ran = subprocess.run(
        command, stdout=writer, stderr=subprocess.PIPE, env=child_environment(), timeout=60, text=True
    )
    os.close(writer)
    assert (ran.returncode, ran.stderr) == (141, "")


def test_ctrl_c_pauses_the_run_and_says_how_to_resume(shell: Shell) -> None:
    """Exit code 130, and the command that is shown goes on where it stopped."""
    said = shell.typed("run", "stops.yaml", *TOOLS, "--journal", "runs.db")
    assert (said.code, "Traceback" in said.err) == (130, False)
    assert f"foreplan resume {run_id(shell)} --tools shop.py --journal runs.db" in said.err
    again = shell.typed("resume", run_id(shell), *TOOLS, "--journal", "runs.db", "--json")
    assert (again.code, again.document["output"]) == (0, 2)
    events = shell.here("show", run_id(shell), "--journal", "runs.db", "--events", "--json").document[
        "events"
    ]
    assert [e["path"] for e in events if e["type"] == "CallAdmitted"] == [["before"], ["stop"]]


def test_ctrl_c_in_json_is_a_document(shell: Shell) -> None:
    """A program learns which run paused."""
    said = shell.typed("run", "stops.yaml", *TOOLS, "--journal", "runs.db", "--json")
    assert (said.code, said.document["error"]["run"]) == (130, run_id(shell))


def test_the_documented_exit_codes_are_the_ones_in_use() -> None:
    """The help of the command names each code."""
    from foreplan.console.app import app
    from foreplan.console.screen import Code

    assert [code for code in Code if str(int(code)) not in str(app.info.epilog)] == []


def test_json_shows_nothing_that_moves_a_cursor(shell: Shell) -> None:
    """Control characters of a plan are escapes in JSON, too."""
    Path("odd.yaml").write_text('goal: "a\\u001b[2Jb\\u202ec\\u007f"\nsteps: [{id: a, value: 1}]\n')
    said = shell.here("review", "odd.yaml", *TOOLS, "--json")
    assert json.loads(said.out)["goal"] == "a\x1b[2Jb\u202ec\x7f"
    assert not set(said.out) & {"\x1b", "\u202e", "\x7f"}


GATED = ("--tools", "shop.py", "--journal", "runs.db")


def test_a_call_is_edited_from_the_command_line(shell: Shell) -> None:
    """`--decide ID=edit:JSON`: the call that is made is the one that was typed, and the account tells both."""
    shell.here("run", "pays.yaml", *GATED, "--approve", "--yes")
    first, second = (f"payments[{n}]:call:0" for n in (0, 1))
    shown = shell.here("show", "last", "--journal", "runs.db")
    assert "approve, reject or edit" in shown.out
    wrong = shell.here("resume", "last", *GATED, "--decide", first + '=edit:{"args": {"too": "eve"}}')
    assert (wrong.code, "'pay' does not take these arguments" in wrong.err) == (2, True)
    edit = first + '=edit:{"args": {"to": "eve"}}'
    shell.here("resume", "last", *GATED, "--decide", edit, "--decide", f"{second}=reject", "--by", "ada")
    assert Path("paid.txt").read_text() == "eve\n"
    told = flat(shell.here("show", "last", "--journal", "runs.db", "--events").out)
    assert 'edit by ada to {"args": {"to": "eve"}}' in told


def test_roles_come_from_the_rules_and_principals_from_a_file(shell: Shell) -> None:
    """A principal file may hold roles, a policy file says what they grant; a role that is none is told."""
    Path("rules.yaml").write_text("roles: {clerk: ['payments.*']}\nmax_level: high\n")
    Path("who.yaml").write_text("id: ana\nroles: [clerk]\n")
    words = (
        "check",
        "plan.yaml",
        "--tools",
        "shop.py",
        "--policies",
        "rules.yaml",
        "--principal",
        "who.yaml",
    )
    assert shell.here(*words).code == 0
    Path("who.yaml").write_text("id: ana\nroles: [clark]\n")
    assert "no role is called 'clark', so it grants nothing; did you mean 'clerk'?" in flat(
        shell.here(*words).out
    )
    Path("rules.yaml").write_text("roles: {clerk: 'payments.*'}\nmax_level: hi\nbudget: {tokns: 1}\n")
    said = flat(shell.here(*words).err)
    for part in (
        "'roles.clerk' is 'payments.*'; it must be a list",
        "'max_level' is 'hi'",
        "did you mean 'tokens'",
    ):
        assert part in said


def flat(text: str) -> str:
    """The text on one line."""
    return " ".join(text.split())


def test_a_function_of_ones_own_may_deny_calls(shell: Shell) -> None:
    """`--authorize file.py:name` is asked before each attempt; a run that began with it does not go on without."""
    Path("rules.py").write_text(
        "def authorize(attempt):\n    return attempt.args.get('to') != 'ada' or 'not ada'\n"
    )
    hook = ("--authorize", "rules.py:authorize")
    shell.here("run", "pays.yaml", *GATED, *hook, "--approve", "--yes")
    yes = [word for n in (0, 1) for word in ("--decide", f"payments[{n}]:call:0=approve")]
    without = shell.here("resume", "last", *GATED, *yes)
    assert (without.code, "opened with `authorize`" in flat(without.err)) == (3, True)
    said = shell.here("resume", "last", *GATED, *hook, *yes)
    assert "the host denied this call of 'pay': not ada" in flat(said.out)
    assert Path("paid.txt").read_text() == "bob\n"
    none = shell.here("resume", "last", *GATED, "--authorize", "rules.py:athorize")
    assert (none.code, "did you mean 'authorize'" in none.err) == (2, True)


# ---------------------------------------------------------------------------------------------- events as they happen


def test_show_follows_the_events_of_a_run_until_it_is_closed(shell: Shell) -> None:
    """With --json one document a line, so that a pipe can read on; --after begins behind what one has."""
    shell.here("run", "reads.yaml", *TOOLS, "--journal", "runs.db")
    events = shell.here("show", "last", "--journal", "runs.db", "--events", "--json").document["events"]
    said = shell.here("show", "last", "--journal", "runs.db", "--follow", "--after", "3", "--json")
    found = [json.loads(line) for line in said.out.splitlines()]
    assert [event["seq"] for event in found] == [event["seq"] for event in events[3:]]
    assert [event["type"] for event in found] == [event["type"] for event in events[3:]]
    told = shell.here("show", "last", "--journal", "runs.db", "--events", "--after", "3").out
    assert told == shell.here("show", "last", "--journal", "runs.db", "--follow", "--after", "3").out


def test_a_run_says_whether_it_met_its_deadline(shell: Shell) -> None:
    """And is not stopped by it."""
    said = shell.here("run", "reads.yaml", *TOOLS, "--deadline", "24h")
    assert "within its deadline of" in flat(said.out)


def test_ctrl_c_while_python_still_imports_is_a_sentence() -> None:
    """From the first moment on: no traceback through modules that nobody knows."""
    code = """
import sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "foreplan.console.render":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
from foreplan.__main__ import main
sys.exit(main())
"""
    ran = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, env=child_environment()
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "foreplan: interrupted\n")


def test_an_empty_file_is_no_journal(shell: Shell) -> None:
    """What somebody made beforehand, or another program cut, does not silently become a database."""
    Path("empty.db").touch()
    for words in (("runs",), ("run", "reads.yaml", *TOOLS)):
        said = shell.here(*words, "--journal", "empty.db")
        assert (said.code, "empty.db" in said.err) == (2, True)
    assert Path("empty.db").read_bytes() == b""
