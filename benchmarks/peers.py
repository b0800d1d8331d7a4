"""LangGraph, for comparison: the same steps as nodes of one graph. Installed for the benchmarks only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from operator import or_
from typing import Annotated, Any

from floor import Edges
from typing_extensions import TypedDict

__all__ = ["installed", "langgraph"]


class State(TypedDict):
    results: Annotated[dict[str, Any], or_]


def installed() -> bool:
    return find_spec("langgraph") is not None


def langgraph(edges: Edges, tool: Callable[[int, int, str], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    """A compiled graph on one state of merged results, without a saver; it validates nothing."""
    from langgraph.graph import END, START, StateGraph

    def node(i: int, needs: list[int]) -> Callable[[State], Awaitable[dict[str, Any]]]:
        async def run(state: State) -> dict[str, Any]:
            a = state["results"][f"s{needs[0]}"]["total"] if needs else 1
            return {"results": {f"s{i}": await tool(a, 1, "x")}}

        return run

    graph: Any = StateGraph(State)
    last = {need for needs in edges for need in needs}
    for i, needs in enumerate(edges):
        graph.add_node(f"s{i}", node(i, needs))
        if needs:
            graph.add_edge([f"s{n}" for n in needs] if len(needs) > 1 else f"s{needs[0]}", f"s{i}")
        else:
            graph.add_edge(START, f"s{i}")
        if i not in last:
            graph.add_edge(f"s{i}", END)
    compiled = graph.compile()

    async def run() -> None:
        await compiled.ainvoke({"results": {}}, {"recursion_limit": len(edges) + 10})

    return run
