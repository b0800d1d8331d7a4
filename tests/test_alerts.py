"""The rules of docs/operations.md fire on what runs like those they are about really export, and not on healthy ones."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest
import yaml
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import CollectorRegistry
from support.pages import blocks
from support.virtual import now, run_virtual

from foreplan import Engine, Limits, Plan, Policies, Rate, Rates, Telemetry, ToolFailure, tool
from foreplan.policies.retry import Retry

PAGE = Path(__file__).parent.parent / "docs" / "operations.md"
[RULES] = [block.body for block in blocks(PAGE.read_text()) if block.language == "yaml"]
ALERTS = {rule["alert"]: rule["expr"] for rule in yaml.safe_load(RULES)["groups"][0]["rules"]}

LIMITS = Limits(tool={"look": 1}, rates=Rates(tool={"fetch": Rate(calls=1, seconds=10)}))
Snapshot = dict[str, float]
"""Values by series, as Prometheus scrapes them."""


class Scraped(NamedTuple):
    """What is exported while all is well, while runs are in trouble, and after that."""

    healthy: Snapshot
    troubled: Snapshot
    after: Snapshot


class Exporter:
    """A Prometheus exporter of its own registry."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        meters = MeterProvider(
            [PrometheusMetricReader(scope_info_enabled=False, registry=self._registry)],
            shutdown_on_exit=False,
        )
        self.telemetry = Telemetry(meter_provider=meters, clock=now)

    def scrape(self) -> Snapshot:
        """Each series as it is written, with its value."""
        return {
            f"{sample.name}{_labels(sample.labels)}": sample.value
            for metric in self._registry.collect()
            for sample in metric.samples
        }


def _labels(labels: dict[str, str]) -> str:
    said = ",".join(f'{name}="{value}"' for name, value in labels.items())
    return f"{{{said}}}" if said else ""


@pytest.fixture(scope="module")
def scraped() -> Scraped:
    """Real runs: one that goes well, then one that is late, queues, fails and leaves an outcome that nobody knows."""
    exporter = Exporter()
    seen: list[Snapshot] = []

    @tool(effect="reads", timeout=None)
    async def look(n: int, seconds: float) -> int:
        """Look."""
        await anyio.sleep(seconds)
        if seconds > 5:
            raise ToolFailure("no", code="no")
        return n

    @tool(effect="acts", timeout=None)
    async def send(n: int) -> int:
        """Send."""
        raise ConnectionResetError

    @tool(effect="reads", timeout=None)
    async def scrape() -> str:
        """Let Prometheus scrape, in the middle of a run."""
        await anyio.sleep(35)
        seen.append(exporter.scrape())
        return ""

    @tool(effect="reads", timeout=None)
    async def fetch(n: int) -> int:
        """Fetch, at most once in ten seconds."""
        return n

    def fetches(*n: int) -> dict[str, Any]:
        return {"id": "f", "each": list(n), "as": "n", "tool": "fetch", "args": {"n": {"$": "n"}}}

    def looks(seconds: float) -> list[dict[str, Any]]:
        args = {"n": {"$": "n"}, "seconds": seconds}
        return [
            {"id": "a", "each": [1, 2, 3, 4], "as": "n", "tool": "look", "args": args, "on_failure": "skip"}
        ]

    async def main() -> None:
        policies = Policies(approve="never", limits=LIMITS, retry=Retry(attempts=1))
        engine = Engine(
            [look, send, fetch, scrape], policies=policies, telemetry=exporter.telemetry, clock=now
        )
        assert (await engine.run(Plan.model_validate({"steps": [*looks(0.1), fetches(1)]}), deadline=60)).ok
        seen.append(exporter.scrape())
        others = [{"id": "b", "tool": "send", "args": {"n": 1}}, {"id": "c", "tool": "scrape", "args": {}}]
        run = await engine.run(
            Plan.model_validate({"steps": [*looks(10), fetches(1, 2, 3, 4), *others]}), deadline=30
        )
        assert run.state == "waiting"
        seen.append(exporter.scrape())

    run_virtual("asyncio", main)
    return Scraped(*seen)


def test_rules_speak_of_what_is_exported(scraped: Scraped) -> None:
    """Every metric and label value in an expression is there once there is something to tell."""
    assert len(ALERTS) == 5
    series = "\n".join(scraped.troubled)
    for expression in ALERTS.values():
        names = set(re.findall(r"foreplan_\w+", expression))
        assert names
        for name in names:
            assert f"\n{name}" in f"\n{series}", name
        for matcher in re.findall(r'\w+="\w+"', expression):
            assert matcher in series, matcher


EXPECTED: dict[str, tuple[str, dict[str, str]]] = {
    "ForeplanOutcomeUnknown": ("6m", {"tool": "send"}),
    "ForeplanToolFails": ("11m", {"tool": "look"}),
    "ForeplanRunLate": ("6m", {}),
    "ForeplanWaitsForPeople": ("75m", {}),
    "ForeplanCallsQueue": ("9m", {"tool": "fetch"}),
}
"""When each is to have fired, where the trouble begins with the fifth minute; and for what."""


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (Debian: prometheus) is not installed")
@pytest.mark.parametrize("alert", EXPECTED)
def test_a_rule_fires_in_trouble_and_not_before(alert: str, scraped: Scraped, tmp_path: Path) -> None:
    """Prometheus itself evaluates the rules, on the values that were exported."""
    assert EXPECTED.keys() == ALERTS.keys()
    when, labels = EXPECTED[alert]
    (tmp_path / "rules.yaml").write_text(RULES)
    case = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": name, "values": _values(name, scraped)}
                    for name in scraped.after
                    if not name.startswith("target_info")
                ],
                "alert_rule_test": [
                    {"eval_time": "4m", "alertname": alert, "exp_alerts": []},
                    {"eval_time": when, "alertname": alert, "exp_alerts": [{"exp_labels": labels}]},
                ],
            }
        ],
    }
    (tmp_path / "case.yaml").write_text(yaml.safe_dump(case))
    ran = subprocess.run(
        ["promtool", "test", "rules", "case.yaml"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def _values(name: str, scraped: Scraped) -> str:
    """Five minutes of health, three of trouble, then what came of it; `_` where nothing was exported yet."""
    healthy, troubled, after = (str(part[name]) if name in part else "_" for part in scraped)
    return " ".join([healthy] * 5 + [troubled] * 3 + [after] * 80)
