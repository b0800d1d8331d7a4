"""What a client is told of a run: it is a model, so no more than a planner may see of one.

    steps ..... how they ended, and the shapes of their results: types, and keys that a schema or the plan already says
    failures .. kind, code and our words (`planner.requests.for_model`)
    questions . who asks and what may be answered, without the arguments
    result .... its shape; with `Policies.show_tool_text` the value itself, apart from our words

A server acts for one principal, and tells of that one's runs alone: for its client there are no others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ...executor.children import parent_of
from ...executor.engine import Engine
from ...executor.events import DecisionAsked, RunOpened, path_text
from ...executor.journal.journal import RunLine, unknown
from ...executor.run import Run, StepResult
from ...planner.plan import Plan
from ...planner.react import read_part, shown
from ...planner.requests import for_model, reading
from ...planner.shapes import shape_of, words_of
from ...policies.errors import BadInput
from ...policies.expressions import EvaluationError, ExpressionError
from ...policies.failures import Failure
from ...policies.text import count, safe_text, shorten

__all__ = ["listing", "outcome", "questions", "standing", "told_run"]

_MOST = 200
"""So many steps of a run, and runs of a journal, are told one by one."""
_FAILURES = 40
_ID = re.compile(r"[a-z][a-z0-9_]*")
_STOPPED = {
    "budget": "its budget is used up",
    "cancelled": "it was cancelled",
    "cannot_plan": "steps failed, and the planner found no other way",
    "journal": "its journal could not be written to",
}


def told_run(engine: Engine, run_id: str) -> Run:
    """A run of whoever this server acts for. Raises `UnknownRun`."""
    if not _is_ours(engine, run_id):
        raise unknown(run_id, [line.run for line in _ours(engine, 1)])
    return engine.show(run_id)


def standing(engine: Engine, run: Run) -> dict[str, Any]:
    """How a run stands."""
    steps = list(run.steps.values())
    failures = list(_failures(engine, run))
    known = words_of(run.plan) if run.plan is not None else frozenset[str]()
    return {
        "run": run.id,
        "goal": shorten(run.plan.goal, 500) if run.plan is not None else "",
        "state": run.state,
        "reason": run.reason,
        "message": _message(engine, run),
        "steps": [_step(engine, run.plan, step, known) for step in steps[:_MOST]],
        "failures": failures[:_FAILURES],
        "waiting": [_asked(asked) for asked in run.waiting],
        "tool_calls": run.tool_calls,
        "left_out": max(0, len(steps) - _MOST) + max(0, len(failures) - _FAILURES),
    }


def outcome(engine: Engine, run: Run, path: str | None) -> dict[str, Any]:
    """What a run that is closed has given: the shape, and the value (or a part of it) where policy lets models see it."""
    told: dict[str, Any] = {"run": run.id, "state": run.state, "withheld": not engine.policies.show_tool_text}
    known = words_of(run.plan) if run.plan is not None else frozenset()
    told["shape"] = shape_of(run.output, known=known)
    if not told["withheld"]:
        return told | {"result": shown(run.output if path is None else _part(run.output, path))}
    if path is not None:
        raise BadInput("no part of the result can be shown: policy withholds from models what tools gave")
    return told


def listing(engine: Engine) -> list[dict[str, Any]]:
    """The runs there are, the newest first; not those that are parts of others."""
    return [_line(line) for line in _ours(engine, _MOST)]


def questions(engine: Engine) -> list[dict[str, Any]]:
    """What runs wait for people to say."""
    asked = [question for question in engine.waiting() if _is_ours(engine, question.run)]
    return [{"run": question.run, **_asked(question.asked)} for question in asked[:_MOST]]


# ---------------------------------------------------------------------------------------------- whose runs


def _is_ours(engine: Engine, run_id: str) -> bool:
    opened = next(iter(engine.journal.some(run_id, (RunOpened,))), None)
    return isinstance(opened, RunOpened) and opened.principal.id == engine.principal.id


def _ours(engine: Engine, most: int) -> Iterator[RunLine]:
    lines = engine.runs()
    known = {line.run for line in lines}
    for line in lines:
        if most <= 0:
            return
        if not parent_of(line.run, known) and _is_ours(engine, line.run):
            most -= 1
            yield line


def _line(line: RunLine) -> dict[str, Any]:
    return {"run": line.run, "state": line.state, "reason": line.reason, "goal": shorten(line.goal, 200)}


# ---------------------------------------------------------------------------------------------- parts of a run


def _message(engine: Engine, run: Run) -> str:
    """A sentence of ours: that of the run may quote what a tool said."""
    if engine.policies.show_tool_text:
        return safe_text(run.message, 2000)
    match run.state:
        case "running" | "waiting":
            return run.message  # of these states it quotes nothing
        case "done":
            return "done"
        case "failed":
            return f"failed: {count(len(run.failures), 'failure')} in its way"
        case "stopped":
            return f"stopped: {_STOPPED.get(run.reason, 'it could not go on')}"


def _step(engine: Engine, plan: Plan | None, step: StepResult, known: frozenset[str]) -> dict[str, Any]:
    told: dict[str, Any] = {"id": step.id, "outcome": step.outcome.value if step.outcome else None}
    if step.tool:
        told["tool"] = step.tool
    if step.outcome is not None and step.value is not None:
        told["shape"] = _shape(engine, plan, step, known)
    without = [item for item in step.items if item.outcome is not None and item.outcome.value != "ok"]
    return told | ({"items_not_ok": len(without)} if without else {})


def _shape(engine: Engine, plan: Plan | None, step: StepResult, known: frozenset[str]) -> dict[str, Any]:
    tool = engine.registry.get(step.tool) if step.tool else None
    schema: Any = tool.output.document if tool is not None and tool.output is not None else None
    written = plan.by_id.get(step.id) if plan is not None else None
    if schema is not None and written is not None and (written.has("each") or written.has("until")):
        schema = {"type": "array", "items": schema}
    return shape_of(step.value, schema, known=known)


def _failures(engine: Engine, run: Run) -> Iterator[dict[str, Any]]:
    quoting = reading(run.plan) if run.plan is not None else frozenset()
    known = {step.id for step in run.plan.every_step} if run.plan is not None else set()
    show = engine.policies.show_tool_text
    for path, failure in run.failures:
        step = _ID.findall(path)[-1]
        joined = step in quoting or step not in known
        yield {"step": path, **_failure(failure, show=show, joined=joined)}


def _failure(failure: Failure, *, show: bool, joined: bool) -> dict[str, Any]:
    return for_model(failure, show_tool_text=show, joined=joined)


def _asked(asked: DecisionAsked) -> dict[str, Any]:
    """A question to a person: what it shows may be what a tool gave, so that is left to `foreplan approvals`."""
    return {
        "id": asked.id,
        "about": asked.about,
        "step": path_text(asked.path),
        "tool": str(asked.question.get("tool", "")),
        "options": list(asked.options),
    }


def _part(value: Any, path: str) -> Any:
    try:
        return read_part(value, path)
    except (ExpressionError, EvaluationError):
        raise BadInput(
            "that is no part of the result: write an expression over `result`, such as result.rows[10:20]; "
            "`shape` says what there is"
        ) from None
