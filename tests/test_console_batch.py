"""Batches at the command line: looked at, approved, run, paused, resumed, tried again, and told to people and programs."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from support.shell import Said, Shell

from foreplan.console.batches.progress import BatchProgress, BatchView, batch_picture, batch_summary
from foreplan.console.screen import Screen
from foreplan.executor import events as e
from foreplan.executor.events import Event
from foreplan.executor.hands.limits import Broken

TOOLS = '''
"""Tools for the tests of batches."""

import os
import signal
from pathlib import Path

import anyio

from foreplan import Registry, ToolFailure, tool


def pretended(n: int, who: str) -> str:
    return f"would pay {n}"


@tool(effect="acts", simulate=pretended)
async def pay(n: int, who: str) -> str:
    """Pay someone."""
    if n % 4 == 0 and not Path("money").exists():
        raise ToolFailure("there is no money", code="poor")
    if Path("stop").exists() and n == 5:
        Path("stop").unlink()
        os.kill(os.getpid(), signal.SIGINT)
        await anyio.sleep_forever()
    with open("paid.txt", "a") as file:
        file.write(f"{n}\\n")
    return f"paid {n} for {who}"


@tool(effect="reads")
async def look(n: int, who: str) -> int:
    """Look something up."""
    return n


registry = Registry(pay, look)
'''

PLAN = """\
goal: Pay everybody
inputs:
  type: object
  properties: {n: {type: integer}, who: {type: string}}
  required: [n, who]
steps:
  - id: paid
    tool: pay
    args: {n: {$: inputs.n}, who: {$: inputs.who}}
output: {receipt: {$: paid}}
"""

WORDS = ("batch", "plan.yaml", "rows.csv", "--tools", "shop.py", "--set", "who=ada")
YES = ("--yes", "--by", "ada")
KEPT = ("--journal", "runs.db")


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """A folder with a tool, a plan, and nine rows of which the ninth is no number and two fail."""
    (tmp_path / "shop.py").write_text(TOOLS)
    (tmp_path / "plan.yaml").write_text(PLAN)
    (tmp_path / "looks.yaml").write_text(PLAN.replace("tool: pay", "tool: look"))
    (tmp_path / "rows.csv").write_text("n\n" + "".join(f"{n}\n" for n in range(1, 9)) + "nine\n")
    monkeypatch.chdir(tmp_path)
    for name in ("FOREPLAN_TOOLS", "FOREPLAN_JOURNAL", "COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return Shell(tmp_path, capsys)


def paid() -> list[int]:
    """What was really paid, in order of the numbers."""
    return sorted(map(int, Path("paid.txt").read_text().split())) if Path("paid.txt").exists() else []


def cells(path: str) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def sentence(said: Said) -> str:
    """What a command complains about, in one line; it must be told without a traceback."""
    assert "Traceback" not in said.err
    return " ".join(said.err.split())


# ---------------------------------------------------------------------------------------------- from rows to results


def test_a_batch_runs_and_tells_how_it_ended(shell: Shell) -> None:
    """Some rows failed: exit code 1, rows by how they ended, failures by kind with what to do, the command to go on."""
    said = shell.here(*WORDS, *YES, *KEPT, "--results", "out.csv", "--failures", "bad.csv")
    assert said.code == 1
    assert "9 rows: 6 done, 2 failed, 1 set aside" in said.out
    assert "2  business  poor" in said.out
    assert "(line 5)" in said.out
    assert "foreplan retry" in said.err
    assert paid() == [1, 2, 3, 5, 6, 7]
    assert [row["status"] for row in cells("out.csv")] == [
        *["done"] * 3,
        "failed",
        *["done"] * 3,
        "failed",
        "refused",
    ]
    assert [row["n"] for row in cells("bad.csv")] == ["4", "8", "nine"]


def test_a_batch_whose_rows_are_all_done_is_done(shell: Shell) -> None:
    """Exit code 0, and nothing to advise."""
    Path("rows.csv").write_text("n\n1\n2\n")
    said = shell.here(*WORDS, *YES, *KEPT)
    assert (said.code, "2 rows" in said.out, "retry" in said.err) == (0, True, False)


def test_json_is_one_document(shell: Shell) -> None:
    """Counts, failures by kind and code, the first that failed with their sentences."""
    said = shell.here(*WORDS, *YES, *KEPT, "--json")
    document = said.document
    assert (said.code, document["status"], document["counts"]["done"]) == (1, "failed", 6)
    assert {(f["kind"], f["code"], f["rows"]) for f in document["failures"]} == {
        ("business", "poor", 2),
        ("bad_args", "wrong_cell", 1),
    }
    assert [row["ordinal"] for row in document["first_failures"]] == [4, 8, 9]


def test_quiet_says_one_line_where_something_failed(shell: Shell) -> None:
    """And nothing where all is done."""
    said = shell.here(*WORDS, *YES, *KEPT, "--quiet")
    assert (said.code, said.out, len(said.err.splitlines())) == (1, "", 1)
    Path("rows.csv").write_text("n\n1\n")
    assert shell.here(*WORDS, *YES, *KEPT, "--quiet") == (0, "", "")


def test_a_retry_goes_on_with_the_same_rows(shell: Shell) -> None:
    """Only what failed is tried again, nothing is paid twice, and the files are written anew."""
    shell.here(*WORDS, *YES, *KEPT, "--results", "out.csv", "--failures", "bad.csv")
    Path("money").touch()
    said = shell.here("retry", "last", "--tools", "shop.py", *KEPT)
    assert (said.code, "8 done" in said.out) == (1, True)
    assert paid() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [row["status"] for row in cells("out.csv")] == [*["done"] * 8, "refused"]
    assert [row["n"] for row in cells("bad.csv")] == ["nine"]
    assert "no row that could be tried again" in sentence(
        shell.here("retry", "last", "--tools", "shop.py", *KEPT)
    )


def test_failures_are_mended_and_fed_back(shell: Shell) -> None:
    """The file of failures is a source itself."""
    shell.here(*WORDS, *YES, *KEPT, "--failures", "bad.csv")
    Path("bad.csv").write_text(Path("bad.csv").read_text().replace(",nine\n", ",9\n"))
    Path("money").touch()
    said = shell.here("batch", "plan.yaml", "bad.csv", "--tools", "shop.py", "--set", "who=ada", *YES, *KEPT)
    assert (said.code, paid()) == (0, [1, 2, 3, 4, 5, 6, 7, 8, 9])


@pytest.mark.parametrize(
    ("name", "text", "options"),
    [
        ("rows.jsonl", '{"n": 1}\n{"n": 2}\n', []),
        ("rows.txt", "Nr;x\n1;a\n2;b\n", ["--format", "csv", "--delimiter", ";", "--map", "n=Nr"]),
        ("rows.tsv", "n\tx\n1\ta\n2\tb\n", []),
    ],
)
def test_rows_are_read_as_the_options_say(shell: Shell, name: str, text: str, options: list[str]) -> None:
    """JSON Lines, other delimiters, other names of columns."""
    Path(name).write_text(text)
    said = shell.here("batch", "plan.yaml", name, "--tools", "shop.py", "--set", "who=x", *options, *YES)
    assert (said.code, paid()) == (0, [1, 2]), said.err


def test_rows_come_from_a_query(shell: Shell) -> None:
    """Of an SQLite file, which is only read."""
    import sqlite3

    with sqlite3.connect("ledger.db") as ledger:
        ledger.execute("CREATE TABLE payments (n INTEGER, whom TEXT)")
        ledger.execute("INSERT INTO payments VALUES (1, 'a'), (2, 'b')")
    ledger.close()
    words = ("batch", "plan.yaml", "ledger.db", "--tools", "shop.py", "--map", "who=whom", *YES)
    said = shell.here(*words, "--query", "SELECT n, whom FROM payments ORDER BY n")
    assert (said.code, paid()) == (0, [1, 2]), said.err
    assert "--query" in sentence(shell.here(*words))


# ---------------------------------------------------------------------------------------------- before it runs


def test_a_sample_is_rehearsed_and_nothing_is_paid(shell: Shell) -> None:
    """What some rows would give, which column each input is, which rows cannot run; it needs no approval."""
    said = shell.here(*WORDS, "--sample", "2")
    assert (said.code, paid()) == (1, [])
    assert "2 of 2 rehearsed rows would be done" in said.out
    assert '{"receipt": "would pay 1"}' in said.out
    assert 'who  = "ada", for every row' in said.out
    assert "line 10: column 'n' must be a number" in said.out
    document = shell.here(*WORDS, "--sample", "2", "--json").document
    assert (document["runnable"], document["set_aside"], document["digest"][:7]) == (8, 1, "sha256:")
    assert [row["ordinal"] for row in document["rehearsed"]] == [1, 5]


def test_a_plan_that_acts_needs_a_yes(shell: Shell) -> None:
    """Without a terminal to ask at: exit code 3, nothing runs, and the ways to say yes are named."""
    said = shell.here(*WORDS, *KEPT)
    assert (said.code, paid()) == (3, [])
    assert "--yes" in said.err
    assert "foreplan approve --rows N" in said.err


def test_a_plan_that_reads_needs_none(shell: Shell) -> None:
    """It runs at once; rows that cannot are named before."""
    said = shell.here("batch", "looks.yaml", *WORDS[2:])
    assert (said.code, "8 done" in said.out, "set aside: line 10" in said.err) == (1, True, True)


def test_the_review_stands_beside_the_rows(shell: Shell) -> None:
    """What the plan does, for how many rows, how many calls at most, and when the batch stops."""
    said = shell.here(*WORDS, *YES, *KEPT, "--stop-after", "5", "--canary", "2")
    assert "Cannot be taken back" in said.err
    assert "8 rows can run" in said.err
    assert "at most 8: 1 for each row" in said.err
    assert "it stops after 5 failures" in said.err


def test_what_all_rows_share_is_shown(shell: Shell) -> None:
    """A step that does not depend on the row runs once; one that acts must say so itself, or nothing runs."""
    step = "  - id: rate\n    tool: look\n    args: {n: 7, who: bank}\n"
    plan = PLAN.replace("steps:\n", "steps:\n" + step)
    Path("plan.yaml").write_text(plan)
    said = shell.here(*WORDS, *YES, *KEPT)
    assert (said.code, "for all rows together: rate" in said.err, len(paid())) == (1, True, 6)
    assert (
        "for all rows together: rate"
        in shell.here("approve", "plan.yaml", "--tools", "shop.py", *YES, "--rows", "9").err
    )
    Path("plan.yaml").write_text(plan.replace("tool: look\n    args: {n: 7", "tool: pay\n    args: {n: 7"))
    said = shell.here(*WORDS, *YES, *KEPT)
    assert (said.code, "per: batch" in said.err, len(paid())) == (2, True, 6)


def test_an_approval_file_is_for_so_many_rows_and_one_batch(shell: Shell) -> None:
    """Too few rows, another source, another plan, a second batch: exit code 3, and the sentence says which."""
    approve = ("approve", "plan.yaml", "--tools", "shop.py", *YES)
    shell.here(*approve, "--rows", "5", "-o", "five.json")
    digest = shell.here(*WORDS, "--sample", "1", "--json").document["digest"]
    shell.here(*approve, "--rows", "8", "--source", digest, "-o", "these.json")
    said = shell.here(*WORDS, *KEPT, "--approval", "five.json")
    assert (said.code, "8" in said.err, paid()) == (3, True, [])
    other = shell.here(
        "batch",
        "plan.yaml",
        "rows.csv",
        "--tools",
        "shop.py",
        "--set",
        "who=eve",
        *KEPT,
        "--approval",
        "these.json",
    )
    assert (other.code, "rows" in other.err) == (3, True)
    assert shell.here("batch", "looks.yaml", *WORDS[2:], *KEPT, "--approval", "these.json").code == 3
    assert shell.here(*WORDS, "--approval", "these.json").code == 2
    assert (shell.here(*WORDS, *KEPT, "--approval", "these.json").code, len(paid())) == (1, 6)
    again = shell.here(*WORDS, *KEPT, "--approval", "these.json")
    assert (again.code, "was used by run" in again.err, len(paid())) == (3, True, 6)


def test_strict_runs_nothing_where_a_row_cannot(shell: Shell) -> None:
    """Exit code 2, with the line; the findings are in the document."""
    said = shell.here(*WORDS, *YES, "--strict")
    assert (said.code, paid(), "line 10" in said.err) == (2, [], True)
    error = shell.here(*WORDS, *YES, "--strict", "--json").document["error"]
    assert [(row["line"], row["code"]) for row in error["rows"]] == [(10, "wrong_cell")]


# ---------------------------------------------------------------------------------------------- waits, pauses, ends


def test_the_canary_is_asked_about_before_the_rest(shell: Shell) -> None:
    """Exit code 3; the question is listed, answered like any other, and the batch goes on."""
    said = shell.here(*WORDS, *YES, *KEPT, "--canary", "2")
    assert (said.code, paid(), "--decide canary=CHOICE" in said.err) == (3, [1, 2], True)
    listed = shell.here("approvals", *KEPT)
    assert "whether the other rows may follow" in listed.out
    assert "6 more rows would follow" in " ".join(listed.out.split())
    told = shell.here("decide", "last", "canary", "approve", "--by", "ada", *KEPT)
    assert (told.code, "foreplan resume" in told.err) == (0, True)
    assert (shell.here("resume", "last", "--tools", "shop.py", *KEPT).code, len(paid())) == (1, 6)


def test_a_canary_that_is_rejected_ends_the_batch(shell: Shell) -> None:
    """The other rows never begin."""
    shell.here(*WORDS, *YES, *KEPT, "--canary", "2")
    said = shell.here(
        "resume", "last", "--tools", "shop.py", *KEPT, "--decide", "canary=reject", "--by", "ada"
    )
    assert (said.code, "stopped (canary)" in said.out, paid()) == (1, True, [1, 2])


def test_it_stops_after_so_many_failures(shell: Shell) -> None:
    """The rows that never began are named; retry takes them up, too."""
    said = shell.here(*WORDS, *YES, *KEPT, "--stop-after", "1", "--at-once", "1")
    assert (said.code, paid(), "not begun" in said.out) == (1, [1, 2, 3], True)
    Path("money").touch()
    shell.here("retry", "last", "--tools", "shop.py", *KEPT)
    assert paid() == [1, 2, 3, 4, 5, 6, 7, 8]


def interrupted(shell: Shell, *options: str) -> Said:
    """A batch in which Ctrl-C is typed at the fifth row."""
    Path("stop").touch()
    Path("money").touch()
    return shell.here(*WORDS, *YES, "--at-once", "1", *options)


def test_ctrl_c_pauses_and_says_how_to_go_on(shell: Shell) -> None:
    """Exit code 130, how many rows have ended, the command; going on pays the others and nothing twice."""
    said = interrupted(shell, *KEPT, "--results", "out.jsonl")
    assert (said.code, "5 of 9 rows have ended" in sentence(said), paid()) == (130, True, [1, 2, 3, 4])
    assert "go on with: foreplan resume" in sentence(said)
    assert Path("out.jsonl.part").exists()
    resumed = shell.here(
        "resume", "last", "--tools", "shop.py", *KEPT, "--decide", "paid=retry", "--by", "ada"
    )
    assert resumed.code in (1, 2, 3), resumed.err


def test_ctrl_c_without_a_journal_says_that_nothing_is_kept(shell: Shell) -> None:
    """And which option keeps batches."""
    said = interrupted(shell)
    assert (said.code, "kept in memory only" in sentence(said), "--journal" in said.err) == (130, True, True)


def test_a_changed_source_is_refused_on_resume(shell: Shell) -> None:
    """Which rows differ; a source that has moved is named with --rows, one that is gone is not needed."""
    shell.here(*WORDS, *YES, *KEPT, "--canary", "2")
    before = Path("rows.csv").read_text()
    Path("rows.csv").write_text(before.replace("3\n", "33\n"))
    resume = ("resume", "last", "--tools", "shop.py", *KEPT, "--decide", "canary=approve", "--by", "ada")
    said = shell.here(*resume)
    assert (said.code, "row 3 differs" in sentence(said), paid()) == (2, True, [1, 2])
    Path("rows.csv").unlink()
    Path("moved.csv").write_text(before)
    assert (shell.here(*resume, "--rows", "moved.csv").code, len(paid())) == (1, 6)


def test_changed_rules_are_refused_or_accepted_by_name(shell: Shell) -> None:
    """On `resume` and on `retry`; the journal says who accepted what."""
    shell.here(*WORDS, *YES, *KEPT, "--canary", "2")
    Path("rules.yaml").write_text("retry: {attempts: 1}\n")
    new = ("--tools", "shop.py", *KEPT, "--policies", "rules.yaml")
    resume = ("resume", "last", *new, "--decide", "canary=approve")
    said = shell.here(*resume)
    assert (said.code, "retry.attempts was 3, is 1" in sentence(said), paid()) == (3, True, [1, 2])
    assert "(--accept-changes)" in sentence(said)
    assert shell.here(*resume, "--accept-changes", "--by", "bob").code == 1
    assert len(paid()) == 6
    Path("rules.yaml").write_text("retry: {attempts: 2}\n")
    Path("money").touch()
    assert "retry.attempts was 1, is 2" in sentence(shell.here("retry", "last", *new))
    shell.here("retry", "last", *new, "--accept-changes", "--by", "eve")
    events = shell.here("show", "last", "--events", *KEPT, "--json").document["events"]
    assert len(paid()) == 8
    assert [event["accepted"]["by"] for event in events if event.get("accepted")] == ["bob", "eve"]


def test_show_runs_and_cancel_know_batches(shell: Shell) -> None:
    """One line in the list, its rows by their number, and an end for good."""
    shell.here(*WORDS, *YES, *KEPT, "--canary", "4")
    [line] = shell.here("runs", *KEPT, "--json").document["runs"]
    assert (line["batch"], line["rows"], line["counts"]["done"]) == (True, 9, 3)
    assert "5 of 9 rows, 2 not done" in shell.here("runs", *KEPT).out
    shown = shell.here("show", "last", *KEPT)
    assert (shown.code, "Questions" in shown.out, "foreplan resume" in shown.err) == (0, True, True)
    assert shell.here("show", "last", *KEPT, "--json").document["first_failures"][0]["ordinal"] == 4
    assert "paid 1 for ada" in shell.here("show", "last.1", *KEPT).out
    assert "RowSettled" in shell.here("show", "last", *KEPT, "--events").out
    assert shell.here("cancel", "last", *KEPT).out.startswith("batch ")
    assert "stopped (cancelled)" in shell.here("show", "last", *KEPT).out


def test_a_watcher_takes_up_a_batch_that_was_answered(shell: Shell) -> None:
    """`resume --watch` goes on with it as with a run, and tells how its rows stand."""
    shell.here(*WORDS, *YES, *KEPT, "--canary", "2", "--failures", "bad.csv")
    shell.here("decide", "last", "canary", "approve", "--by", "ada", *KEPT)
    said = shell.here("resume", "--watch", "--once", "--tools", "shop.py", *KEPT, "--json")
    up, end = (json.loads(line) for line in said.out.splitlines())
    assert (said.code, up["what"], end["what"], end["state"]) == (1, "taken_up", "ended", "failed")
    assert (end["counts"]["done"], len(paid()), len(cells("bad.csv"))) == (6, 6, 3)


def test_events_of_a_batch_say_what_became_of_each_row(shell: Shell) -> None:
    """One line each, and with --follow --json one document each."""
    shell.here(*WORDS, *YES, *KEPT, "--at-once", "1")
    listed = shell.here("show", "last", *KEPT, "--events").out
    assert "row 4  failed (business: poor)" in listed
    assert "row 9  refused (bad_args: wrong_cell)" in listed
    followed = [
        json.loads(line) for line in shell.here("show", "last", *KEPT, "--follow", "--json").out.splitlines()
    ]
    assert [event["ordinal"] for event in followed if event["type"] == "RowSettled"] == [
        9,
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
    ]


def test_without_a_journal_it_ends_here(shell: Shell) -> None:
    """And says what a journal would be good for."""
    said = shell.here(*WORDS, *YES)
    assert (said.code, "--journal FILE" in said.err) == (1, True)


# ---------------------------------------------------------------------------------------------- what people mistype


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--map", "n=Nr"], "no column 'Nr' (for the input 'n')"),
        (["--map", "m=n"], "the plan has no input 'm'; it has 'n', 'who'"),
        (["--map", "n"], "--map takes input=column, not 'n'"),
        (["--set", "wo=x"], "the plan has no input 'wo'; did you mean 'who'"),
        (["--format", "cvs"], "did you mean 'csv'"),
        (["--results", "out.txt"], "name it .jsonl or .csv"),
        (["--results", "shop.csv"], "--overwrite"),
        (["--results", "rows.csv"], "name another file"),
        (["--at-once", "0"], "greater than or equal to 1"),
        (["--scope", "red"], "did you mean 'reads'"),
        (["--query", "SELECT * FROM x"], "cannot be asked"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_words_that_are_wrong_are_told(shell: Shell, words: list[str], told: str) -> None:
    """Exit code 2, a sentence with the next move, and nothing is paid."""
    Path("shop.csv").write_text("mine\n")
    said = shell.here(*WORDS, *YES, *words)
    assert (said.code, paid()) == (2, [])
    assert told in sentence(said)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["batch", "plan.yaml", "row.csv"], "there is no file 'row.csv'; did you mean 'rows.csv'"),
        (["batch", "plan.yaml", "."], "is a directory"),
        (["batch", "plan.yaml", "-"], "--format"),
        (["batch", "-", "-"], "cannot both come from standard input"),
        (["batch", "plan.yaml", "shop.py"], "no suffix that says what it is"),
        (["batch", "fixed.yaml", "rows.csv"], "the plan declares no inputs"),
        (["batch", "plan.yaml", "rows.csv"], "no column for the input 'who'"),
        (["retry", "last", *KEPT], "is a run, and no batch"),
        (["resume", "last", *KEPT, "--rows", "rows.csv"], "is a run, and no batch"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_a_batch_is_told(shell: Shell, words: list[str], told: str) -> None:
    """A missing file, a plan without inputs, the id of a run."""
    Path("fixed.yaml").write_text("steps: [{id: a, tool: look, args: {n: 1, who: x}}]\n")
    if "last" in words:
        shell.here("run", "fixed.yaml", "--tools", "shop.py", *KEPT)
    said = shell.here(*words, "--tools", "shop.py")
    assert (said.code, paid()) == (2, [])
    assert told in sentence(said)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["edit", "last", "canary", "{}"], "say one of approve, reject"),
        (["decide", "last", "cnary", "approve"], "did you mean 'canary'"),
        (["replay", "last"], "each of its rows is run again by itself"),
        (["fork", "last", "--from", "paid", "--tools", "shop.py"], "is a batch, and no run"),
        (["show", "last", "--at", "99"], "has the events 1 to"),
        (["resume", "last.1", "--tools", "shop.py"], "is a row of batch"),
        (["retry", "last", "--tools", "shop.py"], "is not closed"),
        (["resume", "last", "--tools", "shop.py", "--decide", "canary"], "--decide takes ID=choice"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_a_batch_does_not_take_is_told(shell: Shell, words: list[str], told: str) -> None:
    """By commands that are for runs, and by answers that are none; the batch waits as before."""
    shell.here(*WORDS, *YES, *KEPT, "--canary", "1")
    said = shell.here(*words, *KEPT)
    assert (said.code, paid()) == (2, [1])
    assert told in sentence(said)


# ---------------------------------------------------------------------------------------------- progress


def text(part: Any) -> str:
    """What is shown, without colour."""
    file = io.StringIO()
    Console(file=file, width=120, markup=False).print(part)
    return file.getvalue()


def of(*events: Event) -> BatchProgress:
    """What these events add up to."""
    progress = BatchProgress()
    for event in events:
        progress.take(event)
    return progress


def ended(seq: int, at: float, status: Any = "done", kind: str = "", run: str = "b") -> e.RowSettled:
    """A row that ended."""
    return e.RowSettled(
        seq, at, 0.5, seq, run, status, "", kind, "c" if kind else "", "", None, {"tool_calls": 2}
    )


def test_progress_tells_rows_rate_and_time_left() -> None:
    """The rate of the last seconds, and what is left at that rate."""
    rows = [ended(n, n / 10) for n in range(1, 101)]
    progress = of(e.RowsTaken(1, 0.0, 0.5, 200, "d"), *rows)
    progress.under_way = lambda: 64
    told = text(batch_summary(progress, 10.0))
    assert "100 of 200 rows" in told
    assert "10 rows/s" in told
    assert "10 s left" in told
    assert "64 under way" in told
    assert "200 calls" in told


HELD = e.ToolHeld(6, 1.0, 0.5, "pay", "network", 5, 30.0)


def test_progress_tells_what_went_wrong() -> None:
    """Failures by kind, rows that were set aside or wait, tools that are down, questions."""
    progress = of(
        e.RowsTaken(1, 0.0, 0.5, 9, "d"),
        ended(1, 1.0, "failed", "network"),
        ended(2, 1.0, "failed", "business"),
        ended(3, 1.0, "failed", "business"),
        ended(4, 1.0, "refused", "bad_args", run=""),
        e.RowParked(5, 1.0, 0.5, 5, "b.5", ("q",)),
        HELD,
    )
    told = text(batch_summary(progress, 1.0))
    assert "3 failed (2 business, 1 network)" in told
    assert "1 set aside" in told
    assert "1 waiting" in told
    assert "holding: pay failed 5 times in a row (network), rows wait for it" in told.replace("\n", " ")
    progress.broken = lambda: [Broken("pay", "network", 7, 12.0)]
    told = text(batch_summary(progress, 1.0)).replace("\n", " ")
    assert "holding: pay failed 7 times in a row (network), tried again in 12 s" in told


def test_a_retry_begins_its_count_anew() -> None:
    """Rows that are tried again are no failures any more."""
    progress = of(
        e.RowsTaken(1, 0.0, 0.5, 2, "d"),
        ended(1, 1.0, "failed", "network"),
        ended(2, 1.0),
        e.RowsReopened(3, 5.0, 0.5, "ada"),
    )
    assert (progress.failed, progress.settled, progress.rate) == (0, 1, None)


def test_a_terminal_without_unicode_gets_a_bar_of_hashes() -> None:
    """As wide as what is done."""
    progress = of(e.RowsTaken(1, 0.0, 0.5, 2, "d"), ended(1, 1.0))
    assert "############------------" in text(batch_picture(progress, 1.0, ascii_only=True))


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (e.GroupFormed(1, 0.0, 0.5, "g", 300), "300 rows failed alike: the planner is asked"),
        (e.GroupSettled(2, 0.0, 0.5, "g", None, "", "it gives up"), "no patch: it gives up"),
        (e.ToolFreed(2, 0.0, 0.5, "pay"), "pay is back"),
    ],
    ids=["asked", "given up", "back"],
)
def test_what_concerns_many_rows_has_a_line_of_its_own(event: Event, told: str) -> None:
    """At once, between the sums that come now and then."""
    assert BatchView(Screen()).announced(event) == told


def test_a_batch_that_holds_does_not_look_as_if_it_hung() -> None:
    """What failed and how often, when it is tried again, how many rows are left, that Ctrl-C is safe, what goes on then."""
    view = BatchView(Screen())
    for event in (e.RowsTaken(1, 0.0, 0.5, 20, "d"), ended(1, 1.0), HELD):
        view.rows.take(event)
    said = view.announced(HELD)
    assert said.startswith(
        "holding: pay failed 5 times in a row (network), so rows wait for it instead of failing; "
        "one call tries it again every 30 s; 1 of 20 rows have ended, 19 left; "
    )
    assert "kept in memory only" in said
    view.rows.batch, view.rows.how_to_go_on = "b", lambda batch: f"foreplan resume {batch}"
    assert view.announced(HELD).endswith("Ctrl-C stops safely; go on later with: foreplan resume b")
    assert "Ctrl-C stops safely" in text(batch_picture(view.rows, 1.0))
    view.rows.take(e.ToolFreed(7, 31.0, 0.5, "pay"))
    assert "Ctrl-C" not in text(batch_picture(view.rows, 31.0))


def test_a_pipe_hears_of_a_batch_in_which_nothing_happens(capsys: pytest.CaptureFixture[str]) -> None:
    """No event comes while all rows wait; a line comes all the same, ever more seldom."""
    clock = [0.0]
    view = BatchView(Screen(), clock=lambda: clock[0])
    for event in (e.RowsTaken(1, 0.0, 0.5, 20, "d"), HELD):
        view.watch(event)
    capsys.readouterr()
    said = list[float]()
    for _ in range(100):
        clock[0] += 1
        view.beat()
        said += [clock[0]] if "holding: pay" in capsys.readouterr().err else []
    assert said == [2, 5, 10, 17, 28, 44, 67]


def test_quiet_says_that_rows_are_held_and_no_more(capsys: pytest.CaptureFixture[str]) -> None:
    """Who sees nothing at all for half an hour ends the process."""
    view = BatchView(Screen(quiet=True), clock=lambda: 100.0)
    for event in (e.RowsTaken(1, 0.0, 0.5, 20, "d"), HELD, ended(1, 1.0), e.ToolFreed(7, 31.0, 0.5, "pay")):
        view.watch(event)
        view.beat()
    [held, free] = capsys.readouterr().err.splitlines()
    assert (held[:12], free) == ("holding: pay", "pay is back")


def test_lines_of_progress_go_to_a_pipe(shell: Shell) -> None:
    """How many rows there are, on standard error, and results on standard output."""
    said = shell.here(*WORDS, *YES, "--json")
    assert "9 rows, 1 of them set aside" in said.err
    json.loads(said.out)


# ---------------------------------------------------------------------------------------------- before a yes


def test_who_says_yes_is_told_of_the_same_batch_before(shell: Shell) -> None:
    """The same plan over the same rows in one journal: the batch that ran is named, how it ended, and how to go on with it."""
    assert "all again" not in shell.here(*WORDS, *YES, *KEPT).err
    [first] = [run["run"] for run in json.loads(shell.here("runs", *KEPT, "--json").out)["runs"]]
    again = sentence(shell.here(*WORDS, *YES, *KEPT, "--quiet"))
    assert f"Batch {first} ran this plan over these rows (9 rows: 6 done, 2 failed, 1 set aside)" in again
    assert f"foreplan resume, or retry, {first}" in again
    with open("rows.csv", "a") as file:
        file.write("10\n")
    assert "all again" not in shell.here(*WORDS, *YES, *KEPT).err


def test_who_says_yes_without_a_journal_is_told_what_that_means(shell: Shell) -> None:
    """Before the first row runs, not when it is too late."""
    said = sentence(shell.here(*WORDS, *YES))
    assert said.index("it cannot be resumed") < said.index("9 rows")


def test_a_file_that_is_there_is_told_before_anybody_is_asked(shell: Shell) -> None:
    """Exit code 2, no review to be read in vain, and nothing is paid."""
    Path("out.csv").write_text("mine,too\n1,2\n")
    said = shell.here(*WORDS, *YES, *KEPT, "--results", "out.csv")
    assert (said.code, paid(), "Pay everybody" in said.err) == (2, [], False)
    assert "--overwrite" in sentence(said)


def test_a_file_of_another_delimiter_is_guessed_also_where_columns_are_named(shell: Shell) -> None:
    """A spreadsheet of another country writes semicolons."""
    Path("rows.csv").write_text("nr;betrag\n1;2\n")
    said = shell.here(*WORDS, *YES, "--map", "n=nr")
    assert (said.code, paid()) == (2, [])
    assert "is it written with delimiter=';' (--delimiter)?" in sentence(said)


def test_the_row_of_a_batch_is_no_batch_and_its_batch_is_named(shell: Shell) -> None:
    """Who retries a row is told to retry the batch."""
    shell.here(*WORDS, *YES, *KEPT)
    said = shell.here("retry", "last.4", "--tools", "shop.py", *KEPT)
    assert (said.code, "is a row of batch" in sentence(said)) == (2, True)


def test_a_terminal_without_our_marks_has_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """ASCII shows a hyphen for a dot in the middle; letters it lacks stay escapes."""
    kept = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(kept, encoding="ascii", write_through=True))
    Screen().show("done · Müller…")
    assert kept.getvalue() == b"done - M\\xfcller...\n"
