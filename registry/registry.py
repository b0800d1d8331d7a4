"""The tools that can be called, by name; narrowed by wrapping: `registry.only(effect="reads").prefixed("crm.")`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from ..policies.effect import Effect
from ..policies.errors import BadInput, ToolRefused, UnknownTool, expect
from ..policies.permissions import Level, Principal, lacking
from ..policies.spelling import spelled
from ..policies.text import did_you_mean, nearest, shorten
from .names import resolve_name
from .tools import Tool, tool

if TYPE_CHECKING:
    from .search import Hit, Ranking, Search

__all__ = ["Registry"]

P = ParamSpec("P")
R = TypeVar("R")


class Registry:
    """Tools by name, in the order they were added.

    `only`, `permitted`, `prefixed`, `renamed` and `|` give new registries, so they go one after the other.

    `registry[name]` raises `UnknownTool` with the nearest names; `name in registry`, `len(registry)` and
    `for tool in registry` do what they say.
    """

    @spelled
    def __init__(self, *tools: Tool) -> None:
        self._tools: dict[str, Tool] = {}
        self._rankings: dict[Search | None, Ranking] = {}
        for each in tools:
            self.add(each)

    @classmethod
    def of(cls, tools: Registry | Iterable[Tool]) -> Registry:
        """The registry itself, or one of these tools. Raises `BadInput` for what is neither."""
        if isinstance(tools, Registry):
            return tools
        if isinstance(tools, str | bytes | PurePath):
            raise BadInput(
                f"tools are handed in as a Registry or a list, not as a name ({shorten(str(tools), 60)!r}); "
                "import them first: from tools import registry"
            )
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
        self._rankings.clear()
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

    def search(
        self,
        query: str,
        k: int = 10,
        *,
        principal: Principal | None = None,
        max_level: Level | None = None,
        search: Search | None = None,
    ) -> list[Tool]:
        """The tools that fit these words best, the best first, at most `k`; of a principal, those that it may call.

        `search` is another way than by words (see `search.py`). The tools are read once for each, so the first
        question takes longer than the others.
        """
        _expect_question(query, k)
        if principal is None and max_level is None:
            return [hit.tool for hit in self.ranked(query, k, search=search)]
        visible = self.only(permitted=principal, max_level=max_level)
        found = self.ranked(query, max(len(self), k), search=search)
        return [hit.tool for hit in found if hit.tool.name in visible][:k]

    def ranked(self, query: str, k: int = 10, *, search: Search | None = None) -> list[Hit]:
        """As `search`, with scores, which can be compared with each other only; whoever may call the tools."""
        _expect_question(query, k)
        return self._ranking(search).rank(query, k)

    def _ranking(self, search: Search | None) -> Ranking:
        if search not in self._rankings:
            from .search import WordSearch

            self._rankings[search] = (search or WordSearch()).over(list(self))
        return self._rankings[search]

    # -------------------------------------------------------------------------------------------------- narrowing

    def only(
        self,
        *,
        effect: Effect | str | Iterable[Effect | str] | None = None,
        names: Iterable[str] | None = None,
        tags: Iterable[str] | None = None,
        permitted: Principal | None = None,
        max_level: Level | None = None,
    ) -> Registry:
        """The tools that have one of these effects, names and tags, that the principal may call, of at most a level.

        Raises `UnknownTool` for a name that no tool has, and `BadInput` for such a tag or effect: a misspelt one must not
        silently leave a tool out.
        """
        kept = list(self)
        if names is not None:
            wanted = {self[name].name for name in _several(names)}
            kept = [each for each in kept if each.name in wanted]
        if effect is not None:
            effects = {_effect(said) for said in _several(effect)}
            kept = [each for each in kept if each.effect in effects]
        if tags is not None:
            chosen = self._tags(_several(tags))
            kept = [each for each in kept if not chosen.isdisjoint(each.tags)]
        if permitted is not None:
            kept = [each for each in kept if not lacking(permitted, each.permissions)]
        if max_level is not None:
            kept = [each for each in kept if not each.level.above(max_level)]
        return Registry(*kept)

    def _tags(self, tags: Iterable[str]) -> set[str]:
        known = dict.fromkeys(tag for each in self for tag in each.tags)
        chosen = set(tags)
        for tag in sorted(chosen - known.keys()):
            raise BadInput(f"no tool has the tag {shorten(repr(tag), 60)}{did_you_mean(tag, known)}")
        return chosen

    def permitted(self, who: Principal | Iterable[str]) -> Registry:
        """The tools that a principal, or the holder of these permissions, may call: `permitted(["crm:*"])`.

        What a principal's roles permit is among its permissions only after `Roles.grant`.
        """
        if isinstance(who, Principal):
            return self.only(permitted=who)
        expect(Iterable, who, "who is permitted", "give a Principal or a list of permissions")
        return self.only(permitted=Principal(id="holder", permissions=tuple(_several(who))))

    def prefixed(self, prefix: str) -> Registry:
        """The same tools, each name with this before it: `crm.` makes `crm.find` of `find`."""
        expect(str, prefix, "a prefix")
        return self.renamed(lambda name: prefix + name)

    def renamed(self, names: Mapping[str, str] | Callable[[str], str]) -> Registry:
        """The same tools under other names: `{"old": "new"}`, or a function of each name.

        A tool that is the `undo` of another stays so under its new name. Raises `UnknownTool` for an old name that no
        tool has, `ToolRefused` where two tools get one name.
        """
        if isinstance(names, Mapping):
            given = {self[old].name: new for old, new in names.items()}
            new_names = {name: given.get(name, name) for name in self.names}
        elif not callable(names):
            raise BadInput(f'new names are a dict {{"old": "new"}} or a function, not {type(names).__name__}')
        else:
            new_names = {name: names(name) for name in self.names}
        return Registry(*(_renamed(each, new_names) for each in self))

    def __or__(self, other: object) -> Registry:
        """The tools of both. Raises `ToolRefused` where two different tools have one name."""
        if not isinstance(other, Registry):
            return NotImplemented
        return Registry(*self, *other)


def _renamed(old: Tool, names: Mapping[str, str]) -> Tool:
    name, undo = names[old.name], names.get(old.undo, old.undo)
    new = old if name == old.name else old.renamed(name)
    return new if undo == old.undo else dataclasses.replace(new, undo=undo)


def _expect_question(query: object, k: object) -> None:
    if not isinstance(query, str) or isinstance(k, bool) or not isinstance(k, int) or k < 1:
        said = f"search({shorten(repr(query), 40)}, k={shorten(repr(k), 20)})"
        raise BadInput(f"a search takes text and how many tools are wanted (k, from 1), not {said}")


def _several(given: Iterable[str]) -> list[str]:
    """One text is a list of one, not of its letters."""
    return [given] if isinstance(given, str) else list(given)


def _effect(said: str) -> Effect:
    try:
        return Effect(said)
    except ValueError:
        known = [each.value for each in Effect]
        guess = did_you_mean(str(said), known)
        raise BadInput(
            f"there is no effect {shorten(repr(said), 40)}; there are {', '.join(known)}{guess}"
        ) from None
