"""How well a model on this machine plans: each request planned, checked, run, and what the run did looked at.

    python tests/support/local_evaluation.py [FILE.gguf] [--json] [--only WORD]

    valid      the first answer is a plan that checks (or, rightly, that there can be none)
    right      and run, it does what was asked
    repaired   right, at the latest after the findings of the check were sent back once

A request is an `Asked`. Nobody who writes requests has seen the prompt, and nobody who writes the prompt looks at the
requests.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from foreplan import CannotPlan, Engine, ForeplanError, LocalModel, ModelPlanner, Policies, Registry, Run
from foreplan.planner.models.chat import ChatModel, ask_model
from foreplan.planner.models.messages import AIMessage, Message

__all__ = ["LONGEST", "Asked", "Judged", "evaluate", "figures", "requests"]


LONGEST = 400
"""Tokens of an answer: four times what most take, so that one that never ends costs a minute and not five."""


class Asked(NamedTuple):
    """A request: its tool set by name, the sentence, the JSON Schema of the inputs and their values.

    `tools()` makes tools over a world of its own; `right(run)` says whether what the run did is what was asked. Where no
    tools can do it (`possible` is false), right is to say so, or to change nothing.
    """

    set: str
    request: str
    tools: Callable[[], tuple[Registry, Callable[[Run], bool]]]
    schema: Mapping[str, Any] | None
    inputs: Mapping[str, Any]
    possible: bool = True


class Judged(NamedTuple):
    """What came of a request: `answers` were needed for a plan that checks, 0 where there is none."""

    set: str
    request: str
    answers: int
    right: bool
    seconds: float
    said: str
    """The last answer, or why there is no plan."""


class _Counted:
    """The model, with what it answered to one request."""

    real = True

    def __init__(self, model: ChatModel) -> None:
        self.model = model
        self.answers: list[AIMessage] = []

    async def agenerate(self, messages: Sequence[Message], **options: Any) -> AIMessage:
        self.answers.append(await ask_model(self.model, messages, **options))
        return self.answers[-1]


def requests() -> Sequence[Asked]:
    """Those that stand in `local_requests.py`. Raises `ImportError` where there are none."""
    found: Sequence[Asked] = importlib.import_module("support.local_requests").REQUESTS
    return found


def evaluate(
    model: ChatModel, asked: Iterable[Asked], *, told: Callable[[Judged], None] = print
) -> list[Judged]:
    """Every request in turn; `told` hears each as it is judged."""
    judged = []
    for one in asked:
        judged.append(_judge(model, one))
        told(judged[-1])
    return judged


def _judge(model: ChatModel, asked: Asked) -> Judged:
    registry, right = asked.tools()
    counted = _Counted(model)
    policies = Policies(approve="never", max_repairs=1, max_replans=0, planner_timeout=None)
    engine = Engine(registry, ModelPlanner(counted, form="python"), policies=policies)
    begun = time.monotonic()
    try:
        plan = engine.plan_blocking(asked.request, inputs=asked.schema)
    except ForeplanError as error:
        said = counted.answers[-1].content if counted.answers else ""
        declined = isinstance(error, CannotPlan) and not asked.possible
        needed = len(counted.answers) if declined else 0
        return Judged(asked.set, asked.request, needed, declined, time.monotonic() - begun, f"{error} {said}")
    took = time.monotonic() - begun
    run = engine.run_blocking(plan, inputs=asked.inputs)
    answers = len(counted.answers)
    return Judged(asked.set, asked.request, answers, right(run), took, counted.answers[-1].content)


def figures(judged: Sequence[Judged]) -> dict[str, Any]:
    """The counts, over all and by tool set, and how long a plan took."""

    def counts(some: Sequence[Judged]) -> dict[str, int]:
        return {
            "requests": len(some),
            "valid": sum(one.answers == 1 for one in some),
            "right": sum(one.answers == 1 and one.right for one in some),
            "repaired": sum(one.right for one in some),
        }

    sets = dict.fromkeys(one.set for one in judged)
    times = sorted(one.seconds for one in judged)
    return {
        "all": counts(judged),
        **{name: counts([one for one in judged if one.set == name]) for name in sets},
        "seconds": round(times[len(times) // 2], 1),
    }


def main(words: list[str]) -> None:
    from support.local_models import LARGE, fetched

    paths = [word for word in words if word.endswith(".gguf")]
    only = words[words.index("--only") + 1] if "--only" in words else ""
    asked = [one for one in requests() if only in f"{one.set} {one.request}"]
    with LocalModel(Path(paths[0]) if paths else fetched(LARGE), max_completion_tokens=LONGEST) as model:
        judged = evaluate(model, asked, told=lambda one: print(json.dumps(one._asdict()), flush=True))
    print(json.dumps(figures(judged), indent=2))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    main(sys.argv[1:])
