"""One corpus says what every text means: a value, an error or a refusal; the same on every Python."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.conformance import CORPUS, differences, outcome

ROOT = Path(__file__).parent.parent
_DATA = json.loads(CORPUS.read_text(encoding="utf-8"))


@pytest.mark.parametrize("topic", sorted({case["topic"] for case in _DATA["cases"]}))
def test_every_text_of_the_corpus_means_what_it_says(topic: str) -> None:
    """Value with its type, or code and offset of the error, or code, offset and suggestion of the refusal."""
    wrong: dict[str, Any] = {}
    for case in _DATA["cases"]:
        expected = {key: value for key, value in case.items() if key not in ("topic", "text")}
        seen = outcome(case["text"], _DATA["scope"])
        if case["topic"] == topic and json.dumps(seen) != json.dumps(expected):
            wrong[case["text"]] = (expected, seen)
    assert wrong == {}


def test_the_runner_for_other_pythons_sees_the_same() -> None:
    """What the stand-alone runner reports is what this test sees."""
    assert differences() == []


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_every_python_available_agrees(version: str) -> None:
    """The corpus holds on each supported Python that is installed, with warnings as errors."""
    python = shutil.which(f"python{version}")
    if python is None or subprocess.run([python, "--version"], capture_output=True).returncode:
        pytest.skip(f"Python {version} is not installed here")
    runner = ROOT / "tests" / "support" / "conformance.py"
    command = [python, "-I", "-B", "-W", "error", str(runner), str(ROOT)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.stdout.strip() + result.stderr == ""


def test_the_corpus_is_large_enough_to_be_a_specification() -> None:
    """At least 250 texts with a value, 100 with an error of evaluation, 200 refused; no text stands twice."""
    cases = _DATA["cases"]
    assert sum("value" in case for case in cases) >= 250
    assert sum("error" in case for case in cases) >= 100
    assert sum("refused" in case for case in cases) >= 200
    assert len({case["text"] for case in cases}) == len(cases)
    assert sys.version_info >= (3, 11)
