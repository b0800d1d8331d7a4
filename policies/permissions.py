"""Who runs, and what they may: permissions are dotted or colon-separated words with wildcards by segment.

    principal ── its permissions, and what `Roles` grant its roles ──> lacking(principal, tool.permissions)
    tool.level ── above `max_level`? ──────────────────────────────────> refused for everyone

Whoever hosts the engine names the principal; nothing that a plan, a model or a tool says can change it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field, RootModel, ValidationError

from .errors import BadInput
from .frozen import Frozen, refusal
from .text import did_you_mean, shorten

__all__ = ["ANYONE", "Level", "Principal", "Roles", "lacking", "may_not", "permits"]


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


def granted(word: str) -> str:
    """A permission as it can be held. Raises `ValueError` for a word that would grant nothing: `crm:**`, `crm:`, `cr*:read`."""
    parts = _segments(word)
    if all(part == "*" or (part.strip() and "*" not in part) for part in parts):
        return word
    shown = repr(shorten(word, 60))
    if not word.strip():
        raise ValueError(
            f"{shown} names no permission; a permission is a word such as 'crm:read', or 'crm:*'"
        )
    marks = [*re.findall("[:.]", word), ""]
    fixed = "".join(("*" if "*" in p or not p.strip() else p) + m for p, m in zip(parts, marks, strict=True))
    raise ValueError(
        f"{shown} grants nothing: `*` stands for one whole segment; did you mean {shorten(fixed, 60)!r}?"
    )


def _segments(word: str) -> list[str]:
    return re.split("[:.]", word)


_Held = Annotated[str, AfterValidator(granted)]


class Principal(Frozen):
    """On whose behalf a run acts. Given by the host program, never by a plan, a model or a remote caller."""

    id: str
    roles: tuple[str, ...] = ()
    permissions: tuple[_Held, ...] = ()
    attributes: dict[str, Any] = Field(default_factory=dict)


class Roles(RootModel[dict[str, tuple[_Held, ...]]]):
    """What each role may do: `Roles({"agent": ["crm:*"]})`. A role that is not listed grants nothing."""

    model_config = ConfigDict(frozen=True)

    root: dict[str, tuple[_Held, ...]] = Field(default_factory=dict)

    def __init__(self, roles: Mapping[str, Iterable[str]] | None = None, /) -> None:
        said: Any = roles or {}
        try:
            super().__init__(dict(said))
        except ValidationError as error:
            raise refusal(error, Roles) from None
        except (TypeError, ValueError):
            wanted = "Roles say what each role may do, like Roles({'agent': ['crm:*']})"
            raise BadInput(f"{wanted}, not {shorten(repr(roles), 60)}") from None

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    def grant(self, principal: Principal) -> Principal:
        """The principal with what its roles permit among its permissions."""
        held = [*principal.permissions, *(p for role in principal.roles for p in self.root.get(role, ()))]
        if len(held) == len(principal.permissions):
            return principal
        return principal.model_copy(update={"permissions": tuple(dict.fromkeys(held))})

    def unknown(self, principal: Principal) -> str:
        """The end of a refusal: which roles of this principal are none and grant nothing; "" where all are known."""
        strange = [role for role in principal.roles if role not in self.root]
        if not strange:
            return ""
        names = ", ".join(repr(shorten(role, 60)) for role in strange)
        guess = did_you_mean(strange[0], self.root) if len(strange) == 1 else ""
        return f" (no role is called {names}, so it grants nothing{guess})"


ANYONE = Principal(id="anyone")
"""The principal where none is given: it holds no permission, so a tool that needs one is refused."""


@lru_cache(maxsize=4096)
def permits(held: str, needed: str) -> bool:
    """Whether one held permission covers one needed: `crm:*` covers `crm:read`, not `crm` nor `crm:read:all`; `*` covers all."""
    if held == "*":
        return True
    have, need = _segments(held), _segments(needed)
    return len(have) == len(need) and all(h in ("*", n) for h, n in zip(have, need, strict=True))


def lacking(principal: Principal, needed: Iterable[str]) -> tuple[str, ...]:
    """The needed permissions that this principal does not hold, in the order given."""
    return tuple(n for n in needed if not any(permits(h, n) for h in principal.permissions))


def may_not(principal: Principal, needed: Iterable[str], roles: Roles) -> str:
    """Why this principal may not call what needs these permissions, as a phrase; "" where it may."""
    missing = lacking(principal, needed)
    return f"it lacks {', '.join(missing)}{roles.unknown(principal)}" if missing else ""
