"""Audit the licences of a Python environment: `python examples/licence_audit --path SOME_SITE_PACKAGES`.

Plans, checks, shows what the plan would do, asks, runs, and reads the run back from its journal. Exit codes: 0 done,
1 the run failed, 2 something handed in cannot be used, 3 not approved, 4 done, and a licence is denied.
"""

from __future__ import annotations

import argparse
import json
import sys
import sysconfig
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import oddities
from rules import planner
from tools import registry

from foreplan import Approval, CannotPlan, Engine, ForeplanError, Plan, Run, SqliteJournal
from foreplan.executor.events import CallSettled, Event, PatchAccepted, path_text
from foreplan.policies.errors import BadInput, NotApproved

GOAL = "Audit the licences of the Python packages that are installed in some folders"
HERE = Path(__file__).parent


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the exit code is returned."""
    options = _options(arguments)
    try:
        with tempfile.TemporaryDirectory(prefix="odd-packages-") as folder:
            if options.demo:
                oddities.install(Path(folder))
                options.path = [folder, *(options.path or [sysconfig.get_path("purelib")])]
                _say(
                    f"The demonstration adds a few odd packages, made in {folder}, so that it plans anew on any machine."
                )
            return _audit(options)
    except NotApproved as problem:
        return _stop(problem, 3)
    except (BadInput, CannotPlan) as problem:
        return _stop(problem, 2)
    except ForeplanError as problem:
        return _stop(problem, 1)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="licence_audit", description="Audit the licences of a Python environment."
    )
    add = parser.add_argument
    add(
        "--path",
        action="append",
        metavar="FOLDER",
        help="a folder of packages, such as site-packages; repeatable",
    )
    add("--policy", default=str(HERE / "policy.yaml"), metavar="FILE", help="which licences are allowed")
    add("--out", default="licence-audit", metavar="FOLDER", help="for the report and the journal")
    add("--yes", action="store_true", help="approve what the review shows, without asking")
    add("--json", action="store_true", help="print the result as one JSON document")
    add("--resume", metavar="RUN", help="go on with an audit that was interrupted")
    add("--demo", action="store_true", help="add a few odd packages, made for the purpose")
    return parser.parse_args(arguments)


def _audit(options: argparse.Namespace) -> int:
    """From the goal to the report."""
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    with SqliteJournal(out / "runs.sqlite3") as journal:
        engine = Engine(registry, planner, journal=journal, watch=None if options.json else _watch)
        run = engine.resume_blocking(options.resume) if options.resume else _start(engine, options)
        if options.json:
            print(json.dumps(run.to_json(), indent=2))
        else:
            _show(engine.show(run.id), list(journal.events(run.id)))
    return 1 if not run.ok else 4 if run.output["denied"] else 0


def _start(engine: Engine, options: argparse.Namespace) -> Run:
    inputs = _inputs(options)
    plan = engine.plan_blocking(GOAL)
    approval = _approve(engine, plan, inputs, options)
    return engine.run_blocking(plan, inputs=inputs, approval=approval)


def _inputs(options: argparse.Namespace) -> dict[str, object]:
    """The inputs of the plan; what is not there is said now and not in the middle of the run."""
    folders = options.path or [sysconfig.get_path("purelib")]
    for folder in folders:
        if not Path(folder).is_dir():
            raise BadInput(f"there is no folder {folder}")
    if not Path(options.policy).is_file():
        raise BadInput(f"there is no file {options.policy}")
    return {"folders": folders, "policy": options.policy, "out": options.out}


def _approve(engine: Engine, plan: Plan, inputs: dict[str, object], options: argparse.Namespace) -> Approval:
    """Show what the plan would do, and ask. Re-plans that only read are covered."""
    _say(str(engine.review(plan, inputs=inputs)), quiet=options.json)
    if options.yes:
        _say("Approved by --yes.", quiet=options.json)
    elif not sys.stdin.isatty():
        raise NotApproved("not approved: there is no terminal to ask at; say --yes if the review is right")
    elif input("Run this plan? [y/N] ").strip().lower() not in ("y", "yes"):
        raise NotApproved("not approved")
    return engine.approve(plan, inputs=inputs, by="--yes" if options.yes else "terminal", scope="reads")


def _watch(event: Event) -> None:
    """Say what matters while it happens."""
    if isinstance(event, CallSettled) and event.failure is not None:
        _say(f"  {path_text(event.path)}: {event.failure.kind} {event.failure.code}: {event.failure.message}")
    elif isinstance(event, PatchAccepted):
        changes = [f"{step.id} ({step.tool}) replaces {step.replaces}" for step in event.patch.add]
        _say(f"  planned anew: {'; '.join(changes)}")


def _show(run: Run, events: list[Event]) -> None:
    """The run as its journal tells it."""
    _say("\n".join(["", f"Run {run.id}, read back from the journal:", *_lines(run, events), ""]))
    if run.ok:
        counts = ", ".join(f"{count} {name}" for name, count in run.output["counts"].items())
        _say("\n".join([f"{counts}", *(f"  {file}" for file in run.output["files"])]))


def _lines(run: Run, events: list[Event]) -> Iterator[str]:
    for step in run.steps.values():
        ended = Counter(str(item.outcome) for item in step.items)
        odd = f" (items: {', '.join(f'{n} {outcome}' for outcome, n in ended.items())})" if ended else ""
        yield f"  {step.id:<16} {step.tool or 'a value':<24} {step.outcome}{' and replaced' if step.replaced else ''}{odd}"
    kinds = Counter(type(event).__name__ for event in events)
    yield f"  {len(events)} events: {', '.join(f'{n} {kind}' for kind, n in kinds.items())}"


def _say(text: str, *, quiet: bool = False) -> None:
    if not quiet:
        print(text, flush=True)


def _stop(problem: ForeplanError, code: int) -> int:
    print(f"licence_audit: {problem}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
