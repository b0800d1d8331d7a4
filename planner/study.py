"""A plan read once for everything that judges it: its expressions, who waits for whom, and the type of every result.

    templates -> spots (each expression, with its pointer) -> free names -> graph -> types, each after what it needs

What is wrong with expressions, names and types is noted on the way as findings; `checking` adds the rules, `reviewing`
the counts. A plan with errors is studied as far as it goes: what is not known is of any type.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from ..policies.expressions import Expression, ExpressionError, Template, compile_template, parse
from ..policies.permissions import ANYONE, Principal
from ..registry.registry import Registry
from ..registry.schema import Schema, compile_schema
from ..registry.tools import Tool
from .findings import CODES, Finding, pointer_to, quoted
from .graph import Graph
from .inference import Effort, infer
from .plan import Plan, Step
from .types import ANY, INTEGER, NULL, STRING, Type, array_of, join, object_of, type_of_schema, type_of_value

__all__ = ["FIELDS", "Part", "Signature", "Spot", "Study", "finding", "optional"]

Json: TypeAlias = Any

FIELDS = ("each", "when", "args", "value")
"""The templates of a step, in the order in which they are evaluated."""

_RUN = object_of({"id": STRING, "started_at": STRING})
_NO_INPUTS = object_of({})
_PLAIN = (str, int, float, bool, type(None))


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

    @property
    def names(self) -> set[str]:
        return {name for spot in self.spots.values() for name in spot.expression.names}


class Signature(NamedTuple):
    """What a check asks of one tool: the types of what it takes and gives, and its schema without what it requires."""

    takes: Type
    gives: Type
    literals: Schema


def finding(
    code: str, pointer: str, message: str, suggestion: str = "", *, offset: int | None = None
) -> Finding:
    """A finding whose severity is the one its code has."""
    return Finding(code, CODES[code].severity, pointer, message, suggestion, offset=offset)


def optional(document: Json) -> Schema:
    """The schema of an object, closed, in which nothing is required at the top: for a part of its properties."""
    bare = {k: v for k, v in document.items() if k != "required"} if isinstance(document, dict) else document
    return compile_schema(bare, closed=True)


class Study:
    """One plan, looked at with these tools on behalf of this principal."""

    def __init__(self, plan: Plan, registry: Registry, principal: Principal | None = None) -> None:
        self.plan = plan
        self.registry = registry
        self.principal = principal or ANYONE
        self.effort = Effort()
        self.findings: list[Finding] = []
        self.signatures: dict[str, Signature] = {}
        self.steps = plan.by_id
        self.items = {step.item_name for step in plan.steps if step.has("each")}
        self.parts = [self._step_parts(i, step) for i, step in enumerate(plan.steps)]
        self.parts_by_id = {
            step.id: parts for step, parts in zip(plan.steps[::-1], self.parts[::-1], strict=True)
        }
        self.output = (
            self._part("output", "/output", plan.output) if "output" in plan.model_fields_set else None
        )
        self.inputs_type = _NO_INPUTS if plan.inputs is None else type_of_schema(plan.inputs)
        self.needs = self._all_needs()
        self.graph = Graph(self.needs)
        self.types: dict[str, Type] = {}
        self.spot_types: dict[str, Type] = {}
        self.each_types: dict[str, Type] = {}
        self._infer_all()
        self.output_type = self._infer_part(self.output, {}) if self.output is not None else NULL

    def tool(self, step: Step) -> Tool | None:
        """The tool a step names, if there is one."""
        return self.registry.get(step.tool) if step.tool is not None else None

    def signature(self, tool: Tool) -> Signature:
        """The types of a tool, read once."""
        if tool.name not in self.signatures:
            gives = ANY if tool.output is None else type_of_schema(tool.output.normal.document)
            schema = optional(tool.input.document)
            self.signatures[tool.name] = Signature(type_of_schema(tool.input.normal.document), gives, schema)
        return self.signatures[tool.name]

    def part(self, step: Step, field: str) -> Part | None:
        """A template of a step by its id, if the step has it."""
        return self.parts_by_id.get(step.id, {}).get(field)

    def template(self, step: Step, field: str) -> Template | None:
        """A template of a step, compiled; None where it has none or cannot be read."""
        part = self.part(step, field)
        return compile_template(part.template) if part is not None and part.sound else None

    def type_of(self, id: str) -> Type:
        """The type of the result of a step."""
        return self.types.get(id, ANY)

    def least_items(self, step: Step) -> int:
        """How many items `each` certainly has."""
        found = self.each_types.get(step.id, ANY)
        return found.least if found.kinds == {"array"} else 0

    def may_be_null(self, step: Step) -> bool:
        """Whether a step's result may be null because it was skipped."""
        asked_once = step.has("when") and not self.asks_per_item(step)
        return asked_once or (step.on_failure == "skip" and not step.has("each"))

    def asks_per_item(self, step: Step) -> bool:
        """Whether `when` names the item, and so is asked for each."""
        part = self.part(step, "when")
        return step.has("each") and part is not None and not part.names.isdisjoint({step.item_name, "index"})

    # ---- reading ---------------------------------------------------------------------------------------------------

    def _step_parts(self, index: int, step: Step) -> dict[str, Part]:
        fields = (f for f in FIELDS if step.has(f))
        return {f: self._part(f, f"/steps/{index}/{f}", getattr(step, f)) for f in fields}

    def _part(self, field: str, pointer: str, template: Json) -> Part:
        spots: dict[tuple[str | int, ...], Spot] = {}
        before = len(self.findings)
        for path, holder in _holders(template):
            spot = self._spot(pointer_to(*path, within=pointer), path, holder)
            if spot is not None:
                spots[path] = spot
        return Part(field, pointer, template, spots, len(self.findings) == before)

    def _spot(self, pointer: str, path: tuple[str | int, ...], holder: dict[str, Json]) -> Spot | None:
        """The expression in `{$: text}`; None for a literal, and for what is noted as wrong."""
        text = holder.get("$")
        if len(holder) == 1 and isinstance(text, str):
            try:
                return Spot(f"{pointer}/$", path, parse(text))
            except ExpressionError as error:
                self._note(
                    finding(
                        "bad_expression", f"{pointer}/$", error.message, error.suggestion, offset=error.offset
                    )
                )
            return None
        try:
            compile_template(holder)
        except ExpressionError as error:
            self._note(finding("bad_template", pointer + error.pointer, error.message, error.suggestion))
        return None

    def _note(self, found: Finding) -> None:
        self.findings.append(found)

    # ---- names -----------------------------------------------------------------------------------------------------

    def _all_needs(self) -> dict[str, list[str]]:
        needs: dict[str, list[str]] = {}
        for i, step in enumerate(self.plan.steps):
            wanted = [*self._after(i, step)]
            for part in self.parts[i].values():
                wanted += self._part_needs(part, step)
            needs.setdefault(step.id, []).extend(wanted)
        if self.output is not None:
            list(self._part_needs(self.output, None))  # for what is unknown; nothing waits for the output
        return needs

    def _after(self, index: int, step: Step) -> Iterator[str]:
        for n, id in enumerate(step.after):
            pointer = f"/steps/{index}/after/{n}"
            if id == step.id:
                self._note(finding("self_reference", pointer, f"the step {quoted(id)} waits for itself"))
            elif id not in self.steps:
                near = self.effort.nearest(id, self.steps)
                guess = f"; did you mean {quoted(near)}?" if near else ""
                self._note(finding("unknown_step", pointer, f"no step is called {quoted(id)}{guess}", near))
            else:
                yield id

    def _part_needs(self, part: Part, step: Step | None) -> Iterator[str]:
        local = _locals(part, step)
        for spot in part.spots.values():
            for name in spot.expression.names:
                if name in local:
                    continue
                if step is not None and name == step.id:
                    self._strange(
                        spot, name, "self_reference", f"the step {quoted(name)} needs its own result"
                    )
                elif name in self.steps:
                    yield name
                else:
                    self._unknown(spot, name, step)

    def _unknown(self, spot: Spot, name: str, step: Step | None) -> None:
        if name in ("item", "index") or name in self.items:
            where = "in `args`, `value` and `when` of a step with `each`"
            self._strange(spot, name, "item_outside_each", f"{quoted(name)} is known only {where}")
            return
        if name in self.inputs_type.fields:
            message = f"no step is called {quoted(name)}; the input is called 'inputs.{name}'"
            self._strange(spot, name, "unknown_step", message, f"inputs.{name}")
            return
        visible = [
            *self.steps,
            "inputs",
            "run",
            *([step.item_name, "index"] if step and step.has("each") else []),
        ]
        near = self.effort.nearest(name, visible)
        guess = f"; did you mean {quoted(near)}?" if near else ""
        self._strange(spot, name, "unknown_step", f"no step is called {quoted(name)}{guess}", near)

    def _strange(self, spot: Spot, name: str, code: str, message: str, instead: str = "") -> None:
        text, offset = spot.expression.text, _offset(spot.expression, name)
        fixed = text[:offset] + instead + text[offset + len(name) :] if instead else ""
        self._note(finding(code, spot.pointer, message, fixed, offset=offset))

    # ---- types -----------------------------------------------------------------------------------------------------

    def _infer_all(self) -> None:
        index = {step.id: i for i, step in reversed([*enumerate(self.plan.steps)])}
        for id in self.graph.order:
            step = self.plan.steps[index[id]]
            self.types[id] = self._infer_step(step, self.parts[index[id]])
        for i, step in enumerate(self.plan.steps):
            if index[step.id] != i:  # a second step of the same name: only what is wrong in it is of interest
                self._infer_step(step, self.parts[i])

    def _infer_step(self, step: Step, parts: Mapping[str, Part]) -> Type:
        local: dict[str, Type] = {}
        if "each" in parts:
            found = self._infer_part(parts["each"], {})
            self.each_types.setdefault(step.id, found)
            local = {step.item_name: found.item if found.has("array") else ANY, "index": INTEGER}
        for field in ("when", "args"):
            if field in parts:
                self._infer_spots(parts[field], local)
        result = self._infer_part(parts["value"], local) if "value" in parts else ANY
        if step.tool is not None:
            tool = self.tool(step)
            result = ANY if tool is None else self.signature(tool).gives
        return self._lifted(step, result)

    def _lifted(self, step: Step, result: Type) -> Type:
        if step.has("each"):
            null = step.on_failure == "skip" or self.asks_per_item(step)
            result = array_of(join(result, NULL) if null else result, least=self.least_items(step))
        return join(result, NULL) if self.may_be_null(step) else result

    def _infer_part(self, part: Part, local: Mapping[str, Type]) -> Type:
        self._infer_spots(part, local)
        return self._template_type(part, part.template, ())

    def _infer_spots(self, part: Part, local: Mapping[str, Type]) -> None:
        scope: dict[str, Type] = {"run": _RUN, "inputs": self.inputs_type}
        scope.update((name, self.types[name]) for name in part.names if name in self.types)
        scope.update(local)
        for spot in part.spots.values():
            self._infer_spot(spot, scope)

    def _infer_spot(self, spot: Spot, scope: Mapping[str, Type]) -> None:
        found, problems = infer(spot.expression.tree, spot.expression.text, scope, self.effort)
        self.spot_types[spot.pointer] = found
        for problem in problems:
            self._note(
                finding(
                    problem.code, spot.pointer, problem.message, problem.suggestion, offset=problem.offset
                )
            )

    def _template_type(self, part: Part, template: Json, path: tuple[str | int, ...]) -> Type:
        if path in part.spots:
            return self.spot_types[part.spots[path].pointer]
        if isinstance(template, list) and part.spots:
            items = [self._template_type(part, item, (*path, i)) for i, item in enumerate(template)]
            return array_of(self.effort.any_of(items), least=len(items))
        if isinstance(template, dict) and template.keys() == {"$literal"}:
            return type_of_value(template["$literal"])
        if isinstance(template, dict) and "$" in template:
            return ANY
        if isinstance(template, dict) and part.spots:
            return object_of({k: self._template_type(part, v, (*path, k)) for k, v in template.items()})
        return type_of_value(template)


def _locals(part: Part, step: Step | None) -> set[str]:
    known = {"inputs", "run"}
    if step is not None and step.has("each") and part.field != "each":
        known |= {step.item_name, "index"}
    return known


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


def _offset(expression: Expression, name: str) -> int:
    """Where a free name first stands."""
    places = (n.col_offset for n in ast.walk(expression.tree) if isinstance(n, ast.Name) and n.id == name)
    return min(places, default=0)
