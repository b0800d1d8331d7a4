"""Who runs, and what they may: permissions are dotted or colon-separated words with wildcards by segment."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, RootModel

__all__ = ["ANYONE", "Level", "Principal", "Roles", "lacking", "permits"]


class Level(StrEnum):
    """How much harm a tool can do, in order; `a.above(b)` compares."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"

    def above(self, other: Level) -> bool:
        """Whether this level is higher than the other."""
        return _ORDER[self] > _ORDER[other]


_ORDER = {level: place for place, level in enumerate(Level)}


class Principal(BaseModel):
    """On whose behalf a run acts. Given by the host program, never by a plan, a model or a remote caller."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    roles: tuple[str, ...] = ()
    permissions: tuple[str, ...] = ()
    attributes: dict[str, Any] = Field(default_factory=dict)


class Roles(RootModel[dict[str, tuple[str, ...]]]):
    """What each role may do: `Roles({"agent": ["crm:*"]})`. A role that is not listed grants nothing."""

    model_config = ConfigDict(frozen=True)

    root: dict[str, tuple[str, ...]] = Field(default_factory=dict)

    def grant(self, principal: Principal) -> Principal:
        """The principal with what its roles permit among its permissions."""
        held = [*principal.permissions, *(p for role in principal.roles for p in self.root.get(role, ()))]
        if len(held) == len(principal.permissions):
            return principal
        return principal.model_copy(update={"permissions": tuple(dict.fromkeys(held))})


ANYONE = Principal(id="anyone")
"""The principal where none is given: it holds no permission, so a tool that needs one is refused."""


@lru_cache(maxsize=4096)
def permits(held: str, needed: str) -> bool:
    """Whether one held permission covers one needed: `crm:*` covers `crm:read`, not `crm` nor `crm:read:all`; `*` covers all."""
    if held == "*":
        return True
    have, need = re.split("[:.]", held), re.split("[:.]", needed)
    return len(have) == len(need) and all(h in ("*", n) for h, n in zip(have, need, strict=True))


def lacking(principal: Principal, needed: Iterable[str]) -> tuple[str, ...]:
    """The needed permissions that this principal does not hold, in the order given."""
    return tuple(n for n in needed if not any(permits(h, n) for h in principal.permissions))
