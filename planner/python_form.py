"""A program of a small model as the plan that it means.

    a = find(name='x')                          {id: a, tool: find, args: {name: x}}
    b = [send(to=p.mail) for p in a if p.ok]    {id: b, each: [p for p in a if p.ok], as: p, tool: send, …}
    for p in a:                                 {each: a, as: p, steps: […], output: …}, or `each` of the one step in it
    if len(b) > 3:                              `when` of each step in it
    if p.done: continue                         `when` of each step below it in the loop: not p.done
    f(x=g(y=1).z)                               a step for g, before the one for f
    c = []  …  c.append(x)  …  n += 1           the outputs of the loop, gathered
    return x                                    output
    raise CannotPlan('no x')                    below an `if`: the output says why, and what follows is not done

Nothing runs: Python's own parser reads it, and what is none of these is refused with its line. Names that are assigned
anew stand for the newer step. Whatever has an effect keeps its place in the program: later calls wait for it (`after`);
calls that only read run side by side.
"""

from __future__ import annotations

import ast
import copy
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any, NamedTuple, TypeAlias

from ..policies.effect import Effect
from ..policies.expressions import valid_id
from ..policies.text import did_you_mean
from ..registry.registry import Registry
from ..registry.tools import Tool
from .findings import Finding, PlanUnreadable
from .python_names import arguments_of, names_of

__all__ = ["HEADER", "ON_FAILURE", "Traced", "from_python", "traced"]

Json: TypeAlias = Any
Step: TypeAlias = dict[str, Json]

HEADER = "def main(inputs):"
"""How an answer begins: without it small models import what there is not."""

ON_FAILURE = "on_failure"
"""The argument that every call may have besides its own."""


def from_python(
    text: str,
    registry: Registry,
    *,
    inputs: Iterable[str] = (),
    names: Iterable[str] = (),
    patch: bool = False,
) -> dict[str, Json]:
    """The plan document, or the patch, that a program means. Raises `PlanUnreadable`.

    `names` are the steps that there are already: in a patch, what is assigned to one of them replaces it.
    """
    return _Program(registry, inputs, names).document(text, patch=patch)


class Traced(NamedTuple):
    """A document, where its parts come from (JSON Pointer -> line), and what its steps are called in the program."""

    document: dict[str, Json]
    lines: dict[str, int]
    names: dict[str, str]


def traced(
    text: str,
    registry: Registry,
    *,
    inputs: Iterable[str] = (),
    names: Iterable[str] = (),
    patch: bool = False,
) -> Traced:
    """What `from_python` gives, with where it comes from. All is empty where it is no program."""
    program = _Program(registry, inputs, names)
    try:
        document = program.document(text, patch=patch)
    except PlanUnreadable:
        return Traced({}, {}, {})
    found = {"/output": program.lines[""]} if "" in program.lines else {}
    waiting = [("/add" if patch else "/steps", document.get("add" if patch else "steps", []))]
    while waiting:
        place, steps = waiting.pop()
        for index, step in enumerate(steps):
            pointer = f"{place}/{index}"
            found |= {
                f"{pointer}{part.removeprefix(step['id'])}": line
                for part, line in program.lines.items()
                if part == step["id"] or part.startswith(f"{step['id']}/")
            }
            waiting.append((f"{pointer}/steps", step.get("steps", ())))
    return Traced(document, found, program.written)


def _replacing(step: Step, names: Iterable[str]) -> Step:
    """A step that was assigned to the name of one there is: `fresh` gave it that name with a number."""
    whom = re.sub(r"_\d+$", "", step["id"])
    return {"id": step["id"], "replaces": whom, **step} if whom in names and whom != step["id"] else step


def _refused(message: str, node: ast.AST | None = None) -> PlanUnreadable:
    line = getattr(node, "lineno", None)
    said = f"line {line}: {message}" if line is not None else message
    return PlanUnreadable([Finding("bad_answer", "error", "", said, line=line)])


def _line(node: ast.AST) -> int | None:
    """The line where an expression stands; one that was made here has that of a part of it."""
    return next((part.lineno for part in ast.walk(node) if hasattr(part, "lineno")), None)


@dataclass
class _Loop:
    """What a loop gathers: name -> (how, what, under which conditions); the names that begin inside."""

    gathered: dict[str, tuple[str, ast.expr, list[ast.expr]]] = field(default_factory=dict)
    own: set[str] = field(default_factory=set)
    left: list[tuple[ast.Return, list[ast.expr], ast.expr]] = field(default_factory=list)
    """Where it is left with a value: the first item under these conditions."""


@dataclass
class _Block:
    """Where statements are read: what names stand for, the steps so far, conditions around, loops around."""

    names: dict[str, ast.expr]
    steps: list[Step]
    conditions: list[ast.expr]
    loops: list[_Loop]

    def inside(self, condition: ast.expr) -> _Block:
        return _Block(dict(self.names), self.steps, [*self.conditions, condition], self.loops)


class _Program:
    def __init__(self, registry: Registry, inputs: Iterable[str], names: Iterable[str]) -> None:
        self.tools = {written: registry[name] for name, written in names_of(registry).items()}
        self.inputs = frozenset(inputs)
        self.given = tuple(names)
        self.taken = set(self.given)
        self.returns: list[tuple[list[ast.expr], ast.expr]] = []
        """What is returned, under which conditions, in the order of the program."""
        self.lines: dict[str, int] = {}
        """Where steps (`id`) and their parts (`id/args/to`) stand in the program; the output as ""."""
        self.written: dict[str, str] = {}
        """The steps that are called otherwise in the program."""

    # ---- statements

    def document(self, text: str, *, patch: bool) -> dict[str, Json]:
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = getattr(error, "lineno", None)
            said = f"this is no Python program{f', line {line}' if line else ''}: {error}"
            raise PlanUnreadable([Finding("bad_answer", "error", "", said, line=line)]) from None
        document = self.read(tree)
        if not patch or "cannot_plan" in document:
            return document
        steps = [_replacing(step, frozenset(self.given)) for step in document.pop("steps")]
        return {"add": steps, **document}

    def stands(self, part: str, *nodes: ast.AST) -> None:
        """Remember where a part of a step stands: in the line of the first of these that has one."""
        line = next((line for node in nodes if (line := _line(node)) is not None), None)
        if line is not None:
            self.lines.setdefault(part, line)

    def read(self, tree: ast.Module) -> dict[str, Json]:
        body = tree.body
        if len(body) == 1 and isinstance(body[0], ast.FunctionDef):
            body = body[0].body
        if reason := _declined(body):
            return {"cannot_plan": reason}
        block = _Block({}, [], [], [])
        self.block(body, block)
        _in_order(block.steps, self.effects)
        document: dict[str, Json] = {"steps": block.steps}
        return document | ({"output": _template(_returned(self.returns))} if self.returns else {})

    def block(self, body: Sequence[ast.stmt], block: _Block) -> None:
        for statement in body:
            self.statement(statement, block)
            if isinstance(statement, ast.Return | ast.Raise):
                return

    def statement(self, node: ast.stmt, block: _Block) -> None:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self.assign(name, value, block)
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value):
                self.gather("add", name, value, block)
            case ast.Expr(
                value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[value])
            ):
                self.gather("append", name, value, block)
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                return
            case ast.Expr(value=value):
                self.value(value, "", block)
            case ast.For(target=target, iter=over, body=body, orelse=[]):
                self.loop(target, over, body, block)
            case ast.If():
                self.branch(node, block)
            case ast.Return(value=value) if not block.loops:
                made = self.pure(value or ast.Constant(value=None), "result", block)
                self.returns.append((block.conditions, made))
                self.stands("", node)
            case ast.Return(value=value) if len(block.loops) == 1:
                made = self.pure(value or ast.Constant(value=None), "result", block)
                block.loops[-1].left.append((node, block.conditions, made))
            case ast.Raise(exc=ast.Call(args=[reason])) if block.conditions and not block.loops:
                self.returns.append((block.conditions, self.pure(reason, "reason", block)))
            case _:
                raise _refused(f"{_ONLY}; {_instead(node)}" if _instead(node) else _ONLY, node)

    def assign(self, name: str, value: ast.expr, block: _Block) -> None:
        if block.loops:
            if name in block.names and name not in block.loops[-1].own:
                raise _refused(f"a loop cannot change {name}; use {name}.append(…) or a new name", value)
            block.loops[-1].own.add(name)
        block.names[name] = self.value(value, name, block)

    def gather(self, how: str, name: str, value: ast.expr, block: _Block) -> None:
        """`append` and `+=`: at once, or by the loop around."""
        if name not in block.names:
            near = did_you_mean(name, block.names) or f"; begin it before with {name} = []"
            raise _refused(f"there is no {name} yet{near}", value)
        made = self.pure(value, name, block)
        if not block.loops or name in block.loops[-1].own:
            more: ast.expr = made if how == "add" else ast.List(elts=[made], ctx=ast.Load())
            block.names[name] = ast.BinOp(left=block.names[name], op=ast.Add(), right=more)
            return
        gathered = block.loops[-1].gathered
        if name in gathered:
            begun = block.names[name]
            nothing = (
                ast.List(elts=[], ctx=ast.Load()) if isinstance(begun, ast.List) else ast.Constant(value=0)
            )
            both = [_whole(one, nothing) for one in (gathered[name], (how, made, block.conditions))]
            gathered[name] = ("add", ast.BinOp(left=both[0], op=ast.Add(), right=both[1]), [])
        else:
            gathered[name] = (how, made, block.conditions)

    def branch(self, node: ast.If, block: _Block) -> None:
        asked = _truth(self.pure(node.test, "condition", block))
        yes, no = block.inside(asked), block.inside(_not(asked))
        returned = len(self.returns)
        self.block(node.body, yes)
        self.block(node.orelse, no)
        around = len(block.conditions)
        for conditions, _ in self.returns[returned:]:  # what follows is for the other cases
            block.conditions = [*block.conditions, _not(_all(conditions[around:]))]
        none = ast.Constant(value=None)
        for name in [n for n in {**yes.names, **no.names} if yes.names.get(n) is not no.names.get(n)]:
            block.names[name] = ast.IfExp(
                test=asked, body=yes.names.get(name, none), orelse=no.names.get(name, none)
            )

    def loop(self, target: ast.expr, over: ast.expr, body: Sequence[ast.stmt], block: _Block) -> None:
        listed = self.pure(over, "items", block)
        item = self.fresh(target.id if isinstance(target, ast.Name) else "item")
        loop = _Loop()
        inner = _Block({**block.names, **_unpacked(target, item)}, [], [], [*block.loops, loop])
        loop.own |= set(_unpacked(target, item))
        self.block(_going_on(body), inner)
        if loop.left:
            self.leave(loop, inner, item, listed, block)
            return
        for name in loop.own:
            block.names.setdefault(name, ast.Name(id=name))
        if not inner.steps:
            self.collect(loop, block, lambda what: _gathering(what, item, listed))
        elif len(inner.steps) == 1 and _may_repeat(inner.steps[0]) and _plain(loop, inner.steps[0]["id"]):
            step = inner.steps[0]
            self.stands(f"{step['id']}/each", over)
            head = {"id": step["id"], "each": _template(listed), "as": item}
            block.steps.append({**head, **self.conditional(step, block)})
            self.collect(loop, block, lambda what: ast.Name(id=step["id"]))
        else:
            name = self.fresh(f"each_{item}")
            self.stands(name, over)
            self.group(name, loop, inner.steps, listed, item, block)

    def leave(self, loop: _Loop, inner: _Block, item: str, listed: ast.expr, block: _Block) -> None:
        """A loop that only looks for an item: what it returns is that of the first one that is found."""
        node, conditions, made = loop.left[0]
        if len(loop.left) > 1 or inner.steps or loop.gathered:
            raise _refused(f"{_ONLY}; {_instead(node)}", node)
        name = self.fresh("found")
        every = _gathering(("append", made, conditions), item, listed)
        self.stands(name, node)
        block.steps.append(self.conditional({"id": name, "value": _template(every)}, block))
        some = ast.parse(f"len({name}) > 0", mode="eval").body
        first = ast.parse(f"{name}[0]", mode="eval").body
        self.returns.append(([*block.conditions, some], first))
        self.stands("", node)
        block.conditions = [*block.conditions, _not(some)]

    def group(
        self, name: str, loop: _Loop, steps: list[Step], listed: ast.expr, item: str, block: _Block
    ) -> None:
        _in_order(steps, self.effects)
        for gathered, (_, what, _conditions) in loop.gathered.items():
            self.stands(f"{name}/output/{gathered}", what)
        outputs = {n: _template(_if(conditions, what)) for n, (_, what, conditions) in loop.gathered.items()}
        step: Step = {"id": name, "each": _template(listed), "as": item, "steps": steps}
        step |= {"output": outputs} if outputs else {}
        block.steps.append(self.conditional(step, block))
        for gathered in loop.gathered:
            self.collect(
                _Loop({gathered: loop.gathered[gathered]}),
                block,
                lambda what, of=gathered: _field(name, of),  # type: ignore[misc]
            )

    def collect(self, loop: _Loop, block: _Block, listing: Callable[[Any], ast.expr]) -> None:
        """What a loop gathered, as the values of the names after it."""
        for name, gathered in loop.gathered.items():
            every = listing(gathered)
            begun = block.names[name]
            if gathered[0] == "add" and not isinstance(begun, ast.List):
                every = ast.Call(func=ast.Name(id="sum"), args=[every], keywords=[])
            elif gathered[0] == "add":
                every = ast.Call(func=ast.Name(id="flat"), args=[every], keywords=[])
            empty = isinstance(begun, ast.List) and not begun.elts
            value = every if empty else ast.BinOp(left=begun, op=ast.Add(), right=every)
            if block.loops and name not in block.loops[-1].own:
                block.loops[-1].gathered[name] = ("add", every, block.conditions)
            block.names[name] = value

    # ---- values

    def value(self, node: ast.expr, wish: str, block: _Block) -> ast.expr:
        """What an assigned value is: a call or a computed value becomes a step, a constant or a path stands for itself."""
        if (made := self.called(node, wish, block)) is not None:
            return made
        made = self.pure(node, wish or "value", block)
        if not wish or isinstance(made, ast.Constant | ast.Name | ast.Attribute) or _is_empty(made):
            return made
        name = self.fresh(wish)
        self.stands(name, node)
        block.steps.append(self.conditional({"id": name, "value": _template(made)}, block))
        return ast.Name(id=name)

    def called(self, node: ast.expr, wish: str, block: _Block) -> ast.expr | None:
        """The step of a call, alone, under a condition or for each of several; None for anything else."""
        match node:
            case ast.Call() if (tool := self.tool(node)) is not None:
                return self.step(tool, node, wish, block)
            case ast.IfExp(test=test, body=body, orelse=orelse) if self.tool(body) or self.tool(orelse):
                asked = _truth(self.pure(test, "condition", block))
                yes = self.value(body, wish, block.inside(asked))
                no = self.value(orelse, wish, block.inside(_not(asked)))
                return yes if _is_none(no) else ast.IfExp(test=asked, body=yes, orelse=no)
            case ast.ListComp(elt=elt, generators=[ast.comprehension(target=target, iter=over, ifs=ifs)]) if (
                self.calls(elt)
            ):
                return self.comprehended(elt, target, over, ifs, wish, block)
        return None

    def comprehended(
        self, elt: ast.expr, target: ast.expr, over: ast.expr, ifs: list[ast.expr], wish: str, block: _Block
    ) -> ast.expr:
        listed = over
        if ifs:
            kept = ast.Name(id=target.id) if isinstance(target, ast.Name) else ast.Tuple(elts=target.elts)  # type: ignore[attr-defined]
            generator = ast.comprehension(target=target, iter=over, ifs=ifs, is_async=0)
            listed = ast.ListComp(elt=kept, generators=[generator])
        gathered = wish or "results"
        scratch = _Block(
            {**block.names, gathered: ast.List(elts=[], ctx=ast.Load())},
            block.steps,
            block.conditions,
            block.loops,
        )
        append = ast.Call(
            func=ast.Attribute(value=ast.Name(id=gathered), attr="append"), args=[elt], keywords=[]
        )
        outer, scratch.loops = scratch.loops, []
        self.loop(target, listed, [ast.copy_location(ast.Expr(value=append), elt)], scratch)
        scratch.loops = outer
        return scratch.names[gathered]

    def step(self, tool: Tool, call: ast.Call, wish: str, block: _Block) -> ast.expr:
        known = {written: (name, schema) for written, name, schema in arguments_of(tool)}
        given = dict(zip(known, call.args, strict=False)) | {k.arg: k.value for k in call.keywords if k.arg}
        skip = given.pop(ON_FAILURE, None) if ON_FAILURE not in known else None
        args = {
            known.get(written, (written,))[0]: _template(self.pure(value, written, block))
            for written, value in given.items()
        }
        name = self.fresh(wish or tool.name)
        self.stands(name, call)
        for written, value in given.items():
            self.stands(f"{name}/args/{known.get(written, (written,))[0]}", value, call)
        step: Step = {"id": name, "tool": tool.name, "args": args}
        if isinstance(skip, ast.Constant) and skip.value == "skip":
            step["on_failure"] = "skip"
        block.steps.append(self.conditional(step, block))
        return ast.Name(id=name)

    def conditional(self, step: Step, block: _Block) -> Step:
        """The step under the conditions around it, besides its own."""
        if not block.conditions:
            return step
        self.stands(f"{step['id']}/when", block.conditions[-1])
        own = [_read_back(step.pop("when"))] if "when" in step else []
        return {"id": step.pop("id"), "when": _template(_all([*block.conditions, *own])), **step}

    def pure(self, node: ast.expr, wish: str, block: _Block) -> ast.expr:
        """The expression without calls of tools, which become steps before it, and in terms of steps."""
        return _Lift(self, block, wish).visit(copy.deepcopy(node))  # type: ignore[no-any-return]

    def tool(self, node: ast.AST) -> Tool | None:
        return self.tools.get(ast.unparse(node.func)) if isinstance(node, ast.Call) else None

    def calls(self, node: ast.AST) -> bool:
        return any(self.tool(inner) is not None for inner in ast.walk(node))

    def fresh(self, wish: str) -> str:
        """An id that is free, like this one."""
        base = re.sub(r"[^a-z0-9_]", "_", wish.lower()).strip("_") or "step"
        base = base if valid_id(base) else f"{base}_" if valid_id(f"{base}_") else f"s_{base}"
        name, number = base, 2
        while name in self.taken or name in self.inputs:
            name, number = f"{base}_{number}", number + 1
        self.taken.add(name)
        if name != wish:
            self.written[name] = wish
        return name

    def effects(self, step: Step) -> bool:
        tools = {tool.name: tool for tool in self.tools.values()}
        tool = tools.get(step.get("tool", ""))
        return (tool is not None and tool.effect is not Effect.READS) or any(
            map(self.effects, step.get("steps", ()))
        )


class _Lift(ast.NodeTransformer):
    """Names as the steps they stand for; calls of tools as steps."""

    def __init__(self, program: _Program, block: _Block, wish: str) -> None:
        self.program, self.block, self.wish = program, block, wish
        self.bound: dict[str, str] = {}
        """Names of comprehensions and lambdas, and what they are called where a step has that name."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.bound:
            return ast.Name(id=self.bound[node.id])
        if node.id in self.block.names:
            return copy.deepcopy(self.block.names[node.id])
        if node.id in self.program.inputs:
            return ast.Attribute(value=ast.Name(id="inputs"), attr=node.id)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if (tool := self.program.tool(node)) is not None and self.stands_alone(node, tool):
            return self.program.step(tool, node, "" if self.bound else self.wish, self.block)
        if isinstance(node.func, ast.Name):
            if node.func.id in ("int", "float"):
                node.func.id = "number"
            elif node.func.id == "next" and _is_listed(node.args[:1]):
                node.func.id = "first"
            node.args = [self.visit(part) for part in node.args]
            node.keywords = [self.visit(part) for part in node.keywords]
            return node
        return self.generic_visit(node)  # type: ignore[return-value]

    def stands_alone(self, node: ast.Call, tool: Tool) -> bool:
        """Whether a call can be made once, before the expression: one that reads, and names nothing of a comprehension."""
        names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        return not self.bound or (tool.effect is Effect.READS and names.isdisjoint(self.bound))

    def visit_ListComp(self, node: ast.ListComp) -> ast.expr:
        if not self.bound and (made := self.program.called(node, self.wish, self.block)) is not None:
            return made
        return self.scoped(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.expr:
        return self.visit_ListComp(ast.ListComp(elt=node.elt, generators=node.generators))

    def visit_DictComp(self, node: ast.DictComp) -> ast.expr:
        return self.scoped(node)

    def scoped(self, node: Any) -> ast.expr:
        first = node.generators[0]
        first.iter = self.visit(first.iter)
        names = [n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)]
        before, self.bound = self.bound, {**self.bound, **self.apart(names)}
        for place, generator in enumerate(node.generators):
            generator.target = self.visit(generator.target)
            generator.iter = self.visit(generator.iter) if place else generator.iter
            generator.ifs = [self.visit(part) for part in generator.ifs]
        for part in ("elt", "key", "value"):
            if hasattr(node, part):
                setattr(node, part, self.visit(getattr(node, part)))
        self.bound = before
        return node  # type: ignore[no-any-return]

    def apart(self, names: list[str]) -> dict[str, str]:
        return {name: self.spelled(name) for name in names}

    def spelled(self, name: str) -> str:
        others = (f"{name}_{number}" for number in count(2))
        return next(n for n in chain([name], others) if n not in self.program.taken)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        return self.unless_calling(node, node.values[1:])

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        return self.unless_calling(node, [node.body, node.orelse])

    def unless_calling(self, node: ast.expr, parts: list[ast.expr]) -> ast.AST:
        """A step runs whatever the value around it is, so a call that may not be made wants an `if`."""
        if any(map(self.program.calls, parts)):
            raise _refused("a call of a tool inside and, or, if-else; write it below an if", node)
        return self.generic_visit(node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        before, self.bound = self.bound, {**self.bound, **self.apart([a.arg for a in node.args.args])}
        for argument in node.args.args:
            argument.arg = self.bound[argument.arg]
        node.body = self.visit(node.body)
        self.bound = before
        return node


_ONLY = "only calls, assignments, `for`, `if` and one `return` at the end can stand in a program"


def _instead(node: ast.stmt) -> str:
    """What to write in place of a statement that there is not; "" where nobody can say."""
    match node:
        case ast.While():
            return "in place of while, go through a list with for"
        case ast.Import() | ast.ImportFrom():
            return "leave the import out: what there is needs none"
        case ast.Try():
            return "in place of try, on_failure='skip' in a call goes on with None"
        case ast.Continue():
            return "continue stands last below an if of a loop, and not deeper; put what depends on it under an if"
        case ast.Break():
            return "in place of break, put what depends on it under an if"
        case ast.Return() | ast.Raise():
            return "a loop is not left; gather with append, and return after the loop"
        case ast.Assign(targets=[ast.Tuple() | ast.List()]):
            return "assign to one name at a time"
        case ast.Assign(targets=[ast.Subscript() | ast.Attribute() as target]):
            return f"{ast.unparse(target)} cannot be changed; write a new value with what differs"
        case ast.Assign():
            return "assign to one name at a time"
        case ast.AugAssign(target=ast.Name(id=name)):
            return f"write {name} = … in full"
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return "main(inputs) is the only function; write what it does in its place"
    return ""


def _going_on(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The body of a loop without `continue`: what stands below one is for the other case of its `if`."""
    for place, statement in enumerate(body):
        if isinstance(statement, ast.Continue):
            return [*body[:place], ast.copy_location(ast.Pass(), statement)]
        if isinstance(statement, ast.If) and (said := _continues(statement)) is not None:
            rest = body[place + 1 :]
            yes, no = (part if _ends(part) else [*part, *rest] for part in (statement.body, statement.orelse))
            if rest and len(yes) > len(statement.body) and len(no) > len(statement.orelse):
                raise _refused(f"{_ONLY}; {_instead(said)}", said)  # each of both would have what follows
            made = ast.If(test=statement.test, body=_going_on(yes), orelse=_going_on(no))
            return [*body[:place], ast.copy_location(made, statement)]
    return list(body)


def _continues(statement: ast.stmt) -> ast.Continue | None:
    """The first `continue` in it that is for the loop around."""
    if isinstance(statement, ast.Continue):
        return statement
    inside = [*statement.body, *statement.orelse] if isinstance(statement, ast.If) else []
    return next((found for each in inside if (found := _continues(each)) is not None), None)


def _ends(body: Sequence[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], ast.Continue | ast.Return | ast.Raise)


def _is_listed(args: Sequence[ast.expr]) -> bool:
    """Whether `next` is asked for the first of several, as `first` is, and not of an iterator."""
    return bool(args) and isinstance(args[0], ast.GeneratorExp)


def _is_empty(node: ast.expr) -> bool:
    return isinstance(node, ast.List) and not node.elts


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _declined(body: Sequence[ast.stmt]) -> str:
    match body:
        case [ast.Raise(exc=ast.Call(args=[ast.Constant(value=str() as reason)]))]:
            return reason or "it says no reason"
    return ""


def _unpacked(target: ast.expr, item: str) -> dict[str, ast.expr]:
    if isinstance(target, ast.Name):
        return {target.id: ast.Name(id=item)}
    parts = target.elts if isinstance(target, ast.Tuple) else []
    return {
        part.id: ast.Subscript(value=ast.Name(id=item), slice=ast.Constant(value=place))
        for place, part in enumerate(parts)
        if isinstance(part, ast.Name)
    }


def _may_repeat(step: Step) -> bool:
    return "each" not in step and "tool" in step


def _plain(loop: _Loop, name: str) -> bool:
    """Whether all that is gathered are results of this one step, whenever there is one."""
    return all(
        how == "append" and isinstance(what, ast.Name) and what.id == name
        for how, what, _ in loop.gathered.values()
    )


def _gathering(gathered: tuple[str, ast.expr, list[ast.expr]], item: str, listed: ast.expr) -> ast.expr:
    _, what, conditions = gathered
    generator = ast.comprehension(target=ast.Name(id=item), iter=listed, ifs=list(conditions), is_async=0)
    return ast.ListComp(elt=what, generators=[generator])


def _field(group: str, name: str) -> ast.expr:
    tree = ast.parse(f"[r.{name} for r in {group} if r is not None and r.{name} is not None]", mode="eval")
    return tree.body


def _not(condition: ast.expr) -> ast.expr:
    return ast.UnaryOp(op=ast.Not(), operand=condition)


def _truth(node: ast.expr) -> ast.expr:
    """A condition as a boolean: of a result, Python asks whether there is something in it."""
    counted = (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("len", "sum", "first")
    )
    return _not(_not(node)) if isinstance(node, ast.Name) or counted else node


def _read_back(template: Json) -> ast.expr:
    text = template["$"] if isinstance(template, dict) else repr(template)
    return ast.parse(text, mode="eval").body


def _whole(gathered: tuple[str, ast.expr, list[ast.expr]], nothing: ast.expr) -> ast.expr:
    """What one item adds, also where it adds nothing."""
    how, what, conditions = gathered
    made = what if how == "add" else ast.List(elts=[what], ctx=ast.Load())
    return ast.IfExp(test=_all(conditions), body=made, orelse=nothing) if conditions else made


def _returned(returns: list[tuple[list[ast.expr], ast.expr]]) -> ast.expr:
    """The first of these whose conditions hold."""
    value: ast.expr = ast.Constant(value=None)
    for conditions, made in reversed(returns):
        value = ast.IfExp(test=_all(conditions), body=made, orelse=value) if conditions else made
    return value


def _if(conditions: list[ast.expr], what: ast.expr) -> ast.expr:
    if not conditions:
        return what
    return ast.IfExp(test=_all(conditions), body=what, orelse=ast.Constant(value=None))


def _all(conditions: list[ast.expr]) -> ast.expr:
    return conditions[0] if len(conditions) == 1 else ast.BoolOp(op=ast.And(), values=list(conditions))


def _template(node: ast.expr) -> Json:
    """A literal as itself, so that who approves it sees a value; all else as an expression."""
    try:
        return _literal(node)
    except ValueError:
        pass
    match node:
        case ast.List(elts=elts) if not any(isinstance(part, ast.Starred) for part in elts):
            return [_template(part) for part in elts]
        case ast.Dict(keys=keys, values=values) if all(
            isinstance(k, ast.Constant) and isinstance(k.value, str) and k.value[:1] != "$" for k in keys
        ):
            return {k.value: _template(v) for k, v in zip(keys, values, strict=True)}  # type: ignore[union-attr]
    return {"$": _written(node)}


class _Joined(ast.NodeTransformer):
    """A text that is known stands in an f-string as it is, and not in braces: there Python 3.11 writes no backslash."""

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.expr:
        self.generic_visit(node)
        text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return node.value if text and node.conversion == -1 and node.format_spec is None else node


def _written(node: ast.expr) -> str:
    """The text of an expression."""
    made = _Joined().visit(copy.deepcopy(node))  # of the line where the node stands, `_line` asks
    try:
        return ast.unparse(ast.fix_missing_locations(made))
    except ValueError:
        raise _refused("between the braces of an f-string no text has a backslash", node) from None


def _literal(node: ast.expr) -> Json:
    value = ast.literal_eval(node)
    try:
        if "$" in json.dumps(value, allow_nan=False):
            return {"$literal": value} if isinstance(value, dict | list) else value
    except TypeError:
        raise ValueError from None
    return value


def _in_order(steps: list[Step], effects: Callable[[Step], bool]) -> None:
    """Effects keep their place: what stands behind one waits for it, and it for what stands before."""
    behind: dict[str, set[str]] = {}
    acted = ""
    before: list[str] = []
    for step in steps:
        mentioned = (
            set(re.findall(r"\w+", json.dumps({k: v for k, v in step.items() if k != "id"}))) & behind.keys()
        )
        waits = set(mentioned).union(*(behind[name] for name in mentioned))
        calls = "value" not in step
        if calls:
            wanted = before if effects(step) else [acted] if acted else []
            missing = [name for name in wanted if name not in waits]
            if missing:
                step["after"] = missing
                waits |= set(missing).union(*(behind[name] for name in missing))
            if effects(step):
                acted, before = step["id"], [step["id"]]
            else:
                before = [*before, step["id"]]
        behind[step["id"]] = waits
