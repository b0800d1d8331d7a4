"""Questions of runs at the command line: listed, answered one by one, and taken up by whoever looks after the journal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from support.shell import Shell, child_environment, write_case

from foreplan.console.screen import Screen
from foreplan.console.watching import Teller
from foreplan.executor.events import ToolFreed, ToolHeld
from foreplan.executor.hands.limits import Broken
from foreplan.executor.resuming import Progress

TOOLS = ("--tools", "shop.py")


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """A folder with tools, plans and the name of a journal, in which commands are typed."""
    write_case(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name in ("FOREPLAN_TOOLS", "COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FOREPLAN_JOURNAL", "runs.db")
    return Shell(tmp_path, capsys)


def pays(shell: Shell, *words: str) -> str:
    """A run that asks about two payments; its id."""
    said = shell.here("run", "pays.yaml", *TOOLS, "--approve", "--yes", "--by", "eve", "--json", *words)
    assert said.code == 3
    return str(said.document["run"])


def paid() -> list[str]:
    """Who was really paid."""
    return Path("paid.txt").read_text().split() if Path("paid.txt").exists() else []


# ---- the list


def test_approvals_lists_what_all_runs_ask(shell: Shell) -> None:
    """By kind, then by run, with values, where they come from, why, the options, and what to type."""
    first, second = pays(shell), pays(shell)
    shell.here("run", "charges.yaml", *TOOLS, "--approve", "--yes", "--by", "eve")
    said = shell.here("approvals")
    assert said.code == 0
    assert "4 calls of pay may be made only if a person says so" in said.out
    assert "1 call of charge may have happened, and nobody knows" in said.out
    assert said.out.index(first) < said.out.index(second) < said.out.index("receipt:unknown:1")
    assert 'to = "ada"   from item' in said.out
    assert "foreplan decide RUN ID CHOICE --journal runs.db" in said.err


def test_approvals_is_for_programs_too(shell: Shell) -> None:
    """One document, values whole, with when it was asked and when the approval ends."""
    shell.here("approve", "pays.yaml", *TOOLS, "--yes", "--by", "eve", "--expires-in", "1h", "-o", "yes.json")
    shell.here("run", "pays.yaml", *TOOLS, "--approval", "yes.json", "-q")
    asked = shell.here("approvals", "--json").document["questions"]
    assert [(q["id"], q["tool"], q["about"], q["question"]["args"]) for q in asked] == [
        (f"payments[{n}]:call:0", "pay", "call", {"to": to}) for n, to in enumerate(("ada", "bob"))
    ]
    assert 3500 < asked[0]["expires_at"] - asked[0]["since"] <= 3600
    assert "the approval ends in" in " ".join(shell.here("approvals").out.split())


def test_a_journal_in_which_nobody_waits_says_so(shell: Shell) -> None:
    """No question is an answer, too."""
    shell.here("run", "reads.yaml", *TOOLS)
    assert shell.here("approvals").out == "no run waits for a person\n"


# ---- answers


def test_answers_are_written_down_one_by_one_without_tools(shell: Shell) -> None:
    """Each says what is left; nothing is made until the run is resumed, and then exactly what was said."""
    run = pays(shell)
    edited = shell.here("edit", run, "payments[0]:call:0", '{"to": "cy"}', "--by", "eve")
    assert (edited.code, "waiting for 1 answer" in edited.out, "payments[1]:call:0" in edited.out) == (
        0,
        True,
        True,
    )
    no = shell.here("reject", "last", "payments[1]:call:0", "--reason", "not him", "--by", "eve")
    assert (no.code, "every question is answered" in no.out, paid()) == (0, True, [])
    assert f"foreplan resume {run} --tools MODULE:NAME --journal runs.db" in no.err
    assert shell.here("approvals", "--json").document == {"questions": []}
    ended = shell.here("resume", run, *TOOLS, "--json")
    assert (paid(), ended.document["failures"][0]["message"]) == (["cy"], "eve refused this call: not him")


def test_the_last_answer_can_go_on_at_once(shell: Shell) -> None:
    """`--resume` drives the run in this process, and ends as `resume` does."""
    shell.here("run", "charges.yaml", *TOOLS, "--approve", "--yes", "--by", "eve")
    words = (
        "decide",
        "last",
        "receipt:unknown:1",
        "accept",
        "--value",
        '{"id": "r7"}',
        "--by",
        "eve",
        "--resume",
    )
    without = shell.here(*words)
    assert (without.code, "--tools" in without.err) == (2, True)
    said = shell.here(*words, *TOOLS, "--json")
    assert (said.code, said.document["output"]) == (0, "r7")


MISTAKES: list[tuple[list[str], str]] = [
    (["decide", "last", "payments[0]:cal:0", "approve"], "did you mean 'payments[0]:call:0'"),
    (["decide", "last", "payments[0]:call:0", "aprove"], "approve, reject, edit"),
    (["decide", "last", "payments[0]:call:0", "edit", "--value", "{to: x}"], "is no JSON"),
    (["decide", "last", "payments[0]:call:0", "edit", "--value", '{"to": "x"}'], "an edit is written"),
    (["edit", "last", "payments[0]:call:0", '{"too": "x"}'], "/too: is not known here"),
    (["edit", "last", "payments[9]:call:0", '{"to": "x"}'], "did you mean"),
    (["edit", "last", "payments[0]:call:0", '["x"]'], "an object of what changes"),
    (["reject", "lst", "payments[0]:call:0"], "no run 'lst'"),
    (["resume", *TOOLS], "say which run goes on"),
    (["resume", "last", "--watch", *TOOLS], "leave out the run"),
]


def test_what_cannot_be_meant_is_a_sentence(shell: Shell) -> None:
    """Exit code 2, what is wrong and the next move; the questions stay open."""
    pays(shell)
    for words, says in MISTAKES:
        said = shell.here(*words, *(["--by", "eve"] if words[0] != "resume" else []))
        assert (said.code, says in said.err, "Traceback" in said.err) == (2, True, False), said.err
    assert len(shell.here("approvals", "--json").document["questions"]) == 2


# ---- resume --watch


def approve(shell: Shell, run: str) -> None:
    """Say yes to both payments of a run."""
    for n in (0, 1):
        assert shell.here("decide", run, f"payments[{n}]:call:0", "approve", "--by", "eve").code == 0


def test_watch_once_takes_up_what_is_answered_and_ends(shell: Shell) -> None:
    """A line for each thing that happens; runs that still wait are left alone."""
    answered, waits = pays(shell), pays(shell)
    approve(shell, answered)
    said = shell.here("resume", "--watch", "--once", *TOOLS)
    lines = [line.split("  ")[1:] for line in said.out.splitlines()]
    assert (said.code, lines) == (0, [[answered, "taken up"], [answered, "done"]])
    assert sorted(paid()) == ["ada", "bob"]
    assert [q["run"] for q in shell.here("approvals", "--json").document["questions"]] == [waits, waits]


def test_watch_tells_programs_one_document_a_line(shell: Shell) -> None:
    """With `--json`; what cannot go on here is told with the reason, and the exit code says so."""
    run = pays(shell)
    approve(shell, run)
    said = shell.here("resume", "--watch", "--once", "--json", *TOOLS, "--principal", "ann")
    [told] = [json.loads(line) for line in said.out.splitlines()]
    assert (said.code, told["run"], told["what"]) == (3, run, "refused")
    assert "not for 'ann'" in told["message"]


def test_watch_tells_of_a_batch_that_holds_as_batch_does(capsys: pytest.CaptureFixture[str]) -> None:
    """Which tool is broken, when it is tried again, ever more seldom while nothing happens, and that it is back."""
    clock = [0.0]
    broken = [Broken("pay", "network", 7, 12.0)]
    teller = Teller(Screen(), lambda: broken, clock=lambda: clock[0])
    teller.tell(Progress("holding", "b", tool=ToolHeld(6, 1.0, 0.5, "pay", "network", 5, 30.0)))
    said = list[float]()
    first = capsys.readouterr().out
    assert first.split("  ")[1:] == [
        "b",
        "holding: pay failed 5 times in a row (network), so rows wait for it instead of failing; "
        "one call tries it again every 30 s\n",
    ]
    for _ in range(100):
        clock[0] += 1
        teller.beat()
        told = capsys.readouterr().out
        said += (
            [clock[0]]
            if "holding: pay failed 7 times in a row (network), tried again in 12 s" in told
            else []
        )
    assert said == [2, 5, 10, 17, 28, 44, 67]
    teller.tell(Progress("freed", "b", tool=ToolFreed(7, 31.0, 0.5, "pay")))
    clock[0] += 100
    teller.beat()
    assert capsys.readouterr().out.split("  ")[1:] == ["b", "pay is back\n"]


def test_watch_tells_programs_that_a_batch_holds(capsys: pytest.CaptureFixture[str]) -> None:
    """One document."""
    teller = Teller(Screen(json=True))
    teller.tell(Progress("holding", "b", tool=ToolHeld(6, 1.0, 0.5, "pay", "network", 5, 30.0)))
    said = json.loads(capsys.readouterr().out)
    del said["at"]
    assert said == {
        "run": "b",
        "what": "holding",
        "tool": "pay",
        "kind": "network",
        "failures": 5,
        "seconds": 30.0,
    }


def test_ctrl_c_pauses_what_runs_and_leaves_it_to_the_next(shell: Shell) -> None:
    """It says so and ends with 130; what a person interrupted before is taken up only with `--paused`."""
    run = ("run", "stops.yaml", *TOOLS)
    assert shell.here(*run).code == 130
    Path("stopped").unlink()
    watch = ("resume", "--watch", "--once", *TOOLS)
    assert shell.here(*watch).out == ""
    stopped = shell.here(*watch, "--paused")
    assert (stopped.code, "stopped; 1 run has paused" in stopped.err) == (130, True)
    ended = shell.here(*watch)
    assert (ended.code, ended.out.split()[-1]) == (0, "done")


def test_processes_that_watch_one_journal_do_not_fight(shell: Shell) -> None:
    """What is answered while two of them look is driven once, by one of them; SIGTERM ends them cleanly."""
    runs = [pays(shell) for _ in range(3)]
    command = [sys.executable, "-P", "-m", "foreplan", "resume", "--watch", "--json", *TOOLS]
    environment = {**child_environment(), "FOREPLAN_JOURNAL": "runs.db"}
    reads, writes = os.pipe()
    with os.fdopen(reads) as lines, ExitStack() as held:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell has it in the background
        both = [
            held.enter_context(subprocess.Popen(command, stdout=writes, env=environment)) for _ in range(2)
        ]
        signal.signal(signal.SIGINT, before)
        os.close(writes)
        for run in runs:
            approve(shell, run)
        told: list[dict[str, Any]] = []
        ended: list[dict[str, Any]] = []
        while [said["what"] for said in told].count("watching") < 2 or len(ended) < len(runs):
            told.append(json.loads(next(lines)))
            ended = [said for said in told if said["what"] == "ended"]
        for process in both:
            process.send_signal(signal.SIGTERM)
        rest = [json.loads(line)["what"] for line in lines]
        codes = [process.wait() for process in both]
    assert {(said["run"], said["state"]) for said in ended} == {(run, "done") for run in runs}
    assert (sorted(paid()), rest, codes) == (["ada"] * 3 + ["bob"] * 3, ["stopped"] * 2, [130, 130])
