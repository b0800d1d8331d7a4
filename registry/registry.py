"""The tools that can be called, by name; narrowed by wrapping: `registry.only(effect="reads").prefixed("crm.")`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ParamSpec, TypeVar, overload

from ..policies.effect import Effect
from ..policies.errors import BadInput, ToolRefused, UnknownTool
from ..policies.permissions import Level, Principal, lacking
from ..policies.text import nearest, shorten
from .names import resolve_name
from .tools import Tool, tool

__all__ = ["Registry"]

P = ParamSpec("P")
R = TypeVar("R")


class Registry:
    """Tools by name, in the order they were added. `only`, `prefixed` and `|` give new registries.

    `registry[name]` raises `UnknownTool` with the nearest names; `name in registry`, `len(registry)` and
    `for tool in registry` do what they say.
    """

    def __init__(self, *tools: Tool) -> None:
        self._tools: dict[str, Tool] = {}
        for each in tools:
            self.add(each)

    @classmethod
    def of(cls, tools: Registry | Iterable[Tool]) -> Registry:
        """The registry itself, or one of these tools. Raises `BadInput` for what is neither."""
        if isinstance(tools, Registry):
            return tools
        if not isinstance(tools, Iterable):
            one = "; put a single tool in a list" if isinstance(tools, Tool) else ""
            raise BadInput(f"tools are handed in as a Registry or a list, not as {type(tools).__name__}{one}")
        return cls(*tools)

    def add(self, new: Tool) -> Tool:
        """Add a tool. Raises `ToolRefused` where another tool has its name."""
        if not isinstance(new, Tool):
            hint = "; put @tool above the function" if callable(new) else ""
            raise ToolRefused(f"a registry holds tools, not {shorten(repr(new), 60)}{hint}")
        other = self._tools.get(new.name)
        if other is not None and other is not new:
            raise ToolRefused(
                f"two tools are called {new.name!r}: {other.origin} and {new.origin}; "
                "rename one, or use .prefixed()"
            )
        self._tools[new.name] = new
        return new

    @overload
    def tool(self, function: Callable[P, R], /) -> Tool[Callable[P, R]]: ...

    @overload
    def tool(
        self, function: None = None, /, **options: Any
    ) -> Callable[[Callable[P, R]], Tool[Callable[P, R]]]: ...

    def tool(self, function: Any = None, /, **options: Any) -> Any:
        """`@registry.tool`, with the options of `@tool`: make a tool and add it."""
        if function is not None:
            return self.add(tool(function))
        make = tool(**options)
        return lambda wrapped: self.add(make(wrapped))

    def __getitem__(self, name: str) -> Tool:
        try:
            return self._tools[name]
        except KeyError:
            raise UnknownTool(name, self.nearest(name)) from None

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __repr__(self) -> str:
        return f"<Registry of {len(self)} tool{'' if len(self) == 1 else 's'}>"

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in the order of adding."""
        return tuple(self._tools)

    def get(self, name: str) -> Tool | None:
        """The tool of this name, or None."""
        return self._tools.get(name)

    def nearest(
        self, name: str, principal: Principal | None = None, *, max_level: Level | None = None
    ) -> list[str]:
        """Names like this one, the likeliest first; only of tools that the principal may call, where one is given."""
        visible = self if principal is None else self.only(permitted=principal, max_level=max_level)
        meant = resolve_name(name, visible.names)
        return nearest(name, visible.names) if meant is None else [meant]

    def only(
        self,
        *,
        effect: Effect | str | Iterable[Effect | str] | None = None,
        names: Iterable[str] | None = None,
        permitted: Principal | None = None,
        max_level: Level | None = None,
    ) -> Registry:
        """The tools that have one of these effects, one of these names, that the principal may call, of at most a level.

        Raises `UnknownTool` for a name that no tool has: a misspelt one must not silently leave a tool out.
        """
        kept = list(self)
        if names is not None:
            wanted = {self[name].name for name in ([names] if isinstance(names, str) else names)}
            kept = [each for each in kept if each.name in wanted]
        if effect is not None:
            effects = {Effect(e) for e in ([effect] if isinstance(effect, str) else effect)}
            kept = [each for each in kept if each.effect in effects]
        if permitted is not None:
            kept = [each for each in kept if not lacking(permitted, each.permissions)]
        if max_level is not None:
            kept = [each for each in kept if not each.level.above(max_level)]
        return Registry(*kept)

    def prefixed(self, prefix: str) -> Registry:
        """The same tools, each name with this before it: `crm.` makes `crm.find` of `find`."""
        return Registry(*(each.renamed(prefix + each.name) for each in self))

    def __or__(self, other: object) -> Registry:
        """The tools of both. Raises `ToolRefused` where two different tools have one name."""
        if not isinstance(other, Registry):
            return NotImplemented
        return Registry(*self, *other)
