"""How well and how fast tools are found by words, on two public data sets that lie beside the project.

`sealtools_retrieval` has 1,063 requests over 4,076 short descriptions; `livemcpbench_retrieval` 45 tasks over 527 tools
of 70 real servers, of which most tasks need several. Recall at k: the share of a task's tools among the first k, mean
over tasks. Milliseconds are CPU time of one question, after the tools were read. Without the data there are no figures.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from results import Figures, Found, Options, Target, median

from foreplan import Registry

if TYPE_CHECKING:
    from support.retrieval import Tasks

ROOT = Path(__file__).resolve().parents[1]
SETS = {"sealtools_retrieval": (10, 0.90), "livemcpbench_retrieval": (5, 0.36)}
"""By data set: at how many tools which recall is promised."""
MOST_MS = 10.0


def loaded(name: str) -> Tasks | None:
    """The data set, if it is there."""
    sys.path.insert(0, str(ROOT / "tests"))
    from support.retrieval import Tasks

    return Tasks(name) if Tasks.there(name) else None


def found_of(tasks: Tasks, repeats: int) -> Figures:
    begun = time.process_time()
    tasks.registry.search("anything")
    reading = time.process_time() - begun
    recalls = tasks.recall(lambda query: tasks.registry.search(query, k=40), (5, 10, 20, 40))
    times = [quickest(tasks.registry, query, repeats) for query, _ in tasks.questions]
    return {
        "tools": len(tasks.registry),
        "questions": len(tasks.questions),
        **{f"recall_at_{k}": round(recall, 3) for k, recall in recalls.items()},
        "reading_ms": round(reading * 1e3),
        "question_ms": median(times, 1e3, digits=2),
        "p99_ms": round(statistics.quantiles(times, n=100)[98] * 1e3, 2),
    }


def quickest(registry: Registry, query: str, repeats: int) -> float:
    """CPU seconds of one question, the best of up to three."""
    times = []
    for _ in range(min(repeats, 3)):
        begun = time.process_time()
        registry.search(query, k=10)
        times.append(time.process_time() - begun)
    return min(times)


def measure(options: Options) -> Found:
    figures: dict[str, Figures] = {}
    targets: list[Target] = []
    for name, (k, promised) in SETS.items():
        tasks = loaded(name)
        if tasks is None:
            figures[name] = {"skipped": "the public data are not beside the project"}
            continue
        figures[name] = found_of(tasks, options.repeats)
        recall, took = figures[name][f"recall_at_{k}"], figures[name]["question_ms"]
        targets.append(Target(f"{name}: recall at {k}", promised, recall, at_least=True))
        targets.append(Target(f"{name}: one question", MOST_MS, took, "ms"))
    return Found(figures, targets)
