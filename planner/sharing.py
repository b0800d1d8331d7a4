"""Which steps of a plan all rows of a batch share: those that would be the same in every row, and only read.

    depends on the row      it names `inputs` or `run`, or waits for a step that does      once per row
    does not                only reads                                                      once, unless `per: row`
                            writes or acts                                                  an error until it says `per`

A step that says `per: batch` must not depend on the row, nor on one that runs per row.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..policies.effect import Effect
from ..registry.registry import Registry
from .findings import Finding, quoted
from .plan import Plan, Step
from .sites import Site, finding
from .study import Study

__all__ = ["shared_by_rows", "shared_in"]

_OF_THE_ROW = frozenset({"inputs", "run"})


def shared_in(plan: Plan, registry: Registry) -> tuple[str, ...]:
    """The steps that run once for all rows, in the order of the plan; of a plan that passes the check of a batch."""
    return shared_by_rows(Study(plan, registry))[0]


def shared_by_rows(study: Study) -> tuple[tuple[str, ...], tuple[Finding, ...]]:
    """The steps that run once for all rows, in the order of the plan, and what is wrong with that."""
    graph, sites = study.graph, study.root.by_id
    of_row, shared = set[str](), set[str]()
    findings: list[Finding] = []
    for id_ in graph.order:
        site = sites[id_]
        bound = _names_row(site) or any(need in of_row for need in graph.needs[id_])
        findings += _wrong(study, site, bound)
        if bound or site.step.per == "row":
            of_row.add(id_)
        else:
            shared.add(id_)
    findings += _inside(study)
    return tuple(site.id for site in study.root.sites if site.id in shared), tuple(findings)


def _names_row(site: Site) -> bool:
    if not _OF_THE_ROW.isdisjoint(site.names()):
        return True
    return site.inner is not None and any(_names_row(inside) for inside in site.inner.sites)


def _wrong(study: Study, site: Site, bound: bool) -> Iterator[Finding]:
    if site.step.per == "batch" and bound:
        said = f"{quoted(site.id)} is to run once for all rows, and depends on the row"
        yield finding("per_row", f"{site.pointer}/per", said, "leave `per` out")
    if bound or site.step.per is not None:
        return
    effects = [tool for step in _calls(site) if (tool := study.tool(step)) is not None]
    changing = next((tool for tool in effects if tool.effect is not Effect.READS), None)
    if changing is not None:
        what = "acts" if changing.effect is Effect.ACTS else "writes"
        said = f"{quoted(site.id)} is the same for every row and {what}: it must say whether it runs once or for each row"
        yield finding("per_unsaid", site.pointer, said, "`per: batch` or `per: row`")


def _calls(site: Site) -> Iterator[Step]:
    yield site.step
    for inside in site.inner.sites if site.inner is not None else ():
        yield from _calls(inside)


def _inside(study: Study) -> Iterator[Finding]:
    """Steps inside a group go with it."""
    for site in study.sites:
        if site.step.per is not None and site.block is not study.root:
            said = f"{quoted(site.id)} stands in a group, and runs as often as the group does"
            yield finding("per_inside", f"{site.pointer}/per", said, "say `per` at the group")
