"""Declarations and servers that nobody here wrote: each tool loads or gets a finding, recorded plans end in the same state."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import sys
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.datasets import DATA, plan_of, records

from foreplan import Engine, Plan, Policies, Retry, Tool, mcp_tools
from foreplan.registry.mcp_declared import Said, declared_tools

DECLARED = DATA / "livemcpbench_retrieval" / "tools.json"


@pytest.mark.skipif(not DECLARED.exists(), reason=f"{DECLARED} is not there")
def test_each_of_527_real_declarations_loads_or_gets_a_finding() -> None:
    """By server, as they would be loaded."""
    servers: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for each in json.loads(DECLARED.read_text()):
        document = {key: each[key] for key in ("name", "description")}
        servers[each["server"]].append({**document, "inputSchema": each["input_schema"]})
    loaded: list[Tool] = []
    left_out = 0
    for server, documents in servers.items():
        tools, pins, findings = declared_tools(documents, Said(origin=server), lambda name, acts: print)
        assert len(pins) == len(tools)
        loaded += tools
        left_out += sum(not finding.loaded for finding in findings)
    assert len(loaded) + left_out == sum(map(len, servers.values())) == 527
    assert len(loaded) >= 520
    assert {tool.effect.value for tool in loaded} == {"acts"}


Task = dict[str, Any]


def tasks_of(domain: str, most: int | None = None) -> list[Task]:
    """The open tasks of a domain, with the calls that were recorded for them; for five there are none."""
    if importlib.util.find_spec(f"tau2_{domain}_mcp") is None:
        pytest.skip(f"pip install tau2-{domain}-mcp-eval")
    open_ = [item for item in records("taubench") if item["domain"] == domain and item["plan"]["steps"]]
    return open_[:most]


def plan_of_task(task: Task) -> Plan:
    """The recorded calls with their references, one after the other: which of them have an effect, nothing tells.

    The server wraps each result, and keeps a state for each key.
    """
    steps = [{**step, "args": _wrapped(step["args"])} for step in task["plan"]["steps"]]
    document = plan_of(steps).to_json()
    for step in document["steps"]:
        step["args"]["state_key"] = task["id"]
        step["on_failure"] = "skip"
    for before, step in pairwise(document["steps"]):
        step["after"] = sorted({before["id"], *step.get("after", ())})
    return Plan.model_validate(document)


def _wrapped(args: Any) -> Any:
    if isinstance(args, list):
        return [_wrapped(part) for part in args]
    if not isinstance(args, dict):
        return args
    if "$ref" in args:
        return {**args, "path": ["parsed_content", *args["path"]]}
    return {key: _wrapped(part) for key, part in args.items()}


async def through_mcp(domain: str, tasks: list[Task], folder: Path) -> None:
    """Each plan runs to its end, and the server refuses what it refused when it was recorded, and nothing else."""
    stdio = [sys.executable, "-m", f"tau2_{domain}_mcp.server"]
    environment = {f"TAU2_{domain.upper()}_MCP_STATE_DIR": str(folder)}
    policies = Policies(approve="never", retry=Retry(attempts=1))
    async with mcp_tools(stdio=stdio, environment=environment, on_error="no") as served:
        assert served.findings == ()
        for task in tasks:
            run = await Engine(served, policies=policies).run(plan_of_task(task))
            recorded = {step["id"] for step in task["plan"]["steps"] if step["error"] is not None}
            assert run.state == "done"
            failed = {path.partition("[")[0]: failure.code for path, failure in run.failures}
            assert failed == dict.fromkeys(recorded, "refused")


def directly(server: Any, task: Task) -> None:
    """The recorded calls with the arguments that they had, by the server's own code, without MCP."""
    for step in task["plan"]["steps"]:
        arguments = {**step["args_literal"], "state_key": task["id"]}
        server._handle_tool_call({"name": step["tool"], "arguments": arguments})


def state_in(folder: Path, task: Task) -> Any:
    name = f"{hashlib.sha256(task['id'].encode()).hexdigest()}.json"
    return json.loads((folder / name).read_text())["db"]


def compare(domain: str, tasks: list[Task], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state of each task is the same both ways, and another than before where it was recorded so."""
    server: Any = importlib.import_module(f"tau2_{domain}_mcp.server")
    ways = [folder / "through", folder / "directly"]
    anyio.run(through_mcp, domain, tasks, ways[0])
    monkeypatch.setattr(server, "_STATES", {})  # it keeps what it has once loaded
    monkeypatch.setenv(f"TAU2_{domain.upper()}_MCP_STATE_DIR", str(ways[1]))
    for task in tasks:
        directly(server, task)
        through, without = (state_in(way, task) for way in ways)
        assert through == without
        assert (through != server._base_db()) == task["db_changed"]


def test_a_recorded_plan_of_an_airline_runs_through_its_mcp_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that nobody here wrote, and the first of the open tasks."""
    compare("airline", tasks_of("airline", 1), tmp_path, monkeypatch)


@pytest.mark.proof
@pytest.mark.parametrize(("domain", "count"), [("retail", 58), ("airline", 19)])
def test_all_recorded_plans_of_tau_end_in_the_recorded_state(
    domain: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """77 of the 82 open tasks have calls: references are followed through MCP, what was refused is refused, the state is the same."""
    tasks = tasks_of(domain)
    assert len(tasks) == count
    compare(domain, tasks, tmp_path, monkeypatch)
