"""Whatever is wrong with what was handed in, a sentence says it: exit code 2, the thing by its name, no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from support.shell import PLAN, Shell, child_environment, write_case

TOOLS = ("--tools", "shop.py")
MAY = ("--permission", "payments.refund")
LEDGER = ("--set", "ledger=ledger.csv")


def keep(name: str, content: str | bytes) -> Callable[[], None]:
    """Put a file there before the command is typed."""
    return lambda: void(Path(name).write_bytes(content.encode() if isinstance(content, str) else content))


def void(_: object) -> None:
    """Nothing."""


def nothing() -> None:
    """The folder as it is."""


class Case(NamedTuple):
    """What is typed, what must be said, and what is wrong with the folder."""

    what: str
    words: tuple[str, ...]
    said: tuple[str, ...]
    before: Callable[[], None] = nothing


def module(text: str) -> Callable[[], None]:
    """A module of the user's that is wrong."""
    return keep("wrong.py", text)


CASES = [
    # files
    Case("no such plan", ("check", "plan.yml", *TOOLS), ("no file 'plan.yml'", "'plan.yaml'")),
    Case("no such folder", ("check", "plans/a.yaml", *TOOLS), ("no file 'plans/a.yaml'",)),
    Case("a directory for a plan", ("check", ".", *TOOLS), ("'.' is a directory",)),
    Case("an empty plan", ("check", "a.yaml", *TOOLS), ("a.yaml", "empty"), keep("a.yaml", "")),
    Case(
        "a plan that is no text",
        ("check", "a.yaml", *TOOLS),
        ("a.yaml", "not UTF-8"),
        keep("a.yaml", b"\xff\xfe\x00"),
    ),
    Case(
        "bad YAML",
        ("check", "a.yaml", *TOOLS),
        ("a.yaml", "2:", "steps: [", "^"),
        keep("a.yaml", "goal: x\nsteps: [{id: a, tool: b: c}]\n"),
    ),
    Case(
        "a key twice",
        ("check", "a.yaml", *TOOLS),
        ("3:1", "goal", "^"),
        keep("a.yaml", "goal: x\nsteps: []\ngoal: y\n"),
    ),
    Case("bad JSON", ("check", "a.json", *TOOLS), ("a.json", "1:", "^"), keep("a.json", '{"steps": [}')),
    Case("a plan that is a list", ("check", "a.yaml", *TOOLS), ("a.yaml", "object"), keep("a.yaml", "- a\n")),
    Case(
        "an unknown property",
        ("check", "a.yaml", *TOOLS),
        ("'arguments'", "'args'", "^"),
        keep("a.yaml", "steps:\n  - id: a\n    tool: read_ledger\n    arguments: {path: x}\n"),
    ),
    Case(
        "an unwritable output",
        ("plan", "x", *TOOLS, "--planner", "shop.py", "-o", "none/plan.yaml"),
        ("'none/plan.yaml'", "cannot be written"),
    ),
    Case(
        "a directory for an output",
        ("plan", "x", *TOOLS, "--planner", "shop.py", "-o", "."),
        ("'.' is a directory",),
    ),
    # what is in the plan
    Case(
        "an unknown tool",
        ("run", "a.yaml", *TOOLS),
        ("a.yaml", "read_leger", "read_ledger"),
        keep("a.yaml", "steps: [{id: a, tool: read_leger, args: {path: x}}]"),
    ),
    Case(
        "an argument of the wrong type",
        ("run", "a.yaml", *TOOLS),
        ("a.yaml", "path"),
        keep("a.yaml", "steps: [{id: a, tool: read_ledger, args: {path: 7}}]"),
    ),
    Case("a permission that is lacking", ("run", "plan.yaml", *TOOLS, *LEDGER), ("payments.refund",)),
    # inputs
    Case("a missing input", ("run", "plan.yaml", *TOOLS, *MAY, "--approve", "--yes"), ("ledger",)),
    Case(
        "an unknown input",
        ("review", "plan.yaml", *TOOLS, *MAY, *LEDGER, "--set", "limt=3"),
        ("limt", "'limit'"),
    ),
    Case(
        "an input of the wrong type",
        ("review", "plan.yaml", *TOOLS, *MAY, *LEDGER, "--set", "limit=much"),
        ("limit",),
    ),
    Case(
        "an input without a value",
        ("review", "plan.yaml", *TOOLS, *MAY, "--set", "ledger"),
        ("--set", "'ledger'"),
    ),
    Case(
        "inputs that are a list",
        ("review", "plan.yaml", *TOOLS, *MAY, "--inputs", "in.yaml"),
        ("in.yaml", "a list"),
        keep("in.yaml", "- 1\n"),
    ),
    Case(
        "inputs that are no YAML",
        ("review", "plan.yaml", *TOOLS, *MAY, "--inputs", "in.yaml"),
        ("in.yaml", "the inputs", "^"),
        keep("in.yaml", "a: [\n"),
    ),
    # tools and planners
    Case("no tools", ("check", "plan.yaml"), ("--tools", "foreplan check --help")),
    Case("no such module", ("check", "plan.yaml", "--tools", "shopp:registry"), ("'shopp'", "'shop'")),
    Case("no such file", ("check", "plan.yaml", "--tools", "shp.py"), ("'shp.py'", "'shop.py'")),
    Case("a name that is no module", ("check", "plan.yaml", "--tools", "a b:c"), ("'a b'",)),
    Case(
        "no module at all", ("check", "plan.yaml", "--tools", ":registry"), (":registry", "module:registry")
    ),
    Case("no such attribute", ("tools", "--tools", "shop.py:registri"), ("'registri'", "'registry'")),
    Case(
        "an attribute that is no registry",
        ("tools", "--tools", "shop.py:planner"),
        ("'planner'", "FunctionPlanner"),
    ),
    Case("a function that is no tool", ("tools", "--tools", "shop.py:mend"), ("'mend'", "@tool")),
    Case(
        "a list with a function",
        ("tools", "--tools", "wrong.py:all_"),
        ("'f'", "@tool"),
        module("def f(): 1\nall_ = [f]\n"),
    ),
    Case(
        "a module with a mistake",
        ("tools", "--tools", "wrong.py"),
        ("wrong.py, line 2", "NameError", "nope"),
        module("x = 1\nnope\n"),
    ),
    Case(
        "a module with bad syntax",
        ("tools", "--tools", "wrong.py"),
        ("wrong.py, line 1", "registry = ("),
        module("registry = (\n"),
    ),
    Case(
        "a module that imports what is not there",
        ("tools", "--tools", "wanting:registry"),
        ("wanting.py, line 1", "no_such_library"),
        keep("wanting.py", "import no_such_library\n"),
    ),
    Case(
        "a module that ends the program",
        ("tools", "--tools", "wrong.py"),
        ("wrong.py, line 1",),
        module("raise SystemExit(0)\n"),
    ),
    Case(
        "a tool that is refused",
        ("tools", "--tools", "wrong.py"),
        ("wrong.py, line 2", "name"),
        module("from foreplan import tool\n@tool(effect='reads')\ndef f(name): '''A tool.'''\n"),
    ),
    Case(
        "a function that fails",
        ("tools", "--tools", "wrong.py:make"),
        ("make()", "wrong.py, line 2", "KeyError"),
        module("def make():\n    return {}['x']\n"),
    ),
    Case(
        "an async function",
        ("tools", "--tools", "wrong.py:make"),
        ("async",),
        module("async def make(): ...\n"),
    ),
    Case("no planner", ("plan", "x", *TOOLS), ("--planner",)),
    Case(
        "a planner that is none",
        ("plan", "x", *TOOLS, "--planner", "shop.py:registry"),
        ("'registry'", "planner"),
    ),
    # policies, principal, approval
    Case(
        "a misspelt policy",
        ("check", "reads.yaml", *TOOLS, "--policies", "p.yaml"),
        ("'max_replan'", "'max_replans'", "1:1", "^"),
        keep("p.yaml", "max_replan: 3\n"),
    ),
    Case(
        "a misspelt policy inside another",
        ("check", "reads.yaml", *TOOLS, "--policies", "p.yaml"),
        ("'retry.attempt'", "'attempts'", "2:3"),
        keep("p.yaml", "retry:\n  attempt: 3\n"),
    ),
    Case(
        "a policy of the wrong type",
        ("check", "reads.yaml", *TOOLS, "--policies", "p.yaml"),
        ("'approve'", "1:10"),
        keep("p.yaml", "approve: sometimes\n"),
    ),
    Case(
        "a limit for a tool that is not there",
        ("check", "reads.yaml", *TOOLS, "--policies", "p.yaml"),
        ("'refnd'", "'refund'"),
        keep("p.yaml", "limits: {tool: {refnd: 1}}\n"),
    ),
    Case("no such policies", ("check", "reads.yaml", *TOOLS, "--policies", "p.yaml"), ("'p.yaml'",)),
    Case(
        "a principal without an id",
        ("check", "reads.yaml", *TOOLS, "--principal", "who.yaml"),
        ("'id'", "who.yaml"),
        keep("who.yaml", "roles: [admin]\n"),
    ),
    Case(
        "an approval that is none",
        ("run", "plan.yaml", *TOOLS, *MAY, *LEDGER, "--approval", "plan.yaml", "--journal", "runs.db"),
        ("approval",),
    ),
    Case(
        "an approval and no journal",
        ("run", "plan.yaml", *TOOLS, *MAY, *LEDGER, "--approval", "plan.yaml"),
        ("--journal", "FOREPLAN_JOURNAL"),
    ),
    Case(
        "an unknown scope",
        ("approve", "plan.yaml", *TOOLS, *MAY, *LEDGER, "--scope", "read"),
        ("'read'", "'reads'"),
    ),
    Case(
        "no duration",
        ("approve", "plan.yaml", *TOOLS, *MAY, *LEDGER, "--expires-in", "soon"),
        ("'soon'", "24h"),
    ),
    # journals and runs
    Case("no journal named", ("runs",), ("--journal", "FOREPLAN_JOURNAL")),
    Case("no such journal", ("runs", "--journal", "runs.db"), ("runs.db",)),
    Case("a journal that is none", ("runs", "--journal", "plan.yaml"), ("plan.yaml",)),
    Case("a directory for a journal", ("runs", "--journal", "."), ("no regular file",)),
    Case("an unknown run", ("show", "x1", "--journal", "j.db"), ("'x1'",), lambda: make_journal()),
    Case(
        "an unknown run to resume",
        ("resume", "x1", *TOOLS, "--journal", "j.db"),
        ("'x1'",),
        lambda: make_journal(),
    ),
    Case(
        "an unknown run to cancel", ("cancel", "x1", "--journal", "j.db"), ("'x1'",), lambda: make_journal()
    ),
    Case(
        "an answer without a choice",
        ("resume", "x1", *TOOLS, "--journal", "j.db", "--decide", "a"),
        ("--decide", "'a'"),
    ),
    Case(
        "an answer with a value that takes none",
        ("resume", "x1", *TOOLS, "--journal", "j.db", "--decide", "a=retry:1"),
        ("accept", "retry"),
    ),
    # the words themselves
    Case("an unknown command", ("chekc", "plan.yaml"), ("chekc",)),
    Case("an unknown option", ("check", "plan.yaml", "--tolls", "x"), ("--tolls", "--tools")),
    Case("a missing argument", ("check", *TOOLS), ("PLAN", "foreplan check --help")),
    Case("one argument too many", ("runs", "x", "--journal", "j.db"), ("x", "foreplan runs --help")),
    Case("an option without its value", ("check", "plan.yaml", "--tools"), ("--tools",)),
    Case("control characters in a name", ("check", "a\x1b[2J\u202eb", *TOOLS), ("a\\x1b[2J\\u202eb",)),
]


def make_journal() -> None:
    """A journal with no run."""
    from foreplan import SqliteJournal

    SqliteJournal("j.db").close()


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """A folder with tools and plans, in which commands are typed."""
    write_case(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("FOREPLAN_TOOLS", "FOREPLAN_JOURNAL", "COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return Shell(tmp_path, capsys)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.what)
def test_bad_input_is_a_sentence(case: Case, shell: Shell) -> None:
    """Exit code 2; the sentence names the thing and, where there is one, its neighbour; never a traceback."""
    case.before()
    said = shell.here(*case.words)
    everything = said.out + said.err
    assert (said.code, "Traceback" in everything) == (2, False), everything
    flat = " ".join(everything.split())
    assert [part for part in case.said if part not in flat and part not in everything] == [], everything


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.what in ("bad YAML", "no tools", "no such attribute")],
    ids=lambda c: c.what,
)
def test_bad_input_in_json_says_the_same(case: Case, shell: Shell) -> None:
    """Programs get the sentence in `error.message`, and the exit code again."""
    case.before()
    document = shell.here(*case.words, "--json").document
    assert (document["exit_code"], document["error"]["kind"], bool(document["error"]["message"])) == (
        2,
        "bad_input",
        True,
    )


def test_a_traceback_is_shown_to_whoever_asks(shell: Shell) -> None:
    """`--traceback` shows where the exception of a module came from."""
    module("x = 1\nnope\n")()
    said = shell.here("tools", "--tools", "wrong.py", "--traceback")
    assert (said.code, "Traceback" in said.err, "line 2" in said.err) == (2, True, True)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_named(shell: Shell) -> None:
    """Permissions are told as what they are."""
    os.chmod("plan.yaml", 0)
    said = shell.here("check", "plan.yaml", *TOOLS)
    assert (said.code, "Permission denied" in said.err) == (2, True)


def test_an_unknown_run_names_the_nearest(shell: Shell) -> None:
    """A mistyped id is answered with the right one."""
    shell.here("run", "reads.yaml", *TOOLS, "--journal", "runs.db")
    [run] = shell.here("runs", "--journal", "runs.db", "--json").document["runs"]
    said = shell.here("show", run["run"][:-1], "--journal", "runs.db")
    assert (said.code, run["run"] in said.err) == (2, True)


def test_an_unknown_answer_names_the_choices(shell: Shell) -> None:
    """A choice that the question does not have, and a question that is not open, are named."""
    shell.here("run", "pays.yaml", *TOOLS, "--approve", "--yes", "--journal", "runs.db")
    [run] = shell.here("runs", "--journal", "runs.db", "--json").document["runs"]
    asked = shell.here("show", run["run"], "--journal", "runs.db", "--json").document["waiting"][0]["id"]
    words = ("resume", run["run"], *TOOLS, "--journal", "runs.db", "--decide")
    said = [shell.here(*words, word) for word in (f"{asked}=perhaps", "payments=approve")]
    assert [s.code for s in said] == [2, 2]
    assert "approve, reject" in said[0].err
    assert asked in said[1].err


def test_the_plan_of_these_tests_is_good(shell: Shell) -> None:
    """What is wrong above is wrong for the reason that is named."""
    Path("again.yaml").write_text(PLAN)
    assert shell.here("check", "again.yaml", *TOOLS, *MAY).code == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full disk to write to")
@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_result_that_cannot_be_written_is_a_sentence(shell: Shell, more: tuple[str, ...]) -> None:
    """A full disk behind stdout ends the command with 1 and says why, also with `--json`."""
    command = [sys.executable, "-P", "-m", "foreplan", "review", "plan.yaml", *TOOLS, *LEDGER, *MAY, *more]
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            command,
            cwd=shell.folder,
            env=child_environment(),
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert (ran.returncode, ran.stderr) == (
        1,
        "foreplan: the result cannot be written: No space left on device\n",
    )


def test_a_closed_standard_input_is_named(shell: Shell) -> None:
    """`-` where the shell closed standard input is bad input, like a file that is not there."""
    command = 'exec "$0" -P -m foreplan check - --tools shop.py <&-'
    ran = subprocess.run(
        ["sh", "-c", command, sys.executable],
        cwd=shell.folder,
        env=child_environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ran.returncode, ran.stderr) == (
        2,
        "foreplan: standard input is closed; name a file in place of '-'\n",
    )


def test_a_misspelt_input_is_told_once(shell: Shell) -> None:
    """One nearest name, and not the same one twice."""
    Path("takes.yaml").write_text(
        "inputs: {type: object, properties: {ledger: {type: string}}}\nsteps: [{id: a, value: 1}]\n"
    )
    said = shell.here("run", "takes.yaml", *TOOLS, "--set", "ledgr=x")
    assert (said.code, said.err.count("did you mean 'ledger'?")) == (2, 1)
