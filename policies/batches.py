"""What bounds a batch as a whole, beside the policies that bound each of its rows."""

from __future__ import annotations

from pydantic import Field

from .frozen import Frozen
from .policies import Breaker, Budget, Policies

__all__ = ["BatchRules", "row_policies", "too_many_failed"]


class BatchRules(Frozen):
    """The rules of a batch: how many rows go on at a time, when it stops, when it asks.

    `stop_after` so many failures, or when at least `stop_rate` of the rows failed (0.1: one in ten) and `stop_seen` have
    ended; without either every row has its turn. `canary` rows run first, and a person is asked before the others. `undo`: a
    row that fails takes back what its steps say how to undo. `breaker`: a tool that fails again and again is left alone,
    and rows wait for it instead of failing. `groups`: rows that failed alike are one group, and of so many groups the planner is
    asked, of the largest first. `patience`: seconds that a row waits for a service that asks for rest. `budget`
    holds for all rows together, besides the one of the policies, which holds for each.
    """

    at_once: int = Field(default=64, ge=1, le=10_000)
    stop_after: int | None = Field(default=None, ge=1)
    stop_rate: float | None = Field(default=None, gt=0, le=1)
    stop_seen: int = Field(default=20, ge=1)
    canary: int = Field(default=0, ge=0)
    undo: bool = False
    breaker: Breaker | None = Breaker(hold=True)
    groups: int = Field(default=20, ge=0)
    patience: float = Field(default=3600.0, ge=0)
    budget: Budget = Budget()


def row_policies(policies: Policies, rules: BatchRules) -> Policies:
    """The policies of each row: those of the batch, with the patience that a row has, and a breaker that holds rows."""
    retry = policies.retry.model_copy(update={"patience": max(policies.retry.patience, rules.patience)})
    breaker = policies.limits.breaker or rules.breaker
    if breaker is not None and rules.breaker is not None:
        breaker = breaker.model_copy(update={"hold": rules.breaker.hold})
    limits = policies.limits.model_copy(update={"breaker": breaker})
    return policies.model_copy(update={"retry": retry, "limits": limits})


def too_many_failed(rules: BatchRules, failed: int, seen: int) -> bool:
    """Whether a batch of which so many of the rows that ended have failed is to stop."""
    if rules.stop_after is not None and failed >= rules.stop_after:
        return True
    return rules.stop_rate is not None and seen >= rules.stop_seen and failed >= rules.stop_rate * seen
