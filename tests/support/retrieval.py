"""Public data sets of requests and the tools that serve them; for tests and the benchmark, without pytest.

tasks = Tasks("sealtools_retrieval")     lies beside the project in ../shared/data; `Tasks.there(name)` asks
tasks.registry, tasks.questions          tools, and (request, names of the tools that serve it)
tasks.recall(found, (5, 10))             the share of a request's tools among the first k, mean over requests
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from foreplan import Registry, Tool
from foreplan.policies.errors import ToolRefused

__all__ = ["Tasks"]

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


class Tasks:
    """One data set, read."""

    def __init__(self, name: str) -> None:
        tools = json.loads((DATA / name / "tools.json").read_text("utf-8"))
        lines = (DATA / name / "open.jsonl").read_text("utf-8").splitlines()
        self.registry = Registry()
        self.called: dict[str, str] = {}
        """What the data call each tool."""
        for told in tools:
            self.called[self.registry.add(_declared(told, self.registry)).name] = told["name"]
        told = [json.loads(line) for line in lines]
        self.questions = [(task["query"], frozenset(task["relevant_tools"])) for task in told]

    @staticmethod
    def there(name: str) -> bool:
        """Whether the data lie beside the project."""
        return (DATA / name / "tools.json").is_file()

    def recall(self, find: Callable[[str], Sequence[Tool]], ks: Sequence[int]) -> dict[int, float]:
        """By k: the mean share of what serves a request among the first k that are found for it."""
        sums = dict.fromkeys(ks, 0.0)
        for query, wanted in self.questions:
            names = [self.called[tool.name] for tool in find(query)]
            for k in ks:
                sums[k] += len(wanted.intersection(names[:k])) / len(wanted)
        return {k: total / len(self.questions) for k, total in sums.items()}


def _declared(told: dict[str, Any], registry: Registry) -> Tool:
    name, said = _named(told, registry), told["description"][:8000]
    try:
        return Tool.declare(name, said, input_schema=told["input_schema"])
    except ToolRefused:  # one schema of all is none
        return Tool.declare(name, said, input_schema={"type": "object"})


def _named(told: dict[str, Any], registry: Registry) -> str:
    """The server, as `prefixed` would put it, and the tool."""
    bare = re.sub(r"[^A-Za-z0-9_.-]", "_", told["name"])
    server = re.sub(r"[^A-Za-z0-9]+", "-", told.get("server", "")).strip("-")[: 60 - len(bare)]
    name = f"{server}.{bare}" if server else bare
    name = name if name[0].isalpha() else f"_{name}"
    return name if name not in registry else f"{name}_2"
