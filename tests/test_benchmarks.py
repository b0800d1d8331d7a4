"""The benchmarks run, name themselves, and are told of in the documentation."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
BENCHMARKS = ROOT / "benchmarks"

pytestmark = pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="the benchmarks are not beside the tests")


def names() -> set[str]:
    """The modules that can be run as benchmarks: those with a `measure`."""
    trees = {path.stem: ast.parse(path.read_text("utf-8")) for path in BENCHMARKS.glob("*.py")}
    return {
        name
        for name, tree in trees.items()
        if any(isinstance(node, ast.FunctionDef) and node.name == "measure" for node in tree.body)
    }


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", str(BENCHMARKS), *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_every_benchmark_can_be_named_and_is_told_of() -> None:
    """One that nobody can run, or that the page on performance forgets, would show here."""
    told = (ROOT / "docs" / "performance.md").read_text("utf-8")
    usage = run("--help").stdout
    assert [name for name in names() if name not in usage or f"`{name}`" not in told] == []


def test_a_benchmark_that_is_not_there_is_a_usage_error() -> None:
    """With the ones that are."""
    said = run("overheat")
    assert said.returncode == 2
    assert "there is no benchmark 'overheat'; there are overhead, " in said.stderr


@pytest.mark.proof
def test_a_benchmark_gives_figures_and_targets() -> None:
    """Whatever they are on this machine: figures by case, and for each target whether it holds."""
    said = run("overhead", "--json", "--repeats", "1", "--no-peer")
    assert said.stderr == ""
    document: dict[str, Any] = json.loads(said.stdout)["benchmarks"]["overhead"]
    assert set(document["figures"]["DAG of 1,000"]) == {"floor_us", "foreplan_us", "x_floor"}
    assert [type(target["holds"]) for target in document["targets"]] == [bool] * 4
