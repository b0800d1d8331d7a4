"""A coverage-guided fuzzer for everything that reads what a stranger wrote: expressions, schemas, plan documents.

    python tests/fuzz/language.py [what] [libFuzzer options]      e.g.  … plan -max_total_time=600 corpus/

Needs atheris (`pip install --group proof`). What is found becomes an ordinary test.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

with atheris.instrument_imports(include=["foreplan.policies", "foreplan.planner", "foreplan.registry"]):
    from support.noise import document_holds, expression_holds, schema_holds


def expression(data: bytes) -> None:
    expression_holds(data.decode("utf-8", "surrogateescape"))


def plan(data: bytes) -> None:
    document_holds(data)


def schema(data: bytes) -> None:
    """Two JSON documents, one after the other."""
    head, _, tail = data.partition(b"\n")
    try:
        schema_holds(json.loads(head), json.loads(tail or b"null"))
    except (ValueError, RecursionError):
        return


WHAT = {"expression": expression, "plan": plan, "schema": schema}


def main() -> None:
    what = sys.argv.pop(1) if len(sys.argv) > 1 and sys.argv[1] in WHAT else "expression"
    atheris.Setup(sys.argv, WHAT[what])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
