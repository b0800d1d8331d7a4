"""What makes a run, or goes on with one: `run`, `rehearse`, `resume`, `fork`, `cancel`."""

from __future__ import annotations

from functools import partial

from rich.text import Text

from ..executor.batches.batch import batch_of_row, is_batch, read_batch
from ..executor.engine import Engine
from ..executor.journal.journal import MemoryJournal
from ..executor.recorded import read_run
from ..executor.replays.forking import plan_of
from ..executor.run import Run
from ..planner.plan import Plan
from ..policies.errors import BadInput
from ..registry.registry import Registry
from ..registry.tools import Tool
from . import options as o
from . import telling, watching
from .batches import command as commands
from .batches.command import Going, Onward
from .driving import code_of, desk, driven
from .given import read_duration, read_given_plan
from .journals import Opened, run_in, stored
from .lines import line, plain
from .live import View
from .planning import approval_here, checked
from .screen import Code, Interrupted, Screen
from .setting import Approving, Around, Given, Kept, Rules, Setting
from .waiting import wait_for

__all__ = ["cancel", "fork", "go_on", "rehearse", "resume", "run"]


def run(
    screen: Screen,
    path: o.PlanFile,
    *,
    tools: o.Tools,
    given: Given,
    ask: o.Ask = False,
    approving: Approving,
    deadline: o.Deadline = None,
    around: Around,
    full: o.Full = False,
) -> Code:
    """Run a plan.

    With a planner, steps that fail are planned anew. Ctrl-C pauses the run; with a journal it can be resumed.
    """
    setting = around.with_tools(tools, approving.approver_keys)
    consent, kept = approving.consent(ask=ask), around.kept
    approval = consent.given(kept.journal)
    wanted = read_duration(deadline)
    plan, source = read_given_plan(path)
    inputs = given.read(plan)
    loaded = setting.loaded()
    engine = Engine(**loaded)
    checked(engine, plan, source)
    if approval is None:
        approval = approval_here(screen, engine, plan, inputs, consent, full=full)
    with Opened(kept.journal, key=kept.journal_key) as journal, View(screen) as view:
        decide = desk(screen, view, consent.by, loaded["registry"])
        memory = journal if journal is not None else MemoryJournal()
        engine = Engine(**loaded, journal=memory, watch=view.watch, listen=view.listen, decide=decide)
        begin = partial(engine.run, plan, inputs=inputs, approval=approval, deadline=wanted)
        return driven(screen, setting, view, begin, full=full)


def rehearse(
    screen: Screen,
    path: o.PlanFile,
    *,
    tools: o.Tools,
    given: Given,
    reads: o.Reads = False,
    full: o.Full = False,
    rules: Rules,
) -> Code:
    """Run a plan for show.

    Stand-ins (`simulate`) are called in the place of tools, nothing is changed, and nothing is kept.
    """
    setting = Setting(tools, rules)
    plan, source = read_given_plan(path)
    inputs = given.read(plan)
    engine = Engine(**setting.loaded())
    checked(engine, plan, source)
    with View(screen) as view:
        decide = desk(screen, view, None)
        engine = Engine(**setting.loaded(), watch=view.watch, listen=view.listen, decide=decide)
        try:
            ended = wait_for(lambda: engine.rehearse(plan, inputs=inputs, reads=reads))
        except KeyboardInterrupt:
            raise Interrupted("interrupted: a rehearsal is not kept; begin it again") from None
    screen.document(ended.to_json())
    screen.show(telling.account(ended, took=view.progress.took, full=full))
    return code_of(ended)


def resume(
    screen: Screen,
    run_id: o.RunToGoOn = None,
    *,
    tools: o.Tools,
    watch: o.Watching = False,
    once: o.Once = False,
    partly: o.Partly = False,
    paused: o.Paused = False,
    every: o.Every = 0.25,
    onward: Onward,
    around: Around,
    full: o.Full = False,
) -> Code:
    """Go on with a run, or a batch.

    One that was interrupted, or waits for a person; or, with --watch, all that can go on, until Ctrl-C. What is settled is
    not done again.
    """
    setting = around.with_tools(tools)
    if watch:
        one = run_id is not None or bool(onward.decide)
        return watching.watch(screen, setting, one=one, once=once, partly=partly, paused=paused, every=every)
    if run_id is None:
        raise BadInput(
            "say which run goes on: its id, or `last`; or --watch, which takes up all that can go on"
        )
    return go_on(screen, setting, run_id, onward.going(), full=full)


def go_on(screen: Screen, setting: Setting, run_id: str, going: Going, *, full: bool) -> Code:
    """Take up one run, or batch, that was interrupted or waits, with answers."""
    with stored(setting.kept.journal, key=setting.kept.journal_key) as journal:
        assert journal is not None
        run_id = run_in(journal, run_id)
        if is_batch(journal, run_id):
            return commands.go_on(screen, setting, journal, run_id, going)
        if (whole := batch_of_row(journal, run_id)) != run_id:
            going_on = setting.command("resume", whole)
            raise BadInput(
                f"{plain(run_id)} is a row of batch {plain(whole)}, and goes on with it: {going_on}"
            )
        if going.moved is not None:
            raise BadInput(f"{plain(run_id)} is a run, and no batch: it has no rows that could have moved")
        with View(screen) as view:
            for event in journal.events(run_id):
                view.progress.take(event)
            loaded = setting.loaded()
            asks = desk(screen, view, going.by, loaded["registry"])
            engine = Engine(**loaded, journal=journal, watch=view.watch, listen=view.listen, decide=asks)
            accepts = going.accepted_by
            take_up = partial(engine.resume, run_id, decisions=going.answers, accept_changes=accepts)
            return driven(screen, setting, view, take_up, full=full)


def fork(
    screen: Screen,
    run_id: o.RunId,
    *,
    from_step: o.FromStep,
    tools: o.Tools,
    path: o.OtherPlan = None,
    ask: o.Ask = False,
    approving: Approving,
    around: Around,
    full: o.Full = False,
) -> Code:
    """Begin a new run where another stood before one of its steps.

    What was settled before is taken over and not called again; what acted is asked about before it is done once more.
    """
    setting = around.with_tools(tools, approving.approver_keys)
    consent, kept = approving.consent(ask=ask), around.kept
    approval = consent.given(kept.journal)
    loaded = setting.loaded()
    engine = Engine(**loaded)
    with stored(kept.journal, key=kept.journal_key) as found:
        assert found is not None
        run_id = run_in(found, run_id)
        origin = read_run(found, run_id)
        plan = _plan_to_fork(engine, origin, path)
        if approval is None:
            approval = approval_here(screen, engine, plan, origin.inputs, consent, full=full)
        with View(screen) as view:
            decide = desk(screen, view, consent.by, loaded["registry"])
            engine = Engine(**loaded, journal=found, watch=view.watch, listen=view.listen, decide=decide)
            begin = partial(engine.fork, run_id, from_step=from_step, plan=plan, approval=approval)
            return driven(screen, setting, view, begin, full=full)


def _plan_to_fork(engine: Engine, origin: Run, path: str | None) -> Plan:
    """The plan in the file, checked; without one, that of the run as it stood."""
    if origin.plan is None:
        raise BadInput(f"run {plain(origin.id)} has no plan, so there is no step to fork from")
    if path is None:
        return plan_of(origin.plan, [id_ for id_, step in origin.steps.items() if step.replaced])
    plan, source = read_given_plan(path)
    checked(engine, plan, source)
    return plan


def cancel(screen: Screen, run_id: o.RunId, *, kept: Kept) -> Code:
    """End a run, or a batch, for good.

    One that was interrupted, or waits for a person.
    """
    with stored(kept.journal, key=kept.journal_key) as found:
        assert found is not None
        run_id = run_in(found, run_id)
        opened = next(found.events(run_id), None)
        contracts = getattr(opened, "contracts", {})
        tools = [Tool.from_contract(contract) for contract in contracts.values()]
        principal = getattr(opened, "principal", None)
        host = {"principal": principal} if principal is not None else {}
        Engine(Registry(*tools), journal=found, **host).cancel(run_id)
        what = "batch" if is_batch(found, run_id) else "run"
        ended = read_batch(found, run_id) if what == "batch" else read_run(found, run_id)
    screen.document(ended.to_json())
    screen.show(Text.assemble(f"{what} ", line(run_id), " is cancelled"))
    return Code.DONE
