"""Regions cut anew where the peak of ordered parts is: what the exact scheduler made low stays, others are cut finer.

The search along an order (`lowtide.optimize.regions`) takes the fewest ops that reach the lowest peak as it reckons it:
stripe by stripe, in one order. One region that it takes for high holds all others up. The scheduler then orders the
parts, and that region may need far less; now the others are higher than it::

    reckoned    A 50   B 49   C 48        B and C are left as coarse as A allows
    ordered     A 45   B 49   C 47
    anew        A stays, below 49 now: B, and below 47 C, are cut finer, while some way leads there

A limit below the peak is lowered by bisection. Under each, regions whose parts stay below it in the order that was
found are kept, and count what they need there; all other ops are free, and the search looks for a way for them. Where
none leads below the peak, regions that are as high are given twice as many stripes. Nothing rests on what the search
believes: the parts are ordered again, and their peak is what counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lowtide.analyse.liveness import profile
from lowtide.analyse.model import MemoryModel
from lowtide.graph import Graph, Op
from lowtide.optimize.regions import FINEST, way_within
from lowtide.stop import Limits
from lowtide.topological import topological
from lowtide.transform.cut import AGAIN, PACES, Cutter, Pace, Region
from lowtide.transform.hand_on import hand_on
from lowtide.transform.parts import PartGraph, apply

_NEARLY = 256
"""The bisection ends when the limit is known to such a part of the peak."""


@dataclass(frozen=True)
class Realised:
    """What regions, and ops that run whole, need in an order of the parts.

    Attributes
    ----------
    order
        Positions of the ops of the graph that was cut, each where the last of its parts runs.
    regions
        Bytes of each region, by its place in `PartGraph.regions`: at the highest step from its first part to its last.
    whole
        Bytes of each op that runs whole while no region runs, by id.
    """

    order: tuple[int, ...]
    regions: tuple[int, ...]
    whole: Mapping[int, int]
    peak: int


def realised(graph: Graph, parts: PartGraph, memory: MemoryModel) -> Realised:
    """What the own order of a part graph comes to, region by region.

    Parameters
    ----------
    graph
        That was cut.
    memory
        Of the part graph.
    """
    ops, windows = parts.graph.ops, region_windows(parts)
    footprint = profile(memory, range(len(ops))).footprint
    inside = {step for window in windows for step in range(*window)}
    whole, last = dict[int, int](), dict[int, int]()
    for step, op in enumerate(ops):
        part = parts.parts.get(op.id)
        if part is None and step not in inside:
            whole[op.id] = footprint[step]
        last[op.id if part is None or part.of is None else part.of] = step
    order = tuple(topological(dict(enumerate(graph.predecessors)), lambda i: last.get(graph.ops[i].id, -1)))
    needs = tuple(max(footprint[begin:end]) for begin, end in windows)
    return Realised(order, needs, whole, max(footprint, default=0))


def region_windows(parts: PartGraph) -> list[tuple[int, int]]:
    """Steps ``[begin, end)`` of the own order from each region's first part to its last."""
    of_op = {cut.op: k for k, region in enumerate(parts.regions) for cut in region.cuts}
    regions = _regions_of(parts.graph, parts, of_op)
    steps: dict[int, list[int]] = {}
    for step, op in enumerate(parts.graph.ops):
        if op.id in regions:
            steps.setdefault(regions[op.id], []).append(step)
    return [(steps[k][0], steps[k][-1] + 1) for k in range(len(parts.regions))]


def _regions_of(own: Graph, parts: PartGraph, of_op: Mapping[int, int]) -> dict[int, int]:
    """The region of each part, and of what stands between parts: what makes a tensor whole, and sums, are of the region
    that made the pieces, all else of the one that reads them."""
    found = {o: of_op[p.of] for o, p in parts.parts.items() if p.of is not None and p.of in of_op}
    for op in reversed(own.ops):
        if op.id not in found and _is_for_readers(parts, op):
            readers = (found.get(o) for t in op.outputs for o in own.consumers.get(t, ()))
            found.update((op.id, k) for k in [k for k in readers if k is not None][:1])
    for op in own.ops:
        if op.id in parts.parts and op.id not in found:
            makers = (found.get(own.producer.get(t, -1)) for t in op.inputs)
            found.update((op.id, k) for k in [k for k in makers if k is not None][:1])
    return found


def _is_for_readers(parts: PartGraph, op: Op) -> bool:
    part = parts.parts.get(op.id)
    return part is not None and part.role != "merge" and op.outputs[0] in parts.pieces


def recuts(
    cutter: Cutter, memory: MemoryModel, parts: PartGraph, ordered: MemoryModel, limits: Limits, least: int
) -> Iterator[PartGraph]:
    """The parts with some regions cut anew, in an own order to begin with: by the way that leads furthest below their
    peak, then with twice as many stripes in each region that is as high, at each pace.

    Parameters
    ----------
    memory
        Of the graph that was cut, under a target.
    ordered
        Of the part graph, whose own order is the one that was found.
    least
        Bytes; no lower peak is of use.
    """
    now = realised(cutter.graph, parts, ordered)
    found = _furthest(cutter, memory, parts, now, limits, least)
    if found is not None:
        yield _again(cutter, parts, now, *found)
    fine = [region.stripes > FINEST // 2 for region in parts.regions]
    high = [k for k, size in enumerate(now.regions) if size == now.peak]
    tried = {found and tuple(found[1])}
    paces = (*PACES, *AGAIN) if cutter.again else PACES
    for pace in paces if high and not any(fine[k] for k in high) else ():
        finer = [_finer(cutter, parts.regions[k], pace, now) for k in high]
        kept = [region for k, region in enumerate(parts.regions) if k not in high]
        if tuple(finer) not in tried and not limits.over():
            tried.add(tuple(finer))
            yield _again(cutter, parts, now, kept, finer)


def _finer(cutter: Cutter, region: Region, pace: Pace, now: Realised) -> Region:
    """A region in twice as many stripes."""
    within = [cutter.graph.ops[i].id for i in now.order if cutter.graph.ops[i].id in region.of]
    return cutter.region(within, {cut.op: cut.axis for cut in region.cuts}, 2 * region.stripes, pace)


def _furthest(
    cutter: Cutter, memory: MemoryModel, parts: PartGraph, now: Realised, limits: Limits, least: int
) -> tuple[list[Region], list[Region]] | None:
    """Regions that stay, and new ones, by bisection over limits on the peak; None: no way leads below it."""
    found, low, high = None, least, now.peak
    limit = high - 1
    while limit >= low and high - low > now.peak // _NEARLY and not limits.over():
        regions = _below(cutter, memory, parts, now, limit, limits)
        if regions is None:
            low = limit + 1
        else:
            found, high = regions, limit
        limit = low + (high - low) // 2
    return found


def _again(cutter: Cutter, parts: PartGraph, now: Realised, kept: Sequence[Region], new: Sequence[Region]) -> PartGraph:
    again = apply(cutter, [*kept, *new], [cutter.graph.ops[i].id for i in now.order])
    if _hands_on(cutter.graph, parts):
        again = hand_on(cutter.graph, again)
    return replace(again, graph=_as_before(parts, again, new))


def _below(
    cutter: Cutter, memory: MemoryModel, parts: PartGraph, now: Realised, limit: int, limits: Limits
) -> tuple[list[Region], list[Region]] | None:
    """Regions that stay, and new ones, all below a limit as far as is known; None: no way leads there."""
    graph = cutter.graph
    kept = [region for region, size in zip(parts.regions, now.regions, strict=True) if size <= limit]
    sizes = dict(now.whole)
    for region, size in zip(parts.regions, now.regions, strict=True):
        sizes.update((cut.op, size) for cut in region.cuts if size <= limit)
    stay = {cut.op for region in kept for cut in region.cuts}
    free = {op.id for op in graph.ops} - stay
    if cutter.only is not None:
        free &= set(cutter.only)
    own = profile(memory, now.order).footprint
    footprint = [sizes.get(graph.ops[i].id, own[k]) for k, i in enumerate(now.order)]
    rest = Cutter(graph, exact_bits=cutter.exact_bits, only=free, again=cutter.again)
    way = way_within(rest, memory, now.order, limits, limit, footprint)
    return None if way is None else (kept, list(way.regions))


def _hands_on(graph: Graph, parts: PartGraph) -> bool:
    """Whether what some region makes for others is put together by nobody."""
    for region in parts.regions:
        for t in (t for op in region.of for t in graph.op_by_id[op].outputs):
            outside = any(reader not in region.of for reader in graph.consumers.get(t, ()))
            if outside and t not in parts.graph.producer:
                return True
    return False


def _as_before(parts: PartGraph, again: PartGraph, new: Sequence[Region]) -> Graph:
    """The new parts: those of each new region together, as late as the last of its ops ran, all else as it stood."""
    step = {op.name: k for k, op in enumerate(parts.graph.ops)}
    late: dict[int, int] = {}
    for k, op in enumerate(parts.graph.ops):
        part = parts.parts.get(op.id)
        late[op.id if part is None or part.of is None else part.of] = k
    last = [max(late[op] for op in region.of) for region in new]
    regions = _regions_of(again.graph, again, {op: k for k, region in enumerate(new) for op in region.of})
    keys, at = list[int](), 0
    for op in again.graph.ops:
        at = last[regions[op.id]] if op.id in regions else step.get(op.name, late.get(op.id, at))
        keys.append(at)
    order = topological(dict(enumerate(again.graph.predecessors)), keys.__getitem__)
    return replace(again.graph, ops=tuple(again.graph.ops[i] for i in order))
