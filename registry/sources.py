"""Tools of Python code that is there already: a module's functions, a class's or an object's methods, Pydantic AI's tools.

    tools_of(ledger, prefix="ledger.", effects={"balance": "reads"})

    public names --defined there?--> function --types?--> Tool       whatever the operator says of it
                                        └──> ToolFinding              why it is none; the others load all the same

Code says of itself nothing that counts: what a function does to the world is said by whoever makes tools of it, and where
nobody does it acts. Nothing is called to find this out, no property read, no object made.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any

from ..policies.effect import Effect
from ..policies.errors import BadInput, ToolRefused
from ..policies.spelling import spelled
from ..policies.text import shorten
from .imports import ToolFinding
from .mcp_declared import Said
from .options import OPTIONS, check_options, checked_name
from .registry import Registry
from .tools import Tool, tool

__all__ = ["FoundTools", "tools_of"]

_Found = Iterator[tuple[str, Any]]


class FoundTools(Registry):
    """The tools of some Python code."""

    def __init__(self, tools: Iterable[Tool], findings: Iterable[ToolFinding]) -> None:
        super().__init__(*tools)
        self.findings = tuple(findings)
        """What was left out, and why."""


@spelled
def tools_of(
    source: Any,
    *,
    prefix: str = "",
    names: Collection[str] | None = None,
    effect: Effect | str = Effect.ACTS,
    effects: Mapping[str, Effect | str] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    **common: Any,
) -> FoundTools:
    """The tools that `source` is full of: a module, a class, an object, a toolset of Pydantic AI, or a list of functions.

    Of a module the public functions that it defines (what it imports only where its `__all__` says so), of an object its
    public methods, of a class those that need no object. What is a tool already comes as it is. Each other acts unless
    `effects` (by name) or `effect` say less; `options` are those of `@tool` by name, `common` those of all; `names` are
    the ones that are wanted. What cannot be a tool is among the `findings` of what comes back.

    Raises `BadInput` for a source without any function, and for a name that it does not have.
    """
    checked_name(f"{prefix}x")
    found = dict(_functions(source))
    said = Said(prefix, effect, effects or {}, options or {}, common, names, origin=_origin(source))
    if not found:
        own = " of its own; hand in a list of those it imports" if inspect.ismodule(source) else ""
        raise BadInput(f"{said.origin} has no public function{own}")
    said.check(found)
    check_options({name for each in (common, *said.options.values()) for name in each})
    wanted = {name: each for name, each in found.items() if names is None or name in names}
    made = [_made(name, function, said, source) for name, function in wanted.items()]
    tools = [each for each in made if isinstance(each, Tool)]
    return FoundTools(tools, [each for each in made if isinstance(each, ToolFinding)])


def _origin(source: Any) -> str:
    if inspect.ismodule(source):
        return f"module {source.__name__}"
    if isinstance(source, type):
        return f"class {source.__name__}"
    return f"this {type(source).__name__}"


# --- What there is.


def _functions(source: Any) -> _Found:
    """What has a public name in the source and can be called, by that name. Raises `BadInput` for what has no names."""
    if isinstance(source, str | bytes | int | float | None):
        hint = "; import it, and hand in the module itself" if isinstance(source, str) else ""
        raise BadInput(
            f"tools are made of a module, a class, an object or functions, not {_shown(source)}{hint}"
        )
    if inspect.ismodule(source):
        return _of_module(source)
    if _of_pydantic_ai(source, "FunctionToolset"):
        return iter(source.tools.items())
    if _of_pydantic_ai(source, "AbstractToolset"):
        raise BadInput(
            f"which tools a {type(source).__name__} has, it says to an agent only; hand in the functions, or the "
            "FunctionToolset beneath it, with prefix= and names="
        )
    if isinstance(source, list | tuple | set | frozenset | Registry):
        return _of_list(source)
    if isinstance(source, Tool) or inspect.isroutine(source) or _of_pydantic_ai(source, "Tool"):
        return _of_list([source])
    return _of_object(source)


def _shown(source: Any) -> str:
    return shorten(repr(source), 40)


def _of_module(module: ModuleType) -> _Found:
    said = getattr(module, "__all__", None)
    for name in list(vars(module)) if said is None else said:
        value = getattr(module, name, None)
        own = said is not None or getattr(value, "__module__", None) == module.__name__
        if _public(name) and (isinstance(value, Tool) or (own and inspect.isroutine(value))):
            yield name, value


def _of_object(source: Any) -> _Found:
    """Methods, as they are called on it; properties are not read, so nothing of it runs."""
    kind = source if isinstance(source, type) else type(source)
    for name in dir(kind):
        plain = inspect.getattr_static(kind, name)
        own = not hasattr(object, name) and _public(name)
        if own and (isinstance(plain, Tool | staticmethod | classmethod) or inspect.isroutine(plain)):
            yield name, getattr(source, name)


def _of_list(source: Iterable[Any]) -> _Found:
    seen: set[str] = set()
    for each in source:
        name = getattr(each, "name", None) or getattr(each, "__name__", None) or type(each).__name__
        if name in seen:
            raise BadInput(f"two of the functions are called {_shown(name)}; make tools of them one by one")
        if not callable(each) and not _of_pydantic_ai(each, "Tool"):
            raise BadInput(f"tools are made of functions, not of {_shown(each)}")
        seen.add(name)
        yield name, each


def _public(name: str) -> bool:
    return not name.startswith("_")


def _of_pydantic_ai(value: Any, kind: str) -> bool:
    """Whether it is of this class; who has such an object has imported the library."""
    library = sys.modules.get("pydantic_ai.toolsets" if kind.endswith("set") else "pydantic_ai.tools")
    return library is not None and isinstance(value, getattr(library, kind))


# --- What becomes of it.


def _made(name: str, function: Any, said: Said, source: Any) -> Tool | ToolFinding:
    """A tool of a function, or why it is none. What the operator says wrongly of it is raised."""
    if isinstance(function, Tool):
        return _ready(name, function, said)
    options = said.options_of(name)
    if isinstance(source, type) and _needs_object(source, name):
        return ToolFinding(name, "needs_an_object", f"make an object: tools_of({source.__name__}(…))")
    if _of_pydantic_ai(function, "Tool"):
        if why := _agents_only(function):
            return ToolFinding(name, "needs_an_agent", why)
        options = {**_said_by(function), **options}
        function = function.function
    _judge(options, name)
    try:
        return tool(**options, name=said.prefix + name)(function)
    except ToolRefused as error:
        if name in said.options:  # then it is what was said of it that may be wrong
            raise
        return ToolFinding(shorten(name, 80), "not_a_tool", shorten(str(error), 300))


def _ready(name: str, made: Tool, said: Said) -> Tool:
    if name in said.effects or name in said.options:
        raise BadInput(f"{name!r} of {said.origin} is a tool already, and says itself what it does")
    return made.renamed(said.prefix + made.name) if said.prefix else made


def _needs_object(kind: type, name: str) -> bool:
    return not isinstance(inspect.getattr_static(kind, name), staticmethod | classmethod | Tool)


def _judge(options: Mapping[str, Any], name: str) -> None:
    """Raises `ToolRefused` for an option that is none for any function: a slip of the operator's is no finding."""
    for key in ("effect", "level", "timeout", "permissions", "tags", "cost", "host"):
        if key in options:
            OPTIONS[key](options[key], name, None)  # type: ignore[arg-type]


# --- Tools of Pydantic AI.


def _agents_only(made: Any) -> str:
    """Why a tool of Pydantic AI cannot be called without an agent; "" where it can."""
    if made.takes_ctx:
        return "its function takes a RunContext, which only an agent has; foreplan's ToolContext may serve"
    if made.prepare is not None or made.args_validator is not None:
        return "it asks an agent's RunContext whether and how it may be called"
    return ""


def _said_by(made: Any) -> dict[str, Any]:
    """What such a tool says of itself that makes it stricter, or is a text."""
    said: dict[str, Any] = {"description": made.description or ""}
    if made.requires_approval:
        said["requires_approval"] = "each"
    if made.timeout is not None:
        said["timeout"] = made.timeout
    return said
