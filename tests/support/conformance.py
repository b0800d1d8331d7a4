"""Run the conformance corpus of the expression language: `python conformance.py [root of the repository]`.

Needs nothing but the standard library, so that any Python can run it. Prints one line for each case that differs.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).parent.parent / "conformance.json"


def outcome(text: str, scope: dict[str, Any]) -> dict[str, Any]:
    """What the language makes of a text, in the form of the corpus."""
    from foreplan.policies.expressions import EvaluationError, ExpressionError, parse

    try:
        expression = parse(text)
    except ExpressionError as error:
        row: dict[str, Any] = {"refused": error.code, "offset": error.offset}
        return {**row, "suggestion": error.suggestion} if error.suggestion else row
    try:
        return {"value": expression.evaluate(scope)}
    except EvaluationError as error:
        row = {"error": error.code, "at": error.offset}
        return {**row, "roots": sorted(error.roots)} if error.roots else row


def differences() -> list[str]:
    """Every case of the corpus whose outcome is another one than it says."""
    corpus = json.loads(CORPUS.read_text(encoding="utf-8"))
    found: list[str] = []
    for case in corpus["cases"]:
        expected = {key: value for key, value in case.items() if key not in ("topic", "text")}
        seen = outcome(case["text"], corpus["scope"])
        if json.dumps(seen) != json.dumps(expected):
            found.append(f"{case['text']!r}: expected {expected}, seen {seen}")
    return found


def _load(root: Path) -> None:
    """Import the repository's root as the package `foreplan`, whatever its folder is called."""
    spec = importlib.util.spec_from_file_location(
        "foreplan", root / "__init__.py", submodule_search_locations=[str(root)]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["foreplan"] = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    _load(Path(sys.argv[1]))
    lines = differences()
    print("\n".join(ascii(line) for line in lines))
    sys.exit(bool(lines))
