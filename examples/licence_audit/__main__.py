"""Audit the licences of a Python environment: `python examples/licence_audit --path SOME_SITE_PACKAGES`.

The plan stands in a file; with `--model` a model on this machine writes it from a sentence. Plans, checks, shows what the plan would do, asks, runs, and reads the run back from its journal. Exit codes: 0 done,
1 the run failed, 2 something handed in cannot be used, 3 not approved, 4 done, and a licence is denied.
"""

from __future__ import annotations

import argparse
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import oddities
from rules import INPUTS, SENTENCE, planned_by, planner
from tools import read_policy, registry

from foreplan import (
    Approval,
    Engine,
    ForeplanError,
    LocalModel,
    Plan,
    Policies,
    Run,
    SqliteJournal,
    ToolFailure,
)
from foreplan.console import render, telling
from foreplan.console.asking import yes_or_no
from foreplan.console.lines import block, line
from foreplan.console.live import View
from foreplan.console.screen import Screen, complain
from foreplan.executor.events import Event, PatchAccepted, RunClosed, RunOpened
from foreplan.planner.documents import write_yaml
from foreplan.policies.errors import BadInput, NotApproved

GOAL = "Audit the licences of the Python packages that are installed in some folders"
HERE = Path(__file__).parent


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the exit code is returned."""
    options = _options(arguments)
    screen = Screen(json=options.json)
    try:
        with tempfile.TemporaryDirectory(prefix="odd-packages-") as folder:
            if options.demo:
                _add_odd_packages(screen, options, Path(folder))
            return _audit(screen, options)
    except (ForeplanError, KeyboardInterrupt) as problem:
        return complain(screen, problem)


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
    add("--model", metavar="NAME|FILE", help="let this model, on this machine, plan it from a sentence")
    add("--demo", action="store_true", help="add a few odd packages, made for the purpose")
    return parser.parse_args(arguments)


def _add_odd_packages(screen: Screen, options: argparse.Namespace, folder: Path) -> None:
    oddities.install(folder)
    options.path = [str(folder), *(options.path or [sysconfig.get_path("purelib")])]
    screen.note(
        line(f"The demonstration adds {len(list(folder.iterdir()))} odd packages, made in {folder}:"),
        line(
            "one has metadata in Latin-1, so that the plain reader fails and a new plan is needed on any machine."
        ),
        line(""),
    )


def _audit(screen: Screen, options: argparse.Namespace) -> int:
    """From the goal to the report."""
    view = View(screen)
    with SqliteJournal(_out(options.out) / "runs.sqlite3") as journal:
        engine = _engine(options.model, journal, view)
        if options.resume:
            with view:
                run = engine.resume_blocking(options.resume)
        else:
            inputs = _inputs(options)
            plan = _plan(screen, engine, asked=options.model is not None)
            approval = _approve(screen, engine, plan, inputs, yes=options.yes)
            with view:
                run = engine.run_blocking(plan, inputs=inputs, approval=approval)
        screen.document(run.to_json())
        _show(screen, engine.show(run.id), list(journal.events(run.id)))
    return 1 if not run.ok else 4 if _told(run).get("denied") else 0


def _told(run: Run) -> dict[str, Any]:
    """The output; a model's plan may have another one, or none."""
    return run.output if isinstance(run.output, dict) else {}


def _engine(model: str | None, journal: SqliteJournal, view: View) -> Engine:
    """With the planner that is wanted; a model without a GPU may take its time."""
    if model is None:
        return Engine(registry, planner, journal=journal, watch=view.watch)
    patient, who = Policies(planner_timeout=None), planned_by(LocalModel(model))
    return Engine(registry, who, journal=journal, watch=view.watch, policies=patient)


def _plan(screen: Screen, engine: Engine, *, asked: bool) -> Plan:
    """The plan: from the file or, from a sentence, of the model."""
    if not asked:
        return engine.plan_blocking(GOAL)
    screen.note(line(f"Asked of the model: {SENTENCE}"), line(""))
    begun = time.monotonic()
    plan = engine.plan_blocking(SENTENCE, inputs=INPUTS)
    screen.note(line(f"Planned in {time.monotonic() - begun:.0f} s:"), block(write_yaml(plan)))
    return plan


def _out(name: str) -> Path:
    """The folder for the report, made if there is none."""
    try:
        Path(name).mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise BadInput(f"the folder {name} cannot be made: {problem.strerror}") from problem
    return Path(name)


def _inputs(options: argparse.Namespace) -> dict[str, object]:
    """The inputs of the plan; what is not there is said now and not in the middle of the run."""
    folders = options.path or [sysconfig.get_path("purelib")]
    for folder in folders:
        if not Path(folder).is_dir():
            raise BadInput(f"there is no folder {folder}")
    try:
        read_policy(options.policy)
    except ToolFailure as problem:
        raise BadInput(str(problem)) from problem
    return {"folders": folders, "policy": options.policy, "out": options.out}


def _approve(screen: Screen, engine: Engine, plan: Plan, inputs: dict[str, object], *, yes: bool) -> Approval:
    """Show what the plan would do, and ask. Re-plans that only read are covered."""
    screen.show(render.contents(engine.review(plan, inputs=inputs)), "")
    if yes:
        screen.show("Approved by --yes.", "")
    elif not screen.interactive:
        raise NotApproved("not approved: there is no terminal to ask at; say --yes if the review is right")
    elif not yes_or_no(screen, "Run this plan?"):
        raise NotApproved("not approved")
    return engine.approve(plan, inputs=inputs, by="--yes" if yes else "terminal", scope="reads")


def _show(screen: Screen, run: Run, events: list[Event]) -> None:
    """The run as its journal tells it."""
    screen.show(line(f"Run {run.id}, read back from its journal", "bold"), telling.account(run), "")
    kinds = Counter(type(event).__name__ for event in events)
    screen.show(
        line(f"{len(events)} events: {', '.join(f'{n} {kind}' for kind, n in kinds.items())}; among them")
    )
    screen.show(telling.event_list(filter(_is_turn, events)))
    if run.ok:
        screen.show("", *(line(f"written: {file}") for file in _told(run).get("files", ())))


def _is_turn(event: Event) -> bool:
    """Whether the run took a turn here: it began, something failed, it was planned anew, it ended."""
    return (
        isinstance(event, RunOpened | PatchAccepted | RunClosed)
        or getattr(event, "failure", None) is not None
    )


if __name__ == "__main__":
    sys.exit(main())
