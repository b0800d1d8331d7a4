"""Run the licence audit until its journal holds a number of events, then hold still: `audit_until.py N FOLDER OUT`.

Whoever started this kills it there. 0 events means: to the end.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "licence_audit"))

from rules import planner
from tools import registry

from foreplan import Engine, SqliteJournal
from foreplan.executor.events import Event

POLICY = Path(__file__).resolve().parents[2] / "examples" / "licence_audit" / "policy.yaml"


def main(last: int, folder: str, out: str) -> None:
    with SqliteJournal(Path(out) / "runs.sqlite3") as journal, SqliteJournal(journal.path) as reader:

        def watch(event: Event) -> None:
            if event.seq == last:
                while sum(line.events for line in reader.runs()) < last:
                    pass  # the thread that writes will get there
                print("here", flush=True)
                sys.stdin.read()

        engine = Engine(registry, planner, journal=journal, watch=watch)
        plan = engine.plan_blocking("Audit")
        inputs = {"folders": [folder], "policy": str(POLICY), "out": out}
        approval = engine.approve(plan, inputs=inputs, by="test", scope="reads")
        engine.run_blocking(plan, inputs=inputs, approval=approval)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
