"""A fork: a new run that begins where another run stood before one of its steps, with the same plan or another.

    step of the new plan                                     in the fork
    settled in the other run, unchanged, not after `step`    taken over: ValueSettled with the recorded result, no call
    the named step, what depends on it, what is new          runs
    a call that acts, and was made there                     is not made again unless a person says so

All that is taken over stands in the opening of the new run, so it needs nothing of the other any more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from typing import Any

from ...planner.plan import Plan, Step
from ...policies.errors import BadInput
from ...policies.text import did_you_mean
from ...registry.registry import Registry
from ...registry.tools import Tool
from ..events import Outcome
from ..journal.personal import forgotten_in
from ..mind.asking import FORK
from ..mind.program import Block, Code, compile_plan
from ..mind.state import Node, State

__all__ = ["fork_id", "forked", "forked_of", "plan_of", "taken_over"]

_SIGN = "~"
"""What stands between the id of a run and what makes the id of its fork."""


def fork_id(run: str, name: str) -> str:
    """The id of a fork: it says of which run it is one."""
    return f"{run}{_SIGN}{name}"


def forked_of(run: str, known: Collection[str]) -> str:
    """The run, of those that are known, from which this one was forked; "" if from none."""
    origin, _, _ = run.rpartition(_SIGN)
    return origin if origin in known else ""


def plan_of(plan: Plan, gone: Collection[str]) -> Plan:
    """The plan of a run as it stands, patches included, without the steps that others replaced (`gone`)."""
    if not gone:
        return plan
    document = plan.to_json()
    document["steps"] = [
        {name: value for name, value in step.items() if name != "replaces"}
        for step in document["steps"]
        if step["id"] not in gone
    ]
    return Plan.model_validate(document)


def forked(origin: State, plan: Plan, from_step: str, registry: Registry) -> dict[str, Any]:
    """What the opening of a fork says. Raises `BadInput` where there is no such step, or a result does not fit any more."""
    ids = [*plan.by_id, *(id_ for id_ in origin.nodes if id_ not in plan.by_id)]
    tops = [step.id for step in plan.steps]
    if from_step not in tops and from_step not in origin.nodes:
        guess = did_you_mean(from_step, ids) or f"; there are {', '.join(tops[:10])}"
        raise BadInput(f"run {origin.run!r} has no step {from_step!r} to fork from{guess}")
    taken = dict(taken_over(origin, plan, from_step, registry))
    if origin.policies.personal and forgotten_in([origin.inputs, taken]):
        raise BadInput(
            f"run {origin.run!r} cannot be forked at {from_step!r}: personal values that the fork would go on with were "
            f"deleted; run the plan anew with inputs of its own"
        )
    acted = [
        {
            "tool": tool,
            "args": args,
            "digest": digest,
            "path": list(path if path[0] in taken else (FORK, origin.run, *path)),
        }
        for (tool, digest), made in origin.acted.items()
        for path, args in made.items()
    ]
    return {"run": origin.run, "seq": origin.seq, "step": from_step, "taken": taken, "acted": acted}


def taken_over(
    origin: State, plan: Plan, from_step: str, registry: Registry
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The results that the fork takes over, by step, in the order of dependencies."""
    block: Block = compile_plan(plan, {tool.name: tool for tool in registry})
    waiting = {id_: len(code.needs) for id_, code in block.codes.items()}
    ready = deque(id_ for id_, needs in waiting.items() if not needs)
    while ready:
        id_ = ready.popleft()
        node, code = origin.nodes.get(id_), block.codes[id_]
        if id_ == from_step or node is None or not _holds(origin, node, code):
            continue
        _fits(origin, node, code)
        yield id_, _result(node, code)
        for dependant in block.dependants[id_]:
            waiting[dependant] -= 1
            if not waiting[dependant]:
                ready.append(dependant)


def _holds(origin: State, node: Node, code: Code) -> bool:
    """Whether the step is settled so that others could go on, and says what it said."""
    settled = node.outcome is not None and node.passes and node.code.id not in origin.superseded
    return settled and _said(node.code.step) == _said(code.step)


def _said(step: Step) -> dict[str, Any]:
    document = step.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return {name: value for name, value in document.items() if name != "replaces"}


def _fits(origin: State, node: Node, code: Code) -> None:
    """Raises `BadInput` where a result is none by the contract that its tool has now."""
    if code.tool is None or node.outcome is not Outcome.OK:
        return
    values = (
        [v for v in node.value if v is not None] if code.each is not None or code.serial else [node.value]
    )
    wrong = next((said for value in values for said in _problems(code.tool, value)), "")
    if wrong:
        raise BadInput(
            f"the result of {code.id!r} in run {origin.run!r} is none by what {code.tool.name!r} declares now "
            f"({wrong}); fork from {code.id!r}, or from a step before it"
        )


def _problems(tool: Tool, value: Any) -> Iterator[str]:
    problems = [] if tool.output is None or tool.output.accepts(value) else tool.output.problems(value)
    for problem in problems[:1]:
        yield f"{problem.pointer or 'the whole'}: {problem.message}"


def _result(node: Node, code: Code) -> dict[str, Any]:
    outcome, failure = node.outcome, node.failure
    assert outcome is not None
    taken: dict[str, Any] = {"outcome": outcome.value, "value": node.value}
    if code.step.tool is not None:
        taken |= {"tool": code.step.tool, "many": code.each is not None or code.serial}
    if failure is not None:
        taken["failure"] = failure.to_json()
    return taken
