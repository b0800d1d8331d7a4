"""Every example runs as a reader would run it, and does what its page says."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rooms import ROOT

EXAMPLES = ROOT / "examples"
AUDIT = EXAMPLES / "licence_audit"

METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{more}"


def run(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run Python on an example, away from the repository and without a terminal; a warning is an error."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {
        "COLUMNS": "110",
        "NO_COLOR": "1",
    }
    command = [sys.executable, "-W", "error", *map(str, arguments)]
    return subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder with a few packages, one of them denied by the policy."""
    folder = tmp_path / "site-packages"
    for name, more in {"free": "License: MIT\n", "viral": "License: AGPL-3.0-only\n", "quiet": ""}.items():
        (folder / f"{name}-1.0.dist-info").mkdir(parents=True)
        (folder / f"{name}-1.0.dist-info" / "METADATA").write_text(METADATA.format(name=name, more=more))
    return folder


def test_the_table_below_names_every_example() -> None:
    """An example that is added is run here, too."""
    scripts = {p.name for p in EXAMPLES.iterdir() if p.suffix == ".py" or (p / "__main__.py").is_file()}
    assert scripts == {
        "first_plan.py",
        "licence_audit",
        "parallel_http.py",
        "payments",
        "remedies.py",
        "two_hundred_tools.py",
    }


def test_the_page_of_the_examples_names_each() -> None:
    """Whoever lists the folder finds every example explained."""
    page = (EXAMPLES / "README.md").read_text()
    assert [p.name for p in EXAMPLES.iterdir() if p.name not in page and p.name[0] not in "_R"] == []


def test_the_first_plan_prints_its_sum(tmp_path: Path) -> None:
    """The ten-line plan runs as it stands."""
    assert run(EXAMPLES / "first_plan.py", cwd=tmp_path).stdout == "3\n"


def test_requests_that_fail_once_are_asked_again(tmp_path: Path) -> None:
    """A time-out, a 429 and a 500 each cost their request one more try, and no other request anything."""
    ran = run(EXAMPLES / "parallel_http.py", cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert json.loads(ran.stdout.partition("Output\n")[2]) == {"fine": 1, "slow": 2, "busy": 2, "broken": 2}


def test_a_model_finds_its_way_among_two_hundred_tools(tmp_path: Path) -> None:
    """It is shown those that fit, hears of the call that failed, and answers; every tool it wants was shown."""
    ran = run(EXAMPLES / "two_hundred_tools.py", cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    first, shown, *calls, last = ran.stdout.splitlines()
    assert first == "200 tools; 4 questions to the model, 3 calls"
    assert len(shown.split(", ")) == 12
    assert [line[:2] for line in calls] == ["->", "<-", "->", "!!", "->", "<-"]
    assert last.startswith("done: Order A-9 has been shipped")


def test_a_model_of_ones_own_takes_the_place_of_the_script(tmp_path: Path) -> None:
    """Named as a module and an attribute."""
    (tmp_path / "mine.py").write_text(
        "from foreplan import ScriptedModel\nmodel = ScriptedModel(['no idea'])\n"
    )
    ran = run(EXAMPLES / "two_hundred_tools.py", "--model", "mine", cwd=tmp_path)
    assert (ran.returncode, ran.stdout.splitlines()[-1]) == (0, "done: no idea")


def test_each_kind_of_failure_has_its_remedy(tmp_path: Path) -> None:
    """One of each, and all of them end well."""
    ran = run(EXAMPLES / "remedies.py", cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    for said in (
        "bad_args invalid_arguments: 'timetable' does not take these arguments",
        "planned anew: pay_scale for it",
        "ada says: approve",
        "slow(): timeout deadline",
        "it was left alone for 0.3 s: yes",
        "the planner heard the code: True, the words of the tool: False",
    ):
        assert said in ran.stdout
    assert ran.stdout.count("=> done") == 6


def test_the_audit_without_a_yes_writes_nothing(packages: Path, tmp_path: Path) -> None:
    """Without a terminal to ask at and without --yes, it shows the review, writes no report and exits with 3."""
    ran = run(AUDIT, "--path", packages, "--out", tmp_path / "out", cwd=tmp_path)
    assert ran.returncode == 3
    assert "append_history" in ran.stdout
    assert not list(tmp_path.glob("out/licences.*"))


def test_the_audit_names_what_the_policy_denies(packages: Path, tmp_path: Path) -> None:
    """A denied licence is exit code 4, and the report has a line for every package, also for a silent one."""
    ran = run(AUDIT, "--path", packages, "--out", tmp_path / "out", "--yes", cwd=tmp_path)
    assert ran.returncode == 4, ran.stderr
    with open(tmp_path / "out" / "licences.csv", newline="") as file:
        assert {row["name"]: row["verdict"] for row in csv.DictReader(file)} == {
            "free": "allowed",
            "quiet": "unknown",
            "viral": "denied",
        }


def test_the_audit_in_json_is_one_document(packages: Path, tmp_path: Path) -> None:
    """With --json nothing but the result is on standard output."""
    ran = run(AUDIT, "--path", packages, "--out", tmp_path / "out", "--yes", "--json", cwd=tmp_path)
    document = json.loads(ran.stdout)
    assert document["state"] == "done"
    assert document["output"]["counts"] == {
        "packages": 3,
        "allowed": 1,
        "review": 0,
        "denied": 1,
        "unknown": 1,
    }


def test_each_audit_adds_a_line_to_the_history(packages: Path, tmp_path: Path) -> None:
    """Two audits leave two lines, and the newer report."""
    for _ in range(2):
        run(AUDIT, "--path", packages, "--out", tmp_path / "out", "--yes", cwd=tmp_path)
    assert len((tmp_path / "out" / "history.csv").read_text().splitlines()) == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--path", "nowhere"], "there is no folder nowhere"),
        (["--path", ".", "--policy", "nowhere.yaml"], "the policy nowhere.yaml cannot be read"),
        (
            ["--path", ".", "--policy", str(AUDIT / "plan.yaml")],
            "is not as it should be: allowed: Field required",
        ),
        (["--out", "/dev/null/out"], "the folder /dev/null/out cannot be made: Not a directory"),
        (["--resume", "no-such-run"], "no-such-run"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(arguments: list[str], said: str, tmp_path: Path) -> None:
    """What cannot be used is named, without a traceback."""
    ran = run(AUDIT, *arguments, cwd=tmp_path)
    assert (ran.returncode, "Traceback" in ran.stderr) == (2, False)
    assert said in ran.stderr


def test_the_demonstration_plans_anew(tmp_path: Path) -> None:
    """The packages that it adds make the plain reader fail, and the run goes on with the other one."""
    ran = run(AUDIT, "--demo", "--yes", cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    for said in ("read_metadata_carefully", "metadata_again", "gruesse", "PatchAccepted"):
        assert said in ran.stdout


def test_the_audit_says_which_model_it_lacks(tmp_path: Path) -> None:
    """Before anything is asked; with the extra that runs models, or the command that fetches one."""
    ran = run(AUDIT, "--model", "nowhere.gguf", "--yes", cwd=tmp_path)
    assert ran.returncode == 2
    assert "foreplan models pull" in ran.stderr or "foreplan[local]" in ran.stderr
