"""Everything that bounds a run, in one frozen record whose digest an approval binds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from .canonical import digest
from .classification import Rule, name_of
from .retry import Retry

__all__ = ["Budget", "Limits", "Policies"]


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Budget(Frozen):
    """What one run may use up, re-plans included. None means no bound."""

    tool_calls: int | None = Field(default=None, ge=0)
    model_calls: int | None = Field(default=None, ge=0)


class Limits(Frozen):
    """How much may be under way at once in one run, and how large one result may be (bytes of JSON)."""

    run: int = Field(default=64, ge=1)
    tool: dict[str, int] = Field(default_factory=dict)
    """Calls at once by tool name; a name that no tool has is refused when the engine is made."""
    result_bytes: int = Field(default=16 * 1024 * 1024, ge=1)


class Policies(Frozen):
    """The rules of a run. An unknown option is an error, so that a misspelt one never means "no rule"."""

    approve: Literal["never", "acts", "always"] = "acts"
    retry: Retry = Retry()
    max_replans: int = Field(default=2, ge=0)
    max_repairs: int = Field(default=2, ge=0)
    """How often an invalid plan or patch goes back to the planner with the findings."""
    planner_timeout: float | None = Field(default=120.0, gt=0)
    """Seconds for one answer of the planner."""
    tool_timeout: float | None = Field(default=60.0, gt=0)
    """Seconds for one attempt of a tool that states no timeout of its own; None: no bound."""
    budget: Budget = Budget()
    limits: Limits = Limits()
    undo: bool = True
    """Whether a unit that fails (the plan, an item of a group) takes back what its steps say how to undo."""
    show_tool_text: bool = False
    """Whether the planner may see text that a tool wrote (messages of failures, previews of results)."""
    failures: dict[str, Rule] = Field(default_factory=dict)
    """How exceptions of your own are classified: `{MyError: Rule("business", "my_code", "no")}`."""

    @field_validator("failures", mode="before")
    @classmethod
    def _by_name(cls, rules: Any) -> Any:
        if not isinstance(rules, Mapping):
            return rules
        return {name_of(k) if isinstance(k, type) else k: v for k, v in rules.items()}

    @property
    def digest(self) -> str:
        """`sha256:…` of the rules."""
        return digest(self.model_dump(mode="json"))
