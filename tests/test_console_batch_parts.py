"""What a batch is made of, at the command line: rows, the sub-plans that they call, and how it stood at any event."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.shell import Shell

TOOLS = '''
"""Tools of which one is a plan."""

from pathlib import Path

from foreplan import Plan, Registry, ToolFailure, as_tool, tool


@tool(effect="reads")
async def look(n: int) -> int:
    """Look a number up."""
    return n


@tool(effect="acts")
async def pay(n: int) -> str:
    """Pay."""
    if n == 2 and not Path("money").exists():
        raise ToolFailure("there is no money", code="poor", happened="no")
    return f"paid {n}"


INPUTS = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
STEPS = [{"id": "a", "tool": "look", "args": {"n": {"$": "inputs.n"}}}]
measure = as_tool(
    Plan.model_validate({"goal": "Measure", "inputs": INPUTS, "steps": STEPS, "output": {"$": "a"}}), "measure", [look]
)
registry = Registry(measure, pay)
'''

PLAN = """\
goal: Pay everybody
inputs:
  type: object
  properties: {n: {type: integer}}
  required: [n]
steps:
  - {id: size, tool: measure, args: {n: {$: inputs.n}}}
  - {id: paid, tool: pay, args: {n: {$: size}}}
output: {$: paid}
"""
KEPT = ("--journal", "runs.db")


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """A folder in whose journal a batch of three rows has run, of which the second failed."""
    (tmp_path / "shop.py").write_text(TOOLS)
    (tmp_path / "plan.yaml").write_text(PLAN)
    (tmp_path / "rows.csv").write_text("n\n1\n2\n3\n")
    monkeypatch.chdir(tmp_path)
    for name in ("FOREPLAN_TOOLS", "FOREPLAN_JOURNAL", "COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    found = Shell(tmp_path, capsys)
    words = ("batch", "plan.yaml", "rows.csv", "--tools", "shop.py", "--at-once", "1", "--yes", "--by", "ada")
    assert found.here(*words, *KEPT).code == 1
    return found


def test_the_list_of_runs_has_one_line_for_a_batch(shell: Shell) -> None:
    """Not one for each sub-plan of a row; `last` is the batch, and its record with theirs verifies."""
    [line] = shell.here("runs", *KEPT, "--json").document["runs"]
    assert (line["batch"], line["counts"]["failed"]) == (True, 1)
    assert shell.here("show", "last", *KEPT, "--json").document["batch"] == line["run"]
    said = shell.here("verify", "runs.db")
    assert (said.code, "in 7 runs" in said.out) == (0, True)


def test_its_rows_and_their_sub_plans_are_listed_where_they_are_asked_for(shell: Shell) -> None:
    """In order, each sub-plan below the row that called it."""
    listed = shell.here("runs", "--of", "last", *KEPT, "--json").document["runs"]
    [batch] = shell.here("runs", *KEPT, "--json").document["runs"]
    ordinals = [line["run"].removeprefix(batch["run"]).split(".")[1] for line in listed]
    assert ordinals == ["1", "1", "2", "2", "3", "3"]
    assert [line["state"] for line in listed] == ["done", "done", "failed", "done", "done", "done"]
    assert [line.get("parent") for line in listed[:2]] == [batch["run"], listed[0]["run"]]
    assert "line 3" in shell.here("runs", "--of", "last", *KEPT).out
    [child] = shell.here("runs", "--of", "last.1", *KEPT, "--json").document["runs"]
    assert child["goal"] == "Measure"
    assert "it has no parts" in shell.here("runs", "--of", child["run"], *KEPT).out


def test_a_batch_is_shown_as_it_stood_after_any_event(shell: Shell) -> None:
    """Also with what a row said then that was tried again since."""
    Path("money").touch()
    events = shell.here("show", "last", "--events", *KEPT, "--json").document["events"]
    failed = next(event["seq"] for event in events if event.get("status") == "failed")
    assert shell.here("retry", "last", "--tools", "shop.py", *KEPT).code == 0
    counts = shell.here("show", "last", "--at", str(failed), *KEPT, "--json").document["counts"]
    assert (counts["done"], counts["failed"], counts["not_begun"]) == (1, 1, 1)
    then = shell.here("show", "last", "--at", str(failed), *KEPT)
    assert ("business: poor" in then.out, "foreplan retry" in then.err) == (True, False)
    assert "failed: 'paid': there is no money" in " ".join(then.out.split())
    assert shell.here("show", "last", *KEPT, "--json").document["counts"]["done"] == 3
    beyond = shell.here("show", "last", "--at", "99", *KEPT)
    assert (beyond.code, "has the events 1 to" in beyond.err) == (2, True)


def test_a_row_is_replayed_and_a_batch_says_so(shell: Shell) -> None:
    """By the contracts that were recorded, no tool is needed; the batch as a whole is not one run."""
    for row in ("last.1", "last.2"):
        said = shell.here("replay", row, *KEPT)
        assert (said.code, "all the same" in said.out) == (0, True), said.err
    whole = shell.here("replay", "last", *KEPT)
    assert (whole.code, "is a batch, and each of its rows is run again" in whole.err) == (2, True)
    assert "--at SEQ" in whole.err
    other = shell.here("replay", "last.1", *KEPT, "--plan", "plan.yaml")
    assert (other.code, "runs the plan of its batch" in other.err) == (2, True)


def test_rows_that_are_not_there_are_said(shell: Shell) -> None:
    """Whatever is shown: an empty file seldom is what was meant; --strict stops."""
    (shell.folder / "rows.csv").write_text("n\n")
    words = ("batch", "plan.yaml", "rows.csv", "--tools", "shop.py", "--yes", "--by", "ada", *KEPT)
    said = shell.here(*words)
    assert (said.code, "there are no rows" in said.err, "no rows: nothing ran" in said.out) == (0, True, True)
    assert "there are no rows" in shell.here(*words, "--quiet").err
    assert shell.here(*words, "--json").document["message"] == "no rows: nothing ran"
    strict = shell.here(*words, "--strict")
    assert (strict.code, "nothing ran: there are no rows" in strict.err) == (2, True)
