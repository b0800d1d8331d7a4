"""A plan read once for everything that judges it: its expressions, who waits for whom, and the type of every result.

    templates -> spots (each expression, with its pointer) -> free names -> graphs -> types, each after what it needs

Each block of steps (the plan, and every group) has a graph of its own; a group waits for what the steps inside it name
outside. What is wrong with expressions, names and types is noted on the way as findings; `checking` adds the rules,
`reviewing` the counts. A plan with errors is studied as far as it goes: what is not known is of any type.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

from ..policies.effect import Effect
from ..policies.errors import SchemaRefused
from ..policies.expressions import Expression, Template, compile_template
from ..policies.permissions import ANYONE, Principal
from ..policies.policies import Policies
from ..registry.registry import Registry
from ..registry.schema import Schema, compile_schema
from ..registry.tools import Tool, result_schema
from .findings import Finding, pointer_to, quoted
from .graph import Graph
from .inference import Effort, infer
from .plan import Plan, Step
from .sites import Block, Part, Reader, Site, Spot, finding
from .types import ANY, INTEGER, NULL, STRING, Type, array_of, join, object_of, type_of_schema, type_of_value

__all__ = ["Block", "Part", "Signature", "Site", "Spot", "Study", "finding", "optional"]

Json: TypeAlias = Any

_RUN = object_of({"id": STRING, "started_at": STRING})
_NO_INPUTS = object_of({})
_OF_THE_RESULT = frozenset({"until", "next", "undo"})
"""The templates in which a step speaks of its own result."""
_ALL = ("each", "when", "args", "value", "output")
"""The others."""


class Signature(NamedTuple):
    """What a check asks of one tool: the types of what it takes and gives, and its schema without what it requires."""

    takes: Type
    gives: Type
    literals: Schema


_SIGNATURES: WeakKeyDictionary[Tool, Signature] = WeakKeyDictionary()


def optional(document: Json) -> Schema:
    """The schema of an object, closed, in which nothing is required at the top: for a part of its properties."""
    bare = {k: v for k, v in document.items() if k != "required"} if isinstance(document, dict) else document
    return compile_schema(bare, closed=True)


class Study:
    """One plan, looked at with these tools on behalf of this principal, by these rules.

    `sites` are all steps in the order of the document, `by_id` and `steps` the first of each id, `root` the block of
    the plan and `graph` the waiting in it, `blocks` the groups too.
    """

    def __init__(
        self,
        plan: Plan,
        registry: Registry,
        principal: Principal | None = None,
        policies: Policies | None = None,
    ) -> None:
        self.plan = plan
        self.policies = policies or Policies()
        self.registry = registry
        self.principal = principal or ANYONE
        self.effort = Effort()
        reader = Reader()
        self.findings: list[Finding] = reader.findings
        self.root = reader.block(plan.steps)
        self.output = (
            reader.part("output", "/output", plan.output) if "output" in plan.model_fields_set else None
        )
        self.sites = reader.sites
        self.blocks = [self.root, *(site.inner for site in self.sites if site.inner is not None)]
        self.by_id = {site.id: site for site in reversed(self.sites)}
        self.steps = {site.id: site.step for site in self.sites if self.by_id[site.id] is site}
        self.items = {site.step.item_name for site in self.sites if site.step.has("each")}
        self.inputs_type = _NO_INPUTS if plan.inputs is None else type_of_schema(plan.inputs)
        self.through: dict[tuple[str, str], str] = {}
        """For a group and a step it waits for: the step inside that names it."""
        self._draw_graphs()
        self.types: dict[str, Type] = {}
        self.spot_types: dict[str, Type] = {}
        self.each_types: dict[str, Type] = {}
        self.empty: set[str] = set()
        """Steps whose result may be null because they were skipped or failed, or what they read was."""
        self.fewer: set[str] = set()
        """Steps that may make fewer calls than their list says, although nothing fails."""
        self._infer_block(self.root, {})
        self.output_type = self._infer_part(self.output, {}) if self.output is not None else NULL

    @property
    def graph(self) -> Graph:
        """Who waits for whom among the steps of the plan, groups as a whole."""
        return self.root.graph

    def tool(self, step: Step) -> Tool | None:
        """The tool a step names, if there is one."""
        return self.registry.get(step.tool) if step.tool is not None else None

    def effects_of(self, site: Site) -> set[str]:
        """The tools with effects that a step calls, or the steps inside it."""
        found = set() if site.inner is None else set().union(*map(self.effects_of, site.inner.sites))
        tool = self.tool(site.step)
        return found | {tool.name} if tool is not None and tool.effect is not Effect.READS else found

    def signature(self, tool: Tool) -> Signature:
        """The types of a tool, read once for all checks: the schemas of a tool never change."""
        found = _SIGNATURES.get(tool)
        if found is None:
            gives = ANY if tool.output is None else type_of_schema(tool.output.normal.document)
            takes, literals = type_of_schema(tool.input.normal.document), optional(tool.input.document)
            found = _SIGNATURES[tool] = Signature(takes, gives, literals)
        return found

    def part(self, step: Step, field: str) -> Part | None:
        """A template of a step by its id, if the step has it."""
        site = self.by_id.get(step.id)
        return site.parts.get(field) if site is not None else None

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
        return asked_once or (step.on_failure == "skip" and (step.repeats or not step.has("each")))

    def asks_per_item(self, step: Step) -> bool:
        """Whether `when` names the item, and so is asked for each."""
        part = self.part(step, "when")
        return step.has("each") and part is not None and not part.names.isdisjoint({step.item_name, "index"})

    def asks(self, name: str, text: str, reader: Site | None) -> bool:
        """Whether what reads a step that may be skipped asks whether it was.

        In the expression itself (by its name, or by the condition on which it runs), or in `when`, its own or that of a
        group around.
        """
        when = self.steps[name].when
        condition = when.get("$") if isinstance(when, dict) else None
        if _asks_about(name, text) or (isinstance(condition, str) and condition.strip() in text):
            return True
        around = [s for s in (reader, *reader.groups) if "when" in s.parts] if reader is not None else []
        return any(
            name in s.parts["when"].names or (when is not None and s.step.when == when) for s in around
        )

    def _reads_unasked(self, site: Site, sources: set[str], fields: Collection[str] = _ALL) -> bool:
        """Whether a step takes something from one of these without asking: then it may be skipped itself.

        As the value of a step a name alone may be null; as an argument, a list or a condition it may not.
        """
        for part in (site.parts[field] for field in fields if field in site.parts):
            if part.names.isdisjoint(sources):
                continue
            for spot in part.spots.values():
                text = spot.expression.text
                for name in spot.expression.names & sources:
                    alone = text.strip() == name and part.field not in ("value", "output")
                    if alone or not self.asks(name, text, site):
                        return True
        return False

    # ---- names -----------------------------------------------------------------------------------------------------

    def _draw_graphs(self) -> None:
        """Note what each step waits for, in the block where both stand, and what is named that is not there."""
        needs: dict[Block, dict[str, list[str]]] = {b: {id: [] for id in b.by_id} for b in self.blocks}
        for site in self.sites:
            for target in self._wanted(site):
                waits = self._raised(site, target.block)
                if waits is not site:
                    self.through.setdefault((waits.id, target.id), site.id)
                needs[target.block][waits.id].append(target.id)
        if self.output is not None:
            list(self._named(self.output, None))  # for what is unknown; nothing waits for the output
        for block in self.blocks:
            block.graph = Graph(needs[block])

    def _raised(self, site: Site, block: Block) -> Site:
        """The site itself, or the group around it that stands in this block."""
        return next(s for s in (site, *site.groups) if s.block is block)

    def _wanted(self, site: Site) -> Iterator[Site]:
        """The steps around it that a step names, in `after` or in its templates."""
        yield from self._after(site)
        for part in site.parts.values():
            for target in self._named(part, site):
                if target.block is not site.inner:
                    yield target

    def _after(self, site: Site) -> Iterator[Site]:
        for n, name in enumerate(site.step.after):
            pointer, target = f"{site.pointer}/after/{n}", self.by_id.get(name)
            if name in _owners(site):
                itself = f"the step {quoted(name)} waits for itself"
                self._note(
                    finding("self_reference", pointer, itself if name == site.id else _self(name, site))
                )
            elif target is None:
                near = self.effort.nearest(name, site.block.by_id)
                guess = f"; did you mean {quoted(near)}?" if near else ""
                self._note(finding("unknown_step", pointer, f"no step is called {quoted(name)}{guess}", near))
            elif target.block is not site.block:
                self._note(self._after_elsewhere(site, target, pointer))
            else:
                yield target

    def _after_elsewhere(self, site: Site, target: Site, pointer: str) -> Finding:
        if target.block in site.block.outward():
            group = self._raised(site, target.block)
            message = (
                f"{quoted(target.id)} stands outside the group; its steps wait for it if the group does: "
                f"move it to the `after` of {quoted(group.id)}"
            )
            return finding("after_elsewhere", pointer, message)
        door = _door(target, site.block)
        message = f"{quoted(target.id)} is a step inside the group {quoted(door.id)}; wait for the group"
        return finding("after_elsewhere", pointer, message, door.id)

    def _named(self, part: Part, site: Site | None) -> Iterator[Site]:
        """The steps that the expressions of a template name and may see."""
        local = _locals(part, site)
        home = _home(part, site, self.root)
        seen, owners = set(home.outward()), _owners(site)
        for spot in part.spots.values():
            for name in spot.expression.names:
                if name in local:
                    continue
                target = self.by_id.get(name)
                if site is not None and name in owners:
                    self._strange(spot, name, "self_reference", _self(name, site))
                elif target is None:
                    self._unknown(spot, name, site, home)
                elif target.block in seen:
                    yield target
                else:
                    self._inside(spot, name, target, home)

    def _inside(self, spot: Spot, name: str, target: Site, home: Block) -> None:
        """A step inside a group, named from outside."""
        door = _door(target, home)
        way = _way_out(door, name)
        message = (
            f"{quoted(name)} is a step inside the group {quoted(door.id)}, and outside sees only its `output`"
        )
        if way:
            self._strange(spot, name, "inside_group", f"{message}; write {quoted(way)}", way)
            return
        seen = f"[r.{name} for r in {door.id}]" if door.step.has("each") else f"{door.id}.{name}"
        move = f"{message}; say `output: {{{name}: {{$: {name}}}}}` there and write {seen}"
        self._strange(spot, name, "inside_group", move)

    def _unknown(self, spot: Spot, name: str, site: Site | None, home: Block) -> None:
        if name == "result":
            message = (
                "`result` is known only in `until`, `next` and `undo`, where a step speaks of its own result"
            )
            self._strange(spot, name, "result_elsewhere", message)
            return
        if name in ("item", "index") or name in self.items:
            where = "in `args`, `value` and `when` of a step with `each`, and inside such a group"
            self._strange(spot, name, "item_outside_each", f"{quoted(name)} is known only {where}")
            return
        if name in self.inputs_type.fields:
            message = f"no step is called {quoted(name)}; the input is called 'inputs.{name}'"
            self._strange(spot, name, "unknown_step", message, f"inputs.{name}")
            return
        near = self.effort.nearest(name, self._visible(site, home)) if self.effort.guesses > 0 else ""
        guess = f"; did you mean {quoted(near)}?" if near else ""
        self._strange(spot, name, "unknown_step", f"no step is called {quoted(name)}{guess}", near)

    def _visible(self, site: Site | None, home: Block) -> list[str]:
        around = (
            [] if site is None else [s.step.item_name for s in (site, *site.groups) if s.step.has("each")]
        )
        ids = [id for block in home.outward() for id in block.by_id]
        return [*ids, "inputs", "run", *around, *(["index"] if around else [])]

    def _strange(self, spot: Spot, name: str, code: str, message: str, instead: str = "") -> None:
        text, offset = spot.expression.text, _offset(spot.expression, name)
        fixed = text[:offset] + instead + text[offset + len(name) :] if instead else ""
        self._note(finding(code, spot.pointer, message, fixed, offset=offset))

    def _note(self, found: Finding) -> None:
        self.findings.append(found)

    # ---- types -----------------------------------------------------------------------------------------------------

    def _infer_block(self, block: Block, local: Mapping[str, Type]) -> None:
        """Types of all results in a block; `local` are the items around it."""
        for id in block.graph.order:
            self._settle_type(block.by_id[id], local)
        for site in block.sites:
            if (
                block.by_id[site.id] is not site
            ):  # a second step of the same name: only what is wrong in it matters
                self._settle_type(site, local)

    def _settle_type(self, site: Site, local: Mapping[str, Type]) -> None:
        found = self._infer_site(site, local)
        if self.by_id[site.id] is site:
            self.types[site.id] = found

    def _infer_site(self, site: Site, local: Mapping[str, Type]) -> Type:
        step, parts, own = site.step, site.parts, dict(local)
        if "each" in parts:
            found = self._infer_part(parts["each"], local)
            self.each_types.setdefault(step.id, found)
            own |= {step.item_name: found.item if found.has("array") else ANY, "index": INTEGER}
        for field in ("when", "args"):
            if field in parts:
                self._infer_spots(parts[field], own)
        result = self._infer_result(site, own)
        for field in _OF_THE_RESULT & parts.keys():
            self._infer_spots(parts[field], {**own, "result": result})
        if self._reads_unasked(site, self.fewer) or (step.has("when") and step.when is not True):
            self.fewer.add(step.id)
        return self._lifted(site, result)

    def _infer_result(self, site: Site, own: Mapping[str, Type]) -> Type:
        """The type of one result: of a call, of a value, of a group's item."""
        step, result = site.step, ANY
        if site.inner is not None:
            self._infer_block(site.inner, own)
        for field in ("value", "output"):
            if field in site.parts:
                result = self._infer_part(site.parts[field], own)
        if step.tool is not None:
            tool = self.tool(step)
            result = ANY if tool is None else self._given(site, tool)
        return result

    def _given(self, site: Site, tool: Tool) -> Type:
        """The type of what a call gives; of some tools an argument says it."""
        args, part = site.step.args, site.parts.get("args")
        said = [name for name in tool.result_from if name in args]
        computed = [spot for spot in part.spots.values() if spot.path[0] in said] if part else []
        if not tool.result_from or (part is not None and not part.sound):
            return self.signature(tool).gives
        if computed:
            return _choice(self.spot_types[computed[0].pointer]) if computed[0].path == (said[0],) else ANY
        try:
            values = {name: compile_template(args[name]).evaluate({}) for name in said}
            stated = result_schema(tool, values)
        except SchemaRefused as error:
            where = f"{site.pointer}/args" if site.step.has("args") else site.pointer
            self._note(
                finding("bad_result_schema", pointer_to(*said[:1], within=where) + error.pointer, str(error))
            )
            return ANY
        return (
            self.signature(tool).gives
            if stated is None
            else type_of_schema(compile_schema(stated).normal.document)
        )

    def _lifted(self, site: Site, result: Type) -> Type:
        """The type of a result as others see it: a list where there are several, null where it may be skipped."""
        step, fans_out = site.step, site.step.has("each")
        null = self.may_be_null(step) or self._reads_unasked(
            site, self.empty, ("each",) if fans_out else _ALL
        )
        if fans_out:
            holes = step.on_failure == "skip" or self.asks_per_item(step) or step.repeats
            holes = holes or self._reads_unasked(site, self.empty)
            result = array_of(join(result, NULL) if holes else result, least=self.least_items(step))
        elif step.repeats:
            result = array_of(result, least=1)
        if null:
            self.empty.add(step.id)
        return join(result, NULL) if null else result

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


def _choice(options: Type) -> Type:
    """What is chosen from a list that is not known yet: a text or a number in it, or an `id`."""
    item = options.item if options.kinds == {"array"} else ANY
    if item.kinds == {"object"}:
        item = item.field("id") or ANY
    return item if item.kinds <= {"string", "integer"} else ANY


_ASKING = (" is ", " or ", " and ", " == ", " != ")


def _asks_about(name: str, text: str) -> bool:
    """Whether an expression is only this name, or looks whether it is there: `x is None`, `x or []`, `not x`."""
    at = text.find(name)
    while at >= 0:
        end = at + len(name)
        whole = not _goes_on(text[at - 1 : at]) and not _goes_on(text[end : end + 1])
        if whole and (text.startswith(_ASKING, end) or text.endswith("not ", 0, at)):
            return True
        at = text.find(name, end)
    return text.strip() == name


def _goes_on(character: str) -> bool:
    """Whether a name goes on with this character, or is the key of something else."""
    return character.isalnum() or character in ("_", ".")


def _locals(part: Part, site: Site | None) -> set[str]:
    """The names in a template that are no steps."""
    known = {"inputs", "run"}
    if site is None:
        return known
    if part.field in _OF_THE_RESULT:
        known.add("result")
    own = () if part.field == "each" else (site,)
    for around in (*own, *site.groups):
        if around.step.has("each"):
            known |= {around.step.item_name, "index"}
    return known


def _home(part: Part, site: Site | None, root: Block) -> Block:
    """The block from which a template looks: the output of a group stands inside it."""
    if site is None:
        return root
    return site.inner if part.field == "output" and site.inner is not None else site.block


def _owners(site: Site | None) -> set[str]:
    """The step itself, and the groups it is part of: what it can never wait for."""
    return set() if site is None else {site.id, *(group.id for group in site.groups)}


def _self(name: str, site: Site) -> str:
    if name == site.id:
        return f"the step {quoted(name)} needs its own result"
    return f"the step {quoted(site.id)} is part of {quoted(name)}, and cannot wait for its result"


def _door(target: Site, home: Block) -> Site:
    """The group, seen from `home`, inside which a step stands."""
    seen = set(home.outward())
    return next(group for group in target.groups if group.block in seen)


def _way_out(door: Site, name: str) -> str:
    """What outside writes for a step inside, if the group's output is that step or has it as a field."""
    output = door.step.output
    if door.step.has("each") or not isinstance(output, dict):
        return ""
    if output == {"$": name}:
        return door.id
    key = next((key for key, value in output.items() if value == {"$": name}), None)
    return f"{door.id}.{key}" if key is not None and key.isidentifier() else ""


def _offset(expression: Expression, name: str) -> int:
    """Where a free name first stands."""
    places = (n.col_offset for n in ast.walk(expression.tree) if isinstance(n, ast.Name) and n.id == name)
    return min(places, default=0)
