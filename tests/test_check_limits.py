"""What a check may cost at the most: seconds of one processor and memory, in a process of its own, for plans of every bad shape."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.shop import CLERK, ledger, shop

from foreplan.planner.checking import check
from foreplan.planner.plan import Plan, Step
from foreplan.registry.registry import Registry
from foreplan.registry.tools import Tool

N = 10_000
Case = tuple[list[Step], Registry]


def values(count: int, value: Callable[[int], Any]) -> list[Step]:
    return [Step(id=f"s{i}", value=value(i)) for i in range(count)]


def ordinary() -> Case:
    """Calls and values that use each other, as a planner would write them."""
    steps = [Step(id="s0", tool="read_ledger", args={"path": "x"})]
    for i in range(1, N):
        rows = {"$": f"[r.amount for r in s{i - i % 3}.rows if r.amount > {i}]"}
        steps.append(
            Step(id=f"s{i}", tool="read_ledger", args={"path": {"$": f"s{i - 3}.rows[0].id"}})
            if i % 3 == 0
            else Step(id=f"s{i}", value=rows)
        )
    return steps, shop()


def tool(name: str, gives: Any, takes: Any = True) -> Tool:
    schema = {"type": "object", "properties": {"x": takes}, "required": ["x"]}
    if isinstance(takes, dict) and "$defs" in takes:
        schema = {**schema, "$defs": takes["$defs"], "properties": {"x": {"$ref": takes["$ref"]}}}
    return Tool.declare(name, "A tool.", input_schema=schema, output_schema=gives, call=never, effect="reads")


async def never(args: dict[str, Any]) -> Any:
    raise AssertionError("a check calls no tool")


def referring(gives: Any, text: Callable[[int], str], takes: Any = True, count: int = 2000) -> Case:
    """A tool that gives such values, and so many calls that refer to them."""
    steps = [Step(id="a", tool="make", args={"x": 1})]
    steps += [Step(id=f"s{i}", tool="use", args={"x": {"$": text(i)}}) for i in range(count)]
    return steps, Registry(tool("make", gives), tool("use", True, takes))


def wide(kind: str = "string") -> dict[str, Any]:
    fields = {f"field_{i}": {"type": kind} for i in range(3000)}
    return {"type": "object", "properties": fields, "required": [*fields]}


def doubling(kind: str) -> dict[str, Any]:
    """Twenty levels, each of which names the next one twice: a million paths."""
    levels = {
        f"d{i}": {
            "type": "object",
            "properties": {k: {"$ref": f"#/$defs/d{i + 1}"} for k in "ab"},
            "required": ["a"],
        }
        for i in range(20)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**levels, "d20": {"type": kind}}}


def ring(kind: str) -> dict[str, Any]:
    """Forty parts, each of which may hold each of the others."""
    parts = {
        f"d{i}": {
            "type": "object",
            "properties": {"v": {"type": kind}, **{f"k{j}": {"$ref": f"#/$defs/d{j}"} for j in range(40)}},
        }
        for i in range(40)
    }
    return {"$ref": "#/$defs/d0", "$defs": parts}


def crossed() -> dict[str, Any]:
    """`allOf` of twelve `anyOf`: 12^12 combinations."""
    several = [[{"type": "object", "properties": {f"k{i}{j}": {}}} for j in range(12)] for i in range(12)]
    return {"allOf": [{"anyOf": branches} for branches in several]}


CASES: dict[str, tuple[float, Callable[[], Case]]] = {
    "10,000 ordinary steps": (2, ordinary),
    "one ring of 10,000": (5, lambda: (values(N, lambda i: {"$": f"s{(i + 1) % N} + 1"}), shop())),
    "50,000 edges": (5, lambda: (values(N, lambda i: [{"$": f"s{i // k}"} for k in (2, 3, 5, 7, 11)] if i else 0), shop())),
    "one step that uses 9,999": (5, lambda: ([*values(N - 1, lambda i: i), Step(id="last", value=[{"$": f"s{i}"} for i in range(N - 1)])], shop())),
    "20,000 errors": (5, lambda: ([Step(id=f"s{i}", tool="send_emial", args={"to": {"$": f"nope{i}.x"}}) for i in range(N)], shop())),
    "20,000 bad expressions": (8, lambda: (values(N, lambda i: [{"$": f"s{i}.rows.map(r => r.x{i})"}, {"$": f"{{{{s{i} | length}}}} > {i}"}]), shop())),
    "20,000 texts that look like references": (5, lambda: (values(N, lambda i: ["{{" + f"s{i}.x" + "}}", f"Dear ${{s{i}.x | upper}}"]), shop())),
    "2,000 references to fields of wide objects": (5, lambda: referring(wide(), lambda i: f"a.field_{i}", {"type": "string"})),
    "2,000 typos in wide objects": (5, lambda: referring(wide(), lambda i: f"a.feild_{i} + a.fild_{i}", {"type": "string"})),
    "2,000 references to wide objects": (5, lambda: referring(wide(), lambda i: "a", wide("number"))),
    "2,000 references to wide objects that fit": (5, lambda: referring(wide(), lambda i: "a", {**wide(), "title": "x"})),
    "2,000 spreads of wide objects": (5, lambda: referring(wide(), lambda i: "{**a, 'x': 1}", wide())),
    "2,000 choices between wide objects": (5, lambda: referring(wide(), lambda i: f"a if {i} > 3 else {{**a}}", wide("integer"))),
    "2,000 filters of wide objects": (5, lambda: referring({"type": "array", "items": wide()}, lambda i: "[r for r in a if r.field_1 == 'x' and 'field_2' in r]", {"type": "array", "items": wide()})),
    "twelve crossed unions": (5, lambda: referring(crossed(), lambda i: "a.k00", crossed())),
    "doubling references": (5, lambda: referring(doubling("string"), lambda i: "a", doubling("integer"))),
    "references in rings": (5, lambda: referring(ring("string"), lambda i: "a.k1.k2", ring("integer"))),
}  # fmt: skip
"""Name -> the most seconds, and what makes the plan and its tools."""

LOAD = """
import json, sys
sys.path[:0] = sys.argv[2:]
import test_check_limits
print(json.dumps(test_check_limits.measured(sys.argv[1])))
"""


def measured(name: str) -> tuple[float, int, int]:
    """The check of one case: seconds, the peak of this process in bytes, and the number of findings."""
    steps, registry = CASES[name][1]()
    plan = Plan(steps=steps)
    start = time.process_time()
    found = check(plan, registry, principal=CLERK)
    seconds = time.process_time() - start
    peak = next(
        line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line
    )
    return seconds, int(peak) * 1024, len(found.findings)


@pytest.mark.parametrize("name", CASES)
def test_a_check_ends_soon_and_stays_small(name: str) -> None:
    """Two seconds for a plan of 10,000 ordinary steps, five for each bad one; 500 MB for all there is in the process."""
    if not Path("/proc/self/status").exists():
        pytest.skip("this system does not tell the peak memory of a program")
    command = [sys.executable, "-c", LOAD, name, str(Path(__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, peak, _ = json.loads(done.stdout)
    assert seconds <= CASES[name][0]
    assert peak <= 500_000_000


def test_ordinary_steps_are_sound() -> None:
    """The plan whose check is measured is one that checks."""
    steps, registry = ordinary()
    assert check(Plan(steps=steps[:300]), registry, principal=CLERK).ok
    assert check(Plan(steps=[Step(id="a", tool="read_ledger", args={"path": 1})]), Registry(ledger())).errors
