"""What is there to look at, and nothing changes: recorded runs, the tools, two plans."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from rich.text import Text

from ..executor.batches.batch import Batch, batch_of_row, is_batch, read_batch
from ..executor.changes import contracts_of
from ..executor.children import parent_of, root_of
from ..executor.engine import Engine
from ..executor.events import BatchOpened, Event, RowsReopened, RunOpened, RunResumed, encode
from ..executor.journal.journal import RunLine, at_rest
from ..executor.journal.sqlite_journal import SqliteJournal
from ..executor.recorded import common_of_row, read_run
from ..executor.replays.forking import forked_of
from ..executor.run import Run
from ..planner.bounds import limits_of
from ..planner.reviewing import diff as differences
from ..policies.errors import BadInput
from ..policies.policies import Policies
from ..registry.registry import Registry
from ..registry.sources import FoundTools
from ..registry.tools import Tool
from . import options as o
from . import render, telling
from .batches import command as batch_commands
from .batches import telling as batch_telling
from .driving import advise
from .given import read_given_plan, read_policies
from .journals import run_in, stored
from .lines import plain
from .screen import Code, Screen
from .setting import Kept, Minds, Setting
from .tool_files import load_tools
from .waiting import wait_for

__all__ = ["diff", "replay", "runs", "show", "tools"]


def show(
    screen: Screen,
    run_id: o.RunId,
    *,
    journal: o.Journal = None,
    events: o.Events = False,
    follow: o.Follow = False,
    after: o.After = 0,
    at: o.At = None,
    full: o.Full = False,
) -> Code:
    """Tell a run, a batch, or a row (BATCH.17).

    It needs none of its tools.
    """
    if follow:
        return _follow(screen, journal, run_id, after=after)
    with stored(journal, reading=True) as kept:
        assert kept is not None
        run_id = run_in(kept, run_id)
        if is_batch(kept, run_id) and not events:
            return _show_batch(screen, kept, run_id, at)
        listed = list(kept.events(run_id))[:at]
        found, position = None if events else read_run(kept, run_id, at=at), kept.position(run_id)
        whole = batch_of_row(kept, run_id)
    if found is None:
        start, listed = listed[0].at if listed else 0.0, listed[after:]
        listing = {"run": run_id, "events": [encode(event) for event in listed]}
        screen.document({**listing, "position": position})
        screen.show(telling.event_list(listed, start), important=True)
    else:
        screen.document({**found.to_json(), "position": position})
        screen.show(telling.account(found, took=_took(listed), full=full), important=True)
        model = "MODULE:NAME" if found.messages else None
        if at is None and whole != run_id:
            _advise_of_row(screen, journal, found, whole)
        elif at is None:
            advise(screen, Setting("MODULE:NAME", minds=Minds(model=model), kept=Kept(journal)), found)
    screen.say(f"position {position}")
    return Code.DONE


def _advise_of_row(screen: Screen, journal: str | None, row: Run, batch_id: str) -> None:
    """A row is answered by its id, and goes on with its batch."""
    if row.waiting:
        screen.note(Text())
        words = ["decide", row.id, row.waiting[0].id, "CHOICE", "--journal", journal or ""]
        screen.say(f"Answer:  foreplan {shlex.join(plain(word) for word in words)}")
        screen.say(f"Go on:   {Setting('MODULE:NAME', kept=Kept(journal)).command('resume', batch_id)}")


def _show_batch(screen: Screen, kept: SqliteJournal, batch_id: str, at: int | None) -> Code:
    """How a batch stands, or stood, its first failures, and how it goes on."""
    found, position = read_batch(kept, batch_id, at=at), kept.position(batch_id)
    screen.document(batch_telling.document(found, position=position))
    screen.show(batch_telling.account(found), important=True)
    if at is None:
        opened = next(iter(kept.some(batch_id, (BatchOpened,))))
        failures = (getattr(opened, "outputs", None) or {}).get("failures")
        batch_commands.advise(screen, Setting("MODULE:NAME", kept=Kept(str(kept.path))), found, failures)
    screen.say(f"position {position}")
    return Code.DONE


def _follow(screen: Screen, journal: str | None, run_id: str, *, after: int, every: float = 0.5) -> Code:
    """The events of a run as they happen, in whatever process, until it is closed; with --json one document a line."""
    with stored(journal, reading=True) as kept:
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


def runs(screen: Screen, *, of: o.PartsOf = None, journal: o.Journal = None) -> Code:
    """List the runs of a journal.

    A batch is one line; --of lists its rows, and the sub-plans that they called.
    """
    with stored(journal, reading=True) as kept:
        assert kept is not None
        whole = run_in(kept, of) if of is not None else ""
        listed, rows = _parts(kept, whole) if whole else (kept.runs(), {})
        known = {whole, *(found.run for found in listed)}
        roots = {found.run: root_of(found.run, known) for found in listed} if not whole else {}
        batches = {
            run: read_batch(kept, run) for run, root in roots.items() if run == root and is_batch(kept, run)
        }
    shown = [found for found in listed if roots.get(found.run, "") not in batches or found.run in batches]
    lines = [
        {**found._asdict(), **_relations(found.run, known), **_counts(batches, found.run)} for found in shown
    ]
    screen.document({"runs": lines})
    beside = rows | {run: batch_telling.shortly(found) for run, found in batches.items()}
    none = "it has no parts" if whole else "no run yet"
    screen.show(telling.run_list(shown, beside) if shown else Text(none), important=True)
    return Code.DONE


def _parts(kept: SqliteJournal, whole: str) -> tuple[list[RunLine], dict[str, str]]:
    """What is a part of a run, or batch, and what to say of rows: those in order, and sub-plans below who called them."""
    rows, said, known, driven = list[RunLine](), dict[str, str](), {whole}, kept.driven(whole)
    for opened, line, _ in kept.openings(whole) if is_batch(kept, whole) else ():
        rows.append(line if driven or line.events == 1 else at_rest(line))
        begun = "" if line.events > 1 else ", not begun"
        said[line.run] = (f"line {opened.line:,}" if opened.line is not None else "row") + begun
        known.add(line.run)
    below: dict[str, list[RunLine]] = {}
    for found in reversed(kept.runs()):
        known.add(found.run)
        below.setdefault(parent_of(found.run, known), []).append(found)

    def told(line: RunLine) -> Iterator[RunLine]:
        yield line
        for found in below.get(line.run, ()):
            yield from told(found)

    return [found for line in (*rows, *below.get(whole, ())) for found in told(line)], said


def _counts(batches: Mapping[str, Batch], run: str) -> dict[str, Any]:
    """Of a batch, how many rows it has and how they stand."""
    found = batches.get(run)
    return {"batch": True, "rows": found.total, "counts": dict(found.counts)} if found is not None else {}


def _relations(run: str, known: set[str]) -> dict[str, str]:
    """Of which run this one is a part, or from which it was forked."""
    related = {"parent": parent_of(run, known), "forked_from": forked_of(run, known)}
    return {name: other for name, other in related.items() if other}


def replay(
    screen: Screen,
    run_id: o.RunId,
    *,
    tools: o.AnyTools = None,
    journal: o.Journal = None,
    path: o.OtherPlan = None,
    policies: o.PolicyFile = None,
    compare: o.CompareWord = False,
    full: o.Full = False,
) -> Code:
    """Run a run again on its record, with what holds today.

    No tool, model or person is asked. Exit code 0: every decision is the same; 1: some differ.
    """
    plan = read_given_plan(path)[0] if path is not None else None
    rules = read_policies(policies) if policies is not None else None
    with stored(journal, reading=True) as kept:
        assert kept is not None
        run_id = run_in(kept, run_id)
        registry = load_tools(tools).registry if tools else _recorded_tools(kept, run_id)
        found = Engine(registry, journal=kept).replay(run_id, plan=plan, policies=rules)
    screen.document(found.to_json())
    if compare or found.now is None:
        screen.show(telling.comparison(found, full=full), important=True)
    else:
        screen.show(telling.account(found.now, took=None, full=full))
        screen.show(telling.comparison_line(found), important=True)
    return Code.DONE if found.same else Code.FAILED


def _recorded_tools(journal: SqliteJournal, run_id: str) -> Registry:
    """The tools of a run, or of a row, as they were, by their contracts alone."""
    opening = journal.opening(run_id)
    if opening is not None:
        return common_of_row(journal, opening.opened).registry
    contracts = contracts_of(list(journal.some(run_id, (RunOpened, BatchOpened, RunResumed, RowsReopened))))
    return Registry(*(Tool.from_contract(contract) for contract in contracts.values()))


def tools(
    screen: Screen,
    name: o.ToolName = None,
    words: o.Query = None,
    *,
    tools: o.Tools,
    k: o.Wanted = 10,
    policies: o.PolicyFile = None,
) -> Code:
    """List the tools, show one, or search them."""
    if words is not None:
        return _search(screen, tools, name or "", words, k)
    registry, rules = load_tools(tools).registry, read_policies(policies) or Policies()
    listed = [registry[name]] if name is not None else list(registry)
    left_out = registry.findings if isinstance(registry, FoundTools) and name is None else ()
    beside = {"findings": [found._asdict() for found in left_out]} if left_out else {}
    screen.document({"tools": [_whole(tool, rules) for tool in listed], **beside})
    shown = render.tool_page(listed[0], rules) if name is not None else render.tools(listed)
    screen.show(shown, important=True)
    if left_out:
        screen.show(render.left_out(left_out), important=True)
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


def _search(screen: Screen, tools: str, word: str, query: str, k: int) -> Code:
    """The tools that fit some words best, the best first."""
    if word != "search":
        said = f"tools takes one name; to look for tools: foreplan tools search {shlex.quote(plain(query))}"
        raise BadInput(said)
    found = load_tools(tools).registry.search(query, k)
    screen.document({"tools": [tool.contract() for tool in found]})
    screen.show(render.tools(found) if found else Text("no tool fits these words"), important=True)
    return Code.DONE


def diff(screen: Screen, old: o.Old, new: o.New) -> Code:
    """Show how two plans differ."""
    (before, _), (after, _) = read_given_plan(old), read_given_plan(new)
    found = differences(before, after)
    screen.document(found.to_json())
    screen.show(render.changes(found), important=True)
    return Code.DONE
