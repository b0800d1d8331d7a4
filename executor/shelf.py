"""Which tools models are shown: chosen for a goal, and kept with the plan that was made of them.

A search of yours runs in a thread, within a time limit; where it fails or takes too long, words do.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial

import anyio

from ..planner.plan import Plan
from ..planner.route import choose_tools
from ..policies.errors import BadInput
from ..policies.permissions import Level, Principal
from ..registry.registry import Registry
from ..registry.search import Search
from .hands.threads import Job, Threads

__all__ = ["Shelf"]

_MOST_PLANS = 1000
"""So many plans are remembered with their tools."""
_LOG = logging.getLogger("foreplan")


class Shelf:
    """The choices of one engine."""

    def __init__(self, search: Search | None) -> None:
        if search is not None and not callable(getattr(search, "over", None)):
            raise BadInput(
                f"search has a method `over`, like EmbeddingSearch(embed); {type(search).__name__} has none"
            )
        self._search = search
        self._threads = Threads()
        self._kept: dict[str, tuple[str, ...]] = {}

    def keep(self, plan: Plan, tools: Registry) -> None:
        """Remember what a plan was made of, so that its re-plans are too."""
        self._kept.pop(plan.digest, None)
        self._kept[plan.digest] = tools.names
        while len(self._kept) > _MOST_PLANS:
            del self._kept[next(iter(self._kept))]

    def kept(self, plan: Plan) -> tuple[str, ...]:
        """The names of the tools that a plan was made of; none where it came from elsewhere."""
        return self._kept.get(plan.digest, ())

    async def choose(
        self,
        goal: str,
        registry: Registry,
        principal: Principal,
        *,
        most: int | None,
        always: Iterable[str],
        filled: bool,
        max_level: Level | None,
        seconds: float | None,
    ) -> Registry:
        """`choose_tools`, by the engine's search."""
        choose = partial(
            choose_tools,
            goal,
            registry,
            principal,
            most=most,
            always=tuple(always),
            filled=filled,
            max_level=max_level,
        )
        if self._search is None:
            return choose()
        why = f"it gave nothing within {seconds} s"
        with anyio.move_on_after(seconds):
            try:
                found: Registry = await self._threads.wait(Job(partial(choose, search=self._search), _drop))
                return found
            except BadInput:
                raise
            except Exception as error:
                why = f"it raised {type(error).__name__}"
        _LOG.warning("tools are chosen by words, since the search cannot be used: %s", why)
        return choose()


def _drop(job: Job) -> None:
    """What comes too late is of no use."""
