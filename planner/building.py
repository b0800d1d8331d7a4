"""Plans written in Python, with types: the result is an ordinary `Plan`, equal to the one written by hand.

    plan = PlanBuilder("Refund duplicates", inputs=Job)
    payments = plan.step(read_ledger, path=plan.inputs.ledger)
    large = plan.having(id="large").value(keep(payments.rows, lambda p: p.amount > plan.inputs.limit))
    refunds = plan.having(on_failure="skip").each(large).step(refund, payment_id=…)

`step` takes a tool and what its function takes, and is typed to give what it returns, after `await`; see `references` for
what becomes of it. Nothing is called, and nothing is checked: `check` does that, for this plan as for any.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping
from types import TracebackType
from typing import Any, Generic, ParamSpec, TypeAlias, TypeVar, cast, overload

from ..policies.errors import BadInput
from ..policies.expressions import rename_in, valid_id
from ..policies.spelling import spelled
from ..policies.text import did_you_mean
from ..registry.signatures import schema_of
from ..registry.tools import Tool, ToolContext
from .plan import OnFailure, Per, Plan
from .references import Ref, template

__all__ = ["Each", "Group", "Having", "PlanBuilder", "Repeat"]

Json: TypeAlias = Any
I = TypeVar("I")  # noqa: E741 - the type of the inputs
T = TypeVar("T")
V = TypeVar("V")
P = ParamSpec("P")
R = TypeVar("R")

_LAST = re.compile(r"[^A-Za-z0-9]+")
_UNSAID: Any = object()


class _Draft:
    """The document as far as it is written: the open list of steps, and every step by its id."""

    def __init__(self) -> None:
        self.steps: list[dict[str, Json]] = []
        self.lists = [self.steps]
        self.by_id: dict[str, dict[str, Json]] = {}
        self.unfinished: set[str] = set()

    def add(self, options: Mapping[str, Json], wanted: str, fields: Mapping[str, Json]) -> str:
        """Write a step; the name of the tool makes its id, where none is given."""
        id = options.get("id") or self.fresh(wanted)
        if id in self.by_id:
            raise BadInput(f"two steps are called {id!r}; give one of them another id with having(id=…)")
        step = {"id": id, **{k: v for k, v in options.items() if k != "id"}, **fields}
        self.by_id[id] = step
        self.lists[-1].append(step)
        return str(id)

    def fresh(self, wanted: str) -> str:
        base = _LAST.sub("_", wanted.rpartition(".")[2]).strip("_").lower()[:50] or "step"
        base = base if valid_id(base) else f"{base}_step" if base[0].isalpha() else f"step_{base}"
        ids = [base, *(f"{base}_{n}" for n in range(2, len(self.by_id) + 3))]
        return next(id for id in ids if id not in self.by_id)


class Having:
    """Where a step is written, and what is said of it besides its call. Made by `having`."""

    def __init__(self, draft: _Draft, options: Mapping[str, Json]) -> None:
        self._draft = draft
        self._options = dict(options)

    def having(
        self,
        *,
        id: str | None = None,
        when: bool | None = None,
        after: Iterable[object] = (),
        on_failure: OnFailure | None = None,
        per: Per | None = None,
    ) -> Having:
        """What the next step is to have. `after` takes results of steps, groups or ids."""
        return Having(self._draft, self._options | _options(id, when, after, on_failure, per))

    @overload
    def step(
        self, tool: Tool[Callable[P, Coroutine[Any, Any, R]]], /, *args: P.args, **kwargs: P.kwargs
    ) -> R: ...
    @overload
    def step(self, tool: Tool[Callable[P, R]], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def step(self, tool: str, /, **kwargs: Any) -> Any: ...
    def step(self, tool: Any, /, *args: Any, **kwargs: Any) -> Any:
        """A call of a tool; its result."""
        return _named(_call(self._draft, self._options, tool, args, kwargs))

    def value(self, value: V) -> V:
        """A value computed without a call."""
        return cast(V, _named(self._draft.add(self._options, "value", {"value": template(value)})))

    @overload
    def repeat(
        self, tool: Tool[Callable[P, Coroutine[Any, Any, R]]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Repeat[R]: ...
    @overload
    def repeat(self, tool: Tool[Callable[P, R]], /, *args: P.args, **kwargs: P.kwargs) -> Repeat[R]: ...
    @overload
    def repeat(self, tool: str, /, **kwargs: Any) -> Repeat[Any]: ...
    def repeat(self, tool: Any, /, *args: Any, **kwargs: Any) -> Any:
        """One call again and again: `plan.repeat(page, cursor=0).until(lambda page: is_none(page.next), max=9)`."""
        return Repeat(self._draft, _call(self._draft, self._options, tool, args, kwargs))

    def each(self, items: Iterable[T], *, as_: str | None = None) -> Each[T]:
        """The next step, or group, once per item: `each.item` is the item."""
        options: dict[str, Json] = self._options | {"each": template(items)}
        return Each(self._draft, options | ({"as": as_} if as_ is not None else {}))

    def group(self) -> Group:
        """Steps that succeed, fail and are undone together: `with plan.group() as trip: …`."""
        return Group(self._draft, self._options)


@spelled
class PlanBuilder(Having, Generic[I]):
    """A plan in the making. `inputs` is a type (a model, dataclass, typed dict) or a JSON Schema."""

    @overload
    def __init__(self: PlanBuilder[Any], goal: str = "", *, inputs: dict[str, Any] | None = None) -> None: ...
    @overload
    def __init__(self, goal: str = "", *, inputs: type[I]) -> None: ...
    def __init__(self, goal: str = "", *, inputs: Any = None) -> None:
        super().__init__(_Draft(), {})
        self._head: dict[str, Json] = {"goal": goal} if goal else {}
        if inputs is not None:
            self._head["inputs"] = inputs if isinstance(inputs, dict) else schema_of(inputs)

    @property
    def inputs(self) -> I:
        """The inputs of a run."""
        return cast(I, _named("inputs"))

    @property
    def run(self) -> Any:
        """`run.id` and `run.started_at`."""
        return _named("run")

    def undo(
        self, result: object, tool: Tool[Callable[P, Any]], /, *args: P.args, **kwargs: P.kwargs
    ) -> None:
        """The call that takes the effect of a step back. The result of the step may be among its arguments."""
        step = self._draft.by_id[_step(result, self._draft)]
        args_ = rename_in(_arguments(tool, args, kwargs), {step["id"]: "result"})
        step["undo"] = {"tool": tool.name, **({"args": args_} if args_ else {})}

    def build(self, output: object = _UNSAID) -> Plan:
        """The plan. What is left unfinished (a `repeat` without `until`, an open group) is refused."""
        if self._draft.unfinished:
            raise BadInput(f"the repeat of {min(self._draft.unfinished)!r} has no end; say .until(…)")
        if len(self._draft.lists) > 1:
            raise BadInput("a group is still open; build the plan after its `with`")
        document = self._head | {"steps": self._draft.steps}
        if output is not _UNSAID:
            document["output"] = template(output)
        return Plan.model_validate(document).model_copy(deep=True)


class Repeat(Generic[R]):
    """A call that is made again until something holds: say what, with `until`."""

    def __init__(self, draft: _Draft, id: str) -> None:
        self._draft = draft
        self._id = id
        draft.unfinished.add(id)

    def until(
        self,
        condition: Callable[[R], bool],
        *,
        next: Callable[[R], Mapping[str, object]] | None = None,
        every: float | None = None,
        max: int | None = None,
    ) -> list[R]:
        """All results, in order. `next` gives the arguments of the next call that differ, `every` is in seconds."""
        step = self._draft.by_id[self._id]
        step["until"] = template(condition(_named("result")))
        if next is not None:
            step["next"] = template(next(_named("result")))
        step |= {key: value for key, value in (("every", every), ("max", max)) if value is not None}
        self._draft.unfinished.discard(self._id)
        return cast("list[R]", _named(self._id))


class Group:
    """A list of steps with one result; as a context manager, the steps written meanwhile are its own."""

    def __init__(self, draft: _Draft, options: Mapping[str, Json]) -> None:
        self._draft = draft
        self._options = dict(options)
        self._id = ""

    def __enter__(self) -> Group:
        self._open()
        return self

    def _open(self) -> None:
        inside: list[dict[str, Json]] = []
        self._id = self._draft.add(self._options, "group", {"steps": inside})
        self._draft.lists.append(inside)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._draft.lists.pop()

    def gives(self, value: V) -> V:
        """What outside sees of the group: its output, made inside; the result of the group."""
        self._draft.by_id[self._id]["output"] = template(value)
        return cast(V, _named(self._id))


class Each(Generic[T]):
    """A step, or with `with` a group, once per item: the result is a list in the order of the items.

    Where an item was skipped or failed there is null, which the types do not say.
    """

    def __init__(self, draft: _Draft, options: Mapping[str, Json]) -> None:
        self._group = Group(draft, options)
        self._having = Having(draft, options)
        self._as: str = options.get("as", "item")

    @property
    def item(self) -> T:
        """The item."""
        return cast(T, _named(self._as))

    @property
    def index(self) -> int:
        """The place of the item in the list, from 0."""
        return cast(int, _named("index"))

    def having(self, *, when: bool) -> Each[T]:
        """Only the items for which this holds; the others give null."""
        return Each(self._group._draft, self._group._options | {"when": template(when)})

    @overload
    def step(
        self, tool: Tool[Callable[P, Coroutine[Any, Any, R]]], /, *args: P.args, **kwargs: P.kwargs
    ) -> list[R]: ...
    @overload
    def step(self, tool: Tool[Callable[P, R]], /, *args: P.args, **kwargs: P.kwargs) -> list[R]: ...
    @overload
    def step(self, tool: str, /, **kwargs: Any) -> list[Any]: ...
    def step(self, tool: Any, /, *args: Any, **kwargs: Any) -> Any:
        """A call per item, all at once."""
        return self._having.step(tool, *args, **kwargs)

    @overload
    def repeat(
        self, tool: Tool[Callable[P, Coroutine[Any, Any, R]]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Repeat[R]: ...
    @overload
    def repeat(self, tool: Tool[Callable[P, R]], /, *args: P.args, **kwargs: P.kwargs) -> Repeat[R]: ...
    @overload
    def repeat(self, tool: str, /, **kwargs: Any) -> Repeat[Any]: ...
    def repeat(self, tool: Any, /, *args: Any, **kwargs: Any) -> Any:
        """A call per item, one after the other, until one satisfies `until`."""
        return self._having.repeat(tool, *args, **kwargs)

    def value(self, value: V) -> list[V]:
        """A value per item."""
        return cast("list[V]", self._having.value(value))

    def __enter__(self) -> Each[T]:
        self._group._open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._group.__exit__(kind, error, trace)

    def gives(self, value: V) -> list[V]:
        """What outside sees of the group, per item."""
        return cast("list[V]", self._group.gives(value))


def _named(name: str) -> Any:
    return Ref(name, frozenset({name}), tight=True)


def _options(
    id: str | None, when: object, after: Iterable[object], on_failure: OnFailure | None, per: Per | None
) -> dict[str, Json]:
    said: dict[str, Json] = {"id": id, "on_failure": on_failure, "per": per}
    said |= {"when": None if when is None else template(when), "after": [_id(step) for step in after] or None}
    return {key: value for key, value in said.items() if value is not None}


def _id(step: object) -> str:
    """The id of a step that is given by its result, its group or its id."""
    if isinstance(step, (Group, Each)):
        return step._id if isinstance(step, Group) else step._group._id
    if isinstance(step, Ref) and valid_id(step._said.text):
        return step._said.text
    if isinstance(step, str):
        return step
    raise BadInput(f"{step!r} is not the result of a step")


def _step(result: object, draft: _Draft) -> str:
    id = _id(result)
    if id not in draft.by_id:
        raise BadInput(f"no step is called {id!r}{did_you_mean(id, draft.by_id)}")
    return id


def _call(
    draft: _Draft,
    options: Mapping[str, Json],
    tool: Tool | str,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> str:
    name = tool if isinstance(tool, str) else tool.name
    given = _arguments(tool, args, kwargs)
    return draft.add(options, name, {"tool": name, **({"args": given} if given else {})})


def _arguments(tool: Tool | str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Json]:
    """Arguments by name. A `ToolContext` is for type checkers only: the engine gives the tool its own."""
    given = dict(kwargs)
    if args:
        if isinstance(tool, str):
            raise BadInput(f"name the arguments of {tool!r}")
        given = inspect.signature(tool.function).bind_partial(*args, **kwargs).arguments
    return {k: template(v) for k, v in given.items() if not isinstance(v, ToolContext)}
