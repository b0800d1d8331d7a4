"""Run the benchmarks: all of them, or those that are named, each in a process of its own.

    python benchmarks [NAME ...] [--json] [--strict] [--repeats 5] [--backend asyncio]

Each compares within one run with a bare floor or with LangGraph; what counts is the ratio. `--strict` ends with 1
where a target does not hold.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from results import Options, machine, rows

HERE = Path(__file__).resolve().parent
NAMES = (
    "overhead",
    "fairness",
    "makespan",
    "durable",
    "durable_peers",
    "journal",
    "memory",
    "guard",
    "imports",
    "search",
    "rounds",
    "batch",
    "react",
)


def main() -> int:
    options = arguments()
    names = options.names or NAMES
    whole: dict[str, Any] = {"machine": machine(), "benchmarks": {}}
    for name in names:
        document = alone(name, options) if len(names) == 1 else in_a_process(name, options)
        whole["benchmarks"][name] = document
        if not options.json:
            print(told(name, document), flush=True)
    if options.json:
        print(json.dumps(whole, indent=2, ensure_ascii=False))
    elif len(names) > 1:
        print(
            "\n== all targets\n"
            + target_rows([t for d in whole["benchmarks"].values() for t in d["targets"]])
        )
    held = all(target["holds"] for d in whole["benchmarks"].values() for target in d["targets"])
    return 0 if held or not options.strict else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.add_argument("--strict", action="store_true", help="exit with 1 where a target does not hold")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--backend", choices=["asyncio", "trio"], default="asyncio")
    parser.add_argument("--no-peer", action="store_true", help="without LangGraph")
    options = parser.parse_args()
    for name in options.names:
        if name not in NAMES:
            parser.error(f"there is no benchmark {name!r}; there are {', '.join(NAMES)}")
    return options


def alone(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Here and now."""
    begun = time.perf_counter()
    found = import_module(name).measure(Options(options.repeats, options.backend, not options.no_peer))
    return {**found.to_json(), "seconds": round(time.perf_counter() - begun, 1)}


def in_a_process(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """In a fresh process, so that no benchmark finds what another left in memory."""
    command = [sys.executable, "-P", str(HERE), name, "--json", "--repeats", str(options.repeats)]
    command += ["--backend", options.backend, *(["--no-peer"] if options.no_peer else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"the benchmark {name!r} ended with {done.returncode}")
    document: dict[str, Any] = json.loads(done.stdout)["benchmarks"][name]
    return document


def told(name: str, document: dict[str, Any]) -> str:
    """Figures of a benchmark as tables, one for each set of columns, then its targets."""
    tables: dict[tuple[str, ...], list[list[object]]] = {}
    for case, figures in document["figures"].items():
        tables.setdefault(tuple(figures), []).append([case, *figures.values()])
    parts = [f"\n== {name} ({document['seconds']} s)"]
    parts += [rows([["", *columns], *lines]) for columns, lines in tables.items()]
    if document["targets"]:
        parts.append(target_rows(document["targets"]))
    return "\n".join(parts)


def target_rows(targets: list[dict[str, Any]]) -> str:
    lines: list[list[object]] = [["target", "promised", "measured", "holds", ""]]
    for target in targets:
        sign = ">=" if target["at_least"] else "<="
        holds = "yes" if target["holds"] else "NO"
        lines.append(
            [target["what"], f"{sign} {target['target']:g}", target["measured"], holds, target["unit"]]
        )
    return rows(lines)


if __name__ == "__main__":
    sys.exit(main())
