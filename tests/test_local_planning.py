"""The recommended model plans: the licence audit from a sentence, and the requests of somebody who knows no prompt.

How many of the requests it gets right is reported (docs/local.md), not demanded; that each ends as it should is.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rooms import ROOT
from support.local_evaluation import LONGEST, evaluate, figures, requests
from support.local_models import LARGE, fetched

from foreplan import LocalModel

pytestmark = pytest.mark.proof

METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{more}"


@pytest.fixture(scope="module")
def path() -> Path:
    """The recommended model."""
    try:
        return fetched(LARGE)
    except ImportError as error:
        pytest.skip(str(error))


def test_the_licence_audit_is_planned_from_sentences_and_run(path: Path, tmp_path: Path) -> None:
    """By the example itself, over three packages, of which one is silent: the report tells all of them."""
    packages = tmp_path / "site-packages"
    for name, more in {"free": "License: MIT\n", "viral": "License: AGPL-3.0-only\n", "quiet": ""}.items():
        (packages / f"{name}-1.0.dist-info").mkdir(parents=True)
        (packages / f"{name}-1.0.dist-info" / "METADATA").write_text(METADATA.format(name=name, more=more))
    example = ROOT / "examples" / "licence_audit"
    command = [sys.executable, "-W", "error", str(example), "--model", str(path), "--path", str(packages)]
    ran = subprocess.run([*command, "--yes", "--json"], cwd=tmp_path, capture_output=True, text=True)
    told = json.loads(ran.stdout)
    assert (ran.returncode, told["state"]) == (0, "done"), ran.stderr
    report = (tmp_path / "licence-audit" / "licences.csv").read_text()
    assert [line.split(",")[0] for line in report.splitlines()[1:]] == ["free", "quiet", "viral"]


@pytest.mark.skipif(importlib.util.find_spec("support.local_requests") is None, reason="no requests are here")
def test_sixty_requests_are_planned_and_each_ends(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every answer is read, every plan that checks is run; the figures are written to FOREPLAN_FIGURES."""
    asked = requests()
    with LocalModel(path, max_completion_tokens=LONGEST) as model:
        judged = evaluate(model, asked, told=lambda one: None)
    found = figures(judged)
    assert found["all"]["requests"] == len(asked) >= 60
    assert found["all"]["repaired"] >= found["all"]["right"] > 0
    if out := os.environ.get("FOREPLAN_FIGURES"):
        Path(out).write_text(
            json.dumps({"figures": found, "judged": [one._asdict() for one in judged]}, indent=2)
        )
