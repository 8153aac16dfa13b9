"""Regions whose results are forwarded tile by tile and never materialised, at the lowest peak.

    region 1 -> a b c d -> join -> x -> slices -> region 2        x is live twice, then until the last slice
    region 1 -> a b c d -> region 2                               a is freed when its rows have been read

Whether a tensor has to be materialised depends on how its consumers are tiled, and along which dimension. So the core
keeps, for each position of the order, a path for every choice of unmaterialised tensors and dimensions (`core/cut`).
`lowtide.transform.hand_on` decides which tensors are materialised, and the peak is that of its part graph: no result
rests on the estimate of the search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lowtide.analyse.liveness import profile
from lowtide.analyse.model import MemoryModel
from lowtide.analyse.storage import memory_model
from lowtide.graph import MAX_BYTES, Kind
from lowtide.ops.index import FIXED
from lowtide.optimize.regions import ANY, Bounds, Way, best_regions
from lowtide.stop import Limits
from lowtide.transform.cut import PACES, Cutter, Region
from lowtide.transform.hand_on import hand_on
from lowtide.transform.parts import PartGraph, apply

_SHARE = 0.5  # of the time that is left, what each look has


@dataclass(frozen=True)
class Forwarded:
    """A result of the search."""

    way: Way  # regions to tile; `Way.peak` is the estimate of the search
    parts: PartGraph  # the part graph, with its forwarded tensors
    peak: int  # bytes of the parts in their order; `MAX_BYTES` more for each byte of a tensor above its limit
    evaluated: int  # candidates of all searches


def forwardable(cutter: Cutter) -> dict[int, tuple[int, ...]]:
    """Dimensions along which the producer and all consumers of a tensor can be tiled, by tensor."""
    result: dict[int, tuple[int, ...]] = {}
    for tensor in cutter.graph.tensors:
        if tensor.kind is Kind.ACTIVATION and tensor.id in cutter.graph.producer and tensor.shape:
            dims = tuple(d for d in range(len(tensor.shape)) if _is_forwardable(cutter, tensor.id, d))
            if dims:
                result[tensor.id] = dims
    return result


def _is_forwardable(cutter: Cutter, tensor: int, dim: int) -> bool:
    graph = cutter.graph
    maker = graph.producer[tensor]
    known, readers = cutter.meaning(maker), graph.consumers.get(tensor, ())
    if known is None or not readers:
        return False
    axis = known.access.outputs[graph.op_by_id[maker].outputs.index(tensor)][dim]
    if axis is None or cutter.spelling(maker, axis) is None:
        return False
    for reader in readers:
        reads = [dims for _, read, dims in cutter.reads(reader) if read == tensor]
        if not reads:
            return False
        for dims in reads:
            index = dims[dim] if dim < len(dims) else None
            if index is None or index.axis == FIXED or index.num <= 0 or cutter.spelling(reader, index.axis) is None:
                return False
    return True


def best_forwarded(
    cutter: Cutter, memory: MemoryModel, order: Sequence[int], limits: Limits, below: int, bounds: Bounds = ANY
) -> tuple[Forwarded | None, bool]:
    """The best result below a peak, or None; and whether Ctrl-C ended the search. `memory`: the graph under a target.
    `order`: positions in the file order. `below`: bytes of the best known peak."""
    dims = forwardable(cutter)
    best: Forwarded | None = None
    evaluated = 0
    while dims and below > bounds.least:
        look = limits.share(_SHARE)
        way = best_regions(cutter, memory, order, look, bounds, forwarded=dims)
        evaluated += way.evaluated
        if not way.complete and not look.over():
            return best, True
        if not way.regions or way.peak >= below:
            break
        found = _aligned(cutter, memory, _in_parts(cutter, memory, way, evaluated), limits)
        if found.peak < below:
            best, below = found, found.peak
        materialised = {t for t in way.forwarded if _is_materialised(found.parts, t)}
        if not materialised or found.peak <= way.peak or limits.over():  # without these no path had a lower estimate
            break
        dims = {t: along for t, along in dims.items() if t not in materialised}
    return (None if best is None else replace(best, evaluated=evaluated)), False


def _in_parts(cutter: Cutter, memory: MemoryModel, way: Way, evaluated: int) -> Forwarded:
    ids = [cutter.graph.ops[i].id for i in way.order]
    parts = hand_on(cutter.graph, apply(cutter, way.regions, ids))
    peak = profile(memory_model(parts.graph, memory.target), range(len(parts.graph.ops))).peak
    return Forwarded(way, parts, peak + MAX_BYTES * memory.target.above_limit(parts.graph), evaluated)


def _aligned(cutter: Cutter, memory: MemoryModel, best: Forwarded, limits: Limits) -> Forwarded:
    """Regions with the stripe counts of their neighbours, where that lowers the peak: slices are then read as they are
    written."""
    improved = True
    while improved:
        improved, high = False, _at_the_peak(cutter, memory, best)
        for k, stripes in _other_stripes(cutter, best.way.regions):
            regions = best.way.regions
            if regions[k].stripes == stripes or k not in high:
                continue
            for pace in PACES[:2]:
                if limits.over():
                    return best
                axes = {cut.op: cut.axis for cut in regions[k].cuts}
                region = cutter.region([cut.op for cut in regions[k].cuts], axes, stripes, pace)
                way = replace(best.way, regions=(*regions[:k], region, *regions[k + 1 :]))
                other = _in_parts(cutter, memory, way, best.evaluated)
                if other.peak < best.peak:
                    best, improved, high = other, True, _at_the_peak(cutter, memory, other)
                    break
    return best


def _at_the_peak(cutter: Cutter, memory: MemoryModel, best: Forwarded) -> set[int]:
    """Regions that produce or read a tensor that is live at the peak. Other regions do not change the peak."""
    parts, graph = best.parts, cutter.graph
    ordered = memory_model(parts.graph, memory.target)
    steps = profile(ordered, range(len(parts.graph.ops)))
    there = {s for s in range(len(ordered.storages)) if steps.first[s] <= steps.peak_step <= steps.last[s]}
    running = parts.graph.ops[steps.peak_step].outputs
    of = {cut.op: k for k, region in enumerate(best.way.regions) for cut in region.cuts}
    found = set[int]()
    for t, storage in ordered.storage_of.items():
        if storage in there:
            origin = parts.slices[t].of if t in parts.slices else t
            readers = graph.consumers.get(origin, ()) if t in running else ()
            found |= {of[op] for op in (*readers, graph.producer.get(origin, -1)) if op in of}
    return found


def _other_stripes(cutter: Cutter, regions: Sequence[Region]) -> list[tuple[int, int]]:
    """Regions, by position, and how many stripes those have that they share a tensor with."""
    graph = cutter.graph
    of = {cut.op: k for k, region in enumerate(regions) for cut in region.cuts}
    pairs = set()
    for op, k in of.items():
        for t in graph.op_by_id[op].outputs:
            others = {of[reader] for reader in graph.consumers.get(t, ()) if of.get(reader, k) != k}
            together = {k, *others} if others else set()
            pairs |= {(a, regions[b].stripes) for a in together for b in together if a != b}
    return sorted(pairs)


def _is_materialised(parts: PartGraph, tensor: int) -> bool:
    """Whether a tensor is materialised from its slices."""
    part = parts.parts.get(parts.graph.producer.get(tensor, -1))
    return part is not None and part.role == "join"
