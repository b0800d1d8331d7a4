"""The budget of a batch, and rows that fail alike, at the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.shell import Shell

TOOLS = '''
"""Tools, and rules in the place of a planner."""

from foreplan import FunctionPlanner, Registry, ToolFailure, tool


@tool(effect="acts")
def pay(account: str) -> str:
    """Pay."""
    if account.startswith("X"):
        raise ToolFailure("that account is closed", code="account_closed", happened="no")
    return f"paid {account}"


@tool(effect="acts")
def send_cheque(account: str) -> str:
    """Send a cheque."""
    return f"cheque for {account}"


registry = Registry(pay, send_cheque)


def mend(request):
    """Closed accounts get a cheque."""
    args = {"account": {"$": "inputs.account"}}
    return {"add": [{"id": "cheque", "replaces": "paid", "tool": "send_cheque", "args": args}]}


planner = FunctionPlanner(replan=mend)
'''

PLAN = """\
goal: Pay everybody
inputs:
  type: object
  properties: {account: {type: string}}
  required: [account]
steps:
  - {id: paid, tool: pay, args: {account: {$: inputs.account}}}
output: {$: paid}
"""
KEPT = ("--journal", "runs.db")
WORDS = ("batch", "plan.yaml", "rows.csv", "--tools", "shop.py", "--yes", "--by", "ada", *KEPT)
MENDED = ("--planner", "shop.py")


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """A folder with twelve rows, of which three fail alike."""
    (tmp_path / "shop.py").write_text(TOOLS)
    (tmp_path / "plan.yaml").write_text(PLAN)
    accounts = [f"{'X' if n % 4 == 0 else 'A'}{n}" for n in range(1, 13)]
    (tmp_path / "rows.csv").write_text("\n".join(["account", *accounts, ""]))
    monkeypatch.chdir(tmp_path)
    for name in ("FOREPLAN_TOOLS", "FOREPLAN_JOURNAL", "COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return Shell(tmp_path, capsys)


def test_rows_that_fail_alike_wait_for_one_review_of_one_patch(shell: Shell) -> None:
    """Nobody is at a terminal: exit code 3, the question as a document, and one answer lets all of them go on."""
    said = shell.here(*WORDS, *MENDED, "--json")
    [asked] = said.document["waiting_for"]
    assert (said.code, asked["id"], asked["question"]["rows"]) == (3, "patch:1", 3)
    listed = " ".join(shell.here("approvals", *KEPT).out.split())
    assert "3 rows failed alike ('paid': business account_closed); each would call send_cheque" in listed
    resume = (
        "resume",
        "last",
        "--tools",
        "shop.py",
        *MENDED,
        *KEPT,
        "--decide",
        "patch:1=approve",
        "--by",
        "eve",
    )
    assert shell.here(*resume, "--json").document["counts"]["done"] == 12
    assert "cheque for X4" in shell.here("show", "last.4", *KEPT).out


def test_what_the_planner_may_be_asked_about_is_shown_before_the_yes(shell: Shell) -> None:
    """And is a bound: of no group, the rows fail with that reason."""
    said = shell.here(
        *WORDS, *MENDED, "--groups", "3", "--budget", "tool_calls=1234567", "--budget", "seconds=2h"
    )
    terms = " ".join(said.err.split())
    assert "the planner is asked once for each group of rows, for 3 groups at most" in terms
    assert "1,234,567 tool calls, 7,200 seconds for all rows together" in terms
    none = shell.here(*WORDS, *MENDED, "--groups", "0")
    assert (
        none.code,
        "the planner is asked about no rows that fail alike" in " ".join(none.out.split()),
    ) == (
        1,
        True,
    )
    assert "the planner is asked once" not in none.err


def test_the_budget_of_a_batch_ends_it(shell: Shell) -> None:
    """Before the row that could go beyond it; a retry would not help, and is not advised."""
    said = shell.here(*WORDS, "--budget", "tool_calls=6", "--at-once", "1")
    assert (said.code, "stopped (budget)" in said.out, "not begun" in said.out) == (1, True, True)
    assert ("foreplan retry" in said.err, "--budget NAME=MOST" in said.err) == (True, True)
    again = ("retry", "last", "--tools", "shop.py", *KEPT)
    small = shell.here(*again, "--budget", "tool_calls=5")
    assert (small.code, "a budget of 6 tool_calls, and 5 is not larger" in small.err) == (2, True)
    assert "give it a larger budget" in shell.here(*again).err
    said = shell.here(*again, "--budget", "tool_calls=5000", "--by", "ada")
    assert ("stopped (budget)" in said.out, "not begun" in said.out) == (False, False)
    assert "ada raised tool_calls from 6 to 5,000" in shell.here("show", "last", "--events", *KEPT).out


@pytest.mark.parametrize(
    ("budget", "told"),
    [
        ("calls=5", "did you mean 'tool_calls'"),
        ("cost=much", "the budget of cost is a number, not 'much'"),
        ("tool_calls=-1", "the budget of tool_calls is a number"),
        ("seconds=5x", "'5x' is no duration"),
        ("tool_calls", "--budget"),
        ("words=5", "there are tool_calls, model_calls"),
    ],
)
def test_a_budget_that_is_none_is_told(shell: Shell, budget: str, told: str) -> None:
    """In one sentence, and nothing is begun."""
    said = shell.here(*WORDS, "--budget", budget)
    assert (said.code, told in said.err, Path("runs.db").exists()) == (2, True, False)


def test_a_bound_that_nobody_can_keep_is_told_before_anybody_says_yes(shell: Shell) -> None:
    """Each item of `each` is a call, and how many there are nobody knows: the row needs a bound of its own."""
    each = PLAN.replace("tool: pay, args", "each: {$: 'split(inputs.account)'}, as: one, tool: pay, args")
    Path("plan.yaml").write_text(each.replace("split(inputs.account)", "inputs.account.split()"))
    said = shell.here(*WORDS, "--budget", "tool_calls=100")
    assert (said.code, "nobody knows how much of it a row may use" in said.err) == (2, True)
    assert Path("runs.db").exists() is False
    Path("rules.yaml").write_text("budget: {tool_calls: 3}\n")
    assert shell.here(*WORDS, "--budget", "tool_calls=100", "--policies", "rules.yaml").code == 1


def test_a_planner_comes_too_late_for_a_batch_that_began_without_one(shell: Shell) -> None:
    """Its tools are those of the plan alone; that is said, not passed over."""
    assert shell.here(*WORDS).code == 1
    said = shell.here("retry", "last", "--tools", "shop.py", *MENDED, *KEPT)
    assert (said.code, "was begun without a planner" in " ".join(said.err.split())) == (1, True)
