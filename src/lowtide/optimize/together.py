"""Several tiled regions of a step, each one op of the outer graph, which is searched.

::

    a  b [ c d e ]xn  f  g [ h i ]xm  k        fixed regions: workspaces are the peaks of their tiles
    a  b     P1       f  a' g   P2    k        searched: the outer ops are recomputed, or their values move

Where a norm over the batch prevents tiles of all ops, the ops between such norms may be tiled. Regions are added
greedily: each time the one that lowers the highest step most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model
from lowtide.graph import Graph
from lowtide.optimize.part_clock import clock_of_step
from lowtide.optimize.parted import Orders, Parted
from lowtide.optimize.recompute.sequence import sequenced
from lowtide.optimize.recompute.swaps import Bandwidth
from lowtide.target import Target
from lowtide.topological import topological
from lowtide.transform.fission import Loop, NoFission, outer_of

_MOST_REGIONS, _MOST_TRIED = 4, 24
"""Regions of a plan, and choices that are tried for each; those of the most bytes first."""


def loops_of(within: Iterable[Parted]) -> list[Loop]:
    """Regions as they begin: the loops of the graph around them."""
    loops = []
    for choice in within:
        assert choice.region is not None
        begin = choice.begin
        loops.append(Loop(choice.region, begin.peak, choice.seconds(begin) - choice.outside_seconds))
    return loops


def around(
    graph: Graph,
    target: Target,
    within: Sequence[Parted],
    loops: Sequence[Loop],
    orders: Orders,
    bandwidth: Bandwidth | None,
) -> Parted:
    """The ops around these regions, to be searched as a step is."""
    outer = outer_of(graph, loops)
    model, order = memory_model(outer, target), tuple(orders(outer))
    clock = None if bandwidth is None else clock_of_step(outer, model, order, bandwidth)
    sequence = sequenced(model, order) if clock is None else clock.searched
    return Parted(None, None, None, sequence, order, 0, 0, 0.0, clock, tuple(within))


def together(
    graph: Graph,
    target: Target,
    pool: Sequence[Parted],
    order: Sequence[int],
    over: Callable[[], bool] = lambda: False,
) -> list[tuple[Parted, ...]]:
    """Two regions, then three and so on, that lower the peak of an order in turn; none where one alone does all. Once
    `over` says so, none is tried further. `pool`: regions in numbers of parts. `order`: positions of a good order of
    the graph."""
    place = {graph.ops[i].id: step for step, i in enumerate(order)}
    taken: tuple[Parted, ...] = ()
    found: list[tuple[Parted, ...]] = []
    lowest, at_top = _top(graph, target, (), place)
    for _ in range(_MOST_REGIONS):
        best: tuple[int, frozenset[int], Parted] | None = None
        inside = {op for choice in taken for op in _ops(choice)}
        free = [c for c in pool if inside.isdisjoint(_ops(c)) and not at_top.isdisjoint(_ops(c))]
        for choice in sorted(free, key=lambda c: c.begin.peak)[:_MOST_TRIED]:
            if over():
                break
            try:
                peak, top = _top(graph, target, (*taken, choice), place)
            except NoFission:
                continue
            if peak < (lowest if best is None else best[0]):
                best = (peak, top, choice)
        if best is None:
            break
        lowest, at_top, choice = best
        taken = (*taken, choice)
        if len(taken) > 1:
            found.append(taken)
    return found


def _ops(choice: Parted) -> frozenset[int]:
    """The user's ops in its region."""
    assert choice.region is not None
    return frozenset(op for op, _ in choice.region.axes)


def _top(graph: Graph, target: Target, within: tuple[Parted, ...], place: dict[int, int]) -> tuple[int, frozenset[int]]:
    """The peak around regions, in an order near a given one, and the ops that run there, those of a region included."""
    outer = outer_of(graph, loops_of(within)) if within else graph
    loop_ops = [op.id for op in outer.ops if op.id not in graph.op_by_id]
    members = dict(zip(sorted(loop_ops), (_ops(c) for c in within), strict=True))
    steps = {op.id: place[op.id] if op.id in place else min(place[v] for v in members[op.id]) for op in outer.ops}
    order = topological(dict(enumerate(outer.predecessors)), lambda i: steps[outer.ops[i].id])
    footprint = profile(memory_model(outer, target), order).footprint
    top = max(range(len(footprint)), key=footprint.__getitem__)
    at = outer.ops[order[top]].id
    return footprint[top], members.get(at, frozenset((at,)))
