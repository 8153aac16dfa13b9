"""A graph whose ops run in passes and in stripes: statistics as sums, ops that run again, pieces handed on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lowtide.ops.piece import Part
from lowtide.rewrites import Recompute, Sums
from lowtide.transform import hand_on, runs
from lowtide.transform.cut import Cutter, Region
from lowtide.transform.parts import PartGraph, apply
from lowtide.transform.runs import Runs
from lowtide.transform.statistics import Expanded


@dataclass(frozen=True)
class Passed:
    """What is decided.

    Attributes
    ----------
    expanded
        The user's graph with statistics as sums.
    runs
        That with the ops that run again.
    parts
        That in parts, and of each op of it what it is of the user's file (`PartGraph.sources`).
    """

    expanded: Expanded
    runs: Runs
    parts: PartGraph


def as_passed(
    expanded: Expanded, sequence: Sequence[int], regions: Callable[[Cutter, Runs], Sequence[Region]]
) -> Passed:
    """The parts of a sequence of ops, some of which run again.

    Parameters
    ----------
    sequence
        Op ids of the expanded graph.
    regions
        Of the graph of all runs.
    """
    graph = expanded.graph
    again = runs.apply(graph, [graph.index_of[op] for op in sequence])
    return in_parts(expanded, again, regions(Cutter(again.graph), again))


def in_parts(expanded: Expanded, again: Runs, regions: Sequence[Region]) -> Passed:
    """The same with regions that are known."""
    cut = again.graph
    parts = hand_on.hand_on(cut, apply(Cutter(cut), regions, again.order))
    sources = _sources(expanded, again)
    whole = {
        op.id: Part("whole", op.id)
        for op in parts.graph.ops
        if op.id not in parts.parts and (op.id in sources or op.operands != expanded.graph.op_by_id[op.id].operands)
    }
    gone = frozenset(op for e in expanded.expansions for op in e.statistic.gone)
    whole_parts = replace(parts, parts={**parts.parts, **whole}, sources=sources, gone=gone)
    sums = [
        Sums(op=e.statistic.op, gone=list(e.statistic.gone), ops=list(e.ops), tensors=list(e.tensors))
        for e in expanded.expansions
    ]
    return Passed(expanded, again, replace(whole_parts, before=(*sums, *again.rewrites)))


def _sources(expanded: Expanded, again: Runs) -> dict[int, int | None]:
    """Of ops that the user's file does not hold, the one that they are once more; None: they are new."""
    new = {op for e in expanded.expansions for op in e.ops}
    sources: dict[int, int | None] = dict.fromkeys(new, None)
    for rewrite in (r for r in again.rewrites if isinstance(r, Recompute)):
        sources[rewrite.op] = None if rewrite.of in new else rewrite.of
    return sources
