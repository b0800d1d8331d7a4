"""What comes before a run: a plan is written, checked, shown and approved, and nothing is called.

Here and in `running.py`, `answering.py`, `looking.py` and `auditing.py` a command is a function: its parameters are its
words, its docstring is its help. It does the work, shows it, and says how it ended; it raises what `screen.complain` can say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.text import Text

from ..executor.engine import Engine
from ..planner.approvals import Approval, RowLimit
from ..planner.documents import Source, write_yaml
from ..planner.findings import CheckFailed, PlanUnreadable, Report
from ..planner.plan import Plan
from ..planner.reviewing import Review
from ..planner.sarif import report_to_sarif
from ..policies.errors import BadInput, CannotPlan, ForeplanError, NotApproved
from ..policies.text import count
from . import options as o
from . import render
from .asking import yes_or_no
from .files import write_file
from .given import read_given_plan, read_schema
from .lines import line, plain, short_digest
from .loading import place_in
from .screen import Code, Failed, Faulty, Screen
from .setting import Consent, Given, Minds, Rules, Setting
from .waiting import wait_for

__all__ = ["agree", "approval_here", "approve", "check", "checked", "plan", "review"]


def plan(
    screen: Screen,
    goal: o.Goal,
    *,
    tools: o.Tools,
    planner: o.NeededPlanner,
    output: o.Output = None,
    inputs_schema: o.InputsSchema = None,
    rules: Rules,
) -> Code:
    """Have a planner write a plan.

    It is checked, and goes to a file or to standard output. Nothing runs.
    """
    setting = Setting(tools, rules, Minds(planner))
    engine = setting.engine()
    inputs = read_schema(inputs_schema)
    screen.note(Text(f"asking the planner {planner}", "dim"))
    written = _planned(lambda: wait_for(lambda: engine.plan(goal, inputs=inputs)))
    report = engine.check(written)
    _hand_out(screen, output, write_yaml(written))
    document = {
        "plan": written.to_json(),
        "plan_digest": written.digest,
        "file": output,
        "report": report.to_json(),
    }
    screen.document(document)
    screen.note(render.report(report, "the plan"))
    if output is not None:
        screen.note(
            Text.assemble("written to ", line(output), "; next: ", line(setting.command("review", output)))
        )
    return Code.DONE


def _planned(ask: Callable[[], Plan]) -> Plan:
    """The planner's plan; a planner that fails, or gives nothing usable, has failed: the input was not bad."""
    try:
        return ask()
    except CannotPlan:
        raise
    except (CheckFailed, PlanUnreadable) as error:
        findings = error.report.errors if isinstance(error, CheckFailed) else error.findings
        said = "; ".join(str(finding) for finding in findings[:3])
        raise Failed(f"the planner gave no plan that checks: {said}") from error
    except ForeplanError:
        raise
    except Exception as error:
        place = place_in(error)
        where = f" ({place})" if place else ""
        raise Failed(f"the planner failed: {type(error).__name__}: {error}{where}") from error


def check(
    screen: Screen, path: o.PlanFile, *, tools: o.Tools, sarif: o.AsSarif = False, rules: Rules
) -> Code:
    """Say all that is wrong with a plan.

    Nothing runs. A plan with errors is exit code 2.
    """
    screen.json = screen.json or sarif
    try:
        given, source = read_given_plan(path)
    except Faulty as error:
        if not sarif:
            raise
        screen.document(report_to_sarif(Report(error.findings), path))
        return Code.BAD_INPUT
    report = _located(Setting(tools, rules).engine().check(given), source)
    screen.document(report_to_sarif(report, source.name) if sarif else report.to_json())
    screen.show(render.report(report, plain(source.name, 200)), important=not report.ok)
    return Code.DONE if report.ok else Code.BAD_INPUT


def _located(report: Report, source: Source) -> Report:
    """The report with places; what is said of the whole plan has none."""
    places = iter(source.located(f for f in report.findings if f.pointer))
    return report._replace(findings=tuple(next(places) if f.pointer else f for f in report.findings))


def review(
    screen: Screen, path: o.PlanFile, *, tools: o.Tools, given: Given, full: o.Full = False, rules: Rules
) -> Code:
    """Show what a plan would do.

    Every call with its effect, arguments and bounds; what cannot be taken back stands first. Nothing runs.
    """
    found_plan, source = read_given_plan(path)
    found = Setting(tools, rules).engine().review(found_plan, inputs=given.read(found_plan))
    screen.document(found.to_json())
    screen.show(render.contents(found, full=full))
    return Code.DONE if found.report.ok else _refuse(_located(found.report, source), source)


def _refuse(report: Report, source: Source) -> Code:
    raise Faulty(f"the plan in {plain(source.name, 200)} does not check", report.errors)


def checked(engine: Engine, plan: Plan, source: Source, *, batch: bool = False) -> None:
    """Raises `Faulty`, with the place of each thing that is wrong (with the plan as that of a `batch`)."""
    report = engine.check(plan, batch=batch)
    if not report.ok:
        _refuse(_located(report, source), source)


def approve(
    screen: Screen,
    path: o.PlanFile,
    *,
    tools: o.Tools,
    by: o.By = None,
    scope: o.ScopeWord = "none",
    expires_in: o.ExpiresIn = None,
    key: o.SigningKey = None,
    output: o.Output = None,
    yes: o.Yes = False,
    rows: o.RowsApproved = None,
    source_digest: o.SourceDigest = None,
    given: Given,
    full: o.Full = False,
    rules: Rules,
) -> Code:
    """Review a plan, ask, and write the approval.

    The approval is for one run of exactly this plan, with these inputs, tools, rules and principal; or, with --rows, for one
    batch. Its journal is what remembers that it was used: `foreplan run --approval FILE --journal FILE`.
    """
    limit = _row_limit(rows, source_digest, given)
    consent = Consent(yes=yes, by=by, scope=scope, expires_in=expires_in, key=key).held()
    asked, source = read_given_plan(path)
    setting = Setting(tools, rules)
    engine = setting.engine()
    checked(engine, asked, source, batch=limit is not None)
    inputs = given.read(asked) if limit is None else None
    found = engine.review(asked, inputs=inputs, batch=limit is not None)
    to_file = output is not None and output != "-"
    # stdout is for the approval where it goes there
    show = screen.show if to_file else screen.note
    show(render.contents(found, full=full))
    agree(screen, found, yes=consent.yes, what=f"for {count(limit.rows, 'row')}" if limit is not None else "")
    approval = consent.approved(engine, asked, inputs, batch=limit)
    _hand_out(screen, output, approval.to_text())
    screen.document({"approval": approval.to_json(), "file": output})
    if output is not None and to_file:
        what = "run" if limit is None else "batch"
        screen.say(
            f"approved by {approval.by}; written to {output}; it is for one {what}, which its journal remembers:"
        )
        rest = given.words() if limit is None else ["ROWS"]
        words = (path, *rest, "--approval", output, "--journal", "runs.db")
        screen.say(f"  {setting.command(what, *words)}")
    return Code.DONE


def _row_limit(rows: int | None, source: str | None, given: Given) -> RowLimit | None:
    """For how many rows a batch is approved; None for one run. Raises `BadInput`."""
    if rows is None:
        if source is not None:
            raise BadInput("--source is for a batch: say for how many rows, --rows N")
        return None
    if given.words():
        raise BadInput("the inputs of a batch are its rows: leave --inputs and --set out, or --rows")
    return RowLimit(rows=rows, source=source)


def agree(screen: Screen, found: Review, *, yes: bool, what: str = "") -> None:
    """A person says yes to what was shown, or said it before. Raises `NotApproved`."""
    if yes:
        return
    if not screen.interactive:
        raise NotApproved(
            "not approved: there is no terminal to ask at; --yes says yes to what the review shows"
        )
    screen.err.print()
    if not yes_or_no(screen, f"Approve plan {short_digest(found.plan_digest)}{' ' + what if what else ''}?"):
        raise NotApproved("not approved")


def approval_here(
    screen: Screen, engine: Engine, plan: Plan, inputs: dict[str, Any] | None, consent: Consent, *, full: bool
) -> Approval | None:
    """The yes of whoever sits here, if it was asked for; a plan that needs one and has none is refused."""
    found = engine.review(plan, inputs=inputs)
    if consent.ask:
        screen.note(render.contents(found, full=full))
        agree(screen, found, yes=consent.yes)
        return consent.approved(engine, plan, inputs)
    if found.needs_approval:
        reasons = "; ".join(found.approval[:3])
        raise NotApproved(
            f"this plan needs an approval ({reasons}): add --approve to see what it does and say yes here, "
            "or give --approval FILE, which `foreplan approve` writes, with --journal FILE"
        )
    return None


def _hand_out(screen: Screen, output: str | None, text: str) -> None:
    """A document to its file, or to stdout."""
    if output is not None and output != "-":
        write_file(output, text)
    elif not screen.json:
        screen.write(text)
