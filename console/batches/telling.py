"""Batches as people read them: what is to be run, how one ended, its first failures, a row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from ...executor.batches.batch import Batch
from ...executor.batches.examining import Examined
from ...executor.batches.rows import RowResult
from ...planner.reviewing import Review
from ...policies.batches import BatchRules
from ...policies.failures import Kind
from ...policies.text import count
from ..lines import (
    NAME,
    VALUE,
    block,
    columns,
    joined,
    line,
    plain,
    seconds,
    section,
    stacked,
    value_text,
)
from ..telling import NEXT, STATES, questions
from .ends import batch_fate

__all__ = ["account", "document", "of_rows", "rehearsed", "shortly", "what_to_run"]

_FINDINGS = 5
_FAILURES = 5
_COLUMNS = 12
"""Inputs that are told with their columns."""
_STATUSES = {
    "done": ("done", "green"),
    "failed": ("failed", "red"),
    "stopped": ("stopped", "red"),
    "refused": ("set aside before they ran", "yellow"),
    "waiting": ("waiting", "yellow"),
    "not_begun": ("not begun", "dim"),
}


# ---------------------------------------------------------------------------------------------- before it runs


def what_to_run(found: Examined, rules: BatchRules, review: Review, *, mends: bool = False) -> RenderableType:
    """The rows of a batch beside the review of its plan: how many, where inputs come from, what bounds all of them.

    `mends`: there is a planner, which is asked about rows that fail alike.
    """
    terms = [[Text(name, "dim"), said] for name, said in _terms(found, rules, review, mends)]
    return stacked(
        *section("Rows", of_rows(found)),
        *section("The batch", columns(terms)),
        *section("Rows that cannot run", _faults(found), "yellow"),
    )


def of_rows(found: Examined) -> RenderableType:
    """How many rows there are, and which column each input is."""
    facts = [count(found.runnable, "row can run", "rows can run")]
    if found.set_aside:
        facts.append(f"{found.set_aside:,} cannot and would be set aside")
    facts.append(found.digest)
    rows = [[line(name, limit=NAME), Text(*where)] for name, where in _inputs(found)]
    more = len(rows) - _COLUMNS
    notes = [line(note, "dim", VALUE) for note in found.notes]
    cut = Text(f"and {count(more, 'more input')}", "dim") if more > 0 else None
    return stacked(line(found.source.name, limit=VALUE), joined(facts), columns(rows[:_COLUMNS]), cut, *notes)


def _inputs(found: Examined) -> Iterator[tuple[str, tuple[str, str]]]:
    fitting = found.fitting
    bound = fitting.columns_by_input()
    for name in fitting.members.kinds:
        if name in fitting.constants:
            yield name, (f"= {value_text(fitting.constants[name])}, for every row", "")
        elif name in bound:
            yield name, (f"column {plain(bound[name], NAME)}", "")
        elif name in fitting.defaults:
            yield name, (f"no column: its default, {value_text(fitting.defaults[name])}", "dim")
        else:
            yield name, ("no column: left out", "dim")


def _terms(found: Examined, rules: BatchRules, review: Review, mends: bool) -> Iterator[tuple[str, Text]]:
    most = review.calls.most
    if most is not None:
        yield "calls", Text(f"at most {most * found.runnable:,}: {most:,} for each row, without retries")
    else:
        yield "calls", Text(f"{plain(review.calls.text, 200)} for each row")
    bounds = rules.budget.model_dump(exclude_none=True, exclude_defaults=True)
    if bounds:
        said = (f"{most:,.15g} {name.replace('_', ' ')}" for name, most in bounds.items())
        yield "budget", Text(f"{', '.join(said)} for all rows together")
    yield "at once", Text(count(rules.at_once, "row"))
    if rules.canary:
        yield "canary", Text(f"{count(rules.canary, 'row')} first, then a person is asked")
    yield "failures", Text(_policy(rules))
    if mends and rules.groups:
        groups = count(rules.groups, "group")
        yield "fail alike", Text(f"the planner is asked once for each group of rows, for {groups} at most")
    if rules.undo:
        yield "undo", Text("a row that fails takes back what its steps say how to undo")


def _policy(rules: BatchRules) -> str:
    said = []
    if rules.stop_after is not None:
        said.append(f"it stops after {count(rules.stop_after, 'failure')}")
    if rules.stop_rate is not None:
        said.append(
            f"it stops when {rules.stop_rate:.0%} of the rows failed ({rules.stop_seen} at least were seen)"
        )
    return "; ".join(said) or "the other rows go on"


def _faults(found: Examined) -> RenderableType | None:
    if not found.findings:
        return None
    shown = [line(str(finding), limit=VALUE) for finding in found.findings[:_FINDINGS]]
    more = max(0, found.found.total() - len(shown))
    kinds = ", ".join(f"{n:,} {code}" for code, n in found.found.most_common(6))
    return stacked(*shown, Text(f"and {more:,} more findings ({kinds})", "dim") if more > 0 else None)


# ---------------------------------------------------------------------------------------------- a rehearsal


def rehearsed(found: Examined, results: Sequence[RowResult]) -> RenderableType:
    """What some rows would do: how many would be done, what they would give, why the others would not."""
    done = [row for row in results if row.status == "done"]
    bad = [row for row in results if row.status != "done"]
    head = Text(f"{len(done):,} of {count(len(results), 'rehearsed row')} would be done", "bold")
    outputs = [[_place(row), Text(value_text(row.output))] for row in done[:_FAILURES]]
    return stacked(
        head,
        *section("Rows", of_rows(found)),
        *section("Rows that cannot run", _faults(found), "yellow"),
        *section("Would give", columns(outputs) if outputs else None),
        *section("Would not be done", stacked(*map(_failure, bad[:_FAILURES])) if bad else None, "red"),
    )


# ---------------------------------------------------------------------------------------------- how it ended


def shortly(batch: Batch) -> str:
    """`27 of 31 rows, 4 failed`: for a list."""
    ended = sum(batch.counts[status] for status in ("done", "failed", "stopped", "refused"))
    bad = ended - batch.counts["done"]
    return f"{ended:,} of {count(batch.total, 'row')}" + (f", {bad:,} not done" if bad else "")


def account(batch: Batch, *, took: float | None = None) -> RenderableType:
    """How a batch stands: rows by how they ended, failures by kind, the first that failed, open questions.

    `took` is how long it went on here; without it the time of all processes is told.
    """
    facts = [Text(batch_fate(batch), STATES[batch.status]), line(batch.id), Text(count(batch.total, "row"))]
    facts.append(Text(seconds(batch.used.seconds if took is None else took)))
    facts.append(Text(count(batch.used.tool_calls, "call")))
    if batch.used.cost:
        facts.append(Text(f"cost {batch.used.cost:g}"))
    first = [] if batch.status == "done" else list(_first(batch))
    return stacked(
        joined(facts),
        block(batch.message, limit=2000) if batch.status != "done" or not batch.total else None,
        *section("Rows", columns(_counts(batch)) if batch.total else None),
        *section("Failures", columns(_kinds(batch)) if batch.failures else None),
        *section("The first of them", stacked(*first) if first else None),
        *section("Questions", questions(batch.waiting_for) if batch.waiting_for else None),
    )


def _counts(batch: Batch) -> list[list[RenderableType]]:
    said = [(n, *_STATUSES[status]) for status, n in batch.counts.items() if n]
    width = max((len(f"{n:,}") for n, _, _ in said), default=0)
    return [[Text(f"{n:>{width},}"), Text(told, style)] for n, told, style in said]


def _kinds(batch: Batch) -> Iterator[list[RenderableType]]:
    """How often each kind and code, and what to do about the kind, once."""
    told: set[str] = set()
    for failure in batch.failures:
        kind = str(failure["kind"])
        advice = "mend these rows in the source" if failure["status"] == "refused" else _next(kind)
        yield [
            Text(f"{failure['rows']:,}"),
            line(kind, "red", NAME),
            line(failure["code"], limit=NAME),
            Text("" if advice in told else advice, "dim"),
        ]
        told.add(advice)


def _next(kind: str) -> str:
    try:
        return NEXT[Kind(kind)]
    except ValueError:
        return ""


def _first(batch: Batch) -> Iterator[RenderableType]:
    for number, row in enumerate(batch.rows(status=("failed", "stopped", "refused"))):
        if number == _FAILURES:
            yield Text("and others: a failures file (--failures) has all of them", "dim")
            return
        yield _failure(row)


def _failure(row: RowResult) -> Text:
    why = ": ".join(part for part in (row.kind, row.code) if part)
    return joined([_place(row), line(why or row.status, "red", 80), line(row.sentence, limit=240)])


def _place(row: RowResult) -> Text:
    where = f" (line {row.line:,})" if row.line is not None else ""
    return line(f"{row.row}{where}", "bold")


def document(batch: Batch, **more: Any) -> dict[str, Any]:
    """A batch for programs, with its first failures."""
    bad = [] if batch.status == "done" else batch.rows(status=("failed", "stopped", "refused"))
    first = [row._asdict() for row in islice(bad, _FAILURES)]
    return {**batch.to_json(), "first_failures": first, **more}
