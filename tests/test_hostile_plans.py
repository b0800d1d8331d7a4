"""Plans written to do harm: each gives findings, quickly, in little memory, and nothing in them moves a cursor."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.shop import CLERK, shop

from foreplan.planner.checking import check
from foreplan.planner.documents import read_plan
from foreplan.planner.findings import PlanUnreadable
from foreplan.planner.reviewing import review


def doubling(form: str, times: int = 60) -> str:
    steps = [{"id": "s0", "value": ["x" * 10]}]
    steps += [{"id": f"s{i}", "value": json.loads(form.replace("@", f"s{i - 1}"))} for i in range(1, times)]
    use = {"id": "use", "tool": "store_value", "args": {"key": "k", "value": {"$": f"s{times - 1}"}}}
    return json.dumps({"steps": [*steps, use]})


def value(expression: str) -> str:
    return json.dumps({"steps": [{"id": "a", "value": {"$": expression}}]})


HOSTILE = {
    "escape sequences": 'steps: [{id: "\\e[2J", tool: "\\e]0;owned\\a", after: ["\\u202e"]}]',
    "raw escape sequences": "steps: [{id: a, tool: '\x1b[31m'}]",
    "markup": 'goal: "[red]x[/red] [link=http://e]y[/link]"\nsteps: [{id: "[bold]", tool: "[/]"}]',
    "a name of 1 MB": json.dumps({"steps": [{"id": "x" * 1_000_000, "tool": "y" * 1_000_000, "after": ["z" * 1_000_000]}]}),
    "an expression of 1 MB": value("x" * 1_000_000),
    "an expression of 1 MB, spelled out": value("[" + "1," * 500_000 + "]"),
    "10,000 nested brackets in an expression": value("(" * 10_000 + "1" + ")" * 10_000),
    "10,000 nested brackets": "steps: " + "[" * 10_000,
    "10,000 times not": value("not " * 5_000 + "x"),
    "10,000 signs": value("-" * 10_000 + "1"),
    "10,000 fields": value("a" + ".a" * 9_000),
    "yaml aliases": "a: &a [x,x]\nb: &b [*a,*a]\nsteps: [*b]",
    "duplicate keys": '{"steps": [], "steps": [{"id": "a"}]}',
    "classes": value("().__class__.__bases__[0].__subclasses__()"),
    "imports": value("__import__('os').system('true')"),
    "formats that reach into objects": value("'{0.__class__}'.format(inputs)"),
    "a format of a billion characters": value("f'{1:>999999999}'"),
    "powers of powers": value("9**9**9**9"),
    "a text a billion times": value("'x' * 1000000000"),
    "a range without end": value("[x * y for x in range(100000) for y in range(100000)]"),
    "texts that double": doubling('{"$": "[@[0] + @[0]]"}'),
    "lists that double": doubling('{"$": "@ + @"}'),
    "objects that double": doubling('{"a": {"$": "@"}, "b": {"$": "@"}}'),
    "an input schema that is itself": 'inputs: {$ref: "#"}\nsteps: [{id: a, value: {$: inputs.x}}]',
    "an input schema elsewhere": 'inputs: {$ref: "http://127.0.0.1:1/x"}\nsteps: [{id: a, value: 1}]',
    "a catastrophic pattern": f'inputs: {{properties: {{x: {{pattern: "^(a+)+$", default: "{"a" * 40}!"}}}}}}\nsteps: [{{id: a, value: 1}}]',
    "50,000 arguments": json.dumps({"steps": [{"id": "a", "tool": "send_email", "args": {f"k{i}": 1 for i in range(50_000)}}]}),
    "100,000 wrong items": json.dumps({"steps": [{"id": "a", "tool": "send_email", "args": {"to": "a@b", "body": "x", "cc": [1] * 100_000}}]}),
}  # fmt: skip


def findings(text: str) -> list[str]:
    """Read, check and review, as the command line does; everything that is said."""
    try:
        plan = read_plan(text)
    except PlanUnreadable as error:
        return [str(f) for f in error.findings]
    report = check(plan, shop(), principal=CLERK)
    document = review(plan, shop(), principal=CLERK).to_json()
    assert len(json.dumps(document)) < 50_000_000
    return [str(f) for f in report.findings]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_plan_gives_findings_at_once(name: str) -> None:
    """About a second on an idle machine; the bound catches what is quadratic or worse."""
    start = time.process_time()
    said = findings(HOSTILE[name])
    assert time.process_time() - start < 8
    assert said
    assert not {c for text in said for c in text} & set("\x1b\x07\x9b\u202e\u2066\r")


def test_all_of_them_together_stay_below_200_mb() -> None:
    """Peak memory of a process of its own that reads, checks and reviews each of them."""
    if not Path("/proc/self/status").exists():
        pytest.skip("this system does not tell the peak memory of a program")
    program = (
        "import sys; sys.path[:0] = sys.argv[1:]; import test_hostile_plans as t;"
        "[t.findings(text) for text in t.HOSTILE.values()];"
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    command = [sys.executable, "-c", program, str(Path(__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) * 1024 < 200_000_000
