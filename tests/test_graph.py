"""The waiting graph: rings, order, waves, the critical path, and what is linear stays linear."""

from __future__ import annotations

import time

import networkx
from hypothesis import given, settings
from hypothesis import strategies as st

from foreplan.planner.graph import Graph, shorten_path

DIAMOND = Graph({"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]})


def test_a_diamond_has_three_waves() -> None:
    """Waves are the picture of what could start together."""
    assert DIAMOND.waves == (("a",), ("b", "c"), ("d",))
    assert DIAMOND.in_degrees == {"a": 0, "b": 1, "c": 1, "d": 2}
    assert DIAMOND.followers == {"a": ("b", "c"), "b": ("d",), "c": ("d",), "d": ()}


def test_what_is_no_step_and_waiting_for_oneself_are_left_out() -> None:
    """The check tells those; the graph stays a graph."""
    assert Graph({"a": ["a", "ghost", "b", "b"], "b": []}).needs == {"a": ("b",), "b": ()}


def test_the_critical_path_is_the_heaviest_chain() -> None:
    """Lengths are sums of weights; what has no weight weighs nothing."""
    assert DIAMOND.critical({"a": 1, "b": 5, "c": 2}) == (6.0, ("a", "b", "d"))
    assert Graph({}).critical({}) == (0.0, ())


def test_a_ring_has_a_critical_path_too() -> None:
    """Cut open somewhere; a review of a plan with a ring must end."""
    ring = Graph({"a": ["c"], "b": ["a"], "c": ["b"], "d": ["c"]})
    assert ring.critical(dict.fromkeys("abcd", 1.0)).length <= 4


def test_a_ring_is_shown_once_and_short() -> None:
    """The shortest way round, beginning with the first step of the plan that lies on it."""
    graph = Graph({"x": ["c"], "a": ["b"], "b": ["c", "a"], "c": ["a"]})
    assert graph.cycles == (("a", "b"),)
    assert set(graph.order) == {"x", "a", "b", "c"}


def test_each_knot_has_its_own_ring() -> None:
    """Two separate rings are two findings."""
    graph = Graph({"a": ["b"], "b": ["a"], "c": ["d"], "d": ["c"], "e": []})
    assert graph.cycles == (("a", "b"), ("c", "d"))


def test_a_long_path_is_shortened_for_people() -> None:
    """Both ends stay, and the length is said."""
    path = [f"s{i}" for i in range(100)]
    assert shorten_path(path) == "s0 -> s1 -> s2 -> s3 -> ... -> s97 -> s98 -> s99 (99 steps)"
    assert shorten_path(["a", "b", "a"]) == "a -> b -> a"


def test_steps_that_form_a_chain_are_ordered() -> None:
    """`unordered` names neighbours of which neither waits for the other, also across steps in between."""
    graph = Graph({"a": [], "m": ["a"], "b": ["m"], "c": ["a"]})
    assert graph.unordered([["a", "b"], ["b", "c"], ["a", "b", "c"]]) == [[], [("c", "b")], [("c", "b")]]


def test_ten_thousand_steps_take_a_moment() -> None:
    """A ring of 10,000, and 10,000 marked steps with 30,000 edges, stay far below a second each."""
    n = 10_000
    start = time.process_time()
    assert len(Graph({f"s{i}": [f"s{(i + 1) % n}"] for i in range(n)}).cycles[0]) == n
    wide = Graph({f"s{i}": [f"s{i // k}" for k in (2, 3, 5) if i // k < i] for i in range(n)})
    assert wide.waves
    assert wide.unordered([list(wide.needs)])[0]
    assert time.process_time() - start < 5


graphs = st.integers(1, 9).flatmap(
    lambda n: st.lists(st.lists(st.integers(0, n - 1), max_size=3), min_size=n, max_size=n)
)


@given(graphs)
@settings(max_examples=200, deadline=None)
def test_the_graph_agrees_with_networkx(edges: list[list[int]]) -> None:
    """Rings are real rings, an order is found where there is none, `behind` are the ancestors."""
    graph = Graph({str(i): [str(n) for n in needs] for i, needs in enumerate(edges)})
    plain = networkx.DiGraph((n, id) for id, needs in graph.needs.items() for n in needs)
    plain.add_nodes_from(graph.needs)
    for ring in graph.cycles:
        assert all(b in graph.needs[a] for a, b in zip(ring, [*ring[1:], ring[0]], strict=True))
    assert bool(graph.cycles) == (not networkx.is_directed_acyclic_graph(plain))
    if graph.cycles:
        return
    place = {id: i for i, id in enumerate(graph.order)}
    assert all(place[n] < place[id] for id, needs in graph.needs.items() for n in needs)
    marked = list(graph.needs)
    behind = graph.behind(marked)
    for id in marked:
        assert {m for i, m in enumerate(marked) if behind[id] >> i & 1} == networkx.ancestors(plain, id)
    assert graph.critical(dict.fromkeys(marked, 1.0)).length == networkx.dag_longest_path_length(plain) + 1
