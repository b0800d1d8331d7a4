"""What a Python function takes and gives, as JSON Schemas, and how JSON arguments become its Python arguments.

    annotations --pydantic--> input schema, output schema
    plain JSON, validated --bind--> keyword arguments

Where every parameter is plain JSON already (text, numbers, true or false, null, lists and dicts of them) the arguments
go in as they are, containers copied; otherwise pydantic makes the typed objects, in strict JSON mode.
"""

from __future__ import annotations

import functools
import inspect
import json
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from ..policies.errors import ToolRefused
from ..policies.failures import Kind, ToolFailure
from ..policies.secrets import Secret
from ..policies.text import did_you_mean, shorten
from .docstrings import read_docstring
from .values import Json, Unserialisable, copy_plain, to_plain

__all__ = ["ArgumentsRefused", "Signature", "check_refs", "read_signature", "schema_of", "slot_of"]

_NONE: Mapping[str, str] = {}

Binder = Callable[[dict[str, Json]], dict[str, Any]]
"""From validated plain arguments to keyword arguments; nothing in them is shared."""


class ArgumentsRefused(ToolFailure):
    """Arguments that fit the schema and still make no Python values: a validator of the tool's own types said no."""

    def __init__(self, message: str) -> None:
        super().__init__(message, kind=Kind.BAD_ARGS, code="conversion")


class Signature(NamedTuple):
    """A function as a tool: `context` is the name of the parameter that takes the `ToolContext`, if any."""

    description: str
    input: dict[str, Json]
    output: Json | None
    context: str | None
    secrets: dict[str, bool]
    """Parameters that the engine fills with secrets, and whether each takes the `Secret` itself or its text."""
    bind: Binder
    is_async: bool


class _Parameter(NamedTuple):
    name: str
    hint: Any
    default: Any
    """`inspect.Parameter.empty` where there is none."""


def read_signature(
    function: Callable[..., Any], name: str, context: type, refs: Mapping[str, str] = _NONE
) -> Signature:
    """What the function is as a tool; `context` is the type that marks the injected parameter, `refs` are its secrets.

    Raises `ToolRefused` with a sentence for what cannot be a tool.
    """
    code = _code(function)
    if inspect.isgeneratorfunction(code) or inspect.isasyncgenfunction(code):
        raise ToolRefused(f"tool {name!r} is a generator; return a list")
    hints = _hints(code, name)
    parameters = _parameters(function, hints, name)
    injected = [p.name for p in parameters if _speaks_of(p.hint, context)]
    if len(injected) > 1:
        raise ToolRefused(f"tool {name!r} has two parameters of type {context.__name__}; one is enough")
    secrets = _secrets(parameters, refs, name)
    taken = [p for p in parameters if p.name not in injected and p.name not in secrets]
    description, said = read_docstring(inspect.getdoc(code))
    model = _model(taken, said, name)
    return Signature(
        description=description,
        input=_input(model, taken, name),
        output=_output(hints.get("return", Any), name),
        context=injected[0] if injected else None,
        secrets=secrets,
        bind=_binder(taken, model),
        is_async=inspect.iscoroutinefunction(code),
    )


def slot_of(function: Callable[..., Any], name: str, context: type) -> str | None:
    """The parameter that takes the `ToolContext`, if the function has one. Raises `ToolRefused`."""
    code = _code(function)
    hints = _hints(code, name)
    return next((n for n, hint in hints.items() if n != "return" and _speaks_of(hint, context)), None)


def schema_of(kind: Any) -> dict[str, Json]:
    """The JSON Schema of what a type (a model, dataclass, typed dict) is made from. Raises `ToolRefused`."""
    try:
        document = TypeAdapter(kind).json_schema(schema_generator=_Schemas)
    except PydanticUserError as error:
        name = getattr(kind, "__name__", kind)
        raise ToolRefused(f"{shorten(name, 60)} makes no schema: {shorten(error, 160)}") from error
    document.pop("title", None)
    return document


def _code(function: Callable[..., Any]) -> Callable[..., Any]:
    """Where the annotations and the docstring stand: inside partials, and in `__call__` of objects."""
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, type):
        raise ToolRefused(f"{function.__name__} is a class; make a function that returns what the plan needs")
    if inspect.isroutine(function):
        return function
    return type(function).__call__


def _hints(code: Callable[..., Any], name: str) -> dict[str, Any]:
    try:
        return get_type_hints(code, include_extras=True)
    except NameError as error:
        raise ToolRefused(
            f"tool {name!r} is annotated with {error.name!r}, which its module does not know; "
            "define or import it at the top of the module"
        ) from error
    except (TypeError, AttributeError, SyntaxError) as error:
        raise ToolRefused(
            f"the annotations of tool {name!r} cannot be read: {shorten(error, 120)}"
        ) from error


def _parameters(function: Callable[..., Any], hints: dict[str, Any], name: str) -> list[_Parameter]:
    try:
        signature = inspect.signature(function)
    except ValueError as error:
        raise ToolRefused(f"tool {name!r} does not say what it takes; wrap it in a function") from error
    fixed = _fixed(function)
    found = [_parameter(p, hints, name) for p in signature.parameters.values() if p.name not in fixed]
    return found


def _fixed(function: Callable[..., Any]) -> set[str]:
    """Parameters that a partial has settled by keyword: nobody may give them again."""
    names: set[str] = set()
    while isinstance(function, functools.partial):
        names |= set(function.keywords)
        function = function.func
    return names


def _parameter(parameter: inspect.Parameter, hints: dict[str, Any], name: str) -> _Parameter:
    where = f"parameter {parameter.name!r} of tool {name!r}"
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
        raise ToolRefused(
            f"tool {name!r} takes {stars}{parameter.name}; name each parameter, or take a list or dict"
        )
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise ToolRefused(f"{where} is positional-only; arguments have names, so drop the '/'")
    if parameter.name not in hints:
        bound = "; make a tool of the bound method" if parameter.name in ("self", "cls") else ""
        hint = bound or f"; write what it takes, like {parameter.name}: str"
        raise ToolRefused(f"{where} has no annotation{hint}")
    if isinstance(parameter.default, FieldInfo):
        raise ToolRefused(f"{where} has Field(...) as its default; write Annotated[..., Field(...)] instead")
    return _Parameter(parameter.name, hints[parameter.name], parameter.default)


def _speaks_of(hint: Any, wanted: Any) -> bool:
    """Whether an annotation is this type, or it is one of several."""
    if get_origin(hint) is Annotated:
        return _speaks_of(get_args(hint)[0], wanted)
    if get_origin(hint) in (Union, types.UnionType):
        return any(_speaks_of(part, wanted) for part in get_args(hint))
    return hint is wanted


def _secrets(parameters: list[_Parameter], refs: Mapping[str, str], name: str) -> dict[str, bool]:
    """The parameters that take secrets, and whether they take the `Secret` itself."""
    hints = {p.name: p.hint for p in parameters}
    for parameter, hint in hints.items():
        if _speaks_of(hint, Secret) and parameter not in refs:
            raise ToolRefused(
                f"parameter {parameter!r} of tool {name!r} is a Secret, and nothing says which; "
                f"write @tool(secret_refs={{{parameter!r}: 'NAME'}})"
            )
    check_refs(refs, hints, name)
    for parameter in refs:
        if not any(_speaks_of(hints[parameter], kind) for kind in (Secret, str, Any)):
            raise ToolRefused(
                f"parameter {parameter!r} of tool {name!r} gets a secret; write {parameter}: Secret, or str"
            )
    return {parameter: _speaks_of(hints[parameter], Secret) for parameter in refs}


def check_refs(refs: Iterable[str], known: Iterable[str], name: str) -> None:
    """Raises `ToolRefused` for a parameter that is to get a secret and is not there."""
    names = list(known)
    for parameter in refs:
        if parameter not in names:
            guess = did_you_mean(parameter, names)
            raise ToolRefused(
                f"tool {name!r} has no parameter {shorten(repr(parameter), 40)} to take a secret{guess}"
            )


# To schemas.


class _Schemas(GenerateJsonSchema):
    """pydantic's JSON Schemas, without titles made from names, and with formats only where they hold.

    RFC 3339 wants an offset in date-time and time; a Python time has none as a rule, and a result may have none.
    """

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - as its base declares it

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def datetime_schema(self, schema: Any) -> JsonSchemaValue:
        zone = schema.get("tz_constraint")
        if zone == "naive" or (zone is None and self.mode == "serialization"):
            return {"type": "string", "description": "ISO 8601 date and time"}
        return super().datetime_schema(schema)

    def time_schema(self, schema: Any) -> JsonSchemaValue:
        return {"type": "string", "pattern": r"^\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)?$"}


def _model(parameters: list[_Parameter], said: dict[str, str], name: str) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for number, parameter in enumerate(
        parameters
    ):  # fields have names of ours: `json`, `_x`, `copy` are taken
        fields[f"arg_{number}"] = _field(parameter, said.get(parameter.name))
    config = ConfigDict(extra="forbid", val_json_bytes="base64", ser_json_bytes="base64")
    try:
        return create_model("arguments", __config__=config, **fields)
    except Exception as error:
        raise _refused(parameters, name, error) from error


def _field(parameter: _Parameter, words: str | None) -> tuple[Any, Any]:
    alias = parameter.name
    described = {"description": words} if words and not _description(parameter.hint) else {}
    names = Field(alias=alias, validation_alias=alias, serialization_alias=alias, **described)  # type: ignore[call-overload]
    default = ... if parameter.default is inspect.Parameter.empty else parameter.default
    return Annotated[parameter.hint, names], default


def _description(hint: Any) -> str | None:
    remarks = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return next((r.description for r in remarks if isinstance(r, FieldInfo) and r.description), None)


def _refused(parameters: list[_Parameter], name: str, error: Exception) -> ToolRefused:
    for parameter in parameters:
        try:
            TypeAdapter(parameter.hint)
        except Exception as its:
            kind = getattr(parameter.hint, "__name__", parameter.hint)
            return ToolRefused(
                f"parameter {parameter.name!r} of tool {name!r} is a {shorten(kind, 60)}, which JSON cannot say "
                f"({type(its).__name__}); {_instead(its)}"
            )
    return ToolRefused(f"the parameters of tool {name!r} make no schema: {shorten(error, 160)}")


def _input(model: type[BaseModel], parameters: list[_Parameter], name: str) -> dict[str, Json]:
    try:
        document = model.model_json_schema(by_alias=True, schema_generator=_Schemas)
    except PydanticUserError as error:
        raise ToolRefused(f"the parameters of tool {name!r} make no schema: {shorten(error, 160)}") from error
    document.pop("title", None)
    document.setdefault("properties", {})
    for parameter in parameters:
        if parameter.default is not inspect.Parameter.empty:
            document["properties"][parameter.name]["default"] = _plain_default(parameter, name)
    return document


def _plain_default(parameter: _Parameter, name: str) -> Json:
    try:
        return to_plain(parameter.default)
    except Unserialisable as error:
        raise ToolRefused(
            f"the default of parameter {parameter.name!r} of tool {name!r} {error.message}"
        ) from error


def _instead(error: Exception) -> str:
    """The next move where an annotation has no schema."""
    if getattr(error, "code", None) == "typed-dict-version":  # pydantic's own name for it
        return "before Python 3.12, take TypedDict from typing_extensions"
    return "use plain values, a dataclass or a model"


def _output(hint: Any, name: str) -> Json | None:
    if hint in (None, type(None), Any):
        return None
    try:
        return TypeAdapter(hint).json_schema(mode="serialization", schema_generator=_Schemas)
    except Exception as error:
        kind = getattr(hint, "__name__", hint)
        raise ToolRefused(
            f"tool {name!r} returns a {shorten(kind, 60)}, which JSON cannot say ({type(error).__name__}); "
            + _instead(error)
        ) from error


# From JSON to Python.


def _binder(parameters: list[_Parameter], model: type[BaseModel]) -> Binder:
    if not all(_is_plain(p.hint, top=True) for p in parameters):
        return _typed(parameters, model)
    whole = [p.name for p in parameters if int in _choices(p.hint) and float not in _choices(p.hint)]
    return _as_they_are(whole)


def _as_they_are(whole: list[str]) -> Binder:
    """JSON Schema holds 1.0 for an integer, and a function that asks for int must get one."""

    def bind(args: dict[str, Json]) -> dict[str, Any]:
        given: dict[str, Any] = copy_plain(args)
        for name in whole:
            if type(given.get(name)) is float:
                given[name] = int(given[name])
        return given

    return bind


def _typed(parameters: list[_Parameter], model: type[BaseModel]) -> Binder:
    fields = {f"arg_{number}": parameter for number, parameter in enumerate(parameters)}

    def bind(args: dict[str, Json]) -> dict[str, Any]:
        made = _made(model, args)
        given = made.model_fields_set
        return {
            p.name: getattr(made, field)
            for field, p in fields.items()
            if field in given or p.default is inspect.Parameter.empty
        }

    return bind


def _made(model: type[BaseModel], args: dict[str, Json]) -> BaseModel:
    try:
        try:
            return model.model_validate_json(json.dumps(args), strict=True)
        except ValidationError:
            return model.model_validate_json(json.dumps(_whole(args)), strict=True)
    except ValidationError as error:
        raise ArgumentsRefused(_sentence(error)) from error


def _whole(value: Json) -> Json:
    """The same value with 1.0 as 1, which is the same number to JSON Schema and not to a strict int."""
    if isinstance(value, dict):
        return {k: _whole(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_whole(v) for v in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _sentence(error: ValidationError) -> str:
    details = error.errors(include_url=False, include_context=False, include_input=False)
    said = [f"{'.'.join(map(str, d['loc'])) or 'the arguments'}: {shorten(d['msg'], 120)}" for d in details]
    more = f"; and {len(said) - 3} more" if len(said) > 3 else ""
    return "the arguments make no values of the tool's types: " + "; ".join(said[:3]) + more


_BOUNDS = frozenset({"Ge", "Gt", "Le", "Lt", "MultipleOf", "MinLen", "MaxLen", "Len", "Interval"})


def _is_plain(hint: Any, *, top: bool = False) -> bool:
    """Whether a validated JSON value is already what the annotation asks for. int counts at the top only (1.0)."""
    if hint in (str, float, bool, None, type(None), Any, list, dict):
        return True
    origin, parts = get_origin(hint), get_args(hint)
    if hint is int:
        return top
    if origin is Annotated:
        return _is_plain(parts[0], top=top) and all(map(_only_describes, parts[1:]))
    if origin is Literal:
        return all(type(part) in (str, bool, type(None)) for part in parts)
    if origin in (Union, types.UnionType):
        return all(_is_plain(part, top=top) for part in parts)
    if origin is list:
        return _is_plain(parts[0])
    return origin is dict and parts[0] is str and _is_plain(parts[1])


def _choices(hint: Any) -> set[Any]:
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _choices(parts[0])
    if origin in (Union, types.UnionType):
        return {choice for part in parts for choice in _choices(part)}
    return {hint} if isinstance(hint, type) else set()


def _only_describes(remark: Any) -> bool:
    """Whether the schema says all that a remark of an annotation does: it neither changes nor checks values."""
    if isinstance(remark, FieldInfo):
        return (
            remark.is_required()
            and remark.discriminator is None
            and all(map(_only_describes, remark.metadata))
        )
    kind = type(remark)
    return kind is str or (kind.__module__ == "annotated_types" and kind.__name__ in _BOUNDS)
