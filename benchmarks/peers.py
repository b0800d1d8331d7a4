"""LangGraph and DBOS, for comparison: the same steps as nodes of one graph, as steps of one workflow.

Installed for the benchmarks only; `missing` says which is not there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.util import find_spec
from itertools import count
from operator import or_
from pathlib import Path
from typing import Annotated, Any

from floor import Edges
from typing_extensions import TypedDict

__all__ = ["dbos", "installed", "langgraph", "langgraph_on_sqlite", "missing"]

Tool = Callable[[int, int, str], Awaitable[Any]]
Way = Callable[[], Awaitable[Any]]


class State(TypedDict):
    results: Annotated[dict[str, Any], or_]


def installed() -> bool:
    return find_spec("langgraph") is not None


def missing(*modules: str) -> str:
    """Why a peer cannot be measured here; "" where it can."""
    absent = [name for name in modules if find_spec(name) is None]
    return f"not installed: {', '.join(absent)}" if absent else ""


def langgraph(edges: Edges, tool: Tool, saver: Any = None, **options: Any) -> Way:
    """A compiled graph on one state of merged results; it validates nothing. Each run is a thread of its own."""
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
    compiled = graph.compile(checkpointer=saver)
    threads = count()

    async def run() -> None:
        config: dict[str, Any] = {"recursion_limit": len(edges) + 10}
        if saver is not None:
            config["configurable"] = {"thread_id": str(next(threads))}
        await compiled.ainvoke({"results": {}}, config, **options)

    return run


@asynccontextmanager
async def langgraph_on_sqlite(edges: Edges, tool: Tool, path: Path, *, full: bool) -> AsyncIterator[Way]:
    """The graph with its SQLite saver as it comes, or (`full`) so that a step is on the disk before the next begins."""
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    options: dict[str, Any] = {"durability": "sync"} if full else {}
    async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        await saver.setup()
        if full:
            await saver.conn.execute("PRAGMA synchronous = FULL")
        yield langgraph(edges, tool, saver, **options)


@asynccontextmanager
async def dbos(layers: Edges, tool: Tool, path: Path) -> AsyncIterator[Way]:
    """A workflow on SQLite whose steps are begun layer by layer, those of a layer together; each is recorded once it is done."""
    from dbos import DBOS, DBOSConfig

    config: DBOSConfig = {"name": "bench", "system_database_url": f"sqlite:///{path}", "log_level": "ERROR"}
    DBOS(config=config)
    step = DBOS.step()(tool)

    async def workflow() -> None:
        total = 1
        for layer in layers:
            found = await asyncio.gather(*(step(total, 1, "x") for _ in layer))
            total = found[0]["total"]

    run: Any = DBOS.workflow()(workflow)
    DBOS.launch()
    logging.getLogger("dbos").setLevel(logging.ERROR)
    try:
        yield run
    finally:
        DBOS.destroy(destroy_registry=True)
