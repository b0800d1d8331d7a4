"""Everything that bounds a run, in one frozen record whose digest an approval binds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from .canonical import digest
from .classification import Rule, name_of
from .failures import Kind
from .frozen import Frozen
from .permissions import Level, Roles
from .retry import Retry

__all__ = ["Breaker", "Budget", "Limits", "Policies", "Rate", "Rates"]

_PERIODS = {"s": 1.0, "min": 60.0, "h": 3600.0, "day": 86400.0}
_RATE = re.compile(r"\s*(\d+)\s*/\s*(?:(\d+)\s*)?(s|min|h|day)\s*")


class Budget(Frozen):
    """What one run may use up, re-plans and sub-plans included. None means no bound."""

    tool_calls: int | None = Field(default=None, ge=0)
    tools: dict[str, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)
    """Calls by tool name; a name that no tool has is refused when the engine is made."""
    model_calls: int | None = Field(default=None, ge=0)
    tokens: int | None = Field(default=None, ge=0)
    """Tokens that models read and wrote; overshot at most by what was under way."""
    cost: float | None = Field(default=None, ge=0)
    """In the unit in which tools and models state their cost; overshot at most by what was under way."""
    seconds: float | None = Field(default=None, gt=0)
    """Wall time, without the time in which the run only waits for people; nothing begins after it."""


class Rate(Frozen):
    """At most `calls` begin within any `seconds`. Also written as text: "10/s", "100/min", "5/10s"."""

    calls: int = Field(ge=1)
    seconds: float = Field(gt=0)

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, said: Any) -> Any:
        if not isinstance(said, str):
            return said
        match = _RATE.fullmatch(said)
        if match is None:
            raise ValueError(f"{said!r} is no rate; write it like '10/s', '100/min', '5/10s', '1000/h'")
        return {"calls": int(match[1]), "seconds": int(match[2] or 1) * _PERIODS[match[3]]}

    @property
    def text(self) -> str:
        """As it is written: `10/s`, `5/10s`."""
        for unit, seconds in reversed(_PERIODS.items()):
            if self.seconds >= seconds and self.seconds % seconds == 0:
                times = int(self.seconds // seconds)
                return f"{self.calls}/{times if times > 1 else ''}{unit}"
        return f"{self.calls} in {self.seconds:g} s"


class Rates(Frozen):
    """How fast calls may begin: by tool name, by host, and for whoever the runs act for; questions to models by model."""

    tool: dict[str, Rate] = Field(default_factory=dict)
    host: dict[str, Rate] = Field(default_factory=dict)
    principal: Rate | None = None
    model: dict[str, Rate] = Field(default_factory=dict)


class Breaker(Frozen):
    """After `failures` of one kind in a row a tool is left alone for `seconds`; then one call tries whether it is back.

    Calls that come meanwhile are refused; with `hold` they wait, and those that may be made again and failed wait with them:
    as long as `Retry.patience` lasts.
    """

    failures: int = Field(default=5, ge=1)
    seconds: float = Field(default=30.0, gt=0)
    kinds: tuple[Kind, ...] = (Kind.NETWORK, Kind.TIMEOUT)
    hold: bool = False


class Limits(Frozen):
    """How much may be under way at once, how fast, and how large one result may be (bytes of JSON).

    `run` and `tool` hold for one run; `host`, `model`, `rates` and the breaker for all runs of an engine together.
    """

    run: int = Field(default=64, ge=1)
    tool: dict[str, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    """Calls at once by tool name; a name that no tool has is refused when the engine is made."""
    host: dict[str, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    """Calls at once by host, as tools name it."""
    model: dict[str, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    """Questions at once by the name of the model, wherever it is asked."""
    rates: Rates = Rates()
    breaker: Breaker | None = None
    result_bytes: int = Field(default=16 * 1024 * 1024, ge=1)
    preview_bytes: int = Field(default=2000, ge=256)
    """Bytes of JSON of one result that a planner may be shown; of a larger one it sees what it begins with."""


class Policies(Frozen):
    """The rules of a run. An unknown option is an error, so that a misspelt one never means "no rule"."""

    approve: Literal["never", "acts", "always"] = "acts"
    retry: Retry = Retry()
    max_replans: int = Field(default=2, ge=0)
    max_repairs: int = Field(default=2, ge=0)
    """How often an invalid plan or patch goes back to the planner with the findings."""
    planner_timeout: float | None = Field(default=120.0, gt=0)
    """Seconds for one answer of the planner."""
    tools_shown: int | None = Field(default=40, ge=1)
    """How many tools a model is shown for one goal, chosen by what fits it; fewer than 20 are all shown. None: all."""
    tool_timeout: float | None = Field(default=60.0, gt=0)
    """Seconds for one attempt of a tool that states no timeout of its own; None: no bound."""
    hook_timeout: float = Field(default=10.0, gt=0)
    """Seconds for `authorize` and for resolving a secret; no answer in time denies the call."""
    roles: Roles = Roles()
    """What each role may do, in addition to what a principal holds itself."""
    max_level: Level | None = None
    """Tools above this level are refused."""
    approve_from: Level | None = None
    """A plan with a tool of this level or above needs an approval, whatever `approve` says."""
    budget: Budget = Budget()
    limits: Limits = Limits()
    fallback: bool = False
    """Whether a model may go on by itself where a plan does not get on; an approved plan must allow it too."""
    start_early: bool = False
    """Whether calls that only read may begin while the plan still arrives (`Engine.plan_and_run`)."""
    undo: bool = True
    """Whether a unit that fails (the plan, an item of a group) takes back what its steps say how to undo."""
    show_tool_text: bool = False
    """Whether the planner may see text that a tool wrote (messages of failures, previews of results)."""
    personal: dict[str, tuple[Annotated[str, Field(pattern="^/")], ...]] = Field(default_factory=dict)
    """What a journal keeps beside the record, deletable: by tool `/args/…` and `/result/…`, by `inputs` pointers into them;
    `*` stands for every key or index."""
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
