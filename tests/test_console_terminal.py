"""At a real terminal: questions are asked and answered, the live view comes and goes, and the terminal is left as it was."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from support.shell import child_environment, write_case

ANSI = re.compile("\x1b\\[[0-9;?]*[a-zA-Z]")
TOOLS = ("--tools", "shop.py")


class Terminal:
    """A command that runs at a pseudo-terminal; the test waits for what it says, and types."""

    def __init__(self, *words: str, columns: int = 80) -> None:
        self.screen, ours = pty.openpty()
        termios.tcsetwinsize(ours, (24, columns))
        self.before = termios.tcgetattr(ours)
        environment = {**child_environment(), "TERM": "xterm-256color", "NO_COLOR": ""}
        command = [sys.executable, "-P", "-m", "foreplan", *words]
        self.process = subprocess.Popen(
            command, stdin=ours, stdout=ours, stderr=ours, env=environment, start_new_session=True
        )
        self._ours = ours
        self.seen = ""

    @property
    def text(self) -> str:
        """What was shown, without escapes."""
        return ANSI.sub("", self.seen).replace("\r", "")

    def expect(self, text: str) -> None:
        """Read until this is shown; a minute without a sign is a failure."""
        while text not in self.text:
            if not self._read():
                raise AssertionError(f"{text!r} was not shown, but:\n{self.text}")

    def type(self, text: str) -> None:
        """Type."""
        os.write(self.screen, text.encode())

    def end(self) -> int:
        """Read to the end; the exit code. The terminal must be as it was before."""
        code = None
        while code is None:
            self._read(1)
            code = self.process.poll()
        while self._read(0):
            pass
        assert termios.tcgetattr(self._ours) == self.before
        os.close(self._ours)
        os.close(self.screen)
        return code

    def _read(self, seconds: float = 60) -> bool:
        ready, _, _ = select.select([self.screen], [], [], seconds)
        if not ready:
            return False
        try:
            piece = os.read(self.screen, 65536)
        except OSError:
            return False
        self.seen += piece.decode(errors="replace")
        return bool(piece)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with tools and plans."""
    write_case(tmp_path)
    monkeypatch.chdir(tmp_path)


PLAN = ("plan.yaml", *TOOLS, "--permission", "payments.refund", "--set", "ledger=x")


@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("yes\n", 0), ("\n", 3), ("n\n", 3), ("\x04", 3)])
def test_approve_asks_and_no_answer_means_no(typed: str, code: int) -> None:
    """Only a yes writes the approval."""
    terminal = Terminal("approve", *PLAN, "-o", "yes.json")
    terminal.expect("[y/N]")
    terminal.type(typed)
    assert (terminal.end(), Path("yes.json").exists()) == (code, code == 0)


def test_ctrl_c_at_a_question_is_no() -> None:
    """Nothing is written, and nothing is left on the terminal but a sentence."""
    terminal = Terminal("approve", *PLAN, "-o", "yes.json")
    terminal.expect("[y/N]")
    os.kill(terminal.process.pid, 2)
    assert (terminal.end(), Path("yes.json").exists(), "Traceback" in terminal.text) == (130, False, False)


def test_run_approve_asks_and_runs() -> None:
    """One command: the review, the question, the run, the account."""
    terminal = Terminal("run", *PLAN, "--approve")
    terminal.expect("Cannot be taken back")
    terminal.expect("[y/N]")
    terminal.type("y\n")
    terminal.expect("refunded p3")
    assert terminal.end() == 0


def test_questions_of_a_run_are_asked_together() -> None:
    """Two calls of one tool: shown together, one yes for both."""
    terminal = Terminal("run", "pays.yaml", *TOOLS, "--approve", "--yes")
    terminal.expect("Approve all 2? [y/N")
    assert 'to = "ada"' in terminal.text
    assert 'to = "bob"' in terminal.text
    terminal.type("y\n")
    assert (terminal.end(), sorted(Path("paid.txt").read_text().split())) == (0, ["ada", "bob"])


def test_questions_may_be_answered_one_by_one() -> None:
    """No to the first, yes to the second: one payment."""
    terminal = Terminal("run", "pays.yaml", *TOOLS, "--approve", "--yes")
    terminal.expect("Approve all 2? [y/N")
    terminal.type("e\n")
    terminal.expect("Approve? [y/N, e to edit]")
    terminal.type("\n")
    while terminal.text.count("Approve? [y/N, e to edit]") < 2:
        terminal.expect("payments[1]")
        assert terminal._read()
    terminal.type("y\n")
    assert (terminal.end(), Path("paid.txt").read_text()) == (1, "bob\n")


def test_a_call_may_be_edited_at_the_terminal() -> None:
    """What changes is typed as JSON; what does not fit the tool is asked again, and nothing goes back to the question."""
    terminal = Terminal("run", "pays.yaml", *TOOLS, "--approve", "--yes")
    terminal.expect("Approve all 2? [y/N")
    terminal.type("e\n")
    terminal.expect("Approve? [y/N, e to edit]")
    terminal.type("e\n")
    terminal.expect("What changes")
    terminal.type('{"too": "eve"}\n')
    terminal.expect("too")
    terminal.expect("What changes")
    terminal.type('{"to": "eve"}\n')
    while terminal.text.count("Approve? [y/N, e to edit]") < 2:
        assert terminal._read()
    terminal.type("\n")
    assert (terminal.end(), Path("paid.txt").read_text()) == (1, "eve\n")


def test_an_unknown_outcome_is_told_by_a_person() -> None:
    """A word by its beginning, and the result as JSON; what is no JSON is asked again."""
    terminal = Terminal("run", "charges.yaml", *TOOLS, "--approve", "--yes", "--quiet")
    terminal.expect("retry, accept, fail? [Enter to decide later]")
    terminal.type("acc\n")
    terminal.expect("Its result as JSON [null]")
    terminal.type("{id\n")
    while terminal.text.count("Its result as JSON [null]") < 2:
        assert terminal._read()
    terminal.type('{"id": "c1"}\n')
    assert (terminal.end(), terminal.text.splitlines()[-1]) == (0, '"c1"')


def test_enter_leaves_an_unknown_outcome_open() -> None:
    """It waits for whoever knows."""
    terminal = Terminal("run", "charges.yaml", *TOOLS, "--approve", "--yes", "--journal", "runs.db")
    terminal.expect("[Enter to decide later]")
    terminal.type("\n")
    assert (terminal.end(), "foreplan resume" in terminal.text) == (3, True)


def test_an_answer_is_by_whoever_sits_there() -> None:
    """`--by` is in the journal."""
    terminal = Terminal(
        "run", "pays.yaml", *TOOLS, "--approve", "--yes", "--by", "ada", "--journal", "runs.db"
    )
    terminal.expect("Approve all 2?")
    terminal.type("y\n")
    assert terminal.end() == 0
    from foreplan import SqliteJournal
    from foreplan.executor.events import DecisionMade

    with SqliteJournal("runs.db") as journal:
        [run] = journal.runs()
        assert {event.by for event in journal.events(run.run) if isinstance(event, DecisionMade)} == {"ada"}


def test_leaving_a_question_open_lets_the_run_wait() -> None:
    """The end of input is no answer: the run waits, and says how to answer it later."""
    terminal = Terminal("run", "pays.yaml", *TOOLS, "--approve", "--yes", "--journal", "runs.db")
    terminal.expect("Approve all 2?")
    terminal.type("\x04")
    assert terminal.end() == 3
    assert "foreplan resume" in terminal.text
    assert not Path("paid.txt").exists()


def test_ctrl_c_at_a_question_of_a_run_pauses_it() -> None:
    """The run can be resumed, and the question is still open."""
    terminal = Terminal("run", "pays.yaml", *TOOLS, "--approve", "--yes", "--journal", "runs.db")
    terminal.expect("Approve all 2?")
    os.kill(terminal.process.pid, 2)
    assert terminal.end() == 130
    again = Terminal("resume", _run(), *TOOLS, "--journal", "runs.db")
    again.expect("Approve all 2?")
    again.type("y\n")
    assert again.end() == 0


def _run() -> str:
    from foreplan import SqliteJournal

    with SqliteJournal("runs.db") as journal:
        return journal.runs()[0].run


def test_the_live_view_leaves_the_terminal_as_it_was() -> None:
    """After Ctrl-C in the middle of a run the cursor is shown again and the picture is gone."""
    terminal = Terminal("run", "stops.yaml", *TOOLS, "--journal", "runs.db")
    assert terminal.end() == 130
    hidden, shown = terminal.seen.rfind("\x1b[?25l"), terminal.seen.rfind("\x1b[?25h")
    assert 0 <= hidden < shown
    assert "has paused" in terminal.text.replace("\n", " ")


def test_colours_are_few_and_plain() -> None:
    """At a terminal there is colour, and with NO_COLOR none."""
    terminal = Terminal("tools", *TOOLS)
    assert terminal.end() == 0
    assert "\x1b[1;31m" in terminal.seen or "\x1b[1;91m" in terminal.seen


ASKS = """\
steps:
  - {id: colour, tool: ask, args: {question: Which colour?, options: [red, {id: blue, label: as the sky}]}}
  - id: terms
    tool: ask
    after: [colour]
    args: {question: "Days?\\e[5m", schema: {type: integer, minimum: 1}, data: {order: 7}}
output: {$: "[colour, terms]"}
"""


def test_a_step_that_asks_is_answered_by_number_and_as_json() -> None:
    """What does not fit is asked again with a reason; what a plan says is shown without its escapes."""
    Path("asks.py").write_text("from foreplan import Registry, ask\nregistry = Registry(ask)\n")
    Path("asks.yaml").write_text(ASKS.replace("\\e", "\\x1b"))
    terminal = Terminal("run", "asks.yaml", "--tools", "asks.py", "--quiet")
    terminal.expect("Which, 1 to 2? [`refuse`, or Enter to decide later]")
    assert "as the sky" in terminal.text
    terminal.type("green\n")
    terminal.expect("'green' is no option: type its number, 1 to 2")
    terminal.type("2\n")
    terminal.expect("Your answer as JSON?")
    assert "\x1b[5m" not in terminal.seen
    assert 'data = {"order": 7}' in terminal.text
    terminal.type("soon\n")
    terminal.expect("text stands in double quotes")
    terminal.type("0\n")
    terminal.expect("at least 1")
    terminal.type("30\n")
    assert terminal.end() == 0
    assert '"blue",' in terminal.text


def test_a_batch_shows_its_rows_asks_and_asks_again_after_the_canary() -> None:
    """The review with the rows beside it, a yes for so many rows, the first of them, a yes for the rest."""
    Path("batch.yaml").write_text(
        "goal: Refund each\ninputs: {type: object, properties: {p: {type: string}}, required: [p]}\n"
        "steps: [{id: back, tool: refund, args: {payment: {$: inputs.p}}}]\noutput: {$: back}\n"
    )
    Path("rows.csv").write_text("p\na\nb\nc\n")
    words = ("--permission", "payments.refund", "--canary", "1", "--results", "out.csv")
    terminal = Terminal("batch", "batch.yaml", "rows.csv", *TOOLS, *words)
    terminal.expect("3 rows can run")
    terminal.expect("for 3 rows? [y/N]")
    terminal.type("y\n")
    terminal.expect("the first row ran")
    terminal.expect("Approve? [y/N]")
    assert not Path("out.csv").exists()
    terminal.type("y\n")
    assert terminal.end() == 0
    assert Path("out.csv").read_text().count("refunded") == 3
