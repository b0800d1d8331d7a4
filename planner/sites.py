"""Where things stand in a plan: every step with its templates, every expression with its pointer, groups as blocks.

    Block (the plan)
      Site payments    parts: args -> spots
      Site files       parts: each, output -> spots        a group: it holds a block of its own
        Block
          Site got
          Site more

A step sees the steps of its block and of the blocks around it; of a group, outside sees only the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from ..policies.expressions import Expression, ExpressionError, compile_template, parse
from .findings import CODES, Finding, pointer_to
from .graph import Graph
from .plan import Step

__all__ = ["Block", "Part", "Reader", "Site", "Spot", "finding"]

Json: TypeAlias = Any

_FIELDS = ("each", "when", "args", "value", "output", "until", "next")
"""The templates of a step that are fields of their own; the arguments of `undo` are one more."""
_NONE: frozenset[str] = frozenset()


class Spot(NamedTuple):
    """One expression: the pointer to its text, and its place inside the template."""

    pointer: str
    path: tuple[str | int, ...]
    expression: Expression


class Part(NamedTuple):
    """One template of a step (or the output), with its expressions by their place."""

    field: str
    pointer: str
    template: Json
    spots: Mapping[tuple[str | int, ...], Spot]
    sound: bool
    """Whether every expression in it could be read."""
    names: frozenset[str]


class Block:
    """Steps that see each other: those of the plan (`site` None) or of one group; `graph` says who waits for whom."""

    __slots__ = ("by_id", "graph", "site", "sites")

    def __init__(self, site: Site | None) -> None:
        self.site = site
        self.sites: list[Site] = []
        self.by_id: dict[str, Site] = {}
        """The first of each id."""
        self.graph = Graph({})

    @property
    def around(self) -> Block | None:
        """The block in which the group stands."""
        return self.site.block if self.site is not None else None

    def outward(self) -> Iterator[Block]:
        """This block and all around it, to the plan."""
        block: Block | None = self
        while block is not None:
            yield block
            block = block.around


class Site:
    """One step where it stands."""

    __slots__ = ("block", "inner", "parts", "pointer", "step")

    def __init__(self, step: Step, pointer: str, block: Block) -> None:
        self.step = step
        self.pointer = pointer
        self.block = block
        self.parts: dict[str, Part] = {}
        self.inner: Block | None = None
        """The steps of a group."""

    @property
    def id(self) -> str:
        return self.step.id

    @property
    def groups(self) -> Iterator[Site]:
        """The groups around it, the nearest first."""
        return (block.site for block in self.block.outward() if block.site is not None)

    def names(self) -> set[str]:
        """Every name its own templates leave free."""
        return {name for part in self.parts.values() for name in part.names}


class Reader:
    """Reads the templates of a plan; what is wrong with them is noted in `findings`."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.sites: list[Site] = []
        """Every step in the order of the document, a group before its own."""

    def block(self, steps: Sequence[Step], pointer: str = "/steps", site: Site | None = None) -> Block:
        """The block of these steps, and those inside."""
        block = Block(site)
        for i, step in enumerate(steps):
            here = Site(step, f"{pointer}/{i}", block)
            block.sites.append(here)
            block.by_id.setdefault(step.id, here)
            self.sites.append(here)
            here.parts = self._parts(here)
            if step.steps is not None:
                here.inner = self.block(step.steps, f"{here.pointer}/steps", here)
        return block

    def part(self, field: str, pointer: str, template: Json) -> Part:
        """One template with its expressions."""
        spots: dict[tuple[str | int, ...], Spot] = {}
        before = len(self.findings)
        for path, holder in _holders(template):
            spot = self._spot(pointer_to(*path, within=pointer), path, holder)
            if spot is not None:
                spots[path] = spot
        names = _NONE.union(*[spot.expression.names for spot in spots.values()])
        return Part(field, pointer, template, spots, len(self.findings) == before, names)

    def _parts(self, site: Site) -> dict[str, Part]:
        step, said = site.step, site.step.model_fields_set
        fields = [f for f in _FIELDS if f in said and (f != "next" or step.next is not None)]
        parts = {f: self.part(f, f"{site.pointer}/{f}", getattr(step, f)) for f in fields}
        if step.undo is not None:
            parts["undo"] = self.part("undo", f"{site.pointer}/undo/args", step.undo.args)
        return parts

    def _spot(self, pointer: str, path: tuple[str | int, ...], holder: dict[str, Json]) -> Spot | None:
        """The expression in `{$: text}`; None for a literal, and for what is noted as wrong."""
        text = holder.get("$")
        if len(holder) == 1 and isinstance(text, str):
            try:
                return Spot(f"{pointer}/$", path, parse(text))
            except ExpressionError as error:
                where, what, better = f"{pointer}/$", error.message, error.suggestion
                self.findings.append(finding("bad_expression", where, what, better, offset=error.offset))
            return None
        try:
            compile_template(holder)
        except ExpressionError as error:
            where = pointer + error.pointer
            self.findings.append(finding("bad_template", where, error.message, error.suggestion))
        return None


def finding(
    code: str, pointer: str, message: str, suggestion: str = "", *, offset: int | None = None
) -> Finding:
    """A finding whose severity is the one its code has."""
    return Finding(code, CODES[code].severity, pointer, message, suggestion, offset=offset)


def _holders(template: Json) -> Iterator[tuple[tuple[str | int, ...], dict[str, Json]]]:
    """Every object with the key `$` or `$literal`, and its place; nothing inside them is looked at."""
    waiting: list[tuple[tuple[str | int, ...], Json]] = [((), template)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict):
            if "$" in value or "$literal" in value:
                yield path, value
            else:
                waiting += [((*path, key), value[key]) for key in reversed(value)]
        elif isinstance(value, list):
            waiting += [((*path, i), value[i]) for i in range(len(value) - 1, -1, -1)]
