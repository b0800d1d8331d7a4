"""What can be computed before anything runs: values that depend on nothing but literals, and inputs where they are given.

One tank of fuel serves a whole plan, and keeping a value costs what it would be written out, so that sixty steps each of
which doubles the one before end the tank and not the memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from ..policies.expressions import EvaluationError, Fuel
from .plan import Step
from .study import Block, Study

__all__ = ["TANK", "Known", "Trouble"]

Json: TypeAlias = Any

TANK = 2_000_000
"""Units of fuel for one plan: about a second at worst, and at most 8 MB of text."""


class Trouble(NamedTuple):
    """A value step (or a group's output) that certainly fails (`error`), or the one at which the tank was empty (no error)."""

    id: str
    error: EvaluationError | None


class Known:
    """The values of a plan that are known: `scope` by name, `troubles` in the order of the plan."""

    def __init__(self, study: Study, inputs: Mapping[str, Json] | None = None) -> None:
        self.study = study
        self.fuel = Fuel(TANK)
        self.scope: dict[str, Json] = {} if inputs is None else {"inputs": inputs}
        self.troubles: list[Trouble] = []
        self._settle_block(study.root)

    def _settle_block(self, block: Block) -> None:
        """Settle the values of a block, each after what it needs; of groups those that run exactly once."""
        for id in block.graph.order:
            site = block.by_id[id]
            step = site.step
            if (
                step.tool is not None
                or step.has("each")
                or step.has("when")
                or self.study.by_id[id] is not site
            ):
                continue
            if site.inner is not None:
                self._settle_block(site.inner)
            self._settle(step, "value" if site.inner is None else "output")

    def _settle(self, step: Step, field: str) -> None:
        try:
            found = self._evaluated(step, field)
        except EvaluationError as error:
            if error.code != "too_much_work":
                self.troubles.append(Trouble(step.id, error))
            elif self.fuel.left:
                self.fuel.left = 0
                self.troubles.append(Trouble(step.id, None))
            return
        if found is not None:
            self.scope[step.id] = found[0]

    def value(self, step: Step, field: str) -> tuple[Json] | None:
        """The value of a template that needs nothing unknown, in a tuple; None where there is none."""
        try:
            return self._evaluated(step, field)
        except EvaluationError:
            return None

    def _evaluated(self, step: Step, field: str) -> tuple[Json] | None:
        part = self.study.part(step, field)
        if part is None or not part.names <= self.scope.keys():
            return None
        template = self.study.template(step, field)
        if template is None:
            return None
        value = template.evaluate(self.scope, self.fuel)
        self.fuel.take(_weight(value, self.fuel.left))
        return (value,)


def _weight(value: Json, most: int) -> int:
    """What a value weighs, written out, in units of fuel; counting ends beyond `most`."""
    weight, waiting = 0, [value]
    while waiting and weight <= most:
        part = waiting.pop()
        weight += 1
        if type(part) is str:
            weight += len(part) >> 2
        elif type(part) is list:
            waiting += part
        elif type(part) is dict:
            waiting += part.values()
            weight += sum(len(key) for key in part) >> 2
    return weight
