"""What each command does, in words of the engine: read what is given, do it, show it, and say how it ended.

A command gets its screen and what the user typed. It raises what `screen.complain` knows how to say.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast, get_args

from rich.text import Text

from ..executor.changes import contracts_of
from ..executor.children import parent_of
from ..executor.engine import Engine
from ..executor.events import DecisionAsked, Event, encode
from ..executor.journal.sqlite_journal import SqliteJournal
from ..executor.recorded import read_run
from ..executor.replays.forking import forked_of, plan_of
from ..executor.run import Run
from ..executor.runtime import Decide
from ..planner.approvals import Approval, Scope
from ..planner.bounds import limits_of
from ..planner.documents import Source, write_yaml
from ..planner.findings import CheckFailed, PlanUnreadable, Report
from ..planner.plan import Plan
from ..planner.reviewing import Review, diff
from ..planner.sarif import report_to_sarif
from ..policies.errors import BadInput, CannotPlan, ForeplanError, JournalError, NotApproved
from ..policies.policies import Policies
from ..policies.signing import read_signer
from ..policies.text import did_you_mean
from ..registry.registry import Registry
from ..registry.tools import Tool
from . import render, telling
from .asking import Desk, login_name, yes_or_no
from .files import write_file
from .given import (
    read_answers,
    read_approvers,
    read_duration,
    read_given_approval,
    read_given_plan,
    read_inputs,
    read_policies,
    read_principal,
    read_schema,
)
from .lines import line, plain, short_digest
from .live import View
from .loading import load_authorize, load_model, load_planner, load_registry, place_in
from .screen import Code, Failed, Faulty, Interrupted, Screen
from .waiting import wait_for

__all__ = [
    "Consent",
    "Given",
    "Setting",
    "approve",
    "cancel",
    "check",
    "code_of",
    "follow",
    "fork",
    "make_plan",
    "opened",
    "rehearse",
    "replay",
    "resume",
    "review",
    "run",
    "run_in",
    "runs",
    "search_tools",
    "show",
    "show_diff",
    "show_tools",
    "stored",
]


@dataclass(frozen=True)
class Setting:
    """The words that say with which tools, by which rules and for whom; kept to tell how to go on."""

    tools: str = ""
    planner: str | None = None
    policies: str | None = None
    principal: str | None = None
    permissions: tuple[str, ...] = ()
    journal: str | None = None
    authorize: str | None = None
    model: str | None = None
    approver_keys: tuple[str, ...] = ()
    journal_key: str | None = None

    def loaded(self) -> dict[str, Any]:
        """What these words name, as arguments of an engine; loaded once."""
        return {
            "registry": load_registry(self.tools),
            "planner": load_planner(self.planner) if self.planner is not None else None,
            "policies": read_policies(self.policies),
            "principal": read_principal(self.principal, self.permissions),
            "authorize": load_authorize(self.authorize) if self.authorize is not None else None,
            "react": load_model(self.model) if self.model is not None else None,
            "approvers": read_approvers(self.approver_keys),
        }

    def engine(self) -> Engine:
        """The engine these words describe, without a journal."""
        return Engine(**self.loaded())

    def command(self, name: str, *words: str) -> str:
        """A command line with these words in it, to be pasted."""
        options: list[tuple[str, str | None]] = [("--tools", self.tools)]
        if name == "resume":
            options += [("--planner", self.planner), ("--journal", self.journal)]
            options += [("--journal-key", self.journal_key)]
            options += [("--authorize", self.authorize), ("--model", self.model)]
        # A run that goes on keeps the rules that it was opened with, but what roles permit is asked anew.
        options += [("--policies", self.policies)]
        options += [("--principal", self.principal), *(("--permission", p) for p in self.permissions)]
        said = [word for option, value in options if value for word in (option, value)]
        return "foreplan " + " ".join(shlex.quote(plain(word)) for word in (name, *words, *said))


@dataclass(frozen=True)
class Given:
    """The words that give a plan its inputs."""

    inputs: str | None = None
    sets: tuple[str, ...] = field(default=())

    def read(self, plan: Plan) -> dict[str, Any] | None:
        """The inputs, checked; None where nothing is said."""
        return read_inputs(plan, self.inputs, self.sets)


@dataclass(frozen=True)
class Consent:
    """The words about approval: a file, or a yes given here; whose it is, how long it lasts, which re-plans it covers."""

    file: str | None = None
    ask: bool = False
    yes: bool = False
    by: str | None = None
    scope: str = "none"
    expires_in: str | None = None
    key: str | None = None

    def approved(self, engine: Engine, plan: Plan, inputs: dict[str, Any] | None) -> Approval:
        """The approval of what was shown."""
        by, lasts = self.by or login_name(), read_duration(self.expires_in)
        signer = read_signer(self.key, by) if self.key is not None else None
        scope = _scope(self.scope)
        return engine.approve(plan, inputs=inputs, by=by, scope=scope, expires_in=lasts, signer=signer)


# ---------------------------------------------------------------------------------------------- before a run


def make_plan(screen: Screen, setting: Setting, goal: str, output: str | None, schema: str | None) -> Code:
    """Have the planner write a plan, checked."""
    engine = setting.engine()
    inputs = read_schema(schema)
    screen.note(Text(f"asking the planner {setting.planner}", "dim"))
    plan = _planned(lambda: wait_for(lambda: engine.plan(goal, inputs=inputs)))
    report = engine.check(plan)
    _hand_out(screen, output, write_yaml(plan))
    document = {
        "plan": plan.to_json(),
        "plan_digest": plan.digest,
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


def check(screen: Screen, setting: Setting, path: str, *, sarif: bool = False) -> Code:
    """Say everything that is wrong with a plan; as a SARIF log where that is asked for."""
    try:
        plan, source = read_given_plan(path)
    except Faulty as error:
        if not sarif:
            raise
        screen.document(report_to_sarif(Report(error.findings), path))
        return Code.BAD_INPUT
    report = _located(setting.engine().check(plan), source)
    screen.document(report_to_sarif(report, source.name) if sarif else report.to_json())
    screen.show(render.report(report, plain(source.name, 200)), important=not report.ok)
    return Code.DONE if report.ok else Code.BAD_INPUT


def _located(report: Report, source: Source) -> Report:
    """The report with places; what is said of the whole plan has none."""
    places = iter(source.located(f for f in report.findings if f.pointer))
    return report._replace(findings=tuple(next(places) if f.pointer else f for f in report.findings))


def review(screen: Screen, setting: Setting, given: Given, path: str, *, full: bool) -> Code:
    """Show what a plan would do."""
    plan, source = read_given_plan(path)
    found = setting.engine().review(plan, inputs=given.read(plan))
    screen.document(found.to_json())
    screen.show(render.contents(found, full=full))
    return Code.DONE if found.report.ok else _refuse(_located(found.report, source), source)


def _refuse(report: Report, source: Source) -> Code:
    raise Faulty(f"the plan in {plain(source.name, 200)} does not check", report.errors)


def _checked(engine: Engine, plan: Plan, source: Source) -> None:
    report = engine.check(plan)
    if not report.ok:
        _refuse(_located(report, source), source)


def approve(
    screen: Screen,
    setting: Setting,
    given: Given,
    consent: Consent,
    path: str,
    *,
    output: str | None,
    full: bool,
) -> Code:
    """Show what a plan would do, ask, and write down the yes."""
    _scope(consent.scope), read_duration(consent.expires_in)  # before anything is shown
    plan, source = read_given_plan(path)
    engine = setting.engine()
    _checked(engine, plan, source)
    inputs = given.read(plan)
    found = engine.review(plan, inputs=inputs)
    show = (
        screen.show if output is not None else screen.note
    )  # stdout is for the approval where it goes there
    show(render.contents(found, full=full))
    _agree(screen, found, yes=consent.yes)
    approval = consent.approved(engine, plan, inputs)
    _hand_out(screen, output, approval.to_text())
    screen.document({"approval": approval.to_json(), "file": output})
    if output is not None:
        screen.say(f"approved by {approval.by}; written to {output}")
    return Code.DONE


def _agree(screen: Screen, found: Review, *, yes: bool) -> None:
    """A person says yes to what was shown, or said it before. Raises `NotApproved`."""
    if yes:
        return
    if not screen.interactive:
        raise NotApproved(
            "not approved: there is no terminal to ask at; --yes says yes to what the review shows"
        )
    screen.err.print()
    if not yes_or_no(screen, f"Approve plan {short_digest(found.plan_digest)}?"):
        raise NotApproved("not approved")


def _scope(word: str) -> Scope:
    scopes = get_args(Scope)
    if word not in scopes:
        guess = did_you_mean(word, scopes) or f"; there are {', '.join(scopes)}"
        raise BadInput(f"there is no scope '{plain(word, 60)}'{guess}")
    return cast(Scope, word)


def _hand_out(screen: Screen, output: str | None, text: str) -> None:
    """A document to its file, or to stdout."""
    if output is not None and output != "-":
        write_file(output, text)
    elif not screen.json:
        screen.write(text)


# ---------------------------------------------------------------------------------------------- running

_ANSWERS = 3
"""So many answers are spelled out in the command that is shown."""


def run(
    screen: Screen,
    setting: Setting,
    given: Given,
    consent: Consent,
    path: str,
    *,
    full: bool,
    deadline: str | None = None,
) -> Code:
    """Run a plan to its end, or to where only people can go on."""
    _scope(consent.scope)
    wanted = read_duration(deadline)
    plan, source = read_given_plan(path)
    inputs = given.read(plan)
    approval = read_given_approval(consent.file)
    loaded = setting.loaded()
    engine = Engine(**loaded)
    _checked(engine, plan, source)
    if approval is None:
        approval = _approval_here(screen, engine, plan, inputs, consent, full=full)
    with opened(setting.journal, key=setting.journal_key) as journal, View(screen) as view:
        desk = _desk(screen, view, consent.by, loaded["registry"])
        engine = Engine(**loaded, journal=journal, watch=view.watch, listen=view.listen, decide=desk)
        return _driven(
            screen,
            setting,
            view,
            lambda: engine.run(plan, inputs=inputs, approval=approval, deadline=wanted),
            full=full,
        )


def rehearse(screen: Screen, setting: Setting, given: Given, path: str, *, reads: bool, full: bool) -> Code:
    """Run a plan for show, with stand-ins in the place of its tools."""
    plan, source = read_given_plan(path)
    inputs = given.read(plan)
    engine = Engine(**setting.loaded())
    _checked(engine, plan, source)
    with View(screen) as view:
        desk = _desk(screen, view, None)
        engine = Engine(**setting.loaded(), watch=view.watch, listen=view.listen, decide=desk)
        try:
            ended = wait_for(lambda: engine.rehearse(plan, inputs=inputs, reads=reads))
        except KeyboardInterrupt:
            raise Interrupted("interrupted: a rehearsal is not kept; begin it again") from None
    screen.document(ended.to_json())
    screen.show(telling.account(ended, took=view.progress.took, full=full))
    return code_of(ended)


def _approval_here(
    screen: Screen, engine: Engine, plan: Plan, inputs: dict[str, Any] | None, consent: Consent, *, full: bool
) -> Approval | None:
    """The yes of whoever sits here, if it was asked for; a plan that needs one and has none is refused."""
    found = engine.review(plan, inputs=inputs)
    if consent.ask:
        screen.note(render.contents(found, full=full))
        _agree(screen, found, yes=consent.yes)
        return consent.approved(engine, plan, inputs)
    if found.needs_approval:
        reasons = "; ".join(found.approval[:3])
        raise NotApproved(
            f"this plan needs an approval ({reasons}): add --approve to see what it does and say yes here, "
            "or give --approval FILE, which `foreplan approve` writes"
        )
    return None


def _desk(screen: Screen, view: View, by: str | None, tools: Registry | None = None) -> Decide | None:
    """Who answers while the run is live: whoever sits at the terminal, if there is one."""
    return Desk(screen, view, by or login_name(), tools).decide if screen.interactive else None


def run_in(stored: SqliteJournal, word: str) -> str:
    """The id of a run: the word itself, or for `last` the newest run that is not part of another."""
    if word != "last":
        return word
    listed = stored.runs()
    if not listed:
        raise BadInput(f"the journal {stored.path} holds no run yet")
    run, known = listed[0].run, {line.run for line in listed}
    while parent := parent_of(run, known):
        run = parent
    return run


class _Journal:
    """The journal that a word names, closed in the end; None without a word. Raises `BadInput`."""

    def __init__(
        self, path: str | None, *, existing: bool = False, reading: bool = False, key: str | None = None
    ) -> None:
        self._path = path
        self._key = key
        self._existing = existing
        self._reading = reading
        self._journal: SqliteJournal | None = None

    def __enter__(self) -> SqliteJournal | None:
        if self._path is not None:
            key = read_signer(self._key) if self._key is not None else None
            try:
                self._journal = SqliteJournal(
                    self._path, existing=self._existing, reading=self._reading, key=key
                )
            except JournalError as error:
                raise BadInput(f"{error}{self._beside()}") from error
        return self._journal

    def __exit__(self, *_: object) -> None:
        if self._journal is not None:
            self._journal.close()

    def _beside(self) -> str:
        """A file of nearly that name, if there is none of this one."""
        where = Path(self._path or "")
        try:
            return (
                "" if where.exists() else did_you_mean(where.name, [p.name for p in where.parent.iterdir()])
            )
        except OSError:
            return ""


def opened(path: str | None, *, key: str | None = None) -> _Journal:
    """The journal that a word names, made where it is not there yet; None without a word."""
    return _Journal(path, key=key)


def stored(path: str | None, *, reading: bool = False, key: str | None = None) -> _Journal:
    """The journal that must be there, to be opened. Raises `BadInput` where no word names one."""
    if path is None:
        raise BadInput(
            "say which journal holds the run: --journal FILE, or FOREPLAN_JOURNAL in the environment"
        )
    return _Journal(path, existing=True, reading=reading, key=key)


def _driven(
    screen: Screen, setting: Setting, view: View, drive: Callable[[], Coroutine[Any, Any, Run]], *, full: bool
) -> Code:
    """Let a run go on and tell how it ended; on Ctrl-C it has paused, and how to resume it is said."""
    try:
        ended = wait_for(drive)
    except KeyboardInterrupt:
        raise _interrupted(setting, view.progress.run) from None
    view.__exit__()
    screen.document(ended.to_json())
    if screen.quiet and ended.ok:
        screen.show(*telling.output_only(ended), important=True)
    elif screen.quiet:
        screen.say(f"foreplan: {telling.fate(ended)}: {ended.message}", important=True)
    else:
        screen.show(telling.account(ended, took=view.progress.took, full=full))
    _advise(screen, setting, ended)
    return code_of(ended)


def _interrupted(setting: Setting, run: str) -> Interrupted:
    if not run:
        return Interrupted("interrupted before the run began; nothing was done")
    if setting.journal is None:
        return Interrupted(
            f"interrupted: run {run} was kept in memory only and cannot be resumed; --journal FILE keeps runs",
            run=run,
        )
    return Interrupted(
        f"interrupted: run {run} has paused; go on with: {setting.command('resume', run)}", run=run
    )


def _advise(screen: Screen, setting: Setting, ended: Run) -> None:
    """What to type next, on lines that can be copied."""
    advice = list(_advice(setting, ended))
    if advice:
        screen.note(Text())
    for sentence in advice:
        screen.say(sentence)


def _advice(setting: Setting, ended: Run) -> Iterator[str]:
    if ended.state != "waiting":
        return
    if setting.journal is None:
        yield "The run was kept in memory only, so it ends here; with --journal FILE it can be resumed."
        return
    yield "Answer, and go on:" if ended.waiting else "Go on:"
    shown = ended.waiting[:_ANSWERS]
    answers = [f"--decide {shlex.quote(f'{plain(asked.id)}={_said(asked)}')}" for asked in shown]
    yield "  " + " ".join([setting.command("resume", ended.id), *answers])
    if len(ended.waiting) > _ANSWERS:
        more = len(ended.waiting) - _ANSWERS
        yield (
            "  and one --decide for the other question" * (more == 1)
            or f"  and one --decide for each of the other {more} questions"
        )


def _said(asked: DecisionAsked) -> str:
    """What stands for the answer to a question."""
    return "answer:JSON" if asked.about == "ask" else "CHOICE"


def code_of(ended: Run) -> Code:
    """The exit code of a run that ended, or waits."""
    match ended.state:
        case "done":
            return Code.DONE
        case "waiting" | "running":
            return Code.NOT_APPROVED
        case _:
            return Code.FAILED


def resume(
    screen: Screen,
    setting: Setting,
    run_id: str | None,
    decide: Iterable[str],
    *,
    by: str | None,
    reason: str,
    full: bool,
    accept_changes: bool = False,
) -> Code:
    """Take up a run that was interrupted or waits."""
    if run_id is None:
        raise BadInput(
            "say which run goes on: its id, or `last`; or --watch, which takes up all that can go on"
        )
    words = list(decide)
    answers = read_answers(words, by or login_name(), reason) if words else {}
    with stored(setting.journal, key=setting.journal_key) as journal, View(screen) as view:
        assert journal is not None
        run_id = run_in(journal, run_id)
        for event in journal.events(run_id):
            view.progress.take(event)
        loaded = setting.loaded()
        desk = _desk(screen, view, by, loaded["registry"])
        engine = Engine(**loaded, journal=journal, watch=view.watch, listen=view.listen, decide=desk)
        who = (by or login_name()) if accept_changes else ""
        go_on = partial(engine.resume, run_id, decisions=answers, accept_changes=who)
        return _driven(screen, setting, view, go_on, full=full)


def cancel(screen: Screen, journal: str | None, run_id: str, key: str | None = None) -> Code:
    """End a run for good."""
    with stored(journal, key=key) as kept:
        assert kept is not None
        run_id = run_in(kept, run_id)
        opened = next(kept.events(run_id), None)
        contracts = getattr(opened, "contracts", {})
        tools = [Tool.from_contract(contract) for contract in contracts.values()]
        principal = getattr(opened, "principal", None)
        host = {"principal": principal} if principal is not None else {}
        Engine(Registry(*tools), journal=kept, **host).cancel(run_id)
        ended = read_run(kept, run_id)
    screen.document(ended.to_json())
    screen.show(Text.assemble("run ", line(run_id), " is cancelled"))
    return Code.DONE


# ---------------------------------------------------------------------------------------------- looking back


def show(
    screen: Screen,
    journal: str | None,
    run_id: str,
    *,
    events: bool,
    full: bool,
    after: int = 0,
    at: int | None = None,
) -> Code:
    """A run as its journal tells it, or as it stood after event `at`."""
    with stored(journal, reading=True) as kept:
        assert kept is not None
        run_id = run_in(kept, run_id)
        listed = list(kept.events(run_id))[:at]
        found, position = read_run(kept, run_id, at=at), kept.position(run_id)
    if events:
        start, listed = listed[0].at if listed else 0.0, listed[after:]
        listing = {"run": run_id, "events": [encode(event) for event in listed]}
        screen.document({**listing, "position": position})
        screen.show(telling.event_list(listed, start), important=True)
    else:
        screen.document({**found.to_json(), "position": position})
        screen.show(telling.account(found, took=_took(listed), full=full), important=True)
        model = "MODULE:NAME" if found.messages else None
        if at is None:
            _advise(screen, Setting(tools="MODULE:NAME", journal=journal, model=model), found)
    screen.say(f"position {position}")
    return Code.DONE


def follow(screen: Screen, journal: str | None, run_id: str, *, after: int, every: float = 0.5) -> Code:
    """The events of a run as they happen, in whatever process, until it is closed; with --json one document a line."""
    with stored(journal) as kept:
        assert kept is not None
        run_id = run_in(kept, run_id)
        start = next(iter(kept.events(run_id))).at

        async def tell() -> None:
            async for run, event in Engine([], journal=kept).events(
                run_id, after=after, follow=True, every=every
            ):
                if screen.json:
                    screen.write(json.dumps({"run": run, **encode(event)}) + "\n")
                screen.show(telling.event_list([event], start), important=True)

        with suppress(KeyboardInterrupt):
            wait_for(tell)
    return Code.DONE


def _took(events: list[Event]) -> float:
    return events[-1].at - events[0].at if events else 0.0


def runs(screen: Screen, journal: str | None) -> Code:
    """The runs of a journal."""
    with stored(journal, reading=True) as kept:
        assert kept is not None
        listed = kept.runs()
    known = {found.run for found in listed}
    screen.document({"runs": [{**found._asdict(), **_relations(found.run, known)} for found in listed]})
    screen.show(telling.run_list(listed), important=True)
    return Code.DONE


def _relations(run: str, known: set[str]) -> dict[str, str]:
    """Of which run this one is a part, or from which it was forked."""
    related = {"parent": parent_of(run, known), "forked_from": forked_of(run, known)}
    return {name: other for name, other in related.items() if other}


def replay(
    screen: Screen, setting: Setting, run_id: str, path: str | None, *, compare: bool, full: bool
) -> Code:
    """Run a recorded run again on its record, and say what would be decided otherwise; no tool is called."""
    plan = read_given_plan(path)[0] if path is not None else None
    rules = read_policies(setting.policies) if setting.policies is not None else None
    with stored(setting.journal, reading=True) as journal:
        assert journal is not None
        run_id = run_in(journal, run_id)
        registry = load_registry(setting.tools) if setting.tools else _recorded_tools(journal, run_id)
        found = Engine(registry, journal=journal).replay(run_id, plan=plan, policies=rules)
    screen.document(found.to_json())
    if compare or found.now is None:
        screen.show(telling.comparison(found, full=full), important=True)
    else:
        screen.show(telling.account(found.now, took=None, full=full))
        screen.show(telling.comparison_line(found), important=True)
    return Code.DONE if found.same else Code.FAILED


def _recorded_tools(journal: SqliteJournal, run_id: str) -> Registry:
    """The tools of a run as they were, by their contracts alone."""
    contracts = contracts_of(list(journal.events(run_id)))
    return Registry(*(Tool.from_contract(contract) for contract in contracts.values()))


def fork(
    screen: Screen,
    setting: Setting,
    consent: Consent,
    run_id: str,
    step: str,
    path: str | None,
    *,
    full: bool,
) -> Code:
    """Begin a new run where another stood before one of its steps, with the same plan or another."""
    _scope(consent.scope)
    approval = read_given_approval(consent.file)
    loaded = setting.loaded()
    engine = Engine(**loaded)
    with stored(setting.journal, key=setting.journal_key) as journal:
        assert journal is not None
        run_id = run_in(journal, run_id)
        origin = read_run(journal, run_id)
        plan = _plan_to_fork(engine, origin, path)
        if approval is None:
            approval = _approval_here(screen, engine, plan, origin.inputs, consent, full=full)
        with View(screen) as view:
            desk = _desk(screen, view, consent.by, loaded["registry"])
            engine = Engine(**loaded, journal=journal, watch=view.watch, listen=view.listen, decide=desk)
            return _driven(
                screen,
                setting,
                view,
                lambda: engine.fork(run_id, from_step=step, plan=plan, approval=approval),
                full=full,
            )


def _plan_to_fork(engine: Engine, origin: Run, path: str | None) -> Plan:
    """The plan in the file, checked; without one, that of the run as it stood."""
    if origin.plan is None:
        raise BadInput(f"run {plain(origin.id)} has no plan, so there is no step to fork from")
    if path is None:
        return plan_of(origin.plan, [id_ for id_, step in origin.steps.items() if step.replaced])
    plan, source = read_given_plan(path)
    _checked(engine, plan, source)
    return plan


def show_tools(screen: Screen, tools: str, name: str | None, policies: str | None = None) -> Code:
    """The tools there are, or all that is declared of one and what these rules make of it."""
    registry, rules = load_registry(tools), read_policies(policies) or Policies()
    listed = [registry[name]] if name is not None else list(registry)
    screen.document({"tools": [_whole(tool, rules) for tool in listed]})
    shown = render.tool_page(listed[0], rules) if name is not None else render.tools(listed)
    screen.show(shown, important=True)
    return Code.DONE


def _whole(tool: Tool, rules: Policies) -> dict[str, Any]:
    """The contract of a tool, and what stands beside it."""
    beside = {
        "title": tool.title,
        "examples": list(tool.examples),
        "simulate": tool.simulate is not None,
        "reconcile": tool.reconcile is not None,
        "origin": tool.origin,
        "limits": limits_of(tool, rules),
        "fingerprint": tool.fingerprint,
    }
    return {**tool.contract(), **{name: value for name, value in beside.items() if value}}


def search_tools(screen: Screen, tools: str, word: str, query: str, k: int) -> Code:
    """The tools that fit some words best, the best first."""
    if word != "search":
        said = f"tools takes one name; to look for tools: foreplan tools search {shlex.quote(plain(query))}"
        raise BadInput(said)
    found = load_registry(tools).search(query, k)
    screen.document({"tools": [tool.contract() for tool in found]})
    screen.show(render.tools(found) if found else Text("no tool fits these words"), important=True)
    return Code.DONE


def show_diff(screen: Screen, old: str, new: str) -> Code:
    """What one plan has that another has not."""
    (before, _), (after, _) = read_given_plan(old), read_given_plan(new)
    found = diff(before, after)
    screen.document(found.to_json())
    screen.show(render.changes(found), important=True)
    return Code.DONE
