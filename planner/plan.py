"""The plan document: frozen records, nothing extra, one canonical form and digest.

Where a field says *template*, it holds JSON in which an object with the only key `$` is an expression and
`{"$literal": x}` is `x` itself; every other text is a literal and is never scanned.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..policies.canonical import digest
from ..policies.errors import expect
from .findings import PlanUnreadable
from .unreadable import findings_of

__all__ = ["DEEPEST_GROUP", "OnFailure", "Patch", "Per", "Plan", "Record", "Step", "Undo", "expect_plan"]

OnFailure = Literal["stop", "skip"]
"""`stop`: dependants are blocked; `skip`: the result is null and dependants run."""


Per = Literal["batch", "row"]
"""Whether a step runs once for all rows of a batch or for each."""


DEEPEST_GROUP = 3
"""Groups inside groups inside groups; deeper ones are refused."""


class Record(BaseModel):
    """A record of the plan document. Made or read, it raises `PlanUnreadable` with a sentence for all that is wrong."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)

    def __init__(self, /, **said: Any) -> None:
        try:
            super().__init__(**said)
        except ValidationError as error:
            raise _unreadable(type(self), error) from None

    # A constructor of one's own would be called for the steps of a plan too, and pydantic would lose their places.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Self:
        """The record that this document is. Raises `PlanUnreadable`, which is a `ValueError` as pydantic's error is."""
        try:
            return super().model_validate(obj, **options)
        except ValidationError as error:
            raise _unreadable(cls, error) from None

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        """The record that this JSON text is; see `model_validate`."""
        try:
            return super().model_validate_json(json_data, **options)
        except ValidationError as error:
            raise _unreadable(cls, error) from None


def _unreadable(model: type[Record], error: ValidationError) -> PlanUnreadable:
    return PlanUnreadable(findings_of(error, model), f"the {model.__name__.lower()} cannot be read")


class Undo(Record):
    """The call that takes a step's effect back: like any other call, reviewed and approved with the plan."""

    tool: str
    """The tool that takes it back."""
    args: dict[str, Any] = Field(default_factory=dict)
    """Template; besides what the step sees, `result` is the step's own result."""


class Step(Record):
    """One step: a call of a tool, a pure value, or a group of steps.

    Exactly one of `tool`, `value` and `steps` is set; the check says so where a document breaks it.
    """

    id: str
    """The name under which other steps and the output speak of its result; unique in the whole plan, also inside groups."""
    tool: str | None = None
    """The tool that it calls."""
    args: dict[str, Any] = Field(default_factory=dict)
    """Template for each argument of the tool."""
    value: Any = None
    """Template of a `value` step (set means present in the document, also when it is null)."""
    steps: list[Step] | None = None
    """A group: with `each`, a chain per item without a barrier between items; outside sees only its `output`."""
    output: Any = None
    """Template of a group's result, evaluated inside it."""
    each: Any = None
    """Template of a list: one call per item, in parallel; the result is a list of the same length and order."""
    as_: str | None = Field(default=None, alias="as")
    """Name of the item inside `each`; `item` without it."""
    when: Any = None
    """Template of a boolean; where false the step is skipped and its result is null."""
    after: list[str] = Field(default_factory=list)
    """Steps to wait for without reading them."""
    on_failure: OnFailure = "stop"
    """`stop`: what waits for it is blocked; `skip`: its result is null, and the rest goes on."""
    until: Any = None
    """Template of a boolean over `result`: the call is repeated until it is true; the result is the list of results.
    With `each`: one item after the other, until one satisfies it."""
    next: dict[str, Any] | None = None
    """Templates over `result`: the arguments of the next call that differ from those of this one."""
    every: float | int | None = None
    """Seconds between two calls of an `until`."""
    max: int | None = None
    """The most calls an `until` makes; exhausted is a time-out."""
    undo: Undo | None = None
    """The call that takes this one back, made last first where the plan, or the group around it, fails."""
    per: Per | None = None
    """In a batch: once for all rows (`batch`), or for each (`row`). Without it a step that depends on the row runs for each,
    and one that does not and only reads runs once. In a single run it says nothing."""
    replaces: str | None = None
    """In a patched plan: the id of the step in whose place this one stands."""

    def has(self, field: str) -> bool:
        """Whether the document says this field, even when it says null."""
        return field in self.__pydantic_fields_set__

    @property
    def item_name(self) -> str:
        """The name of the item inside `each`."""
        return self.as_ or "item"

    @property
    def repeats(self) -> bool:
        """Whether this step makes its calls one after the other, until something holds."""
        return self.has("until")

    def to_json(self) -> dict[str, Any]:
        """The document of this step, with only the fields it says, in the order of the schema."""
        return self.model_dump(by_alias=True, exclude_unset=True)


class Plan(Record):
    """A whole plan. `inputs` is a JSON Schema; `output` a template evaluated when the steps are settled."""

    foreplan: Literal[1] = 1
    """The version of the document."""
    goal: str = ""
    """What it is for, in words; shown in reviews, and told to whoever mends the plan."""
    inputs: dict[str, Any] | None = None
    """JSON Schema of what the plan is run with; a `default` is filled in. Without it the plan takes nothing."""
    steps: list[Step]
    """The steps, in any order: what a step names, it waits for."""
    output: Any = None
    """Template of the result, evaluated when all steps are settled."""

    def to_json(self) -> dict[str, Any]:
        """The plan document as plain JSON, with only the fields it says; equal plans give equal documents."""
        document: dict[str, Any] = {"foreplan": self.foreplan}
        if self.goal:
            document["goal"] = self.goal
        if self.inputs is not None:
            document["inputs"] = self.inputs
        document["steps"] = self.model_dump(include={"steps"}, by_alias=True, exclude_unset=True)["steps"]
        if "output" in self.model_fields_set:
            document["output"] = self.output
        return document

    def __copy__(self) -> Plan:
        """Without what was computed: `model_copy(update=…)` is another plan, with another digest."""
        return self._fresh(super().__copy__())

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Plan:
        return self._fresh(super().__deepcopy__(memo))

    def _fresh(self, copied: Plan) -> Plan:
        for name in ("digest", "text", "every_step", "by_id"):
            copied.__dict__.pop(name, None)
        return copied

    @cached_property
    def digest(self) -> str:
        """`sha256:…` of the canonical document: two plans are the same plan if and only if these are equal."""
        return digest(self.to_json())

    @cached_property
    def text(self) -> str:
        """The document as JSON in one line, as journals hold it."""
        return json.dumps(self.to_json(), ensure_ascii=False, allow_nan=False, separators=(",", ":"))

    @cached_property
    def every_step(self) -> tuple[Step, ...]:
        """All steps, those inside groups too, each group before its own."""
        return tuple(_walk(self.steps))

    @cached_property
    def by_id(self) -> dict[str, Step]:
        """Steps by id (the first, where an id stands twice)."""
        found: dict[str, Step] = {}
        for step in self.steps:
            found.setdefault(step.id, step)
        return found


def _walk(steps: Iterable[Step]) -> Iterator[Step]:
    for step in steps:
        yield step
        yield from _walk(step.steps or ())


class Patch(Record):
    """A planner's answer to failures: drop unsettled steps, add new ones (each may say what it replaces)."""

    drop: list[str] = Field(default_factory=list)
    """The ids of steps that are not to be done any more; none that is settled."""
    add: list[Step] = Field(default_factory=list)
    """New steps; one with `replaces` stands in the place of another, and is meant where that one was named."""
    output: Any = None
    """In the place of the plan's, where it is said."""

    @property
    def every_step(self) -> Iterator[Step]:
        """All steps it adds, those inside groups too, each group before its own."""
        return _walk(self.add)

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {"drop": list(self.drop), "add": [step.to_json() for step in self.add]}
        if "output" in self.model_fields_set:
            document["output"] = self.output
        return document


def expect_plan(value: object) -> None:
    """Raises `BadInput` for what is no plan, and says what makes one of it."""
    hint = ""
    if isinstance(value, dict):
        hint = "Plan.model_validate(...) makes one of a document"
    elif isinstance(value, str | bytes):
        hint = "foreplan.planner.documents has load_plan(path) and read_plan(text)"
    expect(Plan, value, "a plan", hint)
