"""Ways to grow, set off one after the other in a process of its own: `python bombs.py` prints what became of them."""

from __future__ import annotations

import json
import sys
import time

from foreplan.policies.expressions import EvaluationError, parse

__all__ = ["BOMBS"]

NESTED = "1"
for _ in range(24):
    NESTED = f"[[x, x] for x in [{NESTED}]]"

DOUBLED = "'x' * 1000"
for _ in range(20):
    DOUBLED = f"[f'{{a}}{{a}}' for a in [{DOUBLED}]][0]"

BOMBS = {
    "text repeated": "'a' * 10 ** 12",
    "list repeated": "[0] * 10 ** 12",
    "text doubled": DOUBLED,
    "range": "range(10 ** 12)",
    "range of ranges": "[range(10000) for x in range(10000)]",
    "loops": "[1 for a in range(3000) for b in range(3000) for c in range(3000)]",
    "sum of loops": "sum(a * b for a in range(3000) for b in range(3000))",
    "doubling": NESTED,
    "shared, as text": f"str({NESTED})",
    "shared, compared": f"{NESTED} == {NESTED}",
    "shared, grouped": f"group({NESTED}, key=lambda v: v)",
    "power": "9 ** 9 ** 9",
    "power of a power": "((9 ** 999) ** 9) ** 9",
    "float power": "1.000001 ** 10 ** 300",
    "many powers": "[9 ** 3900 for a in range(100000)]",
    "squares": "[y * y for y in [x * x for x in [9 ** 3000]]]",
    "joined": "t.join([t] * 1000)",
    "replaced": "t.replace('a', t)",
    "replaced between": "t.replace('', t)",
    "capitals": "[t.upper() for a in range(100000)]",
    "split": "[t.split('b') for a in range(1000)]",
    "stripped": "[t.strip(t) for a in range(1000)]",
    "searched": "[t in t for a in range(100000)]",
    "sorted": "[sorted(xs, key=lambda v: -v) for a in xs]",
    "padded": "[f'{a:>1000}' for a in xs for b in xs]",
    "cross join": "join([{'a': 1}] * 10000, [{'a': 1}] * 10000, on='a')",
    "times": "[format_time('2024-01-01', '%A' * 1000) for a in xs]",
    "flattened": "flat([xs] * 10000)",
    "large result": "[t for a in range(1000)]",
}


def explode(text: str) -> tuple[str, float]:
    """The code of the error that a bomb ends in ("" if it ends in none), and the seconds it took."""
    started = time.process_time()
    try:
        parse(text).evaluate({"t": "ab" * 500_000, "xs": list(range(50_000))})
    except EvaluationError as error:
        return error.code, time.process_time() - started
    return "", time.process_time() - started


def grown_to() -> int:
    """The most bytes that this process has held; 0 on a system that does not say."""
    try:
        import resource
    except ImportError:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    before = grown_to()
    codes = {bomb: explode(text) for bomb, text in BOMBS.items()}
    print(json.dumps([codes, grown_to() - before]))
