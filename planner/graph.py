"""Who waits for whom: the steps as a graph, built once per revision of a plan.

    needs       step -> the steps it waits for          (its free names and its `after`)
    followers   step -> the steps that wait for it
    in_degrees  step -> how many it waits for           `advance` counts these down
    waves       what could start together if every step took equally long; a picture, not how steps are run

Everything here is linear in steps and edges, but for `ordered`, which keeps one bit per marked step and node:
10,000 steps with 10,000 marks are 12 MB. networkx finds the knots of a plan that has rings, and is imported only then:
that takes as long as all the rest of foreplan. Its `transitive_reduction` and its `ancestors` per node are never used
(minutes at this size).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

__all__ = ["Critical", "Graph", "shorten_path"]


class Critical(NamedTuple):
    """The longest chain of waiting: its length in the unit of the weights, and the steps on it in order."""

    length: float
    path: tuple[str, ...]


class Graph:
    """The waiting graph of a plan. Ids that are no step, and waiting for oneself, are left out of it."""

    def __init__(self, needs: Mapping[str, Iterable[str]]) -> None:
        self.needs: dict[str, tuple[str, ...]] = {
            id: tuple(n for n in dict.fromkeys(wanted) if n != id and n in needs)
            for id, wanted in needs.items()
        }

    def __len__(self) -> int:
        return len(self.needs)

    def __repr__(self) -> str:
        return f"<Graph of {len(self)} steps>"

    @cached_property
    def followers(self) -> dict[str, tuple[str, ...]]:
        """For each step, those that wait for it, in the order of the plan."""
        found: dict[str, list[str]] = {id: [] for id in self.needs}
        for id, needs in self.needs.items():
            for need in needs:
                found[need].append(id)
        return {id: tuple(ids) for id, ids in found.items()}

    @cached_property
    def in_degrees(self) -> dict[str, int]:
        """For each step, how many others it waits for."""
        return {id: len(needs) for id, needs in self.needs.items()}

    @cached_property
    def cycles(self) -> tuple[tuple[str, ...], ...]:
        """One short ring for each knot of steps that wait for each other, in the order of waiting; () for a sound plan."""
        if len(self._sound) == len(self):
            return ()
        import networkx

        knots = (set(k) for k in networkx.strongly_connected_components(self._digraph) if len(k) > 1)
        place = {id: i for i, id in enumerate(self.needs)}
        rings = (self._ring(knot, min(knot, key=place.__getitem__)) for knot in knots)
        return tuple(sorted(rings, key=lambda ring: place[ring[0]]))

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The steps so that each comes after what it needs, else as in the plan; steps in or behind a ring come last."""
        return (*self._sound, *(id for id in self.needs if id not in self._sound))

    @cached_property
    def _sound(self) -> dict[str, None]:
        """The steps that are in no ring and behind none, in order."""
        waiting = dict(self.in_degrees)
        ready = deque(id for id, n in waiting.items() if n == 0)
        found: dict[str, None] = {}
        while ready:
            id = ready.popleft()
            found[id] = None
            for follower in self.followers[id]:
                waiting[follower] -= 1
                if waiting[follower] == 0:
                    ready.append(follower)
        return found

    @cached_property
    def waves(self) -> tuple[tuple[str, ...], ...]:
        """The steps by the length of the longest chain before them; what is in or behind a ring comes in the last wave."""
        level: dict[str, int] = {}
        for id in self.order:
            level[id] = max((level.get(n, -1) + 1 for n in self.needs[id]), default=0)
        waves: list[list[str]] = [[] for _ in range(max(level.values(), default=-1) + 1)]
        for id in self.needs:
            waves[level[id]].append(id)
        return tuple(tuple(wave) for wave in waves if wave)

    def critical(self, weights: Mapping[str, float]) -> Critical:
        """The chain with the largest sum of weights (0 where none is given); a ring counts as if it were cut open."""
        best: dict[str, float] = {}
        before: dict[str, str | None] = {}
        for id in self.order:
            before[id] = max((n for n in self.needs[id] if n in best), key=best.__getitem__, default=None)
            start = best.get(before[id] or "", 0.0)
            best[id] = start + weights.get(id, 0.0)
        at = max(reversed(self.order), key=best.__getitem__, default=None)
        length, path = best.get(at or "", 0.0), []
        while at is not None:
            path.append(at)
            at = before[at]
        return Critical(length, tuple(reversed(path)))

    def behind(self, marked: Sequence[str]) -> dict[str, int]:
        """For each step, the marked steps before it, as bits: bit i stands for `marked[i]`."""
        bits = {id: 1 << i for i, id in enumerate(marked)}
        seen: dict[str, int] = {}
        for id in self.order:
            mask = 0
            for need in self.needs[id]:
                mask |= seen.get(need, 0) | bits.get(need, 0)
            seen[id] = mask
        return seen

    def unordered(self, groups: Iterable[Collection[str]]) -> list[list[tuple[str, str]]]:
        """For each group of steps, its neighbours in the order of which neither waits for the other.

        There is none exactly where the steps of the group form one chain.
        """
        rows = [sorted(group, key=self._place.__getitem__) for group in groups]
        marked = [id for row in rows for id in row]
        behind, bit = self.behind(marked), {id: i for i, id in enumerate(marked)}
        return [[(a, b) for a, b in pairwise(row) if not behind[b] >> bit[a] & 1] for row in rows]

    @cached_property
    def _place(self) -> dict[str, int]:
        return {id: i for i, id in enumerate(self.order)}

    @cached_property
    def _digraph(self) -> Any:
        import networkx

        graph = networkx.DiGraph()
        graph.add_nodes_from(self.needs)
        graph.add_edges_from((need, id) for id, needs in self.needs.items() for need in needs)
        return graph

    def _ring(self, knot: set[str], start: str) -> tuple[str, ...]:
        """The shortest way from `start` back to itself inside the knot, each step waiting for the next."""
        came: dict[str, str] = {}
        ready = deque([start])
        while ready:
            at = ready.popleft()
            for need in self.needs[at]:
                if need == start:
                    return self._trail(came, start, at)
                if need in knot and need not in came:
                    came[need] = at
                    ready.append(need)
        return (start,)

    def _trail(self, came: Mapping[str, str], start: str, end: str) -> tuple[str, ...]:
        trail = [end]
        while trail[-1] != start:
            trail.append(came[trail[-1]])
        return tuple(reversed(trail))


def shorten_path(path: Sequence[str], most: int = 8) -> str:
    """`a -> b -> ... -> z`: a path as it stands in a sentence; a long one keeps its ends and says how long it is."""
    if len(path) <= most:
        return " -> ".join(path)
    head, tail = path[: most // 2], path[-(most // 2 - 1) :]
    return " -> ".join([*head, "...", *tail]) + f" ({len(path) - 1:,} steps)"
