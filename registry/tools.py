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
import math
import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeVar, overload

from ..policies.canonical import digest
from ..policies.effect import Effect
from ..policies.errors import SchemaRefused, ToolRefused
from ..policies.expressions import Expression, ExpressionError, parse
from ..policies.failures import ToolFailure
from ..policies.permissions import ANYONE, Principal
from ..policies.text import did_you_mean, safe_text, shorten
from .schema import Schema, compile_schema
from .signatures import ArgumentsRefused, read_signature
from .values import Json, Unserialisable, copy_plain, to_plain

P = ParamSpec("P")
R = TypeVar("R")
if TYPE_CHECKING:  # at run time nothing needs the default, which `typing` knows from Python 3.13 on
    from typing_extensions import TypeVar as TypeVarWithDefault

    F = TypeVarWithDefault("F", default=Any, covariant=True)
else:
    F = TypeVar("F", covariant=True)

__all__ = ["UNSET", "ArgumentsRefused", "Tool", "ToolContext", "result_schema", "tool"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_PERMISSION = re.compile(r"[A-Za-z0-9_-]+(?:[:.][A-Za-z0-9_-]+)*")
_LONGEST_DESCRIPTION = 8192


class Unset(Enum):
    """Type of `UNSET`."""

    UNSET = "unset"


UNSET = Unset.UNSET
"""The timeout of a tool that states none: the policy's `tool_timeout` holds. None means that there is no bound."""

AnsweredBy = Literal["code", "person", "plan"]

ApprovalNeed = Literal[False, True, "each"]
"""True: an approved plan covers the call where its arguments are literals; "each": every call is asked for."""


def _unnoted(text: str) -> None:
    """Where nobody listens, a note is lost."""


def _uncounted(used: Mapping[str, int]) -> None:
    """Where nobody counts, nothing is."""


@dataclasses.dataclass(frozen=True, slots=True)
class ToolContext:
    """What the engine tells a tool about the call; a tool gets it by annotating a parameter with this type.

    `idempotency_key` is the same for every attempt of one call, also after a resume: hand it to services that can
    de-duplicate. `timeout` is what this attempt has, in seconds. `note` writes a line into the run. `model_calls` is
    how many questions to a model it may ask (None: no bound); `count` adds to what it used, as
    `{"model_calls": 1, "input_tokens": 812}`.
    """

    run_id: str = ""
    path: tuple[str | int, ...] = ()
    attempt: int = 1
    idempotency_key: str = ""
    principal: Principal = ANYONE
    timeout: float | None = None
    note: Callable[[str], None] = _unnoted
    model_calls: int | None = None
    count: Callable[[Mapping[str, int]], None] = _uncounted

    @property
    def step(self) -> str:
        """The step, with the items it runs for: `refund[3]`."""
        return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path)[1:]


Arguments = tuple[tuple[Any, ...], dict[str, Any]]
_Bind = Callable[[dict[str, Json], ToolContext], Arguments]


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
        _check_options(options)
        function = call or _absent(name)
        takes_context = _takes_two(function)

        def bind(args: dict[str, Json], context: ToolContext) -> Arguments:
            given = copy_plain(args)
            return ((given, context) if takes_context else (given,)), {}

        return _assembled(
            name,
            function=function,
            binder=bind,
            description=description,
            input_schema=_with_safe_text(input_schema),
            output_schema=_with_safe_text(output_schema),
            is_async=inspect.iscoroutinefunction(_called(function)),
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
            result_from=contract.get("result_from", ()),
            model_calls=contract.get("model_calls", 0),
            origin="a recorded contract",
        )
        said = {name: contract[name] for name in ("answered_by", "binds", "tool_calls") if name in contract}
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

    def bind(self, args: dict[str, Json], context: ToolContext) -> Arguments:
        """The positional and keyword arguments for valid plain `args`. Raises `ArgumentsRefused`.

        Nothing in them is shared with `args`.
        """
        return self.binder(args, context)

    def invoke(self, args: dict[str, Json], context: ToolContext) -> Any:
        """Call the function with valid plain `args`; where `is_async`, what it gives must be awaited."""
        positional, named = self.binder(args, context)
        return self.function(*positional, **named)

    def contract(self) -> dict[str, Json]:
        """What an approval binds, as fresh plain JSON. `timeout` is "policy" where the tool states none."""
        said: dict[str, tuple[Json, Json]] = {
            "result_from": (list(self.result_from), []),
            "model_calls": (self.model_calls, 0),
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
            "requires_approval": self.requires_approval,
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
        return dataclasses.replace(self, name=_checked_name(name))


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
    requires_approval: ApprovalNeed = False,
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
    requires_approval  True, or "each" to ask at every call
    result_from        name of the argument that holds the JSON Schema of the result (or a list to choose from)
    model_calls        the most questions that one attempt asks of a model; None: no bound
    """
    if function is None:
        _check_options(options)
        return lambda wrapped: _from_function(wrapped, name, dict(options))
    return _from_function(function, name, options)


_OPTIONS = frozenset(
    {"description", "effect", "examples", "permissions", "requires_approval", "soft_failure"}
)
_OPTIONS |= {"model_calls", "result_from", "timeout", "title", "version"}


def _check_options(options: Iterable[str]) -> None:
    for option in options:
        if option not in _OPTIONS:
            known = _OPTIONS | {"name"}
            guess = did_you_mean(option, known) or f"; there are {', '.join(sorted(known))}"
            raise ToolRefused(f"a tool has no option {option!r}{guess}")


def _from_function(function: Callable[..., Any], name: str | None, options: dict[str, Any]) -> Tool:
    if isinstance(function, Tool):
        raise ToolRefused(f"{function.name!r} is a tool already; use .renamed() for another name")
    if not callable(function):
        raise ToolRefused(f"a tool is made of a function, not of a {type(function).__name__}")
    name = _checked_name(_name_of(function) if name is None else name)
    signature = read_signature(function, name, ToolContext)
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
        origin=_origin(function),
        **options,
    )
    _check_defaults(made)
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
    origin: str,
    title: str = "",
    effect: Effect | str = Effect.ACTS,
    timeout: float | Unset | None = UNSET,
    permissions: Iterable[str] | str = (),
    version: str = "",
    examples: Iterable[Mapping[str, Any]] = (),
    soft_failure: str | None = None,
    requires_approval: ApprovalNeed = False,
    result_from: Iterable[str] | str = (),
    model_calls: int | None = 0,
) -> Tool:
    _checked_name(name)
    takes = _schema(input_schema, f"the input schema of tool {name!r}", closed=True)
    _check_takes_object(takes, name)
    return Tool(
        name=name,
        description=_text(description, f"the description of tool {name!r}"),
        input=takes,
        output=None
        if output_schema is None
        else _schema(output_schema, f"the output schema of tool {name!r}"),
        effect=_effect(effect, name),
        timeout=None if isinstance(timeout, Unset) else _timeout(timeout, name),
        timeout_unset=timeout is UNSET,
        permissions=_permissions(permissions, name),
        version=_text(version, f"the version of tool {name!r}"),
        title=_text(title, f"the title of tool {name!r}"),
        examples=_examples(examples, takes, name),
        soft_failure=None if soft_failure is None else _soft_failure(soft_failure, name),
        requires_approval=_approval_need(requires_approval, name),
        result_from=_result_from(result_from, takes, name),
        model_calls=_model_calls(model_calls, name),
        is_async=is_async,
        origin=origin,
        function=function,
        binder=binder,
    )


# Each option, checked.


def _name_of(function: Callable[..., Any]) -> str:
    called = function
    while isinstance(called, functools.partial):
        called = called.func
    name = getattr(called, "__name__", type(called).__name__)
    if name == "<lambda>":
        raise ToolRefused("a lambda has no name, no annotations and no docstring; write a function")
    return str(name)


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ToolRefused(
            f"{shorten(repr(name), 80)} cannot name a tool: letters, digits, '_', '.' and '-', at most 64, "
            "a letter or '_' first"
        )
    return name


def _text(text: object, what: str) -> str:
    if not isinstance(text, str):
        raise ToolRefused(f"{what} must be text, not {shorten(repr(text), 40)}")
    return safe_text(text.strip(), _LONGEST_DESCRIPTION)


def _schema(document: Json, what: str, *, closed: bool = False) -> Schema:
    try:
        return compile_schema(document, closed=closed)
    except SchemaRefused as error:
        raise ToolRefused(f"{what} is refused: {error}") from error


def _check_takes_object(schema: Schema, name: str) -> None:
    said = schema.document.get("type", "object") if isinstance(schema.document, dict) else None
    if said != "object":
        raise ToolRefused(f"the input schema of tool {name!r} must be of type object: arguments have names")


def _effect(effect: Any, name: str) -> Effect:
    try:
        return Effect(effect)
    except ValueError as error:
        guess = did_you_mean(str(effect), [e.value for e in Effect])
        raise ToolRefused(
            f"tool {name!r} has effect {shorten(repr(effect), 40)}; there are reads, writes, acts{guess}"
        ) from error


def _timeout(timeout: object, name: str) -> float | None:
    if timeout is None:
        return None
    fine = isinstance(timeout, (int, float)) and not isinstance(timeout, bool) and 0 < timeout < math.inf
    if not fine:
        raise ToolRefused(
            f"the timeout of tool {name!r} is {shorten(repr(timeout), 40)}; "
            "it must be seconds above 0, or None for no bound"
        )
    return float(timeout)  # type: ignore[arg-type]


def _permissions(permissions: object, name: str) -> tuple[str, ...]:
    given = (permissions,) if isinstance(permissions, str) else permissions
    if not isinstance(given, Iterable):
        raise ToolRefused(f"the permissions of tool {name!r} must be texts like 'crm:read'")
    found = tuple(given)
    for permission in found:
        if not isinstance(permission, str) or not _PERMISSION.fullmatch(permission):
            raise ToolRefused(
                f"tool {name!r} cannot need the permission {shorten(repr(permission), 40)}; "
                "name one thing, like 'crm:read', without wildcards"
            )
    return found


def _examples(examples: object, takes: Schema, name: str) -> tuple[dict[str, Json], ...]:
    if isinstance(examples, (str, Mapping)) or not isinstance(examples, Iterable):
        raise ToolRefused(f"the examples of tool {name!r} must be a list of arguments, each a dict")
    return tuple(
        _example(example, takes, f"example {n} of tool {name!r}") for n, example in enumerate(examples, 1)
    )


def _example(example: object, takes: Schema, what: str) -> dict[str, Json]:
    try:
        plain = to_plain(example)
    except Unserialisable as error:
        raise ToolRefused(f"{what} is no JSON: {error}") from error
    problems = takes.problems(plain)
    if problems:
        raise ToolRefused(f"{what} is not valid: {problems[0].pointer or 'it'} {problems[0].message}")
    return dict(plain)


def _soft_failure(text: object, name: str) -> Expression:
    what = f"the soft failure of tool {name!r}"
    if not isinstance(text, str):
        raise ToolRefused(f"{what} must be an expression as text, not {shorten(repr(text), 40)}")
    try:
        expression = parse(text)
    except ExpressionError as error:
        raise ToolRefused(f"{what} is no expression: {error}") from error
    strange = sorted(expression.names - {"result"})
    if strange:
        raise ToolRefused(f"{what} knows only 'result', not {strange[0]!r}")
    return expression


def _approval_need(need: object, name: str) -> ApprovalNeed:
    if need is True or need is False:
        return need
    if need == "each":
        return "each"
    raise ToolRefused(
        f"requires_approval of tool {name!r} is {shorten(repr(need), 40)}; it is True, False or 'each'"
    )


def _result_from(names: object, takes: Schema, name: str) -> tuple[str, ...]:
    given = (names,) if isinstance(names, str) else names
    if not isinstance(given, Iterable):
        raise ToolRefused(
            f"result_from of tool {name!r} must name an argument, not {shorten(repr(names), 40)}"
        )
    known, found = takes.document.get("properties", {}), tuple(given)
    for each in found:
        if each not in known:
            raise ToolRefused(
                f"tool {name!r} has no argument {shorten(repr(each), 40)} to take its result's type from"
                + did_you_mean(str(each), known)
            )
    return found


def _model_calls(most: object, name: str) -> int | None:
    if most is None:
        return None
    if isinstance(most, bool) or not isinstance(most, int) or most < 0:
        raise ToolRefused(
            f"model_calls of tool {name!r} is {shorten(repr(most), 40)}; it is a number from 0, or None"
        )
    return most


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
            out[key] = safe_text(value, _LONGEST_DESCRIPTION)
        else:
            out[key] = value if key in _DATA else _with_safe_text(value)
    return out
