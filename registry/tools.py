"""Tools: functions with a contract, checked when they are registered.

    @tool(effect="reads", timeout=10)
    def read_ledger(path: str, limit: float = 50) -> list[Payment]:
        '''Read the payments above a limit.

        Args:
            path: CSV file with payer, amount, day
        '''

The schema of the arguments comes from the annotations, descriptions from the docstring. A tool stays a function: called
directly it does what it did. A parameter annotated `ToolContext` is filled by the engine and is not in the schema.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeAlias, TypeVar, overload

from ..policies.canonical import digest
from ..policies.effect import Effect
from ..policies.errors import SchemaRefused, ToolRefused
from ..policies.expressions import Expression
from ..policies.failures import ToolFailure
from ..policies.permissions import Level
from ..policies.secrets import Secret
from ..policies.text import safe_text, shorten, with_article
from .attempt import ToolContext
from .likeness import check_declared_stand_in, check_stand_in
from .options import (
    LONGEST_DESCRIPTION,
    OPTIONS,
    UNSET,
    Unset,
    check_options,
    check_takes_object,
    checked_name,
    checked_schema,
    checked_text,
    name_of,
    secret_refs,
)
from .schema import Schema, compile_schema
from .signatures import ArgumentsRefused, check_refs, read_signature
from .values import Json, copy_plain

P = ParamSpec("P")
R = TypeVar("R")
if TYPE_CHECKING:  # at run time nothing needs the default, which `typing` knows from Python 3.13 on
    from typing_extensions import TypeVar as TypeVarWithDefault

    F = TypeVarWithDefault("F", default=Any, covariant=True)
else:
    F = TypeVar("F", covariant=True)

__all__ = ["UNSET", "Arguments", "ArgumentsRefused", "Tool", "ToolContext", "Unset", "result_schema", "tool"]

AnsweredBy = Literal["code", "person", "plan"]

ApprovalNeed: TypeAlias = "bool | Literal['each'] | Expression"
"""True: an approved plan covers the call where its arguments are literals; "each": every call is asked for; an
expression over `args`: calls for which it does not give false are asked for."""


Arguments = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and named arguments of a function, as values of its own types."""
_Bind = Callable[[dict[str, Json], ToolContext], Arguments]
_NO_SECRETS: Mapping[str, Secret] = {}


@dataclasses.dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Tool(Generic[F]):
    """One thing that can happen, and the contract it happens under. Made by `@tool` or `Tool.declare`.

    To a type checker it is generic in the type of its function: a call of a tool is checked as one of the function. A
    plain `Tool` is one of any function.
    """

    name: str
    description: str
    input: Schema
    """What it takes: an object, read closed."""
    output: Schema | None
    """What it gives; None where it does not say."""
    effect: Effect = Effect.ACTS
    timeout: float | None = None
    """Seconds for one attempt, None for no bound; says nothing if `timeout_unset`."""
    timeout_unset: bool = True
    permissions: tuple[str, ...] = ()
    version: str = ""
    title: str = ""
    examples: tuple[dict[str, Json], ...] = ()
    """Arguments of calls that make sense, valid against `input`."""
    soft_failure: Expression | None = None
    """Over `result`: true, or a text, where a successful answer is a failure all the same."""
    requires_approval: ApprovalNeed = False
    level: Level = Level.LOW
    """How much harm it can do: policies refuse tools above a level, or want them approved from one on."""
    tags: tuple[str, ...] = ()
    """Words to choose and search by."""
    cost: float = 0.0
    """What one call costs, in the unit of the budget; reserved before it begins."""
    host: str = ""
    """The host that it calls: limits and Retry-After hold for all tools of a host together."""
    secret_refs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Parameters that the engine fills with secrets, and the names of these; they are in no schema."""
    sealed: frozenset[str] = frozenset()
    """Those of them that take the `Secret` itself; others take its text."""
    simulate: Callable[..., Any] | None = None
    """Stands in for the function in a rehearsal: same arguments, no effect."""
    reconcile: Callable[..., Any] | None = None
    """Asks the service what became of a call whose outcome nobody knows."""
    undo: str = ""
    """The tool that takes an effect back, as a hint to planners and reviewers."""
    result_from: tuple[str, ...] = ()
    """Arguments that say what the result is, of which one is given: a JSON Schema, or a list to choose from."""
    model_calls: int | None = 0
    """The most questions that one attempt asks of a model, None for no bound: reserved from the budget of the run."""
    tool_calls: int | None = 0
    """The most calls of other tools that one attempt makes, if it is a plan; None for no bound."""
    answered_by: AnsweredBy = "code"
    """Who gives the result: the code of the tool, a person who is asked, or a plan that runs as a run of its own."""
    binds: Mapping[str, Json] | None = None
    """What an approval binds besides: of a plan its digest, and the fingerprints of its tools."""
    is_async: bool = False
    contextual: bool = True
    """Whether the function may be given a `ToolContext`."""
    origin: str = ""
    """Where it comes from, for messages: a module and name, a server."""
    function: Callable[..., Any]
    binder: _Bind
    recorded_source: str | Unset | None = UNSET
    """The source digest of a tool that is known from a recorded contract only."""

    @classmethod
    def declare(
        cls,
        name: str,
        description: str = "",
        *,
        input_schema: Mapping[str, Any],
        output_schema: Mapping[str, Any] | bool | None = None,
        call: Callable[..., Any] | None = None,
        origin: str = "",
        **options: Any,
    ) -> Tool:
        """A tool known by its schemas. `call` takes the arguments as one dict and, if it has a second parameter, the
        `ToolContext`; sync or async. Without it the tool can be planned with, not called.

        The description and those in the schemas are taken for a stranger's: what cannot be seen is escaped.
        """
        check_options(options)
        function = call or _absent(name)
        takes_context = _takes_two(function)
        refs = secret_refs(options.get("secret_refs"), name)
        for what in ("simulate", "reconcile"):
            if callable(options.get(what)):
                check_declared_stand_in(options[what], what, name)

        def bind(args: dict[str, Json], context: ToolContext) -> Arguments:
            given = copy_plain(args)
            return ((given, context) if takes_context else (given,)), {}

        return _assembled(
            name,
            function=function,
            binder=bind,
            description=description,
            input_schema=_without(refs, _with_safe_text(input_schema), name),
            output_schema=_with_safe_text(output_schema),
            is_async=inspect.iscoroutinefunction(_called(function)),
            contextual=takes_context,
            origin=origin or (_origin(call) if call else "declared"),
            **options,
        )

    @classmethod
    def from_contract(cls, contract: Mapping[str, Any]) -> Tool:
        """The tool a recorded contract describes, which cannot be called; its own contract is the same again."""
        timeout = contract["timeout"]
        made = cls.declare(
            contract["name"],
            contract["description"],
            input_schema=contract["input"],
            output_schema=contract["output"],
            effect=contract["effect"],
            permissions=contract["permissions"],
            version=contract["version"],
            timeout=UNSET if timeout == "policy" else timeout,
            requires_approval=contract["requires_approval"],
            soft_failure=contract["soft_failure"],
            origin="a recorded contract",
            **{name: contract[name] for name in _SELDOM if name in contract and name != "secret_refs"},
        )
        beside = ("answered_by", "binds", "secret_refs", "tool_calls")
        said = {name: contract[name] for name in beside if name in contract}
        return dataclasses.replace(made, recorded_source=contract["source"], **said)

    def __post_init__(self) -> None:
        for attribute in functools.WRAPPER_ASSIGNMENTS:
            if hasattr(self.function, attribute):
                object.__setattr__(self, attribute, getattr(self.function, attribute))
        object.__setattr__(self, "__wrapped__", self.function)

    def __repr__(self) -> str:
        return f"<Tool {self.name}>"

    def __call__(self: Tool[Callable[P, R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself, as if it were no tool."""
        return self.function(*args, **kwargs)  # type: ignore[no-any-return]

    def bind(
        self, args: dict[str, Json], context: ToolContext, secrets: Mapping[str, Secret] = _NO_SECRETS
    ) -> Arguments:
        """The positional and keyword arguments for valid plain `args`. Raises `ArgumentsRefused`.

        Nothing in them is shared with `args`. `secrets` are by parameter, one for each of `secret_refs`.
        """
        positional, named = self.binder(args, context)
        if not secrets:
            return positional, named
        given = positional[0] if positional else named
        for parameter, secret in secrets.items():
            given[parameter] = secret if parameter in self.sealed else secret.reveal()
        return positional, named

    def invoke(
        self, args: dict[str, Json], context: ToolContext, secrets: Mapping[str, Secret] = _NO_SECRETS
    ) -> Any:
        """Call the function with valid plain `args`; where `is_async`, what it gives must be awaited."""
        positional, named = self.bind(args, context, secrets)
        return self.function(*positional, **named)

    def contract(self) -> dict[str, Json]:
        """What an approval binds, as fresh plain JSON. `timeout` is "policy" where the tool states none."""
        need = self.requires_approval
        said: dict[str, tuple[Json, Json]] = {
            **{name: (_listed(getattr(self, name)), usual) for name, usual in _SELDOM.items()},
            "tool_calls": (self.tool_calls, 0),
            "answered_by": (self.answered_by, "code"),
            "binds": (copy_plain(self.binds), None),
        }
        return {
            "name": self.name,
            "description": self.description,
            "input": copy_plain(self.input.document),
            "output": None if self.output is None else copy_plain(self.output.document),
            "effect": self.effect.value,
            "permissions": list(self.permissions),
            "version": self.version,
            "timeout": "policy" if self.timeout_unset else self.timeout,
            "requires_approval": need.text if isinstance(need, Expression) else need,
            "soft_failure": None if self.soft_failure is None else self.soft_failure.text,
            "source": self.source_digest,
            **{name: value for name, (value, usual) in said.items() if value != usual},
        }

    @property
    def resumable(self) -> bool:
        """Whether an attempt that was cut short may simply be taken up again: what it has done is not done twice."""
        return self.effect.repeatable or self.answered_by == "plan"

    @functools.cached_property
    def fingerprint(self) -> str:
        """`sha256:…` of the contract."""
        return digest(self.contract())

    @functools.cached_property
    def source_digest(self) -> str | None:
        """`sha256:…` of the source text of the function, None where it cannot be read. Read once, when first asked."""
        if not isinstance(self.recorded_source, Unset):
            return self.recorded_source
        try:
            source = inspect.getsource(inspect.unwrap(_called(self.function)))
        except (OSError, TypeError, ValueError):
            return None
        return "sha256:" + hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()

    def renamed(self, name: str) -> Tool:
        """The same tool under another name."""
        return dataclasses.replace(self, name=checked_name(name))


_SELDOM: dict[str, Json] = {
    "cost": 0.0,
    "host": "",
    "level": "low",
    "model_calls": 0,
    "result_from": [],
    "secret_refs": {},
    "tags": [],
    "undo": "",
}
"""What a contract says only where it is not this."""


def _listed(value: Any) -> Json:
    return list(value) if isinstance(value, tuple) else dict(value) if isinstance(value, Mapping) else value


def result_schema(tool: Tool, args: Mapping[str, Json]) -> dict[str, Json] | None:
    """The JSON Schema that these arguments (values, not templates) say the result of a call has; None if they do not.

    A list says: one of these, by text or by `id`. A schema is read closed. Raises `SchemaRefused` for what is neither,
    for more than one of them, and where a person is to answer and nothing says what.
    """
    given = [name for name in tool.result_from if args.get(name) is not None]
    if len(given) > 1 or (not given and tool.answered_by == "person"):
        raise SchemaRefused(f"give {tool.name!r} exactly one of {' and '.join(tool.result_from)}")
    if not given:
        return None
    said = args[given[0]]
    if isinstance(said, list):
        return {"enum": _choices(said, given[0])}
    if not isinstance(said, dict):
        raise SchemaRefused(f"{given[0]} must be a JSON Schema, an object, not {shorten(repr(said), 40)}")
    return dict(compile_schema(said, closed=True).document)


def _choices(options: list[Json], name: str) -> list[Json]:
    """What can be chosen from a list of texts, numbers and objects with an `id`."""
    found: dict[str | int, None] = {}
    for place, option in enumerate(options):
        choice = option.get("id") if isinstance(option, dict) else option
        if isinstance(choice, bool) or not isinstance(choice, str | int):
            raise SchemaRefused(f"{name}[{place}] must be a text, a number, or an object with such an `id`")
        if choice in found:
            raise SchemaRefused(
                f"{name} holds {shorten(repr(choice), 60)} twice; each needs an `id` of its own"
            )
        found[choice] = None
    if not found:
        raise SchemaRefused(f"{name} is empty: there is nothing to choose")
    return list(found)


@overload
def tool(function: Callable[P, R], /) -> Tool[Callable[P, R]]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    title: str = "",
    effect: Effect | str = Effect.ACTS,
    timeout: float | Unset | None = UNSET,
    permissions: Iterable[str] | str = (),
    version: str = "",
    examples: Iterable[Mapping[str, Any]] = (),
    soft_failure: str | None = None,
    requires_approval: bool | str = False,
    level: Level | str = Level.LOW,
    tags: Iterable[str] | str = (),
    cost: float = 0.0,
    host: str = "",
    secret_refs: Mapping[str, str] | None = None,
    simulate: Callable[..., Any] | None = None,
    reconcile: Callable[..., Any] | None = None,
    undo: str = "",
    result_from: Iterable[str] | str = (),
    model_calls: int | None = 0,
) -> Callable[[Callable[P, R]], Tool[Callable[P, R]]]: ...


def tool(
    function: Callable[..., Any] | None = None, /, *, name: str | None = None, **options: Any
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function, as `@tool` or `@tool(effect="reads", …)`; raises `ToolRefused` for what it cannot be.

    effect             "reads", "writes" (may be repeated), "acts" (must not; the default)
    timeout            seconds for one attempt; None: no bound; unset: as the policy says
    permissions        what the caller must hold
    examples           arguments of calls that make sense, as dicts
    soft_failure       expression over `result`: where it is true or a text, the answer is a failure
    requires_approval  True, "each" to ask at every call, or an expression over `args` that says when to ask
    level              "low" (the default), "medium", "high" or "critical": the harm it can do
    tags               words to choose and search by
    cost               what one call costs, in the unit of the budget
    host               the host it calls, for limits that tools of one host share
    secret_refs        which parameters the engine fills with which secrets: {"token": "CRM_TOKEN"}
    simulate           a function of the same arguments that stands in for it in a rehearsal
    reconcile          a function of the same arguments that asks what became of a call
    undo               the tool that takes its effect back
    result_from        name of the argument that holds the JSON Schema of the result (or a list to choose from)
    model_calls        the most questions that one attempt asks of a model; None: no bound
    """
    if function is None:
        check_options(options)
        return lambda wrapped: _from_function(wrapped, name, dict(options))
    return _from_function(function, name, options)


def _from_function(function: Callable[..., Any], name: str | None, options: dict[str, Any]) -> Tool:
    if isinstance(function, Tool):
        raise ToolRefused(f"{function.name!r} is a tool already; use .renamed() for another name")
    if not callable(function):
        raise ToolRefused(f"a tool is made of a function, not of {with_article(type(function).__name__)}")
    name = checked_name(name_of(function) if name is None else name)
    refs = secret_refs(options.get("secret_refs"), name)
    signature = read_signature(function, name, ToolContext, refs)
    convert, slot = signature.bind, signature.context

    def bind(args: dict[str, Json], context: ToolContext) -> Arguments:
        given = convert(args)
        if slot is not None:
            given[slot] = context
        return (), given

    description = options.pop("description", None)
    made = _assembled(
        name,
        function=function,
        binder=bind,
        description=signature.description if description is None else description,
        input_schema=signature.input,
        output_schema=signature.output,
        is_async=signature.is_async,
        contextual=slot is not None,
        origin=_origin(function),
        **options,
    )
    _check_defaults(made)
    arguments = made.input.document["properties"]
    for what, stand_in in (("simulate", made.simulate), ("reconcile", made.reconcile)):
        if stand_in is not None:
            check_stand_in(stand_in, what, name, arguments, refs if what == "reconcile" else ())
    if refs:
        sealed = frozenset(parameter for parameter, itself in signature.secrets.items() if itself)
        return dataclasses.replace(made, sealed=sealed)
    return made


def _assembled(
    name: str,
    *,
    function: Callable[..., Any],
    binder: _Bind,
    description: str,
    input_schema: Json,
    output_schema: Json | None,
    is_async: bool,
    contextual: bool,
    origin: str,
    **options: Any,
) -> Tool:
    checked_name(name)
    takes = checked_schema(input_schema, f"the input schema of tool {name!r}", closed=True)
    check_takes_object(takes, name)
    gives = (
        None
        if output_schema is None
        else checked_schema(output_schema, f"the output schema of tool {name!r}")
    )
    said = {option: OPTIONS[option](value, name, takes) for option, value in options.items()}
    timeout = said.pop("timeout", UNSET)
    return Tool(
        name=name,
        description=checked_text(description, f"the description of tool {name!r}"),
        input=takes,
        output=gives,
        timeout=None if timeout is UNSET else timeout,
        timeout_unset=timeout is UNSET,
        is_async=is_async,
        contextual=contextual,
        origin=origin,
        function=function,
        binder=binder,
        **said,
    )


def _without(refs: Mapping[str, str], document: Any, name: str) -> Any:
    """An input schema without the parameters that get secrets."""
    if not refs:
        return document
    properties = document.get("properties") if isinstance(document, dict) else None
    known = properties if isinstance(properties, dict) else {}
    check_refs(refs, known, name)
    rest: dict[str, Json] = {**document, "properties": {k: v for k, v in known.items() if k not in refs}}
    if isinstance(rest.get("required"), list):
        rest["required"] = [required for required in rest["required"] if required not in refs]
    return rest


def _check_defaults(made: Tool) -> None:
    """A default that its own schema refuses could not be written into a plan."""
    document = made.input.document
    defaults = {name: part["default"] for name, part in document["properties"].items() if "default" in part}
    if not defaults:
        return
    alone = {name: said for name, said in document.items() if name != "required"}
    for problem in compile_schema(alone, closed=True).problems(defaults):
        name = problem.pointer.partition("/")[2].partition("/")[0]
        hint = f"; write {name}: … | None" if defaults.get(name, "") is None else ""
        raise ToolRefused(f"the default of parameter {name!r} of tool {made.name!r} {problem.message}{hint}")


# Functions of all sorts.


def _called(function: Callable[..., Any]) -> Callable[..., Any]:
    """The code that runs: inside partials, and `__call__` of objects."""
    while isinstance(function, functools.partial):
        function = function.func
    return function if inspect.isroutine(function) else type(function).__call__


def _origin(function: Callable[..., Any]) -> str:
    called = function
    while isinstance(called, functools.partial):
        called = called.func
    home = called if hasattr(called, "__qualname__") else type(called)
    return f"{home.__module__}.{home.__qualname__}"


def _takes_two(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return False
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len(positional) > 1 and (positional[1].default is inspect.Parameter.empty)


def _absent(name: str) -> Callable[..., Any]:
    def absent(args: dict[str, Json]) -> Json:
        raise ToolFailure(
            f"tool {name!r} is known by its schema only; nothing is behind it", code="not_callable"
        )

    return absent


_DATA = frozenset({"enum", "const", "default", "examples"})


def _with_safe_text(document: Any) -> Any:
    """A schema with its titles and descriptions made safe to show."""
    if isinstance(document, list):
        return [_with_safe_text(part) for part in document]
    if not isinstance(document, dict):
        return document
    out = {}
    for key, value in document.items():
        if key in ("title", "description") and isinstance(value, str):
            out[key] = safe_text(value, LONGEST_DESCRIPTION)
        else:
            out[key] = value if key in _DATA else _with_safe_text(value)
    return out
